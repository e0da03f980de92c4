"""Series systems and k of n, against brute force, linear algebra, textbooks and the laws of the number down."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from sim.theory.availability import missing_nodes_pmf, steady_unavailability
from sim.theory.counts import enough_probability, exceedance
from sim.theory.redundancy import (
    Episodes,
    at_least_up,
    mean_time_to_shortage,
    series_availability,
    series_mtti,
    shortage_episodes,
)
from sim.theory.spares import crew_limited_pmf
from tests.property.common import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOUR = 3600.0


def generator(
    required: int, spares: int, fails: float, repairs: float, crews: int, *, cold: bool
) -> NDArray[np.float64]:
    """Return the generator of the number down, written state by state."""
    nodes = required + spares
    matrix = np.zeros((nodes + 1, nodes + 1))
    for down in range(nodes + 1):
        up = nodes - down
        if down < nodes:
            matrix[down, down + 1] = fails * (min(required, up) if cold else up)
        if down > 0:
            matrix[down, down - 1] = repairs * min(down, crews)
        matrix[down, down] = -matrix[down].sum()
    return matrix


# -- series -----------------------------------------------------------------------------------------------------------


def test_a_series_system_is_up_in_one_pattern_only() -> None:
    """Of all patterns of up and down only "all up" counts, in exact fractions; kinds with counts are parts in a row."""
    kinds = [(Fraction(1, 16), 2), (Fraction(3, 8), 1), (Fraction(1, 4), 3)]
    parts = [q for q, count in kinds for _ in range(count)]
    total = sum(
        math.prod((q if down else 1 - q) for q, down in zip(parts, pattern, strict=True))
        for pattern in itertools.product((False, True), repeat=len(parts))
        if not any(pattern)
    )
    q, n = [float(each) for each, _ in kinds], [count for _, count in kinds]
    assert series_availability(q, n) == pytest.approx(float(total), rel=1e-14)
    assert series_availability([float(each) for each in parts]) == pytest.approx(float(total), rel=1e-14)
    assert series_availability([q, [0.0, 0.0, 0.0]], n) == pytest.approx([float(total), 1.0], rel=1e-14)


def test_parts_that_are_always_down_matter_if_there_is_one() -> None:
    """A kind of which there is no part changes nothing, even if it is always down; with one part nothing is ever up."""
    assert series_availability([0.5, 1.0], [2, 0]) == 0.25
    assert series_availability([0.5, 1.0], [2, 1]) == 0.0
    assert series_availability(0.0, 100_000) == 1.0
    assert series_availability(1e-12, 1_000_000) == pytest.approx(1.0 - 1e-6, abs=1e-12)


def test_hundred_disks_of_the_first_paper_on_raid() -> None:
    """100 disks that live 30,000 h each fail every 300 h (Patterson, Gibson and Katz, SIGMOD 1988, section 5)."""
    assert series_mtti(30_000 * HOUR, 100) == pytest.approx(300 * HOUR, rel=1e-14)


def test_rates_of_independent_parts_add_up() -> None:
    """Minima of exponential lives: 1 / MTTI is the sum over kinds, kinds that never fail or are absent add nothing."""
    lives, counts = [50.0, 400.0, math.inf, 3.0], [2, 10, 7, 0]
    assert 1.0 / series_mtti(lives, counts) == pytest.approx(2 / 50 + 10 / 400, rel=1e-14)
    assert series_mtti([math.inf, 1.0], [5, 0]) == math.inf
    assert series_mtti([lives, lives], [counts, [1, 0, 0, 0]]) == pytest.approx([1 / (2 / 50 + 10 / 400), 50.0])
    assert type(series_mtti(5.0)) is type(series_availability(0.5)) is float


# -- k of n -----------------------------------------------------------------------------------------------------------


def test_enough_nodes_are_up_by_scipy_and_by_the_law() -> None:
    """``P(Binomial(n, 1 - q) >= k)``, equal to the sum of `missing_nodes_pmf`; far tails keep their digits."""
    for nodes in (1, 5, 400, 20_000):
        for q in (0.0, 1e-7, 0.0235, 0.6, 1.0):
            law = missing_nodes_pmf(nodes, q)
            for needed in {0, 1, nodes // 2, nodes - 1, nodes}:
                ours = at_least_up(needed, nodes, q)
                assert ours == pytest.approx(enough_probability(law, nodes - needed), rel=1e-10, abs=1e-300)
                assert ours == pytest.approx(stats.binom.cdf(nodes - needed, nodes, q), rel=1e-10, abs=1e-300)
    assert at_least_up([0, 3], 3, [[0.5], [0.25]]) == pytest.approx(np.array([[1.0, 0.125], [1.0, 0.421875]]))


def test_a_superpod_of_144_cubes() -> None:
    """130 or more of 144 cubes are healthy 95 % of the time (Google Cloud): each is up between 93 % and 94 % of it."""
    low, high = at_least_up(130, 144, [0.07, 0.06])
    assert low < 0.95 < high


def test_reliability_of_two_of_three() -> None:
    """Without repair it is ``3 R^2 - 2 R^3``, R = exp(-t / life) (Trivedi, 2nd ed., example 3.21)."""
    r = np.exp(-np.linspace(0.0, 4.0, 9))
    assert at_least_up(2, 3, 1.0 - r) == pytest.approx(3 * r**2 - 2 * r**3, rel=1e-12)


@pytest.mark.parametrize(("needed", "nodes"), [(1, 1), (1, 4), (2, 3), (7, 9), (40, 44)])
def test_reliability_integrates_to_the_mean_time(needed: int, nodes: int) -> None:
    """Without repair the mean time is the integral of the reliability, and ``sum 1 / (i lambda)``."""
    mean = mean_time_to_shortage(needed, nodes - needed, 0.5, 0.0, 1)
    integral = integrate.quad(lambda t: at_least_up(needed, nodes, -math.expm1(-0.5 * t)), 0.0, math.inf)[0]
    assert mean == pytest.approx(integral, rel=1e-8)
    assert mean == pytest.approx(sum(1 / (0.5 * i) for i in range(needed, nodes + 1)), rel=1e-13)


# -- time to a shortage -----------------------------------------------------------------------------------------------


def test_textbook_mean_times() -> None:
    """2 of 3: 5 / (6 l), with repair (5 l + m) / (6 l^2); 1 of 2: (3 l + m) / (2 l^2); cold: (2 l + m) / l^2."""
    fails, repairs = 0.01, 0.7
    assert mean_time_to_shortage(2, 1, fails, 0.0, 1) == pytest.approx(5 / (6 * fails), rel=1e-14)
    expected = (5 * fails + repairs) / (6 * fails**2)
    assert mean_time_to_shortage(2, 1, fails, repairs, 1) == pytest.approx(expected, rel=1e-13)
    expected = (3 * fails + repairs) / (2 * fails**2)
    assert mean_time_to_shortage(1, 1, fails, repairs, 1) == pytest.approx(expected, rel=1e-13)
    expected = (2 * fails + repairs) / fails**2
    assert mean_time_to_shortage(1, 1, fails, repairs, 1, cold=True) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("group", [10, 25])
def test_groups_of_disks(group: int) -> None:
    """``MTTF^2 / (G (G + 1) MTTR)`` of a group of G disks and a check disk (Patterson, Gibson and Katz, SIGMOD 1988).

    The formula of the paper neglects (2 G + 1) MTTR against MTTF, which is 0.2 % of its 30,000 h.
    """
    paper = 30_000**2 / (group * (group + 1) * 1.0)
    exact = mean_time_to_shortage(group, 1, 1 / 30_000, 1.0, 1)
    assert exact == pytest.approx(paper * (1.0 + (2 * group + 1) / 30_000), rel=1e-12)
    assert exact == pytest.approx(paper, rel=0.002)


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("crews", [1, 2, 9])
@pytest.mark.parametrize(("required", "spares"), [(1, 0), (1, 3), (4, 2), (5, 0), (3, 5)])
def test_the_chain_by_linear_algebra(required: int, spares: int, crews: int, cold: bool) -> None:
    """First passages from the generator: all healthy to short, s to s + 1 down, and s + 1 back to s."""
    fails, repairs = 0.3, 0.8
    matrix = generator(required, spares, fails, repairs, crews, cold=cold)
    inside, outside = matrix[: spares + 1, : spares + 1], matrix[spares + 1 :, spares + 1 :]
    there = np.linalg.solve(inside, -np.ones(spares + 1))
    back = np.linalg.solve(outside, -np.ones(required))
    assert mean_time_to_shortage(required, spares, fails, repairs, crews, cold=cold) == pytest.approx(there[0])
    episodes = shortage_episodes(required, spares, fails, repairs, crews, cold=cold)
    assert episodes.gap == pytest.approx(there[-1], rel=1e-11)
    assert episodes.length == pytest.approx(back[0], rel=1e-11)
    law = crew_limited_pmf(required, spares, fails, repairs, crews, cold=cold)
    assert episodes.probability == pytest.approx(exceedance(law)[spares], rel=1e-11)


def test_a_node_of_its_own_alternates() -> None:
    """One node without spares: the episode is a repair, the gap a life, the probability the unavailability."""
    episodes = shortage_episodes(1, 0, 1 / 50.0, 1 / 3.0, 1)
    assert episodes == pytest.approx(Episodes(steady_unavailability(50.0, 3.0), 3.0, 50.0), rel=1e-14)
    assert mean_time_to_shortage(1, 0, 1 / 50.0, 1 / 3.0, 1) == pytest.approx(50.0)


@pytest.mark.parametrize(("spares", "crews"), [(300, 20_300), (500, 450), (150, 300)])
def test_twenty_thousand_nodes(spares: int, crews: int) -> None:
    """Probability over length is the rate at which episodes begin, ``P(X = s) b_s``; all of it without overflow."""
    required, fails, repairs = 20_000, 1 / 1000.0, 1 / 15.0
    law = crew_limited_pmf(required, spares, fails, repairs, crews)
    episodes = shortage_episodes(required, spares, fails, repairs, crews)
    assert episodes.probability == pytest.approx(exceedance(law)[spares], rel=1e-8)
    assert 1.0 / (episodes.length + episodes.gap) == pytest.approx(law[spares] * required * fails, rel=1e-8)
    # From all healthy it takes at least a gap, and the time in which the first s failures come.
    first = mean_time_to_shortage(required, spares, fails, repairs, crews)
    assert first >= episodes.gap
    assert first > (spares + 1) / ((required + spares) * fails)


def test_what_is_too_rare_or_too_long_is_infinite() -> None:
    """Plenty of spares: an infinite time to a shortage and probability 0; drowning crews: an episode without end."""
    assert mean_time_to_shortage(1000, 1000, 1e-6, 1.0, 2000) == math.inf
    rare = shortage_episodes(1000, 1000, 1e-6, 1.0, 2000)
    assert (rare.probability, rare.gap) == (0.0, math.inf)
    assert 0.0 < rare.length < 1.0
    drowned = shortage_episodes(20_000, 10, 1.0, 1e-9, 1)
    assert (drowned.probability, drowned.length) == (1.0, math.inf)


RATE = st.floats(0.01, 100.0)


@examples(60)
@given(st.integers(1, 12), st.integers(0, 6), RATE, RATE, st.integers(1, 8), st.booleans(), st.floats(1.01, 3.0))
def test_what_helps_a_pool(
    required: int, spares: int, fails: float, repairs: float, crews: int, cold: bool, factor: float
) -> None:
    """More spares or crews, faster repairs, rarer failures, cold spares: a later shortage and a smaller share."""
    base = (required, spares, fails, repairs, crews)
    time = mean_time_to_shortage(*base, cold=cold)
    short = shortage_episodes(*base, cold=cold).probability
    for better in (
        (required, spares + 1, fails, repairs, crews),
        (required, spares, fails, repairs, crews + 1),
        (required, spares, fails, repairs * factor, crews),
        (required, spares, fails / factor, repairs, crews),
    ):
        assert mean_time_to_shortage(*better, cold=cold) >= time * (1 - 1e-12)
        assert shortage_episodes(*better, cold=cold).probability <= short * (1 + 1e-12)
    assert mean_time_to_shortage(*base, cold=True) >= time * (1 - 1e-12)
    assert time >= mean_time_to_shortage(required, spares, fails, 0.0, crews, cold=cold) * (1 - 1e-12)
    # A pool that is all up is never nearer to a shortage than one that has just come out of one.
    assert time >= shortage_episodes(*base, cold=cold).gap * (1 - 1e-12)


def test_impossible_pools_are_refused() -> None:
    """One line each, with the value that is wrong."""
    with pytest.raises(ValueError, match="needed must be at most the number of nodes, got 4 of 3"):
        at_least_up(4, 3, 0.1)
    with pytest.raises(ValueError, match="failure_rate must be positive"):
        mean_time_to_shortage(3, 1, 0.0, 1.0, 1)
    with pytest.raises(ValueError, match="repair_rate must be positive"):
        shortage_episodes(3, 1, 1.0, 0.0, 1)
    with pytest.raises(ValueError, match="crews must be a whole number from 1"):
        mean_time_to_shortage(3, 1, 1.0, 1.0, 0)
    with pytest.raises(ValueError, match="count must be a whole number from 0"):
        series_mtti(5.0, 1.5)
    with pytest.raises(ValueError, match="unavailability must be in"):
        series_availability([0.1, -0.1])
