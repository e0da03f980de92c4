"""Laws of a count as arrays: the probabilities of 0, 1, 2, ...; how to build one from its ratios and how to read it.

Also the checks and results that counts need beyond `sim.theory.broadcast`: whole numbers, shares, levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "enough_probability",
    "exceedance",
    "expected_shortfall",
    "from_ratios",
    "inside",
    "quantile",
    "share",
    "whole",
]

# A law that sums to more than this above 1 is no law.
_ROUNDING = 1e-9


def from_ratios(ratios: FloatArray) -> FloatArray:
    """Return the law whose successive ratios are given, summing to 1.

    The logarithms are added up from the most probable count outwards, so that rounding grows with the distance from
    it only, and nothing overflows however many states there are.

    Parameters
    ----------
    ratios : (n,) array
        ``p[k+1] / p[k]`` for k = 0, ..., n - 1 [-]; a birth-death chain's are births in k over deaths in k + 1.

    Returns
    -------
    (n + 1,) array
        Probabilities [-].
    """
    with np.errstate(divide="ignore"):  # a state that cannot be reached has the logarithm -inf
        steps = np.log(ratios)
    peak = int(np.argmax(np.concatenate(([0.0], np.cumsum(steps)))))
    below, above = -np.cumsum(steps[:peak][::-1])[::-1], np.cumsum(steps[peak:])
    weights = np.exp(np.concatenate((below, [0.0], above)))
    law: FloatArray = weights / weights.sum()
    return law


def enough_probability(law: npt.ArrayLike, spares: int) -> float:
    """Return the probability that at most `spares` nodes are down: that the required ones are up [-].

    Parameters
    ----------
    law : (n,) array
        Probabilities of 0, ..., n - 1 nodes down [-].
    spares : int
        Nodes beyond those required; for "at least m of N up", ``N - m``.

    Returns
    -------
    float
        Probability [-].

    Raises
    ------
    ValueError
        If `law` is no array of probabilities or `spares` is no whole number from 0.
    """
    return min(float(_law(law)[: int(whole("spares", spares, 0)) + 1].sum()), 1.0)


def exceedance(law: npt.ArrayLike) -> FloatArray:
    """Return ``P(X > k)`` for every k of a law: its exceedance curve.

    Added up from the far end, so that small values keep their digits. A law that was cut off must be cut where the
    rest does not matter.

    Parameters
    ----------
    law : (n,) array
        Probabilities of 0, ..., n - 1 [-].

    Returns
    -------
    (n,) array
        Probabilities [-], the last one 0.

    Raises
    ------
    ValueError
        If `law` is no array of probabilities.
    """
    return np.append(np.cumsum(_law(law)[:0:-1])[::-1], 0.0)


def expected_shortfall(law: npt.ArrayLike, spares: int) -> float:
    """Return the mean number of nodes that are missing beyond the spares, ``E max(X - spares, 0)`` [nodes].

    Parameters
    ----------
    law : (n,) array
        Probabilities of 0, ..., n - 1 nodes down [-], not cut off.
    spares : int
        Nodes beyond those required.

    Returns
    -------
    float
        Nodes.

    Raises
    ------
    ValueError
        If `law` is no array of probabilities or `spares` is no whole number from 0.
    """
    return float(exceedance(law)[int(whole("spares", spares, 0)) :].sum())


def quantile(law: npt.ArrayLike, probability: float) -> int:
    """Return the smallest m with ``P(X <= m) >= probability``.

    Parameters
    ----------
    law : (n,) array
        Probabilities of 0, ..., n - 1 [-].
    probability : float
        Probability that m is to be enough [-], between 0 and 1.

    Returns
    -------
    int
        The count m.

    Raises
    ------
    ValueError
        If `law` is no array of probabilities, is cut off below the quantile, or `probability` is not between 0 and 1.
    """
    reached, p = np.cumsum(_law(law)), float(inside("probability", probability))
    if p > reached[-1] + _ROUNDING:
        message = f"law is cut off at {reached[-1]:.6g}, below the probability {probability!r}"
        raise ValueError(message)
    return min(int(np.searchsorted(reached, p)), reached.size - 1)


def whole(name: str, values: npt.ArrayLike, least: int) -> FloatArray:
    """Return `values` as floats, all of them whole numbers from `least`; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array) & (array >= least) & (array == np.floor(array))):
        message = f"{name} must be a whole number from {least}, got {values!r}"
        raise ValueError(message)
    return array


def share(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as floats, all in [0, 1]; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        message = f"{name} must be in [0, 1], got {values!r}"
        raise ValueError(message)
    return array


def inside(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as floats, all above 0 and below 1; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array > 0.0) & (array < 1.0)):
        message = f"{name} must be above 0 and below 1, got {values!r}"
        raise ValueError(message)
    return array


def _law(law: npt.ArrayLike) -> FloatArray:
    array = non_negative("law", law)
    if array.ndim != 1 or not 0.0 < array.sum() <= 1.0 + _ROUNDING:
        message = "law must be one row of probabilities that sum to at most 1"
        raise ValueError(message)
    return array
