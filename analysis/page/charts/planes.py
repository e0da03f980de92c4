"""Charts over two axes: curves, and candidates by two aims."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.page.charts.data import Curves, FrontChart
from ettrick.analysis.page.charts.sheet import (
    BLUE,
    FAINT,
    GREY,
    INK,
    LINE,
    QUIET,
    TEXT,
    WIDTH,
    LegendEntry,
    Margins,
    SheetBox,
    beside,
    block_height,
    block_width,
    chart_kind,
    cut,
    extent,
    hue,
    lanes,
    left_of,
    open_axes,
    open_message,
    open_plane,
    open_sheet,
    pushed_apart,
    scale_x,
    scale_y,
    share,
    sized,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.analysis.page.charts.data import ChartAxis, Dot, FrontPoint, Range, Series
    from ettrick.analysis.page.charts.sheet import Plane

# ----------------------------------------
# Curves over a common axis.

_MANY = 8  # more curves than these have a panel each
_LABEL = 1.75  # width of a name at the right at most [in]
_LEADER = 0.28  # from the axes to the names at their right [in]
_TOGETHER = 0.06  # curves that are not further apart than this are together there [in]
_FAR = 0.4  # curves that end so far from the right end have a thin dotted leader, which nobody takes for a curve [in]
_LINE = LINE * TEXT / 72  # height of a line of text [in]
_WORD = 3.4  # width of a name above the axes at most [in]
_NAME = 1.7  # width of the name of a measured value, or of a candidate, at most [in]
_CI95, _BAND90 = 0.32, 0.13  # opacities of 95 % intervals and of the wider bands
_FEW = 40  # up to so many values each has a mark
_DASHED: Any = {"color": GREY, "linewidth": 1.0, "linestyle": (0, (4, 2))}
_DOTTED: Any = {"color": INK, "linewidth": 1.0, "linestyle": (0, (1, 1.5))}


@chart_kind(Curves)
def draw_curves(chart: Curves) -> Figure:
    """Draw curves with their intervals and bands; names stand at their right ends.

    More than eight curves are drawn in a panel each, in front of all the others.
    """
    chart = _drawable(chart)
    if not chart.series and not chart.dots:
        return open_message(chart.title, "There are no values to draw.")
    if len(chart.series) > _MANY:
        return _draw_panels(chart)
    return _with_names(functools.partial(_draw_over, chart))


def _with_names(draw: Any) -> Figure:
    figure, nameless = draw("")
    if nameless:
        figure, _ = draw(f"There is no room for {nameless} of the names.")
    made: Figure = figure
    return made


def _drawable(chart: Curves) -> Curves:
    """Return a picture without what its axes cannot show, with curves in colours that distinguish them."""

    def fits(value: float | None, scale: ChartAxis) -> bool:
        return value is not None and math.isfinite(value) and (value > 0 or not scale.is_log)

    series: list[Series] = []
    for one in chart.series:
        kept = [number for number, x in enumerate(one.x) if fits(x, chart.x)]
        y = tuple(one.y[number] if fits(one.y[number], chart.y) else None for number in kept)
        spans = [tuple(each[number] for number in kept if number < len(each)) for each in (one.ci95, one.band90)]
        if any(value is not None for value in y):
            x = tuple(one.x[number] for number in kept)
            series.append(one._replace(x=x, y=y, ci95=spans[0], band90=spans[1]))
    if len({(one.hue, one.look) for one in series}) == 1:
        series = [one._replace(hue=number) for number, one in enumerate(series)]
    return chart._replace(
        series=tuple(series),
        levels=tuple(level for level in chart.levels if fits(level[0], chart.y)),
        edges=tuple(edge for edge in chart.edges if fits(edge[0], chart.x)),
        dots=tuple(dot for dot in chart.dots if fits(dot.x, chart.x) and fits(dot.y, chart.y)),
    )


def _ends_of(chart: Curves) -> tuple[Range, Range]:
    across = [x for each in chart.series for x in each.x] + [place for place, _ in chart.edges]
    up = [y for each in chart.series for y in each.y] + [level for level, _ in chart.levels]
    up += [end for each in chart.series for span in (*each.ci95, *each.band90) if span is not None for end in span]
    across += [dot.x for dot in chart.dots]
    up += [dot.y for dot in chart.dots]
    x_ends, y_ends = extent(across, chart.x.is_log, 0.02), extent(up, chart.y.is_log)
    if not chart.y.is_log and y_ends[0] < 0 <= min((y for y in up if y is not None), default=0.0):
        y_ends = (0.0, y_ends[1])
    return x_ends, y_ends


def _key_of(series: Sequence[Series]) -> list[LegendEntry]:
    words = ("95 % interval", _CI95), ("90 % band: inputs that are not known exactly", _BAND90)
    spans = [[span for each in series for span in each.ci95], [span for each in series for span in each.band90]]
    return [LegendEntry(text, INK, opacity) for (text, opacity), found in zip(words, spans, strict=True) if any(found)]


class _Label(NamedTuple):
    """A name at the right: its lines, the point that it belongs to, its colour, its look, and its curve."""

    text: str
    x: float
    y: float
    color: str
    is_dashed: bool
    series: Series | None = None


def _draw_over(chart: Curves, note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names of measured values it has no room for."""
    ends = _ends_of(chart)
    labels = []
    for each in chart.series:
        if each.name:
            x, y = max((x, y) for x, y in zip(each.x, each.y, strict=True) if y is not None)
            labels.append(_Label(wrapped(each.name, sized(_LABEL)), x, y, hue(each.hue), each.look == "dashed", each))
    names = [(wrapped(name, sized(_LABEL)), level) for level, name in chart.levels if name]
    labels += [_Label(name, ends[0][1], level, GREY, is_dashed=True) for name, level in names]
    right = max((block_width(label.text) + _LEADER + 0.1 for label in labels), default=0.25)
    height = max(3.2, sum(block_height(label.text) for label in labels) + 0.1)
    flags = _flags(chart, ends[0], sized(WIDTH) - right - left_of(chart.y, ends[1]), right)
    above = _LINE * max((lane + 1 for _, _, lane in flags), default=0)
    plane = open_plane(
        chart.title, (chart.x, chart.y), ends, height=height, right=right, above=above, note=note,
        key=_key_of(chart.series),
    )  # fmt: skip
    _draw_ground(plane.axes, chart, ends[0])
    for (place, _), (_, _, lane) in zip(chart.edges, flags, strict=False):
        top = 1 + (lane + 0.8) * _LINE / plane.up
        plane.axes.plot(
            [place, place], [0, top], transform=plane.axes.get_xaxis_transform(), clip_on=False, **_DOTTED
        )  # fmt: skip
    for word, start, lane in flags:
        plane.write(start + 0.05, plane.up + (lane + 0.5) * _LINE, word)
    for each in chart.series:
        _draw_series(plane.axes, each)
    _write_labels(plane, labels)
    return plane.figure, _draw_dots_of(plane, chart)


def _flags(chart: Curves, ends: Range, across: float, right: float) -> list[tuple[str, float, int]]:
    """Return names of places on the axis and of extrapolated ground: where each begins [in], and its lane."""
    wanted = [*chart.edges]
    if chart.shaded_from is not None and chart.shaded_from[0] < ends[1]:
        wanted.append(chart.shaded_from)
    stems = [across * max(share(place, ends, chart.x.is_log), 0.0) for place, _ in wanted]
    words = [cut(name, min(_WORD, across)) for _, name in wanted]
    placed = lanes(stems, [width_of(word) + 0.1 for word in words], across + right - 0.1)
    return [(word, *place) for word, place in zip(words, placed, strict=True)]


def _draw_ground(axes: Axes, chart: Curves, ends: Range) -> None:
    for level, _ in chart.levels:
        axes.axhline(level, **_DASHED)
    if chart.shaded_from is not None and chart.shaded_from[0] < ends[1]:
        axes.axvspan(max(chart.shaded_from[0], ends[0]), ends[1], color=FAINT, alpha=0.7, linewidth=0, zorder=0)


def _draw_series(axes: Axes, series: Series, is_faint: bool = False) -> None:
    """Draw a curve and its bands; a faint one is only there to be held against."""
    color = FAINT if is_faint else hue(series.hue)
    heights = [math.nan if y is None else y for y in series.y]
    look: dict[str, Any] = {"color": color, "linewidth": 1.0 if is_faint else 1.8}
    if series.look == "step":
        look["drawstyle"] = "steps-post"
    if series.look == "dashed":
        look["linestyle"] = (0, (4, 2))
    if not is_faint:
        for spans, opacity in ((series.band90, _BAND90), (series.ci95, _CI95)):
            _draw_band(axes, series, spans, opacity, color)
    has_marks = len(series.x) == 1 or (series.look == "line" and len(series.x) <= _FEW and not is_faint)
    axes.plot(
        series.x, heights, marker="o" if has_marks else "", markersize=3.5, zorder=1.5 if is_faint else 2.5, **look
    )


def _draw_band(axes: Axes, series: Series, spans: Sequence[Range | None], opacity: float, color: str) -> None:
    """Shade between the ends of intervals; one that has no neighbour is a line."""
    low = axes.get_ylim()[0]
    ends = [(math.nan, math.nan) if span is None else (max(span[0], low), max(span[1], low)) for span in spans]
    known = [span is not None for span in spans]
    if not any(known):
        return
    axes.fill_between(
        series.x[: len(ends)], [start for start, _ in ends], [end for _, end in ends], color=color, alpha=opacity,
        linewidth=0, step="post" if series.look == "step" else None,
    )  # fmt: skip
    for number, is_known in enumerate(known):
        if is_known and not any(known[max(number - 1, 0) : number] + known[number + 1 : number + 2]):
            axes.plot([series.x[number]] * 2, ends[number], color=color, alpha=opacity, linewidth=4)


def _write_labels(plane: Plane, labels: Sequence[_Label]) -> None:
    labels = _in_order(plane, labels)
    spots = [plane.inches(label.x, label.y) for label in labels]
    sizes = [block_height(label.text) for label in labels]
    # As they are in order, the height of each is that of the one below at least.
    heights = pushed_apart(list(itertools.accumulate((y for _, y in spots), max)), sizes, -0.1, plane.up)
    for label, (x, y), height in zip(labels, spots, heights, strict=True):
        leader = [x, plane.across + 0.06, plane.across + _LEADER - 0.05]
        is_far = plane.across - x > _FAR
        dashes = (0, (1, 3)) if is_far else (0, (3, 1.5)) if label.is_dashed else "-"
        plane.axes.plot(
            [place / plane.across for place in leader], [each / plane.up for each in (y, y, height)],
            transform=plane.axes.transAxes, color=label.color, linewidth=0.7 if is_far else 1.2,
            alpha=0.8, clip_on=False, linestyle=dashes,
        )  # fmt: skip
        plane.write(plane.across + _LEADER, height, label.text, va="center")


def _in_order(plane: Plane, labels: Sequence[_Label]) -> list[_Label]:
    """Return names from below to above; those of curves that end together as the curves were before they met.

    Curves that are together all along keep the order in which they are given, the first at the top.
    """

    def compare(one: _Label, other: _Label) -> int:
        if one.series is not None and other.series is not None:
            heights = [dict(zip(each.x, each.y, strict=True)) for each in (one.series, other.series)]
            for place in sorted(heights[0].keys() & heights[1].keys(), reverse=True):
                pair = [each[place] for each in heights]
                ends = [plane.inches(place, y)[1] for y in pair if y is not None]
                if len(ends) == len(pair) and abs(ends[0] - ends[1]) > _TOGETHER:
                    return 1 if ends[0] > ends[1] else -1
        return 0

    found: list[_Label] = []
    at = [(plane.inches(label.x, label.y)[1], label) for label in reversed(labels)]
    at.sort(key=lambda pair: pair[0])
    while at:
        count = next((n for n in range(1, len(at)) if at[n][0] - at[n - 1][0] > _TOGETHER), len(at))
        names = [label for label in reversed(labels) if any(label is each for _, each in at[:count])]
        found += sorted(names, key=functools.cmp_to_key(compare))
        at = at[count:]
    return found


def _draw_dots_of(plane: Plane, chart: Curves) -> int:
    """Draw measured values with their names beside them; return for how many names there is no room."""
    spots = [plane.inches(dot.x, dot.y) for dot in chart.dots]
    texts = [_named(dot) for dot in chart.dots]
    sizes = [(block_width(text) + 0.04, block_height(text)) for text in texts]
    boxes = beside(spots, sizes, plane.room, _on_lines(plane, chart.series))
    boxes = boxes if None not in boxes else beside(spots, sizes, plane.room, [])
    for dot, text, spot, box in zip(chart.dots, texts, spots, boxes, strict=True):
        look: dict[str, Any] = {"color": INK, "markeredgecolor": "white", "zorder": 4, "clip_on": False}
        plane.axes.plot([dot.x], [dot.y], marker="D", markersize=5.5, **look)
        _write_name(plane, text, spot, box, zorder=5)
    return boxes.count(None)


def _write_name(plane: Plane, text: str, spot: tuple[float, float], box: SheetBox | None, **look: object) -> None:
    """Write the name of a point into a box, and join it to the point if it is far."""
    if box is None:
        return
    (x, y), (left, bottom, right, top) = spot, box
    near = (min(max(x, left), right), min(max(y, bottom), top))
    if (near[0] - x) ** 2 + (near[1] - y) ** 2 > 0.2**2:
        ends = [(x / plane.across, near[0] / plane.across), (y / plane.up, near[1] / plane.up)]
        plane.axes.plot(*ends, transform=plane.axes.transAxes, color=GREY, linewidth=0.6)
    plane.write(left + 0.02, (bottom + top) / 2, text, va="center", **look)


def _named(dot: Dot) -> str:
    """Return the name of a measured value with who measured it, if that is short enough to be read in a picture."""
    text = wrapped(f"{dot.name} ({dot.source})", sized(_NAME)) if dot.source else dot.name
    return text if dot.source and text.endswith(")") and "…" not in text else wrapped(dot.name, sized(_NAME))


def _on_lines(plane: Plane, series: Sequence[Series]) -> list[SheetBox]:
    found = []
    for each in series:
        spots = [plane.inches(x, y) for x, y in zip(each.x, each.y, strict=True) if y is not None]
        for (x, y), (end_x, end_y) in itertools.pairwise(spots):
            count = min(max(int(math.hypot(end_x - x, end_y - y) / 0.08), 1), 60)
            for part in np.linspace(0.0, 1.0, count, endpoint=False).tolist():
                middle = (x + part * (end_x - x), y + part * (end_y - y))
                found.append(SheetBox(middle[0] - 0.03, middle[1] - 0.03, middle[0] + 0.03, middle[1] + 0.03))
    return found


# ----------------------------------------
# Many curves: one panel each.

_COLUMN = 2.1  # width of a panel with the room around it at least [in]
_HEIGHT = 1.15
_MOST = 18  # panels of a picture at most


def _draw_panels(chart: Curves) -> Figure:
    """Draw each curve in a panel of its own in front of all the others, on common axes.

    Levels, places on the axis and measured values are in every panel, and explained above all of them.
    """
    shown = chart.series[:_MOST]
    ends = _ends_of(chart)
    width = sized(WIDTH)
    columns = int(width / _COLUMN)
    rows = math.ceil(len(shown) / columns)
    left = left_of(chart.y, ends[1])
    across = (width - left - 0.2 - 0.15 * (columns - 1)) / columns
    each_up = _HEIGHT + _LINE + 0.1
    note = _panels_note(chart, len(shown))
    figure, frame = open_sheet(chart.title, rows * each_up, Margins(left, 0.2, 0.0, 0.5), note, _key_of(shown))
    frame.set_axis_off()
    height = float(figure.get_size_inches()[1])
    for number, one in enumerate(shown):
        row, column = divmod(number, columns)
        bottom = 0.6 + (rows - row - 1) * each_up
        start = left + column * (across + 0.15)
        axes = open_axes(figure, (start / width, bottom / height, across / width, _HEIGHT / height), grid="both")
        _draw_ground(axes, chart, ends[0])
        for place, _ in chart.edges:
            axes.axvline(place, **_DOTTED)
        for dot in chart.dots:
            axes.plot([dot.x], [dot.y], marker="D", markersize=4, color=INK, markeredgecolor="white", zorder=4)
        scale_x(axes, chart.x._replace(title=""), ends[0])
        scale_y(axes, chart.y, ends[1])
        axes.tick_params(labelleft=column == 0, labelbottom=number + columns >= len(shown))
        for other in shown:
            if other is not one:
                _draw_series(axes, other, is_faint=True)
        _draw_series(axes, one)
        name = cut(one.name, across - 0.05, TEXT, is_bold=True)
        axes.text(0.0, 1.02, name, transform=axes.transAxes, size=TEXT, color=INK, va="bottom", weight="bold")
    return figure


def _panels_note(chart: Curves, shown: int) -> str:
    total = len(chart.series)
    said = {
        f"Across: {chart.x.title}.": chart.x.title,
        f"Up: {chart.y.title}.": chart.y.title,
        f"The first {shown} of {total} have a panel.": shown < total,
        f"Dashed: {', '.join(name for _, name in chart.levels)}.": chart.levels,
        f"Dotted: {', '.join(name for _, name in chart.edges)}.": chart.edges,
        f"Grey ground: {chart.shaded_from and chart.shaded_from[1]}.": chart.shaded_from,
        "Diamonds: measured values.": chart.dots,
    }
    return " ".join(text for text, is_so in said.items() if is_so)


# ----------------------------------------
# Two aims against each other.

_FEW_FRONT = 12  # up to so many candidates all have their names, beyond only those that may be on the front

_KEYS = {
    "front": LegendEntry("not beaten in both", BLUE, 1.0, "dot"),
    "perhaps": LegendEntry("perhaps not beaten", BLUE, 1.0, "ring"),
    "behind": LegendEntry("beaten in both", GREY, 1.0, "dot"),
}


@chart_kind(FrontChart)
def draw_front(chart: FrontChart) -> Figure:
    """Draw candidates as dots, with names and 95 % intervals where they matter, and a line along the front."""
    points = [one for one in chart.points if (one.x > 0 or not chart.x.is_log) and (one.y > 0 or not chart.y.is_log)]
    if not points:
        return open_message(chart.title, "No candidate has both values.")
    return _with_names(functools.partial(_draw_of_front, chart, points))


def _draw_of_front(chart: FrontChart, points: Sequence[FrontPoint], note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names it has no room for."""
    from matplotlib.collections import LineCollection

    x = chart.x._replace(title=f"{'← better' if chart.lowest_x_is_best else 'better →'}    {chart.x.title}")
    y = chart.y._replace(title=f"{'↓' if chart.lowest_y_is_best else '↑'} better    {chart.y.title}")
    ends = (
        extent([spot for point in points for spot in (point.x, *(point.x_ci95 or ()))], x.is_log, 0.07),
        extent([spot for point in points for spot in (point.y, *(point.y_ci95 or ()))], y.is_log, 0.07),
    )
    key = [entry for ranking, entry in _KEYS.items() if any(point.ranking == ranking for point in points)]
    named = [point for point in points if len(points) <= _FEW_FRONT or point.ranking != "behind"]
    height = min(3.4 + 0.08 * max(len(named) - 10, 0), 7.0)
    plane = open_plane(chart.title, (x, y), ends, height=height, note=note, key=key)
    line = sorted((point.x, point.y) for point in points if point.ranking == "front")
    if line:
        plane.axes.plot(*zip(*line, strict=True), color=BLUE, alpha=0.35, linewidth=1.5)
    crosses = [(line, _KEYS[point.ranking].color) for point in named for line in _crosses(point)]
    lines, colors = [line for line, _ in crosses], [color for _, color in crosses]
    plane.axes.add_collection(LineCollection(lines, colors=colors, linewidths=1.0, alpha=0.6))
    for ranking, entry in _KEYS.items():
        # Full on the front, hollow where they may be on it, small behind.
        here = [point for point in points if point.ranking == ranking]
        plane.axes.plot(
            [point.x for point in here], [point.y for point in here], linestyle="", marker="o", color=entry.color,
            markersize=4 if ranking == "behind" else 6, gid=ranking, zorder=3,
            markerfacecolor="white" if ranking == "perhaps" else entry.color,
        )  # fmt: skip
    return plane.figure, _write_names(plane, named, [point for point in points if point not in named])


def _crosses(point: FrontPoint) -> list[list[tuple[float, float]]]:
    lines = [(x, point.y) for x in point.x_ci95 or ()], [(point.x, y) for y in point.y_ci95 or ()]
    return [line for line in lines if line]


def _write_names(plane: Plane, named: Sequence[FrontPoint], others: Sequence[FrontPoint]) -> int:
    """Write names beside their points, joined to them where these are far; return how many have no room."""
    order = sorted(named, key=lambda point: list(_KEYS).index(point.ranking))
    texts = [wrapped(point.name, sized(_NAME)) for point in order]
    sizes = [(block_width(text) + 0.04, block_height(text)) for text in texts]
    dots = [plane.inches(point.x, point.y) for point in others]
    filled = [SheetBox(x - 0.03, y - 0.03, x + 0.03, y + 0.03) for x, y in dots]
    lines = [[plane.inches(x, y) for x, y in line] for point in named for line in _crosses(point)]
    crosses = [SheetBox(left - 0.02, low - 0.02, right + 0.02, high + 0.02) for (left, low), (right, high) in lines]
    spots = [plane.inches(point.x, point.y) for point in order]
    boxes: list[SheetBox | None] = [None]
    for kept_free in ([*filled, *crosses], filled, []):
        if None in boxes:  # rather a name on what matters less than no name
            boxes = beside(spots, sizes, plane.room, kept_free)
    ground = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
    for point, text, spot, box in zip(order, texts, spots, boxes, strict=True):
        alpha = QUIET if point.ranking == "behind" else 1.0
        _write_name(plane, text, spot, box, alpha=alpha, zorder=4, bbox=ground)
    return boxes.count(None)
