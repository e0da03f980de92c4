"""Pictures as charts of a slide, which can be edited there: the numbers are in the sheet behind each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from analysis.page.charts import data
from analysis.page.charts.sheet import BLUE, FAINT, GREEN, GREY, INK, ORANGE, hue
from analysis.page.formats.deck import color_of
from analysis.page.formats.markdown import digits_of, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.page.charts.data import Range, Series
    from analysis.page.formats.deck import Box, Deck
    from analysis.page.model import Picture

# ----------------------------------------
# Parts of charts on slides: series, their labels and whiskers, axes and legends.


def add_chart(
    slide: Any,
    box: Box,
    kind: str,
    names: Sequence[str],
    columns: Mapping[str, Sequence[float | None]],
    *,
    is_downward: bool = False,
    overlap: int | None = None,
) -> Any:
    """Return a chart over categories.

    Parameters
    ----------
    slide, box
        Where it is put.
    kind
        A name of ``pptx.enum.chart.XL_CHART_TYPE``.
    names, columns
        The categories, and the values of each series; ``None`` leaves a cell of the sheet empty.
    is_downward
        Whether the first category is the topmost of horizontal bars.
    overlap
        How far bars of one category lie over each other [%].
    """
    from pptx.enum.chart import XL_CHART_TYPE

    data = _sheet("CategoryChartData")
    data.categories = list(names)
    for name, values in columns.items():
        data.add_series(name, list(values))
    chart = _framed(slide, box, getattr(XL_CHART_TYPE, kind), data)
    if kind != "LINE_MARKERS":
        chart.plots[0].gap_width = 45
    if overlap is not None:
        chart.plots[0].overlap = overlap
    if is_downward:
        from pptx.enum.chart import XL_TICK_LABEL_POSITION

        chart.category_axis.reverse_order = True
        # The values stay below although the order is turned; labels stay at the left where bars go to the left.
        chart.category_axis.tick_label_position = XL_TICK_LABEL_POSITION.LOW
        chart.value_axis.tick_label_position = XL_TICK_LABEL_POSITION.HIGH
    return finished(chart)


def add_points(slide: Any, box: Box, series: Mapping[str, Sequence[tuple[float, float]]]) -> Any:
    """Return a chart over a plane, with a series of points of each name."""
    from pptx.enum.chart import XL_CHART_TYPE

    data = _sheet("XyChartData")
    for name, points in series.items():
        one = data.add_series(name)
        for x, y in points:
            one.add_data_point(x, y)
    return finished(_framed(slide, box, XL_CHART_TYPE.XY_SCATTER_LINES_NO_MARKERS, data))


def _sheet(kind: str) -> Any:
    """Return an empty sheet behind a chart."""
    from pptx.chart import data

    return getattr(data, kind)()


def _framed(slide: Any, box: Box, kind: Any, data: Any) -> Any:
    from pptx.util import Inches

    return slide.shapes.add_chart(kind, *(Inches(value) for value in box), data).chart


def finished(chart: Any) -> Any:
    """Return a chart in the one style of all: plain type, a faint grid, no frames."""
    from pptx.util import Pt

    chart.has_title = False
    chart.has_legend = False
    chart.font.size, chart.font.color.rgb = Pt(12), color_of(INK)
    for axis in (chart.category_axis, chart.value_axis):
        axis.format.line.color.rgb = color_of(GREY)
        axis.has_major_gridlines = False
    chart.value_axis.has_major_gridlines = True
    chart.value_axis.major_gridlines.format.line.color.rgb = color_of(FAINT)
    return chart


def color_series(
    chart: Any, number: int, color: str, *, has_line: bool = True, has_marker: bool = True, width: float = 2.0
) -> None:
    """Give a series its colour: bars are filled; lines and points are drawn, or not."""
    from pptx.enum.chart import XL_MARKER_STYLE
    from pptx.util import Pt

    series = chart.plots[0].series[number]
    if not hasattr(series, "marker"):
        series.invert_if_negative = False
        series.format.fill.solid()
        series.format.fill.fore_color.rgb = color_of(color)
        return
    if hasattr(series, "smooth"):
        series.smooth = False
    if has_line:
        series.format.line.color.rgb, series.format.line.width = color_of(color), Pt(width)
    else:
        series.format.line.fill.background()
    series.marker.style = XL_MARKER_STYLE.CIRCLE if has_marker else XL_MARKER_STYLE.NONE
    if has_marker:
        series.marker.size = 9
        series.marker.format.fill.solid()
        series.marker.format.fill.fore_color.rgb = color_of(color)
        series.marker.format.line.color.rgb = color_of(color)


def hide_series(chart: Any, number: int) -> None:
    """Make a series invisible: others stand on it."""
    series = chart.plots[0].series[number]
    series.format.fill.background()
    series.format.line.fill.background()


def number_format(digits: int, sign: str = "") -> str:
    """Return a number format of Office, with a sign before numbers."""
    number = f"#,##0{'.' + '0' * digits if digits else ''}"
    return f'"{sign}"{number}' if sign else f'{number};"−"{number}'


def label_series(chart: Any, number: int, digits: int, *, sign: str = "", is_inside: bool = False) -> None:
    """Write its value at each bar or point of a series."""
    from pptx.enum.chart import XL_LABEL_POSITION
    from pptx.util import Pt

    series = chart.plots[0].series[number]
    labels = series.data_labels
    labels.show_value = True
    labels.number_format, labels.number_format_is_linked = number_format(digits, sign), False
    labels.font.size = Pt(11)
    if hasattr(series, "marker"):
        labels.position = XL_LABEL_POSITION.RIGHT
    elif is_inside:
        labels.position = XL_LABEL_POSITION.CENTER
        labels.font.color.rgb = color_of("#ffffff")


def range_bars(
    chart: Any, number: int, values: Sequence[float | None], ranges: Sequence[Range | None], *, axis: str = "y"
) -> None:
    """Draw the interval of each value of a series as whiskers, which python-pptx has no words for."""
    from pptx.oxml import parse_xml
    from pptx.oxml.ns import nsdecls

    if not any(value is not None and ends is not None for value, ends in zip(values, ranges, strict=True)):
        return
    sides = []
    for name, at in (("plus", 1), ("minus", 0)):
        points = "".join(
            f'<c:pt idx="{place}"><c:v>{abs(ends[at] - value)!r}</c:v></c:pt>'
            for place, (value, ends) in enumerate(zip(values, ranges, strict=True))
            if value is not None and ends is not None
        )
        sides.append(f'<c:{name}><c:numLit><c:ptCount val="{len(values)}"/>{points}</c:numLit></c:{name}>')
    direction = f'<c:errDir val="{axis}"/>' if chart.plots[0].__class__.__name__ == "XyPlot" else ""
    line = f'<a:ln w="15875"><a:solidFill><a:srgbClr val="{INK[1:]}"/></a:solidFill></a:ln>'
    bars = parse_xml(
        f'<c:errBars {nsdecls("c", "a")}>{direction}<c:errBarType val="both"/><c:errValType val="cust"/>'
        f'<c:noEndCap val="0"/>{"".join(sides)}<c:spPr>{line}</c:spPr></c:errBars>'
    )
    element = chart.plots[0].series[number]._element
    following = ("cat", "xVal", "val", "yVal", "smooth", "shape", "extLst")
    first = next(child for child in element if child.tag.rpartition("}")[2] in following)
    first.addprevious(bars)


def scale_axis(axis: Any, *, floor: float = 0.0, digits: int = 0, is_log: bool = False) -> None:
    """Set where an axis starts, how its numbers are written, and whether equal ratios are equal distances."""
    from pptx.oxml import parse_xml
    from pptx.oxml.ns import nsdecls

    if floor:
        axis.minimum_scale = floor
    axis.tick_labels.number_format = number_format(min(digits, 1) if digits < 3 else digits)
    axis.tick_labels.number_format_is_linked = False
    if is_log:
        scaling = axis._element.find(f"{{{axis._element.nsmap['c']}}}scaling")
        scaling.insert(0, parse_xml(f'<c:logBase {nsdecls("c")} val="10"/>'))


def title_axes(chart: Any, value: str, category: str = "") -> None:
    """Write what the axes are."""
    from pptx.util import Pt

    for axis, text in ((chart.value_axis, value), (chart.category_axis, category)):
        if text:
            axis.has_title = True
            axis.axis_title.text_frame.text = text
            font = axis.axis_title.text_frame.paragraphs[0].runs[0].font
            font.size, font.bold = Pt(11), False


def show_legend(chart: Any) -> None:
    """Say below a chart which series is which."""
    from pptx.enum.chart import XL_LEGEND_POSITION

    chart.has_legend = True
    chart.legend.position = XL_LEGEND_POSITION.BOTTOM
    chart.legend.include_in_layout = False


# ----------------------------------------
# Pictures over a plane as charts of a slide.

Points = list[tuple[float, float]]

_MOST_SERIES = 8

_MOST_NAMES = 12

_MOST_WHISKERS = 24


def curves(slide: Any, box: Box, chart: data.Curves) -> bool:
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


def front(slide: Any, box: Box, chart: data.Front) -> bool:
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


def _has_names(chart: data.Curves) -> bool:
    """Return whether places are choices that have names, and no numbers."""
    names = dict(chart.x.ticks)
    places = {x for one in chart.series for x in one.x}
    return bool(names) and places <= names.keys() and not all(name[:1].isdigit() for name in names.values())


def _categories(slide: Any, box: Box, chart: data.Curves) -> bool:
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


def _rulers(chart: data.Curves, drawn: Sequence[Points]) -> list[tuple[str, Points]]:
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


def _waterfall(slide: Any, box: Box, chart: data.Waterfall) -> bool:
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
    heights = _heights(chart) if isinstance(chart, data.Waterfall) else [0.0]
    floor = 0.0 if _is_table(heights) else _floor(heights)
    return f"The axis begins at {floor:,g}, so the full columns are cut off." if floor else ""


def _heights(chart: data.Waterfall) -> list[float]:
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


def _intervals(slide: Any, box: Box, chart: data.Intervals) -> bool:
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


def _bars(slide: Any, box: Box, chart: data.Bars) -> bool:
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


def _tornado(slide: Any, box: Box, chart: data.Tornado) -> bool:
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


def _stack(slide: Any, box: Box, chart: data.Stack) -> bool:
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


def _amounts(slide: Any, box: Box, chart: data.HeatMap) -> bool:
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
    data.Bars: _bars,
    data.Curves: curves,
    data.Front: front,
    data.HeatMap: _amounts,
    data.Intervals: _intervals,
    data.Stack: _stack,
    data.Tornado: _tornado,
    data.Waterfall: _waterfall,
}

"""What is drawn as a chart; returns whether it could be."""
