"""Failure sources against exact samplers: age-correct renewal, clocks, stationary starts, blast radius."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from scipy import integrate, stats

from ettrick import sim
from ettrick.sim import rng
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.failures import SOURCES, BlastRadius, Component, draw_trace
from ettrick.sim.failures.effects import Domains, IncidentSize, Victims
from ettrick.sim.failures.trace import fleet_of
from ettrick.sim.failures.variety import HazardModulation
from ettrick.sim.scenario.laws import Exponential, Fixed, Lognormal, Weibull
from tests.cases import cases
from tests.harness import play, prepared, results_of, trace
from tests.intervals import LEAST, Z, agree, close
from tests.pace import one_in, sample
from tests.source_checks import check_source, counts_of, pooled, size_law, with_domains
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.sim.engine.result import Outage
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.scenario.law_model import LawModel

    Numbers: TypeAlias = NDArray[np.float64]

# ----------------------------------------
# Hosts that have run before the simulation starts: first lives against P(X > a + x | X > a), later ones like new.
#
# References
# ----------
# R. E. Barlow, F. Proschan, "Statistical Theory of Reliability and Life Testing" (1975): the residual life of a unit
# of
# age a has the survival function S(a + x) / S(a). F. J. Massey, "The Kolmogorov-Smirnov test for goodness of fit",
# Journal of the American Statistical Association 46 (1951); the bound used here is that of Dvoretzky, Kiefer,
# Wolfowitz
# and Massart, P(D > d) <= 2 exp(-2 n d^2), which holds for every n.

DAY = 86400.0

YEAR = 31556952.0

NODES = sample(20_000)

COUNTS = {"node": NODES, "gpu": 8 * NODES, "nic": 8 * NODES, "rack": NODES}

WEIBULL_OLD = {"use": "weibull", "shape": 3, "scale": "500 d"}

WEIBULL_YOUNG = {"use": "weibull", "shape": 0.7, "scale": "500 d"}

BATHTUB = {
    "use": "piecewise",
    "hazards": [
        {"until": "30 d", "rate": "2 per year"},
        {"until": "600 d", "rate": "0.1 per year"},
        {"rate": "3 per year"},
    ],
}

MIXTURE = {
    "use": "mixture",
    "parts": [
        {"weight": 0.3, "law": {"use": "weibull", "shape": 0.6, "scale": "20 d"}},
        {"weight": 0.7, "law": {"use": "lognormal", "median": "1000 d", "sigma": 0.5}},
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


def source_of(law: Any, ages: tuple[tuple[int, float], ...] = (), part: str = "node", **entry: Any) -> FailureSource:
    """Return a source whose units have one life each, of pools of hosts of some ages."""
    described = {"name": "fault", "part": part, "law": law, "renews": "never", **entry}
    return replace(Component.model_validate(described).build(COUNTS, 1), ages=ages)


def first_lives(source: FailureSource, seed: int = 1) -> Numbers:
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
def test_each_pool_has_its_own_age(name: str) -> None:
    """Of three pools, one new, each follows its own age and not that of its neighbour."""
    law, survival = LAWS[name]
    sizes, ages = (NODES * 3 // 10, NODES // 5, NODES // 2), (500 * DAY, 0.0, 50 * DAY)
    lives = first_lives(source_of(law, tuple(zip(sizes, ages, strict=True))))
    first = 0
    for size, age in zip(sizes, ages, strict=True):
        mine = lives[first : first + size]
        assert agrees(survival(age + mine) / survival(np.array([age])))
        first += size
    old, new = lives[: sizes[0]], lives[sizes[0] : sizes[0] + sizes[1]]
    assert not agrees(survival(500 * DAY + new) / survival(np.array([500 * DAY])))
    assert not agrees(survival(old))


@pytest.mark.parametrize("part", ["gpu", "nic"])
def test_all_parts_of_a_node_have_its_age(part: str) -> None:
    """Eight GPUs or NICs a node: those of the last nodes, which are the old ones, wear out sooner."""
    survival = LAWS["wear-out"][1]
    age = 400 * DAY
    lives = first_lives(source_of(WEIBULL_OLD, ((6000, 0.0), (2000, age)), part=part))
    assert agrees(survival(lives[: 8 * 6000]))
    assert agrees(survival(age + lives[8 * 6000 :]) / survival(np.array([age])))


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


@pytest.mark.parametrize("name", LAWS)
def test_frail_nodes_of_some_age(name: str) -> None:
    """With the hazard ratio h of its node, a unit of age a survives x more with (S(a + x) / S(a))^h."""
    law, survival = LAWS[name]
    age = 300 * DAY
    source = source_of(law, ((NODES, age),), frailty={"shape": 0.7})
    ratio = present(fleet_of(source, 1, 0).ratio)
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


@pytest.mark.parametrize("law", [WEIBULL_YOUNG, BATHTUB, MIXTURE], ids=lambda law: str(law["use"]))
@pytest.mark.parametrize(
    ("entry", "ages", "stationary"),
    [
        ({}, (), False),
        ({"frailty": {"shape": 0.5}, "batches": [{"share": 0.2, "law": WEIBULL_YOUNG}]}, (), False),
        ({}, ((150, 0.0), (150, 700 * DAY)), False),
        ({"batches": [{"share": 0.5, "ratio": 8.0}]}, ((300, 200 * DAY),), False),
        ({}, (), True),
        ({"batches": [{"share": 0.4, "law": WEIBULL_OLD}]}, (), True),
    ],
    ids=["new", "variety", "ages", "ratios", "stationary", "stationary batches"],
)
def test_a_short_horizon_misses_no_life(
    law: dict[str, Any], entry: dict[str, Any], ages: tuple[tuple[int, float], ...], stationary: bool
) -> None:
    """Lives that end after the horizon are left out unseen; those before it are exactly those of all units."""
    source = replace(source_of(law, ages, **entry), units=300)
    every = draw_trace([source], math.inf, 3, 0, stationary=stationary)
    assert sorted(every.slot) == list(range(300))
    for days in (0.01, 3, 40, 300, 2000):
        drawn = draw_trace([source], days * DAY, 3, 0, stationary=stationary)
        inside = every.time < days * DAY
        assert np.array_equal(drawn.time, every.time[inside])
        assert np.array_equal(drawn.slot, every.slot[inside])


@pytest.mark.parametrize("law", [WEIBULL_OLD, MIXTURE], ids=lambda law: str(law["use"]))
def test_repairs_at_the_start_are_those_of_every_unit(law: dict[str, Any]) -> None:
    """A unit is in repair at the start if the repair that began with its life lasts longer than the life's age."""
    repair = Lognormal.from_seconds(median=30 * DAY, sigma=1.5)
    source = replace(source_of(law), units=400, repair=repair, renews="at_failure")
    drawn = draw_trace([source], DAY, 3, 0, stationary=True)
    number, length, split = (
        rng.uniform(rng.stream(3, 0, f"initial {name}", source.name), range(400))
        for name in ("repair", "length", "split")
    )
    left = repair.ppf(number) - (1 - split) * present(source.law).length_biased_ppf(length)
    assert [(outage.slot, outage.remaining) for outage in drawn.initial] == [
        (slot, left[slot]) for slot in np.flatnonzero(left > 0)
    ]
    assert len(drawn.initial) > 5


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


@pytest.mark.parametrize(
    "law",
    [
        {"rate": "10 per 1000 node-day"},
        {"law": {"use": "weibull", "shape": 1, "scale": "100 d"}},
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


HUNDRED = {"law": {"use": "fixed", "value": "500 s"}}

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


def test_ages_on_the_clock_of_busy_time() -> None:
    """On the clock busy 0 and 1 have 100 s of work left, and 2 and 3, which replace them at once, all of 500 s."""
    found = failures_of(by_hand({"renews": "never", "clock": "busy"}))
    assert found == [(100.0, 0), (100.0, 1), (600.0, 2), (600.0, 3)]


def test_the_stationary_state_of_known_ages_is_not_known() -> None:
    """Either the parts have an age, or they have run for ever; constant rates have no age at all."""
    rule = r"failures\.0: 'node' has pools of a known age, of which the stationary state is not known; use a warmup"
    with pytest.raises(sim.ScenarioError, match=rule):
        case({"law": WEIBULL_OLD}, ("1 year", "0 d"), initial="stationary")
    case({"law": WEIBULL_OLD}, ("0 d", "0 d"), initial="stationary")
    case({"rate": "1 per 1000 node-day"}, ("1 year", "0 d"), initial="stationary")


# ----------------------------------------
# Incidents of shared parts: who is taken, how many, when, and how they come back.

EXPONENTIAL = {"use": "exponential", "mean": "1 h"}


def idle(failure: dict[str, Any], days: int, **changes: Any) -> sim.Prepared:
    """Return 64 nodes in racks of 8, without a job, and one incident."""
    base: dict[str, Any] = {
        "cluster": {"nodes": 64, "gpus_per_node": 1, "rack": {"nodes": 8}, "fabric": {"rails": 1}},
        "horizon": f"{days} d",
        "jobs": [{"name": "job", "gpus": 1, "arrival": f"{days} d"}],
        "failures": [{"use": "incident", "name": "incident", **failure}],
        "repair": {"time": "1 min"},
    }
    return prepared(**(base | changes))


def outages(case: sim.Prepared, replication: int = 0) -> tuple[Outage, ...]:
    """Return when each node was down."""
    return sim.run(case, replication, keeps_log=True).outages


def test_every_subset_is_equally_likely() -> None:
    """An incident that takes two of six nodes takes each of the fifteen pairs as often as any other."""
    domains = Domains(np.array([0, 6]), np.arange(10, 16))
    victims = Victims(BlastRadius(6, IncidentSize(nodes=2), domains=domains), "incident", 1, 0)
    pairs = list(itertools.combinations(range(10, 16), 2))
    observed = np.zeros(len(pairs))
    for number in range(6000):
        observed[pairs.index(victims.nodes(0, number))] += 1  # type: ignore[arg-type]
    assert stats.chisquare(observed).pvalue > LEAST


@cases("part", ["rack", "leaf", "pdu", "cluster"])
def test_the_blast_radius_is_the_domain(part: str) -> None:
    """Whoever goes down together is in one domain, and without a size all of it is."""
    tree = {
        "nodes": 24,
        "gpus_per_node": 2,
        "rack": {"nodes": 3},
        "pdu": {"racks": 4},
        "fabric": {"rails": 2, "leaf": {"nodes": 8}},
    }
    jobs = [{"name": "job", "gpus": 2, "arrival": "20 d"}]
    case = idle({"part": part, "rate": "1 per 10 d"}, 20, cluster=tree, jobs=jobs)
    cluster: Any = case.scenario.cluster
    of_node = cluster.build().domains.get(part, np.zeros(24, dtype=np.int64))
    by_start: dict[float, set[int]] = {}
    for outage in outages(case):
        by_start.setdefault(outage.start, set()).add(outage.node)
    assert by_start
    for taken in by_start.values():
        domain = of_node[min(taken)]
        assert taken == set(np.flatnonzero(of_node == domain).tolist())


def test_a_part_is_repaired_once() -> None:
    """With ``repaired: part`` the nodes of an incident come back together, after one draw of the repair."""
    case = idle({"part": "rack", "rate": "1 per 20 rack-d", "repaired": "part"}, 400, repair={"time": EXPONENTIAL})
    result = sim.run(case, 0, keeps_log=True)
    ends: dict[float, set[float]] = {}
    for outage in result.outages:
        ends.setdefault(outage.start, set()).add(outage.end)
    lengths = np.array([end - start for start, each in ends.items() for end in each])
    assert len(lengths) == len(ends), "one end for all"
    assert result.counts["failures"] == len(sim.trace(case, 0).time)
    assert stats.kstest(lengths, stats.expon(scale=3600).cdf).pvalue > LEAST


def test_each_node_is_repaired_by_itself() -> None:
    """With ``repaired: nodes`` one failure takes four nodes, each with an independent draw of the repair."""
    failure = {"part": "cluster", "law": {"use": "fixed", "value": "2 d"}, "size": {"nodes": 4}}
    case = idle(failure, 1000, repair={"time": EXPONENTIAL})
    result = sim.run(case, 0, keeps_log=True)
    assert result.counts["failures"] == 499
    assert len(result.outages) == 4 * 499
    assert {outage.start % (2 * DAY) for outage in result.outages} == {0.0}
    lengths = np.array([outage.end - outage.start for outage in result.outages])
    assert stats.kstest(lengths, stats.expon(scale=3600).cdf).pvalue > LEAST
    # Rows of the log are in order of start and node: four in a row belong to one incident.
    correlation = np.corrcoef(lengths.reshape(499, 4).T)
    assert np.abs(correlation[np.triu_indices(4, 1)]).max() <= 5 / np.sqrt(499)


def test_only_nodes_that_the_repair_left_broken_relapse() -> None:
    """A relapse takes its node alone: of four nodes each comes back broken with p, so 4 / (1 - p) outages in all."""
    p = 0.5
    after = {"use": "uniform", "low": "1 min", "high": "2 h"}
    relapse = {"after": after, "probability": p}
    failure = {"law": {"use": "fixed", "value": "10 d"}, "size": {"nodes": 4}, "relapse": relapse}
    case = idle(failure, 4000)
    result = sim.run(case, 0, keeps_log=True)
    rounds: list[list[Outage]] = [[] for _ in range(400)]
    for outage in result.outages:
        rounds[int(outage.start / (10 * DAY))].append(outage)
    assert not rounds[0]
    totals = []
    for number, mine in enumerate(rounds[1:], 1):
        first = {outage.node for outage in mine if outage.start == 10 * DAY * number}
        assert len(first) == 4
        assert {outage.node for outage in mine} == first
        later = [outage.start for outage in mine[4:]]
        assert len(set(later)) == len(later), "each node strikes again at a time of its own"
        totals.append(len(mine))
    assert close(np.array(totals), 4 / (1 - p), 4 * p / (1 - p) ** 2)
    assert result.counts["relapses"] == sum(totals) - 4 * 399
    assert result.counts["failures"] == 399 + result.counts["relapses"]


def test_clusters_have_the_stated_size_and_delays() -> None:
    """Played by the engine, each incident makes nodes fail one after another: size and delays follow their laws."""
    spread = {"use": "weibull", "shape": 2, "mean": "1 h"}
    failure = {"law": {"use": "fixed", "value": "2 d"}, "size": {"mean": 4, "least": 2}, "spread": spread}
    result = sim.run(idle(failure, 4001, repair={"time": {"use": "exponential", "mean": "10 s"}}), 0, keeps_log=True)
    start = np.array([outage.start for outage in result.outages])
    incident = (start // (2 * DAY)).astype(np.int64)
    assert incident.min() == 1
    nodes = {(outage.node, number) for outage, number in zip(result.outages, incident.tolist(), strict=True)}
    assert len(nodes) == len(start), "a node fails once in an incident"
    scale = 3600 / stats.weibull_min(2).mean()
    assert stats.kstest(start % (2 * DAY), stats.weibull_min(2, scale=scale).cdf).pvalue > LEAST
    order = np.lexsort((np.array([outage.node for outage in result.outages]), incident))
    lowest = np.flatnonzero(np.diff(incident[order], prepend=0))
    one, other = (start[order][lowest + place] % (2 * DAY) for place in (0, 1))
    assert abs(float(np.corrcoef(one, other)[0, 1])) <= Z / np.sqrt(len(one)), "each node has a delay of its own"
    sizes = np.bincount(np.bincount(incident)[1:], minlength=65).astype(np.float64)
    assert stats.chisquare(*pooled(sizes, 2000 * size_law(IncidentSize(mean=4, least=2), 64))).pvalue > LEAST
    assert result.counts["failures"] == len(start), "each is a failure of its own"


def test_failures_of_incidents_are_overdispersed() -> None:
    """Failures over time are compound Poisson: mean = rate E[S], variance = rate E[S^2]."""
    case = idle({"rate": "1 per d", "size": {"mean": 4}, "spread": "0 s"}, 10)
    counts = np.array([len(draw_trace(case.sources, 10 * DAY, 1, number).time) for number in range(1500)])
    law = size_law(IncidentSize(mean=4), 64)
    size = np.arange(65)
    mean, variance = 10 * float(size @ law), 10 * float(size**2 @ law)
    assert close(counts, mean, variance)
    error = float(np.std((counts - mean) ** 2, ddof=1)) / np.sqrt(1500)
    assert abs(float(np.mean((counts - mean) ** 2)) - variance) <= Z * error
    assert variance - mean > 2 * Z * error, "independent failures must fall outside"


def test_a_spread_incident_is_played_as_it_was_drawn() -> None:
    """Each row of the trace is an outage of its node at its time, with all the marks that a failure has."""
    failure = {"part": "rack", "rate": "1 per 10 rack-d", "spread": EXPONENTIAL, "detection": EXPONENTIAL}
    case = idle(failure, 30, repair={"time": {"use": "exponential", "mean": "1 ms"}})
    drawn = sim.trace(case, 3)
    found = outages(case, 3)
    assert len(found) > 100
    assert [(outage.start, outage.node) for outage in found] == list(zip(drawn.time, drawn.slot, strict=True))


# ----------------------------------------
# Every kind of failure source, with every option that shapes its draws, passes the shared check.

HORIZON = 40 * DAY

PARTS = {"node": 128, "gpu": 1024, "nic": 1024, "leaf": 16, "rack": 32, "pdu": 8}

WEIBULL = {"use": "weibull", "shape": 0.7, "mean": "60 d"}

KIND_LAWS: dict[str, dict[str, Any]] = {
    "weibull": WEIBULL,
    "wear-out": {"use": "weibull", "shape": 3, "scale": "60 d"},
    "lognormal": {"use": "lognormal", "median": "40 d", "sigma": 1.3},
    "gamma": {"use": "gamma", "shape": 0.6, "mean": "60 d"},
    "piecewise": {
        "use": "piecewise",
        "hazards": [{"until": "5 d", "rate": "1 per 20 d"}, {"until": "30 d", "rate": 0}, {"rate": "1 per 60 d"}],
    },
    "mixture": {
        "use": "mixture",
        "parts": [{"weight": "20 %", "law": {"use": "exponential", "mean": "8 d"}}, {"weight": 0.8, "law": WEIBULL}],
    },
    "empirical": {"use": "empirical", "values": ["3 d", "20 d", "21 d", "90 d", "150 d"]},
}

NODE = {"use": "component", "name": "node", "part": "node"}

RATE = {"rate": "2 per 100 node-d"}

RACK = {"use": "incident", "name": "rack", "part": "rack", "rate": "1 per 30 rack-d"}

CLUSTER = {"use": "incident", "name": "storm", "part": "cluster", "rate": "1 per 2 d"}

SICK = {"use": "defect", "name": "sick", "share": "20 %", "rate": "5 per 100 node-d"}

HOURS = {"period": "1 d", "factors": [0, 0.5, 2.5]}

LATE = {"use": "lognormal", "mean": "2 h", "sigma": 1}

CASES: dict[str, dict[str, Any]] = {
    "folded gpu": {"use": "component", "name": "gpu", "part": "gpu", "rate": "3 per 1000 gpu-d"},
    "part of no node": {**NODE, "part": "rack", "law": KIND_LAWS["wear-out"]},
    "scaled": {**NODE, **RATE, "scale": 2.5},
    "at return": {**NODE, "law": WEIBULL, "renews": "at_return"},
    "busy": {**NODE, "law": WEIBULL, "clock": "busy"},
    **{f"{name} node": {**NODE, "law": law} for name, law in KIND_LAWS.items()},
    **{
        f"{name} frailty": {**NODE, "law": KIND_LAWS[name], "frailty": {"shape": 0.8}}
        for name in ("weibull", "lognormal", "piecewise", "empirical")
    },
    "frailty of nodes": {**NODE, "part": "gpu", "law": WEIBULL, "scale": 0.2, "frailty": {"shape": 2}},
    "frailty of parts": {
        **NODE,
        "part": "gpu",
        "rate": "1 per 100 gpu-d",
        "frailty": {"shape": 0.5, "of": "part", "shared": "parts"},
    },
    "batch with a law": {**NODE, **RATE, "batches": [{"share": "30 %", "law": WEIBULL}]},
    "batch with a ratio": {**NODE, "law": KIND_LAWS["gamma"], "batches": [{"share": 0.25, "ratio": 6}]},
    "batches": {
        **NODE,
        **RATE,
        "batches": [
            {"share": 0.2, "ratio": 0.1},
            {"share": 0.3, "law": KIND_LAWS["mixture"]},
            {"share": 0.5, "ratio": 3},
        ],
    },
    "folded batches": {
        "use": "component",
        "name": "gpu",
        "part": "gpu",
        "rate": "2 per 1000 gpu-d",
        "batches": [{"share": 0.3, "law": {"use": "exponential", "mean": "90 d"}}],
    },
    "all differences": {
        **NODE,
        "law": KIND_LAWS["lognormal"],
        "frailty": {"shape": 3},
        "batches": [{"share": 0.4, "law": KIND_LAWS["wear-out"]}, {"share": 0.1, "ratio": 5}],
    },
    "trend down": {**NODE, **RATE, "tempo": {"trend": {"exponent": 0.6, "reference": "60 d"}}},
    "trend up": {**NODE, "law": WEIBULL, "tempo": {"trend": {"exponent": 2, "reference": "60 d", "age": "20 d"}}},
    "calendar": {**NODE, **RATE, "tempo": {"calendar": HOURS}},
    "swings": {**NODE, **RATE, "tempo": {"swings": {"every": "3 d", "cv": 0.8, "shared": "room"}}},
    "all tempos": {
        **NODE,
        "law": KIND_LAWS["gamma"],
        "frailty": {"shape": 1},
        "tempo": {
            "trend": {"exponent": 0.8, "reference": "30 d", "age": "1 d"},
            "calendar": {"period": "7 d", "factors": [1, 1, 1, 1, 1, 0.2, 0.2]},
            "swings": {"every": "50 h", "cv": 0.5},
        },
    },
    "tempo at return": {**NODE, "law": WEIBULL, "renews": "at_return", "tempo": {"calendar": HOURS}},
    "whole rack": {**RACK, "repaired": "part"},
    "nodes of a rack": {**RACK, "size": {"nodes": 2}},
    "mean of a power domain": {**RACK, "name": "pdu", "part": "pdu", "size": {"mean": 4, "least": 2}},
    "share of a leaf": {**RACK, "part": "leaf", "law": WEIBULL, "rate": None, "size": {"share": "40 %"}},
    "values of a cluster": {**CLUSTER, "size": {"values": [1, 2, 200], "weights": [5, 2, 1]}},
    "equal values": {**CLUSTER, "size": {"values": [3, 3, 9]}},
    "rack with spread": {**RACK, "spread": LATE},
    "some of a rack with spread": {**RACK, "size": {"values": [1, 3]}, "spread": {"use": "exponential", "mean": "3 d"}},
    "cluster with spread": {
        **CLUSTER,
        "size": {"mean": 5},
        "spread": {"use": "mixture", "parts": [{"weight": 0.4, "law": "0 s"}, {"weight": 0.6, "law": LATE}]},
        "tempo": {"swings": {"every": "5 d", "cv": 1}},
    },
    "share of a cluster with spread": {
        **CLUSTER,
        "size": {"share": 0.01, "least": 3},
        "spread": {"use": "empirical", "values": ["0 s", "1 h", "2 d"]},
    },
    "defect": SICK,
    "exact defect": {**SICK, "exact": True},
    "defect that ages": {**SICK, "rate": None, "law": WEIBULL, "onset": "1 per 100 d"},
    "busy defect": {**SICK, "clock": "busy"},
    "job": {"use": "job", "name": "software", "rate": "2 per job-d"},
    "ageing job": {"use": "job", "name": "software", "law": {"use": "lognormal", "mean": "3 d", "sigma": 1}},
    "preemption": {"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "4 h"},
    "ageing preemption": {
        "use": "preemption",
        "name": "others",
        "law": {"use": "lognormal", "mean": "3 d", "sigma": 1},
        "away": "4 h",
    },
    "loss spike": {"use": "loss-spike", "name": "spike", "rate": "1 per job-d"},
    "ageing loss spike": {"use": "loss-spike", "name": "spike", "law": {"use": "gamma", "shape": 0.6, "mean": "4 d"}},
    "bug": {"use": "bug", "name": "bug", "rate": "1 per job-d", "fix": "1 d"},
    "ageing bug": {"use": "bug", "name": "bug", "law": WEIBULL, "fix": "1 d"},
    "maintenance": {
        "use": "maintenance",
        "name": "windows",
        "part": "rack",
        "windows": [
            {"start": "20 d", "duration": "4 h", "first": 3, "units": 5},
            {"start": "2 d", "duration": "1 h"},
            {"start": "60 d", "duration": "1 d", "first": 31},
        ],
    },
    "rollout": {"use": "rollout", "name": "driver", "nodes_per_day": 20, "duration": "1 h", "hazard": {"node": 0.5}},
}

SHRINKING = {name for name, entry in CASES.items() if entry.get("exact") or (entry.get("part") == "cluster")}

"""Victims among all nodes, and an exact share of them, belong to the size of the cluster."""


def build(entry: dict[str, Any]) -> FailureSource:
    """Return the source of an entry of a scenario, incidents with their domains."""
    kind: Any = SOURCES[entry["use"]]
    model = kind.model_validate({key: value for key, value in entry.items() if value is not None})
    source: FailureSource = model.build(PARTS, 3)
    return source if source.blast is None else with_domains(source, PARTS["node"])


@pytest.mark.parametrize("name", one_in(3, CASES))
def test_a_source_draws_what_it_says(name: str) -> None:
    """Law, mean count, victims, both prefixes and names, for every kind and every option."""
    check_source(build(CASES[name]), HORIZON, grows=name not in SHRINKING)


"""Fields that shape no draw: the engine's tests deal with them."""


@pytest.mark.parametrize(
    "name", ["folded gpu", "scaled", "frailty of parts", "folded batches", "nodes of a rack", "equal values"]
)
def test_the_rate_of_a_source_is_its_mean_count(name: str) -> None:
    """With constant hazards the rate that the plans rest on is the mean number of candidates over time."""
    source = build(CASES[name])
    counts = np.array([len(draw_trace([source], HORIZON, 5, number).time) for number in range(sample(100))])
    assert close(counts, source.rate * HORIZON)


SHAPES = [0.5, 0.7, 1.0, 2.0]


def nodes_with(law: LawModel | None = None, units: int = 512, **changes: Any) -> sim.failures.FailureSource:
    """Return a source of one slot a node."""
    law = Exponential.from_seconds(mean=100 * DAY) if law is None else law
    return sim.failures.FailureSource(name="fault", part="node", units=units, law=law, **changes)


def weibull(shape: float, mean: float) -> Weibull:
    """Return a Weibull law by its mean [s]."""
    return Weibull.from_seconds(shape=shape, mean=mean)


def renewals(law: LawModel, repair: float, horizon: float, shape: tuple[int, int], seed: int) -> NDArray[np.int64]:
    """Return failures before the horizon of alternating renewal processes that start new, shape (replications,).

    Life, then a repair in which the unit does not age, then the next life. A repair of zero is plain renewal.
    """
    generator = np.random.default_rng(seed)
    clock = np.zeros(shape)
    counts = np.zeros(shape[0], dtype=np.int64)
    while True:
        clock += law.ppf(generator.random(clock.size)).reshape(shape)
        inside = clock < horizon
        if not inside.any():
            return counts
        counts += inside.sum(axis=1)
        clock += repair


def count_failures(case: sim.Prepared, replications: int, name: str = "failures") -> NDArray[np.int64]:
    """Return a count of each replication."""
    return np.array([result.counts[name] for result in results_of(case, replications)])


def idle_cluster(source: sim.failures.FailureSource, days: float, **changes: Any) -> sim.Prepared:
    """Return a cluster of 512 nodes whose one source is given; its only job never arrives."""
    case = prepared(
        cluster={"nodes": 512, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon=f"{days} d",
        jobs=[{"name": "job", "gpus": 1, "arrival": f"{days} d"}],
        **changes,
    )
    return replace(case, sources=(source,))


# 512 units, mean life 100 d, 30 d, renewal at failure: shape, failures, 2 s.e. of 4,000 draws (k = 1 is exact).


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_renewal_at_failure(shape: float) -> None:
    """Played by the engine, renewal at failure counts like a renewal process, repairs or not."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY))
    case = idle_cluster(source, 30)
    ours = count_failures(case, sample(60))
    assert agree(ours, renewals(law, 0.0, 30 * DAY, (sample(400), 512), 1))
    if shape < 1.0:
        assert not agree(ours, renewals(law, 2 * DAY, 30 * DAY, (sample(400), 512), 1)), (
            "the two renewals must differ here"
        )


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_renewal_at_return(shape: float) -> None:
    """Played by the engine, renewal at return counts like an alternating renewal process with its repairs."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY), renews="at_return")
    case = idle_cluster(source, 30)
    ours = count_failures(case, sample(60))
    assert agree(ours, renewals(law, 2 * DAY, 30 * DAY, (sample(400), 512), 2))
    assert not agree(ours, renewals(law, 0.0, 30 * DAY, (sample(400), 512), 2)), "a repair of zero must fall outside"


def test_never_renews() -> None:
    """A unit that never renews fails once at most: 512 (1 - exp(-3)) of 512 in three mean lives."""
    case = idle_cluster(nodes_with(renews="never", repair=Fixed.from_seconds(value=DAY)), 300)
    ours = count_failures(case, sample(60))
    share = -math.expm1(-3.0)
    assert abs(ours.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / ours.size)


@pytest.mark.parametrize("part", ["node", "gpu"])
@pytest.mark.parametrize("renews", ["at_failure", "never"])
def test_a_constant_rate_counts_by_its_parts(part: str, renews: str) -> None:
    """However memoryless lives are drawn, n parts fail n t / L times, and at most once each if they never renew."""
    counts = {"node": 32, "gpu": 256}
    law = {"use": "exponential", "mean": "100 d"}
    entry = {"name": "fault", "part": part, "law": law, "renews": renews}
    source = Component.model_validate(entry).build(counts, 1)
    drawn = np.array([draw_trace([source], 200 * DAY, 1, number).time.size for number in range(sample(200))])
    share = 2.0 if renews == "at_failure" else -math.expm1(-2.0)
    variance = 2.0 if renews == "at_failure" else share * (1 - share)
    assert abs(drawn.mean() - counts[part] * share) <= Z * math.sqrt(counts[part] * variance / drawn.size)


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_in_service_clock_stops_while_the_node_is_down(shape: float) -> None:
    """Lives in service do not age in repairs: they count like an alternating renewal process."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY), clock="in_service")
    ours = count_failures(idle_cluster(source, 30), sample(60))
    assert agree(ours, renewals(law, 2 * DAY, 30 * DAY, (sample(400), 512), 4))


def busy_case(source: sim.failures.FailureSource, **recovery: Any) -> sim.Prepared:
    """Return one job on all of 64 nodes that runs for 10 of 30 days: it arrives after 20."""
    case = prepared(
        cluster={"nodes": 64, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon="30 d",
        jobs=[{"name": "job", "gpus": 64, "arrival": "20 d"}],
        recovery={"use": "hot-spare", "initialize": "1 h"} | recovery,
        checkpoint={"tiers": [{"interval": "6 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
    )
    return replace(case, sources=(source,))


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("part", ["node", "job"])
def test_busy_clock_counts_exposed_time_only(shape: float, part: str) -> None:
    """A busy life ages only while its job can be hit: 20 days in front of the job age nothing."""
    units = 64 if part == "node" else 1
    law = weibull(shape, (20.0 if part == "node" else 1.0) * DAY)
    source = replace(nodes_with(law, units=units, clock="busy"), part=part, repair=Fixed.from_seconds(value=0.0))
    ours = count_failures(busy_case(source), sample(150))
    assert agree(ours, renewals(law, 0.0, 10 * DAY, (sample(2000), units), 5))
    assert not agree(ours, renewals(law, 0.0, 30 * DAY, (sample(2000), units), 5)), "the queue must not count"


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("part", ["node", "job"])
def test_busy_clock_stops_in_unexposed_phases(shape: float, part: str) -> None:
    """Each failure starts 12 h that nothing can hit; only what is left of 10 days wears the parts out.

    The sampler lets the parts of a job share one clock of exposed time, which stands still for 12 h at each failure.
    """
    units = 8 if part == "node" else 1
    law = weibull(shape, (12.0 if part == "node" else 1.5) * DAY)
    source = replace(nodes_with(law, units=units, clock="busy"), part=part, repair=Fixed.from_seconds(value=0.0))
    case = busy_case(source, exposed=False, reschedule="12 h")
    case = replace(case, nodes=8, jobs=(replace(case.jobs[0], nodes=8, gpus=8),))
    ours = count_failures(case, sample(200))
    generator = np.random.default_rng(6)
    theirs = []
    for _ in range(sample(3000)):
        due = law.ppf(generator.random(units))
        count = 0
        # After n failures the wall reads the exposed clock plus n pauses.
        while (first := float(due.min())) + count * DAY / 2 < 10 * DAY:
            due[int(due.argmin())] = first + float(law.ppf(generator.random(1))[0])
            count += 1
        theirs.append(count)
    assert agree(ours, np.array(theirs))
    assert not agree(ours, renewals(law, 0.0, 10 * DAY, (sample(3000), units), 6)), "the pauses must matter"


@pytest.mark.parametrize("shape", [0.5, 2.0])
@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_a_stationary_start_fails_at_a_constant_rate(shape: float, renews: Any) -> None:
    """From time zero on, each tenth of the horizon sees units x width / (mean life + repair at return) failures."""
    repair = 8 * DAY
    law = weibull(shape, 40 * DAY)
    source = nodes_with(law, renews=renews, repair=Fixed.from_seconds(value=repair))
    case = replace(idle_cluster(source, 50), stationary=True)
    width = 5 * DAY
    replications = sample(40)
    counts = np.zeros((replications, 10))
    for number in range(replications):
        simulation = Simulation(case, number, sim.trace(case, number))
        before = 0
        while simulation.is_open:
            simulation.kernel.step()
            now = simulation.counts.failures
            if now > before:
                counts[number, min(int(simulation.kernel.now / width), 9)] += now - before
                before = now
    expected = 512 * width / (40 * DAY + (repair if renews == "at_return" else 0.0))
    for window in (0, 1, 4, 9):
        error = counts[:, window].std(ddof=1) / math.sqrt(replications)
        assert abs(counts[:, window].mean() - expected) <= Z * error, f"window {window}"
    new = np.array([(draw_trace([source], width, 1, number).time < width).sum() for number in range(replications)])
    assert abs(new.mean() - expected) > 3 * Z * new.std(ddof=1) / math.sqrt(replications), "new parts must differ"


@pytest.mark.parametrize("repair", [Fixed.from_seconds(value=8 * DAY), Exponential.from_seconds(mean=8 * DAY)])
def test_repairs_in_progress_at_return(repair: LawModel) -> None:
    """With renewal at return a unit is in repair at the start with probability R / (L + R), R of law or not."""
    source = nodes_with(weibull(0.7, 40 * DAY), renews="at_return", repair=repair)
    down = np.array(
        [len(draw_trace([source], DAY, 3, number, stationary=True).initial) for number in range(sample(200))]
    )
    share = 8 / 48
    assert abs(down.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / down.size)
    left = [
        row.remaining for number in range(40) for row in draw_trace([source], DAY, 3, number, stationary=True).initial
    ]
    # The mean excess of a law is E[R^2] / (2 E[R]): 4 days if fixed, 8 if exponential.
    excess = 4 * DAY if isinstance(repair, Fixed) else 8 * DAY
    assert abs(np.mean(left) - excess) <= Z * np.std(left) / math.sqrt(len(left))


def test_repairs_in_progress_at_failure() -> None:
    """With renewal at failure a unit is down at the start if its life is younger than the repair that began with it.

    The age has the density P(X > x) / L. A repair of constant length D gives the integral of P(X > x) / L up to D.
    """
    law = weibull(0.7, 40 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=8 * DAY))
    grid = np.linspace(0.0, 8 * DAY, 20001)
    survival = 1.0 - law.cdf(grid)
    share = float(np.trapezoid(survival, grid)) / (40 * DAY)
    down = np.array(
        [len(draw_trace([source], DAY, 4, number, stationary=True).initial) for number in range(sample(200))]
    )
    assert abs(down.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / down.size)
    assert abs(share - 8 / 40) * 512 > 2 * Z * math.sqrt(512 * share * (1 - share) / down.size), "overlaps matter"


@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_stationary_downtime(renews: Any) -> None:
    """Exponential lives: the share of nodes down is R / (L + R) from the start, and stays so for long.

    With renewal at the failure a node in repair fails too, and the outage joins: 1 - exp(-R / L), as in M/G/oo.
    """
    source = nodes_with(renews=renews, repair=Fixed.from_seconds(value=20 * DAY))
    case = replace(idle_cluster(source, 10 if renews == "at_return" else 200), stationary=True)
    runs = list(results_of(case, sample(100)))
    share = np.array([run.down_node_seconds / run.node_seconds for run in runs])
    expected = 20 / 120 if renews == "at_return" else 1 - math.exp(-20 / 100)
    assert abs(share.mean() - expected) <= Z * share.std(ddof=1) / math.sqrt(share.size)
    assert play(case).down_node_seconds == 0.0, "the outages come from the trace"


TREE = {
    "nodes": 24,
    "gpus_per_node": 2,
    "rack": {"nodes": 3},
    "pdu": {"racks": 4},
    "fabric": {"rails": 2, "leaf": {"nodes": 8}},
}


@cases(
    ("part", "slot", "expected"),
    [("node", 5, [5]), ("gpu", 11, [5]), ("nic", 47, [23]), ("rack", 2, [6, 7, 8]), ("pdu", 1, list(range(12, 24)))],
)
def test_a_failure_takes_its_domain(part: str, slot: int, expected: list[int]) -> None:
    """One failure takes down every node of its unit at once, and no other; they come back together."""
    case = prepared(
        cluster=TREE,
        jobs=[{"name": "job", "gpus": 2, "arrival": "900 s"}],
        failures=[
            {"use": "component", "name": "fault", "part": part, "law": {"use": "gamma", "shape": 2, "mean": "9 d"}}
        ],
        repair={"time": "50 s"},
    )
    assert _down_after(case, slot) == expected
    result = play(case, [(100.0, 0, slot)])
    assert result.down_node_seconds == len(expected) * 50.0


def test_a_leaf_takes_the_nodes_of_its_group() -> None:
    """The failure of a leaf switch takes the nodes that have a cable to it."""
    failures = [{"use": "component", "name": "fault", "part": "leaf", "rate": "1 per 1000 leaf-d"}]
    case = prepared(cluster=TREE, failures=failures, jobs=[{"name": "job", "gpus": 2, "arrival": "900 s"}])
    cluster: Any = case.scenario.cluster
    topology = cluster.build()
    assert case.sources[0].units == topology.counts["leaf"]
    reached: set[int] = set()
    for slot in range(case.sources[0].units):
        expected = np.flatnonzero(topology.domains["leaf"] == topology.domains["leaf"][_down_after(case, slot)[0]])
        assert _down_after(case, slot) == expected.tolist()
        reached |= set(expected.tolist())
    assert reached == set(range(24))


def _down_after(case: sim.Prepared, slot: int) -> list[int]:
    """Return the nodes that are down after a failure of one unit."""
    simulation = Simulation(case, 0, trace([(100.0, 0, slot)]))
    while simulation.kernel.peek() <= 100.0:
        simulation.kernel.step()
    return [node for node in range(case.nodes) if simulation.cluster.outages[node]]


@pytest.mark.parametrize(("hazard", "expected"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
def test_idle_nodes_fail_at_their_own_hazard(hazard: float, expected: float) -> None:
    """Of the failures drawn for idle nodes, the share idle_hazard happens."""
    source = nodes_with(
        Exponential.from_seconds(mean=20 * DAY), idle_hazard=hazard, repair=Fixed.from_seconds(value=0.0)
    )
    case = idle_cluster(source, 30)
    faults = count_failures(case, 20, "faults")
    mean = 512 * 1.5 * expected
    assert abs(faults.mean() - mean) <= Z * math.sqrt(mean / faults.size)
    assert np.array_equal(faults + count_failures(case, 20, "suppressed"), count_failures(case, 20, "candidates"))


def test_a_fault_interrupts_with_its_probability() -> None:
    """A fault becomes a failure with the stated probability; the others are harmless, and all are counted."""
    source = nodes_with(Exponential.from_seconds(mean=20 * DAY), interrupts=0.3, repair=Fixed.from_seconds(value=0.0))
    case = idle_cluster(source, 30)
    failures = count_failures(case, 20)
    assert abs(failures.mean() - 512 * 1.5 * 0.3) <= Z * math.sqrt(512 * 1.5 * 0.3 / failures.size)
    assert np.array_equal(failures + count_failures(case, 20, "harmless"), count_failures(case, 20, "faults"))


def test_doubling_the_rate_turns_it_red() -> None:
    """The interval of the counts is narrow enough: twice the rate falls far outside."""
    counts = {"node": 512, "gpu": 512}
    entry = {"name": "fault", "part": "node", "rate": "1 per 100 node-d"}
    source = Component.model_validate(entry).build(counts, 1)
    doubled = Component.model_validate(entry | {"scale": 2.0}).build(counts, 1)
    ours = np.array([draw_trace([source], 30 * DAY, 1, number).time.size for number in range(60)])
    twice = np.array([draw_trace([doubled], 30 * DAY, 1, number).time.size for number in range(60)])
    assert abs(ours.mean() - 153.6) <= Z * math.sqrt(153.6 / 60)
    assert abs(twice.mean() - 153.6) > 10 * Z * math.sqrt(153.6 / 60)
    assert abs(twice.mean() - 307.2) <= Z * math.sqrt(307.2 / 60)


# ----------------------------------------
# Hazards that change in time: power-law trends, calendars, random swings, and the operational time of lives.
#
# References
# ----------
# L. H. Crow, "Reliability analysis for complex, repairable systems", 1974, and MIL-HDBK-189C (2011): with n events up
# to
# T, the estimate n / sum ln(T / t_i) of the exponent b has 2 n b / estimate chi-square distributed with 2 n degrees of
# freedom. D. R. Cox, P. A. W. Lewis, *The Statistical Analysis of Series of Events*, Methuen, 1966.


def source_with_tempo(tempo: dict[str, Any], units: int = 512, **entry: Any) -> FailureSource:
    """Return a component source of nodes; without a law one failure in a hundred days."""
    base: dict[str, Any] = {"name": "fault", "part": "node", "tempo": tempo}
    if "law" not in entry:
        base["rate"] = "1 per 100 d"
    return Component.model_validate(base | entry).build({"node": units, "gpu": units}, 1)


@cases("exponent", [0.5, 1.0, 2.5])
def test_crow_amsaa_finds_the_exponent(exponent: float) -> None:
    """The maximum-likelihood exponent of the failures of a new cluster is the stated one, within its chi-square law."""
    horizon = 300 * DAY
    times = draw_trace([source_with_tempo({"trend": {"exponent": exponent, "reference": "100 d"}})], horizon, 1, 0).time
    estimate = len(times) / float(np.log(horizon / times).sum())
    law = stats.chi2(2 * len(times))
    low, high = law.ppf(LEAST / 2), law.ppf(1 - LEAST / 2)
    assert low <= 2 * len(times) * exponent / estimate <= high
    for wrong in (0.8 * exponent, 1.25 * exponent):
        assert not low <= 2 * len(times) * wrong / estimate <= high, "the interval must be narrow"


@cases(("exponent", "age"), [(0.5, 0.0), (0.5, 50.0), (2.5, 0.0), (2.5, 50.0)])
def test_counts_of_a_trend(exponent: float, age: float) -> None:
    """A rate r gives r R ((T + age)^b - age^b) / R^b failures on average; a new cluster r R up to the reference R."""
    tempo = {"trend": {"exponent": exponent, "reference": "100 d", "age": f"{age} d"}}
    counts = np.array([len(draw_trace([source_with_tempo(tempo)], 80 * DAY, 2, number).time) for number in range(40)])
    expected = 5.12 * 100 * (((80 + age) / 100) ** exponent - (age / 100) ** exponent)
    assert close(counts, expected, expected)
    if age == 0:
        whole = np.array(
            [len(draw_trace([source_with_tempo(tempo)], 100 * DAY, 3, number).time) for number in range(40)]
        )
        assert close(whole, 512, 512)


@cases(
    ("period", "factors"), [("1 d", [0.0, 1.0, 3.0, 0.5]), ("7 d", [1.2, 1.2, 1.2, 1.2, 1.2, 0.5, 0.5]), ("1 d", [2.0])]
)
def test_calendar_counts_follow_the_factors(period: str, factors: list[float]) -> None:
    """Failures in each phase are Poisson with rate x factor; a phase with the factor 0 has none."""
    length = 7 * DAY if period == "7 d" else DAY
    days = 280.0
    times = draw_trace([source_with_tempo({"calendar": {"period": period, "factors": factors}})], days * DAY, 1, 0).time
    phase = (times % length / length * len(factors)).astype(np.int64)
    observed = np.bincount(phase, minlength=len(factors)).astype(np.float64)
    expected = 5.12 * days / len(factors) * np.array(factors)
    assert not observed[expected == 0].any()
    some = expected > 0
    square = ((observed[some] - expected[some]) ** 2 / expected[some]).sum()
    assert stats.chi2(some.sum()).sf(float(square)) > LEAST


STRETCHES = sample(4000)


def stretch_counts(*names: str, cv: float = 0.7, days: float = 2.0) -> list[NDArray[np.int64]]:
    """Return the failures in each of many stretches, of one source for each name of swings."""
    horizon = STRETCHES * days * DAY
    sources = [
        source_with_tempo(
            {"swings": {"every": f"{days} d", "cv": cv, "shared": name}}, units=300, name=f"fault {index}"
        )
        for index, name in enumerate(names)
    ]
    drawn = draw_trace(sources, horizon, 1, 0)
    return [
        np.bincount((drawn.time[drawn.source == index] / (days * DAY)).astype(np.int64), minlength=STRETCHES)
        for index in range(len(sources))
    ]


def test_swings_make_counts_overdispersed() -> None:
    """Failures per stretch have the variance mean + cv^2 mean^2: they are negative binomial with the shape cv^-2."""
    mean, shape = 6.0, 0.7**-2
    (counts,) = stretch_counts("cluster")
    law = stats.nbinom(shape, shape / (shape + mean))
    variance, excess = float(law.var()), float(law.stats(moments="k"))
    assert variance == pytest.approx(mean + 0.7**2 * mean**2)
    assert close(counts, mean, variance)
    error = variance * math.sqrt((excess + 2) / STRETCHES)
    assert abs(counts.var(ddof=1) - variance) <= Z * error
    assert variance - mean > 2 * Z * error, "a steady rate must fall outside"
    observed = np.bincount(np.minimum(counts, 60), minlength=61).astype(np.float64)
    expected = STRETCHES * law.pmf(np.arange(61))
    expected[60] += STRETCHES * law.sf(60)
    assert stats.chisquare(*pooled(observed, expected)).pvalue > LEAST


def test_sources_with_one_name_swing_together() -> None:
    """With one name two sources have the covariance cv^2 mean^2 over stretches; with two names none."""
    one, same, other = stretch_counts("cluster", "cluster", "room")
    for rival, expected in ((same, 0.7**2 * 36), (other, 0.0)):
        products = (one - one.mean()) * (rival - rival.mean())
        error = float(products.std(ddof=1)) / math.sqrt(STRETCHES)
        assert abs(float(products.mean()) - expected) <= Z * error
        assert expected == 0 or expected > 2 * Z * error


TEMPOS: dict[str, dict[str, Any]] = {
    "falling": {"trend": {"exponent": 0.5, "reference": "10 d"}},
    "growing": {"trend": {"exponent": 3, "reference": "10 d", "age": "3 d"}},
    "calendar": {"calendar": {"period": "1 d", "factors": [0, 1, 4]}},
    "together": {
        "trend": {"exponent": 0.7, "reference": "10 d", "age": "1 h"},
        "calendar": {"period": "36 h", "factors": [0.5, 1.5]},
    },
}


def hazard(tempo: HazardModulation) -> Callable[[float], float]:
    """Return m(t) by its definition, swings left out."""

    def m(time: float) -> float:
        value = 1.0
        if tempo.trend is not None:
            trend = tempo.trend
            value *= trend.exponent * ((time + trend.age) / trend.reference) ** (trend.exponent - 1)
        if tempo.calendar is not None:
            calendar = tempo.calendar
            value *= calendar.factors[int(time % calendar.period / calendar.period * len(calendar.factors))]
        return value

    return m


@cases("name", TEMPOS)
def test_operational_time_is_the_integral_of_the_hazard(name: str) -> None:
    """M(t) is the integral of m, whatever the end up to which it was worked out."""
    tempo = HazardModulation.model_validate(TEMPOS[name])
    m = hazard(tempo)
    edges = np.arange(0, 8 * DAY + 1, 2 * 3600.0)
    pieces = [integrate.quad(m, low, high, limit=200)[0] for low, high in itertools.pairwise(edges.tolist())]
    expected = np.concatenate([[0.0], np.cumsum(pieces)])
    for end in (8 * DAY, 8.3 * DAY, 30 * DAY):
        clock = tempo.realise(end, 1, 0)
        assert [clock.elapsed(edge) for edge in edges] == pytest.approx(expected, rel=1e-5, abs=1e-3)
    assert tempo.realise(8 * DAY, 1, 0).total == pytest.approx(expected[-1], rel=1e-5)


@cases("name", [*TEMPOS, "swings"])
def test_moments_are_the_inverse_of_operational_time(name: str) -> None:
    """M^-1(M(t)) is t where m is above zero; beyond the last M there is no moment."""
    tempo = HazardModulation.model_validate(TEMPOS.get(name, {"swings": {"every": "5 h", "cv": 2}}))
    clock = tempo.realise(12 * DAY, 1, 0)
    elapsed = np.linspace(0, clock.total, 1001)[1:-1]
    moments = [clock.moment(each) for each in elapsed.tolist()]
    assert (np.diff(moments) > 0).all()
    assert [clock.elapsed(time) for time in moments] == pytest.approx(elapsed, rel=1e-9)
    assert [clock.moment(each) for each in (clock.total, 1.1 * clock.total)] == [math.inf, math.inf]


@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_ageing_units_run_in_operational_time(renews: str) -> None:
    """Played by the engine, lives that renew at once count like a renewal process in operational time."""
    law = {"use": "weibull", "shape": 3, "mean": "20 d"}
    tempo = {"calendar": {"period": "10 d", "factors": [0.2, 1.8]}, "trend": {"exponent": 2, "reference": "20 d"}}
    source = source_with_tempo(tempo, law=law, renews=renews)
    source = replace(source, repair=Fixed.from_seconds(value=0.0))
    case = prepared(
        cluster={"nodes": 512, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon="30 d",
        jobs=[{"name": "job", "gpus": 1, "arrival": "30 d"}],
    )
    case = replace(case, sources=(source,))
    ours = np.array([sim.run(case, number).counts["failures"] for number in range(30)])
    at_once = replace(source, renews="at_failure")
    assert agree(ours, counts_of(at_once, 30 * DAY, 200))
    assert not agree(ours, counts_of(replace(at_once, tempo=None), 30 * DAY, 200)), "the tempo must matter"


# ----------------------------------------
# Units that differ: frailty makes counts negative binomial, sources share bad nodes, hazard ratios act on survival.
#
# References
# ----------
# M. Greenwood, G. U. Yule, "An inquiry into the nature of frequency distributions representative of multiple
# happenings",
# Journal of the Royal Statistical Society 83 (1920): Poisson counts with a Gamma mean are negative binomial. D. R.
# Cox,
# "Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972): proportional hazards.


def source_with_variety(**entry: Any) -> FailureSource:
    """Return a component source; without a law one failure in a hundred days."""
    base: dict[str, Any] = {"name": "fault", "part": "node"}
    if "law" not in entry:
        base["rate"] = "1 per 100 d"
    return Component.model_validate(base | entry).build(COUNTS, 1)


def by_node(source: FailureSource, days: float, *others: FailureSource, seed: int = 1) -> list[NDArray[np.int64]]:
    """Return the failures of each node in some days, of a source and of others beside it."""
    sources = (source, *others)
    drawn = draw_trace(sources, days * DAY, seed, 0)
    counts = []
    for index, each in enumerate(sources):
        slots = drawn.slot[drawn.source == index]
        counts.append(np.bincount(slots // max(each.slots_per_node, 1), minlength=NODES))
    return counts


@pytest.mark.parametrize(
    ("entry", "shape"),
    [
        ({"frailty": {"shape": 0.5}}, 0.5),
        ({"frailty": {"shape": 2, "of": "part"}}, 2.0),
        ({"part": "gpu", "rate": "1 per 800 d", "frailty": {"shape": 0.5}}, 0.5),
        ({"part": "nic", "rate": "1 per 800 d", "frailty": {"shape": 0.5}}, 0.5),
        ({"part": "gpu", "rate": "1 per 800 d", "frailty": {"shape": 0.5, "of": "part"}}, 4.0),
    ],
    ids=["node", "node as a part", "GPUs of frail nodes", "NICs of frail nodes", "frail GPUs"],
)
def test_gamma_frailty_makes_counts_negative_binomial(entry: dict[str, Any], shape: float) -> None:
    """Counts of nodes have variance / mean = 1 + mean / shape, and the whole negative binomial law.

    Eight frail GPUs of a node add up to a Gamma law with eight times the shape.
    """
    mean = 1.5
    counts = by_node(source_with_variety(**entry), 100 * mean)[0]
    law = stats.nbinom(shape, shape / (shape + mean))
    variance, excess = float(law.var()), float(law.stats(moments="k"))
    assert variance / mean == pytest.approx(1 + mean / shape)
    assert close(counts, mean, variance)
    # The variance of a sample variance: (kurtosis - 1) sigma^4 / n.
    error = variance * math.sqrt((excess + 2) / NODES)
    assert abs(counts.var(ddof=1) - variance) <= Z * error
    assert abs(variance - mean) > 2 * Z * error, "equal nodes must fall outside"
    observed = np.bincount(np.minimum(counts, 40), minlength=41).astype(np.float64)
    expected = NODES * law.pmf(np.arange(41))
    expected[40] += NODES * law.sf(40)
    assert stats.chisquare(*pooled(observed, expected)).pvalue > LEAST


def covariance(one: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[float, float]:
    """Return the covariance of two counts over nodes, and its standard error."""
    products = (one - one.mean()) * (other - other.mean())
    return float(products.mean()), float(products.std(ddof=1)) / math.sqrt(NODES)


@cases("part", ["node", "gpu"])
def test_a_shared_frailty_meets_the_same_bad_nodes(part: str) -> None:
    """Two sources with one frailty have the covariance mean x mean / shape over nodes."""
    rate = "1 per 100 d" if part == "node" else "1 per 800 d"
    one = source_with_variety(frailty={"shape": 0.8})
    other = source_with_variety(name="other", part=part, rate=rate, frailty={"shape": 0.8})
    found, error = covariance(*by_node(one, 150, other))
    assert abs(found - 1.5 * 1.5 / 0.8) <= Z * error
    assert found > 2 * Z * error


@cases(
    "changes",
    [{"frailty": {"shape": 0.8, "shared": "others"}}, {"part": "rack", "frailty": {"shape": 0.8}}, {}],
    ids=["another name", "racks are no nodes", "no frailty"],
)
def test_other_sources_have_nothing_to_do_with_it(changes: dict[str, Any]) -> None:
    """Frailties with different names, of different parts, or none at all, are uncorrelated over nodes."""
    found, error = covariance(
        *by_node(source_with_variety(frailty={"shape": 0.8}), 150, source_with_variety(name="other", **changes))
    )
    assert abs(found) <= Z * error


@cases("replication", [0, 1])
def test_frailties_follow_the_gamma_law_with_mean_one(replication: int) -> None:
    """Hazard ratios are Gamma distributed, and drawn again in each replication."""
    source = source_with_variety(frailty={"shape": 0.7})
    ratio = present(fleet_of(source, 1, replication).ratio)
    assert stats.kstest(ratio, stats.gamma(0.7, scale=1 / 0.7).cdf).pvalue > LEAST
    other = present(fleet_of(source, 1, 1 - replication).ratio)
    assert abs(float(np.corrcoef(ratio, other)[0, 1])) <= Z / math.sqrt(NODES)


def test_batches_are_shares_of_the_nodes() -> None:
    """Each node is in a batch with its share; all its GPUs are, and it is in the same for every source."""
    law = {"use": "weibull", "shape": 2, "mean": "30 d"}
    batches = [{"share": 0.2, "law": law}, {"share": "5 %", "ratio": 10}]
    fleet = fleet_of(source_with_variety(part="gpu", law=law, batches=batches), 1, 0)
    which, ratio = present(fleet.which).reshape(NODES, 8), present(fleet.ratio).reshape(NODES, 8)
    assert (which == which[:, :1]).all()
    assert (ratio == ratio[:, :1]).all()
    for found, share in ((which[:, 0] == 1, 0.2), (ratio[:, 0] == 10, 0.05), (ratio[:, 0] == 1, 0.95)):
        assert abs(found.mean() - share) <= Z * math.sqrt(share * (1 - share) / NODES)
    assert not ((which == 1) & (ratio == 10)).any()
    other = fleet_of(source_with_variety(name="other", batches=batches), 1, 0)
    assert np.array_equal(present(other.which), which[:, 0])
    assert np.array_equal(present(other.ratio), ratio[:, 0])


def test_batches_fail_by_their_own_rates() -> None:
    """Three batches with hazards 1, 5 and 0.2 of the source's: counts of nodes are a mixture of Poisson laws."""
    entry = [{"share": 0.3, "ratio": 5}, {"share": 0.2, "law": {"use": "exponential", "mean": "500 d"}}]
    counts = by_node(source_with_variety(batches=entry), 100)[0]
    law = 0.5 * stats.poisson(1).pmf(np.arange(31)) + 0.3 * stats.poisson(5).pmf(np.arange(31))
    law += 0.2 * stats.poisson(0.2).pmf(np.arange(31))
    observed = np.bincount(np.minimum(counts, 30), minlength=31).astype(np.float64)
    assert stats.chisquare(*pooled(observed, NODES * law / law.sum())).pvalue > LEAST
