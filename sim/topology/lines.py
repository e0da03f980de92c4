"""The access cables of the hosts, sorted by who can stand in for whom.

A *line* of a host is a set of access cables that stand in for one another: those of one rail, or all of them where the
traffic of a rail without a path goes to the others. A host is cut off when one of its lines has no path, and is as fast
as its slowest line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim.topology.capacity import whole_units
from sim.topology.model import Members
from sim.topology.rows import ReadOnly, Rows, rows

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from sim.topology.model import Edges, Topology
    from sim.topology.rows import Span

__all__ = ["Lines", "lines"]

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Lines(ReadOnly):
    """Lines of each class of nodes: a *class* are nodes with the same leaf switches on every rail.

    Attributes
    ----------
    leaves, rails : int
        Leaf switches, and rails of each node [-].
    class_of_node : (nodes,) int32
        Class of each node, in the order of their first nodes [-].
    members : Members
        Nodes of each class.
    leaf : (slots, lines, classes) int64
        Leaf switch of each access cable of a class, `leaves` where there is no cable [-].
    weight : (slots, lines, classes) float64
        Share of the line's bandwidth, 0 where there is no cable [-].
    node : (cables,) int64
        Node of each access cable [-].
    place : (cables,) int64
        Position of each access cable in its node's part of `leaf`: slot x lines + line [-].
    of_endpoint : Rows
        Access cables of each NIC (node x rails + rail).
    reaching : Rows
        Classes with a cable to each leaf switch.
    """

    leaves: int
    rails: int
    class_of_node: NDArray[np.int32]
    members: Members
    leaf: NDArray[np.int64]
    weight: NDArray[np.float64]
    node: NDArray[np.int64]
    place: NDArray[np.int64]
    of_endpoint: Rows
    reaching: Rows

    def row(self, kind: int) -> list[int]:
        """Return the nodes of a class, ascending."""
        offsets, nodes = self.members
        answer: list[int] = nodes[offsets[kind] : offsets[kind + 1]].tolist()
        return answer

    def cut_classes(self, cut: NDArray[np.bool_], classes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some classes have a line without a path when leaf switches are cut off.

        Parameters
        ----------
        cut : (leaves + 1,) bool
            Leaf switches that are cut off; the last entry is true.
        classes : (n,) int64
            The classes asked for.

        Returns
        -------
        (n,) bool
        """
        pathless = np.logical_and.reduce(cut[self.leaf[:, :, classes]], axis=0)
        answer: NDArray[np.bool_] = np.logical_or.reduce(pathless, axis=0)
        return answer

    def shares(self, lost: NDArray[np.float64], kinds: Span = _ALL) -> NDArray[np.float64]:
        """Return the share of bandwidth that is left to some classes, (n,) [-].

        Parameters
        ----------
        lost : (leaves + 1,) float64
            Share that each leaf switch has lost [-].
        kinds : slice or (n,) int64
            The classes asked for, all unless said otherwise.
        """
        taken = self.weight[:, :, kinds] * lost.take(self.leaf[:, :, kinds])
        # Slot by slot, as `share` does it, so that both round alike.
        by_line = np.add.accumulate(taken, axis=0)[-1] if len(taken) > 1 else taken[0]
        answer: NDArray[np.float64] = 1.0 - np.maximum.reduce(by_line, axis=0)
        return answer

    def share(self, kind: int, dead: Collection[int], lost: NDArray[np.float64]) -> float:
        """Return the share of bandwidth that is left to a node of a class some of whose cables are dead [-].

        Parameters
        ----------
        kind : int
            Its class [-].
        dead : collection of int
            Places of the dead cables [-].
        lost : (leaves + 1,) float64
            Share that each leaf switch has lost [-].
        """
        leaves, weights = self._cables_of_class[kind]
        lines = self.leaf.shape[1]
        taken = [0.0] * lines
        for place, leaf in enumerate(leaves):
            taken[place % lines] += weights[place] if place in dead else weights[place] * lost.item(leaf)
        return 1.0 - max(taken)

    @cached_property
    def _cables_of_class(self) -> list[tuple[list[int], list[float]]]:
        """Leaf switches and weights of each class, by the place of the cable."""
        leaves: list[list[int]] = self.leaf.reshape(-1, self.leaf.shape[2]).T.tolist()
        weights: list[list[float]] = self.weight.reshape(-1, self.weight.shape[2]).T.tolist()
        return list(zip(leaves, weights, strict=True))

    def is_cut(self, kind: int, dead: Collection[int], cut: NDArray[np.bool_]) -> bool:
        """Return whether a line of a node of a class has no path, some of whose access cables are dead.

        Parameters
        ----------
        kind : int
            Its class [-].
        dead : collection of int
            Places of the dead cables [-].
        cut : (leaves + 1,) bool
            Leaf switches that are cut off; the last entry is true.
        """
        lines = self.leaf.shape[1]
        pathless = [True] * lines
        for place, leaf in enumerate(self._cables_of_class[kind][0]):
            if place not in dead and not cut.item(leaf):
                pathless[place % lines] = False
        return True in pathless

    def weights(self) -> NDArray[np.float64]:
        """Return the share of its line's bandwidth that each access cable has, (cables,) [-]."""
        slot, line = np.divmod(self.place, self.leaf.shape[1])
        answer: NDArray[np.float64] = self.weight[slot, line, self.class_of_node[self.node]]
        return answer

    def cables_of_line(self) -> NDArray[np.int64]:
        """Return how many cables the line of each access cable has, (cables,) [-]."""
        line = self.place % self.leaf.shape[1]
        answer: NDArray[np.int64] = (self.leaf < self.leaves).sum(axis=0)[line, self.class_of_node[self.node]]
        return answer

    def only_leaf(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (leaf switch, class) wherever all cables of a line go to one leaf switch."""
        first = self.leaf[0]
        alone = ((self.leaf == first) | (self.leaf == self.leaves)).all(axis=0)
        return first[alone], np.nonzero(alone)[1]


def lines(topology: Topology, cables: Edges) -> Lines:
    """Sort the access cables of a topology."""
    access = int(np.searchsorted(cables.tier, 1))
    leaves, nodes, rails = topology.counts["leaf"], topology.nodes, topology.rails
    node = cables.lower[:access].astype(np.int64)
    endpoint = node * rails + cables.rail[:access]
    leaf = cables.upper[:access].astype(np.int64) - topology.vertices("leaf").start
    units = whole_units(cables.bandwidth)[:access]
    of_endpoint = rows(endpoint, nodes * rails)
    assert (np.diff(of_endpoint.offsets) > 0).all(), "every NIC has a cable"
    weight = units / np.bincount(endpoint, units)[endpoint]
    number, line = rails, endpoint
    if topology.reroute:
        number, line, weight = 1, node, weight / rails

    order = np.lexsort((units, leaf, endpoint))
    first = rows(line, nodes * number).offsets
    slot = np.empty(access, dtype=np.int64)
    slot[order] = np.arange(access) - first[line[order]]
    place = slot * number + line % number

    slots = int(slot.max()) + 1
    table = np.full((nodes, slots * number), leaves, dtype=np.int64)
    table[node, place] = leaf
    shares = np.zeros(table.shape)
    shares[node, place] = weight
    example, class_of_node = _classes(np.concatenate((table, shares.view(np.int64)), axis=1))
    members = rows(class_of_node, example.size)
    shape = (slots, number, example.size)
    by_class = np.ascontiguousarray(table[example].T).reshape(shape)
    ends, kind = np.divmod(np.unique(by_class * example.size + np.arange(example.size)), example.size)
    return Lines(
        leaves=leaves,
        rails=rails,
        class_of_node=class_of_node,
        members=Members(members.offsets, members.items.astype(np.int32)),
        leaf=by_class,
        weight=np.ascontiguousarray(shares[example].T).reshape(shape),
        node=node,
        place=place,
        of_endpoint=of_endpoint,
        reaching=Rows(rows(ends, leaves + 1).offsets, kind),
    )


def _classes(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first of each group of equal lines of a table, and the group of each line."""
    whole = np.ascontiguousarray(table).view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, example, group = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(example)
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return example[order], rank[group]
