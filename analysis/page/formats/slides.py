"""A few slides with one message and one picture each: the answer, and the first pictures of the report.

The pictures are those of the page. Each has its alternative text; its table, its caption and what the answer rests on
are in the notes of the slide.
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
from ettrick.analysis.page.charts.sheet import INK, TEXT, wrapped
from ettrick.analysis.page.formats.markdown import figure_table
from ettrick.analysis.page.formats.terminal import KEPT
from ettrick.analysis.page.model import plain
from ettrick.analysis.page.report_data import ReportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.analysis.page.model import Figure, FirstScreen, Report, Words

_MAX_PICTURES = 3
MOST_WORDS, LEAST = 20, 18  # words on a slide at most, and the least size of its type [pt]

# Pictures that bear most on what was asked, the first ones first; others follow in the order of the report.
_BEST = (
    "comparison",
    "bridge",
    "heat-map-1",
    "tornado",
    "optimum-front",
    "neighbours",
    "funnel",
    "where-the-time-goes",
    "losses",
)

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
    first_screen = report.first_screen
    first, answer = first_screen.picture, plain(first_screen.answer) or report.title
    title = message(answer, *([] if first is None else [first.title]))
    slide = deck.slide(title, _notes(_in_full(first_screen), [] if first is None else _about(first), report.footer))
    if first is not None:
        deck.picture(slide, first)
    pictures = [picture for key, picture in report.pictures.items() if first is None or key != first.key]
    pictures.sort(key=lambda picture: _BEST.index(picture.key) if picture.key in _BEST else len(_BEST))
    for picture in pictures[: _MAX_PICTURES - (first is not None)]:
        deck.picture(deck.slide(message(picture.title), _notes(_about(picture), report.footer)), picture)
    return deck.content()


# What a slide says in fewer words.
_BRIEFLY = (("the useful share of the time (ETTR)", "ETTR"), ("useful share of the time (ETTR)", "ETTR"),
            ("percentage points", "points"))  # fmt: skip
_OPEN = ("too close", "equal")  # what a message must not leave out


def message(*texts: str) -> str:
    """Return the first text that a slide has room for, whole or up to its first semicolon; else the start of the last.

    Numbers stay with their units and intervals. What is too close to call, or equal, is not left out.
    """
    for text in texts:
        for long, short in _BRIEFLY:
            text = text.replace(long, short).replace(long.capitalize(), short)
        start, _, rest = text.partition("; ")
        for part in (text, start) if not any(word in rest for word in _OPEN) else (text,):
            if len(part.split()) <= MOST_WORDS:
                return _unbroken(part)
    parts = re.split(r"(?<=[,;:]) ", re.sub(r" \((?![\d−+])[^()]*\)", "", text))  # intervals stay
    count = sum(len(" ".join(parts[: place + 1]).split()) <= MOST_WORDS for place in range(len(parts)))
    return _unbroken(" ".join(parts[:count]).rstrip(",;:")) if count else " ".join(text.split()[:MOST_WORDS]) + " …"


def _unbroken(text: str) -> str:
    """Return a text whose numbers stay in one line with their units and intervals."""
    text = re.sub(r"\([^()]{,30}\)", lambda match: match[0].replace(" ", KEPT), text)
    return re.sub(r"(?<=\d) (?=[%(A-Za-z])", KEPT, text)


def _in_full(first_screen: FirstScreen) -> list[str]:
    """Return all that the first screen says, and where its numbers are from."""
    lists = (("Main drivers:", first_screen.drivers), ("Assumptions and limits:", first_screen.not_covered))
    lines = [first_screen.question, plain(first_screen.answer), plain(first_screen.doubt)]
    for head, texts in lists:
        lines += [head, *(f"• {plain(words)}" for words in texts)] if texts else []
    words = (first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered)
    sources = _sources(words)
    return [*lines, *([_SOURCES, *sources] if sources else [])]


def _sources(texts: Iterable[Words]) -> list[str]:
    numbers = [part for words in texts for part in words if not isinstance(part, str)]
    return [f"{number.text}: {'' if number.formula == 'a' else f'{number.formula} of '}{', '.join(number.sources)}"
            for number in numbers]  # fmt: skip


def _about(picture: Figure) -> list[str]:
    """Return what a picture shows, its table, and how it is drawn alone."""
    table = figure_table(picture)
    lines = [] if table is None else [[column.head for column in table.columns], *table.rows[:_MAX_LINES]]
    command = f"The picture is '{picture.key}' of the report: ettrick plot DIR {picture.key} -o FILE."
    return [picture.title, picture.alt, picture.caption, *(" | ".join(line) for line in lines), command]


def _notes(*parts: Sequence[str]) -> str:
    return "\n".join(line for part in parts for line in part if line)


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
BODY = SlideBox(_MARGIN, 1.6, _WIDTH - 2 * _MARGIN, 5.6)  # what is left to a slide below its title
_DPI = 350.0  # pixels of an inch of a picture, which is twice as large on a slide
_TITLE_ONLY = 5  # the layout of a slide that has a title and nothing else, in the template of python-pptx
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

    def slide(self, title: str, notes: str) -> Any:
        """Return a new slide with its message and its notes."""
        from pptx.enum.text import MSO_ANCHOR

        slide = self.presentation.slides.add_slide(self.presentation.slide_layouts[_TITLE_ONLY])
        shape = slide.shapes.title
        _place(shape, _TITLE)
        _write(shape.text_frame, title, _TITLE, (LEAST, 32))
        shape.text_frame.vertical_anchor = MSO_ANCHOR.MIDDLE
        slide.notes_slide.notes_text_frame.text = notes
        return slide

    def picture(self, slide: Any, picture: Figure) -> None:
        """Add a picture as large as the slide holds, in its middle; its title and its caption are left out.

        It is drawn as wide and as high as type of its size is large enough on the slide, where it can be.
        """
        from pptx.util import Inches

        chart, box = picture.chart, BODY
        untitled = chart._replace(title="") if getattr(chart, "title", "") else chart
        figure = draw(untitled, box.width * TEXT / LEAST, box.height * TEXT / LEAST)
        across, up = figure.get_size_inches()
        scale = min(box.width / across, box.height / up)
        sides = (box.left + (box.width - scale * across) / 2, box.top, scale * across, scale * up)
        shape = slide.shapes.add_picture(io.BytesIO(render(figure, ".png", _DPI)), *(Inches(side) for side in sides))
        shape.name = picture.key
        shape._element.nvPicPr.cNvPr.set("descr", picture.alt)

    def content(self) -> bytes:
        """Return the file: the same bytes from the same slides, whenever they are made."""
        file = io.BytesIO()
        self.presentation.save(file)
        return _without_dates(file.getvalue())


def _place(shape: Any, box: SlideBox) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = (Inches(value) for value in box)


def _write(frame: Any, text: str, box: SlideBox, sizes: tuple[int, int]) -> None:
    from pptx.enum.text import MSO_AUTO_SIZE, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    frame.auto_size = MSO_AUTO_SIZE.NONE
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    (line,), size = fitted((text,), box.width, box.height, sizes)
    paragraph = frame.paragraphs[0]
    paragraph.alignment = PP_ALIGN.LEFT
    run = paragraph.add_run()
    run.text = line
    run.font.size, run.font.bold, run.font.color.rgb = Pt(size), True, color_of(INK)


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
    """Return a report, or a part of one, with a sign instead of each that no XML may hold."""
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
