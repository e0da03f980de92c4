"""Fabric imported from a file: a tiered network of any shape, as GraphML or node-link JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from sim.fields import RuleError
from sim.topology.fabric import FabricKind, Hosts
from sim.topology.model import VERTEX_PARTS, Edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.topology.network import Network

__all__ = ["GraphFile"]

CABLES = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")


class GraphFile(FabricKind):
    """Tiered network described by a file.

    Vertices have a ``part``: ``node`` for hosts, ``leaf``, ``spine`` or ``core``; switches that do not say it have
    their distance from the hosts. Optional: ``index`` (number within the part, else the order of the file) and, for
    hosts, ``pod``. Edges may have ``bandwidth`` per direction (a number [B/s] or text with a unit; else that of a NIC,
    which the access cables of a NIC share), ``cables`` (how many parallel ones share that bandwidth; else 1) and, at
    hosts, ``rail``. Other domains of a host, such as its rack, are not taken from the file. The two directions of a
    directed graph are one cable.
    """

    use: Literal["graph-file"] = "graph-file"
    file: str = Field(min_length=1, description="GraphML (.graphml, .xml) or node-link JSON (.json).")

    @property
    def homes(self) -> int:
        """Access cables of each NIC [-]."""
        return self._network().homes

    def check(self, hosts: Hosts) -> None:
        """Refuse a file that is not a tiered network of these hosts.

        Raises
        ------
        RuleError
            In one line that names the file and the vertex or edge.
        """
        if max(hosts.gpus, self.rails) % min(hosts.gpus, self.rails):
            msg = f"{hosts.gpus} GPUs per node do not divide evenly over {self.rails} rails"
            raise RuleError(("rails",), msg)
        nodes = self._network().sizes[0]
        if nodes != hosts.nodes:
            from sim.topology.formats import refuse

            refuse(self.file, f"has {nodes} hosts, but the cluster has nodes = {hosts.nodes}")

    def counts(self, hosts: Hosts) -> dict[str, int]:
        """Count the parts that the file describes [-]."""
        network = self._network()
        cables = np.bincount(network.edges.tier, minlength=3).tolist()
        return {
            "nic": network.sizes[0] * network.rails,
            **dict(zip(VERTEX_PARTS[1:], network.sizes[1:], strict=True)),
            "pod": int(network.pod.max()) + 1,
            **dict(zip(CABLES, cables, strict=True)),
        }

    def domains(self, hosts: Hosts) -> dict[str, NDArray[np.int32]]:
        """Return the hosts behind the same leaf switches, and the pod of each, (nodes,) each."""
        network = self._network()
        return {"leaf": network.leaf, "pod": network.pod}

    def bandwidth(self, hosts: Hosts) -> dict[str, float]:
        """Return what the NIC that fares worst gets when all send at once [B/s].

        A leaf switch passes the smaller of its bandwidths down and up, and a block of leaves and spines the smaller of
        what its leaves and what its spines pass. Where nothing lies beyond a tier, it slows nobody.
        """
        network = self._network()
        edges, vertices = network.edges, network.plane.size
        access = edges.tier == 0
        down, up = _bandwidth(network, 0, edges.upper), _bandwidth(network, 1, edges.lower)
        leaf = np.ones(vertices)
        if network.leaf.any():
            alone = np.bincount(network.plane)[network.plane] == 1
            np.divide(np.minimum(down, up), down, out=leaf, where=(down > 0) & ~alone)
        block = np.ones(vertices)
        if network.pod.any():
            leaves = np.bincount(network.block, weights=np.minimum(down, up))
            below, above = _bandwidth(network, 1, edges.upper), _bandwidth(network, 2, edges.lower)
            spines = np.bincount(network.block, weights=np.minimum(below, above))
            ratio = np.ones(leaves.size)
            np.divide(np.minimum(leaves, spines), leaves, out=ratio, where=leaves > 0)
            block = ratio[network.block]
        switch = edges.upper[access]
        endpoint = edges.lower[access] * network.rails + edges.rail[access]
        shares = {"leaf": np.ones(vertices), "pod": leaf, "cluster": leaf * block}
        return {
            level: float(np.bincount(endpoint, weights=edges.bandwidth[access] * share[switch]).min())
            for level, share in shares.items()
        }

    def disjoint_paths(self, hosts: Hosts) -> int:
        """Return 0: nothing is known of a network of any shape, every outage is looked at by itself."""
        return 0

    def edges(self, hosts: Hosts) -> Edges:
        """Return the cables."""
        return self._network().edges

    def _network(self) -> Network:
        """Return what the file describes, read once as long as it does not change."""
        from sim.topology.formats import unreadable
        from sim.topology.network import read_network

        try:
            found = Path(self.file).stat()
        except (OSError, ValueError) as error:
            unreadable(self.file, error)
        return read_network(self.file, (found.st_mtime_ns, found.st_size), self.rails, self.nic)


def _bandwidth(network: Network, tier: int, ends: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the bandwidth that each vertex has in cables of a tier, by their lower or their upper ends [B/s]."""
    here = network.edges.tier == tier
    total = np.bincount(ends[here], weights=network.edges.bandwidth[here], minlength=network.plane.size)
    return np.asarray(total, dtype=np.float64)
