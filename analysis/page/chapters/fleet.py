"""A fleet of jobs: the cluster over time, and the waits, goodput and losses of jobs of each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    OF_HUNDRED,
    PERCENT,
    capital,
    cell_forms,
    count_text,
    ends_of,
    gpu_hours,
    listed,
    number_of,
    percent_text,
    short_text,
    shown,
    text_or_dash,
    time_form,
    time_text,
)
from ettrick.analysis.contest.compare import differences
from ettrick.analysis.metrics import METRICS, Slice, bucket_label, rows_of
from ettrick.analysis.page.account import (
    IDLE_WORDS,
    Delivered,
    at_a_glance,
    cluster_bar,
    delivered,
    jobs_table,
    of_streams,
    where,
)
from ettrick.analysis.page.cells import bar, shown_of_cells
from ettrick.analysis.page.chapters.compare import names_apart, variant_labels
from ettrick.analysis.page.charts.data import LABELS_OF_HOURS, Bar, Bars, ChartAxis, Curves, Series
from ettrick.analysis.page.first_screen import screen_of_run, stated
from ettrick.analysis.page.glossary import bucket_words, cause_name
from ettrick.analysis.page.model import Column, Figure, Section, grid, table_of
from ettrick.analysis.page.sourced import SourceDocument, line, number, sentence, worded
from ettrick.analysis.results.fleet import interval_method
from ettrick.analysis.results.models import NO_STREAMS, GroupSummary, RunDocument
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.amounts import MetricFormat
    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.parts import DifferenceSummary, MetricSummary
    from ettrick.analysis.results.models import FleetSummary, StopsSummary, VariantSummary

# What a fleet is judged by, and its jobs by size: tables for the terminal and for pages.


def headline(document: RunDocument) -> TableBlock:
    """Return the metrics that a fleet is judged by: mean and interval, and the mean where jobs count by GPU-time."""
    metrics = document.metrics
    rows = [
        Delivered(METRICS[name].title, metrics[name], cell_forms(name).value,
                  by_gpu_time=metrics.get(Slice(name, weight="gpu_time").name))
        for name in rows_of("streams")
        if name in metrics and metrics[name].mean is not None
    ]  # fmt: skip
    how = interval_method(document.fleet, document.replications, time_text(document.warmup_s))
    return delivered("Output of the fleet", rows, note=how)


def by_size(fleet: FleetSummary) -> TableBlock | None:
    """Return a line for each exact size class; ``None`` with one alone."""
    sizes = _sizes(fleet)
    every = sum(group.gpu_s for group in sizes.values()) or 1.0
    number = "{:,.3g}".format

    def mean(metric: str, form: Callable[[float], str]) -> Callable[[tuple[str, GroupSummary]], str]:
        return lambda row: Delivered("", row[1].metrics[metric], form).mean

    def p95(group: GroupSummary) -> float | None:
        return None if group.metrics["wait_first"].mean is None else group.single_jobs["wait_first"].p95

    columns: tuple[Column[tuple[str, GroupSummary]], ...] = (
        Column("GPUs", lambda row: f"{int(row[0]):,}"),
        Column("jobs", lambda row: count_text(row[1].jobs)),
        Column("GPU-hours", lambda row: percent_text(row[1].gpu_s / every, 1), shade=lambda row: row[1].gpu_s / every),
        Column("first wait", mean("wait_first", time_text)),
        Column("p95 of jobs", lambda row: text_or_dash(p95(row[1]), time_text)),
        Column("longest", lambda row: text_or_dash(row[1].longest_wait_s, time_text)),
        Column("slowdown", mean("bounded_slowdown", number)),
        Column("ETTR", mean("ettr", percent_text)),
        Column("MTTF", mean("mttf", time_text)),
        Column("1/(N r)", lambda row: text_or_dash(row[1].mttf_expected_s, time_text)),
        Column("preempted", mean("preemptions", number)),
    )
    note = (
        "Sizes are classes: powers of two and more. Longest: time in the queue, of jobs that still wait too. 1/(N r): "
        "the MTTF of N nodes by the laws of the scenario. Preempted: per 1,000 GPU-hours."
    )
    title = "Waits, goodput and failures by size"
    return table_of(title, list(sizes.items()), columns, note=note) if sizes else None


def _sizes(fleet: FleetSummary) -> dict[str, GroupSummary]:
    return {name: group for name, group in fleet.by.get("size", {}).items() if not name.endswith("+")}


def tenants(fleet: FleetSummary) -> TableBlock | None:
    """Return what each tenant had; ``None`` without several."""
    rows = []
    for name, tenant in fleet.tenants.items():
        group = fleet.by["tenant"].get(name) if "tenant" in fleet.by else None
        ratio = f"{tenant.held_share / tenant.entitled_share:.3g}" if tenant.entitled_share else "-"
        waits = ["-", "-"]
        if group is not None:
            times = group.metrics["wait_first"].mean, group.longest_wait_s
            waits = [text_or_dash(seconds, time_text) for seconds in times]
        rows.append((name, percent_text(tenant.held_share, 1), percent_text(tenant.entitled_share, 1), ratio, *waits))
    heads = ("tenant", "share held", "share entitled to", "held / entitled", "first wait", "longest")
    note = "Shares of the GPU-time of all jobs and services; a tenant that asks for less than its share holds less."
    return grid("Shares and waits of tenants", heads, rows, note=note) if rows else None


def where_of_fleet(fleet: FleetSummary) -> TableBlock:
    """Return where every GPU-hour of the cluster went, with the root cause that took most of it."""
    return where(of_streams(fleet), fleet.owned_gpu_s, "all GPUs of the cluster")


def stops_table(fleets: Mapping[str, FleetSummary]) -> TableBlock | None:
    """Return how often running jobs were stopped, by root cause and how it reached them; ``None`` if none was.

    Several fleets stand side by side, by their names.
    """
    is_alone = len(fleets) == 1
    heads, rows = ["root cause", "how"], {key: [*key] for fleet in fleets.values() for key in _stops(fleet)}
    for name, fleet in fleets.items():
        of, stops = "" if is_alone else f", {name}", _stops(fleet)
        titles = [f"stops{of}", "GPUs of a job", f"GPU-hours {'of work ' * is_alone}lost{of}"]
        heads += titles if is_alone else titles[::2]
        for key, row in rows.items():
            count, gpus, lost = stops.get(key, (0.0, 0.0, 0.0))
            cells = [count_text(count), f"{gpus / count:,.3g}", f"{lost / HOUR:,.0f}"] if count else ["-"] * 3
            row += cells if is_alone else cells[::2]
    return grid("Stops of running jobs", heads, [*rows.values()], (0, 1)) if rows else None


def _stops(fleet: FleetSummary) -> dict[tuple[str, str], list[float]]:
    """Return stops, their GPUs and lost work [GPU s] by root cause and how it reached the job, most work first."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in fleet.stops:
        totals = sums.setdefault((cause_name(row.cause), _order(row.via, row.cause)), [0.0, 0.0, 0.0])
        for place, amount in enumerate((row.stops, row.gpus, row.lost_gpu_s)):
            totals[place] += amount
    return dict(sorted(sums.items(), key=lambda item: -item[1][2]))


_FIRST_ORDER = frozenset({"demand", "reclaim"})


def _order(via: str, cause: str) -> str:
    if via == "direct":
        return "direct"
    return "preemption, first order" if cause in _FIRST_ORDER else "preemption, second order"


def ends(fleet: FleetSummary) -> TableBlock:
    """Return how jobs ended, by number and by the GPU-time that they held."""
    gpu_time = sum(row.gpu_s for row in fleet.outcomes.values()) or 1.0
    rows = [
        (name.replace("_", " "), count_text(row.jobs), percent_text(row.jobs / fleet.jobs, 1),
         percent_text(row.gpu_s / gpu_time, 1))
        for name, row in fleet.outcomes.items()
    ]  # fmt: skip
    return grid("How jobs ended", ("", "jobs", "of jobs", "of GPU-time"), rows)


def terminal_tables(document: RunDocument) -> Iterator[TableBlock]:
    """Yield what the terminal shows of a fleet, the answer first."""
    fleet = document.fleet
    yield headline(document)
    tables = by_size(fleet), jobs_table(document), tenants(fleet), where_of_fleet(fleet)
    yield from (table for table in (*tables, stops_table({"": fleet}), ends(fleet)) if table is not None)


# ----------------------------------------
# The first screen of a report.


def opening(report_data: ReportData) -> FirstScreen:
    """Return the opening of a run with streams: what the cluster delivers, who waits, and what failures pass on."""
    document, fleet = report_data.run, report_data.run.fleet
    places = SourceDocument("run.json", document)
    drivers = (*_served(places, document), _waits(places, fleet), _largest_loss(places, fleet), _passed_on(places))
    how = interval_method(fleet, document.replications, time_text(document.warmup_s))
    return screen_of_run(
        document,
        report_data.scenario,
        answer(places, document),
        ((stated(report_data.scenario, priced=document.cost is not None),), (how,) if how else ()),
        _glance(fleet),
        drivers,
        about="what does the fleet deliver",
        most_causes=len(drivers),
    )


def answer(places: SourceDocument, document: RunDocument) -> Words:
    """Return what the cluster delivers in a sentence."""
    goodput = places.stated_estimate("metrics", "cluster_goodput")
    occupancy = places.estimate("metrics", "occupancy")
    what = " become kept work of jobs" if document.per_service else " become kept work"
    words: Words = ("Of every hundred GPU-hours of the cluster, ", *worded(goodput, OF_HUNDRED), what)
    if occupancy is not None:
        who = "jobs and services hold" if document.per_service else "jobs hold"
        words = (*words, f"; {who} ", *worded(occupancy, PERCENT), " of the GPUs in working order")
    return (*words, ".")


def _served(places: SourceDocument, document: RunDocument) -> Iterator[Words]:
    names = list(document.per_service)
    for name in names:
        attained = places.estimate("per_service", name, "metrics", "slo_attainment")
        if attained is not None:
            yield (f"Of the requests of {name}, ", *worded(attained, PERCENT), " meet the SLO.")


def _waits(places: SourceDocument, fleet: FleetSummary) -> Words:
    growth = places.at("fleet", "growth", "gpus_per_day")
    if growth is not None and fleet.growth is not None and fleet.growth.saturated:
        return ("More work arrives than the cluster does: the queue grows by ", number(growth, COUNT), " GPUs a day.")
    wait = places.estimate("metrics", "wait_first")
    if wait is None:
        return ()
    words: Words = ("A job waits ", *worded(wait, time_form(wait.mean.value)), " before it first starts")
    sizes = [name for name, group in _sizes(fleet).items() if group.metrics["wait_first"].mean is not None]
    if len(sizes) > 1:
        largest = places.stated_estimate("fleet", "by", "size", sizes[-1], "metrics", "wait_first")
        form = time_form(largest.mean.value)
        words = (*words, f"; one of {int(sizes[-1]):,} GPUs or more, ", *worded(largest, form))
    return (*words, ".")


def _largest_loss(places: SourceDocument, fleet: FleetSummary) -> Words:
    lost = [part for part in of_streams(fleet) if part.bucket != "productive"]
    if not lost:
        return ()
    largest = max(lost, key=lambda part: part.share)
    share = places.at("cluster_shares", largest.bucket)
    if share is None:
        return ()
    what = bucket_words(largest.bucket)
    why = f" (most of it: {IDLE_WORDS[largest.reason]})" if largest.reason else ""
    return sentence("the largest part of the rest is ", what, why, ": ", number(share, PERCENT), " of all GPU-time")


def _passed_on(places: SourceDocument) -> Words:
    share = places.estimate("metrics", "second_order_share")
    if share is None or not share.mean.value:
        return ()
    end = " falls on other jobs, which are preempted for the failed ones."
    return line("Of what failures cost, ", worded(share, PERCENT), end)


def _glance(fleet: FleetSummary) -> Figure:
    parts = sorted((part for part in of_streams(fleet) if part.bucket != "productive"), key=lambda part: -part.share)
    shares = ((part.label, part.share) for part in parts)
    title = "All GPU-time is productive"
    if parts:
        title = f"The largest part of the GPU-time that is not productive is {parts[0].label}"
    return at_a_glance(title, "% of all GPU-time", "GPU-time that is not productive", shares)


# ----------------------------------------
# Chapter: the cluster over time.


def section(report_data: ReportData) -> Section | None:
    """Return the cluster over time and where its GPU-hours went, of several side by side; ``None`` without streams."""
    fleets = _fleets(report_data)
    if fleets[1:]:
        return _over_time_beside(fleets)
    document = fleets[0].document if fleets else None
    if not isinstance(document, RunDocument) or not document.fleet.windows:
        return None
    fleet, named = document.fleet, jobs_table(document)
    jobs_hold = _gpus_over_time(fleet, document.metrics["occupancy"].mean or 0.0)
    items = (jobs_hold, _queue_over_time(fleet), _every_gpu_hour(fleet), headline(document))
    runs = number_of(document.replications, "replication")
    texts: tuple[str, ...] = (
        f"In the mean of {runs} {count_text(fleet.jobs)} jobs were submitted; the cluster had "
        f"{gpu_hours(fleet.owned_gpu_s)}.",
    )
    texts = texts if report_data.kind == "run" else (f"Of {fleets[0].name}, simulated again.", *texts)
    notes = tuple(f"{capital(text)}." for text in document.notes[:3])
    items_of_jobs = () if named is None else (named,)
    return Section("the-cluster-over-time", jobs_hold.title, texts, (*items, *items_of_jobs), notes)


def _windows(fleet: FleetSummary, name: str, quantity: str, hue: int) -> Series:
    """Return a quantity of a fleet by window of time [days]."""
    days = tuple((window.start_s + window.end_s) / 2 / DAY for window in fleet.windows)
    return Series(name, days, tuple(getattr(window, quantity) for window in fleet.windows), hue=hue)


def _gpus_over_time(fleet: FleetSummary, occupancy: float) -> Figure:
    series = (_windows(fleet, "in working order", "healthy", 2), _windows(fleet, "of jobs", "allocated", 0))
    title = f"Jobs hold {PERCENT.value(occupancy)} of the GPUs in working order"
    chart = Curves(title, ChartAxis("days"), ChartAxis("GPUs"), series)
    alt = f"GPUs over {series[0].x[-1]:.3g} days: in working order, and of jobs. {title}."
    return Figure("occupancy-over-time", chart, alt, "Means over windows of time and over replications.")


def _queue_over_time(fleet: FleetSummary) -> Figure:
    series = _windows(fleet, "in the queue", "queued_gpus", 1)
    most = max(window.queued_gpus for window in fleet.windows)
    title = f"The queue asks for {most:,.0f} GPUs at most"
    if fleet.growth is not None and fleet.growth.saturated:
        title = f"The queue grows by {short_text(fleet.growth.gpus_per_day)} GPUs a day"
    levels = ((float(fleet.gpus), "the whole cluster"),) if most > fleet.gpus / 4 else ()
    y = ChartAxis("GPUs that waiting jobs ask for")
    chart = Curves(title, ChartAxis("days"), y, (series,), levels=levels)
    return Figure("queue-over-time", chart, f"GPUs in the queue over {series.x[-1]:.3g} days. {title}.")


def _every_gpu_hour(fleet: FleetSummary) -> Figure | TableBlock:
    """Return where the GPU-time of the cluster went, as a bar and a table; the table alone if jobs held all of it."""
    bar, table = cluster_bar(of_streams(fleet)), where_of_fleet(fleet)
    if bar is None:
        return table
    alt = f"One bar of all GPU-time: {', '.join(f'{part.name} {part.amount:.3g} %' for part in bar.parts)}."
    return Figure("every-gpu-hour", bar, alt, "All GPUs of the cluster, used or not.", table)


# ----------------------------------------
# Chapter: waits, goodput and cascades by size.


def by_size_section(report_data: ReportData) -> Section | None:
    """Return what jobs of each size waited for, reached and lost; ``None`` where all are of one size."""
    fleets = _fleets(report_data)
    if fleets[1:]:
        return _by_size_beside(fleets)
    fleet = fleets[0].document.fleet if fleets else NO_STREAMS
    table = by_size(fleet)
    if table is None:
        return None
    sizes = _sizes(fleet)
    waits = {name: group for name, group in sizes.items() if group.metrics["wait_first"].mean is not None}
    title = "Waits have no mean: the queue grows without end"
    if waits:
        extreme = _Extreme.of(waits, "wait_first")
        amount = time_text(extreme.mean)
        if not extreme.is_one:
            form = time_form(extreme.mean)
            amount = f"about {float(f'{extreme.mean / form.size:.1g}'):g} {form.unit}"
        title = f"{extreme.who} wait {'' if extreme.is_all else 'longest, '}{amount}"
    items = (
        _waits_by_size(waits, title, table) if waits else table,
        _reached_by_size(sizes, "ettr" if waits else "ettr_no_queue"),
        _stops_by_size(fleet.stops, sizes),
        _mttf_by_size(sizes),
        stops_table({"": fleet}),
        tenants(fleet),
        ends(fleet),
    )
    notes = (
        "A mean over jobs mostly reflects small jobs, a mean by GPU-time large ones; the tables of the run show both.",
        f"Bounded slowdown: {METRICS['bounded_slowdown'].definition}.",
    )
    return Section("waits-by-size", title, (), tuple(item for item in items if item is not None), notes)


def _waits_by_size(waits: Mapping[str, GroupSummary], title: str, table: TableBlock) -> Figure:
    form = time_form(max(group.metrics["wait_first"].mean or 0.0 for group in waits.values()))
    bars = tuple(_bar(name, group.metrics["wait_first"], form.size) for name, group in waits.items())
    chart = Bars(f"{title} before they first start", form.unit, ("first wait",), bars)
    return Figure("wait-by-size", chart, f"Bars of the mean first wait by size of the job. {title}.",
                  "Sizes are classes of powers of two; whiskers: 95 % intervals.", table)  # fmt: skip


def _reached_by_size(sizes: Mapping[str, GroupSummary], metric: str) -> Figure | None:
    """Return the ETTR of jobs by size; ``None`` if it is known of no size."""
    bars = tuple(_bar(name, group.metrics[metric], 0.01) for name, group in sizes.items() if group.metrics[metric].mean)
    if not bars:
        return None
    extreme = _Extreme.of({name: sizes[name] for name in sizes if sizes[name].metrics[metric].mean}, metric, sign=-1)
    about = f"{100 * extreme.mean:.3g} %" if extreme.is_one else f"about {100 * extreme.mean:.0f} %"
    has = "an ETTR of" if extreme.is_all else "the lowest ETTR,"
    title = f"{extreme.who} have {has} {about}"
    chart = Bars(title, "%", (METRICS[metric].short,), bars)
    return Figure("ettr-by-size", chart, f"Bars of {METRICS[metric].label} by size of the job. {title}.")


class _Extreme(NamedTuple):
    """The sizes of jobs with the highest, or lowest, mean of a metric: all that its interval does not set apart."""

    who: str  # the jobs of these sizes, as the subject of a sentence
    mean: float
    is_one: bool
    is_all: bool

    @classmethod
    def of(cls, groups: Mapping[str, GroupSummary], metric: str, *, sign: int = 1) -> _Extreme:
        """Return the sizes whose intervals overlap with that of the extreme mean, and the mean of all of them."""
        order = list(groups)
        means = [groups[name].metrics[metric].mean or 0.0 for name in order]
        spans = [
            groups[name].metrics[metric].mean_ci95 or (mean, mean) for name, mean in zip(order, means, strict=True)
        ]
        low, high = spans[max(range(len(order)), key=lambda place: sign * means[place])]
        places = [place for place, (least, most) in enumerate(spans) if most >= low and least <= high]
        sizes = [f"{int(order[place]):,}" for place in places]
        is_range = len(places) > 2 and places[-1] - places[0] == len(places) - 1
        text = f"{sizes[0]} to {sizes[-1]}" if is_range else listed(sizes)
        who = f"Jobs of {text} GPU{'' if sizes == ['1'] else 's'}"
        mean, is_all = sum(means[place] for place in places) / len(places), len(places) == len(order) > 1
        return cls("Jobs of all sizes" if is_all else who, mean, len(places) == 1, is_all)


def _bar(name: str, summary: MetricSummary, size: float) -> Bar:
    low, high = summary.mean_ci95 or (None, None)
    span = None if low is None or high is None else (low / size, high / size)
    return Bar(number_of(int(name), "GPU"), ((summary.mean or 0.0) / size,), (span,))


def _mttf_by_size(sizes: Mapping[str, GroupSummary]) -> Figure | None:
    """Return the time between failures of jobs by size against 1/(N r); ``None`` with fewer than two that failed."""
    failing = {int(name): row for name, row in sizes.items() if row.metrics["mttf"].mean and row.mttf_expected_s}
    if len(failing) < 2:
        return None
    places, mttfs = tuple(map(float, failing)), [group.metrics["mttf"] for group in failing.values()]
    hours = tuple((mttf.mean or 0.0) / HOUR for mttf in mttfs)
    spans = tuple(ends and (ends[0] / HOUR, ends[1] / HOUR) for ends in (ends_of(mttf.mean_ci95) for mttf in mttfs))
    law = tuple((group.mttf_expected_s or 0.0) / HOUR for group in failing.values())
    largest, words = max(failing), time_text(mttfs[-1].mean or 0.0)
    title = f"Jobs of {number_of(largest, 'GPU')} run {words} between failures; 1/(N r) is {time_text(law[-1] * HOUR)}"
    simulated = Series("simulated", places, hours, spans, span="95 % interval of a constant rate (Gamma)")
    series = (simulated, Series("1/(N r)", places, law, look="dashed", hue=-1))
    x, y = ChartAxis("GPUs of a job", is_log=True), ChartAxis("running time between failures", True, LABELS_OF_HOURS)
    chart = Curves(title, x, y, series)
    return Figure("mttf-by-size", chart, f"Running time between failures by size of the job. {title}.",
                   "1/(N r): N nodes that each fail at the rate r, one node for smaller jobs. Jobs of less than a node "
                   "have no interval, because a failure stops several of them.")  # fmt: skip


_WAYS = ("a failure, drain or limit", "a job of a higher class", "a job that a failure put back")


def _stops_by_size(stops: Sequence[StopsSummary], sizes: Mapping[str, GroupSummary]) -> Figure | None:
    """Return how often jobs of each size were stopped, per 1,000 GPU-hours; ``None`` if no other job ever did."""
    if not any(row.via == "preemption" for row in stops):
        return None
    rows = []
    for name, group in sizes.items():
        counts = [0.0, 0.0, 0.0]
        for row in stops:
            if row.size == int(name):
                way = 0 if row.via == "direct" else 1 if row.cause in _FIRST_ORDER else 2
                counts[way] += row.stops
        exposure = group.gpu_s / (1000 * HOUR)
        if exposure:
            rows.append(Bar(number_of(int(name), "GPU"), tuple(count / exposure for count in counts)))
    second = sum(row.stops for row in stops if row.via == "preemption" and row.cause not in _FIRST_ORDER)
    every = sum(row.stops for row in stops if row.via == "preemption")
    title = f"Failures elsewhere triggered {percent_text(second / every, 0)} of preemptions"
    chart = Bars(title, "stops in 1,000 GPU-hours", _WAYS, tuple(rows))
    return Figure("stops-by-size", chart, f"Bars of stops by size of the stopped job and by who stopped it. {title}.")


# ----------------------------------------
# The same two chapters of several fleets, side by side: variants of a comparison, or points of a study.


class _Fleet(NamedTuple):
    """A fleet that a report shows, and how far its metrics are from those of the first one, on the same failures."""

    name: str
    document: RunDocument | VariantSummary
    difference: Mapping[str, DifferenceSummary | None]

    @property
    def fleet(self) -> FleetSummary:
        """The results of the streams."""
        return self.document.fleet

    def of_size(self, size: int) -> GroupSummary:
        """Return the jobs of a size; without any metric if there are none."""
        return _sizes(self.fleet).get(str(size), _NO_JOBS)


_NO_JOBS = GroupSummary.model_construct(jobs=0.0, gpu_s=0.0, metrics={}, single_jobs={})
_MOST_BESIDE = 4


def _fleets(report_data: ReportData) -> list[_Fleet]:
    """Return what a report shows of streams, the one that others are held against first; none without streams.

    Of a study these are the point that answers its question and the one that it is held against, simulated again.
    """
    if report_data.kind == "run":
        document = report_data.run
        return [] if document.fleet.is_empty else [_Fleet(document.scenario, document, {})]
    if report_data.kind == "compare":
        comparison = report_data.comparison
        labels = variant_labels(list(comparison.variants))
        order = dict.fromkeys((comparison.first, *comparison.order, *comparison.variants))
        variants = ((labels[name], comparison.variants[name]) for name in [*order][:_MOST_BESIDE])
        return [_Fleet(name, variant, variant.difference) for name, variant in variants if not variant.fleet.is_empty]
    after, before = report_data.looked_at, report_data.against
    if after is None or not after.scenario.streams:
        return []
    if before is None:
        return [_Fleet(after.name, after.document, {})]
    first, second, *_ = names_apart(report_data, before, after)
    change = differences(after.ensemble, before.ensemble)
    return [_Fleet(first, before.document, {}), _Fleet(second, after.document, change)]


_MOST_BARS = 8


def _over_time_beside(fleets: Sequence[_Fleet]) -> Section:
    first = fleets[0]
    shares = listed([
        f"{PERCENT.value(mean)} with {fleet.name}" for fleet in fleets
        if (mean := fleet.document.metrics["occupancy"].mean) is not None
    ])  # fmt: skip
    queues = listed([f"{_mean_queue(fleet.fleet):,.3g} with {fleet.name}" for fleet in fleets])
    titles = f"Jobs hold {shares} of the GPUs in working order", f"Waiting jobs ask for {queues} GPUs on average"
    items: list[Figure | TableBlock] = []
    quantities = (
        ("occupancy-over-time", "allocated", "GPUs of jobs"),
        ("queue-over-time", "queued_gpus", "GPUs that waiting jobs ask for"),
    )
    for (key, quantity, words), title in zip(quantities, titles, strict=True):
        series = tuple(_windows(row.fleet, row.name, quantity, hue) for hue, row in enumerate(fleets))
        chart = Curves(title, ChartAxis("days"), ChartAxis(words), series)
        items.append(Figure(key, chart, f"{words} over time. {title}."))
    items.append(_lost_beside(fleets))
    if isinstance(first.document, RunDocument):  # a comparison has a table of all metrics
        items.append(_delivered_beside(fleets))
    return Section("the-cluster-over-time", titles[0], (), tuple(items))


def _mean_queue(fleet: FleetSummary) -> float:
    return sum(window.queued_gpus for window in fleet.windows) / max(len(fleet.windows), 1)


def _delivered_beside(fleets: Sequence[_Fleet]) -> TableBlock:
    heads = ("", *(fleet.name for fleet in fleets), *(f"{fleet.name} − {fleets[0].name}" for fleet in fleets[1:]))
    rows = []
    for metric in rows_of("streams"):
        summaries = [fleet.document.metrics.get(metric) for fleet in fleets]
        form = shown(metric, [None if summary is None else summary.mean for summary in summaries])
        if any(summary is not None and summary.mean is not None for summary in summaries):
            rows.append((METRICS[metric].title, *(form.worded(summary) or "-" for summary in summaries),
                         *(_changed(form, fleet, metric) for fleet in fleets[1:])))  # fmt: skip
    return grid("Output of the fleets, and differences on the same jobs and failures", heads, rows)


def _changed(form: MetricFormat, fleet: _Fleet, metric: str) -> str:
    change = fleet.difference.get(metric)
    return "-" if change is None else "the same" if change.mean == 0 else form.change(change)


def _lost_beside(fleets: Sequence[_Fleet]) -> Figure:
    """Return where the GPU-time of each cluster went, a bar for each fleet; the title says what differs most."""
    shares: dict[str, list[float]] = {}
    for index, row in enumerate(fleets):
        for part in of_streams(row.fleet):
            shares.setdefault(part.label, [0.0] * len(fleets))[index] = part.share
    order = sorted(shares, key=lambda name: -max(shares[name]))
    lost = [name for name in order if name != bucket_label("productive")]
    names = tuple(row.name for row in fleets)
    bars = tuple(Bar(capital(name), tuple(100 * share for share in shares[name])) for name in lost[:_MOST_BARS])
    apart = max(lost, key=lambda name: max(shares[name]) - min(shares[name]))
    texts = [f"{100 * share:.2g} % with {name}" for share, name in zip(shares[apart], names, strict=True)]
    title = f"GPU-time {apart} differs most: {listed(texts)}"
    rows = [(capital(name), *map(percent_text, shares[name])) for name in order]
    chart = Bars(title, "% of all GPU-time", names, bars)
    return Figure("every-gpu-hour", chart, f"Bars of GPU-time that was not productive. {title}.",
                   "Shares of all GPUs of the cluster, used or not.",
                   grid("Where every GPU-hour went", ("", *names), rows))  # fmt: skip


def _by_size_beside(fleets: Sequence[_Fleet]) -> Section | None:
    """Return waits, ETTR and stops by size; ``None`` where all jobs are of one size."""
    sizes = sorted({int(name) for fleet in fleets for name in _sizes(fleet.fleet)})
    if len(sizes) < 2:
        return None
    waits = _metric_by_size(fleets, "wait_first", sizes, "wait-by-size")
    stops = stops_table({row.name: row.fleet for row in fleets})
    items = (waits, _metric_by_size(fleets, "ettr", sizes, "ettr-by-size"), stops, _ends_beside(fleets))
    note = "Differences are of the same jobs, submitted at the same times, and of the same failures."
    return Section("waits-by-size", waits.title, (), tuple(item for item in items if item is not None), (note,))


def _ends_beside(fleets: Sequence[_Fleet]) -> TableBlock:
    """Return how jobs ended in each fleet, by the GPU-time that they held."""
    shares = []
    for row in fleets:
        gpu_time = sum(outcome.gpu_s for outcome in row.fleet.outcomes.values()) or 1.0
        shares.append({name: percent_text(outcome.gpu_s / gpu_time, 1) for name, outcome in row.fleet.outcomes.items()})
    names = dict.fromkeys(name for outcomes in shares for name in outcomes)
    rows = [(name.replace("_", " "), *(outcomes.get(name, "-") for outcomes in shares)) for name in names]
    return grid("How jobs ended, of GPU-time", ("", *(row.name for row in fleets)), rows)


def _metric_by_size(fleets: Sequence[_Fleet], metric: str, sizes: Sequence[int], key: str) -> Figure:
    """Return a metric by size, a bar for each fleet, and paired differences to the first in a table."""
    first, label = fleets[0], METRICS[metric].label
    form = shown_of_cells((row.of_size(size) for row in fleets for size in sizes), metric)
    slices = {size: Slice(metric, "size", str(size)).name for size in sizes}
    bars, rows = [], []
    for size, name in slices.items():
        groups = [row.of_size(size) for row in fleets]
        _, means, spans, *_ = zip(*(bar("", form, group) for group in groups), strict=True)
        bars.append(Bar(number_of(size, "GPU"), means, spans))
        texts = [form.worded(group.metrics.get(metric)) or "-" for group in groups]
        rows.append((f"{size:,}", *texts, *(_changed(form, fleet, name) for fleet in fleets[1:])))
    title = _largest_change(fleets, metric, slices, form)
    heads = ["GPUs", *(row.name for row in fleets), *(f"{row.name} − {first.name}" for row in fleets[1:])]
    chart = Bars(title, form.unit, tuple(row.name for row in fleets), tuple(bars))
    return Figure(key, chart, f"Bars of {label} by size of the job. {title}.",
                   "Sizes are classes of powers of two; whiskers: 95 % intervals, wider than those of differences.",
                   grid(f"{capital(label)} by size", heads, rows, (), note="In brackets 95 % intervals."))  # fmt: skip


def _largest_change(fleets: Sequence[_Fleet], metric: str, slices: Mapping[int, str], form: MetricFormat) -> str:
    """Return at which size a metric differs most from that of the first fleet, as a title."""
    label = METRICS[metric].label
    changes = ((size, row.name, row.difference.get(name)) for size, name in slices.items() for row in fleets[1:])
    resolved = [(size, name, change) for size, name, change in changes if change is not None and change.resolved]
    if not resolved:
        return f"{capital(label)} does not differ clearly at any size"
    size, name, change = max(resolved, key=lambda row: abs(row[2].mean))
    way = "less" if change.mean < 0 else "more"
    start = f"With {name} instead of {fleets[0].name}, {label} of jobs of {number_of(size, 'GPU')} is "
    return f"{start}{form.distance(change.mean, change.ci95)} {way}"
