"""The recovery of a job in means: detection, recovery strategies, and the times of their phases at its size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ettrick.sim import plugins
from ettrick.sim.policies.contracts import FAULTS
from ettrick.sim.policies.recovery import RECOVERIES, Ladder
from ettrick.sim.policies.recovery.phases import Participants, mean
from ettrick.sim.prepare.failures import FailureRates
from ettrick.sim.scenario.law_model import LawModel
from ettrick.sim.scenario.laws import Fixed
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import AnyRecovery
    from ettrick.sim.policies.recovery.ladder import Rung
    from ettrick.sim.policies.recovery.phases import Held
    from ettrick.sim.yamlfile import Table

_Who: TypeAlias = Literal["job", "swapped", "replica", "start"]

STAGES: dict[str, dict[str, _Who]] = {
    "full-restart": {"delay": "job", "initialize": "job"},
    "hot-spare": {"reschedule": "swapped", "initialize": "swapped", "requeue_delay": "job"},
    "ladder": {},
    "narrow": {"stop": "swapped", "launch": "swapped", "requeue": "swapped"},
    "redundant": {"reconfigure": "swapped", "initialize": "replica", "catch_up": "replica", "rejoin": "swapped"},
    "restart-smaller": {"stop": "job", "launch": "job", "rejoin": "swapped", "requeue": "job", "start_up": "start"},
    "shrink-rejoin": {"reconfigure": "swapped", "initialize": "replica", "catch_up": "replica", "rejoin": "swapped"},
    "standby": {"recovery": "swapped", "selection": "swapped"},
}

"""The participants of the phases of each strategy, by the names of these: all of the job, none of them new; all, with
one node that is; one replica, with such a node; or all, who start from nothing. Those of a ladder are in its rungs.
"""


@dataclass(frozen=True)
class FaultClass:
    """Faults of one class, as a job meets them.

    Parameters
    ----------
    fault
        The class.
    stops
        Whether they stop the job at once; else it steps on until they are known.
    causes
        Names of their causes.
    per_day
        How often they interrupt the job, as the scenario states it [1/d].
    known_after_s
        Mean time until they are known [s]; infinite if they never are.
    first
        Probability that each observer is the first detector, by name [-]; ``stated`` where a time alone is stated.
    """

    fault: str
    stops: bool
    causes: tuple[str, ...]
    per_day: float
    known_after_s: float
    first: Mapping[str, float]


@dataclass(frozen=True)
class PhaseTime:
    """A phase: its mean time at the size of the job [s], and the classes of faults after which alone it is needed."""

    name: str
    mean_s: float
    faults: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PhaseStage:
    """Phases one after another, and the mean of those together that are needed after every fault [s]."""

    mean_s: float
    parts: tuple[PhaseTime, ...]


@dataclass(frozen=True)
class RungTimes:
    """A rung of a ladder and its times.

    Parameters
    ----------
    name, keeps, pools, budget
        As the scenario states them.
    not_for
        Classes of faults that it is passed over for.
    except_first
        Whether it is passed over when the first node is lost.
    patience_s
        How long it waits for replacements [s]; ``None`` for ever, or in the queue.
    phases
        What it takes: stop, delay, launch.
    """

    name: str
    keeps: str
    pools: tuple[str, ...]
    budget: int | None
    not_for: tuple[str, ...]
    except_first: bool
    patience_s: float | None
    phases: Mapping[str, PhaseStage]


@dataclass(frozen=True)
class Escalation:
    """The operator who is called when no rung is left: the mean time until the job starts again [s]; infinite if never.

    ``no_progress`` restarts in a row without new work escalate to the operator too [-]; ``None`` if any number may.
    """

    after_s: float
    no_progress: int | None


@dataclass(frozen=True)
class RecoverySummary:
    """The recovery of a job.

    Parameters
    ----------
    strategy, summary
        Name of the strategy, and a sentence about it.
    classes
        The faults of the scenario by class, in the order of :data:`ettrick.sim.policies.contracts.FAULTS`.
    rungs
        Rungs of a ladder; empty for other strategies.
    phases
        What the strategy takes, if it is not a ladder.
    human
        Operator escalation when no rung is left; ``None`` where there is none.
    settings
        What else the scenario states of the strategy, where it is not the default.
    """

    strategy: str
    summary: str
    classes: tuple[FaultClass, ...]
    rungs: tuple[RungTimes, ...]
    phases: Mapping[str, PhaseStage]
    human: Escalation | None
    settings: Table


def recovery_summary(prepared: Prepared, index: int) -> RecoverySummary:
    """Return how a job of a scenario recovers, by its index.

    Times are means at the size of the job, of a fault that takes one of its nodes, or none where nothing is replaced.
    All factors are in them.
    """
    job, recovery = prepared.jobs[index], prepared.recovery
    built_in = (name for name, kind in RECOVERIES.items() if isinstance(recovery, kind))
    name = recovery.use if plugins.used(recovery) else next(built_in)
    stages = STAGES.get(name, {})
    ladder = recovery if isinstance(recovery, Ladder) else None
    explained = {"use", "scale", "rungs", "exhausted", "no_progress", "gives_up", *stages}
    return RecoverySummary(
        strategy=name,
        summary=(type(recovery).__doc__ or "").strip().split("\n", 1)[0],
        classes=_classes(prepared, job),
        rungs=tuple(_rung_times(rung, job, ladder.scale) for rung in ladder.rungs) if ladder else (),
        phases=dict(_phases(recovery, stages, job)),
        human=_escalation(ladder) if ladder else None,
        settings=recovery.model_dump(mode="json", exclude_defaults=True, exclude=explained),
    )


def _classes(prepared: Prepared, job: PreparedJob) -> tuple[FaultClass, ...]:
    """Return the faults of a scenario by class; those that do not stop the job stand by themselves."""
    classes = list(FAULTS)
    by_class: dict[tuple[str, bool], list[FailureSource]] = {}
    for source in sorted(prepared.sources, key=lambda source: (classes.index(source.fault), not source.effect.stops)):
        by_class.setdefault((source.fault, source.effect.stops), []).append(source)
    return tuple(_class(fault, stops, sources, prepared, job) for (fault, stops), sources in by_class.items())


def _class(fault: str, stops: bool, sources: list[FailureSource], prepared: Prepared, job: PreparedJob) -> FaultClass:
    """Return what is to be known of the sources of one class."""
    of_sources = FailureRates.of(prepared)
    rates = [of_sources.rate(source, job.nodes) for source in sources]
    weights = rates if sum(rates) > 0 else [1.0] * len(sources)
    after, shares = 0.0, dict[str, float]()
    for source, weight in zip(sources, weights, strict=True):
        part = weight / sum(weights)
        if part == 0:
            continue
        after += part * (source.detection_race.mean_value if source.detection_race is not None else math.inf)
        for name, first in (source.detection_race.shares() if source.detection_race is not None else {}).items():
            shares[name or "stated"] = shares.get(name or "stated", 0.0) + part * first
    return FaultClass(fault, stops, tuple(source.name for source in sources), DAY * sum(rates), after, shares)


def _members(who: _Who, job: PreparedJob) -> Participants:
    """Return who goes through phases, of a job that has lost one node at most."""
    if who == "replica":
        return Participants(job.gpus / job.parts, max(job.nodes // job.parts, 1), 1)
    return Participants(job.gpus, job.nodes, {"job": 0, "swapped": 1, "start": job.nodes}[who])


def _phases(recovery: AnyRecovery, parts: Mapping[str, _Who], job: PreparedJob) -> Iterable[tuple[str, PhaseStage]]:
    """Yield what a strategy takes by name; what it does not have is left out."""
    for name, who in parts.items():
        time = getattr(recovery, name)
        if time is not None:
            law = Fixed.from_seconds(value=time) if isinstance(time, float) else time
            yield name, _stage(name, law, _members(who, job), recovery.scale)


def _stage(name: str, time: Held, members: Participants, scale: float, more: tuple[PhaseTime, ...] = ()) -> PhaseStage:
    """Return phases with their means, and `more` behind them, whose times are as they stand."""
    if isinstance(time, LawModel):
        phases = [PhaseTime(name, scale * time.mean_value)]
    else:
        phases = [
            PhaseTime(phase.name, scale * phase.mean_seconds(members), phase.faults)
            for phase in time
            if not phase.joiners or members.joiners
        ]
    total = scale * sum(mean(time, members)) + sum(phase.mean_s for phase in more)
    return PhaseStage(total, (*phases, *more))


def _rung_times(rung: Rung, job: PreparedJob, scale: float) -> RungTimes:
    """Return a rung of a ladder, with its times for a job; one that keeps nodes replaces one of them."""
    members = _members("start" if rung.keeps == "nothing" else "swapped", job)
    backoff = () if rung.backoff is None else (PhaseTime("first back-off", scale * rung.backoff.seconds(1)),)
    return RungTimes(
        name=rung.name,
        keeps=rung.keeps,
        pools=rung.pools if rung.keeps != "nothing" else (),
        budget=rung.budget,
        not_for=tuple(fault for fault in FAULTS if rung.handles is not None and fault not in rung.handles),
        except_first=rung.except_first,
        patience_s=None if rung.patience is None else scale * rung.patience,
        phases={
            "stop": _stage("stop", rung.stop, members, scale),
            "delay": _stage("delay", rung.delay, members, scale, backoff),
            "launch": _stage("launch", rung.launch, members, scale),
        },
    )


def _escalation(ladder: Ladder) -> Escalation | None:
    """Return the operator escalation of a ladder without a rung left; ``None`` if some rung always applies."""
    if ladder.no_progress is None and any(_always(rung) for rung in ladder.rungs):
        return None
    return Escalation(math.inf if ladder.gives_up else ladder.scale * ladder.exhausted.mean_value, ladder.no_progress)


def _always(rung: Rung) -> bool:
    """Return whether a rung applies to every failure, and is never given up."""
    waits = rung.keeps == "nothing" or rung.patience is None
    return rung.budget is None and rung.handles is None and not rung.except_first and waits
