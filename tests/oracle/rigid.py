"""A second implementation of rigid jobs, from the documentation alone: times are whole seconds, nothing is random.

`simulate` takes the mapping of a scenario and its logs, and returns an `Account`. Here are failures and nodes
(`Outage`, `Node`, `Life`) and the cluster with its queue (`World`); jobs are in `rigid_jobs`, their checkpoints in
`rigid_saves`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.oracle.rigid_jobs import Job, Source
from tests.oracle.rigid_saves import seconds
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Order = tuple[int, ...]
RETURN, ARRIVAL = (0,), (3,)  # what comes first of one instant; ends of phases are 1, failures 2 with source and unit


@dataclass
class Account:
    """What a run gives: GPU-seconds by job, bucket and cause, interruptions by job and cause, and the node log."""

    jobs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    interruptions: Counter[tuple[str, str]] = field(default_factory=Counter)
    outside: Counter[tuple[str, str]] = field(default_factory=Counter)
    log: list[tuple[int, int, int, str]] = field(default_factory=list)
    ends: dict[str, int | None] = field(default_factory=dict)


@dataclass(eq=False)
class Outage:
    """A stay of the nodes of a part out of service, all until the same end; a repair has none before it begins."""

    world: World
    source: Source
    nodes: list[Node]
    has_end: bool
    life: Life | None
    number: int

    def begin_repair(self) -> None:
        """Begin the repair, once."""
        if not self.has_end:
            self.has_end = True
            self.world.at(self.world.now + present(self.source.repair), RETURN, self.end)

    def end(self) -> None:
        """End the outage, return the nodes of which it was the last, and then begin lives that have waited for them."""
        back = [node for node in self.nodes if node.end_outage(self)]
        if self.life:
            self.life.is_over = True
        for life in self.world.lives:
            life.renew()
        for node in back:
            if node.job is None:
                self.world.put(node)
            node.run_clocks()
        if back:
            self.world.serve()


class Node:
    """A host: its open outages, and the job or the pool that has it."""

    def __init__(self, world: World, number: int, pool: str) -> None:
        """Put a healthy node into its pool."""
        self.world, self.number, self.pool = world, number, pool
        self.job: Job | None = None
        self.ready = 0
        self.outages: list[Outage] = []
        self.down: tuple[int, Source] | None = None
        self.since = 0
        self.lives: list[Life] = []

    def charge(self) -> None:
        """Charge the time since the last change, if no job has the node."""
        now = self.world.now
        if self.job is None:
            if self.down:
                key = ("maintenance" if self.down[1].planned else "repair", self.down[1].cause)
            else:
                key = ("unallocated" if self.pool == "idle" else "spare_idle", "no_failure")
            self.world.account.outside[key] += (now - self.since) * self.world.gpus
        self.since = now

    def fail(self, outage: Outage) -> None:
        """Begin an outage."""
        self.charge()
        if not self.outages:
            self.down = (self.world.now, outage.source)
            self.pool = ""
        self.outages.append(outage)
        self.run_clocks()

    def end_outage(self, outage: Outage) -> bool:
        """End an outage; return whether it was the last one."""
        self.charge()
        self.outages.remove(outage)
        if self.outages:
            return False
        assert self.down
        start, source = self.down
        self.world.account.log.append((self.number, start, self.world.now, source.cause))
        self.down = None
        return True

    def run_clocks(self) -> None:
        """Start and stop the lives of the node's parts."""
        for life in self.lives:
            life.turn()


class Life:
    """A life of a fixed length on a node or of a job, that runs while its clock does."""

    def __init__(
        self, world: World, order: Order, length: int, clock: Callable[[], bool], strike: Callable[[Life], None],
        renews: str, unit: Sequence[Node] = (),
    ) -> None:  # fmt: skip
        """Begin a life at time 0."""
        self.world, self.order, self.length, self.clock = world, order, length, clock
        self.strike, self.renews, self.unit = strike, renews, unit
        self.is_over = False
        self.left: int | None = length
        self.since: int | None = None
        self.ticket = 0

    def turn(self) -> None:
        """Run or stand still, as the clock says now."""
        if self.since is not None and self.left is not None:
            self.left -= self.world.now - self.since
        self.since = None
        self.ticket += 1
        if self.left is not None and self.clock():
            self.since = self.world.now
            self.world.at(self.world.now + self.left, self.order, self.end, self.ticket)

    def end(self, ticket: int) -> None:
        """Strike, if the life has not been stopped since."""
        if ticket == self.ticket:
            self.since = None
            self.left = self.length if self.renews == "at_failure" else None
            self.turn()
            self.strike(self)

    def renew(self) -> None:
        """Begin the next life when the failure of the last is over, of a part of a node when the node is back."""
        if self.renews == "at_return" and self.is_over and not any(node.down for node in self.unit):
            self.is_over = False
            self.left = self.length
            self.turn()


class World:
    """The cluster: nodes in pools, the queue, and the events."""

    def __init__(self, keys: Mapping[str, Any], logs: Mapping[str, Sequence[tuple[int, int, int, str]]]) -> None:
        """Build the cluster, its failures and its jobs."""
        self.keys, self.gpus, self.horizon = keys, keys["cluster"]["gpus_per_node"], seconds(keys["horizon"])
        self.account, self.now = Account(), 0
        self.calls: list[tuple[int, Order, int, Callable[..., None], tuple[Any, ...]]] = []
        self.count = itertools.count()
        self.lives: list[Life] = []
        self.queue: list[Job] = []
        self.starved: list[Job] = []
        spares = keys.get("spares", {})
        self.stated = {"spare": spares.get("hot", 0)}
        self.delays, self.refills = defaultdict(int), {"spare": True, "idle": True}
        for pool in ("warm", "cold"):
            self.stated[pool] = spares.get(pool, {}).get("nodes", 0)
            self.delays[pool] = seconds(spares.get(pool, {}).get("delay"))
            self.refills[pool] = spares.get(pool, {}).get("refills", True)
        kinds = [pool for pool in ("spare", "warm", "cold") for _ in range(self.stated[pool])]
        count = keys["cluster"]["nodes"]
        kinds += ["idle"] * (count - len(kinds))
        self.nodes = [Node(self, number, pool) for number, pool in enumerate(reversed(kinds))]
        self.jobs = [Job(self, index, row) for index, row in enumerate(keys["jobs"])]
        self.sources = 0
        for job, row in zip(self.jobs, keys["jobs"], strict=True):
            self.account.ends[job.name] = None
            self.at(seconds(row.get("arrival")), ARRIVAL, job.arrive)
        for row in keys["failures"]:
            self.add_source(row, logs)

    def at(self, time: int, order: Order, call: Callable[..., None], *arguments: Any) -> None:
        """Schedule a call."""
        heapq.heappush(self.calls, (time, order, next(self.count), call, arguments))

    # Failures.

    def units(self, part: str) -> list[list[Node]]:
        """Return the nodes of each part of a class."""
        size = 1 if part == "node" else self.keys["cluster"]["rack"]["nodes"]
        return [self.nodes[first : first + size] for first in range(0, len(self.nodes), size)]

    def add_source(self, row: Mapping[str, Any], logs: Mapping[str, Sequence[tuple[int, int, int, str]]]) -> None:
        """Schedule the failures of a source."""
        default = self.keys["detection"].get("time")
        detection = seconds(row.get("detection", default)) * self.keys["detection"].get("scale", 1)
        kind = row["use"]
        if kind == "replay":
            outages = joined(logs[row["file"]])
            causes = sorted({cause for *_, cause in outages})
            for number, start, end, cause in outages:
                source = Source(cause, row.get("fault", "host"), detection)
                order = (2, self.sources + causes.index(cause), number)
                self.at(start, order, self.strike, source, [self.nodes[number]], end)
            self.sources += len(causes)
        elif kind == "maintenance":
            source = Source(row["name"], "planned", 0, planned=True)
            units = self.units(row.get("part", "node"))
            for window in row["windows"]:
                first, start = window.get("first", 0), seconds(window["start"])
                for unit in units[first : first + window.get("units", 1)]:
                    order = (2, self.sources, unit[0].number)
                    self.at(start, order, self.strike, source, unit, start + seconds(window["duration"]))
        elif kind == "job":
            source = Source(row["name"], row.get("fault", "process"), detection, damage=row.get("damage", "process"))
            for job in self.jobs:
                order = (2, self.sources, job.index)
                life = Life(self, order, seconds(row["law"]), _running(job), _hitting(job, source), "at_failure")
                job.lives.append(life)
        elif kind == "component":
            repair = seconds(row.get("repair", self.keys.get("repair", {}).get("time")))
            repair *= self.keys.get("repair", {}).get("scale", 1)
            source = Source(row["name"], row.get("fault", "host"), detection, repair, row.get("damage", "process"))
            for unit in self.units(row.get("part", "node")):
                self.add_lives(row, source, unit)
        self.sources += kind != "replay"

    def add_lives(self, row: Mapping[str, Any], source: Source, unit: list[Node]) -> None:
        """Begin the life of a unit of nodes."""
        clock = {"wall": lambda: True, "in_service": lambda: not unit[0].down, "busy": lambda: _is_busy(unit[0])}
        life = Life(
            self,
            (2, self.sources, unit[0].number),
            seconds(row["law"]),
            clock[row.get("clock", "wall")],
            lambda life: self.strike(source, unit, None, life),
            row.get("renews", "at_failure"),
            unit if len(unit) == 1 and row.get("part", "node") == "node" else (),
        )
        self.lives.append(life)
        unit[0].lives.append(life)
        life.turn()

    def strike(self, source: Source, unit: Iterable[Node], until: int | None, life: Life | None = None) -> None:
        """Take the nodes of a part down, and interrupt the jobs that have any of them that worked."""
        nodes = list(unit)
        working = [node for node in nodes if not node.down]
        jobs = list(dict.fromkeys(node.job for node in working if node.job))
        if until != self.now and source.repair != 0:
            is_known = not any(node.job for node in nodes)
            outage = Outage(self, source, nodes, until is not None, life, next(self.count))
            for node in nodes:
                node.fail(outage)
            if until is not None:
                self.at(until, RETURN, outage.end)
            elif is_known:
                outage.begin_repair()
        elif life:
            life.is_over = True
            life.renew()
        for job in jobs:
            job.hit(source, working)

    # Nodes.

    def pool(self, name: str) -> list[Node]:
        """Return the healthy nodes of a pool, lowest first."""
        return [node for node in self.nodes if node.pool == name and not node.down and node.job is None]

    def take(self, node: Node, job: Job) -> Node:
        """Give a node of a pool to a job."""
        node.charge()
        node.ready = self.now + self.delays[node.pool]
        node.job, node.pool = job, "job"
        node.run_clocks()
        return node

    def put(self, node: Node) -> None:
        """Put a node that returns into the first pool that is not full."""
        pools = [pool for pool in ("spare", "warm", "cold") if self.refills[pool]]
        node.pool = next((pool for pool in pools if len(self.pool(pool)) < self.stated[pool]), "idle")

    def fill_spares(self, ready: int, *, is_called: bool) -> int:
        """Fill the hot spares up from the idle nodes, and from the cold ones if a job called such; return when."""
        for pool in ("idle", "cold") if is_called else ("idle",):
            for node in self.pool(pool)[: max(self.stated["spare"] - len(self.pool("spare")), 0)]:
                node.charge()
                node.pool = "spare"
                ready = max(ready, self.now + self.delays[pool])
        return ready

    def serve(self) -> None:
        """Serve the jobs that wait for nodes, longest first, and then the queue."""
        for job in list(self.starved):
            if job.missing:
                job.take_nodes()
        self.schedule()

    # The queue.

    def enqueue(self, job: Job) -> None:
        """Put a job at the end of the queue."""
        self.queue.append(job)
        self.schedule()

    def schedule(self) -> None:
        """Start jobs from the head of the queue, as long as there are enough nodes."""
        while self.queue:
            job = self.queue[0]
            nodes = self.pool("idle")
            if len(nodes) < job.size:
                hot = self.pool("spare")
                if not job.is_requeued:
                    others = any(node.job for node in self.nodes)
                    hot = [] if others else hot[: sum(1 for node in self.nodes if node.down)]
                nodes += hot
            if len(nodes) < job.size:
                return
            self.queue.pop(0)
            job.begin([self.take(node, job) for node in nodes[: job.size]])

    def run(self) -> Account:
        """Play all events before the horizon."""
        while self.calls and self.calls[0][0] < self.horizon:
            self.now, _, _, call, arguments = heapq.heappop(self.calls)
            call(*arguments)
            if all(end is not None for end in self.account.ends.values()):
                break
        else:
            self.now = self.horizon
        for node in self.nodes:
            node.charge()
            if node.down:
                self.account.log.append((node.number, node.down[0], self.now, node.down[1].cause))
        for job in self.jobs:
            job.leave()
        return self.account


def joined(rows: Iterable[tuple[int, int, int, str]]) -> list[tuple[int, int, int, str]]:
    """Join rows of one node that overlap or touch."""
    outages: list[tuple[int, int, int, str]] = []
    last: dict[int, int] = {}
    for number, start, end, cause in rows:
        if number in last and outages[last[number]][1] < outages[last[number]][2] >= start:
            _, begin, until, name = outages[last[number]]
            outages[last[number]] = (number, begin, max(until, end), name)
        else:
            last[number] = len(outages)
            outages.append((number, start, end, cause))
    return outages


def _running(job: Job) -> Callable[[], bool]:
    return lambda: job.has_process


def _hitting(job: Job, source: Source) -> Callable[[Life], None]:
    return lambda _: job.hit(source)


def _is_busy(node: Node) -> bool:
    return node.job is not None and node.job.has_process


def simulate(keys: Mapping[str, Any], logs: Mapping[str, Sequence[tuple[int, int, int, str]]]) -> Account:
    """Simulate a scenario; logs are rows of node, start, end and cause by the name of their file."""
    return World(keys, logs).run()
