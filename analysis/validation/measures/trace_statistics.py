"""What a failure trace of a cluster says about how far its nodes are from independent and alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TICKS = 10_000

"""Resolution of the published trace [1/day]."""


class Faults(NamedTuple):
    """The faults of a trace.

    Parameters
    ----------
    node
        Whose fault, from 0, shape (n,).
    start, end
        When the node went down and came back, from the origin of the trace [day].
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


def daily_dispersion(faults: Faults) -> float:
    """Return variance over mean of the number of starts of a day [-]; 1 for a Poisson process."""
    counts = np.bincount(_ticks(faults.start) // TICKS, minlength=math.ceil(faults.days))[: math.ceil(faults.days)]
    return float(counts.var() / counts.mean())


def down_p99(faults: Faults) -> float:
    """Return the number of nodes down that is not exceeded in 99 % of the time, from the first fault on."""
    weights = _time_by_nodes_down(faults)
    return float(np.argmax(np.cumsum(weights) >= 0.99 * weights.sum() * (1 - 1e-12)))


def gap_shape(faults: Faults) -> float:
    """Return the Weibull shape of the positive gaps between starts by maximum likelihood [-]; 1 if Poisson."""
    from scipy.optimize import brentq

    gaps = np.diff(np.sort(_ticks(faults.start)))
    gaps = gaps[gaps > 0].astype(np.float64)
    logs = np.log(gaps / gaps.max())

    def score(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(powers @ logs / powers.sum() - 1 / shape - logs.mean())

    return float(brentq(score, 0.01, 100.0))


def top_decile_share(faults: Faults) -> float:
    """Return the share of the faults on the tenth of the nodes that has most of them [-]."""
    counts = np.sort(np.bincount(faults.node, minlength=faults.nodes))
    return float(counts[-math.ceil(faults.nodes / 10) :].sum() / faults.node.size)


def unavailability(faults: Faults) -> float:
    """Return the mean share of the nodes that is down, from the first fault on [-]."""
    weights = _time_by_nodes_down(faults)
    return float(weights @ np.arange(weights.size) / weights.sum() / faults.nodes)


def _ticks(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return times at the resolution of the trace [1/10,000 day]."""
    return np.rint(times * TICKS).astype(np.int64)


def _time_by_nodes_down(faults: Faults) -> NDArray[np.float64]:
    """Return for how long 0, 1, 2 ... nodes are down from the first fault on [1/10,000 day].

    Outages of a node that overlap count once: a node is down while it has begun more of them than have ended.
    """
    last = round(faults.days * TICKS)
    begin, end = (np.minimum(_ticks(np.minimum(times, faults.days)), last) for times in (faults.start, faults.end))
    first = int(begin.min())
    time = np.concatenate((begin, end))
    node = np.concatenate((faults.node, faults.node))
    step = np.repeat([1, -1], begin.size)
    # By node, in time, beginnings first: the running sum is how many outages of the node are open, 0 after its last.
    order = np.lexsort((-step, time, node))
    time, step = time[order], step[order]
    open_ = np.cumsum(step)
    change = np.where((step == 1) & (open_ == 1), 1, np.where((step == -1) & (open_ == 0), -1, 0))
    inside = np.argsort(time, kind="stable")
    level = np.concatenate(([0], np.cumsum(change[inside])))
    edges = np.concatenate(([first], time[inside], [last]))
    # Between changes at one instant the level may be anything, but it lasts for no time.
    return np.bincount(np.maximum(level, 0), weights=np.diff(edges)).astype(np.float64)


STATISTICS: dict[str, Callable[[Faults], float]] = {
    "daily dispersion": daily_dispersion,
    "nodes down P99": down_p99,
    "gap shape": gap_shape,
    "share of worst tenth": top_decile_share,
    "unavailability": unavailability,
}
