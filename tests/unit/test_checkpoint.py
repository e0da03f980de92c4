"""Closed-form progress: against single saves, against hand-worked numbers, and the rules for the interval."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from ettrick.sim.formulas.goodput import daly_interval, optimal_interval, young_interval
from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint, Periodic, StorePlan, Tiers, cliques
from ettrick.sim.policies.checkpoint.ladder import choose
from ettrick.sim.policies.checkpoint.stores import RestoreSource, StoredCheckpoints, clique_of, missing
from ettrick.sim.policies.contracts import CheckpointState, Damage, Pace
from ettrick.sim.scenario.fields import RuleError
from tests.cases import cases
from tests.checkpoint_checks import check_checkpoint
from tests.pace import one_in

FREE = Pace(1.0)

"""Continuous progress at the healthy pace."""


def tier(**changes: Any) -> Tiers:
    """Validate one tier as a file would be."""
    base = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return Tiers.model_validate({"tiers": [base | changes]})


@pytest.mark.parametrize("step", one_in(3, [0.0, 7.0, 30.0, 100.0, 130.0]), ids=lambda step: f"step {step:g} s")
@pytest.mark.parametrize(
    "periodic",
    [
        Periodic(interval=100.0, stall=10.0, drain=0.0, load=20.0),
        Periodic(interval=100.0, stall=0.0, drain=0.0, load=0.0),
        Periodic(interval=100.0, stall=2.0, drain=60.0, load=20.0),
        Periodic(interval=100.0, stall=0.0, drain=99.0, load=20.0),
        Periodic(interval=100.0, stall=3.0, drain=100.0, load=20.0),
        Periodic(interval=100.0, stall=5.0, drain=250.0, load=20.0),
        Periodic(interval=100.0, stall=150.0, drain=40.0, load=20.0),
    ],
    ids=["blocking", "free", "drain 60", "drain 99", "drain = interval", "drain 250", "long stall"],
)
def test_closed_form(periodic: Periodic, step: float) -> None:
    """Every kind of periodic save is conserved, monotone, additive and equal to stepping one save at a time."""
    check_checkpoint(periodic, step)


def test_a_rollback_to_peers_loses_the_step_in_flight() -> None:
    """At 65 s with steps of 30 s, two steps survive with the peers, and none in the store."""
    periodic = Periodic(100.0, 10.0, 0.0, 20.0)
    pace = Pace(1.0, 30.0)
    state, _, _ = periodic.advance(CheckpointState(), pace, 65.0)
    assert periodic.restore(state, pace, Damage("live")).state == CheckpointState(at_risk=60.0, position=60.0)
    assert periodic.restore(state, pace, Damage("hosts")).state == CheckpointState()
    # In the stall nothing is in flight; the cycle begins again, because the save was not finished.
    state, _, _ = periodic.advance(CheckpointState(), pace, 125.0)
    assert periodic.restore(state, pace, Damage("live")).state == CheckpointState(at_risk=120.0, position=120.0)


def test_every_k_steps() -> None:
    """'every 20 steps' is 20 healthy steps, and needs the time of one."""
    assert tier(interval="every 20 steps").build(math.inf, 3.0).interval == 60.0
    assert tier(interval="every 1 step").build(math.inf, 3.0).interval == 3.0
    with pytest.raises(ValueError, match="needs the time of a step"):
        tier(interval="every 20 steps").build(math.inf, 0.0)


@cases(("mode", "stall"), [("blocking", 10.0), ("async", 4.0)])
def test_rules_balance_the_stall(mode: str, stall: float) -> None:
    """The rules are those of theory, on what a save stops the job for: the write, or the stall of an async save."""
    more = {"stall": "4 s"} if mode == "async" else {}
    for rule, theory in (("young", young_interval), ("daly", daly_interval), ("optimal", optimal_interval)):
        built = tier(mode=mode, interval=rule, **more).build(3600.0, 0.0)
        assert built.interval == pytest.approx(theory(stall, 3600.0), rel=1e-12)
        assert (built.stall, built.drain) == (stall, 0.0 if mode == "blocking" else 10.0)
    lengths = [tier(interval=rule).build(600.0, 0.0).interval for rule in ("young", "daly", "optimal")]
    assert len(set(lengths)) == 3, "three rules"


# ----------------------------------------
# Which copy survives what, shard by shard: cliques, replicas, and the published chance that memory has a copy left.


def rung(store: Any, **changes: Any) -> StorePlan:
    """Return a store with free saves every 10 s; it reads in as many seconds as its name has letters."""
    interval = 0.0 if store == "peer" else 10.0
    return StorePlan(store, interval, 0.0, 0.0, float(len(store)), 2.0 * len(store), retain=1)._replace(**changes)


def survives(one: StorePlan, lost: tuple[int, ...], nodes: int, replicas: int = 1, **more: Any) -> bool:
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
    ladder = MultiLevelCheckpoint(
        (rung("host"), rung("peer-host"), rung("disk"), rung("remote", interval=5.0, retain=None)), (), 4
    )
    state, _, _ = ladder.advance(ladder.begin, FREE, 42.0)
    inside = MultiLevelCheckpoint((*ladder.rungs[:3], rung("remote", interval=15.0)), (), 4)
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
    ladder = MultiLevelCheckpoint((every, rung("remote", interval=1e6)), (), 8, 2)
    state, _, _ = ladder.advance(ladder.begin, FREE, 42.0)
    assert ladder.restore(state, FREE, Damage("hosts", frozenset({1}))).seconds == 8.0


def test_an_unreadable_copy_behind_the_newest_is_passed_over() -> None:
    """The newest checkpoint is too new and known to be good, the next cannot be read: the one before it is."""
    rung = StorePlan("remote", 10.0, 0.0, 0.0, 5.0, 5.0, corrupt=0.5, retain=5)
    one = RestoreSource(rung, frozenset(), frozenset())

    def mark(purpose: str) -> float:
        return 0.0 if purpose.endswith(" 2") else 1.0

    found = choose([one], [StoredCheckpoints(100.0, 5, True)], [10.0], frozenset(), 1, 80.0, mark)
    assert (found.work, found.seconds) == (70.0, 10.0)


# ----------------------------------------
# A ladder of stores as a user describes it: times from bandwidths, defaults, and what cannot be meant.

REMOTE = {"interval": "10 min", "write": "60 s", "restore": "20 s"}

HOST = {"store": "host", "interval": "every 2 steps", "stall": "10 ms", "write": "1 s", "restore": "4 s"}

FAST = {"store": "peer-host", "interval": "1 min", "node_bandwidth": "10 GB/s"}

STORE = {"interval": "1 h", "node_bandwidth": "10 GB/s", "aggregate": "50 GB/s"}


def tiers(*stores: dict[str, Any], **more: Any) -> Tiers:
    """Validate a ladder as a file would be."""
    return Tiers.model_validate({"tiers": list(stores)} | more)


def test_times_from_bandwidths() -> None:
    """1.6 TB of 8 nodes at 10 GB/s each: 20 s; a store of 50 GB/s takes 64 s with half of it, and gives in 32 s."""
    ladder = tiers(FAST | {"network": "5 GB/s"}, STORE | {"save_share": "50 %", "read_in": "3 s"}, size="1.6 TB").build(
        3600.0, 5.0, nodes=8
    )
    near, far = ladder.rungs
    assert (near.drain, near.load, near.fetch) == pytest.approx((20.0, 20.0, 40.0))
    assert (far.drain, far.load) == pytest.approx((64.0, 35.0))
    # Reading alone takes the nodes 20 s and the store 32 s.
    assert ladder.transfer == far.transfer == pytest.approx((20.0, 32.0))
    # Two nodes are the bottleneck themselves; the model's size counts if none is given.
    few = tiers(FAST, STORE).build(3600.0, 5.0, nodes=2, size=1.6e12)
    assert (few.rungs[0].fetch, few.rungs[1].drain, few.rungs[1].load) == pytest.approx((80.0, 80.0, 80.0))
    assert tiers(STORE, size="1.6 TB").build(3600.0, 5.0, nodes=8, size=1.0).load == pytest.approx(32.0)
    # Without a limit of a node the aggregate alone counts.
    alone = {"interval": "1 h", "aggregate": "50 GB/s"}
    built = tiers(alone).build(3600.0, 5.0, nodes=2, size=1.6e12)
    assert (built.load, built.transfer) == (pytest.approx(32.0), pytest.approx((0.0, 32.0)))
    assert tiers(REMOTE).build(3600.0, 5.0).transfer == (0.0, 0.0)


def test_what_is_written_is_read_again() -> None:
    """A ladder that is dumped, with all that was worked out left out, validates to itself."""
    ladder = tiers(HOST, FAST, {"store": "peer", "restore": "3 s"}, STORE, size="1 TB", from_preset=False)
    assert Tiers.model_validate(ladder.model_dump(mode="json")) == ladder


@cases(
    ("stores", "match"),
    [
        ([HOST], "has no 'store: remote'"),
        ([REMOTE, REMOTE], "'remote' is there already"),
        ([{"write": "60 s", "restore": "20 s"}], "say how much stepping"),
        ([{"interval": "1 h", "restore": "20 s"}], "give it, or node_bandwidth"),
        ([{"interval": "1 h", "write": "20 s"}], "give it, or node_bandwidth"),
        ([{"store": "peer"}, REMOTE], "give it, or node_bandwidth"),
        ([STORE | {"write": "1 s"}], "not both"),
        ([STORE | {"restore": "1 s"}], "not both"),
        ([REMOTE | {"read_in": "1 s"}], "takes this in"),
        ([REMOTE | {"clique": 3}], "is for store: peer-host; this one is remote"),
        ([REMOTE | {"every_replica": True}], "is for store: host, peer-host, disk"),
        ([HOST | {"jump": 2}, REMOTE], "is for store: peer-host"),
        ([HOST | {"aggregate": "1 GB/s"}, REMOTE], "is for store: remote"),
        ([HOST | {"save_share": "10 %"}, REMOTE], "is for store: remote"),
        ([STORE | {"network": "1 GB/s"}], "is for store: peer-host"),
        ([{"store": "peer-host", "interval": "1 h", "network": "1 GB/s"}, REMOTE], "is missing; network needs it"),
        ([{"store": "peer", "restore": "1 s", "interval": "1 h"}, REMOTE], "this one is peer"),
        ([{"store": "peer", "restore": "1 s", "corrupt": "1 %"}, REMOTE], "this one is peer"),
        ([REMOTE | {"corrupt": "100 %"}], "less than 1"),
        ([REMOTE | {"retain": 0}], "greater than or equal to 1"),
        ([FAST | {"clique": 1}, REMOTE], "greater than or equal to 2"),
    ],
)
def test_impossible_ladders(stores: list[dict[str, Any]], match: str) -> None:
    """What no ladder can mean is refused when it is read, in one line."""
    with pytest.raises(ValueError, match=match):
        tiers(*stores)


@cases(
    ("stores", "at", "match"),
    [
        ([HOST, REMOTE], ("tiers", 0, "interval"), "needs the time of a step"),
        ([REMOTE, HOST | {"interval": "young", "stall": "0 s"}], ("tiers", 1, "interval"), "saves are free"),
        ([FAST, REMOTE], ("tiers", 0, "node_bandwidth"), "needs the size of a checkpoint"),
        ([{"interval": "1 h", "aggregate": "1 GB/s"}], ("tiers", 0, "aggregate"), "needs the size of a checkpoint"),
    ],
)
def test_what_cannot_be_worked_out(stores: list[dict[str, Any]], at: tuple[str | int, ...], match: str) -> None:
    """What a job does not say is asked for at the key that needs it."""
    with pytest.raises(RuleError, match=match) as found:
        tiers(*stores).build(3600.0, 0.0)
    assert found.value.at == at


@cases("interval", [60.0, 100.0, 130.0])
def test_a_shorter_interval_in_the_middle_of_a_longer_one(interval: float) -> None:
    """When the pace changes while the position is beyond the new interval, no second is counted twice.

    Steps of 60 s round 100 s up to 120 s; after 115 s of those, steps of 10 s make the interval 100 s.
    """
    periodic = Periodic(100.0, 2.0, 0.0, 20.0)
    state, _, _ = periodic.advance(CheckpointState(), Pace(1.0, 60.0), 115.0)
    for span in (0.5, 1.0, interval):
        after, stepped, _ = periodic.advance(state, Pace(1.0, 10.0), span)
        assert 0 <= stepped <= span
        assert after.committed + after.at_risk == pytest.approx(115.0 + stepped, rel=1e-12)
