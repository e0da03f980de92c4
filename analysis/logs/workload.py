"""The jobs of a site: its history to replay, streams fitted to it, and waits and occupancy of both against measured.

What a job ran is taken as it was recorded, all of its attempts together: what failures took of it is in there already.
So a replay of the history takes nodes away as they were, and moves their jobs at no cost. A failure must not take from
a recorded run a second time: where large jobs follow each other without a gap, such a queue grows without end.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.amounts import between, name_of, percent_text, ranges, time_text
from ettrick.analysis.logs import estimate
from ettrick.analysis.logs.estimate import SOME, Estimate
from ettrick.analysis.logs.events import attempts_of
from ettrick.analysis.logs.fit import duration, estimated
from ettrick.analysis.logs.tables import LoggedAttempt, utc
from ettrick.analysis.ratios import ratios
from ettrick.analysis.results.files import csv_text
from ettrick.analysis.results.fitted import BacktestSummary, Estimated, StreamSummary
from ettrick.analysis.statistics.estimates import t_quantile
from ettrick.sim.input.job_trace import read_jobs
from ettrick.sim.records import HostLists
from ettrick.sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.fit import FittedModel
    from ettrick.analysis.logs.slurm_conf import SlurmScenario
    from ettrick.analysis.logs.tables import Tables

    FloatArray = NDArray[np.float64]

FLEET, HISTORY, JOBS = "fleet.yaml", "history.yaml", "jobs.csv"

ENOUGH = 50
"""Jobs from which a class of sizes has a stream of its own, and a tenant its share [-]."""

WARM_UP = 0.05
"""Share of the history in which the simulated cluster fills."""

MOST_JOBS = 20_000
"""Jobs of a history that are replayed, the last ones, and half of those of all replications of the streams."""

REPLICATIONS = 16
"""The replications of the fitted streams; fewer where there are many jobs."""

BATCHES = 20

ROUND, POINT = 1 * MINUTE, 1e-3
"""Difference of two waits [s], and of two shares [-], that is none: passes of the scheduler are a minute apart."""

_FAILED = ("FAILED", "OUT_OF_MEMORY")
_CANCELLED = ("CANCELLED", "DEADLINE", "REVOKED")


@dataclass(slots=True)
class LoggedJob(LoggedAttempt):
    """A job with all of its attempts: its first one, with the run time of all and the end of the last."""

    attempts: int = 1
    preemptions: int = 0
    hosts: tuple[str, ...] = ()
    blamed: int = 0
    """Attempts that a node ended."""

    @property
    def has_ended(self) -> bool:
        """Whether it ran on GPUs, and no longer does."""
        return self.elapsed > 0 and self.gpus > 0 and not math.isnan(self.t_end)

    @property
    def outcome(self) -> str:
        """The end of the job: failed by itself, cancelled, or completed, as a job that a node ended would have."""
        if self.end_state in _FAILED and not self.blamed:
            return "failed"
        return "cancelled" if self.end_state in _CANCELLED else "completed"

    @property
    def wait(self) -> float:
        """From being eligible to the first start [s]."""
        return max(self.t_start - self.t_eligible, 0.0)


@dataclass(frozen=True)
class SiteWorkload:
    """The workload in the job records of a site.

    Parameters
    ----------
    chain
        Names of those that are one training job in pieces, each submitted after the last one ended.
    origin, begin, end
        First submission, and the window in which jobs are compared [s since 1970].
    """

    jobs: list[LoggedJob]
    chain: frozenset[str]
    origin: float
    begin: float
    end: float
    streams: list[StreamSummary]
    entries: list[dict[str, Any]]
    partitions: list[dict[str, Any]]
    scheduler: dict[str, Any]
    assumed: list[str]
    priority: dict[str, int]


def workload(fitted: FittedModel, tables: Tables, site: SlurmScenario | None = None) -> SiteWorkload | None:
    """Return what the job records say; ``None`` with too few jobs that ran."""
    history, per_node = fitted.history, fitted.document.gpus_per_node
    jobs = jobs_of(tables, per_node)
    ran = [job for job in jobs if job.has_ended]
    if len(ran) < SOME:
        return None
    origin, begin, end = _compared(jobs, ran)
    chain = _chain(ran, len(history.nodes) * per_node)
    assumed: list[str] = []
    partitions = _partitions(ran, chain, history, site, assumed, per_node)
    assumed += _assumed(ran, site)
    scheduler, priority = (dict(site.scheduler), site.priority) if site is not None else ({"use": "slurm"}, {})
    streams = _streams([job for job in ran if job.job not in chain], ran, partitions, priority, (origin, end))
    return SiteWorkload(
        jobs, frozenset(chain), origin, begin, end, [summary for _, summary in streams],
        [entry for entry, _ in streams], partitions, scheduler, assumed, priority,
    )  # fmt: skip


def _assumed(ran: Sequence[LoggedJob], site: SlurmScenario | None) -> list[str]:
    """Return what is taken for granted of the queue."""
    exact = "limit: exact, as no record has a time limit (TimelimitRaw): backfill knows every run time"
    assumed = {
        "the scheduler: the preset slurm; --slurm-conf FILE says more": site is None,
        exact: all(math.isnan(job.limit) for job in ran),
    }
    return [*(text for text, is_assumed in assumed.items() if is_assumed), *(site.assumed if site is not None else [])]


def _streams(
    jobs: Sequence[LoggedJob], ran: Sequence[LoggedJob], partitions: Sequence[Mapping[str, Any]],
    priority: Mapping[str, int], window: tuple[float, float],
) -> list[tuple[dict[str, Any], StreamSummary]]:  # fmt: skip
    """Return a stream for each partition and class of sizes, tenants numbered over all jobs that ran."""
    names, users = [entry["name"] for entry in partitions], Counter(job.user for job in ran)
    numbers = {user: f"tenant-{number}" for number, (user, _) in enumerate(users.most_common(), 1)}
    streams = []
    for partition, of_partition in _by(jobs, lambda job: job.partition).items():
        stated = {"priority": priority[partition]} if partition in priority else {}
        for band in _bands(of_partition):
            entry, summary = _stream(partition if partition in names else "", band, *window, numbers)
            streams.append(({**entry, **stated}, summary))
    return streams


def _compared(jobs: Sequence[LoggedJob], ran: Sequence[LoggedJob]) -> tuple[float, float, float]:
    """Return the first submission, and the window in which jobs are compared, in whole hours from it [s]."""
    submits = sorted(job.t_submit for job in jobs)
    origin, first, end = submits[0], min(job.t_start for job in ran), max(job.t_end for job in ran)
    begin = max(first, submits[-MOST_JOBS]) if len(jobs) > MOST_JOBS else first
    begin = origin + HOUR * math.ceil((begin + WARM_UP * (end - begin) - origin) / HOUR)
    return origin, begin, begin + HOUR * max((end - begin) // HOUR, 1)


# The table of jobs.


def jobs_of(tables: Tables, per_node: int) -> list[LoggedJob]:
    """Return all jobs in order of submission; GPUs by node where no record has any."""
    has_gpus = any(attempt.gpus for attempt in tables.attempts)
    jobs = (_job(name, runs, per_node, has_gpus=has_gpus) for name, runs in attempts_of(tables).items())
    return sorted((job for job in jobs if not math.isnan(job.t_submit)), key=lambda job: job.t_eligible)


def _job(name: str, runs: Sequence[LoggedAttempt], per_node: int, *, has_gpus: bool) -> LoggedJob:
    """Return a job of its runs, in order."""
    first, last = runs[0], runs[-1]
    submit = min((run.t_submit for run in runs if not math.isnan(run.t_submit)), default=first.t_start)
    eligible = submit if math.isnan(first.t_eligible) else max(first.t_eligible, submit)
    return LoggedJob(
        name, 0, "", first.node_count, first.gpus if has_gpus else first.node_count * per_node, submit,
        submit if first.t_start < eligible else eligible, first.t_start, last.t_end,
        sum(run.elapsed for run in runs if not math.isnan(run.elapsed)), last.end_state, first.user, first.partition,
        first.limit, file=Path(first.file).name, attempts=len(runs),
        preemptions=sum(run.end_state == "PREEMPTED" for run in runs),
        hosts=tuple(run.nodes for run in runs if run.nodes), blamed=sum(bool(run.blamed_node) for run in runs),
    )  # fmt: skip


def jobs_csv(jobs: Sequence[LoggedJob], priority: Mapping[str, int], origin: float = math.nan) -> str:
    """Return the table of jobs, as a stream replays it: times in seconds since an origin, or the first submission."""
    heads = "job stream tenant partition priority gpus nodes submit eligible start end run limit attempts preemptions"
    begin = min((job.t_submit for job in jobs), default=0.0) if math.isnan(origin) else origin

    def since(moment: float) -> str:
        return "" if math.isnan(moment) else f"{moment - begin:.0f}"

    rows = [
        [
            job.job, "", job.user, job.partition, priority.get(job.partition, ""), job.gpus, job.node_count,
            *map(since, (job.t_submit, job.t_eligible, job.t_start, job.t_end)),
            f"{job.elapsed:.0f}" if job.elapsed else "",
            "" if math.isnan(job.limit) or job.limit <= 0 else f"{job.limit:.0f}", job.attempts, job.preemptions, "",
            # One that never ran asks for nothing.
            job.end_state if job.elapsed or math.isnan(job.t_end) else "CANCELLED",
        ]
        for job in jobs
    ]  # fmt: skip
    return csv_text([[*heads.split(), "steps_lost", "state"], *rows])


# What is in it: one training job in pieces, partitions, and classes of jobs.


PAUSE = 6 * HOUR
"""Time between two runs of the training job beyond which it was not wanted [s]; assumed."""


def _chain(jobs: Sequence[LoggedJob], gpus: int) -> set[str]:
    """Return the names of jobs that are one training job in pieces; none where there is no such job.

    These are those of at least half the largest size, if they hardly overlap and run for most of the time, and are
    larger than most jobs, or than half of all GPUs.
    """
    largest = max(job.gpus for job in jobs)
    big = sorted((job for job in jobs if job.gpus >= largest / 2), key=lambda job: job.t_start)
    spans = [(job.t_start, job.t_end) for job in big]
    overlap = sum(max(before[1] - after[0], 0.0) for before, after in itertools.pairwise(spans))
    busy = sum(end - start for start, end in spans)
    window = max(job.t_end for job in jobs) - min(job.t_start for job in jobs)
    is_large = largest > min(np.median([job.gpus for job in jobs]), gpus / 2)
    is_one = is_large and overlap < 0.01 * busy and busy > 0.5 * window
    return {job.job for job in big} if is_one else set()


def _by(jobs: Iterable[LoggedJob], key: Callable[[LoggedJob], str]) -> dict[str, list[LoggedJob]]:
    """Return jobs by a property, that with most GPU-time first."""
    groups: dict[str, list[LoggedJob]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    return dict(sorted(groups.items(), key=lambda item: -sum(job.elapsed * job.gpus for job in item[1])))


def _partitions(
    jobs: Sequence[LoggedJob],
    chain: set[str],
    history: History,
    site: SlurmScenario | None,
    assumed: list[str],
    per_node: int,
) -> list[dict[str, Any]]:
    """Return partitions: as slurm.conf has them, else of the nodes that their jobs ran on; that of a chain first.

    One whose jobs did not fit into its nodes has all of them.
    """
    groups = {name: of_partition for name, of_partition in _by(jobs, lambda job: job.partition).items() if name}
    stated = {entry["name"]: entry for entry in site.partitions(history.nodes)} if site is not None else {}
    lacking = sorted(set(groups) - set(stated)) if site is not None else []
    if lacking:
        assumed.append(f"partitions that slurm.conf has no more, by the nodes of their jobs: {', '.join(lacking)}")
    entries = []
    for name in dict.fromkeys([*groups, *stated]):
        of_partition = groups.get(name, [])
        entry = dict(stated[name] if name in stated else {"name": name, **_used(of_partition, history)})
        largest = max((math.ceil(job.gpus / per_node) for job in of_partition), default=0)
        if "nodes" in entry and sum(map(_count, entry["nodes"].split(","))) < largest:
            assumed.append(f"partition {name} has all nodes: a job of its ran on {largest}")
            del entry["nodes"]
        entries.append(entry)
    with_chain = {job.partition for job in jobs if job.job in chain}
    return sorted(entries, key=lambda entry: entry["name"] not in with_chain)


def _used(jobs: Sequence[LoggedJob], history: History) -> dict[str, str]:
    """Return the key for the nodes on which some jobs ran; nothing if these are nearly all."""
    hosts, number, used = HostLists(), history.number, set[int]()
    for text in {text for job in jobs for text in job.hosts}:
        with contextlib.suppress(ValueError):
            used.update(number[node] for node in hosts.expand(text) if node in number)
    return {"nodes": ranges(sorted(used))} if used and len(used) < 0.95 * len(history.nodes) else {}


def _count(part: str) -> int:
    first, _, last = part.partition("-")
    return int(last or first) - int(first) + 1


def _bands(jobs: Sequence[LoggedJob]) -> list[list[LoggedJob]]:
    """Return jobs by size: classes of powers of two, neighbours together until each has enough."""
    classes = _by(jobs, lambda job: f"{job.gpus.bit_length():02}")
    bands: list[list[LoggedJob]] = []
    for _, band in sorted(classes.items()):
        if bands and len(bands[-1]) < ENOUGH:
            band = bands.pop() + band
        bands.append(band)
    if len(bands) > 1 and len(bands[-1]) < ENOUGH:
        bands[-2:] = [bands[-2] + bands[-1]]
    return bands


# A stream of jobs that are alike.


def _stream(
    partition: str, jobs: Sequence[LoggedJob], origin: float, end: float, numbers: Mapping[str, str]
) -> tuple[dict[str, Any], StreamSummary]:
    """Return a stream as a scenario states it, and what it rests on."""
    submits = np.sort(np.array([job.t_eligible for job in jobs])) - origin
    profile, factors = _profile(submits, end - origin)
    rate, spread = _rate(submits, end - origin, profile, factors)
    limit, limit_text = _limit(jobs)
    runs = _Runs.of(jobs, has_limits=limit != "exact")
    sizes = _sizes([job.gpus for job in jobs])
    low, high = min(sizes), max(sizes)
    name = "-".join(filter(None, [partition or "jobs", f"{low}", f"{high}" if high > low else ""]))
    shape = {"profile": {"every": f"{profile} d", "factors": factors}} if factors else {}
    per_day = f"{rate.value:.4g} per day"
    arrivals: dict[str, Any] = {"rate": per_day, **shape}
    if spread > 1:
        gap = {"use": "gamma", "shape": float(f"{1 / spread:.3g}"), "mean": duration(DAY / rate.value)}
        arrivals = {"use": "renewal", "gap": gap, **shape}
    entry: dict[str, Any] = {
        "name": name, "arrivals": arrivals,
        "gpus": low if low == high else {str(size): count for size, count in sizes.items()},
        "work": {"use": "lognormal", "median": duration(runs.median.value), "sigma": float(f"{runs.sigma.value:.4g}")},
        "limit": limit, "outcome": runs.outcomes, "restart": "0 s",
    }  # fmt: skip
    tenants = _tenants(jobs, numbers)
    entry |= {key: value for key, value in (("partition", partition), ("tenant", tenants)) if value}
    summary = StreamSummary(
        name=name, jobs=len(jobs), gpu_hours=sum(job.gpus * job.elapsed for job in jobs) / HOUR, partition=partition,
        gpus={str(size): count for size, count in sizes.items()}, days=(end - origin) / DAY,
        rate=estimated(rate), dispersion=spread, profile_days=profile,
        median_s=estimated(runs.median), sigma=estimated(runs.sigma), method=runs.method, outcomes=runs.counts,
        limit=limit_text, tenants=len(tenants), files=sorted({job.file for job in jobs}),
    )  # fmt: skip
    return entry, summary


def _profile(submits: FloatArray, length: float) -> tuple[int, list[float]]:
    """Return over how many days arrivals repeat, 0 for never, and the factors of its hours.

    Taken where a likelihood ratio, divided by the dispersion of the counts, is below 1 %; a week has to add to a day.
    """
    from scipy.stats import chi2

    best: tuple[int, list[float]] = (0, [])
    before, parts = 0.0, 1
    for days in (1, 7):
        hours, rounds = 24 * days, int(length // (days * DAY))
        inside = submits[submits < rounds * days * DAY]
        if rounds < 4 or len(inside) < 5 * hours:
            break
        counts = np.bincount((inside // HOUR).astype(int), minlength=rounds * hours).reshape(rounds, hours)
        mean = counts.mean(axis=0)
        residual = ((counts - mean) ** 2)[:, mean > 0] / mean[mean > 0]
        spread = max(float(residual.sum() / ((rounds - 1) * max((mean > 0).sum(), 1))), 1.0)
        total = counts.sum(axis=0)
        gain = 2 * float((total[total > 0] * np.log(total[total > 0] / total.mean())).sum())
        if chi2.sf((gain - before) / spread, hours - parts) < 0.01:
            best, before, parts = (days, [float(f"{x:.3g}") for x in mean / mean.mean()]), gain, hours
    return best


def _rate(submits: FloatArray, length: float, profile: int, factors: Sequence[float]) -> tuple[Estimate, float]:
    """Return arrivals per day, and the dispersion of daily counts [-]; 1 where a Poisson process explains them."""
    from scipy.stats import chi2

    days = int(length // DAY)
    spread = 1.0
    if days >= 8:
        counts = np.bincount((submits // DAY).astype(int), minlength=days + 1)[:days]
        weight = np.ones(days)
        if profile == 7:
            weight = np.array(factors).reshape(7, 24).mean(axis=1)[np.arange(days) % 7]
        statistic, _ = estimate.pearson(counts, weight)
        if chi2.sf(statistic, days - 1) < 0.01:
            spread = float(f"{statistic / (days - 1):.3g}")
    return estimate.rate(len(submits) / spread, length / DAY / spread), spread


def _limit(jobs: Sequence[LoggedJob]) -> tuple[Any, str]:
    """Return the time limit as a stream states it, and in words; `exact` where the records have none.

    One that half of the jobs have is that of all; else a factor of the run time, uniform with the measured median, and
    below 1 as often as jobs were ended by their limits.
    """
    limited = [job for job in jobs if not math.isnan(job.limit) and job.limit > 0]
    if len(limited) < 0.5 * len(jobs):
        return "exact", "not recorded"
    value, count = Counter(job.limit for job in limited).most_common(1)[0]
    factors = [job.limit / job.elapsed for job in limited if job.end_state == "COMPLETED" and job.elapsed >= 1]
    if count >= 0.5 * len(limited) or len(factors) < 5:
        return duration(value), f"{duration(value)} ({count} of {len(limited)})"
    middle = max(float(np.median(factors)), 1.0)
    killed = sum(job.end_state == "TIMEOUT" for job in limited) / len(limited)
    high = 2 * middle - 1
    low = max((1 - killed * high) / (1 - killed), 0.5) if killed < 1 else 1.0
    limit = {
        "factor": {"low": float(f"{min(low, high):.3g}"), "high": float(f"{max(high, low):.3g}")},
        "least": duration(min(job.limit for job in limited)), "most": duration(max(job.limit for job in limited)),
    }  # fmt: skip
    return limit, f"{middle:.3g} × run at the median, {percent_text(killed, 1)} ended by it"


def _sizes(gpus: Sequence[int]) -> dict[int, float]:
    """Return sizes with how many jobs have them; of very many sizes 40 quantiles."""
    counts = Counter(gpus)
    if len(counts) > 40:
        values = np.quantile(np.sort(gpus), (np.arange(40) + 0.5) / 40, method="nearest")
        counts = Counter(int(value) for value in values)
    return {size: float(count) for size, count in sorted(counts.items())}


def _tenants(jobs: Sequence[LoggedJob], numbers: Mapping[str, str]) -> dict[str, float]:
    """Return tenants with enough jobs and how many these are, all others together; nothing for a single one.

    They are numbered over all jobs: a scenario may leave the site, and names no user.
    """
    counts = Counter(job.user for job in jobs if job.user)
    large = {numbers[name]: float(count) for name, count in counts.most_common(20) if count >= ENOUGH}
    remainder = sum(counts.values()) - sum(large.values())
    return {**large, **({"others": remainder} if remainder else {})} if large and len(counts) > 1 else {}


class _Runs(NamedTuple):
    """The law of the work of jobs, how they end, and how many ended how."""

    median: Estimate
    sigma: Estimate
    outcomes: dict[str, float]
    counts: dict[str, int]
    method: str

    @classmethod
    def of(cls, jobs: Sequence[LoggedJob], *, has_limits: bool) -> _Runs:
        """Return the fit: of jobs that end early the run is a uniform part of the work, at a limit it is more."""
        kinds = np.array([_kind(job, has_limits) for job in jobs])
        times = np.array([max(job.elapsed, 1.0) for job in jobs])
        mu, sigma, errors = log_normal_work(times, kinds)
        early = float((kinds == EARLY).mean())
        method = "log-normal by maximum likelihood"
        modelled = math.exp(mu + sigma**2 / 2) * (1 - early / 2)
        measured = float(times.mean())
        if not 0.9 < modelled / measured < 1.1 and measured / (1 - early / 2) > math.exp(mu) * 1.005:
            sigma = math.sqrt(2 * (math.log(measured / (1 - early / 2)) - mu))
            method = "log-normal: median by maximum likelihood, sigma from the mean, which sets the GPU-time"
        low, high = (math.exp(mu + sign * 1.96 * errors[0]) for sign in (-1, 1))
        ends = Counter(job.outcome for job in jobs)
        outcomes = {name: float(ends[name]) for name in ("completed", "failed", "cancelled") if ends[name]}
        return cls(
            Estimate(math.exp(mu), low, high),
            Estimate(sigma, max(sigma - 1.96 * errors[1], 0.0), sigma + 1.96 * errors[1]),
            outcomes, dict(Counter(job.end_state for job in jobs).most_common()), method,
        )  # fmt: skip


WHOLE, EARLY, LONGER = range(3)
"""The evidence of a run about the work of its job: all of it, a uniform part of it, or a lower bound."""


def _kind(job: LoggedJob, has_limits: bool) -> int:
    if job.end_state == "TIMEOUT" and has_limits:
        return LONGER
    return WHOLE if job.outcome == "completed" else EARLY


def log_normal_work(times: FloatArray, kinds: NDArray[np.int64]) -> tuple[float, float, tuple[float, float]]:
    """Return mean and standard deviation of the logarithm of the work [s], and their standard errors.

    Parameters
    ----------
    times
        Run times [s], shape (n,).
    kinds
        `WHOLE`, `EARLY` or `LONGER`, shape (n,). A job that ends at a uniform share of its work w has run r with the
        density ∫ f(w)/w dw over w > r, of the log-normal law exp(σ²/2 − μ) Φ((μ − σ² − ln r)/σ).
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    logs = np.log(times)
    whole, early, longer = (logs[kinds == kind] for kind in (WHOLE, EARLY, LONGER))

    def negative(point: FloatArray) -> float:
        mu, sigma = float(point[0]), math.exp(float(point[1]))
        value = float((((whole - mu) / sigma) ** 2).sum() / 2) + len(whole) * math.log(sigma)
        value -= len(early) * (sigma**2 / 2 - mu) + float(log_ndtr((mu - sigma**2 - early) / sigma).sum())
        return value - float(log_ndtr((mu - longer) / sigma).sum())

    start = np.array([logs.mean(), math.log(max(float(logs.std()), estimate.LEAST_SIGMA))])
    best = minimize(negative, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}).x
    best[1] = max(best[1], math.log(estimate.LEAST_SIGMA))
    step = 1e-3
    centre = negative(best)
    curvature = [
        (negative(best + step * unit) - 2 * centre + negative(best - step * unit)) / step**2 for unit in np.eye(2)
    ]
    errors = [1 / math.sqrt(value) if value > 0 else 0.0 for value in curvature]
    sigma = math.exp(best[1])
    return float(best[0]), sigma, (errors[0], sigma * errors[1])


# Scenarios.


def fleet(content: Mapping[str, Any], load: SiteWorkload, sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scenario with the fitted streams, next to the training job where its records are one.

    Starts and saves are in the recorded run times, so those of the streams take no time. Jobs of streams end
    with errors of their own as often as the records say: without a training job there are failures of nodes alone.
    """
    tier = content["checkpoint"]["tiers"][0]
    saves = {"interval": tier["interval"], "save": "0 s", "restore": tier["restore"]}
    return {
        **{key: value for key, value in content.items() if load.chain or key not in ("jobs", "extends")},
        **({} if load.chain else {"failures": sources}),
        "name": f"{content['name']}-fleet",
        "description": f"The jobs of {content['name']} by law; the first day begins at {utc(load.origin)}.",
        **_window(load),
        "streams": [{**entry, "checkpoint": saves} for entry in load.entries],
        **_queue(load),
        "assumptions": [
            *content["assumptions"], *load.assumed,
            "jobs of streams: starts and saves are in their recorded run times; they save as often as the training job",
        ],
    }  # fmt: skip


def sources_of(load: SiteWorkload) -> str:
    """Return comments that say what each stream rests on."""

    def show(quantity: Estimated, text: Callable[[float], str]) -> str:
        return f"{text(quantity.value or 0.0)}{between(text(quantity.low or 0.0), text(quantity.high or 0.0))}"

    return "".join(
        f"# {stream.name}: {stream.jobs:,} jobs in {stream.days:.0f} d, {', '.join(stream.files)}: "
        f"{show(stream.rate, '{:.3g}'.format)} submitted a day,\n"
        f"#   work {show(stream.median_s, time_text)} at the median, "
        f"sigma {show(stream.sigma, '{:.3g}'.format)}, {stream.method}\n"
        for stream in load.streams
    )


def stream_draws(load: SiteWorkload, count: int) -> dict[str, list[str]]:
    """Return draws of what the streams rest on by path of the fleet, the estimates first: `count` values for each path.

    The rate has the Gamma law of as many independent submissions as its dispersion leaves, median and sigma of the
    work are normal with the errors of their likelihood, the median in its logarithm, and shares of sizes have the
    Dirichlet law of their counts.
    """
    generator = np.random.default_rng(2)
    drawn: dict[str, list[str]] = {}
    for at, (entry, stream) in enumerate(zip(load.entries, load.streams, strict=True)):
        path, arrivals, work = f"streams.{at}", entry["arrivals"], entry["work"]
        independent = stream.jobs / max(stream.dispersion, 1.0)
        rates = (stream.rate.value or 0.0) * generator.gamma(independent + 0.5, 1 / independent, count - 1)
        if "gap" in arrivals:
            drawn[f"{path}.arrivals.gap.mean"] = [arrivals["gap"]["mean"], *(duration(DAY / rate) for rate in rates)]
        else:
            drawn[f"{path}.arrivals.rate"] = [arrivals["rate"], *(f"{rate:.4g} per day" for rate in rates)]
        (median, low, high), (sigma, least, most) = (
            (law.value or 0.0, law.low or 0.0, law.high or 0.0) for law in (stream.median_s, stream.sigma)
        )
        error = math.log(high / low) / 3.92 if low > 0 else 0.0
        medians = median * np.exp(error * generator.standard_normal(count - 1))
        sigmas = sigma + (most - least) / 3.92 * generator.standard_normal(count - 1)
        drawn[f"{path}.work.median"] = [work["median"], *map(duration, medians.tolist())]
        drawn[f"{path}.work.sigma"] = [f"{work['sigma']}", *(f"{max(x, estimate.LEAST_SIGMA):.4g}" for x in sigmas)]
        if isinstance(entry["gpus"], dict):
            counts = np.array([*entry["gpus"].values()])
            shares = counts.sum() * generator.dirichlet(counts, count - 1)
            for size, column in zip(entry["gpus"], shares.T, strict=True):
                drawn[f"{path}.gpus.{size}"] = [f"{entry['gpus'][size]:g}", *(f"{max(x, 1e-3):.4g}" for x in column)]
    return drawn


def history(content: Mapping[str, Any], load: SiteWorkload) -> dict[str, Any]:
    """Return the scenario that replays the jobs and the outages of nodes as they were."""
    stream: dict[str, Any] = {"name": "history", "use": "trace", "file": JOBS, "skip_bad_rows": True}
    if any(job.t_eligible > job.t_submit for job in load.jobs):
        stream |= {"columns": {"submit": "eligible"}, "origin": 0.0}
    if all(math.isnan(job.limit) for job in load.jobs):
        stream["limit"] = "exact"
    queue = _queue(load)
    return {
        "name": f"{content['name']}-history",
        "description": f"The jobs of {content['name']} as they were submitted from {utc(load.origin)} on.",
        "cluster": content["cluster"],
        **_window(load),
        "streams": [{**stream, "restart": "0 s", "checkpoint": {"interval": "1 s", "save": "0 s", "restore": "0 s"}}],
        **queue,
        "scheduler": {**queue["scheduler"], "at_limit": "run on", "requeue": {"delay": "0 s", "age": "keep"}},
        "failures": [{"use": "replay", "file": "outages.csv", "origin": utc(load.origin), "inventory": "nodes.csv"}],
        "repair": {"time": "1 d"},
        "detection": {"time": "0 s"},
        "checkpoint": content["checkpoint"],
        "recovery": {"use": "full-restart", "initialize": "0 s"},
        "assumptions": [
            *load.assumed,
            "run times are those recorded, with all that failures took in them: a job that loses a node goes on at "
            "once and keeps its work",
        ],
    }  # fmt: skip


def _window(load: SiteWorkload) -> dict[str, str]:
    return {
        "warmup": f"{round((load.begin - load.origin) / HOUR)} h",
        "horizon": f"{round((load.end - load.begin) / HOUR)} h",
    }


def _queue(load: SiteWorkload) -> dict[str, Any]:
    return {**({"partitions": load.partitions} if load.partitions else {}), "scheduler": load.scheduler}


# The backtest: waits by size, occupancy and ETTR as they were, compared with both scenarios.


class _Batches(NamedTuple):
    """A metric of the measured jobs and of simulated ones: amounts and bases by batch, shape (batches,) each."""

    measured: tuple[FloatArray, FloatArray]
    simulated: tuple[FloatArray, FloatArray]
    tolerance: float = POINT
    """Difference that is none."""

    def row(self) -> tuple[float, float, float]:
        """Return the measured ratio, the simulated one, and the half-width of the interval of their difference."""
        (a, b), (c, d) = self.measured, self.simulated
        measured, simulated = float(a.sum() / b.sum()), float(c.sum() / d.sum())
        # Linearised: what each batch adds to the difference of the two ratios.
        parts = (c - simulated * d) / d.mean() - (a - measured * b) / b.mean()
        half = t_quantile(0.95, len(parts) - 1) * float(parts.std(ddof=1)) / math.sqrt(len(parts))
        return measured, simulated, half


def backtest(
    fitted: FittedModel, load: SiteWorkload, folder: Path, progress: Callable[[int, int | None], None]
) -> list[BacktestSummary]:
    """Return what was measured compared with what the replay and the fitted streams give.

    The replay has the same jobs, so its interval is that of the paired differences of 20 batches of them. That of the
    fitted streams is for a single history: 95 % of those that the model makes are in it.
    """
    progress(0, 1 + REPLICATIONS)
    batches = _replayed(fitted, load, folder)
    progress(1, 1 + REPLICATIONS)
    drawn = _drawn(load, folder, progress)
    return [_tested(name, count, rows, drawn.get(name, ())) for name, (count, rows) in batches.items()]


def _tested(name: str, count: int, batches: _Batches, streams: Sequence[float]) -> BacktestSummary:
    """Return a metric of some jobs against what the replay, and replications of the streams if there are four, give."""
    measured, replayed, half = batches.row()
    most = math.inf if name.startswith("wait") else 1.0

    def band(prefix: str, middle: float, half: float) -> dict[str, Any]:
        low, high = max(middle - half, 0.0), min(middle + half, most)
        is_inside = low - batches.tolerance <= measured <= high + batches.tolerance
        return {prefix: middle, f"{prefix}_low": low, f"{prefix}_high": high, f"{prefix}_inside": is_inside}

    bands = band("replay", replayed, half)
    if len(streams) >= 4:
        spread = float(np.std(streams, ddof=1)) * math.sqrt(1 + 1 / len(streams))
        bands |= band("streams", float(np.mean(streams)), t_quantile(0.95, len(streams) - 1) * spread)
    return BacktestSummary(metric=name, jobs=count, measured=measured, **bands)


def _replayed(fitted: FittedModel, load: SiteWorkload, folder: Path) -> dict[str, tuple[int, _Batches]]:
    """Return metrics of the jobs that the replay has in its window, by name, with how many jobs they are of."""
    changes = [f"windows={(load.end - load.begin) / BATCHES!r} s", "streams.0.origin=0.0"]
    recorded = load.jobs
    if len(recorded) > 1.2 * MOST_JOBS:  # with those that fill the cluster
        recorded = recorded[-round(1.2 * MOST_JOBS) :]
        (folder / JOBS).write_text(jobs_csv(recorded, load.priority, load.origin), encoding="utf-8")
    prepared = sim.prepare(sim.load(folder / HISTORY, changes))
    result = sim.run(prepared, 0, keeps_log=True, most_events=math.inf)
    lines = read_jobs(prepared.scenario.streams[0]).line.tolist()  # type: ignore[arg-type]
    starts: dict[int, float] = {}
    for attempt in result.attempts:
        starts.setdefault(attempt.job, attempt.start + load.begin)
    used = [recorded[line - 2] for line in lines]
    # What does not start before the end waits at least as long.
    pairs = [(job, starts.get(number, load.end)) for number, job in enumerate(used)]
    compared = [(job, start) for job, start in pairs if load.begin <= job.t_eligible < load.end and job.elapsed > 0]
    levels = result.fleet.allocated[-BATCHES:], result.fleet.healthy[-BATCHES:]
    occupancy = len(used), _Batches(_occupied(fitted, load, used), levels)
    return {**_of_waits(fitted, load, compared), "occupancy": occupancy}


def _of_waits(
    fitted: FittedModel, load: SiteWorkload, pairs: Sequence[tuple[LoggedJob, float]]
) -> dict[str, tuple[int, _Batches]]:
    """Return waits by size and ETTR of jobs as they were, and with their starts in the replay [s]."""
    jobs = [job for job, _ in pairs]
    gpus = np.array([job.gpus for job in jobs], dtype=np.float64)
    run = np.array([job.elapsed for job in jobs])
    waits = np.array([job.wait for job in jobs]), np.array([max(start - job.t_eligible, 0.0) for job, start in pairs])
    order = np.argsort([job.t_eligible for job in jobs], kind="stable")
    classes = 1 << (np.array([job.gpus.bit_length() for job in jobs], dtype=np.int64) - 1)
    ones = np.ones(len(jobs))
    metrics: dict[str, tuple[int, _Batches]] = {}
    for size in np.unique(classes).tolist():
        metrics |= _batched(f"wait_first@size={size}", order[classes[order] == size], waits, (ones, ones), ROUND)
    minute = ROUND * float(gpus.sum() / (gpus @ run))
    # Between two runs of the training job it asks for its nodes too.
    pieces = itertools.pairwise(job for job in load.jobs if job.job in load.chain)
    ends = {after.job: before.t_end for before, after in pieces}
    between = np.array([min(max(job.t_eligible - ends.get(job.job, math.inf), 0.0), PAUSE) for job in jobs])
    done = gpus * _kept(fitted, load, jobs)
    bases = [gpus * (run + wait + between) for wait in waits]
    return metrics | _batched("ettr", order, (done, done), bases, max(minute, POINT))


def _batched(
    name: str, rows: NDArray[np.int64], amounts: Sequence[FloatArray], bases: Sequence[FloatArray], tolerance: float
) -> dict[str, tuple[int, _Batches]]:
    """Return a metric of some jobs, in order, by batches; nothing if they are too few."""
    if len(rows) < BATCHES:
        return {}
    parts = np.array_split(rows, BATCHES)
    sums = [np.array([column[part].sum() for part in parts]) for column in (*amounts, *bases)]
    return {name: (len(rows), _Batches((sums[0], sums[2]), (sums[1], sums[3]), tolerance))}


def _kept(fitted: FittedModel, load: SiteWorkload, jobs: Sequence[LoggedJob]) -> FloatArray:
    """Return how much of their runs jobs kept [s], shape (n,).

    Of the training job what its log says. Without one, each of its runs begins with a start and ends half an interval
    after a checkpoint; of other jobs those do that a node ended. Both times are assumptions where no log has them.
    """
    training = fitted.document.training
    restart, interval = (training.restart_s, training.checkpoint_s) if training is not None else (None, None)
    interval = interval or 1800.0
    run, in_chain = np.array([job.elapsed for job in jobs]), np.array([job.job in load.chain for job in jobs])
    attempts, blamed = np.array([(job.attempts, job.blamed) for job in jobs]).reshape(-1, 2).T
    of_chain: FloatArray = attempts * ((restart or 300.0) + interval / 2)
    if training is not None and training.goodput is not None and load.chain:
        pieces = [job for job in load.jobs if job.job in load.chain]
        wall = max(job.t_end for job in pieces) - min(job.t_start for job in pieces)
        of_chain = run * (1 - min(training.goodput * wall / sum(job.elapsed for job in pieces), 1.0))
    return np.asarray(run - np.minimum(np.where(in_chain, of_chain, blamed * interval / 2), run))


def _occupied(fitted: FittedModel, load: SiteWorkload, jobs: Sequence[LoggedJob]) -> tuple[FloatArray, FloatArray]:
    """Return the GPU-time of jobs and that in working order in parts of the window [GPU s], shape (batches,) each."""
    edges = np.linspace(load.begin, load.end, BATCHES + 1)
    history, per_node = fitted.history, fitted.document.gpus_per_node

    def within(start: FloatArray, end: FloatArray, weight: FloatArray) -> FloatArray:
        return np.array([
            float((np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None) * weight).sum())
            for low, high in itertools.pairwise(edges)
        ])  # fmt: skip

    start, end = (np.array([getattr(job, name) for job in jobs]) for name in ("t_start", "t_end"))
    has_run = ~np.isnan(start) & ~np.isnan(end)
    whole = np.array([job.gpus if job.gpus <= per_node else max(job.node_count * per_node, job.gpus) for job in jobs])
    allocated = whole * np.minimum(np.array([job.elapsed for job in jobs]) / np.maximum(end - start, 1.0), 1.0)
    healthy = within(history.enter, history.leave, np.ones(len(history.enter)))
    if history.has_ends and history.outages:
        down = np.array([(event.t, history.until(event)) for event in history.outages])
        healthy -= within(down[:, 0], down[:, 1], np.ones(len(down)))
    return within(start[has_run], end[has_run], allocated[has_run]), np.maximum(healthy, 1.0) * per_node


def _drawn(load: SiteWorkload, folder: Path, progress: Callable[[int, int | None], None]) -> dict[str, list[float]]:
    """Return metrics of replications of the fitted streams: fewer and shorter ones where there are very many jobs."""
    if not load.entries:
        return {}
    jobs = max(len(load.jobs), 1)
    count = int(min(max(2 * MOST_JOBS / jobs, 4), REPLICATIONS))
    share = min(2 * MOST_JOBS / jobs / count, 1.0)
    prepared = sim.prepare(sim.load(folder / FLEET, [f"horizon={share * (load.end - load.begin)!r} s"]))
    metrics: dict[str, list[float]] = defaultdict(list)
    for number in range(count):
        result = sim.run(prepared, number, most_events=math.inf)
        for name, ratio in ratios(prepared, result).items():
            if ratio.base:
                metrics[name].append(ratio.amount / ratio.base)
        progress(number + 2, count + 1)
    return metrics


def findings(rows: Iterable[BacktestSummary]) -> Iterator[str]:
    """Yield in words what was measured outside of what is simulated."""
    for row in rows:
        text = time_text if row.metric.startswith("wait") else functools.partial(percent_text, digits=1)
        for who, inside, low, high in (
            ("the replay of the jobs", row.replay_inside, row.replay_low, row.replay_high),
            ("the fitted streams", row.streams_inside, row.streams_low, row.streams_high),
        ):
            if inside is False:
                measured, least, most = (text(value or 0.0) for value in (row.measured, low, high))
                yield f"{name_of(row.metric)}: {measured} in the records, {least} to {most} in {who}"
