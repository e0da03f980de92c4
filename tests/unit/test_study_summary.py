"""Three kinds of doubt of a cell stay apart: of the mean, of one run, and of what is not known."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from ettrick import sim
from ettrick.analysis.page.chapters.answers import answers_of
from ettrick.analysis.page.model import MOST_AMOUNTS, amounts_in, plain
from ettrick.analysis.page.sourced import RUN, SourceDocument
from ettrick.analysis.ratios import ratios
from ettrick.analysis.statistics.estimates import mean_interval, quantile
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.load import load_study
from ettrick.analysis.study.table import (
    FEWEST_DRAWS,
    Cell,
    JobRate,
    PointResult,
    StudyTable,
    predictive_difference,
    predictive_mean,
    summary_of,
)
from ettrick.analysis.sweep.document import sweep_document
from ettrick.analysis.sweep.sweep import kept_metrics, study_headline
from ettrick.sim import Ratio
from tests.cases import cases
from tests.pace import one_in
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.study.load import LoadedStudy

# The studies that come with the program: each can be simulated, says what it assumes, and gets an answer in words.

DESIGNS = ("roadmap-100mw",)
"""Studies whose points follow from a budget: only `ettrick design` has an answer."""

STUDIES = sorted({*sim.shipped("scenarios/studies")} - {*DESIGNS})


SHORT = ("set.horizon=1 d",)

DEAR = ("fleet-preemption", "fleet-rack-scale", "serving-width")
"""Studies of which even the corner takes seconds; others ask the same kinds of questions."""

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


def outcome(study: LoadedStudy, point: Point) -> PointResult:
    """Return two replications of a point."""
    prepared = sim.prepare(study.template.scenario(study.overrides(point)))
    rows = [ratios(prepared, sim.run(prepared, replication)) for replication in range(2)]
    return PointResult(point, {name: [row[name] for row in rows] for name in rows[0]})


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


@cases("name", DESIGNS)
def test_a_design_says_what_it_asks_and_what_it_assumes(name: str) -> None:
    """It asks a question, has a budget, and names assumptions of its own; sweep sends it to optimize."""
    study = loaded(name).study
    assert study.name == name
    assert study.question.endswith("?")
    assert study.description.endswith(".")
    assert study.assumptions
    assert study.is_listed
    assert present(present(study.optimize).budget).limits
    assert all(axis.title for axis in study.vary.values())


@cases("name", STUDIES)
def test_a_study_is_small_enough_to_be_tried(name: str) -> None:
    """It has no more tasks than two cores play in about two minutes."""
    study = loaded(name)
    tasks = sum(1 for _ in study.points()) * -(-present(study.study.replications) // 10)
    assert len(list(corners(study))) <= tasks <= MOST_TASKS


@pytest.mark.parametrize(
    "name",
    [*one_in(3, sorted({*STUDIES} - {*DEAR})), *(pytest.param(name, marks=pytest.mark.nightly) for name in DEAR)],
)
def test_the_first_points_run_and_every_question_has_an_answer(name: str) -> None:
    """A corner of the study plays two short replications, and each question is answered in words from that alone."""
    study = loaded(name, SHORT)
    metrics = kept_metrics(study)
    cells = tuple(Cell(outcome(study, point)) for point in corners(study))
    table = StudyTable(study.study.vary, cells, metrics)
    assert all(metric in cell.stated.metrics for cell in cells for metric in metrics)
    for question in study.study.questions:
        answer = question.answer(table)
        assert answer.use == question.use
        assert answer.data
        assert not re.search(r"\b(nan|inf)\b", json.dumps(answer.data))


def made_up(study: LoadedStudy, apart: float) -> StudyTable:
    """Return a table of a study in which each value of each axis is so far apart from the one before it [-].

    Replications have noise of a tenth of a percent in common, and each cell one of its own.
    """
    rng, metrics = np.random.default_rng(3), kept_metrics(study)
    cells: dict[int, list[PointResult]] = {}
    seen: list[dict[str, int]] = [{} for _ in study.study.vary]
    noise = rng.normal(0.0, 1e-3, 8)
    for point in study.points():
        ranks = [found.setdefault(value.label, len(found)) if point.draw == 0 else 0
                 for found, value in zip(seen, point.values, strict=True)]  # fmt: skip
        mean = 0.97 - apart * sum(rank * (place + 1) for place, rank in enumerate(ranks))
        own = mean + noise + rng.normal(0.0, 1e-4, 8)
        rows = {name: [Ratio(float(value), 1.0) for value in own] for name in metrics}
        rate = JobRate(1e-5 * (1 + sum(ranks)), 16384, 2048)
        cells.setdefault(point.cell, []).append(PointResult(point, rows, job_rate=rate))
    found = tuple(Cell(first, tuple(drawn)) for first, *drawn in cells.values())
    return StudyTable(study.study.vary, found, metrics)


@cases("name", STUDIES)
def test_a_headline_states_three_results_at_most(name: str) -> None:
    """Each answer and each title of a study do, whether its settings are far apart, close to each other, or equal."""
    study = loaded(name)
    for apart in (0.03, 5e-3, 3e-4, 0.0):
        document = sweep_document(study, made_up(study, apart), command="")
        for _, text in answers_of(SourceDocument(RUN, document)):
            for words in (text.answer, text.title):
                assert amounts_in(words) <= MOST_AMOUNTS, plain(words)


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
        if above >= share > below:
            return float(low + (present(high) - low) * (above - share) / (above - below))
    raise AssertionError(found)


@pytest.mark.nightly
@pytest.mark.parametrize("name", STUDIES)
def test_every_point_can_run(name: str) -> None:
    """No point of a shipped study is refused, draws of what is unknown included."""
    study = loaded(name)
    for point in study.points():
        assert sim.prepare(study.template.scenario(study.overrides(point))).jobs


def point_of(values: Any, metric: str = "ettr", draw: int = 0, **rest: Any) -> PointResult:
    """Return the outcome of a point with one value per replication."""
    return PointResult(Point(draw, 0, draw, ()), {metric: [Ratio(float(value), 1.0) for value in values]}, **rest)


def cell(values: Any, drawn: Sequence[Any] = (), metric: str = "ettr", **rest: Any) -> Cell:
    """Return a cell: values at the center, and those of each draw."""
    draws = [point_of(row, metric, number) for number, row in enumerate(drawn, 1)]
    return Cell(point_of(values, metric, **rest), tuple(draws))


def test_the_three_columns() -> None:
    """Mean with Student's interval, quantiles of one run by order statistics, and a band only where there are draws."""
    values = np.random.default_rng(51).normal(0.9, 0.01, 100)
    found = present(summary_of(cell(values), "ettr"))
    assert found.mean == pytest.approx(values.mean())
    assert (found.mean_ci95, found.method) == (pytest.approx(mean_interval(values)), "t")
    assert (found.std, found.p05, found.p50) == (
        pytest.approx(values.std(ddof=1)),
        quantile(values, 0.05),
        quantile(values, 0.5),
    )
    assert found.band90 is None
    assert found.replications == 100
    assert summary_of(cell(values), "cost") is None


def test_noise_does_not_shrink_and_the_interval_does() -> None:
    """Nine times the replications: a third of the interval, the same scatter of one run."""
    values = np.random.default_rng(52).normal(0.9, 0.01, 900)
    few, many = summary_of(cell(values[:100]), "ettr"), summary_of(cell(values), "ettr")
    widths = [np.subtract(*found.mean_ci95[::-1]) for found in (few, many) if found.mean_ci95]
    # A standard deviation of 100 values is known to 1 / sqrt(200) = 7 %.
    assert widths[0] / widths[1] == pytest.approx(3, rel=0.25)
    assert few.std == pytest.approx(many.std, rel=0.25)


def test_few_runs_have_no_tail() -> None:
    """Sixteen runs have a median, and no p05 or p95."""
    found = present(summary_of(cell(np.linspace(0.8, 0.9, 16)), "ettr"))
    assert found.p50 == pytest.approx(0.85)
    assert (found.p05, found.p95) == (None, None)


def test_censored_runs_are_counted_and_never_dropped() -> None:
    """With 10 of 100 unfinished the time to finish has a median and p05, no mean, no interval, no p95."""
    times = np.concatenate([np.linspace(10, 20, 90), [math.inf] * 10])
    found = present(summary_of(cell(times, metric="time_to_work", censored=10, never_started=2), "time_to_work"))
    assert (found.mean, found.mean_ci95, found.method, found.std, found.band90) == (None, None, "", None, None)
    assert found.p50 == quantile(times, 0.5)
    assert found.p05 is not None
    assert found.p95 is None
    assert (found.replications, found.censored, found.never_started) == (100, 10, 2)


def test_a_probability_has_an_exact_interval() -> None:
    """40 of 40 in time is 0.91 to 1."""
    found = present(summary_of(cell([1.0] * 40, metric="p_finish_by"), "p_finish_by"))
    assert (found.mean, found.method) == (1.0, "exact")
    assert found.mean_ci95 == pytest.approx((0.025 ** (1 / 40), 1.0))


def draws_of(center: NDArray[np.float64], moved: Any) -> list[NDArray[np.float64]]:
    """Return what the first ten replications are when each draw moves the metric by so much."""
    return [center[:10] + shift for shift in moved]


def test_the_band_is_what_the_draws_move() -> None:
    """The noise that all draws share cancels: the band is the 5 % and 95 % quantile of the shifts, about the mean."""
    values = np.random.default_rng(53).normal(0.5, 0.1, 40)
    shifts = np.linspace(-0.01, 0.02, 101)
    found = present(summary_of(cell(values, draws_of(values, shifts)), "ettr"))
    low, high = np.quantile(shifts, [0.05, 0.95])
    assert found.band90 == pytest.approx((found.mean + low, found.mean + high))


def test_the_band_needs_draws_that_all_have_a_mean() -> None:
    """None with 19 draws, with one that could not run, and with one that is censored; no share above one."""
    values = np.full(20, 0.99)
    drawn = draws_of(values, np.linspace(0, 0.1, FEWEST_DRAWS))
    full = cell(values, drawn)
    infeasible = PointResult(Point(1, 0, 1, ()), trouble="does not fit")
    censored = point_of([*drawn[0][:9], math.inf])
    whole = present(summary_of(full, "ettr"))
    assert whole.band90 == (pytest.approx(0.99 + 0.005), 1.0)
    for drawn_outcomes in (full.drawn[1:], (infeasible, *full.drawn[1:]), (censored, *full.drawn[1:])):
        found = present(summary_of(Cell(full.stated, drawn_outcomes), "ettr"))
        assert found.band90 is None
        assert (found.mean, found.mean_ci95) == (0.99, None)


def test_predictive_mean_without_draws_is_the_mean() -> None:
    """Where nothing is unknown it is what the summary says; where there is no mean there is none."""
    ordinary = cell(np.random.default_rng(54).normal(0.9, 0.01, 30))
    found = present(summary_of(ordinary, "ettr"))
    assert predictive_mean(ordinary, "ettr")[:2] == (found.mean, found.mean_ci95)
    assert predictive_mean(ordinary, "cost") is None
    assert predictive_mean(cell([math.inf, 1.0], metric="time_to_work"), "time_to_work") is None


def test_predictive_mean_by_hand() -> None:
    """Two draws, 1 3 and 5 7: mean 4, variance 8 / 2 of draws and 2 / 2 of noise, 25 / 17 degrees of freedom."""
    found = present(predictive_mean(cell([9.0, 9.0], [[1.0, 3.0], [5.0, 7.0]], "tokens_per_day"), "tokens_per_day"))
    assert found.mean == 4.0, "the central values are not one of the draws"
    half = stats.t.isf(0.025, 25 / 17) * math.sqrt(8 / 2 + 2 / 2)
    assert found.interval == (0.0, pytest.approx(4 + half))


def test_predictive_mean_needs_all_draws() -> None:
    """A draw that cannot run or is censored leaves nothing to say; a single draw a mean without an interval."""
    good = cell([1.0, 2.0], [[1.0, 2.0], [2.0, 3.0]])
    infeasible = PointResult(Point(1, 0, 1, ()), trouble="does not fit")
    assert predictive_mean(Cell(good.stated, (good.drawn[0], infeasible)), "ettr") is None
    assert predictive_mean(Cell(good.stated, (good.drawn[0], point_of([1.0, math.inf]))), "ettr") is None
    assert predictive_mean(Cell(good.stated, good.drawn[:1]), "ettr") == (1.5, None, "")


@pytest.mark.parametrize("part", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_predictive_interval_covers_runs_and_parameters(part: tuple[float, float]) -> None:
    """Unknown inputs alone, noise alone (the same in all draws), or both: 95 % of intervals hold the mean."""
    rng = np.random.default_rng(55)
    repetitions, hits, of_draws_alone = 250, 0, 0
    for _ in range(repetitions):
        unknown, noise = part[0] * rng.normal(size=(20, 1)), part[1] * rng.normal(size=10)
        values = 50 + unknown + noise + 0.2 * rng.normal(size=(20, 10))
        found = present(predictive_mean(cell(values[0], list(values), "mtti"), "mtti"))
        hits += found.interval[0] <= 50 <= found.interval[1]
        low, high = mean_interval(values.mean(axis=1)) or (math.nan, math.nan)
        of_draws_alone += low <= 50 <= high
    # Satterthwaite's degrees of freedom are an approximation: a point less than nominal is allowed.
    assert hits >= stats.binom.ppf(0.0005, repetitions, 0.94)
    if part[1]:
        assert of_draws_alone < stats.binom.ppf(0.0005, repetitions, 0.95), "as if every draw had noise of its own"


def test_predictive_probability_covers() -> None:
    """0.9 over twenty draws with thirty runs each, the runs in common: held as often, and never beyond 0 and 1."""
    rng = np.random.default_rng(56)
    repetitions, hits = 200, 0
    for _ in range(repetitions):
        both = math.sqrt(0.4) * rng.normal(size=(20, 1)) + math.sqrt(0.4) * rng.normal(size=30)
        runs = both + math.sqrt(0.2) * rng.normal(size=(20, 30)) < ndtri(0.9)
        found = present(predictive_mean(cell(runs[0], list(runs), "p_finish_by"), "p_finish_by"))
        assert 0 <= found.interval[0] <= found.mean <= found.interval[1] <= 1
        hits += found.interval[0] <= 0.9 <= found.interval[1]
    assert hits >= stats.binom.ppf(0.0005, repetitions, 0.94)


def lower_ends(order: Any, draws: int, runs: int) -> NDArray[np.float64]:
    """Return the lower end for each number of failures, in an order in which runs of a table fail."""
    hits, found = np.ones(draws * runs), []
    for failures in range(draws * runs + 1):
        if failures:
            hits[order[failures - 1]] = 0
        predicted = present(predictive_mean(cell([1.0], list(hits.reshape(draws, runs)), "p_finish_by"), "p_finish_by"))
        assert predicted.interval[0] <= predicted.mean <= predicted.interval[1]
        found.append(predicted.interval[0])
    return np.array(found)


def test_more_failures_never_make_a_probability_surer() -> None:
    """Of 20 draws with 9 runs each, spread evenly or at random: no number of failures is surer than fewer.

    At random chance may spread them more evenly by one more: that is less than half a point, and never surer than none.
    """
    even = lower_ends([draw * 9 + (draw + turn) % 9 for turn in range(9) for draw in range(20)], 20, 9)
    assert np.all(np.diff(even) <= 1e-12)
    random = lower_ends(np.random.default_rng(57).permutation(180), 20, 9)
    assert np.all(np.diff(random) < 0.005)
    assert even[0] == random[0] == pytest.approx(0.025 ** (1 / 9))
    assert np.all(random <= random[0])


@cases(("draws", "runs", "shown"), [(72, 72, True), (71, 72, False), (72, 71, False)])
def test_enough_draws_and_replications_show_a_probability(draws: int, runs: int, shown: bool) -> None:
    """Without a failure 95 % takes 72 of both, 0.025 ** (1 / 72); then one failure leaves it shown."""
    for failures in (0, 1):
        hits = np.ones((draws, runs))
        hits.ravel()[:failures] = 0
        found = present(predictive_mean(cell([1.0], list(hits), "p_finish_by"), "p_finish_by"))
        assert (present(found.interval)[0] >= 0.95) is shown


def test_a_difference_of_cells_has_the_doubt_of_the_draws() -> None:
    """Cells that differ in every draw, and not on average: resolved in 5 % of 300; over runs alone in half of them."""
    rng, resolved, of_runs_alone = np.random.default_rng(58), 0, 0
    for _ in range(300):
        moved, noise = 0.02 * rng.normal(size=(20, 1)), 0.01 * rng.normal(size=(20, 16))
        ours, theirs = (cell([0.9], list(0.9 + part), "ettr") for part in (moved + noise, np.zeros((20, 16))))
        found = present(predictive_difference(ours, theirs, "ettr"))
        assert found.mean == pytest.approx(float((moved + noise).mean()))
        resolved += found.resolved
        low, high = mean_interval((moved + noise).mean(axis=0)) or (math.nan, math.nan)
        of_runs_alone += not low <= 0 <= high
    assert resolved <= stats.binom.ppf(0.9995, 300, 0.06)
    assert of_runs_alone > 150


def test_a_difference_needs_the_same_draws() -> None:
    """None with another number of draws, a single one, or one without a mean; and the sign is ours less theirs."""
    high, low = cell([1.0] * 2, [[3.0, 3.5], [4.0, 4.1]], "cost"), cell([1.0] * 2, [[1.0, 1.5], [2.0, 2.1]], "cost")
    found = present(predictive_difference(high, low, "cost"))
    assert (found.mean, found.ci95, found.resolved) == (pytest.approx(2), pytest.approx((2, 2)), True)
    censored = Cell(low.stated, (low.drawn[0], point_of([1.0, math.inf], "cost")))
    for other in (Cell(low.stated, low.drawn[:1]), Cell(low.stated), censored):
        assert predictive_difference(high, other, "cost") is None
