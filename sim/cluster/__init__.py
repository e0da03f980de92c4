"""Interconnects: from a few parameters to counts of parts, failure domains and the graph.

A kind of fabric is a class in ``fabric.py`` or a file of its own, and a line in `sim.cluster.spec.FABRICS`.
"""

from __future__ import annotations

from sim.cluster.fabric import DualPlane, FabricKind, FatTree
from sim.cluster.graph_file import GRAPH_FORMATS, GraphFile, to_networkx
from sim.cluster.spec import FABRICS, ClusterSpec, HostPool
from sim.cluster.topology import FABRIC_PARTS, Edges, Hosts, Members, Topology, edges
