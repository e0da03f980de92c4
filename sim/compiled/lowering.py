"""The scenarios that the compiled loop covers, and a scenario as arrays of numbers."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ettrick.sim import plugins, rng
from ettrick.sim.compiled import state
from ettrick.sim.compiled.ladders import LOST, REBOOTED
from ettrick.sim.engine.nodes import PLACES, POOLS, NodeState
from ettrick.sim.policies.checkpoint import Periodic
from ettrick.sim.policies.contracts import (
    BLAME_DRAWS,
    FAULTS,
    OF_ONE_RANK,
    Acquire,
    Bucket,
    ClusterView,
    Evict,
    FailureView,
    JobView,
    Pace,
    Requeue,
    Restore,
    Run,
    Save,
    Stall,
)
from ettrick.sim.policies.detection.race import HUMAN
from ettrick.sim.policies.recovery.ladder import Ladder as Rungs
from ettrick.sim.policies.recovery.phases import Participants
from ettrick.sim.policies.recovery.restart import FullRestart, HotSpare, Standby
from ettrick.sim.policies.repair import RepairTiers
from ettrick.sim.scenario.law_model import LawModel
from ettrick.sim.scenario.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import AnyRecovery
    from ettrick.sim.policies.contracts import Plan, Step
    from ettrick.sim.policies.detection.race import DetectionRace
    from ettrick.sim.policies.recovery.ladder import Eviction, Rung
    from ettrick.sim.policies.recovery.phases import Held, RecoveryPhase
    from ettrick.sim.policies.repair import Diagnosis

# ----------------------------------------
# Coverage.


class Gap(NamedTuple):
    """A part of scenarios that the loop does not know.

    Parameters
    ----------
    subject, words
        The row of the documentation's table, and the words there.
    reason
        The key that asks for the part; ``{it}`` is the scenario or the source.
    is_in
        Whether a scenario, or a source, has the part.
    """

    subject: str
    words: str
    reason: str
    is_in: Callable[[Any], object]


GAPS = (
    Gap("strategies", "of plugins", "{plugin}, of another package", lambda it: plugins.used(it.scenario)),
    Gap("jobs", "streams", "streams", lambda it: it.streams),
    Gap("jobs", "services", "services", lambda it: it.has_queue),
    Gap("jobs", "several", "jobs: {jobs} of them", lambda it: len(it.jobs) > 1),
    Gap("recovery", "`shrink-rejoin`, `restart-smaller`, `narrow` and their presets", "recovery.use: {it.recovery.use}",
        lambda it: not isinstance(it.recovery, FullRestart | HotSpare | Standby | Rungs)),
    Gap("checkpoint", "unreadable copies (`corrupt`)", "checkpoint.tiers: corrupt, copies that cannot be read",
        lambda it: any(rung.corrupt for rung in it.jobs[0].checkpoint.rungs)),
    Gap("checkpoint", "saves that share the store (`shares: all`)",
        "checkpoint.tiers: shares: all, saves that are in each other's way",
        lambda it: any(rung.save_share for rung in it.jobs[0].checkpoint.rungs)),
    Gap("power", "limits, prices and carbon that change in time",
        "power: what the site may draw, or what that costs, changes in time", lambda it: not it.upkeep.is_steady),
    Gap("network", "failures of the fabric, networks that slow jobs",
        "cluster.fabric: it decides who fails, or how fast jobs step", lambda it: it.network is not None),
    Gap("repair", "stocks of parts", "parts: repairs wait for them", lambda it: it.parts),
    Gap("nodes", "checks before a job", "health.preflight: nodes are checked before they join a job",
        lambda it: it.preflight is not None),
    Gap("nodes", "whole units", "spares.unit: nodes are used in whole units", lambda it: it.units is not None),
    Gap("nodes", "packed jobs", "scheduler.pack: {it.scheduler.pack}", lambda it: it.scheduler.pack is not None),
    Gap("nodes", "picks by score", "scheduler.pick: best-score", lambda it: it.scheduler.pick == "best-score"),
    Gap("repair", "lemon policies", "repair.lemons", lambda it: getattr(it.repair, "lemons", ())),
)  # fmt: skip
"""The gaps of whole scenarios; the first that applies is the reason for the event engine."""

GAPS_OF_SOURCES = (
    Gap("failures", "effects that do not stop the job", "effect: {it.effect.use}", lambda it: not it.effect.stops),
    Gap("failures", "bugs", "fix, so it is a bug", lambda it: it.fix is not None),
    Gap("failures", "rollouts", "a rollout", lambda it: it.rollout is not None),
    Gap("failures", "versions of software", "hazards that depend on the version of the software",
        lambda it: it.thinned),
    Gap("failures", "variety of lives that begin during the replication", "variety between its units",
        lambda it: _begins_later(it) and it.variety),
    Gap("failures", "tempo of such lives", "tempo", lambda it: _begins_later(it) and it.tempo is not None),
    Gap("failures", "faults that checks find", "faults that health.checks find", lambda it: it.checked[0] > 0),
    Gap("failures", "incidents of random size", "size",
        lambda it: it.blast is not None and it.blast.size is not None and it.blast.spread is None),
)  # fmt: skip
"""The gaps of failure sources."""


def uncovered(prepared: Prepared) -> str:
    """Return the first thing in a scenario that the loop does not know, by its key; nothing if it knows all."""
    for gap in GAPS:
        if gap.is_in(prepared):
            return gap.reason.format(it=prepared, jobs=len(prepared.jobs), plugin=plugins.used(prepared.scenario))
    for source in prepared.sources:
        for gap in GAPS_OF_SOURCES:
            if gap.is_in(source):
                return f"failures: '{source.name}' has {gap.reason.format(it=source)}"
    return ""


def _begins_later(source: FailureSource) -> bool:
    return not source.all_known_ahead or source.renews == "at_return"


def _is_simply_drawn(source: FailureSource) -> bool:
    """Return whether the lives of a source follow from one law, for units that are all alike and new."""
    is_spread = source.blast is not None and source.blast.spread is not None
    return not (source.law is None or source.variety or source.ages or source.tempo or is_spread)


# ----------------------------------------
# A scenario in arrays.

_EXPOSED: dict[str, int] = {"none": state.NO, "nodes": state.NODES, "processes": state.PROCESSES, "both": state.BOTH}

_PICKS = {
    "lowest": state.LOWEST,
    "longest-idle": state.LONGEST_IDLE,
    "random": state.RANDOM,
    "fewest-failures": state.FEWEST_FAILURES,
}

_RENEWS = {"at_failure": state.AT_FAILURE, "at_return": state.AT_RETURN, "never": state.NEVER}

_CLOCKS = {"wall": state.WALL, "in_service": state.IN_SERVICE, "busy": state.BUSY}

VISITS = 12
"""Visits of one course whose random numbers are named at first; when they do not suffice there are more."""


class Lowered:
    """A scenario in arrays that replications copy or share, with the names of the random numbers that they need.

    Parameters
    ----------
    prepared
        A scenario that is covered.
    visits
        How many visits of one course have names for their random numbers [-].
    """

    def __init__(self, prepared: Prepared, visits: int) -> None:
        self.prepared = prepared
        self.job = prepared.jobs[0]
        self.arrays: dict[str, NDArray[np.generic]] = {}
        """The arrays that replications share or copy, by name."""
        self.purposes = 10
        self.needs: dict[tuple[int, int], bytes] = {}
        """The names from which the keys of the random numbers are made, by source and purpose."""
        self.plans = PlanRows(self)
        self._rungs: list[dict[str, float]] = []
        self._observers: list[tuple[float, ...]] = []
        names = ("laws", "rung_plans", "evicts", "means", "offset", "member")
        self.lists: dict[str, list[float]] = {name: [] for name in names}
        self.most_joiners = visits
        self.sources = len(prepared.sources)
        self.origins = self._add("origins", max(self.sources, 1))
        self.scalars = np.zeros(1, state.layout(state.Scalars))
        for index, source in enumerate(prepared.sources):
            self._lower_source(index, source)
        self._lower_cluster(visits)
        self._lower_stores()
        self._lower_job()
        for name, steps in (("templates", self.plans.steps), ("times", self.plans.times), ("rung_of", self._rungs)):
            for record, step in zip(self._add(name, max(len(steps), 1)), steps, strict=False):
                for field, value in step.items():
                    record[field] = value
        tables: dict[str, Sequence[object]] = {"plans": self.plans.starts, "watchers": self._observers, **self.lists}
        for name, rows in tables.items():
            self._add(name, max(len(rows), 1))[: len(rows)] = rows
        self.scalars["sources"], self.scalars["purposes"] = self.sources, self.purposes
        self.draws = not prepared.stationary and all(map(_is_simply_drawn, prepared.sources))
        """Whether the loop itself can draw the failures."""
        self.most_steps = max((count for _, count in self.plans.starts), default=0) + 2

    def _add(self, name: str, count: int) -> NDArray[np.void]:
        """Return a new array of zeros for the loop."""
        array: NDArray[np.void] = np.zeros(count, state.ARRAYS[name])
        self.arrays[name] = array
        return array

    # -------------------------------------------------------------------------------------------- random numbers

    def law(self, law: LawModel) -> int:
        """Return where the numbers of a law stand."""
        self.lists["laws"] += law.parameters
        return len(self.lists["laws"]) - len(law.parameters)

    def need(self, source: int, purpose: int, name: str) -> int:
        """Let failures of a source have numbers for a purpose."""
        self.needs[source, purpose] = rng.encoded("mark", self.prepared.sources[source].name, name)
        return purpose

    def new_purpose(self) -> int:
        """Return a purpose of its own."""
        self.purposes += 1
        return self.purposes - 1

    # ---------------------------------------------------------------------------------------------------- sources

    def _lower_source(self, index: int, source: FailureSource) -> None:
        prepared = self.prepared
        row = self.origins[index]
        row["of_job"] = source.part == "job"
        scattered = source.blast is not None and source.blast.spread is not None
        row["divisor"] = 1 if scattered else prepared.slots_per_node.get(source.part, 0)
        row["renews"], row["clock"] = _RENEWS[source.renews], _CLOCKS[source.clock]
        row["returns"] = source.renews == "at_return" and source.clock != "in_service"
        row["hidden"] = source.hidden is not None
        for name in ("idle_hazard", "interrupts", "planned", "notice", "defer", "recall", "alarm"):
            row[name] = getattr(source, name)
        row["always"] = source.interrupts >= 1 and source.idle_hazard >= 1
        row["by_course"] = source.repair is None and source.recorded is None and not row["of_job"]
        row["mends_nothing"] = source.recorded is not None or source.alarm
        row["fault"], row["reboots"] = _CLASSES.index(source.fault), source.damage == "reboot"
        row["ends_rank"] = source.fault in OF_ONE_RANK
        row["bucket"], row["saves"] = source.down_bucket, source.saves or source.effect.saves
        row["repair"], row["repair_law"] = 0.0, -1
        row["away"] = row["store_out"] = row["human"] = row["relapse_after"] = row["onset"] = row["life"] = -1
        if source.recall and source.lead is not None:
            row["foreseen"] = self.need(index, self.new_purpose(), "foreseen")
            row["lead"], row["lead_purpose"] = self.law(source.lead), self.need(index, self.new_purpose(), "lead")
        self._lower_detection(index, source.detection_race)
        self._lower_laws(index, source)
        row["apart"] = source.blast is not None and source.blast.repair == "nodes" and not scattered
        if not row["divisor"]:
            self._lower_blast(index, source.part)

    def _lower_blast(self, index: int, part: str) -> None:
        """Write down the nodes behind each unit of a part, if it has some."""
        if part in self.prepared.blast:
            offsets, nodes = self.prepared.blast[part]
            self.origins[index]["first_offset"] = len(self.lists["offset"])
            self.lists["offset"] += (np.asarray(offsets) + len(self.lists["member"])).tolist()
            self.lists["member"] += np.asarray(nodes).tolist()

    def _lower_detection(self, index: int, race: DetectionRace | None) -> None:
        row = self.origins[index]
        if race is None or race.fixed is not None:
            row["detection"] = race.fixed if race is not None else 0.0
            return
        row["detection"] = math.nan
        row["first_observer"], row["observers"] = len(self._observers), len(race.contenders)
        for contender in race.contenders:
            covers = self.need(index, self.new_purpose(), contender.covers)
            latency = self.need(index, self.new_purpose(), contender.latency)
            law = self.law(contender.observer.law)
            self._observers.append((contender.least, contender.observer.coverage, covers, law, latency))
        if race.human is not None:
            row["human"] = self.law(race.human)
            row["human_purpose"] = self.need(index, self.new_purpose(), f"detection {HUMAN}")

    def _lower_laws(self, index: int, source: FailureSource) -> None:
        """Lower the repair, the life and what a failure takes away, each with the names of its random numbers."""
        row = self.origins[index]
        if isinstance(source.repair, Fixed):
            row["repair"] = source.repair.value
        elif source.repair is not None:
            row["repair_law"] = self.law(source.repair)
            self.need(index, state.REPAIR_MARK, "repair")
        if source.law is not None:
            row["life"] = self.law(source.law)
            self.needs[index, state.LIFE] = rng.encoded("life", source.name)
            row["units"], row["reach"] = source.units, source.law.reach(self.prepared.warmup + self.prepared.horizon)
            row["is_ahead"] = source.all_known_ahead and source.renews == "at_failure"
        if not row["always"]:
            self.need(index, state.INTERRUPTS, "interrupts")
            self.need(index, state.IDLE_MARK, "idle")
        for name, law, purpose in (("away", source.away, state.AWAY), ("store_out", source.store_out, state.STORE_OUT)):
            if law is not None:
                row[name] = self.law(law)
                self.need(index, purpose, name)
        if source.residue is not None:
            row["has_residue"], row["relapse"] = True, source.residue.probability or 0.0
            row["relapse_after"] = self.law(source.residue.after)
            self.need(index, state.RELAPSES, "relapse")
            self.need(index, state.RELAPSE_AFTER, "relapse after")
        if source.hidden is not None and source.hidden.onset is not None:
            row["onset"] = self.law(source.hidden.onset)

    # ------------------------------------------------------------------------------------------ nodes and repair

    def _lower_cluster(self, visits: int) -> None:
        prepared, scalars = self.prepared, self.scalars
        scalars["end"], scalars["warmup"] = prepared.warmup + prepared.horizon, prepared.warmup
        scalars["windows"] = prepared.windows or 0.0
        scalars["node_count"], scalars["gpus_per_node"] = prepared.nodes, prepared.gpus_per_node
        scalars["causes"], scalars["withheld"] = self.sources + 1, prepared.withheld
        scalars["pick"] = _PICKS[prepared.scheduler.pick]
        scalars["counts_service"] = any(source.clock == "in_service" for source in prepared.sources)
        nodes = self._add("nodes", prepared.nodes)
        nodes["home"][prepared.serving :] = NodeState.WITHHELD
        nodes["is_touched"] = True
        self._lower_pools(nodes)
        self._lower_repair(visits)

    def _lower_pools(self, nodes: NDArray[np.void]) -> None:
        """Part the nodes that serve into pools: the last ones are those of the first reserve."""
        prepared, pools = self.prepared, self._add("pools", PLACES)
        edge = prepared.serving
        reserved: dict[str, range] = {"spare": range(edge, edge)}
        for name, reserve in prepared.reserves.items():
            reserved[name] = range(max(edge - reserve.nodes, 0), edge)
            edge = reserved[name].start
        members_of_pools = {"idle": range(edge), **reserved}
        self.arrays["pool_order"] = np.array([POOLS[name] for name in members_of_pools], dtype=np.int64)
        for name, members in members_of_pools.items():
            pool = pools[POOLS[name]]
            pool["is_there"], pool["place"] = True, POOLS[name]
            pool["first"], pool["count"] = members.start, len(members)
            if name != "idle":
                pool["target"], pool["refills"] = len(members), True
            nodes["home"][members.start : members.stop] = POOLS[name]
        for name, reserve in prepared.reserves.items():
            pool = pools[POOLS[name]]
            pool["refills"], pool["delay"], pool["one_by_one"] = reserve.refills, reserve.delay, reserve.one_by_one
        self.scalars["pool_count"] = len(members_of_pools)

    def _lower_repair(self, visits: int) -> None:
        scalars, repair = self.scalars, self.prepared.repair
        scalars["repair_scale"] = repair.scale
        scalars["test_law"], scalars["diagnosis_finds"] = -1, 1.0
        if not isinstance(repair, RepairTiers):
            self._add("tiers", 1)
            return
        names = [tier.name for tier in repair.tiers]
        for row, tier in zip(self._add("tiers", len(names)), repair.tiers, strict=True):
            row["law"], row["escalates"], row["fixes"] = self.law(tier.time), tier.escalates, tier.fixes
            row["crews"] = row["free"] = tier.crews or 0
            row["first"] = row["last"] = -1
        scalars["tier_count"], scalars["has_crews"] = len(repair.tiers), any(tier.crews for tier in repair.tiers)
        if repair.qualification is not None:
            scalars["test_law"] = self.law(repair.qualification.time)
            scalars["test_finds"] = repair.qualification.finds
        diagnosis = repair.diagnosis
        scalars["diagnosis_finds"], scalars["blames_other"] = diagnosis.finds, diagnosis.blames_other
        scalars["visit_purposes"], scalars["first_purposes"] = visits, self.purposes
        self.purposes += 5 * visits
        scalars["blame_purposes"] = self.purposes
        self.purposes += BLAME_DRAWS if diagnosis.blames_other else 0
        for index, source in enumerate(self.prepared.sources):
            if self.origins[index]["by_course"]:
                self.origins[index]["tier"] = names.index(source.tier) if source.tier in names else 0
                self._name_course(index, visits, diagnosis)

    def _name_course(self, index: int, visits: int, diagnosis: Diagnosis) -> None:
        """Name the random numbers of the diagnosis after failures of a source, and of the courses that they begin."""
        first_visit, first_blame = (int(self.scalars[name][0]) for name in ("first_purposes", "blame_purposes"))
        for number in range(visits):
            for offset, what in enumerate(("repair", "escalates", "fixes", "finds", "qualification")):
                self.need(index, first_visit + 5 * number + offset, f"{what} {number}")
        if diagnosis.finds < 1 or diagnosis.blames_other > 0:
            self.need(index, state.DIAGNOSIS, "diagnosis")
            self.need(index, state.BLAME, "blame")
        for attempt in range(BLAME_DRAWS if diagnosis.blames_other else 0):
            self.need(index, first_blame + attempt, f"other {attempt}")

    # ---------------------------------------------------------------------------------------- the job and its plans

    def _lower_job(self) -> None:
        prepared, scalars, job = self.prepared, self.scalars, self.job
        checkpoint, recovery = job.checkpoint, prepared.recovery
        scalars["arrival"], scalars["since"] = prepared.warmup + job.arrival, prepared.warmup + job.arrival
        scalars["gpus"], scalars["nodes_needed"] = job.gpus, job.nodes
        scalars["positions"] = job.replicas * (job.nodes // job.replicas)
        scalars["step_time"], scalars["target"] = job.step_time, job.target
        for name in ("interval", "stall", "drain", "load"):
            scalars[name] = getattr(checkpoint, name)
        scalars["run_at"] = scalars["detect_at"] = scalars["finish_at"] = scalars["looks_at"] = math.inf
        scalars["ready_at"] = scalars["saved_at"] = scalars["store_back"] = -math.inf
        scalars["start"] = scalars["end_of_job"] = math.nan
        scalars["fail_source"] = scalars["repairing_first"] = scalars["repairing_last"] = scalars["first_free"] = -1
        scalars["missing"] = job.nodes
        scalars["is_open"] = True
        scalars["edges"] = 1
        rank = sorted(range(job.nodes), key=job.seats.__getitem__) if job.seats else range(job.nodes)
        self.arrays["rank_place"] = np.argsort(np.array(rank, dtype=np.int64))
        scalars["first_position"] = job.seats[0] if job.seats else 0
        scalars["minds_nodes"] = checkpoint.minds_nodes
        if isinstance(recovery, Rungs):
            self._lower_rungs(recovery)
        else:
            scalars["start_plan"] = self.plans.plan(_symbolic(recovery)._start(self._view(0)), is_start=True)
            for name, missing in (("plain_plan", 0), ("swap_plan", 1)):
                failure = FailureView("", False, missing, missing, _name)
                plan, _ = _symbolic(recovery)._plan(failure, self._view(missing), ClusterView(0, 0), None)
                scalars[name] = self.plans.plan(plan)
        # How long somebody has taken the nodes away is no time of the recovery.
        scalars["away_plan"] = self.plans.add([self.plans.row(Requeue(0.0)) | {"scale": 1.0}])
        scalars["any_plan"] = len(self.plans.steps)
        self.plans.plan((Acquire(),))
        scalars["given_up"] = math.inf
        scalars["save_plan"] = len(self.plans.steps)
        scalars["saving_plan"] = self.plans.plan((Save(), Run()))

    def _view(self, missing: int) -> JobView:
        job = self.job
        return JobView(job.name, 0.0, job.nodes, missing, job.replicas, job.replicas, False, 1, _name)

    def _lower_stores(self) -> None:
        """Write down several stores, or one that a plain rhythm does not describe, and work other than saves."""
        scalars, job, checkpoint = self.scalars, self.job, self.job.checkpoint
        series = ("periods", "stalls", "ratios", "first_periods", "longest")
        scalars["replicas"], scalars["peer_load"], scalars["is_first"] = job.replicas, -1.0, True
        if isinstance(checkpoint, Periodic):
            for name in (*series, "shelves"):
                self._add(name, 1)
            return
        grid = checkpoint.grid(Pace(1.0, job.step_time))
        self.arrays |= {name: np.array(getattr(grid, name), state.ARRAYS[name]) for name in series}
        scalars["series"], scalars["stores"] = grid.series, len(checkpoint.stores)
        scalars["slope"], scalars["spread"] = grid.slope, grid.spread
        if checkpoint.peer is not None:
            scalars["peer_load"] = checkpoint.peer.load
        # Twice, for what was before a save that may be cut off.
        shelves = self._add("shelves", 2 * len(checkpoint.stores))
        for row, store in zip(shelves, checkpoint.stores, strict=False):
            for name in ("load", "fetch", "drain", "every_replica"):
                row[name] = getattr(store, name)
            row["is_first"] = True
            row["limit"], row["keeps_all"] = store.retain or sys.maxsize, store.keeps_all
            row["takes"] = {"remote": 0, "disk": LOST}.get(store.store, LOST | REBOOTED)
            if store.store == "peer-host":
                row["clique"], row["jump"] = store.clique, store.jump

    def _lower_rungs(self, recovery: Rungs) -> None:
        """Write down the plans of each rung, by the class of the fault and by whether nodes are missing."""
        scalars, job = self.scalars, self.job
        scalars["rungs"], scalars["classes"] = len(recovery.rungs), len(_CLASSES)
        scalars["resets"], scalars["most_joiners"] = recovery.resets_on_progress, self.most_joiners
        scalars["no_progress"] = -1 if recovery.no_progress is None else recovery.no_progress
        if any(rung.except_first for rung in recovery.rungs):
            scalars["minds_nodes"] = True
        everybody = Participants(job.gpus, job.nodes, job.nodes)
        last = recovery.rungs[-1]
        launch = self.plans.stalls(last.launch, Bucket.INITIALIZE, everybody, f"{last.name} launch", "", is_start=True)
        scalars["start_plan"] = self.plans.add([*launch, self.plans.row(Restore("stores")), self.plans.row(Run())])
        if recovery.gives_up:
            scalars["exhausted_plan"] = self.plans.plan((Requeue(math.inf),))
        else:
            requeue = self.plans.row(Requeue(math.nan))
            self.plans.add_time(recovery.exhausted, "human", is_start=False)
            scalars["exhausted_plan"] = self.plans.add([requeue])
        for index, rung in enumerate(recovery.rungs):
            handles = _CLASSES if rung.handles is None else set(rung.handles)
            self._rungs.append(
                {
                    "handles": sum(1 << _CLASSES.index(fault) for fault in handles),
                    "except_first": rung.except_first,
                    "budget": -1 if rung.budget is None else rung.budget,
                    "backoff": rung.backoff.first if rung.backoff is not None else 0.0,
                    "most_backoff": rung.backoff.most if rung.backoff is not None else 0.0,
                }
            )
            self._lower_rung_plans(index, rung, recovery.evict)
        self.lists["evicts"] += [self._evicted(recovery.evict, fault) for fault in _CLASSES]

    def _evicted(self, evict: Eviction | None, fault: str) -> int:
        """Return how many nodes leave in a row after a fault of a class."""
        return min(evict.nodes, self.job.nodes) if evict is not None and fault in evict.faults else 0

    def _lower_rung_plans(self, index: int, rung: Rung, evict: Eviction | None) -> None:
        """Write down the plans of a rung: without and with missing nodes, and with healthy ones that are evicted."""
        used = {source.fault for source in self.prepared.sources}
        for fault in _CLASSES:
            nodes = self._evicted(evict, fault)
            evicted = (Evict(nodes, evict.test),) if evict is not None and nodes else ()
            for joiners, first in ((0, ()), (1, ()), (1, evicted)):
                if fault in used and (first or not (nodes and joiners == 0)):
                    rows = self._rung_rows(index, rung, fault, joiners)
                    self.lists["rung_plans"].append(self.plans.add([*map(self.plans.row, first), *rows]))
                else:
                    self.lists["rung_plans"].append(-1)

    def _rung_rows(self, index: int, rung: Rung, fault: str, joiners: int) -> list[dict[str, float]]:
        """Return the steps of a rung after a fault of a class, as `Ladder._climb` makes them; see there."""
        members = Participants(self.job.gpus, self.job.nodes, joiners)
        stop = self.plans.stalls(rung.stop, Bucket.RESCHEDULE, members, f"{rung.name} stop", fault)
        if rung.keeps == "nothing":
            row = self.plans.row(Requeue(math.nan)) | {"rung": index}
            if isinstance(rung.delay, LawModel):
                self.plans.add_time(rung.delay, f"{rung.name} delay", is_start=False)
            else:
                for phase in rung.delay:
                    if phase.is_due(members, fault):
                        self.plans.add_phase(phase, members, f"{rung.name} delay", is_start=False)
            return [*stop, row | {"time_count": len(self.plans.times) - int(row["first_time"])}]
        swap = []
        if joiners:
            timeout = math.inf if rung.patience is None else rung.patience
            swap = [self.plans.row(Acquire(timeout=timeout, pools=rung.pools))]
            if rung.patience is not None:
                swap[0]["otherwise"] = state.NEXT_RUNG
        launch = self.plans.stalls(rung.launch, Bucket.INITIALIZE, members, f"{rung.name} launch", fault)
        return [*stop, *swap, *launch, self.plans.row(Restore(rung.keeps)), self.plans.row(Run())]


class PlanRows:
    """Plans of the recovery as numbers: their steps, the times of these, and where the steps of each plan begin."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.steps: list[dict[str, float]] = []
        self.times: list[dict[str, float]] = []
        self.starts: list[tuple[int, int]] = []
        """First step and number of steps of each plan."""
        self.named: dict[str, int] = {}
        """Purposes of random numbers by the name of a time."""

    def plan(self, plan: Plan, *, is_start: bool = False) -> int:
        """Write a plan down; return its number."""
        return self.add([self.row(step, is_start=is_start) for step in plan])

    def add(self, rows: list[dict[str, float]]) -> int:
        """Write down a plan whose steps are numbers already; return its number."""
        self.starts.append((len(self.steps), len(rows)))
        self.steps += rows
        return len(self.starts) - 1

    def row(self, step: Step, *, is_start: bool = False) -> dict[str, float]:
        """Return the numbers of a step, at the scale of the recovery."""
        scale = self.lowered.prepared.recovery.scale
        row: dict[str, float] = {"otherwise": -1, "scale": scale, "rung": -1}
        match step:
            case Stall() | Requeue():
                seconds = step.seconds if isinstance(step, Stall) else step.delay
                row |= {"kind": state.REQUEUE, "first_time": len(self.times), "time_count": 1}
                if isinstance(step, Stall):
                    row |= {"kind": state.STALL, "bucket": step.bucket, "exposed": _EXPOSED[step.exposed]}
                if isinstance(seconds, _Time):
                    self.add_time(seconds.law, seconds.purpose, is_start=is_start)
                elif not math.isnan(seconds):  # else the times follow
                    self.times.append({"law": -1, "seconds": seconds, "mean": seconds})
            case Acquire():
                row |= {"kind": state.ACQUIRE, "exposed": _EXPOSED[step.exposed], "timeout": step.timeout * scale}
                pools = sum(POOLS[pool] + 1 << 4 * number for number, pool in enumerate(step.pools))
                row |= {"from_pools": pools, "fill": step.fill}
                if step.otherwise:
                    row["otherwise"] = self.plan(step.otherwise)
            case Restore():
                row |= {"kind": state.RESTORE, "exposed": _EXPOSED[step.exposed], "keeps": _KEEPS[step.keeps]}
            case Save():
                row |= {"kind": state.SAVE, "exposed": _EXPOSED[step.exposed]}
            case Run():
                row["kind"] = state.RUN
            case Evict():
                row |= {"kind": state.EVICT, "in_a_row": step.nodes, "timeout": step.seconds}
        return row

    def add_time(self, law: LawModel, name: str, *, is_start: bool) -> None:
        """Write down a time of the recovery."""
        if isinstance(law, Fixed):
            self.times.append({"law": -1, "seconds": law.value, "mean": law.value})
            return
        purpose = self._purpose(name, is_start=is_start)
        self.times.append({"law": self.lowered.law(law), "purpose": purpose, "factor": 1.0, "mean": law.mean_value})

    def _purpose(self, name: str, *, is_start: bool) -> int:
        """Return the purpose of a time of the recovery, drawn by a start or by whatever failure."""
        purpose = self.named.get(name)
        if purpose is None:
            purpose = self.named[name] = self.lowered.new_purpose()
        if is_start:
            self.lowered.needs[self.lowered.sources, purpose] = rng.encoded("start", self.lowered.job.name, name)
        else:
            for source in range(self.lowered.sources):
                self.lowered.need(source, purpose, name)
        return purpose

    def stalls(
        self, phases: Held, bucket: Bucket, members: Participants, purpose: str, fault: str, *, is_start: bool = False
    ) -> list[dict[str, float]]:
        """Return phases as steps, as `ettrick.sim.policies.recovery.phases.steps` makes them; see there."""
        if isinstance(phases, LawModel):
            row = self.row(Stall(bucket, math.nan))
            self.add_time(phases, purpose, is_start=is_start)
            return [row]
        rows: list[dict[str, float]] = []
        for phase in phases:
            exposed = _EXPOSED[phase.exposed]
            if not phase.is_due(members, fault):
                continue
            if rows and rows[-1]["exposed"] == exposed:
                rows[-1]["time_count"] += 1
            elif phase.time.mean_value > 0:
                rows.append(self.row(Stall(bucket, math.nan, phase.exposed)))
            else:
                continue
            self.add_phase(phase, members, purpose, is_start=is_start)
        return rows

    def add_phase(self, phase: RecoveryPhase, members: Participants, purpose: str, *, is_start: bool) -> None:
        """Write down the time of a phase."""
        factor = phase.factor(members)
        if isinstance(phase.time, Fixed):
            seconds = phase.time.value * factor
            self.times.append({"law": -1, "seconds": seconds, "mean": seconds})
            return
        self.add_time(phase.time, f"{purpose} {phase.name}", is_start=is_start)
        row = self.times[-1] | {"factor": factor, "draws": phase.count(members), "mean": phase.mean_seconds(members)}
        if phase.each == "node" and phase.joiners and not is_start:
            row |= {"draws": -1, "first_mean": len(self.lowered.lists["means"])}
            counts = range(1, min(self.lowered.most_joiners, self.lowered.job.nodes) + 1)
            self.lowered.lists["means"] += [phase.mean_seconds(members._replace(joiners=count)) for count in counts]
        self.times[-1] = row


_CLASSES = tuple(FAULTS)

_KEEPS = {"processes": state.PROCESSES_KEPT, "hosts": state.HOSTS_KEPT, "stores": state.STORES_KEPT}


class _Time(float):
    """A time of a plan that a law will give, by the number that belongs to a purpose."""

    law: LawModel
    purpose: str


class _Symbol(NamedTuple):
    """Stands for a law while a strategy makes a plan: what it draws says which law it was, and what for."""

    law: LawModel
    mean_value: float = 0.0

    def ppf_one(self, purpose: str) -> _Time:
        time = _Time(1.0)
        time.law, time.purpose = self.law, purpose
        return time


def _name(purpose: str) -> float:
    """Stand for the numbers of a failure: what is asked for a number of a purpose gets its name."""
    return cast("float", purpose)


def _symbolic(recovery: AnyRecovery) -> AnyRecovery:
    """Return a strategy at a scale of one whose random times say which law they are of."""
    laws = {
        name: _Symbol(value)
        for name in type(recovery).model_fields
        if isinstance(value := getattr(recovery, name), LawModel) and not isinstance(value, Fixed)
    }
    return recovery.model_copy(update=laws)
