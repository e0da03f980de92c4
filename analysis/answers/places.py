"""Cells in order: those that differ in one axis alone, and what places on an axis are called."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import Form, scaled_form
from analysis.study.amounts import amounts_of, numbers_of
from sim import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.study.amounts import Amounts
    from analysis.study.table import Cell, Table
    from analysis.study.value import Value

__all__ = ["Line", "Scale", "labels_of", "lines_of", "no_lines", "place_text", "scale_of", "varying"]


class Line(NamedTuple):
    """Cells that differ in one axis alone.

    Parameters
    ----------
    others
        Names of the other axes that vary in the study, with the labels of their values.
    cells
        Those with results, in order of the axis.
    missing
        Those without.
    """

    others: dict[str, str]
    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]


class Scale(NamedTuple):
    """A numeric axis: what it is called, how its numbers are told, and how values between two are found."""

    title: str
    form: Form
    is_log: bool
    is_time: bool

    def form_at(self, number: float) -> Form:
        """Return how a place is told: times in the unit that suits them."""
        return scaled_form(units.DURATION, number) if self.is_time else self.form


def labels_of(table: Table, cell: Cell) -> dict[str, str]:
    """Return the labels of a cell by the names of the axes."""
    return {name: value.label for name, value in zip(table.axes, cell.values, strict=True)}


def varying(table: Table) -> list[str]:
    """Return the axes of which the cells have more than one value."""
    return [
        name
        for position, name in enumerate(table.axes)
        if len({cell.values[position].label for cell in table.cells}) > 1
    ]


def place_text(table: Table, labels: dict[str, str]) -> str:
    """Return values of axes in words, such as ``hot spares = 4, repair time = 2 d``; empty without any."""
    return ", ".join(f"{table.title(name)} = {label}" for name, label in labels.items())


def lines_of(table: Table, *along: str) -> list[Line]:
    """Return for every combination of the other axes the cells in order of one axis, or of several together."""
    positions = [table.position(name) for name in along]
    others = [name for name in varying(table) if name not in along]
    found: dict[tuple[str, ...], list[Cell]] = {}
    for cell in table.cells:
        key = tuple(value.label for place, value in enumerate(cell.values) if place not in positions)
        found.setdefault(key, []).append(cell)
    lines = []
    for cells in found.values():
        if all(cell.values[place].number is not None for place in positions for cell in cells):
            cells.sort(key=lambda cell: [cell.values[place].number or 0.0 for place in positions])
        labels = labels_of(table, cells[0])
        lines.append(
            Line(
                {name: labels[name] for name in others},
                tuple(cell for cell in cells if not cell.trouble),
                tuple(cell for cell in cells if cell.trouble),
            )
        )
    # Of a design that is no grid, many points have no neighbour.
    whole = [line for line in lines if len(line.cells) + len(line.missing) > 1]
    return whole or lines


def no_lines(table: Table, lines: Sequence[Line], along: str) -> str:
    """Return why nothing can be said along an axis, in a sentence; empty if something can."""
    if any(len(line.cells) > 1 for line in lines):
        return ""
    if any(line.missing for line in lines):
        return f"Fewer than two values of {table.title(along)} have results beside one another."
    return f"No two points differ in {table.title(along)} alone: use the design grid."


def scale_of(table: Table, axis: str) -> Scale:
    """Return the scale of a numeric axis, from the values that the cells have."""
    position = table.position(axis)
    values = {cell.values[position].label: cell.values[position] for cell in table.cells}
    found = sorted(values.values(), key=lambda value: value.number or 0.0)
    numbers = [value.number or 0.0 for value in found]
    spec = table.axes[axis].range
    is_log = _is_geometric(numbers) if spec is None else spec.scale == "log"
    contents, amounts = _amounts(found, numbers)
    if amounts.whole or all(isinstance(content, str) and content.isdigit() for content in contents):
        form = Form("", is_whole=True)
    elif amounts.dimension is not None:
        unit = amounts.label(numbers[-1]).partition(" ")[2]
        form = Form(unit, amounts.dimension.units[unit])
    else:
        form = Form(amounts.unit)
    return Scale(table.title(axis), form, is_log, amounts.dimension is units.DURATION)


def _amounts(values: Sequence[Value], numbers: Sequence[float]) -> tuple[list[Any], Amounts]:
    """Return what the numbers of values were written as: names, where linked settings have numbers as names."""
    written: list[Any] = [value.label for value in values]
    contents = [value.settings[0][1] for value in values]
    is_named = numbers_of(written) == tuple(numbers) and numbers_of(contents) != tuple(numbers)
    chosen = written if is_named else contents
    return chosen, amounts_of(chosen)


def _is_geometric(numbers: Sequence[float]) -> bool:
    """Return whether values are spaced more evenly by factors than by steps."""
    if len(numbers) < 3 or numbers[0] <= 0:
        return False
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    factors = [math.log(later / earlier) for earlier, later in itertools.pairwise(numbers)]
    return min(steps) > 0 and max(factors) / min(factors) < max(steps) / min(steps)
