"""Markdown that GitHub and MyST render: one file, in which tables stand for the pictures."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import number_text
from ettrick.analysis.page.charts.data import CellValue
from ettrick.analysis.page.model import Header, TableBlock, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.analysis.page.charts.data import Cell, ChartTable
    from ettrick.analysis.page.model import Figure, FirstScreen, Report, Section, Words

# ----------------------------------------
# What a picture shows, as a table: for formats that hold no pictures, and for pictures that have no table.


def figure_table(figure: Figure) -> TableBlock | None:
    """Return the numbers of a figure as a table; ``None`` for what has none, such as a plan of a cluster."""
    if figure.table is not None or not hasattr(figure.chart, "table"):
        return figure.table
    table: ChartTable = figure.chart.table()
    columns = [[row[index] for row in table.rows] for index in range(len(table.heads))]
    shown = [index for index, cells in enumerate(columns) if index < 2 or any(cell != "" for cell in cells)]
    digits = _digits_of_columns(table, columns)
    of_heads = digits_of(map(_amount, table.heads))
    headers = [Header(_cell_text(table.heads[index], of_heads), _has_numbers(table, index)) for index in shown]
    rows = [tuple(_cell_text(row[index], digits[index]) for index in shown) for row in table.rows]
    return TableBlock(figure.chart.title, headers, rows, table.shades, table.note)


def _digits_of_columns(table: ChartTable, columns: Sequence[Sequence[Cell]]) -> list[int]:
    """Return the digits of each column; of numbers in one unit those that all of them need."""
    if not table.has_one_unit:
        return [digits_of(map(_amount, cells)) for cells in columns]
    of_all = digits_of(_amount(cell) for cells in columns[1:] for cell in cells)
    return [digits_of(map(_amount, columns[0])), *[of_all] * len(columns[1:])]


def _has_numbers(table: ChartTable, index: int) -> bool:
    """Return whether a column holds numbers; the first one names the row, and the second one always has some."""
    if index < 2 or table.shades:
        return index > 0
    return not all(isinstance(row[index], str) for row in table.rows)


def _amount(cell: Cell) -> float | None:
    return cell.amount if isinstance(cell, CellValue) else cell if isinstance(cell, int | float) else None


def _cell_text(cell: Cell, digits: int) -> str:
    """Return a cell as text; an interval has the digits of the numbers that it belongs to."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, CellValue):
        sign = "+" if cell.is_change and cell.amount > 0 else ""
        interval = f" ({_cell_text(cell.ci95, digits)})" if cell.ci95 is not None else ""
        return f"{sign}{number_text(cell.amount, digits)}{interval}{cell.words}"
    return " to ".join(number_text(number, digits) for number in (cell if isinstance(cell, tuple) else (cell,)))


def digits_of(values: Iterable[float | None]) -> int:
    """Return how many digits after the point numbers of one kind are shown with: three or more that count [-]."""
    size = max((abs(value) for value in values if value is not None), default=0.0)
    if size >= 1000 or size == 0:
        return 0
    return 1 if size > 100 else 2 if size >= 1 else 2 + math.ceil(-math.log10(size))


_SIGNS = re.compile(r"([\\`*_\[\]<>|$~&{}])")
_STARTS = re.compile(r"^(?:(\d+)([.)])(?=\s|$)|()([#+=-]))")


def write(report: Report) -> bytes:
    """Return the content of the file."""
    blocks = [f"# {escaped(report.title)}", *_opening(report.first_screen)]
    for section in report.sections:
        blocks += _section(section)
    if report.footer:
        blocks += ["---", _list(report.footer)]
    return ("\n\n".join(block for block in blocks if block) + "\n").encode()


def escaped(words: Words | str) -> str:
    """Return a text as one line of Markdown in which nothing means anything but itself."""
    # What would start a heading, a list or a rule.
    return _STARTS.sub(r"\1\3\\\2\4", _cell(words))


def _cell(words: Words | str) -> str:
    """Return a text as the cell of a table, where nothing starts a block."""
    return _SIGNS.sub(r"\\\1", " ".join(plain(words).split()))


def _opening(first_screen: FirstScreen) -> list[str]:
    blocks = [_styled(first_screen.question, "*"), _styled(first_screen.answer, "**"), escaped(first_screen.doubt)]
    if first_screen.picture is not None:
        blocks += _picture(first_screen.picture, 2)
    if first_screen.drivers:
        blocks += ["## Main drivers", _list(first_screen.drivers)]
    if first_screen.not_covered:
        blocks += ["## What this does not cover", _list(first_screen.not_covered)]
    if first_screen.glossary:
        terms = "\n".join(f"- **{escaped(term)}**: {escaped(meaning)}" for term, meaning in first_screen.glossary)
        blocks += ["## Words", terms]
    return blocks


def _section(section: Section) -> list[str]:
    blocks = [f"## {escaped(section.title)}", *(escaped(text) for text in section.text)]
    for item in section.items:
        blocks += _table(item) if isinstance(item, TableBlock) else _picture(item, 3)
    return [*blocks, _list(section.notes)]


def _picture(picture: Figure, level: int) -> list[str]:
    title = getattr(picture.chart, "title", "")
    blocks = [f"{'#' * level} {escaped(title)}"] if title else []
    blocks += [escaped(picture.alt), escaped(picture.caption)]
    table = figure_table(picture)
    if table is not None:
        blocks += _table(table, is_titled=table.title != title)
    return [*blocks, f"The picture: `ettrick plot DIR {picture.key} -o {picture.key}.svg`, DIR being the results."]


def _table(grid: TableBlock, *, is_titled: bool = True) -> list[str]:
    if not grid.columns:
        return []
    blocks = [_styled(grid.title, "**")] if is_titled and grid.title else []
    rule = ["---:" if column.is_number and place else "---" for place, column in enumerate(grid.columns)]
    lines = [_row([_cell(column.head) for column in grid.columns]), _row(rule)]
    lines += [_row([_cell(cell) for cell in row]) for row in grid.rows]
    return [*blocks, "\n".join(lines), escaped(grid.note)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _styled(words: Words | str, mark: str) -> str:
    text = escaped(words)
    return f"{mark}{text}{mark}" if text else ""


def _list(lines: Iterable[Words | str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)
