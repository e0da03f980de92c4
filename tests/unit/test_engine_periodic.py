"""Work that stops a job again and again, by hand: where its time goes, and that it is done again after a rollback.

A job of two nodes with steps of 5 s starts to step after 30 s, with a blocking save of 10 s after each 100 s of
stepping. A restart takes 30 s and a restore 20 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sim
from analysis.metrics import ratios
from analysis.statistics.estimates import means
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.unit.test_effects import SHRINK, cause, nodes
from tests.unit.test_engine_damage import HOST, REMOTE, software

if TYPE_CHECKING:
    from collections.abc import Sequence

EXACT = 1e-9


def work(every: str, time: str, name: str = "evaluation") -> dict[str, Any]:
    """Return a series of work."""
    return {"name": name, "every": every, "time": time}


def case(*series: dict[str, Any], sources: Sequence[dict[str, Any]] = (), **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    job: dict[str, Any] = {"name": "job", "gpus": 2, "step_time": "5 s", "periodic": list(series)}
    job |= changes.pop("job", {})
    return prepared(**{"jobs": [job], "failures": list(sources), **changes})


# ---------------------------------------------------------------------------------------------- without failures


@cases("every", ["20 steps", "100 s", "96 s"])
def test_work_that_is_due_with_a_save_follows_it(every: str) -> None:
    """Cycles of 100 + 10 + 15 s: seven of them and 95 s are left of 970 s. Times are rounded up to whole steps."""
    assert seconds(play(case(work(every, "15 s")))) == pytest.approx(
        {"initialize": 30, "productive": 795, "checkpoint_stall": 70, "auxiliary": 105}, abs=EXACT
    )


def test_work_with_a_rhythm_of_its_own() -> None:
    """Every 150 s of stepping: of 970 s 815 s are stepped, with eight saves and five times of 15 s."""
    one = case(work("150 s", "15 s"))
    result = play(one)
    assert seconds(result) == pytest.approx(
        {"initialize": 30, "productive": 815, "checkpoint_stall": 80, "auxiliary": 75}, abs=EXACT
    )
    assert losses(one, result)["auxiliary", "no_failure"] == pytest.approx(75.0, abs=EXACT)
    assert result.jobs[0].running == pytest.approx(970.0, abs=EXACT)


def test_several_series() -> None:
    """Every 150 s for 15 s, and every 200 s for 7 s: 796 s are stepped, with seven saves, five times and three."""
    result = play(case(work("30 steps", "15 s"), work("200 s", "7 s", "check")))
    # To 800 s of stepping it takes 70 + 75 + 21 s: at 966 s. The last save has begun 4 s before the horizon.
    assert seconds(result) == pytest.approx(
        {"initialize": 30, "productive": 800, "checkpoint_stall": 70 + 4, "auxiliary": 75 + 21}, abs=EXACT
    )


def test_hours() -> None:
    """Every 2 h for 5 min, for ten days."""
    one = case(
        work("2 h", "5 min"),
        checkpoint={"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 min", "restore": "1 min"}]},
        horizon="10 d",
    )
    found = seconds(play(one))
    # Each cycle: two hours, two saves and an evaluation; 864000 - 30 s hold 113 and 2370 s.
    cycle = 7200 + 120 + 300
    assert (864_000 - 30) // cycle == 113
    assert found["auxiliary"] == pytest.approx(113 * 300.0, abs=1e-6)
    assert found["checkpoint_stall"] == pytest.approx(113 * 120.0, abs=1e-6)


@cases(
    "recovery",
    [
        {"use": "hot-spare", "initialize": "30 s"},
        {"use": "full-restart", "initialize": "30 s"},
        SHRINK,
        {"use": "restart-smaller", "launch": "30 s"},
    ],
    ids=lambda recovery: str(recovery["use"]),
)
def test_without_failures_the_rest_is_stalls_and_the_start(recovery: dict[str, Any]) -> None:
    """Once it has its nodes, a job loses time to its start, its saves and this work, and to nothing else."""
    checkpoint = {"tiers": [{**HOST, "interval": "35 s", "stall": "1 s"}, REMOTE]}
    one = case(
        work("7 steps", "3 s"),
        work("1 min", "2 s", "check"),
        job={"parallelism": {"data": 2}},
        recovery=recovery,
        checkpoint=checkpoint,
    )
    result = play(one)
    found = means([ratios(one, result)])
    shares = {name: value / 1000 for name, value in seconds(result).items()}
    expected = 1 - shares["checkpoint_stall"] - shares["auxiliary"] - shares["initialize"]
    assert found["ettr_no_queue"] == pytest.approx(expected, rel=EXACT)
    assert shares.keys() == {"checkpoint_stall", "auxiliary", "initialize", "productive"}


def test_a_fixed_amount_of_work_ends_on_time() -> None:
    """500 s of work: four whole cycles of 125 s and 100 s; the stop that would follow is not waited for."""
    result = play(case(work("20 steps", "15 s"), job={"work": {"time": "500 s"}}, horizon="2000 s"))
    assert result.jobs[0].end == pytest.approx(30 + 500 + 4 * 25.0, abs=EXACT)
    assert result.jobs[0].finished
    assert seconds(result)["auxiliary"] == pytest.approx(60.0, abs=EXACT)
    # Within a cycle as well.
    result = play(case(work("150 s", "15 s"), job={"work": {"steps": 91}}, horizon="2000 s"))
    assert result.jobs[0].end == pytest.approx(30 + 455 + 40 + 45.0, abs=EXACT)


def test_replicas_that_are_away_do_not_take_part() -> None:
    """One of two replicas is away from 80 s on: the other's evaluation costs half of the job's GPUs."""
    jobs = {"parallelism": {"data": 2}}
    one = case(work("100 s", "15 s"), sources=[cause("first")], job=jobs, recovery=SHRINK, cluster=nodes(2))
    result = play(one, [(80, 0, 0, 5000)])
    # Starts at 60 s, stalls to 90 s; 15 of 20 s are whole steps. 910 s: seven cycles of 125 s and 35 s, from 20 s on.
    found = seconds(result)
    assert found["auxiliary"] == pytest.approx(7 * 15 / 2, abs=EXACT)
    assert found["checkpoint_stall"] == pytest.approx(7 * 10 / 2, abs=EXACT)


# ------------------------------------------------------------------------------------------------ with failures


def test_work_that_a_rollback_takes_back_is_done_again() -> None:
    """Evaluated every 30 s for 3 s, the job fails at 291 s with 220 s of work, 200 s of them durable.

    The evaluation at 210 s of work has been and comes again. Of the 659 s from 341 s on 552 s are stepped, with five
    saves, and evaluations at 210, 240, ..., 750 s of work.
    """
    one = case(work("6 steps", "3 s"), sources=[software()])
    result = play(one, [(291, 0, 0)])
    assert seconds(result) == pytest.approx(
        {
            "initialize": 60,
            "productive": 752,
            "checkpoint_stall": 20 + 50,
            "auxiliary": 7 * 3 + 19 * 3,
            "lost_work": 20,
            "restore": 20,
        },
        abs=EXACT,
    )
    assert losses(one, result)["auxiliary", "no_failure"] == pytest.approx(78.0, abs=EXACT), "what was done is paid for"


def test_a_failure_in_the_middle_of_it() -> None:
    """The third evaluation begins at 220 s, with 150 s of work; 5 s later the job fails and goes back to 100 s.

    From 275 s on there are five cycles of 100 s of stepping, two evaluations and a save, and 25 s.
    """
    one = case(work("50 s", "15 s"), sources=[software()])
    assert seconds(play(one, [(225, 0, 0)])) == pytest.approx(
        {
            "initialize": 60,
            "productive": 100 + 500 + 25,
            "checkpoint_stall": 10 + 50,
            "auxiliary": 15 + 15 + 5 + 5 * 30,
            "lost_work": 50,
            "restore": 20,
        },
        abs=EXACT,
    )


def test_a_save_because_of_a_notice_does_not_evaluate() -> None:
    """At 300 s the job saves for 10 s and leaves its node; the evaluation keeps its rhythm."""
    window = {"start": "200 s", "duration": "100 s"}
    care = {"use": "maintenance", "name": "care", "windows": [window]}
    one = case(work("50 s", "5 s"), sources=[care])
    result = sim.run(one, 0)
    # To 200 s: 30 + 50 + 5 + 50 + 15 + 50 = 200: the third evaluation is due. Saved to 210, restarted to 260 s.
    assert losses(one, result)["checkpoint_stall", "care"] == pytest.approx(10.0, abs=EXACT)
    assert "lost_work" not in seconds(result)
    assert sum(seconds(result).values()) == pytest.approx(1000.0, abs=EXACT)


# -------------------------------------------------------------------------------------------------- bad input


def test_steps_need_the_time_of_a_step() -> None:
    """Who does not say how long a step takes cannot count them."""
    with pytest.raises(
        ValueError, match=r"periodic.*'20 steps' needs the time of a step: give the job step_time or mfu"
    ):
        case(work("20 steps", "15 s"), job={"step_time": None})
    seconds(play(case(work("100 s", "15 s"), job={"step_time": None})))


@cases("every", ["0 steps", "1.5 steps", "0 s", "-1 s", "steps", "often"])
def test_a_rhythm_has_to_be_one(every: str) -> None:
    """A whole number of steps above zero, or a time above zero."""
    with pytest.raises(ValueError, match="every"):
        case(work(every, "15 s"))
