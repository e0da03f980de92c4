"""Means with the luck taken out, where the truth is known: Daly's wall clock of a fixed amount of work.

The expected wall clock is exact, start and last segment included, so that nothing but luck lies between it and a mean.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

import sim
from analysis.controls import Luck, of_values
from analysis.statistics import mean_interval
from tests.harness import prepared

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = int(os.environ.get("ETTRICK_SEED", "1"))
HOUR, MINUTE = 3600.0, 60.0
REPETITIONS, REPLICATIONS = 400, 16
SEGMENTS, TAU, WRITE, RESTART, MTTI = 60, 20 * MINUTE, 1 * MINUTE, 5 * MINUTE, 1 * HOUR


def truth() -> float:
    """Return the exact mean wall clock of the work [s].

    A segment of length x that is restarted until it fits takes M e^(R/M) (e^(x/M) - 1); the start is a restart too,
    and the last segment needs no save.
    """
    growth = math.exp(RESTART / MTTI)

    def fits(length: float) -> float:
        return MTTI * math.expm1(length / MTTI)

    return fits(RESTART) + growth * ((SEGMENTS - 1) * fits(TAU + WRITE) + fits(TAU))


@pytest.fixture(scope="module")
def runs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return wall clocks, shape (repetitions, replications), and how lucky each run was."""
    case = prepared(
        horizon="60 d",
        jobs=[{"name": "job", "gpus": 2, "work": {"time": f"{SEGMENTS * TAU!r} s"}}],
        failures=[{"use": "job", "name": "failure", "law": {"law": "exponential", "mean": f"{MTTI!r} s"}}],
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": "1 min", "restore": "0 s"}]},
        recovery={"use": "hot-spare", "initialize": "5 min"},
        seed=SEED,
    )
    luck = Luck(case)
    ends: list[float] = []
    lucky: list[Any] = []
    for number in range(REPETITIONS * REPLICATIONS):
        result = sim.run(case, number)
        assert result.jobs[0].finished
        ends.append(result.jobs[0].end)
        lucky.append(luck.of(result))
    shape = (REPETITIONS, REPLICATIONS)
    return np.array(ends).reshape(shape), np.array(lucky).reshape(*shape, -1)


def covered(intervals: list[Any]) -> int:
    """Return how many of the intervals contain the truth."""
    return sum(low <= truth() <= high for low, high in intervals)


def test_intervals_contain_the_truth(runs: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """Nominal 95 % intervals contain it in 92 to 98 % of 400 repetitions, with the luck taken out and without."""
    ends, lucky = runs
    taken = [of_values(values, luck) for values, luck in zip(ends, lucky, strict=True)]
    assert all(found is not None for found in taken)
    plain = covered([mean_interval(values) for values in ends])
    with_luck_out = covered([found.ci95 for found in taken if found is not None])
    print(f"coverage {plain / REPETITIONS:.3f} plain, {with_luck_out / REPETITIONS:.3f} with the luck taken out")  # noqa: T201
    low, high = 0.92 * REPETITIONS, 0.98 * REPETITIONS
    # The bounds are far enough out that chance alone leaves them in one of two hundred seeds.
    assert binom.cdf(low - 1, REPETITIONS, 0.95) + binom.sf(high, REPETITIONS, 0.95) < 0.01
    for count in (plain, with_luck_out):
        assert low <= count <= high


def test_the_mean_is_not_moved(runs: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """All runs together: within five standard errors of the truth, which are a fraction of what they are without."""
    ends, lucky = runs
    found = of_values(ends.ravel(), lucky.reshape(ends.size, -1))
    assert found is not None
    half = (found.ci95[1] - found.ci95[0]) / 2
    assert abs(found.mean - truth()) <= 5 / 1.96 * half
    assert found.worth >= 3, "replications that an interval as narrow takes without, relative to with"
    assert half < 0.003 * truth()


def test_a_wrong_compensator_is_seen(runs: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """Controls whose mean is a tenth of a standard deviation off move the mean out of its interval."""
    ends, lucky = runs
    wrong = lucky.reshape(ends.size, -1) + 0.1 * lucky.std(axis=(0, 1))
    found = of_values(ends.ravel(), wrong)
    assert found is not None
    assert not found.ci95[0] <= truth() <= found.ci95[1]
