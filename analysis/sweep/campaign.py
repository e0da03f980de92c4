"""A study being run: its points become tasks, what the journal has is not played again, and outcomes are read back."""

from __future__ import annotations

import functools
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from analysis.study.table import Outcome
from analysis.sweep.task import Context, Task, blocks, key_of, model_digest
from sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from analysis.study.load import LoadedStudy
    from analysis.study.value import Point
    from analysis.sweep.crew import Crew
    from analysis.sweep.journal import Journal
    from analysis.sweep.task import Record

__all__ = ["Again", "Campaign"]

Item = TypeVar("Item")

_INFINITE = float("inf")


class Again(Generic[Item]):
    """What is made anew each time somebody goes through it, so that it need not be kept."""

    def __init__(self, make: Callable[[], Iterator[Item]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Item]:
        """Return it from the beginning."""
        return self._make()


@dataclass(frozen=True)
class Campaign:
    """A study, the journal that it is written to, and who plays it.

    Parameters
    ----------
    loaded
        The study and its scenario.
    journal
        Where outcomes are, and come to.
    crew
        Who plays what is not there.
    progress
        Called with the number of tasks done, and of all.
    mine
        Whether the task with a key is for this program to play: all of them, unless others play the rest.
    """

    loaded: LoadedStudy
    journal: Journal
    crew: Crew
    progress: Callable[[int, int | None], None] = lambda _done, _total: None
    mine: Callable[[str], bool] = lambda _key: True

    @functools.cached_property
    def context(self) -> Context:
        """What all tasks of the study share."""
        return Context(pickle.dumps(self.loaded.template), self.loaded.digest, model_digest())

    def tasks(self, point: Point, replications: int, first: int = 0) -> list[Task]:
        """Return the tasks of some replications of a point."""
        overrides, context = self.loaded.overrides(point), self.context
        return [
            Task(key_of(context, overrides, start, count), point.number, overrides, start, count)
            for start, count in blocks(first, replications)
        ]

    def play(self, points: Iterable[Point], replications: int, first: int = 0) -> None:
        """Make sure that the journal has some replications of each point.

        Parameters
        ----------
        points
            The points; gone through twice.
        replications, first
            How many, and the number of the first one.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        mine = self.mine
        total = done = 0
        for point in points:
            for task in self.tasks(point, replications, first):
                total += mine(task.key)
                done += mine(task.key) and self._has(task)
        todo = (task for point in points for task in self.tasks(point, replications, first))
        fresh = (task for task in todo if mine(task.key) and not self._has(task))
        for record in self.crew.play(fresh, self.context):
            self.journal.add(record)
            done += 1
            self.progress(done, total)

    def _has(self, task: Task) -> bool:
        """Return whether a task need not be played; what went wrong is tried again."""
        return self.journal.status(task.key) in ("ok", "infeasible")

    def outcome(self, point: Point, replications: int, metrics: Sequence[str] = (), first: int = 0) -> Outcome:
        """Return what the journal has of some replications of a point.

        Parameters
        ----------
        metrics
            Those to be kept; without any, all.
        """
        return outcome_of(
            point, [self.journal.get(task.key) for task in self.tasks(point, replications, first)], metrics
        )


def outcome_of(point: Point, records: Iterable[Record], metrics: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a point from its records, in order of replications."""
    rows: dict[str, list[Ratio]] = {}
    luck: list[Any] = []
    censored = never_started = 0
    notes: dict[str, Any] = {}
    for record in records:
        if record.status != "ok":
            return Outcome(point, status=record.status, trouble=record.reason or record.status)
        for name, (amounts, bases) in record.rows.items():
            if not metrics or name in metrics:
                rows.setdefault(name, []).extend(_ratios(amounts, bases))
        luck += record.notes["luck"]
        censored += sum(count > 0 for count in record.notes["censored"])
        never_started += sum(count > 0 for count in record.notes["never_started"])
        notes |= record.notes
    return Outcome(
        point,
        rows,
        () if any(numbers is None for numbers in luck) else [tuple(numbers) for numbers in luck],
        notes.get("formula"),
        censored,
        never_started,
        warnings=tuple(notes.get("warnings", ())),
    )


def _ratios(amounts: Sequence[float | None], bases: Sequence[float | None]) -> Iterator[Ratio]:
    for amount, base in zip(amounts, bases, strict=True):
        yield Ratio(_INFINITE if amount is None else amount, base or 0.0)
