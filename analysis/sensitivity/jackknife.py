"""Intervals of what is estimated from points x replications, by leaving out some of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.statistics import t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from analysis.statistics import Interval

    FloatArray = npt.NDArray[np.float64]

__all__ = ["Estimate", "estimates"]

_BLOCKS = 16
"""Parts that the rows are left out in."""


class Estimate(NamedTuple):
    """A share and how sure it is, both cut to 0 .. 1.

    Parameters
    ----------
    value
        The estimate [-].
    ci95
        Its 95 % interval [-].
    """

    value: float
    ci95: Interval


def estimates(statistic: Callable[[FloatArray], FloatArray], values: FloatArray) -> list[Estimate]:
    """Return shares that a statistic estimates, each with a 95 % interval.

    Both points and replications are a sample. Left out are, one at a time, each of 16 blocks of rows, put together at
    random, and each replication; the squared standard errors of both add up (what both have in common is counted
    twice: cautious), with Welch's and Satterthwaite's degrees of freedom. Where the interval stays between 0 and 1 it
    is taken on the scale of ``log(s / (1 - s))``, on which shares are closer to normal.

    Parameters
    ----------
    statistic
        Function of values, shape (sets, n, R), that returns m shares, shape (m,).
    values
        The values, n and R two at least.

    References
    ----------
    R. G. Miller, "The jackknife: a review", Biometrika 61 (1974), 1; A. B. Owen, "The pigeonhole bootstrap", Annals of
    Applied Statistics 1 (2007), 386 (points x replications, and why the sum is cautious).
    """
    found = statistic(values)
    # Not in their order: neighbours in a Sobol sequence share its errors, and would look surer than they are.
    shuffled = np.random.default_rng(0).permutation(values.shape[1])
    rows = np.array_split(shuffled, min(_BLOCKS, values.shape[1]))
    of_rows = _squared_error(np.array([statistic(np.delete(values, block, axis=1)) for block in rows]))
    left = [statistic(np.delete(values, index, axis=2)) for index in range(values.shape[2])]
    of_luck = _squared_error(np.array(left))
    both = zip(found.tolist(), of_rows.tolist(), of_luck.tolist(), strict=True)
    return [_estimate(value, (one, len(rows) - 1), (other, len(left) - 1)) for value, one, other in both]


def _squared_error(replicates: FloatArray) -> FloatArray:
    """Return the squared standard error from estimates with one part left out each, shape (parts, m)."""
    parts = len(replicates)
    found: FloatArray = (parts - 1) * replicates.var(axis=0)
    return found


def _estimate(value: float, *parts: tuple[float, int]) -> Estimate:
    """Return an estimate from the squared standard errors of its parts, and their degrees of freedom."""
    squared = sum(part for part, _ in parts)
    middle = min(max(value, 0.0), 1.0)
    if not np.isfinite(squared):
        # Without some part nothing varies any more: so few points tell no error.
        return Estimate(middle, (0.0, 1.0))
    if squared <= 0:
        return Estimate(middle, (middle, middle))
    freedom = squared**2 / sum(part**2 / degrees for part, degrees in parts)
    half = t_quantile(0.95, int(freedom)) * float(np.sqrt(squared))
    if value - half <= 0 or value + half >= 1:
        return Estimate(middle, (max(min(value - half, 1.0), 0.0), min(max(value + half, 0.0), 1.0)))
    odds, factor = value / (1 - value), float(np.exp(half / (value * (1 - value))))
    return Estimate(value, (odds / (odds + factor), odds * factor / (1 + odds * factor)))
