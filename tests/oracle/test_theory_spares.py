"""Nodes down at once and the spares for them, against brute force, linear algebra, known limits and Monte Carlo."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import integrate, stats

from sim.formulas.arrays import enough_probability, exceedance, expected_shortfall, quantile
from sim.formulas.nodes import crew_limited_pmf, missing_nodes_pmf, repairs_pmf, spares_needed, steady_unavailability
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

Z = 4.0
LEVELS = (0.01, 0.3, 0.5, 0.9, 0.99, 0.9999, 1.0 - 1e-9)

# InfiniteHBD (SIGCOMM 2025, arXiv:2502.03885; data Apache-2.0), 400 nodes from the first fault to day 348, weighted by
# time: the mean of the nodes down is 9.385, their variance 53.26, their P99 31.
HBD_NODES, HBD_UNAVAILABILITY, HBD_P99 = 400, 0.02346, 31
HBD_DISPERSION = 53.26 / (9.385 * (1.0 - HBD_UNAVAILABILITY))


def beta_binomial(nodes: int, unavailability: float, dispersion: float) -> stats.distributions.rv_frozen:
    """Return scipy's beta-binomial law of this mean and dispersion."""
    total = (nodes - dispersion) / (dispersion - 1.0)  # a + b, from D = (a + b + N) / (a + b + 1)
    return stats.betabinom(nodes, unavailability * total, (1.0 - unavailability) * total)


def equilibrium(births: list[float], deaths: list[float]) -> npt.NDArray[np.float64]:
    """Solve ``p G = 0, sum p = 1`` for the generator of a birth-death chain: births in k, deaths in k + 1."""
    n = len(births) + 1
    generator = np.diag(births, 1) + np.diag(deaths, -1)
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack((generator.T, np.ones(n)))
    return np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)[0]


def first_enough(enough: Callable[[int], float], level: float) -> int:
    """Return the smallest s with ``enough(s) >= level``, one by one."""
    return next(s for s in range(100_000) if enough(s) >= level)


# -- laws -------------------------------------------------------------------------------------------------------------


@cases("nodes", [1, 2, 7, 12])
def test_independent_nodes_are_counted_by_brute_force(nodes: int) -> None:
    """With q = 3/16, p[k] is the sum over all 2^N patterns, in exact fractions; also mirrored, with q = 13/16."""
    q = Fraction(3, 16)
    exact = [Fraction(0)] * (nodes + 1)
    for pattern in range(2**nodes):
        down = pattern.bit_count()
        exact[down] += q**down * (1 - q) ** (nodes - down)
    values = [float(value) for value in exact]
    assert missing_nodes_pmf(nodes, 0.1875) == pytest.approx(values, rel=1e-13)
    assert missing_nodes_pmf(nodes, 0.8125) == pytest.approx(values[::-1], rel=1e-13)


def test_nodes_that_never_or_always_fail() -> None:
    """At q = 0 and q = 1 the law is a point, at every dispersion."""
    for dispersion in (1.0, 2.5):
        assert missing_nodes_pmf(4, 0.0, dispersion).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
        assert missing_nodes_pmf(4, 1.0, dispersion).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
        assert repairs_pmf(0.0, 2, dispersion).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("nodes", "unavailability", "dispersion"),
    [
        (2, 0.3, 1.5),
        (9, 0.9, 8.5),  # U-shaped: nearly all nodes as one
        (9, 0.5, 3.0),
        (400, 0.02346, 5.8),
        (5000, 0.001, 40.0),  # most often nobody, sometimes hundreds
        (20_000, 0.01, 1.001),
    ],
)
def test_a_common_environment_is_the_beta_binomial_law(nodes: int, unavailability: float, dispersion: float) -> None:
    """Equal to scipy's law, which has other parameters, and to the mean and variance that were asked for."""
    law = missing_nodes_pmf(nodes, unavailability, dispersion)
    k = np.arange(nodes + 1)
    # scipy subtracts log-gammas of a + b, which is 2e7 in the last case and costs it digits.
    assert law == pytest.approx(beta_binomial(nodes, unavailability, dispersion).pmf(k), rel=1e-6, abs=1e-300)
    mean = float(law @ k)
    assert mean == pytest.approx(nodes * unavailability, rel=1e-11)
    assert law @ (k - mean) ** 2 == pytest.approx(dispersion * mean * (1.0 - unavailability), rel=1e-10)


def test_environments_mix_independent_nodes() -> None:
    """The two wide laws are integrals of the narrow ones over a Beta-distributed q and a Gamma-distributed mean."""
    nodes, q, d = 30, 0.1, 2.0
    total = (nodes - d) / (d - 1.0)
    share_down = stats.beta(q * total, (1.0 - q) * total)
    offered, shape = 3.0, 3.0 / (d - 1.0)
    mean = stats.gamma(shape, scale=offered / shape)
    for k in (0, 1, 3, 8, 20):
        by_share = integrate.quad(lambda x, k=k: stats.binom.pmf(k, nodes, x) * share_down.pdf(x), 0.0, 1.0)[0]
        by_rate = integrate.quad(lambda x, k=k: stats.poisson.pmf(k, x) * mean.pdf(x), 0.0, 80.0, limit=200)[0]
        assert missing_nodes_pmf(nodes, q, d)[k] == pytest.approx(by_share, rel=1e-6, abs=1e-13)
        assert repairs_pmf(offered, 30, d)[k] == pytest.approx(by_rate, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("offered", [0.02, 1.0, 9.385, 2300.0])
@pytest.mark.parametrize("dispersion", [1.0, 1.5, 5.7, 200.0])
def test_repairs_follow_poisson_and_negative_binomial(offered: float, dispersion: float) -> None:
    """Equal to scipy's laws; what a cut-off array lacks to 1 is the probability beyond it."""
    known = stats.poisson(offered) if dispersion == 1.0 else stats.nbinom(offered / (dispersion - 1.0), 1 / dispersion)
    largest = int(offered + 40.0 * math.sqrt(offered * dispersion) + 40.0 * dispersion)
    k = np.arange(largest + 1)
    law = repairs_pmf(offered, largest, dispersion)
    assert law == pytest.approx(known.pmf(k), rel=1e-8, abs=1e-290)
    assert law @ k == pytest.approx(offered, rel=1e-9)
    assert law @ (k - offered) ** 2 == pytest.approx(dispersion * offered, rel=1e-9)
    half = int(offered / 2.0)
    assert 1.0 - repairs_pmf(offered, half, dispersion).sum() == pytest.approx(known.sf(half), abs=1e-12)


def test_limits_join_the_laws() -> None:
    """D to 1 is independence, and many nodes with a small unavailability are Poisson or negative binomial."""
    near = 1.0 + 1e-9
    assert missing_nodes_pmf(50, 0.1, near) == pytest.approx(missing_nodes_pmf(50, 0.1), abs=1e-9)
    assert repairs_pmf(5.0, 60, near) == pytest.approx(repairs_pmf(5.0, 60), abs=1e-9)
    for dispersion in (1.0, 3.0):
        distances = []
        for nodes in (1000, 10_000, 100_000):
            law = missing_nodes_pmf(nodes, 5.0 / nodes, dispersion)[:200]
            distances.append(float(np.abs(law - repairs_pmf(5.0, 199, dispersion)).sum()))
        # Le Cam: the distance of binomial and Poisson is at most 2 N q^2, falling as 1 / N.
        assert distances[-1] < 2.0 * 25.0 / 100_000
        assert distances[0] / distances[2] == pytest.approx(100.0, rel=0.02)


# -- quantiles --------------------------------------------------------------------------------------------------------


def test_quantiles_of_nodes_are_the_smallest_counts() -> None:
    """``P(X <= m) >= p > P(X <= m - 1)`` by scipy's distribution functions, up to 100,000 nodes."""
    for nodes in (1, 3, 40, 400, 100_000):
        for q in (1e-5, 0.02346, 0.5, 0.97):
            for dispersion in {1.0, min(1.7, (1.0 + nodes) / 2.0)} if nodes < 1000 else {1.0}:
                known = stats.binom(nodes, q) if dispersion == 1.0 else beta_binomial(nodes, q, dispersion)
                law = missing_nodes_pmf(nodes, q, dispersion)
                for p in LEVELS:
                    m = quantile(law, p)
                    assert known.cdf(m) >= p - 1e-13
                    assert m == 0 or known.cdf(m - 1) < p + 1e-13


# -- what the laws assume ---------------------------------------------------------------------------------------------


def sampled_in_repair(rate: float, n: int, seed: int) -> npt.NDArray[np.int64]:
    """Count the repairs open at time 0: Poisson failures, 9 of 10 repaired after 1, the tenth after 21 (mean 3)."""
    rng = np.random.default_rng(seed)
    failures = rng.poisson(rate * 21.0, n)
    age, length = rng.uniform(0.0, 21.0, failures.sum()), np.where(rng.random(failures.sum()) < 0.1, 21.0, 1.0)
    return np.bincount(np.repeat(np.arange(n), failures)[age < length], minlength=n)


@pytest.mark.parametrize(("wrong", "passes"), [(1.0, True), (1.1, False), (0.9, False)])
def test_the_law_of_repair_times_does_not_matter(wrong: float, passes: bool) -> None:
    """With two very different repair times the number in repair is Poisson of the mean; ten per cent off is seen."""
    n, rate = 40_000, 2.0
    counts = sampled_in_repair(rate, n, 3)
    tail = exceedance(repairs_pmf(wrong * rate * 3.0, 60))[[2, 4, 6, 8, 10, 12]]
    seen = np.array([(counts > k).mean() for k in (2, 4, 6, 8, 10, 12)])
    inside = np.abs(seen - tail) < Z * np.sqrt(tail * (1.0 - tail) / n)
    assert bool(np.all(inside)) is passes


def test_unavailability_needs_only_the_means() -> None:
    """Uniform lives and log-normal repairs, over and over: the share of time down is repair / (life + repair)."""
    rng = np.random.default_rng(8)
    n, life, sigma = 200_000, 50.0, 0.8
    repair = 2.0 * math.exp(sigma**2 / 2.0)
    up, down = rng.uniform(0.0, 2.0 * life, n), rng.lognormal(math.log(2.0), sigma, n)
    seen = down.sum() / (up + down).sum()
    error = np.std(down - seen * (up + down)) / math.sqrt(n) / (life + repair)
    assert abs(seen - steady_unavailability(life, repair)) < Z * error
    assert abs(seen - steady_unavailability(life, 1.05 * repair)) > Z * error


def test_lasting_differences_between_nodes_narrow_the_law() -> None:
    """Nodes of unequal q, that never change, have a lower P99 than equal ones: they do not explain a wide one."""
    q = np.minimum(stats.gamma(0.9, scale=0.2 / 0.9).ppf((np.arange(100) + 0.5) / 100.0), 1.0)
    law = np.ones(1)
    for each in q:
        law = np.convolve(law, [1.0 - each, each])
    assert quantile(law, 0.99) < quantile(missing_nodes_pmf(100, float(q.mean())), 0.99)


def test_infinitehbd_is_not_independent() -> None:
    """Independent nodes have a P99 of 17 where the trace has 31; its own dispersion of 5.8 brings 31 within 10 %."""
    assert quantile(missing_nodes_pmf(HBD_NODES, HBD_UNAVAILABILITY), 0.99) == 17
    wide = missing_nodes_pmf(HBD_NODES, HBD_UNAVAILABILITY, HBD_DISPERSION)
    assert quantile(wide, 0.99) == pytest.approx(HBD_P99, rel=0.1)
    assert quantile(repairs_pmf(9.385, 400, 53.26 / 9.385), 0.99) == pytest.approx(HBD_P99, rel=0.1)


def test_dispersion_needed_for_infinitehbd() -> None:
    """P99 = 31 needs a dispersion between 4 and 5.8: far from 1, and not above the one measured over all counts."""
    dispersions = np.arange(1.0, 8.0, 0.05)
    laws = (missing_nodes_pmf(HBD_NODES, HBD_UNAVAILABILITY, dispersion) for dispersion in dispersions.tolist())
    p99 = np.array([quantile(law, 0.99) for law in laws])
    assert np.all(np.diff(p99) >= 0)
    needed = dispersions[p99 == HBD_P99]
    assert needed.size
    assert needed.min() > 4.0
    assert needed.max() < HBD_DISPERSION


# -- crews ------------------------------------------------------------------------------------------------------------


@cases("cold", [False, True])
@cases("crews", [1, 2, 3, 9])
@cases(("required", "spares"), [(1, 0), (1, 3), (4, 2), (5, 0)])
def test_crews_solve_the_balance_equations(required: int, spares: int, crews: int, cold: bool) -> None:
    """The chain is the null vector of its generator, state by state."""
    nodes, fails, repairs = required + spares, 0.3, 0.8
    births = [fails * (min(required, nodes - k) if cold else nodes - k) for k in range(nodes)]
    deaths = [repairs * min(k, crews) for k in range(1, nodes + 1)]
    law = crew_limited_pmf(required, spares, fails, repairs, crews, cold=cold)
    assert law == pytest.approx(equilibrium(births, deaths), rel=1e-10)


def test_machine_interference_of_the_textbook() -> None:
    """M/M/c//N with hot spares: ``p[k] = p[0] N! / (N - k)! rho^k / (k! or c! c^(k - c))``, in exact fractions."""
    nodes, crews, rho = 8, 3, Fraction(1, 4)
    weights = [
        Fraction(math.perm(nodes, k)) * rho**k / math.factorial(min(k, crews)) / crews ** max(k - crews, 0)
        for k in range(nodes + 1)
    ]
    exact = [float(weight / sum(weights)) for weight in weights]
    assert crew_limited_pmf(6, 2, 0.25, 1.0, crews) == pytest.approx(exact, rel=1e-13)


def test_a_crew_for_every_node_is_independence() -> None:
    """Hot with crews enough: binomial with q = lambda / (lambda + mu); one crew fewer already is not."""
    fails, repairs = 0.2, 0.9
    q = steady_unavailability(1.0 / fails, 1.0 / repairs)
    for crews in (12, 1000):
        assert crew_limited_pmf(9, 3, fails, repairs, crews) == pytest.approx(missing_nodes_pmf(12, q), rel=1e-12)
    assert crew_limited_pmf(9, 3, fails, repairs, 11)[12] > 1.05 * missing_nodes_pmf(12, q)[12]


def test_cold_spares_with_crews_enough_are_poisson_while_they_last() -> None:
    """Up to s nodes down the ratios are those of M/G/infinity; beyond, fewer nodes fail, and Poisson overstates."""
    law, poisson = crew_limited_pmf(40, 6, 0.1, 1.0, 46, cold=True), repairs_pmf(4.0, 80)
    assert law[:7] / law[0] == pytest.approx(poisson[:7] / poisson[0], rel=1e-12)
    assert law[8] / law[0] < poisson[8] / poisson[0]
    assert enough_probability(law, 6) > enough_probability(poisson, 6)


@cases("cold", [False, True])
@cases("crews", [200, 1900, 2100, 100_000])
def test_hundred_thousand_nodes_balance(crews: int, cold: bool) -> None:
    """Failures and repairs in unit time are equal, from idle crews to crews that drown: no digits are lost in logs."""
    required, spares, fails = 98_000, 2000, 0.02
    law = crew_limited_pmf(required, spares, fails, 1.0, crews, cold=cold)
    down = np.arange(required + spares + 1)
    up = required + spares - down
    assert law.sum() == pytest.approx(1.0, rel=1e-12)
    failing = fails * law @ (np.minimum(up, required) if cold else up)
    assert failing == pytest.approx(law @ np.minimum(down, crews), rel=1e-11)


# -- reading a law ----------------------------------------------------------------------------------------------------


def test_reading_a_law_is_summing_it() -> None:
    """Exceedance, shortfall and P(enough) are the sums that define them; far tails keep their digits."""
    law = missing_nodes_pmf(20, 0.05)
    tail = exceedance(law)
    for k in range(21):
        assert tail[k] == pytest.approx(math.fsum(law[k + 1 :]), rel=1e-13)
        assert enough_probability(law, k) == pytest.approx(math.fsum(law[: k + 1]), rel=1e-13)
        assert expected_shortfall(law, k) == pytest.approx(math.fsum((j - k) * law[j] for j in range(k, 21)), rel=1e-12)
    assert tail[18] == pytest.approx(stats.binom.sf(18, 20, 0.05), rel=1e-10)
    assert tail[18] < 1e-22
    assert expected_shortfall(law, 0) == pytest.approx(1.0, rel=1e-13)
    assert (expected_shortfall(law, 50), enough_probability(law, 50)) == (0.0, pytest.approx(1.0))


def test_a_law_that_ends_too_early_has_no_such_quantile() -> None:
    """Asking beyond the end of a cut-off law is an error, not its last count."""
    law = repairs_pmf(9.0, 12)
    assert quantile(law, 0.5) == stats.poisson.ppf(0.5, 9.0)
    with pytest.raises(ValueError, match="cut off at"):
        quantile(law, 0.99)


# -- spares -----------------------------------------------------------------------------------------------------------


@cases("level", [0.05, 0.9, 0.99, 0.999999])
@cases("required", [1, 10, 400])
def test_hot_spares_one_by_one(required: int, level: float) -> None:
    """Spares are exposed too: s is the first with ``P(X > s) <= 1 - level`` among R + s nodes."""
    for q in (0.001, 0.02346, 0.4):
        expected = first_enough(lambda s, q=q: stats.binom.cdf(s, required + s, q), level)
        assert spares_needed(required, q, level) == expected
    with pytest.raises(ValueError, match="out of reach"):
        spares_needed(required, 1.0, level)


@cases("dispersion", [1.5, 5.8])
def test_hot_spares_in_a_common_environment_one_by_one(dispersion: float) -> None:
    """As spares are added the Beta law of q stays as it is for the required nodes."""
    total = (400 - dispersion) / (dispersion - 1.0)
    a, b = HBD_UNAVAILABILITY * total, (1.0 - HBD_UNAVAILABILITY) * total
    for level in (0.5, 0.99, 0.9999):
        expected = first_enough(lambda s: stats.betabinom.cdf(s, 400 + s, a, b), level)
        assert spares_needed(400, HBD_UNAVAILABILITY, level, dispersion) == expected


# -- bad input --------------------------------------------------------------------------------------------------------


@cases(
    ("function", "arguments", "text"),
    [
        (steady_unavailability, (0.0, 1.0), "life must be positive"),
        (steady_unavailability, (1.0, -1.0), "repair must be finite and not negative"),
        (missing_nodes_pmf, (0, 0.1), "nodes must be a whole number from 1"),
        (missing_nodes_pmf, (4, 1.1), r"unavailability must be in \[0, 1\]"),
        (missing_nodes_pmf, (4, math.nan), r"unavailability must be in \[0, 1\]"),
        (missing_nodes_pmf, (4, 0.1, 0.9), "dispersion must be at least 1"),
        (missing_nodes_pmf, (4, 0.1, 4.0), "below the number of nodes"),
        (repairs_pmf, (-1.0, 5), "offered must be"),
        (repairs_pmf, (1.0, -5), "largest must be a whole number from 0"),
        (crew_limited_pmf, (0, 1, 0.1, 1.0, 1), "required must be a whole number from 1"),
        (crew_limited_pmf, (1, -1, 0.1, 1.0, 1), "spares must be a whole number from 0"),
        (crew_limited_pmf, (1, 1, -0.1, 1.0, 1), "failure_rate must be"),
        (crew_limited_pmf, (1, 1, 0.1, 0.0, 1), "repair_rate must be positive"),
        (crew_limited_pmf, (1, 1, 0.1, 1.0, 0), "crews must be a whole number from 1"),
        (spares_needed, (10, 0.1, 1.0), "level must be above 0 and below 1"),
        (spares_needed, (10, 0.1, 0.9, 10.0), "dispersion must be"),
        (exceedance, ([0.7, 0.7],), "law must be one row"),
        (exceedance, ([[0.5, 0.5]],), "law must be one row"),
        (quantile, ([0.5, -0.5], 0.4), "law must be finite and not negative"),
        (enough_probability, ([1.0], -1), "spares must be a whole number from 0"),
        (expected_shortfall, ([1.0], 0.5), "spares must be a whole number from 0"),
    ],
)
def test_impossible_input_is_refused(function: Callable[..., object], arguments: tuple[object, ...], text: str) -> None:
    """Every rule has its one-line message."""
    with pytest.raises(ValueError, match=text) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
