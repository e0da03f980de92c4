"""Control variates: numbers whose mean is known, and means with control variates."""

from __future__ import annotations

import dataclasses
import functools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from ettrick import sim
from ettrick.analysis.contest.precision import FEWEST, Precision, ReplicationsError, next_goal
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.statistics.differences import ControlVariates, controlled, difference, of_values
from ettrick.analysis.statistics.intervals import mean_estimate
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.inputs import Inputs
from ettrick.analysis.study.model import PrecisionSpec
from ettrick.analysis.study.table import PointResult
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.sweep import PointProgress, _excess, simulate_until
from ettrick.analysis.sweep.task import Record
from ettrick.sim import Ratio
from tests.cases import cases
from tests.documents import document, format_run
from tests.harness import prepared, results_of
from tests.intervals import Z
from tests.pace import one_in, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from ettrick.analysis.sweep.task import Context, Task

# Replications go where they are needed, and how many does not depend on who simulates them or when.

POINT = Point(0, 0, 0, ())

SPREADS = (0.0, 0.001, 0.01, 0.02, 0.05)


@functools.cache
def drawn(point: int) -> list[float]:
    """Return the metric of all replications of a point: 0.9 with the spread of the point."""
    spread = SPREADS[point % len(SPREADS)]
    return (0.9 + spread * np.random.default_rng([61, point]).normal(size=1000)).tolist()


def ratios_of(point: int, count: int) -> list[Ratio]:
    """Return the metric of the first replications of a point."""
    return [Ratio(value, 1.0) for value in drawn(point)[:count]]


class FakePool:
    """A worker pool that simulates made-up values, so many tasks at once, in an order of its own; it may die."""

    def __init__(self, window: int, seed: int, ends_after: int = 10**9, **special: Callable[[Task], Record]) -> None:
        self.window, self.ends_after, self.special = window, ends_after, special
        self.rng = np.random.default_rng(seed)
        self.simulated: list[Task] = []
        self.replications = 0

    def run(self, tasks: Iterable[Task], context: Context) -> Iterator[Record]:
        """Yield the records of the tasks in any order within the window."""
        self.replications = context.replications
        waiting = iter(tasks)
        flying: list[Task] = []
        while True:
            while len(flying) < self.window:
                task = next(waiting, None)
                if task is None:
                    break
                flying.append(task)
            if not flying:
                return
            if len(self.simulated) == self.ends_after:
                raise KeyboardInterrupt
            task = flying.pop(int(self.rng.integers(len(flying))))
            self.simulated.append(task)
            yield self.special.get(task.overrides[0], self.record)(task)

    def record(self, task: Task, status: str = "ok", values: Sequence[float | None] = ()) -> Record:
        """Return an outcome with made-up values."""
        count = task.replications
        rows = {"ettr": [values or drawn(task.point)[task.first : task.first + count], [1.0] * count]}
        notes = {"controls": [None] * count, "censored": [0] * count, "never_started": [0] * count}
        reason = "" if status == "ok" else status
        return Record(task.key, task.point, task.first, count, status, reason, 0.0, rows if not reason else {}, notes)


class NothingRuns:
    """A scenario of which no point can be prepared: outcomes are made up."""

    def scenario(self, _overrides: tuple[str, ...]) -> None:
        """Refuse."""
        raise sim.ScenarioError(["made up"])


def points(count: int = 10, draws: int = 0) -> list[Point]:
    """Return the points of so many cells, each with draws."""
    places = [(cell, draw) for cell in range(count) for draw in range(draws + 1)]
    return [Point(number, cell, draw, ()) for number, (cell, draw) in enumerate(places)]


def play(
    path: Path, pool: FakePool, spec: PrecisionSpec, which: list[Point] | None = None, name: str = "point"
) -> dict[int, PointProgress]:
    """Return how far the points were simulated."""
    loaded: Any = SimpleNamespace(
        template=NothingRuns(),
        digest="digest",
        packages=(),
        inputs=Inputs(),
        overrides=lambda point: (f"{name}" if name != "point" else f"p{point.number}",),
    )
    with Journal(path) as journal:
        return simulate_until(Campaign(loaded, journal, pool), which or points(), spec, "ettr")  # type: ignore[arg-type]


SPEC = PrecisionSpec(width="0.4pt")


@pytest.fixture
def expected(tmp_path: Path) -> dict[int, PointProgress]:
    """Return how far the points are simulated one after another."""
    return play(tmp_path / "alone.jsonl", FakePool(1, 0), SPEC)


@pytest.mark.parametrize(("window", "seed"), [(1, 1), (3, 2), (8, 3), (200, 4)])
def test_the_same_whoever_plays(expected: dict[int, PointProgress], tmp_path: Path, window: int, seed: int) -> None:
    """One task at a time or two hundred, in whatever order they come back: the same replications."""
    pool = FakePool(window, seed)
    assert play(tmp_path / "journal.jsonl", pool, SPEC) == expected
    assert list(expected) == list(range(10))
    assert sum(task.replications for task in pool.simulated) == sum(found.replications for found in expected.values())


def test_the_same_after_every_end(expected: dict[int, PointProgress], tmp_path: Path) -> None:
    """Killed again and again it goes on from the journal: the same replications, and none is simulated twice."""
    simulated: list[str] = []
    for attempt in range(1000):
        pool = FakePool(4, attempt, ends_after=7)
        try:
            found = play(tmp_path / "journal.jsonl", pool, SPEC)
        except KeyboardInterrupt:
            simulated += [task.key for task in pool.simulated]
            continue
        simulated += [task.key for task in pool.simulated]
        break
    assert attempt > 3
    assert found == expected
    # The last one in each attempt was simulated, and written before the end came.
    assert len(simulated) == len(set(simulated))


def test_points_stop_when_they_are_precise(expected: dict[int, PointProgress], tmp_path: Path) -> None:
    """At the end the interval is as narrow as asked for; calm points stop at once, noisy ones as theory says."""
    for number, found in expected.items():
        assert found.precise is True
        if not SPREADS[number % len(SPREADS)]:
            # A run that loses all is in less than 2 x 0.4 % of runs, at 97.5 %.
            assert 0.992**found.replications <= 0.025 < 0.992 ** (found.replications - 10)
            continue
        low, high = mean_estimate(ratios_of(number, found.replications), "ettr").interval or (math.nan, math.nan)
        assert (high - low) / 2 <= 0.004
        spread = SPREADS[number % len(SPREADS)]
        needed = (1.96 * spread / 0.004) ** 2
        # Blocks of ten, and a standard deviation of so many values that is known to a fifth.
        assert 30 <= found.replications <= max(30, 1.5 * needed + 10)
        assert found.replications >= 0.6 * needed


@cases(
    ("done", "excess", "goal"),
    [
        (30, 1.5, 70),  # 67.5 in whole blocks
        (30, 1.0001, 40),
        (30, 3.0, 120),  # four times as many at most, not 270
        (300, 1.9, 1000),  # not 1083
        (30, 1.0, 30),
        (30, math.inf, 30),
        (1000, 1.5, 1000),
    ],
)
def test_the_next_goal_is_what_seems_enough(done: int, excess: float, goal: int) -> None:
    """An interval that is x times too wide takes x^2 times the replications, at most four times as many at once."""
    assert next_goal(done, excess, most=1000) == goal


def test_relative_precision_is_of_the_mean(tmp_path: Path) -> None:
    """1 % of a mean of 0.9 takes as many replications as 0.9 percentage points."""
    relative = play(tmp_path / "a.jsonl", FakePool(4, 1), PrecisionSpec(width="1%", least=10))
    points_of = play(tmp_path / "b.jsonl", FakePool(4, 1), PrecisionSpec(width="0.9pt", least=10))
    loose = play(tmp_path / "c.jsonl", FakePool(4, 1), PrecisionSpec(width="10%", least=10))
    assert relative == points_of
    # Equal replications may hide runs that lose all in 31 % of ten runs, 17 % of 20: half of that is below 9 points.
    calm = {number for number in loose if not SPREADS[number % len(SPREADS)]}
    assert {number: found.replications for number, found in loose.items()} == {
        number: 20 if number in calm else 10 for number in loose
    }


def test_most_is_an_end(tmp_path: Path) -> None:
    """What is not precise at the limit is said not to be."""
    spec = PrecisionSpec(width="0.01pt", least=20, most=60)
    found = play(tmp_path / "journal.jsonl", FakePool(4, 1), spec)
    assert set(found.values()) == {(60, False)}


def test_nothing_is_sought_where_nothing_can_come(tmp_path: Path) -> None:
    """Infeasible, failed and censored points, and one without the metric, end at the first decision."""
    pool = FakePool(4, 1)
    pool.special = {
        "p1": lambda task: pool.record(task, "infeasible"),
        "p2": lambda task: pool.record(task, "failed"),
        "p3": lambda task: pool.record(task, "ok", [None] * task.replications),
        "p4": lambda task: pool.record(task)._replace(rows={"cost": [[1.0] * 10, [1.0] * 10]}),
    }
    found = play(tmp_path / "journal.jsonl", pool, PrecisionSpec(width="0.01pt", most=40), points(6))
    assert [found[number] for number in (1, 2, 3, 4)] == [(30, False)] * 4
    assert found[0] == (40, False), "equal replications show nothing of others"


def test_a_crashed_task_is_tried_once_again(tmp_path: Path) -> None:
    """What crashed in this run ends its point; the next run tries it again, and goes on where it succeeds."""
    pool = FakePool(4, 1)
    pool.special = {"p1": lambda task: pool.record(task, "crashed" if task.first == 10 else "ok")}
    spec = PrecisionSpec(width="10pt")
    path = tmp_path / "journal.jsonl"
    assert play(path, pool, spec, points(2)) == {0: (30, True), 1: (30, False)}
    assert len(pool.simulated) == 6
    again = FakePool(4, 1)
    assert play(path, again, spec, points(2)) == {0: (30, True), 1: (30, True)}
    assert [(task.point, task.first) for task in again.simulated] == [(1, 10)]


def test_the_engine_is_chosen_by_what_the_whole_sweep_takes(tmp_path: Path) -> None:
    """With a precision too: a task is told of the replications of all points, not of its own."""
    pool = FakePool(4, 1)
    play(tmp_path / "journal", pool, SPEC)
    assert pool.replications == SPEC.least * len(points())


def test_draws_have_the_least(tmp_path: Path) -> None:
    """Draws of what is not known have the same replications in all, which the center has too, and no precision."""
    found = play(tmp_path / "journal.jsonl", FakePool(4, 1), SPEC, points(5, draws=2))
    for point in points(5, draws=2):
        if point.draw:
            assert found[point.number] == (30, None)
        else:
            assert found[point.number].replications >= 30
            assert found[point.number].precise is True


def test_the_same_scenario_is_played_once(tmp_path: Path) -> None:
    """Points with the same overrides share their outcomes, and all of them get an answer."""
    pool = FakePool(4, 1)
    spec = PrecisionSpec(width="10pt")
    found = play(tmp_path / "journal.jsonl", pool, spec, points(5), name="same")
    assert found == dict.fromkeys(range(5), (30, True))
    assert len(pool.simulated) == 3


@cases(
    ("spec", "message"),
    [
        (PrecisionSpec(width="0.1pt", metric="tokens_per_day"), "tokens_per_day is not one: write a precision such as"),
        (PrecisionSpec(width="1%", metric="etr"), r"no point has a metric 'etr'; did you mean 'ettr'\?"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, spec: PrecisionSpec, message: str) -> None:
    """Points of what is no share, and a metric that no point has: one line."""
    with pytest.raises(ReplicationsError, match=message):
        play(tmp_path / "journal.jsonl", FakePool(4, 1), spec)


def test_equal_replications_are_no_precision() -> None:
    """Where 3 % of runs lose ten points, 40 % of all 30 runs are alike: stopping there would miss the mean as often.

    Of 60 percentage points at 0.4 percentage points as many hold the truth as if 90 % did.
    """
    truth, rng, hits = 1 - 0.03 * 0.1, np.random.default_rng(62), 0
    precision, samples = Precision.parse("0.4pt"), 60
    for _ in range(samples):
        values = [Ratio(value, 1.0) for value in (1 - 0.1 * (rng.random(1000) < 0.03)).tolist()]
        done, goal = 0, 30
        while done < goal:
            done = goal
            goal = next_goal(done, _excess(PointResult(POINT, {"ettr": values[:done]}), "ettr", precision), 1000)
        ends = mean_estimate(values[:done], "ettr").interval
        hits += ends is not None and ends[0] <= truth <= ends[1]
    assert hits >= binom.ppf(0.0005, samples, 0.9)


def test_the_interval_covers_although_it_decided(tmp_path: Path) -> None:
    """Of 240 points that stop when they look precise, as many hold the truth as if 93 % did: nominal are 95."""
    noisy = [point for point in points(600) if point.number % len(SPREADS) in (2, 3)]
    found = play(tmp_path / "journal.jsonl", FakePool(8, 1), PrecisionSpec(width="0.4pt"), noisy)
    assert len(found) == 240
    hits = 0
    for number, simulated in found.items():
        low, high = mean_estimate(ratios_of(number, simulated.replications), "ettr").interval or (math.nan, math.nan)
        hits += low <= 0.9 <= high
    assert hits >= binom.ppf(0.0005, len(found), 0.93)


SEED = 5


def with_events(controls: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return controls as `of_values` takes them, each resting on an event in every replication."""
    return np.hstack([controls, np.ones_like(controls)])


def test_a_line_is_found_and_worth_is_bounded() -> None:
    """What is a constant plus multiples of controls has that mean; its interval is never narrower than for 1000 n."""
    controls = np.random.default_rng(SEED).normal(size=(16, 3))
    values = 0.7 + controls @ [0.1, -0.2, 0.3]
    found = of_values(values, with_events(controls))
    assert found.mean == pytest.approx(0.7, abs=1e-12)
    assert found.worth == pytest.approx(1000.0)
    plain = float(student.ppf(0.975, 15)) * values.std(ddof=1) / 4
    assert (found.ci95[1] - found.ci95[0]) / 2 == pytest.approx(plain / math.sqrt(1000), rel=1e-9)


@cases(("hit", "is_enough"), [(1, False), (9, False), (10, True)])
def test_controls_need_ten_replications_with_events(hit: int, is_enough: bool) -> None:
    """Of 30 replications few are interrupted, each at a cost of its own; start-ups that vary hide nothing of it."""
    generator = np.random.default_rng(SEED)
    count = (np.arange(30) < hit).astype(float)
    rows = np.column_stack([count - hit / 30, np.zeros(30), count, count])
    values = 1.0 - 0.01 * count * generator.random(30)
    assert (of_values(values, rows) is not None) == is_enough
    assert (of_values(values + 1e-3 * generator.random(30), rows) is not None) == is_enough


@cases(("differing", "is_enough"), [(9, False), (10, True)])
def test_differences_need_ten_that_are_not_zero(differing: int, is_enough: bool) -> None:
    """All 30 replications of two variants are interrupted, and few differ by it."""
    generator = np.random.default_rng(SEED)
    controls = with_events(generator.normal(size=(30, 1)))
    first = generator.random(30)
    moves = np.where(np.arange(30) < differing, generator.random(30), 0.0)
    ours, theirs = ([Ratio(float(value), 1.0) for value in values] for values in (first + moves, first))
    found = difference(ours, theirs, controls)
    assert (found.controlled is not None) == is_enough


def test_the_interval_is_that_of_the_intercept() -> None:
    """Textbook: with one control, m = mean(y) - b mean(z), and its error that of the intercept of a line."""
    generator = np.random.default_rng(SEED)
    z = generator.normal(size=20)
    y = 3.0 + 2.0 * z + 0.5 * generator.normal(size=20)
    found = of_values(y, with_events(z[:, np.newaxis]))
    slope, intercept = np.polyfit(z, y, 1)
    spread = math.sqrt(((y - intercept - slope * z) ** 2).sum() / 18)
    error = spread * math.sqrt(1 / 20 + z.mean() ** 2 / ((z - z.mean()) ** 2).sum())
    half = float(student.ppf(0.975, 18)) * error
    assert found.mean == pytest.approx(intercept, rel=1e-12)
    assert found.ci95 == pytest.approx((intercept - half, intercept + half), rel=1e-9)
    plain = float(student.ppf(0.975, 19)) * y.std(ddof=1) / math.sqrt(20)
    assert found.worth == pytest.approx((plain / half) ** 2, rel=1e-9)


def test_controls_that_say_nothing_are_left_out() -> None:
    """Constant controls and copies of one another change nothing; without any there is no answer."""
    generator = np.random.default_rng(SEED)
    z = generator.normal(size=(16, 1))
    y = z[:, 0] + generator.normal(size=16)
    alone = of_values(y, with_events(z))
    crowd = of_values(y, with_events(np.hstack([z, 1000.0 * z, np.zeros((16, 1))])))
    assert crowd.mean == pytest.approx(alone.mean, rel=1e-9)
    assert crowd.ci95 == pytest.approx(alone.ci95, rel=1e-9)
    assert of_values(y, with_events(np.zeros((16, 3)))) is None
    assert of_values(y, np.zeros((16, 0))) is None


@cases(("count", "is_enough"), [(15, False), (16, True)])
def test_enough_replications(count: int, is_enough: bool) -> None:
    """Three controls need 16 replications, so that twelve degrees of freedom are left."""
    generator = np.random.default_rng(SEED)
    found = of_values(generator.normal(size=count), with_events(generator.normal(size=(count, 3))))
    assert (found is not None) == is_enough


def test_without_a_mean() -> None:
    """A metric that was censored once, or has nothing in its denominators, has no mean with controls either."""
    controls = with_events(np.random.default_rng(SEED).normal(size=(12, 1)))
    assert controlled([Ratio(math.inf if index == 3 else 1.0, 1.0) for index in range(12)], controls) is None
    assert controlled([Ratio(0.0, 0.0)] * 12, controls) is None
    assert controlled([Ratio(2.0, 4.0)] * 12, controls) is None, "a constant needs no help"


NODE = {"use": "component", "name": "node", "part": "node", "rate": "300 per 1000 node-day"}


def case(**changes: Any) -> sim.Prepared:
    """Return 40 nodes of which 12 train, and which fail now and then; there is always another one."""
    base: dict[str, Any] = {
        "cluster": {"nodes": 40, "gpus_per_node": 8},
        "horizon": "30 d",
        "jobs": [{"name": "train", "gpus": 96, "step_time": "10 s"}],
        "failures": [
            NODE,
            {"use": "job", "name": "bug", "rate": "2 per job-day"},
        ],
        "detection": {"time": {"use": "exponential", "mean": "5 min"}},
        "checkpoint": {"tiers": [{"interval": "30 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
        "recovery": {"use": "hot-spare", "reschedule": {"use": "uniform", "low": "0 s", "high": "4 min"},
                     "initialize": {"use": "lognormal", "median": "4 min", "sigma": 1.0}},
        "repair": {"time": "2 h"},
        "seed": SEED,
    }  # fmt: skip
    return prepared(**(base | changes))


LADDER = {
    "use": "ladder",
    "rungs": [
        {"name": "in-job", "keeps": "hosts", "stop": "10 s", "launch": {"use": "exponential", "mean": "3 min"},
         "patience": "20 min", "budget": 2},
        {"name": "requeue", "keeps": "nothing", "launch": "6 min", "delay": {"use": "uniform", "low": "0 s",
         "high": "10 min"}},
    ],
}  # fmt: skip

CASES: dict[str, dict[str, Any]] = {
    "hot spare": {},
    "busy clock": {"failures": [NODE | {"clock": "busy"}]},
    "lives from the return": {"failures": [NODE | {"renews": "at_return"}]},
    "not every fault interrupts": {
        "failures": [
            {"use": "component", "name": "gpu", "part": "gpu", "rate": "100 per 1000 gpu-day", "interrupts": 0.4}
        ]
    },
    "unexposed": {"recovery": {"use": "hot-spare", "reschedule": "20 min", "exposed": False, "initialize": "3 min"}},
    "back to the queue": {"recovery": {"use": "full-restart", "delay": "2 min", "initialize": "6 min"}},
    "ladder": {"recovery": LADDER},
    "fewer replicas after a restart": {
        "jobs": [{"name": "train", "gpus": 96, "step_time": "10 s", "parallelism": {"data": 12, "tensor": 8}}],
        "cluster": {"nodes": 13, "gpus_per_node": 8},
        "repair": {"time": "1 d"},
        "recovery": {"use": "restart-smaller", "launch": "4 min", "min_replicas": 4},
    },
    "replicas that leave": {
        "jobs": [{"name": "train", "gpus": 96, "step_time": "10 s", "parallelism": {"data": 12, "tensor": 8}}],
        "recovery": {"use": "shrink-rejoin", "reconfigure": "30 s", "initialize": "5 min", "rejoin": "20 s",
                     "min_replicas": 6},
    },
    "two jobs, one of which ends": {
        "jobs": [
            {"name": "a", "gpus": 48, "step_time": "10 s", "work": {"time": "4 d"}},
            {"name": "b", "gpus": 48, "step_time": "10 s", "arrival": "1 d"},
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", one_in(5, CASES))
def test_the_controls_of_all_runs_together_are_none(name: str) -> None:
    """Both numbers have the mean zero, whatever the policies are; and none is always zero.

    A compensator at twice the rate, or of a node too many, is far outside.
    """
    ready = case(**CASES[name])
    variates = ControlVariates(ready)
    results = list(results_of(ready, sample(60)))
    table = np.array([variates.of(result) for result in results], dtype=np.float64)[:, :2]
    error = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    assert np.all(abs(table.mean(axis=0)) <= Z * error + 1e-6)
    hits = np.mean([sum(job.gpus * sum(job.disruptions.values()) for job in result.jobs) for result in results])
    assert hits > 2 * Z * error[0], "twice the rate would be seen"


def test_controls_of_a_block_are_those_of_its_replications() -> None:
    """Row by row, with none for the replications in which the job waited for nodes."""
    ready = dataclasses.replace(case(), engine="compiled")
    (block,) = sim.run_block(ready, range(4))
    variates = ControlVariates(ready)
    rows = [[*map(float, variates.of(sim.run(ready, replication)))] for replication in range(4)]
    assert variates.rows(block) == rows
    totals = block.jobs[0].totals.copy()
    totals[1, :, sim.Bucket.STARVED] = 1.0
    waited = dataclasses.replace(block, jobs=(dataclasses.replace(block.jobs[0], totals=totals),))
    assert variates.of(waited) is None
    assert variates.rows(waited) == [rows[0], None, *rows[2:]]


NOT_SIMPLE: dict[str, dict[str, Any]] = {
    "wear": {"law": {"use": "weibull", "shape": 2, "mean": "5 d"}, "rate": None},
    "one life each": {"renews": "never"},
    "nodes that differ": {"frailty": {"shape": 0.9}},
    "a hazard that swings": {"tempo": {"swings": {"every": "5 d", "cv": 1.0}}},
    "repairs that leave the fault": {"relapse": {"after": "1 h", "probability": 0.5}},
    "slow nodes": {"effect": {"use": "slow", "factor": 0.5}},
}


@cases("name", NOT_SIMPLE)
def test_causes_whose_rate_is_not_simple_are_left_out(name: str) -> None:
    """They have no constant intensity, or do not disrupt at once: their noise stays in."""
    source = {key: value for key, value in (NODE | NOT_SIMPLE[name]).items() if value is not None}
    ready = case(failures=[source])
    result = sim.run(ready, 0)
    counts_and_time = ControlVariates(ready).of(result)
    assert result.counts["faults"] > 0
    assert counts_and_time[0] == 0.0
    # Drawn times of restarts have the mean zero whatever it was that failed.
    assert counts_and_time[1] == result.jobs[0].gpus * result.jobs[0].excess != 0.0


def test_a_simple_cause_counts_beside_others() -> None:
    """The numbers of a simple cause are the same with and without a cause of the other kind that never strikes."""
    rare = {"use": "component", "name": "wear", "part": "node", "law": {"use": "weibull", "shape": 2, "mean": "1e6 d"}}
    alone, together = case(failures=[NODE]), case(failures=[rare, NODE])
    controls = ControlVariates(alone).of(sim.run(alone, 3))
    assert controls == pytest.approx(ControlVariates(together).of(sim.run(together, 3)), rel=1e-9)
    assert controls[0] != 0.0


@pytest.mark.parametrize("changes", [{"nodes": 13}, {"nodes": 15}], ids=["one spare", "three spares"])
def test_where_nodes_run_out_nothing_is_taken_out(changes: dict[str, int]) -> None:
    """A sample without the rare long wait would look surer than it is, also where no replication had to wait."""
    ready = case(cluster={"gpus_per_node": 8} | changes)
    assert ControlVariates(ready).of(sim.run(ready, 0)) is None
    assert replicate(ready, 20, processes=1).controls == []


def test_what_is_seen_to_wait_is_believed() -> None:
    """Incidents may take more nodes than theory thinks of: one replication that waited, and nothing is taken out."""
    racks = {"use": "component", "name": "rack", "part": "rack", "rate": "1 per 20 rack-day"}
    ready = case(cluster={"nodes": 40, "gpus_per_node": 8, "rack": {"nodes": 20}}, failures=[NODE, racks],
                 jobs=[{"name": "train", "gpus": 240, "step_time": "10 s"}], repair={"time": "6 h"})  # fmt: skip
    found = replicate(ready, 20, processes=1, keeps_log=True)
    assert any(job.buckets[sim.Bucket.STARVED] > 0 for result in found.results for job in result.jobs)
    assert found.controls == []


def test_causes_that_narrow_or_wait_are_left_out() -> None:
    """A GPU that leaves its node in the job, and a failure that waits until it can strike, have another intensity."""
    gpu = {"use": "component", "name": "gpu", "part": "gpu", "rate": "40 per 1000 gpu-day", "repair": "1 h"}
    layout = {"tensor": 8, "data": 12}
    narrow = case(
        failures=[gpu],
        recovery={"use": "narrow", "tensor": 8, "launch": "3 min"},
        jobs=[{"name": "train", "gpus": 96, "step_time": "10 s", "parallelism": layout}],
    )
    waits = case(failures=[NODE | {"defer": True}], recovery=CASES["unexposed"]["recovery"])
    for ready in (narrow, waits):
        result = sim.run(ready, 0)
        controls = ControlVariates(ready).of(result)
        assert sum(result.jobs[0].disruptions.values()) > 0
        assert controls[0] == 0.0


def test_replications_that_it_saves() -> None:
    """Where spares do not bind, an interval as narrow takes less than a third of the replications."""
    ready = case()
    found = replicate(ready, 60, processes=1)
    ettr = [row["ettr"] for row in found.rows]
    taken = controlled(ettr, found.controls)
    assert taken.worth > 3
    mean = sum(ratio.amount for ratio in ettr) / sum(ratio.base for ratio in ettr)
    assert abs(taken.mean - mean) < 3 * (taken.ci95[1] - taken.ci95[0]) * math.sqrt(taken.worth)


def test_a_precision_is_reached_sooner() -> None:
    """A run that replicates until it is precise uses the interval with control variates."""
    ready = case()
    rows = replicate(ready, FEWEST, processes=1)
    taken = controlled([row["ettr"] for row in rows.rows], rows.controls)
    half = (taken.ci95[1] - taken.ci95[0]) / 2
    found = replicate(ready, 0, precision=Precision(1.01 * half, relative=False), processes=1)
    assert (len(found.rows), found.precise) == (FEWEST, True)
    plain = mean_estimate([row["ettr"] for row in rows.rows], "ettr", follows_tail=False)
    assert Precision(1.01 * half, relative=False).excess(plain.interval, plain.mean, "ettr", FEWEST) > 1


def test_a_run_that_is_rarely_interrupted_has_the_plain_interval() -> None:
    """Below ten interrupted replications: no control, a precision by Student's interval, and the text names it."""
    ready = case(failures=[{"use": "job", "name": "bug", "rate": "3 per 1000 job-day"}])
    found = replicate(ready, 30, processes=1)
    content = document(found, command="run")
    hit = sum(any(result.jobs[0].disruptions) for result in results_of(ready, 30))
    assert 0 < content["interrupted"] == hit < 10
    ettr = content["metrics"]["ettr"]
    assert (ettr["controlled"], ettr["method"]) == (None, "t")
    width = (ettr["mean_ci95"][1] - ettr["mean_ci95"][0]) / 2
    for part, precise in ((0.99, False), (1.01, True)):
        again = replicate(ready, 0, precision=Precision(part * width, relative=False), processes=1, most_events=1e5)
        assert (again.precise, len(again.rows) == 30) == (precise, precise) or len(again.rows) > 30
    worded = f"{content['interrupted']} of 30 replications were interrupted, and these need 10"
    assert worded in format_run(content, ready, width=200)


def test_a_run_that_is_never_interrupted_says_so() -> None:
    """Equal replications have an interval of no width, which is not what is known of another one."""
    ready = case(failures=[{"use": "job", "name": "bug", "rate": "1 per 1000000 job-day"}])
    content = document(replicate(ready, 30, processes=1), command="run")
    assert content["interrupted"] == 0
    worded = "intervals do not cover interrupted runs, up to 11.57 % of all"
    assert worded in format_run(content, ready, width=200)
