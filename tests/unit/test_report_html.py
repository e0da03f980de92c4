"""The page of a report: one file that needs nothing else, says what the report says, and no text can break."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import re

import pytest

from analysis.page.charts.data import Bar, Bars
from analysis.page.charts.sheet import HUES, INK, ON_DARK, ON_LIGHT, RAMP
from analysis.page.formats import html as page
from analysis.page.formats.html import PAGE_DARK, inline_svg, paints
from analysis.page.model import Number, Opening, Picture, Report, Section
from tests.browser.example import EVIL, EXPLORER, example_report

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
    assert "".join(read.within("h1")) == report.opening.question
    assert f"{report.title}: report" in read.within("title")
    assert [text for text in read.within("h2") if EVIL in text] == [s.title for s in report.sections if EVIL in s.title]
    labels = [attributes["aria-label"] for attributes in read.all("div") if attributes.get("role") == "img"]
    assert labels == [picture.alt for picture in (report.opening.picture, *report.pictures.values()) if picture]


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
    opening = example_report().opening
    numbers = [part for words in (opening.answer, *opening.drivers) for part in words if isinstance(part, Number)]
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
    """Where a term stands first on the first screen it has its meaning beside it, and the list has all terms."""
    glossary = example_report().opening.glossary
    assert [
        (text, attributes["title"]) for text, attributes in zip(read.within("abbr"), read.all("abbr"), strict=True)
    ] == [("goodput", dict(glossary)["goodput"])]
    assert read.within("dt") == [term for term, _ in glossary]


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
    bare = Report("bare", Opening("", (), (), None, (), ()), (), labels)
    again = Reader(page.write(bare).decode())
    assert json.loads("".join(again.within("script")[0]))["unknown"] == labels["unknown"]
    assert again.open == []


def test_an_empty_report_is_a_page() -> None:
    """Without picture, sections, explorer or footer there is no heading of nothing, and no list without entries."""
    text = page.write(Report("bare", Opening("", (), (), None, (), ()), ())).decode()
    read = Reader(text)
    assert read.within("h1") == ["bare"]
    assert read.open == read.all("h2") == read.all("nav") == read.all("ul") == read.all("figure") == []
    assert len(read.all("script")) == 1


def a_picture(title: str, rows: int = 1) -> Picture:
    """Return bars, as many as wanted."""
    bars = Bars(title, "days", ("a",), tuple(Bar(f"row {number}", (1.0,)) for number in range(rows)))
    return Picture(f"{title}-{rows}", bars, "bars")


def test_what_a_heading_says_is_not_repeated_below_it() -> None:
    """A picture whose title is the heading of its section is drawn without it; another one keeps its title."""
    pictures = (a_picture("All is well"), a_picture("Nothing is slow"))
    text = page.write(Report("a", Opening("", (), (), None, (), ()), (Section("s", "All is well", items=pictures),)))
    read = Reader(text.decode())
    assert read.within("h2")[1:] == ["All is well"]
    assert "All is well" not in read.within("text")
    assert "Nothing is slow" in read.within("text")


@pytest.mark.parametrize(("rows", "is_low"), [(1, True), (30, False)])
def test_text_stands_below_a_low_picture(rows: int, is_low: bool) -> None:
    """What drives the answer stands in the column of a low first picture, and beside a high one."""
    opening = Opening("", (), (), a_picture("A", rows), (("because",),), (("but",),))
    text = page.write(Report("a", opening, ())).decode()
    assert text.count('<div class="points">') == (2 if is_low else 1)
    assert text.index("</figure>") < text.index("What drives it") < text.index("What it does not cover")
    assert text.count("What drives it") == text.count("What it does not cover") == 1


def test_control_characters_are_left_out_of_the_page() -> None:
    """Names may hold what no document may; the page has the rest of them."""
    section = Section("s", "a\x01b\x1b", ("c\x00d",), (a_picture("e\x02f"),))
    text = page.write(Report("g\x03h", Opening("i\x04j", (), (), None, (), ()), (section,))).decode()
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
    chart = example_report().pictures["waterfall"].chart
    said = re.sub(r"<[^>]+>", " ", inline_svg(chart, "name").markup)
    assert all(word in said for word in ("Failures", "restart after a failure", "lost work", "productive"))


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
