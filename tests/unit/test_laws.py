"""Lifetime laws: equal to scipy's distributions, to Cox's stationary renewal process, and to what was written."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, special, stats

from sim import rng
from sim.scenario.fields import Model
from sim.scenario.laws import (
    Empirical,
    Exponential,
    Fixed,
    Gamma,
    Law,
    Lognormal,
    Mixture,
    Piecewise,
    Uniform,
    Weibull,
    age_and_residual,
    draw,
    residual,
)
from tests.cases import cases

if TYPE_CHECKING:
    from sim.scenario.law_model import LawModel

HOUR = 3600.0
U = np.concatenate([[2.0**-53, 1e-12, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9]])

# Each law beside the same law of scipy.stats, in scipy's own parameters.
CONTINUOUS: list[tuple[LawModel, Any]] = [
    (Exponential(mean="1 h"), stats.expon(scale=HOUR)),
    (Weibull(shape=0.6, scale="1 h"), stats.weibull_min(0.6, scale=HOUR)),
    (Weibull(shape=1, mean="1 h"), stats.expon(scale=HOUR)),
    (Weibull(shape=2, mean="1 h"), stats.weibull_min(2, scale=2 * HOUR / math.sqrt(math.pi))),
    (Gamma(shape=0.5, mean="1 h"), stats.gamma(0.5, scale=2 * HOUR)),
    (Gamma(shape=1, mean="1 h"), stats.expon(scale=HOUR)),
    (Gamma(shape=3, mean="1 h"), stats.erlang(3, scale=HOUR / 3)),
    (Lognormal(median="1 h", sigma=0.5), stats.lognorm(0.5, scale=HOUR)),
    (Lognormal(mean="1 h", sigma=1.5), stats.lognorm(1.5, scale=HOUR * math.exp(-1.125))),
    (Uniform(low="0 s", high="1 h"), stats.uniform(0, HOUR)),
    (Uniform(low="30 min", high="1 h"), stats.uniform(HOUR / 2, HOUR / 2)),
]
STEPS: list[LawModel] = [
    Empirical(values=("4 s", "0 s", "1 s", "3 s", "1 s")),
    Fixed(value="30 min"),
    Fixed(value=0),
]
# Composed laws: their own theory is in test_laws_piecewise.py and test_laws_mixture.py.
SMOOTH: list[LawModel] = [
    Piecewise(hazards=({"rate": "1 per h"},)),
    Piecewise(hazards=({"until": "1 h", "rate": "2 per d"}, {"until": "2 d", "rate": 0}, {"rate": "1 per d"})),
    Mixture(
        parts=(
            {"weight": 0.05, "law": {"law": "weibull", "shape": 0.6, "mean": "1 h"}},
            {"weight": "95 %", "law": {"law": "gamma", "shape": 3, "mean": "30 h"}},
        )
    ),
]
JUMPING: list[LawModel] = [
    Mixture(
        parts=(
            {"weight": 0.3, "law": "30 min"},
            {"weight": 0.1, "law": 0},
            {"weight": 0.2, "law": {"law": "uniform", "low": "1 h", "high": "2 h"}},
            {"weight": 0.3, "law": {"law": "lognormal", "median": "1 h", "sigma": 1}},
            {"weight": 0.1, "law": {"law": "empirical", "values": ["1 h", "50 min", "30 min"]}},
        )
    ),
]
LAWS = [law for law, _ in CONTINUOUS] + STEPS + SMOOTH + JUMPING
NAMES = [law.model_dump_json(exclude_none=True) for law in LAWS]


class Repaired(Model):
    """A model with a law in it."""

    repair: Law


@cases(("law", "theirs"), CONTINUOUS, ids=NAMES[: len(CONTINUOUS)])
def test_law_is_the_law_of_its_name(law: LawModel, theirs: Any) -> None:
    """Mean, CDF and inverse CDF are those of scipy's distribution; there is no mass below zero."""
    x = HOUR * np.array([-1, 0, 1e-6, 0.1, 0.5, 0.7, 1, 2, 5])
    assert law.mean_value == pytest.approx(theirs.mean(), rel=1e-12)
    assert_allclose(law.cdf(x), theirs.cdf(x), rtol=1e-10)
    assert_allclose(law.ppf(U), theirs.ppf(U), rtol=1e-9)


@cases(("law", "theirs"), CONTINUOUS, ids=NAMES[: len(CONTINUOUS)])
def test_cdf_undoes_ppf(law: LawModel, theirs: Any) -> None:
    """The CDF of the inverse CDF of u is u, in both tails."""
    # Close to a positive lower limit a time has too few digits for the smallest u to come back.
    assert_allclose(law.cdf(law.ppf(U)), U, rtol=1e-8, atol=1e-15)


@cases("law", LAWS, ids=NAMES)
def test_ppf_is_the_smallest_time_that_reaches_u(law: LawModel) -> None:
    """P(X <= ppf(u)) >= u, and no shorter time reaches u: the definition of a quantile, steps included."""
    times = law.ppf(U)
    assert np.all(law.cdf(times) >= U - 1e-12)
    assert np.all(law.cdf(times - 1e-6 * (1 + times)) <= U)
    assert np.all(np.diff(times) >= 0)


@cases("law", LAWS, ids=NAMES)
def test_scalar_equals_vector(law: LawModel) -> None:
    """The scalar inverse CDF is the vectorised one, and a plain float."""
    scalars = [law.ppf_one(u) for u in U.tolist()]
    assert_allclose(scalars, law.ppf(U), rtol=1e-12)
    assert {type(x) for x in scalars} == {float}


@cases("law", LAWS, ids=NAMES)
def test_every_keyed_number_gives_a_usable_time(law: LawModel) -> None:
    """The smallest and the largest keyed number give finite times that are not negative."""
    ends = np.array([2.0**-53, 1 - 2.0**-53])
    for times in (law.ppf(ends), law.length_biased_ppf(ends), np.array([law.ppf_one(u) for u in ends.tolist()])):
        assert np.all(np.isfinite(times))
        assert np.all(times >= 0)


@pytest.mark.parametrize(("law", "theirs"), CONTINUOUS, ids=NAMES[: len(CONTINUOUS)])
def test_length_biased_law_has_density_x_f(law: LawModel, theirs: Any) -> None:
    """The part of E[X] that comes from lives up to the length-biased quantile of u is u."""
    for u in (0.05, 0.3, 0.5, 0.9):
        life = law.length_biased_ppf(np.array([u]))[0]
        # In probability instead of time, so that a density with a pole at 0 does no harm.
        part, _ = integrate.quad(theirs.ppf, 0, theirs.cdf(life), epsabs=1e-7 * HOUR)
        assert part / theirs.mean() == pytest.approx(u, rel=1e-5)


@cases(("law", "theirs"), CONTINUOUS, ids=NAMES[: len(CONTINUOUS)])
def test_mean_of_length_biased_lives(law: LawModel, theirs: Any) -> None:
    """The mean length-biased life is E[X^2] / E[X]."""
    mean, _ = integrate.quad(lambda u: law.length_biased_ppf(np.array([u]))[0], 0, 1, epsrel=1e-6, limit=500)
    assert mean == pytest.approx(theirs.moment(2) / theirs.mean(), rel=1e-4)


def test_drawn_time_is_the_quantile_of_its_mark() -> None:
    """A time belongs to its purpose: the median where the mark is one half, whatever other marks are."""
    marks = {"repair": 0.5, "restart": 0.75}
    assert draw(Exponential(mean="1 h"), marks.__getitem__, "repair") == pytest.approx(HOUR * math.log(2))
    assert draw(Exponential(mean="1 h"), marks.__getitem__, "restart") == pytest.approx(2 * HOUR * math.log(2))


def test_empirical_by_hand() -> None:
    """Quantiles of (0, 1, 1, 3, 4) s are its order statistics; met at random, a life is 1, 1, 3 or 4 by 9 parts."""
    law = Empirical(values=("4 s", "0 s", "1 s", "3 s", "1 s"))
    assert law.mean_value == 9 / 5
    places = [0.1, 0.2, 0.21, 0.6, 0.61, 0.81]
    assert law.ppf(np.array(places)).tolist() == [law.ppf_one(u) for u in places] == [0, 0, 1, 1, 3, 4]
    assert law.cdf(np.array([-1.0, 0, 0.5, 1, 3.9, 4, 9])).tolist() == [0, 0.2, 0.2, 0.6, 0.8, 1, 1]
    parts = np.array([1e-15, 0.5 / 9, 1.9 / 9, 2.1 / 9, 4.9 / 9, 5.1 / 9, 8.9 / 9])
    assert law.length_biased_ppf(parts).tolist() == [1, 1, 1, 3, 3, 4, 4]


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_stationary_start(shape: float) -> None:
    """Age and residual life each have the density P(X > x) / E[X]: Cox's equilibrium law."""
    law = Weibull(shape=shape, scale="1 h")
    key = rng.stream(3, 0, "stationary")
    u, v = (rng.uniform(key, range(100_000), sub) for sub in (0, 1))
    for times in age_and_residual(law, u, v):
        # The integral of exp(-(x / scale)^shape) over the mean is an incomplete gamma function.
        equilibrium = stats.kstest(times, lambda x: special.gammainc(1 / shape, (x / HOUR) ** shape))
        assert equilibrium.pvalue > 1e-4
    assert np.array_equal(residual(law, u, v), age_and_residual(law, u, v)[1])
    assert_allclose(np.sum(age_and_residual(law, u, v), axis=0), law.length_biased_ppf(u))


def test_stationary_start_makes_the_failure_rate_constant() -> None:
    """Renewals from a stationary start number t / E[X] from the first moment on; from new parts they do not."""
    law, units, horizon = Weibull(shape=0.5, mean="1 h"), 40_000, 0.2 * HOUR
    key = rng.stream(4, 0, "renewals")
    u, v = (rng.uniform(key, range(units), sub) for sub in (100, 101))
    z = {}
    for start, times in (("stationary", residual(law, u, v)), ("new", law.ppf(u))):
        renewals = np.zeros(units)
        for generation in range(100):
            renewals += times < horizon
            times = times + law.ppf(rng.uniform(key, range(units), generation))
        assert np.all(times > horizon)
        z[start] = (renewals.mean() - horizon / law.mean_value) / (renewals.std() / math.sqrt(units))
    assert abs(z["stationary"]) < 4
    assert z["new"] > 20  # early failures of a falling hazard: what the stationary start is there to prevent


@cases("law", LAWS, ids=NAMES)
def test_scaled_law(law: LawModel) -> None:
    """A scaled law is the same law with every time multiplied, and reads like one that was written so."""
    double = law.scaled(2)
    assert type(double) is type(law)
    assert_allclose(double.ppf(U), 2 * law.ppf(U), rtol=1e-12)
    assert_allclose(double.length_biased_ppf(U), 2 * law.length_biased_ppf(U), rtol=1e-12)
    assert double.mean_value == pytest.approx(2 * law.mean_value, rel=1e-12)
    assert double.scaled(0.5) == law
    assert type(law).model_validate(double.model_dump()) == double


@cases("factor", [0, -1, math.inf, math.nan])
def test_scale_must_be_positive(factor: float) -> None:
    """A factor that is zero, negative, infinite or no number is refused."""
    with pytest.raises(ValueError, match="positive and finite"):
        Exponential(mean="1 h").scaled(factor)


@cases("law", LAWS, ids=NAMES)
def test_cumulative_hazard_is_minus_ln_of_survival(law: LawModel) -> None:
    """H(x) = -ln(1 - P(X <= x)), one number as many, from before the first life to after the last."""
    x = HOUR * np.array([-1, 0, 1e-6, 0.1, 0.5, 0.7, 1, 1.5, 2, 5, 30])
    hazards = law.cumulative_hazard(x)
    assert_allclose(-np.expm1(-hazards), law.cdf(x), rtol=1e-12, atol=1e-15)
    scalars = [law.cumulative_hazard_one(time) for time in x.tolist()]
    assert_allclose(scalars, hazards, rtol=1e-12)
    assert {type(hazard) for hazard in scalars} == {float}


@cases("law", [law for law, _ in CONTINUOUS] + SMOOTH, ids=NAMES[: len(CONTINUOUS)] + NAMES[-4:-1])
def test_cumulative_hazard_keeps_both_tails(law: LawModel) -> None:
    """The cumulative hazards of the times of u are -ln(1 - u) to many digits, length-biased lives included."""
    # Close to the limits of a uniform law a time has too few digits to tell the rarest apart.
    u = U[3:-2] if isinstance(law, Uniform) else U
    assert_allclose(law.cumulative_hazard(law.ppf(u)), -np.log1p(-u), rtol=1e-9)
    lives = law.length_biased_ppf(u)
    assert_allclose(law.cumulative_hazard(lives, length_biased=True), -np.log1p(-u), rtol=1e-9)


def test_cumulative_hazard_of_length_biased_steps() -> None:
    """Of lives of 1, 1, 3 and 4 s, 5 / 9 of all time is spent in those up to 3 s."""
    hazards = STEPS[0].cumulative_hazard(np.array([0, 1, 2.9, 3, 4]), length_biased=True)
    assert_allclose(-np.expm1(-hazards), [0, 2 / 9, 2 / 9, 5 / 9, 1])


@cases("law", [law for law in LAWS if not isinstance(law, Fixed)], ids=repr)
def test_proportional_laws(law: LawModel) -> None:
    """Only in a proportional law does a quarter of the hazard stretch short and long lives by the same factor."""
    u = np.array([0.1, 0.5, 0.9])
    factors = law.ppf(u) / law.ppf(1 - (1 - u) ** 4)
    assert np.allclose(factors, factors[0], rtol=1e-9) == law.proportional


def test_memoryless_laws() -> None:
    """Only the exponential law, under each of its names, forgets: P(X > old + more | X > old) = P(X > more)."""
    assert [name for name, law in zip(NAMES, LAWS, strict=True) if law.memoryless] == [
        '{"law":"exponential","mean":"1 h"}',
        '{"law":"weibull","shape":1.0,"mean":"1 h"}',
        '{"law":"gamma","shape":1.0,"mean":"1 h"}',
        '{"law":"piecewise","hazards":[{"rate":"1 per h"}]}',
    ]
    old, more = 2 * HOUR, np.array([0.5, 1, 3]) * HOUR
    for law, _ in CONTINUOUS:
        survival = 1 - law.cdf(np.array([old]))
        if survival > 0:
            remaining = (1 - law.cdf(old + more)) / survival
            assert np.allclose(remaining, 1 - law.cdf(more), rtol=1e-9) == law.memoryless


@cases("law", LAWS, ids=NAMES)
def test_round_trip(law: LawModel) -> None:
    """What is written is read back as the same law, as JSON and as plain data, inside another model and alone."""
    holder = Repaired(repair=law)
    assert Repaired.model_validate_json(holder.model_dump_json()) == holder
    assert Repaired.model_validate(holder.model_dump()) == holder
    assert TypeAdapter(Law).validate_python(law.model_dump(exclude_none=True)) == law
    jsonschema.validate(json.loads(holder.model_dump_json()), Repaired.model_json_schema())


def test_text_is_a_fixed_law() -> None:
    """Plain text is a fixed time, for the loader and for the JSON Schema."""
    assert Repaired(repair="30 min").repair == Fixed(value="30 min")
    jsonschema.validate({"repair": "30 min"}, Repaired.model_json_schema())


def test_schema_asks_for_the_law() -> None:
    """The JSON Schema refuses an object without its law, as the loader does."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"repair": {"mean": "1 h"}}, Repaired.model_json_schema())
    with pytest.raises(ValidationError, match="law"):
        Repaired.model_validate({"repair": {"mean": "1 h"}})


def test_from_seconds() -> None:
    """Numbers in seconds give the law that text gives, to the last bit, and are validated like it."""
    assert Weibull.from_seconds(shape=0.7, scale=HOUR) == Weibull(shape=0.7, scale="1 h")
    assert Empirical.from_seconds(values=(3.0, 1.0)) == Empirical(values=("1 s", "3 s"))
    assert Exponential.from_seconds(mean=1 / 3).mean == 1 / 3
    with pytest.raises(ValueError, match="greater than 0"):
        Exponential.from_seconds(mean=0.0)


@cases(
    ("wrong", "rule"),
    [
        ({"law": "weibull", "shape": 0.7}, r"exactly one of mean and scale \(given: none\)"),
        ({"law": "weibull", "shape": 1, "mean": "1 h", "scale": "1 h"}, r"exactly one .*\(given: mean, scale\)"),
        ({"law": "weibull", "shape": 0, "mean": "1 h"}, "greater than or equal to 0.05"),
        ({"law": "weibull", "shape": math.inf, "mean": "1 h"}, "finite"),
        ({"law": "gamma", "shape": -1, "mean": "1 h"}, "greater than or equal to 0.05"),
        ({"law": "gamma", "shape": 2}, "Field required"),
        ({"law": "lognormal", "sigma": 1}, "exactly one of median and mean"),
        ({"law": "lognormal", "sigma": 0, "median": "1 h"}, "greater than 0"),
        ({"law": "lognormal", "sigma": 30, "median": "1 h"}, "less than or equal to 10"),
        ({"law": "lognormal", "sigma": math.nan, "median": "1 h"}, "finite"),
        ({"law": "lognormal", "sigma": 10, "median": "1 h"}, "not finite, or above 1e12 years"),
        ({"law": "lognormal", "sigma": 9, "median": "1e303 d"}, "not finite, or above 1e12 years"),
        ({"law": "weibull", "shape": 0.05, "scale": "1 year"}, "not finite, or above 1e12 years"),
        ({"law": "empirical", "values": ["2e303 d", "2e303 d"]}, "not finite, or above 1e12 years"),
        ({"law": "piecewise", "hazards": [{"rate": "1e-13 per year"}]}, "not finite, or above 1e12 years"),
        ("1.1e12 years", "not finite, or above 1e12 years"),
        ({"law": "exponential", "mean": "0 s"}, "greater than 0"),
        ({"law": "exponential", "mean": "-1 h"}, "must not be negative"),
        ({"law": "empirical", "values": []}, "at least one value above zero"),
        ({"law": "empirical", "values": ["0 s", "0 s"]}, "at least one value above zero"),
        ({"law": "uniform", "low": "2 h", "high": "1 h"}, "low must be less than high"),
        ({"law": "uniform", "low": "1 h", "high": "1 h"}, "low must be less than high"),
        ({"law": "fixed", "value": "1 h", "values": "1 h"}, "Extra inputs"),
        ({"law": "wiebull", "shape": 1}, "'weibull'"),
        (30, "needs a unit"),
        ("30 parsec", "unknown unit"),
    ],
)
def test_mistakes_are_told_in_one_line(wrong: object, rule: str) -> None:
    """Each mistake gives exactly one error, which states the rule."""
    with pytest.raises(ValidationError, match=rule) as caught:
        Repaired.model_validate({"repair": wrong})
    assert caught.value.error_count() == 1
