"""The event kernel: absolute times to the last bit, the order of ties, and a queue without dead events."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.engine.kernel import Environment, EventPriority
from ettrick.sim.engine.ledger import Account, LedgerError
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.policies.contracts import JOB_BUCKETS, Bucket
from tests.harness import play, prepared, seconds, trace


def test_times_are_exact() -> None:
    """A call comes at the very number that was asked for: no delay is added to a clock."""
    kernel = Environment()
    generator = random.Random(1)
    times = [generator.uniform(0, 1e7) for _ in range(500)]
    seen: list[float] = []

    def note(stated: float, now: float) -> None:
        assert kernel.now == now == stated
        seen.append(now)
        if len(seen) <= 500:
            later = now + stated / 3
            kernel.at(later, EventPriority.PHASE, note, later)

    for time in times:
        kernel.at(time, EventPriority.FAILURE, note, time)
    while kernel.waiting:
        kernel.step()
    assert seen == sorted(seen)
    assert set(times) <= set(seen)


def test_ties_by_order_then_by_call() -> None:
    """At one time: boundary, return, phase end, failure, arrival, pass; among equals, who was asked for first."""
    orders = (
        EventPriority.BOUNDARY,
        EventPriority.RETURN,
        EventPriority.PHASE,
        EventPriority.FAILURE,
        EventPriority.ARRIVAL,
        EventPriority.PASS,
    )
    seen: list[tuple[int, int]] = []

    def note(order: int, number: int, now: float) -> None:
        assert now == 5.0
        seen.append((order, number))

    for permutation in itertools.permutations(orders):
        kernel = Environment()
        seen.clear()
        for number in range(2):
            for order in permutation:
                kernel.at(5.0, order, note, order, number)
        while kernel.waiting:
            kernel.step()
        assert seen == [(order, number) for order in orders for number in range(2)]


def test_calls_made_at_the_present_time_are_played() -> None:
    """A call for now is played now, after what was already due with the same order."""
    kernel = Environment()
    seen: list[str] = []

    def first(now: float) -> None:
        seen.append("first")
        kernel.at(now, EventPriority.FAILURE, lambda _: seen.append("third"))
        kernel.at(now, EventPriority.RETURN, lambda _: seen.append("at once"))

    kernel.at(1.0, EventPriority.FAILURE, first)
    kernel.at(1.0, EventPriority.FAILURE, lambda _: seen.append("second"))
    assert kernel.waiting == 2
    while kernel.waiting:
        kernel.step()
    assert seen == ["first", "at once", "second", "third"]
    assert kernel.now == 1.0


def test_what_changed_meanwhile_is_not_called() -> None:
    """A call for an owner is void as soon as the owner's epoch has risen."""
    kernel = Environment()
    owner = SimpleNamespace(epoch=0)
    seen: list[str] = []
    kernel.unless_changed(1.0, EventPriority.PHASE, lambda _owner, name, _now: seen.append(name), owner, "first")
    kernel.unless_changed(2.0, EventPriority.PHASE, lambda _owner, name, _now: seen.append(name), owner, "second")
    kernel.step()
    owner.epoch += 1
    kernel.step()
    assert seen == ["first"]


def test_an_error_in_a_handler_is_not_swallowed() -> None:
    """An exception in a handler leaves the loop as it is."""
    kernel = Environment()

    def fail(now: float) -> None:
        message = "out of order"
        raise RuntimeError(message)

    kernel.at(1.0, EventPriority.PHASE, fail)
    with pytest.raises(RuntimeError, match="out of order"):
        kernel.step()


def test_a_save_that_ends_at_the_moment_of_a_failure_is_durable() -> None:
    """Phase end before failure: at 110 s the first save is complete, and nothing is lost."""
    case = prepared(recovery={"use": "hot-spare", "initialize": "0 s"})
    assert "lost_work" not in seconds(play(case, [(110.0, 0, 0)]))
    assert seconds(play(case, [(109.5, 0, 0)]))["lost_work"] == pytest.approx(100.0, abs=1e-9)


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
        detection={"time": {"use": "exponential", "mean": "20 s"}},
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


# ----------------------------------------
# The account of a job: what a rollback moves, window by window and cause by cause, and a sum that must close.

GPUS = 4.0


def table(account: Account) -> dict[tuple[int, str, int], float]:
    """Return what is not zero by window, bucket and cause."""
    totals = account.totals()
    return {
        (int(window), Bucket(bucket).name.lower(), int(cause)): float(totals[window, bucket, cause])
        for window, bucket, cause in zip(*np.nonzero(totals), strict=True)
    }


def test_rollback_takes_the_newest_work() -> None:
    """10 s of 30 s at risk are lost: productive time moves, and what remains can be lost later."""
    account = Account(3, GPUS)
    account.step(30.0, 0.0, 8.0, 0, 30.0)
    account.lose(10.0, 2)
    assert table(account) == {
        (0, "productive", 0): 20 * GPUS,
        (0, "checkpoint_stall", 0): 8.0,
        (0, "lost_work", 2): 10 * GPUS,
    }
    account.lose(20.0, 1)
    assert table(account)[0, "lost_work", 1] == 20 * GPUS
    assert account.risk == []
    account.close(30 * GPUS + 8.0, "the job")


def test_lost_work_leaves_the_window_in_which_it_was_earned() -> None:
    """25 s are lost of 10 s in the third, 10 s in the second and 10 s in the first window: 5 s of the first."""
    account = Account(2, GPUS)
    for at_risk in (10.0, 20.0, 30.0):
        account.step(10.0, 0.0, 0.0, 0, at_risk)
        account.open_window()
    account.lose(25.0, 1)
    totals = account.totals() / GPUS
    assert totals[:, Bucket.PRODUCTIVE, 0].tolist() == [5.0, 0.0, 0.0, 0.0]
    assert totals[:, Bucket.LOST_WORK, 1].tolist() == [5.0, 10.0, 10.0, 0.0]


def test_degraded_time_goes_with_its_work() -> None:
    """Half of a stretch at half the pace is lost: half of its productive and half of its degraded time."""
    account = Account(3, GPUS)
    account.step(20.0, 0.0, 0.0, 0, 20.0)
    account.step(30.0, 30 * GPUS, 0.0, 1, 50.0)
    account.lose(15.0, 2)
    assert table(account) == {
        (0, "productive", 0): 35 * GPUS,
        (0, "degraded", 1): 15 * GPUS,
        (0, "lost_work", 2): 30 * GPUS,
    }
    # What is left of the stretch, then the 20 s before it, which have no degraded time.
    account.lose(35.0, 2)
    assert table(account)[0, "lost_work", 2] == 80 * GPUS
    account.close(80 * GPUS, "the job")


@pytest.mark.timeout(20)
def test_a_part_of_a_stretch_is_lost_in_finite_time() -> None:
    """Losing a part of a stretch ends, whatever rounding does to the part, and loses that much."""
    generator = np.random.default_rng(7)
    pairs = [(126.49999999999989, 0.5), (30.0, 0.1), (1e-300, 3e-301)]
    pairs += [
        (work, work * share)
        for work, share in zip(generator.exponential(100.0, 2000), generator.random(2000), strict=True)
    ]
    for work, lost in pairs:
        account = Account(2, 1.0)
        account.step(work, 0.0, 0.0, 0, work)
        account.lose(lost, 1)
        assert account.totals()[0, Bucket.LOST_WORK, 1] == pytest.approx(lost, rel=1e-12)
        account.close(work, "the job")


def test_random_histories_close() -> None:
    """Whatever is stepped, saved and lost, in any order: the buckets add up, and no bucket is negative."""
    generator = np.random.default_rng(3)
    for _ in range(50):
        account = Account(4, GPUS)
        capacity = at_risk = 0.0
        for _ in range(60):
            event = generator.integers(4)
            if event == 0:
                account.open_window()
            elif event == 1 and at_risk > 0:
                lost = at_risk * float(generator.choice([1.0, 0.3]))
                account.lose(lost, int(generator.integers(1, 4)))
                at_risk -= lost
            else:
                work, slow = generator.exponential(10.0), float(generator.choice([0.0, 0.5]))
                at_risk = float(generator.choice([at_risk + work, work / 2]))
                account.step(work, work * GPUS * slow, 2.0, 1, at_risk)
                capacity += work * GPUS * (1 + slow) + 2.0
        account.close(capacity, "the job")
        assert account.totals().min() >= -1e-9 * capacity


def test_a_ledger_that_does_not_close_raises() -> None:
    """A missing second is a defect and says which account it is missing from; rounding is none."""
    account = Account(1, 1.0)
    account.table[Bucket.QUEUED][0] += 1e6
    account.close(1e6 * (1 + 1e-12), "job 'a'")
    with pytest.raises(LedgerError, match=r"the buckets of job 'a' add up to 1000000\.0 GPU s"):
        account.close(1e6 + 1.0, "job 'a'")
    with pytest.raises(LedgerError):
        account.close(1e6 * (1 - 1e-8), "job 'a'")
    # A report shows the buckets of jobs alone: what a job has in another one would be missing there.
    account.table[Bucket.UNALLOCATED][0] += 10.0
    account.close(1e6 + 10.0, "job 'a'")
    with pytest.raises(LedgerError):
        account.close(1e6 + 10.0, "job 'a'", buckets=len(JOB_BUCKETS))
