"""A study from reading it to printing: its folder, all of its points simulated and put into a table, the document.

`workplace` opens the folder, `simulate` and `table_of` are between them, `run_sweep` writes the document.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ettrick import sim
from ettrick.analysis.amounts import number_of
from ettrick.analysis.contest.compare import HEADLINES, headline_at_equal
from ettrick.analysis.contest.precision import Precision, Pursuit, ReplicationsError, Ties, pursue
from ettrick.analysis.results.run import render
from ettrick.analysis.study.table import Cell, StudyTable
from ettrick.analysis.sweep.campaign import Campaign, Reiterable
from ettrick.analysis.sweep.document import sweep_document
from ettrick.analysis.sweep.folder import JOURNAL, FolderError, StudyFolder
from ettrick.analysis.sweep.journal import Journal, JournalError
from ettrick.analysis.sweep.task import VersionError
from ettrick.analysis.sweep.workers import WorkerError, worker_pool_at
from ettrick.sim import WorkError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.parts import Document
    from ettrick.analysis.results.studies import SweepDocument
    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.model import PrecisionSpec, Study
    from ettrick.analysis.study.table import PointResult
    from ettrick.analysis.sweep.task import Shard
    from ettrick.analysis.sweep.workers import ExecutorOptions

# Replications until every point is precise enough: more where the mean is not sure, none where it is.
#
# A point is looked at only when all replications up to a goal are there, and the next goal follows from what these
# say. So nothing depends on where they were simulated, on how many at once, or on what the journal had before. The
# interval is the one that is shown: see `ettrick.analysis.statistics.intervals`. It is nominal: who stops when a sample
# looks calm stops a little too early.
#
# Central points decide for themselves: first at ``least`` replications, then at goals that seem to be enough, of whole
# blocks, at ``most``. A point that has trouble, or whose metric has no mean (a censored replication, or no such
# metric), ends at once. Draws of what is not known have ``least`` replications, so that all draws of a cell have the
# same, which its central point has too.


class PointProgress(NamedTuple):
    """The progress of a point.

    Parameters
    ----------
    replications
        Those that the journal has, from the first one on.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was, as for draws of what is not known.
    """

    replications: int
    precise: bool | None


def simulate_until(
    campaign: Campaign, points: Iterable[Point], spec: PrecisionSpec, default_metric: str
) -> dict[int, PointProgress]:
    """Simulate the points of a study until each is precise enough, and return how far that was, by number of the point.

    Parameters
    ----------
    points
        The points; gone through several times.
    default_metric
        What it is about, unless `spec` says.

    Raises
    ------
    ReplicationsError
        If points of a share are asked of what is none, or no point that runs has the metric.
    JournalError
        If the journal cannot be written.
    """
    metric, precision = spec.metric or default_metric, Precision.parse(spec.width)
    precision.check(metric)
    central = {point.number: point for point in points if not point.draw}
    pursuits, metrics = {number: Pursuit(spec.least, spec.most) for number in central}, set[str]()
    context = campaign.prepared_for(points, spec.least * sum(1 for _ in points))
    done = campaign.complete(((point, spec.least) for point in points if point.draw), context)

    def simulate(active: Mapping[int, Pursuit]) -> None:
        nonlocal done
        done = campaign.complete(((central[number], pursuit.goal) for number, pursuit in active.items()), context, done)

    def excess(number: int) -> float:
        outcome = campaign.outcome(central[number], pursuits[number].goal)
        metrics.update(outcome.metrics)
        return _excess(outcome, metric, precision)

    pursue(pursuits, simulate, excess)
    if metrics and metric not in metrics:
        raise ReplicationsError(f"no point has a metric '{metric}'{suggest(metric, metrics)}")
    reached = {number: PointProgress(pursuit.goal, pursuit.precise) for number, pursuit in pursuits.items()}
    return {point.number: reached.get(point.number, PointProgress(spec.least, None)) for point in points}


def _excess(outcome: PointResult, metric: str, precision: Precision) -> float:
    """Return how wide an interval is over what it should be [-]; infinite where it will never be narrow enough."""
    ratios = outcome.metrics.get(metric)
    if outcome.trouble or not ratios:
        return math.inf
    return precision.excess_of_mean(outcome.estimate(metric), ratios, metric)


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
    ReplicationsError
        If a precision does not suit its metric.
    JournalError, WorkerError, VersionError
        If an outcome cannot be written, or there is no worker.
    """
    study, points = campaign.loaded.study, Reiterable(campaign.loaded.points)
    if study.precision is None:
        count = replications_of(study)
        campaign.simulate(points, count)
        return lambda _point: (count, None)
    reached = simulate_until(campaign, points, study.precision, study.metrics[0])
    return lambda point: reached[point.number]


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
    table_cells = tuple(Cell(first, tuple(drawn)) for first, *drawn in cells)
    return StudyTable(
        study.vary,
        table_cells,
        metrics,
        1 if study.seed is None else study.seed,
        _currency(campaign.loaded, table_cells),
        Ties.parse(study.tie),
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
    ReplicationsError
        If unlike clusters are to be compared at what is not known of them.
    """
    study = loaded.study
    of_questions = (name for question in study.questions for name in question.metrics)
    return tuple(dict.fromkeys((study_headline(loaded), *study.metrics, *of_questions)))


_UNLIKE = ("cluster", "cluster.accelerator", "cluster.pools")
_UNLIKE_OF_JOBS = ("model", "precision", "parallelism", "mfu", "step_time", "calibration")


def study_headline(loaded: LoadedStudy) -> str:
    """Return the metric that leads a study: at equal GPUs, power or cost that of the first point that can run.

    Raises
    ------
    ReplicationsError
        With a line that says what is not known.
    """
    study = loaded.study
    kind = study.at_equal
    if kind is None:
        return study.metrics[0]
    for point in loaded.points():
        try:
            prepared = sim.prepare(loaded.scenario(point))
        except (sim.ScenarioError, sim.PathError):
            continue
        return headline_at_equal(kind, {loaded.study.name: prepared}, _varied(loaded))
    return HEADLINES[kind]


def _varied(loaded: LoadedStudy) -> list[str]:
    """Return the paths that vary and make GPU-time worth more or less."""
    paths = [path for name, axis in loaded.study.vary.items() for path in axis.targets(name)]
    return [
        path
        for path in dict.fromkeys(paths)
        if path in _UNLIKE or path.startswith("cluster.accelerator.") or _is_of_step(path)
    ]


def _is_of_step(path: str) -> bool:
    steps = path.split(".")
    return steps == ["jobs"] or (steps[0] == "jobs" and (len(steps) < 3 or steps[2] in _UNLIKE_OF_JOBS))


# What the commands about studies do between reading a study and printing: open the folder, simulate, write.

TROUBLE = (ReplicationsError, WorkError, JournalError, FolderError, WorkerError, VersionError)
"""The errors of a request to simulate a study, each in one line."""


class StudyRun(NamedTuple):
    """A study ready to be simulated, and the folder in which it is kept, if it is."""

    campaign: Campaign
    folder: StudyFolder | None

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks for the user on the content of the folder."""
        return () if self.folder is None else self.folder.notes


@contextlib.contextmanager
def workplace(
    loaded: LoadedStudy,
    where: ExecutorOptions,
    progress: Callable[[int, int | None], None],
    *,
    out: Path | None = None,
    overwrite: bool = False,
    shard: Shard | None = None,
) -> Iterator[StudyRun]:
    """Yield a study ready to be simulated: kept in a folder, or nowhere.

    Raises
    ------
    ReplicationsError
        If a shard is asked for a precision.
    FolderError, JournalError, WorkerError
        If the folder cannot take the study, or there is no worker.
    """
    if shard is not None and loaded.study.precision is not None:
        raise ReplicationsError(
            "precision: is not for shards: how many replications a point needs follows from outcomes that other shards "
            "have; give replications, or simulate the study in one piece"
        )
    with contextlib.ExitStack() as stack:
        folder = None
        if out is None:
            passing = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ettrick-")))
            journal = stack.enter_context(Journal(passing / JOURNAL))
        else:
            name = None if shard is None else str(shard)
            folder = stack.enter_context(StudyFolder(out, loaded, shard=name, overwrite=overwrite))
            journal = folder.journal
        worker_pool = stack.enter_context(worker_pool_at(where))
        campaign = Campaign(loaded, journal, worker_pool, progress)
        yield StudyRun(campaign if shard is None else replace(campaign, is_assigned=shard.includes), folder)


def run_sweep(
    place: StudyRun, command: str, sentences: Callable[[SweepDocument], list[list[str]]]
) -> tuple[SweepDocument, list[str]]:
    """Return the document of a study whose points are all simulated, and the files that were written."""
    campaign = place.campaign
    metrics = kept_metrics(campaign.loaded)
    how_far = simulate(campaign)
    table = table_of(campaign, how_far)
    for name in metrics:
        if table.running and not any(name in cell.stated.metrics for cell in table.running):
            raise ReplicationsError(f"no point has a {name}")
    content = sweep_document(campaign.loaded, table, command=command)
    worded = [
        answer.model_copy(update={"sentences": words})
        for answer, words in zip(content.answers, sentences(content), strict=True)
    ]
    content = content.model_copy(update={"answers": worded})
    files: list[str] = []
    if place.folder is not None:
        files = place.folder.write(render(content), campaign, lambda point: how_far(point)[0], metrics)
    return content, files


def run_shard(place: StudyRun) -> dict[str, int]:
    """Simulate the tasks of a shard, and return how many outcomes there are of each status."""
    simulate(place.campaign)
    counts: dict[str, int] = {}
    for record in place.campaign.journal:
        counts[record.status] = counts.get(record.status, 0) + 1
    return counts


def keep(place: StudyRun, content: Document, name: str) -> list[str]:
    """Write the document of a sensitivity or an optimisation into the folder, if there is one; return the files."""
    if place.folder is None:
        return []
    place.folder.keep(name, render(content))
    return [name]


def format_shard(counts: dict[str, int], shard: Shard) -> str:
    """Return what a shard has simulated, in words."""
    listed = ", ".join(f"{number:,} {status}" for status, number in sorted(counts.items())) or "none"
    return f"shard {shard.number} of {shard.count}: {number_of(sum(counts.values()), 'outcome')} ({listed})"


def against_shard(counts: dict[str, int]) -> list[str]:
    """Return why a shard is not done, in a line: tasks that failed or crashed."""
    bad = [f"{counts[status]:,} {status}" for status in ("failed", "crashed") if counts.get(status)]
    return [f"tasks that went wrong: {', '.join(bad)}; the same command tries them again"] if bad else []
