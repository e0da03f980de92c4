"""Lives with a constant hazard from one age to the next: burn-in, useful life, wear-out.

Between two ages the life is exponential, so that everything is a sum over pieces in closed form, except for the inverse
of the length-biased law.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from sim import rates, units
from sim.fields import Model, RuleError
from sim.law_hazard import hazard_of, smallest_times
from sim.law_kinds import PositiveDuration
from sim.law_model import LawModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HazardPiece", "HazardRate", "Piecewise"]


_EXAMPLE = "0.2 per year"


def _parse(value: object) -> float:
    """Return a hazard [1/s]."""
    try:
        rate = rates.parse_rate(value)
    except units.UnitError as error:
        raise units.UnitError(str(error).replace("6.5 per 1000 node-day", _EXAMPLE)) from None
    if rate.of:
        message = f"a hazard is that of one unit: write '{_EXAMPLE}', without '{rate.of}'"
        raise units.UnitError(message)
    return rate.per_second


def _show(per_second: float) -> str:
    """Return the text of a hazard [1/s]."""
    return rates.show_rate(rates.Rate(per_second, ""))


HazardRate = Annotated[
    float,
    BeforeValidator(_parse),
    PlainSerializer(_show),
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

    law: Literal["piecewise"] = "piecewise"
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
            rule = (
                "the last hazard must be above zero: who gets that old would never fail, and the mean life is infinite"
            )
            raise RuleError(("hazards", last, "rate"), rule)

    def _scaled_parameters(self, factor: float) -> dict[str, Any]:
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
        starts, rates_, hazards = self._columns
        place = bisect_right(starts, max(x, 0.0)) - 1
        return hazards[place] + rates_[place] * (max(x, 0.0) - starts[place])

    def ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time at which the cumulative hazard reaches -ln(1 - u)."""
        pieces, target = self._pieces, -np.log1p(-u)
        place = np.searchsorted(pieces.hazard[1:], target, side="left")
        time: NDArray[np.float64] = pieces.start[place] + (target - pieces.hazard[place]) / pieces.rate[place]
        return time

    def ppf_one(self, u: float) -> float:
        """Return the time at which the cumulative hazard reaches -ln(1 - u)."""
        target = -math.log1p(-u)
        starts, rates_, hazards = self._columns
        place = bisect_left(hazards, target, lo=1) - 1
        return starts[place] + (target - hazards[place]) / rates_[place]

    def length_biased_ppf(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numerical inverse; there is none in closed form."""
        last = self._pieces.start[-1:]
        more = np.maximum(-np.log1p(-u) - self.cumulative_hazard(last, length_biased=True), 0.0)
        # What is left in the last piece is at most a sum of two exponential times: z - ln(1 + z) = more.
        high = last + 2 * (more + np.sqrt(more)) / self._pieces.rate[-1]
        return smallest_times(self, u, self.ppf(u), high, length_biased=True)
