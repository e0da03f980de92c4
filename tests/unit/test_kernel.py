"""The event kernel: absolute times to the last bit, the order of ties, and a queue without dead events."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

import sim
from sim.engine.kernel import Call, Kernel, Order
from sim.engine.simulation import Simulation
from tests.harness import play, prepared, seconds, trace


def test_times_are_exact() -> None:
    """A call comes at the very number that was asked for: no delay is added to a clock."""
    kernel = Kernel()
    generator = random.Random(1)
    times = [generator.uniform(0, 1e7) for _ in range(500)]
    seen: list[float] = []

    def note(call: Call) -> None:
        assert kernel.now == call.argument
        seen.append(kernel.now)
        if len(seen) <= 500:
            later = kernel.now + call.argument / 3
            kernel.at(later, Order.PHASE, note, later)

    for time in times:
        kernel.at(time, Order.FAILURE, note, time)
    kernel.run(until=2e7)
    assert seen == sorted(seen)
    assert set(times) <= set(seen)


def test_ties_by_order_then_by_call() -> None:
    """At one time: boundary, return, phase end, failure, arrival; among equals, who was asked for first."""
    assert list(Order) == [Order.BOUNDARY, Order.RETURN, Order.PHASE, Order.FAILURE, Order.ARRIVAL]
    seen: list[tuple[Order, int]] = []

    def note(call: Call) -> None:
        seen.append(call.argument)

    for permutation in itertools.permutations(Order):
        kernel = Kernel()
        seen.clear()
        for number in range(2):
            for order in permutation:
                kernel.at(5.0, order, note, (order, number))
        kernel.run(until=6.0)
        assert seen == [(order, number) for order in Order for number in range(2)]


def test_calls_made_at_the_present_time_are_played() -> None:
    """A call for now is played now, after what was already due with the same order."""
    kernel = Kernel()
    seen: list[str] = []

    def first(call: Call) -> None:
        seen.append("first")
        kernel.at(kernel.now, Order.FAILURE, lambda call: seen.append("third"))
        kernel.at(kernel.now, Order.RETURN, lambda call: seen.append("at once"))

    kernel.at(1.0, Order.FAILURE, first)
    kernel.at(1.0, Order.FAILURE, lambda call: seen.append("second"))
    assert kernel.waiting == 2
    while kernel.waiting:
        kernel.step()
    assert seen == ["first", "at once", "second", "third"]
    assert kernel.now == 1.0


def test_an_error_in_a_handler_is_not_swallowed() -> None:
    """An exception in a handler leaves the loop as it is."""
    kernel = Kernel()

    def fail(call: Call) -> None:
        message = "out of order"
        raise RuntimeError(message)

    kernel.at(1.0, Order.PHASE, fail)
    with pytest.raises(RuntimeError, match="out of order"):
        kernel.step()


# ------------------------------------------------------------------------------------------- ties in the engine


def test_a_node_that_returns_at_the_moment_of_a_failure_is_there() -> None:
    """Returned before failure: node 0 is back at 300 s, when node 1 fails, so one node of two is at hand."""
    cluster = {"nodes": 3, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(cluster=cluster, recovery={"use": "hot-spare", "initialize": "0 s"})
    result = play(case, [(250.0, 0, 0, 300.0), (300.0, 1, 1, 900.0)])
    assert "starved" not in seconds(result)
    late = play(case, [(250.0, 0, 0, 300.5), (300.0, 1, 1, 900.0)])
    assert seconds(late)["starved"] == pytest.approx(0.5, abs=1e-9)


def test_a_failure_at_the_moment_of_an_arrival_comes_first() -> None:
    """Failure before arrival: a node that fails when the job arrives is not given to it."""
    cluster = {"nodes": 2, "gpus_per_node": 1, "fabric": {"rails": 1}}
    case = prepared(cluster=cluster, jobs=[{"name": "job", "gpus": 2, "arrival": "100 s"}])
    result = play(case, [(100.0, 0, 0, 150.0)])
    assert seconds(result)["queued"] == pytest.approx(50.0, abs=1e-9)
    assert result.jobs[0].interruptions == {}


def test_a_save_that_ends_at_the_moment_of_a_failure_is_durable() -> None:
    """Phase end before failure: at 110 s the first save is complete, and nothing is lost."""
    case = prepared(recovery={"use": "hot-spare", "initialize": "0 s"})
    assert "lost_work" not in seconds(play(case, [(110.0, 0, 0)]))
    assert seconds(play(case, [(109.5, 0, 0)]))["lost_work"] == pytest.approx(100.0, abs=1e-9)


# ------------------------------------------------------------------------------------------------- dead events


@pytest.mark.parametrize("work", ["horizon", {"time": "30 d"}], ids=["to the horizon", "fixed work"])
@pytest.mark.parametrize(
    "recovery",
    [
        {"use": "hot-spare", "initialize": "50 s", "reschedule": "20 s"},
        {"use": "full-restart", "initialize": "50 s"},
        {"use": "shrink-rejoin", "initialize": "50 s", "reconfigure": "10 s", "rejoin": "5 s"},
    ],
    ids=["hot-spare", "full-restart", "shrink-rejoin"],
)
def test_the_queue_does_not_fill_with_dead_events(recovery: dict[str, str], work: Any) -> None:
    """After thousands of failures the queue holds no more than what the open repairs and phases explain."""
    day = 86400.0
    case = prepared(
        cluster={"nodes": 40, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon="40 d",
        jobs=[{"name": "job", "gpus": 32, "parallelism": {"data": 8, "tensor": 4}, "work": work}],
        failures=[
            {"use": "component", "name": "node", "part": "node", "rate": "1 per node-d"},
            {"use": "job", "name": "software", "rate": "20 per job-d"},
        ],
        detection={"time": {"law": "exponential", "mean": "20 s"}},
        recovery=recovery,
        repair={"time": "20 min"},
    )
    simulation = Simulation(case, 0, sim.trace(case, 0))
    longest = 0
    while simulation.is_open:
        simulation.kernel.step()
        longest = max(longest, simulation.kernel.waiting)
    failures = simulation.counts.failures
    assert failures > 1000
    assert longest < 60, f"{longest} events waited at once after {failures} failures in {40 * day:g} s"


def test_a_voided_phase_does_nothing() -> None:
    """The end of a phase that a failure cut short changes nothing when its time comes: the epoch is another."""
    case = prepared(recovery={"use": "hot-spare", "initialize": "50 s", "exposed": False, "reschedule": "10 s"})
    rows = [(200.0, 0, 0), (230.0, 1, 1)]
    simulation = Simulation(replace(case), 0, trace(rows))
    phases: list[tuple[float, bool]] = []
    while simulation.is_open:
        simulation.kernel.step()
        phases.append((simulation.kernel.now, simulation.jobs.all[0].main.is_running(simulation.kernel.now)))
    # Cut short at 230 s; the second recovery takes 10 + 50 + 20 s, so that nobody runs before 310 s.
    assert all(not running for time, running in phases if 200.0 < time < 310.0)
    assert seconds(play(case, rows))["restore"] == pytest.approx(20.0, abs=1e-9)
