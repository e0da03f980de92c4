r"""The way from a fresh cluster to the long run: nodes down at a time t after a start with all nodes up.

A horizon that is not long against the repairs does not see the long-run values: it begins with nobody in repair. Here
are the values on the way and the means over a window, for the laws of `sim.theory.availability`, which take them as
their arguments:

* N independent nodes: `missing_nodes_pmf` with `unavailability_at` (exponential lives and repairs) or
  `unavailability_curve` (exponential lives, any repair);
* failures at a rate that does not fall when nodes are down: `repairs_pmf` with `repairs_at` (any repair). In an
  environment that changes slowly, with squared coefficient of variation v of the failure rate, the dispersion at t is
  ``1 + v a(t)``.

A law of repairs is given by its *survival function*, the probability that a repair takes longer than a time: a function
of an array [s] to an array [-]. With exponential lives it does not matter whether a node's next life begins at its
failure or at its return. Times [s], rates [1/s], probabilities [-].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import share, whole

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "Survival",
    "cold_start_share",
    "mean_repairs",
    "relaxation_time",
    "repairs_at",
    "unavailability_at",
    "unavailability_curve",
]

Survival: TypeAlias = Callable[[FloatArray], FloatArray]

# Panels of an integral halve towards 0, so that repairs of 2^-40 of the horizon are seen,
_HALVINGS = 40
# and are halved until two rules agree to this share of the horizon.
_AGREEMENT = 1e-13


@overload
def relaxation_time(life: float, repair: float) -> float: ...
@overload
def relaxation_time(life: npt.ArrayLike, repair: npt.ArrayLike) -> FloatArray: ...
def relaxation_time(life: npt.ArrayLike, repair: npt.ArrayLike) -> float | FloatArray:
    r"""Return the time in which the distance to the long run falls to 1/e, ``1 / (1 / life + 1 / repair)``.

    Assumes exponential lives and repairs and a crew for each node. It is a little less than a repair.

    Parameters
    ----------
    life : float or (n,) array
        Mean time from the return of a node to its next failure [s]; may be infinite.
    repair : float or (n,) array
        Mean time from the failure of a node to its return [s].

    Returns
    -------
    float or (n,) array
        Time [s].

    Raises
    ------
    ValueError
        If an argument is not positive.
    """
    return plain(1.0 / (1.0 / positive("life", life, infinite=True) + 1.0 / positive("repair", repair)))


@overload
def unavailability_at(time: float, life: float, repair: float) -> float: ...
@overload
def unavailability_at(time: npt.ArrayLike, life: npt.ArrayLike, repair: npt.ArrayLike) -> FloatArray: ...
def unavailability_at(time: npt.ArrayLike, life: npt.ArrayLike, repair: npt.ArrayLike) -> float | FloatArray:
    r"""Return the probability that a node is down at t if it was up at 0.

    ``q(t) = repair / (life + repair) (1 - exp(-t / tau))``, tau the `relaxation_time`. Assumptions as there. Of N
    independent nodes the number down at t is binomial with q(t).

    Parameters
    ----------
    time : float or (n,) array
        Time since the start, t [s].
    life, repair : float or (n,) array
        As for `relaxation_time`.

    Returns
    -------
    float or (n,) array
        Unavailability [-].

    Raises
    ------
    ValueError
        If `time` is negative or not finite, or another argument is not positive.

    References
    ----------
    K. S. Trivedi, "Probability and Statistics with Reliability, Queuing, and Computer Science Applications", 2nd ed.,
    Wiley (2002), section 8.3 (two-state chain).
    """
    up, down = positive("life", life, infinite=True), positive("repair", repair)
    return plain(down / (up + down) * -np.expm1(-non_negative("time", time) / relaxation_time(up, down)))


@overload
def cold_start_share(horizon: float, relaxation: float, warmup: float = ...) -> float: ...
@overload
def cold_start_share(horizon: npt.ArrayLike, relaxation: npt.ArrayLike, warmup: npt.ArrayLike = ...) -> FloatArray: ...
def cold_start_share(
    horizon: npt.ArrayLike, relaxation: npt.ArrayLike, warmup: npt.ArrayLike = 0.0
) -> float | FloatArray:
    r"""Return the mean number down over a window, as a share of the long run, from a start with all nodes up.

    ``1 - exp(-w / tau) (1 - exp(-x)) / x`` with ``x = T / tau``: the mean of ``1 - exp(-t / tau)`` over a horizon T
    that begins after a warm-up w. What lacks to 1 is the bias of a cold start.

    Parameters
    ----------
    horizon : float or (n,) array
        Length of the window, T [s].
    relaxation : float or (n,) array
        As `relaxation_time` gives it, tau [s].
    warmup : float or (n,) array
        Time from the start to the window, w [s].

    Returns
    -------
    float or (n,) array
        Share of the long-run mean [-].

    Raises
    ------
    ValueError
        If `horizon` or `relaxation` is not positive, or `warmup` is negative.
    """
    tau = positive("relaxation", relaxation)
    x, begin = positive("horizon", horizon) / tau, np.exp(-non_negative("warmup", warmup) / tau)
    # 1 - (1 - exp(-x)) / x loses its digits where x is small: there the first terms of its series.
    ramp = np.where(x < 1e-3, x / 2.0 - x**2 / 6.0 + x**3 / 24.0, 1.0 + np.expm1(-x) / x)
    return plain(1.0 - begin + begin * ramp)


@overload
def repairs_at(time: float, rate: float, survival: Survival) -> float: ...
@overload
def repairs_at(time: npt.ArrayLike, rate: npt.ArrayLike, survival: Survival) -> FloatArray: ...
def repairs_at(time: npt.ArrayLike, rate: npt.ArrayLike, survival: Survival) -> float | FloatArray:
    r"""Return the mean number of nodes in repair at t if nobody was at 0, ``a(t) = rate int_0^t (1 - G(u)) du``.

    G is the distribution function of the repair time, 1 - G its survival function. With Poisson failures and a crew for
    each repair (M/G/infinity) the number in repair at t is Poisson with this mean. In the long run it is
    `offered_repairs`.

    Parameters
    ----------
    time : float or (n,) array
        Time since the start, t [s].
    rate : float or (n,) array
        Failures of the whole cluster in unit time [1/s].
    survival : callable
        Probability that a repair takes longer than a time, an array to an array of the same shape; not increasing.

    Returns
    -------
    float or (n,) array
        Mean number in repair [nodes].

    Raises
    ------
    ValueError
        If `time` or `rate` is negative or not finite, or `survival` gives a value outside [0, 1].

    References
    ----------
    L. Takacs, "Introduction to the Theory of Queues", Oxford (1962), chapter 3; S. G. Eick, W. A. Massey and W. Whitt,
    "The physics of the M(t)/G/infinity queue", Operations Research 41 (1993).
    """
    t, failures = np.broadcast_arrays(non_negative("time", time), non_negative("rate", rate))
    lengths = [_panels(survival, _towards_zero(end)).sum() if end else 0.0 for end in t.ravel().tolist()]
    return plain(failures * np.reshape(lengths, t.shape))


@overload
def mean_repairs(horizon: float, rate: float, survival: Survival) -> float: ...
@overload
def mean_repairs(horizon: npt.ArrayLike, rate: npt.ArrayLike, survival: Survival) -> FloatArray: ...
def mean_repairs(horizon: npt.ArrayLike, rate: npt.ArrayLike, survival: Survival) -> float | FloatArray:
    r"""Return the mean number of nodes in repair over [0, T] if nobody was at 0.

    ``rate int_0^T (1 - G(u)) (1 - u / T) du``, the mean of `repairs_at`: a failure at s is in repair at s + u. Over
    `offered_repairs` it is the share of the long run that a horizon sees. Repairs with a long tail approach it slowly.

    Parameters
    ----------
    horizon : float or (n,) array
        Length of the horizon, T [s].
    rate, survival
        As for `repairs_at`.

    Returns
    -------
    float or (n,) array
        Mean number in repair [nodes].

    Raises
    ------
    ValueError
        If `horizon` is not positive, or otherwise as for `repairs_at`.
    """
    t, failures = np.broadcast_arrays(positive("horizon", horizon), non_negative("rate", rate))
    lengths = [
        _panels(lambda u, end=end: survival(u) * (1.0 - u / end), _towards_zero(end)).sum()  # type: ignore[misc]
        for end in t.ravel().tolist()
    ]
    return plain(failures * np.reshape(lengths, t.shape))


def unavailability_curve(horizon: float, life: float, survival: Survival, steps: int = 1000) -> FloatArray:
    r"""Return the probability that a node is down at times from 0 to T, if it was up at 0, for any law of repair.

    It is up with ``A(t) = 1 - (1 / life) int_0^t A(t - u) (1 - G(u)) du``: failures at t are A(t) / life in unit time,
    and one before u is still in repair with 1 - G(u). Solved step by step, A linear and 1 - G integrated exactly in a
    step; the error falls with the square of the step. Assumes exponential lives and a crew for each node.

    Parameters
    ----------
    horizon : float
        Last time, T [s].
    life : float
        Mean time from the return of a node to its next failure [s]; may be infinite.
    survival : callable
        As for `repairs_at`.
    steps : int
        Steps from 0 to T.

    Returns
    -------
    (steps + 1,) array
        Unavailability at 0, T / steps, ..., T [-].

    Raises
    ------
    ValueError
        If `horizon` or `life` is not positive, `steps` is no whole number from 1, or `survival` gives a value outside
        [0, 1].

    References
    ----------
    Renewal equation of a unit that is repaired: D. R. Cox, "Renewal Theory", Methuen (1962), chapter 7; product
    integration: P. Linz, "Analytical and Numerical Methods for Volterra Equations", SIAM (1985), chapter 8.
    """
    end, n = float(positive("horizon", horizon)), int(whole("steps", steps, 1))
    rate = 1.0 / float(positive("life", life, infinite=True))
    first = _towards_zero(end / n)
    panels = _panels(survival, np.concatenate((first, np.linspace(0.0, end, n + 1)[2:])))
    weights = rate * np.concatenate(([panels[: first.size - 1].sum()], panels[first.size - 1 :]))
    up, between = np.ones(n + 1), np.empty(n)
    for i in range(1, n + 1):
        past = weights[1:i] @ between[: i - 1][::-1]
        up[i] = (1.0 - past - weights[0] * up[i - 1] / 2.0) / (1.0 + weights[0] / 2.0)
        between[i - 1] = (up[i - 1] + up[i]) / 2.0
    return 1.0 - up


def _towards_zero(end: float) -> FloatArray:
    """Return the edges of panels of [0, end] that halve towards 0."""
    return np.concatenate(([0.0], end * 2.0 ** -np.arange(_HALVINGS, -1.0, -1.0)))


def _panels(function: Survival, edges: FloatArray) -> FloatArray:
    """Return the integral of a function with values in [0, 1] over each panel between `edges`.

    Gauss-Legendre rules; a panel is halved until it agrees with its halves, which a jump asks for forty times.
    """
    points, weights = np.polynomial.legendre.leggauss(10)

    def rule(low: FloatArray, high: FloatArray) -> FloatArray:
        half = (high - low)[:, None] / 2.0
        values = share("survival", function((low[:, None] + half + half * points).ravel()))
        return (half * values.reshape(-1, points.size)) @ weights

    low, high, panel, sums = edges[:-1], edges[1:], np.arange(edges.size - 1), np.zeros(edges.size - 1)
    known = rule(low, high)
    while low.size:
        middle = (low + high) / 2.0
        left, right = rule(low, middle), rule(middle, high)
        open_ = np.abs(left + right - known) > _AGREEMENT * edges[-1]
        np.add.at(sums, panel[~open_], (left + right)[~open_])
        low, high = np.concatenate((low[open_], middle[open_])), np.concatenate((middle[open_], high[open_]))
        known, panel = np.concatenate((left[open_], right[open_])), np.tile(panel[open_], 2)
    return sums
