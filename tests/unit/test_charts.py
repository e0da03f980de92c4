"""Pictures of reports: they show the data and nothing else, can be read, and are the same bytes each time."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from ettrick import sim
from ettrick.analysis.amounts import decimals_of, number_text
from ettrick.analysis.metrics import BUCKETS
from ettrick.analysis.page import charts
from ettrick.analysis.page.charts.cluster import PLAIN, Canvas, draw_parts, draw_tiers, is_small
from ettrick.analysis.page.charts.cluster import Text as Text_
from ettrick.analysis.page.charts.data import (
    Bar,
    Bars,
    ChartAxis,
    Curves,
    Dot,
    HeatMap,
    Interval,
    Intervals,
    Series,
    Stack,
    StackPart,
)
from ettrick.analysis.page.charts.sheet import (
    FAINT,
    GREY,
    HUES,
    INK,
    MARKERS,
    ON_DARK,
    ON_LIGHT,
    QUIET,
    RAMP,
    beside,
    block_width,
    cut,
    lightness,
    on,
    width_of,
    wrapped,
)
from ettrick.analysis.page.formats.html import PAGE_DARK, paints
from ettrick.sim import Topology
from ettrick.sim.cluster import ClusterSpec, Edges, FatTree, Hosts, edges
from ettrick.sim.cluster.fabric import DualPlane
from tests.cases import cases
from tests.chart_cases import CASES, LOG, LONG, ON, SCALES
from tests.pace import one_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from numpy.typing import NDArray

    from ettrick.sim.cluster import FabricKind

PALETTE = {color.lower() for color in (*HUES, *RAMP, INK, GREY, FAINT, ON_LIGHT, ON_DARK, "#ffffff")}


def written(figure: Figure) -> list[Text]:
    """Return all texts that are seen."""
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def words(figure: Figure) -> list[str]:
    """Return what is written, each text on one line."""
    return [" ".join(text.get_text().split()) for text in written(figure)]


def bars(axes: Axes) -> list[Rectangle]:
    """Return the bars of a picture, in the order in which they were drawn."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def ends(bar: Rectangle) -> list[float]:
    """Return where a bar begins and ends, from the left."""
    return sorted((float(bar.get_x()), float(bar.get_x() + bar.get_width())))


def luminance(color: Any) -> float:
    """Return the relative luminance of a colour by WCAG 2 [-]."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Any, other: Any) -> float:
    """Return the contrast of two colours by WCAG 2 [-]."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_every_kind_has_a_case() -> None:
    """Each kind of picture is among the cases; topologies have tests of their own."""
    assert {type(chart) for chart in CASES.values()} | {Topology} == set(charts.CHARTS)


def check_words(figure: Figure, slack: float) -> list[tuple[Text, Bbox]]:
    """Assert that all words lie within a picture and on no others, but for some dots; return each with its box."""
    with charts.style():
        figure.draw_without_rendering()
        renderer = FigureCanvasAgg(figure).get_renderer()
        found = [(text, text.get_window_extent(renderer)) for text in written(figure)]
    assert found
    for text, box in found:
        assert min(box.x0, box.y0) >= -slack, text
        assert box.x1 <= figure.bbox.x1 + slack, text
        assert box.y1 <= figure.bbox.y1 + slack, text
        assert not re.search(r"\b(nan|inf|None)\b", text.get_text()), text
    for (text, one), (other_text, other) in itertools.combinations(found, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        up = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(across, up) <= slack, (text, other_text)
    return found


@pytest.mark.parametrize("width", [7.0, charts.NARROW])
@pytest.mark.parametrize("name", one_in(2, CASES))
def test_words_can_be_read(name: str, width: float) -> None:
    """All words lie within the picture, no words lie on others, and none is an empty phrase of a program."""
    figure = charts.draw(CASES[name], width)
    assert figure.get_size_inches()[0] == width or name.startswith("heat map")
    check_words(figure, slack=0.5)


@pytest.mark.parametrize("name", [name for name in CASES if "," not in name])
def test_pictures_are_made_of_few_colours_and_of_text(name: str) -> None:
    """A page can change the colours and be searched: all colours are those of the style, and words are no shapes."""
    figure = charts.draw(CASES[name])
    picture = charts.render(figure, ".svg").decode()
    assert {color.lower() for color in re.findall(r"#[0-9a-fA-F]{6}\b", picture)} <= PALETTE
    said = {re.sub(r"\s+", " ", text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture)}
    lines = {" ".join(line.split()) for text in written(figure) for line in text.get_text().split("\n")}
    assert {line.replace("&", "&amp;") for line in lines} <= {text.strip() for text in said}
    assert "'DejaVu Sans', sans-serif" in picture


def test_the_same_picture_is_the_same_bytes_in_another_process() -> None:
    """Neither a second time nor another process, with other hashes, changes a byte."""
    names = ["curves"]
    program = (
        "import hashlib; from ettrick.analysis.page.charts import draw, render; from tests.chart_cases import CASES\n"
        f"for name in {names!r}: print(hashlib.sha256(render(draw(CASES[name]), '.svg')).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    here = [
        [hashlib.sha256(charts.render(charts.draw(CASES[name]), ".svg")).hexdigest() for name in names] for _ in "ab"
    ]
    assert here[0] == here[1] == other.decode().split()


def test_type_has_contrast() -> None:
    """Type is at least 4.5 times as light or dark as what it stands on, and shades go one way."""
    quiet = [1 - QUIET * (1 - part) for part in to_rgb(INK)]
    assert contrast(quiet, "white") >= 4.5
    assert contrast(INK, FAINT) >= 4.5
    for number, shade in enumerate(RAMP):
        assert contrast(on(number), shade) >= 4.5
    shades = [luminance(shade) for shade in RAMP]
    assert shades == sorted(shades, reverse=True)
    assert all(one > 1.1 * other for one, other in itertools.pairwise(shades))


# How people without the cones for red or for green see linear red, green and blue (Machado et al. 2009, severity 1).
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(color: Any, vision: str = "all cones") -> NDArray[np.float64]:
    """Return a colour in CIELAB as a vision sees it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    seen = TO_XYZ @ np.clip(VISIONS[vision] @ linear, 0, 1) / (0.95047, 1.0, 1.08883)
    x, y, z = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@cases(("page", "least"), [("white", 16.0), (PAGE_DARK, 11.0)])
def test_lines_can_be_seen_and_distinguished(page: str, least: float) -> None:
    """Lines have a contrast of three to the page, and no two look alike, whether or not eyes see red and green."""
    dark = {paint.light: paint.dark for paint in paints(HUES)}
    hues = [hue.lower() if page == "white" else dark[hue.lower()] for hue in HUES]
    assert min(contrast(hue, page) for hue in hues) >= 3.0
    for vision in VISIONS:
        colors = [lab(hue, vision) for hue in hues]
        assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(colors, 2)) >= least, vision
    assert len(set(MARKERS)) == len(HUES)


def test_lightness_is_that_of_cielab() -> None:
    """The lightness of a colour is that of CIE 1976; a transparent one is as light as its mix with white."""
    colors = (*HUES, "#000000")
    assert [lightness(color) for color in colors] == pytest.approx([lab(color)[0] for color in colors], abs=0.01)
    assert lightness("#000000", 0.5) == pytest.approx(lab("#808080")[0], abs=0.3)
    assert lightness("#000000", 0.0) == pytest.approx(100.0, abs=0.01)


@cases("shift", range(len(BUCKETS)))
def test_neighbours_in_a_stack_differ_in_lightness(shift: int) -> None:
    """In whatever order buckets follow each other, neighbours differ by ten steps of a hundred in lightness."""
    hues = [words.hue for words in BUCKETS.values()]
    parts = tuple(StackPart(f"{number}", 1.0, hue) for number, hue in enumerate((hues[shift:] + hues[:shift])[:8]))
    (axes,) = charts.draw(Stack("A", "%", parts)).axes
    lights = [lightness(to_hex(bar.get_facecolor()), bar.get_alpha() or 1.0) for bar in bars(axes)]
    assert min(abs(one - other) for one, other in itertools.pairwise(lights)) >= 10.0


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("heat map", "front"))])
def test_no_mark_is_cut_by_an_axis(name: str) -> None:
    """Axes hold all bars, means, and both ends of all intervals."""
    (axes,) = charts.draw(CASES[name]).axes
    low, high = sorted(axes.get_xlim())
    slack = 1e-9 * (high - low)
    spots = [place for bar in bars(axes) for place in ends(bar)] if not name.startswith("curves") else []
    lines = [line for line in axes.lines if line.get_transform() == axes.transData and line.get_gid() != "break"]
    spots += [float(place) for line in lines for place in line.get_xdata()]
    assert all(low - slack <= spot <= high + slack for spot in spots)
    bottom, top = sorted(axes.get_ylim())
    heights = [float(height) for line in lines for height in line.get_ydata() if not math.isnan(height)]
    assert all(bottom - 1e-9 * abs(bottom) <= height <= top + 1e-9 * abs(top) for height in heights)


def test_shares_end_at_a_hundred_percent() -> None:
    """An axis of shares has no label above 100 %, and that of a curve ends there."""
    series = Series("a", ON, (90.0, 99.0, 100.0, 99.9, 95.0, 91.0), ((80.0, 100.0),) * 6)
    (curves,) = charts.draw(Curves("A", ChartAxis("GPUs"), ChartAxis("ETTR [%]"), (series,))).axes
    assert curves.get_ylim()[1] == 100.0
    assert [label.get_text() for label in curves.get_yticklabels()][-1] == "100 %"
    rows = (Interval("a", 99.9, (99.0, 100.0)), Interval("b", 90.0))
    for chart in (Intervals("A", "%", rows), Bars("A", "% of the time", ("a",), (Bar("x", (100.0,)),))):
        (axes,) = charts.draw(chart).axes
        assert max(axes.get_xticks()) == 100.0
        assert all(label.get_text().endswith(" %") for label in axes.get_xticklabels())


def test_labels_stand_at_the_data() -> None:
    """An axis across is labelled at the values of its curves where these are few; the last of them always is."""
    (few,) = charts.draw(Curves("A", *LOG, (Series("a", ON, ON),))).axes
    assert tuple(few.get_xticks()) == ON
    ticks = tuple((float(number), f"{number} spare nodes") for number in range(12))
    chart = Curves("A", ChartAxis("spares", ticks=ticks), ChartAxis("y"), (Series("a", (0.0, 11.0), (0.0, 1.0)),))
    (long,) = charts.draw(chart, charts.NARROW).axes
    assert long.get_xticks()[-1] == 11.0


def test_a_picture_says_what_its_intervals_are() -> None:
    """The key or the note names the interval of the mean, of a difference, or a prediction; none that is not drawn."""
    wide, flat = ((0.5, 1.5),) * 6, ((1.0, 1.0 + 1e-4),) * 6
    for spans, is_seen in ((wide, True), (flat, False), ((), False)):
        series = Series("a", ON, (1.0, 1.2, 0.8, 1.1, 1.0, 1.0), spans, span="prediction band")
        said = words(charts.draw(Curves("A", *SCALES, (series,))))
        assert ("Shaded: prediction band." in said) == is_seen
    rows = (Interval("a", 1.0, (0.5, 1.5), (0.0, 2.0)), Interval("b", 0.0, (0.0, 0.0)))
    said = words(charts.draw(Intervals("A", "points", rows, None, "95 % interval of the difference", "pale")))
    assert {"95 % interval of the difference", "pale"} <= set(said)
    assert "95 % interval of the mean" in words(charts.draw(Intervals("A", "points", rows[:1])))
    assert not any("interval" in text for text in words(charts.draw(Intervals("A", "points", rows[1:]))))


def test_curves_are_told_apart_by_marks() -> None:
    """Several curves have different marks, of many values on a few of them, and the key shows the marks."""
    many = tuple(float(number) for number in range(200))
    chart = Curves("A", *SCALES, tuple(Series(f"curve {number}", many, many, hue=number) for number in range(8)))
    figure = charts.draw(chart)
    assert len({line.get_marker() for line in figure.axes[0].lines}) == 8
    shown = [line.get_marker() for legend in figure.legends for line in legend.legend_handles]
    assert shown == [line.get_marker() for line in figure.axes[0].lines]


def test_names_of_measured_values_stand_beside_lines() -> None:
    """The name of a measured value is not on a line that curves are held against."""
    chart = Curves(
        "A", *SCALES, (Series("a", (0.0, 10.0), (0.0, 10.0)),), ((5.0, "level"),), ((5.0, "edge"),),
        tuple(Dot(f"cluster {number}", 4.8, float(number)) for number in (2, 4, 7)),
    )  # fmt: skip
    figure = charts.draw(chart)
    (axes,) = figure.axes
    with charts.style():
        renderer = FigureCanvasAgg(figure).get_renderer()
        boxes = [text.get_window_extent(renderer) for text in axes.texts if text.get_text().startswith("cluster")]
    x, y = axes.transData.transform((5.0, 5.0))
    assert len(boxes) == 3
    assert not any(box.x0 < x < box.x1 or box.y0 < y < box.y1 for box in boxes)


def test_bars_are_as_long_as_their_values() -> None:
    """Bars begin at zero and end at the value; a value that is not there is said in words."""
    chart = CASES["bars, two"]
    figure = charts.draw(chart)
    (axes,) = figure.axes
    drawn = [(round(bar.get_y() + bar.get_height() / 2), bar.get_x() + bar.get_width()) for bar in bars(axes)]
    assert drawn == [(0, 1.0), (1, 0.0), (1, 3.0)]
    assert "no value" in words(figure)
    assert any(tuple(line.get_xdata()) == (0.5, 1.5) for line in axes.lines)


def test_intervals_are_where_they_are() -> None:
    """The dot is the mean, the line the 95 % interval, the band the wider one, and the note is beside."""
    figure = charts.draw(CASES["intervals"])
    (axes,) = figure.axes
    lines = [tuple(map(float, line.get_xdata())) for line in axes.lines]
    assert (93.1,) in lines
    assert (92.8, 93.4) in lines
    (band,) = bars(axes)
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((90.0, 95.0))
    assert {"93.1 % best", "92.0 %", "target 92 %"} <= set(words(figure))
    assert any(text.startswith("cannot run") for text in words(figure))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("stack")])
def test_parts_of_a_stack_lie_side_by_side(name: str) -> None:
    """Parts are as wide as they are large, without gaps, and negative ones begin at the left of zero."""
    chart = CASES[name]
    (axes,) = charts.draw(chart).axes
    drawn = [ends(bar) for bar in bars(axes)]
    assert [end - start for start, end in drawn] == pytest.approx([abs(part.amount) for part in chart.parts])
    inside = sorted(drawn)
    assert [end for _, end in inside[:-1]] == pytest.approx([start for start, _ in inside[1:]])
    assert inside[0][0] == pytest.approx(min(sum(min(part.amount, 0) for part in chart.parts), 0))
    looks = [(to_hex(bar.get_facecolor()), bar.get_alpha()) for bar in bars(axes)[:8]]
    assert len(set(looks)) == len(looks)  # parts of a hue can be told apart


def test_swings_go_to_their_sides() -> None:
    """Bars go from the centre to the change; two to the same side stand below each other."""
    figure = charts.draw(CASES["tornado"])
    (axes,) = figure.axes
    drawn = bars(axes)
    assert [bar.get_x() + (bar.get_width() if bar.get_x() >= 0 else 0) for bar in drawn] == pytest.approx(
        [1.2, -2.3, -0.2, -0.45, 0.0, 0.03]
    )
    assert drawn[0].get_y() == drawn[1].get_y()
    assert drawn[2].get_y() + drawn[2].get_height() <= drawn[3].get_y()
    note = "Change from goodput: 92.40. Thin lines: 95 % interval of a change."
    assert {"half: +1.20", "twice: −2.30", note} <= set(words(figure))


@cases("high_is_good", [True, False])
def test_the_worst_cell_is_the_darkest(high_is_good: bool) -> None:
    """Shades follow the values, worse is darker, and a cell without a value has no shade."""
    values = [[1.0, 5.0, None], [9.0, 3.0, 7.0]]
    texts = [["no value" if value is None else f"{value:g}" for value in row] for row in values]
    chart = HeatMap("A", "days", ("r", "s"), ("a", "b", "c"), values, texts, high_is_good=high_is_good)
    figure = charts.draw(chart)
    shades = [to_hex(bar.get_facecolor()) for bar in bars(figure.axes[0])]
    flat = [value for row in values for value in row]
    assert shades[2] == FAINT
    order = sorted((value, luminance(shade)) for value, shade in zip(flat, shades, strict=True) if value is not None)
    lights = [light for _, light in order]
    assert lights == sorted(lights, reverse=not high_is_good)
    assert len(set(lights)) == 5
    assert "Darker is worse: from {} to {} days".format(*("9", "1") if high_is_good else ("1", "9")) in words(figure)
    assert {text for row in texts for text in row} <= set(words(figure))


def test_curves_go_through_their_values() -> None:
    """A line has the values, with gaps where there are none, and a band between the ends of each interval."""
    chart = CASES["curves, gaps"]
    (axes,) = charts.draw(chart).axes
    x, y = axes.lines[0].get_data()
    assert list(x) == list(chart.series[0].x)
    assert [None if math.isnan(value) else value for value in y] == list(chart.series[0].y)
    heights = np.concatenate([path.vertices[:, 1] for path in axes.collections[0].get_paths()])
    assert set(heights.tolist()) == {0.5, 1.5}


def test_what_curves_are_held_against_has_dashes_of_its_own() -> None:
    """Levels, edges and theory are told apart by their dashes, which the key shows beside their names."""
    chart = CASES["curves"]
    figure = charts.draw(chart)
    lines = [line for line in figure.axes[0].lines if to_hex(line.get_color()) == INK]
    marks = {line.get_label(): line for legend in figure.legends for line in legend.legend_handles}
    dashes = [
        marks[name].get_linestyle() + str(marks[name]._unscaled_dash_pattern)
        for _, name in (*chart.levels, *chart.edges)
    ]
    assert len(set(dashes)) == len(lines) == len(chart.levels) + len(chart.edges)
    assert len({to_hex(marks[series.name].get_color()) for series in chart.series}) == len(chart.series)


def test_words_in_the_head_of_a_table_are_never_broken() -> None:
    """A label that is wider than its column stands upright, in one piece."""
    columns = ("slurm-requeue", "multi-tier-pathways-elastic", "with 131072 GPUs of the job", "a", "b", "c", "d", "e")
    rows = (tuple(range(8)),)
    figure = charts.draw(HeatMap("A", "%", ("r",), columns, rows, [[str(value) for value in rows[0]]]))
    assert set(columns) <= {text.get_text() for text in written(figure)}


def test_characters_that_no_document_may_hold_are_left_out() -> None:
    """A name with control characters makes a picture that can be read as XML."""
    chart = Bars("A \x1b title", "days", ("one\x01",), (Bar("a\x00b\x07c", (1.0,)),))
    picture = charts.render(charts.draw(chart), ".svg")
    assert "abc" in "".join(ElementTree.fromstring(picture).itertext())


def test_steps_are_steps() -> None:
    """A distribution function keeps its height up to the next place."""
    series = Series("a", (0.0, 1.0, 2.0), (0.0, 0.5, 1.0), look="step")
    (axes,) = charts.draw(Curves("A", *SCALES, (series,))).axes
    assert axes.lines[0].get_drawstyle() == "steps-post"


def test_of_many_curves_the_first_are_drawn() -> None:
    """More than eight cannot be distinguished; the note says how many there are."""
    figure = charts.draw(CASES["curves, many"])
    lines = [line for line in figure.axes[0].lines if to_hex(line.get_color()) in {each.lower() for each in HUES}]
    drawn = [tuple(line.get_ydata()) for line in lines]
    assert [series.y in drawn for series in CASES["curves, many"].series] == [True] * 8 + [False] * 3
    assert any("The first 8 of 11 curves are drawn." in text for text in words(figure))


def test_candidates_are_drawn_by_standing() -> None:
    """The front is full, those that may be on it are hollow, the others grey; arrows say where better is."""
    chart = CASES["front"]
    figure = charts.draw(chart)
    (axes,) = figure.axes
    for ranking in ("front", "perhaps", "behind"):
        (line,) = [line for line in axes.lines if line.get_gid() == ranking]
        points = sorted((point.x, point.y) for point in chart.points if point.ranking == ranking)
        assert list(zip(*line.get_data(), strict=True)) == points
        assert (to_hex(line.get_color()) == GREY) == (ranking == "behind")
        assert (to_hex(line.get_markerfacecolor()) == "#ffffff") == (ranking == "perhaps")
    assert {"← better cost [M$]", "↑ better goodput"} <= set(words(figure))
    assert len([text for text in words(figure) if text.startswith("a long name")]) == len(chart.points)


@cases(
    ("value", "decimals", "text"),
    [(93.05, 1, "93.0"), (-0.04, 2, "−0.04"), (0.0, 2, "0.00"), (-1e-4, 1, "−0.0001"), (12345.6, 0, "12,346"),
     (1.5e6, 0, "1.5 M"), (2e12, 3, "2 T"), (None, 1, "no value"), (math.nan, 1, "no value")],
)  # fmt: skip
def test_numbers_are_told(value: float | None, decimals: int, text: str) -> None:
    """Numbers have separators, a true minus and prefixes, and one that is not zero is not written as zero."""
    assert number_text(value, decimals) == text


def test_digits_are_those_that_tell_numbers_apart() -> None:
    """Three digits of the largest, one more for small ones, none for whole numbers."""
    assert decimals_of([2.31, 0.4]) == 2
    assert decimals_of([2.31, 0.0004]) == 3
    assert decimals_of([100.0, 23.0]) == 0
    assert decimals_of([None, 0.0]) == 0


@cases("room", [0.5, 1.0, 3.0])
def test_long_texts_fit_their_room(room: float) -> None:
    """Lines are not wider than the room; without a limit nothing is lost, and a cut text keeps both its ends."""
    everything = wrapped(LONG, room, lines=99)
    assert block_width(everything) <= room
    assert "".join(everything.split()) == "".join(LONG.split())
    short = cut(LONG, room)
    assert width_of(short) <= room
    head, tail = short.split("…")
    assert LONG.startswith(head)
    assert LONG.endswith(tail)
    assert width_of(f"{head}{LONG[len(head) : len(head) + 3]}…{tail}") > room  # no more would have fitted


def test_names_stand_beside_points() -> None:
    """The first free place is the one at the right; nothing covers what is filled, and who finds no room has none."""
    room = (0.0, 0.0, 3.0, 1.0)
    (right,) = beside([(1.0, 0.5)], [(0.5, 0.15)], room, [])
    (left,) = beside([(1.0, 0.5)], [(0.5, 0.15)], room, [(1.06, 0.0, 3.0, 1.0)])
    assert right[0] > 1.0
    assert left[2] < 1.0
    assert beside([(1.0, 0.5)], [(0.5, 0.15)], room, [room]) == [None]


@pytest.mark.parametrize("is_log", [True, False])
def test_axes_have_round_labels(is_log: bool) -> None:
    """Between two and eight labels, whatever the ends, each a number of at most four digits."""
    for low, high in ((1e-3, 1e12), (3.0, 17.0), (0.95, 0.96), (1.0, 1e4)):
        chart = Curves("A", ChartAxis("x", is_log), SCALES[1], (Series("", (low, high), (1.0, 2.0)),))
        (axes,) = charts.draw(chart).axes
        ticks = [float(tick) for tick in axes.get_xticks()]
        assert 2 <= len(ticks) <= 8
        assert ticks == pytest.approx([float(f"{tick:.4g}") for tick in ticks])


def test_a_row_more_is_a_higher_picture() -> None:
    """Rows keep their height: twenty rows more make the picture at least four inches higher."""
    few, many = (
        charts.draw(Bars("A", "h", ("",), tuple(Bar(f"row {number}", (1.0,)) for number in range(count))))
        for count in (5, 25)
    )
    assert many.get_size_inches()[1] - few.get_size_inches()[1] >= 4.0
    assert many.get_size_inches()[0] == few.get_size_inches()[0]


# ----------------------------------------
# Pictures: what they show is there, all that is there is shown, words can be read, and the bytes are the same.

POD = {"leaf": {"nodes": 4}, "radix": 16, "rails": 2, "spine": {"leaf_groups": 2}, "core": {"oversubscription": 2}}

SUPERPOD = {"leaf": {"nodes": 32}, "spine": {"leaf_groups": 4}, "core": {"oversubscription": 1}}


def cluster(fabric: FabricKind, nodes: int, **changes: Any) -> ClusterSpec:
    """Return a cluster of 8-GPU hosts with any fabric, whether or not files may name it."""
    fabric.check(Hosts(nodes, 8))
    small = ClusterSpec.model_validate({"nodes": 8, **changes})
    return small.model_copy(update={"nodes": nodes, "fabric": fabric})


class Cables:
    """Builds the cables of a topology that no kind of fabric makes; hosts first, then leaves and spines."""

    def __init__(self, rows: list[tuple[int, int, int, int]]) -> None:
        self.rows = rows

    def __call__(self) -> Edges:
        """Return the cables: lower, upper, tier, rail."""
        lower, upper, tier, rail = np.array(self.rows).T
        return Edges(
            lower.astype(np.int32),
            upper.astype(np.int32),
            tier.astype(np.int8),
            rail.astype(np.int16),
            np.full(lower.size, 50e9),
        )


def rails_apart(hosts: int, rails: int) -> Topology:
    """Return hosts of which each rail has one leaf switch, and nothing above: as many planes as rails."""
    counts = {"gpu": 8 * hosts, "node": hosts, "rack": 1, "pdu": 1, "cooling": 1, "nic": hosts * rails, "leaf": rails}
    counts |= {"spine": 0, "core": 0, "pod": 1, "cable_node_leaf": hosts * rails, "cable_leaf_spine": 0}
    alike: NDArray[np.int32] = np.zeros(hosts, dtype=np.int32)
    domains = {name: alike.copy() for name in ("leaf", "pod", "rack", "pdu", "cooling")}
    return Topology(
        name="rails apart",
        nodes=hosts,
        gpus_per_node=8,
        rails=rails,
        counts={**counts, "cable_spine_core": 0, "transceiver": 2 * hosts * rails},
        domains={**domains, "scale_up": np.arange(hosts, dtype=np.int32)},
        bandwidth={"leaf": 50e9, "pod": 50e9, "cluster": 50e9},
        disjoint_paths=0,
        optical=(0, 1, 2),
        reroute=False,
        make_edges=Cables([(host, hosts + rail, 0, rail) for host in range(hosts) for rail in range(rails)]),
    )


SMALL = {
    "two tiers": cluster(FatTree.model_validate({"rails": 4, "leaf": {"nodes": 4}, "radix": 16}), 16).build(),
    "three tiers": cluster(FatTree.model_validate(POD), 16).build(),
    "partly filled": cluster(FatTree.model_validate(POD), 13, gpus_per_node=4).build(),
    "one leaf for all rails": cluster(FatTree.model_validate({"leaf": {"nodes": 2, "switches": 1}}), 8).build(),
    "two planes": cluster(
        DualPlane.model_validate({"radix": 16, "segment": {"nodes": 8}, "rails": 4}), 16, scale_up={"gpus": 32}
    ).build(),
    "rails apart": rails_apart(8, 4),
    "more rails than hues": rails_apart(8, 12),
    "one host": cluster(FatTree.model_validate({"leaf": {"nodes": 1}}), 1).build(),
    "128 hosts": cluster(FatTree.model_validate({"leaf": {"nodes": 32}}), 128).build(),
}

LARGE = {
    "one pod": cluster(FatTree.model_validate({"leaf": {"nodes": 32}}), 256).build(),
    "three pods": cluster(FatTree.model_validate(SUPERPOD), 384).build(),
    "sixteen pods": cluster(FatTree.model_validate(SUPERPOD), 2048).build(),
    "partly filled": cluster(FatTree.model_validate(SUPERPOD), 2000, scale_up={"gpus": 32}).build(),
    "oversubscribed": cluster(
        FatTree.model_validate({**SUPERPOD, "spine": {"leaf_groups": 4, "oversubscription": 3}}), 1024
    ).build(),
    "two planes": cluster(
        DualPlane.model_validate(
            {
                "radix": 64,
                "segment": {"nodes": 32},
                "rails": 4,
                "spine": {"segments": 8},
                "core": {"oversubscription": 2},
            }
        ),
        2048,
    ).build(),
    "rails apart": rails_apart(600, 8),
}


def drawn(topology: Topology) -> Canvas:
    """Return the drawing that the figure is made of."""
    return draw_parts(topology) if is_small(topology) else draw_tiers(topology)


def lines_of(drawing: Canvas) -> list[str]:
    """Return all that is written, a line an entry."""
    texts = [text.words for text in drawing.texts] + [box.words for box in drawing.boxes]
    return [line for text in texts for line in text.split("\n")]


@cases(("kind", "small"), [(SMALL, True), (LARGE, False)])
def test_small_clusters_are_drawn_in_full(kind: dict[str, Topology], small: bool) -> None:
    """Up to 400 vertices and 3,000 cables every part is drawn; beyond, tiers."""
    assert {is_small(topology) for topology in kind.values()} == {small}


def box_at(drawing: Canvas, x: float, y: float) -> int:
    """Return the vertex whose box has its edge at a point."""
    found = [
        number
        for number, box in enumerate(drawing.boxes)
        if abs(x - box.x) <= box.width / 2 and abs(abs(y - box.y) - box.height / 2) < 1e-9
    ]
    (number,) = found
    return number


@pytest.mark.parametrize("name", SMALL)
def test_every_part_is_drawn_once_and_nothing_else(name: str) -> None:
    """There is a box for each host and switch, and a line from box to box for each cable."""
    topology = SMALL[name]
    drawing = draw_parts(topology)
    vertices = [vertex for part in ("node", "leaf", "spine", "core") for vertex in topology.vertices(part)]
    assert len(drawing.boxes) == len(vertices)  # in the order of their numbers
    cables = edges(topology)
    seen: Counter[tuple[int, int]] = Counter()
    for line in drawing.lines:
        (x, y), (other, above) = line.ends
        if y != above:  # level lines underline domains
            seen[box_at(drawing, x, y), box_at(drawing, other, above)] += 1
    assert seen == Counter(zip(cables.lower.tolist(), cables.upper.tolist(), strict=True))


@cases("name", SMALL)
def test_cables_do_not_hide_each_other(name: str) -> None:
    """No two cables have an end in common, parallel ones neither."""
    ends = [
        point for line in draw_parts(SMALL[name]).lines for point in line.ends if line.ends[0][1] != line.ends[1][1]
    ]
    assert len(set(ends)) == len(ends)


@cases("name", SMALL)
def test_boxes_lie_apart(name: str) -> None:
    """No box covers another one."""
    boxes = draw_parts(SMALL[name]).boxes
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            gap_x = abs(one.x - other.x) - (one.width + other.width) / 2
            gap_y = abs(one.y - other.y) - (one.height + other.height) / 2
            assert max(gap_x, gap_y) > 0


@cases("name", ["two tiers", "three tiers", "partly filled"])
def test_rails_have_hues_and_names(name: str) -> None:
    """Cables of a rail, up to the spines, and their leaf switches share a hue, and the box names the rail."""
    topology = SMALL[name]
    drawing = draw_parts(topology)
    first = topology.nodes
    for index in range(topology.counts["leaf"]):
        box = drawing.boxes[first + index]
        assert box.hue == index % topology.rails
        assert box.words == f"{index}\nrail {index % topology.rails}"
    lines = [line for line in drawing.lines if line.ends[0][1] != line.ends[1][1]]
    cables = edges(topology)
    of_leaf = (cables.lower - first) % topology.rails
    wanted = np.select([cables.tier == 0, cables.tier == 1], [cables.rail, of_leaf], PLAIN)
    assert [line.hue for line in lines] == wanted.tolist()


def test_planes_have_hues_and_names() -> None:
    """Switches and cables of a plane share a hue; its name has it too."""
    topology = SMALL["two planes"]
    drawing = draw_parts(topology)
    named = {text.words: text.hue for text in drawing.texts if text.words.startswith("plane")}
    assert named == {"plane 0": 0, "plane 1": 1}
    # The fabric numbers the two leaf switches of a pair one after another, and spines plane by plane.
    leaf, spine = topology.vertices("leaf"), topology.vertices("spine")
    assert [drawing.boxes[vertex].hue for vertex in leaf] == [0, 1] * (len(leaf) // 2)
    assert [drawing.boxes[vertex].hue for vertex in spine] == [0] * (len(spine) // 2) + [1] * (len(spine) // 2)
    hues = Counter(line.hue for line in drawing.lines if line.hue != PLAIN)
    assert hues == {0: edges(topology).lower.size / 2, 1: edges(topology).lower.size / 2}


def test_shared_domains_are_underlined() -> None:
    """What several hosts share is named with its size, each domain numbered, and the same hosts underlined once."""
    drawing = draw_parts(SMALL["two planes"])
    labels = [text.words for text in drawing.texts if text.x < 1 and text.size <= 8]
    assert labels == ["leaf group: 8 hosts", "rack, scale-up domain: 4 hosts", "pdu, cooling: 16 hosts"]
    assert sum(line.ends[0][1] == line.ends[1][1] for line in drawing.lines) == 2 + 4 + 1


@cases("name", LARGE)
def test_totals_are_written(name: str) -> None:
    """Each tier has its number of switches, each tier of cables its number, and pods left out are counted."""
    topology = LARGE[name]
    written = lines_of(draw_tiers(topology))
    for part, noun in (("node", "hosts"), ("leaf", "leaf switches"), ("spine", "spines"), ("core", "core switches")):
        count = topology.counts[part]
        assert (f"{count:,} {noun}" in written) == (count > 0)
    for part, count in topology.counts.items():
        assert not part.startswith("cable") or (f"{count:,} cables" in written) == (count > 0)
    pods = topology.counts["pod"]
    assert (f"{pods - 3:,} more" in written) == (pods > 4)
    assert sum(bool(re.fullmatch(r"pod \d+", line)) for line in written) == (
        0 if pods == 1 else min(pods, 3 if pods > 4 else 4)
    )


@cases("name", ["one pod", "three pods", "rails apart"])
def test_parts_of_the_pods_add_up(name: str) -> None:
    """Where no pod is left out, the numbers in the boxes add up to the totals."""
    topology = LARGE[name]
    boxes = [box.words for box in draw_tiers(topology).boxes]
    for part, noun in (("node", "host"), ("leaf", "leaf switch|leaf|leaves"), ("spine", "spine")):
        found = [re.search(rf"([\d,]+)\s({noun})(?! group)", text) for text in boxes]
        assert sum(int(match[1].replace(",", "")) for match in found if match) == topology.counts[part]


def test_each_pod_has_its_own_parts() -> None:
    """A pod of four scalable units has 128 hosts and 32 switches of each tier; the last one what is left."""
    boxes = Counter(box.words for box in draw_tiers(LARGE["three pods"]).boxes)
    assert boxes["32 leaf switches"] == boxes["32 spines"] == boxes["128 hosts, 1,024 GPUs\nin 4 leaf groups"] == 3
    boxes = Counter(box.words for box in draw_tiers(LARGE["partly filled"]).boxes)
    assert boxes["128 hosts, 1,024 GPUs\nin 4 leaf groups"] == 2
    assert boxes["80 hosts, 640 GPUs\nin 3 leaf groups"] == 1  # 2,000 less 15 pods of 128


def test_bands_are_as_wide_as_their_bandwidth() -> None:
    """The cables of a tier are drawn as narrow as its oversubscription, and that is written."""
    drawing = draw_tiers(LARGE["oversubscribed"])
    widths = [band.corners[1][0] - band.corners[0][0] for band in drawing.bands]
    # Eleven cables up for 32 down: cables are whole.
    ratios = sorted({round(width / max(widths), 6) for width in widths})
    assert ratios[0] == pytest.approx(11 / 32, abs=1e-6)
    assert ratios[-1] == 1.0
    assert f"oversubscription {32 / 11:.3g} : 1" in lines_of(drawing)


def test_published_oversubscription_is_written() -> None:
    """The cluster that trained Llama 3 is 1:7 between pods; with whole cables 384 down need 55 up."""
    fabric = {"leaf": {"nodes": 2, "switches": 1}, "core": {"oversubscription": 7, "radix": 576}}
    fabric["spine"] = {"leaf_groups": 192, "radix": 576}
    drawing = draw_tiers(cluster(FatTree.model_validate(fabric), 3072).build())
    assert f"oversubscription {384 / 55:.3g} : 1" in lines_of(drawing)
    assert "384 hosts, 3,072 GPUs" in lines_of(drawing)


def test_many_planes_are_not_drawn_apart() -> None:
    """Eight planes are one box per tier, and a note says how many they are."""
    drawing = draw_tiers(LARGE["rails apart"])
    assert any(line.startswith("8 planes") for line in lines_of(drawing))
    assert not any(line.startswith("plane ") for line in lines_of(drawing))


@pytest.mark.parametrize(
    "topology", [*SMALL.values(), *LARGE.values()], ids=[*SMALL, *(f"large, {name}" for name in LARGE)]
)
def test_words_of_a_cluster_can_be_read(topology: Topology) -> None:
    """All words lie within the picture, those of a box within the box, and no words lie on others."""
    figure = charts.draw(topology)
    boxes = {(round(box.x, 6), round(box.y, 6), box.words): box for box in drawn(topology).boxes}
    for text, extent in check_words(figure, slack=0.0):
        x, y = text.get_position()
        box = boxes.get((round(x, 6), round(y, 6), text.get_text()))
        assert box is None or max(extent.width / box.width, extent.height / box.height) <= figure.dpi


@pytest.mark.parametrize("suffix", charts.SUFFIXES)
def test_the_same_picture_is_the_same_bytes(suffix: str) -> None:
    """Two figures of the same cluster are the same file, without a date."""
    first, second = (charts.render(charts.draw(SMALL["two tiers"]), suffix) for _ in range(2))
    assert first == second
    assert first != charts.render(charts.draw(SMALL["three tiers"]), suffix)
    assert not re.search(rb"dc:date|CreationDate|20\d\d-\d\d-\d\d", first)


@pytest.mark.parametrize("name", ["mine", "superpod"])
def test_pictures_of_the_page_are_current(name: str) -> None:
    """The pictures of the how-to say what they would say if they were drawn now."""
    folder = Path(sim.__file__).parents[2] / "docs" / "howto"
    if name == "mine":
        page = (folder / "describe-your-cluster.md").read_text(encoding="utf-8")
        described = re.search(r":caption: mine.yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        spec = ClusterSpec.model_validate(yaml.safe_load(described[1]))
    else:
        spec = sim.load_cluster(sim.find_cluster("dgx-b200-superpod-64su"))
    now = charts.render(charts.draw(spec.build()), ".svg").decode()
    written = (folder / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert re.findall(">([^<>]+)</text>", written) == re.findall(">([^<>]+)</text>", now) != []
    assert written.count("<path") == now.count("<path")


def test_style_is_left_behind() -> None:
    """Settings of the pictures are not those of who draws them."""
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    charts.render(charts.draw(SMALL["one host"]), ".png")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ["$x_$", "集群", "<&>", "a long name " * 30, "two\nlines"])
def test_any_name_is_written_as_it_is(name: str) -> None:
    """A name is no formula and no markup, and ends where the picture does."""
    figure = charts.draw(cluster(FatTree.model_validate(POD), 16, name=name).build())
    for suffix in charts.SUFFIXES:
        assert charts.render(figure, suffix)
    title = figure.axes[0].texts[[text.get_fontsize() for text in figure.axes[0].texts].index(14)]
    with charts.style():
        assert title.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1 <= figure.bbox.x1
    assert title.get_text().removesuffix("…") in " ".join(name.split())


def test_title_names_the_cluster() -> None:
    """Name, GPUs, hosts and rails stand at the top."""
    titles = [text for text in draw_parts(SMALL["two planes"]).texts if isinstance(text, Text_) and text.size > 9]
    assert [text.words for text in titles] == ["cluster", "128 GPUs in 16 hosts with 4 rails of 400 Gb/s"]


def test_labels_of_negative_bars_have_room() -> None:
    """At the left of a bar its label has room, whether its value is of Python or of NumPy."""
    charted = [Bars("A", "h", ("",), (Bar("x", (value,)),)) for value in (-1.0, np.float64(-1.0))]
    limits = [charts.draw(chart).axes[0].get_xlim() for chart in charted]
    assert limits[0] == limits[1]
    assert limits[0][0] < -1.0
