"""All points of a study, simulated and put into a table."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ettrick.analysis.at_equal import study_headline
from ettrick.analysis.statistics.intervals import doubt_of
from ettrick.analysis.statistics.precision import Precision, ReplicationsError, next_goal
from ettrick.analysis.study.table import Cell, StudyTable
from ettrick.analysis.sweep.campaign import Reiterable
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.model import PrecisionSpec, Study
    from ettrick.analysis.study.table import PointResult
    from ettrick.analysis.sweep.campaign import Campaign
    from ettrick.analysis.sweep.task import Record, Task

# Replications until every point is precise enough: more where the mean is not sure, none where it is.
#
# A point is looked at only when all replications up to a goal are there, and the next goal follows from what these
# say.
# So nothing depends on where they were simulated, on how many at once, or on what the journal had before. The interval
# is the one that is shown: see `ettrick.analysis.statistics.intervals`. It is nominal: who stops when a sample looks
# calm stops a little too early.


class PointProgress(NamedTuple):
    """How far a point was simulated.

    Parameters
    ----------
    replications
        Those that the journal has, from the first one on.
    precise
        Whether the precision was reached; ``None`` for draws of what is not known, which have no precision to reach.
    """

    replications: int
    precise: bool | None


class _Pursuit:
    """A point on its way: up to where it is simulated, and what of that is still missing."""

    def __init__(self, point: Point, goal: int) -> None:
        self.point = point
        self.done = 0
        self.goal = goal
        self.missing: set[str] = set()


def simulate_until(
    campaign: Campaign, points: Iterable[Point], spec: PrecisionSpec, default_metric: str
) -> dict[int, PointProgress]:
    """Simulate the points of a study until each is precise enough, and return how far that was, by number of the point.

    Central points decide for themselves: first at ``least`` replications, then at goals that seem to be enough, of
    whole blocks, at ``most``. A point that has trouble, or whose metric has no mean (a censored replication, or no such
    metric), ends at once. Draws of what is not known have ``least`` replications, so that all draws of a cell have the
    same, which its central point has too.

    Parameters
    ----------
    default_metric
        What it is about, unless `spec` says.

    Raises
    ------
    RequestError
        If points of a share are asked of what is none, or no point that runs has the metric.
    JournalError
        If the journal cannot be written.
    """
    metric = spec.metric or default_metric
    precision = Precision.parse(spec.width)
    precision.check(metric)
    chase = _Chase(campaign, spec, metric, precision)
    context = campaign.prepared_for(points, spec.least * sum(1 for _ in points))
    with contextlib.closing(campaign.worker_pool.run(chase.first(points), context, chase.more)) as records:
        for record in records:
            chase.take(record)
    if chase.known and metric not in chase.known:
        raise ReplicationsError(f"no point has a metric '{metric}'{suggest(metric, chase.known)}")
    return dict(sorted(chase.found.items()))


class _Chase:
    """All points on their way."""

    def __init__(self, campaign: Campaign, spec: PrecisionSpec, metric: str, precision: Precision) -> None:
        self._campaign = campaign
        self._spec = spec
        self._metric = metric
        self._precision = precision
        self._waiting: dict[str, list[_Pursuit]] = {}
        self._next: deque[Task] = deque()
        self._lost: set[str] = set()
        self._simulated = 0
        self.found: dict[int, PointProgress] = {}
        self.known: set[str] = set()

    def first(self, points: Iterable[Point]) -> Iterator[Task]:
        """Yield the first tasks of every point, and further ones of those whose first the journal has."""
        for point in points:
            self._go_on(_Pursuit(point, self._spec.least))
            yield from self.more()

    def more(self) -> Iterator[Task]:
        """Yield tasks that follow from outcomes."""
        while self._next:
            yield self._next.popleft()

    def take(self, record: Record) -> None:
        """Enter an outcome into the journal, and go on with the points that waited for it."""
        self._campaign.journal.add(record)
        if not self._campaign.journal.has_result(record.key):
            self._lost.add(record.key)  # another point may have the same scenario; the next run tries it again
        self._simulated += 1
        self._campaign.progress(self._simulated, None)
        for pursuit in self._waiting.pop(record.key, ()):
            pursuit.missing.discard(record.key)
            if not pursuit.missing:
                self._decide(pursuit)
                self._go_on(pursuit)

    def _go_on(self, pursuit: _Pursuit) -> None:
        """Ask for what a point lacks up to its goal; decide as often as that is nothing."""
        while pursuit.done < pursuit.goal:
            self._ask(pursuit)
            if pursuit.missing:
                return
            self._decide(pursuit)

    def _ask(self, pursuit: _Pursuit) -> None:
        """Have what the journal lacks simulated of a point up to its goal."""
        for task in self._campaign.tasks(pursuit.point, pursuit.goal - pursuit.done, pursuit.done):
            if task.key not in self._lost and not self._campaign.journal.has_result(task.key):
                pursuit.missing.add(task.key)
                # Points with the same scenario have the same outcome: it is simulated once.
                if task.key not in self._waiting:
                    self._next.append(task)
                self._waiting.setdefault(task.key, []).append(pursuit)

    def _decide(self, pursuit: _Pursuit) -> None:
        """End a point that has all replications up to its goal, or give it a further one."""
        point, pursuit.done = pursuit.point, pursuit.goal
        if point.draw:
            self.found[point.number] = PointProgress(pursuit.done, None)
            return
        outcome = self._campaign.outcome(point, pursuit.done)
        self.known |= set(outcome.metrics)
        excess = _excess(outcome, self._metric, self._precision)
        pursuit.goal = next_goal(pursuit.done, excess, self._spec.most)
        if pursuit.goal == pursuit.done:
            self.found[point.number] = PointProgress(pursuit.done, excess <= 1)


def _excess(outcome: PointResult, metric: str, precision: Precision) -> float:
    """Return how wide an interval is over what it should be [-]; infinite where it will never be narrow enough."""
    ratios = outcome.metrics.get(metric)
    if outcome.trouble or not ratios:
        return math.inf
    estimate = outcome.estimate(metric)
    if estimate.method == "exact" and estimate.interval is None:
        return 0.0
    return precision.excess(estimate.interval, estimate.mean, metric, len(ratios), doubt_of(ratios))


HowFar: TypeAlias = "Callable[[Point], tuple[int, bool | None]]"
"""The replications of a point, and whether a precision that was asked for was reached; ``None`` if none was."""

REPLICATIONS = 16
"""Replications of a point, unless the study says how many."""


def replications_of(study: Study) -> int:
    """Return how many replications each point of a study has: with a precision, as many as before its decisions."""
    if study.precision is not None:
        return study.precision.least
    return study.replications or REPLICATIONS


def simulate(campaign: Campaign) -> HowFar:
    """Simulate every point of a study, but for what the journal has, and return how far each was simulated.

    Raises
    ------
    RequestError
        If a precision does not suit its metric.
    JournalError, WorkerError, VersionError
        If an outcome cannot be written, or there is no worker.
    """
    study, points = campaign.loaded.study, Reiterable(campaign.loaded.points)
    if study.precision is None:
        count = replications_of(study)
        campaign.simulate(points, count)
        return lambda _point: (count, None)
    found = simulate_until(campaign, points, study.precision, study.metrics[0])
    return lambda point: found[point.number]


def table_of(campaign: Campaign, how_far: HowFar) -> StudyTable:
    """Return the table of a study that was simulated."""
    study = campaign.loaded.study
    metrics = kept_metrics(campaign.loaded)
    cells: list[list[PointResult]] = []
    for point in campaign.loaded.points():
        if point.draw == 0:
            cells.append([])
        count, precise = how_far(point)
        outcome = campaign.outcome(point, count, metrics)
        cells[-1].append(outcome if precise is None else replace(outcome, precise=precise))
    found = tuple(Cell(first, tuple(drawn)) for first, *drawn in cells)
    return StudyTable(
        study.vary, found, metrics, 1 if study.seed is None else study.seed, _currency(campaign.loaded, found)
    )


def _currency(loaded: LoadedStudy, cells: Sequence[Cell]) -> str:
    """Return the currency of what things cost; empty without prices."""
    point = next((cell.stated.point for cell in cells if not cell.trouble), None)
    cost = None if point is None else loaded.scenario(point).cost
    return "" if cost is None else cost.currency


def kept_metrics(loaded: LoadedStudy) -> tuple[str, ...]:
    """Return the metrics that the answers of a study need, the headline first.

    Raises
    ------
    RequestError
        If unlike clusters are to be compared at what is not known of them.
    """
    study = loaded.study
    headline = () if study.at_equal is None else (study_headline(loaded),)
    asked = (name for question in study.questions for name in question.metrics)
    return tuple(dict.fromkeys((*headline, *study.metrics, *asked)))
