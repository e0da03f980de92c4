"""Healthy nodes that are taken out of a job to be tested, by hand.

A job of four nodes out of six steps from 30 s on, with a blocking save of 10 s after each 100 s of stepping; at 305 s
it has done 255 s of work, 200 s of them durable. When a failure is known the job is stopped for 10 s, the block of two
nodes with the one that failed is taken out, and after a swap the job initializes for 30 s. Tests take 100 s.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sim.policies.contracts import Acquire, Bucket, Evict, Plan, Requeue, Restore, Run, Stall
from tests.cases import cases
from tests.engine_watch import Watch, watch
from tests.harness import losses, prepared, seconds, trace
from tests.unit.test_effects import cause, nodes
from tests.unit.test_engine_damage import CLIQUE, REMOTE, software
from tests.unit.test_plan_steps import Scripted

if TYPE_CHECKING:
    import sim

EXACT = 1e-9
STOP = Stall(Bucket.RESCHEDULE, 10.0)
SWAP: Plan = (STOP, Evict(2, 100.0), Acquire(), Stall(Bucket.INITIALIZE, 30.0), Restore(), Run())
BEGIN: Plan = (Stall(Bucket.INITIALIZE, 30.0), Restore("stores"), Run())


def case(plan: Plan = SWAP, count: int = 6, second: Plan = (), **changes: Any) -> sim.Prepared:
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
    one = case()
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
    result = watch(case(), [(305, 0, 1)])
    assert result.counts["evicted"] == 1
    assert result.counts["failures"] == result.counts["hits"] == 1
    assert result.counts["repairs"] == 0, "tiers of repair count those that they mend"
    assert result.jobs[0].interruptions == {1: 1}
    assert result.repairs == {1: 1}


def test_a_scheduler_does_not_hold_a_test_against_a_node() -> None:
    """Of the idle nodes the one with the fewest failures is taken: node 0, which was only tested, before node 1."""
    one = case(count=7, scheduler={"use": "fifo", "pick": "fewest-failures"})
    played = Watch(one, 0, trace([(305, 0, 1)]))
    played.run()
    assert played.cluster.failed == {1: 1}


@cases(("failed", "evicted"), [((0,), 1), ((3,), 1), ((0, 1), 0), ((1, 2), 1), ((), 2)], ids=str)
def test_which_nodes_leave(failed: tuple[int, ...], evicted: int) -> None:
    """The block with the first node that failed; where none did, as when a job hangs, the first block."""
    one = case(count=8, detection={"time": "1 s"})
    rows = [(305.0, 0, node) for node in failed] or [(305.0, 1, 0)]
    result = watch(one, rows)
    assert result.counts["evicted"] == evicted
    assert "starved" not in seconds(result)


@cases(("size", "failed", "evicted"), [(3, 3, 0), (3, 1, 2), (4, 2, 3), (9, 2, 3), (1, 2, 0)])
def test_blocks_of_other_sizes(size: int, failed: int, evicted: int) -> None:
    """The last block may be smaller, and no block is larger than the job."""
    plan = (Evict(size, 100.0), *SWAP[2:])
    assert watch(case(plan, count=9), [(305, 0, failed)]).counts["evicted"] == evicted


def test_with_too_few_nodes_the_job_waits_for_the_tests() -> None:
    """One of two is there at 315 s; the next is node 0, when it has passed at 415 s."""
    one = case(count=5)
    result = watch(one, [(305, 0, 1)])
    assert losses(one, result)["starved", "first"] == pytest.approx(100.0, abs=EXACT)
    assert in_test(result) == pytest.approx(100.0, abs=EXACT)


def test_what_evicted_nodes_held_in_memory_is_gone() -> None:
    """Without the eviction node 0 would still have the copy of both; the memory of the other clique is of no use."""
    checkpoint = {"tiers": [CLIQUE, REMOTE]}
    alone = watch(case((STOP, *SWAP[2:]), checkpoint=checkpoint), [(305, 0, 1)])
    assert alone.jobs[0].restores == {"peer-host": 1}
    together = watch(case(checkpoint=checkpoint), [(305, 0, 1)])
    assert together.jobs[0].restores == {"remote": 1}
    assert seconds(together)["lost_work"] == pytest.approx(55.0, abs=EXACT)


def test_a_failure_during_the_stop_starts_it_again() -> None:
    """The plan that is cut off at 310 s has evicted nobody; the next one evicts at 320 s."""
    one = case(second=SWAP)
    result = watch(one, [(305, 0, 1), (310, 1, 0)])
    assert result.counts["evicted"] == 1
    assert losses(one, result)["reschedule", "first"] == pytest.approx(5.0, abs=EXACT)
    assert losses(one, result)["reschedule", "second"] == pytest.approx(10.0, abs=EXACT)
    assert in_test(result) == 0.0
    assert float(result.outside.sum(axis=0)[Bucket.QUALIFICATION, 2]) == pytest.approx(100.0, abs=EXACT)


def test_a_failure_after_the_eviction_evicts_the_same_places_again() -> None:
    """Their nodes are new; with none missing it is the first block that goes."""
    one = case(count=8, second=SWAP)
    result = watch(one, [(305, 0, 1), (330, 1, 0)])
    assert result.counts["evicted"] == 1 + 2
    assert "starved" not in seconds(result)


def test_a_job_may_go_back_to_the_queue_without_them() -> None:
    """Two nodes are left of five, and one that is idle: the job waits for the end of the test at 415 s."""
    one = case((STOP, Evict(2, 100.0), Requeue(20.0)), count=5)
    result = watch(one, [(305, 0, 1)])
    table = losses(one, result)
    assert table["reschedule", "first"] == pytest.approx(30.0, abs=EXACT)
    assert table["queued", "first"] == pytest.approx(415 - 335.0, abs=EXACT)
    assert table["restore", "first"] == pytest.approx(20.0, abs=EXACT)


def test_a_node_may_fail_in_its_test() -> None:
    """It is masked: the node is out already, and its test is over at the same time."""
    result = watch(case(), [(305, 0, 1), (350, 0, 0)])
    assert result.counts["masked"] == 1
    assert in_test(result) == pytest.approx(100.0, abs=EXACT)
    assert result.jobs[0].interruptions == {1: 1}


def test_a_test_may_take_no_time() -> None:
    """The nodes are swapped all the same."""
    plan = (STOP, Evict(2, 0.0), *SWAP[2:])
    result = watch(case(plan), [(305, 0, 1)])
    assert result.counts["evicted"] == 1
    assert in_test(result) == 0.0
    assert "starved" not in seconds(result)


@cases("size", [1, 2, 3])
def test_racks_that_are_used_as_wholes(size: int) -> None:
    """Who takes a node out of a rack takes the whole rack out; it comes back when all its nodes have."""
    plan = (Evict(size, 100.0), *SWAP[2:])
    one = case(plan, cluster=nodes(8, rack=2), spares={"unit": "rack"})
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
