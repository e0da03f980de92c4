"""Pictures as charts of a slide, which can be edited there: the numbers are in the sheet behind each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.page.charts.sheet import FAINT, GREY, INK, hue
from analysis.page.formats.deck import color_of
from analysis.page.formats.markdown import digits_of, table_of

if TYPE_CHECKING:
    from analysis.page.charts.data import Scale, SlideChart, SlideSeries
    from analysis.page.formats.deck import Box, Deck
    from analysis.page.model import Picture


def show_picture(deck: Deck, slide: Any, box: Box, picture: Picture) -> None:
    """Put a picture on a slide: as a chart, as a table where there is no such chart, or in words."""
    if (spec := _chart_of(picture)) is not None:
        _add(slide, box, spec)
        return
    grid = table_of(picture)
    if grid is not None and grid.columns:
        deck.table(slide, box, grid)
    else:
        deck.text(slide, box, (picture.alt,), (12, 20))


def note_of(picture: Picture) -> str:
    """Return what to know to read a picture as it is drawn here, and nowhere else: where the axis of columns begins."""
    spec = _chart_of(picture)
    return f"The axis begins at {spec.floor:,g}, so the full columns are cut off." if spec and spec.floor else ""


def _chart_of(picture: Picture) -> SlideChart | None:
    return picture.chart.slide_chart() if hasattr(picture.chart, "slide_chart") else None


def _add(slide: Any, box: Box, spec: SlideChart) -> None:
    """Add a chart in the one style of all: plain type, a faint grid, no frames."""
    from pptx.chart import data
    from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION, XL_TICK_LABEL_POSITION
    from pptx.util import Inches, Pt

    make: Any = data.CategoryChartData if spec.names else data.XyChartData
    sheet = make()
    if spec.names:
        sheet.categories = list(spec.names)
    for one in spec.series:
        made = sheet.add_series(one.name, *([list(one.values)] if spec.names else []))
        for x, y in zip(one.places, one.values, strict=False):
            made.add_data_point(x, y)
    kind = getattr(XL_CHART_TYPE, spec.kind)
    chart = slide.shapes.add_chart(kind, *(Inches(value) for value in box), sheet).chart
    plot, is_bars = chart.plots[0], spec.kind.startswith(("BAR", "COLUMN"))
    chart.has_title = False
    chart.font.size, chart.font.color.rgb = Pt(12), color_of(INK)
    if is_bars:
        plot.gap_width = 45
        plot.overlap = 100 if spec.is_overlaid or spec.kind.endswith("STACKED") else 0
    if spec.kind.startswith("BAR") and any(spec.names):
        chart.category_axis.reverse_order = True
        # The values stay below although the order is turned; labels stay at the left where bars go to the left.
        chart.category_axis.tick_label_position = XL_TICK_LABEL_POSITION.LOW
        chart.value_axis.tick_label_position = XL_TICK_LABEL_POSITION.HIGH
    digits = digits_of(value for one in spec.series for value in one.values)
    for number, one in enumerate(spec.series):
        _paint(plot.series[number], one, is_bars=is_bars)
        _label(plot.series[number], one, digits, is_inside=spec.kind == "BAR_STACKED")
        _add_whiskers(plot.series[number], one, is_plane=not spec.names)
    if len(spec.series) > 1 and spec.kind != "COLUMN_STACKED":
        chart.has_legend = True
        chart.legend.position = XL_LEGEND_POSITION.BOTTOM
        chart.legend.include_in_layout = False
    else:
        chart.has_legend = False
    if spec.floor:
        chart.value_axis.minimum_scale = spec.floor
    _scale(chart.value_axis, spec.value, [value for one in spec.series for value in one.values], has_grid=True)
    _scale(chart.category_axis, spec.category, [place for one in spec.series for place in one.places])


def _paint(series: Any, one: SlideSeries, *, is_bars: bool) -> None:
    """Give a series its colour: bars are filled; lines and marks are drawn, or not."""
    from pptx.enum.chart import XL_MARKER_STYLE
    from pptx.util import Pt

    color = color_of(hue(one.hue or 0))
    if is_bars:
        series.invert_if_negative = False
        fills = [series.format.fill, *([series.format.line.fill] if one.hue is None else [])]
    else:
        series.smooth = False
        series.marker.style = XL_MARKER_STYLE.CIRCLE if one.has_marks else XL_MARKER_STYLE.NONE
        series.marker.size = 9
        fills = [series.marker.format.fill, series.marker.format.line.fill] if one.has_marks else []
        fills += [series.format.line.fill] if one.width else []
        series.format.line.width = Pt(one.width)
        if not one.width:
            series.format.line.fill.background()
    for fill in fills:
        if one.hue is None:  # others stand on it
            fill.background()
        else:
            fill.solid()
            fill.fore_color.rgb = color


def _label(series: Any, one: SlideSeries, digits: int, *, is_inside: bool) -> None:
    """Write the value at each bar or mark of a series, or the name at each point."""
    from pptx.enum.chart import XL_LABEL_POSITION
    from pptx.util import Pt

    for place, name in enumerate(one.names):
        series.points[place].data_label.text_frame.text = name
    if one.sign is None:
        return
    labels = series.data_labels
    labels.show_value = True
    labels.number_format, labels.number_format_is_linked = number_format(digits, one.sign), False
    labels.font.size = Pt(11)
    if hasattr(series, "marker"):
        labels.position = XL_LABEL_POSITION.RIGHT
    elif is_inside:
        labels.position = XL_LABEL_POSITION.CENTER
        labels.font.color.rgb = color_of("#ffffff")


def number_format(digits: int, sign: str = "") -> str:
    """Return a number format of Office, with a sign before numbers."""
    number = f"#,##0{'.' + '0' * digits if digits else ''}"
    return f'"{sign}"{number}' if sign else f'{number};"−"{number}'


def _add_whiskers(series: Any, one: SlideSeries, *, is_plane: bool) -> None:
    """Draw the interval of each value as whiskers, which python-pptx has no words for."""
    from pptx.oxml import parse_xml
    from pptx.oxml.ns import nsdecls

    known = [
        (place, value, ends)
        for place, (value, ends) in enumerate(zip(one.values, one.ranges, strict=False))
        if value is not None and ends is not None
    ]
    if not known:
        return
    sides = [
        f'<c:{name}><c:numLit><c:ptCount val="{len(one.values)}"/>'
        + "".join(f'<c:pt idx="{place}"><c:v>{abs(ends[at] - value)!r}</c:v></c:pt>' for place, value, ends in known)
        + f"</c:numLit></c:{name}>"
        for name, at in (("plus", 1), ("minus", 0))
    ]
    direction = '<c:errDir val="y"/>' if is_plane else ""
    line = f'<a:ln w="15875"><a:solidFill><a:srgbClr val="{INK[1:]}"/></a:solidFill></a:ln>'
    bars = parse_xml(
        f'<c:errBars {nsdecls("c", "a")}>{direction}<c:errBarType val="both"/><c:errValType val="cust"/>'
        f'<c:noEndCap val="0"/>{"".join(sides)}<c:spPr>{line}</c:spPr></c:errBars>'
    )
    following = ("cat", "xVal", "val", "yVal", "smooth", "shape", "extLst")
    first = next(child for child in series._element if child.tag.rpartition("}")[2] in following)
    first.addprevious(bars)


def _scale(axis: Any, scale: Scale, values: list[float | None], *, has_grid: bool = False) -> None:
    """Give an axis its look and title, write its numbers, and make equal ratios equal distances where it says so."""
    from pptx.oxml import parse_xml
    from pptx.oxml.ns import nsdecls
    from pptx.util import Pt

    axis.format.line.color.rgb = color_of(GREY)
    axis.has_major_gridlines = has_grid
    if has_grid:
        axis.major_gridlines.format.line.color.rgb = color_of(FAINT)
    known = [value for value in values if value is not None]
    if known:
        digits = digits_of(known)
        axis.tick_labels.number_format = number_format(min(digits, 1) if digits < 3 else digits)
        axis.tick_labels.number_format_is_linked = False
    if scale.is_log and min(known, default=0.0) > 0:
        scaling = axis._element.find(f"{{{axis._element.nsmap['c']}}}scaling")
        scaling.insert(0, parse_xml(f'<c:logBase {nsdecls("c")} val="10"/>'))
    if scale.title:
        axis.has_title = True
        axis.axis_title.text_frame.text = scale.title
        font = axis.axis_title.text_frame.paragraphs[0].runs[0].font
        font.size, font.bold = Pt(11), False
