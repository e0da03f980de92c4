"""The axis that moves a metric most: one at a time, and by shares of the variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ettrick.analysis.amounts import capital, name_of
from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.results import answers
from ettrick.analysis.results.studies import MoveSummary, SwingSummary
from ettrick.analysis.study.questions.question import METRIC, Answer, Question, silence, versus
from ettrick.analysis.study.table import summary_of

if TYPE_CHECKING:
    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.analysis.study.table import Cell, StudyTable


class Sensitivity(Question):
    """The axis that moves a metric most; for the designs one-at-a-time and saltelli."""

    use: Literal["sensitivity"] = "sensitivity"
    metric: str = METRIC

    def answer(self, table: StudyTable) -> Answer:
        """Return the axes in order of what they do."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        if not silent and _is_one_at_a_time(table):
            return self._tornado(table, metric)
        if not silent and _is_saltelli(table):
            return self._indices(table, metric)
        rule = "The points of this design do not show which axis moves a metric most: use one-at-a-time or saltelli."
        return Answer(self.use, answers.SensitivityAnswer(metric=metric, kind=None).data(), silent or rule)

    def _tornado(self, table: StudyTable, metric: str) -> Answer:
        """Return the axes by how far each alone moves the metric."""
        center = summary_of(table.cells[0], metric)
        if center is None or center.mean is None:
            why = f"The central point has no mean of {name_of(metric)}."
            return Answer(self.use, answers.SensitivityAnswer(metric=metric).data(), why)
        swings = [
            answers.SwingAnswer(
                axis=swing.axis,
                swing=swing.swing or 0.0,
                moves=[
                    answers.MoveAnswer(value=move.label, difference=move.change, trouble=move.trouble)
                    for move in swing.moves
                ],
            )
            for swing in tornado(table, metric)
        ]
        answer = answers.TornadoAnswer(metric=metric, kind="tornado", center=center.mean, axes=swings)
        rule = f"No axis moves {name_of(metric)}."
        return Answer(self.use, answer.data(), "" if any(swing.swing > 0 for swing in swings) else rule)

    def _indices(self, table: StudyTable, metric: str) -> Answer:
        """Return the axes by the variance that they bring."""
        from ettrick.analysis.study.questions.sobol import indices

        try:
            sobol = indices(table, metric)
        except ReplicationsError as error:
            return Answer(
                self.use, answers.SensitivityAnswer(metric=metric, kind=None).data(), f"{capital(str(error))}."
            )
        rule = f"{capital(name_of(metric))} is the same at every point." if sobol.shares is None else ""
        rule = rule or (f"No indices of {name_of(metric)}: {sobol.reason}." if sobol.reason else "")
        answer = answers.SobolAnswer.model_validate(
            {
                **sobol._asdict(),
                "kind": "sobol",
                "axes": [row.model_dump(exclude={"closed_form"}) for row in sobol.axes],
            }
        )
        return Answer(self.use, answer.data(), rule)


def _is_one_at_a_time(table: StudyTable) -> bool:
    """Return whether every point differs from the first one in a single axis."""
    center, *moved = table.cells
    return bool(moved) and all(
        sum(ours.label != theirs.label for ours, theirs in zip(cell.values, center.values, strict=True)) == 1
        for cell in moved
    )


def _is_saltelli(table: StudyTable) -> bool:
    """Return whether the points are sets A and B, and for each axis A with that axis of B."""
    count = len(table.axes)
    rows, rest = divmod(len(table.cells), count + 2)
    if rest or not rows:
        return False
    sets = [table.cells[index * rows : (index + 1) * rows] for index in range(count + 2)]
    return all(
        swapped.values == (*first.values[:axis], second.values[axis], *first.values[axis + 1 :])
        for axis in range(count)
        for first, second, swapped in zip(sets[0], sets[1], sets[2 + axis], strict=True)
    )


# One axis at a time: how far each alone moves a metric from where all have their central values.


def tornado(table: StudyTable, metric: str) -> list[SwingSummary]:
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
    center, *moved = table.cells
    moves: dict[str, list[MoveSummary]] = {}
    for cell in moved:
        axis = _moved(table, center, cell)
        value = cell.values[table.position(axis)]
        moves.setdefault(axis, []).append(_move(value, cell, center, metric))
    swings = [_swing(axis, center.values[table.position(axis)].label, of_axis) for axis, of_axis in moves.items()]
    return sorted(swings, key=lambda swing: -(swing.swing or 0.0))


def _swing(axis: str, center: str, moves: list[MoveSummary]) -> SwingSummary:
    """Return how far an axis moves the metric: between the lowest and the highest mean, that of the centre among them.

    The smallest number of replications with which a change would be resolved is that of the axis.
    """
    changes = [move.change for move in moves if move.change is not None]
    means = [0.0, *(change.mean for change in changes)]
    needed = [change.replications_to_resolve for change in changes]
    return SwingSummary(
        axis=axis,
        center=center,
        swing=max(means) - min(means),
        resolved=any(change.resolved for change in changes),
        replications_to_resolve=min((count for count in needed if count is not None), default=None),
        moves=moves,
    )


def _moved(table: StudyTable, center: Cell, cell: Cell) -> str:
    """Return the one axis in which a cell differs from the centre."""
    pairs = zip(table.axes, cell.values, center.values, strict=True)
    differs = [axis for axis, ours, theirs in pairs if ours.settings != theirs.settings]
    if len(differs) != 1:
        raise ValueError(f"a point differs from the first one in {len(differs)} axes: the design is not one at a time")
    return differs[0]


def _move(value: AxisPosition, cell: Cell, center: Cell, metric: str) -> MoveSummary:
    """Return what one value makes of a metric."""
    change, _ = versus(cell, center, metric) or (None, 0)
    ours, theirs = cell.stated.formula, center.stated.formula
    return MoveSummary(
        label=value.label,
        number=value.number,
        change=change,
        closed_form=ours - theirs if metric == "ettr" and ours is not None and theirs is not None else None,
        trouble=cell.trouble or ("" if change is not None else f"has no {metric} to compare"),
    )
