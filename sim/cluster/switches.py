"""The network of switches alone: which leaf switches hang together, and how much each lets through."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

CABLES = ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")

FABRIC_PARTS = ("nic", "transceiver", *CABLES, "leaf", "spine", "core")
"""Part classes whose blast radius follows from the cables."""

VERTEX_PARTS = ("node", "leaf", "spine", "core")
"""Part classes that are vertices of the graph, in the order of their numbers. GPUs are not vertices."""

Span: TypeAlias = "slice | NDArray[np.int64]"
"""Positions in an array: a slice where they follow each other, because that is faster."""


class UnitMembers(NamedTuple):
    """The nodes that each unit of a part class takes with it, in compressed sparse rows.

    Unit ``i`` takes ``nodes[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    offsets : (units + 1,) int64
        First position of each unit [-].
    nodes : (offsets[-1],) int32
        Node numbers [-].
    """

    offsets: NDArray[np.int64]
    nodes: NDArray[np.int32]


class Edges(NamedTuple):
    """Cables, one entry each; parallel cables are separate entries.

    Attributes
    ----------
    lower, upper : (cables,) int32
        Vertex numbers of the two ends; `lower` is the one nearer to the hosts [-].
    tier : (cables,) int8
        0 node to leaf, 1 leaf to spine, 2 spine to core [-].
    rail : (cables,) int16
        Rail of the host's endpoint, -1 between switches [-].
    bandwidth : (cables,) float64
        Per direction [B/s].
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    tier: NDArray[np.int8]
    rail: NDArray[np.int16]
    bandwidth: NDArray[np.float64]


class CsrRows(NamedTuple):
    """Compressed sparse rows: row ``i`` holds ``items[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    offsets : (rows + 1,) int64
        First position of each row [-].
    items : (offsets[-1],) int64
        What the rows hold, ascending within a row [-].
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int64]

    def row(self, number: int) -> NDArray[np.int64]:
        """Return the nodes of a unit."""
        return self.items[self.offsets[number] : self.offsets[number + 1]]

    def spans(self) -> list[Span]:
        """Return each row as positions in another array."""
        spans: list[Span] = []
        for number in range(self.offsets.size - 1):
            row = self.row(number)
            consecutive = row.size > 0 and row[-1] - row[0] + 1 == row.size
            spans.append(slice(int(row[0]), int(row[-1]) + 1) if consecutive else row)
        return spans

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of each row's values, (rows,)."""
        starts, ends = self.offsets[:-1], self.offsets[1:]
        filled = starts < ends
        if np.count_nonzero(filled) == filled.size:
            whole: NDArray[np.float64] = np.add.reduceat(values.take(self.items), starts)
            return whole
        answer = np.zeros(starts.size)
        answer[filled] = np.add.reduceat(values.take(self.items), starts[filled])
        return answer


class ReadOnly:
    """Base of frozen dataclasses whose arrays are read-only, not even in a copy in another process."""

    def __post_init__(self) -> None:
        """Make the arrays read-only: replications share them."""
        for array in _arrays([getattr(self, name) for name in _names(self)]):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle through the constructor."""
        return type(self), tuple(getattr(self, name) for name in _names(self))


def rows(keys: NDArray[np.integer], count: int) -> CsrRows:
    """Return for each of `count` keys the positions that have it."""
    return CsrRows(offsets_of(np.bincount(keys, minlength=count)), np.argsort(keys, kind="stable"))


def numbers(span: Span) -> range | list[int]:
    """Return the positions one by one."""
    if isinstance(span, slice):
        return range(span.start, span.stop)
    positions: list[int] = span.tolist()
    return positions


def offsets_of(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where rows of these sizes begin, and where the last one ends, (rows + 1,) [-]."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its size says, one range after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return numbers


def sums(keys: NDArray[np.integer], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the sum of the values of each of `count` keys."""
    total: NDArray[np.float64] = np.bincount(keys, values, minlength=count).astype(np.float64, copy=False)
    return total


def _names(value: Any) -> list[str]:
    return [field.name for field in fields(value)]


def _arrays(values: Iterable[object]) -> list[NDArray[np.generic]]:
    """Return the arrays in a sequence and in the tuples that it holds."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return arrays + [array for value in values if isinstance(value, tuple) for array in _arrays(value)]


# What is left of the switches, in whole units of bandwidth, so that what failed and was mended leaves no trace.

_FASTEST = 2.0**30
"""Units in the fastest cable: eight million of these add up without rounding."""

ROUNDING = 1e-8
"""Losses up to this come from speeds that are no whole number of units, and are none [-]."""


class Capacity(NamedTuple):
    """The remaining capacity of the switches; the arrays belong to the caller.

    Attributes
    ----------
    alive : (switches,) float64
        1 for a living switch, 0 for a dead one [-].
    living : (cables,) float64
        Bandwidth of each cable between switches, 0 if it is dead.
    up, down : (switches,) float64
        Living cables of each switch to living upper ones, and to living lower ones. A leaf switch has its access cables
        below it, dead or alive.
    """

    alive: NDArray[np.float64]
    living: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]


def whole_units(bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bandwidths as whole multiples of a small part of the largest one [-]."""
    units: NDArray[np.float64] = np.rint(bandwidth / bandwidth.max() * _FASTEST)
    return units


# The network of switches.


class Reach(IntEnum):
    """The reach of traffic: to hosts behind the same leaf switches, within its pod, or through the cluster."""

    LEAF = 0
    POD = 1
    CLUSTER = 2

    @property
    def level(self) -> str:
        """The name where bandwidths are given by it: leaf, pod or cluster."""
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
    tiers: CsrRows
    ceiling: NDArray[np.float64]
    pod_share: NDArray[np.float64]
    lonely: NDArray[np.float64]
    level: NDArray[np.float64]
    up_cables: CsrRows
    down_cables: CsrRows

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
        surviving = (capacity.living > 0) & alive[self.lower] & alive[self.upper]
        label = components(self.lower[surviving], self.upper[surviving], alive.size)
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

        number, units = self.healthy.alive.size, units_of(self, part)
        codes = self.lower.astype(np.int64) * number + self.upper
        pairs, pair_of_cable, cables = np.unique(codes, return_inverse=True, return_counts=True)
        graph: nx.Graph[int] = nx.Graph(divmod(pair, number) for pair in pairs.tolist())
        if part in ("leaf", "spine", "core"):
            return sorted(switch - units.start for switch in nx.articulation_points(graph) if switch in units)
        bridges = np.sort(np.reshape(np.array(list(nx.bridges(graph)), dtype=np.int64), (-1, 2)), axis=1)
        is_critical = np.isin(pairs, bridges @ (number, 1)) & (cables == 1)
        critical: list[int] = np.flatnonzero(is_critical[pair_of_cable[units.start : units.stop]]).tolist()
        return critical


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


def switches(cables: Edges, counts: Mapping[str, int], disjoint_paths: int) -> Switches:
    """Take the switches out of the cables of a topology."""
    first, leaves, spines, cores = (counts[part] for part in VERTEX_PARTS)
    number, units = leaves + spines + cores, whole_units(cables.bandwidth)
    access = int(np.searchsorted(cables.tier, 1))
    leaf_cables = int(np.searchsorted(cables.tier, 2)) - access
    behind = cables.upper[:access] - first
    lower, upper, living = cables.lower[access:] - first, cables.upper[access:] - first, units[access:]
    low = slice(leaf_cables)
    down = sums(upper[low], living[low], number)
    down[:leaves] = sums(behind, units[:access], leaves)
    healthy = Capacity(alive=np.ones(number), living=living, up=sums(lower, living, number), down=down)
    plane = components(lower, upper, number)
    block = components(lower[low], upper[low], leaves + spines).astype(np.int64)
    blocks = int(block.max()) + 1
    alone = np.bincount(plane[:leaves], minlength=number)[plane[:leaves]] == 1
    passed = np.minimum(healthy.up, healthy.down)
    tiers = rows(np.where(np.arange(block.size) < leaves, block, block + blocks), 2 * blocks)
    level, pod_share = _through_spines(tiers.sums(passed).reshape(2, blocks), block[:leaves][alone])
    return Switches(
        leaves=leaves,
        spines=spines,
        cores=cores,
        blocks=blocks,
        disjoint_paths=disjoint_paths,
        leaf_cables=leaf_cables,
        lower=lower,
        upper=upper,
        healthy=healthy,
        access=np.bincount(behind, minlength=leaves),
        plane=plane,
        block=block,
        tiers=tiers,
        ceiling=np.where(passed > 0, passed, 1.0)[:leaves],
        pod_share=pod_share,
        lonely=(alone | (passed[:leaves] == 0)).astype(np.float64),
        level=level.astype(np.float64),
        up_cables=rows(lower, number),
        down_cables=rows(upper, number),
    )


def _through_spines(
    flows: NDArray[np.float64], alone: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which blocks nothing passes, and what part of what is offered the spines pass, 1 at most [-]."""
    offered, by_spines = flows
    level = np.minimum(offered, by_spines) == 0
    level[alone] = True
    part = np.divide(by_spines, offered, out=np.ones(offered.size), where=offered > by_spines)
    return level, np.where(level, 1.0, part)


def components(lower: NDArray[np.int32], upper: NDArray[np.int32], number: int) -> NDArray[np.int32]:
    """Return the connected component of each of `number` vertices, from the two ends of each cable."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(lower.size, dtype=np.int32), (lower, upper)), shape=(number, number))
    label: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return label


# How much the switches let through, kept up to date while parts fail and return.


class Touched(NamedTuple):
    """Leaf switches, and blocks of them, that may pass more or less than before [-].

    Of blocks in `beyond` only what leaves the pod has changed.
    """

    leaves: list[int]
    blocks: list[int]
    beyond: list[int]


class Flow:
    """The flow through the switches in one replication; all are whole at the beginning.

    All of it are sums of whole units, so it does not matter in which order parts failed.

    Attributes
    ----------
    capacity : Capacity
        What is left of the switches.
    passed : (switches,) float64
        What each leaf switch and spine passes up.
    ratio : (leaves,) float64
        What each leaf switch passes, relative to that when nothing is out [-].
    sums : (3, blocks) float64
        What the leaf switches and the spines of each block pass, and what the leaf switches that send would pass if
        nothing were out.
    pod_shares : (blocks,) float64
        How much of its healthy traffic beyond the pod each leaf switch of a block may send at most [-].
    """

    __slots__ = ("capacity", "network", "passed", "pod_shares", "ratio", "sums")

    def __init__(self, network: Switches) -> None:
        self.network = network
        self.capacity = network.capacity()
        self.recount(np.zeros(network.leaves + 1, dtype=np.bool_))

    def recount(self, cut: NDArray[np.bool_]) -> None:
        """Work everything out again for leaf switches that are cut off; the others take it that no living one is."""
        self.passed = self.network.passed(self.capacity, cut)
        self.ratio = self._ratios(slice(0, self.network.leaves))
        self.sums = np.vstack((self.network.tier_sums(self.passed), self.network.wanted(self.passed)))
        self.pod_shares = self.network.pod_shares(self.sums)

    def turn_cable(self, cable: int, *, dead: bool) -> Touched:
        """Take a cable between switches out, or put it back."""
        network = self.network
        network.turn_cable(self.capacity, cable, dead=dead)
        lower = network.lower.item(cable)
        block = network.block.item(lower)
        self._pass(lower, block)
        if cable < network.leaf_cables:
            self._pass(network.upper.item(cable), block)
        return Touched([lower] if lower < network.leaves else [], [], [block] if self._share(block) else [])

    def turn_switch(self, switch: int, *, dead: bool) -> Touched:
        """Take a switch out, or put it back."""
        network, capacity = self.network, self.capacity
        ends = network.turn_switch(capacity, switch, dead=dead)
        passed = np.minimum(capacity.up[ends], capacity.down[ends])
        passed *= capacity.alive[ends]
        self.passed[ends] = passed
        if switch >= network.leaves + network.spines:
            before = self.pod_shares
            first, end = network.leaves, network.leaves + network.spines
            self.sums[1] = sums(network.block[first:end], self.passed[first:end], network.blocks)
            self.pod_shares = network.pod_shares(self.sums)
            beyond: list[int] = np.flatnonzero(self.pod_shares != before).tolist()
            return Touched([], [], beyond)
        block = network.block.item(switch)
        self._pass(switch, block)
        for tier in (0, 1):
            self.sums[tier, block] = np.add.reduce(self.passed[network.spans[tier * network.blocks + block]])
        span = network.spans[block]
        self.sums[2, block] = np.add.reduce(network.ceiling[span] * (self.passed[span] > 0))
        self.ratio[span] = self._ratios(span)
        self._share(block)
        return Touched([], [block], [])

    def lost(self, leaves: Span, cut: NDArray[np.bool_], reach: Reach) -> NDArray[np.float64]:
        """Return what share of its bandwidth each of some leaf switches has lost, for traffic of some reach, (n,) [-].

        A leaf switch passes the smaller of what comes from its hosts and what goes up: its ratio is that to what it
        passes when nothing is out. Of what goes beyond the pod its spines may pass less than is offered; those that
        still send share that, and a leaf switch sends the smaller of its part and of what it passes. Those that are
        cut off (`cut`) lose all.
        """
        gone = cut[leaves]
        if reach == Reach.LEAF:
            return gone.astype(np.float64)
        ratio = self.ratio[leaves]
        if reach == Reach.CLUSTER:
            block = self.network.block[leaves]
            ratio = np.minimum(ratio / self.network.pod_share[block], self.pod_shares[block])
        lost: NDArray[np.float64] = 1.0 - ratio
        lost *= lost > ROUNDING
        lost[gone] = 1.0
        return lost

    def lost_by(self, leaf: int, reach: Reach) -> float:
        """Return what share of its bandwidth a leaf switch has lost that is not cut off, as :meth:`lost` does [-]."""
        if reach == Reach.LEAF:
            return 0.0
        ratio = self.ratio.item(leaf)
        if reach == Reach.CLUSTER:
            block = self.network.block.item(leaf)
            ratio = min(ratio / self.network.pod_share.item(block), self.pod_shares.item(block))
        lost = 1.0 - ratio
        return lost if lost > ROUNDING else 0.0

    def _pass(self, switch: int, block: int) -> None:
        """Work out what a leaf switch or a spine passes, and what its block does."""
        capacity, tier = self.capacity, int(switch >= self.network.leaves)
        passed = min(capacity.up.item(switch), capacity.down.item(switch)) * capacity.alive.item(switch)
        change = passed - self.passed.item(switch)
        if change:
            self.passed[switch] = passed
            self.sums[tier, block] += change
            if not tier:
                network = self.network
                if not passed or passed == change:
                    self.sums[2, block] += network.ceiling.item(switch) * (1 if passed else -1)
                self.ratio[switch] = max(passed / network.ceiling.item(switch), network.lonely.item(switch))

    def _ratios(self, leaves: Span) -> NDArray[np.float64]:
        """Work out what some leaf switches pass, relative to that when nothing is out."""
        network = self.network
        return np.maximum(self.passed[leaves] / network.ceiling[leaves], network.lonely[leaves])

    def _share(self, block: int) -> bool:
        """Work out how much each leaf switch of a block may send beyond it, and return whether that has changed."""
        network = self.network
        offered, by_spines = self.sums.item(0, block), self.sums.item(1, block)
        limit = by_spines / self.sums.item(2, block) if offered > by_spines else math.inf
        share = max(limit / network.pod_share.item(block), network.level.item(block))
        if share == self.pod_shares.item(block):
            return False
        self.pod_shares[block] = share
        return True
