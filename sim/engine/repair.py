"""The way of a node through repair: diagnosis, tiers, crews, and back."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from sim.engine.kernel import Order
from sim.engine.state_nodes import Place
from sim.policies.contracts import Bucket, Course, Evict, NodeView
from sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.kernel import Call
    from sim.engine.lives import Failure, Renewal
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Group

# ----------------------------------------
# Outages of nodes: going down, coming back, and the lives whose clock stands still meanwhile.


class Outages:
    """Keeps what is open against each node; a node returns when nothing is."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.counts_service = any(source.clock == "in_service" for source in simulation.prepared.sources)
        """Whether any life runs on the clock in_service."""
        self.log: list[tuple[int, float, float, int]] | None = [] if simulation.keeps_log else None
        """Node, start, end and cause of each stretch in which a node was down."""
        self.since: dict[int, tuple[float, int]] = {}
        self.was_down: dict[int, float] = {}
        """How long a node has been down, the open outage left out [s]."""
        self.down_since: dict[int, float] = {}
        self.renewals: dict[int, list[Renewal]] = {}
        """Lives that begin when a node returns."""
        self.parked: dict[int, list[tuple[int, int, int, float]]] = {}
        """Lives on the clock in_service that wait for their node: source, slot, round, due."""

    def take_down(self, node: int, now: float, cause: int) -> None:
        """Open an outage of a node."""
        cluster = self.cluster
        cluster.outages[node] += 1
        if cluster.outages[node] == 1:
            cluster.count_down(1, now)
            if self.log is not None:
                self.since[node] = (now, cause)
            if self.counts_service:
                self.down_since[node] = now

    def on_end(self, call: Call) -> None:
        """End an outage; its argument holds the nodes and the failure."""
        nodes, failure = call.argument
        now = self.kernel.now
        self.mend(failure, nodes, now)
        returned = False
        for node in nodes:
            returned |= self.close(node, now)
        self.simulation.sources.renew(failure)
        if returned:
            self.simulation.serve(now)

    def mend(self, failure: Failure, nodes: Sequence[int], now: float) -> None:
        """Let a repair of nodes remove what is wrong with them, or leave it."""
        source = failure.info.source
        if source.residue is None and not self.simulation.defects.open and not self.simulation.conditions.of_node:
            return
        if source.recorded is not None or source.rollout is not None:
            return  # maintenance mends nothing, and of a log nobody knows
        if not failure.info.divisor and not failure.info.apart:
            return  # it is the shared part that was repaired
        simulation = self.simulation
        residue = source.residue
        for node in nodes:
            if residue is not None and residue.probability and failure.mark_at(node, "relapse") < residue.probability:
                simulation.defects.remain(node, failure, now)
            else:
                simulation.defects.clear(node)
                simulation.conditions.clear(node)

    def close(self, node: int, now: float) -> bool:
        """Close an outage of a node; return whether that brings it back."""
        cluster = self.cluster
        cluster.outages[node] -= 1
        if cluster.outages[node]:
            return False
        self._bring_back(node, now)
        return True

    def _bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against work again."""
        cluster = self.cluster
        cluster.count_down(-1, now)
        cluster.narrow.discard(node)
        if self.log is not None:
            start, cause = self.since.pop(node)
            self.log.append((node, start, now, cause))
        if self.counts_service:
            self.was_down[node] = self.was_down.get(node, 0.0) + now - self.down_since.pop(node)
            for index, slot, number, due in self.parked.pop(node, ()):
                self.schedule(node, index, slot, number, due)
        # A node that came back before the job knew of its failure never left its place.
        if cluster.place[node] == Place.REPAIR:
            cluster.bring_back(node, now)
        for renewal in self.renewals.pop(node, ()):
            self.simulation.sources.begin_life(renewal)
        if self.simulation.defects.parked:
            self.simulation.defects.resume(node, now)

    def is_early(self, node: int, due: float, now: float) -> bool:
        """Return whether a node has not served `due` seconds yet, because it was down in between."""
        return node in self.down_since or due + self.was_down.get(node, 0.0) > now * (1 + 1e-12)

    def schedule_from_now(self, node: int, index: int, slot: int, number: int, seconds: float) -> None:
        """Begin a life on the clock in_service of a node that is down: it runs from the node's return."""
        served = self.down_since[node] - self.was_down.get(node, 0.0)
        self.schedule(node, index, slot, number, served + seconds)

    def schedule(self, node: int, index: int, slot: int, number: int, due: float) -> None:
        """Schedule a life by its node's time in service, or park it while the node is down."""
        if node in self.down_since:
            self.parked.setdefault(node, []).append((index, slot, number, due))
            return
        time = max(due + self.was_down.get(node, 0.0), self.kernel.now)
        if time < self.simulation.end:
            self.kernel.at(
                time, Order.FAILURE, self.simulation.sources.on_candidate, (index, slot, number, math.nan, due)
            )


class Patient:
    """A node in repair, and how far it has come."""

    __slots__ = ("course", "failure", "is_wrong", "node", "visit")

    def __init__(self, node: int, failure: Failure, course: Course, *, is_wrong: bool) -> None:
        self.node = node
        self.failure = failure
        self.course = course
        self.is_wrong = is_wrong
        """Whether it was blamed for a failure of another node."""
        self.visit = 0


class _Crews:
    """The crews of one tier, and who waits for them."""

    __slots__ = ("free", "waiting")

    def __init__(self, crews: int) -> None:
        self.free = crews
        self.waiting: deque[Patient] = deque()


class Lifecycle:
    """Sends blamed nodes through the courses that the repair strategy gives them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.repair = simulation.prepared.repair
        self.crews = {tier: _Crews(count) for tier, count in enumerate(self.repair.crews) if count is not None}
        self.memory: dict[int, Any] = {}
        """What the repair strategy remembers of each node."""
        self.returned: dict[int, float] = {}
        """When a node last came back [s]."""
        self.generation: dict[int, int] = {}
        """How often a node has been replaced."""

    # ---------------------------------------------------------------------------------------------- diagnosis

    def diagnose(self, node: int, failure: Failure, group: Group, now: float) -> int:
        """Decide who is blamed for a failure of a node; return how many nodes the group loses."""
        counts = self.simulation.faults.counts
        holds = self.cluster.group[node] is group
        verdict = self.repair.diagnose(failure.mark) if holds else "right"
        if verdict == "right":
            if holds:
                self._remove(node, group, failure, now)
            self.admit(node, failure, now)
            return int(holds)
        # Nobody repairs the node: what was wrong with it still is.
        is_up = self.simulation.outages.close(node, now)
        if not is_up:
            # Something else has taken it down meanwhile.
            self._remove(node, group, failure, now)
        self.simulation.sources.renew(failure)
        self.simulation.defects.remain(node, failure, now)
        if verdict == "none":
            counts.unblamed += 1
            if is_up:
                self.simulation.lives.leave(node, group, now)
                self.cluster.set_aside(node, now)
            return 1
        counts.wrong_blames += 1
        other = self._other(node, failure, group)
        if other < 0:
            return int(not is_up)
        self.simulation.outages.take_down(other, now, failure.info.cause)
        self._remove(other, group, failure, now)
        self.admit(other, failure, now, is_wrong=True)
        return 2 - is_up

    def _remove(self, node: int, group: Group, failure: Failure, now: float) -> None:
        self.simulation.lives.leave(node, group, now)
        self.cluster.send_to_repair(node, failure.info.cause, now)

    def _other(self, node: int, failure: Failure, group: Group) -> int:
        """Return another node of the group that is up, each with the same probability, or -1."""
        positions = group.job.nodes
        for attempt in range(64):
            other = positions[int(failure.mark(f"other {attempt}") * len(positions))]
            if other >= 0 and other != node and self.cluster.group[other] is group and not self.cluster.outages[other]:
                return other
        return -1

    # ----------------------------------------------------------------------------------------------- eviction

    def evicted(self, group: Group, step: Evict) -> range:
        """Return the positions that go with those which failed."""
        first = (min(group.missing) if group.missing else 0) // step.nodes * step.nodes
        return range(first, min(first + step.nodes, len(group.job.nodes)))

    def evict(self, group: Group, step: Evict, now: float) -> bool:
        """Take healthy nodes out of a job and test them: nobody knows which of them failed, or whether one did."""
        cluster = self.cluster
        places = [group.job.nodes[position] for position in self.evicted(group, step)]
        nodes = [node for node in places if node >= 0 and cluster.group[node] is group and not cluster.outages[node]]
        for node in nodes:
            self.simulation.outages.take_down(node, now, group.cause)
            self.simulation.lives.leave(node, group, now)
            cluster.send_to_repair(node, group.cause, now, Bucket.QUALIFICATION)
        if cluster.units is not None and cluster.units.torn:
            cluster.units.let_go(group, now)
        self.simulation.faults.counts.evicted += len(nodes)
        self.kernel.at(now + step.seconds, Order.RETURN, self._on_tested, nodes)
        return False

    def _on_tested(self, call: Call) -> None:
        """Let nodes that have passed their test wait for work again."""
        now = self.kernel.now
        returned = [self.simulation.outages.close(node, now) for node in call.argument]
        if any(returned):
            self.simulation.serve(now)

    # ------------------------------------------------------------------------------------------------- course

    def admit(self, node: int, failure: Failure, now: float, *, is_wrong: bool = False) -> None:
        """Let a node that is out of its place begin its course."""
        source = failure.info.source
        self.simulation.faults.repairs[failure.info.cause] += 1
        view = NodeView(now, source.name, source.tier, now - self.returned.get(node, 0.0), self._mark(node, failure))
        course, memory = self.repair.course(view, self.memory.get(node))
        if memory is not None:
            self.memory[node] = memory
        patient = Patient(node, failure, course, is_wrong=is_wrong)
        if course.retires:
            self._retire(patient, now)
        elif self.crews:
            self._next(patient, now)
        else:
            self._all_at_once(patient, now)

    def _mark(self, node: int, failure: Failure) -> Any:
        """Return the numbers of a failure; where it took several nodes, those of this one."""
        if not failure.info.apart:
            return failure.mark
        return lambda purpose: failure.mark_at(node, purpose)

    def _all_at_once(self, patient: Patient, now: float) -> None:
        """With crews for everybody the whole course is known now."""
        visits = patient.course.visits
        end = now
        for visit in visits:
            end += visit.seconds
        if visits[-1].tier < 0:
            self._plan_stay(patient, now)
        self.kernel.at(end, Order.RETURN, self._on_done, patient)

    def _plan_stay(self, patient: Patient, now: float) -> None:
        """Say which part of the stay is qualification; the rest is repair."""
        segments: list[tuple[int, float]] = []
        for visit in patient.course.visits:
            now += visit.seconds
            segments.append((Bucket.QUALIFICATION if visit.tier < 0 else Bucket.REPAIR, now))
        # Other outages of the node may last longer.
        segments.append((Bucket.REPAIR, math.inf))
        self.cluster.repairing[patient.node].segments = segments

    def _next(self, patient: Patient, now: float) -> None:
        """Begin the next stay, or wait for a crew."""
        visits = patient.course.visits
        if patient.visit == len(visits):
            self._done(patient, now)
            return
        visit = visits[patient.visit]
        crews = self.crews.get(visit.tier)
        if crews is not None:
            if crews.free == 0:
                crews.waiting.append(patient)
                return
            crews.free -= 1
        self._begin(patient, now)

    def _begin(self, patient: Patient, now: float) -> None:
        visit = patient.course.visits[patient.visit]
        if visit.tier < 0:
            stay = self.cluster.repairing[patient.node]
            # What is ahead stays ahead: earlier tests may not have been charged yet.
            stay.segments[-1:] = [
                (Bucket.REPAIR, now),
                (Bucket.QUALIFICATION, now + visit.seconds),
                (Bucket.REPAIR, math.inf),
            ]
        self.kernel.at(now + visit.seconds, Order.RETURN, self._on_visit_end, patient)

    def _on_visit_end(self, call: Call) -> None:
        patient: Patient = call.argument
        now = self.kernel.now
        crews = self.crews.get(patient.course.visits[patient.visit].tier)
        if crews is not None:
            if crews.waiting:
                self._begin(crews.waiting.popleft(), now)
            else:
                crews.free += 1
        patient.visit += 1
        self._next(patient, now)

    def _on_done(self, call: Call) -> None:
        self._done(call.argument, self.kernel.now)

    def _done(self, patient: Patient, now: float) -> None:
        """Let a node work again, healthy or seemingly so."""
        node = patient.node
        counts = self.simulation.faults.counts
        counts.repairs += 1
        if patient.course.fixed:
            self.simulation.defects.clear(node)
            self.simulation.conditions.clear(node)
        else:
            counts.false_repairs += 1
            if not patient.is_wrong:
                self.simulation.defects.remain(node, patient.failure, now)
        self._give_back(patient, now)

    def _give_back(self, patient: Patient, now: float) -> None:
        node = patient.node
        self.returned[node] = now
        if not patient.is_wrong:
            self.simulation.sources.renew(patient.failure)
        if self.simulation.outages.close(node, now):
            self.simulation.serve(now)

    # --------------------------------------------------------------------------------------------- retirement

    def _retire(self, patient: Patient, now: float) -> None:
        """Give a node up; a new one may come."""
        self.simulation.faults.counts.retired += 1
        law = self.repair.replacement
        if law is not None:
            seconds = draw(law, patient.failure.mark, "replacement") * self.repair.scale
            self.kernel.at(now + seconds, Order.RETURN, self._on_new, patient)

    def _on_new(self, call: Call) -> None:
        patient: Patient = call.argument
        node = patient.node
        now = self.kernel.now
        self.simulation.defects.clear(node)
        self.simulation.conditions.clear(node)
        self.memory.pop(node, None)
        self.cluster.failed.pop(node, None)
        self.generation[node] = self.generation.get(node, 0) + 1
        self.simulation.sources.replace(node)
        self._give_back(patient, now)
