"""What every law of times can do, and the two families that most laws belong to.

A law is a distribution of a time X >= 0, worked through its inverse CDF. Laws are put together through their
cumulative hazard -ln P(X > x): one number that holds small probabilities of both tails in full.

References
----------
E. W. Stacy, "A generalization of the gamma distribution", Annals of Mathematical Statistics 33 (1962): the family
that holds the exponential, Weibull and gamma laws. G. P. Patil, C. R. Rao, "Weighted distributions and size-biased
sampling", Biometrics 34 (1978): length-biased laws in closed form.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from pydantic import ConfigDict, model_validator

from sim import units
from sim.scenario.fields import Model
from sim.units import YEAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sim.yamlfile import Data, Table

# ----------------------------------------
# From probabilities to cumulative hazards, and from cumulative hazards to times.
#
# The cumulative hazard H(x) = -ln P(X > x) grows from 0 to infinity. It is nearly P(X <= x) where that is small, and
# holds a small P(X > x) in its logarithm: neither tail is rounded away. The time of the uniform number u is the least x
# with H(x) >= -ln(1 - u).
#
# A law whose inverse has no closed form is inverted here. Between the times at which it bunches or its density jumps,
# ln H over ln x is smooth (straight for a Weibull law: W. Weibull, "A statistical distribution function of wide
# applicability", Journal of Applied Mechanics 18 (1951)), so that few steps of a bracketing method find the time to the
# last digits: T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
# function without using derivatives", Advances in Engineering Software 28 (1997), and R. P. Brent, *Algorithms for
# Minimization without Derivatives*, Prentice-Hall, 1973, chapter 4.

_TINY = sys.float_info.min

_HUGE = sys.float_info.max

# A few units in the last place of ln x, and of x where that is near one second.
_DIGITS = 4 * sys.float_info.epsilon


class WithHazard(Protocol):
    """What a law must tell to be inverted; the same in words as in `sim.scenario.law_model.LawModel`."""

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times [s] at which lives bunch, or at which the density jumps."""

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln P(X > x) [-], shape (n,), of times `x` [s], shape (n,)."""

    def cumulative_hazard_one(self, x: float) -> float:
        """Return `cumulative_hazard` of one time [-]."""


def hazard_of(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -ln P(X > x) [-] of P(X <= x) and P(X > x), by the smaller of the two; all of shape (n,)."""
    with np.errstate(divide="ignore"):  # nothing is left above: the hazard is infinite
        return np.where(below < 0.5, -np.log1p(-np.minimum(below, 0.5)), -np.log(above))


def hazard_of_one(below: float, above: float) -> float:
    """Return `hazard_of` two numbers [-]."""
    if below < 0.5:
        return -math.log1p(-below)
    return -math.log(above) if above > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Knots:
    """The breaks of a law: times [s] in order, and the cumulative hazards [-] at each and just before it.

    A last knot at the end of time saves all questions whether there is a next one.
    """

    times: Sequence[float]
    at: Sequence[float]
    before: Sequence[float]


def knots_of(law: WithHazard, *, length_biased: bool = False) -> Knots:
    """Return the knots of a law."""
    times = np.array(sorted(set(law.breaks)), dtype=np.float64)
    # Rounding must not make a hazard fall: the knots are searched by it.
    at = np.maximum.accumulate(law.cumulative_hazard(times, length_biased=length_biased))
    before = law.cumulative_hazard(np.nextafter(times, -np.inf), length_biased=length_biased)
    return Knots(*([*column.tolist(), math.inf] for column in (times, at, before)))


def smallest_times(
    law: WithHazard,
    u: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    *,
    length_biased: bool = False,
) -> NDArray[np.float64]:
    """Return the inverse CDF of a law.

    Parameters
    ----------
    law
        The law.
    u
        Uniform numbers in (0, 1) [-], shape (n,).
    low, high
        Times between which the answer is [s], shape (n,) each.
    length_biased
        Whether to invert the law of the length-biased life.

    Returns
    -------
    NDArray[np.float64]
        The smallest x with P(X <= x) >= u [s], shape (n,): exact at the breaks, else right to about 1e-14.
    """
    from scipy.optimize.elementwise import find_root

    target = -np.log1p(-u)
    knots = knots_of(law, length_biased=length_biased)
    times = np.array(knots.times)
    place = np.searchsorted(knots.at[:-1], target, side="left")
    result: NDArray[np.float64] = times[place]
    smooth = np.flatnonzero(target <= np.array(knots.before)[place])
    target, place = target[smooth], place[smooth]
    low = np.maximum(low[smooth], np.maximum(np.concatenate([[0.0], times])[place], _TINY))
    high = np.clip(high[smooth], low, times[place])

    def miss(log_x: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.float64]:
        hazard = law.cumulative_hazard(np.exp(log_x), length_biased=length_biased)
        return np.log(np.clip(hazard, _TINY, _HUGE)) - goal

    goal, ends = np.log(target), (np.log(low), np.log(high))
    found = find_root(
        miss, ends, args=(goal,), tolerances={"xatol": _DIGITS, "xrtol": _DIGITS, "fatol": 0.0, "frtol": 0.0}
    )
    # Without a change of sign the answer is one of the ends, to rounding.
    end = np.where(miss(ends[1], goal) < 0, high, low)
    result[smooth] = np.where(found.success, np.clip(np.exp(found.x), low, high), end)
    return result


def smallest_time(law: WithHazard, u: float, low: float, high: float, knots: Knots) -> float:
    """Return `smallest_times` of one number [s], given the knots of the law."""
    from scipy.optimize import brentq

    target = -math.log1p(-u)
    place = bisect_left(knots.at, target, hi=len(knots.at) - 1)
    if target > knots.before[place]:
        return knots.times[place]
    low = max(low, knots.times[place - 1] if place else _TINY, _TINY)
    high = min(max(high, low), knots.times[place])
    goal = math.log(target)

    def miss(log_x: float) -> float:
        return math.log(min(max(law.cumulative_hazard_one(math.exp(log_x)), _TINY), _HUGE)) - goal

    try:
        found = math.exp(float(brentq(miss, math.log(low), math.log(high), xtol=_DIGITS, rtol=_DIGITS)))
    except ValueError:  # no change of sign: the answer is one of the ends, to rounding
        return high if miss(math.log(high)) < 0 else low
    return min(max(found, low), high)


def _require_tag(schema: Table) -> None:
    """Make ``use`` required in the JSON Schema, as it is in a scenario; only Python code may leave it out."""
    schema["required"] = ["use", *schema.get("required", [])]


class LawModel(Model, ABC):
    """What every law can do; `u` is a uniform number in the open interval (0, 1), `x` a time [s]."""

    model_config = ConfigDict(json_schema_extra=_require_tag)
    _times: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that are times; the others have no dimension."""
    _longest_mean: ClassVar[float] = 1e12 * YEAR

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        # One validator for all laws: it needs the mean, and the mean needs parameters that fit together.
        self._check()
        try:
            mean = self.mean_value
        except OverflowError:
            mean = math.inf
        if not mean <= self._longest_mean:
            raise ValueError("the mean of this law is not finite, or above 1e12 years")
        return self

    def _check(self) -> None:
        """Raise a ValueError if parameters that are right one by one do not fit together."""

    @classmethod
    def from_seconds(cls, **parameters: float | tuple[float, ...]) -> Self:
        """Return the law with these parameters, its times as numbers [s] instead of text with a unit.

        Raises
        ------
        pydantic.ValidationError
            If a parameter is impossible; it is a ValueError.
        """

        def text(value: float | tuple[float, ...]) -> Data:
            return [text(item) for item in value] if isinstance(value, tuple) else units.show(value, units.DURATION)

        return cls(**{name: text(value) if name in cls._times else value for name, value in parameters.items()})

    def scaled(self, factor: float) -> Self:
        """Return the same law of the time ``factor * X``.

        Parameters
        ----------
        factor
            Positive and finite [-].

        Raises
        ------
        ValueError
            If the factor is not positive and finite.
        """
        if not 0 < factor < math.inf:
            raise ValueError(f"the factor of a law must be positive and finite, not {factor}")
        return self.model_copy(update=self._scaled_parameters(factor))

    def _scaled_parameters(self, factor: float) -> Table:
        """Return the parameters of the law of ``factor * X`` that differ from this law's."""
        update: Table = {}
        for name in self._times:
            value = getattr(self, name)
            if value is not None:
                update[name] = tuple(item * factor for item in value) if isinstance(value, tuple) else value * factor
        return update

    @property
    def memoryless(self) -> bool:
        """Whether the time that remains does not depend on the age."""
        return False

    @property
    def proportional(self) -> bool:
        """Whether a hazard ratio only stretches time: P(X > x)^ratio is P(X > x / factor) for some factor."""
        return False

    def stretch(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return that factor [-] for hazard ratios [-], shape (n,), of a law that is `proportional`."""
        raise NotImplementedError

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times [s] at which lives bunch, or at which the density jumps; elsewhere the law is smooth."""
        return ()

    @property
    @abstractmethod
    def mean_value(self) -> float:
        """E[X] [s]; finite."""

    @abstractmethod
    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X <= x) [-], shape (n,), of times `x` [s], shape (n,)."""

    @abstractmethod
    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln P(X > x) [-], shape (n,), of times `x` [s], shape (n,).

        Parameters
        ----------
        x
            Times [s].
        length_biased
            Whether X has the density x f(x) / E[X] instead of f(x).
        """

    @abstractmethod
    def cumulative_hazard_one(self, x: float) -> float:
        """Return `cumulative_hazard` of one time [-], fast."""

    @abstractmethod
    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest x [s] with P(X <= x) >= u, shape (n,), of `u`, shape (n,)."""

    @abstractmethod
    def ppf_one(self, u: float) -> float:
        """Return `ppf` of one number [s], fast; equal within 1e-12 of its value."""

    @abstractmethod
    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse CDF of the density x f(x) / E[X] [s], shape (n,), of `u`, shape (n,)."""


class GammaPower(LawModel, ABC):
    """X = scale G^(1 / power), where G has the gamma law with `stages` as its shape and scale 1 (Stacy 1962)."""

    @abstractmethod
    def _form(self) -> tuple[float, float, float]:
        """Return scale [s], stages [-] and power [-]."""

    @property
    def memoryless(self) -> bool:
        """Whether it is the exponential law."""
        return self._form()[1:] == (1, 1)

    @property
    def proportional(self) -> bool:
        """Whether there is one stage: the hazard is then a power of the age."""
        return self._form()[1] == 1

    def stretch(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ratio^(-1 / power)."""
        return np.asarray(ratio ** (-1 / self._form()[2]), dtype=np.float64)

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(stages, (x / scale)^power), with P the regularised lower incomplete gamma function.

        With one stage P(1, y) is 1 - exp(-y).
        """
        stages, reduced = self._form()[1], self._reduced(x)
        if stages == 1:
            return np.asarray(-np.expm1(-reduced), dtype=np.float64)
        from scipy.special import gammainc

        return np.asarray(gammainc(stages, reduced), dtype=np.float64)

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln Q(stages, (x / scale)^power), with Q = 1 - P; with one stage it is (x / scale)^power."""
        _, stages, power = self._form()
        reduced = self._reduced(x)
        if length_biased:
            stages += 1 / power
        if stages == 1:
            return reduced
        from scipy.special import gammainc, gammaincc

        return hazard_of(np.asarray(gammainc(stages, reduced)), np.asarray(gammaincc(stages, reduced)))

    def cumulative_hazard_one(self, x: float) -> float:
        """Return `cumulative_hazard` of one time."""
        scale, stages, power = self._form()
        try:
            reduced = float((max(x, 0.0) / scale) ** power)
        except OverflowError:
            return math.inf
        if stages == 1:
            return reduced
        from scipy.special import gammainc, gammaincc

        return hazard_of_one(float(gammainc(stages, reduced)), float(gammaincc(stages, reduced)))

    def _reduced(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (x / scale)^power [-], shape (n,); 0 below 0."""
        scale, _, power = self._form()
        with np.errstate(over="ignore"):  # a high power of many scales is infinite, and its probability 1
            return np.asarray((np.maximum(x, 0.0) / scale) ** power, dtype=np.float64)

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scale (P^-1(stages, u))^(1 / power); with one stage, P^-1 is -ln(1 - u)."""
        scale, stages, power = self._form()
        stage = -np.log1p(-u) if stages == 1 else _gamma_quantile(stages, u)
        return np.asarray(scale * stage ** (1 / power), dtype=np.float64)

    def ppf_one(self, u: float) -> float:
        """Return `ppf` of one number."""
        scale, stages, power = self._form()
        stage = -math.log1p(-u) if stages == 1 else float(_gamma_quantile(stages, u))
        return float(scale * stage ** (1 / power))

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `ppf` with 1 / power more stages: the factor x of the density adds to the exponent of G."""
        scale, stages, power = self._form()
        return np.asarray(scale * _gamma_quantile(stages + 1 / power, u) ** (1 / power), dtype=np.float64)


def _gamma_quantile(stages: float, u: Any) -> Any:
    """Return P^-1(stages, u) [-], of a number or of an array of shape (n,)."""
    from scipy.special import gammaincinv

    return gammaincinv(stages, u)


class Steps(LawModel, ABC):
    """Each value of a sample with probability 1 / n."""

    @abstractmethod
    def _sample(self) -> tuple[float, ...]:
        """Return the values [s] in ascending order."""

    @property
    def mean_value(self) -> float:
        """Mean of the sample [s]."""
        return math.fsum(self._sample()) / len(self._sample())

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of the sample that is at most x."""
        sample = np.array(self._sample(), dtype=np.float64)
        return np.searchsorted(sample, x, side="right") / np.float64(len(sample))

    @property
    def breaks(self) -> tuple[float, ...]:
        """The values of the sample, each once."""
        return tuple(dict.fromkeys(self._sample()))

    def cumulative_hazard(self, x: NDArray[np.float64], *, length_biased: bool = False) -> NDArray[np.float64]:
        """Return -ln of the share of the sample, or of its sum, that is above x."""
        if not length_biased:
            below = self.cdf(x)
        else:
            sample = np.array(self._sample(), dtype=np.float64)
            sums = np.concatenate([[0.0], np.cumsum(sample)])
            below = sums[np.searchsorted(sample, x, side="right")] / sums[-1]
        return hazard_of(below, 1 - below)

    def cumulative_hazard_one(self, x: float) -> float:
        """Return -ln of the share of the sample that is above x."""
        sample = self._sample()
        below = bisect_right(sample, x) / len(sample)
        return hazard_of_one(below, 1 - below)

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the order statistic of rank ceil(u n)."""
        sample = np.array(self._sample(), dtype=np.float64)
        return sample[np.ceil(u * len(sample)).astype(np.int64) - 1]

    def ppf_one(self, u: float) -> float:
        """Return the order statistic of rank ceil(u n)."""
        sample = self._sample()
        return sample[math.ceil(u * len(sample)) - 1]

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the step quantile in which each value weighs in proportion to itself."""
        sample = np.array(self._sample(), dtype=np.float64)
        weights: NDArray[np.float64] = np.cumsum(sample)
        # Searching from the left passes over zeros, and u < 1 keeps the position inside.
        lives: NDArray[np.float64] = sample[np.searchsorted(weights, u * weights[-1], side="left")]
        return lives
