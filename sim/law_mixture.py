"""Lives of several kinds of units that nobody can tell apart: each kind with a share and a law of its own."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from sim.fields import Fraction, Model, OneOf, RuleError
from sim.law_hazard import Knots, hazard_of, hazard_of_one, knots_of, smallest_time, smallest_times
from sim.law_kinds import Empirical, Exponential, Fixed, Gamma, Lognormal, TextIsFixed, Uniform, Weibull
from sim.law_model import LawModel
from sim.law_piecewise import Piecewise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Mixture", "MixturePart", "PlainLaw", "PlainLaws"]

PlainLaws: TypeAlias = Exponential | Weibull | Gamma | Lognormal | Uniform | Empirical | Fixed | Piecewise
PlainLaw = Annotated[PlainLaws, OneOf("law"), TextIsFixed()]

_ROUNDING = 1e-9


class MixturePart(Model):
    """One kind of units: how many of all, and the law of their lives."""

    weight: Fraction = Field(gt=0, description="Share of all units; the shares of all parts sum to 1.")
    law: PlainLaw = Field(description="Law of this part; any but a mixture.")


class Mixture(LawModel):
    """A unit belongs to one of several populations by chance, and lives by that one's law."""

    law: Literal["mixture"] = "mixture"
    parts: tuple[MixturePart, ...] = Field(min_length=2, description="The populations: weights and laws.")

    def _check(self) -> None:
        total = math.fsum(part.weight for part in self.parts)
        if abs(total - 1) > _ROUNDING:
            raise RuleError(("parts",), f"the weights must sum to 1, not to {total:.12g}")
        if not any(part.law.mean_value for part in self.parts):
            raise RuleError(("parts",), "give at least one part with a mean above zero")

    def _scaled_parameters(self, factor: float) -> dict[str, Any]:
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
