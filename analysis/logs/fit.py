"""From the history of every node to a failure model: what is estimated, in which order, and what is left open."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ettrick.analysis.amounts import number_of
from ettrick.analysis.logs import estimate
from ettrick.analysis.logs.estimate import FEW, SOME, Clustering, ClusteringVerdict, ClusterModel, Estimate, UpTimes
from ettrick.analysis.logs.events import Blame, History, Incidents, largest
from ettrick.analysis.logs.tables import NoModelError, utc
from ettrick.analysis.logs.training import WEEK, summary
from ettrick.analysis.results import fitted as summaries
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.tables import LogFile, NodeEvent, Rules, Tables
    from ettrick.analysis.results.models import Provenance

Data = TypeVar("Data")

DRAWS = 200
"""Joint draws of the parameters, the best estimate first."""

FEWEST_INCIDENTS = 3

PER = 1000 * DAY
"""Rates are per 1000 node-days; those of estimators are per second or per day."""

NOT_KNOWN = (
    "nodes that were never watched, and faults that nobody recorded: silent corruption, slow nodes",
    "whether a repair mended a node; only that it did not fail again in the window",
    "what a fault would have done to a larger job",
    "whether an outage would have stopped a job, where no job ran on the node",
    "anything beyond the length of the window: trend, ageing",
    "whether operators changed their habits: when they drain, when they close tickets",
)


@dataclass(frozen=True)
class FittedModel:
    """The document, and what else is needed to write a model: its parameters, and joint draws of them."""

    document: summaries.FitDocument
    history: History
    verdict: ClusteringVerdict
    draws: list[Clustering]
    shares: NDArray[np.float64]
    """Events of each cause of the document, for draws of how the rate divides, shape (causes,)."""


def fit(
    tables: Tables,
    history: History,
    together: Sequence[Incidents],
    blame: Blame | None,
    rules: Rules,
    name: str,
    provenance: Provenance,
) -> FittedModel:
    """Return the failure model of a history.

    Raises
    ------
    NoModelError
        If nothing failed, or nodes were never up.
    """
    outages, up = history.outages, _node_days_up(history)
    used, unused = _divided(together, outages)
    single = [event for event in outages if event.incident < 0]
    lasting = _lasting(history)
    spells, incidents_relapse = _spells(history, has_incidents=bool(used))
    verdict = estimate.clustering(spells, lasting)
    model = ClusterModel(spells)
    draws = _draws(model, verdict, lasting)
    trend = _trend(history)
    wide = spread(history, outages, 1.0)
    total = estimate.rate(len(outages) / wide, up / wide)
    causes, shares = _causes(history, single, verdict, up, rules, wide)
    document = summaries.FitDocument(
        format=1, name=name, **_watched(history), **_read(tables), node_days_up=up, outages=len(outages),
        rate=estimated(total, 1000), causes=causes, unseen=_unseen(rules, outages, up),
        unknown_texts=_unknown(outages), repair=_repair(history, single),
        incidents=[_incidents(history, group, used=group in used, relapse=incidents_relapse) for group in together],
        clustering=_clustering(verdict, draws, model, lasting), trend=trend, detection=_detection(outages),
        attribution=_attribution(tables, blame) if blame is not None else None,
        training=summary(tables, history), checks=[],
        findings=[*tables.findings, *_findings(history, verdict, trend, unused), *_onsets(history)],
        not_known=list(NOT_KNOWN), provenance=provenance,
    )  # fmt: skip
    return FittedModel(document, history, verdict, draws, shares)


def _watched(history: History) -> dict[str, Any]:
    """Return what a document says of the window and the nodes of a history."""
    return {
        "window": [utc(history.start), utc(history.end)], "days": (history.end - history.start) / DAY,
        "nodes": len(history.nodes), "basis": history.basis, "node_days": history.in_service / DAY,
        "gpus_per_node": int(np.median(history.gpus[history.gpus > 0])) if history.gpus.any() else 8,
        "open_outages": sum(math.isnan(event.t_end) for event in history.outages) if history.has_ends else 0,
    }  # fmt: skip


def _read(tables: Tables) -> dict[str, Any]:
    """Return what a document says of the files that were read."""
    return {
        "files": [file_read(source) for source in tables.sources], "dropped": dropped_rows(tables),
        "planned": sum(event.planned for event in tables.events),
        "xid_groups": {str(code): counts for code, counts in sorted(tables.groups.items()) if code},
    }  # fmt: skip


def _draws(model: ClusterModel, verdict: ClusteringVerdict, lasting: Estimate) -> list[Clustering]:
    """Return joint draws of the parameters of the fit."""
    if not model.events:
        return [verdict.chosen] * DRAWS
    frailty = lasting if verdict.contradicted and verdict.frailty == "yes" else None
    return model.draws(verdict.chosen, DRAWS, lasting=frailty)


def _node_days_up(history: History) -> float:
    """Return how long nodes were up, if a rate follows from the history [d]."""
    up = _up(history) / DAY
    if up <= 0:
        raise NoModelError("no failure rate: no node was up in the window; check --window and the inventory")
    if history.end - history.start <= 1:
        raise NoModelError("no failure rate: all entries of the logs have the same time")
    if not history.outages:
        limit = 1000 * estimate.rate(0, up).high
        raise NoModelError(
            f"no failure model: no unplanned outage in {up:,.0f} node-days; the rate is below {limit:.2g} per 1000 "
            "node-days (95 %)"
        )
    return up


def _divided(together: Sequence[Incidents], outages: Sequence[NodeEvent]) -> tuple[list[Incidents], list[Incidents]]:
    """Return the incidents that are a source, and those that chance explains or too few, whose outages are single."""
    used, unused = list[Incidents](), list[Incidents]()
    for incidents in together:
        # One of many racks is none of chance.
        is_enough = len(incidents.groups) >= FEWEST_INCIDENTS or incidents is not together[0]
        (used if is_enough and _more_than_chance(incidents) else unused).append(incidents)
    for index in (index for incidents in unused for group in incidents.groups for index in group):
        outages[index].incident = -1
    return used, unused


def _spells(history: History, *, has_incidents: bool) -> tuple[UpTimes, bool]:
    """Return the stretches in which nodes were up, and whether nodes relapse after incidents, by the likelihood."""
    spells = spells_of(history)
    if not has_incidents or int(spells.failed.sum()) < SOME:
        return spells, False
    relapsing = spells_of(history, incidents_relapse=True)
    without, with_ = (ClusterModel(times).fit("relapse").log_likelihood for times in (spells, relapsing))
    return (relapsing, True) if with_ > without else (spells, False)


def estimated(value: Estimate, size: float = 1.0) -> summaries.Estimated:
    """Return an estimate for the document, null for what has no bound."""
    best, low, high = (x * size if math.isfinite(x) else None for x in value)
    return summaries.Estimated(value=best, low=low, high=high)


def _more_than_chance(together: Incidents) -> bool:
    """Return whether so many groups are less likely than 1 % without incidents."""
    from scipy.special import pdtrc

    return float(pdtrc(len(together.groups) - 1, max(together.by_chance, 1e-12))) < 0.01


def file_read(source: LogFile) -> summaries.FileRead:
    """Return what a file was, for the document."""
    first, last = (utc(moment) if math.isfinite(moment) else None for moment in (source.first, source.last))
    return summaries.FileRead(
        file=source.file, kind=source.kind, lines=source.lines, rows=source.rows, first=first, last=last,
        columns=source.columns,
    )  # fmt: skip


def dropped_rows(tables: Tables) -> list[summaries.DroppedRows]:
    """Return what was not used, for the document."""
    return [
        summaries.DroppedRows(file=r.source, rule=r.rule, number=r.number, first=r.first, last=r.last, sort=r.sort)
        for r in tables.dropped
    ]


def _unseen(rules: Rules, outages: Sequence[NodeEvent], up: float) -> dict[str, float]:
    """Return the upper end of the rate of each cause that no outage has."""
    seen = {"application", "unknown", "kill_task", *(event.cause for event in outages)}
    return {cause: 1000 * estimate.rate(0, up).high for cause in rules.causes if cause not in seen}


def _unknown(outages: Sequence[NodeEvent]) -> dict[str, int]:
    """Return the commonest texts that no rule matches, without what tells one site or node from another."""
    texts = Counter(re.sub(r"[0-9]+", "#", event.text)[:60] for event in outages if event.cause == "unknown")
    return dict(texts.most_common(10))


# Time in which nodes were up, and its stretches.


def _up(history: History) -> float:
    """Return how long all nodes together were in service and not out of it [node s]."""
    number = history.number
    down = defaultdict(list, {node: [*spans] for node, spans in history.planned.items()})
    for event in history.outages:
        down[number[event.node]].append((event.t, history.until(event) if history.has_ends else event.t))
    stretches = zip(history.unit.tolist(), history.enter, history.leave, strict=True)
    return float(sum(leave - enter - _covered(down.get(node, []), enter, leave) for node, enter, leave in stretches))


def _covered(spans: Sequence[tuple[float, float]], low: float, high: float) -> float:
    """Return how much of a stretch spans that may overlap cover [s]."""
    covered, reached = 0.0, low
    for begin, end in sorted(spans):
        begin, end = max(begin, reached), min(end, high)
        if end > begin:
            covered += end - begin
            reached = end
    return covered


def spells_of(history: History, *, incidents_relapse: bool = False) -> UpTimes:
    """Return the stretches in which nodes were up, in days; planned work pauses one, an incident ends it unharmed."""
    number = history.number
    events: dict[int, list[NodeEvent]] = defaultdict(list)
    for event in history.outages:
        events[number[event.node]].append(event)
    rows: list[tuple[int, float, bool, bool]] = []
    for at in np.argsort(history.unit, kind="stable").tolist():
        node, enter, leave = int(history.unit[at]), float(history.enter[at]), float(history.leave[at])
        planned = history.planned.get(node, [])
        position, after = enter, False
        for event in events.get(node, []):
            if not enter <= event.t < leave or event.t < position:
                continue
            length = event.t - position - _covered(planned, position, event.t)
            rows.append((node, max(length, 1.0), event.incident < 0, after))
            position = (leave if math.isnan(event.t_end) else event.t_end) if history.has_ends else event.t
            after = event.incident < 0 or incidents_relapse
        length = leave - position - _covered(planned, position, leave)
        if length > 0:
            rows.append((node, length, False, after))
    unit, time, failed, after_failure = zip(*rows, strict=True)
    units = np.array(unit, dtype=np.int64)
    return UpTimes(units, np.array(time) / DAY, np.array(failed), np.array(after_failure), len(history.nodes))


# Causes and repairs.


def spread(history: History, events: Sequence[NodeEvent], few: float) -> float:
    """Return how many times the variance of a count is that of independent events: over weeks or over nodes, if more.

    Relapse, swings and incidents show in weeks; what returns to a node later shows in nodes. With fewer than `SOME`
    events it is `few`.
    """
    if len(events) < SOME:
        return few
    weeks = estimate.dispersion(*_windows(history, np.array([event.t for event in events]), WEEK))
    number, nodes = history.number, len(history.nodes)
    counts = np.bincount([number[event.node] for event in events], minlength=nodes)
    served = np.bincount(history.unit, weights=history.leave - history.enter, minlength=nodes)
    return max(1.0, weeks, estimate.dispersion(counts, served))


def _causes(
    history: History, single: Sequence[NodeEvent], verdict: ClusteringVerdict, up: float, rules: Rules, wide: float
) -> tuple[list[summaries.CauseSummary], NDArray[np.float64]]:
    """Return all causes, the most frequent first, and the events by which the background rate divides among them."""
    names = [name for name, _ in Counter(event.cause for event in history.outages).most_common()]
    single_of = Counter(event.cause for event in single)
    counts = np.array([single_of[name] for name in names], dtype=np.float64)
    shares = _shares(counts, up)
    background = 1000 * verdict.chosen.mu * shares / max(shares.sum(), 1e-300)
    result = []
    for at, name in enumerate(names):
        events = [event for event in history.outages if event.cause == name]
        alone = [event for event in events if event.incident < 0]
        is_counted, width = counts[at] >= FEW, spread(history, events, wide)
        result.append(
            summaries.CauseSummary(
                name=name, fault=rules.causes.get(name, "host"),
                events=len(events), in_incidents=len(events) - len(alone),
                rate=estimated(estimate.rate(len(events) / width, up / width), 1000), background=float(background[at]),
                method="counted" if is_counted or len(names) <= 2 else "shared",
                repair=_repair(history, alone) if is_counted else None,
                basis=dict(Counter(event.cause_basis for event in events)),
                files=sorted({event.file for event in events}),
            )
        )  # fmt: skip
    return result, shares


def _shares(counts: NDArray[np.float64], up: float) -> NDArray[np.float64]:
    """Return the events by which the rate divides among causes: those of rare ones are drawn towards their mean."""
    if not (counts < FEW).any() or len(counts) <= 2 or counts.sum() <= 0:
        return counts.copy()
    pooled = estimate.pooled(counts, np.full(len(counts), up)).rates * up
    return np.where(counts < FEW, pooled, counts)


def _repair(history: History, events: Sequence[NodeEvent]) -> summaries.LawSummary | None:
    """Return the law of the repair times of outages; ``None`` where nothing is known of them."""
    if not history.has_ends:
        return None
    times = np.array([history.until(event) - event.t for event in events])
    done = np.array([not math.isnan(event.t_end) for event in events], dtype=np.bool_)
    return duration_summary(times, done)


def duration_summary(times: NDArray[np.float64], done: NDArray[np.bool_]) -> summaries.LawSummary | None:
    """Return the law of durations [s]; ``None`` with fewer than two that are complete.

    Where the mean of a log-normal law is far from the measured one, which sets the time that nodes are away, its sigma
    is taken from that mean.
    """
    use = times > 0
    times, done = times[use], done[use]
    if int(done.sum()) < 2:
        return None
    law = estimate.duration_law(times / 3600, done)
    complete = times[done] / 3600
    mean = float(complete.mean())
    method = f"{'one' if len(law.parts) == 1 else 'two'} log-normal by maximum likelihood"
    parts = law.parts
    fitted = sum(weight * median * math.exp(sigma**2 / 2) for weight, median, sigma in parts)
    if len(parts) == 2 and not 0.6 < fitted / mean < 1.7 and done.all():
        parts = estimate.two_lognormals(times / 3600, done, parts=1).parts
        method = "log-normal: median fitted, sigma from the mean"
    if len(parts) == 1:
        _, median, sigma = parts[0]
        fitted = median * math.exp(sigma**2 / 2)
        if not 0.6 < fitted / mean < 1.7 and done.all():
            median = float(np.median(complete))
            sigma = math.sqrt(2 * math.log(mean / median)) if mean > median * 1.005 else estimate.LEAST_SIGMA
            method = "log-normal: median measured, sigma from the mean"
        content = lognormal_law(3600 * median, sigma)
    else:
        weight = round(parts[0][0], 4)
        laws = [lognormal_law(3600 * median, sigma) for _, median, sigma in parts]
        weighted = zip((weight, round(1 - weight, 4)), laws, strict=True)
        content = {"use": "mixture", "parts": [{"weight": share, "law": part} for share, part in weighted]}
    return summaries.LawSummary(
        law=content, events=int(done.sum()), open=int((~done).sum()), median_s=3600 * float(np.median(complete)),
        median=estimated(estimate.median(np.where(done, times, np.inf))),
        mean_s=3600 * mean, method=method,
    )  # fmt: skip


def lognormal_law(median: float, sigma: float) -> dict[str, Any]:
    """Return a log-normal law as a scenario states it; median in seconds."""
    return {"use": "lognormal", "median": duration(median), "sigma": float(f"{max(sigma, estimate.LEAST_SIGMA):.4g}")}


def duration(seconds: float) -> str:
    """Return a duration as a scenario states it, to four digits."""
    for unit, size in (("d", DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.4g}'):g} {unit}"
    return f"{float(f'{seconds:.4g}'):g} s"


def curve(
    x: NDArray[np.float64], function: Callable[[Data], NDArray[np.float64]], data: Data, drawn: Iterable[Data]
) -> summaries.CurveSummary:
    """Return a curve of the data compared with its range in simulated data."""
    low, high = np.quantile([function(simulation) for simulation in drawn], [0.025, 0.975], axis=0)
    return summaries.CurveSummary(x=x.tolist(), y=function(data).tolist(), low=low.tolist(), high=high.tolist())


# Incidents, clustering, trend.


def _incidents(history: History, together: Incidents, *, used: bool, relapse: bool) -> summaries.IncidentsSummary:
    sizes = Counter(len({history.outages[at].node for at in group}) for group in together.groups)
    delays = [history.outages[at].t - history.outages[group[0]].t for group in together.groups for at in group]
    events = [history.outages[at] for group in together.groups for at in group]
    time = together.domains * (history.end - history.start) / DAY
    count = max(len(together.groups) - together.by_chance, 0.0)
    return summaries.IncidentsSummary(
        part=together.part, domains=together.domains, events=len(together.groups), nodes=len(events),
        by_chance=together.by_chance, used=used, relapse=relapse,
        rate=estimated(estimate.rate(count, time), 1000),
        sizes={str(size): count for size, count in sorted(sizes.items())},
        delays_s=[float(round(x, 1)) for x in np.quantile(delays, np.linspace(0, 1, 21))] if len(delays) else [],
        repair=_repair(history, events) if used else None,
        groups_by_gap={f"{gap:g}": number for gap, number in together.tuples},
    )  # fmt: skip


def _lasting(history: History) -> Estimate:
    """Return the squared variation between nodes that lasts from one half of the window to the other, incidents out."""
    middle = (history.start + history.end) / 2
    number = history.number
    halves = np.zeros((2, len(history.nodes)))
    for event in history.outages:
        if event.incident < 0:
            halves[int(event.t >= middle), number[event.node]] += 1
    whole = np.zeros(len(history.nodes), dtype=np.bool_)
    week = (history.end - history.start) / 10
    whole[history.unit[(history.enter <= history.start + week) & (history.leave >= history.end - week)]] = True
    return estimate.split_half(*halves[:, whole]) if whole.sum() > 1 else Estimate(math.nan)


_PARAMETERS = {
    "rate": ("mu", 1000.0), "relapse_probability": ("probability", 1.0), "relapse_median_s": ("median", DAY),
    "relapse_sigma": ("sigma", 1.0), "frailty_cv2": ("cv2", 1.0),
}  # fmt: skip
"""The parameter of a fit for each of a document, and its unit [1/d, d]."""


def _clustering(
    verdict: ClusteringVerdict, draws: Sequence[Clustering], model: ClusterModel, lasting: Estimate
) -> summaries.ClusteringSummary:
    parameters = {}
    for name, (key, size) in _PARAMETERS.items():
        value = getattr(verdict.chosen, key)
        if value:
            low, high = np.quantile([getattr(draw, key) for draw in draws], [0.025, 0.975])
            parameters[name] = estimated(Estimate(value, float(low), float(high)), size)
    return summaries.ClusteringSummary(
        events=model.events,
        fits={
            name: summaries.ClusteringFit(
                log_likelihood=fit.log_likelihood, aic=fit.aic,
                **{name: size * getattr(fit, key) for name, (key, size) in _PARAMETERS.items()},
            )
            for name, fit in verdict.fits.items()
        },
        chosen=verdict.chosen.name,
        alternative=verdict.alternative.name if verdict.alternative is not None else "",
        relapse=verdict.relapse,  # type: ignore[arg-type]
        frailty=verdict.frailty,  # type: ignore[arg-type]
        upper_cv2=verdict.upper_cv2, split_half=estimated(lasting), parameters=parameters,
    )  # fmt: skip


def _trend(history: History) -> summaries.TrendSummary | None:
    """Return trend, dispersion and changes of the rate; over exposure, so that a growing fleet is no trend."""
    if len(history.outages) < SOME:
        return None
    moments = np.array([event.t for event in history.outages])
    widths = {"day": DAY, "week": WEEK, "30 days": 30 * DAY}
    spreads = {name: estimate.dispersion(*_windows(history, moments, width)) for name, width in widths.items()}
    lived = exposure_until(history, moments)
    total = exposure_until(history, np.array([history.end]))[0]
    fitted = estimate.trend(np.maximum(lived, total * 1e-9), total, spreads["week"])
    changes = estimate.changes(*_windows(history, moments, WEEK), spreads["week"])
    return summaries.TrendSummary(
        exponent=estimated(fitted.exponent),
        significant=not fitted.exponent.low <= 1 <= fitted.exponent.high,
        dispersion=spreads,
        changes=[
            {
                "date": utc(history.start + change.at * WEEK), "before": PER * change.before,
                "after": PER * change.after, "evidence": change.evidence,
            }
            for change in changes
        ],
    )  # fmt: skip


def _onsets(history: History) -> Iterator[str]:
    """Yield since when single causes come at another rate, where chance does not explain it.

    Outages of one incident count once, and so do those of a node within a week: a repair that did not hold is no rate.
    """
    causes: dict[str, list[float]] = defaultdict(list)
    last: dict[tuple[str, str], float] = {}
    for event in history.outages:
        unit = event.cause, event.node if event.incident < 0 else f"incident {event.incident}"
        if event.t - last.get(unit, -math.inf) > WEEK:
            causes[event.cause].append(event.t)
        last[unit] = event.t
    for cause, moments in causes.items():
        counts, exposure = _windows(history, np.array(moments), DAY)
        change = estimate.rate_change(counts, exposure, 7)
        if change is not None and change.chance < estimate.FALSE_CHANGES / len(causes):
            begin = history.start + change.at * DAY
            if change.after > change.before:  # the first of more of them has a date whichever day the window begins
                begin = min(moment for moment in (*moments, math.inf) if moment >= begin)
            yield (
                f"{cause}: {PER * change.before:.2g} per 1000 node-days before {utc(begin)[:10]}, "
                f"{PER * change.after:.2g} since; the window has two rates of this cause"
            )


def _windows(
    history: History, moments: NDArray[np.float64], width: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return events and exposure [node s] of whole windows, shape (n,) each."""
    count = max(int((history.end - history.start) // width), 1)
    edges = history.start + width * np.arange(count + 1)
    exposure = np.diff(exposure_until(history, np.asarray(edges, dtype=np.float64)))
    return np.histogram(moments, edges)[0].astype(np.float64), np.maximum(exposure, 0.0)


def exposure_until(history: History, moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the time in service of all nodes up to moments [node s], shape (n,)."""
    total = np.zeros(len(moments))
    for edges, sign in ((np.sort(history.enter), 1), (np.sort(history.leave), -1)):
        at = np.searchsorted(edges, moments)
        total += sign * (at * moments - np.concatenate(([0.0], np.cumsum(edges)))[at])
    return total


def _detection(outages: Sequence[NodeEvent]) -> summaries.LawSummary | None:
    """Return the law of the time from the first line of the kernel to the outage."""
    # A poll says when it looked, and no more; codes of the kernel that stand for outages have no other moment.
    direct = [event for event in outages if not event.is_fault and event.source not in ("prometheus", "nodes")]
    lags = np.array([event.t - event.t_lo for event in direct if event.t_lo < event.t])
    if len(lags) < FEW:
        return None
    values = np.quantile(lags, (np.arange(20) + 0.5) / 20) if len(lags) > 20 else np.sort(lags)
    return summaries.LawSummary(
        law={"use": "empirical", "values": [duration(max(value, 0.1)) for value in values]}, events=len(lags),
        median_s=float(np.median(lags)), median=estimated(estimate.median(lags)),
        mean_s=float(lags.mean()), method="quantiles of the measured ones",
    )  # fmt: skip


# Jobs.


def _attribution(tables: Tables, blame: Blame) -> summaries.AttributionSummary | None:
    if not tables.attempts:
        return None
    big = largest(tables.attempts)
    days = sum(a.elapsed for a in big if not math.isnan(a.elapsed)) / DAY
    software = sum(a.cause == "unattributed" and a.end_state == "FAILED" for a in big)
    return summaries.AttributionSummary(
        ended=blame.ended, attributed=blame.attributed, by_chance=blame.by_chance, evidence=dict(blame.rules),
        interrupts=estimated(estimate.share(blame.hit, blame.faults)),
        states=dict(Counter(a.end_state for a in tables.attempts).most_common()),
        software_per_day=estimated(estimate.rate(software, days)) if days > 0 else summaries.Estimated(value=None),
        software_events=software,
    )  # fmt: skip


# Findings in words.


NEAR = 6 * WEEK
"""The vicinity of the start of a window [s], or a tenth of it if that is longer; no change is seen in four weeks."""

_NEAR_START = "; near the start of the window look at the exposure first"


def _findings(
    history: History, verdict: ClusteringVerdict, trend: summaries.TrendSummary | None, few: Sequence[Incidents]
) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    without = int(np.sum(history.gpus == 0))
    if 0 < without < len(history.nodes):
        yield f"{without:,} of {len(history.nodes):,} nodes have no GPUs in the inventory; they count all the same"
    count, days = len(history.outages), history.end - history.start
    if count < SOME:
        yield f"{count} outages: rates only; relapse, frailty, trend and mixtures need {SOME}"
    yield from _of_verdict(verdict, is_enough=count >= SOME)
    yield from (
        f"{number_of(len(incidents.groups), 'group')} of outages within 5 min in one {incidents.part}, "
        f"{incidents.by_chance:.2g} expected by chance: too few for a source of incidents"
        for incidents in few
        if incidents.groups
    )
    if trend is not None:
        yield from (
            f"the rate changes at {change['date']}: {change['before']:.2g} before, {change['after']:.2g} after, per "
            f"1000 node-days{_NEAR_START if change['date'] < utc(history.start + max(NEAR, 0.1 * days)) else ''}"
            for change in trend.changes
        )
    unknown = sum(event.cause == "unknown" for event in history.outages)
    if unknown > 0.1 * count:
        yield f"{unknown} of {count} outages have a reason that no rule knows; --rules FILE adds rules"


def _of_verdict(verdict: ClusteringVerdict, *, is_enough: bool) -> Iterator[str]:
    """Yield what the clustering leaves open."""
    if verdict.contradicted and verdict.frailty == "yes":
        yield (
            f"a squared variation of {verdict.chosen.cv2:.2g} between nodes lasts from half to half of the window, "
            f"and the likelihood of a Gamma law asks for {verdict.upper_cv2:.2g}: the model has what lasts"
        )
    if verdict.relapse == "undecided" and is_enough:
        yield f"fewer than {FEW} outages came soon after a return: too few for a model of repairs that do not hold"
    if verdict.frailty == "undecided" and is_enough:
        why = f"a squared variation of up to {verdict.upper_cv2:.2g} fits as well"
        if verdict.contradicted:
            why = (
                f"the likelihood asks for a squared variation of {verdict.upper_cv2:.2g}, but less lasts from one "
                "half of the window to the other: clustering in time that neither relapse nor frailty explains"
            )
        yield f"whether some nodes stay worse than others is undecided: {why}; failures-alternative.yaml has that fit"


def rate_text(per_1000_node_days: float, part: str = "node") -> str:
    """Return a rate as a scenario states it, to four digits."""
    return f"{float(f'{per_1000_node_days:.4g}'):g} per 1000 {part}-days"
