"""Nodes down on the way from a fresh cluster, with common causes, and in episodes: simulation against closed forms.

The closed forms themselves are compared with matrix exponentials, sums over all patterns and linear algebra at the end.

Clusters that nobody uses, unless a job is named. Replications are independent, so each interval comes from their
number: Student's for means, the binomial law for shares of replications. All checks of a test share one chance of a
false alarm, `ERROR`. What must not fit is so far off that it is missed with less than that.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import linalg, stats

import sim
from sim.formulas.nodes import missing_nodes_pmf, repairs_pmf, steady_unavailability
from tests.cases import cases
from tests.harness import prepared
from tests.intervals import rival_seed
from tests.oracle.theory.nodes import (
    cold_start_share,
    domain_missing_pmf,
    gamma_mixed,
    mean_repairs,
    relaxation_time,
    repairs_at,
    shortage,
    unavailability_at,
    unavailability_curve,
)
from tests.pace import SEED, one_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

ERROR = 5e-5
DAY = 86400.0
LEVELS = (0.1, 0.5, 0.8, 0.95)


def near(sample: NDArray[Any], expected: float, checks: int = 1) -> bool:
    """Return whether the mean of independent draws is what theory says, by Student's law."""
    limit = float(stats.t.isf(ERROR / checks / 2, sample.size - 1))
    return bool(abs(sample.mean() - expected) <= limit * sample.std(ddof=1) / math.sqrt(sample.size))


def counts_fit(counts: NDArray[np.int64], law: NDArray[np.float64], checks: int = 1) -> bool:
    """Return whether independent counts reach four quantiles of a law as often as they should."""
    reached = np.minimum(np.cumsum(law), 1.0)
    points = sorted({int(np.searchsorted(reached, level)) for level in LEVELS})
    return all(
        stats.binomtest(int((counts <= point).sum()), counts.size, float(reached[point])).pvalue
        > ERROR / checks / len(points)
        for point in points
    )


def times_fit(results: list[sim.Result], law: NDArray[np.float64]) -> bool:
    """Return whether the shares of time with at most so many nodes down are those of a law, at four quantiles."""
    reached = np.minimum(np.cumsum(law), 1.0)
    points = sorted({int(np.searchsorted(reached, level)) for level in LEVELS})
    rows = [
        [sum(time for count, time in result.down_times.items() if count <= point) for point in points]
        for result in results
    ]
    shares = np.array(rows) / np.array([[sum(result.down_times.values())] for result in results])
    return all(near(column, reached[point], len(points)) for column, point in zip(shares.T, points, strict=True))


def exponential(days: float) -> dict[str, Any]:
    """Return an exponential law by its mean [day]."""
    return {"law": "exponential", "mean": f"{days!r} d"}


def fault(life: float, repair: dict[str, Any] | None, part: str = "node", **changes: Any) -> dict[str, Any]:
    """Return a source of parts with exponential lives that begin at return [day]."""
    entry = {"use": "component", "name": part, "part": part, "law": exponential(life), "renews": "at_return"} | changes
    return entry if repair is None else {**entry, "repair": repair}


def idle(nodes: int, days: float, failures: list[dict[str, Any]], **changes: Any) -> sim.Prepared:
    """Return a cluster of nodes in new condition whose one job arrives when it is over."""
    cluster = {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}}
    return prepared(
        cluster=cluster | changes.pop("cluster", {}),
        horizon=f"{days!r} d",
        jobs=[{"name": "none", "gpus": 1, "arrival": f"{days!r} d"}],
        failures=failures,
        seed=SEED,
        **changes,
    )


def down_at(case: sim.Prepared, day: float, replications: int) -> NDArray[np.int64]:
    """Return the number of nodes down at a time in each replication."""
    results = (sim.run(case, number, keeps_log=True) for number in range(replications))
    moment = day * DAY
    return np.array([sum(outage.start <= moment < outage.end for outage in result.outages) for result in results])


# -- cold start -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [0.5, 2.0, 10.0, 60.0])
def test_the_mean_over_a_horizon_from_new(horizon: float) -> None:
    """Exponential lives and repairs, windows of a sixth of the relaxation time to twenty: the share of the long run.

    The long run itself does not fit, nor do lives that are a third shorter.
    """
    nodes, life, repair = 300, 20.0, 3.3
    case = idle(nodes, horizon, [fault(life, exponential(repair))])
    results = [sim.run(case, number) for number in range(100)]
    ours = np.array([result.down_node_seconds / result.node_seconds for result in results])

    def theory(life: float) -> float:
        return steady_unavailability(life, repair) * cold_start_share(horizon, relaxation_time(life, repair))

    assert near(ours, theory(life), 3)
    assert not near(ours, steady_unavailability(life, repair), 3)
    assert not near(ours, theory(life / 1.5), 3)


@pytest.mark.parametrize("warmup", [1.0, 4.0])
def test_a_warm_up_hides_the_cold_start(warmup: float) -> None:
    """The window after a warm-up sees more of the long run, as much as theory says."""
    nodes, life, repair, horizon = 300, 20.0, 3.3, 2.0
    case = idle(nodes, horizon, [fault(life, exponential(repair))], warmup=f"{warmup!r} d")
    results = [sim.run(case, number) for number in range(100)]
    ours = np.array([result.down_node_seconds / result.node_seconds for result in results])
    tau, limit = relaxation_time(life, repair), steady_unavailability(life, repair)
    assert near(ours, limit * cold_start_share(horizon, tau, warmup))
    assert not near(ours, limit * cold_start_share(horizon, tau))


@pytest.mark.parametrize("day", [0.5, 3.0, 12.0])
def test_nodes_down_at_a_time_are_binomial(day: float) -> None:
    """Of 100 nodes the number down at t is binomial with q(t); at twice the failure rate it is not."""
    nodes, life, repair = 100, 15.0, 3.0
    counts = down_at(idle(nodes, day + 0.1, [fault(life, exponential(repair))]), day, 300)
    assert counts_fit(counts, missing_nodes_pmf(nodes, unavailability_at(day, life, repair)), 2)
    assert near(counts, nodes * unavailability_at(day, life, repair), 2)
    assert not counts_fit(counts, missing_nodes_pmf(nodes, unavailability_at(day, life / 2, repair)))


@pytest.mark.parametrize("renews", one_in(2, ["at_return", "at_failure"]))
@pytest.mark.parametrize(
    ("repair", "law"),
    [
        ({"law": "lognormal", "median": "1 d", "sigma": 1.3}, stats.lognorm(1.3)),
        ({"law": "fixed", "value": "3 d"}, stats.uniform(3.0, 1e-9)),
        ({"law": "weibull", "shape": 0.6, "scale": "2 d"}, stats.weibull_min(0.6, scale=2.0)),
    ],
)
def test_any_law_of_repair_on_the_way(repair: dict[str, Any], law: stats.distributions.rv_frozen, renews: str) -> None:
    """Repairs of any law: binomial with the unavailability of the renewal equation, whenever the next life begins.

    An exponential repair of the same mean does not fit.
    """
    nodes, life, horizon = 100, 15.0, 10.0
    counts = down_at(idle(nodes, horizon / 4 + 0.1, [fault(life, repair, renews=renews)]), horizon / 4, 500)
    curve = unavailability_curve(horizon, life, law.sf, 400)
    assert counts_fit(counts, missing_nodes_pmf(nodes, float(curve[100])))
    wrong = unavailability_at(horizon / 4, life, float(law.mean()))
    assert not counts_fit(counts, missing_nodes_pmf(nodes, wrong))


def test_repairs_behind_a_job_that_has_just_begun() -> None:
    """A full job, and nodes that fail only in it: the number in repair at t is Poisson with a(t), long tail or not."""
    nodes, life, sigma = 50, 20.0, 1.5
    repair = {"law": "lognormal", "median": "1 d", "sigma": sigma}
    case = prepared(
        cluster={"nodes": 150, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        horizon="12 d",
        jobs=[{"name": "job", "gpus": nodes}],
        failures=[fault(life, repair, clock="busy", renews="at_failure")],
        recovery={"use": "hot-spare", "initialize": "0 s", "pools": ["idle"]},
        checkpoint={"tiers": [{"interval": "1 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        seed=SEED,
    )
    results = [sim.run(case, number, keeps_log=True) for number in range(400)]
    survival = stats.lognorm(sigma).sf
    for day in (1.0, 4.0, 11.0):
        moment = day * DAY
        counts = np.array([sum(each.start <= moment < each.end for each in result.outages) for result in results])
        mean = repairs_at(day, nodes / life, survival)
        assert counts_fit(counts, repairs_pmf(mean, 60), 3)
        assert not counts_fit(counts, repairs_pmf(nodes / life * math.exp(sigma**2 / 2), 60), 3)
    ours = np.array([sum(outage.end - outage.start for outage in result.outages) / (12 * DAY) for result in results])
    assert near(ours, mean_repairs(12.0, nodes / life, survival))


# -- common causes ----------------------------------------------------------------------------------------------------

RACKS = {"rack": {"nodes": 8}}
LEAVES = {"fabric": {"rails": 1, "leaf": {"nodes": 8}}}


@pytest.mark.parametrize(("part", "cluster"), [("rack", RACKS), ("leaf", LEAVES)])
def test_shocks_of_domains_in_the_long_run(part: str, cluster: dict[str, Any]) -> None:
    """Nodes and racks, or leaf switches, fail and are repaired: the law of the nodes down is that of the shocks.

    Independent nodes of the same unavailability have another law, and so have domains that fail twice as often.
    """
    domains, life, repair, between, mend = 12, 60.0, 2.0, 120.0, 1.0
    failures = [fault(life, exponential(repair)), fault(between, exponential(mend), part)]
    case = idle(8 * domains, 400.0, failures, cluster=cluster, warmup="40 d")
    results = [sim.run(case, number) for number in range(40)]
    q1, q2 = steady_unavailability(life, repair), steady_unavailability(between, mend)
    assert times_fit(results, domain_missing_pmf(domains, 8, q1, q2))
    q = 1 - (1 - q1) * (1 - q2)
    assert not times_fit(results, missing_nodes_pmf(8 * domains, q))
    assert not times_fit(results, domain_missing_pmf(domains, 8, q1, steady_unavailability(between / 2, mend)))


@pytest.mark.parametrize("day", [1.0, 8.0])
def test_shocks_of_domains_on_the_way(day: float) -> None:
    """At t after a start with all up it is the same law, with the two probabilities at t."""
    domains, life, repair, between, mend = 12, 30.0, 2.0, 25.0, 1.0
    failures = [fault(life, exponential(repair)), fault(between, exponential(mend), "rack")]
    case = idle(8 * domains, day + 0.1, failures, cluster=RACKS)
    counts = down_at(case, day, 400)
    q1, q2 = unavailability_at(day, life, repair), unavailability_at(day, between, mend)
    assert counts_fit(counts, domain_missing_pmf(domains, 8, q1, q2))
    assert not counts_fit(counts, missing_nodes_pmf(8 * domains, 1 - (1 - q1) * (1 - q2)))


def test_what_is_down_cannot_fail() -> None:
    """Domains that are down a third of the time: the odds of their nodes are smaller by (mu + nu) / (mu + nu + b).

    The mean is that of the correction; without it, it does not fit.
    """
    life, repair, between, mend = 4.0, 2.0, 4.0, 2.0
    failures = [fault(life, exponential(repair)), fault(between, exponential(mend), "rack")]
    case = idle(96, 150.0, failures, cluster=RACKS, warmup="30 d")
    results = [sim.run(case, number) for number in range(24)]
    ours = np.array([result.down_node_seconds / result.node_seconds for result in results])
    rates = 1 / repair + 1 / mend
    odds, q2 = repair / life * rates / (rates + 1 / between), steady_unavailability(between, mend)
    assert near(ours, 1 - (1 - q2) / (1 + odds))
    assert not near(ours, 1 - (1 - q2) / (1 + repair / life))


@pytest.mark.nightly
def test_an_environment_that_differs_between_clusters() -> None:
    """Each cluster has its own failure rate, Gamma-distributed: the number down at t has the mixed law.

    The binomial law of the mean rate does not fit.
    """
    nodes, life, repair, day, variation = 60, 15.0, 3.0, 4.0, 0.5
    factors = rival_seed(SEED).gamma(1 / variation, variation, 300)
    counts = np.array(
        [
            down_at(idle(nodes, 4.1, [fault(life / factor, exponential(repair), name=f"case {index}")]), day, 1)[0]
            for index, factor in enumerate(factors.tolist())
        ]
    )
    mixed = gamma_mixed(lambda z: missing_nodes_pmf(nodes, unavailability_at(day, life / z, repair)), variation)
    assert counts_fit(counts, mixed)
    assert not counts_fit(counts, missing_nodes_pmf(nodes, unavailability_at(day, life, repair)))


# -- episodes ---------------------------------------------------------------------------------------------------------


def episodes_of(result: sim.Result, spares: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return when episodes with more than so many nodes down began, and when they ended [day]."""
    times = np.array([(outage.start, outage.end) for outage in result.outages]) / DAY
    change = np.repeat([1, -1], len(times))
    moments = times.ravel(order="F")
    order = np.argsort(moments, kind="stable")
    short = np.cumsum(change[order]) > spares
    turns = np.flatnonzero(np.diff(np.concatenate(([0], short.astype(int)))))
    edges = moments[order][turns]
    return edges[0::2], edges[1::2]


@pytest.mark.parametrize(("spares", "crews"), one_in(3, [(2, 3), (4, 3), (4, 30)]))
def test_episodes_with_too_few_nodes(spares: int, crews: int) -> None:
    """Of 30 nodes more than s are down: mean time to the first episode from new, mean length and gap of the next 20.

    One spare less does not fit, and one crew more where crews are short.
    """
    nodes, life, repair, cycles = 30, 20.0, 2.0, 20
    tier = {"name": "bench", "time": exponential(repair), "crews": crews}
    case = idle(nodes, 400.0, [fault(life, None)], repair={"use": "tiers", "tiers": [tier]})
    rows = np.empty((100, 3))
    for number, row in enumerate(rows):
        begins, ends = episodes_of(sim.run(case, number, keeps_log=True), spares)
        assert begins.size > cycles + 1, "a fixed number of whole cycles, or the horizon would prefer short ones"
        lengths, gaps = ends[:cycles] - begins[:cycles], begins[1 : cycles + 1] - ends[:cycles]
        row[:] = begins[0], lengths.mean(), gaps.mean()

    def fits(spares: int, crews: int) -> bool:
        expected = shortage(nodes - spares, spares, 1 / life, 1 / repair, crews)
        return all(near(column, value, 3) for column, value in zip(rows.T, expected, strict=True))

    assert fits(spares, crews)
    assert not fits(spares - 1, crews)
    assert fits(spares, crews + 1) == (crews == nodes)


# -- the closed forms -------------------------------------------------------------------------------------------------


def generator(births: list[float], deaths: list[float]) -> NDArray[np.float64]:
    """Return the generator of a chain that goes from k to k + 1 and back at these rates."""
    matrix = np.diag(births, 1) + np.diag(deaths, -1)
    return np.asarray(matrix - np.diag(matrix.sum(axis=1)))


@cases("time", [0.01, 0.7, 3.0, 40.0])
def test_the_law_at_a_time_is_the_matrix_exponential(time: float) -> None:
    """First row of exp(t G), G the generator of the number down of 8 nodes with a crew each; and Cox's equation."""
    life, repair = 5.0, 2.0
    chain = generator([(8 - down) / life for down in range(8)], [down / repair for down in range(1, 9)])
    unavailability = unavailability_at(time, life, repair)
    assert missing_nodes_pmf(8, unavailability) == pytest.approx(linalg.expm(time * chain)[0], rel=1e-9, abs=1e-14)
    curve = unavailability_curve(time, life, lambda u: np.exp(-u / repair))
    assert curve[-1] == pytest.approx(unavailability, rel=1e-4)
    assert cold_start_share(time, relaxation_time(life, repair)) == pytest.approx(
        np.trapezoid(curve, dx=1e-3) / steady_unavailability(life, repair), rel=1e-4
    )


def test_repairs_at_a_time_are_the_integral_of_their_survival() -> None:
    """Of exponential repairs a(t) = a (1 - exp(-t / r)), its mean over [0, T] is a (1 - (1 - exp(-T / r)) r / T)."""
    rate, repair, time = 0.4, 3.0, 7.0
    arrived = -math.expm1(-time / repair)

    def survival(u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-u / repair)

    assert repairs_at(time, rate, survival) == pytest.approx(rate * repair * arrived, rel=1e-12)
    mean = rate * repair * (1 - arrived * repair / time)
    assert mean_repairs(time, rate, survival) == pytest.approx(mean, rel=1e-12)


@cases(("domains", "members"), [(1, 4), (4, 1), (2, 3)])
@cases(("q1", "q2"), [(0.1, 0.2), (0.7, 0.05), (0.0, 0.5), (0.3, 0.0)])
def test_shocks_are_counted_by_brute_force(domains: int, members: int, q1: float, q2: float) -> None:
    """Over all patterns of faults of nodes and domains."""
    exact = np.zeros(domains * members + 1)
    for faults in itertools.product((False, True), repeat=domains * (1 + members)):
        of_domain, of_node = np.array(faults[:domains]), np.array(faults[domains:]).reshape(domains, members)
        chances = np.concatenate((np.where(of_domain, q2, 1 - q2), np.where(of_node, q1, 1 - q1).ravel()))
        exact[(of_node | of_domain[:, None]).sum()] += chances.prod()
    assert domain_missing_pmf(domains, members, q1, q2) == pytest.approx(exact, rel=1e-12, abs=1e-15)


def test_a_gamma_environment_makes_poisson_negative_binomial() -> None:
    """Mixed over the factor, the law of M/G/infinity is the negative binomial one with dispersion 1 + v a."""
    for variation, offered in ((0.01, 5.0), (0.4, 20.0), (3.0, 3.0)):
        mixed = gamma_mixed(lambda z, offered=offered: repairs_pmf(offered * z, 400), variation)
        assert mixed == pytest.approx(repairs_pmf(offered, 400, 1 + variation * offered), abs=1e-10)


@cases("crews", [1, 2, 9])
@cases(("required", "spares"), [(1, 0), (1, 3), (4, 2), (3, 5)])
def test_the_chain_by_linear_algebra(required: int, spares: int, crews: int) -> None:
    """First passages from the generator: all healthy to short, s + 1 back to s, and s to s + 1 down."""
    nodes, fails, repairs = required + spares, 0.3, 0.8
    births = [fails * (nodes - down) for down in range(nodes)]
    chain = generator(births, [repairs * min(down, crews) for down in range(1, nodes + 1)])
    there = np.linalg.solve(chain[: spares + 1, : spares + 1], -np.ones(spares + 1))
    back = np.linalg.solve(chain[spares + 1 :, spares + 1 :], -np.ones(required))
    found = shortage(required, spares, fails, repairs, crews)
    assert found == pytest.approx((there[0], back[0], there[-1]), rel=1e-11)
