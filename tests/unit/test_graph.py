"""Export as a graph: nothing is lost, other programs read it, and it can be imported again."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from sim.cluster import GRAPH_FORMATS, ClusterSpec, FatTree, Hosts, Topology, edges, to_networkx
from sim.cluster.fabric import DualPlane
from sim.cluster.graph_file import GraphFile

if TYPE_CHECKING:
    from pathlib import Path

    from sim.cluster import FabricKind


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


def test_rail_stands_where_it_is_one(topology: Topology) -> None:
    """An edge has a rail exactly when all its cables are of one rail of a host."""
    cables = edges(topology)
    rails: dict[tuple[int, int], set[int]] = {}
    for low, high, rail in zip(cables.lower.tolist(), cables.upper.tolist(), cables.rail.tolist(), strict=True):
        rails.setdefault((low, high), set()).add(rail)
    for *ends, said in to_networkx(topology).edges.data():
        (*several,) = rails[min(ends), max(ends)]
        assert said.get("rail", -1) == (several[0] if len(several) == 1 else -1)


def test_hosts_have_their_domains(topology: Topology) -> None:
    """Hosts say each domain that they are in; switches say none."""
    graph = to_networkx(topology)
    for vertex, said in graph.nodes.data():
        if vertex < topology.nodes:
            assert {name: said[name] for name in topology.domains} == {
                name: ids[vertex] for name, ids in topology.domains.items()
            }
        else:
            assert said.keys() == {"part", "index"}


def test_two_ports_of_a_nic_share_its_bandwidth() -> None:
    """In a dual-plane fabric each rail of a host has two edges, each with half the bandwidth of the NIC."""
    graph = to_networkx(CLUSTERS["two planes"].build())
    for host in range(32):
        found = Counter((said["rail"], said["bandwidth"]) for *_, said in graph.edges(host, data=True))
        assert found == {(0, 25e9): 2, (1, 25e9): 2}


def test_other_programs_read_both_formats(topology: Topology) -> None:
    """The readers of networkx find the same graph in the text."""
    graph = to_networkx(topology)
    graphml = nx.read_graphml(io.BytesIO(GRAPH_FORMATS["graphml"](topology).encode()), node_type=int)
    assert (graphml.nodes, graphml.adj) == (graph.nodes, graph.adj)
    node_link = nx.node_link_graph(json.loads(GRAPH_FORMATS["json"](topology)), edges="edges")
    assert nx.utils.graphs_equal(node_link, graph)


def test_names_are_escaped() -> None:
    """A name may hold what means something in XML and JSON."""
    spec = CLUSTERS["rails"].model_copy(update={"name": '<a & "b">'})
    graphml = GRAPH_FORMATS["graphml"](spec.build())
    assert '<data key="name">&lt;a &amp; "b"&gt;</data>' in graphml
    assert nx.read_graphml(io.BytesIO(graphml.encode())).number_of_nodes() == sum(
        spec.counts()[part] for part in ("node", "leaf", "spine", "core")
    )
    assert json.loads(GRAPH_FORMATS["json"](spec.build()))["graph"] == {"name": '<a & "b">'}


@pytest.mark.parametrize("suffix", GRAPH_FORMATS)
def test_export_can_be_imported(topology: Topology, suffix: str, tmp_path: Path) -> None:
    """A fabric read from the export has the same parts, domains and cables, rail by rail."""
    path = tmp_path / f"graph.{suffix}"
    path.write_text(GRAPH_FORMATS[suffix](topology), encoding="utf-8")
    fabric = GraphFile.model_validate({"file": str(path), "rails": topology.rails, "nic": "400 Gb/s"})
    hosts = Hosts(topology.nodes, topology.gpus_per_node)
    fabric.check(hosts)
    counts = fabric.counts(hosts)
    assert counts == {part: topology.counts[part] for part in counts}
    for name, ids in fabric.domains(hosts).items():
        assert ids.tolist() == topology.domains[name].tolist()

    def every(cables: Any) -> Counter[tuple[float, ...]]:
        return Counter(zip(*(column.tolist() for column in cables), strict=True))

    assert every(fabric.edges(hosts)) == every(edges(topology))
