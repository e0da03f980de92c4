"""Many replications added up one by one: sums, and a few numbers of each where a spread is asked for.

`Ensemble` has the replications of a scenario: `Ensemble.rows` their metrics, the rest of it what documents say next to
them.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ettrick.analysis.fleet import FEWEST_REPLICATIONS, QueueLine, queue_line
from ettrick.analysis.ratios import ReplicationMetrics
from ettrick.analysis.statistics.differences import CONTROL_COUNT, ControlVariates
from ettrick.analysis.statistics.rows import LazyRows, MetricTable
from ettrick.sim import CLUSTER, CLUSTER_BUCKETS, JOB_BUCKETS, NAMED, NO_FLEET, ROOTS, Bucket, added

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from ettrick.sim import FleetResult, JobResult, Prepared, Result

    FloatArray = npt.NDArray[np.float64]

Key = TypeVar("Key")


class JobTally:
    """The sums of a job.

    ``requested`` [GPU s] is of each replication, all others are sums; ``buckets`` [GPU s] has the shape (14,).
    """

    def __init__(self) -> None:
        self.requested = array("d")
        self.rows = MetricTable()
        self.buckets: FloatArray = np.zeros(len(JOB_BUCKETS))
        self.finished = self.censored = self.never_started = self.never_arrived = self.waiting = self.accepted = 0
        self.restores: Counter[str] = Counter()
        self.given_up: list[tuple[float, int, int]] = []
        """The time of the final failure [s], its cause, and the number of interruptions before it."""

    def add(self, job: JobResult) -> None:
        """Add a replication, or a block of them."""
        if np.any(job.given_up < math.inf):
            ends = np.broadcast_arrays([job.given_up], job.given_up_for, sum(job.interruptions.values()))
            rows = zip(*(column.ravel().tolist() for column in ends), strict=True)
            self.given_up += [row for row in rows if row[0] < math.inf]
        self.requested.frombytes(np.float64(job.requested).tobytes())
        self.buckets = _sum_after(self.buckets, job.buckets)
        self.finished += int(np.count_nonzero(job.finished))
        self.censored += int(np.count_nonzero(job.censored))
        self.never_started += int(np.count_nonzero(np.isnan(job.start)))
        self.never_arrived += int(np.count_nonzero(job.arrival >= job.end))
        self.waiting += int(np.count_nonzero(np.isnan(job.start) & (job.arrival < job.end)))
        self.accepted += int(np.sum(job.accepted))
        self.restores.update(_totals(job.restores))


def _sum_after(start: FloatArray, rows: Any) -> FloatArray:
    """Return a sum after a row, or several one after another: rounded as if they had come one by one."""
    sums: FloatArray
    if np.shape(rows) == start.shape:
        sums = start + rows
    else:
        # A sum over an axis may take another order.
        sums = np.add.accumulate(np.concatenate((start[None], np.reshape(rows, (-1, *start.shape)))))[-1]
    return sums


def _add_times(times: dict[int, float], more: Mapping[int, float]) -> None:
    """Add for how long a count had each value to what is in `times` [s]."""
    if more:
        before = np.array([times.get(count, 0.0) for count in more])
        after = _sum_after(before, np.transpose(list(more.values())))
        times.update(zip(more, after.tolist(), strict=True))


def _totals(numbers: Mapping[Key, Any]) -> dict[Key, int]:
    """Return how many there were in all replications of a block."""
    return {key: number if isinstance(number, int) else int(number.sum()) for key, number in numbers.items()}


def _column(number: Any, count: int) -> Any:
    """Return a number of each replication of a block, which it may be the same for."""
    return number if isinstance(number, np.ndarray) else [number] * count


class Ensemble:
    """The replications of a scenario: their metrics, and what they came to together.

    Parameters
    ----------
    keeps_results
        Whether the replications themselves are kept: each takes some kilobytes.

    Attributes
    ----------
    rows
        Metrics, in order of replication.
    precise
        Whether a precision that was asked for was reached; ``None`` if none was.
    interrupted
        In how many of them a failure hit a job.
    owned, cluster
        GPU-time of the cluster [GPU s], in all and by bucket, shape (20,).
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

    def __init__(self, prepared: Prepared, *, keeps_results: bool = False) -> None:
        self.prepared = prepared
        self.rows = MetricTable()
        self.results: list[Result] = []
        self.precise: bool | None = None
        self._keeps_results = keeps_results
        self._variates = ControlVariates(prepared)
        self._controls = array("d")
        self._has_controls = True
        self.interrupted = 0
        self.jobs = [JobTally() for _ in prepared.jobs]
        self.owned: FloatArray = np.zeros(())
        self.cluster: FloatArray = np.zeros(len(CLUSTER_BUCKETS))
        self.requested: FloatArray = np.zeros(())
        self.buckets: FloatArray = np.zeros(len(JOB_BUCKETS))
        self.losses: FloatArray = np.zeros((len(Bucket), len(prepared.sources) + 1 + len(ROOTS)))
        self.interruptions = [array("q") for _ in prepared.sources]
        self.counts: Counter[str] = Counter()
        self.down_times: dict[int, float] = {}
        self.unit_down_times: dict[int, float] = {}
        self.amounts: dict[str, array[float]] = defaultdict(lambda: array("d"))
        self.repairs: Counter[str] = Counter()
        self.windows: FloatArray = np.zeros((0, len(JOB_BUCKETS)))
        self.reached: list[tuple[int, float, float]] = []
        self.fleet = NO_FLEET
        self.first_fleets: list[FleetResult] = []
        self.queues: list[QueueLine] = []

    @property
    def controls(self) -> Sequence[tuple[float, ...]]:
        """Control variates of each replication (`ettrick.analysis.statistics.differences`); empty where not known."""
        return LazyRows(self._controls, CONTROL_COUNT, tuple) if self._has_controls and self._controls else []

    def add(self, result: Result) -> None:
        """Add a replication, or a block of them."""
        outcome = ReplicationMetrics(self.prepared, result)
        self.rows.append(outcome.metrics())
        controls = self._variates.of(result)
        self._has_controls = self._has_controls and controls is not None
        if controls is not None:
            self._controls.frombytes(np.stack(np.broadcast_arrays(*controls), axis=-1).tobytes())
        if self._keeps_results:
            self.results.append(result)
        self._add_sums(outcome)

    def _add_sums(self, outcome: ReplicationMetrics) -> None:
        result, jobs = outcome.result, outcome.result.jobs
        count = np.size(result.owned)
        disruptions = sum(sum(job.disruptions.values()) for job in jobs)
        self.interrupted += int(np.count_nonzero(disruptions))
        self.owned = _sum_after(self.owned, result.owned)
        self.cluster = _sum_after(self.cluster, result.cluster)
        rows = zip(outcome.jobs, outcome.job_spending(), strict=True)
        for job, tally, (row, spending) in zip(jobs, self.jobs, rows, strict=True):
            tally.add(job)
            tally.rows.append(row | spending)
            self.requested = _sum_after(self.requested, job.requested)
            self.buckets = _sum_after(self.buckets, job.buckets)
            causes = job.totals.shape[-1]
            self.losses[:, :causes] = _sum_after(self.losses[:, :causes], job.totals.sum(axis=-3))
        hits = [sum(job.interruptions.get(cause, 0) for job in jobs) for cause in range(1, len(self.interruptions) + 1)]
        for number, column in zip(hits, self.interruptions, strict=True):
            column.extend(_column(number, count))
        merged = sum(job.merged for job in jobs)
        self.counts.update(
            _totals({**result.counts, "interruptions": sum(hits), "disruptions": disruptions, "merged": merged})
        )
        _add_times(self.down_times, result.down_times)
        _add_times(self.unit_down_times, result.unit_down_times)
        for name, amount in outcome.amounts().items():
            self.amounts[name].extend(_column(amount, count))
        self.repairs.update(_totals(outcome.repairs))
        self._add_fleet(result.fleet)
        if self.prepared.windows is not None:
            self._add_windows(result)

    def _add_fleet(self, fleet: FleetResult) -> None:
        self.fleet = added((self.fleet, fleet))
        if len(self.rows) < FEWEST_REPLICATIONS:
            self.first_fleets.append(fleet)
        if not fleet.replications:
            return
        line = queue_line(self.prepared, fleet)
        if line is not None:
            self.queues.append(line)
        self.requested = self.requested + float(fleet.buckets.sum())
        self.buckets = self.buckets + fleet.buckets
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
