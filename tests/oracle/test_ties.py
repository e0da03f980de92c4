"""What happens when several things are due at one time, worked out by hand; random ties are those of `test_rigid`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick import sim
from tests.cases import cases
from tests.harness import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

Failures = list[tuple[float, int]]

QUIET: dict[str, Any] = {
    "name": "quiet",
    "cluster": {"nodes": 2},
    "horizon": "200 s",
    "jobs": [{"name": "job", "gpus": 16}],
    "failures": [{"use": "component", "name": "node", "rate": "1 per node-day"}],
    "checkpoint": {"tiers": [{"interval": "100 s", "restore": "5 s", "mode": "blocking", "write": "10 s"}]},
    "detection": {"time": "0 s"},
    "recovery": {"use": "hot-spare", "initialize": "20 s"},
    "repair": {"time": "0 s"},
}

"""Without failures: initialize to 20 s, step to 120 s, save to 130 s, step to the horizon at 200 s."""


def amounts_of(data: dict[str, Any], rows: Sequence[tuple[float, int, int]]) -> dict[str, float]:
    """Return the seconds of the job by bucket, its counts and its end, for failures (time, source, node)."""
    job = sim.run(sim.prepare(sim.parse(data)), 0, trace(rows)).jobs[0]
    amounts = {name: float(seconds) / job.gpus for name, seconds in zip(sim.JOB_BUCKETS, job.buckets, strict=True)}
    counts = {"interruptions": sum(job.interruptions.values()), "disruptions": sum(job.disruptions.values())}
    return amounts | counts | {"end": job.end}


class Tie(NamedTuple):
    """A coincidence, and what must come of it; `changes` are made to the plain scenario, failures are of 2 nodes."""

    failures: Failures
    changes: dict[str, Any]
    expected: dict[str, float]


TIES = {
    "failure at the end of a save: the save is durable": Tie(
        [(130.0, 0)],
        {},
        {"productive": 145.0, "checkpoint_stall": 10.0, "initialize": 40.0, "restore": 5.0, "lost_work": 0.0},
    ),
    "failure at the start of a save: everything since the start is lost": Tie(
        [(120.0, 0)],
        {},
        {"productive": 60.0, "checkpoint_stall": 0.0, "initialize": 40.0, "restore": 0.0, "lost_work": 100.0},
    ),
    "failure at the end of the write of an asynchronous save: the save is durable": Tie(
        [(160.0, 0)],
        {"checkpoint": {"tiers": [{"interval": "100 s", "restore": "5 s", "mode": "async", "write": "40 s"}]}},
        {"productive": 115.0, "initialize": 40.0, "restore": 5.0, "lost_work": 40.0},
    ),
    "the same with a window that ends during the write": Tie(
        [(160.0, 0)],
        {
            "checkpoint": {"tiers": [{"interval": "100 s", "restore": "5 s", "mode": "async", "write": "40 s"}]},
            "windows": "140 s",
        },
        {"productive": 115.0, "initialize": 40.0, "restore": 5.0, "lost_work": 40.0},
    ),
    "failure at the end of the start-up: it hits a running job": Tie(
        [(20.0, 0)],
        {},
        {"initialize": 40.0, "productive": 150.0, "checkpoint_stall": 10.0, "disruptions": 1, "interruptions": 1},
    ),
    "second failure when the first becomes known: it has to be detected again": Tie(
        [(50.0, 0), (60.0, 1)],
        {"detection": {"time": "10 s"}},
        {"detection": 20.0, "lost_work": 30.0, "initialize": 40.0, "productive": 100.0, "checkpoint_stall": 10.0},
    ),
    "failure of a node at its return: the node was back in the job, and fails again": Tie(
        [(50.0, 0), (80.0, 0)],
        {"repair": {"time": "30 s"}},
        {"lost_work": 30.0, "starved": 60.0, "initialize": 40.0, "productive": 70.0, "interruptions": 2},
    ),
    "return when the patience ends: the job keeps its nodes": Tie(
        [(50.0, 0)],
        {
            "repair": {"time": "30 s"},
            "recovery": {"use": "hot-spare", "initialize": "20 s", "patience": "30 s", "requeue_delay": "7 s"},
        },
        {"lost_work": 30.0, "starved": 30.0, "reschedule": 0.0, "initialize": 40.0, "productive": 100.0},
    ),
    "failure at the arrival: the node is down before the job can have it": Tie(
        [(50.0, 0)],
        {"repair": {"time": "30 s"}, "jobs": [{"name": "job", "gpus": 16, "arrival": "50 s"}]},
        {"queued": 30.0, "initialize": 20.0, "productive": 100.0, "interruptions": 0},
    ),
    "return at the arrival: the job starts at once": Tie(
        [(20.0, 0)],
        {"repair": {"time": "30 s"}, "jobs": [{"name": "job", "gpus": 16, "arrival": "50 s"}]},
        {"queued": 0.0, "initialize": 20.0, "productive": 120.0, "checkpoint_stall": 10.0, "interruptions": 0},
    ),
    "failure at the end of the work: the job has finished": Tie(
        [(90.0, 0)],
        {"jobs": [{"name": "job", "gpus": 16, "work": {"time": "70 s"}}]},
        {"productive": 70.0, "lost_work": 0.0, "interruptions": 0, "end": 90.0},
    ),
    "failure at the horizon: it does not belong to the simulation": Tie(
        [(200.0, 0)], {}, {"productive": 170.0, "lost_work": 0.0, "interruptions": 0}
    ),
}


@cases("name", TIES)
def test_ties_in_time(name: str) -> None:
    """At one time a node returns before a phase ends, before a failure, before an arrival; values by hand."""
    tie = TIES[name]
    amounts = amounts_of(QUIET | tie.changes, [(time, 0, node) for time, node in tie.failures])
    assert {key: amounts[key] for key in tie.expected} == tie.expected


def test_what_is_found_first_ends_the_wait() -> None:
    """A hang at 50 s would be found at 150 s; a crash at 60 s is found at 70 s, and with it the hang."""
    crash = {"use": "component", "name": "crash", "rate": "1 per node-day", "detection": "10 s"}
    data = QUIET | {"detection": {"time": "100 s"}, "failures": [*QUIET["failures"], crash]}
    amounts = amounts_of(data, [(50.0, 0, 0), (60.0, 1, 1)])
    assert (amounts["detection"], amounts["lost_work"], amounts["productive"]) == (20.0, 30.0, 100.0)
    assert (amounts["interruptions"], amounts["disruptions"]) == (2, 1)
