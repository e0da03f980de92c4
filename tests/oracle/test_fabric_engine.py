"""The fabric in the engine against theory: parts that are out by chance, whom that stops, and what it costs.

Each spine, switch or cable is a two-state chain of its own: out a share q = MTTR / (MTBF + MTTR) of the time.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

import sim
from sim.cluster import FABRIC_PARTS, ClusterSpec
from sim.engine.simulation import Simulation
from tests.cases import cases
from tests.harness import prepared
from tests.intervals import LEAST, close
from tests.topology_cases import graph_for_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DAY = 86_400.0
HOUR = 3_600.0
RARE_SAVES = {"tiers": [{"interval": "100000 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}
AT_ONCE = {"detection": {"time": "0 s"}, "recovery": {"use": "hot-spare", "initialize": "0 s"}}


def chain(part: str, mtbf: float, mttr: float) -> dict[str, Any]:
    """Return a source of a part whose units are well and out for exponential times [s]."""
    return {
        "use": "component",
        "name": part,
        "part": part,
        "law": {"law": "exponential", "mean": f"{mtbf!r} s"},
        "repair": {"law": "exponential", "mean": f"{mttr!r} s"},
        "renews": "at_return",
    }


def at_rate(part: str, mtbf: float) -> dict[str, Any]:
    """Return a source of a part that fails at a constant rate and is mended at once."""
    law = {"law": "exponential", "mean": f"{mtbf!r} s"}
    return {"use": "component", "name": part, "part": part, "law": law, "repair": "0 s"}


def case(fabric: dict[str, Any], nodes: int, source: dict[str, Any], **more: Any) -> sim.Prepared:
    """Return a job on all nodes that waits for the network for 30 % of a step, long after everything began."""
    job = {"name": "job", "gpus": more.pop("gpus", nodes * fabric["rails"]), "communication": more.pop("share", 0.3)}
    return prepared(
        **{
            "cluster": {"nodes": nodes, "gpus_per_node": fabric["rails"], "fabric": {"radix": 1024, **fabric}},
            "jobs": [job],
            "failures": [source],
            "checkpoint": RARE_SAVES,
            "initial": "stationary",
            "seed": 11,
            **AT_ONCE,
            **more,
        }
    )


class _Counted(Simulation):
    """A simulation that notes for how long how many units of the fabric are out."""

    def run(self) -> sim.Result:
        """Play like the simulation itself, with a look at the fabric before every event."""
        self.seconds_out: dict[int, float] = {}
        last = 0.0
        while self.is_open:
            number = len(self.failures.fabric.out)
            self.kernel.step()
            self.events += 1
            self.seconds_out[number] = self.seconds_out.get(number, 0.0) + self.kernel.now - last
            last = self.kernel.now
        return self._result()


# ---------------------------------------------------------------------------------------------- lost bandwidth

SPINES = 8


def test_spines_that_are_out_are_binomial_and_cost_what_their_bandwidth_is_worth() -> None:
    """Of 8 spines k are out with P(k) = C(8, k) q^k (1 - q)^(8 - k), and a step takes 0.7 + 0.3 / (1 - k / 8).

    A spine is out 10 % of the time; all eight, once in 10^8.
    """
    share, q, replications, horizon = 0.3, 0.1, 16, 30 * DAY
    fabric = {"rails": 1, "leaf": {"nodes": 8}, "spine": {"switches": SPINES}}
    one = case(fabric, 16, chain("spine", 9 * HOUR, HOUR), horizon=f"{horizon} s", share=share)
    out = np.zeros((replications, SPINES))
    degraded = np.zeros(replications)
    for number in range(replications):
        simulation = _Counted(one, number, sim.trace(one, number))
        job = simulation.run().jobs[0]
        assert job.interruptions == {}
        degraded[number] = job.buckets[sim.Bucket.DEGRADED] / job.requested
        for count, seconds in simulation.seconds_out.items():
            out[number, count] = seconds / horizon
    binomial = np.array([math.comb(SPINES, k) * q**k * (1 - q) ** (SPINES - k) for k in range(SPINES)])
    for k in range(4):
        assert close(out[:, k], binomial[k]), f"{k} of {SPINES} spines out"
    expected = sum(binomial[k] * _loss(share, k) for k in range(SPINES))
    assert close(degraded, expected)
    assert not close(degraded, sum(binomial[k] * _loss(2 * share, k) for k in range(SPINES)))
    assert not close(degraded, _loss(share, q * SPINES)), "the mean of what is out is not the mean of what it costs"


def _loss(share: float, out: float) -> float:
    return 1 - 1 / (1 - share + share / (1 - out / SPINES))


@pytest.mark.nightly
def test_parts_are_out_as_often_at_the_start_as_ever() -> None:
    """In the first hour of a simulation that begins as after a long time, each spine is out a share q of it."""
    q = 0.1
    fabric = {"rails": 1, "leaf": {"nodes": 8}, "spine": {"switches": SPINES}}
    one = case(fabric, 16, chain("spine", 9 * HOUR, HOUR), horizon=f"{HOUR} s")
    out = []
    for number in range(2500):
        simulation = _Counted(one, number, sim.trace(one, number))
        simulation.run()
        out.append(sum(count * seconds for count, seconds in simulation.seconds_out.items()) / (SPINES * HOUR))
    assert close(np.array(out), q)


# ------------------------------------------------------------------------------------------- one home and two

GROUPS, EACH = 8, 2
HOMES: dict[str, dict[str, Any]] = {
    "one": {"rails": 1, "leaf": {"nodes": EACH}, "spine": {"switches": 2}},
    "two": {"use": "dual-plane", "rails": 1, "segment": {"nodes": EACH}, "spine": {"switches": 2}},
}


def outages_and_interruptions(
    homes: str, mtbf: float, mttr: float, horizon: float, replications: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of node-time that is spent cut off, and the interruptions of a job on all nodes."""
    one = case(HOMES[homes], GROUPS * EACH, chain("leaf", mtbf, mttr), horizon=f"{horizon} s")
    results = [sim.run(one, number) for number in range(replications)]
    down = [result.down_node_seconds / result.node_seconds for result in results]
    return np.array(down), np.array([sum(result.jobs[0].interruptions.values()) for result in results], dtype=float)


def test_hosts_behind_a_pair_are_cut_off_a_squared_share_of_the_time() -> None:
    """One switch is out a share q of the time, and both of a pair q^2; a pair is lost at the rate 2 q (1 - q) / MTBF.

    In the long run that is how often one of the two is out, times the rate at which the other one follows.
    """
    mtbf, mttr, horizon, replications = 8 * HOUR, 2 * HOUR, 30 * DAY, 12
    q = mttr / (mtbf + mttr)
    down, hits = outages_and_interruptions("one", mtbf, mttr, horizon, replications)
    assert close(down, q)
    assert close(hits, GROUPS * (1 - q) / mtbf * horizon)
    down, hits = outages_and_interruptions("two", mtbf, mttr, horizon, replications)
    assert close(down, q**2)
    assert close(hits, GROUPS * 2 * q * (1 - q) / mtbf * horizon)
    assert not close(hits, GROUPS * q * (1 - q) / mtbf * horizon), "half of it: one order only"


# --------------------------------------------------------------------------------------------- cables and NICs

TREE: dict[str, Any] = {"rails": 2, "leaf": {"nodes": 4}, "spine": {"switches": 2}}


def interruptions(one: sim.Prepared, replications: int) -> NDArray[np.float64]:
    """Return the interruptions of the job in each replication."""
    runs = (sim.run(one, number) for number in range(replications))
    return np.array([sum(result.jobs[0].interruptions.values()) for result in runs], dtype=float)


def check_poisson(counts: NDArray[np.float64], mean: float) -> None:
    """Counts have the mean and the variance of Poisson's law."""
    from scipy.stats import chi2

    assert close(counts, mean, mean), f"{counts.mean()} of {mean}"
    dispersion = float(counts.var(ddof=1) / counts.mean() * (counts.size - 1))
    assert chi2.ppf(LEAST, counts.size - 1) <= dispersion <= chi2.isf(LEAST, counts.size - 1)


@pytest.mark.parametrize(("part", "mtbf"), [("transceiver", 40 * DAY), ("cable_node_leaf", 20 * DAY)])
def test_a_cable_with_two_transceivers_fails_twice_as_often(part: str, mtbf: float) -> None:
    """Of 32 access cables one fails every 15 h, whether it is the cable or a transceiver that lives twice as long.

    What fails between the switches stops nobody.
    """
    one = case(TREE, 16, at_rate(part, mtbf), horizon="30 d", initial="new")
    check_poisson(interruptions(one, 60), 32 * 30 * DAY / (20 * DAY))


@pytest.mark.parametrize(("part", "units"), [("leaf", 4), ("nic", 16), ("transceiver", 32), ("cable_node_leaf", 16)])
def test_the_mean_time_to_interrupt_is_known_beforehand(part: str, units: int) -> None:
    """A job on 8 of 16 nodes of two rails needs four leaf switches, 16 NICs and cables, and 32 transceivers."""
    mtbf, horizon = units * DAY, 40 * DAY
    one = case(TREE, 16, at_rate(part, mtbf), horizon=f"{horizon} s", gpus=16, initial="new")
    assert one.jobs[0].mtti == pytest.approx(mtbf / units, rel=1e-12)
    check_poisson(interruptions(one, 60), horizon / one.jobs[0].mtti)


@cases("part", ["spine", "cable_leaf_spine"])
def test_nobody_is_expected_to_be_interrupted_by_what_cuts_nobody_off(part: str) -> None:
    """Neither beforehand nor in the simulation, though they fail, and take bandwidth."""
    one = case(TREE, 16, chain(part, 100 * DAY, HOUR), horizon="200 d")
    assert one.jobs[0].mtti == math.inf
    result = sim.run(one, 0)
    assert result.counts["degraded"] == result.counts["faults"] > 0
    assert result.jobs[0].interruptions == {}
    assert result.jobs[0].buckets[sim.Bucket.DEGRADED] > 0


# --------------------------------------------------------------------------------------------- imported graphs

TIERS: dict[str, Any] = {
    "use": "fat-tree",
    "rails": 2,
    "radix": 64,
    "leaf": {"nodes": 2},
    "spine": {"leaf_groups": 2, "switches": 2},
    "core": {"switches": 4},
}
"""No two cables join the same switches: a file has no numbers for parallel ones."""


@pytest.mark.parametrize("reroute", ["none", "scale_up"])
def test_a_graph_of_a_fat_tree_is_the_fat_tree(reroute: str, tmp_path: Path) -> None:
    """Exported and read again, with sources on every part of the fabric: the same seeds end bit by bit the same.

    Of an imported graph nothing is known beforehand, so that every outage is looked at by itself.
    """
    cluster: dict[str, Any] = {"nodes": 12, "gpus_per_node": 2, "fabric": {**TIERS, "reroute": reroute}}
    file = tmp_path / "graph.json"
    graph = graph_for_file(ClusterSpec.model_validate(cluster).build())
    file.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")
    imported = {"use": "graph-file", "file": str(file), "rails": 2, "reroute": reroute}
    counts = ClusterSpec.model_validate(cluster).counts()
    changes: dict[str, Any] = {
        "horizon": "20 d",
        "jobs": [{"name": "job", "gpus": 18, "communication": 0.3, "step_time": "3 s"}],
        "failures": [chain(part, DAY * counts[part], 12 * HOUR) for part in FABRIC_PARTS],
        "spares": {"hot": 1},
        "seed": 3,
    }
    one, other = (prepared(cluster=cluster | {"fabric": fabric}, **changes) for fabric in (cluster["fabric"], imported))
    assert one.jobs[0].mtti == other.jobs[0].mtti
    hits = 0
    for number in range(4):
        first, second = sim.run(one, number, keeps_log=True), sim.run(other, number, keeps_log=True)
        assert first.counts == second.counts
        assert first.events == second.events
        assert first.outages == second.outages
        assert np.array_equal(first.jobs[0].totals, second.jobs[0].totals)
        assert np.array_equal(first.outside, second.outside)
        assert first.counts["degraded"] > 0
        hits += first.counts["hits"]
    assert hits > 0
