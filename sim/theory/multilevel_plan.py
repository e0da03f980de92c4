r"""Best patterns of nested saves to stores of several levels: how much computing between saves, and how many of each.

The words and the model are those of `sim.theory.multilevel`. To first order saves of level l, every W_l of computing,
cost ``b_l / W_l`` for themselves and ``lambda_l W_l / 2`` for what faults of class l destroy, whatever the other levels
do: each has a best spacing of its own, ``W_l = sqrt(2 b_l / lambda_l)``, and together they cost the sum of
``sqrt(2 lambda_l b_l)``. Saves that are nested in whole numbers, and faults that hit saves and restarts, change that a
little: the search finds the exact best.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from sim.theory.broadcast import positive
from sim.theory.multilevel import multilevel_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pattern", "first_order_pattern", "optimal_pattern"]

# How far from the first-order interval the search looks, as a factor.
_REACH = 30.0
# A smaller gain of the productive share is rounding [-].
_ROUNDING = 1e-13


class Pattern(NamedTuple):
    """Computing between saves of the lowest level [s], and saves of each level for each one of the next [-]."""

    interval: float
    counts: tuple[int, ...]


def first_order_pattern(writes: Sequence[float], rates: Sequence[float]) -> Pattern:
    r"""Return the pattern of the least first-order cost.

    .. math:: \tau = \sqrt{\frac{2 \sum_l b_l / N_l}{\sum_l \lambda_l N_l}}, \quad
        n_l \approx W_{l+1} / W_l, \quad W_l = \sqrt{2 b_l / \lambda_l}

    with ``N_1 = 1, N_(l+1) = n_l N_l``: of the whole numbers below and above the ratios, those that make
    ``(sum b_l / N_l) (sum lambda_l N_l)`` least. Where a level would be saved less often than the next, the two are
    pooled, as one level of both writes and both rates, and ``n_l = 1``: that level is of little use, try without it.
    Assumes that a pattern is short against the time between faults; restarts do not appear.

    Parameters
    ----------
    writes
        Blocking time of the write of each level, b_l [s].
    rates
        Faults of each class, lambda_l [1/s].

    Returns
    -------
    Pattern
        Interval [s] and counts [-].

    Raises
    ------
    ValueError
        If a write or a rate is not positive and finite, or there is not one of each for every level.

    References
    ----------
    A. Benoit, A. Cavelan, V. Le Fèvre, Y. Robert, H. Sun, "Towards optimal multi-level checkpointing", IEEE
    Transactions on Computers 66 (2017): the cost; which levels to use they find by dynamic programming.
    """
    _check(writes, rates)
    pools: list[tuple[float, float, int]] = []
    for write, rate in zip(writes, rates, strict=True):
        pools.append((write, rate, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            upper, lower = pools.pop(), pools.pop()
            pools.append((lower[0] + upper[0], lower[1] + upper[1], lower[2] + upper[2]))
    spacings = [math.sqrt(2.0 * write / rate) for write, rate, size in pools for _ in range(size)]
    ratios = [longer / shorter for shorter, longer in itertools.pairwise(spacings)]
    candidates = itertools.product(*({max(math.floor(ratio), 1), math.ceil(ratio)} for ratio in ratios))
    counts = min(candidates, key=lambda counts: math.prod(_costs(counts, writes, rates)))
    saving, losing = _costs(counts, writes, rates)
    return Pattern(math.sqrt(2.0 * saving / losing), counts)


def optimal_pattern(writes: Sequence[float], rates: Sequence[float], restarts: Sequence[float]) -> Pattern:
    r"""Return the pattern of the highest productive share of `multilevel_shares`, by search.

    It starts from `first_order_pattern`, and changes one count at a time, by steps that are halved, for as long as that
    helps; the interval is the best for the counts each time. Downtimes do not move the optimum, and are left out.

    Parameters
    ----------
    writes, rates
        As for `first_order_pattern`.
    restarts
        Restart from a copy of each level, u_l [s].

    Returns
    -------
    Pattern
        Interval, to about 1e-6 of itself [s], and counts [-].

    Raises
    ------
    ValueError
        As `first_order_pattern`, or if a restart is negative or not finite.

    References
    ----------
    As for `multilevel_shares`; pattern search: R. Hooke, T. A. Jeeves, Journal of the ACM 8 (1961).
    """
    from scipy.optimize import minimize_scalar

    start = first_order_pattern(writes, rates)

    def waste(interval: float, counts: tuple[int, ...]) -> float:
        shares = multilevel_shares(interval, counts, writes, rates, restarts)
        return 1.0 - shares["productive"]

    def best(counts: tuple[int, ...]) -> tuple[float, Pattern]:
        saving, losing = _costs(counts, writes, rates)
        centre = math.log(math.sqrt(2.0 * saving / losing))
        found = minimize_scalar(
            lambda log: waste(math.exp(log), counts),
            bounds=(centre - math.log(_REACH), centre + math.log(_REACH)),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return float(found.fun), Pattern(math.exp(float(found.x)), counts)

    least, pattern = best(start.counts)
    step = max(start.counts, default=0) // 2 or 1
    while True:
        near = [
            best((*pattern.counts[:level], count, *pattern.counts[level + 1 :]))
            for level, now in enumerate(pattern.counts)
            for count in (now - step, now + step)
            if count >= 1
        ]
        nearest = min(near, default=(least, pattern))
        if nearest[0] < least - _ROUNDING:
            least, pattern = nearest
        elif step > 1:
            step //= 2
        else:
            return pattern


def _costs(counts: Sequence[int], writes: Sequence[float], rates: Sequence[float]) -> tuple[float, float]:
    """Return the writes in a segment [s] and the rate at which segments are lost [1/s], both of them means."""
    spacings = list(itertools.accumulate(counts, lambda product, count: product * count, initial=1))
    saving = sum(write / spacing for write, spacing in zip(writes, spacings, strict=True))
    losing = sum(rate * spacing for rate, spacing in zip(rates, spacings, strict=True))
    return saving, losing


def _check(writes: Sequence[float], rates: Sequence[float]) -> None:
    if not len(writes) or len(writes) != len(rates):
        message = f"writes and rates must have one value for each level, got {len(writes)} and {len(rates)}"
        raise ValueError(message)
    for name, values in (("writes", writes), ("rates", rates)):
        for value in values:
            positive(name, value)
