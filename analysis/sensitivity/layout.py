"""The results of a Saltelli design as numbers: sets of points x points of a set x replications."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.answers.versus import common_rows
from analysis.ensemble import RequestError
from analysis.metrics import contributions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from analysis.study.table import Cell, Table
    from analysis.study.value import Value

    FloatArray = npt.NDArray[np.float64]

__all__ = ["LEAST", "MOST_LEFT_OUT", "Layout", "layout_of"]

MOST_LEFT_OUT = 0.05
"""Share of the rows that may be left out [-]: without more of them the inputs would not be those of the study."""


LEAST = 4
"""Rows, and replications, without which nothing is told: intervals leave out some of each."""


class Layout(NamedTuple):
    """What one metric comes to at every point and in every replication.

    Parameters
    ----------
    values
        Contributions to the ratio of sums, shape (d + 2, n, R): sets A, B, AB_1, ..., AB_d; rows; replications.
    formula
        ETTR by the closed form at the same points, shape (d + 2, n) [-]; ``None`` unless that is the metric and every
        point has one.
    left_out
        Rows that are missing because of a point without a result.
    reason
        Why the first of them has none; empty if none is missing.
    """

    values: FloatArray
    formula: FloatArray | None
    left_out: int
    reason: str


def layout_of(table: Table, metric: str) -> Layout:
    """Return the numbers of a table whose design is ``saltelli``.

    A row is a point of A, one of B, and those between them. Estimates need all of them: a row in which a point cannot
    run is left out as a whole. Replications are those that all points have.

    Raises
    ------
    RequestError
        If more than `MOST_LEFT_OUT` of the rows would be left out, or there are too few of them or of replications.
    ValueError
        If the number of points is not that of the design.
    """
    sets = len(table.axes) + 2
    rows, rest = divmod(len(table.cells), sets)
    if rest or not rows:
        message = f"{len(table.cells)} points are not {sets} sets: the design is not saltelli"
        raise ValueError(message)
    found = [contributions(ratios) for ratios in common_rows(table.cells, metric)]
    usable = [all(found[rows * of + row] is not None for of in range(sets)) for row in range(rows)]
    if usable.count(False) > MOST_LEFT_OUT * rows:
        raise RequestError(_refusal(table, metric, found, f"{usable.count(False)} of {rows} rows of points"))
    kept = [row for row in range(rows) if usable[row]]
    places = [[rows * of + row for row in kept] for of in range(sets)]
    values = np.array([[found[place] for place in row] for row in places], dtype=np.float64)
    if min(values.shape[1:]) < LEAST:
        message = f"{values.shape[1]} rows of points and {values.shape[2]} replications: needs {LEAST} of each at least"
        raise RequestError(message)
    formula = _formula(table, metric, places)
    bad = next((cell for cell, mine in zip(table.cells, found, strict=True) if mine is None), None)
    return Layout(values, formula, rows - len(kept), "" if bad is None else _why(bad, metric))


def _formula(table: Table, metric: str, places: Sequence[Sequence[int]]) -> FloatArray | None:
    """Return the closed form's ETTR at points, by their places in the table."""
    if metric != "ettr":
        return None
    found = [[table.cells[place].stated.formula for place in row] for row in places]
    return None if any(value is None for row in found for value in row) else np.array(found, dtype=np.float64)


def _why(cell: Cell, metric: str) -> str:
    return cell.trouble or f"a replication has no {metric}"


def _refusal(table: Table, metric: str, found: Sequence[FloatArray | None], how_many: str) -> str:
    """Return why there are too few points, and which values all of those without a result have."""
    bad = [cell for cell, values in zip(table.cells, found, strict=True) if values is None]
    fine = [cell for cell, values in zip(table.cells, found, strict=True) if values is not None]
    for position, axis in enumerate(table.axes):
        mine, others = ([cell.values[position] for cell in cells] for cells in (bad, fine))
        if others and not _overlap(mine, others):
            ordered = sorted(mine, key=lambda value: value.number or 0.0)
            labels = list(dict.fromkeys((ordered[0].label, ordered[-1].label)))
            told = f"all where {axis} is {' to '.join(labels)}"
            return f"{how_many} have one without a result, {told}: {_why(bad[0], metric)}"
    first = ", ".join(f"{axis}={value.label}" for axis, value in zip(table.axes, bad[0].values, strict=True))
    return f"{how_many} have one without a result, the first with {first}: {_why(bad[0], metric)}"


def _overlap(mine: Sequence[Value], others: Sequence[Value]) -> bool:
    """Return whether values of points without a result are also, or lie among, those of points with one."""
    if any(value.number is None for value in (*mine, *others)):
        return bool({value.label for value in mine} & {value.label for value in others})
    ours, theirs = ([value.number or 0.0 for value in values] for values in (mine, others))
    return max(min(ours), min(theirs)) <= min(max(ours), max(theirs))
