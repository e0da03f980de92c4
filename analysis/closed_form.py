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

__all__ = ["describe_closed_form"]


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
        "ettr": found.ettr,
        "form": found.form or None,
        "time_shares": found.shares,
        "assumptions": list(found.assumptions),
        "waste": _by_bucket(found.waste) if found.waste is not None else None,
        "waste_by_cause": _by_cause(found.waste) if found.waste is not None else None,
        "extrapolated": _extrapolated(found),
        "simulated": _simulated(simulated, found.ettr) if simulated is not None else None,
    }


def _by_bucket(waste: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the shares that are not productive by order and bucket, over all causes."""
    table: dict[str, dict[str, float]] = {}
    for order, causes in waste.items():
        row = table[order] = dict.fromkeys(("lost_work", "detection", "restart", "checkpoint_stall"), 0.0)
        for buckets in causes.values():
            for name, value in buckets.items():
                row[name] += value
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
    """Return the simulated ETTR, and how many standard errors it is above that of the formula."""
    amounts, bases = (np.array([getattr(row["ettr"], name) for row in ensemble.rows]) for name in ("amount", "base"))
    interval = ratio_interval(amounts, bases)
    total = float(bases.sum())
    mean = float(amounts.sum()) / total if total > 0 else None
    error = apart = None
    if interval is not None and mean is not None:
        scatter = float(np.std(amounts - mean * bases, ddof=1))
        error = scatter / math.sqrt(len(amounts)) / float(bases.mean())
        apart = (mean - formula) / error if formula is not None and error > 0 else None
    return {
        "replications": len(ensemble.rows),
        "ettr": mean,
        "ettr_ci95": list(interval[1:]) if interval is not None else None,
        "standard_error": error,
        "standard_errors_above": apart,
    }
