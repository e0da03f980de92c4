"""Strategies and jobs of the second implementation of rigid jobs: generators of steps, and what carries them out."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.oracle.rigid_saves import NEVER, Progress, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from tests.oracle.rigid import Life, Node, World

PHASE = (1,)


@dataclass(frozen=True)
class Source:
    """What a fault of a cause does: its class, when it is known, and what takes how long."""

    cause: str
    fault: str
    detection: int
    repair: int | None = None
    damage: str = "process"
    planned: bool = False


@dataclass(frozen=True)
class Stall:
    """A step of a plan: wait for a time."""

    bucket: str
    time: int


@dataclass(frozen=True)
class Acquire:
    """A step of a plan: take missing nodes from pools; the answer is whether they came in time."""

    pools: Sequence[str]
    patience: int = NEVER
    fills: bool = False


@dataclass(frozen=True)
class Requeue:
    """A step of a plan: give all nodes back and enter the queue after a delay."""

    delay: int


@dataclass(frozen=True)
class Restore:
    """A step of a plan: load the newest checkpoint."""


if TYPE_CHECKING:
    Plan = Generator[Stall | Acquire | Requeue | Restore, bool, None]

POOLS = ("spare", "warm", "idle", "cold")


class Strategy:
    """A recovery strategy: its plans at a start and after a failure. This one is full-restart."""

    def __init__(self, keys: Mapping[str, Any]) -> None:
        """Read the recovery of the scenario."""
        self.keys, self.scale = keys, keys.get("scale", 1)

    def time(self, key: str) -> int:
        """Return a time of the recovery, scaled."""
        return seconds(self.keys.get(key)) * int(self.scale)

    def start(self) -> Plan:
        """Plan what follows when the queue has given a whole gang."""
        yield Stall("initialize", self.time("initialize"))
        yield Restore()

    def recover(self, job: Job, source: Source) -> Plan:
        """Plan a recovery."""
        yield Requeue(self.time("delay"))
        yield from self.start()


class HotSpare(Strategy):
    """Replace lost nodes, and restart in place."""

    def recover(self, job: Job, source: Source) -> Plan:
        """Plan a recovery in place; after the patience the queue."""
        if job.missing:
            patience = self.time("patience") if "patience" in self.keys else NEVER
            if not (yield Acquire(self.keys.get("pools", POOLS), patience)):
                yield Requeue(self.time("requeue_delay"))
                yield from self.start()
                return
        elif job.is_late:
            yield Acquire(())
        yield Stall("reschedule", self.time("reschedule"))
        yield from self.start()


class Standby(Strategy):
    """Hot spares step in after a recovery time; without them hosts are selected again."""

    def start(self) -> Plan:
        """Select hosts."""
        yield Stall("reschedule", self.time("selection"))
        yield Restore()

    def recover(self, job: Job, source: Source) -> Plan:
        """Plan a recovery: the time of the recovery, then hot spares or a selection."""
        if job.is_late:
            yield Acquire(())
        yield Stall("initialize", self.time("recovery"))
        if job.missing and not (yield Acquire(["spare"], 0)):
            yield Acquire(self.keys.get("pools", ("idle", "warm", "cold", "spare")), fills=True)
            yield Stall("reschedule", self.time("selection"))
        yield Restore()


class Ladder(Strategy):
    """Rungs with budgets, and at last an operator."""

    def __init__(self, keys: Mapping[str, Any]) -> None:
        """Begin with all budgets new."""
        super().__init__(keys)
        self.rungs = keys["rungs"]
        self.clear()
        self.reached = self.restarts = 0

    def clear(self) -> None:
        """Make all budgets new, and begin at the first rung."""
        self.tries: Counter[int] = Counter()
        self.rung = 0

    def start(self) -> Plan:
        """Launch as the last rung does."""
        return self.launch(self.rungs[-1])

    def launch(self, rung: Mapping[str, Any]) -> Plan:
        """Launch and restore."""
        yield Stall("initialize", seconds(rung.get("launch")) * int(self.scale))
        yield Restore()

    def applies(self, index: int, job: Job, source: Source) -> bool:
        """Say whether a rung may be tried."""
        rung = self.rungs[index]
        return (
            source.fault in rung.get("handles", [source.fault])
            and self.tries[index] < rung.get("budget", NEVER)
            and not (rung.get("except_first", False) and 0 in job.lost)
        )

    def recover(self, job: Job, source: Source) -> Plan:
        """Plan from the first rung, or within an incident from the one that was taken."""
        if job.progress.work > self.reached:
            self.reached, self.restarts = job.progress.work, 0
            if self.keys.get("resets_on_progress", True):
                self.tries.clear()
        if job.fresh:
            self.rung = 0
        if self.restarts < self.keys.get("no_progress", NEVER):
            self.restarts += 1
            for index in range(self.rung, len(self.rungs)):
                if self.applies(index, job, source) and (yield from self.climb(index, job)):
                    return
        self.clear()
        self.restarts = 0
        yield Requeue(self.time("exhausted"))
        yield from self.start()

    def climb(self, index: int, job: Job) -> Generator[Stall | Acquire | Requeue | Restore, bool, bool]:
        """Take a rung; answer whether its replacements came."""
        rung, self.rung = self.rungs[index], index
        self.tries[index] += 1
        if rung["keeps"] != "nothing" and job.is_late:
            yield Acquire(())
        yield Stall("reschedule", seconds(rung.get("stop")) * int(self.scale))
        if rung["keeps"] == "nothing":
            delay = seconds(rung.get("delay")) * int(self.scale)
            if "backoff" in rung:
                first, most = (seconds(rung["backoff"][key]) for key in ("first", "most"))
                delay += min(first * 2 ** (self.tries[index] - 1), most) * int(self.scale)
            yield Requeue(delay)
        elif job.missing:
            patience = seconds(rung["patience"]) * int(self.scale) if "patience" in rung else NEVER
            if not (yield Acquire(rung.get("pools", POOLS), patience)):
                return False
        yield from self.launch(rung)
        return True


STRATEGIES = {"full-restart": Strategy, "hot-spare": HotSpare, "standby": Standby, "ladder": Ladder}

IDLE = {"queued", "starved"}  # no process runs


class Job:
    """A rigid job: it steps, or carries out the plan of its strategy."""

    def __init__(self, world: World, index: int, keys: Mapping[str, Any]) -> None:
        """Read a job of the scenario."""
        self.world, self.index, self.name = world, index, keys["name"]
        self.size = keys["gpus"] // world.gpus
        goal = seconds(keys.get("work", {}).get("time"), NEVER)
        step = seconds(keys.get("step_time"), 1)
        self.progress = Progress(world.keys["checkpoint"]["tiers"], keys.get("periodic", ()), goal, step)
        self.strategy = STRATEGIES[world.keys["recovery"]["use"]](world.keys["recovery"])
        self.nodes: list[Node | None] = [None] * self.size
        self.phase, self.since, self.ticket = "", 0, 0
        self.is_running = self.is_requeued = self.fresh = self.has_process = False
        self.cause = self.first = "no_failure"
        self.plan: Plan | None = None
        self.lives: list[Life] = []
        self.lost: set[int] = set()
        self.rebooted: set[int] = set()
        self.pools: Sequence[str] = ()
        self.fills = False

    @property
    def missing(self) -> list[int]:
        """Return the positions without a node."""
        return [position for position, node in enumerate(self.nodes) if node is None]

    @property
    def is_late(self) -> bool:
        """Whether no node is missing, but one that was taken is still being got ready."""
        return not self.missing and any(node.ready > self.world.now for node in self.nodes if node)

    def enter(self, bucket: str, *, has_process: bool) -> int:
        """Leave a phase, charge it, and begin another; return the ticket of its end."""
        self.leave()
        self.phase, self.has_process = bucket, has_process
        self.turn_clocks()
        return self.ticket

    def leave(self) -> None:
        """Charge the phase that ends."""
        now, book = self.world.now, self.world.account.jobs
        if self.is_running:
            self.is_running = False
            for bucket, time in self.progress.walk(now, self.size).items():
                book[self.name, bucket, "no_failure"] += time * self.size * self.world.gpus
        elif self.phase:
            book[self.name, self.phase, self.cause] += (now - self.since) * self.size * self.world.gpus
        self.since, self.phase = now, ""
        self.ticket += 1

    def turn_clocks(self) -> None:
        """Run the lives of the job and of its nodes, as the phase says."""
        for life in self.lives:
            life.turn()
        for node in self.nodes:
            if node:
                node.run_clocks()

    def arrive(self) -> None:
        """Enter the queue for the first time."""
        self.enter("queued", has_process=False)
        self.world.enqueue(self)

    def begin(self, nodes: list[Node]) -> None:
        """Start on the nodes that the queue has given."""
        self.nodes = list(nodes)
        if self.plan is None:
            self.plan = self.strategy.start()
        self.is_requeued = True
        self.step()

    def step(self, *, answer: bool | None = None) -> None:
        """Carry out the next step of the plan, or run when there is none."""
        try:
            step = next(self.plan) if answer is None else self.plan.send(answer)
        except StopIteration:
            self.run()
            return
        match step:
            case Stall(bucket, time):
                self.wait(bucket, time)
            case Restore():
                self.wait("restore", self.roll_back())
            case Requeue(delay):
                self.give_up_nodes()
                self.roll_back()
                self.wait("reschedule", delay, self.requeue, has_process=False)
            case Acquire(pools, patience, fills):
                self.pools, self.fills = pools, fills
                ticket = self.enter("starved", has_process=False)
                self.world.starved.append(self)
                self.take_nodes()
                if self.missing and patience == 0:
                    self.lose_patience(ticket)
                elif patience < NEVER:
                    self.world.at(self.world.now + patience, PHASE, self.lose_patience, ticket)

    def roll_back(self) -> int:
        """Throw work away, charged to the first failure of the incident; return the time of the restore."""
        time, lost = self.progress.restore(self.size)
        book, gpus = self.world.account.jobs, lost * self.size * self.world.gpus
        book[self.name, "productive", "no_failure"] -= gpus
        book[self.name, "lost_work", self.first] += gpus
        return time

    def wait(self, bucket: str, time: int, then: Callable[[], None] | None = None, *, has_process: bool = True) -> None:
        """Stay in a phase for a time."""
        ticket = self.enter(bucket, has_process=has_process)
        self.world.at(self.world.now + time, PHASE, self.end_phase, ticket, then or self.step)

    def end_phase(self, ticket: int, then: Callable[[], None]) -> None:
        """Go on after a phase, unless it was aborted."""
        if ticket == self.ticket:
            then()

    def requeue(self) -> None:
        """Enter the queue again."""
        self.enter("queued", has_process=False)
        self.world.enqueue(self)

    def take_nodes(self) -> None:
        """Take what there is of the missing nodes; go on when all are there and ready."""
        for position in self.missing:
            for pool in self.pools:
                if nodes := self.world.pool(pool):
                    self.nodes[position] = self.world.take(nodes[0], self)
                    break
        if not self.missing:
            self.world.starved.remove(self)
            self.ticket += 1
            ready = max([self.world.now] + [node.ready for node in self.nodes if node])
            if self.fills:
                ready = self.world.fill_spares(ready, is_called=ready > self.world.now)
            self.world.at(ready, PHASE, self.end_phase, self.ticket, lambda: self.step(answer=True))

    def lose_patience(self, ticket: int) -> None:
        """Stop waiting for replacements."""
        if ticket == self.ticket:
            self.world.starved.remove(self)
            self.step(answer=False)

    def run(self) -> None:
        """Step until something happens."""
        self.enter("", has_process=True)
        self.is_running, self.fresh = True, True
        self.lost.clear()
        self.progress.start(self.world.now, self.size)
        if self.progress.goal < NEVER:
            self.world.at(self.finish_time(), PHASE, self.end_phase, self.ticket, self.finish)

    def finish_time(self) -> int:
        """Return when the work will be done if nothing fails."""
        trial = copy.deepcopy(self.progress)
        trial.walk(NEVER, self.size)
        return trial.now

    def finish(self) -> None:
        """End for good."""
        self.enter("", has_process=False)
        self.world.account.ends[self.name] = self.world.now
        self.give_up_nodes()

    def give_up_nodes(self) -> None:
        """Give all nodes back; only the remote store keeps what it has."""
        self.progress.lose(["host", "peer-host", "disk"])
        nodes, self.nodes = self.nodes, [None] * self.size
        for node in filter(None, nodes):
            self.release(node)
        self.world.serve()

    def release(self, node: Node) -> None:
        """Let a node go: to repair if it is down, else to the pools."""
        node.charge()
        node.job = None
        if not node.down:
            node.pool = "idle"
        node.run_clocks()

    def hit(self, source: Source, nodes: Sequence[Node] = ()) -> None:
        """Wait for the detection; a failure that comes while another one is undetected merges with it."""
        self.world.account.interruptions[self.name, source.cause] += 1
        if source.damage == "reboot":
            self.rebooted |= {p for p, node in enumerate(self.nodes) if not nodes or node in nodes}
        end = self.world.now + source.detection
        if self.phase == "detection":
            if end < self.known:
                self.known = end
                self.world.at(end, PHASE, self.end_phase, self.ticket, lambda: self.recover(self.found))
            return
        had_process = self.has_process
        if self in self.world.starved:
            self.world.starved.remove(self)
        self.leave()
        self.progress.void(self.world.now)
        if self.fresh:
            self.first = source.cause
        self.cause, self.known, self.found = source.cause, end, source
        ticket = self.enter("detection", has_process=had_process)
        self.world.at(end, PHASE, self.end_phase, ticket, lambda: self.recover(source))

    def recover(self, source: Source) -> None:
        """Let lost nodes go, and plan the recovery."""
        self.leave()
        self.cause = source.cause
        lost = [position for position, node in enumerate(self.nodes) if node and node.down]
        self.progress.lose(["host", "peer-host", "disk"], lost)
        self.lost.update(lost)
        outages = {outage.number: outage for node in self.nodes if node for outage in node.outages}
        self.progress.lose(["host", "peer-host"], self.rebooted)
        self.rebooted.clear()
        for position in lost:
            node = self.nodes[position]
            assert node
            self.nodes[position] = None
            self.release(node)
        for _, outage in sorted(outages.items()):
            outage.begin_repair()
        self.plan = self.strategy.recover(self, source)
        self.step()
        self.roll_back()
        self.fresh = False

    known = 0
    found: Source
