r"""What rates that rest on a few counted events leave uncertain: intervals of rates, and of what follows from them.

A cause was counted n times in an exposure T (hours of the job, node-days, ...), so its rate is about n / T. Counts are
Poisson; the posterior of the rate with Jeffreys' prior is the Gamma law of shape ``n + 1/2`` and rate T. Causes are
independent. Rates [1/s] and exposures [s], or any other unit and its inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import inside

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Carried", "carried", "carried_quantiles", "rate_bound", "rate_interval"]

OfRates: TypeAlias = Callable[[FloatArray], "npt.ArrayLike"]
"""A function of rates, shape (..., causes) in, (...) out."""


class Carried(NamedTuple):
    """What uncertain rates make of a number, to first order.

    Parameters
    ----------
    value
        The number at the posterior means of the rates.
    error
        Its standard deviation.
    low, high
        Ends of the interval.
    shares
        Share of the variance that each rate brings, shape (causes,) [-]; they sum to 1, or are 0 if nothing matters.
    """

    value: float
    error: float
    low: float
    high: float
    shares: FloatArray


def rate_interval(events: npt.ArrayLike, exposure: npt.ArrayLike, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Return the equal-tailed interval of a rate from its count, ``Gamma^{-1}((1 -+ level) / 2; n + 1/2) / T`` [1/s].

    With no events the lower end is 0, and the upper one that of the equal-tailed interval; `rate_bound` says what can
    be ruled out.

    Parameters
    ----------
    events : float or (n,) array
        Events counted, n.
    exposure : float or (n,) array
        Exposure in which they were, T [s].
    level : float
        Probability of the interval [-].

    Returns
    -------
    tuple of (n,) arrays
        Lower and upper end [1/s].

    Raises
    ------
    ValueError
        If `events` is negative, `exposure` not positive, or `level` not between 0 and 1.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961); coverage: L. D. Brown, T. T. Cai, A. DasGupta, Statistica
    Sinica 13 (2003).
    """
    count, time, tail = non_negative("events", events), positive("exposure", exposure), inside("level", level)
    low, high = (_quantile(count, time, np.asarray((1.0 + side * tail) / 2.0)) for side in (-1.0, 1.0))
    return np.where(count == 0, 0.0, low), high


def rate_bound(events: npt.ArrayLike, exposure: npt.ArrayLike, level: float = 0.95) -> float | FloatArray:
    r"""Return the rate above which so few events would have been too unlikely, ``Q^{-1}(n + 1; level) / T`` [1/s].

    Exact and one-sided: at this rate n events or fewer have the probability ``1 - level``. Without events it is
    ``-ln(1 - level) / T``, 3.0 / T at 95 %.

    Parameters
    ----------
    events, exposure, level
        As for `rate_interval`.

    Returns
    -------
    float or (n,) array
        Upper bound [1/s].

    Raises
    ------
    ValueError
        As for `rate_interval`.

    References
    ----------
    F. Garwood, Biometrika 28 (1936); J. A. Hanley and A. Lippman-Hand, JAMA 249 (1983): the rule of three.
    """
    from scipy.special import gammaincinv

    count, time = non_negative("events", events), positive("exposure", exposure)
    return plain(gammaincinv(count + 1.0, inside("level", level)) / time)


def carried(function: OfRates, events: npt.ArrayLike, exposure: npt.ArrayLike, *, level: float = 0.95) -> Carried:
    r"""Return the interval of a function of several rates, by the delta method.

    .. math:: \mathrm{var}\, g \approx \sum_i \left(\frac{\partial g}{\partial \ln \lambda_i}\right)^2
        \frac{1}{n_i + 1/2}

    at the posterior means ``(n + 1/2) / T``, with derivatives by central differences over a ten-thousandth of each
    rate, all in one call. Good where the function is nearly linear over the interval; else `carried_quantiles`.

    Parameters
    ----------
    function : callable
        Function of rates, on arrays of shape (..., causes): goodput, for instance.
    events, exposure : (causes,) arrays
        Events counted of each cause, and in which exposure [s].
    level : float
        Probability of the interval [-].

    Returns
    -------
    Carried
        Value, standard deviation, interval and share of the variance of each rate.

    Raises
    ------
    ValueError
        As for `rate_interval`.

    References
    ----------
    G. W. Oehlert, "A note on the delta method", The American Statistician 46 (1992).
    """
    from scipy.special import ndtri

    count, time = _counts(events, exposure)
    rates, step = (count + 0.5) / time, 1e-4
    moved = np.concatenate((np.eye(count.size), -np.eye(count.size), np.zeros((1, count.size))))
    values = np.asarray(function(rates * np.exp(step * moved)), dtype=np.float64)
    slopes = (values[: count.size] - values[count.size : -1]) / (2.0 * step)
    parts = slopes**2 / (count + 0.5)
    value, error = float(values[-1]), float(np.sqrt(parts.sum()))
    half = error * float(ndtri((1.0 + float(inside("level", level))) / 2.0))
    shares = parts / parts.sum() if error > 0 else np.zeros_like(parts)
    return Carried(value, error, value - half, value + half, shares)


def carried_quantiles(
    function: OfRates, events: npt.ArrayLike, exposure: npt.ArrayLike, levels: npt.ArrayLike, *, points: int = 8192
) -> FloatArray:
    r"""Return quantiles of a function of several rates over their Gamma posteriors.

    The posterior is covered by points of an additive recurrence, ``u_k = (k a + 1/2) mod 1`` with ``a_j = phi^-j`` and
    ``phi^(causes + 1) = phi + 1``: no random numbers, so the answer is always the same. For one rate, and a function
    that is monotone, these are its values at the quantiles of the rate.

    Parameters
    ----------
    function : callable
        Function of rates, on arrays of shape (points, causes).
    events, exposure : (causes,) arrays
        Events counted of each cause, and in which exposure [s].
    levels : float or (n,) array
        Probabilities [-].
    points : int
        Points of the posterior.

    Returns
    -------
    (n,) array
        Quantiles.

    Raises
    ------
    ValueError
        As for `rate_interval`, or if `points` is below 100.

    References
    ----------
    M. Roberts, "The unreasonable effectiveness of quasirandom sequences" (2018), after H. Niederreiter, "Random Number
    Generation and Quasi-Monte Carlo Methods", SIAM (1992).
    """
    count, time = _counts(events, exposure)
    if points < 100:
        message = f"points must be at least 100, got {points!r}"
        raise ValueError(message)
    ratio = 2.0
    for _ in range(64):
        ratio = (1.0 + ratio) ** (1.0 / (count.size + 1.0))
    steps = ratio ** -np.arange(1.0, count.size + 1.0)
    uniform = (0.5 + np.outer(np.arange(1.0, points + 1.0), steps)) % 1.0
    found = np.asarray(function(_quantile(count, time, uniform)), dtype=np.float64)
    return np.asarray(np.quantile(found, inside("levels", levels)), dtype=np.float64)


def _quantile(count: FloatArray, time: FloatArray, probability: FloatArray) -> FloatArray:
    """Return quantiles of the posterior of a rate [1/s]."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(count + 0.5, probability) / time, dtype=np.float64)


def _counts(events: npt.ArrayLike, exposure: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return counts and exposures of all causes, one-dimensional and of one length."""
    count, time = np.broadcast_arrays(
        np.atleast_1d(non_negative("events", events)), np.atleast_1d(positive("exposure", exposure))
    )
    return count, time
