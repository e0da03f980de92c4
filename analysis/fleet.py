"""From what a fleet came to in one replication to metrics: of the cluster, of all its jobs, and of slices of them."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.metrics import BY, WEIGHTED, Slice, metrics_of
from ettrick.sim import (
    BIN_EDGES,
    HISTOGRAMS,
    JOB_SUMS,
    LEVELS,
    NAMED,
    PREEMPTION,
    ROOTS,
    SERVICE_SUMS,
    Bucket,
    FleetAccount,
    Ratio,
)
from ettrick.sim.units import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ettrick.sim import FleetResult, Prepared
    from ettrick.sim.scenario.streams import Arrival

    FloatArray = npt.NDArray[np.float64]

# Slices: jobs that have something in common.


def group_of(prepared: Prepared, by: str, account: FleetAccount | Arrival) -> str:
    """Return what the group of an account, or of a job, is called."""
    number: int = getattr(account, by)
    entries = {"stream": prepared.streams, "tenant": prepared.tenants, "partition": prepared.partitions}
    if by == "stream" and number >= NAMED:
        return prepared.jobs[number - NAMED].name
    named = [entry.name for entry in entries.get(by, ())]  # type: ignore[attr-defined]
    return named[number] if 0 <= number < len(named) else str(number)


def slices(prepared: Prepared, accounts: Iterable[FleetAccount]) -> dict[tuple[str, str], list[FleetAccount]]:
    """Return the groups of accounts by what they are divided by, in order; one group alone is no slice."""
    stream_accounts = sorted(account for account in accounts if account.stream >= 0)
    divisions: dict[tuple[str, str], list[FleetAccount]] = {}
    for by in BY:
        groups: dict[str, list[FleetAccount]] = {}
        for account in sorted(stream_accounts, key=operator.attrgetter(by)):
            groups.setdefault(group_of(prepared, by, account), []).append(account)
        if len(groups) > 1:
            divisions |= {(by, name): group for name, group in groups.items()}
        if by == "size":
            sizes = list(groups)
            divisions |= {
                (by, f"{size}+"): [account for larger in sizes[index:] for account in groups[larger]]
                for index, size in enumerate(sizes)
            }
    return divisions


# Metrics of one replication, or of some windows of it.

_HELD = [bucket for bucket in Bucket if bucket != Bucket.QUEUED]
"""Buckets of GPUs that whoever is charged for them has."""


class _Sums:
    """Sums over accounts and windows: over jobs, and of the ledger."""

    def __init__(self, fleet: FleetResult, windows: slice) -> None:
        self.jobs = {account: table[windows].sum(axis=0) for account, table in fleet.jobs.items()}
        self.buckets: dict[FleetAccount, FloatArray] = {}
        self.stops: dict[FleetAccount, FloatArray] = {}
        self.failed = np.zeros(2)
        """GPU-seconds that failures took directly, and via preemptions."""
        drain = len(fleet.causes) - len(ROOTS) + ROOTS.index("drain")
        infrastructure = range(1, len(fleet.causes) - len(ROOTS))
        for key, row in fleet.ledger.items():
            spent = float(row[windows].sum())
            sums = self.buckets.setdefault(key.account, np.zeros(len(Bucket)))
            sums[key.bucket] += spent
            if key.account.stream >= 0 and key.cause in infrastructure and key.bucket != Bucket.QUEUED:
                self.failed[key.via] += spent
        for stop, rows in fleet.stops.items():
            count = float(rows[windows, 0].sum())
            sums = self.stops.setdefault(stop.account, np.zeros(4))
            if stop.via == PREEMPTION:
                sums[0] += count
                sums[1] += count * (stop.cause in infrastructure)
            else:
                sums[2] += count * (stop.cause in infrastructure)
                sums[3] += count * (stop.cause == drain)

    def of(self, accounts: Iterable[FleetAccount]) -> tuple[dict[str, float], FloatArray, FloatArray]:
        """Return sums over the jobs of accounts by name, GPU-seconds by bucket, and stops."""
        members = list(accounts)
        jobs = sum((self.jobs[account] for account in members if account in self.jobs), np.zeros(len(JOB_SUMS)))
        buckets = sum((self.buckets[account] for account in members if account in self.buckets), np.zeros(len(Bucket)))
        stops = sum((self.stops[account] for account in members if account in self.stops), np.zeros(4))
        return dict(zip(JOB_SUMS, jobs.tolist(), strict=True)), buckets, stops


def fleet_ratios(prepared: Prepared, fleet: FleetResult, windows: slice = slice(None)) -> dict[str, Ratio]:
    """Return the metrics of a fleet: of its jobs, slices of them and services, as amounts and bases.

    Amounts and bases of windows add up to those of the run, whose base of a count is 1.

    Parameters
    ----------
    windows
        Which windows: jobs count in that of their submission, everything else in that in which it happened.
    """
    of_services = _of_services(prepared, fleet, windows)
    if not prepared.streams:
        return of_services
    sums = _Sums(fleet, windows)
    accounts = [account for account in {*sums.jobs, *sums.buckets} if account.stream >= 0]
    jobs, buckets, stops = sums.of(accounts)
    owned = float(fleet.owned[windows].sum())
    level = {name: float(fleet.level(name)[windows].sum()) for name in LEVELS}
    free, allocated = level["free"], float(fleet.allocated[windows].sum())
    part = _part_of_run(fleet, windows)
    metrics = {
        "occupancy": Ratio(allocated, float(fleet.healthy[windows].sum())),
        "allocation": Ratio(allocated, owned),
        "cluster_goodput": Ratio(float(buckets[Bucket.PRODUCTIVE]), owned * prepared.capacity),
        "fragmentation": Ratio(max(free - level["placeable"], 0.0), max(free, 0.0)),
        "fragmentation_in_need": Ratio(
            max(level["free_in_need"] - level["placeable_in_need"], 0.0), max(level["free_in_need"], 0.0)
        ),
        "stranded": Ratio(level["stranded"], owned),
        "queue_length": Ratio(level["queued_jobs"], float(fleet.seconds[windows].sum())),
        "second_order_share": Ratio(float(sums.failed[PREEMPTION]), float(sums.failed.sum())),
        "interruptions": Ratio(float(stops[2] + stops[3]), part),
        "interruptions_planned": Ratio(float(stops[3]), part),
        "interruptions_unplanned": Ratio(float(stops[2]), part),
        **_fairness(prepared, sums.buckets),
    }
    metrics |= _of_jobs("", "", jobs, buckets, stops)
    for (by, group), group_accounts in slices(prepared, accounts).items():
        metrics |= _of_jobs(by, group, *sums.of(group_accounts))
    return metrics | of_services


def _fairness(prepared: Prepared, buckets: Mapping[FleetAccount, FloatArray]) -> dict[str, Ratio]:
    """Return how alike the shares of tenants are to what they are entitled to; nothing for a single one."""
    if len(prepared.tenants) < 2:
        return {}
    ratios = np.array([share / claim for share, claim in tenant_shares(prepared, buckets) if claim])
    return {"fairness": Ratio(float(ratios.sum()) ** 2, len(ratios) * float((ratios**2).sum()))}


def _part_of_run(fleet: FleetResult, windows: slice) -> float:
    """Return which part of the time of a run some windows are [-]."""
    whole = float(fleet.seconds.sum())
    return float(fleet.seconds[windows].sum()) / whole if whole else 1.0


def _of_services(prepared: Prepared, fleet: FleetResult, windows: slice) -> dict[str, Ratio]:
    """Return the metrics of all services together, and of each where they are several."""
    rows: dict[str, dict[str, Ratio]] = {}
    for plan in prepared.services:
        sums = {
            name: float(fleet.service_sum(plan.index, name)[windows].sum())
            for name in SERVICE_SUMS
            if plan.index in fleet.services
        }
        if not sums:
            continue
        offered, seconds = sums["offered"], sums["seconds"]
        rows[plan.name] = {
            "slo_attainment": Ratio(sums["in_slo"], offered, sums["unsure"]),
            "served_share": Ratio(sums["served"], offered),
            "slo_goodput": Ratio(sums["in_slo"], seconds, sums["unsure"]),
            "capacity_availability": Ratio(seconds - sums["below"], seconds),
            "capacity_share": Ratio(sums["replicas"], sums["wanted"]),
            "all_serving": Ratio(sums["full"], seconds),
            "minutes_below_demand": Ratio(sums["below"] / MINUTE, _part_of_run(fleet, windows)),
            "failed_share": Ratio(sums["failed"], offered),
            "wasted_work": Ratio(sums["wasted"], sums["served"] + sums["wasted"]),
            "busy_share": Ratio(sums["busy"], sums["busy"] + sums["idle"]),
            "tokens_per_s_user": Ratio(sums["served"] * plan.output, sums["user"]),
        }
    metrics: dict[str, Ratio] = {}
    for name in metrics_of("service") if rows else ():
        shares = [row[name] for row in rows.values()]
        amount, base, doubt = (float(sum(column)) for column in zip(*shares, strict=True))
        metrics[name] = Ratio(
            amount, shares[0].base if name in ("slo_goodput", "minutes_below_demand") else base, doubt
        )
        if len(rows) > 1:
            metrics |= {Slice(name, "service", service).name: row[name] for service, row in rows.items()}
    return metrics


def tenant_shares(prepared: Prepared, buckets: Mapping[FleetAccount, FloatArray]) -> list[tuple[float, float]]:
    """Return which share of the GPU-time of jobs and services each tenant had, and which one it is entitled to [-].

    Parameters
    ----------
    prepared
        The scenario: where all tenants have a quota, these are what they are entitled to, else their weights.
    """
    usage = np.zeros(len(prepared.tenants))
    for account, spent in buckets.items():
        if account.tenant >= 0:
            usage[account.tenant] += spent[_HELD].sum()
    quotas = [tenant.nodes for tenant in prepared.tenants]
    weights = [tenant.weight for tenant in prepared.tenants]
    entitled = np.array(weights if None in quotas else quotas, dtype=np.float64)
    pairs = zip(usage / (usage.sum() or 1.0), entitled / (entitled.sum() or 1.0), strict=True)
    return [(float(share), float(claim)) for share, claim in pairs]


def _of_jobs(
    by: str, group: str, jobs: Mapping[str, float], buckets: FloatArray, stops: FloatArray
) -> dict[str, Ratio]:
    """Return the metrics of some jobs; preemptions are per 1,000 GPU-hours that they held."""
    work = float(buckets[_HELD].sum()) / (1000 * HOUR)
    plain = {
        "ettr": Ratio(jobs["useful"], jobs["requested"]),
        "ettr_no_queue": Ratio(jobs["useful"], jobs["requested"] - jobs["queued"]),
        "ettr_above_90": Ratio(jobs["ettr_above_90"], jobs["submitted_gpu_time"]),
        "preemptions": Ratio(float(stops[0]), work),
        "second_order_preemptions": Ratio(float(stops[1]), work),
        "mttf": Ratio(jobs["run"], jobs["failures"]),
    }
    metrics = {Slice(name, by, group).name: ratio for name, ratio in plain.items()}
    for name, weight in itertools.product(WEIGHTED, ("job", "gpu_time")):
        counted = {"wait_first": "started", "jct": "completed"}.get(name, "ended")
        ratio = Ratio(jobs[f"{name}_{weight}"], jobs[f"{counted}_{weight}"])
        metrics[Slice(name, by, group, weight).name] = ratio  # type: ignore[arg-type]
    return metrics


# How sure: replications, else batches of one run.

FEWEST_REPLICATIONS = 8
"""Replications from which intervals are made of them."""

BATCHES = 20
"""Batches that a run is divided into where replications are fewer."""


def batches(prepared: Prepared, fleets: Sequence[FleetResult]) -> list[dict[str, Ratio]]:
    """Return the metrics of each batch of consecutive windows of some replications, in order of time.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 9.5.3 (batch means).
    """
    rows = []
    for fleet in fleets:
        used = int(np.count_nonzero(fleet.seconds))
        edges = np.linspace(0, used, min(BATCHES, used) + 1).round().astype(int).tolist()
        rows += [fleet_ratios(prepared, fleet, slice(low, high)) for low, high in itertools.pairwise(edges)]
    return rows


def are_correlated(values: npt.ArrayLike) -> bool:
    """Return whether consecutive batches are so much alike that they are no sample: lag-1 correlation, 2.5 % one-sided.

    References
    ----------
    J. von Neumann, Annals of Mathematical Statistics 12 (1941), 367 (the ratio of the mean square successive
    difference; its variance for independent values is about 4 / n).
    """
    x = np.asarray(values, dtype=np.float64)
    spread = float(((x - x.mean()) ** 2).sum())
    if len(x) < 3 or not spread:
        return False
    ratio = float((np.diff(x) ** 2).sum()) / spread
    return (2.0 - ratio) / math.sqrt(4 * (len(x) - 2) / (len(x) ** 2 - 1)) > 1.96


class QueueLine(NamedTuple):
    """The queue of a run over time.

    Parameters
    ----------
    time
        Middles of the windows around their mean [s], shape (n,).
    queue
        GPUs in the queue, shape (n,).
    seconds
        How long that is [s].
    """

    time: FloatArray
    queue: FloatArray
    seconds: float

    @property
    def second_half(self) -> QueueLine:
        """The same of the second half of the windows."""
        time, queue = (column[len(column) // 2 :] for column in (self.time, self.queue))
        return QueueLine(time - time.mean(), queue, self.seconds * len(queue) / len(self.queue))

    def slope(self) -> float:
        """Return how fast the queue grew, by least squares [GPUs/s]."""
        return float(self.time @ self.queue) / float(self.time @ self.time)

    def wandering(self) -> tuple[float, float]:
        """Return the standard error of the slope of a queue that wanders without a drift [GPUs/s], and its freedom.

        Arrivals and ends move it at random. Where they add a variance s² in each second, the slope by least squares of
        a time T has the variance 6 s² / 5T. They are alike for a while: s² is the most that changes over 1, 2, 4 or 8
        windows of width w come to, and windows are means, whose changes have only s² (k - 1/3) w.

        References
        ----------
        S. N. Durlauf, P. C. B. Phillips, "Trends versus random walks in time series analysis", Econometrica 56 (1988),
        1333.
        """
        count, width = len(self.queue), self.seconds / len(self.queue)
        steps = [step for step in (1, 2, 4, 8) if step <= count // 3]
        changes = {step: float(np.var(self.queue[step:] - self.queue[:-step], ddof=1)) for step in steps}
        variance, step = max((change / ((step - 1 / 3) * width), step) for step, change in changes.items())
        return math.sqrt(1.2 * variance / self.seconds), max(count / step - 1, 1.0)


def queue_line(prepared: Prepared, fleet: FleetResult) -> QueueLine | None:
    """Return the queue of a run by window.

    ``None`` with too few of them for a line, and where all streams are logs that end before: they have no long run.
    """
    used = np.flatnonzero(fleet.seconds)
    if len(used) < 12 or all(stream.last < prepared.warmup + prepared.horizon for stream in prepared.streams):
        return None
    seconds = fleet.seconds[used]
    time = fleet.edges[used] + seconds / 2
    return QueueLine(time - time.mean(), fleet.level("queued_gpus")[used] / seconds, float(seconds.sum()))


# Quantiles of single jobs.


def job_quantile(counts: FloatArray, level: float) -> float | None:
    """Return a quantile of single jobs from a histogram: exact to a bin, which is 9 % wide; ``None`` without jobs."""
    total = float(counts.sum())
    if not total:
        return None
    reached = np.cumsum(counts)
    place = int(np.searchsorted(reached, level * total * (1 - 1e-12)))
    if place == 0:
        return 0.0
    low, high = BIN_EDGES[place], BIN_EDGES[min(place + 1, len(BIN_EDGES) - 1)]
    return float(math.sqrt(low * high))


def quantiles(fleet: FleetResult, accounts: Sequence[FleetAccount]) -> dict[str, dict[str, float | None]]:
    """Return p05, p50 and p95 of single jobs, by the name of what there are histograms of."""
    return {
        name: {
            label: job_quantile(fleet.histogram(name, "job", accounts), level)
            for label, level in (("p05", 0.05), ("p50", 0.5), ("p95", 0.95))
        }
        for name in HISTOGRAMS
    }
