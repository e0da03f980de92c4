"""From candidates to failures: whose life ended, does it count, what goes down, when the next life begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sim import rng
from sim.cluster import Place
from sim.engine.kernel import Order
from sim.engine.lives import Life
from sim.failures.trace import ROUNDS, life_key
from sim.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.failures.source import Source
    from sim.failures.trace import FailureTrace
    from sim.job import Group
    from sim.laws import LawModel

__all__ = ["Counts", "Failure", "Sources"]


class Counts:
    """Events by what became of them; ``docs/reference/metrics.md`` says how they add up."""

    __slots__ = ("candidates", "failures", "faults", "harmless", "hits", "masked", "outside", "suppressed")

    def __init__(self) -> None:
        self.candidates = 0
        self.suppressed = 0
        self.faults = 0
        self.harmless = 0
        self.failures = 0
        self.masked = 0
        self.outside = 0
        self.hits = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


class Failure:
    """One failure and the random numbers that belong to it."""

    __slots__ = ("index", "round", "slot", "sources")

    def __init__(self, sources: Sources, index: int, slot: int, number: int) -> None:
        self.sources = sources
        self.index = index
        self.slot = slot
        self.round = number

    def mark(self, purpose: str) -> float:
        """Return the uniform number of this failure for `purpose`."""
        return rng.uniform_one(self.sources.mark_key(self.index, purpose), self.slot, self.round)


class _Renewal(NamedTuple):
    """A life that begins when a node returns."""

    source: int
    slot: int
    round: int


class _Info:
    """A source with what the hot path needs at hand."""

    __slots__ = (
        "always",
        "blast",
        "detection",
        "divisor",
        "in_service",
        "life",
        "of_job",
        "repair",
        "returns",
        "source",
    )

    def __init__(self, source: Source, simulation: Simulation) -> None:
        self.source = source
        prepared = simulation.prepared
        self.detection = _sampler(source.detection or prepared.detection)
        self.repair = _sampler(source.repair or prepared.repair)
        self.life = source.law.ppf_one if source.law is not None else None
        self.returns = source.renews == "at_return" and source.clock == "wall"
        self.in_service = source.clock == "in_service"
        self.of_job = source.part == "job"
        self.always = source.interrupts >= 1 and source.idle_hazard >= 1
        self.divisor = prepared.slots_per_node.get(source.part, 0)
        self.blast = prepared.blast.get(source.part)


def _sampler(law: LawModel) -> float | Callable[[float], float]:
    """Return a constant time [s], or the inverse CDF of a law."""
    return law.value if isinstance(law, Fixed) else law.ppf_one


class Sources:
    """Plays the trace and adds the candidates that follow from what happens."""

    def __init__(self, simulation: Simulation, trace: FailureTrace) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.counts = Counts()
        self.infos = [_Info(source, simulation) for source in simulation.prepared.sources]
        self.keys: dict[tuple[int, str], int] = {}
        self.service: dict[int, float] = {}
        """Time that a node has been down [s], for the clock in_service."""
        self.down_since: dict[int, float] = {}
        self.renewals: dict[int, list[_Renewal]] = {}
        """Lives that begin when a node returns."""
        self.parked: dict[int, list[tuple[int, int, int, float]]] = {}
        """Lives on the clock in_service that wait for their node."""
        self.counts_service = any(info.source.clock == "in_service" for info in self.infos)
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
            self._take_down(node, 0.0)
            if self.cluster.place[node] != Place.REPAIR:
                self.cluster.send_to_repair(node, index + 1, 0.0)
        renewals = (_Renewal(index, slot, 0),) if info.returns else ()
        self.kernel.at(remaining, Order.RETURN, self._on_outage_end, (nodes, renewals))

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

    def _on_candidate(self, call: Call) -> None:
        self._candidate(*call.argument)

    def _candidate(self, index: int, slot: int, number: int, until: float, due: float | None = None) -> None:
        """Deal with a life that ends now, unless its clock stood still meanwhile."""
        now = self.kernel.now
        info = self.infos[index]
        if info.in_service:
            node = slot // info.divisor
            due = now if due is None else due
            since = self.down_since.get(node)
            served = now - self.service.get(node, 0.0) - (now - since if since is not None else 0.0)
            if since is not None:
                self.parked.setdefault(node, []).append((index, slot, number, due))
                return
            if due - served > 1e-9 * max(now, 1.0):
                arguments = (index, slot, number, until, due)
                self.kernel.at(now + due - served, Order.FAILURE, self._on_candidate, arguments)
                return
            self._occur(info, index, slot, number, until)
            if info.source.renews != "never":
                # The clock stands still while the node is down, so both renewals begin at the same reading.
                self._schedule_service(node, index, slot, number + 1, due + self._life(index, slot, number + 1))
            return
        self._occur(info, index, slot, number, until)

    def _schedule_service(self, node: int, index: int, slot: int, number: int, due: float) -> None:
        """Schedule a life by its node's time in service, or park it while the node is down."""
        if node in self.down_since:
            self.parked.setdefault(node, []).append((index, slot, number, due))
            return
        time = max(due + self.service.get(node, 0.0), self.kernel.now)
        if time < self.simulation.end:
            self.kernel.at(time, Order.FAILURE, self._on_candidate, (index, slot, number, math.nan, due))

    def occur_busy(self, life: Life, now: float) -> Life | None:
        """Let a life on the clock busy end; return the next one of its slot."""
        info = self.infos[life.source]
        self._occur(info, life.source, life.slot, life.round, math.nan)
        if info.source.renews == "never":
            return None
        del now
        due = life.due + self._life(life.source, life.slot, life.round + 1)
        return Life(life.node, life.source, life.slot, life.round + 1, due)

    # ---------------------------------------------------------------------------------------------- failures

    def _nodes(self, info: _Info, slot: int) -> tuple[int, ...]:
        """Return the nodes that a unit takes down."""
        if info.divisor:
            return (slot // info.divisor,)
        assert info.blast is not None
        offsets, nodes = info.blast
        return tuple(nodes[offsets[slot] : offsets[slot + 1]])

    def _occur(self, info: _Info, index: int, slot: int, number: int, until: float) -> None:
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
        is_up = bool(inside or outside)
        if is_up and not (info.always and outside) and not self._is_exposed(info, inside, outside, failure):
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

    def _is_exposed(self, info: _Info, inside: list[tuple[Group, int]], outside: list[int], failure: Failure) -> bool:
        """Return whether a fault can happen to any of these now."""
        for group, _ in inside:
            if group.exposed:
                return True
        return bool(outside) and failure.mark("idle") < info.source.idle_hazard

    def _detect(self, info: _Info, failure: Failure) -> float:
        detection = info.detection
        return detection if isinstance(detection, float) else detection(failure.mark("detection"))

    def _take_effect(
        self,
        info: _Info,
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
            stays_down = repair if isinstance(repair, float) else repair(failure.mark("repair"))
        latency = self._detect(info, failure) if inside else 0.0
        if stays_down > 0:
            for node in nodes:
                self._take_down(node, now)
            for node in outside:
                former = cluster.group[node]
                if former is not None:
                    self.simulation.lives.leave(node, former, now)
                cluster.send_to_repair(node, failure.index + 1, now)
            renewals = (_Renewal(failure.index, failure.slot, failure.round + 1),) if info.returns else ()
            end = until if recorded else now + latency + stays_down
            self.kernel.at(end, Order.RETURN, self._on_outage_end, (nodes, renewals))
        elif info.returns:
            self._renew(info, failure.index, failure.slot, failure.round, ())
        if inside:
            groups: list[Group] = []
            for group, node in inside:
                group.suspects.append((node, failure.index + 1))
                if group not in groups:
                    groups.append(group)
            self.simulation.incidents.hit(groups, failure, now, latency)

    def _renew(self, info: _Info, index: int, slot: int, number: int, nodes: Sequence[int]) -> None:
        """Begin the next life of a slot that renews at return: now, or when its node, which is down, is back."""
        if not info.returns:
            return
        renewal = _Renewal(index, slot, number + 1)
        if nodes:
            self.renewals.setdefault(nodes[0], []).append(renewal)
        else:
            self._begin_life(renewal)

    def _begin_life(self, renewal: _Renewal) -> None:
        index, slot, number = renewal
        end = self.kernel.now + self._life(index, slot, number)
        if end < self.simulation.end:
            self.kernel.at(end, Order.FAILURE, self._on_candidate, (index, slot, number, math.nan))

    # ----------------------------------------------------------------------------------------------- outages

    def _take_down(self, node: int, now: float) -> None:
        cluster = self.cluster
        cluster.outages[node] += 1
        if cluster.outages[node] == 1:
            cluster.down.change(1, now)
            if self.counts_service:
                self.down_since[node] = now

    def _on_outage_end(self, call: Call) -> None:
        nodes, renewals = call.argument
        now = self.kernel.now
        cluster = self.cluster
        returned = False
        for node in nodes:
            cluster.outages[node] -= 1
            if cluster.outages[node] == 0:
                cluster.down.change(-1, now)
                returned = True
                if self.counts_service:
                    self.service[node] = self.service.get(node, 0.0) + now - self.down_since.pop(node)
                    for index, slot, number, due in self.parked.pop(node, ()):
                        self._schedule_service(node, index, slot, number, due)
                if cluster.place[node] == Place.REPAIR:
                    cluster.bring_back(node, now)
                for renewal in self.renewals.pop(node, ()):
                    self._begin_life(renewal)
        for renewal in renewals:
            self._begin_life(renewal)
        if returned:
            self.simulation.serve(now)
