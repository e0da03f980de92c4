"""Which of many is the best, and which others may be: intervals that hold for all of them at once.

The truly best candidate b is not known. Whoever it is, the k - 1 intervals of its paired differences from the others
hold together with a probability of 95 %: each is Student's at a confidence of ``1 - 0.05 / (k - 1)`` (Bonferroni, so
that any correlation between candidates is allowed). If they hold, b is among those that none of their own intervals
puts behind another: these may be the best. And how far any candidate is from b lies between the lowest and the highest
end that the intervals of those have for it. So nothing is lost by letting the data pick the winner, and only k - 1
comparisons have to hold together, not one for each of the k (k - 1) / 2 pairs.

References: D. G. Edwards, J. C. Hsu, Journal of the American Statistical Association 78 (1983), 965; with common random
numbers: B. L. Nelson, F. J. Matejcik, Management Science 41 (1995), 1935.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.intervals import PROBABILITIES, is_zero_or_one
from analysis.metrics import contributions
from analysis.paired import replications_to_resolve
from analysis.statistics import t_quantile
from analysis.two_way import two_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from analysis.statistics import Interval
    from sim import Ratio

    FloatArray = npt.NDArray[np.float64]

__all__ = ["Ranking", "ranking_of", "ranking_over_draws"]

_SAME = 1e-12
"""Difference of two values, relative to their size, that is no more than the order of a sum [-]."""


class Ranking(NamedTuple):
    """Candidates in order of a metric, on the same replications.

    Parameters
    ----------
    order
        Positions of the candidates, best first by their means; those without a mean are left out.
    behind
        For each of `order`, how far its mean is from that of the first (never negative), and an interval of how far it
        is from whichever is truly the best: for the first, what may be gained by another. All intervals of the list
        hold together with a probability of 95 %.
    may_be_best
        Positions of those that are not resolved as worse than another, in the order of `order`; the first is always
        among them, and so are those with the same values as it.
    replications_to_resolve
        How many replications would leave one alone (and its ties) if means and spreads stay as they are; ``None`` for
        more than `analysis.paired.MANY`, and where nothing is left to resolve.
    """

    order: tuple[int, ...]
    behind: tuple[tuple[float, Interval], ...]
    may_be_best: tuple[int, ...]
    replications_to_resolve: int | None


class _Comparison(NamedTuple):
    """How far all candidates are behind one of them, shape (k,): by their means, and between what ends."""

    mean: FloatArray
    spread: FloatArray
    low: FloatArray
    high: FloatArray


def ranking_of(rows: Sequence[Sequence[Ratio]], *, lowest: bool, metric: str = "") -> Ranking | None:
    """Return the ranking of several candidates by a metric.

    Parameters
    ----------
    rows
        For each candidate its replications; entry i of each comes from replication i. Only those are looked at that all
        candidates with a mean have.
    lowest
        Whether the lowest value is the best.
    metric
        Its name. What is 0 or 1 may have the same values by chance: differences of probabilities keep an interval.

    Returns
    -------
    Ranking or None
        ``None`` if no candidate has a mean, or there are fewer than two replications.
    """
    found = _values(rows)
    if found is None:
        return None
    positions, values = found
    is_chance = metric in PROBABILITIES and all(is_zero_or_one(rows[position]) for position in positions)
    return _ranked(positions, values if lowest else -values, is_chance=is_chance)


def ranking_over_draws(tables: Sequence[FloatArray], *, lowest: bool, is_chance: bool) -> Ranking | None:
    """Return the ranking of several candidates by the mean over draws of what is not known and over luck.

    What a draw changes between two candidates is a part of the doubt, see `analysis.statistics.two_way`. How many
    replications would resolve it is not told: more of them do not make the draws more.

    Parameters
    ----------
    tables
        For each candidate, what each replication (columns) of each draw (rows) contributes, as common to all; empty
        for one without a mean.
    lowest
        Whether the lowest value is the best.
    is_chance
        Whether the values are 0 or 1, and so may be equal by chance.

    Returns
    -------
    Ranking or None
        ``None`` if no candidate has a mean, or there are fewer than two draws or replications.
    """
    known = [position for position, table in enumerate(tables) if len(table)]
    if not known or min(min(tables[position].shape) for position in known) < 2:
        return None
    values = np.array([tables[position] for position in known])
    return _ranked(np.array(known), values if lowest else -values, is_chance=is_chance)


def _ranked(positions: npt.NDArray[np.int64], values: FloatArray, *, is_chance: bool) -> Ranking:
    """Return the ranking by values (k, n), or (k, draws, n), the lowest first."""
    means = values.reshape(len(values), -1).mean(axis=1)
    order = np.argsort(means, kind="stable")
    positions, means = positions[order], means[order]
    errors = np.ascontiguousarray(np.moveaxis(values[order], 0, -1) - means)
    confidence = 1 - 0.05 / max(len(means) - 1, 1)
    first = _compared(means, errors, 0, confidence, is_chance=is_chance)
    low, high = first.low, first.high
    may_be_best = [0]
    for row in np.flatnonzero(first.low <= 0)[1:].tolist():
        mine = _compared(means, errors, row, confidence, is_chance=is_chance)
        if np.all(mine.high >= 0):
            may_be_best.append(row)
            low, high = np.minimum(low, mine.low), np.maximum(high, mine.high)
    return Ranking(
        tuple(positions.tolist()),
        tuple(
            (max(mean, 0.0), (max(least, 0.0), max(most, 0.0)))
            for mean, least, most in zip(first.mean.tolist(), low.tolist(), high.tolist(), strict=True)
        ),
        tuple(positions[may_be_best].tolist()),
        _needed(first, may_be_best[1:], confidence),
    )


def _values(rows: Sequence[Sequence[Ratio]]) -> tuple[npt.NDArray[np.int64], FloatArray] | None:
    """Return which candidates have a mean, and what each of their common replications contributes to it, (k, n)."""
    known = [position for position, ratios in enumerate(rows) if ratios and contributions(ratios) is not None]
    count = min((len(rows[position]) for position in known), default=0)
    if count < 2:
        return None
    # The first replications of one that has more may have nothing in their denominators.
    each = {position: contributions(rows[position][:count]) for position in known}
    kept = {position: values for position, values in each.items() if values is not None}
    return (np.array(list(kept)), np.array(list(kept.values()))) if kept else None


def _compared(means: FloatArray, errors: FloatArray, row: int, confidence: float, *, is_chance: bool) -> _Comparison:
    """Return how far every candidate is behind that of a row, and between what ends at some confidence.

    Differences of what is 0 or 1 get two replications more, in which the four pairs of outcomes are equally common:
    otherwise few equal replications would be taken for certainty (A. Agresti, Y. Min, Statistics in Medicine 24
    (2005), 729).

    Parameters
    ----------
    means, errors
        Mean of each candidate (k,), and how far each replication is from it (n, k), or of each draw (draws, n, k).
    """
    # What is the same but for the order of a sum is the same.
    tiny = _SAME * abs(float(means[row]))
    mean = _without_rounding(means - means[row], tiny)
    if errors.ndim == 3:
        return _compared_over_draws(mean, errors, row, confidence, tiny, is_chance=is_chance)
    count = total = len(errors)
    squares = ((errors - errors[:, row, None]) ** 2).sum(axis=0)
    spread = _without_rounding(np.sqrt(squares / (count - 1)), tiny)
    center = mean
    if is_chance:
        total = count + 2
        center = mean * count / total
        squares = squares + count * mean**2 + 1 - total * center**2
        squares[row] = 0.0
    half = t_quantile(confidence, count - 1) * np.sqrt(squares / (total - 1) / total)
    half = _without_rounding(half, tiny)
    return _Comparison(mean, spread, center - half, center + half)


def _compared_over_draws(
    mean: FloatArray, errors: FloatArray, row: int, confidence: float, tiny: float, *, is_chance: bool
) -> _Comparison:
    """Return `_compared` where rows of errors are draws. Where chance may make all alike, a few runs are as sure.

    No difference of probabilities is surer than that of as many equal pairs as there are draws, or replications if
    these are fewer, with the two pairs more of `_compared`.
    """
    fewest = min(errors.shape[:2])
    half = np.zeros(len(mean))
    for other in range(len(mean)):
        if other != row:
            found = two_way(mean[other] + _without_rounding(errors[..., other] - errors[..., row], tiny))
            least = 1 / ((fewest + 1) * (fewest + 2)) if is_chance else 0.0
            half[other] = found.reach(confidence) * np.sqrt(max(found.variance, least))
    half = _without_rounding(half, tiny)
    return _Comparison(mean, np.full(len(mean), np.inf), mean - half, mean + half)


def _without_rounding(values: FloatArray, tiny: float) -> FloatArray:
    """Return values in which those are zero that are not above what rounding makes."""
    return np.where(np.abs(values) <= tiny, 0.0, values)


def _needed(first: _Comparison, rivals: Sequence[int], confidence: float) -> int | None:
    """Return how many replications would resolve every rival of the first that is no tie."""
    if not np.all(np.isfinite(first.spread)):
        return None
    open_ones = [(float(first.mean[rival]), float(first.spread[rival])) for rival in rivals]
    scattered = [(mean, spread) for mean, spread in open_ones if mean or spread]
    if not scattered or not all(mean for mean, _ in scattered):
        return None
    # The one that takes longest is the one whose difference scatters most, relative to its size.
    mean, spread = max(scattered, key=lambda pair: pair[1] / pair[0])
    return replications_to_resolve(mean, spread, confidence)
