"""How the hazard of a source changes in time for all its units alike: trend, calendar, slow swings.

The hazard is multiplied by m(t). A life then runs in *operational time* M(t) = integral of m, and ends at M^-1 of its
end there. That is exact for every law, with or without memory, so nothing is thinned.

References
----------
L. H. Crow, "Reliability analysis for complex, repairable systems", 1974 (power-law trend). D. R. Cox, "Some statistical
methods connected with series of events", Journal of the Royal Statistical Society B 17 (1955): random swings of a rate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field, model_validator

from sim import rng
from sim.scenario.fields import Duration, Model, RuleError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
