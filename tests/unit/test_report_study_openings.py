"""The first screen of a study: what it says of hand-made answers, and that all of it comes from the results."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ettrick import cli
from ettrick.analysis.page.chapters.answer import WORDS, CellRows
from ettrick.analysis.page.chapters.answers import ANSWERS, answers_of, chosen_cells
from ettrick.analysis.page.chapters.study import drivers, opening
from ettrick.analysis.page.model import plain
from ettrick.analysis.page.report_data import FolderResults, ReportData, read_results
from ettrick.analysis.page.sourced import RUN, SourcedEstimate, SourcedNumber, SourceDocument, between, bracket
from ettrick.analysis.results.run import plain as plain_data
from tests import trace_numbers
from tests.cases import cases
from tests.typed import present, sweep_of

if TYPE_CHECKING:
    from ettrick.analysis.page.chapters.answer import AnswerText
    from ettrick.analysis.page.model import FirstScreen

STUDY = """\
name: every-question
question: What is best, and where?
scenario: quickstart
set: {horizon: 2 d}
vary:
  spares.hot: {title: hot spares, noun: hot spares, choices: [0, 2]}
  jobs.0.gpus: {title: GPUs of the job, noun: GPUs, choices: [512, 1024]}
  rate: {path: failures.0.scale, title: failure rate, choices: [0.5, 1, 4, 16]}
replications: 3
metrics: [ettr, mtti]
questions:
  - {use: threshold, at_least: 90 %, along: rate}
  - {use: threshold, metric: mtti, at_least: 1 d, along: rate}
  - {use: best}
  - {use: best, for_each: [rate]}
  - {use: compare, axis: spares.hot}
  - {use: crossover, between: spares.hot, along: rate}
  - {use: pareto, metrics: [ettr, mtti]}
  - {use: trend, along: rate}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a study of every kind of question about a grid; a quarter of its points cannot run."""
    place = tmp_path_factory.mktemp("study")
    (place / "study.yaml").write_text(STUDY, encoding="utf-8")
    command = ["sweep", str(place / "study.yaml"), "--out", str(place / "out"), "--jobs", "1"]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    return place / "out"


def estimate(mean: float, low: float, high: float) -> dict[str, Any]:
    """Return a summary as documents have it."""
    return {"mean": mean, "mean_ci95": [low, high]}


def document(
    axes: dict[str, tuple[str, list[tuple[str, float | None]]]], means: list[float | None], answer: dict[str, Any]
) -> dict[str, Any]:
    """Return the document of a study with these axes (title, values) and means of its cells, the last axis fastest."""
    places: list[dict[str, tuple[str, float | None]]] = [{}]
    for name, (_, values) in axes.items():
        places = [{**place, name: value} for place in places for value in values]
    cells = [
        {
            "cell": number, "replications": 16, "gpus": 1000,
            "values": {name: label for name, (label, _) in place.items()},
            "numbers": {name: value for name, (_, value) in place.items()},
            "metrics": {} if mean is None else {"ettr": estimate(mean, mean - 0.001, mean + 0.001)},
        }
        for number, (place, mean) in enumerate(zip(places, means, strict=True))
    ]  # fmt: skip
    entries = {
        name: {"title": title, "noun": title if title == "hot spares" else "",
               "paths": ["failures.0.scale" if name == "rate" else name],
               "values": [{"label": label, "number": number} for label, number in values]}
        for name, (title, values) in axes.items()
    }  # fmt: skip
    return {"question": "What?", "axes": entries, "metrics": ["ettr"], "cells": cells, "answers": [answer],
            "counts": {"points": len(cells)}}  # fmt: skip


def worded(content: dict[str, Any]) -> AnswerText:
    """Return what the only answer of a document says."""
    ((_, found),) = answers_of(SourceDocument(RUN, sweep_of(content)))
    return found


RATES: tuple[str, list[tuple[str, float | None]]] = ("failure rate", [("0.0625", 0.0625), ("0.25", 0.25), ("1", 1.0)])

SPARES: tuple[str, list[tuple[str, float | None]]] = ("hot spares", [("8", 8.0), ("16", 16.0), ("24", 24.0)])

WAYS: tuple[str, list[tuple[str, float | None]]] = ("recovery", [("cold", None), ("warm", None)])


def threshold(
    along: str, holds: tuple[bool, ...], crossing: dict[str, Any] | None, **condition: float
) -> dict[str, Any]:
    """Return the answer to a threshold with one line."""
    values = (RATES if along == "rate" else SPARES)[1]
    points = [{"value": label, "number": number, "mean_ci95": [0.9, 0.99], "band90": None, "holds": one,
               "holds_with_certainty": one} for (label, number), one in zip(values, holds, strict=True)]  # fmt: skip
    line = {"at": {}, "points": points, "crossings": [] if crossing is None else [crossing]}
    data = {"metric": "ettr", **(condition or {"at_least": 0.95}), "along": along, "over": "runs", "lines": [line]}
    return {"use": "threshold", "along": along, "data": data}


def crossing(at: float, low: float | None, high: float | None, *, begins: bool, between: list[str]) -> dict[str, Any]:
    """Return a place where a condition begins or ends to hold."""
    return {"at": at, "at_ci95": [low, high], "band90": None, "between": between, "begins": begins}


def test_a_rate_that_must_fall_is_told_as_a_higher_mtbf() -> None:
    """At most an eighth of the failures is 8 times the MTBF; with a sixteenth and a quarter tried, 4 to 16 times."""
    where = crossing(0.125, 0.1, 0.2, begins=False, between=["0.0625", "0.25"])
    found = worded(document({"rate": RATES}, [0.97, 0.9, 0.8], threshold("rate", (True, False, False), where)))
    assert "MTBF must be about 8.0 times that of “today” (evaluated: 4 and 16)" in plain(found.answer)
    assert found.cell == 0


def test_a_condition_that_begins_with_frequent_failures_is_a_lower_bound() -> None:
    """What holds from half of the failures on is never told as rarer failures."""
    where = crossing(0.5, 0.4, 0.6, begins=True, between=["0.25", "1"])
    answer = threshold("rate", (False, False, True), where, at_most=0.85)
    text = plain(worded(document({"rate": RATES}, [0.97, 0.9, 0.8], answer)).answer)
    assert "at most 85 %" in text
    assert "at least about 0.50 times that of “today” (evaluated: 0.25 and 1)" in text
    assert "MTBF" not in text


@cases(("begins", "shown"), [(True, "9 to 16 hot spares (about 12"), (False, "at most 8 to 15 hot spares (about 11")])
def test_what_is_counted_is_told_in_whole(begins: bool, shown: str) -> None:
    """Between 8, which do not do, and 16, which do, lie 9 to 16 things; one that ends there allows 8 to 15."""
    where = crossing(11.2, 10.5, 13.1, begins=begins, between=["8", "16"])
    holds = (False, True, True) if begins else (True, False, False)
    content = document({"spares": SPARES}, [0.9, 0.96, 0.97], threshold("spares", holds, where))
    assert f"it takes {shown} on a straight line)." in plain(worded(content).answer)


def best(may_be_best: list[str], needed: int | None = 40, replications: int = 16) -> dict[str, Any]:
    """Return the answer to which recovery is best: warm, by 2 to 4 percentage points."""
    order = [
        {"at": {"way": "warm"}, "mean": 0.95, "behind": 0.0, "behind_ci95": [0.0, 0.0]},
        {"at": {"way": "cold"}, "mean": 0.92, "behind": 0.03, "behind_ci95": [0.02, 0.04]},
    ]
    group = {"at": {}, "best": {"way": "warm"}, "may_be_best": [{"way": name} for name in may_be_best],
             "replications": replications, "replications_to_resolve": needed, "order": order}  # fmt: skip
    return {"use": "best", "data": {"metric": "ettr", "direction": "highest", "groups": [group]}}


def test_what_is_not_resolved_claims_no_lead() -> None:
    """Who may be as good is named, with how many runs would tell, and no lead is told."""
    text = plain(worded(document({"way": WAYS}, [0.92, 0.95], best(["cold"]))).answer)
    assert "too close to call: “cold” (about 40 replications needed)" in text
    assert "more than" not in text


def crossover() -> dict[str, Any]:
    """Return the answer to which recovery is best where: cold, then warm, ahead by 2 to 4 percentage points at last."""
    ahead = {"mean": 0.03, "ci95": [0.02, 0.04], "resolved": True}
    stages = [{"value": value, "number": float(value), "best": best, "may_be_best": [best], "mean": mean,
               "order": [best, other], "ahead_of_second": ahead}
              for value, best, other, mean in (("8", "cold", "warm", 0.96), ("16", "warm", "cold", 0.95),
                                               ("24", "warm", "cold", 0.94))]  # fmt: skip
    place = {"from": "cold", "to": "warm", "between": ["8", "16"], "at": 12.0, "at_ci95": [10.0, 14.0]}
    line = {"at": {}, "best": stages, "crossings": [place]}
    data = {"metric": "ettr", "between": "way", "along": "spares", "lines": [line]}
    return {"use": "crossover", "along": "spares", "between": "way", "data": data}


def test_points_of_a_thousand_gpus_are_gpu_years() -> None:
    """Two to four points of 1,000 GPUs are 20 to 40 GPU-years a year; between jobs of unlike size nothing is told."""
    content = document({"way": WAYS, "spares": SPARES}, [0.96, 0.92, 0.91, 0.93, 0.95, 0.94], crossover())
    text = plain(worded(content).answer)
    assert "at 8 hot spares, then “warm” from 16 to 24 hot spares, ahead by" in text
    assert "ahead by 2.0 to 4.0 percentage points with" in text
    assert text.endswith("the best changes at about 12 hot spares.")
    assert "(20 to 40 GPU-years a year)" in str(present(worded(content).table).rows[-1])
    for gpus in (500, None):
        content["cells"][-1]["gpus"] = gpus
        assert "GPU-years" not in str(present(worded(content).table).rows[-1])


def test_the_interval_of_a_difference_holds_however_alike_the_runs_are() -> None:
    """Its half-width is the sum of both: the most that the standard error of a difference can be, at correlation -1."""

    def mean(value: float, half: float) -> SourcedEstimate:
        return SourcedEstimate(*(SourcedNumber(one, ("run.json#/a",)) for one in (value, value - half, value + half)))

    found = between(mean(0.9, 0.03), mean(0.5, 0.04))
    for correlation in (-1.0, 0.0, 1.0):
        half = math.sqrt(0.03**2 + 0.04**2 - 2 * correlation * 0.03 * 0.04)
        assert found.interval[0] <= 0.4 - half + 1e-12
        assert found.interval[1] >= 0.4 + half - 1e-12
    assert list(found.interval) == pytest.approx([0.33, 0.47])


def screen(content: dict[str, Any], folder: Path) -> FirstScreen:
    """Return the first screen of a document that is like that of a folder."""
    return opening(ReportData(FolderResults(folder, "sweep", {RUN: plain_data(sweep_of(content))})))


def test_a_threshold_over_two_more_axes_begins_with_what_holds_today() -> None:
    """Of four combinations two hold at the stated rate: that and the best come first, the others are in the table."""
    content = document({"way": WAYS, "spares": (SPARES[0], SPARES[1][:2]), "rate": RATES}, [0.9] * 12, {})
    places = {("cold", "8"): 0.1, ("cold", "16"): 1.5, ("warm", "8"): 0.5, ("warm", "16"): 2.5}
    lines = []
    for (way, spares), at in places.items():
        answer = threshold("rate", (True, True, at > 1), crossing(at, at, at, begins=False, between=["0.25", "1"]))
        (one,) = answer["data"]["lines"]
        lines.append(one | {"at": {"way": way, "spares": spares}})
    answer["data"]["lines"] = lines
    content["answers"] = [{"sentences": [], **answer}]
    found = worded(content)
    text = plain(found.answer)
    assert len(text.split()) <= WORDS
    assert "today in 2 of 4 combinations" in text
    assert text.index("2 of 4") < text.index("“warm” and 16 hot spares: up to 2.50") < text.index("MTBF 10.0 times")
    assert [row[2] for row in present(found.table).rows] == ["up to 2.50", "up to 1.50", "up to 0.500", "up to 0.100"]
    assert found.cell == chosen_cells(sweep_of(content))[0]  # type: ignore[index]


def test_every_number_leads_back_to_the_results(folder: Path) -> None:
    """All numbers of the first screen follow from places of the documents, and no other digits stand on it."""
    assert trace_numbers.check_opening(opening(ReportData(read_results(folder))), folder) > 5


def test_every_kind_of_question_has_its_say(folder: Path) -> None:
    """Each answer makes a sentence, a short one and a title whose numbers lead back to the results."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    found, known = answers_of(SourceDocument(RUN, sweep_of(content))), trace_numbers.quotes(folder)
    assert {asked.content["use"] for asked, _ in found} == set(ANSWERS) - {"sensitivity"}
    assert len(found) == len(content["answers"])
    for _, one in found:
        for words in (one.answer, one.point, one.title):
            trace_numbers.check_words(words, folder, known)
            assert plain(words)
        assert len(plain(one.answer).split()) <= WORDS
        picture = present(one.picture("A title"))
        assert (picture.chart.title, picture.key) == ("A title", "the-answer")


def test_points_that_cannot_run_are_told(folder: Path) -> None:
    """A quarter of the points has more spares than the cluster has room for: 4 of 16."""
    texts = [plain(words) for words in opening(ReportData(read_results(folder))).not_covered]
    assert "4 of 16 points cannot run as stated and have no results." in texts


def test_what_the_data_do_not_support_is_left_out(folder: Path) -> None:
    """Without intervals, means, answers or questions there is a screen still, with no number that is none."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    bare = re.sub(
        r'"(mean_ci95|ci95|at_ci95|band90|std|p05|p95)": (\[[^\]]*\]|[-\d.e]+)', r'"\1": null', json.dumps(content)
    )
    cells = [{**cell, "metrics": {}} for cell in content["cells"]]
    for one in (json.loads(bare), {**content, "cells": cells}, {**content, "answers": []}):
        found = screen(one, folder)
        text = " ".join(map(plain, (found.answer, found.doubt, *found.drivers, *found.not_covered)))
        assert plain(found.answer)
        assert not re.search(r"\b(nan|inf|None)\b", text)
    assert screen({**content, "answers": []}, folder).picture is None


def test_the_picture_has_the_values_of_the_cells(folder: Path) -> None:
    """A curve goes through the means of its cells, in percent."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    picture = present(opening(ReportData(read_results(folder))).picture)
    drawn = sorted(value for series in picture.chart.series for value in series.y)
    means = sorted(100 * cell["metrics"]["ettr"]["mean"] for cell in content["cells"] if cell["status"] == "ok")
    assert drawn == pytest.approx(means)
    assert picture.chart.levels[0][0] == pytest.approx(90)


def test_the_last_value_tried_is_told_as_such() -> None:
    """Where the best is at the end of an axis, the screen says that nothing beyond was tried; not in the middle."""
    for value, expected in (("24", "above"), ("8", "below"), ("16", None)):
        order = [{"at": {"spares": value}, "mean": 0.95, "behind": 0.0, "behind_ci95": [0.0, 0.0]}]
        group = {"at": {}, "best": {"spares": value}, "may_be_best": [], "replications": 16, "order": order}
        data = {"metric": "ettr", "direction": "highest", "groups": [group | {"replications_to_resolve": None}]}
        content = document({"spares": SPARES}, [0.9, 0.95, 0.93], {"use": "best", "data": data})
        ((_, found),) = answers_of(SourceDocument(RUN, sweep_of(content)))
        texts = [plain(words) for words in found.caveats]
        caveat = f"The best value, {value} hot spares, is the end of its range: nothing {expected} was evaluated."
        assert texts == ([] if expected is None else [caveat])
        assert (", the end of its range" in plain(found.answer)) == (expected is not None)


def test_answers_that_say_the_same_are_told_once(folder: Path) -> None:
    """Who is best for each rate, and along the rates, is one thing: one bullet of the other answers has it, not two."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    kept = [one for one in content["answers"] if one["use"] == "crossover" or one.get("for_each")]
    assert len(kept) == 2
    found = screen({**content, "answers": kept}, folder)
    twin = answers_of(SourceDocument(RUN, sweep_of({**content, "answers": kept})))[1][1]
    assert twin.point not in found.drivers
    both = {**content, "answers": [content["answers"][0], kept[0]]}
    second = answers_of(SourceDocument(RUN, sweep_of(both)))[1][1]
    assert plain(second.answer) in plain(screen(both, folder).doubt), "it answers the second clause of the question"
    one = {**both, "question": "What is best?"}
    assert second.point in screen(one, folder).drivers


def test_how_far_unknown_inputs_move_the_answer_is_told() -> None:
    """Between which places they move the answer is told, and in words where that is beyond the range."""
    where = crossing(11.2, 10.5, 13.1, begins=True, between=["8", "16"]) | {"band90": [None, 20.5]}
    content = document({"spares": SPARES}, [0.9, 0.96, 0.97], threshold("spares", (False, True, True), where))
    assert plain(worded(content).band) == "from fewer than 8 to 21 hot spares"


@cases(
    ("ends", "expected"),
    [
        ((11.0, 13.0), (0, 1)),
        ((7.0, 13.0), (None, 1)),
        ((11.0, 17.0), (0, 2)),
        ((11.0, None), (0, None)),
        ((None, None), (0, 1)),
    ],
)
def test_no_place_is_known_more_closely_than_the_values_tried(
    ends: tuple[float | None, float | None], expected: tuple[int | None, int | None]
) -> None:
    """A place between 8 and 16 is anywhere between them, and farther where chance reaches beyond them."""
    assert bracket([8.0, 16.0, 24.0], (0, 1), ends) == expected


def runs(**columns: list[list[float]]) -> CellRows:
    """Return the table of results with these values: of each column, cell and draw; draw 0 is the central one."""
    first = next(iter(columns.values()))
    return CellRows([
        {"cell": str(cell), "draw": str(draw)} | {name: str(found[cell][draw]) for name, found in columns.items()}
        for cell, draws in enumerate(first) for draw in range(len(draws))
    ])  # fmt: skip


def test_drawn_runs_lead_where_inputs_are_unknown() -> None:
    """Of the drawn runs half are in time with 8, all with 16: it takes between 8 and 16, though 8 do at the center."""
    answer = threshold("spares", (True, True, True), None, at_least=0.95)
    answer["data"]["metric"] = "p_finish_by"
    content = document({"spares": SPARES}, [1.0, 1.0, 1.0], answer)
    for cell in content["cells"]:
        cell |= {"metrics": {"p_finish_by": estimate(1.0, 0.7, 1.0)}, "draws": 2, "replications": 1}
    rows = runs(p_finish_by=[[1, 0, 1], [1, 1, 1], [1, 1, 1]])
    ((_, found),) = answers_of(SourceDocument(RUN, sweep_of(content)), rows)
    text = plain(found.answer)
    assert "it takes between 8 and 16 hot spares: of 2 runs 50 % with 8 and 100 % with 16 are in time" in text
    assert text.endswith("At exactly the central values 8 hot spares would do.")
    assert "one of 2 draws" in plain(found.doubt)
    assert found.cell == 1
    picture = present(found.picture("A title"))
    assert picture.chart.series[0].y == (50, 100, 100)
    assert "any evaluated value is enough" in plain(answers_of(SourceDocument(RUN, sweep_of(content)))[0][1].answer)


def said(content: dict[str, Any], rows: CellRows | None = None) -> list[str]:
    """Return what drives the answer of a document."""
    report_data = ReportData(FolderResults(Path(), "sweep", {RUN: plain_data(sweep_of(content))}))
    return [plain(words) for words in drivers(report_data, answers_of(SourceDocument(RUN, sweep_of(content)), rows))]


def test_what_drives_an_answer_is_what_time_goes_to() -> None:
    """Warm saves 4 points of starting and loses 1 by redoing; of what it loses, 6 of 8 points are the queue: most."""
    rows = runs(
        **{"time_shares.initialize": [[0.05], [0.01]], "time_shares.lost_work": [[0.0], [0.01]],
           "time_shares.queued": [[0.06], [0.06]]}
    )  # fmt: skip
    texts = said(document({"way": WAYS}, [0.92, 0.95], best([])), rows)
    assert texts[0] == (
        "The job spends 4 percentage points less of its time on initializing and 1 more on lost work with “warm” "
        "instead of “cold”."
    )
    assert "With recovery “warm”, most of the lost time goes to queueing: 6 %." in texts
    assert not any("luck" in text.lower() for text in texts)


def test_a_driver_is_one_step_and_not_the_end_of_the_grid() -> None:
    """From 24 spares one step leads to 16, two points lower, whatever 8 would do."""
    order = [{"at": {"spares": "24"}, "mean": 0.95, "behind": 0.0, "behind_ci95": [0.0, 0.0]}]
    group = {"at": {}, "best": {"spares": "24"}, "may_be_best": [], "replications": 16, "order": order}
    data = {"metric": "ettr", "direction": "highest", "groups": [group | {"replications_to_resolve": None}]}
    (text,) = said(document({"spares": SPARES}, [0.2, 0.93, 0.95], {"use": "best", "data": data}))
    assert text == (
        "The useful share of the time (ETTR) is 1.80 to 2.20 percentage points lower (18.0 to 22.0 GPU-years a year) "
        "with 16 hot spares instead of 24."
    )


def test_what_is_open_begins_with_the_rates_as_stated() -> None:
    """Where nothing is decided at any rate, the stated one comes first, with the means of who may be best."""
    groups = []
    for rate in ("0.25", "1"):
        (group,) = best(["cold"])["data"]["groups"]
        labels = [{"rate": rate, "way": name} for name in ("warm", "cold")]
        order = [entry | {"at": at} for entry, at in zip(group["order"], labels, strict=True)]
        groups.append(group | {"at": {"rate": rate}, "best": labels[0], "may_be_best": labels[1:], "order": order})
    data = {"metric": "ettr", "direction": "highest", "groups": groups}
    axes = {"rate": ("failure rate", RATES[1][1:]), "way": WAYS}
    content = document(axes, [0.97, 0.98, 0.94, 0.95], {"use": "best", "for_each": ["rate"], "data": data})
    text = plain(worded(content).answer)
    assert text.startswith(
        "With the stated failure rate, the mean useful share of the time (ETTR) is highest with “warm”"
    )
    assert text.index("“warm”") < text.index("too close to call: “cold”")
    assert text.endswith("with 0.25 times the failure rate the same setting leads (too close to call).")


def test_a_first_question_without_an_answer_is_told(folder: Path) -> None:
    """The screen says that what was asked first has no answer, and why, before it answers what comes next."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    silent = {**content["answers"][2], "sentences": ["No run was finished."], "data": {"metric": "ettr", "groups": []}}
    text = plain(screen({**content, "answers": [silent, *content["answers"]]}, folder).answer)
    assert text.startswith("The first question has no answer: No run was finished. The useful share")


def test_a_log_has_no_rates(folder: Path) -> None:
    """Where recorded failures are replayed the answer holds for these, and nothing is said of stated rates."""
    content = json.loads((folder / RUN).read_text(encoding="utf-8"))
    for use, expected in (("replay", "exactly the recorded failures"), ("exponential", "exactly the stated failure")):
        report_data = ReportData(FolderResults(folder, "sweep", {RUN: plain_data(sweep_of(content))}))
        report_data.__dict__["focus"] = SimpleNamespace(scenario=SimpleNamespace(failures=[SimpleNamespace(use=use)]))
        assert expected in plain(opening(report_data).doubt)


def test_sections_look_at_what_takes_least() -> None:
    """Of two lines the one that needs fewer spares, or allows more of them, is looked at, wherever it stands."""
    for begins, places in ((True, (12.0, 9.0)), (False, (9.0, 12.0))):
        answer = threshold("spares", (not begins, begins, begins), None)
        (line,) = answer["data"]["lines"]
        answer["data"]["lines"] = [
            line | {"at": {"way": way}, "crossings": [crossing(at, at, at, begins=begins, between=["8", "16"])]}
            for way, at in zip(("cold", "warm"), places, strict=True)
        ]
        content = document({"way": WAYS, "spares": SPARES}, [0.9, 0.96, 0.97] * 2, answer)
        chosen = chosen_cells(sweep_of(content))
        assert chosen == ((4, 3) if begins else (3, 4))
        assert worded(content).cell == chosen[0]
