"""Nested saves to several levels: identities with one level, limits, a linear system beside it, and best patterns."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sim.theory import expected_shares, optimal_interval
from sim.theory.multilevel import multilevel_shares
from sim.theory.multilevel_plan import first_order_pattern, optimal_pattern

HOUR = 3600.0
NAMES = ["productive", "checkpoint_stall", "lost_work", "detection", "restart"]
TWO: dict[str, Any] = {
    "interval": 100.0,
    "counts": [4],
    "writes": [5.0, 30.0],
    "rates": [1 / 600, 1 / 3000],
    "restarts": [20.0, 100.0],
    "downtimes": [10.0, 40.0],
}


def same(ours: dict[str, Any], theirs: dict[str, Any], error: float = 1e-9) -> None:
    """All shares agree."""
    assert list(ours) == NAMES
    assert {name: float(ours[name]) for name in NAMES} == pytest.approx(
        {name: float(theirs[name]) for name in NAMES}, abs=error
    )


# ----------------------------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("mtti", [math.inf, 30 * HOUR, HOUR, 600.0, 60.0, 6.0])
@pytest.mark.parametrize("drain", [0.0, 200.0])
def test_one_level_is_the_theory_of_one_store(mtti: float, drain: float) -> None:
    """With one level all shares are those of `expected_shares`, from no failures at all to nothing left of progress."""
    ours = multilevel_shares(600.0, [], [30.0], [1 / mtti], [120.0], [60.0], [drain])
    same(ours, expected_shares(600.0, 30.0, mtti, 120.0, 60.0, drain))


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_levels_saved_together_are_one(levels: int) -> None:
    """Levels that are saved at the same instants and read in the same time are one, with all writes and all rates."""
    rates = [1 / (1000.0 * (level + 1)) for level in range(levels)]
    writes = [10.0 * (level + 1) for level in range(levels)]
    ours = multilevel_shares(500.0, [1] * (levels - 1), writes, rates, [60.0] * levels, [30.0] * levels)
    same(ours, expected_shares(500.0, sum(writes), 1 / sum(rates), 60.0, 30.0))


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("before", [1, 3])
def test_a_level_saved_with_the_next_is_that_one(level: int, before: int) -> None:
    """Of three levels, two that coincide leave two: their writes and the rates of their classes are added."""
    counts = [1, before] if level == 1 else [before, 1]
    three = multilevel_shares(
        100.0, counts, [5.0, 20.0, 40.0], [1e-3, 5e-4, 2e-4], [20.0, 60.0, 60.0] if level == 2 else [20.0, 20.0, 60.0]
    )
    if level == 1:
        two = multilevel_shares(100.0, [before], [25.0, 40.0], [1.5e-3, 2e-4], [20.0, 60.0])
    else:
        two = multilevel_shares(100.0, [before], [5.0, 60.0], [1e-3, 7e-4], [20.0, 60.0])
    same(three, two)


def test_a_level_that_nothing_needs_costs_its_saves_only() -> None:
    """Free saves of a class that never comes change nothing, above or below those that are needed."""
    one = expected_shares(400.0, 30.0, 2000.0, 50.0)
    same(multilevel_shares(400.0, [7], [30.0, 0.0], [1 / 2000, 0.0], [50.0, 900.0]), one)
    same(multilevel_shares(100.0, [4], [0.0, 30.0], [0.0, 1 / 2000], [900.0, 50.0]), one)


def test_without_faults_only_saves_cost_anything() -> None:
    """The pattern's writes over its length: 4 writes of 5 s and one of 30 s in 400 s of computing."""
    shares = multilevel_shares(100.0, [4], [5.0, 30.0], [0.0, 0.0], [20.0, 100.0], [10.0, 10.0])
    assert shares["productive"] == pytest.approx(400 / 450, abs=1e-15)
    assert shares["checkpoint_stall"] == pytest.approx(50 / 450, abs=1e-15)
    assert shares["lost_work"] == shares["detection"] == shares["restart"] == 0.0


# -------------------------------------------------------------------------------- a linear system, for two levels


def markov(
    interval: float, count: int, writes: list[float], rates: list[float], restarts: list[float]
) -> dict[str, float]:
    """Return the shares of two levels from the stationary law of a Markov chain over segments and restarts.

    A state is a segment of the pattern, by whether level 1 holds a copy where the first of them begins, or a restart.
    What comes next depends on nothing else, and the mean time in each is known.
    """
    total = sum(rates)
    chance = [rate / total for rate in rates]
    # States: segments 0 .. count - 1 with level 1 held, segment 0 without, restarts from level 1 by segment, from 2.
    bare, first, far = count, count + 1, 2 * count + 1
    step = np.zeros((far + 1, far + 1))
    times = np.zeros((far + 1, 3))

    def segment(state: int, place: int, read: int) -> None:
        stall = writes[0] + (writes[1] if place == count - 1 else 0.0)
        through = math.exp(-total * (interval + stall))
        times[state, 0] = -math.expm1(-total * interval) / total
        times[state, 1] = math.exp(-total * interval) * -math.expm1(-total * stall) / total
        step[state, (place + 1) % count] += through
        step[state, read] += (1 - through) * chance[0]
        step[state, far] += (1 - through) * chance[1]

    def restart(state: int, seconds: float, then: int, *, reboots: bool) -> None:
        through = math.exp(-total * seconds)
        times[state, 2] = -math.expm1(-total * seconds) / total
        step[state, then] += through
        step[state, state] += (1 - through) * (1.0 if reboots else chance[0])
        step[state, far] += (1 - through) * (0.0 if reboots else chance[1])

    for place in range(count):
        segment(place, place, first + place)
        restart(first + place, restarts[0], place, reboots=False)
    segment(bare, 0, far)
    restart(far, restarts[1], bare, reboots=True)
    system = np.vstack([step.T - np.eye(far + 1), np.ones(far + 1)])
    law = np.linalg.lstsq(system, np.append(np.zeros(far + 1), 1.0), rcond=None)[0]
    computing, stalled, restarting = law @ times
    everything = computing + stalled + restarting
    # Each way from the last segment to the first is a pattern done.
    last = law[count - 1] if count > 1 else law[0] + law[bare]
    done = count * interval * last * math.exp(-total * (interval + writes[0] + writes[1]))
    return {
        "productive": done / everything,
        "checkpoint_stall": stalled / everything,
        "lost_work": (computing - done) / everything,
        "detection": 0.0,
        "restart": restarting / everything,
    }


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("restarts", [[20.0, 200.0], [100.0, 30.0], [0.0, 0.0]], ids=["slower", "quicker", "none"])
def test_two_levels_are_a_markov_chain(count: int, scale: float, restarts: list[float]) -> None:
    """The stationary law of a chain over segments and restarts gives the same shares, to 1e-9."""
    rates = [scale / 400.0, scale / 1500.0]
    ours = multilevel_shares(100.0, [count], [5.0, 40.0], rates, restarts)
    same(ours, markov(100.0, count, [5.0, 40.0], rates, restarts))


# --------------------------------------------------------------------------------------------------------- properties


def test_shares_add_up_and_arrays_are_scalars_side_by_side() -> None:
    """Intervals, counts, rates and times broadcast; every column adds up to 1."""
    intervals, counts = np.array([[20.0], [100.0], [900.0]]), np.array([1, 2, 50])
    table = multilevel_shares(**{**TWO, "interval": intervals, "counts": [counts]})
    total = sum(table.values())
    assert np.shape(table["productive"]) == (3, 3)
    np.testing.assert_allclose(np.asarray(total), 1.0, atol=1e-12)
    for row, interval in enumerate(intervals[:, 0]):
        for column, count in enumerate(counts):
            one = multilevel_shares(**{**TWO, "interval": float(interval), "counts": [int(count)]})
            for name in NAMES:
                assert type(one[name]) is float
                assert np.asarray(table[name])[row, column] == pytest.approx(one[name], rel=1e-12)


@pytest.mark.parametrize("key", ["writes", "rates", "restarts", "downtimes", "drains"])
@pytest.mark.parametrize("level", [0, 1])
def test_whatever_takes_longer_leaves_less(key: str, level: int) -> None:
    """A longer write, restart, downtime or drain of either level, or a higher rate of either class, costs progress."""
    base = {**TWO, "drains": [0.0, 0.0]}
    more = list(base[key])
    more[level] = more[level] * 1.1 + (1.0 if key == "drains" else 0.0)
    assert multilevel_shares(**{**base, key: more})["productive"] < multilevel_shares(**base)["productive"]


def test_units_cancel() -> None:
    """In minutes the shares are what they are in seconds."""
    minutes = {key: [each / 60 for each in TWO[key]] for key in ("writes", "restarts", "downtimes")}
    rates = [rate * 60 for rate in TWO["rates"]]
    same(multilevel_shares(100 / 60, [4], rates=rates, **minutes), multilevel_shares(**TWO), 1e-14)


def test_a_fault_that_joins_a_worse_one_is_read_from_afar() -> None:
    """In a downtime of ages every incident ends with the highest class: all restarts are from level 2, once each."""
    shares = multilevel_shares(100.0, [4], [5.0, 30.0], [1e-3, 1e-3], [0.0, 100.0], [1e5, 1e5])
    one = expected_shares(400.0, 0.0, 500.0, 100.0, 1e5)
    # Nothing is ever read from level 1: what is left between faults is what restarts of 100 s leave.
    assert shares["restart"] == pytest.approx(one["restart"], rel=1e-9)
    assert shares["detection"] == pytest.approx(one["detection"], rel=1e-12)


def test_hopeless_jobs_have_shares_all_the_same() -> None:
    """A thousand faults in a segment or in a restart: no progress, no warning, and shares that add up."""
    for rates in ([1.0, 10.0], [10.0, 0.0], [0.0, 10.0]):
        shares = multilevel_shares(1000.0, [50], [5.0, 30.0], rates, [100.0, 1000.0])
        assert sum(shares.values()) == pytest.approx(1.0)
        assert 0.0 <= shares["productive"] < 1e-9
        assert all(math.isfinite(share) and share >= 0 for share in shares.values())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"interval": 0.0}, "interval must be positive"),
        ({"counts": [0]}, "counts must be a whole number from 1"),
        ({"counts": [1.5]}, "counts must be a whole number from 1"),
        ({"counts": []}, "one value for each level but the last, 1, got 0"),
        ({"writes": []}, "writes must have one value"),
        ({"rates": [1e-3]}, "rates must have one value for each level"),
        ({"rates": [1e-3, -1e-3]}, "rates must be finite and not negative"),
        ({"restarts": [1.0, math.nan]}, "restarts must be finite"),
        ({"downtimes": [1.0]}, "downtimes must have one value"),
        ({"drains": [101.0, 0.0]}, "drains must not exceed the spacing"),
        ({"drains": [0.0, 401.0]}, "drains must not exceed the spacing"),
    ],
)
def test_impossible_patterns(change: dict[str, Any], match: str) -> None:
    """What no pattern can be is refused in one line."""
    with pytest.raises(ValueError, match=match):
        multilevel_shares(**{**TWO, **change})


# ------------------------------------------------------------------------------------------------------ best patterns


@pytest.mark.parametrize("write", [1.0, 60.0, 1000.0])
def test_one_level_has_the_best_interval_of_one_store(write: float) -> None:
    """The first-order pattern is Young's interval, the searched one the exact optimum, whatever the restart."""
    first = first_order_pattern([write], [1 / HOUR])
    assert first.counts == ()
    assert first.interval == pytest.approx(math.sqrt(2 * write * HOUR), rel=1e-12)
    found = optimal_pattern([write], [1 / HOUR], [500.0])
    assert found.counts == ()
    assert found.interval == pytest.approx(optimal_interval(write, HOUR), rel=1e-5)


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_the_cost_is_the_sum_of_the_levels_in_the_limit(levels: int) -> None:
    """With ever rarer faults the overhead of the best pattern is ``sum sqrt(2 lambda_l C_l)``: Benoit et al. (2017).

    What it has beyond falls with the square root of the rates; ratios of spacings are whole numbers here.
    """
    writes = [1.0, 4.0, 20.0, 90.0][:levels]
    spacings = [1.0, 6.0, 24.0, 240.0][:levels]
    before = math.inf
    for scale in (1e-2, 1e-4, 1e-6):
        rates = [scale * 2 * write / spacing**2 for write, spacing in zip(writes, spacings, strict=True)]
        pattern = first_order_pattern(writes, rates)
        assert np.cumprod([1, *pattern.counts]).tolist() == spacings
        assert pattern.interval == pytest.approx(1 / math.sqrt(scale), rel=1e-12)
        shares = multilevel_shares(pattern.interval, pattern.counts, writes, rates, [0.0] * levels)
        cost = sum(math.sqrt(2 * rate * write) for rate, write in zip(rates, writes, strict=True))
        beyond = abs((1 / shares["productive"] - 1) / cost - 1)
        assert beyond < before / 5
        before = beyond
    assert before < 0.1


@pytest.mark.parametrize("rates", [[1e-3, 1e-4], [3e-4, 2e-4], [1e-3, 1e-6], [2e-3, 1e-3]])
def test_the_searched_pattern_is_the_best_of_all(rates: list[float]) -> None:
    """No other count up to 120, with any interval, leaves more; the first order is never better."""
    writes, restarts = [5.0, 60.0], [30.0, 200.0]

    found = optimal_pattern(writes, rates, restarts)
    ours = multilevel_shares(*found, writes, rates, restarts)["productive"]
    intervals = np.geomspace(0.1, 10, 2001)[:, None] * found.interval
    every = multilevel_shares(intervals, [np.arange(1, 121)], writes, rates, restarts)["productive"]
    assert ours >= every.max() - 1e-12
    # The grid of intervals is fine enough for the right count to be seen.
    assert int(every.max(axis=0).argmax()) + 1 == found.counts[0]
    assert ours >= multilevel_shares(*first_order_pattern(writes, rates), writes, rates, restarts)["productive"]


def test_the_searched_pattern_of_three_levels_is_best_among_its_neighbours() -> None:
    """No count and interval next to it leaves more."""
    writes, rates, restarts = [2.0, 20.0, 100.0], [1e-3, 2e-4, 5e-5], [10.0, 60.0, 300.0]
    found = optimal_pattern(writes, rates, restarts)
    most = multilevel_shares(found.interval, found.counts, writes, rates, restarts)["productive"]
    for change in itertools.product((-1, 0, 1), repeat=2):
        counts = [count + more for count, more in zip(found.counts, change, strict=True)]
        for factor in np.geomspace(0.7, 1.4, 29):
            near = multilevel_shares(found.interval * factor, counts, writes, rates, restarts)["productive"]
            assert near <= most + 1e-9


def test_levels_that_are_not_worth_it_are_saved_together() -> None:
    """A cheaper level for rarer faults has no spacing of its own: the levels are pooled, and what is pooled is one."""
    pattern = first_order_pattern([50.0, 10.0, 100.0], [1e-3, 1e-3, 1e-6])
    assert pattern.counts[0] == 1
    assert pattern == first_order_pattern([60.0, 100.0], [2e-3, 1e-6])._replace(counts=pattern.counts)


@pytest.mark.parametrize(("writes", "rates"), [([0.0], [1.0]), ([1.0], [0.0]), ([], []), ([1.0], [1.0, 2.0])])
def test_patterns_need_something_to_balance(writes: list[float], rates: list[float]) -> None:
    """Free saves and classes that never come have no best spacing; every level needs a rate."""
    with pytest.raises(ValueError, match=r"must be positive|must have one value for each level"):
        first_order_pattern(writes, rates)
