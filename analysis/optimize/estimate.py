"""What a point comes to, and how sure that is: over luck alone, or over luck and what is not known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.intervals import PROBABILITIES, binomial_interval, is_zero_or_one, mean_estimate, possible
from analysis.statistics import t_quantile
from sim import Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.statistics import Interval
    from analysis.study.table import Cell, Outcome

__all__ = ["Estimate", "estimate", "evidence", "replications_to_hold"]

_MANY = 100_000


class Estimate(NamedTuple):
    """A metric of a point; ``None`` where the data support no mean, or no interval."""

    mean: float | None
    ci95: Interval | None


def evidence(cell: Cell, metric: str, *, over_draws: bool) -> Sequence[Ratio]:
    """Return one ratio per replication; over draws, each has the sums over all draws of that replication.

    Differences of two cells on these are paired: the same failures, the same draws.
    """
    if not over_draws:
        return cell.stated.metrics[metric]
    columns = [outcome.metrics[metric] for outcome in cell.drawn]
    return [
        Ratio(sum(ratio.amount for ratio in row), sum(ratio.base for ratio in row))
        for row in zip(*columns, strict=True)
    ]


def estimate(cell: Cell, metric: str, *, over_draws: bool) -> Estimate:
    """Return a metric of a cell with its 95 % interval.

    At the central values it is that of `analysis.intervals.mean_estimate`.
    """
    outcomes = cell.drawn if over_draws else (cell.stated,)
    if any(not outcome.metrics.get(metric) for outcome in outcomes):
        return Estimate(None, None)
    if over_draws:
        return _over_draws(outcomes, metric)
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


def _over_draws(outcomes: Sequence[Outcome], metric: str) -> Estimate:
    """Return the mean over draws and replications. All draws meet the same failures, so both are clusters.

    The variance is that over draws, plus that over replications, less that of single runs, which both of them hold. The
    interval of a share of runs is the exact one for as many independent runs as have this variance.

    References
    ----------
    A. C. Cameron, J. B. Gelbach, D. L. Miller, J. Business & Economic Statistics 29 (2011), 238 (two-way clusters);
    E. L. Korn, B. I. Graubard, Survey Methodology 24 (1998), 193 (effective number of runs).
    """
    table = np.array([outcome.metrics[metric] for outcome in outcomes], dtype=np.float64)
    amounts, bases = table[..., 0], table[..., 1]
    draws, runs = amounts.shape
    if not (np.all(np.isfinite(amounts)) and bases.sum()) or draws < 2 or runs < 2:
        return Estimate(None, None)
    mean = float(amounts.sum() / bases.sum())
    rest = (amounts - mean * bases) / bases.mean()
    by_draw, by_run = rest.mean(axis=1), rest.mean(axis=0)
    one = float(rest.var(ddof=1)) / rest.size
    both = float(by_draw.var(ddof=1)) / draws + float(by_run.var(ddof=1)) / runs
    # Rounding, or chance in a small table, may leave less than nothing.
    variance = max(both - one, one)
    student = t_quantile(0.95, min(draws, runs) - 1)
    if metric in PROBABILITIES and all(is_zero_or_one(outcome.metrics[metric]) for outcome in outcomes):
        # Runs of one replication, or of one draw, that all end alike tell as much as one.
        least = float(min(draws, runs))
        size = mean * (1 - mean) / variance * (t_quantile(0.95, rest.size - 1) / student) ** 2 if variance else least
        size = min(max(size, 1.0), float(rest.size))
        return Estimate(mean, binomial_interval(mean * size, size))
    half = student * math.sqrt(variance)
    return Estimate(mean, possible(metric, (mean - half, mean + half)))
