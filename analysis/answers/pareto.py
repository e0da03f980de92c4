"""Which combinations no other one is better than in everything: the front of several aims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from analysis.answers.front import front_of
from analysis.answers.places import labels_of, place_text, varying
from analysis.answers.question import Answer, Question, is_lowest_best, silence
from analysis.answers.words import form_of, listed, name_of
from analysis.cells import number_of
from analysis.intervals import mean_estimate
from analysis.metrics import contributions
from sim.documents import suggest
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    import numpy.typing as npt

    from analysis.answers.front import Front
    from analysis.study.axis import Axis
    from analysis.study.table import Cell, Table

    FloatArray = npt.NDArray[np.float64]

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
        cells, count = ([], 0) if silent else _known(table, self.aims)
        if not silent and len(cells) < 2:
            silent = f"Fewer than two points have a mean of {listed([name_of(name) for name in self.aims])}."
        data: dict[str, Any] = {"metrics": list(self.aims), "axes": list(self.axes), "front": [], "may_be_too": []}
        if silent:
            return Answer(self.ask, (silent,), data)
        found = front_of(self._aims(table, cells))
        entries = [
            self._entry(table, cells[row], count) | {"for_sure": sure}
            for row, sure in zip(found.members, found.sure, strict=True)
        ]
        maybe = [self._entry(table, cells[row], count) for row in found.maybe]
        data |= {"replications": count, "front": entries, "may_be_too": maybe}
        return Answer(self.ask, tuple(self._sentences(table, cells, found, entries)), data)

    def _aims(self, table: Table, cells: Sequence[_Known]) -> list[FloatArray]:
        """Return the aims, the lower the better: of metrics each replication (k, n), of axes the number (k,)."""
        aims = []
        for place, name in enumerate(self.aims):
            sign = 1.0 if is_lowest_best(name, self.direction.get(name, "")) else -1.0
            aims.append(sign * np.array([known.values[place] for known in cells]))
        for name in self.axes:
            sign = -1.0 if self.direction.get(name) == "highest" else 1.0
            numbers = [known.cell.values[table.position(name)].number for known in cells]
            aims.append(sign * np.array(numbers, dtype=np.float64))
        return aims

    def _entry(self, table: Table, known: _Known, count: int) -> dict[str, Any]:
        """Return a cell as plain data, its means over so many replications."""
        cell = known.cell
        found: dict[str, Any] = {"at": labels_of(table, cell)}
        for name in self.aims:
            estimate = mean_estimate(cell.stated.metrics[name][:count], name)
            found[name] = {"mean": estimate.mean, "mean_ci95": estimate.interval}
        return found | {name: cell.values[table.position(name)].number for name in self.axes}

    def _sentences(
        self, table: Table, cells: Sequence[_Known], front: Front, entries: Sequence[dict[str, Any]]
    ) -> list[str]:
        """Return the front in sentences."""
        forms = {
            name: form_of(name, [float(known.values[place].mean()) for known in cells], table.currency)
            for place, name in enumerate(self.aims)
        }
        aims = listed([name_of(name) for name in self.aims] + [table.title(name) for name in self.axes])
        size, count = len(entries), max((len(known.values[0]) for known in cells), default=0)
        found = [
            f"Of {number_of(len(cells), 'point')} {size} {'is' if size == 1 else 'are'} such that no other "
            f"is better in {aims} at once; {sum(front.sure)} of them for sure (95 % for all together)."
        ]
        names = varying(table)
        for entry in entries[:_MOST_TOLD]:
            values = [
                f"{name_of(name)} {forms[name].value(entry[name]['mean'], entry[name]['mean_ci95'])}"
                for name in self.aims
            ]
            place = place_text(table, {name: entry["at"][name] for name in names})
            found.append(
                f"{place}: {', '.join(values)}{'' if entry['for_sure'] else ' (on the front perhaps by luck)'}."
            )
        if size > _MOST_TOLD:
            found.append(f"{size - _MOST_TOLD} more of the front are in the data.")
        if front.maybe:
            found.append(
                f"{number_of(len(front.maybe), 'other')} may belong to it too: not resolved with these replications."
            )
        if any(len(known.cell.stated.metrics[name]) > count for known in cells for name in self.aims):
            found.append(f"Compared over the first {count} replications, which all of them have.")
        return found


class _Known(NamedTuple):
    """A cell, and what its replications contribute to each metric that is an aim."""

    cell: Cell
    values: tuple[FloatArray, ...]


def _known(table: Table, metrics: Sequence[str]) -> tuple[list[_Known], int]:
    """Return the cells that have a mean of every metric, and over how many common replications."""
    cells = [cell for cell in table.running if all(cell.stated.metrics.get(name) for name in metrics)]
    count = min((len(cell.stated.metrics[name]) for cell in cells for name in metrics), default=0)
    found = []
    for cell in cells:
        rows = [contributions(cell.stated.metrics[name][:count]) for name in metrics]
        values = tuple(row for row in rows if row is not None)
        if len(values) == len(rows):
            found.append(_Known(cell, values))
    return found, count
