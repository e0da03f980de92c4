"""What is true of every scenario, however strange: the ledger closes, nodes and events are conserved."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import sim
from sim.cluster import Place
from sim.engine import Simulation
from tests.strategies import scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.job import Group, Job

Scenario = dict[str, Any]


def _examples(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the settings of a property: always the same examples, and no stopwatch.

    A failing example is shown as it was drawn: to make it smaller takes minutes. Add ``Phase.shrink`` by hand.
    """
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def _run(data: Scenario, replication: int = 0) -> sim.Result:
    return sim.run(sim.prepare(sim.parse(data)), replication)


# ------------------------------------------------------------------------------------------------------ accounts


@_examples(300)
@given(scenarios())
def test_every_gpu_second_is_charged_once_and_to_a_possible_cause(data: Scenario) -> None:
    """The ledger closes (or run would raise), nothing is negative, and each bucket has causes that can lead to it."""
    result = _run(data)
    for job in result.jobs:
        rounding = 1e-9 * max(job.requested, 1.0)
        assert job.totals.min(initial=0.0) >= -rounding
        assert job.buckets.sum() == pytest.approx(job.requested, rel=1e-9, abs=1e-9)
        assert job.buckets[sim.Bucket.PRODUCTIVE] == pytest.approx(job.work * job.gpus, rel=1e-9, abs=rounding)
        assert job.at_risk <= job.work + 1e-9 * max(job.work, 1.0)
        without_failure = job.totals.sum(axis=0)[:, 0]
        by_cause = job.totals.sum(axis=0)[:, 1:]
        for bucket in ("DETECTION", "LOST_WORK", "DEGRADED", "STARVED", "RESCHEDULE"):
            assert without_failure[sim.Bucket[bucket]] <= rounding, bucket
        for bucket in ("PRODUCTIVE", "CHECKPOINT_STALL"):
            assert by_cause[sim.Bucket[bucket]].sum() <= rounding, bucket
        innocent = [cause for cause in range(by_cause.shape[1]) if cause + 1 not in job.interruptions]
        assert by_cause[:, innocent].sum() <= rounding
    assert result.outside.min() >= -1e-9 * result.owned
    assert result.cluster.sum() == pytest.approx(result.owned, rel=1e-9)
    assert 0 <= result.down_node_seconds <= result.node_seconds * (1 + 1e-9)


@_examples(100)
@given(scenarios())
def test_ettr_is_scheduling_times_runtime(data: Scenario) -> None:
    """Of each job's requested time, the productive share is the share not spent on nodes times what is made of it."""
    for job in _run(data).jobs:
        shares = job.buckets / job.requested if job.requested else np.zeros(len(job.buckets))
        waiting = sum(shares[sim.Bucket[name]] for name in ("QUEUED", "STARVED", "RESCHEDULE"))
        assert job.waiting_for_nodes == pytest.approx(waiting * job.requested, rel=1e-9, abs=1e-9)
        assert shares.sum() == pytest.approx(1.0 if job.requested else 0.0, abs=1e-9)
        held = job.requested - job.waiting_for_nodes
        if held > 1e-9 * job.requested:
            runtime = job.buckets[sim.Bucket.PRODUCTIVE] / held
            assert shares[sim.Bucket.PRODUCTIVE] == pytest.approx((1 - waiting) * runtime, rel=1e-9, abs=1e-9)
            assert -1e-9 <= runtime <= 1 + 1e-9


@_examples(300)
@given(scenarios(fewest_sources=1))
def test_events_are_conserved(data: Scenario) -> None:
    """Each candidate is suppressed, harmless, masked, outside every job, or a hit; a hit interrupts a job or more."""
    prepared = sim.prepare(sim.parse(data))
    result = sim.run(prepared, 0)
    counts = result.counts
    assert counts["candidates"] == counts["suppressed"] + counts["faults"]
    assert counts["faults"] == counts["harmless"] + counts["failures"]
    assert counts["failures"] == counts["masked"] + counts["outside"] + counts["hits"]
    interruptions = 0
    for job in result.jobs:
        assert sum(job.interruptions.values()) == sum(job.disruptions.values()) + job.merged
        assert all(job.disruptions.get(cause, 0) <= count for cause, count in job.interruptions.items())
        interruptions += sum(job.interruptions.values())
    assert interruptions >= counts["hits"]
    if len(result.jobs) == 1 or {source.part for source in prepared.sources} <= {"node", "gpu", "nic", "job"}:
        assert interruptions == counts["hits"]


# -------------------------------------------------------------------------------------------------------- places


def _check_nodes(simulation: Simulation) -> None:
    """Recount the places of all nodes and compare with what is kept beside them."""
    cluster = simulation.cluster
    places = [cluster.where(node) for node in range(cluster.nodes)]
    assert cluster.idle.count == places.count(Place.IDLE)
    assert cluster.spare.count == places.count(Place.SPARE)
    assert cluster.down.count == sum(outages > 0 for outages in cluster.outages)
    assert sorted(cluster.repairing) == [node for node, place in enumerate(places) if place is Place.REPAIR]
    for node, place in enumerate(places):
        group = cluster.group[node]
        if place in (Place.IDLE, Place.SPARE):
            assert cluster.outages[node] == 0
        elif place is Place.REPAIR:
            assert cluster.outages[node] > 0
        else:
            assert group is not None
            assert cluster.outages[node] == 0 or node in [suspect for suspect, _ in group.suspects]
        if group is not None:
            assert group.job.nodes[cluster.position[node]] == node
            assert cluster.position[node] in _positions(group)
        clock = simulation.lives.nodes.get(node)
        assert clock is None or clock.group is group
    seated = [node for job in simulation.jobs for node in job.nodes if node >= 0]
    assert len(seated) == len(set(seated))


def _positions(group: Group) -> list[int]:
    """Return the positions of the job that belong to a group."""
    job = group.job
    width = job.nodes_per_replica
    if group is not job.main:
        return list(range(group.first, group.first + width))
    away = {replica.first // width for replica in job.away}
    return [position for position in range(job.nodes_needed) if position // width not in away]


def _check_job(job: Job, now: float) -> None:
    """Check that a job, its groups and their positions fit together."""
    groups = [job.main, *job.away]
    assert sum(group.replicas for group in groups) == job.replicas
    for group in groups:
        empty = [position for position in _positions(group) if job.nodes[position] < 0]
        assert sorted(group.missing) == empty
        assert group.since <= now or not job.arrival <= now
        assert job.holding or not group.exposed
        assert not (group.running and group.waiting)
    if job.main.is_running(now):
        assert job.holding or job.finished
        assert not job.main.missing or job.finished
    assert not job.away or job.holding


@_examples(150)
@given(scenarios(fewest_sources=1))
def test_each_node_is_in_exactly_one_place(data: Scenario) -> None:
    """After every event the counts equal a recount, and nodes, positions, groups and clocks point at each other."""
    _check_after_every_event(data)


@_examples(300)
@given(scenarios(fewest_sources=2, recoveries=("full-restart",)))
def test_jobs_that_take_turns_leave_each_node_in_one_place(data: Scenario) -> None:
    """The same for jobs that give their nodes back at every failure and take those of others."""
    _check_after_every_event(data)


def _check_after_every_event(data: Scenario) -> None:
    prepared = sim.prepare(sim.parse(data))
    simulation = Simulation(prepared, 0, sim.trace(prepared, 0))
    while simulation.is_open:
        _check_nodes(simulation)
        for job in simulation.jobs:
            _check_job(job, simulation.kernel.now)
        simulation.kernel.step()


@pytest.mark.parametrize("recovery", ["hot-spare", "full-restart"])
@pytest.mark.parametrize("clock", ["wall", "in_service", "busy"])
def test_the_queue_of_events_does_not_grow_with_time(clock: str, recovery: str) -> None:
    """Four times the horizon has four times the events and no more of them waiting: what is void does not pile up."""
    rare = {"use": "component", "name": "rare", "part": "nic", "clock": clock, "rate": "1 per 10000 nic-day"}
    data = {
        "name": "long",
        "cluster": {"use": "fat-tree", "nodes": 40},
        "jobs": [{"name": "job", "gpus": 304, "work": {"time": "100000 d"}}],
        "failures": [
            {"use": "component", "name": "node", "rate": "1 per node-day"},
            {"use": "job", "name": "software", "rate": "1 per 300 job-day"},
            rare,
        ],
        "detection": {"time": "1 min"},
        "checkpoint": {"tiers": [{"interval": "10 min", "write": "1 min", "restore": "1 min"}]},
        "recovery": {"use": recovery, "initialize": "2 min"},
        "repair": {"time": "30 min"},
        "spares": {"hot": 2},
    }
    most, events = {}, {}
    for days in (10, 40):
        prepared = sim.prepare(sim.parse(data | {"horizon": f"{days} d"}))
        simulation = Simulation(prepared, 0, sim.trace(prepared, 0))
        most[days] = events[days] = 0
        while simulation.is_open:
            simulation.kernel.step()
            events[days] += 1
            most[days] = max(most[days], simulation.kernel.waiting)
    assert events[40] > 3 * events[10] > 3_000
    assert most[40] < most[10] + 10


def test_lives_that_are_due_at_the_same_time_are_told_apart() -> None:
    """Two jobs that take turns on nodes whose busy lives all last 600 s: equal readings of a clock have an order."""
    data = {
        "name": "turns",
        "cluster": {"use": "fat-tree", "nodes": 3, "gpus_per_node": 1, "rails": 1},
        "horizon": "12000 s",
        "jobs": [{"name": "small", "gpus": 1}, {"name": "large", "gpus": 3}],
        "failures": [
            {"use": "component", "name": "node", "clock": "busy", "law": {"law": "fixed", "value": "600 s"}},
            {"use": "job", "name": "software", "law": {"law": "exponential", "mean": "1200 s"}},
        ],
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "30 s", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "full-restart", "initialize": "0 s", "delay": "1 s"},
        "repair": {"time": "0 s"},
    }
    for seed in range(5):
        _check_after_every_event(data | {"seed": seed})


@pytest.mark.parametrize("every", [1, 7])
def test_a_job_that_ends_where_a_save_begins_does_not_wait_for_it(every: int) -> None:
    """Work of k whole intervals takes k intervals and k - 1 saves, whatever the rounding of k times a step."""
    data: Scenario = {
        "name": "whole",
        "cluster": {"use": "fat-tree", "nodes": 2},
        "horizon": "1 d",
        "detection": {"time": "0 s"},
        "checkpoint": {
            "tiers": [{"interval": f"every {every} steps", "mode": "blocking", "write": "3 s", "restore": "0 s"}]
        },
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "repair": {"time": "0 s"},
    }
    for saves in range(150):
        steps = every * (saves + 1)
        job = {"name": "job", "gpus": 16, "step_time": "1.029 s", "work": {"steps": steps}}
        assert _run(data | {"jobs": [job]}).jobs[0].end == pytest.approx(1.029 * steps + 3 * saves, rel=1e-9)


# ------------------------------------------------------------------------------------------- same and different


@_examples(60)
@given(scenarios(fewest_sources=1), st.integers(0, 5))
def test_a_replication_is_repeated_exactly(data: Scenario, replication: int) -> None:
    """The same replication, prepared anew from the dumped scenario, comes out bit by bit the same."""
    scenario = sim.parse(data)
    again = sim.parse(scenario.dump())
    assert again == scenario
    first = sim.run(sim.prepare(scenario), replication)
    second = sim.run(sim.prepare(again), replication)
    assert np.array_equal(first.cluster, second.cluster)
    assert np.array_equal(first.outside, second.outside)
    assert first.counts == second.counts
    assert first.events == second.events
    for one, other in zip(first.jobs, second.jobs, strict=True):
        assert np.array_equal(one.totals, other.totals)
        assert one.interruptions == other.interruptions


@_examples(80)
@given(scenarios(fewest_sources=1))
def test_windows_only_cut_the_tables(data: Scenario) -> None:
    """With windows every bucket and cause sums to what it is without, and each window holds its own length."""
    whole = _run({key: value for key, value in data.items() if key != "windows"})
    horizon = float(data["horizon"].split()[0])
    cut = _run(data | {"windows": f"{horizon / 4.7!r} s"})
    assert cut.counts == whole.counts
    lengths = np.diff(cut.edges)
    assert cut.edges[-1] == pytest.approx(whole.edges[-1], rel=1e-9)
    for one, other in zip(whole.jobs, cut.jobs, strict=True):
        expected = one.totals.sum(axis=0)
        np.testing.assert_allclose(other.totals.sum(axis=0), expected, rtol=1e-9, atol=1e-9 * max(one.requested, 1.0))
        overlap = np.clip(np.minimum(cut.edges[1:], other.end) - np.maximum(cut.edges[:-1], other.arrival), 0, lengths)
        held = other.totals.sum(axis=(1, 2))
        np.testing.assert_allclose(held, other.gpus * overlap, rtol=1e-9, atol=1e-9 * max(one.requested, 1.0))
    np.testing.assert_allclose(cut.cluster, whole.cluster, rtol=1e-9, atol=1e-9 * whole.owned)


@_examples(80)
@given(scenarios(fewest_sources=1), st.floats(1.1, 3.0))
def test_a_longer_horizon_or_a_larger_cluster_keeps_the_failures(data: Scenario, factor: float) -> None:
    """Candidates before the old horizon and of the old parts are the same in a longer or larger simulation."""
    prepared = sim.prepare(sim.parse(data))
    before = sim.trace(prepared, 0)
    end = prepared.warmup + prepared.horizon

    horizon = float(data["horizon"].split()[0])
    longer = sim.trace(sim.prepare(sim.parse(data | {"horizon": f"{factor * horizon!r} s"})), 0)
    early = longer.time < end
    for name in ("time", "source", "slot", "round"):
        assert np.array_equal(getattr(before, name), getattr(longer, name)[early]), name
    assert before.initial == longer.initial

    larger_data = copy.deepcopy(data)
    larger_data["cluster"]["nodes"] *= 2
    larger_data["cluster"]["rack"]["nodes"] = data["cluster"]["rack"]["nodes"]
    larger = sim.prepare(sim.parse(larger_data))
    known = [source.units for source in prepared.sources]
    trace = sim.trace(larger, 0)
    old = np.asarray([slot < known[source] for source, slot in zip(trace.source, trace.slot, strict=True)], dtype=bool)
    for name in ("time", "source", "slot", "round"):
        assert np.array_equal(getattr(before, name), getattr(trace, name)[old]), name


@_examples(100)
@given(scenarios(most_jobs=1, fewest_sources=1))
def test_failures_never_make_a_job_faster(data: Scenario) -> None:
    """One job does no more work than without failures, and ends no earlier; its start-up takes a fixed time.

    With a random one a failure during a slow start-up can help: the next attempt draws anew.
    """
    data = data | {"recovery": data["recovery"] | {"initialize": "100 s"}}
    job = _run(data).jobs[0]
    quiet = _run(data | {"failures": [], "checkpoint": _fixed_interval(data)}).jobs[0]
    assert job.work <= quiet.work * (1 + 1e-9)
    assert job.end >= quiet.end * (1 - 1e-9)


def _fixed_interval(data: Scenario) -> Scenario:
    """Return the checkpoints of a scenario with a rule for the interval replaced by what it came to."""
    prepared = sim.prepare(sim.parse(data))
    checkpoint: Scenario = copy.deepcopy(data["checkpoint"])
    checkpoint["tiers"][0]["interval"] = f"{prepared.jobs[0].checkpoint.interval!r} s"
    return checkpoint


@_examples(60)
@given(scenarios(most_jobs=1, fewest_sources=1))
def test_free_checkpoints_at_every_moment_lose_nothing(data: Scenario) -> None:
    """With free saves every millisecond no failure costs more than a millisecond of work, or a step in flight."""
    tier = {"interval": "1 ms", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    job = _run(data | {"checkpoint": {"tiers": [tier]}}).jobs[0]
    step = float(data["jobs"][0].get("step_time", "0 s").split()[0])
    # With the batch kept, one replica alone takes `data` times as long for a step.
    slowest = max(step, 1e-3) * data["jobs"][0].get("parallelism", {"data": 1})["data"]
    most = sum(job.interruptions.values()) * slowest * job.gpus
    assert job.buckets[sim.Bucket.LOST_WORK] <= most * (1 + 1e-9) + 1e-9 * job.requested
