"""Distributions of inputs that are not known exactly, by their quantile functions."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import Field, model_validator

from ettrick.analysis.study.amounts import Amounts, amounts_of, rounded
from ettrick.sim.scenario.fields import Model, OneOf, RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.scenario.fields import BrokenRules

EDGE = 1e-9
"""The least probability of which quantiles are taken."""

_P95 = 1.6448536269514722
"""Standard normal quantile of 95 %."""


class Distribution(Model):
    """A distribution of one input; ``use`` picks the entry of the registry."""

    use: str
    located: ClassVar[tuple[str, ...]]
    """Names of the parameters that are amounts of the input, in the order in which `ppf` uses them."""

    @functools.cached_property
    def amounts(self) -> Amounts:
        """The parameters that are amounts of the input: numbers between them are written as they are."""
        return replace(amounts_of(self.described), whole=False)

    @property
    def described(self) -> tuple[Any, ...]:
        """The parameters that are amounts of the input, as they were written."""
        return tuple(getattr(self, name) for name in self.located)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, in SI units."""
        return self.amounts.numbers[0], self.amounts.numbers[-1]

    def at(self, u: float) -> float:
        """Return the quantile of a probability from 0 to 1, to `DIGITS` digits; at the ends that of a billionth."""
        return rounded(self.ppf(min(max(u, EDGE), 1 - EDGE)))

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability above 0 and below 1, in SI units where the input has units."""
        raise NotImplementedError

    def _broken_rules(self) -> BrokenRules:
        self._check(self.amounts.numbers)
        try:
            is_finite = all(math.isfinite(self.ppf(u)) for u in (EDGE, 1 - EDGE))
        except OverflowError:
            is_finite = False
        if not is_finite:
            yield (), "is too wide: its values are beyond all numbers"

    def _check(self, numbers: tuple[float, ...]) -> None:
        """Refuse amounts that do not rise, or are not above zero where a logarithm is taken."""
        for index, (earlier, later) in enumerate(itertools.pairwise(numbers), 1):
            if later <= earlier:
                raise RuleError((self.located[index],), f"must be above {self.located[index - 1]}")


class UniformInput(Distribution):
    """Anything between two values, all equally likely; between whole numbers only whole ones, both ends among them."""

    use: Literal["uniform"] = "uniform"
    located: ClassVar = ("min", "max")
    min: Any = Field(description="Smallest value; 4.0 and not 4 if numbers that are not whole are meant too.")
    max: Any = Field(description="Largest value.")

    @functools.cached_property
    def amounts(self) -> Amounts:
        """Both ends; whole numbers stay whole."""
        return amounts_of(self.described)

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = self.amounts.numbers
        if self.amounts.whole:
            return min(low + math.floor(u * (high - low + 1)), high)
        return low * (1 - u) + high * u


class LogUniform(Distribution):
    """Anything between two values, all orders of magnitude equally likely."""

    use: Literal["loguniform"] = "loguniform"
    located: ClassVar = ("min", "max")
    min: Any = Field(description="Smallest value, above zero.")
    max: Any = Field(description="Largest value.")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = self.amounts.numbers
        return float(low ** (1 - u) * high**u)

    def _check(self, numbers: tuple[float, ...]) -> None:
        _above_zero(numbers[0], "min")
        super()._check(numbers)


class Triangular(Distribution):
    """A value that is thought most likely, and two that it will not pass."""

    use: Literal["triangular"] = "triangular"
    located: ClassVar = ("min", "mode", "max")
    min: Any = Field(description="Smallest value.")
    mode: Any = Field(description="The most likely value.")
    max: Any = Field(description="Largest value.")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, mode, high = self.amounts.numbers
        if u * (high - low) < mode - low:
            return low + math.sqrt(u * (high - low) * (mode - low))
        return high - math.sqrt((1 - u) * (high - low) * (high - mode))


class LognormalInput(Distribution):
    """A median, and the standard deviation of the logarithm."""

    use: Literal["lognormal"] = "lognormal"
    located: ClassVar = ("median",)
    median: Any = Field(description="Half of all values are below it.")
    sigma: float = Field(gt=0, le=10, description="Standard deviation of the natural logarithm.")

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, in SI units."""
        return 0.0, math.inf

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        return self.amounts.numbers[0] * math.exp(self.sigma * _normal(u))

    def _check(self, numbers: tuple[float, ...]) -> None:
        _above_zero(numbers[0], "median")


class Between(Distribution):
    """Two values of which the input is below the first, or above the second, once in twenty times each: log-normal."""

    use: Literal["between"] = "between"
    located: ClassVar = ("p05", "p95")
    p05: Any = Field(description="Below it with a probability of 5 %.")
    p95: Any = Field(description="Above it with a probability of 5 %.")

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number, in SI units."""
        return 0.0, math.inf

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = map(math.log, self.amounts.numbers)
        return math.exp((low + high) / 2 + (high - low) / 2 * _normal(u) / _P95)

    def _check(self, numbers: tuple[float, ...]) -> None:
        _above_zero(numbers[0], "p05")
        super()._check(numbers)


class Counted(Distribution):
    """A factor of a rate that rests on counted events: gamma, with the shape n + 1/2 and the scale 1 / n.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961): the prior of a Poisson rate.
    """

    use: Literal["counted"] = "counted"
    located: ClassVar = ("factor",)
    events: int = Field(ge=1, description="Events on which the rate rests.")
    factor: float = Field(1.0, gt=0, description="Factor that the rate as it was counted has.")

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest number."""
        return 0.0, math.inf

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        from scipy.special import gammaincinv

        return self.factor * float(gammaincinv(self.events + 0.5, u)) / self.events


class Draws(Distribution):
    """Rows of values that belong together, as a fit leaves them: all paths of the axis take those of one row.

    The first row is the centre, all others are equally likely. Rows have no order, and no low or high end.
    """

    use: Literal["draws"] = "draws"
    located: ClassVar = ()
    file: str = Field("", description="CSV file with a column for each path of the scenario; relative to this file.")
    columns: dict[str, tuple[Any, ...]] = Field(
        {}, exclude=True, description="Instead of a file: for each path its values, the same number for all paths."
    )

    @functools.cached_property
    def amounts(self) -> Amounts:
        """The numbers of the first and the last row."""
        return Amounts((0.0, len(next(iter(self.columns.values()))) - 1.0), whole=True)

    def ppf(self, u: float) -> float:
        """Return the number of a row: 0 at one half, as it stands for the central value."""
        last = self.amounts.numbers[1]
        return 0.0 if u == 0.5 else min(1 + math.floor(u * last), last)

    @model_validator(mode="before")
    @classmethod
    def _has_rows(cls, data: Any) -> Any:
        columns = data.get("columns") if isinstance(data, dict) else None
        if not isinstance(columns, dict) or not columns:
            raise RuleError(("file",), "is missing: name a CSV file with a column for each path, such as draws.csv")
        counts = {len(values) if isinstance(values, list | tuple) else 0 for values in columns.values()}
        if len(counts) > 1 or counts.pop() < 3:
            raise RuleError(("columns",), "need the same number of values each, three or more")
        return data


DISTRIBUTIONS: Mapping[str, type[Distribution]] = {
    "uniform": UniformInput,
    "loguniform": LogUniform,
    "triangular": Triangular,
    "lognormal": LognormalInput,
    "between": Between,
    "counted": Counted,
    "draws": Draws,
}

if TYPE_CHECKING:
    AnyDistribution = Distribution
else:
    _KINDS = tuple(DISTRIBUTIONS.values())
    AnyDistribution = Annotated[Union[_KINDS], OneOf("use", "vary", _KINDS)]  # noqa: UP007


def _normal(u: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(u))


def _above_zero(number: float, name: str) -> None:
    if number <= 0:
        raise RuleError((name,), "must be above zero: its logarithm is taken")
