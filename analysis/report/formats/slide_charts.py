"""Pictures as charts of a slide, which can be edited there: the numbers are in the sheet behind each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from analysis.plots import charts
from analysis.plots.style import BLUE, GREEN, GREY, ORANGE, hue
from analysis.report.formats.chart_tables import digits_of, table_of
from analysis.report.formats.slide_axes import (
    add_chart,
    color_series,
    hide_series,
    label_series,
    range_bars,
    scale_axis,
    show_legend,
    title_axes,
)
from analysis.report.formats.slide_curves import curves, front

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.report.formats.deck import Box, Deck
    from analysis.report.model import Picture

__all__ = ["note_of", "show_picture"]

_MOST_ROWS = 14
_MOST_BARS = 9


def show_picture(deck: Deck, slide: Any, box: Box, picture: Picture) -> None:
    """Put a picture on a slide: as a chart, as a table where there is no such chart, or in words."""
    draw = _NATIVE.get(type(picture.chart))
    if draw is not None and draw(slide, box, picture.chart):
        return
    grid = table_of(picture)
    if grid is not None and grid.columns:
        deck.table(slide, box, grid)
    else:
        deck.text(slide, box, (picture.alt,), (12, 20))


def _waterfall(slide: Any, box: Box, chart: charts.Waterfall) -> bool:
    """Draw stacked columns that stand on an invisible base; none where they would cross zero."""
    heights = _heights(chart)
    if _is_table(heights):
        return False
    steps = list(itertools.pairwise(heights))
    names = [chart.start[0], *(change.name for change in chart.changes), chart.end[0]]
    columns = {
        "base": [None, *(min(pair) for pair in steps), None],
        "total": [chart.start[1], *[None] * len(steps), chart.end[1]],
        "gain": [None, *(after - before if after > before else None for before, after in steps), None],
        "loss": [None, *(before - after if after < before else None for before, after in steps), None],
    }
    made = add_chart(slide, box, "COLUMN_STACKED", names, columns, overlap=100)
    digits = digits_of([chart.start[1], chart.end[1]])
    hide_series(made, 0)
    for number, (color, sign) in enumerate(((BLUE, ""), (GREEN, "+"), (ORANGE, "−")), start=1):
        color_series(made, number, color)
        label_series(made, number, digits, sign=sign)
    ranges = [None, *(change.ci95 for change in chart.changes), None]
    for number, is_gain in ((0, False), (2, True)):  # a loss ends where its base ends
        ends = [change.amount if (change.amount > 0) is is_gain else None for change in chart.changes]
        range_bars(made, number, [None, *ends, None], ranges)
    scale_axis(made.value_axis, floor=_floor(heights), digits=digits)
    title_axes(made, chart.unit)
    return True


def note_of(picture: Picture) -> str:
    """Return what to know to read a picture as it is drawn here, and nowhere else: where the axis of columns begins."""
    chart = picture.chart
    heights = _heights(chart) if isinstance(chart, charts.Waterfall) else [0.0]
    floor = 0.0 if _is_table(heights) else _floor(heights)
    return f"The axis begins at {floor:,g}, so the full columns are cut off." if floor else ""


def _heights(chart: charts.Waterfall) -> list[float]:
    """Return where a waterfall stands before, between and after its steps."""
    return list(itertools.accumulate((change.amount for change in chart.changes), initial=chart.start[1]))


def _is_table(heights: list[float]) -> bool:
    """Return whether these steps are too many for columns, or cross zero."""
    return len(heights) > _MOST_ROWS + 1 or min(heights) < 0


def _floor(heights: list[float]) -> float:
    """Return where an axis may start so that small steps between large heights are seen; 0 where they are anyway."""
    low, high = min(heights), max(heights)
    if low <= 0.5 * high:
        return 0.0
    size = 10.0 ** (len(str(int(high - low))) - 1) if high - low >= 1 else 0.1
    return max(((low - 0.3 * (high - low)) // size) * size, 0.0)


def _intervals(slide: Any, box: Box, chart: charts.Intervals) -> bool:
    """Draw a point for each row, with its interval: points need no zero."""
    rows = [row for row in chart.rows if row.mean is not None]
    if not rows or len(rows) > _MOST_ROWS:
        return False
    columns: dict[str, list[float | None]] = {"mean": [row.mean for row in rows]}
    if chart.reference is not None:
        columns[chart.reference[1]] = [chart.reference[0]] * len(rows)
    made = add_chart(slide, box, "LINE_MARKERS", [row.name for row in rows], columns)
    digits = digits_of(row.mean for row in rows)
    color_series(made, 0, BLUE, has_line=False)
    label_series(made, 0, digits)
    means = [row.mean for row in rows if row.mean is not None]
    wide = [row.band90 or row.ci95 for row in rows]
    range_bars(made, 0, means, wide)
    if chart.reference is not None:
        color_series(made, 1, GREY, has_marker=False)
        show_legend(made)
    scale_axis(made.value_axis, digits=digits)
    has_band = any(row.band90 for row in rows)
    whiskers = "whiskers: 90 % band of what is not known" if has_band else "whiskers: 95 % interval"
    title_axes(made, f"{chart.unit} ({whiskers})" if any(wide) else chart.unit)
    return True


def _bars(slide: Any, box: Box, chart: charts.Bars) -> bool:
    """Draw horizontal bars."""
    if not chart.rows or len(chart.rows) > _MOST_ROWS:
        return False
    columns = {name: [row.values[place] for row in chart.rows] for place, name in enumerate(chart.series)}
    made = add_chart(slide, box, "BAR_CLUSTERED", [row.name for row in chart.rows], columns, is_downward=True)
    digits = digits_of(value for row in chart.rows for value in row.values)
    for place in range(len(chart.series)):
        color_series(made, place, hue(place))
        label_series(made, place, digits)
        known = [row.values[place] for row in chart.rows]
        ranges = [row.ci95[place] if len(row.ci95) > place else None for row in chart.rows]
        range_bars(made, place, known, ranges)
    if len(chart.series) > 1:
        show_legend(made)
    scale_axis(made.value_axis, digits=digits)
    title_axes(made, chart.unit)
    return True


def _tornado(slide: Any, box: Box, chart: charts.Tornado) -> bool:
    """Draw what each end of an input changes, in one row."""
    swings = chart.swings[:_MOST_ROWS]
    if not swings:
        return False
    names = [f"{swing.name} ({swing.low[0]} to {swing.high[0]})" for swing in swings]
    columns: dict[str, list[float | None]] = {
        "at the low end": [swing.low[1] for swing in swings],
        "at the high end": [swing.high[1] for swing in swings],
    }
    made = add_chart(slide, box, "BAR_CLUSTERED", names, columns, is_downward=True, overlap=100)
    digits = digits_of(end[1] for swing in swings for end in (swing.low, swing.high))
    for number, color in enumerate((BLUE, ORANGE)):
        color_series(made, number, color)
        label_series(made, number, digits)
        ends = [(swing.low, swing.high)[number] for swing in swings]
        range_bars(made, number, [end[1] for end in ends], [end[2] for end in ends])
    show_legend(made)
    scale_axis(made.value_axis, digits=digits)
    title_axes(made, f"change from {chart.center[0]} [{chart.unit}]")
    return True


def _stack(slide: Any, box: Box, chart: charts.Stack) -> bool:
    """Draw one bar of parts."""
    if not chart.parts:
        return False
    columns: dict[str, list[float | None]] = {part.name: [part.amount] for part in chart.parts}
    if len(columns) < len(chart.parts):
        return False
    made = add_chart(slide, box, "BAR_STACKED", [""], columns, overlap=100)
    digits = digits_of(part.amount for part in chart.parts)
    whole = sum(part.amount for part in chart.parts)
    for number, part in enumerate(chart.parts):
        color_series(made, number, hue(part.hue))
        if part.amount > 0.04 * whole:  # smaller ones have no room for a number
            label_series(made, number, digits, is_inside=True)
    show_legend(made)
    scale_axis(made.value_axis, digits=digits)
    title_axes(made, chart.unit)
    return True


def _amounts(slide: Any, box: Box, chart: charts.HeatMap) -> bool:
    """Draw what was lost as a stacked bar for each row; the values of other maps do not add up, and stay a table."""
    known = [[value or 0.0 for value in row] for row in chart.values]
    if chart.high_is_good or not known or min(map(min, known)) < 0:
        return False
    kept = _MOST_BARS if len(known) <= _MOST_BARS else _MOST_BARS - 1
    names, rows = list(chart.rows[:kept]), known[:kept]
    if known[kept:]:
        names.append("all others")
        rows.append([sum(column) for column in zip(*known[kept:], strict=True)])
    columns: dict[str, list[float | None]] = {
        name: [row[place] for row in rows]
        for place, name in enumerate(chart.columns)
        if any(row[place] for row in rows)
    }
    made = add_chart(slide, box, "BAR_STACKED", names, columns, is_downward=True, overlap=100)
    for number in range(len(columns)):
        color_series(made, number, hue(number))
    show_legend(made)
    scale_axis(made.value_axis, digits=0)
    title_axes(made, chart.unit)
    return True


_NATIVE: dict[type, Callable[[Any, Box, Any], bool]] = {
    charts.Bars: _bars,
    charts.Curves: curves,
    charts.Front: front,
    charts.HeatMap: _amounts,
    charts.Intervals: _intervals,
    charts.Stack: _stack,
    charts.Tornado: _tornado,
    charts.Waterfall: _waterfall,
}
"""What is drawn as a chart; returns whether it could be."""
