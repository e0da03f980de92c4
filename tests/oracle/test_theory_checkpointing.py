"""Checkpoint intervals against their own definitions: the numeric minimum, the limits and the ordering."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize

from sim.formulas.goodput import daly_interval, optimal_interval, young_interval
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

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
