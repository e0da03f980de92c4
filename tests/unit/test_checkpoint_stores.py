"""Which copy survives what, shard by shard: cliques, replicas, and the published chance that memory has a copy left."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sim.policies.checkpoint import Ladder, Rung, cliques
from sim.policies.checkpoint.ladder import choose
from sim.policies.checkpoint.stores import STORES, Shelf, Source, clique_of, missing
from sim.policies.contracts import Damage, Pace
from tests.cases import cases
from tests.intervals import Z

FREE = Pace(1.0)


def rung(store: Any, **changes: Any) -> Rung:
    """Return a store with free saves every 10 s; it reads in as many seconds as its name has letters."""
    interval = 0.0 if store == "peer" else 10.0
    return Rung(store, interval, 0.0, 0.0, float(len(store)), 2.0 * len(store), retain=1)._replace(**changes)


def survives(one: Rung, lost: tuple[int, ...], nodes: int, replicas: int = 1, **more: Any) -> bool:
    """Return whether a copy is whole after the loss of some nodes."""
    left = missing(one, Damage("hosts", frozenset(lost), **more), nodes, replicas)
    return left is not None and not left.lacks


@cases(
    ("nodes", "clique", "jump", "groups"),
    [
        (4, 2, 1, ((0, 1), (2, 3))),
        (8, 2, 2, ((0, 2), (1, 3), (4, 6), (5, 7))),
        (12, 3, 2, ((0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11))),
        # What is left: neighbours, and the last clique takes the rest.
        (7, 2, 2, ((0, 2), (1, 3), (4, 5, 6))),
        (5, 2, 1, ((0, 1), (2, 3, 4))),
        (11, 3, 2, ((0, 2, 4), (1, 3, 5), (6, 7, 8, 9, 10))),
        (8, 3, 1, ((0, 1, 2), (3, 4, 5), (6, 7))),
        # One alone joins those before it.
        (9, 2, 2, ((0, 2), (1, 3), (4, 6), (5, 7, 8))),
        (3, 4, 1, ((0, 1, 2),)),
        (1, 2, 1, ((0,),)),
    ],
)
def test_cliques_by_hand(nodes: int, clique: int, jump: int, groups: tuple[tuple[int, ...], ...]) -> None:
    """Members lie `jump` apart; the rest at the end forms cliques of neighbours, and nobody is alone."""
    assert cliques(nodes, clique, jump) == groups


@cases("clique", [2, 3, 4])
@cases("jump", [1, 2, 5])
def test_cliques_share_out_the_nodes(clique: int, jump: int) -> None:
    """Every node is in one clique, of at least two; a copy is lost exactly when all of a clique are."""
    one = rung("peer-host", clique=clique, jump=jump)
    for nodes in range(2, 45):
        groups = cliques(nodes, clique, jump)
        assert sorted(itertools.chain(*groups)) == list(range(nodes))
        assert min(map(len, groups)) >= 2
        assert [clique_of(group[0], nodes, clique, jump) for group in groups] == list(range(len(groups)))
        for group in groups:
            others = tuple(set(range(nodes)) - set(group))
            assert not survives(one, group, nodes)
            assert survives(one, group[1:], nodes)
            assert survives(one, group[:-1], nodes)
            assert len(groups) == 1 or not survives(one, others, nodes)


def test_gemini_bound_by_counting() -> None:
    """Of 16 machines in pairs, two lose no copy in 112 of 120 cases: the published bound, 0.933, exact here."""
    one = rung("peer-host")
    pairs = list(itertools.combinations(range(16), 2))
    left = sum(survives(one, pair, 16) for pair in pairs) / len(pairs)
    bound = 1 - 16 * math.comb(14, 0) / (2 * math.comb(16, 2))
    assert left == bound == pytest.approx(0.933, abs=5e-4)
    # Fewer losses than members never take a copy.
    assert all(survives(rung("peer-host", clique=3), pair, 16) for pair in pairs)


def test_gemini_bound_by_sampling() -> None:
    """Of 1024 machines in pairs, four lose no copy with 0.994: bound, exact count and draws agree."""
    one = rung("peer-host")
    bound = 1 - 1024 * math.comb(1022, 2) / (2 * math.comb(1024, 4))
    exact = math.comb(512, 4) * 2**4 / math.comb(1024, 4)
    assert bound == pytest.approx(0.994, abs=5e-4)
    assert bound <= exact <= bound + math.comb(512, 2) / math.comb(1024, 4) * (1 + 1e-9)
    generator = np.random.default_rng(4)
    draws = 20_000
    left = sum(survives(one, tuple(generator.choice(1024, size=4, replace=False).tolist()), 1024) for _ in range(draws))
    assert abs(left / draws - exact) <= Z * math.sqrt(exact * (1 - exact) / draws)


# Stores that are left after an event of node 2 of 8, in cliques of two neighbours.
EVENTS = {
    "process": (Damage("processes", live=True), {"peer", "host", "peer-host", "disk", "remote"}),
    "process of every replica": (Damage("processes"), {"host", "peer-host", "disk", "remote"}),
    "restart of the processes": (Damage("hosts", live=True), {"host", "peer-host", "disk", "remote"}),
    "reboot": (Damage("hosts", rebooted=frozenset({2})), {"peer-host", "disk", "remote"}),
    "reboot of a clique": (Damage("hosts", rebooted=frozenset({2, 3})), {"disk", "remote"}),
    "other node": (Damage("hosts", lost=frozenset({2})), {"peer-host", "remote"}),
    "loss of half a clique, reboot of the rest": (Damage("hosts", frozenset({2}), frozenset({3})), {"remote"}),
    "rack": (Damage("hosts", lost=frozenset({0, 1, 2, 3})), {"remote"}),
    "every other node": (Damage("hosts", lost=frozenset({0, 2, 4, 6})), {"peer-host", "remote"}),
    "requeue": (Damage("stores"), {"remote"}),
}


@cases("event", EVENTS)
@cases("store", STORES)
def test_what_survives_what(store: str, event: str) -> None:
    """A store that survives is read from: beside a remote store that has nothing yet, or the job starts anew."""
    damage, left = EVENTS[event]
    far = rung("remote") if store == "remote" else rung("remote", interval=1e6)
    ladder = Ladder((far,) if store == "remote" else (rung(store), far), (), 8)
    pace = Pace(1.0, 5.0)
    state, _, _ = ladder.advance(ladder.begin, pace, 33.0)
    found = ladder.restore(state, pace, damage)
    assert (found.state.work > 0) == (store in left)
    assert found.store == (store if store in left else "remote")


@cases(
    ("lost", "rebooted", "seconds", "store"),
    [
        ((), (), 4.0, "host"),
        # Node 0 reads from node 1, the others from their own memory.
        ((0,), (), 18.0, "peer-host"),
        ((), (0,), 4.0, "disk"),
        ((0,), (3,), 18.0, "peer-host"),
        # Nobody has the shards of nodes 0 and 1 but their disks, and those are gone with a node.
        ((), (0, 1), 4.0, "disk"),
        ((0,), (1,), 6.0, "remote"),
    ],
)
def test_each_node_reads_the_quickest(
    lost: tuple[int, ...], rebooted: tuple[int, ...], seconds: float, store: str
) -> None:
    """Stores that hold the same step are read shard by shard, and the slowest node makes the restore."""
    ladder = Ladder((rung("host"), rung("peer-host"), rung("disk"), rung("remote", interval=5.0, retain=None)), (), 4)
    state, _, _ = ladder.advance(ladder.begin, FREE, 42.0)
    inside = Ladder((*ladder.rungs[:3], rung("remote", interval=15.0)), (), 4)
    apart, _, _ = inside.advance(inside.begin, FREE, 42.0)
    damage = Damage("hosts", frozenset(lost), frozenset(rebooted))
    found = inside.restore(apart, FREE, damage)
    assert (found.seconds, found.store) == (seconds, store)
    assert found.state.work == (30.0 if store == "remote" else 40.0)
    # With a remote copy of the same step nobody waits longer than for that.
    assert ladder.restore(state, FREE, damage).seconds == min(seconds, 6.0)


def test_one_replica_is_enough_if_each_holds_everything() -> None:
    """Eight nodes in two replicas: a copy in memory survives while one of them is whole."""
    shared, every = rung("host"), rung("host", every_replica=True)
    for lost, left in (((1,), True), ((0, 1, 2, 3), True), ((1, 5), False)):
        assert survives(every, lost, 8, 2) == left
        assert not survives(shared, lost, 8, 2)
    assert not survives(every, (1,), 8, 1)
    # In cliques, a replica is whole while each of its cliques has a member left.
    paired = rung("peer-host", every_replica=True)
    assert survives(paired, (0, 1, 2), 8, 2)
    assert survives(paired, (0, 1, 4), 8, 2)
    assert not survives(paired, (0, 1, 4, 5), 8, 2)
    # Nodes without a copy of their own fetch it.
    ladder = Ladder((every, rung("remote", interval=1e6)), (), 8, 2)
    state, _, _ = ladder.advance(ladder.begin, FREE, 42.0)
    assert ladder.restore(state, FREE, Damage("hosts", frozenset({1}))).seconds == 8.0


def test_an_unreadable_copy_behind_the_newest_is_passed_over() -> None:
    """The newest checkpoint is too new and known to be good, the next cannot be read: the one before it is."""
    rung = Rung("remote", 10.0, 0.0, 0.0, 5.0, 5.0, corrupt=0.5, retain=5)
    one = Source(rung, frozenset(), frozenset())

    def mark(purpose: str) -> float:
        return 0.0 if purpose.endswith(" 2") else 1.0

    found = choose([one], [Shelf(100.0, 5, True)], [10.0], frozenset(), 1, 80.0, mark)
    assert (found.work, found.seconds) == (70.0, 10.0)
