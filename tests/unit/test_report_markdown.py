"""Reports as Markdown: read again by a parser of Markdown, they hold what the report says."""

from __future__ import annotations

from markdown_it import MarkdownIt

from analysis.page.formats import markdown
from analysis.page.formats.markdown import escaped
from analysis.page.model import Column, Grid, plain
from tests.report_sample import CHARTS, report

PARSER = MarkdownIt("commonmark").enable("table")


def inline(text: str) -> list[str]:
    """Return what is shown of each paragraph, heading and cell, as plain text."""
    blocks = [token for token in PARSER.parse(text) if token.type == "inline"]
    return ["".join(child.content for child in block.children or []) for block in blocks]


def tables(text: str) -> list[list[list[str]]]:
    """Return the rows of all tables."""
    found: list[list[list[str]]] = []
    tokens = PARSER.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            found[-1][-1].append("".join(child.content for child in tokens[place + 1].children or []))
    return found


TEXT = markdown.write(report(rest=tuple(name for name in CHARTS if name != "waterfall"))).decode()


def test_the_opening_comes_first() -> None:
    """Title, question, answer, doubt: in this order, word for word, before everything else."""
    opening = report().opening
    wanted = [report().title, opening.question, plain(opening.answer), plain(opening.doubt)]
    assert inline(TEXT)[:4] == wanted


def test_whatever_is_said_is_shown_as_it_is() -> None:
    """Texts with signs that mean something in Markdown come out as they went in, and make no blocks of their own."""
    shown = inline(TEXT)
    opening = report().opening
    for words in (*opening.drivers, *opening.not_covered, *(item for one in report().sections for item in one.text)):
        assert plain(words) in shown
    for text in ("# no heading", "- no item", "1. no list", "2) nor this", "+ nor this", "a *b* _c_ `d` [e](f)",
                 "<script>", "a | b", "$x$ and $y$", "~~z~~", "&amp; \\", "=====", "--- x", "> quote", "5.5 points",
                 "{role}`text`"):  # fmt: skip
        tokens = PARSER.parse(escaped(text))
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], text
        assert inline(escaped(text)) == [text]
        assert all(child.type == "text" or child.type == "text_special" for child in tokens[1].children or []), text


def test_tables_hold_every_cell() -> None:
    """Tables of sections parse with all cells, signs and all; columns of numbers stand at the right."""
    assert [["cause", "a|b"], ["gpu_*", "1,200"], ["switch", "300"]] in tables(TEXT)
    assert "| --- | ---: |" in TEXT


def test_each_picture_is_there_as_a_table() -> None:
    """Every kind of picture has its title, its words, a table of its numbers, and the command that draws it."""
    found = tables(TEXT)
    assert len(found) == len(CHARTS) + 1
    shown = inline(TEXT)
    for name, chart in CHARTS.items():
        assert chart.title in shown
        assert f"What {name} shows, in words." in shown
        key = name.replace(" ", "-")
        assert f"`ettrick plot DIR {key} -o {key}.svg`" in TEXT
    cells = {cell for table in found for row in table for cell in row}
    wanted = {"−4.25", "−4.50 to −4.00", "93.12", "no value", "91.50 to 94.50", "does not fit", "+1.50 at 4"}
    assert wanted | {"300", "96.25", "own memory", "not beaten", "2,500", "1.75", "98.50 (98.00 to 99.00)"} <= cells


def test_a_table_of_many_places_says_how_many_it_shows() -> None:
    """A curve of a thousand places is an even choice of them with both ends, and says so."""
    from analysis.page.charts.data import Curves, Scale, Series
    from analysis.page.formats.markdown import table_of
    from analysis.page.model import Picture

    x = tuple(float(place) for place in range(1000))
    chart = Curves("It grows", Scale("x"), Scale("y"), (Series("", x, x),))
    table = table_of(Picture("key", chart, "alt"))
    assert table is not None
    assert table.rows[0][0] == "0.0"
    assert table.rows[-1][0] == "999.0"
    assert f"{len(table.rows)} of 1,000 places are shown" in table.note
    assert len(table.rows) <= 42


def test_an_empty_table_is_left_out() -> None:
    """A table without columns leaves nothing; one without rows its head."""
    empty = markdown.write(report(None, (), (Grid("none", (), ()), Grid("head", (Column("only"),), ())))).decode()
    assert "none" not in inline(empty)
    assert ["only"] in [row for table in tables(empty) for row in table]
