"""Replications of one scenario: how many, on how many cores, and when there are enough."""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import math
import os
import signal
import threading
import time
import warnings
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ettrick.analysis.fleet import FEWEST_REPLICATIONS, QueueLine, queue_line
from ettrick.analysis.metrics import headline, is_exact
from ettrick.analysis.ratios import add_times, amounts_of, job_ratios, job_spending, ratios
from ettrick.analysis.statistics.differences import CONTROL_COUNT, ControlVariates, controlled
from ettrick.analysis.statistics.estimates import means
from ettrick.analysis.statistics.intervals import doubt_of, mean_estimate, widened
from ettrick.analysis.statistics.precision import BATCH, FEWEST, MOST, Precision, ReplicationsError, next_goal
from ettrick.sim import (
    CLUSTER,
    CLUSTER_BUCKETS,
    JOB_BUCKETS,
    MOST_EVENTS,
    NAMED,
    NO_FLEET,
    ROOTS,
    Bucket,
    Prepared,
    Ratio,
    Result,
    added,
    check_work,
    run,
    with_engine,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    import numpy.typing as npt

    from ettrick.sim import FleetResult, JobResult

    FloatArray = npt.NDArray[np.float64]

# Numbers of many replications in little memory: rows of a few numbers each, without an object for each of them.

Row = TypeVar("Row", bound=tuple[float, ...])


class LazyRows(Sequence[Row]):
    """A sequence of rows, such as ratios, that are made when they are asked for; equal to any sequence of the same."""

    __slots__ = ("_make", "_numbers", "_width")

    def __init__(self, numbers: array[float], width: int, make: Callable[[Iterable[float]], Row]) -> None:
        self._numbers, self._width, self._make = numbers[:], width, make  # a copy has no room for what may follow

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._numbers) // self._width

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some of them."""
        if isinstance(index, slice):
            places = range(*index.indices(len(self)))
            if places.step != 1:
                return [self[place] for place in places]
            return LazyRows(
                self._numbers[places.start * self._width : places.stop * self._width], self._width, self._make
            )
        place = range(len(self))[index] * self._width
        return self._make(self._numbers[place : place + self._width])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float64]:
        """Return the numbers, shape (n, width)."""
        # Always a copy: whoever changes an array does not mean to change what was simulated.
        return np.array(self._numbers, dtype=dtype or np.float64).reshape(-1, self._width)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same rows."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


# The same work on many indices: in order, and on all cores where that pays.

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
    warnings.filterwarnings("ignore", ".*the simulation loop is compiled")  # the parent has said so
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


# What many replications come to, added up one by one: sums, and a few numbers of each where a spread is asked for.


class _MetricRow(Mapping[str, Ratio]):
    """The metrics of one replication, each made when it is asked for."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: Mapping[str, array[float]], place: int) -> None:
        self._columns, self._place = columns, _WIDTH * place

    def __getitem__(self, name: str) -> Ratio:
        """Return a metric."""
        place = self._place
        return Ratio(*self._columns[name][place : place + _WIDTH])

    def __iter__(self) -> Iterator[str]:
        """Return the names of the metrics."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return how many metrics there are."""
        return len(self._columns)


_WIDTH = len(Ratio._fields)


class MetricTable(Sequence[Mapping[str, Ratio]]):
    """The metrics of all replications, 24 bytes each: a row for each, as `ettrick.analysis.metrics.ratios` has it."""

    def __init__(self) -> None:
        self._columns: dict[str, array[float]] = {}
        self._count = 0

    def append(self, row: Mapping[str, Ratio]) -> None:
        """Add the metrics of a replication; one that another replication lacks, such as of a size, is nothing there."""
        for name, ratio in row.items():
            if name not in self._columns:
                self._columns[name] = array("d", [0.0] * (_WIDTH * self._count))
            self._columns[name].extend(ratio)
        self._count += 1
        for column in self._columns.values():
            column.extend([0.0] * (_WIDTH * self._count - len(column)))

    def __len__(self) -> int:
        """Return the number of replications."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Ratio]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Ratio]]: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, Ratio] | Sequence[Mapping[str, Ratio]]:
        """Return the metrics of a replication, or of some."""
        places = range(self._count)[index]
        if isinstance(places, range):
            return [_MetricRow(self._columns, place) for place in places]
        return _MetricRow(self._columns, places)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same rows."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class JobTally:
    """What one job came to.

    ``requested`` [GPU s] is of each replication, all others are sums; ``buckets`` [GPU s] has the shape (14,).
    """

    def __init__(self) -> None:
        self.requested = array("d")
        self.rows = MetricTable()
        self.buckets: FloatArray = np.zeros(len(JOB_BUCKETS))
        self.finished = self.censored = self.never_started = self.never_arrived = self.waiting = self.accepted = 0
        self.restores: dict[str, int] = {}
        self.given_up: list[tuple[float, int, int]] = []
        """When it failed for good [s], for which cause, and after how many interruptions."""

    def add(self, job: JobResult) -> None:
        """Add a replication."""
        if job.given_up < math.inf:
            self.given_up.append((job.given_up, job.given_up_for, sum(job.interruptions.values())))
        self.requested.append(job.requested)
        self.buckets += job.buckets
        self.finished += job.finished
        self.censored += job.censored
        self.never_started += math.isnan(job.start)
        self.never_arrived += job.arrival >= job.end
        self.waiting += math.isnan(job.start) and job.arrival < job.end
        self.accepted += job.accepted
        for store, number in job.restores.items():
            self.restores[store] = self.restores.get(store, 0) + number


class RunAccumulator:
    """What the replications of a scenario came to.

    Attributes
    ----------
    interrupted
        In how many of them a failure hit a job.
    owned, cluster
        GPU-time of the cluster [GPU s], in all and by bucket, shape (21,).
    requested, buckets
        Requested GPU-time of all jobs [GPU s], and by bucket, shape (14,).
    losses
        GPU-seconds by bucket and cause, the roots that are no failure after the sources, of all jobs and services.
    interruptions
        For each cause, the interruptions of each replication.
    down_times, unit_down_times
        For how long how many nodes were down, and how many units that are used as wholes [s].
    amounts
        What each replication took, by name: energy by bucket, cost by what it was paid for.
    repairs
        Repairs that are paid for, by class of part.
    windows
        GPU-seconds of all jobs by window and bucket, of the replications that reached it.
    reached
        For each window, how many reached it, where it begins in the first of them, and where it ends in the last [s].
    fleet
        What streams of jobs and services came to in all replications.
    first_fleets
        The same of each of the first replications, of which batches are made while there are few.
    queues
        The queue of each replication over time, where it has a long run.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.replications = 0
        self.interrupted = 0
        self._planned = [source.planned for source in prepared.sources]
        self.jobs = [JobTally() for _ in prepared.jobs]
        self.owned = 0.0
        self.cluster: FloatArray = np.zeros(len(CLUSTER_BUCKETS))
        self.requested = 0.0
        self.buckets: FloatArray = np.zeros(len(JOB_BUCKETS))
        self.losses: FloatArray = np.zeros((len(Bucket), len(prepared.sources) + 1 + len(ROOTS)))
        self.interruptions = [array("q") for _ in prepared.sources]
        self.counts: dict[str, int] = {}
        self.down_times: dict[int, float] = {}
        self.unit_down_times: dict[int, float] = {}
        self.amounts: dict[str, array[float]] = {}
        self.repairs: dict[str, int] = {}
        self.windows: FloatArray = np.zeros((0, len(JOB_BUCKETS)))
        self.reached: list[tuple[int, float, float]] = []
        self.fleet = NO_FLEET
        self.first_fleets: list[FleetResult] = []
        self.queues: list[QueueLine] = []

    def add(self, result: Result) -> None:
        """Add a replication."""
        self.replications += 1
        self.interrupted += any(job.disruptions for job in result.jobs)
        self.owned += result.owned
        self.cluster += result.cluster
        plans, spent = self.prepared.jobs, job_spending(self.prepared, result)
        for plan, job, tally, mine in zip(plans, result.jobs, self.jobs, spent, strict=True):
            tally.add(job)
            tally.rows.append(job_ratios(plan, job, self._planned) | mine)
            self.requested += job.requested
            self.buckets += job.buckets
            self.losses[:, : job.totals.shape[2]] += job.totals.sum(axis=0)
        for cause, column in enumerate(self.interruptions, 1):
            column.append(sum(job.interruptions.get(cause, 0) for job in result.jobs))
        for name, number in {
            **result.counts,
            "interruptions": sum(sum(job.interruptions.values()) for job in result.jobs),
            "disruptions": sum(sum(job.disruptions.values()) for job in result.jobs),
            "merged": sum(job.merged for job in result.jobs),
        }.items():
            self.counts[name] = self.counts.get(name, 0) + number
        add_times(self.down_times, result.down_times)
        add_times(self.unit_down_times, result.unit_down_times)
        amounts, repairs = amounts_of(self.prepared, result)
        for name, amount in amounts.items():
            self.amounts.setdefault(name, array("d")).append(amount)
        for part, number in repairs.items():
            self.repairs[part] = self.repairs.get(part, 0) + number
        self._add_fleet(result.fleet)
        if self.prepared.windows is not None:
            self._add_windows(result)

    def _add_fleet(self, fleet: FleetResult) -> None:
        self.fleet = added((self.fleet, fleet))
        if self.replications < FEWEST_REPLICATIONS:
            self.first_fleets.append(fleet)
        line = queue_line(self.prepared, fleet)
        if line is not None:
            self.queues.append(line)
        self.requested += float(fleet.buckets.sum())
        self.buckets += fleet.buckets
        for key, row in fleet.ledger.items():
            if key.account != CLUSTER and key.account.stream < NAMED:
                self.losses[key.bucket, key.cause] += float(row.sum())
        for stop, rows in fleet.stops.items():
            if not stop.via and stop.account.stream < NAMED and 0 < stop.cause <= len(self.interruptions):
                self.interruptions[stop.cause - 1][-1] += round(float(rows[:, 0].sum()))

    def _add_windows(self, result: Result) -> None:
        """Add the windows that a replication has reached."""
        edges = result.edges.tolist()
        count = len(edges) - 1
        if count > len(self.reached):
            more = np.zeros((count - len(self.reached), len(JOB_BUCKETS)))
            self.windows = np.concatenate((self.windows, more))
            self.reached += [(0, edges[index], 0.0) for index in range(len(self.reached), count)]
        for job in result.jobs:
            self.windows[:count] += job.totals[:count, : len(JOB_BUCKETS)].sum(axis=2)
        for index in range(count):
            number, start, end = self.reached[index]
            self.reached[index] = number + 1, start, max(end, edges[index + 1])


@dataclass(frozen=True)
class Ensemble:
    """The replications of one scenario.

    Parameters
    ----------
    rows
        Metrics, in order of replication.
    controls
        Control variates of each replication (`ettrick.analysis.statistics.differences`); empty where they are not
        known.
    results
        The replications themselves, if they were to be kept: each takes some kilobytes.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    """

    prepared: Prepared
    rows: MetricTable
    controls: Sequence[tuple[float, ...]]
    tally: RunAccumulator
    results: tuple[Result, ...] = ()
    precise: bool | None = None


class EnsembleBuilder:
    """Replications of a scenario that are being simulated, of which an ensemble is made."""

    def __init__(self, prepared: Prepared, *, keeps: bool = False) -> None:
        self.prepared = prepared
        self.rows = MetricTable()
        self._keeps = keeps
        self._results: list[Result] = []
        self._tally = RunAccumulator(prepared)
        self._variates = ControlVariates(prepared)
        self._controls = array("d")
        self._is_known = True

    def add(self, result: Result) -> None:
        """Add a replication."""
        self.rows.append(ratios(self.prepared, result))
        self._tally.add(result)
        controls = self._variates.of(result)
        self._is_known = self._is_known and controls is not None
        self._controls.extend(controls or ())
        if self._keeps:
            self._results.append(result)

    @property
    def controls(self) -> Sequence[tuple[float, ...]]:
        """Control variates of each replication; empty where those of one are not known."""
        return LazyRows(self._controls, CONTROL_COUNT, tuple) if self._is_known and self._controls else []

    def ensemble(self, *, precise: bool | None = None) -> Ensemble:
        """Return what has been gathered."""
        return Ensemble(self.prepared, self.rows, self.controls, self._tally, tuple(self._results), precise)


def replications_of(prepared: Prepared) -> int:
    """Return how many replications a scenario gets where nobody says: one where nothing is random."""
    return 1 if prepared.is_deterministic else 8 if prepared.has_queue else 32


def replicate(
    prepared: Prepared,
    replications: int,
    *,
    precision: Precision | None = None,
    metric: str | None = None,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    keeps_log: bool = False,
    most_events: float = MOST_EVENTS,
) -> Ensemble:
    """Simulate replications 0, 1, 2, ... of a scenario.

    Parameters
    ----------
    replications
        How many; with `precision`, ignored.
    precision, metric
        Stop where the interval of `metric`, by default that of `headline`, is narrow enough, or can never be; see
        `ettrick.analysis.statistics.precision`.
    processes
        Worker processes at most; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number done and the total (``None`` if unknown).
    keeps_log
        Whether results are kept, and say when each node was down.
    most_events
        How many events may be simulated; a precision that is not reached with as many is given up.

    Raises
    ------
    RequestError
        If `metric` is not one of this scenario's, or `precision` is in points and it is not a share.
    WorkError
        If more events are expected than may be, of the fewest replications where a precision is asked for.
    EngineError
        If the scenario insists on machine code that cannot simulate it.
    """
    total = replications if precision is None else None
    metric = metric or headline(prepared)
    goal = total if total is not None else 1 if prepared.is_deterministic else FEWEST
    prepared = with_engine(prepared, goal)
    found = EnsembleBuilder(prepared, keeps=keeps_log)
    rows = found.rows
    precise = None if precision is None else False
    check_work(prepared.expected_events * goal, most_events)
    may_be = most_events / prepared.expected_events if prepared.expected_events else math.inf
    most = int(min(MOST, BATCH * (may_be // BATCH)))
    simulate = functools.partial(run, keeps_log=keeps_log, most_events=math.inf)
    with contextlib.closing(in_order(simulate, prepared, range(MOST if total is None else total), processes)) as source:
        for result in source:
            found.add(result)
            if len(rows) == 1:
                _check_metric(metric, rows[0], precision)
            if progress is not None:
                progress(len(rows), total)
            if precision is not None and len(rows) == goal:
                excess = _excess(found, metric, precision)
                precise, goal = excess <= 1, next_goal(goal, excess, most)
                if len(rows) >= goal:
                    break
    return found.ensemble(precise=precise)


def _excess(found: EnsembleBuilder, metric: str, precision: Precision) -> float:
    """Return how wide the interval of a metric is over what it should be [-], with controls where they are known."""
    ratios = [row[metric] for row in found.rows]
    plain = mean_estimate(ratios, metric, is_exact=is_exact(found.prepared, metric), follows_tail=False)
    if plain.method == "exact" and plain.interval is None:
        return 0.0
    taken, doubt = controlled(ratios, found.controls), doubt_of(ratios)
    interval = plain.interval if taken is None else widened(taken.mean, taken.ci95, ratios, metric)
    return precision.excess(interval, plain.mean, metric, len(ratios), doubt)


def _check_metric(metric: str, known: Mapping[str, Ratio], precision: Precision | None) -> None:
    """Refuse a metric that is not there, and percentage points of one that is no share."""
    if metric not in known:
        near = difflib.get_close_matches(metric, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(sorted(known))}"
        raise ReplicationsError(f"this scenario has no metric '{metric}'; {hint}")
    if precision is not None:
        precision.check(metric)


def band(
    ensemble: Ensemble,
    draws: int,
    *,
    replications: int = BATCH,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    most_events: float = MOST_EVENTS,
) -> dict[str, tuple[float, float] | None]:
    """Return the 90 % band of each metric's mean that comes from rates not known exactly.

    Each draw scales the rate of every source that states how many events it rests on by a gamma variable with shape
    ``events + 1/2`` and mean ``1 + 1 / (2 events)`` (Jeffreys' posterior of a Poisson rate), and simulates the first
    replications again. Sources without such a statement are taken as exact. Random numbers are common to all draws, so
    the noise of a few replications cancels in what a draw moves their mean by; the band is the mean of the whole
    ensemble moved by that.

    Parameters
    ----------
    draws
        Parameter sets; at least 20, so that the band's ends are not its extremes.
    replications
        Replications of each set, at most.

    Returns
    -------
    dict
        Low and high of each metric; ``None`` where a mean does not exist, with the stated rates or in any draw.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961): the prior of a Poisson rate.
    """
    import numpy as np

    few = min(replications, len(ensemble.rows))
    check_work(ensemble.prepared.expected_events * few * draws, most_events)
    work = functools.partial(_drawn_means, replications=few)
    rows: list[dict[str, float | None]] = []
    with contextlib.closing(in_order(work, ensemble.prepared, range(draws), processes)) as source:
        for found in source:
            rows.append(found)
            if progress is not None:
                progress(len(rows), draws)
    stated = means(ensemble.rows[:few])
    bands: dict[str, tuple[float, float] | None] = {}
    for name, mean in means(ensemble.rows).items():
        values = [row[name] for row in rows]
        start = stated[name]
        if mean is None or start is None or None in values:
            bands[name] = None
        else:
            low, high = np.quantile([value - start for value in values if value is not None], [0.05, 0.95])
            bands[name] = mean + float(low), mean + float(high)
    return bands


def _drawn_means(prepared: Prepared, draw: int, replications: int) -> dict[str, float | None]:
    """Return the mean of each metric with the rates of a draw."""
    changed = drawn(prepared, draw)
    return means([ratios(changed, run(changed, each, most_events=math.inf)) for each in range(replications)])


def drawn(prepared: Prepared, draw: int) -> Prepared:
    """Return a scenario with the rates of a draw, as `band` takes them."""
    sources = tuple(
        replace(source, law=source.law.scaled(1 / _factor(prepared.seed, source.name, source.events, draw)))
        if source.events and source.law is not None
        else source
        for source in prepared.sources
    )
    return prepared.with_sources(sources)


def _factor(seed: int, name: str, events: int, draw: int) -> float:
    """Return what a draw multiplies a rate by [-]."""
    from numpy.random import SeedSequence, default_rng

    entropy = [seed & 0xFFFFFFFF, seed >> 32, draw, *name.encode()]
    return float(default_rng(SeedSequence(entropy)).gamma(events + 0.5) / events)
