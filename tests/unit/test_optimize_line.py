"""The top of a curve over one axis, and the end up to which conditions hold, where both are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

from analysis.optimize.evaluate import standing_of
from analysis.optimize.problem import Line
from analysis.optimize.search import _top, climb, place, walk_to_edge
from sim import units
from tests.cases import cases
from tests.fake_campaign import INTERVAL, bench_of, study_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from analysis.optimize.evaluate import Bench
    from analysis.study.load import LoadedStudy

BEST = 1500.0
"""Where the fabricated curve is highest [s]."""

LEVEL, TILT, BEND = 0.02, 0.004, 0.03
"""Noise that all points share, noise of the slope, and how sharp the top is, all in ETTR."""


def curve(settings: dict[str, Any], rng: Any) -> dict[str, float]:
    """A parabola in the logarithm of the interval; luck lifts it as a whole and tilts it."""
    x = math.log(units.parse(settings[INTERVAL], units.DURATION) / BEST)
    level, tilt = rng.standard_normal(2)
    return {"ettr": 0.9 - BEND * x**2 + LEVEL * level + TILT * tilt * x}


def exact(settings: dict[str, Any], rng: Any) -> dict[str, float]:
    """The same without luck."""
    x = math.log(units.parse(settings[INTERVAL], units.DURATION) / BEST)
    return {"ettr": 0.9 - BEND * x**2}


def line_study(folder: Path, *overrides: str, **span: Any) -> LoadedStudy:
    """Return a study of the interval from 1 minute to 10 hours."""
    span = {"min": "1 min", "max": "10 h", "scale": "log", "points": 7} | span
    return study_of(folder, *overrides, vary={INTERVAL: {"range": span}}, optimize={"maximize": "ettr"})


def line_of(bench: Bench) -> Line:
    """Return the only axis of a problem."""
    (line,) = bench.problem.domains.values()
    assert isinstance(line, Line)
    return line


def test_without_luck_the_top_is_found_to_one_percent(tmp_path: Path) -> None:
    """The gaps beside the best are halved until values closer than 1 % are left."""
    bench = bench_of(line_study(tmp_path), exact)
    climb(bench, line_of(bench), bench.problem.aims[0])
    best = standing_of(bench).order[0]
    assert place(best) == pytest.approx(BEST, rel=0.01)
    assert len(bench.trials) <= 7 + 2 * 9


def test_a_top_at_an_end_of_the_range_is_that_end(tmp_path: Path) -> None:
    """Where the curve only rises the best is the last value, to the digit."""
    bench = bench_of(line_study(tmp_path, max="20 min"), exact)
    assert climb(bench, line_of(bench), bench.problem.aims[0]) is None
    assert place(standing_of(bench).order[0]) == 1200


def test_the_top_of_whole_numbers_is_exact(tmp_path: Path) -> None:
    """Among 0 to 1,000 spares a lone maximum at 637 is found in less than 40 points."""
    study = study_of(
        tmp_path, vary={"spares.hot": {"range": {"min": 0, "max": 1000, "step": 1}}}, optimize={"maximize": "ettr"}
    )
    bench = bench_of(study, lambda settings, _: {"ettr": -((settings["spares.hot"] - 637) ** 2) / 1e6})
    climb(bench, line_of(bench), bench.problem.aims[0])
    assert place(standing_of(bench).order[0]) == 637
    assert len(bench.trials) < 40


def tops(folder: Path, seeds: range, runs: int = 16) -> list[tuple[bool, bool, float]]:
    """Return for each seed: whether the top's interval holds the truth, whether the best is kept, excess of loss."""
    found = []
    for seed in seeds:
        bench = bench_of(line_study(folder, f"seed={seed}"), curve, runs)
        top = climb(bench, line_of(bench), bench.problem.aims[0])
        assert top is not None
        standing = standing_of(bench)
        truly_best = min(bench.trials, key=lambda trial: abs(math.log(place(trial) / BEST)))
        assert standing.loss is not None
        worst = max(BEND * math.log(place(trial) / BEST) ** 2 for trial in standing.as_good)
        found.append((top.ci95[0] <= BEST <= top.ci95[1], truly_best in standing.as_good, worst - standing.loss))
    return found


@pytest.mark.parametrize("searches", [30, pytest.param(500, marks=pytest.mark.nightly)])
def test_the_interval_of_the_top_and_what_is_as_good_hold_the_truth(tmp_path: Path, searches: int) -> None:
    """In as many searches as 95 % allow (to one in a thousand); and what is as good loses no more than is said.

    The top of the sample's parabola is normal around the truth, so that Student's interval of the jackknife is exact.
    """
    found = tops(tmp_path, range(searches))
    least = int(binom.ppf(0.001, len(found), 0.95))
    assert sum(covers for covers, _, _ in found) >= least
    assert sum(kept for _, kept, _ in found) >= least
    assert sum(excess <= 0 for _, _, excess in found) >= least


def test_more_replications_narrow_what_is_as_good(tmp_path: Path) -> None:
    """With 16 times the replications the interval of the top is a quarter as wide, within a factor of 2."""
    widths = []
    for runs in (8, 128):
        bench = bench_of(line_study(tmp_path), curve, runs)
        top = climb(bench, line_of(bench), bench.problem.aims[0])
        assert top is not None
        widths.append(math.log(top.ci95[1] / top.ci95[0]))
    assert 2 < widths[0] / widths[1] < 8


def edge_bench(
    folder: Path, passes: Callable[[float, float], bool], *, maximize: bool = False, runs: int = 40
) -> Bench:
    """Return a search for the fewest (most) spares with P >= 0.75, where a replication with luck u in (0, 1) passes."""
    study = study_of(
        folder,
        vary={"spares.hot": {"range": {"min": 0, "max": 200, "step": 1}}},
        optimize={"maximize" if maximize else "minimize": "spares.hot", "subject_to": ["p_finish_by >= 75 %"]},
    )
    return bench_of(study, lambda settings, rng: {"p_finish_by": passes(settings["spares.hot"], rng.random())}, runs)


@cases("need", [0, 1, 57, 133, 200])
def test_the_fewest_that_are_enough_are_found_exactly(tmp_path: Path, need: int) -> None:
    """What is enough for all replications from a number on is found by bisection, and both neighbours are tried."""
    bench = edge_bench(tmp_path, lambda spares, _: spares >= need)
    edge = walk_to_edge(bench, line_of(bench), bench.problem.aims[0])
    assert edge.answer is not None
    assert place(edge.answer) == need
    assert not edge.islands
    tried = {place(trial) for trial in bench.trials}
    assert {max(need - 1, 0), min(need + 1, 200)} <= tried
    assert len(tried) < 7 + 8


def test_the_most_that_is_allowed_is_found_from_the_other_side(tmp_path: Path) -> None:
    """Maximising an axis mirrors the search."""
    bench = edge_bench(tmp_path, lambda spares, _: spares <= 57, maximize=True)
    edge = walk_to_edge(bench, line_of(bench), bench.problem.aims[0])
    assert edge.answer is not None
    assert place(edge.answer) == 57


def test_what_is_sure_and_what_is_not_lie_on_both_sides(tmp_path: Path) -> None:
    """Of a probability that rises from 0 to 1 the answer lies between what surely fails and what surely holds."""
    bench = edge_bench(tmp_path, lambda spares, luck: luck < spares / 200)
    edge = walk_to_edge(bench, line_of(bench), bench.problem.aims[0])
    assert edge.answer is not None
    assert edge.surely is not None
    assert edge.surely_not is not None
    assert place(edge.surely_not) < place(edge.answer) < place(edge.surely)
    # The share of 40 lucks below x is within 5 standard errors of x.
    assert abs(place(edge.answer) / 200 - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 40)


def test_what_is_enough_only_for_a_while_is_told(tmp_path: Path) -> None:
    """A stretch that passes before one that fails is an island; the answer is where it stays enough."""
    bench = edge_bench(tmp_path, lambda spares, _: 30 <= spares <= 70 or spares >= 150)
    edge = walk_to_edge(bench, line_of(bench), bench.problem.aims[0])
    assert edge.answer is not None
    assert place(edge.answer) == 150
    assert edge.islands
    assert all(30 <= place(trial) <= 70 for trial in edge.islands)


def test_what_is_never_enough_has_no_answer(tmp_path: Path) -> None:
    """Nothing is said to be enough, and everything is surely not."""
    bench = edge_bench(tmp_path, lambda _spares, luck: luck < 0.2)
    edge = walk_to_edge(bench, line_of(bench), bench.problem.aims[0])
    assert edge.answer is edge.surely is None
    assert edge.surely_not is not None
    assert place(edge.surely_not) == 200


def test_a_condition_bounds_the_climb(tmp_path: Path) -> None:
    """With the top forbidden the best is the value beside the border, to one percent."""
    study = study_of(
        tmp_path,
        vary={INTERVAL: {"range": {"min": "1 min", "max": "10 h", "scale": "log", "points": 7}}},
        optimize={"maximize": "ettr", "subject_to": ["time_to_work <= 1 d"]},
    )

    def costly(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        seconds = units.parse(settings[INTERVAL], units.DURATION)
        return exact(settings, rng) | {"time_to_work": 86400 * seconds / 1000}

    bench = bench_of(study, costly)
    climb(bench, line_of(bench), bench.problem.aims[0])
    assert place(standing_of(bench).order[0]) == pytest.approx(1000, rel=0.01)
    assert place(standing_of(bench).order[0]) <= 1000


def test_the_interval_of_the_top_ends_where_the_line_does(tmp_path: Path) -> None:
    """With luck that tilts the curve so much that the top may lie anywhere, no end lies beyond the range."""

    def tilted(settings: dict[str, Any], rng: Any) -> dict[str, float]:
        x = math.log(units.parse(settings[INTERVAL], units.DURATION) / BEST)
        return {"ettr": 0.9 - BEND * x**2 + 0.15 * rng.standard_normal() * x}

    cut = 0
    for seed in range(4):
        bench = bench_of(line_study(tmp_path, f"seed={seed}", min="10 min", max="1 h"), tilted, 8)
        line = line_of(bench)
        top = climb(bench, line, bench.problem.aims[0])
        if top is not None:
            first, last = line.ends
            assert first <= top.ci95[0] <= top.number <= top.ci95[1] <= last
            cut += top.ci95[0] == first or top.ci95[1] == last
    assert cut


def test_the_top_over_draws_has_the_doubt_of_the_draws() -> None:
    """Draws that move the top by s leave s / sqrt(D) of doubt, however many replications there are."""
    x, rng = np.linspace(-1, 1, 5), np.random.default_rng(81)
    moved = 0.1 * rng.standard_normal(20)
    table = np.repeat(-((x[:, None] - moved) ** 2)[:, :, None], 50, axis=2)
    found = _top(x, table)
    assert found is not None
    assert found[0] == pytest.approx(moved.mean(), abs=1e-9)
    assert found[1] == pytest.approx(moved.std(ddof=1) / math.sqrt(20), rel=1e-6)
