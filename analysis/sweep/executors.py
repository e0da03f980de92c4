"""Executors: where tasks are played. All of them are `concurrent.futures.Executor`, and all give the same outcomes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.processes import begin_as_worker, cores, deaf, start_method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

    from analysis.sweep.crew import Crew

__all__ = ["AHEAD", "KINDS", "CrewError", "Death", "Place", "Processes", "Serial", "Where", "crew_at"]

KINDS = ("serial", "process", "dask")
"""Names of the executors."""

AHEAD = 4
"""Tasks in flight for each that is played, so that nobody idles."""


class CrewError(ValueError):
    """Tasks cannot be played where they should; the message is one line."""


class Where(NamedTuple):
    """Where the tasks of a study are played.

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


class Death(NamedTuple):
    """How a task ended the process that played it: how many times, and in which way."""

    times: int
    how: str


class Place(Executor):
    """An executor with what a crew has to know of it.

    ``name`` is how messages call it, and ``attempts`` how often a task that is alone is played before it is given up.
    """

    name = "this process"
    attempts = 1

    def window(self) -> int:
        """Return how many tasks should be in flight."""
        return 1

    def death(self, error: BaseException) -> Death | None:  # noqa: ARG002
        """Return how a process died, if that is what an error says; ``None`` if it says something else."""
        return None

    def check(self) -> None:
        """Raise `CrewError` if no outcome can be expected any more."""

    @contextlib.contextmanager
    def alone(self) -> Iterator[Place]:
        """Yield a place where one task is played at a time."""
        yield self

    def stop(self) -> None:
        """Drop what is in flight, at once; what is sent next is played again."""


class Serial(Place):
    """Plays each task at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call, as a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Place):
    """A pool of processes, started when there is something to do, and anew after one of them has died.

    Parameters
    ----------
    workers
        How many.
    """

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
            message = f"processes: they end as soon as they are started ({_end(self._started)})"
            raise CrewError(message) from None
        except _NO_START as error:
            self._kill()
            raise _cannot_start(error) from None
        except BaseException:
            self._kill()
            raise
        return pool

    def death(self, error: BaseException) -> Death | None:
        """Return how a process died, if that is what an error says; the next call starts others."""
        if not isinstance(error, BrokenExecutor):
            return None
        self.shutdown()
        return Death(1, _end(self._started))

    @contextlib.contextmanager
    def alone(self) -> Iterator[Place]:
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
"""What comes of processes that cannot be started, or whose starter has ended."""


def _cannot_start(error: BaseException) -> CrewError:
    reason = str(error) or "who starts them has ended"
    return CrewError(f"processes: cannot be started here ({reason}); the serial executor needs none")


class _Noting:
    """How processes are started; each is noted, because a pool does not tell how its processes ended."""

    def __init__(self) -> None:
        self.started: list[BaseProcess] = []
        self._context: Any = multiprocessing.get_context(start_method())
        if start_method() == "forkserver":
            # Processes then begin with everything imported: a new pool takes a twentieth of a second, not two.
            self._context.set_forkserver_preload(["__main__", "analysis.sweep.task"])

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
        return "nobody knows how"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


@contextlib.contextmanager
def crew_at(where: Where) -> Iterator[Crew]:
    """Yield the crew of a place; whatever it still does is stopped afterwards.

    Raises
    ------
    CrewError
        If there is no such place, or it cannot be reached.
    """
    from analysis.sweep.crew import Crew

    with contextlib.ExitStack() as stack:
        place: Place
        if where.kind == "serial":
            place = Serial()
        elif where.kind == "process":
            place = Processes(where.jobs or cores())
        elif where.kind == "dask":
            from analysis.sweep.scheduler import dask_at

            place = stack.enter_context(dask_at(where))
        else:
            message = f"no executor {where.kind!r}: there are {', '.join(KINDS)}"
            raise CrewError(message)
        stack.callback(place.stop)
        yield Crew(place)
