"""Nodes that stay in a job with fewer GPUs, by hand.

A job of four nodes of four GPUs, each node a tensor group of its own and one replica, out of five nodes. It steps from
30 s on, with a blocking save of 10 s after each 100 s of stepping; at 300 s it has done 250 s of work, 200 s of them
durable. A restart takes 30 s, a restore 20 s and a repair 200 s. With a GPU missing a group does three quarters of its
work, with two of them half; with three the node is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.engine_watch import Watch, watch
from tests.harness import losses, prepared, seconds, trace
from tests.unit.test_effects import NEVER
from tests.unit.test_engine_damage import software
from tests.unit.test_engine_notice import preemption

if TYPE_CHECKING:
    import sim

EXACT = 1e-9
LAYOUT = {"data": 1, "tensor": 4, "pipeline": 4}


def failing(name: str, part: str, **more: Any) -> dict[str, Any]:
    """Return a source of a part that strikes only where a trace says so."""
    return {"use": "component", "name": name, "part": part, **NEVER, **more}


GPU = failing("gpu", "gpu")


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
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
    one = case(GPU)
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


def test_its_outage_lasts_until_it_is_repaired() -> None:
    """The node counts as down from 300 to 500 s, although it works."""
    one = case(GPU)
    watched = Watch(one, 0, trace([(300, 0, 5)]))
    result = watched.run()
    assert result.down_node_seconds == pytest.approx(200.0, abs=EXACT)
    assert watched.cluster.failed == {}, "it has not gone to repair"
    assert not watched.cluster.narrow


@cases(("at", "pace"), [(450.0, 0.75), (600.0, 1.0)])
def test_a_repaired_gpu_counts_from_the_next_restart_on(at: float, pace: float) -> None:
    """At 500 s the GPU is whole: a restart at 450 s is still too early."""
    one = case(GPU, software())
    result = watch(one, [(300, 0, 5), (at, 1, 0)])
    # The first restart is over at 350 s, the second 50 s after its failure; then 550 or 400 s, with a save in each 110.
    stepping = {450.0: 500 - 40.0, 600.0: 350 - 30.0}[at]
    # One save was complete in between, at 460 s, for the later one.
    between = {450.0: 0.0, 600.0: 75 + 75.0}[at]
    assert result.jobs[0].work == pytest.approx(200 + between + stepping * pace, abs=EXACT)


@cases(
    ("slots", "degraded", "swapped"),
    [((5, 9), 0.25, 0), ((5, 6), 0.5, 0), ((5, 6, 7), 0.0, 1), ((5, 6, 9), 0.5, 0), ((4, 5, 6, 9), 0.25, 1)],
    ids=["another node", "the same node", "one too many", "two and one", "one too many beside another"],
)
def test_more_gpus(slots: tuple[int, ...], degraded: float, swapped: int) -> None:
    """The worst group decides, until it is given up: its node is replaced, and the pace is that of the others."""
    one = case(GPU, software(), repair={"time": "2000 s"})
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
    one = case(GPU, repair={"time": "100 s"})
    strikes = [(300.0, 0, 4), (360.0, 0, 5), (430.0, 0, 6)]
    result = watch(one, strikes)
    assert outside(result, Bucket.REPAIR) == 0.0, "nobody has replaced it"
    # Half of what is stepped from 480 s on, a save in each 110 s; what was done at three quarters before is lost.
    assert seconds(result)["degraded"] == pytest.approx((1000 - 480 - 40) * 0.5, abs=EXACT)
    late = watch(case(GPU, repair={"time": "131 s"}), strikes)
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
    one = case(
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


@cases(("give_up_below", "swapped"), [(6, 0), (7, 1)])
def test_two_nodes_of_a_tensor_group_that_are_found_together(give_up_below: int, swapped: int) -> None:
    """Both GPUs fail before anybody looks."""
    one = case(
        {**GPU, "detection": "20 s"},
        jobs=[{"name": "job", "gpus": 16, "parallelism": {"data": 1, "tensor": 8, "pipeline": 2}}],
        recovery={"use": "narrow", "tensor": 8, "give_up_below": give_up_below, "launch": "30 s"},
        repair={"time": "5000 s"},
    )
    watched = Watch(one, 0, trace([(300, 0, 0), (310, 0, 4)]))
    # From 370 s on there are 580 s of stepping, and five saves.
    assert losses(one, watched.run())["degraded", "gpu"] == pytest.approx((2 - swapped) / 8 * 580, abs=EXACT)
    assert (len(watched.cluster.repairing), len(watched.cluster.narrow)) == (swapped, 2 - swapped)


def test_a_narrow_node_whose_host_fails_is_replaced() -> None:
    """From the swap at 400 s on no GPU is missing; the node is back when both repairs are over."""
    one = case(GPU, failing("host", "node"))
    result = watch(one, [(300, 0, 5), (400, 1, 1)])
    # 350 to 400 s at three quarters are lost.
    assert losses(one, result)["lost_work", "host"] == pytest.approx(50.0, abs=EXACT)
    assert "degraded" not in seconds(result)
    assert outside(result, Bucket.REPAIR) == pytest.approx(200.0, abs=EXACT)
    assert result.down_node_seconds == pytest.approx(300.0, abs=EXACT)
    # The repair of the GPU may also take longer than that of the host.
    slow = case({**GPU, "repair": "500 s"}, failing("host", "node"))
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
    one = case(
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


def test_a_rack_with_a_narrow_node_fails() -> None:
    """Nodes 0 and 1 leave; node 4 and the first that is back take their places."""
    one = case(GPU, failing("rack", "rack"))
    result = watch(one, [(300, 0, 5), (400, 1, 0)])
    assert result.counts["hits"] == 2
    assert losses(one, result)["starved", "rack"] == pytest.approx(200.0, abs=EXACT)
    assert outside(result, Bucket.REPAIR) == pytest.approx(2 * 200.0, abs=EXACT)
    assert "degraded" not in seconds(result)


def test_a_node_that_comes_in_is_whole() -> None:
    """A GPU of the node that replaced a narrow one fails: one is missing, whatever its predecessor lacked."""
    one = case(GPU, failing("host", "node"), repair={"time": "2000 s"})
    result = watch(one, [(300, 0, 4), (301, 0, 5), (400, 1, 1), (600, 0, 16)])
    # Narrow by two at 351 s, all of it lost at 400 s; whole at 450 s; narrow by one at 650 s.
    assert losses(one, result)["degraded", "gpu"] == pytest.approx(0.25 * (350 - 30), abs=EXACT)


def test_the_end_of_a_job_sends_its_narrow_nodes_to_repair() -> None:
    """300 s of work end at 493 s or so; the next job gets four whole nodes, and the narrow one is back at 500 s."""
    jobs = [
        {"name": "a", "gpus": 16, "parallelism": LAYOUT, "work": {"time": "300 s"}},
        {"name": "b", "gpus": 16, "parallelism": LAYOUT, "arrival": "1 s"},
    ]
    one = case({**GPU, "repair": "400 s"}, jobs=jobs)
    result = watch(one, [(300, 0, 5)])
    # From 350 s: 100 s at three quarters, a save, and a third of a second for each quarter that is left of 25 s.
    end = 350 + 100 + 10 + 25 / 0.75
    assert result.jobs[0].end == pytest.approx(end, abs=EXACT)
    assert result.jobs[1].start == pytest.approx(end, abs=EXACT), "the fifth node makes four whole ones"
    assert outside(result, Bucket.REPAIR) == pytest.approx(700 - end, abs=EXACT)
    assert seconds(result, 1).get("degraded", 0.0) == 0.0


def test_a_job_that_goes_back_to_the_queue_leaves_its_narrow_nodes_behind() -> None:
    """Preempted at 400 s for 20 s, it starts again on the four nodes that are whole."""
    one = case(GPU, preemption("20 s"))
    result = watch(one, [(300, 0, 5), (400, 1, 0)])
    assert losses(one, result)["reschedule", "preempted"] == pytest.approx(20.0, abs=EXACT)
    assert "queued" not in seconds(result)
    assert outside(result, Bucket.REPAIR) == pytest.approx(100.0, abs=EXACT)
    assert "degraded" not in seconds(result), "what was stepped narrow is lost"
    # With no other node the job waits for its repair.
    small = case(GPU, preemption("20 s"), cluster={"nodes": 4, "gpus_per_node": 4, "fabric": {"rails": 1}})
    assert losses(small, watch(small, [(300, 0, 5), (400, 1, 0)]))["queued", "preempted"] == pytest.approx(
        80.0, abs=EXACT
    )


def test_a_job_that_waits_for_a_host_in_vain_lets_go_of_its_narrow_nodes() -> None:
    """Node 0 fails at 400 s in a cluster of four; after 30 s the job gives up, and node 1 goes to repair."""
    recovery = {"use": "narrow", "tensor": 4, "launch": "30 s", "patience": "30 s", "requeue": "5 s"}
    one = case(
        GPU,
        failing("host", "node"),
        cluster={"nodes": 4, "gpus_per_node": 4, "fabric": {"rails": 1}},
        recovery=recovery,
    )
    result = watch(one, [(300, 0, 5), (400, 1, 0)])
    table = losses(one, result)
    assert table["starved", "host"] == pytest.approx(30.0, abs=EXACT)
    assert table["reschedule", "host"] == pytest.approx(5.0, abs=EXACT)
    assert table["queued", "host"] == pytest.approx(600 - 435.0, abs=EXACT)
    assert outside(result, Bucket.REPAIR) == pytest.approx(200 + 70.0, abs=EXACT)


def test_until_it_is_known_a_lost_gpu_is_a_failure_like_others() -> None:
    """A second failure of the node before anybody looks finds it down: it is masked."""
    one = case({**GPU, "detection": "40 s"})
    result = watch(one, [(300, 0, 5), (320, 0, 6)])
    assert losses(one, result)["detection", "gpu"] == pytest.approx(40.0, abs=EXACT)
    assert result.counts["masked"] == 1
    # From 390 s on one GPU is missing: 610 s hold five saves.
    assert losses(one, result)["degraded", "gpu"] == pytest.approx(0.25 * 560, abs=EXACT)


def test_lives_that_are_put_together_are_those_of_gpus_still() -> None:
    """With a constant rate the GPUs of a node have one life together: what fails is a GPU all the same."""
    rate = {"use": "component", "name": "gpu", "part": "gpu", "rate": "1 per 1000 gpu-d"}
    apart, together = case(GPU), case(rate)
    assert (apart.sources[0].part, together.sources[0].part) == ("gpu", "node")
    assert seconds(watch(together, [(300, 0, 1)])) == pytest.approx(seconds(watch(apart, [(300, 0, 5)])), abs=EXACT)


def test_what_is_no_failure_of_a_gpu_narrows_nothing() -> None:
    """A GPU whose failure is stated to take its host does so; a strategy that keeps no parts swaps the node."""
    for one in (
        case({**GPU, "fault": "host"}),
        case(GPU, recovery={"use": "hot-spare", "initialize": "30 s"}),
    ):
        result = watch(one, [(300, 0, 5)])
        assert "degraded" not in seconds(result)
        assert outside(result, Bucket.REPAIR) == pytest.approx(200.0, abs=EXACT)


def test_a_failure_without_a_repair_takes_nothing() -> None:
    """Nothing is missing when the job starts again."""
    one = case({**GPU, "repair": "0 s"})
    result = watch(one, [(300, 0, 5)])
    assert "degraded" not in seconds(result)
    assert result.down_node_seconds == 0.0


@cases("replication", range(6))
def test_a_cluster_that_fails_often(replication: int) -> None:
    """After every event each node is in one place, and who works with something open against it is narrow."""
    one = case(
        {"use": "component", "name": "gpu", "part": "gpu", "rate": "1 per gpu-h"},
        {"use": "component", "name": "aging", "part": "gpu", "law": {"law": "weibull", "scale": "1 h", "shape": 2}},
        {"use": "component", "name": "host", "part": "node", "rate": "1 per node-h"},
        {"use": "component", "name": "rack", "part": "rack", "rate": "1 per rack-h", "repair": "50 s"},
        {"use": "preemption", "name": "preempted", "rate": "2 per job-h", "away": "60 s", "notice": "15 s"},
        {"use": "job", "name": "software", "rate": "2 per job-h"},
        detection={"time": {"law": "exponential", "mean": "5 s"}},
        repair={"time": {"law": "exponential", "mean": "300 s"}},
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
