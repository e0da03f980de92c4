"""Paired differences: their intervals cover what they say, pairing pays, and the number that would resolve is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import sim
from analysis.compare import Variant, compare
from analysis.statistics.differences import MANY, difference, replications_to_resolve
from analysis.statistics.estimates import mean_interval
from sim import Ratio
from tests.cases import cases

REPETITIONS = 1000


def ratios(amounts: object, bases: object = 1.0) -> list[Ratio]:
    """Return one ratio per replication."""
    pairs = np.broadcast_arrays(np.asarray(amounts, dtype=float), np.asarray(bases, dtype=float))
    return [Ratio(float(a), float(b)) for a, b in zip(*pairs, strict=True)]


def assert_coverage(covered: int, nominal: float = 0.95, slack: float = 0.0) -> None:
    """Fail unless `covered` of REPETITIONS is compatible (99.9 %) with the nominal coverage, less some slack."""
    assert stats.binom.ppf(0.0005, REPETITIONS, nominal - slack) <= covered
    assert covered <= stats.binom.isf(0.0005, REPETITIONS, nominal)


def test_difference_by_hand() -> None:
    """Differences of 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776, so 3 -/+ 1.963."""
    found = difference(ratios([11, 12, 13, 14, 15]), ratios([10, 10, 10, 10, 10]))
    assert found is not None
    assert (found.mean, *found.ci95) == pytest.approx((3.0, 3.0 - 1.9632, 3.0 + 1.9632), abs=1e-4)
    assert found.resolved


def test_equal_denominators_give_the_difference_within_each_replication() -> None:
    """With one denominator per variant this is Student's interval of the per-replication differences."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(5, 1, 20), rng.normal(4, 1, 20)
    found = difference(ratios(first, 2.0), ratios(second, 8.0))
    assert found is not None
    apart = first / 2 - second / 8
    assert (found.mean, *found.ci95) == pytest.approx((apart.mean(), *(mean_interval(apart) or ())))


def test_difference_is_that_of_the_reported_ratios() -> None:
    """The mean is the difference of two ratios of sums, whatever the denominators do."""
    rng = np.random.default_rng(2)
    a, b, c, d = rng.gamma(3.0, size=(4, 12))
    found = difference(ratios(a, b), ratios(c, d))
    assert found is not None
    assert found.mean == pytest.approx(a.sum() / b.sum() - c.sum() / d.sum())


def test_interval_covers_for_correlated_normals() -> None:
    """Five pairs of normal values that share most of their luck: the interval covers as often as it says."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(REPETITIONS):
        luck = rng.normal(0.0, 3.0, 5)
        found = difference(ratios(luck + rng.normal(1.5, 1.0, 5)), ratios(luck + rng.normal(1.0, 0.5, 5)))
        assert found is not None
        covered += found.ci95[0] <= 0.5 <= found.ci95[1]
    assert_coverage(covered)


def test_interval_covers_for_ratios() -> None:
    """With denominators that vary, the delta method covers the difference of the ratios of means, within 2 %."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(REPETITIONS):
        bases = rng.gamma(8.0, 1 / 8.0, (2, 100))
        luck = rng.exponential(1.0, 100)
        found = difference(ratios(3 * bases[0] + luck, bases[0]), ratios(2 * bases[1] + luck, bases[1]))
        assert found is not None
        covered += found.ci95[0] <= 1.0 <= found.ci95[1]
    assert_coverage(covered, slack=0.02)


def test_a_difference_of_zero_is_resolved_as_often_as_chance_says() -> None:
    """Without a difference, 5 % of the comparisons call it resolved."""
    rng = np.random.default_rng(5)
    resolved = 0
    for _ in range(REPETITIONS):
        found = difference(ratios(rng.normal(0, 1, 8)), ratios(rng.normal(0, 1, 8)))
        resolved += found is not None and found.resolved
    assert_coverage(REPETITIONS - resolved)


@cases(("mean", "spread"), [(1.0, 0.1), (1.0, 1.0), (-0.3, 1.0), (0.05, 1.0), (2.0, 0.0)])
def test_replications_to_resolve_is_the_smallest_number(mean: float, spread: float) -> None:
    """With n replications the half-width t s / sqrt(n) is below |d|, with n - 1 it is not; two are the fewest."""
    n = replications_to_resolve(mean, spread)
    assert n is not None

    def half(number: int) -> float:
        return float(stats.t.ppf(0.975, number - 1)) * spread / math.sqrt(number)

    assert half(n) < abs(mean)
    assert n == 2 or half(n - 1) >= abs(mean)


def test_replications_to_resolve_gives_up() -> None:
    """Variants that do not differ are never resolved, and a difference of s / 100 would take 38,000 replications."""
    assert replications_to_resolve(0.0, 1.0) is None
    assert replications_to_resolve(0.01, 1.0) is None
    assert (stats.norm.ppf(0.975) / 0.01) ** 2 > MANY


def test_unresolved_takes_more_replications_than_there_were() -> None:
    """What n replications do not resolve takes more than n; what they do resolve takes no more."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        found = difference(ratios(rng.normal(0.4, 1, 12)), ratios(rng.normal(0, 1, 12)))
        assert found is not None
        needed = found.replications_to_resolve or MANY
        assert found.resolved == (needed <= 12)


@cases(
    ("ours", "theirs"),
    [
        (ratios([1.0]), ratios([2.0])),
        (ratios([1.0, math.inf]), ratios([1.0, 2.0])),
        (ratios([1.0, 2.0]), ratios([1.0, 2.0], 0.0)),
    ],
    ids=["one replication", "censored", "nothing in the denominator"],
)
def test_no_difference_without_data(ours: list[Ratio], theirs: list[Ratio]) -> None:
    """Without a second replication, a finite amount or a denominator there is no difference."""
    assert difference(ours, theirs) is None


def test_variants_need_the_same_replications() -> None:
    """Samples of different length are refused."""
    with pytest.raises(ValueError, match="got 2 and 3"):
        difference(ratios([1, 2]), ratios([1, 2, 3]))


def test_rounding_is_no_difference() -> None:
    """Amounts that differ by the order of a sum alone are the same."""
    found = difference(ratios([0.1 + 0.2, 0.7]), ratios([0.3, 0.7]))
    assert found is not None
    assert found == (0.0, (0.0, 0.0), False, None, None)


def test_pairing_narrows_the_interval_of_a_real_difference() -> None:
    """Two checkpoint intervals of the quickstart: the variance of the difference is less than the sum of the two."""
    variants = [
        Variant(text, sim.prepare(sim.load(sim.find("quickstart"), [f"checkpoint.tiers.0.interval={text}"])))
        for text in ("30 min", "40 min")
    ]
    found = compare(variants, 32, processes=1)
    change = found.differences[1]["ettr"]
    assert change is not None
    mine, theirs = (np.array([row["ettr"].amount / row["ettr"].base for row in of.rows]) for of in found.ensembles)
    unpaired = stats.t.ppf(0.975, 62) * math.sqrt((mine.var(ddof=1) + theirs.var(ddof=1)) / 32)
    assert (change.ci95[1] - change.ci95[0]) / 2 < unpaired / 2
