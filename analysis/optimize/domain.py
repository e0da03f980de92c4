"""Where an optimum is looked for: what each chosen axis of a study may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.study.amounts import amounts_of

if TYPE_CHECKING:
    from analysis.study.axis import Axis
    from analysis.study.value import Value

__all__ = ["Domain", "Line", "Options", "domain_of"]

_NARROW = 0.01
"""Share of a range, or of a value on a log scale, below which two values are not told apart [-]."""

_DIGITS = 3
"""Significant digits of the values that are tried: more would say nothing, and would be awkward to write down."""


@dataclass(frozen=True)
class Options:
    """Values without an order.

    Parameters
    ----------
    values
        All of them.
    """

    values: tuple[Value, ...]

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.values)


@dataclass(frozen=True)
class Line:
    """Numbers in their order: steps that are written down, whole numbers, or everything between two ends.

    Parameters
    ----------
    name, axis
        The axis.
    steps
        The values, lowest first; empty where there are too many to be listed, or all between two ends count.
    """

    name: str
    axis: Axis
    steps: tuple[Value, ...] = ()

    @property
    def size(self) -> int | None:
        """How many values there are; ``None`` for more than can be counted."""
        if self.steps:
            return len(self.steps)
        low, high = self.ends
        return round(high - low) + 1 if self.is_whole else None

    @property
    def values(self) -> tuple[Value, ...]:
        """All values, lowest first; only of a line that has a size."""
        low, high = (round(end) for end in self.ends) if not self.steps else (0, -1)
        return self.steps or tuple(self.value(float(number)) for number in range(low, high + 1))

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest number."""
        if self.steps:
            return _place(self.steps[0]), _place(self.steps[-1])
        assert self.axis.range is not None
        return self.axis.range.ends

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.axis.range is not None and self.axis.range.whole

    @property
    def is_log(self) -> bool:
        """Whether equal factors count as equal distances."""
        return self.axis.range is not None and self.axis.range.scale == "log"

    def value(self, number: float) -> Value:
        """Return a number of the line as a value, to `_DIGITS` digits in a near unit where it is not whole."""
        low, high = self.ends
        amounts = amounts_of(self.axis.amounts)
        if amounts.dimension is not None or amounts.unit:
            number = amounts_of([amounts.label(number, _DIGITS)]).numbers[0]
        elif not self.is_whole:
            number = float(f"{number:.{_DIGITS}g}")
        return self.axis.value(self.name, min(max(number, low), high))

    def label(self, number: float) -> str:
        """Return a number of the line as tables show it."""
        return amounts_of(self.axis.amounts).label(number)

    def spread(self, count: int) -> list[Value]:
        """Return about so many values, evenly spread, both ends among them."""
        if self.steps:
            last = len(self.steps) - 1
            return [self.steps[index] for index in sorted({round(last * k / (count - 1)) for k in range(count)})]
        assert self.axis.range is not None
        found = [self.value(self.axis.range.at(k / (count - 1))) for k in range(count)]
        return list({value.settings: value for value in found}.values())

    def between(self, low: Value, high: Value) -> Value | None:
        """Return the value in the middle of two; ``None`` if nothing lies between them that could be told apart."""
        if self.steps:
            first, last = self.steps.index(low), self.steps.index(high)
            return self.steps[(first + last) // 2] if last - first > 1 else None
        a, b = _place(low), _place(high)
        if not self.is_whole and (b < a * (1 + _NARROW) if self.is_log else b - a < _NARROW * self._width):
            return None
        found = self.value(math.sqrt(a * b) if self.is_log else (a + b) / 2)
        return None if found.settings in (low.settings, high.settings) else found

    def beside(self, value: Value) -> list[Value]:
        """Return the next values on both sides, where there are such."""
        if self.steps:
            at = self.steps.index(value)
            return [self.steps[index] for index in (at - 1, at + 1) if 0 <= index < len(self.steps)]
        low, high = self.ends
        numbers = (_place(value) - 1, _place(value) + 1) if self.is_whole else ()
        return [self.value(number) for number in numbers if low <= number <= high]

    @property
    def _width(self) -> float:
        low, high = self.ends
        return high - low


Domain = Line | Options


def domain_of(name: str, axis: Axis) -> Domain:
    """Return where the values of a chosen axis lie.

    A range without a step stands for everything between its ends, or all whole numbers; its number of points is for
    sweeps. With a step, and for choices that are numbers, just these are tried.
    """
    if axis.range is not None:
        line = Line(name, axis)
        steps = axis.range.step != ""
        return Line(name, axis, tuple(map(line.value, axis.range.numbers()))) if steps else line
    values = axis.values(name)
    if len(values) > 1 and axis.is_numeric and len({value.number for value in values}) == len(values):
        return Line(name, axis, tuple(sorted(values, key=_place)))
    return Options(values)


def _place(value: Value) -> float:
    assert value.number is not None
    return value.number
