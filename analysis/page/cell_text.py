"""What the cells of a study are in words: where they are, and what their numbers are."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from analysis.amounts import capital, form_of, name_of
from analysis.terminal import Page, console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from analysis.amounts import Form

Content = dict[str, Any]


def title_of(metric: str) -> str:
    """Return what a metric is called in a heading."""
    return capital(name_of(metric))


def known(cell: Content, metric: str, key: str) -> Any:
    """Return a number of a metric of a cell; ``None`` where there is none."""
    return cell["metrics"].get(metric, {}).get(key)


def form_for(cells: Sequence[Content], metric: str, currency: str) -> Form:
    """Return how the numbers of a column are told."""
    means = [known(cell, metric, "mean") for cell in cells]
    return form_of(metric, [mean for mean in means if mean is not None], currency)


def mean_text(found: Mapping[str, Any], form: Form) -> str:
    """Return a mean, with the digits that its interval deserves."""
    mean = found.get("mean")
    if mean is None:
        return "-"
    ends = found.get("mean_ci95")
    return form.plain(mean, None if ends is None else (ends[0], ends[1]))


def range_text(ends: Sequence[float | None] | None, form: Form) -> str:
    """Return an interval, with the digits that it deserves."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    span = ends[0], ends[1]
    return f"{form.plain(ends[0], span, unit='')}..{form.plain(ends[1], span)}"


def luck_text(found: Mapping[str, Any], form: Form) -> str:
    """Return between what one run is: p05..p95 where there are enough replications, else the standard deviation."""
    if found.get("p05") is not None and found.get("p95") is not None:
        return range_text((found["p05"], found["p95"]), form)
    spread = found.get("std")
    return "-" if spread is None else f"± {form.plain(spread, (0.0, 2 * spread), form.step or form.unit)}"


def finished_text(cell: Content) -> str:
    """Return in how many runs every job was finished at the horizon."""
    return f"{cell['replications'] - cell['censored']} of {cell['replications']}"


def where_text(content: Content, cell: Content) -> str:
    """Return what a cell is, in words."""
    return ", ".join(f"{content['axes'][name]['title']} = {label}" for name, label in cell["values"].items())


# ----------------------------------------
# A page for the text of a study: headings, sentences and tables as wide as whoever reads them has room.

_WIDTH = 200

"""Columns where nobody says how many: a table that is cut helps nobody."""

_LEAST_WIDTH = 40

"""Columns that anybody is taken to have."""

_HEADING = 16

"""Letters in a line of the heading of a column of numbers."""

_LONGEST_WORD = 20

"""Letters of a label that are not broken."""

_KEPT = "\N{NO-BREAK SPACE}"


class Sheet:
    """What is written for a reader.

    Parameters
    ----------
    width
        Columns; omitted: those of ``COLUMNS``, or of the terminal. Without either, sentences are not broken, so that
        other programs find them whole.
    """

    def __init__(self, width: int | None = None) -> None:
        self._page = Page()
        columns = _columns(self._page) if width is None else width
        self.breaks = columns is not None
        self.width = _WIDTH if columns is None else max(columns, _LEAST_WIDTH)
        self._out = console(self._page, width=self.width)

    def title(self, text: str) -> None:
        """Write the title of the page."""
        for line in self._lines(text, "", ""):
            self._out.print(line, style="bold", soft_wrap=True)

    def heading(self, text: str) -> None:
        """Write a heading, after an empty line."""
        self._out.print()
        self.title(text)

    def tell(self, sentence: str) -> None:
        """Write a sentence below a heading, over several lines if it has to be."""
        for line in self._lines(sentence, "  ", "    "):
            self._out.print(line, soft_wrap=True)

    def table(self, table: Table, labels: int) -> None:
        """Write a table: where there is little room, its first columns take several lines, and numbers stay whole.

        One that cannot be so narrow is wider, for it must not be cut.
        """
        natural, least, between = self._widths(table, labels)
        widths = list(least)
        spare = self.width - between - sum(least)
        while spare > 0 and widths != natural:
            narrowest = min((width, at) for at, width in enumerate(widths) if width < natural[at])[1]
            widths[narrowest] += 1
            spare -= 1
        for position, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
            column.width = width
            column.no_wrap = position >= labels
            column.overflow = "fold"
            column.justify = "left" if position < labels else "right"
        self._out.width = max(self.width, between + sum(widths))
        self._out.print(table)
        self._out.width = self.width

    def fits(self, table: Table, labels: int) -> bool:
        """Return whether there is room for a table."""
        _, least, between = self._widths(table, labels)
        return between + sum(least) <= self.width

    def _widths(self, table: Table, labels: int) -> tuple[list[int], list[int], int]:
        """Return how wide the columns of a table would be, how wide they must be, and what is between them."""
        from rich.cells import cell_len
        from rich.measure import Measurement

        texts = [[str(column.header), *map(str, column.cells)] for column in table.columns]
        natural = [max(cell_len(line) for text in column for line in (text.splitlines() or [""])) for column in texts]
        words = [max((cell_len(word) for text in column for word in text.split()), default=0) for column in texts]
        least = [
            min(word, _LONGEST_WORD) if at < labels else width
            for at, (width, word) in enumerate(zip(natural, words, strict=True))
        ]
        whole = Measurement.get(self._out, self._out.options.update(width=10_000), table).maximum
        return natural, least, whole - sum(natural)

    def text(self) -> str:
        """Return what was written."""
        return self._page.text()

    def _lines(self, sentence: str, first: str, others: str) -> list[str]:
        text = " ".join(sentence.split())
        if not self.breaks:
            return [first + text]
        # A number stays with its percent sign.
        lines = textwrap.wrap(
            text.replace(" %", f"{_KEPT}%"),
            self.width,
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace(_KEPT, " ") for line in lines]


def _columns(page: Page) -> int | None:
    """Return how many columns whoever reads this has; ``None`` where nobody says."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return shutil.get_terminal_size().columns if page.isatty() else None


def folded(text: str) -> str:
    """Return the heading of a column of numbers, in lines that are not wider than the numbers by much."""
    return "\n".join(textwrap.wrap(text, _HEADING))
