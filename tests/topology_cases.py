"""Small clusters of every kind of fabric, with the odd leftovers on which arithmetic goes wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import networkx as nx

from sim.cluster import ClusterSpec, Topology, edges

if TYPE_CHECKING:
    from pathlib import Path


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
