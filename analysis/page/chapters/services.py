"""Services: what a run of them came to, and what `ettrick explain` and `ettrick layouts` say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.analysis.amounts import (
    COUNT,
    OF_HUNDRED,
    PERCENT,
    amount_text,
    cell_forms,
    interval_text,
    nines_text,
    number_of,
    percent_text,
    range_text,
    short_text,
    text_or_dash,
    time_text,
)
from ettrick.analysis.metrics import METRICS, rows_of
from ettrick.analysis.page.account import (
    BesideFormula,
    Delivered,
    at_a_glance,
    beside_formula,
    delivered,
    of_services,
    where,
)
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.first_screen import screen_of_run, stated
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Figure, Section, grid, labels, table_of
from ettrick.analysis.page.sourced import SourceDocument, number, worded
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.parts import MetricSummary
    from ettrick.analysis.results.explained import (
        ExplainedService,
        PrefillSummary,
        ServiceLayoutRow,
        ServiceLayoutsDocument,
    )
    from ettrick.analysis.results.models import RunDocument, ServiceSummary, StandingSummary, TargetSummary

# What a run of services came to: tables for the terminal and for pages.


def terminal_tables(document: RunDocument) -> Iterator[TableBlock]:
    """Yield what the terminal shows of services, the answer first."""
    for name, service in document.per_service.items():
        yield headline(document, name, service)
        yield _requests(name, service)
        if service.closed_form is not None:
            yield _beside_formula(name, service.metrics, service.closed_form)
    if document.fleet.is_empty:
        yield where(of_services(document), share_text=nines_text)


def headline(document: RunDocument, name: str, service: ServiceSummary) -> TableBlock:
    """Return the metrics that a service is judged by: mean and interval."""
    summaries = dict(service.metrics)
    if len(document.per_service) == 1:
        summaries |= {key: document.metrics[key] for key in rows_of("service") if key in document.metrics}
    currency, rows = "" if document.cost is None else document.cost.currency, []
    for key, summary in summaries.items():
        metric = METRICS[key.partition("@")[0]]
        if summary.mean is not None and (metric.name != "wasted_work" or summary.mean):
            form = nines_text if metric.is_share else cell_forms(metric.name, currency).value
            # What it is: the first sentence of its definition.
            gloss = metric.definition.partition(". ")[0].replace("`", "")
            rows.append(Delivered(metric.title, summary, form, gloss))
    return delivered(f"Output of service {name}", rows)


# Requests that do not meet the SLO, by what becomes of them.
_MISSED = {"late": "late", "rejected": "turned away, or given up", "failed": "lost with a replica",
           "waiting": "waiting at the end"}  # fmt: skip


def _requests(name: str, service: ServiceSummary) -> TableBlock:
    """Return what became of the requests."""
    offered = service.requests["offered"] or 1.0
    rows = [
        (label, short_text(service.requests[key] or 0.0), nines_text((service.requests[key] or 0.0) / offered))
        for key, label in {"in_slo": "in SLO", **_MISSED, "moved": "(moved to another replica)"}.items()
    ]
    lost = (
        f"{short_text(service.tokens_lost)} tokens were made and lost" if service.tokens_lost else "no token was lost"
    )
    flight = "" if service.in_flight is None else f", with {short_text(service.in_flight)} requests in flight each time"
    note = f"{number_of(round(service.stops), 'failure')} stopped replicas{flight}; {lost}."
    return grid(f"Requests of {name}", ("", "requests", "of those offered"), rows, note=note)


def _beside_formula(name: str, metrics: Mapping[str, MetricSummary], formula: StandingSummary) -> TableBlock:
    """Return what a formula says of the replicas that serve, compared with the simulation."""
    by_name = {key.partition("@")[0]: summary for key, summary in metrics.items()}
    rows = [
        BesideFormula(METRICS[key].title, getattr(formula, key), by_name[key].mean, nines_text,
                      interval_text(by_name[key], nines_text))
        for key in ("capacity_share", "all_serving", "capacity_availability")
    ]  # fmt: skip
    note = "The formula: all times exponential, a crew for every repair, spares that do not fail, demand at its mean."
    return beside_formula(f"Replicas of {name}", rows, note)


# ----------------------------------------
# The first screen of a report, and the chapter of services.


def opening(report_data: ReportData) -> FirstScreen:
    """Return the opening of a run of services alone: how many requests meet the SLO, and what keeps the others."""
    document = report_data.run
    places = SourceDocument("run.json", document)
    drivers: list[Words] = []
    for name, service in document.per_service.items():
        whose = f"Of the requests of {name}" if len(document.per_service) > 1 else "Of all requests"
        late, offered = (places.at("per_service", name, "requests", key) for key in ("late", "offered"))
        if late is not None and offered is not None and offered.value:
            text = nines_text((service.requests["failed"] or 0.0) / offered.value)
            drivers.append(
                (f"{whose} ", number(late / offered, PERCENT), " are late; ", f"{text} are lost in failures.")
            )
        stops = places.at("per_service", name, "stops")
        if stops is not None:
            drivers.append(("Failures stop replicas ", number(stops, COUNT), " times in a run."))
    headroom = places.at("cluster_shares", "headroom")
    if headroom is not None:
        drivers.append((number(headroom, PERCENT), " of all GPU-time is headroom: replicas that wait for requests."))
    return screen_of_run(
        document,
        report_data.scenario,
        answer(places, document),
        ((stated(report_data.scenario, priced=document.cost is not None),),),
        _missed(document),
        drivers,
        about="how many requests meet the SLO",
    )


def answer(places: SourceDocument, _document: RunDocument) -> Words:
    """Return how many requests meet the SLO in a sentence."""
    attained = places.stated_estimate("metrics", "slo_attainment")
    return ("Of every hundred requests, ", *worded(attained, OF_HUNDRED), " meet the SLO.")


def _missed(document: RunDocument) -> Figure | None:
    """Return the requests that miss the SLO, by what becomes of them; ``None`` if all meet it."""
    services = document.per_service.values()
    offered = sum(service.requests["offered"] or 0.0 for service in services)
    counts = {label: sum(service.requests[key] or 0.0 for service in services) for key, label in _MISSED.items()}
    shares = [(label, count / offered) for label, count in sorted(counts.items(), key=lambda row: -row[1]) if count]
    if not shares:
        return None
    title = f"Most requests that miss the SLO are {shares[0][0]}"
    return at_a_glance(title, "% of the requests", "requests that miss the SLO", shares)


_STEADY = 1.05  # a load whose largest value is less than so many times the smallest one is the same all the time


def _over_time(document: RunDocument) -> Figure | None:
    """Return capacity and demand over time, of all services together; ``None`` where both are steady."""
    windows = list(zip(*(service.windows for service in document.per_service.values()), strict=True))
    days = tuple((window.start_s + window.end_s) / 2 / DAY for window, *_ in windows)
    capacity = tuple(sum(window.capacity_per_s for window in of_all) for of_all in windows)
    demand = tuple(sum(window.demand_per_s for window in of_all) for of_all in windows)
    if all(max(rates) <= _STEADY * min(rates) for rates in (capacity, demand)):
        return None
    loads = [have / offered for have, offered in zip(capacity, demand, strict=True) if offered]
    least = min(loads, default=1.0)
    title = f"Replicas admit {least:.3g} times the demand in the window with the fewest"
    curves = Curves(
        title,
        ChartAxis("days"),
        ChartAxis("requests a second"),
        (Series("that the replicas admit", days, capacity, hue=2), Series("offered", days, demand, hue=0)),
    )
    alt = f"Capacity and demand over {days[-1]:.3g} days. {title}."
    return Figure("capacity-and-demand", curves, alt, "Means over windows of time and over replications.")


def section(report_data: ReportData) -> Section | None:
    """Return capacity and demand over time, and what became of the requests; ``None`` without services."""
    document = report_data.run if report_data.kind == "run" else None
    if document is None or not document.per_service:
        return None
    tables = tuple(terminal_tables(document))
    attained = document.metrics["slo_attainment"].mean
    title = f"{text_or_dash(attained, nines_text)} of the requests meet the SLO"
    note = (
        "A request is in SLO if its TTFT and its own mean TPOT are. Attainment by load is that of one replica whose "
        "requests are replayed one by one; between two changes of replicas or demand the rest is a closed form."
    )
    over_time = _over_time(document)
    return Section("services", title, (), (*(() if over_time is None else (over_time,)), *tables), (note,))


# Targets by window, of services and of jobs.


def targets_table(document: RunDocument) -> TableBlock | None:
    """Return a row for each target; ``None`` without any."""
    targets = document.per_target
    named = {name for target in targets.values() for name in target.metrics}
    currency = "" if document.cost is None else document.cost.currency

    def mean(metric: str, form: Callable[[float], str]) -> Callable[[tuple[str, TargetSummary]], str]:
        return lambda row: text_or_dash(row[1].metrics[metric].mean, form) if metric in row[1].metrics else "–"

    columns: tuple[Column[tuple[str, TargetSummary]], ...] = (
        Column("target", lambda row: row[0]),
        Column("", lambda row: f"{METRICS[row[1].metric].label} of {row[1].of}"),
        Column("at least", lambda row: f"{100 * row[1].at_least:.6g} %"),
        Column("windows", lambda row: f"{row[1].windows:,} of {time_text(row[1].window_s)}"),
        Column("P(miss)", mean("missed_windows", nines_text)),
        Column("95 % interval", lambda row: interval_text(row[1].metrics["missed_windows"], nines_text)),
        Column("worst\nwindow", mean("worst_window", nines_text)),
        Column("error\nbudget left", mean("error_budget_left", percent_text)),
        Column("bill\ngiven back", mean("credit_share", percent_text), "credit_share" in named),
        Column("credits\nper run", mean("credits", cell_forms("credits", currency).value), "credits" in named),
    )
    note = (
        "P(miss): of a window. Worst window: the lowest of a run, mean of the runs. An error budget below 0 is spent: "
        "over all windows more was missed than the target allows."
    )
    by_slo = [name for name, target in targets.items() if name == target.of]
    if by_slo:
        note += f" Of {' and '.join(by_slo)} no target is stated: the SLO is taken, in each window of the results."
    return table_of("Targets", list(targets.items()), columns, note=note) if targets else None


def targets_section(report_data: ReportData) -> Section | None:
    """Return the targets of a run; ``None`` without any."""
    document = report_data.run if report_data.kind == "run" else None
    table = None if document is None else targets_table(document)
    if document is None or table is None:
        return None
    name, worst = max(document.per_target.items(), key=lambda item: item[1].metrics["missed_windows"].mean or 0.0)
    missed = worst.metrics["missed_windows"]
    width = time_text(worst.window_s)
    title = f"{name}: {text_or_dash(missed.mean, nines_text)} of the windows of {width} miss the target"
    return Section("targets", title, (), (table,))


# What `ettrick explain` says.


def service_sections(name: str, service: ExplainedService) -> Iterator[Section]:
    """Yield all that there is to say about a service."""
    band = range_text(service.within_slo.tpot_s_band90, _ms)
    yield labels(
        f"Service {name}",
        ("replicas", f"{service.replicas:,} of {_ranks(service)} ({service.accelerator})"),
        ("model", service.model),
        ("engine", f"{service.engine}: constants {service.basis}, log error {service.sigma:g}"),
        ("weights", f"{service.weight_bytes / 1e9:,.1f} GB a GPU; room for keys and values "
         f"{service.cache_room_bytes / 1e9:,.1f} GB, {service.cache_bytes_per_token / 1e3:,.1f} kB a token"),
        ("mean request", f"{service.input_tokens:,.0f} tokens in, {service.output_tokens:,.0f} out; prefill "
         f"{_ms(service.prefill_s)}"),
        *_on_reading(service),
        ("demand", f"{short_text(service.demand_per_s)} requests/s, the mean; {percent_text(service.load, 0)} of the "
         f"{short_text(service.demand_per_s / service.load)} that are carried with the mean TPOT at that of the SLO"),
        ("TPOT at the SLO", f"{_ms(service.within_slo.tpot_s)} ({band} with 90 %)"),
    )  # fmt: skip
    yield Section("batches", "Batches of a replica", (), (_batches(service),))
    yield Section("terms", "Time per token within the SLO", (), (_terms(service),))
    yield _one_by_one(service)
    text = (
        f"{short_text(service.failures_per_day)} failures a day stop a replica; it is back after "
        f"{time_text(service.down_s)} where a spare is available, else after a repair. Only hardware failures; all "
        "times exponential, a crew for every repair."
    )
    yield Section("spares", "Spare nodes", (text,), (_spares(service),))


def _ranks(pool: ExplainedService | PrefillSummary) -> str:
    return f"tensor {pool.tensor} x data {pool.data} x pipeline {pool.pipeline}"


def _on_reading(service: ExplainedService) -> Iterator[tuple[str, str]]:
    """Yield who reads prompts where another pool does, and how many tokens a step makes where some are speculated."""
    readers = service.readers
    if readers is not None:
        yield (
            "prefill pool",
            (
                f"{readers.replicas:,} of {_ranks(readers)}: {short_text(readers.prompts_per_s)} prompts a second, "
                f"{percent_text(readers.balance, 0)} of what the decode pool carries within the SLO; keys and values "
                f"pass in {_ms(readers.handover_s)}. Failures below are only those of the decode pool"
            ),
        )
    if service.speculated_tokens > 1:
        yield "speculation", f"{service.speculated_tokens:,.2f} tokens a step"


def _terms(service: ExplainedService) -> TableBlock:
    """Return what the time of a token is made of; terms of nothing are left out."""
    total = sum(time or 0.0 for time in service.tpot_terms_s.values())
    rows = [
        ("KV cache" if term == "cache" else term, f"{time * 1e3:,.2f}", percent_text(time / total, 0))
        for term, time in service.tpot_terms_s.items()
        if time
    ]
    return grid("", ("term", "ms", "share"), rows)


def _spares(service: ExplainedService) -> TableBlock:
    """Return how many replicas serve with so many spare nodes."""
    rows = [
        (f"{row.spares}", percent_text(row.capacity_share, 4), percent_text(row.all_up, 3),
         percent_text(row.capacity_availability, 4), percent_text(row.served_share, 5))
        for row in service.spares
    ]  # fmt: skip
    heads = (
        "spare\nnodes",
        "replicas that\nserve, mean",
        "time with\nall of them",
        "time with\nenough",
        "requests that\nfind capacity",
    )
    return grid("", heads, rows)


def _ms(seconds: float) -> str:
    """Return a time below a second in milliseconds."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else time_text(seconds)


def _batches(service: ExplainedService) -> TableBlock:
    """Return what a replica does at the largest batch, at that of the SLO, and at the demand."""
    sizes = {"most that fit": service.largest, "within SLO": service.within_slo, "at the demand": service.at_demand}

    def per_token(joules_per_million: float | None) -> str:
        return text_or_dash(joules_per_million, lambda joules: f"{joules / 1e6:,.4g}")

    rows = [
        (label, f"{batch.batch:,.0f}", f"{batch.tpot_s * 1e3:,.1f}",
         text_or_dash(batch.ttft_s, lambda time: f"{1e3 * time:,.0f}"), f"{batch.tokens_per_s_user:,.0f}",
         f"{batch.tokens_per_gpu_s:,.0f}", text_or_dash(batch.gpu_w, "{:,.0f}".format),
         per_token(batch.joules_per_million_tokens), per_token(batch.facility_joules_per_million_tokens),
         text_or_dash(batch.money_per_million_tokens, "{:,.2f}".format))
        for label, batch in sizes.items()
        if batch is not None
    ]  # fmt: skip
    heads = ("batch", "in\nflight", "TPOT\nms", "TTFT\nms", "tokens/s\na user", "tokens/s\na GPU", "GPU\nW",
             "GPU J\na token", "facility J\na token", "money per\nM tokens")  # fmt: skip
    return grid("", heads, rows)


def _one_by_one(service: ExplainedService) -> Section:
    """Return what the replay says of tails, and of the load within which the SLO is met."""
    tail = service.tail
    curve = ", ".join(
        f"{percent_text(at, 0)}: {percent_text(share, 1)}" for at, share in filter(None, service.attainment)
    )
    met = "never" if service.slo_load is None else f"up to {short_text(service.slo_goodput_per_s or 0.0)} requests/s"
    note = ("note", "data ranks share prompts evenly here: TTFT of long ones is a lower bound")
    return labels(
        "Requests one by one, without failures",
        ("TTFT", f"mean {text_or_dash(tail.ttft_mean_s, _ms)}, P50 {_ms(tail.ttft_p50_s)}, P99 {_ms(tail.ttft_p99_s)}"),
        ("TPOT", f"P50 {_ms(tail.tpot_p50_s)}, P99 {_ms(tail.tpot_p99_s)}"),
        ("in SLO", f"{percent_text(tail.slo_attainment)} of {tail.requests:,} requests at the demand"),
        ("by load", curve),
        ("admitted", f"up to {short_text(service.capacity_per_s)} requests/s; with more in flight more would be late"),
        ("SLO is met", f"{met}, by the stated share of requests; the carried load meets it only in the mean"),
        *([note] if service.data > 1 else []),
    )


# What `ettrick layouts` says.


def format_service_layouts(content: ServiceLayoutsDocument) -> str:
    """Return layouts of a service as text for standard output."""
    columns: tuple[Column[ServiceLayoutRow], ...] = (
        Column("layout", lambda row: f"{row.tensor} x {row.data} x {row.pipeline}{' *' * row.is_own}"),
        Column("replicas", _replicas),
        Column("in\nflight", lambda row: f"{row.amounts.batch:,.0f}"),
        Column("TPOT\nms", lambda row: f"{row.amounts.tpot_s * 1e3:,.1f}{'' if row.is_within_slo else ' +'}"),
        Column("90 %\nband", lambda row: range_text(row.amounts.tpot_s_band90, lambda end: f"{1e3 * end:,.0f}")),
        Column("TTFT\nms", lambda row: text_or_dash(row.amounts.ttft_s, lambda time: f"{1e3 * time:,.0f}")),
        Column("tokens/s\na user", lambda row: f"{row.amounts.tokens_per_s_user:,.0f}"),
        Column("tokens/s\na GPU", lambda row: f"{row.amounts.tokens_per_gpu_s:,.0f}"),
        Column("after\nfailures", lambda row: f"{row.tokens_per_gpu_s_after_failures:,.0f}"),
        Column("tokens/s\na MW", lambda row: text_or_dash(row.tokens_per_mw_s, amount_text)),
        Column(
            "money per\nM tokens", lambda row: text_or_dash(row.amounts.money_per_million_tokens, "{:,.2f}".format)
        ),
    )  # fmt: skip
    text = (
        f"{content.gpus:,} GPUs ({content.accelerator}): {content.found:,} layouts fit; tensor x data x pipeline; "
        f"times are {content.basis}"
    )
    note = "* the scenario's own layout; + mean TPOT or TTFT beyond the SLO"
    if any(row.prefill_replicas is not None for row in content.layouts):
        note += "; n + m of g: m prefill replicas of g GPUs"
    table = table_of("", content.layouts, columns, note=note)
    title = f"{content.scenario}, service {content.service}"
    return terminal.write([Section("layouts", title, (text,), (table,))], otherwise=120)


def _replicas(row: ServiceLayoutRow) -> str:
    readers = "" if row.prefill_replicas is None else f" + {row.prefill_replicas:,} of {row.prefill_gpus}"
    return f"{row.replicas:,}{readers}"
