"""Best time between blocking checkpoints of a synchronous job under Poisson failures.

The *interval* tau [s] is useful computing between two saves; the save itself is not part of it (Daly's convention;
period = interval + write). The *write* delta [s] is the time for which a save blocks the job. M [s] is the mean time
to interrupt of the whole job; infinity means that nothing fails. Restart, downtime and the asynchronous part of a
save do not appear: under Poisson failures they scale every interval's progress alike and leave the optimum alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.formulas.arrays import FloatArray, non_negative, plain, positive

if TYPE_CHECKING:
    import numpy.typing as npt

# Below this delta/M the Lambert function loses digits to cancellation and its series at the branch point is exact.
_SERIES_BELOW = 1e-6


@overload
def young_interval(write: float, mtti: float) -> float: ...


@overload
def young_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> FloatArray: ...


def young_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> float | FloatArray:
    r"""Return the first-order optimum, ``tau = sqrt(2 delta M)``.

    Assumes ``delta << M``; near ``delta = M`` it is too long (it may exceed M, which no optimum does).

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s].

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    J. W. Young, "A first order approximation to the optimum checkpoint interval", Commun. ACM 17 (1974).
    """
    delta, m = _write_and_mtti(write, mtti)
    return plain(_never_if_no_failures(np.sqrt(2.0 * delta * _finite(m)), m))


@overload
def daly_interval(write: float, mtti: float) -> float: ...


@overload
def daly_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> FloatArray: ...


def daly_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> float | FloatArray:
    r"""Return Daly's higher-order optimum.

    ``tau = sqrt(2 delta M) [1 + (1/3) sqrt(delta / 2M) + (1/9) (delta / 2M)] - delta`` for ``delta < 2 M``, else
    ``tau = M``.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s].

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006).
    """
    delta, m = _write_and_mtti(write, mtti)
    ratio = delta / (2.0 * _finite(m))
    series = np.sqrt(2.0 * delta * _finite(m)) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - delta
    return plain(_never_if_no_failures(np.where(ratio < 1.0, series, m), m))


@overload
def optimal_interval(write: float, mtti: float) -> float: ...


@overload
def optimal_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> FloatArray: ...


def optimal_interval(write: npt.ArrayLike, mtti: npt.ArrayLike) -> float | FloatArray:
    r"""Return the exact optimum, ``tau = M [1 + W0(-exp(-1 - delta / M))]``, W0 the Lambert function.

    It minimises the expected time per unit of work, ``(exp((tau + delta) / M) - 1) / tau``, whose stationary point
    solves ``1 - tau / M = exp(-(tau + delta) / M)``. Assumes Poisson failures that may also strike during the save.

    Parameters
    ----------
    write : float or (n,) array
        Blocking time of one save, delta [s].
    mtti : float or (n,) array
        Mean time to interrupt, M [s].

    Returns
    -------
    float or (n,) array
        Computing time between saves, tau [s], always below M; 0 for a free save, infinite if nothing fails.

    Raises
    ------
    ValueError
        If `write` is negative or `mtti` is not positive.

    References
    ----------
    The cost is J. T. Daly's (2006, see `daly_interval`); the Lambert form follows from its stationary point by
    ``x = tau / M - 1``. Series at the branch point: R. M. Corless et al., "On the Lambert W function", Advances in
    Computational Mathematics 5 (1996).
    """
    from scipy.special import lambertw

    delta, m = _write_and_mtti(write, mtti)
    loss = delta / _finite(m)
    p = np.sqrt(-2.0 * np.expm1(-loss))
    series = p - p**2 / 3.0 + 11.0 / 72.0 * p**3 - 43.0 / 540.0 * p**4
    argument: FloatArray = -np.exp(-1.0 - loss)
    exact = 1.0 + np.real(lambertw(argument, 0))
    return plain(_never_if_no_failures(_finite(m) * np.where(loss < _SERIES_BELOW, series, exact), m))


def _write_and_mtti(write: npt.ArrayLike, mtti: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    return non_negative("write", write), positive("mtti", mtti, infinite=True)


def _finite(m: FloatArray) -> FloatArray:
    """Return `m` with a stand-in for infinity, so that ``0 * inf`` is never computed."""
    return np.where(np.isinf(m), 1.0, m)


def _never_if_no_failures(tau: FloatArray, m: FloatArray) -> FloatArray:
    return np.where(np.isinf(m), np.inf, tau)
