"""The state of a damaged fabric: the hosts that it cuts off, and the bandwidth that it leaves the others."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.cluster.paths import SWITCH_PARTS
from ettrick.sim.cluster.switches import ROUNDING, Flow, Reach, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from ettrick.sim.cluster.paths import Paths
    from ettrick.sim.cluster.switches import Capacity, Span, Switches, Touched

# What bandwidth is left to each class of nodes, and to each node with dead access cables, kept up to date.

_FEW = 4
"""So many classes, or blocks, are looked at one by one."""

Hurt = dict[int, dict[int, set[int]]]
"""Places of the dead access cables of nodes that have any, by class and node."""


class CutOff(NamedTuple):
    """The hosts that are cut off: leaf switches (leaves + 1,), the last of which stands for none; classes; nodes."""

    leaves: NDArray[np.bool_]
    classes: NDArray[np.bool_]
    nodes: bytearray


class Shares:
    """Shares of bandwidth that are left for traffic which goes as far as `reach`.

    Those of a node with dead access cables depend on them and on its leaf switches. Classes and nodes that are cut off
    do not count.

    Attributes
    ----------
    lost : (leaves + 1,) float64
        What share of its bandwidth each leaf switch has lost [-].
    of_class : (classes,) float64
        What is left to each class; 1 if it is cut off [-].
    of_hurt : list of (float, int)
        What is left to each node with dead access cables, and the node, ascending.
    """

    __slots__ = ("_cut", "_flow", "_hurt", "_of_node", "_paths", "lost", "of_class", "of_hurt", "reach")

    def __init__(self, paths: Paths, flow: Flow, cut: CutOff, hurt: Hurt, reach: Reach) -> None:
        self._paths = paths
        self._flow = flow
        self._cut = cut
        self._hurt = hurt
        self.reach = reach
        self._of_node: dict[int, float] = {}
        self.of_hurt: list[tuple[float, int]] = []
        self.recount()

    def recount(self) -> None:
        """Work everything out again."""
        leaves = self._paths.switches.leaves
        self.lost = np.ones(leaves + 1)
        self.lost[:-1] = self._flow.lost(slice(0, leaves), self._cut.leaves, self.reach)
        self.of_class = self._paths.lines.shares(self.lost)
        self.of_class[self._cut.classes] = 1.0
        for kind, nodes in self._hurt.items():
            self.look(kind, nodes)

    def update(self, touched: Touched) -> None:
        """Work out what may have changed with some leaf switches and blocks."""
        leaves, blocks, beyond = touched
        if self.reach == Reach.CLUSTER:
            blocks = blocks + beyond
        if len(blocks) > _FEW:
            self.recount()
            return
        for block in blocks:
            span = self._paths.switches.spans[block]
            self.lost[:-1][span] = self._flow.lost(span, self._cut.leaves, self.reach)
            self._look_at_classes(self._paths.spans[block])
        for leaf in leaves:
            lost = 1.0 if self._cut.leaves[leaf] else self._flow.lost_by(leaf, self.reach)
            if lost != self.lost[leaf]:
                self.lost[leaf] = lost
                self._look_at_classes(self._paths.lines.reaching.row(leaf))

    def look(self, kind: int, nodes: Iterable[int]) -> None:
        """Work out what is left to nodes of a class that have dead access cables, or had."""
        hurt = self._hurt.get(kind, {})
        for node in nodes:
            dead = hurt.get(node)
            share = None if dead is None or self._cut.nodes[node] else self._paths.lines.share(kind, dead, self.lost)
            before = self._of_node.get(node)
            if share == before:
                continue
            if before is not None:
                del self.of_hurt[bisect_left(self.of_hurt, (before, node))]
                del self._of_node[node]
            if share is not None:
                insort(self.of_hurt, (share, node))
                self._of_node[node] = share

    def _look_at_classes(self, kinds: Span) -> None:
        lines, cut = self._paths.lines, self._cut.classes
        if not isinstance(kinds, slice) and kinds.size <= _FEW:
            for kind in kinds.tolist():
                self.of_class[kind] = 1.0 if cut[kind] else lines.share(kind, (), self.lost)
                if kind in self._hurt:
                    self.look(kind, self._hurt[kind])
            return
        shares = lines.shares(self.lost, kinds)
        shares[cut[kinds]] = 1.0
        self.of_class[kinds] = shares
        if self._hurt:
            for kind in self._hurt.keys() & set(numbers(kinds)):
                self.look(kind, self._hurt[kind])


# Which leaf switches are cut off, kept up to date while switches and the cables between them fail and return.

_CACHED = 256


class Isolation:
    """Leaf switches that are cut off in one replication; all are connected at the beginning.

    Components are labelled only where as many parts are out as there are disjoint paths: before, only dead leaf
    switches are cut off.

    Attributes
    ----------
    cut : (leaves + 1,) bool
        Leaf switches that are cut off; the last entry stands for no switch at all, and is true.
    living : bool
        Whether one of these is alive.
    """

    __slots__ = ("_capacity", "_known", "_links", "_network", "_switches", "_upper", "cut", "living")

    def __init__(self, network: Switches, capacity: Capacity) -> None:
        self._network = network
        self._capacity = capacity
        self.cut = np.append(np.zeros(network.leaves, dtype=np.bool_), True)
        self.living = False
        self._links: set[int] = set()
        """Dead cables between switches."""
        self._switches: set[int] = set()
        self._upper = 0
        """The number of these that are no leaf switches."""
        self._known: dict[tuple[frozenset[int], frozenset[int]], NDArray[np.bool_]] = {}

    def turn_cable(self, cable: int, *, dead: bool) -> list[int]:
        """Note that a cable has died or is back; return the leaf switches that this cuts off or connects."""
        (self._links.add if dead else self._links.remove)(cable)
        return self._relabel() if self._may_differ() else []

    def turn_switch(self, switch: int, *, dead: bool) -> list[int]:
        """Note that a switch has died or is back; return the leaf switches that this cuts off or connects."""
        (self._switches.add if dead else self._switches.remove)(switch)
        if switch >= self._network.leaves:
            self._upper += 1 if dead else -1
        if self._may_differ():
            return self._relabel()
        if switch >= self._network.leaves:
            return []
        self.cut[switch] = dead
        return [switch]

    def _is_labelled(self) -> bool:
        """Return whether so much is out that a living leaf switch may be cut off."""
        between = len(self._links) + self._upper
        return between >= self._network.disjoint_paths and bool(self._links or self._switches)

    def _may_differ(self) -> bool:
        return self.living or self._is_labelled()

    def _relabel(self) -> list[int]:
        """Look at all leaf switches, and return those for which something has changed."""
        alive = self._capacity.alive[: self._network.leaves]
        now = self._labels() if self._is_labelled() else np.append(alive == 0, True)
        changed: list[int] = np.flatnonzero(self.cut != now).tolist()
        self.cut[:] = now
        self.living = bool((now[:-1] & (alive > 0)).any())
        return changed

    def _labels(self) -> NDArray[np.bool_]:
        """Label the components of the living switches, unless the same parts have been out before."""
        key = (frozenset(self._switches), frozenset(self._links))
        if key not in self._known:
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[key] = self._network.cut_off(self._capacity)
        return self._known[key]


class ReachabilityChange(NamedTuple):
    """Nodes that are newly cut off, and nodes that no longer are, both ascending [-]."""

    cut: list[int]
    restored: list[int]


class FabricState:
    """The parts of the fabric that are out in one replication; all are whole at the beginning.

    What the switches pass is kept up to date, and so are the shares of those reaches that were asked for once.
    """

    __slots__ = (
        "_alone",
        "_cables_out",
        "_capacity",
        "_cut",
        "_flow",
        "_hurt",
        "_isolation",
        "_out",
        "_paths",
        "_shares",
    )

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._flow = Flow(paths.switches)
        self._capacity = self._flow.capacity
        self._out: dict[tuple[str, int], int] = {}
        """The number of unrepaired failures of each unit."""
        self._cables_out: dict[int, int] = {}
        """The number of units that keep each cable dead."""
        self._isolation = Isolation(paths.switches, self._capacity)
        self._cut = CutOff(
            leaves=self._isolation.cut,
            classes=np.zeros(paths.classes, dtype=np.bool_),
            nodes=bytearray(paths.class_of_node.size),
        )
        self._hurt: Hurt = {}
        self._alone: set[int] = set()
        """Nodes that are cut off though others of their class are not."""
        self._shares: dict[Reach, Shares] = {}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is out."""
        return not self._out

    def is_out(self, part: str, unit: int) -> bool:
        """Return whether a unit of a part class is out."""
        return (part, unit) in self._out

    def is_cut(self, node: int) -> bool:
        """Return whether a node is cut off."""
        return self._cut.nodes[node] == 1

    def fail(self, part: str, unit: int) -> ReachabilityChange:
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
        return ReachabilityChange([], []) if count else self._turn(part, unit, dead=True)

    def mend(self, part: str, unit: int) -> ReachabilityChange:
        """Undo one failure of a unit."""
        count = self._out.pop((part, unit), 0)
        assert count, f"{part} {unit} is not out"
        if count > 1:
            self._out[part, unit] = count - 1
            return ReachabilityChange([], [])
        return self._turn(part, unit, dead=False)

    def share(self, presence: NDArray[np.int64], holds: Callable[[int], bool], reach: Reach | None = None) -> float:
        """Return the smallest share of bandwidth left to a node of a job, for traffic that goes as far as the job.

        Nodes that are cut off do not count.

        Parameters
        ----------
        presence : (classes,) int64
            Nodes of the job in each class [-].
        holds : callable
            Whether the job holds a node.
        reach : Reach, optional
            How far its traffic goes, if that is known.

        Returns
        -------
        float
            From 0 to 1; 1 if the job notices nothing [-].
        """
        if not self._out:
            return 1.0
        shares = self._shares_at(self._paths.reach(presence > 0) if reach is None else reach)
        of_class = shares.of_class
        slowest = int(of_class.argmin())
        worst = of_class.item(slowest)
        if worst < 1.0 and presence[slowest] <= len(self._alone):
            gone = [self._paths.class_of_node[node] for node in self._alone if holds(node)]
            here = presence > np.bincount(gone, minlength=presence.size) if gone else presence > 0
            worst = float(of_class.min(initial=1.0, where=here))
        for share, node in shares.of_hurt:
            if share >= worst:
                break
            if holds(node):
                return share
        return worst

    def hurts(
        self,
        part: str,
        unit: int,
        presence: NDArray[np.int64],
        holds: Callable[[int], bool],
        reach: Reach | None = None,
    ) -> bool:
        """Return whether a failed unit takes bandwidth from a job: it touches a leaf switch or node that is short.

        Where several units are out, each that touches the same leaf switch is to blame. What lies behind a unit that
        cuts off leaf switches is not looked at.
        """
        if (part, unit) not in self._out:
            return False
        paths, network = self._paths, self._paths.switches
        if part in SWITCH_PARTS:
            switch = paths.switch(part, unit)
            lower = [switch] if part == "leaf" else network.lower[network.down_cables.row(switch)].tolist()
        else:
            cable = paths.cables(part, unit)[0]
            if cable < paths.access:
                node = paths.lines.node.item(cable)
                return not self._cut.nodes[node] and holds(node)
            lower = [network.lower.item(cable - paths.access)]
        if reach is None:
            reach = paths.reach(presence > 0)
        short = self._shares_at(reach).lost
        for leaf in lower if lower and lower[0] < network.leaves else ():
            if short[leaf] > 0 and self._feels(presence, paths.lines.reaching.row(leaf)):
                return True
        if reach < Reach.CLUSTER:
            return False
        blocks, shares = dict.fromkeys(network.block[lower].tolist()), self._flow.pod_shares
        return any(shares[block] < 1.0 - ROUNDING and self._feels(presence, paths.spans[block]) for block in blocks)

    def _feels(self, presence: NDArray[np.int64], kinds: Span) -> bool:
        """Return whether a job has nodes in one of some classes that is not cut off."""
        return any(presence[kind] > 0 and not self._cut.classes[kind] for kind in numbers(kinds))

    def _turn(self, part: str, unit: int, *, dead: bool) -> ReachabilityChange:
        """Kill or revive what goes with a unit."""
        paths = self._paths
        if part in SWITCH_PARTS:
            return self._turn_between(paths.switch(part, unit), dead=dead, is_switch=True)
        cables = [cable for cable in paths.cables(part, unit) if self._turn_cable(cable, dead=dead)]
        if not cables:
            return ReachabilityChange([], [])
        if cables[0] < paths.access:
            return self._turn_access(cables, dead=dead)
        return self._turn_between(cables[0] - paths.access, dead=dead, is_switch=False)

    def _turn_cable(self, cable: int, *, dead: bool) -> bool:
        """Count one reason more or less for a dead cable, and return whether that kills or revives it."""
        reasons = self._cables_out.get(cable, 0) + (1 if dead else -1)
        if reasons:
            self._cables_out[cable] = reasons
            return dead and reasons == 1
        del self._cables_out[cable]
        return True

    def _turn_access(self, cables: list[int], *, dead: bool) -> ReachabilityChange:
        """Kill or revive access cables of a node."""
        lines = self._paths.lines
        node = lines.node.item(cables[0])
        kind = lines.class_of_node.item(node)
        hurt = self._hurt.setdefault(kind, {})
        places = hurt.setdefault(node, set())
        for cable in cables:
            (places.add if dead else places.remove)(lines.place.item(cable))
        if not places:
            del hurt[node]
            if not hurt:
                del self._hurt[kind]
        change = ReachabilityChange([], [])
        self._recheck(kind, (node,), change)
        for shares in self._shares.values():
            shares.look(kind, (node,))
        return change

    def _turn_between(self, number: int, *, dead: bool, is_switch: bool) -> ReachabilityChange:
        """Kill or revive a switch or a cable between switches."""
        flow, isolation = self._flow, self._isolation
        everywhere = isolation.living
        if is_switch:
            touched, leaves = flow.turn_switch(number, dead=dead), isolation.turn_switch(number, dead=dead)
        else:
            touched, leaves = flow.turn_cable(number, dead=dead), isolation.turn_cable(number, dead=dead)
        change = self._recheck_behind(leaves) if leaves else ReachabilityChange([], [])
        # Where living leaf switches are cut off, or were, all is worked out again.
        everywhere |= isolation.living
        if everywhere:
            flow.recount(isolation.cut)
        for shares in self._shares.values():
            if everywhere:
                shares.recount()
            else:
                shares.update(touched)
        return change

    def _recheck_behind(self, leaves: list[int]) -> ReachabilityChange:
        """Find out which nodes are cut off, after a change of these leaf switches."""
        lines, cut = self._paths.lines, self._cut
        change = ReachabilityChange([], [])
        rows = [lines.reaching.row(leaf) for leaf in leaves]
        classes = rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))
        if classes.size > _FEW:
            now = lines.cut_classes(cut.leaves, classes).tolist()
        else:
            now = [lines.is_cut(kind, (), cut.leaves) for kind in classes.tolist()]
        for kind, gone in zip(classes.tolist(), now, strict=True):
            hurt = self._hurt.get(kind, {})
            if cut.classes[kind] != gone:
                cut.classes[kind] = gone
                members = [node for node in lines.row(kind) if node not in hurt]
                (change.cut if gone else change.restored).extend(members)
                for node in members:
                    cut.nodes[node] = gone
            self._recheck(kind, hurt, change)
        change.cut.sort()
        change.restored.sort()
        return change

    def _recheck(self, kind: int, nodes: Iterable[int], change: ReachabilityChange) -> None:
        """Find out which nodes of a class are cut off that have dead access cables, or had, and add to the change."""
        lines, cut = self._paths.lines, self._cut
        whole, hurt = bool(cut.classes[kind]), self._hurt.get(kind, {})
        for node in nodes:
            alone = not whole and node in hurt and lines.is_cut(kind, hurt[node], cut.leaves)
            (self._alone.add if alone else self._alone.discard)(node)
            gone = whole or alone
            if gone != cut.nodes[node]:
                cut.nodes[node] = gone
                (change.cut if gone else change.restored).append(node)

    def _shares_at(self, reach: Reach) -> Shares:
        """Return the shares for traffic of some reach, kept up to date from now on."""
        if reach not in self._shares:
            self._shares[reach] = Shares(self._paths, self._flow, self._cut, self._hurt, reach)
        return self._shares[reach]
