"""Planned maintenance, by hand: jobs save, nodes are out for as long as it was said, and nothing is lost.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s it
has done 250 s of work, 200 s of them durable. A restart takes 30 s and a restore 20 s.
"""

from __future__ import annotations

from typing import Any

import pytest

import sim
from analysis.metrics import ratios
from analysis.statistics.estimates import means
from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import cause, nodes, slow

EXACT = 1e-9


def care(start: float = 300, duration: float = 400, part: str = "node", **more: Any) -> dict[str, Any]:
    """Return a source with one window."""
    window: dict[str, Any] = {key: more.pop(key) for key in ("first", "units") if key in more}
    window |= {"start": f"{start} s", "duration": f"{duration} s"}
    return {"use": "maintenance", "name": "care", "part": part, "windows": [window], **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def outside(result: sim.Result, bucket: Bucket, source: int = 0) -> float:
    """Return node-seconds outside jobs, by bucket and cause."""
    return float(result.outside.sum(axis=0)[bucket, source + 1])


def test_a_job_saves_and_swaps_the_node() -> None:
    """Everybody knows beforehand, so there is nothing to detect and nothing to lose."""
    one = case(care(), detection={"time": "50 s"})
    result = sim.run(one, 0)
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "care"): 10.0,
            ("initialize", "care"): 30.0,
            ("restore", "care"): 20.0,
            ("checkpoint_stall", "no_failure"): 20 + 50.0,
        },
        rel=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(250 + 590.0, rel=EXACT)
    assert outside(result, Bucket.MAINTENANCE) == pytest.approx(400.0, rel=EXACT)
    assert outside(result, Bucket.REPAIR) == 0.0
    assert result.down_node_seconds == pytest.approx(400.0, rel=EXACT)
    assert result.counts["candidates"] == result.counts["faults"] == result.counts["hits"] == 1


def test_its_interruptions_are_planned_ones() -> None:
    """The count of those that nobody planned stays that of the failures."""
    one = case(care(), cause("crash"))
    result = play(one, [(300, 0, 0, 700), (800, 1, 1)])
    found = means([ratios(one, result)])
    assert (found["interruptions_planned"], found["interruptions_unplanned"]) == (1, 1)


def test_without_another_node_the_job_waits_for_the_end_of_the_window() -> None:
    """It waits from the end of its save on."""
    one = case(care(), cluster=nodes(2))
    result = sim.run(one, 0)
    assert losses(one, result)["starved", "care"] == pytest.approx(390.0, rel=EXACT)
    assert ("lost_work", "care") not in losses(one, result)
    assert result.jobs[0].work == pytest.approx(250 + 230.0, rel=EXACT)


def test_a_full_restart_saves_before_it_queues() -> None:
    """The job gives its nodes back once its work is safe."""
    one = case(care(), cluster=nodes(2), recovery={"use": "full-restart", "delay": "40 s", "initialize": "30 s"})
    table = losses(one, sim.run(one, 0))
    assert table["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert table["reschedule", "care"] == pytest.approx(40.0, rel=EXACT)
    assert table["queued", "care"] == pytest.approx(350.0, rel=EXACT)
    assert ("lost_work", "care") not in table


def test_who_does_not_save_loses_what_is_not_durable() -> None:
    """As with a failure, but known at once."""
    one = case(care(saves=False), detection={"time": "50 s"})
    result = sim.run(one, 0)
    assert losses(one, result)["lost_work", "care"] == pytest.approx(50.0, rel=EXACT)
    assert not {("checkpoint_stall", "care"), ("detection", "care")} & set(losses(one, result))
    assert result.jobs[0].work == pytest.approx(200 + 600.0, rel=EXACT)


def test_windows_count_the_units_of_their_part() -> None:
    """Rack 1 has nodes 2 and 3, which serve nobody: the job notices nothing."""
    one = case(care(part="rack", first=1), cluster=nodes(4, rack=2))
    result = sim.run(one, 0)
    assert seconds(result) == pytest.approx(seconds(sim.run(case(cause("crash")), 0)), rel=EXACT)
    assert outside(result, Bucket.MAINTENANCE) == pytest.approx(800.0, rel=EXACT)
    assert result.counts["outside"] == 1


@cases(("part", "units"), [("rack", 2), ("node", 4), ("cluster", 1)])
def test_units_that_go_out_together_need_one_save(part: str, units: int) -> None:
    """All four nodes of the job are out at once; it saves once, waits once, and loses nothing."""
    one = case(care(part=part, units=units), cluster=nodes(4, rack=2), jobs=[{"name": "job", "gpus": 4}])
    result = sim.run(one, 0)
    assert losses(one, result)["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert losses(one, result)["starved", "care"] == pytest.approx(390.0, rel=EXACT)
    assert ("lost_work", "care") not in losses(one, result)
    assert outside(result, Bucket.MAINTENANCE) == pytest.approx(1600.0, rel=EXACT)
    assert result.jobs[0].disruptions == {1: 1}
    assert result.jobs[0].merged == units - 1


def test_a_node_that_is_down_already_stays_out_until_the_window_closes() -> None:
    """Its repair would be over at 400 s; the job waits until 700 s."""
    one = case(care(), cause("crash"), cluster=nodes(2))
    result = play(one, [(200, 1, 0), (300, 0, 0, 700)])
    assert losses(one, result)["starved", "crash"] == pytest.approx(500.0, rel=EXACT)
    assert result.counts["masked"] == 1
    assert result.jobs[0].interruptions == {2: 1}
    # A repair that takes longer than the window is not cut short.
    result = play(one, [(200, 1, 0), (300, 0, 0, 350)])
    assert losses(one, result)["starved", "crash"] == pytest.approx(200.0, rel=EXACT)


def test_a_rack_of_which_one_node_is_down_is_out_as_a_whole() -> None:
    """Node 1 failed at 200 s; with node 0 it is back when the window closes."""
    one = case(care(part="rack"), cause("crash"), cluster=nodes(2, rack=2))
    result = play(one, [(200, 1, 1), (300, 0, 0, 700)])
    # The job waits from 200 s on, for node 1 and then for both.
    assert seconds(result)["starved"] == pytest.approx(500.0, rel=EXACT)
    assert result.counts["masked"] == 0


def test_a_node_under_maintenance_does_not_fail() -> None:
    """The failure is masked, and the node is back when the window closes."""
    one = case(care(), cause("crash"), cluster=nodes(2))
    result = play(one, [(300, 0, 0, 700), (650, 1, 0)])
    assert result.counts["masked"] == 1
    assert losses(one, result)["starved", "care"] == pytest.approx(390.0, rel=EXACT)


def test_maintenance_mends_nothing() -> None:
    """A slow node comes back slow."""
    one = case(care(), slow(0.5), cluster=nodes(2))
    result = play(one, [(10, 1, 0), (300, 0, 0, 700)])
    assert seconds(result)["degraded"] == pytest.approx((250 + 230) * 0.5, rel=EXACT)


def test_a_window_that_opens_while_the_job_starts_finds_nothing_to_save() -> None:
    """The start begins again with another node."""
    one = case(care(start=20))
    result = sim.run(one, 0)
    assert seconds(result)["initialize"] == pytest.approx(50.0, rel=EXACT)
    assert losses(one, result)["initialize", "care"] == pytest.approx(30.0, rel=EXACT)
    assert ("checkpoint_stall", "care") not in losses(one, result)


def test_a_save_that_maintenance_cuts_off_begins_again() -> None:
    """A slow node is noticed at 300 s; the window of the other one opens in the middle of the save."""
    one = case(care(), slow(0.5, detection="100 s"))
    result = play(one, [(200, 1, 0), (305, 0, 1, 600)])
    table = losses(one, result)
    assert table["checkpoint_stall", "slow"] == pytest.approx(5.0, rel=EXACT)
    assert table["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert "lost_work" not in seconds(result)


@cases(("end", "out"), [(700.0, 300.0), (390.0, 0.0)])
def test_a_window_waits_for_the_end_of_a_phase_that_nothing_can_hit(end: float, out: float) -> None:
    """The swap after a crash goes on until 400 s; a window that would be over by then is left out."""
    recovery = {"use": "hot-spare", "reschedule": "100 s", "initialize": "30 s", "exposed": False}
    one = case(care(), cause("crash"), recovery=recovery)
    result = play(one, [(300, 1, 0), (350, 0, 1, end)])
    assert outside(result, Bucket.MAINTENANCE) == pytest.approx(out, rel=EXACT)
    assert result.counts["suppressed"] == (0 if out else 1)
    assert result.counts["candidates"] == 2
    assert result.jobs[0].interruptions == ({1: 1, 2: 1} if out else {2: 1})


def test_windows_count_from_the_start_of_the_simulation() -> None:
    """A warm-up of 100 s brings everything forward by as much."""
    one = case(care(start=400), warmup="100 s")
    assert seconds(sim.run(one, 0)) == pytest.approx(seconds(sim.run(case(care()), 0)), rel=EXACT)


def test_each_window_has_random_times_of_its_own() -> None:
    """Two windows of one node, and two restarts of random length: one is not a copy of the other."""
    windows = [{"start": "300 s", "duration": "10 s"}, {"start": "3000 s", "duration": "10 s"}]
    recovery = {"use": "hot-spare", "initialize": {"law": "exponential", "mean": "30 s"}}
    source = {"use": "maintenance", "name": "care", "windows": windows}
    one = case(source, cluster=nodes(2), recovery=recovery, horizon="6000 s", windows="2000 s")
    initialize = sim.run(one, 0).jobs[0].totals[:, Bucket.INITIALIZE, 1] / 2
    assert initialize[0] > 0
    assert initialize[1] > 0
    assert initialize[0] != pytest.approx(initialize[1])
