"""Where in the network jobs sit: which leaf groups, pods and pools their nodes are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.topology.switches import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sim.topology.paths import Paths

__all__ = ["Footprint", "Network"]


class Network(NamedTuple):
    """What the engine knows of the fabric.

    Attributes
    ----------
    class_of_node : sequence of int
        Leaf group of each node.
    pod_of_class : (classes,) int32
        Pod of each leaf group.
    pool_of_node : sequence of int
        Which pool of hosts each node is of.
    bandwidth : mapping of str to float
        What a healthy NIC gets, by how far the traffic goes: leaf, pod, cluster [B/s].
    paths : Paths or None
        The cables; ``None`` when nothing of the fabric fails.
    """

    class_of_node: Sequence[int]
    pod_of_class: NDArray[np.int32]
    pool_of_node: Sequence[int]
    bandwidth: Mapping[str, float]
    paths: Paths | None = None


class Footprint:
    """How many nodes of a job are in each leaf group and in each pool."""

    __slots__ = ("_reach", "network", "pools", "presence")

    def __init__(self, network: Network) -> None:
        self.network = network
        self.presence = np.zeros(len(network.pod_of_class), dtype=np.int64)
        """Nodes in each leaf group [-]."""
        self.pools = [0] * (max(network.pool_of_node) + 1)
        """Nodes of each pool [-]."""
        self._reach: Reach | None = None

    def add(self, node: int) -> None:
        """Let a node join."""
        group = self.network.class_of_node[node]
        self.presence[group] += 1
        if self.presence[group] == 1:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] += 1

    def remove(self, node: int) -> None:
        """Let a node leave."""
        group = self.network.class_of_node[node]
        self.presence[group] -= 1
        if self.presence[group] == 0:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] -= 1

    def without(self, nodes: Iterable[int]) -> Footprint:
        """Return a copy in which nodes have left."""
        found = Footprint(self.network)
        found.presence = self.presence.copy()
        found.pools = self.pools.copy()
        for node in nodes:
            found.remove(node)
        return found

    @property
    def level(self) -> str:
        """How far the job's traffic goes: leaf, pod or cluster."""
        return self.reach.level

    @property
    def reach(self) -> Reach:
        """How far the job's traffic goes."""
        if self._reach is None:
            self._reach = Reach.between(self.presence > 0, self.network.pod_of_class)
        return self._reach
