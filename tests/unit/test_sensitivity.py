"""Sensitivity: one axis at a time, what is left out, and a study simulated for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.analysis.contest.precision import ReplicationsError
from ettrick.analysis.page.chapters import sensitivity as chapter
from ettrick.analysis.results.run import render
from ettrick.analysis.results.studies import SensitivityDocument, SwingSummary
from ettrick.analysis.study.axis import Axis
from ettrick.analysis.study.designs import OneAtATime, Saltelli
from ettrick.analysis.study.load import load_study
from ettrick.analysis.study.questions.sensitivity import tornado
from ettrick.analysis.study.questions.sobol import estimates, indices
from ettrick.analysis.study.table import Cell, PointResult, StudyTable
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.sensitivity import sensitivity
from ettrick.analysis.sweep.workers import ExecutorOptions, worker_pool_at
from ettrick.sim import Ratio
from tests.cases import cases
from tests.typed import of_plain, present

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ettrick.analysis.study.amounts import Point

AXES = {
    "x": Axis.model_validate({"title": "the first", "distribution": {"use": "uniform", "min": 0.0, "max": 1.0}}),
    "y": Axis.model_validate({"range": {"min": 0.0, "max": 2.0}}),
    "z": Axis.model_validate({"choices": ["low", "middle", "high"]}),
}

HEIGHTS = {"low": -1.0, "middle": 0.0, "high": 3.0}


def level(point: Point) -> float:
    """Return 2 x + y / 4 + the height of z."""
    x, y, z = point.values
    return 2 * present(x.number) + present(y.number) / 4 + HEIGHTS[z.label]


def table_of(
    points: Sequence[Point], noise: Callable[[Point], Sequence[float]], trouble: Callable[[Point], str] = lambda _: ""
) -> StudyTable:
    """Return the table of a linear function of the points, with noise added to each replication."""
    outcomes = [
        PointResult(point, trouble=trouble(point))
        if trouble(point)
        else PointResult(point, {"m": [Ratio(level(point) + one, 1.0) for one in noise(point)]})
        for point in points
    ]
    return StudyTable(AXES, tuple(map(Cell, outcomes)), ("m",))


def alone() -> list[Point]:
    """Return the points of the one-at-a-time design."""
    return list(OneAtATime(low=0.1).points(AXES, np.random.default_rng(1)))


def together(samples: int = 64) -> list[Point]:
    """Return the points of the Saltelli design."""
    return list(Saltelli(samples=samples).points(AXES, np.random.default_rng(1)))


def changes(found: list[SwingSummary]) -> dict[str, dict[str, float | None]]:
    """Return the mean change at each value of each axis."""
    return {
        swing.axis: {move.label: None if move.change is None else move.change.mean for move in swing.moves}
        for swing in found
    }


COMMON = (0.3, -0.8, 0.1, 2.0)

"""Noise that is the same at every point."""


def test_tornado_of_a_linear_function_is_exact() -> None:
    """Changes are slope times step, noise that is common cancels, and the axes come by their swings."""
    found = tornado(table_of(alone(), lambda _: COMMON), "m")
    assert [swing.axis for swing in found] == ["z", "x", "y"]
    assert [swing.swing for swing in found] == pytest.approx([4.0, 1.6, 0.5])
    worded = changes(found)
    assert list(worded["x"].values()) == pytest.approx([-0.8, 0.8])
    assert list(worded["y"].values()) == pytest.approx([-0.25, 0.25])
    assert worded["z"] == pytest.approx({"low": -1.0, "high": 3.0})
    for swing in found:
        for move in swing.moves:
            assert present(move.change).ci95 is None, "the same in all replications"


def test_tornado_says_what_is_not_resolved() -> None:
    """A change that is smaller than its noise is not resolved, and it says how many replications would do it."""
    draws = np.random.default_rng(2)
    scatter = {point.number: (0.3 * draws.standard_normal(12)).tolist() for point in alone()}
    found = {swing.axis: swing for swing in tornado(table_of(alone(), lambda at: scatter[at.number]), "m")}
    assert found["z"].resolved
    tiny = {**HEIGHTS, "high": 0.001, "low": -0.001}
    points = alone()
    outcomes = [
        PointResult(at, {"m": [Ratio(tiny[at.values[2].label] + one, 1.0) for one in scatter[at.number]]})
        for at in points
    ]
    quiet = tornado(StudyTable(AXES, tuple(map(Cell, outcomes)), ("m",)), "m")
    z = next(swing for swing in quiet if swing.axis == "z")
    assert not z.resolved
    assert z.replications_to_resolve is None or z.replications_to_resolve > 12


def test_tornado_takes_the_common_noise_out() -> None:
    """Where a change follows the known noise, what is left without it is exact; see the control variates."""
    noise = np.linspace(-1, 1, 20)
    points = alone()
    outcomes = [
        PointResult(
            at,
            {"m": [Ratio(level(at) * (1 + one), 1.0) for one in noise]},
            [(float(one), 0.0, 1.0, 1.0) for one in noise],
        )
        for at in points
    ]
    found = tornado(StudyTable(AXES, tuple(map(Cell, outcomes)), ("m",)), "m")
    for swing in found:
        for move in swing.moves:
            assert move.change.controlled.mean == pytest.approx(move.change.mean)
            assert move.change.controlled.worth > 100


def test_tornado_keeps_points_that_cannot_run() -> None:
    """A value without a result stays in its axis, with the reason."""
    found = tornado(table_of(alone(), lambda _: COMMON, lambda at: "no room" * (at.values[2].label == "high")), "m")
    moves = {move.label: move for swing in found if swing.axis == "z" for move in swing.moves}
    assert moves["high"].change is None
    assert moves["high"].trouble == "no room"
    assert not moves["low"].trouble


def test_tornado_refuses_another_design() -> None:
    """Points that differ in several axes are no one-at-a-time design."""
    with pytest.raises(ValueError, match="not one at a time"):
        tornado(table_of(together(4), lambda _: COMMON), "m")


def test_few_rows_without_a_result_are_left_out_and_counted() -> None:
    """Two points of 320 that crashed take their two rows with them, and the rest still tells the axes apart."""
    bad = {3, 64 + 7}
    table = table_of(together(), lambda _: COMMON, lambda at: "crashed" * (at.number in bad))
    found = indices(table, "m")
    assert (found.left_out, found.rows, found.why_left_out) == (2, 62, "crashed")
    # Three equally likely heights have the variance 26 / 9; 2 x has 4 / 12, and y / 4 has 1 / 48.
    whole = 26 / 9 + 1 / 3 + 1 / 48
    first = {row.axis: row.first for row in found.axes}
    assert [row.axis for row in found.axes] == ["z", "x", "y"]
    for axis, part in (("z", 26 / 9), ("x", 1 / 3), ("y", 1 / 48)):
        assert first[axis].ci95[0] <= part / whole <= first[axis].ci95[1]


def test_many_rows_without_a_result_are_refused_with_the_values_that_have_none() -> None:
    """Indices of inputs other than those of the study are refused, and the line says where nothing runs."""
    table = table_of(together(), lambda _: COMMON, lambda at: "no room" * (at.values[2].label == "high"))
    with pytest.raises(ReplicationsError, match=r"of 64 rows of points have .*, all where z is high: no room"):
        indices(table, "m")
    far = table_of(together(), lambda _: COMMON, lambda at: "too much" * ((at.values[1].number or 0.0) > 1.5))
    with pytest.raises(ReplicationsError, match=r"all where y is 1\.5\S* to [12]\.?\S*: too much"):
        indices(far, "m")
    anywhere = table_of(together(), lambda _: COMMON, lambda at: "odd" * (at.number % 5 == 0))
    with pytest.raises(ReplicationsError, match=r"the first with x=\S+, y=\S+, z=\w+: odd"):
        indices(anywhere, "m")


def test_a_metric_without_a_mean_is_refused() -> None:
    """A metric that no point has is no number of the design."""
    with pytest.raises(ReplicationsError, match="a replication has no other"):
        indices(table_of(together(), lambda _: COMMON), "other")


def test_nothing_varies() -> None:
    """A constant, but for rounding, has no shares and no indices, and says so."""
    flat = [Cell(PointResult(at, {"m": [Ratio((0.3, 0.1 + 0.2)[at.number % 2], 1.0)] * 6})) for at in together()]
    found = indices(StudyTable(AXES, tuple(flat), ("m",)), "m")
    assert found.shares is None
    assert found.axes == ()
    assert found.noise is None
    assert "same at every point" in found.reason


def test_only_noise_varies() -> None:
    """Where points do not differ but for rounding, all is noise, and no axis is told from another."""
    level, small = (0.3, 0.1 + 0.2), [one / 2**40 for one in COMMON]
    cells = [
        Cell(PointResult(at, {"m": [Ratio(one + level[at.number % 2], 1.0) for one in small]})) for at in together()
    ]
    found = indices(StudyTable(AXES, tuple(cells), ("m",)), "m")
    assert found.shares["noise"].value == 1
    assert found.shares["parameters"].value == 0
    assert found.shares["both"].value < 1e-20
    assert found.axes == ()
    assert "cannot be separated from noise" in found.reason


def test_where_a_part_tells_nothing_no_error_is_told() -> None:
    """Of two rows, one alone has no share of a variance: the interval is everything that a share can be."""

    def share_between(values: Any) -> Any:
        means = values[0].mean(axis=1)
        return np.array([means.var() / values[0].var() if len(means) > 1 else np.nan])

    (found,) = estimates(share_between, np.array([[[0.0, 0.1], [1.0, 1.1]]]))
    assert found.value > 0.9
    assert found.ci95 == (0.0, 1.0)


def test_noise_alone_is_not_taken_for_a_parameter() -> None:
    """Where points differ by their own noise only, what varies is not told from noise."""
    draws = np.random.default_rng(4)
    cells = [Cell(PointResult(at, {"m": [Ratio(one, 1.0) for one in draws.standard_normal(8)]})) for at in together()]
    found = indices(StudyTable(AXES, tuple(cells), ("m",)), "m")
    assert present(found.shares)["both"].ci95[0] > 0.8
    assert found.axes == ()


against, format_sensitivity = (
    of_plain(show, SensitivityDocument) for show in (chapter.against, chapter.format_sensitivity)
)

STUDY = """
name: unknowns
scenario: quickstart
set: {horizon: 4 d}
vary:
  failures.0.scale: {title: failure rate, distribution: {use: counted, events: 4}}
  recovery.initialize: {title: restart, distribution: {use: between, p05: 2 min, p95: 40 min}}
"""


def simulated(
    folder: Path, text: str = STUDY, **asked: Any
) -> tuple[dict[str, Any], list[tuple[int, int | None]], int]:
    """Return the document of a study, read back from JSON, the progress that was told, and the journal's length."""
    (folder / "s.yaml").write_text(text)
    worded: list[tuple[int, int | None]] = []
    with Journal(folder / "journal.jsonl") as journal, worker_pool_at(ExecutorOptions("serial")) as worker_pool:
        study = load_study(folder / "s.yaml")
        campaign = Campaign(study, journal, worker_pool, lambda done, total: worded.append((done, total)))
        document = sensitivity(campaign, command="ettrick sensitivity s.yaml", **asked)
        return json.loads(render(document)), worded, len(journal)


def test_a_study_is_played_once_and_told(tmp_path: Path) -> None:
    """Both methods share one journal, another metric simulates nothing, and the text is the document's."""
    document, worded, length = simulated(tmp_path, samples=8, replications=4)
    # The centre is among the points of the first design.
    assert worded[-1] == (5 + 8 * 4, 5 + 8 * 4)
    assert [done for done, _ in worded] == sorted(done for done, _ in worded)
    assert against(document) == []
    assert document["indices"]["samples"] == 8
    assert {swing["axis"] for swing in document["tornado"]} == {"failures.0.scale", "recovery.initialize"}
    text = format_sensitivity(document, width=1000)
    assert "unknown inputs" in text.lower()
    assert all(document["axes"][swing["axis"]]["title"] in text.lower() for swing in document["tornado"])
    again, worded, after = simulated(tmp_path, samples=8, replications=4, metric="interruptions")
    assert (worded, after) == ([], length)
    assert again["metric"] == "interruptions"
    moves = {swing["axis"]: swing["moves"] for swing in again["tornado"]}
    low, high = (move["change"]["mean"] for move in moves["failures.0.scale"])
    assert low < 0 < high


def test_the_closed_form_stands_beside(tmp_path: Path) -> None:
    """Changes of ETTR one at a time agree with those of the closed form, within twice their intervals."""
    document, _, _ = simulated(tmp_path, method="tornado", replications=8)
    assert document["indices"] is None
    for swing in document["tornado"]:
        for move in swing["moves"]:
            low, high = move["change"]["ci95"]
            assert abs(move["closed_form"] - move["change"]["mean"]) <= high - low + 2e-3


@cases(
    ("asked", "line"),
    [
        ({"method": "sobool"}, r"--method: unknown method 'sobool'; did you mean 'sobol'\?"),
        ({"samples": 12}, "--samples 12: must be a power of two, 8 or 16"),
        ({"replications": 2}, "2 replications: needs 4 at least"),
        ({"metric": "etr"}, r"etr: the scenario has no such metric; did you mean 'ettr'\?"),
    ],
)
def test_what_makes_no_sense_is_a_line(tmp_path: Path, asked: dict[str, Any], line: str) -> None:
    """A wrong option is refused in one line with the nearest valid one, before the study is simulated."""
    with pytest.raises(ReplicationsError, match=line):
        simulated(tmp_path, **({"replications": 4} | asked))


def test_a_central_point_that_cannot_run_is_a_line(tmp_path: Path) -> None:
    """Nothing can be compared with a point that cannot run."""
    text = STUDY + "  spares.hot: {choices: [999, 999, 4]}\n"
    text = text.replace("[999, 999, 4]", "[998, 999, 4]")
    with pytest.raises(ReplicationsError, match=r"the central point cannot run: .* 999 are kept"):
        simulated(tmp_path, text, replications=4)


def test_rows_that_cannot_run_are_told_beside_the_tornado(tmp_path: Path) -> None:
    """Where too many points cannot run there are no indices, but what there is one at a time is told."""
    text = STUDY + "  spares.hot: {choices: [0, 4, 999]}\n"
    document, _, _ = simulated(tmp_path, text, samples=4, replications=4)
    assert document["indices"] is None
    assert document["tornado"]
    lines = against(document)
    assert lines[0].startswith("spares.hot=999: ")
    assert lines[1].startswith("no Sobol indices: ")
    assert "all where spares.hot is 999" in lines[1]
    assert "no mean" in format_sensitivity(document, width=1000)
