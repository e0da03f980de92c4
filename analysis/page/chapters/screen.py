"""A run on one screen of a terminal: what was simulated, the key numbers, where the rest goes, and what to ask next.

Each function returns a section or its rows; the full tables are in the chapters of runs, streams and services.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    ends_of,
    first_clauses,
    form_of,
    hours,
    number_of,
    percent_text,
    points_text,
    shown,
    text_or_dash,
    time_text,
)
from ettrick.analysis.metrics import METRICS, rows_of
from ettrick.analysis.page.account import GpuTime, of_jobs, of_services, of_streams
from ettrick.analysis.page.chapters.losses import faster_failures
from ettrick.analysis.page.model import Column, Section, grid, table_of
from ettrick.analysis.results.run import stores_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.metrics import Table
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.parts import MetricSummary
    from ettrick.analysis.results.models import ClosedFormSummary, RunDocument
    from ettrick.sim import Prepared

_WIDTH = 80  # columns of a terminal
_MOST_NUMBERS = 5
_TENTH = 0.1
_LEAST_SPREAD = 5e-5  # of single runs [-]
_MOST_OWNERS = 3  # jobs, streams and services that are named


def sections(document: RunDocument, prepared: Prepared, name: str, most: int, room: int) -> Iterator[Section]:
    """Yield the screen of a run below its answer, tables with at most so many rows.

    `name` is that of the scenario, as it was typed, `room` how many lines assumptions may take.
    """
    runs = f"{number_of(document.replications, 'replication')} of {time_text(prepared.horizon)}, seed {prepared.seed}"
    currency = "" if document.cost is None else document.cost.currency
    table, parts, gpu_s = _account(document)
    numbers = _numbers(table, document.metrics, currency)
    yield Section("simulated", f"{document.scenario}: {runs}", (_simulated(prepared),), (numbers,), shown="screen")
    rest = _rest(parts, gpu_s, most)
    of_owner = _causes(document, most) if document.fleet.is_empty else _waits(document, most)
    remarks = grid("", ("", ""), list(_remarks(document, name, room)))
    yield from (Section("screen", "", (), (block,), shown="screen") for block in (rest, of_owner, remarks) if block)


def _simulated(prepared: Prepared) -> str:
    """Return what was simulated in a line or two: the cluster, what runs on it, and what is done about failures."""
    kinds = ", ".join(dict.fromkeys(str(pool.accelerator) for pool in prepared.scenario.cluster.all_pools))
    owners = [
        *(f"{job.name} on {job.gpus:,} GPUs" for job in prepared.jobs),
        *(f"stream {stream.name}" for stream in prepared.streams),
        *(
            f"{service.name} on {service.replicas:,} x {number_of(service.gpus, 'GPU')}"
            for service in prepared.services
        ),
    ]
    more = [f"{len(owners) - _MOST_OWNERS} more"] if owners[_MOST_OWNERS:] else []
    return ", ".join([
        f"{prepared.counts['gpu']:,} GPUs ({kinds})", *owners[:_MOST_OWNERS], *more, *_policies(prepared)
    ])  # fmt: skip


def _policies(prepared: Prepared) -> Iterator[str]:
    for job in prepared.jobs[:1]:
        if job.step_time:
            yield f"step {job.step_time:.3g} s"
        yield f"checkpoint every {time_text(stores_of(job)[-1].interval)}"
    if prepared.jobs or prepared.streams:
        yield f"recovery {prepared.scenario.recovery.use}"
    if prepared.spares:
        yield number_of(prepared.spares, "hot spare")


def _account(document: RunDocument) -> tuple[Table, list[GpuTime], float | None]:
    """Return in which table the metrics of an owner of GPU-time are, where its time went, and how much that was."""
    if not document.fleet.is_empty:
        return "streams in short", of_streams(document.fleet), document.fleet.owned_gpu_s
    if document.per_job:
        return "run in short", of_jobs(document), sum(job.requested_gpu_s for job in document.per_job.values())
    return "service in short", of_services(document), None


def _numbers(table: Table, metrics: Mapping[str, MetricSummary], currency: str) -> TableBlock:
    """Return the first metrics of a table with their sampling errors, and how far single runs lie apart."""
    names = [name for name in rows_of(table) if name in metrics and _is_known(metrics[name])][:_MOST_NUMBERS]
    cells = [(METRICS[name].short, _with_margin(name, metrics[name], currency)) for name in names]
    spread = next((metrics[name].std or 0.0 for name in names if METRICS[name].is_share), 0.0)
    if spread >= _LEAST_SPREAD:
        cells.append(("one run", f"± {points_text(spread, '')} (sd)"))
    half = -(-len(cells) // 2)
    pairs = [left + right for left, right in itertools.zip_longest(cells[:half], cells[half:], fillvalue=("", ""))]
    widest = sum(max(map(len, texts)) for texts in zip(*pairs, strict=True))
    return grid("", ("", ""), cells[:_MOST_NUMBERS]) if widest > _WIDTH - 8 else grid("", ("",) * 4, pairs)


def _is_known(summary: MetricSummary) -> bool:
    return summary.mean is not None or summary.lower_bound95 is not None


def _with_margin(name: str, summary: MetricSummary, currency: str = "") -> str:
    """Return a mean with its sampling error; without an event the bound of a time between events."""
    if summary.mean is None:
        bound = summary.lower_bound95 or 0.0
        return f"> {form_of(name, (bound,)).plain(bound)}"
    return form_of(name, (summary.mean,), currency).margin(summary.mean, ends_of(summary.mean_ci95))


def _rest(parts: Sequence[GpuTime], gpu_s: float | None, most: int) -> TableBlock | None:
    """Return where the time that was not productive went, with bars that the largest part fills."""
    lost = sorted((part for part in parts if part.bucket != "productive"), key=lambda part: -part.share)
    if not lost:
        return None
    largest, whole = lost[0].share or 1.0, sum(part.share for part in lost)
    if len(lost) > most + 1:
        small = lost[most:]
        lost = [*lost[:most], GpuTime(f"{len(small)} others", sum(part.share for part in small))]
    digits = 1 if whole >= _TENTH else 2
    words = "The other {}" if gpu_s is not None else "Idle or lost: {} of the GPU-time"  # of services
    columns: tuple[Column[GpuTime], ...] = (
        Column(words.format(percent_text(whole, digits)), lambda part: f"  {part.label}"),
        Column("", lambda part: percent_text(part.share, digits), shade=lambda part: max(part.share / largest, 0.0)),
        Column("GPU-hours", lambda part: hours(part.share * (gpu_s or 0.0)), gpu_s is not None),
        Column("main cause", lambda part: part.main_cause, any(part.main_cause for part in lost), is_number=False),
    )
    return table_of("", lost, columns)


def _causes(document: RunDocument, most: int) -> TableBlock | None:
    """Return the causes that interrupt most often."""
    rows = [
        (
            f"  {name}", COUNT.margin(row.mean or 0.0, ends_of(row.mean_ci95)),
            hours(sum(document.loss_gpu_s[name].values())),
        )
        for name, row in document.interruptions_by_cause.items()
        if row.mean
    ]  # fmt: skip
    title = "Causes of interruptions" if len(rows) <= most else f"Causes of interruptions: {most} of {len(rows)}"
    return grid("", (title, "times", "GPU-hours lost"), rows[:most]) if rows else None


def _waits(document: RunDocument, most: int) -> TableBlock | None:
    """Return how long the smallest, the middle and the largest jobs of streams wait."""
    sizes = [
        (name, group)
        for name, group in document.fleet.by.get("size", {}).items()
        if not name.endswith("+") and group.metrics["wait_first"].mean is not None
    ]
    chosen = sizes if len(sizes) <= most else [sizes[row * (len(sizes) - 1) // (most - 1)] for row in range(most)]
    rows = [
        (
            f"  {int(name):,} GPU{'s' * (name != '1')}", _with_margin("wait_first", group.metrics["wait_first"]),
            text_or_dash(group.single_jobs["wait_first"].p95, time_text), text_or_dash(group.longest_wait_s, time_text),
        )
        for name, group in chosen
    ]  # fmt: skip
    return grid("", ("How long jobs wait", "first wait", "p95 of jobs", "longest"), rows) if rows else None


# ----------------------------------------
# The last lines: checks, doubts, assumptions, and what to ask next.


def _remarks(document: RunDocument, name: str, room: int) -> Iterator[tuple[str, str]]:
    if document.per_job and document.fleet.is_empty:
        yield from _closed_form(document.closed_form)
    for target_name, target in document.per_target.items():
        missed = target.metrics["missed_windows"]
        if missed.mean is not None:
            share = _with_margin("missed_windows", missed)
            yield "target", f"{target_name}: {share} of the windows of {time_text(target.window_s)} miss the target"
    yield from _doubts(document)
    if document.notes:
        yield "notes", "; ".join(re.split("[:;] ", text)[0] for text in document.notes)
    if document.assumptions:
        yield "assumed", first_clauses(document.assumptions, room)
    yield "next", f"--full | --out DIR | ettrick explain {name}"


def _closed_form(formula: ClosedFormSummary) -> Iterator[tuple[str, str]]:
    """Yield what the closed form says of the simulation, in a line."""
    seen = formula.simulated
    if formula.ettr is None:
        yield "check", "no closed form applies to this scenario"
    elif seen is not None and seen.ettr is not None:
        inside = {None: "", 0.0: ", inside the interval of the simulation"}
        where = inside.get(seen.outside_ci95, ", outside the interval of the simulation")
        yield "check", f"closed form {PERCENT.plain(formula.ettr)}{where}"


def _doubts(document: RunDocument) -> Iterator[tuple[str, str]]:
    """Yield how far the metrics may be off because inputs are not known exactly."""
    currency = "" if document.cost is None else document.cost.currency
    for name in rows_of("run in short"):
        summary = document.metrics.get(name)
        if summary is not None and summary.band90 is not None:
            band = shown(name, summary.band90, currency).range(summary.band90)
            yield "inputs", f"{METRICS[name].short} {band} (90 %): inputs are uncertain"
            break
    yield from (("inputs", text) for text in faster_failures(document))
