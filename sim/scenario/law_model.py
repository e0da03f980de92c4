"""The methods of every law of times, and the two families that most laws belong to.

A law is a distribution of a time X >= 0, drawn by its inverse CDF. Laws are put together through their cumulative
hazard -ln P(X > x): nearly P(X <= x) where that is small, and the logarithm of a small P(X > x), so that neither tail
is rounded away. Draws are evaluated one by one by the functions of `ettrick.sim.quantiles`; vectors serve integrals.

References
----------
E. W. Stacy, "A generalization of the gamma distribution", Annals of Mathematical Statistics 33 (1962): the family
that holds the exponential, Weibull and gamma laws. G. P. Patil, C. R. Rao, "Weighted distributions and size-biased
sampling", Biometrics 34 (1978): length-biased laws in closed form.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import ConfigDict

from ettrick.sim import quantiles, units
from ettrick.sim.scenario.fields import Model
from ettrick.sim.units import YEAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.yamlfile import Data, Table


def hazard_of(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -ln P(X > x) [-] of P(X <= x) and P(X > x), by the smaller of the two; all of shape (n,)."""
    with np.errstate(divide="ignore"):  # nothing is left above: the hazard is infinite
        return np.where(below < 0.5, -np.log1p(-np.minimum(below, 0.5)), -np.log(above))


def _require_tag(schema: Table) -> None:
    """Make ``use`` required in the JSON Schema, as it is in a scenario; only Python code may leave it out."""
    schema["required"] = ["use", *schema.get("required", [])]


class LawModel(Model, ABC):
    """A law of times; `u` is a uniform number in the open interval (0, 1), `x` a time [s]."""

    model_config = ConfigDict(json_schema_extra=_require_tag)
    _times: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that are times; the others have no dimension."""
    _longest_mean: ClassVar[float] = 1e12 * YEAR

    def _broken_rules(self) -> BrokenRules:
        # One validator for all laws: it needs the mean, and the mean needs parameters that fit together.
        self._check()
        try:
            mean = self.mean_value
        except OverflowError:
            mean = math.inf
        if not mean <= self._longest_mean:
            yield (), "the mean of this law is not finite, or above 1e12 years"

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

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, ...]:
        """The law as `ettrick.sim.quantiles` reads it."""

    @abstractmethod
    def cumulative_hazard(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return -ln P(X > x) [-], shape (n,), of times `x` [s], shape (n,)."""

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X <= x) [-], shape (n,), of times `x` [s], shape (n,)."""
        return np.asarray(-np.expm1(-self.cumulative_hazard(x)), dtype=np.float64)

    def renewals(self, length: float) -> float:
        """Return about how many lives end one after another in some time [-].

        It is ``length / E[X]``, or ``length / E[min(X, length)] - 1`` where that is more: where most lives are far
        below their mean. The truth is at most twice the latter, and one more.

        References
        ----------
        K. B. Erickson, "The strong law of large numbers when the mean is undefined", Transactions of the American
        Mathematical Society 185 (1973), 371: bounds of the renewal function by the truncated mean.
        """
        if self.memoryless:
            return length / self.mean_value
        times = np.geomspace(1e-30 * length, length, 2000)
        truncated = times[0] + float(np.trapezoid(np.exp(-self.cumulative_hazard(times)), times))
        return float(max(length / self.mean_value, length / truncated - 1))

    def cumulative_hazard_one(self, x: float) -> float:
        """Return -ln P(X > x) [-] of one time [s]."""
        return quantiles.cumulative_hazard(self.parameters, 0, x, False)

    def reach(self, x: float) -> float:
        """Return a number [-] that the uniform numbers of all lives up to x [s] are below, and hardly any other."""
        return -math.expm1(-self.cumulative_hazard_one(x)) * (1 + 1e-9)

    def ppf_one(self, u: float) -> float:
        """Return the smallest x [s] with P(X <= x) >= u."""
        return quantiles.quantile(self.parameters, 0, u)

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `ppf_one` of each number [s], shape (n,), of `u`, shape (n,)."""
        p = self.parameters
        return np.array([quantiles.quantile(p, 0, number) for number in u.tolist()], dtype=np.float64)

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse CDF of the density x f(x) / E[X] [s], shape (n,), of `u`, shape (n,)."""
        p = self.parameters
        return np.array([quantiles.biased_quantile(p, 0, number) for number in u.tolist()], dtype=np.float64)


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

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """Scale [s], stages [-] and power [-]."""
        return quantiles.GAMMA_POWER, *self._form()

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `ppf_one` of each number [s], shape (n,), to the bit; with one stage in a few passes over all."""
        scale, stages, power = self._form()
        if stages != 1:
            return super().ppf(u)
        # numpy's logarithm and power have other bits; its products have the same.
        stage = -np.fromiter(map(math.log1p, (-u).tolist()), np.float64, len(u))
        if power != 1:
            stage = np.fromiter(map(math.pow, stage.tolist(), itertools.repeat(1 / power)), np.float64, len(u))
        return scale * stage

    def cumulative_hazard(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return -ln Q(stages, (x / scale)^power), with Q the regularised upper incomplete gamma function."""
        scale, stages, power = self._form()
        with np.errstate(over="ignore"):  # a high power of many scales is infinite, and its probability 1
            reduced = np.asarray((np.maximum(x, 0.0) / scale) ** power, dtype=np.float64)
        if stages == 1:
            return reduced
        from scipy.special import gammainc, gammaincc

        return hazard_of(np.asarray(gammainc(stages, reduced)), np.asarray(gammaincc(stages, reduced)))


class EmpiricalCdf(LawModel, ABC):
    """Each value of a sample with probability 1 / n."""

    @abstractmethod
    def _sample(self) -> tuple[float, ...]:
        """Return the values [s] in ascending order."""

    @property
    def mean_value(self) -> float:
        """Mean of the sample [s]."""
        return math.fsum(self._sample()) / len(self._sample())

    @functools.cached_property
    def parameters(self) -> tuple[float, ...]:
        """The sample and its partial sums [s]."""
        sample = self._sample()
        return quantiles.STEPS, len(sample), *sample, *itertools.accumulate(sample)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The values of the sample, each once."""
        return tuple(dict.fromkeys(self._sample()))

    def cumulative_hazard(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return -ln of the share of the sample that is above x."""
        below = self.cdf(x)
        return hazard_of(below, 1 - below)

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of the sample that is at most x."""
        sample = np.array(self._sample(), dtype=np.float64)
        return np.searchsorted(sample, x, side="right") / np.float64(len(sample))
