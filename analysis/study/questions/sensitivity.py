"""Which axis moves a metric most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from analysis.amounts import PERCENT, capital, form_of, listed, name_of
from analysis.runs import RequestError
from analysis.statistics.differences import difference_data
from analysis.study.questions.question import METRIC, Answer, Question, silence, versus_text
from analysis.study.table import summary_of

if TYPE_CHECKING:
    from analysis.study.questions.sobol import Indices
    from analysis.study.questions.tornado import Swing
    from analysis.study.table import Table

_PARTS = {"parameters": "what varies makes", "luck": "luck", "both": "both together"}


class Sensitivity(Question):
    """Which axis moves a metric most; for the designs one-at-a-time and saltelli."""

    ask: Literal["sensitivity"] = "sensitivity"
    metric: str = METRIC

    def answer(self, table: Table) -> Answer:
        """Return the axes in order of what they do."""
        metric = self._headline(table.metrics)
        data: dict[str, Any] = {"metric": metric, "kind": None}
        silent = silence(table, metric)
        if silent:
            return Answer(self.ask, (silent,), data)
        if _is_one_at_a_time(table):
            return self._tornado(table, metric)
        if _is_saltelli(table):
            return self._indices(table, metric)
        rule = "The points of this design do not tell which axis moves a metric most: use one-at-a-time or saltelli."
        return Answer(self.ask, (rule,), data)

    def _tornado(self, table: Table, metric: str) -> Answer:
        """Return the axes by how far each alone moves the metric."""
        center = summary_of(table.cells[0], metric)
        if center is None or center.mean is None:
            return Answer(self.ask, (f"The central point has no mean of {name_of(metric)}.",), {"metric": metric})
        # Imported here: what a study may ask is read before what answers it, and that knows studies.
        from analysis.study.questions.tornado import tornado

        found = tornado(table, metric)
        form = form_of(metric, [center.mean], table.currency)
        sentences = [f"{capital(name_of(metric))} is {form.value(center.mean, center.ci95)} at the central point."]
        swings = [swing for swing in found.swings if swing.size > 0]
        if swings:
            known = [move.change for move in swings[0].moves if move.change is not None]
            # No more digits than the widest of the changes deserves.
            half = max((change.ci95[1] - change.ci95[0]) / 2 for change in known)
            width = swings[0].size - half, swings[0].size + half
            size = form.plain(swings[0].size, width, form.step or form.unit)
            sentences.append(f"{table.title(swings[0].axis)} moves it most: by {size} over its values.")
        for swing in found.swings:
            parts = [
                f"to {move.value.label}: "
                + (
                    move.trouble or "no mean"
                    if move.change is None
                    else versus_text(move.change, move.replications, form)
                )
                for move in swing.moves
            ]
            sentences.append(f"{table.title(swing.axis)} from {swing.center.label} {'; '.join(parts)}.")
        data = {
            "metric": metric,
            "kind": "tornado",
            "center": center.mean,
            "axes": [{"axis": swing.axis, "swing": swing.size, "moves": _moves(swing)} for swing in found.swings],
        }
        return Answer(self.ask, tuple(sentences), data)

    def _indices(self, table: Table, metric: str) -> Answer:
        """Return the axes by the variance that they bring."""
        from analysis.study.questions.sobol import indices

        try:
            found = indices(table, metric)
        except RequestError as error:
            return Answer(self.ask, (f"{capital(str(error))}.",), {"metric": metric, "kind": None})
        name = name_of(metric)
        data = {"metric": metric, "kind": "sobol", **_indices_data(found)}
        if found.shares is None:
            return Answer(self.ask, (f"{capital(name)} is the same at every point.",), data)
        shares = listed(
            [f"{_PARTS[part]} {PERCENT.value(share.value, share.ci95)}" for part, share in found.shares.items()]
        )
        sentences = [f"Of the variance of {name} in one run {shares}."]
        if found.reason:
            sentences.append(f"No indices of {name}: {found.reason}.")
        sentences += [
            f"{table.title(index.axis)} alone brings {PERCENT.value(index.first.value, index.first.ci95)} of the "
            f"variance that the axes make, with the others {PERCENT.value(index.total.value, index.total.ci95)}."
            for index in found.axes
        ]
        return Answer(self.ask, tuple(sentences), data)


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
