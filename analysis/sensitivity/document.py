"""The JSON document of a study's sensitivity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.paired import difference_data
from analysis.provenance import provenance
from analysis.statistics import summarise_ratio

if TYPE_CHECKING:
    from analysis.sensitivity.jackknife import Estimate
    from analysis.sensitivity.sobol import Index, Indices
    from analysis.sensitivity.study import Sensitivity
    from analysis.sensitivity.tornado import Move, Swing

__all__ = ["sensitivity_document"]


def sensitivity_document(found: Sensitivity, *, command: str) -> dict[str, Any]:
    """Return the document as plain data; see docs/reference/json.md.

    Parameters
    ----------
    found
        What `analysis.sensitivity.study.sensitivity` returned.
    command
        The command, to be typed again.
    """
    study, center = found.loaded.study, found.center
    ratios = center.metrics[found.metric]
    known = summarise_ratio([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    names = list(study.vary)
    return {
        "study": study.name,
        "question": study.question,
        "scenario": study.scenario,
        "metric": found.metric,
        "replications": found.replications,
        "seed": found.loaded.scenario(center.point).seed,
        "axes": {
            name: {
                "title": axis.title or name,
                "unknown": axis.is_uncertain,
                "basis": axis.basis,
                "source": axis.source,
            }
            for name, axis in study.vary.items()
        },
        "center": {
            "values": {name: value.label for name, value in zip(names, center.point.values, strict=True)},
            "mean": known.mean,
            "ci95": known.mean_ci95,
            "closed_form": center.formula if found.metric == "ettr" else None,
        },
        "low": found.low,
        "tornado": None if found.tornado is None else [_swing(swing) for swing in found.tornado.swings],
        "indices": None if found.indices is None else _indices(found.indices, found.samples),
        "indices_missing": found.missing,
        "assumptions": list(study.assumptions),
        "warnings": list(center.warnings),
        "provenance": provenance(command) | {"scenario_sha256": found.loaded.digest},
    }


def _swing(swing: Swing) -> dict[str, Any]:
    """Return what an axis alone does as plain data."""
    return {
        "axis": swing.axis,
        "center": swing.center.label,
        "swing": swing.size,
        "resolved": swing.is_resolved,
        "replications_to_resolve": swing.replications_to_resolve,
        "moves": [_move(move) for move in swing.moves],
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "label": move.value.label,
        "number": move.value.number,
        "change": difference_data(move.change),
        "closed_form": move.closed_form,
        "trouble": move.trouble,
    }


def _indices(found: Indices, samples: int) -> dict[str, Any]:
    """Return what brings the variance as plain data."""
    return {
        "samples": samples,
        "rows": found.rows,
        "left_out": found.left_out,
        "why_left_out": found.why_left_out,
        "mean": found.mean,
        "variance": {
            name: {
                "variance": getattr(found.parts, name),
                "share": None if found.shares is None else _estimate(found.shares[name]),
            }
            for name in found.parts._fields
        },
        "noise_of_means": found.noise,
        "together": None if found.together is None else _estimate(found.together),
        "by_axis": [_index(index) for index in found.axes],
        "reason": found.reason,
    }


def _index(index: Index) -> dict[str, Any]:
    form = index.closed_form
    return {
        "axis": index.axis,
        "first": _estimate(index.first),
        "total": _estimate(index.total),
        "closed_form": None if form is None else {"first": form[0], "total": form[1]},
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "ci95": found.ci95}
