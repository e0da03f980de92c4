"""Laws of lifetimes and durations that a user may describe.

A law is a distribution of a time X >= 0. Everything is an inverse CDF of a uniform number, so that one keyed number
gives one life and a changed parameter moves that life smoothly instead of drawing another.

A unit that has been renewed for a long time is met at a random moment inside a *length-biased* life L, with density
x f(x) / E[X]. The time since the last renewal and the time to the next are (1 - V) L and V L with V uniform and
independent of L: that is the stationary start of a renewal process.

A unit whose hazard is a constant multiple of another's at every age (proportional hazards, Cox 1972) has the survival
P(X > x)^ratio. Its life is the life of another uniform number by the same law: `hazard_number`.

References
----------
D. R. Cox, *Renewal Theory*, Methuen, 1962 (equilibrium renewal processes and length-biased sampling). D. R. Cox,
"Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972) (proportional hazards).
"""

from __future__ import annotations

import functools
import math
import sys
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import core_schema

from sim import units
from sim.scenario.fields import Duration, Fraction, Model, OneOf, RuleError, quantity_schema
from sim.scenario.law_model import (
    GammaPower,
    Knots,
    LawModel,
    Steps,
    hazard_of,
    hazard_of_one,
    knots_of,
    smallest_time,
    smallest_times,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from sim.yamlfile import Data, Table

# ----------------------------------------
# The laws with a name and a few parameters of their own; the families that they share are in `sim.scenario.law_model`.

_NORMAL = NormalDist()


def _require_one(**parameters: float | None) -> None:
    """Refuse both or none of two parameters that say the same thing."""
    given = [name for name, value in parameters.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {' and '.join(parameters)} (given: {', '.join(given) or 'none'})")


def _given(value: float | None) -> float:
    """Return a parameter that validation has found to be given."""
    assert value is not None
    return value


def _sorted_sample(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return a sample in ascending order, if it has a positive sum."""
    if not any(values):
        raise ValueError("give at least one value above zero")
    return tuple(sorted(values))


PositiveDuration = Annotated[Duration, Field(gt=0)]

# Below this shape a good part of all lives is shorter than a float can hold: they would come out as 0.
Shape = Annotated[float, Field(ge=0.05)]

Sample = Annotated[tuple[Duration, ...], AfterValidator(_sorted_sample)]


class Exponential(GammaPower):
    """Constant hazard: f(x) = exp(-x / mean) / mean."""

    use: Literal["exponential"] = "exponential"
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

    use: Literal["weibull"] = "weibull"
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

    use: Literal["gamma"] = "gamma"
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

    use: Literal["lognormal"] = "lognormal"
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

    use: Literal["uniform"] = "uniform"
    low: Duration = Field(description="Shortest time; may be 0.")
    high: PositiveDuration = Field(description="Longest time.")
    _times = ("low", "high")

    def _check(self) -> None:
        if self.low >= self.high:
            raise ValueError("low must be less than high")

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

    use: Literal["empirical"] = "empirical"
    values: Sample = Field(description="The sample, in any order.")
    _times = ("values",)

    def _sample(self) -> tuple[float, ...]:
        return self.values


class Fixed(Steps):
    """Always the same time; plain text such as ``30 min`` means this law."""

    use: Literal["fixed"] = "fixed"
    value: Duration = Field(description="The time; may be 0.")
    _times = ("value",)

    def _sample(self) -> tuple[float, ...]:
        return (self.value,)


class TextIsFixed:
    """Annotation of a union of laws: plain text is the value of a fixed law, in validation and in the JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def expand(value: Data) -> Data:
            # Bare numbers too, so that they are said to need a unit.
            return {"use": "fixed", "value": value} if isinstance(value, str | int | float) else value

        return core_schema.no_info_before_validator_function(expand, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        text = {**quantity_schema(units.DURATION), "description": "a fixed time"}
        return {"anyOf": [text, handler(schema)]}


# ----------------------------------------
# Lives with a constant hazard from one age to the next: burn-in, useful life, wear-out.
#
# Between two ages the life is exponential, so that everything is a sum over pieces in closed form, except for the
# inverse of the length-biased law.

_EXAMPLE = "0.2 per year"


def _parse(value: object) -> float:
    """Return a hazard [1/s]."""
    try:
        rate = units.parse_rate(value)
    except units.UnitError as error:
        raise units.UnitError(str(error).replace("6.5 per 1000 node-days", _EXAMPLE)) from None
    if rate.of:
        message = f"a hazard is that of one unit: write '{_EXAMPLE}', without '{rate.of}'"
        raise units.UnitError(message)
    return rate.per_second


HazardRate = Annotated[
    float,
    BeforeValidator(_parse),
    PlainSerializer(lambda per_second: units.show_rate(units.Rate(per_second, ""))),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "examples": [_EXAMPLE]}, {"const": 0}],
            "description": "a hazard",
            "examples": [_EXAMPLE],
        }
    ),
]


class HazardPiece(Model):
    """A constant hazard up to an age."""

    until: PositiveDuration | None = Field(None, description="Age at which the next piece begins; the last has none.")
    rate: HazardRate = Field(description="Failures per time of a unit of this age; 0 only before the last piece.")


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Starts [s], lengths [s], hazards [1/s], survivals at the start [-] and cumulative hazards there [-], by piece."""

    start: NDArray[np.float64]
    length: NDArray[np.float64]
    rate: NDArray[np.float64]
    alive: NDArray[np.float64]
    hazard: NDArray[np.float64]


def _exposure(rate: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean time lived [s] of `length` [s] at a hazard `rate` [1/s], all of shape (n,)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(rate > 0, -np.expm1(-rate * length) / rate, length)


def _early(rate: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the integral of y rate exp(-rate y) over y in (0, length) [s], all of shape (n,)."""
    from scipy.special import gammainc

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(rate > 0, gammainc(2.0, rate * length) / rate, 0.0)


class Piecewise(LawModel):
    """Constant hazard between given ages: burn-in, wear-out, a bathtub."""

    use: Literal["piecewise"] = "piecewise"
    hazards: tuple[HazardPiece, ...] = Field(min_length=1, description="Hazards by age; the last has no end.")

    def _check(self) -> None:
        before, last = 0.0, len(self.hazards) - 1
        for index, piece in enumerate(self.hazards):
            if index < last and piece.until is None:
                raise RuleError(("hazards", index), "needs 'until': only the last hazard has no end")
            if index == last and piece.until is not None:
                raise RuleError(("hazards", index, "until"), "the last hazard has no end: leave out 'until'")
            if piece.until is not None and piece.until <= before:
                raise RuleError(("hazards", index, "until"), "must be later than the one before it")
            before = piece.until or before
        if self.hazards[last].rate == 0:
            raise RuleError(
                ("hazards", last, "rate"),
                "the last hazard must be above zero: who gets that old would never fail, and the mean life is infinite",
            )

    def _scaled_parameters(self, factor: float) -> Table:
        pieces = [
            piece.model_copy(update={"until": piece.until and piece.until * factor, "rate": piece.rate / factor})
            for piece in self.hazards
        ]
        return {"hazards": tuple(pieces)}

    @functools.cached_property
    def _pieces(self) -> _Pieces:
        starts = [0.0, *self.breaks]
        lengths = np.diff([*starts, math.inf])
        rate = np.array([piece.rate for piece in self.hazards])
        with np.errstate(over="ignore"):  # nobody lives through an infinite hazard
            hazard = np.concatenate([[0.0], np.cumsum(rate[:-1] * lengths[:-1])])
        return _Pieces(np.array(starts), lengths, rate, np.exp(-hazard), hazard)

    @functools.cached_property
    def _columns(self) -> tuple[list[float], list[float], list[float]]:
        """Starts [s], rates [1/s] and cumulative hazards at the starts [-], for one number at a time."""
        pieces = self._pieces
        return pieces.start.tolist(), pieces.rate.tolist(), pieces.hazard.tolist()

    @property
    def breaks(self) -> tuple[float, ...]:
        """The ages at which the hazard changes."""
        return tuple(piece.until for piece in self.hazards if piece.until is not None)

    @property
    def memoryless(self) -> bool:
        """Whether all hazards are the same."""
        return len({piece.rate for piece in self.hazards}) == 1

    @property
    def proportional(self) -> bool:
        """Whether all hazards are the same."""
        return self.memoryless

    def stretch(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 / ratio."""
        return 1 / ratio

    @functools.cached_property
    def mean_value(self) -> float:
        """Mean time lived in each piece by those who reach it, summed [s]."""
        pieces = self._pieces
        return float(np.sum(pieces.alive * _exposure(pieces.rate, pieces.length)))

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 - exp(-H(x))."""
        return np.asarray(-np.expm1(-self.cumulative_hazard(x)), dtype=np.float64)

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return the integral of the hazard up to x; length-biased, from the partial means of both sides of x."""
        pieces, time = self._pieces, np.maximum(x, 0.0)
        place = np.searchsorted(pieces.start, time, side="right") - 1
        start, rate, alive = pieces.start[place], pieces.rate[place], pieces.alive[place]
        with np.errstate(over="ignore"):
            hazard: NDArray[np.float64] = pieces.hazard[place] + rate * (time - start)
        if not length_biased:
            return hazard
        ended = pieces.alive * (
            -np.expm1(-pieces.rate * pieces.length) * pieces.start + _early(pieces.rate, pieces.length)
        )
        below = np.concatenate([[0.0], np.cumsum(ended)])[place]
        below += alive * (-np.expm1(-rate * (time - start)) * start + _early(rate, time - start))
        # Above x: what the survivors have lived by then, and what they live after it.
        lived = pieces.alive * _exposure(pieces.rate, pieces.length)
        above = np.concatenate([np.cumsum(lived[::-1])[::-1], [0.0]])[place + 1]
        above += np.exp(-hazard) * (time + _exposure(rate, start + pieces.length[place] - time))
        return hazard_of(below / self.mean_value, above / self.mean_value)

    def cumulative_hazard_one(self, x: float) -> float:
        """Return the integral of the hazard up to x."""
        starts, rates, hazards = self._columns
        place = bisect_right(starts, max(x, 0.0)) - 1
        return hazards[place] + rates[place] * (max(x, 0.0) - starts[place])

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time at which the cumulative hazard reaches -ln(1 - u)."""
        pieces, target = self._pieces, -np.log1p(-u)
        place = np.searchsorted(pieces.hazard[1:], target, side="left")
        time: NDArray[np.float64] = pieces.start[place] + (target - pieces.hazard[place]) / pieces.rate[place]
        return time

    def ppf_one(self, u: float) -> float:
        """Return the time at which the cumulative hazard reaches -ln(1 - u)."""
        target = -math.log1p(-u)
        starts, rates, hazards = self._columns
        place = bisect_left(hazards, target, lo=1) - 1
        return starts[place] + (target - hazards[place]) / rates[place]

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numerical inverse; there is none in closed form."""
        last = self._pieces.start[-1:]
        more = np.maximum(-np.log1p(-u) - self.cumulative_hazard(last, length_biased=True), 0.0)
        # What is left in the last piece is at most a sum of two exponential times: z - ln(1 + z) = more.
        high = last + 2 * (more + np.sqrt(more)) / self._pieces.rate[-1]
        return smallest_times(self, u, self.ppf(u), high, length_biased=True)


# ----------------------------------------
# Lives of several kinds of units that nobody can distinguish: each kind with a share and a law of its own.

PlainLaws: TypeAlias = Exponential | Weibull | Gamma | Lognormal | Uniform | Empirical | Fixed | Piecewise

PlainLaw = Annotated[PlainLaws, OneOf("use"), TextIsFixed()]

_ROUNDING = 1e-9


class MixturePart(Model):
    """One kind of units: how many of all, and the law of their lives."""

    weight: Fraction = Field(gt=0, description="Share of all units; the shares of all parts sum to 1.")
    law: PlainLaw = Field(description="Law of this part; any but a mixture.")


class Mixture(LawModel):
    """A unit belongs to one of several populations by chance, and lives by that one's law."""

    use: Literal["mixture"] = "mixture"
    parts: tuple[MixturePart, ...] = Field(min_length=2, description="The populations: weights and laws.")

    def _check(self) -> None:
        total = math.fsum(part.weight for part in self.parts)
        if abs(total - 1) > _ROUNDING:
            raise RuleError(("parts",), f"the weights must sum to 1, not to {total:.12g}")
        if not any(part.law.mean_value for part in self.parts):
            raise RuleError(("parts",), "give at least one part with a mean above zero")

    def _scaled_parameters(self, factor: float) -> Table:
        return {"parts": tuple(part.model_copy(update={"law": part.law.scaled(factor)}) for part in self.parts)}

    @functools.cached_property
    def _shares(self) -> tuple[tuple[float, LawModel], ...]:
        """Share [-] and law of each part; the shares sum to 1 to the last digit, which the weights need not."""
        total = math.fsum(part.weight for part in self.parts)
        return tuple((part.weight / total, part.law) for part in self.parts)

    @functools.cached_property
    def _biased_shares(self) -> tuple[tuple[float, LawModel], ...]:
        """Share [-] of all time that each part lives, and its law; a unit is met in proportion to its life."""
        lived = [(share * law.mean_value / self.mean_value, law) for share, law in self._shares]
        return tuple((share, law) for share, law in lived if share)

    @functools.cached_property
    def _knots(self) -> Knots:
        return knots_of(self)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The breaks of all parts."""
        return tuple(time for part in self.parts for time in part.law.breaks)

    @functools.cached_property
    def mean_value(self) -> float:
        """Weighted mean of the parts' means [s]."""
        return math.fsum(share * law.mean_value for share, law in self._shares)

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted mean of the parts' probabilities."""
        return np.asarray(sum(share * law.cdf(x) for share, law in self._shares), dtype=np.float64)

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln of the weighted mean of the parts' survival."""
        shares = self._biased_shares if length_biased else self._shares
        below, above = np.zeros(np.shape(x)), np.zeros(np.shape(x))
        for share, law in shares:
            hazard = law.cumulative_hazard(x, length_biased=length_biased)
            below -= share * np.expm1(-hazard)
            above += share * np.exp(-hazard)
        return hazard_of(below, above)

    def cumulative_hazard_one(self, x: float) -> float:
        """Return -ln of the weighted mean of the parts' survival."""
        below = above = 0.0
        for share, law in self._shares:
            hazard = law.cumulative_hazard_one(x)
            below -= share * math.expm1(-hazard)
            above += share * math.exp(-hazard)
        return hazard_of_one(below, above)

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numerical inverse, which lies between the parts' own."""
        times = [law.ppf(u) for _, law in self._shares]
        return smallest_times(self, u, np.min(times, axis=0), np.max(times, axis=0))

    def ppf_one(self, u: float) -> float:
        """Return the numerical inverse, which lies between the parts' own."""
        times = [law.ppf_one(u) for _, law in self._shares]
        return smallest_time(self, u, min(times), max(times), self._knots)

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numerical inverse; the parts weigh in proportion to weight times mean."""
        times = [law.length_biased_ppf(u) for _, law in self._biased_shares]
        return smallest_times(self, u, np.min(times, axis=0), np.max(times, axis=0), length_biased=True)


# The numbers strictly between 0 and 1 that a float can hold.
_LEAST, _MOST = sys.float_info.min, 1 - 2.0**-53

LAW_NAMES = frozenset(law.model_fields["use"].default for law in (*get_args(PlainLaws), Mixture))

Law = Annotated[PlainLaws | Mixture, OneOf("use"), TextIsFixed()]


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


def hazard_number(u: NDArray[np.float64], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the uniform numbers whose lives are those of units with other hazards.

    A unit with the hazard ratio r survives x with probability P(X > x)^r. Its life is therefore ``law.ppf`` of
    1 - (1 - u)^(1 / r), for every law.

    Parameters
    ----------
    u
        Uniform numbers in (0, 1) [-], shape (n,).
    ratio
        Hazards relative to the law's [-], above zero, shape (n,).

    Returns
    -------
    NDArray[np.float64]
        Numbers in (0, 1) [-], shape (n,). A float holds no number between 1 - 2^-53 and 1: a life that would be longer
        than this quantile (36.7 means of an exponential law) is as long as it.

    References
    ----------
    D. R. Cox, "Regression models and life-tables", Journal of the Royal Statistical Society B 34 (1972).
    """
    return np.clip(-np.expm1(np.log1p(-u) / ratio), _LEAST, _MOST)


def hazard_number_one(u: float, ratio: float) -> float:
    """Return `hazard_number` of one number."""
    return min(max(-math.expm1(math.log1p(-u) / ratio), _LEAST), _MOST)
