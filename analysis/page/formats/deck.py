"""Slides as a file: boxes of text that do not overflow, tables, notes, and the same bytes from the same report."""

from __future__ import annotations

import bisect
import dataclasses
import io
import math
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.page.charts.sheet import FAINT, GREY, INK, ORANGE
from analysis.page.material import ReportError

if TYPE_CHECKING:
    from analysis.page.model import Grid

# ----------------------------------------
# How large a text may be so that it stays in its box: an estimate, for a format that cannot measure.

REST = " … see the report"

"""What ends a text that was cut."""

_LINE = 1.22

"""Height of a line over the size of the type [-]."""

_GAP = 0.4

"""Space after a paragraph over the size of the type [-]."""

_POINTS = 72.0

"""Points of an inch."""

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%GOQ…")


class Fitted(NamedTuple):
    """Paragraphs that fit into a box, and the size of their type [pt]."""

    paragraphs: tuple[str, ...]
    size: float


def fitted(paragraphs: tuple[str, ...], width: float, height: float, sizes: tuple[int, int]) -> Fitted:
    """Return texts at the largest size at which they fit; cut if they do not fit at the smallest.

    Parameters
    ----------
    paragraphs
        The texts.
    width, height
        The box [in].
    sizes
        Smallest and largest size of the type [pt].
    """
    smallest, largest = sizes
    for size in range(largest, smallest - 1, -1):
        if _height(paragraphs, width, size) <= height:
            return Fitted(paragraphs, size)
    return Fitted(_cut(paragraphs, width, height, smallest), smallest)


def lines_of(text: str, width: float, size: float) -> int:
    """Return how many lines a text takes, rather too many than too few.

    Parameters
    ----------
    text
        A paragraph.
    width
        Width of the box [in].
    size
        Size of the type [pt].
    """
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
    """Return the width of a text over the size of its type, in a wide face [-]."""
    return sum(0.34 if sign in _NARROW else 0.92 if sign in _WIDE else 0.7 if sign.isupper() else 0.58 for sign in text)


def _height(paragraphs: tuple[str, ...], width: float, size: float) -> float:
    """Return how high paragraphs are [in]."""
    lines = sum(lines_of(text, width, size) for text in paragraphs)
    return (lines * _LINE + len(paragraphs) * _GAP) * size / _POINTS


def _cut(paragraphs: tuple[str, ...], width: float, height: float, size: float) -> tuple[str, ...]:
    """Return as many words as fit, and where the rest is."""
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


class Box(NamedTuple):
    """A part of a slide [in]."""

    left: float
    top: float
    width: float
    height: float


_WIDTH, _HEIGHT = 13.333, 7.5

_MARGIN = 0.6

_TITLE = Box(_MARGIN, 0.4, _WIDTH - 2 * _MARGIN, 1.1)

_FOOT = Box(_MARGIN, 7.02, _WIDTH - 2 * _MARGIN, 0.3)

BODY = Box(_MARGIN, 1.65, _WIDTH - 2 * _MARGIN, 5.25)

"""What is left to a slide below its title."""

_TITLE_ONLY = 5

"""The layout of a slide that has a title and nothing else, in the template of python-pptx."""

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
    """A presentation that is being made.

    Parameters
    ----------
    title
        What stands below each slide.
    presentation
        That of python-pptx.
    """

    title: str
    presentation: Any

    @classmethod
    def empty(cls, title: str) -> Deck:
        """Return a presentation without slides.

        Raises
        ------
        ReportError
            If python-pptx is not installed.
        """
        try:
            from pptx import Presentation
            from pptx.util import Inches
        except ImportError:
            message = "needs python-pptx: pip install 'ettrick[report]'"
            raise ReportError(message) from None
        made = Presentation()
        made.slide_width, made.slide_height = Inches(_WIDTH), Inches(_HEIGHT)
        properties = made.core_properties
        properties.title, properties.author, properties.last_modified_by = title[:255], "Ettrick", "Ettrick"
        return cls(title, made)

    def slide(self, title: str, notes: str, box: Box = _TITLE, sizes: tuple[int, int] = (16, 28)) -> Any:
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
        self, slide: Any, box: Box, paragraphs: tuple[str, ...], sizes: tuple[int, int], *, color: str = INK
    ) -> None:
        """Add a box of text, as large as it may be; none where there is no text."""
        if not any(paragraphs):
            return
        shape = slide.shapes.add_textbox(0, 0, 0, 0)
        _place(shape, box)
        _write(shape.text_frame, tuple(text for text in paragraphs if text), box, sizes, color=color)

    def table(self, slide: Any, box: Box, grid: Grid) -> None:
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
                inner = Box(0, 0, widths[place] - 0.12, _ROW)
                is_number = grid.columns[place].is_number and place > 0
                _write(cell.text_frame, (text,), inner, (8, 12), color=INK, is_bold=number == 0, is_right=is_number)
                cell.text_frame.paragraphs[0].space_after = Pt(0)
                _fill(cell, _shade(grid, number - 1, place) if number else FAINT)

    def content(self) -> bytes:
        """Return the file: the same bytes from the same slides, whenever they are made."""
        file = io.BytesIO()
        self.presentation.save(file)
        return _without_dates(file.getvalue())


def _place(shape: Any, box: Box) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = (Inches(value) for value in box)


def _write(
    frame: Any,
    paragraphs: tuple[str, ...],
    box: Box,
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


def _fill(cell: Any, color: str) -> None:
    cell.fill.solid()
    cell.fill.fore_color.rgb = color_of(color)


def _shade(grid: Grid, row: int, column: int) -> str:
    """Return the colour of a cell: the darker, the more orange; light enough for dark type."""
    shade = grid.shades[row][column] if row < len(grid.shades) and column < len(grid.shades[row]) else None
    if shade is None:
        return "#ffffff"
    parts = [int(ORANGE[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - 0.6 * shade * (255 - part)):02x}" for part in parts)


def _widths(lines: list[list[str]], width: float) -> list[float]:
    """Return the widths of columns [in]: by their longest texts, none below an inch's half."""
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
# Texts without signs that no XML may hold, such as control characters in the name of a part.

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

"""What a text of XML 1.0 may not hold, not even as a reference."""


def legible(value: Any) -> Any:
    """Return a report, or a part of one, with a sign in place of each that no XML may hold.

    Parameters
    ----------
    value
        Texts; tuples, lists and data classes of them. Whatever else there is stays as it is.
    """
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
