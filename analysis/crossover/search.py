"""The crossover of two rivals: by the closed form, and by simulation on the same failures."""

from __future__ import annotations

import bisect
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from analysis.crossover.rivals import Rivals

    FloatArray = npt.NDArray[np.float64]

__all__ = ["Crossing", "expected_crossover", "fewest_replicas", "paired_gains", "simulated_crossover"]

_MOST_REPLICAS = 100_000
"""Replicas from which on nobody is asked [-]."""

_DAY = 86400.0

# ------------------------------------------------------------------------------------------------- closed form


def expected_crossover(rivals: Rivals) -> float | None:
    """Return the reconfiguration time at which both jobs are expected to get as much done [s].

    Returns
    -------
    float or None
        Below it elasticity pays; ``None`` if it does not even with a reconfiguration that takes no time.
    """
    return _root(rivals.gain, _first_bracket(rivals), 1e-6)


def fewest_replicas(rivals_of: Callable[[int], Rivals], reconfigure: float) -> int | None:
    """Return the fewest replicas with which elasticity is expected to pay at a reconfiguration time [-].

    Parameters
    ----------
    rivals_of
        The rivals for a number of replicas.
    reconfigure
        Reconfiguration time [s]. More replicas are better only where it is shorter, together with a rejoin and a step,
        than an absence; beyond that an elastic job loses more the more of it stands still.

    Returns
    -------
    int or None
        ``None`` if no number of replicas pays.
    """
    most = 2
    while rivals_of(most).gain(reconfigure) <= 0:
        if most >= _MOST_REPLICAS:
            return None
        most *= 2
    return bisect.bisect_left(range(most), True, lo=2, key=lambda count: rivals_of(count).gain(reconfigure) > 0)


def _first_bracket(rivals: Rivals) -> float:
    """Return a reconfiguration time of the order of what a restart costs [s], above zero."""
    return rivals.restart + rivals.restore + rivals.interval + rivals.drain + rivals.step


def _root(gain: Callable[[float], float], high: float, tolerance: float) -> float | None:
    """Return the zero of a falling function above zero, or ``None`` if it begins below; `high` is a first guess."""
    from scipy.optimize import brentq

    if gain(0.0) <= 0:
        return None
    while gain(high) > 0:
        high *= 2
    return float(brentq(gain, 0.0, high, xtol=tolerance))


# -------------------------------------------------------------------------------------------------- simulation


class Crossing(NamedTuple):
    """A crossover that was found by simulation, and its standard error [s]."""

    seconds: float
    error: float


def simulated_crossover(
    rivals: Rivals, replications: int = 24, *, horizon: float = 18 * _DAY, seed: int = 1
) -> Crossing | None:
    """Return the reconfiguration time at which both jobs got as much done on the same failures.

    The root of the mean paired difference D is bracketed to some seconds, and the rest is Newton's step with the slope
    D' found there. By the delta method its standard error is ``s / (sqrt(n) |D'|)``, with s the standard deviation of
    the n differences.

    Parameters
    ----------
    rivals
        The two jobs.
    replications, horizon, seed
        How many runs of either, how long each is [s], and their luck.

    Returns
    -------
    Crossing or None
        ``None`` if the elastic job got less done even with a reconfiguration that takes no time.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 11.2 (common random numbers).
    """
    gains = functools.cache(paired_gains(rivals, replications, horizon=horizon, seed=seed))
    width = _first_bracket(rivals) / 20
    root = _root(lambda seconds: float(gains(seconds).mean()), 20 * width, width)
    if root is None:
        return None
    there = gains(root)
    slope = float(gains(root + width).mean() - there.mean()) / width
    error = float(there.std(ddof=1)) / math.sqrt(replications) / abs(slope)
    return Crossing(root - float(there.mean()) / slope, error)


def paired_gains(rivals: Rivals, replications: int, *, horizon: float, seed: int = 1) -> Callable[[float], FloatArray]:
    """Return the function from a reconfiguration time to what elasticity gains in each replication [-].

    The failures are drawn once, and the job that restarts is run once; for the parameters see `simulated_crossover`.
    """
    rigid = rivals.prepared(horizon, seed)
    traces = [sim.trace(rigid, number) for number in range(replications)]
    theirs = _productive(rigid, traces)
    return lambda seconds: _productive(rivals.prepared(horizon, seed, seconds), traces) - theirs


def _productive(prepared: sim.Prepared, traces: Sequence[Any]) -> FloatArray:
    """Return the share of productive time in each replication, shape (n,) [-]."""
    jobs = [sim.run(prepared, number, trace).jobs[0] for number, trace in enumerate(traces)]
    return np.array([job.buckets[sim.Bucket.PRODUCTIVE] / job.requested for job in jobs])
