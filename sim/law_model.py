"""What every law of times can do, and the two families that most laws belong to.

A law is a distribution of a time X >= 0, worked through its inverse CDF.

References
----------
E. W. Stacy, "A generalization of the gamma distribution", Annals of Mathematical Statistics 33 (1962): the family
that holds the exponential, Weibull and gamma laws. G. P. Patil, C. R. Rao, "Weighted distributions and size-biased
sampling", Biometrics 34 (1978): length-biased laws in closed form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import ConfigDict

from sim import units
from sim.fields import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GammaPower", "LawModel", "Steps"]


def _require_tag(schema: dict[str, Any]) -> None:
    """Make ``law`` required in the JSON Schema, as it is in a scenario; only Python code may leave it out."""
    schema["required"] = ["law", *schema.get("required", [])]


class LawModel(Model, ABC):
    """What every law can do; `u` is a uniform number in the open interval (0, 1), `x` a time [s]."""

    model_config = ConfigDict(json_schema_extra=_require_tag)
    _times: ClassVar[tuple[str, ...]]
    """Names of the parameters that are times; the others have no dimension."""

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
        update: dict[str, float | tuple[float, ...]] = {}
        for name in self._times:
            value = getattr(self, name)
            if value is not None:
                update[name] = tuple(item * factor for item in value) if isinstance(value, tuple) else value * factor
        return self.model_copy(update=update)

    @property
    def memoryless(self) -> bool:
        """Whether the time that remains does not depend on the age."""
        return False

    @property
    @abstractmethod
    def mean_value(self) -> float:
        """E[X] [s]; finite."""

    @abstractmethod
    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X <= x) [-], shape (n,), of times `x` [s], shape (n,)."""

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

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(stages, (x / scale)^power), with P the regularised lower incomplete gamma function.

        With one stage P(1, y) is 1 - exp(-y).
        """
        scale, stages, power = self._form()
        reduced = (np.maximum(x, 0.0) / scale) ** power
        if stages == 1:
            return np.asarray(-np.expm1(-reduced), dtype=np.float64)
        from scipy.special import gammainc

        return np.asarray(gammainc(stages, reduced), dtype=np.float64)

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
