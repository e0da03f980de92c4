"""Nodes that compute wrongly, by hand: what is sound, what is lost once it is noticed, and when.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between: 100 s of
work are durable at 140 s, 200 s at 250 s, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import exactly, losses, play, prepared, results_of, seconds
from tests.intervals import Z
from tests.pace import sample
from tests.unit.test_effects import NEVER, SHRINK, cause, nodes, slow

if TYPE_CHECKING:
    from ettrick import sim

# ----------------------------------------
# Bugs of a job's software, by hand: at one point of its work, again and again, until somebody has mended them.
#
# A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; a restart
# takes 30 s and a restore 20 s. Its first bug waits at 250 s of work, which it reaches at 300 s.

EXACT = 1e-9


def bug(at: str = "250 s", fix: str = "300 s", name: str = "bug", **more: Any) -> dict[str, Any]:
    """Return a source of bugs that are a fixed amount of work apart."""
    return {"use": "bug", "name": name, "law": {"use": "fixed", "value": at}, "fix": fix, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def fixed(seconds_of_work: int) -> list[dict[str, Any]]:
    """Return the job with a fixed amount of work."""
    return [{"name": "job", "gpus": 2, "work": {"time": f"{seconds_of_work} s"}}]


@cases(("fix", "failures"), [("0 s", 1), ("99 s", 1), ("200 s", 2), ("201 s", 3), ("300 s", 3)])
def test_a_bug_strikes_at_the_same_work_until_it_is_mended(fix: str, failures: int) -> None:
    """It strikes at 300 s and every 100 s later, after 50 s of work each; mended in time, it lets the job pass."""
    one = case(bug(fix=fix), jobs=fixed(400), horizon="2000 s")
    result = play(one)
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "no_failure"): 30.0,
            ("lost_work", "bug"): 50.0 * failures,
            ("initialize", "bug"): 30.0 * failures,
            ("restore", "bug"): 20.0 * failures,
        },
        rel=EXACT,
    )
    # The last restart is over at 250 s + 100 s for each failure; then 100 s of work, a save, and 100 s more.
    assert result.jobs[0].end == pytest.approx(250 + 100 * failures + 100 + 10 + 100, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(400.0, rel=EXACT)
    assert result.jobs[0].interruptions == result.jobs[0].disruptions == {1: failures}
    for name in ("candidates", "faults", "failures", "hits"):
        assert result.counts[name] == failures


def test_a_crash_before_the_bug_moves_it_in_time_and_not_in_work() -> None:
    """The job loses 30 s of work at 280 s and meets the bug 50 s after it steps again, at 380 s."""
    one = case(bug(fix="1 d"), cause("crash"), horizon="400 s")
    result = play(one, [(280, 1, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "no_failure"): 20.0,
            ("lost_work", "crash"): 30.0,
            ("initialize", "crash"): 30.0,
            ("restore", "crash"): 20.0,
            ("lost_work", "bug"): 50.0,
            ("initialize", "bug"): 20.0,
        },
        rel=EXACT,
    )


def test_a_bug_counts_healthy_work_and_not_time() -> None:
    """At half the pace from 30 s on the job comes to it with its fifth stretch of 100 s, at 570 s."""
    one = case(bug(fix="1 d"), slow(0.5))
    result = play(one, [(10, 1, 0)])
    # 200 s of work are saved at 470 s. It strikes at 570, 720 and 870 s, 100 s after each restart.
    assert result.jobs[0].interruptions == {1: 3}
    assert losses(one, result)["lost_work", "bug"] == pytest.approx(3 * (50 + 50.0), rel=EXACT)


def test_bugs_of_several_kinds_come_in_the_order_of_work() -> None:
    """At 150, 250 and 300 s; each kind counts on from its own last one."""
    one = case(bug(fix="0 s"), bug("150 s", "0 s", "other"), jobs=fixed(440), horizon="5000 s")
    result = play(one)
    assert result.jobs[0].interruptions == {1: 1, 2: 2}
    # Lost: 50 s at 150 s, 50 s at 250 s, 100 s or nothing at 300 s: the save there had not begun.
    assert losses(one, result)["lost_work", "other"] == pytest.approx(50 + 100.0, rel=EXACT)
    assert losses(one, result)["lost_work", "bug"] == pytest.approx(50.0, rel=EXACT)


def test_each_job_has_its_own_bugs() -> None:
    """The other job meets them at its own work, and neither stops for the other's."""
    jobs = [{"name": "one", "gpus": 2}, {"name": "two", "gpus": 2, "arrival": "100 s"}]
    one = case(bug(fix="0 s"), jobs=jobs, horizon="390 s")
    result = play(one)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.jobs[1].interruptions == {}
    result = play(case(bug(fix="0 s"), jobs=jobs, horizon="410 s"))
    assert result.jobs[1].interruptions == {1: 1}
    assert seconds(result, 1)["lost_work"] == pytest.approx(50.0, rel=EXACT)


def test_restarts_that_take_no_time_wait_for_the_mended_program() -> None:
    """The save at the bug takes no time, nor does a restart: without a rule the clock would never move again."""
    saves = {"tiers": [{"interval": "100 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}
    for use in ("hot-spare", "full-restart"):
        one = case(bug("100 s"), checkpoint=saves, recovery={"use": use, "initialize": "0 s"})
        result = play(one)
        # At 100, 500 and 900 s, each mended 300 s later.
        assert result.jobs[0].interruptions == {1: 3}
        assert seconds(result) == exactly(productive=300.0, reschedule=700.0)


def test_bugs_over_healthy_work_are_a_poisson_process() -> None:
    """However often the job is thrown back, 40 h of work at 0.5 bugs an hour meet 20 of them, give or take."""
    sources = [
        {"use": "bug", "name": "bug", "rate": "0.5 per job-h", "fix": "0 s"},
        {"use": "component", "name": "crash", "part": "node", "rate": "0.5 per node-h"},
    ]
    one = case(*sources, jobs=[{"name": "job", "gpus": 2, "work": {"time": "40 h"}}], horizon="60 d")
    replications = sample(120)
    met = []
    for result in results_of(one, replications):
        assert result.jobs[0].finished
        met.append(result.jobs[0].interruptions.get(1, 0))
    assert abs(np.mean(met) - 20) <= Z * (20 / replications) ** 0.5
    # The variance of n Poisson numbers with a mean of m has a standard error of sqrt(m / n + 2 m^2 / (n - 1)).
    assert abs(np.var(met, ddof=1) - 20) <= Z * (20 / replications + 2 * 20**2 / (replications - 1)) ** 0.5


def corrupt(noticed: str | None = None, name: str = "corrupt") -> dict[str, Any]:
    """Return a source of nodes that compute wrongly until they are noticed."""
    more = {"detection": noticed} if noticed is not None else {}
    return cause(name, "corrupt", **more)


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


def test_a_sound_save_is_written_on_when_a_replica_leaves() -> None:
    """A replica fails while the last sound save is written: the others write on, and the job goes back to that save."""
    job = {"name": "job", "gpus": 2, "parallelism": {"data": 2, "tensor": 1}}
    one = case(corrupt("400 s"), cause("crash"), jobs=[job], recovery=SHRINK, checkpoint=asynchronous())
    result = play(one, [(200, 0, 0), (210, 1, 1)])
    # The save of 160 s has 100 s of work. Found at 600 s, the job steps again from 680 s on, with saves of 5 s.
    assert result.jobs[0].work == pytest.approx(100 + 3 * 100 + 5, rel=EXACT)
    assert losses(one, result)["restore", "corrupt"] == pytest.approx(20.0, rel=EXACT)


def test_survivors_that_hold_wrong_state_restore_a_sound_one() -> None:
    """A replica computes wrongly; the others have summed up its gradients, so nobody can go on from memory."""
    job = {"name": "job", "gpus": 2, "parallelism": {"data": 2, "tensor": 1}}
    one = case(corrupt("300 s"), jobs=[job], recovery=SHRINK)
    result = play(one, [(330, 0, 0)])
    # Steps from 60 s: 200 s are durable at 280 s, 500 s at 610 s. At 630 s: initialize, restore, run from 710 s.
    assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(320.0, rel=EXACT)
    # Replica 0 takes 75 s to come back and 5 s to join; by 705 s nobody steps yet.
    assert result.jobs[0].work == pytest.approx(200 + 270.0, rel=EXACT)


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


# ----------------------------------------
# Loss spikes, by hand: what is wrong from when on, what is given up once somebody notices, and what stays for good.
#
# A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between: 100 s of
# work are durable at 140 s, 200 s at 250 s, and so on; 250 s are done at 300 s, 340 s at 400 s and 520 s at 600 s. A
# restart takes 30 s and a restore 20 s.


def spike(noticed: str | None = "100 s", **more: Any) -> dict[str, Any]:
    """Return a source of loss spikes that strikes only where a trace says so."""
    detection = {"detection": noticed} if noticed is not None else {}
    return {"use": "loss-spike", "name": "spike", "law": NEVER["law"], **detection, **more}


def kept(retain: int | None, interval: str = "100 s") -> dict[str, Any]:
    """Return the saves that this file is about, of which only some are kept."""
    tier = {"interval": interval, "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return {"tiers": [tier if retain is None else {**tier, "retain": retain}]}


def check_ledger(result: sim.Result) -> None:
    """What counts as productive is the work that survives, and no window owes any."""
    for job in result.jobs:
        assert job.buckets[0] == pytest.approx(job.work * job.gpus, rel=EXACT, abs=EXACT)
        assert job.totals.min() >= -EXACT


def test_the_work_since_the_last_save_before_the_spike_is_given_up() -> None:
    """Noticed at 400 s with 340 s of work; the save of 300 s at 360 s is wrong, the one of 200 s is not."""
    one = case(spike(), windows="100 s")
    result = play(one, [(300, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "spike"): 140.0,
            ("initialize", "spike"): 30.0,
            ("restore", "spike"): 20.0,
            # Before it three, and five from 450 s on: the last ends at the horizon.
            ("checkpoint_stall", "no_failure"): 80.0,
        },
        abs=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(200 + 500.0, abs=EXACT)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.jobs[0].disruptions == {1: 1}
    assert result.jobs[0].accepted == 0
    assert result.jobs[0].restores == {"remote": 1}
    assert (result.counts["hits"], result.counts["tainted_at_end"]) == (1, 0)
    assert result.down_node_seconds == 0.0, "no node is at fault"
    check_ledger(result)


@cases(("rewind", "back_to"), [("50 s", 200.0), ("51 s", 100.0), ("150 s", 100.0), ("151 s", 0.0), ("1 d", 0.0)])
def test_work_before_the_spike_is_given_up_too(rewind: str, back_to: float) -> None:
    """Of the 250 s at the spike, 200 s are left after a rewind of 50 s; that of a second more is an earlier save.

    What was durable long ago is lost in the windows in which it was earned.
    """
    one = case(spike(rewind=rewind), windows="100 s")
    result = play(one, [(300, 0, 0)])
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(340 - back_to, abs=EXACT)
    restored = 20.0 if back_to else 0.0
    assert seconds(result).get("restore", 0.0) == pytest.approx(restored, abs=EXACT)
    # 550 or 570 s from the restart on.
    assert result.jobs[0].work == pytest.approx(back_to + (500 if back_to else 520.0), abs=EXACT)
    check_ledger(result)


def test_a_save_whose_stall_has_begun_holds_what_was_done_before() -> None:
    """The save from 350 to 360 s is of 300 s of work; a spike at 355 s does not spoil it."""
    one = case(spike())
    assert seconds(play(one, [(355, 0, 0)]))["lost_work"] == pytest.approx(95.0, abs=EXACT)
    assert seconds(play(one, [(345, 0, 0)]))["lost_work"] == pytest.approx(185.0, abs=EXACT)


def test_wrong_work_that_was_saved_outlives_another_failure() -> None:
    """A crash at 380 s goes back to the wrong save of 300 s; noticed at 500 s, 70 s later, all of it is given up."""
    one = case(spike("200 s"), cause("crash"), windows="90 s")
    result = play(one, [(300, 0, 0), (380, 1, 0)])
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(20.0, abs=EXACT)
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(100 + 70.0, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 410.0, abs=EXACT)
    check_ledger(result)


@cases(("interval", "write"), [("0.7 s", "0.1 s"), ("33.3 s", "1.1 s"), ("7.3 s", "0.3 s")])
def test_copies_of_odd_times_are_as_sound_as_others(interval: str, write: str) -> None:
    """Rounding makes no copy wrong: what is taken back to the last copy before a spike holds nothing of it."""
    tier = {"interval": interval, "mode": "blocking", "write": write, "restore": "2 s", "retain": 2000}
    for at in (81.7, 211.3, 333.3, 471.9):
        one = case(spike("97.3 s"), cause("crash"), checkpoint={"tiers": [tier]})
        result = play(one, [(at, 0, 0)])
        assert result.jobs[0].accepted == 0
        assert result.counts["tainted_at_end"] == 0
        # A crash before the next save is complete heals it.
        result = play(one, [(at, 0, 0), (at + 0.05, 1, 0)])
        assert result.counts["healed"] == 1, at
        check_ledger(result)


def test_a_rewind_may_reach_back_beyond_an_older_spike() -> None:
    """The spike at 300 s goes unnoticed; the rewind of the other one, known at 400 s, leaves the first 100 s."""
    tier = {**kept(None)["tiers"][0]}
    far = {**spike("60 s", rewind="150 s"), "name": "far"}
    one = case(spike("500 s"), far, checkpoint={"tiers": [tier]}, windows="100 s")
    result = play(one, [(300, 0, 0), (340, 1, 0)])
    assert losses(one, result)["lost_work", "far"] == pytest.approx(340 - 100.0, abs=EXACT)
    assert result.counts["healed"] == 1
    check_ledger(result)


def test_replicas_restart_together() -> None:
    """What the survivors hold is wrong: nobody steps on, all restore after 60 s."""
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    one = case(spike(), jobs=jobs, recovery=SHRINK)
    result = play(one, [(300, 0, 0)])
    # They start to step at 60 s: 220 s are done at 300 s, 310 s at 400 s.
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(110.0, abs=EXACT)
    assert losses(one, result)["initialize", "spike"] == pytest.approx(60.0, abs=EXACT)
    assert losses(one, result)["restore", "spike"] == pytest.approx(20.0, abs=EXACT)
    check_ledger(result)


@cases(("retain", "back_to"), [(1, 500), (2, 400), (3, 300), (4, 200), (5, 200), (9, 200)])
def test_the_oldest_copy_is_taken_if_none_from_before_is_kept(retain: int, back_to: float) -> None:
    """Noticed at 600 s with copies of 100 to 500 s of work. The work that was sound is 200 s."""
    one = case(spike("300 s"), checkpoint=kept(retain), windows="70 s")
    result = play(one, [(300, 0, 0)])
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(520 - back_to, abs=EXACT)
    assert result.jobs[0].accepted == (1 if back_to > 200 else 0)
    assert result.counts["tainted_at_end"] == 0, "nobody asks again"
    # What it keeps beyond the 200 s is wrong: as if it had gone back to them.
    assert result.jobs[0].work == pytest.approx(200.0 + 320.0, abs=EXACT)
    assert seconds(result).get("wrong_work", 0.0) == pytest.approx(back_to - 200.0, abs=EXACT)
    assert seconds(result)["restore"] == pytest.approx(20.0, abs=EXACT)
    check_ledger(result)


def test_a_copy_in_memory_that_was_sound_may_be_gone_when_it_is_noticed() -> None:
    """Saved to the hosts every 10 s, to the remote store every 100 s: at 300 s the newest sound copy is of 260 s.

    The hosts keep one copy each, so what is left at 400 s is the remote one of 200 s.
    """
    host = {"store": "host", "interval": "10 s", "mode": "async", "write": "0 s", "restore": "1 s"}
    checkpoint = {"tiers": [host, *kept(None)["tiers"]]}
    one = case(spike(), checkpoint=checkpoint, windows="100 s")
    result = play(one, [(300, 0, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(140.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    check_ledger(result)
