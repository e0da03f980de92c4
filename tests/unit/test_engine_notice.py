"""Jobs that are told beforehand that they have to stop, by hand: maintenance with notice, and preemption.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s it
has done 250 s of work, 200 s of them durable. A save takes 10 s, a restart 30 s and a restore 20 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from analysis.metrics import ratios
from analysis.statistics.estimates import means
from sim.policies.contracts import Acquire, Bucket, Restore, Run, Stall
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import NEVER, SHRINK, cause, nodes
from tests.unit.test_maintenance import care
from tests.unit.test_plan_steps import Scripted

if TYPE_CHECKING:
    import sim

EXACT = 1e-9


def preemption(away: Any = "100 s", **more: Any) -> dict[str, Any]:
    """Return a source of preemptions that strikes only where a trace says so."""
    return {"use": "preemption", "name": "preempted", "law": NEVER["law"], "away": away, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def asynchronous(write: str = "60 s") -> dict[str, Any]:
    """Return saves that stall for 5 s and are durable a while later."""
    return {"tiers": [{"interval": "100 s", "mode": "async", "stall": "5 s", "write": write, "restore": "20 s"}]}


# ------------------------------------------------------------------------------------------------ maintenance


@cases(("notice", "saves"), [("10 s", True), ("9.9 s", False), ("0 s", False), (None, True)])
def test_a_notice_is_long_enough_for_a_save_or_it_is_not(notice: str | None, saves: bool) -> None:
    """A notice of exactly the time of a save is enough; without one there is time."""
    one = case(care(notice=notice))
    table = losses(one, play(one, [(300, 0, 0, 700)]))
    assert table.get(("checkpoint_stall", "care"), 0.0) == pytest.approx(10.0 if saves else 0.0, abs=EXACT)
    assert table.get(("lost_work", "care"), 0.0) == pytest.approx(0.0 if saves else 50.0, abs=EXACT)
    assert table["initialize", "care"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "care"] == pytest.approx(20.0, abs=EXACT)


@cases(("notice", "saves"), [("65 s", True), ("64 s", False)])
def test_an_asynchronous_save_is_over_when_it_is_durable(notice: str, saves: bool) -> None:
    """The stall of 5 s and the write of 60 s: who is stopped after 64 s has nothing."""
    one = case(care(notice=notice), checkpoint=asynchronous())
    table = losses(one, play(one, [(300, 0, 0, 700)]))
    # Saves begin at 130 and 235 s, of 100 and 200 s of work; the second is durable at 300 s. 260 s are done by then.
    assert table.get(("checkpoint_stall", "care"), 0.0) == pytest.approx(65.0 if saves else 0.0, abs=EXACT)
    assert table.get(("lost_work", "care"), 0.0) == pytest.approx(0.0 if saves else 60.0, abs=EXACT)


def test_a_job_that_has_no_time_to_save_is_interrupted_as_planned_all_the_same() -> None:
    """The count of those that nobody planned stays that of the failures."""
    one = case(care(notice="1 s"), cause("crash"))
    found = means([ratios(one, play(one, [(300, 0, 0, 700), (800, 1, 1)]))])
    assert (found["interruptions_planned"], found["interruptions_unplanned"]) == (1, 1)


# ------------------------------------------------------------------------------------------------- preemption


def test_a_preempted_job_saves_and_comes_back_when_its_nodes_do() -> None:
    """Saved to 310 s, away to 410 s, initialized to 440 s and restored to 460 s, on top of 250 s of work."""
    one = case(preemption(notice="10 s"), detection={"time": "50 s"})
    result = play(one, [(300, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "preempted"): 10.0,
            ("reschedule", "preempted"): 100.0,
            ("initialize", "preempted"): 30.0,
            ("restore", "preempted"): 20.0,
            # Before it at 130 and 240 s; after it at 560, 670, 780 and 890 s.
            ("checkpoint_stall", "no_failure"): 20 + 40.0,
        },
        abs=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(250 + 500.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    assert result.down_node_seconds == 0.0, "its nodes are well"


def test_without_notice_what_is_not_durable_is_lost() -> None:
    """No notice is the default: 50 s are lost, and the job is away from 300 s on."""
    one = case(preemption())
    result = play(one, [(300, 0, 0)])
    table = losses(one, result)
    assert table["lost_work", "preempted"] == pytest.approx(50.0, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert ("checkpoint_stall", "preempted") not in table
    # 450 to 1000 s: five saves.
    assert result.jobs[0].work == pytest.approx(200 + 500.0, abs=EXACT)


def test_a_preemption_is_planned_unless_it_is_said_not_to_be() -> None:
    """What happens is the same; only the count differs."""
    for planned in (True, False):
        one = case(preemption(planned=planned))
        found = means([ratios(one, play(one, [(300, 0, 0)]))])
        assert (found["interruptions_planned"], found["interruptions_unplanned"]) == (planned, not planned)


def test_others_have_the_nodes_while_a_job_is_away() -> None:
    """The other job waits for them from the start, and is still at work when the first one may come back.

    a: away from 310 to 410 s, queued until b is done. b: initialized to 340 s, 300 s of work and two saves to 660 s.
    """
    jobs = [{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2, "arrival": "1 s", "work": {"time": "300 s"}}]
    one = case(preemption(notice="1 min"), cluster=nodes(2), jobs=jobs)
    result = play(one, [(300, 0, 0)])
    assert result.jobs[1].start == pytest.approx(310.0, abs=EXACT)
    assert result.jobs[1].end == pytest.approx(660.0, abs=EXACT)
    table = losses(one, result)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["queued", "preempted"] == pytest.approx(250.0, abs=EXACT)
    assert losses(one, result, 1) == pytest.approx(
        {("queued", "no_failure"): 309.0, ("initialize", "no_failure"): 30.0, ("checkpoint_stall", "no_failure"): 20.0},
        abs=EXACT,
    )


def test_the_nodes_are_idle_if_nobody_wants_them() -> None:
    """Two of four nodes are idle all the time, and the two of the job for the 100 s that it is away."""
    result = play(case(preemption()), [(300, 0, 0)])
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(2 * 1000 + 2 * 100.0, abs=EXACT)


def test_the_time_away_may_be_random() -> None:
    """It is the quantile of its law at the number of that failure, so it differs between preemptions and repeats."""
    one = case(preemption({"law": "uniform", "low": "50 s", "high": "150 s"}))
    away = [losses(one, play(one, [(300, 0, 0)], replication=number))["reschedule", "preempted"] for number in range(8)]
    assert all(50.0 <= seconds_away <= 150.0 for seconds_away in away)
    assert len(set(away)) == 8
    assert away[0] == losses(one, play(one, [(300, 0, 0)]))["reschedule", "preempted"]
    wide = case(preemption({"law": "uniform", "low": "100 s", "high": "300 s"}))
    assert losses(wide, play(wide, [(300, 0, 0)]))["reschedule", "preempted"] == pytest.approx(2 * away[0], rel=EXACT)


def test_a_preemption_during_the_start_begins_the_start_again() -> None:
    """There is nothing to save at 20 s; the job is away to 120 s and steps from 150 s on."""
    one = case(preemption(notice="1 h"))
    table = losses(one, play(one, [(20, 0, 0)]))
    assert table["initialize", "no_failure"] == pytest.approx(20.0, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["initialize", "preempted"] == pytest.approx(30.0, abs=EXACT)
    assert ("checkpoint_stall", "preempted") not in table


def test_a_job_that_is_looking_for_a_fault_goes_too() -> None:
    """At 320 s nobody knows of the crash at 300 s yet: the job leaves, and its crashed node goes to repair."""
    one = case(preemption(notice="1 h"), cause("crash"), detection={"time": "50 s"})
    result = play(one, [(320, 0, 0), (300, 1, 0)])
    table = losses(one, result)
    assert table["detection", "crash"] == pytest.approx(20.0, abs=EXACT)
    assert table["lost_work", "crash"] == pytest.approx(50.0, abs=EXACT), "a job that stands still saves nothing"
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert "starved" not in seconds(result)
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert result.jobs[0].merged == 1


def test_a_crash_while_it_saves_does_not_keep_its_nodes() -> None:
    """The save is void at 305 s, and the job leaves without it."""
    one = case(preemption(notice="1 min"), cause("crash"))
    result = play(one, [(300, 0, 0), (305, 1, 0)])
    table = losses(one, result)
    assert table["checkpoint_stall", "preempted"] == pytest.approx(5.0, abs=EXACT)
    assert table["lost_work", "preempted"] == pytest.approx(50.0, abs=EXACT), "the incident began with the preemption"
    assert table["reschedule", "crash"] == pytest.approx(100.0, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 500.0, abs=EXACT), "from 455 s on"


def test_the_strategy_is_not_asked_about_a_preemption() -> None:
    """Nothing has failed: its budgets, which its memory counts, are for failures."""
    one = case(preemption(), cause("crash"))
    recovery = Scripted((Acquire(), Restore(), Run()), begin=(Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run()))
    play(one, [(300, 0, 0), (800, 1, 0)], recovery)
    assert [(view[0].cause, view[3]) for view in recovery.seen] == [("crash", None)]


def test_replicas_that_are_away_go_as_well() -> None:
    """One of two replicas is on its own when the whole job is preempted: all come back together.

    The crash at 300 s stalls the survivor to 310 s; at 330 s it has 250 + 20/2 s of work. It saves to 340 s, is away to
    440 s, and starts with two whole replicas: 60 s to initialize and 20 s to restore.
    """
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    start = {**SHRINK, "initialize": "30 s", "catch_up": "70 s"}
    one = case(preemption(notice="1 min"), cause("crash"), jobs=jobs, recovery=start)
    result = play(one, [(330, 0, 0), (300, 1, 0)])
    table = losses(one, result)
    # The replica that is away initializes for 30 s and catches up when it is called back, at 340 s.
    assert table["initialize", "crash"] == pytest.approx(30 / 2, abs=EXACT)
    assert table["restore", "crash"] == pytest.approx(10 / 2, abs=EXACT)
    assert table["checkpoint_stall", "preempted"] == pytest.approx(10 / 2, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["initialize", "preempted"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "preempted"] == pytest.approx(20.0, abs=EXACT)
    assert ("lost_work", "crash") not in table
    assert result.jobs[0].restores == {"remote": 1}
    # From 490 s on: four saves.
    assert result.jobs[0].work == pytest.approx(260 + 470.0, abs=EXACT)


def test_a_save_that_is_cut_off_has_lost_nothing_yet() -> None:
    """Half of the copies turn out to be bad when they are read; one that was never complete is not read at all.

    The window opens at 300 s, and a crash cuts the save off at 305 s. What counts as productive is what is left.
    """
    tier = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s", "corrupt": "50 %"}
    one = case(care(), cause("crash"), checkpoint={"tiers": [tier]}, windows="90 s")
    for replication in range(20):
        result = play(one, [(300, 0, 0, 700), (305, 1, 1)], replication=replication)
        job = result.jobs[0]
        assert job.buckets[Bucket.PRODUCTIVE] == pytest.approx(job.work * job.gpus, rel=EXACT)
        assert job.totals.min() >= -EXACT
