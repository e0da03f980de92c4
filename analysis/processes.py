"""The same work on many indices: in order, and on all cores where that pays."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from concurrent.futures import Future

    from sim import Prepared

__all__ = ["begin_as_worker", "cores", "deaf", "in_order", "start_method"]

Item = TypeVar("Item")

_TRIAL = 0.3
"""Seconds of work here before more processes are thought of: a precision is often reached sooner [s]."""

_PATIENCE = 1.5
"""Seconds of work left from which a process is worth its start [s]."""


def in_order(
    work: Callable[[Prepared, int], Item], prepared: Prepared, indices: range, processes: int
) -> Generator[Item]:
    """Yield the work on each index in order: here as long as that is quick, then on all cores.

    Parameters
    ----------
    work
        A function of a module, called with `prepared` and an index; it may use nothing else.
    prepared
        Sent to each process once.
    indices
        What to work on.
    processes
        Processes at most; 0 for one per core. What is yielded does not depend on it.
    """
    workers = processes or cores()
    done = 0
    start = time.perf_counter()
    for index in indices:
        yield work(prepared, index)
        done += 1
        if done == 1:
            # The first one also pays for imports and says little about the others.
            start = time.perf_counter()
            continue
        spent = time.perf_counter() - start
        left = spent / (done - 1) * (len(indices) - done)
        if workers > 1 and spent > _TRIAL and left > _PATIENCE * workers:
            break
    if done < len(indices):
        yield from _on_processes(work, prepared, indices[done:], workers)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _on_processes(
    work: Callable[[Prepared, int], Item], prepared: Prepared, indices: range, workers: int
) -> Generator[Item]:
    """Yield the work on each index in order from worker processes, a few ahead."""
    # What most runs do without: these imports take longer than a replication.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context(start_method())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_adopt, initargs=(prepared,))
    pending: deque[Future[Item]] = deque()
    waiting = iter(indices)
    try:
        with deaf():
            # All processes start with these.
            pending.extend(pool.submit(_work_adopted, work, index) for index in itertools.islice(waiting, 4 * workers))
        while pending:
            following = itertools.islice(waiting, 4 * workers - len(pending))
            pending.extend(pool.submit(_work_adopted, work, index) for index in following)
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def start_method() -> str:
    """Return how processes are started here: by a server that forks where there is one."""
    import multiprocessing

    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Put Ctrl-C off for a moment, so that processes started now never hear it: it is for the parent to stop them.

    So is the end of a job (SIGTERM), where the program has something to tidy up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    at_end = signal.getsignal(signal.SIGTERM)
    if callable(at_end):
        signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        if start_method() == "forkserver":
            from multiprocessing import forkserver

            # The server passes on that it is ignored here; until it has imported what it needs, seconds may go by.
            forkserver.ensure_running()
            signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if callable(at_end):
            signal.signal(signal.SIGTERM, at_end)
        if heard:
            # Also where a start has failed: the signal may have ended what starts processes.
            signal.raise_signal(heard[0])


_ADOPTED: list[Prepared] = []
"""The scenario of a worker process; set once when it starts."""


def _adopt(prepared: Prepared) -> None:
    """Begin as a worker process with a scenario."""
    begin_as_worker()
    _ADOPTED[:] = [prepared]


def begin_as_worker() -> None:
    """Begin as a worker process: never hear Ctrl-C, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when its parent has ended without saying so."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_adopted(work: Callable[[Prepared, int], Any], index: int) -> Any:
    return work(_ADOPTED[0], index)
