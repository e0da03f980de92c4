"""Incidents of shared parts: who is taken, how many, when, and how they come back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

import sim
from sim.failures import Blast, draw_trace
from sim.failures.source import Domains
from sim.failures.spread import Size, Victims
from tests.cases import cases
from tests.harness import prepared
from tests.intervals import LEAST, Z, close
from tests.source_checks import pooled
from tests.source_rival import size_law

if TYPE_CHECKING:
    from sim.engine.result import Outage

DAY = 86400.0
EXPONENTIAL = {"law": "exponential", "mean": "1 h"}


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


# -------------------------------------------------------------------------------------------------------- victims


def test_every_subset_is_equally_likely() -> None:
    """An incident that takes two of six nodes takes each of the fifteen pairs as often as any other."""
    domains = Domains(np.array([0, 6]), np.arange(10, 16))
    victims = Victims(Blast(6, Size(nodes=2), domains=domains), "incident", 1, 0)
    pairs = list(itertools.combinations(range(10, 16), 2))
    observed = np.zeros(len(pairs))
    for number in range(6000):
        observed[pairs.index(victims.nodes(0, number))] += 1  # type: ignore[arg-type]
    assert stats.chisquare(observed).pvalue > LEAST


def test_incidents_choose_anew() -> None:
    """Two incidents in a row have no more nodes in common than chance gives: 4 of 64 share 1/4 of a node."""
    domains = Domains(np.array([0, 64]), np.arange(64))
    victims = Victims(Blast(64, Size(nodes=4), domains=domains), "incident", 1, 0)
    sets = [set(victims.nodes(0, number)) for number in range(4000)]
    common = np.array([len(one & other) for one, other in itertools.pairwise(sets)])
    assert close(common, 0.25, float(stats.hypergeom(64, 4, 4).var()))


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


# ------------------------------------------------------------------------------------------------ at once, repairs


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
    failure = {"part": "cluster", "law": {"law": "fixed", "value": "2 d"}, "size": {"nodes": 4}}
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
    after = {"law": "uniform", "low": "1 min", "high": "2 h"}
    relapse = {"after": after, "probability": p}
    failure = {"law": {"law": "fixed", "value": "10 d"}, "size": {"nodes": 4}, "relapse": relapse}
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


# ---------------------------------------------------------------------------------------------------------- spread


def test_clusters_have_the_stated_size_and_delays() -> None:
    """Played by the engine, each incident makes nodes fail one after another: size and delays follow their laws."""
    spread = {"law": "weibull", "shape": 2, "mean": "1 h"}
    failure = {"law": {"law": "fixed", "value": "2 d"}, "size": {"mean": 4, "least": 2}, "spread": spread}
    result = sim.run(idle(failure, 4001, repair={"time": {"law": "exponential", "mean": "10 s"}}), 0, keeps_log=True)
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
    assert stats.chisquare(*pooled(sizes, 2000 * size_law(Size(mean=4, least=2), 64))).pvalue > LEAST
    assert result.counts["failures"] == len(start), "each is a failure of its own"


def test_failures_of_incidents_are_overdispersed() -> None:
    """Failures over time are compound Poisson: mean = rate E[S], variance = rate E[S^2]."""
    case = idle({"rate": "1 per d", "size": {"mean": 4}, "spread": "0 s"}, 10)
    counts = np.array([len(draw_trace(case.sources, 10 * DAY, 1, number).time) for number in range(1500)])
    law = size_law(Size(mean=4), 64)
    size = np.arange(65)
    mean, variance = 10 * float(size @ law), 10 * float(size**2 @ law)
    assert close(counts, mean, variance)
    error = float(np.std((counts - mean) ** 2, ddof=1)) / np.sqrt(1500)
    assert abs(float(np.mean((counts - mean) ** 2)) - variance) <= Z * error
    assert variance - mean > 2 * Z * error, "independent failures must fall outside"


def test_a_spread_incident_is_played_as_it_was_drawn() -> None:
    """Each row of the trace is an outage of its node at its time, with all the marks that a failure has."""
    failure = {"part": "rack", "rate": "1 per 10 rack-d", "spread": EXPONENTIAL, "detection": EXPONENTIAL}
    case = idle(failure, 30, repair={"time": {"law": "exponential", "mean": "1 ms"}})
    drawn = sim.trace(case, 3)
    found = outages(case, 3)
    assert len(found) > 100
    assert [(outage.start, outage.node) for outage in found] == list(zip(drawn.time, drawn.slot, strict=True))
