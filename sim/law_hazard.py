"""From probabilities to cumulative hazards, and from cumulative hazards to times.

The cumulative hazard H(x) = -ln P(X > x) grows from 0 to infinity. It is nearly P(X <= x) where that is small, and
holds a small P(X > x) in its logarithm: neither tail is rounded away. The time of the uniform number u is the smallest
x with H(x) >= -ln(1 - u).

A law whose inverse has no closed form is inverted here. Between the times at which it bunches or its density jumps,
ln H over ln x is smooth (straight for a Weibull law: it is Weibull's plotting paper), so that few steps of a bracketing
method find the time to the last digits.

References
----------
W. Weibull, "A statistical distribution function of wide applicability", Journal of Applied Mechanics 18 (1951): the
paper on which ln H over ln x is straight. T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding
the zero of a nonlinear function without using derivatives", Advances in Engineering Software 28 (1997). R. P. Brent,
*Algorithms for Minimization without Derivatives*, Prentice-Hall, 1973, chapter 4.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Knots", "WithHazard", "hazard_of", "hazard_of_one", "knots_of", "smallest_time", "smallest_times"]

_TINY = sys.float_info.min
_HUGE = sys.float_info.max
# A few units in the last place of ln x, and of x where that is near one second.
_DIGITS = 4 * sys.float_info.epsilon


class WithHazard(Protocol):
    """What a law must tell to be inverted; the same in words as in `sim.law_model.LawModel`."""

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times [s] at which lives bunch, or at which the density jumps."""

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln P(X > x) [-], shape (n,), of times `x` [s], shape (n,)."""

    def cumulative_hazard_one(self, x: float) -> float:
        """Return `cumulative_hazard` of one time [-]."""


def hazard_of(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -ln P(X > x) [-] of P(X <= x) and P(X > x), by the smaller of the two; all of shape (n,)."""
    with np.errstate(divide="ignore"):  # nothing is left above: the hazard is infinite
        return np.where(below < 0.5, -np.log1p(-np.minimum(below, 0.5)), -np.log(above))


def hazard_of_one(below: float, above: float) -> float:
    """Return `hazard_of` two numbers [-]."""
    if below < 0.5:
        return -math.log1p(-below)
    return -math.log(above) if above > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Knots:
    """The breaks of a law: times [s] in order, and the cumulative hazards [-] at each and just before it.

    A last knot at the end of time saves all questions whether there is a next one.
    """

    times: Sequence[float]
    at: Sequence[float]
    before: Sequence[float]


def knots_of(law: WithHazard, *, length_biased: bool = False) -> Knots:
    """Return the knots of a law."""
    times = np.array(sorted(set(law.breaks)), dtype=np.float64)
    # Rounding must not make a hazard fall: the knots are searched by it.
    at = np.maximum.accumulate(law.cumulative_hazard(times, length_biased=length_biased))
    before = law.cumulative_hazard(np.nextafter(times, -np.inf), length_biased=length_biased)
    return Knots(*([*column.tolist(), math.inf] for column in (times, at, before)))


def smallest_times(
    law: WithHazard,
    u: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    *,
    length_biased: bool = False,
) -> NDArray[np.float64]:
    """Return the inverse CDF of a law.

    Parameters
    ----------
    law
        The law.
    u
        Uniform numbers in (0, 1) [-], shape (n,).
    low, high
        Times between which the answer is [s], shape (n,) each.
    length_biased
        Whether to invert the law of the length-biased life.

    Returns
    -------
    NDArray[np.float64]
        The smallest x with P(X <= x) >= u [s], shape (n,): exact at the breaks, else right to about 1e-14.
    """
    from scipy.optimize.elementwise import find_root

    target = -np.log1p(-u)
    knots = knots_of(law, length_biased=length_biased)
    times = np.array(knots.times)
    place = np.searchsorted(knots.at[:-1], target, side="left")
    result: NDArray[np.float64] = times[place]
    smooth = np.flatnonzero(target <= np.array(knots.before)[place])
    target, place = target[smooth], place[smooth]
    low = np.maximum(low[smooth], np.maximum(np.concatenate([[0.0], times])[place], _TINY))
    high = np.clip(high[smooth], low, times[place])

    def miss(log_x: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.float64]:
        hazard = law.cumulative_hazard(np.exp(log_x), length_biased=length_biased)
        return np.log(np.clip(hazard, _TINY, _HUGE)) - goal

    goal, ends = np.log(target), (np.log(low), np.log(high))
    found = find_root(
        miss, ends, args=(goal,), tolerances={"xatol": _DIGITS, "xrtol": _DIGITS, "fatol": 0.0, "frtol": 0.0}
    )
    # Without a change of sign the answer is one of the ends, to rounding.
    end = np.where(miss(ends[1], goal) < 0, high, low)
    result[smooth] = np.where(found.success, np.clip(np.exp(found.x), low, high), end)
    return result


def smallest_time(law: WithHazard, u: float, low: float, high: float, knots: Knots) -> float:
    """Return `smallest_times` of one number [s], given the knots of the law."""
    from scipy.optimize import brentq

    target = -math.log1p(-u)
    place = bisect_left(knots.at, target, hi=len(knots.at) - 1)
    if target > knots.before[place]:
        return knots.times[place]
    low = max(low, knots.times[place - 1] if place else _TINY, _TINY)
    high = min(max(high, low), knots.times[place])
    goal = math.log(target)

    def miss(log_x: float) -> float:
        return math.log(min(max(law.cumulative_hazard_one(math.exp(log_x)), _TINY), _HUGE)) - goal

    try:
        found = math.exp(float(brentq(miss, math.log(low), math.log(high), xtol=_DIGITS, rtol=_DIGITS)))
    except ValueError:  # no change of sign: the answer is one of the ends, to rounding
        return high if miss(math.log(high)) < 0 else low
    return min(max(found, low), high)
