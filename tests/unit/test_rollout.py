"""Rollouts, by hand and against theory: who is changed when, what it costs, and how often changed nodes fail.

A job of two nodes starts to step after 30 s and saves, in 10 s, only when it is told to; a restart takes 30 s and a
restore 20 s. A node a day is one in 86,400 s, so 864 nodes a day are one every 100 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sim
from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import Z, losses, play, prepared, seconds, trace
from tests.unit.test_effects import RARE_SAVES, cause, nodes

EXACT = 1e-9
DAY = 86400.0


def rollout(**more: Any) -> dict[str, Any]:
    """Return a change that takes 50 s a node, from 100 s on, to one node every 100 s."""
    base = {"use": "rollout", "name": "driver", "start": "100 s", "nodes_per_day": 864.0, "duration": "50 s"}
    return base | more


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), "checkpoint": RARE_SAVES, **changes})


def renewing(**more: Any) -> dict[str, Any]:
    """Return a source of crashes that a rollout can change."""
    return cause("crash", renews="at_failure", law={"law": "exponential", "mean": "1000 d"}, repair="60 s", **more)


def changes_of(one: sim.Prepared, rows: list[tuple[float, ...]] | None = None) -> list[tuple[int, float, float]]:
    """Return node, start and end of each outage for the first cause."""
    result = sim.run(one, 0, None if rows is None else trace(rows), keeps_log=True)
    return [(outage.node, outage.start, outage.end) for outage in result.outages if outage.cause == 1]


# ----------------------------------------------------------------------------------------------------- draining


def test_every_node_is_out_once_for_the_stated_time() -> None:
    """One after another by number, wherever they are; whoever comes back may serve again."""
    one = case(rollout())
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


def test_nothing_has_to_be_detected() -> None:
    """It is planned: nobody waits to find out."""
    one = case(rollout(), detection={"time": "40 s"})
    assert seconds(sim.run(one, 0)) == pytest.approx(seconds(sim.run(case(rollout()), 0)), rel=EXACT)


def test_batches_keep_the_number_of_nodes_a_day() -> None:
    """Two at once, then 200 s to the next two."""
    one = case(rollout(batch=2, start="150 s"))
    assert changes_of(one) == [(0, 150, 200), (1, 150, 200), (2, 350, 400), (3, 350, 400)]
    # One interruption for both nodes of the job.
    assert sim.run(one, 0).jobs[0].interruptions[1] == 2
    one = case(rollout(batch=3))
    assert changes_of(one) == [(0, 100, 150), (1, 100, 150), (2, 100, 150), (3, 400, 450)]


def test_a_node_that_is_down_is_changed_there() -> None:
    """It fails at 150 s and is back at 350 s; its turn at 200 s costs nothing."""
    one = case(rollout(), cause("crash"))
    assert changes_of(one, [(150, 1, 1)]) == [(0, 100, 150), (2, 300, 350), (3, 400, 450)]


def test_a_rollout_may_be_longer_than_the_horizon() -> None:
    """Who has not been changed by then is not."""
    assert changes_of(case(rollout(start="950 s"))) == [(0, 950, 1000)]
    assert changes_of(case(rollout(start="2000 s"))) == []


# -------------------------------------------------------------------------------------------- at interruptions


def test_the_nodes_of_a_job_wait_for_its_next_interruption() -> None:
    """Idle nodes are changed at once; those of the job together, when one of them crashes, in one stall."""
    one = case(rollout(mode="at_interruption", nodes_per_day=8640.0), cause("crash"))
    assert changes_of(one, []) == [(2, 120, 170), (3, 130, 180)]
    quiet = sim.run(one, 0, trace([]))
    assert quiet.jobs[0].work == pytest.approx(970.0, rel=EXACT)
    result = play(one, [(500, 1, 0), (800, 1, 2)])
    table = losses(one, result)
    assert table["maintenance", "crash"] == pytest.approx(50.0, rel=EXACT)
    # Both restarts start from nothing: 470 s and 220 s are lost.
    assert table["lost_work", "crash"] == pytest.approx(470 + (800 - 580), rel=EXACT)
    assert result.jobs[0].work == pytest.approx(1000 - 830.0, rel=EXACT)
    assert result.jobs[0].interruptions == {2: 2}


def test_a_job_is_changed_only_as_far_as_it_is_due() -> None:
    """At 150 s node 0 is due and node 1 is not: one stall at 150 s, another at 400 s."""
    one = case(rollout(mode="at_interruption"), cause("crash"), cluster=nodes(6))
    result = play(one, [(150, 1, 1), (400, 1, 0)])
    # Node 1 crashes at 150 s and is down when its turn comes at 200 s; node 2 serves by then, and waits until 400 s.
    assert losses(one, result)["maintenance", "crash"] == pytest.approx(100.0, rel=EXACT)
    assert changes_of(one, [(150, 1, 1), (400, 1, 0)]) == [(3, 400, 450), (4, 500, 550), (5, 600, 650)]


def test_a_change_that_is_cut_short_begins_again() -> None:
    """A second node crashes 20 s into the stall; the third one is changed from then on."""
    job = {"name": "job", "gpus": 3}
    one = case(rollout(mode="at_interruption", batch=9), cause("crash"), cluster=nodes(6), jobs=[job])
    result = play(one, [(500, 1, 0), (520, 1, 1)])
    assert losses(one, result)["maintenance", "crash"] == pytest.approx(20 + 50.0, rel=EXACT)
    # A crash after the stall does not repeat it.
    result = play(one, [(500, 1, 0), (560, 1, 1)])
    assert losses(one, result)["maintenance", "crash"] == pytest.approx(50.0, rel=EXACT)


def test_a_planned_stop_saves_before_the_change() -> None:
    """Maintenance of node 0 is an interruption too: 10 s of saving, then 50 s for node 1."""
    care = {"use": "maintenance", "name": "care", "windows": [{"start": "500 s", "duration": "100 s"}]}
    one = case(rollout(mode="at_interruption", batch=9), care)
    table = losses(one, sim.run(one, 0))
    assert table["checkpoint_stall", "care"] == pytest.approx(10.0, rel=EXACT)
    assert table["maintenance", "care"] == pytest.approx(50.0, rel=EXACT)
    assert ("lost_work", "care") not in table


def test_nodes_of_a_finished_job_are_changed_at_its_end() -> None:
    """Nobody interrupts it any more."""
    jobs = [{"name": "short", "gpus": 2, "work": {"time": "300 s"}}, {"name": "long", "gpus": 1}]
    one = case(rollout(mode="at_interruption", batch=4), jobs=jobs)
    assert changes_of(one) == [(3, 100, 150), (0, 330, 380), (1, 330, 380)]


# ------------------------------------------------------------------------------------------------------- canary


def test_canaries_that_are_well_let_the_others_follow() -> None:
    """One node, 50 s of change and 200 s of soaking; then one every 100 s."""
    one = case(rollout(hazard={"crash": 1.0}, canary={"nodes": 1, "soak": "200 s"}), renewing())
    assert changes_of(one, []) == [(0, 100, 150), (1, 350, 400), (2, 450, 500), (3, 550, 600)]


@cases(
    ("crashes", "tolerates", "taken_back"),
    [
        ([], 0, False),
        ([(160, 1, 0)], 0, True),
        ([(160, 1, 0)], 1, False),
        ([(160, 1, 0), (250, 1, 0)], 1, True),
        # While it is being changed it cannot fail.
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
    one = case(rollout(hazard={"crash": 1000.0}, canary=canary), renewing())
    found = changes_of(one, list(crashes))
    if taken_back:
        assert found == [(0, 100, 150), (0, 350, 400)]
    else:
        assert found[:2] == [(0, 100, 150), (1, 350, 400)]
        assert len(found) == 4


def test_a_fault_that_stops_nobody_is_no_failure_of_a_canary() -> None:
    """Harmless faults are not what the canaries are watched for."""
    canary = {"nodes": 1, "soak": "200 s"}
    one = case(rollout(hazard={"crash": 1.0}, canary=canary), renewing(interrupts=0.0))
    assert len(changes_of(one, [(160, 1, 0)])) == 4


def test_a_change_that_was_taken_back_changes_no_hazard() -> None:
    """At a hazard of zero nothing happens between the change and its end; before and after, it does."""
    canary = {"nodes": 2, "soak": "200 s"}
    sources = [rollout(batch=2, hazard={"crash": 0.0, "other": 1.0}, canary=canary), renewing(), renewing()]
    sources[2] |= {"name": "other"}
    rows = [(160, 2, 1), *((time, 1, 0) for time in (20, 151, 300, 349, 401, 500))]
    result = sim.run(case(*sources), 0, trace(rows), keeps_log=True)
    # The canaries are changed from 100 s on; node 1 fails at 160 s, so both are changed back from 350 s to 400 s.
    assert [(outage.node, outage.start) for outage in result.outages if outage.cause == 2] == [
        (0, 20),
        (0, 401),
        (0, 500),
    ]
    assert result.counts["suppressed"] == 3


def test_all_nodes_may_be_canaries() -> None:
    """If one of them fails, all are changed back."""
    one = case(rollout(hazard={"crash": 1000.0}, batch=9, canary={"nodes": 4, "soak": "200 s"}), renewing())
    found = changes_of(one, [(160, 1, 3)])
    assert found == [(node, start, start + 50) for start in (100, 350) for node in range(4)]
    assert len(changes_of(one, [])) == 4


def test_canaries_in_a_job_are_watched_once_they_are_changed() -> None:
    """Node 0 waits for the crash at 500 s; from 550 s on it soaks for 200 s, and the idle nodes follow."""
    one = case(rollout(mode="at_interruption", hazard={"crash": 1.0}, canary={"nodes": 1, "soak": "200 s"}), renewing())
    found = changes_of(one, [(500, 1, 1)])
    # Node 1 is idle by then, node 2 is in its place.
    assert found == [(1, 750, 800), (3, 950, 1000)]


# ------------------------------------------------------------------------------------------------------- hazard


def fleet(ratio: float | None, cause_of: dict[str, Any] | None = None, **more: Any) -> sim.Prepared:
    """Return 400 nodes, the first half of which is changed in the first seconds; `ratio` of ``None`` for no change."""
    crash = {"use": "component", "name": "crash", "part": "node", "rate": "50 per 1000 node-d", "repair": "1 s"}
    sources = [rollout(start="0 s", duration="1 s", batch=200, nodes_per_day=1.0), crash | (cause_of or {})]
    if ratio is not None:
        sources[0]["hazard"] = {"crash": ratio}
    return case(*sources, cluster=nodes(400), horizon="20 d", **more)


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


def test_two_rollouts_multiply() -> None:
    """A hazard of 2 and one of 0.25 make one of a half."""
    one = fleet(2.0)
    second = one.scenario.model_dump(mode="json")["failures"][0] | {"name": "firmware", "start": "5 s"}
    crash = one.scenario.model_dump(mode="json")["failures"][1]
    first = one.scenario.model_dump(mode="json")["failures"][0]
    both = case(first, crash, second | {"hazard": {"crash": 0.25}}, cluster=nodes(400), horizon="20 d")
    counts = np.zeros(2)
    for replication in range(4):
        for node, _ in crashes(both, replication):
            counts[node // 200] += 1
    for count, mean in zip(counts, (400.0, 800.0), strict=True):
        assert abs(count - mean) <= Z * mean**0.5


@cases("ratio", [0.0, 4.0])
def test_what_a_repair_left_strikes_whatever_the_hazard(ratio: float) -> None:
    """A relapse is no new life: each node that crashed relapses once, changed or not."""
    relapse = {"after": "600 s", "probability": 0.999999}
    source = rollout(start="170 s", batch=20, hazard={"crash": ratio}, nodes_per_day=1.0)
    one = case(source, renewing(relapse=relapse), cluster=nodes(40), jobs=[{"name": "job", "gpus": 1}])
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
        case(rollout(hazard={"crash": 2.0}), cause("crash"))
