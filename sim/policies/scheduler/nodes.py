"""The books of nodes: which are free, when the others are expected, who shares one, who has claimed some; and jobs."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ettrick.sim.policies.scheduler.profile import INF, Entry, SortedBlocks, next_multiple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.sim.policies.scheduler.keys import Scheduler


class PlannerPool(NamedTuple):
    """Nodes that are alike to the planner; nobody starts on them who may run into one of the `windows` [s]."""

    nodes: int
    domain: int = 0
    partitions: tuple[int, ...] = (0,)
    windows: tuple[tuple[float, float], ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class SharedNode:
    """A node that jobs below a node share; `node` is for the engine, which chooses it."""

    number: int
    pool: int
    free: int
    end: float = 0.0
    jobs: dict[PlannerJob, None] = field(default_factory=dict)
    claimed: PlannerJob | None = None
    gone: set[PlannerJob] = field(default_factory=set)
    """Jobs of it that would be stopped, while victims are chosen."""
    node: Any = None


Place: TypeAlias = "tuple[tuple[int, int], ...] | SharedNode"
"""Nodes of each pool, or the node that a job shares."""


class QueueSegment(SortedBlocks):
    """Queued jobs whose order among themselves does not change as time passes."""

    __slots__ = ("capped", "partition", "tenant", "tier")

    def __init__(self, partition: int, tier: int, tenant: int, capped: bool) -> None:
        super().__init__(_least)
        self.partition = partition
        self.tier = tier
        self.tenant = tenant
        self.capped = capped

    @property
    def first(self) -> PlannerJob:
        """The first of the jobs."""
        job: PlannerJob = self.blocks[0][0][-1]
        return job


def _least(block: list[Entry]) -> tuple[int, float]:
    """Return the size of the smallest job of a block, and the shortest time limit."""
    return min(entry[-1].size for entry in block), min(entry[-1].limit for entry in block)


_NO_SEGMENT = QueueSegment(0, 0, 0, capped=False)


@dataclass(slots=True, eq=False, repr=False)
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
    """

    number: int
    nodes: int
    gpus: int
    _: KW_ONLY
    limit: float = INF
    priority: float = 0
    submit: float = 0.0
    tenant: int = 0
    partition: int = 0
    qos: int = 0
    eligible: float = field(init=False)
    """Since when it may start, and its age counts [s]."""
    preemptions: int = field(default=0, init=False)
    serial: int = field(default=0, init=False)
    size: int = field(init=False)
    """GPUs that it takes."""
    shape: tuple[float, ...] = field(default=(), init=False)
    """The shape of its request: jobs of one shape fit in the same places."""
    is_queued: bool = field(default=False, init=False)
    lane: QueueSegment = field(default=_NO_SEGMENT, init=False)
    """The segment of the queue where it waits, or waited."""
    entry: Entry = field(default=(), init=False)
    start: float = field(default=math.nan, init=False)
    end: float = field(default=math.nan, init=False)
    where: tuple[tuple[int, int], ...] = field(default=(), init=False)
    share: SharedNode | None = field(default=None, init=False)
    preemptor: PlannerJob | None = field(default=None, init=False)
    named_at: float = field(default=math.nan, init=False)
    """The time at which it was last named as a victim [s]."""
    is_reclaimed: bool = field(default=False, init=False)
    """Whether it is, or was, stopped for the quota of the preemptor's tenant, and not for the class."""
    victims: dict[PlannerJob, None] = field(default_factory=dict, init=False)
    """The victims that are being stopped for it and still run."""
    target: dict[int, int] = field(default_factory=dict, init=False)
    """Nodes of each pool that it will start on when its victims are gone, and those that it has of them."""
    claim: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Count its age from its submission."""
        self.eligible = self.submit
        self.size = self.gpus


def _freed(block: list[tuple[float, int, int]]) -> int:
    """Return the nodes that are freed by the ends in a block."""
    return sum(nodes for _, _, nodes in block)


class ExpectedEnds(SortedBlocks):
    """Expected ends of what holds nodes of a pool [s], each with a number and the nodes that are free then.

    A change waits until somebody looks ahead (`settled`): most jobs have come and gone by then.
    """

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        super().__init__(_freed)
        self._changes: dict[Entry, Callable[[SortedBlocks, Entry], None]] = {}

    def add(self, entry: Entry) -> None:
        """Put in an entry."""
        if self._changes.pop(entry, None) is None:
            self._changes[entry] = SortedBlocks.add

    def remove(self, entry: Entry) -> None:
        """Take out an entry, which is there."""
        if self._changes.pop(entry, None) is None:
            self._changes[entry] = SortedBlocks.remove

    def settled(self) -> ExpectedEnds:
        """Return the ends with all changes made."""
        for entry, change in self._changes.items():
            change(self, entry)
        self._changes.clear()
        return self


class NodeLedger:
    """The owners of nodes, and the claims on those of jobs that are being stopped.

    Parameters
    ----------
    keys
        Of the scheduler.
    pools
        The nodes; all of them are free.
    gpus
        GPUs of a node.
    partitions
        How many there are.
    """

    def __init__(self, keys: Scheduler, pools: Sequence[PlannerPool], gpus: int, partitions: int) -> None:
        self.resolution = keys.resolution
        self.tie = {"latest-end": -1.0, "earliest-end": 1.0, "oldest": 0.0}[keys.share_tie]
        self.pools = tuple(pools)
        self.gpus = gpus
        self.total = sum(pool.nodes for pool in pools)
        self.free = [pool.nodes for pool in pools]
        self.ends = [ExpectedEnds() for _ in pools]
        self.shares: list[list[list[tuple[float, int, SharedNode]]]] = [[[] for _ in range(gpus)] for _ in pools]
        """By pool and free GPUs: heaps of (tie, number, share), in which outdated entries stay until they come up."""
        self.sharing = self.stranded = 0
        """Shared nodes, and their free GPUs."""
        self.claimers: dict[PlannerJob, None] = {}
        """Queued jobs for which others are stopped, or have been."""
        self.of_partition = [
            sorted(
                (index for index, pool in enumerate(pools) if partition in pool.partitions),
                key=lambda index: (not pools[index].windows, len(pools[index].partitions), index),
            )
            for partition in range(partitions)
        ]
        """Pools of each partition; those that others cannot use come first."""
        self._numbers = itertools.count(1)

    def count(self, job: PlannerJob) -> int:
        """Return the free nodes of a job's partition."""
        pools = self.of_partition[job.partition]
        return self.free[pools[0]] if len(pools) == 1 else sum(self.free[pool] for pool in pools)

    def largest(self) -> int:
        """Return the GPUs of the largest job that could start, at most."""
        free = sum(self.free)
        return free * self.gpus if free else min(self.stranded, self.gpus - 1)

    def has_room(self) -> bool:
        """Return whether any GPU is free."""
        return self.stranded > 0 or any(self.free)

    def rounded(self, time: float) -> float:
        """Return an expected end as the scheduler sees it [s]."""
        step = self.resolution
        return time if not step or abs(time) == INF else next_multiple(time, step)

    # Jobs that run.

    def start(self, job: PlannerJob, now: float, place: Place) -> None:
        """Give a job its nodes."""
        job.start = now
        job.end = now + job.limit
        if isinstance(place, SharedNode):
            self._join(place, job)
        elif not job.nodes:
            ((pool, _),) = place
            self.free[pool] -= 1
            self.sharing += 1
            self.stranded += self.gpus
            self._join(SharedNode(next(self._numbers), pool, self.gpus), job)
        else:
            for pool, nodes in place:
                self.free[pool] -= nodes
            self.seat(job, place)

    def seat(self, job: PlannerJob, place: tuple[tuple[int, int], ...]) -> None:
        """Expect the end of a job on these nodes, and on no others."""
        end = self.rounded(job.end)
        for pool, nodes in job.where:
            self.ends[pool].remove((end, job.serial, nodes))
        job.where = place
        for pool, nodes in place:
            self.ends[pool].add((end, job.serial, nodes))

    def end(self, job: PlannerJob) -> None:
        """Free the nodes of a job that ran; those that were taken from others are claimed."""
        if job.share is not None:
            self._leave(job.share, job)
        else:
            for pool, nodes in job.where:
                self.free[pool] += nodes
            self.seat(job, ())
        if job.preemptor is not None:
            job.preemptor.victims.pop(job, None)
            job.preemptor = None
        if self.claimers:
            self.top_up()

    def hasten(self, job: PlannerJob, end: float) -> None:
        """Expect the end of a running job no later than `end` [s]."""
        end = min(end, job.end)
        if job.share is not None:
            job.end = end
            self._set_end(job.share, self._last_end(job.share))
            return
        place = job.where
        self.seat(job, ())
        job.end = end
        self.seat(job, place)

    # Nodes that several jobs share.

    def _join(self, share: SharedNode, job: PlannerJob) -> None:
        """Add a job to a shared node."""
        share.jobs[job] = None
        share.free -= job.gpus
        self.stranded -= job.gpus
        job.share = share
        end = self.rounded(job.end)
        self._set_end(share, end if end > share.end else share.end)

    def _leave(self, share: SharedNode, job: PlannerJob) -> None:
        """Take a job out of a shared node, which is free with the last of them."""
        job.share = None
        del share.jobs[job]
        share.free += job.gpus
        self.stranded += job.gpus
        is_last = self.rounded(job.end) >= share.end
        self._set_end(share, self._last_end(share) if is_last else share.end)
        if share.jobs:
            return
        self.stranded -= self.gpus
        self.sharing -= 1
        self.free[share.pool] += 1
        if share.claimed is not None:
            share.claimed.share = None
            share.claimed.target = {share.pool: 1}

    def _last_end(self, share: SharedNode) -> float:
        """Return the expected end of the last job of a shared node [s]; 0 without jobs."""
        return self.rounded(max([job.end for job in share.jobs], default=0.0))

    def _set_end(self, share: SharedNode, end: float) -> None:
        """Expect a shared node to be free with the last of its jobs, at an end [s], and offer its other GPUs."""
        if end != share.end:
            ends = self.ends[share.pool]
            if share.end:
                ends.remove((share.end, -share.number, 1))
            if share.jobs:
                ends.add((end, -share.number, 1))
            share.end = end
        if share.jobs:
            self._offer(share)

    def _offer(self, share: SharedNode) -> None:
        """Offer the free GPUs of a shared node."""
        if 0 < share.free < self.gpus:
            heapq.heappush(self.shares[share.pool][share.free], (self._key(share), share.number, share))

    def _key(self, share: SharedNode) -> float:
        """Return what orders shared nodes that are as full [s]."""
        return self.tie * share.end if self.tie else 0.0

    def first_share(self, pool: int, free: int) -> SharedNode | None:
        """Return the shared node with so many free GPUs that comes first by `share_tie`; of equal ones the oldest."""
        heap = self.shares[pool][free]
        while heap:
            key, _, share = heap[0]
            stays = not self.claimers or (share.claimed is None and any(job.preemptor is None for job in share.jobs))
            if stays and share.free == free and key == self._key(share):
                return share
            heapq.heappop(heap)
        return None

    # Claims.

    def top_up(self) -> None:
        """Claim free nodes for those who have stopped others, up to what they need."""
        for job in self.claimers:
            for pool, nodes in job.target.items():
                count = min(nodes - job.claim.get(pool, 0), self.free[pool])
                if count > 0:
                    self.free[pool] -= count
                    job.claim[pool] = job.claim.get(pool, 0) + count

    def unclaim(self, job: PlannerJob) -> None:
        """Free what a job has claimed."""
        if self.claimers.pop(job, self) is self:
            return
        for pool, nodes in job.claim.items():
            self.free[pool] += nodes
        if job.share is not None:
            job.share.claimed = None
            self._offer(job.share)
            job.share = None
        for victim in job.victims:
            victim.preemptor = None
            if victim.share is not None:
                self._offer(victim.share)
        job.claim, job.target, job.victims = {}, {}, {}

    def change(self, pool: int, delta: int, now: float) -> None:
        """Add nodes that return to a pool, or take out those that are lost or drained: if need be, claimed ones."""
        self.free[pool] += delta
        for job in reversed(self.claimers):
            if self.free[pool] >= 0:
                break
            count = min(job.claim.get(pool, 0), -self.free[pool])
            if count:
                job.claim[pool] -= count
                self.free[pool] += count
        assert self.free[pool] >= 0, f"at {now} pool {pool} has {self.free[pool]} free nodes"
        self.top_up()

    def claimed(self, pools: Sequence[int]) -> int:
        """Return the nodes of some pools that are claimed and free."""
        return sum(job.claim.get(pool, 0) for job in self.claimers for pool in pools)

    def awaited(self, pool: int) -> Iterator[tuple[float, int]]:
        """Yield since when [s] nodes of a pool are those of jobs that have claimed them, and now their victims'."""
        for job in self.claimers:
            nodes = job.target.get(pool, 0) - job.claim.get(pool, 0)
            if nodes > 0 and job.victims:
                yield max(self.rounded(victim.end) for victim in job.victims), nodes
