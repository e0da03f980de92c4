"""Import of networks from files: what is read, and how it is numbered."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from ettrick.sim.cluster import (
    FABRIC_PARTS,
    GRAPH_FORMATS,
    ClusterSpec,
    FatTree,
    Hosts,
    Topology,
    edges,
    graph_file,
    to_networkx,
)
from ettrick.sim.cluster.fabric import DualPlane
from ettrick.sim.scenario.fields import RuleError
from tests.cases import cases
from tests.pace import sample
from tests.report_sample import (
    Document,
    add,
    document,
    drop,
    edge,
    imported,
    join,
    put,
    together,
    two_tiers,
    vertex,
    written,
)
from tests.topology_checks import cables_of, check_topology, flow_between, topology_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ettrick.sim.cluster import FabricKind
    from ettrick.sim.cluster.graph_file import GraphFile

# ----------------------------------------
# Export as a graph: nothing is lost, other programs read it, and it can be imported again.


def cluster(fabric: FabricKind, nodes: int = 32, **changes: Any) -> ClusterSpec:
    """Return a cluster of 8-GPU hosts with any fabric, whether or not files may name it."""
    small = ClusterSpec.model_validate({"nodes": 4, "rack": {"nodes": 3}, **changes})
    fabric.check(Hosts(nodes, 8))
    return small.model_copy(update={"nodes": nodes, "fabric": fabric})


CLUSTERS = {
    "rails": cluster(FatTree.model_validate({"rails": 2, "leaf": {"nodes": 8}, "radix": 16})),
    "one switch for all rails": cluster(FatTree.model_validate({"leaf": {"nodes": 2, "switches": 1}, "radix": 32})),
    "two rails a switch": cluster(FatTree.model_validate({"rails": 4, "leaf": {"nodes": 8, "switches": 2}})),
    "three tiers": cluster(
        FatTree.model_validate(
            {
                "rails": 2,
                "leaf": {"nodes": 4},
                "radix": 16,
                "spine": {"leaf_groups": 2},
                "core": {"oversubscription": 2},
            }
        )
    ),
    "partly filled": cluster(FatTree.model_validate({"rails": 2, "leaf": {"nodes": 8}, "radix": 16}), nodes=27),
    "two planes": cluster(DualPlane.model_validate({"radix": 16, "segment": {"nodes": 8}, "rails": 2})),
    "wide uplinks": cluster(
        DualPlane.model_validate({"radix": 32, "segment": {"nodes": 8}, "rails": 2, "uplink": "400 Gb/s"})
    ),
}


@pytest.fixture(params=CLUSTERS, name="topology")
def topology_(request: pytest.FixtureRequest) -> Topology:
    """Return each topology."""
    return CLUSTERS[request.param].build()


def test_edges_stand_for_all_cables(topology: Topology) -> None:
    """Between any two vertices the graph has as many cables, and as much bandwidth, as the topology."""
    cables = edges(topology)
    number: Counter[tuple[int, int]] = Counter(zip(cables.lower.tolist(), cables.upper.tolist(), strict=True))
    total: Counter[tuple[int, int]] = Counter()
    for low, high, bandwidth in zip(cables.lower, cables.upper, cables.bandwidth, strict=True):
        total[int(low), int(high)] += float(bandwidth)
    graph = to_networkx(topology)
    assert {(min(ends), max(ends)): said["cables"] for *ends, said in graph.edges.data()} == number
    assert {(min(ends), max(ends)): said["bandwidth"] for *ends, said in graph.edges.data()} == total


def test_hosts_have_their_domains(topology: Topology) -> None:
    """Hosts say each domain that they are in; switches say none."""
    graph = to_networkx(topology)
    for one, said in graph.nodes.data():
        if one < topology.nodes:
            assert {name: said[name] for name in topology.domains} == {
                name: ids[one] for name, ids in topology.domains.items()
            }
        else:
            assert said.keys() == {"part", "index"}


def test_other_programs_read_both_formats(topology: Topology) -> None:
    """The readers of networkx find the same graph in the text."""
    graph = to_networkx(topology)
    graphml = nx.read_graphml(io.BytesIO(GRAPH_FORMATS["graphml"](topology).encode()), node_type=int)
    assert (graphml.nodes, graphml.adj) == (graph.nodes, graph.adj)
    node_link = nx.node_link_graph(json.loads(GRAPH_FORMATS["json"](topology)), edges="edges")
    assert nx.utils.graphs_equal(node_link, graph)


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


def both_ways(content: Document, **changes: Any) -> Document:
    """Return a graph with each edge, the last of them changed, in the other direction too."""
    back = [entry | {"source": entry["target"], "target": entry["source"]} for entry in content["edges"]]
    back[-1] |= changes
    return content | {"edges": content["edges"] + back}


@cases(
    ("marks", "changes", "cables"),
    [
        ({"multigraph": False}, {}, 8),
        ({"multigraph": True}, {}, 16),
        ({"multigraph": None, "directed": True}, {}, 8),
        ({"multigraph": None}, {}, "is there in both directions, and no edge twice in one; say directed"),
        ({"multigraph": False}, {"bandwidth": 1e10}, "the other direction of the same cables"),
        ({"multigraph": False}, {"source": "l00", "target": "h0"}, "differs from"),
        ({"multigraph": "false"}, {}, "multigraph = 'false' must be true or false"),
        ({"multigraph": False, "directed": "no"}, {}, "directed = 'no' must be true or false"),
    ],
)
def test_a_link_in_both_directions_is_no_redundancy(
    tmp_path: Path, marks: Document, changes: Document, cables: int | str
) -> None:
    """A file that forbids parallel edges has one cable for both; one that does not say it is asked."""
    content = both_ways(document(), **changes) | marks
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")
    if isinstance(cables, str):
        with pytest.raises(RuleError, match=cables):
            imported(path, rails=2).check(Hosts(4, 8))
        return
    counts = topology_of(imported(path, rails=2), Hosts(4, 8)).counts
    assert counts["cable_node_leaf"] == counts["cable_leaf_spine"] == cables


def test_parallel_edges_that_a_file_forbids_are_refused(tmp_path: Path) -> None:
    """The same edge twice in one direction contradicts multigraph: false."""
    content = document()
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content | {"edges": content["edges"] * 2}), encoding="utf-8")
    with pytest.raises(RuleError, match="'h0' - 'l00': is there twice, which multigraph: false forbids"):
        imported(path, rails=2).check(Hosts(4, 8))


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


# ----------------------------------------
# Imported networks: whom one failure cuts off, and what the cables let through, against searches and flows.


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


def test_random_networks_pass_the_harness(tmp_path: Path) -> None:
    """Of each part of random networks that are whole every unit is taken out in turn, and all else holds too."""
    compared: Counter[str] = Counter()
    for seed in range(sample(150)):
        graph, nodes, rails = clos(seed)
        if not nx.is_connected(graph):
            continue
        path = written(tmp_path, graph, ".json").rename(tmp_path / f"{seed}.json")
        hosts = Hosts(nodes, rails)
        for reroute in ("none", "scale_up") if rails > 1 else ("none",):
            kind = imported(path, rails=rails, reroute=reroute)
            try:
                kind.check(hosts)
            except RuleError:  # in pieces, or with switches that nothing is joined to
                continue
            topology = check_topology(cluster_of(kind, hosts))
            compared.update(part for part in FABRIC_PARTS if topology.members(part).nodes.size)
    assert min(compared[part] for part in FABRIC_PARTS) >= 3


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


# ----------------------------------------
# What is no graph, and what is no tiered network, is refused in one line.

HUGE = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))

BOMB = f'<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY e0 "lol">{HUGE}]><graphml>&e11;</graphml>'

ENTITY = '<!DOCTYPE graphml [<!ENTITY x SYSTEM "secret.txt">]><graphml>&x;</graphml>'

XMLNS = 'xmlns="http://graphml.graphdrawing.org/xmlns"'


@cases(
    ("name", "content", "reason"),
    [
        ("graph.gexf", "", "the name must end in .graphml, .xml or .json"),
        ("graph.json", "{", "is not JSON: Expecting property name"),
        ("graph.json", "[" * 100_000, "is not JSON"),
        ("graph.json", b"\xff\xfe\xfa", "is not JSON"),
        ("graph.json", "[]", "a list of 'nodes' and a list of 'edges'"),
        ("graph.json", '{"nodes": []}', "a list of 'nodes' and a list of 'edges'"),
        ("graph.json", '{"nodes": [7], "edges": []}', "nodes[0] must be a mapping"),
        ("graph.json", '{"nodes": [{"id": true}], "edges": []}', "nodes[0] must be a mapping"),
        ("graph.json", '{"nodes": [], "links": [{"source": 1}]}', "links[0] must be a mapping"),
        ("graph.json", '{"nodes": [{"id": 1}, {"id": 1}], "edges": []}', "vertex 1 is described twice"),
        ("graph.json", '{"nodes": [], "edges": []}', "has no host"),
        ("graph.graphml", "nonsense", "is not XML: syntax error: line 1"),
        ("graph.graphml", "", "is not XML: no element found"),
        ("graph.graphml", '<?xml version="1.0" encoding="klingon"?><graphml/>', "is not XML: unknown encoding"),
        ("graph.xml", "<svg/>", "is not GraphML: its first element is <svg>"),
        ("graph.graphml", f"<graphml {XMLNS}/>", "is GraphML without a graph"),
        ("graph.graphml", f"<graphml {XMLNS}><graph/><graph/></graphml>", "has several graphs"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><hyperedge/></graph></graphml>", "has a hyperedge"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><node/></graph></graphml>", "node number 0 has no id"),
        ("graph.graphml", f"<graphml {XMLNS}><graph><edge/></graph></graphml>", "edge number 0 needs a source"),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><graph><node id="a"><data key="k">1</data></node></graph></graphml>',
            "vertex 'a': data with the key 'k', which is not declared",
        ),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
            '<edge source="a" target="b" directed="true"/></graph></graphml>',
            "edge 'a' - 'b': a file must not mix directed and undirected edges",
        ),
        (
            "graph.graphml",
            f'<graphml {XMLNS}><key id="k" attr.name="index" attr.type="int"/><graph><node id="a">'
            '<data key="k">x</data></node></graph></graphml>',
            "vertex 'a': index = 'x' is not of type int",
        ),
        ("graph.graphml", BOMB, "has a document type"),
        ("graph.graphml", BOMB.encode("utf-16"), "has a document type"),
        ("graph.xml", ENTITY, "has a document type"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "bytes",
)
def test_what_is_no_graph_is_refused(tmp_path: Path, name: str, content: str | bytes, reason: str) -> None:
    """The message names the file and what is wrong with it, on one line; entities are never expanded."""
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RuleError) as caught:
        imported(path).check(Hosts(1, 1))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.at == ("file",)


@cases("name", ["missing.json", "folder.json", "nul\0.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    """Missing files and folders are told in one line."""
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(RuleError, match="cannot be read: ") as caught:
        imported(tmp_path / name).check(Hosts(1, 1))
    assert "\n" not in str(caught.value)


REFUSED: list[tuple[Callable[[Document], None], str]] = [
    (put("h0", prat="node"), "vertex 'h0': unknown attribute 'prat'; did you mean 'part'?"),
    (put("h0", zzz=1), "vertex 'h0': unknown attribute 'zzz'; known are accelerator, cooling"),
    (put("h0", "l00", bandwith=1e9), "edge 'h0' - 'l00': unknown attribute 'bandwith'; did you mean 'bandwidth'?"),
    (put("l00", part="leef"), "vertex 'l00': unknown part 'leef'; did you mean 'leaf'?"),
    (put("l00", part=["leaf"]), "vertex 'l00': unknown part ['leaf']"),
    (put("h0", "l00", bandwidth=-1), "edge 'h0' - 'l00': bandwidth = -1 must be a positive number"),
    (put("h0", "l00", bandwidth=800), "edge 'h0' - 'l00': bandwidth = 800 has no unit, hence is of B/s, and no cable"),
    (put("h0", "l00", bandwidth=400_000), "and no cable has 0.0032 Gb/s; write a unit, as in '800 Gb/s'"),
    (put("h0", "l00", bandwidth=8e11), "and no cable has 6.4e+03 Gb/s; write a unit"),
    (put("h0", "l00", bandwidth=2e8, cables=2), "and no cable has 0.8 Gb/s; write a unit"),
    (put("h0", "l00", bandwidth=2e11), "edge 'h0' - 'l00': has 1600 Gb/s, but the NIC at its end 400 Gb/s (nic)"),
    (put("h0", "l00", bandwidth=0), "edge 'h0' - 'l00': bandwidth = 0 must be a positive number"),
    (put("h0", "l00", bandwidth=float("nan")), "edge 'h0' - 'l00': bandwidth = nan must be a positive number"),
    (put("h0", "l00", bandwidth=float("inf")), "edge 'h0' - 'l00': bandwidth = inf must be a positive number"),
    (put("h0", "l00", bandwidth=True), "edge 'h0' - 'l00': bandwidth = True: must be text"),
    (put("h0", "l00", bandwidth=10**400), "edge 'h0' - 'l00': bandwidth = 1000"),
    (put("h0", "l00", bandwidth="fast"), "edge 'h0' - 'l00': bandwidth = 'fast': 'fast' is not a quantity"),
    (put("h0", "l00", bandwidth="400"), "edge 'h0' - 'l00': bandwidth = '400': '400' needs a unit"),
    (put("h0", "l00", bandwidth="0 Gb/s"), "edge 'h0' - 'l00': bandwidth = '0 Gb/s' must be a positive number"),
    (put("h0", "l00", cables=0), "edge 'h0' - 'l00': cables = 0 must be from 1 to 65536"),
    (put("h0", "l00", cables=1.5), "edge 'h0' - 'l00': cables = 1.5 must be a whole number"),
    (put("h0", "l00", cables=10**12), "must be from 1 to 65536"),
    (put("h0", "l00", cables="many"), "edge 'h0' - 'l00': cables = 'many' must be a whole number"),
    (put("h0", "l00", rail=float("inf")), "edge 'h0' - 'l00': rail = inf must be a whole number"),
    (put("h0", "l00", rail=2), "edge 'h0' - 'l00': rail = 2 must be from 0 to 1 (rails = 2)"),
    (
        lambda content: [
            entry.update(rail=0) for entry in content["edges"] if "s" not in entry["source"] + entry["target"]
        ],
        "host 'h0' has 2 cables on rail 0: it can have 1 on each of rails = 2",
    ),
    (put("l00", "s0", rail=0), "edge 'l00' - 's0': has a rail, but only the cables of hosts have one"),
    (put("h0", index=0), "vertex 'h1' has no index, but vertex 'h0' has one"),
    (put("s0", index=0.5), "vertex 's0': index = 0.5 must be a whole number"),
    (together(put("s0", index=1), put("s1", index=1)), "vertex 's1': index = 1 must be from 0 to 1, each once"),
    (together(put("s0", index=0), put("s1", index=2)), "vertex 's1': index = 2 must be from 0 to 1, each once"),
    (put("h2", pod="b"), "vertex 'h0' has no pod, but vertex 'h2' has one"),
    (put("h2", pod=[1]), "vertex 'h2': pod = [1] must be a number or text"),
    (
        together(*(put(f"h{host}", pod=host // 2) for host in range(4))),
        "hosts 'h0' and 'h2', of the pods 0 and 1, are joined by leaves and spines without a core",
    ),
    (join("l00", "l00"), "edge 'l00' - 'l00': joins a vertex to itself"),
    (join("h0", "l000"), "edge 'h0' - 'l000': there is no vertex 'l000'; did you mean 'l00'?"),
    (join("h0", "h1"), "edge 'h0' - 'h1': joins two hosts"),
    (join("l00", "l01"), "edge 'l00' - 'l01': joins two switches of the same tier (leaf): only tiered Clos networks"),
    (join("h0", "s0"), "edge 'h0' - 's0': skips a tier, from node to spine: only tiered Clos networks"),
    (add("s0", "c", "d"), "vertex 'd' is 4 cables away from the nearest host: only tiered Clos networks"),
    (
        lambda content: content["nodes"].extend([{"id": "x"}, {"id": "y"}]) or join("x", "y")(content),
        "vertex 'x' reaches no host",
    ),
    (lambda content: content["nodes"].append({"id": "h4", "part": "node"}), "host 'h4' has no cable"),
    (lambda content: content["nodes"].append({"id": "x", "part": "spine"}), "vertex 'x' has no cable"),
    (drop("h1", "l00"), "host 'h1' has 1 access cables, host 'h0' has 2: hosts must have the same number of rails"),
    (
        lambda content: [put(f"h{host}", f"l{host // 2}0", cables=2)(content) for host in range(4)],
        "hosts have 3 access cables each, which do not divide over rails = 2",
    ),
    (
        together(*(drop(f"l1{rail}", f"s{spine}") for rail in (0, 1) for spine in (0, 1))),
        "host 'h2' cannot reach host 'h0' on rail 0: no switches join them",
    ),
    (
        together(*(drop("l11", f"s{spine}") for spine in (0, 1))),
        "host 'h2' cannot reach host 'h0' on rail 1: no switches join them",
    ),
    (lambda content: [vertex(content, f"h{host}").pop("part") for host in range(4)], "has no host"),
]


@cases(("change", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_is_no_clos_network_is_refused(tmp_path: Path, change: Callable[[Document], Any], reason: str) -> None:
    """The message names the file, the vertex or edge, and the rule, on one line."""
    content = document()
    change(content)
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        imported(path, rails=2).check(Hosts(4, 8))
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@cases("planes", [(1, 2), (1, 1)])
def test_hosts_in_other_planes_are_refused(tmp_path: Path, planes: tuple[int, int]) -> None:
    """A host that shares one plane of two with the first can be reached, but not as the others are."""
    content = {
        "nodes": [{"id": name, "part": "node"} for name in "abc"] + [{"id": f"p{plane}"} for plane in {0, *planes}],
        "edges": [
            {"source": host, "target": f"p{plane}"}
            for host, homes in (("a", (0, 1)), ("b", (0, 1)), ("c", planes))
            for plane in homes
        ],
    }
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError, match="hosts 'c' and 'a' are not in the same planes on rail 0"):
        imported(path, rails=1).check(Hosts(3, 1))


def test_directions_that_disagree_are_refused(tmp_path: Path) -> None:
    """A cable has one bandwidth; two arrows with different ones are a mistake."""
    content = document() | {"directed": True}
    content["edges"].append({"source": "s0", "target": "l00", "bandwidth": 1e9})
    content["edges"].append({"source": "l00", "target": "s0", "bandwidth": 2e9})
    content["edges"].remove(edge(content, "s0", "l00"))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RuleError, match=r"differs from edge .* the other direction of the same cables"):
        imported(path, rails=2).check(Hosts(4, 8))


def test_scenario_and_file_must_agree(tmp_path: Path) -> None:
    """The number of hosts and of GPUs per rail are the scenario's to state."""
    kind = imported(written(tmp_path, two_tiers(), ".json"), rails=2)
    with pytest.raises(RuleError, match="has 4 hosts, but the cluster has nodes = 5"):
        kind.check(Hosts(5, 8))
    with pytest.raises(RuleError, match="3 GPUs per node do not divide evenly over 2 rails"):
        kind.check(Hosts(4, 3))
