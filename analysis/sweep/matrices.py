"""One metric of a grid as matrices: two axes down and across, and a matrix for each combination of the others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from analysis.cells import empty_table
from analysis.metrics import lower_is_better
from analysis.sweep.cell_text import finished_text, known, mean_text, title_of, where_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from analysis.answers.words import Form
    from analysis.sweep.cell_text import Content
    from analysis.sweep.sheet import Sheet

__all__ = ["print_matrices"]

_MOST_ROWS = 40
_MOST_COLUMNS = 12
"""Columns of a matrix at most; wider ones are told row by row."""
_MOST_MATRICES = 12
_MOST_NAMED = 10


def print_matrices(sheet: Sheet, content: Content, chosen: Sequence[str], metric: str, form: Form) -> bool:
    """Print the means of one metric over two axes, for each combination of the others; return whether that is fit."""
    shape = _shape(content, chosen)
    if shape is None:
        return False
    tables = _matrices(content, *shape, metric, form)
    if not all(sheet.fits(table, 1) for _, table in tables):
        # The other way round there are fewer columns, or shorter ones.
        tables = _matrices(content, shape[1], shape[0], shape[2], metric, form)
        if not all(sheet.fits(table, 1) for _, table in tables):
            return False
        shape = shape[1], shape[0], shape[2]
    down, across = (content["axes"][name]["title"] for name in shape[:2])
    sheet.heading(f"{title_of(metric)}: {down} (down) and {across} (across)")
    for title, table in tables:
        if title:
            sheet.tell(title)
        sheet.table(table, 1)
    _print_below(sheet, content, metric, form)
    return True


def _shape(content: Content, chosen: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """Return which axes go down and across, and the others; ``None`` where the cells are better told one by one.

    They are a whole grid without anything unknown or any precision. Down and across go the two with the most values.
    """
    cells = content["cells"]
    counts = {name: len({cell["values"][name] for cell in cells}) for name in chosen}
    if len(chosen) < 2 or content["precision"] is not None or any(cell["draws"] for cell in cells):
        return None
    largest = sorted(chosen, key=lambda name: -counts[name])[:2]
    down, across = (name for name in chosen if name in largest)
    if counts[across] > _MOST_COLUMNS >= counts[down]:
        down, across = across, down
    matrices = len({tuple(cell["values"][name] for name in chosen if name not in largest) for cell in cells})
    is_whole = counts[down] * counts[across] * matrices == len(cells)
    fits = counts[down] <= _MOST_ROWS and counts[across] <= _MOST_COLUMNS and matrices <= _MOST_MATRICES
    return (down, across, [name for name in chosen if name not in largest]) if is_whole and fits else None


def _matrices(
    content: Content, down: str, across: str, others: Sequence[str], metric: str, form: Form
) -> list[tuple[str, Table]]:
    """Return a matrix of means for each combination of the other axes, with its title; the best has an asterisk."""
    axes = [*others, down, across]
    cells = {tuple(cell["values"][name] for name in axes): cell for cell in content["cells"]}
    best = _best(content, metric)
    values = {name: list(dict.fromkeys(cell["values"][name] for cell in content["cells"])) for name in axes}
    found = []
    for fixed in itertools.product(*(values[name] for name in others)):
        table = empty_table(content["axes"][down]["title"], *values[across])
        for row in values[down]:
            texts = []
            for column in values[across]:
                cell = cells[*fixed, row, column]
                mean = mean_text(cell["metrics"].get(metric, {}), form)
                texts.append(f"{mean}{' *' if cell['cell'] == best else '  '}")
            table.add_row(row, *texts)
        where = zip((content["axes"][name]["title"] for name in others), fixed, strict=True)
        found.append((", ".join(f"{title} = {label}" for title, label in where), table))
    return found


def _best(content: Content, metric: str) -> int | None:
    """Return the number of the cell with the best mean."""
    means = {cell["cell"]: mean for cell in content["cells"] if (mean := known(cell, metric, "mean")) is not None}
    pick = min if lower_is_better(metric) else max
    return pick(means, key=lambda number: means[number], default=None)


def _print_below(sheet: Sheet, content: Content, metric: str, form: Form) -> None:
    """Print how well the means of matrices are known, and where jobs were not finished."""
    ranges = [known(cell, metric, "mean_ci95") for cell in content["cells"]]
    halves = [(ends[1] - ends[0]) / 2 for ends in ranges if ends is not None]
    if halves:
        low, high = (f"{half / form.size:.2g}" for half in (min(halves), max(halves)))
        span = f"{low if low == high else f'{low} to {high}'} {form.step or form.unit}".rstrip()
        word = "lowest" if lower_is_better(metric) else "highest"
        sheet.tell(f"* the {word} mean; 95 % intervals are means ± {span}")
    late = [cell for cell in content["cells"] if cell["censored"]]
    if late:
        told = [f"({where_text(content, cell)}) in {finished_text(cell)} runs" for cell in late[:_MOST_NAMED]]
        more = f" and {len(late) - _MOST_NAMED} more cells" if len(late) > _MOST_NAMED else ""
        sheet.tell(f"finished at the horizon: {', '.join(told)}{more}")
