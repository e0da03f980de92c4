"""The self-check: the fitted model, simulated on the same exposure, compared with the data.

A statistic of the data outside of what 95 % of the simulations have is a finding. It says which mechanism is missing.
"""

from __future__ import annotations

import functools
import gc
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.logs import write
from ettrick.analysis.logs.estimate import dispersion, root, split_half
from ettrick.analysis.results.fitted import CheckSummary
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.fit import FittedModel

SIMULATIONS = 100

FEWEST = 20
"""The least number, however long each takes."""

MOST_EVENTS, MOST_COMPILED = 3e5, 3e8
"""Events that are simulated at most, all replications together, one by one and in machine code: half a minute."""

# What a trace of failures says about how far its nodes are from independent and alike.

TICKS = 10_000
"""Resolution of the published trace [1/day]."""


@dataclass(frozen=True)
class Faults:
    """The faults of a trace.

    Parameters
    ----------
    node
        Whose fault, from 0, shape (n,).
    start, end
        When the node went down and returned, from the origin of the trace [day].
    nodes
        Nodes in all, those without faults included.
    days
        Length of the trace [day].
    """

    node: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    nodes: int
    days: float

    @functools.cached_property
    def time_by_nodes_down(self) -> NDArray[np.float64]:
        """For how long 0, 1, 2 ... nodes are down from the first fault on [1/10,000 day], shape (most nodes + 1,).

        Outages of a node that overlap or touch are one.
        """
        last = round(self.days * TICKS)
        begin, end = (np.minimum(_ticks(np.minimum(times, self.days)), last) for times in (self.start, self.end))
        # Node after node on one axis, each as long as the trace and a tick.
        axis = self.node * (last + 1)
        order = np.argsort(begin + axis, kind="stable")
        begin, reached = (begin + axis)[order], np.maximum.accumulate((end + axis)[order])
        is_first = np.concatenate(([True], begin[1:] > reached[:-1]))
        is_last = np.concatenate((is_first[1:], [True]))
        time = np.concatenate((begin[is_first], reached[is_last])) % (last + 1)
        inside = np.argsort(time)
        level = np.concatenate(([0], np.cumsum(np.where(inside < len(time) // 2, 1, -1))))
        edges = np.concatenate((time[inside[:1]], time[inside], [last]))
        # Between changes at one instant the level may be anything, but it lasts for no time.
        return np.bincount(np.maximum(level, 0), weights=np.diff(edges)).astype(np.float64)


def daily_dispersion(faults: Faults) -> float:
    """Return variance over mean of the number of starts of a day [-]; 1 for a Poisson process."""
    counts = np.bincount(_ticks(faults.start) // TICKS, minlength=math.ceil(faults.days))[: math.ceil(faults.days)]
    return float(counts.var() / counts.mean())


def down_p99(faults: Faults) -> float:
    """Return the number of nodes down that is not exceeded in 99 % of the time, from the first fault on."""
    weights = faults.time_by_nodes_down
    return float(np.argmax(np.cumsum(weights) >= 0.99 * weights.sum() * (1 - 1e-12)))


def gap_shape(faults: Faults) -> float:
    """Return the Weibull shape of the positive gaps between starts by maximum likelihood [-]; 1 if Poisson.

    Of gaps that are all equal it is the largest that is looked at.
    """
    gaps = np.diff(np.sort(_ticks(faults.start)))
    lengths, count = np.unique(gaps[gaps > 0], return_counts=True)
    logs = np.log(lengths / lengths[-1])
    mean = float(count @ logs / count.sum())

    def score(shape: float) -> float:
        powers = count * np.exp(shape * logs)
        return float(powers @ logs / powers.sum() - 1 / shape - mean)

    return root(score, 0.01, 100.0)


def top_decile_share(faults: Faults) -> float:
    """Return the share of the faults on the tenth of the nodes that has most of them [-]."""
    counts = np.sort(np.bincount(faults.node, minlength=faults.nodes))
    return float(counts[-math.ceil(faults.nodes / 10) :].sum() / faults.node.size)


def lasting_difference(faults: Faults) -> float:
    """Return the squared variation between nodes that the two halves of a trace share [-]; 0 for equal nodes."""
    early = faults.start < faults.days / 2
    first, second = (np.bincount(faults.node[rows], minlength=faults.nodes) for rows in (early, ~early))
    return split_half(first, second).value


def unavailability(faults: Faults) -> float:
    """Return the mean share of the nodes that is down, from the first fault on [-]."""
    weights = faults.time_by_nodes_down
    return float(weights @ np.arange(weights.size) / weights.sum() / faults.nodes)


def _ticks(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return times at the resolution of the trace [1/10,000 day]."""
    return np.rint(times * TICKS).astype(np.int64)


def weekly_dispersion(faults: Faults) -> float:
    """Return variance over mean of the number of starts of a week [-]; 1 for a Poisson process."""
    return dispersion(np.histogram(faults.start, np.arange(0, max(faults.days, 7.0) + 1e-9, 7.0))[0])


def repeats(faults: Faults) -> float:
    """Return the share of returns that are followed by an outage of the same node within 7 days."""
    order = np.lexsort((faults.start, faults.node))
    node, start, end = faults.node[order], faults.start[order], faults.end[order]
    seen = end < faults.days - 7
    again = np.zeros(len(node), dtype=np.bool_)
    again[:-1] = (node[1:] == node[:-1]) & (start[1:] - end[:-1] < 7)
    return float(again[seen].mean()) if seen.any() else math.nan


CHECKS: dict[str, Callable[[Faults], float]] = {
    "outages": lambda faults: float(len(faults.node)),
    "daily dispersion": daily_dispersion,
    "weekly dispersion": weekly_dispersion,
    "gap shape": gap_shape,
    "share of worst tenth": top_decile_share,
    "repeated in 7 days": repeats,
    "lasting difference": lasting_difference,
    "nodes down P99": down_p99,
    "unavailability": unavailability,
}
"""The statistics in which data and simulations are compared."""

WITH_ENDS = 2
"""The number of the last of them that need ends of outages."""

_PUBLISHED = "daily dispersion", "nodes down P99", "gap shape", "share of worst tenth", "unavailability"
STATISTICS = {name: CHECKS[name] for name in (*_PUBLISHED, "lasting difference")}
"""The statistics of the published trace, in the order of its table."""


# The data compared with simulations.


def statistics(faults: Faults) -> NDArray[np.float64]:
    """Return the statistics of `CHECKS`, NaN where a trace has too few outages for one."""
    if len(faults.node) < 10 or np.ptp(faults.start) * TICKS < 10:
        return np.array([float(len(faults.node))] + [math.nan] * (len(CHECKS) - 1))
    return np.array([statistic(faults) for statistic in CHECKS.values()])


def trace_of(history: History) -> Faults:
    """Return the outages of a history, in days from the start of its window."""
    number, days = history.number, (history.end - history.start) / DAY
    node = np.array([number[event.node] for event in history.outages], dtype=np.int64)
    start = np.array([event.t for event in history.outages])
    end = np.array([history.until(event) for event in history.outages]) if history.has_ends else start
    return Faults(node, (start - history.start) / DAY, (end - history.start) / DAY, len(history.nodes), days)


def of_model(
    fitted: FittedModel, count: int, progress: Callable[[int, int | None], None]
) -> tuple[list[Faults], tuple[float, float], list[str]]:
    """Return simulations of the model, the swings that were added to it, and why there are none."""
    swing = 0.0, 0.0
    try:
        traces = simulated(fitted, write.sources(fitted), count, progress)
        swing = swings(fitted, traces)
        if swing[1]:
            traces = simulated(fitted, write.sources(fitted, swings=swing), count, progress)
    except (sim.ScenarioError, sim.WorkError) as error:
        return [], swing, [f"no self-check, as the model cannot be simulated: {error}"]
    return traces, swing, []


def affordable(prepared: sim.Prepared, count: int, least: int) -> int:
    """Return how many replications to simulate: with a budget of events, but at least some."""
    budget = MOST_EVENTS if prepared.engine == "events" else MOST_COMPILED
    return int(min(count, max(budget / max(prepared.expected_events, 1.0), least)))


def simulated(
    fitted: FittedModel,
    entries: list[dict[str, Any]],
    count: int = SIMULATIONS,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> list[Faults]:
    """Return outages of the model on the exposure of the data, one trace for each replication.

    Where each takes long, they are fewer: see `affordable`.
    """
    history = fitted.history
    days = (history.end - history.start) / DAY
    prepared = sim.with_engine(sim.prepare(sim.parse(write.idle_cluster(fitted, entries, days))), count)
    count = affordable(prepared, count, FEWEST)
    order = np.array(sorted(range(len(history.nodes)), key=lambda at: (history.racks[at], at)))
    # Stretches of service one after another on one axis: node after node, each as long as the window and a day.
    enter = history.unit * (days + 1) + (history.enter - history.start) / DAY
    by_enter = np.argsort(enter)
    enter, leave = enter[by_enter], (history.leave[by_enter] - history.start) / DAY
    unit = history.unit[by_enter]
    traces = []
    # What was read stays: or all of it is looked through for garbage with every simulation.
    gc.freeze()
    for number in range(count):
        outages = sim.run(prepared, number, keeps_log=True, most_events=math.inf).outages
        node, start = order[outages.node], outages.start / DAY
        at = np.searchsorted(enter, node * (days + 1) + start, side="right") - 1
        seen = (at >= 0) & (unit[at] == node) & (start < leave[at])
        node, start, end = node[seen], start[seen], np.minimum(outages.end[seen] / DAY, leave[at[seen]])
        traces.append(Faults(node, start, end, len(history.nodes), days))
        progress(number + 1, count)
    gc.unfreeze()
    return traces


def compare(trace: Faults, traces: list[Faults], *, has_ends: bool = True) -> list[CheckSummary]:
    """Return each statistic of the data compared with its range in simulated traces."""
    if not traces:
        return []
    data = statistics(trace)
    drawn = np.array([statistics(simulation) for simulation in traces])
    result = []
    for at, name in enumerate([*CHECKS][: None if has_ends else -WITH_ENDS]):
        values = drawn[:, at][~np.isnan(drawn[:, at])]
        if len(values) < 10 or math.isnan(data[at]):
            continue
        low, middle, high = (float(x) for x in np.quantile(values, [0.025, 0.5, 0.975]))
        result.append(
            CheckSummary(
                name=name, data=float(data[at]), low=low, median=middle, high=high,
                inside=bool(low - 1e-9 <= data[at] <= high + 1e-9),
            )
        )  # fmt: skip
    return result


def swings(fitted: FittedModel, traces: list[Faults]) -> tuple[float, float]:
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
