"""Fabric imported from a file: a tiered network of any shape, as GraphML or node-link JSON."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from sim.fields import RuleError
from sim.topology.fabric import FabricKind, Hosts
from sim.topology.formats import refuse, unreadable
from sim.topology.model import VERTEX_PARTS, Edges
from sim.topology.network import Network, components, read_network

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

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

    def nodes_behind(self, part: str, hosts: Hosts) -> int:
        """Return how many nodes the one failed unit that hits hardest, alone, cuts off [-]."""
        reroute = self.reroute == "scale_up"
        if part != "transceiver":
            return _nodes_behind(self._network(), part, reroute)
        cables = CABLES[1:] if self.copper else CABLES
        return max(_nodes_behind(self._network(), cable, reroute) for cable in cables)

    def edges(self, hosts: Hosts) -> Edges:
        """Return the cables."""
        return self._network().edges

    def _network(self) -> Network:
        """Return what the file describes, read once as long as it does not change."""
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


@functools.lru_cache(maxsize=64)
def _nodes_behind(network: Network, part: str, reroute: bool) -> int:
    """Return the most nodes that one failed unit of a part cuts off [-].

    A single spine, core or cable between switches matters only where it alone holds a plane together.
    """
    keeps_on = reroute and network.rails > 1
    if part == "nic" or (part == "cable_node_leaf" and network.homes == 1):
        return 0 if keeps_on else 1
    if part == "cable_node_leaf":
        return 0
    vertices, cables = _weak_points(network)
    if part in CABLES:
        tier = CABLES.index(part)
        return max(
            (_cut(network, reroute, cable=cable) for cable in cables if network.edges.tier[cable] == tier), default=0
        )
    first = sum(network.sizes[: VERTEX_PARTS.index(part)])
    units = range(first, first + network.sizes[VERTEX_PARTS.index(part)])
    most = max((_cut(network, reroute, vertex=vertex) for vertex in vertices if vertex in units), default=0)
    return max(most, _behind_a_leaf(network, reroute)) if part == "leaf" else most


def _behind_a_leaf(network: Network, reroute: bool) -> int:
    """Return the most hosts that reach the rest through one leaf switch only, on a rail (with reroute: on all)."""
    access = network.edges.tier == 0
    switch = network.edges.upper[access].reshape(-1, network.rails, network.homes)
    if reroute:
        switch = switch.reshape(len(switch), 1, -1)
    host, rail = np.nonzero((switch == switch[:, :, :1]).all(axis=2))
    pairs = np.unique(np.stack((host, switch[host, rail, 0])), axis=1)
    return int(np.bincount(pairs[1]).max(initial=0))


@functools.lru_cache(maxsize=8)
def _weak_points(network: Network) -> tuple[list[int], list[int]]:
    """Return switches and cables without which a plane falls apart."""
    import networkx as nx

    above = np.flatnonzero(network.edges.tier > 0)
    ends = np.stack((network.edges.lower[above], network.edges.upper[above]), axis=1)
    pairs, first = np.unique(ends, axis=0, return_index=True)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_edges_from(pairs.tolist())
    found: Iterable[Any] = nx.bridges(graph)
    bridges = {(min(pair), max(pair)) for pair in found}
    columns = (pairs.tolist(), above[first].tolist())
    return list(nx.articulation_points(graph)), [
        cable for pair, cable in zip(*columns, strict=True) if tuple(pair) in bridges
    ]


def _cut(network: Network, reroute: bool, vertex: int = -1, cable: int = -1) -> int:
    """Return how many hosts lose a rail (with reroute: all rails) when one switch or one cable is out [-].

    A leaf switch is cut off if it is out, or not in the part of its plane that has most access cables.
    """
    edges, hosts = network.edges, network.sizes[0]
    kept = (edges.tier > 0) & (edges.lower != vertex) & (edges.upper != vertex)
    if cable >= 0:
        kept[cable] = False
    part = components(network.plane.size, edges.lower[kept], edges.upper[kept])
    access = edges.tier == 0
    alive = access & (edges.upper != vertex)
    weight = np.bincount(part[edges.upper[alive]], minlength=part.max() + 1)
    _, lowest = np.unique(part, return_index=True)
    order = np.lexsort((lowest, -weight, network.plane[lowest]))
    is_main = np.diff(network.plane[lowest][order], prepend=-1) != 0
    whole = np.zeros(weight.size, dtype=bool)
    whole[order[is_main]] = True
    has_path = whole[part[edges.upper[access]]] & (edges.upper[access] != vertex)
    rails = has_path.reshape(hosts, network.rails, network.homes).any(axis=2)
    return int(np.sum(~(rails.any(axis=1) if reroute else rails.all(axis=1))))
