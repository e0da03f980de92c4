"""What is asked of an optimisation, and how sure its conditions are, over luck alone and over what is not known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

import sim
from analysis.optimize.estimate import Estimate, estimate, replications_to_hold
from analysis.optimize.play import optimize
from analysis.optimize.problem import Line, Options, problem_of
from analysis.statistics.estimates import mean_interval
from analysis.study.amounts import Point
from analysis.study.model import condition_of
from analysis.study.table import Cell, Outcome
from sim import Ratio, units
from tests.cases import cases
from tests.fake_campaign import INTERVAL, FakeCampaign, study_of

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.optimize.play import Found
    from analysis.study.load import LoadedStudy

SPARES: dict[str, Any] = {"spares.hot": {"range": {"min": 0, "max": 2, "step": 1}}}
UNKNOWN = {"repair.time": {"distribution": {"law": "uniform", "min": "1 h", "max": "9 h"}}}
MODE = "checkpoint.tiers.0.mode"
WORDS = {MODE: {"choices": ["blocking", "async"]}}


def found_by(loaded: LoadedStudy, function: Any, runs: int = 8) -> Found:
    """Return what an optimisation of a fabricated campaign finds."""
    return optimize(FakeCampaign(loaded, None, None, function=function), replications=runs)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------- what is asked


@cases(
    ("text", "metric", "bound"),
    [
        ("p_finish_by >= 0.95", "p_finish_by", 0.95),
        ("ettr>=95 %", "ettr", 0.95),
        (" cost <= 30e6 ", "cost", 30e6),
        ("time_to_work <= 30 d", "time_to_work", 30 * 86400.0),
        ("energy <= 2 MWh", "energy", 7.2e9),
        ("time_shares.starved <= 1 %", "time_shares.starved", 0.01),
    ],
)
def test_bounds_are_read_in_the_units_of_their_metric(text: str, metric: str, bound: float) -> None:
    """Shares take percent, times and energies their units, money plain numbers."""
    condition = condition_of(text)
    assert (condition.metric, condition.at_least) == (metric, ">=" in text)
    assert condition.bound == pytest.approx(bound)


@cases(
    ("ends", "at_least", "at_most"),
    [((0.5, 0.6), "fails", "holds"), ((0.6, 0.8), "open", "open"), ((0.7, 0.8), "holds", "open")],
)
def test_a_condition_is_sure_where_the_interval_leaves_the_bound_out(
    ends: tuple[float, float], at_least: str, at_most: str
) -> None:
    """Both senses of the same bound of 0.7."""
    found = Estimate(sum(ends) / 2, ends)
    assert condition_of("ettr >= 0.7").verdict(*found) == at_least
    assert condition_of("ettr <= 0.7").verdict(*found) == at_most


@cases(
    ("vary", "asked", "at", "rule"),
    [
        (SPARES, {"maximize": "ettr", "subject_to": ["ettr"]}, "subject_to.0", "is no condition"),
        (SPARES, {"maximize": "ettr", "subject_to": ["ettr >= 95 x"]}, "subject_to.0", "unknown unit 'x'"),
        (SPARES, {"maximize": "ettr", "subject_to": ["cost <= 1 EUR"]}, "subject_to.0", "is no number"),
        (SPARES, {"maximize": "ettr", "subject_to": ["spares.hot <= 1"]}, "subject_to.0", "is an axis"),
        (SPARES, {"minimize": "spares.hot"}, "minimize", "nothing keeps it from its end"),
        (SPARES, {"maximize": "ettr", "over": "luck+parameters"}, "over", "needs an axis with a distribution"),
        (UNKNOWN, {"maximize": "ettr"}, "optimize", "there is nothing to choose"),
        (SPARES | UNKNOWN, {"minimize": "repair.time", "subject_to": ["ettr >= 0"]}, "minimize", "is not chosen"),
        (SPARES, {"maximize": "ettr", "pareto": ["spares.hot"]}, "pareto.0", "is an axis"),
        (SPARES, {"maximize": "ettr", "pareto": ["ettr"]}, "pareto.0", "is there already"),
        (WORDS, {"minimize": MODE, "subject_to": ["ettr >= 0"]}, "minimize", "no numbers"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_with_their_place(
    tmp_path: Path, vary: dict[str, Any], asked: dict[str, Any], at: str, rule: str
) -> None:
    """File, line and column, path, rule."""
    with pytest.raises(sim.ScenarioError) as error:
        problem_of(study_of(tmp_path, vary=vary, optimize=asked))
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{tmp_path / 'study.yaml'}:")
    assert f"{at}: " in line
    assert rule in line


def test_a_study_that_asks_for_nothing_says_what_to_write(tmp_path: Path) -> None:
    """The missing section is shown with an example."""
    with pytest.raises(sim.ScenarioError, match=r"optimize: is missing: .*maximize: ettr"):
        problem_of(study_of(tmp_path, vary=SPARES))


def test_a_metric_that_the_scenario_lacks_is_named_with_its_neighbour(tmp_path: Path) -> None:
    """It is told after one point was played; that it is no metric at all was told before."""
    asked = {"maximize": "goodput", "subject_to": ["ettr >= 0", "cost <= 3"]}
    loaded = study_of(tmp_path, vary=SPARES, optimize=asked)
    campaign = FakeCampaign(loaded, None, None, function=lambda _s, _r: {"ettr": 1.0})  # type: ignore[arg-type]
    with pytest.raises(sim.ScenarioError) as error:
        optimize(campaign)
    assert campaign.played == [1]
    first, second = str(error.value).splitlines()
    assert "optimize.maximize: the scenario has no metric 'goodput'" in first
    assert "optimize.subject_to.1: the scenario has no metric 'cost'" in second


def test_domains_are_what_a_study_says(tmp_path: Path) -> None:
    """A step is kept to, a range without one is everything between, and words have no order."""
    vary = {
        INTERVAL: {"range": {"min": "10 min", "max": "2 h", "points": 5}},
        "spares.hot": {"range": {"min": 0, "max": 12, "step": 4}},
        "detection.time": {"choices": ["4 min", "1 min"]},
        MODE: {"choices": ["blocking", "async"]},
    }
    interval, spares, detection, mode = problem_of(
        study_of(tmp_path, vary=vary, optimize={"maximize": "ettr"})
    ).domains.values()
    assert interval.size is None
    assert [value.number for value in spares.values] == [0, 4, 8, 12]
    assert isinstance(detection, Line)
    assert [value.label for value in detection.values] == ["1 min", "4 min"]
    assert isinstance(mode, Options)


# ----------------------------------------------------------------------------------------- how sure things are


def crossed(hits: np.ndarray) -> Cell:
    """Return a cell whose draws (rows) and replications (columns) finished in time, or did not."""
    outcomes = [
        Outcome(Point(draw, 0, draw, ()), {"p_finish_by": [Ratio(float(hit), 1.0) for hit in row]})
        for draw, row in enumerate(hits)
    ]
    return Cell(outcomes[0], tuple(outcomes))


def test_an_interval_over_draws_knows_that_draws_share_their_luck() -> None:
    """Of 300 tables of 20 draws and 24 replications 95 % hold the truth (to one in a thousand); runs alone do not.

    Replication i of all draws has the luck u_i, draw j succeeds where u_i < d_j: the probability is the mean of d, 0.5.
    """
    rng = np.random.default_rng(1)
    covered = naive = 0
    tables = 300
    for _ in range(tables):
        hits = rng.random(24)[None, :] < rng.random(20)[:, None]
        found = estimate(crossed(hits), "p_finish_by", over_draws=True)
        assert found.ci95 is not None
        covered += found.ci95[0] <= 0.5 <= found.ci95[1]
        alone = mean_interval(hits.astype(float).ravel())
        assert alone is not None
        naive += alone[0] <= 0.5 <= alone[1]
    least = int(binom.ppf(0.001, tables, 0.95))
    assert covered >= least
    assert naive < least


def test_runs_that_all_succeed_prove_no_certainty() -> None:
    """20 draws of 24 replications without a failure leave as much doubt as 20 runs: 0.025 ** (1 / 20)."""
    found = estimate(crossed(np.ones((20, 24), dtype=bool)), "p_finish_by", over_draws=True)
    assert found.mean == 1
    assert found.ci95 == pytest.approx((0.025 ** (1 / 20), 1))


def test_replications_that_would_show_a_share_are_enough_and_one_less_is_not() -> None:
    """If all of n runs succeed the exact interval begins at 0.025 ** (1 / n): 72 for 95 %, 71 fall short."""
    assert replications_to_hold(1.0, 0.95) == math.ceil(math.log(0.025) / math.log(0.95)) == 72
    assert replications_to_hold(0.95, 0.95) is None


def test_over_draws_a_condition_needs_what_is_enough_on_average(tmp_path: Path) -> None:
    """At the central repair time no spares are needed; over draws of it, half of which need two, two are."""

    def finishes(settings: dict[str, Any], _rng: Any) -> dict[str, float]:
        slow = units.parse(settings["repair.time"], units.DURATION) > 5 * 3600 + 1
        return {"p_finish_by": float(not slow or settings["spares.hot"] >= 2)}

    answers = []
    for over in ("luck", "luck+parameters"):
        asked = {"minimize": "spares.hot", "subject_to": ["p_finish_by >= 90 %"], "over": over}
        found = found_by(study_of(tmp_path, vary=SPARES | UNKNOWN, optimize=asked), finishes)
        answers.append(found.standing.order[0].chosen[0].label)
    assert answers == ["0", "2"]
