"""The studies that come with the program: each can be played, says what it assumes, and gets an answer in words."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

import sim
from analysis.at_equal import study_headline
from analysis.metrics import ratios
from analysis.study.load import load_study
from analysis.study.table import Cell, Outcome, Table
from analysis.sweep.sweep import kept_metrics
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.study.amounts import Point
    from analysis.study.load import LoadedStudy

STUDIES = sorted(sim.shipped("scenarios/studies"))
WANTED = {
    "checkpoint-interval-and-tier",
    "cost-and-spares",
    "mtbf-requirement",
    "nvl8-or-nvl72",
    "oversubscription",
    "recovery-at-scale",
    "spares-and-repair",
    "spares-to-finish",
}
SHORT = ("set.horizon=1 d",)
MOST_TASKS = 200
"""Tasks of up to ten replications: what two cores play in about two minutes."""


def loaded(name: str, overrides: tuple[str, ...] = ()) -> LoadedStudy:
    """Return a study by its name."""
    return load_study(sim.shipped("scenarios/studies")[name], overrides)


def corners(study: LoadedStudy) -> Iterator[Point]:
    """Yield the points, without draws, that have the first or the second value of every axis."""
    chosen = [name for name, axis in study.study.vary.items() if not axis.is_uncertain]
    wanted = set(
        itertools.product(*([value.label for value in study.study.vary[name].values(name)[:2]] for name in chosen))
    )
    positions = [list(study.study.vary).index(name) for name in chosen]
    for point in study.points():
        if point.draw == 0 and tuple(point.values[position].label for position in positions) in wanted:
            yield point


def outcome(study: LoadedStudy, point: Point) -> Outcome:
    """Return two replications of a point."""
    prepared = sim.prepare(study.template.scenario(study.overrides(point)))
    rows = [ratios(prepared, sim.run(prepared, replication)) for replication in range(2)]
    return Outcome(point, {name: [row[name] for row in rows] for name in rows[0]})


def test_the_questions_of_the_daily_work_are_shipped() -> None:
    """There is a study for each of the eight questions."""
    assert set(STUDIES) >= WANTED


@cases("name", STUDIES)
def test_a_study_says_what_it_asks_and_what_it_assumes(name: str) -> None:
    """It is called like its file, asks a question, has one line for lists, and names assumptions of its own."""
    study = loaded(name).study
    assert study.name == name
    assert study.question.endswith("?")
    assert study.description.endswith(".")
    assert "\n" not in study.description
    assert study.questions
    assert study.assumptions
    assert all(axis.title for axis in study.vary.values())


@cases("name", STUDIES)
def test_a_study_is_small_enough_to_be_tried(name: str) -> None:
    """It has no more tasks than two cores play in about two minutes."""
    study = loaded(name)
    assert study.study.replications is not None
    tasks = sum(1 for _ in study.points()) * -(-study.study.replications // 10)
    assert len(list(corners(study))) < tasks <= MOST_TASKS


@pytest.mark.parametrize("name", STUDIES)
def test_the_first_points_run_and_every_question_has_an_answer(name: str) -> None:
    """A corner of the study plays two short replications, and each question is answered in words from that alone."""
    study = loaded(name, SHORT)
    metrics = kept_metrics(study)
    cells = tuple(Cell(outcome(study, point)) for point in corners(study))
    table = Table(study.study.vary, cells, metrics)
    assert all(metric in cell.stated.metrics for cell in cells for metric in metrics)
    for question in study.study.questions:
        answer = question.answer(table)
        assert answer.ask == question.ask
        assert answer.sentences
        assert all(sentence and not re.search(r"\b(nan|inf|None)\b", sentence) for sentence in answer.sentences)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_unlike_clusters_is_led_by_what_is_equal(name: str) -> None:
    """What is compared at equal GPUs or cost has that metric first."""
    study = loaded(name)
    if study.study.at_equal is not None:
        assert study.study.metrics[0] == study_headline(study)


def test_clusters_have_no_nodes_but_those_of_the_job_and_its_spares() -> None:
    """Where spares are asked for, idle nodes that fail and come back do not fill the pool up."""
    for name in ("spares-and-repair", "spares-to-finish", "cost-and-spares", "recovery-at-scale", "mtbf-requirement"):
        study = loaded(name)
        axis = study.study.vary[next(iter(study.study.vary.keys() & {"spares", "spares.hot", "gpus"}))]
        assert isinstance(axis.choices, dict)
        for content in axis.choices.values():
            job = content.get("jobs.0.gpus", 16384) // 8
            assert content["cluster.nodes"] == job + content["spares.hot"]


def test_twice_the_gpus_need_twice_the_reliability() -> None:
    """By the closed form, the largest failure rate with an ETTR of 95 % halves with each doubling of the job.

    A little less than halves, for causes that come per job do not multiply with the hardware.
    """
    study = loaded("mtbf-requirement")
    limits = [rate_at(study, gpus, 0.95) for gpus in ("16384", "32768")]
    assert 1.7 < limits[0] / limits[1] < 2.0


def rate_at(study: LoadedStudy, gpus: str, share: float) -> float:
    """Return the relative failure rate at which the ETTR of the closed form is a share, between two values."""
    points = [point for point in study.points() if (point.values[0].label, point.values[1].label) == (gpus, "200 s")]
    found = [
        (point.values[2].number, sim.closed_form(sim.prepare(study.template.scenario(study.overrides(point)))).ettr)
        for point in points
    ]
    for (low, above), (high, below) in itertools.pairwise(found):
        assert above is not None
        assert below is not None
        if above >= share > below:
            assert low is not None
            assert high is not None
            return float(low + (high - low) * (above - share) / (above - below))
    raise AssertionError(found)


@pytest.mark.nightly
@pytest.mark.parametrize("name", STUDIES)
def test_every_point_can_run(name: str) -> None:
    """No point of a shipped study is refused, draws of what is unknown included."""
    study = loaded(name)
    for point in study.points():
        assert sim.prepare(study.template.scenario(study.overrides(point))).jobs
