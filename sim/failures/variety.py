"""The hazard of a source: how it differs between units, and how it changes in time for all of them alike.

Frailty, batches and covariates act on the hazard of a unit. With a hazard ratio h it survives as S(x)^h: for a constant
rate that is h times the rate, for an ageing law it is the proportional-hazards model. In time, the hazard is multiplied
by m(t): a life then runs in *operational time* M(t) = integral of m, and ends at M^-1 of its end there. That is exact
for every law, with or without memory, so nothing is thinned.

References
----------
J. W. Vaupel, K. G. Manton, E. Stallard, "The impact of heterogeneity in individual frailty on the dynamics of
mortality", Demography 16 (1979): the Gamma law of frailty. D. R. Cox, "Regression models and life-tables", Journal of
the Royal Statistical Society B 34 (1972): hazard ratios of covariates. L. H. Crow, "Reliability analysis for complex,
repairable systems", 1974: power-law trend. D. R. Cox, "Some statistical methods connected with series of events",
Journal of the Royal Statistical Society B 17 (1955): random swings of a rate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim import rng
from sim.scenario.fields import Duration, Fraction, Model, RuleError
from sim.scenario.laws import Law, age_and_residual, hazard_number, hazard_number_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.failures.source import Source
    from sim.scenario.law_model import LawModel

_MOST_HAZARD = 20.0

"""Beyond this cumulative hazard the inverse CDF has no digits left to distinguish lives."""


class Frailty(Model):
    """Units differ for no known reason: hazard ratios from a Gamma law with mean 1."""

    shape: float = Field(
        ge=0.05, description="Shape of the Gamma law [-]; the coefficient of variation is 1/sqrt(shape)."
    )
    of: Literal["node", "part"] = Field("node", description="What differs: nodes with all their parts, or each part.")
    shared: str = Field(
        "nodes", min_length=1, description="Sources whose frailty bears the same name meet the same bad nodes."
    )


class Batch(Model):
    """Part of the fleet has another law, or another hazard."""

    share: Fraction = Field(description="Share of the nodes (of the parts, where they belong to no single node).")
    law: Law | None = Field(None, description="Law of their lives, in place of the source's.")
    ratio: float | None = Field(None, gt=0, description="Hazard relative to the rest of the fleet [-].")

    @model_validator(mode="after")
    def _law_or_ratio(self) -> Self:
        if (self.law is None) == (self.ratio is None):
            raise ValueError("give exactly one of law and ratio")
        if self.law is not None and self.law.mean_value == 0:
            raise RuleError(("law",), "must have a mean above zero: who lives no time fails without end")
        return self


class Covariate(Model):
    """A known property that goes round the nodes in turn, such as the place in the air stream of a cabinet."""

    name: str = Field(min_length=1, description="What it is; for the reader.")
    ratios: tuple[float, ...] = Field(
        min_length=1, description="Hazard ratio of each level; node i has level (i // stride) modulo their number."
    )
    stride: int = Field(1, ge=1, description="How many nodes in a row have the same level.")

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if min(self.ratios) <= 0:
            raise RuleError(("ratios",), f"hazard ratios must be above zero, not {min(self.ratios):g}")
        return self


@dataclass(frozen=True)
class Variety:
    """What a source says of the differences between its units; empty for equal units."""

    frailty: Frailty | None = None
    batches: tuple[Batch, ...] = ()
    covariates: tuple[Covariate, ...] = ()

    def __bool__(self) -> bool:
        """Return whether units differ."""
        return self.frailty is not None or bool(self.batches) or bool(self.covariates)

    @property
    def within_node(self) -> bool:
        """Whether parts of one node may differ."""
        return self.frailty is not None and self.frailty.of == "part"

    def mean_rate(self, law: LawModel) -> float:
        """Return the mean of 1 / E[life] over the units [1/s]; exact for constant rates."""
        rate = 1 / law.mean_value
        rest = 1.0
        total = 0.0
        for batch in self.batches:
            rest -= batch.share
            total += batch.share * (rate * batch.ratio if batch.ratio is not None else 1 / _given(batch.law).mean_value)
        total += rest * rate
        for covariate in self.covariates:
            total *= sum(covariate.ratios) / len(covariate.ratios)
        return total

    def scaled(self, factor: float) -> Variety:
        """Return the same variety of lives that are `factor` times as long [-]."""
        batches = tuple(
            batch if batch.law is None else batch.model_copy(update={"law": batch.law.scaled(factor)})
            for batch in self.batches
        )
        return replace(self, batches=batches)

    def laws(self, law: LawModel) -> tuple[LawModel, ...]:
        """Return every law that a unit may have, the source's own first."""
        return (law, *(batch.law for batch in self.batches if batch.law is not None))


def _given(law: LawModel | None) -> LawModel:
    assert law is not None
    return law


class Fleet:
    """The units of a source in one replication: the law and the hazard ratio of each.

    A hazard ratio stretches the time of a law where that is all it does; otherwise it changes the uniform number.
    """

    __slots__ = ("_plain", "factor", "laws", "ratio", "which")

    def __init__(
        self, laws: tuple[LawModel, ...], which: NDArray[np.int64] | None, ratio: NDArray[np.float64] | None
    ) -> None:
        self.laws = laws
        self.which = which
        """Index of each unit's law, shape (units,); None when all have the first."""
        self.ratio = ratio
        """Hazard ratio of each unit [-], shape (units,); None when all are 1."""
        self.factor = self._factors() if ratio is not None else None
        """By what the life of each unit is longer [-], shape (units,); 1 where the uniform number is changed."""
        self._plain = laws[0].ppf_one if which is None and ratio is None else None

    def _factors(self) -> NDArray[np.float64]:
        assert self.ratio is not None
        factor = np.ones(len(self.ratio))
        for index, law in enumerate(self.laws):
            if law.proportional:
                mine = slice(None) if self.which is None else self.which == index
                factor[mine] = law.stretch(self.ratio[mine])
        return factor

    @property
    def is_plain(self) -> bool:
        """Whether all units are equal."""
        return self._plain is not None

    def life(self, slot: int, number: float) -> float:
        """Return the life [s] that a uniform number gives to a unit."""
        if self._plain is not None:
            return self._plain(number)
        law = self.laws[0 if self.which is None else int(self.which[slot])]
        if self.ratio is None or self.factor is None:
            return law.ppf_one(number)
        if law.proportional:
            return law.ppf_one(number) * float(self.factor[slot])
        return law.ppf_one(hazard_number_one(number, float(self.ratio[slot])))

    def lives(self, slots: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lives [s] that uniform numbers give to units, shape (n,)."""
        if self.which is None:
            return self._lives_of(self.laws[0], slots, numbers)
        lives = np.empty(len(slots))
        which = self.which[slots]
        for index, law in enumerate(self.laws):
            mine = which == index
            lives[mine] = self._lives_of(law, slots[mine], numbers[mine])
        return lives

    def _lives_of(self, law: LawModel, slots: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.ratio is None or self.factor is None:
            return law.ppf(numbers)
        if law.proportional:
            return law.ppf(numbers) * self.factor[slots]
        return law.ppf(hazard_number(numbers, self.ratio[slots]))

    def residuals(
        self, slots: NDArray[np.int64], numbers: NDArray[np.float64], ages: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what is left of the lives [s] of units that have lived to some age [s], shape (n,) each.

        P(X > a + x | X > a) = S(a + x) / S(a), with S = exp(-h H) for the cumulative hazard H and the hazard ratio h;
        so H(a + x) = H(a) + E / h, with E exponential. The ratio of a unit is not made smaller by its having survived.
        """
        which = np.zeros(len(slots), dtype=np.int64) if self.which is None else self.which[slots]
        more = -np.log1p(-numbers)
        if self.ratio is not None:
            more /= self.ratio[slots]
        ends = np.empty(len(slots))
        for index, law in enumerate(self.laws):
            mine = which == index
            ends[mine] = _when(law, law.cumulative_hazard(ages[mine]) + more[mine], ages[mine])
        return np.maximum(ends - ages, 0.0)

    def mean_lives(self, units: int) -> NDArray[np.float64]:
        """Return the mean life of each unit [s], shape (units,); hazard ratios must only stretch time."""
        means = np.array([law.mean_value for law in self.laws])
        lives = np.full(units, means[0]) if self.which is None else means[self.which]
        return lives if self.factor is None else lives * self.factor

    def age_and_residual(
        self, length: NDArray[np.float64], split: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ages and residual lives [s] of all units of a fleet that has run for a long time.

        `length` and `split` are uniform numbers, shape (units,). Hazard ratios must only stretch time
        (``LawModel.proportional``).
        """
        age, left = np.empty(len(length)), np.empty(len(length))
        for index, law in enumerate(self.laws):
            mine = slice(None) if self.which is None else self.which == index
            age[mine], left[mine] = age_and_residual(law, length[mine], split[mine])
        factor = 1.0 if self.factor is None else self.factor
        return age * factor, left * factor


def _when(law: LawModel, hazard: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ages [s] at which cumulative hazards [-] are reached, later than `after` [s], shape (n,) each."""
    found = law.ppf(-np.expm1(-np.minimum(hazard, _MOST_HAZARD)))
    far = np.flatnonzero(hazard > _MOST_HAZARD)
    if far.size:
        low, high = after[far], 2 * after[far] + law.mean_value
        while (short := law.cumulative_hazard(high) < hazard[far]).any():
            high[short] *= 2
        for _ in range(80):
            middle = (low + high) / 2
            is_low = law.cumulative_hazard(middle) < hazard[far]
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        found[far] = high
    return found


def fleet_of(source: Source, seed: int, replication: int) -> Fleet:
    """Return the units of a source in one replication."""
    law, variety = source.law, source.variety
    assert law is not None
    if not variety:
        return Fleet((law,), None, None)
    slots = np.arange(source.units, dtype=np.int64)
    # A rack is no node: where a part belongs to no single node, it shares no frailty with the node of its number.
    kind, nodes = ("node", slots // source.slots_per_node) if source.slots_per_node else (source.part, slots)
    ratio = np.ones(source.units)
    which = np.zeros(source.units, dtype=np.int64)
    if variety.frailty is not None:
        whose, units = (kind, nodes) if variety.frailty.of == "node" else (source.part, slots)
        ratio *= _frailties(
            variety.frailty, rng.stream(seed, replication, "frailty", whose, variety.frailty.shared), units
        )
    for covariate in variety.covariates:
        ratio *= np.asarray(covariate.ratios)[(nodes // covariate.stride) % len(covariate.ratios)]
    if variety.batches:
        number = rng.uniform(rng.stream(seed, replication, "batch", kind), nodes)
        edge = 0.0
        law_number = 0
        for batch in variety.batches:
            mine = (number >= edge) & (number < edge + batch.share)
            edge += batch.share
            if batch.ratio is not None:
                ratio[mine] *= batch.ratio
            else:
                law_number += 1
                which[mine] = law_number
    return Fleet(variety.laws(law), which if which.any() else None, None if (ratio == 1).all() else ratio)


def _frailties(frailty: Frailty, key: int, units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the hazard ratios of units [-], shape (n,); never zero, which would be a unit that lives for ever."""
    from scipy.special import gammaincinv

    ratio: Any = gammaincinv(frailty.shape, rng.uniform(key, units)) / frailty.shape
    return np.maximum(np.asarray(ratio, dtype=np.float64), 1e-12)


# How the hazard of a source changes in time for all its units alike: trend, calendar, slow swings.


class Trend(Model):
    """Power law (Crow-AMSAA): m(t) = exponent ((t + age) / reference)^(exponent - 1)."""

    exponent: float = Field(gt=0, le=10, description="Below 1 the rate falls, above 1 it grows [-].")
    reference: Duration = Field(gt=0, description="Age of the cluster up to which the mean rate is the stated one.")
    age: Duration = Field("0 s", description="Age of the cluster at the start of the simulation.")  # type: ignore[assignment]


class Calendar(Model):
    """A pattern that repeats: one factor for each equal part of a period."""

    period: Duration = Field(gt=0, description="Length of the pattern, for example 1 d or 7 d.")
    factors: tuple[float, ...] = Field(min_length=1, description="Factor of each part; they average to the mean.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if min(self.factors) < 0 or max(self.factors) == 0:
            raise RuleError(("factors",), "must not be negative, and one must be above zero")
        return self


class Swings(Model):
    """The rate swings for no known reason: a Gamma factor with mean 1 for each stretch of time."""

    every: Duration = Field(gt=0, description="Length of a stretch.")
    cv: float = Field(gt=0, le=10, description="Coefficient of variation of the factor [-].")
    shared: str = Field("cluster", min_length=1, description="Sources whose swings bear the same name swing together.")


class Tempo(Model):
    """Everything that changes the hazard of all units alike; factors multiply."""

    trend: Trend | None = Field(None, description="A lasting rise or fall.")
    calendar: Calendar | None = Field(None, description="A pattern of hours or weekdays.")
    swings: Swings | None = Field(None, description="Random slow swings.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.trend is None and self.calendar is None and self.swings is None:
            raise ValueError("give at least one of trend, calendar and swings")
        return self

    def mean(self, horizon: float) -> float:
        """Return the mean of m over [0, horizon] [-], swings at their mean of 1."""
        mean = 1.0
        if self.trend is not None and horizon > 0:
            mean = (_power(self.trend, horizon) - _power(self.trend, 0.0)) / horizon
        if self.calendar is not None:
            mean *= sum(self.calendar.factors) / len(self.calendar.factors)
        return mean

    def realise(self, end: float, seed: int, replication: int) -> OperationalTime:
        """Return the operational time of a replication up to `end` [s]."""
        edges = {0.0, end}
        for width in self._widths():
            edges.update((np.arange(1, math.ceil(end / width)) * width).tolist())
        starts = np.array(sorted(edge for edge in edges if edge <= end))
        middle = (starts[:-1] + starts[1:]) / 2
        level = np.ones(len(middle))
        if self.calendar is not None:
            factors = np.asarray(self.calendar.factors)
            width = self.calendar.period / len(factors)
            level *= factors[np.floor(middle / width).astype(np.int64) % len(factors)]
        if self.swings is not None:
            level *= _levels(self.swings, np.floor(middle / self.swings.every).astype(np.int64), seed, replication)
        return OperationalTime(starts, level, self.trend)

    def _widths(self) -> list[float]:
        widths = []
        if self.calendar is not None:
            widths.append(self.calendar.period / len(self.calendar.factors))
        if self.swings is not None:
            widths.append(self.swings.every)
        return widths


def _power(trend: Trend, time: float) -> float:
    """Return the integral of the trend from age zero to the age at `time` [s]."""
    return float(trend.reference * ((time + trend.age) / trend.reference) ** trend.exponent)


def _levels(swings: Swings, stretch: NDArray[np.int64], seed: int, replication: int) -> NDArray[np.float64]:
    """Return the factors of stretches [-], shape (n,): a look-up by number, so a longer horizon keeps them."""
    from scipy.special import gammaincinv

    shape = swings.cv**-2
    number = rng.uniform(rng.stream(seed, replication, "swings", swings.shared), stretch)
    return np.asarray(gammaincinv(shape, number), dtype=np.float64) / shape


class OperationalTime:
    """M(t) and its inverse, piecewise between `starts` [s], shape (n + 1,), with `level` [-], shape (n,)."""

    __slots__ = ("_base", "_level", "_reached", "_starts", "_trend")

    def __init__(self, starts: NDArray[np.float64], level: NDArray[np.float64], trend: Trend | None) -> None:
        self._trend = trend
        base = self._bent(starts)
        reached = np.concatenate([[0.0], np.cumsum(level * np.diff(base))])
        self._starts: list[float] = starts.tolist()
        self._base: list[float] = base.tolist()
        self._level: list[float] = level.tolist()
        self._reached: list[float] = reached.tolist()

    def _bent(self, time: NDArray[np.float64]) -> NDArray[np.float64]:
        trend = self._trend
        if trend is None:
            return time
        return np.asarray(trend.reference * ((time + trend.age) / trend.reference) ** trend.exponent)

    @property
    def total(self) -> float:
        """M of the end [s]."""
        return self._reached[-1]

    def elapsed(self, time: float) -> float:
        """Return M(time) [s]; `time` [s] not beyond the end."""
        piece = min(bisect_right(self._starts, time), len(self._level)) - 1
        bent = time if self._trend is None else _power(self._trend, time)
        return self._reached[piece] + self._level[piece] * (bent - self._base[piece])

    def moment(self, elapsed: float) -> float:
        """Return the time [s] at which M reaches `elapsed`; infinite beyond the end."""
        if elapsed >= self.total:
            return math.inf
        piece = bisect_right(self._reached, elapsed) - 1
        bent = self._base[piece] + (elapsed - self._reached[piece]) / self._level[piece]
        trend = self._trend
        if trend is None:
            return bent
        return float(trend.reference * (bent / trend.reference) ** (1 / trend.exponent)) - trend.age

    def moments(self, elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `moment` of many [s], shape (n,)."""
        piece = np.minimum(np.searchsorted(self._reached, elapsed, side="right"), len(self._level)) - 1
        bent = np.asarray(self._base)[piece]
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = bent + (elapsed - np.asarray(self._reached)[piece]) / np.asarray(self._level)[piece]
            trend = self._trend
            if trend is not None:
                bent = trend.reference * (bent / trend.reference) ** (1 / trend.exponent) - trend.age
        return np.where(elapsed < self.total, bent, np.inf)
