"""Expected goodput of one synchronous job with periodic checkpoints under Poisson failures: renewal theory.

The model, in the order in which a job lives it:

* Failures are Poisson with rate ``lambda = 1 / M``. A failure starts a *downtime* d: detection, or any stall that no
  further failure restarts (a failure during it merges into the open incident).
* A *restart* u follows. A failure during it starts over with a new downtime.
* Then cycles of ``tau`` computing and a blocking *write* b. A checkpoint becomes durable a *drain* w after its
  blocking part ends (the asynchronous part of the save, in parallel with computing), w <= tau. A failure returns the
  job to the newest durable checkpoint.

Failure to failure is one renewal cycle of mean length ``1 / lambda + d``; every share below is the mean time of its
kind in one cycle over that length, so it is exact for a job long against M, and has no first-order error. All times
[s]; shares of the job's wall clock [-]. Not in it: queueing, waits for nodes, stragglers, lost domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["efficiency", "expected_shares", "expected_wallclock", "first_order_efficiency"]


@overload
def efficiency(
    interval: float, write: float, mtti: float, restart: float, downtime: float = ..., drain: float = ...
) -> float: ...
@overload
def efficiency(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike = ...,
    drain: npt.ArrayLike = ...,
) -> FloatArray: ...
def efficiency(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike = 0.0,
    drain: npt.ArrayLike = 0.0,
) -> float | FloatArray:
    r"""Return the expected share of wall clock that becomes durable progress (ETTR without queueing) [-].

    ``E = lambda tau exp(-lambda (u + w)) / ((exp(lambda (tau + b)) - 1) (1 + lambda d))``: the number of checkpoints
    that become durable between two failures, times tau, over ``1 / lambda + d``. Without failures it is
    ``tau / (tau + b)``.

    Parameters
    ----------
    interval : float or (n,) array
        Computing time between saves, tau [s].
    write : float or (n,) array
        Blocking time of one save, b [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, M [s], not counting downtime; may be infinite.
    restart : float or (n,) array
        Restart that failures interrupt, u [s].
    downtime : float or (n,) array
        Downtime that failures do not interrupt, d [s].
    drain : float or (n,) array
        Time from the end of the blocking part to durability, w [s], at most `interval`.

    Returns
    -------
    float or (n,) array
        Share [-], in [0, 1].

    Raises
    ------
    ValueError
        If a time is negative or not finite, `interval` or `mtti` is not positive, or `drain` exceeds `interval`.

    References
    ----------
    With d = w = 0, the inverse of J. T. Daly's wall clock, Future Generation Computer Systems 22 (2006). With w = 0,
    one minus the waste of G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, arXiv:1207.6936 and 1302.3752 (period tau + b).
    """
    tau, b, rate, u, d, w = _model(interval, write, mtti, restart, downtime, drain)
    y = rate * (tau + b)
    return plain(tau / (tau + b) * np.exp(-rate * (u + w) - y) / _mean_survival(y) / (1.0 + rate * d))


@overload
def expected_shares(
    interval: float, write: float, mtti: float, restart: float, downtime: float = ..., drain: float = ...
) -> dict[str, float]: ...
@overload
def expected_shares(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike = ...,
    drain: npt.ArrayLike = ...,
) -> dict[str, FloatArray]: ...
def expected_shares(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike = 0.0,
    drain: npt.ArrayLike = 0.0,
) -> dict[str, float] | dict[str, FloatArray]:
    r"""Return where the wall clock goes: `efficiency` (as ``productive``) and what became of the rest [-].

    With ``P = tau + b`` and everything over ``1 + lambda d``:

    * ``detection = lambda d``, ``restart = 1 - exp(-lambda u)``; what remains, ``exp(-lambda u)``, is running time;
    * of that, ``(1 - exp(-lambda tau)) / (1 - exp(-lambda P))`` is computing, and the rest of it,
      ``checkpoint_stall``, is blocked in saves: all of them, also those whose save or work was void later;
    * ``lost_work`` is computing that never became durable: ``computing - productive``.

    Parameters
    ----------
    interval, write, mtti, restart, downtime, drain : float or (n,) array
        As for `efficiency` [s].

    Returns
    -------
    dict of str to float or (n,) array
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    Raises
    ------
    ValueError
        As for `efficiency`.

    References
    ----------
    Own derivation, by the memorylessness of the running time left after a restart.
    """
    tau, b, rate, u, d, w = _model(interval, write, mtti, restart, downtime, drain)
    y = rate * (tau + b)
    cycle = 1.0 + rate * d
    # Per second of period: the time spent running, cut off by failures, is exp(-rate u) / (P mean_survival(P)).
    running = np.exp(-rate * u) / cycle / ((tau + b) * _mean_survival(y))
    shares = {
        "productive": running * tau * np.exp(-rate * w - y),
        "checkpoint_stall": running * b * np.exp(-rate * tau) * _mean_survival(rate * b),
        # Never negative in exact arithmetic; the maximum removes the rounding.
        "lost_work": running * tau * np.maximum(_mean_survival(rate * tau) - np.exp(-rate * w - y), 0.0),
        "detection": rate * d / cycle,
        "restart": -np.expm1(-rate * u) / cycle,
    }
    if tau.ndim == 0:
        return {name: float(share) for name, share in shares.items()}
    return shares


@overload
def first_order_efficiency(interval: float, write: float, mtti: float, restart: float) -> float: ...
@overload
def first_order_efficiency(
    interval: npt.ArrayLike, write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike
) -> FloatArray: ...
def first_order_efficiency(
    interval: npt.ArrayLike, write: npt.ArrayLike, mtti: npt.ArrayLike, restart: npt.ArrayLike
) -> float | FloatArray:
    r"""Return the first-order ETTR, ``(1 - (u0 + dt / 2) / M) / (1 + w / dt)`` [-].

    Good while ``u0 + dt << M``; at high loss it is too low, and below zero beyond ``u0 + dt / 2 = M``.

    Parameters
    ----------
    interval : float or (n,) array
        Computing time between saves, dt [s].
    write : float or (n,) array
        Blocking time of one save, w [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, ``M = 1 / (N rf)`` [s]; may be infinite.
    restart : float or (n,) array
        Restart, u0 [s].

    Returns
    -------
    float or (n,) array
        Share [-].

    Raises
    ------
    ValueError
        If a time is negative or not finite, or `interval` or `mtti` is not positive.

    References
    ----------
    A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025,
    arXiv:2410.21680v2 (the first version has no w and charges queueing per interruption).
    """
    dt, w, rate, u0, _, _ = _model(interval, write, mtti, restart, 0.0, 0.0)
    return plain((1.0 - rate * (u0 + dt / 2.0)) / (1.0 + w / dt))


@overload
def expected_wallclock(work: float, interval: float, write: float, restart: float, mtti: float) -> float: ...
@overload
def expected_wallclock(
    work: npt.ArrayLike, interval: npt.ArrayLike, write: npt.ArrayLike, restart: npt.ArrayLike, mtti: npt.ArrayLike
) -> FloatArray: ...
def expected_wallclock(
    work: npt.ArrayLike, interval: npt.ArrayLike, write: npt.ArrayLike, restart: npt.ArrayLike, mtti: npt.ArrayLike
) -> float | FloatArray:
    r"""Return the expected time to finish a fixed amount of work [s].

    ``Tw = M exp(R / M) (exp((tau + delta) / M) - 1) Ts / tau``, for work long against tau; every segment is taken to
    end in a save, and the last one is not rounded up.

    Parameters
    ----------
    work : float or (n,) array
        Computing time without failures and saves, Ts [s].
    interval : float or (n,) array
        Computing time between saves, tau [s].
    write : float or (n,) array
        Blocking time of one save, delta [s].
    restart : float or (n,) array
        Restart that failures interrupt, R [s].
    mtti : float or (n,) array
        Mean time to interrupt of the job, M [s]; may be infinite.

    Returns
    -------
    float or (n,) array
        Wall clock, Tw [s]; infinite where it passes the largest float.

    Raises
    ------
    ValueError
        If a time is negative or not finite, or `interval` or `mtti` is not positive.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006).
    """
    tau, delta, rate, r, _, _ = _model(interval, write, mtti, restart, 0.0, 0.0)
    y = rate * (tau + delta)
    with np.errstate(over="ignore"):
        growth = np.exp(rate * r + y) * _mean_survival(y)
        return plain(non_negative("work", work) * (tau + delta) / tau * growth)


def _model(
    interval: npt.ArrayLike,
    write: npt.ArrayLike,
    mtti: npt.ArrayLike,
    restart: npt.ArrayLike,
    downtime: npt.ArrayLike,
    drain: npt.ArrayLike,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return tau, b, lambda, u, d, w, checked and of one shape."""
    tau, b, rate, u, d, w = np.broadcast_arrays(
        positive("interval", interval),
        non_negative("write", write),
        1.0 / positive("mtti", mtti, infinite=True),
        non_negative("restart", restart),
        non_negative("downtime", downtime),
        non_negative("drain", drain),
    )
    if np.any(w > tau):
        message = f"drain must not exceed interval (one save would overtake the next), got {drain!r} and {interval!r}"
        raise ValueError(message)
    return tau, b, rate, u, d, w


def _mean_survival(x: FloatArray) -> FloatArray:
    """Return ``(1 - exp(-x)) / x``, the mean of ``exp(-t)`` over [0, x]; 1 at zero."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)
