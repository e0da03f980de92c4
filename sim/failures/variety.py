"""The hazard of a source: how it differs between units, and how it changes in time for all of them alike.

Frailty and batches act on the hazard of a unit. With a hazard ratio h it survives as S(x)^h: for a constant
rate that is h times the rate, for an ageing law it is the proportional-hazards model. In time, the hazard is multiplied
by m(t): a life then runs in *operational time* M(t) = integral of m, and ends at M^-1 of its end there. That is exact
for every law, with or without memory, so nothing is thinned.

References
----------
J. W. Vaupel, K. G. Manton, E. Stallard, "The impact of heterogeneity in individual frailty on the dynamics of
mortality", Demography 16 (1979): the Gamma law of frailty. L. H. Crow, "Reliability analysis for complex, repairable
systems", 1974: power-law trend. D. R. Cox, "Some statistical methods connected with series of events", Journal of the
Royal Statistical Society B 17 (1955): random swings of a rate.
"""

# Annotations are not postponed: pydantic would compile each at the start.
import functools
import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from ettrick.sim import rng
from ettrick.sim.quantiles import age_at_hazard, biased_quantile, cumulative_hazard, hazard_number, quantile
from ettrick.sim.scenario.fields import Duration, Fraction, Model, default
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel


class Frailty(Model):
    """Units differ for unknown reasons: their hazard ratios follow a Gamma law with mean 1."""

    shape: float = Field(
        ge=0.05, description="Shape of the Gamma law [-]; the coefficient of variation is 1/sqrt(shape)."
    )
    of: Literal["node", "part"] = Field(
        "node", description="Unit that differs: nodes with all their parts, or each part."
    )
    shared: str = Field("nodes", min_length=1, description="Sources with the same name here share the same bad nodes.")


class UnitBatch(Model):
    """A part of the fleet with a different law or hazard."""

    share: Fraction = Field(description="Share of the nodes (of the parts, where they belong to no single node).")
    law: Law | None = Field(None, description="Law of their lives, instead of the source's.")
    ratio: float | None = Field(None, gt=0, description="Hazard relative to the rest of the fleet [-].")

    def _broken_rules(self) -> "BrokenRules":
        if (self.law is None) == (self.ratio is None):
            yield (), "give exactly one of law and ratio"
        if self.law is not None and self.law.mean_value == 0:
            yield ("law",), "must have a mean above zero: who lives no time fails without end"

    def mean_rate(self, rate: float) -> float:
        """Return the rate of its units, where that of the rest of the fleet is `rate` [1/s]."""
        if self.law is not None:
            return 1 / self.law.mean_value
        return rate * (1.0 if self.ratio is None else self.ratio)


@dataclass(frozen=True)
class Variety:
    """The differences between the units of a source; empty for equal units."""

    frailty: Frailty | None = None
    batches: tuple[UnitBatch, ...] = ()

    def __bool__(self) -> bool:
        """Return whether units differ."""
        return self.frailty is not None or bool(self.batches)

    @property
    def within_node(self) -> bool:
        """Whether parts of one node may differ."""
        return self.frailty is not None and self.frailty.of == "part"

    def mean_rate(self, law: "LawModel") -> float:
        """Return the mean of 1 / E[life] over the units [1/s]; exact for constant rates."""
        rate = 1 / law.mean_value
        rest = 1.0
        total = 0.0
        for batch in self.batches:
            rest -= batch.share
            total += batch.share * batch.mean_rate(rate)
        return total + rest * rate

    def scaled(self, factor: float) -> "Variety":
        """Return the same variety of lives that are `factor` times as long [-]."""
        batches = tuple(
            batch if batch.law is None else batch.model_copy(update={"law": batch.law.scaled(factor)})
            for batch in self.batches
        )
        return replace(self, batches=batches)

    def laws(self, law: "LawModel") -> "tuple[LawModel, ...]":
        """Return every law that a unit may have, the source's own first."""
        return (law, *(batch.law for batch in self.batches if batch.law is not None))


class UnitPopulation:
    """The units of a source in one replication: the law and the hazard ratio of each.

    A hazard ratio stretches the time of a law where that is all it does; otherwise it changes the uniform number.
    """

    __slots__ = ("_parameters", "_stretches", "factor", "laws", "ratio", "which")

    def __init__(
        self, laws: "tuple[LawModel, ...]", which: "NDArray[np.int64] | None", ratio: "NDArray[np.float64] | None"
    ) -> None:
        self.laws = laws
        self.which = which
        """Index of each unit's law, shape (units,); None when all have the first."""
        self.ratio = ratio
        """Hazard ratio of each unit [-], shape (units,); None when all are 1."""
        self.factor = self._factors(ratio) if ratio is not None else None
        """By what the life of each unit is longer [-], shape (units,); 1 where the uniform number is changed."""
        self._parameters = [law.parameters for law in laws]
        self._stretches = [law.proportional for law in laws]

    def _factors(self, ratio: "NDArray[np.float64]") -> "NDArray[np.float64]":
        factor = np.ones(len(ratio))
        for index, law in enumerate(self.laws):
            if law.proportional:
                units = slice(None) if self.which is None else self.which == index
                factor[units] = law.stretch(ratio[units])
        return factor

    def life(self, slot: int, number: float) -> float:
        """Return the life [s] that a uniform number gives to a unit."""
        index = 0 if self.which is None else int(self.which[slot])
        p = self._parameters[index]
        if self.ratio is None or self.factor is None:
            return quantile(p, 0, number)
        if self._stretches[index]:
            return quantile(p, 0, number) * float(self.factor[slot])
        return quantile(p, 0, hazard_number(number, float(self.ratio[slot])))

    def lives(self, slots: "NDArray[np.int64]", numbers: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return `life` of many units [s], shape (n,), to the bit."""
        if self.which is None and (self.factor is None or self._stretches[0]):
            lives = self.laws[0].ppf(numbers)
            return lives if self.factor is None else lives * self.factor[slots]
        return np.fromiter(map(self.life, slots.tolist(), numbers.tolist()), np.float64, len(slots))

    def residual(self, slot: int, number: float, age: float) -> float:
        """Return what is left of the life [s] of a unit that has lived to some age [s].

        P(X > a + x | X > a) = S(a + x) / S(a), with S = exp(-h H) for the cumulative hazard H and the hazard ratio h;
        so H(a + x) = H(a) + E / h, with E exponential. The ratio of a unit is not made smaller by its having survived.
        """
        p = self._parameters[0 if self.which is None else int(self.which[slot])]
        more = -math.log1p(-number)
        if self.ratio is not None:
            more /= float(self.ratio[slot])
        return max(age_at_hazard(p, 0, cumulative_hazard(p, 0, age, False) + more, age) - age, 0.0)

    def reach(
        self, horizon: float, units: int, ages: "NDArray[np.float64] | None" = None
    ) -> "float | NDArray[np.float64]":
        """Return a number [-] that the uniform numbers of all lives up to `horizon` [s] are below, and hardly others.

        With `ages` [s], shape (units,), those of what is left of the lives; one for all units, or shape (units,).
        """
        if self.which is None and self.ratio is None and ages is None:
            return self.laws[0].reach(horizon)
        hazard = np.empty(units)
        for index, p in enumerate(self._parameters):
            for age in (0.0,) if ages is None else set(ages.tolist()):
                rows = np.full(units, fill_value=True) if self.which is None else self.which == index
                if ages is not None:
                    rows &= ages == age
                before, after = (cumulative_hazard(p, 0, time, False) for time in (age, age + horizon))
                # At a high hazard a life has fewer digits.
                slack = 1e-12 * after + 1e-15 * math.exp(min(after, 20.0))
                hazard[rows] = after - before + slack if before < math.inf else math.inf
        if self.ratio is not None:
            hazard *= self.ratio
        return np.asarray(-np.expm1(-hazard) * (1 + 1e-9), dtype=np.float64)

    def mean_lives(self, units: int) -> "NDArray[np.float64]":
        """Return the mean life of each unit [s], shape (units,); hazard ratios must only stretch time."""
        means = np.array([law.mean_value for law in self.laws])
        lives = np.full(units, means[0]) if self.which is None else means[self.which]
        return lives if self.factor is None else lives * self.factor

    def met_life(self, slot: int, number: float) -> float:
        """Return the life [s] in which a unit is met that has run for a long time, by a uniform number.

        It is length-biased: its density is x f(x) / E[X]. With V uniform and independent of the life L, the unit is
        (1 - V) L old and has V L to go, which is the stationary start of a renewal process (D. R. Cox, *Renewal
        Theory*, Methuen, 1962). Hazard ratios must only stretch time (``LawModel.proportional``).
        """
        p = self._parameters[0 if self.which is None else int(self.which[slot])]
        return biased_quantile(p, 0, number) * (1.0 if self.factor is None else float(self.factor[slot]))

    def least_met_lives(self, numbers: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return a time [s] that is at most `met_life` of each unit and seldom much less, shape (units,)."""
        band = np.searchsorted(BANDS, numbers, side="right")
        least = np.array([[0.0, *(biased_quantile(p, 0, u) for u in BANDS)] for p in self._parameters])
        lives: NDArray[np.float64] = least[0 if self.which is None else self.which, band] * (1 - 1e-9)
        return lives if self.factor is None else lives * self.factor


# Uniform numbers between which quantiles are bounded from both sides: closer together in the tails.
BANDS = [*(2.0**-power for power in range(16, 0, -1)), *(1 - 2.0**-power for power in range(2, 9))]


@functools.lru_cache(maxsize=8)
def frailties(shape: float, key: int, count: int) -> "NDArray[np.float64]":
    """Return the hazard ratios of units [-], shape (count,); never zero, which would be a unit that lives for ever.

    Sources that share a frailty ask for the same ones, and the inverse is dear: a microsecond a unit.
    """
    from scipy.special import gammaincinv

    ratio = np.asarray(gammaincinv(shape, rng.uniform(key, range(count))), dtype=np.float64) / shape
    return np.maximum(ratio, 1e-12)


# How the hazard of a source changes in time for all its units alike: trend, calendar, slow swings.


class PowerLawTrend(Model):
    """Power law (Crow-AMSAA): m(t) = exponent ((t + age) / reference)^(exponent - 1)."""

    exponent: float = Field(gt=0, le=10, description="Below 1 the rate falls, above 1 it grows [-].")
    reference: Duration = Field(gt=0, description="Age of the cluster up to which the mean rate is the stated one.")
    age: Duration = default("0 s", description="Age of the cluster at the start of the simulation.")


class SeasonalFactor(Model):
    """A pattern that repeats: one factor for each equal part of a period."""

    period: Duration = Field(gt=0, description="Length of the pattern, for example 1 d or 7 d.")
    factors: tuple[float, ...] = Field(
        min_length=1, description="Factor of each part; a mean of 1 keeps the mean rate."
    )

    def _broken_rules(self) -> "BrokenRules":
        if min(self.factors) < 0 or max(self.factors) == 0:
            yield ("factors",), "must not be negative, and one must be above zero"


class RandomEnvironment(Model):
    """The rate swings for unknown reasons: each interval of time has a Gamma factor with mean 1."""

    every: Duration = Field(gt=0, description="Length of an interval.")
    cv: float = Field(gt=0, le=10, description="Coefficient of variation of the factor [-].")
    shared: str = Field("cluster", min_length=1, description="Sources with the same name here swing together.")


class HazardModulation(Model):
    """Everything that changes the hazard of all units by the same factor; factors multiply."""

    trend: PowerLawTrend | None = Field(None, description="A lasting rise or fall.")
    calendar: SeasonalFactor | None = Field(None, description="A pattern of hours or weekdays.")
    swings: RandomEnvironment | None = Field(None, description="Random slow swings.")

    def _broken_rules(self) -> "BrokenRules":
        if self.trend is None and self.calendar is None and self.swings is None:
            yield (), "give at least one of trend, calendar and swings"

    def mean(self, horizon: float) -> float:
        """Return the mean of m over [0, horizon] [-], swings at their mean of 1."""
        mean = 1.0
        if self.trend is not None and horizon > 0:
            mean = (_power(self.trend, horizon) - _power(self.trend, 0.0)) / horizon
        if self.calendar is not None:
            mean *= sum(self.calendar.factors) / len(self.calendar.factors)
        return mean

    def realise(self, end: float, seed: int, replication: int) -> "OperationalTime":
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
        return OperationalTime(starts.tolist(), level.tolist(), self.trend)

    def _widths(self) -> list[float]:
        widths = []
        if self.calendar is not None:
            widths.append(self.calendar.period / len(self.calendar.factors))
        if self.swings is not None:
            widths.append(self.swings.every)
        return widths


def _power(trend: PowerLawTrend, time: float) -> float:
    """Return the integral of the trend from age zero to the age at `time` [s]."""
    return float(trend.reference * ((time + trend.age) / trend.reference) ** trend.exponent)


def _levels(
    swings: RandomEnvironment, stretch: "NDArray[np.int64]", seed: int, replication: int
) -> "NDArray[np.float64]":
    """Return the factors of stretches [-], shape (n,): a look-up by number, so a longer horizon keeps them."""
    from scipy.special import gammaincinv

    shape = swings.cv**-2
    number = rng.uniform(rng.stream(seed, replication, "swings", swings.shared), stretch)
    return np.asarray(gammaincinv(shape, number), dtype=np.float64) / shape


class OperationalTime:
    """M(t) and its inverse, piecewise between n + 1 `starts` [s] with n factors `level` [-]."""

    __slots__ = ("_base", "_level", "_reached", "_starts", "_trend")

    def __init__(self, starts: list[float], level: list[float], trend: PowerLawTrend | None) -> None:
        self._trend = trend
        self._starts = starts
        self._level = level
        self._base = starts if trend is None else [_power(trend, time) for time in starts]
        self._reached = [0.0]
        for factor, (start, end) in zip(level, itertools.pairwise(self._base), strict=True):
            self._reached.append(self._reached[-1] + factor * (end - start))

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
