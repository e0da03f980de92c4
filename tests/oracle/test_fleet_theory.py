"""Streams of jobs against queueing theory: waits, priorities, preemption, failures while busy, saturation of gangs.

Times are in units of the mean run time. Every tolerance is that of the mean of independent replications.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from tests.harness import scenario
from tests.intervals import student
from tests.pace import IS_FULL, SEED, one_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

UNIT = 100.0
"""Mean run time [s]."""


def time(units: float) -> str:
    """Return a time in mean run times as text."""
    return f"{units * UNIT!r} s"


def stream(name: str, rate: float, work: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """Return Poisson arrivals, `rate` in a mean run time, of jobs of one GPU that take an exponential time."""
    return {
        "name": name,
        "arrivals": {"rate": f"{rate / UNIT * 86400!r} per day"},
        "gpus": 1,
        "work": work or {"use": "exponential", "mean": time(1)},
        "limit": "none",
        "restart": "0 s",
        "checkpoint": {},
        **keys,
    }


def fleet(streams: list[dict[str, Any]], nodes: int, horizon: float, warmup: float, **changes: Any) -> sim.Prepared:
    """Return a cluster of nodes of one GPU; by default strict FIFO and no failures."""
    return sim.prepare(
        sim.parse(
            scenario(
                **{
                    "cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
                    "jobs": [],
                    "streams": streams,
                    "horizon": time(horizon),
                    "warmup": time(warmup),
                    "failures": [],
                    "seed": SEED,
                    **changes,
                }
            )
        )
    )


JOBS = 30_000 if IS_FULL else 1_500
"""Jobs of a replication, about."""

REPLICATIONS = 12


def agrees(case: sim.Prepared, *measures: tuple[float, Callable[[sim.Result], float]], worst: float = 0.1) -> None:
    """Check means over replications, and that their standard errors are below a share `worst` of what is expected.

    With a seed of its own there are twenty times as many jobs.
    """
    results = [sim.run(case, number, keeps_log=True) for number in range(REPLICATIONS)]
    for expected, measure in measures:
        found: NDArray[np.float64] = np.array([measure(result) for result in results])
        error = found.std(ddof=1) / math.sqrt(REPLICATIONS)
        assert error <= worst * expected / (4 if IS_FULL else 1), f"standard error {error / expected:.3f} of the mean"
        gap = abs(found.mean() - expected)
        assert gap <= student(REPLICATIONS) * error, f"{found.mean()} +- {error}, not {expected}"


def first_wait(result: sim.Result, stream: int = 0) -> float:
    """Return the mean first wait of the jobs of a stream, in mean run times."""
    assert result.fleet is not None
    mine = [account for account in result.fleet.jobs if account.stream == stream]
    return float(
        result.fleet.job_sum("wait_first_job", mine).sum() / result.fleet.job_sum("started_job", mine).sum() / UNIT
    )


def time_in_system(result: sim.Result, stream: int = 0) -> float:
    """Return the mean time from submission to completion of the jobs of a stream, in mean run times."""
    assert result.fleet is not None
    mine = [account for account in result.fleet.jobs if account.stream == stream]
    return float(result.fleet.job_sum("jct_job", mine).sum() / result.fleet.job_sum("completed_job", mine).sum() / UNIT)


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that an arrival of M/M/c has to wait [-], by the recursion of Erlang B."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    utilisation = load / servers
    return blocked / (1 - utilisation * (1 - blocked))


@pytest.mark.parametrize(
    ("servers", "utilisation", "warmup", "worst"),
    one_in(4, [(4, 0.75, 50.0, 0.15), (16, 0.9, 250.0, 0.4), (64, 0.95, 250.0, 0.6), (256, 0.97, 200.0, 0.8)]),
)
def test_mmc(servers: int, utilisation: float, warmup: float, worst: float) -> None:
    """The wait of M/M/c and the share of jobs that wait longer than a mean run time are Erlang's."""
    load = servers * utilisation
    chance = erlang_c(servers, load)

    def long_waits(result: sim.Result) -> float:
        waits = [each.start - each.submit for each in result.attempts if each.submit >= 0]
        return float(np.mean(np.array(waits) > UNIT))

    case = fleet([stream("jobs", load)], servers, JOBS * max(1, servers / 16) / load, warmup)
    measures = [(chance / (servers - load), first_wait)]
    if servers <= 16:
        measures.append((chance * math.exp(-(servers - load)), long_waits))
    agrees(case, *measures, worst=worst)


@pytest.mark.parametrize(
    ("work", "square"),
    one_in(
        3,
        [
            ({"use": "fixed", "value": time(1)}, 0.0),
            ({"use": "exponential", "mean": time(1)}, 1.0),
            ({"use": "gamma", "shape": 0.25, "mean": time(1)}, 4.0),
        ],
    ),
)
def test_pollaczek_khinchine(work: dict[str, Any], square: float) -> None:
    """The wait of M/G/1 is load x (1 + squared coefficient of variation) / (2 (1 - load))."""
    load = 0.7
    case = fleet([stream("jobs", load, work)], 1, JOBS / load, 100)
    agrees(case, (load * (1 + square) / (2 * (1 - load)), first_wait), worst=0.2)


@pytest.mark.parametrize("preempts", [False, True])
def test_two_priorities(preempts: bool) -> None:
    """Two classes in M/M/1, without preemption and with one that resumes: waits and times in the system."""
    high, low = 0.3, 0.4
    streams = [stream("high", high, priority=1), stream("low", low)]
    keys = {"use": "fifo", "preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}} if preempts else {"use": "fifo"}
    total = high + low
    case = fleet(streams, 1, JOBS / total, 100, scheduler=keys)
    if preempts:
        # What is preempted has saved at no cost.
        expected = (1 / (1 - high), 1 / (1 - high) / (1 - total))
        measure = time_in_system
    else:
        expected = (total / (1 - high), total / (1 - high) / (1 - total))
        measure = first_wait
    agrees(case, *((value, partial(measure, stream=place)) for place, value in enumerate(expected)), worst=0.2)


def test_preempt_and_start_over() -> None:
    """Without a save a low job of fixed length S is over after (1/rate + busy period) (e^(rate S) - 1)."""
    rate, length = 0.1, 5.0
    high = stream("high", rate, priority=1)
    low = stream("low", 1.0, {"use": "fixed", "value": time(length)}, arrivals={"use": "backlog", "pending": 1})
    low["checkpoint"] = {"save": "1 s"}
    case = fleet(
        [high, low], 1, JOBS, 100, scheduler={"use": "fifo", "preempt": {"mode": "requeue"}, "requeue": {"age": "keep"}}
    )

    def completion(result: sim.Result) -> float:
        ends = {each.job: each.end for each in result.attempts if each.stream == 1 and each.state == "completed"}
        first: dict[int, float] = {}
        for each in result.attempts:
            if each.stream == 1:
                first[each.job] = min(first.get(each.job, math.inf), each.start)
        return float(np.mean([end - first[job] for job, end in ends.items()]) / UNIT)

    busy = 1 / (1 - rate)
    agrees(case, ((1 / rate + busy) * (math.exp(rate * length) - 1), completion))


@pytest.mark.parametrize(("rate", "hazard", "repair"), one_in(2, [(0.5, 0.1, 1.0), (0.6, 0.05, 4.0)]))
def test_failures_while_busy(rate: float, hazard: float, repair: float) -> None:
    """A node that fails only while it works, and keeps the work: M/G/1 with the completion time of a job."""
    node = {"use": "component", "part": "node", "name": "node", "clock": "busy"}
    case = fleet(
        [stream("jobs", rate, checkpoint={"interval": time(1e-4)})],
        1,
        JOBS / rate,
        100,
        failures=[{**node, "law": {"use": "exponential", "mean": time(1 / hazard)}}],
        repair={"time": {"use": "exponential", "mean": time(repair)}},
        scheduler={"use": "fifo", "replacement": "never", "requeue": {"age": "keep"}},
    )
    mean = 1 + hazard * repair
    square = 2 * mean**2 + hazard * 2 * repair**2
    agrees(case, (rate * square / (2 * (1 - rate * mean)), first_wait), worst=0.3)


@pytest.mark.parametrize(
    ("slots", "small"), one_in(3, [(2, 0.5), (8, 0.9), (2, 2 - math.sqrt(2)), (8, 0.5), (64, 0.99), (8, 0.8016)])
)
def test_gangs_saturate(slots: int, small: float) -> None:
    """Strict FIFO of jobs of one node and of all nodes keeps u of them in use, however many jobs wait."""
    large = 1 - small
    gap = large * (1 + sum(small**count / count for count in range(1, slots + 1))) + small ** (slots + 1) / slots
    expected = (small + slots * large) / slots / gap
    jobs = stream("jobs", 1.0, arrivals={"use": "backlog", "pending": 20}, gpus={"1": small, str(slots): large})
    case = fleet([jobs], slots, JOBS * gap, 100 * gap)

    def occupancy(result: sim.Result) -> float:
        assert result.fleet is not None
        return float(result.fleet.level("allocated").sum() / result.fleet.level("healthy").sum())

    agrees(case, (expected, occupancy), worst=0.02)
