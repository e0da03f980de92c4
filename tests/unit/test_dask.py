"""The Dask executor, on a real scheduler with two real workers on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.sweep.campaign import Campaign
from analysis.sweep.journal import Journal
from analysis.sweep.workers import Crew, CrewError, Place, Where, crew_at
from tests.sweep_tools import (
    CONTEXT,
    Instead,
    comparable,
    kills_always,
    numbered,
    play_slowly,
    slow,
    small_study,
    tasks_of,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the file of a scheduler with two workers, which are started again when they die; one has two threads."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    commands = [["dask_scheduler", "--port", "0", *local]]
    commands += [
        [*f"dask_worker --nthreads {threads} --local-directory {folder}".split(), *local] for threads in (1, 2)
    ]
    with contextlib.ExitStack() as stack, (folder / "log").open("wb") as log:
        for name, *arguments in commands:
            command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
            program = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(program.wait)
            # With those that it has started. Without its scheduler a worker would take its time to end.
            stack.callback(os.killpg, program.pid, signal.SIGKILL)
        until(lambda: complete(file))
        yield file


def complete(file: Path) -> bool:
    """Return whether a scheduler has written its file."""
    try:
        return bool(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return False


def client_of(place: Place) -> Any:
    """Return the connection of a place."""
    client: Any = vars(place)["_client"]
    return client


@pytest.mark.nightly
def test_a_worker_that_is_killed_loses_nothing(
    scheduler: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One of two workers is killed in the middle: each task has one outcome, the same to the last bit as in series."""
    loaded = small_study(tmp_path)
    with Journal(tmp_path / "journal") as journal:
        with crew_at(Where("serial")) as crew:
            campaign = Campaign(loaded, journal, crew)
            tasks = tasks_of(campaign)
            expected = sorted(map(comparable, crew.play(tasks, campaign.context)))
        with crew_at(Where("dask", file=str(scheduler))) as crew:
            client = client_of(crew.place)
            client.wait_for_workers(2, timeout=60)
            workers = client.run(os.getpid)
            records = Crew(Instead(crew.place, play_slowly, tmp_path)).play(tasks, campaign.context)
            found = [next(records) for _ in range(3)]
            victim = next(worker for worker, running in client.processing().items() if running)
            os.kill(workers[victim], signal.SIGKILL)
            found += records
            assert workers[victim] not in client.run(os.getpid).values()
    assert len(found) == len(expected) == 12
    assert sorted(map(comparable, found)) == expected
    assert capfd.readouterr() == ("", "")


@pytest.mark.nightly  # workers take their time to start again
def test_a_task_that_kills_workers_is_named(scheduler: Path, tmp_path: Path) -> None:
    """A task that takes its workers with it is crashed; what was with them then is not lost."""
    address = json.loads(scheduler.read_bytes())["address"]
    with crew_at(Where("dask", address=address)) as crew:
        client = client_of(crew.place)

        def be_strict(dask_scheduler: Any) -> None:
            dask_scheduler.allowed_failures = 0

        client.run_on_scheduler(be_strict)
        records = list(Crew(Instead(crew.place, kills_always, tmp_path)).play(numbered(10), CONTEXT))
    crashed = {record.point: record.reason for record in records if record.status == "crashed"}
    assert crashed == {7: "its process died once (on Dask workers, whose logs may say more)"}
    assert sorted(record.point for record in records) == list(range(10))
    assert {record.status for record in records if record.point not in crashed} == {"ok"}


def test_a_scheduler_that_ends_is_told_in_a_line(
    scheduler: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """When the scheduler goes in the middle, the study ends at once with a line, and the library is silent."""
    with crew_at(Where("dask", file=str(scheduler))) as crew:
        client_of(crew.place).wait_for_workers(1, timeout=60)
        records = Crew(Instead(crew.place, slow, tmp_path)).play(numbered(1000), CONTEXT)
        next(records)
        pid = client_of(crew.place).run_on_scheduler(os.getpid)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(
            CrewError, match="it has ended, or cannot be reached any more; run again to go on from here"
        ):
            list(records)
    assert capfd.readouterr() == ("", "")
