"""Rankings: intervals that hold for all candidates at once, whichever of them the data made the best."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from analysis.statistics.differences import (
    MANY,
    Ranking,
    difference,
    ranking_of,
    ranking_over_draws,
    replications_to_resolve,
)
from sim import Ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray


RIVALS = ((1, 0.1), (2, 0.6))


def rows(values: Any, base: float = 1.0) -> list[list[Ratio]]:
    """Return candidates with one value per replication, (k, n)."""
    return [[Ratio(float(value) * base, base) for value in candidate] for candidate in values]


def ranked(values: Any, *, lowest: bool = False, metric: str = "") -> Ranking:
    """Return the ranking of candidates that have one."""
    found = ranking_of(rows(values), lowest=lowest, metric=metric)
    assert found is not None
    return found


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
    expected = difference(*rows(values))
    assert expected is not None
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
    found = ranking_of(pairs, lowest=True)
    assert found is not None
    ratio = amounts.sum(axis=1) / bases.sum(axis=1)
    assert found.behind[1][0] == pytest.approx(ratio[1] - ratio[0])


def test_censored_and_missing_are_left_out() -> None:
    """A candidate with an infinite value, with nothing in its denominators, or with nothing at all has no place."""
    good = rows(np.random.default_rng(37).normal(size=(2, 6)) + 9)
    censored = [*good[0][:5], Ratio(math.inf, 1.0)]
    found = ranking_of([censored, good[0], [], good[1], [Ratio(1.0, 0.0)] * 6], lowest=True)
    assert found is not None
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
    """A candidate that was played longer is compared on what all have."""
    values = np.random.default_rng(38).normal(size=(3, 20))
    pairs = rows(values)
    assert ranking_of([pairs[0], pairs[1][:10], pairs[2]], lowest=False) == ranked(values[:, :10])


def test_replications_to_resolve_are_as_many_as_it_takes() -> None:
    """With n replications the margin of the hardest rival is below its difference, and with n - 1 it is not."""
    values = np.random.default_rng(39).normal(size=(3, 10)) * [[1.0], [1.0], [0.1]] + [[0.5], [0.0], [-9.0]]
    found = ranked(values)
    assert set(found.may_be_best) == {0, 1}
    assert found.replications_to_resolve is not None
    each = values[found.may_be_best[0]] - values[found.may_be_best[1]]

    def margin(count: int) -> float:
        return float(stats.t.isf(0.025 / 2, count - 1)) * each.std(ddof=1) / math.sqrt(count)

    assert margin(found.replications_to_resolve) < each.mean() <= margin(found.replications_to_resolve - 1)
    assert 10 < found.replications_to_resolve <= MANY
    swapped = values[:, :1] + np.array([[1.0, -1.0] * 5, [-1.0, 1.0] * 5, [-9.0, -9.0] * 5])
    swapped[0] = swapped[1, ::-1]
    assert ranked(swapped).replications_to_resolve is None, "a difference of zero never is"


def test_the_hardest_rival_says_how_many() -> None:
    """Of two rivals that may be best, as many replications as the one takes that differs less from the first."""
    noise = np.random.default_rng(42).normal(size=(3, 10))
    noise -= noise.mean(axis=1)[:, None]
    values = noise + np.array([[1.0], [0.9], [0.4]])
    found = ranked(values)
    assert found.may_be_best == (0, 1, 2)
    each = [replications_to_resolve(lead, float((noise[0] - noise[k]).std(ddof=1)), 0.975) for k, lead in RIVALS]
    assert None not in each
    assert found.replications_to_resolve == max(number for number in each if number) > min(n for n in each if n)


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
    """0.99, 0.95 and 0.9 by 16 runs with common luck: all intervals hold, and would not as if of any other metric."""
    rng = np.random.default_rng(40)
    truth = np.array([0.99, 0.95, 0.9])
    repetitions, hits = 400, 0
    for _ in range(repetitions):
        luck = math.sqrt(0.8) * rng.normal(size=16) + math.sqrt(0.2) * rng.normal(size=(3, 16))
        hits += held(ranked(luck < ndtri(truth)[:, None], metric=metric), truth)
    if metric:
        assert_nominal(hits, repetitions)
    else:
        assert hits < stats.binom.ppf(0.0005, repetitions, 0.95)


def test_a_thousand_candidates_take_no_time() -> None:
    """A thousand candidates that all may be the best, ten replications each: well below two seconds."""
    rng = np.random.default_rng(41)
    candidates = rows(0.9 + 0.02 * rng.normal(size=10) + 0.01 * rng.normal(size=(1000, 10)))
    start = time.process_time()
    found = ranking_of(candidates, lowest=False)
    assert found is not None
    assert len(found.may_be_best) > 500
    assert time.process_time() - start < 2.0


# ------------------------------------------------------------------------------------------------- over draws


def test_over_draws_the_truly_best_is_seldom_lost() -> None:
    """Of four candidates that are equal on average and differ in every draw each is kept in 95 % of 150 rankings.

    By replications alone, whose sums over draws hardly scatter, candidates would be lost in most of them.
    """
    rng, kept, by_runs = np.random.default_rng(71), 0, 0
    for _ in range(150):
        tables = 0.9 + 0.02 * rng.normal(size=(4, 20, 1)) + 0.01 * rng.normal(size=(4, 20, 16))
        found = ranking_over_draws(list(tables), lowest=False, is_chance=False)
        assert found is not None
        kept += 0 in found.may_be_best
        by_runs += 0 in ranked(tables.mean(axis=1)).may_be_best
        assert found.replications_to_resolve is None
    assert kept >= stats.binom.ppf(0.001, 150, 0.95)
    assert by_runs < 100


def test_over_draws_equal_probabilities_are_no_certain_tie() -> None:
    """Twenty draws of ten runs that all finish leave as much doubt as ten pairs; other values that are equal do not."""
    ones = [np.ones((20, 10)), np.ones((20, 10))]
    chance, same = (ranking_over_draws(ones, lowest=False, is_chance=is_chance) for is_chance in (True, False))
    assert chance is not None
    assert same is not None
    assert chance.behind[1][1][1] == pytest.approx(stats.t.isf(0.025, 9) * math.sqrt(1 / 11 / 12))
    assert same.behind[1] == (0, (0, 0))


def test_over_draws_candidates_without_a_mean_are_left_out() -> None:
    """Their places stay free; a single draw ranks nobody."""
    low, high = np.full((3, 4), 1.0), np.full((3, 4), 2.0)
    found = ranking_over_draws([np.zeros((0, 0)), low, high], lowest=True, is_chance=False)
    assert found is not None
    assert (found.order, found.may_be_best) == ((1, 2), (1,))
    assert ranking_over_draws([low[:1], high[:1]], lowest=True, is_chance=False) is None
    assert ranking_over_draws([np.zeros((0, 0))], lowest=True, is_chance=False) is None
