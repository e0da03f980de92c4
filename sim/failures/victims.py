"""Which nodes: those that an incident takes, and those that have a hidden fault at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim import rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.failures.source import Blast, Source

__all__ = ["Victims", "hidden_at_start"]


class Victims:
    """Which nodes an incident takes: a look-up by unit and number of the incident."""

    __slots__ = ("_nodes", "_offsets", "_size", "_size_key", "_victim_key")

    def __init__(self, blast: Blast, name: str, seed: int, replication: int) -> None:
        assert blast.domains is not None
        self._size = blast.size
        self._offsets: list[int] = blast.domains.offsets.tolist()
        self._nodes: list[int] = blast.domains.nodes.tolist()
        self._size_key = rng.stream(seed, replication, "mark", name, "size")
        self._victim_key = rng.stream(seed, replication, "mark", name, "victim")

    def nodes(self, part: int, number: int) -> tuple[int, ...]:
        """Return the nodes; each subset of the drawn size is equally likely, at a cost that follows its size."""
        first, stop = self._offsets[part], self._offsets[part + 1]
        members = stop - first
        size = members
        if self._size is not None and members:
            size = self._size.draw(rng.uniform_one(self._size_key, part, number), members)
        if size == members:
            return tuple(self._nodes[first:stop])
        # Floyd's sampling without replacement: one number for each victim.
        taken: set[int] = set()
        for position in range(members - size, members):
            chosen = int(rng.uniform_one(self._victim_key, part, (number << 24) + position) * (position + 1))
            taken.add(position if chosen in taken else chosen)
        return tuple(self._nodes[first + index] for index in sorted(taken))


def hidden_at_start(source: Source, seed: int, replication: int) -> NDArray[np.bool_]:
    """Return which nodes have a hidden fault at the start, shape (units,).

    An exact share belongs to the whole cluster: a larger one does not keep it.
    """
    assert source.hidden is not None
    number = rng.uniform(rng.stream(seed, replication, "hidden", source.name), range(source.units))
    if not source.hidden.exact:
        return number < source.hidden.share
    found = np.zeros(source.units, dtype=np.bool_)
    found[np.argsort(number, kind="stable")[: int(source.units * source.hidden.share + 1e-9)]] = True
    return found
