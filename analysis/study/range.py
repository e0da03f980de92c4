"""Ranges: numbers from one to another, by steps or by their number."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from analysis.study.amounts import Amounts, amounts_of, rounded
from analysis.study.value import label_of
from sim.fields import Model, RuleError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Range"]

_MOST = 10_000
"""Values of one range."""
_SAME = 1e-9
"""Share of a step by which a value of a range may miss the end that it is meant to be."""


class Range(Model):
    """Numbers from one to another: a step, or a number of points."""

    min: Any = Field(description="Smallest value, with its unit.")
    max: Any = Field(description="Largest value; it is one of the values, even if the last step is shorter.")
    step: Any = Field("", description="Distance of the values; a factor if the scale is log.")
    points: int = Field(0, ge=0, le=_MOST, description="Number of values, in place of a step.")
    scale: Literal["linear", "log"] = Field("linear", description="Whether steps are added or multiplied.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        low, high = self.ends
        if high <= low:
            raise RuleError(("max",), f"must be above min, and {label_of(self.max)} is not above {label_of(self.min)}")
        if self.scale == "log" and low <= 0:
            raise RuleError(("min",), "a log scale begins above zero")
        if self.step != "" and self.points:
            raise RuleError(("points",), "give a step or a number of points, not both")
        if self.points == 1:
            raise RuleError(("points",), "one point is no range: give the value as choices: [...]")
        if self.step != "":
            self._check_step(low, high)
        if self.whole and self.points > high - low + 1:
            rule = f"there are {high - low + 1:.0f} whole numbers from {low:.0f} to {high:.0f}"
            raise RuleError(("points",), f"{rule}; write min: {low!r} for numbers between them")
        return self

    def _check_step(self, low: float, high: float) -> None:
        if self.scale == "log" and (not isinstance(self.step, int | float) or not 1 < self.step < math.inf):
            raise RuleError(("step",), "must be a factor above one on a log scale, for example 2")
        step = self._step
        if not step > 0:
            raise RuleError(("step",), "must be above zero")
        steps = math.log(high / low) / math.log(step) if self.scale == "log" else (high - low) / step
        if steps > _MOST:
            raise RuleError(("step",), f"makes more than {_MOST:,} values")
        if self.whole and self.scale == "linear" and step != round(step):
            rule = f"must be a whole number, as min and max are; write min: {low!r} for numbers between them"
            raise RuleError(("step",), rule)

    @functools.cached_property
    def amounts(self) -> Amounts:
        """Both ends."""
        return amounts_of(self.described)

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.amounts.whole

    @property
    def described(self) -> tuple[Any, ...]:
        """Both ends, as they were written."""
        return self.min, self.max

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, in SI units."""
        return self.ends

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, in SI units."""
        low, high = self.amounts.numbers
        return low, high

    @functools.cached_property
    def _step(self) -> float:
        """The step in SI units, or the factor."""
        if self.scale == "log":
            return float(self.step)
        try:
            return amounts_of((self.min, self.max, self.step)).numbers[2]
        except ValueError as error:
            raise RuleError(("step",), str(error)) from None

    def at(self, u: float) -> float:
        """Return the number at a share of the way from one end to the other, on its scale, to `DIGITS` digits.

        Linear: min (1 - u) + max u; log: min^(1 - u) max^u.
        """
        low, high = self.ends
        return rounded(low ** (1 - u) * high**u if self.scale == "log" else low * (1 - u) + high * u)

    def numbers(self) -> list[float]:
        """Return the values of a grid; the ends are among them.

        Raises
        ------
        ValueError
            If neither a step nor a number of points was given.
        """
        low, high = self.ends
        if self.points:
            found = [low, *(self.at(index / (self.points - 1)) for index in range(1, self.points - 1)), high]
        elif self.step != "":
            found = [*self._walk(low, high), high]
        else:
            message = "needs a step or a number of points"
            raise ValueError(message)
        return sorted({float(round(number)) for number in found}) if self.whole else found

    def _walk(self, low: float, high: float) -> list[float]:
        """Return the values that steps lead to, without the last one."""
        step = self._step
        if self.scale == "log":
            walk = (rounded(low * step**index) for index in itertools.count())
            end = high / step**_SAME
        else:
            walk = (rounded(low + step * index) for index in itertools.count())
            end = high - step * _SAME
        return list(itertools.takewhile(lambda number: number < end, walk))
