"""The crew: what becomes of tasks, whatever becomes of the processes that play them."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.sweep.task import VersionError
from analysis.sweep.workers import Crew, CrewError, Place, Processes, Serial
from tests import sweep_tools
from tests.cases import cases
from tests.pace import one_in
from tests.sweep_tools import CONTEXT, Instead, kills_always, kills_once, numbered, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from analysis.sweep.task import Task

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Return two processes that are gone afterwards."""
    place = Processes(2)
    yield place
    place.stop()


def quick(context: object, task: Task, folder: Path) -> object:
    """Return an outcome in this process."""
    return sweep_tools.told(CONTEXT, task)


def test_a_task_that_kills_its_process_once_is_like_any_other(processes: Processes, tmp_path: Path) -> None:
    """Of 200 tasks, one of which kills its process the first time, each has exactly one outcome, and it is ok."""
    records = list(Crew(Instead(processes, kills_once, tmp_path)).play(numbered(200), CONTEXT))
    assert (tmp_path / "killed").exists()
    assert sorted(record.point for record in records) == list(range(200))
    assert {record.status for record in records} == {"ok"}


@pytest.mark.nightly
def test_a_task_that_always_kills_its_process_is_named(processes: Processes, tmp_path: Path) -> None:
    """Two such tasks are crashed, with how their processes ended; the others, some with them in flight, are ok."""
    records = list(Crew(Instead(processes, kills_always, tmp_path)).play(numbered(40), CONTEXT))
    crashed = {record.point: record.reason for record in records if record.status == "crashed"}
    assert crashed == {7: "its process died 3 times (signal 9)", 11: "its process died 3 times (exit status 5)"}
    assert sorted(record.point for record in records) == list(range(40))
    assert {record.status for record in records if record.point not in crashed} == {"ok"}
    # Once or twice with others in flight, and then alone as often as it has attempts.
    assert 3 < len((tmp_path / "7").read_text()) <= 5


def test_no_more_tasks_are_taken_than_are_in_flight(tmp_path: Path) -> None:
    """Of an endless study only the window is taken, also while outcomes are waiting to be fetched."""
    taken = []

    def endless() -> Iterator[Task]:
        for task in numbered(1000):
            taken.append(task)
            yield task

    place = Processes(2)
    records = Crew(Instead(place, sweep_tools.slow, tmp_path)).play(endless(), CONTEXT)
    with contextlib.closing(records):
        assert [next(records).status for _ in range(12)] == ["ok"] * 12
        assert len(taken) <= 12 + place.window()
    assert place.window() == 8


def test_tasks_that_follow_are_played_first_and_asked_for_after_each_outcome() -> None:
    """What follows from an outcome goes before what waits, and the end is reached only when nothing follows."""
    first, later = numbered(3), numbered(6)[3:]

    def more() -> list[Task]:
        return [later.pop(0)] if later else []

    records = Crew(Instead(Serial(), quick, Path())).play(first, CONTEXT, more)  # type: ignore[arg-type]
    assert [record.point for record in records] == [0, 3, 4, 5, 1, 2]


def test_many_outcomes_do_not_pile_up() -> None:
    """An outcome costs as much at the end as at the beginning, however often what follows was asked for."""
    records = Crew(Instead(Serial(), quick, Path())).play(numbered(50_000), CONTEXT)  # type: ignore[arg-type]

    def spent(count: int) -> float:
        start = time.process_time()
        assert len(list(itertools.islice(records, count))) == count
        return time.process_time() - start

    # The least of four: one of them may hold a collection of garbage.
    first = min(spent(500) for _ in range(4))
    spent(46_000)
    assert min(spent(500) for _ in range(4)) < 5 * first


def test_a_generator_that_is_closed_ends_what_is_in_flight(processes: Processes, tmp_path: Path) -> None:
    """Tasks that would take minutes are not waited for, their processes are gone, and the crew can go on."""
    records = Crew(Instead(processes, sweep_tools.soon_asleep, tmp_path)).play(numbered(20), CONTEXT)
    assert {next(records).point for _ in range(4)} == {0, 1, 2, 3}
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    start = time.monotonic()
    records.close()
    assert time.monotonic() - start < 60  # they sleep for 300 s
    until(lambda: not running(tmp_path))
    assert len(list(Crew(Instead(processes, sweep_tools.slow, tmp_path)).play(numbered(3), CONTEXT))) == 3


def running(folder: Path) -> set[int]:
    """Return the processes that left their number in a folder and are still there."""
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit() and Path("/proc", path.name).exists()}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", one_in(2, [signal.SIGINT, signal.SIGKILL]))
def test_processes_leave_with_the_program(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C passes as KeyboardInterrupt without a word from a worker, and after a kill workers leave by themselves."""
    command = [sys.executable, "-m", "tests.sweep_tools", str(tmp_path)]
    program = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = running(tmp_path)
    if number == signal.SIGINT:
        os.killpg(program.pid, number)  # a terminal tells the whole group
    else:
        program.kill()
    said = program.communicate(timeout=60)[1]
    assert len(workers) == 2
    assert program.returncode == -number
    assert said.count("Traceback") == (number == signal.SIGINT)
    assert said.strip().endswith("KeyboardInterrupt" if number == signal.SIGINT else "")
    until(lambda: not running(tmp_path))


class Broken(Place):
    """A place that has lost something."""

    name = "over there"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def submit(self, function: object, /, *args: object, **kwargs: object) -> Future[object]:
        """Return the future of a call that could not be made."""
        return Serial().submit(self.fail)

    def fail(self) -> None:
        """Fail as a worker does that has not the program, or not this one."""
        raise self.error


@cases(
    ("error", "line"),
    [
        (ModuleNotFoundError("No module named\n'x'"), "cannot play tasks (ModuleNotFoundError: No module named 'x')"),
        (VersionError("another version"), "another version"),
    ],
)
def test_a_place_that_cannot_play_ends_the_study_with_a_line(error: Exception, line: str) -> None:
    """What is raised outside of a simulation is the fault of the place: nothing is written in the name of a task."""
    with pytest.raises(CrewError) as raised:
        list(Crew(Broken(error)).play(numbered(3), CONTEXT))
    assert str(raised.value) == f"over there: {line}"
