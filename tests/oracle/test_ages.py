"""Hosts that have run before the simulation starts: first lives against P(X > a + x | X > a), later ones like new.

References
----------
R. E. Barlow, F. Proschan, "Statistical Theory of Reliability and Life Testing" (1975): the residual life of a unit of
age a has the survival function S(a + x) / S(a). F. J. Massey, "The Kolmogorov-Smirnov test for goodness of fit",
Journal of the American Statistical Association 46 (1951); the bound used here is that of Dvoretzky, Kiefer, Wolfowitz
and Massart, P(D > d) <= 2 exp(-2 n d^2), which holds for every n.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from scipy import integrate, stats

import sim
from sim.failures import Component, draw_trace
from sim.failures.variety import fleet_of
from tests.cases import cases
from tests.harness import prepared
from tests.intervals import LEAST, Z, close

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sim.failures import Source

    Numbers: TypeAlias = NDArray[np.float64]

DAY = 86400.0
YEAR = 31556952.0
NODES = 20_000
COUNTS = {"node": NODES, "gpu": 8 * NODES, "nic": 8 * NODES, "rack": NODES}

WEIBULL_OLD = {"law": "weibull", "shape": 3, "scale": "500 d"}
WEIBULL_YOUNG = {"law": "weibull", "shape": 0.7, "scale": "500 d"}
BATHTUB = {
    "law": "piecewise",
    "hazards": [
        {"until": "30 d", "rate": "2 per year"},
        {"until": "600 d", "rate": "0.1 per year"},
        {"rate": "3 per year"},
    ],
}
MIXTURE = {
    "law": "mixture",
    "parts": [
        {"weight": 0.3, "law": {"law": "weibull", "shape": 0.6, "scale": "20 d"}},
        {"weight": 0.7, "law": {"law": "lognormal", "median": "1000 d", "sigma": 0.5}},
    ],
}


def bathtub(x: Numbers) -> Numbers:
    """Return the survival function of BATHTUB by integration of its hazard, one day after the other."""
    days = np.arange(0.0, 6001.0)
    hazard = np.select([days[:-1] < 30, days[:-1] < 600], [2.0, 0.1], 3.0) * DAY / YEAR
    hazards = np.concatenate([[0.0], np.cumsum(hazard)])
    return np.asarray(np.exp(-np.interp(x / DAY, days, hazards)))


def mixture(x: Numbers) -> Numbers:
    """Return the survival function of MIXTURE."""
    infants, others = stats.weibull_min(0.6, scale=20 * DAY), stats.lognorm(0.5, scale=1000 * DAY)
    return np.asarray(0.3 * infants.sf(x) + 0.7 * others.sf(x))


LAWS: dict[str, tuple[dict[str, Any], Callable[[Numbers], Numbers]]] = {
    "wear-out": (WEIBULL_OLD, stats.weibull_min(3, scale=500 * DAY).sf),
    "burn-in": (WEIBULL_YOUNG, stats.weibull_min(0.7, scale=500 * DAY).sf),
    "bathtub": (BATHTUB, bathtub),
    "mixture": (MIXTURE, mixture),
}


def source_of(law: Any, ages: tuple[tuple[int, float], ...] = (), part: str = "node", **entry: Any) -> Source:
    """Return a source whose units have one life each, of pools of hosts of some ages."""
    described = {"name": "fault", "part": part, "law": law, "renews": "never", **entry}
    return replace(Component.model_validate(described).build(COUNTS, 1), ages=ages)


def first_lives(source: Source, seed: int = 1) -> Numbers:
    """Return the first life of each unit, by unit [s]."""
    drawn = draw_trace([source], math.inf, seed, 0)
    first = drawn.round == 0
    lives = np.full(source.units, np.nan)
    lives[drawn.slot[first]] = drawn.time[first]
    assert not np.isnan(lives).any()
    return lives


def agrees(uniform: Numbers) -> bool:
    """Return whether numbers are uniform on (0, 1), by the greatest distance of their distribution from its own."""
    distance = float(stats.kstest(uniform, "uniform").statistic)
    return distance <= math.sqrt(math.log(2 / LEAST) / (2 * len(uniform)))


# ------------------------------------------------------------------------------------------------ residual lives


@pytest.mark.parametrize("age", [10.0, 400.0, 900.0])
@pytest.mark.parametrize("name", LAWS)
def test_first_lives_are_residual_lives(name: str, age: float) -> None:
    """S(a + x) / S(a) is uniform; S(x), as if the units were new, is not."""
    law, survival = LAWS[name]
    lives = first_lives(source_of(law, ((NODES, age * DAY),)))
    assert agrees(survival(age * DAY + lives) / survival(np.array([age * DAY])))
    if age >= 400:
        assert not agrees(survival(lives)), "units like new must fall outside"


@cases("age", [1500.0, 1826.0, 4000.0])
def test_units_far_beyond_their_mean_life(age: float) -> None:
    """Where next to nobody has survived, what is left still follows the hazard: H(a + x) - H(a) is exponential."""
    lives = first_lives(source_of(WEIBULL_OLD, ((NODES, age * DAY),)))
    scale = 500 * DAY
    start = age * DAY
    # (a + x)^3 - a^3 without the difference of two large numbers.
    grown = lives * (3 * start**2 + 3 * start * lives + lives**2) / scale**3
    assert agrees(np.exp(-grown))
    assert len(np.unique(lives)) == NODES


@pytest.mark.parametrize("name", LAWS)
def test_the_mean_residual_life(name: str) -> None:
    """E[X - a | X > a] is the integral of S from a on, over S(a)."""
    law, survival = LAWS[name]
    age = 400 * DAY
    lives = first_lives(source_of(law, ((NODES, age),)), seed=2)
    days = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 200_001)])
    tail = survival(age + days * DAY) / survival(np.array([age]))
    expected = float(integrate.trapezoid(tail, days)) * DAY
    assert close(lives, expected)


@pytest.mark.parametrize("name", LAWS)
def test_each_pool_has_its_own_age(name: str) -> None:
    """Of three pools, one new, each follows its own age and not that of its neighbour."""
    law, survival = LAWS[name]
    sizes, ages = (6000, 4000, 10_000), (500 * DAY, 0.0, 50 * DAY)
    lives = first_lives(source_of(law, tuple(zip(sizes, ages, strict=True))))
    first = 0
    for size, age in zip(sizes, ages, strict=True):
        mine = lives[first : first + size]
        assert agrees(survival(age + mine) / survival(np.array([age])))
        first += size
    old, new = lives[:6000], lives[6000:10_000]
    assert not agrees(survival(500 * DAY + new) / survival(np.array([500 * DAY])))
    assert not agrees(survival(old))


@pytest.mark.parametrize("part", ["gpu", "nic"])
def test_all_parts_of_a_node_have_its_age(part: str) -> None:
    """Eight GPUs or NICs a node: those of the last nodes, which are the old ones, wear out sooner."""
    survival = LAWS["wear-out"][1]
    age = 400 * DAY
    lives = first_lives(source_of(WEIBULL_OLD, ((15_000, 0.0), (5000, age)), part=part))
    assert agrees(survival(lives[: 8 * 15_000]))
    assert agrees(survival(age + lives[8 * 15_000 :]) / survival(np.array([age])))


def test_ages_meet_the_same_numbers() -> None:
    """Residual lives are look-ups like all others: an older unit with the same number has less left if it wears out.

    A pool of the age zero has the lives of new units.
    """
    new = first_lives(source_of(WEIBULL_OLD))
    zero = first_lives(source_of(WEIBULL_OLD, ((NODES, 0.0),)))
    assert zero == pytest.approx(new, rel=1e-9)
    older = [first_lives(source_of(WEIBULL_OLD, ((NODES, age * DAY),))) for age in (100, 200, 400)]
    for one, other in zip([new, *older], older, strict=False):
        assert (other < one).all()
    younger = first_lives(source_of(WEIBULL_YOUNG, ((NODES, 100 * DAY),)))
    assert (younger > first_lives(source_of(WEIBULL_YOUNG))).all(), "who burns in has the longer the more to come"


def test_later_lives_are_new() -> None:
    """The second life of a unit is drawn as without an age: whole, and the very same one."""
    old = source_of(WEIBULL_OLD, ((NODES, 400 * DAY),), renews="at_failure")
    gaps = []
    for source in (old, source_of(WEIBULL_OLD, renews="at_failure")):
        drawn = draw_trace([source], 3000 * DAY, 1, 0)
        times = np.full((2, NODES), np.nan)
        for number in range(2):
            mine = drawn.round == number
            times[number, drawn.slot[mine]] = drawn.time[mine]
        gaps.append(times[1] - times[0])
    both = ~np.isnan(gaps[0]) & ~np.isnan(gaps[1])
    assert both.mean() > 0.99
    assert gaps[0][both] == pytest.approx(gaps[1][both], rel=1e-6)
    assert agrees(LAWS["wear-out"][1](gaps[0][~np.isnan(gaps[0])]))


# ------------------------------------------------------------------------------------------- nodes that differ


@pytest.mark.parametrize("name", LAWS)
def test_frail_nodes_of_some_age(name: str) -> None:
    """With the hazard ratio h of its node, a unit of age a survives x more with (S(a + x) / S(a))^h."""
    law, survival = LAWS[name]
    age = 300 * DAY
    source = source_of(law, ((NODES, age),), frailty={"shape": 0.7})
    ratio = fleet_of(source, 1, 0).ratio
    assert ratio is not None
    lives = first_lives(source)
    left = survival(age + lives) / survival(np.array([age]))
    frail = ratio > 0.5
    assert agrees(left[frail] ** ratio[frail])
    assert not agrees(left[frail]), "equal nodes must fall outside"
    # The others, who often outlive all that a number between 0 and 1 can tell, by their failures in a year.
    chance = 1 - (survival(np.array([age + YEAR])) / survival(np.array([age]))) ** ratio[~frail]
    failed = int((lives[~frail] < YEAR).sum())
    assert abs(failed - float(chance.sum())) <= Z * math.sqrt(float((chance * (1 - chance)).sum()))
    assert failed > 100


def test_batches_of_some_age() -> None:
    """A third of the fleet has another law, a fifth three times the hazard: each its own residual life."""
    other = {"law": "weibull", "shape": 2, "scale": "200 d"}
    age = 250 * DAY
    source = source_of(WEIBULL_OLD, ((NODES, age),), batches=[{"share": 0.3, "law": other}, {"share": 0.2, "ratio": 3}])
    fleet = fleet_of(source, 1, 0)
    assert fleet.which is not None
    assert fleet.ratio is not None
    lives = first_lives(source)
    usual, theirs = stats.weibull_min(3, scale=500 * DAY), stats.weibull_min(2, scale=200 * DAY)
    for mine, law, ratio in (
        (fleet.which == 1, theirs, 1.0),
        (fleet.ratio == 3, usual, 3.0),
        ((fleet.which == 0) & (fleet.ratio == 1), usual, 1.0),
    ):
        assert mine.sum() > 3000
        assert agrees((law.sf(age + lives[mine]) / law.sf(age)) ** ratio)


# --------------------------------------------------------------------------------------------- through scenarios


def case(law: Any, ages: tuple[str, ...], **more: Any) -> sim.Prepared:
    """Return pools of 100 nodes each, with nodes that fail by a law."""
    pools = [{"count": 100, "accelerator": "h100", "age": age} for age in ages]
    cluster = {"pools": pools, "gpus_per_node": 1, "fabric": {"rails": 1}}
    failures = [{"use": "component", "name": "node", "part": "node", **law}]
    return prepared(**{"cluster": cluster, "failures": failures, "horizon": "300 d", "repair": {"time": "1 d"}} | more)


def test_ages_of_pools_reach_the_parts_of_nodes() -> None:
    """A source knows the pools with their ages; racks and jobs, which belong to no pool, are new."""
    shared = {"use": "component", "name": "rack", "part": "rack", "law": WEIBULL_OLD}
    job = {"use": "job", "name": "job", "law": WEIBULL_OLD}
    node = {"use": "component", "name": "node", "part": "node", "law": WEIBULL_OLD}
    one = case({}, ("2 year", "0 d"), failures=[node, shared, job])
    assert [source.ages for source in one.sources] == [((100, pytest.approx(2 * YEAR, rel=1e-3)), (100, 0.0)), (), ()]


def test_failures_of_old_nodes_in_a_replication() -> None:
    """Pooled over replications, first failures of either pool within the horizon follow their age."""
    one = case({"law": WEIBULL_OLD, "renews": "never"}, ("400 d", "0 d"))
    usual = stats.weibull_min(3, scale=500 * DAY)
    firsts: list[list[float]] = [[], []]
    runs = 60
    for replication in range(runs):
        drawn = sim.trace(one, replication)
        for time, slot in zip(drawn.time.tolist(), drawn.slot.tolist(), strict=True):
            firsts[slot // 100].append(time)
    for times, age in zip(firsts, (400 * DAY, 0.0), strict=True):
        share = 1 - usual.sf(age + 300 * DAY) / usual.sf(age)
        total = 100 * runs
        assert abs(len(times) - total * share) <= Z * math.sqrt(total * share * (1 - share))
        assert agrees((1 - usual.sf(age + np.array(times)) / usual.sf(age)) / share)


@pytest.mark.parametrize(
    "law",
    [
        {"rate": "10 per 1000 node-day"},
        {"law": {"law": "weibull", "shape": 1, "scale": "100 d"}},
        {"rate": "10 per 1000 node-day", "renews": "at_return", "frailty": {"shape": 0.7}},
        {"rate": "10 per 1000 node-day", "batches": [{"share": 0.3, "ratio": 4}]},
    ],
    ids=["rate", "shape 1", "frailty", "batches"],
)
def test_a_constant_rate_knows_no_age(law: dict[str, Any]) -> None:
    """With and without ages, a replication is the same bit by bit; where units wear out it is not."""
    new, old = case(law, ("0 d", "0 d")), case(law, ("3 year", "1 d"))
    for replication in range(3):
        one, other = sim.trace(new, replication), sim.trace(old, replication)
        for name in ("time", "source", "slot", "round"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert len(one.time) > 100
        ours, theirs = sim.run(new, replication), sim.run(old, replication)
        assert np.array_equal(ours.jobs[0].totals, theirs.jobs[0].totals)
        assert np.array_equal(ours.outside, theirs.outside)
        assert ours.counts == theirs.counts
    new, old = (case({"law": WEIBULL_OLD}, ages) for ages in (("0 d", "0 d"), ("3 year", "1 d")))
    assert not np.array_equal(sim.trace(new, 0).time, sim.trace(old, 0).time)


# ------------------------------------------------------------------------------------------------- by hand

HUNDRED = {"law": {"law": "fixed", "value": "500 s"}}
"""Lives of 500 s each: of a node that is 400 s old, 100 s are left."""


def by_hand(entry: dict[str, Any], **more: Any) -> sim.Prepared:
    """Return a job on two nodes that are 400 s old, two new ones beside it, and lives of 500 s."""
    pools = [{"count": 2, "accelerator": "h100", "age": "400 s"}, {"count": 2, "accelerator": "h100"}]
    cause = {"use": "component", "name": "node", "part": "node", **HUNDRED, **entry}
    base: dict[str, Any] = {
        "cluster": {"pools": pools, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "failures": [cause],
        "repair": {"time": "50 s"},
    }
    return prepared(**base | more)


def failures_of(one: sim.Prepared) -> list[tuple[float, int]]:
    """Return when each node went down in the first replication: time and node."""
    result = sim.run(one, 0, keeps_log=True)
    return [(round(outage.start, 6), outage.node) for outage in result.outages]


def test_old_nodes_fail_first_and_then_like_new_ones() -> None:
    """Nodes 0 and 1 at 100 s; 50 s of repair; then after 500 s more, and the new nodes at 500 s."""
    expected = [(100.0, 0), (100.0, 1), (500.0, 2), (500.0, 3), (650.0, 0), (650.0, 1)]
    assert failures_of(by_hand({"renews": "at_return"})) == expected
    # Renewed at the failure itself, the next life ends at 600 s.
    assert failures_of(by_hand({"renews": "at_failure"}))[4:] == [(600.0, 0), (600.0, 1)]


def test_a_replaced_node_is_new() -> None:
    """Every blamed node is retired and replaced 50 s later by a new one, which lives for 500 s from then on."""
    repair = {
        "use": "tiers",
        "tiers": [{"name": "reset", "time": "10 s"}],
        "lemons": [{"use": "threshold", "failures": 1, "window": "1 d"}],
        "replacement": "50 s",
    }
    expected = [(100.0, 0), (100.0, 1), (500.0, 2), (500.0, 3), (650.0, 0), (650.0, 1)]
    found = failures_of(by_hand({"renews": "never"}, repair=repair))
    assert found == expected
    # Without a replacement there is no second life.
    assert failures_of(by_hand({"renews": "never"})) == expected[:4]


def test_who_is_older_than_any_life_fails_at_once() -> None:
    """A node that has outlived a law of 500 s fails as soon as it may."""
    pools = [{"count": 4, "accelerator": "h100", "age": "600 s"}]
    cluster = {"pools": pools, "gpus_per_node": 1, "fabric": {"rails": 1}}
    assert failures_of(by_hand({"renews": "never"}, cluster=cluster)) == [(0.0, node) for node in range(4)]


def test_ages_on_the_clock_of_busy_time() -> None:
    """On the clock busy 0 and 1 have 100 s of work left, and 2 and 3, which replace them at once, all of 500 s."""
    found = failures_of(by_hand({"renews": "never", "clock": "busy"}))
    assert found == [(100.0, 0), (100.0, 1), (600.0, 2), (600.0, 3)]


# ------------------------------------------------------------------------------------------------- refusals


def test_the_stationary_state_of_known_ages_is_not_known() -> None:
    """Either the parts have an age, or they have run for ever; constant rates have no age at all."""
    rule = r"failures\.0: 'node' has pools of a known age, of which the stationary state is not known; use a warmup"
    with pytest.raises(sim.ScenarioError, match=rule):
        case({"law": WEIBULL_OLD}, ("1 year", "0 d"), initial="stationary")
    case({"law": WEIBULL_OLD}, ("0 d", "0 d"), initial="stationary")
    case({"rate": "1 per 1000 node-day"}, ("1 year", "0 d"), initial="stationary")
