"""What one replication writes down of itself agrees with its ledger, and writing it down changes nothing."""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import prepared, seconds, trace
from tests.unit.test_effects import SHRINK, cause, nodes, slow
from tests.unit.test_engine_damage import HOST, REMOTE, software
from tests.unit.test_engine_loss_spike import spike
from tests.unit.test_engine_notice import preemption

if TYPE_CHECKING:
    from sim.engine.result import Span

STEPPING = (Bucket.PRODUCTIVE, Bucket.DEGRADED)
WAITING = (
    Bucket.DETECTION,
    Bucket.RESCHEDULE,
    Bucket.INITIALIZE,
    Bucket.RESTORE,
    Bucket.STARVED,
    Bucket.QUEUED,
    Bucket.MAINTENANCE,
)
WHILE_STEPPING = (Bucket.PRODUCTIVE, Bucket.DEGRADED, Bucket.LOST_WORK, Bucket.CHECKPOINT_STALL, Bucket.AUXILIARY)

SLOWLY: dict[str, Any] = {"kind": "slow", "factor": 0.6, "heals": "5 min"}
RECOVERIES: dict[str, dict[str, Any]] = {
    "hot-spare": {"use": "hot-spare", "initialize": "30 s", "patience": "2 min", "requeue_delay": "15 s"},
    "full-restart": {"use": "full-restart", "delay": "20 s", "initialize": "30 s"},
    "shrink-rejoin": {**SHRINK, "min_replicas": 2},
    "restart-smaller": {"use": "restart-smaller", "launch": "30 s", "patience": "3 min", "requeue": "20 s"},
    "standby": {"use": "standby", "recovery": "40 s", "selection": "20 s"},
}


def busy(recovery: str) -> sim.Prepared:
    """Return two jobs in a cluster in which something of every kind happens often."""
    life = {"law": {"law": "exponential", "mean": "40 min"}}
    away = {"law": "uniform", "low": "1 min", "high": "3 min"}
    sources = [
        {"use": "component", "name": "node", "part": "node", "rate": "1 per node-h"},
        {"use": "component", "name": "rack", "part": "rack", "rate": "8 per rack-d", "repair": "100 s"},
        {"use": "component", "name": "slow", "part": "node", "rate": "4 per node-d", "effect": SLOWLY},
        {"use": "component", "name": "wrong", "part": "node", "rate": "4 per node-d", "effect": "corrupt"}
        | {"detection": "4 min"},
        {"use": "job", "name": "software", **life, "store_out": "2 min", "fault": "storage"},
        {"use": "loss-spike", "name": "spike", **life, "rewind": "1 min", "detection": "2 min"},
        {"use": "preemption", "name": "preempted", **life, "away": away, "notice": "1 min"},
    ]
    tensor = {"parallelism": {"data": 4, "tensor": 2}}
    series = [{"name": "evaluation", "every": "70 s", "time": "4 s"}]
    return prepared(
        cluster={"nodes": 13, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        horizon="9000 s",
        warmup="500 s",
        windows="1300 s",
        jobs=[
            {"name": "a", "gpus": 8, "step_time": "3 s", **tensor, "periodic": series},
            {"name": "b", "gpus": 4, "step_time": "3 s", "parallelism": {"data": 4}, "arrival": "10 min"}
            | {"work": {"time": "3000 s"}},
        ],
        failures=sources,
        checkpoint={"tiers": [{**HOST, "every_replica": True}, REMOTE]},
        detection={"time": {"law": "exponential", "mean": "20 s"}},
        repair={"time": {"law": "exponential", "mean": "300 s"}},
        spares={"hot": 1},
        recovery=RECOVERIES[recovery],
    )


@cache
def played(recovery: str, replication: int) -> tuple[sim.Prepared, sim.Result]:
    """Return such a case, and a replication of it with its timeline."""
    one = busy(recovery)
    return one, sim.run(one, replication, keeps_timeline=True)


def spans_of(result: sim.Result, job: int) -> dict[int, list[Span]]:
    """Return the spans of a job by group."""
    assert result.timeline is not None
    found: dict[int, list[Span]] = defaultdict(list)
    for span in result.timeline.spans:
        if span.job == job:
            found[span.group].append(span)
    return found


def by_bucket(result: sim.Result, job: int, replicas: int) -> dict[int, float]:
    """Return the seconds of the whole gang by bucket: a group has the share of its replicas.

    The main group has all but those that are away, each of which is a group with spans as long as it is away.
    """
    spans = spans_of(result, job)
    away = [(span.start, span.end) for group, rows in spans.items() if group for span in rows]
    total: dict[int, float] = defaultdict(float)
    for group, rows in spans.items():
        for span in rows:
            length = span.end - span.start
            if group:
                total[span.bucket] += length / replicas
                continue
            absent = sum(max(min(end, span.end) - max(start, span.start), 0.0) for start, end in away)
            total[span.bucket] += length - absent / replicas
    return total


CASES = list(itertools.product(RECOVERIES, range(3)))


@cases(("recovery", "replication"), CASES)
def test_spans_add_up_to_the_ledger(recovery: str, replication: int) -> None:
    """Waiting bucket by bucket; stepping to what is made of it, with the saves and the work that stop it."""
    one, result = played(recovery, replication)
    for index, job in enumerate(result.jobs):
        found = by_bucket(result, index, one.jobs[index].replicas)
        ledger = job.buckets / job.gpus
        for bucket in WAITING:
            assert found[bucket] == pytest.approx(ledger[bucket], abs=1e-6), bucket.name
        stepped = sum(found[bucket] for bucket in (*STEPPING, Bucket.CHECKPOINT_STALL))
        assert stepped == pytest.approx(sum(ledger[bucket] for bucket in WHILE_STEPPING), abs=1e-6)
        assert set(found) <= {*WAITING, *STEPPING, Bucket.CHECKPOINT_STALL}


@cases(("recovery", "replication"), CASES)
def test_spans_by_cause_add_up_to_the_ledger(recovery: str, replication: int) -> None:
    """Of a job without replicas that leave, waiting is charged to the same causes."""
    one, result = played(recovery, replication)
    for index, job in enumerate(result.jobs):
        if one.jobs[index].replicas > 1:
            continue
        table = job.totals.sum(axis=0) / job.gpus
        found = np.zeros_like(table)
        for span in spans_of(result, index)[0]:
            found[span.bucket, span.cause] += span.end - span.start
        np.testing.assert_allclose(found[list(WAITING)], table[list(WAITING)], atol=1e-6)


@cases(("recovery", "replication"), CASES)
def test_a_group_does_one_thing_at_a_time(recovery: str, replication: int) -> None:
    """Spans follow one another, those of the main group without a gap from arrival to end."""
    _, result = played(recovery, replication)
    for index, job in enumerate(result.jobs):
        spans = spans_of(result, index)
        for rows in spans.values():
            assert all(span.end > span.start for span in rows)
            assert all(first.end <= second.start for first, second in itertools.pairwise(rows))
        main = spans[0]
        assert main[0].start == pytest.approx(job.arrival, abs=1e-9)
        assert main[-1].end == pytest.approx(job.end, abs=1e-9)
        assert all(first.end == second.start for first, second in itertools.pairwise(main))


@cases(("recovery", "replication"), CASES)
def test_each_interruption_is_marked(recovery: str, replication: int) -> None:
    """As many marks as interruptions, of each job and cause, in order and with the name of the cause."""
    one, result = played(recovery, replication)
    assert result.timeline is not None
    marks = result.timeline.marks
    assert all(first.time <= second.time for first, second in itertools.pairwise(marks))
    for index, job in enumerate(result.jobs):
        mine = [mark.cause for mark in marks if mark.job == index and mark.kind == "failure"]
        assert {each: mine.count(each) for each in set(mine)} == dict(job.interruptions)
    for mark in marks:
        if mark.kind == "failure":
            assert mark.text == one.sources[mark.cause - 1].name


@cases(("recovery", "replication"), CASES)
def test_milestones_end_at_the_work_of_the_job(recovery: str, replication: int) -> None:
    """They are in order, never negative, and grow no faster than time."""
    _, result = played(recovery, replication)
    assert result.timeline is not None
    for index, job in enumerate(result.jobs):
        mine = [milestone for milestone in result.timeline.milestones if milestone.job == index]
        assert mine[-1].work == pytest.approx(job.work, abs=1e-6)
        for first, second in itertools.pairwise(mine):
            assert first.time <= second.time
            assert second.work - first.work <= (second.time - first.time) * (1 + 1e-9) + 1e-6
            assert second.work >= 0


@cases(("recovery", "replication"), CASES)
def test_to_write_it_down_changes_nothing(recovery: str, replication: int) -> None:
    """The same result, bit by bit, as of a run that nobody looks at."""
    one, result = played(recovery, replication)
    plain = sim.run(one, replication)
    assert plain.timeline is None
    assert np.array_equal(plain.cluster, result.cluster)
    assert np.array_equal(plain.outside, result.outside)
    assert plain.counts == result.counts
    assert plain.events == result.events
    for first, second in zip(plain.jobs, result.jobs, strict=True):
        assert np.array_equal(first.totals, second.totals)
        assert (first.work, first.steps, first.end) == (second.work, second.steps, second.end)
        assert (first.interruptions, first.restores, first.accepted) == (
            second.interruptions,
            second.restores,
            second.accepted,
        )


def test_these_cases_are_not_quiet() -> None:
    """In them every kind of waiting occurs, jobs step slowly, and replicas are away."""
    buckets: set[int] = set()
    groups = set()
    for recovery, replication in CASES:
        _, result = played(recovery, replication)
        assert result.timeline is not None
        buckets |= {span.bucket for span in result.timeline.spans}
        groups |= {span.group for span in result.timeline.spans}
        assert sum(result.jobs[0].interruptions.values()) > 10
    assert {*WAITING, *STEPPING, Bucket.CHECKPOINT_STALL} - {Bucket.MAINTENANCE} <= buckets
    assert max(groups) >= 4


# ------------------------------------------------------------------------------------------------------ by hand


def test_a_crash_by_hand() -> None:
    """A job that fails at 300 s and is known to have at 310 s, with a node that is there at 500 s."""
    one = prepared(failures=[cause("crash")], cluster=nodes(2), detection={"time": "10 s"}, warmup="50 s")
    timeline = sim.run(one, 0, trace([(350, 0, 1, 550)]), keeps_timeline=True).timeline
    assert timeline is not None
    rows = [(Bucket(span.bucket).name, span.start, span.end, span.cause) for span in timeline.spans]
    assert rows == [
        ("INITIALIZE", 0.0, 30.0, 0),
        ("PRODUCTIVE", 30.0, 300.0, 0),
        ("DETECTION", 300.0, 310.0, 1),
        ("STARVED", 310.0, 500.0, 1),
        ("INITIALIZE", 500.0, 530.0, 1),
        ("RESTORE", 530.0, 550.0, 1),
        ("PRODUCTIVE", 550.0, 1000.0, 0),
    ]
    assert [(mark.time, mark.kind, mark.job, mark.cause, mark.text) for mark in timeline.marks] == [
        (300.0, "failure", 0, 1, "crash")
    ]
    assert [tuple(milestone) for milestone in timeline.milestones] == [
        (0.0, 0, 0.0),
        (300.0, 0, 250.0),
        (310.0, 0, 200.0),
        (1000.0, 0, 610.0),
    ]


def test_a_slow_node_by_hand() -> None:
    """While a node is slow the job steps degraded, for the reason of that node."""
    one = prepared(failures=[slow(0.5, heals="200 s")])
    timeline = sim.run(one, 0, trace([(300, 0, 0)]), keeps_timeline=True).timeline
    assert timeline is not None
    rows = [(Bucket(span.bucket).name, span.start, span.end, span.cause) for span in timeline.spans]
    assert rows == [
        ("INITIALIZE", 0.0, 30.0, 0),
        ("PRODUCTIVE", 30.0, 300.0, 0),
        ("DEGRADED", 300.0, 500.0, 1),
        ("PRODUCTIVE", 500.0, 1000.0, 0),
    ]


def test_one_failure_of_two_groups_is_one_mark() -> None:
    """A rack takes a node of a replica that is away and one of the others: one failure, one interruption, one mark."""
    rack = {**cause("rack"), "part": "rack"}
    jobs = [{"name": "job", "gpus": 4, "parallelism": {"data": 2, "tensor": 2}}]
    one = prepared(
        failures=[cause("crash"), rack],
        jobs=jobs,
        cluster={**nodes(6, rack=2)},
        recovery={**SHRINK, "initialize": "200 s"},
    )
    # Nodes 0 and 4 are a replica after the swap; rack 0 holds nodes 0 and 1.
    rows = [(400.0, 0, 1), (500.0, 1, 0)]
    result = sim.run(one, 0, trace(rows), keeps_timeline=True)
    assert result.timeline is not None
    assert len(result.timeline.marks) == sum(result.jobs[0].interruptions.values()) == 2
    spread = prepared(
        failures=[cause("crash"), {**cause("rack"), "part": "rack"}],
        jobs=jobs,
        cluster={**nodes(6, rack=3)},
        recovery={**SHRINK, "initialize": "200 s"},
    )
    # Rack 0 holds nodes 0, 1 and 2: of the replica that is away, and of the other one.
    result = sim.run(spread, 0, trace(rows), keeps_timeline=True)
    assert result.timeline is not None
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert len(result.timeline.marks) == 2


def test_planned_saves_are_waited_for() -> None:
    """A save before a job gives its nodes back is a span of its own, and what a spike takes back is none."""
    one = prepared(failures=[preemption(notice="1 min"), spike()])
    result = sim.run(one, 0, trace([(300, 0, 0), (600, 1, 0)]), keeps_timeline=True)
    assert result.timeline is not None
    saves = [span for span in result.timeline.spans if span.bucket == Bucket.CHECKPOINT_STALL]
    assert [(span.start, span.end, span.cause) for span in saves] == [(300.0, 310.0, 1)]
    assert seconds(result)["lost_work"] > 0
    assert not [span for span in result.timeline.spans if span.bucket == Bucket.LOST_WORK]
    works = [milestone.work for milestone in result.timeline.milestones]
    assert any(later < earlier for earlier, later in itertools.pairwise(works)), "the rollback shows in the milestones"


def test_software_that_fails_is_marked_with_its_job() -> None:
    """Each mark belongs to the job that was hit."""
    jobs = [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 1}]
    one = prepared(failures=[software()], jobs=jobs)
    timeline = sim.run(one, 0, trace([(300, 0, 1), (400, 0, 0)]), keeps_timeline=True).timeline
    assert timeline is not None
    assert [(mark.time, mark.job) for mark in timeline.marks] == [(300.0, 1), (400.0, 0)]
