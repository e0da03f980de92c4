"""Optimizer steps that survive, by hand: with a replica less a step trains fewer tokens, or takes longer.

A job of two replicas of one node with steps of 10 s steps from the start, for 90 s at a time, with a blocking save of
10 s in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from analysis.metrics import ratios
from analysis.statistics.estimates import means
from sim.policies.contracts import Acquire, Background, Plan, Restore, Run
from tests.cases import cases
from tests.harness import play, prepared, seconds
from tests.unit.test_effects import cause, nodes, slow
from tests.unit.test_engine_damage import software
from tests.unit.test_plan_steps import Scripted

if TYPE_CHECKING:
    import sim

EXACT = 1e-9
LEAVE: Plan = (Background((Acquire(),)), Restore("live"), Run())
RESTART: Plan = (Restore(), Run())
NEVER_BACK = 5000.0


def case(on_loss: str = "shrink", **changes: Any) -> sim.Prepared:
    """Return the job that this file is about; its first cause makes a replica leave, its second one a restart."""
    batch = {"tokens": 1024, "sequence": 128, "on_loss": on_loss}
    job = {"name": "job", "gpus": 2, "step_time": "10 s", "parallelism": {"data": 2}, "batch": batch}
    base: dict[str, Any] = {
        "cluster": nodes(2),
        "jobs": [job | changes.pop("job", {})],
        "failures": [cause("first"), software("second")],
        "recovery": {"use": "shrink-rejoin", "reconfigure": "0 s", "initialize": "0 s"},
        "checkpoint": {"tiers": [{"interval": "90 s", "mode": "blocking", "write": "10 s", "restore": "0 s"}]},
    }
    return replace(prepared(**{**base, **changes}), recovery=Scripted(LEAVE, RESTART, elastic=True))


def test_without_failures() -> None:
    """Ten cycles of nine steps; those of a job that is done add up to its work."""
    result = play(case())
    assert result.jobs[0].steps == pytest.approx(90.0, abs=EXACT)
    assert means([ratios(case(), result)])["steps_per_day"] == pytest.approx(90 / 1000 * 86_400, rel=EXACT)
    done = play(case(job={"work": {"steps": 37}}))
    assert done.jobs[0].finished
    assert done.jobs[0].steps == pytest.approx(37.0, abs=EXACT)


def test_without_a_step_time_nobody_counts() -> None:
    """There is nothing to say, and no metric that would."""
    one = prepared()
    result = play(one)
    assert result.jobs[0].steps == 0.0
    assert "steps_per_day" not in means([ratios(one, result)])


def test_a_step_with_a_replica_less_counts_one() -> None:
    """From 200 s on the other one steps alone, as fast as ever: 18 steps, and 72 that do half of the work each."""
    one = case()
    result = play(one, [(200, 0, 0, NEVER_BACK)])
    assert result.jobs[0].steps == pytest.approx(18 + 72.0, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(180 + 360.0, abs=EXACT)
    found = means([ratios(one, result)])
    assert found["steps_per_day"] == pytest.approx(90 / 1000 * 86_400, rel=EXACT)
    assert found["tokens_per_day"] == pytest.approx(54 * 1024 / 1000 * 86_400, rel=EXACT)


def test_a_step_with_the_batch_kept_takes_longer() -> None:
    """From 200 s on a step takes 20 s: seven cycles of five steps and a save, and 30 s. Each does all of its work."""
    one = case("keep")
    result = play(one, [(200, 0, 0, NEVER_BACK)])
    assert result.jobs[0].steps == pytest.approx(18 + 35 + 1.5, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(10 * result.jobs[0].steps, abs=EXACT)


def test_a_slow_node_makes_longer_steps() -> None:
    """At half the pace from 400 s on: 36 steps, and five cycles of 110 s with five steps of 20 s each, and 50 s."""
    one = case(failures=[slow(0.5)])
    result = play(one, [(400, 0, 0)])
    assert result.jobs[0].steps == pytest.approx(36 + 25 + 2.5, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(10 * result.jobs[0].steps, abs=EXACT)


def test_a_rollback_takes_steps_back() -> None:
    """At 185 s 17.5 steps are done, 9 of them saved; from then on 815 s hold eight cycles and 15 s."""
    result = play(case(), [(185, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(85.0, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(9 + 72 + 1.5, abs=EXACT)


def test_a_rollback_takes_back_the_steps_that_were_made() -> None:
    """From 150 s on one replica steps alone: of 17.5 steps at 185 s 9 are saved, whatever the others were worth.

    Lost are 5 steps of both and 3.5 of one: 67.5 s of work. The replica goes on alone: eight cycles of nine steps of
    half the work, and 15 s.
    """
    result = play(case(), [(150, 0, 0, NEVER_BACK), (185, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(67.5, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(9 + 72 + 1.5, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(90 + 0.5 * 735, abs=EXACT)


def test_a_rollback_beyond_a_change_and_back() -> None:
    """Alone from 30 to 60 s, then both: 9.5 steps at 95 s, worth 80 s of work; a restart takes all of them."""
    one = case(checkpoint={"tiers": [{"interval": "1 d", "mode": "blocking", "write": "10 s", "restore": "0 s"}]})
    result = play(one, [(30, 0, 0, 60), (95, 1, 0)])
    assert seconds(result)["lost_work"] == pytest.approx(80.0, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(90.5, abs=EXACT)
    assert result.jobs[0].work == pytest.approx(905.0, abs=EXACT)


@cases(("at", "steps"), [(205.0, 18.0), (195.0, 18.0), (207.0, 18.0)])
def test_a_step_in_flight_does_not_count(at: float, steps: float) -> None:
    """Who goes on from the last step has lost what it has of the next one: at 205 s half a step, at 195 s none."""
    one = case()
    recovery = Scripted((Restore("live"), Run()), (Restore("live"), Run()), elastic=True)
    result = play(one, [(at, 1, 0)], recovery)
    lost = max(at - 200.0, 0.0)
    assert seconds(result).get("lost_work", 0.0) == pytest.approx(lost, abs=EXACT)
    assert result.jobs[0].steps == pytest.approx(result.jobs[0].work / 10, abs=EXACT)
    assert result.jobs[0].steps >= steps
