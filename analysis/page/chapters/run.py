"""The first screen about one scenario: how much of the time becomes training, and where the rest goes."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.amounts import (
    COUNT,
    GPU_YEARS,
    OF_HUNDRED,
    PERCENT,
    POINTS,
    Form,
    bar_text,
    capital,
    cell_forms,
    compact,
    count_text,
    empty_table,
    ends_of,
    form_of,
    gpu_hours,
    gpu_hours_form,
    hours,
    label_grid,
    money,
    money_form,
    number_of,
    percent_text,
    points_text,
    range_text,
    text_or_dash,
    time_form,
    time_text,
)
from analysis.metrics import BUCKETS, LEVELS, METRICS, RESTART, bucket_label, nodes_down
from analysis.page.account import account_of, asked_for, basis, cause_name
from analysis.page.chapters.inputs import chance, luck, not_covered, not_known, stated
from analysis.page.charts.data import (
    Bar,
    Bars,
    Change,
    Curves,
    HeatMap,
    Interval,
    Intervals,
    Part,
    Scale,
    Series,
    Stack,
    Waterfall,
)
from analysis.page.glossary import bucket_words, cause_words, glossed
from analysis.page.model import Column, FirstScreen, Grid, Picture, Section, joined, plain
from analysis.page.sourced import Estimate, Places, SourcedNumber, number, told, total
from analysis.results.models import NodesDown
from analysis.results.run import replays_a_log
from analysis.results.step import stores_of
from analysis.statistics.differences import FEWEST_EVENTS
from analysis.statistics.estimates import ratio_interval
from analysis.statistics.intervals import unseen
from analysis.terminal import Page, console, repairs_text
from sim import CLUSTER_BUCKETS, JOB_BUCKETS, NO_FAILURE, Bucket, units
from sim.formulas.arrays import exceedance
from sim.formulas.nodes import missing_nodes_pmf
from sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from analysis.page.account import Account
    from analysis.page.model import Number, Words
    from analysis.page.report_data import Focus, ReportData
    from analysis.results.models import (
        ClosedForm,
        RunDocument,
        Simulated,
    )
    from sim import Prepared, PreparedJob, Result

# ----------------------------------------
# The first table of a run: goodput, and what it took.

_HEADLINE = {
    "ettr": "",
    "scheduling_goodput": "  ",
    "runtime_goodput": "  x ",
    "program_goodput": "  x ",
    "goodput": "  = ",
    "cluster_goodput": "",
    "tokens_per_day": "",
    "time_to_work": "",
    "p_finish_by": "",
    "mtti": "",
    "interruptions": "",
    "energy": "",
    "cost": "",
    "cost_per_token": "",
}

"""Metrics that a run is judged by, with what says that one is the product of others."""


def print_headline(out: Console, content: RunDocument) -> None:
    """Print the metrics that a run is judged by: mean, interval, spread."""
    metrics = content.metrics
    names = [name for name in _HEADLINE if name in metrics]
    # Quantiles need many replications; a column of dashes says nothing.
    quantiles = any(metrics[name].p05 is not None and metrics[name].p95 is not None for name in names)
    out.print("\nGoodput", style="bold")
    table = empty_table("", "mean", "95 % interval", "sd of a run", *(["5 %..95 % of runs"] if quantiles else []))
    for name in names:
        form = cell_forms(name, "" if content.cost is None else content.cost.currency).value
        metric = metrics[name]
        bound = metric.lower_bound95
        cells = [
            f"> {form(bound)}" if bound is not None else text_or_dash(metric.mean, form),
            range_text(metric.mean_ci95, form),
            text_or_dash(metric.std, form),
        ]
        if quantiles:
            cells.append(range_text((metric.p05, metric.p95), form))
        table.add_row(f"{_HEADLINE[name]}{METRICS[name].title}", *cells)
    out.print(table)
    taken = metrics["ettr"].controlled
    if taken is not None and taken.worth is not None and taken.worth > 1:
        out.print(
            f"  with the luck of the failures taken out: ETTR {range_text(taken.mean_ci95, percent_text)}, "
            f"worth {taken.worth:.3g} times the replications"
        )
    elif content.interrupted < FEWEST_EVENTS <= content.replications:
        out.print(f"  {_rarely(content.interrupted, content.replications)}")
    band = metrics["ettr"].band90
    if band is not None:
        out.print(f"  failure rates known only from their counts: ETTR {range_text(band, percent_text)} (90 %)")


def _rarely(interrupted: int, replications: int) -> str:
    """Return which interval the mean of runs has that are hardly ever interrupted, and what it cannot know."""
    if not interrupted:
        return (
            f"no replication was interrupted: intervals know nothing of runs that are, up to "
            f"{percent_text(unseen(replications))} of all"
        )
    return (
        f"intervals are Student's, without control variates: {interrupted} of {replications} replications were "
        f"interrupted, and these need {FEWEST_EVENTS}"
    )


# ----------------------------------------
# The closed form in words: beside the simulation, and what it says of each cause.

_BUCKETS = ("lost_work", "detection", "restart", "checkpoint_stall", "starved")

_ORDERS = {"exact": "exact", "first": "first order", "second": "second order"}


def compared_text(formula: ClosedForm) -> str:
    """Return what was simulated, and how far from the formula that is; nothing without a simulation."""
    seen = formula.simulated
    if seen is None or seen.ettr is None:
        return ""
    runs = number_of(seen.replications, "replication")
    band = f"{range_text(seen.ettr_ci95, percent_text)}, " if seen.ettr_ci95 is not None else ""
    text = f"simulated {percent_text(seen.ettr)} ({band}{runs})"
    if formula.ettr is None:
        return text
    text += f", closed form {percent_text(formula.ettr)}"
    outside = seen.outside_ci95
    if outside is None:
        return text
    if not outside:
        return f"{text}: inside the 95 % interval"
    return f"{text}: outside the 95 % interval by {points_text(outside, '')}"


def extrapolated_texts(formula: ClosedForm) -> Iterator[str]:
    """Yield a line for each bundle whose rates were counted on jobs of other sizes."""
    for row in formula.extrapolated:
        smallest, largest = row.counted_on_gpus
        sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        text = (
            f"{row.bundle} was counted on jobs of {sizes} GPUs, '{row.job}' has {row.gpus:,}: ETTR "
            f"{percent_text(row.ettr)} with failures in proportion to the GPUs"
        )
        if row.ettr_superlinear is not None:
            faster = percent_text(row.ettr_superlinear)
            text += f", {faster} if beyond {largest:,} they grow with the power {row.exponent:g}"
        yield text


def print_explained(out: Console, formula: ClosedForm) -> None:
    """Print the closed form, what it takes for granted, and where it sees the time go."""
    out.print("\nClosed form", style="bold")
    rows = []
    if formula.ettr is not None:
        out.print(f"  ETTR {percent_text(formula.ettr)}: {formula.form}, expected shares in the long run")
    if text := compared_text(formula):
        rows.append(("ETTR", text))
    rows += [("extrapolated", line) for line in extrapolated_texts(formula)]
    rows += [("does not apply", line) for line in formula.reasons]
    out.print(label_grid([*rows, *(("assumes", line) for line in formula.assumptions)]))
    if formula.waste is not None and formula.waste_by_cause is not None:
        shown = _ORDERS if converges(formula) else {"exact": "exact"}
        _print_waste(out, formula.waste, shown)
        _print_causes(out, formula.waste_by_cause, list(shown))
        if len(shown) < len(_ORDERS):
            out.print("\n  orders in the failure rate are left out: they do not converge at this rate")


def converges(formula: ClosedForm) -> bool:
    """Return whether orders in the failure rate come nearer to what is exact, and are shares at all.

    Where failures are as frequent as restarts are long they are not: the second order of a share may be below zero.
    """
    waste, by_cause = formula.waste or {}, formula.waste_by_cause or {}
    causes = [row["total"] for rows in by_cause.values() for row in rows.values()]
    first, second, exact = (waste[order]["total"] for order in ("first", "second", "exact"))
    # What is but rounding is no order.
    nearer = abs(second - exact) <= abs(first - exact) + 1e-9
    return nearer and all(-1e-9 <= total <= 1 + 1e-9 for total in (first, second, exact, *causes))


def _print_waste(out: Console, waste: dict[str, dict[str, float]], orders: dict[str, str]) -> None:
    """Print what is not productive, bucket by bucket: exact, and to some orders in the failure rate."""
    out.print("\nWhat the closed form loses, by bucket", style="bold")
    table = empty_table("", *orders.values())
    for bucket in _BUCKETS:
        if any(bucket in waste[order] for order in orders):
            table.add_row(bucket_label(bucket), *(percent_text(waste[order].get(bucket, 0.0)) for order in orders))
    table.add_row("total", *(percent_text(waste[order]["total"]) for order in orders))
    out.print(table)


def _print_causes(out: Console, by_cause: dict[str, dict[str, dict[str, float]]], orders: list[str]) -> None:
    """Print what each cause costs, the dearest first."""
    exact = by_cause["exact"]
    names = [name for name, row in exact.items() if "lost_work" in row]
    if not names:
        return
    buckets = [bucket for bucket in _BUCKETS if any(bucket in exact[name] for name in names)]
    out.print("\nBy cause", style="bold")
    table = empty_table("", *map(bucket_label, buckets), *orders)
    for name in sorted(names, key=lambda name: -exact[name]["total"]):
        cells = (exact[name].get(bucket, 0.0) for bucket in buckets)
        table.add_row(name, *map(percent_text, (*cells, *(by_cause[order][name]["total"] for order in orders))))
    out.print(table)


# ----------------------------------------
# What the terminal shows: tables and bars.

_MOST_WINDOWS = 12

_FEW = 4

"""Causes that are named; of more, how many."""


def format_run(content: RunDocument, prepared: Prepared, *, width: int | None = None) -> str:
    """Return the document of a run as text for standard output.

    Parameters
    ----------
    content
        The document.
    prepared
        The scenario.
    width
        Columns; by default those of the terminal.
    """
    page = Page()
    out = console(page, width=width)
    _print_scenario(out, content, prepared)
    print_headline(out, content)
    _print_jobs(out, content)
    _print_shares(out, content)
    _print_windows(out, content)
    _print_causes_of_console(out, content)
    _print_nodes_down(out, content)
    _print_closed_form(out, content)
    for title, lines in (("Assumptions of the scenario", content.assumptions), ("Notes", content.notes)):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"  - {' '.join(line.split())}")
    return page.text()


def _print_scenario(out: Console, content: RunDocument, prepared: Prepared) -> None:
    scenario = prepared.scenario
    cluster = scenario.cluster
    kinds = ", ".join(dict.fromkeys(str(pool.accelerator) for pool in cluster.all_pools))
    out.print(scenario.name, style="bold")
    if scenario.description:
        out.print(f"  {scenario.description}")
    rows = [
        (
            "cluster",
            f"{cluster.name}: {prepared.counts['gpu']:,} GPUs ({kinds}) in {prepared.nodes:,} nodes"
            + ("" if cluster.states_nodes else ", those of jobs and spares")
            + (f", {prepared.withheld:,} of them withheld" if prepared.withheld else ""),
        )
    ]
    if not cluster.states_fabric:
        rows.append(("fabric", f"default: {getattr(cluster.fabric, 'title', cluster.fabric.use)}"))
    for plan, spec in zip(prepared.jobs, scenario.jobs, strict=True):
        layout = spec.parallelism
        text = f"{plan.name}: {plan.gpus:,} GPUs"
        if layout is not None:
            text += (
                f", tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"
            )
        if plan.step_time:
            text += f", step {plan.step_time:.2f} s"
        if plan.plan is not None and not plan.is_measured:
            low, high = plan.plan.band90
            text += f" (modelled: {low:.2f}..{high:.2f})"
        if plan.mfu is not None:
            text += f", MFU {percent_text(plan.mfu, 1)}"
        rows.append(("job", text))
    first = prepared.jobs[0]
    expected = f", one interruption in {time_text(first.mtti)} expected" if first.mtti < float("inf") else ""
    rows.append(("failures", number_of(len(prepared.sources), "cause") + expected))
    if repairs_text(prepared):
        rows.append(("repair", repairs_text(prepared)))
    policies = [_copies(first), f"recovery {scenario.recovery.use}", number_of(prepared.spares, "hot spare")]
    rows.append(("policies", (", " if len(stores_of(first)) == 1 else "; ").join(policies)))
    rows.append(
        (
            "run",
            f"{number_of(content.replications, 'replication')} of {time_text(prepared.horizon)}, "
            f"seed {prepared.seed}, initial state {scenario.initial}",
        )
    )
    out.print(label_grid(rows))


def _copies(job: PreparedJob) -> str:
    """Return where copies are kept and how often they are made; of a single store, how."""
    stores = stores_of(job)
    if len(stores) > 1:
        rhythms = (f" every {time_text(rung.interval)}" if rung.store != "peer" else "" for rung in stores)
        return "copies: " + ", ".join(rung.store + rhythm for rung, rhythm in zip(stores, rhythms, strict=True))
    (tier,) = stores
    durable = f"durable {time_text(tier.drain)} later" if tier.drain else "then durable"
    return f"checkpoint every {time_text(tier.interval)} (stall {time_text(tier.stall)}, {durable})"


def _print_jobs(out: Console, content: RunDocument) -> None:
    """Print one line a job, if there are several or any that can finish."""
    jobs = content.per_job
    ends = any(job.finished or job.censored for job in jobs.values())
    if len(jobs) == 1 and not ends:
        return
    out.print("\nJobs", style="bold")
    table = empty_table("", "GPUs", "ETTR", "queued", "interruptions", *(["finished"] if ends else []))
    for name, job in jobs.items():
        cells = [
            f"{job.gpus:,}",
            text_or_dash(job.metrics["ettr"].mean, percent_text),
            text_or_dash(job.time_shares["queued"], percent_text),
            text_or_dash(job.metrics["interruptions"].mean, count_text),
        ]
        if ends:
            cells.append(f"{job.finished} of {content.replications} runs")
        table.add_row(name, *cells)
    out.print(table)


def _print_shares(out: Console, content: RunDocument) -> None:
    shares = content.time_shares
    if shares["productive"] is None:
        return
    hours = sum(job.requested_gpu_s for job in content.per_job.values()) / HOUR
    out.print("\nWhere every GPU-hour went", style="bold")
    table = empty_table("", "share", "GPU-hours", "", "mostly because of")
    losses = content.loss_gpu_s
    for name, share in shares.items():
        if share == 0 and name not in ("productive", "lost_work"):
            continue
        table.add_row(
            bucket_label(name), percent_text(share), f"{share * hours:,.0f}", bar_text(share), _main_cause(losses, name)
        )
    table.add_row("total", percent_text(sum(shares.values())), f"{hours:,.0f}", "", "")
    out.print(table)


def _print_windows(out: Console, content: RunDocument) -> None:
    """Print the rolling view, of many windows an even choice."""
    windows = content.windows
    if not windows:
        return
    step = -(-len(windows) // _MOST_WINDOWS)
    chosen = windows[::step]
    left_out = f" ({len(chosen)} of {len(windows)} windows)" if step > 1 else ""
    out.print(f"\nETTR over time{left_out}", style="bold")
    table = empty_table("window", "ETTR", "")
    for window in chosen:
        ettr = window.ettr
        table.add_row(
            f"{time_text(window.start_s)} to {time_text(window.end_s)}",
            text_or_dash(ettr, percent_text),
            bar_text(ettr or 0),
        )
    out.print(table)


def _print_causes_of_console(out: Console, content: RunDocument) -> None:
    causes = {name: row for name, row in content.interruptions_by_cause.items() if row.mean}
    if not causes:
        return
    out.print("\nInterruptions by cause", style="bold")
    table = empty_table("", "mean", "95 % interval", "GPU-hours lost", "")
    total = sum(row.mean for row in causes.values())
    for name, row in causes.items():
        lost = sum(content.loss_gpu_s[name].values()) / HOUR
        interval = range_text(row.mean_ci95, count_text)
        table.add_row(name, count_text(row.mean), interval, f"{lost:,.0f}", bar_text(row.mean / total))
    out.print(table)


_LAST = 4

"""Numbers of nodes of which the terminal says how often more are down."""


def _print_nodes_down(out: Console, content: RunDocument) -> None:
    """Print how many nodes and domains are missing at once, beside what independent ones would need."""
    for name, down in (("nodes", content.nodes_down), ("domains", content.domains_down)):
        if not isinstance(down, NodesDown) or not down.max:
            continue
        out.print(f"\n{name.capitalize()} down at once", style="bold")
        table = empty_table("", "mean", *(f"{100 * level:g} %\nof the time" for level in LEVELS.values()), "most")
        for label, of, most in (("simulation", down, f"{down.max:,}"), (f"independent {name}", down.independent, "")):
            numbers = (text_or_dash(getattr(of, level), "{:,}".format) for level in LEVELS)
            table.add_row(label, count_text(down.mean), *numbers, most)
        out.print(table)
        rows = [(f"more than {row.count:,} ({row.gpus:,} GPUs)", f"{percent_text(row.time_share)} of the time")
                for row in down.more_than[-_LAST:]]  # fmt: skip
        out.print(label_grid(rows))


def _print_closed_form(out: Console, content: RunDocument) -> None:
    formula = content.closed_form
    out.print("\nClosed form beside the simulation", style="bold")
    table = empty_table("", "closed form", "simulation")
    simulated = content.time_shares
    for name, value in formula.time_shares.items():
        parts = RESTART if name == "restart" else (name,)
        other = None if simulated[parts[0]] is None else sum(simulated[part] for part in parts)
        table.add_row(" + ".join(map(bucket_label, parts)), percent_text(value), text_or_dash(other, percent_text))
    for name, value in formula.availability.items():
        mean = content.metrics[name].mean
        table.add_row(
            METRICS[name].short, percent_text(value, 3), text_or_dash(mean, lambda share: percent_text(share, 3))
        )
    if table.row_count:
        out.print(table)
    if formula.ettr is not None:
        out.print(f"  form: {formula.form}")
        out.print(f"  ETTR: {compared_text(formula)}")
    for line in formula.reasons:
        out.print(f"  does not apply: {line}")
    for line in extrapolated_texts(formula):
        out.print(f"  extrapolated: {line}")
    for line in formula.assumptions:
        out.print(f"  assumes: {line}")


def _main_cause(losses: dict[str, dict[str, float]], bucket: str) -> str:
    """Return the cause that a bucket's time is charged to most, with its part."""
    if bucket == "productive":
        return ""
    amounts = {name: parts[bucket] for name, parts in losses.items()}
    total = sum(amounts.values())
    if total <= 0:
        return ""
    name = max(amounts, key=lambda key: amounts[key])
    label = "no failure" if name == "no_failure" else name
    return f"{label} ({percent_text(amounts[name] / total, 0)})"


_MOST_BARS = 8

_LEAST_SHARE = 5e-5

_MOST_JOBS = 20

"""Jobs whose numbers are added up in a formula that somebody may still want to follow."""

_SAME = 5e-4

"""A difference of shares that rounds to nothing."""

_NEXT = 0.1

"""What comes second is told where it is at least this part of the first."""

_NORMAL = 1.96

"""Half the width of a 95 % interval of a normal distribution, in standard deviations."""


class _Loss(NamedTuple):
    """A bucket that time was lost in, and its share of the time."""

    bucket: str
    share: SourcedNumber


def first_screen(report_data: ReportData) -> FirstScreen:
    """Return the first screen."""
    places = Places(report_data.results.file, report_data.main)
    ettr = places.estimate("metrics", "ettr")
    losses = _losses(places)
    description = report_data.focus.scenario.description if report_data.focus is not None else ""
    is_priced = places.at("cost", "total") is not None
    otherwise = stated(None if report_data.focus is None else report_data.focus.scenario, priced=is_priced)
    runs = places.at("replications")
    what = "the share of the time that becomes training"
    doubt = (
        not_known(places, "metrics", "ettr", form=PERCENT, what=what, otherwise=otherwise),
        chance(runs, ettr),
        luck(places, "metrics", "ettr", form=PERCENT),
    )
    return glossed(
        FirstScreen(
            question=_question(description, places.get("scenario")),
            answer=_answer(places, ettr, losses),
            doubt=joined(doubt) if ettr is not None else (),
            picture=_picture(losses) if ettr is not None else None,
            drivers=tuple(words for words in _drivers(places, losses) if words)[:3],
            not_covered=not_covered(places.get("notes"), places.get("warnings"), places.get("assumptions")),
        )
    )


def _question(description: str, name: str) -> str:
    """Return what was asked, in the words of the scenario as far as it has some."""
    text = description.strip() or name
    return text if text.endswith("?") else f"{text.rstrip('.')}: how much of the time becomes training?"


def _answer(places: Places, ettr: Estimate | None, losses: list[_Loss]) -> Words:
    """Return the answer in one sentence."""
    if ettr is None:
        return ("No job got to run, so no time was asked for that could become training.",)
    asks = "the job asks for" if len(places.get("per_job")) == 1 else "the jobs ask for"
    share = (_mean(places, ettr, OF_HUNDRED), *told(ettr, OF_HUNDRED)[1:])
    start: Words = (f"Of every hundred GPU-hours that {asks}, ", *share, " become training that lasts")
    if not losses:
        return (*start, "; nothing is lost.")
    goes = ", goes mostly to " if _is_most(losses) else ", goes first of all to "
    to = ", then to ".join(bucket_words(loss.bucket) for loss in (losses[0], *_next(losses)))
    lost = ettr.changed(lambda share: 1 - share)
    return (*start, "; the rest", *_in_gpu_time(places, lost), *_in_money(places, lost), goes, f"{to}.")


def _in_gpu_time(places: Places, lost: Estimate) -> Words:
    """Return what is lost, as GPU-time: a year of one job, or a whole run of several."""
    jobs = list(places.get("per_job"))
    gpus = places.at("per_job", jobs[0], "gpus") if len(jobs) == 1 else None
    if gpus is not None:
        years = lost.changed(lambda share: share * gpus)
        return (", about ", _mean(places, years, GPU_YEARS), " a year on ", number(gpus, COUNT), " GPUs")
    requested = _requested(places)
    if requested is None:
        return ()
    hours = lost.changed(lambda share: share * requested)
    form = gpu_hours_form(hours.mean.value)
    return (", about ", _mean(places, hours, form), " of the run")


def _in_money(places: Places, lost: Estimate) -> Words:
    """Return what the lost time costs at the price of all GPU-time that is owned; nothing without prices."""
    cost, shares = places.at("cost", "total"), [places.at(of, "productive") for of in ("time_shares", "cluster_shares")]
    of_requested, of_owned = shares
    if cost is None or cost.value <= 0 or of_requested is None or of_owned is None or of_requested.value <= 0:
        return ()
    amount = lost.changed(lambda share: share * asked_for(of_requested, of_owned) * cost)
    form = money_form(cost.value, places.get("cost", "currency"))
    return (" or ", _mean(places, amount, form), " of the ", number(cost, form), " that the cluster costs per run")


def _mean(places: Places, found: Estimate, form: Form) -> Number:
    """Return a mean, with the digits that its interval deserves where that comes from enough runs."""
    return number(found.mean, form, None if places.get("replications") < _FEW else found.interval)


def _is_most(losses: Sequence[_Loss]) -> bool:
    """Return whether the largest loss is more than all others together."""
    return losses[0].share.value > sum(loss.share.value for loss in losses[1:])


def _next(losses: Sequence[_Loss]) -> Sequence[_Loss]:
    """Return what is lost next to most, if that is worth a word."""
    return [loss for loss in losses[1:2] if loss.share.value >= _NEXT * losses[0].share.value]


def _requested(places: Places) -> SourcedNumber | None:
    """Return the GPU-time that all jobs ask for [GPU s]; ``None`` where too many would have to be added up."""
    jobs = list(places.get("per_job"))
    found = [places.at("per_job", name, "requested_gpu_s") for name in jobs[:_MOST_JOBS]]
    return total(part for part in found if part is not None) if len(jobs) <= _MOST_JOBS else None


def _losses(places: Places) -> list[_Loss]:
    """Return where time was lost, the most first."""
    found = [(name, places.at("time_shares", name)) for name in places.get("time_shares") if name != "productive"]
    kept = [_Loss(name, share) for name, share in found if share is not None and share.value >= _LEAST_SHARE]
    return sorted(kept, key=lambda loss: -loss.share.value)


def _drivers(places: Places, losses: list[_Loss]) -> list[Words]:
    """Return what drives the answer, the most important first."""
    return [_finish(places), _largest(places, losses), _rhythm(places), _formula(places), _costliest(places)]


def _finish(places: Places) -> Words:
    """Return when a fixed amount of work is done; nothing without one."""
    found = places.estimate("metrics", "time_to_work")
    chances = places.estimate("metrics", "p_finish_by")
    in_time: Words = () if chances is None else ("the probability to finish in time is ", *told(chances, PERCENT))
    if found is None:
        return (capital(str(in_time[0])), *in_time[1:], ".") if in_time else ()
    done: Words = ("The work is done after ", *told(found, time_form(found.mean.value)))
    return (*done, "; ", *in_time, ".") if in_time else (*done, ".")


def _largest(places: Places, losses: list[_Loss]) -> Words:
    """Return the largest losses in GPU-hours."""
    if not losses:
        return ()
    requested = _requested(places)

    def one(loss: _Loss) -> Words:
        share = number(loss.share, PERCENT)
        if requested is None:
            return (share,)
        hours = loss.share * requested
        return (share, " of the time, ", number(hours, gpu_hours_form(hours.value)), " of a run")

    rest: list[Words] = [
        (f"; next comes {bucket_words(loss.bucket)}: ", number(loss.share, PERCENT)) for loss in _next(losses)
    ]
    return (f"{_first(losses)}: ", *one(losses[0]), *joined(rest), ".")


def _first(losses: Sequence[_Loss]) -> str:
    """Return where most is lost, as the start of a sentence."""
    where = bucket_words(losses[0].bucket)
    return f"Most of what is lost goes to {where}" if _is_most(losses) else f"The largest loss is {where}"


def _rhythm(places: Places) -> Words:
    """Return how often failures hit, and which kind does so most often."""
    number_of, jobs = places.estimate("metrics", "interruptions"), len(places.get("per_job"))
    if number_of is None:
        return ()
    length = _length(places)
    span: Words = (" in a run",) if length is None else (" in a run of ", number(length, time_form(length.value)))
    if number_of.mean.value == 0:
        return ("Nothing interrupts training", *span, ".")
    between = places.estimate("metrics", "mtti")
    every: Words = ()
    if between is not None:
        every = (" every ", *_by_counts(places, between, time_form(between.mean.value)), ":")
    who, times = "training" if jobs == 1 else "a job", _by_counts(places, Estimate(number_of.mean), COUNT)
    start: Words = (f"A failure interrupts {who}", *every, " ", *times)
    causes = list(places.get("interruptions_by_cause"))
    most = places.at("interruptions_by_cause", causes[0], "mean") if len(causes) > 1 else None
    often: Words = () if most is None else (f"; the most frequent is {cause_words(causes[0])}, ", number(most, COUNT))
    of_all = () if jobs == 1 else (", all jobs together",)
    return (*start, " times", *span, *of_all, *often, ".")


def _by_counts(places: Places, found: Estimate, form: Form) -> Words:
    """Return a mean of interruptions or of times between them, with an interval where there are enough runs for one.

    Elsewhere as many digits are told as the interruptions counted in all runs deserve: their variance is taken to be
    their mean, as for a Poisson process.
    """
    runs, mean = places.get("replications"), found.mean
    if runs >= _FEW and found.low is not None and found.low.value > 0:
        return told(found, form)
    counted = runs * places.get("metrics", "interruptions", "mean")
    half = _NORMAL * mean.value / math.sqrt(counted)
    return (number(mean, form, (mean.value - half, mean.value + half)),)


def _length(places: Places) -> SourcedNumber | None:
    """Return the time from arrival to end of the one job [s]; ``None`` for several, which end at different times."""
    jobs = list(places.get("per_job"))
    if len(jobs) != 1:
        return None
    requested, gpus = (places.at("per_job", jobs[0], key) for key in ("requested_gpu_s", "gpus"))
    return None if requested is None or not gpus or not gpus.value else requested / gpus


def _formula(places: Places) -> Words:
    """Return what a formula says of the same; nothing where there is none."""
    formula, ettr = places.at("closed_form", "ettr"), places.estimate("metrics", "ettr")
    if formula is None or ettr is None:
        return ()
    start: Words = ("A formula of theory comes to ", number(formula, PERCENT), " without simulating")
    away = ettr.mean - formula
    outside = places.at("closed_form", "simulated", "outside_ci95")
    if abs(away.value) < _SAME or (outside is not None and outside.value == 0):
        return (*start, ": the two agree, as far as chance lets one tell.")
    side = "above" if away.value > 0 else "below"
    why = "." if outside is None else ", which is more than chance: the formula leaves something out."
    return (*start, "; the simulation is ", number(abs(away), POINTS), f" {side} it{why}")


def _costliest(places: Places) -> Words:
    """Return which cause loses most time."""
    found = []
    for cause, buckets in places.get("loss_gpu_s").items():
        lost = total(
            part for name in buckets if (part := places.at("loss_gpu_s", cause, name)) is not None and part.value
        )
        if lost is not None and cause != "no_failure":
            found.append((cause, lost))
    if not found:
        return ()
    cause, most = max(found, key=lambda entry: entry[1].value)
    return (
        f"Of all failures, {cause_words(cause)} costs most: ",
        number(most, gpu_hours_form(most.value)),
        " of a run.",
    )


def _picture(losses: list[_Loss]) -> Picture | None:
    """Return what the lost time goes to."""
    if not losses:
        return None
    shown = losses[:_MOST_BARS]
    rows = tuple(Bar(capital(bucket_words(loss.bucket)), (100 * loss.share.value,)) for loss in shown)
    title = _first(losses)
    table = Grid(
        title,
        (Column("what the time goes to", is_number=False), Column("share of the time")),
        [(row.name, PERCENT.plain(loss.share.value)) for row, loss in zip(rows, shown, strict=True)],
    )
    alt = plain(("Bars of the lost time: ", "; ".join(f"{name} {share}" for name, share in table.rows[:3]), "."))
    return Picture("at-a-glance", Bars(title, "% of the time", ("share",), rows), alt, table=table)


# ----------------------------------------
# Where the requested GPU-time went, step by step, and where that of the whole cluster did.

_MWH = units.ENERGY.units["MWh"]

_CHAIN = {
    "scheduling_goodput": ("", "share of the requested GPU-time in which the jobs had their nodes"),
    "runtime_goodput": ("× ", "share of that time which became training whose result was kept"),
    "ettr": ("= ", "effective training time ratio: share of the requested GPU-time that became such training"),
    "program_goodput": ("× ", "share of the arithmetic that the GPUs could do which a healthy step uses"),
    "goodput": ("= ", "share of the arithmetic that was asked for which became training"),
}


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None or focus.document.metrics["ettr"].mean is None:
        return None
    account = account_of(focus)
    chart = waterfall(focus)
    lost = sorted(chart.changes, key=lambda change: change.amount)
    largest = f"; the largest loss is {lost[0].name}" if lost else ""
    alt = f"Waterfall from 100 % of the requested GPU-time down to {PERCENT.value(chart.end[1] / 100)} productive. " + (
        f"The largest steps: {', '.join(f'{change.name} {abs(change.amount):.2g} %' for change in lost[:3])}."
        if lost
        else "Nothing is lost."
    )
    caption = "Each step takes away what one phase cost, the largest first"
    caption += "; whiskers: 95 % intervals of the means." if any(change.ci95 for change in chart.changes) else "."
    first = Picture("where-the-time-goes", chart, alt, caption, _table(focus, account))
    stack = cluster_stack(focus.document.cluster_shares)
    second = () if stack is None else (_of_cluster(stack, focus, account),)
    notes = [basis(focus), *_notes(account)]
    title = f"{PERCENT.value(chart.end[1] / 100)} of the GPU-time that was asked for became training{largest}"
    return Section("where-the-time-goes", title, _text(focus, account), (first, _chain(focus), *second), tuple(notes))


def waterfall(focus: Focus) -> Waterfall:
    """Return the way from all requested GPU-time to what was productive, in percent, the largest loss first."""
    shares = focus.document.time_shares
    intervals = _intervals(focus)
    losses = [name for name in JOB_BUCKETS if name != "productive" and shares[name]]
    changes = tuple(
        Change(bucket_label(name), -100 * shares[name], intervals.get(name))
        for name in sorted(losses, key=lambda name: -shares[name])
    )
    left = 100 * shares["productive"]
    title = f"{PERCENT.value(shares['productive'])} of the requested GPU-time is productive"
    if changes:
        title += f"; {changes[0].name} costs {abs(changes[0].amount):.2g} points"
    return Waterfall(title, "%", ("requested", 100.0), changes, ("productive (ETTR)", left))


def _intervals(focus: Focus) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the changes [%], where the replications of the document are at hand.

    There are none where luck is not in the replications: of a log, and where all of them come to the same.
    """
    if focus.document.replications != focus.replications or replays_a_log(focus.prepared):
        return {}
    results = focus.ensemble.results
    bases = [sum(job.requested for job in result.jobs) for result in results]
    amounts = np.array([np.sum([job.buckets for job in result.jobs], axis=0) for result in results])
    found = {}
    for index, name in enumerate(JOB_BUCKETS):
        estimate = ratio_interval(amounts[:, index], bases)
        if estimate is not None and estimate[2] - estimate[1] > 1e-9:
            # A loss ends at nothing; only slowed training can be a gain.
            low = estimate[1] if name == "degraded" else max(estimate[1], 0.0)
            found[name] = (-100 * estimate[2], -100 * low)
    return found


def cluster_stack(shares: Mapping[str, float]) -> Stack | None:
    """Return what all GPU-time owned was, in percent; ``None`` if jobs held all of it."""
    outside = [name for name in CLUSTER_BUCKETS if name not in JOB_BUCKETS and shares[name] > 0]
    if not outside:
        return None
    productive = shares["productive"]
    lost = sum(shares[name] for name in JOB_BUCKETS) - productive
    # Replicas that keep the batch of a missing one do more than their own work: what is lost can be below nothing.
    parts = [Part("productive", 100 * (productive + min(lost, 0.0)), 0), Part("lost by jobs", 100 * max(lost, 0.0), 1)]
    outside.sort(key=lambda name: -shares[name])
    parts += [Part(bucket_label(name), 100 * shares[name], BUCKETS[name].hue) for name in outside]
    largest = f"{bucket_label(outside[0])} ({PERCENT.value(shares[outside[0]])})"
    title = (
        f"{PERCENT.value(productive)} of all GPU-time owned is productive; outside jobs the largest part is {largest}"
    )
    return Stack(title, "%", tuple(part for part in parts if part.amount > 0))


def _of_cluster(stack: Stack, focus: Focus, account: Account) -> Picture:
    """Return the picture of the whole cluster, with its table."""
    shares = focus.document.cluster_shares
    names = [name for name in sorted(shares, key=lambda name: -shares[name]) if shares[name]]
    assert account.owned is not None or account.price is None
    rows = []
    for name in names:
        amounts = [] if account.owned is None else [hours(shares[name] * account.owned)]
        if account.price is not None and account.owned is not None:
            amounts.append(money(shares[name] * account.owned * account.price, account.currency))
        rows.append((bucket_label(name), PERCENT.value(shares[name]), *amounts, BUCKETS[name].gloss))
    heads = ["share of owned"] + (["GPU-hours"] if account.owned is not None else [])
    heads += [f"{account.currency} per run"] if account.price is not None else []
    columns = (
        Column("all GPUs, in and outside jobs", is_number=False),
        *map(Column, heads),
        Column("what it is", False),
    )
    alt = (
        "One bar of all GPU-time owned: " + ", ".join(f"{part.name} {part.amount:.3g} %" for part in stack.parts) + "."
    )
    caption = "All GPUs of the cluster, used or not: spares and nodes in repair are paid for too."
    return Picture("the-whole-cluster", stack, alt, caption, Grid("Where the time of all GPUs went", columns, rows))


def _table(focus: Focus, account: Account) -> Grid:
    """Return the steps of the waterfall as a table: shares, GPU-hours, a year of them, and money."""
    shares = focus.document.time_shares
    losses = [name for name in JOB_BUCKETS if name != "productive" and shares[name]]
    order = ["productive", *sorted(losses, key=lambda name: -shares[name])]
    heads = ["share of requested", "GPU-hours"]
    heads += ["GPU-hours a year"] if account.a_year is not None else []
    heads += [f"{account.currency} a year"] if account.price is not None else []

    def row(label: str, share: float, gloss: str) -> tuple[str, ...]:
        amounts = [PERCENT.value(share), hours(share * account.requested)]
        if account.a_year is not None:
            amounts.append(hours(share * account.requested * account.a_year))
        if account.a_year is not None and account.price is not None:
            yearly = share * account.requested * account.a_year * account.price
            amounts.append(money(yearly, account.currency))
        return (label, *amounts, gloss)

    rows = [row("requested", 1.0, "the GPUs of the jobs, from arrival to end")]
    rows += [row(bucket_label(name), shares[name], BUCKETS[name].gloss) for name in order]
    columns = (Column("phase", is_number=False), *map(Column, heads), Column("what it is", is_number=False))
    return Grid("Where the requested GPU-time went", columns, rows)


def _chain(focus: Focus) -> Grid:
    """Return goodput as a product, with a gloss for each factor."""
    metrics = focus.document.metrics
    rows = [
        (
            f"{sign}{METRICS[name].label}",
            PERCENT.value(mean, ends_of(metrics[name].mean_ci95)),
            gloss,
        )
        for name, (sign, gloss) in _CHAIN.items()
        if name in metrics and (mean := metrics[name].mean) is not None
    ]
    columns = (Column("", is_number=False), Column("mean [95 % interval]"), Column("what it is", is_number=False))
    note = (
        ""
        if len(rows) == len(_CHAIN)
        else "Program goodput is not known: the scenario does not tell the use of the peak."
    )
    return Grid("Goodput as a product", columns, rows, note=note)


def _text(focus: Focus, account: Account) -> tuple[str, ...]:
    """Return what the jobs asked for, and what the run took."""
    content = focus.document
    share = content.time_shares["productive"]
    text = f"The jobs asked for {gpu_hours(account.requested)}"
    if account.window is not None:
        text += f" in {account.window / DAY:.3g} days"
    text += f"; {gpu_hours(share * account.requested)} became training whose result was kept."
    parts = [text]
    if account.price is not None and account.owned is not None:
        lost = (1 - share) * account.requested * account.price
        parts.append(
            f"The cluster cost {money(account.price * account.owned, account.currency)} per run, which is "
            f"{money(account.price * HOUR, account.currency)} for each GPU-hour owned. At this price what the "
            f"jobs lost is worth {money(lost, account.currency)} per run."
        )
    if content.energy is not None:
        parts.append(f"The facility took {Form('MWh', _MWH).plain(content.energy.total_j)} per run.")
    return tuple(parts)


def _notes(account: Account) -> list[str]:
    """Return how the yearly amounts and the price of a GPU-hour come about."""
    found = []
    if account.a_year is not None:
        found.append(
            "A year is a year of running like this: the amounts of the run over its length, times 365.2425 days."
        )
    if account.price is not None:
        found.append("The price of a GPU-hour is all that was paid over all GPU-hours owned, idle ones included.")
    return found


# ----------------------------------------
# What was lost to which cause, and in which phase.

_MOST = 15

"""Causes in rows of their own."""

_OTHERS = "other causes"

_DRAWN = 0.0005

"""Share of all that is lost below which a phase has no column in the picture; it has one in the table."""


def losses_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None:
        return None
    content = focus.document
    causes, phases, amounts = _sorted(content.loss_gpu_s)
    total = float(amounts.sum())
    if not phases or total <= 0:
        return None
    names = _names(causes)
    account = account_of(focus)
    chart = heat_map(content.loss_gpu_s)
    rows = amounts.sum(axis=1)
    alt = f"Table of causes and phases, shaded by GPU-hours lost: {gpu_hours(total)} in all. " + "; ".join(
        f"{names[index]} {gpu_hours(float(rows[index]))}" for index in range(min(3, len(names)))
    )
    caption = "GPU-hours of a mean replication; what is spent without any failure, such as saves, is in “no failure”."
    picture = Picture("losses", chart, f"{alt}.", caption, _table_of_losses(content, causes, phases, amounts, account))
    title = f"{_subject(causes[0])} the most: {gpu_hours(float(rows[0]))}, {_of(rows[0], amounts)}"
    notes = [basis(focus)]
    if amounts.min() < -_DRAWN * total:
        notes.append(
            "Below nothing is what replicas do for those that are missing; shares are of all else that is lost."
        )
    if account.price is not None:
        notes.append("The price of a GPU-hour is all that was paid over all GPU-hours owned, idle ones included.")
    return Section("losses", title, _text_of_losses(phases, amounts, account), (picture,), tuple(notes))


def heat_map(losses: Mapping[str, Mapping[str, float]]) -> HeatMap:
    """Return causes by phases in GPU-hours, the dearest cause first; those beyond the first 15 together.

    Parameters
    ----------
    losses
        By cause and bucket [GPU s], as in the document of a run.
    """
    causes, phases, amounts = _sorted(losses)
    total = _all_lost(amounts)
    shown = [index for index in range(len(phases)) if np.abs(amounts[:, index]).sum() >= _DRAWN * total]
    rest = [index for index in range(len(phases)) if index not in shown]
    columns = [bucket_label(phases[index]) for index in shown]
    values = amounts[:, shown]
    if rest:
        columns.append("other phases" if len(rest) > 1 else bucket_label(phases[rest[0]]))
        values = np.column_stack([values, amounts[:, rest].sum(axis=1)])
    texts = [["" if not value else compact(value) for value in row] for row in values]
    column = int(np.argmax(values.sum(axis=0)))
    title = f"{_subject(causes[0])} the most; {columns[column]} is {_of(values[:, column].sum(), amounts)}"
    names = tuple(_names(causes))
    return HeatMap(title, "GPU-hours", names, tuple(columns), (values / HOUR).tolist(), texts, "cause", "phase", False)


def _sorted(losses: Mapping[str, Mapping[str, float]]) -> tuple[list[str | None], list[str], NDArray[np.float64]]:
    """Return causes, phases that are not empty, and GPU-seconds: the dearest cause first, those beyond 15 together.

    These are the last row, and ``None`` instead of a cause: a cause may have any name.
    """
    table = np.array([list(row.values()) for row in losses.values()])
    buckets = list(next(iter(losses.values())))
    used = [index for index in range(len(buckets)) if table[:, index].any()]
    order = [int(index) for index in np.argsort(-table.sum(axis=1), kind="stable") if table[index].any()]
    every = list(losses)
    causes: list[str | None] = [every[index] for index in order]
    amounts = table[np.ix_(order, used)]
    if len(causes) > _MOST:
        causes = [*causes[: _MOST - 1], None]
        amounts = np.vstack([amounts[: _MOST - 1], amounts[_MOST - 1 :].sum(axis=0)])
    return causes, [buckets[index] for index in used], amounts


def _name(cause: str | None) -> str:
    """Return what a row is called."""
    return _OTHERS if cause is None else cause_name(cause)


def _names(causes: list[str | None]) -> list[str]:
    """Return what rows are called; causes that would look alike by what the scenario calls them."""
    shown = [_name(cause) for cause in causes]
    return [
        f"“{cause}”" if cause not in (None, NO_FAILURE) and shown.count(name) > 1 else name
        for cause, name in zip(causes, shown, strict=True)
    ]


def _subject(cause: str | None) -> str:
    """Return who costs, as a sentence begins."""
    if cause == NO_FAILURE:
        return "What is spent without any failure costs"
    return f"Failures of “{_name(cause)}” cost"


def _all_lost(amounts: NDArray[np.float64]) -> float:
    """Return all that is lost [GPU s], of which what is gained elsewhere is not taken away: no part is more than it."""
    return float(np.clip(amounts, 0, None).sum())


def _of(amount: float, amounts: NDArray[np.float64]) -> str:
    """Return a part of all that is lost."""
    return f"{PERCENT.value(float(amount) / _all_lost(amounts))} of all that is lost"


def _text_of_losses(phases: list[str], amounts: NDArray[np.float64], account: Account) -> tuple[str, ...]:
    """Return how much is lost, and how much of that to the largest causes and phases."""
    total = float(amounts.sum())
    text = f"The jobs lost {gpu_hours(total)}, {PERCENT.value(total / account.requested)} of what they asked for"
    if account.price is not None:
        text += f", worth {money(total * account.price, account.currency)}"
    columns = amounts.sum(axis=0)
    order, gross = np.argsort(-columns, kind="stable")[:3], _all_lost(amounts)
    text += ". By phase: " + ", ".join(
        f"{bucket_label(phases[i])} {PERCENT.value(float(columns[i]) / gross)}" for i in order
    )
    return (f"{text}.",)


def _table_of_losses(
    content: RunDocument,
    causes: list[str | None],
    phases: list[str],
    amounts: NDArray[np.float64],
    account: Account,
) -> Grid:
    """Return the same with totals, shares, interruptions and money."""
    counts = {cause: row.mean for cause, row in content.interruptions_by_cause.items()}
    total = _all_lost(amounts)
    known = sum(counts.get(cause, 0.0) for cause in causes if cause is not None)
    everything = sum(counts.values())
    heads = [*map(bucket_label, phases), "all", "share of losses", *([account.currency] if account.price else [])]
    columns = (Column("cause", is_number=False), Column("interruptions"), *map(Column, heads))

    def row(name: str, count: float, cells: NDArray[np.float64]) -> tuple[str, ...]:
        lost = float(cells.sum())
        priced = [] if account.price is None else [money(lost * account.price, account.currency)]
        return (
            name,
            f"{count:,.3g}" if count < 1000 else f"{count:,.0f}",
            *map(hours, cells),
            hours(lost),
            PERCENT.value(lost / total),
            *priced,
        )

    rows = []
    for cause, name, cells in zip(causes, _names(causes), amounts, strict=True):
        count = everything - known if cause is None else counts.get(cause, 0.0)
        rows.append(row(name, count, cells))
    rows.append(row("all causes", everything, amounts.sum(axis=0)))
    most = float(np.abs(amounts).max())
    shades: list[tuple[float | None, ...]] = [
        (None, None, *(max(float(cell), 0.0) / most for cell in cells), *[None] * (len(columns) - 2 - len(phases)))
        for cells in amounts
    ]
    shades.append((None,) * len(columns))
    return Grid("GPU-hours lost by cause and phase, in a mean replication", columns, rows, shades)


# ----------------------------------------
# Goodput day by day: how far single days are from the mean.


_FEWEST_WINDOWS, _FEWEST_RUNS = 5, 5

_PLAIN = 2

"""Curves without those of tenths."""

_TENTHS = (("one run in ten above", 0.9), ("one run in ten below", 0.1))


def rolling_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None:
        return None
    typical = shares_of_windows([focus.typical])[0]
    known = typical[~np.isnan(typical)]
    if known.size < _FEWEST_WINDOWS:
        return None
    width = focus.prepared.windows
    assert width is not None, "windows have a width"
    window = "day" if width == DAY else f"window of {time_text(width)}"
    low, high = PERCENT.plain(known.min()), PERCENT.plain(known.max())
    title = f"A typical run keeps between {low} and {high} of the GPU-time of a {window}"
    each = shares_of_windows(focus.ensemble.results)
    chart = _chart(title, window, focus.typical.edges, typical, each, focus.ensemble.results)
    alt = (
        f"ETTR in each {window} of one run: from {low} to {high}, half of them above "
        f"{PERCENT.plain(float(np.median(known)))}."
    )
    caption = f"Share of the GPU-time requested in each {window} that was training whose result was kept."
    if len(chart.series) > _PLAIN:
        caption += f" Dashed: four fifths of the {len(each)} runs that were played again lie between."
    picture = Picture("day-by-day", chart, alt, caption, _table_of_rolling(known, each, window))
    return Section("day-by-day", title, _text_of_rolling(known, window), (picture,), _notes_of_rolling(focus))


def shares_of_windows(results: Sequence[Result]) -> NDArray[np.float64]:
    """Return the ETTR of each window of each replication [-]; NaN where nothing was requested.

    Returns
    -------
    (replications, windows) array
        Shares; windows that a replication did not reach, or whose end it did not reach, are NaN.
    """
    longest = max(_whole_windows(result) for result in results)
    found = np.full((len(results), longest), np.nan)
    for row, result in enumerate(results):
        productive, requested = _sums(result)
        found[row, : len(productive)] = np.divide(
            productive, requested, out=np.full_like(productive, np.nan), where=requested > 0
        )
    return found


def _whole_windows(result: Result) -> int:
    """Return how many windows are as long as the first: the last one often is not."""
    widths = np.diff(result.edges)
    return int(np.sum(widths >= widths[0] * (1 - 1e-9)))


def _sums(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return productive and requested GPU-time of all jobs by whole window [GPU s]."""
    whole = slice(_whole_windows(result))
    by_bucket = np.sum([job.totals[whole, : len(JOB_BUCKETS)].sum(axis=2) for job in result.jobs], axis=0)
    return by_bucket[:, Bucket.PRODUCTIVE], by_bucket.sum(axis=1)


def _chart(
    title: str,
    window: str,
    edges: NDArray[np.float64],
    typical: NDArray[np.float64],
    each: NDArray[np.float64],
    results: Sequence[Result],
) -> Curves:
    """Return the typical run, and where there are several the mean of all and where four fifths of them lie."""
    count = len(typical)
    middle = tuple((float(low) + float(high)) / 2 / DAY for low, high in itertools.pairwise(edges[: count + 1]))
    series = [
        Series(
            "typical run",
            middle,
            tuple(None if np.isnan(share) else 100 * float(share) for share in typical),
            look="line",
            hue=1,
        )
    ]
    if len(results) > 1:
        sums = [np.zeros((2, count)) for _ in results]
        for table, result in zip(sums, results, strict=True):
            pair = np.array(_sums(result))[:, :count]
            table[:, : pair.shape[1]] = pair
        productive, requested = np.sum(sums, axis=0)
        mean = tuple(
            100 * float(amount) / float(base) if base else None
            for amount, base in zip(productive, requested, strict=True)
        )
        series.append(Series(f"mean of {len(results)} runs", middle, mean))
        series += _tenths(middle, each[:, :count])
    y = Scale(f"ETTR of a {window} [%]")
    return Curves(title, Scale("days"), y, tuple(series))


def _tenths(middle: tuple[float, ...], each: NDArray[np.float64]) -> list[Series]:
    """Return below and above what one run in ten is [%], in windows that enough of them reached."""
    if len(each) < _FEWEST_RUNS:
        return []
    found = []
    for name, level in _TENTHS:
        columns = [column[~np.isnan(column)] for column in each.T]
        heights = (100 * float(np.quantile(seen, level)) if len(seen) >= _FEWEST_RUNS else None for seen in columns)
        found.append(Series(name, middle, tuple(heights), look="dashed", hue=-1))
    return found


def _table_of_rolling(known: NDArray[np.float64], each: NDArray[np.float64], window: str) -> Grid:
    """Return how the windows of the typical run, and of all, are spread."""
    everyone = each[~np.isnan(each)]
    rows = []
    for name, level in (("worst", 0.0), ("one in ten is below", 0.1), ("half are below", 0.5), ("best", 1.0)):
        cells = [PERCENT.value(float(np.quantile(values, level))) for values in (known, everyone)]
        rows.append((name, *cells))
    heads = ("typical run", f"all {len(each)} runs")
    return Grid(f"ETTR of a {window}", (Column("", is_number=False), *map(Column, heads)), rows)


def _text_of_rolling(known: NDArray[np.float64], window: str) -> tuple[str, ...]:
    low = float(np.quantile(known, 0.1))
    return (
        f"One {window} of the same run is not like another: the worst of {known.size} has an ETTR of "
        f"{PERCENT.value(float(known.min()))}, one in ten is below {PERCENT.value(low)}, and half are below "
        f"{PERCENT.value(float(np.median(known)))}.",
    )


def _notes_of_rolling(focus: Focus) -> tuple[str, ...]:
    found = [f"Of {focus.name}: replication {focus.typical.replication} is the typical run."]
    if len(focus.typical.jobs) > 1:
        found.append("All jobs together.")
    return tuple(found)


# ----------------------------------------
# How many nodes are missing at once, beside what independent nodes would do.

_MOST_POINTS = 400

_LEAST = 1e-5

"""Share of the time below which curves are not drawn [-]."""

_TINY = 1e-4

"""Share of the time below which it is not told exactly [-]."""

_WIDER = 1.2

"""Variance over that of independent nodes from which on it is worth a word [-]."""

_DAILY = "independent, mean of each day"

_MOST_WINDOWS_MISSING_NODES = 60

_FEWEST_RUNS_MISSING_NODES = 5

"""Replications from which on the mean of a day is that of the days, and not of a few failures."""


class Exceedance(NamedTuple):
    """For which share of the time more than so many nodes are missing at once.

    Parameters
    ----------
    simulated, independent
        ``P(X > k)`` for k = 0, 1, ..., N [-]: pooled over replications, and of N independent nodes with the same mean.
    daily
        The same of independent nodes whose mean is at any time that of the day [-]; ``None`` where too little tells it.
    """

    simulated: NDArray[np.float64]
    independent: NDArray[np.float64]
    daily: NDArray[np.float64] | None = None


def exceedance_of(results: Sequence[Result], nodes: int) -> Exceedance | None:
    """Return the exceedance curves of the number of nodes that are down; ``None`` if none ever was.

    Time is pooled over replications, so that the sum of either curve is the mean number down.

    Parameters
    ----------
    results
        Replications of one scenario.
    nodes
        Nodes of the cluster, N.

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
    mean = float(np.arange(nodes + 1) @ law)
    daily = _daily_law(results, nodes)
    return Exceedance(
        exceedance(law),
        exceedance(missing_nodes_pmf(nodes, min(mean / nodes, 1.0))),
        None if daily is None else exceedance(daily),
    )


def _daily_law(results: Sequence[Result], nodes: int) -> NDArray[np.float64] | None:
    """Return the law of how many independent nodes are down whose mean is that of each day, over all replications.

    A mixture of binomial laws, as heavy as the days are long; long runs have longer windows. ``None`` with few
    replications, without a log of outages, or with one window.
    """
    lengths = np.array([sum(result.down_times.values()) for result in results])
    longest = float(lengths.max())
    count = min(int(np.ceil(longest / DAY)), _MOST_WINDOWS_MISSING_NODES)
    if len(results) < _FEWEST_RUNS_MISSING_NODES or count < 2 or not any(result.outages for result in results):
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


def missing_nodes_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None:
        return None
    nodes, results = focus.prepared.serving, focus.ensemble.results
    curves = exceedance_of(results, nodes)
    if curves is None:
        return None
    found = nodes_down(focus.ensemble.tally.down_times, nodes)
    enough = found["p99"]
    wanted = found["independent"]["p99"] if curves.daily is None else _quantile(curves.daily, LEVELS["p99"])
    title = f"For 99 % of the time no more than {_nodes(enough)} missing at once"
    if enough > wanted and _takes_several(focus.prepared):
        title += f"; of nodes that fail one by one, no more than {wanted:,}"
    chart = Curves(
        title,
        Scale("nodes missing at once"),
        Scale("share of the time with more than so many missing", is_log=True),
        _series(curves),
        edges=((float(focus.prepared.spares), f"{focus.prepared.spares:,} hot spares"),)
        if focus.prepared.spares
        else (),
    )
    alt = (
        f"Share of the time against the number of missing nodes, falling: more than {found['p50']:,} for half of the "
        f"time at most, more than {enough:,} for 1 % at most, {found['max']:,} in the worst moment. Dashed: "
        "independent nodes."
    )
    caption = "Nodes that are down anywhere in the cluster. Dashed: the binomial law with the same mean at all times"
    caption += "." if curves.daily is None else ", and binomial laws with the mean of each day."
    picture = Picture("missing-nodes", chart, alt, caption, _table_of_missing_nodes(found, curves, focus))
    return Section(
        "missing-nodes", title, _text_of_missing_nodes(found, curves, focus), (picture,), _notes_of_missing_nodes(focus)
    )


def _nodes(count: int) -> str:
    return "one node is" if count == 1 else f"{count:,} nodes are"


def _series(curves: Exceedance) -> tuple[Series, ...]:
    """Return both curves as far as they are above what is drawn, thinned out where they are long."""
    known = [curve for curve in (curves.simulated, curves.daily, curves.independent) if curve is not None]
    last = max(int(np.flatnonzero(curve >= _LEAST)[-1]) if (curve >= _LEAST).any() else 0 for curve in known)
    places = np.arange(0, last + 2, max(1, -(-last // _MOST_POINTS)))
    places = places[places < len(curves.simulated)]
    daily = [] if curves.daily is None else [(_DAILY, "dashed", 1)]
    names = (("simulated", "step", 0), *daily, ("independent nodes", "dashed", -1))
    return tuple(
        Series(
            name,
            tuple(float(place) for place in places),
            tuple(float(value) if value >= _LEAST else None for value in curve[places]),
            look=look,
            hue=hue,
        )
        for curve, (name, look, hue) in zip(known, names, strict=True)
    )


def _text_of_missing_nodes(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> tuple[str, ...]:
    """Return what the numbers mean for spares, and how far failures are from independent."""
    mean = form_of("nodes", [found["mean"]]).plain(found["mean"])
    text = f"On average {mean} of {focus.prepared.serving:,} nodes are missing."
    spares = focus.prepared.spares
    if spares:
        text += f" More nodes than the {spares:,} hot spares are missing for {_time(curves.simulated[spares])}"
        text += f"; of independent nodes for {_time(curves.independent[spares])}"
        text += "." if curves.daily is None else f", with the mean of each day for {_time(curves.daily[spares])}."
    dispersion = found["dispersion"]
    if dispersion is None:
        return (text,)
    beside = f"The variance of the number is {dispersion:.2g} times that of independent nodes with the same mean"
    left = dispersion
    if curves.daily is not None:
        left = _variance(curves.simulated) / _variance(curves.daily)
        beside += f" at all times, and {left:.2g} times that of independent nodes with the mean of each day"
    reasons = _reasons(focus, dispersion, left)
    return text, f"{beside}.{''.join(f' {reason}' for reason in reasons)}"


def _reasons(focus: Focus, dispersion: float, left: float) -> list[str]:
    """Return why the number varies more than that of independent nodes, so far as the scenario describes it.

    Parameters
    ----------
    focus
        The scenario.
    dispersion, left
        Variance over that of independent nodes with one mean, and with the mean of each day [-].
    """
    found = []
    several = _takes_several(focus.prepared)
    if dispersion > _WIDER and focus.scenario.initial == "new" and not focus.prepared.warmup:
        found.append("The run begins with all nodes healthy: the mean rises from none, and that makes it larger.")
    if max(left, dispersion) > _WIDER and _changes(focus.prepared):
        found.append("Failure rates that change with time may make it larger.")
    if left > _WIDER and several:
        found.append("Failures that take several nodes at once make it larger.")
    if max(left, dispersion) > _WIDER and not several:
        found.append("No cause here takes several nodes at once.")
    return found


def _takes_several(prepared: Prepared) -> bool:
    """Return whether a cause of the scenario can take several nodes at once."""
    sizes = {part: int(np.diff(offsets).max()) for part, (offsets, _) in prepared.blast.items() if len(offsets) > 1}
    return any(source.blast is not None or sizes.get(source.part, 1) > 1 for source in prepared.sources)


def _changes(prepared: Prepared) -> bool:
    """Return whether failures of the scenario are more frequent at some times than at others."""
    return any(
        source.tempo is not None or source.law is None or not source.law.memoryless for source in prepared.sources
    )


def _variance(curve: NDArray[np.float64]) -> float:
    """Return the variance of a count [-]: the sum of (2 k + 1) P(X > k), less the square of the mean."""
    return float((2 * np.arange(len(curve)) + 1) @ curve - curve.sum() ** 2)


def _quantile(curve: NDArray[np.float64], level: float) -> int:
    """Return the smallest number that is enough for a share of the time [-]."""
    return int(np.argmax(curve <= 1 - level))


def _time(share: float) -> str:
    """Return a share of the time, of which tiny ones are not told exactly."""
    if not share:
        return "none of the time"
    return "less than 0.01 % of the time" if share < _TINY else f"{PERCENT.value(float(share))} of the time"


def _table_of_missing_nodes(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> Grid:
    """Return how many nodes are enough for how much of the time, and how often the spares are not."""
    daily = curves.daily
    rows = []
    for name, level in LEVELS.items():
        between = [] if daily is None else [f"{_quantile(daily, level):,}"]
        label = f"{100 * level:g} % of the time: no more than"
        rows.append((label, f"{found[name]:,}", *between, f"{found['independent'][name]:,}"))
    spares = focus.prepared.spares
    if spares:
        known = [curve for curve in (curves.simulated, daily, curves.independent) if curve is not None]
        row = (_time(curve[spares]).removesuffix(" of the time") for curve in known)
        rows.append((f"more than {spares:,} for this share of the time", *row))
    heads = ("simulated", *([] if daily is None else [_DAILY]), "independent nodes")
    return Grid("Nodes missing at once", (Column("", is_number=False), *map(Column, heads)), rows)


def _notes_of_missing_nodes(focus: Focus) -> tuple[str, ...]:
    count = len(focus.ensemble.results)
    of = "" if count == focus.wanted else f" the first {count} of"
    return (
        f"Of {focus.name}: the time of{of} {focus.wanted:,} {'replication' if focus.wanted == 1 else 'replications'}"
        " together, each from the end of its warm-up on.",
    )


# ----------------------------------------
# What a formula says, beside what was simulated.

_ORDERS_CLOSED_FORM = {"first": "first order", "second": "second order", "exact": "exact"}

_POINT = 0.01

_CLOSE = 0.001

"""Difference of shares that nobody cares about [-]."""

TOO_FAR = 0.01

"""Difference of shares from which on a formula is no guide to what else would be [-]."""


def closed_form_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None:
        return None
    content = focus.document
    formula = content.closed_form
    notes = (basis(focus), *extrapolated_texts(formula))
    if formula.ettr is None:
        text = ("There is nothing to hold the simulation against, because of the following.",)
        why = formula.reasons or formula.assumptions  # where documents of before have them
        reasons = Grid("Why no formula applies", (Column("", is_number=False),), [(line,) for line in why])
        return Section("closed-form", "No formula applies to this scenario", text, (reasons,), notes)
    found = formula.simulated
    if found is None or found.ettr is None:
        return None
    title = _title(formula.ettr, found, distance(formula))
    interval = found.ettr_ci95
    ends = None if interval is None else (100 * interval[0], 100 * interval[1])
    row = Interval("simulated", 100 * found.ettr, ends, note=number_of(found.replications, "replication"))
    chart = Intervals(title, "%", (row,), (100 * formula.ettr, "formula"))
    told = PERCENT.value(found.ettr, ends_of(interval))
    alt = f"Simulated ETTR {told}, beside a line at {PERCENT.value(formula.ettr)}, which is the formula's."
    picture = Picture("closed-form", chart, alt, "Whisker: 95 % interval of the mean.", _table_of_closed_form(content))
    items: list[Picture | Grid] = [picture]
    if formula.waste is not None and converges(formula):
        items.append(_orders(formula.waste))
    if formula.assumptions:
        lines = [(line,) for line in formula.assumptions]
        heads = (Column("assumption", is_number=False),)
        items.append(Grid("What the formula takes for granted and this scenario breaks", heads, lines))
    return Section("closed-form", title, _text_of_closed_form(formula, found), tuple(items), notes)


def beside(content: RunDocument) -> dict[str, tuple[float | None, float]]:
    """Return by bucket what the formula and what the simulation says [-]; ``None`` where the formula says nothing.

    The formula knows reschedule, initialize and restore together, as ``restart``, and so does the simulation here. The
    simulated shares add up to 1.
    """
    formula, shares = content.closed_form.time_shares, dict(content.time_shares)
    shares = {"restart": sum(shares.pop(name) for name in RESTART), **shares}
    found: dict[str, tuple[float | None, float]] = {name: (value, shares.pop(name)) for name, value in formula.items()}
    return found | {name: (None, share) for name, share in shares.items() if share}


def distance(formula: ClosedForm) -> float:
    """Return how much more the simulation says than the formula [-]; 0 where chance alone may have made it so.

    Parameters
    ----------
    formula
        ``closed_form`` of the document of a run.
    """
    found = formula.simulated
    if formula.ettr is None or found is None or found.ettr is None or found.outside_ci95 == 0:
        return 0.0
    apart = found.ettr - formula.ettr
    return apart if abs(apart) >= _CLOSE else 0.0


def _title(formula: float, found: Simulated, apart: float) -> str:
    """Return how far apart both are."""
    said = f"A formula says {PERCENT.value(formula)}, the simulation {PERCENT.value(found.ettr or 0.0)}"
    if apart:
        return f"{said}: {abs(apart) / _POINT:.2g} points {'more' if apart > 0 else 'less'}"
    if _width(found) > _POINT:
        return f"{said}: too few runs to tell them apart"
    return f"{said}: they agree"


def _width(found: Simulated) -> float:
    """Return how wide the interval of the simulation is [-]; 0 where there is none, because all runs are the same."""
    return 0.0 if found.ettr_ci95 is None else found.ettr_ci95[1] - found.ettr_ci95[0]


def _text_of_closed_form(formula: ClosedForm, found: Simulated) -> tuple[str, ...]:
    """Return what the formula is, and what the difference may come from."""
    text = (
        f"The same scenario by a formula of the theory of renewals ({formula.form}), without any simulation: "
        if ("renewal" in str(formula.form))
        else f"The same scenario by a formula ({formula.form}), without any simulation: "
    )
    text += "expected shares in the long run."
    if found.outside_ci95 is None:
        return (text,)
    if found.outside_ci95 == 0:
        wide = _width(found) / _POINT
        beside = f", which is {wide:.2g} points wide" if wide > 1 else ""
        return (f"{text} It is inside the 95 % interval of the simulation{beside}.",)
    away = f"{found.outside_ci95 / _POINT:.2g} points"
    text += f" It is outside the 95 % interval of the simulation, by {away}."
    if formula.assumptions:
        text += " What the formula takes for granted and this scenario breaks is listed below."
    if abs(distance(formula)) > TOO_FAR:
        text += " So far off it is no guide to how rare failures would have to be; no such frontier is drawn."
    return (text,)


def _table_of_closed_form(content: RunDocument) -> Grid:
    """Return the shares of the formula beside those of the simulation."""
    rows = []
    for name, (formula, simulated) in beside(content).items():
        told = (
            ("not in the formula", "")
            if formula is None
            else (PERCENT.value(formula), PERCENT.change(simulated - formula))
        )
        label = f"restart ({', '.join(RESTART)})" if name == "restart" else bucket_label(name)
        rows.append((label, told[0], PERCENT.value(simulated), told[1]))
    heads = ("formula", "simulated", "simulated less formula")
    return Grid("Formula beside simulation", (Column("share of the time", is_number=False), *map(Column, heads)), rows)


def _orders(waste: Mapping[str, Mapping[str, float]]) -> Grid:
    """Return what the formula loses by order in the failure rate."""
    buckets = list(dict.fromkeys(bucket for order in _ORDERS_CLOSED_FORM for bucket in waste[order]))
    buckets.sort(key=lambda bucket: bucket == "total")
    rows = [
        (bucket_label(bucket), *(PERCENT.value(waste[order].get(bucket, 0.0)) for order in _ORDERS_CLOSED_FORM))
        for bucket in buckets
    ]
    note = "First order: each failure by itself. Second order: two that meet, too. Exact: all of them."
    columns = (Column("lost", is_number=False), *map(Column, _ORDERS_CLOSED_FORM.values()))
    return Grid("What the formula loses, by order in the failure rate", columns, rows, note=note)
