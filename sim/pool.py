"""Healthy nodes that wait in one place until a job needs them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Level", "Pool"]


class Level:
    """A count and its integral over time."""

    __slots__ = ("area", "count", "last")

    def __init__(self, now: float = 0.0) -> None:
        self.count = 0
        self.area = 0.0
        self.last = now

    def change(self, delta: int, now: float) -> None:
        """Add `delta` at the time `now` [s]."""
        self.area += self.count * (now - self.last)
        self.last = now
        self.count += delta

    def collect(self, now: float) -> float:
        """Return the integral since the last collection [count s] and begin a new one."""
        self.change(0, now)
        area, self.area = self.area, 0.0
        return area


class Pool(Level):
    """Nodes in the order in which they are picked: by number, or by a key that `rank` gives a node when it enters.

    A node that left without being picked leaves its entry behind; whoever picks looks at its place.
    """

    __slots__ = ("entries", "keys", "place", "rank", "refills", "target")

    def __init__(self, place: int, target: int, *, refills: bool = True) -> None:
        super().__init__()
        self.place = place
        self.target = target
        """How many nodes it should hold; returning nodes fill it up to that."""
        self.refills = refills
        """Whether returning nodes fill it up."""
        self.entries: list[Any] = []
        """Heap of node numbers, or of pairs (key, node number)."""
        self.rank: Callable[[int], Any] | None = None
        self.keys: dict[int, Any] = {}

    def push(self, node: int) -> None:
        """Enter a node; the caller counts it."""
        if self.rank is None:
            heappush(self.entries, node)
        else:
            key = self.keys[node] = self.rank(node)
            heappush(self.entries, (key, node))

    def pop(self, places: list[int]) -> int:
        """Return the first node that is still here, or -1 if no entry is left."""
        entries = self.entries
        while entries:
            entry = heappop(entries)
            if self.rank is None:
                # A node that failed and came back meanwhile stands here twice; the place decides.
                if places[entry] == self.place:
                    return int(entry)
            else:
                key, node = entry
                if places[node] == self.place and self.keys.get(node) == key:
                    del self.keys[node]
                    return int(node)
        return -1
