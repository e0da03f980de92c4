"""The streams of jobs in the document of a run, and the same as tidy tables."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis import parts
from ettrick.analysis.amounts import between, count_text, number_of, ranges, short_text
from ettrick.analysis.fleet import (
    BATCHES,
    FEWEST_REPLICATIONS,
    QueueLine,
    are_correlated,
    batches,
    fleet_ratios,
    group_of,
    quantiles,
    slices,
    tenant_shares,
)
from ettrick.analysis.metrics import BY, METRICS, WEIGHTED, Slice, metrics_of
from ettrick.analysis.results import models
from ettrick.analysis.results.files import csv_text
from ettrick.analysis.statistics.estimates import contributions, rate, ratio_interval, t_quantile, with_width
from ettrick.analysis.statistics.intervals import possible, widened
from ettrick.sim import (
    CLUSTER,
    CLUSTER_BUCKETS,
    IDLE,
    NAMED,
    NO_FAILURE,
    OUTCOMES,
    ROOTS,
    SERVICE_SUMS,
    Bucket,
)
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.analysis.metrics import Weight
    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.sim import (
        Attempt,
        FleetAccount,
        FleetResult,
        Prepared,
        PreparedService,
        PreparedStream,
        Ratio,
        ServicePlan,
    )
    from ettrick.sim.scenario.streams import Arrival

VIAS = ("direct", "preemption")


class Settled(NamedTuple):
    """The metrics of a fleet with the intervals that the data support, and how these were made."""

    metrics: dict[str, parts.MetricSummary]  # all of them, those of slices too
    # intervals, batches, correlated: as in `FleetSummary`
    intervals: str
    batches: int
    correlated: list[str]
    growth: models.QueueGrowth | None  # of the queue; ``None`` where it is not known


def settled(ensemble: Ensemble, metrics: Mapping[str, parts.MetricSummary]) -> Settled:
    """Return the metrics of a run with streams, given those whose intervals are of its replications.

    Of few replications intervals are those of batch means. Where the queue grows without end, what depends on it has no
    mean: it would be one of the horizon.
    """
    growth = growth_of(ensemble.queues)
    summaries, batch_count, intervals = dict(metrics), 0, "replications"
    correlated: list[str] = []
    if len(ensemble.rows) < FEWEST_REPLICATIONS:
        rows = batches(ensemble.prepared, ensemble.first_fleets)
        batch_count = len(rows) if len(rows) >= BATCHES * len(ensemble.first_fleets) else 0
        intervals = "batch means" if batch_count else "none"
        changed, correlated = _by_batch_means(ensemble, metrics, rows[:batch_count])
        summaries |= changed
    for name, summary in summaries.items():
        part = Slice.parse(name) or Slice(name)
        # Below a node one failure stops several jobs at once: these are no independent events.
        if (part.metric, part.by) == ("mttf", "size") and part.least >= ensemble.prepared.gpus_per_node:
            summaries[name] = _by_gamma(summary, _ratios_of(ensemble, name))
    if growth is not None and growth.saturated:
        empty = parts.MetricSummary(mean=None, mean_ci95=None)
        summaries = {name: empty if METRICS[name].is_of_queue else summary for name, summary in summaries.items()}
    return Settled(summaries, intervals, batch_count, correlated, growth)


def _by_batch_means(
    ensemble: Ensemble, metrics: Mapping[str, parts.MetricSummary], rows: Sequence[Mapping[str, Ratio]]
) -> tuple[dict[str, parts.MetricSummary], list[str]]:
    """Return the metrics that get their interval from batches, and those whose neighbouring batches are too alike.

    Few replications are few, but they are independent: of several, what batches do not tell keeps its interval.
    """
    prepared = ensemble.prepared
    single = _of_single_jobs(prepared, ensemble.first_fleets[0])
    changed, correlated = {}, []
    for name in fleet_ratios(prepared, ensemble.first_fleets[0]):
        if name not in metrics or name == "fairness":  # of few jobs shares are less even than of many
            continue
        ratios = [] if name in single else [row[name] for row in rows if name in row]
        interval = _of_batches(ratios)
        if interval is None and "@" not in name and _has_spread(ratios):
            correlated.append(name)
        if interval is not None or len(ensemble.rows) == 1:
            changed[name] = _with_interval(ensemble, name, metrics[name], interval)
    return changed, correlated


def _with_interval(
    ensemble: Ensemble, name: str, summary: parts.MetricSummary, interval: tuple[float, float] | None
) -> parts.MetricSummary:
    """Return a summary with the interval of batch means, or without one."""
    if summary.mean is not None:
        interval = widened(summary.mean, interval, _ratios_of(ensemble, name), name)
    method = None if interval is None else "batch means"
    return summary.model_copy(update={"mean_ci95": possible(name, interval), "method": method})


def _ratios_of(ensemble: Ensemble, name: str) -> list[Ratio]:
    return [row[name] for row in ensemble.rows if name in row]


_BY_TIME: tuple[tuple[str, Weight], ...] = (
    *((name, "job") for name in ("ettr", "ettr_no_queue", "ettr_above_90", "mttf")),
    *((name, "gpu_time") for name in WEIGHTED),
)


def _of_single_jobs(prepared: Prepared, fleet: FleetResult) -> set[str]:
    """Return the metrics that weigh jobs by their time, of jobs with named ones: those are in one batch each."""
    groups = {("", ""): [*fleet.jobs], **slices(prepared, fleet.jobs)}
    return {
        Slice(metric, by, group, weight).name
        for (by, group), accounts in groups.items()
        if any(account.stream >= NAMED for account in accounts)
        for metric, weight in _BY_TIME
    }


def growth_of(lines: Sequence[QueueLine]) -> models.QueueGrowth | None:
    """Return how fast the queue grew in some replications; ``None`` without any.

    The error of the slope is that of the mean queue, if it wandered. Of `FEWEST_REPLICATIONS` or more it is that of
    their slopes, where that is larger.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 9.5 (means of a queue that does not settle).
    """
    if not lines:
        return None
    count = min(len(line.queue) for line in lines)
    mean = QueueLine(lines[0].time[:count], np.mean([line.queue[:count] for line in lines], axis=0), lines[0].seconds)
    rate, errors = mean.slope(), [mean.wandering()]
    if len(lines) >= FEWEST_REPLICATIONS:
        slopes = np.array([line.slope() for line in lines])
        errors.append((float(slopes.std(ddof=1)) / math.sqrt(len(lines)), len(lines) - 1.0))

    def reach(confidence: float) -> float:
        return max(t_quantile(confidence, freedom) * error for error, freedom in errors)

    later = mean.second_half
    goes_on = later.slope() * later.seconds > 0.2 * float(later.queue.mean())
    # One-sided, 98 % to both sides are 99 %.
    return models.QueueGrowth(
        gpus_per_day=rate * DAY,
        ci95=with_width(((rate - reach(0.95)) * DAY, (rate + reach(0.95)) * DAY)),
        saturated=goes_on and rate > reach(0.98),
    )


def _by_gamma(summary: parts.MetricSummary, ratios: Sequence[Ratio]) -> parts.MetricSummary:
    """Return an MTTF with the interval of a constant rate, of all its failures; few of them are no sample of means."""
    failures, seconds = sum(ratio.base for ratio in ratios), sum(ratio.amount for ratio in ratios)
    if not failures or not seconds:
        return summary
    frequency = rate(failures, seconds)
    return summary.model_copy(update={"mean_ci95": (1 / frequency.high, 1 / frequency.low), "method": "gamma"})


def _of_batches(ratios: Sequence[Ratio]) -> tuple[float, float] | None:
    values = contributions(ratios)
    if values is None or len(values) < BATCHES or np.all(values == values[0]) or are_correlated(values):
        return None
    interval = ratio_interval([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    return None if interval is None else interval[1:]


def _has_spread(ratios: Sequence[Ratio]) -> bool:
    values = contributions(ratios)
    return values is not None and len(values) >= BATCHES and bool(np.any(values != values[0]))


def describe_fleet(ensemble: Ensemble, estimates: Settled) -> models.FleetSummary:
    """Return the part of a document that is about streams of jobs."""
    prepared, fleet = ensemble.prepared, ensemble.fleet
    count = fleet.replications
    groups: dict[str, dict[str, models.GroupSummary]] = {}
    metrics: defaultdict[tuple[str, str], dict[str, parts.MetricSummary]] = defaultdict(dict)
    for key, summary in estimates.metrics.items():
        if (part := Slice.parse(key)) is not None:
            metrics[part.by, part.group][part._replace(by="", group="").name] = summary
    for (by, name), accounts in slices(prepared, {*fleet.jobs}).items():
        groups.setdefault(by, {})[name] = _group(prepared, fleet, accounts, metrics[by, name], by)
    return models.FleetSummary(
        gpus=fleet.gpus,
        jobs=float(fleet.job_sum("submitted_job").sum()) / count,
        owned_gpu_s=float(fleet.owned.sum()) / count,
        intervals=estimates.intervals,
        batches=estimates.batches,
        correlated=estimates.correlated,
        growth=estimates.growth,
        outcomes={
            name: models.EndsSummary(jobs=jobs / count, gpu_s=gpu_s / count)
            for place, name in enumerate(OUTCOMES)
            for jobs, gpu_s in [sum((row for key, row in fleet.outcomes.items() if key[1] == place), np.zeros(2))]
            if jobs
        },
        single_jobs=_single_jobs(fleet, list(fleet.jobs)),
        by=groups,
        ledger=_ledger(fleet),
        stops=_stops(fleet),
        tenants=_tenants(prepared, fleet),
        windows=[
            models.FleetWindow(
                start_s=float(fleet.edges[place]),
                end_s=float(fleet.edges[place + 1]),
                **{name: float(row[place] / seconds) for name, row in _series(fleet).items()},
            )
            for place, seconds in enumerate(fleet.seconds.tolist())
            if seconds
        ],
    )


def _series(fleet: FleetResult) -> dict[str, npt.NDArray[np.float64]]:
    """Return what there is of a fleet over time: integrals by window, shape (windows,) [GPU s or job s]."""
    levels = {name: fleet.level(name) for name in ("queued_gpus", "queued_jobs")}
    return {"allocated": fleet.allocated, "healthy": fleet.healthy, **levels}


def _group(
    prepared: Prepared,
    fleet: FleetResult,
    accounts: Sequence[FleetAccount],
    metrics: dict[str, parts.MetricSummary],
    by: str,
) -> models.GroupSummary:
    count = fleet.replications
    return models.GroupSummary(
        jobs=float(fleet.job_sum("submitted_job", accounts).sum()) / count,
        gpu_s=float(fleet.job_sum("submitted_gpu_time", accounts).sum()) / count,
        metrics=metrics,
        single_jobs=_single_jobs(fleet, accounts),
        longest_wait_s=max((fleet.longest[account] for account in accounts if account in fleet.longest), default=None),
        mttf_expected_s=_expected_mttf(prepared, fleet, accounts) if by == "size" else None,
    )


def _expected_mttf(prepared: Prepared, fleet: FleetResult, accounts: Sequence[FleetAccount]) -> float | None:
    """Return the time between failures by their laws, of the time that each stream ran in a class of sizes [s]."""
    failures = seconds = 0.0
    for account in (account for account in accounts if account.stream < NAMED):
        stream, run = prepared.streams[account.stream], float(fleet.job_sum("run", [account]).sum())
        chances = {gpus: chance for gpus, chance in stream.gpus.items() if account.size <= gpus < 2 * account.size}
        mean = sum(chance / stream.mttf[gpus] for gpus, chance in chances.items()) / sum(chances.values())
        failures, seconds = failures + run * mean, seconds + run
    return seconds / failures if failures else None


def _tenants(prepared: Prepared, fleet: FleetResult) -> dict[str, models.TenantSummary]:
    if len(prepared.tenants) < 2:
        return {}
    buckets: dict[FleetAccount, npt.NDArray[np.float64]] = {}
    for key, row in fleet.ledger.items():
        buckets.setdefault(key.account, np.zeros(len(Bucket)))[key.bucket] += row.sum()
    shares = zip(prepared.tenants, tenant_shares(prepared, buckets), strict=True)
    return {
        tenant.name: models.TenantSummary(held_share=allocated, entitled_share=entitled)
        for tenant, (allocated, entitled) in shares
    }


def _single_jobs(fleet: FleetResult, accounts: Sequence[FleetAccount]) -> dict[str, models.JobDistribution]:
    return {name: models.JobDistribution(**distribution) for name, distribution in quantiles(fleet, accounts).items()}


def _cause(fleet: FleetResult, bucket: int, cause: int) -> str:
    return IDLE[cause] if bucket == Bucket.UNALLOCATED else fleet.causes[cause]


def _ledger(fleet: FleetResult) -> list[models.LedgerRow]:
    sums: dict[tuple[int, str, str], float] = {}
    for key, row in fleet.ledger.items():
        place = key.bucket, _cause(fleet, key.bucket, key.cause), VIAS[key.via]
        sums[place] = sums.get(place, 0.0) + float(row.sum()) / fleet.replications
    return [
        models.LedgerRow(bucket=CLUSTER_BUCKETS[bucket], cause=cause, via=via, gpu_s=amount)
        for (bucket, cause, via), amount in sorted(sums.items(), key=lambda item: (item[0][0], -item[1]))
        if amount
    ]


def _stops(fleet: FleetResult) -> list[models.StopsSummary]:
    sums: dict[tuple[int, int, int, int], npt.NDArray[np.float64]] = {}
    for key, rows in fleet.stops.items():
        place = key.account.size, key.via, key.cause, key.by
        sums[place] = sums.get(place, np.zeros(3)) + rows.sum(axis=0) / fleet.replications
    return [
        models.StopsSummary(
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


def describe_services(
    ensemble: Ensemble, metrics: Mapping[str, parts.MetricSummary]
) -> dict[str, models.ServiceSummary]:
    """Return the part of a document that is about services."""
    prepared, fleet = ensemble.prepared, ensemble.fleet
    summaries, several = {}, len(prepared.services) > 1
    for plan, service in zip(prepared.services, sim.services_of(prepared), strict=True):
        sums = dict(zip(SERVICE_SUMS, (fleet.services[plan.index] / fleet.replications).T, strict=True))
        amount = {name: float(row.sum()) for name, row in sums.items()}
        requests = {name: amount[name] for name in ("offered", "in_slo", "rejected", "failed", "moved", "waiting")}
        keys = {name: Slice(name, "service", plan.name).name if several else name for name in metrics_of("service")}
        summaries[plan.name] = models.ServiceSummary(
            replicas=plan.replicas,
            gpus=plan.gpus,
            capacity_per_s=plan.capacity,
            metrics={name: metrics[key] for name, key in keys.items() if key in metrics},
            requests={**requests, "late": max(amount["served"] - amount["in_slo"], 0.0)},
            stops=amount["stops"],
            in_flight=amount["in_flight"] / amount["stops"] if amount["stops"] else None,
            tokens_lost=amount["tokens_lost"],
            recomputed_s=amount["recomputed"],
            closed_form=_standing(plan, service),
            windows=_service_windows(fleet, sums),
        )
    return summaries


def _standing(plan: ServicePlan, service: PreparedService) -> models.StandingSummary | None:
    """Return what a formula says of the replicas that stand; ``None`` where their number changes by itself."""
    if not (plan.scale is None and plan.upgrade is None and plan.readers is None):
        return None
    standing = service.standing()
    return models.StandingSummary(
        capacity_share=standing.share,
        all_serving=float(standing.pmf[-1]),
        capacity_availability=service.capacity_availability(),
    )


def _service_windows(fleet: FleetResult, sums: Mapping[str, npt.NDArray[np.float64]]) -> list[models.ServiceWindow]:
    """Return what a service did over time, by window."""
    offered, seconds = sums["offered"], sums["seconds"]
    return [
        models.ServiceWindow(
            start_s=float(fleet.edges[index]),
            end_s=float(fleet.edges[index + 1]),
            demand_per_s=float(offered[index] / seconds[index]),
            capacity_per_s=float(sums["capacity"][index] / seconds[index]),
            replicas=float(sums["replicas"][index] / seconds[index]),
            slo_attainment=float(sums["in_slo"][index] / offered[index]) if offered[index] > 0 else None,
        )
        for index in np.flatnonzero(seconds).tolist()
    ]


def interval_method(summary: models.FleetSummary, replications: int, warmup: str) -> str:
    """Return what intervals are made of, in words; empty where there is none."""
    of = number_of(replications, "replication")
    if summary.intervals == "batch means":
        few = f"; where adjacent batches are too correlated, by {of}" if summary.correlated and replications > 1 else ""
        return f"Intervals by batch means, {summary.batches} batches of {of}{few}; after a warm-up of {warmup}."
    return f"Intervals by {of}, each after a warm-up of {warmup}." if summary.intervals == "replications" else ""


_MOST_NAMED = 4


def fleet_notes(summary: models.FleetSummary, replications: int) -> Iterator[str]:
    """Yield what a reader must know of the numbers of a fleet."""
    growth = summary.growth
    if growth is not None and growth.saturated:
        low, high = growth.ci95 or (growth.gpus_per_day, growth.gpus_per_day)
        yield (
            f"the queue grows by {short_text(growth.gpus_per_day)} GPUs a day"
            f"{between(short_text(low), short_text(high))} "
            "to the end: more work arrives than the cluster does, so waits, slowdowns and ETTR with the queue have no "
            "long-run mean"
        )
    if summary.intervals == "none":
        yield f"no intervals: they take {FEWEST_REPLICATIONS} replications, or {BATCHES} windows of time"
    if summary.correlated and replications == 1:
        named = [METRICS[name].label for name in summary.correlated[:_MOST_NAMED]]
        more = len(summary.correlated) - len(named)
        names = ", ".join(named) + (f" and {number_of(more, 'other metric')}" if more else "")
        yield f"no interval of {names}: adjacent batches are too correlated; simulate longer, or more often"
    unfinished = sum(summary.outcomes[name].jobs for name in ("running", "waiting") if name in summary.outcomes)
    if unfinished:
        yield (
            f"{count_text(unfinished)} of {count_text(summary.jobs)} jobs were unfinished at the end: they have no "
            "JCT, total wait or slowdown"
        )


# ----------------------------------------
# Tidy tables: long form, one row for each number.


def _metrics_table(ensemble: Ensemble, document: models.RunDocument) -> Iterator[Sequence[object]]:
    metrics = dict(document.metrics)
    for by, groups in document.fleet.by.items():
        for group, group_summary in groups.items():
            for key, summary in group_summary.metrics.items():
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
        labels = (kind, workload, part.by, part.group, part.weight, part.metric, metric.unit, "simulated")
        amount = base = 0.0
        for place, row in enumerate(ensemble.rows):
            ratio = row[name]
            amount, base = amount + ratio.amount, base + ratio.base
            mean = ratio.amount / ratio.base if ratio.base else ""
            yield ("", place, *labels, ratio.amount, ratio.base, mean, *[""] * 5, 1)
        summary = metrics[name]
        low, high = summary.mean_ci95 or ("", "")
        spread = (_blank(summary.p05), _blank(summary.p50), _blank(summary.p95))
        pooled = (amount, base, _blank(summary.mean), low, high, *spread, len(ensemble.rows))
        yield ("", -1, *labels, *pooled)


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _ledger_table(ensemble: Ensemble, _: models.RunDocument) -> Iterator[Sequence[object]]:
    prepared, fleet = ensemble.prepared, ensemble.fleet
    yield ("variant", "replication", "t0", "t1", "account", *BY, "bucket", "cause", "via", "gpu_s")
    for key, row in fleet.ledger.items():
        groups = [""] * len(BY) if key.account == CLUSTER else [group_of(prepared, by, key.account) for by in BY]
        account = "cluster" if key.account == CLUSTER else "/".join(groups)
        what = CLUSTER_BUCKETS[key.bucket], _cause(fleet, key.bucket, key.cause), VIAS[key.via]
        for place in np.flatnonzero(row).tolist():
            edges = fleet.edges[place : place + 2].tolist()
            yield ("", -1, *edges, account, *groups, *what, float(row[place]))


def _series_table(ensemble: Ensemble, _: models.RunDocument) -> Iterator[Sequence[object]]:
    prepared, fleet = ensemble.prepared, ensemble.fleet
    yield ("variant", "replication", "t0", "t1", "entity", "quantity", "value")
    rows = {("cluster", name): row for name, row in _series(fleet).items()}
    for key, spent in fleet.ledger.items() if len(prepared.tenants) > 1 else ():
        if key.account != CLUSTER:
            name = "queued_gpus" if key.bucket == Bucket.QUEUED else "allocated"
            place = f"tenant {prepared.tenants[key.account.tenant].name}", name
            rows[place] = rows.get(place, np.zeros(len(spent))) + spent
    for window in np.flatnonzero(fleet.seconds).tolist():
        for place, values in rows.items():
            value = float(values[window] / fleet.seconds[window])
            yield ("", -1, *fleet.edges[window : window + 2].tolist(), *place, value)


def _attempts_table(ensemble: Ensemble, _: models.RunDocument) -> Iterator[Sequence[object]]:
    """Yield a row for each stretch in which a job had nodes; `nodes` after a change follow a semicolon."""
    prepared = ensemble.prepared
    causes = [NO_FAILURE, *(source.name for source in prepared.sources), *ROOTS]
    yield ("replication", "stream", "job", "gpus", "submit", "start", "end", "state", "root", "via", "lost", "nodes")
    for result in ensemble.results:
        for attempt in result.attempts:
            times = attempt.submit, attempt.start, attempt.end
            job = prepared.streams[attempt.stream].name, attempt.job, attempt.gpus
            cause = causes[attempt.cause], VIAS[attempt.via]
            nodes = ";".join(ranges(numbers) for numbers in attempt.nodes)
            yield (result.replication, *job, *times, attempt.state, *cause, attempt.lost, nodes)


def _jobs_table(ensemble: Ensemble, _: models.RunDocument) -> Iterator[Sequence[object]]:
    """Yield a row for each job that was submitted after the warm-up; a stream reads these columns, but for the first.

    `eligible` is when it last entered the queue, `run` how long it had nodes in all, `lost` what work stops undid [s].
    """
    yield (
        "replication", "job", "stream", "tenant", "partition", "priority", "gpus", "nodes", "submit", "eligible",
        "start", "end", "run", "limit", "attempts", "preemptions", "lost", "state",
    )  # fmt: skip
    prepared = ensemble.prepared
    for result in ensemble.results:
        attempts: dict[tuple[int, int], list[Attempt]] = {}
        for attempt in result.attempts:
            attempts.setdefault((attempt.stream, attempt.job), []).append(attempt)
        for stream in prepared.streams:
            for job, tries in _submitted(prepared, stream, result.replication, attempts):
                submit = tries[0].submit if tries else job.submit - prepared.warmup
                if submit >= 0:
                    yield (result.replication, *_job_row(prepared, stream, job, submit, tries))


def _submitted(
    prepared: Prepared, stream: PreparedStream, replication: int, attempts: Mapping[tuple[int, int], Sequence[Attempt]]
) -> Iterator[tuple[Arrival, Sequence[Attempt]]]:
    """Yield the jobs of a stream with their attempts; of a backlog without end those that have started."""
    last_started = max((number for index, number in attempts if index == stream.index), default=-1)
    for job in stream.arrivals(prepared.seed, replication, prepared.warmup + prepared.horizon):
        tries = attempts.get((stream.index, job.number), ())
        if stream.pending and job.number > last_started:
            return
        if tries or not stream.pending:
            yield job, tries


def _job_row(
    prepared: Prepared, stream: PreparedStream, job: Arrival, submit: float, tries: Sequence[Attempt]
) -> tuple[object, ...]:
    """Return the columns of a job but for its replication."""
    states = [attempt.state for attempt in tries]
    state = _last_state(prepared, stream, states)
    # What stopped it before it last entered the queue.
    stopped = tries[-1:] if state == "pending" else tries[-2:-1]
    eligible = submit
    for attempt in stopped:
        eligible = attempt.end + (0.0 if attempt.state == "timeout" else prepared.scheduler.requeue.delay)
    tenant, partition = (group_of(prepared, by, job) for by in ("tenant", "partition"))
    return (
        f"{stream.name}-{job.number}",
        stream.name,
        "" if tenant == "default" else tenant,
        partition if prepared.scenario.partitions else "",
        job.priority,
        job.gpus,
        -(-job.gpus // prepared.gpus_per_node),
        submit,
        eligible,
        tries[0].start if tries else "",
        "" if state in ("pending", "running") else tries[-1].end,
        sum(attempt.end - attempt.start for attempt in tries),
        job.limit if math.isfinite(job.limit) else "",
        len(tries),
        states.count("preempted"),
        sum(attempt.lost for attempt in tries),
        state,
    )


def _last_state(prepared: Prepared, stream: PreparedStream, states: Sequence[str]) -> str:
    """Return the state of a job by those of its attempts: pending before the first one, and where it queues again."""
    requeued = {"node_fail", *(["preempted"] if prepared.scheduler.preempt.mode != "cancel" else [])}
    if stream.chain is not None:
        requeued.add("timeout")
    return "pending" if not states or states[-1] in requeued else states[-1]


OF_SINGLE_JOBS = frozenset({"attempts", "jobs"})  # tables that take every attempt of every job

# Tidy tables of a run with streams by name; replication −1 is all of them together.
TABLES: Mapping[str, Callable[[Ensemble, models.RunDocument], Iterator[Sequence[object]]]] = {
    "metrics": _metrics_table,
    "ledger": _ledger_table,
    "series": _series_table,
    "attempts": _attempts_table,
    "jobs": _jobs_table,
}


def table_csv(name: str, ensemble: Ensemble, document: models.RunDocument) -> str:
    """Return a tidy table of a run with streams as CSV."""
    return csv_text(TABLES[name](ensemble, document))
