"""The common part of the formulas: checked arguments, laws of a count, and numbers that know their expansion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

# Checked arguments: scalars in, float out; arrays in, array out.

FloatArray: TypeAlias = "npt.NDArray[np.float64]"

Values = TypeVar("Values", float, "FloatArray")

"""Arguments and results: all of them numbers, or arrays that broadcast."""


def positive(name: str, values: npt.ArrayLike, *, infinite: bool = False) -> FloatArray:
    """Return `values` as floats, all > 0 (and finite, unless `infinite`).

    Raises
    ------
    ValueError
        If a value is not positive, or not finite where it must be.
    """
    array = np.asarray(values, dtype=np.float64)
    if not (array > 0).all():  # written so that NaN fails too
        raise ValueError(f"{name} must be positive, got {values!r}")
    if not infinite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {values!r}")
    return array


def non_negative(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as finite floats, all >= 0.

    Raises
    ------
    ValueError
        If a value is negative or not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if not ((array >= 0) & np.isfinite(array)).all():
        raise ValueError(f"{name} must be finite and not negative, got {values!r}")
    return array


def whole(name: str, values: npt.ArrayLike, least: int) -> FloatArray:
    """Return `values` as floats, all of them whole numbers from `least`; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array) & (array >= least) & (array == np.floor(array))).all():
        raise ValueError(f"{name} must be a whole number from {least}, got {values!r}")
    return array


def share(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as floats, all in [0, 1]; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise ValueError(f"{name} must be in [0, 1], got {values!r}")
    return array


def inside(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as floats, all above 0 and below 1; else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if not ((array > 0.0) & (array < 1.0)).all():
        raise ValueError(f"{name} must be above 0 and below 1, got {values!r}")
    return array


def plain(result: npt.ArrayLike) -> Any:
    """Return a 0-dimensional result as a Python float, any other as the array it is."""
    array = np.asarray(result, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


# The law of a count: the probabilities of 0, 1, 2, ...; how to build one from its ratios, and how to read it.

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
        raise ValueError(f"law is cut off at {reached[-1]:.6g}, below the probability {probability!r}")
    return min(int(np.searchsorted(reached, p)), reached.size - 1)


def _law(law: npt.ArrayLike) -> FloatArray:
    array = non_negative("law", law)
    if array.ndim != 1 or not 0.0 < array.sum() <= 1.0 + _ROUNDING:
        raise ValueError("law must be one row of probabilities that sum to at most 1")
    return array


# Numbers that know how they change with the rate of failures, to the second order.


@dataclass(frozen=True, slots=True)
class Expansion:
    r"""A quantity f of the scale of all failure rates, about none at all.

    .. math:: f(\epsilon) = f_0 + f_1 \epsilon + f_2 \epsilon^2 + O(\epsilon^3)

    Sums, products and quotients of these are those of power series without what is beyond the second order, so that a
    formula which is written for numbers gives its own first- and second-order terms (A. Griewank, A. Walther,
    "Evaluating Derivatives", 2nd edition, SIAM, 2008, chapter 13).

    Parameters
    ----------
    zeroth, first, second
        The coefficients, each in the unit of the quantity.
    """

    zeroth: float
    first: float = 0.0
    second: float = 0.0

    def up_to(self, order: int) -> float:
        """Return the value at the scale one without the terms beyond an order of 0, 1 or 2."""
        return sum((self.zeroth, self.first, self.second)[: order + 1])

    def __add__(self, operand: Number) -> Expansion:
        """Return the sum."""
        more = _expanded(operand)
        return Expansion(self.zeroth + more.zeroth, self.first + more.first, self.second + more.second)

    def __neg__(self) -> Expansion:
        """Return the negative."""
        return Expansion(-self.zeroth, -self.first, -self.second)

    def __sub__(self, operand: Number) -> Expansion:
        """Return the difference."""
        return self + -_expanded(operand)

    def __rsub__(self, operand: float) -> Expansion:
        """Return the difference from a number."""
        return -self + operand

    def __mul__(self, operand: Number) -> Expansion:
        """Return the product."""
        by = _expanded(operand)
        return Expansion(
            self.zeroth * by.zeroth,
            self.zeroth * by.first + self.first * by.zeroth,
            self.zeroth * by.second + self.first * by.first + self.second * by.zeroth,
        )

    def __truediv__(self, operand: Number) -> Expansion:
        """Return the quotient; what divides is not zero without failures."""
        by = _expanded(operand)
        zeroth = self.zeroth / by.zeroth
        first = (self.first - zeroth * by.first) / by.zeroth
        return Expansion(zeroth, first, (self.second - zeroth * by.second - first * by.first) / by.zeroth)

    def __rtruediv__(self, operand: float) -> Expansion:
        """Return a number divided by it."""
        return Expansion(operand) / self

    __radd__ = __add__
    __rmul__ = __mul__


Number: TypeAlias = Union[float, Expansion]  # noqa: UP007  (the class is not there when | would need it)

"""The argument of a formula: a number, or one that knows its expansion."""


def real(value: Number) -> float:
    """Return a number that is no expansion; that it is none is for the caller to know."""
    assert not isinstance(value, Expansion), "an expansion where a number was expected"
    return value


def decay(hazard: Number) -> Number:
    """Return ``exp(-x)`` [-]; of an expansion that is zero without failures."""
    if isinstance(hazard, Expansion):
        return 1.0 - hazard + hazard * hazard * 0.5
    return math.exp(-hazard)


def mean_decay(hazard: Number) -> Number:
    """Return ``(1 - exp(-x)) / x``, the mean of ``exp(-t)`` over [0, x] [-]; 1 at zero."""
    if isinstance(hazard, Expansion):
        return 1.0 - hazard * 0.5 + hazard * hazard * (1 / 6)
    return -math.expm1(-hazard) / hazard if hazard > 0 else 1.0


def _expanded(value: Number) -> Expansion:
    """Return a number as an expansion."""
    return value if isinstance(value, Expansion) else Expansion(value)
