"""Optimizer steps that survive, by hand: with a replica less a step trains fewer tokens, or takes longer.

A job of two replicas of one node with steps of 10 s steps from the start, for 90 s at a time, with a blocking save of
10 s in between.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.analysis.statistics.estimates import means
from ettrick.sim.policies.contracts import Acquire, Background, Bucket, Evict, Plan, Requeue, Restore, Run, Stall
from tests.cases import cases
from tests.engine_watch import Watch, watch
from tests.harness import exactly, losses, play, prepared, results_of, seconds, trace
from tests.intervals import Z
from tests.unit.test_detection_race import preemption
from tests.unit.test_effects import NEVER, RARE_SAVES, SHRINK, cause, nodes
from tests.unit.test_engine_stores import CLIQUE, HOST, REMOTE, software
from tests.unit.test_plan_steps import Scripted

if TYPE_CHECKING:
    from collections.abc import Sequence

# ----------------------------------------
# Failures that fall into a phase which nothing can hit: they never happen, or wait for its end.
#
# A job of two nodes starts to step after 30 s. A crash is followed by a swap of 100 s that failures cannot hit, then
# by a
# start of 30 s. Nothing is saved.

EXACT = 1e-9

HOT_SPARE: dict[str, Any] = {"use": "hot-spare", "reschedule": "100 s", "initialize": "30 s", "exposed": False}

STANDBY: dict[str, Any] = {"use": "standby", "recovery": "40 s", "selection": "60 s", "exposed": False}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), "checkpoint": RARE_SAVES, "recovery": HOT_SPARE, **changes})


def test_without_defer_it_never_happens() -> None:
    """The second crash falls into the swap after the first and is dropped."""
    one = case(cause("first"), cause("second"))
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "first"): 270.0,
            ("reschedule", "first"): 100.0,
            ("initialize", "first"): 30.0,
        },
        rel=EXACT,
    )
    assert (result.counts["candidates"], result.counts["suppressed"], result.counts["faults"]) == (2, 1, 1)


def test_with_defer_it_happens_at_the_end_of_the_phase() -> None:
    """At 400 s, when the swap is over: another swap, and then the start."""
    one = case(cause("first"), cause("second", defer=True))
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "first"): 270.0,
            ("reschedule", "first"): 100.0,
            ("reschedule", "second"): 100.0,
            ("initialize", "second"): 30.0,
        },
        rel=EXACT,
    )
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert result.jobs[0].merged == 1
    assert (result.counts["candidates"], result.counts["suppressed"], result.counts["hits"]) == (2, 0, 2)


def test_a_phase_that_does_not_end_defers_for_ever() -> None:
    """What still waits at the horizon is no candidate yet."""
    one = case(cause("first"), cause("second", defer=True), horizon="380 s")
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert (result.counts["candidates"], result.counts["faults"], result.counts["suppressed"]) == (1, 1, 0)


def test_nodes_outside_jobs_are_hit_at_once() -> None:
    """A phase protects those who are in it; what idle_hazard thins does not wait either."""
    one = case(cause("first"), cause("second", defer=True))
    assert play(one, [(300, 0, 0), (350, 1, 3)]).counts["outside"] == 1
    law = {"law": {"use": "exponential", "mean": "1000 d"}}
    one = case(cause("first"), cause("second", defer=True, idle_hazard=0.0, **law))
    assert play(one, [(300, 0, 0), (350, 1, 3)]).counts["suppressed"] == 1


@cases(("defer", "interruptions"), [(False, {1: 1}), (True, {1: 1, 2: 1})])
def test_standby_protects_recovery_and_selection(*, defer: bool, interruptions: dict[int, int]) -> None:
    """No spare is left: 40 s of recovery and 60 s of selection, from 300 s to 400 s; then what waited."""
    one = case(cause("first"), cause("second", defer=defer), recovery=STANDBY)
    for at in (310, 370):
        result = play(one, [(300, 0, 0), (at, 1, 1)])
        assert result.jobs[0].interruptions == interruptions
        table = losses(one, result)
        assert table.get(("reschedule", "second"), 0.0) == pytest.approx(60.0 if defer else 0.0)
        # What is done between the end of the phase and the failure that waited for it is nothing.
        assert ("lost_work", "second") not in table
    # The selection before the first step is protected too.
    result = play(one, [(10, 1, 1)])
    assert result.jobs[0].interruptions == ({2: 1} if defer else {})


def test_a_life_in_service_waits_and_goes_on_once() -> None:
    """It ends at 350 s and strikes at 400 s; the next one of 350 s of service ends at 900 s, and there is only one."""
    law = {"use": "fixed", "value": "350 s"}
    service = cause("service", clock="in_service", law=law, renews="at_failure", defer=True)
    one = case(cause("first"), service, cluster=nodes(3))
    result = play(one, [(300, 0, 1), (350, 1, 0)])
    assert result.counts["faults"] == 3
    # The same on a node that has been down before: 200 s from 20 s on move its first life to 550 s, and 500 s into
    # another swap.
    result = play(one, [(20, 0, 0), (480, 0, 1), (350, 1, 0)])
    assert result.counts["candidates"] == result.counts["faults"] == 3


@pytest.mark.parametrize("defer", [False, True])
def test_how_many_failures_there_are(*, defer: bool) -> None:
    """Failures that wait all happen: a Poisson number. Those that do not leave a renewal process with a dead time.

    Ten nodes fail every 200 s and are mended at once; each failure is followed by a swap of 100 s. Without defer the
    cycles are 100 s and an exponential time with a mean of 200 s.
    """
    source = {"use": "component", "name": "crash", "part": "node", "repair": "0 s", "defer": defer}
    source["law"] = {"use": "exponential", "mean": "2000 s"}
    one = case(
        source,
        cluster=nodes(10),
        jobs=[{"name": "job", "gpus": 10}],
        recovery={**HOT_SPARE, "initialize": "0 s"},
        horizon="100000 s",
    )
    replications = 16
    hits = [result.counts["hits"] for result in results_of(one, replications)]
    if defer:
        mean, variance = 500.0, 500.0
    else:
        mean, variance = 100000 / 300, 100000 * 200**2 / 300**3
    # Less than two failures are lost or won at the ends.
    assert abs(float(np.mean(hits)) - mean) <= Z * (variance / replications) ** 0.5 + 1


# ----------------------------------------
# Healthy nodes that are taken out of a job to be tested, by hand.
#
# A job of four nodes out of six steps from 30 s on, with a blocking save of 10 s after each 100 s of stepping; at 305
# s
# it has done 255 s of work, 200 s of them durable. When a failure is known the job is stopped for 10 s, the block of
# two
# nodes with the one that failed is taken out, and after a swap the job initializes for 30 s. Tests take 100 s.

STOP = Stall(Bucket.RESCHEDULE, 10.0)

SWAP: Plan = (STOP, Evict(2, 100.0), Acquire(), Stall(Bucket.INITIALIZE, 30.0), Restore(), Run())

BEGIN: Plan = (Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run())


def evict_case(plan: Plan = SWAP, count: int = 6, second: Plan = (), **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    base: dict[str, Any] = {
        "cluster": nodes(count),
        "jobs": [{"name": "job", "gpus": 4}],
        "failures": [cause("first"), software("second")],
    }
    return replace(prepared(**{**base, **changes}), recovery=Scripted(plan, second, begin=BEGIN))


def in_test(result: sim.Result) -> float:
    """Return the node-seconds in qualification, charged to the first source."""
    return float(result.outside.sum(axis=0)[Bucket.QUALIFICATION, 1])


def test_the_neighbour_of_a_node_that_failed_is_tested() -> None:
    """Node 1 crashes, node 0 leaves with it at 315 s and is free again at 415 s; both are replaced at once."""
    one = evict_case()
    result = watch(one, [(305, 0, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "first"): 55.0,
            ("reschedule", "first"): 10.0,
            ("initialize", "first"): 30.0,
            ("restore", "first"): 20.0,
            # Before it at 130 and 240 s; from 365 s on at 465, 575, 685, 795 and 905 s.
            ("checkpoint_stall", "no_failure"): 20 + 50.0,
        },
        abs=EXACT,
    )
    assert in_test(result) == pytest.approx(100.0, abs=EXACT)
    assert result.cluster[Bucket.REPAIR] == pytest.approx(200.0, abs=EXACT)
    assert result.down_node_seconds == pytest.approx(100 + 200.0, abs=EXACT), "who is tested is of no use to anybody"
    # Six nodes, four of them in the job, one of which is missing for the 10 s of the stop.
    assert result.cluster[Bucket.UNALLOCATED] == pytest.approx(2 * 1000 + 10 - 300.0, abs=EXACT)


def test_who_is_evicted_has_not_failed() -> None:
    """One failure, one interruption, one repair; the node comes back at the end of its test."""
    result = watch(evict_case(), [(305, 0, 1)])
    assert result.counts["evicted"] == 1
    assert result.counts["failures"] == result.counts["hits"] == 1
    assert result.counts["repairs"] == 0, "tiers of repair count those that they mend"
    assert result.jobs[0].interruptions == {1: 1}
    assert result.repairs == {1: 1}


@cases(("failed", "evicted"), [((0,), 1), ((3,), 1), ((0, 1), 0), ((1, 2), 1), ((), 2)], ids=str)
def test_which_nodes_leave(failed: tuple[int, ...], evicted: int) -> None:
    """The block with the first node that failed; where none did, as when a job hangs, the first block."""
    one = evict_case(count=8, detection={"time": "1 s"})
    rows = [(305.0, 0, node) for node in failed] or [(305.0, 1, 0)]
    result = watch(one, rows)
    assert result.counts["evicted"] == evicted
    assert "starved" not in seconds(result)


def test_what_evicted_nodes_held_in_memory_is_gone() -> None:
    """Without the eviction node 0 would still have the copy of both; the memory of the other clique is of no use."""
    checkpoint = {"tiers": [CLIQUE, REMOTE]}
    alone = watch(evict_case((STOP, *SWAP[2:]), checkpoint=checkpoint), [(305, 0, 1)])
    assert alone.jobs[0].restores == {"peer-host": 1}
    together = watch(evict_case(checkpoint=checkpoint), [(305, 0, 1)])
    assert together.jobs[0].restores == {"remote": 1}
    assert seconds(together)["lost_work"] == pytest.approx(55.0, abs=EXACT)


def test_a_failure_during_the_stop_starts_it_again() -> None:
    """The plan that is cut off at 310 s has evicted nobody; the next one evicts at 320 s."""
    one = evict_case(second=SWAP)
    result = watch(one, [(305, 0, 1), (310, 1, 0)])
    assert result.counts["evicted"] == 1
    assert losses(one, result)["reschedule", "first"] == pytest.approx(5.0, abs=EXACT)
    assert losses(one, result)["reschedule", "second"] == pytest.approx(10.0, abs=EXACT)
    assert in_test(result) == 0.0
    assert float(result.outside.sum(axis=0)[Bucket.QUALIFICATION, 2]) == pytest.approx(100.0, abs=EXACT)


def test_a_job_may_go_back_to_the_queue_without_them() -> None:
    """Two nodes are left of five, and one that is idle: the job waits for the end of the test at 415 s."""
    one = evict_case((STOP, Evict(2, 100.0), Requeue(20.0)), count=5)
    result = watch(one, [(305, 0, 1)])
    table = losses(one, result)
    assert table["reschedule", "first"] == pytest.approx(30.0, abs=EXACT)
    assert table["queued", "first"] == pytest.approx(415 - 335.0, abs=EXACT)
    assert table["restore", "first"] == pytest.approx(20.0, abs=EXACT)


def test_a_node_may_fail_in_its_test() -> None:
    """It is masked: the node is out already, and its test is over at the same time."""
    result = watch(evict_case(), [(305, 0, 1), (350, 0, 0)])
    assert result.counts["masked"] == 1
    assert in_test(result) == pytest.approx(100.0, abs=EXACT)
    assert result.jobs[0].interruptions == {1: 1}


@cases("size", [1, 2, 3])
def test_racks_that_are_used_as_wholes(size: int) -> None:
    """Who takes a node out of a rack takes the whole rack out; it comes back when all its nodes have."""
    plan = (Evict(size, 100.0), *SWAP[2:])
    one = evict_case(plan, cluster=nodes(8, rack=2), spares={"unit": "rack"})
    hang = watch(one, [(305, 1, 0)])
    assert hang.counts["evicted"] == size
    assert "starved" not in seconds(hang), "two other racks are there"
    taken = -(-size // 2) * 2
    assert in_test(hang) + float(hang.outside.sum(axis=0)[Bucket.QUALIFICATION, 2]) == pytest.approx(100.0 * size)
    assert hang.cluster[Bucket.STRANDED] == pytest.approx(100.0 * (taken - size), abs=EXACT)
    # A node that failed is out for 200 s, and its rack with it.
    crash = watch(one, [(305, 0, 1)])
    assert crash.cluster[Bucket.REPAIR] == pytest.approx(200.0, abs=EXACT)
    assert math.isclose(crash.cluster.sum(), crash.owned, rel_tol=1e-9)


# ----------------------------------------
# Nodes that stay in a job with fewer GPUs, by hand.
#
# A job of four nodes of four GPUs, each node a tensor group of its own and one replica, out of five nodes. It steps
# from
# 30 s on, with a blocking save of 10 s after each 100 s of stepping; at 300 s it has done 250 s of work, 200 s of them
# durable. A restart takes 30 s, a restore 20 s and a repair 200 s. With a GPU missing a group does three quarters of
# its
# work, with two of them half; with three the node is replaced.

LAYOUT = {"data": 1, "tensor": 4, "pipeline": 4}


def failing(name: str, part: str, **more: Any) -> dict[str, Any]:
    """Return a source of a part that strikes only where a trace says so."""
    return {"use": "component", "name": name, "part": part, **NEVER, **more}


GPU = failing("gpu", "gpu")


def narrow_case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    base: dict[str, Any] = {
        "cluster": {"nodes": 5, "gpus_per_node": 4, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        "jobs": [{"name": "job", "gpus": 16, "parallelism": LAYOUT}],
        "failures": list(sources),
        "recovery": {"use": "narrow", "tensor": 4, "give_up_below": 2, "launch": "30 s"},
    }
    return prepared(**{**base, **changes})


def outside(result: sim.Result, bucket: Bucket) -> float:
    """Return the node-seconds outside jobs."""
    return float(result.cluster[bucket]) / 4


def test_a_node_that_lost_a_gpu_stays() -> None:
    """At 350 s the job goes on at three quarters of its pace, and does so although the GPU is repaired at 500 s."""
    one = narrow_case(GPU)
    result = watch(one, [(300, 0, 5)])
    # 650 s hold five saves; of 600 s of stepping a quarter is degraded.
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "gpu"): 50.0,
            ("initialize", "gpu"): 30.0,
            ("restore", "gpu"): 20.0,
            ("degraded", "gpu"): 150.0,
            ("checkpoint_stall", "no_failure"): 20 + 50.0,
        },
        abs=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(200 + 450.0, abs=EXACT)
    assert outside(result, Bucket.REPAIR) == 0.0, "it is repaired in its place"
    assert outside(result, Bucket.UNALLOCATED) == pytest.approx(1000.0, abs=EXACT), "the fifth node is not needed"


@cases(
    ("slots", "degraded", "swapped"),
    [((5, 9), 0.25, 0), ((5, 6), 0.5, 0), ((5, 6, 7), 0.0, 1), ((5, 6, 9), 0.5, 0), ((4, 5, 6, 9), 0.25, 1)],
    ids=["another node", "the same node", "one too many", "two and one", "one too many beside another"],
)
def test_more_gpus(slots: tuple[int, ...], degraded: float, swapped: int) -> None:
    """The worst group decides, until it is given up: its node is replaced, and the pace is that of the others."""
    one = narrow_case(GPU, software(), repair={"time": "2000 s"})
    result = watch(one, [(300.0 + number, 0, slot) for number, slot in enumerate(slots)])
    last = 300.0 + len(slots) - 1
    stepped = 1000 - (last + 50)
    stepped -= 10 * (stepped // 110)
    assert seconds(result).get("degraded", 0.0) == pytest.approx(degraded * stepped, abs=EXACT)
    assert result.down_node_seconds == pytest.approx(sum(700.0 for _ in {slot // 4 for slot in slots}), abs=3.0)
    assert (outside(result, Bucket.REPAIR) > 0) == bool(swapped)
    assert "starved" not in seconds(result)


def test_a_gpu_that_is_whole_again_is_not_missing() -> None:
    """At 430 s a third GPU of a node is lost, but the first is repaired since 400 s: two are missing, and it stays."""
    one = narrow_case(GPU, repair={"time": "100 s"})
    strikes = [(300.0, 0, 4), (360.0, 0, 5), (430.0, 0, 6)]
    result = watch(one, strikes)
    assert outside(result, Bucket.REPAIR) == 0.0, "nobody has replaced it"
    # Half of what is stepped from 480 s on, a save in each 110 s; what was done at three quarters before is lost.
    assert seconds(result)["degraded"] == pytest.approx((1000 - 480 - 40) * 0.5, abs=EXACT)
    late = watch(narrow_case(GPU, repair={"time": "131 s"}), strikes)
    assert outside(late, Bucket.REPAIR) > 0.0, "at 431 s it would be too late"


@cases(
    ("give_up_below", "slots", "missing", "swapped"),
    [
        (6, (0, 4), 2, 0),
        (7, (0, 4), 1, 1),
        (7, (0, 8), 1, 0),
        (6, (0, 4, 8), 2, 0),
        (6, (0, 1, 4), 2, 1),
        (7, (0, 12, 4), 1, 1),
    ],
    ids=["enough", "one too many", "in two groups", "two and one", "one beside two", "one too many beside a group"],
)
@cases("apart", [1.0, 0.0])
def test_a_tensor_group_over_two_nodes_counts_what_both_have_lost(
    give_up_below: int, slots: tuple[int, ...], missing: int, swapped: int, apart: float
) -> None:
    """Two groups of eight GPUs on two nodes each, in one replica: the last node that asks too much is replaced.

    Some seconds apart, or all at once: each failure is counted beside those before it.
    """
    one = narrow_case(
        GPU,
        jobs=[{"name": "job", "gpus": 16, "parallelism": {"data": 1, "tensor": 8, "pipeline": 2}}],
        recovery={"use": "narrow", "tensor": 8, "give_up_below": give_up_below, "launch": "30 s"},
        repair={"time": "5000 s"},
    )
    watched = Watch(one, 0, trace([(300.0 + apart * number, 0, slot) for number, slot in enumerate(slots)]))
    result = watched.run()
    stepped = 1000 - (300 + apart * (len(slots) - 1) + 50)
    stepped -= 10 * (stepped // 110)
    assert seconds(result)["degraded"] == pytest.approx(missing / 8 * stepped, abs=EXACT)
    assert len(watched.cluster.repairing) == swapped
    assert len(watched.cluster.narrow) == len({slot // 4 for slot in slots}) - swapped
    assert "starved" not in seconds(result)


def test_a_narrow_node_whose_host_fails_is_replaced() -> None:
    """From the swap at 400 s on no GPU is missing; the node is back when both repairs are over."""
    one = narrow_case(GPU, failing("host", "node"))
    result = watch(one, [(300, 0, 5), (400, 1, 1)])
    # 350 to 400 s at three quarters are lost.
    assert losses(one, result)["lost_work", "host"] == pytest.approx(50.0, abs=EXACT)
    assert "degraded" not in seconds(result)
    assert outside(result, Bucket.REPAIR) == pytest.approx(200.0, abs=EXACT)
    assert result.down_node_seconds == pytest.approx(300.0, abs=EXACT)
    # The repair of the GPU may also take longer than that of the host.
    slow = narrow_case({**GPU, "repair": "500 s"}, failing("host", "node"))
    assert outside(watch(slow, [(300, 0, 5), (400, 1, 1)]), Bucket.REPAIR) == pytest.approx(400.0, abs=EXACT)


class _Counted(Watch):
    """A simulation in which no node has come back more often than it went."""

    def look(self) -> None:
        """Assert it."""
        super().look()
        assert min(self.cluster.outages) >= 0


@cases(("own", "tier"), [(400, 100), (400, 800), (150, 100), (150, 30)])
def test_a_narrow_node_in_the_tiers_of_repair(own: float, tier: float) -> None:
    """A GPU fails at 300 s and is repaired in its own time; its host fails at 400 s and goes through a tier.

    The node is in repair from then on until both are over, and down once, from 300 s on.
    """
    one = narrow_case(
        {**GPU, "repair": f"{own} s"},
        failing("host", "node"),
        repair={"use": "tiers", "tiers": [{"name": "bench", "time": f"{tier} s"}]},
        horizon="2000 s",
    )
    watched = _Counted(one, 0, trace([(300, 0, 5), (400, 1, 1)]))
    result = watched.run()
    end = max(300 + own, 400 + tier)
    assert outside(result, Bucket.REPAIR) == pytest.approx(end - 400.0, abs=EXACT)
    assert result.down_node_seconds == pytest.approx(end - 300.0, abs=EXACT)
    assert watched.cluster.outages == [0] * 5
    assert watched.cluster.down.count == 0
    assert "degraded" not in seconds(result), "what was stepped narrow is lost"


def test_the_end_of_a_job_sends_its_narrow_nodes_to_repair() -> None:
    """300 s of work end at 493 s or so; the next job gets four whole nodes, and the narrow one is back at 500 s."""
    jobs = [
        {"name": "a", "gpus": 16, "parallelism": LAYOUT, "work": {"time": "300 s"}},
        {"name": "b", "gpus": 16, "parallelism": LAYOUT, "arrival": "1 s"},
    ]
    one = narrow_case({**GPU, "repair": "400 s"}, jobs=jobs)
    result = watch(one, [(300, 0, 5)])
    # From 350 s: 100 s at three quarters, a save, and a third of a second for each quarter that is left of 25 s.
    end = 350 + 100 + 10 + 25 / 0.75
    assert result.jobs[0].end == pytest.approx(end, abs=EXACT)
    assert result.jobs[1].start == pytest.approx(end, abs=EXACT), "the fifth node makes four whole ones"
    assert outside(result, Bucket.REPAIR) == pytest.approx(700 - end, abs=EXACT)
    assert seconds(result, 1).get("degraded", 0.0) == 0.0


def test_a_job_that_goes_back_to_the_queue_leaves_its_narrow_nodes_behind() -> None:
    """Preempted at 400 s for 20 s, it starts again on the four nodes that are whole."""
    one = narrow_case(GPU, preemption("20 s"))
    result = watch(one, [(300, 0, 5), (400, 1, 0)])
    assert losses(one, result)["reschedule", "preempted"] == pytest.approx(20.0, abs=EXACT)
    assert "queued" not in seconds(result)
    assert outside(result, Bucket.REPAIR) == pytest.approx(100.0, abs=EXACT)
    assert "degraded" not in seconds(result), "what was stepped narrow is lost"
    # With no other node the job waits for its repair.
    small = narrow_case(GPU, preemption("20 s"), cluster={"nodes": 4, "gpus_per_node": 4, "fabric": {"rails": 1}})
    assert losses(small, watch(small, [(300, 0, 5), (400, 1, 0)]))["queued", "preempted"] == pytest.approx(
        80.0, abs=EXACT
    )


def test_until_it_is_known_a_lost_gpu_is_a_failure_like_others() -> None:
    """A second failure of the node before anybody looks finds it down: it is masked."""
    one = narrow_case({**GPU, "detection": "40 s"})
    result = watch(one, [(300, 0, 5), (320, 0, 6)])
    assert losses(one, result)["detection", "gpu"] == pytest.approx(40.0, abs=EXACT)
    assert result.counts["masked"] == 1
    # From 390 s on one GPU is missing: 610 s hold five saves.
    assert losses(one, result)["degraded", "gpu"] == pytest.approx(0.25 * 560, abs=EXACT)


def test_what_is_no_failure_of_a_gpu_narrows_nothing() -> None:
    """A GPU whose failure is stated to take its host does so; a strategy that keeps no parts swaps the node."""
    for one in (
        narrow_case({**GPU, "fault": "host"}),
        narrow_case(GPU, recovery={"use": "hot-spare", "initialize": "30 s"}),
    ):
        result = watch(one, [(300, 0, 5)])
        assert "degraded" not in seconds(result)
        assert outside(result, Bucket.REPAIR) == pytest.approx(200.0, abs=EXACT)


@cases("replication", range(6))
def test_a_cluster_that_fails_often(replication: int) -> None:
    """After every event each node is in one place, and who works with something open against it is narrow."""
    one = narrow_case(
        {"use": "component", "name": "gpu", "part": "gpu", "rate": "1 per gpu-h"},
        {"use": "component", "name": "aging", "part": "gpu", "law": {"use": "weibull", "scale": "1 h", "shape": 2}},
        {"use": "component", "name": "host", "part": "node", "rate": "1 per node-h"},
        {"use": "component", "name": "rack", "part": "rack", "rate": "1 per rack-h", "repair": "50 s"},
        {"use": "preemption", "name": "preempted", "rate": "2 per job-h", "away": "60 s", "notice": "15 s"},
        {"use": "job", "name": "software", "rate": "2 per job-h"},
        detection={"time": {"use": "exponential", "mean": "5 s"}},
        repair={"time": {"use": "exponential", "mean": "300 s"}},
        cluster={"nodes": 8, "gpus_per_node": 4, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        jobs=[
            {"name": "a", "gpus": 16, "parallelism": LAYOUT},
            {"name": "b", "gpus": 4, "parallelism": {"data": 1, "tensor": 4}, "work": {"time": "900 s"}},
        ],
        horizon="6000 s",
        windows="700 s",
    )
    result = watch(one, replication=replication)
    for job in result.jobs:
        assert job.buckets[Bucket.PRODUCTIVE] == pytest.approx(job.work * job.gpus)
        assert job.totals.min() >= -1e-6
    assert result.cluster.sum() == pytest.approx(result.owned, rel=EXACT)
    assert sum(result.jobs[0].interruptions.values()) > 10, "too quiet to show anything"


# ----------------------------------------
# Work that stops a job again and again, by hand: where its time goes, and that it is done again after a rollback.
#
# A job of two nodes with steps of 5 s starts to step after 30 s, with a blocking save of 10 s after each 100 s of
# stepping. A restart takes 30 s and a restore 20 s.


def work(every: str, time: str, name: str = "evaluation") -> dict[str, Any]:
    """Return a series of work."""
    return {"name": name, "every": every, "time": time}


def periodic_case(*series: dict[str, Any], sources: Sequence[dict[str, Any]] = (), **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    job: dict[str, Any] = {"name": "job", "gpus": 2, "step_time": "5 s", "periodic": list(series)}
    job |= changes.pop("job", {})
    return prepared(**{"jobs": [job], "failures": list(sources), **changes})


@cases("every", ["20 steps", "100 s", "96 s"])
def test_work_that_is_due_with_a_save_follows_it(every: str) -> None:
    """Cycles of 100 + 10 + 15 s: seven of them and 95 s are left of 970 s. Times are rounded up to whole steps."""
    assert seconds(play(periodic_case(work(every, "15 s")))) == exactly(
        initialize=30, productive=795, checkpoint_stall=70, auxiliary=105
    )


def test_several_series() -> None:
    """Every 150 s for 15 s, and every 200 s for 7 s: 796 s are stepped, with seven saves, five times and three."""
    result = play(periodic_case(work("30 steps", "15 s"), work("200 s", "7 s", "check")))
    # To 800 s of stepping it takes 70 + 75 + 21 s: at 966 s. The last save has begun 4 s before the horizon.
    assert seconds(result) == exactly(initialize=30, productive=800, checkpoint_stall=70 + 4, auxiliary=75 + 21)


@cases(
    "recovery",
    [
        {"use": "hot-spare", "initialize": "30 s"},
        {"use": "full-restart", "initialize": "30 s"},
        SHRINK,
        {"use": "restart-smaller", "launch": "30 s"},
    ],
    ids=lambda recovery: str(recovery["use"]),
)
def test_without_failures_the_rest_is_stalls_and_the_start(recovery: dict[str, Any]) -> None:
    """Once it has its nodes, a job loses time to its start, its saves and this work, and to nothing else."""
    checkpoint = {"tiers": [{**HOST, "interval": "35 s", "stall": "1 s"}, REMOTE]}
    one = periodic_case(
        work("7 steps", "3 s"),
        work("1 min", "2 s", "check"),
        job={"parallelism": {"data": 2}},
        recovery=recovery,
        checkpoint=checkpoint,
    )
    result = play(one)
    found = means([ratios(one, result)])
    shares = {name: value / 1000 for name, value in seconds(result).items()}
    expected = 1 - shares["checkpoint_stall"] - shares["auxiliary"] - shares["initialize"]
    assert found["ettr_no_queue"] == pytest.approx(expected, rel=EXACT)
    assert shares.keys() == {"checkpoint_stall", "auxiliary", "initialize", "productive"}


def test_a_fixed_amount_of_work_ends_on_time() -> None:
    """500 s of work: four whole cycles of 125 s and 100 s; the stop that would follow is not waited for."""
    result = play(periodic_case(work("20 steps", "15 s"), job={"work": {"time": "500 s"}}, horizon="2000 s"))
    assert result.jobs[0].end == pytest.approx(30 + 500 + 4 * 25.0, abs=EXACT)
    assert result.jobs[0].finished
    assert seconds(result)["auxiliary"] == pytest.approx(60.0, abs=EXACT)
    # Within a cycle as well.
    result = play(periodic_case(work("150 s", "15 s"), job={"work": {"steps": 91}}, horizon="2000 s"))
    assert result.jobs[0].end == pytest.approx(30 + 455 + 40 + 45.0, abs=EXACT)


def test_work_that_a_rollback_takes_back_is_done_again() -> None:
    """Evaluated every 30 s for 3 s, the job fails at 291 s with 220 s of work, 200 s of them durable.

    The evaluation at 210 s of work has been and comes again. Of the 659 s from 341 s on 552 s are stepped, with five
    saves, and evaluations at 210, 240, ..., 750 s of work.
    """
    one = periodic_case(work("6 steps", "3 s"), sources=[software()])
    result = play(one, [(291, 0, 0)])
    assert seconds(result) == exactly(
        initialize=60, productive=752, checkpoint_stall=20 + 50, auxiliary=7 * 3 + 19 * 3, lost_work=20, restore=20
    )
    assert losses(one, result)["auxiliary", "no_failure"] == pytest.approx(78.0, abs=EXACT), "what was done is paid for"


def test_a_failure_in_the_middle_of_it() -> None:
    """The third evaluation begins at 220 s, with 150 s of work; 5 s later the job fails and goes back to 100 s.

    From 275 s on there are five cycles of 100 s of stepping, two evaluations and a save, and 25 s.
    """
    one = periodic_case(work("50 s", "15 s"), sources=[software()])
    assert seconds(play(one, [(225, 0, 0)])) == exactly(
        initialize=60,
        productive=100 + 500 + 25,
        checkpoint_stall=10 + 50,
        auxiliary=15 + 15 + 5 + 5 * 30,
        lost_work=50,
        restore=20,
    )


def test_a_save_because_of_a_notice_does_not_evaluate() -> None:
    """At 300 s the job saves for 10 s and leaves its node; the evaluation keeps its rhythm."""
    window = {"start": "200 s", "duration": "100 s"}
    care = {"use": "maintenance", "name": "care", "windows": [window]}
    one = periodic_case(work("50 s", "5 s"), sources=[care])
    result = sim.run(one, 0)
    # To 200 s: 30 + 50 + 5 + 50 + 15 + 50 = 200: the third evaluation is due. Saved to 210, restarted to 260 s.
    assert losses(one, result)["checkpoint_stall", "care"] == pytest.approx(10.0, abs=EXACT)
    assert "lost_work" not in seconds(result)
    assert sum(seconds(result).values()) == pytest.approx(1000.0, abs=EXACT)


def test_steps_need_the_time_of_a_step() -> None:
    """Who does not say how long a step takes cannot count them."""
    with pytest.raises(
        ValueError, match=r"periodic.*'20 steps' needs the time of a step: give the job step_time or mfu"
    ):
        periodic_case(work("20 steps", "15 s"), job={"step_time": None})
    seconds(play(periodic_case(work("100 s", "15 s"), job={"step_time": None})))


@cases("every", ["0 steps", "1.5 steps", "0 s", "-1 s", "steps", "often"])
def test_a_rhythm_has_to_be_one(every: str) -> None:
    """A whole number of steps above zero, or a time above zero."""
    with pytest.raises(ValueError, match="every"):
        periodic_case(work(every, "15 s"))


LEAVE: Plan = (Background((Acquire(),)), Restore("live"), Run())

RESTART: Plan = (Restore(), Run())

NEVER_BACK = 5000.0


def steps_case(on_loss: str = "shrink", **changes: Any) -> sim.Prepared:
    """Return the job that this file is about; its first cause makes a replica leave, its second one a restart."""
    batch = {"tokens": 1024, "sequence": 128, "on_loss": on_loss}
    job = {"name": "job", "gpus": 2, "step_time": "10 s", "parallelism": {"data": 2}, "batch": batch}
    base: dict[str, Any] = {
        "cluster": nodes(2),
        "jobs": [job | changes.pop("job", {})],
        "failures": [cause("first"), software("second")],
        "recovery": {"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
        "checkpoint": {"tiers": [{"interval": "90 s", "mode": "blocking", "write": "10 s", "restore": "0 s"}]},
    }
    return replace(prepared(**{**base, **changes}), recovery=Scripted(LEAVE, RESTART, elastic=True))


def test_without_failures() -> None:
    """Ten cycles of nine steps; those of a job that is done add up to its work."""
    result = play(steps_case())
    assert result.jobs[0].steps == pytest.approx(90.0, abs=EXACT)
    assert means([ratios(steps_case(), result)])["steps_per_day"] == pytest.approx(90 / 1000 * 86_400, rel=EXACT)
    done = play(steps_case(job={"work": {"steps": 37}}))
    assert done.jobs[0].finished
    assert done.jobs[0].steps == pytest.approx(37.0, abs=EXACT)


def test_without_a_step_time_nobody_counts() -> None:
    """There is nothing to say, and no metric that would."""
    one = prepared()
    result = play(one)
    assert result.jobs[0].steps == 0.0
    assert "steps_per_day" not in means([ratios(one, result)])


def test_a_step_with_a_replica_less_counts_one() -> None:
    """From 200 s on the other one steps alone, as fast as ever: 18 steps, and 72 that do half of the work each."""
    one = steps_case()
    result = play(one, [(200, 0, 0, NEVER_BACK)])
    assert result.jobs[0].steps == pytest.approx(18 + 72.0, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(180 + 360.0, abs=EXACT)
    found = means([ratios(one, result)])
    assert found["steps_per_day"] == pytest.approx(90 / 1000 * 86_400, rel=EXACT)
    assert found["tokens_per_day"] == pytest.approx(54 * 1024 / 1000 * 86_400, rel=EXACT)


def test_a_rollback_takes_steps_back() -> None:
    """At 185 s 17.5 steps are done, 9 of them saved; from then on 815 s hold eight cycles and 15 s."""
    result = play(steps_case(), [(185, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(85.0, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(9 + 72 + 1.5, abs=EXACT)


def test_a_rollback_takes_back_the_steps_that_were_made() -> None:
    """From 150 s on one replica steps alone: of 17.5 steps at 185 s 9 are saved, whatever the others were worth.

    Lost are 5 steps of both and 3.5 of one: 67.5 s of work. The replica goes on alone: eight cycles of nine steps of
    half the work, and 15 s.
    """
    result = play(steps_case(), [(150, 0, 0, NEVER_BACK), (185, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(67.5, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(9 + 72 + 1.5, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(90 + 0.5 * 735, abs=EXACT)


@cases(("at", "steps"), [(205.0, 18.0), (195.0, 18.0), (207.0, 18.0)])
def test_a_step_in_flight_does_not_count(at: float, steps: float) -> None:
    """Who goes on from the last step has lost what it has of the next one: at 205 s half a step, at 195 s none."""
    one = steps_case()
    recovery = Scripted((Restore("live"), Run()), (Restore("live"), Run()), elastic=True)
    result = play(one, [(at, 1, 0)], recovery)
    lost = max(at - 200.0, 0.0)
    assert seconds(result).get("lost_work", 0.0) == pytest.approx(lost, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(result.jobs[0].work / 10, abs=EXACT)
    assert result.jobs[0].steps >= steps
