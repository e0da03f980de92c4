"""Interconnects: from a few parameters to counts of parts, failure domains and the graph.

One file per kind of fabric; adding a kind is one file and one line in ``fabrics.py``.
"""

from __future__ import annotations

from sim.topology.cluster import ClusterSpec, HostPool
from sim.topology.dual_plane import DualPlane
from sim.topology.fabric import FABRIC_PARTS, FabricKind, Hosts
from sim.topology.fabrics import FABRICS
from sim.topology.fat_tree import FatTree
from sim.topology.graph import GRAPH_FORMATS, to_networkx
from sim.topology.graph_file import GraphFile
from sim.topology.model import Edges, Members, Topology, edges

__all__ = [
    "FABRICS",
    "FABRIC_PARTS",
    "GRAPH_FORMATS",
    "ClusterSpec",
    "DualPlane",
    "Edges",
    "FabricKind",
    "FatTree",
    "GraphFile",
    "HostPool",
    "Hosts",
    "Members",
    "Topology",
    "edges",
    "to_networkx",
]
