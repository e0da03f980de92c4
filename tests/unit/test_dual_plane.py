"""Counts, planes, ports and levels of the dual-plane fabric, against published figures and graph theory."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import ValidationError

from sim.cluster.fabric import DualPlane
from sim.cluster.topology import FABRIC_PARTS, Hosts, edges
from tests.cases import cases
from tests.fabric_oracle import cables_of, flow_between, most_cut, topology_of

GB_200, GB_400 = 200e9 / 8, 400e9 / 8

# Alibaba HPN (Qian et al., SIGCOMM 2024). Repeated in public summaries of the paper: two tiers, two planes, pairs of
# leaf switches that are not stacked, 8 NICs of 2 x 200 Gb/s per host, 1,024 GPUs per segment, 15 segments per pod.
# As told of the paper, not found again elsewhere: chips of 51.2 Tb/s, 60 uplinks of 400 Gb/s, 15:1 above the pod.
HPN: dict[str, Any] = {
    "nic": "400 Gb/s",
    "uplink": "400 Gb/s",
    "radix": 256,
    "segment": {"nodes": 128},
    "spine": {"segments": 15, "oversubscription": 1.067},
    "core": {"oversubscription": 15},
}

SMALL: list[tuple[int, dict[str, Any]]] = [
    (1, {"rails": 1, "segment": {"nodes": 1}, "radix": 4}),
    (8, {"rails": 2, "segment": {"nodes": 4}, "radix": 8}),
    (10, {"rails": 2, "segment": {"nodes": 4}, "radix": 16, "spine": {"oversubscription": 2}}),
    (12, {"rails": 1, "segment": {"nodes": 4}, "radix": 8, "spine": {"switches": 3}}),
    (8, {"rails": 1, "segment": {"nodes": 4}, "uplink": "400 Gb/s", "radix": 8}),
    (16, {"rails": 1, "segment": {"nodes": 4}, "radix": 8, "spine": {"segments": 2}, "core": {}}),
    (
        18,
        {
            "rails": 2,
            "segment": {"nodes": 4},
            "radix": 16,
            "spine": {"segments": 2, "oversubscription": 2},
            "core": {"oversubscription": 4},
        },
    ),
    (
        32,
        {
            "rails": 1,
            "segment": {"nodes": 8},
            "uplink": "400 Gb/s",
            "radix": 16,
            "spine": {"segments": 2},
            "core": {"oversubscription": 2},
        },
    ),
]


def fabric(**parameters: Any) -> DualPlane:
    """Validate parameters as a file would be."""
    return DualPlane.model_validate({"use": "dual-plane", **parameters})


def gpus(rails: int) -> int:
    """Return GPUs per node that fit the rails of the small cases."""
    return 8 if 8 % rails == 0 else rails


def test_pod_of_hpn_has_its_published_size() -> None:
    """1,024 GPUs behind 16 leaf switches of 60 uplinks; 15 segments fill 60 spines of 120 ports down in each plane."""
    kind, hosts = fabric(**HPN), Hosts(15 * 128, 8)
    counts = kind.counts(hosts)
    assert hosts.nodes * hosts.gpus == 15360
    assert np.bincount(kind.domains(hosts)["leaf"]).tolist() == [1024 // 8] * 15
    assert (counts["pod"], counts["leaf"], counts["spine"]) == (1, 15 * 16, 2 * 60)
    assert counts["cable_node_leaf"] == 2 * 15360
    assert counts["cable_leaf_spine"] == 15 * 16 * 60
    assert counts["cable_spine_core"] == 120 * 8
    with pytest.raises(ValueError, match="2 pods that nothing joins"):
        fabric(**{**HPN, "core": None}).check(Hosts(15 * 128 + 1, 8))
    with pytest.raises(ValueError, match="at most 60 spines"):
        fabric(**{**HPN, "spine": {"segments": 16, "oversubscription": 1.067}}).check(Hosts(16 * 128, 8))


def test_levels_of_hpn_follow_its_oversubscription() -> None:
    """128 x 200 Gb/s down over 60 x 400 Gb/s up is 16/15, and 15 times less leaves the pod."""
    levels = fabric(**HPN).bandwidth(Hosts(2 * 15 * 128, 8))
    assert levels["leaf"] == GB_400
    assert levels["pod"] == pytest.approx(GB_400 * 15 / 16)
    assert levels["cluster"] == pytest.approx(GB_400 / 16)


def test_non_blocking_pods_of_eight_segments_have_their_published_size() -> None:
    """128 ports of 200 Gb/s down, 64 of 400 Gb/s up, 2,048 ports a segment, 1,024 hosts and 8,192 GPUs a pod.

    The three-tier form of HPN 7.0 in a practitioner's description (53AI, "Alibaba Cloud Wanka cluster networking").
    """
    kind = fabric(**{**HPN, "spine": {"segments": 8}, "core": {}})
    hosts = Hosts(2 * 1024, 8)
    counts = kind.counts(hosts)
    assert counts["pod"] == 2
    assert counts["leaf"] == 16 * 16
    assert counts["cable_leaf_spine"] == counts["leaf"] * 64
    ports_of_a_segment = counts["cable_node_leaf"] // 16
    assert ports_of_a_segment == 2048
    assert set(kind.bandwidth(hosts).values()) == {GB_400}


@cases(("nodes", "parameters"), SMALL, ids=str)
def test_every_nic_has_one_cable_to_each_plane_and_planes_are_apart(nodes: int, parameters: dict[str, Any]) -> None:
    """Two ports of half the NIC's bandwidth end on the two switches of the pair, which no path of switches joins."""
    kind = fabric(**parameters)
    topology = topology_of(kind, Hosts(nodes, gpus(kind.rails)))
    cables = edges(topology)
    switches: nx.Graph[int] = nx.Graph()
    switches.add_nodes_from(range(nodes, nodes + sum(topology.counts[part] for part in ("leaf", "spine", "core"))))
    upper = cables.tier > 0
    switches.add_edges_from(zip(cables.lower[upper].tolist(), cables.upper[upper].tolist(), strict=True))
    planes = list(nx.connected_components(switches))
    assert len(planes) == 2
    assert len(planes[0]) == len(planes[1])
    plane = {vertex: number for number, members in enumerate(planes) for vertex in members}
    leaves: dict[tuple[int, int], list[int]] = {}
    for low, high, tier, rail, bandwidth in cables_of(topology).elements():
        if tier == 0:
            leaves.setdefault((low, rail), []).append(high)
            assert bandwidth == GB_200
    assert leaves.keys() == {(node, rail) for node in range(nodes) for rail in range(kind.rails)}
    assert all(sorted(plane[leaf] for leaf in pair) == [0, 1] for pair in leaves.values())
    for (node, rail), pair in leaves.items():
        same = node // kind.segment.nodes * kind.segment.nodes
        assert sorted(pair) == sorted(leaves[same, rail]), "all hosts of a segment share the pair of a rail"


@cases(("nodes", "parameters"), [*SMALL, (2 * 15 * 128, HPN)], ids=str)
def test_switches_keep_within_their_ports(nodes: int, parameters: dict[str, Any]) -> None:
    """A cable takes as many ports as its bandwidth is a multiple of a port's; counts, tiers and ends agree."""
    kind = fabric(**parameters)
    topology = topology_of(kind, Hosts(nodes, gpus(kind.rails)))
    cables = edges(topology)
    ports = np.bincount(np.concatenate((cables.lower, cables.upper)), weights=np.tile(cables.bandwidth / GB_200, 2))
    assert ports[nodes:].max() <= kind.radix
    names = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")
    assert np.bincount(cables.tier, minlength=3).tolist() == [topology.counts[name] for name in names]
    assert np.all(np.diff(cables.tier) >= 0)
    for tier, (below, above) in enumerate((("node", "leaf"), ("leaf", "spine"), ("spine", "core"))):
        here = cables.tier == tier
        assert np.isin(cables.lower[here], np.asarray(topology.vertices(below))).all()
        assert np.isin(cables.upper[here], np.asarray(topology.vertices(above))).all()
    used = np.unique(np.concatenate((cables.lower, cables.upper)))
    assert used.size == sum(topology.counts[part] for part in ("node", "leaf", "spine", "core"))
    assert (set(FABRIC_PARTS) | {"pod"}) - {"transceiver"} == set(kind.counts(Hosts(nodes, gpus(kind.rails))))


@cases(
    ("nodes", "parameters", "pod_share", "cluster_share"),
    [
        (8, {"segment": {"nodes": 4}}, 1, 1),
        (8, {"segment": {"nodes": 4}, "spine": {"oversubscription": 2}}, 2, 2),
        (16, {"segment": {"nodes": 4}, "spine": {"segments": 2}, "core": {}}, 1, 1),
        (16, {"segment": {"nodes": 4}, "spine": {"segments": 2}, "core": {"oversubscription": 4}}, 1, 4),
        (
            32,
            {
                "segment": {"nodes": 8},
                "uplink": "400 Gb/s",
                "spine": {"segments": 2, "oversubscription": 2},
                "core": {"oversubscription": 2},
            },
            2,
            4,
        ),
        # Four leaf switches of five uplinks on three spines: loads of seven, seven and six.
        (20, {"segment": {"nodes": 5}, "spine": {"segments": 2, "switches": 3}, "core": {}}, 1, 1),
        (
            20,
            {"segment": {"nodes": 5}, "spine": {"segments": 2, "switches": 3}, "core": {"oversubscription": 7}},
            1,
            20 / 3,
        ),
    ],
    ids=str,
)
def test_levels_equal_maximum_flow(
    nodes: int, parameters: dict[str, Any], pod_share: float, cluster_share: float
) -> None:
    """What all NICs of a segment, or of a pod, get to another one is the flow that the cables allow."""
    kind = fabric(rails=2, radix=32, **parameters)
    topology = topology_of(kind, Hosts(nodes, 8))
    segment = np.sum(topology.domains["leaf"] == 0) * kind.rails
    assert topology.bandwidth["leaf"] == GB_400
    assert topology.bandwidth["pod"] == pytest.approx(GB_400 / pod_share)
    assert flow_between(topology, "leaf", 0, 1) == pytest.approx(segment * topology.bandwidth["pod"])
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / cluster_share)
    if topology.counts["pod"] > 1:
        pod = np.sum(topology.domains["pod"] == 0) * kind.rails
        assert flow_between(topology, "pod", 0, 1) == pytest.approx(pod * topology.bandwidth["cluster"])


def test_oversubscription_beyond_the_cluster_slows_nobody() -> None:
    """A cluster inside one segment, or one pod, keeps the bandwidth of that level."""
    shape = {"segment": {"nodes": 4}, "spine": {"segments": 2, "oversubscription": 2}, "core": {"oversubscription": 4}}
    levels = {nodes: fabric(rails=1, radix=16, **shape).bandwidth(Hosts(nodes, 1)) for nodes in (4, 8, 9)}
    assert levels[4] == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}
    assert levels[8] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 2}
    assert levels[9] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 8}


@pytest.mark.parametrize(("nodes", "parameters"), SMALL, ids=str)
def test_disjoint_paths_are_a_lower_bound(nodes: int, parameters: dict[str, Any]) -> None:
    """No two leaf switches of a plane are joined by fewer vertex-disjoint paths (Menger), and some by no more."""
    kind = fabric(**parameters)
    hosts = Hosts(nodes, gpus(kind.rails))
    topology = topology_of(kind, hosts)
    cables = edges(topology)
    graph: nx.Graph[int] = nx.Graph()
    upper = cables.tier > 0
    graph.add_edges_from(zip(cables.lower[upper].tolist(), cables.upper[upper].tolist(), strict=True))
    paths = [
        nx.node_connectivity(graph, one, other)
        for one, other in combinations(topology.vertices("leaf"), 2)
        if nx.has_path(graph, one, other)
    ]
    assert kind.disjoint_paths(hosts) == min(paths, default=kind.disjoint_paths(hosts))


@pytest.mark.parametrize("reroute", ["none", "scale_up"])
@pytest.mark.parametrize(("nodes", "parameters"), [case for case in SMALL if case[0] <= 16], ids=str)
def test_one_failure_cuts_off_what_a_search_finds(nodes: int, parameters: dict[str, Any], reroute: str) -> None:
    """Every single NIC, cable, transceiver and switch is taken out in turn: only a NIC costs a host."""
    kind = fabric(reroute=reroute, **parameters)
    hosts = Hosts(nodes, gpus(kind.rails))
    topology = topology_of(kind, hosts)
    for part in FABRIC_PARTS:
        assert kind.nodes_behind(part, hosts) == most_cut(topology, part), part


@cases(
    ("nodes", "parameters", "reason"),
    [
        (8, {"rails": 3}, "8 GPUs per node do not divide evenly over 3 rails"),
        (8, {"segment": {"nodes": 129}}, "radix 256 is too small for the 129 ports down and 129 up"),
        (8, {"segment": {"nodes": 150}, "uplink": "400 Gb/s"}, "too small for the 150 ports down and 150 up"),
        (8, {"uplink": "300 Gb/s"}, "is 1.5 times the 200 Gb/s of a NIC's port"),
        (8, {"uplink": "300 Gb/s"}, "the nearest is 400 Gb/s"),
        (8, {"uplink": "50 Gb/s"}, "the nearest is 200 Gb/s"),
        (129, {"spine": {"segments": 1}}, "2 segments make 2 pods that nothing joins"),
        (33 * 128, {}, "spine radix 256 is too small: 264 leaf switches per pod and plane of 128 uplinks each"),
        (256, {"spine": {"switches": 129}}, "at most 128 spines"),
        (8, {"uplink": "800 Gb/s", "spine": {"radix": 3}}, "spine radix 0 leaves no port for a leaf switch"),
        (9 * 128, {"spine": {"segments": 1}, "core": {"radix": 4}}, "core radix 4 is too small for 9 pods"),
        (256, {"spine": {"segments": 1}, "core": {"switches": 1}}, "core.switches = 1"),
    ],
    ids=str,
)
def test_what_cannot_be_cabled_is_refused_in_one_line(nodes: int, parameters: dict[str, Any], reason: str) -> None:
    """The message names what is wrong, on one line, before any array exists."""
    with pytest.raises(ValueError) as caught:
        fabric(**parameters).check(Hosts(nodes, 8))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@cases("parameters", [{"nic": "0 Gb/s"}, {"spine": {"oversubscription": 0.5}}, {"planes": 3}], ids=str)
def test_impossible_values_are_refused(parameters: dict[str, Any]) -> None:
    """Fields have their ranges, and unknown ones are errors."""
    with pytest.raises(ValidationError):
        fabric(**parameters)
