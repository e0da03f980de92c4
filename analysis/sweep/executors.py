"""Executors: where tasks are played. All of them are `concurrent.futures.Executor`, and all give the same outcomes."""

from __future__ import annotations

import contextlib
import multiprocessing
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.processes import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Serial", "Where", "crew_at"]


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


class Serial(Executor):
    """Plays each task at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of a call, as a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextlib.contextmanager
def crew_at(where: Where) -> Iterator[Any]:
    """Yield the crew of a place; its executor is closed afterwards."""
    from analysis.sweep.crew import Crew

    if where.kind == "serial":
        yield Crew(Serial(), 1)
        return
    workers = where.jobs or cores()
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(workers, mp_context=context) as executor:
        yield Crew(executor, workers)
