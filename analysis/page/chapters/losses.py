"""Goodput of named jobs, and where the rest of their time and that of the whole cluster went, by phase and by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.amounts import (
    PERCENT,
    NumberFormat,
    cell_forms,
    compact,
    gpu_hours,
    hours,
    money,
    percent_text,
    range_text,
)  # fmt: skip
from ettrick.analysis.metrics import BUCKETS, METRICS, bucket_label, rows_of
from ettrick.analysis.page.account import (
    Delivered,
    GpuTime,
    account_of,
    basis,
    cluster_bar,
    delivered,
    of_focus,
    of_jobs,
    where,
)
from ettrick.analysis.page.charts.data import Bar, Bars, HeatMap
from ettrick.analysis.page.glossary import cause_name
from ettrick.analysis.page.model import Column, Figure, Section, table_of
from ettrick.analysis.results.run import replays_a_log
from ettrick.analysis.statistics.differences import FEWEST_EVENTS
from ettrick.analysis.statistics.estimates import ratio_interval
from ettrick.analysis.statistics.intervals import unseen
from ettrick.sim import JOB_BUCKETS, NO_FAILURE, units
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.page.account import ResourceAccount
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario
    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Result


_MWH = units.ENERGY.units["MWh"]


def goodput(document: RunDocument) -> TableBlock:
    """Return the metrics that a run is judged by: mean, interval, spread of single runs."""
    currency = "" if document.cost is None else document.cost.currency
    rows = [
        Delivered(
            f"{METRICS[name].sign}{METRICS[name].title}", document.metrics[name], cell_forms(name, currency).value,
            METRICS[name].gloss,
        )
        for name in rows_of("run")
        if name in document.metrics
    ]  # fmt: skip
    return delivered("Goodput", rows, has_spread=True, note=" ".join(_on_intervals(document)))


def _on_intervals(document: RunDocument) -> Iterator[str]:
    """Yield what control variates and uncertain failure rates make of the interval of ETTR."""
    ettr, interrupted, runs = document.metrics["ettr"], document.interrupted, document.replications
    if ettr.controlled is not None and (ettr.controlled.worth or 0) > 1:
        interval = range_text(ettr.controlled.mean_ci95, percent_text)
        yield f"With control variates: ETTR {interval}, worth {ettr.controlled.worth:.3g} times the replications."
    elif not interrupted and runs >= FEWEST_EVENTS:
        most = percent_text(unseen(runs))
        yield f"No replication was interrupted: intervals do not cover interrupted runs, up to {most} of all."
    elif interrupted < FEWEST_EVENTS <= runs:
        yield (
            f"Intervals are Student's, without control variates: {interrupted} of {runs} replications were "
            f"interrupted, and these need {FEWEST_EVENTS}."
        )
    if ettr.band90 is not None:
        yield f"Failure rates known only from their counts: ETTR {range_text(ettr.band90, percent_text)} (90 %)."
    currency = "" if document.cost is None else document.cost.currency
    banded = [
        f"{METRICS[name].label} {range_text(document.metrics[name].band90, cell_forms(name, currency).value)}"
        for name in modelled(document)
    ]
    if banded:
        yield f"{OFF}: {', '.join(banded)} (90 %)."
    yield from faster_failures(document)


def faster_failures(document: RunDocument) -> Iterator[str]:
    """Yield what ETTR would be if failures that were counted on smaller jobs grow faster than the GPUs."""
    for row in document.closed_form.extrapolated:
        if row.ettr_superlinear is not None:
            faster, largest = percent_text(row.ettr_superlinear), row.counted_on_gpus[-1]
            yield (
                f"ETTR is {faster} by the formula, not {percent_text(row.ettr)}, if beyond {largest:,} GPUs the "
                f"failures of {row.bundle} grow with the power {row.exponent:g} ({row.exponent_source})."
            )


OFF = "If the step model errs by as much as it usually does"


def modelled(document: RunDocument) -> list[str]:
    """Return the metrics of the headline that go with the time of a step, where that is modelled."""
    names = ("tokens_per_day", "program_goodput", "cost_per_token", "energy_per_token")
    return [name for name in names if name in document.metrics and document.metrics[name].band90 is not None]


@of_focus
def section(focus: ReplayedScenario) -> Section | None:
    """Return where the time goes; ``None`` where nothing was requested."""
    document = focus.document
    if document.metrics["ettr"].mean is None:
        return None
    account, chart = account_of(focus), lost_time(focus)
    largest = ", ".join(f"{bar.name} {bar.values[0]:.2g} %" for bar in chart.rows[:3]) or "none"
    alt = f"Bars of the lost part of the requested GPU-time. {chart.title}. Largest losses: {largest}."
    caption = "Each bar shows the share of the requested GPU-time that one phase takes, largest first."
    table = where_of_jobs(document, account)
    items: list[Figure | TableBlock] = [Figure("where-the-time-goes", chart, alt, caption, table), goodput(document)]
    stack = cluster_bar([GpuTime(*shares) for shares in document.cluster_shares.items()])
    if stack is not None:
        parts = ", ".join(f"{part.name} {part.amount:.3g} %" for part in stack.parts)
        caption = "All GPUs of the cluster, used or not: spares and nodes in repair are paid for too."
        table = _of_cluster(document, account)
        items.append(Figure("the-whole-cluster", stack, f"One bar of all GPU-time owned: {parts}.", caption, table))
    notes = [basis(focus)]
    if account.a_year is not None:
        notes.append("A year is a year of running like this: amounts of the run over its length, times 365.2425 days.")
    if account.price is not None:
        notes.append("The price of a GPU-hour is all that was paid over all GPU-hours owned, idle ones included.")
    return Section("where-the-time-goes", chart.title, _amounts(document, account), tuple(items), tuple(notes))


def _amounts(document: RunDocument, account: ResourceAccount) -> tuple[str, ...]:
    share = document.time_shares["productive"]
    days = "" if account.window is None else f" in {account.window / DAY:.3g} days"
    productive = f"{gpu_hours(share * account.requested)} became training whose result was kept"
    texts = [f"The jobs asked for {gpu_hours(account.requested)}{days}; {productive}."]
    if account.price is not None and account.owned is not None:
        whole, hour, lost = (
            money(account.price * amount, account.currency)
            for amount in (account.owned, HOUR, (1 - share) * account.requested)
        )
        texts.append(
            f"The cluster cost {whole} per run, which is {hour} for each GPU-hour owned. At this price what the jobs "
            f"lost is worth {lost} per run."
        )
    if document.energy is not None:
        texts.append(f"The facility took {NumberFormat('MWh', _MWH).plain(document.energy.total_j)} per run.")
    return tuple(texts)


def lost_time(focus: ReplayedScenario) -> Bars:
    """Return what each phase took of the requested GPU-time, of the results."""
    return lost_shares(focus.document.time_shares, _intervals(focus))


def lost_shares(shares: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]) -> Bars:
    """Return what each phase took of the requested GPU-time, in percent, the largest loss first."""
    losses = sorted((name for name in JOB_BUCKETS if name != "productive" and shares[name]), key=lambda n: -shares[n])
    bars = tuple(Bar(bucket_label(name), (100 * shares[name],), (intervals.get(name),)) for name in losses)
    title = f"{PERCENT.value(shares['productive'])} of the requested GPU-time became training"
    if bars:
        title += f"; the largest loss is {bars[0].name}, {100 * shares[losses[0]]:.2g} %"
    return Bars(title, "% of the requested GPU-time", ("lost",), bars)


def _intervals(focus: ReplayedScenario) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the losses [%], where the replications of the document are available.

    There are none where chance is not in the replications: of a log, and where all of them come to the same.
    """
    if focus.document.replications != focus.replications or replays_a_log(focus.prepared):
        return {}
    return loss_intervals(focus.ensemble.results)


def loss_intervals(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the losses [%] by bucket, where they have a width."""
    bases = [sum(job.requested for job in result.jobs) for result in results]
    amounts = np.array([np.sum([job.buckets for job in result.jobs], axis=0) for result in results])
    intervals = {}
    for index, name in enumerate(JOB_BUCKETS):
        estimate = ratio_interval(amounts[:, index], bases)
        if estimate is not None and estimate[2] - estimate[1] > 1e-9:
            # A loss is not below nothing; only slowed training can be below it.
            low = estimate[1] if name == "degraded" else max(estimate[1], 0.0)
            intervals[name] = (100 * low, 100 * estimate[2])
    return intervals


def where_of_jobs(document: RunDocument, account: ResourceAccount | None = None) -> TableBlock:
    """Return where the GPU-time that named jobs requested went."""
    requested = sum(job.requested_gpu_s for job in document.per_job.values())
    return where(of_jobs(document), requested, "the GPUs of the jobs, from arrival to end", account)


def _of_cluster(document: RunDocument, account: ResourceAccount) -> TableBlock:
    shares, owned, price = document.cluster_shares, account.owned or 0.0, account.price or 0.0
    columns: tuple[Column[str], ...] = (
        Column("all GPUs, in and outside jobs", bucket_label),
        Column("share of owned", lambda name: PERCENT.value(shares[name])),
        Column("GPU-hours", lambda name: hours(shares[name] * owned), account.owned is not None),
        Column(
            f"{account.currency} per run", lambda name: money(shares[name] * owned * price, account.currency),
            account.price is not None,
        ),
        Column("what it is", lambda name: BUCKETS[name].gloss, is_number=False, is_gloss=True),
    )  # fmt: skip
    rows = sorted((name for name in shares if shares[name]), key=lambda name: -shares[name])
    return table_of("Where the time of all GPUs went", rows, columns)


# ----------------------------------------
# What was lost to which cause, and in which phase.

_MOST = 15  # causes in rows of their own
_DRAWN = 0.0005  # share of all that is lost below which a phase has no column in the picture; it has one in the table


class Losses(NamedTuple):
    """GPU-time lost by cause and phase [GPU s]: the largest cause first, those beyond 15 together in the last row."""

    causes: list[str | None]  # keys; ``None`` for the last row of several causes, which may have any name
    phases: list[str]  # buckets that are not empty
    amounts: NDArray[np.float64]  # by both

    @property
    def names(self) -> list[str]:
        """The names of rows; causes that would look alike by their keys."""
        shown = ["other causes" if cause is None else cause_name(cause) for cause in self.causes]
        return [
            f"“{cause}”" if cause not in (None, NO_FAILURE) and shown.count(name) > 1 else name
            for cause, name in zip(self.causes, shown, strict=True)
        ]

    @property
    def total(self) -> float:
        """All that is lost, of which gains elsewhere are not taken away: no part is more than it [GPU s]."""
        return float(np.clip(self.amounts, 0, None).sum())

    def part(self, amount: float) -> str:
        """Return a part of all that is lost, in percent."""
        return PERCENT.value(float(amount) / self.total)

    def title(self, what: str) -> str:
        """Return which cause costs most, and something about it."""
        first = self.causes[0]
        if first == NO_FAILURE:
            return f"Time spent without any failure costs the most{what}"
        return f"Failures of “{'other causes' if first is None else cause_name(first)}” cost the most{what}"


def losses_of(losses: Mapping[str, Mapping[str, float]]) -> Losses:
    """Return what was lost, from GPU-time by cause and bucket as in the document of a run [GPU s]."""
    table = np.array([list(row.values()) for row in losses.values()])
    buckets, every = list(next(iter(losses.values()))), list(losses)
    used = [index for index in range(len(buckets)) if table[:, index].any()]
    order = [int(index) for index in np.argsort(-table.sum(axis=1), kind="stable") if table[index].any()]
    causes: list[str | None] = [every[index] for index in order]
    amounts = table[np.ix_(order, used)]
    if len(causes) > _MOST:
        causes = [*causes[: _MOST - 1], None]
        amounts = np.vstack([amounts[: _MOST - 1], amounts[_MOST - 1 :].sum(axis=0)])
    return Losses(causes, [buckets[index] for index in used], amounts)


@of_focus
def losses_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where nothing was lost."""
    losses, account = losses_of(focus.document.loss_gpu_s), account_of(focus)
    amounts, total = losses.amounts, float(losses.amounts.sum())
    if not losses.phases or total <= 0:
        return None
    rows, columns = amounts.sum(axis=1), amounts.sum(axis=0)
    largest = [f"{name} {gpu_hours(float(row))}" for name, row in zip(losses.names[:3], rows, strict=False)]
    alt = f"Causes by phases, shaded by GPU-hours lost: {gpu_hours(total)} in all. {'; '.join(largest)}."
    caption = "GPU-hours of a mean replication; what is spent without any failure, such as saves, is in “no failure”."
    table = _losses_table(focus.document, losses, account)
    picture = Figure("losses", heat_map(losses), alt, caption, table)
    worth = "" if account.price is None else f", worth {money(total * account.price, account.currency)}"
    order = np.argsort(-columns, kind="stable")[:3]
    phases = ", ".join(f"{bucket_label(losses.phases[at])} {losses.part(columns[at])}" for at in order)
    share = PERCENT.value(total / account.requested)
    text = f"The jobs lost {gpu_hours(total)}, {share} of what they asked for{worth}. By phase: {phases}."
    notes = [basis(focus)]
    if amounts.min() < -_DRAWN * total:
        notes.append(
            "Below nothing is what replicas do for those that are missing; shares are of all else that is lost."
        )
    title = losses.title(f": {gpu_hours(float(rows[0]))}, {losses.part(rows[0])} of all that is lost")
    return Section("losses", title, (text,), (picture,), tuple(notes))


def heat_map(losses: Losses) -> HeatMap:
    """Return causes by phases in GPU-hours; phases that hardly count share a column."""
    amounts = losses.amounts
    is_shown = np.abs(amounts).sum(axis=0) >= _DRAWN * losses.total
    columns = [bucket_label(phase) for phase, shown in zip(losses.phases, is_shown, strict=True) if shown]
    rest = [bucket_label(phase) for phase, shown in zip(losses.phases, is_shown, strict=True) if not shown]
    values = amounts[:, is_shown]
    if rest:
        columns.append("other phases" if len(rest) > 1 else rest[0])
        values = np.column_stack([values, amounts[:, ~is_shown].sum(axis=1)])
    texts = [["" if not value else compact(value) for value in row] for row in values]
    most = int(np.argmax(values.sum(axis=0)))
    title = losses.title(f"; {columns[most]} is {losses.part(values[:, most].sum())} of all that is lost")
    shown = (values / HOUR).tolist()
    return HeatMap(title, "GPU-hours", tuple(losses.names), tuple(columns), shown, texts, "cause", "phase", False)


def _losses_table(document: RunDocument, losses: Losses, account: ResourceAccount) -> TableBlock:
    counts = {cause: row.mean for cause, row in document.interruptions_by_cause.items()}
    interruptions = [0.0 if cause is None else counts.get(cause, 0.0) for cause in losses.causes]
    everything, amounts, price = sum(counts.values()), losses.amounts, account.price
    if None in losses.causes:
        interruptions[-1] = everything - sum(interruptions)
    most = float(np.abs(amounts).max())
    total = len(losses.names)  # the row of all causes
    names, often, cells = [*losses.names, "all causes"], [*interruptions, everything], [*amounts, amounts.sum(axis=0)]

    def phase(index: int) -> Column[int]:
        """Return the column of a phase, shaded but in the row of all causes."""
        return Column(
            bucket_label(losses.phases[index]),
            lambda row: hours(cells[row][index]),
            shade=lambda row: None if row == total else max(float(cells[row][index]), 0.0) / most,
        )

    columns: list[Column[int]] = [
        Column("cause", lambda row: names[row]),
        Column("interruptions", lambda row: f"{often[row]:,.3g}" if often[row] < 1000 else f"{often[row]:,.0f}"),
        *map(phase, range(len(losses.phases))),
        Column("all", lambda row: hours(float(cells[row].sum()))),
        Column("share of losses", lambda row: losses.part(float(cells[row].sum()))),
        Column(
            account.currency, lambda row: money(float(cells[row].sum()) * (price or 0.0), account.currency),
            price is not None,
        ),
    ]  # fmt: skip
    return table_of("GPU-hours lost by cause and phase, in a mean replication", range(total + 1), columns)
