"""The engine equals a plain SimPy model with a process per node and an event per checkpoint, trace by trace.

Half of the comparison is exact: on a grid of 2^-10 s every sum of times is a number that floats hold exactly, whatever
the order of the additions. Failure k of a trace happens k + 1 grid points after a quarter of a second, one of the
software as many points of a finer grid, and every other time is a multiple of a quarter, so nothing that follows from
one failure coincides with another failure. What happens when times do coincide is compared with values worked out by
hand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.failures import FailureTrace
from tests.cases import cases
from tests.reference.model import Outcome, Setup, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Failures = list[tuple[float, int]]

GRID = 2.0**-10

FINER = 2.0**-20

GPUS_PER_NODE = 8

OUTSIDE = ("spare_idle", "repair", "unallocated")


def _plain(setup: Setup) -> dict[str, Any]:
    """Return the scenario that a set-up of the reference stands for, as plain data."""

    def text(value: float) -> str:
        return f"{value!r} s"

    mode = {"mode": "async", "stall": text(setup.stall), "write": text(setup.drain)}
    if not setup.drain:
        mode = {"mode": "blocking", "write": text(setup.stall)}
    job: dict[str, Any] = {"name": "job", "gpus": setup.nodes * GPUS_PER_NODE}
    if setup.work < math.inf:
        job["work"] = {"time": text(setup.work)}
    if setup.step:
        job["step_time"] = text(setup.step)
    return {
        "name": "reference",
        "cluster": {"nodes": setup.nodes + setup.idle + setup.spares},
        "horizon": text(setup.horizon),
        "jobs": [job],
        "failures": [
            {"use": "component", "name": "node", "rate": "1 per node-day", "idle_hazard": setup.idle_hazard},
            {"use": "job", "name": "software", "law": {"use": "fixed", "value": "1000 d"}},
        ],
        "checkpoint": {"tiers": [{"interval": text(setup.interval), "restore": text(setup.restore), **mode}]},
        "detection": {"time": text(setup.detection)},
        "recovery": {"use": "hot-spare", "reschedule": text(setup.reschedule), "initialize": text(setup.initialize)},
        "spares": {"hot": setup.spares},
        "repair": {"time": text(setup.repair)},
    }


def _simulate(data: dict[str, Any], failures: Sequence[tuple[float, int]], sources: Sequence[int] = ()) -> sim.Result:
    """Return what the engine makes of a list of (time, node); `sources` if there are several."""
    count = len(failures)
    order = sorted(range(count), key=lambda row: failures[row][0])
    failures, sources = [failures[row] for row in order], [sources[row] if sources else 0 for row in order]
    trace = FailureTrace(
        time=np.asarray([time for time, _ in failures], dtype=np.float64),
        source=np.asarray(sources, dtype=np.int64),
        slot=np.asarray([node for _, node in failures], dtype=np.int64),
        round=np.arange(count, dtype=np.int64),
        until=np.full(count, np.nan),
    )
    return sim.run(sim.prepare(sim.parse(data)), 0, trace)


def _play(setup: Setup, failures: Failures) -> sim.Result:
    """Return what the engine makes of a set-up of the reference and failures of its nodes."""
    rows = [*failures, *((time, 0) for time in setup.software)]
    return _simulate(_plain(setup), rows, [0] * len(failures) + [1] * len(setup.software))


def _amounts(result: sim.Result) -> dict[str, float]:
    """Return the engine's buckets in seconds of the job and of nodes, and its counts."""
    job = result.jobs[0]
    amounts = {name: float(seconds) / job.gpus for name, seconds in zip(sim.JOB_BUCKETS, job.buckets, strict=True)}
    outside = result.outside.sum(axis=(0, 2))
    for name in OUTSIDE:
        amounts[f"nodes: {name}"] = float(outside[sim.Bucket[name.upper()]]) / GPUS_PER_NODE
    amounts["interruptions"] = sum(job.interruptions.values())
    amounts["disruptions"] = sum(job.disruptions.values())
    amounts["end"] = job.end
    return amounts


def _expected(outcome: Outcome) -> dict[str, float]:
    """Return the same amounts of the reference."""
    amounts = {name: float(outcome.job.get(name, 0.0)) for name in sim.JOB_BUCKETS}
    amounts |= {f"nodes: {name}": float(outcome.nodes.get(name, 0.0)) for name in OUTSIDE}
    return amounts | {"interruptions": outcome.interruptions, "disruptions": outcome.disruptions, "end": outcome.end}


def _draw(seed: int, rounded: Callable[[float], float]) -> tuple[Setup, Failures]:
    """Draw a set-up and failures, from a quiet time to a restart that is longer than the time between failures."""
    rng = np.random.default_rng((2410, seed))

    def pick(*scales: float) -> float:
        return rounded(float(rng.choice(scales)) * rng.uniform(0.2, 1.8))

    nodes = int(rng.integers(2, 13))
    setup = Setup(
        nodes=nodes,
        spares=int(rng.integers(0, 4)),
        idle=int(rng.integers(0, 2)),
        horizon=rounded(rng.uniform(2_000, 6_000)),
        work=rounded(rng.uniform(200, 2_000)) if rng.random() < 0.25 else math.inf,
        interval=max(pick(10, 60, 300), 1.0),
        step=float(rng.choice([0.0, pick(3, 20) + 0.25])),
        stall=pick(0, 2, 10),
        drain=pick(0, 5, 100),
        restore=pick(0, 5, 60),
        detection=pick(0, 0, 5, 60),
        reschedule=pick(0, 0, 10),
        initialize=pick(0, 10, 60, 300),
        repair=pick(0, 20, 200, 2_000),
        idle_hazard=int(rng.integers(0, 2)),
    )
    count = int(rng.integers(0, 120))
    times = np.sort(rng.uniform(0, setup.horizon - 1, count)).tolist()
    victims = rng.integers(0, nodes + setup.idle + setup.spares, count).tolist()
    failures = [
        (rounded(time) + (k + 1) * GRID, node) for k, (time, node) in enumerate(zip(times, victims, strict=True))
    ]
    software = sorted(rng.uniform(0, setup.horizon - 1, int(rng.integers(0, 20))).tolist())
    times = tuple(rounded(time) + (k + 1) * FINER for k, time in enumerate(software))
    return setup._replace(software=times), sorted(failures)


def _on_the_grid(value: float) -> float:
    """Round to a quarter of a second."""
    return round(value * 4) / 4


@pytest.mark.parametrize("batch", range(10))
def test_engine_equals_the_reference_exactly_on_the_grid(batch: int) -> None:
    """On 200 random traces on a 2^-10 s grid every bucket and count of the engine equals the reference's exactly."""
    for seed in range(20 * batch, 20 * (batch + 1)):
        setup, failures = _draw(seed, _on_the_grid)
        outcome = play(setup, failures)
        assert outcome.is_tied or _amounts(_play(setup, failures)) == _expected(outcome), (seed, setup)


def test_engine_equals_the_reference_off_the_grid() -> None:
    """On 50 random traces with arbitrary floats every bucket equals the reference's to 1e-9 of the time played."""
    for seed in range(1_000, 1_050):
        setup, failures = _draw(seed, float)
        outcome = play(setup, failures)
        expected, amounts = _expected(outcome), _amounts(_play(setup, failures))
        assert outcome.is_tied or amounts == pytest.approx(expected, rel=1e-9, abs=1e-9 * expected["end"]), (
            seed,
            setup,
        )


def test_the_traces_reach_every_corner() -> None:
    """The 200 traces spend time in every bucket that a hot spare can lead to, and hit the job in and out of RUNNING."""
    total: dict[str, float] = dict.fromkeys(sim.JOB_BUCKETS, 0.0)
    for seed in range(200):
        setup, failures = _draw(seed, _on_the_grid)
        for name, amount in _expected(play(setup, failures)).items():
            total[name] = total.get(name, 0.0) + amount
    unreached = {name for name, amount in total.items() if amount == 0}
    assert unreached == {"degraded", "queued", "maintenance", "auxiliary", "wrong_work", "given_up"}
    assert total["interruptions"] > 2 * total["disruptions"] > 1_000


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("repair", lambda value: 2 * value),
        ("stall", lambda value: 0.0),
        ("drain", lambda value: 0.0),
        ("restore", lambda value: 0.0),
        ("detection", lambda value: 0.0),
        ("reschedule", lambda value: 0.0),
        ("initialize", lambda value: value / 2),
        ("interval", lambda value: 2 * value),
        ("spares", lambda value: 0),
        ("software", lambda value: value[1:]),
        ("idle_hazard", lambda value: 1 - value),
    ],
)
def test_the_comparison_has_teeth(field: str, change: Callable[[float], float]) -> None:
    """A reference with one wrong parameter disagrees with the engine on a third of the traces and more."""
    changed = red = 0
    for seed in range(60):
        setup, failures = _draw(seed, _on_the_grid)
        wrong = Setup(**setup._asdict() | {field: change(getattr(setup, field))})
        # Nodes must exist in both: a spare that is taken away becomes an idle node.
        wrong = wrong._replace(idle=setup.idle + setup.spares - wrong.spares)
        if wrong != setup:
            changed += 1
            red += _amounts(_play(setup, failures)) != _expected(play(wrong, failures))
    assert changed >= 20
    assert red > changed / 3


class Tie(NamedTuple):
    """A coincidence, and what must come of it; `changes` are made to the plain scenario, failures are of 2 nodes."""

    failures: Failures
    changes: dict[str, Any]
    expected: dict[str, float]


QUIET = Setup(
    nodes=2,
    spares=0,
    idle=0,
    horizon=200.0,
    work=math.inf,
    interval=100.0,
    step=0.0,
    stall=10.0,
    drain=0.0,
    restore=5.0,
    detection=0.0,
    reschedule=0.0,
    initialize=20.0,
    repair=0.0,
)

"""Without failures: initialize to 20 s, step to 120 s, save to 130 s, step to the horizon at 200 s."""

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
    "second failure when the first becomes known: it has to be detected anew": Tie(
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
    amounts = _amounts(_simulate(_plain(QUIET) | tie.changes, tie.failures))
    assert {key: amounts[key] for key in tie.expected} == tie.expected


def test_what_is_found_first_ends_the_wait() -> None:
    """A hang at 50 s would be found at 150 s; a crash at 60 s is found at 70 s, and with it the hang."""
    crash = {"use": "component", "name": "crash", "rate": "1 per node-day", "detection": "10 s"}
    data = _plain(QUIET) | {"detection": {"time": "100 s"}}
    data["failures"] = [*data["failures"], crash]
    amounts = _amounts(_simulate(data, [(50.0, 0), (60.0, 1)], [0, 2]))
    assert (amounts["detection"], amounts["lost_work"], amounts["productive"]) == (20.0, 30.0, 100.0)
    assert (amounts["interruptions"], amounts["disruptions"]) == (2, 1)
