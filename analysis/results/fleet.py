"""What the streams of jobs of a run came to: the part of its document, and the same as tidy tables."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.amounts import count_text, number_of
from analysis.fleet import (
    BATCHES,
    BY,
    FEWEST_REPLICATIONS,
    ON_QUEUE,
    QueueLine,
    Slice,
    are_correlated,
    batches,
    fleet_ratios,
    group_of,
    quantiles,
    slices,
)
from analysis.metrics import METRICS
from analysis.results.models import (
    EndsFound,
    FleetFound,
    FleetWindow,
    GroupFound,
    LedgerRow,
    OfJobs,
    QueueGrowth,
    StopsFound,
    Summary,
)
from analysis.statistics.estimates import Interval, contributions, mean_interval, ratio_interval, t_quantile
from analysis.statistics.intervals import possible
from sim import CLUSTER, CLUSTER_BUCKETS, IDLE, NO_FAILURE, OUTCOMES, ROOTS, Bucket
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from analysis.results.models import RunDocument
    from analysis.runs import Ensemble
    from sim import Attempt, FleetAccount, FleetResult, Ratio

VIAS = ("direct", "preemption")


class Settled(NamedTuple):
    """The metrics of a fleet with the intervals that the data support, and how these were made.

    Parameters
    ----------
    metrics
        All of them, those of slices too.
    intervals, batches, correlated
        As in `FleetFound`.
    growth
        Of the queue; ``None`` where it is not known.
    """

    metrics: dict[str, Summary]
    intervals: str
    batches: int
    correlated: list[str]
    growth: Growth | None


def settled(ensemble: Ensemble, metrics: Mapping[str, Summary]) -> Settled:
    """Return the metrics of a run with streams, given those whose intervals are of its replications.

    Of few replications intervals are those of batch means. Where the queue grows without end, what depends on it has no
    mean: it would be one of the horizon.
    """
    tally = ensemble.tally
    growth = growth_of(tally.queues)
    found, correlated, count = dict(metrics), [], 0
    if tally.replications < FEWEST_REPLICATIONS:
        rows = batches(ensemble.prepared, tally.first_fleets)
        count = len(rows) if len(rows) >= BATCHES * len(tally.first_fleets) else 0
        for name in fleet_ratios(ensemble.prepared, tally.first_fleets[0]):
            if name not in found:
                continue
            ratios = [row[name] for row in rows if name in row]
            # Batches are of streams: what named jobs beside them have too is not in these.
            is_mixed = bool(ensemble.prepared.jobs) and "@" not in name and not METRICS[name].needs
            interval = _of_batches(ratios) if count and not is_mixed else None
            if interval is None and count and not is_mixed and "@" not in name and _has_spread(ratios):
                correlated.append(name)
            if interval is None and tally.replications > 1:
                continue  # few replications are few, but they are independent
            changes = {"mean_ci95": possible(name, interval), "method": None if interval is None else "batch means"}
            found[name] = found[name].model_copy(update=changes)
    if growth is not None and growth.is_saturated:
        empty = Summary(mean=None, mean_ci95=None)
        found = {name: empty if name.partition("@")[0] in ON_QUEUE else summary for name, summary in found.items()}
    intervals = "replications" if tally.replications >= FEWEST_REPLICATIONS else "batch means" if count else "none"
    return Settled(found, intervals, count, correlated, growth)


class Growth(NamedTuple):
    """How fast the queue grew in the second half of the time [GPUs/s], and its 95 % interval."""

    rate: float
    ci95: Interval
    queued: float
    """GPUs in the queue in the mean of that half."""
    seconds: float
    """How long that half is [s]."""

    @property
    def is_saturated(self) -> bool:
        """Whether it grew, not by chance, and by more than a fifth of itself: more work arrives than is done."""
        return self.ci95[0] > 0 and self.rate * self.seconds > 0.2 * self.queued


def growth_of(lines: Sequence[QueueLine]) -> Growth | None:
    """Return how fast the queue grew in the second half of some replications; ``None`` without any.

    Of `FEWEST_REPLICATIONS` or more the interval is that of their slopes. Of fewer it is that of the line through their
    mean, with an error that counts how much neighbouring windows are alike.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 9.5 (means of a queue that does not settle).
    """
    if not lines:
        return None
    queued, seconds = float(np.mean([line.queue.mean() for line in lines])), lines[0].seconds
    slopes = [line.slope() for line in lines]
    if len(lines) >= FEWEST_REPLICATIONS:
        interval = mean_interval(slopes)
        return None if interval is None else Growth(float(np.mean(slopes)), interval, queued, seconds)
    count = min(len(line.queue) for line in lines)
    mean = QueueLine(lines[0].time[:count], np.mean([line.queue[:count] for line in lines], axis=0), seconds)
    rate, length = mean.slope(), float(mean.time @ mean.time)
    rest = mean.queue - mean.queue.mean() - rate * mean.time
    square = float(rest @ rest)
    alike = min(max(float(rest[1:] @ rest[:-1]) / square, 0.0), 0.95) if square else 0.0
    # Windows whose errors follow an autoregression of the first order are worth as many independent ones.
    worth = count * (1 - alike) / (1 + alike)
    error = math.sqrt(square / (count - 2) / length * count / worth)
    half = t_quantile(0.95, max(worth - 2, 1.0)) * error
    return Growth(rate, (rate - half, rate + half), queued, seconds)


def _of_batches(ratios: Sequence[Ratio]) -> tuple[float, float] | None:
    """Return the interval of batches; ``None`` where they are too few or too much alike to be a sample."""
    values = contributions(ratios)
    if values is None or len(values) < BATCHES or np.all(values == values[0]) or are_correlated(values):
        return None
    found = ratio_interval([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    return None if found is None else found[1:]


def _has_spread(ratios: Sequence[Ratio]) -> bool:
    values = contributions(ratios)
    return values is not None and len(values) >= BATCHES and bool(np.any(values != values[0]))


def fleet_found(ensemble: Ensemble, found: Settled) -> FleetFound:
    """Return the part of a document that is about streams of jobs."""
    prepared, fleet = ensemble.prepared, ensemble.tally.fleet
    assert fleet is not None, "a run with streams"
    count, growth = fleet.replications, found.growth
    groups: dict[str, dict[str, GroupFound]] = {}
    for (by, name), accounts in slices(prepared, {*fleet.jobs}).items():
        groups.setdefault(by, {})[name] = _group(fleet, accounts, found.metrics, by, name)
    return FleetFound(
        gpus=fleet.gpus,
        jobs=float(fleet.job_sum("submitted_job").sum()) / count,
        owned_gpu_s=float(fleet.owned.sum()) / count,
        intervals=found.intervals,
        batches=found.batches,
        correlated=found.correlated,
        growth=None
        if growth is None
        else QueueGrowth(
            gpus_per_day=growth.rate * DAY,
            ci95=(growth.ci95[0] * DAY, growth.ci95[1] * DAY),
            saturated=growth.is_saturated,
        ),
        outcomes={
            name: EndsFound(jobs=jobs / count, gpu_s=gpu_s / count)
            for place, name in enumerate(OUTCOMES)
            for jobs, gpu_s in [sum((row for key, row in fleet.outcomes.items() if key[1] == place), np.zeros(2))]
            if jobs
        },
        single_jobs=_single_jobs(fleet, list(fleet.jobs)),
        by=groups,
        ledger=_ledger(fleet),
        stops=_stops(fleet),
        windows=[
            FleetWindow(
                start_s=float(fleet.edges[place]),
                end_s=float(fleet.edges[place + 1]),
                **{
                    name: float(fleet.level(name)[place] / seconds)
                    for name in ("allocated", "healthy", "queued_gpus", "queued_jobs")
                },
            )
            for place, seconds in enumerate(fleet.seconds.tolist())
            if seconds
        ],
    )


def _group(
    fleet: FleetResult, accounts: Sequence[FleetAccount], metrics: Mapping[str, Summary], by: str, name: str
) -> GroupFound:
    count, mine = fleet.replications, {}
    for key, summary in metrics.items():
        part = Slice.parse(key)
        if part is not None and (part.by, part.group) == (by, name):
            mine[part._replace(by="", group="").name] = summary
    return GroupFound(
        jobs=float(fleet.job_sum("submitted_job", accounts).sum()) / count,
        gpu_s=float(fleet.job_sum("submitted_gpu_time", accounts).sum()) / count,
        metrics=mine,
        single_jobs=_single_jobs(fleet, accounts),
    )


def _single_jobs(fleet: FleetResult, accounts: Sequence[FleetAccount]) -> dict[str, OfJobs]:
    return {name: OfJobs(**found) for name, found in quantiles(fleet, accounts).items()}


def _cause(fleet: FleetResult, bucket: int, cause: int) -> str:
    return IDLE[cause] if bucket == Bucket.UNALLOCATED else fleet.causes[cause]


def _ledger(fleet: FleetResult) -> list[LedgerRow]:
    """Return the ledger over all accounts and windows, in the order of the buckets, the largest first."""
    sums: dict[tuple[int, str, str], float] = {}
    for key, row in fleet.ledger.items():
        place = key.bucket, _cause(fleet, key.bucket, key.cause), VIAS[key.via]
        sums[place] = sums.get(place, 0.0) + float(row.sum()) / fleet.replications
    return [
        LedgerRow(bucket=CLUSTER_BUCKETS[bucket], cause=cause, via=via, gpu_s=amount)
        for (bucket, cause, via), amount in sorted(sums.items(), key=lambda item: (item[0][0], -item[1]))
        if amount
    ]


def _stops(fleet: FleetResult) -> list[StopsFound]:
    """Return stops by size, cause, via and size of who took the nodes."""
    sums: dict[tuple[int, int, int, int], npt.NDArray[np.float64]] = {}
    for key, rows in fleet.stops.items():
        place = key.account.size, key.via, key.cause, key.by
        sums[place] = sums.get(place, np.zeros(3)) + rows.sum(axis=0) / fleet.replications
    return [
        StopsFound(
            size=size,
            cause=fleet.causes[cause],
            via=VIAS[via],
            by=by if by > 0 else None,
            stops=stops,
            gpus=gpus,
            lost_gpu_s=lost,
        )
        for (size, via, cause, by), (stops, gpus, lost) in sorted(sums.items())
        if stops
    ]


def interval_method(found: FleetFound, replications: int, warmup: str) -> str:
    """Return what intervals are made of, in words; empty where there is none."""
    of = number_of(replications, "replication")
    if found.intervals == "batch means":
        few = f"; where neighbouring batches are too alike, by {of}" if found.correlated and replications > 1 else ""
        return f"Intervals by batch means, {found.batches} batches of {of}{few}; after a warm-up of {warmup}."
    return f"Intervals by {of}, each after a warm-up of {warmup}." if found.intervals == "replications" else ""


_MOST_NAMED = 4


def fleet_notes(found: FleetFound, replications: int) -> Iterator[str]:
    """Yield what a reader must know of the numbers of a fleet."""
    growth = found.growth
    if growth is not None and growth.saturated:
        low, high = growth.ci95
        yield (
            f"the queue grows by {growth.gpus_per_day:,.3g} GPUs a day [{low:,.3g}, {high:,.3g}] to the end: more work "
            "arrives than the cluster does, so waits, slowdowns and ETTR with the queue have no long-run mean"
        )
    if found.intervals == "none":
        yield f"no intervals: they take {FEWEST_REPLICATIONS} replications, or {BATCHES} windows of time"
    if found.correlated and replications == 1:
        named = [METRICS[name].label for name in found.correlated[:_MOST_NAMED]]
        more = len(found.correlated) - len(named)
        names = ", ".join(named) + (f" and {number_of(more, 'other metric')}" if more else "")
        yield f"no interval of {names}: neighbouring batches are too alike; simulate longer, or more often"
    unfinished = sum(found.outcomes[name].jobs for name in ("running", "waiting") if name in found.outcomes)
    if unfinished:
        yield (
            f"{count_text(unfinished)} of {count_text(found.jobs)} jobs were unfinished at the end: they have no JCT, "
            "total wait or slowdown"
        )


# ----------------------------------------
# Tidy tables: long form, one row for each number.


def _metrics_table(ensemble: Ensemble, document: RunDocument) -> Iterator[Sequence[object]]:
    assert document.fleet is not None, "a run with streams"
    metrics = dict(document.metrics)
    for by, groups in document.fleet.by.items():
        for group, found in groups.items():
            for key, summary in found.metrics.items():
                whole = Slice.parse(key) or Slice(key)
                metrics[whole._replace(by=by, group=group).name] = summary
    yield (
        "variant", "replication", "kind", "workload", "by", "group", "weight", "metric", "unit", "basis", "amount",
        "base", "mean", "lo95", "hi95", "p05", "p50", "p95", "n",
    )  # fmt: skip
    for name in (name for name in metrics if name in METRICS):
        metric, part = METRICS[name], Slice.parse(name) or Slice(name)
        kind = "cluster" if metric.of == "cluster" else "stream"
        workload = part.group if part.by == "stream" else ""
        whose = ("", "", part.by, part.group, part.weight, part.metric, metric.unit, "simulated")
        amount = base = 0.0
        for place, row in enumerate(ensemble.rows):
            ratio = row[name]
            amount, base = amount + ratio.amount, base + ratio.base
            mean = ratio.amount / ratio.base if ratio.base else ""
            yield ("", place, kind, workload, *whose[2:], ratio.amount, ratio.base, mean, *[""] * 5, 1)
        summary = metrics[name]
        low, high = summary.mean_ci95 or ("", "")
        spread = (_blank(summary.p05), _blank(summary.p50), _blank(summary.p95))
        pooled = (amount, base, _blank(summary.mean), low, high, *spread, len(ensemble.rows))
        yield ("", -1, kind, workload, *whose[2:], *pooled)


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _ledger_table(ensemble: Ensemble, _: RunDocument) -> Iterator[Sequence[object]]:
    prepared, fleet = ensemble.prepared, ensemble.tally.fleet
    assert fleet is not None, "a run with streams"
    yield ("variant", "replication", "t0", "t1", "account", *BY, "bucket", "cause", "via", "gpu_s")
    for key, row in fleet.ledger.items():
        groups = [""] * len(BY) if key.account == CLUSTER else [group_of(prepared, by, key.account) for by in BY]
        account = "cluster" if key.account == CLUSTER else "/".join(groups)
        what = CLUSTER_BUCKETS[key.bucket], _cause(fleet, key.bucket, key.cause), VIAS[key.via]
        for place in np.flatnonzero(row).tolist():
            edges = fleet.edges[place : place + 2].tolist()
            yield ("", -1, *edges, account, *groups, *what, float(row[place]))


def _series_table(ensemble: Ensemble, _: RunDocument) -> Iterator[Sequence[object]]:
    fleet = ensemble.tally.fleet
    assert fleet is not None, "a run with streams"
    yield ("variant", "replication", "t0", "t1", "entity", "quantity", "value")
    for place in np.flatnonzero(fleet.seconds).tolist():
        for name in ("allocated", "healthy", "queued_gpus", "queued_jobs"):
            value = float(fleet.level(name)[place] / fleet.seconds[place])
            yield ("", -1, *fleet.edges[place : place + 2].tolist(), "cluster", name, value)


def _attempts_table(ensemble: Ensemble, _: RunDocument) -> Iterator[Sequence[object]]:
    prepared = ensemble.prepared
    causes = [NO_FAILURE, *(source.name for source in prepared.sources), *ROOTS]
    yield ("replication", "stream", "job", "gpus", "submit", "start", "end", "state", "root", "via", "lost")
    for result in ensemble.results:
        for one in result.attempts:
            times = one.submit, one.start, one.end
            cause = causes[one.cause], VIAS[one.via]
            name = prepared.streams[one.stream].name
            yield (result.replication, name, one.job, one.gpus, *times, one.state, *cause, one.lost)


def _jobs_table(ensemble: Ensemble, _: RunDocument) -> Iterator[Sequence[object]]:
    """Yield a row for each job that was submitted after the warm-up and is over; a stream reads these columns."""
    yield ("replication", "job", "stream", "gpus", "submit", "start", "end", "run", "attempts", "preemptions", "state")
    for result in ensemble.results:
        jobs: dict[tuple[int, int], list[Attempt]] = {}
        for attempt in result.attempts:
            jobs.setdefault((attempt.stream, attempt.job), []).append(attempt)
        for (stream, number), tries in sorted(jobs.items()):
            first, last = tries[0], tries[-1]
            if last.state in _OVER and first.submit >= 0:
                name = ensemble.prepared.streams[stream].name
                run = sum(one.end - one.start for one in tries)
                preemptions = sum(one.state == "preempted" for one in tries)
                yield (
                    result.replication, f"{name}-{number}", name, first.gpus, first.submit, first.start, last.end, run,
                    len(tries), preemptions, last.state,
                )  # fmt: skip


_OVER = frozenset({"completed", "failed", "cancelled", "timeout"})

OF_SINGLE_JOBS = frozenset({"attempts", "jobs"})
"""Tables that take every attempt of every job."""

TABLES: Mapping[str, Callable[[Ensemble, RunDocument], Iterator[Sequence[object]]]] = {
    "metrics": _metrics_table,
    "ledger": _ledger_table,
    "series": _series_table,
    "attempts": _attempts_table,
    "jobs": _jobs_table,
}
"""Tidy tables of a run with streams by name; replication −1 is all of them together."""


def table_csv(name: str, ensemble: Ensemble, document: RunDocument) -> str:
    """Return a tidy table of a run with streams as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(TABLES[name](ensemble, document))
    return text.getvalue()
