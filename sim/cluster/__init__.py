"""Interconnects: from a few parameters to counts of parts, failure domains and the graph.

One file per kind of fabric; adding a kind is one file and one line in ``fabrics.py``.
"""

from __future__ import annotations

from sim.cluster.fabric import DualPlane, FabricKind, FatTree
from sim.cluster.graph_file import GRAPH_FORMATS, GraphFile, to_networkx
from sim.cluster.spec import FABRICS, ClusterSpec, HostPool
from sim.cluster.topology import FABRIC_PARTS, Edges, Hosts, Members, Topology, edges

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
