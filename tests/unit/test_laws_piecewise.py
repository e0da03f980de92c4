"""The piecewise law: equal to the integral of its hazard, to exponential lives in each piece, and to Cox's theory."""

from __future__ import annotations

import itertools
import json
import math

import jsonschema
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, stats

from sim import rng
from sim.scenario.fields import Model
from sim.scenario.laws import Exponential, HazardPiece, Law, Piecewise, age_and_residual
from tests.cases import cases

DAY = 86400.0
YEAR = 31556952.0
U = np.concatenate([[2.0**-53, 1e-12, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9]])

BATHTUB = Piecewise(
    hazards=(
        {"until": "30 d", "rate": "2 per year"},
        {"until": "3 years", "rate": "0.1 per year"},
        {"rate": "0.8 per year"},
    )
)
GUARANTEED = Piecewise(  # nothing fails at first, and again for a year
    hazards=(
        {"until": "10 d", "rate": 0},
        {"until": "100 d", "rate": "5 per year"},
        {"until": "465 d", "rate": 0},
        {"rate": "20 per 1000 d"},
    )
)
SUDDEN = Piecewise(hazards=({"until": "1 d", "rate": "1e-6 per d"}, {"rate": "1000 per d"}))
LAWS = [BATHTUB, GUARANTEED, SUDDEN]
NAMES = ["bathtub", "guaranteed", "sudden"]


class Part(Model):
    """A model with a law in it."""

    life: Law


def hazard(law: Piecewise, age: float) -> float:
    """Return the hazard [1/s] at an age [s], read off the pieces one by one."""
    for piece in law.hazards:
        if piece.until is None or age < piece.until:
            return piece.rate
    raise AssertionError


def survival(law: Piecewise, age: float) -> float:
    """Return P(X > age) as a product of what each piece lets live, with `math` alone."""
    alive, start = 1.0, 0.0
    for piece in law.hazards:
        end = math.inf if piece.until is None else piece.until
        if age > start:
            alive *= math.exp(-piece.rate * (min(age, end) - start))
        start = end
    return alive


def integral(law: Piecewise, power: int) -> float:
    """Return the integral of x^power P(X > x) over all times, by quadrature between the breaks."""
    edges = [0.0, *law.breaks]
    ends = [*law.breaks, edges[-1] + 60 / law.hazards[-1].rate]
    return sum(
        integrate.quad(lambda x: x**power * survival(law, x), low, high, epsabs=0, epsrel=1e-12, limit=200)[0]
        for low, high in zip(edges, ends, strict=True)
    )


def test_cdf_by_hand() -> None:
    """2 a year for 30 d, then 0.1 a year to 3 years, then 0.8 a year: the hazards add up in the exponent."""
    burn_in = 2 * 30 * DAY / YEAR
    middle = burn_in + 0.1 * (3 - 30 * DAY / YEAR)
    x = np.array([-1.0, 0.0, 30 * DAY, YEAR, 3 * YEAR, 5 * YEAR])
    expected = [0, 0, burn_in, burn_in + 0.1 * (1 - 30 * DAY / YEAR), middle, middle + 1.6]
    assert_allclose(BATHTUB.cumulative_hazard(x), expected, rtol=1e-14)
    assert_allclose(BATHTUB.cdf(x), -np.expm1(-np.array(expected)), rtol=1e-14)


@cases("law", LAWS, ids=NAMES)
def test_density_over_survival_is_the_hazard(law: Piecewise) -> None:
    """The logarithm of the survival falls at the hazard of each piece."""
    for age in (1.0, 0.5 * DAY, 5 * DAY, 50 * DAY, 400 * DAY, 2 * YEAR, 9 * YEAR):
        step = 1e-3 * age
        slope = np.diff(law.cumulative_hazard(np.array([age - step, age + step])))[0] / (2 * step)
        assert slope == pytest.approx(hazard(law, age), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_moments(law: Piecewise) -> None:
    """E[X] is the integral of P(X > x), and the mean length-biased life E[X^2] / E[X], with E[X^2] = 2 x P(X > x)."""
    assert law.mean_value == pytest.approx(integral(law, 0), rel=1e-9)
    edges = [0.0, *(1 - survival(law, age) for age in law.breaks), 1.0]
    mean = sum(integrate.quad(law.ppf_one, low, high, limit=200)[0] for low, high in itertools.pairwise(edges))
    assert law.mean_value == pytest.approx(mean, rel=1e-6)
    lives = law.length_biased_ppf((np.arange(200_000) + 0.5) / 200_000)
    assert float(np.mean(lives)) == pytest.approx(2 * integral(law, 1) / integral(law, 0), rel=1e-4)


def test_mean_of_two_pieces() -> None:
    """With hazard a up to t and b after it, E[X] = (1 - e^(-a t)) / a + e^(-a t) / b."""
    law = Piecewise(hazards=({"until": "10 h", "rate": "0.2 per h"}, {"rate": "0.01 per h"}))
    assert law.mean_value / 3600 == pytest.approx((1 - math.exp(-2)) / 0.2 + math.exp(-2) / 0.01, rel=1e-14)


@cases("law", LAWS, ids=NAMES)
def test_length_biased_law(law: Piecewise) -> None:
    """The part of E[X] that comes from lives up to the length-biased quantile of u is u, in both tails."""
    mean = integral(law, 0)
    for u in (1e-9, 1e-3, 0.05, 0.3, 0.5, 0.9, 0.999):
        life = float(law.length_biased_ppf(np.array([u]))[0])
        inside = [0.0, *(age for age in law.breaks if age < life), life]
        part = sum(
            integrate.quad(lambda x: x * hazard(law, x) * survival(law, x), low, high, epsabs=0, epsrel=1e-11)[0]
            for low, high in itertools.pairwise(inside)
        )
        assert part / mean == pytest.approx(u, rel=1e-8)


def test_equal_hazards_are_the_exponential_law() -> None:
    """Cut into pieces of one hazard, or not cut at all, the exponential law stays what it is."""
    whole = Exponential(mean="20 h")
    rate = "0.05 per h"
    for pieces in (
        ({"rate": rate},),
        ({"until": "3 h", "rate": rate}, {"until": "50 h", "rate": rate}, {"rate": rate}),
    ):
        law = Piecewise(hazards=pieces)
        assert law.memoryless
        assert law.proportional
        assert law.mean_value == pytest.approx(whole.mean_value, rel=1e-14)
        assert_allclose(law.ppf(U), whole.ppf(U), rtol=1e-13)
        assert_allclose(law.length_biased_ppf(U), whole.length_biased_ppf(U), rtol=1e-12)
    assert not BATHTUB.memoryless
    assert not BATHTUB.proportional


def test_nobody_dies_where_the_hazard_is_zero() -> None:
    """No life ends in a piece of hazard zero, and the quantile at its edge is where it begins."""
    lives = GUARANTEED.ppf(rng.uniform(rng.stream(1, 0, "zero"), range(20_000)))
    assert lives.min() > 10 * DAY
    assert not np.any((lives > 100 * DAY * (1 + 1e-12)) & (lives < 465 * DAY))
    share = -math.expm1(-5 * 90 * DAY / YEAR)
    assert GUARANTEED.ppf_one(share * (1 - 1e-12)) == pytest.approx(100 * DAY, rel=1e-9)
    assert GUARANTEED.ppf_one(share * (1 + 1e-12)) == pytest.approx(465 * DAY, rel=1e-9)


def test_the_quantile_before_a_pause_is_its_beginning() -> None:
    """With hazard ln 2 for one second, then none for another, half of all lives end by 1 s, not by 2 s."""
    law = Piecewise(
        hazards=({"until": "1 s", "rate": f"{math.log(2)!r} per s"}, {"until": "2 s", "rate": 0}, {"rate": "1 per s"})
    )
    assert law.ppf(np.array([0.5]))[0] == law.ppf_one(0.5) == 1.0
    assert law.ppf_one(0.5 + 2.0**-53) == pytest.approx(2.0, rel=1e-12)


def test_failures_in_each_piece_come_at_its_hazard() -> None:
    """Failures over time lived, among 100,000 units, are the hazard of each age band within 4 standard errors."""
    lives = BATHTUB.ppf(rng.uniform(rng.stream(2, 0, "bands"), range(100_000)))
    start = 0.0
    for piece in BATHTUB.hazards:
        end = math.inf if piece.until is None else piece.until
        failures = int(np.sum((lives >= start) & (lives < end)))
        lived = float(np.sum(np.clip(lives, start, end) - start))
        assert failures > 1000
        assert failures / lived == pytest.approx(piece.rate, rel=4 / math.sqrt(failures))
        start = end


def test_stationary_start() -> None:
    """Age and residual life each have the density P(X > x) / E[X]: Cox's equilibrium law."""
    key = rng.stream(3, 0, "stationary pieces")
    u, v = (rng.uniform(key, range(50_000), sub) for sub in (0, 1))
    grid = np.linspace(0, 40 * YEAR, 200_001)
    alive = np.exp(-BATHTUB.cumulative_hazard(grid))
    equilibrium = integrate.cumulative_trapezoid(alive, grid, initial=0) / integral(BATHTUB, 0)
    for times in age_and_residual(BATHTUB, u, v):
        assert stats.kstest(times, lambda x: np.interp(x, grid, equilibrium)).pvalue > 1e-4


def test_written_and_read() -> None:
    """Hazards come back as they were written: a rate without a unit noun, and no end of the last piece."""
    data = {"law": "piecewise", "hazards": [{"until": "30 d", "rate": "0.2 per year"}, {"rate": "100 FIT"}]}
    part = Part.model_validate({"life": data})
    law = part.life
    assert isinstance(law, Piecewise)
    assert law.hazards[0] == HazardPiece(until="720 h", rate="0.2 / year")
    assert law.hazards[1].rate == pytest.approx(1e-7 / 3600)
    written = part.model_dump(exclude_none=True)["life"]
    assert written["hazards"][0] == {"until": "30 d", "rate": "0.2 per year"}
    assert TypeAdapter(Law).validate_python(written) == law
    law.ppf_one(0.5), law.ppf(U)  # what was worked out is neither compared nor written
    assert Part.model_validate_json(part.model_dump_json()) == part
    jsonschema.validate(json.loads(part.model_dump_json(exclude_none=True)), Part.model_json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"life": {"law": "piecewise", "hazards": [{"until": "1 d"}]}}, Part.model_json_schema())


@cases(
    ("hazards", "rule"),
    [
        ([], "at least 1 item"),
        ([{"rate": 0}], "the last hazard must be above zero"),
        ([{"until": "1 d", "rate": "1 per d"}], "the last hazard has no end"),
        ([{"until": "1 d", "rate": "1 per d"}, {"rate": 0}], "the last hazard must be above zero"),
        ([{"rate": "1 per d"}, {"rate": "1 per d"}], "needs 'until'"),
        ([{"until": "2 d", "rate": 0}, {"until": "2 d", "rate": 0}, {"rate": "1 per d"}], "later than the one before"),
        ([{"until": 0, "rate": 0}, {"rate": "1 per d"}], "greater than 0"),
        ([{"rate": "1 per node-day"}], "write '0.2 per year', without 'node'"),
        ([{"rate": "-1 per day"}], "is not a rate|negative"),
        ([{"rate": "0.2"}], 'for example "0.2 per year"'),
        ([{"rate": 0.2}], 'for example "0.2 per year"'),
        ([{"rate": "1e300 per ns"}], "finite"),
        ([{"until": "1 d"}], "required"),
        ([{"rate": "1e-13 per year"}], "not finite, or above 1e12 years"),
    ],
)
def test_mistakes_are_told_in_one_line(hazards: object, rule: str) -> None:
    """Each mistake gives exactly one error, which states the rule."""
    with pytest.raises(ValidationError, match=rule) as caught:
        Part.model_validate({"life": {"law": "piecewise", "hazards": hazards}})
    # An item that is wrong is also missed in the count of the list; sim.input.complaints leaves that echo out.
    errors = [error for error in caught.value.errors() if error["type"] != "too_short" or not error["input"]]
    assert len(errors) == 1


def test_extreme_hazards_stay_finite() -> None:
    """Hazards of all sizes beside each other give finite lives that are in order, without a warning."""
    law = Piecewise(
        hazards=({"until": "1 ns", "rate": "1e250 per s"}, {"until": "1e9 years", "rate": 0}, {"rate": "1e-200 per s"})
    )
    ends = np.array([2.0**-53, 0.5, 1 - 2.0**-53])
    for lives in (law.ppf(ends), law.length_biased_ppf(ends), law.scaled(1e-30).ppf(ends)):
        assert np.all(np.isfinite(lives))
        assert np.all(np.diff(lives) > 0)
