"""Which parts of the fabric are out: whom that cuts off, and what bandwidth it leaves the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.topology.capacity import ROUNDING
from sim.topology.paths import SWITCH_PARTS
from sim.topology.switches import Reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sim.topology.paths import Paths

__all__ = ["Change", "FabricState"]

_CACHED = 256


class Change(NamedTuple):
    """Nodes that are newly cut off, and nodes that no longer are, both ascending [-]."""

    cut: list[int]
    restored: list[int]


class _Shares(NamedTuple):
    """What is left to each class of nodes, and to nodes with dead access cables, for traffic that goes equally far."""

    lost: NDArray[np.float64]
    of_class: NDArray[np.float64]
    least: float
    hurt: list[tuple[float, int]]


class FabricState:
    """The parts of the fabric that are out in one replication; all are whole at the beginning.

    The cables of each switch are kept as sums; shares are worked out when first asked for after a change.
    """

    __slots__ = (
        "_alone",
        "_cables_out",
        "_capacity",
        "_class_cut",
        "_cut",
        "_hurt",
        "_isolated",
        "_known",
        "_leaf_cut",
        "_links_out",
        "_out",
        "_paths",
        "_shares",
        "_spines_out",
        "_switches_out",
    )

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._capacity = paths.switches.capacity()
        self._out: dict[tuple[str, int], int] = {}
        """How often each unit has failed and was not mended."""
        self._cables_out: dict[int, int] = {}
        """How many units keep each cable dead."""
        self._links_out: set[int] = set()
        """Dead cables between switches."""
        self._switches_out: set[int] = set()
        self._spines_out = 0
        """How many of these are no leaf switches."""
        self._leaf_cut = np.zeros(paths.switches.leaves + 1, dtype=np.bool_)
        self._leaf_cut[-1] = True
        self._isolated = False
        """Whether a living leaf switch is cut off."""
        self._class_cut = np.zeros(paths.classes, dtype=np.bool_)
        self._cut = bytearray(paths.class_of_node.size)
        self._hurt: dict[int, NDArray[np.bool_]] = {}
        """Dead access cables of nodes that have any, (slots, lines)."""
        self._alone: set[int] = set()
        """Nodes that are cut off though others of their class are not."""
        self._known: dict[tuple[frozenset[int], frozenset[int]], NDArray[np.bool_]] = {}
        self._shares: dict[Reach, _Shares] = {}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is out."""
        return not self._out

    def is_cut(self, node: int) -> bool:
        """Return whether a node is cut off."""
        return self._cut[node] == 1

    def fail(self, part: str, unit: int) -> Change:
        """Take a unit of a part class out; it may fail again before it is mended.

        Parameters
        ----------
        part : str
            One of ``FABRIC_PARTS``.
        unit : int
            Its number [-].
        """
        count = self._out.get((part, unit), 0)
        self._out[part, unit] = count + 1
        return Change([], []) if count else self._turn(part, unit, dead=True)

    def mend(self, part: str, unit: int) -> Change:
        """Undo one failure of a unit."""
        count = self._out.pop((part, unit), 0)
        assert count, f"{part} {unit} is not out"
        if count > 1:
            self._out[part, unit] = count - 1
            return Change([], [])
        return self._turn(part, unit, dead=False)

    def share(self, presence: NDArray[np.int64], holds: Callable[[int], bool]) -> float:
        """Return the smallest share of bandwidth left to a node of a job, for traffic that goes as far as the job.

        Nodes that are cut off do not count.

        Parameters
        ----------
        presence : (classes,) int64
            Nodes of the job in each class [-].
        holds : callable
            Whether the job holds a node.

        Returns
        -------
        float
            From 0 to 1; 1 if the job notices nothing [-].
        """
        if not self._out:
            return 1.0
        here = presence > 0
        shares = self._shares_at(self._paths.reach(here))
        worst = 1.0
        if shares.least < 1.0:
            gone = [self._paths.class_of_node[node] for node in self._alone if holds(node)]
            if gone:
                here = presence > np.bincount(gone, minlength=presence.size)
            worst = float(shares.of_class.min(initial=1.0, where=here))
        for share, node in shares.hurt:
            if share >= worst:
                break
            if holds(node):
                return share
        return worst

    def hurts(self, part: str, unit: int, presence: NDArray[np.int64], holds: Callable[[int], bool]) -> bool:
        """Return whether a failed unit takes bandwidth from a job: it touches a leaf switch or node that is short.

        Where several units are out, each that touches the same leaf switch is to blame. What lies behind a unit that
        cuts off leaf switches is not looked at.
        """
        if (part, unit) not in self._out:
            return False
        paths, network, here = self._paths, self._paths.switches, presence > 0
        reach = paths.reach(here)
        if part in SWITCH_PARTS:
            switch = paths.switch(part, unit)
            cables = (network.up_cables if part == "leaf" else network.down_cables).row(switch)
        else:
            cable = paths.cables(part, unit)[0]
            if cable < paths.access:
                node = int(paths.lines.node[cable])
                return not self._cut[node] and holds(node)
            cables = np.array([cable - paths.access])
        leaves, blocks = network.touches(cables)
        if part == "leaf":
            leaves = np.array([switch])
        short = np.zeros(network.leaves + 1, dtype=np.bool_)
        short[leaves] = self._shares_at(reach).lost[leaves] > 0
        if reach == Reach.CLUSTER:
            shares = network.pod_shares(network.passed(self._capacity, self._leaf_cut))
            short[:-1] |= np.isin(network.block[: network.leaves], blocks[shares[blocks] < 1.0 - ROUNDING])
        touched = short[paths.lines.leaf].any(axis=(0, 1))
        return bool((touched & here & ~self._class_cut).any())

    def _turn(self, part: str, unit: int, *, dead: bool) -> Change:
        """Kill or revive what goes with a unit."""
        self._shares.clear()
        network = self._paths.switches
        if part in SWITCH_PARTS:
            switch = self._paths.switch(part, unit)
            network.turn_switch(self._capacity, switch, dead=dead)
            (self._switches_out.add if dead else self._switches_out.remove)(switch)
            if part != "leaf":
                self._spines_out += 1 if dead else -1
            return self._recheck(self._turn_leaves(switch), set())
        nodes, links = set[int](), False
        for cable in self._paths.cables(part, unit):
            if not self._turn_cable(cable, dead=dead):
                continue
            if cable < self._paths.access:
                nodes.add(self._turn_access(cable, dead=dead))
            else:
                network.turn_cable(self._capacity, cable - self._paths.access, dead=dead)
                (self._links_out.add if dead else self._links_out.remove)(cable - self._paths.access)
                links = True
        return self._recheck(self._turn_leaves(None) if links else [], nodes)

    def _turn_cable(self, cable: int, *, dead: bool) -> bool:
        """Count one reason more or less for a dead cable, and return whether that kills or revives it."""
        reasons = self._cables_out.get(cable, 0) + (1 if dead else -1)
        if reasons:
            self._cables_out[cable] = reasons
            return dead and reasons == 1
        del self._cables_out[cable]
        return True

    def _turn_access(self, cable: int, *, dead: bool) -> int:
        """Kill or revive an access cable, and return its node."""
        lines = self._paths.lines
        node = int(lines.node[cable])
        mask = self._hurt.setdefault(node, np.zeros(lines.leaf.shape[:2], dtype=np.bool_))
        mask.flat[lines.place[cable]] = dead
        if not dead and not mask.any():
            del self._hurt[node]
        return node

    def _turn_leaves(self, switch: int | None) -> list[int]:
        """Find out which leaf switches are cut off, and return those for which that has changed."""
        network = self._paths.switches
        dead = len(self._switches_out) - self._spines_out
        between = len(self._links_out) + self._spines_out
        labelled = between >= network.disjoint_paths and between + dead > 0
        if not labelled and not self._isolated:
            if switch is None or switch >= network.leaves:
                return []
            self._leaf_cut[switch] = not self._leaf_cut[switch]
            return [switch]
        before = self._leaf_cut
        alive = self._capacity.alive[: network.leaves]
        self._leaf_cut = self._cut_off().copy() if labelled else np.append(alive == 0, True)
        self._isolated = int(np.count_nonzero(self._leaf_cut)) > dead + 1
        changed: list[int] = np.flatnonzero(before != self._leaf_cut).tolist()
        return changed

    def _cut_off(self) -> NDArray[np.bool_]:
        """Label the components of the living switches, unless the same parts have been out before."""
        key = (frozenset(self._switches_out), frozenset(self._links_out))
        if key not in self._known:
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[key] = self._paths.switches.cut_off(self._capacity)
        return self._known[key]

    def _recheck(self, leaves: list[int], nodes: set[int]) -> Change:
        """Find out which nodes are cut off, after a change of these leaf switches or of these nodes' own cables."""
        lines = self._paths.lines
        cut, restored = Change([], [])
        if leaves:
            nodes = nodes.union(self._hurt)
            rows = [lines.reaching.row(leaf) for leaf in leaves]
            classes = rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))
            now = lines.cut_classes(self._leaf_cut, classes)
            before = self._class_cut[classes].tolist()
            self._class_cut[classes] = now
            for kind, was, gone in zip(classes.tolist(), before, now.tolist(), strict=True):
                if was != gone:
                    members = lines.row(kind)
                    if self._hurt:
                        members = [node for node in members if node not in self._hurt]
                    (cut if gone else restored).extend(members)
        for node in nodes:
            whole = bool(self._class_cut[lines.class_of_node[node]])
            alone = not whole and node in self._hurt and lines.is_cut(node, self._hurt[node], self._leaf_cut)
            (self._alone.add if alone else self._alone.discard)(node)
            if (whole or alone) != self._cut[node]:
                (cut if whole or alone else restored).append(node)
        for node in cut:
            self._cut[node] = 1
        for node in restored:
            self._cut[node] = 0
        return Change(sorted(cut), sorted(restored))

    def _shares_at(self, reach: Reach) -> _Shares:
        """Return the shares for traffic of some reach, worked out at most once between two changes."""
        if reach not in self._shares:
            lines = self._paths.lines
            if self._switches_out or self._links_out:
                lost = self._paths.switches.lost(self._capacity, self._leaf_cut, reach)
                of_class = lines.shares(lost)
                of_class[self._class_cut] = 1.0
            else:
                lost, of_class = np.zeros(self._leaf_cut.size), np.ones(self._class_cut.size)
            nodes = [node for node in self._hurt if not self._cut[node]]
            hurt: list[tuple[float, int]] = []
            if nodes:
                left = lines.shares_of(nodes, [self._hurt[node] for node in nodes], lost)
                hurt = sorted(zip(left.tolist(), nodes, strict=True))
            self._shares[reach] = _Shares(lost, of_class, float(of_class.min()), hurt)
        return self._shares[reach]
