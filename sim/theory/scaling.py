r"""How goodput changes with the number of GPUs, and how many GPUs are too many.

The *rate* at which a job of N GPUs is interrupted grows with N (`sim.theory.interruptions`), and so may its restart.
What it gets done is its *pace* without failures times its efficiency E, and as the rate grows, more GPUs lower it in
the end: N E(N) has a peak. Rates [1/s], times [s], sizes [GPUs].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.checkpointing import optimal_interval
from sim.theory.goodput import efficiency
from sim.theory.interruptions import PowerLaw

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["best_size", "elasticity", "peak_size", "useful_gpus"]

OfSize: TypeAlias = Callable[[FloatArray], "npt.ArrayLike"]
"""A function of the number of GPUs, on arrays."""

_FAR = 200.0
"""How far from the size at which its laws are known a peak is looked for: as a logarithm, of what they grow to."""


def useful_gpus(
    gpus: npt.ArrayLike,
    rate: OfSize,
    write: float,
    *,
    interval: float | None = None,
    restart: OfSize | float = 0.0,
    downtime: float = 0.0,
    drain: float = 0.0,
    pace: OfSize | None = None,
) -> float | FloatArray:
    r"""Return what a job of N GPUs gets done, in GPUs that never fail: ``g(N) E(N)``.

    Parameters
    ----------
    gpus : float or (n,) array
        GPUs of the job, N.
    rate : callable
        Rate of interruptions at a size, lambda(N) [1/s]: a `PowerLaw`, or an `interruption_rate`.
    write, downtime, drain : float
        As for `efficiency` [s].
    interval : float, optional
        Computing time between saves [s]; without it, the best for each size, and at least `drain`.
    restart : callable or float
        Restart that failures interrupt, at a size [s].
    pace : callable, optional
        What the job would do without failures, g(N), in any unit: tokens per second of a strong-scaling model, for
        instance. Without it every GPU adds the same, N.

    Returns
    -------
    float or (n,) array
        In the unit of the pace.

    Raises
    ------
    ValueError
        As for `efficiency`.

    References
    ----------
    `sim.theory.goodput`.
    """
    size = positive("gpus", gpus)
    rates = non_negative("rate", rate(size))
    mtti = np.divide(1.0, rates, out=np.full_like(rates, np.inf), where=rates > 0)
    pause = np.asarray(restart(size) if callable(restart) else restart, dtype=np.float64)
    # Free saves, or no failures, have no best interval of their own: any short or long one is as good.
    best = np.clip(optimal_interval(write, mtti), max(drain, 1e-6), 1e12) if interval is None else np.float64(interval)
    done = efficiency(best, write, mtti, pause, downtime, drain)
    return plain(np.asarray(done) * (size if pace is None else np.asarray(pace(size), dtype=np.float64)))


def elasticity(useful: OfSize, gpus: npt.ArrayLike) -> float | FloatArray:
    r"""Return by how many per cent the work done grows with one per cent more GPUs, ``d ln g / d ln N`` [-].

    Below 1 a GPU more is worth less than those before it; below 0 it lowers what the job gets done. By central
    differences over a thousandth of N, so that a staircase of domains is seen only where N sits at a step.

    Parameters
    ----------
    useful : callable
        Work done at a size, such as `useful_gpus` of it.
    gpus : float or (n,) array
        Sizes, N.

    Returns
    -------
    float or (n,) array
        Elasticity [-].

    Raises
    ------
    ValueError
        If a size is not positive.

    References
    ----------
    Own.
    """
    size = positive("gpus", gpus)
    step = 1e-3
    above, below = (np.asarray(useful(size * math.exp(side * step)), dtype=np.float64) for side in (1, -1))
    return plain((np.log(above) - np.log(below)) / (2.0 * step))


def best_size(useful: OfSize, smallest: float, largest: float) -> float:
    r"""Return the size at which a job gets most done, of any shape of the function.

    A search over 2,001 sizes in geometric steps, three times, each around the best of the one before. A function with
    steps has its peaks at their edges; the highest that the grid meets is found.

    Parameters
    ----------
    useful : callable
        Work done at a size, on arrays.
    smallest, largest : float
        Sizes to look between.

    Returns
    -------
    float
        Size [GPUs]; one of the ends if the function still rises or falls there.

    Raises
    ------
    ValueError
        If the sizes are not positive and in order.

    References
    ----------
    Own.
    """
    low, high = float(positive("smallest", smallest)), float(positive("largest", largest))
    if not low < high:
        message = f"smallest must be below largest, got {smallest!r} and {largest!r}"
        raise ValueError(message)
    for _ in range(3):
        sizes = np.geomspace(low, high, 2001)
        place = int(np.argmax(np.asarray(useful(sizes), dtype=np.float64)))
        low, high = float(sizes[max(place - 1, 0)]), float(sizes[min(place + 1, sizes.size - 1)])
    return float(sizes[place])


def peak_size(
    rate: PowerLaw,
    write: float,
    *,
    interval: float | None = None,
    restart: PowerLaw | float = 0.0,
    downtime: float = 0.0,
    drain: float = 0.0,
) -> float:
    r"""Return the size beyond which more GPUs lower what a job gets done, with rates and restarts that are power laws.

    ``d ln(N E) / d ln N = 0`` is, with ``lambda = a N^x``, ``u = c N^p`` and the terms by which failures reduce E,

    .. math:: 1 = x \left(\lambda (u + w) + \frac{\lambda d}{1 + \lambda d} + h - 1\right) + p\, \lambda u

    where ``h = y e^y / (e^y - 1)`` and ``y = lambda (tau + b)`` at a fixed interval. With the best interval for each
    size it is ``h = 1 + b / tau``, by the envelope theorem. Each term rises with N, so there is one root. Without
    restarts, at a fixed interval, it is ``y = k + W0(-k e^(-k))`` with ``k = 1 + 1/x``: for x = 1 the MTTI is then
    ``(tau + b) / 1.594``.

    Parameters
    ----------
    rate : PowerLaw
        Rate of interruptions at a size [1/s], growing.
    write, downtime, drain : float
        As for `efficiency` [s]. With the best interval the drain is taken to be shorter than that.
    interval : float, optional
        Computing time between saves [s]; without it, the best for each size.
    restart : PowerLaw or float
        Restart at a size [s], not falling.

    Returns
    -------
    float
        Size [GPUs]. Sizes beyond ``rate.gpus e^(200 / max(x + p, 1))`` are not looked at: infinite if failures cost too
        little up to there. Nor are those below its inverse: zero if they cost too much from there on.

    Raises
    ------
    ValueError
        If a time is negative or not finite, `interval` is not positive, `rate` does not grow or `restart` falls.

    References
    ----------
    Own derivation. Collectives whose start-up grows as the 1.36th power of N, and rates that grew as the 1.9th between
    32 and 98 thousand GPUs: both through published points of arXiv 2602.00277.
    """
    pause = restart if isinstance(restart, PowerLaw) else PowerLaw(rate.gpus, float(restart), 0.0)
    if not (rate.value > 0 and rate.exponent > 0):
        message = f"rate must be positive and grow with the number of GPUs, got {rate!r}"
        raise ValueError(message)
    if pause.exponent < 0:
        message = f"restart must not fall with the number of GPUs, got {pause!r}"
        raise ValueError(message)
    b, d, w = (float(non_negative(*pair)) for pair in (("write", write), ("downtime", downtime), ("drain", drain)))
    non_negative("restart", pause.value)
    tau = None if interval is None else float(positive("interval", interval))

    def excess(log_size: float) -> float:
        """Return the elasticity of E, and 1: positive below the peak."""
        size = rate.gpus * math.exp(log_size)
        failures, wait = float(rate(size)), float(pause(size))
        if tau is None:
            length = optimal_interval(b, 1.0 / failures)
            saves = b / length if length > 0 else 0.0
        else:
            y = failures * (tau + b)
            saves = y / -math.expm1(-y) - 1.0
        lost = failures * (wait + w) + failures * d / (1.0 + failures * d) + saves
        return 1.0 - rate.exponent * lost - pause.exponent * failures * wait

    from scipy.optimize import brentq

    # The power keeps failures and restarts finite.
    far = _FAR / max(rate.exponent + pause.exponent, 1.0)
    if excess(far) > -1e-9:
        return math.inf
    if excess(-far) < 0:
        return 0.0
    root = float(brentq(excess, -far, far, xtol=1e-13, rtol=1e-13))
    return rate.gpus * math.exp(root)
