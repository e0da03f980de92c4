"""Where a curve that is known at some values, each with its interval, crosses a level."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.statistics import Interval

__all__ = ["Crossing", "Curve"]


class Crossing(NamedTuple):
    """A place where a curve crosses a level.

    Parameters
    ----------
    at
        Where, on the axis.
    low, high
        95 % interval of that; ``None`` for an end that lies beyond the range, or is not known.
    before
        Position of the value before it; the next one is behind it.
    rises
        Whether the curve is above the level behind it.
    """

    at: float
    low: float | None
    high: float | None
    before: int
    rises: bool


@dataclass(frozen=True)
class Curve:
    """A metric along a numeric axis, straight between its values on the scale of the axis.

    The interval of a crossing is what a test of "the curve has the level here" at 5 % does not reject: all places
    around it where the interval of the curve has the level in it. Between two values the ends of the interval are
    straight lines too. That is wide enough: the spread of a weighted mean is at most the weighted mean of the spreads.
    So the interval covers as the intervals of the curve do, also exact ones of probabilities, and never contradicts
    them; where the curve is flat it may have no end on the range.

    Parameters
    ----------
    numbers
        Places on the axis, rising.
    means
        The curve there.
    intervals
        95 % intervals of the means; ``None`` where there is none.
    is_log
        Whether the axis has a logarithmic scale.

    References
    ----------
    E. C. Fieller, "Some problems in interval estimation", Journal of the Royal Statistical Society B 16 (1954), 175:
    the interval of a root by inverting a test, here of a curve of many pieces.
    """

    numbers: tuple[float, ...]
    means: tuple[float, ...]
    intervals: tuple[Interval | None, ...]
    is_log: bool = False

    def crossings(self, level: float) -> list[Crossing]:
        """Return where the curve passes from one side of a level to the other; the level itself is above."""
        above = [mean >= level for mean in self.means]
        found = []
        for before, (this, following) in enumerate(itertools.pairwise(above)):
            if this != following:
                at = self._place(before, self.means, level)
                low, high = self._around(before, level, rises=following)
                found.append(Crossing(at, low, high, before, following))
        return found

    def _around(self, before: int, level: float, *, rises: bool) -> tuple[float | None, float | None]:
        """Return the ends of the interval of a crossing behind a position."""
        if any(interval is None for interval in self.intervals):
            return None, None
        lows, highs = zip(*(interval for interval in self.intervals if interval is not None), strict=True)
        # Of a rising curve the upper end of the interval is the first to have the level in it.
        first, last = (highs, lows) if rises else (lows, highs)
        left = next((index for index in range(before, -1, -1) if (first[index] < level) == rises), None)
        right = next((index for index in range(before + 1, len(lows)) if (last[index] >= level) == rises), None)
        return (
            None if left is None else self._place(left, first, level),
            None if right is None else self._place(right - 1, last, level),
        )

    def _place(self, before: int, heights: Sequence[float], level: float) -> float:
        """Return where the straight line behind a position has a level."""
        (left, right), (low, high) = self.numbers[before : before + 2], heights[before : before + 2]
        share = (level - low) / (high - low)
        if self.is_log:
            return float(left * math.exp(share * math.log(right / left)))
        return left + share * (right - left)
