"""What a point comes to, and how sure that is: over runs alone, or over runs and what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.statistics.intervals import binomial_interval, mean_estimate
from analysis.study.table import predictive_mean

if TYPE_CHECKING:
    from analysis.statistics.estimates import Interval
    from analysis.study.table import Cell

_MANY = 100_000


class Estimate(NamedTuple):
    """A metric of a point; ``None`` where the data support no mean, or no interval."""

    mean: float | None
    ci95: Interval | None


def estimate(cell: Cell, metric: str, *, over_draws: bool) -> Estimate:
    """Return a metric of a cell with its 95 % interval.

    At the central values it is that of `analysis.statistics.intervals.mean_estimate`, over draws that of
    `analysis.study.table.predictive_mean`.
    """
    outcomes = cell.drawn if over_draws else (cell.stated,)
    if any(not outcome.metrics.get(metric) for outcome in outcomes):
        return Estimate(None, None)
    if over_draws:
        predicted = predictive_mean(cell, metric)
        return Estimate(None, None) if predicted is None else Estimate(predicted.mean, predicted.interval)
    found = mean_estimate(cell.stated.metrics[metric], metric)
    return Estimate(found.mean, found.interval)


def replications_to_hold(mean: float, bound: float) -> int | None:
    """Return how many runs would leave a share of runs surely at or above a bound, if the share stays as it is.

    ``None`` for more than 100,000, and for a share that is not above the bound.
    """
    if mean <= bound:
        return None
    low, high = 1, _MANY
    while low < high:
        middle = (low + high) // 2
        if binomial_interval(mean * middle, middle)[0] >= bound:
            high = middle
        else:
            low = middle + 1
    return low if low < _MANY else None
