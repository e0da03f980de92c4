"""Failures like clockwork: a cycle by hand, a clock that ticks, special cases and published arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.theory.elastic import elastic_shares
from sim.theory.periodic import effective_training_time, periodic_shares

MINUTE = 60.0


def test_published_stalls_and_effective_training_times() -> None:
    """Stalls of 10 and 3 min every 18 min leave 44 % and 83 %; with a twelfth missing for 7 min more it is 80 %.

    arXiv 2602.00277 prints 44 % and 80 %, 12 replicas, and about 7 min until a replica is back. Sanity.
    """
    assert effective_training_time(18 * MINUTE, [10 * MINUTE, 3 * MINUTE]) == pytest.approx([8 / 18, 15 / 18])
    assert effective_training_time(18 * MINUTE, 10 * MINUTE) == pytest.approx(0.44, abs=0.005)
    known = 1 * MINUTE
    ours = periodic_shares(18 * MINUTE, 12, stall=2 * MINUTE, downtime=known, absence=9 * MINUTE)
    assert ours["productive"] == pytest.approx(0.80, abs=0.005)
    assert ours["detection"] + ours["restart"] == pytest.approx(1 - ours["productive"], rel=1e-12)


def test_a_cycle_by_hand() -> None:
    """Every 1000 s: 100 s unknown, 50 s stalled, one of four away for 350 s, 40 s when it is back; steps of 10 s.

    The others step for 810 s, the one that left for 300 s less. Four lose half a step at the failure, and three at the
    return. Of the stepping a tenth is saves.
    """
    ours = periodic_shares(1000.0, 4, stall=50, absence=350, rejoin=40, downtime=100, step=10, interval=90, write=10)
    stepping = (4 * 810 - 300) / 4000
    lost = (4 * 5 + 3 * 5) / 4000
    assert ours["lost_work"] == pytest.approx(lost, rel=1e-12)
    assert ours["checkpoint_stall"] == pytest.approx(0.1 * stepping, rel=1e-12)
    assert ours["productive"] == pytest.approx(0.9 * stepping - lost, rel=1e-12)
    assert ours["detection"] == pytest.approx(0.1, rel=1e-12)
    assert ours["restart"] == pytest.approx((4 * 90 + 300) / 4000, rel=1e-12)


def test_who_is_away_loses_no_step() -> None:
    """Of twelve groups two are still away when one fails: ten lose half a step; when it is back nine others step."""
    ours = periodic_shares(1000.0, 12, stall=50, absence=2300, downtime=100, step=10)
    assert ours["lost_work"] == pytest.approx((10 * 5 + 9 * 5) / 12 / 1000, rel=1e-12)


def ticked(between: int, groups: int, stall: int, absence: int, rejoin: int, downtime: int) -> float:
    """Return the share of group-seconds that step, by a clock of one second over whole rounds of all groups."""
    rounds, length = 8, between * groups
    end = rounds * length
    time = np.arange(end)
    stalled = np.zeros(end, dtype=bool)
    away = np.zeros((groups, end), dtype=bool)
    for number, start in enumerate(range(0, end, between)):
        stalled[start : start + downtime + stall] = True
        away[number % groups, start : start + downtime + absence] = True
        if absence > stall:
            back = start + downtime + absence
            stalled[back : back + rejoin] = True
    there = ~away & ~stalled
    # The last rounds but one: as after a long time.
    whole = (time >= 4 * length) & (time < 6 * length)
    return float(there[:, whole].mean())


@pytest.mark.parametrize(
    ("between", "groups", "stall", "absence", "rejoin", "downtime"),
    [
        (1000, 4, 50, 350, 40, 100),
        (1000, 4, 50, 30, 40, 100),
        (1000, 12, 50, 2300, 40, 100),
        (300, 12, 20, 1500, 0, 30),
        (500, 2, 100, 300, 0, 0),
        (500, 6, 60, 960, 30, 20),
    ],
    ids=["one away", "back in time", "two or three away", "many away", "of two", "returns beside a failure"],
)
def test_a_clock_that_ticks(between: int, groups: int, stall: int, absence: int, rejoin: int, downtime: int) -> None:
    """Group-seconds that step, counted second by second, for one and for several groups away at a time."""
    ours = periodic_shares(between, groups, stall=stall, absence=absence, rejoin=rejoin, downtime=downtime)
    expected = ticked(between, groups, stall, absence, rejoin, downtime)
    assert ours["productive"] == pytest.approx(expected, rel=1e-12)


def test_a_rigid_job_is_one_group() -> None:
    """With one group an absence is a stall of everybody."""
    one = periodic_shares(1000.0, 1, stall=100, absence=400, downtime=50)
    assert one["productive"] == pytest.approx(1 - 0.45, rel=1e-12)
    assert one["productive"] == pytest.approx(effective_training_time(1000.0, 450.0), rel=1e-12)


def test_very_many_groups_lose_the_stalls_only() -> None:
    """One of a million is not missed."""
    ours = periodic_shares(1000.0, 10**6, stall=100, absence=400, rejoin=20, downtime=50)
    assert ours["productive"] == pytest.approx(effective_training_time(1000.0, 170.0), rel=1e-5)


def test_rare_failures_cost_what_random_ones_cost() -> None:
    """To first order in the rate it does not matter when failures come: the loss is that of exponential ones."""
    times: dict[str, Any] = {"stall": 120.0, "absence": 500.0, "rejoin": 60.0, "downtime": 40.0, "step": 10.0}
    mtti = 1e7
    ours = periodic_shares(mtti, 12, **times)
    random = elastic_shares(1e9, 0.0, mtti, 12, **times)
    assert 1 - float(ours["productive"]) == pytest.approx(1 - random["productive"], rel=1e-3)


def test_stalls_without_end_leave_nothing() -> None:
    """Where the next failure comes before the stall is over nobody steps; shares still sum to 1."""
    ours = periodic_shares([100.0, 1000.0], 4, stall=90, absence=90, downtime=20, step=5, interval=50, write=5)
    assert ours["productive"][0] == 0
    assert ours["productive"][1] > 0.7
    assert sum(ours.values()) == pytest.approx(1, rel=1e-12)
    assert effective_training_time(10.0, 20.0) == 0
    assert effective_training_time(np.inf, 20.0) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mtti": 0.0}, "mtti must be positive"),
        ({"groups": 0}, "groups must be"),
        ({"stall": -1.0}, "stall must be finite and not negative"),
        ({"absence": 5000.0}, "absence must end before the group fails again"),
        ({"interval": 0.0}, "interval must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    """Negative times and groups that fail while they are away are refused by name."""
    with pytest.raises(ValueError, match=words):
        periodic_shares(**({"mtti": 1000.0, "groups": 4, "stall": 50.0} | changes))
