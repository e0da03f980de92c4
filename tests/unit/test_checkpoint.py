"""Closed-form progress: against single saves, against hand-worked numbers, and the rules for the interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sim.formulas.goodput import daly_interval, optimal_interval, young_interval
from sim.policies.checkpoint import Periodic, Tiers
from sim.policies.contracts import CheckpointState, Damage, Pace
from tests.cases import cases
from tests.harness import check_checkpoint, step_by_step
from tests.pace import one_in

FREE = Pace(1.0)
"""Continuous progress at the healthy pace."""


def tier(**changes: Any) -> Tiers:
    """Validate one tier as a file would be."""
    base = {"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return Tiers.model_validate({"tiers": [base | changes]})


@pytest.mark.parametrize("step", one_in(3, [0.0, 7.0, 30.0, 100.0, 130.0]), ids=lambda step: f"step {step:g} s")
@pytest.mark.parametrize(
    "periodic",
    [
        Periodic(interval=100.0, stall=10.0, drain=0.0, load=20.0),
        Periodic(interval=100.0, stall=0.0, drain=0.0, load=0.0),
        Periodic(interval=100.0, stall=2.0, drain=60.0, load=20.0),
        Periodic(interval=100.0, stall=0.0, drain=99.0, load=20.0),
        Periodic(interval=100.0, stall=3.0, drain=100.0, load=20.0),
        Periodic(interval=100.0, stall=5.0, drain=250.0, load=20.0),
        Periodic(interval=100.0, stall=150.0, drain=40.0, load=20.0),
    ],
    ids=["blocking", "free", "drain 60", "drain 99", "drain = interval", "drain 250", "long stall"],
)
def test_closed_form(periodic: Periodic, step: float) -> None:
    """Every kind of periodic save is conserved, monotone, additive and equal to stepping one save at a time."""
    check_checkpoint(periodic, step)


# Blocking: 100 s of stepping, 10 s of stall. Time, committed, at risk, time spent stepping.
BLOCKING = [
    (0.0, 0.0, 0.0, 0.0),
    (60.0, 0.0, 60.0, 60.0),
    (100.0, 0.0, 100.0, 100.0),
    (109.0, 0.0, 100.0, 100.0),
    (110.0, 100.0, 0.0, 100.0),
    (215.0, 100.0, 100.0, 200.0),
    (335.0, 300.0, 5.0, 305.0),
]


@cases(("time", "committed", "at_risk", "stepped"), BLOCKING)
def test_blocking_by_hand(time: float, committed: float, at_risk: float, stepped: float) -> None:
    """A blocking save is durable when its stall ends, not when it begins."""
    state, spent, _ = Periodic(100.0, 10.0, 0.0, 20.0).advance(CheckpointState(), FREE, time)
    assert (state.committed, state.at_risk, spent) == (committed, at_risk, stepped)


# Asynchronous: 100 s of stepping, 2 s of stall, 60 s of drain; durable at 162, 264, 366 s.
ASYNC = [
    (101.0, 0.0, 100.0, 0.0, 0.0),
    (102.0, 0.0, 100.0, 100.0, 60.0),
    (161.0, 0.0, 159.0, 100.0, 1.0),
    (162.0, 100.0, 60.0, 0.0, 0.0),
    (204.0, 100.0, 100.0, 100.0, 60.0),
    (263.0, 100.0, 159.0, 100.0, 1.0),
    (264.0, 200.0, 60.0, 0.0, 0.0),
]


@cases(("time", "committed", "at_risk", "draining", "left"), ASYNC)
def test_async_by_hand(time: float, committed: float, at_risk: float, draining: float, left: float) -> None:
    """An asynchronous save holds what there was at its stall, and is durable a drain after it."""
    state, _, _ = Periodic(100.0, 2.0, 60.0, 20.0).advance(CheckpointState(), FREE, time)
    assert (state.committed, state.at_risk, state.draining, state.drain_left) == (committed, at_risk, draining, left)


def test_a_save_waits_for_the_one_before_it() -> None:
    """With a drain of 250 s an interval of 100 s becomes one of 250 s: two saves never drain at once."""
    periodic = Periodic(100.0, 5.0, 250.0, 20.0)
    assert periodic.stepping(FREE) == 250.0
    # The stalls end at 255 s and 510 s, the drains at 505 s and 760 s.
    for time, committed in ((504.0, 0.0), (505.0, 250.0), (759.0, 250.0), (760.0, 500.0)):
        assert periodic.advance(CheckpointState(), FREE, time)[0].committed == committed


@cases(("step", "stepping"), [(0.0, 100.0), (1.0, 100.0), (30.0, 120.0), (100.0, 100.0), (130.0, 130.0), (0.1, 100.0)])
def test_saves_commit_whole_steps(step: float, stepping: float) -> None:
    """The interval is rounded up to whole steps; a multiple is not rounded further by floating point."""
    assert Periodic(100.0, 10.0, 0.0, 20.0).stepping(Pace(1.0, step)) == pytest.approx(stepping, rel=1e-12)


def test_a_rollback_to_peers_loses_the_step_in_flight() -> None:
    """At 65 s with steps of 30 s, two steps survive with the peers, and none in the store."""
    periodic = Periodic(100.0, 10.0, 0.0, 20.0)
    pace = Pace(1.0, 30.0)
    state, _, _ = periodic.advance(CheckpointState(), pace, 65.0)
    assert periodic.restore(state, pace, Damage("live")).state == CheckpointState(at_risk=60.0, position=60.0)
    assert periodic.restore(state, pace, Damage("hosts")).state == CheckpointState()
    # In the stall nothing is in flight; the cycle begins anew, because the save was not finished.
    state, _, _ = periodic.advance(CheckpointState(), pace, 125.0)
    assert periodic.restore(state, pace, Damage("live")).state == CheckpointState(at_risk=120.0, position=120.0)


@cases("interval", [60.0, 100.0, 130.0])
def test_a_shorter_interval_in_the_middle_of_a_longer_one(interval: float) -> None:
    """When the pace changes while the position is beyond the new interval, no second is counted twice.

    Steps of 60 s round 100 s up to 120 s; after 115 s of those, steps of 10 s make the interval 100 s.
    """
    periodic = Periodic(100.0, 2.0, 0.0, 20.0)
    state, _, _ = periodic.advance(CheckpointState(), Pace(1.0, 60.0), 115.0)
    for span in (0.5, 1.0, interval):
        after, stepped, _ = periodic.advance(state, Pace(1.0, 10.0), span)
        assert 0 <= stepped <= span
        assert after.committed + after.at_risk == pytest.approx(115.0 + stepped, rel=1e-12)


# -------------------------------------------------------------------------------------------- parameters


def test_every_k_steps() -> None:
    """'every 20 steps' is 20 healthy steps, and needs the time of one."""
    assert tier(interval="every 20 steps").build(math.inf, 3.0).interval == 60.0
    assert tier(interval="every 1 step").build(math.inf, 3.0).interval == 3.0
    with pytest.raises(ValueError, match="needs the time of a step"):
        tier(interval="every 20 steps").build(math.inf, 0.0)


@cases(("mode", "stall"), [("blocking", 10.0), ("async", 4.0)])
def test_rules_balance_the_stall(mode: str, stall: float) -> None:
    """The rules are those of theory, on what a save stops the job for: the write, or the stall of an async save."""
    more = {"stall": "4 s"} if mode == "async" else {}
    for rule, theory in (("young", young_interval), ("daly", daly_interval), ("optimal", optimal_interval)):
        built = tier(mode=mode, interval=rule, **more).build(3600.0, 0.0)
        assert built.interval == pytest.approx(theory(stall, 3600.0), rel=1e-12)
        assert (built.stall, built.drain) == (stall, 0.0 if mode == "blocking" else 10.0)
    lengths = [tier(interval=rule).build(600.0, 0.0).interval for rule in ("young", "daly", "optimal")]
    assert len(set(lengths)) == 3, "three rules"


@cases(
    ("changes", "mtti", "match"),
    [
        ({"interval": "young"}, math.inf, "nothing can fail"),
        ({"interval": "young", "write": "0 s"}, 3600.0, "saves are free"),
        ({"interval": "optimal", "mode": "async"}, 3600.0, "saves are free"),
        ({"interval": "0 s"}, 3600.0, "longer than zero"),
    ],
)
def test_impossible_intervals(changes: dict[str, Any], mtti: float, match: str) -> None:
    """A rule without a failure rate or without a cost, and an interval of zero, are refused with the reason."""
    with pytest.raises(ValueError, match=match):
        tier(**changes).build(mtti, 0.0)


@cases(
    ("changes", "match"),
    [
        ({"interval": "every 0 steps"}, "whole number above zero"),
        ({"interval": "every 2.5 steps"}, "whole number above zero"),
        ({"interval": "hourly"}, "unknown rule 'hourly'"),
        ({"interval": "10"}, "unit"),
        ({"stall": "1 s"}, "stall is for mode: async"),
    ],
)
def test_impossible_tiers(changes: dict[str, Any], match: str) -> None:
    """What no save can mean is refused when it is read."""
    with pytest.raises(ValueError, match=match):
        tier(**changes)


def test_optimum_beats_its_neighbours_in_the_closed_form() -> None:
    """The rule 'optimal' gives the shortest mean segment time of all intervals, found by drawing failures.

    A segment of tau + C is repeated until it fits between two failures; its mean is M (exp((tau + C) / M) - 1). The
    draws check that the closed form of `Periodic` commits exactly the segments that fit.
    """
    mtti, write = 900.0, 60.0
    best = tier(interval="optimal", write="60 s").build(mtti, 0.0)
    lives = np.random.default_rng(5).exponential(mtti, size=4000)

    def kept(interval: float) -> float:
        periodic = best._replace(interval=interval)
        return sum(periodic.advance(CheckpointState(), FREE, life)[0].committed for life in lives.tolist())

    expected = [math.floor(life / (best.interval + write)) * best.interval for life in lives.tolist()]
    assert kept(best.interval) == pytest.approx(sum(expected), rel=1e-9)
    assert kept(best.interval) > max(kept(best.interval * 0.4), kept(best.interval * 2.5))


def test_the_stepper_itself() -> None:
    """The rival of the closed form, on one number by hand: 335 s hold three saves of 100 s and 5 s."""
    assert step_by_step(Periodic(100.0, 10.0, 0.0, 20.0), FREE, [335.0]) == pytest.approx((300.0, 5.0, 305.0))
