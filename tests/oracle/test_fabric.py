"""Who is cut off and what bandwidth is left, against components and maximum flows of networkx on random fabrics."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Topology
from ettrick.sim.cluster.degraded import FabricState, ReachabilityChange
from ettrick.sim.cluster.switches import Reach
from ettrick.sim.engine.simulation import Simulation
from tests import pace
from tests.cases import cases
from tests.harness import prepared, results_of
from tests.intervals import LEAST, close
from tests.pace import one_in, sample
from tests.random_fabrics import Rival, by_hand, drawn, drawn_clos, units
from tests.topology_checks import graph_for_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from ettrick.sim.cluster.paths import Paths

# ----------------------------------------
# The fabric in the engine against theory: parts that are out by chance, whom that stops, and what it costs.
#
# Each spine, switch or cable is a two-state chain of its own: out a share q = MTTR / (MTBF + MTTR) of the time.

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
        "law": {"use": "exponential", "mean": f"{mtbf!r} s"},
        "repair": {"use": "exponential", "mean": f"{mttr!r} s"},
        "renews": "at_return",
    }


def at_rate(part: str, mtbf: float) -> dict[str, Any]:
    """Return a source of a part that fails at a constant rate and is mended at once."""
    law = {"use": "exponential", "mean": f"{mtbf!r} s"}
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
            number = len(self.fabric.out)
            self.kernel.step()
            self.events += 1
            self.seconds_out[number] = self.seconds_out.get(number, 0.0) + self.kernel.now - last
            last = self.kernel.now
        return self._result()


SPINES = 8


def test_spines_that_are_out_are_binomial_and_cost_what_their_bandwidth_is_worth() -> None:
    """Of 8 spines k are out with P(k) = C(8, k) q^k (1 - q)^(8 - k), and a step takes 0.7 + 0.3 / (1 - k / 8).

    A spine is out 10 % of the time; all eight, once in 10^8.
    """
    share, q, replications, horizon = 0.3, 0.1, 12, 15 * DAY
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
    for number in range(sample(2500)):
        simulation = _Counted(one, number, sim.trace(one, number))
        simulation.run()
        out.append(sum(count * seconds for count, seconds in simulation.seconds_out.items()) / (SPINES * HOUR))
    assert close(np.array(out), q)


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
    results = list(results_of(one, replications))
    down = [result.down_node_seconds / result.node_seconds for result in results]
    return np.array(down), np.array([sum(result.jobs[0].interruptions.values()) for result in results], dtype=float)


def test_hosts_behind_a_pair_are_cut_off_a_squared_share_of_the_time() -> None:
    """One switch is out a share q of the time, and both of a pair q^2; a pair is lost at the rate 2 q (1 - q) / MTBF.

    In the long run that is how often one of the two is out, times the rate at which the other one follows.
    """
    mtbf, mttr, horizon, replications = 8 * HOUR, 2 * HOUR, sample(10) * DAY, 12
    q = mttr / (mtbf + mttr)
    down, hits = outages_and_interruptions("one", mtbf, mttr, horizon, replications)
    assert close(down, q)
    assert close(hits, GROUPS * (1 - q) / mtbf * horizon)
    down, hits = outages_and_interruptions("two", mtbf, mttr, horizon, replications)
    assert close(down, q**2)
    assert close(hits, GROUPS * 2 * q * (1 - q) / mtbf * horizon)
    assert not close(hits, GROUPS * q * (1 - q) / mtbf * horizon), "half of it: one order only"


TREE: dict[str, Any] = {"rails": 2, "leaf": {"nodes": 4}, "spine": {"switches": 2}}


def interruptions(one: sim.Prepared, replications: int) -> NDArray[np.float64]:
    """Return the interruptions of the job in each replication."""
    runs = results_of(one, replications)
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
        "horizon": f"{sample(20)} d",
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
        assert [*first.outages] == [*second.outages]
        assert np.array_equal(first.jobs[0].totals, second.jobs[0].totals)
        assert np.array_equal(first.outside, second.outside)
        assert first.counts["degraded"] > 0
        hits += first.counts["hits"]
    assert hits > 0


CLOSE = {"rel": 1e-9, "abs": 1e-12}

LINKS = ("cable_leaf_spine", "cable_spine_core", "spine", "core", "leaf")


def some(topology: Topology, generator: np.random.Generator, parts: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """Draw failures that are open at once; the same unit may be among them twice."""
    every = [failure for failure in units(topology) if not parts or failure[0] in parts]
    if not every:
        return []
    number = int(generator.integers(1, max(2, len(every) // 4)))
    return [every[int(position)] for position in generator.integers(len(every), size=number)]


def after(state: FabricState, failures: Iterable[tuple[str, int]]) -> set[int]:
    """Let parts fail, and return the nodes that are cut off by what the state told."""
    cut: set[int] = set()
    for part, unit in failures:
        follow(cut, state.fail(part, unit))
    return cut


def follow(cut: set[int], change: ReachabilityChange) -> None:
    """Apply a change; it may say nothing twice and is in order."""
    assert change.cut == sorted(set(change.cut) - cut)
    assert change.restored == sorted(set(change.restored) & cut)
    cut.difference_update(change.restored)
    cut.update(change.cut)


def level_of(topology: Topology, classes: np.ndarray, nodes: set[int]) -> int:
    """Return how far the traffic of a job goes."""
    if len({int(classes[node]) for node in nodes}) < 2:
        return 0
    return 1 if len({int(topology.domains["pod"][node]) for node in nodes}) < 2 else 2


def share_of(state: FabricState, classes: np.ndarray, kinds: int, nodes: set[int]) -> float:
    """Return the share of a job that holds these nodes."""
    presence = np.bincount([int(classes[node]) for node in nodes], minlength=kinds)
    return state.share(presence, nodes.__contains__)


@pytest.mark.parametrize("seed", range(80))
def test_cut_off_nodes_are_those_of_the_components(seed: int) -> None:
    """Nodes that the state calls cut off have a rail that networkx finds outside the main component, and no others."""
    topology = drawn(seed)
    generator = np.random.default_rng(seed)
    fresh = topology.paths
    for _ in range(4):
        state, failures = FabricState(fresh), some(topology, generator)
        cut = after(state, failures)
        assert cut == Rival(topology, tuple(failures)).cut
        assert cut == {node for node in range(topology.nodes) if state.is_cut(node)}


@pytest.mark.parametrize("seed", one_in(4, range(80)))
def test_shares_are_maximum_flows(seed: int) -> None:
    """What is left to random jobs is what networkx can send, living over healthy.

    What leaves a pod is what its definition says; how that compares with the maximum flow is tested below.
    """
    topology = drawn(seed, saturated=seed % 2 == 0)
    generator = np.random.default_rng(seed)
    fresh = topology.paths
    for _ in range(3):
        state, failures = FabricState(fresh), some(topology, generator)
        after(state, failures)
        rival = Rival(topology, tuple(failures))
        for _ in range(3):
            nodes = set(generator.choice(topology.nodes, size=int(generator.integers(1, topology.nodes + 1))).tolist())
            level = level_of(topology, fresh.class_of_node, nodes)
            share = share_of(state, fresh.class_of_node, fresh.classes, nodes)
            assert share == pytest.approx(rival.share(nodes, level), **CLOSE)


def test_a_part_of_a_pod_that_is_cut_off_neither_offers_nor_passes() -> None:
    """Leaf switch 2 joins the halves of a pod: when it is dead, one half is alone with a spine and a core.

    The other half offers 4 units and its spine passes 3 of them, where 12 were offered and 8 + 3 passed.
    """
    ends = [(node, 0, node // 4, 1.0) for node in range(16)]
    links = [(1, leaf, spine, 4.0) for leaf, spine in ((0, 0), (1, 1), (2, 0), (2, 1), (3, 2))]
    links += [(2, 0, 0, 8.0), (2, 1, 1, 3.0), (2, 2, 1, 4.0)]
    topology = by_hand((16, 4, 3, 2), ends, links, [0] * 12 + [1] * 4)
    fresh = topology.paths
    state = FabricState(fresh)
    assert after(state, [("leaf", 2)]) == {*range(4), *range(8, 12)}
    share = share_of(state, fresh.class_of_node, fresh.classes, {4, 12})
    assert share == pytest.approx((3 / 4) / (11 / 12), **CLOSE)
    assert share == pytest.approx(Rival(topology, (("leaf", 2),)).share({4, 12}, 2), **CLOSE)


def passes(topology: Topology, failures: list[tuple[str, int]]) -> list[tuple[float, float]]:
    """Return (what a block passes to the cores, its maximum flow) for every leaf switch, in bandwidth of the cables."""
    fresh = topology.paths
    network, capacity = fresh.switches, fresh.switches.capacity()
    for part, unit in dict.fromkeys(failures):
        number = fresh.units(part)[unit]
        if part in ("leaf", "spine", "core"):
            network.turn_switch(capacity, number, dead=True)
        else:
            network.turn_cable(capacity, number - fresh.access, dead=True)
    rival = Rival(topology, tuple(failures))
    scale = max(cable[4] for cable in rival.cables) / 2**30
    passed = network.passed(capacity, network.cut_off(capacity))
    by_block = network.tier_sums(passed).min(axis=0)[network.block[: network.leaves]]
    return [
        (float(ours) * scale, rival.block_flow(leaf))
        for ours, leaf in zip(by_block, topology.vertices("leaf"), strict=True)
    ]


@cases("seed", range(40))
def test_a_pod_passes_its_maximum_flow_or_is_said_to_pass_more(seed: int) -> None:
    """What a pod passes is never below the maximum flow, and equal to it where leaf switches can fill their links."""
    generator = np.random.default_rng(seed)
    saturated = seed % 2 == 0
    topology = drawn(seed, saturated=saturated)
    for ours, flow in passes(topology, some(topology, generator, LINKS)):
        assert ours >= flow * (1 - 1e-9)
        if saturated:
            assert ours == pytest.approx(flow, **CLOSE)


def tree(**fabric: object) -> Topology:
    """Return a fat tree of three tiers, small enough for networkx."""
    pods = {"rails": 2, "radix": 16, "leaf": {"nodes": 6}, "spine": {"leaf_groups": 2}, "core": {}}
    document = {"nodes": 36, "gpus_per_node": 2, "fabric": {"use": "fat-tree", **pods, **fabric}}
    return ClusterSpec.model_validate(document).build()


@cases("part", LINKS)
@cases("seed", range(6))
def test_a_pod_of_a_fat_tree_passes_its_maximum_flow(part: str, seed: int) -> None:
    """Whatever is out of one part class."""
    topology = tree() if seed % 2 else tree(core={"oversubscription": 2})
    generator = np.random.default_rng(seed)
    for ours, flow in passes(topology, some(topology, generator, (part,))):
        assert ours == pytest.approx(flow, **CLOSE)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_left_of_failures_that_were_mended(seed: int) -> None:
    """Failures and repairs in any order lead to the state of what is out now, and in the end exactly to the first."""
    topology = drawn(seed)
    generator = np.random.default_rng(seed)
    fresh = topology.paths
    state = FabricState(fresh)
    waiting, out = some(topology, generator) + some(topology, generator), []
    cut: set[int] = set()
    while waiting or out:
        if waiting and (not out or generator.random() < 0.6):
            out.append(waiting.pop())
            follow(cut, state.fail(*out[-1]))
        else:
            follow(cut, state.mend(*out.pop(int(generator.integers(len(out))))))
        state.share(np.ones(fresh.classes, dtype=np.int64), lambda node: True)
        assert cut == Rival(topology, tuple(out)).cut
        assert state.is_whole == (not out)
    assert not any(state.is_cut(node) for node in range(topology.nodes))
    for ours, healthy in zip(state._capacity, fresh.switches.healthy, strict=True):
        assert np.array_equal(ours, healthy)


@pytest.mark.parametrize("seed", range(40))
def test_enough_disjoint_paths_spare_the_search(seed: int) -> None:
    """A state that trusts the number of disjoint paths says the same as one that looks at every outage."""
    topology = drawn(seed)
    generator = np.random.default_rng(seed)
    trusting = replace(topology, disjoint_paths=Rival(topology).disjoint_paths)
    for _ in range(3):
        failures = some(topology, generator)
        assert after(FabricState(trusting.paths), failures) == after(FabricState(topology.paths), failures)


def test_blast_radii_of_trees_are_those_of_their_cables() -> None:
    """What a fat tree says that each unit cuts off is what a search of its cables says, also under a single spine."""
    clusters = [drawn_clos(seed) for seed in pace.some(4, range(200))]
    for cluster in clusters:
        topology = cluster.build()
        for part in FABRIC_PARTS:
            taken = np.diff(topology.members(part).offsets)
            assert cluster.nodes_behind(part) == taken.max(initial=0), (cluster, part)
            assert cluster.share_that_cuts(part) == np.count_nonzero(taken) / max(taken.size, 1), (cluster, part)
    assert sum(cluster.fabric.disjoint_paths(cluster.hosts) < 2 for cluster in clusters) > len(clusters) / 2


def wide(nodes: int, **fabric: object) -> Topology:
    """Return hosts of eight rails; with rerouting what all of them lose adds up."""
    document = {"nodes": nodes, "gpus_per_node": 8, "fabric": {"use": "fat-tree", "rails": 8, **fabric}}
    return ClusterSpec.model_validate(document).build()


PODS = {"leaf": {"nodes": 3}, "spine": {"leaf_groups": 2, "switches": 3}}

PLANES = {"use": "dual-plane", "radix": 24, "segment": {"nodes": 5}, "spine": {"oversubscription": 1}}

LONG = {
    "one pod": wide(10, leaf={"nodes": 5}, spine={"switches": 5}, reroute="scale_up"),
    "six pods": wide(36, **PODS, core={"oversubscription": 2}, reroute="scale_up"),
    "six oversubscribed pods": wide(36, **PODS, core={"oversubscription": 3}),
    "two planes": wide(15, **PLANES),
    "two planes, rerouted": wide(15, **PLANES, reroute="scale_up"),
    **{f"drawn {seed}": drawn(seed) for seed in range(30)},
    **{f"saturated {seed}": drawn(seed, saturated=True) for seed in range(10)},
}


@pytest.mark.parametrize("name", one_in(4, LONG))
def test_what_is_kept_up_to_date_is_what_is_worked_out_anew(name: str) -> None:
    """After a long history a state says, bit by bit, what one says that knows only of the parts that are out now.

    Every node is asked for alone, for traffic of every reach; random jobs also for whom they blame.
    """
    topology = LONG[name]
    generator = np.random.default_rng(0)
    source = topology.paths
    state, out = FabricState(source), list[tuple[str, int]]()
    jobs = [np.flatnonzero(generator.random(topology.nodes) < part) for part in (0.1, 0.5, 1)]
    parts = [part for part in FABRIC_PARTS if topology.counts[part]]
    for step in range(150):
        if len(out) < 16 and generator.random() < 0.55:
            part = str(generator.choice(parts))
            out.append((part, int(generator.integers(topology.counts[part]))))
            state.fail(*out[-1])
        elif out:
            state.mend(*out.pop(int(generator.integers(len(out)))))
        if step % 3:
            continue
        fresh = after_all(source, out)
        for node in range(topology.nodes):
            assert state.is_cut(node) == fresh.is_cut(node)
            for reach in Reach:
                assert alone(state, source, node, reach) == alone(fresh, source, node, reach)
        for job in jobs:
            presence, holds = np.bincount(source.class_of_node[job], minlength=source.classes), set(job).__contains__
            assert state.share(presence, holds) == fresh.share(presence, holds)
            for failure in out:
                assert state.hurts(*failure, presence, holds) == fresh.hurts(*failure, presence, holds)


def after_all(source: Paths, failures: list[tuple[str, int]]) -> FabricState:
    """Return the state after some failures and nothing else."""
    state = FabricState(source)
    for failure in failures:
        state.fail(*failure)
    return state


def alone(state: FabricState, source: Paths, node: int, reach: Reach) -> float:
    """Return what is left to a job of one node, for traffic that goes as far as said."""
    presence = np.zeros(source.classes, dtype=np.int64)
    presence[source.class_of_node[node]] = 1
    return state.share(presence, lambda other: other == node, reach)
