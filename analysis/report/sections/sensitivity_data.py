"""The sensitivity of a study: its own document, or the answer to a question of a sweep in the same form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.results import SENSITIVITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.material import Material

__all__ = ["drawn_ends", "sensitivity_of"]

Content = dict[str, Any]


def sensitivity_of(material: Material) -> Content | None:
    """Return the document of a sensitivity, or what a sweep's answer has of one; ``None`` without either.

    An answer knows less: what it does not know is ``None``.
    """
    found = material.of(SENSITIVITY)
    if found is not None:
        content: Content = found
        return content
    sweep = material.sweep
    answers = [] if sweep is None else [answer["data"] for answer in sweep["answers"] if answer["ask"] == "sensitivity"]
    tornado = next((data for data in answers if data.get("kind") == "tornado"), None)
    indices = next((data for data in answers if data.get("kind") == "sobol"), None)
    data = tornado or indices
    if sweep is None or data is None:
        return None
    cell = sweep["cells"][0]
    return {
        "metric": data["metric"],
        "axes": sweep["axes"],
        "replications": cell["replications"] if tornado else data["replications"],
        "seed": sweep["seed"],
        "low": sweep["design"].get("low"),
        "center": _center(cell, data["metric"]),
        "tornado": None if tornado is None else [_swing(axis, cell) for axis in tornado["axes"]],
        "indices": None if indices is None else _indices(indices),
        "indices_missing": "",
    }


def drawn_ends(changes: Sequence[float]) -> tuple[int, int]:
    """Return which two values of an input a picture shows: those that change most either way, in the input's order.

    Parameters
    ----------
    changes
        What each value changes; one at least.
    """
    places = range(len(changes))
    low, high = min(places, key=changes.__getitem__), max(places, key=changes.__getitem__)
    return (min(low, high), max(low, high)) if low != high else (0, len(changes) - 1)


def _center(cell: Content, metric: str) -> Content:
    """Return the central point: the first cell of a sweep one at a time."""
    found = cell["metrics"].get(metric, {})
    return {"values": cell["values"], "mean": found.get("mean"), "ci95": found.get("mean_ci95")}


def _swing(found: Content, cell: Content) -> Content:
    """Return what an axis does alone, in the form of the document."""
    moves = [
        {"label": move["value"], "number": None, "change": move["difference"], "trouble": move["trouble"]}
        for move in found["moves"]
    ]
    return {"axis": found["axis"], "center": cell["values"][found["axis"]], "moves": moves}


def _indices(found: Content) -> Content:
    """Return which axis brings the variance, in the form of the document."""
    shares = found["shares"]
    return {
        "rows": found["rows"],
        "left_out": found["left_out"],
        "why_left_out": "",
        "variance": {key: {"share": None if shares is None else shares[key]} for key in ("parameters", "luck", "both")},
        "noise_of_means": found["noise"],
        "together": None,
        "by_axis": found["axes"],
        "reason": found["reason"],
    }
