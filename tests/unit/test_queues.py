"""Closed forms of queues: published and derived values, their limits, and what they refuse."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from ettrick.sim.formulas.queues import erlang_c, gang_saturation, mean_wait, pool_empty
from tests.cases import cases


@cases(
    ("servers", "load", "waits", "wait"),
    [
        (4, 0.75, 0.509434, 0.509434),
        (16, 0.90, 0.591343, 0.369590),
        (64, 0.95, 0.588011, 0.183753),
        (256, 0.97, 0.521177, 0.067862),
    ],
)
def test_erlang_c(servers: int, load: float, waits: float, wait: float) -> None:
    """The probability to wait, and the mean wait in units of the mean run time."""
    offered = servers * load
    assert erlang_c(servers, offered) == pytest.approx(waits, abs=1e-6)
    assert mean_wait(servers, offered, 1.0) == pytest.approx(wait, abs=1e-6)
    assert mean_wait(servers, offered, 60.0) == pytest.approx(60 * wait, abs=1e-4)


def test_one_server_is_m_m_1() -> None:
    """With one server the probability to wait is the load, and the wait rho / (1 - rho) run times."""
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert mean_wait(1, 0.7, 1.0) == pytest.approx(0.7 / 0.3)
    assert erlang_c(8, 0.0) == 0
    assert erlang_c(8, 8.0) == 1
    assert mean_wait(8, 8.0, 1.0) == math.inf


@cases(
    ("slots", "small", "rate", "occupancy"),
    [
        (2, 0.5, 1.142857, 0.857143),
        (2, 2 - math.sqrt(2), 1.207107, 0.853553),
        (8, 0.9, 2.836792, 0.602818),
        (8, 0.5, 1.181169, 0.664407),
        (64, 0.99, 16.652, 0.424106),
    ],
)
def test_gang_saturation(slots: int, small: float, rate: float, occupancy: float) -> None:
    """Arrivals and occupancy at which strict FIFO of gangs saturates; of two slots by the known 1 / (1 - p^2 / 2)."""
    found = gang_saturation(slots, small)
    assert found == pytest.approx((rate, occupancy), abs=1e-4 if slots == 64 else 1e-6)
    if slots == 2:
        assert found == pytest.approx((1 / (1 - small**2 / 2), (2 - small) / (2 - small**2)))


def test_gang_saturation_in_its_limits() -> None:
    """Nearly no or nearly only small jobs fill the cluster; eight slots do worst at p = 0.8016, with 0.5688."""
    assert gang_saturation(8, 1e-12)[1] == pytest.approx(1)
    assert gang_saturation(8, 1 - 1e-12)[1] == pytest.approx(1)
    assert gang_saturation(1, 0.3) == (pytest.approx(1), pytest.approx(1))
    worst = optimize.minimize_scalar(lambda p: gang_saturation(8, p)[1], bounds=(0.5, 0.99), method="bounded")
    assert (worst.x, worst.fun) == (pytest.approx(0.8016, abs=1e-3), pytest.approx(0.5688, abs=1e-4))


@cases(("offered", "spares"), [(0.0, 1), (2.0, 0), (2.0, 3), (50.0, 60), (0.5, 20)])
def test_pool_empty(offered: float, spares: int) -> None:
    """A pool is empty while as many nodes or more are in repair, whose number is Poisson."""
    assert pool_empty(offered, spares) == pytest.approx(stats.poisson(offered).sf(spares - 1), abs=1e-12)


def test_refused() -> None:
    """What has no meaning is refused."""
    for call in (
        lambda: erlang_c(0, 1.0),
        lambda: erlang_c(2, -1.0),
        lambda: mean_wait(2, 1.0, 0.0),
        lambda: gang_saturation(8, 1.0),
        lambda: pool_empty(1.0, -1),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
