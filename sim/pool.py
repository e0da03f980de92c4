"""Healthy nodes that wait in one place until a job needs them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from sim.packing import gather
from sim.places import POOLS, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sim.places import Reserve

__all__ = ["Level", "PackedPool", "Pool", "Tally", "make_pools"]


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


class Tally(Level):
    """A level that also keeps for how long it had each value."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[int, float] = {}
        """How long it had each value [s]."""

    def change(self, delta: int, now: float) -> None:
        """Add `delta` at the time `now` [s]."""
        count = self.count
        seconds = now - self.last
        self.times[count] = self.times.get(count, 0.0) + seconds
        self.area += count * seconds
        self.last = now
        self.count = count + delta


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

    def rank_by(self, rank: Callable[[int], Any]) -> None:
        """Order the nodes by a key, those that are here already too."""
        nodes, self.entries = self.entries, []
        self.rank = rank
        for node in nodes:
            self.push(node)

    def push(self, node: int) -> None:
        """Enter a node; the caller counts it."""
        if self.rank is None:
            heappush(self.entries, node)
        else:
            key = self.keys[node] = self.rank(node)
            heappush(self.entries, (key, node))

    def take_lowest(self, count: int, places: list[int], bring: Callable[[], None]) -> list[int]:
        """Take nodes for a job, in rising order; of a pool without keys. `bring` enters more when none is left."""
        heap = self.entries
        heap.sort()
        taken: list[int] = heap[:count]
        if taken and taken[-1] - taken[0] + 1 == count and places[taken[0] : taken[-1] + 1] == [self.place] * count:
            # A stretch of nodes that are here, as at the start: no need to look at each.
            del heap[:count]
            places[taken[0] : taken[-1] + 1] = [int(Place.JOB)] * count
            return taken
        taken = []
        index = 0
        while len(taken) < count:
            while index == len(heap):
                del heap[:index]
                index = 0
                bring()
                heap.sort()
            node = heap[index]
            index += 1
            if places[node] == self.place:
                places[node] = int(Place.JOB)
                taken.append(node)
        del heap[:index]
        # What was brought may have lower numbers than those taken before it.
        return sorted(taken)

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


class PackedPool(Pool):
    """Nodes by the domain that jobs are packed into, each domain in the order of numbers."""

    __slots__ = ("domain_of", "heaps")

    def __init__(self, place: int, target: int, domain_of: Sequence[int], *, refills: bool = True) -> None:
        super().__init__(place, target, refills=refills)
        self.domain_of = domain_of
        self.heaps: dict[int, list[int]] = {}
        """Heap of the node numbers of each domain."""

    def push(self, node: int) -> None:
        """Enter a node; the caller counts it."""
        heappush(self.heaps.setdefault(self.domain_of[node], []), node)

    def take_together(self, count: int, places: list[int]) -> list[int]:
        """Take nodes for a job, in rising order, from as few domains as that takes."""
        here = {node for heap in self.heaps.values() for node in heap if places[node] == self.place}
        taken = gather(sorted(here), count, self.domain_of)
        for node in taken:
            places[node] = int(Place.JOB)
        self.heaps = {}
        for node in sorted(here.difference(taken)):
            # In rising order a list is a heap.
            self.heaps.setdefault(self.domain_of[node], []).append(node)
        return taken

    def pop_near(self, places: list[int], home: int) -> int:
        """Return the first node of the domain `home` that is still here, or -1."""
        heap = self.heaps.get(home, [])
        while heap:
            node = heappop(heap)
            if places[node] == self.place:
                return node
        return -1

    def pop(self, places: list[int]) -> int:
        """Return the first node that is still here, of whatever domain, or -1."""
        for heap in self.heaps.values():
            while heap and places[heap[0]] != self.place:
                heappop(heap)
        first = min((heap[0] for heap in self.heaps.values() if heap), default=-1)
        return -1 if first < 0 else self.pop_near(places, self.domain_of[first])


def make_pools(
    reserves: Mapping[str, Reserve], nodes: list[int], places: list[int], packed_by: Sequence[int] = ()
) -> dict[str, Pool]:
    """Return the pools by name: the last of the nodes, which are all idle so far, go to the reserves."""

    def make(name: str, target: int, members: list[int], *, refills: bool) -> Pool:
        place = int(POOLS[name])
        pool = (
            PackedPool(place, target, packed_by, refills=refills) if packed_by else Pool(place, target, refills=refills)
        )
        for node in members:
            pool.push(node)
        pool.count = len(members)
        if name != "idle":
            for node in members:
                places[node] = place
        return pool

    kept: dict[str, list[int]] = {"spare": []}
    for name, reserve in reserves.items():
        first = len(nodes) - min(reserve.nodes, len(nodes))
        kept[name] = nodes[first:]
        del nodes[first:]
    pools = {"idle": make("idle", 0, nodes, refills=False)}
    for name, members in kept.items():
        pools[name] = make(name, len(members), members, refills=name not in reserves or reserves[name].refills)
    return pools
