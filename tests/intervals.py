"""How far a mean may be from its theory, by the number of draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Z = 4.0

"""Half width of a tolerance in standard errors: one false alarm in 16,000 checks."""

LEAST = 6e-5

"""Smallest p-value that a test of goodness of fit may have: as rare as a miss by `Z` standard errors."""


def student(draws: int) -> float:
    """Return the half width in standard errors that the mean of a few `draws` misses as rarely as many miss `Z`."""
    from scipy import stats

    return float(stats.t.isf(stats.norm.sf(Z), draws - 1))


def agree(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Return whether two samples have one mean, within Z standard errors of the difference."""
    error = math.sqrt(ours.var(ddof=1) / ours.size + theirs.var(ddof=1) / theirs.size)
    return bool(abs(ours.mean() - theirs.mean()) <= Z * error + 1e-9)


def close(sample: NDArray[Any], expected: float, variance: float | None = None) -> bool:
    """Return whether the mean of a sample is what theory says, within Z standard errors.

    Parameters
    ----------
    sample
        Draws, shape (n,).
    expected
        Mean in theory.
    variance
        Variance in theory; without it, that of the sample.
    """
    spread = float(np.var(sample, ddof=1)) if variance is None else variance
    return bool(abs(np.mean(sample) - expected) <= Z * math.sqrt(spread / len(sample)) + 1e-9)


def rival_seed(number: int = 0) -> np.random.Generator:
    """Return a generator of numpy's own: what it draws has nothing in common with the simulator's look-ups."""
    return np.random.default_rng([2024, number])
