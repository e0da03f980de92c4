"""Markdown that GitHub and MyST render: one file, in which tables stand for the pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analysis.report.formats.chart_tables import table_of
from analysis.report.model import Grid
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.report.model import Opening, Picture, Report, Section
    from analysis.report.words import Words

__all__ = ["escaped", "write"]

_SIGNS = re.compile(r"([\\`*_\[\]<>|$~&{}])")
_STARTS = re.compile(r"^(?:(\d+)([.)])(?=\s|$)|()([#+=-]))")


def write(report: Report) -> bytes:
    """Return the content of the file."""
    blocks = [f"# {escaped(report.title)}", *_opening(report.opening)]
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


def _opening(opening: Opening) -> list[str]:
    """Return the first screen: what decides, in the order in which it is read."""
    blocks = [_styled(opening.question, "*"), _styled(opening.answer, "**"), escaped(opening.doubt)]
    if opening.picture is not None:
        blocks += _picture(opening.picture, 2)
    if opening.drivers:
        blocks += ["## What drives it", _list(opening.drivers)]
    if opening.not_covered:
        blocks += ["## What this does not cover", _list(opening.not_covered)]
    if opening.glossary:
        terms = "\n".join(f"- **{escaped(term)}**: {escaped(meaning)}" for term, meaning in opening.glossary)
        blocks += ["## Words", terms]
    return blocks


def _section(section: Section) -> list[str]:
    """Return a section: its sentence, its text, its pictures and tables, its small print."""
    blocks = [f"## {escaped(section.title)}", *(escaped(text) for text in section.text)]
    for item in section.items:
        blocks += _table(item) if isinstance(item, Grid) else _picture(item, 3)
    return [*blocks, _list(section.notes)]


def _picture(picture: Picture, level: int) -> list[str]:
    """Return what a picture shows in words and as a table, and how to get it."""
    title = getattr(picture.chart, "title", "")
    blocks = [f"{'#' * level} {escaped(title)}"] if title else []
    blocks += [escaped(picture.alt), escaped(picture.caption)]
    table = table_of(picture)
    if table is not None:
        blocks += _table(table, is_titled=table.title != title)
    return [*blocks, f"The picture: `ettrick plot DIR {picture.key} -o {picture.key}.svg`, DIR being the results."]


def _table(grid: Grid, *, is_titled: bool = True) -> list[str]:
    """Return a table with its title and what to know beside it."""
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
