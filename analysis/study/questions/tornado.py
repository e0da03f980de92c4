"""One axis at a time: how far each alone moves a metric from where all have their central values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.study.questions.question import versus

if TYPE_CHECKING:
    from analysis.statistics.differences import Difference
    from analysis.study.amounts import Value
    from analysis.study.table import Cell, Outcome, Table


class Move(NamedTuple):
    """What one value of an axis makes of a metric, all others at the centre.

    Parameters
    ----------
    value
        The value.
    change
        By how much the metric is above that of the centre, on the same failures; ``None`` where the data do not show
        it.
    closed_form
        The same by the closed form, where the metric is ETTR and there is a form [-].
    trouble
        Why there is nothing; empty where all is well.
    replications
        Over how many the change was taken: those that this point and the centre have.
    """

    value: Value
    change: Difference | None
    closed_form: float | None
    trouble: str
    replications: int


class Swing(NamedTuple):
    """How far an axis alone moves a metric.

    Parameters
    ----------
    axis
        Its name.
    center
        Its value at the centre.
    moves
        The other values that were looked at, in the order of the study.
    """

    axis: str
    center: Value
    moves: tuple[Move, ...]

    @property
    def size(self) -> float:
        """Distance of the lowest and the highest mean, that of the centre among them."""
        means = [0.0, *(move.change.mean for move in self.moves if move.change is not None)]
        return max(means) - min(means)

    @property
    def is_resolved(self) -> bool:
        """Whether the interval of one change at least leaves out zero."""
        return any(move.change is not None and move.change.resolved for move in self.moves)

    @property
    def replications_to_resolve(self) -> int | None:
        """Replications with which the first change would be resolved if it stays as it is; ``None`` for far too many.

        See `analysis.statistics.differences.replications_to_resolve`; nothing is missing where a change is
        resolved already.
        """
        needed = [move.change.replications_to_resolve for move in self.moves if move.change is not None]
        return min((number for number in needed if number is not None), default=None)


class Tornado(NamedTuple):
    """What each axis alone does to a metric.

    Parameters
    ----------
    metric
        The metric.
    center
        What came of the central point.
    swings
        One for each axis that has other values, the widest first.
    """

    metric: str
    center: Outcome
    swings: tuple[Swing, ...]


def tornado(table: Table, metric: str) -> Tornado:
    """Return how far each axis alone moves a metric, from the table of a one-at-a-time design.

    Entry i of two points is the same failures, so a change is a mean of paired differences with Student's interval;
    each interval holds with 95 % by itself.

    Raises
    ------
    ValueError
        If a point differs from the first one in several axes, or in none.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), sections 10.2.1 (paired-t) and 11.2 (common random
    numbers).
    """
    center, *others = table.cells
    moves: dict[str, list[Move]] = {}
    for cell in others:
        axis = _moved(table, center, cell)
        value = cell.values[table.position(axis)]
        moves.setdefault(axis, []).append(_move(value, cell, center, metric))
    swings = [Swing(axis, center.values[table.position(axis)], tuple(found)) for axis, found in moves.items()]
    return Tornado(metric, center.stated, tuple(sorted(swings, key=lambda swing: -swing.size)))


def _moved(table: Table, center: Cell, cell: Cell) -> str:
    """Return the one axis in which a cell differs from the centre."""
    pairs = zip(table.axes, cell.values, center.values, strict=True)
    differs = [axis for axis, ours, theirs in pairs if ours.settings != theirs.settings]
    if len(differs) != 1:
        raise ValueError(f"a point differs from the first one in {len(differs)} axes: the design is not one at a time")
    return differs[0]


def _move(value: Value, cell: Cell, center: Cell, metric: str) -> Move:
    """Return what one value makes of a metric."""
    change, count = versus(cell, center, metric) or (None, 0)
    ours, theirs = cell.stated.formula, center.stated.formula
    formula = ours - theirs if metric == "ettr" and ours is not None and theirs is not None else None
    trouble = cell.trouble or ("" if change is not None else f"has no {metric} to compare")
    return Move(value, change, formula, trouble, count)
