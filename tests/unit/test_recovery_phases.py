"""Phases of a recovery: the slowest of many nodes, growth with the size, who takes part, and how they are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sim import rng
from sim.policies.contracts import FAULTS, Bucket, Stall
from sim.policies.recovery import Ladder, ShrinkRejoin
from sim.policies.recovery.phases import Crew, Phase, longest, mean, steps, total
from sim.scenario.laws import Empirical, Exponential, Fixed, Lognormal, Uniform, Weibull
from sim.steps.plan import communicator_time
from tests.cases import cases
from tests.intervals import Z
from tests.recovery_checks import mean_times

JOB = Crew(64.0, 8, 0)


def phase(**keys: Any) -> Phase:
    """Return a phase as a file would give it."""
    return Phase.model_validate({"name": "one", "time": "10 s"} | keys)


def number(value: float) -> Any:
    """Return a mark that gives one number for every purpose."""
    return lambda purpose: value


# ------------------------------------------------------------------------------------------------ the slowest


@cases("count", [1, 2, 7, 100, 2048, 100_000])
def test_the_mean_of_the_longest_is_that_of_theory(count: int) -> None:
    """Exponential: the harmonic number; uniform: low + width n/(n+1); Weibull: by inclusion and exclusion; a sample."""
    harmonic = math.fsum(1 / k for k in range(1, count + 1))
    assert longest(Exponential.from_seconds(mean=3.0), count) == pytest.approx(3 * harmonic, rel=1e-6)
    uniform = Uniform.from_seconds(low=1.0, high=4.0)
    assert longest(uniform, count) == pytest.approx(1 + 3 * count / (count + 1), rel=1e-6)
    sample = (1.0, 2.0, 7.0)
    steps_up = sum(x * (((k + 1) / 3) ** count - (k / 3) ** count) for k, x in enumerate(sample))
    assert longest(Empirical.from_seconds(values=sample), count) == pytest.approx(steps_up, rel=1e-6)
    assert longest(Fixed.from_seconds(value=5.0), count) == 5.0
    if count < 10:
        weibull = Weibull.from_seconds(shape=2.0, scale=3.0)
        terms = ((-1) ** (k + 1) * math.comb(count, k) / math.sqrt(k) for k in range(1, count + 1))
        assert longest(weibull, count) == pytest.approx(3 * math.gamma(1.5) * math.fsum(terms), rel=1e-6)


def test_one_number_gives_the_slowest_of_many() -> None:
    """The drawn time has the distribution function F^n: at its quantiles, and in the mean of many draws."""
    law = {"law": "lognormal", "median": "15 s", "sigma": 0.3}
    slowest = phase(time=law, each="node")
    crew = Crew(0.0, 2048, 0)
    for u in (0.01, 0.5, 0.99):
        time = slowest.seconds(crew, number(u), "launch")
        assert Lognormal.from_seconds(median=15.0, sigma=0.3).cdf(np.array([time]))[0] ** 2048 == pytest.approx(u)
    draws = 4000
    numbers = rng.uniform(rng.stream(1, 0, "phases"), range(draws))
    times = np.array([slowest.seconds(crew, number(float(u)), "launch") for u in numbers])
    assert abs(times.mean() - slowest.mean_seconds(crew)) < Z * times.std() / math.sqrt(draws)


def test_no_number_is_too_close_to_one() -> None:
    """The largest number that there is still gives a finite time, whatever the size of the job."""
    slowest = phase(time={"law": "exponential", "mean": "1 s"}, each="node")
    assert slowest.seconds(Crew(1.0, 10**6, 0), number(1 - 2.0**-53), "launch") < 60


def test_collectives_take_as_long_as_published() -> None:
    """17 s at 16,384 GPUs with the exponent 1.36 is the law of collectives: 17, 26, 112 and 200 s at four sizes."""
    collectives = phase(time="17 s", at=16384, exponent=1.36)
    for thousands, seconds in ((16, 17), (22, 26), (64, 112), (98, 200)):
        time = collectives.seconds(Crew(thousands * 1024.0, 1, 0), number(0.5), "launch")
        assert time == pytest.approx(communicator_time(thousands * 1024.0), rel=1e-12)
        assert time == pytest.approx(seconds, rel=0.01)


# ---------------------------------------------------------------------------------------------- who takes part


def test_who_takes_part() -> None:
    """Phases of joiners need joiners, and count only those; phases of some faults need one of these."""
    joiners = phase(time={"law": "uniform", "low": "0 s", "high": "8 s"}, each="node", joiners=True)
    assert total((joiners,), JOB, number(0.25), "launch") == 0.0
    assert total((joiners,), JOB._replace(joiners=2), number(0.25), "launch") == pytest.approx(8 * 0.5)
    assert mean((joiners,), JOB._replace(joiners=3)) == (0.0, pytest.approx(8 * 0.75))
    some = phase(faults=["hang", "slow"])
    assert [fault for fault in FAULTS if total((some,), JOB, number(0.5), "stop", fault)] == ["hang", "slow"]
    assert total((some,), JOB, number(0.5), "launch") == 0.0, "a start has no fault"


def test_steps_of_one_exposure_are_one_step() -> None:
    """Phases that failures can hit, or cannot, are charged together; the mean keeps the two apart."""
    parts = [
        phase(name="a", time="1 s"),
        phase(name="b", time="2 s"),
        phase(name="c", time="4 s", exposed=False),
        phase(name="d", time="8 s"),
        phase(name="e", time="0 s"),
    ]
    assert steps(tuple(parts), Bucket.RESCHEDULE, JOB, number(0.5), "stop") == (
        Stall(Bucket.RESCHEDULE, 3.0),
        Stall(Bucket.RESCHEDULE, 4.0, exposed="none"),
        Stall(Bucket.RESCHEDULE, 8.0),
    )
    assert mean(tuple(parts), JOB) == (4.0, 11.0)
    assert total(tuple(parts), JOB, number(0.5), "stop") == 15.0
    assert steps(Fixed.from_seconds(value=0.0), Bucket.RESCHEDULE, JOB, number(0.5), "stop") == ()


def test_each_phase_has_its_own_number() -> None:
    """A phase asks for the number of its purpose and name; a plain law for that of its purpose alone."""
    asked: list[str] = []

    def mark(purpose: str) -> float:
        asked.append(purpose)
        return 0.5

    law = {"law": "uniform", "low": "0 s", "high": "8 s"}
    phases = (phase(name="a", time=law), phase(name="b", time=law), phase(name="c"))
    total(phases, JOB, mark, "launch")
    total(Uniform.from_seconds(low=0.0, high=8.0), JOB, mark, "launch")
    assert asked == ["launch a", "launch b", "launch"]
    steps(phases, Bucket.INITIALIZE, JOB, mark, "stop")
    steps(Uniform.from_seconds(low=0.0, high=8.0), Bucket.INITIALIZE, JOB, mark, "stop")
    assert asked[3:] == ["stop a", "stop b", "stop"]


# ------------------------------------------------------------------------------------------------- as written


@cases(
    "written",
    [
        "30 s",
        {"law": "lognormal", "median": "20 s", "sigma": 0.5},
        [],
        [{"name": "a", "time": "3 s"}],
        [
            {"name": "a", "time": {"law": "exponential", "mean": "3 s"}, "each": "node", "joiners": True},
            {"name": "b", "time": "17 s", "at": 16384, "exponent": 1.36, "faults": ["gpu", "host"], "exposed": False},
        ],
    ],
    ids=["text", "law", "none", "one", "two"],
)
def test_what_is_written_is_read_back(written: Any) -> None:
    """A time, a law and a list of phases survive being written out, and stay what they were."""
    recovery = ShrinkRejoin.model_validate({"use": "shrink-rejoin", "reconfigure": "1 s", "initialize": written})
    data = recovery.model_dump(mode="json")
    assert ShrinkRejoin.model_validate(data) == recovery
    assert isinstance(data["initialize"], list) == isinstance(written, list)


def test_a_time_is_the_phase_of_that_time() -> None:
    """A plain time, and one phase of it, make the same plan."""
    plain, listed = (
        Ladder.model_validate({"use": "ladder", "rungs": [{"name": "one", "keeps": "hosts", "launch": launch}]})
        for launch in ("30 s", [{"name": "all", "time": "30 s"}])
    )
    assert mean_times(plain, 64, 8) == mean_times(listed, 64, 8) == (0.0, 30.0)


@cases(
    ("keys", "rule"),
    [
        ({"exponent": 1.36}, "needs 'at'"),
        ({"at": 16384}, "needs an 'exponent' above 0"),
        ({"faults": []}, "at least 1 item"),
        ({"faults": ["gpus"]}, "gpu"),
        ({"name": ""}, "at least 1 character"),
        ({"exponent": -1.0, "at": 1}, "greater than or equal to 0"),
    ],
)
def test_phases_that_make_no_sense(keys: dict[str, Any], rule: str) -> None:
    """A growth from nowhere, a size without growth, and classes that nothing belongs to are refused."""
    with pytest.raises(ValidationError, match=rule):
        phase(**keys)


def test_names_are_for_one_phase_each() -> None:
    """Two phases of one name would share their random numbers."""
    twice = [{"name": "a", "time": "3 s"}, {"name": "a", "time": "4 s"}]
    with pytest.raises(ValidationError, match="also the name of an earlier phase"):
        ShrinkRejoin.model_validate({"use": "shrink-rejoin", "reconfigure": twice, "initialize": "1 s"})


def test_a_phase_that_a_start_does_without() -> None:
    """Machines are replaced after faults; at a start there is nothing to replace."""
    phases = (Phase(name="machine", time="5 min", joiners=True, at_start=False), Phase(name="imports", time="10 s"))
    crew = Crew(64, 8, 8)
    assert total(phases, crew, lambda _: 0.5, "launch") == 10.0
    assert total(phases, crew, lambda _: 0.5, "launch", "host") == 310.0
    assert mean(phases, crew) == (0.0, 310.0)
