"""Which axis moves a metric most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from analysis.amounts import capital, name_of
from analysis.runs import RequestError
from analysis.statistics.differences import difference_data
from analysis.study.questions.question import METRIC, Answer, Question, silence
from analysis.study.table import summary_of

if TYPE_CHECKING:
    from analysis.study.questions.sobol import Indices
    from analysis.study.questions.tornado import Swing
    from analysis.study.table import Table


class Sensitivity(Question):
    """Which axis moves a metric most; for the designs one-at-a-time and saltelli."""

    use: Literal["sensitivity"] = "sensitivity"
    metric: str = METRIC

    def answer(self, table: Table) -> Answer:
        """Return the axes in order of what they do."""
        metric = self._headline(table.metrics)
        data: dict[str, Any] = {"metric": metric, "kind": None}
        silent = silence(table, metric)
        if silent:
            return Answer(self.use, data, silent)
        if _is_one_at_a_time(table):
            return self._tornado(table, metric)
        if _is_saltelli(table):
            return self._indices(table, metric)
        rule = "The points of this design do not show which axis moves a metric most: use one-at-a-time or saltelli."
        return Answer(self.use, data, rule)

    def _tornado(self, table: Table, metric: str) -> Answer:
        """Return the axes by how far each alone moves the metric."""
        center = summary_of(table.cells[0], metric)
        if center is None or center.mean is None:
            return Answer(self.use, {"metric": metric}, f"The central point has no mean of {name_of(metric)}.")
        # Imported here: what a study may ask is read before what answers it, and that knows studies.
        from analysis.study.questions.tornado import tornado

        found = tornado(table, metric)
        data = {
            "metric": metric,
            "kind": "tornado",
            "center": center.mean,
            "axes": [{"axis": swing.axis, "swing": swing.size, "moves": _moves(swing)} for swing in found.swings],
        }
        rule = f"No axis moves {name_of(metric)}."
        return Answer(self.use, data, "" if any(swing.size > 0 for swing in found.swings) else rule)

    def _indices(self, table: Table, metric: str) -> Answer:
        """Return the axes by the variance that they bring."""
        from analysis.study.questions.sobol import indices

        try:
            found = indices(table, metric)
        except RequestError as error:
            return Answer(self.use, {"metric": metric, "kind": None}, f"{capital(str(error))}.")
        rule = f"{capital(name_of(metric))} is the same at every point." if found.shares is None else ""
        rule = rule or (f"No indices of {name_of(metric)}: {found.reason}." if found.reason else "")
        return Answer(self.use, {"metric": metric, "kind": "sobol", **_indices_data(found)}, rule)


def _is_one_at_a_time(table: Table) -> bool:
    """Return whether every point differs from the first one in a single axis."""
    center, *others = table.cells
    return bool(others) and all(
        sum(ours.label != theirs.label for ours, theirs in zip(cell.values, center.values, strict=True)) == 1
        for cell in others
    )


def _is_saltelli(table: Table) -> bool:
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


def _moves(swing: Swing) -> list[dict[str, Any]]:
    """Return the values of an axis as plain data."""
    return [
        {"value": move.value.label, "difference": difference_data(move.change), "trouble": move.trouble}
        for move in swing.moves
    ]


def _indices_data(found: Indices) -> dict[str, Any]:
    """Return what brings the variance as plain data."""
    return {
        "rows": found.rows,
        "replications": found.replications,
        "left_out": found.left_out,
        "shares": None if found.shares is None else {name: share._asdict() for name, share in found.shares.items()},
        "noise": found.noise,
        "axes": [
            {"axis": index.axis, "first": index.first._asdict(), "total": index.total._asdict()} for index in found.axes
        ],
        "reason": found.reason,
    }
