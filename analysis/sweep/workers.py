"""Executors: where tasks run. All of them are `concurrent.futures.Executor`, and all give the same outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import threading
import time
import warnings
from collections import deque
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.contest.runs import begin_as_worker, cores, deaf, start_method
from ettrick.analysis.sweep.task import Record, VersionError, run_task
from ettrick.sim.yamlfile import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from multiprocessing.process import BaseProcess

    from ettrick.analysis.sweep.task import Context, Task

KINDS = ("serial", "process", "dask")
"""Names of the executors."""

AHEAD = 4
"""Tasks in flight for each that runs, so that no worker idles."""


class WorkerError(ValueError):
    """Tasks cannot run where they should; the message is one line."""


class ExecutorOptions(NamedTuple):
    """The executor of the tasks of a study.

    Parameters
    ----------
    kind
        ``serial``, ``process`` or ``dask``.
    jobs
        Processes at most; 0 for one per core.
    address, file
        Address of a Dask scheduler, or the file in which it left it.
    """

    kind: str = "process"
    jobs: int = 0
    address: str = ""
    file: str = ""


class WorkerCrash(NamedTuple):
    """The crash of a process in a task: how many times, and in which way."""

    times: int
    how: str


class Backend(Executor):
    """An executor with what a worker pool has to know of it.

    ``name`` is how messages call it, and ``attempts`` how often a task that is alone is run before it is given up.
    """

    name = "this process"
    attempts = 1

    def window(self) -> int:
        """Return how many tasks should be in flight."""
        return 1

    def death(self, error: BaseException) -> WorkerCrash | None:  # noqa: ARG002
        """Return how a process died, if that is what an error says; ``None`` if it says something else."""
        return None

    def check(self) -> None:
        """Raise `WorkerError` if no outcome can be expected any more."""

    @contextlib.contextmanager
    def alone(self) -> Iterator[Backend]:
        """Yield a backend where one task runs at a time."""
        yield self

    def stop(self) -> None:
        """Drop what is in flight, at once; what is sent next runs again."""


class Serial(Backend):
    """Runs each task at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call, as a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Backend):
    """A pool of processes, started when there is something to do, and again after one of them has died."""

    name = "processes"
    attempts = 3

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._started: list[BaseProcess] = []

    def window(self) -> int:
        """Return how many tasks should be in flight."""
        return AHEAD * self._workers

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call as a future; one that has failed if the pool is just breaking."""
        if self._pool is None:
            self._pool = self._opened()
        # The pool starts its processes one by one, and is not to be interrupted in the middle of that.
        is_starting = len(self._started) < self._workers
        try:
            with deaf() if is_starting else contextlib.nullcontext():
                return self._pool.submit(function, *args, **kwargs)
        except BrokenExecutor as error:
            future: Future[Any] = Future()
            future.set_exception(error)
            return future
        except _NO_START as error:
            raise _cannot_start(error) from None

    def _opened(self) -> ProcessPoolExecutor:
        """Return a pool whose processes have been seen to work, so that their death is the doing of a task."""
        context: Any = _Noting()
        self._started = context.started
        try:
            pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=begin_as_worker)
            with deaf():
                first = pool.submit(os.getpid)
            first.result()
        except BrokenExecutor:
            pool.shutdown()
            raise WorkerError(f"processes: they end as soon as they are started ({_end(self._started)})") from None
        except _NO_START as error:
            self._kill()
            raise _cannot_start(error) from None
        except BaseException:
            self._kill()
            raise
        return pool

    def death(self, error: BaseException) -> WorkerCrash | None:
        """Return how a process died, if that is what an error says; the next call starts others."""
        if not isinstance(error, BrokenExecutor):
            return None
        self.shutdown()
        return WorkerCrash(1, _end(self._started))

    @contextlib.contextmanager
    def alone(self) -> Iterator[Backend]:
        """Yield a pool of one process."""
        single = Processes(1)
        try:
            yield single
        finally:
            single.stop()

    def stop(self) -> None:
        """Kill the processes: what they do is not wanted any more."""
        self._kill()
        self.shutdown()

    def _kill(self) -> None:
        for process in self._started:
            if process.pid is not None:  # the last one may have failed to start
                process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the processes finish what they were given, and end."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)
        self._pool = None


_NO_START = (OSError, EOFError, ImportError, NotImplementedError)
"""The errors of processes that cannot be started, or whose starter has ended."""


def _cannot_start(error: BaseException) -> WorkerError:
    reason = str(error) or "who starts them has ended"
    return WorkerError(f"processes: cannot be started here ({reason}); the serial executor needs none")


class _Noting:
    """A context that starts processes and notes each, because a pool does not say how its processes ended."""

    def __init__(self) -> None:
        self.started: list[BaseProcess] = []
        self._context: Any = multiprocessing.get_context(start_method())
        if start_method() == "forkserver":
            # Processes then begin with everything imported: a new pool takes a twentieth of a second, not two.
            self._context.set_forkserver_preload(["__main__", "ettrick.analysis.sweep.task"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:
        """Return a process that is about to be started."""
        process: BaseProcess = self._context.Process(*args, **kwargs)
        self.started.append(process)
        return process


def _end(processes: list[BaseProcess]) -> str:
    """Return how the last of some processes ended."""
    code = processes[-1].exitcode if processes else None
    if code is None:
        return "unknown how"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


@contextlib.contextmanager
def worker_pool_at(where: ExecutorOptions) -> Iterator[WorkerPool]:
    """Yield the worker pool of a backend; what it still does is stopped afterwards.

    Raises
    ------
    WorkerError
        If there is no such backend, or it cannot be reached.
    """
    with contextlib.ExitStack() as stack:
        backend: Backend
        if where.kind == "serial":
            backend = Serial()
        elif where.kind == "process":
            backend = Processes(where.jobs or cores())
        elif where.kind == "dask":
            backend = stack.enter_context(dask_at(where))
        else:
            raise WorkerError(f"no executor {where.kind!r}: choose from {', '.join(KINDS)}")
        stack.callback(backend.stop)
        yield WorkerPool(backend)


# What runs the tasks of a study: a backend, a window of tasks in flight, and retries when processes die.

_LOOK = 2.0
"""Seconds without an outcome after which the backend is asked whether any can still come [s]."""


class WorkerPool:
    """Runs tasks on a backend.

    When a process dies, it is unknown which of the tasks in flight it was. They all become suspects, and each is
    run alone, where a death has one cause; the others are then innocent, and nothing of theirs is lost.

    Parameters
    ----------
    backend
        Where `ettrick.analysis.sweep.task.run_task` is called; closed by whoever opened it.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def run(self, tasks: Iterable[Task], context: Context) -> Generator[Record]:
        """Yield the outcome of every task as it comes.

        A generator that is closed before its end, or left by an error, stops what is in flight.

        Parameters
        ----------
        tasks
            The tasks; only as many are taken as are in flight.

        Raises
        ------
        WorkerError
            If there is no worker, or none is left.
        """
        flying: dict[Future[Record], Task] = {}
        suspects: deque[Task] = deque()
        waiting = iter(tasks)
        ended = False
        try:
            while True:
                if not suspects:
                    self._send(context, flying, waiting)
                if flying:
                    came = self._landed(flying, suspects)
                elif suspects:
                    came = self._one_by_one(suspects, context)
                else:
                    ended = True
                    return
                yield from came
        finally:
            if not ended:
                self.backend.stop()

    def _send(self, context: Context, flying: dict[Future[Record], Task], waiting: Iterator[Task]) -> None:
        """Fill the window."""
        window = self.backend.window()
        while len(flying) < window:
            task = next(waiting, None)
            if task is None:
                return
            flying[self.backend.submit(run_task, context, task)] = task

    def _landed(self, flying: dict[Future[Record], Task], suspects: deque[Task]) -> Iterator[Record]:
        """Yield the next outcomes; tasks that a death may have come from become suspects."""
        done, _ = wait(flying, timeout=_LOOK, return_when=FIRST_COMPLETED)
        if not done:
            self.backend.check()
        for future in done:
            task = flying.pop(future)
            outcome = _outcome(future, self.backend)
            if isinstance(outcome, Record):
                yield outcome
            else:
                suspects.append(task)

    def _one_by_one(self, suspects: deque[Task], context: Context) -> Iterator[Record]:
        """Yield the outcome of each suspect, run alone: what it gives, or that it crashed."""
        with self.backend.alone() as backend:
            while suspects:
                yield _patiently(backend, context, suspects.popleft())


def _patiently(backend: Backend, context: Context, task: Task) -> Record:
    """Return the outcome of a task that is alone, after some attempts if its process dies."""
    deaths: list[WorkerCrash] = []
    while len(deaths) < backend.attempts:
        future: Future[Record] = backend.submit(run_task, context, task)
        while not wait([future], timeout=_LOOK).done:
            backend.check()
        outcome = _outcome(future, backend)
        if isinstance(outcome, Record):
            return outcome
        deaths.append(outcome)
    times = sum(death.times for death in deaths)
    reason = f"its process died {'once' if times == 1 else f'{times} times'} ({deaths[-1].how})"
    return Record(task.key, task.point, task.first, task.replications, "crashed", reason, 0.0, {}, {})


def _outcome(future: Future[Record], backend: Backend) -> Record | WorkerCrash:
    """Return the outcome of a task, or how the process died that may have run it."""
    try:
        return future.result()
    except CancelledError:
        message = f"{backend.name}: it has ended, or cannot be reached any more; run again to go on from here"
        raise WorkerError(message) from None
    except Exception as error:
        death = backend.death(error)
        if death is None:
            # Whatever goes wrong in a simulation is an outcome: this is the backend, not the task.
            reason = (
                str(error) if isinstance(error, VersionError) else f"cannot run tasks ({type(error).__name__}: {error})"
            )
            raise WorkerError(" ".join(f"{backend.name}: {reason}".split())) from error
        return death


# The Dask executor: the workers of a scheduler that is running already.

_CONNECT = 5.0
"""Time in which a scheduler has to answer [s]."""

_NO_WORKERS = 60.0
"""Time for which a scheduler may be without workers [s]."""

_COUNT = 1.0
"""Time between two looks at how many workers there are [s]."""

_LOUD = ("asyncio", "distributed", "tornado")
"""Loggers of the library, and of those that it stands on."""

_TURN = threading.Lock()
"""Held by the thread of a worker that runs a task: a process keeps scenarios from task to task, for one thread."""


def one_at_a_time(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return a call's outcome, after those of other threads: a worker of Dask may have several."""
    with _TURN:
        return function(*args, **kwargs)


class Dask(Backend):
    """The workers of a Dask scheduler, those included that come later."""

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client
        self._flying: dict[Future[Any], Any] = {}
        self._workers = 1
        self._counted = 0.0
        self._seen = time.monotonic()

    def window(self) -> int:
        """Return how many tasks should be in flight: a worker runs one at a time, however many threads it has."""
        if time.monotonic() - self._counted >= _COUNT:
            self._count()
        return AHEAD * max(1, self._workers)

    def _count(self) -> None:
        self._counted = time.monotonic()
        # If the scheduler has gone, the tasks in flight will fail.
        with contextlib.suppress(OSError, RuntimeError, ValueError, TimeoutError):
            self._workers = len(self._client.nthreads())
        if self._workers:
            self._seen = time.monotonic()

    def check(self) -> None:
        """Raise `WorkerError` if there have been no workers for a minute."""
        self._count()
        if time.monotonic() - self._seen > _NO_WORKERS:
            raise WorkerError(_no_workers(self.name))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call as a future."""
        # A call that ends in an error has met a worker that is out of order; others have a try.
        remote = self._client.submit(one_at_a_time, function, *args, **kwargs, pure=False, retries=2)
        future: Future[Any] = Future()
        self._flying[future] = remote
        # Not the executor of the library: it takes an outcome for an error whose worker dies while it is fetched.
        remote.add_done_callback(lambda _: self._fetch(remote, future))
        return future

    def _fetch(self, remote: Any, future: Future[Any]) -> None:
        """Pass on the outcome of a call; one that was lost with its worker is waited for until it is there again."""
        from distributed.comm.core import CommClosedError

        try:
            outcome = remote.result()
        except (CancelledError, CommClosedError):
            # Either way it is the scheduler that has gone: whatever a task raises is in its outcome.
            future.cancel()
            future.set_running_or_notify_cancel()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(outcome)
        self._flying.pop(future, None)

    def death(self, error: BaseException) -> WorkerCrash | None:
        """Return how workers died of a task, if that is what an error says."""
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            return None
        return WorkerCrash(error.allowed_failures + 1, "on Dask workers, whose logs may say more")

    def stop(self) -> None:
        """Cancel what is in flight."""
        flying = list(self._flying.copy().values())  # a copy: outcomes may still come, in another thread
        # A scheduler that has gone has nothing to cancel.
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self._client.cancel(flying)


@contextlib.contextmanager
def dask_at(where: ExecutorOptions) -> Iterator[Dask]:
    """Yield the workers of a scheduler.

    Raises
    ------
    WorkerError
        If Dask is not installed, no scheduler answers, or it has no workers.
    """
    name = where.address or where.file
    if not name:
        raise WorkerError("the dask executor needs --scheduler-address or --scheduler-file")
    try:
        import distributed
    except ImportError:
        raise WorkerError("the dask executor needs the extra cluster: pip install 'ettrick[cluster]'") from None
    address = where.address or _address_in(Path(where.file))
    with _quiet():
        try:
            _knock(address)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                client: Any = distributed.Client(address, timeout=_CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
        except Exception as error:  # each protocol has its own
            at = "" if name == address else f" at {address}"
            message = f"{name}: no Dask scheduler answers{at} ({' '.join(str(error).split()) or type(error).__name__})"
            raise WorkerError(message) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=_NO_WORKERS)
            except (OSError, TimeoutError):
                raise WorkerError(_no_workers(name)) from None
            yield Dask(client, name)


def _knock(address: str) -> None:
    """Connect to a scheduler and leave again: a client that cannot connect would take long to go away, and noisily."""
    from distributed.comm.core import connect
    from distributed.security import Security

    async def visit() -> None:
        arguments = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        comm = await connect(address, timeout=_CONNECT, **arguments)  # type: ignore[no-untyped-call]
        await comm.close()

    # Not in this thread: that of a notebook has a loop of its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, visit()).result()


def _address_in(path: Path) -> str:
    """Return the address that a scheduler has written to a file."""
    try:
        address = json.loads(content_of(path))["address"]
    except FileNotFoundError:
        message = f"{path}: no such file; a scheduler writes it: dask scheduler --scheduler-file {path}"
        raise WorkerError(message) from None
    except OSError as error:
        raise WorkerError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, LookupError, TypeError):
        address = None
    if not isinstance(address, str) or not address:
        raise WorkerError(f"{path}: is not what a Dask scheduler writes: it has no address")
    return address


def _no_workers(name: str) -> str:
    return f"{name}: the scheduler has no workers (waited for {_NO_WORKERS:.0f} s); run again when there are some"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let nothing of the library's log through: what matters is in our own errors."""
    loggers = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOUD]
    before = {name: logging.getLogger(name).level for name in (*_LOUD, *loggers)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
