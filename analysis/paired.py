"""What two variants of a scenario differ by, on the same failures."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.controls import Controlled, of_values
from analysis.metrics import contributions
from analysis.statistics import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from sim import Ratio

__all__ = ["MANY", "Difference", "difference", "difference_data", "replications_to_resolve"]

MANY = 10_000
"""Replications from which on a difference is not worth being resolved."""


class Difference(NamedTuple):
    """By how much a metric of one variant is above that of another.

    Parameters
    ----------
    mean
        Difference of the two metrics as they are reported, each a ratio of sums.
    ci95
        Its 95 % interval.
    resolved
        Whether the interval leaves out zero.
    replications_to_resolve
        How many replications would leave it out if mean and spread stay as they are; ``None`` for more than `MANY`.
    controlled
        The same with the luck taken out that both had; ``None`` where it is not known.
    """

    mean: float
    ci95: Interval
    resolved: bool
    replications_to_resolve: int | None
    controlled: Controlled | None = None


def difference(
    ours: Sequence[Ratio], theirs: Sequence[Ratio], luck: npt.ArrayLike | None = None, *, confidence: float = 0.95
) -> Difference | None:
    """Return by how much a ratio metric of one variant is above that of another, over common replications.

    With ``r = sum(a) / sum(b)`` for each variant, replication i contributes ``d_i = (r + (a_i - r b_i) / b_mean)`` of
    ours less the same of theirs. The mean of the d_i is the difference of the two r, and its interval is Student's,
    ``d -/+ t s / sqrt(n)``. Where all denominators of a variant are equal (shares of requested time, counts, amounts)
    d_i is the difference within replication i; where they are not, this is the delta method, as for the r themselves.

    Parameters
    ----------
    ours, theirs : (n,) sequences
        The metric of two variants; entry i of both comes from replication i.
    luck : (n, k) array, optional
        Numbers with the mean zero that tell how lucky both were together; see `analysis.controls`.
    confidence
        Nominal coverage of the interval [-].

    Returns
    -------
    Difference or None
        ``None`` for fewer than two replications, an infinite amount, or nothing in a denominator.

    Raises
    ------
    ValueError
        If the lengths differ.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 10.2.1 (paired-t); W. G. Cochran, "Sampling
    Techniques", 3rd ed. (1977), chapter 6 (ratios).
    """
    if len(ours) != len(theirs):
        message = f"both variants must have the same replications, got {len(ours)} and {len(theirs)}"
        raise ValueError(message)
    first, second = contributions(ours), contributions(theirs)
    if first is None or second is None:
        return None
    each = first - second
    # What is the same but for the order of a sum is the same.
    each[abs(each) <= 1e-12 * abs(first)] = 0.0
    interval = mean_interval(each, confidence)
    if interval is None:
        return None
    mean = (interval[0] + interval[1]) / 2
    needed = replications_to_resolve(mean, float(each.std(ddof=1)), confidence)
    controlled = of_values(each, luck) if luck is not None else None
    return Difference(mean, interval, not interval[0] <= 0 <= interval[1], needed, controlled)


def difference_data(found: Difference | None) -> dict[str, Any] | None:
    """Return a difference as plain data."""
    if found is None:
        return None
    return found._asdict() | {"controlled": None if found.controlled is None else found.controlled._asdict()}


def replications_to_resolve(mean: float, spread: float, confidence: float = 0.95) -> int | None:
    """Return the smallest number of replications n with ``t s / sqrt(n) < |d|``.

    Parameters
    ----------
    mean, spread
        Mean d and standard deviation s of the paired differences.
    confidence
        Nominal coverage of the interval [-].

    Returns
    -------
    int or None
        At least 2; ``None`` for more than `MANY`, and for variants that do not differ at all.
    """
    # scipy.stats has this ready made, and would double the time of a short run by its import.
    from scipy.special import stdtrit

    def margin(n: int) -> float:
        return abs(mean) + float(stdtrit(n - 1, (1 - confidence) / 2)) * spread / math.sqrt(n)

    numbers = range(2, MANY + 1)
    found = bisect.bisect_right(numbers, 0.0, key=margin)
    return numbers[found] if found < len(numbers) else None
