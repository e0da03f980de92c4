"""Rollouts, by hand and against theory: who is changed when, what it costs, and how often changed nodes fail.

A job of two nodes starts to step after 30 s and saves, in 10 s, only when it is told to; a restart takes 30 s and a
restore 20 s. A node a day is one in 86,400 s, so 864 nodes a day are one every 100 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds, trace
from tests.intervals import Z
from tests.unit.test_effects import RARE_SAVES, cause, nodes, slow

# ----------------------------------------
# Planned maintenance, by hand: jobs save, nodes are out for as long as it was said, and nothing is lost.
#
# A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s
# it
# has done 250 s of work, 200 s of them durable. A restart takes 30 s and a restore 20 s.

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


def test_a_full_restart_saves_before_it_queues() -> None:
    """The job has saved by 300 s, gives its nodes back, is eligible at 340 s and has nodes at 700 s."""
    one = case(care(), cluster=nodes(2), recovery={"use": "full-restart", "delay": "40 s", "initialize": "30 s"})
    table = losses(one, sim.run(one, 0))
    assert table["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert table["reschedule", "care"] == pytest.approx(40.0, rel=EXACT)
    assert table["queued", "care"] == pytest.approx(360.0, rel=EXACT)
    assert ("lost_work", "care") not in table


def test_who_does_not_save_loses_what_is_not_durable() -> None:
    """As with a failure, but known at once."""
    one = case(care(saves=False), detection={"time": "50 s"})
    result = sim.run(one, 0)
    assert losses(one, result)["lost_work", "care"] == pytest.approx(50.0, rel=EXACT)
    assert not {("checkpoint_stall", "care"), ("detection", "care")} & set(losses(one, result))
    assert result.jobs[0].work == pytest.approx(200 + 600.0, rel=EXACT)


@cases(("part", "units"), [("rack", 2), ("node", 4), ("cluster", 1)])
def test_units_that_go_out_together_need_one_save(part: str, units: int) -> None:
    """All four nodes of the job are out at once; it saves once, waits once, and loses nothing."""
    one = case(care(part=part, units=units), cluster=nodes(4, rack=2), jobs=[{"name": "job", "gpus": 4}])
    result = sim.run(one, 0)
    assert losses(one, result)["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert losses(one, result)["starved", "care"] == pytest.approx(400.0, rel=EXACT)
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


def test_maintenance_mends_nothing() -> None:
    """A slow node comes back slow."""
    one = case(care(), slow(0.5), cluster=nodes(2))
    result = play(one, [(10, 1, 0), (300, 0, 0, 700)])
    assert seconds(result)["degraded"] == pytest.approx((240 + 230) * 0.5, rel=EXACT)


def test_a_window_that_opens_while_the_job_starts_finds_nothing_to_save() -> None:
    """The start begins again with another node."""
    one = case(care(start=20))
    result = sim.run(one, 0)
    assert seconds(result)["initialize"] == pytest.approx(50.0, rel=EXACT)
    assert losses(one, result)["initialize", "care"] == pytest.approx(30.0, rel=EXACT)
    assert ("checkpoint_stall", "care") not in losses(one, result)


def test_a_save_under_way_is_one_for_all_that_comes_meanwhile() -> None:
    """The job saves from 295 s on for a window at 305 s; a slow node that is noticed at 300 s waits for that save."""
    one = case(care(), slow(0.5, detection="100 s"))
    result = play(one, [(200, 1, 0), (305, 0, 1, 600)])
    table = losses(one, result)
    assert ("checkpoint_stall", "slow") not in table
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


def test_each_window_has_random_times_of_its_own() -> None:
    """Two windows of one node, and two restarts of random length: one is not a copy of the other."""
    windows = [{"start": "300 s", "duration": "10 s"}, {"start": "3000 s", "duration": "10 s"}]
    recovery = {"use": "hot-spare", "initialize": {"use": "exponential", "mean": "30 s"}}
    source = {"use": "maintenance", "name": "care", "windows": windows}
    one = case(source, cluster=nodes(2), recovery=recovery, horizon="6000 s", windows="2000 s")
    initialize = sim.run(one, 0).jobs[0].totals[:, Bucket.INITIALIZE, 1] / 2
    assert initialize[0] > 0
    assert initialize[1] > 0
    assert initialize[0] != pytest.approx(initialize[1])


def rollout(**more: Any) -> dict[str, Any]:
    """Return a change that takes 50 s a node, from 100 s on, to one node every 100 s."""
    base = {"use": "rollout", "name": "driver", "start": "100 s", "nodes_per_day": 864.0, "duration": "50 s"}
    return base | more


def rollout_case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), "checkpoint": RARE_SAVES, **changes})


def renewing(**more: Any) -> dict[str, Any]:
    """Return a source of crashes that a rollout can change."""
    return cause("crash", renews="at_failure", law={"use": "exponential", "mean": "1000 d"}, repair="60 s", **more)


def changes_of(one: sim.Prepared, rows: list[tuple[float, ...]] | None = None) -> list[tuple[int, float, float]]:
    """Return node, start and end of each outage for the first cause."""
    result = sim.run(one, 0, None if rows is None else trace(rows), keeps_log=True)
    return [(outage.node, outage.start, outage.end) for outage in result.outages if outage.cause == 1]


def test_every_node_is_out_once_for_the_stated_time() -> None:
    """One after another by number, wherever they are; whoever comes back may serve again."""
    one = rollout_case(rollout())
    assert changes_of(one) == [(0, 100, 150), (1, 200, 250), (2, 300, 350), (3, 400, 450)]
    result = sim.run(one, 0)
    # Of nodes 0 and 1, then 2 and 1, then 2 and 0, then 1 and 0: three swaps, and node 3 serves nobody.
    table = losses(one, result)
    assert table["checkpoint_stall", "driver"] == pytest.approx(30.0, rel=EXACT)
    assert table["initialize", "driver"] == pytest.approx(90.0, rel=EXACT)
    assert table["restore", "driver"] == pytest.approx(60.0, rel=EXACT)
    assert "lost_work" not in seconds(result)
    assert result.jobs[0].work == pytest.approx(970 - 180.0, rel=EXACT)
    assert result.outside.sum(axis=0)[Bucket.MAINTENANCE, 1] == pytest.approx(200.0, rel=EXACT)
    assert (result.counts["hits"], result.counts["outside"]) == (3, 1)
    assert one.sources[0].planned


def test_batches_keep_the_number_of_nodes_a_day() -> None:
    """Two at once, then 200 s to the next two."""
    one = rollout_case(rollout(batch=2, start="150 s"))
    assert changes_of(one) == [(0, 150, 200), (1, 150, 200), (2, 350, 400), (3, 350, 400)]
    # One interruption for both nodes of the job.
    assert sim.run(one, 0).jobs[0].interruptions[1] == 2
    one = rollout_case(rollout(batch=3))
    assert changes_of(one) == [(0, 100, 150), (1, 100, 150), (2, 100, 150), (3, 400, 450)]


def test_the_nodes_of_a_job_wait_for_its_next_interruption() -> None:
    """Idle nodes are changed at once; those of the job together, when one of them crashes, in one stall."""
    one = rollout_case(rollout(mode="at_interruption", nodes_per_day=8640.0), cause("crash"))
    assert changes_of(one, []) == [(2, 120, 170), (3, 130, 180)]
    quiet = sim.run(one, 0, trace([]))
    assert quiet.jobs[0].work == pytest.approx(970.0, rel=EXACT)
    result = play(one, [(500, 1, 0), (800, 1, 2)])
    table = losses(one, result)
    assert table["maintenance", "driver"] == pytest.approx(50.0, rel=EXACT)
    # Both restarts start from nothing: 470 s and 220 s are lost.
    assert table["lost_work", "crash"] == pytest.approx(470 + (800 - 580), rel=EXACT)
    assert result.jobs[0].work == pytest.approx(1000 - 830.0, rel=EXACT)
    assert result.jobs[0].interruptions == {2: 2}


def test_a_job_is_changed_only_as_far_as_it_is_due() -> None:
    """At 150 s node 0 is due and node 1 is not: one stall at 150 s, another at 400 s."""
    one = rollout_case(rollout(mode="at_interruption"), cause("crash"), cluster=nodes(6))
    result = play(one, [(150, 1, 1), (400, 1, 0)])
    # Node 1 crashes at 150 s and is down when its turn comes at 200 s; node 2 serves by then, and waits until 400 s.
    assert losses(one, result)["maintenance", "driver"] == pytest.approx(100.0, rel=EXACT)
    assert changes_of(one, [(150, 1, 1), (400, 1, 0)]) == [(3, 400, 450), (4, 500, 550), (5, 600, 650)]


def test_a_change_that_is_cut_short_begins_again() -> None:
    """A second node crashes 20 s into the stall; the third one is changed from then on."""
    job = {"name": "job", "gpus": 3}
    one = rollout_case(rollout(mode="at_interruption", batch=9), cause("crash"), cluster=nodes(6), jobs=[job])
    result = play(one, [(500, 1, 0), (520, 1, 1)])
    assert losses(one, result)["maintenance", "driver"] == pytest.approx(20 + 50.0, rel=EXACT)
    # So it does if the second crash is known only when the first change would be over: 20 + 50 s.
    known_late = rollout_case(
        rollout(mode="at_interruption", batch=9),
        cause("crash"),
        cluster=nodes(6),
        jobs=[job],
        detection={"time": "40 s"},
    )
    result = play(known_late, [(460, 1, 0), (520, 1, 1)])
    assert losses(known_late, result)["maintenance", "driver"] == pytest.approx(20 + 50.0, rel=EXACT)
    # A crash after the stall does not repeat it.
    result = play(one, [(500, 1, 0), (560, 1, 1)])
    assert losses(one, result)["maintenance", "driver"] == pytest.approx(50.0, rel=EXACT)


def test_a_planned_stop_saves_before_the_change() -> None:
    """Maintenance of node 0 is an interruption too: 10 s of saving, then 50 s for node 1."""
    care = {"use": "maintenance", "name": "care", "windows": [{"start": "500 s", "duration": "100 s"}]}
    one = rollout_case(rollout(mode="at_interruption", batch=9), care)
    table = losses(one, sim.run(one, 0))
    assert table["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert table["maintenance", "driver"] == pytest.approx(50.0, rel=EXACT)
    assert ("lost_work", "care") not in table


@cases(
    ("crashes", "tolerates", "taken_back"),
    [
        ([], 0, False),
        ([(160, 1, 0)], 0, True),
        ([(160, 1, 0)], 1, False),
        ([(160, 1, 0), (250, 1, 0)], 1, True),
        # While it is being changed its failure is masked, and its repair joins the change.
        ([(120, 1, 0)], 0, False),
        # After the soak it is too late.
        ([(360, 1, 0)], 0, False),
        # Another node is no canary.
        ([(160, 1, 3)], 0, False),
    ],
)
def test_canaries_that_fail_take_the_change_back(
    crashes: list[tuple[float, int, int]], tolerates: int, *, taken_back: bool
) -> None:
    """They are changed back, for as long again, and nobody follows."""
    canary = {"nodes": 1, "soak": "200 s", "tolerates": tolerates}
    one = rollout_case(rollout(hazard={"crash": 1000.0}, canary=canary), renewing())
    found = changes_of(one, list(crashes))
    if taken_back:
        assert found == [(0, 100, 150), (0, 350, 400)]
    else:
        assert [row[:2] for row in found[:2]] == [(0, 100), (1, 350)]
        assert len(found) == 4


def test_a_change_that_was_taken_back_changes_no_hazard() -> None:
    """At a hazard of zero nothing happens between the change and its end; before and after, it does."""
    canary = {"nodes": 2, "soak": "200 s"}
    sources = [rollout(batch=2, hazard={"crash": 0.0, "other": 1.0}, canary=canary), renewing(), renewing()]
    sources[2] |= {"name": "other"}
    rows = [(160, 2, 1), *((time, 1, 0) for time in (20, 151, 300, 349, 401, 500))]
    result = sim.run(rollout_case(*sources), 0, trace(rows), keeps_log=True)
    # The canaries are changed from 100 s on; node 1 fails at 160 s, so both are changed back from 350 s to 400 s.
    assert [(outage.node, outage.start) for outage in result.outages if outage.cause == 2] == [
        (0, 20),
        (0, 401),
        (0, 500),
    ]
    assert result.counts["suppressed"] == 3


def test_canaries_in_a_job_are_watched_once_they_are_changed() -> None:
    """Node 0 waits for the crash at 500 s; from 550 s on it soaks for 200 s, and the idle nodes follow."""
    one = rollout_case(
        rollout(mode="at_interruption", hazard={"crash": 1.0}, canary={"nodes": 1, "soak": "200 s"}), renewing()
    )
    found = changes_of(one, [(500, 1, 1)])
    # Node 1 is idle by then, node 2 is in its place.
    assert found == [(1, 750, 800), (3, 950, 1000)]


def fleet(ratio: float | None, cause_of: dict[str, Any] | None = None, **more: Any) -> sim.Prepared:
    """Return 400 nodes, the first half of which is changed in the first seconds; `ratio` of ``None`` for no change."""
    crash = {"use": "component", "name": "crash", "part": "node", "rate": "50 per 1000 node-d", "repair": "1 s"}
    sources = [rollout(start="0 s", duration="1 s", batch=200, nodes_per_day=1.0), crash | (cause_of or {})]
    if ratio is not None:
        sources[0]["hazard"] = {"crash": ratio}
    return rollout_case(*sources, cluster=nodes(400), horizon="20 d", **more)


def crashes(one: sim.Prepared, replication: int) -> list[tuple[int, float]]:
    """Return node and time of each crash."""
    outages = sim.run(one, replication, keeps_log=True).outages
    return [(outage.node, outage.start) for outage in outages if outage.cause == 2]


@pytest.mark.parametrize("ratio", [0.0, 0.25, 1.0, 3.0])
@pytest.mark.parametrize("changes", [{}, {"renews": "at_return"}, {"clock": "in_service"}, {"use": "gpu"}], ids=str)
def test_changed_nodes_fail_as_often_as_their_hazard_says(ratio: float, changes: dict[str, Any]) -> None:
    """200 nodes at 0.05 a day for 20 days: 200 crashes where nothing changed, and that times the ratio where it did."""
    source = {"part": "gpu", "rate": "50 per 1000 gpu-d"} if changes.get("use") == "gpu" else changes
    one = fleet(ratio, source)
    replications = 4
    counts = np.zeros(2)
    for replication in range(replications):
        for node, _ in crashes(one, replication):
            counts[node // 200] += 1
    for count, mean in zip(counts, (200 * ratio * replications, 200 * replications), strict=True):
        assert abs(count - mean) <= Z * mean**0.5


def test_the_failures_of_others_stay_the_same() -> None:
    """Up to a ratio of 1 each crash is one of those without a change: all, or a share of those of changed nodes."""
    plain = crashes(fleet(None), 0)
    kept = [crash for crash in plain if crash[1] > 1.0]
    assert [crash for crash in crashes(fleet(1.0), 0) if crash[1] > 1.0] == kept
    fewer = set(crashes(fleet(0.5), 0))
    assert {crash for crash in kept if crash[0] >= 200} <= fewer <= set(plain)
    changed = [crash for crash in kept if crash[0] < 200]
    share = len([crash for crash in changed if crash in fewer])
    assert abs(share - len(changed) / 2) <= Z * (len(changed) / 4) ** 0.5


@cases("ratio", [0.0, 4.0])
def test_what_a_repair_left_strikes_whatever_the_hazard(ratio: float) -> None:
    """A relapse is no new life: each node that crashed relapses once, changed or not."""
    relapse = {"after": "600 s", "probability": 0.999999}
    source = rollout(start="170 s", batch=20, hazard={"crash": ratio}, nodes_per_day=1.0)
    one = rollout_case(source, renewing(relapse=relapse), cluster=nodes(40), jobs=[{"name": "job", "gpus": 1}])
    one = replace(one, horizon=1000.0)
    result = play(one, [(100.0, 1, node) for node in range(1, 40)])
    crashed = 39 - result.counts["suppressed"]
    assert crashed > (38 if ratio < 1 else 2)
    assert result.counts["relapses"] == crashed
    # The 20 changed nodes are out by then or not; the rollout itself is one failure.
    assert result.counts["failures"] == 2 * crashed + 1


def test_a_cause_with_one_life_for_each_unit_cannot_be_thinned() -> None:
    """A life that is dropped would be the last."""
    with pytest.raises(sim.ScenarioError, match="renews: never"):
        rollout_case(rollout(hazard={"crash": 2.0}), cause("crash"))
