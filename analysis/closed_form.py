"""What the closed form says of a scenario, beside what was simulated, as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.statistics import ratio_interval
from sim import closed_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.ensemble import Ensemble
    from sim import ClosedForm, Prepared

__all__ = ["describe_closed_form", "replays_a_log"]

_BUCKETS = ("lost_work", "detection", "restart", "checkpoint_stall")
"""Those that are always there; time that a job is starved of nodes is where it is known."""
_SAME = 1e-9
"""Standard error over the mean that is but the rounding of sums."""


def describe_closed_form(prepared: Prepared, simulated: Ensemble | None = None) -> dict[str, Any]:
    """Return the closed form of a scenario, ready for JSON; see docs/reference/json.md.

    Parameters
    ----------
    prepared
        The scenario.
    simulated
        Its replications, if there are any.
    """
    found = closed_form(prepared)
    return {
        "applies": not found.reasons,
        "reasons": list(found.reasons),
        "ettr": found.ettr,
        "form": found.form or None,
        "time_shares": found.shares,
        "assumptions": list(found.assumptions),
        "waste": _by_bucket(found.waste) if found.waste is not None else None,
        "waste_by_cause": _by_cause(found.waste) if found.waste is not None else None,
        "extrapolated": _extrapolated(found),
        "simulated": _simulated(simulated, found.ettr) if simulated is not None else None,
    }


def replays_a_log(prepared: Prepared) -> bool:
    """Return whether failures are those of a log: one history, however many replications there are of it."""
    return any(
        entry.use == "replay" and entry.spread_unknown == "once"  # type: ignore[attr-defined]
        for entry in prepared.scenario.failures
    )


def _by_bucket(waste: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the shares that are not productive by order and bucket, over all causes."""
    table: dict[str, dict[str, float]] = {}
    for order, causes in waste.items():
        row = table[order] = dict.fromkeys(_BUCKETS, 0.0)
        for buckets in causes.values():
            for name, value in buckets.items():
                row[name] = row.get(name, 0.0) + value
        row["total"] = sum(row.values())
    return table


def _by_cause(waste: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the same by order, cause and bucket, with the total of each cause."""
    return {
        order: {name: {**row, "total": sum(row.values())} for name, row in causes.items()}
        for order, causes in waste.items()
    }


def _extrapolated(found: ClosedForm) -> list[dict[str, Any]]:
    """Return the bundles whose rates were counted on jobs of other sizes."""
    return [
        {
            "bundle": row.bundle,
            "counted_on_gpus": list(row.counted),
            "job": row.job,
            "gpus": row.gpus,
            "ettr": row.linear,
            "ettr_superlinear": row.superlinear,
            "exponent": row.exponent,
        }
        for row in found.extrapolated
    ]


def _simulated(ensemble: Ensemble, formula: float | None) -> dict[str, Any]:
    """Return the simulated ETTR, and how far that of the formula is from it.

    There is no interval, and nothing is said of luck, where luck has no part in it or is not in the replications: where
    all of them come to the same, and where a log is replayed.
    """
    amounts, bases = (np.array([getattr(row["ettr"], name) for row in ensemble.rows]) for name in ("amount", "base"))
    total = float(bases.sum())
    mean = float(amounts.sum()) / total if total > 0 else None
    found = None if replays_a_log(ensemble.prepared) else ratio_interval(amounts, bases)
    interval = error = apart = outside = None
    if found is not None and mean is not None and found[2] - found[1] > _SAME * mean:
        interval = [max(found[1], 0.0), min(found[2], 1.0)]
        scatter = float(np.std(amounts - mean * bases, ddof=1))
        error = scatter / math.sqrt(len(amounts)) / float(bases.mean())
        if formula is not None:
            apart = (mean - formula) / error
            outside = max(interval[0] - formula, formula - interval[1], 0.0)
    return {
        "replications": len(ensemble.rows),
        "ettr": mean,
        "ettr_ci95": interval,
        "standard_error": error,
        "standard_errors_above": apart,
        "outside_ci95": outside,
    }
