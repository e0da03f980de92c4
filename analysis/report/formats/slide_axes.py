"""Parts of charts on slides: series, their labels and whiskers, axes and legends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.plots.style import FAINT, GREY, INK
from analysis.report.formats.deck import color_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.plots.charts import Range
    from analysis.report.formats.deck import Box

__all__ = [
    "add_chart",
    "add_points",
    "color_series",
    "finished",
    "hide_series",
    "label_series",
    "number_format",
    "range_bars",
    "scale_axis",
    "show_legend",
    "title_axes",
]


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
