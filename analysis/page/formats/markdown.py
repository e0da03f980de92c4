"""Markdown that GitHub and MyST render: one file, in which tables stand for the pictures."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from analysis.metrics import bucket_label
from analysis.page.charts import data
from analysis.page.model import Column, Grid, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from analysis.page.charts.data import Range
    from analysis.page.model import Opening, Picture, Report, Section, Words

# ----------------------------------------
# What a picture shows, as a table: for formats that hold no pictures, and for pictures that have no table.

_NONE = "not known"

_MOST_PLACES = 40


def table_of(picture: Picture) -> Grid | None:
    """Return the numbers of a picture as a table; ``None`` for what has none, such as a plan of a cluster."""
    if picture.table is not None:
        return picture.table
    make = _TABLES.get(type(picture.chart))
    return None if make is None else make(picture.chart)


def digits_of(values: Iterable[float | None]) -> int:
    """Return how many digits after the point numbers of one kind are shown with: three or more that count [-]."""
    size = max((abs(value) for value in values if value is not None), default=0.0)
    if size >= 1000 or size == 0:
        return 0
    return 1 if size > 100 else 2 if size >= 1 else 2 + math.ceil(-math.log10(size))


def number_text(value: float | None, digits: int) -> str:
    """Return a number as text; in words where the data do not support one."""
    if value is None:
        return _NONE
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−")


def range_text(ends: Range | None, digits: int) -> str:
    """Return an interval as text; empty where there is none."""
    return "" if ends is None else f"{number_text(ends[0], digits)} to {number_text(ends[1], digits)}"


def _ranges(*lists: Iterable[Range | None]) -> list[bool]:
    """Return of each list of intervals whether it has any."""
    return [any(ends is not None for ends in one) for one in lists]


def _grid(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int = 1) -> Grid:
    """Return a table whose first columns are labels."""
    columns = [Column(head, position >= labels) for position, head in enumerate(heads)]
    return Grid(title, columns, [tuple(row) for row in rows])


def _waterfall(chart: data.Waterfall) -> Grid:
    digits = digits_of([chart.start[1], chart.end[1]])
    has_interval = any(change.ci95 is not None for change in chart.changes)
    heads = ["", chart.unit, *(["95 % interval"] if has_interval else [])]
    empty = [""] if has_interval else []

    def signed(amount: float) -> str:
        return ("+" if amount > 0 else "") + number_text(amount, digits)

    rows = [[chart.start[0], number_text(chart.start[1], digits), *empty]]
    for change in chart.changes:
        interval = [range_text(change.ci95, digits)] if has_interval else []
        rows.append([change.name, signed(change.amount), *interval])
    rows.append([chart.end[0], number_text(chart.end[1], digits), *empty])
    return _grid(chart.title, heads, rows)


def _intervals(chart: data.Intervals) -> Grid:
    digits = digits_of(row.mean for row in chart.rows)
    has_ci, has_band = _ranges((row.ci95 for row in chart.rows), (row.band90 for row in chart.rows))
    has_note = any(row.note for row in chart.rows)
    heads = ["", f"mean, {chart.unit}" if chart.unit else "mean"]
    heads += ["95 % interval"] * has_ci + ["90 % band of what is not known"] * has_band + ["note"] * has_note
    rows = []
    for row in chart.rows:
        cells = [row.name, number_text(row.mean, digits)]
        cells += [range_text(row.ci95, digits)] * has_ci + [range_text(row.band90, digits)] * has_band
        rows.append([*cells, *([row.note] if has_note else [])])
    if chart.reference is not None:
        filler = [""] * (len(heads) - 2)
        rows.append([chart.reference[1], number_text(chart.reference[0], digits), *filler])
    grid = _grid(chart.title, heads, rows)
    columns = [*grid.columns[:-1], Column("note", is_number=False)] if has_note else grid.columns
    return Grid(grid.title, columns, grid.rows)


def _bars(chart: data.Bars) -> Grid:
    digits = digits_of(value for row in chart.rows for value in row.values)
    heads = [""]
    spread = [
        any(len(row.ci95) > place and row.ci95[place] for row in chart.rows) for place in range(len(chart.series))
    ]
    for name, has_interval in zip(chart.series, spread, strict=True):
        heads += [f"{name} [{chart.unit}]" if chart.unit else name] + ["95 % interval"] * has_interval
    rows = []
    for row in chart.rows:
        cells = [row.name]
        for place, has_interval in enumerate(spread):
            cells.append(number_text(row.values[place], digits))
            if has_interval:
                cells.append(range_text(row.ci95[place] if len(row.ci95) > place else None, digits))
        rows.append(cells)
    return _grid(chart.title, heads, rows)


def _stack(chart: data.Stack) -> Grid:
    digits = digits_of(part.amount for part in chart.parts)
    return _grid(chart.title, ["", chart.unit], ([part.name, number_text(part.amount, digits)] for part in chart.parts))


def _tornado(chart: data.Tornado) -> Grid:
    digits = digits_of(end[1] for swing in chart.swings for end in (swing.low, swing.high))

    def told(end: tuple[str, float, Range | None]) -> str:
        return f"{'+' if end[1] > 0 else ''}{number_text(end[1], digits)} at {end[0]}"

    heads = ["input", f"low end [{chart.unit}]", f"high end [{chart.unit}]"]
    return _grid(chart.title, heads, ([swing.name, told(swing.low), told(swing.high)] for swing in chart.swings))


def _curves(chart: data.Curves) -> Grid:
    """Return a row for each place; of many places an even choice."""
    places = sorted({x for one in chart.series for x in one.x})
    step = -(-len(places) // _MOST_PLACES)
    shown = sorted({*places[::step], *places[-1:]}) if places else []
    names = dict(chart.x.ticks)
    x_digits = digits_of(places)
    digits = digits_of(y for one in chart.series for y in one.y)
    columns = [dict(zip(one.x, one.y, strict=True)) for one in chart.series]
    spreads = [dict(zip(one.x, one.ci95, strict=False)) for one in chart.series]
    heads = [chart.x.title, *(one.name or chart.y.title for one in chart.series)]
    rows = []
    for x in shown:
        cells = [names.get(x, number_text(x, x_digits))]
        for heights, spread in zip(columns, spreads, strict=True):
            ends = spread.get(x)
            text = number_text(heights[x], digits) if x in heights else ""
            cells.append(f"{text} ({range_text(ends, digits)})" if ends is not None and text else text)
        rows.append(cells)
    grid = _grid(chart.title, heads, rows)
    left_out = f" {len(shown)} of {len(places):,} places are shown." if step > 1 else ""
    return Grid(grid.title, grid.columns, grid.rows, note=f"{chart.y.title}.{left_out}")


def _front(chart: data.Front) -> Grid:
    x_digits, y_digits = digits_of(point.x for point in chart.points), digits_of(point.y for point in chart.points)
    words = {"front": "not beaten", "perhaps": "perhaps not beaten", "behind": "beaten"}
    rows = (
        [point.name, number_text(point.x, x_digits), number_text(point.y, y_digits), words[point.standing]]
        for point in sorted(chart.points, key=lambda point: point.standing != "front")
    )
    grid = _grid(chart.title, ["", chart.x.title, chart.y.title, "in both together"], rows)
    return Grid(grid.title, [*grid.columns[:3], Column("in both together", is_number=False)], grid.rows)


def _heat_map(chart: data.HeatMap) -> Grid:
    corner = " / ".join(title for title in (chart.row_title, chart.column_title) if title)
    rows = ([name, *texts] for name, texts in zip(chart.rows, chart.texts, strict=True))
    grid = _grid(chart.title, [corner, *chart.columns], rows)
    return Grid(grid.title, grid.columns, grid.rows, _shades(chart), note=f"in {chart.unit}" if chart.unit else "")


def _shades(chart: data.HeatMap) -> list[list[float | None]]:
    """Return how dark each cell is: the label has none, the worst value is the darkest."""
    known = [value for row in chart.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)

    def shade(value: float | None) -> float | None:
        if value is None or high == low:
            return None
        share = (value - low) / (high - low)
        return 1 - share if chart.high_is_good else share

    return [[None, *(shade(value) for value in row)] for row in chart.values]


def _contours(chart: data.Contours) -> Grid:
    """Return heights over an even choice of places."""
    most = 9
    chosen = []
    for places in (chart.x_values, chart.y_values):
        step = -(-len(places) // most)
        chosen.append(sorted({*range(0, len(places), step), len(places) - 1}) if places else [])
    columns, rows = chosen
    names_x, names_y = dict(chart.x.ticks), dict(chart.y.ticks)
    digits = digits_of(value for row in chart.values for value in row)
    x_digits, y_digits = digits_of(chart.x_values), digits_of(chart.y_values)
    heads = [f"{chart.y.title} / {chart.x.title}"]
    heads += [names_x.get(chart.x_values[at], number_text(chart.x_values[at], x_digits)) for at in columns]
    cells = (
        [
            names_y.get(chart.y_values[at], number_text(chart.y_values[at], y_digits)),
            *(number_text(float(chart.values[at][column]), digits) for column in columns),
        ]
        for at in rows
    )
    grid = _grid(chart.title, heads, cells)
    return Grid(grid.title, grid.columns, grid.rows, note=f"in {chart.unit}" if chart.unit else "")


def _calendar(chart: data.Calendar) -> Grid:
    """Return how long each thing was done."""
    days: dict[str, float] = {}
    for phase in chart.phases:
        days[phase.bucket] = days.get(phase.bucket, 0.0) + phase.end - phase.start
    order = sorted(days, key=lambda name: -days[name])
    return _grid(chart.title, ["", "days"], ([bucket_label(name), number_text(days[name], 2)] for name in order))


_TABLES: dict[type, Callable[[Any], Grid]] = {
    data.Bars: _bars,
    data.Calendar: _calendar,
    data.Contours: _contours,
    data.Curves: _curves,
    data.Front: _front,
    data.HeatMap: _heat_map,
    data.Intervals: _intervals,
    data.Stack: _stack,
    data.Tornado: _tornado,
    data.Waterfall: _waterfall,
}


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
