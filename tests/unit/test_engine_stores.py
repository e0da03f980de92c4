"""Restores of several jobs from one store, by hand: they share what it can give.

Jobs of two nodes start to step after 30 s, and save 1 GB every 100 s of stepping while they step on. The store gives
10 MB/s in all, so that a job which reads alone takes 100 s. A restart takes 30 s: whoever fails at 1000 s reads from
1030 s on.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.failures.source import CONTENTION
from ettrick.sim.policies.contracts import Acquire, Background, Bucket, Restore, Run, Stall
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds, trace
from tests.intervals import Z
from tests.unit.test_detection_race import preemption
from tests.unit.test_effects import NEVER, cause, nodes
from tests.unit.test_plan_steps import Scripted, elastic

if TYPE_CHECKING:
    from collections.abc import Sequence

# ----------------------------------------
# From which store a job comes back, by hand: what is left of each after what has happened to the nodes.
#
# A job of four nodes, one replica, steps from 30 s on and saves to the memory of its own hosts every 10 s, to that of
# its
# clique of two every 20 s, to its disks every 50 s, all at no cost, and to the remote store every 100 s, for 10 s. At
# 305 s it has done 255 s of work: copies hold 250, 240, 250 and 200 s of it. To read them takes 1, 2, 5 and 20 s. A
# restart takes 30 s.

EXACT = 1e-9

HOST: dict[str, Any] = {"store": "host", "interval": "10 s", "mode": "async", "write": "0 s", "restore": "1 s"}

CLIQUE: dict[str, Any] = {**HOST, "store": "peer-host", "interval": "20 s", "restore": "2 s"}

DISK: dict[str, Any] = {**HOST, "store": "disk", "interval": "50 s", "restore": "5 s"}

REMOTE: dict[str, Any] = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}

PEER: dict[str, Any] = {"store": "peer", "restore": "3 s"}


def software(name: str = "software", **more: Any) -> dict[str, Any]:
    """Return a source of failures of the job as a whole that strikes only where a trace says so."""
    return {"use": "job", "name": name, "law": NEVER["law"], **more}


def case(*sources: dict[str, Any], tiers: tuple[dict[str, Any], ...], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    base: dict[str, Any] = {
        "cluster": nodes(8),
        "jobs": [{"name": "job", "gpus": 4}],
        "failures": list(sources),
        "checkpoint": {"tiers": list(tiers)},
    }
    return prepared(**{**base, **changes})


def check(result: sim.Result, store: str, lost: float, restore: float) -> None:
    """The job came back once, from a store, and lost some work [s]."""
    found = seconds(result)
    assert result.jobs[0].restores == {store: 1}
    assert found["lost_work"] == pytest.approx(lost, abs=EXACT)
    assert found["restore"] == pytest.approx(restore, abs=EXACT)
    assert found["productive"] == pytest.approx(result.jobs[0].work, abs=EXACT)
    assert sum(found.values()) == pytest.approx(1000.0, abs=EXACT)


ALL = (HOST, CLIQUE, DISK, REMOTE)


@cases(
    ("tiers", "store", "lost", "restore"),
    [(ALL, "host", 5, 1), ((DISK, REMOTE), "disk", 5, 5), ((CLIQUE, REMOTE), "peer-host", 15, 2)],
)
def test_a_failure_of_processes_leaves_all_copies(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """The newest copy is read, and of two with the same step the quicker one."""
    check(play(case(software(), tiers=tiers), [(305, 0, 0)]), store, lost, restore)


@cases(("tiers", "store", "lost", "restore"), [(ALL, "peer-host", 15, 2), ((HOST, DISK, REMOTE), "remote", 55, 20)])
def test_a_node_that_is_swapped_takes_its_copies_with_it(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """Its shard is left in the clique, or else in the remote store only."""
    check(play(case(cause("crash"), tiers=tiers), [(305, 0, 1)]), store, lost, restore)


@cases(("other", "store", "lost", "restore"), [(2, "peer-host", 15, 2), (1, "remote", 55, 20)])
def test_two_nodes_at_once(other: int, store: str, lost: float, restore: float) -> None:
    """Nodes 0 and 1 are a clique, and so are 2 and 3."""
    one = case(cause("crash"), tiers=ALL, detection={"time": "10 s"})
    check(play(one, [(305, 0, 0), (305, 0, other)]), store, lost, restore)


def test_two_nodes_in_two_incidents() -> None:
    """The job steps again from 337 s on: what the first node held has been restored to its place.

    At 350 s it has done 253 s; the clique of both has copies of 240 s only.
    """
    one = case(cause("crash"), cause("second"), tiers=ALL)
    result = play(one, [(305, 0, 0), (350, 1, 1)])
    assert result.jobs[0].restores == {"peer-host": 2}
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(15.0, abs=EXACT)
    assert losses(one, result)["lost_work", "second"] == pytest.approx(13.0, abs=EXACT)


@cases(
    ("tiers", "store", "lost", "restore"),
    [(ALL, "disk", 5, 5), ((HOST, CLIQUE, REMOTE), "peer-host", 15, 2), ((HOST, REMOTE), "remote", 55, 20)],
)
def test_a_node_that_starts_anew_keeps_its_disk(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """It stays in the job with an empty memory."""
    one = case(cause("crash", damage="reboot", repair="0 s"), tiers=tiers)
    result = play(one, [(305, 0, 1)])
    check(result, store, lost, restore)
    assert result.down_node_seconds == 0.0


@cases(("tiers", "store", "lost", "restore"), [(ALL, "disk", 5, 5), ((HOST, CLIQUE, REMOTE), "remote", 55, 20)])
def test_a_failure_of_the_job_may_start_all_its_nodes_anew(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """No memory is left anywhere, not even in a clique."""
    check(play(case(software(damage="reboot"), tiers=tiers), [(305, 0, 0)]), store, lost, restore)


def test_the_queue_leaves_only_the_remote_store() -> None:
    """Nodes that were given back hold nothing of the job, even if they are the same ones."""
    one = case(software(), tiers=ALL, recovery={"use": "full-restart", "initialize": "30 s"})
    check(play(one, [(305, 0, 0)]), "remote", 55, 20)


def in_process(*sources: dict[str, Any], replicas: int = 2) -> tuple[sim.Prepared, Scripted]:
    """Return a job of four nodes in two replicas, and a strategy that keeps the processes of those who have not failed.

    With steps of 7 s and saves every 98 s: at 305 s 255 s have been stepped, 252 s of them in whole steps.
    """
    one = case(
        *sources,
        tiers=(PEER, {**REMOTE, "interval": "98 s"}),
        jobs=[
            {"name": "job", "gpus": 4, "step_time": "7 s", "parallelism": {"data": replicas, "tensor": 4 // replicas}}
        ],
        recovery={"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
    )
    plan = (Acquire(), Stall(Bucket.INITIALIZE, 30.0), Restore("processes"), Run())
    return one, Scripted(plan, begin=(Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run()))


@cases(
    ("rows", "sources", "store", "lost", "restore"),
    [
        ([(305, 0, 0)], [software()], "peer", 3, 3),
        ([(305, 0, 1)], [cause("crash")], "peer", 3, 3),
        ([(305, 0, 0), (305, 0, 1)], [cause("crash", detection="1 s")], "peer", 3, 3),
        ([(305, 0, 0), (305, 0, 2)], [cause("crash", detection="1 s")], "remote", 59, 20),
        ([(305, 0, 0)], [software(damage="reboot")], "remote", 59, 20),
        ([(305, 0, 0)], [cause("crash", damage="reboot", repair="0 s")], "peer", 3, 3),
    ],
    ids=["processes", "one node", "one replica", "both replicas", "all start again", "one starts again"],
)
def test_a_replica_that_has_lost_nothing_holds_the_last_step(
    rows: list[tuple[float, ...]], sources: list[dict[str, Any]], store: str, lost: float, restore: float
) -> None:
    """A step of 7 s in flight is lost; without such a replica the newest copy is that of 196 s."""
    one, recovery = in_process(*sources)
    check(play(one, rows, recovery), store, lost, restore)


@cases(("dead", "store", "lost", "restore"), [(1, "peer", 3, 3), (3, "peer", 3, 3), (4, "remote", 59, 20)])
@cases("use", ["scripted", "ladder"])
def test_processes_of_several_replicas_end_before_anybody_knows(
    dead: int, store: str, lost: float, restore: float, use: str
) -> None:
    """Their nodes stay, without the state of training; one of the four replicas has to be left with it."""
    rungs = [{"name": "in-process", "keeps": "processes", "launch": "30 s"}]
    one, recovery = in_process(cause("crash", repair="0 s", detection="10 s"), replicas=4)
    ladder = replace(one, recovery=prepared(recovery={"use": "ladder", "rungs": rungs}).recovery)
    rows = [(305.0 + number, 0, number) for number in range(dead)]
    result = play(one, rows, recovery) if use == "scripted" else play(ladder, rows)
    check(result, store, lost, restore)
    assert result.down_node_seconds == 0.0


def test_a_job_of_one_replica_has_no_live_peer() -> None:
    """Who keeps its processes reads the newest copy all the same: nobody else has held what the dead one did."""
    rungs = [{"name": "in-process", "keeps": "processes", "launch": "30 s"}]
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 1, "tensor": 4}}]
    one = case(software(), tiers=(PEER, REMOTE), jobs=jobs, recovery={"use": "ladder", "rungs": rungs})
    check(play(one, [(305, 0, 0)]), "remote", 55, 20)


@cases(
    ("tiers", "store", "lost", "restore"),
    [((REMOTE,), "remote", 55, 20), ((HOST, REMOTE), "remote", 55, 20), ((HOST, DISK, PEER, REMOTE), "disk", 5, 5)],
)
def test_nobody_shrinks_when_all_nodes_have_started_anew(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """No replica has the last step: all restart from a copy. Had only processes ended, three would have stepped on."""
    shrink = {"use": "shrink-rejoin", "reconfigure": "5 s", "initialize": "30 s"}
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 4}}]
    one = case(software(damage="reboot"), tiers=tiers, jobs=jobs, recovery=shrink)
    check(play(one, [(305, 0, 0)]), store, lost, restore)
    shrunk = seconds(play(case(software(), tiers=tiers, jobs=jobs, recovery=shrink), [(305, 0, 0)]))
    assert "lost_work" not in shrunk
    assert "restore" not in shrunk


def test_after_a_restore_from_outside_nobody_holds_the_state_until_it_steps() -> None:
    """The first restart reads the remote store; a failure in it finds no live replica."""
    sources = [cause("crash", detection="1 s"), software()]
    one, recovery = in_process(*sources)
    result = play(one, [(305, 0, 0), (305, 0, 2), (340, 1, 0)], recovery)
    assert result.jobs[0].restores == {"remote": 1}
    assert losses(one, result)["restore", "crash"] == pytest.approx(4.0, abs=EXACT)
    assert losses(one, result)["restore", "software"] == pytest.approx(20.0, abs=EXACT)
    # Once it steps again, somebody does.
    later = play(one, [(305, 0, 0), (305, 0, 2), (400, 1, 0)], recovery)
    assert later.jobs[0].restores == {"remote": 1, "peer": 1}


@cases(("every_replica", "store"), [(True, "host"), (False, "remote")])
def test_when_a_replica_has_just_left(every_replica: bool, store: str) -> None:
    """Before their next save the others have a part of the copies that it was there for: enough if each holds all."""
    _, result = while_away(every_replica, 306.5)
    assert result.jobs[0].restores == {store: 1}


@cases("every_replica", [True, False])
def test_while_a_replica_is_away(every_replica: bool) -> None:
    """One of two replicas leaves at 305 s, for good. The other steps at half the pace, and fails at 404 s.

    It has stepped 45 s to its remote save, of 277.5 s of work, and 44 s since 360 s: 299.5 s. Its last save to the
    hosts is of 297.5 s, and spread over those who are there.
    """
    one, result = while_away(every_replica, 404)
    assert result.jobs[0].restores == {"host": 1}
    assert losses(one, result)["lost_work", "second"] == pytest.approx(2.0, abs=EXACT)
    assert losses(one, result)["restore", "second"] == pytest.approx(1 / 2, abs=EXACT)
    assert ("lost_work", "first") not in losses(one, result), "steps are no matter here"


def while_away(every_replica: bool, time: float) -> tuple[sim.Prepared, sim.Result]:
    """Play a replica that leaves at 305 s, for good, and a failure of the others at some time."""
    recovery = Scripted(
        (Background((Acquire(),)), Restore("live"), Run()),
        (Restore(), Run()),
        begin=(Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run()),
        elastic=True,
    )
    tiers = [{**HOST, "every_replica": every_replica}, REMOTE]
    # The store is there again at once; it is no fault of a rank, which would take its replica out as well.
    second = software("second", fault="storage")
    one = elastic(2, 2, 4, failures=[cause("first"), second], checkpoint={"tiers": tiers})
    result = play(one, [(305, 0, 0, 5000), (time, 1, 0)], recovery)
    return one, result


@cases("catch_up", ["0 s", "15 s"])
def test_what_waits_for_a_replica_that_is_away_strikes_it_when_it_is_back(catch_up: str) -> None:
    """Its new node fails at 330 s, in a phase from 305 to 365 s that nothing can hit: at 365 s it does.

    Back among the others, who reconfigure again, or alone in the phase after it, which begins again.
    """
    hidden = [{"name": "boot", "time": "60 s", "exposed": False}]
    recovery = {"use": "shrink-rejoin", "reconfigure": "5 s", "initialize": hidden, "catch_up": catch_up}
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 4}}]
    sources = (cause("crash"), cause("second", defer=True))
    one = case(*sources, tiers=(REMOTE,), jobs=jobs, recovery=recovery)
    result = play(one, [(305, 0, 1), (330, 1, 4)])
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert (result.counts["candidates"], result.counts["suppressed"], result.counts["hits"]) == (2, 0, 2)
    table = losses(one, result)
    if catch_up == "0 s":
        assert table["reschedule", "second"] == pytest.approx(5 * 3 / 4, abs=EXACT)
    else:
        assert ("reschedule", "second") not in table
    # One of four replicas, from 305 to 365 s and for 60 s more.
    assert table["initialize", "crash"] == pytest.approx(60 / 4, abs=EXACT)
    assert table["initialize", "second"] == pytest.approx(60 / 4, abs=EXACT)


@cases(
    ("between", "requeued"),
    [([], True), ([(300.0, 1, 0)], False), ([(300.0, 2, 0)], False)],
    ids=["nothing", "it was preempted", "it had waited in vain"],
)
def test_restarts_are_counted_from_the_queue(between: list[tuple[float, ...]], requeued: bool) -> None:
    """Of one restart that is allowed nothing is left at 600 s, unless the job has come from the queue since.

    A lost node costs no restart: the others wait for it for 10 s, and go back to the queue.
    """
    recovery = {
        "use": "restart-smaller",
        "launch": "5 s",
        "max_restarts": 1,
        "min_replicas": 4,
        "patience": "10 s",
        "requeue": "77 s",
    }
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 4}}]
    sources = (software(), preemption("10 s"), cause("crash", repair="100 s"))
    one = case(*sources, tiers=(REMOTE,), jobs=jobs, recovery=recovery, cluster=nodes(4))
    table = losses(one, play(one, [(200, 0, 0), *between, (600, 0, 0)]))
    assert (table.get(("reschedule", "software"), 0.0) == pytest.approx(77.0, abs=EXACT)) == requeued
    assert (("reschedule", "software") in table) == requeued


def test_a_restart_without_a_failure_reads_too() -> None:
    """Who starts again with a replica that is back reads the newest copy: that is a second restore.

    The survivor steps from 336 s on, from 250 s of work; at 384 s the other one's node is back.
    """
    recovery = {"use": "restart-smaller", "launch": "30 s"}
    tiers = [{**HOST, "every_replica": True}, REMOTE]
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    one = prepared(
        cluster=nodes(2), jobs=jobs, failures=[cause("first")], checkpoint={"tiers": tiers}, recovery=recovery
    )
    result = play(one, [(305, 0, 0, 384)])
    assert result.jobs[0].restores == {"host": 2}
    assert losses(one, result)["initialize", "first"] == pytest.approx(30 / 2 + 30, abs=EXACT)
    assert losses(one, result)["restore", "first"] == pytest.approx(1 / 2 + 1, abs=EXACT)
    # 5 s at the failure; from 336 to 384 s it has stepped for 48 s at half the pace, 8 s of them since its last save.
    assert losses(one, result)["lost_work", "first"] == pytest.approx(5.0 + 4.0, abs=EXACT)


def test_copies_that_cannot_be_read() -> None:
    """Each attempt takes 20 s and each copy is 100 s older; what was durable is lost with all its time.

    Half of the copies are bad. The job fails at 400 s with 340 s of work and copies of 300, 200 and 100 s.
    """
    tier = {**REMOTE, "corrupt": "50 %"}
    one = case(software(), tiers=(tier,), windows="90 s")
    back_to = set()
    for replication in range(40):
        result = play(one, [(400, 0, 0)], replication=replication)
        found = seconds(result)
        attempts = round(found["restore"] / 20)
        assert found["restore"] == pytest.approx(20 * attempts, abs=EXACT)
        kept = 340 - found["lost_work"]
        assert kept == pytest.approx(400 - 100 * attempts, abs=EXACT) or (attempts, kept) == (3, 0)
        assert found["productive"] == pytest.approx(result.jobs[0].work, abs=1e-6)
        assert result.jobs[0].totals.min() >= -EXACT
        back_to.add(round(kept))
    assert back_to == {0, 100, 200, 300}


def test_each_reading_has_its_own_chance() -> None:
    """Half of the copies are bad. Whether the first one is at a failure says nothing of the first at the return.

    One of four replicas leaves at 500 s and is back at 900 s, when all read again, another copy than before.
    """
    recovery = {"use": "restart-smaller", "launch": "5 s"}
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 4}}]
    tier = {**REMOTE, "corrupt": "50 %"}
    one = case(cause("crash", repair="400 s"), tiers=(tier,), jobs=jobs, recovery=recovery, cluster=nodes(4))
    restore = sim.JOB_BUCKETS.index("restore")
    trials = 200
    counts: Counter[tuple[bool, ...]] = Counter()
    for replication in range(trials):
        result = sim.run(one, replication, trace([(500, 0, 1)]), keeps_timeline=True)
        times = [span.end - span.start for span in result.timeline.spans if span.bucket == restore]
        assert len(times) == 2
        counts[tuple(time < 20 + 1e-6 for time in times)] += 1
    half_width = Z * math.sqrt(trials * 1 / 4 * 3 / 4)
    for outcome in itertools.product((False, True), repeat=2):
        assert abs(counts[outcome] - trials / 4) <= half_width, outcome


# ----------------------------------------
# Stores that cannot be read for a while, by hand: who waits for them, and from when on.
#
# A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s
# it
# has done 250 s of work, 200 s of them durable. A restart takes 30 s and a restore 20 s.


def storage(out: Any, name: str = "storage", **more: Any) -> dict[str, Any]:
    """Return a source of faults of storage that strikes only where a trace says so."""
    return {"use": "job", "name": name, "law": NEVER["law"], "fault": "storage", "store_out": out, **more}


def storage_case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


@cases(("out", "waits"), [("0 s", 0), ("25 s", 0), ("30 s", 0), ("31 s", 1), ("100 s", 70)])
@cases("retain", [None, 9])
def test_a_restore_waits_for_its_store(out: str, waits: float, retain: int | None) -> None:
    """Processes are up at 330 s: what is left of the outage then is waited for, and charged to restore."""
    tier = REMOTE if retain is None else {**REMOTE, "retain": retain}
    one = storage_case(storage(out), checkpoint={"tiers": [tier]})
    result = play(one, [(300, 0, 0)])
    assert losses(one, result)["restore", "storage"] == pytest.approx(20 + waits, abs=EXACT)
    assert losses(one, result)["initialize", "storage"] == pytest.approx(30.0, abs=EXACT)
    assert losses(one, result)["lost_work", "storage"] == pytest.approx(50.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    assert sum(seconds(result).values()) == pytest.approx(1000.0, abs=EXACT)


def test_the_outage_counts_from_the_failure() -> None:
    """Known at 350 s and initialized at 380 s: 20 s of 100 s are left."""
    one = storage_case(storage("100 s"), detection={"time": "50 s"})
    table = losses(one, play(one, [(300, 0, 0)]))
    assert table["detection", "storage"] == pytest.approx(50.0, abs=EXACT)
    assert table["restore", "storage"] == pytest.approx(20 + 20.0, abs=EXACT)


@cases(("again", "waited"), [("10 s", 10.0), ("50 s", 20.0), ("200 s", 170.0)])
def test_of_two_outages_the_one_that_ends_later_counts(again: str, waited: float) -> None:
    """The first one lasts to 400 s; the second, at 360 s, in the wait for the store, to 370, 410 or 560 s.

    The first restart waits from 330 to 360 s; the second is at its restore at 390 s.
    """
    one = storage_case(storage("100 s"), storage(again, "second"))
    table = losses(one, play(one, [(300, 0, 0), (360, 1, 0)]))
    assert table["restore", "storage"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "second"] == pytest.approx(waited + 20.0, abs=EXACT)


def test_memory_can_be_read() -> None:
    """The hosts hold 250 s of work in a save that began at 300 s; nobody asks the store. The next crash does."""
    one = storage_case(storage("1000 s"), cause("crash"), checkpoint={"tiers": [HOST, REMOTE]})
    result = play(one, [(305, 0, 0)])
    assert losses(one, result)["restore", "storage"] == pytest.approx(1.0, abs=EXACT)
    assert result.jobs[0].restores == {"host": 1}
    # What a node held in memory goes with it: at 336 s the job steps again, and at 350 s the store is still out.
    table = losses(one, play(one, [(305, 0, 0), (350, 1, 0)]))
    assert table["restore", "crash"] == pytest.approx(1000 - 380.0, abs=EXACT), "to the horizon"


def test_an_outage_may_be_random() -> None:
    """It belongs to its failure: it repeats, and differs between replications."""
    one = storage_case(storage({"use": "uniform", "low": "50 s", "high": "150 s"}))
    waits = [losses(one, play(one, [(300, 0, 0)], replication=number))["restore", "storage"] for number in range(6)]
    assert all(20 + 20 <= wait <= 20 + 120 for wait in waits)
    assert len(set(waits)) == 6
    assert waits[0] == losses(one, play(one, [(300, 0, 0)]))["restore", "storage"]


SHARED_EXACT = 1e-6

"""Seconds; a time of a thousand seconds is rounded much less than that."""

STORE: dict[str, Any] = {"interval": "100 s", "mode": "async", "aggregate": "10 MB/s"}


def shared_case(*sources: dict[str, Any], sizes: Sequence[int] = (2, 2), **changes: Any) -> sim.Prepared:
    """Return jobs with some nodes each."""
    base: dict[str, Any] = {
        "cluster": nodes(16),
        "jobs": [{"name": f"job-{number}", "gpus": size} for number, size in enumerate(sizes)],
        "failures": list(sources) or [software()],
        "checkpoint": {"size": "1 GB", "tiers": [STORE]},
        "horizon": "3000 s",
    }
    return prepared(**{**base, **changes})


def of_store(**more: Any) -> dict[str, Any]:
    """Return checkpoints in a store that has something more."""
    return {"size": "1 GB", "tiers": [{**STORE, **more}]}


def restoring(one: sim.Prepared, rows: Sequence[tuple[float, ...]]) -> list[float]:
    """Return how long each job has been restoring [s]."""
    result = play(one, rows)
    return [float(seconds(result, job).get("restore", 0.0)) for job in range(len(result.jobs))]


@cases("sizes", [(2,), (2, 2), (2, 2, 2)], ids=["no other job", "one other", "two others"])
@cases("mode", ["async", "blocking"])
def test_who_reads_alone_has_the_whole_store(sizes: tuple[int, ...], mode: str) -> None:
    """1 GB at 10 MB/s; jobs that only train take nothing of it."""
    one = shared_case(sizes=sizes, checkpoint=of_store(mode=mode))
    assert restoring(one, [(1000, 0, 0)]) == pytest.approx([100.0, *(0.0 for _ in sizes[1:])], abs=SHARED_EXACT)


@cases("jobs", [2, 3, 5])
def test_who_reads_together_has_equal_shares(jobs: int) -> None:
    """Each of n jobs takes n times as long, and all of it is restore."""
    one = shared_case(sizes=(2,) * jobs)
    result = play(one, [(1000, 0, job) for job in range(jobs)])
    for job in range(jobs):
        assert losses(one, result, job)["restore", "software"] == pytest.approx(100.0 * jobs, abs=SHARED_EXACT)
        assert losses(one, result, job)["initialize", "software"] == pytest.approx(30.0, abs=SHARED_EXACT)
        assert sum(seconds(result, job).values()) == pytest.approx(3000.0, abs=SHARED_EXACT)
        assert result.jobs[job].restores == {"remote": 1}


@cases("number", range(5))
def test_the_store_never_idles_while_somebody_reads(number: int) -> None:
    """From the first who begins to the last who ends, as long as somebody reads, each job takes 100 s of its time."""
    generator = np.random.default_rng(number)
    starts = np.sort(generator.uniform(1000.0, 1300.0, size=5))
    one = shared_case(sizes=(2,) * 5)
    rows = [(float(start), 0, int(job)) for start, job in zip(starts, generator.permutation(5), strict=True)]
    result = sim.run(one, 0, trace(rows), keeps_timeline=True)
    restore = sim.JOB_BUCKETS.index("restore")
    spans = sorted((span.start, span.end) for span in result.timeline.spans if span.bucket == restore)
    assert [start for start, _ in spans] == pytest.approx([start + 30 for start in starts], abs=SHARED_EXACT)
    free = [spans[0][0]]
    for start, _ in spans:
        # Whoever finds the store free begins a new time of its being read.
        if start >= free[-1]:
            free.append(start)
        free[-1] += 100.0
    ends = sorted(end for _, end in spans)
    for end in free[1:]:
        assert min(abs(end - other) for other in ends) < SHARED_EXACT
    assert ends[-1] == pytest.approx(free[-1], abs=SHARED_EXACT)


@cases(
    ("sizes", "expected"),
    [
        ((1,), (400,)),
        ((4,), (100,)),
        ((8,), (100,)),
        ((1, 1), (400, 400)),
        ((1, 4), (400, 400 / 3)),
        ((4, 1), (400 / 3, 400)),
        ((8, 1, 4), (800 / 3, 400, 800 / 3)),
        ((1, 1, 1, 1), (400, 400, 400, 400)),
        ((2, 2, 2), (300, 300, 300)),
    ],
)
def test_what_nodes_cannot_take_is_for_the_others(sizes: tuple[int, ...], expected: tuple[float, ...]) -> None:
    """A node reads at 2.5 MB/s: a job of one node takes a quarter of the store, and the others share the rest."""
    one = shared_case(sizes=sizes, checkpoint=of_store(node_bandwidth="2.5 MB/s"))
    rows = [(1000, 0, job) for job in range(len(sizes))]
    assert restoring(one, rows) == pytest.approx(expected, abs=SHARED_EXACT)


def test_what_is_left_is_shared_anew_when_somebody_ends() -> None:
    """Of two nodes each, at 5 MB/s at most: three at a third each, until one that began 150 s earlier ends.

    It has read three quarters in those 150 s, at half the store, and takes 75 s for the rest at a third. The others
    have a quarter by then, and half the store each again: 150 s more.
    """
    one = shared_case(sizes=(2, 2, 2), checkpoint=of_store(node_bandwidth="2.5 MB/s"))
    found = restoring(one, [(1000, 0, 0), (1150, 0, 1), (1150, 0, 2)])
    assert found == pytest.approx([150 + 75.0, 75 + 150.0, 75 + 150.0], abs=SHARED_EXACT)


def test_without_an_aggregate_nobody_is_in_the_way() -> None:
    """Two nodes read at 10 MB/s together, whoever else does; and times that are stated are nobody else's either."""
    one = shared_case(checkpoint={"size": "1 GB", "tiers": [{"interval": "100 s", "node_bandwidth": "5 MB/s"}]})
    assert restoring(one, [(1000, 0, 0), (1000, 0, 1)]) == pytest.approx([100.0, 100.0], abs=SHARED_EXACT)
    stated = shared_case(checkpoint={"tiers": [REMOTE]})
    assert restoring(stated, [(1000, 0, 0), (1000, 0, 1)]) == pytest.approx([20.0, 20.0], abs=SHARED_EXACT)


def test_copies_on_nodes_are_nobody_elses() -> None:
    """Job 0 has lost a node and reads the store; job 1 reads its own memory in 1 s, and is not in the way."""
    one = shared_case(cause("crash"), software(), checkpoint={"size": "1 GB", "tiers": [HOST, STORE]})
    result = play(one, [(1005, 0, 0), (1005, 1, 1)])
    assert [job.restores for job in result.jobs] == [{"remote": 1}, {"host": 1}]
    assert seconds(result, 0)["restore"] == pytest.approx(100.0, abs=SHARED_EXACT)
    assert seconds(result, 1)["restore"] == pytest.approx(1.0, abs=SHARED_EXACT)


@cases("second", [software("second"), cause("second", repair="100 s")], ids=["its processes", "a node of it"])
def test_a_failure_in_mid_restore_gives_its_share_to_the_other(second: dict[str, Any]) -> None:
    """Job 1 fails again 50 s after both began, with a quarter read, and begins again 30 s later.

    By then job 0 has 0.45 left: 90 s at half. Job 1 has 0.55 left after those: 55 s.
    """
    one = shared_case(software("first"), second)
    slot = 1 if second["use"] == "job" else 2
    found = restoring(one, [(1000, 0, 0), (1000, 0, 1), (1080, 1, slot)])
    assert found == pytest.approx([50 + 30 + 90.0, 50 + 90 + 55.0], abs=SHARED_EXACT)


def test_who_gives_its_nodes_back_reads_no_longer() -> None:
    """Job 1 is preempted 50 s after both began; the clock of its failures stands still while it is away."""
    one = shared_case(software(), preemption("500 s"))
    found = restoring(one, [(1000, 0, 0), (1000, 0, 1), (1080, 1, 1)])
    assert found == pytest.approx([50 + 75.0, 50 + 100.0], abs=SHARED_EXACT)


@cases("later", [0, 20, 50, 110])
def test_reading_in_is_not_shared(later: float) -> None:
    """It takes 20 s whoever else does it, and the store is free for others meanwhile."""
    one = shared_case(checkpoint=of_store(read_in="20 s"))
    each = 20 + 200.0 - min(later, 100.0)
    assert restoring(one, [(1000, 0, 0), (1000 + later, 0, 1)]) == pytest.approx([each, each], abs=SHARED_EXACT)


def test_an_outage_of_the_store_is_one_for_all_jobs() -> None:
    """A fault of storage strikes job 0 at 300 s; job 1, which fails at 400 s, waits until 800 s as well."""
    one = shared_case(storage("500 s"), software(), checkpoint={"tiers": [REMOTE]})
    assert restoring(one, [(300, 0, 0), (400, 1, 1)]) == pytest.approx([470 + 20.0, 370 + 20.0], abs=SHARED_EXACT)


def test_of_outages_of_two_jobs_the_one_that_ends_later_counts() -> None:
    """Both strike before anybody reads: the second, of 100 s only, does not bring the store back at 1110 s."""
    one = shared_case(storage("300 s"), storage("100 s", "second"), checkpoint={"tiers": [REMOTE]})
    assert restoring(one, [(1000, 0, 0), (1010, 1, 1)]) == pytest.approx([270 + 20.0, 260 + 20.0], abs=SHARED_EXACT)


# ----------------------------------------
# Saves that share the store (shares: all): 1 GB at 50 MB/s takes 20 s.

SAVES: dict[str, Any] = {"interval": "400 s", "mode": "blocking", "aggregate": "50 MB/s", "shares": "all"}


def saving_case(*sources: dict[str, Any], sizes: Sequence[int] = (2, 2, 2), **changes: Any) -> sim.Prepared:
    """Return jobs that do nothing but step and save until something strikes them."""
    tier = {**SAVES, **changes.pop("tier", {})}
    base = {"checkpoint": {"size": "1 GB", "tiers": [tier]}, "recovery": {"use": "full-restart", "initialize": "0 s"}}
    return shared_case(*sources, sizes=sizes, **{**base, "horizon": "9200 s", **changes})


def stalls(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = (), job: int = 0) -> dict[str, float]:
    """Return how long a job has stood still for saves, by cause [s]."""
    table = losses(one, play(one, rows), job)
    return {cause: found for (bucket, cause), found in table.items() if bucket == "checkpoint_stall"}


@cases("jobs", [1, 2, 3, 5])
@cases("stagger", [False, True])
def test_jobs_that_save_together_take_so_many_times_as_long(jobs: int, stagger: bool) -> None:
    """Saves of S bytes, n at a time to a store of B, take n S/B each, staggered ones S/B: the rest is contention.

    The horizon is 20 cycles of the saves that meet, whose number is 21 or fewer where they do not.
    """
    alone = 20.0
    cycle = 400 + alone * (1 if stagger else jobs)
    one = saving_case(sizes=(2,) * jobs, tier={"stagger": stagger}, horizon=f"{20 * cycle:g} s")
    for job in range(jobs):
        found = stalls(one, job=job)
        assert found["no_failure"] == pytest.approx(20 * alone, abs=SHARED_EXACT)
        late = 0.0 if stagger else 20 * alone * (jobs - 1)
        assert found.get(CONTENTION, 0.0) == pytest.approx(late, abs=SHARED_EXACT)


@cases("sizes", [(1,), (2, 1), (4, 4), (8, 1, 4)])
@cases("share", ["100 %", "40 %"])
def test_a_save_is_bounded_by_its_nodes_and_by_the_share_of_saves(sizes: tuple[int, ...], share: str) -> None:
    """A node writes 12.5 MB/s: everybody's first save, at the same time, by filling the share evenly (max-min)."""
    one = saving_case(sizes=sizes, tier={"node_bandwidth": "12.5 MB/s", "save_share": share}, horizon="800 s")
    free = 50e6 * float(share.split()[0]) / 100
    left = dict(enumerate(1e9 for _ in sizes))
    expected: dict[int, float] = {}
    now = 0.0
    while left:
        speeds: dict[int, float] = {}
        rest, capped = free, set(left)
        for job in sorted(left, key=lambda job: sizes[job]):
            speeds[job] = min(12.5e6 * sizes[job], rest / len(capped))
            rest -= speeds[job]
            capped.discard(job)
        step = min(left[job] / speeds[job] for job in left)
        now += step
        left = {job: size - speeds[job] * step for job, size in left.items()}
        expected |= {job: now for job, size in left.items() if size < 1e-3}
        left = {job: size for job, size in left.items() if size >= 1e-3}
    for job, time in expected.items():
        assert sum(stalls(one, job=job).values()) == pytest.approx(time, abs=1e-5)


@cases("tier", [{}, {"mode": "async", "stall": "3 s"}, {"mode": "async"}], ids=["blocking", "copied", "async"])
@cases("more", [{}, {"step_time": "7 s"}, {"periodic": [{"name": "evaluation", "every": "330 s", "time": "17 s"}]}])
@cases("tiers", [[], [HOST]], ids=["alone", "beside memory"])
def test_with_nobody_else_it_makes_no_difference(tier: dict[str, Any], more: dict[str, Any], tiers: list[Any]) -> None:
    """A job that has the store for itself is what the closed form between its failures says, saves by saves."""
    generator = np.random.default_rng(7)
    rows = [(float(at), 0, 0) for at in np.sort(generator.uniform(100, 9000, size=6))]
    found = []
    for shares in ("restores", "all"):
        stores = [*tiers, {**SAVES, **tier, "shares": shares, "save_share": "70 %"}]
        one = saving_case(
            sizes=(2,), checkpoint={"size": "1 GB", "tiers": stores}, jobs=[{"name": "job", "gpus": 2} | more]
        )
        result = play(one, rows)
        table = losses(one, result)
        found.append({**table, ("work", ""): result.jobs[0].work})
    assert found[0].keys() == found[1].keys()
    assert [found[1][key] for key in found[0]] == pytest.approx(list(found[0].values()), abs=SHARED_EXACT)


def test_a_save_that_meets_an_outage_is_late() -> None:
    """Job 0 takes the store away at 405 s for 100 s; job 1, 5 s into its save, has 15 s left at 505 s.

    Both had half the store until then, so 17.5 s are left; the outage's time is the outage's, that at half speed
    contention's. Job 0, which had saved nothing, begins again.
    """
    one = saving_case(storage("100 s"), sizes=(2, 2), horizon="700 s")
    assert stalls(one, [(405, 0, 0)], job=1) == pytest.approx(
        {"no_failure": 20.0, CONTENTION: 2.5, "storage": 100.0}, abs=SHARED_EXACT
    )
    result = play(one, [(405, 0, 0)])
    assert seconds(result, 1)["productive"] == pytest.approx(700 - 122.5, abs=SHARED_EXACT)


def test_a_failure_takes_what_a_late_save_has_not_made_durable() -> None:
    """Async, two jobs: both saves take 40 s from 400 s on. Job 1 fails at 430 s and has nothing; alone it had 400 s."""
    for sizes, lost in (((2, 2), 430.0), ((2,), 30.0)):
        one = saving_case(software(), sizes=sizes, tier={"mode": "async"}, horizon="1000 s")
        last = len(sizes) - 1
        found = losses(one, play(one, [(430, 0, last)]), last)
        assert found["lost_work", "software"] == pytest.approx(lost, abs=SHARED_EXACT)


def test_the_next_save_waits_for_a_late_one() -> None:
    """Four jobs drain 200 s each, all together 800 s: after the first, due at 100 s, each waits for the one before."""
    tier = {"mode": "async", "interval": "100 s", "aggregate": "5 MB/s"}
    one = saving_case(software(), sizes=(2,) * 4, tier=tier, horizon="5000 s")
    # Saves are taken at 100, 900, 1700 s, ... and durable 800 s later.
    for at, lost in ((899, 899.0), (901, 801.0), (1699, 1599.0), (1701, 801.0)):
        assert losses(one, play(one, [(at, 0, 2)]), 2)["lost_work", "software"] == pytest.approx(lost, abs=1e-5), at


def test_a_late_save_ends_within_a_step_and_the_next_begins_after_it() -> None:
    """Steps of 70 s: saves are taken at 140 s and durable at 940 s; the 12th step since ends at 980 s."""
    tier = {"mode": "async", "interval": "100 s", "aggregate": "5 MB/s"}
    jobs = [{"name": f"job-{number}", "gpus": 2, "step_time": "70 s"} for number in range(4)]
    one = saving_case(software(), tier=tier, jobs=jobs, horizon="5000 s")
    for at, lost in ((939, 939.0), (941, 801.0), (1779, 1639.0), (1781, 801.0)):
        assert losses(one, play(one, [(at, 0, 2)]), 2)["lost_work", "software"] == pytest.approx(lost, abs=1e-5), at


def test_a_job_that_is_told_to_stop_shares_the_store_too() -> None:
    """Job 0 saves from 390 s on, before it is preempted, and job 1 from 400 s: 10 s alone, 20 s of half the store.

    Job 1 has 10 s left then, and its next save comes at 830 s.
    """
    one = saving_case(preemption("500 s", notice="1 min"), sizes=(2, 2), horizon="800 s")
    found = losses(one, play(one, [(390, 0, 0)]), 0)
    assert found["checkpoint_stall", "preempted"] == pytest.approx(30.0, abs=SHARED_EXACT)
    assert not any(bucket == "lost_work" for bucket, _ in found)
    assert stalls(one, [(390, 0, 0)], job=1) == pytest.approx({"no_failure": 20.0, CONTENTION: 10.0}, abs=SHARED_EXACT)


# Jobs of streams: the same store.


def streams_case(shares: str, **changes: Any) -> sim.Prepared:
    """Return a cluster of 32 nodes of one GPU with a queue, nodes that fail often, and saves of 200 GB."""
    tier = {"interval": "20 min", "mode": "blocking", "node_bandwidth": "8 GB/s", "aggregate": "100 TB/s"}
    law = {"use": "exponential", "mean": "10 h"}
    stream = {"name": "batch", "arrivals": {"rate": "20 per day"}, "gpus": {"4": 1, "8": 1}, "work": law}
    base: dict[str, Any] = {
        "cluster": nodes(32),
        "jobs": [],
        "streams": [stream | changes.pop("stream", {}), *changes.pop("streams", [])],
        "failures": [{"use": "component", "name": "node", "part": "node", "rate": "60 per node-year"}],
        "detection": {"time": "2 min"},
        "checkpoint": {"size": "200 GB", "tiers": [{**tier, "shares": shares} | changes.pop("tier", {})]},
        "recovery": {"use": "hot-spare", "initialize": "3 min"},
        "repair": {"time": "1 d"},
        "horizon": "3 d",
    }
    return prepared(**base | changes)


def table_of_streams(one: sim.Prepared) -> dict[tuple[str, str], float]:
    """Return the GPU-seconds of a replication by bucket and cause."""
    fleet = sim.run(one, 0).fleet
    found: dict[tuple[str, str], float] = {}
    for key, amounts in fleet.ledger.items():
        bucket = Bucket(key.bucket).name.lower()
        row = bucket, "" if bucket == "unallocated" else fleet.causes[key.cause]
        found[row] = found.get(row, 0.0) + float(amounts.sum())
    return found


URGENT = {"name": "urgent", "arrivals": {"rate": "6 per day"}, "gpus": 8, "work": "5 h", "priority": 10}


@cases("tier", [{}, {"mode": "async", "stall": "10 s"}, {"mode": "async"}], ids=["blocking", "copied", "async"])
@cases("queue", [{}, {"streams": [URGENT], "scheduler": {"use": "slurm", "preempt": {"who": "priority"}}}])
def test_streams_that_nobody_is_in_the_way_of(tier: dict[str, Any], queue: dict[str, Any]) -> None:
    """Where their own nodes are the limit, save by save is what the closed form of a run says, whatever stops it."""
    plain, shared = (table_of_streams(streams_case(shares, tier=tier, **queue)) for shares in ("restores", "all"))
    assert shared == pytest.approx({key: plain.get(key, 0.0) for key in shared}, abs=1e-2)
    assert plain.keys() == shared.keys()


@cases("jobs", [1, 4])
def test_jobs_of_streams_that_save_together(jobs: int) -> None:
    """A backlog of jobs of 8 nodes and 5 h fills the cluster: four at a time begin, save and end together.

    At 20 GB/s a save takes 10 s alone, and four take 40 s each: of 14 saves a job each has 30 s of contention.
    """
    stream = {"arrivals": {"use": "backlog", "pending": 4}, "gpus": 8, "work": "5 h", "restart": "0 s"}
    tier = {"aggregate": "20 GB/s", "node_bandwidth": "20 GB/s"}
    one = streams_case("all", stream=stream, tier=tier, cluster=nodes(8 * jobs), horizon="16 h", failures=[software()])
    found = table_of_streams(one)
    alone, late = found["checkpoint_stall", "no_failure"], found.get(("checkpoint_stall", CONTENTION), 0.0)
    assert late == pytest.approx((jobs - 1) * alone, abs=1e-3)
    assert alone / found["productive", "no_failure"] == pytest.approx(10 / 1200, rel=0.08)  # none after the last part
