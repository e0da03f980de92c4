"""A job that is in no respect worse than that of a scenario, and whose expected progress is known.

It is a rigid job under Poisson failures, with endless spares and stores and the shortest recoveries. A quantity that
is not known exactly is replaced by the best that it can be, so that the mean is not above that of this job. The proof
is in docs/explanation/design-bound.md; the limits that follow are in `ettrick.analysis.optimize.bounds`.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.closed_form.elastic import takes_nodes
from ettrick.sim.closed_form.renewal import Unknown
from ettrick.sim.failures.source import KNOWN
from ettrick.sim.formulas.arrays import real
from ettrick.sim.input.scenario import Scenario
from ettrick.sim.policies.checkpoint.stores import TIE
from ettrick.sim.policies.recovery import HotSpare, Ladder
from ettrick.sim.policies.recovery.base import ExpectedFailure
from ettrick.sim.prepare.failures import FailureRates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.formulas.arrays import FloatArray
    from ettrick.sim.input.scenario import AnyRecovery
    from ettrick.sim.policies.checkpoint.stores import StorePlan
    from ettrick.sim.policies.recovery.base import RecoveryPath

_MISSING = 3
"""Nodes that may be missing in a restart, and cannot fail then [-]."""


class RelaxedJob(NamedTuple):
    """A job that is in no respect worse than that of a scenario; the defaults are one that never stops.

    Parameters
    ----------
    horizon
        From its arrival to the end of the simulation [s].
    rate, lasting
        Failures, and those of them after which only the store outside the nodes is left [1/s].
    restart
        Mean time from a failure to stepping [s].
    running
        Share of the time that failures and restarts leave [-].
    reads
        Time that reading checkpoints takes, of each second of running [-].
    interval, stall, drain
        Interval, stall and drain of saves to the store outside the nodes [s].
    least_stall, least_drain
        Stall and drain of the quickest store [s].
    sooner, later
        Whether it may save sooner than the interval says, and later [-].
    is_ideal
        Whether it never stops [-].
    """

    horizon: float
    rate: float = 0.0
    lasting: float = 0.0
    restart: float = 0.0
    running: float = 1.0
    reads: float = 0.0
    interval: float = 0.0
    stall: float = 0.0
    drain: float = 0.0
    least_stall: float = 0.0
    least_drain: float = 0.0
    sooner: float = 1.0
    later: float = 1.0
    is_ideal: float = 1.0


def _most_often(source: FailureSource) -> float:
    """Return the rate that a source cannot pass [1/s]; infinite where it has a memory, or signs."""
    if source.law is None or not source.law.memoryless or source.renews == "never":
        return math.inf
    varies = source.variety or source.tempo or source.hidden or source.residue or source.thinned or source.fix
    spreads = source.blast is not None and source.blast.spread is not None
    return math.inf if varies or spreads or source.is_watched else source.rate


def _is_poisson(source: FailureSource) -> bool:
    """Return whether a source strikes the nodes of a job at one rate, whatever has been, and stops it at once."""
    is_known = source.detection_race is not None and source.effect.stops
    is_special = source.blast or source.of_fabric or source.saves or source.away or source.store_out
    is_of_one_job = source.part == "job" or source.slots_per_node > 0
    return is_known and is_of_one_job and not is_special and _most_often(source) < math.inf


def _unlike(sources: Iterable[FailureSource]) -> list[FailureSource]:
    """Return the sources of failures that are not Poisson."""
    return [source for source in sources if not (_is_poisson(source) or source.is_condition)]


def _saves_ahead(source: FailureSource) -> bool:
    """Return whether a job may save before a source stops it."""
    return bool(source.saves or source.recall or source.is_watched or source.away or source.effect.saves)


def _strategies(recovery: AnyRecovery) -> list[AnyRecovery]:
    """Return a strategy, and what it comes to where it has to give up its first ways."""
    if isinstance(recovery, Ladder):
        return [recovery.model_copy(update={"rungs": recovery.rungs[first:]}) for first in range(len(recovery.rungs))]
    if isinstance(recovery, HotSpare) and recovery.patience is not None:
        return [recovery, recovery.model_copy(update={"reschedule": KNOWN})]
    return [recovery]


def _cost(paths: Sequence[RecoveryPath], stores: Sequence[StorePlan], load: float, rates: FloatArray) -> FloatArray:
    """Return the least cost of a restart by one of several paths, shape (3,).

    That no failure strikes it [-], its time out of their reach [s], and whether only the store outside the nodes is
    left [-]. Failures come at the first of `rates`, and at the second while nodes are missing [1/s].
    """
    near = [rung for rung in stores if rung.store != "remote"]
    is_fragile = all(rung.store in ("host", "disk") and not rung.every_replica for rung in near)
    cost: FloatArray = np.zeros(3)
    for path in paths:
        reached, pause = np.ones(2), 0.0
        for span in path.spans:
            if span.exposed and rates[1]:
                reached *= [real(span.survival(rate)) for rate in rates]
            else:
                pause += reached[0] * span.mean
        if path.exposed and rates[1]:
            reached *= np.exp(-rates * load)
        else:
            pause += reached[0] * load
        is_lost = path.keeps == "stores" or (is_fragile and (path.joiners > 0 or not near))
        cost += path.chance * np.array([reached[1], pause, is_lost])
    return cost


def _detection(sources: Sequence[FailureSource], strikes: FloatArray, ends: float) -> list[float]:
    """Return the least mean time until failures of each source are known [s]; others end the wait at a rate [1/s]."""
    total = float(strikes.sum()) + ends
    if not 0 < total < math.inf:
        return [0.0] * len(sources)
    # Who notices the others, and when, is left open: they are known at once.
    races = [*(source.detection_race for source in sources), None]
    means = Unknown(races, [rate / total for rate in (*strikes, ends)]).means(total)
    return [real(mean) for mean in means[:-1]]


def _restart(prepared: Prepared, ends: float, load: float) -> FloatArray | None:
    """Return the least cost of Poisson failures; ``None`` where a job does not restart as a whole.

    Failures, those of them after which only the store outside the nodes is left [1/s], and the mean time from one to
    stepping [s], shape (3,). Others end the wait for detection at a rate `ends` [1/s]; a checkpoint is read in a `load`
    [s].
    """
    job, of_nodes, strategies = prepared.jobs[0], FailureRates.of(prepared), _strategies(prepared.recovery)
    sources = [source for source in prepared.sources if _is_poisson(source)]
    nodes = job.nodes, max(job.nodes - _MISSING, 0)
    strikes = np.array([[of_nodes.rate(source, number) for number in nodes] for source in sources]).reshape(-1, 2)
    rates: FloatArray = strikes.sum(axis=0)
    if not rates[0]:
        return np.zeros(3)

    @functools.cache
    def least_cost(hit: ExpectedFailure) -> FloatArray | None:
        ways = [strategy.returns(hit) for strategy in strategies]
        if None in ways:
            return None
        costs = np.array([_cost(way, job.checkpoint.rungs, load, rates) for way in ways if way is not None])
        return np.array([costs[:, 0].max(), *costs[:, 1:].min(axis=0)])

    total: FloatArray = np.zeros(3)
    for source, strike, detection in zip(sources, strikes[:, 0], _detection(sources, strikes[:, 0], ends), strict=True):
        cost = least_cost(ExpectedFailure(source.fault, job.gpus, job.nodes, int(takes_nodes(source))))
        if cost is None:
            return None
        total += strike * (cost + np.array((0.0, detection, 0.0)))
    survival, pause = total[:2] / rates[0]
    struck = (1 - survival) / rates[1] if rates[1] else 0.0
    restart = (pause + struck) / survival
    return None if _ends_sooner(prepared.recovery, restart) else np.array([rates[0], total[2], restart])


def _ends_sooner(recovery: AnyRecovery, restart: float) -> bool:
    """Return whether a ladder that is at its end may take less time than a mean restart [s]."""
    return isinstance(recovery, Ladder) and recovery.exhausted.mean_value * recovery.scale < restart


def _relaxed(prepared: Prepared) -> RelaxedJob:
    """Return the relaxed job of a scenario: one that never stops where its job is not rigid, or one of several."""
    if len(prepared.jobs) != 1 or prepared.has_queue:
        return RelaxedJob(prepared.horizon)
    job = prepared.jobs[0]
    ideal = RelaxedJob(prepared.horizon - job.arrival)
    remote = next(rung for rung in job.checkpoint.rungs if rung.store == "remote")
    unlike, rungs = _unlike(prepared.sources), job.checkpoint.rungs
    is_plain = len(rungs) == 1 and not (unlike or remote.skips or remote.staggers)
    load = remote.load if is_plain else 0.0
    is_rigid = not (prepared.recovery.elastic or prepared.recovery.narrows_on)
    cost = _restart(prepared, sum(map(_most_often, unlike)), load) if is_rigid else None
    if cost is None:
        return ideal
    rate, lasting, restart = cost.tolist()
    return ideal._replace(
        rate=rate,
        lasting=lasting,
        restart=restart,
        running=1 / (1 + rate * restart),
        reads=rate * load,
        interval=remote.interval,
        stall=remote.stall,
        drain=remote.drain,
        least_stall=min(rung.stall for rung in rungs),
        least_drain=min(rung.drain for rung in rungs),
        sooner=remote.staggers or any(map(_saves_ahead, unlike)),
        later=not is_plain,
        is_ideal=0.0,
    )


def relaxed_jobs(bases: Iterable[Prepared]) -> list[RelaxedJob]:
    """Return the relaxed job of each scenario; those that differ in no more than the layout of the job share one."""
    jobs: list[RelaxedJob] = []
    latest: dict[object, tuple[Prepared, RelaxedJob]] = {}
    for base in bases:
        key = base.recovery.use, base.nodes, [(job.nodes, job.checkpoint.interval) for job in base.jobs].__repr__()
        twin, relaxed = latest.get(key, (None, None))
        if twin is None or relaxed is None or not _differ_in_layout(base, twin):
            relaxed = _relaxed(base)
        latest[key] = base, relaxed
        jobs.append(relaxed)
    return jobs


def _differ_in_layout(base: Prepared, twin: Prepared) -> bool:
    """Return whether two scenarios of as many nodes differ in no more than the layout of their jobs."""
    ours, theirs = base.scenario, twin.scenario
    same_jobs = all(
        (job.gpus, job.arrival, job.checkpoint.rungs) == (rival.gpus, rival.arrival, rival.checkpoint.rungs)
        for job, rival in zip(base.jobs, twin.jobs, strict=True)
    )
    return same_jobs and all(getattr(ours, name) == getattr(theirs, name) for name in _SHARED)


_SHARED = sorted({*Scenario.model_fields} - {"jobs", "name", "description"})


def first_saves(interval: FloatArray, step: FloatArray) -> FloatArray:
    """Return how long jobs step from a start to their first saves [s]: whole steps, where their time is known."""
    return np.where(step > 0, np.ceil(interval / np.where(step > 0, step, 1.0) - TIE) * step, interval)
