"""Laws of lifetimes and durations that a user may describe.

A law is a distribution of a time X >= 0. Everything is an inverse CDF of a uniform number, so that one keyed number
gives one life and a changed parameter moves that life smoothly instead of drawing another.
"""

# Annotations are not postponed: pydantic would compile each at the start.
import functools
import itertools
import math
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

import numpy as np
from pydantic import AfterValidator, Field

from ettrick.sim import quantiles, units
from ettrick.sim.scenario.fields import (
    Completed,
    Duration,
    Fraction,
    Model,
    OneOf,
    RuleError,
    quantity_schema,
    rate_of_whole,
)
from ettrick.sim.scenario.law_model import EmpiricalCdf, GammaPower, LawModel, hazard_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.sim.yamlfile import Table

# The laws with a name and a few parameters of their own; the families that they share are in
# `ettrick.sim.scenario.law_model`.


def _require_one(**parameters: float | None) -> None:
    """Refuse both or none of two parameters that say the same thing."""
    stated = [name for name, value in parameters.items() if value is not None]
    if len(stated) != 1:
        raise ValueError(f"give exactly one of {' and '.join(parameters)} (given: {', '.join(stated) or 'none'})")


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

    @functools.cached_property
    def mean_value(self) -> float:
        """Median x exp(sigma^2 / 2) [s]."""
        return _given(self.median) * math.exp(self.sigma**2 / 2) if self.mean is None else self.mean

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """Mu and sigma [-]."""
        return quantiles.LOGNORMAL, self.mu, self.sigma

    def cumulative_hazard(self, x: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return -ln Phi((mu - ln x) / sigma)."""
        from scipy.special import log_ndtr

        with np.errstate(divide="ignore"):  # ln 0 = -inf gives hazard 0, as it should
            return -np.asarray(log_ndtr((self.mu - np.log(np.maximum(x, 0.0))) / self.sigma), dtype=np.float64)


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

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """The limits [s]."""
        return quantiles.UNIFORM, self.low, self.high

    @property
    def breaks(self) -> tuple[float, ...]:
        """The limits."""
        return self.low, self.high

    def cumulative_hazard(self, x: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return -ln of (high - x) / (high - low) between the limits."""
        time, width = np.clip(x, self.low, self.high), self.high - self.low
        return hazard_of((time - self.low) / width, (self.high - time) / width)


class Empirical(EmpiricalCdf):
    """A sample taken as it is: each value with the same probability."""

    use: Literal["empirical"] = "empirical"
    values: Sample = Field(description="The sample, in any order.")
    _times = ("values",)

    def _sample(self) -> tuple[float, ...]:
        return self.values


class Fixed(EmpiricalCdf):
    """Always the same time; plain text such as ``30 min`` means this law."""

    use: Literal["fixed"] = "fixed"
    value: Duration = Field(description="The time; may be 0.")
    _times = ("value",)

    def _sample(self) -> tuple[float, ...]:
        return (self.value,)


_TEXT_IS_FIXED = Completed(
    # Bare numbers too, so that they are said to need a unit.
    lambda value: {"use": "fixed", "value": value} if isinstance(value, str | int | float) else value,
    lambda laws, _: {"anyOf": [{**quantity_schema(units.DURATION), "description": "a fixed time"}, laws]},
)
"""Annotation of a union of laws: plain text is the value of a fixed law, in validation and in the JSON Schema."""


# Lives with a constant hazard from one age to the next: burn-in, useful life, wear-out. Between two ages the life is
# exponential, so that everything is a sum over pieces in closed form, except for the inverse of the length-biased law.

HazardRate = Annotated[
    float, *rate_of_whole("a hazard", "a hazard is that of one unit", "0.2 per year", may_be_zero=True)
]


class HazardPiece(Model):
    """A constant hazard up to an age."""

    until: PositiveDuration | None = Field(None, description="Age at which the next piece begins; the last has none.")
    rate: HazardRate = Field(description="Failures per time of a unit of this age; 0 only before the last piece.")


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
                "the last hazard must be above zero; otherwise the oldest never fail, and the mean life is infinite",
            )

    def _scaled_parameters(self, factor: float) -> "Table":
        pieces = [
            piece.model_copy(update={"until": piece.until and piece.until * factor, "rate": piece.rate / factor})
            for piece in self.hazards
        ]
        return {"hazards": tuple(pieces)}

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """The pieces, and what is lived and who dies in them: `ettrick.sim.quantiles` says in which order."""
        starts = [0.0, *self.breaks]
        lengths = [end - start for start, end in itertools.pairwise([*starts, math.inf])]
        rates = [piece.rate for piece in self.hazards]
        hazards, ended, lived = [0.0], [0.0], []
        for start, length, rate in zip(starts, lengths, rates, strict=True):
            alive, risk = math.exp(-hazards[-1]), rate * length if rate else 0.0
            lived.append(alive * (-math.expm1(-risk) / rate if rate else length))
            early = quantiles.two_stages_below(risk) / rate if rate else 0.0
            ended.append(ended[-1] + alive * (-math.expm1(-risk) * start + early))
            hazards.append(hazards[-1] + risk)
        later = list(itertools.accumulate(reversed([*lived, 0.0])))[::-1]
        columns = (starts, lengths, rates, hazards[:-1], ended[:-1], later)
        return quantiles.PIECEWISE, len(starts), later[0], *itertools.chain.from_iterable(columns)

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

    def stretch(self, ratio: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return 1 / ratio."""
        return 1 / ratio

    @property
    def mean_value(self) -> float:
        """Mean time lived in each piece by those who reach it, summed [s]."""
        return self.parameters[2]

    def cumulative_hazard(self, x: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the integral of the hazard up to x."""
        count, time = len(self.hazards), np.maximum(x, 0.0)
        start, _, rate, hazard = np.reshape(self.parameters[3 : 3 + 4 * count], (4, count))
        piece = np.searchsorted(start, time, side="right") - 1
        with np.errstate(over="ignore"):  # nobody lives through an infinite hazard
            return np.asarray(hazard[piece] + rate[piece] * (time - start[piece]), dtype=np.float64)


# Lives of several kinds of units that nobody can distinguish: each kind with a share and a law of its own.

PlainLaws: TypeAlias = Exponential | Weibull | Gamma | Lognormal | Uniform | Empirical | Fixed | Piecewise
PlainLaw = Annotated[PlainLaws, OneOf("use"), _TEXT_IS_FIXED]
_ROUNDING = 1e-9


class MixturePart(Model):
    """A kind of units: its share of all, and the law of their lives."""

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

    def _scaled_parameters(self, factor: float) -> "Table":
        return {"parts": tuple(part.model_copy(update={"law": part.law.scaled(factor)}) for part in self.parts)}

    @functools.cached_property
    def _shares(self) -> tuple[tuple[float, LawModel], ...]:
        """Share [-] and law of each part; the shares sum to 1 to the last digit, which the weights need not."""
        total = math.fsum(part.weight for part in self.parts)
        return tuple((part.weight / total, part.law) for part in self.parts)

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """Shares, breaks and the parts' own parameters: `ettrick.sim.quantiles` says in which order."""
        times = sorted(set(self.breaks))
        parts: list[float] = []
        table: list[float] = []
        first = 3 + 3 * len(self.parts) + 5 * len(times)
        for share, law in self._shares:
            table += [share, share * law.mean_value / self.mean_value, first + len(parts)]
            parts += law.parameters
        head = [quantiles.MIXTURE, len(self.parts), len(times), *table, *times]
        law_only = [*head, *[0.0] * (4 * len(times)), *parts]

        def hazards(biased: bool) -> list[float]:
            at = [quantiles.cumulative_hazard(law_only, 0, time, biased) for time in times]
            before = [quantiles.cumulative_hazard(law_only, 0, math.nextafter(x, -math.inf), biased) for x in times]
            # Rounding must not make a hazard fall: the breaks are searched by it.
            return [*itertools.accumulate(at, max), *before]

        return *head, *hazards(False), *hazards(True), *parts

    @property
    def breaks(self) -> tuple[float, ...]:
        """The breaks of all parts."""
        return tuple(time for part in self.parts for time in part.law.breaks)

    @functools.cached_property
    def mean_value(self) -> float:
        """Weighted mean of the parts' means [s]."""
        return math.fsum(share * law.mean_value for share, law in self._shares)

    def cumulative_hazard(self, x: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return -ln of the weighted mean of the parts' survival."""
        below, above = np.zeros(np.shape(x)), np.zeros(np.shape(x))
        for share, law in self._shares:
            hazard = law.cumulative_hazard(x)
            below -= share * np.expm1(-hazard)
            above += share * np.exp(-hazard)
        return hazard_of(below, above)


LAW_NAMES = frozenset(law.model_fields["use"].default for law in (*get_args(PlainLaws), Mixture))
Law = Annotated[PlainLaws | Mixture, OneOf("use"), _TEXT_IS_FIXED]


def draw(law: LawModel, mark: "Callable[[str], float]", purpose: str) -> float:
    """Return the time [s] that a law gives to one purpose of a failure, by the failure's mark of that name."""
    if isinstance(law, Fixed):  # the common case needs no random number
        return law.value
    return law.ppf_one(mark(purpose))
