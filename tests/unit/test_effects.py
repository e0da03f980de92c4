"""Faults that do not stop a node at once, by hand: nodes that are slow, links that are slow, nodes that hang."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import _Watched, exactly, losses, play, prepared, seconds
from tests.intervals import Z

EXACT = 1e-9

NEVER: dict[str, Any] = {"law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}

RARE_SAVES: dict[str, Any] = {"tiers": [{"interval": "1 d", "mode": "blocking", "write": "10 s", "restore": "20 s"}]}

SHRINK: dict[str, Any] = {
    "use": "shrink-rejoin",
    "reconfigure": "10 s",
    "initialize": "60 s",
    "catch_up": "15 s",
    "rejoin": "5 s",
}


def cause(name: str, effect: Any = "crash", **more: Any) -> dict[str, Any]:
    """Return a source of nodes that strikes only where a trace says so."""
    return {"use": "component", "name": name, "part": "node", **NEVER, "effect": effect, **more}


def slow(factor: float, name: str = "slow", heals: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a source of slow nodes."""
    effect: dict[str, Any] = {"use": "slow", "factor": factor}
    if heals is not None:
        effect["heals"] = heals
    return cause(name, effect, **more)


def nodes(count: int, rack: int = 0) -> dict[str, Any]:
    """Return a cluster of nodes with one GPU each."""
    cluster = {"nodes": count, "gpus_per_node": 1, "fabric": {"rails": 1}}
    return {**cluster, "rack": {"nodes": rack}} if rack else cluster


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return a job of two nodes that starts to step after 30 s and saves only when it is told to."""
    return prepared(**{"failures": list(sources), "checkpoint": RARE_SAVES, **changes})


def test_the_slowest_node_sets_the_pace() -> None:
    """Half the time of stepping is degraded while one of two nodes runs at half its pace; saves take what they take."""
    one = case(slow(0.5), checkpoint=prepared().scenario.model_dump(mode="json")["checkpoint"])
    result = play(one, [(80, 0, 0)])
    # From 30 s to 1000 s there are 8 saves of 10 s and 890 s of stepping: 50 s of them before the fault.
    assert seconds(result) == exactly(initialize=30.0, checkpoint_stall=80.0, productive=50 + 420.0, degraded=420.0)
    assert losses(one, result)["degraded", "slow"] == pytest.approx(420.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(470.0, rel=EXACT)
    assert result.jobs[0].interruptions == {}


def test_of_two_slow_nodes_the_slower_one_counts_and_is_charged() -> None:
    """When it heals by itself, the pace is that of the other one again."""
    one = case(slow(0.8), slow(0.5, "slower", heals="300 s"))
    result = play(one, [(100, 0, 0), (200, 1, 1)])
    assert seconds(result) == exactly(initialize=30.0, productive=70 + 80 + 150 + 400.0, degraded=20 + 150 + 100.0)
    assert losses(one, result) == pytest.approx(
        {("initialize", "no_failure"): 30.0, ("degraded", "slow"): 120.0, ("degraded", "slower"): 150.0}, rel=EXACT
    )
    assert result.counts["healed"] == 1


@cases("recovery", ["full-restart", "hot-spare"])
def test_the_pace_changes_at_the_moment_of_the_fault_even_after_a_silent_start(recovery: str) -> None:
    """No event marks the end of a start; what was stepped before the fault was healthy, and what came after was not."""
    one = case(slow(0.5, heals="100 s"), recovery={"use": recovery, "initialize": "30 s"})
    result = play(one, [(530, 0, 0)])
    assert seconds(result) == exactly(initialize=30.0, productive=920.0, degraded=50.0)
    # The same with the fault there from before the start, and only its end inside.
    result = play(one, [(10, 0, 0)])
    assert seconds(result) == exactly(initialize=30.0, productive=930.0, degraded=40.0)


def test_a_slow_idle_node_slows_a_job_only_once_it_joins_it() -> None:
    """Node 2 is slow from 50 s on, and takes the place of node 0 at 400 s."""
    one = case(slow(0.5), cause("crash"))
    result = play(one, [(50, 0, 2), (400, 1, 0)])
    assert seconds(result) == exactly(initialize=60.0, lost_work=370.0, productive=285.0, degraded=285.0)
    assert losses(one, result)["lost_work", "crash"] == pytest.approx(370.0, rel=EXACT)
    assert losses(one, result)["degraded", "slow"] == pytest.approx(285.0, rel=EXACT)


def test_work_that_was_done_slowly_is_lost_with_the_time_it_took() -> None:
    """Lost work holds the degraded seconds too; a slow node that crashes for another cause comes back healthy."""
    one = case(slow(0.5), cause("crash"), cluster=nodes(2))
    result = play(one, [(100, 0, 0), (400, 1, 0)])
    # 70 s at full pace and 300 s at half of it are gone; the node is back at 600 s, and the job steps from 630 s on.
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "crash"): 370.0,
            ("starved", "crash"): 200.0,
            ("initialize", "crash"): 30.0,
        },
        rel=EXACT,
    )
    assert seconds(result)["productive"] == pytest.approx(370.0, rel=EXACT)
    assert result.counts["healed"] == 1


@cases("use", ["incident", "component"])
def test_the_repair_of_a_shared_part_mends_no_node(use: str) -> None:
    """A rack that is out for 100 s gives its nodes back as they were: one of them slow."""
    rack: dict[str, Any] = {"use": use, "name": "rack", "part": "rack", "rate": "1e-6 per rack-d", "repair": "100 s"}
    if use == "incident":
        rack["repaired"] = "part"
    one = case(slow(0.5), rack, cluster=nodes(2, rack=2))
    result = play(one, [(50, 0, 0), (400, 1, 0)])
    assert seconds(result) == exactly(initialize=60.0, starved=100.0, lost_work=370.0, productive=235.0, degraded=235.0)


def test_an_incident_slows_all_its_nodes_and_each_repair_mends_one() -> None:
    """Both nodes of the job are slow; one crashes and is mended, the other one still sets the pace."""
    heat = {"use": "incident", "name": "heat", "part": "rack", "rate": "1e-6 per rack-d"}
    one = case({**heat, "effect": {"use": "slow", "factor": 0.5}}, cause("crash"), cluster=nodes(2, rack=2))
    rows = [(100.0, 0, 0), (400.0, 1, 0)]
    result = play(one, rows)
    assert seconds(result) == exactly(initialize=60.0, starved=200.0, lost_work=370.0, productive=185.0, degraded=185.0)
    assert result.counts["healed"] == 0
    # A second crash takes the other node; then the fault is gone.
    result = play(one, [*rows, (700.0, 1, 1)])
    # Work from 630 s to 700 s is lost, the job steps again at 930 s.
    assert seconds(result)["productive"] == pytest.approx(70.0, rel=EXACT)
    assert "degraded" not in seconds(result)
    assert result.counts["healed"] == 1


def test_a_slow_node_that_is_noticed_is_swapped_after_a_save() -> None:
    """Nothing is lost: the job saves, takes another node, starts and restores."""
    one = case(slow(0.5), detection={"slow": "300 s"})
    result = play(one, [(100, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("degraded", "slow"): 150.0,
            ("checkpoint_stall", "slow"): 10.0,
            ("initialize", "slow"): 30.0,
            ("restore", "slow"): 20.0,
        },
        rel=EXACT,
    )
    assert seconds(result)["productive"] == pytest.approx(70 + 150 + 540.0, rel=EXACT)
    assert result.counts["hits"] == result.counts["failures"] == result.counts["faults"] == 1
    assert result.jobs[0].interruptions == result.jobs[0].disruptions == {1: 1}
    # The node is out from 400 s to 600 s.
    assert result.outside.sum(axis=(0, 2))[Bucket.REPAIR] == pytest.approx(200.0, rel=EXACT)


def test_an_asynchronous_save_is_awaited_until_it_is_durable() -> None:
    """Its stall and its write both count, 430 s; then the node goes for 200 s, and comes back at full pace."""
    tier = {"interval": "1 d", "mode": "async", "stall": "5 s", "write": "25 s", "restore": "20 s"}
    one = case(slow(0.5), detection={"slow": "300 s"}, cluster=nodes(2), checkpoint={"tiers": [tier]})
    result = play(one, [(100, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("degraded", "slow"): 150.0,
            ("checkpoint_stall", "slow"): 30.0,
            ("starved", "slow"): 200.0,
            ("initialize", "slow"): 30.0,
            ("restore", "slow"): 20.0,
        },
        rel=EXACT,
    )
    assert seconds(result)["productive"] == pytest.approx(70 + 150 + 320.0, rel=EXACT)


def test_a_save_that_a_crash_cuts_off_is_void() -> None:
    """The save would have been durable at 410 s; the other node crashes at 405 s, and everything since is lost.

    The slow node goes at 410 s all the same, and the restart begins again.
    """
    one = case(slow(0.5), cause("crash"), detection={"slow": "300 s"}, cluster=nodes(4))
    result = play(one, [(100, 0, 0), (405, 1, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            # The first failure of the incident was the crash.
            ("lost_work", "crash"): 370.0,
            ("checkpoint_stall", "slow"): 5.0,
            ("initialize", "crash"): 5.0,
            ("initialize", "slow"): 30.0,
        },
        rel=EXACT,
    )
    assert seconds(result)["productive"] == pytest.approx(1000 - 440.0, rel=EXACT)
    later = play(one, [(100, 0, 0), (411, 1, 1)])
    assert ("lost_work", "slow") not in losses(one, later)


def test_full_restart_saves_before_it_gives_its_nodes_back() -> None:
    """The save comes first, then the queue, and the start restores what was saved."""
    one = case(
        slow(0.5), detection={"slow": "300 s"}, recovery={"use": "full-restart", "delay": "40 s", "initialize": "30 s"}
    )
    result = play(one, [(100, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("degraded", "slow"): 150.0,
            ("checkpoint_stall", "slow"): 10.0,
            ("reschedule", "slow"): 40.0,
            ("initialize", "slow"): 30.0,
            ("restore", "slow"): 20.0,
        },
        rel=EXACT,
    )


def test_a_slow_node_that_is_noticed_outside_a_job_is_repaired_there() -> None:
    """The job has finished by then; another one keeps the simulation open."""
    jobs = [{"name": "short", "gpus": 2, "work": {"time": "200 s"}}, {"name": "long", "gpus": 2}]
    result = play(case(slow(0.5), detection={"slow": "500 s"}, jobs=jobs), [(130, 0, 0)])
    assert result.jobs[0].end == pytest.approx(30 + 100 + 200.0, rel=EXACT)
    assert result.jobs[0].finished
    assert seconds(result, 1)["productive"] == pytest.approx(970.0, rel=EXACT)
    assert result.counts["outside"] == result.counts["failures"] == 1
    assert result.jobs[0].interruptions == result.jobs[1].interruptions == {}
    assert result.outside.sum(axis=(0, 2))[Bucket.REPAIR] == pytest.approx(200.0, rel=EXACT)


def test_a_unit_that_renews_at_return_has_one_life_at_a_time() -> None:
    """Its next life begins when the fault is over: healed, or repaired. Never earlier, and never twice."""
    law = {"use": "fixed", "value": "100 s"}
    component: dict[str, Any] = {"use": "component", "name": "slow", "part": "node", "law": law, "renews": "at_return"}
    effect = {"use": "slow", "factor": 0.5, "heals": "60 s"}
    one = case({**component, "effect": effect}, cluster=nodes(1), jobs=[{"name": "job", "gpus": 1}])
    result = sim.run(one, 0)
    # Healthy for 100 s, slow for 60 s: faults at 100, 260, ..., 900 s.
    assert result.counts["faults"] == 6
    assert result.counts["healed"] == 6
    effect = {"use": "slow", "factor": 0.5}
    one = case(
        {**component, "effect": effect, "detection": "50 s"}, cluster=nodes(1), jobs=[{"name": "job", "gpus": 1}]
    )
    result = sim.run(one, 0)
    # Healthy for 100 s, slow for 50 s, in repair for 200 s: faults at 100, 450 and 800 s.
    assert result.counts["faults"] == 3
    assert result.counts["failures"] == 3
    # Nobody notices, but a crash at 300 s has the node repaired: the next life is over 100 s after its return.
    one = case({**component, "effect": effect}, cause("crash"), cluster=nodes(1), jobs=[{"name": "job", "gpus": 1}])
    result = play(one, [(100, 0, 0), (300, 1, 0)])
    assert result.counts["faults"] == 3
    assert result.counts["healed"] == 1


def test_degraded_time_falls_into_the_windows_in_which_it_was_spent() -> None:
    """Slow from 150 s to 450 s, seen in windows of 200 s."""
    one = case(slow(0.5, heals="300 s"), windows="200 s")
    result = play(one, [(150, 0, 0)])
    degraded = result.jobs[0].totals[:, Bucket.DEGRADED, 1] / 2
    assert degraded == pytest.approx([25.0, 100.0, 25.0, 0.0, 0.0], rel=EXACT)
    assert result.jobs[0].totals.sum(axis=(1, 2)) / 2 == pytest.approx([200.0] * 5, rel=EXACT)


def test_a_replica_that_is_away_slows_nobody_until_it_is_back() -> None:
    """Node 3 becomes slow while its replica waits for a new node 2: the pace falls when the replica rejoins."""
    job = {"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}
    one = case(slow(0.5), cause("crash"), cluster=nodes(5), jobs=[job], recovery=SHRINK)
    result = play(one, [(100, 1, 2), (150, 0, 3)])
    # Replica 0 reconfigures until 110 s and steps alone until the other is back, after 60 s + 15 s, at 175 s.
    # Both wait 5 s, and step from 180 s on at half the pace.
    work = 40 + 65 * 0.5 + (1000 - 180) * 0.5
    assert result.jobs[0].work == pytest.approx(work, rel=EXACT)
    assert losses(one, result)["degraded", "slow"] == pytest.approx(410.0, rel=EXACT)


def test_with_the_batch_kept_a_slow_survivor_makes_the_long_steps_longer() -> None:
    """Alone, one of two replicas takes twice as long for a step, and again twice with a slow node: a quarter."""
    job = {
        "name": "job",
        "gpus": 4,
        "step_time": "1 s",
        "batch": {"tokens": 8, "sequence": 4, "on_loss": "keep"},
        "parallelism": {"data": 2, "tensor": 2},
    }
    one = case(slow(0.5), cause("crash"), cluster=nodes(4), jobs=[job], recovery=SHRINK, repair={"time": "1 d"})
    result = play(one, [(90, 1, 2), (150, 0, 0)])
    # Healthy until 90 s, reconfigured at 100 s; alone from then on, slow from 150 s.
    assert result.jobs[0].work == pytest.approx(30 + 50 / 2 + 850 / 4, rel=EXACT)
    # The GPUs that are there spend half their time on the slow node's account; the others are starved.
    assert losses(one, result)["degraded", "slow"] == pytest.approx(850 * 0.5 * 0.5, rel=EXACT)
    fixed = case(
        slow(0.5),
        cause("crash"),
        cluster=nodes(4),
        jobs=[job | {"work": {"steps": 200}}],
        recovery=SHRINK,
        repair={"time": "1 d"},
    )
    result = play(fixed, [(90, 1, 2), (150, 0, 0)])
    assert result.jobs[0].end == pytest.approx(150 + (200 - 55) * 4, rel=EXACT)


@cases(("bandwidth", "communication"), [(0.25, 0.4), (0.5, 0.1), (0.01, 1.0), (1.0, 0.3)])
def test_a_degraded_link_stretches_the_part_of_a_step_that_communicates(bandwidth: float, communication: float) -> None:
    """By Amdahl: a step takes 1 - c + c / b of its healthy time."""
    stretch = 1 - communication + communication / bandwidth
    effect = {"use": "degrade", "bandwidth": bandwidth}
    jobs = [{"name": "job", "gpus": 2, "communication": communication}]
    result = play(case(cause("link", effect), jobs=jobs), [(130, 0, 0)])
    assert result.jobs[0].work == pytest.approx(100 + 870 / stretch, rel=EXACT)
    assert seconds(result).get("degraded", 0.0) == pytest.approx(870 * (1 - 1 / stretch), rel=EXACT, abs=1e-9)


def test_a_hang_waits_for_its_own_time_out() -> None:
    """A crash is known after detection.time, a hang after detection.hang; without one, like a crash."""
    for detection, crash, hang in (({"time": "5 s", "hang": "90 s"}, 5.0, 90.0), ({"time": "5 s"}, 5.0, 5.0)):
        one = case(cause("hang", "hang"), cause("crash"), detection=detection)
        table = losses(one, play(one, [(200, 0, 0), (600, 1, 2)]))
        assert table["detection", "hang"] == pytest.approx(hang, rel=EXACT)
        one = case(cause("hang", "hang"), cause("crash"), detection=detection)
        table = losses(one, play(one, [(200, 1, 0)]))
        assert table["detection", "crash"] == pytest.approx(crash, rel=EXACT)
    job = {"use": "job", "name": "loop", "law": NEVER["law"], "effect": "hang"}
    one = case(job, detection={"time": "5 s", "hang": "90 s"})
    assert losses(one, play(one, [(200, 0, 0)]))["detection", "loop"] == pytest.approx(90.0, rel=EXACT)


def _noisy(recovery: dict[str, Any], repair: dict[str, Any]) -> sim.Prepared:
    """Return a cluster in which every kind of fault happens often."""
    often: dict[str, Any] = {"use": "component", "part": "node", "rate": "0.3 per node-h"}
    sources = [
        {**often, "name": "slow", "effect": {"use": "slow", "factor": 0.5, "heals": "900 s"}, "detection": "1000 s"},
        {**often, "name": "link", "effect": {"use": "degrade", "bandwidth": 0.5}},
        {**often, "name": "wrong", "effect": "corrupt", "detection": {"use": "exponential", "mean": "1500 s"}},
        {**often, "name": "again", "renews": "at_return", "effect": {"use": "slow", "factor": 0.9}, "detection": "1 h"},
        {**often, "name": "crash", "interrupts": 0.5},
        {**often, "name": "hang", "effect": "hang", "clock": "busy"},
        {"use": "incident", "name": "heat", "part": "rack", "rate": "0.2 per rack-h", "detection": "600 s"}
        | {"effect": {"use": "slow", "factor": 0.7}},
        {"use": "bug", "name": "bug", "rate": "1 per job-h", "fix": "300 s"},
        {"use": "maintenance", "name": "care", "part": "rack", "windows": [{"start": "1 h", "duration": "10 min"}]},
        {"use": "rollout", "name": "driver", "nodes_per_day": 200, "duration": "5 min", "hazard": {"crash": 0.5}},
    ]
    tier = {"interval": "200 s", "mode": "async", "stall": "5 s", "write": "60 s", "restore": "20 s"}
    return prepared(
        cluster=nodes(12, rack=3),
        jobs=[{"name": "job", "gpus": 8, "parallelism": {"data": 4, "tensor": 2}, "communication": 0.3}],
        horizon="20000 s",
        windows="3000 s",
        failures=sources,
        detection={"time": {"use": "exponential", "mean": "5 s"}, "hang": "60 s"},
        checkpoint={"tiers": [tier]},
        recovery=recovery,
        repair=repair,
        spares={"hot": 1},
    )


@pytest.mark.parametrize("recovery", ["full-restart", "hot-spare", "shrink-rejoin", "standby"])
def test_every_fault_comes_to_one_end(recovery: str) -> None:
    """Harmless, healed, a failure, or still open; a failure is masked, outside or a hit. The ledger closes."""
    parameters = {
        "full-restart": {"use": "full-restart", "initialize": "30 s"},
        "hot-spare": {"use": "hot-spare", "initialize": "30 s"},
        "shrink-rejoin": SHRINK,
        "standby": {"use": "standby", "recovery": "20 s", "selection": "50 s"},
    }[recovery]
    tiers = [{"name": "reset", "time": "300 s", "fixes": 0.7}, {"name": "swap", "time": "1 h"}]
    single = {"time": {"use": "exponential", "mean": "600 s"}}
    by_tiers: dict[str, Any] = {"use": "tiers", "tiers": tiers, "qualification": {"time": "60 s", "finds": 0.8}}
    kinds = dict.fromkeys(("healed", "harmless", "failures", "masked", "outside", "hits"), 0)
    for repair, replication in itertools.product((single, by_tiers), range(3)):
        one = _noisy(parameters, repair)
        watched = _Watched(one, replication, sim.trace(one, replication))
        result = watched.run()
        counts = result.counts
        still = {fault for faults in watched.failures.silent.of_node.values() for fault in faults}
        tainted = {taint.fault for job in watched.jobs.all for taint in job.taints}
        still |= {condition for condition in tainted if not condition.is_counted}
        assert counts["unnoticed_at_end"] == len(still)
        assert counts["faults"] == sum(counts[name] for name in ("harmless", "healed", "failures", "unnoticed_at_end"))
        assert counts["candidates"] == counts["suppressed"] + counts["faults"]
        assert counts["failures"] == counts["masked"] + counts["outside"] + counts["hits"]
        for name in kinds:
            kinds[name] += counts[name]
    assert min(kinds.values()) > 0, f"too quiet to show anything: {kinds}"


def test_the_share_of_slow_time_is_that_of_an_alternating_renewal_process() -> None:
    """Nodes that are slow for a mean of 1 h after a mean of 9 h leave a job of two at full pace for 0.9 ** 2 of it."""
    law = {"use": "exponential", "mean": "9 h"}
    effect = {"use": "slow", "factor": 0.5, "heals": {"use": "exponential", "mean": "1 h"}}
    source = {"use": "component", "name": "slow", "part": "node", "law": law, "renews": "at_return", "effect": effect}
    one = case(
        source, cluster=nodes(2), horizon="20 d", warmup="2 d", recovery={"use": "hot-spare", "initialize": "0 s"}
    )
    shares = []
    for replication in range(40):
        job = sim.run(one, replication).jobs[0]
        shares.append(1 - job.work / job.elapsed)
    error = float(np.std(shares, ddof=1)) / len(shares) ** 0.5
    assert abs(float(np.mean(shares)) - 0.5 * (1 - 0.9**2)) <= Z * error


def test_what_heals_first_is_never_noticed() -> None:
    """And what is noticed first never heals by itself."""
    first = play(case(slow(0.5, heals="200 s", detection="300 s")), [(130, 0, 0)])
    assert (first.counts["healed"], first.counts["failures"]) == (1, 0)
    second = play(case(slow(0.5, heals="300 s", detection="200 s")), [(130, 0, 0)])
    assert (second.counts["healed"], second.counts["failures"]) == (0, 1)
