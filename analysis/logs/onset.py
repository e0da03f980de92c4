"""Since when something is otherwise: the one change of a rate, or of a level, that chance does not explain.

Each series is asked by itself. The chance of a change is that of one as clear anywhere in a series without any: by
simulation for counts, which are few; by Pettitt's bound for levels.

References
----------
J. D. Healy, "A note on multivariate CUSUM procedures", Technometrics 29 (1987), for one change of a rate by its
likelihood; A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979); N. C.
Matalas and W. B. Langbein, J. Geophys. Res. 67 (1962), for correlated values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

SIMULATIONS = 4000
"""Series without a change that say how clear one is by chance; the smallest chance is one over these."""

FALSE_ALARMS = 0.05
"""Share of logs without any change in which one of a cause is said, all causes together."""

FALSE_DRIFTS = 0.01
"""The same of a level, where its values are independent; five times that where neighbours are correlated by 0.8."""

CLEAR = 4.0
"""Gain in log-likelihood below which a change is none: one in ten series without a change has it."""


class Onset(NamedTuple):
    """A change: the first bin after it, the rate or level on both sides, and the chance of one without any.

    `steady` says that the values rise or fall all the time instead; then both are those at the ends of the series.
    """

    at: int
    before: float
    after: float
    chance: float
    steady: bool = False


def of_rate(counts: ArrayLike, exposure: ArrayLike, window: int = 1) -> Onset | None:
    """Return the change of a rate of events that is most likely; ``None`` with fewer than five events, or none clear.

    Parameters
    ----------
    counts, exposure
        Of each bin, shape (n,).
    window
        Bins whose counts together say how far events are from independent.
    """
    n, time = (np.asarray(values, dtype=np.float64) for values in (counts, exposure))
    total, mass = float(n.sum()), np.cumsum(time) / max(float(time.sum()), 1e-300)
    if total < 5 or len(n) < 4 or not mass[-1]:
        return None
    gains = _gains(np.cumsum(n)[:-1], total, mass[:-1])
    at = int(gains.argmax()) + 1
    stretches = [(n[:at], time[:at]), (n[at:], time[at:])]
    # Events that come in clusters are as good as so many fewer ones.
    spread = max(1.0, _spread(stretches, window))
    gain, events = float(gains[at - 1]) / spread, max(round(total / spread), 2)
    if gain < CLEAR:
        return None
    drawn = np.random.default_rng(0).multinomial(events, time / time.sum(), SIMULATIONS)
    largest = _gains(np.cumsum(drawn, axis=1)[:, :-1], float(events), mass[:-1]).max(axis=1)
    before, after = (float(counts.sum() / max(float(watched.sum()), 1e-300)) for counts, watched in stretches)
    return Onset(at, before, after, (1 + int((largest >= gain).sum())) / (1 + SIMULATIONS))


def _gains(before: NDArray[Any], total: float, mass: Array) -> Array:
    """Return the gain in log-likelihood of two rates over one, by how many of all events come before each edge."""
    from scipy.special import xlogy

    with np.errstate(divide="ignore", invalid="ignore"):
        gain = xlogy(before, before / (total * mass)) + xlogy(total - before, (total - before) / (total * (1 - mass)))
    return np.where((mass > 0) & (mass < 1), gain, 0.0)


def _spread(stretches: list[tuple[Array, Array]], window: int) -> float:
    """Return variance over mean of the counts of windows within stretches of one rate each [-]."""
    total, freedom = 0.0, 0
    for counts, time in stretches:
        edges = np.arange(0, len(counts), window)
        n, watched = np.add.reduceat(counts, edges), np.add.reduceat(time, edges)
        expected = n.sum() * watched / max(float(watched.sum()), 1e-300)
        use = expected > 0
        total += float(((n - expected)[use] ** 2 / expected[use]).sum())
        freedom += max(int(use.sum()) - 1, 0)
    return total / freedom if freedom else 1.0


def of_level(values: ArrayLike) -> Onset | None:
    """Return the change of a level, by ranks; ``None`` with fewer than ten values."""
    from scipy.stats import rankdata

    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 10:
        return None
    sums = np.abs(2 * np.cumsum(rankdata(x))[:-1] - np.arange(1, n) * (n + 1))
    at = int(sums.argmax()) + 1
    levels = np.where(np.arange(n) < at, np.median(x[:at]), np.median(x[at:]))
    slope, height = np.polyfit(np.arange(n), x, 1)
    line = height + slope * np.arange(n)
    steady = bool(((x - line) ** 2).sum() < ((x - levels) ** 2).sum())
    # Correlated values are as good as so many fewer independent ones; what rises or falls all the time is no noise.
    rest = x - _monotone(x if slope > 0 else -x) * (1 if slope > 0 else -1)
    shared = float(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-300))
    wider = (1 + shared) / (1 - shared) if 0 < shared < 1 else 1.0
    chance = min(2 * math.exp(-6 * float(sums[at - 1]) ** 2 / ((n**3 + n**2) * wider)), 1.0)
    ends = max(3, n // 20)
    first, last = (x[:ends], x[-ends:]) if steady else (x[:at], x[at:])
    return Onset(at, float(np.median(first)), float(np.median(last)), chance, steady)


def _monotone(values: Array) -> Array:
    """Return the rising values that are nearest to some in squares: neighbours that fall are pooled."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (late, many), (early, few) = pools.pop(), pools.pop()
            pools.append(((late * many + early * few) / (many + few), many + few))
    return np.concatenate([np.full(count, mean) for mean, count in pools])
