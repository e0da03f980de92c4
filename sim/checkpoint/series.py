"""Work that stops a job again and again: several series of it, each due after so much stepping.

Series count time spent stepping and know nothing of each other. Where some are due at the same instant, stepping stops
once, for as long as all of them take.
"""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TIE", "Grid", "Reached", "in_flight", "whole"]

TIE = 1e-9
"""Relative difference below which two times, or two amounts of work, are the same [-]."""


def whole(number: float) -> int:
    """Return `number` rounded up, where a whole number that rounding has moved stays what it was."""
    return math.ceil(number - TIE)


def in_flight(stepped: float, step: float) -> float:
    """Return how much of some stepping [s] belongs to a step that is not over, of `step` [s] each; 0 without steps."""
    if step <= 0:
        return 0.0
    steps = stepped / step
    return max(stepped - math.floor(steps + TIE * (1.0 + steps)) * step, 0.0)


Reached: TypeAlias = tuple[float, list[int], tuple[int, ...], float]
"""Where a wall time leads to: how much of it was stepping [s], how often each series has come due, which of them have
the stop that is not over (they are counted), and how much of that is to come [s]."""


class Grid(NamedTuple):
    r"""Series that stop a job for ``stalls`` [s] each time that they have stepped for ``periods`` [s].

    With series j first due after :math:`f_j` of stepping, the wall time at which stepping reaches x is

    .. math:: T(x) = x + \sum_j s_j \max\left(0, \left\lceil (x - f_j) / e_j \right\rceil\right)

    and it goes on from there when those due at x are over too.
    """

    periods: tuple[float, ...]
    stalls: tuple[float, ...]
    ratios: tuple[float, ...]
    """Stall over period, each [-]."""
    slope: float
    """Mean wall time for a second of stepping [-]."""
    spread: float
    """Wall time of a stop of all series [s]."""
    longest: tuple[int, ...]
    """Series by their stalls, longest first."""

    @classmethod
    def of(cls, periods: Sequence[float], stalls: Sequence[float]) -> Grid:
        """Return the series with these periods and stalls [s]."""
        ratios = tuple(stall / period for stall, period in zip(stalls, periods, strict=True))
        longest = tuple(sorted(range(len(stalls)), key=lambda index: -stalls[index]))
        return cls(tuple(periods), tuple(stalls), ratios, 1.0 + sum(ratios), sum(stalls), longest)

    def before(self, firsts: Sequence[float], stepped: float) -> float:
        """Return the wall time [s] until so much has been `stepped` [s]; stops that begin then are not in it."""
        wall = stepped
        for first, period, stall in zip(firsts, self.periods, self.stalls, strict=True):
            if stall and stepped > first:
                cycles = (stepped - first) / period
                wall += stall * math.ceil(cycles - TIE * (1.0 + cycles))
        return wall

    def after(self, firsts: Sequence[float], stepped: float) -> float:
        """Return the wall time [s] when the stops are over that begin when so much has been `stepped` [s]."""
        wall = stepped
        for first, period, stall in zip(firsts, self.periods, self.stalls, strict=True):
            if stall:
                cycles = (stepped - first) / period
                wall += stall * (math.floor(cycles + TIE * (2.0 + cycles)) + 1)
        return wall

    def reach(self, firsts: Sequence[float], wall: float) -> Reached:
        """Return where `wall` [s] lead to, with each series due after `firsts` [s] of stepping for the first time.

        Between two bounds of what is stepped that lie no further apart than one stop of each series, few times are
        left at which a series may or may not have come due.
        """
        high = (wall + sum(map(mul, self.ratios, firsts))) / self.slope
        width = min(self.spread / self.slope, high)
        counts: list[int] = []
        settled = True
        for first, period in zip(firsts, self.periods, strict=True):
            cycles = (high - first) / period
            slack = TIE * (2.0 + cycles)
            count = int(cycles + slack + 1.0)
            counts.append(count)
            if count and cycles - slack - width / period < count - 1:
                settled = False
        if not settled:
            counts = self._counts(firsts, wall, high - width, high)
        return self._place(firsts, wall, counts)

    def _counts(self, firsts: Sequence[float], wall: float, low: float, high: float) -> list[int]:
        """Return how often each series comes due, given that what is stepped lies between `low` and `high` [s].

        The one with the longest stops is settled first: few of them fit between the bounds. What is left of the wall
        time then bounds the others more closely.
        """
        counts = [0] * len(firsts)
        slope, spread = self.slope, self.spread
        others = wall + sum(map(mul, self.ratios, firsts))
        for index in self.longest:
            first, period, stall = firsts[index], self.periods[index], self.stalls[index]
            slack = TIE * (2.0 + (high - first) / period)
            count = max(math.floor((low - first) / period - slack) + 1, 0)
            most = max(math.floor((high - first) / period + slack) + 1, 0)
            while count < most and self.before(firsts, first + count * period) <= wall:
                count += 1
            counts[index] = count
            if count:
                low = max(low, first + (count - 1) * period)
            high = min(high, first + count * period)
            others -= stall * count + self.ratios[index] * first
            slope -= self.ratios[index]
            spread -= stall
            high = max(min(high, others / slope), low)
            low = min(max(low, (others - spread) / slope), high)
        return counts

    def _place(self, firsts: Sequence[float], wall: float, counts: list[int]) -> Reached:
        """Return where `wall` [s] lead to, given how often each series has come due."""
        stepped = wall
        stop = 0.0
        for first, period, stall, count in zip(firsts, self.periods, self.stalls, counts, strict=True):
            if count:
                stepped -= stall * count
                last = first + (count - 1) * period
                if last > stop:
                    stop = last
        if stepped >= stop:
            return stepped, counts, (), 0.0
        due = tuple(
            [
                index
                for index, (first, period, count) in enumerate(zip(firsts, self.periods, counts, strict=True))
                if count and first + (count - 1) * period >= stop - TIE * (stop + period)
            ]
        )
        left = stop - stepped
        if left >= sum([self.stalls[index] for index in due]):
            # It has been reached, but nothing of the stop is over.
            return stop, [count - (index in due) for index, count in enumerate(counts)], (), 0.0
        return stop, counts, due, left
