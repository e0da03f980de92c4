"""A few slides with one message each: the answer, the first pictures of the report, and what the answer rests on.

The pictures are those of the page. Each has its alternative text, and its table is in the notes of the slide.
"""

from __future__ import annotations

import bisect
import dataclasses
import io
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ettrick.analysis.page.charts import draw, render
from ettrick.analysis.page.charts.sheet import BLUE, INK, TEXT, wrapped
from ettrick.analysis.page.formats.markdown import figure_table
from ettrick.analysis.page.model import plain
from ettrick.analysis.page.report_data import ReportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.analysis.page.model import Figure, Report, Words

_MAX_PICTURES = 3

# Pictures that bear most on what was asked, the first ones first; others follow in the order of the report.
_BEST = ("comparison", "bridge", "heat-map-1", "tornado", "optimum-front", "where-the-time-goes", "losses")

_MAX_LINES = 40  # lines of a table in the notes
_SOURCES = "Where the numbers come from:"


def write(report: Report) -> bytes:
    """Return the content of the file.

    Raises
    ------
    ReportError
        If python-pptx is not installed.
    """
    report = cast("Report", legible(report))
    deck = Deck.empty(report.title)
    _add_answer(deck, report)
    first = report.first_screen.picture
    pictures = [picture for key, picture in report.pictures.items() if first is None or key != first.key]
    pictures.sort(key=lambda picture: _BEST.index(picture.key) if picture.key in _BEST else len(_BEST))
    for picture in pictures[: _MAX_PICTURES - (first is not None)]:
        deck.picture(deck.slide(picture.title, _notes(_about(picture), report.footer)), BODY, picture)
    _add_basis(deck, report)
    return deck.content()


def _add_answer(deck: Deck, report: Report) -> None:
    """Add the first slide: the question small, the answer large, its picture, and how sure it is."""
    first_screen = report.first_screen
    picture, doubt = first_screen.picture, plain(first_screen.doubt)
    answer = plain(first_screen.answer) or report.title
    about = [] if picture is None else _about(picture)
    sources = [_SOURCES, *_sources([first_screen.answer, first_screen.doubt])]
    title = SlideBox(BODY.left, 0.8, BODY.width, 1.35 if picture is not None else 3.0)
    slide = deck.slide(answer, _notes(sources, about, report.footer), title, (18, 32))
    deck.text(slide, SlideBox(BODY.left, 0.3, BODY.width, 0.45), (first_screen.question,), (12, 16), color=_SOFT)
    if picture is None:
        deck.text(slide, SlideBox(BODY.left, 4.2, BODY.width, 2.0), (doubt,), (14, 20))
    else:
        box = SlideBox(BODY.left, 2.25, BODY.width, 6.95 - 2.25)
        deck.picture(slide, box, picture, doubt)


def _add_basis(deck: Deck, report: Report) -> None:
    """Add the last slide: what drives the answer, and what is assumed or not covered."""
    first_screen = report.first_screen
    sources = [_SOURCES, *_sources([*first_screen.drivers, *first_screen.not_covered])]
    slide = deck.slide("What drives this answer, and what it rests on", _notes(sources, report.footer))
    half = (BODY.width - 0.6) / 2
    columns = (("What drives it", first_screen.drivers), ("Assumed, or not covered", first_screen.not_covered))
    for index, (head, texts) in enumerate(columns):
        left = BODY.left + index * (half + 0.6)
        deck.text(slide, SlideBox(left, BODY.top, half, 0.4), (head,), (16, 16), color=BLUE)
        points = tuple(f"• {plain(words)}" for words in texts)
        deck.text(slide, SlideBox(left, BODY.top + 0.5, half, BODY.height - 0.5), points, (12, 20))


def _sources(texts: Iterable[Words]) -> list[str]:
    numbers = [part for words in texts for part in words if not isinstance(part, str)]
    return [f"{number.text}: {'' if number.formula == 'a' else f'{number.formula} of '}{', '.join(number.sources)}"
            for number in numbers]  # fmt: skip


def _about(picture: Figure) -> list[str]:
    """Return what a picture shows, its table, and how it is drawn alone."""
    table = figure_table(picture)
    lines = [] if table is None else [[column.head for column in table.columns], *table.rows[:_MAX_LINES]]
    command = f"The picture is '{picture.key}' of the report: ettrick plot DIR {picture.key} -o FILE."
    return [picture.alt, *(" | ".join(line) for line in lines), command]


def _notes(*parts: Sequence[str]) -> str:
    """Return lines as one text; a heading with nothing below it is left out."""
    return "\n".join(line for part in parts if list(part) != [_SOURCES] for line in part if line)


# ----------------------------------------
# The file: titles, texts, pictures and notes, and the same bytes from the same slides.


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
_CAPTION = 0.6  # height of what to know to read a picture [in]
_TITLE_ONLY = 5  # the layout of a slide that has a title and nothing else, in the template of python-pptx
_SOFT = "#595c60"  # colour of what is read second
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
        presentation = Presentation()
        presentation.slide_width, presentation.slide_height = Inches(_WIDTH), Inches(_HEIGHT)
        properties = presentation.core_properties
        properties.title, properties.author, properties.last_modified_by = title[:255], "Ettrick", "Ettrick"
        return cls(title, presentation)

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
        self.text(slide, _FOOT, (f"{self.title} · {number}",), (9, 10), color=_SOFT)
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

    def picture(self, slide: Any, box: SlideBox, picture: Figure, caption: str = "") -> None:
        """Add a picture as large as the box holds, in its middle, and below it its caption, or another one.

        Its title is left to the slide.
        """
        from pptx.util import Inches

        caption = caption or picture.caption
        height = box.height - (_CAPTION + 0.1 if caption else 0.0)
        chart = picture.chart
        figure = draw(chart._replace(title="") if getattr(chart, "title", "") else chart)
        across, up = figure.get_size_inches()
        scale = min(box.width / across, height / up)
        sides = (box.left + (box.width - scale * across) / 2, box.top, scale * across, scale * up)
        shape = slide.shapes.add_picture(io.BytesIO(render(figure, ".png")), *(Inches(side) for side in sides))
        shape.name = picture.key
        shape._element.nvPicPr.cNvPr.set("descr", picture.alt)
        below = SlideBox(box.left, box.top + box.height - _CAPTION, box.width, _CAPTION)
        self.text(slide, below, (caption,), (12, 16), color=_SOFT)

    def content(self) -> bytes:
        """Return the file: the same bytes from the same slides, whenever they are made."""
        file = io.BytesIO()
        self.presentation.save(file)
        return _without_dates(file.getvalue())


def _place(shape: Any, box: SlideBox) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = (Inches(value) for value in box)


def _write(
    frame: Any, paragraphs: tuple[str, ...], box: SlideBox, sizes: tuple[int, int], *, color: str, is_bold: bool = False
) -> None:
    from pptx.enum.text import MSO_AUTO_SIZE, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    frame.auto_size = MSO_AUTO_SIZE.NONE
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    text = fitted(paragraphs, box.width, box.height, sizes)
    for index, line in enumerate(text.paragraphs):
        paragraph = frame.paragraphs[0] if index == 0 else frame.add_paragraph()
        paragraph.alignment = PP_ALIGN.LEFT
        paragraph.space_after = Pt(0.4 * text.size)
        run = paragraph.add_run()
        run.text = line
        run.font.size, run.font.bold, run.font.color.rgb = Pt(text.size), is_bold, color_of(color)


def _without_dates(content: bytes) -> bytes:
    """Return an Office file without the times at which it was made."""
    undated = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(undated, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            part = old.read(name)
            if name == "docProps/core.xml":
                part = _DATES.sub(rb"\g<1>" + _DAY, part)
            new.writestr(zipfile.ZipInfo(name, _EPOCH), part, zipfile.ZIP_DEFLATED)
    return undated.getvalue()


# ----------------------------------------
# How large a text may be so that it stays in its box: measured in a face that is wider than those of slides.

REST = " … see the report"  # what ends a text that was cut
_LINE = 1.22  # height of a line over the size of the type [-]
_GAP = 0.4  # space after a paragraph over the size of the type [-]
_POINTS = 72  # of an inch


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
    count = bisect.bisect_left(
        range(sum(len(text.split()) for text in paragraphs)), True, lo=1,
        key=lambda count: _height(_cut(paragraphs, count), width, smallest) > height,
    )  # fmt: skip
    return FittedText(_cut(paragraphs, count - 1), smallest)


def lines_of(text: str, width: float, size: float) -> int:
    """Return how many lines a text takes in a width [in] and a size of type [pt]."""
    return wrapped(text, width * TEXT / size, TEXT, len(text)).count("\n") + 1


def _height(paragraphs: tuple[str, ...], width: float, size: float) -> float:
    lines = sum(lines_of(text, width, size) for text in paragraphs)
    return (lines * _LINE + len(paragraphs) * _GAP) * size / _POINTS


def _cut(paragraphs: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the first words, and where the rest is."""
    texts = []
    for words in (text.split() for text in paragraphs):
        texts.append(" ".join(words[:count]))
        count -= len(words)
        if count <= 0:
            break
    return (*texts[:-1], (texts[-1] + REST).strip())


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
