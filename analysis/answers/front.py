"""The front of several aims: what no other one is better than in everything, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.statistics import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Positions = npt.NDArray[np.intp]

__all__ = ["Front", "front_of"]

_NEAREST = 64
"""Rivals that are looked at first: most of what is not sure fails against one of them."""


class Front(NamedTuple):
    """Candidates by several aims.

    Parameters
    ----------
    members
        Positions of those that no other one is better than in everything by the means, in order of the first aim.
    sure
        For each member, whether it is better than each other candidate in something for sure.
    maybe
        Positions of the others that none is better than in everything for sure.
    """

    members: tuple[int, ...]
    sure: tuple[bool, ...]
    maybe: tuple[int, ...]


def front_of(aims: Sequence[FloatArray]) -> Front:
    """Return the front of k candidates.

    All paired differences hold together with a probability of 95 %: Student's quantile at ``1 - 0.05 / (pairs x aims)``
    (Bonferroni).

    Parameters
    ----------
    aims
        For each aim what the replications of each candidate contribute to its mean, (k, n), entry i of all from
        replication i; or one number each, (k,), of which there is no doubt. The lower the better.
    """
    means = np.stack([aim if aim.ndim == 1 else aim.mean(axis=1) for aim in aims], axis=-1)
    size = len(means)
    # In this order only what comes before a row can be better than it in everything.
    order = np.lexsort(means.T[::-1])
    members = _members(means, order)
    rivals = _Rivals(aims, means, 1 - 0.05 / max(size * (size - 1) // 2 * sum(aim.ndim > 1 for aim in aims), 1))
    front = np.array(members, dtype=np.intp)
    on_front = np.zeros(size, dtype=bool)
    on_front[front] = True
    maybe = [row for row in range(size) if not on_front[row] and not rivals.is_behind(row, front)]
    return Front(tuple(members), tuple(rivals.is_sure(row) for row in members), tuple(maybe))


def _members(means: FloatArray, order: Positions) -> list[int]:
    """Return the rows (k, m) that none is below somewhere, and nowhere above."""
    found: list[int] = []
    kept = np.empty_like(means)
    for row in order.tolist():
        # Whatever is better in everything stands on the front itself, or behind one that does.
        ahead = kept[: len(found)]
        if not ((ahead <= means[row]).all(axis=1) & (ahead < means[row]).any(axis=1)).any():
            kept[len(found)] = means[row]
            found.append(row)
    return found


class _Number:
    """An aim that is known, (k,)."""

    scale = 1.0

    def __init__(self, values: FloatArray) -> None:
        self.values = values

    def compared(self, row: int, others: Positions) -> FloatArray:
        """Return the sign of how far others are above one."""
        signs: FloatArray = np.sign(self.values[others] - self.values[row])
        return signs


class _Sample:
    """An aim of which there are replications, (k, n)."""

    def __init__(self, values: FloatArray, confidence: float) -> None:
        count = values.shape[1]
        self.values, self.means = values, values.mean(axis=1)
        self.errors = values - self.means[:, None]
        self.squares = (self.errors**2).sum(axis=1)
        self.factor = np.inf
        if count > 1:
            self.factor = t_quantile(confidence, count - 1) ** 2 / (count * (count - 1))
        self.scale = float(np.sqrt(self.squares.mean() / count)) or 1.0

    def compared(self, row: int, others: Positions) -> FloatArray:
        """Return the sign of how far others are above one for sure; 0 if they never differ, NaN if nobody knows.

        The squared errors of the differences are worked out from those of each and their products, which is fast; where
        rounding could matter to the verdict, from the differences themselves.
        """
        found = np.full(len(others), np.nan)
        if np.isinf(self.factor):
            return found
        apart = self.means[others] - self.means[row]
        both = self.squares[others] + self.squares[row]
        squares = both - 2 * self.errors[others] @ self.errors[row]
        slack = 1e-9 * both + 1e-18 * self.means[row] ** 2
        clear = apart**2 > self.factor * (squares + slack)
        found[clear] = np.sign(apart[clear])
        close = np.flatnonzero(~clear & (apart**2 >= self.factor * (squares - slack)))
        found[close] = self._compared(row, others[close])
        return found

    def _compared(self, row: int, others: Positions) -> FloatArray:
        """Return the same from the differences in every replication."""
        each = self.values[others] - self.values[row]
        # What is the same but for the order of a sum is the same.
        each[np.abs(each) <= 1e-12 * np.abs(self.values[row])] = 0.0
        mean = each.mean(axis=1)
        squares = ((each - mean[:, None]) ** 2).sum(axis=1)
        found = np.where(mean**2 > self.factor * squares, np.sign(mean), np.nan)
        found[~each.any(axis=1)] = 0.0
        return found


class _Rivals:
    """Paired comparisons of candidates, no more of them than are needed."""

    def __init__(self, aims: Sequence[FloatArray], means: FloatArray, confidence: float) -> None:
        self.means = means
        self.aims = [_Number(aim) if aim.ndim == 1 else _Sample(aim, confidence) for aim in aims]
        self.scales = np.array([aim.scale for aim in self.aims])

    def is_sure(self, row: int) -> bool:
        """Return whether one is better than each other in something for sure; the most dangerous rivals come first."""
        lead = ((self.means - self.means[row]) / self.scales).max(axis=1)
        lead[row] = np.inf
        near = np.argpartition(lead, min(_NEAREST, len(lead) - 1))
        parts = (near[:_NEAREST], near[_NEAREST:])
        return all(self._beaten(row, part[part != row]).all() for part in parts)

    def is_behind(self, row: int, front: Positions) -> bool:
        """Return whether another one is better than one in something, and worse in nothing, for sure."""
        ahead = (self.means <= self.means[row] + 1e-9 * np.abs(self.means[row])).all(axis=1)
        ahead[row] = False
        # Those of the front first: they are few, and mostly enough.
        first = front[ahead[front]]
        if self._beats(row, first).any():
            return True
        ahead[front] = False
        return bool(self._beats(row, np.flatnonzero(ahead)).any())

    def _beaten(self, row: int, others: Positions) -> Flags:
        """Return which others one is better than in some aim for sure."""
        found = np.zeros(len(others), dtype=bool)
        for aim in self.aims:
            left = np.flatnonzero(~found)
            found[left] = aim.compared(row, others[left]) > 0
        return found

    def _beats(self, row: int, others: Positions) -> Flags:
        """Return which others are better than one in some aim for sure, and the same or better in all of them."""
        some, every = np.zeros(len(others), dtype=bool), np.ones(len(others), dtype=bool)
        for aim in self.aims:
            left = np.flatnonzero(every)
            signs = aim.compared(row, others[left])
            some[left] |= signs < 0
            # What is not resolved is not a number.
            every[left] = signs <= 0
        return some & every
