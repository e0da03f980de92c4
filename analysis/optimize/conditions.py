"""Conditions on the answer: a metric and the bound that it must keep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from analysis.answers.words import dimension_of
from sim import units

if TYPE_CHECKING:
    from analysis.optimize.estimate import Estimate

__all__ = ["Condition", "Verdict", "condition_of"]

Verdict = Literal["holds", "fails", "open"]
"""What the interval of a metric says of a condition: it leaves the bound on the right side, on the wrong one, or in."""

_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(>=|<=)\s*(\S.*?)\s*", re.DOTALL)


class Condition(NamedTuple):
    """What must hold of the answer.

    Parameters
    ----------
    text
        As it was written.
    metric
        The metric.
    at_least
        Whether the bound is the smallest value that is allowed, else the largest.
    bound
        The bound, in SI units where the metric has units.
    """

    text: str
    metric: str
    at_least: bool
    bound: float

    def is_met(self, mean: float | None) -> bool:
        """Return whether a mean keeps the bound; without a mean nothing is kept."""
        return mean is not None and (mean >= self.bound if self.at_least else mean <= self.bound)

    def violation(self, mean: float) -> float:
        """Return by how much a mean misses the bound, relative to it; not above zero where it is kept."""
        short = self.bound - mean if self.at_least else mean - self.bound
        return short / (abs(self.bound) or 1.0)

    def verdict(self, found: Estimate) -> Verdict:
        """Return what the interval of an estimate says."""
        if found.mean is None:
            return "fails"
        if found.ci95 is None:
            return "open"
        low, high = found.ci95 if self.at_least else (-found.ci95[1], -found.ci95[0])
        bound = self.bound if self.at_least else -self.bound
        return "holds" if low >= bound else "fails" if high < bound else "open"


def condition_of(text: str) -> Condition:
    """Return a condition that was written as ``metric >= bound`` or ``metric <= bound``.

    Raises
    ------
    ValueError
        If it was not, or the bound is no value of the metric.
    """
    parts = _FORM.fullmatch(text)
    if parts is None:
        message = f"'{text}' is no condition: write a metric, >= or <=, and a bound, for example p_finish_by >= 0.95"
        raise ValueError(message)
    metric, sign, bound = parts.groups()
    return Condition(text, metric, sign == ">=", _bound(metric, bound, dimension_of(metric)))


def _bound(metric: str, text: str, dimension: units.Dimension | None) -> float:
    if dimension is not None:
        return units.parse(text, dimension)
    try:
        return float(text.replace(",", ""))
    except ValueError:
        message = f"'{text}' is no number, and the bound of {metric} is one without a unit"
        raise ValueError(message) from None
