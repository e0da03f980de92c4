"""Sobol indices and parts of variance, against functions with known indices and noise of known variances."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from analysis.sensitivity import play_sensitivity
from analysis.study.axis import Axis
from analysis.study.designs import Saltelli
from analysis.study.load import load_study
from analysis.study.questions.sobol import Indices, indices, variance_parts
from analysis.study.table import Cell, Outcome, Table
from analysis.sweep.journal import Journal
from analysis.sweep.workers import Where, crew_at
from sim import Ratio
from tests.intervals import LEAST, Z, close

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from analysis.study.amounts import Point

    Floats = NDArray[np.float64]
    Function = Callable[[Floats], Floats]

FEW = 4
"""Replications where they are all the same."""


def ishigami(u: Floats) -> Floats:
    """Return the function of Ishigami and Homma (1990), a = 7, b = 0.1, of points in the unit cube, shape (n, 3)."""
    x = (2 * u - 1) * math.pi
    found: Floats = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    return found


def ishigami_indices() -> tuple[list[float], list[float]]:
    """Return its first-order and total indices, from its parts of variance."""
    of_1 = (1 + 0.1 * math.pi**4 / 5) ** 2 / 2
    of_2 = 7**2 / 8
    of_13 = 0.1**2 * math.pi**8 * (1 / 18 - 1 / 50)
    whole = of_1 + of_2 + of_13
    return [of_1 / whole, of_2 / whole, 0.0], [(of_1 + of_13) / whole, of_2 / whole, of_13 / whole]


_G = np.array([0.0, 1.0, 4.5])


def g_function(u: Floats) -> Floats:
    """Return Sobol's g-function, product of (|4 u - 2| + a) / (1 + a)."""
    found: Floats = ((abs(4 * u - 2) + _G) / (1 + _G)).prod(axis=1)
    return found


def g_indices() -> tuple[list[float], list[float]]:
    """Return its indices: V_i = 1 / (3 (1 + a_i)^2), and V = product of (1 + V_i) less 1."""
    parts = 1 / (3 * (1 + _G) ** 2)
    whole = float(np.prod(1 + parts) - 1)
    total = [float(part * np.prod(np.delete(1 + parts, place)) / whole) for place, part in enumerate(parts)]
    return (parts / whole).tolist(), total


_SLOPES = np.array([0.8, 0.5, 0.33])


def linear(u: Floats) -> Floats:
    """Return a sum of normal numbers."""
    from scipy.special import ndtri

    found: Floats = ndtri(u) @ _SLOPES
    return found


def linear_indices() -> tuple[list[float], list[float]]:
    """Return its indices: the shares of squared slopes, alone and in all."""
    shares = (_SLOPES**2 / (_SLOPES**2).sum()).tolist()
    return shares, shares


KNOWN: dict[str, tuple[Function, tuple[list[float], list[float]]]] = {
    "ishigami": (ishigami, ishigami_indices()),
    "g": (g_function, g_indices()),
    "linear": (linear, linear_indices()),
}

AXES = {name: Axis.model_validate({"distribution": {"law": "uniform", "min": 0.0, "max": 1.0}}) for name in "abc"}


@functools.cache
def design(samples: int, seed: int) -> tuple[tuple[Point, ...], Floats]:
    """Return the points of a Saltelli design, and their inputs, shape (n, 3)."""
    points = tuple(Saltelli(samples=samples).points(AXES, np.random.default_rng(seed)))
    return points, np.array([[value.number for value in point.values] for point in points], dtype=np.float64)


def table_of(function: Function, samples: int, seed: int, luck: Callable[[Floats], Floats] | None = None) -> Table:
    """Return the table of a function over a Saltelli design; luck returns what is added, (n, 3) to (n, R)."""
    points, inputs = design(samples, seed)
    values = function(inputs)[:, None] + (np.zeros((len(points), FEW)) if luck is None else luck(inputs))
    rows = ([Ratio(value, 1.0) for value in row] for row in values.tolist())
    cells = tuple(Cell(Outcome(point, {"y": row})) for point, row in zip(points, rows, strict=True))
    return Table(AXES, cells, ("y",))


def by_axis(found: Indices, which: str) -> list[tuple[float, tuple[float, float]]]:
    """Return value and interval of the first-order or total index of a, b and c."""
    estimates = {row.axis: getattr(row, which) for row in found.axes}
    return [(estimates[name].value, estimates[name].ci95) for name in AXES]


@pytest.mark.parametrize("name", KNOWN)
def test_indices_of_known_functions(name: str) -> None:
    """Indices of functions that are known exactly are within twice their intervals, and these are narrow."""
    function, exact = KNOWN[name]
    found = indices(table_of(function, 256, seed=3), "y")
    for which, truth in zip(("first", "total"), exact, strict=True):
        for (value, (low, high)), expected in zip(by_axis(found, which), truth, strict=True):
            assert high - low < 0.35
            assert abs(value - expected) <= max(value - low, high - value) * 2 + 1e-9
    assert found.together is not None
    assert found.together.ci95[0] - 0.1 <= 1 - sum(exact[0]) <= found.together.ci95[1] + 0.1


@pytest.mark.parametrize("samples", [64, pytest.param(512, marks=pytest.mark.nightly)])
def test_intervals_of_indices_cover(samples: int) -> None:
    """Over 40 designs the 95 % intervals miss Ishigami's indices no more often than 5 % allows.

    With 512 points of a set too, where a Sobol sequence of so many axes may be no more even than chance.
    """
    from scipy.stats import binom

    exact = dict(zip(("first", "total"), ishigami_indices(), strict=True))
    found = [indices(table_of(ishigami, samples, seed), "y") for seed in range(40)]
    most = int(binom.ppf(1 - LEAST, 40, 0.05))
    for which, truth in exact.items():
        for place, expected in enumerate(truth):
            ends = [by_axis(one, which)[place][1] for one in found]
            assert sum(not low - 1e-9 <= expected <= high + 1e-9 for low, high in ends) <= most


@pytest.mark.parametrize("name", KNOWN)
def test_indices_agree_with_scipy(name: str) -> None:
    """The estimates of scipy from the same points are these, within Z of its own standard errors."""
    from scipy.stats import sobol_indices

    table = table_of(KNOWN[name][0], 256, seed=3)
    values = np.array([cell.stated.metrics["y"][0].amount for cell in table.cells]).reshape(5, 1, 256)
    theirs = sobol_indices(func={"f_A": values[0], "f_B": values[1], "f_AB": values[2:]}, n=256)
    resampled = theirs.bootstrap(n_resamples=200)
    found = indices(table, "y")
    for which, other in (("first", "first_order"), ("total", "total_order")):
        ours = np.array([value for value, _ in by_axis(found, which)])
        error = getattr(resampled, other).standard_error
        assert np.all(abs(ours - getattr(theirs, other)) <= Z * error + 0.02)


def test_one_axis_that_brings_nearly_everything_is_sharper_than_with_scipy() -> None:
    """Of exp(z_1 + z_2 / 10) the index of z_1 scatters at most a fifth as much as by means of products, around 98 %."""
    from scipy.special import ndtri
    from scipy.stats import sobol_indices

    def skewed(u: Floats) -> Floats:
        found: Floats = np.exp(ndtri(u) @ np.array([1.0, 0.1, 0.0]))
        return found

    exact = (math.exp(1) - 1) / (math.exp(1.01) - 1)
    ours, theirs = [], []
    for seed in range(40):
        table = table_of(skewed, 64, seed)
        ours.append(by_axis(indices(table, "y"), "first")[0][0])
        values = np.array([cell.stated.metrics["y"][0].amount for cell in table.cells]).reshape(5, 1, 64)
        found = sobol_indices(func={"f_A": values[0], "f_B": values[1], "f_AB": values[2:]}, n=64)
        theirs.append(float(found.first_order[0]))
    assert np.std(ours) < np.std(theirs) / 5
    assert close(np.array(ours), exact)


def noise(seed: int, replications: int, common: float, own: float, tilt: float = 0.0) -> Callable[[Floats], Floats]:
    """Return luck with known standard deviations: common to all points, of each point, and one that grows with a."""

    def luck(inputs: Floats) -> Floats:
        rng = np.random.default_rng([seed, 99])
        shared, slope = rng.standard_normal((2, replications))
        white = own * rng.standard_normal((len(inputs), replications))
        # A uniform number less its mean has the variance 1/12.
        found: Floats = common * shared + white + tilt * math.sqrt(12) * (inputs[:, :1] - 0.5) * slope
        return found

    return luck


def test_variance_parts_are_unbiased() -> None:
    """Over many small layouts the mean of each part is its variance, within Z standard errors."""
    rng = np.random.default_rng(5)
    truth = np.array([4.0, 1.0, 0.25])
    drawn = np.array(
        [
            variance_parts(
                2 * rng.standard_normal((12, 1)) + rng.standard_normal(6) + 0.5 * rng.standard_normal((12, 6))
            )
            for _ in range(600)
        ]
    )
    assert np.all(abs(drawn.mean(axis=0) - truth) <= Z * drawn.std(axis=0, ddof=1) / math.sqrt(len(drawn)))


@pytest.mark.parametrize(("own", "tilt"), [(0.6, 0.0), (0.0, 0.6)])
def test_parts_of_variance_are_recovered(own: float, tilt: float) -> None:
    """Over 40 studies the shares of parameters, luck and both are in their 95 % intervals as often as these say.

    Luck that differs may be each point's own, or grow with an input.
    """
    from scipy.stats import binom

    variances = np.array([(_SLOPES**2).sum(), 0.7**2, own**2 + tilt**2])
    truth = variances / variances.sum()
    misses = np.zeros(3)
    for seed in range(40):
        found = indices(table_of(linear, 32, seed, noise(seed, 12, 0.7, own, tilt)), "y")
        assert found.shares is not None
        ends = [found.shares[name].ci95 for name in ("parameters", "luck", "both")]
        misses += [not low <= share <= high for (low, high), share in zip(ends, truth, strict=True)]
    # Student's intervals of variances of few replications are known to miss somewhat more often: one in ten.
    assert np.all(misses <= binom.ppf(1 - LEAST, 40, 0.1))


def test_noise_of_the_means_does_not_bias_indices() -> None:
    """With half as much noise in the means as signal, indices have the right mean; those of the means do not."""
    from scipy.stats import sobol_indices

    replications, samples = 6, 64
    own = math.sqrt(replications * float((_SLOPES**2).sum()) / 2)
    exact = np.array(linear_indices()[1])
    ours, plain = [], []
    for seed in range(40):
        table = table_of(linear, samples, seed, noise(seed, replications, 1.0, own))
        found = indices(table, "y")
        ours.append([value for value, _ in by_axis(found, "total")])
        means = np.array([np.mean([ratio.amount for ratio in cell.stated.metrics["y"]]) for cell in table.cells])
        sets = means.reshape(5, 1, samples)
        plain.append(
            sobol_indices(func={"f_A": sets[0], "f_B": sets[1], "f_AB": sets[2:]}, n=samples).total_order.ravel()
        )

    def far(estimates: Sequence[object]) -> Floats:
        drawn = np.array(estimates, dtype=np.float64)
        found: Floats = abs(drawn.mean(axis=0) - exact) / (drawn.std(axis=0, ddof=1) / math.sqrt(len(drawn)))
        return found

    # The smallest index is cut at zero at times: it is left to the two that are not.
    assert np.all(far(ours)[:2] <= Z)
    assert np.all(far(plain)[1:] > 2 * Z)


def test_an_input_that_only_tilts_luck_is_seldom_taken_for_one_that_matters() -> None:
    """Where an input changes what luck does but not the mean, 40 studies report indices no more often than 5 %."""
    from scipy.stats import binom

    tables = (table_of(lambda u: 0 * u[:, 0], 32, seed, noise(seed, 6, 1.0, 0.0, 1.0)) for seed in range(40))
    studies = [indices(table, "y") for table in tables]
    assert sum(bool(found.axes) for found in studies) <= binom.ppf(1 - LEAST, 40, 0.05)


def test_luck_that_all_points_share_does_not_touch_indices() -> None:
    """What is added to all points of a replication alike leaves every index as it is."""
    calm = indices(table_of(ishigami, 32, 1), "y")
    lucky = indices(table_of(ishigami, 32, 1, noise(1, FEW, 5.0, 0.0)), "y")
    for which in ("first", "total"):
        ours, theirs = by_axis(lucky, which), by_axis(calm, which)
        assert [value for value, _ in ours] == pytest.approx([value for value, _ in theirs], abs=1e-9)
    assert lucky.parts.luck > 0 == calm.parts.luck


@pytest.mark.nightly
def test_indices_of_the_simulator_are_those_of_its_closed_form(tmp_path: Path) -> None:
    """With failures rare enough for the closed form, simulated ETTR and formula have the same indices.

    The formula is evaluated at the same points; both agree within the intervals of the simulation, and both say that
    the time of a restart, known within a factor of twenty, matters more than a rate that rests on forty events.
    """
    (tmp_path / "s.yaml").write_text(
        "name: s\nscenario: quickstart\nset: {horizon: 10 d, spares.hot: 4, repair.time: 6 h}\nvary:\n"
        "  failures.0.scale: {distribution: {law: counted, events: 40}}\n"
        "  recovery.initialize: {distribution: {law: between, p05: 2 min, p95: 40 min}}\n"
    )
    with Journal(tmp_path / "journal.jsonl") as journal, crew_at(Where("process")) as crew:
        document = play_sensitivity(
            load_study(tmp_path / "s.yaml"), journal, crew, lambda _done, _total: None, method="sobol", command=""
        )
    rows = document["indices"]["by_axis"]
    assert [row["axis"] for row in rows] == ["recovery.initialize", "failures.0.scale"]
    for row in rows:
        for which in ("first", "total"):
            low, high = row[which]["ci95"]
            value = row[which]["value"]
            assert 2 * low - value <= row["closed_form"][which] <= 2 * high - value
    assert rows[0]["first"]["ci95"][0] > rows[1]["total"]["ci95"][1]
