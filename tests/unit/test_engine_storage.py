"""Stores that cannot be read for a while, by hand: who waits for them, and from when on.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s it
has done 250 s of work, 200 s of them durable. A restart takes 30 s and a restore 20 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import NEVER, cause, nodes

if TYPE_CHECKING:
    import sim

EXACT = 1e-9
HOST: dict[str, Any] = {"store": "host", "interval": "10 s", "mode": "async", "write": "0 s", "restore": "1 s"}
REMOTE: dict[str, Any] = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}


def storage(out: Any, name: str = "storage", **more: Any) -> dict[str, Any]:
    """Return a source of faults of storage that strikes only where a trace says so."""
    return {"use": "job", "name": name, "law": NEVER["law"], "fault": "storage", "store_out": out, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


@cases(("out", "waits"), [("0 s", 0), ("25 s", 0), ("30 s", 0), ("31 s", 1), ("100 s", 70)])
@cases("retain", [None, 9])
def test_a_restore_waits_for_its_store(out: str, waits: float, retain: int | None) -> None:
    """Processes are up at 330 s: what is left of the outage then is waited for, and charged to restore."""
    tier = REMOTE if retain is None else {**REMOTE, "retain": retain}
    one = case(storage(out), checkpoint={"tiers": [tier]})
    result = play(one, [(300, 0, 0)])
    assert losses(one, result)["restore", "storage"] == pytest.approx(20 + waits, abs=EXACT)
    assert losses(one, result)["initialize", "storage"] == pytest.approx(30.0, abs=EXACT)
    assert losses(one, result)["lost_work", "storage"] == pytest.approx(50.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    assert sum(seconds(result).values()) == pytest.approx(1000.0, abs=EXACT)


def test_the_outage_counts_from_the_failure() -> None:
    """Known at 350 s and initialized at 380 s: 20 s of 100 s are left."""
    one = case(storage("100 s"), detection={"time": "50 s"})
    table = losses(one, play(one, [(300, 0, 0)]))
    assert table["detection", "storage"] == pytest.approx(50.0, abs=EXACT)
    assert table["restore", "storage"] == pytest.approx(20 + 20.0, abs=EXACT)


def test_an_outage_that_is_over_before_the_nodes_are_there_costs_nothing() -> None:
    """A node crashes at 305 s, and no other is there until 505 s: by then the store is back."""
    one = case(storage("100 s"), cause("crash"), cluster=nodes(2))
    table = losses(one, play(one, [(300, 0, 0), (305, 1, 0)]))
    assert table["starved", "crash"] == pytest.approx(200.0, abs=EXACT)
    assert table["restore", "crash"] == pytest.approx(20.0, abs=EXACT)


def test_an_outage_may_outlast_a_wait_for_nodes() -> None:
    """The store is back at 600 s; the node at 505 s, and the processes at 535 s."""
    one = case(storage("300 s"), cause("crash"), cluster=nodes(2))
    table = losses(one, play(one, [(300, 0, 0), (305, 1, 0)]))
    assert table["starved", "crash"] == pytest.approx(200.0, abs=EXACT)
    assert table["restore", "crash"] == pytest.approx(65 + 20.0, abs=EXACT)


@cases(("again", "waited"), [("10 s", 10.0), ("50 s", 20.0), ("200 s", 170.0)])
def test_of_two_outages_the_one_that_ends_later_counts(again: str, waited: float) -> None:
    """The first one lasts to 400 s; the second, at 360 s, in the wait for the store, to 370, 410 or 560 s.

    The first restart waits from 330 to 360 s; the second is at its restore at 390 s.
    """
    one = case(storage("100 s"), storage(again, "second"))
    table = losses(one, play(one, [(300, 0, 0), (360, 1, 0)]))
    assert table["restore", "storage"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "second"] == pytest.approx(waited + 20.0, abs=EXACT)


def test_a_second_fault_of_another_kind_waits_for_what_is_left() -> None:
    """A crash at 340 s starts the restart again: at 370 s there are 30 s of the first outage left."""
    one = case(storage("100 s"), cause("crash"))
    table = losses(one, play(one, [(300, 0, 0), (340, 1, 0)]))
    assert table["restore", "storage"] == pytest.approx(10.0, abs=EXACT)
    assert table["restore", "crash"] == pytest.approx(30 + 20.0, abs=EXACT)


def test_memory_can_be_read() -> None:
    """The hosts hold 250 s of work in a save that began at 300 s; nobody asks the store. The next crash does."""
    one = case(storage("1000 s"), cause("crash"), checkpoint={"tiers": [HOST, REMOTE]})
    result = play(one, [(305, 0, 0)])
    assert losses(one, result)["restore", "storage"] == pytest.approx(1.0, abs=EXACT)
    assert result.jobs[0].restores == {"host": 1}
    # What a node held in memory goes with it: at 336 s the job steps again, and at 350 s the store is still out.
    table = losses(one, play(one, [(305, 0, 0), (350, 1, 0)]))
    assert table["restore", "crash"] == pytest.approx(1000 - 380.0, abs=EXACT), "to the horizon"


def test_who_has_nothing_to_read_does_not_wait() -> None:
    """Before the first save the job begins anew."""
    one = case(storage("500 s"))
    result = play(one, [(100, 0, 0)])
    assert "restore" not in seconds(result)
    assert result.jobs[0].restores == {}


def test_a_job_that_comes_from_the_queue_waits_too() -> None:
    """Eligible at 340 s, initialized at 370 s; the store is back at 400 s."""
    restart = {"use": "full-restart", "delay": "40 s", "initialize": "30 s"}
    one = case(storage("100 s"), recovery=restart)
    table = losses(one, play(one, [(300, 0, 0)]))
    assert table["reschedule", "storage"] == pytest.approx(40.0, abs=EXACT)
    assert table["restore", "storage"] == pytest.approx(30 + 20.0, abs=EXACT)


def test_an_outage_may_be_random() -> None:
    """It belongs to its failure: it repeats, and differs between replications."""
    one = case(storage({"law": "uniform", "low": "50 s", "high": "150 s"}))
    waits = [losses(one, play(one, [(300, 0, 0)], replication=number))["restore", "storage"] for number in range(6)]
    assert all(20 + 20 <= wait <= 20 + 120 for wait in waits)
    assert len(set(waits)) == 6
    assert waits[0] == losses(one, play(one, [(300, 0, 0)]))["restore", "storage"]
