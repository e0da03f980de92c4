"""Intervals cover what they claim to cover, and say None where the data cannot support a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import special, stats
from scipy.special import ndtri

from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.parts import MetricSummary
from ettrick.analysis.results.run import document as typed_document
from ettrick.analysis.statistics.differences import MANY, Ranking, difference, quotient, ranking_of, ranking_over_draws
from ettrick.analysis.statistics.estimates import (
    mean_interval,
    quantile,
    quantile_interval,
    ratio_interval,
    summarise,
    summarise_ratio,
    t_quantile,
    two_way,
)
from ettrick.analysis.statistics.intervals import (
    bca_interval,
    binomial_interval,
    exact_interval,
    mean_estimate,
    possible,
    unseen,
)
from ettrick.sim import Ratio, rng
from ettrick.sim.engine.lives import UniformStream
from ettrick.sim.failures import FailureSource
from ettrick.sim.failures.trace import fleet_of, life_key
from ettrick.sim.failures.variety import Frailty, Variety
from ettrick.sim.scenario.laws import Weibull
from tests import report_sample
from tests.cases import cases
from tests.typed import as_plain, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

# ----------------------------------------
# Means get intervals that suit their sample: exact for what is 0 or 1, and never narrower than Student's.

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
    content = document(replicate(report_sample.prepare(jobs=jobs), 6), command="")
    for metrics in (content["metrics"], content["per_job"]["train"]["metrics"]):
        assert metrics["p_finish_by"]["mean"] == 1.0
        assert metrics["p_finish_by"]["mean_ci95"] == pytest.approx((0.025 ** (1 / 6), 1.0))


def test_student_is_the_default() -> None:
    """A sample that leans to neither side has Student's interval, for a ratio of sums that of the delta method."""
    values = np.linspace(-1, 1, 20) + 5
    found = mean_estimate(rows(values), "tokens_per_day")
    assert (found.method, found.interval) == ("t", mean_interval(values))
    bases = 2 + np.cos(np.arange(20.0))
    expected = present(ratio_interval(values, bases))
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


@cases("scale", [1e-100, 1.0, 1e100])
@cases(
    "values", [[1.0] * 9 + [1.0 + 2**-52], [0.0] * 9 + [1.0], [0.0] * 9 + [-1.0], [0.0] * 63 + [1.0], [3.0, 3.0, 4.0]]
)
def test_never_nan(values: list[float], scale: float) -> None:
    """One value apart from all others, tiny numbers and huge ones: finite and in order, unless rounding hides it."""
    found = mean_estimate(rows(np.array(values) * scale))
    assert found.mean is not None
    assert (found.interval is None) == (found.method == "")
    if found.interval is None:
        assert np.ptp(values) <= 2**-52
        return
    low, high = found.interval
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low < high


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
    high = present(mean_estimate(rows([0.999, 1.0, 0.9999, 1.0]), "ettr").interval)
    assert high[1] == 1.0


# ----------------------------------------
# Random numbers looked up one by one or a column at once are the same numbers.


@cases("number", [0, 3, 63, 64, 1 << 40])
def test_a_column_holds_what_single_look_ups_give(number: int) -> None:
    """Whatever has been asked before: few, many, or more than a column is made for."""
    key = rng.stream(1, 2, "numbers")
    numbers = UniformStream(key, 500)
    order = np.random.default_rng(1).permutation(500).tolist()
    for slot in [*order, *order]:
        assert numbers.get(slot, number) == rng.uniform_one(key, slot, number)
    assert (number in numbers.columns) == (number < 64), "the test must see both ways"


def test_lives_of_a_column_are_those_of_their_units() -> None:
    """Each unit with its own hazard ratio."""
    law = Weibull.from_seconds(shape=0.7, mean=1e6)
    source = FailureSource("cause", "node", 300, law, variety=Variety(Frailty(shape=0.5)), slots_per_node=1)
    fleet = fleet_of(source, 1, 2)
    numbers = UniformStream(life_key(source, 1, 2), 300, fleet.life)
    single = [fleet.life(slot, rng.uniform_one(life_key(source, 1, 2), slot, 5)) for slot in range(300)]
    for _ in range(2):
        assert [numbers.get(slot, 5) for slot in range(300)] == single
    assert 5 in numbers.columns


# ----------------------------------------
# Rankings: intervals that hold for all candidates at once, whichever of them the data made the best.


def rows_of_candidates(values: Any, base: float = 1.0) -> list[list[Ratio]]:
    """Return candidates with one value per replication, (k, n)."""
    return [[Ratio(float(value) * base, base) for value in candidate] for candidate in values]


def ranked(values: Any, *, lowest: bool = False, metric: str = "") -> Ranking:
    """Return the ranking of candidates that have one."""
    return present(ranking_of(rows_of_candidates(values), lowest=lowest, metric=metric))


def held(found: Ranking, truth: NDArray[np.float64]) -> bool:
    """Return whether every interval holds how far its candidate is behind the truly best."""
    behind = truth.max() - truth[list(found.order)]
    ends = zip(behind, found.behind, strict=True)
    return all(low - 1e-12 <= true <= high + 1e-12 for true, (_, (low, high)) in ends)


def assert_nominal(hits: int, repetitions: int) -> None:
    """Fail unless so many hits are compatible (99.95 %) with a coverage of at least 95 %."""
    assert hits >= stats.binom.ppf(0.0005, repetitions, 0.95)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("lead", [0.0, 0.3, 50.0])
def test_all_intervals_hold_together(count: int, lead: float) -> None:
    """Equal candidates, close ones, one far ahead: all hold in 95 % of repetitions, on common noise."""
    rng = np.random.default_rng([31, count, int(lead)])
    truth = np.zeros(count)
    truth[count // 2] = lead
    spread = np.linspace(0.5, 2.0, count)[:, None]
    repetitions = 400 if count < 20 else 200
    hits = best = 0
    for _ in range(repetitions):
        common = 5 * rng.normal(size=10)
        found = ranked(truth[:, None] + common + spread * rng.normal(size=(count, 10)))
        hits += held(found, truth)
        best += int(truth.argmax()) in found.may_be_best
    assert_nominal(hits, repetitions)
    assert_nominal(best, repetitions)


def test_two_candidates_have_the_paired_interval() -> None:
    """With one comparison there is nothing to share: the interval of the paired difference, from zero on."""
    values = np.random.default_rng(32).normal(size=(2, 12)) + np.array([[2.0], [0.0]])
    expected = present(difference(*rows_of_candidates(values)))
    found = ranked(values)
    assert found.order == (0, 1)
    assert found.behind[1][0] == pytest.approx(expected.mean)
    assert found.behind[1][1] == pytest.approx(expected.ci95)
    assert found.behind[0] == (0.0, (0.0, 0.0))
    assert found.may_be_best == (0,)


def test_many_candidates_share_the_doubt() -> None:
    """One far ahead of k - 1 others: their intervals are Student's at a confidence of 1 - 0.05 / (k - 1)."""
    values = np.random.default_rng(33).normal(size=(6, 9))
    values[4] += 100
    found = ranked(values)
    assert found.may_be_best == (4,)
    for position, (mean, (low, high)) in zip(found.order[1:], found.behind[1:], strict=True):
        each = values[4] - values[position]
        half = stats.t.isf(0.025 / 5, 8) * each.std(ddof=1) / 3
        assert (mean, low, high) == pytest.approx((each.mean(), each.mean() - half, each.mean() + half))


def test_the_order_is_that_of_the_means() -> None:
    """Best first, by the highest or by the lowest; how far behind is never negative, and never falls."""
    values = np.random.default_rng(34).normal(size=(30, 10)) + np.linspace(0, 1, 30)[:, None]
    for lowest in (False, True):
        found = ranked(values, lowest=lowest)
        means = values.mean(axis=1)
        assert list(found.order) == np.argsort(means if lowest else -means).tolist()
        behind = [mean for mean, _ in found.behind]
        assert behind == pytest.approx(np.sort(np.abs(means - (means.min() if lowest else means.max()))))
        assert all(0 <= low <= high for _, (low, high) in found.behind)
        assert found.may_be_best[0] == found.order[0]
        assert set(found.may_be_best) < set(found.order)


def test_the_same_values_are_a_tie() -> None:
    """What changes nothing is as good as the best, exactly, and no number of replications would tell them apart."""
    values = np.random.default_rng(35).normal(size=(1, 10)) + 3
    found = ranked(np.concatenate([values - 50, values, values * (1 + 1e-15), values]))
    assert set(found.may_be_best) == {1, 2, 3}
    assert [ends for _, ends in found.behind[:3]] == [(0.0, 0.0)] * 3
    assert found.replications_to_resolve is None
    close = ranked(np.concatenate([values, values, values[:, ::-1] - 0.5]))
    assert set(close.may_be_best) == {0, 1, 2}
    assert close.replications_to_resolve is not None, "the third may be told from the tie"
    assert found.behind[3] == (pytest.approx(50.0), pytest.approx((50.0, 50.0))), "a constant difference is known"


def test_ratios_of_sums_are_ranked_as_reported() -> None:
    """Where denominators vary, how far behind is the difference of the ratios of sums, not of means of ratios."""
    rng = np.random.default_rng(36)
    bases = rng.uniform(0.1, 3, (2, 20))
    amounts = bases * [[1.0], [2.0]] + rng.uniform(0, 1, (2, 20))
    pairs = [[Ratio(*pair) for pair in zip(*both, strict=True)] for both in zip(amounts, bases, strict=True)]
    found = present(ranking_of(pairs, lowest=True))
    ratio = amounts.sum(axis=1) / bases.sum(axis=1)
    assert found.behind[1][0] == pytest.approx(ratio[1] - ratio[0])


def test_censored_and_missing_are_left_out() -> None:
    """A candidate with an infinite value, with nothing in its denominators, or with nothing at all has no place."""
    good = rows_of_candidates(np.random.default_rng(37).normal(size=(2, 6)) + 9)
    censored = [*good[0][:5], Ratio(math.inf, 1.0)]
    found = present(ranking_of([censored, good[0], [], good[1], [Ratio(1.0, 0.0)] * 6], lowest=True))
    assert sorted(found.order) == [1, 3]
    assert set(found.may_be_best) <= {1, 3}
    assert found == ranking_of([censored[2:], good[0], [], good[1], []], lowest=True), "nor does it shorten the others"
    assert ranking_of([censored, []], lowest=True) is None
    assert ranking_of([], lowest=True) is None
    assert ranking_of([row[:1] for row in good], lowest=True) is None


def test_one_candidate_is_the_best() -> None:
    """Alone it is first, and nothing is behind it."""
    assert ranked(np.ones((1, 5))) == Ranking((0,), ((0.0, (0.0, 0.0)),), (0,), None)


def test_replications_that_not_all_have_are_not_looked_at() -> None:
    """A candidate that was simulated longer is compared on what all have."""
    values = np.random.default_rng(38).normal(size=(3, 20))
    pairs = rows_of_candidates(values)
    assert ranking_of([pairs[0], pairs[1][:10], pairs[2]], lowest=False) == ranked(values[:, :10])


def test_replications_to_resolve_are_as_many_as_it_takes() -> None:
    """With n replications the margin of the hardest rival is below its difference, and with n - 1 it is not."""
    values = np.random.default_rng(39).normal(size=(3, 10)) * [[1.0], [1.0], [0.1]] + [[0.5], [0.0], [-9.0]]
    found = ranked(values)
    assert set(found.may_be_best) == {0, 1}
    each = values[found.may_be_best[0]] - values[found.may_be_best[1]]

    def margin(count: int) -> float:
        return float(stats.t.isf(0.025 / 2, count - 1)) * each.std(ddof=1) / math.sqrt(count)

    assert margin(found.replications_to_resolve) < each.mean() <= margin(found.replications_to_resolve - 1)
    assert 10 < found.replications_to_resolve <= MANY
    swapped = values[:, :1] + np.array([[1.0, -1.0] * 5, [-1.0, 1.0] * 5, [-9.0, -9.0] * 5])
    swapped[0] = swapped[1, ::-1]
    assert ranked(swapped).replications_to_resolve is None, "a difference of zero never is"


def test_one_that_is_worse_than_another_is_not_the_best() -> None:
    """A first that scatters resolves nobody; who is behind another by a constant cannot be the best all the same."""
    rng = np.random.default_rng(43)
    loud, quiet = 9 * rng.normal(size=10), rng.normal(0, 0.1, 10)
    found = ranked([loud - loud.mean() + 2, quiet + 0.5, quiet + 0.1])
    assert found.may_be_best == (0, 1)
    assert found.order == (0, 1, 2)


def test_few_runs_that_all_finished_do_not_make_a_tie() -> None:
    """Ten of ten twice: the probabilities may still be some points apart. Ten of ten and none of ten: resolved."""
    found = ranked(np.ones((2, 10)), metric="p_finish_by")
    assert found.may_be_best == (0, 1)
    assert found.behind[1][1][0] == 0.0
    assert 0.05 < found.behind[1][1][1] < 0.5
    clear = ranked([[1.0] * 10, [0.0] * 10], metric="p_finish_by")
    assert clear.may_be_best == (0,)
    assert clear.behind[0] == (0.0, (0.0, 0.0))


def test_probabilities_differ_by_the_adjusted_interval() -> None:
    """Of ten pairs 7 alike and 3 for the first; with half of a pair more in each corner the mean is 3 of 12."""
    found = ranked([[1.0] * 10, [1.0] * 7 + [0.0] * 3], metric="p_finish_by")
    assert found.behind[1][0] == pytest.approx(0.3)
    variance = ((3 + 1) / 12 - (3 / 12) ** 2) * 12 / 11
    half = stats.t.isf(0.025, 9) * math.sqrt(variance / 12)
    assert found.behind[1][1] == pytest.approx((0.0, 3 / 12 + half))


@pytest.mark.parametrize("metric", ["", "p_finish_by"])
def test_probabilities_close_to_one_are_held(metric: str) -> None:
    """0.99, 0.95 and 0.9 by 16 runs with common noise: all intervals hold, and would not as if of any other metric."""
    rng = np.random.default_rng(40)
    truth = np.array([0.99, 0.95, 0.9])
    repetitions, hits = 400, 0
    for _ in range(repetitions):
        noise = math.sqrt(0.8) * rng.normal(size=16) + math.sqrt(0.2) * rng.normal(size=(3, 16))
        hits += held(ranked(noise < ndtri(truth)[:, None], metric=metric), truth)
    if metric:
        assert_nominal(hits, repetitions)
    else:
        assert hits < stats.binom.ppf(0.0005, repetitions, 0.95)


def test_over_draws_the_truly_best_is_seldom_lost() -> None:
    """Of four candidates that are equal on average and differ in every draw each is kept in 95 % of 150 rankings.

    By replications alone, whose sums over draws hardly scatter, candidates would be lost in most of them.
    """
    rng, kept, by_runs = np.random.default_rng(71), 0, 0
    for _ in range(150):
        tables = 0.9 + 0.02 * rng.normal(size=(4, 20, 1)) + 0.01 * rng.normal(size=(4, 20, 16))
        found = present(ranking_over_draws(list(tables), lowest=False, is_chance=False))
        kept += 0 in found.may_be_best
        by_runs += 0 in ranked(tables.mean(axis=1)).may_be_best
        assert found.replications_to_resolve is None
    assert kept >= stats.binom.ppf(0.001, 150, 0.95)
    assert by_runs < 100


def test_over_draws_equal_probabilities_are_no_certain_tie() -> None:
    """Twenty draws of ten runs that all finish leave as much doubt as ten pairs; other values that are equal do not."""
    ones = [np.ones((20, 10)), np.ones((20, 10))]
    chance, same = (ranking_over_draws(ones, lowest=False, is_chance=is_chance) for is_chance in (True, False))
    assert present(chance).behind[1][1][1] == pytest.approx(stats.t.isf(0.025, 9) * math.sqrt(1 / 11 / 12))
    assert present(same).behind[1] == (0, (0, 0))


def test_over_draws_candidates_without_a_mean_are_left_out() -> None:
    """Their places stay free; a single draw ranks nobody."""
    low, high = np.full((3, 4), 1.0), np.full((3, 4), 2.0)
    found = present(ranking_over_draws([np.zeros((0, 0)), low, high], lowest=True, is_chance=False))
    assert (found.order, found.may_be_best) == ((1, 2), (1,))
    assert ranking_over_draws([low[:1], high[:1]], lowest=True, is_chance=False) is None
    assert ranking_over_draws([np.zeros((0, 0))], lowest=True, is_chance=False) is None


REPETITIONS = 1000


def assert_coverage(covered: int, low: float, high: float) -> None:
    """Fail unless `covered` of REPETITIONS is compatible (99.9 %) with a coverage between `low` and `high`."""
    assert stats.binom.ppf(0.0005, REPETITIONS, low) <= covered <= stats.binom.isf(0.0005, REPETITIONS, high)


def test_mean_interval_by_hand() -> None:
    """For 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776, so 3 -/+ 1.963."""
    assert mean_interval([1, 2, 3, 4, 5]) == pytest.approx((3.0 - 1.9632, 3.0 + 1.9632), abs=1e-4)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_mean_interval_covers(confidence: float) -> None:
    """Student's interval of five normal values covers the mean exactly as often as it says."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(REPETITIONS):
        low, high = mean_interval(rng.normal(3.0, 2.0, 5), confidence) or (math.nan, math.nan)
        covered += low <= 3.0 <= high
    assert_coverage(covered, confidence, confidence)


def test_ratio_interval_covers() -> None:
    """The delta method covers the ratio of means (not the mean of ratios) at about 95 % with varying denominators."""
    rng = np.random.default_rng(12)
    covered, covered_mean_of_ratios = 0, 0
    mean_of_ratios = 2.0 + 1.0 * 1.25  # E[1 / b] = rate / (shape - 1) = 5 / 4 for b gamma of shape 5, mean 1
    for _ in range(REPETITIONS):
        denominators = rng.gamma(5.0, 1.0 / 5.0, 100)
        numerators = 2.0 * denominators + rng.exponential(1.0, 100)  # ratio of means 3
        ratio, low, high = ratio_interval(numerators, denominators) or (math.nan,) * 3
        assert low < ratio < high
        covered += low <= 3.0 <= high
        covered_mean_of_ratios += low <= mean_of_ratios <= high
    assert_coverage(covered, 0.94, 0.95)  # an approximation: a point less than nominal is allowed
    assert covered_mean_of_ratios < 0.5 * REPETITIONS


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.5, 30), (0.05, 100), (0.95, 100), (0.25, 40)])
def test_quantile_interval_covers(q: float, n: int) -> None:
    """Between the l-th and u-th value lies the quantile of any law with the binomial's probability, >= 95 %."""
    position = present(quantile_interval(np.arange(1, n + 1), q))
    lower, upper = position
    exact = float(stats.binom.cdf(upper - 1, n, q) - stats.binom.cdf(lower - 1, n, q))
    assert exact >= 0.95
    rng = np.random.default_rng(13)
    truth = -math.log1p(-q)
    covered = 0
    for _ in range(REPETITIONS):
        low, high = quantile_interval(rng.exponential(1.0, n), q) or (math.nan, math.nan)
        covered += low <= truth <= high
    assert_coverage(covered, exact, exact)


@cases(("q", "least"), [(0.5, 6), (0.05, 72), (0.95, 72)])
def test_quantiles_need_enough_replications(q: float, least: int) -> None:
    """A two-sided 95 % interval first exists where ``q^n`` and ``(1 - q)^n`` are both at most 0.025."""
    assert max(q, 1 - q) ** least <= 0.025 < max(q, 1 - q) ** (least - 1)
    assert quantile_interval(np.arange(least - 1), q) is None
    assert quantile(np.arange(least - 1), q) is None
    assert quantile_interval(np.arange(least), q) is not None
    assert quantile(np.arange(least), q) is not None


def test_quantile_is_the_usual_one() -> None:
    """The point estimate is numpy's default, and lies inside its interval."""
    values = np.random.default_rng(14).exponential(1.0, 137)
    for q in (0.05, 0.31, 0.5, 0.95):
        low, high = quantile_interval(values, q) or (math.nan, math.nan)
        point = quantile(values, q)
        assert point == pytest.approx(float(np.quantile(values, q)), rel=1e-14)
        assert low <= (point or math.nan) <= high


def test_summary_of_a_sample() -> None:
    """A summary holds mean, sample standard deviation and quantiles with the intervals of the functions above."""
    values = np.arange(101.0)
    summary = summarise(values)
    assert (summary.mean, summary.p05, summary.p50, summary.p95) == (50.0, 5.0, 50.0, 95.0)
    assert summary.std == pytest.approx(math.sqrt(101 * 102 / 12), rel=1e-12)
    assert summary.mean_ci95 == mean_interval(values)
    assert summary.p05_ci95 == quantile_interval(values, 0.05)
    assert summary.p50_ci95 == quantile_interval(values, 0.5)
    assert summary.p95_ci95 == quantile_interval(values, 0.95)


def test_no_data_is_all_none() -> None:
    """Without data nothing is defined; one value has a mean and nothing else; thirty have a p50 and no p05."""
    nothing = MetricSummary(mean=None, mean_ci95=None)
    assert summarise([]) == summarise_ratio([], []) == nothing
    assert mean_interval([]) is None
    assert ratio_interval([], []) is None
    assert summarise([2.5]) == summarise_ratio([5.0], [2.0]) == MetricSummary(mean=2.5, mean_ci95=None)
    thirty = summarise(np.arange(30.0))
    assert thirty.p50 == 14.5
    assert (thirty.p05, thirty.p95, thirty.p05_ci95, thirty.p95_ci95) == (None, None, None, None)


@cases("value", [0.0, 1.0, 0.1])
def test_constant_data_gives_no_degenerate_interval(value: float) -> None:
    """A metric that never varies has no interval, and its quantiles are without NaN, rounding or a warning."""
    expected = MetricSummary(mean=value, mean_ci95=None, std=0.0, p05=value, p50=value, p95=value)
    assert summarise([value] * 100) == expected
    assert summarise_ratio([value] * 100, [1.0] * 100) == expected


def test_ratio_with_equal_denominators_is_the_mean() -> None:
    """With the same denominator everywhere the ratio estimate is that of the mean of ratios."""
    values = np.random.default_rng(15).normal(size=80)
    summary, ratio = summarise(values / 4.0), summarise_ratio(values, np.full(80, 4.0))
    assert ratio.mean == pytest.approx(summary.mean, rel=1e-12)
    assert ratio.mean_ci95 == pytest.approx(summary.mean_ci95, rel=1e-12)
    assert ratio.p95 == pytest.approx(summary.p95, rel=1e-12)


def test_ratio_is_of_sums() -> None:
    """Cost per token over two runs, 10 for 1 and 10 for 9, is 2, not the mean 5.6 of the runs' own ratios."""
    assert summarise_ratio([10.0, 10.0], [1.0, 9.0]).mean == 2.0


def test_empty_denominators() -> None:
    """A run without interruptions has an infinite MTTI of its own: it ranks last and the pooled ratio is finite."""
    summary = summarise_ratio([30.0] * 10, [1.0] * 7 + [0.0] * 3)
    assert summary.mean == pytest.approx(300.0 / 7.0, rel=1e-12)
    assert summary.mean_ci95 is not None
    assert (summary.p50, summary.std) == (30.0, None)
    assert summary.p50_ci95 is None  # its upper end is the ninth of ten values, one of the infinite
    assert summarise_ratio([1.0, 2.0], [0.0, 0.0]) == MetricSummary(mean=None, mean_ci95=None)
    assert summarise_ratio([0.0, 6.0, 6.0], [0.0, 2.0, 2.0]).std == 0.0  # 0 / 0 is no ratio


def test_censored_values_have_a_rank_but_no_mean() -> None:
    """Quantiles below the censoring point exist, those beyond it and the mean are None."""
    summary = summarise([*np.arange(90.0), *[math.inf] * 10])
    assert (summary.mean, summary.mean_ci95, summary.std) == (None, None, None)
    assert summary.p05 == pytest.approx(4.95, rel=1e-12)
    assert summary.p50 == 49.5
    assert (summary.p95, summary.p95_ci95) == (None, None)


@cases(
    ("call", "text"),
    [
        (lambda: summarise([1.0, math.nan]), "NaN"),
        (lambda: summarise([[1.0]]), "one-dimensional"),
        (lambda: ratio_interval([1.0, 1.0], [1.0, -1.0]), "negative"),
        (lambda: mean_interval([1.0, 2.0], 1.0), "confidence must be"),
        (lambda: quantile_interval([1.0, 2.0], 0.0), "q must be between 0 and 1, got 0"),
        (lambda: quantile([1.0, 2.0], 1.5), "q must be between 0 and 1, got 1"),
    ],
)
def test_mistakes_are_refused(call: Callable[..., Any], text: str) -> None:
    """NaN, wrong shapes, unpaired samples and impossible probabilities are errors, not None."""
    with pytest.raises(ValueError, match=text):
        call()


def test_degrees_of_freedom_of_a_table_that_is_not_square() -> None:
    """Satterthwaite by hand for two rows and three columns, with the variance in the rows or in the columns."""
    for values, rows, columns in (
        (np.array([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]), 50.0 / 2, 1.0 / 3),
        (np.array([0.0, 1.0])[:, None] + 10 * np.array([0.0, 1.0, 2.0]), 0.5 / 2, 100.0 / 3),
    ):
        assert two_way(values).freedom == pytest.approx((rows + columns) ** 2 / (rows**2 / 1 + columns**2 / 2))


@cases("degrees", [1, 2, 31, 59, 128, 129, 7.5])
def test_quantiles_of_student_are_those_of_scipy(degrees: float) -> None:
    """The table to the last bit, whole degrees beyond it and broken ones by scipy itself."""
    assert t_quantile(0.95, degrees) == -special.stdtrit(degrees, (1 - 0.95) / 2)


@cases("quantile", [0.05, 0.25, 0.5, 0.9, 0.95])
def test_ranks_are_the_narrowest_with_both_tails_at_most_the_level(quantile: float) -> None:
    """By the binomial law of scipy: the ends are as near as 2.5 % on each side allows, or are not there."""
    for count in (5, 30, 31, 60, 200, 997):
        interval = quantile_interval(np.arange(1.0, count + 1), quantile)
        low = min(k for k in range(count + 1) if special.bdtr(k, count, quantile) >= 0.025)
        high = 1 + min(k for k in range(count + 1) if special.bdtrc(k, count, quantile) <= 0.025)
        assert interval == ((low, high) if low >= 1 and high <= count else None)


def test_how_many_times_one_is_another_has_the_error_of_the_jackknife() -> None:
    """What both have in common is in no interval of their quotient; the rest is as wide as leaving one out says."""
    draws = np.random.default_rng(5)
    base = 0.4 + 0.02 * draws.normal(size=24)
    ours = 1.1 * base + 0.002 * draws.normal(size=24)
    rows = [[Ratio(float(value), 1.0) for value in values] for values in (ours, base)]
    times, interval = present(quotient(*rows))
    low, high = present(interval)
    assert times == pytest.approx(ours.mean() / base.mean())
    left_out = [np.delete(ours, place).mean() / np.delete(base, place).mean() for place in range(24)]
    error = math.sqrt(23 / 24 * sum((value - np.mean(left_out)) ** 2 for value in left_out))
    assert (high - low) / 2 == pytest.approx(t_quantile(0.95, 23) * error, rel=0.02)
    exact, none = present(quotient([Ratio(2.0 * row.amount, row.base) for row in rows[1]], rows[1]))
    assert (exact, none) == (pytest.approx(2.0), None)
    assert quotient(rows[0], [Ratio(0.0, 1.0)] * 24) is None
