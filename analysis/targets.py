"""Targets: what is promised of a service or a job in each window of time, how often that is missed, what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.metrics import Slice, metrics_of
from ettrick.sim import JOB_BUCKETS, SCHEDULING, SERVICE_SUMS, Bucket, Ratio, window_width

if TYPE_CHECKING:
    import numpy.typing as npt

    from ettrick.sim import Prepared, Result, TargetPlan

    FloatArray = npt.NDArray[np.float64]

_WAITING = list(SCHEDULING)


class TargetResult(NamedTuple):
    """What a target came to in one replication.

    Parameters
    ----------
    amounts, bases, doubts
        Of each whole window in which anything was asked for: what was in the target, all of it, and how far the first
        may be off at 95 % by what all windows share; shape (n,).
    """

    amounts: FloatArray
    bases: FloatArray
    doubts: FloatArray


def target_ratios(prepared: Prepared, result: Result) -> dict[str, Ratio]:
    """Return the metrics of all targets together, and of each.

    Together the windows of all count alike, credits add up, and of budgets and worst windows the least is meant.
    """
    rows = {target.name: _metrics(target, kept(prepared, target, result)) for target in prepared.targets}
    found: dict[str, Ratio] = {}
    for name in metrics_of("target"):
        mine = [row[name] for row in rows.values() if name in row]
        if name in ("worst_window", "error_budget_left") and len(mine) > 1:
            shares = (Ratio(one.amount / one.base, 1, one.doubt / one.base) for one in mine if one.base)
            found[name] = min(shares, default=Ratio(0.0, 0.0))
        elif mine:
            base = 1.0 if name == "credits" else sum(one.base for one in mine)
            found[name] = Ratio(sum(one.amount for one in mine), base, sum(one.doubt for one in mine))
        found |= {Slice(name, "target", target).name: row[name] for target, row in rows.items() if name in row}
    return found


def kept(prepared: Prepared, target: TargetPlan, result: Result) -> TargetResult:
    """Return what a target came to, window by window; one that the run did not reach the end of is none."""
    columns = _asked(target, result)
    width = window_width(prepared.horizon, prepared.windows)
    whole = int(np.sum(np.diff(result.edges) >= width * (1 - 1e-9))) // target.windows
    sums = [row[: whole * target.windows].reshape(whole, target.windows).sum(axis=1) for row in columns]
    asked = sums[1] > 0
    return TargetResult(*(row[asked] for row in sums))


def _asked(target: TargetPlan, result: Result) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what there was of the metric of a target, all that was asked for, and the doubt, by window."""
    fleet = result.fleet
    if target.kind == "services":
        sums = dict(zip(SERVICE_SUMS, fleet.services[target.place].T, strict=True))
        offered, seconds = sums["offered"], sums["seconds"]
        sure = np.zeros(len(offered))
        return {
            "slo_attainment": (sums["in_slo"], offered, sums["unsure"]),
            "served_share": (sums["served"], offered, sure),
            "capacity_availability": (seconds - sums["below"], seconds, sure),
        }[target.metric]
    if target.kind == "jobs":
        totals = result.jobs[target.place].totals
        buckets = np.zeros((len(result.edges) - 1, len(JOB_BUCKETS)))
        buckets[: len(totals)] = totals[:, : len(JOB_BUCKETS)].sum(axis=2)
    else:
        buckets = np.zeros((len(fleet.seconds), len(JOB_BUCKETS)))
        for key, row in fleet.ledger.items():
            if key.account.stream == target.place:
                buckets[:, key.bucket] += row
    requested, waiting = buckets.sum(axis=1), buckets[:, _WAITING].sum(axis=1)
    productive, sure = buckets[:, Bucket.PRODUCTIVE], np.zeros(len(requested))
    return {
        "ettr": (productive, requested, sure),
        "scheduling_goodput": (requested - waiting, requested, sure),
        "runtime_goodput": (productive, requested - waiting, sure),
    }[target.metric]


def _metrics(target: TargetPlan, found: TargetResult) -> dict[str, Ratio]:
    """Return the metrics of a target in one replication, as far off as the amounts of all windows together may be."""
    stated = _of_windows(target, found.amounts, found.bases)
    if not found.doubts.any():
        return stated
    less, more = (
        _of_windows(target, np.clip(found.amounts + sign * found.doubts, 0, found.bases), found.bases)
        for sign in (-1, 1)
    )
    return {
        name: ratio._replace(doubt=max(abs(end[name].amount - ratio.amount) for end in (less, more)))
        for name, ratio in stated.items()
    }


def _of_windows(target: TargetPlan, amounts: FloatArray, bases: FloatArray) -> dict[str, Ratio]:
    """Return the metrics of a target in one replication; over nothing where no whole window has what was asked for."""
    count, values = len(bases), amounts / bases
    budget = (1 - target.least) * float(bases.sum())
    missed = float(bases.sum() - amounts.sum())
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
