"""A timeline obeys the rules of its format, and its rows and counters add up to what the ledger says."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import math
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.results.files import write_file
from ettrick.analysis.timeline import STEPPING, chrome_trace, encoded
from ettrick.sim.engine.result import InstantEvent, Milestone, Outages, PhaseSpan, Timeline
from ettrick.sim.policies.contracts import Bucket
from tests import report_sample
from tests.cases import cases, mistake_lines
from tests.harness import prepared, seconds, trace
from tests.typed import present
from tests.unit.test_detection_race import preemption
from tests.unit.test_effects import SHRINK, cause, nodes, slow
from tests.unit.test_engine_stores import HOST, REMOTE, software
from tests.unit.test_job_failures import spike

# ----------------------------------------
# What one replication writes down of itself agrees with its ledger, and writing it down changes nothing.

STEPS = (Bucket.PRODUCTIVE, Bucket.DEGRADED)

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

SLOWLY: dict[str, Any] = {"use": "slow", "factor": 0.6, "heals": "5 min"}

RECOVERIES: dict[str, dict[str, Any]] = {
    "hot-spare": {"use": "hot-spare", "initialize": "30 s", "patience": "2 min", "requeue_delay": "15 s"},
    "full-restart": {"use": "full-restart", "delay": "20 s", "initialize": "30 s"},
    "shrink-rejoin": {**SHRINK, "min_replicas": 2},
    "restart-smaller": {"use": "restart-smaller", "launch": "30 s", "patience": "3 min", "requeue": "20 s"},
    "standby": {"use": "standby", "recovery": "40 s", "selection": "20 s"},
}


def busy(recovery: str) -> sim.Prepared:
    """Return two jobs in a cluster in which something of every kind happens often."""
    life = {"law": {"use": "exponential", "mean": "40 min"}}
    away = {"use": "uniform", "low": "1 min", "high": "3 min"}
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
        detection={"time": {"use": "exponential", "mean": "20 s"}},
        repair={"time": {"use": "exponential", "mean": "300 s"}},
        spares={"hot": 1},
        recovery=RECOVERIES[recovery],
    )


@cache
def played(recovery: str, replication: int) -> tuple[sim.Prepared, sim.Result]:
    """Return such a case, and a replication of it with its timeline."""
    one = busy(recovery)
    return one, sim.run(one, replication, keeps_timeline=True)


def spans_of(result: sim.Result, job: int) -> dict[int, list[PhaseSpan]]:
    """Return the spans of a job by group."""
    found: dict[int, list[PhaseSpan]] = defaultdict(list)
    for span in present(result.timeline).spans:
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
        stepped = sum(found[bucket] for bucket in (*STEPS, Bucket.CHECKPOINT_STALL))
        assert stepped == pytest.approx(sum(ledger[bucket] for bucket in WHILE_STEPPING), abs=1e-6)
        assert set(found) <= {*WAITING, *STEPS, Bucket.CHECKPOINT_STALL}


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
    marks = present(result.timeline).marks
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
    for index, job in enumerate(result.jobs):
        mine = [milestone for milestone in present(result.timeline).milestones if milestone.job == index]
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
        buckets |= {span.bucket for span in result.timeline.spans}
        groups |= {span.group for span in result.timeline.spans}
        assert sum(result.jobs[0].interruptions.values()) > 10
    assert {*WAITING, *STEPS, Bucket.CHECKPOINT_STALL} - {Bucket.MAINTENANCE} <= buckets
    assert max(groups) >= 4


def test_a_crash_by_hand() -> None:
    """A job that fails at 300 s and is known to have at 310 s, with a node that is there at 500 s."""
    one = prepared(failures=[cause("crash")], cluster=nodes(2), detection={"time": "10 s"}, warmup="50 s")
    timeline = present(sim.run(one, 0, trace([(350, 0, 1, 550)]), keeps_timeline=True).timeline)
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
    timeline = present(sim.run(one, 0, trace([(300, 0, 0)]), keeps_timeline=True).timeline)
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
    assert len(result.timeline.marks) == sum(result.jobs[0].interruptions.values()) == 2
    spread = prepared(
        failures=[cause("crash"), {**cause("rack"), "part": "rack"}],
        jobs=jobs,
        cluster={**nodes(6, rack=3)},
        recovery={**SHRINK, "initialize": "200 s"},
    )
    # Rack 0 holds nodes 0, 1 and 2: of the replica that is away, and of the other one.
    result = sim.run(spread, 0, trace(rows), keeps_timeline=True)
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert len(present(result.timeline).marks) == 2


def test_planned_saves_are_waited_for() -> None:
    """A save before a job gives its nodes back is a span of its own, and what a spike takes back is none."""
    one = prepared(failures=[preemption(notice="1 min"), spike()])
    result = sim.run(one, 0, trace([(300, 0, 0), (600, 1, 0)]), keeps_timeline=True)
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
    timeline = present(sim.run(one, 0, trace([(300, 0, 1), (400, 0, 0)]), keeps_timeline=True).timeline)
    assert [(mark.time, mark.job) for mark in timeline.marks] == [(300.0, 1), (400.0, 0)]


DONE, WRONG = 0, 2

ELASTIC: dict[str, Any] = {
    "jobs": [
        {
            "name": "train",
            "gpus": 112,
            "step_time": "10 s",
            "batch": {"tokens": "7 Mi", "sequence": 8192},
            "parallelism": {"tensor": 8, "pipeline": 2, "data": 7},
        }
    ],
    "recovery": {"use": "shrink-rejoin", "reconfigure": "1 min", "initialize": "5 min", "rejoin": "20 s"},
}

TWO = [{**report_sample.SMALL["jobs"][0], "name": name, "gpus": gpus} for name, gpus in (("one", 56), ("two", 48))]

SCENARIOS: dict[str, dict[str, Any]] = {
    "rigid": {},
    "requeued": {"recovery": {"use": "full-restart", "initialize": "3 min"}},
    "elastic": ELASTIC,
    "two elastic jobs": {
        **ELASTIC,
        "jobs": [
            {**ELASTIC["jobs"][0], "name": name, "gpus": 48, "parallelism": {"tensor": 8, "pipeline": 2, "data": 3}}
            for name in ("one", "two")
        ],
    },
    "warm-up": {"warmup": "1 d"},
    "two jobs": {"jobs": TWO},
    "late": {"jobs": [{**report_sample.SMALL["jobs"][0], "arrival": "1 d"}]},
    "finished": {"jobs": [{**report_sample.SMALL["jobs"][0], "work": {"time": "20 h"}}]},
    "domains": {
        "jobs": [{**report_sample.SMALL["jobs"][0], "gpus": 64}],
        "spares": {"hot": 4},
        "cluster": {
            "name": "domains",
            "nodes": 16,
            "gpus_per_node": 8,
            "scale_up": {"gpus": 32},
            "rack": {"nodes": 4},
            "fabric": {"rails": 8},
        },
    },
}


def written_down(**changes: Any) -> tuple[sim.Prepared, sim.Result]:
    """Return a scenario and its first replication with everything that is written down."""
    prepared = report_sample.prepare(**changes)
    return prepared, sim.run(prepared, 0, keeps_log=True, keeps_timeline=True)


def by_hand() -> tuple[sim.Prepared, sim.Result]:
    """Return an elastic scenario with a timeline made by hand: replica 2 is away from 100 s to 400 s."""
    prepared, result = written_down(**ELASTIC, failures=[])
    timeline = Timeline(
        spans=(
            PhaseSpan(0, 0, Bucket.INITIALIZE, 0.0, 30.0, 0),
            PhaseSpan(0, 0, Bucket.PRODUCTIVE, 30.0, 100.0, 0),
            PhaseSpan(0, 0, Bucket.DETECTION, 100.0, 120.0, 1),
            PhaseSpan(0, 0, Bucket.DEGRADED, 120.0, 400.0, 1),
            PhaseSpan(0, 0, Bucket.RESCHEDULE, 400.0, 410.0, 1, "rejoin"),
            PhaseSpan(0, 0, Bucket.PRODUCTIVE, 410.0, 1000.0000004, 0),
            PhaseSpan(0, 3, Bucket.STARVED, 100.0, 250.0, 1),
            PhaseSpan(0, 3, Bucket.INITIALIZE, 250.0, 400.0, 1),
            PhaseSpan(0, 3, Bucket.RESTORE, 400.0, 400.0000001, 1),
        ),
        marks=(
            InstantEvent(100.0, "failure", 0, 5, 1, "node"),
            InstantEvent(120.0, "detected", 0),
            InstantEvent(500.0, "power", -1, 7),
        ),
        milestones=(Milestone(100.0, 0, 70.0), Milestone(100.0, 0, 60.0), Milestone(1000.0, 0, 900.0)),
    )
    # Causes are those of the scenario with failures.
    prepared = dataclasses.replace(prepared, sources=report_sample.prepare().sources)
    outages = Outages([(5, 100.0, 900.0, 1), (6, -50.0, 300.0, 1), (5, 950.0, 1000.0, 1)])
    return prepared, dataclasses.replace(result, timeline=timeline, outages=outages, edges=np.array([0.0, 1000.0]))


def check_format(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Check a document against the rules of the Trace Event Format that viewers rely on; return its events."""
    events: list[dict[str, Any]] = content["traceEvents"]
    json.dumps(content, allow_nan=False)
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    for event in events:
        assert isinstance(event["name"], str)
        assert event["ph"] in ("M", "X", "C", "i")
        assert type(event["pid"]) is int
        assert event["pid"] > 0
        assert type(event["ts"]) is int
        assert event["ts"] >= 0
        if event["ph"] == "M" and event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
        if event["ph"] == "C":
            assert event["args"]
            assert all(type(value) in (int, float) and math.isfinite(value) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
    assert len({thread for _, thread in threads}) == len(threads)
    assert all(pid in processes for pid, _ in threads)
    assert len(set(processes.values())) == len(processes)
    told = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in told] == sorted(event["ts"] for event in told)
    assert events[: len(events) - len(told)] == [event for event in events if event["ph"] == "M"]
    rows: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in told:
        assert event["pid"] in processes
        if event["ph"] in ("X", "i"):
            assert (event["pid"], event["tid"]) in threads
        if event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] > 0
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    return events


def gpu_seconds(timeline: Timeline, job: int, gpus: int, replicas: int) -> Any:
    """Return the GPU-time of a job by the bucket of its spans, shape (12,) [GPU s].

    A replica that is away has ``gpus / replicas`` GPUs, the main group those of all others at the time.
    """
    totals = np.zeros(len(sim.JOB_BUCKETS))
    mine = [span for span in timeline.spans if span.job == job]
    away = [span for span in mine if span.group]
    for span in mine:
        totals[span.bucket] += (span.end - span.start) * gpus / (replicas if span.group else 1)
        if not span.group:
            shared = (min(span.end, other.end) - max(span.start, other.start) for other in away)
            totals[span.bucket] -= sum(max(seconds, 0.0) for seconds in shared) * gpus / replicas
    return totals


def counter(events: list[dict[str, Any]], name: str, pid: int) -> list[tuple[int, float]]:
    """Return times [us] and values of a counter."""
    found = [event for event in events if event["ph"] == "C" and event["name"] == name and event["pid"] == pid]
    return [(event["ts"], next(iter(event["args"].values()))) for event in found]


def integral(values: list[tuple[int, float]], end: float) -> float:
    """Return the integral over time [s] of a counter from its first value to an end [s]."""
    times = [time / 1e6 for time, _ in values] + [end]
    return sum(value * (times[index + 1] - times[index]) for index, (_, value) in enumerate(values))


def pid_of(events: list[dict[str, Any]], name: str) -> int:
    """Return the number of a process."""
    return next(int(event["pid"]) for event in events if event["ph"] == "M" and event["args"].get("name") == name)


def test_timeline_by_hand_obeys_the_format() -> None:
    """Spans, marks, outages and counters of a timeline made by hand are events as the format wants them."""
    check_format(chrome_trace(*by_hand()))


def test_spans_become_rows_by_hand() -> None:
    """The main group and the replica that was away have a row each; phases have their bucket, cause and time."""
    events = chrome_trace(*by_hand())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X" and event["cat"] != "outage"]
    main = [event for event in spans if names[event["tid"]] == "in step"]
    away = [event for event in spans if names[event["tid"]] == "replica 2 away"]
    assert [event["name"] for event in main] == ["initialize", "step", "detection", "step slowly", "rejoin", "step"]
    assert [event["name"] for event in away] == ["starved", "initialize"]
    assert [event["args"]["cause"] for event in main[:3]] == ["no_failure", "no_failure", "node"]
    assert (away[0]["ts"], away[0]["dur"]) == (100_000_000, 150_000_000)
    assert main[-1]["ts"] + main[-1]["dur"] == 1_000_000_000


def test_outages_become_rows_of_nodes_in_their_racks() -> None:
    """Each node that was down is a row of its rack; what was before time zero is cut off."""
    prepared, result = by_hand()
    events = chrome_trace(prepared, result)["traceEvents"]
    racks = report_sample.parse().cluster.build().domains["rack"]  # type: ignore[attr-defined]
    rows = {event["args"]["name"]: event for event in events if event["name"] == "thread_name"}
    assert [name for name in rows if name.startswith("node")] == ["node 5", "node 6"]
    for node in (5, 6):
        assert rows[f"node {node}"]["pid"] == pid_of(events, f"rack {racks[node]}")
    down = [event for event in events if event.get("cat") == "outage"]
    found = [(event["args"]["node"], event["ts"], event["ts"] + event["dur"], event["name"]) for event in down]
    second = 1_000_000
    assert found == [
        (6, 0, 300 * second, "node"),
        (5, 100 * second, 900 * second, "node"),
        (5, 950 * second, 1000 * second, "node"),
    ]


def test_counters_by_hand() -> None:
    """One node is down from the start, two from 100 s; six of seven replicas step while one is away."""
    prepared, result = by_hand()
    events = chrome_trace(prepared, result)["traceEvents"]
    second = 1_000_000
    job = pid_of(events, "job train")
    assert counter(events, "nodes down", pid_of(events, "cluster")) == [
        (0, 1), (100 * second, 2), (300 * second, 1), (900 * second, 0), (950 * second, 1),
    ]  # fmt: skip
    replicas = [(0, 0), (30, 7), (100, 0), (120, 6), (400, 0), (410, 7), (1000, 0)]
    assert counter(events, "replicas stepping", job) == [(time * second, number) for time, number in replicas]
    assert counter(events, "GPUs stepping", job) == [(time * second, 16 * number) for time, number in replicas]
    tokens = counter(events, "tokens", job)
    per_second = 7 * 2**20 / 10
    assert [value for _, value in tokens] == pytest.approx([70 * per_second, 60 * per_second, 900 * per_second])


def test_marks_are_instant_events() -> None:
    """What hits a job is drawn over its rows, what hits none over the cluster's; node, cause and text are told."""
    events = chrome_trace(*by_hand())["traceEvents"]
    marks = [event for event in events if event["ph"] == "i"]
    assert [event["name"] for event in marks] == ["failure: node", "detected", "power"]
    assert marks[0]["args"] == {"cause": "node", "node": 5, "text": "node"}
    assert [event["pid"] for event in marks] == [pid_of(events, "job train")] * 2 + [pid_of(events, "cluster")]


def test_gpu_seconds_by_hand() -> None:
    """Of 112 GPUs in 7 replicas 16 are away for 300 s: the rest of the time is the main group's, and the sum is all."""
    _, result = by_hand()
    totals = gpu_seconds(present(result.timeline), 0, 112, 7)
    assert totals.sum() == pytest.approx(112 * 1000.0)
    assert totals[Bucket.STARVED] == pytest.approx(16 * 150)
    assert totals[Bucket.INITIALIZE] == pytest.approx(112 * 30 + 16 * 150)
    assert totals[Bucket.DETECTION] == pytest.approx(96 * 20)
    assert totals[Bucket.DEGRADED] == pytest.approx(96 * 280)


def test_a_file_is_compressed_by_its_name_and_the_same_each_time(tmp_path: Path) -> None:
    """The bytes for a .gz are those of the document, compressed, and hold no date."""
    content = chrome_trace(*by_hand())
    packed, plain = (encoded(content, tmp_path / name) for name in ("run.json.gz", "run.json"))
    assert gzip.decompress(packed) == plain
    assert json.loads(plain) == content
    assert packed == encoded(content, tmp_path / "other.json.gz")
    assert packed[4:8] == bytes(4)


@cases("name", SCENARIOS)
def test_timeline_of_the_engine_obeys_the_format(name: str) -> None:
    """Whatever a scenario does, its timeline is well formed and ends with the accounting window."""
    prepared, result = written_down(**SCENARIOS[name])
    events = check_format(chrome_trace(prepared, result))
    used = {event["tid"] for event in events if event["ph"] == "X"}
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {name for tid, name in named.items() if tid not in used} == {"events"}
    last = max(event["ts"] + event.get("dur", 0) for event in events)
    assert last <= round(float(result.edges[-1]) * 1e6)


@cases("name", SCENARIOS)
def test_counters_add_up(name: str) -> None:
    """Nodes down over time are the node-seconds of outages, GPUs that step the time of stepping, tokens those kept."""
    prepared, result = written_down(**SCENARIOS[name])
    events = chrome_trace(prepared, result)["traceEvents"]
    end = float(result.edges[-1])
    down = integral(counter(events, "nodes down", pid_of(events, "cluster")), end)
    assert down == pytest.approx(result.down_node_seconds, rel=1e-6)
    stepping = [*STEPPING, Bucket.LOST_WORK, Bucket.CHECKPOINT_STALL, Bucket.AUXILIARY]
    for plan, job in zip(prepared.jobs, result.jobs, strict=True):
        pid = pid_of(events, f"job {plan.name}")
        values = counter(events, "GPUs stepping", pid)
        assert integral(values, job.end) == pytest.approx(job.buckets[stepping].sum(), rel=1e-6)
        tokens = counter(events, "tokens", pid)
        assert bool(tokens) == bool(plan.tokens_per_second)
        if tokens:
            assert tokens[-1][1] == pytest.approx(job.work * plan.tokens_per_second)


def test_nodes_are_in_their_scale_up_domains() -> None:
    """Where several nodes make a scale-up domain, they are shown by it and not by rack."""
    names = [
        event["args"]["name"]
        for event in chrome_trace(*written_down(**SCENARIOS["domains"]))["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert any(name.startswith("scale-up domain ") for name in names)
    assert not any(name.startswith("rack ") for name in names)


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the small scenario, in an empty working folder."""
    return report_sample.write(tmp_path, monkeypatch)


def call(*arguments: str) -> Any:
    """Run the command in this process."""
    return report_sample.call("trace", *arguments)


def test_command_writes_one_replication(scenario: str) -> None:
    """The file is there and nothing else, well formed, of the replication and with the values that were asked for."""
    result = call(scenario, "-o", "run.json.gz", "--replication", "2", "--seed", "5", "--set", "horizon=1 d")
    assert (result.exit_code, result.stdout, result.stderr) == (DONE, "", "")
    assert sorted(path.name for path in Path().iterdir()) == ["run.json.gz", "small.yaml"]
    content = json.loads(gzip.decompress(Path("run.json.gz").read_bytes()))
    check_format(content)
    told = content["otherData"]
    assert (told["scenario"], told["replication"], told["seed"]) == ("small", 2, 5)
    assert {"step", "wait", "outage", "event"} <= {event.get("cat") for event in content["traceEvents"]}
    call(scenario, "-o", "run.json", "--replication", "2", "--seed", "5", "--set", "horizon=1 d")
    assert json.loads(Path("run.json").read_text()) == content
    refused = call(scenario, "-o", "run.json", "--replication", "3", "--seed", "5", "--set", "horizon=1 d")
    assert (refused.exit_code, "--overwrite" in refused.stderr) == (WRONG, True)
    call(scenario, "-o", "run.json", "--replication", "3", "--seed", "5", "--set", "horizon=1 d", "--overwrite")
    assert json.loads(Path("run.json").read_text()) != content


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-o", "."], "--out .: is a folder, not a file"),
        (["-o", "missing/run.json"], "--out missing/run.json: cannot be written"),
        (["-o", "run.json", "--set", "horizn=1 d"], "did you mean 'horizon'?"),
    ],
)
def test_what_cannot_be_written_is_one_line(scenario: str, arguments: list[str], part: str) -> None:
    """A folder, a folder that is not there, a wrong value: status 2, one line, and no file."""
    result = call(scenario, *arguments)
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert len(mistake_lines(result.stderr)) == 1
    assert part in result.stderr
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a pipe", "circle of links"])
def test_nothing_but_a_file_is_replaced(scenario: str, kind: str) -> None:
    """Pipes, devices and links that lead to one or nowhere stay what they are: status 2 and one line."""
    os.mkfifo("pipe")
    Path("out.json").symlink_to("out.json" if "circle" in kind else "pipe")
    out = {"pipe": "pipe", "device": "/dev/null"}.get(kind, "out.json")
    before = Path(out).lstat()
    result = call(scenario, "-o", out)
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert result.stderr == f"--out {out}: is not a regular file\n"
    assert Path(out).lstat().st_ino == before.st_ino
    assert write_file(Path(out), b"") == "is not a regular file"
    assert sorted(path.name for path in Path().iterdir()) == ["out.json", "pipe", "small.yaml"]


@pytest.mark.parametrize("there", [True, False])
def test_links_are_followed(scenario: str, *, there: bool) -> None:
    """Behind links the file that they lead to is written, whether it is there already or not; the links stay."""
    Path("elsewhere").mkdir()
    target = Path("elsewhere/run.json")
    if there:
        target.write_text("old")
    Path("elsewhere/link").symlink_to("run.json")
    Path("out.json").symlink_to("elsewhere/link")
    assert call(scenario, "-o", "out.json", "--set", "horizon=1 d").exit_code == (WRONG if there else DONE)
    assert call(scenario, "-o", "out.json", "--set", "horizon=1 d", "--overwrite").exit_code == DONE
    assert (Path("out.json").is_symlink(), Path("elsewhere/link").is_symlink()) == (True, True)
    assert not target.is_symlink()
    check_format(json.loads(target.read_text()))
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == ["link", "run.json"]
