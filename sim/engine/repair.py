"""Repair: what is open against each node, and the way of a blamed node through diagnosis, tiers and crews, and back."""

from __future__ import annotations

import functools
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ettrick.sim import rng
from ettrick.sim.engine.holders import PendingRepair
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.lives import RELAPSE, FailureCounts
from ettrick.sim.engine.nodes import NodeState, TimeWeightedCount
from ettrick.sim.engine.result import PartUse
from ettrick.sim.policies.contracts import BLAME_DRAWS, Bucket, Evict, NodeView, RepairPlan
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ettrick.sim.engine.failures import Failures
    from ettrick.sim.engine.holders import Allocation, ReplicaGroup
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.kernel import Environment
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.nodes import Cluster
    from ettrick.sim.engine.prepared import PartPlan, Prepared
    from ettrick.sim.policies.contracts import Memory


@dataclass(slots=True, eq=False)
class RepairTicket:
    """A node in repair, and how far it has come."""

    node: int
    failure: FailureEvent
    course: RepairPlan
    is_wrong: bool
    """Whether it was blamed for a failure of another node."""
    visit: int = 0
    has_part: bool = False
    """Whether it has got the part that its repair needs, if any."""


class _Crews:
    """The crews of one tier, and who waits for them."""

    __slots__ = ("free", "waiting")

    def __init__(self, crews: int) -> None:
        self.free = crews
        self.waiting: deque[RepairTicket] = deque()


class PartsStock:
    """A stock of parts: who needs one takes it or waits in line; orders, vendor returns and deliveries fill it up."""

    def __init__(self, name: str, plan: PartPlan, kernel: Environment, seed: int, replication: int) -> None:
        self.name = name
        self.rule = plan.stock
        self.tier = plan.tier
        self.kernel = kernel
        self.key = functools.partial(rng.stream, seed, replication, "parts", name)
        self.on_order = 0
        self.orders = self.demands = 0
        self.asked = self.waited = self.bought = 0
        self.shelf = TimeWeightedCount()
        self.shelf.count = plan.stock.stock
        self.nodes = TimeWeightedCount()
        """Nodes that wait."""
        self.line: deque[tuple[int, Callable[[float], None]]] = deque()

    def is_needed(self, failure: FailureEvent, node: int) -> bool:
        """Return whether the repair of a failure needs a part."""
        return self.rule.share >= 1 or failure.mark_at(node, "part") < self.rule.share

    def take(self, nodes: int, begin: Callable[[float], None]) -> None:
        """Give a part to the repair of so many `nodes`, which begins with it, and order what is missing."""
        now = self.kernel.now
        self.asked += 1
        if self.shelf.count:
            self.shelf.change(-1, now)
            begin(now)
        else:
            self.waited += 1
            self.nodes.change(nodes, now)
            self.line.append((nodes, begin))
        returns = self.rule.returns
        if returns is not None and self._draw("returns", self.demands) < returns.repaired:
            self.on_order += 1
            seconds = returns.time.ppf_one(self._draw("return time", self.demands))
            self.kernel.at(now + seconds, EventPriority.RETURN, self._on_arrival, 1)
        self.demands += 1
        if self.shelf.count + self.on_order - len(self.line) <= self.rule.least:
            self._order(now)

    def _order(self, now: float) -> None:
        """Order up to the stock; what arrives between two deliveries comes with the next."""
        count = self.rule.stock - (self.shelf.count + self.on_order - len(self.line))
        arrival = now + self.rule.lead.ppf_one(self._draw("lead", self.orders))
        if self.rule.deliveries is not None:
            arrival = math.ceil(arrival / self.rule.deliveries) * self.rule.deliveries
        self.orders += 1
        self.bought += count
        self.on_order += count
        self.kernel.at(arrival, EventPriority.RETURN, self._on_arrival, count)

    def _on_arrival(self, count: int, now: float) -> None:
        self.on_order -= count
        self.shelf.change(count, now)
        while self.line and self.shelf.count:
            nodes, begin = self.line.popleft()
            self.nodes.change(-nodes, now)
            self.shelf.change(-1, now)
            begin(now)

    def _draw(self, purpose: str, number: int) -> float:
        """Return a uniform number of an order, or of a part that is asked for."""
        return rng.uniform_one(self.key(purpose), 0, number)

    def collect(self, now: float) -> PartUse:
        """Return what has become of the stock since the last time, and begin again."""
        use = PartUse(self.asked, self.waited, self.bought, self.nodes.collect(now), self.shelf.collect(now))
        self.asked = self.waited = self.bought = 0
        return use


class Repair:
    """Takes nodes down, sends them through the courses that the repair strategy gives them, and brings them back.

    A node returns when nothing is open against it.
    """

    failures: Failures
    jobs: JobPhases

    def __init__(
        self, prepared: Prepared, replication: int, kernel: Environment, cluster: Cluster, *, keeps_log: bool
    ) -> None:
        self.strategy = strategy = prepared.repair
        self.shelves = [
            PartsStock(name, plan, kernel, prepared.seed, replication) for name, plan in prepared.parts.items()
        ]
        self.shelf_of = {cause: shelf for shelf in self.shelves for cause in prepared.parts[shelf.name].causes}
        """The shelf that the repairs of a cause need."""
        self.kernel = kernel
        self.cluster = cluster
        self.counts = FailureCounts()
        self.begun = [0] * (len(prepared.sources) + 1)
        """Repairs that began, by index of the cause."""
        self.log: list[tuple[int, float, float, int]] | None = [] if keeps_log else None
        """Node, start, end and cause of each stretch in which a node was down."""
        self.since: dict[int, tuple[float, int]] = {}
        """Since when each node that is down is, and the cause that took it down."""
        self.crews = {tier: _Crews(count) for tier, count in enumerate(strategy.crews) if count is not None}
        self.memory: dict[int, Memory] = {}
        """The memory of the repair strategy about each node."""
        self.returned: dict[int, float] = {}
        """The time at which a node last returned to service [s]."""

    # ---------------------------------------------------------------------------------------------- outages

    def take(self, failure: FailureEvent, nodes: Sequence[int], outside: Sequence[int], until: float) -> None:
        """Take nodes down that a failure strikes, until its window closes, through a course, or for a drawn time.

        Those of jobs stay at their places until the job knows; those `outside` leave theirs now. An outage of a node
        that is down joins the others; a course mends whatever has struck its node meanwhile.
        """
        now = self.kernel.now
        info = failure.info
        if not math.isnan(until):
            if until > now:
                self.take_out(failure, nodes, outside, until)
        elif info.by_course:
            struck = [node for node in nodes if not self.cluster.outages[node] or node in self.cluster.narrow]
            for node in struck:
                self.take_down(node, now, info.cause)
            for node in outside:
                self.cluster.send_to_repair(node, info.cause, now)
                self.admit(node, failure, now)
            if not struck:
                self.failures.renewals.renew(failure)
        else:
            for unit in [(node,) for node in nodes] if info.apart else [nodes]:
                self._take_unit(failure, unit, outside, now)

    def _take_unit(self, failure: FailureEvent, unit: Sequence[int], outside: Sequence[int], now: float) -> None:
        """Take nodes down that are repaired together, for a drawn time."""
        repair = failure.info.repair
        seconds = repair if isinstance(repair, float) else repair(failure.mark_at(unit[0], "repair"))
        if seconds > 0:
            self._take_out(failure, unit, outside, seconds)
        else:
            self.mend(failure, unit, now)
            if not failure.info.apart:
                self.failures.renewals.renew(failure)

    def _take_out(self, failure: FailureEvent, nodes: Sequence[int], outside: Sequence[int], seconds: float) -> None:
        """Take nodes down for a repair of so many `seconds`, from when it is known and its part is there."""
        self.take_out(failure, nodes, outside, math.inf)
        cluster = self.cluster
        groups = [group for node in nodes if (group := cluster.group[node]) is not None and group.job.holding]
        shelf = self.shelf_of.get(failure.info.source.name) if self.shelf_of else None
        if shelf is not None and not shelf.is_needed(failure, nodes[0]):
            shelf = None
        pending = PendingRepair(failure, nodes, seconds, is_known=not groups, has_part=shelf is None)
        for group in groups:
            group.repairs.append(pending)

        def take_part(now: float) -> None:
            pending.has_part = True
            self._begin_repair(pending, now)

        if shelf is not None:
            shelf.take(len(nodes), take_part)
        else:
            self._begin_repair(pending, self.kernel.now)

    def _begin_repair(self, pending: PendingRepair, now: float) -> None:
        """Begin a repair, if it is known and its part is there."""
        if pending.is_known and pending.has_part and not pending.has_begun:
            pending.has_begun = True
            self.kernel.at(now + pending.seconds, EventPriority.RETURN, self.on_end, pending.nodes, pending.failure)

    def begin_repairs(self, group: ReplicaGroup | Allocation, now: float) -> None:
        """Begin the repairs of all that has struck the nodes of a group: it knows now."""
        repairs, group.repairs = group.repairs, []
        for pending in repairs:
            pending.is_known = True
            self._begin_repair(pending, now)

    def send(self, node: int, now: float) -> None:
        """Send a node that is down out of its place, with the cause that took it down."""
        cause = self.since[node][1]
        self.cluster.send_to_repair(node, cause, now, self.failures.infos[cause - 1].bucket)

    def take_out(self, failure: FailureEvent, nodes: Sequence[int], outside: Sequence[int], end: float) -> None:
        """Take nodes down until `end` [s]; for ever if that is infinite."""
        now = self.kernel.now
        info = failure.info
        self.begun[info.cause] += 1
        for node in nodes:
            self.take_down(node, now, info.cause)
            if node in outside:
                self.cluster.send_to_repair(node, info.cause, now, info.bucket)
        if end < math.inf:
            self.kernel.at(end, EventPriority.RETURN, self.on_end, nodes, failure)

    def take_down(self, node: int, now: float, cause: int) -> None:
        """Open an outage of a node."""
        cluster = self.cluster
        cluster.outages[node] += 1
        if cluster.outages[node] == 1:
            cluster.count_down(1, now)
            self.since[node] = (now, cause)
            if self.failures.renewals.counts_service:
                self.failures.renewals.down_since[node] = now

    def on_end(self, nodes: Sequence[int], failure: FailureEvent, now: float) -> None:
        """End an outage of nodes."""
        self.mend(failure, nodes, now)
        returned = self.close_all(nodes, now)
        self.failures.renewals.renew(failure)
        if returned:
            self.jobs.offer(now)

    def mend(self, failure: FailureEvent, nodes: Sequence[int], now: float) -> None:
        """Let a repair of nodes remove what is wrong with them, or leave it."""
        source = failure.info.source
        residue = source.residue
        if residue is None and not self.failures.is_any_unwell:
            return
        if source.recorded is not None or source.rollout is not None or source.alarm:
            return  # maintenance and false alarms mend nothing, and for a log it is unknown
        if not failure.info.divisor and not failure.info.apart:
            return  # it is the shared part that was repaired
        for node in nodes:
            if residue is not None and residue.probability and failure.mark_at(node, "relapse") < residue.probability:
                self.failures.remain(node, failure, now)
            else:
                self.failures.cure(node)

    def close_all(self, nodes: Iterable[int], now: float) -> bool:
        """Close an outage of each of some nodes; return whether that brings one back."""
        returned = [self.close(node, now) for node in nodes]
        return any(returned)

    def close(self, node: int, now: float) -> bool:
        """Close an outage of a node; return whether that brings it back."""
        cluster = self.cluster
        cluster.outages[node] -= 1
        if cluster.outages[node]:
            return False
        cluster.count_down(-1, now)
        cluster.narrow.discard(node)
        start, cause = self.since.pop(node)
        if self.log is not None:
            self.log.append((node, start, now, cause))
        # A node that returned before the job knew of its failure never left its place.
        if cluster.place[node] == NodeState.REPAIR:
            cluster.bring_back(node, now)
        self.failures.node_up(node, now)
        return True

    # ---------------------------------------------------------------------------------------------- diagnosis

    def diagnose(self, node: int, failure: FailureEvent, group: ReplicaGroup | Allocation, now: float) -> int:
        """Decide who is blamed for a failure of a node; return how many nodes the group loses."""
        holds = self.cluster.group[node] is group
        is_known = failure.info.warns and failure.is_foreseen
        verdict = self.strategy.diagnose(failure.mark) if holds and not is_known else "right"
        if verdict == "right":
            if holds:
                self.cluster.send_to_repair(node, failure.info.cause, now)
            self.admit(node, failure, now)
            return int(holds)
        # Nobody repairs the node: what was wrong with it still is.
        is_up = self.close(node, now)
        if not is_up:
            # Something else has taken it down meanwhile.
            self.cluster.send_to_repair(node, failure.info.cause, now)
        self.failures.renewals.renew(failure)
        self.failures.remain(node, failure, now)
        if verdict == "none":
            self.counts.unblamed += 1
            if is_up:
                self.cluster.set_aside(node, now)
                if self.cluster.units is None and node not in group.job.unblamed:
                    group.job.unblamed.append(node)
            return 1
        self.counts.wrong_blames += 1
        wrong_node = self._other(node, failure, group)
        if wrong_node < 0:
            return int(not is_up)
        self.take_down(wrong_node, now, failure.info.cause)
        self.cluster.send_to_repair(wrong_node, failure.info.cause, now)
        self.admit(wrong_node, failure, now, is_wrong=True)
        return 2 - is_up

    def _other(self, node: int, failure: FailureEvent, group: ReplicaGroup | Allocation) -> int:
        """Return another node of the group that is up, each with the same probability, or -1."""
        positions = group.job.nodes
        for attempt in range(BLAME_DRAWS):
            mate = positions[int(failure.mark(f"other {attempt}") * len(positions))]
            if mate >= 0 and mate != node and self.cluster.group[mate] is group and not self.cluster.outages[mate]:
                return mate
        return -1

    # ----------------------------------------------------------------------------------------------- eviction

    def evicted(self, group: ReplicaGroup, step: Evict) -> range:
        """Return the positions that go with those which failed."""
        first = (min(group.missing) if group.missing else 0) // step.nodes * step.nodes
        return range(first, min(first + step.nodes, len(group.job.nodes)))

    def evict(self, group: ReplicaGroup, step: Evict, now: float) -> bool:
        """Take healthy nodes out of a job and test them: which of them failed, or whether one did, is unknown."""
        cluster = self.cluster
        places = [group.job.nodes[position] for position in self.evicted(group, step)]
        nodes = [node for node in places if node >= 0 and cluster.group[node] is group and not cluster.outages[node]]
        for node in nodes:
            self.take_down(node, now, group.cause)
            cluster.send_to_repair(node, group.cause, now, Bucket.QUALIFICATION)
            # Other outages of the node may last longer.
            cluster.repairing[node].segments = [(Bucket.QUALIFICATION, now + step.seconds), (Bucket.REPAIR, math.inf)]
        cluster.let_go_torn(group, now)
        self.counts.evicted += len(nodes)
        self.kernel.at(now + step.seconds, EventPriority.RETURN, self._on_tested, nodes)
        return False

    def _on_tested(self, nodes: Sequence[int], now: float) -> None:
        """Let nodes that have passed their test wait for work again."""
        if self.close_all(nodes, now):
            self.jobs.offer(now)

    # ------------------------------------------------------------------------------------------------- course

    def admit(self, node: int, failure: FailureEvent, now: float, *, is_wrong: bool = False) -> None:
        """Let a node that is out of its place begin its course."""
        source = failure.info.source
        self.begun[failure.info.cause] += 1
        # Where a failure took several nodes, each has numbers of its own.
        mark = functools.partial(failure.mark_at, node) if failure.info.apart else failure.mark
        view = NodeView(now, source.name, source.tier, now - self.returned.get(node, 0.0), mark)
        course, memory = self.strategy.course(view, self.memory.get(node))
        if memory is not None:
            self.memory[node] = memory
        patient = RepairTicket(node, failure, course, is_wrong)
        if course.retires:
            self._retire(patient, now)
        elif self.crews or source.name in self.shelf_of:
            self._next(patient, now)
        else:
            self._all_at_once(patient, now)

    def _all_at_once(self, patient: RepairTicket, now: float) -> None:
        """Plan the whole course of a repair at once, where everybody has a crew."""
        visits = patient.course.visits
        end = now
        for visit in visits:
            end += visit.seconds
        if visits[-1].tier < 0:
            self._plan_stay(patient, now)
        self.kernel.at(end, EventPriority.RETURN, self._done, patient)

    def _plan_stay(self, patient: RepairTicket, now: float) -> None:
        """Say which part of the stay is qualification; the rest is repair."""
        segments: list[tuple[int, float]] = []
        for visit in patient.course.visits:
            now += visit.seconds
            segments.append((Bucket.QUALIFICATION if visit.tier < 0 else Bucket.REPAIR, now))
        # Other outages of the node may last longer.
        segments.append((Bucket.REPAIR, math.inf))
        self.cluster.repairing[patient.node].segments = segments

    def _next(self, patient: RepairTicket, now: float) -> None:
        """Begin the next stay, or wait for a crew."""
        visits = patient.course.visits
        if patient.visit == len(visits):
            self._done(patient, now)
            return
        visit = visits[patient.visit]
        shelf = self.shelf_of.get(patient.failure.info.source.name)
        if shelf is not None and visit.tier == shelf.tier and not patient.has_part:
            patient.has_part = True
            if shelf.is_needed(patient.failure, patient.node):
                shelf.take(1, lambda now: self._next(patient, now))
                return
        crews = self.crews.get(visit.tier)
        if crews is not None:
            if crews.free == 0:
                crews.waiting.append(patient)
                return
            crews.free -= 1
        self._begin(patient, now)

    def _begin(self, patient: RepairTicket, now: float) -> None:
        visit = patient.course.visits[patient.visit]
        if visit.tier < 0:
            stay = self.cluster.repairing[patient.node]
            # What is ahead stays ahead: earlier tests may not have been charged yet.
            stay.segments[-1:] = [
                (Bucket.REPAIR, now),
                (Bucket.QUALIFICATION, now + visit.seconds),
                (Bucket.REPAIR, math.inf),
            ]
        self.kernel.at(now + visit.seconds, EventPriority.RETURN, self._on_visit_end, patient)

    def _on_visit_end(self, patient: RepairTicket, now: float) -> None:
        crews = self.crews.get(patient.course.visits[patient.visit].tier)
        if crews is not None:
            if crews.waiting:
                self._begin(crews.waiting.popleft(), now)
            else:
                crews.free += 1
        patient.visit += 1
        self._next(patient, now)

    def _done(self, patient: RepairTicket, now: float) -> None:
        """Let a node work again, healthy or seemingly so."""
        node = patient.node
        self.counts.repairs += 1
        if patient.course.fixed:
            self.failures.cure(node)
        else:
            self.counts.false_repairs += 1
            if not patient.is_wrong:
                self.failures.remain(node, patient.failure, now)
        self._give_back(patient, now)

    def _give_back(self, patient: RepairTicket, now: float) -> None:
        node = patient.node
        self.returned[node] = now
        if not patient.is_wrong:
            self.failures.renewals.renew(patient.failure)
        if self.close(node, now):
            self.jobs.offer(now)

    # --------------------------------------------------------------------------------------------- retirement

    def _retire(self, patient: RepairTicket, now: float) -> None:
        """Give a node up; a new one may come."""
        self.counts.retired += 1
        is_lemon = bool(self.failures.hidden.open.get(patient.node)) or patient.failure.round >= RELAPSE
        self.counts.retired_sound += not is_lemon
        law = self.strategy.replacement
        if law is not None:
            seconds = draw(law, patient.failure.mark, "replacement") * self.strategy.scale
            self.kernel.at(now + seconds, EventPriority.RETURN, self._on_new, patient)

    def _on_new(self, patient: RepairTicket, now: float) -> None:
        node = patient.node
        self.failures.cure(node)
        self.memory.pop(node, None)
        self.cluster.failed.pop(node, None)
        self.failures.renewals.replace(node)
        self._give_back(patient, now)
