"""Reports as slides: opened again with python-pptx, they hold what the report says."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import html.parser
import io
import json
import re
import sys
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from pptx import Presentation
from pptx.util import Length

from ettrick.analysis.amounts import form_of
from ettrick.analysis.page.build import explorer_data
from ettrick.analysis.page.chapters.answers import chosen_cells
from ettrick.analysis.page.charts import data
from ettrick.analysis.page.charts.data import Bar, Bars
from ettrick.analysis.page.charts.sheet import HUES, INK, ON_DARK, ON_LIGHT, RAMP
from ettrick.analysis.page.charts.sheet import TEXT as TYPE
from ettrick.analysis.page.formats import html as page
from ettrick.analysis.page.formats import markdown, slides
from ettrick.analysis.page.formats.html import PAGE_DARK, inline_svg, paints
from ettrick.analysis.page.formats.markdown import escaped
from ettrick.analysis.page.formats.slides import LEAST, MOST_WORDS, fitted, lines_of, message
from ettrick.analysis.page.formats.terminal import KEPT
from ettrick.analysis.page.model import Figure, FirstScreen, Header, Number, Report, Section, TableBlock, plain
from ettrick.analysis.page.report_data import ReportError
from tests.browser.example import EVIL, EXPLORER, example_report
from tests.cases import cases
from tests.report_sample import CHARTS, picture, report
from tests.typed import present, sweep_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# ----------------------------------------
# The data of the explorer are the results of the sweep, in the units and words of its answers.


def a_sweep(cells: list[dict[str, Any]]) -> Any:
    """Return what the explorer looks at of the material: a sweep over intervals and stores."""
    axes = {
        "interval": {"title": "interval", "unknown": False, "values": [
            {"label": "1 h", "number": 3600.0}, {"label": "10 min", "number": 600.0}]},
        "store": {"title": "store", "unknown": False, "values": [
            {"label": "local", "number": None}, {"label": "remote", "number": None}]},
        "gpus": {"title": "GPUs", "unknown": False, "values": [{"label": "8", "number": 8.0}]},
        "rate": {"title": "failure rate", "unknown": True, "values": [{"label": "1", "number": 1.0}]},
    }  # fmt: skip
    numbered = [cell | {"cell": number} for number, cell in enumerate(cells)]
    content = {"axes": axes, "cells": numbered, "metrics": ["ettr", "time_to_work"], "currency": None}
    sweep = sweep_of(content)
    return SimpleNamespace(sweep=sweep, chosen=chosen_cells(sweep))


def a_cell(number: int, interval: str, store: str, ettr: dict[str, Any] | None, days: float | None) -> dict[str, Any]:
    """Return a cell of such a sweep."""
    numbers = {"interval": 600.0 if interval == "10 min" else 3600.0, "store": None, "gpus": 8.0, "rate": 1.0}
    none = {"mean": None, "mean_ci95": None, "p05": None, "p95": None, "band90": None, "replications": 8, "censored": 3}
    metrics = {"ettr": none | (ettr or {}), "time_to_work": none | {"mean": None if days is None else days * 86400}}
    values = {"interval": interval, "store": store, "gpus": "8", "rate": "1"}
    return {
        "cell": number, "point": number, "values": values, "numbers": numbers,
        "metrics": {} if ettr is None else metrics,
        "status": "infeasible" if ettr is None else "ok", "trouble": "too few nodes" if ettr is None else "",
    }  # fmt: skip


FOUR = [
    a_cell(0, "1 h", "local", {"mean": 0.93, "mean_ci95": [0.925, 0.935], "band90": [0.9, 0.95]}, 54.0),
    a_cell(1, "1 h", "remote", {"mean": 0.9, "mean_ci95": None, "p05": 0.88, "p95": 0.91}, None),
    a_cell(2, "10 min", "local", {"mean": 0.95}, 51.0),
    a_cell(3, "10 min", "remote", None, None),
]


def test_explorer_data_are_those_of_the_results() -> None:
    """Numbers are means, intervals, bands and quantiles in the unit of people, texts those of answers."""
    data = present(explorer_data(a_sweep(FOUR)))
    assert [metric["unit"] for metric in data["metrics"]] == ["%", "days"]
    assert [axis["key"] for axis in data["axes"]] == ["interval", "store"]  # what does not differ is left out
    assert data["unknown"] == ["failure rate"]
    first, second = data["cells"][:2]
    assert first["numbers"] == [[93.0, 92.5, 93.5, 90.0, 95.0, None, None], [54.0, *[None] * 6]]
    assert second["numbers"][0] == [90.0, None, None, None, None, 88.0, 91.0]
    form = form_of("ettr", [])
    assert first["texts"][0][:2] == [form.plain(0.93, (0.925, 0.935)), "(92.5 to 93.5)"]
    assert " ".join(first["texts"][0][:2]) == form.value(0.93, (0.925, 0.935))


def test_explorer_axes_with_numbers_are_in_their_order() -> None:
    """Values that have numbers stand in their order, however the study listed them, and cells point at their values."""
    data = present(explorer_data(a_sweep(FOUR)))
    assert data["axes"][0]["values"] == ("10 min", "1 h")
    assert data["axes"][0]["numbers"] == (600.0, 3600.0)
    assert data["axes"][1]["numbers"] is None
    assert [tuple(cell["at"]) for cell in data["cells"]] == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_explorer_says_why_there_is_no_mean() -> None:
    """A cell that cannot run, and a mean that the runs do not support, have no number and a reason."""
    data = present(explorer_data(a_sweep(FOUR)))
    assert data["cells"][3]["numbers"] == [None, None]
    assert data["cells"][3]["texts"][0][4] == "infeasible: too few nodes"
    assert data["cells"][1]["numbers"][1] is None
    assert data["cells"][1]["texts"][1][4] == "no mean: not finished in 3 of 8 runs"


def test_explorer_starts_where_the_answer_is() -> None:
    """Along the axis with numbers, a line for each of the others, at the values of the best cell."""
    data = present(explorer_data(a_sweep(FOUR)))
    assert data["start"] == {"x": 0, "series": 1, "at": [0, 0]}


@cases("cells", [FOUR[:1], [FOUR[3] | {"values": FOUR[0]["values"]}, FOUR[0]]])
def test_nothing_to_explore(cells: list[dict[str, Any]]) -> None:
    """Without two cells that differ there is no explorer."""
    assert explorer_data(a_sweep(cells)) is None
    assert explorer_data(SimpleNamespace(sweep=None)) is None  # type: ignore[arg-type]


def test_a_thousand_cells_are_small() -> None:
    """The data of a thousand cells with two metrics take less than a megabyte."""
    cells = []
    for number in range(1000):
        cell = a_cell(
            number, "1 h", "local", {"mean": 0.9 + number * 1e-5, "mean_ci95": [0.9, 0.92]}, 50.0 + number / 7
        )
        values, numbers = cell["values"] | {"interval": f"{number + 1} s"}, cell["numbers"] | {"interval": number + 1.0}
        cells.append(cell | {"values": values, "numbers": numbers})
    data = present(explorer_data(a_sweep(cells)))
    assert len(data["cells"]) == 1000
    assert [axis["few"] for axis in data["axes"]] == [False]
    assert len(json.dumps(data)) < 1e6


# ----------------------------------------
# The page of a report: one file that needs nothing else, says what the report says, and no text can break.

_VOID = {"meta", "br", "link"}


class Reader(html.parser.HTMLParser):
    """Reads a page: its elements, the texts of some of them, and whether all that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element of a picture that holds nothing."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last, which has to be this one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep a text with the element that it is in."""
        if self.open:
            self.texts.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def within(self, tag: str) -> list[str]:
        """Return the texts directly inside of elements of a kind."""
        return [text.replace("\N{NO-BREAK SPACE}", " ") for name, text in self.texts if name == tag]


@pytest.fixture(scope="module")
def written() -> str:
    """Write the report that has everything."""
    return page.write(example_report()).decode()


@pytest.fixture(scope="module")
def read(written: str) -> Reader:
    """Read its page."""
    return Reader(written)


def test_the_page_is_whole(read: Reader) -> None:
    """All elements are closed in order, and none of them fetches anything."""
    assert read.open == []
    fetching = {"src", "srcset", "poster", "action", "formaction", "ping", "background", "xlink:href"}
    for tag, attributes in read.elements:
        assert not fetching & attributes.keys(), tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    assert {tag for tag, _ in read.elements}.isdisjoint({"link", "iframe", "object", "embed", "img", "base", "form"})


def test_styles_fetch_nothing(written: str) -> None:
    """No style imports anything, and the only addresses are those of parts of the page."""
    assert "@import" not in written
    assert set(re.findall(r"url\((.)", written)) == {"#"}


def test_words_cannot_break_the_page(read: Reader, written: str) -> None:
    """Words that look like markup stay words, wherever they are."""
    report = example_report()
    assert "<script>alert" not in written
    assert written.count("</style>") == 1
    assert "".join(read.within("h1")) == report.first_screen.question
    assert f"{report.title}: report" in read.within("title")
    assert [text for text in read.within("h2") if EVIL in text] == [s.title for s in report.sections if EVIL in s.title]
    labels = [attributes["aria-label"] for attributes in read.all("div") if attributes.get("role") == "img"]
    assert labels == [picture.alt for picture in (report.first_screen.picture, *report.pictures.values()) if picture]


def test_only_scripts_of_the_page_run(read: Reader) -> None:
    """The policy forbids everything but its own scripts, by their digests, and styles."""
    (policy,) = (
        attributes["content"]
        for attributes in read.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = {rule.split()[0]: rule.split()[1:] for rule in (policy or "").split("; ")}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    kinds = [attributes.get("type") for attributes in read.all("script")]
    scripts = [text for text in read.within("script") if text.startswith('"use strict"')]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert kinds == ["application/json", None, None, None]
    assert rules["script-src"] == [f"'sha256-{digest}'" for digest in digests]


def test_numbers_carry_their_source(read: Reader) -> None:
    """Each number of the report is an element with its value, where it comes from and how; the opening lists them."""
    first_screen = example_report().first_screen
    numbers = [
        part for words in (first_screen.answer, *first_screen.drivers) for part in words if isinstance(part, Number)
    ]
    elements = list(zip(read.all("data"), read.within("data"), strict=True))
    assert len(numbers) == 3
    for number, (attributes, text) in zip(numbers, elements, strict=False):
        assert text == number.text
        assert float(attributes["value"] or "") == number.value
        assert (attributes["data-source"] or "").split("\n") == list(number.sources)
        assert attributes["data-formula"] == number.formula
    places = read.within("code")
    assert [place for place in places if "#/" in place] == [place for number in numbers for place in number.sources]


def test_terms_are_explained_once(read: Reader) -> None:
    """Where a term stands first on the first screen it has its meaning beside it; screen and paper list all."""
    glossary = example_report().first_screen.glossary
    assert [
        (text, attributes["title"]) for text, attributes in zip(read.within("abbr"), read.all("abbr"), strict=True)
    ] == [("goodput", dict(glossary)["goodput"])]
    assert read.within("dt") == 2 * [term for term, _ in glossary]


def test_ids_are_unique_and_all_references_lead_somewhere(read: Reader, written: str) -> None:
    """Two pictures of one kind share no id, and what a picture or a link refers to is in the page."""
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {(attributes["href"] or "").removeprefix("#") for _, attributes in read.elements if "href" in attributes}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", written))
    assert len(wanted) > 10
    assert wanted <= set(ids)


def test_tables_tell_what_heads_what(read: Reader) -> None:
    """Every table has a caption, every head a scope, and shades stand only where there are some."""
    assert len(read.all("caption")) == len(read.all("table"))
    assert {attributes.get("scope") for attributes in read.all("th")} == {"row", "col"}
    shades = [attributes["style"] for attributes in read.all("td") if "style" in attributes]
    assert set(shades) == {"--share:0.000", "--share:0.333", "--share:0.667", "--share:1.000"}


def test_long_tables_are_folded(read: Reader) -> None:
    """A table of sixty rows is behind a line that says what it is and how long; one of four rows stands open."""
    assert "All inputs (60 rows)" in read.within("summary")
    assert not [text for text in read.within("summary") if text.startswith("Losses by cause")]


def test_the_data_of_the_explorer_come_back(read: Reader) -> None:
    """What the page holds for the explorer is what the report holds, whatever its labels are."""
    assert json.loads("".join(read.within("script")[0])) == json.loads(json.dumps(EXPLORER))
    labels = EXPLORER | {"unknown": ["</script><!--", "<script>"]}
    bare = Report("bare", FirstScreen("", (), (), None, (), ()), (), labels)
    again = Reader(page.write(bare).decode())
    assert json.loads("".join(again.within("script")[0]))["unknown"] == labels["unknown"]
    assert again.open == []


def test_an_empty_report_is_a_page() -> None:
    """Without picture, sections, explorer or footer there is no heading of nothing, and no list without entries."""
    text = page.write(Report("bare", FirstScreen("", (), (), None, (), ()), ())).decode()
    read = Reader(text)
    assert read.within("h1") == ["bare"]
    assert read.open == read.all("h2") == read.all("nav") == read.all("ul") == read.all("figure") == []
    assert len(read.all("script")) == 1


def a_picture(title: str, rows: int = 1) -> Figure:
    """Return bars, as many as wanted."""
    bars = Bars(title, "days", ("a",), tuple(Bar(f"row {number}", (1.0,)) for number in range(rows)))
    return Figure(f"{title}-{rows}", bars, "bars")


def test_what_a_heading_says_is_not_repeated_below_it() -> None:
    """A picture whose title is the heading of its section is drawn without it; another one keeps its title."""
    pictures = (a_picture("All is well"), a_picture("Nothing is slow"))
    text = page.write(
        Report("a", FirstScreen("", (), (), None, (), ()), (Section("s", "All is well", items=pictures),))
    )
    read = Reader(text.decode())
    assert read.within("h2")[1:] == ["All is well"]
    assert "All is well" not in read.within("text")
    assert "Nothing is slow" in read.within("text")


@pytest.mark.parametrize(("rows", "is_low"), [(1, True), (30, False)])
def test_text_stands_below_a_low_picture(rows: int, is_low: bool) -> None:
    """What drives the answer stands in the column of a low first picture, and beside a high one."""
    first_screen = FirstScreen("", (), (), a_picture("A", rows), (("because",),), (("but",),))
    text = page.write(Report("a", first_screen, ())).decode()
    assert text.count('<div class="points">') == (2 if is_low else 1)
    assert text.index("</figure>") < text.index("Main drivers") < text.index("Assumptions and limits")
    assert text.count("Main drivers") == text.count("Assumptions and limits") == 1


def test_control_characters_are_left_out_of_the_page() -> None:
    """Names may hold what no document may; the page has the rest of them."""
    section = Section("s", "a\x01b\x1b", ("c\x00d",), (a_picture("e\x02f"),))
    text = page.write(Report("g\x03h", FirstScreen("i\x04j", (), (), None, (), ()), (section,))).decode()
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", text)
    assert all(word in text for word in ("ab", "cd", "ef", "gh", "ij"))


def test_the_same_report_is_the_same_page() -> None:
    """Bytes are equal from time to time."""
    report = example_report()
    short = dataclasses.replace(report, sections=report.sections[:2])
    assert page.write(short) == page.write(short)


def test_pictures_take_their_colours_from_the_page(read: Reader, written: str) -> None:
    """No picture states a colour: all are variables, which the page defines for light and dark."""
    looks = [attributes["style"] or "" for tag, attributes in read.elements if "style" in attributes and tag != "td"]
    assert len(looks) > 100
    assert not [look for look in looks if "#" in look.replace("url(#", "")]
    used = set(re.findall(r"var\((--p\w+)\)", "".join(looks)))
    assert {f"--p{color.lower().removeprefix('#')}" for color in (INK, HUES[0])} <= used
    assert used <= set(re.findall(r"(--p\w+):light-dark", written))


def test_a_picture_keeps_its_words() -> None:
    """Texts of a picture are texts of the page, so that they can be searched and copied."""
    chart = example_report().pictures["phases"].chart
    said = re.sub(r"<[^>]+>", " ", inline_svg(chart, "name").markup)
    assert all(word in said for word in ("Failures", "restart after a failure", "lost work", "3.50 %"))


def luminance(color: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in channels]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_seen_in_the_dark() -> None:
    """On the dark page hues have a contrast of 3, type one of 7; shades and type on them stay; white and black swap."""
    dark = {paint.light: paint.dark for paint in paints([*RAMP, ON_LIGHT, ON_DARK, "#000000"])}
    assert all(contrast(dark[hue.lower()], PAGE_DARK) >= 3 for hue in HUES)
    assert contrast(dark[INK], PAGE_DARK) >= 7
    assert all(dark[color.lower()] == color.lower() for color in (*RAMP, ON_LIGHT, ON_DARK))
    assert dark["#ffffff"] == PAGE_DARK
    assert luminance(dark["#000000"]) > 0.7


# ----------------------------------------
# Reports as Markdown: read again by a parser of Markdown, they hold what the report says.

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


TEXT = markdown.write(report(rest=tuple(name for name in CHARTS if name != "phases"))).decode()


def test_the_opening_comes_first() -> None:
    """Title, question, answer, doubt: in this order, word for word, before everything else."""
    first_screen = report().first_screen
    wanted = [report().title, first_screen.question, plain(first_screen.answer), plain(first_screen.doubt)]
    assert inline(TEXT)[:4] == wanted


def test_whatever_is_said_is_shown_as_it_is() -> None:
    """Texts with signs that mean something in Markdown come out as they went in, and make no blocks of their own."""
    shown = inline(TEXT)
    first_screen = report().first_screen
    for words in (
        *first_screen.drivers,
        *first_screen.not_covered,
        *(item for one in report().sections for item in one.text),
    ):
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
    wanted = {"4.25", "4.00 to 4.50", "no value", "91.50 to 94.50", "does not fit", "+1.50 at 4"}
    assert wanted | {"300", "96.25", "own memory", "not beaten", "2,500", "1.75", "98.50 (98.00 to 99.00)"} <= cells


def test_a_table_of_many_places_says_how_many_it_shows() -> None:
    """A curve of a thousand places is an even choice of them with both ends, and says so."""
    from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
    from ettrick.analysis.page.formats.markdown import figure_table
    from ettrick.analysis.page.model import Figure

    x = tuple(float(place) for place in range(1000))
    chart = Curves("It grows", ChartAxis("x"), ChartAxis("y"), (Series("", x, x),))
    table = present(figure_table(Figure("key", chart, "alt")))
    assert table.rows[0][0] == "0.0"
    assert table.rows[-1][0] == "999.0"
    assert f"{len(table.rows)} of 1,000 places are shown" in table.note
    assert len(table.rows) <= 42


def test_an_empty_table_is_left_out() -> None:
    """A table without columns leaves nothing; one without rows its head."""
    empty = markdown.write(
        report(None, (), (TableBlock("none", (), ()), TableBlock("head", (Header("only"),), ())))
    ).decode()
    assert "none" not in inline(empty)
    assert ["only"] in [row for table in tables(empty) for row in table]


LONG = "What failures take of the time that is paid for, month after month, on every one of the clusters. " * 12


def opened(made: Report) -> Any:
    """Return the slides of a report."""
    return Presentation(io.BytesIO(slides.write(made)))


def texts(slide: Any) -> list[str]:
    """Return all that is written on a slide."""
    return [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]


def shown(slide: Any) -> Any:
    """Return the one picture of a slide."""
    (shape,) = (shape for shape in slide.shapes if hasattr(shape, "image"))
    return shape


def described(slide: Any) -> str:
    """Return the alternative text of the one picture of a slide."""
    return str(shown(slide)._element.nvPicPr.cNvPr.get("descr"))


@pytest.fixture(scope="module")
def deck() -> Any:
    """Return the slides of the sample."""
    return opened(report())


def test_slides_are_wide_and_have_a_message_each(deck: Any) -> None:
    """Slides of 16:9, of which the titles differ: the answer, and each further picture."""
    titles = [slide.shapes.title.text.replace(KEPT, " ") for slide in deck.slides]
    answer = plain(report().first_screen.answer)
    messages = [message(text) for text in (answer, CHARTS["tornado"].title, CHARTS["intervals"].title)]
    assert titles == [text.replace(KEPT, " ") for text in messages]
    assert deck.slide_width / deck.slide_height == pytest.approx(16 / 9, rel=1e-3)


@cases("name", CHARTS)
def test_a_slide_has_one_picture_few_words_and_large_type(name: str) -> None:
    """At most 20 words of 18 pt or more next to one picture with its alternative text, and no digest of a file.

    Type in pictures is as large, except where a slide holds more rows, columns or nodes than have room.
    """
    (slide, *_) = opened(report(name, ())).slides
    (words,) = [text for text in texts(slide) if text]
    assert 0 < len(words.split()) <= MOST_WORDS
    assert all(run.font.size.pt >= LEAST for run in slide.shapes.title.text_frame.paragraphs[0].runs)
    assert "sha256" not in words
    assert described(slide)
    larger = Length(shown(slide).width).inches / (shown(slide).image.size[0] / shown(slide).image.dpi[0])
    assert TYPE * larger >= (LEAST - 0.5 if name in ("bars", "tornado", "intervals", "phases") else 8)


def test_messages_are_whole_or_end_where_a_clause_does() -> None:
    """An answer is left out after its first semicolon, but not what is too close to call; numbers keep their units."""
    long = "; others come next " + "and again " * 12
    assert message(f"ETTR is 93.1 % (92.9 to 93.4){long}") == f"ETTR is 93.1{KEPT}% (92.9{KEPT}to{KEPT}93.4)"
    assert message(f"A is best{long}too close to call", "A or B is best") == "A or B is best"
    assert message("the useful share of the time (ETTR) rises by 2 percentage points") == f"ETTR rises by 2{KEPT}points"


def test_the_notes_of_the_first_slide_have_the_first_screen(deck: Any) -> None:
    """Question, answer, doubt, drivers and limits are there in full."""
    first_screen, notes = report().first_screen, deck.slides[0].notes_slide.notes_text_frame.text
    said = (first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered)
    assert all(text in notes for text in (first_screen.question, *map(plain, said)))


def test_slides_show_the_pictures_of_the_page(deck: Any) -> None:
    """The first pictures of the report, as the page draws them, each with its alternative text and its shape."""
    for slide, name in zip(deck.slides, ("phases", "tornado", "intervals"), strict=False):
        assert described(slide) == picture(name).alt
        pixels = shown(slide).image.size
        assert shown(slide).width / shown(slide).height == pytest.approx(pixels[0] / pixels[1], rel=0.01)
    assert picture("intervals").caption in deck.slides[2].notes_slide.notes_text_frame.text


def test_pictures_of_every_kind_have_a_slide() -> None:
    """Whatever the page shows can be shown: what bears most on the question, and no more than three pictures."""
    many = opened(report("steps", tuple(CHARTS)))
    assert [described(slide) for slide in list(many.slides)[:3]] == [
        picture(name).alt for name in ("steps", "tornado", "phases")
    ]
    assert len(many.slides) == 3


def test_signs_that_no_file_can_hold_are_replaced() -> None:
    """Control characters in names, which scenarios may have, end neither slides, sheets, notes nor properties."""
    odd = "hot\x01 \x1fspares\ufffe\ud800"
    bars = data.Bars(odd, odd, (odd,), (data.Bar(odd, (1.0,)),))
    shown = Figure("bars", bars, odd, odd)
    first_screen = FirstScreen(odd, (odd,), (odd,), shown, ((odd,),), ((odd,),))
    made = opened(Report(odd, first_screen, (), None, (odd,)))
    assert made.slides[0].shapes.title.text == described(made.slides[0]) == "hot\ufffd \ufffdspares\ufffd\ufffd"


def test_notes_say_where_numbers_come_from(deck: Any) -> None:
    """The notes name the place of every number of a slide, and the numbers of its picture with their intervals."""
    notes = [slide.notes_slide.notes_text_frame.text for slide in deck.slides]
    assert "93.1 %: run.json#/metrics/ettr/mean" in notes[0]
    assert "210 GPU-years: (b - a) * 8760 of run.json#/a, run.json#/b" in notes[0]
    assert "lost work | 4.25 | 4.00 to 4.50" in notes[0]
    assert all("sha256 ab" in text for text in notes)


def drawn_lines(text: str, width: float, size: float) -> int:
    """Return the lines of a text in DejaVu Sans, which is wider than what slides are shown in, by a tenth."""
    lines, used = 1, 0.0
    for word in text.split():
        long = 0.9 * size * relative_width(word) / 72
        space = 0.9 * size * 0.32 / 72
        if used and used + space + long > width:
            lines, used = lines + 1, long
        else:
            used += long + (space if used else 0.0)
    return lines


@functools.cache
def relative_width(word: str) -> float:
    """Return the width of a word over the size of its type."""
    face = FontProperties(family="DejaVu Sans", size=100)
    return float(TextPath((0, 0), word, prop=face).get_extents().width) / 100


def frames(made: Any) -> Iterator[Any]:
    """Return all shapes that hold text."""
    return (shape for slide in made.slides for shape in slide.shapes if shape.has_text_frame and shape.text_frame.text)


@pytest.mark.parametrize("is_long", [False, True])
def test_no_text_overflows(is_long: bool) -> None:
    """Lines as a real face breaks them fit into their boxes; texts that are too long end with a clause."""
    made = report()
    if is_long:
        first_screen = FirstScreen(LONG, (LONG,), (LONG,), picture("bars"), ((LONG,), (LONG,)), ((LONG,), (LONG,)))
        made = Report(LONG, first_screen, (), None, (LONG, LONG))
    found = opened(made)
    for shape in frames(found):
        paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.runs]
        size = paragraphs[0].runs[0].font.size.pt
        width = Length(shape.width).inches
        lines = sum(drawn_lines(paragraph.text, width, size) for paragraph in paragraphs)
        assert lines * 1.2 * size / 72 <= Length(shape.height).inches + 0.02, shape.text_frame.text
    assert all(len(shape.text_frame.text.split()) <= MOST_WORDS for shape in frames(found))


def test_boxes_stay_on_the_slide_and_apart(deck: Any) -> None:
    """No box leaves the slide, and no two boxes of a slide overlap."""
    for slide in deck.slides:
        boxes = [(one.left, one.top, one.left + one.width, one.top + one.height) for one in slide.shapes]
        for left, top, right, bottom in boxes:
            assert left >= 0
            assert top >= 0
            assert right <= deck.slide_width
            assert bottom <= deck.slide_height
        for number, one in enumerate(boxes):
            for other in boxes[:number]:
                assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_the_largest_size_that_fits_is_taken() -> None:
    """A text gets the largest size at which it fits, and keeps all its words; a long word counts as several lines."""
    text = fitted(("one two three",), 4.0, 1.0, (8, 40))
    assert text.paragraphs == ("one two three",)
    assert 8 < text.size <= 40
    assert fitted(("one two three",), 2.0, 1.0, (8, 40)).size < text.size
    assert lines_of("x" * 100, 1.0, 72) > 50


def test_the_same_report_gives_the_same_bytes() -> None:
    """No part of the file has a time of today."""
    content = slides.write(report())
    assert content == slides.write(report())
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert {entry.date_time[0] for entry in file.infolist()} == {1980}
        assert file.read("docProps/core.xml").count(b"1980-01-01T00:00:00Z") == 2


def test_reports_without_pictures_have_slides_too() -> None:
    """Without pictures the answer is left, even of an empty report."""
    assert len(opened(report(None, ())).slides) == 1
    empty = opened(Report("nothing", FirstScreen("", (), (), None, (), ()), ()))
    assert len(empty.slides) == 1
    assert empty.slides[0].shapes.title.text == "nothing"


def test_without_python_pptx_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that brings python-pptx is named."""
    monkeypatch.setitem(sys.modules, "pptx", None)
    with pytest.raises(ReportError, match=r"needs python-pptx: pip install 'ettrick\[report\]'"):
        slides.write(report())


def test_every_picture_has_a_form_for_a_phone_and_paper_has_its_own_order() -> None:
    """Each picture stands there twice, and a style chooses; on paper words come last and pictures fill the page."""
    made = page.write(report("phases", tuple(CHARTS))).decode()
    figures = re.findall(r'<div class="scroll picture".*?</div>', made, re.DOTALL)
    assert len(figures) == len(CHARTS) + 1
    assert all(figure.count("<svg") == 2 and figure.count('class="narrow"') == 1 for figure in figures)
    paper = made[made.index("@media print {") :]
    assert "mm; }" not in re.findall(r"\.picture svg \{[^}]*\}", paper)
    assert made.rindex("Words that are used here") > made.rindex("</main>") - len("</main>")
    assert 'id="printed"' in made
