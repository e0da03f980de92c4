"""What the planner works with: nodes, quotas and jobs; queued jobs, expected ends and free nodes ahead in order."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

INF = math.inf


class PlannerPool(NamedTuple):
    """Nodes that are alike to the planner; nobody starts on them who may run into one of the `windows` [s]."""

    nodes: int
    domain: int = 0
    partitions: tuple[int, ...] = (0,)
    windows: tuple[tuple[float, float], ...] = ()


class Quota(NamedTuple):
    """What a tenant may use [GPU]: its own, what it may borrow beside that, and what of its own others may have."""

    nominal: float = INF
    borrow: float = INF
    lend: float = INF
    weight: float = 1.0


class SharedNode:
    """A node that jobs below a node share; `node` is for the engine, which chooses it."""

    __slots__ = ("claimed", "end", "free", "gone", "jobs", "node", "number", "pool")

    def __init__(self, number: int, pool: int, gpus: int) -> None:
        self.number = number
        self.pool = pool
        self.free = gpus
        self.end = 0.0
        self.jobs: dict[PlannerJob, None] = {}
        self.claimed: PlannerJob | None = None
        self.gone: set[PlannerJob] = set()
        """Jobs of it that would be stopped, while victims are chosen."""
        self.node: Any = None


Place: TypeAlias = "tuple[tuple[int, int], ...] | SharedNode"

"""Nodes of each pool, or the node that a job shares."""


class PlannerJob:
    """A job in the queue, or one that runs.

    Parameters
    ----------
    number, submit
        Ties are broken by submit [s], then number.
    nodes, gpus
        Whole nodes, 0 for a job below a node; GPUs that it asks for.
    limit
        Time limit that is left [s]; infinite without one.
    eligible
        Since when it may start, and its age counts [s].
    owner
        What the engine keeps of it.
    """

    __slots__ = (
        "claim", "eligible", "end", "entry", "gpus", "is_reclaimed", "lane", "limit", "named_at", "nodes", "number",
        "owner", "partition", "preemptions", "preemptor", "priority", "qos", "serial", "shape", "share", "size",
        "start", "submit", "target", "tenant", "victims", "where",
    )  # fmt: skip

    def __init__(
        self, number: int, nodes: int, gpus: int, *, limit: float = INF, priority: float = 0, submit: float = 0.0,
        eligible: float | None = None, tenant: int = 0, partition: int = 0, qos: int = 0, owner: Any = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.nodes = nodes
        self.gpus = gpus
        self.limit = limit
        self.priority = priority
        self.submit = submit
        self.eligible = submit if eligible is None else eligible
        self.tenant = tenant
        self.partition = partition
        self.qos = qos
        self.owner = owner
        self.preemptions = 0
        self.serial = 0
        self.size = gpus
        """GPUs that it takes."""
        self.shape: tuple[float, ...] = ()
        """What it asks for: jobs of one shape fit in the same places."""
        self.lane: QueueSegment | None = None
        self.entry: tuple[Any, ...] = ()
        self.start = self.end = math.nan
        self.where: tuple[tuple[int, int], ...] = ()
        self.share: SharedNode | None = None
        self.preemptor: PlannerJob | None = None
        self.named_at = math.nan
        """When it was last named as a victim [s]."""
        self.is_reclaimed = False
        """Whether it is, or was, stopped for the quota of the preemptor's tenant, and not for the class."""
        self.victims: dict[PlannerJob, None] = {}
        """Who is being stopped for it and still runs."""
        self.target: dict[int, int] = {}
        """Nodes of each pool that it will start on when its victims are gone, and those that it has of them."""
        self.claim: dict[int, int] = {}


class SortedBlocks:
    """Tuples in order, in blocks that are kept short: changes cost O(log n), for all practical n.

    What `measure` makes of a block is kept until it changes.
    """

    __slots__ = ("blocks", "lasts", "measure", "measured")

    def __init__(self, measure: Callable[[list[Any]], Any]) -> None:
        self.measure = measure
        self.blocks: list[list[Any]] = []
        self.lasts: list[Any] = []
        self.measured: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def add(self, entry: tuple[Any, ...]) -> None:
        """Put an entry in its place."""
        at = bisect_left(self.lasts, entry)
        if at == len(self.blocks):
            if not at:
                self.blocks, self.lasts, self.measured = [[entry]], [entry], [None]
                return
            at -= 1
        block = self.blocks[at]
        insort(block, entry)
        self.lasts[at] = block[-1]
        self.measured[at] = None
        if len(block) > _BLOCK:
            half = _BLOCK // 2
            self.blocks[at : at + 1] = [block[:half], block[half:]]
            self.lasts.insert(at, block[half - 1])
            self.measured.insert(at, None)

    def remove(self, entry: tuple[Any, ...]) -> None:
        """Take an entry out, which is there."""
        at = bisect_left(self.lasts, entry)
        block = self.blocks[at]
        del block[bisect_left(block, entry)]
        if block:
            self.lasts[at] = block[-1]
            self.measured[at] = None
        else:
            del self.blocks[at], self.lasts[at], self.measured[at]

    def parts(self) -> Iterator[tuple[list[Any], Any]]:
        """Yield the blocks in order, each with its measure."""
        for at, block in enumerate(self.blocks):
            measured = self.measured[at]
            if measured is None:
                measured = self.measured[at] = self.measure(block)
            yield block, measured


_BLOCK = 128


class QueueSegment(SortedBlocks):
    """Queued jobs whose order among themselves does not change as time passes."""

    __slots__ = ("capped", "partition", "tenant", "tier")

    def __init__(self, partition: int, tier: int, tenant: int, capped: bool) -> None:
        super().__init__(_least)
        self.partition = partition
        self.tier = tier
        self.tenant = tenant
        self.capped = capped


def _least(block: list[tuple[Any, ...]]) -> tuple[int, float]:
    """Return the size of the smallest job of a block, and the shortest time limit."""
    return min(entry[-1].size for entry in block), min(entry[-1].limit for entry in block)


class AvailabilityProfile:
    """Free nodes of a pool from now on: `free[i]` from `times[i]` to the next."""

    __slots__ = ("free", "known", "times")

    def __init__(self, now: float, free: int, ends: SortedBlocks) -> None:
        self.times = [now]
        self.free = [free]
        self.known: dict[int | tuple[int, float], float] = {}
        """Before when so many nodes are not free, and not for how long, as far as was asked [s]."""
        soon = math.nextafter(now, INF)
        times, frees, last = self.times, self.free, now
        for end, _, nodes in itertools.chain.from_iterable(ends.blocks):
            free += nodes
            if end > last:
                if end == INF:
                    break
                last = end if end > soon else soon
                times.append(last)
                frees.append(free)
            elif last == now:
                last = soon  # a job beyond its limit may end at any moment, but has not
                times.append(last)
                frees.append(free)
            else:
                frees[-1] = free

    def forget(self, now: float) -> None:
        """Begin at `now`."""
        at = bisect_right(self.times, now) - 1
        if at > 0:
            del self.times[:at], self.free[:at]
        self.times[0] = now

    def least(self, start: float, end: float) -> int:
        """Return the fewest nodes that are free at `start` and until `end`, which rounding may bring to the start."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return min(self.free[first : max(bisect_left(self.times, end), first + 1)])

    def earliest(self, nodes: int, length: float, latest: float = INF) -> float:
        """Return since when `nodes` are free for `length` [s]; infinite for never, or after `latest` [s]."""
        known, times, free = self.known, self.times, self.free
        shape = nodes, length
        is_new = shape not in known
        after = known.get(nodes, -INF) if is_new else known[shape]
        if after > latest:
            return INF
        first = max(bisect_right(times, after) - 1, 0)
        while first < len(times) and free[first] < nodes:
            first += 1
        if is_new:
            known[nodes] = times[first] if first < len(times) else INF
        since = until = INF
        for at in range(first, len(times)):
            time = times[at]
            if time >= until:
                break
            if free[at] < nodes:
                since = until = INF
            elif since == INF:
                if time > latest:
                    break
                since = time
                until = time + length
        known[shape] = since
        return since

    def take(self, start: float, end: float, nodes: int) -> None:
        """Take `nodes` from `start` until `end`."""
        first = self._cut(start)
        last = len(self.times) if end == INF else self._cut(end)
        self.free[first:last] = [free - nodes for free in self.free[first:last]]

    def give(self, start: float, end: float, nodes: int) -> None:
        """Add nodes from `start`, or now, until `end`."""
        soon = math.nextafter(self.times[0], INF)
        self.take(max(start, self.times[0]), max(end, soon), -nodes)
        self.known.clear()

    def _cut(self, time: float) -> int:
        """Return where `time` begins an interval; it does so from now on."""
        at = bisect_left(self.times, time)
        if at == len(self.times) or self.times[at] != time:
            self.times.insert(at, time)
            self.free.insert(at, self.free[at - 1])
        return at


def nodes_of(block: list[tuple[float, int, int]]) -> int:
    """Return the nodes that are freed by the ends in a block."""
    return sum(nodes for _, _, nodes in block)


class RunningClass:
    """Running jobs of a class, in order of start: those that are safe from preemption, and the others."""

    __slots__ = ("gpus", "old", "ready", "young")

    def __init__(self) -> None:
        self.young: dict[PlannerJob, None] = {}
        self.old: dict[PlannerJob, None] = {}
        self.gpus = self.ready = 0
        """GPUs of all, and of those that are not safe."""

    def start(self, job: PlannerJob) -> None:
        """Add a job that starts."""
        self.young[job] = None
        self.gpus += job.size

    def end(self, job: PlannerJob) -> None:
        """Take out a job that has ended."""
        self.gpus -= job.size
        if self.young.pop(job, self) is self:
            del self.old[job]
            self.ready -= job.size

    def __contains__(self, job: PlannerJob) -> bool:
        return job in self.young or job in self.old

    def settle(self, now: float, exempt: float) -> None:
        """Move those that have run for `exempt` seconds."""
        while self.young:
            job = next(iter(self.young))
            if job.start + exempt > now:
                return
            del self.young[job]
            self.old[job] = None
            self.ready += job.size

    def next_ready(self, now: float, exempt: float) -> float:
        """Return when the next of those that are safe no longer is [s]; infinite if none is."""
        self.settle(now, exempt)
        return next(iter(self.young)).start + exempt if self.young else INF

    def in_order(self, order: str) -> Iterable[PlannerJob]:
        """Return those that are not safe, the first to go first."""
        if order == "smallest":
            newest_first = list(reversed(self.old))
            return sorted(newest_first, key=lambda job: job.size)
        return reversed(self.old) if order == "youngest" else self.old


def next_multiple(time: float, step: float) -> float:
    """Return the first multiple of `step` from `time` on; one that was returned stays as it is."""
    return math.ceil(round(time / step, 9)) * step
