"""What bandwidth is left to each class of nodes, and to each node with dead access cables, kept up to date."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.topology.rows import numbers
from sim.topology.switches import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sim.topology.flow import Flow, Touched
    from sim.topology.paths import Paths
    from sim.topology.rows import Span

__all__ = ["CutOff", "Hurt", "Shares"]

_FEW = 4
"""So many classes, or blocks, are looked at one by one."""

Hurt = dict[int, dict[int, set[int]]]
"""Places of the dead access cables of nodes that have any, by class and node."""


class CutOff(NamedTuple):
    """Who is cut off: leaf switches (leaves + 1,), the last of which stands for none at all; classes; nodes."""

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
        """Work everything out anew."""
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
