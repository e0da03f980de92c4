"""Which copy a restore reads: the newest of which every shard is left, from the quickest stores that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.checkpoint.series import TIE
from sim.checkpoint.stores import Reading, StoreName, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.checkpoint.shelf import Shelf
    from sim.checkpoint.stores import Source

__all__ = ["Choice", "choose"]


class Choice(NamedTuple):
    """The work that a restore goes back to [s], how long it reads [s], from where, and what the stores hold then."""

    work: float
    seconds: float
    store: StoreName
    shelves: list[Shelf]


class _Search:
    """Copies that may be read, store by store; the newest ones that are of no use are passed over."""

    def __init__(
        self, sources: Sequence[Source | None], shelves: Sequence[Shelf], spacings: Sequence[float], sound: float
    ) -> None:
        self.sources = sources
        self.shelves = [
            shelf.without_end(spacing) if source is not None and source.rung.keeps_all else shelf
            for source, shelf, spacing in zip(sources, shelves, spacings, strict=True)
        ]
        self.spacings = spacings
        self.passed = [shelf.newer_than(sound, spacing) for shelf, spacing in zip(self.shelves, spacings, strict=True)]
        self.spent = 0.0

    def newest(self) -> tuple[float, list[int]]:
        """Return the most work in a copy that is left [s], and the stores that hold it; none if there is no copy."""
        works = {
            index: shelf.work(self.passed[index], self.spacings[index])
            for index, shelf in enumerate(self.shelves)
            if self.sources[index] is not None and self.passed[index] < shelf.copies
        }
        most = max(works.values(), default=0.0)
        return most, [index for index, work in works.items() if work >= most * (1 - TIE)]

    def attempt(
        self, holders: list[int], damaged: frozenset[int], nodes: int, mark: Callable[[str], float] | None
    ) -> Reading | None:
        """Return how a step that some stores hold is read; ``None`` if it cannot be, and then pass its copies over."""
        sources = [source for index in holders if (source := self.sources[index]) is not None]
        reading = read(sources, damaged, nodes)
        if reading is None:
            useless = holders
        else:
            self.spent += reading.seconds
            useless = [
                index
                for index, source in zip(holders, sources, strict=True)
                if source.rung.store in reading.stores and not self._can_read(index, source, mark)
            ]
        for index in useless:
            self.passed[index] += 1
        return None if useless else reading

    def _can_read(self, index: int, source: Source, mark: Callable[[str], float] | None) -> bool:
        """Return whether a copy can be read; one that has been read before can."""
        number = self.passed[index]
        if mark is None or source.rung.corrupt == 0 or (number == 0 and self.shelves[index].good):
            return True
        return mark(f"unreadable {source.rung.store} {number}") >= source.rung.corrupt

    def left(self, work: float, stores: frozenset[StoreName], *, tried: bool) -> list[Shelf]:
        """Return what is held when `work` [s] has been read from some stores; `tried` tells that it has been seen."""
        shelves = []
        for shelf, source, spacing, passed in zip(self.shelves, self.sources, self.spacings, self.passed, strict=True):
            kept = shelf.cut(shelf.copies if source is None or source.lacks else passed, spacing)
            if source is not None and kept.copies and abs(kept.newest - work) <= TIE * work:
                kept = kept._replace(newest=work, good=kept.good or (tried and source.rung.store in stores))
            shelves.append(kept)
        return shelves


def choose(
    sources: Sequence[Source | None],
    shelves: Sequence[Shelf],
    spacings: Sequence[float],
    damaged: frozenset[int],
    nodes: int,
    sound: float,
    mark: Callable[[str], float] | None,
) -> Choice:
    """Return which copy a restore reads.

    Parameters
    ----------
    sources
        What is left of each store, the remote one first; ``None`` for nothing.
    shelves, spacings
        What they held, and how far apart their copies are [s of work].
    damaged
        Positions that have lost something.
    nodes
        Positions [-].
    sound
        Work up to which copies are of use [s].
    mark
        Numbers that decide whether a copy can be read.
    """
    search = _Search(sources, shelves, spacings, sound)
    while True:
        work, holders = search.newest()
        if not holders:
            break
        reading = search.attempt(holders, damaged, nodes, mark)
        if reading is not None:
            kept = search.left(work, reading.stores, tried=mark is not None)
            return Choice(work, search.spent, reading.store, kept)
    return _oldest(search, sound, nodes, mark)


def _oldest(search: _Search, sound: float, nodes: int, mark: Callable[[str], float] | None) -> Choice:
    """Return the oldest remote copy, if none from before the fault is left; else the start, which needs no copy."""
    remote, source, spacing = search.shelves[0], search.sources[0], search.spacings[0]
    assert source is not None
    oldest = remote.work(remote.copies - 1, spacing)
    deleted = not source.rung.keeps_all and oldest > spacing * (1 + TIE)
    if deleted and remote.newer_than(sound, spacing) >= remote.copies:
        for number in reversed(range(remote.copies)):
            work = remote.work(number, spacing)
            search.passed = [
                shelf.newer_than(work, between) for shelf, between in zip(search.shelves, search.spacings, strict=True)
            ]
            search.passed[0] = number
            reading = search.attempt([0], frozenset(), nodes, mark)
            if reading is not None:
                kept = search.left(work, reading.stores, tried=mark is not None)
                # All older ones have been tried.
                kept[0] = kept[0]._replace(copies=1)
                return Choice(work, search.spent, reading.store, kept)
    return Choice(0.0, search.spent, "remote", [shelf.cut(shelf.copies, 1.0) for shelf in search.shelves])
