"""Which combinations no other one is better than in everything: the front of several aims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from analysis.answers.places import labels_of, place_text, varying
from analysis.answers.question import Answer, Question, is_lowest_best, silence
from analysis.answers.versus import mean_of
from analysis.answers.words import Form, form_of, listed, name_of
from analysis.cells import number_of
from analysis.metrics import contributions
from analysis.statistics import t_quantile
from analysis.study.summary import summary_of
from sim.documents import suggest
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    import numpy.typing as npt

    from analysis.study.axis import Axis
    from analysis.study.table import Cell, Table

    FloatArray = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

__all__ = ["Pareto"]

_MOST_TOLD = 12
"""Members of the front with a sentence of their own; the data have all."""


class Pareto(Question):
    """Which combinations no other one is better than in two or three aims at once."""

    ask: Literal["pareto"] = "pareto"
    aims: tuple[str, ...] = Field(alias="metrics", min_length=1, max_length=3, description="The metrics.")
    axes: tuple[str, ...] = Field((), max_length=2, description="Axes of numbers that are aims too, such as spares.")
    direction: dict[str, Literal["highest", "lowest"]] = Field(
        {}, description="What is better, by name; omitted: of a metric as it is, of an axis the lowest."
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be kept for the answer."""
        return self.aims

    @model_validator(mode="after")
    def _has_two_or_three(self) -> Self:
        names = (*self.aims, *self.axes)
        if not 2 <= len(set(names)) == len(names) <= 3:
            message = "give two or three aims, each once: metrics, or axes of numbers"
            raise ValueError(message)
        for name in self.direction:
            if name not in names:
                raise RuleError(("direction", name), f"is none of the aims{suggest(name, names)}")
        return self

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what are no numeric axes, and axes among the metrics."""
        for name in self.aims:
            if name in axes:
                raise RuleError(("metrics",), f"{name} is an axis: name it under axes")
        for name in self.axes:
            self._check_axis("axes", name, axes, numeric=True)

    def answer(self, table: Table) -> Answer:
        """Return the front, and who is on it for sure."""
        silent = next((text for name in self.aims if (text := silence(table, name))), "")
        cells = [] if silent else [cell for cell in table.running if self._has_all(cell)]
        if not silent and len(cells) < 2:
            silent = f"Fewer than two points have a mean of {listed([name_of(name) for name in self.aims])}."
        data: dict[str, Any] = {"metrics": list(self.aims), "axes": list(self.axes), "front": [], "may_be_too": []}
        if silent:
            return Answer(self.ask, (silent,), data)
        means, better, same = self._compared(table, cells)
        dominated = _dominated(means)
        front = [row for row in np.lexsort(means.T[::-1]).tolist() if not dominated[row]]
        # For sure: better than each other one in something. Off it for sure: behind another one in everything.
        sure = [bool(np.all(np.delete(better[row].any(axis=1), row))) for row in range(len(cells))]
        behind: Flags = np.all(better | same, axis=2) & np.any(better, axis=2)
        maybe = [row for row in range(len(cells)) if dominated[row] and not behind[:, row].any()]
        entries = [self._entry(table, cells[row]) | {"for_sure": sure[row]} for row in front]
        data |= {"front": entries, "may_be_too": [self._entry(table, cells[row]) for row in maybe]}
        return Answer(self.ask, tuple(self._sentences(table, cells, front, sure, maybe)), data)

    def _has_all(self, cell: Cell) -> bool:
        """Return whether a cell has a mean of every aim."""
        return all(mean_of(cell, name) is not None for name in self.aims)

    def _compared(self, table: Table, cells: Sequence[Cell]) -> tuple[FloatArray, Flags, Flags]:
        """Return aims (k, m), the lower the better; and for pairs (k, k, m) who is better for sure, or the same.

        All paired differences hold together with a probability of 95 %: Student's quantile at ``1 - 0.05 / (pairs x
        metrics)`` (Bonferroni), over the replications that all cells have. The number of an axis has no doubt.
        """
        count = min(len(cell.stated.metrics[name]) for cell in cells for name in self.aims)
        size = len(cells)
        means, better, same = [], [], []
        confidence = 1 - 0.05 / max(size * (size - 1) // 2 * len(self.aims), 1)
        quantile = t_quantile(confidence, count - 1) if count > 1 else np.inf
        for name in self.aims:
            sign = 1.0 if is_lowest_best(name, self.direction.get(name, "")) else -1.0
            found = [contributions(cell.stated.metrics[name][:count]) for cell in cells]
            values = sign * np.array([np.full(count, np.nan) if row is None else row for row in found])
            means.append(values.mean(axis=1))
            pairs = [_pairs(values, row, quantile) for row in range(size)]
            better.append(np.array([pair[0] for pair in pairs]))
            same.append(np.array([pair[1] for pair in pairs]))
        for name in self.axes:
            sign = -1.0 if self.direction.get(name) == "highest" else 1.0
            numbers = sign * np.array([cell.values[table.position(name)].number for cell in cells], dtype=np.float64)
            means.append(numbers)
            better.append(numbers[:, None] < numbers[None, :])
            same.append(numbers[:, None] == numbers[None, :])
        return np.stack(means, axis=-1), np.stack(better, axis=-1), np.stack(same, axis=-1)

    def _entry(self, table: Table, cell: Cell) -> dict[str, Any]:
        """Return a cell as plain data."""
        found: dict[str, Any] = {"at": labels_of(table, cell)}
        for name in self.aims:
            summary = summary_of(cell, name)
            assert summary is not None
            found[name] = {"mean": summary.mean, "mean_ci95": summary.ci95}
        return found | {name: cell.values[table.position(name)].number for name in self.axes}

    def _sentences(
        self, table: Table, cells: Sequence[Cell], front: Sequence[int], sure: Sequence[bool], maybe: Sequence[int]
    ) -> list[str]:
        """Return the front in sentences."""
        forms = {name: _form_among(table, cells, name) for name in self.aims}
        certain = sum(sure[row] for row in front)
        aims = listed([name_of(name) for name in self.aims] + [table.title(name) for name in self.axes])
        found = [
            f"Of {number_of(len(cells), 'point')} {len(front)} {'is' if len(front) == 1 else 'are'} such that no other "
            f"is better in {aims} at once; {certain} of them for sure (95 % for all together)."
        ]
        for row in front[:_MOST_TOLD]:
            values = []
            for name in self.aims:
                summary = summary_of(cells[row], name)
                assert summary is not None
                values.append(f"{name_of(name)} {forms[name].value(summary.mean or 0.0, summary.ci95)}")
            labels = labels_of(table, cells[row])
            place = place_text(table, {name: labels[name] for name in varying(table)})
            found.append(f"{place}: {', '.join(values)}{'' if sure[row] else ' (on the front perhaps by luck)'}.")
        if len(front) > _MOST_TOLD:
            found.append(f"{len(front) - _MOST_TOLD} more of the front are in the data.")
        if maybe:
            found.append(
                f"{number_of(len(maybe), 'other')} may belong to it too: not resolved with these replications."
            )
        return found


def _form_among(table: Table, cells: Sequence[Cell], metric: str) -> Form:
    """Return how a metric is told, by its means at some cells."""
    return form_of(metric, [mean_of(cell, metric) or 0.0 for cell in cells], table.currency)


def _dominated(means: FloatArray) -> list[bool]:
    """Return for each row (k, m) whether another one is nowhere above it, and below it somewhere."""
    return [bool(((means <= row).all(axis=1) & (means < row).any(axis=1)).any()) for row in means]


def _pairs(values: FloatArray, row: int, quantile: float) -> tuple[Flags, Flags]:
    """Return which of all cells (k, n) one cell is below for sure, and which are the same in every replication."""
    each = values - values[row]
    each[np.abs(each) <= 1e-12 * np.abs(values[row])] = 0.0
    mean, spread = each.mean(axis=1), each.std(axis=1, ddof=1) if each.shape[1] > 1 else np.full(len(each), np.inf)
    below: Flags = mean > quantile * spread / np.sqrt(each.shape[1])
    return below, (each == 0.0).all(axis=1)
