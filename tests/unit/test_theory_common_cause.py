"""Nodes that do not fail independently, against brute force over all patterns, linear algebra and known mixtures."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.theory.availability import missing_nodes_pmf, repairs_pmf, steady_unavailability
from sim.theory.common_cause import beta_factor, domain_dispersion, domain_missing_pmf, domain_usable, gamma_mixed
from sim.theory.counts import enough_probability, exceedance, quantile
from sim.theory.redundancy import at_least_up, mean_time_to_shortage, series_mtti
from tests.property.common import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray


def patterns(domains: int, members: int, q1: float, q2: float) -> list[tuple[float, NDArray[np.bool_]]]:
    """Return all patterns of faults of domains and nodes: probability, and which nodes are down, by domain."""
    parts = domains * (1 + members)
    found = []
    for faults in itertools.product((False, True), repeat=parts):
        of_domain = np.array(faults[:domains])
        of_node = np.array(faults[domains:]).reshape(domains, members)
        weight = (
            q2 ** of_domain.sum() * (1 - q2) ** (~of_domain).sum() * q1 ** of_node.sum() * (1 - q1) ** (~of_node).sum()
        )
        found.append((float(weight), of_node | of_domain[:, None]))
    return found


@pytest.mark.parametrize(("q1", "q2"), [(0.1, 0.2), (0.7, 0.05), (0.0, 0.5), (0.3, 0.0), (0.2, 0.9), (1.0, 0.1)])
@pytest.mark.parametrize(("domains", "members"), [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2)])
def test_shocks_are_counted_by_brute_force(domains: int, members: int, q1: float, q2: float) -> None:
    """Over all patterns of faults: the law, its mean and dispersion, whole and usable domains."""
    exact, usable = np.zeros(domains * members + 1), np.zeros((members + 1, domains + 1))
    for weight, down in patterns(domains, members, q1, q2):
        exact[down.sum()] += weight
        for needed in range(members + 1):
            usable[needed, (members - down.sum(axis=1) >= needed).sum()] += weight
    law, k = domain_missing_pmf(domains, members, q1, q2), np.arange(domains * members + 1)
    assert law == pytest.approx(exact, rel=1e-12, abs=1e-15)
    q = 1 - (1 - q1) * (1 - q2)
    mean = float(exact @ k)
    assert mean == pytest.approx(k.size * q - q, rel=1e-12)
    dispersion = domain_dispersion(members, q1, q2)
    assert exact @ (k - mean) ** 2 == pytest.approx(dispersion * mean * (1 - q), rel=1e-10, abs=1e-14)
    for needed in range(1, members + 1):
        probability = domain_usable(members, needed, q1, q2)
        for count in range(domains + 1):
            runs = at_least_up(count, domains, 1 - probability)
            assert runs == pytest.approx(usable[needed, count:].sum(), rel=1e-11, abs=1e-15)


def test_shocks_reduce_to_independent_nodes() -> None:
    """Without faults of domains: binomial; domains of one node: the union of two faults; no faults of nodes: blocks."""
    assert domain_missing_pmf(7, 5, 0.13, 0.0) == pytest.approx(missing_nodes_pmf(35, 0.13), rel=1e-13)
    union = 1 - (1 - 0.13) * (1 - 0.02)
    assert domain_missing_pmf(40, 1, 0.13, 0.02) == pytest.approx(missing_nodes_pmf(40, union), rel=1e-9)
    blocks = domain_missing_pmf(7, 5, 0.0, 0.02)
    assert blocks[::5] == pytest.approx(missing_nodes_pmf(7, 0.02), rel=1e-13)
    assert blocks.sum() == pytest.approx(blocks[::5].sum(), rel=1e-14)
    assert domain_dispersion(5, 0.13, 0.0) == domain_dispersion(1, 0.13, 0.02) == domain_dispersion(5, 0.0, 0.0) == 1.0
    assert domain_dispersion(5, 0.0, 0.02) == pytest.approx(5.0, rel=1e-14)
    assert domain_dispersion([2, 18], [[0.1], [0.01]], 0.004).shape == (2, 2)
    assert domain_usable(18, 18, 0.003, 0.01) == pytest.approx(0.99 * 0.997**18, rel=1e-13)
    assert domain_usable(18, [16, 17, 18], 0.003, 0.01).shape == (3,)


@pytest.mark.parametrize(("domains", "members"), [(1111, 18), (5556, 18), (40, 500)])
def test_twenty_and_a_hundred_thousand_nodes(domains: int, members: int) -> None:
    """Sum, mean and variance are those of the formulas, and the 99 % quantile lies above that of independent nodes."""
    q1, q2 = 0.01, 0.002
    law, nodes = domain_missing_pmf(domains, members, q1, q2), domains * members
    q, k = 1 - (1 - q1) * (1 - q2), np.arange(nodes + 1)
    assert law.sum() == pytest.approx(1.0, rel=1e-12)
    assert law @ k == pytest.approx(nodes * q, rel=1e-11)
    variance = domain_dispersion(members, q1, q2) * nodes * q * (1 - q)
    assert law @ (k - nodes * q) ** 2 == pytest.approx(variance, rel=1e-9)
    assert quantile(law, 0.99) > quantile(missing_nodes_pmf(nodes, q), 0.99)


def test_shared_domains_and_a_shared_environment_differ_in_the_tail_only() -> None:
    """The beta-binomial law of the same dispersion has the same mean and variance, and is not the same law."""
    q1, q2, k = 0.02, 0.004, np.arange(18 * 60 + 1)
    law = domain_missing_pmf(60, 18, q1, q2)
    q, dispersion = 1 - (1 - q1) * (1 - q2), domain_dispersion(18, q1, q2)
    shared = missing_nodes_pmf(1080, q, dispersion)
    assert law @ k == pytest.approx(shared @ k, rel=1e-10)
    assert law @ k**2 == pytest.approx(shared @ k**2, rel=1e-10)
    assert np.abs(law - shared).sum() / 2 > 0.02


def test_survival_of_marshall_and_olkin() -> None:
    """Without repair two nodes of a domain both live at t with exp(-(2 a + b) t), one alone with exp(-(a + b) t)."""
    a, b = 0.3, 0.1
    for t in (0.1, 1.0, 5.0):
        law = domain_missing_pmf(1, 2, -math.expm1(-a * t), -math.expm1(-b * t))
        assert law[0] == pytest.approx(math.exp(-(2 * a + b) * t), rel=1e-12)
        assert law[0] + law[1] / 2 == pytest.approx(math.exp(-(a + b) * t), rel=1e-12)


def test_the_beta_factor_keeps_the_rate_of_a_node() -> None:
    """Both kinds sum to the rate of one node; of m nodes of a domain, m (1 - beta) + beta of the rate interrupts."""
    single, shared = beta_factor(1e-6, [0.0, 0.1, 1.0])
    assert single + shared == pytest.approx([1e-6] * 3, rel=1e-15)
    assert shared == pytest.approx([0.0, 1e-7, 1e-6], rel=1e-15)
    one, common = beta_factor(1e-6, 0.1)
    mtti = series_mtti([1 / one, 1 / common], [18, 1])
    assert mtti == pytest.approx(1e6 / (18 * 0.9 + 0.1), rel=1e-13)


def test_the_beta_factor_bounds_redundancy() -> None:
    """One of two with beta = 0.1: the failure of both is beta q to the first order (NUREG/CR-4780), not q squared."""
    for q in (1e-3, 1e-4, 1e-5):
        single, shared = beta_factor(q, 0.1)  # to the first order a probability is a rate times a repair
        both = domain_missing_pmf(1, 2, single, shared)[2]
        assert both == pytest.approx(0.1 * q + (0.9 * q) ** 2, rel=2 * q)
        assert both > 50 * q**2


@pytest.mark.parametrize(("a", "b", "mu", "nu"), [(0.05, 0.01, 0.5, 1.0), (0.4, 0.3, 0.5, 0.2), (2.0, 1.0, 0.1, 3.0)])
def test_what_is_down_cannot_fail_changes_little(a: float, b: float, mu: float, nu: float) -> None:
    """If nodes of a domain that is down do not fail, their odds are smaller by (mu + nu) / (mu + nu + b), exactly.

    States (node, domain) of one node, null vector of the generator.
    """
    generator = np.zeros((4, 4))  # up up, node down, domain down, both
    generator[0, 1], generator[0, 2], generator[1, 3] = a, b, b
    generator[1, 0], generator[3, 2], generator[2, 0], generator[3, 1] = mu, mu, nu, nu
    generator -= np.diag(generator.sum(axis=1))
    p = np.linalg.lstsq(np.vstack((generator.T, np.ones(4))), np.array([0, 0, 0, 0, 1.0]), rcond=None)[0]
    free = steady_unavailability(1 / a, 1 / mu)
    assert p[1] / p[0] == pytest.approx(free / (1 - free) * (mu + nu) / (mu + nu + b), rel=1e-10)
    assert p[2] + p[3] == pytest.approx(steady_unavailability(1 / b, 1 / nu), rel=1e-10)


# -- environments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variation", "offered"), [(0.01, 5.0), (0.4, 20.0), (3.0, 3.0), (1e-5, 1e4), (1e-3, 1e4)])
def test_a_gamma_environment_makes_poisson_negative_binomial(variation: float, offered: float) -> None:
    """Mixed over the factor, the law of M/G/infinity is that of `repairs_pmf` with dispersion 1 + v a."""
    largest = int(offered + 60 * math.sqrt(offered * (1 + variation * offered)))
    mixed = gamma_mixed(lambda z: repairs_pmf(offered * z, largest), variation)
    wide = repairs_pmf(offered, largest, 1 + variation * offered)
    assert np.abs(np.cumsum(mixed) - np.cumsum(wide)).max() < 1e-11


def test_the_stated_accuracy_holds_to_its_limit() -> None:
    """With v a = 30 the distribution function of the default is right to 1e-4; more points bring it down."""
    for variation, offered in ((0.1, 300.0), (1.0, 30.0), (3.0, 10.0)):
        largest = int(offered + 20 * math.sqrt(offered * 31))
        exact = np.cumsum(repairs_pmf(offered, largest, 31.0))

        def law(z: float, mean: float = offered, last: int = largest) -> NDArray[np.float64]:
            return repairs_pmf(mean * z, last)

        coarse, fine = (np.cumsum(gamma_mixed(law, variation, points)) for points in (128, 256))
        assert np.abs(coarse - exact).max() < 1e-4
        assert np.abs(fine - exact).max() < 1e-6


def test_moments_of_the_environment() -> None:
    """E Z = 1, Var Z = v, E Z^3 = (1 + v) (1 + 2 v), exactly; v = 0 is no environment."""
    for variation in (1e-8, 0.2, 1.0, 50.0):
        moments = gamma_mixed(lambda z: np.array([1.0, z, z**2, z**3]), variation, 8)
        expected = [1.0, 1.0, 1 + variation, (1 + variation) * (1 + 2 * variation)]
        assert moments == pytest.approx(expected, rel=1e-11)
    assert gamma_mixed(lambda z: 7.0 * z, 0.0) == 7.0


def test_redundancy_without_repair_in_an_environment() -> None:
    """A node lives beyond t with (1 + v t / life)^(-1/v) (Lomax); 2 of 3 by 3 R(2t) - 2 R(3t), R that law."""
    life, variation, t = 10.0, 0.8, 4.0

    def lives(times: float) -> float:
        return float((1 + variation * times / life) ** (-1 / variation))

    one = gamma_mixed(lambda z: at_least_up(1, 1, -math.expm1(-t * z / life)), variation)
    assert one == pytest.approx(lives(t), rel=1e-11)
    of_three = gamma_mixed(lambda z: at_least_up(2, 3, -math.expm1(-t * z / life)), variation)
    assert of_three == pytest.approx(3 * lives(2 * t) - 2 * lives(3 * t), rel=1e-11)
    # The mean time grows: E 1/Z = 1 / (1 - v) for v < 1.
    mean = gamma_mixed(lambda z: mean_time_to_shortage(2, 1, z / life, 0.0, 1), 0.3, 400)
    assert mean == pytest.approx(5 * life / 6 / 0.7, rel=1e-3)


def test_an_environment_of_domains_widens_their_law() -> None:
    """Both probabilities in proportion to the factor: the mean is ``N (q1 + q2 - q1 q2 E Z^2)``; P99 is far higher."""
    mixed = gamma_mixed(lambda z: domain_missing_pmf(50, 8, min(0.01 * z, 1.0), min(0.004 * z, 1.0)), 0.5)
    plain, k = domain_missing_pmf(50, 8, 0.01, 0.004), np.arange(401)
    assert mixed.sum() == pytest.approx(1.0, rel=1e-12)
    assert mixed @ k == pytest.approx(400 * (0.014 - 0.01 * 0.004 * 1.5), rel=1e-9)
    assert quantile(mixed, 0.99) > quantile(plain, 0.99)


SHARE = st.floats(0.0, 1.0)


@examples(60)
@given(st.integers(1, 6), st.integers(1, 6), SHARE, SHARE, SHARE)
def test_more_faults_bring_more_nodes_down(domains: int, members: int, q1: float, q2: float, other: float) -> None:
    """Raising either probability raises the whole exceedance curve; dispersions lie between 1 and m."""
    law = exceedance(domain_missing_pmf(domains, members, q1, q2))
    for worse in ((max(q1, other), q2), (q1, max(q2, other))):
        assert np.all(exceedance(domain_missing_pmf(domains, members, *worse)) >= law - 1e-12)
        assert domain_usable(members, members, *worse) <= domain_usable(members, members, q1, q2) + 1e-15
    assert 1.0 <= domain_dispersion(members, q1, q2) <= members + 1e-12
    nodes = domains * members
    run = enough_probability(domain_missing_pmf(domains, members, q1, q2), 0)
    assert run == pytest.approx((1 - q2) ** domains * (1 - q1) ** nodes, rel=1e-9, abs=1e-38)


def test_impossible_arguments_are_refused() -> None:
    """One line each, with what is wrong."""
    with pytest.raises(ValueError, match="beta must be in"):
        beta_factor(1.0, 1.1)
    with pytest.raises(ValueError, match="domains must be a whole number from 1"):
        domain_missing_pmf(0, 3, 0.1, 0.1)
    with pytest.raises(ValueError, match="domain_unavailability must be in"):
        domain_dispersion(3, 0.1, -0.1)
    with pytest.raises(ValueError, match="needed must be at most the number of nodes"):
        domain_usable(3, 4, 0.1, 0.1)
    with pytest.raises(ValueError, match="variation must be finite and not negative"):
        gamma_mixed(lambda z: z, -0.1)
