"""Compressed sparse rows, and dataclasses whose arrays nobody may write."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Span: TypeAlias = "slice | NDArray[np.int64]"

"""Positions in an array: a slice where they follow each other, because that is faster."""


class Rows(NamedTuple):
    """Compressed sparse rows: row ``i`` holds ``items[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    offsets : (rows + 1,) int64
        First position of each row [-].
    items : (offsets[-1],) int64
        What the rows hold, ascending within a row [-].
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int64]

    def row(self, number: int) -> NDArray[np.int64]:
        """Return one row."""
        return self.items[self.offsets[number] : self.offsets[number + 1]]

    def spans(self) -> list[Span]:
        """Return each row as positions in another array."""
        found: list[Span] = []
        for number in range(self.offsets.size - 1):
            row = self.row(number)
            consecutive = row.size > 0 and row[-1] - row[0] + 1 == row.size
            found.append(slice(int(row[0]), int(row[-1]) + 1) if consecutive else row)
        return found

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of each row's values, (rows,)."""
        starts, ends = self.offsets[:-1], self.offsets[1:]
        filled = starts < ends
        if np.count_nonzero(filled) == filled.size:
            whole: NDArray[np.float64] = np.add.reduceat(values.take(self.items), starts)
            return whole
        answer = np.zeros(starts.size)
        answer[filled] = np.add.reduceat(values.take(self.items), starts[filled])
        return answer


class ReadOnly:
    """Base of frozen dataclasses whose arrays nobody may write, not even in a copy in another process."""

    def __post_init__(self) -> None:
        """Make the arrays read-only: replications share them."""
        for array in _arrays([getattr(self, name) for name in _names(self)]):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through the constructor."""
        return type(self), tuple(getattr(self, name) for name in _names(self))


def rows(keys: NDArray[np.integer], count: int) -> Rows:
    """Return for each of `count` keys the positions that have it."""
    return Rows(offsets_of(np.bincount(keys, minlength=count)), np.argsort(keys, kind="stable"))


def numbers(span: Span) -> range | list[int]:
    """Return the positions one by one."""
    if isinstance(span, slice):
        return range(span.start, span.stop)
    positions: list[int] = span.tolist()
    return positions


def offsets_of(sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where rows of these sizes begin, and where the last one ends, (rows + 1,) [-]."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its size says, one range after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return numbers


def sums(keys: NDArray[np.integer], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the sum of the values of each of `count` keys."""
    total: NDArray[np.float64] = np.bincount(keys, values, minlength=count).astype(np.float64, copy=False)
    return total


def _names(value: Any) -> list[str]:
    return [field.name for field in fields(value)]


def _arrays(values: Any) -> list[NDArray[Any]]:
    """Return the arrays in a sequence and in the tuples that it holds."""
    found = [value for value in values if isinstance(value, np.ndarray)]
    return found + [array for value in values if isinstance(value, tuple) for array in _arrays(value)]


# ----------------------------------------
# What is left of the switches, in whole units of bandwidth, so that what failed and was mended leaves no trace.

_FASTEST = 2.0**30

"""Units in the fastest cable: eight million of these add up without rounding."""

ROUNDING = 1e-8

"""Losses up to this come from speeds that are no whole number of units, and are none [-]."""


class Capacity(NamedTuple):
    """What is left of the switches; the arrays belong to who asked for them.

    Attributes
    ----------
    alive : (switches,) float64
        1 for a living switch, 0 for a dead one [-].
    living : (cables,) float64
        Bandwidth of each cable between switches, 0 if it is dead.
    up, down : (switches,) float64
        Living cables of each switch to living upper ones, and to living lower ones. A leaf switch has its access cables
        below it, dead or alive.
    """

    alive: NDArray[np.float64]
    living: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]


def whole_units(bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bandwidths as whole multiples of a small part of the largest one [-]."""
    units: NDArray[np.float64] = np.rint(bandwidth / bandwidth.max() * _FASTEST)
    return units
