"""Loss spikes, by hand: what is wrong from when on, what is given up once somebody notices, and what stays for good.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between: 100 s of
work are durable at 140 s, 200 s at 250 s, and so on; 250 s are done at 300 s, 340 s at 400 s and 520 s at 600 s. A
restart takes 30 s and a restore 20 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import NEVER, SHRINK, cause, nodes

if TYPE_CHECKING:
    import sim

EXACT = 1e-9


def spike(noticed: str | None = "100 s", **more: Any) -> dict[str, Any]:
    """Return a source of loss spikes that strikes only where a trace says so."""
    detection = {"detection": noticed} if noticed is not None else {}
    return {"use": "loss-spike", "name": "spike", "law": NEVER["law"], **detection, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def kept(retain: int | None, interval: str = "100 s") -> dict[str, Any]:
    """Return the saves that this file is about, of which only some are kept."""
    tier = {"interval": interval, "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return {"tiers": [tier if retain is None else {**tier, "retain": retain}]}


def check_ledger(result: sim.Result) -> None:
    """What counts as productive is the work that survives, and no window owes any."""
    for job in result.jobs:
        assert job.buckets[0] == pytest.approx(job.work * job.gpus, rel=EXACT, abs=EXACT)
        assert job.totals.min() >= -EXACT


# ------------------------------------------------------------------------------------------- what is given up


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


def test_what_nobody_notices_costs_nothing_that_anybody_sees() -> None:
    """Who never looks, or looks after the end, keeps the work; the result says that it is wrong."""
    quiet = seconds(play(case(spike())))
    for noticed in (None, "1 h"):
        one = case(spike(noticed), detection={"use": "observers", "human": {"latency": "1 d"}})
        result = play(one, [(300, 0, 0)])
        assert seconds(result) == pytest.approx(quiet, rel=EXACT)
        assert result.counts["tainted_at_end"] == 1
        assert result.jobs[0].interruptions == {}


def test_a_spike_needs_a_job_that_steps() -> None:
    """At 20 s the job initializes: nothing happens."""
    one = case(spike())
    result = play(one, [(20, 0, 0)])
    assert seconds(result) == pytest.approx(seconds(play(one)), rel=EXACT)
    assert result.counts["harmless"] == 1
    assert result.counts["tainted_at_end"] == 0


# -------------------------------------------------------------------------------------- with other failures


def test_another_failure_may_go_back_past_the_spike_first() -> None:
    """A crash at 320 s takes the job back to the save before the spike: at 400 s there is nothing left to notice."""
    one = case(spike(), cause("crash"))
    result = play(one, [(300, 0, 0), (320, 1, 0)])
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(70.0, abs=EXACT)
    assert ("lost_work", "spike") not in losses(one, result)
    assert result.jobs[0].interruptions == {2: 1}
    assert (result.counts["healed"], result.counts["hits"]) == (1, 1)
    assert (result.counts["tainted_at_end"], result.counts["unnoticed_at_end"]) == (0, 0)


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


def test_one_way_back_may_undo_two_spikes() -> None:
    """The second one, at 340 s, is undone when the first one is noticed at 400 s."""
    one = case(spike())
    result = play(one, [(300, 0, 0), (340, 0, 0)])
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(140.0, abs=EXACT)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.counts["healed"] == 1


def test_a_rewind_may_reach_back_beyond_an_older_spike() -> None:
    """The spike at 300 s goes unnoticed; the rewind of the other one, known at 400 s, leaves the first 100 s."""
    tier = {**kept(None)["tiers"][0]}
    far = {**spike("60 s", rewind="150 s"), "name": "far"}
    one = case(spike("500 s"), far, checkpoint={"tiers": [tier]}, windows="100 s")
    result = play(one, [(300, 0, 0), (340, 1, 0)])
    assert losses(one, result)["lost_work", "far"] == pytest.approx(340 - 100.0, abs=EXACT)
    assert result.counts["healed"] == 1
    check_ledger(result)


def test_a_job_in_the_queue_will_not_start_from_a_wrong_save() -> None:
    """It has no nodes when the spike is noticed at 500 s; what it goes back to changes at once, and no node leaves."""
    restart = {"use": "full-restart", "initialize": "30 s"}
    one = case(spike("200 s"), cause("crash"), cluster=nodes(2), recovery=restart)
    result = play(one, [(300, 0, 0), (400, 1, 1)])
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(140.0, abs=EXACT), "the incident is the crash's"
    assert seconds(result)["queued"] == pytest.approx(200.0, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(200 + 320.0, abs=EXACT)
    assert result.jobs[0].interruptions == {2: 1}
    assert result.down_node_seconds == pytest.approx(200.0, abs=EXACT)
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


# ------------------------------------------------------------------------------------- copies that are not kept


@cases(("retain", "back_to"), [(1, 500), (2, 400), (3, 300), (4, 200), (5, 200), (9, 200)])
def test_the_oldest_copy_is_taken_if_none_from_before_is_kept(retain: int, back_to: float) -> None:
    """Noticed at 600 s with copies of 100 to 500 s of work. The work that was sound is 200 s."""
    one = case(spike("300 s"), checkpoint=kept(retain), windows="70 s")
    result = play(one, [(300, 0, 0)])
    assert losses(one, result)["lost_work", "spike"] == pytest.approx(520 - back_to, abs=EXACT)
    assert result.jobs[0].accepted == (1 if back_to > 200 else 0)
    assert result.counts["tainted_at_end"] == 0, "nobody asks again"
    assert result.jobs[0].work == pytest.approx(back_to + 320.0, abs=EXACT)
    assert seconds(result)["restore"] == pytest.approx(20.0, abs=EXACT)
    check_ledger(result)


def test_the_start_needs_no_copy() -> None:
    """A spike before the first save takes the job back to the start, as long as no copy has been deleted."""
    result = play(case(spike("500 s"), checkpoint=kept(5)), [(100, 0, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(520.0, abs=EXACT)
    assert result.jobs[0].accepted == 0
    result = play(case(spike("500 s"), checkpoint=kept(4)), [(100, 0, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(320.0, abs=EXACT)
    assert result.jobs[0].accepted == 1


def test_of_two_spikes_only_the_one_before_the_copy_stays() -> None:
    """Noticed together at 600 s, the one at 300 s leaves its trace in the copy of 400 s, the one at 560 s does not."""
    late = {**spike("40 s"), "name": "late"}
    one = case(spike("300 s"), late, checkpoint=kept(2))
    result = play(one, [(300, 0, 0), (560, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(120.0, abs=EXACT)
    assert result.jobs[0].accepted == 1


def test_wrong_results_of_a_node_are_kept_alike() -> None:
    """A node computes wrongly from 300 s on and is found at 600 s: it goes, and what it spoiled stays in the copy."""
    for retain, back_to in ((2, 400.0), (4, 200.0)):
        one = case(cause("corrupt", "corrupt", detection="300 s"), checkpoint=kept(retain), windows="70 s")
        result = play(one, [(300, 0, 0)])
        assert losses(one, result)["lost_work", "corrupt"] == pytest.approx(520 - back_to, abs=EXACT)
        assert result.jobs[0].accepted == (back_to > 200)
        assert result.jobs[0].work == pytest.approx(back_to + 320.0, abs=EXACT)
        assert result.down_node_seconds == pytest.approx(200.0, abs=EXACT)
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
