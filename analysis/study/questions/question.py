"""The common part of questions: their subject, and the answer that a table of results gives."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from ettrick.analysis.metrics import METRICS, lower_is_better
from ettrick.analysis.statistics.differences import difference, of_pair
from ettrick.analysis.study.amounts import AxisSlice, is_log_spaced
from ettrick.sim.scenario.fields import Model, RuleError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.study.table import Cell, StudyTable
    from ettrick.sim import Ratio


_CLAUSE = re.compile(
    r",? and (?=(?:what|which|where|when|how|who|why|is|are|does|do|can|should|will)\b)", re.IGNORECASE
)


def clauses_of(question: str) -> list[str]:
    """Return the clauses of a question: its parts at each ``and`` before a word that asks."""
    return _CLAUSE.split(question.strip())


class Answer(NamedTuple):
    """The answer of the results to a question.

    Parameters
    ----------
    data
        The numbers: plain data, as JSON has them.
    silence
        Why nothing can be said, in a sentence; empty where something can.
    sentences
        The answer in words, of a question of another package; reports word those that are built in.
    """

    use: str
    data: dict[str, Any]
    silence: str = ""
    sentences: tuple[str, ...] = ()


class Question(Model):
    """A question; ``use`` picks the entry of the registry."""

    use: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be kept for the answer, in addition to the headline of the study."""
        metric = getattr(self, "metric", "")
        return (metric,) if metric else ()

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse a question that the axes of a study cannot answer."""

    def answer(self, table: StudyTable) -> Answer:
        """Return the answer that a table gives.

        Parameters
        ----------
        table
            Results of all points: `StudyTable.running` are the cells that have results, each with its `values` by axis
            and `stated`, whose `metrics` have a ratio for each replication; `mean_of` and `labels_of` read a cell.
        """
        raise NotImplementedError

    def _check_axis(self, key: str, name: str, axes: Mapping[str, Axis], *, numeric: bool = False) -> None:
        """Refuse the name of an axis that is not there, or whose values are not chosen, or not in an order."""
        chosen = chosen_axes(axes)
        if name not in axes:
            raise RuleError((key,), f"unknown axis '{name}'{suggest(name, chosen)}")
        if name not in chosen:
            raise RuleError((key,), f"the values of {name} are not chosen but unknown{suggest('', chosen)}")
        if numeric and not axes[name].is_numeric:
            ordered = [candidate for candidate in chosen if axes[candidate].is_numeric]
            raise RuleError((key,), f"the values of {name} are not numbers{suggest('', ordered)}")

    def _headline(self, metrics: Sequence[str]) -> str:
        """Return the metric that the question is about, given those of the study."""
        return str(getattr(self, "metric", "")) or metrics[0]


def chosen_axes(axes: Mapping[str, Axis]) -> list[str]:
    """Return the axes whose values are chosen, by name: those of the others are unknown."""
    return [name for name, axis in axes.items() if not axis.is_uncertain]


def is_lowest_best(metric: str, direction: str = "") -> bool:
    """Return whether the lowest value of a metric is the best, unless a direction says which."""
    return direction == "lowest" if direction else lower_is_better(metric)


def silence(table: StudyTable, metric: str) -> str:
    """Return why nothing can be said about a metric, in a sentence; empty if something can."""
    if not table.running:
        return "No point has results."
    names = dict.fromkeys(name for cell in table.running for name in cell.stated.metrics)
    if metric in names:
        return ""
    if metric in METRICS:
        return f"No point has the metric {metric}: the scenario does not say what it takes."
    return f"There is no metric {metric}{suggest(metric, [*METRICS, *names])}."


METRIC = Field("", description="The metric; omitted: the first one of the study.")


# Cells in order: those that differ in one axis alone, and what places on an axis are called.


def labels_of(table: StudyTable, cell: Cell) -> dict[str, str]:
    """Return the labels of a cell by the names of the axes."""
    return {name: value.label for name, value in zip(table.axes, cell.values, strict=True)}


def varying(table: StudyTable) -> list[str]:
    """Return the axes of which the cells have more than one value."""
    return [
        name
        for position, name in enumerate(table.axes)
        if len({cell.values[position].label for cell in table.cells}) > 1
    ]


def lines_of(table: StudyTable, *along: str) -> list[AxisSlice[Cell]]:
    """Return for every combination of the other axes the cells in order of one axis, or of several together."""
    positions = [table.position(name) for name in along]
    fixed = [name for name in varying(table) if name not in along]
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in table.cells:
        key = tuple(value.label for index, value in enumerate(cell.values) if index not in positions)
        groups.setdefault(key, []).append(cell)
    lines = [_slice(table, cells, positions, fixed) for cells in groups.values()]
    # Many points of a design that is no grid have no neighbour.
    return [line for line in lines if len(line.cells) + len(line.missing) > 1] or lines


def _slice(table: StudyTable, cells: list[Cell], positions: Sequence[int], fixed: Sequence[str]) -> AxisSlice[Cell]:
    labels = labels_of(table, cells[0])
    numbers = {id(cell): [cell.values[position].number for position in positions] for cell in cells}
    if not any(None in row for row in numbers.values()):
        cells.sort(key=lambda cell: [number or 0.0 for number in numbers[id(cell)]])
    running = tuple(cell for cell in cells if not cell.trouble)
    return AxisSlice({name: labels[name] for name in fixed}, running, tuple(cell for cell in cells if cell.trouble))


def no_lines(table: StudyTable, lines: Sequence[AxisSlice[Cell]], along: str) -> str:
    """Return why nothing can be said along an axis, in a sentence; empty if something can."""
    if any(len(line.cells) > 1 for line in lines):
        return ""
    if any(line.missing for line in lines):
        return f"Fewer than two values of {table.title(along)} have results to compare."
    return f"No two points differ in {table.title(along)} alone: use the design grid."


def is_log(table: StudyTable, axis: str) -> bool:
    """Return whether the values of a numeric axis, as the cells have them, are spaced by factors."""
    position = table.position(axis)
    spec = table.axes[axis].range
    if spec is not None:
        return spec.scale == "log"
    return is_log_spaced(sorted({cell.values[position].number or 0.0 for cell in table.cells}))


# How far two cells are apart on the same failures, with control variates where they are known.


def common_rows(cells: Sequence[Cell], metric: str) -> list[Sequence[Ratio]]:
    """Return a metric of some cells over the first replications that all of them have; nothing of those without it.

    Cells need not have equally many: with a precision each has as many as it takes. What is said of several of them
    together rests on what they have in common, which is the same failures.
    """
    rows = [cell.stated.metrics.get(metric, ()) for cell in cells]
    count = min((len(ratios) for ratios in rows if ratios), default=0)
    return [ratios if len(ratios) <= count else ratios[:count] for ratios in rows]


def mean_of(cell: Cell, metric: str, count: int | None = None) -> float | None:
    """Return the mean of a metric of a cell, a ratio of sums, without what `summary_of` takes its time for.

    Over the first `count` replications, if that is given.
    """
    ratios = cell.stated.metrics.get(metric, ())[:count]
    amount, base = math.fsum(ratio.amount for ratio in ratios), math.fsum(ratio.base for ratio in ratios)
    return amount / base if base and math.isfinite(amount) else None


def versus(ours: Cell, theirs: Cell, metric: str, most: int | None = None) -> tuple[DifferenceSummary, int] | None:
    """Return by how much a metric of a cell is above that of another, and over how many common replications.

    No more than `most` of them, if that is given. ``None`` where either has too few replications, or no mean.
    """
    first, second = common_rows((ours, theirs), metric)
    first, second = first[:most], second[:most]
    count = min(len(first), len(second))
    controls = of_pair(ours.stated.controls[:count], theirs.stated.controls[:count])
    exact = metric in ours.stated.exact & theirs.stated.exact
    change = difference(first, second, controls, metric=metric, is_exact=exact) if count else None
    return None if change is None else (change, count)
