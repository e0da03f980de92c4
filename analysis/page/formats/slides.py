"""Five slides with one message each, whose charts can be edited: the numbers are in the sheet behind each."""

from __future__ import annotations

import bisect
import dataclasses
import io
import math
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ettrick.analysis.page.charts import CHARTS
from ettrick.analysis.page.charts.sheet import BLUE, FAINT, GREY, INK, ORANGE, hue
from ettrick.analysis.page.formats.markdown import digits_of, table_of
from ettrick.analysis.page.model import Figure, TableBlock, plain
from ettrick.analysis.page.report_data import ReportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ettrick.analysis.page.charts.data import ChartAxis, SlideChart, SlideSeries
    from ettrick.analysis.page.charts.sheet import ChartKind
    from ettrick.analysis.page.model import Report, Words

_BRIDGE = "bridge"  # the picture that says best what drives a difference, where there is one
_MOST_LINES = 40


class _Shown(NamedTuple):
    """What a slide shows: a picture, or a table where there is no picture."""

    title: str
    item: Figure | TableBlock | None


def write(report: Report) -> bytes:
    """Return the content of the file.

    Raises
    ------
    ReportError
        If python-pptx is not installed.
    """
    report = cast("Report", legible(report))
    deck = Deck.empty(report.title)
    first, breakdown, drivers = _chosen(report)
    _answer(deck, report)
    _picture(deck, report, first)
    _picture(deck, report, breakdown)
    _driven(deck, report, drivers)
    _sure(deck, report)
    return deck.content()


def _chosen(report: Report) -> tuple[_Shown, _Shown, _Shown]:
    """Return what the middle slides show: three different things, where there are as many."""
    left = list(report.pictures.values())
    tables = [
        _Shown(item.title or section.title, item)
        for section in report.sections
        for item in section.items
        if isinstance(item, TableBlock) and item.rows
    ]

    def next_one(rank: Callable[[ChartKind], int]) -> _Shown:
        fitting = [one for one in left if rank(CHARTS[type(one.chart)])]
        if not fitting and tables:
            return tables.pop(0)
        best = min(fitting or left[:1], key=lambda one: rank(CHARTS[type(one.chart)]), default=None)
        if best is None:
            return _Shown("These results have nothing more to show", None)
        left.remove(best)
        return _Shown(best.title, best)

    first, breakdown = next_one(lambda _: 1), next_one(lambda kind: kind.breakdown)
    bridge = next((one for one in left if one.key == _BRIDGE), None)
    drivers = next_one(lambda kind: kind.drivers) if bridge is None else _Shown(bridge.title, bridge)
    return first, breakdown, drivers


def _answer(deck: Deck, report: Report) -> None:
    """Add the first slide: the question small, the answer large, how sure it is, and what was studied."""
    first_screen = report.first_screen
    answer = plain(first_screen.answer) or report.title
    notes = _notes("Where the numbers come from:", _sources([first_screen.answer, first_screen.doubt]), report.footer)
    slide = deck.slide(answer, notes, SlideBox(BODY.left, 1.5, BODY.width, 2.9), (20, 40))
    deck.text(slide, SlideBox(BODY.left, 0.6, BODY.width, 0.8), (first_screen.question,), (12, 18), color=GREY)
    deck.text(slide, SlideBox(BODY.left, 4.6, BODY.width, 1.5), (plain(first_screen.doubt),), (12, 20))
    deck.text(slide, SlideBox(BODY.left, 6.3, BODY.width, 0.5), (report.title,), (12, 16), color=BLUE)


def _picture(deck: Deck, report: Report, shown: _Shown) -> None:
    slide = deck.slide(shown.title, _notes(*_about(shown), report.footer))
    _show(deck, slide, BODY, shown)


def _driven(deck: Deck, report: Report, shown: _Shown) -> None:
    """Add the slide that says what drives the answer: points at the left, a picture and its message at the right."""
    drivers = report.first_screen.drivers
    notes = _notes("Where the numbers come from:", _sources(drivers), *_about(shown), report.footer)
    slide = deck.slide(shown.title if shown.item is not None or not drivers else "What drives the answer", notes)
    points = tuple(f"• {plain(words)}" for words in drivers)
    left = 4.3 if points else 0.0
    deck.text(slide, SlideBox(BODY.left, BODY.top + 0.2, left - 0.3, 4.9), points, (11, 18))
    _show(deck, slide, SlideBox(BODY.left + left, BODY.top, BODY.width - left, BODY.height), shown)


def _sure(deck: Deck, report: Report) -> None:
    """Add the last slide: how sure it is, what it leaves out, and how to make it again."""
    first_screen = report.first_screen
    missing = [plain(words) for words in first_screen.not_covered]
    sources = _sources([first_screen.doubt, *first_screen.not_covered])
    notes = _notes("Where the numbers come from:", sources, report.footer)
    slide = deck.slide("What this answer rests on, and how to make it again", notes)
    half = (BODY.width - 0.5) / 2
    columns = (
        (BODY.left, half, "How sure", (plain(first_screen.doubt),)),
        (BODY.left + half + 0.5, half, "Assumed, or not covered", tuple(f"• {text}" for text in missing)),
    )
    for left, width, head, texts in columns:
        deck.text(slide, SlideBox(left, BODY.top, width, 0.35), (head,), (14, 14), color=BLUE)
        deck.text(slide, SlideBox(left, BODY.top + 0.45, width, 2.5), texts, (10, 16))
    deck.text(slide, SlideBox(BODY.left, BODY.top + 3.1, BODY.width, 0.35), ("Make it again",), (14, 14), color=BLUE)
    deck.text(slide, SlideBox(BODY.left, BODY.top + 3.5, BODY.width, 1.7), report.footer, (9, 14))


def _show(deck: Deck, slide: object, box: SlideBox, shown: _Shown) -> None:
    """Put a picture or a table on a slide, and below it what to know to read it."""
    item = shown.item
    if item is None:
        return
    caption = f"{item.caption} {note_of(item)}".strip() if isinstance(item, Figure) else item.note
    place = SlideBox(box.left, box.top, box.width, box.height - (0.7 if caption else 0.05))
    if isinstance(item, Figure):
        show_picture(deck, slide, place, item)
    else:
        deck.table(slide, place, item)
    deck.text(slide, SlideBox(box.left, box.top + box.height - 0.6, box.width, 0.6), (caption,), (10, 14), color=GREY)


def _sources(texts: Iterable[Words]) -> list[str]:
    numbers = [part for words in texts for part in words if not isinstance(part, str)]
    return [f"{one.text}: {'' if one.formula == 'a' else f'{one.formula} of '}{', '.join(one.sources)}"
            for one in numbers]  # fmt: skip


def _about(shown: _Shown) -> list[str]:
    """Return what is to be said about a picture, and where its numbers are."""
    if not isinstance(shown.item, Figure):
        return []
    picture = shown.item
    grid = table_of(picture)
    lines = [] if grid is None else [[column.head for column in grid.columns], *grid.rows[:_MOST_LINES]]
    numbers = [" | ".join(line) for line in lines]
    place = f"The picture is '{picture.key}' of the report: ettrick plot DIR {picture.key} -o FILE."
    return [picture.alt, *numbers, place]


def _notes(*parts: str | Sequence[str]) -> str:
    lines: list[str] = []
    for place, part in enumerate(parts):
        is_heading = isinstance(part, str) and part.endswith(":")
        if is_heading and not parts[place + 1]:
            continue
        lines += [part] if isinstance(part, str) else list(part)
    return "\n".join(line for line in lines if line)


# ----------------------------------------
# Pictures as charts.


def show_picture(deck: Deck, slide: Any, box: SlideBox, picture: Figure) -> None:
    """Put a picture on a slide: as a chart, as a table where there is no such chart, or in words."""
    if (spec := _chart_of(picture)) is not None:
        _add(slide, box, spec)
        return
    grid = table_of(picture)
    if grid is not None and grid.columns:
        deck.table(slide, box, grid)
    else:
        deck.text(slide, box, (picture.alt,), (12, 20))


def note_of(picture: Figure) -> str:
    """Return what to know to read a picture as it is drawn here, and nowhere else: where the axis of columns begins."""
    spec = _chart_of(picture)
    return f"The axis begins at {spec.floor:,g}, so the full columns are cut off." if spec and spec.floor else ""


def _chart_of(picture: Figure) -> SlideChart | None:
    return picture.chart.slide_chart() if hasattr(picture.chart, "slide_chart") else None


def _add(slide: Any, box: SlideBox, spec: SlideChart) -> None:
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


def _scale(axis: Any, scale: ChartAxis, values: list[float | None], *, has_grid: bool = False) -> None:
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


# ----------------------------------------
# The file: titles, texts, tables and notes, and the same bytes from the same slides.


class SlideBox(NamedTuple):
    """A part of a slide [in]."""

    left: float
    top: float
    width: float
    height: float


_WIDTH, _HEIGHT = 13.333, 7.5
_MARGIN = 0.6
_TITLE = SlideBox(_MARGIN, 0.4, _WIDTH - 2 * _MARGIN, 1.1)
_FOOT = SlideBox(_MARGIN, 7.02, _WIDTH - 2 * _MARGIN, 0.3)
BODY = SlideBox(_MARGIN, 1.65, _WIDTH - 2 * _MARGIN, 5.25)  # what is left to a slide below its title
_TITLE_ONLY = 5  # the layout of a slide that has a title and nothing else, in the template of python-pptx
_ROW = 0.36
_MOST_COLUMNS = 9
_DATES = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_DAY = b"1980-01-01T00:00:00Z"


def color_of(text: str) -> Any:
    """Return a colour from ``#rrggbb``."""
    from pptx.dml import color

    maker: Any = color.RGBColor
    return maker.from_string(text.removeprefix("#"))


@dataclass(frozen=True)
class Deck:
    """A presentation that is being made."""

    title: str
    presentation: Any

    @classmethod
    def empty(cls, title: str) -> Deck:
        """Return a presentation without slides; `ReportError` without python-pptx."""
        try:
            from pptx import Presentation
            from pptx.util import Inches
        except ImportError:
            raise ReportError("needs python-pptx: pip install 'ettrick[report]'") from None
        made = Presentation()
        made.slide_width, made.slide_height = Inches(_WIDTH), Inches(_HEIGHT)
        properties = made.core_properties
        properties.title, properties.author, properties.last_modified_by = title[:255], "Ettrick", "Ettrick"
        return cls(title, made)

    def slide(self, title: str, notes: str, box: SlideBox = _TITLE, sizes: tuple[int, int] = (16, 28)) -> Any:
        """Return a new slide with its message, its notes and its foot."""
        from pptx.enum.text import MSO_ANCHOR

        slide = self.presentation.slides.add_slide(self.presentation.slide_layouts[_TITLE_ONLY])
        shape = slide.shapes.title
        _place(shape, box)
        _write(shape.text_frame, (title,), box, sizes, color=INK, is_bold=True)
        shape.text_frame.vertical_anchor = MSO_ANCHOR.MIDDLE
        slide.notes_slide.notes_text_frame.text = notes
        number = len(self.presentation.slides)
        self.text(slide, _FOOT, (f"{self.title} · {number}",), (9, 10), color=GREY)
        return slide

    def text(
        self, slide: Any, box: SlideBox, paragraphs: tuple[str, ...], sizes: tuple[int, int], *, color: str = INK
    ) -> None:
        """Add a box of text, as large as it may be; none where there is no text."""
        if not any(paragraphs):
            return
        shape = slide.shapes.add_textbox(0, 0, 0, 0)
        _place(shape, box)
        _write(shape.text_frame, tuple(text for text in paragraphs if text), box, sizes, color=color)

    def table(self, slide: Any, box: SlideBox, grid: TableBlock) -> None:
        """Add a table; rows and columns that have no room are in the report."""
        from pptx.util import Inches, Pt

        columns = min(len(grid.columns), _MOST_COLUMNS)
        most = int(box.height / _ROW) - 1
        is_cut = len(grid.rows) > most or columns < len(grid.columns)
        rows = [list(row[:columns]) for row in grid.rows[: most - 1 if is_cut else most]]
        if is_cut:
            rows.append([REST.strip(), *[""] * (columns - 1)])
        lines = [[column.head for column in grid.columns[:columns]], *rows]
        widths = _widths(lines, box.width)
        shape = slide.shapes.add_table(
            len(lines), columns, Inches(box.left), Inches(box.top), Inches(sum(widths)), Inches(_ROW * len(lines))
        )
        table = shape.table
        for place, width in enumerate(widths):
            table.columns[place].width = Inches(width)
        for number, line in enumerate(lines):
            table.rows[number].height = Inches(_ROW)
            for place, text in enumerate(line):
                cell = table.cell(number, place)
                cell.margin_left = cell.margin_right = Inches(0.06)
                cell.margin_top = cell.margin_bottom = Inches(0.02)
                inner = SlideBox(0, 0, widths[place] - 0.12, _ROW)
                is_number = grid.columns[place].is_number and place > 0
                _write(cell.text_frame, (text,), inner, (8, 12), color=INK, is_bold=number == 0, is_right=is_number)
                cell.text_frame.paragraphs[0].space_after = Pt(0)
                cell.fill.solid()
                cell.fill.fore_color.rgb = color_of(_shade(grid, number - 1, place) if number else FAINT)

    def content(self) -> bytes:
        """Return the file: the same bytes from the same slides, whenever they are made."""
        file = io.BytesIO()
        self.presentation.save(file)
        return _without_dates(file.getvalue())


def _place(shape: Any, box: SlideBox) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = (Inches(value) for value in box)


def _write(
    frame: Any,
    paragraphs: tuple[str, ...],
    box: SlideBox,
    sizes: tuple[int, int],
    *,
    color: str,
    is_bold: bool = False,
    is_right: bool = False,
) -> None:
    """Write paragraphs at the left, or at the right."""
    from pptx.enum.text import MSO_AUTO_SIZE, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    frame.auto_size = MSO_AUTO_SIZE.NONE
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    made = fitted(paragraphs, box.width, box.height, sizes)
    for number, text in enumerate(made.paragraphs):
        paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
        paragraph.alignment = PP_ALIGN.RIGHT if is_right else PP_ALIGN.LEFT
        paragraph.space_after = Pt(0.4 * made.size)
        run = paragraph.add_run()
        run.text = text
        run.font.size, run.font.bold, run.font.color.rgb = Pt(made.size), is_bold, color_of(color)


def _shade(grid: TableBlock, row: int, column: int) -> str:
    """Return the colour of a cell: the darker, the more orange; light enough for dark type."""
    shade = grid.shades[row][column] if row < len(grid.shades) and column < len(grid.shades[row]) else None
    if shade is None:
        return "#ffffff"
    parts = [int(ORANGE[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - 0.6 * shade * (255 - part)):02x}" for part in parts)


def _widths(lines: list[list[str]], width: float) -> list[float]:
    long = [min(max(len(line[place]) for line in lines), 60) + 4 for place in range(len(lines[0]))]
    return [max(width * one / sum(long), 0.5) for one in long]


def _without_dates(content: bytes) -> bytes:
    """Return an Office file without the times at which it and what is embedded in it were made."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            part = old.read(name)
            if name.endswith(".xlsx"):
                part = _without_dates(part)
            elif name == "docProps/core.xml":
                part = _DATES.sub(rb"\g<1>" + _DAY, part)
            new.writestr(zipfile.ZipInfo(name, _EPOCH), part, zipfile.ZIP_DEFLATED)
    return made.getvalue()


# ----------------------------------------
# How large a text may be so that it stays in its box: an estimate, for a format that cannot measure.

REST = " … see the report"  # what ends a text that was cut
_LINE = 1.22  # height of a line over the size of the type [-]
_GAP = 0.4  # space after a paragraph over the size of the type [-]
_POINTS = 72  # of an inch
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%GOQ…")


class FittedText(NamedTuple):
    """Paragraphs that fit into a box, and the size of their type [pt]."""

    paragraphs: tuple[str, ...]
    size: float


def fitted(paragraphs: tuple[str, ...], width: float, height: float, sizes: tuple[int, int]) -> FittedText:
    """Return texts at the largest size [pt] at which they fit a box [in]; cut if they do not at the smallest."""
    smallest, largest = sizes
    for size in range(largest, smallest - 1, -1):
        if _height(paragraphs, width, size) <= height:
            return FittedText(paragraphs, size)
    return FittedText(_cut(paragraphs, width, height, smallest), smallest)


def lines_of(text: str, width: float, size: float) -> int:
    """Return how many lines a text takes in a width [in] and a size of type [pt], rather too many than too few."""
    room = width * _POINTS / size
    lines, used = 1, 0.0
    for word in text.split():
        long = _width(word)
        if used and used + _width(" ") + long > room:
            lines, used = lines + 1, 0.0
        if long > room:  # a word that no line holds is broken
            lines += math.ceil(long / room) - 1
            long %= room
        used += long + (_width(" ") if used else 0.0)
    return lines


def _width(text: str) -> float:
    return sum(0.34 if sign in _NARROW else 0.92 if sign in _WIDE else 0.7 if sign.isupper() else 0.58 for sign in text)


def _height(paragraphs: tuple[str, ...], width: float, size: float) -> float:
    lines = sum(lines_of(text, width, size) for text in paragraphs)
    return (lines * _LINE + len(paragraphs) * _GAP) * size / _POINTS


def _cut(paragraphs: tuple[str, ...], width: float, height: float, size: float) -> tuple[str, ...]:
    for last in range(len(paragraphs) - 1, -1, -1):
        words = paragraphs[last].split()

        def cut(count: int, last: int = last, words: list[str] = words) -> tuple[str, ...]:
            return (*paragraphs[:last], (" ".join(words[:count]) + REST).strip())

        def is_high(count: int) -> bool:
            return _height(cut(count), width, size) > height

        count = bisect.bisect_left(range(len(words)), True, key=is_high)
        if count:
            return cut(count - 1)
    return (REST.strip(),)


# ----------------------------------------
# Texts without signs that no XML may hold, such as control characters in the name of a part.

# What a text of XML 1.0 may not hold, not even as a reference.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def legible(value: Any) -> Any:
    """Return a report, or a part of one, with a sign in place of each that no XML may hold."""
    if isinstance(value, str):
        return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, tuple):
        parts = [legible(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [legible(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: legible(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value
