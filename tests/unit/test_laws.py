"""Lifetime laws: equal to scipy's distributions, to Cox's stationary renewal process, and to what was written."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, special, stats

from ettrick.sim import quantiles, rng
from ettrick.sim.scenario.fields import Model
from ettrick.sim.scenario.laws import (
    Empirical,
    Exponential,
    Fixed,
    Gamma,
    HazardPiece,
    Law,
    Lognormal,
    Mixture,
    Piecewise,
    Uniform,
    Weibull,
    draw,
)
from tests.cases import cases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.scenario.law_model import LawModel

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

STEPS: list[LawModel] = [Empirical(values=("4 s", "0 s", "1 s", "3 s", "1 s")), Fixed(value="30 min"), Fixed(value=0)]

# Composed laws: their own theory is in test_laws_piecewise.py and test_laws_mixture.py.
SMOOTH: list[LawModel] = [
    Piecewise(hazards=({"rate": "1 per h"},)),
    Piecewise(hazards=({"until": "1 h", "rate": "2 per d"}, {"until": "2 d", "rate": 0}, {"rate": "1 per d"})),
    Mixture(
        parts=(
            {"weight": 0.05, "law": {"use": "weibull", "shape": 0.6, "mean": "1 h"}},
            {"weight": "95 %", "law": {"use": "gamma", "shape": 3, "mean": "30 h"}},
        )
    ),
]

JUMPING: list[LawModel] = [
    Mixture(
        parts=(
            {"weight": 0.3, "law": "30 min"},
            {"weight": 0.1, "law": 0},
            {"weight": 0.2, "law": {"use": "uniform", "low": "1 h", "high": "2 h"}},
            {"weight": 0.3, "law": {"use": "lognormal", "median": "1 h", "sigma": 1}},
            {"weight": 0.1, "law": {"use": "empirical", "values": ["1 h", "50 min", "30 min"]}},
        )
    )
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
def test_many_are_as_one_by_one(law: LawModel) -> None:
    """The bits of a draw do not depend on who asks for it, and it is a plain float."""
    u = np.concatenate([U, rng.uniform(rng.stream(7, 0, "bits"), range(1000))])
    scalars = [law.ppf_one(number) for number in u.tolist()]
    assert law.ppf(u).tolist() == scalars
    assert {type(time) for time in scalars} == {float}


@cases("law", LAWS, ids=NAMES)
def test_every_keyed_number_gives_a_usable_time(law: LawModel) -> None:
    """The smallest and the largest keyed number give finite times that are not negative."""
    ends = np.array([2.0**-53, 1 - 2.0**-53])
    for times in (law.ppf(ends), law.length_biased_ppf(ends)):
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
    lives = law.length_biased_ppf(u)
    for times in ((1 - v) * lives, v * lives):
        # The integral of exp(-(x / scale)^shape) over the mean is an incomplete gamma function.
        equilibrium = stats.kstest(times, lambda x: special.gammainc(1 / shape, (x / HOUR) ** shape))
        assert equilibrium.pvalue > 1e-4


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


def biased_hazard(law: LawModel, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cumulative hazards of the length-biased law [-], shape (n,), of times [s], shape (n,)."""
    return np.array([quantiles.cumulative_hazard(law.parameters, 0, time, True) for time in x.tolist()])


@cases("law", [law for law, _ in CONTINUOUS] + SMOOTH, ids=NAMES[: len(CONTINUOUS)] + NAMES[-4:-1])
def test_cumulative_hazard_keeps_both_tails(law: LawModel) -> None:
    """The cumulative hazards of the times of u are -ln(1 - u) to many digits, length-biased lives included."""
    # Close to the limits of a uniform law a time has too few digits to tell the rarest apart.
    u = U[3:-2] if isinstance(law, Uniform) else U
    assert_allclose(law.cumulative_hazard(law.ppf(u)), -np.log1p(-u), rtol=1e-9)
    lives = law.length_biased_ppf(u)
    assert_allclose(biased_hazard(law, lives), -np.log1p(-u), rtol=1e-9)


def test_cumulative_hazard_of_length_biased_steps() -> None:
    """Of lives of 1, 1, 3 and 4 s, 5 / 9 of all time is spent in those up to 3 s."""
    hazards = biased_hazard(STEPS[0], np.array([0, 1, 2.9, 3, 4]))
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
        '{"use":"exponential","mean":"1 h"}',
        '{"use":"weibull","shape":1.0,"mean":"1 h"}',
        '{"use":"gamma","shape":1.0,"mean":"1 h"}',
        '{"use":"piecewise","hazards":[{"rate":"1 per hour"}]}',
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
    with pytest.raises(ValidationError, match="use"):
        Repaired.model_validate({"repair": {"mean": "1 h"}})


def test_from_seconds() -> None:
    """Numbers in seconds give the law that text gives, to the last bit, and are validated like it."""
    assert Weibull.from_seconds(shape=0.7, scale=HOUR) == Weibull(shape=0.7, scale="1 h")
    assert Empirical.from_seconds(values=(3.0, 1.0)) == Empirical(values=("1 s", "3 s"))
    assert Exponential.from_seconds(mean=1 / 3).mean == 1 / 3
    with pytest.raises(ValueError, match="greater than 0"):
        Exponential.from_seconds(mean=0.0)


# ----------------------------------------
# Hazard ratios: the life of a unit with r times the hazard has the survival of the law to the power r.

MOST = 1 - 2.0**-53

MARKS = np.concatenate([[2.0**-53, 1e-12, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9, MOST]])

RATIOS = [1e-3, 0.1, 0.5, 1.0, 2.0, 17.3, 1e6]


def hazard_numbers(u: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """Return `quantiles.hazard_number` of each number, shape (n,)."""
    return np.array([quantiles.hazard_number(number, ratio) for number in u.tolist()])


def rounding(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative error of -ln(1 - u) that comes of the last digit of `numbers`, shape (n,): large near 1."""
    return 1e-13 + 2.0**-53 / ((1 - numbers) * -np.log1p(-numbers))


@cases("ratio", RATIOS)
def test_survival_is_to_the_power_of_the_ratio(ratio: float) -> None:
    """1 - u = (1 - v)^ratio for the number v of u, where a float can hold v."""
    numbers = hazard_numbers(MARKS, ratio)
    inside = numbers < 0.999999
    assert np.count_nonzero(inside) > 3
    assert_allclose(ratio * np.log1p(-numbers[inside]), np.log1p(-MARKS[inside]), rtol=1e-9)
    early = numbers < 0.5
    assert_allclose(ratio * np.log1p(-numbers[early]), np.log1p(-MARKS[early]), rtol=1e-15)


@cases("ratio", RATIOS)
@cases("shape", [0.6, 1.0, 3.0])
def test_weibull_lives_are_scaled(shape: float, ratio: float) -> None:
    """A Weibull law of r times the hazard has the scale r^(-1 / shape); an exponential one the mean 1 / r."""
    law: LawModel = Exponential(mean="1 h") if shape == 1 else Weibull(shape=shape, scale="1 h")
    numbers = hazard_numbers(MARKS, ratio)
    inside = numbers < MOST
    error = np.abs(law.ppf(numbers) / law.scaled(ratio ** (-1 / shape)).ppf(MARKS) - 1)
    assert np.all(error[inside] <= np.maximum(2 * rounding(numbers[inside]) / shape, 1e-12))
    assert np.all(error[numbers < 0.99] <= 1e-12)


def test_a_larger_hazard_means_a_shorter_life() -> None:
    """1 - (1 - u)^(1 / r) by hand; a ratio of 1 changes nothing."""
    numbers = [quantiles.hazard_number(0.75, ratio) for ratio in (0.5, 1.0, 2.0)]
    assert_allclose(numbers, [15 / 16, 3 / 4, 1 / 2], rtol=1e-15)
    assert_allclose(hazard_numbers(MARKS, 1.0), MARKS, rtol=1e-15)


@cases("ratio", [1e-300, 1e-9, 1e9, 1e300])
def test_numbers_stay_inside(ratio: float) -> None:
    """Whatever the ratio, the numbers are strictly between 0 and 1, so that every law has a finite life for them."""
    numbers = hazard_numbers(MARKS, ratio)
    assert np.all((numbers > 0) & (numbers < 1))
    assert np.all(np.diff(numbers) >= 0)
    for law in (Lognormal(median="1 h", sigma=1), Weibull(shape=0.5, scale="1 h")):
        assert np.all(np.isfinite(law.ppf(numbers)))


# ----------------------------------------
# The mixture law: equal to drawing a part by its weight and a life by the part's law, jumps and gaps included.

DAY = 86400.0

# Infant mortality of one unit in twenty beside wear-out, with the same laws of scipy.stats.
INFANTS = Mixture(
    parts=(
        {"weight": "5 %", "law": {"use": "weibull", "shape": 0.6, "scale": "10 d"}},
        {"weight": "95 %", "law": {"use": "lognormal", "median": "1000 d", "sigma": 0.8}},
    )
)

THEIRS = ((0.05, stats.weibull_min(0.6, scale=10 * DAY)), (0.95, stats.lognorm(0.8, scale=1000 * DAY)))

HYPER = Mixture(
    parts=(
        {"weight": 0.2, "law": {"use": "exponential", "mean": "1 h"}},
        {"weight": 0.8, "law": {"use": "exponential", "mean": "50 h"}},
    )
)

REPAIRS = Mixture(  # most are a reboot, some a visit, a few wait for a part
    parts=(
        {"weight": 0.75, "law": "30 min"},
        {"weight": 0.15, "law": {"use": "uniform", "low": "1 h", "high": "3 h"}},
        {"weight": 0.1, "law": {"use": "piecewise", "hazards": [{"until": "2 d", "rate": 0}, {"rate": "1 per d"}]}},
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


def test_jumps_are_exact() -> None:
    """A fixed part gives exactly its time, three times in four, and a share of the others on either side of it."""
    lives = REPAIRS.ppf(U)
    assert np.all(lives[U <= 0.75] == 30 * 60.0)
    assert np.all(lives[U > 0.7501] >= HOUR)
    assert [REPAIRS.ppf_one(u) for u in (1e-9, 0.5, 0.75)] == [1800.0] * 3
    both = Mixture(parts=({"weight": 0.5, "law": "1 h"}, {"weight": 0.5, "law": {"use": "exponential", "mean": "1 h"}}))
    before = 0.5 * -math.expm1(-1)
    assert both.ppf_one(before * (1 + 1e-9)) == both.ppf_one(before + 0.5 - 1e-9) == HOUR
    assert both.ppf_one(before * (1 - 1e-9)) == pytest.approx(HOUR, rel=1e-8)
    assert both.ppf_one(before * (1 - 1e-9)) < HOUR < both.ppf_one(before + 0.5 + 1e-9)
    assert np.all(np.diff(both.ppf(U)) >= 0)


def test_a_gap_is_crossed_at_its_near_end() -> None:
    """Where no life ends, the smallest time that reaches u is the last life before the gap."""
    law = Mixture(
        parts=(
            {"weight": 0.5, "law": {"use": "uniform", "low": "0 h", "high": "1 h"}},
            {"weight": 0.5, "law": {"use": "uniform", "low": "9 h", "high": "10 h"}},
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
    law = Mixture(parts=({"weight": 1, "law": whole}, {"weight": 1e-15, "law": {"use": "exponential", "mean": other}}))
    u = np.linspace(0.001, 0.9, 500)
    assert_allclose(law.ppf(u), whole.ppf(u), rtol=1e-11)
    assert_allclose([law.ppf_one(number) for number in u.tolist()], whole.ppf(u), rtol=1e-11)


def test_weights_that_round() -> None:
    """Thirds written with ten digits sum to 1 closely enough; the law still reaches probability 1."""
    law = Mixture(parts=tuple({"weight": 0.3333333333, "law": text} for text in ("1 h", "2 h", "3 h")))
    assert law.cdf(np.array([3 * HOUR]))[0] == pytest.approx(1, abs=1e-15)
    assert law.mean_value == pytest.approx(2 * HOUR, rel=1e-14)
    assert law.ppf_one(1 - 2.0**-53) == 3 * HOUR


def test_a_part_that_takes_no_time_is_never_met() -> None:
    """A fixed time of zero is a jump at zero, and has no place among length-biased lives."""
    law = Mixture(parts=({"weight": 0.5, "law": 0}, {"weight": 0.5, "law": {"use": "exponential", "mean": "1 h"}}))
    assert law.ppf(np.array([1e-9, 0.5, 0.5 + 0.5 * -math.expm1(-1)])) == pytest.approx([0, 0, HOUR], rel=1e-12)
    assert_allclose(law.length_biased_ppf(U), Exponential(mean="1 h").length_biased_ppf(U), rtol=1e-12)


# ----------------------------------------
# The piecewise law: equal to the integral of its hazard, to exponential lives in each piece, and to Cox's theory.

YEAR = 31556952.0

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

PIECEWISE = [BATHTUB, GUARANTEED, SUDDEN]

PIECES = ["bathtub", "guaranteed", "sudden"]


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


@cases("law", PIECEWISE, ids=PIECES)
def test_density_over_survival_is_the_hazard(law: Piecewise) -> None:
    """The logarithm of the survival falls at the hazard of each piece."""
    for age in (1.0, 0.5 * DAY, 5 * DAY, 50 * DAY, 400 * DAY, 2 * YEAR, 9 * YEAR):
        step = 1e-3 * age
        slope = np.diff(law.cumulative_hazard(np.array([age - step, age + step])))[0] / (2 * step)
        assert slope == pytest.approx(hazard(law, age), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize("law", PIECEWISE, ids=PIECES)
def test_moments(law: Piecewise) -> None:
    """E[X] is the integral of P(X > x), and the mean length-biased life E[X^2] / E[X], with E[X^2] = 2 x P(X > x)."""
    assert law.mean_value == pytest.approx(integral(law, 0), rel=1e-9)
    edges = [0.0, *(1 - survival(law, age) for age in law.breaks), 1.0]
    mean = sum(integrate.quad(law.ppf_one, low, high, limit=200)[0] for low, high in itertools.pairwise(edges))
    assert law.mean_value == pytest.approx(mean, rel=1e-6)
    lives = law.length_biased_ppf((np.arange(10_000) + 0.5) / 10_000)
    assert float(np.mean(lives)) == pytest.approx(2 * integral(law, 1) / integral(law, 0), rel=1e-3)


def test_mean_of_two_pieces() -> None:
    """With hazard a up to t and b after it, E[X] = (1 - e^(-a t)) / a + e^(-a t) / b."""
    law = Piecewise(hazards=({"until": "10 h", "rate": "0.2 per h"}, {"rate": "0.01 per h"}))
    assert law.mean_value / 3600 == pytest.approx((1 - math.exp(-2)) / 0.2 + math.exp(-2) / 0.01, rel=1e-14)


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


def test_pieces_are_written_and_read() -> None:
    """Hazards come back as they were written: a rate without a unit noun, and no end of the last piece."""
    data = {"use": "piecewise", "hazards": [{"until": "30 d", "rate": "0.2 per year"}, {"rate": "100 FIT"}]}
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
        jsonschema.validate({"life": {"use": "piecewise", "hazards": [{"until": "1 d"}]}}, Part.model_json_schema())


def test_extreme_hazards_stay_finite() -> None:
    """Hazards of all sizes beside each other give finite lives that are in order, without a warning."""
    law = Piecewise(
        hazards=({"until": "1 ns", "rate": "1e250 per s"}, {"until": "1e9 years", "rate": 0}, {"rate": "1e-200 per s"})
    )
    ends = np.array([2.0**-53, 0.5, 1 - 2.0**-53])
    for lives in (law.ppf(ends), law.length_biased_ppf(ends), law.scaled(1e-30).ppf(ends)):
        assert np.all(np.isfinite(lives))
        assert np.all(np.diff(lives) > 0)
