"""Laws of lifetimes and durations that a user may describe.

A law is a distribution of a time X >= 0. Everything is an inverse CDF of a uniform number, so that one keyed number
gives one life and a changed parameter moves that life smoothly instead of drawing another.

A unit that has been renewed for a long time is met at a random moment inside a *length-biased* life L, with density
x f(x) / E[X]. The time since the last renewal and the time to the next are (1 - V) L and V L with V uniform and
independent of L: that is the stationary start of a renewal process.

References
----------
D. R. Cox, *Renewal Theory*, Methuen, 1962 (equilibrium renewal processes and length-biased sampling).
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Discriminator, Field, model_validator
from pydantic_core import core_schema

from sim import units
from sim.fields import Duration, quantity_schema
from sim.law_model import GammaPower, LawModel, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = [
    "Empirical",
    "Exponential",
    "Fixed",
    "Gamma",
    "Law",
    "LawModel",
    "Lognormal",
    "Uniform",
    "Weibull",
    "age_and_residual",
    "draw",
    "residual",
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

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        _require_one(mean=self.mean, scale=self.scale)
        return self

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

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        _require_one(median=self.median, mean=self.mean)
        return self

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

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.low >= self.high:
            message = "low must be less than high"
            raise ValueError(message)
        return self

    @property
    def mean_value(self) -> float:
        """(low + high) / 2 [s]."""
        return (self.low + self.high) / 2

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (x - low) / (high - low) between the limits."""
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

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


class _TextIsFixed:
    """Annotation of `Law`: plain text is the value of a fixed law, in validation and in the JSON Schema."""

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


Law = Annotated[
    Exponential | Weibull | Gamma | Lognormal | Uniform | Empirical | Fixed, Discriminator("law"), _TextIsFixed()
]


def draw(law: LawModel, mark: Callable[[str], float], purpose: str) -> float:
    """Return the time [s] that a law gives to one purpose of a failure, by the failure's mark of that name."""
    if isinstance(law, Fixed):  # the common case needs no random number
        return law.value
    return law.ppf_one(mark(purpose))


def age_and_residual(
    law: LawModel, u: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ages and the residual lives of units met at a random moment of a stationary renewal process.

    With L the length-biased life, ``age = (1 - v) L`` and ``residual = v L``. Both have the density
    P(X > x) / E[X] and the mean E[X^2] / (2 E[X]).

    Parameters
    ----------
    law
        Law of a whole life.
    u, v
        Independent uniform numbers in (0, 1) [-], shape (n,): for the life and for the place in it.

    Returns
    -------
    tuple[NDArray[np.float64], NDArray[np.float64]]
        Ages and residual lives [s], shape (n,) each.

    References
    ----------
    D. R. Cox, *Renewal Theory*, Methuen, 1962 (the equilibrium renewal process).
    """
    life = law.length_biased_ppf(u)
    return (1 - v) * life, v * life


def residual(law: LawModel, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residual lives of `age_and_residual` [s], shape (n,)."""
    return age_and_residual(law, u, v)[1]
