"""The metrics of DESIGN by name: from amounts in results to ratios, and from replications to summaries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.statistics import Summary, summarise_ratio
from sim import Bucket, JobResult, Prepared, PreparedJob, Ratio, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DAY", "SHARES", "job_ratios", "ratios", "summaries"]

DAY = 86400.0

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
        "job_availability",
        "p_finish_by",
        "at_risk_at_end",
    }
)
"""Metrics that are shares; their precision is stated in points."""


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
    elapsed = job.end - job.arrival
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
        metrics["program_goodput"] = Ratio(plan.mfu * requested, requested)
        metrics["goodput"] = metrics["effective_mfu"] = Ratio(plan.mfu * productive, requested)
    if plan.tokens_per_second:
        metrics["tokens_per_day"] = Ratio(job.work * plan.tokens_per_second, elapsed / DAY)
    if math.isfinite(plan.target):
        # Unfinished is later than anything that was seen, not a number of its own.
        metrics["time_to_work"] = Ratio(elapsed if job.finished else math.inf, 1)
        if plan.deadline is not None:
            metrics["p_finish_by"] = Ratio(float(job.finished and elapsed <= plan.deadline), 1)
    return metrics


def ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of one replication, over all its jobs."""
    planned = [source.planned for source in prepared.sources]
    pooled: dict[str, Ratio] = {}
    for plan, job in zip(prepared.jobs, result.jobs, strict=True):
        for name, ratio in job_ratios(plan, job, planned).items():
            before = pooled.get(name, Ratio(0.0, 0.0))
            # Counts are per scenario: their base stays 1 however many jobs there are.
            counts = name.startswith(("interruptions", "disruptions"))
            pooled[name] = Ratio(before.amount + ratio.amount, 1.0 if counts else before.base + ratio.base)
    productive = sum(float(job.buckets[Bucket.PRODUCTIVE]) for job in result.jobs)
    pooled["cluster_goodput"] = Ratio(productive, result.owned)
    pooled["node_availability"] = Ratio(result.node_seconds - result.down_node_seconds, result.node_seconds)
    return pooled


def summaries(rows: Sequence[dict[str, Ratio]]) -> dict[str, Summary]:
    """Return the summary of each metric over replications; ratios are ratios of sums."""
    return {
        name: summarise_ratio([row[name].amount for row in rows], [row[name].base for row in rows])
        for name in (rows[0] if rows else ())
    }
