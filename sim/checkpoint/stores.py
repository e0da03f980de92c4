"""Stores of copies: which shards survive what happens to the nodes, and how long each node reads.

A copy is spread over the nodes of a job, a shard each, and is of use while every shard is somewhere.

==========  ==================================  ===========================================
store       what a process that ends leaves     what takes a shard
==========  ==================================  ===========================================
peer        while a replica lives               that no replica is left whole
host        all                                 reboot or loss of the node
peer-host   all                                 reboot or loss of every node of the clique
disk        all                                 loss of the node
remote      all                                 nothing that happens to nodes
==========  ==================================  ===========================================

References
----------
Z. Wang et al., "GEMINI: Fast failure recovery in distributed training with in-memory checkpoints", SOSP 2023: cliques,
there groups, whose members hold each other's shards. Its rest of machines forms a ring, here a larger clique.
NVIDIA Resiliency Extension, local checkpoints: ``replication_factor`` is our clique, ``replication_jump`` our jump.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from sim.checkpoint.series import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim.contracts import Damage

__all__ = ["STORES", "Reading", "Rung", "Source", "StoreName", "clique_of", "cliques", "missing", "read"]

StoreName: TypeAlias = Literal["peer", "host", "peer-host", "disk", "remote"]
STORES: tuple[StoreName, ...] = ("peer", "host", "peer-host", "disk", "remote")
"""Nearest first."""


class Rung(NamedTuple):
    """One store of a ladder, in numbers.

    Parameters
    ----------
    store
        Which one.
    interval
        Stepping between two saves [s]; 0 for a live peer, which holds the last step.
    stall
        How long stepping stops for a save [s].
    drain
        From the end of the stall until the copy is complete [s].
    load
        Time that a node reads whose own copy has survived, or that reads from elsewhere by nature [s].
    fetch
        Time that a node reads whose own copy is gone [s].
    skips
        Whether a save that comes due during the drain of the one before is left out, not put off.
    retain
        Complete copies that are kept [-]; ``None`` keeps all.
    corrupt
        Probability that a copy cannot be read [-].
    clique, jump
        Nodes that hold each other's shards, and their distance in positions [-].
    every_replica
        Whether each replica holds the whole state.
    transfer
        Of the remote store's load, what the nodes take to read at their own bandwidth, and what the store takes to give
        it at its aggregate [s]; the longer counts. Zero where no bandwidth is known.
    """

    store: StoreName
    interval: float
    stall: float
    drain: float
    load: float
    fetch: float = 0.0
    skips: bool = False
    retain: int | None = None
    corrupt: float = 0.0
    clique: int = 2
    jump: int = 1
    every_replica: bool = False
    transfer: tuple[float, float] = (0.0, 0.0)

    @property
    def keeps_all(self) -> bool:
        """Whether no copy is ever deleted. A live peer has one state, the last."""
        return self.retain is None and self.store != "peer"

    def period(self, step: float) -> float:
        """Return how long the group steps between two saves [s]: whole steps of `step` [s], at least the drain."""
        period = self.interval if self.skips else max(self.interval, self.drain)
        if step > 0:
            period = whole(period / step) * step
        return period * max(whole(self.drain / period), 1) if self.skips else period


class Source(NamedTuple):
    """A store that holds the step in question: the positions whose shard it has lost, and what is gone with nodes.

    A position in ``gone`` has lost its own copy, and reads that of another one.
    """

    rung: Rung
    lacks: frozenset[int]
    gone: frozenset[int]


class Reading(NamedTuple):
    """How a step is read: the time of the slowest node [s], its store, and all stores that are read."""

    seconds: float
    store: StoreName
    stores: frozenset[StoreName]


def _last(nodes: int, clique: int, jump: int) -> tuple[int, int]:
    """Return the first position after the last whole block of cliques, and how many cliques follow."""
    first = nodes // (clique * jump) * clique * jump
    rest = nodes - first
    return first, rest // clique if rest >= clique else int(rest > 1)


def clique_of(position: int, nodes: int, clique: int, jump: int) -> int:
    """Return the number of the clique that holds the shard of a position.

    A block of ``clique * jump`` positions has `jump` cliques, whose members lie `jump` apart. What is left at the end
    forms cliques of neighbours, of which the last takes the rest; one node alone joins the clique before it.
    """
    first, more = _last(nodes, clique, jump)
    if position < first:
        block, place = divmod(position, clique * jump)
        return block * jump + place % jump
    before = first // clique
    if not more:
        return max(before - 1, 0)
    return before + min((position - first) // clique, more - 1)


def cliques(nodes: int, clique: int, jump: int) -> tuple[tuple[int, ...], ...]:
    """Return the positions of every clique."""
    members: dict[int, list[int]] = {}
    for position in range(nodes):
        members.setdefault(clique_of(position, nodes, clique, jump), []).append(position)
    return tuple(tuple(members[number]) for number in sorted(members))


def _size(number: int, nodes: int, clique: int, jump: int) -> int:
    """Return how many positions a clique has."""
    first, more = _last(nodes, clique, jump)
    before = first // clique
    if number < before:
        return clique + (nodes - first if not more and number == before - 1 else 0)
    if not before and not more:
        return nodes
    return clique if number < before + more - 1 else nodes - first - (more - 1) * clique


def _dead(rung: Rung, gone: frozenset[int], nodes: int) -> frozenset[int]:
    """Return the positions of the cliques that have lost every member."""
    by_clique: dict[int, list[int]] = {}
    for position in gone:
        by_clique.setdefault(clique_of(position, nodes, rung.clique, rung.jump), []).append(position)
    return frozenset(
        itertools.chain.from_iterable(
            members
            for number, members in by_clique.items()
            if len(members) == _size(number, nodes, rung.clique, rung.jump)
        )
    )


def missing(rung: Rung, damage: Damage, nodes: int, replicas: int) -> Source | None:
    """Return what a store has lost, or ``None`` if nothing of it is left."""
    if rung.store == "remote":
        return Source(rung, frozenset(), frozenset())
    if damage.keeps == "stores":
        return None
    gone = damage.lost if rung.store == "disk" else damage.lost | damage.rebooted
    lacks = _dead(rung, gone, nodes) if rung.store == "peer-host" else gone
    if rung.every_replica and len({position * replicas // nodes for position in lacks}) < replicas:
        lacks = frozenset()
    return Source(rung, lacks, gone) if len(lacks) < nodes else None


def read(sources: Iterable[Source], damaged: frozenset[int], nodes: int) -> Reading | None:
    """Return how a step that all of `sources` hold is read, each shard from the quickest; ``None`` if one is nowhere.

    Only the nodes in `damaged` may have lost something.
    """
    sources = tuple(sources)
    shared = frozenset.intersection(*(source.lacks for source in sources))
    if shared:
        return None
    slowest, store, stores = -1.0, sources[0].rung.store, set()
    # Nodes that have lost nothing all read alike.
    for position in itertools.chain(damaged, (-1,) if len(damaged) < nodes else ()):
        seconds, best = min(
            (
                source.rung.fetch if position in source.gone else source.rung.load,
                index,
            )
            for index, source in enumerate(sources)
            if position not in source.lacks
        )
        name = sources[best].rung.store
        stores.add(name)
        if seconds > slowest:
            slowest, store = seconds, name
    return Reading(slowest, store, frozenset(stores))
