"""Executors: the same outcomes wherever tasks are simulated, and a line where they cannot be."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.analysis.sweep import workers
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.task import Shard, VersionError, run_task
from ettrick.analysis.sweep.workers import (
    Backend,
    ExecutorOptions,
    Processes,
    Serial,
    WorkerError,
    WorkerPool,
    worker_pool_at,
)
from tests import sweep_tools
from tests.cases import cases
from tests.pace import IS_FULL, one_in
from tests.sweep_tools import (
    CONTEXT,
    Instead,
    comparable,
    kills_always,
    kills_once,
    numbered,
    run_slowly,
    slow,
    small_study,
    tasks_of,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from ettrick.analysis.sweep.task import Task

# The pool: what becomes of tasks, whatever becomes of the processes that play them.

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Return two processes, which begin again when a test has ended them, and are gone afterwards."""
    place = Processes(2)
    yield place
    place.stop()


def quick(context: object, task: Task, folder: Path) -> object:
    """Return an outcome in this process."""
    return sweep_tools.noted_of_sweep_tools(CONTEXT, task)


def test_a_task_that_kills_its_process_once_is_like_any_other(processes: Processes, tmp_path: Path) -> None:
    """Of 80 tasks, one of which kills its process the first time, each has exactly one outcome, and it is ok."""
    records = list(WorkerPool(Instead(processes, kills_once, tmp_path)).run(numbered(80), CONTEXT))
    assert (tmp_path / "killed").exists()
    assert sorted(record.point for record in records) == list(range(80))
    assert {record.status for record in records} == {"ok"}


@pytest.mark.nightly
def test_a_task_that_always_kills_its_process_is_named(processes: Processes, tmp_path: Path) -> None:
    """Two such tasks are crashed, with how their processes ended; the others, some with them in flight, are ok."""
    records = list(WorkerPool(Instead(processes, kills_always, tmp_path)).run(numbered(40), CONTEXT))
    crashed = {record.point: record.reason for record in records if record.status == "crashed"}
    assert crashed == {7: "its process died 3 times (signal 9)", 11: "its process died 3 times (exit status 5)"}
    assert sorted(record.point for record in records) == list(range(40))
    assert {record.status for record in records if record.point not in crashed} == {"ok"}
    # Once or twice with others in flight, and then alone as often as it has attempts.
    assert 3 < len((tmp_path / "7").read_text()) <= 5


def test_no_more_tasks_are_taken_than_are_in_flight(processes: Processes, tmp_path: Path) -> None:
    """Of an endless study only the window is taken, also while outcomes are waiting to be fetched."""
    taken = []

    def endless() -> Iterator[Task]:
        for task in numbered(1000):
            taken.append(task)
            yield task

    records = WorkerPool(Instead(processes, sweep_tools.slow, tmp_path)).run(endless(), CONTEXT)
    with contextlib.closing(records):
        assert [next(records).status for _ in range(12)] == ["ok"] * 12
        assert len(taken) <= 12 + processes.window()
    assert processes.window() == 8


def test_a_generator_that_is_closed_ends_what_is_in_flight(processes: Processes, tmp_path: Path) -> None:
    """Tasks that would take minutes are not waited for, their processes are gone, and the pool can go on."""
    records = WorkerPool(Instead(processes, sweep_tools.soon_asleep, tmp_path)).run(numbered(20), CONTEXT)
    assert {next(records).point for _ in range(4)} == {0, 1, 2, 3}
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    start = time.monotonic()
    records.close()
    assert time.monotonic() - start < 60  # they sleep for 300 s
    until(lambda: not running(tmp_path))
    assert len(list(WorkerPool(Instead(processes, sweep_tools.slow, tmp_path)).run(numbered(3), CONTEXT))) == 3


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


class Broken(Backend):
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
        (ModuleNotFoundError("No module named\n'x'"), "cannot run tasks (ModuleNotFoundError: No module named 'x')"),
        (VersionError("another version"), "another version"),
    ],
)
def test_a_place_that_cannot_play_ends_the_study_with_a_line(error: Exception, line: str) -> None:
    """What is raised outside of a simulation is the fault of the place: nothing is written in the name of a task."""
    with pytest.raises(WorkerError) as raised:
        list(WorkerPool(Broken(error)).run(numbered(3), CONTEXT))
    assert str(raised.value) == f"over there: {line}"


def test_outcomes_do_not_depend_on_who_plays(tmp_path: Path) -> None:
    """In series, on processes and as two shards, by events and by machine code: the same journal to the last bit."""
    loaded = small_study(tmp_path)
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(loaded, journal, WorkerPool(Serial()))
        tasks, contexts = tasks_of(campaign), [campaign.context]
        if importlib.util.find_spec("numba") is not None:
            contexts.append(campaign.prepared_for(loaded.points(), 10**7))
    expected = sorted(comparable(run_task(campaign.context, task)) for task in tasks)
    assert len(expected) == 12
    assert all(record.rows["ettr"][0] for record in expected)
    shards = [[task for task in tasks if Shard(number, 2).includes(task.key)] for number in (1, 2)]
    for context in contexts:
        assert sorted(comparable(run_task(context, task)) for shard in shards for task in shard) == expected
    wheres = [
        ExecutorOptions("serial"),
        *(ExecutorOptions("process", count) for count in ((1, 2, 3) if IS_FULL else (2,))),
    ]
    for where in wheres:
        with worker_pool_at(where) as worker_pool:
            for context in contexts:
                assert sorted(map(comparable, worker_pool.run(tasks, context))) == expected


# The Dask executor, on a real scheduler with two real workers on loopback.

distributed = pytest.importorskip("distributed")


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


def client_of(place: Backend) -> Any:
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
        with worker_pool_at(ExecutorOptions("serial")) as worker_pool:
            campaign = Campaign(loaded, journal, worker_pool)
            tasks = tasks_of(campaign)
            expected = sorted(map(comparable, worker_pool.run(tasks, campaign.context)))
        with worker_pool_at(ExecutorOptions("dask", file=str(scheduler))) as worker_pool:
            client = client_of(worker_pool.backend)
            client.wait_for_workers(2, timeout=60)
            workers = client.run(os.getpid)
            records = WorkerPool(Instead(worker_pool.backend, run_slowly, tmp_path)).run(tasks, campaign.context)
            found = [next(records) for _ in range(3)]
            victim = next(worker for worker, running in client.processing().items() if running)
            os.kill(workers[victim], signal.SIGKILL)
            found += records
            assert workers[victim] not in client.run(os.getpid).values()
    assert len(found) == len(expected) == 12
    assert sorted(map(comparable, found)) == expected
    assert capfd.readouterr() == ("", "")


@pytest.mark.nightly
def test_machine_code_on_dask_gives_the_same_journal(scheduler: Path, tmp_path: Path) -> None:
    """To the last bit what one process does in series by events."""
    pytest.importorskip("numba")
    loaded = small_study(tmp_path)
    with (
        Journal(tmp_path / "journal") as journal,
        worker_pool_at(ExecutorOptions("dask", file=str(scheduler))) as worker_pool,
    ):
        campaign = Campaign(loaded, journal, worker_pool)
        tasks = tasks_of(campaign)
        found = sorted(map(comparable, worker_pool.run(tasks, campaign.prepared_for(loaded.points(), 10**7))))
    assert found == sorted(comparable(run_task(campaign.context, task)) for task in tasks)


@pytest.mark.nightly  # workers take their time to start again
def test_a_task_that_kills_workers_is_named(scheduler: Path, tmp_path: Path) -> None:
    """A task that takes its workers with it is crashed; what was with them then is not lost."""
    address = json.loads(scheduler.read_bytes())["address"]
    with worker_pool_at(ExecutorOptions("dask", address=address)) as worker_pool:
        client = client_of(worker_pool.backend)

        def be_strict(dask_scheduler: Any) -> None:
            dask_scheduler.allowed_failures = 0

        client.run_on_scheduler(be_strict)
        records = list(WorkerPool(Instead(worker_pool.backend, kills_always, tmp_path)).run(numbered(10), CONTEXT))
    crashed = {record.point: record.reason for record in records if record.status == "crashed"}
    assert crashed == {7: "its process died once (on Dask workers, whose logs may say more)"}
    assert sorted(record.point for record in records) == list(range(10))
    assert {record.status for record in records if record.point not in crashed} == {"ok"}


@pytest.mark.nightly
def test_a_scheduler_that_ends_is_told_in_a_line(
    scheduler: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """When the scheduler goes in the middle, the study ends at once with a line, and the library is silent."""
    with worker_pool_at(ExecutorOptions("dask", file=str(scheduler))) as worker_pool:
        client_of(worker_pool.backend).wait_for_workers(1, timeout=60)
        records = WorkerPool(Instead(worker_pool.backend, slow, tmp_path)).run(numbered(1000), CONTEXT)
        next(records)
        pid = client_of(worker_pool.backend).run_on_scheduler(os.getpid)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(
            WorkerError, match="it has ended, or cannot be reached any more; run again to go on from here"
        ):
            list(records)
    assert capfd.readouterr() == ("", "")


def test_a_pool_that_breaks_while_tasks_are_sent_loses_none(tmp_path: Path) -> None:
    """What cannot be sent because a process has just died comes back as a future of that death."""
    place = Processes(1)
    try:
        with pytest.raises(Exception, match="terminated"):
            place.submit(os._exit, 3).result()
        late = place.submit(os.getpid)
        error = late.exception()
        assert error is not None
        assert place.death(error) == (1, "exit status 3")
        assert place.death(ValueError()) is None
        assert place.submit(os.getpid).result() != os.getpid()
    finally:
        place.stop()


def test_processes_that_cannot_start_are_no_fault_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes end before they have anything to do, or there can be none, one line says so."""
    place = Processes(1)
    monkeypatch.setattr(workers, "begin_as_worker", sys.exit)
    with pytest.raises(WorkerError, match=r"^processes: they end as soon as they are started \(exit status \d+\)$"):
        next(WorkerPool(place).run(numbered(1), CONTEXT))

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(workers, "ProcessPoolExecutor", refuse)
    with pytest.raises(WorkerError, match=r"^processes: cannot be started here \(.*unavailable\); the serial executor"):
        next(WorkerPool(place).run(numbered(1), CONTEXT))


def test_an_executor_that_does_not_exist_is_refused() -> None:
    """The line names those that there are."""
    with (
        pytest.raises(WorkerError, match=r"^no executor 'proces': choose from serial, process, dask$"),
        worker_pool_at(ExecutorOptions("proces")),
    ):
        pass


def refused(address: str = "", file: str = "") -> str:
    """Return the line with which a Dask scheduler is refused."""
    with pytest.raises(WorkerError) as raised, worker_pool_at(ExecutorOptions("dask", 0, address, file)):
        pass
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_dask_needs_an_address_that_can_be_read(tmp_path: Path) -> None:
    """Without an address, or with a file that is missing, no file, or not a scheduler's, a line says what to do."""
    pytest.importorskip("distributed")
    path = tmp_path / "scheduler.json"
    assert refused() == "the dask executor needs --scheduler-address or --scheduler-file"
    line = f"{path}: no such file; a scheduler writes it: dask scheduler --scheduler-file {path}"
    assert refused(file=str(path)) == line
    assert refused(file=str(tmp_path)) == f"{tmp_path}: cannot be read (Is a directory)"
    for content in ("", "[]", '{"address": ""}', '{"id": 1}', "\x00\xff"):
        path.write_text(content, encoding="latin-1")
        assert refused(file=str(path)) == f"{path}: is not what a Dask scheduler writes: it has no address"


def test_dask_where_nobody_listens_is_refused_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The wait is bounded, the line names the address or the file, and the library says nothing of its own."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "_CONNECT", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else has the port, and nobody listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        assert refused(address).startswith(f"{address}: no Dask scheduler answers (")
        path = tmp_path / "scheduler.json"
        path.write_text(f'{{"address": "{address}"}}')
        assert refused(file=str(path)).startswith(f"{path}: no Dask scheduler answers at {address} (")
    for wrong in ("localhost", "nonsense://host:1", "tls://127.0.0.1:1"):
        assert refused(wrong).startswith(f"{wrong}: no Dask scheduler answers (")
    assert time.monotonic() - start < 20
    assert capfd.readouterr() == ("", "")


def test_dask_that_is_not_installed_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to install."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = "the dask executor needs the extra cluster: pip install 'ettrick[cluster]'"
    assert refused("tcp://127.0.0.1:1") == line


class Remote:
    """A call that a scheduler knows of; its outcome comes when the callback is called."""

    def add_done_callback(self, callback: Callable[[Remote], None]) -> None:
        """Keep what is to be called."""
        self.callback = callback

    def result(self) -> None:
        """Return no outcome: the scheduler has forgotten it."""
        raise CancelledError


class Client:
    """A connection to a scheduler that loses its workers, or itself."""

    def __init__(self) -> None:
        self.workers = 2
        self.remote = Remote()
        self.cancelled: list[Remote] = []

    def nthreads(self) -> dict[int, int]:
        """Return the workers."""
        if self.workers < 0:
            raise OSError(None)
        return dict.fromkeys(range(self.workers), 1)

    def submit(self, *args: object, **kwargs: object) -> Remote:
        """Return a call that nobody works on."""
        return self.remote

    def cancel(self, remotes: list[Remote]) -> None:
        """Forget calls."""
        self.cancelled += remotes


def test_a_scheduler_without_workers_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window follows the workers; when there are none for longer than is waited for, one line says so."""
    client = Client()
    place = workers.Dask(client, "there")
    monkeypatch.setattr(workers, "_COUNT", 0.0)
    assert place.window() == 8
    client.workers = 5
    assert place.window() == 20
    client.workers = 0
    place.check()
    monkeypatch.setattr(workers, "_NO_WORKERS", -1.0)
    monkeypatch.setattr("ettrick.analysis.sweep.workers._LOOK", 0.01)
    with pytest.raises(WorkerError, match=r"^there: the scheduler has no workers"):
        next(WorkerPool(place).run(numbered(1), CONTEXT))
    assert client.cancelled == [client.remote]


def test_a_task_whose_workers_die_is_played_alone_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scheduler blames for the death of workers was perhaps only with them; it has a second try."""
    distributed = pytest.importorskip("distributed")
    client = Client()
    place = workers.Dask(client, "there")
    calls = []

    def die() -> None:
        calls.append(1)
        raise distributed.KilledWorker(task="task", last_worker=None, allowed_failures=3)

    monkeypatch.setattr(client.remote, "result", die)
    monkeypatch.setattr(client.remote, "add_done_callback", lambda callback: callback(client.remote))
    (record,) = WorkerPool(place).run(numbered(1), CONTEXT)
    assert len(calls) == 2
    told = "its process died 4 times (on Dask workers, whose logs may say more)"
    assert (record.status, record.reason) == ("crashed", told)
