"""First-order periods between saves: published values, what each of them minimises, limits, and overlapping saves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize

from sim.theory import efficiency, optimal_interval, young_interval
from sim.theory.periods import availability_period, daly_period, overlapped_interval, refined_period

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86400.0
PERIODS: list[Callable[..., Any]] = [availability_period, daly_period, refined_period]

# G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, arXiv:1302.3752, table 2: C = R = 600 s, D = 60 s, individual MTBF 125
# years. By log2 of the number of processors: Young's, Daly's and the refined period [s].
INRIA = {
    10: (68567, 68573, 67961),
    12: (34584, 34595, 33972),
    14: (17592, 17615, 16968),
    16: (9096, 9142, 8449),
    18: (4848, 4940, 4154),
}


@pytest.mark.parametrize("log2_nodes", INRIA)
def test_inria_table_2(log2_nodes: int) -> None:
    """Young's, Daly's and the refined period are those of the table, to its last printed digit."""
    young, daly, refined = INRIA[log2_nodes]
    mtti = 125 * 365 * DAY / 2**log2_nodes
    assert daly_period(600.0, mtti) == pytest.approx(young, abs=1.0)
    assert young_interval(600.0, mtti) + 600.0 == pytest.approx(young, abs=1.0)
    assert daly_period(600.0, mtti, restart=600.0, downtime=60.0) == pytest.approx(daly, abs=1.0)
    assert refined_period(600.0, mtti, restart=600.0, downtime=60.0) == pytest.approx(refined, abs=1.0)


def least(cost: Callable[[float], float], guess: float) -> float:
    """Return where a cost is least."""
    found = optimize.minimize_scalar(
        lambda log: cost(math.exp(log)),
        bounds=(math.log(guess) - 3, math.log(guess) + 3),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(found.x)


@pytest.mark.parametrize(("write", "restart"), [(1.0, 0.0), (60.0, 300.0), (600.0, 60.0), (3000.0, 4000.0)])
def test_each_is_the_best_of_its_own_cost(write: float, restart: float) -> None:
    """The refined period has the least first-order waste, the availability period the highest availability.

    Saxena et al., arXiv:2410.18124, give T_s + sqrt(2 (T_f + T_r) T_s + T_s^2), and sqrt(2 T_f T_s) for the lost time.
    """
    mtti, downtime = 3600.0 * 8, 120.0

    def waste(period: float) -> float:
        return 1 - (1 - write / period) * (1 - (downtime + restart + period / 2) / mtti)

    def unavailability(period: float) -> float:
        return 1 - (1 - write / period) * mtti / (mtti + restart + period / 2)

    def lost(period: float) -> float:
        return write / period + period / (2 * mtti)

    printed = write + math.sqrt(2 * (mtti + restart) * write + write**2)
    assert availability_period(write, mtti, restart) == pytest.approx(printed, rel=1e-14)
    costs: list[tuple[Callable[[float], float], float]] = [
        (waste, refined_period(write, mtti, restart, downtime)),
        (unavailability, availability_period(write, mtti, restart)),
        (lost, young_interval(write, mtti)),
    ]
    for cost, period in costs:
        assert period == pytest.approx(least(cost, period), rel=1e-5)


@pytest.mark.parametrize("period", PERIODS)
def test_all_are_the_exact_period_where_saves_are_short(period: Callable[..., Any]) -> None:
    """For a write of a millionth of the MTTI each is within 0.2 % of the exact optimum, write included."""
    assert period(1.0, 1e6, 1.0) == pytest.approx(optimal_interval(1.0, 1e6) + 1.0, rel=2e-3)


def test_the_order_of_the_formulas() -> None:
    """A recovery lengthens Daly's and the availability period and shortens the refined one."""
    bare = {period: period(60.0, 3600.0) for period in PERIODS}
    with_restart = {period: period(60.0, 3600.0, 600.0) for period in PERIODS}
    assert with_restart[daly_period] > bare[daly_period]
    assert with_restart[availability_period] > bare[availability_period]
    assert with_restart[refined_period] < bare[refined_period]


@pytest.mark.parametrize("period", PERIODS)
def test_limits(period: Callable[..., Any]) -> None:
    """Free saves ask for no interval at all; without failures no save is ever due; units cancel; arrays broadcast."""
    assert period(0.0, 3600.0) == 0.0
    assert period(60.0, math.inf) == math.inf
    assert period(0.0, math.inf) == math.inf
    assert period(60.0, 7200.0, 60.0) == pytest.approx(60 * period(1.0, 120.0, 1.0), rel=1e-12)
    table = period(np.array([[1.0], [300.0]]), np.array([3600.0, math.inf]), 60.0)
    assert table.tolist() == [[period(write, mtti, 60.0) for mtti in (3600.0, math.inf)] for write in (1.0, 300.0)]
    assert type(period(60, 3600)) is float


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("times", [(-1.0, 1.0), (1.0, 0.0), (1.0, math.nan), (1.0, 9.0, -1.0)])
def test_impossible_times(period: Callable[..., Any], times: tuple[float, ...]) -> None:
    """A negative time, an MTTI of zero and NaN are the user's mistakes."""
    with pytest.raises(ValueError, match=r"must be"):
        period(*times)


def test_a_failure_that_costs_more_than_there_is() -> None:
    """The refined period does not exist where downtime and restart take all the time between failures."""
    with pytest.raises(ValueError, match=r"mtti must exceed downtime \+ restart"):
        refined_period(1.0, 100.0, 60.0, 40.0)


@pytest.mark.parametrize("drain", [0.0, 100.0, 300.0, 1000.0, 3000.0])
@pytest.mark.parametrize("write", [0.5, 10.0, 300.0])
def test_the_best_interval_of_an_overlapping_save(write: float, drain: float) -> None:
    """Of intervals that are not shorter than the drain none beats it, and it does not depend on the restart."""
    best = overlapped_interval(write, 3600.0, drain)
    assert best >= drain
    for restart in (0.0, 600.0):
        grid = np.maximum(best * np.geomspace(0.05, 20, 400), drain)
        others = efficiency(grid, np.array(write), np.array(3600.0), np.array(restart), 0.0, np.array(drain))
        assert efficiency(best, write, 3600.0, restart, 0.0, drain) >= np.max(others) * (1 - 1e-12)
    # What the drain costs, as its docstring says: a share of what is left without it.
    free = efficiency(best, write, 3600.0, 60.0)
    assert efficiency(best, write, 3600.0, 60.0, 0.0, drain) == pytest.approx(free * math.exp(-drain / 3600), rel=1e-12)


def test_overlap_in_the_limits() -> None:
    """Without a drain it is the blocking optimum; a save that blocks for no time is saved as often as it can be."""
    assert overlapped_interval(10.0, 3600.0, 0.0) == optimal_interval(10.0, 3600.0)
    assert overlapped_interval(0.0, 3600.0, 120.0) == 120.0
    assert overlapped_interval(10.0, math.inf, 120.0) == math.inf
    assert overlapped_interval(np.array([0.0, 300.0]), 3600.0, 120.0).tolist() == [
        120.0,
        optimal_interval(300.0, 3600.0),
    ]
    with pytest.raises(ValueError, match="drain must be"):
        overlapped_interval(10.0, 3600.0, -1.0)
