"""From candidates to failures: does it count, where does it strike, what goes down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim.engine.kernel import Order
from sim.engine.lives import RELAPSE, Counts, Failure, Life, Numbers, Renewal, SourceInfo
from sim.engine.state_nodes import Place
from sim.failures.trace import life_key
from sim.failures.variety import fleet_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Group
    from sim.failures.trace import FailureTrace

Inside = list[tuple["Group", int]]


class Faults:
    """Lets faults happen."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.outages = simulation.outages
        self.counts = Counts()
        self.repairs = [0] * (len(simulation.prepared.sources) + 1)
        """Repairs that began, by index of the cause."""

    def start_outage(self, info: SourceInfo, slot: int, remaining: float) -> None:
        """Begin the simulation with a unit in repair; a life that begins at its return is the first."""
        if info.of_fabric:
            self.simulation.fabric.start_out(Failure(info, slot, -1), remaining)
            return
        nodes = self.nodes_of(info, slot, 0)
        for node in nodes:
            self.outages.take_down(node, 0.0, info.cause)
            if self.cluster.place[node] not in (Place.REPAIR, Place.WITHHELD):
                self.cluster.send_to_repair(node, info.cause, 0.0)
        self.kernel.at(remaining, Order.RETURN, self.outages.on_end, (nodes, Failure(info, slot, -1)))

    def nodes_of(self, info: SourceInfo, slot: int, number: int) -> tuple[int, ...]:
        """Return the nodes that a failure of a unit takes down."""
        if info.divisor:
            return (slot // info.divisor,)
        if number >= RELAPSE:
            return (slot,)
        if info.victims is not None:
            return info.victims.nodes(slot, number)
        assert info.blast is not None
        offsets, nodes = info.blast
        taken = nodes[offsets[slot] : offsets[slot + 1]]
        return tuple(taken if isinstance(taken, list) else taken.tolist())

    # ---------------------------------------------------------------------------------------------- candidates

    def occur(self, info: SourceInfo, slot: int, number: int, until: float = math.nan, *, waited: bool = False) -> None:
        """Let a candidate come true: drop it, or let its fault take effect. One that `waited` has done so enough."""
        counts = self.counts
        counts.candidates += 1
        failure = Failure(info, slot, number)
        if info.of_job:
            self.strike_job(failure)
            return
        nodes = self.nodes_of(info, slot, number)
        inside, outside = self.find(nodes)
        if not inside and not outside and nodes and self._is_withheld(nodes):
            self._drop(failure, inside, until)
            return
        # The common case first: a fault of one node, which can be hit where it is.
        is_hit = waited or inside[0][0].exposed == "both" if inside else info.always or not outside
        if not (is_hit or self._is_exposed(info, inside, outside, failure)) or (
            not info.always and self._is_thinned(info, nodes, failure)
        ):
            self._drop(failure, inside, until)
            return
        counts.faults += 1
        if not info.always and info.source.interrupts < 1 and failure.mark("interrupts") >= info.source.interrupts:
            counts.harmless += 1
            self.simulation.sources.renew(failure)
            return
        if info.of_fabric:
            self.simulation.fabric.fail(failure, until)
            return
        if not info.stops and (inside or outside):
            # The nodes go on, in their way, until somebody notices.
            self.simulation.conditions.begin(failure, nodes)
            return
        self.strike(failure, nodes, inside, outside, until)

    def _drop(self, failure: Failure, inside: Inside, until: float) -> None:
        """Let a candidate pass that cannot happen now: it never happens, or waits until it can."""
        info = failure.info
        if info.source.defer and inside and inside[0][0].exposed in ("none", "processes"):
            inside[0][0].deferred.append((info.index, failure.slot, failure.round, until))
            self.counts.candidates -= 1
            return
        self.counts.suppressed += 1
        self.simulation.sources.renew(failure)

    def on_deferred(self, call: Call) -> None:
        """Let a candidate that had to wait happen; an outage that was to end by now is left out."""
        index, slot, number, until = call.argument
        if until <= self.kernel.now:
            self.counts.candidates += 1
            self.counts.suppressed += 1
            return
        self.occur(self.simulation.sources.infos[index], slot, number, until, waited=True)

    def find(self, nodes: Sequence[int]) -> tuple[Inside, list[int]]:
        """Return the nodes that are up: those of groups, with their group, and those outside jobs."""
        cluster = self.cluster
        inside: Inside = []
        outside: list[int] = []
        for node in nodes:
            if cluster.outages[node] and node not in cluster.narrow:
                continue
            group = cluster.group[node]
            if group is not None and group.job.holding:
                inside.append((group, node))
            else:
                outside.append(node)
        return inside, outside

    def _is_withheld(self, nodes: Sequence[int]) -> bool:
        """Return whether nobody gets any of these nodes: nothing happens to them."""
        return all(self.cluster.place[node] == Place.WITHHELD for node in nodes)

    def _is_exposed(self, info: SourceInfo, inside: Inside, outside: list[int], failure: Failure) -> bool:
        """Return whether a fault can happen to any of these now; nodes without processes are hit like idle ones."""
        exposures = {group.exposed for group, _ in inside}
        if "both" in exposures:
            return True
        return (bool(outside) or "nodes" in exposures) and failure.mark("idle") < info.source.idle_hazard

    def _is_thinned(self, info: SourceInfo, nodes: Sequence[int], failure: Failure) -> bool:
        """Return whether a candidate that was drawn at the highest hazard is one too many."""
        if not info.source.thinned or failure.round >= RELAPSE:
            return False  # what a repair left strikes by a law of its own
        hazard = self.simulation.rollouts.hazard(info, nodes[0])
        return failure.mark("hazard") >= hazard / info.source.ceiling

    # ---------------------------------------------------------------------------------------------- failures

    def strike_job(self, failure: Failure) -> None:
        """Let a failure of a job as a whole happen."""
        counts = self.counts
        counts.faults += 1
        if not failure.info.stops:
            self.simulation.conditions.derail(self.simulation.jobs[failure.slot], failure)
            return
        counts.failures += 1
        counts.hits += 1
        group = self.simulation.jobs[failure.slot].main
        self.simulation.incidents.hit([group], failure, self.kernel.now, self.detect(failure))

    def detect(self, failure: Failure) -> float:
        """Return how long it takes until a job knows of a failure [s]."""
        detection = failure.info.detection
        return detection if isinstance(detection, float) else detection(failure.mark)

    def count(self, *, hits: bool, outside: bool, masked: bool, degraded: bool = False) -> None:
        """Count a failure by the first that it strikes: jobs, other nodes, nodes that are down, or only bandwidth."""
        counts = self.counts
        if not (hits or outside or masked) and degraded:
            counts.degraded += 1
            return
        counts.failures += 1
        if hits:
            counts.hits += 1
        elif outside:
            counts.outside += 1
        else:
            counts.masked += 1

    def strike(
        self,
        failure: Failure,
        nodes: Sequence[int],
        inside: Inside,
        outside: list[int],
        until: float = math.nan,
        wronged: Sequence[Group] = (),
    ) -> None:
        """Let a failure take nodes down and tell the groups that hold them, and those whose work it made wrong."""
        self.count(hits=bool(inside or wronged), outside=bool(outside), masked=True)
        if failure.info.source.thinned and (inside or outside):
            self.simulation.rollouts.note(failure.info, nodes[0])
        if not inside and not outside and len(nodes) < 2:
            self._mask(failure, nodes, until)
            if wronged:
                self.tell(failure, [], 0.0, wronged)
            return
        # What is noticed late, because the node goes on meanwhile, is known when it stops.
        latency = self.detect(failure) if inside and failure.info.stops else 0.0
        recorded = not math.isnan(until)
        if failure.info.by_course and not recorded:
            self._enter_course(failure, nodes, outside)
        else:
            self._begin_outage(failure, nodes, outside, latency, until)
        if inside or wronged:
            self.tell(failure, inside, latency, wronged)

    def _mask(self, failure: Failure, nodes: Sequence[int], until: float) -> None:
        """Let a failure strike a node that is down already, or none."""
        info = failure.info
        if info.source.planned and until > self.kernel.now:
            # Repaired or not, they stay out until the window closes.
            self._begin_outage(failure, nodes, [], 0.0, until)
        elif nodes:
            self.simulation.sources.renew(failure, nodes[0])

    def tell(self, failure: Failure, inside: Inside, latency: float, wronged: Sequence[Group] = ()) -> None:
        """Tell the groups that hold nodes which failed, and those whose work is wrong."""
        groups: list[Group] = list(wronged)
        for group, node in inside:
            group.suspects.append((node, failure))
            if group not in groups:
                groups.append(group)
        self.simulation.incidents.hit(groups, failure, self.kernel.now, latency)

    def _enter_course(self, failure: Failure, nodes: Sequence[int], outside: list[int]) -> None:
        """Take nodes down; those of jobs wait for the diagnosis, the others go to repair."""
        now = self.kernel.now
        for node in nodes:
            if not self.cluster.outages[node] or node in self.cluster.narrow:
                self.outages.take_down(node, now, failure.info.cause)
        for node in outside:
            self.leave_block(node, now)
            self.cluster.send_to_repair(node, failure.info.cause, now)
            self.simulation.lifecycle.admit(node, failure, now)

    def _begin_outage(
        self, failure: Failure, nodes: Sequence[int], outside: list[int], latency: float, until: float
    ) -> None:
        """Take nodes down for a time that is known."""
        known = self.kernel.now + latency
        info = failure.info
        if not math.isnan(until):
            if until > self.kernel.now:
                self._take_out(failure, nodes, outside, until)
        elif info.apart:
            for node in nodes:
                repair = self._repair_of(failure, node)
                if repair > 0:
                    self._take_out(failure, (node,), outside, known + repair)
                else:
                    self.outages.mend(failure, (node,), self.kernel.now)
        else:
            repair = info.repair if isinstance(info.repair, float) else info.repair(failure.mark("repair"))
            if repair > 0:
                self._take_out(failure, nodes, outside, known + repair)
            else:
                self.outages.mend(failure, nodes, self.kernel.now)
                self.simulation.sources.renew(failure)

    def _take_out(self, failure: Failure, nodes: Sequence[int], outside: list[int], end: float) -> None:
        """Take nodes down until `end` [s]; those of jobs stay at their places until the job knows."""
        now = self.kernel.now
        info = failure.info
        self.repairs[info.cause] += 1
        for node in nodes:
            self.outages.take_down(node, now, info.cause)
            if node in outside:
                self.leave_block(node, now)
                self.cluster.send_to_repair(node, info.cause, now, info.bucket)
        self.kernel.at(end, Order.RETURN, self.outages.on_end, (nodes, failure))

    def leave_block(self, node: int, now: float) -> None:
        """Let the lives of a node that a job in the queue once held go their own way."""
        former = self.cluster.group[node]
        if former is not None:
            self.simulation.lives.leave(node, former, now)

    def _repair_of(self, failure: Failure, node: int) -> float:
        repair = failure.info.repair
        return repair if isinstance(repair, float) else repair(failure.mark_at(node, "repair"))


# ----------------------------------------
# From lives to candidates: whose life ended, and when the next one of its slot begins.


class Sources:
    """Plays the trace and adds the candidates that follow from what happens."""

    def __init__(self, simulation: Simulation, trace: FailureTrace) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.infos = [SourceInfo(source, index, simulation) for index, source in enumerate(simulation.prepared.sources)]
        self.lives: dict[int, Numbers] = {}
        """Lives of the slots of those sources whose lives are not all in the trace [s]."""
        self.row = 0
        self.time: list[float] = trace.time.tolist()
        self.source: list[int] = trace.source.tolist()
        self.slot: list[int] = trace.slot.tolist()
        self.round: list[int] = trace.round.tolist()
        self.until: list[float] = trace.until.tolist()

    def start(self, trace: FailureTrace) -> None:
        """Hand out what is not a plain row of the trace, and begin to play."""
        self._start_lives()
        for outage in trace.initial:
            self.simulation.faults.start_outage(self.infos[outage.source], outage.slot, outage.remaining)
        if self.time:
            self.kernel.at(self.time[0], Order.FAILURE, self._on_row)

    def life(self, index: int, slot: int, number: int) -> float:
        """Return life `number` of a slot [s]."""
        lives = self.lives.get(index)
        if lives is None:
            lives = self.lives[index] = _lives_of(self.infos[index])
        return lives.get(slot, number)

    # -------------------------------------------------------------------------------------------- candidates

    def _start_lives(self) -> None:
        """Hand the lives over that are not in the trace's time: those on the clock busy, and hidden faults."""
        apart = {index for index, info in enumerate(self.infos) if info.source.clock == "busy" or info.source.hidden}
        if not apart:
            return
        keep = []
        for row, index in enumerate(self.source):
            if index not in apart:
                keep.append(row)
                continue
            info = self.infos[index]
            slot = self.slot[row]
            if info.source.hidden is not None:
                self.simulation.defects.start(info, slot, self.time[row])
            elif info.of_job:
                life = Life(-1, index, slot, self.round[row], self.time[row])
                group = self.simulation.jobs[slot].main
                # Who takes the nodes of a job does not ask whether processes run on them.
                clock = group.held if info.source.away is not None else group.processes
                self.simulation.lives.add_group_life(clock, life)
            else:
                life = Life(slot // info.divisor, index, slot, self.round[row], self.time[row])
                self.simulation.lives.add_node_life(life)
        for name in ("time", "source", "slot", "round", "until"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])

    def _on_row(self, call: Call) -> None:
        del call
        row = self.row
        self.row = row + 1
        if row + 1 < len(self.time):
            self.kernel.at(self.time[row + 1], Order.FAILURE, self._on_row)
        info = self.infos[self.source[row]]
        if info.in_service or info.source.renews == "never":
            self._candidate(info.index, self.slot[row], self.round[row], self.until[row])
        else:
            self.simulation.faults.occur(info, self.slot[row], self.round[row], self.until[row])

    def on_candidate(self, call: Call) -> None:
        """Let a candidate that is not in the trace come due."""
        self._candidate(*call.argument)

    def _candidate(self, index: int, slot: int, number: int, until: float, due: float | None = None) -> None:
        """Deal with a life that ends now, unless its clock stood still meanwhile or its node is gone."""
        now = self.kernel.now
        info = self.infos[index]
        faults = self.simulation.faults
        if info.source.renews == "never" and info.divisor and self._is_gone(slot // info.divisor, number):
            return
        if info.in_service:
            node = slot // info.divisor
            due = now if due is None else due
            outages = self.simulation.outages
            if outages.is_early(node, due, now):
                outages.schedule(node, index, slot, number, due)
                return
            faults.occur(info, slot, number, until)
            if info.source.renews != "never":
                # The clock stands still while the node is down, so both renewals begin at the same reading.
                outages.schedule(node, index, slot, number + 1, due + self.life(index, slot, number + 1))
            return
        faults.occur(info, slot, number, until)

    def _is_gone(self, node: int, number: int) -> bool:
        """Return whether a life belonged to a node that has been replaced; each new node begins the next one."""
        replaced = self.simulation.lifecycle.generation
        return bool(replaced) and number < replaced.get(node, 0)

    def occur_busy(self, life: Life) -> Life | None:
        """Let a life on the clock busy end; return the next one of its slot."""
        info = self.infos[life.source]
        if info.source.hidden is not None or life.round >= RELAPSE:
            self.simulation.defects.strike(life)
            return None
        self.simulation.faults.occur(info, life.slot, life.round)
        if info.source.renews == "never":
            return None
        due = life.due + self.life(life.source, life.slot, life.round + 1)
        return Life(life.node, life.source, life.slot, life.round + 1, due)

    # ---------------------------------------------------------------------------------------------- renewals

    def renew(self, failure: Failure, node: int = -1) -> None:
        """Begin the next life of a slot that renews at return: now, or when its node, which is down, is back."""
        info = failure.info
        if not info.returns:
            return
        renewal = Renewal(info.index, failure.slot, failure.round + 1)
        if node >= 0:
            self.simulation.outages.renewals.setdefault(node, []).append(renewal)
        else:
            self.begin_life(renewal)

    def begin_life(self, renewal: Renewal) -> None:
        """Begin a life on the wall clock now; what a repair left behind belongs to a life that has been followed."""
        index, slot, number = renewal
        if number > RELAPSE:
            return
        now = self.kernel.now
        life = self.life(index, slot, number)
        tempo = self.infos[index].tempo
        end = now + life if tempo is None else tempo.moment(tempo.elapsed(now) + life)
        if end < self.simulation.end:
            self.kernel.at(end, Order.FAILURE, self.on_candidate, (index, slot, number, math.nan))

    def replace(self, node: int) -> None:
        """Begin the lives of a new node, of those sources whose units are not renewed otherwise.

        The lives of the old node end with it; those on the wall clock are known by their number.
        """
        generation = self.simulation.lifecycle.generation[node]
        lives = self.simulation.lives
        for info in self.infos:
            if info.source.renews != "never" or not info.divisor or info.source.law is None:
                continue
            for slot in range(node * info.divisor, (node + 1) * info.divisor):
                if info.source.clock == "wall":
                    self.begin_life(Renewal(info.index, slot, generation))
                    continue
                seconds = self.life(info.index, slot, generation)
                if info.in_service:
                    self.simulation.outages.schedule_from_now(node, info.index, slot, generation, seconds)
                else:
                    lives.void_slot(node, info.index, slot)
                    lives.begin(Life(node, info.index, slot, generation, 0.0), seconds, self.kernel.now)


def _lives_of(info: SourceInfo) -> Numbers:
    """Return the lives of a source's slots [s]."""
    fleet = fleet_of(info.source, *info.prefix)
    slots = np.arange(info.source.units, dtype=np.int64)
    return Numbers(
        life_key(info.source, *info.prefix), info.source.units, lambda numbers: fleet.lives(slots, numbers), fleet.life
    )
