"""One scenario: how much of the time becomes training, where the rest goes, and what a formula says of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.amounts import (
    COUNT,
    GPU_YEARS,
    OF_HUNDRED,
    PERCENT,
    POINTS,
    NumberFormat,
    capital,
    cell_forms,
    compact,
    count_text,
    form_of,
    gpu_hours,
    gpu_hours_form,
    hours,
    interval_text,
    money,
    money_form,
    number_of,
    people_form,
    percent_text,
    points_text,
    range_text,
    short_text,
    text_or_dash,
    time_form,
    time_text,
)  # fmt: skip
from ettrick.analysis.metrics import BUCKETS, METRICS, RESTART, bucket_label, rows_of
from ettrick.analysis.page.account import account_of, basis, of_focus, requested_share
from ettrick.analysis.page.charts.data import (
    Bar,
    Bars,
    ChartAxis,
    Curves,
    HeatMap,
    Series,
    Stack,
    StackPart,
    Waterfall,
    WaterfallStep,
)  # fmt: skip
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import bucket_words, cause_name, cause_words
from ettrick.analysis.page.model import Figure, Section, grid, joined
from ettrick.analysis.page.sourced import SourcedEstimate, SourcedNumber, SourceDocument, number, ranged, total, worded
from ettrick.analysis.results.models import NodesDown
from ettrick.analysis.results.run import LEVELS, nodes_down, replays_a_log
from ettrick.analysis.results.step import stores_of
from ettrick.analysis.statistics.differences import FEWEST_EVENTS
from ettrick.analysis.statistics.estimates import ratio_interval
from ettrick.analysis.statistics.intervals import unseen
from ettrick.analysis.terminal import repairs_text
from ettrick.sim import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, units
from ettrick.sim.formulas.arrays import exceedance
from ettrick.sim.formulas.nodes import missing_nodes_pmf
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.page.account import ResourceAccount
    from ettrick.analysis.page.model import FirstScreen, Number, TableBlock, Words
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.results.explained import LayoutSummary
    from ettrick.analysis.results.models import ClosedFormSummary, RunDocument
    from ettrick.sim import Prepared, PreparedJob, Result, Scenario
    from ettrick.sim.scenario.model import Parallelism

# ----------------------------------------
# The first screen.

_MOST_BARS = 8
_LEAST_SHARE = 5e-5
_MOST_JOBS = 20  # jobs whose numbers are added up in a formula that somebody may still want to follow
_FEW = 4  # replications below which an interval does not say how many digits a mean deserves
_SAME = 5e-4  # a difference of shares that rounds to nothing
_NEXT = 0.1  # the second largest loss is named where it is at least this part of the largest
_NORMAL = 1.96  # half the width of a 95 % interval of a normal distribution, in standard deviations


class _Run(NamedTuple):
    """A run: its numbers with their sources, its document, its ETTR, and what time was lost to, the most first."""

    places: SourceDocument
    document: RunDocument
    ettr: SourcedEstimate | None
    losses: list[tuple[str, SourcedNumber]]

    @property
    def has_one_main_loss(self) -> bool:
        """Whether the largest loss is more than all others together."""
        return self.losses[0][1].value > sum(share.value for _, share in self.losses[1:])

    @property
    def named(self) -> list[tuple[str, SourcedNumber]]:
        """The largest loss, and the second one where it is worth a word."""
        most = self.losses[0][1].value
        return [self.losses[0], *(loss for loss in self.losses[1:2] if loss[1].value >= _NEXT * most)]

    @property
    def main_loss(self) -> str:
        """What most time is lost to, as the start of a sentence."""
        where = bucket_words(self.losses[0][0])
        return f"Most of what is lost goes to {where}" if self.has_one_main_loss else f"The largest loss is {where}"

    @property
    def requested(self) -> SourcedNumber | None:
        """GPU-time that all jobs ask for [GPU s]; ``None`` where too many would have to be added up."""
        jobs = list(self.document.per_job)
        parts = (self.places.at("per_job", name, "requested_gpu_s") for name in jobs[:_MOST_JOBS])
        return total(part for part in parts if part is not None) if len(jobs) <= _MOST_JOBS else None

    def of_job(self, key: str) -> SourcedNumber | None:
        """Return a number of the only job; ``None`` where there are several."""
        jobs = list(self.document.per_job)
        return self.places.at("per_job", jobs[0], key) if len(jobs) == 1 else None

    def mean(self, found: SourcedEstimate, form: NumberFormat) -> Number:
        """Return a mean with the digits that its interval deserves, where that comes from enough replications."""
        return number(found.mean, form, None if self.document.replications < _FEW else found.interval)


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: how much of the time becomes training, or what streams or services come to."""
    # Of reports: a run in a terminal does not wait for what reads studies.
    from ettrick.analysis.page.chapters import fleet, services
    from ettrick.analysis.page.first_screen import chance, first_screen, not_covered, not_known, stated, variability

    if not report_data.run.fleet.is_empty:
        return fleet.opening(report_data)
    if not report_data.run.per_job:
        return services.opening(report_data)
    document, places = report_data.run, SourceDocument(report_data.results.file, report_data.run)
    scenario: Scenario | None = None if report_data.focus is None else report_data.focus.scenario
    shares = [(name, places.at("time_shares", name)) for name in document.time_shares if name != "productive"]
    losses = [(name, share) for name, share in shares if share is not None and share.value >= _LEAST_SHARE]
    run = _Run(places, document, places.estimate("metrics", "ettr"), sorted(losses, key=lambda loss: -loss[1].value))
    what, otherwise = "the share of the time that becomes training", stated(scenario, priced=document.cost is not None)
    doubt = (
        not_known(places, "metrics", "ettr", form=PERCENT, what=what, otherwise=otherwise),
        chance(places.at("replications"), run.ettr),
        variability(places, "metrics", "ettr", form=PERCENT),
        _off(run),
        _beyond(run),
    )
    drivers = (_finish(places), _largest(run), _interruptions(run), _formula(run), _costliest(run))
    return first_screen(
        (scenario.description.strip() if scenario is not None else "") or document.scenario,
        _answer(run),
        doubt if run.ettr is not None else (),
        _glance(run) if run.ettr is not None and run.losses else None,
        drivers,
        not_covered(document.notes, document.warnings, document.assumptions),
        about="how much of the time becomes training",
    )


def _answer(run: _Run) -> Words:
    ettr = run.ettr
    if ettr is None:
        return ("No job got to run, so no time was asked for that could become training.",)
    asks = "the job asks for" if len(run.document.per_job) == 1 else "the jobs ask for"
    share = (run.mean(ettr, OF_HUNDRED), *worded(ettr, OF_HUNDRED)[1:])
    start: Words = (f"Of every hundred GPU-hours that {asks}, ", *share, " become training that lasts")
    if not run.losses:
        return (*start, "; nothing is lost.")
    lost = ettr.changed(lambda share: 1 - share)
    goes = "mostly to" if run.has_one_main_loss else "first of all to"
    where = ", then to ".join(bucket_words(bucket) for bucket, _ in run.named)
    return (*start, "; the rest", *_in_gpu_time(run, lost), *_in_money(run, lost), f", goes {goes} {where}.")


def _off(run: _Run) -> Words:
    """Return the second interval of what goes with the time of a step, where that is modelled."""
    currency = "" if run.document.cost is None else run.document.cost.currency
    parts: list[Words] = []
    for name in _modelled(run.document):
        found, band = run.places.estimate("metrics", name), run.places.ends("metrics", name, "band90")
        if found is not None and band is not None:
            form = people_form(name, [found.mean.value], currency)
            parts.append((f"{METRICS[name].label} ", *worded(found, form), " by sampling, ", *ranged(*band, form)))
    return (f"{_OFF}, the second range holds with 90 %: ", *joined(parts, "; "), ".") if parts else ()


def _beyond(run: _Run) -> Words:
    """Return the other ETTR where failures were counted on smaller jobs, with the source of how they grow."""
    for place, row in enumerate(run.document.closed_form.extrapolated):
        at = "closed_form", "extrapolated", place
        usual, faster = run.places.at(*at, "ettr"), run.places.at(*at, "ettr_superlinear")
        if usual is not None and faster is not None:
            start = f"Failures were counted on at most {row.counted_on_gpus[-1]:,} GPUs. If beyond they grow "
            how = f"with the power {row.exponent:g} ({row.exponent_source}), the formula comes to "
            return (start, how, number(faster, PERCENT), " in place of ", number(usual, PERCENT), ".")
    return ()


def _in_gpu_time(run: _Run, lost: SourcedEstimate) -> Words:
    """Return what is lost, as GPU-time: a year of one job, or a whole run of several."""
    gpus, requested = run.of_job("gpus"), run.requested
    if gpus is not None:
        years = lost.changed(lambda share: share * gpus)
        return (", about ", run.mean(years, GPU_YEARS), " a year on ", number(gpus, COUNT), " GPUs")
    if requested is None:
        return ()
    amount = lost.changed(lambda share: share * requested)
    return (", about ", run.mean(amount, gpu_hours_form(amount.mean.value)), " of the run")


def _in_money(run: _Run, lost: SourcedEstimate) -> Words:
    """Return what the lost time costs at the price of all GPU-time that is owned; nothing without prices."""
    cost, *shares = (
        run.places.at(*keys)
        for keys in (("cost", "total"), ("time_shares", "productive"), ("cluster_shares", "productive"))
    )
    of_requested, of_owned = shares
    if cost is None or cost.value <= 0 or of_requested is None or of_owned is None or of_requested.value <= 0:
        return ()
    amount = lost.changed(lambda share: share * requested_share(of_requested, of_owned) * cost)
    form = money_form(cost.value, run.places.get("cost", "currency"))
    return (" or ", run.mean(amount, form), " of the ", number(cost, form), " that the cluster costs per run")


def _finish(places: SourceDocument) -> Words:
    done, in_time = places.estimate("metrics", "time_to_work"), places.estimate("metrics", "p_finish_by")
    parts: list[Words] = []
    if done is not None:
        parts.append(("the work is done after ", *worded(done, time_form(done.mean.value))))
    if in_time is not None:
        parts.append(("the probability to finish in time is ", *worded(in_time, PERCENT)))
    words = joined(parts, "; ")
    return (capital(str(words[0])), *words[1:], ".") if words else ()


def _largest(run: _Run) -> Words:
    if not run.losses:
        return ()
    (_, first), *others = run.named
    amount: Words = ()
    if run.requested is not None:
        lost = first * run.requested
        amount = (" of the time, ", number(lost, gpu_hours_form(lost.value)), " of a run")
    rest = [(f"; next comes {bucket_words(name)}: ", number(share, PERCENT)) for name, share in others]
    return (f"{run.main_loss}: ", number(first, PERCENT), *amount, *joined(rest), ".")


def _interruptions(run: _Run) -> Words:
    places, jobs = run.places, len(run.document.per_job)
    count, between = places.estimate("metrics", "interruptions"), places.estimate("metrics", "mtti")
    if count is None:
        return ()
    # From arrival to end; several jobs end at different times.
    requested, gpus = run.of_job("requested_gpu_s"), run.of_job("gpus")
    span: Words = (" in a run",)
    if requested is not None and gpus is not None and gpus.value:
        length = requested / gpus
        span = (" in a run of ", number(length, time_form(length.value)))
    if count.mean.value == 0:
        return ("Nothing interrupts training", *span, ".")
    every = () if between is None else (" every ", *_by_counts(run, between, time_form(between.mean.value)), ":")
    causes = list(run.document.interruptions_by_cause)
    most = places.at("interruptions_by_cause", causes[0], "mean") if len(causes) > 1 else None
    often: Words = () if most is None else (f"; the most frequent is {cause_words(causes[0])}, ", number(most, COUNT))
    who, of_all = ("training", "") if jobs == 1 else ("a job", ", all jobs together")
    times = _by_counts(run, SourcedEstimate(count.mean), COUNT)
    return (f"A failure interrupts {who}", *every, " ", *times, " times", *span, of_all, *often, ".")


def _by_counts(run: _Run, found: SourcedEstimate, form: NumberFormat) -> Words:
    """Return a mean of interruptions or of times between them, with an interval where there are enough replications.

    Elsewhere it has as many digits as the interruptions counted in all replications deserve: their variance is taken to
    be their mean, as for a Poisson process.
    """
    runs, mean = run.document.replications, found.mean
    if runs >= _FEW and found.low is not None and found.low.value > 0:
        return worded(found, form)
    half = _NORMAL * mean.value / math.sqrt(runs * (run.document.metrics["interruptions"].mean or math.inf))
    return (number(mean, form, (mean.value - half, mean.value + half)),)


def _formula(run: _Run) -> Words:
    formula, ettr = run.places.at("closed_form", "ettr"), run.ettr
    if formula is None or ettr is None:
        return ()
    start: Words = ("A formula of theory comes to ", number(formula, PERCENT), " without simulating")
    away, outside = ettr.mean - formula, run.places.at("closed_form", "simulated", "outside_ci95")
    if abs(away.value) < _SAME or (outside is not None and outside.value == 0):
        return (*start, ": the two agree within the sampling error.")
    side = "above" if away.value > 0 else "below"
    why = "." if outside is None else ", which is more than chance: the formula leaves something out."
    return (*start, "; the simulation is ", number(abs(away), POINTS), f" {side} it{why}")


def _costliest(run: _Run) -> Words:
    found = []
    for cause, buckets in run.document.loss_gpu_s.items():
        parts = [run.places.at("loss_gpu_s", cause, name) for name, amount in buckets.items() if amount]
        lost = total(part for part in parts if part is not None)
        if lost is not None and cause != NO_FAILURE:
            found.append((cause, lost))
    if not found:
        return ()
    cause, most = max(found, key=lambda entry: entry[1].value)
    amount = number(most, gpu_hours_form(most.value))
    return (f"Of all failures, {cause_words(cause)} costs most: ", amount, " of a run.")


def _glance(run: _Run) -> Figure:
    rows = tuple(
        Bar(capital(bucket_words(name)), (100 * share.value,)) for name, share in run.losses[:_MOST_BARS]
    )  # fmt: skip
    alt = f"Bars of the lost time: {'; '.join(f'{row.name} {row.values[0]:.3g} %' for row in rows[:3])}."
    return Figure("at-a-glance", Bars(run.main_loss, "% of the time", ("share",), rows), alt)


# ----------------------------------------
# Goodput, and where the requested GPU-time and that of the whole cluster went.

_MWH = units.ENERGY.units["MWh"]


def goodput(document: RunDocument) -> TableBlock:
    """Return the metrics that a run is judged by: mean, interval, spread of single runs."""
    metrics = {name: document.metrics[name] for name in rows_of("run") if name in document.metrics}
    # Quantiles need many replications; a column of dashes says nothing.
    has_quantiles = any(metric.p05 is not None and metric.p95 is not None for metric in metrics.values())
    rows = []
    for name, metric in metrics.items():
        form = cell_forms(name, "" if document.cost is None else document.cost.currency).value
        bound, entry = metric.lower_bound95, METRICS[name]
        mean = text_or_dash(metric.mean, form) if bound is None else f"> {form(bound)}"
        cells = [mean, interval_text(metric, form), text_or_dash(metric.std, form)]
        cells += [range_text((metric.p05, metric.p95), form)] if has_quantiles else []
        rows.append((f"{entry.sign}{entry.title}", *cells, entry.gloss))
    heads = ["", "mean", "95 % interval", "std. dev.", *(["5 %..95 % of runs"] if has_quantiles else [])]
    return grid("Goodput", heads, rows, gloss="what it is", note=" ".join(_on_intervals(document)))


def _on_intervals(document: RunDocument) -> Iterator[str]:
    """Yield what control variates and uncertain failure rates make of the interval of ETTR."""
    ettr, interrupted, runs = document.metrics["ettr"], document.interrupted, document.replications
    if ettr.controlled is not None and (ettr.controlled.worth or 0) > 1:
        interval = range_text(ettr.controlled.mean_ci95, percent_text)
        yield f"With control variates: ETTR {interval}, worth {ettr.controlled.worth:.3g} times the replications."
    elif not interrupted and runs >= FEWEST_EVENTS:
        most = percent_text(unseen(runs))
        yield f"No replication was interrupted: intervals know nothing of runs that are, up to {most} of all."
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
        for name in _modelled(document)
    ]
    if banded:
        yield f"{_OFF}: {', '.join(banded)} (90 %)."
    for row in document.closed_form.extrapolated:
        if row.ettr_superlinear is not None:
            faster, largest = percent_text(row.ettr_superlinear), row.counted_on_gpus[-1]
            yield (
                f"ETTR is {faster} by the formula, not {percent_text(row.ettr)}, if beyond {largest:,} GPUs the "
                f"failures of {row.bundle} grow with the power {row.exponent:g} ({row.exponent_source})."
            )


_OFF = "If the model of the step is off as much as it usually is"


def _modelled(document: RunDocument) -> list[str]:
    """Return the metrics of the headline that go with the time of a step, where that is modelled."""
    names = ("tokens_per_day", "program_goodput", "cost_per_token", "energy_per_token")
    return [name for name in names if name in document.metrics and document.metrics[name].band90 is not None]


@of_focus
def section(focus: ReplayedScenario) -> Section | None:
    """Return where the time goes; ``None`` where nothing was requested."""
    document = focus.document
    if document.metrics["ettr"].mean is None:
        return None
    account, chart = account_of(focus), waterfall(focus)
    steps = ", ".join(f"{change.name} {-change.amount:.2g} %" for change in chart.changes[:3]) or "none"
    alt = f"Waterfall from 100 % of the requested GPU-time to {chart.end[1]:.3g} % productive. Largest steps: {steps}."
    caption = "Each step takes away what one phase cost, the largest first"
    caption += "; whiskers: 95 % intervals of the means." if any(change.ci95 for change in chart.changes) else "."
    table = where(document, account)
    items: list[Figure | TableBlock] = [Figure("where-the-time-goes", chart, alt, caption, table), goodput(document)]
    stack = cluster_stack(document.cluster_shares)
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
    kept = f"{gpu_hours(share * account.requested)} became training whose result was kept"
    texts = [f"The jobs asked for {gpu_hours(account.requested)}{days}; {kept}."]
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


def waterfall(focus: ReplayedScenario) -> Waterfall:
    """Return the way from all requested GPU-time to what was productive, of the results."""
    return waterfall_of(focus.document.time_shares, _intervals(focus))


def waterfall_of(shares: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]) -> Waterfall:
    """Return the way from all requested GPU-time to what was productive, in percent, the largest loss first."""
    losses = sorted((name for name in JOB_BUCKETS if name != "productive" and shares[name]), key=lambda n: -shares[n])
    changes = tuple(WaterfallStep(bucket_label(name), -100 * shares[name], intervals.get(name)) for name in losses)
    title = f"{PERCENT.value(shares['productive'])} of the requested GPU-time became training"
    if changes:
        title += f"; the largest loss is {changes[0].name}, {abs(changes[0].amount):.2g} %"
    return Waterfall(title, "%", ("requested", 100.0), changes, ("productive (ETTR)", 100 * shares["productive"]))


def _intervals(focus: ReplayedScenario) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the changes [%], where the replications of the document are at hand.

    There are none where chance is not in the replications: of a log, and where all of them come to the same.
    """
    if focus.document.replications != focus.replications or replays_a_log(focus.prepared):
        return {}
    return change_intervals(focus.ensemble.results)


def change_intervals(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the changes [%] by bucket, where they have a width."""
    bases = [sum(job.requested for job in result.jobs) for result in results]
    amounts = np.array([np.sum([job.buckets for job in result.jobs], axis=0) for result in results])
    found = {}
    for index, name in enumerate(JOB_BUCKETS):
        estimate = ratio_interval(amounts[:, index], bases)
        if estimate is not None and estimate[2] - estimate[1] > 1e-9:
            # A loss ends at nothing; only slowed training can be below it.
            low = estimate[1] if name == "degraded" else max(estimate[1], 0.0)
            found[name] = (-100 * estimate[2], -100 * low)
    return found


def where(document: RunDocument, account: ResourceAccount | None = None) -> TableBlock:
    """Return where the requested GPU-time went: shares, GPU-hours, with an account what these are in a year."""
    requested = sum(job.requested_gpu_s for job in document.per_job.values())
    a_year, price = (None, None) if account is None else (account.a_year, account.price)
    heads = ["", "share", "GPU-hours", *(["GPU-hours a year"] if a_year is not None else [])]
    heads += [f"{account.currency} a year"] if account is not None and a_year and price is not None else []
    heads.append("main cause")
    rows: list[tuple[str, ...]] = []

    def add(label: str, share: float, cause: str, gloss: str) -> None:
        cells = [percent_text(share), f"{share * requested / HOUR:,.0f}"]
        if account is not None and a_year is not None:
            cells.append(hours(share * requested * a_year))
            cells += [] if price is None else [money(share * requested * a_year * price, account.currency)]
        rows.append((label, *cells, cause, gloss))

    shown = {name: share for name, share in document.time_shares.items() if share or name == "productive"}
    for name, share in shown.items():
        add(bucket_label(name), share, _main_cause(document.loss_gpu_s, name), BUCKETS[name].gloss)
    add("total", sum(shown.values()), "", "the GPUs of the jobs, from arrival to end")
    shades = [(None, max(share, 0.0), *[None] * (len(heads) - 1)) for share in (*shown.values(), 0.0)]
    return grid("Where every GPU-hour went", heads, rows, (0, len(heads) - 1), gloss="what it is", shades=shades)


def _main_cause(losses: Mapping[str, Mapping[str, float]], bucket: str) -> str:
    amounts = {} if bucket == "productive" else {name: parts[bucket] for name, parts in losses.items()}
    if sum(amounts.values()) <= 0:
        return ""
    name = max(amounts, key=lambda key: amounts[key])
    label = "no failure" if name == NO_FAILURE else name
    return f"{label} ({percent_text(amounts[name] / sum(amounts.values()), 0)})"


def cluster_stack(shares: Mapping[str, float]) -> Stack | None:
    """Return what all GPU-time owned was, in percent; ``None`` if jobs held all of it."""
    outside = sorted((name for name in CLUSTER_BUCKETS if name not in JOB_BUCKETS and shares[name] > 0),
                     key=lambda name: -shares[name])  # fmt: skip
    if not outside:
        return None
    productive = shares["productive"]
    lost = sum(shares[name] for name in JOB_BUCKETS) - productive
    # Replicas that keep the batch of a missing one do more than their own work: what is lost can be below nothing.
    parts = [
        StackPart("productive", 100 * (productive + min(lost, 0.0)), 0),
        StackPart("lost by jobs", 100 * max(lost, 0.0), 1),
    ]
    parts += [StackPart(bucket_label(name), 100 * shares[name], BUCKETS[name].hue) for name in outside]
    largest = f"{bucket_label(outside[0])} ({PERCENT.value(shares[outside[0]])})"
    title = (
        f"{PERCENT.value(productive)} of all GPU-time owned is productive; outside jobs the largest part is {largest}"
    )
    return Stack(title, "%", tuple(part for part in parts if part.amount > 0))


def _of_cluster(document: RunDocument, account: ResourceAccount) -> TableBlock:
    shares, owned, price = document.cluster_shares, account.owned, account.price
    heads = ["all GPUs, in and outside jobs", "share of owned", *(["GPU-hours"] if owned is not None else [])]
    heads += [f"{account.currency} per run"] if price is not None else []
    rows = []
    for name in sorted((name for name in shares if shares[name]), key=lambda name: -shares[name]):
        cells = [PERCENT.value(shares[name])]
        if owned is not None:
            cells.append(hours(shares[name] * owned))
            cells += [] if price is None else [money(shares[name] * owned * price, account.currency)]
        rows.append((bucket_label(name), *cells, BUCKETS[name].gloss))
    return grid("Where the time of all GPUs went", heads, rows, gloss="what it is")


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
        """What rows are called; causes that would look alike by their keys."""
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
            return f"What is spent without any failure costs the most{what}"
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
    known = [0.0 if cause is None else counts.get(cause, 0.0) for cause in losses.causes]
    everything, amounts, price = sum(counts.values()), losses.amounts, account.price
    if None in losses.causes:
        known[-1] = everything - sum(known)
    rows = []
    for name, count, cells in zip(
        [*losses.names, "all causes"], [*known, everything], [*amounts, amounts.sum(axis=0)], strict=True
    ):
        lost = float(cells.sum())
        priced = [] if price is None else [money(lost * price, account.currency)]
        often = f"{count:,.3g}" if count < 1000 else f"{count:,.0f}"
        rows.append((name, often, *map(hours, cells), hours(lost), losses.part(lost), *priced))
    heads = ["cause", "interruptions", *map(bucket_label, losses.phases), "all", "share of losses"]
    heads += [account.currency] if price is not None else []
    most, empty = float(np.abs(amounts).max()), [None] * (len(heads) - 2 - len(losses.phases))
    shades = [(None, None, *(max(float(cell), 0.0) / most for cell in cells), *empty) for cells in amounts]
    title = "GPU-hours lost by cause and phase, in a mean replication"
    return grid(title, heads, rows, shades=[*shades, (None,) * len(heads)])


# ----------------------------------------
# How many nodes are missing at once, beside what independent nodes would do.

_MOST_POINTS = 400
_LEAST = 1e-5  # share of the time below which curves are not drawn [-]
_TINY = 1e-4  # share of the time below which no exact number is given [-]
_WIDER = 1.2  # variance over that of independent nodes from which on it is worth a word [-]
_DAILY = "independent, mean of each day"
_MOST_DAYS = 60


class Exceedance(NamedTuple):
    """For which share of the time more than so many nodes are missing at once."""

    # simulated, independent: ``P(X > k)`` for k = 0, 1, ..., N [-]: pooled over replications, and of N independent
    # nodes with the same mean
    simulated: NDArray[np.float64]
    independent: NDArray[np.float64]
    # The same of independent nodes whose mean is at any time that of the day [-]; ``None`` where too little is known.
    daily: NDArray[np.float64] | None = None

    @property
    def named(self) -> dict[str, NDArray[np.float64]]:
        """The curves that are known, by name."""
        daily = {} if self.daily is None else {_DAILY: self.daily}
        return {"simulated": self.simulated, **daily, "independent nodes": self.independent}


def exceedance_of(results: Sequence[Result], nodes: int) -> Exceedance | None:
    """Return the exceedance curves of the number of nodes that are down; ``None`` if none ever was.

    Time is pooled over replications, so that the sum of either curve is the mean number down.

    References
    ----------
    The sum of P(X > k) over k is the mean of a count: W. Feller, An Introduction to Probability Theory and Its
    Applications, volume 1, 3rd edition (1968), chapter XI.1.
    """
    law = np.zeros(nodes + 1)
    for result in results:
        for count, seconds in result.down_times.items():
            law[count] += seconds
    if not law[1:].any():
        return None
    law /= law.sum()
    mean, daily = float(np.arange(nodes + 1) @ law), _daily_law(results, nodes)
    independent = missing_nodes_pmf(nodes, min(mean / nodes, 1.0))
    return Exceedance(exceedance(law), exceedance(independent), None if daily is None else exceedance(daily))


def _daily_law(results: Sequence[Result], nodes: int) -> NDArray[np.float64] | None:
    """Return the law of how many independent nodes are down whose mean is that of each day, over all replications.

    A mixture of binomial laws, as heavy as the days are long; long runs have longer windows. ``None`` with few
    replications, whose mean of a day is that of a few failures; without a log of outages; or with one window.
    """
    lengths = np.array([sum(result.down_times.values()) for result in results])
    longest = float(lengths.max())
    count = min(int(np.ceil(longest / DAY)), _MOST_DAYS)
    if len(results) < 5 or count < 2 or not any(result.outages for result in results):
        return None
    width = longest / count
    outages = np.array([outage[1:3] for result in results for outage in result.outages])
    edges = width * np.arange(count + 1)
    down = np.array([np.clip(edge - outages[:, 0], 0, outages[:, 1] - outages[:, 0]).sum() for edge in edges])
    seconds = np.diff([np.minimum(lengths, edge).sum() for edge in edges])
    law = np.zeros(nodes + 1)
    for missing, weight in zip(np.diff(down), seconds, strict=True):
        if weight > 0:
            law += weight * missing_nodes_pmf(nodes, float(np.clip(missing / weight / nodes, 0, 1)))
    found: NDArray[np.float64] = law / law.sum()
    return found


@of_focus
def missing_nodes_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where no node was ever down."""
    prepared, results = focus.prepared, focus.ensemble.results
    curves = exceedance_of(results, prepared.serving)
    down = nodes_down(focus.ensemble.tally.down_times, prepared.serving)
    if curves is None or down is None:
        return None
    title = _nodes_down_title(down, prepared, curves)
    spares = prepared.spares
    chart = Curves(
        title,
        ChartAxis("nodes missing at once"),
        ChartAxis("share of the time with more than so many missing", is_log=True),
        _exceedance_series(curves),
        edges=((float(spares), f"{spares:,} hot spares"),) if spares else (),
    )
    alt = (
        f"Share of the time against the number of missing nodes, falling: more than {down.p50:,} for half of the time "
        f"at most, more than {down.p99:,} for 1 % at most, {down.max:,} in the worst moment. Dashed: independent nodes."
    )
    caption = "Nodes that are down anywhere in the cluster. Dashed: the binomial law with the same mean at all times"
    caption += "." if curves.daily is None else ", and binomial laws with the mean of each day."
    picture = Figure("missing-nodes", chart, alt, caption, down_at_once(down, curves, spares))
    of = "" if len(results) == focus.wanted else f" the first {len(results)} of"
    note = f"Of {focus.name}: the time of{of} {number_of(focus.wanted, 'replication')} together, after the warm-up."
    return Section("missing-nodes", title, tuple(_on_nodes_down(down, curves, focus)), (picture,), (note,))


def _nodes_down_title(down: NodesDown, prepared: Prepared, curves: Exceedance | None = None) -> str:
    """Return how many nodes are enough for 99 % of the time, and how many independent failures would need."""
    daily = None if curves is None else curves.daily
    independent = down.independent.p99 if daily is None else _quantile(daily, LEVELS["p99"])
    nodes = "one node is" if down.p99 == 1 else f"{down.p99:,} nodes are"
    title = f"For 99 % of the time no more than {nodes} missing at once"
    is_wider = down.p99 > independent and _takes_several(prepared)
    return f"{title}; of nodes that fail one by one, no more than {independent:,}" if is_wider else title


def down_at_once(down: NodesDown, curves: Exceedance | None = None, spares: int = 0, what: str = "nodes") -> TableBlock:
    """Return how many nodes, or domains, are enough for how much of the time, simulated and of independent ones."""
    daily = None if curves is None else curves.daily

    def numbers(of: object) -> list[str]:
        return [text_or_dash(getattr(of, name), "{:,}".format) for name in LEVELS]

    rows = [["simulation", *numbers(down), f"{down.max:,}"]]
    rows += [] if daily is None else [[_DAILY, *(f"{_quantile(daily, level):,}" for level in LEVELS.values()), ""]]
    rows += [
        [f"independent {what}", *(text_or_dash(getattr(down.independent, name), "{:,}".format) for name in LEVELS), ""]
    ]
    for row in rows:
        row.insert(1, count_text(down.mean))
    heads = ["", "mean", *(f"P{100 * level:g}" for level in LEVELS.values()), "most"]
    if curves is not None and spares:
        heads.append(f"time with more than {spares:,} missing")
        for row, curve in zip(rows, curves.named.values(), strict=True):
            row.append(_time(curve[spares]).removesuffix(" of the time"))
    return grid(f"{what.capitalize()} down at once", heads, rows)


_LAST = 4  # numbers of nodes of which the terminal says how often more are down


def _more_than(down: NodesDown, what: str) -> Iterator[str]:
    for row in down.more_than[-_LAST:]:
        yield f"more than {row.count:,} {what} ({row.gpus:,} GPUs) for {percent_text(row.time_share)} of the time"


def _exceedance_series(curves: Exceedance) -> tuple[Series, ...]:
    """Return the curves as far as they are above what is drawn, thinned out where they are long."""
    known = curves.named
    last = max(int(np.flatnonzero(curve >= _LEAST)[-1]) if (curve >= _LEAST).any() else 0 for curve in known.values())
    places = np.arange(0, last + 2, max(1, -(-last // _MOST_POINTS)))
    places = places[places < len(curves.simulated)]
    return tuple(
        Series(
            name,
            tuple(map(float, places)),
            tuple(float(value) if value >= _LEAST else None for value in curve[places]),
            look="step" if name == "simulated" else "dashed",
            hue={"simulated": 0, _DAILY: 1}.get(name, -1),
        )
        for name, curve in known.items()
    )


def _on_nodes_down(down: NodesDown, curves: Exceedance, focus: ReplayedScenario) -> Iterator[str]:
    prepared, daily, spares = focus.prepared, curves.daily, focus.prepared.spares
    mean = form_of("nodes", [down.mean]).plain(down.mean)
    text = f"On average {mean} of {prepared.serving:,} nodes are missing."
    if spares:
        text += f" More nodes than the {spares:,} hot spares are missing for {_time(curves.simulated[spares])}"
        text += f"; of independent nodes for {_time(curves.independent[spares])}"
        text += "." if daily is None else f", with the mean of each day for {_time(daily[spares])}."
    yield text
    dispersion = left = down.dispersion
    if dispersion is None or left is None:
        return
    text = f"The variance of the number is {dispersion:.2g} times that of independent nodes with the same mean"
    if daily is not None:
        left = _variance(curves.simulated) / _variance(daily)
        text += f" at all times, and {left:.2g} times that of independent nodes with the mean of each day"
    several, is_wider = _takes_several(prepared), max(left, dispersion) > _WIDER
    # Why it varies more than that of independent nodes, so far as the scenario describes it.
    if dispersion > _WIDER and focus.scenario.initial == "new" and not prepared.warmup:
        text += ". The run begins with all nodes healthy: the mean rises from none, and that makes it larger"
    if is_wider and any(
        source.tempo is not None or source.law is None or not source.law.memoryless for source in prepared.sources
    ):
        text += ". Failure rates that change with time may make it larger"
    if left > _WIDER and several:
        text += ". Failures that take several nodes at once make it larger"
    if is_wider and not several:
        text += ". No cause here takes several nodes at once"
    yield f"{text}."


def _takes_several(prepared: Prepared) -> bool:
    sizes = {part: int(np.diff(offsets).max()) for part, (offsets, _) in prepared.blast.items() if len(offsets) > 1}
    return any(source.blast is not None or sizes.get(source.part, 1) > 1 for source in prepared.sources)


def _variance(curve: NDArray[np.float64]) -> float:
    """Return the variance of a count [-]: the sum of (2 k + 1) P(X > k), less the square of the mean."""
    return float((2 * np.arange(len(curve)) + 1) @ curve - curve.sum() ** 2)


def _quantile(curve: NDArray[np.float64], level: float) -> int:
    """Return the smallest number that is enough for a share of the time [-]."""
    return int(np.argmax(curve <= 1 - level))


def _time(share: float) -> str:
    if not share:
        return "none of the time"
    return "less than 0.01 % of the time" if share < _TINY else f"{PERCENT.value(float(share))} of the time"


# ----------------------------------------
# What a formula says, beside what was simulated; `explain` shows it too.

_LOST = ("lost_work", "detection", "restart", "checkpoint_stall", "starved")
_ORDERS = {"exact": "exact", "first": "first order", "second": "second order"}
_POINT = 0.01
_CLOSE = 0.001  # difference of shares that does not matter [-]
TOO_FAR = 0.01  # difference of shares from which on a formula is no guide to what else would be [-]


@of_focus
def closed_form_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where nothing was simulated."""
    found = beside_simulation(focus.document)
    if found is None:
        return None
    waste = focus.document.closed_form.waste
    orders = [_orders(waste)] if waste is not None and converges(focus.document.closed_form) else []
    return replace(found, items=(*found.items, *orders), notes=(basis(focus), *found.notes))


def beside_simulation(document: RunDocument) -> Section | None:
    """Return a formula beside the simulation; ``None`` where nothing was simulated."""
    formula = document.closed_form
    notes = (*extrapolated_texts(formula), *(f"The formula assumes: {line}." for line in formula.assumptions))
    if formula.ettr is None:
        return Section("closed-form", "No formula applies to this scenario", tuple(formula.reasons), (), notes)
    seen = formula.simulated
    if seen is None or seen.ettr is None:
        return None
    wide = 0.0 if seen.ettr_ci95 is None else seen.ettr_ci95[1] - seen.ettr_ci95[0]
    apart = distance(formula)
    title = f"A formula says {PERCENT.value(formula.ettr)}, the simulation {PERCENT.value(seen.ettr)}: "
    if apart:
        title += f"{abs(apart) / _POINT:.2g} percentage points {'more' if apart > 0 else 'less'}"
    else:
        title += "too few runs to distinguish them" if wide > _POINT else "they agree"
    texts = [*_formula_texts(formula)]
    if seen.outside_ci95 and abs(apart) > TOO_FAR:
        texts.append("So far off it is no guide to how rare failures would have to be; none is shown.")
    return Section("closed-form", title, tuple(texts), (_beside_table(document),), notes)


def _formula_texts(formula: ClosedFormSummary) -> Iterator[str]:
    if formula.ettr is not None:
        yield f"ETTR {percent_text(formula.ettr)} by a formula ({formula.form}): expected shares in the long run."
    seen = formula.simulated
    if seen is not None and seen.ettr is not None:
        interval = "" if seen.ettr_ci95 is None else f"{range_text(seen.ettr_ci95, percent_text)}, "
        text = f"Simulated {percent_text(seen.ettr)} ({interval}{number_of(seen.replications, 'replication')})"
        if seen.outside_ci95:
            text += f": the formula is outside the 95 % interval by {points_text(seen.outside_ci95, '')}"
        elif seen.outside_ci95 is not None:
            text += ": the formula is inside the 95 % interval"
        yield f"{text}."


def distance(formula: ClosedFormSummary) -> float:
    """Return how much more the simulation says than the formula [-]; 0 where chance alone may have made it so."""
    seen = formula.simulated
    if formula.ettr is None or seen is None or seen.ettr is None or seen.outside_ci95 == 0:
        return 0.0
    apart = seen.ettr - formula.ettr
    return apart if abs(apart) >= _CLOSE else 0.0


def beside(document: RunDocument) -> dict[str, tuple[float | None, float]]:
    """Return by bucket what the formula and what the simulation says [-]; ``None`` where the formula says nothing.

    The formula knows reschedule, initialize and restore together, as ``restart``, and so does the simulation here. The
    simulated shares add up to 1.
    """
    shares = dict(document.time_shares)
    shares = {"restart": sum(shares.pop(name) for name in RESTART), **shares}
    formula = document.closed_form.time_shares
    found: dict[str, tuple[float | None, float]] = {name: (value, shares.pop(name)) for name, value in formula.items()}
    return found | {name: (None, share) for name, share in shares.items() if share}


def _beside_table(document: RunDocument) -> TableBlock:
    rows = []
    for name, (formula, simulated) in beside(document).items():
        label = " + ".join(map(bucket_label, RESTART if name == "restart" else (name,)))
        of_formula = "not in it" if formula is None else percent_text(formula)
        apart = "" if formula is None else points_text(simulated - formula)
        rows.append((label, of_formula, percent_text(simulated), apart))
    for name, value in document.closed_form.availability.items():
        mean = document.metrics[name].mean
        apart = "" if mean is None else f"{points_text(mean - value)}"
        seen = text_or_dash(mean, lambda share: percent_text(share, 3))
        rows.append((METRICS[name].short, percent_text(value, 3), seen, apart))
    return grid("Closed form beside the simulation", ("", "closed form", "simulation", "difference"), rows)


def extrapolated_texts(formula: ClosedFormSummary) -> Iterator[str]:
    """Yield a line for each bundle whose rates were counted on jobs of other sizes."""
    for row in formula.extrapolated:
        smallest, largest = row.counted_on_gpus
        sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        text = f"{row.bundle} was counted on jobs of {sizes} GPUs, '{row.job}' has {row.gpus:,}: ETTR "
        if row.ettr_proportional is not None:
            text += (
                f"{percent_text(row.ettr)} with {', '.join(row.kept)} as often as in that job and the other causes in "
                f"proportion to the GPUs, {percent_text(row.ettr_proportional)} with all in proportion to the GPUs"
            )
        else:
            text += f"{percent_text(row.ettr)} with failures in proportion to the GPUs"
        if row.ettr_superlinear is not None:
            faster = percent_text(row.ettr_superlinear)
            text += (
                f", {faster} if beyond {largest:,} they grow with the power {row.exponent:g} ({row.exponent_source})"
            )
        yield text


def converges(formula: ClosedFormSummary) -> bool:
    """Return whether orders in the failure rate come nearer to what is exact, and are shares at all.

    Where failures are as frequent as restarts are long they are not: the second order of a share may be below zero.
    """
    waste, by_cause = formula.waste or {}, formula.waste_by_cause or {}
    causes = [row["total"] for rows in by_cause.values() for row in rows.values()]
    first, second, exact = (waste[order]["total"] for order in ("first", "second", "exact"))
    # Differences of 1e-9 are rounding.
    nearer = abs(second - exact) <= abs(first - exact) + 1e-9
    return nearer and all(-1e-9 <= total <= 1 + 1e-9 for total in (first, second, exact, *causes))


def _orders(waste: Mapping[str, Mapping[str, float]], orders: Sequence[str] = tuple(_ORDERS)) -> TableBlock:
    """Return what the formula loses by bucket, exact and by order in the failure rate."""
    buckets = sorted(dict.fromkeys(name for order in orders for name in waste[order]), key=lambda name: name == "total")
    rows = [(bucket_label(name), *(percent_text(waste[order].get(name, 0.0)) for order in orders)) for name in buckets]
    if len(orders) > 1:
        note = "First order: each failure by itself. Second order: two that meet, too. Exact: all of them."
    else:
        note = "Orders in the failure rate are left out: they do not converge at this rate."
    heads = ("", *(_ORDERS[order] for order in orders))
    return grid("What the closed form loses, by bucket", heads, rows, note=note)


def explained_formula(formula: ClosedFormSummary) -> Iterator[Section]:
    """Yield the closed form by itself: what it says, what it assumes, and where it sees the time go."""
    lines = [
        *(("extrapolated", line) for line in extrapolated_texts(formula)),
        *(("does not apply", line) for line in formula.reasons),
        *(("assumes", line) for line in formula.assumptions),
    ]
    yield Section("closed-form", "Closed form", tuple(_formula_texts(formula)), (grid("", ("", ""), lines),))
    if formula.waste is None or formula.waste_by_cause is None:
        return
    orders = tuple(_ORDERS) if converges(formula) else ("exact",)
    losses = _orders(formula.waste, orders)
    yield Section("waste", losses.title, (), (losses,))
    by_cause = formula.waste_by_cause
    exact = {name: row for name, row in by_cause["exact"].items() if "lost_work" in row}
    buckets = [name for name in _LOST if any(name in row for row in exact.values())]
    rows = []
    for name in sorted(exact, key=lambda name: -exact[name]["total"]):
        cells = [exact[name].get(bucket, 0.0) for bucket in buckets]
        rows.append((name, *map(percent_text, (*cells, *(by_cause[order][name]["total"] for order in orders)))))
    if rows:
        table = grid("", ("", *map(bucket_label, buckets), *orders), rows)
        yield Section("waste-by-cause", "By cause", (), (table,))


# ----------------------------------------
# What the terminal shows.

_MOST_WINDOWS = 12


def format_run(document: RunDocument, prepared: Prepared, *, width: int | None = None) -> str:
    """Return the document of a run as text for standard output, `width` columns wide (those of the terminal)."""
    return terminal.write(_chapters(document, prepared), width=width, otherwise=120)


def _chapters(document: RunDocument, prepared: Prepared) -> Iterator[Section]:
    described = prepared.scenario.description
    asked = grid("", ("", ""), list(_asked(document, prepared)))
    yield Section("scenario", document.scenario, (described,) if described else (), (asked,))
    tables: list[TableBlock | None] = []
    promised, is_fleet = None, not document.fleet.is_empty
    if is_fleet:
        from ettrick.analysis.page.chapters import fleet

        tables += fleet.terminal_tables(document)
    if document.per_service or document.per_target:
        from ettrick.analysis.page.chapters import services

        tables += services.terminal_tables(document) if document.per_service else []
        promised = services.targets_table(document)
    has_jobs = bool(document.per_job) and not is_fleet
    tables += [goodput(document) if has_jobs else None, promised]
    if has_jobs:
        kept = None if document.time_shares["productive"] is None else where(document)
        tables += [jobs_table(document), kept, _windows(document)]
    tables += [] if is_fleet else [_causes(document)]
    yield from (Section("table", table.title, (), (table,)) for table in tables if table is not None)
    for what, down in (("nodes", document.nodes_down), ("domains", document.domains_down)):
        if isinstance(down, NodesDown) and down.max and not is_fleet:
            table = down_at_once(down, what=what)
            texts = (f"{_nodes_down_title(down, prepared)}.",) if what == "nodes" else ()
            yield Section(f"missing-{what}", table.title, texts, (table,), tuple(_more_than(down, what)))
    formula = beside_simulation(document) if has_jobs else None
    yield from () if formula is None else (formula,)
    for title, lines in (("Assumptions of the scenario", document.assumptions), ("Notes", document.notes)):
        if lines:
            yield Section("lines", title, (), (), tuple(" ".join(line.split()) for line in lines))


def _asked(document: RunDocument, prepared: Prepared) -> Iterator[tuple[str, str]]:
    """Yield what was simulated: the cluster, the jobs, what fails, and what is done about it."""
    scenario = prepared.scenario
    cluster = scenario.cluster
    kinds = ", ".join(dict.fromkeys(str(pool.accelerator) for pool in cluster.all_pools))
    whose = "" if cluster.states_nodes else ", those of jobs and spares"
    withheld = f", {prepared.withheld:,} of them withheld" if prepared.withheld else ""
    gpus = f"{prepared.counts['gpu']:,} GPUs ({kinds}) in {prepared.nodes:,} nodes"
    yield "cluster", f"{cluster.name}: {gpus}{whose}{withheld}"
    if not cluster.states_fabric:
        yield "fabric", f"default: {getattr(cluster.fabric, 'title', cluster.fabric.use)}"
    for plan, spec in zip(prepared.jobs, scenario.jobs, strict=True):
        layout, text = spec.parallelism, f"{plan.name}: {plan.gpus:,} GPUs"
        if layout is not None:
            text += f", {layout_text(layout)}"
        text += f", step {plan.step_time:.2f} s" if plan.step_time else ""
        if plan.plan is not None and not plan.is_measured:
            low, high = plan.plan.band90
            text += f" (modelled: {low:.2f}..{high:.2f})"
        text += f", MFU {percent_text(plan.mfu, 1)}" if plan.mfu is not None else ""
        yield "job", text
    for stream in prepared.streams:
        rate = f", {short_text(stream.rate * DAY)} jobs a day" if stream.rate else ""
        if stream.last < math.inf:
            rate = f", {round(stream.rate * (prepared.warmup + prepared.horizon)):,} recorded jobs"
        yield "stream", f"{stream.name}: {_sizes(stream.gpus)}{rate}"
    for service, served in zip(prepared.services, scenario.services, strict=True):
        asked = f"{service.rates.rate:,.4g} requests/s asked, {service.admitted:,.4g} admitted at most"
        answers = f"recovery {served.recovery.use}, failover {served.failover.use}"
        size = f"{service.replicas:,} replicas of {number_of(service.gpus, 'GPU')}"
        yield "service", f"{service.name}: {size}, {asked}; {answers}"
    first = prepared.jobs[0] if prepared.jobs else None
    expected = ""
    if first is not None and first.mtti < math.inf:
        expected = f", one interruption in {time_text(first.mtti)} of running expected in the long run"
    causes = sum(not source.is_condition for source in prepared.sources)
    yield "failures", number_of(causes, "cause") + expected
    if repairs_text(prepared):
        yield "repair", repairs_text(prepared)
    if scenario.health is not None:
        yield "health", ", ".join(key for key, part in scenario.health if part is not None)
    if prepared.parts:
        yield "parts", ", ".join(f"{plan.stock.stock} of {name}" for name, plan in prepared.parts.items()) + " in stock"
    if not prepared.upkeep.is_steady and (prepared.streams or prepared.services):
        yield "power", "jobs of streams and services keep full clocks: caps, heat and ramps are for named jobs"
    stores = [] if first is None else [_checkpoints(first)]
    ways = [f"recovery {scenario.recovery.use}"] if prepared.jobs or prepared.streams else []
    policies = [*stores, *ways, number_of(prepared.spares, "hot spare")]
    yield "policies", ("; " if first is not None and len(stores_of(first)) > 1 else ", ").join(policies)
    runs = f"{number_of(document.replications, 'replication')} of {time_text(prepared.horizon)}"
    yield "run", f"{runs}, seed {prepared.seed}, initial state {scenario.initial}"


def layout_text(layout: Parallelism | LayoutSummary) -> str:
    """Return how a job is laid out: the sizes of its groups."""
    return f"tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"


def _sizes(gpus: Mapping[int, float]) -> str:
    low, high = min(gpus, default=0), max(gpus, default=0)
    return f"{low:,} to {high:,} GPUs" if low < high else number_of(low, "GPU")


def _checkpoints(job: PreparedJob) -> str:
    stores = stores_of(job)
    if len(stores) > 1:
        every = (f"{one.store} every {time_text(one.interval)}" if one.store != "peer" else "peer" for one in stores)
        return f"checkpoints: {', '.join(every)}"
    (tier,) = stores
    durable = f"durable {time_text(tier.drain)} later" if tier.drain else "then durable"
    return f"checkpoint every {time_text(tier.interval)} (stall {time_text(tier.stall)}, {durable})"


def jobs_table(document: RunDocument) -> TableBlock | None:
    """Return a line for each named job, if there are several, any that can finish, or streams beside them."""
    jobs = document.per_job
    ends = any(job.finished or job.censored for job in jobs.values())
    if not jobs or (len(jobs) == 1 and not ends and document.fleet.is_empty):
        return None
    rows = [
        (
            name,
            f"{job.gpus:,}",
            text_or_dash(job.metrics["ettr"].mean, percent_text),
            text_or_dash(job.time_shares["queued"], percent_text),
            text_or_dash(job.metrics["interruptions"].mean, count_text),
            *([f"{job.finished} of {document.replications} runs"] if ends else []),
        )
        for name, job in jobs.items()
    ]
    title = "Jobs" if document.fleet.is_empty else "Named jobs"
    return grid(title, ("", "GPUs", "ETTR", "queued", "interruptions", *(["finished"] if ends else [])), rows)


def _windows(document: RunDocument) -> TableBlock | None:
    step = -(-len(document.windows) // _MOST_WINDOWS)
    chosen = document.windows[:: step or 1]
    left_out = f" ({len(chosen)} of {len(document.windows)} windows)" if step > 1 else ""
    rows = [
        (f"{time_text(one.start_s)} to {time_text(one.end_s)}", text_or_dash(one.ettr, percent_text)) for one in chosen
    ]
    shades = [(None, one.ettr or 0.0) for one in chosen]
    return grid(f"ETTR over time{left_out}", ("window", "ETTR"), rows, shades=shades) if rows else None


def _causes(document: RunDocument) -> TableBlock | None:
    causes = {name: row for name, row in document.interruptions_by_cause.items() if row.mean}
    lost = {name: sum(document.loss_gpu_s[name].values()) / HOUR for name in causes}
    rows = [
        (name, count_text(row.mean), interval_text(row, count_text), f"{lost[name]:,.0f}")
        for name, row in causes.items()
    ]
    most = sum(max(amount, 0.0) for amount in lost.values()) or 1.0
    shades = [(None, None, None, max(amount, 0.0) / most) for amount in lost.values()]
    heads = ("", "mean", "95 % interval", "GPU-hours lost")
    return grid("Interruptions by cause", heads, rows, shades=shades) if rows else None
