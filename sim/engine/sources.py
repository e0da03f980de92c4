"""From candidates to failures: whose life ended, does it count, what goes down, when the next life begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim import rng
from sim.cluster import Place
from sim.engine.failure import Counts, Failure, Renewal, SourceInfo
from sim.engine.kernel import Order
from sim.engine.lives import Life
from sim.engine.outages import Outages
from sim.failures.trace import ROUNDS, life_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.failures.trace import FailureTrace
    from sim.job import Group

__all__ = ["Sources"]


class Sources:
    """Plays the trace and adds the candidates that follow from what happens."""

    def __init__(self, simulation: Simulation, trace: FailureTrace) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.counts = Counts()
        self.infos = [SourceInfo(source, simulation) for source in simulation.prepared.sources]
        self.keys: dict[tuple[int, str], int] = {}
        for index, info in enumerate(self.infos):
            info.repair_key = self.mark_key(index, "repair")
        self.outages = Outages(simulation, self, any(info.in_service for info in self.infos))
        self.row = 0
        self.time: list[float] = trace.time.tolist()
        self.source: list[int] = trace.source.tolist()
        self.slot: list[int] = trace.slot.tolist()
        self.round: list[int] = trace.round.tolist()
        self.until: list[float] = trace.until.tolist()
        self._start_busy_lives()
        for outage in trace.initial:
            self._start_outage(outage.source, outage.slot, outage.remaining)
        if self.time:
            self.kernel.at(self.time[0], Order.FAILURE, self._on_row)

    # ---------------------------------------------------------------------------------------- random numbers

    def mark_key(self, index: int, purpose: str) -> int:
        """Return the key of the marks of a source for a purpose."""
        key = self.keys.get((index, purpose))
        if key is None:
            name = self.infos[index].source.name
            key = rng.stream(self.simulation.prepared.seed, self.simulation.replication, "mark", name, purpose)
            self.keys[index, purpose] = key
        return key

    def _life(self, index: int, slot: int, number: int) -> float:
        """Return life `number` of a slot [s]."""
        key = self.keys.get((index, "life"))
        if key is None:
            source = self.infos[index].source
            key = life_key(source, self.simulation.prepared.seed, self.simulation.replication)
            self.keys[index, "life"] = key
        life = self.infos[index].life
        assert life is not None
        assert number < ROUNDS
        return life(rng.uniform_one(key, slot, number))

    # -------------------------------------------------------------------------------------------- candidates

    def _start_busy_lives(self) -> None:
        """Hand the lives on the clock busy over to their nodes and jobs; they are not in the trace's time."""
        busy = {index for index, info in enumerate(self.infos) if info.source.clock == "busy"}
        if not busy:
            return
        keep = []
        for row, index in enumerate(self.source):
            if index not in busy:
                keep.append(row)
                continue
            info = self.infos[index]
            slot = self.slot[row]
            node = -1 if info.source.part == "job" else slot // info.divisor
            life = Life(node, index, slot, self.round[row], self.time[row])
            if node < 0:
                self.simulation.lives.add_group_life(self.simulation.jobs[slot].main, life)
            else:
                self.simulation.lives.add_node_life(life)
        for name in ("time", "source", "slot", "round", "until"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])

    def _start_outage(self, index: int, slot: int, remaining: float) -> None:
        """Begin with a unit in repair."""
        info = self.infos[index]
        nodes = self._nodes(info, slot)
        for node in nodes:
            self.outages.take_down(node, 0.0)
            if self.cluster.place[node] != Place.REPAIR:
                self.cluster.send_to_repair(node, index + 1, 0.0)
        renewals = (Renewal(index, slot, 0),) if info.returns else ()
        self.kernel.at(remaining, Order.RETURN, self.outages.on_end, (nodes, renewals))

    def _on_row(self, call: Call) -> None:
        del call
        row = self.row
        self.row = row + 1
        if row + 1 < len(self.time):
            self.kernel.at(self.time[row + 1], Order.FAILURE, self._on_row)
        index = self.source[row]
        info = self.infos[index]
        if info.in_service:
            self._candidate(index, self.slot[row], self.round[row], self.until[row])
        else:
            self._occur(info, index, self.slot[row], self.round[row], self.until[row])

    def on_candidate(self, call: Call) -> None:
        """Let a candidate that is not in the trace come due."""
        self._candidate(*call.argument)

    def _candidate(self, index: int, slot: int, number: int, until: float, due: float | None = None) -> None:
        """Deal with a life that ends now, unless its clock stood still meanwhile."""
        now = self.kernel.now
        info = self.infos[index]
        if info.in_service:
            node = slot // info.divisor
            due = now if due is None else due
            if self.outages.is_early(node, due, now):
                self.outages.schedule(node, index, slot, number, due)
                return
            self._occur(info, index, slot, number, until)
            if info.source.renews != "never":
                # The clock stands still while the node is down, so both renewals begin at the same reading.
                self.outages.schedule(node, index, slot, number + 1, due + self._life(index, slot, number + 1))
            return
        self._occur(info, index, slot, number, until)

    def occur_busy(self, life: Life) -> Life | None:
        """Let a life on the clock busy end; return the next one of its slot."""
        info = self.infos[life.source]
        self._occur(info, life.source, life.slot, life.round, math.nan)
        if info.source.renews == "never":
            return None
        due = life.due + self._life(life.source, life.slot, life.round + 1)
        return Life(life.node, life.source, life.slot, life.round + 1, due)

    # ---------------------------------------------------------------------------------------------- failures

    def _nodes(self, info: SourceInfo, slot: int) -> tuple[int, ...]:
        """Return the nodes that a unit takes down."""
        if info.divisor:
            return (slot // info.divisor,)
        assert info.blast is not None
        offsets, nodes = info.blast
        return tuple(nodes[offsets[slot] : offsets[slot + 1]])

    def _occur(self, info: SourceInfo, index: int, slot: int, number: int, until: float) -> None:
        """Let a fault happen: drop it, or take nodes down and tell the groups."""
        counts = self.counts
        counts.candidates += 1
        failure = Failure(self, index, slot, number)
        if info.of_job:
            counts.faults += 1
            counts.failures += 1
            counts.hits += 1
            group = self.simulation.jobs[slot].main
            self.simulation.incidents.hit([group], failure, self.kernel.now, self._detect(info, failure))
            return
        nodes = self._nodes(info, slot)
        inside, outside = self._find(nodes)
        # The common case first: a fault of one node, which can be hit where it is.
        is_hit = inside[0][0].exposed if inside else info.always or not outside
        if not is_hit and not self._is_exposed(info, inside, outside, failure):
            counts.suppressed += 1
            self._renew(info, index, slot, number, ())
            return
        counts.faults += 1
        if not info.always and info.source.interrupts < 1 and failure.mark("interrupts") >= info.source.interrupts:
            counts.harmless += 1
            self._renew(info, index, slot, number, ())
            return
        counts.failures += 1
        if inside:
            counts.hits += 1
        elif outside:
            counts.outside += 1
        else:
            counts.masked += 1
            if len(nodes) == 1:
                self._renew(info, index, slot, number, nodes)
                return
        self._take_effect(info, failure, nodes, inside, outside, until)

    def _find(self, nodes: Sequence[int]) -> tuple[list[tuple[Group, int]], list[int]]:
        """Return the nodes that are up: those of groups, with their group, and those outside jobs."""
        cluster = self.cluster
        inside: list[tuple[Group, int]] = []
        outside: list[int] = []
        for node in nodes:
            if cluster.outages[node]:
                continue
            group = cluster.group[node]
            if group is not None and group.job.holding:
                inside.append((group, node))
            else:
                outside.append(node)
        return inside, outside

    def _is_exposed(
        self, info: SourceInfo, inside: list[tuple[Group, int]], outside: list[int], failure: Failure
    ) -> bool:
        """Return whether a fault can happen to any of these now."""
        for group, _ in inside:
            if group.exposed:
                return True
        return bool(outside) and failure.mark("idle") < info.source.idle_hazard

    def _detect(self, info: SourceInfo, failure: Failure) -> float:
        detection = info.detection
        return detection if isinstance(detection, float) else detection(failure.mark("detection"))

    def _take_effect(
        self,
        info: SourceInfo,
        failure: Failure,
        nodes: Sequence[int],
        inside: list[tuple[Group, int]],
        outside: list[int],
        until: float,
    ) -> None:
        """Take nodes down and tell the groups that hold them."""
        now = self.kernel.now
        cluster = self.cluster
        recorded = not math.isnan(until)
        if recorded:
            stays_down = until - now
        else:
            repair = info.repair
            stays_down = (
                repair
                if isinstance(repair, float)
                else repair(rng.uniform_one(info.repair_key, failure.slot, failure.round))
            )
        latency = self._detect(info, failure) if inside else 0.0
        if stays_down > 0:
            for node in nodes:
                self.outages.take_down(node, now)
            for node in outside:
                former = cluster.group[node]
                if former is not None:
                    self.simulation.lives.leave(node, former, now)
                cluster.send_to_repair(node, failure.index + 1, now)
            renewals = (Renewal(failure.index, failure.slot, failure.round + 1),) if info.returns else ()
            end = until if recorded else now + latency + stays_down
            self.kernel.at(end, Order.RETURN, self.outages.on_end, (nodes, renewals))
        elif info.returns:
            self._renew(info, failure.index, failure.slot, failure.round, ())
        if inside:
            groups: list[Group] = []
            for group, node in inside:
                group.suspects.append((node, failure.index + 1))
                if group not in groups:
                    groups.append(group)
            self.simulation.incidents.hit(groups, failure, now, latency)

    def _renew(self, info: SourceInfo, index: int, slot: int, number: int, nodes: Sequence[int]) -> None:
        """Begin the next life of a slot that renews at return: now, or when its node, which is down, is back."""
        if not info.returns:
            return
        renewal = Renewal(index, slot, number + 1)
        if nodes:
            self.outages.renewals.setdefault(nodes[0], []).append(renewal)
        else:
            self.begin_life(renewal)

    def begin_life(self, renewal: Renewal) -> None:
        """Begin a life on the wall clock now."""
        index, slot, number = renewal
        end = self.kernel.now + self._life(index, slot, number)
        if end < self.simulation.end:
            self.kernel.at(end, Order.FAILURE, self.on_candidate, (index, slot, number, math.nan))
