"""Who plays the tasks of a study: an executor, a window of tasks in flight, and patience with processes that die."""

from __future__ import annotations

import itertools
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TYPE_CHECKING

from analysis.sweep.task import play

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from analysis.sweep.task import Context, Record, Task

__all__ = ["Crew"]


class Crew:
    """Plays tasks on an executor.

    Parameters
    ----------
    executor
        Where `analysis.sweep.task.play` is called; closed by whoever opened it.
    workers
        How many tasks it plays at once; some more are kept waiting, so that nobody idles.
    """

    def __init__(self, executor: Executor, workers: int) -> None:
        self.executor = executor
        self.window = 4 * workers

    def play(
        self, tasks: Iterable[Task], context: Context, more: Callable[[], Iterable[Task]] = tuple
    ) -> Generator[Record]:
        """Yield the outcome of every task as it comes.

        Parameters
        ----------
        tasks
            The tasks; only as many are taken as are in flight.
        context
            What they share.
        more
            Asked after each outcome that was yielded: tasks that follow from it.
        """
        flying: set[Future[Record]] = set()
        waiting = iter(tasks)
        try:
            while True:
                for task in itertools.islice(waiting, self.window - len(flying)):
                    flying.add(self.executor.submit(play, context, task))
                if not flying:
                    return
                done, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    waiting = itertools.chain(more(), waiting)
        finally:
            for future in flying:
                future.cancel()
