"""Interconnects: from a few parameters to counts of parts, failure domains and the graph.

One file per kind; adding a kind is one file and one line in ``TOPOLOGIES``.
"""

from __future__ import annotations

from sim.topology.fat_tree import FatTree
from sim.topology.graph import to_networkx
from sim.topology.model import Edges, Members, Topology, TopologyKind, edges

__all__ = ["TOPOLOGIES", "Edges", "FatTree", "Members", "Topology", "TopologyKind", "edges", "to_networkx"]

TOPOLOGIES: dict[str, type[TopologyKind]] = {
    "fat-tree": FatTree,
}
