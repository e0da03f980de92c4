"""What a cluster owes the rest of the simulator, whatever kind of fabric joins its hosts."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec, Edges, to_networkx
from ettrick.sim.cluster.switches import VERTEX_PARTS
from ettrick.sim.cluster.topology import Topology, edges

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from ettrick.sim.cluster.fabric import FabricKind
    from ettrick.sim.cluster.topology import Hosts

# ----------------------------------------
# What graph theory says about a fabric, by plain searches over the exported graph.

CABLES = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")


def topology_of(fabric: FabricKind, hosts: Hosts) -> Topology:
    """Return the topology of a fabric alone."""
    fabric.check(hosts)
    counts = {"gpu": hosts.nodes * hosts.gpus, "node": hosts.nodes, **fabric.counts(hosts)}
    return Topology(
        name="case",
        nodes=hosts.nodes,
        gpus_per_node=hosts.gpus,
        rails=fabric.rails,
        counts=counts,
        domains={name: ids.copy() for name, ids in fabric.domains(hosts).items()},
        bandwidth=fabric.bandwidth(hosts),
        disjoint_paths=fabric.disjoint_paths(hosts),
        optical=(0, 1, 2),
        reroute=fabric.reroute == "scale_up",
        make_edges=partial(fabric.edges, hosts),
    )


def cables_of(topology: Topology) -> Counter[tuple[int, int, int, int, float]]:
    """Return the cables as a multiset of (lower, upper, tier, rail, bandwidth)."""
    return Counter(zip(*(column.tolist() for column in edges(topology)), strict=True))


def flow_between(topology: Topology, domain: str, sender: int, receiver: int) -> float:
    """Return the maximum flow from all hosts of one domain to all of another; hosts are only ends [B/s]."""
    ids = topology.domains[domain].tolist()
    capacity: Counter[tuple[Any, Any]] = Counter()
    for low, high, tier, _, bandwidth in cables_of(topology).elements():
        if tier:
            capacity[low, high] += bandwidth
            capacity[high, low] += bandwidth
        elif ids[low] == sender:
            capacity[low, high] += bandwidth
        elif ids[low] == receiver:
            capacity[high, low] += bandwidth
    directed: nx.DiGraph[Any] = nx.DiGraph()
    for (one, other), total in capacity.items():
        directed.add_edge(one, other, capacity=total)
    directed.add_edges_from(("from", host) for host, of in enumerate(ids) if of == sender)
    directed.add_edges_from((host, "to") for host, of in enumerate(ids) if of == receiver)
    return float(nx.maximum_flow_value(directed, "from", "to"))


def tree(nodes: int, **fabric: Any) -> ClusterSpec:
    """Return hosts of eight GPUs, all alike, joined by a fat tree."""
    return ClusterSpec.model_validate({"nodes": nodes, "fabric": {"use": "fat-tree", **fabric}})


def members(topology: Topology, part: str, unit: int) -> list[int]:
    """Return the nodes that one failed unit takes."""
    offsets, nodes = topology.members(part)
    return [int(node) for node in nodes[offsets[unit] : offsets[unit + 1]]]


# ----------------------------------------
# Small clusters of every kind of fabric, with the odd leftovers on which arithmetic goes wrong.

NVL72 = {"nodes": 36, "scale_up": {"gpus": 72, "use": 64, "tray": 4, "switch_trays": 9}, "rack": {"nodes": 18}}

PLANES = {"nodes": 10, "gpus_per_node": 2}

LEAVES_OF_4: dict[str, Any] = {"rails": 2, "leaf": {"nodes": 4}, "radix": 16}

TREES: list[dict[str, Any]] = [
    {"nodes": 1, "rack": {"nodes": 1}, "pdu": {"racks": 1}, "cooling": {"racks": 1}},
    {"nodes": 64, "fabric": {"leaf": {"nodes": 16}}},
    {"nodes": 127, "rack": {"nodes": 3}, "pdu": {"racks": 5}, "cooling": {"racks": 2}},
    {"nodes": 96, "fabric": {"leaf": {"nodes": 32}, "spine": {"oversubscription": 3}}},
    {"nodes": 50, "fabric": {"leaf": {"nodes": 8}, "spine": {"leaf_groups": 2}, "core": {"oversubscription": 2.5}}},
    {"nodes": 24, "gpus_per_node": 4, "fabric": {**LEAVES_OF_4, "spine": {"leaf_groups": 3}, "core": {}}},
    {
        "nodes": 13,
        "fabric": {"leaf": {"nodes": 2, "switches": 1}, "spine": {"leaf_groups": 4}, "core": {"oversubscription": 7}},
    },
    # One spine, or one core, that holds all the others together; with a single cable to each leaf switch, or with two.
    {"nodes": 9, "gpus_per_node": 2, "fabric": {**LEAVES_OF_4, "spine": {"switches": 1, "oversubscription": 2}}},
    {"nodes": 9, "gpus_per_node": 2, "fabric": {**LEAVES_OF_4, "spine": {"oversubscription": 4}}},
    {
        "nodes": 9,
        "gpus_per_node": 2,
        "fabric": {"rails": 2, "leaf": {"nodes": 4, "switches": 1}, "spine": {"switches": 1}, "radix": 32},
    },
    {
        "nodes": 11,
        "gpus_per_node": 2,
        "fabric": {
            **LEAVES_OF_4,
            "spine": {"leaf_groups": 1, "switches": 2},
            "core": {"switches": 1, "oversubscription": 2, "radix": 32},
        },
    },
    {
        "nodes": 9,
        "gpus_per_node": 2,
        "fabric": {**LEAVES_OF_4, "spine": {"leaf_groups": 1, "oversubscription": 4}, "core": {}},
    },
    # What keeps on although a rail is lost, and cables without transceivers.
    {"nodes": 20, "fabric": {"leaf": {"nodes": 8}, "reroute": "scale_up"}},
    {"nodes": 20, "fabric": {"leaf": {"nodes": 2, "switches": 1}, "reroute": "scale_up", "copper": True}},
    {"nodes": 20, "fabric": {"leaf": {"nodes": 8}, "copper": True}},
    # Scale-up domains, and hosts of several kinds.
    {**NVL72, "fabric": {"rails": 4, "leaf": {"nodes": 18}}},
    {
        **NVL72,
        "scale_up": {"gpus": 8, "switch_trays": 2},
        "gpus_per_node": 4,
        "fabric": {"rails": 4, "leaf": {"nodes": 5}},
    },
    {"pools": [{"count": 3, "accelerator": "h100"}, {"count": 8, "accelerator": "b200"}], "fabric": {}},
]

SMALL_PLANES: list[dict[str, Any]] = [
    {
        "nodes": nodes,
        "gpus_per_node": 8,
        "fabric": {"rails": rails, "segment": {"nodes": segment}, "radix": radix, **more},
    }
    for nodes, rails, segment, radix, more in (
        (1, 1, 1, 4, {}),
        (8, 2, 4, 8, {}),
        (10, 2, 4, 16, {"spine": {"oversubscription": 2}}),
        (12, 1, 4, 8, {"spine": {"switches": 3}}),
        (8, 1, 4, 8, {"uplink": "400 Gb/s"}),
        (8, 2, 4, 8, {"reroute": "scale_up"}),
        (16, 1, 4, 8, {"spine": {"segments": 2}, "core": {}}),
        (16, 2, 4, 8, {"spine": {"segments": 2}, "core": {}, "reroute": "scale_up"}),
        (18, 2, 4, 16, {"spine": {"segments": 2, "oversubscription": 2}, "core": {"oversubscription": 4}}),
        (32, 1, 8, 16, {"uplink": "400 Gb/s", "spine": {"segments": 2}, "core": {"oversubscription": 2}}),
    )
]

CASES: dict[str, list[dict[str, Any]]] = {
    "fat-tree": TREES,
    "dual-plane": [
        {"nodes": 1, "fabric": {}},
        {"nodes": 300, "fabric": {"segment": {"nodes": 128}, "spine": {"oversubscription": 1.0667}}},
        {**PLANES, "fabric": {"rails": 2, "segment": {"nodes": 4}, "radix": 16}},
        {**PLANES, "fabric": {"rails": 1, "segment": {"nodes": 4}, "radix": 8, "copper": True}},
        {**PLANES, "fabric": {"rails": 2, "segment": {"nodes": 4}, "radix": 16, "reroute": "scale_up"}},
        {**PLANES, "fabric": {"rails": 2, "segment": {"nodes": 4}, "radix": 16, "spine": {"oversubscription": 4}}},
        {
            **PLANES,
            "fabric": {
                "rails": 2,
                "segment": {"nodes": 2},
                "radix": 16,
                "uplink": "400 Gb/s",
                "spine": {"segments": 2},
                "core": {"oversubscription": 2},
            },
        },
        {**NVL72, "fabric": {"rails": 4, "segment": {"nodes": 18}}},
        *SMALL_PLANES,
    ],
    # Written to a file from these, and read again.
    "graph-file": [{**case, "fabric": {"use": "fat-tree", **case["fabric"]}} for case in TREES[4:15]],
}


def cluster_of(kind: str, case: dict[str, Any], folder: Path) -> ClusterSpec:
    """Return a case as a cluster; what is for a file is written into it."""
    if kind != "graph-file":
        return ClusterSpec.model_validate({**case, "fabric": {"use": kind, **case.get("fabric", {})}})
    original = ClusterSpec.model_validate(case)
    file = folder / "network.json"
    file.write_text(json.dumps(nx.node_link_data(graph_for_file(original.build()), edges="edges")), encoding="utf-8")
    kept = {key: case["fabric"][key] for key in ("rails", "reroute", "copper") if key in case["fabric"]}
    return ClusterSpec.model_validate({**case, "fabric": {"use": "graph-file", "file": str(file), **kept}})


def graph_for_file(topology: Topology) -> nx.MultiGraph[int]:
    """Return a graph with one edge for each cable, and what a file needs to know of it."""
    graph: nx.MultiGraph[int] = nx.MultiGraph()
    for part in ("node", "leaf", "spine", "core"):
        for index, vertex in enumerate(topology.vertices(part)):
            graph.add_node(vertex, part=part, index=index)
    for host, pod in enumerate(topology.domains["pod"].tolist()):
        graph.nodes[host]["pod"] = pod
    cables = edges(topology)
    for lower, upper, rail, bandwidth in zip(
        *(column.tolist() for column in (cables.lower, cables.upper, cables.rail, cables.bandwidth)), strict=True
    ):
        graph.add_edge(lower, upper, bandwidth=bandwidth, **({} if rail < 0 else {"rail": rail}))
    return graph


PARTS = ("gpu", "node", "rack", "pdu", "cooling", "pod", *FABRIC_PARTS)

DOMAINS = ("leaf", "pod", "rack", "pdu", "cooling", "scale_up")

FEW = 12
"""Units of a part that are all taken out in turn; of more, some [-]."""

SMALL = 150

"""Nodes up to which the graph is looked at as a graph [-]."""


def check_topology(cluster: ClusterSpec) -> Topology:
    """Assert what the rest of the simulator relies on, and return what was built."""
    topology = cluster.build()
    assert dict(topology.counts) == cluster.counts(), "the parameters alone tell how many parts there are"
    cables = edges(topology)
    _check_counts(cluster, topology)
    _check_domains(cluster, topology)
    _check_bandwidth(cluster, topology)
    _check_members(topology)
    _check_edges(topology, cables)
    _check_access(cluster, topology, cables)
    _check_blast(cluster, topology)
    _check_copy(topology)
    if topology.nodes <= SMALL:
        _check_reach(topology, cables)
        _check_cuts(topology, cables)
    return topology


def planes_of(topology: Topology, cables: Edges) -> list[set[int]]:
    """Return the switches that hang together without the hosts, plane by plane."""
    return list(nx.connected_components(_switches(topology, cables)))


def cut_off(topology: Topology, cables: Edges, part: str, unit: int) -> list[int]:
    """Return the hosts that one failure cuts off: the definition, by a graph library and plain loops."""
    dead_switches, dead_cables = _dead(topology, cables, part, unit)
    healthy = _switches(topology, cables)
    access = [index for index in np.flatnonzero(cables.tier == 0).tolist() if index not in dead_cables]
    behind: dict[int, int] = dict.fromkeys(healthy, 0)
    for index in access:
        behind[int(cables.upper[index])] += 1
    living = _switches(topology, cables, dead_cables)
    living.remove_nodes_from(dead_switches)
    leaves = set(topology.vertices("leaf"))
    reached: set[int] = set()
    for plane in nx.connected_components(healthy):
        pieces = [piece for piece in nx.connected_components(living) if piece <= plane]
        reached |= max(pieces, key=lambda piece: (sum(behind[leaf] for leaf in piece), -min(piece)), default=set())
    rails: dict[int, set[int]] = {host: set() for host in topology.vertices("node")}
    for index in access:
        if int(cables.upper[index]) in reached & leaves:
            rails[int(cables.lower[index])].add(int(cables.rail[index]))
    least = 1 if topology.reroute else topology.rails
    return [host for host, rails_left in rails.items() if len(rails_left) < least]


def _dead(topology: Topology, cables: Edges, part: str, unit: int) -> tuple[set[int], set[int]]:
    """Return the vertices and the cables that die with a unit."""
    if part in VERTEX_PARTS:
        return {topology.vertices(part)[unit]}, set()
    if part == "nic":
        of_nic = (cables.lower == unit // topology.rails) & (cables.rail == unit % topology.rails)
        return set(), set(np.flatnonzero(of_nic).tolist())
    if part == "transceiver":
        return set(), {int(np.flatnonzero(np.isin(cables.tier, topology.optical))[unit // 2])}
    return set(), {int(np.flatnonzero(cables.tier == CABLES.index(part))[unit])}


def _switches(topology: Topology, cables: Edges, without: Iterable[int] = ()) -> nx.MultiGraph[int]:
    """Return the graph of switches, hosts left out; a cable is known by its number."""
    graph: nx.MultiGraph[int] = nx.MultiGraph()
    graph.add_nodes_from(vertex for part in VERTEX_PARTS[1:] for vertex in topology.vertices(part))
    for index in np.flatnonzero(cables.tier > 0).tolist():
        graph.add_edge(int(cables.lower[index]), int(cables.upper[index]), key=index)
    for index in without:
        if cables.tier[index] > 0:
            graph.remove_edge(int(cables.lower[index]), int(cables.upper[index]), key=index)
    return graph


def _check_counts(cluster: ClusterSpec, topology: Topology) -> None:
    counts = topology.counts
    has = {"scale_up"} if cluster.scale_up is not None else set()
    has |= {"switch_tray"} if cluster.scale_up is not None and cluster.scale_up.switch_trays else set()
    assert set(counts) == set(PARTS) | has
    assert all(count >= 0 for count in counts.values())
    assert counts["gpu"] == topology.nodes * topology.gpus_per_node
    assert counts["node"] == topology.nodes == sum(pool.count for pool in cluster.all_pools)
    assert counts["nic"] == topology.nodes * topology.rails
    assert counts["cable_node_leaf"] == counts["nic"] * cluster.fabric.homes
    assert topology.optical == ((1, 2) if cluster.fabric.copper else (0, 1, 2))
    assert counts["transceiver"] == 2 * sum(counts[CABLES[tier]] for tier in topology.optical)
    if cluster.scale_up is not None:
        assert counts["scale_up"] * cluster.scale_up.gpus == counts["gpu"]
        assert counts.get("switch_tray", 0) == counts["scale_up"] * cluster.scale_up.switch_trays
    with pytest.raises(TypeError):
        topology.counts["gpu"] = 0  # type: ignore[index]


def _check_domains(cluster: ClusterSpec, topology: Topology) -> None:
    assert set(topology.domains) == set(DOMAINS)
    for domain, ids in topology.domains.items():
        assert ids.shape == (topology.nodes,), domain
        assert ids.dtype == np.int32, domain
        assert not ids.flags.writeable, domain
        assert np.array_equal(np.unique(ids), np.arange(ids.max() + 1)), f"{domain}: an id without a node"
    for domain in ("pod", "rack", "pdu", "cooling"):
        assert topology.domains[domain].max() + 1 == topology.counts[domain], domain
    assert topology.domains["scale_up"].max() + 1 == topology.counts.get("scale_up", topology.nodes)
    assert np.bincount(topology.domains["scale_up"]).tolist() == [cluster.nodes_per_domain] * (
        topology.nodes // cluster.nodes_per_domain
    )
    for inner, outer in (("leaf", "pod"), ("rack", "pdu"), ("rack", "cooling")):
        pairs = np.unique(np.stack((topology.domains[inner], topology.domains[outer])), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1], f"a {inner} in two {outer}s"


def _check_bandwidth(cluster: ClusterSpec, topology: Topology) -> None:
    levels = topology.bandwidth
    assert set(levels) == {"leaf", "pod", "cluster"}
    assert cluster.fabric.nic >= levels["leaf"] >= levels["pod"] >= levels["cluster"] > 0
    if not topology.domains["leaf"].any():
        assert levels["pod"] == levels["leaf"], "nothing lies beyond the leaf switches"
    if not topology.domains["pod"].any():
        assert levels["cluster"] == levels["pod"], "nothing lies beyond the pod"


def _check_members(topology: Topology) -> None:
    for part, count in topology.counts.items():
        offsets, nodes = topology.members(part)
        assert offsets.dtype == np.int64, part
        assert offsets.shape == (count + 1,), part
        assert offsets[0] == 0, part
        assert offsets[-1] == nodes.size, part
        assert np.all(np.diff(offsets) >= 0), part
        assert nodes.dtype == np.int32, part
        assert nodes.size == 0 or (nodes.min() >= 0 and nodes.max() < topology.nodes), part
        row = np.repeat(np.arange(count), np.diff(offsets))
        assert np.all(np.diff(nodes)[row[1:] == row[:-1]] > 0), f"{part}: nodes ascend within a row"
    domains = [part for part in (*DOMAINS[1:], "switch_tray") if part in topology.counts]
    for part in domains:
        ids = topology.domains["scale_up" if part == "switch_tray" else part]
        each = topology.counts[part] // int(ids.max() + 1)
        for unit in {0, topology.counts[part] // 2, topology.counts[part] - 1}:
            assert members(topology, part, unit) == np.flatnonzero(ids == unit // each).tolist(), part
        assert topology.members(part).nodes.size == each * topology.nodes, f"{part}: not a partition of the nodes"
    for part, each in (("gpu", topology.gpus_per_node), ("node", 1)):
        assert np.array_equal(topology.members(part).nodes, np.repeat(np.arange(topology.nodes), each)), part
    with pytest.raises(ValueError, match="no part"):
        topology.members("flux capacitor")


def _check_edges(topology: Topology, cables: Edges) -> None:
    kinds = {"lower": np.int32, "upper": np.int32, "tier": np.int8, "rail": np.int16, "bandwidth": np.float64}
    for name, kind in kinds.items():
        assert getattr(cables, name).dtype == kind, name
        assert getattr(cables, name).shape == cables.lower.shape, name
    assert np.all(np.diff(cables.tier) >= 0), "cables come tier by tier"
    assert np.bincount(cables.tier, minlength=3).tolist() == [topology.counts[name] for name in CABLES]
    for tier in range(3):
        here = cables.tier == tier
        for ends, part in ((cables.lower, VERTEX_PARTS[tier]), (cables.upper, VERTEX_PARTS[tier + 1])):
            assert np.isin(ends[here], np.asarray(topology.vertices(part))).all(), f"tier {tier} does not end on {part}"
    assert np.all(cables.bandwidth > 0)
    assert np.all((cables.rail == -1) == (cables.tier > 0))


def _check_access(cluster: ClusterSpec, topology: Topology, cables: Edges) -> None:
    """Every NIC has its homes, which add up to its bandwidth, and leaf domains are hosts with the same switches."""
    access = cables.tier == 0
    endpoint = cables.lower[access].astype(np.int64) * topology.rails + cables.rail[access]
    assert np.bincount(endpoint, minlength=topology.counts["nic"]).tolist() == (
        [cluster.fabric.homes] * topology.counts["nic"]
    )
    assert np.bincount(endpoint, cables.bandwidth[access]) == pytest.approx(cluster.fabric.nic)
    behind = cables.upper[access][np.lexsort((cables.upper[access], endpoint))].reshape(topology.nodes, -1)
    _, kind = np.unique(behind, axis=0, return_inverse=True)
    pairs = np.unique(np.stack((kind.ravel(), topology.domains["leaf"])), axis=1)
    assert pairs.shape[1] == kind.max() + 1 == topology.domains["leaf"].max() + 1


def _check_blast(cluster: ClusterSpec, topology: Topology) -> None:
    """What the parameters promise about failed parts is what the cables do."""
    most = {part: _most(topology.members(part).offsets) for part in topology.counts}
    assert {part: cluster.nodes_behind(part) for part, count in topology.counts.items() if count} == {
        part: taken for part, taken in most.items() if topology.counts[part]
    }
    assert set(cluster.stopping_parts) == {part for part, taken in most.items() if taken}
    optical = [np.diff(topology.members(CABLES[tier]).offsets) for tier in topology.optical]
    assert np.array_equal(np.diff(topology.members("transceiver").offsets), np.repeat(np.concatenate(optical), 2))


def _most(offsets: NDArray[np.int64]) -> int:
    return int(np.diff(offsets).max(initial=0))


def _check_reach(topology: Topology, cables: Edges) -> None:
    """Any two hosts reach each other on every rail through switches alone: hosts never carry transit."""
    planes = planes_of(topology, cables)
    plane_of = {switch: number for number, plane in enumerate(planes) for switch in plane}
    blocks = _switches(topology, cables, np.flatnonzero(cables.tier == 2).tolist())
    block_of = {switch: number for number, block in enumerate(nx.connected_components(blocks)) for switch in block}
    reached: dict[int, dict[int, set[int]]] = {}
    pods: dict[int, set[int]] = {}
    for index in np.flatnonzero(cables.tier == 0).tolist():
        host, rail, leaf = int(cables.lower[index]), int(cables.rail[index]), int(cables.upper[index])
        reached.setdefault(rail, {}).setdefault(host, set()).add(plane_of[leaf])
        pods.setdefault(block_of[leaf], set()).add(int(topology.domains["pod"][host]))
    for rail, hosts in reached.items():
        assert len({frozenset(found) for found in hosts.values()}) == 1, f"hosts in different planes on rail {rail}"
    assert all(len(found) == 1 for found in pods.values()), "two pods are joined without a core"
    assert set().union(*(found for hosts in reached.values() for found in hosts.values())) == set(range(len(planes)))
    graph: Any = to_networkx(topology)
    assert graph.number_of_nodes() == sum(topology.counts[part] for part in VERTEX_PARTS)
    assert sum(data["cables"] for _, _, data in graph.edges(data=True)) == cables.lower.size
    assert nx.is_connected(graph)


def _check_cuts(topology: Topology, cables: Edges) -> None:
    """Failures of each part of the fabric cut off whom the definition says: of few units all, of many some."""
    for part in FABRIC_PARTS:
        count = topology.counts[part]
        some = {0, 1, count // 3, count // 2, 2 * count // 3, count - 2, count - 1} & set(range(count))
        for unit in range(count) if count <= FEW else sorted(some):
            assert members(topology, part, unit) == cut_off(topology, cables, part, unit), (part, unit)


def _check_copy(topology: Topology) -> None:
    copy = pickle.loads(pickle.dumps(topology))
    assert (copy.counts, copy.bandwidth) == (topology.counts, topology.bandwidth)
    for name in ("name", "nodes", "gpus_per_node", "rails", "disjoint_paths", "optical", "reroute"):
        assert getattr(copy, name) == getattr(topology, name), name
    for domain, ids in topology.domains.items():
        assert np.array_equal(copy.domains[domain], ids)
        assert not copy.domains[domain].flags.writeable
    for name in Edges._fields:
        assert np.array_equal(getattr(edges(copy), name), getattr(edges(topology), name)), name
    with pytest.raises(TypeError):
        copy.counts["gpu"] = 0
