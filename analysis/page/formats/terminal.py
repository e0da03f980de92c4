"""Chapters for a terminal: headings, sentences and tables as wide as whoever reads them has room."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import bar_text, empty_table, label_grid
from ettrick.analysis.page.formats.markdown import figure_table
from ettrick.analysis.page.model import Header, TableBlock, plain
from ettrick.analysis.terminal import Page, console

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from ettrick.analysis.page.model import Section

_WIDTH = 200  # columns where nobody says how many: a table that is cut helps nobody
_LEAST_WIDTH = 40  # columns that anybody is taken to have
_HEADING = 16  # letters in a line of the heading of a column of numbers
_LONGEST_WORD = 20  # letters of a label that are not broken
KEPT = "\N{NO-BREAK SPACE}"


def write(
    sections: Iterable[Section], *, width: int | None = None, otherwise: int | None = None, full: bool = True
) -> str:
    """Return sections as text: of pictures their tables; unless `full`, the sections of one screen, closely set.

    Without a width it is that of ``COLUMNS``, or of the terminal, or else `otherwise`; without any sentences are not
    broken.
    """
    sheet = _Sheet(width, otherwise, has_rules=full)
    chosen = (section for section in sections if section.shown in ("always", "full" if full else "screen"))
    for place, section in enumerate(chosen):
        sheet.title(section.title, is_first=not place)
        for text in section.text:
            sheet.tell(plain(text))
        for number, item in enumerate(section.items):
            grid = item if isinstance(item, TableBlock) else figure_table(item)
            if grid is not None and grid.rows:
                if number and grid.columns[0].head:
                    sheet.blank()
                if grid.title and grid.title != section.title:
                    sheet.tell(grid.title)
                sheet.table(grid)
        for note in section.notes:
            sheet.tell(f"- {note}")
    return sheet.text()


class _Sheet:
    """The text under construction for a reader.

    Where nobody says how many columns there are, sentences are not broken, so that other programs find them whole.
    """

    def __init__(self, width: int | None = None, otherwise: int | None = None, *, has_rules: bool = True) -> None:
        self._page, self._has_rules = Page(), has_rules
        columns = _columns(self._page) or otherwise if width is None else width
        self.breaks = columns is not None
        self.width = _WIDTH if columns is None else max(columns, _LEAST_WIDTH)
        self._out = console(self._page, width=self.width)

    def title(self, text: str, *, is_first: bool) -> None:
        """Write a heading, after an empty line."""
        if not is_first:
            self._out.print()
        for line in self._lines(text, "", ""):
            self._out.print(line, style="bold", soft_wrap=True)

    def tell(self, sentence: str) -> None:
        """Write a sentence below a heading, over several lines if it has to be."""
        for line in self._lines(sentence, "  ", "    "):
            self._out.print(line, soft_wrap=True)

    def blank(self) -> None:
        self._out.print()

    def table(self, grid: TableBlock) -> None:
        """Write a table: where there is little room, its labels take several lines, and numbers stay whole.

        One that cannot be so narrow is wider, for it must not be cut. A table without heads is a list of labels with
        texts.
        """
        if not any(column.head for column in grid.columns):
            self._out.print(label_grid(grid.rows))
            return
        columns, rows = _with_bars(grid)
        heads = (folded(column.head) if column.is_number else column.head for column in columns)
        table = empty_table(*heads, has_rule=self._has_rules)
        for row in rows:
            table.add_row(*row)
        labels = [index == 0 or not column.is_number for index, column in enumerate(columns)]
        widths, between = self._widths(table, labels)
        for column, width, is_label in zip(table.columns, widths, labels, strict=True):
            column.width, column.no_wrap, column.overflow = width, not is_label, "fold"
            column.justify = "left" if is_label else "right"
        self._out.width = max(self.width, between + sum(widths))
        self._out.print(table)
        self._out.width = self.width
        if grid.note:
            self.tell(grid.note)

    def _widths(self, table: Table, labels: Sequence[bool]) -> tuple[list[int], int]:
        """Return how wide the columns of a table are, and what is between them: the narrowest grow first."""
        from rich.cells import cell_len
        from rich.measure import Measurement

        texts = [[str(column.header), *map(str, column.cells)] for column in table.columns]
        natural = [max(cell_len(line) for text in column for line in (text.splitlines() or [""])) for column in texts]
        words = [max(cell_len(word) for text in column for word in re.split("[ \n]", text)) for column in texts]
        widths = [
            min(word, _LONGEST_WORD) if is_label else width
            for width, word, is_label in zip(natural, words, labels, strict=True)
        ]
        whole = Measurement.get(self._out, self._out.options.update(width=10_000), table).maximum
        between = whole - sum(natural)
        for _ in range(self.width - between - sum(widths)):
            growing = [(width, index) for index, width in enumerate(widths) if width < natural[index]]
            if not growing:
                break
            widths[min(growing)[1]] += 1
        return widths, between

    def text(self) -> str:
        return self._page.text().replace(KEPT, " ")

    def _lines(self, sentence: str, first: str, hanging: str) -> list[str]:
        text = " ".join(sentence.split())
        # What is to be typed stays in one line, so that it can be copied.
        if not self.breaks or " --set " in text:
            return [first + text]
        # A number stays with its percent sign; `text` writes it as a plain blank.
        return textwrap.wrap(
            text.replace(" %", f"{KEPT}%"),
            self.width,
            initial_indent=first,
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _with_bars(grid: TableBlock) -> tuple[list[Header], list[list[str]]]:
    """Return columns and rows without glosses; shades of a single column are bars behind it."""
    shown = [index for index, column in enumerate(grid.columns) if not column.is_gloss]
    columns = [grid.columns[index] for index in shown]
    rows = [[row[index] for index in shown] for row in grid.rows]
    shaded = {index for row in grid.shades for index, shade in enumerate(row) if shade is not None}
    if len(shaded) == 1:
        (index,) = shaded
        columns.insert(index + 1, Header("", is_number=False))
        for row, shades in zip(rows, grid.shades, strict=True):
            row.insert(index + 1, bar_text(shades[index] or 0.0))
    return columns, rows


def _columns(page: Page) -> int | None:
    """Return how many columns whoever reads this has; ``None`` where nobody says."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    return shutil.get_terminal_size().columns if page.isatty() else None


def folded(text: str) -> str:
    """Return the heading of a column of numbers, in lines that are not wider than the numbers by much."""
    return "\n".join(line for part in text.split("\n") for line in textwrap.wrap(part, _HEADING))
