"""A failure model fitted to logs: failures, rates, certainty and cost; then every number against the data."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import between, capital, first_clauses, name_of, number_of, percent_text, time_text
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Interval, Intervals, Series
from ettrick.analysis.page.first_screen import first_screen
from ettrick.analysis.page.glossary import cause_name
from ettrick.analysis.page.model import Figure, Report, Section, grid
from ettrick.analysis.results.fitted import FitDocument
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.page.model import FirstScreen, TableBlock
    from ettrick.analysis.results.fitted import (
        BacktestSummary,
        BatchSummary,
        ClusteringSummary,
        CostSummary,
        CurveSummary,
        Estimated,
        LawSummary,
        LivesDocument,
    )


def report(document: FitDocument | LivesDocument) -> Report:
    """Return the report of a fit."""
    source = document.provenance
    footer = (f"Ettrick {source.version}, Python {source.python}, NumPy {source.numpy}", source.command)
    screen = opening(document) if isinstance(document, FitDocument) else _opening_of_lives(document)
    return Report(f"{document.name}: failures", screen, tuple(sections(document)), None, footer)


def opening(document: FitDocument) -> FirstScreen:
    """Return the opening: what fails, how often, how sure, and what it costs."""
    worst = [cause for cause in document.causes if cause.events][:3]
    drivers = [
        (
            f"{capital(cause_name(cause.name))}: {cause.events} of {document.outages} outages, "
            f"{_estimate(cause.rate)} per 1000 node-days.",
        )
        for cause in worst
    ]
    return first_screen(
        f"Which failures hit {document.nodes:,} nodes, how often, with what certainty, and at what cost?",
        (answer(document),),
        ((capital("; ".join([*_doubts(document), "the interval allows for over-dispersed counts"])) + ".",),),
        _rates_by_cause(document),
        drivers,
        tuple((f"{capital(text)}.",) for text in document.not_known),
    )


def answer(document: FitDocument) -> str:
    """Return the answer in a sentence."""
    first = document.causes[0]
    text = (
        f"A node fails {_estimate(document.rate)} times in 1000 days up ({number_of(document.outages, 'outage')} in "
        f"{document.node_days_up:,.0f} node-days), most often by {cause_name(first.name)} "
        f"({percent_text(first.events / document.outages, 0)})"
    )
    if document.repair is not None and document.repair.median_s is not None:
        text += f", and is away for {time_text(document.repair.median_s)} at the median"
    cost = document.cost
    if cost is not None and cost.model is not None:
        text += f"; the {name_of(cost.metric)} of the largest job is then {percent_text(cost.model, 1)}"
        if cost.p05 is not None and cost.p95 is not None:
            text += f" (single runs {percent_text(cost.p05, 1)} to {percent_text(cost.p95, 1)})"
        if cost.lost_gpu_hours is not None:
            text += f", {cost.lost_gpu_hours:,.0f} GPU-hours lost in {time_text(document.days * DAY)}"
    return text + "."


def _doubts(document: FitDocument) -> list[str]:
    clustering = document.clustering
    doubts = [
        f"failures that repeat after repairs: {_relapse(clustering)}",
        f"nodes that stay worse than others: {clustering.frailty}",
    ]
    outside = [row.name for row in document.checks if not row.inside]
    if document.checks:
        but = f", not {', '.join(outside)}" if outside else ""
        count = len(document.checks)
        doubts.append(f"{count - len(outside)} of {count} statistics of the data lie in what the model simulates{but}")
    cost = document.cost
    if cost is not None and cost.replay is not None:
        doubts.append(
            f"{name_of(cost.metric)} of the largest job {percent_text(cost.replay, 1)} with the outages as they "
            f"were{_measured(cost)}"
        )
    if document.backtest:
        agree = sum(row.replay_inside for row in document.backtest)
        doubts.append(f"a replay of the jobs has {agree} of {len(document.backtest)} waits and shares of the records")
    return doubts


def _measured(cost: CostSummary) -> str:
    """Return both goodputs of the training log, to follow those of the model; nothing without a log."""
    if cost.measured is None or cost.measured_in_time is None:
        return ""
    return (
        f", measured goodput {percent_text(cost.measured, 1)} by steps and {percent_text(cost.measured_in_time, 1)} in "
        "time"
    )


_MOST_CAUSES = 5


def screen(document: FitDocument | LivesDocument) -> Iterator[Section]:
    """Yield the answer, and what one screen of a terminal has room for."""
    if isinstance(document, FitDocument):
        sentence, table = answer(document), _most_frequent(document)
    else:
        sentence, table = _answer_of_lives(document), _laws(document)
    yield Section("answer", sentence)
    yield from (Section("screen", "", (), (block,), shown="screen") for block in (table, _remarks(document)))


def _most_frequent(document: FitDocument) -> TableBlock:
    causes = [cause for cause in document.causes if cause.events]
    rows = [
        (
            f"  {cause.name}", f"{cause.events}", _estimate(cause.rate),
            "–" if cause.repair is None else time_text(cause.repair.median_s or 0.0),
        )
        for cause in causes[:_MOST_CAUSES]
    ]  # fmt: skip
    title = "Causes" if len(causes) <= _MOST_CAUSES else f"Causes: {_MOST_CAUSES} of {len(causes)}"
    return grid("", (title, "outages", "per 1,000 d up", "median repair"), rows)


def _laws(document: LivesDocument) -> TableBlock:
    rows = [
        (f"  {batch.name or 'parts'}", f"{batch.failures:,} of {batch.parts:,}", _estimate(batch.rate), batch.chosen)
        for batch in document.batches[:_MOST_CAUSES]
    ]
    batches = len(document.batches)
    title = "Causes" if batches <= _MOST_CAUSES else f"Batches: {_MOST_CAUSES} of {batches}"
    return grid("", (title, "failed", "per part and year", "law"), rows, (0, 3))


def _remarks(document: FitDocument | LivesDocument) -> TableBlock:
    """Return what was read, what is not clear, and what to ask next, as labels with texts."""
    lines = sum(row.number for row in document.dropped if row.sort != "normal")
    unused = f", {number_of(lines, 'line')} could not be used" if lines else ""
    rows = [("read", f"{number_of(len(document.files), 'file')}{unused}")]
    if isinstance(document, FitDocument):
        rows += [("" if place else "how sure", text) for place, text in enumerate(_doubts(document))]
    if document.findings:
        rows.append(("findings", first_clauses(document.findings, 3)))
    rows.append(("no data", first_clauses(document.not_known, 1)))
    rows.append(("next", "--full | --out DIR, then ettrick run DIR/scenario.yaml"))
    return grid("", ("", ""), rows)


def sections(document: FitDocument | LivesDocument, *, has_pictures: bool = True) -> Iterator[Section]:
    """Yield all sections, for a terminal without the tables of the pictures."""
    yield from _unused(document)
    if not isinstance(document, FitDocument):
        for batch in document.batches:
            yield _lives(batch, has_pictures=has_pictures)
        yield _read(document)
        return
    yield _rates(document)
    yield _clustering(document)
    yield _check(document)
    if document.repair is not None or document.detection is not None:
        yield _times(document)
    yield _incidents(document)
    if document.attribution is not None or document.training is not None:
        yield _jobs(document)
    if document.backtest:
        yield _backtest(document)
    if document.streams:
        yield _streams(document)
    yield _read(document)


def _rates(document: FitDocument) -> Section:
    rows = [
        (
            cause.name, cause.fault, f"{cause.events}", f"{cause.in_incidents}", _estimate(cause.rate),
            f"{cause.background:.3g}",
            ", ".join(f"{count} {basis}" for basis, count in cause.basis.items()),
        )
        for cause in document.causes
    ]  # fmt: skip
    limit = max(document.unseen.values(), default=0.0)
    notes = [
        f"{number_of(document.nodes, 'node')}, {document.node_days_up:,.0f} node-days up of {document.node_days:,.0f} "
        f"in service, by {document.basis}."
    ]
    if document.unseen:
        notes.append(f"Without an event, below {limit:.2g} per 1000 node-days (95 %): {', '.join(document.unseen)}.")
    if document.unknown_texts:
        notes.append(
            "Reasons that no rule knows: "
            + "; ".join(f"{text} ({count})" for text, count in document.unknown_texts.items())
        )
    table = grid(
        "Outages by cause, per 1000 node-days up",
        ["cause", "class", "outages", "in incidents", "rate [95 %]", "background rate", "known by"],
        rows, (0, 1, 6),
    )  # fmt: skip
    unplanned = number_of(document.outages, "unplanned outage")
    title = f"{unplanned}, {document.open_outages} still open, {document.planned} planned"
    return Section("rates", title, (answer(document),), (table,), tuple(notes))


def _clustering(document: FitDocument) -> Section:
    clustering, trend = document.clustering, document.trend
    rows = [
        (
            name, f"{fit.log_likelihood:.1f}", f"{fit.aic:.1f}", f"{fit.rate:.3g}", f"{fit.relapse_probability:.3g}",
            time_text(fit.relapse_median_s) if fit.relapse_median_s else "–", f"{fit.frailty_cv2:.3g}",
        )
        for name, fit in clustering.fits.items()
    ]  # fmt: skip
    table = grid(
        "Four models of the same spells", ["model", "ℓ", "AIC", "rate", "relapse", "after", "frailty CV²"], rows
    )
    below = "" if clustering.upper_cv2 is None else f"squared variation below {clustering.upper_cv2:.2g}; "
    texts = [
        f"Failures repeat after repairs: {_relapse(clustering)}. Some nodes stay worse than others: "
        f"{clustering.frailty} ({below}from one half of the window to the other {_estimate(clustering.split_half)}). "
        f"In the model: {clustering.chosen}."
    ]
    if clustering.parameters:
        texts.append("; ".join(f"{name} {_estimate(value)}" for name, value in clustering.parameters.items()) + ".")
    if trend is not None:
        dispersion = ", ".join(f"{value:.2g} by {name}" for name, value in trend.dispersion.items())
        exponent = f"Trend: exponent {_estimate(trend.exponent)} (1 is constant)."
        texts.append(f"{exponent} Variance over mean of counts: {dispersion}.")
    return Section("clustering", "Why failures cluster on nodes", tuple(texts), (table,))


def _relapse(clustering: ClusteringSummary) -> str:
    """Return whether failures repeat after repairs; a yes has its size."""
    size = clustering.parameters.get("relapse_probability")
    if size is None or size.value is None:
        return clustering.relapse
    low, high = (percent_text(end or 0.0, 0) for end in (size.low, size.high))
    return f"{clustering.relapse}, after {percent_text(size.value, 0)} of them{between(low, high)}"


def _check(document: FitDocument) -> Section:
    rows = [
        (
            row.name,
            f"{row.data:.3g}",
            f"{row.median:.3g}",
            f"{row.low:.3g} to {row.high:.3g}",
            "yes" if row.inside else "no",
        )
        for row in document.checks
    ]
    table = grid(
        f"The data compared with {document.simulated} simulations of the model on the same exposure",
        ["statistic", "data", "model, median", "model, 95 %", "inside"], rows, (0, 4),
    )  # fmt: skip
    texts = []
    cost = document.cost
    if cost is not None and cost.model is not None and cost.replay is not None:
        single, replayed = (
            f"{percent_text(low or 0, 1)} to {percent_text(high or 0, 1)}"
            for low, high in ((cost.p05, cost.p95), (cost.replay_p05, cost.replay_p95))
        )
        texts.append(
            f"{capital(name_of(cost.metric))} of the largest job: {percent_text(cost.model, 1)} with the model (single "
            f"runs {single}), {percent_text(cost.replay, 1)} with the outages as they were ({replayed})"
            f"{_measured(cost)}."
        )
    outside = sum(not row.inside for row in document.checks)
    title = f"The model has what the data show in {len(rows) - outside} of {len(rows)} statistics"
    return Section("check", title, tuple(texts), (table,))


def _rates_by_cause(document: FitDocument) -> Figure | None:
    causes = [cause for cause in document.causes if cause.events]
    rows = tuple(
        Interval(cause.name, cause.rate.value, (cause.rate.low or 0.0, cause.rate.high or 0.0)) for cause in causes
    )
    chart = Intervals("Outages by cause", "per 1000 node-days up", rows, span="95 % interval of the rate")
    return Figure("rates", chart, "Rates of causes with 95 % intervals.") if causes else None


def _chart(curve: CurveSummary, title: str, name: str, span: str) -> Curves:
    size = 0.01 if "%" in name else 1.0
    band = tuple(((low or 0.0) / size, (high or 0.0) / size) for low, high in zip(curve.low, curve.high, strict=True))
    heights = tuple(None if y is None else y / size for y in curve.y)
    data = Series("logs", tuple(curve.x), heights, ci95=band, look="step", span=span)
    return Curves(title, ChartAxis("days"), ChartAxis(name), (data,))


def _times(document: FitDocument) -> Section:
    laws: list[tuple[str, LawSummary | None]] = [("repair, all causes", document.repair)]
    laws += [(f"repair, {cause.name}", cause.repair) for cause in document.causes]
    laws += [(f"repair, incidents of a {incident.part}", incident.repair) for incident in document.incidents]
    laws.append(("detection", document.detection))
    rows = [
        (
            name,
            f"{law.events}",
            f"{law.open}",
            time_text(law.median_s or 0),
            " to ".join("–" if end is None else time_text(end) for end in (law.median.low, law.median.high)),
            time_text(law.mean_s or 0),
            law.method,
        )
        for name, law in laws
        if law is not None
    ]
    table = grid("Times", ["what", "complete", "open", "median", "95 %", "mean", "how"], rows, (0, 6))  # fmt: skip
    return Section("times", "How long repairs and detection take", (), (table,))


def _incidents(document: FitDocument) -> Section:
    texts = []
    for incident in document.incidents:
        used = "a source of the model" if incident.used else "not in the model"
        sizes = ", ".join(f"{count} of {size} nodes" for size, count in incident.sizes.items()) or "none"
        texts.append(
            f"{number_of(incident.events, 'group')} within 5 min in one {incident.part} ({sizes}), "
            f"{incident.by_chance:.2g} expected by chance: {used}."
        )
    rows = [(f"{float(gap) / 60:g} min", f"{count}") for gap, count in document.incidents[0].groups_by_gap.items()]
    table = grid("Groups of all outages of the cluster, by the gap that joins them", ["gap", "groups"], rows)
    return Section("incidents", "Several nodes at once", tuple(texts), (table,))


def _jobs(document: FitDocument) -> Section:
    texts = []
    blame = document.attribution
    if blame is not None:
        evidence = ", ".join(f"{count} {kind}" for kind, count in blame.evidence.items())
        texts.append(
            f"{blame.ended} attempts ended with a failure; {blame.attributed} are blamed on a node "
            f"({evidence}), {blame.by_chance:.2g} of them expected by chance. Of outages "
            f"under the largest jobs, {_estimate(blame.interrupts)} ended it. The largest jobs end without a node "
            f"{_estimate(blame.software_per_day)} times a day of running."
        )
    training = document.training
    if training is not None and training.goodput is not None:
        start = training.restart_s
        restart = "" if start is None else f"{time_text(start)} from a start to its first step, "
        by_steps, in_time = (percent_text(share or 0.0, 1) for share in (training.goodput, training.goodput_in_time))
        texts.append(
            f"Training: {number_of(training.attempts, 'run')}, a step of {time_text(training.step_time_s or 0)}, "
            f"{restart}goodput {by_steps} by steps and {in_time} in time."
        )
    return Section("jobs", "Effect of failures on jobs", tuple(texts))


def _backtest(document: FitDocument) -> Section:
    def show(row: BacktestSummary, value: float | None) -> str:
        if value is None:
            return "–"
        return time_text(value) if row.metric.startswith("wait") else percent_text(value, 1)

    def band(row: BacktestSummary, low: float | None, high: float | None, *, inside: bool | None) -> str:
        if low is None or high is None:
            return "–"
        # A wait of a paired replay may be known to the second.
        ends = dict.fromkeys((show(row, low), show(row, high)))
        return f"{' to '.join(ends)}{'' if inside else ', outside'}"

    rows = [
        (
            f"{capital(name_of(row.metric))}", f"{row.jobs:,}", show(row, row.measured), show(row, row.replay),
            band(row, row.replay_low, row.replay_high, inside=row.replay_inside), show(row, row.streams),
            band(row, row.streams_low, row.streams_high, inside=row.streams_inside),
        )
        for row in document.backtest
    ]  # fmt: skip
    table = grid(
        "Records compared with simulations",
        ["metric", "jobs", "measured", "replay", "replay, 95 %", "streams", "streams, 95 %"],
        rows, (0, 4, 6),
    )  # fmt: skip
    outside = sum(not row.replay_inside for row in document.backtest)
    title = f"A replay of the jobs agrees with their records in {len(rows) - outside} of {len(rows)} metrics"
    notes = (
        "Replay: the jobs of jobs.csv and the outages as they were, under the scheduler of history.yaml; its interval "
        "is of paired differences, by 20 batches of jobs.",
        "Streams: fleet.yaml, jobs and failures by law; its interval is of single replications.",
        "Waits begin when a job is eligible; a difference of a minute is none.",
    )
    return Section("backtest", title, (), (table,), notes)


_REPEATS = {0: "constant", 1: "by hour of the day", 7: "by hour of the week"}


def _streams(document: FitDocument) -> Section:
    rows = [
        (
            stream.name, f"{stream.jobs:,}", f"{stream.gpu_hours:,.0f}", f"{_estimate(stream.rate)}",
            f"{stream.dispersion:.3g}", _REPEATS.get(stream.profile_days, ""),
            _times_of(stream.median_s), _estimate(stream.sigma), stream.limit,
        )
        for stream in document.streams
    ]  # fmt: skip
    table = grid(
        "Streams of fleet.yaml",
        ["stream", "jobs", "GPU-hours", "submissions a day", "dispersion", "rate", "work, median", "sigma", "limit"],
        rows, (0, 5, 8),
    )  # fmt: skip
    ends: Counter[str] = Counter()
    for stream in document.streams:
        ends.update(stream.outcomes)
    count = ends.total()
    how = ", ".join(f"{state} {percent_text(number / count, 1)}" for state, number in ends.most_common())
    return Section(
        "streams", f"{number_of(len(rows), 'stream')} of {count:,} jobs", (f"How jobs ended: {how}.",), (table,)
    )


def _times_of(estimate: Estimated) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–"
    return f"{time_text(estimate.value)}{between(time_text(estimate.low), time_text(estimate.high))}"


def _opening_of_lives(document: LivesDocument) -> FirstScreen:
    rows = [
        (
            f"{capital(batch.name or 'parts')}: {_estimate(batch.rate)} failures per part and year "
            f"({batch.failures:,} of {batch.parts:,} parts); the law of their lives is {batch.chosen}.",
        )
        for batch in document.batches
    ]
    return first_screen(
        "How long do parts live, by which law, and does it fit?",
        (_answer_of_lives(document),),
        ((" ".join(f"{capital(text)}." for text in document.findings) or "Every law is as likely as its data.",),),
        next(_pictures_of_lives(document.batches[0])), rows,
        tuple((f"{capital(text)}.",) for text in document.not_known),
    )  # fmt: skip


def _answer_of_lives(document: LivesDocument) -> str:
    failures, parts = (sum(getattr(batch, name) for batch in document.batches) for name in ("failures", "parts"))
    batches = len(document.batches)
    return f"{failures:,} of {parts:,} parts failed, in {batches} batch{'es' * (batches > 1)}."


def _lives(batch: BatchSummary, *, has_pictures: bool) -> Section:
    laws = [
        (law.use, f"{law.aic:.1f}",
         "; ".join(f"{key} {_parameter(key, value)}" for key, value in law.parameters.items())
         if law.use != "piecewise" else f"{len(law.parameters)} hazards, below")
        for law in batch.laws
    ]  # fmt: skip
    ages = [
        (f"{age.from_days:g} d to {'–' if age.to_days is None else f'{age.to_days:g} d'}", _estimate(age.rate))
        for age in batch.hazards
    ]
    name = f"batch {batch.name}" if batch.name else "parts"
    text = (
        f"{_estimate(batch.rate)} failures per part and year: {batch.failures:,} of {batch.parts:,} parts in "
        f"{batch.years:,.0f} part-years; {batch.late:,} were first seen at an age. The law in failures.yaml: "
        f"{batch.chosen}."
    )
    if batch.misfit is not None:
        text += f" If it were true, so bad a fit had a probability of {batch.misfit:.2g}."
    if len(batch.causes) > 1:
        text += " Causes: " + ", ".join(f"{cause or 'none stated'} {n}" for cause, n in batch.causes.items()) + "."
    tables = (
        grid(f"Laws of the lives of {name}, with intervals of 95 %", ["law", "AIC", "parameters"], laws, (0, 2)),
        grid(f"Failures per part and year, by age, of {name}", ["age", "rate [95 %]"], ages),
    )
    pictures = tuple(_pictures_of_lives(batch)) if has_pictures else ()
    return Section(f"lives-{batch.name or 'parts'}", f"Lives of {name}", (text,), (*tables, *pictures))


def _parameter(key: str, value: Estimated) -> str:
    """Return a parameter of a law: an age in days, or in years of 365 days, a shape as a number."""
    if key in ("shape", "sigma") or value.value is None:
        return _estimate(value)
    size, unit = (365.0, "years") if value.value > 730 else (1.0, "d")
    low, high = ("–" if end is None else f"{end / size:.3g}" for end in (value.low, value.high))
    return f"{value.value / size:.3g} {unit}{between(low, high)}"


def _pictures_of_lives(batch: BatchSummary) -> Iterator[Figure]:
    for which, title, axis in (
        ("survival", "Share that lives longer (Kaplan-Meier)", "share alive [%]"),
        ("hazard", "Mean cumulative failures of a part (Nelson-Aalen)", "failures per part"),
    ):
        name, span = (
            batch.name or "parts",
            f"95 % of simulations of the {batch.chosen} law, met and censored as the parts",
        )
        yield Figure(f"{which}-{name}", _chart(batch.curves[which], f"{title}: {name}", axis, span), f"{title} by age.")


_SHOWN = 10
"""Reasons that are shown for what was not used."""


def _unused(document: FitDocument | LivesDocument) -> Iterator[Section]:
    """Yield what was not used although it is of the kind of its file, and how the columns of tables were taken."""
    rows = sorted((row for row in document.dropped if row.sort != "normal" and row.number), key=lambda row: -row.number)
    columns = tuple(f"{file.file}: columns {file.columns}." for file in document.files if file.columns)
    lines = sum(row.number for row in rows)
    table = grid(
        "Left out", ["why", "lines", "the first"],
        [(row.rule, f"{row.number:,}", f"{row.file}:{row.first}") for row in rows[:_SHOWN]], (0, 2),
        note=f"{number_of(len(rows) - _SHOWN, 'more reason')} in dropped.csv" if len(rows) > _SHOWN else "",
    )  # fmt: skip
    if rows or columns:
        title = f"{number_of(lines, 'line')} could not be used" if rows else "How tables were read"
        yield Section("unused", title, columns, (table,) if rows else ())


def _read(document: FitDocument | LivesDocument) -> Section:
    files = grid(
        "Files", ["file", "kind", "lines", "rows", "first", "last"],
        [(f.file, f.kind, f"{f.lines:,}", f"{f.rows:,}", f.first or "–", f.last or "–") for f in document.files],
        (0, 1, 4, 5),
    )  # fmt: skip
    dropped = grid(
        "Rows that were not used", ["file", "why", "lines", "first", "last"],
        [(d.file, d.rule, f"{d.number:,}", f"{d.first}", f"{d.last}") for d in document.dropped], (0, 1),
    )  # fmt: skip
    count = len(document.findings)
    return Section(
        "findings", f"{number_of(count, 'finding')}, and files read" if count else "Files read",
        tuple(f"{at}. {text}" for at, text in enumerate(document.findings, 1)), (files, dropped),
        tuple(f"Not in logs: {text}." for text in document.not_known),
    )  # fmt: skip


def _estimate(estimate: Estimated) -> str:
    if estimate.value is None:
        return "–"
    low, high, text = estimate.low, estimate.high, f"{estimate.value:.3g}"
    return text if low is None or high is None else f"{text}{between(f'{low:.3g}', f'{high:.3g}')}"
