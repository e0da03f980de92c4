"""The account of owners of GPU-time, which are jobs, streams and services: what they had, delivered and lost.

`account_of` says what named jobs requested, owned and paid, `where` where every GPU-hour went by bucket and main cause,
`cluster_bar` the same as one bar, `delivered` what an owner is judged by, and `beside_formula` what a closed form says.
"""

from __future__ import annotations

import functools
import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ettrick.analysis.amounts import (
    PERCENT,
    capital,
    count_text,
    hours,
    interval_text,
    money,
    number_of,
    percent_text,
    points_text,
    range_text,
    text_or_dash,
)
from ettrick.analysis.metrics import BUCKETS, bucket_label
from ettrick.analysis.page.charts.data import Bar, Bars, Stack, StackPart
from ettrick.analysis.page.glossary import cause_name
from ettrick.analysis.page.model import Column, Figure, table_of
from ettrick.sim import JOB_BUCKETS, NO_FAILURE
from ettrick.sim.units import HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ettrick.analysis.page.model import Section, TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.page.sourced import SourcedNumber
    from ettrick.analysis.parts import MetricSummary
    from ettrick.analysis.results.models import FleetSummary, JobSummary, RunDocument

_Share = TypeVar("_Share", float, "SourcedNumber")


class ResourceAccount(NamedTuple):
    """The GPU-time that a mean replication requested and owned, and its cost."""

    requested: float  # GPU-time that its jobs requested [GPU s]
    # All GPU-time of the cluster in the accounting window [GPU s]; ``None`` if it is not known.
    owned: float | None = None
    window: float | None = None  # length of the accounting window [s]; ``None`` with `owned`
    price: float | None = None  # all that was paid over the GPU-time owned [currency / GPU s]; ``None`` without prices
    currency: str = ""  # of the price; empty without prices

    @property
    def a_year(self) -> float | None:
        """The accounting windows in a year [-]."""
        return YEAR / self.window if self.window else None


def account_of(focus: ReplayedScenario) -> ResourceAccount:
    """Return what a mean replication requested, owned and paid, from its document.

    The document has productive GPU-time as a share of what jobs requested and of what the cluster owned, so the one
    follows from the other; what was owned is not known where nothing was productive.
    """
    document = focus.document
    requested = sum(job.requested_gpu_s for job in document.per_job.values())
    shares = document.time_shares["productive"], document.cluster_shares["productive"]
    if not requested or not all(shares):
        return ResourceAccount(requested)
    owned = requested / requested_share(*shares)
    window = owned / (focus.prepared.nodes * focus.prepared.gpus_per_node)
    if document.cost is None or not document.cost.total:
        return ResourceAccount(requested, owned, window)
    return ResourceAccount(requested, owned, window, document.cost.total / owned, document.cost.currency)


def requested_share(of_requested: _Share, of_owned: _Share) -> _Share:
    """Return which share of the GPU-time owned jobs requested, from what the same GPU-time is of either [-]."""
    return of_owned / of_requested


def of_focus(make: Callable[[ReplayedScenario], Section | None]) -> Callable[[ReportData], Section | None]:
    """Return the section of a report that looks at one scenario; ``None`` where there is no scenario."""

    @functools.wraps(make)
    def section(report_data: ReportData) -> Section | None:
        return None if report_data.focus is None else make(report_data.focus)

    return section


def basis(focus: ReplayedScenario) -> str:
    """Return what the numbers of a section are means of, as a line of small print."""
    count = focus.document.replications
    if focus.stored_document is not None or count == focus.wanted:
        return f"For {focus.name}: means over all {number_of(count, 'replication')}."
    return f"For {focus.name}: means over the first {count} of {focus.wanted} replications, simulated again."


def currency_of(report_data: ReportData) -> str:
    """Return the currency of the prices of a study or a scenario; empty without prices."""
    if report_data.sweep is not None:
        return str(report_data.sweep.currency or "")
    if report_data.study is not None:
        cost = report_data.study.template.scenario(report_data.study.common).cost
    else:
        cost = None if report_data.focus is None else report_data.focus.scenario.cost
    return "" if cost is None else str(cost.currency)


# ----------------------------------------
# Where every GPU-hour went: jobs, streams and services have one table, one main cause, one bar.

# Why healthy GPUs had no job.
IDLE_WORDS = {
    "no_queue": "no job waits",
    "too_few": "too few for the first job",
    "wrong_places": "enough, in the wrong places",
    "reservation": "kept for a reservation",
    "claim": "claimed by a preempting job",
    "quota": "beyond the quota",
    "drain": "being drained",
    "exempt": "during an exempt time",
}


class GpuTime(NamedTuple):
    """GPU-time that went to a bucket, and to which causes; idle time is distinguished by its reason."""

    bucket: str
    share: float  # of what was requested or owned [-]
    causes: Mapping[str, float] = MappingProxyType({})  # by cause in words, in any unit; "" is no failure
    reason: str = ""  # why it was idle
    gloss: str = ""  # what the bucket is, where that is not what `BUCKETS` says

    @property
    def label(self) -> str:
        """The name: of idle time with its reason."""
        label = "total" if self.bucket == "total" else bucket_label(self.bucket)
        return f"{label}: {IDLE_WORDS[self.reason]}" if self.reason else label

    @property
    def main_cause(self) -> str:
        """The cause that took most of it, and which share that is; empty if it was none."""
        total = sum(self.causes.values())
        name = max(self.causes, key=lambda cause: self.causes[cause], default="")
        return f"{name} ({percent_text(self.causes[name] / total, 0)})" if name and total > 0 else ""


def _by_cause(document: RunDocument, bucket: str, name_of_cause: Callable[[str], str]) -> dict[str, float]:
    """Return the GPU-time that was lost in a bucket by the name of its cause [GPU s]."""
    if bucket == "productive":
        return {}
    return {name_of_cause(cause): lost[bucket] for cause, lost in document.loss_gpu_s.items() if lost.get(bucket)}


def of_jobs(document: RunDocument) -> list[GpuTime]:
    """Return where the time that named jobs requested went; causes have their keys."""
    return [
        GpuTime(
            bucket, share, _by_cause(document, bucket, lambda cause: "no failure" if cause == NO_FAILURE else cause)
        )
        for bucket, share in document.time_shares.items()
        if share or bucket == "productive"
    ]


def of_services(document: RunDocument) -> list[GpuTime]:
    """Return where the time of a cluster of services went."""
    return [
        GpuTime(bucket, share, _by_cause(document, bucket, cause_name), gloss=BUCKETS[bucket].served)
        for bucket, share in document.cluster_shares.items()
        if share
    ]


def of_streams(fleet: FleetSummary) -> list[GpuTime]:
    """Return where the time of a cluster with streams went; what is unallocated, by its reason."""
    amounts: dict[tuple[str, str], dict[str, float]] = {}
    for row in fleet.ledger:
        if row.bucket != "queued":
            is_idle = row.bucket == "unallocated"
            via = " via preemption" if row.via == "preemption" else ""
            cause = "" if row.cause == NO_FAILURE else f"{cause_name(row.cause)}{via}"
            causes = amounts.setdefault((row.bucket, row.cause if is_idle else ""), {})
            causes[cause] = causes.get(cause, 0.0) + row.gpu_s
    return [
        GpuTime(bucket, sum(causes.values()) / fleet.owned_gpu_s, {} if reason else causes, reason)
        for (bucket, reason), causes in amounts.items()
    ]


def where(
    parts: Sequence[GpuTime],
    gpu_s: float | None = None,
    total: str = "",
    account: ResourceAccount | None = None,
    share_text: Callable[[float], str] = percent_text,
) -> TableBlock:
    """Return where every GPU-hour went: shares, GPU-hours of `gpu_s` in all, what these are in a year, main causes.

    `total` says what the total is, without a word there is none.
    """
    a_year, price = (None, None) if account is None else (account.a_year, account.price)
    currency = "" if account is None else account.currency
    rows = [*parts, GpuTime("total", sum(part.share for part in parts), gloss=total)] if total else parts
    base, yearly = gpu_s or 0.0, (gpu_s or 0.0) * (a_year or 0.0)
    columns: tuple[Column[GpuTime], ...] = (
        Column("", lambda part: part.label),
        Column(
            "share", lambda part: share_text(part.share),
            shade=lambda part: 0.0 if part.bucket == "total" else max(part.share, 0.0),
        ),
        Column("GPU-hours", lambda part: f"{part.share * base / HOUR:,.0f}", gpu_s is not None),
        Column("GPU-hours a year", lambda part: hours(part.share * yearly), a_year is not None),
        Column(
            f"{currency} a year", lambda part: money(part.share * yearly * (price or 0.0), currency),
            a_year is not None and price is not None,
        ),
        Column("main cause", lambda part: "" if part.bucket == "productive" else part.main_cause, is_number=False),
        Column("what it is", lambda part: part.gloss or BUCKETS[part.bucket].gloss, is_number=False, is_gloss=True),
    )  # fmt: skip
    return table_of("Where every GPU-hour went", rows, columns)


def cluster_bar(parts: Sequence[GpuTime]) -> Stack | None:
    """Return what all GPU-time owned was, in percent; ``None`` if jobs held all of it.

    What all phases of jobs lose is one part. Replicas that keep the batch of a missing one do more than their own work:
    the loss can be below nothing, and is taken from what is productive.
    """
    productive = sum(part.share for part in parts if part.bucket == "productive")
    lost = sum(part.share for part in parts if part.bucket in JOB_BUCKETS) - productive
    outside = sorted((part for part in parts if part.bucket not in JOB_BUCKETS and part.share > 0),
                     key=lambda part: -part.share)  # fmt: skip
    if not outside:
        return None
    bars = [
        StackPart("productive", 100 * (productive + min(lost, 0.0)), 0),
        StackPart("lost by jobs", 100 * max(lost, 0.0), 1),
        *(
            StackPart(part.label, 100 * part.share, BUCKETS[part.bucket].hue) for part in outside
        ),
    ]  # fmt: skip
    largest = f"{outside[0].label} ({PERCENT.value(outside[0].share)})"
    title = (
        f"{PERCENT.value(productive)} of all GPU-time owned is productive; outside jobs the largest part is {largest}"
    )
    return Stack(title, "%", tuple(bar for bar in bars if bar.amount > 0))


_MOST_BARS = 8


def at_a_glance(title: str, unit: str, what: str, shares: Iterable[tuple[str, float]]) -> Figure:
    """Return the picture of a first screen: a bar for each of the first shares [-] by name."""
    bars = tuple(Bar(capital(name), (100 * share,)) for name, share in itertools.islice(shares, _MOST_BARS))
    alt = f"Bars of {what}: {'; '.join(f'{bar.name} {bar.values[0]:.3g} %' for bar in bars[:3])}."
    return Figure("at-a-glance", Bars(title, unit, ("share",), bars), alt)


# ----------------------------------------
# What is delivered, and what a formula says of it.


class Delivered(NamedTuple):
    """A metric that an owner is judged by: how it is called and written, and what it is."""

    title: str
    summary: MetricSummary
    form: Callable[[float], str]
    gloss: str = ""
    by_gpu_time: MetricSummary | None = None  # the same where jobs count by GPU-time

    @property
    def mean(self) -> str:
        """The mean; without an event the bound of a time between events."""
        bound = self.summary.lower_bound95
        return text_or_dash(self.summary.mean, self.form) if bound is None else f"> {self.form(bound)}"


def delivered(title: str, rows: Sequence[Delivered], *, has_spread: bool = False, note: str = "") -> TableBlock:
    """Return what an owner delivers: mean and interval; with the spread of single runs, or weighted by GPU-time."""
    # Quantiles need many replications; a column of dashes says nothing.
    has_quantiles = any(row.summary.p05 is not None and row.summary.p95 is not None for row in rows)
    columns: tuple[Column[Delivered], ...] = (
        Column("", lambda row: row.title),
        Column("mean", lambda row: row.mean),
        Column("95 % interval", lambda row: interval_text(row.summary, row.form)),
        Column("std. dev.", lambda row: text_or_dash(row.summary.std, row.form), has_spread),
        Column(
            "5 %..95 % of runs", lambda row: range_text((row.summary.p05, row.summary.p95), row.form),
            has_spread and has_quantiles,
        ),
        Column(
            "by GPU-time", lambda row: "" if row.by_gpu_time is None else text_or_dash(row.by_gpu_time.mean, row.form),
            any(row.by_gpu_time is not None for row in rows),
        ),
        Column(
            "what it is", lambda row: row.gloss, any(row.gloss for row in rows), is_number=False, is_gloss=True
        ),
    )  # fmt: skip
    return table_of(title, rows, columns, note=note)


class BesideFormula(NamedTuple):
    """A number of the closed form compared with the simulated one, and how both are written."""

    title: str
    formula: float | None  # ``None`` where the formula says nothing of it
    simulated: float | None
    form: Callable[[float], str]
    interval: str = ""

    @property
    def difference(self) -> str:
        """The surplus of the simulation; empty without either."""
        if self.formula is None or self.simulated is None:
            return ""
        return points_text(self.simulated - self.formula)


def beside_formula(title: str, rows: Sequence[BesideFormula], note: str = "") -> TableBlock:
    """Return the closed form against the simulation: with intervals of what was simulated, or else with differences."""
    has_interval = any(row.interval for row in rows)
    columns: tuple[Column[BesideFormula], ...] = (
        Column("", lambda row: row.title),
        Column("closed form", lambda row: "not in it" if row.formula is None else row.form(row.formula)),
        Column("simulation", lambda row: text_or_dash(row.simulated, row.form)),
        Column("95 % interval", lambda row: row.interval, has_interval),
        Column(
            "difference",
            lambda row: row.difference,
            not has_interval,
        ),
    )  # fmt: skip
    return table_of(title, rows, columns, note=note)


def jobs_table(document: RunDocument) -> TableBlock | None:
    """Return a line for each named job, if there are several, any that can finish, or streams next to them."""
    jobs, is_fleet = document.per_job, not document.fleet.is_empty
    ends = any(job.finished or job.censored for job in jobs.values())
    if not jobs or (len(jobs) == 1 and not ends and not is_fleet):
        return None
    columns: tuple[Column[tuple[str, JobSummary]], ...] = (
        Column("", lambda row: row[0]),
        Column("GPUs", lambda row: f"{row[1].gpus:,}"),
        Column("ETTR", lambda row: text_or_dash(row[1].metrics["ettr"].mean, percent_text)),
        Column("queued", lambda row: text_or_dash(row[1].time_shares["queued"], percent_text)),
        Column("interruptions", lambda row: text_or_dash(row[1].metrics["interruptions"].mean, count_text)),
        Column("finished", lambda row: f"{row[1].finished} of {document.replications} runs", ends),
    )
    return table_of("Named jobs" if is_fleet else "Jobs", list(jobs.items()), columns)
