"""Where the requested GPU-time went, step by step, and where that of the whole cluster did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.answers.words import Form
from analysis.closed_form import replays_a_log
from analysis.plots.charts import Change, Part, Stack, Waterfall
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import (
    GLOSSES,
    HOUR,
    account_of,
    basis,
    gpu_hours,
    hours,
    money,
    percent,
    phase_name,
)
from analysis.statistics import ratio_interval
from sim import CLUSTER_BUCKETS, JOB_BUCKETS, units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from analysis.report.sections.account import Account

__all__ = ["cluster_stack", "section", "waterfall"]

_DAY, _MWH = units.DURATION.units["d"], units.ENERGY.units["MWh"]
_CHAIN = (
    ("scheduling_goodput", "scheduling goodput", "share of the requested GPU-time in which the jobs had their nodes"),
    ("runtime_goodput", "× runtime goodput", "share of that time which became training whose result was kept"),
    ("ettr", "= ETTR", "effective training time ratio: share of the requested GPU-time that became such training"),
    (
        "program_goodput",
        "× program goodput",
        "share of the arithmetic that the GPUs could do which a healthy step uses",
    ),
    ("goodput", "= goodput", "share of the arithmetic that was asked for which became training"),
)
_HUES = {"spare_idle": 0, "repair": 3, "qualification": 6, "stranded": 7, "unallocated": -1, "draining": 5}


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None or focus.document["metrics"]["ettr"]["mean"] is None:
        return None
    account = account_of(focus)
    chart = waterfall(focus)
    lost = sorted(chart.changes, key=lambda change: change.amount)
    largest = f"; the largest loss is {lost[0].name}" if lost else ""
    alt = f"Waterfall from 100 % of the requested GPU-time down to {percent(chart.end[1] / 100)} productive. " + (
        f"The largest steps: {', '.join(f'{change.name} {-change.amount:.2g} %' for change in lost[:3])}."
        if lost
        else "Nothing is lost."
    )
    caption = "Each step takes away what one phase cost, the largest first"
    caption += "; whiskers: 95 % intervals of the means." if any(change.ci95 for change in chart.changes) else "."
    first = Picture("where-the-time-goes", chart, alt, caption, _table(focus, account))
    stack = cluster_stack(focus.document["cluster_shares"])
    second = () if stack is None else (_of_cluster(stack, focus, account),)
    notes = [basis(focus), *_notes(account)]
    title = f"{percent(chart.end[1] / 100)} of the GPU-time that was asked for became training{largest}"
    return Section("where-the-time-goes", title, _text(focus, account), (first, _chain(focus), *second), tuple(notes))


def waterfall(focus: Focus) -> Waterfall:
    """Return the way from all requested GPU-time to what was productive, in percent, the largest loss first."""
    shares = focus.document["time_shares"]
    intervals = _intervals(focus)
    losses = [name for name in JOB_BUCKETS if name != "productive" and shares[name]]
    changes = tuple(
        Change(phase_name(name), -100 * shares[name], intervals.get(name))
        for name in sorted(losses, key=lambda name: -shares[name])
    )
    left = 100 * shares["productive"]
    title = f"{percent(shares['productive'])} of the requested GPU-time is productive"
    if changes:
        title += f"; {changes[0].name} costs {-changes[0].amount:.2g} points"
    return Waterfall(title, "%", ("requested", 100.0), changes, ("productive (ETTR)", left))


def _intervals(focus: Focus) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the changes [%], where the replications of the document are at hand.

    There are none where luck is not in the replications: of a log, and where all of them come to the same.
    """
    if focus.document["replications"] != focus.replications or replays_a_log(focus.prepared):
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
    parts = [Part("productive", 100 * (productive + min(lost, 0.0)), 2), Part("lost by jobs", 100 * max(lost, 0.0), 1)]
    outside.sort(key=lambda name: -shares[name])
    parts += [Part(phase_name(name), 100 * shares[name], _HUES[name]) for name in outside]
    largest = f"{phase_name(outside[0])} ({percent(shares[outside[0]])})"
    title = f"{percent(productive)} of all GPU-time owned is productive; outside jobs the largest part is {largest}"
    return Stack(title, "%", tuple(part for part in parts if part.amount > 0))


def _of_cluster(stack: Stack, focus: Focus, account: Account) -> Picture:
    """Return the picture of the whole cluster, with its table."""
    shares = focus.document["cluster_shares"]
    names = [name for name in sorted(shares, key=lambda name: -shares[name]) if shares[name]]
    assert account.owned is not None or account.price is None
    rows = []
    for name in names:
        amounts = [] if account.owned is None else [hours(shares[name] * account.owned)]
        if account.price is not None and account.owned is not None:
            amounts.append(money(shares[name] * account.owned * account.price, account.currency))
        rows.append((phase_name(name), percent(shares[name]), *amounts, GLOSSES[name]))
    heads = ["share of owned"] + (["GPU-hours"] if account.owned is not None else [])
    heads += [account.currency] if account.price is not None else []
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
    shares = focus.document["time_shares"]
    losses = [name for name in JOB_BUCKETS if name != "productive" and shares[name]]
    order = ["productive", *sorted(losses, key=lambda name: -shares[name])]
    heads = ["share of requested", "GPU-hours"]
    heads += ["GPU-hours a year"] if account.a_year is not None else []
    heads += [f"{account.currency} a year"] if account.price is not None else []

    def row(label: str, share: float, gloss: str) -> tuple[str, ...]:
        amounts = [percent(share), hours(share * account.requested)]
        if account.a_year is not None:
            amounts.append(hours(share * account.requested * account.a_year))
        if account.a_year is not None and account.price is not None:
            yearly = share * account.requested * account.a_year * account.price
            amounts.append(money(yearly, account.currency))
        return (label, *amounts, gloss)

    rows = [row("requested", 1.0, "the GPUs of the jobs, from arrival to end")]
    rows += [row(phase_name(name), shares[name], GLOSSES[name]) for name in order]
    columns = (Column("phase", is_number=False), *map(Column, heads), Column("what it is", is_number=False))
    return Grid("Where the requested GPU-time went", columns, rows)


def _chain(focus: Focus) -> Grid:
    """Return goodput as a product, with a gloss for each factor."""
    metrics: Mapping[str, Any] = focus.document["metrics"]
    rows = [
        (label, percent(metrics[name]["mean"], metrics[name]["mean_ci95"]), gloss)
        for name, label, gloss in _CHAIN
        if name in metrics and metrics[name]["mean"] is not None
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
    share = content["time_shares"]["productive"]
    text = f"The jobs asked for {gpu_hours(account.requested)}"
    if account.window is not None:
        text += f" in {account.window / _DAY:.3g} days"
    text += f"; {gpu_hours(share * account.requested)} became training whose result was kept."
    parts = [text]
    if account.price is not None and account.owned is not None:
        lost = (1 - share) * account.requested * account.price
        parts.append(
            f"The cluster cost {money(account.price * account.owned, account.currency)}, which is "
            f"{money(account.price * HOUR, account.currency)} for each GPU-hour owned. At this price what the "
            f"jobs lost is worth {money(lost, account.currency)}."
        )
    if content["energy"] is not None:
        parts.append(f"The facility took {Form('MWh', _MWH).plain(content['energy']['total_j'])}.")
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
