"""Targets: what is promised of a service or a job in each window of time, how often that is missed, what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.fleet import OF_TARGETS, Slice
from sim import JOB_BUCKETS, SERVICE_SUMS, Bucket, Ratio, window_edges

if TYPE_CHECKING:
    import numpy.typing as npt

    from sim import Prepared, Result, TargetPlan

    FloatArray = npt.NDArray[np.float64]

_WAITING = [Bucket.QUEUED, Bucket.STARVED, Bucket.RESCHEDULE]


class Kept(NamedTuple):
    """What a target came to in one replication.

    Parameters
    ----------
    amounts, bases
        Of each whole window in which anything was asked for: what was in the target, and all of it; shape (n,).
    """

    amounts: FloatArray
    bases: FloatArray


def target_ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of all targets together, and of each.

    Together the windows of all count alike, credits add up, and of budgets and worst windows the least is meant.
    """
    rows = {target.name: _metrics(target, kept(prepared, target, result)) for target in prepared.targets}
    found: dict[str, Ratio] = {}
    for name in OF_TARGETS:
        mine = [row[name] for row in rows.values() if name in row]
        if name in ("worst_window", "error_budget_left") and len(mine) > 1:
            found[name] = min((Ratio(one.amount / one.base, 1) for one in mine if one.base), default=Ratio(0.0, 0.0))
        elif mine:
            base = 1.0 if name == "credits" else sum(one.base for one in mine)
            found[name] = Ratio(sum(one.amount for one in mine), base)
        found |= {Slice(name, "target", target).name: row[name] for target, row in rows.items() if name in row}
    return found


def kept(prepared: Prepared, target: TargetPlan, result: Result) -> Kept:
    """Return what a target came to, window by window; one that the run did not reach the end of is none."""
    amounts, bases = _asked(target, result)
    whole = int(np.sum(np.diff(result.edges) >= window_width(prepared) * (1 - 1e-9))) // target.windows
    sums = [row[: whole * target.windows].reshape(whole, target.windows).sum(axis=1) for row in (amounts, bases)]
    asked = sums[1] > 0
    return Kept(sums[0][asked], sums[1][asked])


def window_width(prepared: Prepared) -> float:
    """Return the width of the windows of results [s]; those of services are never wider than a 120th of the horizon."""
    first, second = window_edges(prepared.warmup, prepared.horizon, prepared.windows)[:2]
    return second - first


def _asked(target: TargetPlan, result: Result) -> tuple[FloatArray, FloatArray]:
    """Return what there was of the metric of a target, and all that was asked for, by window of the result."""
    fleet = result.fleet
    if target.kind == "services":
        assert fleet is not None, "services have one"
        sums = dict(zip(SERVICE_SUMS, fleet.services[target.place].T, strict=True))
        offered, seconds = sums["offered"], sums["seconds"]
        return {
            "slo_attainment": (sums["in_slo"], offered),
            "served_share": (offered - sums["rejected"] - sums["failed"], offered),
            "capacity_availability": (seconds - sums["below"], seconds),
        }[target.metric]
    if target.kind == "jobs":
        totals = result.jobs[target.place].totals
        buckets = np.zeros((len(result.edges) - 1, len(JOB_BUCKETS)))
        buckets[: len(totals)] = totals[:, : len(JOB_BUCKETS)].sum(axis=2)
    else:
        assert fleet is not None, "streams have one"
        buckets = np.zeros((len(fleet.seconds), len(JOB_BUCKETS)))
        for key, row in fleet.ledger.items():
            if key.account.stream == target.place:
                buckets[:, key.bucket] += row
    requested, waiting = buckets.sum(axis=1), buckets[:, _WAITING].sum(axis=1)
    productive = buckets[:, Bucket.PRODUCTIVE]
    return {
        "ettr": (productive, requested),
        "scheduling_goodput": (requested - waiting, requested),
        "runtime_goodput": (productive, requested - waiting),
    }[target.metric]


def _metrics(target: TargetPlan, found: Kept) -> dict[str, Ratio]:
    """Return the metrics of a target in one replication; over nothing where no whole window has what was asked for."""
    count, values = len(found.bases), found.amounts / found.bases
    budget = (1 - target.least) * float(found.bases.sum())
    missed = float(found.bases.sum() - found.amounts.sum())
    metrics = {
        "missed_windows": Ratio(float(np.count_nonzero(values < target.least)), count),
        "worst_window": Ratio(float(values.min(initial=1.0)), min(count, 1)),
        "error_budget_left": Ratio(budget - missed, budget),
    }
    if target.credits:
        shares = np.max([np.where(values < below, share, 0.0) for below, share in target.credits], axis=0)
        metrics["credit_share"] = Ratio(float(shares.sum()), count)
        if target.bill is not None:
            metrics["credits"] = Ratio(float(shares.sum()) * target.bill, 1)
    return metrics
