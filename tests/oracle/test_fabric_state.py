"""Who is cut off and what bandwidth is left, against components and maximum flows of networkx on random fabrics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sim.cluster import FABRIC_PARTS, ClusterSpec, Topology
from sim.cluster.left import Change, FabricState
from sim.cluster.paths import Paths, paths
from sim.cluster.switches import Reach
from tests.cases import cases
from tests.pace import one_in
from tests.random_fabrics import Rival, by_hand, drawn, units

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def follow(cut: set[int], change: Change) -> None:
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
    fresh = paths(topology)
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
    fresh = paths(topology)
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
    fresh = paths(topology)
    state = FabricState(fresh)
    assert after(state, [("leaf", 2)]) == {*range(4), *range(8, 12)}
    share = share_of(state, fresh.class_of_node, fresh.classes, {4, 12})
    assert share == pytest.approx((3 / 4) / (11 / 12), **CLOSE)
    assert share == pytest.approx(Rival(topology, (("leaf", 2),)).share({4, 12}, 2), **CLOSE)


def passes(topology: Topology, failures: list[tuple[str, int]]) -> list[tuple[float, float]]:
    """Return (what a block passes to the cores, its maximum flow) for every leaf switch, in bandwidth of the cables."""
    fresh = paths(topology)
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
    fresh = paths(topology)
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
        assert after(FabricState(paths(trusting)), failures) == after(FabricState(paths(topology)), failures)


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
    source = paths(topology)
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
