"""Tables of results that a function makes up, so that the right answer to every question is known."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.study.axis import Axis
from analysis.study.designs import DESIGNS
from analysis.study.questions.kinds import QUESTIONS
from analysis.study.table import Cell, Outcome, Table
from sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.study.amounts import Point
    from analysis.study.questions.question import Answer


def table_of(
    axes: Mapping[str, Any],
    function: Callable[[dict[str, Any]], Mapping[str, Sequence[float]]],
    *,
    design: Mapping[str, Any] | None = None,
    metrics: tuple[str, ...] = ("ettr",),
) -> Table:
    """Return the table of a study whose metrics are what a function says, one number per replication.

    Parameters
    ----------
    axes
        What varies, as a study writes it, or read already.
    function
        Is given the number of each axis by name, or its label where it has none; an empty answer is a point that
        cannot run.
    """
    varied = {
        name: content if isinstance(content, Axis) else Axis.model_validate(content) for name, content in axes.items()
    }
    told = {"use": "grid", **(design or {})}
    points = DESIGNS[told["use"]].model_validate(told).points(varied, np.random.default_rng(1))
    cells: dict[int, list[Outcome]] = {}
    for point in points:
        cells.setdefault(point.cell, []).append(_outcome(varied, point, function))
    found = tuple(Cell(first, tuple(rest)) for first, *rest in cells.values())
    return Table(varied, found, metrics, 1)


def _outcome(axes: Mapping[str, Axis], point: Point, function: Callable[[dict[str, Any]], Any]) -> Outcome:
    where = {
        name: value.label if value.number is None else value.number
        for name, value in zip(axes, point.values, strict=True)
    }
    rows = function(where)
    if not rows:
        return Outcome(point, status="infeasible", trouble="no room for the job")
    return Outcome(point, {name: [Ratio(value, 1.0) for value in values] for name, values in rows.items()})


def broken(table: Table, number: int, **changes: Any) -> Table:
    """Return a table of which one cell has another outcome."""
    cells = list(table.cells)
    cells[number] = dataclasses.replace(cells[number], stated=dataclasses.replace(cells[number].stated, **changes))
    return dataclasses.replace(table, cells=tuple(cells))


def common_noise(count: int, size: float = 0.01, seed: int = 5) -> np.ndarray:
    """Return numbers with the mean zero that all points have in common: the same failures."""
    noise = np.random.default_rng(seed).normal(size=count)
    return size * (noise - noise.mean()) / noise.std(ddof=1)


def ask(table: Table, **question: Any) -> Answer:
    """Return the answer of a table to a question as a study writes it, checked as a study would."""
    found = QUESTIONS[question["ask"]].model_validate(question)
    found.check(table.axes, table.metrics)
    return found.answer(table)
