"""Renewal goodput against Monte Carlo of the process that it describes, against its special cases and its limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize

from ettrick.sim.formulas.goodput import (
    daly_interval,
    efficiency,
    expected_shares,
    expected_wallclock,
    first_order_efficiency,
    optimal_interval,
    young_interval,
)
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

# ----------------------------------------
# Checkpoint intervals against their own definitions: the numeric minimum, the limits and the ordering.

HOUR = 3600.0


def cost(interval: float, write: float, mtti: float) -> float:
    """Expected time per unit of work, up to a factor that does not depend on the interval."""
    return math.expm1((interval + write) / mtti) / interval


@cases("loss", [1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_optimal_interval_is_the_numeric_minimum(loss: float) -> None:
    """The Lambert form is where the renewal cost is least, from light to absurd loss."""
    mtti = 3.0 * HOUR
    found = optimize.minimize_scalar(
        cost, bounds=(0.0, 1.5 * mtti), args=(loss * mtti, mtti), method="bounded", options={"xatol": 1e-9}
    )
    # A minimum of a smooth function is found to about the square root of the machine's precision.
    assert optimal_interval(loss * mtti, mtti) == pytest.approx(found.x, rel=2e-5)


@cases("loss", np.geomspace(1e-12, 100.0, 57))
def test_optimal_interval_solves_the_stationarity_equation(loss: float) -> None:
    """With s = tau / M, ``-ln(1 - s) - s = delta / M``, on both sides of the switch from series to Lambert."""
    s = optimal_interval(loss, 1.0)
    if s < 0.01:  # the left-hand side by its Taylor series, which has no cancellation
        left = sum(s**k / k for k in range(2, 12))
    elif s < 0.999:
        left = -math.log1p(-s) - s
    else:  # here the equation only says that tau is M: 1 - s = exp(-(s + delta / M))
        assert 1.0 - s == pytest.approx(math.exp(-(1.0 + loss)), rel=0.01, abs=1e-15)
        return
    # The Lambert function near its branch point keeps ten digits, the series below it all of them.
    assert left / loss == pytest.approx(1.0, abs=1e-12 if loss < 1e-6 else 2e-10)


def test_all_three_agree_at_light_loss() -> None:
    """Young, Daly and the optimum differ by a factor ``1 - (2/3) sqrt(delta / 2M)`` to first order."""
    write, mtti = 1e-8, 1.0
    correction = 1.0 - 2.0 / 3.0 * math.sqrt(write / (2.0 * mtti))
    assert young_interval(write, mtti) / math.sqrt(2e-8) == pytest.approx(1.0, abs=1e-14)
    assert daly_interval(write, mtti) / young_interval(write, mtti) == pytest.approx(correction, abs=1e-8)
    assert optimal_interval(write, mtti) / young_interval(write, mtti) == pytest.approx(correction, abs=1e-8)


def test_daly_is_within_two_permille_of_the_least_cost_below_half_of_mtti() -> None:
    """Daly's estimate costs at most 0.2 % more than the optimum for ``delta < M / 2`` (his abstract)."""
    for loss in np.linspace(0.001, 0.5, 200):
        least = cost(optimal_interval(loss, 1.0), loss, 1.0)
        assert 1.0 <= cost(daly_interval(loss, 1.0), loss, 1.0) / least <= 1.002


def test_daly_is_the_mtti_when_a_write_takes_two_of_them() -> None:
    """Daly's second branch: tau = M for ``delta >= 2 M``."""
    assert daly_interval(20.0, 10.0) == 10.0
    assert daly_interval(2000.0, 10.0) == 10.0
    assert daly_interval(19.999, 10.0) == pytest.approx(10.0 * (2.0 * (1.0 + 1.0 / 3.0 + 1.0 / 9.0) - 2.0), rel=1e-4)


def test_optimal_interval_never_reaches_the_mtti() -> None:
    """The optimum grows with the write and with the MTTI, below min(M, Young's estimate)."""
    write = np.geomspace(1e-6, 30.0, 300)
    optimum = optimal_interval(write, 1.0)
    assert np.all(np.diff(optimum) > 0)
    assert np.all(optimum < 1.0)
    assert np.all(optimum < young_interval(write, 1.0))
    assert np.all(np.diff(optimal_interval(30.0, np.geomspace(1.0, 1e6, 300))) > 0)


@cases("rule", [young_interval, daly_interval, optimal_interval])
def test_limits(rule: Callable[..., Any]) -> None:
    """A free save asks for interval 0; without failures no save is ever due; units cancel."""
    assert rule(0.0, HOUR) == 0.0
    assert rule(60.0, math.inf) == math.inf
    assert rule(0.0, math.inf) == math.inf
    assert rule(60.0, HOUR) == pytest.approx(60.0 * rule(1.0, 60.0), rel=1e-12)


@cases("rule", [young_interval, daly_interval, optimal_interval])
def test_arrays_are_scalars_side_by_side(rule: Callable[..., Any]) -> None:
    """Arrays broadcast to the values of the scalar calls; scalars give a plain float."""
    write, mtti = np.array([[1.0], [300.0]]), np.array([60.0, HOUR, math.inf])
    table = rule(write, mtti)
    assert table.shape == (2, 3)
    assert table.tolist() == [[rule(float(w), float(m)) for m in mtti] for w in write[:, 0]]
    assert type(rule(60, 3600)) is float


@cases("rule", [young_interval, daly_interval, optimal_interval])
@cases(("write", "mtti"), [(-1.0, 1.0), (1.0, 0.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.nan)])
def test_impossible_times_are_refused(rule: Callable[..., Any], write: float, mtti: float) -> None:
    """A negative write, an MTTI of zero and NaN are the user's mistakes."""
    with pytest.raises(ValueError, match=r"write must be|mtti must be"):
        rule(write, mtti)


KINDS = ("productive", "checkpoint_stall", "lost_work", "detection", "restart")

# interval, write, mtti, restart, downtime, drain [any unit]; efficiency from 0.98 down to 0.2 and below
SETTINGS = [
    (1.0, 0.004, 100.0, 0.5, 0.2, 0.5),
    (0.1, 0.005, 20.0, 1.0, 0.5, 0.1),
    (1.0, 0.1, 10.0, 1.0, 0.0, 0.0),
    (0.5, 0.2, 5.0, 0.1, 0.1, 0.25),
    (1.0, 0.5, 3.0, 0.2, 0.0, 0.0),
    (2.0, 0.1, 2.0, 0.1, 0.0, 0.0),
    (0.611, 0.333, 1.0, 0.667, 0.0, 0.0),  # the last of Daly's three examples
    (2.0, 0.5, 1.0, 0.2, 0.0, 1.5),
]


@cases("setting", SETTINGS)
def test_shares_sum_to_one_and_productive_is_the_efficiency(setting: tuple[float, ...]) -> None:
    """Every second lands in one share, none is negative, and the first of them is `efficiency`."""
    shares = expected_shares(*setting)
    assert tuple(shares) == KINDS
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-14)
    assert min(shares.values()) >= 0.0
    assert shares["productive"] == pytest.approx(efficiency(*setting), rel=1e-13)


def test_special_cases_of_the_literature() -> None:
    """No drain and downtime: the inverse of Daly's wall clock and RSC's renewal value; with downtime: INRIA's."""
    tau, b, m, u, d = 1800.0, 120.0, 9000.0, 400.0, 300.0
    rate = 1.0 / m
    renewal = tau / (math.exp(rate * u) * (math.exp(rate * (tau + b)) - 1.0) / rate)
    inria = (tau + b - b) / ((m + d) * math.exp(u / m) * (math.exp((tau + b) / m) - 1.0))
    assert efficiency(tau, b, m, u) == pytest.approx(renewal, rel=1e-12)
    assert 1e6 / expected_wallclock(1e6, tau, b, u, m) == pytest.approx(renewal, rel=1e-12)
    assert efficiency(tau, b, m, u, downtime=d) == pytest.approx(inria, rel=1e-12)


def test_a_drain_costs_what_a_longer_restart_costs() -> None:
    """A drain w multiplies ETTR by exp(-w / M), by making work wait for durability, and adds no stall."""
    now, later = expected_shares(600.0, 5.0, 9000.0, 60.0), expected_shares(600.0, 5.0, 9000.0, 60.0, drain=500.0)
    assert later["productive"] / now["productive"] == pytest.approx(math.exp(-500.0 / 9000.0), rel=1e-12)
    assert later["checkpoint_stall"] == now["checkpoint_stall"]


def test_without_failures_only_saving_costs() -> None:
    """As M grows, ETTR tends to tau / (tau + b), without a jump or noise on the way to infinity."""
    for mtti in (1e12, 1e17, 1e300, math.inf):
        shares = expected_shares(600.0, 30.0, mtti, 300.0, 60.0, 100.0)
        assert shares["productive"] == pytest.approx(600.0 / 630.0, abs=1e-9)
        assert shares["checkpoint_stall"] == pytest.approx(30.0 / 630.0, abs=1e-9)
        assert shares["lost_work"] + shares["detection"] + shares["restart"] == pytest.approx(0.0, abs=2e-9)
    assert efficiency(600.0, 30.0, math.inf, 300.0) == 600.0 / 630.0
    assert expected_wallclock(6000.0, 600.0, 30.0, 300.0, math.inf) == 6300.0
    assert first_order_efficiency(600.0, 30.0, math.inf, 300.0) == pytest.approx(600.0 / 630.0, rel=1e-15)


def test_first_order_is_the_tangent_at_zero_failure_rate() -> None:
    """With free saves, the loss ``1 - E`` tends to ``(u0 + dt / 2) / M``; at high loss the exact value is above it."""
    for mtti in (1e6, 1e8):
        exact, linear = efficiency(600.0, 0.0, mtti, 300.0), first_order_efficiency(600.0, 0.0, mtti, 300.0)
        assert linear == pytest.approx(1.0 - (300.0 + 300.0) / mtti, rel=1e-15)
        assert abs(exact - linear) < (900.0 / mtti) ** 2
    assert efficiency(3600.0, 0.0, 3600.0, 300.0) > first_order_efficiency(3600.0, 0.0, 3600.0, 300.0)


def test_the_optimum_is_the_same_with_restart_downtime_and_drain() -> None:
    """ETTR is greatest at `optimal_interval`, whatever restart, downtime and drain are, and not at Young's."""
    write, mtti = 300.0, 900.0
    best = optimal_interval(write, mtti)
    for others in ((0.0, 0.0, 0.0), (600.0, 60.0, 200.0)):
        at_best = efficiency(best, write, mtti, *others)
        around = efficiency(np.array([0.99, 1.01]) * best, write, mtti, *others)
        assert np.all(around < at_best)
        assert efficiency(young_interval(write, mtti), write, mtti, *others) < at_best


def test_extremes_neither_overflow_nor_go_negative() -> None:
    """A job that cannot reach a checkpoint has ETTR 0 and an infinite wall clock, without a warning."""
    shares = expected_shares(1e6, 1.0, 1.0, 1e6, 10.0, 1e5)
    assert shares["productive"] == 0.0
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-15)
    assert shares["detection"] == pytest.approx(10.0 / 11.0, rel=1e-15)
    assert expected_wallclock(1.0, 1e6, 1.0, 1e6, 1.0) == math.inf


def test_arrays_of_shares_are_scalars_side_by_side() -> None:
    """Arrays broadcast to the values of the scalar calls; scalars give plain floats."""
    interval, mtti = np.array([[600.0], [3600.0]]), np.array([1800.0, 86400.0, math.inf])
    table = expected_shares(interval, 30.0, mtti, 300.0, 60.0, 100.0)
    for kind in KINDS:
        assert table[kind].shape == (2, 3)
        for i, tau in enumerate((600.0, 3600.0)):
            for j, m in enumerate(mtti.tolist()):
                assert table[kind][i, j] == expected_shares(tau, 30.0, m, 300.0, 60.0, 100.0)[kind]
    assert type(efficiency(600, 30, 1800, 300)) is float
    assert {type(share) for share in expected_shares(600, 30, 1800, 300).values()} == {float}
    assert efficiency(interval, 30.0, mtti, 300.0).shape == (2, 3)
    assert expected_wallclock(1e6, interval, 30.0, 300.0, mtti).shape == (2, 3)


@cases(
    ("position", "value", "text"),
    [
        (0, 0.0, "interval must be positive"),
        (0, math.inf, "interval must be finite"),
        (1, -1.0, "write must be"),
        (2, 0.0, "mtti must be positive"),
        (2, math.nan, "mtti must be positive"),
        (3, math.inf, "restart must be finite"),
        (4, -1.0, "downtime must be"),
        (5, 601.0, "drain must not exceed interval"),
    ],
)
def test_impossible_arguments_are_refused(position: int, value: float, text: str) -> None:
    """Times that cannot be are named, with the rule; so is a save that the next one would overtake."""
    arguments = [600.0, 30.0, 9000.0, 300.0, 60.0, 100.0]
    arguments[position] = value
    for function in (efficiency, expected_shares):
        with pytest.raises(ValueError, match=text):
            function(*arguments)
