"""The laws with a name and a few parameters of their own; the families that they share are in `sim.law_model`."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import core_schema

from sim import units
from sim.fields import Duration, quantity_schema
from sim.law_hazard import hazard_of, hazard_of_one
from sim.law_model import GammaPower, LawModel, Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = [
    "Empirical",
    "Exponential",
    "Fixed",
    "Gamma",
    "Lognormal",
    "PositiveDuration",
    "TextIsFixed",
    "Uniform",
    "Weibull",
]

_NORMAL = NormalDist()


def _require_one(**parameters: float | None) -> None:
    """Refuse both or none of two parameters that say the same thing."""
    given = [name for name, value in parameters.items() if value is not None]
    if len(given) != 1:
        message = f"give exactly one of {' and '.join(parameters)} (given: {', '.join(given) or 'none'})"
        raise ValueError(message)


def _given(value: float | None) -> float:
    """Return a parameter that validation has found to be given."""
    assert value is not None
    return value


def _sorted_sample(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return a sample in ascending order, if it has a positive sum."""
    if not any(values):
        message = "give at least one value above zero"
        raise ValueError(message)
    return tuple(sorted(values))


PositiveDuration = Annotated[Duration, Field(gt=0)]
# Below this shape a good part of all lives is shorter than a float can hold: they would come out as 0.
Shape = Annotated[float, Field(ge=0.05)]
Sample = Annotated[tuple[Duration, ...], AfterValidator(_sorted_sample)]


class Exponential(GammaPower):
    """Constant hazard: f(x) = exp(-x / mean) / mean."""

    law: Literal["exponential"] = "exponential"
    mean: PositiveDuration = Field(description="Mean.")
    _times = ("mean",)
    # A constant rate of failures may be as small as one likes: then nothing fails.
    _longest_mean = math.inf

    def _form(self) -> tuple[float, float, float]:
        return self.mean, 1.0, 1.0

    @property
    def mean_value(self) -> float:
        """The parameter [s]."""
        return self.mean


class Weibull(GammaPower):
    """Hazard as a power of the age: P(X > x) = exp(-(x / scale)^shape)."""

    law: Literal["weibull"] = "weibull"
    shape: Shape = Field(description="Shape [-]: below 1 infant mortality, above 1 wear-out.")
    mean: PositiveDuration | None = Field(None, description="Mean; or give the scale.")
    scale: PositiveDuration | None = Field(None, description="Scale: 63 % of all lives are shorter.")
    _times = ("mean", "scale")

    def _check(self) -> None:
        _require_one(mean=self.mean, scale=self.scale)

    def _form(self) -> tuple[float, float, float]:
        scale = _given(self.mean) / math.gamma(1 + 1 / self.shape) if self.scale is None else self.scale
        return scale, 1.0, self.shape

    @property
    def mean_value(self) -> float:
        """Scale x Gamma(1 + 1 / shape) [s]."""
        return _given(self.scale) * math.gamma(1 + 1 / self.shape) if self.mean is None else self.mean


class Gamma(GammaPower):
    """A sum of exponential stages where the shape is whole: f(x) ~ x^(shape - 1) exp(-x shape / mean)."""

    law: Literal["gamma"] = "gamma"
    shape: Shape = Field(description="Shape [-]: 1 / squared coefficient of variation.")
    mean: PositiveDuration = Field(description="Mean.")
    _times = ("mean",)

    def _form(self) -> tuple[float, float, float]:
        return self.mean / self.shape, self.shape, 1.0

    @property
    def mean_value(self) -> float:
        """The parameter [s]."""
        return self.mean


class Lognormal(LawModel):
    """ln X is normal with mean mu and standard deviation sigma; median exp(mu), mean exp(mu + sigma^2 / 2)."""

    law: Literal["lognormal"] = "lognormal"
    median: PositiveDuration | None = Field(None, description="Median; or give the mean.")
    mean: PositiveDuration | None = Field(None, description="Mean.")
    sigma: float = Field(gt=0, le=10, description="Standard deviation of ln X [-].")
    _times = ("median", "mean")

    def _check(self) -> None:
        _require_one(median=self.median, mean=self.mean)

    @functools.cached_property
    def mu(self) -> float:
        """E[ln X], with X in seconds."""
        return math.log(_given(self.median)) if self.mean is None else math.log(self.mean) - self.sigma**2 / 2

    @property
    def mean_value(self) -> float:
        """Median x exp(sigma^2 / 2) [s]."""
        return _given(self.median) * math.exp(self.sigma**2 / 2) if self.mean is None else self.mean

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Phi((ln x - mu) / sigma)."""
        from scipy.special import ndtr

        with np.errstate(divide="ignore"):  # ln 0 = -inf gives probability 0, as it should
            return np.asarray(ndtr((np.log(np.maximum(x, 0.0)) - self.mu) / self.sigma), dtype=np.float64)

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln Phi((mu - ln x) / sigma); mu is larger by sigma^2 in the length-biased law."""
        from scipy.special import log_ndtr

        mu = self.mu + self.sigma**2 if length_biased else self.mu
        with np.errstate(divide="ignore"):  # ln 0 = -inf gives hazard 0, as it should
            return -np.asarray(log_ndtr((mu - np.log(np.maximum(x, 0.0))) / self.sigma), dtype=np.float64)

    def cumulative_hazard_one(self, x: float) -> float:
        """Return -ln Phi((mu - ln x) / sigma)."""
        from scipy.special import log_ndtr

        return -float(log_ndtr((self.mu - math.log(x)) / self.sigma)) if x > 0 else 0.0

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exp(mu + sigma Phi^-1(u))."""
        from scipy.special import ndtri

        return np.exp(self.mu + self.sigma * np.asarray(ndtri(u), dtype=np.float64))

    def ppf_one(self, u: float) -> float:
        """Return exp(mu + sigma Phi^-1(u))."""
        return math.exp(self.mu + self.sigma * _NORMAL.inv_cdf(u))

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exp(sigma^2) times `ppf`: the lognormal law of mu + sigma^2 and the same sigma."""
        return self.ppf(u) * math.exp(self.sigma**2)


class Uniform(LawModel):
    """Every time between two limits is equally likely."""

    law: Literal["uniform"] = "uniform"
    low: Duration = Field(description="Shortest time; may be 0.")
    high: PositiveDuration = Field(description="Longest time.")
    _times = ("low", "high")

    def _check(self) -> None:
        if self.low >= self.high:
            message = "low must be less than high"
            raise ValueError(message)

    @property
    def mean_value(self) -> float:
        """(low + high) / 2 [s]."""
        return (self.low + self.high) / 2

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (x - low) / (high - low) between the limits."""
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The limits."""
        return self.low, self.high

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln of (high - x) / (high - low), or of the same of the squares, between the limits."""
        time = np.clip(x, self.low, self.high)
        below = (time - self.low) / (self.high - self.low)
        above = (self.high - time) / (self.high - self.low)
        if length_biased:  # a difference of squares is the difference times the sum
            below *= (time + self.low) / (self.high + self.low)
            above *= (self.high + time) / (self.high + self.low)
        return hazard_of(below, above)

    def cumulative_hazard_one(self, x: float) -> float:
        """Return -ln of (high - x) / (high - low) between the limits."""
        time = min(max(x, self.low), self.high)
        return hazard_of_one((time - self.low) / (self.high - self.low), (self.high - time) / (self.high - self.low))

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return low + u (high - low)."""
        return self.low + u * (self.high - self.low)

    def ppf_one(self, u: float) -> float:
        """Return low + u (high - low)."""
        return self.low + u * (self.high - self.low)

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sqrt(low^2 + u (high^2 - low^2)): the density grows in proportion to x."""
        return np.sqrt(self.low**2 + u * (self.high**2 - self.low**2))


class Empirical(Steps):
    """A sample taken as it is: each value with the same probability."""

    law: Literal["empirical"] = "empirical"
    values: Sample = Field(description="The sample, in any order.")
    _times = ("values",)

    def _sample(self) -> tuple[float, ...]:
        return self.values


class Fixed(Steps):
    """Always the same time; plain text such as ``30 min`` means this law."""

    law: Literal["fixed"] = "fixed"
    value: Duration = Field(description="The time; may be 0.")
    _times = ("value",)

    def _sample(self) -> tuple[float, ...]:
        return (self.value,)


class TextIsFixed:
    """Annotation of a union of laws: plain text is the value of a fixed law, in validation and in the JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def expand(value: Any) -> Any:
            # Bare numbers too, so that they are told that they need a unit.
            return {"law": "fixed", "value": value} if isinstance(value, str | int | float) else value

        return core_schema.no_info_before_validator_function(expand, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        text = {**quantity_schema(units.DURATION), "description": "a fixed time"}
        return {"anyOf": [text, handler(schema)]}
