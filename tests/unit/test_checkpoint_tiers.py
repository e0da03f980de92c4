"""A ladder of stores as a user describes it: times from bandwidths, defaults, and what cannot be meant."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sim.policies.checkpoint import Ladder, Pause, Periodic, Tiers
from sim.scenario.fields import RuleError
from tests.cases import cases

REMOTE = {"interval": "10 min", "write": "60 s", "restore": "20 s"}
HOST = {"store": "host", "interval": "every 2 steps", "stall": "10 ms", "write": "1 s", "restore": "4 s"}
FAST = {"store": "peer-host", "interval": "1 min", "node_bandwidth": "10 GB/s"}
STORE = {"interval": "1 h", "node_bandwidth": "10 GB/s", "aggregate": "50 GB/s"}


def tiers(*stores: dict[str, Any], **more: Any) -> Tiers:
    """Validate a ladder as a file would be."""
    return Tiers.model_validate({"tiers": list(stores)} | more)


def test_a_plain_remote_store_takes_the_short_way() -> None:
    """One remote store without conditions is `Periodic`; any of them, and periodic work, make a `Ladder`."""
    assert tiers(REMOTE).build(3600.0, 1.0) == Periodic(600.0, 0.0, 60.0, 20.0)
    for extra in ({"retain": 3}, {"corrupt": "1 %"}, {"when_busy": "skip"}):
        assert isinstance(tiers(REMOTE | extra).build(3600.0, 1.0), Ladder)
    assert isinstance(tiers(REMOTE).build(3600.0, 1.0, periodic=[Pause(100.0, 0, 5.0)]), Ladder)
    assert isinstance(tiers(HOST, REMOTE).build(3600.0, 1.0), Ladder)


def test_a_ladder_in_numbers() -> None:
    """Each store has its own interval, stall and drain; one copy is kept in nodes, and all of them outside."""
    built = tiers(HOST, REMOTE | {"mode": "blocking"}, {"store": "peer", "restore": "3 s"}).build(
        3600.0, 5.0, nodes=6, replicas=3
    )
    assert isinstance(built, Ladder)
    assert (built.nodes, built.replicas) == (6, 3)
    host, remote, peer = built.rungs
    assert (host.interval, host.stall, host.drain, host.load, host.retain) == (10.0, 0.01, 1.0, 4.0, 1)
    assert (remote.interval, remote.stall, remote.drain, remote.load, remote.retain) == (600.0, 60.0, 0.0, 20.0, None)
    assert (peer.interval, peer.stall, peer.load) == (0.0, 0.0, 3.0)
    assert (built.interval, built.stall, built.drain, built.load) == (600.0, 60.0, 0.0, 20.0)


def test_rules_go_by_the_stall_of_their_own_store() -> None:
    """Young's interval of a store is sqrt(2 x stall x MTTI), whatever the others do."""
    built = tiers(HOST | {"interval": "young"}, REMOTE | {"interval": "young", "stall": "2 s"}).build(3600.0, 5.0)
    assert [rung.interval for rung in built.rungs] == pytest.approx([math.sqrt(7200 * stall) for stall in (0.01, 2.0)])


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


def test_every_replica_reads_and_writes_all_of_it() -> None:
    """Four replicas that each hold the whole state move four times as much."""
    for every, times in ((False, 1.0), (True, 4.0)):
        built = tiers(FAST | {"every_replica": every}, REMOTE).build(3600.0, 5.0, nodes=8, replicas=4, size=1.6e12)
        assert built.rungs[0].load == pytest.approx(20.0 * times)


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
        (
            [{"store": "peer-host", "interval": "1 h", "network": "1 GB/s"}, REMOTE],
            "is missing beside network",
        ),
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
