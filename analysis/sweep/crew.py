"""Who plays the tasks of a study: a place, a window of tasks in flight, and patience with processes that die."""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import TYPE_CHECKING

from analysis.sweep.executors import CrewError
from analysis.sweep.task import Record, VersionError, play

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from analysis.sweep.executors import Death, Place
    from analysis.sweep.task import Context, Task

__all__ = ["Crew"]

_LOOK = 2.0
"""Seconds without an outcome after which the place is asked whether any can still come [s]."""


class Crew:
    """Plays tasks at a place.

    When a process dies, nobody can tell which of the tasks in flight it was. They all become suspects, and each is
    played alone, where a death has one cause; the others are then innocent, and nothing of theirs is lost.

    Parameters
    ----------
    place
        Where `analysis.sweep.task.play` is called; closed by whoever opened it.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    def play(
        self, tasks: Iterable[Task], context: Context, more: Callable[[], Iterable[Task]] = tuple
    ) -> Generator[Record]:
        """Yield the outcome of every task as it comes.

        A generator that is closed before its end, or left by an error, stops what is in flight.

        Parameters
        ----------
        tasks
            The tasks; only as many are taken as are in flight.
        context
            What they share.
        more
            Asked after each outcome that was yielded: tasks that follow from it.

        Raises
        ------
        CrewError
            If nobody is there, or nobody is left, to play them.
        """
        flying: dict[Future[Record], Task] = {}
        suspects: deque[Task] = deque()
        following: deque[Task] = deque()
        waiting = iter(tasks)
        ended = False
        try:
            while True:
                if not suspects:
                    self._send(context, flying, following, waiting)
                if flying:
                    came = self._landed(flying, suspects)
                elif suspects:
                    came = self._one_by_one(suspects, context)
                else:
                    ended = True
                    return
                for record in came:
                    yield record
                    following.extend(more())
        finally:
            if not ended:
                self.place.stop()

    def _send(
        self,
        context: Context,
        flying: dict[Future[Record], Task],
        following: deque[Task],
        waiting: Iterator[Task],
    ) -> None:
        """Fill the window: first with what follows from earlier outcomes."""
        window = self.place.window()
        while len(flying) < window:
            task = following.popleft() if following else next(waiting, None)
            if task is None:
                return
            flying[self.place.submit(play, context, task)] = task

    def _landed(self, flying: dict[Future[Record], Task], suspects: deque[Task]) -> Iterator[Record]:
        """Yield the next outcomes; tasks that a death may have come from become suspects."""
        done, _ = wait(flying, timeout=_LOOK, return_when=FIRST_COMPLETED)
        if not done:
            self.place.check()
        for future in done:
            task = flying.pop(future)
            found = _outcome(future, self.place)
            if isinstance(found, Record):
                yield found
            else:
                suspects.append(task)

    def _one_by_one(self, suspects: deque[Task], context: Context) -> Iterator[Record]:
        """Yield the outcome of each suspect, played alone: what it gives, or that it crashed."""
        with self.place.alone() as place:
            while suspects:
                yield _patiently(place, context, suspects.popleft())


def _patiently(place: Place, context: Context, task: Task) -> Record:
    """Return the outcome of a task that is alone, after some attempts if its process dies."""
    deaths: list[Death] = []
    while len(deaths) < place.attempts:
        future: Future[Record] = place.submit(play, context, task)
        while not wait([future], timeout=_LOOK).done:
            place.check()
        found = _outcome(future, place)
        if isinstance(found, Record):
            return found
        deaths.append(found)
    times = sum(death.times for death in deaths)
    reason = f"its process died {'once' if times == 1 else f'{times} times'} ({deaths[-1].how})"
    return Record(task.key, task.point, task.first, task.replications, "crashed", reason, 0.0, {}, {})


def _outcome(future: Future[Record], place: Place) -> Record | Death:
    """Return the outcome of a task, or how the process died that may have played it."""
    try:
        return future.result()
    except CancelledError:
        message = f"{place.name}: it has ended, or cannot be reached any more; run again to go on from here"
        raise CrewError(message) from None
    except Exception as error:
        death = place.death(error)
        if death is None:
            # Whatever goes wrong in a simulation is an outcome: this is the place, not the task.
            told = str(error) if isinstance(error, VersionError) else f"cannot play tasks ({_told(error)})"
            message = f"{place.name}: {told}"
            raise CrewError(message) from error
        return death


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
