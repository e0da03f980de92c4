"""Five acceptance statistics of a failure trace of a cluster.

A trace is a list of faults, each with a node, a start and an end in days from the origin of the trace. The five numbers
say how far the trace is from independent, identical nodes: dispersion of the daily counts (A1), 99th percentile of the
number of nodes down (A2), Weibull shape of the gaps between faults of the system (A3), share of the faults on the worst
tenth of the nodes (A4) and mean unavailability (A5).

References
----------
C. Shou et al., "InfiniteHBD", SIGCOMM 2025, arXiv 2502.03885; trace: github stepfun-ai/InfiniteHBD-Trace.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.harness import prepared

if TYPE_CHECKING:
    from ettrick import sim

FloatArray = NDArray[np.float64]

IntArray = NDArray[np.int64]

HOURS_PER_DAY, SECONDS_PER_DAY = 24.0, 86400.0

RESOLUTION_DAYS = 1.0e-4

"""Resolution of the times in the public trace, 8.64 s [day]; the number of zero gaps depends on it."""

LOW_SHAPE, HIGH_SHAPE = 0.01, 100.0

"""Bracket of the root search for a Weibull shape."""


class AcceptanceStatistics(NamedTuple):
    """Five statistics of one trace.

    Attributes
    ----------
    daily_dispersion : float
        A1, population variance over mean of the number of starts per day.
    down_p99 : int
        A2, 99th percentile in time of the number of nodes down.
    gap_shape : float
        A3, Weibull shape of the positive gaps between starts of the system.
    top_decile_share : float
        A4, share of the faults on the tenth of the nodes with most faults.
    unavailability : float
        A5, mean fraction of the nodes that are down.
    """

    daily_dispersion: float
    down_p99: int
    gap_shape: float
    top_decile_share: float
    unavailability: float


def acceptance_statistics(
    node: IntArray, start: FloatArray, end: FloatArray, nodes: int = 400, days: float = 348.0
) -> AcceptanceStatistics:
    """Compute the five statistics of a trace.

    Parameters
    ----------
    node : ndarray of int, shape (n,)
        Node of each fault, 0 to ``nodes - 1``.
    start, end : ndarray of float, shape (n,)
        Start and end of each fault, from the origin of the trace [day]. A fault that is still open at the end of the
        trace has ``end`` at or above `days`, or infinity.
    nodes : int
        Number of nodes, those that never fault included.
    days : float
        Length of the trace [day].

    Returns
    -------
    AcceptanceStatistics
        The five numbers.

    Raises
    ------
    ValueError
        If the trace is empty, a fault ends before it starts, a node is out of range or starts lie at one instant.

    Notes
    -----
    Times are first rounded to 0.0001 day. The window of A2 and A5 runs from the first start to `days`; down intervals
    are half-open, and those of one node that overlap or touch are merged.
    """
    if not len(node) == len(start) == len(end) > 0:
        message = "node, start and end must have one and the same length above 0"
        raise ValueError(message)
    if np.any(end < start):
        message = "a fault must not end before it starts"
        raise ValueError(message)
    if np.any((node < 0) | (node >= nodes)):
        message = "node must lie in 0 to nodes - 1"
        raise ValueError(message)
    start = _rounded(start)
    end = _rounded(end)
    weights = time_by_nodes_down(node, start, end, days)
    return AcceptanceStatistics(
        daily_dispersion=_daily_dispersion(start, days),
        down_p99=percentile_of_count(weights, 0.99),
        gap_shape=_weibull_shape(_positive_gaps(start)),
        top_decile_share=_top_decile_share(node, nodes),
        unavailability=float(weights @ np.arange(len(weights)) / weights.sum() / nodes),
    )


def time_by_nodes_down(node: IntArray, start: FloatArray, end: FloatArray, days: float = 348.0) -> FloatArray:
    """Return for how long 0, 1, 2 ... nodes were down, from the first start on.

    Parameters
    ----------
    node, start, end, days
        As in :func:`acceptance_statistics`.

    Returns
    -------
    ndarray of float, shape (most nodes down + 1,)
        Times [day].
    """
    start = _rounded(start)
    first = float(start.min())
    times, change = _changes_of_down_count(node, start, _rounded(end), first, days)
    return _time_by_down_count(times, change, first, days)


def _rounded(times: FloatArray) -> FloatArray:
    """Round times to the resolution of the public trace, shape (n,) [day]."""
    return np.round(times / RESOLUTION_DAYS) * RESOLUTION_DAYS


def _daily_dispersion(start: FloatArray, days: float) -> float:
    """Return population variance over mean of the starts per day; starts at or after `days` are dropped."""
    bins = int(np.ceil(days))
    # Times are multiples of the resolution up to rounding noise, so the day is taken from the integer number of ticks.
    ticks_per_day = round(1.0 / RESOLUTION_DAYS)
    day = np.rint(start[start < days] / RESOLUTION_DAYS).astype(np.int64) // ticks_per_day
    counts = np.bincount(day, minlength=bins)
    return float(counts.var() / counts.mean())


def _positive_gaps(start: FloatArray) -> FloatArray:
    """Return the gaps between successive starts that are not zero, shape (m,) [h]."""
    gaps = np.diff(np.sort(start))
    return gaps[gaps > 0.5 * RESOLUTION_DAYS] * HOURS_PER_DAY


def _weibull_shape(gaps: FloatArray) -> float:
    """Return the maximum-likelihood Weibull shape of uncensored `gaps`, shape (m,), location 0."""
    from scipy.optimize import brentq  # a heavy import, not needed to import this module

    if len(gaps) < 2 or np.ptp(gaps) == 0.0:
        message = "the Weibull shape needs at least two different positive gaps"
        raise ValueError(message)
    logs = np.log(gaps) - np.log(gaps.max())  # the shape does not depend on the unit, and no power overflows
    mean_log = float(logs.mean())

    def score(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(powers @ logs / powers.sum()) - 1.0 / shape - mean_log

    return float(brentq(score, LOW_SHAPE, HIGH_SHAPE, xtol=1e-10))


def _top_decile_share(node: IntArray, nodes: int) -> float:
    """Return the share of the faults on the ``ceil(nodes / 10)`` nodes with most faults."""
    counts = np.sort(np.bincount(node, minlength=nodes))
    top = math.ceil(nodes / 10)
    return float(counts[-top:].sum() / len(node))


def _changes_of_down_count(
    node: IntArray, start: FloatArray, end: FloatArray, first: float, days: float
) -> tuple[FloatArray, IntArray]:
    """Return the instants at which the number of nodes down changes, and the changes.

    Intervals of a node that overlap or touch are merged and all are clipped to [`first`, `days`].
    """
    times: list[float] = []
    change: list[int] = []
    order = np.lexsort((start, node))
    held_node, held_start, held_end = -1, 0.0, 0.0
    for index in [*order.tolist(), -1]:
        if index >= 0 and node[index] == held_node and start[index] <= held_end:
            held_end = max(held_end, float(end[index]))
            continue
        low, high = max(held_start, first), min(held_end, days)
        if held_node >= 0 and low < high:
            times += [low, high]
            change += [1, -1]
        if index >= 0:
            held_node, held_start, held_end = int(node[index]), float(start[index]), float(end[index])
    return np.array(times), np.array(change, dtype=np.int64)


def _time_by_down_count(times: FloatArray, change: IntArray, first: float, days: float) -> FloatArray:
    """Return the time spent in [`first`, `days`] with 0, 1, 2 ... nodes down, shape (most nodes down + 1,) [day]."""
    order = np.argsort(times, kind="stable")
    level = np.concatenate(([0], np.cumsum(change[order])))
    # Between simultaneous changes the level may be anything, also negative, but it then lasts for no time.
    edges = np.concatenate(([first], times[order], [days]))
    return np.bincount(np.maximum(level, 0), weights=np.diff(edges)).astype(np.float64)


def percentile_of_count(weights: FloatArray, level: float) -> int:
    """Return the smallest count whose cumulative share of `weights` reaches `level`."""
    share = np.cumsum(weights) / weights.sum()
    return int(np.argmax(share >= level - 1e-12))


def statistics_of(result: sim.Result, nodes: int = 400, days: float = 348.0) -> AcceptanceStatistics:
    """Return the five numbers of a replication that kept its outages."""
    return acceptance_statistics(
        np.array([outage.node for outage in result.outages], dtype=np.int64),
        np.array([outage.start for outage in result.outages]) / SECONDS_PER_DAY,
        np.array([outage.end for outage in result.outages]) / SECONDS_PER_DAY,
        nodes,
        days,
    )


def fault_cluster(
    failures: list[dict[str, Any]], nodes: int = 400, days: float = 348.0, **changes: Any
) -> sim.Prepared:
    """Return a cluster of new nodes that nobody uses: its one job arrives when it is over."""
    return prepared(
        cluster={"nodes": nodes, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 1024}},
        horizon=f"{days!r} d",
        jobs=[{"name": "none", "gpus": 8, "arrival": f"{days!r} d"}],
        failures=failures,
        **changes,
    )
