"""What many replications come to, added up one by one: sums, and a few numbers of each where a spread is asked for."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from analysis.metrics import job_ratios
from analysis.missing import add_down_times
from analysis.spending import amounts_of, job_spending
from sim import CLUSTER_BUCKETS, JOB_BUCKETS, Bucket, Ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from sim import JobResult, Prepared, Result

    FloatArray = npt.NDArray[np.float64]

__all__ = ["JobTally", "Table", "Tally"]


class _Row(Mapping[str, Ratio]):
    """The metrics of one replication, each made when it is asked for."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: Mapping[str, array[float]], place: int) -> None:
        self._columns, self._place = columns, 2 * place

    def __getitem__(self, name: str) -> Ratio:
        """Return a metric."""
        column = self._columns[name]
        return Ratio(column[self._place], column[self._place + 1])

    def __iter__(self) -> Iterator[str]:
        """Return the names of the metrics."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return how many metrics there are."""
        return len(self._columns)


class Table(Sequence[Mapping[str, Ratio]]):
    """The metrics of all replications, 16 bytes each: a row for each, as `analysis.metrics.ratios` has it."""

    def __init__(self) -> None:
        self._columns: dict[str, array[float]] = {}
        self._count = 0

    def append(self, row: Mapping[str, Ratio]) -> None:
        """Add the metrics of a replication; all have the same."""
        if not self._count:
            self._columns = {name: array("d") for name in row}
        assert row.keys() == self._columns.keys()
        for name, ratio in row.items():
            self._columns[name].extend(ratio)
        self._count += 1

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
            return [_Row(self._columns, place) for place in places]
        return _Row(self._columns, places)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same rows."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class JobTally:
    """What one job came to.

    ``requested`` [GPU s] is of each replication, all others are sums; ``buckets`` [GPU s] has the shape (12,).
    """

    def __init__(self) -> None:
        self.requested = array("d")
        self.rows = Table()
        self.buckets: FloatArray = np.zeros(len(JOB_BUCKETS))
        self.finished = self.censored = self.never_started = self.never_arrived = self.waiting = self.accepted = 0
        self.restores: dict[str, int] = {}

    def add(self, job: JobResult) -> None:
        """Add a replication."""
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


class Tally:
    """What the replications of a scenario came to.

    Parameters
    ----------
    prepared
        The scenario.

    Attributes
    ----------
    replications
        How many there are.
    interrupted
        In how many of them a failure hit a job.
    jobs
        By job.
    owned, cluster
        GPU-time of the cluster [GPU s], in all and by bucket, shape (18,).
    requested, buckets
        Requested GPU-time of all jobs [GPU s], and by bucket, shape (12,).
    losses
        GPU-seconds by bucket and cause, of all jobs.
    interruptions
        For each cause, the interruptions of each replication.
    counts
        Events by what became of them.
    down_times
        For how long how many nodes were down [s].
    amounts
        What each replication took, by name: energy by bucket, cost by what it was paid for.
    repairs
        Repairs that are paid for, by class of part.
    windows
        GPU-seconds of all jobs by window and bucket, of the replications that reached it.
    reached
        For each window, how many reached it, where it begins in the first of them, and where it ends in the last [s].
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
        self.losses: FloatArray = np.zeros((len(Bucket), len(prepared.sources) + 1))
        self.interruptions = [array("q") for _ in prepared.sources]
        self.counts: dict[str, int] = {}
        self.down_times: dict[int, float] = {}
        self.amounts: dict[str, array[float]] = {}
        self.repairs: dict[str, int] = {}
        self.windows: FloatArray = np.zeros((0, len(JOB_BUCKETS)))
        self.reached: list[tuple[int, float, float]] = []

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
            self.losses += job.totals.sum(axis=0)
        for cause, column in enumerate(self.interruptions, 1):
            column.append(sum(job.interruptions.get(cause, 0) for job in result.jobs))
        for name, number in {
            **result.counts,
            "interruptions": sum(sum(job.interruptions.values()) for job in result.jobs),
            "disruptions": sum(sum(job.disruptions.values()) for job in result.jobs),
            "merged": sum(job.merged for job in result.jobs),
        }.items():
            self.counts[name] = self.counts.get(name, 0) + number
        add_down_times(self.down_times, result)
        amounts, repairs = amounts_of(self.prepared, result)
        for name, amount in amounts.items():
            self.amounts.setdefault(name, array("d")).append(amount)
        for part, number in repairs.items():
            self.repairs[part] = self.repairs.get(part, 0) + number
        if self.prepared.windows is not None:
            self._add_windows(result)

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
