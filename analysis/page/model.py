"""The model of a report, whatever its format: an opening for everybody, and sections with the details.

A report holds no markup and no drawings: each format of `ettrick.analysis.page.build` makes its own of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

_Row = TypeVar("_Row")


class Header(NamedTuple):
    """The head of a column, whether it holds numbers (at the right), whether only pages have room for it."""

    head: str
    is_number: bool = True
    is_gloss: bool = False


class Column(NamedTuple, Generic[_Row]):
    """A column of a table as data: its title, the text of a cell by its row, and whether the table has it at all."""

    title: str
    text: Callable[[_Row], str]
    shown: bool = True
    is_number: bool = True
    is_gloss: bool = False
    shade: Callable[[_Row], float | None] | None = None  # how dark a cell is; ``None`` for a column without shades


@dataclass(frozen=True)
class TableBlock:
    """Rows of texts under heads, with a title and a note."""

    title: str  # what it shows, for those who do not see where it stands
    columns: Sequence[Header]  # what each column is; the first one names the row
    rows: Sequence[Sequence[str]]  # texts of the cells
    # Of each cell how dark it is, 0 to 1, or ``None``; empty without shades.
    shades: Sequence[Sequence[float | None]] = ()
    note: str = ""  # what to know next to it


def grid(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Collection[int] = (0,),
    *,
    note: str = "",
    shades: Sequence[Sequence[float | None]] = (),
) -> TableBlock:
    """Return a table; columns at some positions (`words`) hold words."""
    headers = [Header(head, index not in words) for index, head in enumerate(heads)]
    return TableBlock(title, headers, rows, shades, note)


def table_of(title: str, rows: Sequence[_Row], columns: Iterable[Column[_Row]], *, note: str = "") -> TableBlock:
    """Return a table of the columns that are shown; the first one holds words."""
    columns = [column for column in columns if column.shown]
    headers = [Header(column.title, column.is_number and index > 0, column.is_gloss)
               for index, column in enumerate(columns)]  # fmt: skip
    texts = [tuple(column.text(row) for column in columns) for row in rows]
    shades = [tuple(None if column.shade is None else column.shade(row) for column in columns) for row in rows]
    return TableBlock(title, headers, texts, shades if any(column.shade for column in columns) else (), note)


@dataclass(frozen=True)
class Figure:
    """A picture, and what it shows in words and in numbers."""

    key: str  # its name in links, files and on the command line: ``where-the-time-goes``. One of its kind in a report.
    chart: Any  # what is drawn: one of the types of `analysis.page.charts.CHARTS`. Its title is what the picture says.
    alt: str  # what is to be seen, for those who do not see it: one or two sentences with the main numbers
    caption: str = ""  # what to know to read it
    table: TableBlock | None = None  # the same numbers as a table

    @property
    def title(self) -> str:
        """The statement of the picture; a cluster is drawn without a title, and its words are the alternative text."""
        return str(getattr(self.chart, "title", "") or self.alt)


@dataclass(frozen=True)
class FirstScreen:
    """The first screen, in plain language: what who decides reads, and perhaps all that is read."""

    question: str  # what was asked
    answer: Words  # one sentence, with how sure it is
    # What is not known exactly and how far that moves the answer; or that it holds at exactly the stated rates.
    doubt: Words
    picture: Figure | None  # the one picture; ``None`` where there is none to show
    drivers: tuple[Words, ...]  # what drives the answer: three points where there are as many
    not_covered: tuple[Words, ...]  # what the answer does not cover
    # Each term of the first screen that is not plain language, and what it means.
    glossary: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """A subject in detail."""

    key: str  # its name in links: ``losses``
    title: str  # what it says, as a sentence where there is something to be said
    text: tuple[Words | str, ...] = ()  # paragraphs
    items: tuple[Figure | TableBlock, ...] = ()  # pictures and tables, in order
    notes: tuple[str, ...] = ()  # small print, a line each
    # Whether a command with --full shows it: always, only as part of the one screen without it, or only with it.
    shown: Literal["always", "screen", "full"] = "always"


def in_full(sections: Iterable[Section]) -> Iterator[Section]:
    """Yield sections as ones that only --full shows."""
    yield from (replace(section, shown="full") for section in sections)


def labels(title: str, *rows: tuple[str, str]) -> Section:
    """Return labels with texts next to them."""
    return Section("labels", title, (), (grid("", ("", ""), rows),))


def lists(*titled: tuple[str, Sequence[str]]) -> Iterator[Section]:
    """Yield lists of lines, each below its title; a list without lines is left out."""
    yield from (Section("lines", title, (), (), tuple(lines)) for title, lines in titled if lines)


@dataclass(frozen=True)
class Report:
    """All that a report says."""

    title: str  # name of the study or scenario
    # first_screen, sections: what everybody reads, and the rest
    first_screen: FirstScreen
    sections: tuple[Section, ...]
    # Data of the explorer, ready for JSON; ``None`` where there is nothing to explore.
    explorer: dict[str, Any] | None = None
    footer: tuple[str, ...] = field(default=())  # what made it, in lines: version, command, digests

    @property
    def pictures(self) -> dict[str, Figure]:
        """All pictures, by key, in order."""
        first = [self.first_screen.picture] if self.first_screen.picture is not None else []
        rest = [item for section in self.sections for item in section.items if isinstance(item, Figure)]
        return {picture.key: picture for picture in (*first, *rest)}


# ----------------------------------------
# Texts of a report in which every number can be traced to the file that it comes from.


class Number(NamedTuple):
    """A number as it is shown, and where it comes from."""

    text: str  # as it is shown, with its unit and without an interval: ``93.1 %``
    value: float  # the same in SI units
    size: float  # what one unit of the text is in SI: 0.01 for percent
    # Places of the results that it rests on, in order: ``run.json#/metrics/ettr/mean`` (a JSON pointer, RFC 6901), or
    # ``points.csv#3/ettr.mean`` (row, counted from 0, and column). Of several rows, ``results.csv#8-15/ettr``, it is
    # the mean; of entries, ``validate.json#/groups/*/rows/*?label=emergent``, how many have this value.
    sources: tuple[str, ...]
    # How the value follows from the places, which are called a, b, c, ...: ``(b - a) * c``. It may hold + - * / ( ),
    # numbers, min, max, abs, ceil and floor.
    formula: str = "a"


Words = tuple[str | Number, ...]  # a text with numbers in it


def plain(words: Words | str) -> str:
    """Return a text as one string."""
    return words if isinstance(words, str) else "".join(part if isinstance(part, str) else part.text for part in words)


MOST_AMOUNTS = 3
"""Results that a headline states at most."""

# Places of what a question states itself: values of axes, levels, sizes, and the difference that is called equal.
_ASKED = re.compile(r"#/(axes|tie)/|/(at_least|at_most|gpus|points/\d+/number)$")
_BETWEEN = (" to ", " (", " of ", " of the ")  # numbers that are one amount


def amounts_in(words: Words) -> int:
    """Return how many results a text states.

    The interval of a result, as a range or in brackets, belongs to it; so does the same amount in another unit, and
    the whole that it is a part of.
    """
    count = 0
    for place, part in enumerate(words):
        is_result = isinstance(part, Number) and not all(map(_ASKED.search, part.sources))
        is_more_of_one = place > 1 and words[place - 1] in _BETWEEN and isinstance(words[place - 2], Number)
        count += is_result and not is_more_of_one
    return count


def joined(parts: Iterable[Words], between: str = " ") -> Words:
    """Return texts as one, with something between them."""
    pieces: list[str | Number] = []
    for words in parts:
        if words:
            pieces += [between] if pieces else []
            pieces += words
    return tuple(pieces)
