"""Means with control variates, where the truth is known: Daly's wall clock of a fixed amount of work.

The expected wall clock is exact, start and last segment included, so that nothing but sampling error lies between it
and a mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

from ettrick.analysis.statistics.differences import ControlVariates, of_pair, of_values
from ettrick.analysis.statistics.estimates import mean_interval
from tests.harness import prepared, results_of
from tests.pace import SEED, one_in
from tests.typed import present

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOUR, MINUTE = 3600.0, 60.0

REPETITIONS, REPLICATIONS = 400, 16

SEGMENTS, TAU, WRITE, RESTART, MTTI = 60, 20 * MINUTE, 1 * MINUTE, 5 * MINUTE, 1 * HOUR

FEW, EACH = 6, 30

"""Segments of a job that is rarely interrupted, and its replications."""


def truth(segments: int = SEGMENTS, mtti: float = MTTI, restart: float = RESTART, write: float = WRITE) -> float:
    """Return the exact mean wall clock of so much work [s].

    A segment of length x that is restarted until it fits takes M e^(R/M) (e^(x/M) - 1); the start is a restart too,
    and the last segment needs no save.
    """
    growth = math.exp(restart / mtti)

    def fits(length: float) -> float:
        return mtti * math.expm1(length / mtti)

    return fits(restart) + growth * ((segments - 1) * fits(TAU + write) + fits(TAU))


def simulated(
    repetitions: int,
    replications: int,
    segments: int = SEGMENTS,
    mtti: float = MTTI,
    restart: float = RESTART,
    write: float = WRITE,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return wall clocks, shape (repetitions, replications), and the controls of each run."""
    case = prepared(
        horizon="60 d",
        jobs=[{"name": "job", "gpus": 2, "work": {"time": f"{segments * TAU!r} s"}}],
        failures=[{"use": "job", "name": "failure", "law": {"use": "exponential", "mean": f"{mtti!r} s"}}],
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": f"{write!r} s", "restore": "0 s"}]},
        recovery={"use": "hot-spare", "initialize": f"{restart!r} s"},
        seed=SEED,
    )
    variates = ControlVariates(case)
    ends: list[float] = []
    controls: list[Any] = []
    for result in results_of(case, repetitions * replications):
        assert result.jobs[0].finished
        ends.append(result.jobs[0].end)
        controls.append(variates.of(result))
    shape = (repetitions, replications)
    return np.array(ends).reshape(shape), np.array(controls).reshape(*shape, -1)


@pytest.fixture(scope="module")
def runs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the same of the job that is often interrupted, a fifth of the repetitions."""
    return simulated(REPETITIONS // 5, REPLICATIONS)


def covered(intervals: list[Any], mean: float) -> int:
    """Return how many of the intervals contain the true mean."""
    return sum(low <= mean <= high for low, high in intervals)


@pytest.mark.nightly
def test_intervals_contain_the_truth() -> None:
    """Nominal 95 % intervals contain it in 92 to 98 % of 400 repetitions, with control variates and without."""
    ends, controls = simulated(REPETITIONS, REPLICATIONS)
    taken = [of_values(values, known) for values, known in zip(ends, controls, strict=True)]
    assert all(found is not None for found in taken)
    plain = covered([mean_interval(values) for values in ends], truth())
    with_controls = covered([found.ci95 for found in taken if found is not None], truth())
    print(f"coverage {plain / REPETITIONS:.3f} plain, {with_controls / REPETITIONS:.3f} with control variates")  # noqa: T201
    low, high = 0.92 * REPETITIONS, 0.98 * REPETITIONS
    # The bounds are far enough out that chance alone leaves them in one of two hundred seeds.
    assert binom.cdf(low - 1, REPETITIONS, 0.95) + binom.sf(high, REPETITIONS, 0.95) < 0.01
    for count in (plain, with_controls):
        assert low <= count <= high


VARIANTS = {"restart": {"restart": 10 * MINUTE}, "write": {"write": 3 * MINUTE}}


def paired(name: str, repetitions: int) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], float]:
    """Return by how much a variant takes longer on the same failures [s], the controls of that, and the truth."""
    ends, controls = simulated(repetitions, REPLICATIONS)
    slower, theirs = simulated(repetitions, REPLICATIONS, **VARIANTS[name])
    pairs = [of_pair(first, second) for first, second in zip(theirs, controls, strict=True)]
    return slower - ends, pairs, truth(**VARIANTS[name]) - truth()


@pytest.mark.nightly
@pytest.mark.parametrize("name", VARIANTS)
def test_intervals_of_differences_contain_the_truth(name: str) -> None:
    """Nominal 95 % intervals of paired differences contain it in 92 to 98 % of 400 repetitions, with controls too."""
    moves, pairs, mean = paired(name, REPETITIONS)
    found = [of_values(values, controls) for values, controls in zip(moves, pairs, strict=True)]
    assert all(each is not None for each in found)
    plain = covered([mean_interval(values) for values in moves], mean)
    with_controls = covered([each.ci95 for each in found if each is not None], mean)
    print(f"{name}: coverage {plain / REPETITIONS:.3f} plain, {with_controls / REPETITIONS:.3f} with controls")  # noqa: T201
    for count in (plain, with_controls):
        assert 0.92 * REPETITIONS <= count <= 0.98 * REPETITIONS


@pytest.mark.parametrize("name", one_in(2, VARIANTS))
def test_the_mean_of_a_difference_is_not_moved(name: str) -> None:
    """All pairs together: within five standard errors of the truth, and narrower than with sums of controls alone."""
    moves, pairs, mean = paired(name, REPETITIONS // 10)
    found = present(of_values(moves.ravel(), np.concatenate(pairs)))
    assert abs(found.mean - mean) <= 5 / 1.96 * (found.ci95[1] - found.ci95[0]) / 2
    sums = present(of_values(moves.ravel(), np.concatenate(pairs)[:, [0, 1, 3, 4]]))
    assert found.worth > 1.1 * sums.worth > 1.0


def test_the_mean_is_not_moved(runs: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """All runs together: within five standard errors of the truth, which are a fraction of what they are without."""
    ends, controls = runs
    found = present(of_values(ends.ravel(), controls.reshape(ends.size, -1)))
    half = (found.ci95[1] - found.ci95[0]) / 2
    assert abs(found.mean - truth()) <= 5 / 1.96 * half
    assert found.worth >= 3, "replications that an interval as narrow takes without, relative to with"
    assert half < 0.003 * truth()


def test_a_wrong_compensator_is_seen(runs: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    """Controls whose mean is a tenth of a standard deviation off move the mean out of its interval."""
    ends, controls = runs
    wrong = controls.reshape(ends.size, -1) + 0.1 * controls.std(axis=(0, 1)) * ([1.0] * 2 + [0.0] * 2)
    found = present(of_values(ends.ravel(), wrong))
    assert not found.ci95[0] <= truth() <= found.ci95[1]


@pytest.mark.parametrize(
    ("mtti", "repetitions"),
    [
        (20 * HOUR, 100),
        *(pytest.param(mtti, 1000, marks=pytest.mark.nightly) for mtti in (60 * HOUR, 20 * HOUR, 8 * HOUR, 4 * HOUR)),
    ],
)
def test_where_interruptions_are_rare(mtti: float, repetitions: int) -> None:
    """Interruptions in 4 to 44 % of 30 runs: whatever interval is in use contains the truth in 90 % of repetitions.

    So often does Student's, of samples so skewed. Controls that one interrupted run is enough for do in 30 to 85 %.
    """
    mean = truth(FEW, mtti)
    used = []
    for values, controls in zip(*simulated(repetitions, EACH, FEW, mtti), strict=True):
        taken, plain = of_values(values, controls), mean_interval(values)
        # Runs that are all alike have no interval: they do not say how far another one may be from them.
        if plain[0] < plain[1]:
            assert taken is None or np.count_nonzero(controls[:, 2]) >= 10
            used.append(taken.ci95 if taken is not None else plain)
    assert len(used) > repetitions / 2
    assert covered(used, mean) >= binom.ppf(1e-4, len(used), 0.9)
