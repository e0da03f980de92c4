"""The page of a report in a browser: it works, reads and prints as it should, in the light and in the dark."""

from __future__ import annotations

import csv
import io
import itertools
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.analysis.page.formats import html
from ettrick.analysis.page.model import FirstScreen, Report
from tests.browser.example import EVIL, EXPLORER, example_report
from tests.pace import one_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tests.browser.conftest import Opened

REPORT = example_report()

CELLS: list[dict[str, Any]] = EXPLORER["cells"]  # type: ignore[assignment]

MEASURES = (Path(__file__).parent / "measures.js").read_text(encoding="utf-8")

_TYPE = """[...box.querySelectorAll('svg text')].filter(text => text.getBoundingClientRect().width)
    .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""


def test_the_page_asks_for_nothing_and_says_nothing(opened: Callable[..., Opened]) -> None:
    """One file is read, the console stays empty, and words that look like scripts are words."""
    found = opened()
    found.page.wait_for_timeout(50)
    assert len(found.requests) == 1
    assert found.console == []
    assert EVIL in found.page.inner_text("h1").replace("\u00a0", " ")


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_nothing_overflows(opened: Callable[..., Opened], width: int) -> None:
    """The page never scrolls sideways, folded parts open, and no text leaves its box."""
    page = opened(width=width).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(f"{MEASURES}; overflowing()") == []


def test_a_picture_wider_than_a_phone_scrolls_and_says_so(opened: Callable[..., Opened]) -> None:
    """The explorer, which has no form for a phone, keeps type of at least 9 px there."""
    page = opened(width=360).page
    page.wait_for_function("document.querySelector('#explorer-picture').classList.contains('cut')")
    hint = "getComputedStyle(document.querySelector('.picture.cut'), '::after').content"
    assert "Scroll sideways" in page.evaluate(hint)
    assert min(page.evaluate(f"[document.querySelector('#explorer-picture')].flatMap(box => {_TYPE})")) >= 9


@pytest.mark.parametrize("width", [360, 400, 800])
def test_all_of_a_picture_is_seen(opened: Callable[..., Opened], width: int) -> None:
    """No mark of a picture is out of sight, on a phone neither, where its type is at least 8 px high."""
    page = opened(width=width).page
    drawn = "[...document.querySelectorAll('.picture:not(#explorer-picture)')]"
    fits = page.evaluate(f"{drawn}.map(box => box.scrollWidth <= box.clientWidth)")
    assert fits == [True] * len(REPORT.sections)  # the last section has tables only; the first screen has a picture
    assert min(page.evaluate(f"{drawn}.flatMap(box => {_TYPE})")) >= 8
    shown = page.evaluate(f"{drawn}.map(box => [...box.querySelectorAll('svg')].map(svg => svg.clientWidth > 0))")
    assert all(sorted(forms) == [False, True] for forms in shown)
    marks = page.evaluate(
        f"""{drawn}.flatMap(box => [...box.querySelectorAll('svg path, svg text')])
            .map(mark => mark.getBoundingClientRect()).map(box => [box.left, box.right])"""
    )
    assert all(0 <= left <= right <= width for left, right in marks)


def test_light_and_dark(opened: Callable[..., Opened], tmp_path: Path) -> None:
    """The page follows the system, and the button changes it without anything being stored."""
    page = opened(width=800, height=600).page
    ground = "getComputedStyle(document.body).backgroundColor"
    light, white = page.screenshot(path=tmp_path / "light.png"), page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark, black = page.screenshot(path=tmp_path / "dark.png"), page.evaluate(ground)
    assert light != dark
    assert white != black
    assert page.inner_text("#theme") == "Light page"
    page.click("#theme")
    assert page.evaluate(ground) == white
    page.emulate_media(color_scheme="light")  # what was chosen by hand stays
    page.click("#theme")
    assert page.evaluate(ground) == black
    assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0


@pytest.mark.parametrize("scheme", one_in(2, ["light", "dark"]))
def test_all_type_can_be_read(opened: Callable[..., Opened], scheme: str) -> None:
    """Every text has a contrast of 4.5 or more to what is really behind it, in pictures too (WCAG 2.2, 1.4.3)."""
    page = opened(width=1200, height=20_000, scheme=scheme, scale=0.25).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    found = page.evaluate(f"{MEASURES}; contrasts()")
    assert len(found) > 200
    assert [entry for entry in found if entry["ratio"] < 4.5] == []


def test_the_measure_of_contrast_turns_red(opened: Callable[..., Opened]) -> None:
    """Grey on white is found, and ink on ink in a picture."""
    page = opened(width=1200, height=20_000, scale=0.25).page
    page.evaluate(
        """() => {
          document.querySelector('.doubt').style.color = '#999';
          const text = document.querySelector('.picture svg text');
          text.style.fill = getComputedStyle(document.body).backgroundColor;
        }"""
    )
    poor = page.evaluate(f"{MEASURES}; contrasts()")
    assert {entry["where"] for entry in poor if entry["ratio"] < 4.5} >= {"P", "text"}


def test_the_structure_is_that_of_a_document(opened: Callable[..., Opened]) -> None:
    """One h1, no level of headings left out, landmarks, unique ids, links that lead somewhere, and names."""
    found = opened().page.evaluate(f"{MEASURES}; structure()")
    levels = found["levels"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert found["landmarks"] == {"header": 1, "main": 1, "nav": 1, "footer": 1}
    assert found["language"] == "en"
    assert found["twice"] == found["nowhere"] == found["unnamed"] == found["unscoped"] == []


def test_the_keyboard_reaches_everything(opened: Callable[..., Opened]) -> None:
    """The first Tab skips to the content; the button, contents, controls, picture and copying follow, visibly."""
    page = opened().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached, outlines = [], []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.name || document.activeElement.id || document.activeElement.tagName")
        )
        outlines.append(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
        if reached[-1] == "explorer-copy":
            break
    assert {"theme", "A", "metric", "x", "series", "at.spares", "svg", "SUMMARY", "explorer-copy"} <= set(reached)
    assert set(outlines) <= {"solid", "auto"}


def test_arrow_keys_read_out_the_values(opened: Callable[..., Opened]) -> None:
    """Right goes along the axis, down to the next line, End to the last; the text is a live region."""
    page = opened().page
    page.focus("#explorer-picture svg")
    first = page.inner_text("#explorer-value")
    page.keyboard.press("ArrowRight")
    second = page.inner_text("#explorer-value")
    page.keyboard.press("ArrowDown")
    below = page.inner_text("#explorer-value")
    assert "failure rate 0.25, store local" in first
    assert "failure rate 1, store local" in second
    assert "failure rate 1, store remote" in below
    page.keyboard.press("End")
    assert "infeasible: needs more nodes than there are" in page.inner_text("#explorer-value")
    assert page.get_attribute("#explorer-value", "role") == "status"


def test_pointing_at_a_mark_says_exactly_what_the_data_say(opened: Callable[..., Opened]) -> None:
    """Of every mark the text has the mean, the interval, the band and the luck of one run where the data have them."""
    page = opened().page
    shown = [cell for cell in CELLS if cell["at"][2] == 1 and cell["numbers"][0]]
    marks = page.locator("#explorer-picture .mark")
    assert marks.count() == len(shown)
    said = []
    for index in range(marks.count()):
        marks.nth(index).hover(force=True)
        said.append(page.inner_text("#explorer-value"))
    for cell in shown:
        mean, interval, band, luck, _ = cell["texts"][0]
        parts = [f"ETTR {mean};", f"of the mean {interval};", f"unknown inputs {band}"]
        parts += [f"; nine of ten runs within {luck}."] if luck else []
        (text,) = (text for text in said if all(part in text for part in parts))
        assert ("nine of ten" in text) == (luck != "")


def heights(page: Any) -> list[float]:
    """Return how far down the marks of the explorer are."""
    found: list[float] = page.evaluate(
        "[...document.querySelectorAll('#explorer-picture .mark')].map(mark => +mark.getAttribute('cy'))"
    )
    return found


def test_marks_are_where_their_values_are(opened: Callable[..., Opened]) -> None:
    """Heights of marks are in proportion to the means, as the labels of the axis are to their numbers."""
    page = opened().page
    marks = heights(page)
    shown = sorted((cell for cell in CELLS if cell["at"][2] == 1), key=lambda cell: (cell["at"][1], cell["at"][0]))
    means = [cell["numbers"][0][0] for cell in shown if cell["numbers"][0]]
    ticks = page.evaluate(
        """[...document.querySelectorAll('#explorer-picture text[text-anchor=end]')]
           .map(text => [+text.textContent, +text.getAttribute('y') - 4])"""
    )
    slope, height = np.polyfit([number for number, _ in ticks], [place for _, place in ticks], 1)
    assert slope < 0  # more is higher
    assert marks == pytest.approx([slope * mean + height for mean in means], abs=0.1)


@pytest.fixture(scope="module")
def twelve_lines(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write pages whose explorer has twelve lines, with names that end alike."""

    def write(name: str) -> Path:
        names = tuple(f"{name} {number:02}" for number in range(12))
        axes = [EXPLORER["axes"][0], EXPLORER["axes"][1] | {"values": names}]  # type: ignore[index]
        cells = [
            {"at": [at, line], "numbers": [[90.0 - line - at, *[None] * 6]], "texts": [["90 %", "", "", "", ""]]}
            for at in range(3)
            for line in range(12)
        ]
        data = EXPLORER | {"axes": axes, "cells": cells, "start": {"x": 0, "series": 1, "at": [0, 0]}}
        data |= {"metrics": EXPLORER["metrics"][:1]}  # type: ignore[index]
        path = tmp_path_factory.mktemp("lines") / "report.html"
        path.write_bytes(html.write(Report("lines", FirstScreen("", (), (), None, (), ()), (), data)))
        return path

    return write


@pytest.mark.parametrize("name", ["line", "a cluster with racks that are drained whole and spares as many as"])
def test_twelve_lines_can_be_told_apart(
    opened: Callable[..., Opened], twelve_lines: Callable[[str], Path], name: str
) -> None:
    """No two lines look alike, and all names are whole and within the picture, at its right or below it."""
    page = opened(width=768, file=twelve_lines(name)).page
    found = page.evaluate(
        """() => {
          const outer = document.querySelector('#explorer-picture svg').getBoundingClientRect();
          return [...document.querySelectorAll('#explorer-picture .key')].map(key => {
            const [line, mark, text] = key.children, box = key.getBoundingClientRect();
            return {text: text.textContent, right: outer.right - box.right, bottom: outer.bottom - box.bottom,
              look: ['stroke', 'stroke-dasharray'].map(each => line.getAttribute(each)) + mark.getAttribute('fill')};
          });
        }"""
    )
    assert {each["text"] for each in found} == {f"{name} {number:02}" for number in range(12)}
    assert len({each["look"] for each in found}) == 12
    assert min(each["right"] for each in found) >= 0
    assert min(each["bottom"] for each in found) >= 0


def test_controls_change_the_figure(opened: Callable[..., Opened]) -> None:
    """Another metric, axis, line or value is another picture, with as many marks as there are such cells, and rows."""
    page = opened().page
    seen = [heights(page)]
    page.select_option("select[name='at.spares']", label="8")
    seen.append(heights(page))
    page.select_option("select[name='at.spares']", label="all values")
    seen.append(heights(page))
    page.select_option("select[name=metric]", label="Cost")
    seen.append(heights(page))
    page.select_option("select[name=x]", label="store")
    seen.append(heights(page))
    page.select_option("select[name=series]", label="nothing")
    assert [len(marks) for marks in seen] == [5, 6, 11, 11, 11]
    assert len({tuple(marks) for marks in seen}) == 5
    assert page.locator("#explorer-table tbody tr").count() == 4  # rate was kept at 0.25
    assert "1,000 USD" in page.locator("#explorer-table").text_content()
    assert page.evaluate("document.activeElement.name") == "series"


def test_the_address_keeps_the_choice(opened: Callable[..., Opened]) -> None:
    """An address copied after a choice opens the same picture; one that makes no sense opens the first one."""
    page = opened().page
    usual = page.inner_html("#explorer-picture")
    page.select_option("select[name=metric]", label="Cost")
    page.select_option("select[name=x]", label="hot spares")
    chosen, address = page.inner_html("#explorer-picture"), page.evaluate("location.hash")
    assert chosen != usual
    assert opened(at=address).page.inner_html("#explorer-picture") == chosen
    assert (
        opened(at="#explore:x=nonsense&metric=7&at.spares=16&series=store").page.inner_html("#explorer-picture")
        == usual
    )


@pytest.mark.parametrize("allowed", [True, False])
def test_the_numbers_can_be_copied(opened: Callable[..., Opened], allowed: bool) -> None:
    """What is shown is copied as CSV with all digits; where a browser refuses, it stands there to be copied by hand."""
    answer = "window.copied = text; return Promise.resolve()" if allowed else "return Promise.reject(new Error('no'))"
    page = opened().page
    page.evaluate(f"() => {{ navigator.clipboard.writeText = (text) => {{ {answer} }} }}")
    page.click("#explorer-copy")
    page.wait_for_function("document.getElementById('explorer-copied').textContent !== ''")
    text = page.evaluate("window.copied") if allowed else page.input_value("#explorer-csv")
    assert page.is_visible("#explorer-csv") is not allowed
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][:4] == ["failure rate", "store", "hot spares", "ETTR [%]"]
    shown = {
        ("0.25", "1", "4")[cell["at"][0]] + ("local", "remote")[cell["at"][1]]: cell for cell in CELLS if cell["at"][2]
    }
    assert len(rows) == len(shown) + 1
    for row in rows[1:]:
        cell = shown[row[0] + row[1]]
        numbers = cell["numbers"][0] or [None] * 7
        assert [float(entry) if entry else None for entry in row[3:10]] == numbers
        assert row[10] == cell["texts"][0][4]


def test_without_scripting_all_pictures_are_there(opened: Callable[..., Opened]) -> None:
    """The explorer gives way to a line that says where the same is shown; everything else stays."""
    page = opened(scripts=False).page
    pictures = page.locator(".picture svg:not(.narrow)")
    assert pictures.count() == len(REPORT.sections)
    assert all(pictures.nth(index).is_visible() for index in range(pictures.count()))
    assert not page.locator("#explorer-body").is_visible()
    assert not page.locator("#theme").is_visible()
    assert "The pictures below show the same results" in page.locator("#explorer").inner_text()


@pytest.fixture
def printed(opened: Callable[..., Opened], tmp_path: Path) -> Path:
    """Print the page to PDF as somebody does who reads it in the dark."""
    if shutil.which("pdftoppm") is None or shutil.which("pdftotext") is None:
        pytest.skip("skipped: no poppler-utils on this machine")
    path = tmp_path / "report.pdf"
    page = opened().page
    page.click("#theme")
    page.pdf(path=path, prefer_css_page_size=True)
    return path


def images_of(path: Path) -> list[npt.NDArray[np.uint8]]:
    """Return the pages of a PDF as greys."""
    subprocess.run(["pdftoppm", "-gray", "-r", "40", str(path), str(path.with_suffix(""))], check=True)
    pages = []
    for image in sorted(path.parent.glob("report-*.pgm")):
        kind, width, height, depth = image.read_bytes().split(maxsplit=4)[:4]
        assert (kind, depth) == (b"P5", b"255")
        shape = int(height), int(width)
        pages.append(np.frombuffer(image.read_bytes()[-shape[0] * shape[1] :], np.uint8).reshape(shape))
    return pages


@pytest.mark.nightly
def test_print(printed: Path) -> None:
    """On paper all but long tables is there and unfolded, black on white, without what can only be clicked."""
    pages = images_of(printed)
    assert len(pages) > 3
    for page in pages:
        height = len(page)
        assert np.median(page) == 255  # paper
        assert (page[height // 10 : -height // 10] < 128).any()  # ink, between head and foot
    text = subprocess.run(
        ["pdftotext", "-layout", str(printed), "-"], capture_output=True, text=True, check=True
    ).stdout
    said = "".join(text.split())
    titles = [section.title for section in REPORT.sections]
    for words in (
        REPORT.title,
        REPORT.first_screen.question,
        "Saving remotely would add 2.4 percentage points",
        *titles,
    ):
        assert "".join(words.split()) in said, words
    # A long table is for a screen too: paper says where it is.
    assert "Allinputs(60rows):onascreen" in said
    assert "input59" not in said
    assert "Explore" not in said
    # Pictures say it already: their numbers are printed for the first one alone, and places in files are for a screen.
    assert said.count("Thenumbersasatable") == 1
    assert "Wherethesenumberscomefrom" not in said
    assert text.count("checkpoints") >= len(pages)  # at the head of each
