"""The self-check: the fitted model, simulated on the same exposure, beside the data.

A statistic of the data outside of what 95 % of the simulations have is a finding. It says which mechanism is missing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sim
from analysis.logs import write
from analysis.logs.document import CheckFound
from analysis.logs.estimate import dispersion, split_half
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from analysis.logs.events import History
    from analysis.logs.fit import Fitted

SIMULATIONS = 100

MOST_EVENTS = 3e6

"""Failures that a check simulates at most, all its replications together."""

NAMES = (
    "outages",
    "daily dispersion",
    "weekly dispersion",
    "gap shape",
    "worst tenth of nodes",
    "repeated in 7 days",
    "lasting difference",
    "nodes down, 99 %",
    "unavailability",
)

WITH_ENDS = 2

"""How many of the last of them need ends of outages."""


class Trace(NamedTuple):
    """Outages of a cluster: node, start and end in days from the start of the window, shape (n,) each."""

    node: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]


def statistics(trace: Trace, nodes: int, days: float) -> NDArray[np.float64]:
    """Return the statistics of `NAMES`, NaN where a trace has too few outages for one.

    Parameters
    ----------
    trace
        The outages.
    nodes, days
        How many nodes are watched, and for how long.
    """
    node, start, end = trace
    if not len(node):
        return np.array([0.0] + [math.nan] * (len(NAMES) - 1))
    days_of, weeks_of = (np.histogram(start, np.arange(0, max(days, w + 1e-9) + 1e-9, w))[0] for w in (1.0, 7.0))
    counts = np.bincount(node, minlength=nodes)
    top = np.sort(counts)[-math.ceil(nodes / 10) :].sum() / len(node)
    halves = np.stack([np.bincount(node[mine], minlength=nodes) for mine in (start < days / 2, start >= days / 2)])
    down = np.minimum(end, days)
    moments = np.concatenate((start, down))
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.concatenate((np.ones(len(start)), -np.ones(len(down))))[order])
    lengths = np.diff(np.append(moments[order], days))
    first = np.bincount(np.maximum(level, 0).astype(np.int64), weights=np.maximum(lengths, 0))
    first[0] += moments[order][0]
    reached = np.cumsum(first) / first.sum()
    return np.array([
        len(node),
        dispersion(days_of),
        dispersion(weeks_of),
        _gap_shape(np.sort(start)),
        top,
        _repeats(trace, days),
        split_half(halves[0], halves[1], draws=0).value,
        int(np.argmax(reached >= 0.99 - 1e-12)),
        float((first @ np.arange(len(first))) / (nodes * days)),
    ])  # fmt: skip


def _gap_shape(start: NDArray[np.float64]) -> float:
    """Return the Weibull shape of the gaps between outages of the cluster that are longer than 9 s."""
    from scipy.optimize import brentq

    gaps = np.diff(start)
    gaps = gaps[gaps > 1e-4]
    if len(gaps) < 10:
        return math.nan
    logs = np.log(gaps / gaps.max())

    def score(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(powers @ logs / powers.sum() - 1 / shape - logs.mean())

    return float(brentq(score, 0.01, 100.0))


def _repeats(trace: Trace, days: float) -> float:
    """Return the share of returns that are followed by an outage of the same node within 7 days."""
    order = np.lexsort((trace.start, trace.node))
    node, start, end = trace.node[order], trace.start[order], trace.end[order]
    seen = end < days - 7
    again = np.zeros(len(node), dtype=np.bool_)
    again[:-1] = (node[1:] == node[:-1]) & (start[1:] - end[:-1] < 7)
    return float(again[seen].mean()) if seen.any() else math.nan


def trace_of(history: History) -> Trace:
    """Return the outages of a history."""
    number = history.number
    return Trace(
        np.array([number[event.node] for event in history.outages], dtype=np.int64),
        np.array([event.t - history.start for event in history.outages]) / DAY,
        np.array([(history.until(event) if history.has_ends else event.t) - history.start for event in history.outages])
        / DAY,
    )


def simulated(
    fitted: Fitted,
    entries: list[dict[str, Any]],
    count: int = SIMULATIONS,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> list[Trace]:
    """Return outages of the model on the exposure of the data, one trace for each replication."""
    history = fitted.history
    days = (history.end - history.start) / DAY
    prepared = sim.prepare(sim.parse(write.idle_cluster(fitted, entries, days)))
    count = int(min(count, max(MOST_EVENTS / max(len(history.outages), 1), 20)))
    order = np.array(sorted(range(len(history.nodes)), key=lambda at: (history.racks[at], at)))
    watched: dict[int, list[tuple[float, float]]] = {}
    for unit, enter, leave in zip(history.unit, history.enter, history.leave, strict=True):
        watched.setdefault(int(unit), []).append(((enter - history.start) / DAY, (leave - history.start) / DAY))
    found = []
    for number in range(count):
        rows = [
            (node, outage.start / DAY, min(outage.end / DAY, leave))
            for outage in sim.run(prepared, number, keeps_log=True).outages
            for node in (int(order[outage.node]),)
            for enter, leave in watched.get(node, ())
            if enter <= outage.start / DAY < leave
        ]
        node, start, end = (np.array(column) for column in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
        found.append(Trace(node.astype(np.int64), start.astype(np.float64), end.astype(np.float64)))
        progress(number + 1, count)
    return found


def compare(fitted: Fitted, traces: list[Trace]) -> list[CheckFound]:
    """Return each statistic of the data beside its range in simulated traces."""
    history = fitted.history
    nodes, days = len(history.nodes), (history.end - history.start) / DAY
    data = statistics(trace_of(history), nodes, days)
    drawn = np.array([statistics(trace, nodes, days) for trace in traces])
    result = []
    for at, name in enumerate(NAMES):
        if at >= len(NAMES) - WITH_ENDS and not history.has_ends:
            continue
        mine = drawn[:, at][~np.isnan(drawn[:, at])]
        if len(mine) < 10 or math.isnan(data[at]):
            continue
        low, middle, high = (float(x) for x in np.quantile(mine, [0.025, 0.5, 0.975]))
        result.append(
            CheckFound(
                name=name, data=float(data[at]), low=low, median=middle, high=high,
                inside=bool(low - 1e-9 <= data[at] <= high + 1e-9),
            )
        )  # fmt: skip
    return result


def swings(fitted: Fitted, traces: list[Trace]) -> tuple[float, float]:
    """Return the stretch [d] and coefficient of variation of swings that explain the dispersion the model lacks.

    Of windows of a day, a week and 30 days, the one whose counts are most above what the model simulates; the variance
    of its counts over their mean, less that of the model, over the mean count. Zero where none is above 97.5 % of them.
    """
    history = fitted.history
    days = (history.end - history.start) / DAY
    data = trace_of(history)
    best, above = (0.0, 0.0), 1.0
    for width in (1.0, 7.0, 30.0):
        windows = int(days // width)
        if windows < 8 or len(data.start) < 50:
            continue
        edges = width * np.arange(windows + 1)
        counts = np.histogram(data.start, edges)[0]
        drawn = [dispersion(np.histogram(trace.start, edges)[0]) for trace in traces]
        measured, limit = dispersion(counts), float(np.quantile(drawn, 0.975))
        if measured / limit > above:
            above = measured / limit
            best = width, math.sqrt((measured - float(np.median(drawn))) / counts.mean())
    return best
