"""Who notices a fault, and when: the minimum of independent times, against its exact distribution."""

from __future__ import annotations

import itertools
import math
import pickle
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick.analysis.ratios import ratios
from ettrick.analysis.statistics.estimates import means
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.policies.detection.race import DetectionRace, Detector
from ettrick.sim.scenario.laws import (
    Empirical,
    Exponential,
    Fixed,
    Gamma,
    Lognormal,
    Mixture,
    MixturePart,
    Uniform,
    Weibull,
)
from tests.cases import cases
from tests.detection_checks import marks, times
from tests.harness import losses, play, prepared, seconds
from tests.intervals import LEAST, Z, close
from tests.pace import one_in
from tests.unit.test_effects import NEVER, SHRINK, cause, nodes
from tests.unit.test_planned import care

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick import sim
    from ettrick.sim.scenario.law_model import LawModel

# ----------------------------------------
# Jobs that are told beforehand that they have to stop, by hand: maintenance with notice, and preemption.
#
# A job of two nodes starts to step after 30 s, for 100 s at a time, with a blocking save of 10 s in between; at 300 s
# it
# has done 250 s of work, 200 s of them durable. A save takes 10 s, a restart 30 s and a restore 20 s.

EXACT = 1e-9


def preemption(away: Any = "100 s", **more: Any) -> dict[str, Any]:
    """Return a source of preemptions that strikes only where a trace says so."""
    return {"use": "preemption", "name": "preempted", "law": NEVER["law"], "away": away, **more}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), **changes})


@cases(("notice", "saves"), [("10 s", True), ("9.9 s", False), ("0 s", False), (None, True)])
def test_a_notice_is_long_enough_for_a_save_or_it_is_not(notice: str | None, saves: bool) -> None:
    """A notice of exactly the time of a save is enough; without one there is time."""
    one = case(care(notice=notice))
    table = losses(one, play(one, [(300, 0, 0, 700)]))
    assert table.get(("checkpoint_stall", "care"), 0.0) == pytest.approx(10.0 if saves else 0.0, abs=EXACT)
    assert table.get(("lost_work", "care"), 0.0) == pytest.approx(0.0 if saves else 50.0, abs=EXACT)
    assert table["initialize", "care"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "care"] == pytest.approx(20.0, abs=EXACT)


def test_a_job_that_has_no_time_to_save_is_interrupted_as_planned_all_the_same() -> None:
    """The count of those that nobody planned stays that of the failures."""
    one = case(care(notice="1 s"), cause("crash"))
    found = means([ratios(one, play(one, [(300, 0, 0, 700), (800, 1, 1)]))])
    assert (found["interruptions_planned"], found["interruptions_unplanned"]) == (1, 1)


def test_a_preempted_job_saves_and_comes_back_when_its_nodes_do() -> None:
    """Saved to 310 s, away to 410 s, initialized to 440 s and restored to 460 s, on top of 250 s of work."""
    one = case(preemption(notice="10 s"), detection={"time": "50 s"})
    result = play(one, [(300, 0, 0)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("checkpoint_stall", "preempted"): 10.0,
            ("reschedule", "preempted"): 100.0,
            ("initialize", "preempted"): 30.0,
            ("restore", "preempted"): 20.0,
            # Before it at 130 and 240 s; after it at 560, 670, 780 and 890 s.
            ("checkpoint_stall", "no_failure"): 20 + 40.0,
        },
        abs=EXACT,
    )
    assert result.jobs[0].work == pytest.approx(250 + 500.0, abs=EXACT)
    assert result.jobs[0].restores == {"remote": 1}
    assert result.down_node_seconds == 0.0, "its nodes are well"


def test_without_notice_what_is_not_durable_is_lost() -> None:
    """No notice is the default: 50 s are lost, and the job is away from 300 s on."""
    one = case(preemption())
    result = play(one, [(300, 0, 0)])
    table = losses(one, result)
    assert table["lost_work", "preempted"] == pytest.approx(50.0, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert ("checkpoint_stall", "preempted") not in table
    # 450 to 1000 s: five saves.
    assert result.jobs[0].work == pytest.approx(200 + 500.0, abs=EXACT)


def test_others_have_the_nodes_while_a_job_is_away() -> None:
    """The other job waits for them from the start, and is still at work when the first one may come back.

    a: away from 310 to 410 s, queued until b is done. b: initialized to 340 s, 300 s of work and two saves to 660 s.
    """
    jobs = [{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2, "arrival": "1 s", "work": {"time": "300 s"}}]
    one = case(preemption(notice="1 min"), cluster=nodes(2), jobs=jobs)
    result = play(one, [(300, 0, 0)])
    assert result.jobs[1].start == pytest.approx(310.0, abs=EXACT)
    assert result.jobs[1].end == pytest.approx(660.0, abs=EXACT)
    table = losses(one, result)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["queued", "preempted"] == pytest.approx(250.0, abs=EXACT)
    assert losses(one, result, 1) == pytest.approx(
        {("queued", "no_failure"): 309.0, ("initialize", "no_failure"): 30.0, ("checkpoint_stall", "no_failure"): 20.0},
        abs=EXACT,
    )


def test_the_time_away_may_be_random() -> None:
    """It is the quantile of its law at the number of that failure, so it differs between preemptions and repeats."""
    one = case(preemption({"use": "uniform", "low": "50 s", "high": "150 s"}))
    away = [losses(one, play(one, [(300, 0, 0)], replication=number))["reschedule", "preempted"] for number in range(8)]
    assert all(50.0 <= seconds_away <= 150.0 for seconds_away in away)
    assert len(set(away)) == 8
    assert away[0] == losses(one, play(one, [(300, 0, 0)]))["reschedule", "preempted"]
    wide = case(preemption({"use": "uniform", "low": "100 s", "high": "300 s"}))
    assert losses(wide, play(wide, [(300, 0, 0)]))["reschedule", "preempted"] == pytest.approx(2 * away[0], rel=EXACT)


def test_a_preemption_during_the_start_begins_the_start_again() -> None:
    """There is nothing to save at 20 s; the job is away to 120 s and steps from 150 s on."""
    one = case(preemption(notice="1 h"))
    table = losses(one, play(one, [(20, 0, 0)]))
    assert table["initialize", "no_failure"] == pytest.approx(20.0, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["initialize", "preempted"] == pytest.approx(30.0, abs=EXACT)
    assert ("checkpoint_stall", "preempted") not in table


def test_a_job_that_is_looking_for_a_fault_goes_too() -> None:
    """At 320 s nobody knows of the crash at 300 s yet: the job leaves, and its crashed node goes to repair."""
    one = case(preemption(notice="1 h"), cause("crash"), detection={"time": "50 s"})
    result = play(one, [(320, 0, 0), (300, 1, 0)])
    table = losses(one, result)
    assert table["detection", "crash"] == pytest.approx(20.0, abs=EXACT)
    assert table["lost_work", "crash"] == pytest.approx(50.0, abs=EXACT), "a job that stands still saves nothing"
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert "starved" not in seconds(result)
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert result.jobs[0].merged == 1


def test_replicas_that_are_away_go_as_well() -> None:
    """One of two replicas is on its own when the whole job is preempted: all come back together.

    The crash at 300 s stalls the survivor to 310 s; at 330 s it has 250 + 20/2 s of work. It saves to 340 s, is away to
    440 s, and starts with two whole replicas: 60 s to initialize and 20 s to restore.
    """
    jobs = [{"name": "job", "gpus": 2, "parallelism": {"data": 2}}]
    start = {**SHRINK, "initialize": "30 s", "catch_up": "70 s"}
    one = case(preemption(notice="1 min"), cause("crash"), jobs=jobs, recovery=start)
    result = play(one, [(330, 0, 0), (300, 1, 0)])
    table = losses(one, result)
    # The replica that is away initializes for 30 s and catches up when it is called back, at 340 s.
    assert table["initialize", "crash"] == pytest.approx(30 / 2, abs=EXACT)
    assert table["restore", "crash"] == pytest.approx(10 / 2, abs=EXACT)
    assert table["checkpoint_stall", "preempted"] == pytest.approx(10 / 2, abs=EXACT)
    assert table["reschedule", "preempted"] == pytest.approx(100.0, abs=EXACT)
    assert table["initialize", "preempted"] == pytest.approx(30.0, abs=EXACT)
    assert table["restore", "preempted"] == pytest.approx(20.0, abs=EXACT)
    assert ("lost_work", "crash") not in table
    assert result.jobs[0].restores == {"remote": 1}
    # From 490 s on: four saves.
    assert result.jobs[0].work == pytest.approx(260 + 470.0, abs=EXACT)


def test_a_save_that_is_cut_off_has_lost_nothing_yet() -> None:
    """Half of the copies turn out to be bad when they are read; one that was never complete is not read at all.

    The window opens at 300 s, and a crash cuts the save off at 305 s. What counts as productive is what is left.
    """
    tier = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s", "corrupt": "50 %"}
    one = case(care(), cause("crash"), checkpoint={"tiers": [tier]}, windows="90 s")
    for replication in range(20):
        result = play(one, [(300, 0, 0, 700), (305, 1, 1)], replication=replication)
        job = result.jobs[0]
        assert job.buckets[Bucket.PRODUCTIVE] == pytest.approx(job.work * job.gpus, rel=EXACT)
        assert job.totals.min() >= -EXACT


N = 20_000


def fixed(value: float) -> Fixed:
    """Return the law of one time [s]."""
    return Fixed.from_seconds(value=value)


def exponential(mean: float) -> Exponential:
    """Return an exponential law of a mean [s]."""
    return Exponential.from_seconds(mean=mean)


def uniform(low: float, high: float) -> Uniform:
    """Return a uniform law between two times [s]."""
    return Uniform.from_seconds(low=low, high=high)


def watched(*observers: tuple[float, LawModel], human: LawModel | None = None) -> DetectionRace:
    """Return observers called a, b, c ... of these coverages and laws."""
    named = zip("abcdef", observers, strict=False)
    return DetectionRace(tuple(Detector(name, *observer) for name, observer in named), human)


def recording(asked: list[str], value: float = 0.5) -> Callable[[str], float]:
    """Return marks that are all the same, and that write down what they are asked for."""

    def mark(purpose: str) -> float:
        asked.append(purpose)
        return value

    return mark


LAWS = {
    "fixed": fixed(40.0),
    "exponential": exponential(50.0),
    "uniform": uniform(20.0, 90.0),
    "weibull": Weibull.from_seconds(shape=0.6, scale=70.0),
    "gamma": Gamma.from_seconds(shape=3.0, mean=60.0),
    "lognormal": Lognormal.from_seconds(median=30.0, sigma=1.0),
    "empirical": Empirical.from_seconds(values=(10.0, 30.0, 30.0, 200.0)),
    "mixture": Mixture(
        parts=(
            MixturePart(weight="40 %", law={"use": "fixed", "value": "25 s"}),
            MixturePart(weight="60 %", law={"use": "exponential", "mean": "80 s"}),
        )
    ),
}


@cases(
    ("detection_race", "time"),
    [
        (DetectionRace.by(fixed(7.0)), 7.0),
        (watched((1.0, fixed(9.0)), (1.0, uniform(9.0, 20.0))), 9.0),
        (watched((1.0, uniform(9.0, 20.0)), (1.0, fixed(9.0))), 9.0),
        (watched((1.0, uniform(50.0, 60.0)), (0.3, exponential(1.0)), (1.0, fixed(0.0))), 0.0),
        (watched(human=fixed(30.0)), 30.0),
        (watched((0.0, fixed(1.0))), math.inf),
        (watched(), math.inf),
    ],
)
def test_fixed_times_need_no_number(detection_race: DetectionRace, time: float) -> None:
    """Where one certain and fixed time comes before all others, no number is asked for."""
    asked: list[str] = []
    assert detection_race.fixed == time
    assert detection_race.draw(recording(asked)) == time == detection_race.found(recording(asked))[0]
    assert not asked
    assert detection_race.mean_value == time


def test_only_those_are_asked_who_can_be_first() -> None:
    """Whoever cannot come before a time that is already known is not asked; coverage is asked for only if uncertain."""
    detection_race = watched((0.5, uniform(10.0, 20.0)), (1.0, uniform(5.0, 40.0)), (1.0, uniform(40.0, 90.0)))
    asked: list[str] = []
    assert detection_race.found(recording(asked, 0.1)) == (8.5, "b")
    assert asked == ["detection b"]
    asked.clear()
    assert detection_race.found(recording(asked, 0.4)) == (14.0, "a")
    assert asked == ["detection b", "detection a covers", "detection a"]


def test_a_human_comes_last() -> None:
    """A human is asked for what no observer covers, and for nothing else, however quick the human would be."""
    detection_race = watched((0.5, uniform(100.0, 200.0)), human=uniform(0.0, 10.0))
    asked: list[str] = []
    assert detection_race.found(recording(asked, 0.4)) == (140.0, "a")
    assert asked == ["detection a covers", "detection a"]
    asked.clear()
    assert detection_race.found(recording(asked, 0.6)) == (6.0, "human")
    assert asked == ["detection a covers", "detection human"]
    assert detection_race.certain == 1
    assert detection_race.shares() == {"a": 0.5, "human": 0.5}
    assert detection_race.mean_value == pytest.approx(0.5 * 150 + 0.5 * 5)


def test_the_minimum_has_its_distribution() -> None:
    """Drawn times have the distribution 1 - prod (1 - c_i F_i), given that somebody covers the fault (KS)."""
    observers = ((0.7, LAWS["lognormal"]), (0.4, LAWS["exponential"]), (0.8, LAWS["weibull"]))
    detection_race = watched(*observers)
    drawn = times(detection_race, N)

    def noticed_by(x: np.ndarray) -> np.ndarray:
        above = np.prod([1 - coverage * law.cdf(x) for coverage, law in observers], axis=0)
        return (1 - above) / detection_race.certain

    assert stats.kstest(drawn[np.isfinite(drawn)], noticed_by).pvalue > LEAST


@pytest.mark.parametrize(("first", "second"), one_in(3, list(itertools.combinations(LAWS, 2))))
def test_mean_and_shares_are_those_of_draws(first: str, second: str) -> None:
    """Mean, coverage and shares of two observers agree with 20,000 draws, for every pair of laws."""
    detection_race = watched((0.6, LAWS[first]), (0.75, LAWS[second]))
    drawn = times(detection_race, N)
    assert close(drawn[np.isfinite(drawn)], detection_race.mean_value)
    assert detection_race.certain == pytest.approx(1 - 0.4 * 0.25)
    shares = detection_race.shares()
    assert math.fsum(shares.values()) == pytest.approx(detection_race.certain, rel=1e-6)
    found = [detection_race.found(marks(index))[1] for index in range(2000)]
    for name, share in shares.items():
        assert abs(found.count(name) / 2000 - share) <= Z * math.sqrt(share * (1 - share) / 2000)


def test_exponential_times_in_closed_form() -> None:
    """Of exponential times, the minimum has the sum of the rates, and each is first in proportion to its own."""
    detection_race = watched((1.0, exponential(10.0)), (1.0, exponential(20.0)), (1.0, exponential(5.0)))
    total = 1 / 10 + 1 / 20 + 1 / 5
    assert detection_race.mean_value == pytest.approx(1 / total, rel=1e-9)
    assert detection_race.shares() == pytest.approx({"a": 0.1 / total, "b": 0.05 / total, "c": 0.2 / total}, rel=1e-6)
    partly = watched((0.5, exponential(10.0)), (0.3, exponential(20.0)))
    both = 1 / (1 / 10 + 1 / 20)
    mean = (0.15 * both + 0.35 * 10 + 0.15 * 20) / 0.65
    assert partly.mean_value == pytest.approx(mean, rel=1e-9)
    assert partly.shares() == pytest.approx({"a": 0.35 + 0.15 * 2 / 3, "b": 0.15 + 0.15 / 3}, rel=1e-6)


def test_a_heavy_tail_cut_by_a_timeout() -> None:
    """E[min(X, c)] of a lognormal X is its partial mean below c and c times the rest, to 1e-6."""
    phi = NormalDist().cdf
    mu, sigma = math.log(900.0), 1.685
    law = Lognormal.from_seconds(median=900.0, sigma=sigma)
    for limit in (10.0, 615.0, 1e5):
        below = math.exp(mu + sigma**2 / 2) * phi((math.log(limit) - mu) / sigma - sigma)
        mean = below + limit * (1 - phi((math.log(limit) - mu) / sigma))
        assert watched((1.0, law), (1.0, fixed(limit))).mean_value == pytest.approx(mean, rel=1e-6)


def test_scale_pickle_and_order() -> None:
    """A scale multiplies every time; a copy through pickle is the same; the order of observers makes no difference."""
    detection_race = watched((0.6, LAWS["lognormal"]), (0.75, LAWS["mixture"]), human=exponential(1e4))
    assert times(detection_race.scaled(2.5), 500) == pytest.approx(2.5 * times(detection_race, 500), rel=1e-12)
    assert detection_race.scaled(2.5).mean_value == pytest.approx(2.5 * detection_race.mean_value, rel=1e-9)
    copy = pickle.loads(pickle.dumps(detection_race))
    assert copy == detection_race
    assert np.array_equal(times(copy, 500), times(detection_race, 500))
    turned = DetectionRace(detection_race.observers[::-1], detection_race.human)
    assert np.array_equal(times(turned, 500), times(detection_race, 500))
