"""Counts, blast and cables of the fat tree, against graph theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.cluster import ClusterSpec, Edges, Topology, edges, to_networkx
from tests.cases import cases
from tests.property.common import examples
from tests.topology_cases import CASES, cluster_of
from tests.topology_checks import check_topology

if TYPE_CHECKING:
    from pathlib import Path

GB_400 = 400e9 / 8


def tree(nodes: int, **fabric: Any) -> ClusterSpec:
    """Return hosts of eight GPUs, all alike, joined by a fat tree."""
    return ClusterSpec.model_validate({"nodes": nodes, "fabric": {"use": "fat-tree", **fabric}})


@cases("number", range(len(CASES["fat-tree"])))
def test_switches_keep_within_their_ports_and_reach_all_they_must(number: int, tmp_path: Path) -> None:
    """No switch has more cables than ports, and each leaf has a cable to every spine of its pod and no other."""
    cluster = cluster_of("fat-tree", CASES["fat-tree"][number], tmp_path)
    fabric: Any = cluster.fabric
    topology = cluster.build()
    cables = edges(topology)
    ends = np.bincount(np.concatenate((cables.lower, cables.upper)), minlength=topology.vertices("core").stop)
    for part, tier in (("leaf", fabric.leaf), ("spine", fabric.spine), ("core", fabric.core)):
        ports = tier.radix if tier is not None and tier.radix else fabric.radix
        assert all(ends[switch] <= ports for switch in topology.vertices(part)), part
    per_pod = topology.counts["spine"] // topology.counts["pod"]
    pod_of_leaf = np.repeat(
        topology.domains["pod"][np.flatnonzero(np.diff(topology.domains["leaf"], prepend=-1))],
        topology.counts["leaf"] // (topology.domains["leaf"].max() + 1),
    )
    first_leaf, first_spine = topology.vertices("leaf").start, topology.vertices("spine").start
    pairs = pairs_of(cables, 1, first_leaf, first_spine)
    assert pairs == {
        (leaf, pod * per_pod + spine) for leaf, pod in enumerate(pod_of_leaf.tolist()) for spine in range(per_pod)
    }


def pairs_of(cables: Edges, tier: int, first_lower: int, first_upper: int) -> set[tuple[int, int]]:
    """Return which units of a tier are joined, numbered within their part class."""
    here = cables.tier == tier
    lower, upper = (cables.lower[here] - first_lower).tolist(), (cables.upper[here] - first_upper).tolist()
    return set(zip(lower, upper, strict=True))


def test_links_of_a_tier_are_spread_evenly() -> None:
    """Two upper switches never differ by more than one cable, even when the numbers do not divide."""
    cluster = tree(224, leaf={"nodes": 32}, spine={"oversubscription": 3, "switches": 10})
    topology = cluster.build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 1] - topology.vertices("spine").start)
    assert cluster.counts()["cable_leaf_spine"] == 7 * 8 * 11
    assert sorted(set(loads.tolist())) == [61, 62]

    shape: dict[str, Any] = {"spine": {"leaf_groups": 2}, "core": {"oversubscription": 3, "switches": 10}, "radix": 32}
    topology = tree(64, leaf={"nodes": 8}, **shape).build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 2] - topology.vertices("core").start)
    assert loads.size == 10
    assert loads.max() - loads.min() <= 1


def test_hosts_have_one_cable_per_rail() -> None:
    """Rail-optimised: a host meets as many switches as it has rails; with one switch per group, one, eightfold."""
    graph: Any = to_networkx(tree(64).build())
    assert {graph.degree(host) for host in range(64)} == {8}
    graph = to_networkx(tree(64, leaf={"nodes": 2, "switches": 1}, spine={"leaf_groups": 32}).build())
    assert {graph.degree(host) for host in range(64)} == {1}
    assert {graph.degree(host, weight="cables") for host in range(64)} == {8}


@cases(
    ("shape", "pod_share", "cluster_share"),
    [
        ({"spine": {"leaf_groups": 2}, "core": {}}, 1, 1),
        ({"spine": {"leaf_groups": 2}, "core": {"oversubscription": 4}}, 1, 4),
        ({"spine": {"leaf_groups": 2, "oversubscription": 2}, "core": {"oversubscription": 2}}, 2, 4),
    ],
)
def test_bisection_equals_oversubscription(shape: dict[str, Any], pod_share: int, cluster_share: int) -> None:
    """Max flow out of a leaf group, and of a pod, is its NICs' bandwidth over the product of the ratios."""
    topology = tree(64, leaf={"nodes": 8}, radix=32, **shape).build()
    graph: Any = to_networkx(topology)

    def flow(domain: str, sender: int, receiver: int) -> float:
        """Flow from all hosts of one domain to all of another; hosts carry no transit: they are only ends."""
        directed: nx.DiGraph[Any] = nx.DiGraph()
        for one, other, data in graph.edges(data=True):
            low, high = min(one, other), max(one, other)
            if low >= topology.nodes:
                directed.add_edge(low, high, capacity=data["bandwidth"])
                directed.add_edge(high, low, capacity=data["bandwidth"])
            elif topology.domains[domain][low] == sender:
                directed.add_edge(low, high, capacity=data["bandwidth"])
                directed.add_edge("from", low)
            elif topology.domains[domain][low] == receiver:
                directed.add_edge(high, low, capacity=data["bandwidth"])
                directed.add_edge(low, "to")
        return float(nx.maximum_flow_value(directed, "from", "to"))

    assert flow("leaf", 0, 1) == pytest.approx(8 * 8 * GB_400 / pod_share)
    assert flow("pod", 0, 3) == pytest.approx(16 * 8 * GB_400 / cluster_share)
    assert topology.bandwidth["pod"] == pytest.approx(GB_400 / pod_share)
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / cluster_share)


def test_oversubscription_beyond_the_cluster_slows_nobody() -> None:
    """A cluster inside one leaf group, or one pod, keeps the bandwidth of that level."""
    shape: dict[str, Any] = {"spine": {"leaf_groups": 2, "oversubscription": 2}, "core": {"oversubscription": 4}}
    levels = {nodes: dict(tree(nodes, **shape).build().bandwidth) for nodes in (32, 64, 65)}
    assert levels[32] == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}
    assert levels[64] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 2}
    assert levels[65] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 8}


def taken(topology: Topology, part: str, unit: int) -> list[int]:
    """Return the nodes that one failed unit takes."""
    offsets, nodes = topology.members(part)
    return [int(node) for node in nodes[offsets[unit] : offsets[unit + 1]]]


def test_failed_parts_take_their_nodes() -> None:
    """A leaf switch takes its whole group whichever rail it serves, a rack its nodes, a spine or core nobody."""
    fabric = {"use": "fat-tree", "leaf": {"nodes": 8}, "spine": {"leaf_groups": 2}, "core": {}}
    shared = {"rack": {"nodes": 3}, "pdu": {"racks": 4}, "cooling": {"racks": 2}}
    topology = ClusterSpec.model_validate({"nodes": 20, **shared, "fabric": fabric}).build()
    assert taken(topology, "gpu", 17) == [2]
    assert taken(topology, "nic", 8) == taken(topology, "cable_node_leaf", 8) == [1]
    for switch in range(8, 16):
        assert taken(topology, "leaf", switch) == list(range(8, 16))
    assert taken(topology, "leaf", 23) == [16, 17, 18, 19]
    assert taken(topology, "rack", 6) == [18, 19]
    assert taken(topology, "pod", 1) == [16, 17, 18, 19]
    assert taken(topology, "pdu", 1) == list(range(12, 20))
    assert [taken(topology, "cooling", unit) for unit in (0, 3)] == [list(range(6)), [18, 19]]
    # Two transceivers to a cable: those of the access cables come first, and take a node each; no other does.
    assert [taken(topology, "transceiver", unit) for unit in (0, 1, 15, 16, 319)] == [[0], [0], [0], [1], [19]]
    assert topology.members("transceiver").nodes.size == 2 * 160
    for part in ("spine", "core", "cable_leaf_spine", "cable_spine_core"):
        assert topology.members(part).nodes.size == 0


def test_copper_has_no_transceivers_to_lose() -> None:
    """Copper access cables fail as cables only; two transceivers stay for each cable above."""
    glass, copper = tree(64), tree(64, copper=True)
    assert glass.counts()["transceiver"] == 2 * (512 + 512)
    assert copper.counts()["transceiver"] == 2 * 512
    assert {"transceiver", "cable_node_leaf"} <= set(glass.stopping_parts)
    assert {"transceiver", "cable_node_leaf"} & set(copper.stopping_parts) == {"cable_node_leaf"}


def test_rerouting_keeps_hosts_that_have_a_rail_left() -> None:
    """With other rails to take, a NIC, its cable or one of eight leaf switches cuts nobody off; the only one does."""
    parts = {"nic", "cable_node_leaf", "transceiver", "leaf"}
    assert parts & set(tree(64).stopping_parts) == parts
    assert parts & set(tree(64, reroute="scale_up").stopping_parts) == set()
    one_switch = tree(64, leaf={"nodes": 2, "switches": 1}, reroute="scale_up")
    assert parts & set(one_switch.stopping_parts) == {"leaf"}


def test_the_only_spine_leaves_the_leaf_switch_that_counts_most() -> None:
    """What hangs together with most access cables goes on, the first of equals; all others are cut off."""
    only = {"rails": 1, "leaf": {"nodes": 4}, "spine": {"switches": 1, "oversubscription": 2}, "radix": 16}
    cluster = ClusterSpec.model_validate({"nodes": 10, "gpus_per_node": 1, "fabric": {"use": "fat-tree", **only}})
    assert taken(cluster.build(), "spine", 0) == [4, 5, 6, 7, 8, 9]
    assert cluster.nodes_behind("spine") == 6
    assert cluster.nodes_behind("cable_leaf_spine") == 0, "there are two cables to each leaf switch"
    single = only | {"spine": {"oversubscription": 4}}
    cluster = ClusterSpec.model_validate({"nodes": 10, "gpus_per_node": 1, "fabric": {"use": "fat-tree", **single}})
    assert [taken(cluster.build(), "cable_leaf_spine", unit) for unit in range(3)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]


@cases(
    ("nodes", "parameters", "reason"),
    [
        (8, {"rails": 3}, "8 GPUs per node do not divide evenly over 3 rails"),
        (8, {"leaf": {"switches": 3}}, "8 rails do not divide evenly over leaf.switches = 3"),
        (8, {"leaf": {"nodes": 33}}, "leaf radix 64 is too small for 33 links down and 33 up"),
        (512, {}, "spine radix 64 is too small: 128 leaf switches per pod"),
        (64, {"spine": {"switches": 1}}, "spine radix 64 is too small"),
        (64, {"spine": {"switches": 33}}, "at most 32 spines"),
        (64, {"spine": {"leaf_groups": 1}}, "2 pods that nothing joins"),
        (12500, {"spine": {"leaf_groups": 4}, "core": {}}, "core radix 64 is too small for 98 pods"),
        (512, {"spine": {"leaf_groups": 4}, "core": {"switches": 63}}, "core.switches = 63"),
        (64, {"core": {}, "spine": {"radix": 1}}, "leaves no port"),
        (64, {"spine": {"oversubscription": 0.5}}, "greater than or equal to 1"),
        (64, {"leaf": {"nodes": 0}}, "greater than or equal to 1"),
        (64, {"nic": "0 Gb/s"}, "greater than 0"),
        (64, {"nic": "-400 Gb/s"}, "must not be negative"),
        (64, {"spine": {"overssubscription": 2}}, "Extra inputs"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_in_one_line(nodes: int, parameters: dict[str, Any], reason: str) -> None:
    """The message names what is wrong, on one line, before any array exists."""
    with pytest.raises(ValidationError) as caught:
        tree(nodes, **parameters)
    (error,) = caught.value.errors()
    assert reason in error["msg"]
    assert "\n" not in error["msg"]


def test_radix_64_three_tiers_end_at_65536_endpoints() -> None:
    """k^3/4 hosts is the size of a full three-tier fat tree of k ports (Al-Fares et al., SIGCOMM 2008)."""
    shape: dict[str, Any] = {"spine": {"leaf_groups": 4}, "core": {}}
    counts = tree(65536 // 8, **shape).counts()
    assert (counts["leaf"], counts["spine"], counts["core"]) == (2048, 2048, 1024)  # k^2/2, k^2/2, k^2/4
    with pytest.raises(ValueError, match="core radix"):
        tree(65536 // 8 + 1, **shape)


def test_explicit_switches_override_the_rule() -> None:
    """A published number that the rule does not give can be stated."""
    assert tree(96).counts()["spine"] == 16
    assert tree(96, spine={"switches": 12}).counts()["spine"] == 12
    counts = tree(512, spine={"leaf_groups": 4}, core={"switches": 128}).counts()
    assert (counts["core"], counts["cable_spine_core"]) == (128, 4096)


# ------------------------------------------------------------------------------------------- nobody states a fabric


@examples(400)
@given(nodes=st.integers(1, 131072), gpus=st.integers(1, 16))
@example(nodes=131072, gpus=15)
@example(nodes=257, gpus=8)
@example(nodes=8193, gpus=8)
def test_any_cluster_without_a_fabric_gets_one_of_full_bisection(nodes: int, gpus: int) -> None:
    """All NICs have their full bandwidth from end to end, no part above the leaf switches cuts anybody off alone."""
    cluster = ClusterSpec.model_validate({"nodes": nodes, "gpus_per_node": gpus})
    assert set(cluster.fabric.bandwidth(cluster.hosts).values()) == {GB_400}
    assert cluster.fabric.disjoint_paths(cluster.hosts) >= 2
    assert cluster.counts()["cable_node_leaf"] == nodes * cluster.fabric.rails


@pytest.mark.parametrize(("nodes", "gpus"), [(300, 3), (257, 8), (70, 15), (1, 11)])
def test_a_chosen_fabric_can_be_cabled(nodes: int, gpus: int) -> None:
    """Counts, domains, cables and reach of a chosen tree are those of any other; no switch has too few ports."""
    cluster = ClusterSpec.model_validate({"nodes": nodes, "gpus_per_node": gpus})
    assert not cluster.states_fabric
    topology = check_topology(cluster)
    cables = edges(topology)
    ends = np.bincount(np.concatenate((cables.lower, cables.upper)))[nodes:]
    assert ends.max() <= cluster.fabric.radix  # type: ignore[attr-defined]


def test_the_fabric_is_chosen_only_where_none_is_stated() -> None:
    """Up to 256 hosts of eight it is the plain one; beyond, 64 ports make pods of four leaf groups, as SuperPODs do."""
    plain = ClusterSpec.model_validate({"nodes": 256})
    assert plain.fabric == tree(256).fabric
    chosen = ClusterSpec.model_validate({"nodes": 512})
    assert chosen.fabric == tree(512, spine={"leaf_groups": 4}, core={}).fabric
    assert ClusterSpec.model_validate(chosen.model_dump(mode="json", exclude_none=True)) == chosen
    with pytest.raises(ValidationError, match="spine radix 64 is too small"):
        tree(512)


@cases(("gpus", "most"), [(8, 2**19), (15, 2**18), (5, 256 * 128 * 25)])
def test_the_largest_cluster_without_a_fabric(gpus: int, most: int) -> None:
    """Pods as many as a core has ports, of 128 leaf switches at most, of 128 hosts each; one host more is refused."""
    assert ClusterSpec.model_validate({"nodes": most, "gpus_per_node": gpus}).fabric.rails == gpus
    with pytest.raises(ValidationError, match=f"at most {most:,}: say what does"):
        ClusterSpec.model_validate({"nodes": most + 1, "gpus_per_node": gpus})


def test_no_oversubscription_leaves_a_switch_without_a_link_up() -> None:
    """A ratio above the links down is rounded up to one link; one that no switch has is refused."""
    assert tree(64, spine={"oversubscription": 1e4}).counts()["cable_leaf_spine"] == 16
    for parameters in ({"spine": {"oversubscription": 1e18}}, {"core": {"oversubscription": 1e18}}):
        with pytest.raises(ValidationError, match="less than or equal to 10000"):
            tree(64, **parameters)
