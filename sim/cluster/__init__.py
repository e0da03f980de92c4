"""Interconnects: from a few parameters to counts of parts, failure domains and the graph.

A kind of fabric is a class in ``fabric.py`` or a file of its own, and a line in `ettrick.sim.cluster.spec.FABRICS`.
"""

from __future__ import annotations

from ettrick.sim.cluster.fabric import DualPlane, FabricKind, FatTree
from ettrick.sim.cluster.graph_file import GRAPH_FORMATS, GraphFile, to_networkx
from ettrick.sim.cluster.spec import FABRICS, ClusterSpec, HostPool
from ettrick.sim.cluster.switches import FABRIC_PARTS, Edges, UnitMembers
from ettrick.sim.cluster.topology import Hosts, Topology, edges
