"""Who can fail in which phase: the processes of a job, the nodes that it holds, both or none.

A job of two nodes starts to step after 30 s and saves nothing. Node 0 fails and is back 200 s later; without a spare
the job is starved until then. Lives of the job, and of nodes on the clock ``busy``, are given in the time of that
clock. They do not end by themselves otherwise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from tests.cases import cases
from tests.harness import exactly, losses, play, prepared, results_of, seconds, trace
from tests.intervals import Z
from tests.unit.test_effects import RARE_SAVES, cause, nodes

EXACT = 1e-9

LAW = {"law": {"use": "exponential", "mean": "1000 d"}}

NEVER = {"law": {"use": "fixed", "value": "10000 d"}}

HOT_SPARE: dict[str, Any] = {"use": "hot-spare", "reschedule": "100 s", "initialize": "30 s"}

CRASH = cause("crash")

BUG: dict[str, Any] = {"use": "job", "name": "bug", **NEVER}


def case(*others: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about, with other causes than a crash of its nodes."""
    base = {"failures": [CRASH, *others], "checkpoint": RARE_SAVES, "cluster": nodes(2), "recovery": HOT_SPARE}
    return prepared(**(base | changes))


def test_no_process_fails_while_a_job_waits_for_nodes() -> None:
    """A bug after 400 s of processes: starved from 300 s to 500 s, so it strikes at 600 s of the wall, not at 400 s.

    The swap takes until 600 s, in which processes are torn down: their clock has run for 300 s + 100 s by then.
    """
    one = case(BUG)
    result = play(one, [(300, 0, 0), (400, 1, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "crash"): 270.0,
            ("starved", "crash"): 200.0,
            ("reschedule", "crash"): 100.0,
            ("reschedule", "bug"): 100.0,
            ("initialize", "bug"): 30.0,
        },
        rel=EXACT,
    )
    assert (result.jobs[0].interruptions, result.jobs[0].merged) == ({1: 1, 2: 1}, 1)


def test_a_life_of_any_number_strikes() -> None:
    """The 2^20-th life of a bug, which often fails for long, is no fault that a repair left in a node."""
    one = case(BUG)
    failures = replace(trace([(400, 1, 0)]), round=np.array([1 << 20]))
    assert sim.run(one, 0, failures).jobs[0].interruptions == {2: 1}


WAITS: dict[str, tuple[dict[str, Any], dict[str, int], float]] = {
    "standby": ({"recovery": "20 s", "selection": "50 s"}, {"data": 2}, 320.0),
    "narrow": ({"tensor": 2, "launch": "30 s"}, {"tensor": 2}, 300.0),
    "ladder": ({"rungs": [{"name": "swap", "keeps": "hosts", "launch": "30 s"}]}, {"data": 2}, 300.0),
    "shrink-rejoin": ({"reconfigure": "5 s", "initialize": "30 s", "min_replicas": 2}, {"data": 2}, 300.0),
    "restart-smaller": ({"launch": "30 s", "min_replicas": 2}, {"data": 2}, 300.0),
}

"""Parameters of a strategy, the layout of its job, and when the wait for a node begins [s]."""


@cases("use", WAITS)
def test_whoever_waits_for_nodes(use: str) -> None:
    """Whatever the strategy, a bug due a millisecond after the wait began strikes a millisecond after its end.

    It was there at 300 s or 320 s of the processes' clock and of the wall; node 0 is back at 500 s.
    """
    parameters, layout, begins = WAITS[use]
    job = {"name": "job", "gpus": 2, "parallelism": layout}
    one = case(BUG, recovery={"use": use, **parameters}, jobs=[job])
    waited = seconds(play(one, [(300, 0, 0)]))["starved"]
    result = play(one, [(300, 0, 0), (begins + 1e-3, 1, 0)])
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert seconds(result)["starved"] == pytest.approx(waited, rel=EXACT)
    assert ("starved", "bug") not in losses(one, result)


@cases(("idle_hazard", "hits"), [(1.0, 2), (0.0, 1)])
@cases("clock", ["wall", "in_service"])
def test_held_nodes_fail_like_idle_ones(idle_hazard: float, hits: int, clock: str) -> None:
    """Node 1 waits with its job from 300 s to 500 s: a life that ends at 400 s strikes as its idle hazard says."""
    one = case(cause("other", idle_hazard=idle_hazard, clock=clock, **LAW))
    result = play(one, [(300, 0, 0), (400, 1, 1)])
    assert sum(result.jobs[0].interruptions.values()) == hits
    assert result.counts["suppressed"] == 2 - hits
    # Node 1 is back at 600 s if it failed.
    assert seconds(result)["starved"] == pytest.approx(300.0 if hits == 2 else 200.0, rel=EXACT)


def test_how_many_held_nodes_fail_is_their_idle_hazard() -> None:
    """Of 400 held nodes whose lives end in the wait, 30 % strike: a binomial number."""
    count, hazard = 400, 0.3
    one = case(
        cause("other", idle_hazard=hazard, **LAW),
        cluster=nodes(count + 1),
        jobs=[{"name": "job", "gpus": count + 1}],
        repair={"time": "1 d"},
    )
    result = play(one, [(300, 0, 0), *((400 + number / 1000, 1, 1 + number) for number in range(count))])
    found = result.jobs[0].interruptions[2]
    assert abs(found - hazard * count) <= Z * math.sqrt(count * hazard * (1 - hazard))


def test_busy_lives_of_held_nodes_stand_still() -> None:
    """Node 1 has served 400 s when the job is starved from 300 s to 500 s and the swap has lasted 100 s: at 600 s."""
    one = case(cause("worn", clock="busy", **NEVER))
    result = play(one, [(300, 0, 0), (400, 1, 1)])
    assert losses(one, result)["starved", "crash"] == pytest.approx(200.0, rel=EXACT)
    assert losses(one, result)["reschedule", "crash"] == pytest.approx(100.0, rel=EXACT)
    assert losses(one, result)["starved", "worn"] == pytest.approx(200.0, rel=EXACT)


def test_nothing_runs_until_a_failure_in_a_wait_is_known() -> None:
    """Node 1 fails at 400 s, in the wait, and is noticed at 460 s: both times no process is there to fail.

    The job waits until 660 s. A bug after 301 s of processes strikes 1 s later.
    """
    one = case(BUG, failures=[CRASH, cause("other", detection="60 s"), BUG])
    result = play(one, [(300, 0, 0), (400, 1, 1), (301, 2, 0)])
    assert losses(one, result)["detection", "other"] == pytest.approx(60.0, rel=EXACT)
    assert losses(one, result)["starved", "other"] == pytest.approx(200.0, rel=EXACT)
    assert losses(one, result)["reschedule", "other"] == pytest.approx(1.0, rel=EXACT)
    assert losses(one, result)["reschedule", "bug"] == pytest.approx(100.0, rel=EXACT)


def test_detection_initialize_and_restore_are_exposed() -> None:
    """Bugs strike in all of them: one in a detection, which merges, one in a start, one in a restore.

    Detection from 300 s, hit at 310 s, to 320 s; start to 330 s, hit. Detection to 350 s, start to 380 s, restore to
    390 s, hit. Detection to 410 s, start to 440 s, restore to 460 s.
    """
    bugs = [{"use": "job", "name": name, "detection": "20 s", **NEVER} for name in ("a", "b", "c")]
    one = case(
        failures=[cause("crash", detection="20 s"), *bugs],
        recovery={"use": "hot-spare", "initialize": "30 s"},
        checkpoint={"tiers": [{"interval": "100 s", "mode": "blocking", "write": "0 s", "restore": "20 s"}]},
        cluster=nodes(3),
    )
    result = play(one, [(300, 0, 0), (310, 1, 0), (330, 2, 0), (390, 3, 0)])
    assert result.jobs[0].interruptions == {1: 1, 2: 1, 3: 1, 4: 1}
    found = {name: seconds(result)[name] for name in ("detection", "initialize", "restore")}
    assert found == exactly(detection=60, initialize=30 + 10 + 30 + 30, restore=10 + 20)


def test_a_job_that_waits_for_nodes_can_be_preempted() -> None:
    """Its nodes are wanted at 400 s, in the wait, for 50 s; then it queues until node 0 is back."""
    one = case({"use": "preemption", "name": "taken", "away": "50 s", **NEVER})
    result = play(one, [(300, 0, 0), (400, 1, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "crash"): 270.0,
            ("starved", "crash"): 100.0,
            ("reschedule", "taken"): 50.0,
            ("queued", "taken"): 50.0,
            ("initialize", "taken"): 30.0,
        },
        rel=EXACT,
    )


@cases("use", ["patience", "full-restart"])
def test_the_queue_and_the_way_to_it_run_nothing(use: str) -> None:
    """Back to the queue at 300 s, eligible at 350 s, two nodes at 500 s: a bug after 310 s of processes is at 510 s."""
    requeue = {
        "patience": {"use": "hot-spare", "initialize": "30 s", "patience": "0 s", "requeue_delay": "50 s"},
        "full-restart": {"use": "full-restart", "initialize": "30 s", "delay": "50 s"},
    }
    one = case(BUG, cause("idle", idle_hazard=0.0, **LAW), recovery=requeue[use])
    result = play(one, [(300, 0, 0), (310, 1, 0), (320, 2, 1), (400, 2, 1)])
    # The bug finds nodes: a hot spare starts in place, the other goes back to the queue.
    again = {("reschedule", "bug"): 50.0} if use == "full-restart" else {}
    expected = {
        ("initialize", "no_failure"): 30.0,
        ("lost_work", "crash"): 270.0,
        ("reschedule", "crash"): 50.0,
        ("queued", "crash"): 150.0,
        ("initialize", "crash"): 10.0,
        ("initialize", "bug"): 30.0,
    }
    assert losses(one, result) == pytest.approx(expected | again, rel=EXACT)
    # Outside the job node 1 is idle.
    assert result.counts["suppressed"] == 2


def test_what_waited_in_a_hidden_phase_strikes_when_the_wait_for_nodes_begins() -> None:
    """Its life ended while processes ran, so the idle hazard of the wait does not thin it.

    Stopping is hidden from 300 s to 340 s; the wait for a node begins then.
    """
    stop = [{"name": "stop", "time": "40 s", "exposed": "processes"}]
    rungs = [{"name": "swap", "keeps": "hosts", "stop": stop, "launch": "30 s"}]
    recovery = {"use": "ladder", "rungs": rungs}
    one = case(cause("other", defer=True, idle_hazard=0.0, **LAW), recovery=recovery)
    result = play(one, [(300, 0, 0), (320, 1, 1)])
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert ("starved", "crash") not in losses(one, result)


def test_exposure_of_nodes_alone_has_no_closed_form() -> None:
    """The formula knows phases in which everything, or nothing, can fail; a phase between these is said."""
    assert sim.closed_form(case(recovery=HOT_SPARE | {"exposed": "none"}, horizon="30 d")).ettr is not None
    found = sim.closed_form(case(recovery=HOT_SPARE | {"exposed": "nodes"}, horizon="30 d"))
    assert found.ettr is None
    assert "only processes or only nodes can fail" in found.reasons[0]


EXPOSED = ("productive", "checkpoint_stall", "lost_work", "detection", "reschedule", "initialize", "restore")

"""Buckets of phases in which processes run."""


@pytest.mark.parametrize("use", ["hot-spare", "standby", "patience"])
def test_processes_fail_at_their_rate_in_the_time_that_they_run(use: str) -> None:
    """Failures of a job are Poisson on the clock of its processes: their number less rate times clock is a martingale.

    Its variance is the expected number, so the sum over replications is known to z roots of it. A job of ten nodes has
    no spare and waits for nodes for most of the time: the failures that the wall clock would give are far away.
    """
    recovery = {
        "hot-spare": {"use": "hot-spare", "reschedule": "100 s", "initialize": "200 s"},
        "standby": {"use": "standby", "recovery": "200 s", "selection": "100 s"},
        "patience": {"use": "hot-spare", "initialize": "200 s", "patience": "1500 s", "requeue_delay": "500 s"},
    }[use]
    rate = 1 / 1000.0
    one = case(
        failures=[
            {"use": "component", "name": "node", "part": "node", "rate": "8.64 per node-day", "idle_hazard": 0.0},
            {"use": "job", "name": "software", "rate": "86.4 per job-day"},
        ],
        detection={"time": "30 s"},
        cluster=nodes(10),
        jobs=[{"name": "job", "gpus": 10}],
        recovery=recovery,
        repair={"time": "3000 s"},
        checkpoint={"tiers": [{"interval": "300 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}]},
        horizon="200000 s",
    )
    found = clock = waiting = 0.0
    for result in results_of(one, 10):
        job = result.jobs[0]
        found += job.interruptions[2]
        buckets = dict(zip(sim.JOB_BUCKETS, job.buckets / job.gpus, strict=True))
        # After a requeue `reschedule` is the way to the queue.
        exposed = [name for name in EXPOSED if use != "patience" or name != "reschedule"]
        clock += sum(buckets[name] for name in exposed)
        waiting += buckets["starved"] + buckets["queued"]
    assert waiting > clock / 2, "it has to wait for long to show anything"
    assert abs(found - rate * clock) <= Z * math.sqrt(rate * clock)
    assert abs(found - rate * (clock + waiting)) > 2 * Z * math.sqrt(rate * (clock + waiting))


def test_held_nodes_fail_at_their_idle_hazard() -> None:
    """From the first failure on a job without spares waits: each of the others that comes then counts with the hazard.

    Nodes are not repaired within the horizon and fail once, at times that are drawn here too.
    """
    hazard, life, count = 0.25, 100_000.0, 40
    one = case(
        failures=[
            {
                "use": "component",
                "name": "node",
                "part": "node",
                "law": {"use": "exponential", "mean": f"{life} s"},
                "idle_hazard": hazard,
                "renews": "never",
            }
        ],
        cluster=nodes(count),
        jobs=[{"name": "job", "gpus": count}],
        recovery={"use": "hot-spare", "initialize": "0 s"},
        repair={"time": "1000 d"},
        horizon=f"{life} s",
    )
    hits = np.array([sum(result.jobs[0].interruptions.values()) for result in results_of(one, 60)])
    generator = np.random.default_rng(7)
    lives = np.sort(generator.exponential(life, (20_000, count)), axis=1)
    late = lives[:, 1:] < life
    theirs = (lives[:, 0] < life) + (late & (generator.random(late.shape) < hazard)).sum(axis=1)
    error = theirs.std() / math.sqrt(len(hits))
    assert abs(hits.mean() - theirs.mean()) <= Z * error
    assert abs(count * (1 - math.exp(-1)) - theirs.mean()) > 3 * Z * error, "the hazard can be seen"


def test_what_the_expected_mtti_is_the_mean_of() -> None:
    """It is stepping time over disruptions; over all interruptions that is shorter, and all time over them longer."""
    one = case(
        failures=[
            {"use": "component", "name": "node", "part": "node", "rate": "2 per node-day"},
            {"use": "job", "name": "software", "rate": "20 per job-day"},
        ],
        cluster=nodes(11),
        jobs=[{"name": "job", "gpus": 10}],
        spares={"hot": 1},
        repair={"time": "6000 s"},
        horizon="1000000 s",
    )
    jobs = [result.jobs[0] for result in results_of(one, 10)]
    running, elapsed = sum(job.running for job in jobs), sum(job.end - job.start for job in jobs)
    disruptions = sum(sum(job.disruptions.values()) for job in jobs)
    interruptions = sum(sum(job.interruptions.values()) for job in jobs)
    expected = one.jobs[0].mtti
    assert expected == pytest.approx(86400 / (10 * 2 + 20))
    assert abs(disruptions - running / expected) <= Z * math.sqrt(running / expected)
    margin = Z * math.sqrt(interruptions)
    assert running / expected < interruptions - margin
    assert elapsed / expected > interruptions + margin
