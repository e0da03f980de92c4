"""Tiers of repair against queueing theory: nodes that wait for crews, and faults that repairs leave."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.formulas.nodes import crew_limited_pmf
from tests.harness import prepared, results_of
from tests.intervals import Z, student
from tests.pace import one_in

NODES = 8

REPLICATIONS = 24

LIFE = 1000.0

"""Mean life of a node [s]."""


def shares_of_time(repair: dict[str, Any], **changes: Any) -> np.ndarray[Any, Any]:
    """Return the shares of time with 0, 1, ... nodes down, shape (replications, nodes + 1), after a warm-up."""
    case = prepared(
        cluster={"nodes": NODES, "gpus_per_node": 1, "fabric": {"rails": 1}},
        failures=[{"use": "component", "name": "fault", "law": {"use": "exponential", "mean": f"{LIFE} s"}}],
        horizon="150000 s",
        warmup="20000 s",
        repair=repair,
        **changes,
    )
    found = np.zeros((REPLICATIONS, NODES + 1))
    for replication, result in enumerate(results_of(case, REPLICATIONS)):
        for down, seconds in result.down_times.items():
            found[replication, down] = seconds / 150000.0
        assert found[replication].sum() == pytest.approx(1)
    return found


def check_shares(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """The mean share of each number of nodes down lies within its standard error of the theory."""
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(REPLICATIONS)
    frequent = expected > 1e-3
    assert frequent.sum() > 3
    assert np.all(np.abs(mean - expected)[frequent] <= student(REPLICATIONS) * error[frequent])


@pytest.mark.parametrize("crews", one_in(3, [1, 2, 3]))
def test_nodes_wait_for_crews(crews: int) -> None:
    """Exponential lives and repairs, and c crews: the machine repair model M/M/c//N, state by state.

    C. Palm, Industritidningen Norden 75 (1947); W. Feller, An Introduction to Probability Theory I, XVII.7. A job on
    some of the nodes changes nothing: each failure is known at once.
    """
    tier = {"name": "repair", "time": {"use": "exponential", "mean": "200 s"}, "crews": crews}
    found = shares_of_time({"use": "tiers", "tiers": [tier]})
    check_shares(found, crew_limited_pmf(NODES, 0, 1 / LIFE, 1 / 200, crews))


def two_stations(loads: tuple[float, float], crews: tuple[float, float]) -> np.ndarray[Any, Any]:
    """Return the law of the number of nodes at either of two stations in a closed network of product form.

    W. J. Gordon, G. F. Newell, "Closed queuing systems with exponential servers", Operations Research 15 (1967): the
    weight of a state is the product of those of its stations; nodes that are up are a station with a server for each.
    """
    law: np.ndarray[Any, Any] = np.zeros(NODES + 1)
    for counts in itertools.product(range(NODES + 1), repeat=2):
        down = sum(counts)
        if down > NODES:
            continue
        weight = LIFE ** (NODES - down) / math.factorial(NODES - down)
        for count, load, servers in zip(counts, loads, crews, strict=True):
            weight *= load**count / math.prod(min(number, servers) for number in range(1, count + 1))
        law[down] += weight
    law /= law.sum()
    return law


@pytest.mark.parametrize("qualification", one_in(2, [None, "0 s"]), ids=["escalated", "found by tests"])
def test_two_tiers_with_crews(qualification: str | None) -> None:
    """A closed network of queues: two resets at once, one repair, and a share of 0.4 that needs both.

    Nodes go on because the reset says so, or because tests that take no time find what it did not mend.
    """
    exponential = {"use": "exponential"}
    reset = {"name": "reset", "time": {**exponential, "mean": "100 s"}, "crews": 2}
    manual = {"name": "manual", "time": {**exponential, "mean": "250 s"}, "crews": 1}
    repair: dict[str, Any] = {"use": "tiers", "tiers": [{**reset, "escalates": 0.4}, manual]}
    if qualification is not None:
        tests = {"time": qualification, "finds": 0.8}
        repair = {"use": "tiers", "tiers": [{**reset, "fixes": 0.5}, manual], "qualification": tests}
    check_shares(shares_of_time(repair), two_stations((100.0, 0.4 * 250.0), (2, 1)))


def test_with_crews_enough_the_law_does_not_matter() -> None:
    """Insensitivity: any law of the same mean gives the binomial with q = 200 / 1200."""
    tier = {"name": "repair", "time": {"use": "lognormal", "mean": "200 s", "sigma": 1.0}}
    q = 200.0 / (LIFE + 200.0)
    binomial = [math.comb(NODES, down) * q**down * (1 - q) ** (NODES - down) for down in range(NODES + 1)]
    check_shares(shares_of_time({"use": "tiers", "tiers": [tier]}), np.asarray(binomial))


@pytest.mark.parametrize("crews", [None, 40], ids=["crews for all", "forty crews"])
def test_repairs_that_do_not_repair(crews: int | None) -> None:
    """Each part fails once, and strikes again as often as repairs leave the fault: a geometric number of times.

    A course leaves the fault with q: the reset lets 0.3 go on; of the others 0.5 are not mended, of which the tests
    find 0.6, who go on too; the manual repair leaves 0.2, of which the tests find 0.6, who go through it again.
    """
    manual_leaves = 0.2 * 0.4 / (1 - 0.2 * 0.6)
    q = 0.3 * manual_leaves + 0.7 * (0.5 * 0.4 + 0.5 * 0.6 * manual_leaves)
    nodes = 2000
    case = prepared(
        cluster={"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 1}],
        horizon="100 d",
        failures=[
            {
                "use": "component",
                "name": "fault",
                "law": {"use": "uniform", "low": "1 h", "high": "10 d"},
                "renews": "never",
                "relapse": {"after": {"use": "exponential", "mean": "1 h"}},
            }
        ],
        repair={
            "use": "tiers",
            "tiers": [
                {"name": "reset", "time": "10 min", "escalates": 0.3, "fixes": 0.5, "crews": crews},
                {"name": "manual", "time": {"use": "exponential", "mean": "1 h"}, "fixes": 0.8},
            ],
            "qualification": {"time": "10 min", "finds": 0.6},
        },
    )
    counts = sim.run(case, 0).counts
    assert counts["failures"] - counts["relapses"] == nodes
    # Of a geometric number: mean q / (1 - q), variance q / (1 - q)^2.
    spread = math.sqrt(nodes * q) / (1 - q)
    assert abs(counts["relapses"] - nodes * q / (1 - q)) <= Z * spread
    assert counts["false_repairs"] == counts["relapses"]
    assert counts["repairs"] == counts["failures"]
    assert counts["hidden_at_end"] == 0
