"""What is true of every scenario, however strange: the ledger closes, events and outages are conserved."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from tests.property.common import Scenario, at_its_best, examples, is_even, larger, play, prepare, slowest
from tests.strategies import scenarios

if TYPE_CHECKING:
    from ettrick.sim.failures import FailureSource, FailureTrace


@examples(130, on_push=6)
@given(scenarios())
def test_every_gpu_second_is_charged_once_and_to_a_possible_cause(data: Scenario) -> None:
    """Books close (`play` looks), nothing is negative, and each bucket has causes that can lead to it."""
    prepared = prepare(data)
    result = play(prepared)
    for job in result.jobs:
        rounding = 1e-9 * max(job.requested, 1.0)
        assert job.totals.min(initial=0.0) >= -rounding
        assert job.work >= 0
        _check_causes(job, prepared, rounding)
    assert result.outside.min() >= -1e-9 * result.owned


def _check_causes(job: sim.JobResult, prepared: sim.Prepared, rounding: float) -> None:
    """Nothing is lost to a cause that cannot lead to it, or that has not met the job."""
    without_failure = job.totals.sum(axis=0)[:, 0]
    by_cause = job.totals.sum(axis=0)[:, 1:]
    # A standby selects hosts before its first step too.
    even = is_even(prepared)
    of_failures = ["DETECTION", "LOST_WORK", "STARVED", "MAINTENANCE"]
    # Where nodes differ, or some are far apart, a job may be slow without any failure.
    of_failures += ["DEGRADED"] if even else []
    for bucket in of_failures + ([] if prepared.scenario.recovery.use == "standby" else ["RESCHEDULE"]):
        assert without_failure[sim.Bucket[bucket]] <= rounding, bucket
    assert by_cause[sim.Bucket.PRODUCTIVE].sum() <= rounding
    for cause, source in enumerate(prepared.sources):
        slows = source.effect.speed < 1 or source.effect.bandwidth_left < 1 or source.of_fabric
        if not (source.saves or source.effect.saves):
            assert by_cause[sim.Bucket.CHECKPOINT_STALL, cause] <= rounding
        if cause + 1 not in job.interruptions:
            # A slow node, or network, costs time before anybody notices, and costs nothing else until then.
            # A rollout that waits for an interruption may keep the nodes of a job that another cause has stopped.
            waits = source.rollout is not None and source.rollout.mode == "at_interruption"
            allowed = [sim.Bucket.DEGRADED] * slows + [sim.Bucket.MAINTENANCE] * waits
            assert np.delete(by_cause[:, cause], allowed).sum() <= rounding
        elif prepared.jobs[0].replicas == 1 and even and not slows:
            assert by_cause[sim.Bucket.DEGRADED, cause] <= rounding


@examples(60)
@given(scenarios())
def test_ettr_is_scheduling_times_runtime(data: Scenario) -> None:
    """Of each job's requested time, the productive share is the share not spent on nodes times what is made of it."""
    for job in play(prepare(data)).jobs:
        shares = job.buckets / job.requested if job.requested else np.zeros(len(job.buckets))
        waiting = sum(shares[sim.Bucket[name]] for name in ("QUEUED", "STARVED", "RESCHEDULE"))
        assert job.waiting_for_nodes == pytest.approx(waiting * job.requested, rel=1e-9, abs=1e-9)
        assert shares.sum() == pytest.approx(1.0 if job.requested else 0.0, abs=1e-9)
        held = job.requested - job.waiting_for_nodes
        if held > 1e-9 * job.requested:
            runtime = job.buckets[sim.Bucket.PRODUCTIVE] / held
            assert shares[sim.Bucket.PRODUCTIVE] == pytest.approx((1 - waiting) * runtime, rel=1e-9, abs=1e-9)
            assert -1e-9 <= runtime <= 1 + 1e-9


@examples(130, on_push=6)
@given(scenarios(fewest_sources=1))
def test_events_are_conserved(data: Scenario) -> None:
    """Each candidate is suppressed, harmless, masked, outside every job, or a hit; a hit interrupts a job or more."""
    prepared = prepare(data)
    result = play(prepared)
    counts = result.counts
    assert min(counts.values()) >= 0
    assert counts["candidates"] == counts["suppressed"] + counts["faults"]
    assert counts["failures"] == counts["masked"] + counts["outside"] + counts["hits"]
    seen = counts["harmless"] + counts["degraded"] + counts["healed"] + counts["failures"]
    if all(source.effect.stops for source in prepared.sources):
        assert counts["faults"] == seen
        assert counts["healed"] == counts["tainted_at_end"] == 0
    elif not prepared.warmup:
        # Nodes may be slow, or compute wrongly, until the end; what began in a warm-up is not counted.
        assert counts["faults"] >= seen
    if not any(source.residue for source in prepared.sources):
        assert counts["relapses"] == 0
        assert counts["hidden_at_end"] == 0 or any(source.hidden for source in prepared.sources)
    interruptions = 0
    for job in result.jobs:
        assert all(job.disruptions.get(cause, 0) <= count for cause, count in job.interruptions.items())
        interruptions += sum(job.interruptions.values())
    assert interruptions >= counts["hits"]
    if len(result.jobs) == 1 or all(map(_strikes_one_job, prepared.sources)):
        assert interruptions == counts["hits"]


def _strikes_one_job(source: FailureSource) -> bool:
    """Return whether no failure of a source can interrupt several jobs."""
    one_node = source.part in ("node", "gpu", "nic", "job") and source.rollout is None
    return one_node and source.effect.use != "corrupt"


@examples(80, on_push=4)
@given(scenarios(fewest_sources=1))
def test_three_ways_to_count_the_time_that_nodes_are_down(data: Scenario) -> None:
    """The log of outages, the times by number of nodes down, and the node-time spent down say the same."""
    prepared = prepare(data)
    result = play(prepared, keeps_log=True)
    end = float(result.edges[-1])
    rounding = 1e-9 * max(result.node_seconds, 1.0)
    assert -rounding <= result.down_node_seconds <= result.node_seconds + rounding
    assert sum(result.down_times.values()) == pytest.approx(end, rel=1e-9, abs=1e-9)
    assert min(result.down_times.values()) >= -rounding
    assert all(0 <= number <= prepared.nodes for number in result.down_times)
    by_number = sum(number * seconds for number, seconds in result.down_times.items())
    assert by_number == pytest.approx(result.down_node_seconds, rel=1e-9, abs=rounding)
    back = dict.fromkeys(range(prepared.nodes), -np.inf)
    logged = 0.0
    for outage in result.outages:
        assert outage.end >= max(outage.start, 0.0)
        assert outage.end <= end
        assert outage.start >= back[outage.node], "a node goes down that is down"
        assert 1 <= outage.cause <= len(prepared.sources)
        back[outage.node] = outage.end
        logged += outage.end - max(outage.start, 0.0)
    assert logged == pytest.approx(result.down_node_seconds, rel=1e-9, abs=rounding)


@examples(60, on_push=3)
@given(scenarios(fewest_sources=1), st.permutations(range(3)))
def test_a_replication_is_repeated_exactly(data: Scenario, order: list[int]) -> None:
    """Replications come out bit by bit the same: prepared from the dumped scenario, sent away, in another order."""
    scenario = sim.parse(data)
    again = sim.parse(scenario.dump())
    assert again == scenario
    here, there = sim.prepare(scenario), pickle.loads(pickle.dumps(sim.prepare(again)))
    first = {number: play(here, number, keeps_log=True) for number in range(3)}
    second = {number: play(there, number, keeps_log=True) for number in order}
    for number, one in first.items():
        _check_same(one, second[number])


def _check_same(first: sim.Result, second: sim.Result) -> None:
    assert np.array_equal(first.cluster, second.cluster)
    assert np.array_equal(first.outside, second.outside)
    assert first.counts == second.counts
    assert first.events == second.events
    assert first.down_times == second.down_times
    assert [*first.outages] == [*second.outages]
    for one, other in zip(first.jobs, second.jobs, strict=True):
        assert np.array_equal(one.totals, other.totals)
        assert one.interruptions == other.interruptions


@examples(80, on_push=4)
@given(scenarios(fewest_sources=1))
def test_windows_only_cut_the_tables(data: Scenario) -> None:
    """With windows every bucket and cause sums to what it is without; each window holds its own length, in parts."""
    whole = play(prepare({key: value for key, value in data.items() if key != "windows"}))
    horizon = float(data["horizon"].split()[0])
    cut = play(prepare(data | {"windows": f"{horizon / 4.7!r} s"}))
    assert cut.counts == whole.counts
    lengths = np.diff(cut.edges)
    assert cut.edges[-1] == pytest.approx(whole.edges[-1], rel=1e-9)
    for one, other in zip(whole.jobs, cut.jobs, strict=True):
        expected = one.totals.sum(axis=0)
        np.testing.assert_allclose(other.totals.sum(axis=0), expected, rtol=1e-9, atol=1e-9 * max(one.requested, 1.0))
        overlap = np.clip(np.minimum(cut.edges[1:], other.end) - np.maximum(cut.edges[:-1], other.arrival), 0, lengths)
        held = other.totals.sum(axis=(1, 2))
        np.testing.assert_allclose(held, other.gpus * overlap, rtol=1e-9, atol=1e-9 * max(one.requested, 1.0))
        assert other.totals.min(initial=0.0) >= -1e-9 * max(one.requested, 1.0)
    np.testing.assert_allclose(cut.cluster, whole.cluster, rtol=1e-9, atol=1e-9 * whole.owned)


@examples(80, on_push=4)
@given(scenarios(fewest_sources=1), st.floats(1.1, 3.0))
def test_a_longer_horizon_or_a_larger_cluster_keeps_the_failures(data: Scenario, factor: float) -> None:
    """Candidates before the old horizon and of the old parts are the same in a longer or larger simulation."""
    prepared = prepare(data)
    before = sim.trace(prepared, 0)
    end = prepared.warmup + prepared.horizon

    horizon = float(data["horizon"].split()[0])
    longer = sim.trace(prepare(data | {"horizon": f"{factor * horizon!r} s"}), 0)
    _check_kept(before, longer, longer.time < end)
    assert before.initial == longer.initial

    grown = sim.trace(prepare(data | {"cluster": larger(data["cluster"])}), 0)
    known = np.array([source.units if _grows(source) else 0 for source in prepared.sources])
    _check_kept(before, grown, grown.slot < known[grown.source], before.slot < known[before.source])


def _grows(source: FailureSource) -> bool:
    """Return whether the failures of old parts stay in a larger cluster.

    They do not where an exact share of all nodes has a fault, or where an incident picks nodes among more of them.
    """
    scattered = source.blast is not None and source.blast.spread is not None
    return not scattered and not (source.hidden is not None and source.hidden.exact)


def _check_kept(before: FailureTrace, after: FailureTrace, later: Any, former: Any = slice(None)) -> None:
    """The rows of one trace are those rows of another."""
    for name in ("time", "source", "slot", "round"):
        assert np.array_equal(getattr(before, name)[former], getattr(after, name)[later]), name


@examples(80, on_push=4)
@given(scenarios(most_jobs=1, fewest_sources=1))
def test_failures_never_make_a_job_faster(data: Scenario) -> None:
    """One job does no more work than without failures at its best, and ends no earlier.

    Its start-up takes a fixed time: with a random one a failure during a slow start-up can help, the next attempt draws
    again. The same goes for a recovery that is quicker than the first selection of hosts. A failure can also take a job
    from slow or distant nodes to better ones, or rid it of a slow replica: at its best, all nodes are fast and near.
    """
    names = ("recovery", "selection") if data["recovery"]["use"] == "standby" else ("initialize",)
    data = data | {"recovery": data["recovery"] | dict.fromkeys(names, "100 s")}
    job = play(prepare(data)).jobs[0]
    quiet = play(
        prepare(at_its_best(data | {"failures": [], "parts": {}, "health": None, "checkpoint": _fixed_interval(data)}))
    ).jobs[0]
    assert job.work <= quiet.work * (1 + 1e-9)
    assert job.end >= quiet.end * (1 - 1e-9)


def _fixed_interval(data: Scenario) -> Scenario:
    """Return the checkpoints of a scenario with a rule for the interval replaced by what it came to."""
    checkpoint: Scenario = copy.deepcopy(data["checkpoint"])
    checkpoint["tiers"][0]["interval"] = f"{prepare(data).jobs[0].checkpoint.interval!r} s"
    return checkpoint


@examples(60)
@given(scenarios(most_jobs=1, fewest_sources=1))
def test_free_checkpoints_at_every_moment_lose_nothing(data: Scenario) -> None:
    """With free saves every millisecond no failure costs more than a millisecond of work, or a step in flight.

    Wrong results cost more, and a bug that waits between two steps would strike every millisecond.
    """
    tier = {"interval": "1 ms", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    failures = [
        source | ({"effect": "hang"} if source.get("effect") == "corrupt" else {})
        for source in data["failures"]
        if source["use"] != "bug"
    ]
    prepared = prepare(data | {"checkpoint": {"tiers": [tier]}, "failures": failures})
    result, pace = slowest(prepared)
    job = result.jobs[0]
    step = float(data["jobs"][0].get("step_time", "0 s").split()[0])
    # With the batch kept, one replica alone takes so many times as long for a step; slow nodes and networks stretch it.
    longest = max(step, 1e-3) * prepared.jobs[0].replicas / pace
    most = sum(job.interruptions.values()) * longest * job.gpus
    assert job.buckets[sim.Bucket.LOST_WORK] <= most * (1 + 1e-9) + 1e-9 * job.requested
