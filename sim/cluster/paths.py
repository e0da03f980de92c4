"""Whom a failure of any part of the fabric cuts off, and what bandwidth it leaves the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.cluster.switches import (
    CABLES,
    FABRIC_PARTS,
    CsrRows,
    Flow,
    Reach,
    ReadOnly,
    UnitMembers,
    offsets_of,
    ranges,
    rows,
    switches,
    units_of,
    whole_units,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.cluster.switches import Edges, Span, Switches

# The access cables of the hosts, sorted by who can stand in for whom.
#
# A *line* of a host is a set of access cables that stand in for one another: those of one rail, or all of them where
# the traffic of a rail without a path goes to the others. A host is cut off when one of its lines has no path, and is
# as fast as its slowest line.

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Lines(ReadOnly):
    """Lines of each class of nodes: a *class* are nodes with the same leaf switches on every rail.

    In its methods ``cut`` says of each leaf switch whether it is cut off, and ``lost`` what share of its bandwidth it
    has lost [-], (leaves + 1,) each: the last entry stands for no switch, and is true. ``kind`` is a class, and
    ``dead`` are the places of dead cables.

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
    members: UnitMembers
    leaf: NDArray[np.int64]
    weight: NDArray[np.float64]
    node: NDArray[np.int64]
    place: NDArray[np.int64]
    of_endpoint: CsrRows
    reaching: CsrRows

    def row(self, kind: int) -> list[int]:
        """Return the nodes of a class, ascending."""
        offsets, nodes = self.members
        answer: list[int] = nodes[offsets[kind] : offsets[kind + 1]].tolist()
        return answer

    def cut_classes(self, cut: NDArray[np.bool_], classes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some classes have a line without a path when leaf switches are cut off, (n,)."""
        pathless = np.logical_and.reduce(cut[self.leaf[:, :, classes]], axis=0)
        answer: NDArray[np.bool_] = np.logical_or.reduce(pathless, axis=0)
        return answer

    def shares(self, lost: NDArray[np.float64], kinds: Span = _ALL) -> NDArray[np.float64]:
        """Return the share of bandwidth that is left to some classes, (n,) [-]."""
        losses = self.weight[:, :, kinds] * lost.take(self.leaf[:, :, kinds])
        # Slot by slot, as `share` does it, so that both round alike.
        by_line = np.add.accumulate(losses, axis=0)[-1] if len(losses) > 1 else losses[0]
        answer: NDArray[np.float64] = 1.0 - np.maximum.reduce(by_line, axis=0)
        return answer

    def share(self, kind: int, dead: Collection[int], lost: NDArray[np.float64]) -> float:
        """Return the share of bandwidth that is left to a node of a class some of whose cables are dead [-]."""
        leaves, weights = self._cables_of_class[kind]
        lines = self.leaf.shape[1]
        losses = [0.0] * lines
        for place, leaf in enumerate(leaves):
            losses[place % lines] += weights[place] if place in dead else weights[place] * lost.item(leaf)
        return 1.0 - max(losses)

    @cached_property
    def _cables_of_class(self) -> list[tuple[list[int], list[float]]]:
        """Leaf switches and weights of each class, by the place of the cable."""
        leaves: list[list[int]] = self.leaf.reshape(-1, self.leaf.shape[2]).T.tolist()
        weights: list[list[float]] = self.weight.reshape(-1, self.weight.shape[2]).T.tolist()
        return list(zip(leaves, weights, strict=True))

    def is_cut(self, kind: int, dead: Collection[int], cut: NDArray[np.bool_]) -> bool:
        """Return whether a line of a node of a class has no path, some of whose access cables are dead."""
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


def lines(cables: Edges, counts: Mapping[str, int], rails: int, *, reroute: bool) -> Lines:
    """Sort the access cables of a topology."""
    access = int(np.searchsorted(cables.tier, 1))
    leaves, nodes = counts["leaf"], counts["node"]
    node = cables.lower[:access].astype(np.int64)
    endpoint = node * rails + cables.rail[:access]
    leaf = cables.upper[:access].astype(np.int64) - nodes
    units = whole_units(cables.bandwidth)[:access]
    of_endpoint = rows(endpoint, nodes * rails)
    assert (np.diff(of_endpoint.offsets) > 0).all(), "every NIC has a cable"
    weight = units / np.bincount(endpoint, units)[endpoint]
    number, line = rails, endpoint
    if reroute:
        number, line, weight = 1, node, weight / rails

    slot = _slots(line, np.lexsort((units, leaf, endpoint)), nodes * number)
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
    return Lines(
        leaves=leaves,
        rails=rails,
        class_of_node=class_of_node,
        members=UnitMembers(members.offsets, members.items.astype(np.int32)),
        leaf=by_class,
        weight=np.ascontiguousarray(shares[example].T).reshape(shape),
        node=node,
        place=place,
        of_endpoint=of_endpoint,
        reaching=_reaching(by_class, leaves),
    )


def _slots(line: NDArray[np.int64], order: NDArray[np.int64], lines: int) -> NDArray[np.int64]:
    """Return the position of each cable among those of its line, in an order of all cables."""
    slots = np.empty(line.size, dtype=np.int64)
    slots[order] = np.arange(line.size) - rows(line, lines).offsets[line[order]]
    return slots


def _reaching(by_class: NDArray[np.int64], leaves: int) -> CsrRows:
    """Return the classes whose cables go to each leaf switch."""
    classes = by_class.shape[-1]
    ends, kind = np.divmod(np.unique(by_class * classes + np.arange(classes)), classes)
    return CsrRows(rows(ends, leaves + 1).offsets, kind)


def _classes(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first of each group of equal lines of a table, and the group of each line."""
    whole = np.ascontiguousarray(table).view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, example, group = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(example)
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return example[order], rank[group]


SWITCH_PARTS = ("leaf", "spine", "core")
"""Part classes of the fabric that are vertices; the units of the others are one or more cables."""


@dataclass(frozen=True, eq=False)
class Paths(ReadOnly):
    """Lines of the hosts and the switches above them; read-only, shared by all replications.

    All cables are numbered as the edges are: access cables first.

    Attributes
    ----------
    lines : Lines
        Access cables.
    switches : Switches
        The network above them.
    pod_of_class : (classes,) int32
        Pod of each class of nodes [-].
    optical : (cables,) int64
        Cables that have transceivers [-].
    """

    lines: Lines
    switches: Switches
    pod_of_class: NDArray[np.int32]
    optical: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Number of classes: nodes with the same leaf switches on every rail [-]."""
        return self.pod_of_class.size

    @property
    def class_of_node(self) -> NDArray[np.int32]:
        """Class of each node, (nodes,) [-]."""
        return self.lines.class_of_node

    @property
    def access(self) -> int:
        """Number of access cables [-]."""
        return self.lines.node.size

    def reach(self, here: NDArray[np.bool_]) -> Reach:
        """Return how far traffic between nodes of some classes goes, (classes,)."""
        return Reach.between(here, self.pod_of_class)

    @cached_property
    def farthest(self) -> Reach:
        """The locality of traffic of the whole cluster."""
        return self.reach(np.ones(self.classes, dtype=np.bool_))

    def units(self, part: str) -> range:
        """Return the switches of a part class, or its cables; NICs and transceivers are counted from 0."""
        if part == "nic":
            return range(self.lines.of_endpoint.offsets.size - 1)
        if part == "transceiver":
            return range(2 * self.optical.size)
        if part == "cable_node_leaf":
            return range(self.access)
        units = units_of(self.switches, part)
        return units if part in SWITCH_PARTS else range(self.access + units.start, self.access + units.stop)

    def cables(self, part: str, unit: int) -> list[int]:
        """Return the cables that die with a unit that is no switch."""
        if part == "nic":
            cables: list[int] = self.lines.of_endpoint.row(unit).tolist()
            return cables
        return [int(self.optical[unit // 2]) if part == "transceiver" else self._first[part] + unit]

    def switch(self, part: str, unit: int) -> int:
        """Return the number of a switch among all switches."""
        return self._first[part] + unit

    @cached_property
    def spans(self) -> list[Span]:
        """Classes with a cable to each block."""
        switches, lines = self.switches, self.lines
        block = np.append(switches.block[: switches.leaves], switches.blocks)[lines.leaf].ravel()
        pairs = np.unique(block * self.classes + np.tile(np.arange(self.classes), block.size // self.classes))
        block, kind = np.divmod(pairs, self.classes)
        return CsrRows(offsets_of(np.bincount(block, minlength=switches.blocks + 1)), kind).spans()

    @cached_property
    def _first(self) -> dict[str, int]:
        """Number of the first unit of each part class of switches or cables."""
        return {part: self.units(part).start for part in (*SWITCH_PARTS, *CABLES)}

    def cut(self, part: str) -> UnitMembers:
        """Return the nodes that one failure of each unit of a part class, alone, cuts off.

        Parameters
        ----------
        part : str
            One of ``FABRIC_PARTS``.

        Returns
        -------
        Members
            One row per unit, nodes ascending within a row.
        """
        assert part in FABRIC_PARTS, part
        if part == "transceiver":
            return _members_of_transceivers([self.cut(name) for name in CABLES], self.optical)
        if part in ("nic", "cable_node_leaf"):
            unit = np.flatnonzero(self._ends_line(part))
            node = unit // self.lines.rails if part == "nic" else self.lines.node[unit]
        else:
            unit, kind = self._units_that_cut(part)
            offsets, nodes = self.lines.members
            sizes = np.diff(offsets)[kind]
            node = nodes[ranges(offsets[kind], sizes)].astype(np.int64)
            unit = np.repeat(unit, sizes)
        order = np.lexsort((node, unit))
        return UnitMembers(offsets_of(np.bincount(unit, minlength=len(self.units(part)))), node[order].astype(np.int32))

    def left(self, part: str) -> NDArray[np.float64]:
        """Return the smallest share of bandwidth that one failure of each unit, alone, leaves to a node not cut off.

        For traffic that goes as far as the cluster goes, all nodes sending at once; 1 where no node is slower.

        Parameters
        ----------
        part : str
            One of ``FABRIC_PARTS``.

        Returns
        -------
        (units,) float64
            From 0 to 1 [-].
        """
        assert part in FABRIC_PARTS, part
        if part == "transceiver":
            return np.repeat(np.concatenate([self.left(name) for name in CABLES])[self.optical], 2)
        if part in ("nic", "cable_node_leaf"):
            weight = self.lines.weights()
            if part == "nic":
                weight = np.add.reduceat(weight[self.lines.of_endpoint.items], self.lines.of_endpoint.offsets[:-1])
            return np.where(self._ends_line(part), 1.0, 1.0 - weight)
        if part not in SWITCH_PARTS:
            return self._left_by_cables(part)
        flow, critical = Flow(self.switches), set(self.switches.critical(part))
        every = range(len(self.units(part)))
        return np.array([self._left_by(flow, part, unit, unit in critical) for unit in every], dtype=np.float64)

    def _ends_line(self, part: str) -> NDArray[np.bool_]:
        """Return which units of NICs or access cables are all that their line has, (units,)."""
        cables = self.lines.cables_of_line()
        unit_cables = np.ones_like(cables)
        if part == "nic":
            offsets, items = self.lines.of_endpoint
            cables, unit_cables = cables[items[offsets[:-1]]], np.diff(offsets)
        return np.equal(cables, unit_cables)

    def _units_that_cut(self, part: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (unit, class) wherever one failure of a unit cuts off a class."""
        pairs = [np.empty((2, 0), dtype=np.int64)]
        if part == "leaf":
            pairs.append(np.stack(self.lines.only_leaf()))
        flow = Flow(self.switches)
        for unit in self.switches.critical(part):
            self._turn(flow, part, unit, dead=True)
            cut = self.switches.cut_off(flow.capacity)
            self._turn(flow, part, unit, dead=False)
            classes = np.flatnonzero(self.lines.cut_classes(cut, np.arange(self.classes)))
            pairs.append(np.stack((np.full(classes.size, unit), classes)))
        unit, kind = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return unit, kind

    def _turn(self, flow: Flow, part: str, unit: int, *, dead: bool) -> None:
        """Take a switch or a cable between switches out, or put it back."""
        turn = flow.turn_switch if part in SWITCH_PARTS else flow.turn_cable
        turn(units_of(self.switches, part)[unit], dead=dead)

    def _left_by(self, flow: Flow, part: str, unit: int, critical: bool) -> float:
        """Return what one unit leaves; `flow` is that of the healthy switches, before and after."""
        leaves = self.switches.leaves
        self._turn(flow, part, unit, dead=True)
        cut = np.append(flow.capacity.alive[:leaves] == 0, True)
        if critical:
            cut = self.switches.cut_off(flow.capacity)
            flow.recount(cut)
        shares = self.lines.shares(np.append(flow.lost(slice(0, leaves), cut, self.farthest), 1.0))
        self._turn(flow, part, unit, dead=False)
        if critical:
            flow.recount(np.zeros_like(cut))
        return float(shares.min(initial=1.0, where=~self.lines.cut_classes(cut, np.arange(self.classes))))

    def _left_by_cables(self, part: str) -> NDArray[np.float64]:
        """Return what each cable between switches leaves, (units,) [-].

        Cables of one speed do the same if their spines pass alike and their lower ends are the same leaf switch, or
        spines of the same block. So one of each kind is evaluated.
        """
        network = self.switches
        units, critical = units_of(network, part), set(network.critical(part))
        here = slice(units.start, units.stop)
        healthy, leaf_or_block, spine = network.healthy, network.lower[here].astype(np.int64), network.upper[here]
        if part == "cable_spine_core":
            leaf_or_block, spine = network.block[network.lower[here]], network.lower[here]
        columns = (leaf_or_block, healthy.up[spine], healthy.down[spine], healthy.living[here])
        cache: dict[tuple[float, ...], float] = {}
        flow, left = Flow(network), np.empty(len(units))
        for unit, alike in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            if unit in critical:
                left[unit] = self._left_by(flow, part, unit, True)
                continue
            if alike not in cache:
                cache[alike] = self._left_by(flow, part, unit, False)
            left[unit] = cache[alike]
        return left


def paths(
    cables: Edges,
    counts: Mapping[str, int],
    pods: NDArray[np.int32],
    *,
    rails: int,
    reroute: bool,
    optical: Sequence[int],
    disjoint_paths: int,
) -> Paths:
    """Work out the paths of a topology (`Topology`) from its cables and the pod of each node, (nodes,) [-]."""
    hosts = lines(cables, counts, rails, reroute=reroute)
    example = hosts.members.nodes[hosts.members.offsets[:-1]]
    is_optical = np.zeros(4, dtype=np.bool_)
    is_optical[list(optical)] = True
    return Paths(
        lines=hosts,
        switches=switches(cables, counts, disjoint_paths),
        pod_of_class=pods[example],
        optical=np.flatnonzero(is_optical[cables.tier]),
    )


def _members_of_transceivers(cables: list[UnitMembers], optical: NDArray[np.int64]) -> UnitMembers:
    """Return the rows of optical cables, twice each, from the rows of the cables of every tier."""
    sizes = np.concatenate([np.diff(members.offsets) for members in cables])
    nodes = np.concatenate([members.nodes for members in cables])
    chosen = np.repeat(optical, 2)
    return UnitMembers(offsets_of(sizes[chosen]), nodes[ranges(offsets_of(sizes)[chosen], sizes[chosen])])
