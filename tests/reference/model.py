"""One job with hot spares, written the obvious way: a process per node and per job, and an event per checkpoint.

It shares no code with the simulator. It knows one job from time zero on, fixed times, a list of failures of nodes, and
one of failures of the job's software, in the time in which that runs.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

import simpy

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

ROUNDING = 1e-9

"""Less than this is no time any more [s]."""


class Setup(NamedTuple):
    """What is played; times in seconds, the job on `nodes` of ``nodes + idle + spares`` nodes."""

    nodes: int
    spares: int
    idle: int
    horizon: float
    work: float
    interval: float
    step: float
    stall: float
    drain: float
    restore: float
    detection: float
    reschedule: float
    initialize: float
    repair: float
    software: tuple[float, ...] = ()
    """When the software fails, counted in the time in which it runs."""
    idle_hazard: int = 1
    """Whether nodes fail on which it does not run, 1 or 0."""


class Outcome(NamedTuple):
    """Seconds of the job by bucket, node-seconds by place, and how often the job was hit (while it ran)."""

    job: dict[str, float]
    nodes: dict[str, float]
    interruptions: int
    disruptions: int
    end: float
    is_tied: bool
    """Whether nodes came back at one instant for which the job waited: which of them it took is not said."""


class Meter:
    """Seconds spent in each state."""

    def __init__(self, env: simpy.Environment, state: str) -> None:
        self.env, self.state, self.since = env, state, env.now
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def enter(self, state: str) -> None:
        """Charge the state until now and change it."""
        self.seconds[self.state] += self.env.now - self.since
        self.state, self.since = state, self.env.now


class Model:
    """The processes and what they share."""

    def __init__(self, setup: Setup, failures: Sequence[tuple[float, int]]) -> None:
        self.setup, self.env = setup, simpy.Environment()
        places = ["job"] * setup.nodes + ["unallocated"] * setup.idle + ["spare_idle"] * setup.spares
        self.nodes = [Meter(self.env, place) for place in places]
        self.phase = Meter(self.env, "initialize")
        self.software = Meter(self.env, "runs")
        self.committed = 0.0
        self.broken: list[int] = []
        self.interruptions = self.disruptions = 0
        self.is_tied, self.last_return = False, -1.0
        self.writer: simpy.Process | None = None
        self.returned, self.resumed, self.found = (self.env.event() for _ in range(3))
        self.job = self.env.process(self._job())
        for number in range(len(places)):
            self.env.process(self._node(number, [time for time, node in failures if node == number]))
        self.env.process(self._software())

    def _count(self, place: str) -> int:
        return sum(node.state == place for node in self.nodes)

    def _node(self, number: int, failures: list[float]) -> Generator[simpy.Event, object, None]:
        place, times = self.nodes[number], deque(failures)
        while times:
            yield self.env.timeout(times.popleft() - self.env.now)
            if not self._can_fail(place):
                continue
            if place.state == "job":
                self.broken.append(number)
                self.job.interrupt()
                if self.setup.repair > 0:
                    yield self.found
            elif self.setup.repair > 0:
                place.enter("repair")
            if self.setup.repair > 0:
                yield from self._repaired(place, times)
                if self.phase.state == "starved":
                    self.is_tied |= self.env.now == self.last_return
                    self.last_return = self.env.now
                place.enter("spare_idle" if self._count("spare_idle") < self.setup.spares else "unallocated")
                self.returned.succeed()
                self.returned = self.env.event()

    def _can_fail(self, place: Meter) -> bool:
        return bool(self.setup.idle_hazard) or (place.state == "job" and self.software.state == "runs")

    def _repaired(self, place: Meter, times: deque[float]) -> Generator[simpy.Event, object, None]:
        """Wait until all outages of a node are over: one that begins meanwhile joins."""
        end = self.env.now + self.setup.repair
        while times and times[0] < end:
            time = times.popleft()
            if time > self.env.now:  # else it struck before the failure was known, and is repaired with it
                yield self.env.timeout(time - self.env.now)
                if self._can_fail(place):
                    end = self.env.now + self.setup.repair
        yield self.env.timeout(end - self.env.now)

    def _software(self) -> Generator[simpy.Event, object, None]:
        for time in self.setup.software:
            while True:
                if self.software.state != "runs":
                    yield self.resumed
                self.software.enter("runs")
                left = time - self.software.seconds["runs"]
                if left <= ROUNDING:
                    break
                # It may stop meanwhile, which moves the failure away: look again then.
                yield self.env.timeout(left)
            if self.job.is_alive:
                self.job.interrupt()

    def _job(self) -> Generator[simpy.Event, object, None]:
        failed = False
        while True:
            try:
                if failed:
                    yield from self._acquire()
                    self.software.enter("runs")
                    self.resumed.succeed()
                    self.resumed = self.env.event()
                    self.phase.enter("reschedule")
                    yield self.env.timeout(self.setup.reschedule)
                self.phase.enter("initialize")
                yield self.env.timeout(self.setup.initialize)
                if self.committed > 0:
                    self.phase.enter("restore")
                    yield self.env.timeout(self.setup.restore)
                yield from self._train()
            except simpy.Interrupt:
                yield from self._fail()
                failed = True
            else:
                return

    def _acquire(self) -> Generator[simpy.Event, object, None]:
        while self._count("job") < self.setup.nodes:
            free = [node for node in self.nodes if node.state == "spare_idle"]
            free += [node for node in self.nodes if node.state == "unallocated"]
            if free:
                free[0].enter("job")
            else:
                self.phase.enter("starved")
                self.software.enter("is stopped")
                yield self.returned

    def _train(self) -> Generator[simpy.Event, object, None]:
        # A save waits for the one before, if there is one since the start, and for the end of a step.
        interval = self.setup.interval
        while True:
            if self.setup.step:
                interval = math.ceil(interval / self.setup.step - 1e-9) * self.setup.step
            self.phase.enter("productive")
            left = self.setup.work - self.phase.seconds["productive"]
            yield self.env.timeout(min(left, interval))
            if left <= interval:
                return
            self.phase.enter("checkpoint_stall")
            yield self.env.timeout(self.setup.stall)
            self.writer = self.env.process(self._write(self.phase.seconds["productive"]))
            interval = max(self.setup.interval, self.setup.drain)

    def _write(self, work: float) -> Generator[simpy.Event, object, None]:
        try:
            yield self.env.timeout(self.setup.drain)
            self.committed = work
        except simpy.Interrupt:
            pass

    def _fail(self) -> Generator[simpy.Event, object, None]:
        """Wait until the failure is known, then lose what is not durable and the nodes that are broken."""
        self.interruptions += 1
        self.disruptions += self.phase.state in ("productive", "checkpoint_stall")
        self.phase.enter("detection")
        if self.writer is not None and self.writer.is_alive:
            self.writer.interrupt()
        alarm = self.env.timeout(self.setup.detection)
        while self.setup.detection > 0 and not alarm.processed:
            try:
                yield alarm
            except simpy.Interrupt:
                self.interruptions += 1
        seconds = self.phase.seconds
        seconds["lost_work"] += seconds["productive"] - self.committed
        seconds["productive"] = self.committed
        if self.setup.repair > 0:
            for number in self.broken:
                self.nodes[number].enter("repair")
        self.broken.clear()
        self.found.succeed()
        self.found = self.env.event()

    def play(self) -> Outcome:
        """Play until the horizon or the end of the work."""
        self.env.run(until=self.env.any_of([self.job, self.env.timeout(self.setup.horizon)]))
        total: defaultdict[str, float] = defaultdict(float)
        for meter in (self.phase, *self.nodes):
            meter.enter("over")
        for node in self.nodes:
            for place, seconds in node.seconds.items():
                total[place] += seconds
        return Outcome(self.phase.seconds, total, self.interruptions, self.disruptions, self.env.now, self.is_tied)


def play(setup: Setup, failures: Sequence[tuple[float, int]]) -> Outcome:
    """Return what happens to the job when `failures` (time, node) come, in order of time."""
    return Model(setup, failures).play()
