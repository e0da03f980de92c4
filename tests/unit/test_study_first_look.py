"""The first look at a study: values that no point can have are told at their place, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sim
from analysis.study import load as looking
from analysis.study.load import first_look
from tests.unit.bad_input import BASE
from tests.unit.test_study_load import HOT, INTERVAL, RATE, changed, complaints, folder, loaded
from tests.unit.test_study_reading import CLUSTERS, write_clusters

if TYPE_CHECKING:
    from analysis.study.amounts import Point

__all__ = ["folder"]  # a fixture that every test here uses

SIZES = "  jobs.0.gpus: {choices: [64, 120]}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({6: "  §spares.hto: {choices: [0, 2]}"}, "vary.spares.hto: unknown key 'hto'; did you mean 'hot'?"),
        ({6: "  h: {path: §spares.hto, choices: [0, 2]}"}, "vary.h: spares.hto: unknown key 'hto'; did you mean 'hot'"),
        ({6: "  §jobs.4.gpus: {choices: [8, 16]}"}, "vary.jobs.4.gpus: jobs: is a list of 1, counted from 0"),
        (
            {7: "  §checkpoint.tiers.0.intervl: {range: {min: 10 min, max: 2 h, points: 3}}"},
            "vary.checkpoint.tiers.0.intervl: unknown key 'intervl'; did you mean 'interval'?",
        ),
        ({6: HOT + "{choices: [0, §999]}"}, "vary.spares.hot: 999: s.yaml:5:25: jobs.0.gpus: needs 8 nodes, but"),
        ({6: HOT + "{choices: [0, §two, 4]}"}, "vary.spares.hot: two: 'two' is not a count"),
        ({6: HOT + "{range: {min: 0, max: §999, points: 2}}"}, "vary.spares.hot: 999: s.yaml:5:25: jobs.0.gpus: needs"),
        ({8: RATE + "{distribution: §{law: uniform, min: 1 min, max: 2 min}}"}, "vary.failures.0.rate: "),
        (
            {6: "  recovery.use: {choices: [hot-spare, §hot-spar]}"},
            "vary.recovery.use: hot-spar: 'hot-spar' is not a choice; did you mean 'hot-spare'?",
        ),
        (
            {6: "  recovery: {choices: {a: {use: hot-spare, initialize: 1 min}, b: §{use: hot-spar}}, path: recovery}"},
            "vary.recovery: b: recovery.use: 'hot-spar' is not a choice; did you mean 'hot-spare'?",
        ),
        (
            {6: "  size: {choices: {1k: {jobs.0.gpus: 64}, 2k: §{jobs.0.gpus: 64, cluster.noods: 20}}}"},
            "vary.size: 2k: cluster.noods: unknown key 'noods'; did you mean 'nodes'?",
        ),
        ({4: "  horizn: §20 d"}, "set.horizn: unknown key 'horizn'; did you mean 'horizon'?"),
        ({4: "  horizon: §20"}, "set.horizon: '20' needs a unit"),
        ({4: '  horizon: §"a\\u2028b"'}, "set.horizon: 'a\\u2028b' is not a quantity"),
        (
            {6: HOT + "{range: {min: 0, max: 9000, step: 1}}", 9: "design: §{}"},
            "design: makes 567,063 points, and more",
        ),
        ({9: "design: §{use: sobol, samples: 1048576}"}, "design: makes 1,048,576 points, and more than 100,000"),
    ],
    ids=repr,
)
def test_a_value_that_cannot_be_is_one_line(changes: dict[int, str], said: str) -> None:
    """A path or a value that no point can have is one line at its place in the study, without the option behind it."""
    lines = complaints(changes)
    assert len(lines) == 1, lines
    assert lines[0].startswith(changed(changes)[1] + said)
    assert "--set" not in lines[0]


def test_all_mistakes_at_once() -> None:
    """Values of several axes are told together, each at its place."""
    changes = {4: "  horizon: 20", 6: HOT + "{choices: [-1, two]}", 7: INTERVAL + "{min: 10, max: 20, points: 2}}"}
    places = [line.split(": ")[0] for line in complaints(changes)]
    assert places == ["study.yaml:4:12", "study.yaml:6:26", "study.yaml:6:30", "study.yaml:7:62", "study.yaml:7:71"]


def test_what_fails_in_combination_only_is_no_mistake() -> None:
    """A number of spares that is too much for one size of the job is fine, as long as another size leaves room."""
    assert complaints({6: HOT + "{choices: [0, 4]}", 7: SIZES}) == []
    study = loaded({6: HOT + "{choices: [0, 4]}", 7: SIZES})
    with pytest.raises(ValueError, match="could never start"):
        study.scenario(next(point for point in study.points() if [v.label for v in point.values[:2]] == ["4", "120"]))


def test_what_does_not_fit_is_no_mistake() -> None:
    """A model that the memory of its GPUs cannot hold is an answer of the study, whichever value it is."""
    job = "gpus: 64, model: llama3-405b, batch: {tokens: 16777216, sequence: 8192}, parallelism: {data: 64}"
    Path("s.yaml").write_text(BASE.replace("gpus: 64, step_time: 10 s", job), encoding="utf-8")
    study = loaded()
    with pytest.raises(sim.ScenarioError) as caught:
        study.scenario(next(study.points()))
    assert caught.value.is_answer
    assert first_look(study) == []


def test_a_study_that_no_point_of_can_be_read() -> None:
    """Where each value fails for another reason, what is wrong with the first point is told."""
    clash = "{choices: {a: {spares.hot: 999}, b: {spares.hot: 99}}}"
    (line,) = complaints({5: "§vary:", 6: f"  size: {clash}", 7: "", 8: "", 9: ""})
    assert line.startswith("study.yaml:5:1: vary: no point that was tried can be read; of the first one s.yaml:5:25: ")


def test_a_cluster_in_a_file_is_called_by_its_name() -> None:
    """What is wrong with a cluster that a file describes is told under the name of the file, without its content."""
    write_clusters()
    Path("clusters/b.yaml").write_text("extends: a.yaml\nnodes: 4\n", encoding="utf-8")
    (line,) = complaints(CLUSTERS)
    assert line.startswith("study.yaml:6:")
    assert "vary.cluster: b: " in line
    assert "leaf" not in line


def test_big_studies_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 points some dozens are read, both ends of every axis among them."""
    study = loaded(
        {
            6: HOT + "{range: {min: 0, max: 7, step: 1}}",
            7: INTERVAL + "{min: 10 min, max: 2 h, points: 100}}",
            9: "design: {draws: 24}",
        }
    )
    looked: list[Point] = []
    plain = looking._Trials._look

    def look(trials: looking._Trials, point: Point) -> tuple[looking._Finding, ...]:
        looked.append(point)
        return plain(trials, point)

    monkeypatch.setattr(looking._Trials, "_look", look)
    assert study.study.design.count(study.study.vary) == 20_000
    assert first_look(study) == []
    assert len(looked) <= 60
    assert {"0", "7"} <= {point.values[0].label for point in looked}
    assert {"10 min", "2 h"} <= {point.values[1].label for point in looked}


def test_only_the_points_that_are_tried_are_kept() -> None:
    """Of 20,000 points a first look keeps those in which some values are tried: three of each, 60 values in all."""
    axes = {6: HOT + "{range: {min: 0, max: 7, step: 1}}", 7: INTERVAL + "{min: 10 min, max: 2 h, points: 100}}"}
    trials = looking._Trials(loaded({**axes, 9: "design: {draws: 24}"}))
    kept = {point.number for tried in trials.tried for points in tried.values() for point in points}
    assert 60 < len(kept) <= 3 * 60
    assert {0, 19_999} <= kept
