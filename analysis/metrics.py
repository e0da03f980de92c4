"""The metrics of DESIGN by name: from amounts in results to ratios, and from replications to summaries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.spending import spending
from analysis.statistics import Summary, summarise_ratio
from sim import JOB_BUCKETS, Bucket, JobResult, Prepared, PreparedJob, Ratio, Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

__all__ = [
    "METRICS",
    "SHARES",
    "contributions",
    "job_ratios",
    "lower_bound",
    "lower_is_better",
    "means",
    "ratios",
    "summaries",
    "time_shares",
]

_DAY = 86400.0

SHARES = frozenset(
    {
        "ettr",
        "ettr_no_queue",
        "scheduling_goodput",
        "runtime_goodput",
        "program_goodput",
        "goodput",
        "effective_mfu",
        "cluster_goodput",
        "node_availability",
        "domain_availability",
        "job_availability",
        "p_finish_by",
        "at_risk_at_end",
    }
)
"""Metrics that are shares; their precision is stated in points."""

_LOWER = (
    "at_risk_at_end",
    "cost",
    "cost_per_token",
    "disruptions",
    "energy",
    "energy_per_token",
    "interruptions",
    "interruptions_planned",
    "interruptions_unplanned",
    "time_to_work",
)
_TIME_SHARE = "time_shares."

METRICS = (
    "ettr",
    "ettr_no_queue",
    "scheduling_goodput",
    "runtime_goodput",
    "program_goodput",
    "goodput",
    "effective_mfu",
    "cluster_goodput",
    "job_availability",
    "node_availability",
    "domain_availability",
    "interruptions",
    "interruptions_planned",
    "interruptions_unplanned",
    "disruptions",
    "mtti",
    "mtti_running",
    "at_risk_at_end",
    "tokens_per_day",
    "tokens_per_gpu_day",
    "tokens_per_mw_day",
    "steps_per_day",
    "time_to_work",
    "p_finish_by",
    "energy",
    "energy_per_token",
    "cost",
    "cost_per_token",
    *(f"{_TIME_SHARE}{bucket}" for bucket in JOB_BUCKETS),
)
"""Every metric that a scenario may have."""

_OF_ALL_JOBS = frozenset({"program_goodput", "goodput", "effective_mfu", "tokens_per_day", "steps_per_day"})
"""Metrics that say nothing about a scenario unless every job has them."""


def job_ratios(plan: PreparedJob, job: JobResult, causes: Sequence[bool]) -> dict[str, Ratio]:
    """Return the metrics of one job in one replication.

    Parameters
    ----------
    plan, job
        What was asked for, and what came of it.
    causes
        For each source, whether its interruptions are planned.

    Returns
    -------
    dict
        An amount and a base for each metric; bases add up over jobs and replications.
    """
    requested, productive = job.requested, float(job.buckets[Bucket.PRODUCTIVE])
    scheduling = job.waiting_for_nodes
    queued = float(job.buckets[Bucket.QUEUED])
    hits = sum(job.interruptions.values())
    planned = sum(count for cause, count in job.interruptions.items() if causes[cause - 1])
    # A job that arrives after the horizon is neither there nor late.
    since_arrival = max(job.end - job.arrival, 0.0)
    metrics = {
        "ettr": Ratio(productive, requested),
        "ettr_no_queue": Ratio(productive, requested - queued),
        "scheduling_goodput": Ratio(requested - scheduling, requested),
        "runtime_goodput": Ratio(productive, requested - scheduling),
        "job_availability": Ratio(job.running, job.elapsed),
        "at_risk_at_end": Ratio(job.at_risk * job.gpus, requested),
        "interruptions": Ratio(hits, 1),
        "interruptions_planned": Ratio(planned, 1),
        "interruptions_unplanned": Ratio(hits - planned, 1),
        "disruptions": Ratio(sum(job.disruptions.values()), 1),
        "mtti": Ratio(job.elapsed, hits),
        "mtti_running": Ratio(job.running, hits),
    }
    if plan.mfu is not None:
        # Weighed by productive time, so that goodput is ettr times this over several jobs too.
        metrics["program_goodput"] = Ratio(plan.mfu * productive, productive)
        metrics["goodput"] = metrics["effective_mfu"] = Ratio(plan.mfu * productive, requested)
    if plan.tokens_per_second:
        metrics["tokens_per_day"] = Ratio(job.work * plan.tokens_per_second, since_arrival / _DAY)
    if plan.step_time > 0:
        metrics["steps_per_day"] = Ratio(job.steps, since_arrival / _DAY)
    if math.isfinite(plan.target):
        # Unfinished is later than anything that was seen, not a number of its own.
        metrics["time_to_work"] = Ratio(since_arrival if job.finished else math.inf, 1)
        if plan.deadline is not None:
            metrics["p_finish_by"] = Ratio(float(job.finished and since_arrival <= plan.deadline), 1)
    return metrics


def ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of one replication, over all its jobs.

    Amounts and bases are summed over the jobs, with two exceptions: counts stay counts of the scenario, and tokens and
    steps per day are those of all jobs in the time from the first arrival to the last end. Energy and cost are those of
    the cluster.
    """
    planned = [source.planned for source in prepared.sources]
    jobs = [job_ratios(plan, job, planned) for plan, job in zip(prepared.jobs, result.jobs, strict=True)]
    pooled: dict[str, Ratio] = {}
    for name in dict.fromkeys(name for row in jobs for name in row):
        mine = [row[name] for row in jobs if name in row]
        if name in _OF_ALL_JOBS and len(mine) < len(jobs):
            continue
        is_count = name.startswith(("interruptions", "disruptions"))
        base = 1.0 if is_count else sum(ratio.base for ratio in mine)
        pooled[name] = Ratio(sum(ratio.amount for ratio in mine), base)
    for name in ("tokens_per_day", "steps_per_day"):
        if name not in pooled:
            continue
        span = max(job.end for job in result.jobs) - min(job.arrival for job in result.jobs)
        pooled[name] = Ratio(pooled[name].amount, max(span, 0.0) / _DAY)
    productive = sum(float(job.buckets[Bucket.PRODUCTIVE]) for job in result.jobs)
    pooled["cluster_goodput"] = Ratio(productive, result.capacity)
    pooled["node_availability"] = Ratio(result.node_seconds - result.down_node_seconds, result.node_seconds)
    if result.unit_seconds:
        pooled["domain_availability"] = Ratio(result.whole_unit_seconds, result.unit_seconds)
    return pooled | spending(prepared, result)


def time_shares(result: Result) -> dict[str, Ratio]:
    """Return the share of the jobs' requested GPU-time in each bucket, as metrics ``time_shares.<bucket>``."""
    requested = sum(job.requested for job in result.jobs)
    spent = np.sum([job.buckets for job in result.jobs], axis=0).tolist()
    return {f"{_TIME_SHARE}{name}": Ratio(time, requested) for name, time in zip(JOB_BUCKETS, spent, strict=True)}


def lower_is_better(metric: str) -> bool:
    """Return whether of two values of a metric the lower one is the better."""
    return metric in _LOWER or (metric.startswith(_TIME_SHARE) and metric != f"{_TIME_SHARE}productive")


def summaries(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, Summary]:
    """Return the summary of each metric over replications; ratios are ratios of sums."""
    return {name: summarise_ratio(*_columns(rows, name)) for name in (rows[0] if rows else ())}


def means(rows: Sequence[Mapping[str, Ratio]]) -> dict[str, float | None]:
    """Return the mean of each metric as in `summaries`, without the rest."""
    found: dict[str, float | None] = {}
    for name in rows[0] if rows else ():
        amount, base = map(sum, _columns(rows, name))
        found[name] = amount / base if base and math.isfinite(amount) else None
    return found


def contributions(ratios: Sequence[Ratio]) -> npt.NDArray[np.float64] | None:
    """Return what each replication contributes to a ratio of sums, shape (n,); their mean is that ratio.

    ``None`` with nothing in the denominators, or an infinite amount.
    """
    amounts, bases = np.array(ratios, dtype=np.float64).reshape(-1, 2).T
    base = float(bases.mean()) if len(bases) else 0.0
    if not (np.all(np.isfinite(amounts)) and base):
        return None
    if np.all(bases == bases[0]):
        return amounts / base  # not the same to the last bit, and it is what the docstring says
    ratio = float(amounts.mean()) / base
    found: npt.NDArray[np.float64] = ratio + (amounts - ratio * bases) / base
    return found


def lower_bound(rows: Sequence[Mapping[str, Ratio]], name: str) -> float | None:
    """Return what a time between events is longer than, at 95 % confidence, when no event was seen [s].

    No event in a time T has a probability of exp(-T / mean): 5 % for a mean of ``T / ln 20``, about a third of T.

    Returns
    -------
    float or None
        ``None`` when there were events (the mean says more), or no time in which to see one.
    """
    amount, base = map(sum, _columns(rows, name))
    return amount / math.log(20) if amount and not base else None


def _columns(rows: Sequence[Mapping[str, Ratio]], name: str) -> tuple[list[float], list[float]]:
    """Return the amounts and the bases of a metric, one of each per replication."""
    return [row[name].amount for row in rows], [row[name].base for row in rows]
