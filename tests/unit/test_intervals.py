"""Means get intervals that suit their sample: exact for what is 0 or 1, and never narrower than Student's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from analysis.results.run import document as typed_document
from analysis.runs import replicate
from analysis.statistics.estimates import mean_interval, ratio_interval
from analysis.statistics.intervals import (
    bca_interval,
    binomial_interval,
    exact_interval,
    mean_estimate,
    possible,
    unseen,
)
from sim import Ratio
from tests import small
from tests.cases import cases
from tests.typed import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

document = as_plain(typed_document)


def rows(values: Iterable[float], base: float = 1.0) -> list[Ratio]:
    """Return a metric with one value per replication."""
    return [Ratio(float(value) * base, base) for value in values]


def test_exact_interval_by_hand() -> None:
    """Of 40 runs that all finished the lower end is the p with p^40 = 2.5 %, 0.912; never [1, 1]."""
    low, high = exact_interval(rows([1] * 40), "p_finish_by") or (math.nan, math.nan)
    assert low == pytest.approx(0.025 ** (1 / 40), rel=1e-9)
    assert high == 1.0
    assert exact_interval(rows([0] * 40), "p_finish_by") == pytest.approx((0.0, 1 - low), rel=1e-9)


@cases("trials", [1, 10, 40])
def test_exact_interval_covers_any_probability(trials: int) -> None:
    """Summed over all outcomes, an interval holds the probability with at least 95 %, whatever it is: no sampling."""
    intervals = [binomial_interval(successes, trials) for successes in range(trials + 1)]
    for p in np.linspace(0.001, 0.999, 333):
        held = [low <= p <= high for low, high in intervals]
        assert stats.binom.pmf(np.arange(trials + 1), trials, p)[held].sum() >= 0.95 - 1e-12


def test_ends_of_the_exact_interval_are_its_definition() -> None:
    """At the lower end so many successes or more have 2.5 %, at the upper end so many or fewer."""
    low, high = binomial_interval(7, 25)
    assert stats.binom.sf(6, 25, low) == pytest.approx(0.025, rel=1e-9)
    assert stats.binom.cdf(7, 25, high) == pytest.approx(0.025, rel=1e-9)


def test_exact_is_for_outcomes_of_all_or_nothing() -> None:
    """Half of the jobs finished in one replication: not binomial. And a share of 1 throughout has no interval."""
    assert mean_estimate(rows([1, 1, 0, 1] * 4, base=3.0), "p_finish_by").method == "exact"
    assert mean_estimate(rows([1, 1, 0.5, 1, 1, 0]), "p_finish_by").method == "t"
    assert exact_interval([Ratio(1.0, 1.0), Ratio(2.0, 2.0)], "p_finish_by") is None, "replications that weigh more"
    assert mean_estimate(rows([1] * 16), "ettr") == (1.0, None, "")


def test_a_run_that_always_finishes_is_no_proof_in_its_document() -> None:
    """Six replications that all finish in time: the document of `run` says 0.54 to 1."""
    jobs = [{"name": "train", "gpus": 64, "step_time": "10 s", "work": {"time": "1 h"}, "deadline": "2 d"}]
    content = document(replicate(small.prepare(jobs=jobs), 6), command="")
    for metrics in (content["metrics"], content["per_job"]["train"]["metrics"]):
        assert metrics["p_finish_by"]["mean"] == 1.0
        assert metrics["p_finish_by"]["mean_ci95"] == pytest.approx((0.025 ** (1 / 6), 1.0))


def test_student_is_the_default() -> None:
    """A sample that leans to neither side has Student's interval, for a ratio of sums that of the delta method."""
    values = np.linspace(-1, 1, 20) + 5
    found = mean_estimate(rows(values), "tokens_per_day")
    assert (found.method, found.interval) == ("t", mean_interval(values))
    bases = 2 + np.cos(np.arange(20.0))
    expected = ratio_interval(values, bases)
    assert expected is not None
    ratio = mean_estimate([Ratio(*pair) for pair in zip(values, bases, strict=True)])
    assert (ratio.mean, *(ratio.interval or ())) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [10, 11, 64])
def test_the_choice_is_never_narrower_than_student(count: int) -> None:
    """Whatever the sample, Student's interval is inside: a wrong choice of the method cannot cost coverage."""
    rng = np.random.default_rng(21)
    methods = set()
    for _ in range(60):
        values = rng.gamma(rng.uniform(0.05, 5), 1, count)
        low, high = mean_interval(values) or (math.nan, math.nan)
        found = mean_estimate(rows(values))
        assert found.interval is not None
        methods.add(found.method)
        assert found.interval[0] <= max(low, 0.0)
        assert found.interval[1] >= high
        if found.method == "bca":
            assert found.interval[1] - found.interval[0] < 2 * (high - low), "wider, not vague"
    assert methods == {"t", "bca"}


def test_bca_agrees_with_scipy() -> None:
    """On thirty skewed samples the ends are scipy's at the widened level, but for the noise of resampling."""
    count, apart, student = 60, [], []
    reach = stats.t.isf(0.025, count - 1) * math.sqrt(count / (count - 1))
    for number in range(30):
        values = np.random.default_rng([25, number]).gamma(0.5, 1, count)
        error = values.std(ddof=1) / math.sqrt(count)
        their = stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=10_000,
            confidence_level=1 - 2 * stats.norm.sf(reach),
            method="BCa",
            rng=np.random.default_rng([26, number]),
        ).confidence_interval
        apart.append((np.array(bca_interval(values)) - their) / error)
        student.append((np.array(mean_interval(values)) - their) / error)
    noise = np.std(apart, axis=0, ddof=1) / math.sqrt(len(apart))
    assert np.all(noise < 0.05), "in standard errors of the mean"
    assert np.all(np.abs(np.mean(apart, axis=0)) <= 4 * noise)
    assert np.all(np.mean(student, axis=0) < -4 * noise), "where the tail is long it reaches further, else less far"


def test_bca_follows_scale_and_shift() -> None:
    """Seconds or hours, above zero or below: the interval moves along, mirrored where the sample is."""
    values = np.random.default_rng(24).gamma(0.5, 1, 16)
    low, high = bca_interval(values)
    assert bca_interval(3600 * values + 7) == pytest.approx((3600 * low + 7, 3600 * high + 7), rel=1e-9)
    assert bca_interval(-values) == pytest.approx((-high, -low), rel=0.1)
    assert high - values.mean() > values.mean() - low, "the long tail is above"


def test_bca_of_a_symmetric_sample_is_as_wide_as_student() -> None:
    """Ten values without skewness: about Student's interval, a fifth wider than what the bootstrap has by itself."""
    values = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    low, high = bca_interval(values)
    student = np.subtract(*(mean_interval(values) or ())[::-1])
    # Each end is a quantile of 2,000 means at 0.9 %, known to 0.09 of their standard deviation: 4 % of the half-width.
    assert high - low == pytest.approx(student, rel=0.1)


@cases("scale", [1e-100, 1.0, 1e100])
@cases(
    "values",
    [
        [1.0] * 9 + [1.0 + 2**-52],
        [0.0] * 9 + [1.0],
        [0.0] * 9 + [-1.0],
        [0.0] * 63 + [1.0],
        [3.0, 3.0, 4.0],
    ],
)
def test_never_nan(values: list[float], scale: float) -> None:
    """One value apart from all others, tiny numbers and huge ones: finite and in order."""
    found = mean_estimate(rows(np.array(values) * scale))
    assert found.mean is not None
    assert found.interval is not None
    low, high = found.interval
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low <= high


@cases("scale", [1e-100, 0.1, 1.0, 1e100])
@cases("count", [2, 10, 30])
def test_equal_replications_have_a_mean_and_no_interval(count: int, scale: float) -> None:
    """They do not show what another one would be: in 3 % of runs a tenth may be lost, and 30 without it are common."""
    assert mean_estimate(rows([scale] * count)) == (scale, None, "")
    assert mean_estimate(rows([min(scale, 1.0)] * count), "ettr").interval is None
    assert 0.97**30 > 0.4


def test_unseen_is_what_may_be_in_no_replication() -> None:
    """What is in more runs than that is in none of n replications with less than 2.5 %."""
    for count in (1, 10, 30, 1000):
        assert (1 - unseen(count)) ** count == pytest.approx(0.025)


def test_constant_data_have_no_width_in_bca() -> None:
    """Where all values are the same so are both ends; fewer than ten values are refused."""
    assert bca_interval(np.full(12, 0.1)) == (pytest.approx(0.1), pytest.approx(0.1))
    assert bca_interval(np.full(12, 0.5)) == (0.5, 0.5)
    with pytest.raises(ValueError, match="needs 10 replications, got 9"):
        bca_interval(np.arange(9.0))


def test_what_the_data_do_not_support_is_none() -> None:
    """No data, one replication, a censored one, nothing in the denominators: no interval, and no mean but of one."""
    assert mean_estimate([], "ettr") == (None, None, "")
    assert mean_estimate(rows([0.5]), "ettr") == (0.5, None, "")
    assert mean_estimate([Ratio(math.inf, 1.0), *rows([1.0] * 20)], "time_to_work") == (None, None, "")
    assert mean_estimate([Ratio(5.0, 0.0)] * 20, "mtti") == (None, None, "")


def test_intervals_stay_where_the_metric_can_be() -> None:
    """No share is above one and nothing is below zero."""
    assert possible("ettr", (-0.1, 1.1)) == (0.0, 1.0)
    assert possible("time_shares.restore", (0.2, 1.1)) == (0.2, 1.0)
    assert possible("interruptions", (-0.1, 1.1)) == (0.0, 1.1)
    assert possible("ettr", None) is None
    high = mean_estimate(rows([0.999, 1.0, 0.9999, 1.0]), "ettr").interval
    assert high is not None
    assert high[1] == 1.0
