"""Whom one failure cuts off and what it leaves: cases by hand, and the same answers from the state of a replication."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Topology
from ettrick.sim.cluster.degraded import FabricState, ReachabilityChange
from tests.random_fabrics import Rival, by_hand, drawn, units

if TYPE_CHECKING:
    from collections.abc import Collection

    from ettrick.sim.cluster.paths import Paths


def built(nodes: int, **fabric: object) -> Topology:
    """Return a fat tree of hosts with two GPUs."""
    document = {"nodes": nodes, "gpus_per_node": 2, "fabric": {"use": "fat-tree", "rails": 2, **fabric}}
    return ClusterSpec.model_validate(document).build()


TREE = {"radix": 16, "leaf": {"nodes": 4}, "spine": {"leaf_groups": 2}, "core": {}}

CASES = {
    "tree": built(20, **TREE),
    "oversubscribed": built(20, **TREE | {"core": {"oversubscription": 2}, "reroute": "scale_up"}),
    "two tiers": built(12, leaf={"nodes": 4}),
    "one leaf group": built(4, leaf={"nodes": 4}),
    "only spine": built(12, leaf={"nodes": 4}, spine={"switches": 1}),
    **{f"drawn {seed}": drawn(seed) for seed in range(25)},
    **{f"saturated {seed}": drawn(seed, saturated=True) for seed in range(25)},
}


def share(state: FabricState, source: Paths, nodes: Collection[int]) -> float:
    """Return the share of a job that holds these nodes."""
    presence = np.bincount(source.class_of_node[list(nodes)], minlength=source.classes)
    return state.share(presence, nodes.__contains__)


@pytest.mark.parametrize("name", CASES)
def test_one_failure_does_what_the_state_says(name: str) -> None:
    """For every unit: ``cut`` and ``left`` are what a state says that is whole but for it; mending undoes that."""
    topology = CASES[name]
    source = topology.paths
    state = FabricState(source)
    everybody = range(topology.nodes)
    for part in FABRIC_PARTS:
        offsets, nodes = source.cut(part)
        left = source.left(part)
        assert offsets.size == topology.counts[part] + 1
        assert left.size == topology.counts[part]
        for unit in range(topology.counts[part]):
            cut = nodes[offsets[unit] : offsets[unit + 1]].tolist()
            assert state.fail(part, unit) == ReachabilityChange(cut, [])
            assert left[unit] == pytest.approx(share(state, source, everybody), abs=1e-12)
            assert state.mend(part, unit) == ReachabilityChange([], cut)
            assert state.is_whole


@pytest.mark.parametrize("name", list(CASES)[::2])
def test_one_failure_is_to_blame_if_it_is_felt(name: str) -> None:
    """A single failure hurts a job exactly when it leaves it less; one that is not out hurts nobody."""
    topology = CASES[name]
    source = topology.paths
    state = FabricState(source)
    generator = np.random.default_rng(0)
    for part, unit in units(topology):
        job = set(generator.choice(topology.nodes, size=int(generator.integers(1, topology.nodes + 1))).tolist())
        presence = np.bincount(source.class_of_node[list(job)], minlength=source.classes)
        assert not state.hurts(part, unit, presence, job.__contains__)
        state.fail(part, unit)
        # Who loses what lies behind a failure that cuts off other leaf switches is only approximately known.
        if len(Rival(topology, ((part, unit),)).connected) + (part == "leaf") == topology.counts["leaf"]:
            felt = share(state, source, job) < 1
            assert state.hurts(part, unit, presence, job.__contains__) == felt, (part, unit)
        state.mend(part, unit)


def test_classes_of_a_fat_tree_are_its_leaf_groups() -> None:
    """They are found from the cables alone, and pods follow."""
    topology = CASES["tree"]
    source = topology.paths
    assert np.array_equal(source.class_of_node, topology.domains["leaf"])
    assert np.array_equal(source.pod_of_class[source.class_of_node], topology.domains["pod"])
    assert source.classes == 5


def test_paths_are_read_only_and_travel() -> None:
    """A copy in another process says the same and cannot be written either."""
    source = CASES["tree"].paths
    copy = pickle.loads(pickle.dumps(source))
    for each in (source, copy):
        for array in (each.pod_of_class, each.lines.leaf, each.switches.healthy.up, each.switches.up_cables.items):
            assert not array.flags.writeable
    for part in FABRIC_PARTS:
        assert np.array_equal(copy.left(part), source.left(part))
        assert np.array_equal(copy.cut(part).nodes, source.cut(part).nodes)


def dual_homed(*, planes: int = 2, reroute: bool = False) -> Topology:
    """Return eight hosts of two rails, each NIC on a pair of leaf switches, in as many planes as asked for."""
    access = [
        (node, rail, pair * 2 + node // 4 * 4 + home, 0.5)
        for node in range(8)
        for rail, pair in ((0, 0), (1, 1))
        for home in (0, 1)
    ]
    spines = 4 // planes
    links = [
        (1, leaf, spine, 1.0)
        for leaf in range(8)
        for spine in (range(4) if planes == 1 else range(leaf % 2 * spines, leaf % 2 * spines + spines))
        for _ in range(4 // (4 if planes == 1 else 2))
    ]
    return by_hand((8, 8, 4, 0), access, links, reroute=reroute, disjoint_paths=spines)


def test_a_dead_cable_and_a_dead_leaf_switch_meet() -> None:
    """A host that lost its cable to one of a pair is cut off with the other one, alone."""
    source = dual_homed().paths
    state = FabricState(source)
    assert state.fail("cable_node_leaf", 4) == ReachabilityChange([], [])  # node 1, rail 0, first home
    assert share(state, source, {1}) == 0.5
    assert share(state, source, {0, 2, 3}) == 1
    assert state.fail("leaf", 1) == ReachabilityChange([1], [])
    assert share(state, source, {0, 1, 2}) == 0.5
    assert share(state, source, {1, 5}) == 1
    assert state.mend("cable_node_leaf", 4) == ReachabilityChange([], [1])


def test_rerouted_rails_share_what_is_left() -> None:
    """A dead NIC of two leaves half, a dead cable of four three quarters; only both NICs cut the host off."""
    source = dual_homed(reroute=True).paths
    state = FabricState(source)
    assert state.fail("nic", 6) == ReachabilityChange([], [])
    assert share(state, source, range(8)) == 0.5
    assert state.fail("nic", 7) == ReachabilityChange([3], [])
    assert share(state, source, range(8)) == 1
    assert state.mend("nic", 6) == ReachabilityChange([], [3])
    assert state.mend("nic", 7) == ReachabilityChange([], [])
    assert state.fail("cable_node_leaf", 13) == ReachabilityChange([], [])
    assert share(state, source, range(8)) == 0.75
    assert source.cut("nic").nodes.size == 0


def test_reasons_for_a_dead_cable_add_up() -> None:
    """A cable lives again when it, both its transceivers and its NIC do; what fails twice is mended twice."""
    source = built(4, leaf={"nodes": 4}).paths
    state = FabricState(source)
    assert state.fail("cable_node_leaf", 5) == ReachabilityChange([2], [])
    for reason in (("transceiver", 10), ("transceiver", 11), ("nic", 5), ("nic", 5)):
        assert state.fail(*reason) == ReachabilityChange([], [])
    for reason in (("nic", 5), ("cable_node_leaf", 5), ("nic", 5), ("transceiver", 11)):
        assert state.mend(*reason) == ReachabilityChange([], [])
    assert state.mend("transceiver", 10) == ReachabilityChange([], [2])
    assert state.is_whole
    with pytest.raises(AssertionError, match="is not out"):
        state.mend("transceiver", 10)


def test_uplinks_to_spare_are_not_missed() -> None:
    """A leaf switch with twice the bandwidth up that its hosts use leaves them all of it when half is gone."""
    ends = [(node, 0, node // 2, 1.0) for node in range(4)]
    links = [(1, leaf, spine, 1.0) for leaf in range(2) for spine in range(4)]
    source = by_hand((4, 2, 4, 0), ends, links, disjoint_paths=4).paths
    state = FabricState(source)
    state.fail("spine", 0)
    state.fail("spine", 1)
    assert share(state, source, range(4)) == 1
    state.fail("cable_leaf_spine", 2)
    assert share(state, source, range(4)) == 0.5


def test_the_last_way_out_of_a_pod() -> None:
    """Of two pods with one core each way, the one with fewer access cables is cut off when the core is gone."""
    ends = [(node, 0, 0 if node < 3 else 1, 1.0) for node in range(5)]
    links = [(1, 0, 0, 1.0), (1, 1, 1, 1.0), (2, 0, 0, 1.0), (2, 1, 0, 1.0)]
    source = by_hand((5, 2, 2, 1), ends, links, [0, 0, 0, 1, 1]).paths
    for part in ("core", "cable_spine_core", "cable_leaf_spine", "spine"):
        offsets, nodes = source.cut(part)
        assert nodes[: offsets[1]].tolist() == [3, 4], part


def two_pods(up: float, *, low: float = 1.0, high: float = 2.0) -> Topology:
    """Return two pods of two leaf switches of four hosts, two spines each, and two cores: links of 2 and `up` units."""
    ends = [(node, 0, node // 4, low) for node in range(16)]
    links = [(1, leaf, leaf // 2 * 2 + spine, high) for leaf in range(4) for spine in (0, 1)]
    links += [(2, spine, core, up) for spine in range(4) for core in (0, 1)]
    return by_hand((16, 4, 4, 2), ends, links, [0] * 8 + [1] * 8, disjoint_paths=2)


def after(source: Paths, *failures: tuple[str, int]) -> list[float]:
    """Return what is left to jobs of a host of the first or the second leaf switch and one of the other pod."""
    state = FabricState(source)
    for part, unit in failures:
        state.fail(part, unit)
    return [share(state, source, {node, 8}) for node in (0, 4)]


def test_those_who_still_send_share_what_a_pod_passes() -> None:
    """Who offers less to the spines takes nothing from the others, and a lost way to the cores is lost to all alike."""
    source = two_pods(2.0).paths
    assert after(source, ("cable_leaf_spine", 0)) == [0.5, 1]
    assert after(source, ("leaf", 0)) == [1, 1], "those behind it are cut off and do not count"
    assert after(source, ("spine", 0)) == [0.5, 0.5]
    assert after(source, ("cable_spine_core", 0)) == [0.75, 0.75]
    assert after(source, ("core", 0)) == [0.5, 0.5]
    half = [("cable_spine_core", 0), ("cable_spine_core", 2), ("leaf", 0)]
    assert after(source, *half) == [1, 1], "half of the pod sends, and half of its links are left"
    assert source.left("leaf").tolist() == [1] * 4


def test_few_ways_to_the_cores_are_enough_for_few() -> None:
    """A pod that passes half of what it is offered gives each who still sends its part, up to all that it had."""
    source = two_pods(1.0).paths
    assert after(source, ("core", 0)) == [0.5, 0.5]
    assert after(source, ("cable_spine_core", 0), ("leaf", 0)) == [1, 1]
    # Half of what each offers gets out in any case, and half is what a leaf switch with half its cables has.
    assert after(source, ("cable_leaf_spine", 0)) == [1, 1]
