"""Failures: the trace and the lives that go on from it; whether a candidate counts, and where it strikes.

:class:`Failures` runs through the trace, :class:`Renewals` has the lives that are not all in it, :class:`Rollouts` the
changes that are brought to nodes, which take these out of service and move their hazard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim.engine.kernel import EventPriority, order_of
from ettrick.sim.engine.lives import RELAPSE, FailureEvent, Lifetime, SourceInfo
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.engine.silent import Bugs, HiddenFaults, SilentFaults
from ettrick.sim.failures.trace import NOTICE, with_notices
from ettrick.sim.policies.contracts import Bucket, Stall
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.holders import Allocation, Job, ReplicaGroup
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.engine.repair import Repair
    from ettrick.sim.failures.source import Rollout
    from ettrick.sim.failures.trace import FailureTrace
    from ettrick.sim.policies.contracts import Plan

    Interrupt = Callable[[list[Any], FailureEvent, float, float], None]

Inside = list[tuple["ReplicaGroup | Allocation", int]]


class Failures:
    """Runs through the trace, adds the candidates that follow from what happens, and lets faults happen.

    Repair asks for the next life (``renewals``), says what it has mended (:meth:`cure`) or not (``remain``), and when
    nodes go down and return. Jobs ask what is wrong with the work that they do from now on (``silent.taint``), and tell
    when they meet a bug (``bugs.meet``), when candidates can happen that had to wait (:meth:`happen_later`), and when a
    rollout can change their nodes (``rollouts.visit``).
    """

    jobs: JobPhases
    interrupt: Interrupt
    """Stops the groups that a failure strikes at a time [s]; they know of it after a latency [s]."""
    fail_part: Callable[[FailureEvent, float], None]
    """Takes a part of the fabric out, until a window closes [s]; NaN for the time of a repair."""
    start_part_out: Callable[[FailureEvent, float], None]
    """Begins the simulation with a part of the fabric in repair for some time [s]."""

    def __init__(self, prepared: Prepared, replication: int, repair: Repair, trace: FailureTrace) -> None:
        self.kernel = repair.kernel
        self.cluster = repair.cluster
        self.lives = repair.cluster.lives
        self.lives.occur = self._occur_busy
        self.repair = repair
        self.end = prepared.warmup + prepared.horizon
        self.counts = repair.counts
        self.infos = [SourceInfo(source, index, prepared, replication) for index, source in enumerate(prepared.sources)]
        self.save_times = sorted({job.checkpoint.save_time() for job in prepared.jobs})
        """The times that jobs take to save before they stop [s]."""
        trace = with_notices(trace, prepared.sources, self.save_times)
        columns = (trace.time, trace.source, trace.slot, trace.round, trace.until)
        self.rows: list[tuple[float, int, int, int, float]] = list(zip(*map(np.ndarray.tolist, columns), strict=True))
        """The rows of the trace that are processed one by one: time [s], source, slot, round, end of a window [s]."""
        self.row = 0
        self.renewals = Renewals(self)
        self.hidden = HiddenFaults(self)
        self.remain = self.hidden.remain
        self.silent = SilentFaults(self)
        self.bugs = Bugs(self)
        self.rollouts = Rollouts(self)
        self.saving: list[tuple[FailureEvent, Sequence[int], float]] = []
        """Failures that wait for a save which shares its store, their nodes, and how long these will be out [s]."""

    def start(self, trace: FailureTrace) -> None:
        """Hand out what is not a plain row of the trace, and begin."""
        self._start_lives()
        for outage in trace.initial:
            self._start_outage(self.infos[outage.source], outage.slot, outage.remaining)
        if self.rows:
            self._expect_row()
        self.hidden.start_onsets()
        self.bugs.start()
        self.rollouts.start()

    def _start_lives(self) -> None:
        """Hand the lives over that are not in the trace's time: those on the clock busy, and hidden faults."""
        apart = {index for index, info in enumerate(self.infos) if info.source.clock == "busy" or info.source.hidden}
        if not apart:
            return
        remaining = []
        for row in self.rows:
            time, index, slot, number, _ = row
            info = self.infos[index]
            if index not in apart:
                remaining.append(row)
            elif info.source.hidden is not None:
                self.hidden.start(info, slot, time)
            elif info.of_job:
                group = self.jobs.all[slot].main
                # Who takes the nodes of a job does not ask whether processes run on them.
                clock = group.occupied if info.source.away is not None else group.processes
                self.lives.add_group_life(clock, Lifetime(-1, index, slot, number, time))
            else:
                self.lives.add_node_life(Lifetime(slot // info.divisor, index, slot, number, time))
        self.rows = remaining

    def _start_outage(self, info: SourceInfo, slot: int, remaining: float) -> None:
        """Begin the simulation with a unit in repair; a life that begins at its return is the first."""
        if info.of_fabric:
            self.start_part_out(FailureEvent(info, slot, -1), remaining)
            return
        nodes = self.nodes_of(info, slot, 0)
        for node in nodes:
            self.repair.take_down(node, 0.0, info.cause)
            if self.cluster.place[node] not in (NodeState.REPAIR, NodeState.WITHHELD):
                self.cluster.send_to_repair(node, info.cause, 0.0)
        self.kernel.at(remaining, EventPriority.RETURN, self.repair.on_end, nodes, FailureEvent(info, slot, -1))

    # -------------------------------------------------------------------------------------------- candidates

    def _expect_row(self) -> None:
        """Let the next row of the trace come due in its time."""
        time, index, slot, _, _ = self.rows[self.row]
        self.kernel.at(time, order_of(index, slot), self._on_row)

    def _on_row(self, now: float) -> None:
        _, index, slot, number, until = self.rows[self.row]
        self.row += 1
        if self.row < len(self.rows):
            self._expect_row()
        info = self.infos[index]
        if number <= NOTICE:
            self.announce(info, self.nodes_of(info, slot, 0), self.save_times[NOTICE - number], until)
        elif info.in_service or info.source.renews == "never":
            self.renewals.end_life(index, slot, number, until, now, now)
        else:
            self.occur(info, slot, number, until)

    def announce(self, info: SourceInfo, nodes: Sequence[int], seconds: float, strike: float) -> None:
        """Let the jobs that need some `seconds` for a save begin it, because nodes of theirs go at `strike` [s]."""
        for job in _jobs_of(self.find(nodes)[0]):
            if job.checkpoint.save_time() == seconds:
                self.jobs.interruptions.save_before(job, info.cause, self.kernel.now, strike)

    def _occur_busy(self, life: Lifetime, now: float) -> Lifetime | None:
        """Let a life on the clock busy end; return the next one of its slot."""
        info = self.infos[life.source]
        if info.source.hidden is not None or life.round >= RELAPSE:
            self.hidden.strike(life, now)
            return None
        self.occur(info, life.slot, life.round)
        if info.source.renews == "never" or info.returns:
            return None
        due = life.due + info.lives.get(life.slot, life.round + 1)
        return Lifetime(life.node, life.source, life.slot, life.round + 1, due)

    def occur(
        self, info: SourceInfo, slot: int, number: int, until: float = math.nan,
        *, waited: bool = False, is_found: bool = False,
    ) -> None:  # fmt: skip
        """Let a candidate come true: drop it, or let its fault take effect.

        One that `waited` has done so enough; one that a check `is_found` by drains its node.
        """
        counts = self.counts
        counts.candidates += 1
        failure = FailureEvent(info, slot, number, is_found)
        if info.of_job:
            self.strike_job(failure)
            return
        nodes = self.nodes_of(info, slot, number)
        inside, outside = self.find(nodes)
        always = info.always or is_found
        if self._are_withheld(nodes, inside, outside) or not self._can_happen(
            failure, nodes, inside, outside, waited=waited, always=always
        ):
            self._drop(failure, inside, until)
            return
        counts.faults += 1
        if not always and info.source.interrupts < 1 and failure.mark("interrupts") >= info.source.interrupts:
            counts.harmless += 1
            self.renewals.renew(failure)
        elif info.of_fabric:
            self.fail_part(failure, until)
        elif not info.stops and not is_found and (inside or outside):
            # The nodes go on, in their way, until somebody notices.
            self.silent.begin(failure, nodes)
        else:
            self.strike(failure, nodes, inside, outside, until, is_announced=info.source.planned)

    def _are_withheld(self, nodes: Sequence[int], inside: Inside, outside: Sequence[int]) -> bool:
        """Return whether nodes are all withheld, so that nothing happens to them."""
        if inside or outside or not nodes:
            return False
        return all(self.cluster.place[node] == NodeState.WITHHELD for node in nodes)

    def _can_happen(
        self, failure: FailureEvent, nodes: Sequence[int], inside: Inside, outside: list[int], *, waited: bool,
        always: bool,
    ) -> bool:  # fmt: skip
        """Return whether a candidate can happen to its nodes now, and is not one too many."""
        info = failure.info
        # The common case first: a fault of one node, which can be hit where it is.
        is_hit = waited or inside[0][0].exposed == "both" if inside else always or not nodes
        if not (is_hit or self._is_exposed(info, inside, outside, failure)):
            return False
        return always or not self._is_thinned(info, nodes, failure)

    def _drop(self, failure: FailureEvent, inside: Inside, until: float) -> None:
        """Let a candidate pass that cannot happen now: it never happens, or waits until it can."""
        info = failure.info
        if info.source.defer and inside and inside[0][0].exposed in ("none", "processes"):
            inside[0][0].deferred.append((info.index, failure.slot, failure.round, until))
            self.counts.candidates -= 1
            return
        self.counts.suppressed += 1
        self.renewals.renew(failure)

    def _on_deferred(self, index: int, slot: int, number: int, until: float, now: float) -> None:
        """Let a candidate that had to wait happen; an outage that was to end by now is left out."""
        if until <= now:
            self.counts.candidates += 1
            self.counts.suppressed += 1
            return
        self.occur(self.infos[index], slot, number, until, waited=True)

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

    def _is_exposed(self, info: SourceInfo, inside: Inside, outside: list[int], failure: FailureEvent) -> bool:
        """Return whether a fault can happen to any of these now; nodes without processes count like idle ones."""
        exposures = {group.exposed for group, _ in inside}
        if "both" in exposures:
            return True
        return (not inside or bool(outside) or "nodes" in exposures) and failure.mark("idle") < info.source.idle_hazard

    def _is_thinned(self, info: SourceInfo, nodes: Sequence[int], failure: FailureEvent) -> bool:
        """Return whether a candidate that was drawn at the highest hazard is one too many."""
        if not info.source.thinned or failure.round >= RELAPSE:
            return False  # what a repair left strikes by a law of its own
        hazard = self.rollouts.hazard(info, nodes[0])
        return failure.mark("hazard") >= hazard / info.source.ceiling

    # ---------------------------------------------------------------------------------------------- failures

    def strike_job(self, failure: FailureEvent) -> None:
        """Let a failure of a job as a whole happen."""
        counts = self.counts
        counts.faults += 1
        if not failure.info.stops:
            self.silent.derail(self.jobs.all[failure.slot], failure)
            return
        counts.failures += 1
        counts.hits += 1
        group = self.jobs.all[failure.slot].main
        self.interrupt([group], failure, self.kernel.now, self.detect(failure))

    def detect(self, failure: FailureEvent) -> float:
        """Return how long it takes until a job knows of a failure [s]; one that is foreseen is known at once."""
        detection = failure.info.detection
        if failure.info.warns and failure.is_foreseen:
            return 0.0
        return detection if isinstance(detection, float) else detection(failure.mark)

    def count(self, *, hits: object, outside: object, masked: object, degraded: bool = False) -> None:
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
        failure: FailureEvent,
        nodes: Sequence[int],
        inside: Inside,
        outside: list[int],
        until: float = math.nan,
        wronged: Sequence[ReplicaGroup] = (),
        *,
        is_announced: bool = False,
    ) -> None:
        """Let a failure take nodes down and tell the groups that hold them, and those whose work it made wrong.

        One that a sign warns of waits until the jobs have saved that hold the nodes.
        """
        warns = failure.info.warns and not (wronged or is_announced)
        if warns and inside and self._waits(failure, nodes, inside, until):
            return
        self.count(hits=inside or wronged, outside=outside, masked=True)
        if inside or outside:
            self._count_struck(failure, nodes[0])
        # What is noticed late, because the node goes on meanwhile, is known when it stops.
        latency = self.detect(failure) if inside and failure.info.stops else 0.0
        if nodes:
            self.repair.take(failure, nodes, outside, until)
        if inside or wronged:
            self.tell(failure, inside, latency, wronged)

    def _count_struck(self, failure: FailureEvent, node: int) -> None:
        """Count a failure of nodes that are up for those who watch: canaries of rollouts, and signs."""
        source = failure.info.source
        if source.thinned:
            self.rollouts.note(failure.info, node)
        if failure.info.warns and source.is_watched:
            self.counts.false_alarms += source.alarm
            self.counts.true_alarms += failure.is_foreseen and not source.alarm
            self.counts.missed += not failure.is_foreseen

    def take_out(self, failure: FailureEvent, nodes: tuple[int, ...], until: float, *, is_announced: bool) -> None:
        """Take nodes out of service that are up, until a time [s], with notice or without."""
        self.counts.candidates += 1
        self.counts.faults += 1
        self.strike(failure, nodes, *self.find(nodes), until, is_announced=is_announced)

    def _waits(self, failure: FailureEvent, nodes: Sequence[int], inside: Inside, until: float) -> bool:
        """Let jobs save that know of a failure before it strikes; return whether it waits for that."""
        now, notice = self.kernel.now, failure.notice
        ready = now
        for job in _jobs_of(inside):
            ready = max(ready, self.jobs.interruptions.save_before(job, failure.info.cause, now, now + notice))
        for holder in (holder for group, _ in inside if not group.replans for holder in group.jobs):
            if holder.notice is None and holder.run_at < now and holder.flush <= notice:
                ready = max(ready, now + holder.flush)
        if ready == math.inf:
            self.saving.append((failure, nodes, until - now))
        elif ready > now:
            self.kernel.at(ready, EventPriority.FAILURE, self._on_saved, failure, nodes, until - now)
        return ready > now

    def _on_saved(self, failure: FailureEvent, nodes: Sequence[int], seconds: float, now: float) -> None:
        """Let a failure strike for which jobs have saved."""
        self.strike(failure, nodes, *self.find(nodes), now + seconds, is_announced=True)

    def end_save(self, job: Job, now: float) -> None:
        """Let failures strike that have waited for a save of unknown length of a job, which is over or cut off."""
        for waiting in list(self.saving):
            if job in _jobs_of(self.find(waiting[1])[0]):
                self.saving.remove(waiting)
                self.kernel.at(now, EventPriority.FAILURE, self._on_saved, *waiting)

    def tell(self, failure: FailureEvent, inside: Inside, latency: float, wronged: Sequence[ReplicaGroup] = ()) -> None:
        """Tell the groups that hold nodes which failed, and those whose work is wrong."""
        groups: list[ReplicaGroup | Allocation] = list(wronged)
        for group, node in inside:
            group.suspects.append((node, failure))
            if group not in groups:
                groups.append(group)
        self.interrupt(groups, failure, self.kernel.now, latency)

    def nodes_of(self, info: SourceInfo, slot: int, number: int) -> tuple[int, ...]:
        """Return the nodes that a failure of a unit takes down."""
        if info.divisor:
            return (slot // info.divisor,)
        if number >= RELAPSE:
            return (slot,)
        if info.victims is not None:
            return info.victims.nodes(slot, number)
        offsets, nodes = info.blast
        members = nodes[offsets[slot] : offsets[slot + 1]]
        return tuple(members if isinstance(members, list) else members.tolist())

    # ------------------------------------------------------------------------------- nodes that leave and return

    def node_up(self, node: int, now: float) -> None:
        """Begin and go on with what has waited for a node."""
        self.renewals.node_up(node, now)
        if self.hidden.parked:
            self.hidden.resume(node, now)

    @property
    def is_any_unwell(self) -> bool:
        """Whether any node has a hidden or a silent fault that a repair may remove."""
        return bool(self.hidden.open or self.silent.of_node or any(self.hidden.dormant.values()))

    def found_before(self, node: int) -> list[Callable[[float], None]]:
        """Return what a check of a node before it joins a job finds: each, when called, drains the node."""
        return [*self.hidden.found_before(node), *self.silent.found_before(node)]

    def cure(self, node: int) -> None:
        """Let a node have neither hidden nor silent faults any more."""
        self.hidden.clear(node)
        self.silent.clear(node)

    # ------------------------------------------------------------------------------------------------- of jobs

    def happen_later(self, candidates: Sequence[tuple[int, int, int, float]], now: float) -> None:
        """Let candidates happen that have waited for a group to be exposed again."""
        for candidate in candidates:
            self.kernel.at(now, order_of(candidate[0], candidate[1]), self._on_deferred, *candidate)


def _jobs_of(inside: Inside) -> list[Job]:
    """Return the named jobs whose main group holds some of these nodes."""
    return list({group.job: None for group, _ in inside if group.replans and group is group.job.main})


# ----------------------------------------
# Lives one after another: when each begins and ends, on which clock, and which wait for their node.


class Renewals:
    """Begins the lives of units that are not all in the trace, and ends those whose clock may have stood still."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.infos = failures.infos
        self.kernel = failures.kernel
        self.cluster = failures.cluster
        self.lives = failures.lives
        self.returning: dict[int, list[tuple[int, int, int]]] = {}
        """Lives that begin when a node returns: source, slot, round."""
        self.counts_service = any(info.source.clock == "in_service" for info in self.infos)
        """Whether any life runs on the clock in_service."""
        self.was_down: dict[int, float] = {}
        """The down time of a node, the open outage left out [s]."""
        self.down_since: dict[int, float] = {}
        """Since when the clock in_service of a node has stood still [s]; kept only if any life runs on it."""
        self.parked: dict[int, list[tuple[int, int, int, float]]] = {}
        """Lives on the clock in_service that wait for their node: source, slot, round, due."""
        self.generation: dict[int, int] = {}
        """The number of replacements of a node."""

    def end_life(self, index: int, slot: int, number: int, until: float, due: float, now: float) -> None:
        """Deal with a life that ends now, unless its clock stood still meanwhile or its node is gone."""
        info = self.infos[index]
        if info.source.renews == "never" and info.divisor and number < self.generation.get(slot // info.divisor, 0):
            return  # the life of a node that has been replaced; each new node begins the next one
        if not info.in_service:
            self.failures.occur(info, slot, number, until)
            return
        node = slot // info.divisor
        if node in self.down_since or due + self.was_down.get(node, 0.0) > now * (1 + 1e-12):
            # It has not served so long yet, because it was down in between.
            self._schedule(node, index, slot, number, due)
            return
        self.failures.occur(info, slot, number, until)
        if info.source.renews != "never":
            # The clock stands still while the node is down, so both renewals begin at the same reading.
            self._schedule(node, index, slot, number + 1, due + info.lives.get(slot, number + 1))

    def renew(self, failure: FailureEvent) -> None:
        """Begin the next life of a slot that renews at return."""
        if failure.info.returns:
            self._begin(failure.info.index, failure.slot, failure.round + 1)

    def _begin(self, index: int, slot: int, number: int) -> None:
        """Begin a life, of a part of a node when that is back; what a repair left belongs to a life that goes on."""
        if number > RELAPSE:
            return
        info, cluster = self.infos[index], self.cluster
        node = slot // info.divisor if info.divisor else -1
        if node >= 0 and cluster.outages[node] and cluster.place[node] != NodeState.WITHHELD:
            self.returning.setdefault(node, []).append((index, slot, number))
            return
        now = self.kernel.now
        life = info.lives.get(slot, number)
        if info.source.clock == "busy":
            self.lives.begin(Lifetime(slot // info.divisor, index, slot, number, 0.0), life, now)
            return
        tempo = info.tempo
        end = now + life if tempo is None else tempo.moment(tempo.elapsed(now) + life)
        if end < self.failures.end:
            self.kernel.at(end, order_of(index, slot), self.end_life, index, slot, number, math.nan, end)

    def replace(self, node: int) -> None:
        """Begin the lives of a new node, of those sources whose units are not renewed otherwise.

        The lives of the old node end with it; those on the wall clock are known by their number.
        """
        generation = self.generation[node] = self.generation.get(node, 0) + 1
        for info in self.infos:
            if info.source.renews != "never" or not info.divisor or info.source.law is None:
                continue
            for slot in range(node * info.divisor, (node + 1) * info.divisor):
                if info.source.clock == "wall":
                    self._begin(info.index, slot, generation)
                    continue
                seconds = info.lives.get(slot, generation)
                if info.in_service:
                    # The node is down: it runs from its return.
                    served = self.down_since[node] - self.was_down.get(node, 0.0)
                    self._schedule(node, info.index, slot, generation, served + seconds)
                else:
                    self.lives.void_slot(node, info.index, slot)
                    self.lives.begin(Lifetime(node, info.index, slot, generation, 0.0), seconds, self.kernel.now)

    def node_up(self, node: int, now: float) -> None:
        """Begin and go on with the lives that have waited for a node."""
        if self.counts_service:
            self.was_down[node] = self.was_down.get(node, 0.0) + now - self.down_since.pop(node)
            for index, slot, number, due in self.parked.pop(node, ()):
                self._schedule(node, index, slot, number, due)
        for life in self.returning.pop(node, ()):
            self._begin(*life)

    def _schedule(self, node: int, index: int, slot: int, number: int, due: float) -> None:
        """Schedule a life by its node's time in service, or park it while the node is down."""
        if node in self.down_since:
            self.parked.setdefault(node, []).append((index, slot, number, due))
            return
        time = max(due + self.was_down.get(node, 0.0), self.kernel.now)
        if time < self.failures.end:
            self.kernel.at(time, order_of(index, slot), self.end_life, index, slot, number, math.nan, due)


# ----------------------------------------
# Rollouts: a change that is brought to the nodes, and the hazard that they have afterwards.

_ROLLBACK = 1
"""Number of the outages in which a change is taken back."""


@dataclass(slots=True, eq=False)
class _Progress:
    """The progress of a rollout."""

    info: SourceInfo
    plan: Rollout
    next: int = 0
    changed: set[int] = field(default_factory=set)
    pending: set[int] = field(default_factory=set)
    """Nodes that are due and wait for their job to be interrupted."""
    visits: dict[Job, tuple[float, list[int]]] = field(default_factory=dict)
    """Nodes that are changed within their job, and when that is done [s]."""
    is_due: bool = False
    """Whether the canaries are watched as soon as all have been changed."""
    failures: int = 0
    """Failures of changed canaries, for the causes whose hazard changes."""
    is_stopped: bool = False

    @property
    def canaries(self) -> int:
        """The number of nodes that go first [-]."""
        return self.plan.canary.nodes if self.plan.canary is not None else 0

    @property
    def soak(self) -> float:
        """The time for which the canaries are watched [s]."""
        return self.plan.canary.soak if self.plan.canary is not None else 0.0

    @property
    def has_failed(self) -> bool:
        """Whether more canaries have failed than may."""
        return self.plan.canary is not None and self.failures > self.plan.canary.tolerates


class Rollouts:
    """Takes nodes out of service a few at a time, and knows which have been changed."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.cluster = failures.cluster
        self.kernel = failures.kernel
        self.all: list[_Progress] = []

    def start(self) -> None:
        """Arrange the first step of each rollout."""
        for info in self.failures.infos:
            plan = info.source.rollout
            if plan is not None:
                progress = _Progress(info, plan)
                self.all.append(progress)
                self._announce(progress, plan.start)
                self._at(plan.start, self._on_step, progress)

    def _at(self, time: float, function: Callable[..., None], *arguments: object) -> None:
        if time < self.failures.end:
            self.kernel.at(time, EventPriority.FAILURE, function, *arguments)

    def hazard(self, info: SourceInfo, node: int) -> float:
        """Return the hazard of a node for a cause relative to the stated one [-]."""
        hazard = 1.0
        for progress in self.all:
            ratio = progress.plan.hazard.get(info.source.name)
            if ratio is not None and node in progress.changed:
                hazard *= ratio
        return hazard

    def note(self, info: SourceInfo, node: int) -> None:
        """Count a failure of a changed node, for those who watch the canaries."""
        for progress in self.all:
            if info.source.name in progress.plan.hazard and node in progress.changed:
                progress.failures += 1

    # -------------------------------------------------------------------------------------------------- steps

    def _on_step(self, progress: _Progress, now: float) -> None:
        """Change the next nodes, and arrange what follows."""
        if progress.is_stopped or progress.next >= self.cluster.nodes:
            return
        plan = progress.plan
        nodes = self._batch(progress, progress.next)
        progress.next = nodes[-1] + 1
        self._change(progress, nodes)
        if progress.next == progress.canaries:
            progress.is_due = True
            self._watch(progress, now + plan.duration)
        else:
            self._at(now + len(nodes) * DAY / plan.nodes_per_day, self._on_step, progress)

    def _batch(self, progress: _Progress, first: int) -> range:
        """Return the nodes that are changed together, from the `first` on."""
        end = first + progress.plan.batch
        return range(first, min(end, progress.canaries if first < progress.canaries else end, self.cluster.nodes))

    def _announce(self, progress: _Progress, time: float) -> None:
        """Let jobs save before the batches that follow from `time` [s] on, as far as their times are known."""
        if progress.plan.mode == "drain":
            for seconds in self.failures.save_times:
                self._expect_notice(progress, seconds, progress.next, time, self.kernel.now)

    def _expect_notice(self, progress: _Progress, seconds: float, first: int, time: float, now: float) -> None:
        self._at(max(time - seconds, now), self._on_notice, progress, seconds, first, time)

    def _on_notice(self, progress: _Progress, seconds: float, first: int, time: float, now: float) -> None:
        """Let jobs that need some seconds for a save begin it before a batch; the next batch is announced later."""
        if progress.is_stopped or progress.has_failed or first >= self.cluster.nodes:
            return
        nodes = self._batch(progress, first)
        self.failures.announce(progress.info, nodes, seconds, time)
        time += len(nodes) * DAY / progress.plan.nodes_per_day
        if nodes[-1] + 1 != progress.canaries:
            self._expect_notice(progress, seconds, nodes[-1] + 1, time, now)

    def _watch(self, progress: _Progress, start: float) -> None:
        """Watch the canaries from `start` [s] on, if all have been changed by then."""
        if progress.is_due and not progress.pending:
            progress.is_due = False
            self._announce(progress, start + progress.soak)
            self._at(start + progress.soak, self._on_soaked, progress)

    def _on_soaked(self, progress: _Progress, now: float) -> None:
        """Go on if the canaries are well, or take the change back."""
        if not progress.has_failed:
            self._on_step(progress, now)
            return
        progress.is_stopped = True
        back = tuple(sorted(progress.changed))
        progress.changed.clear()
        progress.pending.clear()
        progress.visits.clear()
        self._take_out(progress, back, _ROLLBACK)

    def _change(self, progress: _Progress, nodes: Sequence[int]) -> None:
        """Change nodes now, or at the next interruption of their job."""
        waits = progress.plan.mode == "at_interruption"
        due = {node for node in nodes if waits and self._owner(node) is not None}
        free = tuple(node for node in nodes if node not in due)
        progress.pending.update(due)
        progress.changed.update(free)
        self._take_out(progress, free, 0)

    def _take_out(self, progress: _Progress, nodes: tuple[int, ...], number: int) -> None:
        """Take nodes out of service; what is down anyway is changed there."""
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        if not up:
            return
        failure = FailureEvent(progress.info, up[0], number)
        until = self.kernel.now + progress.plan.duration
        self.failures.take_out(failure, up, until, is_announced=number != _ROLLBACK)

    def visit(self, job: Job, plan: Plan, start: float) -> Plan:
        """Return the plan of an interrupted job that begins at `start` [s], with the change of its nodes before it."""
        stalls: list[Stall] = []
        for progress in self.all:
            due = [node for node in progress.pending if self._owner(node) is job]
            if due:
                progress.pending.difference_update(due)
                progress.changed.update(due)
                stalls.append(Stall(Bucket.MAINTENANCE, progress.plan.duration, cause=progress.info.cause))
                start += progress.plan.duration
                progress.visits[job] = (start, due)
                self._watch(progress, start)
        self.change_free()
        return (*stalls, *plan)

    def cut(self, job: Job, now: float) -> None:
        """Let a change of the nodes of a job that is cut short begin again at its next restart."""
        for progress in self.all:
            done, nodes = progress.visits.pop(job, (0.0, []))
            if now < done:
                progress.changed.difference_update(nodes)
                progress.pending.update(nodes)

    def change_free(self) -> None:
        """Change nodes that have left the job whose interruption they waited for."""
        for progress in self.all:
            free = [node for node in progress.pending if self._owner(node) is None]
            if free:
                progress.pending.difference_update(free)
                progress.changed.update(free)
                self._take_out(progress, tuple(sorted(free)), 0)
                self._watch(progress, self.kernel.now + progress.plan.duration)

    def _owner(self, node: int) -> Job | Allocation | None:
        """Return the job that holds a node, if any."""
        group = self.cluster.group[node]
        return group.job if group is not None and group.job.holding else None
