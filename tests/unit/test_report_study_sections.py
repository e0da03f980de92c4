"""Sections about studies and comparisons: their numbers are those of the documents, and bridges close."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.analysis.amounts import ends_of, phrases, shown
from ettrick.analysis.page.cells import ChosenAxis, axes_of, lines_along
from ettrick.analysis.page.chapters import compare, finish, optimum
from ettrick.analysis.page.chapters import sensitivity as drivers
from ettrick.analysis.page.chapters import study as curves
from ettrick.analysis.page.chapters.answer import MOST_ROWS
from ettrick.analysis.page.chapters.compare import bridge_of
from ettrick.analysis.page.chapters.curves import MOST_LINES, few_lines
from ettrick.analysis.page.chapters.finish import Sample, chance_curve, samples_along
from ettrick.analysis.page.chapters.sensitivity import drawn_ends
from ettrick.analysis.page.charts.data import (
    Bars,
    Curves,
    TornadoChart,
)
from ettrick.analysis.page.model import Figure, Section, TableBlock, plain
from ettrick.analysis.page.report_data import FolderResults, ReportData, read_results
from ettrick.analysis.page.sourced import COMPARE, OPTIMIZE, RUN, SENSITIVITY
from ettrick.analysis.results import run as documents
from ettrick.analysis.results.run import plain as plain_data
from ettrick.analysis.results.studies import SensitivityDocument
from ettrick.analysis.statistics.differences import difference
from ettrick.sim import JOB_BUCKETS, NO_FLEET
from tests import report_sample
from tests.cases import cases
from tests.report_folders import results
from tests.typed import PROVENANCE, present, sweep_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SECTIONS: dict[str, Callable[[ReportData], Section | None]] = {
    "answers": curves.answers_section,
    "comparison": compare.section,
    "bridge": compare.bridge_section,
    "curves": curves.section,
    "heat_maps": curves.heat_maps_section,
    "finish": finish.section,
    "tornado": drivers.section,
    "variance": drivers.variance_section,
    "optimum": optimum.section,
}


@pytest.fixture(scope="module")
def materials() -> dict[str, ReportData]:
    """Return what reports are made of, by folder."""
    folders = {"study": "study", "infeasible": "infeasible", "run": "run", "compare": "spares"}
    return {name: ReportData(read_results(results(folder))) for name, folder in folders.items()}


def of_document(name: str, content: dict[str, Any], **others: Any) -> ReportData:
    """Return the material of documents that were written by hand."""
    kind = {RUN: "sweep", COMPARE: "compare", SENSITIVITY: "sensitivity", OPTIMIZE: "optimize"}[name]
    return ReportData(FolderResults(Path("nowhere"), kind, {name: content, **others}))


def pictures(section: Section) -> dict[str, Figure]:
    """Return the pictures of a section by key."""
    return {item.key: item for item in section.items if isinstance(item, Figure)}


def texts(section: Section) -> Iterator[str]:
    """Yield every text that a section shows."""
    yield section.title
    yield from map(plain, section.text)
    yield from section.notes
    for item in section.items:
        if isinstance(item, Figure):
            yield from (item.title, item.alt)
        table = item if isinstance(item, TableBlock) else item.table
        if table is None:  # that of the chart
            continue
        yield from (column.head for column in table.columns)
        for row in table.rows:
            assert len(row) == len(table.columns)
            yield from row


def study(
    axes: Mapping[str, Sequence[tuple[str, float | None]]],
    value: Callable[..., float | None],
    *,
    metric: str = "ettr",
    half: float = 0.001,
    **more: Any,
) -> dict[str, Any]:
    """Return the document of a sweep over a grid whose means are a function of the numbers, or places, of its axes."""
    cells = []
    for number, combination in enumerate(itertools.product(*axes.values())):
        mean = value(*(entry[1] if entry[1] is not None else entry[0] for entry in combination))
        found = {"mean": mean, "mean_ci95": None if mean is None else [mean - half, mean + half]}
        cells.append({
            "cell": number, "metrics": {metric: found},
            "values": {name: entry[0] for name, entry in zip(axes, combination, strict=True)},
            "numbers": {name: entry[1] for name, entry in zip(axes, combination, strict=True)},
        })  # fmt: skip
    entries = {name: {"title": name, "values": [{"label": label, "number": number} for label, number in values]}
               for name, values in axes.items()}  # fmt: skip
    return plain_data(sweep_of({"metrics": [metric], "cells": cells, "axes": entries} | more))


def numbers(*values: float, unit: str = "") -> list[tuple[str, float | None]]:
    """Return values of an axis that are written as they are, with a unit of a minute where they have one."""
    return [(f"{value:g} {unit}".strip(), value * (60.0 if unit == "min" else 1.0)) for value in values]


WORDS: list[tuple[str, float | None]] = [("none", None), ("own node", None), ("neighbour", None)]


@cases("folder", ["study", "infeasible", "run", "compare"])
def test_no_section_shows_a_hole(materials: dict[str, ReportData], folder: str) -> None:
    """What the data do not support is said in words: never NaN, a dash, ``None`` or an empty cell."""
    for name, section in SECTIONS.items():
        found = section(materials[folder])
        for text in texts(found) if found is not None else ():
            assert text.strip() not in ("", "-", "–"), name
            assert not re.search(r"\b(nan|None|inf)\b", text), (name, text)


def test_sections_are_made_for_their_kind_alone(materials: dict[str, ReportData]) -> None:
    """A section is not there for results that it is not about."""
    there = {
        folder: {name for name, section in SECTIONS.items() if section(report_data) is not None}
        for folder, report_data in materials.items()
    }
    assert there["run"] == set()
    assert there["compare"] == {"comparison", "bridge"}
    assert there["study"] == set(SECTIONS) - {"comparison", "tornado", "variance", "heat_maps"}
    assert there["infeasible"] == {"answers", "bridge", "curves", "heat_maps"}


def test_pictures_have_keys_of_their_own(materials: dict[str, ReportData]) -> None:
    """No two pictures of a report have one name."""
    for report_data in materials.values():
        found = [section(report_data) for section in SECTIONS.values()]
        keys = [key for section in found if section is not None for key in pictures(section)]
        assert len(keys) == len(set(keys))


def test_an_interval_without_width_is_none() -> None:
    """Runs that were all equal say nothing about others."""
    assert ends_of([0.5, 0.5]) is None
    assert ends_of([0.5, None]) is None
    assert ends_of(None) is None
    assert ends_of([0.5, 0.6]) == (0.5, 0.6)


def test_shares_are_never_more_than_a_hundred_points_apart() -> None:
    """The interval of a difference of shares ends where differences do; that of costs does not."""
    assert shown("ettr", [0.9]).gaps([-3.0, 0.5]) == pytest.approx((-100, 50))
    assert shown("cost", [1e6], "EUR").gaps([-3e6, 5e5]) == pytest.approx((-3, 0.5))


def test_an_axis_is_in_the_unit_of_its_labels() -> None:
    """Places of a picture are the numbers that labels begin with, and labels say their unit once."""
    axis = ChosenAxis("x", "interval", ("1 min", "8 min", "64 min"), (60.0, 480.0, 3840.0))
    assert axis.size == 60.0
    assert axis.scale.title == "Interval [min]"
    assert axis.scale.ticks == ((1.0, "1"), (8.0, "8"), (64.0, "64"))
    assert axis.is_log
    mixed = ChosenAxis("x", "interval", ("30 min", "1 h", "3 d"), (1800.0, 3600.0, 259200.0))
    assert mixed.size == 86400.0
    assert [label for _, label in mixed.scale.ticks] == ["30 min", "1 h", "3 d"]


def test_lines_along_an_axis_differ_in_it_alone() -> None:
    """Every cell is on one line, and a line has one value of every other axis."""
    content = study({"x": numbers(1, 2, 3), "kind": WORDS, "y": numbers(5, 6)}, lambda *_: 0.5)
    x = axes_of(sweep_of(content))[0]
    lines = lines_along(sweep_of(content), x)
    assert [len(line.cells) for line in lines] == [3] * 6
    assert len({cell.cell for line in lines for cell in line.cells}) == 18
    for line in lines:
        assert all(cell.values[name] == label for cell in line.cells for name, label in line.fixed.items())
        assert [cell.numbers["x"] for cell in line.cells] == [1, 2, 3]


def test_the_table_of_a_large_study_has_its_best_cells() -> None:
    """Of more than sixty combinations the table has the best, best first, and says where the others are."""
    content = study({"x": numbers(*range(1, 12)), "y": numbers(*range(1, 12))}, lambda x, y: 0.5 + 0.001 * x + 0.02 * y)
    section = present(curves.answers_section(of_document(RUN, content)))
    (table,) = section.items
    assert isinstance(table, TableBlock)
    best = sorted(content["cells"], key=lambda cell: -cell["metrics"]["ettr"]["mean"])[:MOST_ROWS]
    assert [tuple(row[:2]) for row in table.rows] == [tuple(cell["values"].values()) for cell in best]
    assert "points.csv" in table.note


def test_a_ranking_has_the_distances_of_the_answer() -> None:
    """Settings in the order of the answer, with their distance to the best and whether they may be as good."""
    content = study({"kind": WORDS}, lambda *_: 0.5)
    order = [{"at": {"kind": kind}, "mean": 0.9 - gap, "behind": gap, "behind_ci95": [gap, gap + 0.01]}
             for kind, gap in (("neighbour", 0.0), ("none", 0.02), ("own node", 0.1))]  # fmt: skip
    group = {"at": {}, "best": order[0]["at"], "may_be_best": [order[1]["at"]], "order": order, "replications": 8}
    data = {"metric": "ettr", "groups": [group | {"replications_to_resolve": 9}]}
    content["answers"] = [{"use": "best", "sentences": [], "data": data}]
    table = present(curves.answers_section(of_document(RUN, content))).items[0]
    assert isinstance(table, TableBlock)
    assert [(row[0], row[2], row[3]) for row in table.rows] == [
        ("neighbour", "0", "too close to call"),
        ("none", "2.0 percentage points (2.0 to 3.0)", "too close to call"),
        ("own node", "10.0 percentage points (10.0 to 11.0)", "behind"),
    ]


def test_a_comparison_lists_the_other_keys_that_differ(materials: dict[str, ReportData]) -> None:
    """What differs beyond what was varied is a table with the values by variant; a document without it has none."""
    content = copy.deepcopy(materials["compare"].main)
    first, *rest = content["variants"]
    content["also_differ"] = {"windows": {first: None, **dict.fromkeys(rest, "1 d")}}
    title = "Other keys in which the variants differ"

    def tables() -> list[TableBlock]:
        found = present(compare.section(of_document(COMPARE, content)))
        return [item for item in found.items if isinstance(item, TableBlock) and item.title == title]

    (table,) = tables()
    values = [name.partition("=")[2] for name in rest]
    assert table.rows == [("windows", f"not stated ({first.partition('=')[2]}); 1 d ({', '.join(values)})")]
    del content["also_differ"]
    assert tables() == []


def test_a_comparison_tells_stores_from_the_recovery(materials: dict[str, ReportData]) -> None:
    """What the stores of a preset make stands in the text, with what is left of the difference without them."""
    content = copy.deepcopy(materials["compare"].main)
    first, second, third = content["variants"]
    change = {"mean": 0.02, "ci95": [0.01, 0.03], "resolved": True, "replications_to_resolve": 2, "controlled": None}
    content["stores"] = {second: {"without": third, "gain": change, "rest": change | {"mean": 0.01, "ci95": None}}}
    text = " ".join(present(compare.section(of_document(COMPARE, content))).notes)
    assert f"{second}: the checkpoint stores of its preset make +2.0 percentage points" in text
    assert f"; without them the difference to {first} is +1.00 percentage points" in text
    content["stores"] = {first: {"without": third, "gain": change, "rest": None}}
    text = " ".join(present(compare.section(of_document(COMPARE, content))).notes)
    assert f"{first}: the checkpoint stores of its preset make +2.0 percentage points" in text
    assert "without them" not in text


def test_a_comparison_of_two_says_who_is_ahead_only_if_that_is_resolved(materials: dict[str, ReportData]) -> None:
    """The title of two variants names a winner if the interval leaves out zero, and no winner otherwise."""
    content = copy.deepcopy(materials["compare"].main)
    first, second, third = content["variants"]
    del content["variants"][third]
    content |= {"ranking": None, "order": [second, first]}
    change = {"mean": 0.02, "ci95": [0.01, 0.03], "resolved": True, "replications_to_resolve": 2, "controlled": None}
    content["variants"][second]["difference"][content["headline"]] = change
    assert present(compare.section(of_document(COMPARE, content))).title.startswith(
        f"{second} has the higher useful share of the time (ETTR): 1.0 to 3.0 percentage points more than {first}"
    )
    change |= {"ci95": [-0.01, 0.05], "resolved": False, "replications_to_resolve": 90}
    section = present(compare.section(of_document(COMPARE, content)))
    assert "too close to call" in section.title
    assert any("about 90 replications" in note for note in section.notes)


def test_variants_that_are_equal_in_every_run_are_not_called_close(materials: dict[str, ReportData]) -> None:
    """No difference at all, in any replication, is another thing than one that luck hides; and no path is repeated."""
    content = copy.deepcopy(materials["compare"].main)
    names = dict(zip(content["variants"], ("recovery.use=a", "recovery.use=b", "recovery.use=c"), strict=True))
    content = json.loads(re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], json.dumps(content)))
    none = {"mean": 0.0, "ci95": [0.0, 0.0]}
    content["ranking"] |= {"behind": dict.fromkeys(names.values(), none), "may_be_best": list(names.values())}
    section = present(compare.section(of_document(COMPARE, content)))
    assert section.title.startswith("a, b and c are equally good: ")
    assert "recovery.use=" not in " ".join(texts(section))


def runs(shares: np.ndarray) -> list[Any]:
    """Return replications that stand for results: (n, buckets) GPU-seconds of one job each."""
    return [SimpleNamespace(jobs=[SimpleNamespace(requested=row.sum(), buckets=row)], fleet=NO_FLEET) for row in shares]


def drawn(generator: np.random.Generator, count: int) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return replications of two scenarios with common luck, and by how much the shares of buckets differ in truth."""
    width = len(JOB_BUCKETS)
    luck = generator.normal(0.0, 0.004, (count, width))
    truth = np.linspace(0.0, 0.02, width)
    first = 0.05 + luck
    second = first - truth + generator.normal(0.0, 0.002, (count, width))
    for shares in (first, second):
        shares[:, 0] = 1.0 - shares[:, 1:].sum(axis=1)
    return runs(1e6 * first), runs(1e6 * second), truth


def test_bridges_close() -> None:
    """The steps lead from one ETTR to the other, drawn together or not, whatever replications weigh."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        count = int(generator.integers(2, 9))
        first, second = (
            runs(generator.exponential(1.0, (count, len(JOB_BUCKETS))) * generator.exponential(1e7, (count, 1)))
            for _ in range(2)
        )
        found = present(bridge_of(first, second))
        for steps in (found.steps, found.drawn):
            assert found.before + sum(step.gain for step in steps) == pytest.approx(found.after, abs=1e-12)


def test_small_steps_are_drawn_together_with_an_interval_of_their_own() -> None:
    """What nobody would see becomes one step; its interval is that of the sum, not a sum of intervals."""
    generator = np.random.default_rng(8)
    shares = np.full((6, len(JOB_BUCKETS)), 1e3)
    shares[:, 0] = 1e6
    other = shares.copy()
    noise = generator.normal(0.0, 10.0, 6)
    other[:, 1] -= 1e5
    other[:, 4] += 5e3
    other[:, 2] += noise
    other[:, 3] -= noise - 5.0
    other[:, 0] += shares[:, 1:].sum(axis=1) - other[:, 1:].sum(axis=1)
    found = present(bridge_of(runs(shares), runs(other)))
    assert [step.bucket for step in found.drawn] == [JOB_BUCKETS[1], JOB_BUCKETS[4], "others"]
    total = shares[0].sum()
    rest = present(found.drawn[-1].difference)
    assert rest.mean == pytest.approx(-5.0 / total, rel=1e-6)
    assert rest.ci95 is None, "together they are the same in all replications"


def test_intervals_of_a_bridge_hold_the_truth_as_often_as_they_say() -> None:
    """Of 95 % intervals of paired replications about 95 % hold the true change of a bucket."""
    generator = np.random.default_rng(11)
    held, trials = 0, 0
    for _ in range(60):
        first, second, truth = drawn(generator, 8)
        found = present(bridge_of(first, second))
        for step in found.steps:
            low, high = present(step.difference).ci95
            held += low <= truth[JOB_BUCKETS.index(step.bucket)] <= high
            trials += 1
    # Four standard deviations of a binomial; buckets of one replication are independent here.
    assert abs(held / trials - 0.95) < 4 * math.sqrt(0.95 * 0.05 / trials)


def test_equal_scenarios_have_no_steps() -> None:
    """A scenario beside itself gains nothing, nowhere."""
    shares = runs(np.random.default_rng(5).exponential(1.0, (4, len(JOB_BUCKETS))))
    found = present(bridge_of(shares, shares))
    assert found.steps == ()


@cases("folder", ["study", "compare"])
def test_a_bridge_is_between_the_shares_of_both_documents(materials: dict[str, ReportData], folder: str) -> None:
    """Its bars are the differences of the shares of buckets, and come to the difference of the ETTR."""
    report_data = materials[folder]
    focus, against = report_data.focus, report_data.against
    section = present(compare.bridge_section(report_data))
    chart = pictures(section)["bridge"].chart
    assert isinstance(chart, Bars)
    ours, theirs = (
        documents.plain(present(focus).document)["time_shares"],
        documents.plain(present(against).document)["time_shares"],
    )
    for bar in chart.rows:
        bucket = bar.name.replace(" ", "_")
        if bucket != "others":
            assert bar.values[0] == pytest.approx(100 * (theirs[bucket] - ours[bucket]), abs=1e-10)
    gain = sum(present(bar.values[0]) for bar in chart.rows)
    assert gain == pytest.approx(100 * (ours["productive"] - theirs["productive"]), abs=1e-10)


def test_a_bridge_between_jobs_of_two_sizes_has_no_gpu_hours(materials: dict[str, ReportData]) -> None:
    """A share of one size is not a share of the other: then the change is told in points alone."""
    report_data = materials["infeasible"]
    full = next(
        cell["cell"] for cell in report_data.main["cells"] if cell["values"] == {"spares.hot": "0", "gpus": "128"}
    )
    fake: Any = SimpleNamespace(
        focus=report_data.cell(0),
        against=report_data.cell(full),
        kind="sweep",
        sweep=report_data.sweep,
        chosen=report_data.chosen,
        main=report_data.main,
    )
    worded = " ".join(map(plain, present(compare.bridge_section(fake)).text))
    assert "jobs of different sizes" in worded
    assert "GPU-hours [" not in worded


def test_curves_have_the_means_and_intervals_of_the_cells() -> None:
    """A line for each combination of the other axes, its places in the unit of the labels."""
    content = study({"kind": WORDS, "every": numbers(1, 4, 16, unit="min")}, lambda kind, x: 0.9 - x * 1e-5 * len(kind))
    (picture,) = pictures(present(curves.section(of_document(RUN, content)))).values()
    chart = picture.chart
    assert isinstance(chart, Curves)
    assert [series.name for series in chart.series] == ["none", "own node", "neighbour"]
    assert chart.x.is_log
    for series in chart.series:
        mine = [cell for cell in content["cells"] if cell["values"]["kind"] == series.name]
        assert series.x == (1.0, 4.0, 16.0)
        assert series.y == pytest.approx([100 * cell["metrics"]["ettr"]["mean"] for cell in mine])
        for ends, cell in zip(series.ci95, mine, strict=True):
            assert ends == pytest.approx([100 * end for end in cell["metrics"]["ettr"]["mean_ci95"]])


def test_axes_of_words_have_no_curves() -> None:
    """Without an axis of numbers there is no curve: the answers and the table of all results have every combination."""
    content = study({"kind": WORDS}, lambda kind: 0.5 + 0.01 * len(kind))
    assert curves.section(of_document(RUN, content)) is None


def test_of_many_lines_those_are_shown_that_an_axis_tells_apart() -> None:
    """Lines that differ from the best one in the axis that matters most, not eight that are almost the best."""
    axes = {"x": numbers(1, 2), "weak": numbers(*range(1, 11)), "strong": numbers(*range(1, 8))}
    content = sweep_of(study(axes, lambda x, weak, strong: 0.5 + 1e-6 * x + 1e-5 * weak + 0.01 * strong))
    x, weak, strong = axes_of(content)
    kept, _, words = few_lines(lines_along(content, x), [weak, strong], "ettr")
    assert [line.fixed["strong"] for line in kept] == list(strong.labels)
    assert {line.fixed["weak"] for line in kept} == {"10"}
    assert "weak 10" in words
    other = sweep_of(study({"x": numbers(1, 2), "y": numbers(*range(20))}, lambda _, y: y / 40))
    alone, titled, words = few_lines(lines_along(other, x), [weak], "ettr")
    assert [line.fixed["y"] for line in alone] == [str(number) for number in range(12, 20)]
    assert (len(alone), len(titled)) == (MOST_LINES, 20)  # a title holds for lines without room, too


def rows_of(times: dict[str, list[float | None]], draw: str = "0") -> list[dict[str, str]]:
    """Return rows of results.csv with these times to finish."""
    return [
        {"draw": draw, "spares": label, "time_to_work": "" if time is None else repr(time)}
        for label, mine in times.items()
        for time in mine
    ]


def test_the_curve_of_the_end_is_the_empirical_distribution() -> None:
    """At each time its height is the share of all runs that were finished by then; unfinished ones count among all."""
    generator = np.random.default_rng(2)
    times: list[float | None] = [round(float(time), -4) for time in generator.uniform(1e6, 2e6, 23)]
    times += [None] * 7
    axis = ChosenAxis("spares", "spares", ("4", "8"), (4.0, 8.0), "spares")
    sample, _ = samples_along(rows_of({"4": times, "8": [1.5e6]}), axis, {}, drawn=False)
    assert sample.runs == 30
    series = chance_curve(sample, 0.9e6, 3e6, 0)
    assert series.look == "step"
    for at in generator.uniform(0.9e6, 3e6, 200):
        before = [height for place, height in zip(series.x, series.y, strict=True) if place * 86400 <= at + 1e-6]
        wanted = np.mean([time is not None and time <= at for time in times])
        assert before[-1] == pytest.approx(100 * wanted)
    assert series.y[0] == 0
    assert max(height for height in series.y if height is not None) == pytest.approx(100 * 23 / 30)


def test_a_share_is_finished_by_the_first_time_that_has_it() -> None:
    """With unfinished runs a large share is never reached."""
    sample = Sample("", (1.0, 2.0, 3.0, 4.0), 5)
    assert (sample.by(0.5), sample.by(0.8), sample.by(0.9)) == (3.0, 4.0, None)


def test_the_end_of_a_study_is_that_of_its_table(materials: dict[str, ReportData]) -> None:
    """Chances at the deadline are those of the rows of results.csv, the draws of unknown inputs together."""
    report_data = materials["study"]
    section = present(finish.section(report_data))
    picture = pictures(section)["finish"]
    assert picture.chart.edges == ((9 / 24, "deadline: 0.375 days"),)
    focus = present(report_data.focus)
    best = next(
        cell["values"]
        for cell in report_data.main["cells"]
        if phrases(cell["values"], ("spares.hot", "interval"), report_data.sweep.axes) in focus.name
    )
    along = next(name for name in ("spares.hot", "interval") if report_data.main["axes"][name]["title"] ==
                 picture.table.columns[0].head.lower())  # fmt: skip
    other = {"spares.hot": "interval", "interval": "spares.hot"}[along]
    for row, value in zip(picture.table.rows, report_data.main["axes"][along]["values"], strict=True):
        mine = [line for line in report_data.table if line["draw"] != "0" and line[along] == value["label"]
                and line[other] == best[other]]  # fmt: skip
        assert len(mine) == 20 * 2
        in_time = sum(float(line["p_finish_by"]) for line in mine)
        assert float(row[1].removesuffix(" %")) == pytest.approx(100 * in_time / len(mine), abs=0.051)
    assert any("failure rate" in note for note in section.notes)


def change(mean: float, half: float) -> dict[str, Any]:
    """Return a paired difference as documents have it."""
    resolved = abs(mean) > half
    ends = [mean - half, mean + half]
    return {"mean": mean, "ci95": ends, "resolved": resolved, "replications_to_resolve": 40, "controlled": None}


def sensitivity() -> dict[str, Any]:
    """Return the document of a sensitivity with one unknown input and one that is chosen."""
    stated = {"basis": None, "source": ""}
    axes = {"rate": {"title": "failure rate", "unknown": True, **stated},
            "spares": {"title": "spares", "unknown": False, **stated}}  # fmt: skip
    rate = [("0.5", 0.5, 0.03, 0.01), ("2", 2.0, -0.06, 0.02)]
    spares = [("2", 2.0, -0.02, 0.01), ("8", 8.0, 0.004, 0.02), ("16", 16.0, 0.01, 0.02)]
    share = {"value": 0.5, "ci95": [0.4, 0.6]}
    return {
        "study": "by hand", "question": "", "scenario": "x", "provenance": PROVENANCE,
        "metric": "ettr", "replications": 10, "seed": 1, "axes": axes, "low": 0.05,
        "center": {"values": {"rate": "1", "spares": "4"}, "mean": 0.9, "ci95": [0.88, 0.92], "closed_form": None},
        "tornado": [
            {"axis": axis, "center": center, "swing": 0.1, "resolved": True, "replications_to_resolve": 2,
             "moves": [{"label": label, "number": number, "change": change(mean, half), "closed_form": None,
                        "trouble": ""}
                       for label, number, mean, half in moves]}
            for axis, center, moves in (("rate", "1", rate), ("spares", "4", spares))
        ],
        "indices": {
            "samples": 64, "rows": 64, "left_out": 0, "why_left_out": "", "mean": 0.9, "noise_of_means": 0.01,
            "variance": {
                "parameters": {"variance": 1.0, "share": share},
                "noise": {"variance": 0.6, "share": {"value": 0.3, "ci95": [0.2, 0.4]}},
                "both": {"variance": 0.4, "share": {"value": 0.2, "ci95": [0.1, 0.3]}},
            },
            "together": {"value": 0.1, "ci95": [0.0, 0.2]},
            "by_axis": [
                {"axis": "rate", "first": {"value": 0.7, "ci95": [0.6, 0.8]},
                 "total": {"value": 0.8, "ci95": [0.7, 0.9]}, "closed_form": None},
                {"axis": "spares", "first": {"value": 0.2, "ci95": [0.1, 0.3]},
                 "total": {"value": 0.3, "ci95": [0.2, 0.4]}, "closed_form": None},
            ],
            "reason": "",
        },
        "indices_missing": "", "assumptions": [], "warnings": [],
    }  # fmt: skip


def no_sweep(content: dict[str, Any]) -> Any:
    """Return the report data of a sensitivity alone."""
    typed = SensitivityDocument.model_validate(content)
    return SimpleNamespace(sensitivity=typed, sweep=None, focus=None, study=None, kind="sweep")


def test_a_tornado_has_the_changes_of_the_document() -> None:
    """Both ends of what is unknown; of several choices the lowest and the highest change, in order of the input."""
    chart = pictures(present(drivers.section(no_sweep(sensitivity()))))["tornado"].chart
    assert isinstance(chart, TornadoChart)
    rate, spares = chart.swings
    assert (rate.low[0], rate.high[0]) == ("0.5", "2")
    assert (rate.low[1], rate.high[1]) == pytest.approx((3, -6))
    assert rate.high[2] == pytest.approx((-8, -4))
    assert (spares.low[0], spares.high[0]) == ("2", "16")
    assert (spares.low[1], spares.high[1]) == pytest.approx((-2, 1))
    assert "Failure rate from 1 to 2 changes ETTR by −6" in chart.title


def test_a_tornado_names_the_largest_change_that_is_resolved() -> None:
    """A larger change that is not resolved, or a small resolved one of an input that moves more, is not named."""
    content = sensitivity()
    content["axes"]["other"] = content["axes"]["rate"] | {"title": "other"}
    rate, spares = content["tornado"]
    other = copy.deepcopy(rate) | {"axis": "other"}
    for swing, changes in ((rate, (0.06, -0.01)), (spares, (0.05, 0.01, 0.0)), (other, (0.04, 0.0))):
        for move, mean in zip(swing["moves"], changes, strict=True):
            move["change"] = change(mean, 0.001 if mean in (0.01, 0.04) else 0.1)
    content["tornado"].append(other)
    title = present(drivers.section(no_sweep(content))).title
    assert title.startswith("Other from 1 to 0.5 changes ETTR by +4")
    assert title.endswith("the largest clear effect")


def test_a_picture_has_the_values_that_change_most() -> None:
    """Of several values the lowest and the highest change are drawn, in the order of the input."""
    assert drawn_ends([1.0, 6.0, 2.0]) == (0, 1)
    assert drawn_ends([6.0, 7.0, 1.0]) == (1, 2)
    assert (drawn_ends([3.0]), drawn_ends([2.0, 2.0, 2.0])) == ((0, 0), (0, 2))


def test_shares_of_the_variance_are_those_of_the_document() -> None:
    """First-order and total indices with their intervals, and a table that adds up to all of the variance."""
    section = present(drivers.variance_section(no_sweep(sensitivity())))
    assert isinstance(section.items[0], TableBlock)
    assert [row[1].partition(" ")[0] for row in section.items[0].rows] == ["50", "30", "20"]
    bars = pictures(section)["variance-by-input"].chart
    assert isinstance(bars, Bars)
    assert [row.values for row in bars.rows] == [pytest.approx((70, 80)), pytest.approx((20, 30))]
    assert bars.rows[0].ci95[1] == pytest.approx((70, 90))
    assert "Failure rate accounts for 80 %" in bars.title


def test_variance_that_is_not_told_apart_is_said_so() -> None:
    """Without indices there is no picture, and the reason is there."""
    content = sensitivity()
    content["indices"] |= {"by_axis": [], "together": None, "reason": "too few rows"}
    section = present(drivers.variance_section(no_sweep(content)))
    assert list(pictures(section)) == []
    assert "Too few rows." in section.text
    content |= {"indices": None, "indices_missing": "some points cannot run"}
    section = present(drivers.variance_section(no_sweep(content)))
    assert section.items == ()
    assert section.text == ("Some points cannot run.",)


def test_settings_of_an_optimum_can_be_typed(materials: dict[str, ReportData], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs as it stands in the folder of the results, and plays what was found."""
    import shlex

    content = present(materials["study"].of(OPTIMIZE))
    section = present(optimum.section(materials["study"]))
    command = next(plain(text) for text in section.text if "ettrick run" in plain(text)).partition("ettrick ")[2]
    monkeypatch.chdir(materials["study"].folder)
    count = str(content["replications"])
    result = report_sample.call(*shlex.split(command), "--replications", count, "--json", "--jobs", "1")
    mean = json.loads(result.stdout)["metrics"]["ettr"]["mean"]
    assert mean == pytest.approx(content["answer"]["aims"]["ettr"]["mean"], rel=1e-12)


def test_paired_differences_are_what_the_bridge_uses() -> None:
    """A gain of a bucket is the paired difference of its shares, the second scenario subtracted from the first."""
    generator = np.random.default_rng(21)
    first, second, _ = drawn(generator, 5)
    found = present(bridge_of(first, second))
    for step in found.steps:
        index = JOB_BUCKETS.index(step.bucket)
        pairs = [
            [SimpleNamespace(amount=run.jobs[0].buckets[index], base=run.jobs[0].requested) for run in each]
            for each in (first, second)
        ]
        ratios: Any = [[(one.amount, one.base) for one in each] for each in pairs]
        wanted = present(difference(ratios[0], ratios[1]))
        assert step.gain == pytest.approx(wanted.mean, abs=1e-14)
        assert present(step.difference).ci95 == pytest.approx(wanted.ci95)
