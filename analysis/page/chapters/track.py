"""A cluster followed over weeks: is it as the model says, since when not, and what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.analysis.amounts import between, capital, number_of, percent_text
from ettrick.analysis.metrics import bucket_label
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.first_screen import first_screen
from ettrick.analysis.page.model import Column, Figure, Report, Section, grid, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.results.fitted import AlarmSummary, TrackDocument, Tracked

_LABELS = {
    "productive": "productive time", "outages": "outages of nodes", "unavailability": "share of nodes down",
    "interruptions": "interruptions",
}  # fmt: skip

_COUNTS = ("outages", "interruptions")


def report(document: TrackDocument) -> Report:
    """Return the page of a tracked job."""
    source = document.provenance
    footer = (f"Ettrick {source.version}, Python {source.python}, NumPy {source.numpy}", source.command)
    pictures = list(_pictures(document))
    first = first_screen(
        f"Is {document.job} still as the model {document.name} says?",
        (answer(document),),
        ((_doubt(document),),),
        pictures[0] if pictures else None,
        ((f"{capital(text)}.",) for text in map(alarm_text, document.alarms[-3:])),
        (("Whether the cluster or its model is wrong: a fit to the weeks since then says.",),),
    )
    return Report(f"{document.name}: tracked", first, tuple(sections(document, pictures)), None, footer)


def answer(document: TrackDocument) -> str:
    """Return the answer in a sentence."""
    unit = _unit(document)
    rows = number_of(len(document.weeks), unit)
    confirmed = [alarm for alarm in document.alarms if alarm.confirmed]
    if confirmed:
        # Productive time is what the others cost.
        return f"No: a regression is confirmed, {alarm_text(min(confirmed, key=lambda a: a.metric != 'productive'))}."
    if document.alarms:
        return (
            f"Perhaps not: {number_of(len(document.alarms), 'alarm')} in {rows}, but no regression that is worse, "
            f"lasts two {unit}s and is above the threshold."
        )
    return f"Yes: none of {rows} leaves what the model predicts."


def _unit(document: TrackDocument) -> str:
    """Return what is compared: weeks that were measured, or results of Ettrick."""
    return "result" if document.weeks[0].replications > 1 else "week"


def _doubt(document: TrackDocument) -> str:
    limit = document.limits
    if not limit.histories:
        return (
            f"All metrics and results together have a chance of {percent_text(limit.false_alarms, 1)} of a false alarm."
        )
    return (
        f"If the model were right, {percent_text(limit.false_alarms, 1)} of the years would have an alarm, by "
        f"{limit.histories} simulated years with these limits of |z| and CUSUM: "
        + ", ".join(f"{_LABELS[name]} {z:.2f} and {limit.lasting[name]:.2f}" for name, z in limit.sudden.items())
        + f"; each prediction has {document.simulated:,} simulated weeks."
    )


def alarm_text(alarm: AlarmSummary) -> str:
    """Return an alarm in a line: week, size, how it was found, and what moved."""
    name, size = _LABELS[alarm.metric], alarm.size or 0.0
    per = "week" if alarm.metric == "outages" else "run"
    much = f"{size:+.3g} a {per}" if alarm.metric in _COUNTS else f"{100 * size:+.2f} percentage points"
    what = ", ".join(alarm.moved)
    since = f" since {alarm.since}" if alarm.since != alarm.week else ""
    return f"{alarm.week}: {name} {much}{since} ({alarm.kind})" + (f"; moved: {what}" if what else "")


def sections(document: TrackDocument, pictures: list[Figure] | None = None) -> Iterator[Section]:
    """Yield the sections, for a terminal without pictures."""
    notes = tuple(f"{number}. {text}" for number, text in enumerate(document.findings, 1))
    items = (*_histories(document), *(pictures or ())[1:])
    yield Section("history", answer(document), (_doubt(document),), items, notes)
    if document.alarms:
        yield Section("alarms", "Alarms, and what changed", (), (_alarms(document.alarms),))
    last = document.weeks[-1]
    details = [
        (bucket_label(name), *_cells(name, metric)[:3])
        for name, metric in last.metrics.items()
        if name not in _LABELS and metric.measured is not None
    ]
    if details:
        title = f"Buckets and causes of {last.week}; these explain and never alarm"
        detail = grid(title, ["what", "measured", "predicted, 95 %", "z"], details)
        yield Section("detail", f"The last {_unit(document)}, {last.week}", (), (detail,))


def _histories(document: TrackDocument) -> Iterator[TableBlock]:
    """Yield what was measured in each week compared with what was predicted, a table for each metric."""
    for name in _LABELS:
        if any(name in week.metrics for week in document.weeks):
            rows = [(week.week, *_cells(name, week.metrics.get(name))) for week in document.weeks]
            heads = (_unit(document), "measured", "predicted, 95 %", "z", "CUSUM")
            yield grid(f"{capital(_LABELS[name])}, measured and predicted", heads, rows)


def _alarms(alarms: Sequence[AlarmSummary]) -> TableBlock:
    columns: tuple[Column[AlarmSummary], ...] = (
        Column("alarm", alarm_text),
        Column("worse", lambda alarm: "yes" if alarm.worse else "no", is_number=False),
        Column("confirmed", lambda alarm: "yes" if alarm.confirmed else "no", is_number=False),
    )
    return table_of("Alarms", alarms, columns)


def beside(measured: Mapping[str, float], simulated: Mapping[str, float | None]) -> Section:
    """Return measured shares next to those of a run."""
    rows = [
        (bucket_label(name), percent_text(share), percent_text(simulated[name] or 0.0),
         f"{100 * (share - (simulated[name] or 0.0)):+.2f}")
        for name, share in measured.items()
    ]  # fmt: skip
    heads = ["share of the time", "measured", "simulated", "difference, percentage points"]
    return Section("measured", "Measured and simulated", (), (grid("", heads, rows),))


def _cells(name: str, metric: Tracked | None) -> list[str]:
    if metric is None:
        return ["–"] * 4

    def text(value: float | None) -> str:
        is_number = name in _COUNTS or ":" in name or name == "step_time"
        return "–" if value is None else f"{value:.3g}" if is_number else percent_text(value)

    predicted = text(metric.mean)
    if metric.low is not None:
        predicted = f"{text(metric.median)}{between(text(metric.low), text(metric.high))}"
    z, cusum = ("–" if value is None else f"{value:+.2f}" for value in (metric.z, metric.cusum))
    return [text(metric.measured), predicted, z, cusum]


_PREDICTED = "prediction band, which holds 95 % of the weeks of the model in force"


def _pictures(document: TrackDocument) -> Iterator[Figure]:
    """Yield a history of each metric that was measured more than once."""
    for name in _LABELS:
        history = [(at, row.week, row.metrics[name]) for at, row in enumerate(document.weeks) if name in row.metrics]
        if sum(metric.measured is not None for *_, metric in history) > 1:
            about = "Measured values, and predictions of the model in force."
            yield Figure(f"history-{name}", _course(name, history), about)


def _course(name: str, history: Sequence[tuple[int, str, Tracked]]) -> Curves:
    """Return a metric by week, measured and predicted."""
    size, unit = (1.0, "") if name in _COUNTS else (0.01, " [%]")
    x = tuple(float(at) for at, *_ in history)
    band = tuple(((metric.low or 0.0) / size, (metric.high or 0.0) / size) for *_, metric in history)
    means, medians = (
        tuple(None if value is None else value / size for value in values)
        for values in zip(*((metric.measured, metric.median) for *_, metric in history), strict=True)
    )
    ticks = tuple((float(at), week[:10]) for at, week, _ in history)[:: max(len(history) // 8, 1)]
    predicted = Series("predicted", x, medians, ci95=band, look="dashed", hue=-1, span=_PREDICTED)
    title, y = f"{capital(_LABELS[name])} by week", ChartAxis(f"{capital(_LABELS[name])}{unit}")
    return Curves(title, ChartAxis("week", ticks=ticks), y, (Series("measured", x, means), predicted))
