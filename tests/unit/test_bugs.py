"""Bugs of a job's software, by hand: at one point of its work, again and again, until somebody has mended them.

A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; a restart
takes 30 s and a restore 20 s. Its first bug waits at 250 s of work, which it reaches at 300 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from tests.cases import cases
from tests.harness import Z, losses, play, prepared, seconds
from tests.unit.test_effects import cause, slow

EXACT = 1e-9


def bug(at: str = "250 s", fix: str = "300 s", name: str = "bug", **more: Any) -> dict[str, Any]:
    """Return a source of bugs that are a fixed amount of work apart."""
    return {"use": "bug", "name": name, "law": {"law": "fixed", "value": at}, "fix": fix, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


def fixed(seconds_of_work: int) -> list[dict[str, Any]]:
    """Return the job with a fixed amount of work."""
    return [{"name": "job", "gpus": 2, "work": {"time": f"{seconds_of_work} s"}}]


@cases(("fix", "failures"), [("0 s", 1), ("99 s", 1), ("200 s", 2), ("201 s", 3), ("300 s", 3)])
def test_a_bug_strikes_at_the_same_work_until_it_is_mended(fix: str, failures: int) -> None:
    """It strikes at 300 s and every 100 s later, after 50 s of work each; mended in time, it lets the job pass."""
    one = case(bug(fix=fix), jobs=fixed(400), horizon="2000 s")
    result = play(one)
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "no_failure"): 30.0,
            ("lost_work", "bug"): 50.0 * failures,
            ("initialize", "bug"): 30.0 * failures,
            ("restore", "bug"): 20.0 * failures,
        },
        rel=EXACT,
    )
    # The last restart is over at 250 s + 100 s for each failure; then 100 s of work, a save, and 100 s more.
    assert result.jobs[0].end == pytest.approx(250 + 100 * failures + 100 + 10 + 100, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(400.0, rel=EXACT)
    assert result.jobs[0].interruptions == result.jobs[0].disruptions == {1: failures}
    for name in ("candidates", "faults", "failures", "hits"):
        assert result.counts[name] == failures


def test_the_next_bug_waits_further_on() -> None:
    """The first is passed at 600 s; the second waits at 500 s of work, which the job reaches at 870 s."""
    one = case(bug())
    result = play(one)
    assert losses(one, result)["lost_work", "bug"] == pytest.approx(150 + 100.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(400 + 80.0, rel=EXACT)
    assert result.jobs[0].interruptions == {1: 4}


def test_full_restart_meets_it_after_each_turn_in_the_queue() -> None:
    """A restart takes 90 s: failures at 300, 440 and 580 s; at 720 s it has been mended for 120 s."""
    one = case(bug(), recovery={"use": "full-restart", "delay": "40 s", "initialize": "30 s"}, horizon="900 s")
    result = play(one)
    assert losses(one, result)["reschedule", "bug"] == pytest.approx(120.0, rel=EXACT)
    assert result.jobs[0].interruptions == {1: 3}
    # 250 s of work at 720 s, then saves from 770 s and from 880 s on.
    assert result.jobs[0].work == pytest.approx(250 + 50 + 100 + 10, rel=EXACT)


def test_a_bug_that_is_mended_stays_so() -> None:
    """A crash throws the job back to before it; it does not strike again."""
    one = case(bug(), cause("crash"), jobs=fixed(400), horizon="2000 s")
    result = play(one, [(640, 1, 0)])
    assert result.jobs[0].interruptions == {1: 3, 2: 1}
    # From 290 s of work at 640 s to 200 s at 690 s; 200 s more, with one save.
    assert result.jobs[0].end == pytest.approx(690 + 210.0, rel=EXACT)


def test_a_crash_before_the_bug_moves_it_in_time_and_not_in_work() -> None:
    """The job loses 30 s of work at 280 s and meets the bug 50 s after it steps again, at 380 s."""
    one = case(bug(fix="1 d"), cause("crash"), horizon="400 s")
    result = play(one, [(280, 1, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "no_failure"): 20.0,
            ("lost_work", "crash"): 30.0,
            ("initialize", "crash"): 30.0,
            ("restore", "crash"): 20.0,
            ("lost_work", "bug"): 50.0,
            ("initialize", "bug"): 20.0,
        },
        rel=EXACT,
    )


def test_a_bug_counts_healthy_work_and_not_time() -> None:
    """At half the pace from 30 s on the job comes to it with its fifth stretch of 100 s, at 570 s."""
    one = case(bug(fix="1 d"), slow(0.5))
    result = play(one, [(10, 1, 0)])
    # 200 s of work are saved at 470 s. It strikes at 570, 720 and 870 s, 100 s after each restart.
    assert result.jobs[0].interruptions == {1: 3}
    assert losses(one, result)["lost_work", "bug"] == pytest.approx(3 * (50 + 50.0), rel=EXACT)


def test_bugs_of_several_kinds_come_in_the_order_of_work() -> None:
    """At 150, 250 and 300 s; each kind counts on from its own last one."""
    one = case(bug(fix="0 s"), bug("150 s", "0 s", "other"), jobs=fixed(440), horizon="5000 s")
    result = play(one)
    assert result.jobs[0].interruptions == {1: 1, 2: 2}
    # Lost: 50 s at 150 s, 50 s at 250 s, 100 s or nothing at 300 s: the save there had not begun.
    assert losses(one, result)["lost_work", "other"] == pytest.approx(50 + 100.0, rel=EXACT)
    assert losses(one, result)["lost_work", "bug"] == pytest.approx(50.0, rel=EXACT)


def test_work_that_ends_at_a_bug_or_before_never_meets_it() -> None:
    """The last step is done; what comes later is not the job's."""
    for work in (250, 240):
        result = play(case(bug(), jobs=fixed(work)))
        assert result.jobs[0].finished
        assert result.jobs[0].interruptions == {}


def test_each_job_has_its_own_bugs() -> None:
    """The other job meets them at its own work, and neither stops for the other's."""
    jobs = [{"name": "one", "gpus": 2}, {"name": "two", "gpus": 2, "arrival": "100 s"}]
    one = case(bug(fix="0 s"), jobs=jobs, horizon="390 s")
    result = play(one)
    assert result.jobs[0].interruptions == {1: 1}
    assert result.jobs[1].interruptions == {}
    result = play(case(bug(fix="0 s"), jobs=jobs, horizon="410 s"))
    assert result.jobs[1].interruptions == {1: 1}
    assert seconds(result, 1)["lost_work"] == pytest.approx(50.0, rel=EXACT)


def test_detection_of_a_bug_is_its_own() -> None:
    """Its failures wait for its own detection, or for the scenario's."""
    one = case(bug(detection="7 s"), detection={"time": "5 s"}, horizon="320 s")
    assert losses(one, play(one))["detection", "bug"] == pytest.approx(7.0, rel=EXACT)
    one = case(bug(), detection={"time": "5 s"}, horizon="320 s")
    assert losses(one, play(one))["detection", "bug"] == pytest.approx(5.0, rel=EXACT)


def test_restarts_that_take_no_time_wait_for_the_mended_program() -> None:
    """The save at the bug takes no time, nor does a restart: without a rule the clock would never move again."""
    saves = {"tiers": [{"interval": "100 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}
    for use in ("hot-spare", "full-restart"):
        one = case(bug("100 s"), checkpoint=saves, recovery={"use": use, "initialize": "0 s"})
        result = play(one)
        # At 100, 500 and 900 s, each mended 300 s later.
        assert result.jobs[0].interruptions == {1: 3}
        assert seconds(result) == pytest.approx({"productive": 300.0, "reschedule": 700.0}, rel=EXACT)


def test_bugs_over_healthy_work_are_a_poisson_process() -> None:
    """However often the job is thrown back, 40 h of work at 0.5 bugs an hour meet 20 of them, give or take."""
    sources = [
        {"use": "bug", "name": "bug", "rate": "0.5 per job-h", "fix": "0 s"},
        {"use": "component", "name": "crash", "part": "node", "rate": "0.5 per node-h"},
    ]
    one = case(*sources, jobs=[{"name": "job", "gpus": 2, "work": {"time": "40 h"}}], horizon="60 d")
    replications = 120
    met = []
    for replication in range(replications):
        job = sim.run(one, replication).jobs[0]
        assert job.finished
        met.append(job.interruptions.get(1, 0))
    assert abs(np.mean(met) - 20) <= Z * (20 / replications) ** 0.5
    # The variance of n Poisson numbers with a mean of m has a standard error of sqrt(m / n + 2 m^2 / (n - 1)).
    assert abs(np.var(met, ddof=1) - 20) <= Z * (20 / replications + 2 * 20**2 / (replications - 1)) ** 0.5
