"""Five slides with one message each, whose charts can be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from analysis.page.charts import CHARTS
from analysis.page.charts.sheet import BLUE, GREY
from analysis.page.formats.deck import BODY, Box, Deck, legible
from analysis.page.formats.markdown import table_of
from analysis.page.formats.slide_charts import note_of, show_picture
from analysis.page.model import Grid, Picture, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from analysis.page.charts.sheet import Kind
    from analysis.page.model import Number, Report, Words

_BRIDGE = "bridge"

"""The picture that says best what drives a difference, where there is one."""

_MOST_LINES = 40


class _Shown(NamedTuple):
    """What a slide shows: a picture, or a table where there is no picture."""

    title: str
    item: Picture | Grid | None


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
        if isinstance(item, Grid) and item.rows
    ]

    def next_one(rank: Callable[[Kind], int]) -> _Shown:
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
    opening = report.opening
    answer = plain(opening.answer) or report.title
    notes = _notes("Where the numbers come from:", _sources([opening.answer, opening.doubt]), report.footer)
    slide = deck.slide(answer, notes, Box(BODY.left, 1.5, BODY.width, 2.9), (20, 40))
    deck.text(slide, Box(BODY.left, 0.6, BODY.width, 0.8), (opening.question,), (12, 18), color=GREY)
    deck.text(slide, Box(BODY.left, 4.6, BODY.width, 1.5), (plain(opening.doubt),), (12, 20))
    deck.text(slide, Box(BODY.left, 6.3, BODY.width, 0.5), (report.title,), (12, 16), color=BLUE)


def _picture(deck: Deck, report: Report, shown: _Shown) -> None:
    """Add a slide with a picture and what to know to read it."""
    slide = deck.slide(shown.title, _notes(*_about(shown), report.footer))
    _show(deck, slide, BODY, shown)


def _driven(deck: Deck, report: Report, shown: _Shown) -> None:
    """Add the slide that says what drives the answer: points at the left, a picture and its message at the right."""
    drivers = report.opening.drivers
    notes = _notes("Where the numbers come from:", _sources(drivers), *_about(shown), report.footer)
    slide = deck.slide(shown.title if shown.item is not None or not drivers else "What drives the answer", notes)
    points = tuple(f"• {plain(words)}" for words in drivers)
    left = 4.3 if points else 0.0
    deck.text(slide, Box(BODY.left, BODY.top + 0.2, left - 0.3, 4.9), points, (11, 18))
    _show(deck, slide, Box(BODY.left + left, BODY.top, BODY.width - left, BODY.height), shown)


def _sure(deck: Deck, report: Report) -> None:
    """Add the last slide: how sure it is, what it leaves out, and how to make it again."""
    opening = report.opening
    missing = [plain(words) for words in opening.not_covered]
    notes = _notes("Where the numbers come from:", _sources([opening.doubt, *opening.not_covered]), report.footer)
    slide = deck.slide("What this answer rests on, and how to make it again", notes)
    half = (BODY.width - 0.5) / 2
    columns = (
        (BODY.left, half, "How sure", (plain(opening.doubt),)),
        (BODY.left + half + 0.5, half, "Assumed, or not covered", tuple(f"• {text}" for text in missing)),
    )
    for left, width, head, texts in columns:
        deck.text(slide, Box(left, BODY.top, width, 0.35), (head,), (14, 14), color=BLUE)
        deck.text(slide, Box(left, BODY.top + 0.45, width, 2.5), texts, (10, 16))
    deck.text(slide, Box(BODY.left, BODY.top + 3.1, BODY.width, 0.35), ("Make it again",), (14, 14), color=BLUE)
    deck.text(slide, Box(BODY.left, BODY.top + 3.5, BODY.width, 1.7), report.footer, (9, 14))


def _show(deck: Deck, slide: object, box: Box, shown: _Shown) -> None:
    """Put a picture or a table on a slide, and below it what to know to read it."""
    item = shown.item
    if item is None:
        return
    caption = f"{item.caption} {note_of(item)}".strip() if isinstance(item, Picture) else item.note
    place = Box(box.left, box.top, box.width, box.height - (0.7 if caption else 0.05))
    if isinstance(item, Picture):
        show_picture(deck, slide, place, item)
    else:
        deck.table(slide, place, item)
    deck.text(slide, Box(box.left, box.top + box.height - 0.6, box.width, 0.6), (caption,), (10, 14), color=GREY)


def _sources(texts: Iterable[Words]) -> list[str]:
    """Return of each number of some texts where it comes from."""
    numbers = [part for words in texts for part in words if not isinstance(part, str)]
    return [f"{one.text}: {_formula(one)}{', '.join(one.sources)}" for one in numbers]


def _formula(number: Number) -> str:
    """Return how a number follows from its places, where it is not the only one of them."""
    return "" if number.formula == "a" else f"{number.formula} of "


def _about(shown: _Shown) -> list[str]:
    """Return what is to be said about a picture, and where its numbers are."""
    if not isinstance(shown.item, Picture):
        return []
    picture = shown.item
    grid = table_of(picture)
    lines = [] if grid is None else [[column.head for column in grid.columns], *grid.rows[:_MOST_LINES]]
    numbers = [" | ".join(line) for line in lines]
    place = f"The picture is '{picture.key}' of the report: ettrick plot DIR {picture.key} -o FILE."
    return [picture.alt, *numbers, place]


def _notes(*parts: str | Sequence[str]) -> str:
    """Return the notes of a slide; a heading with nothing below it is left out."""
    lines: list[str] = []
    for place, part in enumerate(parts):
        is_heading = isinstance(part, str) and part.endswith(":")
        if is_heading and not parts[place + 1]:
            continue
        lines += [part] if isinstance(part, str) else list(part)
    return "\n".join(line for line in lines if line)
