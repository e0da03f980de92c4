"""The bounds of the loss by causes whose failures are not independent or not at a constant rate.

A form counts each cause at its mean rate. `unknown_costs` yields what each cause may take in addition to that: by how
much its strikes in the time that is simulated differ (`_miscount`), and what they cost in a way that no form has
(`_more`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ettrick.sim.closed_form.elastic import takes_nodes
from ettrick.sim.failures.source import OF_ONE_NODE
from ettrick.sim.policies.recovery.base import ExpectedFailure
from ettrick.sim.policies.recovery.phases import longest
from ettrick.sim.prepare.failures import FailureRates
from ettrick.sim.steps import Impairment, stated_pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.failures import FailureSource, Rollout
    from ettrick.sim.failures.source import OutageLog
    from ettrick.sim.scenario.law_model import LawModel

_Key = TypeVar("_Key")

_GRID = 400

"""Points at which expected renewals are worked out."""

_LONG = 20.0

"""Mean lives after which the expected renewals are those of the long run."""


def unknown_costs(prepared: Prepared, job: PreparedJob) -> Iterator[tuple[str, float]]:
    """Yield which causes strike in a way that the form does not know, and the most that each may take of a job [-]."""
    restarts: dict[tuple[str, bool], float] = {}
    for source in prepared.sources:
        strikes = strikes_of(prepared, job, source)
        # Restarts differ by no more of a cause than this.
        kind = source.fault, _takes_many(source)
        if kind not in restarts:
            restarts[kind] = restart_mean(prepared, job, source)
        cost = _cost_of_a_strike(job, source) + restarts[kind]
        seconds = _miscount(prepared, job, source, strikes, cost) + _more(prepared, job, source, strikes, cost)
        share = seconds / prepared.horizon
        if share > 0:
            yield f"{source.name} ({_manner(source)})", min(share, 1.0)


def weighted(jobs: Sequence[PreparedJob], shares: Iterable[Iterable[tuple[_Key, float]]]) -> dict[_Key, float]:
    """Return the shares of all jobs by key, those of one weighted by its GPUs and those of one key added up [-]."""
    total: dict[_Key, float] = {}
    gpus = sum(job.gpus for job in jobs)
    for job, of_job in zip(jobs, shares, strict=True):
        for key, share in of_job:
            total[key] = total.get(key, 0.0) + share * job.gpus / gpus
    return total


def strikes_of(prepared: Prepared, job: PreparedJob, source: FailureSource) -> float:
    """Return how often the form lets a cause strike a job in the time that is simulated [-]."""
    return prepared.horizon / FailureRates.of(prepared).interrupts([source], job.nodes)[0]


def _cost_of_a_strike(job: PreparedJob, source: FailureSource) -> float:
    """Return about how much time one strike takes from a job [s]: detection, the work since a save, and the restore."""
    race = source.detection_race
    detection = 0.0 if race is None or source.saves else race.mean_value
    rung = next(rung for rung in job.checkpoint.rungs if rung.store == "remote")
    lost = job.checkpoint.save_time() if source.saves else rung.period(job.step_time) / 2 + rung.drain
    return detection + lost + rung.load


def restart_mean(prepared: Prepared, job: PreparedJob, source: FailureSource | None = None) -> float:
    """Return the mean time of a restart of all of a job, its restore left out [s]; without a source, of a start."""
    absence = prepared.recovery.absence_for(job.gpus, job.nodes, job.parts)
    if absence is not None:
        return max(absence.restart, absence.stall + absence.rejoin)
    hit = ExpectedFailure(source.fault if source is not None else "process", job.gpus, job.nodes, 1)
    backs = prepared.recovery.returns(hit) or ()
    # A standby selects hosts at the start, and where many leave at once hot spares are too few.
    many = source is None or _takes_many(source)
    selection = getattr(prepared.recovery, "selection", None) if many else None
    selecting = selection.mean_value * prepared.recovery.scale if selection is not None else 0.0
    return selecting + sum(back.chance * sum(span.mean for span in back.spans) for back in backs)


def _takes_many(source: FailureSource) -> bool:
    """Return whether many nodes may leave a job at once, as a rollout or a log says."""
    return source.rollout is not None or source.recorded is not None


def _manner(source: FailureSource) -> str:
    """Return how a cause strikes, in a word."""
    return next(
        word
        for word, holds in (
            ("a rollout", source.rollout is not None),
            ("a bug", source.fix is not None),
            ("a log or a window", source.recorded is not None),
            ("faults that stay hidden", source.hidden is not None),
            ("relapses", source.residue is not None),
            ("units that differ", bool(source.variety)),
            ("a hazard that changes", source.tempo is not None or source.thinned),
            ("no second life", source.renews == "never"),
            ("faults that heal", source.effect.heal is not None),
            ("lost bandwidth", source.of_fabric and source.cuts < 1),
            ("lives that age", source.law is not None and not source.law.memoryless),
            ("several nodes at once", True),
        )
        if holds
    )


# How many strikes more or fewer.


def _miscount(prepared: Prepared, job: PreparedJob, source: FailureSource, strikes: float, cost: float) -> float:
    """Return what the strikes cost that a cause has more, or fewer, than at a constant rate [s]."""
    if source.recorded is not None:
        return _miscount_of_log(prepared, job, source, source.recorded, (strikes, cost))
    if source.law is None or source.effect.heal is not None:
        return strikes * cost
    if source.hidden is not None:
        return strikes * cost / 2  # few nodes have most of them, and early
    ratio = _ratio_in_time(prepared, source, source.law) * _ratio_of_units(prepared, job, source)
    miscount = _doubt(prepared, job, source, ratio, strikes * cost) * strikes * cost
    if not source.law.memoryless and _units_of(prepared, job, source) < 3:
        # Lives of one part that are as long as a few saves end in their rhythm.
        period = job.checkpoint.rungs[0].period(job.step_time)
        miscount += strikes * min(period / 2, cost) * min(period / source.law.mean_value, 1.0)
    return miscount


def _doubt(prepared: Prepared, job: PreparedJob, source: FailureSource, ratio: float, cost: float) -> float:
    """Return by how much the strikes of a cause may be more or fewer, relative to those that cost so much [s].

    `ratio` is that of its strikes to those at a constant rate on its share of the units [-].
    """
    doubt = abs(ratio - 1)
    if source.variety:
        doubt += 2 / math.sqrt(max(_units_of(prepared, job, source), 1.0))
    if source.residue is not None:
        left = source.residue.probability
        doubt += 1 - prepared.repair.success if left is None else left
    if source.thinned or source.tempo is not None:
        doubt += source.ceiling - 1 + min(cost / prepared.horizon, 1.0)
    by_node = source.slots_per_node or source.part == "job"
    if prepared.recovery.elastic and (not by_node or source.saves or source.recall or prepared.units is not None):
        doubt += 1.0  # several replicas are away at once, or it is known before
    return doubt


def _units_of(prepared: Prepared, job: PreparedJob, source: FailureSource) -> float:
    """Return the units of a cause that a job has [-]."""
    return 1.0 if source.part == "job" else source.units * job.nodes / prepared.nodes


def _ratio_in_time(prepared: Prepared, source: FailureSource, law: LawModel) -> float:
    """Return the expected lives that end in the time that is simulated over those at a constant rate [-]."""
    begin, end = prepared.warmup, prepared.warmup + prepared.horizon
    if source.part == "job":
        begin, end = 0.0, prepared.horizon
    renewals = prepared.horizon / law.mean_value
    if source.renews == "never":
        return float(np.diff(law.cdf(np.array([begin, end])))[0]) / renewals
    if source.renews == "at_return" and source.repair is not None:
        return 1 / (1 + source.repair.mean_value / law.mean_value)
    if law.memoryless or prepared.stationary:
        return 1.0
    return (expected_renewals(law, end) - expected_renewals(law, begin)) / renewals


def expected_renewals(law: LawModel, time: float) -> float:
    r"""Return how many lives of a law are expected to end by a time, the first having begun at zero [-].

    .. math:: M(t) = F(t) + \int_0^t M(t - s)\, dF(s)

    by steps (the mean of an upper and a lower sum), and :math:`t / \mu` beyond `_LONG` means.

    References
    ----------
    D. R. Cox, Renewal Theory, 1962.
    """
    if time <= 0:
        return 0.0
    if time > _LONG * law.mean_value:
        return time / law.mean_value
    below = law.cdf(np.linspace(0.0, time, _GRID + 1))
    jumps = np.diff(below)
    renewals = np.zeros(_GRID + 1)
    for index in range(1, _GRID + 1):
        # A life that ended within a step leaves what is left of the time, and up to a step more.
        less, more = renewals[:index][::-1], renewals[1 : index + 1][::-1]
        renewals[index] = (below[index] + float(jumps[:index] @ (less + more)) / 2) / (1 - jumps[0] / 2)
    return float(renewals[-1])


def _ratio_of_units(prepared: Prepared, job: PreparedJob, source: FailureSource) -> float:
    """Return how many units of a shared part have nodes of a job, over its share of all [-]: it has the first nodes."""
    offsets, nodes = prepared.blast.get(source.part, (np.zeros(1), np.zeros(0)))
    if source.part in (*OF_ONE_NODE, "job", "cluster") or source.of_fabric or not len(nodes):
        return 1.0
    seats = list(range(job.nodes))
    if prepared.units is not None:
        wholes, needed = prepared.units.nodes, prepared.units.needed
        seats = [node for unit in wholes for node in unit[:needed]][: job.nodes]
    units = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    touched = len(np.unique(units[np.isin(nodes, seats)]))
    return touched / (len(offsets) - 1) * prepared.nodes / job.nodes


def _miscount_of_log(
    prepared: Prepared, job: PreparedJob, source: FailureSource, log: OutageLog, expected: tuple[float, float]
) -> float:
    """Return what it costs that rows of a log come together, and that which of them hit a job is one draw [s].

    `expected` are the strikes by the form [-], and what one costs [s].
    """
    strikes, cost = expected
    begin = prepared.warmup
    in_time = (log.start >= begin) & (log.start < begin + prepared.horizon)
    starts = log.start[in_time]
    part = min(job.nodes / prepared.nodes, 1.0)
    together = float((np.diff(np.sort(starts)) < cost).sum()) * part**2
    by_chance = math.sqrt(len(starts) * part * (1 - part))
    if source.planned and len(starts):
        by_chance = len(starts) * max(part, 1 - part)  # who is in a window is known, and not asked
    surplus, behind = prepared.nodes - job.nodes, prepared.nodes / max(source.units, 1)
    away = 0.0
    if len(starts) and (behind > surplus or source.part == "cluster"):
        away = float((log.end - log.start)[in_time].sum())
    return (together + by_chance + abs(strikes - part * len(starts))) * cost + away


# What strikes cost in addition to a restart.


def _more(prepared: Prepared, job: PreparedJob, source: FailureSource, strikes: float, cost: float) -> float:
    """Return what a cause costs that no form has [s]."""
    if source.rollout is not None:
        return _of_rollout(prepared, job, source.rollout, cost)
    if source.fix is not None and source.law is not None:
        # It strikes again at the same step until it is mended.
        return strikes * (source.fix.mean_value + (cost if source.fix.mean_value else 0.0))
    repair = source.repair.mean_value if source.repair is not None else 0.0
    if source.of_fabric and source.cuts < 1:
        waits = job.communication if job.communication is not None else float(job.plan is not None)
        return source.rate * (1 - source.cuts) * repair * waits * prepared.horizon
    if source.defer and prepared.recovery.has_unexposed_phases:
        return strikes * cost * min(strikes * cost / prepared.horizon, 1.0)
    return 0.0


def _of_rollout(prepared: Prepared, job: PreparedJob, rollout: Rollout, cost: float) -> float:
    """Return what a rollout costs a job at most [s]: a stop for each batch that is changed in the time simulated."""
    length = prepared.warmup + prepared.horizon - rollout.start
    changed = min(prepared.nodes, max(math.ceil(rollout.nodes_per_day * length / 86400), 0))
    batches = math.ceil(changed / rollout.batch)
    if rollout.mode == "at_interruption":
        return min(batches, prepared.horizon / job.mtti) * rollout.duration
    short = prepared.nodes - job.nodes < rollout.batch
    return batches * (cost + (rollout.duration if short else 0.0))


# What a job loses where its nodes are slower, or farther from one another, than its plan has them.


def pace_where_placed(prepared: Prepared, job: PreparedJob) -> float:
    """Return the pace of a job on the nodes that it may have, relative to its plan [-].

    It has the first nodes after those of the jobs before it; where failures take nodes, or others are picked, any.
    """
    network = prepared.network
    if network is None:
        return 1.0
    seats = _seats_of(prepared, job, min(prepared.nodes, len(network.pool_of_node)))
    pools = {network.pool_of_node[node] for node in seats}
    classes = np.unique(np.asarray(network.class_of_node)[seats.start : seats.stop])
    pods = np.unique(network.pod_of_class[classes])
    level = "leaf" if len(classes) == 1 else "pod" if len(pods) == 1 else "cluster"
    bandwidth = min(network.bandwidth[level] / job.planned_bandwidth, 1.0)
    pace = min(job.pool_paces[pool] for pool in pools) if len(job.pool_paces) > 1 else 1.0
    if job.communication is None and job.plan is not None:
        return min(pace, job.plan.pace(Impairment(network=bandwidth)), 1.0)
    return min(pace, stated_pace(job.communication or 0.0, bandwidth), 1.0)


def _seats_of(prepared: Prepared, job: PreparedJob, nodes: int) -> range:
    """Return which of the first nodes a job may have: where failures take none and none is picked, the first free.

    A size at which the job is only asked about may have more nodes than its fabric: those of the fabric are all it has.
    """
    first = sum(earlier.nodes for earlier in prepared.jobs[: prepared.jobs.index(job)])
    seats = range(first, min(first + job.nodes, nodes))
    rates = FailureRates.of(prepared)
    moves = any(rates.rate(source, job.nodes) for source in prepared.sources if takes_nodes(source))
    return range(nodes) if moves or prepared.scheduler.pick != "lowest" or not seats else seats


# How often too few nodes are left, where failures take several.


def down_at_once(prepared: Prepared, sources: Sequence[FailureSource], surplus: int) -> float:
    """Return the probability that failures of several nodes keep more nodes than the `surplus` in repair [-].

    Each cause has a Poisson number of units in repair (Palm), and they are independent.
    """
    law = np.zeros(surplus + 1)
    law[0] = 1.0
    for source in sources:
        repair, blast = source.repair, source.blast
        if repair is None or source.recorded is not None or source.detection_race is None or not source.rate:
            continue
        size = 1 if source.slots_per_node or source.part == "node" else max(round(_size(prepared, source)), 1)
        by_node = blast is not None and blast.repair == "nodes"
        seconds = longest(repair, size) if by_node else repair.mean_value
        mean = source.rate * source.interrupts * source.cuts * min(seconds, prepared.horizon)
        if not mean:
            continue
        most = surplus // size
        counts = np.zeros(surplus + 1)
        weights = np.array([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most + 1)])
        counts[: most * size + 1 : size] = weights
        law = np.convolve(law, counts)[: surplus + 1]
    return float(max(1 - law.sum(), 0.0))


def _size(prepared: Prepared, source: FailureSource) -> float:
    """Return the mean number of nodes that a failure takes [-]."""
    return prepared.nodes / source.units if source.blast is None else source.blast.mean_size
