"""Which leaf switches are cut off, kept up to date while switches and the cables between them fail and return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.topology.capacity import Capacity
    from sim.topology.switches import Switches

__all__ = ["Isolation"]

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
        """How many of these are no leaf switches."""
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
