"""What is known of an input that is not known exactly: distributions, by their quantile functions."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field, model_validator

from analysis.study.amounts import amounts_of
from sim.fields import Model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from analysis.study.amounts import Amounts

__all__ = ["DISTRIBUTIONS", "AnyDistribution", "Distribution"]

_P95 = 1.6448536269514722
"""Standard normal quantile of 95 %."""


class Distribution(Model):
    """A distribution of one input; ``law`` picks the entry of the registry."""

    law: str

    @property
    def amounts(self) -> Amounts:
        """The parameters that are amounts of the input, in the order in which `ppf` uses them."""
        return amounts_of([getattr(self, name) for name in self.located])

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        raise NotImplementedError

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability above 0 and below 1, in SI units where the input has units."""
        raise NotImplementedError

    def write(self, number: float) -> Any:
        """Return a number as a scenario would say it."""
        return self.amounts.write(number)

    @model_validator(mode="after")
    def _amounts_are_alike(self) -> Self:
        self._check(self.amounts.numbers)
        return self

    def _check(self, numbers: tuple[float, ...]) -> None:
        """Refuse amounts that do not rise, or are not above zero where a logarithm is taken."""
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            message = f"{', '.join(self.located)} must rise"
            raise ValueError(message)


class Uniform(Distribution):
    """Anything between two values, all equally likely."""

    law: Literal["uniform"] = "uniform"
    min: Any = Field(description="Smallest value.")
    max: Any = Field(description="Largest value.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("min", "max")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = self.amounts.numbers
        return low + u * (high - low)


class LogUniform(Distribution):
    """Anything between two values, all orders of magnitude equally likely."""

    law: Literal["loguniform"] = "loguniform"
    min: Any = Field(description="Smallest value, above zero.")
    max: Any = Field(description="Largest value.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("min", "max")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = self.amounts.numbers
        return float(low * (high / low) ** u)

    def _check(self, numbers: tuple[float, ...]) -> None:
        super()._check(numbers)
        _above_zero(numbers[0], "min")


class Triangular(Distribution):
    """A value that is thought most likely, and two that it will not pass."""

    law: Literal["triangular"] = "triangular"
    min: Any = Field(description="Smallest value.")
    mode: Any = Field(description="The most likely value.")
    max: Any = Field(description="Largest value.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("min", "mode", "max")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, mode, high = self.amounts.numbers
        if u * (high - low) < mode - low:
            return low + math.sqrt(u * (high - low) * (mode - low))
        return high - math.sqrt((1 - u) * (high - low) * (high - mode))


class Lognormal(Distribution):
    """A median, and the standard deviation of the logarithm."""

    law: Literal["lognormal"] = "lognormal"
    median: Any = Field(description="Half of all values are below it.")
    sigma: float = Field(gt=0, description="Standard deviation of the natural logarithm.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("median",)

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        return self.amounts.numbers[0] * math.exp(self.sigma * _normal(u))

    def _check(self, numbers: tuple[float, ...]) -> None:
        _above_zero(numbers[0], "median")


class Between(Distribution):
    """Two values of which the input is below the first, or above the second, once in twenty times each: log-normal."""

    law: Literal["between"] = "between"
    p05: Any = Field(description="Below it with a probability of 5 %.")
    p95: Any = Field(description="Above it with a probability of 5 %.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("p05", "p95")

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        low, high = map(math.log, self.amounts.numbers)
        return math.exp((low + high) / 2 + (high - low) / 2 * _normal(u) / _P95)

    def _check(self, numbers: tuple[float, ...]) -> None:
        super()._check(numbers)
        _above_zero(numbers[0], "p05")


class Counted(Distribution):
    """A factor of a rate that rests on counted events: gamma, with the shape n + 1/2 and the scale 1 / n.

    References
    ----------
    H. Jeffreys, "Theory of Probability", 3rd ed. (1961): the prior of a Poisson rate.
    """

    law: Literal["counted"] = "counted"
    events: int = Field(ge=1, description="Events on which the rate rests.")
    factor: float = Field(1.0, gt=0, description="Factor that the rate as it was counted has.")

    @property
    def located(self) -> tuple[str, ...]:
        """Names of the parameters that are amounts of the input."""
        return ("factor",)

    def ppf(self, u: float) -> float:
        """Return the quantile of a probability."""
        from scipy.special import gammaincinv

        return self.factor * float(gammaincinv(self.events + 0.5, u)) / self.events


DISTRIBUTIONS: Mapping[str, type[Distribution]] = {
    "uniform": Uniform,
    "loguniform": LogUniform,
    "triangular": Triangular,
    "lognormal": Lognormal,
    "between": Between,
    "counted": Counted,
}
if TYPE_CHECKING:
    AnyDistribution = Distribution
else:
    AnyDistribution = Annotated[Union[tuple(DISTRIBUTIONS.values())], Field(discriminator="law")]  # noqa: UP007


def _normal(u: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(u))


def _above_zero(number: float, name: str) -> None:
    if number <= 0:
        message = f"{name} must be above zero: its logarithm is taken"
        raise ValueError(message)
