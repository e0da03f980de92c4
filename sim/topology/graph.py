"""Export of a topology as a networkx graph: for files, pictures and checks, never for a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.topology.model import VERTEX_PARTS, Topology, edges

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["to_networkx"]


def to_networkx(topology: Topology) -> nx.Graph[int]:
    """Return hosts and switches as an undirected graph.

    Vertices carry ``part`` and ``index``, hosts also their domains. Parallel cables become one edge with their number
    ``cables``, their summed ``bandwidth`` [B/s per direction] and their ``tier``.

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
    order = np.lexsort((cables.upper, cables.lower))
    lower, upper = cables.lower[order], cables.upper[order]
    new = np.ones(lower.size, dtype=bool)
    new[1:] = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    first = np.flatnonzero(new)
    number = np.diff(first, append=lower.size)
    bandwidth = np.add.reduceat(cables.bandwidth[order], first)
    columns = (lower[first], upper[first], number, bandwidth, cables.tier[order][first])
    for low, high, many, total, tier in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(low, high, cables=many, bandwidth=total, tier=tier)
    return graph
