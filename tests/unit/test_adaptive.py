"""Replications go where they are needed, and how many does not depend on who plays them or when."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

from analysis.runs import Precision, RequestError
from analysis.statistics.intervals import mean_estimate
from analysis.study.amounts import Point
from analysis.study.inputs import Inputs
from analysis.study.model import PrecisionSpec
from analysis.study.table import Outcome
from analysis.sweep.campaign import Campaign
from analysis.sweep.journal import Journal
from analysis.sweep.sweep import Played, _excess, next_goal, play_until
from analysis.sweep.task import Record
from sim import Ratio
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from analysis.sweep.task import Context, Task

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


class Troupe:
    """A crew that plays made-up values, so many tasks at once, in an order of its own; it may die."""

    def __init__(self, window: int, seed: int, ends_after: int = 10**9, **special: Callable[[Task], Record]) -> None:
        self.window, self.ends_after, self.special = window, ends_after, special
        self.rng = np.random.default_rng(seed)
        self.played: list[Task] = []

    def play(self, tasks: Iterable[Task], context: Context, more: Callable[[], Iterable[Task]]) -> Iterator[Record]:
        """Yield the records of the tasks in any order within the window."""
        waiting = iter(tasks)
        following: deque[Task] = deque()
        flying: list[Task] = []
        while True:
            while len(flying) < self.window:
                task = following.popleft() if following else next(waiting, None)
                if task is None:
                    break
                flying.append(task)
            if not flying:
                return
            if len(self.played) == self.ends_after:
                raise KeyboardInterrupt
            task = flying.pop(int(self.rng.integers(len(flying))))
            self.played.append(task)
            yield self.special.get(task.overrides[0], self.record)(task)
            following.extend(more())

    def record(self, task: Task, status: str = "ok", values: Sequence[float | None] = ()) -> Record:
        """Return an outcome with made-up values."""
        count = task.replications
        rows = {"ettr": [values or drawn(task.point)[task.first : task.first + count], [1.0] * count]}
        notes = {"luck": [None] * count, "censored": [0] * count, "never_started": [0] * count}
        reason = "" if status == "ok" else status
        return Record(task.key, task.point, task.first, count, status, reason, 0.0, rows if not reason else {}, notes)


def points(count: int = 10, draws: int = 0) -> list[Point]:
    """Return the points of so many cells, each with draws."""
    places = [(cell, draw) for cell in range(count) for draw in range(draws + 1)]
    return [Point(number, cell, draw, ()) for number, (cell, draw) in enumerate(places)]


def play(
    path: Path, troupe: Troupe, spec: PrecisionSpec, which: list[Point] | None = None, name: str = "point"
) -> dict[int, Played]:
    """Return how far the points were played."""
    loaded: Any = SimpleNamespace(
        template=None,
        digest="digest",
        inputs=Inputs(),
        overrides=lambda point: (f"{name}" if name != "point" else f"p{point.number}",),
    )
    with Journal(path) as journal:
        return play_until(Campaign(loaded, journal, troupe), which or points(), spec, "ettr")  # type: ignore[arg-type]


SPEC = PrecisionSpec(width="0.4pt")


@pytest.fixture
def expected(tmp_path: Path) -> dict[int, Played]:
    """Return how far the points are played one after another."""
    return play(tmp_path / "alone.jsonl", Troupe(1, 0), SPEC)


@pytest.mark.parametrize(("window", "seed"), [(1, 1), (3, 2), (8, 3), (200, 4)])
def test_the_same_whoever_plays(expected: dict[int, Played], tmp_path: Path, window: int, seed: int) -> None:
    """One task at a time or two hundred, in whatever order they come back: the same replications."""
    troupe = Troupe(window, seed)
    assert play(tmp_path / "journal.jsonl", troupe, SPEC) == expected
    assert list(expected) == list(range(10))
    assert sum(task.replications for task in troupe.played) == sum(found.replications for found in expected.values())


def test_the_same_after_every_end(expected: dict[int, Played], tmp_path: Path) -> None:
    """Killed again and again it goes on from the journal: the same replications, and none is played twice."""
    played: list[str] = []
    for attempt in range(1000):
        troupe = Troupe(4, attempt, ends_after=7)
        try:
            found = play(tmp_path / "journal.jsonl", troupe, SPEC)
        except KeyboardInterrupt:
            played += [task.key for task in troupe.played]
            continue
        played += [task.key for task in troupe.played]
        break
    assert attempt > 3
    assert found == expected
    # The last one in each attempt was played, and written before the end came.
    assert len(played) == len(set(played))


def test_points_stop_when_they_are_precise(expected: dict[int, Played], tmp_path: Path) -> None:
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
    """1 % of a mean of 0.9 takes as many replications as 0.9 points."""
    relative = play(tmp_path / "a.jsonl", Troupe(4, 1), PrecisionSpec(width="1%", least=10))
    points_of = play(tmp_path / "b.jsonl", Troupe(4, 1), PrecisionSpec(width="0.9pt", least=10))
    loose = play(tmp_path / "c.jsonl", Troupe(4, 1), PrecisionSpec(width="10%", least=10))
    assert relative == points_of
    # Equal replications may hide runs that lose all in 31 % of ten runs, 17 % of 20: half of that is below 9 points.
    calm = {number for number in loose if not SPREADS[number % len(SPREADS)]}
    assert {number: found.replications for number, found in loose.items()} == {
        number: 20 if number in calm else 10 for number in loose
    }


def test_most_is_an_end(tmp_path: Path) -> None:
    """What is not precise at the limit is said not to be."""
    spec = PrecisionSpec(width="0.01pt", least=20, most=60)
    found = play(tmp_path / "journal.jsonl", Troupe(4, 1), spec)
    assert set(found.values()) == {(60, False)}


def test_nothing_is_sought_where_nothing_can_come(tmp_path: Path) -> None:
    """Infeasible, failed and censored points, and one without the metric, end at the first decision."""
    troupe = Troupe(4, 1)
    troupe.special = {
        "p1": lambda task: troupe.record(task, "infeasible"),
        "p2": lambda task: troupe.record(task, "failed"),
        "p3": lambda task: troupe.record(task, "ok", [None] * task.replications),
        "p4": lambda task: troupe.record(task)._replace(rows={"cost": [[1.0] * 10, [1.0] * 10]}),
    }
    found = play(tmp_path / "journal.jsonl", troupe, PrecisionSpec(width="0.01pt", most=40), points(6))
    assert [found[number] for number in (1, 2, 3, 4)] == [(30, False)] * 4
    assert found[0] == (40, False), "equal replications show nothing of others"


def test_a_crashed_task_is_tried_once_again(tmp_path: Path) -> None:
    """What crashed in this run ends its point; the next run tries it again, and goes on where it succeeds."""
    troupe = Troupe(4, 1)
    troupe.special = {"p1": lambda task: troupe.record(task, "crashed" if task.first == 10 else "ok")}
    spec = PrecisionSpec(width="10pt")
    path = tmp_path / "journal.jsonl"
    assert play(path, troupe, spec, points(2)) == {0: (30, True), 1: (30, False)}
    assert len(troupe.played) == 6
    again = Troupe(4, 1)
    assert play(path, again, spec, points(2)) == {0: (30, True), 1: (30, True)}
    assert [(task.point, task.first) for task in again.played] == [(1, 10)]


@cases("status", ["crashed", "failed"])
def test_what_went_wrong_is_tried_once_in_a_run(tmp_path: Path, status: str) -> None:
    """Also where several points have the same scenario, one after another; the next run tries it again, once."""
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        troupe = Troupe(1, 1)
        troupe.special = {"same": lambda task, troupe=troupe: troupe.record(task, status)}  # type: ignore[misc]
        found = play(path, troupe, PrecisionSpec(width="10pt"), points(5), name="same")
        assert found == dict.fromkeys(range(5), (30, False))
        assert sorted(task.first for task in troupe.played) == [0, 10, 20]
    again = Troupe(1, 1)
    assert play(path, again, PrecisionSpec(width="10pt"), points(5), name="same") == dict.fromkeys(range(5), (30, True))
    assert len(again.played) == 3


def test_draws_have_the_least(tmp_path: Path) -> None:
    """Draws of what is not known have the same replications in all, which the center has too, and no precision."""
    found = play(tmp_path / "journal.jsonl", Troupe(4, 1), SPEC, points(5, draws=2))
    for point in points(5, draws=2):
        if point.draw:
            assert found[point.number] == (30, None)
        else:
            assert found[point.number].replications >= 30
            assert found[point.number].precise is True


def test_the_same_scenario_is_played_once(tmp_path: Path) -> None:
    """Points with the same overrides share their outcomes, and all of them get an answer."""
    troupe = Troupe(4, 1)
    spec = PrecisionSpec(width="10pt")
    found = play(tmp_path / "journal.jsonl", troupe, spec, points(5), name="same")
    assert found == dict.fromkeys(range(5), (30, True))
    assert len(troupe.played) == 3


def test_a_long_journal_is_no_deep_recursion(tmp_path: Path) -> None:
    """A point whose interval stays a little too wide decides a hundred times from what the journal has."""
    # A spread that grows as the root of n keeps the interval of the mean as wide: 1.96 x 0.722 / sqrt(2) = 1.0006.
    growing = Troupe(4, 1)
    growing.special = {
        "p0": lambda task: growing.record(
            task, "ok", [0.5 + 0.00722 * math.sqrt(i + 1) * (-1) ** i for i in range(task.first, task.first + 10)]
        )
    }
    spec = PrecisionSpec(width="1pt", least=10, most=800)
    path = tmp_path / "journal.jsonl"
    assert play(path, growing, spec, points(1)) == {0: (800, False)}
    again, limit = Troupe(1, 1), sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 80)
    try:
        assert play(path, again, spec, points(1)) == {0: (800, False)}
    finally:
        sys.setrecursionlimit(limit)
    assert again.played == []


@cases(
    ("spec", "message"),
    [
        (PrecisionSpec(width="0.1pt", metric="tokens_per_day"), "tokens_per_day is not one: write a precision such as"),
        (PrecisionSpec(width="1%", metric="etr"), r"no point has a metric 'etr'; did you mean 'ettr'\?"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, spec: PrecisionSpec, message: str) -> None:
    """Points of what is no share, and a metric that no point has: one line."""
    with pytest.raises(RequestError, match=message):
        play(tmp_path / "journal.jsonl", Troupe(4, 1), spec)


def test_equal_replications_are_no_precision() -> None:
    """Where 3 % of runs lose ten points, 40 % of all 30 runs are alike: stopping there would miss the mean as often.

    Of 60 points at 0.4 points as many hold the truth as if 90 % did.
    """
    truth, rng, hits = 1 - 0.03 * 0.1, np.random.default_rng(62), 0
    precision, samples = Precision.parse("0.4pt"), 60
    for _ in range(samples):
        values = [Ratio(value, 1.0) for value in (1 - 0.1 * (rng.random(1000) < 0.03)).tolist()]
        done, goal = 0, 30
        while done < goal:
            done = goal
            goal = next_goal(done, _excess(Outcome(POINT, {"ettr": values[:done]}), "ettr", precision), 1000)
        ends = mean_estimate(values[:done], "ettr").interval
        hits += ends is not None and ends[0] <= truth <= ends[1]
    assert hits >= binom.ppf(0.0005, samples, 0.9)


def test_the_interval_covers_although_it_decided(tmp_path: Path) -> None:
    """Of 240 points that stop when they look precise, as many hold the truth as if 93 % did: nominal are 95."""
    noisy = [point for point in points(600) if point.number % len(SPREADS) in (2, 3)]
    found = play(tmp_path / "journal.jsonl", Troupe(8, 1), PrecisionSpec(width="0.4pt"), noisy)
    assert len(found) == 240
    hits = 0
    for number, played in found.items():
        low, high = mean_estimate(ratios_of(number, played.replications), "ettr").interval or (math.nan, math.nan)
        hits += low <= 0.9 <= high
    assert hits >= binom.ppf(0.0005, len(found), 0.93)
