"""Import of networks from files: what is read, and how it is numbered."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest

from sim.cluster import graph_file
from sim.cluster.fabric import DualPlane, FatTree
from sim.cluster.graph_file import to_networkx
from sim.cluster.topology import Hosts, edges
from tests.cases import cases
from tests.fabric_oracle import cables_of, topology_of
from tests.graph_documents import Document, add, document, drop, edge, imported, join, two_tiers, vertex, written

if TYPE_CHECKING:
    from pathlib import Path

    from sim.cluster.fabric import FabricKind

GB_200, GB_400 = 200e9 / 8, 400e9 / 8


@cases("suffix", [".json", ".graphml", ".xml"])
def test_small_tree_is_read_as_it_was_drawn(tmp_path: Path, suffix: str) -> None:
    """Counts, domains, rails in the order of the edges, and the NIC's bandwidth where none is given."""
    kind = imported(written(tmp_path, two_tiers(), suffix), rails=2)
    topology = topology_of(kind, Hosts(4, 8))
    expected = {"nic": 8, "leaf": 4, "spine": 2, "core": 0, "pod": 1}
    cables = {"cable_node_leaf": 8, "cable_leaf_spine": 8, "cable_spine_core": 0}
    assert kind.counts(Hosts(4, 8)) == expected | cables
    assert topology.domains["leaf"].tolist() == [0, 0, 1, 1]
    assert topology.domains["pod"].tolist() == [0, 0, 0, 0]
    access = [(host, 4 + host // 2 * 2 + rail, 0, rail, GB_400) for host in range(4) for rail in range(2)]
    above = [(leaf, spine, 1, -1, GB_400) for leaf in range(4, 8) for spine in (8, 9)]
    assert cables_of(topology) == Counter(access + above)
    assert kind.homes == 1
    # Four NICs of two hosts go down from a leaf group, and eight cables go up.
    assert topology.bandwidth == {"leaf": GB_400, "pod": GB_400, "cluster": GB_400}


@cases("suffix", [".json", ".graphml"])
def test_switches_find_their_tier_by_distance(tmp_path: Path, suffix: str) -> None:
    """Without a part for switches nothing changes."""
    graph = two_tiers()
    graph.add_node("c", part="core")
    graph.add_edges_from([("s0", "c"), ("s1", "c")])
    explicit = topology_of(imported(written(tmp_path, graph, suffix), rails=2), Hosts(4, 8))
    for name in [name for name in graph if not name.startswith("h")]:
        del graph.nodes[name]["part"]
    (tmp_path / "bare").mkdir()
    bare = topology_of(imported(written(tmp_path / "bare", graph, suffix), rails=2), Hosts(4, 8))
    assert bare.counts == explicit.counts
    assert bare.counts["core"] == 1
    assert cables_of(bare) == cables_of(explicit)


FABRICS: list[tuple[int, type[FabricKind], Document]] = [
    (16, FatTree, {"use": "fat-tree", "rails": 2, "leaf": {"nodes": 4}, "radix": 16}),
    (16, FatTree, {"use": "fat-tree", "rails": 4, "leaf": {"nodes": 4, "switches": 1}, "radix": 32}),
    (
        20,
        FatTree,
        {
            "use": "fat-tree",
            "rails": 2,
            "leaf": {"nodes": 4},
            "spine": {"leaf_groups": 2, "oversubscription": 2},
            "core": {"oversubscription": 2},
            "radix": 16,
        },
    ),
    (10, DualPlane, {"use": "dual-plane", "rails": 2, "segment": {"nodes": 4}, "radix": 16}),
    (
        18,
        DualPlane,
        {
            "use": "dual-plane",
            "rails": 2,
            "segment": {"nodes": 4},
            "radix": 32,
            "uplink": "400 Gb/s",
            "spine": {"segments": 2, "oversubscription": 2},
            "core": {},
        },
    ),
]


@cases("suffix", [".json", ".graphml"])
@cases(("nodes", "kind", "parameters"), FABRICS, ids=str)
def test_export_and_import_give_the_same_network(
    tmp_path: Path, nodes: int, kind: type[FabricKind], parameters: Document, suffix: str
) -> None:
    """Counts, domains, levels and the multiset of cables survive the way through a file, rails included."""
    hosts = Hosts(nodes, 8)
    original = topology_of(kind.model_validate(parameters), hosts)
    path = written(tmp_path, to_networkx(original), suffix)
    copy = topology_of(imported(path, rails=original.rails), hosts)
    assert copy.counts == original.counts
    for domain in ("leaf", "pod"):
        assert np.array_equal(copy.domains[domain], original.domains[domain])
    assert cables_of(copy) == cables_of(original)
    full = {level: pytest.approx(bandwidth) for level, bandwidth in original.bandwidth.items()}
    assert dict(copy.bandwidth) == full


def test_index_and_order_number_the_vertices(tmp_path: Path) -> None:
    """The index goes before the order of the file, part by part."""
    content = document()
    for place, host in enumerate(("h2", "h0", "h3", "h1")):
        vertex(content, host)["index"] = place
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert topology_of(imported(path, rails=2), Hosts(4, 8)).domains["leaf"].tolist() == [0, 1, 0, 1]


def test_bandwidth_and_cables_of_an_edge(tmp_path: Path) -> None:
    """Numbers are B/s, text has a unit, and the cables of an edge share what it says."""
    content = document()
    edge(content, "l00", "s0").update(bandwidth="800 Gb/s", cables=4)
    edge(content, "l00", "s1").update(bandwidth=1e9)
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    cables = cables_of(topology_of(imported(path, rails=2, nic="200 Gb/s"), Hosts(4, 8)))
    assert cables[4, 8, 1, -1, GB_200] == 4
    assert cables[4, 9, 1, -1, 1e9] == 1
    assert cables[5, 9, 1, -1, GB_200] == 1


@cases("by_plane", [False, True])
def test_two_homes_are_found_in_either_order(tmp_path: Path, by_plane: bool) -> None:
    """Cables listed rail by rail, or plane by plane, give each NIC one cable to each plane, of half its bandwidth."""
    graph: nx.Graph[str] = nx.Graph()
    switches = [(plane, rail) for plane in range(2) for rail in range(3)]
    for host in ("a", "b"):
        graph.add_node(host, part="node")
        for plane, rail in sorted(switches, key=lambda pair: pair if by_plane else pair[::-1]):
            graph.add_edge(host, f"p{plane}r{rail}")
    graph.add_edges_from((f"p{plane}r{rail}", f"spine {plane}") for plane, rail in switches)
    kind = imported(written(tmp_path, graph, ".json"), rails=3)
    names = graph_file.read_graph(kind.file).vertices
    leaves = [name for name in names if str(name).startswith("p")]
    assert kind.homes == 2
    for low, high, tier, rail, bandwidth in cables_of(topology_of(kind, Hosts(2, 3))).elements():
        if tier == 0:
            assert str(leaves[high - 2])[2:] == f"r{rail}", low
            assert bandwidth == GB_200


def test_two_homes_in_one_plane_are_dealt_rail_by_rail(tmp_path: Path) -> None:
    """Where planes do not tell the homes apart, the order of the edges does."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(("a", "b"), part="node")
    leaves = [f"r{rail}h{home}" for rail in range(2) for home in range(2)]
    graph.add_edges_from((host, leaf) for host in ("a", "b") for leaf in leaves)
    graph.add_edges_from((leaf, "spine") for leaf in leaves)
    cables = cables_of(topology_of(imported(written(tmp_path, graph, ".json"), rails=2), Hosts(2, 2)))
    found = Counter((low, high, rail) for low, high, tier, rail, _ in cables.elements() if tier == 0)
    assert found == Counter((host, 2 + place, place // 2) for host in range(2) for place in range(4))


def test_rails_of_edges_are_taken_as_given(tmp_path: Path) -> None:
    """A rail that an edge states goes before the order of the edges."""
    content = document()
    for entry in content["edges"]:
        ends = entry["source"] + entry["target"]
        if "h" in ends:
            entry["rail"] = 1 - int(ends[ends.index("l") + 2])
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    cables = cables_of(topology_of(imported(path, rails=2), Hosts(4, 8)))
    assert cables[0, 4, 0, 1, GB_400] == 1
    assert cables[3, 7, 0, 0, GB_400] == 1


@cases("suffix", [".json", ".graphml"])
@cases("both_ways", [False, True])
def test_directed_graphs_are_read_as_undirected(tmp_path: Path, suffix: str, both_ways: bool) -> None:
    """One arrow is a cable; an arrow and its way back are one cable too."""
    graph: nx.DiGraph[str] = nx.DiGraph(two_tiers().edges)
    graph.add_nodes_from(two_tiers().nodes(data=True))
    if both_ways:
        graph.add_edges_from([(other, one) for one, other in graph.edges])
    directed = topology_of(imported(written(tmp_path, graph, suffix), rails=2), Hosts(4, 8))
    assert directed.counts["cable_node_leaf"] == directed.counts["cable_leaf_spine"] == 8


@cases("suffix", [".json", ".graphml"])
def test_parallel_edges_are_cables_of_their_own(tmp_path: Path, suffix: str) -> None:
    """A multigraph may say each cable by itself."""
    graph: nx.MultiGraph[str] = nx.MultiGraph(two_tiers())
    graph.add_edge("l00", "s0", bandwidth=2e9)
    cables = cables_of(topology_of(imported(written(tmp_path, graph, suffix), rails=2), Hosts(4, 8)))
    assert cables[4, 8, 1, -1, GB_400] == cables[4, 8, 1, -1, 2e9] == 1


def test_graphml_of_an_editor_is_read(tmp_path: Path) -> None:
    """Defaults count, graphics and values without text are passed over, whatever the prefix of the namespace."""
    path = tmp_path / "drawn.graphml"
    path.write_text(
        """<?xml version="1.0" encoding="UTF-8"?>
<g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
  <g:key id="d0" for="node" attr.name="part" attr.type="string"><g:default>node</g:default></g:key>
  <g:key id="d1" for="node" yfiles.type="nodegraphics"/>
  <g:key id="d2" for="edge" attr.name="bandwidth" attr.type="string"/>
  <g:key id="d3" for="edge" attr.name="cables" attr.type="int"><g:default>2</g:default></g:key>
  <g:key id="d4" for="node" attr.name="description" attr.type="string"/>
  <g:graph id="G" edgedefault="undirected">
    <g:data key="d4">a drawing</g:data>
    <g:node id="a"><g:data key="d1"><y:ShapeNode><y:NodeLabel>A</y:NodeLabel>
      </y:ShapeNode></g:data><g:data key="d4"/></g:node>
    <g:node id="b"/>
    <g:node id="switch"><g:data key="d0">le<y:Note>of an editor</y:Note>af</g:data></g:node>
    <g:edge source="a" target="switch"><g:data key="d2">200 Gb/s</g:data></g:edge>
    <g:edge source="switch" target="b"><g:data key="d3">1</g:data><g:data key="d2">100 Gb/s</g:data></g:edge>
    <g:edge source="switch" target="b"><g:data key="d3">1</g:data><g:data key="d2">100 Gb/s</g:data></g:edge>
  </g:graph>
</g:graphml>
""",
        encoding="utf-8",
    )
    topology = topology_of(imported(path, rails=2), Hosts(2, 2))
    assert cables_of(topology) == Counter({(host, 2, 0, rail, GB_200 / 2): 1 for host in (0, 1) for rail in (0, 1)})


def test_cables_without_a_rail_take_what_is_left(tmp_path: Path) -> None:
    """One edge of a host that states its rail settles the other one; other hosts keep the order of their edges."""
    content = document()
    edge(content, "h0", "l00")["rail"] = 1
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    cables = cables_of(topology_of(imported(path, rails=2), Hosts(4, 8)))
    assert cables[0, 4, 0, 1, GB_400] == cables[0, 5, 0, 0, GB_400] == 1
    assert cables[1, 4, 0, 0, GB_400] == cables[1, 5, 0, 1, GB_400] == 1


def test_pods_of_hosts_may_be_named(tmp_path: Path) -> None:
    """Names of pods are numbered in the order of the hosts."""
    content = document()
    content["nodes"] += [{"id": "s2"}, {"id": "c"}]
    for leaf in ("l10", "l11"):
        for spine in ("s0", "s1"):
            drop(leaf, spine)(content)
        join(leaf, "s2")(content)
    for spine in ("s0", "s1", "s2"):
        join(spine, "c")(content)
    for host, pod in enumerate(("west", "west", "east", "east")):
        vertex(content, f"h{host}")["pod"] = pod
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert topology_of(imported(path, rails=2), Hosts(4, 8)).domains["pod"].tolist() == [0, 0, 1, 1]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is asked of a fabric costs one reading; a file that was edited is read again."""
    path = written(tmp_path, two_tiers(), ".json")
    read: list[str] = []

    original = graph_file.read_graph

    def counted(name: str) -> graph_file.Description:
        read.append(name)
        return original(name)

    monkeypatch.setattr(graph_file, "read_graph", counted)
    kind, hosts = imported(path, rails=2), Hosts(4, 8)
    topology = topology_of(kind, hosts)
    kind.bandwidth(hosts)
    kind.domains(hosts)
    assert len(read) == 1
    with pytest.raises(ValueError, match="read-only"):
        edges(topology).rail[0] = 7

    content = document()
    add("s0", "c")(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert kind.counts(hosts)["core"] == 1
    assert len(read) == 2


def test_topology_of_a_file_survives_pickling(tmp_path: Path) -> None:
    """Another process reads the file for itself."""
    topology = topology_of(imported(written(tmp_path, two_tiers(), ".json"), rails=2), Hosts(4, 8))
    assert cables_of(pickle.loads(pickle.dumps(topology))) == cables_of(topology)
