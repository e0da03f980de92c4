"""Charts over two axes: curves, and candidates by two aims."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.amounts import decimals_of, number_text
from ettrick.analysis.page.charts.data import UNKNOWN90
from ettrick.analysis.page.charts.sheet import (
    BLUE,
    FAINT,
    GREY,
    INK,
    LINE,
    MARKERS,
    QUIET,
    TEXT,
    WIDTH,
    LegendEntry,
    beside,
    block_height,
    block_width,
    cut,
    extent,
    hue,
    low,
    numbers_in,
    open_message,
    open_sheet,
    set_scale,
    share,
    sized,
    ticks_of,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.analysis.page.charts.data import ChartAxis, Curves, Dot, FrontChart, FrontPoint, Range, Series
    from ettrick.analysis.page.charts.sheet import SheetBox

_LINE = LINE * TEXT / 72  # height of a line of text [in]
_NAME = 1.7  # width of the name of a measured value, or of a candidate, at most [in]


class _Plane(NamedTuple):
    """Axes with two scales, of a known size: across and up [in]."""

    figure: Figure
    axes: Axes
    across: float
    up: float
    x: ChartAxis
    y: ChartAxis
    ends: tuple[Range, Range]

    def inches(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is from the lower left corner of the axes [in]."""
        return self.across * share(x, self.ends[0], self.x.is_log), self.up * share(y, self.ends[1], self.y.is_log)

    def write(self, x: float, y: float, text: str, **look: object) -> None:
        """Write a text at a place from the lower left corner of the axes [in]."""
        place: Any = {"transform": self.axes.transAxes, "size": TEXT, "color": INK, "va": "center", **look}
        self.axes.text(x / self.across, y / self.up, text, **place)


def _open_plane(
    title: str, x: ChartAxis, y: ChartAxis, ends: tuple[Range, Range], *, height: float, note: str = "",
    key: Sequence[LegendEntry] = (),
) -> _Plane:  # fmt: skip
    """Return a figure with two scales; the axes are so high [in]."""
    left = max(0.2 + max((width_of(text) for _, text in ticks_of(y, *ends[1], 6, y.unit)), default=0.0), 0.35)
    # The last label has room where the values end.
    right = max(0.25, min(width_of(x.ticks[-1][1]) / 2 + 0.06, sized(0.8)) if x.ticks else 0.0)
    figure, axes = open_sheet(title, height, (left, right, _LINE + 0.12 if y.title else 0.08, 0.48), note, key)
    axes.grid(axis="both", color=FAINT, linewidth=0.7)
    set_scale(axes, "x", x, ends[0], x.unit)
    set_scale(axes, "y", y, ends[1], y.unit)
    plane = _Plane(figure, axes, sized(WIDTH) - left - right, height, x, y, ends)
    if y.title:
        title = y.title.replace(" [%]", "")
        plane.write(0.1 - left, height + _LINE / 2 + 0.1, cut(title, sized(WIDTH) - 0.2), alpha=QUIET)
    return plane


def _with_names(draw: Callable[[str], tuple[Figure, int]], note: str = "") -> Figure:
    """Return a figure that says for how many names it has no room."""
    figure, nameless = draw(note)
    return draw(f"{note} There is no room for {nameless} of the names.".strip())[0] if nameless else figure


# ----------------------------------------
# Curves over a common axis.

_MANY = 8  # curves that can be distinguished
_CI95, _BAND90 = 0.32, 0.13  # opacities of 95 % intervals and of the wider bands
_FEW = 40  # up to so many values each has a mark
_THEORY = (0, (4, 2))  # dashes of what was not simulated
# Dashes of the lines that curves are held against, one after another.
_DASHES = ((0, (1, 1.5)), (0, (6, 2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 4)))


def draw_curves(chart: Curves) -> Figure:
    """Draw the first eight curves with their intervals and bands; their names are in the key."""
    chart = _drawable(chart)
    if not chart.series and not chart.dots:
        return open_message(chart.title, "There are no values to draw.")
    total = len(chart.series)
    note = f"The first {_MANY} of {total} curves are drawn." if total > _MANY else ""
    return _with_names(functools.partial(_draw_over, chart._replace(series=chart.series[:_MANY])), note)


def _fits(value: float | None, scale: ChartAxis) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not scale.is_log)


def _drawable(chart: Curves) -> Curves:
    """Return a picture without what its axes cannot show, with curves in colours that distinguish them."""
    series = [_drawable_curve(curve, chart) for curve in chart.series]
    series = [curve for curve in series if any(y is not None for y in curve.y)]
    if len({(curve.hue, curve.look) for curve in series}) < len(series):
        series = [curve._replace(hue=index) for index, curve in enumerate(series)]
    return chart._replace(
        series=tuple(series),
        levels=tuple(level for level in chart.levels if _fits(level[0], chart.y)),
        edges=tuple(edge for edge in chart.edges if _fits(edge[0], chart.x)),
        dots=tuple(dot for dot in chart.dots if _fits(dot.x, chart.x) and _fits(dot.y, chart.y)),
    )


def _drawable_curve(curve: Series, chart: Curves) -> Series:
    points = itertools.zip_longest(curve.x, curve.y, curve.ci95, curve.band90)
    drawable = [(x, y if _fits(y, chart.y) else None, *spans) for x, y, *spans in points if _fits(x, chart.x)]
    x, y, ci95, band90 = zip(*drawable, strict=True) if drawable else ((),) * 4
    return curve._replace(x=x, y=y, ci95=ci95, band90=band90)


def _ends_of(chart: Curves) -> tuple[Range, Range]:
    marks: list[tuple[float | None, float | None]] = [(dot.x, dot.y) for dot in chart.dots]
    marks += [*((place, None) for place, _ in chart.edges), *((None, level) for level, _ in chart.levels)]
    across, up = numbers_in([x for x, _ in marks]), numbers_in([y for _, y in marks])
    for curve in chart.series:
        across += curve.x
        up += numbers_in(curve.y, curve.ci95, curve.band90)
    x_ends, y_ends = extent(across, chart.x.is_log, 0.02), extent(up, chart.y.is_log)
    if not chart.y.is_log and y_ends[0] < 0 <= min(up, default=0.0):
        y_ends = (0.0, y_ends[1])
    return _no_more_than_all(chart.x, across, x_ends), _no_more_than_all(chart.y, up, y_ends)


def _no_more_than_all(axis: ChartAxis, values: Sequence[float], ends: Range) -> Range:
    """Return the ends of an axis, on which shares end at 100 %."""
    return (ends[0], min(ends[1], 100.0)) if axis.unit and max(values, default=0.0) <= 100.0 else ends


def _key_of(chart: Curves, end: float) -> list[LegendEntry]:
    """Return what curves, lines to hold them against, and extrapolated ground are called."""
    key = [
        LegendEntry(curve.name, hue(curve.hue), 1.0, _THEORY if curve.look == "dashed" else "line", marker)
        for curve, marker in zip(chart.series, _markers(chart.series), strict=True) if curve.name
    ]  # fmt: skip
    key += [LegendEntry(name, INK, 1.0, dashes) for (_, name), dashes in _references(chart) if name]
    if chart.shaded_from is not None and chart.shaded_from[0] < end:
        key.append(LegendEntry(chart.shaded_from[1], FAINT))
    return key


def _markers(series: Sequence[Series]) -> list[str]:
    """Return the mark of each curve: several curves have different ones; a single one has dots on few values."""
    if len(series) > 1:
        return list(MARKERS[: len(series)])
    return ["o" if len(curve.x) == 1 or (curve.look == "line" and len(curve.x) <= _FEW) else "" for curve in series]


_SEEN = 0.01  # part of the height of a picture from which on a band can be seen


def _on_bands(chart: Curves, ends: Range) -> str:
    """Return what shaded bands are, of those that are wide enough to be seen."""
    spans = {curve.span: "Shaded" for curve in chart.series if _is_seen(curve.ci95, chart.y, ends)}
    if any(_is_seen(curve.band90, chart.y, ends) for curve in chart.series):
        spans[UNKNOWN90] = "Pale"
    return " ".join(f"{how}: {what}." for what, how in spans.items())


def _is_seen(spans: Sequence[Range | None], axis: ChartAxis, ends: Range) -> bool:
    return any(share(span[1], ends, axis.is_log) - share(span[0], ends, axis.is_log) > _SEEN for span in spans if span)


def _references(chart: Curves) -> Iterator[tuple[tuple[float, str], Any]]:
    """Yield levels and edges with their dashes."""
    return zip((*chart.levels, *chart.edges), itertools.cycle(_DASHES), strict=False)


def _draw_over(chart: Curves, note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names of measured values it has no room for."""
    ends = _ends_of(chart)
    end = ends[0][1]
    note = f"{_on_bands(chart, ends[1])} {note}".strip()
    x = _at_the_data(chart, ends[0])
    plane = _open_plane(chart.title, x, chart.y, ends, height=low(3.2), note=note, key=_key_of(chart, end))
    for index, ((value, _), dashes) in enumerate(_references(chart)):
        draw_line = plane.axes.axhline if index < len(chart.levels) else plane.axes.axvline
        draw_line(value, color=INK, linewidth=1.0, linestyle=dashes)
    if chart.shaded_from is not None and chart.shaded_from[0] < end:
        plane.axes.axvspan(max(chart.shaded_from[0], ends[0][0]), end, color=FAINT, linewidth=0, zorder=0)
    for index, (curve, marker) in enumerate(zip(chart.series, _markers(chart.series), strict=True)):
        _draw_series(plane.axes, curve, marker, index)
    return plane.figure, _draw_dots_of(plane, chart)


_MOST_TICKS, _WIDE = 9, 0.5  # values of curves that are labelled at most; part of the axis that they take at least


def _at_the_data(chart: Curves, ends: Range) -> ChartAxis:
    """Return the axis across, labelled where curves have their values if these are few and on most of the axis."""
    places = sorted({x for curve in chart.series for x in curve.x})
    if chart.x.ticks or not 1 < len(places) <= _MOST_TICKS:
        return chart.x
    if share(places[-1], ends, chart.x.is_log) - share(places[0], ends, chart.x.is_log) < _WIDE:
        return chart.x
    decimals = decimals_of(places)
    return chart.x._replace(ticks=tuple((place, number_text(place, decimals)) for place in places))


def _draw_series(axes: Axes, series: Series, marker: str, index: int) -> None:
    """Draw a curve and its bands; of many values some have marks, not the same ones on each curve."""
    color, every = hue(series.hue), max(len(series.x) // 8, 1)
    look: dict[str, Any] = {"color": color, "linewidth": 1.8, "clip_on": False}
    if series.look == "step":
        look["drawstyle"] = "steps-post"
    if series.look == "dashed":
        look["linestyle"] = _THEORY
    for spans, opacity in ((series.band90, _BAND90), (series.ci95, _CI95)):
        _draw_band(axes, series, spans, opacity, color)
    look |= {"marker": marker, "markersize": 4.5, "zorder": 2.5}
    if len(series.x) > _FEW:
        look["markevery"] = (index * every // len(MARKERS), every)
    axes.plot(series.x, [math.nan if y is None else y for y in series.y], **look)


def _draw_band(axes: Axes, series: Series, spans: Sequence[Range | None], opacity: float, color: str) -> None:
    """Shade between the ends of intervals; one that has no neighbour is a line."""
    low = axes.get_ylim()[0]
    ends = [(math.nan, math.nan) if span is None else (max(span[0], low), max(span[1], low)) for span in spans]
    has_span = [span is not None for span in spans]
    if not any(has_span):
        return
    axes.fill_between(
        series.x[: len(ends)], [start for start, _ in ends], [end for _, end in ends], color=color, alpha=opacity,
        linewidth=0, step="post" if series.look == "step" else None,
    )  # fmt: skip
    for index, is_known in enumerate(has_span):
        if is_known and not any(has_span[max(index - 1, 0) : index] + has_span[index + 1 : index + 2]):
            axes.plot([series.x[index]] * 2, ends[index], color=color, alpha=opacity, linewidth=4)


def _draw_dots_of(plane: _Plane, chart: Curves) -> int:
    """Draw measured values with their names next to them; return for how many names there is no room."""
    look: Any = {"color": INK, "markeredgecolor": "white", "zorder": 4, "clip_on": False}
    for dot in chart.dots:
        plane.axes.plot([dot.x], [dot.y], marker="D", markersize=5.5, **look)
    spots = [plane.inches(dot.x, dot.y) for dot in chart.dots]
    lines, references = _on_lines(plane, chart.series), _on_references(plane, chart)
    return _write_names(plane, spots, [_named(dot) for dot in chart.dots], [lines + references, lines])


def _on_references(plane: _Plane, chart: Curves) -> list[SheetBox]:
    """Return where lines lie that curves are held against."""
    levels = [plane.inches(plane.ends[0][0], height)[1] for height, _ in chart.levels]
    edges = [plane.inches(place, plane.ends[1][0])[0] for place, _ in chart.edges]
    across, up = plane.across, plane.up
    return [*((0.0, y - 0.02, across, y + 0.02) for y in levels), *((x - 0.02, 0.0, x + 0.02, up) for x in edges)]


def _write_names(
    plane: _Plane, spots: Sequence[tuple[float, float]], texts: Sequence[str], filled: Sequence[Sequence[SheetBox]],
    looks: Sequence[dict[str, Any]] = (),
) -> int:  # fmt: skip
    """Write names next to their points, joined to them where these are far; return how many have no room.

    Names keep away from the first of what is filled if they can, and else from the next.
    """
    sizes = [(block_width(text) + 0.04, block_height(text)) for text in texts]
    boxes: list[SheetBox | None] = [None]
    for kept_free in (*filled, []):
        if None in boxes:  # rather a name on what matters less than no name
            boxes = beside(spots, sizes, (0.0, 0.0, plane.across, plane.up), kept_free)
    for (x, y), text, box, look in zip(spots, texts, boxes, looks or [{}] * len(spots), strict=True):
        if box is None:
            continue
        left, bottom, right, top = box
        near = (min(max(x, left), right), min(max(y, bottom), top))
        if math.dist(near, (x, y)) > 0.2:
            places = [x / plane.across, near[0] / plane.across], [y / plane.up, near[1] / plane.up]
            plane.axes.plot(*places, transform=plane.axes.transAxes, clip_on=False, color=GREY, linewidth=0.6)
        plane.write(left + 0.02, (bottom + top) / 2, text, zorder=5, **look)
    return boxes.count(None)


def _named(dot: Dot) -> str:
    """Return the name of a measured value with who measured it, if that is short enough to be read in a picture."""
    text = wrapped(f"{dot.name} ({dot.source})", sized(_NAME)) if dot.source else dot.name
    return text if dot.source and text.endswith(")") and "…" not in text else wrapped(dot.name, sized(_NAME))


def _around(x: float, y: float, half: float) -> SheetBox:
    return x - half, y - half, x + half, y + half


def _on_lines(plane: _Plane, series: Sequence[Series]) -> list[SheetBox]:
    boxes = []
    for curve in series:
        spots = [plane.inches(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
        for start, end in itertools.pairwise(spots):
            count = min(max(int(math.dist(start, end) / 0.08), 1), 60)
            boxes += [_around(x, y, 0.03) for x, y in np.linspace(start, end, count, endpoint=False).tolist()]
    return boxes


# ----------------------------------------
# Two aims against each other.

_FEW_FRONT = 12  # up to so many candidates all have their names, beyond only those that may be on the front

_KEYS = {
    "front": LegendEntry("not beaten in both", BLUE, 1.0, "dot"),
    "perhaps": LegendEntry("perhaps not beaten", BLUE, 1.0, "ring"),
    "behind": LegendEntry("beaten in both", GREY, 1.0, "dot"),
}


def draw_front(chart: FrontChart) -> Figure:
    """Draw candidates as dots, with names and 95 % intervals where they matter, and a line along the front."""
    points = [point for point in chart.points if _fits(point.x, chart.x) and _fits(point.y, chart.y)]
    if not points:
        return open_message(chart.title, "No candidate has both values.")
    points.sort(key=lambda point: list(_KEYS).index(point.ranking))
    return _with_names(functools.partial(_draw_of_front, chart, points))


def _draw_of_front(chart: FrontChart, points: Sequence[FrontPoint], note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names it has no room for."""
    x = chart.x._replace(title=f"{'← better' if chart.lowest_x_is_best else 'better →'}    {chart.x.title}")
    y = chart.y._replace(title=f"{'↓' if chart.lowest_y_is_best else '↑'} better    {chart.y.title}")
    ends = (
        extent(numbers_in([point.x for point in points], [point.x_ci95 for point in points]), x.is_log, 0.07),
        extent(numbers_in([point.y for point in points], [point.y_ci95 for point in points]), y.is_log, 0.07),
    )
    named = [point for point in points if len(points) <= _FEW_FRONT or point.ranking != "behind"]
    height = min(3.4 + 0.08 * max(len(named) - 10, 0), 7.0)
    key = [entry for ranking, entry in _KEYS.items() if any(point.ranking == ranking for point in points)]
    plane = _open_plane(chart.title, x, y, ends, height=height, note=note, key=key)
    _draw_crosses(plane.axes, named)
    _draw_points(plane.axes, points)
    return plane.figure, _name_points(plane, named, [point for point in points if point not in named])


def _draw_points(axes: Axes, points: Sequence[FrontPoint]) -> None:
    """Draw points full on the front, which a line joins, hollow where they may be on it, small behind."""
    for ranking, entry in _KEYS.items():
        places = sorted((point.x, point.y) for point in points if point.ranking == ranking)
        across, up = [x for x, _ in places], [y for _, y in places]
        if ranking == "front":
            axes.plot(across, up, color=BLUE, alpha=0.35, linewidth=1.5)
        look: dict[str, Any] = {"color": entry.color, "gid": ranking, "zorder": 3, "linestyle": "", "marker": "o"}
        face = "white" if entry.mark == "ring" else entry.color
        axes.plot(across, up, markerfacecolor=face, markersize=4 if ranking == "behind" else 6, **look)


def _name_points(plane: _Plane, named: Sequence[FrontPoint], unnamed: Sequence[FrontPoint]) -> int:
    """Write the names of candidates, which keep away from the others and from intervals if they can."""
    dots = [_around(*plane.inches(point.x, point.y), 0.03) for point in unnamed]
    lines = [(*plane.inches(*start), *plane.inches(*end)) for point in named for start, end in _cross(point)]
    crosses = [tuple(np.add(line, (-0.02, -0.02, 0.02, 0.02)).tolist()) for line in lines]
    spots = [plane.inches(point.x, point.y) for point in named]
    ground = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
    looks = [{"alpha": QUIET if point.ranking == "behind" else 1.0, "bbox": ground} for point in named]
    names = [wrapped(point.name, sized(_NAME)) for point in named]
    return _write_names(plane, spots, names, [[*dots, *crosses], dots], looks)


def _draw_crosses(axes: Axes, points: Sequence[FrontPoint]) -> None:
    from matplotlib.collections import LineCollection

    lines = [(line, _KEYS[point.ranking].color) for point in points for line in _cross(point)]
    look: Any = {"colors": [color for _, color in lines], "linewidths": 1.0, "alpha": 0.6}
    axes.add_collection(LineCollection([line for line, _ in lines], **look))


def _cross(point: FrontPoint) -> list[list[tuple[float, float]]]:
    """Return the lines of the intervals of a candidate."""
    lines = [(x, point.y) for x in point.x_ci95 or ()], [(point.x, y) for y in point.y_ci95 or ()]
    return [line for line in lines if line]
