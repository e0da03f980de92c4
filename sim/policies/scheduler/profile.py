"""Time ahead: tuples in order, in short blocks, and the availability profile of a pool's nodes."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INF = math.inf

Entry: TypeAlias = tuple[Any, ...]
"""An entry of an ordered list, sorted by its first items."""

_BLOCK = 128


class SortedBlocks:
    """Tuples in order, in blocks that are kept short: changes cost O(log n), for all practical n.

    What `measure` makes of a block is kept until it changes.
    """

    __slots__ = ("blocks", "lasts", "measure", "measured")

    def __init__(self, measure: Callable[[list[Entry]], Any]) -> None:
        self.measure = measure
        self.blocks: list[list[Entry]] = []
        self.lasts: list[Entry] = []
        self.measured: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def add(self, entry: Entry) -> None:
        """Put an entry in its place."""
        index = bisect_left(self.lasts, entry)
        if index == len(self.blocks):
            if not index:
                self.blocks, self.lasts, self.measured = [[entry]], [entry], [None]
                return
            index -= 1
        block = self.blocks[index]
        insort(block, entry)
        self.lasts[index] = block[-1]
        self.measured[index] = None
        if len(block) > _BLOCK:
            half = _BLOCK // 2
            self.blocks[index : index + 1] = [block[:half], block[half:]]
            self.lasts.insert(index, block[half - 1])
            self.measured.insert(index, None)

    def remove(self, entry: Entry) -> None:
        """Take an entry out, which is there."""
        index = bisect_left(self.lasts, entry)
        block = self.blocks[index]
        del block[bisect_left(block, entry)]
        if block:
            self.lasts[index] = block[-1]
            self.measured[index] = None
        else:
            del self.blocks[index], self.lasts[index], self.measured[index]

    def parts(self) -> Iterator[tuple[list[Entry], Any]]:
        """Yield the blocks in order, each with its measure."""
        for index, block in enumerate(self.blocks):
            measured = self.measured[index]
            if measured is None:
                measured = self.measured[index] = self.measure(block)
            yield block, measured


class AvailabilityProfile:
    """Free nodes of a pool from now on: `free[i]` from `times[i]` to the next."""

    __slots__ = ("bounds", "free", "times")

    def __init__(self, now: float, free: int, ends: SortedBlocks) -> None:
        self.times = [now]
        self.free = [free]
        self.bounds: dict[int | tuple[int, float], float] = {}
        """Before when so many nodes are not free, and not for how long, as far as was asked [s]."""
        soon = math.nextafter(now, INF)
        times, frees, last = self.times, self.free, now
        for end, _, nodes in itertools.chain.from_iterable(ends.blocks):
            free += nodes
            if end > last:
                if end == INF:
                    break
                last = end if end > soon else soon
                times.append(last)
                frees.append(free)
            elif last == now:
                last = soon  # a job beyond its limit may end at any moment, but has not
                times.append(last)
                frees.append(free)
            else:
                frees[-1] = free

    def forget(self, now: float) -> None:
        """Begin at `now`."""
        index = bisect_right(self.times, now) - 1
        if index > 0:
            del self.times[:index], self.free[:index]
        self.times[0] = now

    def least(self, start: float, end: float) -> int:
        """Return the fewest nodes that are free at `start` and until `end`, which rounding may bring to the start."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return min(self.free[first : max(bisect_left(self.times, end), first + 1)])

    def earliest(self, nodes: int, length: float, latest: float = INF) -> float:
        """Return since when `nodes` are free for `length` [s]; infinite for never, or after `latest` [s]."""
        bounds, times, free = self.bounds, self.times, self.free
        shape = nodes, length
        is_new = shape not in bounds
        after = bounds.get(nodes, -INF) if is_new else bounds[shape]
        if after > latest:
            return INF
        first = max(bisect_right(times, after) - 1, 0)
        while first < len(times) and free[first] < nodes:
            first += 1
        if is_new:
            bounds[nodes] = times[first] if first < len(times) else INF
        bounds[shape] = since = self._window(first, nodes, length, latest)
        return since

    def _window(self, first: int, nodes: int, length: float, latest: float) -> float:
        """Return the start of the first window, among the times from the one with the index `first` on [s]."""
        times, free = self.times, self.free
        since = until = INF
        for index in range(first, len(times)):
            time = times[index]
            if time >= until:
                break
            if free[index] < nodes:
                since = until = INF
            elif since == INF:
                if time > latest:
                    break
                since = time
                until = time + length
        return since

    def take(self, start: float, end: float, nodes: int) -> None:
        """Take `nodes` from `start` until `end`."""
        first = self._cut(start)
        last = len(self.times) if end == INF else self._cut(end)
        self.free[first:last] = [free - nodes for free in self.free[first:last]]

    def give(self, start: float, end: float, nodes: int) -> None:
        """Add nodes from `start`, or now, until `end`."""
        soon = math.nextafter(self.times[0], INF)
        self.take(max(start, self.times[0]), max(end, soon), -nodes)
        self.bounds.clear()

    def _cut(self, time: float) -> int:
        """Return where `time` begins an interval; it does so from now on."""
        index = bisect_left(self.times, time)
        if index == len(self.times) or self.times[index] != time:
            self.times.insert(index, time)
            self.free.insert(index, self.free[index - 1])
        return index


def next_multiple(time: float, step: float) -> float:
    """Return the first multiple of `step` from `time` on; one that was returned stays as it is."""
    return math.ceil(round(time / step, 9)) * step
