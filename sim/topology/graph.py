"""Export of a topology as a networkx graph and as text: for files, pictures and checks, never for a simulation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.topology.model import VERTEX_PARTS, Topology, edges

if TYPE_CHECKING:
    from collections.abc import Callable

    import networkx as nx

__all__ = ["GRAPH_FORMATS", "to_graphml", "to_networkx", "to_node_link"]

_KINDS = {int: "long", float: "double", str: "string"}


def to_networkx(topology: Topology) -> nx.Graph[int]:
    """Return hosts and switches as an undirected graph.

    Vertices carry ``part`` and ``index``, hosts also their domains. Parallel cables become one edge with their number
    ``cables``, their summed ``bandwidth`` [B/s per direction] and their ``tier``; where they are all of one rail of a
    host, also its ``rail``.

    Notes
    -----
    Hosts do not forward traffic: a path search over this graph must not pass *through* a vertex whose part is
    ``node``.
    """
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph(name=topology.name)
    for part in VERTEX_PARTS:
        for index, vertex in enumerate(topology.vertices(part)):
            graph.add_node(vertex, part=part, index=index)
    for domain, ids in topology.domains.items():
        nx.set_node_attributes(graph, dict(enumerate(ids.tolist())), domain)

    cables = edges(topology)
    order = np.lexsort((cables.rail, cables.upper, cables.lower))
    lower, upper, rail = cables.lower[order], cables.upper[order], cables.rail[order]
    new = np.ones(lower.size, dtype=bool)
    new[1:] = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    first = np.flatnonzero(new)
    last = np.append(first[1:], lower.size) - 1
    bandwidth = np.add.reduceat(cables.bandwidth[order], first)
    one_rail = np.where(rail[first] == rail[last], rail[first], -1)
    columns = (lower[first], upper[first], last - first + 1, bandwidth, cables.tier[order][first], one_rail)
    for low, high, many, total, tier, of in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(low, high, cables=many, bandwidth=total, tier=tier, **({"rail": of} if of >= 0 else {}))
    return graph


def to_graphml(topology: Topology) -> str:
    """Return the graph as GraphML.

    Notes
    -----
    The writer of networkx takes four times as long, which is half a minute for 100,000 GPUs.
    """
    from xml.sax.saxutils import escape  # with which half of the internet is imported

    graph = to_networkx(topology)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="name" for="graph" attr.name="name" attr.type="string"/>',
    ]
    for owner, given in (
        ("node", (said for _, said in graph.nodes.data())),
        ("edge", (said for *_, said in graph.edges.data())),
    ):
        kinds = {name: _KINDS[type(value)] for said in given for name, value in said.items()}
        lines += [
            f'<key id="{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>' for name, kind in kinds.items()
        ]
    lines += ['<graph edgedefault="undirected">', f'<data key="name">{escape(topology.name)}</data>']
    lines += [f'<node id="{vertex}">{_data(said)}</node>' for vertex, said in graph.nodes.data()]
    lines += [f'<edge source="{low}" target="{high}">{_data(said)}</edge>' for low, high, said in graph.edges.data()]
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


def _data(said: dict[str, Any]) -> str:
    """Return attributes as elements; none of their values needs to be escaped."""
    return "".join(f'<data key="{name}">{value}</data>' for name, value in said.items())


def to_node_link(topology: Topology) -> str:
    """Return the graph as JSON with a list of ``nodes`` and one of ``edges``, an entry a line."""
    graph = to_networkx(topology)
    nodes = ",\n".join(json.dumps({"id": vertex, **said}) for vertex, said in graph.nodes.data())
    links = ",\n".join(json.dumps({"source": low, "target": high, **said}) for low, high, said in graph.edges.data())
    head = json.dumps({"directed": False, "multigraph": False, "graph": {"name": topology.name}})[:-1]
    return f'{head}, "nodes": [\n{nodes}\n], "edges": [\n{links}\n]}}\n'


GRAPH_FORMATS: dict[str, Callable[[Topology], str]] = {"graphml": to_graphml, "json": to_node_link}
"""What writes a graph, by the name of the format."""
