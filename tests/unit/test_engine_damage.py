"""From which store a job comes back, by hand: what is left of each after what has happened to the nodes.

A job of four nodes, one replica, steps from 30 s on and saves to the memory of its own hosts every 10 s, to that of its
clique of two every 20 s, to its disks every 50 s, all at no cost, and to the remote store every 100 s, for 10 s. At
305 s it has done 255 s of work: copies hold 250, 240, 250 and 200 s of it. To read them takes 1, 2, 5 and 20 s. A
restart takes 30 s.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import sim
from sim.policies.contracts import Acquire, Background, Bucket, Requeue, Restore, Run, Stall
from tests.cases import cases
from tests.harness import Z, losses, play, prepared, seconds, trace
from tests.unit.test_effects import NEVER, cause, nodes
from tests.unit.test_engine_notice import preemption
from tests.unit.test_plan_steps import Scripted, elastic

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


# ------------------------------------------------------------------------------------------------ what is left


@cases(
    ("tiers", "store", "lost", "restore"),
    [(ALL, "host", 5, 1), ((DISK, REMOTE), "disk", 5, 5), ((CLIQUE, REMOTE), "peer-host", 15, 2)],
)
def test_a_failure_of_processes_leaves_all_copies(
    tiers: tuple[dict[str, Any], ...], store: str, lost: float, restore: float
) -> None:
    """The newest copy is read, and of two with the same step the quicker one."""
    check(play(case(software(), tiers=tiers), [(305, 0, 0)]), store, lost, restore)


@cases(
    ("tiers", "store", "lost", "restore"),
    [(ALL, "peer-host", 15, 2), ((HOST, DISK, REMOTE), "remote", 55, 20)],
)
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


@cases(("other", "store", "lost", "restore"), [(2, "peer-host", 15, 2), (1, "remote", 55, 20)])
def test_two_nodes_one_after_the_other(other: int, store: str, lost: float, restore: float) -> None:
    """The second one fails while the first restart initializes: what it goes back to is worked out again."""
    one = case(cause("crash"), cause("second"), tiers=ALL)
    result = play(one, [(305, 0, 0), (320, 1, other)])
    check(result, store, lost, restore)
    table = losses(one, result)
    assert table["lost_work", "crash"] == pytest.approx(lost, abs=EXACT), "all of it is the incident's first failure's"
    assert table["initialize", "crash"] == pytest.approx(15.0, abs=EXACT)
    assert table["initialize", "second"] == pytest.approx(30.0, abs=EXACT)


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


def test_nodes_that_start_anew_while_a_failure_is_being_found() -> None:
    """The second failure is part of the same incident, and it empties what the first one left."""
    one = case(cause("crash"), software("boot", damage="reboot"), tiers=ALL, detection={"time": "20 s"})
    check(play(one, [(305, 0, 0), (310, 1, 0)]), "remote", 55, 20)


def test_the_queue_leaves_only_the_remote_store() -> None:
    """Nodes that were given back hold nothing of the job, even if they are the same ones."""
    one = case(software(), tiers=ALL, recovery={"use": "full-restart", "initialize": "30 s"})
    check(play(one, [(305, 0, 0)]), "remote", 55, 20)


def test_a_plan_may_give_up_what_is_left() -> None:
    """Who keeps stores only reads the remote one, whatever else there is."""
    plan = (Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run())
    one = case(software(), tiers=ALL)
    result = play(one, [(305, 0, 0)], Scripted(plan, begin=(Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run())))
    check(result, "remote", 55, 20)


def test_a_plan_without_a_restore_comes_back_from_nowhere() -> None:
    """The first failure is restored from, the second one is not: one restore, not two."""
    restart = (Stall(Bucket.INITIALIZE, 30.0), Restore(), Run())
    one = case(software("first"), software("second"), tiers=(REMOTE,))
    recovery = Scripted(restart, (Stall(Bucket.RESCHEDULE, 7.0), Run()), begin=restart)
    result = play(one, [(305, 0, 0), (500, 1, 0)], recovery)
    assert result.jobs[0].restores == {"remote": 1}
    assert losses(one, result)["reschedule", "second"] == pytest.approx(7.0, abs=EXACT)


# -------------------------------------------------------------------------------------------------- live peers


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
    ids=["processes", "one node", "one replica", "both replicas", "all start anew", "one starts anew"],
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


def test_whoever_has_stepped_again_holds_the_state_again() -> None:
    """The process of one replica ends, is started again, and is the only one that outlives the next incident."""
    one, recovery = in_process(cause("crash", repair="0 s", detection="10 s"), replicas=4)
    result = play(one, [(305, 0, 0), *((400.0, 0, number) for number in (1, 2, 3))], recovery)
    assert result.jobs[0].restores == {"peer": 2}


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


def test_a_job_that_comes_from_the_queue_has_no_live_replica() -> None:
    """It gave its nodes back at 305 s; a failure at 330 s, while it starts, finds processes that hold nothing yet."""
    one, recovery = in_process(software("first"), software("second"))
    again = Scripted((Requeue(10.0),), recovery.first, begin=recovery.begin)
    result = play(one, [(305, 0, 0), (320, 1, 0)], again)
    # The clock of both stands still while it is away: the second one strikes 15 s after 315 s.
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert losses(one, result)["initialize", "first"] == pytest.approx(15.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    assert losses(one, result)["lost_work", "first"] == pytest.approx(59.0, abs=EXACT)


# --------------------------------------------------------------------------------------- replicas that are away


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


def test_software_fails_while_nobody_is_there() -> None:
    """Both replicas wait for nodes; a failure of the job as a whole finds no rank that it could strike."""
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    recovery = {"use": "shrink-rejoin", "reconfigure": "1 s", "initialize": "5 s"}
    sources = (cause("crash", detection="1 s"), software())
    one = case(*sources, tiers=(REMOTE,), cluster=nodes(2), jobs=jobs, recovery=recovery)
    result = play(one, [(300, 0, 0), (300, 0, 1), (350, 1, 0)])
    assert result.jobs[0].interruptions == {1: 2, 2: 1}
    assert result.jobs[0].restores == {"remote": 1}


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


def test_what_waits_goes_on_waiting_with_those_whom_nothing_can_hit() -> None:
    """The replica is back at 365 s, while the others are out of reach from 340 to 380 s, for another one's sake."""
    hidden = [{"name": "phase", "time": "60 s", "exposed": False}]
    reconfigure = [{"name": "phase", "time": "40 s", "exposed": False}]
    recovery = {"use": "shrink-rejoin", "reconfigure": reconfigure, "initialize": hidden}
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 4}}]
    one = case(
        cause("crash"), cause("second", defer=True), tiers=(REMOTE,), jobs=jobs, recovery=recovery, horizon="400 s"
    )
    result = play(one, [(300, 0, 1), (330, 1, 4), (340, 0, 2)])
    assert result.jobs[0].interruptions == {1: 2, 2: 1}
    # Known at 380 s, when their phase is over; the next one lasts beyond the horizon.
    assert losses(one, result)["reschedule", "second"] == pytest.approx(20 * 2 / 4, abs=EXACT)


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
    """Who starts anew with a replica that is back reads the newest copy: that is a second restore.

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


# ------------------------------------------------------------------------------------- copies that nobody can read


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
        assert result.timeline is not None
        times = [span.end - span.start for span in result.timeline.spans if span.bucket == restore]
        assert len(times) == 2
        counts[tuple(time < 20 + 1e-6 for time in times)] += 1
    half_width = Z * math.sqrt(trials * 1 / 4 * 3 / 4)
    for outcome in itertools.product((False, True), repeat=2):
        assert abs(counts[outcome] - trials / 4) <= half_width, outcome
