"""The unit of work of a study: what its outcome depends on, what makes none, and that nothing is played twice."""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import math
import shutil
import tracemalloc
from array import array
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import analysis
import sim
from analysis.commands.studies import load_study as load_for_command
from analysis.runs import Rows
from analysis.statistics.estimates import contributions
from analysis.study.load import load_study
from analysis.sweep import task as module
from analysis.sweep.campaign import Campaign, outcome_of
from analysis.sweep.journal import Journal
from analysis.sweep.sweep import REPLICATIONS, replications_of
from analysis.sweep.task import MAKERS, Record, play, source_digest
from analysis.sweep.workers import Crew, Serial
from sim import Ratio
from tests.cases import cases
from tests.sweep_tools import small_study, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.study.table import Outcome

PACKAGE = Path(analysis.__file__).parent
SIMULATOR = Path(sim.__file__).parent

# ------------------------------------------------------------------------------------------------------- versions


def imported(name: str) -> Iterator[str]:
    """Yield the files of the package that one of its files imports when it is loaded."""
    for statement in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
        modules: list[str] = []
        if isinstance(statement, ast.ImportFrom):
            of = statement.module or ""
            modules = [of, *(f"{of}.{alias.name}" for alias in statement.names)]
        elif isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        for found in modules:
            file = Path(*found.split(".")[1:]).with_suffix(".py") if found.startswith("analysis.") else None
            if file is not None and (PACKAGE / file).is_file():
                yield file.as_posix()


def test_the_digest_is_of_every_file_that_makes_a_record() -> None:
    """Of the package: the file of tasks, and all that it imports, directly or not."""
    found, waiting = set[str](), ["sweep/task.py"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(name)
    assert set(MAKERS) == found
    assert {"metrics.py", "statistics/differences.py"} <= found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return copies of the sources of the simulator and of the package."""
    folder = tmp_path_factory.mktemp("sources")
    for source in (SIMULATOR, PACKAGE):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    return folder / SIMULATOR.name, folder / PACKAGE.name


def test_a_changed_byte_of_what_makes_a_record_is_another_version(
    sources: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that have nothing to do with records do not matter, and neither does where all of them lie."""
    simulator, package = sources
    known = {source_digest(SIMULATOR, PACKAGE)}
    assert source_digest(simulator, package) in known
    for path in [*(package / name for name in MAKERS), simulator / "run.py", simulator / "formulas" / "goodput.py"]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b" ")
        known.add(source_digest(simulator, package))
        path.write_bytes(content)
    assert len(known) == 1 + len(MAKERS) + 2
    (package / "plots.py").write_text("")
    (package / "sweep" / "journal.py").write_text("")
    (simulator / "notes.txt").write_text("nothing")
    assert source_digest(simulator, package) == source_digest(SIMULATOR, PACKAGE)
    monkeypatch.setattr(module.metadata, "version", lambda name: f"other {name}")
    assert source_digest(simulator, package) not in known


def test_the_version_of_numpy_is_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may sum in another order."""
    before, version = source_digest(SIMULATOR, PACKAGE), module.metadata.version
    monkeypatch.setattr(module.metadata, "version", lambda name: "0.1" if name == "numpy" else version(name))
    assert source_digest(SIMULATOR, PACKAGE) != before


# -------------------------------------------------------------------------------------------- numbers that are none


@pytest.mark.parametrize(
    ("ratio", "luck", "told"),
    [
        (Ratio(1.0, math.inf), None, "the base of ettr of replication 0 is inf"),
        (Ratio(1.0, math.nan), None, "the base of ettr of replication 0 is nan"),
        (Ratio(math.nan, 1.0), None, "ettr of replication 0 is nan"),
        (Ratio(-math.inf, 1.0), None, "ettr of replication 0 is -inf"),
        (Ratio(1.0, 1.0), (0.0, math.inf, 0.0), "luck of replication 0 is inf"),
    ],
)
def test_numbers_that_are_none_are_a_failure_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: Ratio, luck: Any, told: str
) -> None:
    """They end neither the study nor become a number of the journal."""
    monkeypatch.setattr(module, "ratios", lambda _prepared, _result: {"ettr": ratio})
    monkeypatch.setattr(module.Luck, "of", lambda _self, _result: luck)
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(small_study(tmp_path), journal, Crew(Serial()))
        record = play(campaign.context, tasks_of(campaign)[0])
        journal.add(record)
        assert record.status == "failed"
        assert told in record.reason
        assert record.rows == {}


def test_an_infinite_amount_is_what_was_censored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is null in the journal, and infinite again when it is read."""
    monkeypatch.setattr(module, "ratios", lambda _prepared, _result: {"time_to_work": Ratio(math.inf, 1)})
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(small_study(tmp_path), journal, Crew(Serial()))
        point = next(campaign.loaded.points())
        campaign.play([point], 2)
        assert campaign.outcome(point, 2).metrics["time_to_work"] == [Ratio(math.inf, 1.0)] * 2


# ------------------------------------------------------------------------------------------------------ how much work


def test_more_work_than_a_study_may_have_is_refused_before_it_begins(tmp_path: Path) -> None:
    """All replications of all points count, those that are there already do not, and what was asked for before does."""
    loaded = small_study(tmp_path)
    points = list(loaded.points())
    one = sim.examine(loaded.template.scenario(loaded.overrides(points[0]))).expected_events
    with Journal(tmp_path / "journal") as journal:
        for most, fits in ((0.99 * 72 * one, False), (1.01 * 72 * one, True), (0.0, True)):
            campaign = Campaign(replace(loaded, most_events=most), journal, Crew(Serial()))
            with contextlib.nullcontext() if fits else pytest.raises(sim.WorkError):
                campaign.play(points, 12)
            assert len(journal) == (12 if fits else 0)
        campaign = Campaign(replace(loaded, most_events=1.5 * 12 * one), journal, Crew(Serial()))
        campaign.play(points[:1], 12, 12)
        with pytest.raises(sim.WorkError):
            campaign.play(points[:1], 12, 24)


def test_yes_allows_all_of_it(tmp_path: Path) -> None:
    """What the commands about studies do with --yes."""
    small_study(tmp_path)
    asked = [load_for_command(str(tmp_path / "small.yaml"), None, None, yes=yes).most_events for yes in (False, True)]
    assert asked == [sim.MOST_EVENTS, math.inf]


# ---------------------------------------------------------------------------------------------------------- playing


class Troupe:
    """A crew that says what came of every task without a simulation."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.played: list[str] = []

    def play(self, tasks: Any, _context: Any) -> Iterator[Record]:
        """Yield a record for each task."""
        for task in tasks:
            self.played.append(task.key)
            yield Record(task.key, task.point, task.first, task.replications, self.status, "", 0.0, {}, {})


@cases("status", ["ok", "infeasible", "failed", "crashed"])
def test_points_with_the_same_scenario_are_played_once_and_count_once(tmp_path: Path, status: str) -> None:
    """Progress reaches its total, whatever came of them; what went wrong is tried once in a run."""
    path = tmp_path / "study.yaml"
    twins = {"a": {"spares.hot": 1}, "b": {"spares.hot": 1}, "c": {"spares.hot": 2}}
    path.write_text(
        json.dumps(
            {"name": "twins", "scenario": "quickstart", "vary": {"kind": {"choices": twins}}, "replications": 12}
        )
    )
    loaded, troupe = load_study(path), Troupe(status)
    seen: list[tuple[int, int | None]] = []
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(loaded, journal, troupe, lambda done, total: seen.append((done, total)))  # type: ignore[arg-type]
        points = list(loaded.points())
        assert len(points) == 3
        campaign.play(points, 12)
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert len(set(troupe.played)) == len(troupe.played) == 4
        seen.clear()
        campaign.play(points, 12)
        assert seen == ([] if status in ("ok", "infeasible") else [(1, 4), (2, 4), (3, 4), (4, 4)])


def test_the_number_of_replications_is_the_same_for_all_who_ask(tmp_path: Path) -> None:
    """As the study says; with a precision as many as are played before its decisions; 16 if it says nothing."""
    path = tmp_path / "study.yaml"
    base = {"name": "count", "scenario": "quickstart", "vary": {"spares.hot": {"choices": [1]}}}
    for changes, count in (
        ({}, REPLICATIONS),
        ({"replications": 5}, 5),
        ({"precision": {"width": "1pt", "least": 40}}, 40),
    ):
        path.write_text(json.dumps({**base, **changes}))
        assert replications_of(load_study(path).study) == count


# ------------------------------------------------------------------------------------------------------------ rows


def test_rows_are_the_sequence_that_they_were_made_of() -> None:
    """Single ones, slices of every kind, equality, and as an array."""
    plain = [Ratio(float(number), number / 3) for number in range(7)]
    rows = Rows(array("d", itertools.chain.from_iterable(plain)), 2, Ratio._make)
    assert rows == plain
    assert list(rows) == plain
    assert [type(row) for row in rows] == [Ratio] * 7
    assert rows[-1] == plain[-1]
    for part in (slice(3), slice(2, 5), slice(None), slice(-3, None), slice(None, None, -2), slice(5, 2), slice(9, 12)):
        assert rows[part] == plain[part], part
    assert np.array_equal(np.array(rows), np.array(plain))
    assert (rows != plain[:6], bool(rows), bool(rows[:0])) == (True, True, False)
    with pytest.raises(IndexError):
        rows[7]
    ours, theirs = contributions(rows), contributions(plain)
    assert ours is not None
    assert theirs is not None
    assert ours.tolist() == theirs.tolist()


def outcome(count: int) -> Outcome:
    """Return what 16 replications with five metrics come to."""
    point: Any = None
    numbers = [0.1 + index / 7 for index in range(count)]
    rows: dict[str, list[list[float | None]]] = {
        f"metric {name}": [[number + name for number in numbers], [number * 3 for number in numbers]]
        for name in range(5)
    }
    luck: Sequence[Any] = [[number, number / 2, number / 3] for number in numbers]
    notes = {"luck": luck, "censored": [0] * count, "never_started": [0] * count}
    return outcome_of(point, [Record("", 0, 0, count, "ok", "", 0.0, rows, notes)])


def test_a_point_takes_little_memory() -> None:
    """At most twice the bytes of its numbers, and some for what holds them: without objects, whatever they are."""
    found = outcome(160)
    assert found.luck[-1] == (found.luck[-1][0], found.luck[-1][0] / 2, found.luck[-1][0] / 3)
    tracemalloc.start()
    try:
        kept = [outcome(160) for _ in range(20)]
        held = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    assert held < 2 * 160 * (5 * 2 + 3) * 8


def test_one_replication_without_luck_leaves_all_without() -> None:
    """What is not known of every one is not known."""
    point: Any = None
    notes = {"luck": [[1.0, 2.0], None], "censored": [0] * 2, "never_started": [0] * 2}
    assert outcome_of(point, [Record("", 0, 0, 2, "ok", "", 0.0, {}, notes)]).luck == ()
