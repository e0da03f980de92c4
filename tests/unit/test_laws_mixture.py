"""The mixture law: equal to drawing a part by its weight and a life by the part's law, jumps and gaps included."""

from __future__ import annotations

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
from sim.scenario.laws import Exponential, Fixed, Law, Mixture, age_and_residual
from tests.cases import cases

HOUR = 3600.0
DAY = 86400.0
U = np.concatenate([[2.0**-53, 1e-12, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9]])

# Infant mortality of one unit in twenty beside wear-out, with the same laws of scipy.stats.
INFANTS = Mixture(
    parts=(
        {"weight": "5 %", "law": {"law": "weibull", "shape": 0.6, "scale": "10 d"}},
        {"weight": "95 %", "law": {"law": "lognormal", "median": "1000 d", "sigma": 0.8}},
    )
)
THEIRS = ((0.05, stats.weibull_min(0.6, scale=10 * DAY)), (0.95, stats.lognorm(0.8, scale=1000 * DAY)))
HYPER = Mixture(
    parts=(
        {"weight": 0.2, "law": {"law": "exponential", "mean": "1 h"}},
        {"weight": 0.8, "law": {"law": "exponential", "mean": "50 h"}},
    )
)
REPAIRS = Mixture(  # most are a reboot, some a visit, a few wait for a part
    parts=(
        {"weight": 0.75, "law": "30 min"},
        {"weight": 0.15, "law": {"law": "uniform", "low": "1 h", "high": "3 h"}},
        {"weight": 0.1, "law": {"law": "piecewise", "hazards": [{"until": "2 d", "rate": 0}, {"rate": "1 per d"}]}},
    )
)


class Part(Model):
    """A model with a law in it."""

    life: Law


def test_cdf_and_mean_are_weighted_means() -> None:
    """Probability and mean are those of the parts in proportion to their weights, by scipy's own laws."""
    x = DAY * np.array([-1, 0, 1e-6, 1, 10, 100, 1000, 10_000])
    assert_allclose(INFANTS.cdf(x), sum(weight * law.cdf(x) for weight, law in THEIRS), rtol=1e-12)
    assert_allclose(
        np.exp(-INFANTS.cumulative_hazard(x)), sum(weight * law.sf(x) for weight, law in THEIRS), rtol=1e-11
    )
    assert INFANTS.mean_value == pytest.approx(sum(weight * law.mean() for weight, law in THEIRS), rel=1e-12)


def test_ppf_is_the_inverse_in_both_tails() -> None:
    """The time of u has probability u, and the time of 1 - u leaves u: small ones to many digits."""
    for u in (1e-15, 1e-9, 1e-3, 0.2, 0.5):
        early = INFANTS.ppf_one(u)
        assert sum(weight * law.cdf(early) for weight, law in THEIRS) == pytest.approx(u, rel=1e-11)
        late = INFANTS.ppf(np.array([1 - u]))
        assert sum(weight * law.sf(late[0]) for weight, law in THEIRS) == pytest.approx(1 - (1 - u), rel=1e-11)


def test_hyperexponential() -> None:
    """Two exponential parts: E[X^2] is the sum of 2 w m^2, and the mean length-biased life E[X^2] / E[X]."""
    mean, second = (0.2 * 1 + 0.8 * 50) * HOUR, 2 * (0.2 * 1 + 0.8 * 2500) * HOUR**2
    assert HYPER.mean_value == pytest.approx(mean, rel=1e-14)
    found, _ = integrate.quad(HYPER.ppf_one, 0, 1, epsrel=1e-9, limit=500)
    assert found == pytest.approx(mean, rel=1e-6)
    found, _ = integrate.quad(lambda u: HYPER.length_biased_ppf(np.array([u]))[0], 0, 1, epsrel=1e-7, limit=500)
    assert found == pytest.approx(second / mean, rel=1e-5)


@cases("u", [1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
def test_length_biased_parts_weigh_by_what_they_live(u: float) -> None:
    """A unit met at random belongs to a part in proportion to weight times mean: gamma lives of shape 2 here."""
    shares = [0.2 * 1 / 40.2, 0.8 * 50 / 40.2]
    life = float(HYPER.length_biased_ppf(np.array([u]))[0]) / HOUR
    laws = (stats.gamma(2), stats.gamma(2, scale=50))
    assert sum(share * law.cdf(life) for share, law in zip(shares, laws, strict=True)) == pytest.approx(u, rel=1e-10)


def test_lives_are_those_of_drawing_a_part_first() -> None:
    """Lives by the inverse CDF and by part first, life second, are samples of one law (Kolmogorov, Smirnov)."""
    key = rng.stream(5, 0, "parts")
    lives = INFANTS.ppf(rng.uniform(key, range(50_000), 0))
    assert stats.kstest(lives, lambda x: sum(weight * law.cdf(x) for weight, law in THEIRS)).pvalue > 1e-4
    which, number = (rng.uniform(key, range(50_000), sub) for sub in (1, 2))
    two_steps = np.where(which < 0.05, THEIRS[0][1].ppf(number), THEIRS[1][1].ppf(number))
    assert stats.ks_2samp(lives, two_steps).pvalue > 1e-4
    one_by_one = [INFANTS.ppf_one(u) for u in rng.uniform(key, range(2_000), 3).tolist()]
    assert stats.ks_2samp(one_by_one, two_steps).pvalue > 1e-4


def test_stationary_start_makes_the_failure_rate_constant() -> None:
    """The share of residual lives that end within t is the integral of P(X > x) / E[X] up to t."""
    key = rng.stream(6, 0, "stationary mixture")
    u, v = (rng.uniform(key, range(50_000), sub) for sub in (0, 1))
    weights, means = np.array([0.2 * 1, 0.8 * 50]) / 40.2, np.array([1.0, 50.0]) * HOUR
    for times in age_and_residual(HYPER, u, v):
        assert stats.kstest(times, lambda x: -np.expm1(-x[:, None] / means) @ weights).pvalue > 1e-4


def test_jumps_are_exact() -> None:
    """A fixed part gives exactly its time, three times in four, and a share of the others on either side of it."""
    lives = REPAIRS.ppf(U)
    assert np.all(lives[U <= 0.75] == 30 * 60.0)
    assert np.all(lives[U > 0.7501] >= HOUR)
    assert [REPAIRS.ppf_one(u) for u in (1e-9, 0.5, 0.75)] == [1800.0] * 3
    both = Mixture(parts=({"weight": 0.5, "law": "1 h"}, {"weight": 0.5, "law": {"law": "exponential", "mean": "1 h"}}))
    before = 0.5 * -math.expm1(-1)
    assert both.ppf_one(before * (1 + 1e-9)) == both.ppf_one(before + 0.5 - 1e-9) == HOUR
    assert both.ppf_one(before * (1 - 1e-9)) == pytest.approx(HOUR, rel=1e-8)
    assert both.ppf_one(before * (1 - 1e-9)) < HOUR < both.ppf_one(before + 0.5 + 1e-9)
    assert np.all(np.diff(both.ppf(U)) >= 0)


def test_a_gap_is_crossed_at_its_near_end() -> None:
    """Where no life ends, the smallest time that reaches u is the last life before the gap."""
    law = Mixture(
        parts=(
            {"weight": 0.5, "law": {"law": "uniform", "low": "0 h", "high": "1 h"}},
            {"weight": 0.5, "law": {"law": "uniform", "low": "9 h", "high": "10 h"}},
        )
    )
    assert law.ppf(np.array([0.25, 0.5, 0.75])) / HOUR == pytest.approx([0.5, 1, 9.5], rel=1e-12)
    assert [law.ppf_one(u) / HOUR for u in (0.25, 0.5, 0.75)] == pytest.approx([0.5, 1, 9.5], rel=1e-12)
    assert law.ppf_one(0.5) == HOUR


def test_equal_parts_are_the_part() -> None:
    """A mixture of a law with itself is that law, rounding at the ends of the bracket or not."""
    whole = Exponential(mean="1 h")
    law = Mixture(parts=tuple({"weight": weight, "law": whole} for weight in (0.3, 0.3, 0.4)))
    assert_allclose(law.ppf(U), whole.ppf(U), rtol=1e-13)
    assert_allclose([law.ppf_one(u) for u in U.tolist()], whole.ppf(U), rtol=1e-13)
    assert_allclose(law.length_biased_ppf(U), whole.length_biased_ppf(U), rtol=1e-13)


@cases("other", ["36 s", "100 h"])
def test_a_part_that_hardly_counts(other: str) -> None:
    """A part of weight 1e-15, of far shorter or longer lives, moves no time: the other end of the bracket is far."""
    whole = Exponential(mean="1 h")
    law = Mixture(parts=({"weight": 1, "law": whole}, {"weight": 1e-15, "law": {"law": "exponential", "mean": other}}))
    u = np.linspace(0.001, 0.9, 500)
    assert_allclose(law.ppf(u), whole.ppf(u), rtol=1e-11)
    assert_allclose([law.ppf_one(number) for number in u.tolist()], whole.ppf(u), rtol=1e-11)


def test_each_life_is_its_own() -> None:
    """A life does not depend, in its last bit, on which others are drawn with it."""
    u = rng.uniform(rng.stream(7, 0, "alone"), range(1001))
    for law in (INFANTS, REPAIRS):
        lives, biased = law.ppf(u), law.length_biased_ppf(u)
        for some in (slice(0, 1), slice(3, 1001, 7), slice(1000, None)):
            assert np.array_equal(law.ppf(u[some]), lives[some])
            assert np.array_equal(law.length_biased_ppf(u[some]), biased[some])


def test_weights_that_round() -> None:
    """Thirds written with ten digits sum to 1 closely enough; the law still reaches probability 1."""
    law = Mixture(parts=tuple({"weight": 0.3333333333, "law": text} for text in ("1 h", "2 h", "3 h")))
    assert law.cdf(np.array([3 * HOUR]))[0] == pytest.approx(1, abs=1e-15)
    assert law.mean_value == pytest.approx(2 * HOUR, rel=1e-14)
    assert law.ppf_one(1 - 2.0**-53) == 3 * HOUR


def test_a_part_that_takes_no_time_is_never_met() -> None:
    """A fixed time of zero is a jump at zero, and has no place among length-biased lives."""
    law = Mixture(parts=({"weight": 0.5, "law": 0}, {"weight": 0.5, "law": {"law": "exponential", "mean": "1 h"}}))
    assert law.ppf(np.array([1e-9, 0.5, 0.5 + 0.5 * -math.expm1(-1)])) == pytest.approx([0, 0, HOUR], rel=1e-12)
    assert_allclose(law.length_biased_ppf(U), Exponential(mean="1 h").length_biased_ppf(U), rtol=1e-12)


def test_written_and_read() -> None:
    """A mixture comes back as it was written; text in a part is a fixed time there too."""
    data = {
        "law": "mixture",
        "parts": [{"weight": 0.8, "law": "30 min"}, {"weight": "20 %", "law": {"law": "exponential", "mean": "1 d"}}],
    }
    part = Part.model_validate({"life": data})
    law = part.life
    assert isinstance(law, Mixture)
    assert law.parts[0].law == Fixed(value="30 min")
    jsonschema.validate({"life": data}, Part.model_json_schema())
    law.ppf_one(0.9), law.length_biased_ppf(U)  # what was worked out is neither compared nor written
    assert Part.model_validate_json(part.model_dump_json()) == part
    assert TypeAdapter(Law).validate_python(law.model_dump(exclude_none=True)) == law
    jsonschema.validate(json.loads(part.model_dump_json()), Part.model_json_schema())
    assert law.scaled(2).parts[0].law == Fixed(value="1 h")


@cases(
    ("parts", "rule"),
    [
        ([], "at least 2 items"),
        ([{"weight": 1, "law": "1 h"}], "at least 2 items"),
        ([{"weight": 0.8, "law": "1 h"}, {"weight": 0.3, "law": "2 h"}], "must sum to 1, not to 1.1"),
        ([{"weight": 0.5, "law": "1 h"}, {"weight": 0.499999, "law": "2 h"}], "must sum to 1, not to 0.999999"),
        ([{"weight": 1, "law": "1 h"}, {"weight": 0, "law": "2 h"}], "greater than 0"),
        ([{"weight": 1.5, "law": "1 h"}, {"weight": 0.5, "law": "2 h"}], "above 1"),
        ([{"weight": 0.5, "law": "0 s"}, {"weight": 0.5, "law": 0}], "a mean above zero"),
        ([{"weight": 0.5, "law": 30}, {"weight": 0.5, "law": "1 h"}], "needs a unit"),
        ([{"weight": 0.5, "law": {"law": "mixture"}}, {"weight": 0.5, "law": "1 h"}], "does not match any"),
        (
            [{"weight": 0.5, "law": {"law": "weibull", "shape": 1}}, {"weight": 0.5, "law": "1 h"}],
            "exactly one of mean",
        ),
        ([{"weight": 0.5}, {"weight": 0.5, "law": "1 h"}], "required"),
        ([{"weight": 0.5, "law": "1 h", "mean": "1 h"}, {"weight": 0.5, "law": "1 h"}], "Extra inputs"),
    ],
)
def test_mistakes_are_told_in_one_line(parts: object, rule: str) -> None:
    """Each mistake gives exactly one error, which states the rule."""
    with pytest.raises(ValidationError, match=rule) as caught:
        Part.model_validate({"life": {"law": "mixture", "parts": parts}})
    # An item that is wrong is also missed in the count of the list; sim.input.complaints leaves that echo out.
    errors = [error for error in caught.value.errors() if error["type"] != "too_short" or len(error["input"]) < 2]
    assert len(errors) == 1
