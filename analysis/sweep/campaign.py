"""A study being run: its points become tasks, those that the journal lacks are simulated, outcomes are read back."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import pickle
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ettrick import sim
from ettrick.analysis.statistics.rows import LazyRows
from ettrick.analysis.study.table import JobRate, PointResult
from ettrick.analysis.sweep.task import Context, Task, blocks, key_of, model_digest
from ettrick.sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.sweep.journal import Journal
    from ettrick.analysis.sweep.task import Record
    from ettrick.analysis.sweep.workers import WorkerPool

Item = TypeVar("Item")
_INFINITE = float("inf")

_LOOKED_AT = 9
"""Points whose events are estimated before all are simulated: each takes some hundredths of a second."""


class Reiterable(Generic[Item]):
    """An iterable that is made again for each pass, so that it need not be kept."""

    def __init__(self, make: Callable[[], Iterator[Item]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Item]:
        """Return it from the beginning."""
        return self._make()


@dataclass(frozen=True)
class Campaign:
    """A study, the journal that it is written to, and the workers.

    Parameters
    ----------
    is_assigned
        Whether the task with a key is for this program: all of them, unless others have the rest.
    """

    loaded: LoadedStudy
    journal: Journal
    worker_pool: WorkerPool
    progress: Callable[[int, int | None], None] = lambda _done, _total: None
    is_assigned: Callable[[str], bool] = lambda _key: True
    planned: list[float] = field(default_factory=list)
    """Events that were expected of each order to simulate."""

    @functools.cached_property
    def context(self) -> Context:
        """The context that all tasks of the study share."""
        packages = self.loaded.packages
        return Context(pickle.dumps(self.loaded.template), self.loaded.digest, model_digest(packages), 0, packages)

    def tasks(self, point: Point, replications: int) -> list[Task]:
        """Return the tasks of the first replications of a point."""
        overrides, context = self.loaded.overrides(point), self.context
        changes = self.loaded.inputs.with_digests(overrides)
        return [
            Task(key_of(context, changes, start, count), point.number, overrides, start, count)
            for start, count in blocks(0, replications)
        ]

    def simulate(self, points: Iterable[Point], replications: int) -> None:
        """Make sure that the journal has the first replications of each point.

        Points with the same scenario have the same outcome: it is simulated once, and counts once.

        Parameters
        ----------
        points
            The points; gone through three times.

        Raises
        ------
        JournalError
            If it cannot be written.
        WorkError
            If more events are expected, of this and what was simulated before, than the study may have.
        """
        keys = (task.key for point in points for task in self.tasks(point, replications))
        assigned = {key for key in keys if self.is_assigned(key)}
        total, missing = len(assigned), sum(not self.journal.has_result(key) for key in assigned)
        del assigned
        context = self.context
        if missing:
            count = missing / len(blocks(0, replications)) * replications
            self.planned.append(count * self._events_of(points))
            sim.check_work(math.fsum(self.planned), self.loaded.most_events)
            context = self.prepared_for(points, round(count))
        self.complete(((point, replications) for point in points), context, total - missing, total)

    def complete(
        self, goals: Iterable[tuple[Point, int]], context: Context, done: int = 0, total: int | None = None
    ) -> int:
        """Simulate what the journal lacks of the first replications of points, and return how many tasks are done.

        Parameters
        ----------
        goals
            Points, each with how many replications it is to have.
        done, total
            Tasks that were done before, and all of them if that is known.
        """
        for record in self.worker_pool.run(self._missing(goals), context):
            self.journal.add(record)
            done += 1
            self.progress(done, total)
        return done

    def _missing(self, goals: Iterable[tuple[Point, int]]) -> Iterator[Task]:
        """Yield the tasks of points that the journal lacks, each once."""
        sent: set[str] = set()
        for point, replications in goals:
            for task in self.tasks(point, replications):
                if task.key not in sent and self.is_assigned(task.key) and not self.journal.has_result(task.key):
                    sent.add(task.key)
                    yield task

    def prepared_for(self, points: Iterable[Point], replications: int) -> Context:
        """Return what tasks share of which there are so many replications in all.

        Machine code is on the disk before processes start and load it, if the first point is to be simulated by it.
        """
        for point in itertools.islice(points, 0 if sim.is_cached() else 1):
            # Of what cannot run its tasks will tell.
            with contextlib.suppress(sim.ScenarioError, sim.PathError, sim.EngineError):
                sim.with_engine(sim.prepare(self.loaded.template.scenario(self.loaded.overrides(point))), replications)
        return self.context._replace(replications=replications)

    def _events_of(self, points: Iterable[Point]) -> float:
        """Return about how many events a replication of a point has: the mean of a few, evenly spread."""
        count = sum(1 for _ in points)
        chosen = {round(index * (count - 1) / (_LOOKED_AT - 1)) for index in range(_LOOKED_AT)}
        expected = []
        for index, point in enumerate(points):
            if index in chosen:
                # What cannot run is reported by its tasks.
                with contextlib.suppress(sim.ScenarioError, sim.PathError):
                    scenario = self.loaded.template.scenario(self.loaded.overrides(point))
                    expected.append(sim.examine(scenario).expected_events)
        return math.fsum(expected) / len(expected) if expected else 0.0

    def outcome(self, point: Point, replications: int, metrics: Sequence[str] = ()) -> PointResult:
        """Return what the journal has of the first replications of a point.

        Parameters
        ----------
        metrics
            Those to be kept; without any, all.
        """
        return outcome_of(point, [self.journal.get(task.key) for task in self.tasks(point, replications)], metrics)


def counted(progress: Callable[[int, int | None], None], expected: int) -> Callable[[int, int | None], None]:
    """Return a progress of several orders to simulate that counts on from one to the next, to what is expected."""
    before = 0

    def count(done: int, total: int | None) -> None:
        nonlocal before
        progress(before + done, max(expected, before + (total or done)))
        if done == total:
            before += done

    return count


def outcome_of(point: Point, records: Iterable[Record], metrics: Sequence[str] = ()) -> PointResult:
    """Return the outcome of a point from its records, in order of replications."""
    rows: dict[str, array[float]] = {}
    controls: list[Any] = []
    censored = never_started = 0
    notes: dict[str, Any] = {}
    for record in records:
        if record.status != "ok":
            return PointResult(point, status=record.status, trouble=record.reason or record.status)
        for name, columns in record.rows.items():
            if not metrics or name in metrics:
                rows.setdefault(name, array("d")).extend(_numbers_of(columns))
        controls += record.notes["controls"]
        censored += sum(count > 0 for count in record.notes["censored"])
        never_started += sum(count > 0 for count in record.notes["never_started"])
        notes |= record.notes
    return PointResult(
        point,
        {name: LazyRows(numbers, len(Ratio._fields), Ratio._make) for name, numbers in rows.items()},
        _rows_of(controls),
        notes.get("formula"),
        censored,
        never_started,
        warnings=tuple(notes.get("warnings", ())),
        no_formula=tuple(notes.get("no_formula", ())),
        exact=frozenset(notes.get("exact", ())),
        job_rate=JobRate(*notes["job_rate"]) if notes.get("job_rate") else None,
    )


def _numbers_of(columns: Sequence[Sequence[float | None]]) -> Iterator[float]:
    """Yield amount, base and doubt of each replication; what was censored is infinite."""
    for amount, base, *doubt in zip(*columns, strict=True):
        yield from (_INFINITE if amount is None else amount, base or 0.0, (doubt or [0.0])[0] or 0.0)


def _rows_of(controls: Sequence[Sequence[float] | None]) -> Sequence[tuple[float, ...]]:
    """Return the control variates of all replications; empty where those of one are not known."""
    complete = [numbers for numbers in controls if numbers is not None]
    if not complete or len(complete) < len(controls):
        return ()
    return LazyRows(array("d", itertools.chain.from_iterable(complete)), len(complete[0]), tuple)
