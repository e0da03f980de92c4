"""Hazard ratios: the life of a unit with r times the hazard has the survival of the law to the power r."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sim import rng
from sim.scenario.laws import Exponential, Lognormal, Mixture, Piecewise, Weibull, hazard_number, hazard_number_one
from tests.cases import cases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.scenario.law_model import LawModel

HOUR = 3600.0
MOST = 1 - 2.0**-53
U = np.concatenate([[2.0**-53, 1e-12, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9, MOST]])
RATIOS = [1e-3, 0.1, 0.5, 1.0, 2.0, 17.3, 1e6]


def rounding(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative error of -ln(1 - u) that comes of the last digit of `numbers`, shape (n,): large near 1."""
    return 1e-13 + 2.0**-53 / ((1 - numbers) * -np.log1p(-numbers))


@cases("ratio", RATIOS)
def test_survival_is_to_the_power_of_the_ratio(ratio: float) -> None:
    """1 - u = (1 - v)^ratio for the number v of u, where a float can hold v."""
    numbers = hazard_number(U, np.full(len(U), ratio))
    inside = numbers < 0.999999
    assert np.count_nonzero(inside) > 3
    assert_allclose(ratio * np.log1p(-numbers[inside]), np.log1p(-U[inside]), rtol=1e-9)
    early = numbers < 0.5
    assert_allclose(ratio * np.log1p(-numbers[early]), np.log1p(-U[early]), rtol=1e-15)


@cases("ratio", RATIOS)
@cases("shape", [0.6, 1.0, 3.0])
def test_weibull_lives_are_scaled(shape: float, ratio: float) -> None:
    """A Weibull law of r times the hazard has the scale r^(-1 / shape); an exponential one the mean 1 / r."""
    law: LawModel = Exponential(mean="1 h") if shape == 1 else Weibull(shape=shape, scale="1 h")
    numbers = hazard_number(U, np.full(len(U), ratio))
    inside = numbers < MOST
    error = np.abs(law.ppf(numbers) / law.scaled(ratio ** (-1 / shape)).ppf(U) - 1)
    assert np.all(error[inside] <= np.maximum(2 * rounding(numbers[inside]) / shape, 1e-12))
    assert np.all(error[numbers < 0.99] <= 1e-12)


@pytest.mark.parametrize(
    "law",
    [
        Lognormal(median="1 h", sigma=1.5),
        Piecewise(hazards=({"until": "1 h", "rate": "1 per h"}, {"rate": "0.1 per h"})),
        Mixture(
            parts=({"weight": 0.3, "law": "1 h"}, {"weight": 0.7, "law": {"law": "gamma", "shape": 2, "mean": "1 h"}})
        ),
    ],
    ids=["lognormal", "piecewise", "mixture"],
)
@pytest.mark.parametrize("ratio", [0.3, 4.0])
def test_lives_of_other_laws(law: LawModel, ratio: float) -> None:
    """Shares of lives up to some times are 1 - P(X > x)^r within 4 standard errors; KS where there is no jump."""
    u = rng.uniform(rng.stream(8, 0, "ratio"), range(50_000))
    lives = law.ppf(hazard_number(u, np.full(len(u), ratio)))
    for x in HOUR * np.array([0.2, 0.9, 1.0, 1.5, 4.0]):
        expected = 1 - float(1 - law.cdf(np.array([x]))[0]) ** ratio
        sigma = np.sqrt(expected * (1 - expected) / len(u))
        assert abs(np.mean(lives <= x) - expected) < 4 * sigma
    if not isinstance(law, Mixture):
        assert stats.kstest(lives, lambda x: 1 - (1 - law.cdf(x)) ** ratio).pvalue > 1e-4


def test_scalar_equals_vector() -> None:
    """One number is one of many, and a plain float."""
    for ratio in RATIOS:
        scalars = [hazard_number_one(u, ratio) for u in U.tolist()]
        assert_allclose(scalars, hazard_number(U, np.full(len(U), ratio)), rtol=1e-15)
        assert {type(number) for number in scalars} == {float}


def test_each_unit_has_its_own_ratio() -> None:
    """Ratios go with their numbers, one by one; a larger hazard means a shorter life; a ratio of 1 changes nothing."""
    ratios = np.array([0.5, 1.0, 2.0])
    numbers = hazard_number(np.full(3, 0.75), ratios)
    assert_allclose(numbers, [15 / 16, 3 / 4, 1 / 2], rtol=1e-15)
    assert_allclose(hazard_number(U, np.ones(len(U))), U, rtol=1e-15)


@cases("ratio", [1e-300, 1e-9, 1e9, 1e300])
def test_numbers_stay_inside(ratio: float) -> None:
    """Whatever the ratio, the numbers are strictly between 0 and 1, so that every law has a finite life for them."""
    numbers = hazard_number(U, np.full(len(U), ratio))
    assert np.all((numbers > 0) & (numbers < 1))
    assert np.all(np.diff(numbers) >= 0)
    for law in (Lognormal(median="1 h", sigma=1), Weibull(shape=0.5, scale="1 h")):
        assert np.all(np.isfinite(law.ppf(numbers)))
        assert all(np.isfinite(law.ppf_one(hazard_number_one(u, ratio))) for u in U.tolist())
