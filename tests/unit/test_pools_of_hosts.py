"""Several kinds of hosts in one cluster: who is where, how fast a job steps on them, what must be known of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from analysis.metrics import ratios
from sim import catalog
from sim.policies.contracts import Bucket
from tests import small
from tests.cases import cases
from tests.harness import _Watched, losses, play, prepared, seconds, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}
H100: dict[str, Any] = {"count": 2, "accelerator": "h100"}
B200: dict[str, Any] = {"count": 2, "accelerator": "b200"}
A100: dict[str, Any] = {"count": 2, "accelerator": "a100"}
SLOW = 989 / 2250
"""Dense bf16 peak of an H100 relative to that of a B200: 989 and 2,250 TFLOP/s in NVIDIA's data sheets."""


def case(pools: Sequence[dict[str, Any]], *gpus: int, **more: Any) -> sim.Prepared:
    """Return jobs of one GPU a node on pools of hosts, which step from 30 s after their arrival on."""
    jobs = [{"name": f"job {number}", "gpus": size, "arrival": f"{number} s"} for number, size in enumerate(gpus)]
    cluster = {"pools": list(pools), "gpus_per_node": 1, "fabric": {"rails": 1}, **more.pop("cluster", {})}
    return prepared(**{"cluster": cluster, "jobs": jobs, "checkpoint": RARE_SAVES, **more})


def work(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = ()) -> list[float]:
    """Return the healthy seconds of work of each job [s]."""
    return [job.work for job in play(one, rows).jobs]


# ----------------------------------------------------------------------------------------------------- the pace


def test_the_slowest_member_sets_the_pace() -> None:
    """On two B200 at full pace; with one H100 among three, at that of an H100; the time in between is degraded."""
    assert work(case([B200, H100], 2)) == pytest.approx([970])
    assert work(case([B200, H100], 3)) == pytest.approx([970 * SLOW], rel=1e-9)
    found = seconds(play(case([B200, H100], 4)))
    assert found == pytest.approx(
        {"initialize": 30.0, "productive": 970 * SLOW, "degraded": 970 * (1 - SLOW)}, rel=1e-9
    )


def test_the_pace_is_that_of_the_slowest_of_three_kinds() -> None:
    """An A100 has 312 TFLOP/s: with all three kinds, only the A100 counts."""
    assert case([B200, H100, A100], 6).jobs[0].pool_paces == pytest.approx((1.0, SLOW, 312 / 2250))
    assert work(case([B200, H100, A100], 6)) == pytest.approx([970 * 312 / 2250], rel=1e-9)
    assert work(case([B200, A100, H100], 2, 2, 2)) == pytest.approx([970, 969 * 312 / 2250, 968 * SLOW], rel=1e-9)


def test_nobody_is_faster_than_the_plan() -> None:
    """The step is that of the first pool: on faster nodes a job does not go faster than it was planned."""
    assert work(case([H100, B200], 2, 2)) == pytest.approx([970, 969], rel=1e-9)
    assert work(case([H100, B200], 4)) == pytest.approx([970], rel=1e-9)


def test_the_peak_at_the_precision_of_the_job_counts() -> None:
    """With fp8 an H100 has 1,979 of the 4,500 TFLOP/s of a B200; with bf16 989 of 2,250."""
    one = case([B200, H100], jobs=[{"name": "job", "gpus": 3, "precision": "fp8"}])
    assert work(one) == pytest.approx([970 * 1979 / 4500], rel=1e-9)


def test_the_pace_changes_with_the_nodes() -> None:
    """A B200 fails at 130 s, an H100 replaces it; that fails at 400 s, and the B200, back at 330 s, takes over again.

    Nothing was saved: what was done by 130 and by 400 s is lost, with all the time that it took.
    """
    one = case([B200, H100], 2)
    assert work(one, [(130.0, 0, 0)]) == pytest.approx([840 * SLOW], rel=1e-9)
    result = play(one, [(130.0, 0, 0), (400.0, 0, 2)])
    assert seconds(result) == pytest.approx({"initialize": 90.0, "lost_work": 340.0, "productive": 570.0}, rel=1e-9)


@cases(("first", "second", "pace"), [("b200", "h100", SLOW), ("gb200", "b200", 2250 / 2450)])
@cases("share", [0.3, 1.0])
def test_lost_bandwidth_and_a_slow_pool_do_not_add_up(first: str, second: str, pace: float, share: float) -> None:
    """A synchronous job waits for the slower of the two: while half the spines are out, for the one or the other."""
    never = {"law": {"law": "exponential", "mean": "100000 d"}}
    spine = {"use": "component", "name": "spine", "part": "spine", "repair": "200 s", **never}
    fabric = {"rails": 1, "leaf": {"nodes": 2}, "spine": {"switches": 2}}
    jobs = [{"name": "job", "gpus": 4, "communication": share}]
    pools = [{"count": 2, "accelerator": name} for name in (first, second)]
    one = case(pools, cluster={"fabric": fabric}, jobs=jobs, failures=[spine])
    narrow = 1 / (1 - share + share / 0.5)
    result = play(one, [(130.0, 0, 0)])
    assert result.jobs[0].work == pytest.approx(770 * pace + 200 * min(pace, narrow), rel=1e-9)
    lost = losses(one, result)
    assert ("degraded", "spine") in lost if narrow < pace else ("degraded", "spine") not in lost


ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "300 s"}


def test_a_replica_that_is_away_slows_nobody() -> None:
    """Of two replicas on a B200 each one fails at 400 s; it is back on an H100 at 700 s, and only then both are slow.

    The job steps from 300 to 400 s, half of it at full pace from 410 to 700 s, and all of it like H100s from then on.
    """
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    one = case([B200, H100], jobs=jobs, recovery=ELASTIC)
    assert work(one, [(400.0, 0, 0)]) == pytest.approx([100 + 290 / 2 + 300 * SLOW], rel=1e-9)


# ------------------------------------------------------------------------------------------------ who is where


def test_pools_follow_one_another_in_the_numbers_of_the_nodes() -> None:
    """Three, one and two nodes: a job of four has the first two kinds, the second job the third."""
    pools = [{"count": 3, "accelerator": "b200"}, {"count": 1, "accelerator": "h100"}, A100]
    one = case(pools, 4, 2)
    assert one.network is not None
    assert list(one.network.pool_of_node) == [0, 0, 0, 1, 2, 2]
    simulation = _Watched(one, 0, trace(()))
    simulation.run()
    assert [job.nodes for job in simulation.jobs.all] == [[0, 1, 2, 3], [4, 5]]
    assert [job.footprint.pools for job in simulation.jobs.all if job.footprint] == [[3, 1, 0], [0, 0, 2]]


def test_spares_are_the_last_nodes_whatever_they_are() -> None:
    """The hot spares come from the last pool, and the job on them is as slow as they are."""
    one = case([B200, H100], 2, spares={"hot": 1})
    simulation = _Watched(one, 0, trace([(130.0, 0, 1)]))
    simulation.run()
    assert simulation.jobs.all[0].nodes == [0, 3]


def results(one: sim.Prepared, replication: int) -> list[bytes]:
    """Return all that a replication gives, bit by bit."""
    result = sim.run(one, replication)
    arrays = [*(job.totals for job in result.jobs), result.outside, result.cluster, result.edges]
    numbers = [[job.work, job.running, job.interruptions, job.merged] for job in result.jobs]
    rest = [numbers, result.counts, result.down_node_seconds, sorted(result.down_times.items()), result.events]
    return [*(np.ascontiguousarray(array).tobytes() for array in arrays), json.dumps(rest).encode()]


@cases(
    "pools",
    [
        [{"count": 16, "accelerator": "h100"}],
        [{"count": 16, "accelerator": "h100", "age": "3 year"}],
        [{"count": 9, "accelerator": "h100"}, {"count": 7, "accelerator": "h100"}],
        [{"count": 9, "accelerator": "h100"}, {"count": 7, "accelerator": "h200"}],
    ],
    ids=["one pool", "an old one", "two alike", "with the same peak"],
)
def test_pools_that_are_alike_are_no_pools(pools: list[dict[str, Any]]) -> None:
    """One pool is the same as nodes and accelerator, bit by bit; so are pools of one peak, and of any age here."""
    plain = {**small.SMALL["cluster"], "accelerator": "h100"}
    mixed = {key: value for key, value in plain.items() if key not in ("nodes", "accelerator")}
    jobs = [
        {
            "name": "train",
            "gpus": 112,
            "model": "llama3-405b",
            "mfu": 0.4,
            "batch": {"tokens": "1 Mi", "sequence": 8192},
        }
    ]
    ours = small.prepare(cluster={**mixed, "pools": pools}, jobs=jobs)
    theirs = small.prepare(cluster=plain, jobs=jobs)
    assert ours.counts == theirs.counts
    for replication in range(3):
        found = results(theirs, replication)
        assert found == results(ours, replication)
        assert json.loads(found[-1])[1]["failures"] > 0, "too quiet to show anything"


# ---------------------------------------------------------------------------------------- what must be known


def refusal(pools: Sequence[dict[str, Any]], **more: Any) -> str:
    """Return the one line in which pools are refused."""
    with pytest.raises(sim.ScenarioError) as caught:
        case(pools, 2, **more)
    (line,) = caught.value.lines
    return line


def test_an_unknown_accelerator_is_named_with_its_pool() -> None:
    """Every pool must be in the catalog where there are several: their paces relate to one another."""
    line = refusal([H100, {"count": 2, "accelerator": "b2000"}])
    assert "cluster.pools.1.accelerator: unknown accelerator 'b2000'; did you mean 'b200'?" in line
    line = refusal([{"count": 2, "accelerator": "H100"}, B200])
    assert "cluster.pools.0.accelerator: unknown accelerator 'H100'; did you mean 'h100'?" in line


def test_a_precision_without_a_peak_is_named_with_its_pool() -> None:
    """An A100 has no fp8."""
    assert "fp8" not in catalog.accelerators()["a100"].peak
    line = refusal([H100, A100], jobs=[{"name": "job", "gpus": 2, "precision": "fp8"}])
    assert line.endswith("cluster.pools.1.accelerator: the catalog has no fp8 peak of a100 (it has bf16)")


def test_a_single_pool_needs_no_peak() -> None:
    """As without pools: the pace of one kind relates to nothing."""
    assert work(case([{"count": 4, "accelerator": "mine"}], 2)) == pytest.approx([970])


# -------------------------------------------------------------------------------------------------- metrics


def test_cluster_goodput_of_pools_that_are_alike() -> None:
    """Two of four nodes step for 970 of 1000 s: productive over owned, to which equal weights change nothing."""
    one = case([H100, H100], 2)
    found = ratios(one, play(one))["cluster_goodput"]
    assert found.amount / found.base == pytest.approx(2 * 970 / 4000, rel=1e-9)


def test_cluster_goodput_counts_gpus_by_their_peaks() -> None:
    """Productive time is that of the first pool; what is owned is counted in its GPUs too, an H100 as 0.44 B200.

    So the same two B200 nodes that work are a larger part of a cluster whose other half is slow, and a cluster of which
    all nodes step has what its slowest nodes leave.
    """
    owned = 1000 * (2 + 2 * SLOW)
    for gpus, productive in ((2, 2 * 970), (4, 4 * 970 * SLOW)):
        one = case([B200, H100], gpus)
        found = ratios(one, play(one))["cluster_goodput"]
        assert found.amount / found.base == pytest.approx(productive / owned, rel=1e-9)
    one = case([H100, B200], 4)
    found = ratios(one, play(one))["cluster_goodput"]
    assert found.amount / found.base == pytest.approx(4 * 970 / (1000 * (2 + 2 / SLOW)), rel=1e-9)


def test_productive_time_is_counted_at_the_pace_of_the_first_pool() -> None:
    """Four nodes at the pace of an H100 where a B200 was planned: 989 / 2,250 of their time is productive."""
    one = case([B200, H100], 4)
    result = play(one)
    assert result.jobs[0].buckets[Bucket.PRODUCTIVE] == pytest.approx(4 * 970 * SLOW, rel=1e-9)
    found = ratios(one, result)["ettr"]
    assert found.amount / found.base == pytest.approx(0.97 * SLOW, rel=1e-9)
