"""Numbers that know where they come from: read from a document together with their place, and reckoned with.

A `Traced` number carries its places and the formula that leads from them to it through all arithmetic, so that whoever
reads a sentence can go back from its numbers to the results.
"""

from __future__ import annotations

import math
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from analysis.statistics import Interval

__all__ = ["Estimate", "Places", "Traced", "total"]

_KEY_OF_A_PLACE = str.maketrans({"~": "~0", "/": "~1"})
_LETTER = re.compile(r"\b[a-z]\b")


@dataclass(frozen=True)
class Traced:
    """A number and where it comes from; arithmetic keeps both.

    Parameters
    ----------
    value
        The number [SI].
    sources, formula
        As of `analysis.report.words.Number`.
    """

    value: float
    sources: tuple[str, ...]
    formula: str = "a"

    def __add__(self, other: Traced | float) -> Traced:
        """Return the sum."""
        return _combined(self, other, "+", lambda a, b: a + b)

    def __sub__(self, other: Traced | float) -> Traced:
        """Return the difference."""
        return _combined(self, other, "-", lambda a, b: a - b)

    def __rsub__(self, other: float) -> Traced:
        """Return the difference to a plain number, such as 1 - a share."""
        return _combined(Traced(other, (), _written(other)), self, "-", lambda a, b: a - b)

    def __mul__(self, other: Traced | float) -> Traced:
        """Return the product."""
        return _combined(self, other, "*", lambda a, b: a * b)

    def __truediv__(self, other: Traced | float) -> Traced:
        """Return the quotient."""
        return _combined(self, other, "/", lambda a, b: a / b)

    def __abs__(self) -> Traced:
        """Return the size."""
        return self if self.value >= 0 else Traced(-self.value, self.sources, f"abs({self.formula})")


class Estimate(NamedTuple):
    """A mean with its interval; both ends are ``None`` where there is none, or where it has no width."""

    mean: Traced
    low: Traced | None = None
    high: Traced | None = None

    @property
    def interval(self) -> Interval | None:
        """Both ends [SI]."""
        return None if self.low is None or self.high is None else (self.low.value, self.high.value)

    def changed(self, change: Callable[[Traced], Traced]) -> Estimate:
        """Return what a monotone function makes of it, such as a factor."""
        mean = change(self.mean)
        if self.low is None or self.high is None:
            return Estimate(mean)
        ends = sorted((change(self.low), change(self.high)), key=lambda end: end.value)
        return Estimate(mean, *ends)


@dataclass(frozen=True)
class Places:
    """A document that numbers are read from.

    Parameters
    ----------
    file
        Name of its file.
    content
        What it says.
    """

    file: str
    content: Any

    def get(self, *keys: str | int) -> Any:
        """Return what stands at a place; ``None`` where nothing does."""
        found = self.content
        for key in keys:
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def at(self, *keys: str | int) -> Traced | None:
        """Return the number at a place; ``None`` where there is none."""
        found = self.get(*keys)
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
            return None
        pointer = "".join(f"/{str(key).translate(_KEY_OF_A_PLACE)}" for key in keys)
        return Traced(found, (f"{self.file}#{pointer}",))

    def ends(self, *keys: str | int) -> tuple[Traced, Traced] | None:
        """Return the ends of an interval; ``None`` where there is none."""
        low, high = self.at(*keys, 0), self.at(*keys, 1)
        return None if low is None or high is None else (low, high)

    def estimate(self, *keys: str | int, interval: str = "mean_ci95") -> Estimate | None:
        """Return the mean of a summary or difference with its interval; ``None`` where the mean is null."""
        mean, ends = self.at(*keys, "mean"), self.ends(*keys, interval)
        if mean is None:
            return None
        # An interval without a width comes from runs that were all equal, and says nothing about others.
        is_told = ends is not None and ends[1].value - ends[0].value > 1e-9 * abs(mean.value)
        return Estimate(mean, *ends) if ends is not None and is_told else Estimate(mean)


def total(parts: Iterable[Traced]) -> Traced | None:
    """Return the sum of numbers; ``None`` without any."""
    found = list(parts)
    if not found:
        return None
    amount = found[0]
    for part in found[1:]:
        amount = amount + part
    return amount


def _combined(one: Traced, other: Traced | float, sign: str, function: Callable[[float, float], float]) -> Traced:
    """Return what an operation makes of two numbers; places that both rest on are named once."""
    if not isinstance(other, Traced):
        return Traced(
            function(one.value, other), one.sources, f"{_whole(one.formula)} {sign} {_whole(_written(other))}"
        )
    sources = tuple(dict.fromkeys((*one.sources, *other.sources)))
    assert len(sources) <= len(string.ascii_lowercase), "one letter for each place"
    formula = f"{_whole(_renamed(one, sources))} {sign} {_whole(_renamed(other, sources))}"
    return Traced(function(one.value, other.value), sources, formula)


def _renamed(found: Traced, sources: tuple[str, ...]) -> str:
    """Return a formula with the letters that its places have among others."""
    letters = {letter: string.ascii_lowercase[sources.index(place)] for letter, place in
               zip(string.ascii_lowercase, found.sources, strict=False)}  # fmt: skip
    return _LETTER.sub(lambda match: letters[match[0]], found.formula)


def _whole(formula: str) -> str:
    """Return a formula as one operand."""
    return f"({formula})" if " " in formula or formula.startswith("-") else formula


def _written(value: float) -> str:
    """Return a plain number as a formula has it."""
    return repr(float(value)).removesuffix(".0")
