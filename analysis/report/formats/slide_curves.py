"""Pictures over a plane as charts of a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.plots.style import BLUE, GREY, INK, hue
from analysis.report.formats.chart_tables import digits_of
from analysis.report.formats.slide_axes import (
    add_chart,
    add_points,
    color_series,
    label_series,
    range_bars,
    scale_axis,
    show_legend,
    title_axes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.plots import charts
    from analysis.plots.charts import Range, Series
    from analysis.report.formats.deck import Box

__all__ = ["curves", "front"]

Points = list[tuple[float, float]]

_MOST_SERIES = 8
_MOST_NAMES = 12
_MOST_WHISKERS = 24


def curves(slide: Any, box: Box, chart: charts.Curves) -> bool:
    """Draw curves, with their intervals as whiskers, and what they are held against."""
    known = [(one, _points(one)) for one in chart.series]
    drawn = [(one, points) for one, points in known if points]
    if not drawn or len(drawn) > _MOST_SERIES:
        return False
    if _has_names(chart):
        return _categories(slide, box, chart)
    lines: dict[str, Points] = {}
    looks: list[tuple[str, float, bool]] = []

    def add(name: str, points: Points, color: str, width: float, *, is_point: bool = False) -> None:
        lines[_unused(name, lines)] = points
        looks.append((color, width, is_point))

    for one, points in drawn:
        add(one.name or chart.y.title, points, hue(one.hue), 1.25 if one.look == "dashed" else 2.25)
    for name, points in _rulers(chart, [points for _, points in drawn]):
        add(name, points, GREY, 1.0)
    for dot in chart.dots:
        add(f"{dot.name} ({dot.source})" if dot.source else dot.name, [(dot.x, dot.y)], INK, 1.0, is_point=True)
    made = add_points(slide, box, lines)
    for number, (color, width, is_point) in enumerate(looks):
        color_series(made, number, color, has_line=not is_point, has_marker=is_point, width=width)
    for number, (one, points) in enumerate(drawn):
        range_bars(made, number, [y for _, y in points], _ranges(one, points))
    places = [x for points in lines.values() for x, _ in points]
    heights = [y for points in lines.values() for _, y in points]
    scale_axis(made.category_axis, digits=digits_of(places), is_log=chart.x.is_log and min(places) > 0)
    scale_axis(made.value_axis, digits=digits_of(heights), is_log=chart.y.is_log and min(heights) > 0)
    if len(looks) > 1:
        show_legend(made)
    beyond = f"; {chart.shaded_from[1]} from {chart.shaded_from[0]:,g} on" if chart.shaded_from is not None else ""
    title_axes(made, chart.y.title, f"{chart.x.title}{beyond}")
    return True


def front(slide: Any, box: Box, chart: charts.Front) -> bool:
    """Draw candidates in two aims; those that are not beaten are joined and named."""
    kinds = {"front": "not beaten", "perhaps": "perhaps not beaten", "behind": "beaten"}
    colors = {"front": BLUE, "perhaps": hue(5), "behind": GREY}
    order = sorted(chart.points, key=lambda point: point.x)
    found = {kind: [point for point in order if point.standing == kind] for kind in kinds}
    found = {kind: points for kind, points in found.items() if points}
    if not found:
        return False
    made = add_points(slide, box, {kinds[kind]: [(one.x, one.y) for one in points] for kind, points in found.items()})
    for number, (kind, points) in enumerate(found.items()):
        color_series(made, number, colors[kind], has_line=kind == "front", width=1.25)
        range_bars(made, number, [one.y for one in points], [one.y_ci95 for one in points])
        if kind == "front" and len(points) <= _MOST_NAMES:
            for place, one in enumerate(points):
                frame = made.plots[0].series[number].points[place].data_label.text_frame
                frame.text = one.name
    xs, ys = [point.x for point in chart.points], [point.y for point in chart.points]
    scale_axis(made.category_axis, digits=digits_of(xs), is_log=chart.x.is_log and min(xs) > 0)
    scale_axis(made.value_axis, digits=digits_of(ys), is_log=chart.y.is_log and min(ys) > 0)
    show_legend(made)
    title_axes(
        made,
        f"{chart.y.title} ({'less' if chart.lowest_y_is_best else 'more'} is better)",
        f"{chart.x.title} ({'less' if chart.lowest_x_is_best else 'more'} is better)",
    )
    return True


def _has_names(chart: charts.Curves) -> bool:
    """Return whether places are choices that have names, and no numbers."""
    names = dict(chart.x.ticks)
    places = {x for one in chart.series for x in one.x}
    return bool(names) and places <= names.keys() and not all(name[:1].isdigit() for name in names.values())


def _categories(slide: Any, box: Box, chart: charts.Curves) -> bool:
    """Draw curves over choices."""
    places = sorted({x for one in chart.series for x in one.x})
    names = dict(chart.x.ticks)
    columns: dict[str, list[float | None]] = {}
    for one in chart.series:
        heights = dict(zip(one.x, one.y, strict=True))
        columns[_unused(one.name or chart.y.title, columns)] = [heights.get(x) for x in places]
    made = add_chart(slide, box, "LINE_MARKERS", [names[x] for x in places], columns)
    digits = digits_of(y for one in chart.series for y in one.y)
    for number, one in enumerate(chart.series):
        color_series(made, number, hue(one.hue))
        ranges: dict[float, Range | None] = dict(zip(one.x, one.ci95, strict=False))
        range_bars(made, number, list(columns.values())[number], [ranges.get(x) for x in places])
    if len(chart.series) == 1:
        label_series(made, 0, digits)
    else:
        show_legend(made)
    scale_axis(made.value_axis, digits=digits)
    title_axes(made, chart.y.title, chart.x.title)
    return True


def _points(one: Series) -> Points:
    """Return the places and heights of a curve that are known; a step goes along first, then up."""
    known = [(x, y) for x, y in zip(one.x, one.y, strict=True) if y is not None]
    if one.look != "step":
        return known
    stairs: Points = []
    for x, y in known:
        stairs += [(x, stairs[-1][1]), (x, y)] if stairs else [(x, y)]
    return stairs


def _ranges(one: Series, points: Points) -> list[Range | None]:
    """Return the interval of each point of a curve; of long curves only so many that they can be told apart."""
    known = {(x, y): ends for x, y, ends in zip(one.x, one.y, one.ci95, strict=False)}
    every = -(-len(points) // _MOST_WHISKERS)
    return [known.get(point) if place % every == 0 else None for place, point in enumerate(points)]


def _rulers(chart: charts.Curves, drawn: Sequence[Points]) -> list[tuple[str, Points]]:
    """Return the levels and edges that curves are held against, as lines."""
    xs = [x for points in drawn for x, _ in points]
    ys = [y for points in drawn for _, y in points]
    across = [(name, [(min(xs), level), (max(xs), level)]) for level, name in chart.levels]
    return across + [(name, [(place, min(ys)), (place, max(ys))]) for place, name in chart.edges]


def _unused(name: str, used: Any) -> str:
    """Return a name that no other series has."""
    number, tried = 2, name
    while tried in used:
        tried, number = f"{name} ({number})", number + 1
    return tried
