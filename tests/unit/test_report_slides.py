"""Reports as slides: opened again with python-pptx, they hold what the report says."""

from __future__ import annotations

import functools
import io
import sys
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from pptx import Presentation
from pptx.util import Length

from analysis.page.charts import data
from analysis.page.formats import slides
from analysis.page.formats.slides import BODY, REST, Deck, fitted, lines_of, show_picture
from analysis.page.material import ReportError
from analysis.page.model import Opening, Picture, Report, plain
from tests.report_sample import CHARTS, picture, report

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = "What failures take of the time that is paid for, month after month, on every one of the clusters. " * 12


def opened(made: Report) -> Any:
    """Return the slides of a report."""
    return Presentation(io.BytesIO(slides.write(made)))


def texts(slide: Any) -> list[str]:
    """Return all that is written on a slide."""
    return [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]


def chart(slide: Any) -> dict[str, list[float | None]]:
    """Return the values of the one chart of a slide, by series."""
    (shape,) = (shape for shape in slide.shapes if shape.has_chart)
    return {series.name: list(series.values) for series in shape.chart.plots[0].series}


@pytest.fixture(scope="module")
def deck() -> Any:
    """Return the slides of the sample."""
    return opened(report())


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Return a slide with each kind of picture, as it is read back."""
    made = Deck.empty("charts")
    for name in CHARTS:
        show_picture(made, made.slide(name, ""), BODY, picture(name))
    read = Presentation(io.BytesIO(made.content()))
    return dict(zip(CHARTS, read.slides, strict=True))


def test_there_are_five_wide_slides_with_a_message_each(deck: Any) -> None:
    """Five slides of 16:9, of which the titles differ."""
    titles = [slide.shapes.title.text for slide in deck.slides]
    assert len(titles) == len(set(titles)) == 5
    assert deck.slide_width / deck.slide_height == pytest.approx(16 / 9, rel=1e-3)


def test_the_answer_is_the_first_title(deck: Any) -> None:
    """The first slide has question, answer and doubt as the report does, and the answer is the largest."""
    opening = report().opening
    first = deck.slides[0]
    assert first.shapes.title.text == plain(opening.answer)
    assert {opening.question, plain(opening.doubt), report().title} <= set(texts(first))
    sizes = {
        shape.text_frame.text: shape.text_frame.paragraphs[0].runs[0].font.size
        for shape in first.shapes
        if shape.has_text_frame
    }
    assert max(sizes, key=lambda text: sizes[text]) == plain(opening.answer)


def test_pictures_say_what_they_show(deck: Any) -> None:
    """Titles of the second and third slide are those of the pictures; drivers and what is left out are all there."""
    opening = report().opening
    assert deck.slides[1].shapes.title.text == CHARTS["waterfall"].title
    assert deck.slides[2].shapes.title.text == CHARTS["intervals"].title
    assert deck.slides[3].shapes.title.text == CHARTS["tornado"].title
    driven = "\n".join(texts(deck.slides[3]))
    assert all(plain(words) in driven for words in opening.drivers)
    last = "\n".join(texts(deck.slides[4]))
    assert all(plain(words) in last for words in opening.not_covered)
    assert "\n".join(report().footer) in last


def test_steps_of_a_waterfall_stand_on_each_other(shown: dict[str, Any]) -> None:
    """Base plus loss is where the step before ended, and gains and losses are those of the picture."""
    found = chart(shown["waterfall"])
    sample = CHARTS["waterfall"]
    level = sample.start[1]
    assert found["total"] == [level, None, None, None, sample.end[1]]
    for place, change in enumerate(sample.changes, start=1):
        low = found["base"][place]
        assert low == min(level, level + change.amount)
        level += change.amount
        signed = (found["gain"][place] or 0.0) - (found["loss"][place] or 0.0)
        assert signed == change.amount
    assert level == sample.end[1]


def test_values_of_charts_are_those_of_the_pictures(shown: dict[str, Any]) -> None:
    """Bars, points and curves have the numbers of the report to the last digit; what is not known is left out."""
    assert chart(shown["intervals"]) == {"mean": [91.5, 93.0], "target": [92.0, 92.0]}
    assert chart(shown["bars"]) == {"lost work": [1200.0, 300.25], "restarts": [800.5, None]}
    assert chart(shown["tornado"]) == {"at the low end": [1.5, 0.25], "at the high end": [-2.5, -0.5]}
    assert chart(shown["stack"]) == {"attention": [3.5], "network": [6.25], "bubble": [0.25]}
    assert chart(shown["named places"]) == {"goodput [%]": [92.0, 94.5]}
    assert chart(shown["front"]) == {"not beaten": [60.0, 55.0], "beaten": [56.0]}
    curves = chart(shown["curves"])
    assert curves["simulated"] == [98.5, 96.25, 91.0]
    assert curves["formula"] == [98.75, 91.5]
    assert curves["Llama 3 (arXiv 2407.21783)"] == [90.0]


def test_intervals_are_whiskers(shown: dict[str, Any]) -> None:
    """Means of 91.5 and 93.0 with bands of 3 points have whiskers of 1.5; bars those of their own intervals."""

    def whiskers(name: str, side: str) -> list[float]:
        (shape,) = (shape for shape in shown[name].shapes if shape.has_chart)
        space = shape.chart._chartSpace
        return [float(text) for text in space.xpath(f".//c:errBars/c:{side}//c:v/text()")]

    assert whiskers("intervals", "plus") == whiskers("intervals", "minus") == [1.5, 1.5]
    assert whiskers("bars", "plus") == [100.0, 49.75]
    assert whiskers("tornado", "minus") == [0.25, 0.25]
    assert whiskers("curves", "minus") == [0.5, 1.0]
    assert whiskers("named places", "plus") == [1.0, 0.5]
    assert whiskers("waterfall", "plus") == [0.25]


def test_whiskers_of_a_waterfall_are_where_its_steps_end(shown: dict[str, Any]) -> None:
    """A loss ends at the top of the invisible base, so the base has its whisker: 100 - 4.25, from 95.5 to 96.0."""
    (shape,) = (shape for shape in shown["waterfall"].shapes if shape.has_chart)
    (bars,) = shape.chart._chartSpace.xpath(".//c:errBars")
    assert bars.getparent() is shape.chart.plots[0].series[0]._element
    assert shape.chart._chartSpace.xpath(".//c:errBars/c:plus//c:pt/@idx") == ["1"]


def test_long_curves_have_few_whiskers_and_steps_have_them_at_their_tops() -> None:
    """Of a hundred intervals some are drawn, at their own points; the foot of a step has none."""
    places = tuple(float(place) for place in range(100))
    ranges = tuple((place - 1.0, place + 2.0) for place in places)
    for look in ("line", "step"):
        curve = data.Series("many", places, places, ranges, look=look)
        made = Deck.empty("curve")
        slide = made.slide("curve", "")
        sample = data.Curves("many", data.Scale("x"), data.Scale("y"), (curve,))
        show_picture(made, slide, BODY, Picture("curve", sample, "many"))
        (shape,) = (shape for shape in slide.shapes if shape.has_chart)
        found = shape.chart._chartSpace.xpath(".//c:errBars/c:plus//c:pt/c:v/text()")
        assert 5 <= len(found) <= 24
        assert set(found) == {"2.0"}


def test_an_axis_that_does_not_begin_at_zero_is_told(shown: dict[str, Any], deck: Any) -> None:
    """The caption of the slide names the place at which the axis of the waterfall begins."""
    (shape,) = (shape for shape in shown["waterfall"].shapes if shape.has_chart)
    begin = shape.chart.value_axis.minimum_scale
    assert begin > 50
    assert f"The axis begins at {begin:g}, so the full columns are cut off." in "\n".join(texts(deck.slides[1]))


def test_signs_that_no_file_can_hold_are_replaced() -> None:
    """Control characters in names, which scenarios may have, end neither slides, sheets, notes nor properties."""
    odd = "hot\x01 \x1fspares\ufffe\ud800"
    bars = data.Bars(odd, odd, (odd,), (data.Bar(odd, (1.0,)),))
    shown = Picture("bars", bars, odd, odd)
    opening = Opening(odd, (odd,), (odd,), shown, ((odd,),), ((odd,),))
    made = opened(Report(odd, opening, (), None, (odd,)))
    assert made.slides[1].shapes.title.text == "hot\ufffd \ufffdspares\ufffd\ufffd"


def test_what_was_lost_is_stacked_by_cause(shown: dict[str, Any]) -> None:
    """A bar for each row is made of its columns; of many rows the last ones are added up, and nothing is left out."""
    assert chart(shown["heat map"]) == {"detection": [5000.0, 0.0], "restart": [100.0, 2500.0]}
    rows = tuple(str(number) for number in range(20))
    many = CHARTS["heat map"]._replace(rows=rows, values=[(float(number), 1.0) for number in range(20)])
    made = Deck.empty("charts")
    show_picture(made, made.slide("many", ""), BODY, replace(picture("heat map"), chart=many))
    found = chart(next(iter(Presentation(io.BytesIO(made.content())).slides)))
    assert [sum(value or 0.0 for value in values) for values in found.values()] == [sum(range(20)), 20.0]
    assert len(found["detection"]) < len(rows)


def test_what_no_chart_can_show_is_a_table(shown: dict[str, Any]) -> None:
    """Heat maps of shares, and contours, become tables with their texts, in which the worst cell is the darkest."""
    made = Deck.empty("charts")
    good = replace(picture("heat map"), chart=CHARTS["heat map"]._replace(high_is_good=True))
    show_picture(made, made.slide("shares", ""), BODY, good)
    slide = next(iter(Presentation(io.BytesIO(made.content())).slides))
    (shape,) = (shape for shape in slide.shapes if shape.has_table)
    cells = [[cell.text for cell in row.cells] for row in shape.table.rows]
    assert cells[1:] == [["hang", "5,000", "100"], ["crash", "none", "2,500"]]
    red = {cell.text: cell.fill.fore_color.rgb[2] for cell in list(shape.table.rows)[1].cells}
    assert red["100"] < red["5,000"]
    (shape,) = (shape for shape in shown["contours"].shapes if shape.has_table)
    assert [cell.text for cell in list(shape.table.rows)[2].cells] == ["10.00", "80.50", "90.50", "94.50"]


def test_notes_say_where_numbers_come_from(deck: Any) -> None:
    """The notes name the place of every number of a slide, and the numbers of its picture with their intervals."""
    notes = [slide.notes_slide.notes_text_frame.text for slide in deck.slides]
    assert "93.1 %: run.json#/metrics/ettr/mean" in notes[0]
    assert "210 GPU-years: (b - a) * 8760 of run.json#/a, run.json#/b" in notes[3]
    assert "lost work | −4.25 | −4.50 to −4.00" in notes[1]
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
    """Lines as a real face breaks them fit into their boxes; texts that are too long are cut, and say so."""
    made = report()
    if is_long:
        opening = Opening(LONG, (LONG,), (LONG,), picture("bars"), ((LONG,), (LONG,)), ((LONG,), (LONG,)))
        made = Report(LONG, opening, (), None, (LONG, LONG))
    found = opened(made)
    for shape in frames(found):
        paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.runs]
        size = paragraphs[0].runs[0].font.size.pt
        width = Length(shape.width).inches
        lines = sum(drawn_lines(paragraph.text, width, size) for paragraph in paragraphs)
        assert lines * 1.2 * size / 72 <= Length(shape.height).inches + 0.02, shape.text_frame.text
    cut = [shape for shape in frames(found) if shape.text_frame.text.endswith(REST.strip())]
    assert bool(cut) == is_long


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
    """No part of the file, nor of the sheets in it, has a time of today."""
    content = slides.write(report())
    assert content == slides.write(report())
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        sheets = [name for name in file.namelist() if name.endswith(".xlsx")]
        parts = [file, *(zipfile.ZipFile(io.BytesIO(file.read(name))) for name in sheets)]
        assert len(parts) == 4
        for part in parts:
            assert {entry.date_time[0] for entry in part.infolist()} == {1980}
            assert part.read("docProps/core.xml").count(b"1980-01-01T00:00:00Z") == 2


def test_reports_without_pictures_have_slides_too() -> None:
    """Tables stand in for pictures, words for tables; there are five slides even of an empty report."""
    made = opened(report(None, ()))
    assert [any(shape.has_table for shape in slide.shapes) for slide in made.slides] == [0, 1, 0, 0, 0]
    assert made.slides[1].shapes.title.text == "Every cause"
    empty = opened(Report("nothing", Opening("", (), (), None, (), ()), ()))
    assert len(empty.slides) == 5
    assert empty.slides[0].shapes.title.text == "nothing"


def test_without_python_pptx_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that brings python-pptx is named."""
    monkeypatch.setitem(sys.modules, "pptx", None)
    with pytest.raises(ReportError, match=r"needs python-pptx: pip install 'ettrick\[report\]'"):
        slides.write(report())
