"""A small network built by hand, as a file, and changes of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx

from sim.cluster.graph_file import GraphFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


Document = dict[str, Any]


def imported(path: Path, rails: int = 1, **parameters: Any) -> GraphFile:
    """Validate parameters as a scenario would be."""
    return GraphFile.model_validate({"use": "graph-file", "file": str(path), "rails": rails, **parameters})


def written(folder: Path, graph: Any, suffix: str) -> Path:
    """Write a graph in the format of a suffix, as its own library does."""
    path = folder / f"graph{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")
    else:
        nx.write_graphml(graph, path)
    return path


def two_tiers() -> Any:
    """Return four hosts of two rails, two leaf switches for each pair of hosts, two spines; built by hand."""
    graph: nx.Graph[str] = nx.Graph()
    for host in range(4):
        graph.add_node(f"h{host}", part="node")
    for pair in range(2):
        for rail in range(2):
            leaf = f"l{pair}{rail}"
            graph.add_node(leaf, part="leaf")
            graph.add_edges_from([(f"h{2 * pair}", leaf), (f"h{2 * pair + 1}", leaf)])
    for spine in ("s0", "s1"):
        graph.add_node(spine, part="spine")
        graph.add_edges_from([(spine, f"l{pair}{rail}") for pair in range(2) for rail in range(2)])
    return graph


def document() -> Document:
    """Return the graph of `two_tiers` as a node-link document."""
    return json.loads(json.dumps(nx.node_link_data(two_tiers(), edges="edges")))


def vertex(content: Document, name: str) -> Document:
    """Return the entry of a vertex."""
    return next(entry for entry in content["nodes"] if entry["id"] == name)


def edge(content: Document, one: str, other: str) -> Document:
    """Return the entry of an edge."""
    return next(entry for entry in content["edges"] if {entry["source"], entry["target"]} == {one, other})


def put(one: str, other: str | None = None, **values: Any) -> Callable[[Document], None]:
    """Return a change of what is said of a vertex, or of an edge."""
    return lambda content: (vertex(content, one) if other is None else edge(content, one, other)).update(values)


def join(one: str, other: str) -> Callable[[Document], None]:
    """Return a change that adds an edge."""
    return lambda content: content["edges"].append({"source": one, "target": other})


def drop(one: str, other: str) -> Callable[[Document], None]:
    """Return a change that takes an edge away."""
    return lambda content: content["edges"].remove(edge(content, one, other))


def add(*chain: str) -> Callable[[Document], None]:
    """Return a change that adds vertices in a chain from an old one."""

    def change(content: Document) -> None:
        content["nodes"].extend({"id": name} for name in chain[1:])
        for one, other in pairwise(chain):
            join(one, other)(content)

    return change


def together(*changes: Callable[[Document], None]) -> Callable[[Document], None]:
    """Return several changes as one."""

    def change(content: Document) -> None:
        for each in changes:
            each(content)

    return change
