"""The coverage that the page on how sure a study is states is that of the intervals: of samples, and of simulations."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.analysis.statistics.differences import ControlVariates, controlled, ranking_of
from ettrick.analysis.statistics.estimates import contributions, mean_interval
from ettrick.analysis.statistics.intervals import mean_estimate
from ettrick.sim import Ratio
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "how-sure.md"

SIZES = (10, 16, 32, 64)

STATED = 2000

"""Repetitions behind each number of the page."""

SAMPLES: dict[str, tuple[Any, float]] = {
    "normal": (lambda rng, n: rng.normal(0.9, 0.01, n), 0.9),
    "share less a gamma loss (shape 2)": (lambda rng, n: 1 - 0.03 * rng.gamma(2, 0.5, n), 0.97),
    "lognormal, σ = 0.5": (lambda rng, n: rng.lognormal(0, 0.5, n), math.exp(0.125)),
    "lognormal, σ = 1": (lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5)),
    "share with a disaster in 10 % of runs": (lambda rng, n: disasters(rng, n, 0.1), 0.92),
    "share with a disaster in 2 % of runs": (lambda rng, n: disasters(rng, n, 0.02), 0.944),
}


def disasters(rng: np.random.Generator, count: int, often: float) -> NDArray[np.float64]:
    """Return shares of 95 ∓ 1 %, less 30 percentage points in runs with a disaster."""
    return 0.95 + 0.01 * rng.normal(size=count) - 0.3 * (rng.random(count) < often)


@functools.cache
def stated() -> dict[str, list[tuple[float, float]]]:
    """Return the first table of coverage: for each sample Student's and what is shown, by number of replications."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        pairs = [re.fullmatch(r"([\d.]+) / ([\d.]+)", cell) for cell in cells[1:]]
        if len(pairs) == len(SIZES) and all(pairs):
            found[cells[0].replace("`", "")] = [(float(pair[1]) / 100, float(pair[2]) / 100) for pair in pairs if pair]
    return found


def assert_as_stated(hits: int, repetitions: int, share: float) -> None:
    """Fail unless both counts are compatible with one coverage, within four standard errors of their difference."""
    error = math.sqrt(share * (1 - share) * (1 / repetitions + 1 / STATED)) + 0.5 / repetitions
    assert abs(hits / repetitions - share) <= 4 * error, f"{hits / repetitions:.3f} measured, {share:.3f} stated"


def coverage(samples: Any, truth: float) -> tuple[int, int]:
    """Return how many of the intervals hold the truth: Student's, and those that are shown."""
    student = shown = 0
    for values in samples:
        low, high = mean_interval(values) or (math.nan, math.nan)
        student += low <= truth <= high
        low, high = mean_estimate([Ratio(value, 1.0) for value in values.tolist()]).interval or (math.nan, math.nan)
        shown += low <= truth <= high
    return student, shown


def check(name: str, size: int, repetitions: int) -> None:
    """Fail unless the coverage of a sample is the stated one, and that of the shown interval no less than Student's."""
    draw, truth = SAMPLES[name]
    rng = np.random.default_rng([SEED, 71, size, *name.encode()])
    student, shown = coverage((draw(rng, size) for _ in range(repetitions)), truth)
    first, second = stated()[name][SIZES.index(size)]
    assert_as_stated(student, repetitions, first)
    assert_as_stated(shown, repetitions, second)
    assert shown >= student


def test_the_page_has_every_sample() -> None:
    """The table has the samples that are checked here, and four of simulations."""
    simulated = set(stated()) - set(SAMPLES)
    assert set(SAMPLES) <= set(stated())
    assert len(simulated) == 4
    assert all(name.startswith(("quickstart", "llama3-405b-54d")) for name in simulated)


@pytest.mark.parametrize("name", ["normal", "lognormal, σ = 1"])
def test_coverage_of_samples_is_as_stated(name: str) -> None:
    """Sixteen replications, 500 repetitions: as on the page, the harmless sample and the skewed one."""
    check(name, 16, 500)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SAMPLES)
def test_coverage_of_all_samples_is_as_stated(name: str, size: int) -> None:
    """2,000 repetitions of every sample: as on the page, and never below Student's interval."""
    check(name, size, 2000)


def simulated(changes: tuple[str, ...], count: int, first: int = 0) -> tuple[list[Ratio], list[Any]]:
    """Return the ETTR of replications of `quickstart`, and their control variates."""
    template = sim.template(sim.shipped("scenarios")["quickstart"])
    prepared = sim.prepare(template.scenario((*changes, f"seed={SEED}")))
    variates = ControlVariates(prepared)
    results = [sim.run(prepared, number) for number in range(first, first + count)]
    return [ratios(prepared, result)["ettr"] for result in results], [variates.of(result) for result in results]


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("quickstart, ETTR of 5 days", ("horizon=5 d",)),
        ("quickstart, 944 GPUs, ETTR of 10 days", ("horizon=10 d", "jobs.0.gpus=944")),
    ],
)
def test_coverage_of_simulations_is_as_stated(name: str, changes: tuple[str, ...]) -> None:
    """400 repetitions of 16 replications against the mean of 20,000 others: as on the page; with controls, 95 %."""
    repetitions, size = 400, 16
    others = present(contributions(simulated(changes, 20_000, repetitions * size)[0]))
    truth = float(others.mean())
    found, controls = simulated(changes, repetitions * size)
    parts = [slice(start, start + size) for start in range(0, len(found), size)]
    values = [np.array([ratio.amount / ratio.base for ratio in found[part]]) for part in parts]
    student, shown = coverage(values, truth)
    first, second = stated()[name][SIZES.index(size)]
    assert_as_stated(student, repetitions, first)
    assert_as_stated(shown, repetitions, second)
    assert shown >= student
    if "944" in name:
        taken = [controlled(found[part], controls[part]) for part in parts]
        held = [one.ci95[0] <= truth <= one.ci95[1] for one in taken if one is not None]
        assert len(held) == repetitions
        assert_as_stated(sum(held), repetitions, 0.946)
        narrower = [
            np.subtract(*one.ci95) / np.subtract(*(mean_interval(each) or ()))
            for one, each in zip(taken, values, strict=True)
            if one is not None
        ]
        assert np.mean(narrower) == pytest.approx(1 / 3, rel=0.1), "three times narrower"
    else:
        assert set(controls) == {None}, "where nodes may run out controls are not known"


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("lead", [0.0, 0.05])
@pytest.mark.parametrize("size", [10, 32])
def test_rankings_hold_with_skewed_noise(count: int, lead: float, size: int) -> None:
    """Rare bad runs in common and of each: all intervals of a ranking hold together in at least 95 % of 2,000."""
    rng = np.random.default_rng([SEED, 72, count, size, int(100 * lead)])
    truth = np.full(count, 0.9)
    truth[0] += lead
    repetitions, hits = 2000, 0
    for _ in range(repetitions):
        common = 0.02 * rng.gamma(0.5, 2, size)
        values = truth[:, None] - common - 0.01 * (rng.gamma(0.5, 2, (count, size)) - 1)
        found = present(ranking_of([[Ratio(value, 1.0) for value in row] for row in values.tolist()], lowest=False))
        behind = truth.max() - truth[list(found.order)]
        hits += all(
            low - 1e-12 <= true <= high + 1e-12 for true, (_, (low, high)) in zip(behind, found.behind, strict=True)
        )
    # Student's interval of a skewed difference is not exact: a point less than nominal is allowed.
    assert hits >= binom.ppf(0.0005, repetitions, 0.94)
