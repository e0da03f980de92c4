"""Counts, domains, blast and cables of the fat tree, against published designs and graph theory."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from sim.topology import TOPOLOGIES, FatTree, edges, to_networkx
from tests.harness import check_topology

ROOT = Path(__file__).resolve().parents[2]
COUNTS_CSV = ROOT.parent / "shared" / "data" / "perf" / "superpod_fabric_counts.csv"
SHIPPED = sorted((ROOT / "topologies").glob("*.yaml"))
GB_400 = 400e9 / 8

SMALL: list[dict[str, Any]] = [
    {"nodes": 1, "rack": {"nodes": 1}, "power": {"racks": 1}},
    {"nodes": 64, "leaf": {"nodes": 16}},
    {"nodes": 127, "leaf": {"nodes": 32}},
    {"nodes": 96, "leaf": {"nodes": 32}, "spine": {"oversubscription": 3}},
    {"nodes": 50, "leaf": {"nodes": 8}, "spine": {"leaf_groups": 2}, "core": {"oversubscription": 2.5}},
    {
        "nodes": 24,
        "gpus_per_node": 4,
        "rails": 2,
        "leaf": {"nodes": 4},
        "spine": {"leaf_groups": 3},
        "core": {},
        "radix": 16,
    },
    {"nodes": 13, "leaf": {"nodes": 2, "switches": 1}, "spine": {"leaf_groups": 4}, "core": {"oversubscription": 7}},
]


def tree(**parameters: Any) -> FatTree:
    """Validate parameters as a file would be."""
    return FatTree.model_validate(parameters)


def load(path: Path) -> Any:
    """Read a shipped topology through the registry."""
    parameters = yaml.safe_load(path.read_text(encoding="utf-8"))
    return TOPOLOGIES[parameters["use"]].model_validate(parameters)


def superpod(units: int, nodes: int) -> FatTree:
    """DGX SuperPOD: scalable units of 32 nodes, 64-port switches, a third tier above eight units."""
    shape: dict[str, Any] = {} if units <= 8 else {"spine": {"leaf_groups": 4}, "core": {}}
    return tree(nodes=nodes, leaf={"nodes": 32}, **shape)


# Columns: units, nodes, leaf, spine, core, cables node-leaf, leaf-spine, spine-core.
# B200: "DGX SuperPOD reference architecture, DGX B200", architecture chapter, table of larger component counts.
# H100: "DGX SuperPOD reference architecture, DGX H100" (RA-11333-001), four units hold 127 nodes because one node's
# ports go to the fabric managers; their cables are not nodes' cables.
PUBLISHED = [
    (2, 64, 16, 8, 0, 512, 512, 0),
    (4, 128, 32, 16, 0, 1024, 1024, 0),
    (4, 127, 32, 16, 0, 1016, 1024, 0),
    (8, 256, 64, 32, 0, 2048, 2048, 0),
    (16, 512, 128, 128, 64, 4096, 4096, 4096),
    (32, 1024, 256, 256, 128, 8192, 8192, 8192),
    (64, 2048, 512, 512, 256, 16384, 16384, 16384),
]
COLUMNS = ("leaf", "spine", "core", "cable_node_leaf", "cable_leaf_spine", "cable_spine_core")


@pytest.mark.parametrize(("units", "nodes", "expected"), [(row[0], row[1], row[2:]) for row in PUBLISHED])
def test_superpod_counts_equal_the_published_ones(units: int, nodes: int, expected: tuple[int, ...]) -> None:
    """Switches and cables follow from 32 nodes per unit and 64 ports alone."""
    counts = superpod(units, nodes).counts()
    assert tuple(counts[column] for column in COLUMNS) == expected


def test_superpod_counts_equal_the_reference_table() -> None:
    """All rows of the reference data whose switches have whole ports come out, three generations of them."""
    if not COUNTS_CSV.exists():
        pytest.skip("skipped: reference data not present")
    compared = 0
    with COUNTS_CSV.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            units, nodes = int(row["su"]), int(row["nodes"])
            if "Spectrum-X" in row["fabric"] and units > 4:
                continue  # more spines than a leaf has 800 Gb/s uplinks: each port is split, which is not modelled
            if "B300-XDR" in row["fabric"]:
                counts = tree(nodes=nodes, nic="800 Gb/s", leaf={"nodes": 72}, radix=144).counts()
            else:
                counts = superpod(units if "B200" in row["fabric"] else 1, nodes).counts()
            for column in COLUMNS:
                printed = int(row[column.replace("cable_", "cables_")])
                assert counts[column] == printed, (row["fabric"], units, column)
            compared += 1
    assert compared == 14


@pytest.mark.parametrize("parameters", SMALL, ids=str)
def test_small_trees_pass_the_harness(parameters: dict[str, Any]) -> None:
    """Odd leftovers, shared switches, two and three tiers: the common promises hold."""
    kind = tree(**parameters)
    check_topology(kind.build())
    assert kind.counts() == dict(kind.build().counts)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topologies_pass_the_harness(path: Path) -> None:
    """Every file in topologies/ loads, bears its file's name and keeps the common promises."""
    kind = load(path)
    assert kind.name == path.stem
    check_topology(kind.build())


def test_shipped_topologies_have_their_published_sizes() -> None:
    """GPUs, pods and racks as the sources print them."""
    counts = {path.stem: load(path).counts() for path in SHIPPED}
    assert {name: count["gpu"] for name, count in counts.items()} == {
        "dgx-h100-superpod-4su": 1016,
        "dgx-b200-superpod-4su": 1024,
        "dgx-b200-superpod-16su": 4096,
        "dgx-b200-superpod-64su": 16384,
        "h100-roce-24k": 24576,
        "h100-100k": 100000,
        "small-1k": 1024,
    }
    for name, row in (("4su", PUBLISHED[1]), ("16su", PUBLISHED[4]), ("64su", PUBLISHED[6])):
        shipped = counts[f"dgx-b200-superpod-{name}"]
        assert tuple(shipped[column] for column in COLUMNS) == row[2:]
    shipped = counts["dgx-h100-superpod-4su"]
    assert tuple(shipped[column] for column in COLUMNS) == PUBLISHED[2][2:]


def test_llama3_cluster_has_the_pods_of_its_paper() -> None:
    """Racks of 16 GPUs, 192 racks a pod of 3,072 at full bisection, 8 pods, 1:7 above (arXiv 2407.21783, 3.3.1)."""
    path = ROOT / "topologies" / "h100-roce-24k.yaml"
    topology = load(path).build()
    assert topology.counts["leaf"] == topology.counts["rack"] == 8 * 192
    assert np.bincount(topology.domains["pod"]).tolist() == [3072 // 8] * 8
    assert np.array_equal(topology.domains["leaf"], topology.domains["rack"])
    assert topology.bandwidth["pod"] == topology.bandwidth["leaf"] == GB_400
    # Seven does not divide the spines' ports; cables are whole, so the ratio may fall short by less than one cable.
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / 7, rel=0.01)
    assert topology.bandwidth["cluster"] >= GB_400 / 7


@pytest.mark.parametrize("parameters", SMALL, ids=str)
def test_switches_keep_within_their_ports_and_reach_all_they_must(parameters: dict[str, Any]) -> None:
    """No switch has more cables than ports, and each leaf has a cable to every spine of its pod and no other."""
    kind = tree(**parameters)
    topology = kind.build()
    cables = edges(topology)
    ends = np.bincount(np.concatenate((cables.lower, cables.upper)))
    assert ends[topology.nodes :].max() <= kind.radix
    per_pod = topology.counts["spine"] // topology.counts["pod"]
    pod_of_leaf = np.repeat(
        topology.domains["pod"][np.flatnonzero(np.diff(topology.domains["leaf"], prepend=-1))],
        topology.counts["leaf"] // (topology.domains["leaf"].max() + 1),
    )
    first_leaf, first_spine = topology.vertices("leaf").start, topology.vertices("spine").start
    middle = cables.tier == 1
    pairs = {
        (int(low) - first_leaf, int(up) - first_spine)
        for low, up in zip(cables.lower[middle], cables.upper[middle], strict=True)
    }
    assert pairs == {
        (leaf, pod * per_pod + spine) for leaf, pod in enumerate(pod_of_leaf.tolist()) for spine in range(per_pod)
    }


def test_links_of_a_tier_are_spread_evenly() -> None:
    """Two upper switches never differ by more than one cable, even when the numbers do not divide."""
    kind = tree(nodes=224, leaf={"nodes": 32}, spine={"oversubscription": 3, "switches": 10})
    topology = kind.build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 1] - topology.vertices("spine").start)
    assert kind.counts()["cable_leaf_spine"] == 7 * 8 * 11
    assert sorted(set(loads.tolist())) == [61, 62]

    shape: dict[str, Any] = {"spine": {"leaf_groups": 2}, "core": {"oversubscription": 3, "switches": 10}, "radix": 32}
    topology = tree(nodes=64, leaf={"nodes": 8}, **shape).build()
    cables = edges(topology)
    loads = np.bincount(cables.upper[cables.tier == 2] - topology.vertices("core").start)
    assert loads.size == 10
    assert loads.max() - loads.min() <= 1


def test_hosts_have_one_cable_per_rail() -> None:
    """Rail-optimised: a host meets as many switches as it has rails; with one switch per group, one, eightfold."""
    graph = to_networkx(tree(nodes=64).build())
    assert {graph.degree(host) for host in range(64)} == {8}
    graph = to_networkx(tree(nodes=64, leaf={"nodes": 2, "switches": 1}, spine={"leaf_groups": 32}).build())
    assert {graph.degree(host) for host in range(64)} == {1}
    assert {graph.degree(host, weight="cables") for host in range(64)} == {8}


@pytest.mark.parametrize(
    ("shape", "pod_share", "cluster_share"),
    [
        ({"spine": {"leaf_groups": 2}, "core": {}}, 1, 1),
        ({"spine": {"leaf_groups": 2}, "core": {"oversubscription": 4}}, 1, 4),
        ({"spine": {"leaf_groups": 2, "oversubscription": 2}, "core": {"oversubscription": 2}}, 2, 4),
    ],
)
def test_bisection_equals_oversubscription(shape: dict[str, Any], pod_share: int, cluster_share: int) -> None:
    """Max flow out of a leaf group, and of a pod, is its NICs' bandwidth over the product of the ratios."""
    topology = tree(nodes=64, leaf={"nodes": 8}, radix=32, **shape).build()
    graph = to_networkx(topology)

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
    levels = {nodes: dict(tree(nodes=nodes, **shape).build().bandwidth) for nodes in (32, 64, 65)}
    assert levels[32] == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}
    assert levels[64] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 2}
    assert levels[65] == {"leaf": GB_400, "pod": GB_400 / 2, "cluster": GB_400 / 8}


def test_failed_parts_take_their_nodes() -> None:
    """A leaf switch takes its whole group whichever rail it serves, a rack its nodes, a spine or core nobody."""
    topology = tree(nodes=20, leaf={"nodes": 8}, spine={"leaf_groups": 2}, core={}, rack={"nodes": 3}).build()

    def taken(part: str, unit: int) -> list[int]:
        offsets, nodes = topology.members(part)
        return [int(node) for node in nodes[offsets[unit] : offsets[unit + 1]]]

    assert taken("gpu", 17) == [2]
    assert taken("nic", 8) == [1]
    for switch in range(8, 16):
        assert taken("leaf", switch) == list(range(8, 16))
    assert taken("leaf", 23) == [16, 17, 18, 19]
    assert taken("rack", 6) == [18, 19]
    assert taken("pod", 1) == [16, 17, 18, 19]
    assert taken("power", 0) == list(range(20))
    for part in ("spine", "core", "cable_leaf_spine", "cable_spine_core"):
        assert topology.members(part).nodes.size == 0


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"nodes": 0}, "greater than or equal to 1"),
        ({"nodes": 8, "gpus_per_node": 8, "rails": 3}, "8 GPUs per node do not divide evenly over 3 rails"),
        ({"nodes": 8, "leaf": {"switches": 3}}, "8 rails do not divide evenly over leaf.switches = 3"),
        ({"nodes": 8, "leaf": {"nodes": 33}}, "leaf radix 64 is too small for 33 links down and 33 up"),
        ({"nodes": 512}, "spine radix 64 is too small: 128 leaf switches per pod"),
        ({"nodes": 64, "spine": {"switches": 1}}, "spine radix 64 is too small"),
        ({"nodes": 64, "spine": {"switches": 33}}, "at most 32 spines"),
        ({"nodes": 64, "spine": {"leaf_groups": 1}}, "2 pods that nothing joins"),
        ({"nodes": 12500, "spine": {"leaf_groups": 4}, "core": {}}, "core radix 64 is too small for 98 pods"),
        ({"nodes": 512, "spine": {"leaf_groups": 4}, "core": {"switches": 63}}, "core.switches = 63"),
        ({"nodes": 64, "core": {}, "spine": {"radix": 1}}, "leaves no port"),
        ({"nodes": 64, "spine": {"oversubscription": 0.5}}, "greater than or equal to 1"),
        ({"nodes": 64, "nic": "0 Gb/s"}, "greater than 0"),
        ({"nodes": 64, "nic": "-400 Gb/s"}, ""),
        ({"nodes": 64, "spine": {"overssubscription": 2}}, "Extra inputs"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_in_one_line(parameters: dict[str, Any], reason: str) -> None:
    """The message names what is wrong, on one line, before any array exists."""
    with pytest.raises(ValidationError) as caught:
        tree(**parameters)
    (error,) = caught.value.errors()
    assert reason in error["msg"]
    assert "\n" not in error["msg"]


def test_radix_64_three_tiers_end_at_65536_endpoints() -> None:
    """k^3/4 hosts is the size of a full three-tier fat tree of k ports (Al-Fares et al., SIGCOMM 2008)."""
    shape: dict[str, Any] = {"spine": {"leaf_groups": 4}, "core": {}}
    counts = tree(nodes=65536 // 8, **shape).counts()
    assert (counts["leaf"], counts["spine"], counts["core"]) == (2048, 2048, 1024)  # k^2/2, k^2/2, k^2/4
    with pytest.raises(ValueError, match="core radix"):
        tree(nodes=65536 // 8 + 1, **shape)


def test_explicit_switches_override_the_rule() -> None:
    """A published number that the rule does not give can be stated."""
    assert tree(nodes=96).counts()["spine"] == 16
    assert tree(nodes=96, spine={"switches": 12}).counts()["spine"] == 12
    counts = tree(nodes=512, spine={"leaf_groups": 4}, core={"switches": 128}).counts()
    assert (counts["core"], counts["cable_spine_core"]) == (128, 4096)


def test_hundred_thousand_gpus_are_cheap() -> None:
    """12,500 nodes build in a fifth of a second, without edges."""
    kind = load(ROOT / "topologies" / "h100-100k.yaml")
    start = time.perf_counter()
    topology = kind.build()
    for part in ("gpu", "node", "leaf", "rack", "power"):
        topology.members(part)
    assert time.perf_counter() - start < 0.2
    assert sum(ids.nbytes for ids in topology.domains.values()) < 1e6


def test_parts_that_stop_nodes_are_those_with_a_blast() -> None:
    """What the parameters promise about failed parts is what the built topology does."""
    tree = FatTree.model_validate({"nodes": 64, "spine": {"leaf_groups": 1}, "core": {}})
    topology = tree.build()
    assert set(tree.stopping_parts) == set(topology.blast)
    for part in tree.stopping_parts:
        assert len(topology.members(part).nodes) >= topology.nodes


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_nodes_behind_a_part_are_those_of_its_fullest_domain(path: Path) -> None:
    """What is known from counts alone is what the domains say once they are built."""
    kind = FatTree.model_validate({"use": "fat-tree"} | yaml.safe_load(path.read_text()))
    topology = kind.build()
    for part in kind.stopping_parts:
        assert kind.nodes_behind(part) == np.diff(topology.members(part).offsets).max()
