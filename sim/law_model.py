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
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import ConfigDict, model_validator

from sim import units
from sim.fields import Model
from sim.law_hazard import hazard_of, hazard_of_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GammaPower", "LawModel", "Steps"]


def _require_tag(schema: dict[str, Any]) -> None:
    """Make ``law`` required in the JSON Schema, as it is in a scenario; only Python code may leave it out."""
    schema["required"] = ["law", *schema.get("required", [])]


class LawModel(Model, ABC):
    """What every law can do; `u` is a uniform number in the open interval (0, 1), `x` a time [s]."""

    model_config = ConfigDict(json_schema_extra=_require_tag)
    _times: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that are times; the others have no dimension."""
    _longest_mean: ClassVar[float] = 1e12 * units.DURATION.units["year"]

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        # One validator for all laws: it needs the mean, and the mean needs parameters that fit together.
        self._check()
        try:
            mean = self.mean_value
        except OverflowError:
            mean = math.inf
        if not mean <= self._longest_mean:
            message = "the mean of this law is not finite, or above 1e12 years"
            raise ValueError(message)
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

        def text(value: float | tuple[float, ...]) -> Any:
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
            message = f"the factor of a law must be positive and finite, not {factor}"
            raise ValueError(message)
        return self.model_copy(update=self._scaled_parameters(factor))

    def _scaled_parameters(self, factor: float) -> dict[str, Any]:
        """Return the parameters of the law of ``factor * X`` that differ from this law's."""
        update: dict[str, Any] = {}
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
