"""Intervals cover what they claim to cover, and say None where the data cannot support a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.estimates import (
    Summary,
    mean_interval,
    quantile,
    quantile_interval,
    ratio_interval,
    summarise,
    summarise_ratio,
    two_way,
)
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

REPETITIONS = 1000


def assert_coverage(covered: int, low: float, high: float) -> None:
    """Fail unless `covered` of REPETITIONS is compatible (99.9 %) with a coverage between `low` and `high`."""
    assert stats.binom.ppf(0.0005, REPETITIONS, low) <= covered <= stats.binom.isf(0.0005, REPETITIONS, high)


def test_mean_interval_by_hand() -> None:
    """For 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776, so 3 -/+ 1.963."""
    assert mean_interval([1, 2, 3, 4, 5]) == pytest.approx((3.0 - 1.9632, 3.0 + 1.9632), abs=1e-4)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_mean_interval_covers(confidence: float) -> None:
    """Student's interval of five normal values covers the mean exactly as often as it says."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(REPETITIONS):
        low, high = mean_interval(rng.normal(3.0, 2.0, 5), confidence) or (math.nan, math.nan)
        covered += low <= 3.0 <= high
    assert_coverage(covered, confidence, confidence)


def test_ratio_interval_covers() -> None:
    """The delta method covers the ratio of means (not the mean of ratios) at about 95 % with varying denominators."""
    rng = np.random.default_rng(12)
    covered, covered_mean_of_ratios = 0, 0
    mean_of_ratios = 2.0 + 1.0 * 1.25  # E[1 / b] = rate / (shape - 1) = 5 / 4 for b gamma of shape 5, mean 1
    for _ in range(REPETITIONS):
        denominators = rng.gamma(5.0, 1.0 / 5.0, 100)
        numerators = 2.0 * denominators + rng.exponential(1.0, 100)  # ratio of means 3
        ratio, low, high = ratio_interval(numerators, denominators) or (math.nan,) * 3
        assert low < ratio < high
        covered += low <= 3.0 <= high
        covered_mean_of_ratios += low <= mean_of_ratios <= high
    assert_coverage(covered, 0.94, 0.95)  # an approximation: a point less than nominal is allowed
    assert covered_mean_of_ratios < 0.5 * REPETITIONS


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.5, 30), (0.05, 100), (0.95, 100), (0.25, 40)])
def test_quantile_interval_covers(q: float, n: int) -> None:
    """Between the l-th and u-th value lies the quantile of any law with the binomial's probability, >= 95 %."""
    position = quantile_interval(np.arange(1, n + 1), q)
    assert position is not None
    lower, upper = position
    exact = float(stats.binom.cdf(upper - 1, n, q) - stats.binom.cdf(lower - 1, n, q))
    assert exact >= 0.95
    rng = np.random.default_rng(13)
    truth = -math.log1p(-q)
    covered = 0
    for _ in range(REPETITIONS):
        low, high = quantile_interval(rng.exponential(1.0, n), q) or (math.nan, math.nan)
        covered += low <= truth <= high
    assert_coverage(covered, exact, exact)


@cases(("q", "least"), [(0.5, 6), (0.05, 72), (0.95, 72)])
def test_quantiles_need_enough_replications(q: float, least: int) -> None:
    """A two-sided 95 % interval first exists where ``q^n`` and ``(1 - q)^n`` are both at most 0.025."""
    assert max(q, 1 - q) ** least <= 0.025 < max(q, 1 - q) ** (least - 1)
    assert quantile_interval(np.arange(least - 1), q) is None
    assert quantile(np.arange(least - 1), q) is None
    assert quantile_interval(np.arange(least), q) is not None
    assert quantile(np.arange(least), q) is not None


def test_quantile_is_the_usual_one() -> None:
    """The point estimate is numpy's default, and lies inside its interval."""
    values = np.random.default_rng(14).exponential(1.0, 137)
    for q in (0.05, 0.31, 0.5, 0.95):
        low, high = quantile_interval(values, q) or (math.nan, math.nan)
        point = quantile(values, q)
        assert point == pytest.approx(float(np.quantile(values, q)), rel=1e-14)
        assert low <= (point or math.nan) <= high


def test_summary_of_a_sample() -> None:
    """A summary holds mean, sample standard deviation and quantiles with the intervals of the functions above."""
    values = np.arange(101.0)
    summary = summarise(values)
    assert (summary.n, summary.mean, summary.p05, summary.p50, summary.p95) == (101, 50.0, 5.0, 50.0, 95.0)
    assert summary.std == pytest.approx(math.sqrt(101 * 102 / 12), rel=1e-12)
    assert summary.mean_ci95 == mean_interval(values)
    assert summary.p05_ci95 == quantile_interval(values, 0.05)
    assert summary.p50_ci95 == quantile_interval(values, 0.5)
    assert summary.p95_ci95 == quantile_interval(values, 0.95)


def test_no_data_is_all_none() -> None:
    """Without data nothing is defined; one value has a mean and nothing else; thirty have a p50 and no p05."""
    assert summarise([]) == Summary(n=0)
    assert summarise_ratio([], []) == Summary(n=0)
    assert mean_interval([]) is None
    assert ratio_interval([], []) is None
    assert summarise([2.5]) == Summary(n=1, mean=2.5)
    assert summarise_ratio([5.0], [2.0]) == Summary(n=1, mean=2.5)
    thirty = summarise(np.arange(30.0))
    assert thirty.p50 == 14.5
    assert (thirty.p05, thirty.p95, thirty.p05_ci95, thirty.p95_ci95) == (None, None, None, None)


@cases("value", [0.0, 1.0, 0.1])
def test_constant_data_gives_a_degenerate_interval(value: float) -> None:
    """A metric that never varies has zero width everywhere, without NaN, rounding or a warning."""
    point = (value, value)
    expected = Summary(100, value, point, 0.0, value, value, value, point, point, point)
    assert summarise([value] * 100) == expected
    assert summarise_ratio([value] * 100, [1.0] * 100) == expected


def test_ratio_with_equal_denominators_is_the_mean() -> None:
    """With the same denominator everywhere the ratio estimate is that of the mean of ratios."""
    values = np.random.default_rng(15).normal(size=80)
    summary, ratio = summarise(values / 4.0), summarise_ratio(values, np.full(80, 4.0))
    assert ratio.mean == pytest.approx(summary.mean, rel=1e-12)
    assert ratio.mean_ci95 == pytest.approx(summary.mean_ci95, rel=1e-12)
    assert ratio.p95 == pytest.approx(summary.p95, rel=1e-12)


def test_ratio_is_of_sums() -> None:
    """Cost per token over two runs, 10 for 1 and 10 for 9, is 2, not the mean 5.6 of the runs' own ratios."""
    assert summarise_ratio([10.0, 10.0], [1.0, 9.0]).mean == 2.0


def test_empty_denominators() -> None:
    """A run without interruptions has an infinite MTTI of its own: it ranks last and the pooled ratio is finite."""
    summary = summarise_ratio([30.0] * 10, [1.0] * 7 + [0.0] * 3)
    assert summary.n == 10
    assert summary.mean == pytest.approx(300.0 / 7.0, rel=1e-12)
    assert summary.mean_ci95 is not None
    assert (summary.p50, summary.std) == (30.0, None)
    assert summary.p50_ci95 is None  # its upper end is the ninth of ten values, one of the infinite
    assert summarise_ratio([1.0, 2.0], [0.0, 0.0]) == Summary(n=2)
    assert summarise_ratio([0.0, 6.0, 6.0], [0.0, 2.0, 2.0]).std == 0.0  # 0 / 0 is no ratio


def test_censored_values_have_a_rank_but_no_mean() -> None:
    """Quantiles below the censoring point exist, those beyond it and the mean are None."""
    summary = summarise([*np.arange(90.0), *[math.inf] * 10])
    assert (summary.mean, summary.mean_ci95, summary.std) == (None, None, None)
    assert summary.p05 == pytest.approx(4.95, rel=1e-12)
    assert summary.p50 == 49.5
    assert (summary.p95, summary.p95_ci95) == (None, None)


@cases(
    ("call", "text"),
    [
        (lambda: summarise([1.0, math.nan]), "NaN"),
        (lambda: summarise([[1.0]]), "one-dimensional"),
        (lambda: ratio_interval([1.0, 1.0], [1.0, -1.0]), "negative"),
        (lambda: mean_interval([1.0, 2.0], 1.0), "confidence must be"),
        (lambda: quantile_interval([1.0, 2.0], 0.0), "q must be between 0 and 1, got 0"),
        (lambda: quantile([1.0, 2.0], 1.5), "q must be between 0 and 1, got 1"),
    ],
)
def test_mistakes_are_refused(call: Callable[..., Any], text: str) -> None:
    """NaN, wrong shapes, unpaired samples and impossible probabilities are errors, not None."""
    with pytest.raises(ValueError, match=text):
        call()


def test_degrees_of_freedom_of_a_table_that_is_not_square() -> None:
    """Satterthwaite by hand for two rows and three columns, with the variance in the rows or in the columns."""
    for values, rows, columns in (
        (np.array([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]), 50.0 / 2, 1.0 / 3),
        (np.array([0.0, 1.0])[:, None] + 10 * np.array([0.0, 1.0, 2.0]), 0.5 / 2, 100.0 / 3),
    ):
        assert two_way(values).freedom == pytest.approx((rows + columns) ** 2 / (rows**2 / 1 + columns**2 / 2))
