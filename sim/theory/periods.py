"""First-order periods between saves, with downtime and recovery, and the best interval of a save that overlaps.

A *period* T [s] runs from one save to the next, the write included: ``T = interval + write``. The functions of
`sim.theory.checkpointing` return intervals, the write excluded. All assume a write that is short against the MTTI,
where they differ by less than the curve of the cost can tell; the exact optimum, `optimal_interval`, needs no such
assumption, and neither downtime nor recovery moves it under Poisson failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.checkpointing import optimal_interval

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["availability_period", "daly_period", "overlapped_interval", "refined_period"]


@overload
def daly_period(write: float, mtti: float, restart: float = ..., downtime: float = ...) -> float: ...
@overload
def daly_period(
    write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = ..., downtime: npt.ArrayLike = ...
) -> FloatArray: ...
def daly_period(
    write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = 0.0, downtime: npt.ArrayLike = 0.0
) -> float | FloatArray:
    r"""Return Daly's first-order period, ``T = sqrt(2 (M + D + R) C) + C``; the write is in it.

    Without downtime and recovery it is Young's: ``young_interval + C``. It counts a failure every M + D + R, as if
    recovery lengthened the time in which work is at risk; under Poisson failures that errs to longer periods.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, C [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s], not counting downtime; may be infinite.
    restart : float or (n,) array
        Recovery that failures interrupt, R [s].
    downtime : float or (n,) array
        Downtime that failures do not interrupt, D [s].

    Returns
    -------
    float or (n,) array
        Time from save to save, T [s].

    Raises
    ------
    ValueError
        If a time is negative or not finite, or `mtti` is not positive.

    References
    ----------
    G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, arXiv:1207.6936 and 1302.3752, Table 2, after J. T. Daly (2006).
    """
    c, m, r, d = _times(write, mtti, restart, downtime)
    return plain(np.sqrt(_product(2.0 * c, m + d + r)) + c)


@overload
def refined_period(write: float, mtti: float, restart: float = ..., downtime: float = ...) -> float: ...
@overload
def refined_period(
    write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = ..., downtime: npt.ArrayLike = ...
) -> FloatArray: ...
def refined_period(
    write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = 0.0, downtime: npt.ArrayLike = 0.0
) -> float | FloatArray:
    r"""Return INRIA's refined first-order period, ``T = sqrt(2 (M - D - R) C)``; the write is in it.

    It minimises the waste ``1 - (1 - C / T) (1 - (D + R + T / 2) / M)``, in which each failure costs a downtime, a
    recovery and half a period.

    Parameters
    ----------
    write, mtti, restart, downtime : float or (n,) array
        As for `daly_period` [s].

    Returns
    -------
    float or (n,) array
        Time from save to save, T [s].

    Raises
    ------
    ValueError
        As `daly_period`, or if `mtti` does not exceed `downtime` and `restart` together.

    References
    ----------
    As for `daly_period`; the column RFO.
    """
    c, m, r, d = _times(write, mtti, restart, downtime)
    if np.any(m <= d + r):
        message = f"mtti must exceed downtime + restart (a failure costs more than is between two), got {mtti!r}"
        raise ValueError(message)
    return plain(np.sqrt(_product(2.0 * c, m - d - r)))


@overload
def availability_period(write: float, mtti: float, restart: float = ...) -> float: ...
@overload
def availability_period(write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = ...) -> FloatArray: ...
def availability_period(write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike = 0.0) -> float | FloatArray:
    r"""Return the period of the highest availability, ``T = C + sqrt(2 (M + R) C + C^2)``; the write is in it.

    It maximises ``(1 - C / T) M / (M + R + T / 2)``: the share of a period that is not a save, times the share of a
    failure's cycle that is neither recovery nor work done again. What minimises the lost time ``C / T + T / (2 M)`` is
    ``sqrt(2 M C)``, the number of `young_interval`; for ``C << R << M`` the two agree.

    Parameters
    ----------
    write, mtti, restart : float or (n,) array
        As for `daly_period` [s]; in the paper T_s, T_f and T_r.

    Returns
    -------
    float or (n,) array
        Time from save to save, T [s], in the paper T_c.

    Raises
    ------
    ValueError
        As `daly_period`.

    References
    ----------
    N. R. Saxena, S. Hukerikar, M. Blaz, S. Raj, "Optimal Checkpoint Interval with Availability as an Objective
    Function", arXiv:2410.18124 (2024).
    """
    c, m, r, _ = _times(write, mtti, restart, 0.0)
    return plain(c + np.sqrt(_product(2.0 * c, m + r) + c**2))


@overload
def overlapped_interval(write: float, mtti: float, drain: float) -> float: ...
@overload
def overlapped_interval(write: npt.ArrayLike, mtti: npt.ArrayLike, drain: npt.ArrayLike) -> FloatArray: ...
def overlapped_interval(write: npt.ArrayLike, mtti: npt.ArrayLike, drain: npt.ArrayLike) -> float | FloatArray:
    r"""Return the best computing time between asynchronous saves, ``tau = max(w, optimal_interval(b, M))``.

    A save blocks for b and becomes durable w later, in parallel with computing, and one save does not overtake the
    next. Under Poisson failures the drain multiplies every interval's progress by ``exp(-w / M)`` (see `efficiency`),
    which moves no optimum: it only keeps the interval from being shorter than w. The work that the drain costs is the
    share ``1 - exp(-w / M)`` of what a save durable at once would have left. Computing is not slowed meanwhile.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, b [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s]; may be infinite.
    drain : float or (n,) array
        Time from the end of the blocking part to durability, w [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s]; the write is not in it.

    Raises
    ------
    ValueError
        If `write` or `drain` is negative, or `mtti` is not positive.

    References
    ----------
    Own derivation: `efficiency` has one maximum over tau, so that its best value under ``tau >= w`` is at the edge if
    the maximum is beyond it.
    """
    return plain(np.maximum(non_negative("drain", drain), optimal_interval(np.asarray(write), np.asarray(mtti))))


def _times(
    write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike, downtime: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return C, M, R, D, checked."""
    return (
        non_negative("write", write),
        positive("mtti", mtti, infinite=True),
        non_negative("restart", restart),
        non_negative("downtime", downtime),
    )


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``left * right``; infinite where `right` is, for without failures no save is ever due."""
    return np.where(np.isinf(right), np.inf, left * np.where(np.isinf(right), 1.0, right))
