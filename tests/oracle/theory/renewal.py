"""Expected goodput of a job whose gaps between failures follow any law: renewal-reward integrals.

The model of `ettrick.sim.formulas.goodput`, without its Poisson failures. Gaps X are independent and of one law; each
begins where the one before ended, at a failure, and runs while failures can hit the job: through the restart u, which
another failure starts over, and the cycles of computing tau and writing b, but not through the downtime d. With
``restart = 0`` and the restart in the downtime the gap is renewed when the job steps again. Where gaps run on while a
failure is detected, and that is short beside them, count detection to the restart. In a gap of X

* the save that ends cycle k becomes durable at ``u + k (tau + b) + w``, so that the mean number of durable saves is a
  sum of survival probabilities, ``sum_k S(u + k (tau + b) + w)``, whatever the law;
* gap and downtime are one renewal cycle of mean length ``E X + d``; every share is the mean time of its kind in a cycle
  over that length, exact for a job that sees many failures.

When is this the law? For faults that renew at each restart, such as those of the job's own software. A job of many
nodes whose lives go on through its restarts is another matter: their failures together are a superposition of renewal
processes, close to Poisson over times that are short against a node's life, whatever the law of a node
(Palm-Khintchine), and then `ettrick.sim.formulas.goodput` holds with the sum of the rates. They are not close where few
nodes cause most failures, where all nodes are new (the rate then moves with their age), and where faults come in bursts
or again after a repair: a law fitted to such gaps gets their spread right and their order wrong. All times [s]; shares
of the job's wall clock [-].
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    FloatArray: TypeAlias = npt.NDArray[np.float64]
    Survival: TypeAlias = Callable[[FloatArray], FloatArray]

# Cycles that are summed at a time, and what the rest may come to beside a mean gap [-].
_CHUNK, _REST = 1 << 12, 1e-13

# Two times that differ by less, relatively, are the same.
_TIE = 1e-9


def law_shares(
    survival: Survival,
    mean: float,
    interval: float,
    write: float,
    restart: float = 0.0,
    downtime: float = 0.0,
    drain: float = 0.0,
) -> dict[str, float]:
    r"""Return where the wall clock goes of a job whose gaps between failures follow a law [-].

    With ``P = tau + b``, and everything over ``E X + d``:

    * ``productive = tau sum_(k >= 1) S(u + k P + w)``, ``detection = d``, ``restart = int_0^u S``;
    * ``checkpoint_stall = sum_(k >= 0) int_(u + k P + tau)^(u + (k + 1) P) S``;
    * ``lost_work`` is what remains of ``E X``.

    The sum is exact for every law; the integrals are by Gauss's rule and need a survival that is smooth between two
    saves. With ``S(x) = exp(-x / M)`` it is `expected_shares`.

    Parameters
    ----------
    survival
        P(X > x) of a gap, from an array of times [s] to one of probabilities [-].
    mean
        Mean gap, E X [s]: the integral of `survival`.
    interval, write
        Computing time between saves, tau, and blocking time of one, b [s].
    restart, downtime
        Restart in which the next gap runs already, u, and downtime in which it does not, d [s].
    drain
        Time from the end of the blocking part to durability, w [s], at most `interval`.

    Returns
    -------
    dict of str to float
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    References
    ----------
    Rewards of a renewal process, and superpositions: D. R. Cox, "Renewal Theory", Methuen (1962). Weibull gaps: M.
    Bougeret, H. Casanova, M. Rabie, Y. Robert, F. Vivien, "Checkpointing strategies for parallel jobs", SC 2011.
    """
    saves, stall = _sums(survival, mean, interval, write, restart, drain)
    again = _from_zero(survival, restart)
    lost = mean - again - stall - interval * saves
    return _shares(mean + downtime, interval * saves, stall, lost, downtime, again)


def measured_shares(
    gaps: npt.ArrayLike, interval: float, write: float, restart: float = 0.0, downtime: float = 0.0, drain: float = 0.0
) -> dict[str, float]:
    r"""Return where the wall clock would have gone with the gaps of a table, one after another [-].

    The sums of `law_shares` for the empirical law, without integrals: a gap x with ``y = x - u`` holds
    ``floor((y - w) / P)`` durable saves, and ``floor(y / P) tau + min(y mod P, tau)`` of computing. Exact for these
    gaps in any order; for others of the same law it is an estimate, with the sampling error of their number.

    Parameters
    ----------
    gaps : (n,) array
        Times that failures were apart, downtime not counted [s].
    interval, write, restart, downtime, drain
        As for `law_shares` [s].

    Returns
    -------
    dict of str to float
        Shares [-], as of `law_shares`.

    References
    ----------
    As for `law_shares`.
    """
    table = np.asarray(gaps, dtype=np.float64)
    mean = float(table.mean())
    period = interval + write
    running = np.maximum(table - restart, 0.0)
    # A save that is durable when the failure strikes counts; rounding must not decide it.
    saves = np.floor((running - drain) / period * (1.0 + _TIE)).clip(min=0.0)
    cycles = np.floor(running / period)
    computing = cycles * interval + np.minimum(running - cycles * period, interval)
    done = interval * float(saves.mean())
    spent = float(computing.mean())
    stall = float(running.mean()) - spent
    return _shares(mean + downtime, done, stall, spent - done, downtime, mean - float(running.mean()))


def _sums(
    survival: Survival, mean: float, interval: float, write: float, restart: float, drain: float
) -> tuple[float, float]:
    """Return the mean number of durable saves in a gap [-], and the mean time blocked in saves [s]."""
    period = interval + write
    nodes, weights = np.polynomial.legendre.leggauss(8)
    saves = stall = 0.0
    for first in itertools.count(0, _CHUNK):
        starts = restart + np.arange(first, first + _CHUNK, dtype=np.float64) * period
        left = survival(starts + period + drain)
        saves += float(left.sum())
        places = starts[:, None] + interval + write * (nodes + 1.0) / 2.0
        stall += write / 2.0 * float((survival(places) @ weights).sum())
        # A tail at least as thin as a power above one has no more than this beyond.
        if float(left[-1]) * (starts[-1] + mean) <= _REST * mean:
            break
    return saves, stall


def _from_zero(survival: Survival, end: float) -> float:
    """Return the integral of the survival from 0 [s], by pieces that are halved towards 0, where its slope may end."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = end * np.append(0.5 ** np.arange(50), 0.0)
    middles, halves = (edges[:-1] + edges[1:]) / 2.0, (edges[:-1] - edges[1:]) / 2.0
    return float(halves @ (survival(middles[:, None] + halves[:, None] * nodes) @ weights))


def _shares(cycle: float, done: float, stall: float, lost: float, downtime: float, restart: float) -> dict[str, float]:
    """Return times in a renewal cycle [s] as shares of it [-]."""
    return {
        "productive": done / cycle,
        "checkpoint_stall": stall / cycle,
        # Never negative in exact arithmetic; the maximum removes the rounding.
        "lost_work": max(lost, 0.0) / cycle,
        "detection": downtime / cycle,
        "restart": restart / cycle,
    }
