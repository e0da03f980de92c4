"""The network of switches alone: which leaf switches hang together, and how much each lets through."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.topology.capacity import Capacity, whole_units
from sim.topology.rows import ReadOnly, Rows, rows, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.topology.model import Edges, Topology
    from sim.topology.rows import Span

__all__ = ["Reach", "Switches", "components", "switches", "units_of"]


class Reach(IntEnum):
    """How far traffic goes: to hosts behind the same leaf switches, within its pod, or through the cluster."""

    LEAF = 0
    POD = 1
    CLUSTER = 2

    @property
    def level(self) -> str:
        """Its name where bandwidths are given by it: leaf, pod or cluster."""
        return self.name.lower()

    @classmethod
    def between(cls, here: NDArray[np.bool_], pod_of_class: NDArray[np.int32]) -> Reach:
        """Return how far traffic between nodes of some classes goes, of which each is in a pod, (classes,) each."""
        first, last = int(here.argmax()), here.size - 1 - int(here[::-1].argmax())
        if first >= last or not here[first]:
            return cls.LEAF
        apart = pod_of_class[first] != pod_of_class[last] or bool((pod_of_class[here] != pod_of_class[first]).any())
        return cls.CLUSTER if apart else cls.POD


@dataclass(frozen=True, eq=False)
class Switches(ReadOnly):
    """Leaf switches, spines and cores, numbered in this order, and the cables between them.

    A *plane* hangs together without the hosts. A *block* hangs together without the cores too: the part of a pod that
    lies in one plane.

    Attributes
    ----------
    leaves, spines, cores, blocks : int
        Numbers of switches and blocks [-].
    disjoint_paths : int
        As long as fewer spines, cores and cables are out, no living leaf switch is cut off [-].
    leaf_cables : int
        Cables between leaf switches and spines; they come first [-].
    lower, upper : (cables,) int32
        Switches at the ends of each cable [-].
    healthy : Capacity
        What there is when nothing is out.
    access : (leaves,) int64
        Access cables of each leaf switch [-].
    plane : (switches,) int32
        Plane of each switch [-].
    block : (leaves + spines,) int64
        Block of each leaf switch and spine [-].
    tiers : Rows
        Leaf switches of each block, then spines of each block.
    ceiling : (leaves,) float64
        What each leaf switch passes up when nothing is out, never 0.
    pod_share : (blocks,) float64
        What each block passes to the cores of what its leaf switches offer, when nothing is out, never 0 [-].
    lonely : (leaves,) float64
        1 for the only leaf switch of its plane, from which nothing goes up [-].
    level : (blocks,) float64
        1 for a block from which nothing goes to cores [-].
    up_cables, down_cables : Rows
        Cables of each switch to upper ones, and to lower ones.
    """

    leaves: int
    spines: int
    cores: int
    blocks: int
    disjoint_paths: int
    leaf_cables: int
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    healthy: Capacity
    access: NDArray[np.int64]
    plane: NDArray[np.int32]
    block: NDArray[np.int64]
    tiers: Rows
    ceiling: NDArray[np.float64]
    pod_share: NDArray[np.float64]
    lonely: NDArray[np.float64]
    level: NDArray[np.float64]
    up_cables: Rows
    down_cables: Rows

    def capacity(self) -> Capacity:
        """Return what there is when nothing is out, in arrays of one's own."""
        return Capacity(*(array.copy() for array in self.healthy))

    @cached_property
    def spans(self) -> list[Span]:
        """Leaf switches of each block, then spines of each block."""
        return self.tiers.spans()

    def turn_switch(self, capacity: Capacity, switch: int, *, dead: bool) -> NDArray[np.int32]:
        """Take a switch out of `capacity`, or put it back; return those at the other ends, once for each cable."""
        capacity.alive[switch] = not dead
        if switch < self.leaves:
            cables = self.up_cables.row(switch)
            sums, ends = capacity.down, self.upper[cables]
        else:
            cables = self.down_cables.row(switch)
            sums, ends = capacity.up, self.lower[cables]
        (np.subtract if dead else np.add).at(sums, ends, capacity.living[cables])
        return ends

    def turn_cable(self, capacity: Capacity, cable: int, *, dead: bool) -> None:
        """Take a cable between switches out of `capacity`, or put it back."""
        bandwidth = self.healthy.living[cable]
        capacity.living[cable] = 0.0 if dead else bandwidth
        change = -bandwidth if dead else bandwidth
        lower, upper = self.lower[cable], self.upper[cable]
        capacity.up[lower] += change * capacity.alive[upper]
        if cable < self.leaf_cables:
            capacity.down[upper] += change * capacity.alive[lower]

    def cut_off(self, capacity: Capacity) -> NDArray[np.bool_]:
        """Return which leaf switches are dead or outside the main surviving component of their plane.

        Main is the component with most access cables of living leaf switches, the one with the lowest switch of these.

        Returns
        -------
        (leaves + 1,) bool
            The last entry stands for no switch at all, and is true.
        """
        alive = capacity.alive > 0
        kept = (capacity.living > 0) & alive[self.lower] & alive[self.upper]
        label = components(self.lower[kept], self.upper[kept], alive.size)
        _, first = np.unique(label, return_index=True)
        size = np.bincount(label[: self.leaves], self.access * alive[: self.leaves], minlength=first.size)
        order = np.lexsort((first, -size, self.plane[first]))
        _, best = np.unique(self.plane[first][order], return_index=True)
        main = order[best]
        cut = np.ones(self.leaves + 1, dtype=np.bool_)
        cut[:-1] = ~alive[: self.leaves] | (label[: self.leaves] != main[self.plane[: self.leaves]])
        return cut

    def passed(self, capacity: Capacity, cut: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return what each leaf switch and spine passes up: the smaller of what comes and what goes, (switches,).

        Leaf switches that are cut off send nothing.
        """
        down, low = capacity.down, slice(self.leaf_cables)
        isolated = cut[:-1]
        if np.count_nonzero(isolated):
            isolated = isolated & (capacity.alive[: self.leaves] > 0)
        if np.count_nonzero(isolated):
            down = down - sums(self.upper[low], isolated[self.lower[low]] * capacity.living[low], down.size)
            down[: self.leaves][isolated] = 0.0
        passed = np.minimum(capacity.up, down)
        passed *= capacity.alive
        return passed

    def pod_shares(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much of its healthy traffic beyond the pod each leaf switch may send at most, (blocks,) [-].

        What the spines pass is shared by the leaf switches that still send, by what they send when nothing is out;
        where the spines pass all that is offered, there is no limit. `sums` are, by block, what the leaf switches
        offer, what the spines pass, and what those that send would offer if nothing were out.
        """
        offered, by_spines, whole = sums
        limit = np.full(offered.size, np.inf)
        np.divide(by_spines, whole, out=limit, where=offered > by_spines)
        return np.maximum(limit / self.pod_share, self.level)

    def wanted(self, passed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the leaf switches of each block that send would offer if nothing were out, (blocks,)."""
        return sums(self.block[: self.leaves], self.ceiling * (passed[: self.leaves] > 0), self.blocks)

    def tier_sums(self, passed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the leaf switches and the spines of each block pass, (2, blocks)."""
        return self.tiers.sums(passed).reshape(2, self.blocks)

    def critical(self, part: str) -> list[int]:
        """Return units of leaf, spine, core or a class of cables of which one failure may cut off other leaf switches.

        Cut vertices and bridges of the graph; none are looked for where enough disjoint paths are known of.
        """
        if self.disjoint_paths >= (1 if part == "leaf" else 2):
            return []
        import networkx as nx

        graph: nx.Graph[int] = nx.Graph()
        graph.add_edges_from(zip(self.lower.tolist(), self.upper.tolist(), strict=True))
        units = units_of(self, part)
        if part in ("leaf", "spine", "core"):
            return sorted(switch - units.start for switch in nx.articulation_points(graph) if switch in units)
        found: Any = nx.bridges(graph)
        bridges = {frozenset(bridge) for bridge in found}
        ends = [frozenset((int(self.lower[cable]), int(self.upper[cable]))) for cable in units]
        cables = Counter(ends)
        return [unit for unit, pair in enumerate(ends) if pair in bridges and cables[pair] == 1]


def units_of(network: Switches, part: str) -> range:
    """Return the switches, or the cables between switches, of a part class."""
    leaves, spines = network.leaves, network.spines
    return {
        "leaf": range(leaves),
        "spine": range(leaves, leaves + spines),
        "core": range(leaves + spines, leaves + spines + network.cores),
        "cable_leaf_spine": range(network.leaf_cables),
        "cable_spine_core": range(network.leaf_cables, network.lower.size),
    }[part]


def switches(topology: Topology, cables: Edges) -> Switches:
    """Take the switches out of the cables of a topology."""
    first = topology.vertices("leaf").start
    leaves, spines, cores = (len(topology.vertices(part)) for part in ("leaf", "spine", "core"))
    number = leaves + spines + cores
    units = whole_units(cables.bandwidth)
    access = int(np.searchsorted(cables.tier, 1))
    leaf_cables = int(np.searchsorted(cables.tier, 2)) - access
    behind = cables.upper[:access] - first
    lower, upper, living = cables.lower[access:] - first, cables.upper[access:] - first, units[access:]

    low = slice(leaf_cables)
    healthy = Capacity(
        alive=np.ones(number),
        living=living,
        up=sums(lower, living, number),
        down=sums(upper[low], living[low], number),
    )
    healthy.down[:leaves] = sums(behind, units[:access], leaves)
    plane = components(lower, upper, number)
    block = components(lower[low], upper[low], leaves + spines).astype(np.int64)
    blocks = int(block.max()) + 1
    alone = np.bincount(plane[:leaves], minlength=number)[plane[:leaves]] == 1
    passed = np.minimum(healthy.up, healthy.down)
    tiers = rows(np.where(np.arange(block.size) < leaves, block, block + blocks), 2 * blocks)
    offered, by_spines = tiers.sums(passed).reshape(2, blocks)
    level = np.minimum(offered, by_spines) == 0
    level[block[:leaves][alone]] = True
    return Switches(
        leaves=leaves,
        spines=spines,
        cores=cores,
        blocks=blocks,
        disjoint_paths=topology.disjoint_paths,
        leaf_cables=leaf_cables,
        lower=lower,
        upper=upper,
        healthy=healthy,
        access=np.bincount(behind, minlength=leaves),
        plane=plane,
        block=block,
        tiers=tiers,
        ceiling=np.where(passed > 0, passed, 1.0)[:leaves],
        pod_share=np.where(level, 1.0, _part(by_spines, offered)),
        lonely=(alone | (passed[:leaves] == 0)).astype(np.float64),
        level=level.astype(np.float64),
        up_cables=rows(lower, number),
        down_cables=rows(upper, number),
    )


def _part(passed: NDArray[np.float64], offered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what part of what is offered is passed: 1 at most, and where nothing is offered [-]."""
    return np.divide(passed, offered, out=np.ones(offered.size), where=offered > passed)


def components(lower: NDArray[np.int32], upper: NDArray[np.int32], number: int) -> NDArray[np.int32]:
    """Return the connected component of each of `number` vertices, from the two ends of each cable."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(lower.size, dtype=np.int32), (lower, upper)), shape=(number, number))
    label: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return label
