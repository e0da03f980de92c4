"""Nodes that compute wrongly, by hand: what is sound, what is lost once it is noticed, and when.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between: 100 s of
work are durable at 140 s, 200 s at 250 s, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import SHRINK, cause, nodes

if TYPE_CHECKING:
    import sim

EXACT = 1e-9


def corrupt(noticed: str | None = None, name: str = "corrupt") -> dict[str, Any]:
    """Return a source of nodes that compute wrongly until they are noticed."""
    more = {"detection": noticed} if noticed is not None else {}
    return cause(name, "corrupt", **more)


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def asynchronous() -> dict[str, Any]:
    """Return saves that stall for 5 s and are durable 60 s later."""
    return {"tiers": [{"interval": "100 s", "mode": "async", "stall": "5 s", "write": "60 s", "restore": "20 s"}]}


def test_what_nobody_notices_costs_nothing_that_anybody_sees() -> None:
    """The work counts, and the result says that it is wrong."""
    one = case(corrupt())
    result = play(one, [(300, 0, 0)])
    assert seconds(result) == pytest.approx(seconds(play(one)), rel=EXACT)
    assert result.counts["tainted_at_end"] == 1
    assert play(one).counts["tainted_at_end"] == 0
    assert play(one, [(300, 0, 3)]).counts["tainted_at_end"] == 0, "no job there"


def test_all_work_since_the_fault_is_lost_whatever_was_saved() -> None:
    """From 250 s on the work is wrong from the save before: of 520 s at 600 s, 200 s are left, though 500 are saved."""
    one = case(corrupt("300 s"), windows="200 s")
    result = play(one, [(300, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "no_failure"): 80.0,
            ("lost_work", "corrupt"): 320.0,
            ("initialize", "corrupt"): 30.0,
            ("restore", "corrupt"): 20.0,
        },
        rel=EXACT,
    )
    assert seconds(result)["productive"] == pytest.approx(200 + 320.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(520.0, rel=EXACT)
    # In the windows in which it was earned: 250-350, 360-400; 400-460, 470-570, 580-600.
    lost = result.jobs[0].totals[:, Bucket.LOST_WORK, 1] / 2
    assert lost == pytest.approx([0.0, 140.0, 180.0, 0.0, 0.0], rel=EXACT)
    assert result.jobs[0].totals.sum(axis=(1, 2)) / 2 == pytest.approx([200.0] * 5, rel=EXACT)
    assert result.counts["tainted_at_end"] == 0
    assert result.counts["hits"] == 1


def test_work_that_is_both_slow_and_wrong_is_lost_with_its_degraded_time() -> None:
    """Half of the 320 s of stepping since the last sound save were degraded; all of them are lost."""
    one = case(corrupt("300 s"), cause("slow", {"kind": "slow", "factor": 0.5, "heals": "1 d"}))
    result = play(one, [(300, 0, 0), (251, 1, 1)])
    # Only node 0 is swapped; node 1 goes on at half the pace, from 650 s, for 320 s of stepping.
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(320.0, rel=EXACT)
    assert losses(one, result)["degraded", "slow"] == pytest.approx(160.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 160.0, rel=EXACT)


def test_a_rollback_to_before_the_fault_clears_the_work() -> None:
    """The node crashes 20 s after it began to compute wrongly: nothing wrong was saved, and its repair mends it."""
    one = case(corrupt("300 s"), cause("crash"))
    result = play(one, [(300, 0, 0), (320, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(70.0, rel=EXACT)
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(70.0, rel=EXACT)
    assert result.jobs[0].interruptions == {2: 1}
    assert result.counts["healed"] == 1
    # The same, if nobody ever looks.
    assert play(case(corrupt(), cause("crash")), [(300, 0, 0), (320, 1, 0)]).counts["tainted_at_end"] == 0


def test_a_node_that_stays_makes_the_work_wrong_again() -> None:
    """Another node crashes; the job goes back to 200 s of work, and whatever it does from then on is wrong too."""
    one = case(corrupt("300 s"), cause("crash"))
    result = play(one, [(300, 0, 0), (320, 1, 1)])
    # The job steps again from 370 s; at 600 s it has done 210 s more.
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(70.0, rel=EXACT)
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(210.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 320.0, rel=EXACT)


def test_wrong_work_outlives_the_repair_of_its_node() -> None:
    """The node crashes after a wrong save and is repaired; at 700 s the job goes back to before the fault."""
    one = case(corrupt("400 s"), cause("crash"))
    result = play(one, [(300, 0, 0), (400, 1, 0)])
    # 40 s are lost at 400 s; from 450 s on 230 s are done, on top of 300 s, 100 s of which are wrong.
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "crash"): 40.0,
            ("initialize", "crash"): 30.0,
            ("restore", "crash"): 20.0,
            ("lost_work", "corrupt"): 330.0,
            ("initialize", "corrupt"): 30.0,
            ("restore", "corrupt"): 20.0,
            ("checkpoint_stall", "no_failure"): 30 + 20 + 20.0,
        },
        rel=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(200 + 230.0, rel=EXACT)
    assert (result.counts["hits"], result.counts["outside"], result.counts["masked"]) == (2, 0, 0)
    assert result.counts["healed"] == 0


@cases(
    ("checkpoint", "onset", "sound", "work"),
    [
        # Asynchronous: saved from 130 s to 135 s, durable at 195 s; 355 s of work are done by 400 s.
        (asynchronous(), 129.0, 0.0, 355.0),
        (asynchronous(), 132.0, 100.0, 355.0),
        (asynchronous(), 150.0, 100.0, 355.0),
        (asynchronous(), 196.0, 100.0, 355.0),
        (asynchronous(), 234.0, 100.0, 355.0),
        (asynchronous(), 236.0, 200.0, 355.0),
        # Blocking: from 130 s to 140 s; 340 s of work are done.
        (None, 129.0, 0.0, 340.0),
        (None, 135.0, 100.0, 340.0),
        (None, 141.0, 100.0, 340.0),
    ],
)
def test_a_save_that_began_before_the_fault_is_sound(
    checkpoint: dict[str, Any] | None, onset: float, sound: float, work: float
) -> None:
    """What counts is when the state was copied, not when it was durable."""
    changes = {} if checkpoint is None else {"checkpoint": checkpoint}
    one = case(corrupt(f"{400 - onset} s"), **changes)
    result = play(one, [(onset, 0, 0)])
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(work - sound, rel=EXACT)
    assert losses(one, result).get(("restore", "corrupt"), 0.0) == pytest.approx(20.0 if sound else 0.0)


def test_a_sound_save_that_was_cut_off_is_no_way_back() -> None:
    """A replica fails while the last sound save is written: it is void, and later saves are all wrong."""
    job = {"name": "job", "gpus": 2, "parallelism": {"data": 2, "tensor": 1}}
    one = case(corrupt("400 s"), cause("crash"), jobs=[job], recovery=SHRINK, checkpoint=asynchronous())
    result = play(one, [(200, 0, 0), (210, 1, 1)])
    # Everything is gone at 600 s. One replica starts at 660 s, the other joins it at 675 s, and both step from 680 s.
    assert result.jobs[0].work == pytest.approx(7.5 + 85 + 100 + 100 + 20, rel=EXACT)
    # Nothing is restored but half of the job, from the other half.
    assert losses(one, result)["restore", "corrupt"] == pytest.approx(7.5, rel=EXACT)


def test_survivors_that_hold_wrong_state_restore_a_sound_one() -> None:
    """A replica computes wrongly; the others have summed up its gradients, so nobody can go on from memory."""
    job = {"name": "job", "gpus": 2, "parallelism": {"data": 2, "tensor": 1}}
    one = case(corrupt("300 s"), jobs=[job], recovery=SHRINK)
    result = play(one, [(330, 0, 0)])
    # Steps from 60 s: 200 s are durable at 280 s, 500 s at 610 s. At 630 s: initialize, restore, run from 710 s.
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(320.0, rel=EXACT)
    # Replica 0 takes 75 s to come back and 5 s to join; by 705 s nobody steps yet.
    assert result.jobs[0].work == pytest.approx(200 + 270.0, rel=EXACT)


def test_of_two_faults_the_earlier_one_rules() -> None:
    """Once it is noticed, the other one has made nothing wrong that is left; but its node still does."""
    one = case(corrupt("400 s"), corrupt("300 s", "second"))
    result = play(one, [(300, 0, 0), (500, 1, 1)])
    # At 700 s the job goes back to 200 s and steps from 750 s; at 800 s the other node is found.
    table = losses(one, result)
    assert table["lost_work", "corrupt"] == pytest.approx(610 - 200.0, rel=EXACT)
    assert table["lost_work", "second"] == pytest.approx(50.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 140.0, rel=EXACT)


def test_the_later_fault_may_be_noticed_first() -> None:
    """Then the job goes back to before that one, and once more when the earlier one is noticed."""
    one = case(corrupt("400 s"), corrupt("100 s", "second"))
    result = play(one, [(300, 0, 0), (500, 1, 1)])
    table = losses(one, result)
    # At 600 s from 520 s to 400 s; steps from 650 s; at 700 s from 450 s to 200 s.
    assert table["lost_work", "second"] == pytest.approx(120.0, rel=EXACT)
    assert table["lost_work", "corrupt"] == pytest.approx(250.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 230.0, rel=EXACT)
    still = play(case(corrupt(), corrupt("100 s", "second")), [(300, 0, 0), (500, 1, 1)])
    assert still.counts["tainted_at_end"] == 1


def test_a_node_that_computes_wrongly_before_it_joins_is_wrong_from_its_first_step() -> None:
    """Node 2 takes the place of node 0 at 400 s; what was saved before is sound."""
    one = case(corrupt("600 s"), cause("crash"))
    result = play(one, [(50, 0, 2), (400, 1, 0)])
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(40.0, rel=EXACT)
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(190.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(300 + 280.0, rel=EXACT)
    # Found before it joins, it costs the job nothing.
    result = play(case(corrupt("100 s"), cause("crash")), [(50, 0, 2), (400, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(40.0, rel=EXACT)
    assert result.counts["outside"] == 1


def test_a_job_in_the_queue_will_not_start_from_a_wrong_save() -> None:
    """It has no nodes when the fault is noticed; what it goes back to changes at once."""
    restart = {"use": "full-restart", "initialize": "30 s"}
    one = case(corrupt("200 s"), cause("crash"), cluster=nodes(2), recovery=restart)
    result = play(one, [(300, 0, 0), (400, 1, 1)])
    # 40 s are lost at 400 s; at 500 s another 100 s, and the idle node goes to repair until 700 s.
    assert seconds(result)["lost_work"] == pytest.approx(140.0, rel=EXACT)
    assert seconds(result)["queued"] == pytest.approx(300.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 230.0, rel=EXACT)
    assert result.counts["outside"] == 1
    # It is lost when it is noticed, not when the job starts.
    early = case(corrupt("200 s"), cause("crash"), cluster=nodes(2), recovery=restart, horizon="600 s")
    assert seconds(play(early, [(300, 0, 0), (400, 1, 1)]))["lost_work"] == pytest.approx(140.0, rel=EXACT)


def test_noticed_while_another_failure_is_being_found() -> None:
    """The wait ends at once, both nodes are swapped, and the loss belongs to the first failure of the incident."""
    one = case(corrupt("300 s"), cause("crash"), detection={"time": "50 s"})
    result = play(one, [(300, 0, 0), (590, 1, 1)])
    table = losses(one, result)
    assert table["detection", "crash"] == pytest.approx(10.0, rel=EXACT)
    assert table["lost_work", "crash"] == pytest.approx(310.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 320.0, rel=EXACT)
    assert (result.jobs[0].disruptions, result.jobs[0].merged) == ({2: 1}, 1)


def test_fixed_work_is_done_again_up_to_the_last_second() -> None:
    """600 s of work: 400 s of them after the way back at 600 s. A job that is done is not asked again."""
    job = [{"name": "job", "gpus": 2, "work": {"time": "600 s"}}]
    result = play(case(corrupt("300 s"), jobs=job, horizon="2000 s"), [(300, 0, 0)])
    assert result.jobs[0].end == pytest.approx(650 + 400 + 30.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(600.0, rel=EXACT)
    late = case(corrupt("900 s"), jobs=[*job, {"name": "other", "gpus": 2}], horizon="2000 s")
    result = play(late, [(300, 0, 0)])
    assert result.jobs[0].end == pytest.approx(30 + 600 + 50.0, rel=EXACT)
    assert result.counts["tainted_at_end"] == 1
    assert result.counts["outside"] == 1


@cases("noticed", ["1 h", None])
def test_a_notice_after_the_horizon_is_none(noticed: str | None) -> None:
    """What nobody knows at the end has taken nothing."""
    result = play(case(corrupt(noticed)), [(500, 0, 1)])
    assert "lost_work" not in seconds(result)
    assert result.counts["tainted_at_end"] == 1
