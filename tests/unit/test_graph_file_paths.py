"""Imported networks: whom one failure cuts off, and what the cables let through, against searches and flows."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from sim.cluster import ClusterSpec
from sim.cluster.topology import FABRIC_PARTS, Hosts
from sim.scenario.fields import RuleError
from tests.cases import cases
from tests.fabric_oracle import flow_between, most_cut, topology_of
from tests.graph_documents import imported, two_tiers, written

if TYPE_CHECKING:
    from pathlib import Path

    from sim.cluster import GraphFile


GB_200, GB_400 = 200e9 / 8, 400e9 / 8


def clos(seed: int) -> tuple[Any, int, int]:
    """Return a small random tiered graph, its hosts and its rails; some are in pieces."""
    draw = random.Random(seed)
    rails, homes, tiers = draw.choice([1, 2]), draw.choice([1, 1, 2]), draw.choice([1, 2, 3])
    sizes = [draw.randint(2, 6), draw.randint(2, 5), draw.randint(1, 3), draw.randint(1, 2)][: tiers + 1]
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    tier_names = [[f"{part}{place}" for place in range(size)] for part, size in zip("nlsc", sizes, strict=False)]
    for names, part in zip(tier_names, ("node", "leaf", "spine", "core"), strict=False):
        graph.add_nodes_from(names, part=part)
    for host in tier_names[0]:
        for leaf in draw.choices(tier_names[1], k=rails * homes):
            graph.add_edge(host, leaf)
    for below, above in pairwise(tier_names[1:]):
        for name in below:
            for upper in draw.choices(above, k=draw.randint(1, 3)):
                graph.add_edge(name, upper)
    return graph, sizes[0], rails


def cluster_of(kind: GraphFile, hosts: Hosts) -> ClusterSpec:
    """Return a cluster of some hosts with an imported fabric."""
    fabric = kind.model_dump(mode="json")
    return ClusterSpec.model_validate({"nodes": hosts.nodes, "gpus_per_node": hosts.gpus, "fabric": fabric})


def test_one_failure_cuts_off_what_a_search_finds(tmp_path: Path) -> None:
    """In random networks each unit of each part is taken out in turn; the worst loss is the one that is told."""
    compared: Counter[str] = Counter()
    for seed in range(150):
        graph, nodes, rails = clos(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = written(folder, graph, ".json")
        hosts = Hosts(nodes, rails)
        for reroute in ("none", "scale_up") if rails > 1 else ("none",):
            kind = imported(path, rails=rails, reroute=reroute)
            try:
                topology = topology_of(kind, hosts)
            except RuleError:  # in pieces, or with switches that nothing is joined to
                continue
            cluster = cluster_of(kind, hosts)
            for part in FABRIC_PARTS:
                expected = most_cut(topology, part)
                assert cluster.nodes_behind(part) == expected, (seed, part, reroute)
                compared[part] += expected > 0
    assert min(compared[part] for part in FABRIC_PARTS) >= 3


def test_copper_access_cables_have_no_transceivers(tmp_path: Path) -> None:
    """A transceiver stops a host only where the access cables have them."""
    path = written(tmp_path, two_tiers(), ".json")
    for copper in (False, True):
        cluster = cluster_of(imported(path, rails=2, copper=copper), Hosts(4, 8))
        assert cluster.nodes_behind("transceiver") == (0 if copper else 1)


@cases(
    ("changes", "pod_share"),
    [
        ([], 1.0),
        ([("l00", 1), ("l01", 1), ("l10", 1), ("l11", 1)], 2.0),
        ([("l01", 1)], 2.0),
        ([("l00", 6), ("l01", 3)], 1.0),
    ],
)
def test_pod_level_is_the_flow_out_of_the_slowest_leaf(
    tmp_path: Path, changes: list[tuple[str, int]], pod_share: float
) -> None:
    """`changes` are uplinks per leaf switch, two otherwise: two NICs go down from each."""
    graph: nx.Graph[str] = two_tiers()
    for leaf, number in changes:
        # The odd cable goes to a spine that differs by rail, so that no spine is left alone.
        first, second = ("s0", "s1") if leaf.endswith("0") else ("s1", "s0")
        for spine, cables in ((first, number - number // 2), (second, number // 2)):
            if cables:
                graph.edges[leaf, spine].update(cables=cables, bandwidth=cables * GB_400)
            else:
                graph.remove_edge(leaf, spine)
    topology = topology_of(imported(written(tmp_path, graph, ".json"), rails=2), Hosts(4, 8))
    assert topology.bandwidth["pod"] == topology.bandwidth["cluster"] == pytest.approx(GB_400 / pod_share)
    both = 4 * GB_400 * (3 / 4 if len(changes) == 1 else 1 / pod_share)
    assert flow_between(topology, "leaf", 0, 1) == pytest.approx(both)


def test_planes_of_one_switch_slow_nobody(tmp_path: Path) -> None:
    """Rail 0 has one switch for all, from which nothing goes up; rail 1 has two and a spine."""
    graph: nx.Graph[str] = nx.Graph([("a", "all"), ("a", "l0"), ("b", "all"), ("b", "l1"), ("l0", "s"), ("l1", "s")])
    for host in ("a", "b"):
        graph.nodes[host]["part"] = "node"
    topology = topology_of(imported(written(tmp_path, graph, ".json"), rails=2), Hosts(2, 2))
    assert topology.domains["leaf"].tolist() == [0, 1]
    assert topology.bandwidth == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}


@cases(
    ("leaf_cables", "core_cables", "share"),
    [(1, (4, 4), 1), (1, (2, 2), 2), (1, (1, 1), 4), (1, (8, 1), 8 / 5), (2, (8, 8), 1), (2, (2, 4), 8 / 6)],
)
def test_cluster_level_is_the_flow_out_of_a_pod(
    tmp_path: Path, leaf_cables: int, core_cables: tuple[int, int], share: float
) -> None:
    """Two pods of four hosts with two rails; cables of each leaf to each spine, and of each spine to the core."""
    graph: nx.Graph[Any] = nx.Graph()
    for pod in range(2):
        graph = nx.union(graph, nx.relabel_nodes(two_tiers(), partial("{}-{}".format, pod)))
    graph.add_node("core", part="core")
    for pod in range(2):
        for spine, cables in zip(("s0", "s1"), core_cables, strict=True):
            for leaf in ("l00", "l01", "l10", "l11"):
                above = {"cables": leaf_cables, "bandwidth": leaf_cables * GB_400}
                graph.add_edge(f"{pod}-{leaf}", f"{pod}-{spine}", **above)
            graph.add_edge(f"{pod}-{spine}", "core", cables=cables, bandwidth=cables * GB_400)
    topology = topology_of(imported(written(tmp_path, graph, ".graphml"), rails=2), Hosts(8, 8))
    assert topology.domains["pod"].tolist() == [0] * 4 + [1] * 4
    assert topology.bandwidth["pod"] == GB_400
    assert topology.bandwidth["cluster"] == pytest.approx(GB_400 / share)
    assert flow_between(topology, "pod", 0, 1) == pytest.approx(8 * topology.bandwidth["cluster"])


def test_oversubscription_beyond_the_cluster_slows_nobody(tmp_path: Path) -> None:
    """Hosts behind the same leaf switches keep what their NICs have, however few the cables up."""
    graph = nx.Graph(two_tiers())
    graph.remove_nodes_from(["h2", "h3", "l10", "l11", "s1"])
    topology = topology_of(imported(written(tmp_path, graph, ".json"), rails=2), Hosts(2, 8))
    assert topology.bandwidth == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}
