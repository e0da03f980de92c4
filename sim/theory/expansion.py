"""Numbers that know how they change with the rate of failures, to the second order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, Union

__all__ = ["Expansion", "Number", "decay", "mean_decay", "real"]


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

    def __add__(self, other: Number) -> Expansion:
        """Return the sum."""
        more = _expanded(other)
        return Expansion(self.zeroth + more.zeroth, self.first + more.first, self.second + more.second)

    def __neg__(self) -> Expansion:
        """Return the negative."""
        return Expansion(-self.zeroth, -self.first, -self.second)

    def __sub__(self, other: Number) -> Expansion:
        """Return the difference."""
        return self + -_expanded(other)

    def __rsub__(self, other: float) -> Expansion:
        """Return the difference from a number."""
        return -self + other

    def __mul__(self, other: Number) -> Expansion:
        """Return the product."""
        by = _expanded(other)
        return Expansion(
            self.zeroth * by.zeroth,
            self.zeroth * by.first + self.first * by.zeroth,
            self.zeroth * by.second + self.first * by.first + self.second * by.zeroth,
        )

    def __truediv__(self, other: Number) -> Expansion:
        """Return the quotient; what divides is not zero without failures."""
        by = _expanded(other)
        zeroth = self.zeroth / by.zeroth
        first = (self.first - zeroth * by.first) / by.zeroth
        return Expansion(zeroth, first, (self.second - zeroth * by.second - first * by.first) / by.zeroth)

    def __rtruediv__(self, other: float) -> Expansion:
        """Return a number divided by it."""
        return Expansion(other) / self

    __radd__ = __add__
    __rmul__ = __mul__


Number: TypeAlias = Union[float, Expansion]  # noqa: UP007  (the class is not there when | would need it)
"""What a formula may be fed with: a number, or one that knows its expansion."""


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
