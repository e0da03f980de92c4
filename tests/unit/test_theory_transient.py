"""Nodes down after a start with all up, against matrix exponentials, known integrals and the long run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from sim.theory.availability import missing_nodes_pmf, offered_repairs, repairs_pmf, steady_unavailability
from sim.theory.common_cause import gamma_mixed
from sim.theory.transient import (
    Survival,
    cold_start_share,
    mean_repairs,
    relaxation_time,
    repairs_at,
    unavailability_at,
    unavailability_curve,
)
from tests.property.common import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(40)


def exponential(mean: float) -> Survival:
    """Return the survival function of an exponential law."""
    return lambda u: np.exp(-u / mean)


# -- exponential ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [0.01, 0.7, 3.0, 40.0])
def test_the_law_at_a_time_is_the_matrix_exponential(time: float) -> None:
    """First row of exp(t G), G the generator of the number down of 8 nodes with a crew each: binomial with q(t)."""
    nodes, life, repair = 8, 5.0, 2.0
    matrix = np.diag([(nodes - k) / life for k in range(nodes)], 1) + np.diag([k / repair for k in range(1, 9)], -1)
    matrix -= np.diag(matrix.sum(axis=1))
    law = missing_nodes_pmf(nodes, unavailability_at(time, life, repair))
    assert law == pytest.approx(linalg.expm(time * matrix)[0], rel=1e-9, abs=1e-14)


def test_a_node_goes_from_up_to_the_long_run() -> None:
    """q(0) = 0, slope 1 / life, 1 - 1/e of the way after the relaxation time, the long run in the end."""
    life, repair = np.array([50.0, 3.0, math.inf]), np.array([2.0, 30.0, 4.0])
    tau, limit = relaxation_time(life, repair), steady_unavailability(life, repair)
    assert tau == pytest.approx([100 / 52, 90 / 33, 4.0])
    assert unavailability_at(0.0, life, repair).tolist() == [0.0, 0.0, 0.0]
    assert unavailability_at(1e-9, life, repair) == pytest.approx(1e-9 / life, rel=1e-6)
    assert unavailability_at(tau, life, repair) == pytest.approx((1 - 1 / math.e) * limit, rel=1e-13)
    assert unavailability_at(1e6, life, repair) == pytest.approx(limit, rel=1e-13)
    assert type(unavailability_at(1.0, 5.0, 2.0)) is type(relaxation_time(5.0, 2.0)) is float


@pytest.mark.parametrize("warmup", [0.0, 0.4, 6.0])
@pytest.mark.parametrize("horizon", [1e-10, 0.004, 1.0, 30.0])
def test_the_share_that_a_window_sees(horizon: float, warmup: float) -> None:
    """The mean of q(t) over the window, by quadrature, over the long run; digits stay where the window is short."""
    life, repair = 20.0, 4.0
    tau = relaxation_time(life, repair)
    times = warmup + horizon * (POINTS + 1) / 2
    mean = float(unavailability_at(times, life, repair) @ WEIGHTS) / 2
    share = cold_start_share(horizon, tau, warmup)
    assert share * steady_unavailability(life, repair) / mean == pytest.approx(1.0, rel=1e-9)


def test_the_cold_start_of_a_fortnight() -> None:
    """Repairs of 5.54 d, the mean of InfiniteHBD: 14 days from new see about two thirds of the long run, 348 d 98 %.

    For short and long windows it is x / 2 and 1 - 1 / x with x = horizon / relaxation.
    """
    tau = relaxation_time(1000 / 4.2, 5.54)
    assert cold_start_share(14.0, tau) == pytest.approx(1 - tau / 14 * (1 - math.exp(-14 / tau)), rel=1e-13)
    assert 0.62 < cold_start_share(14.0, tau) < 0.68
    assert cold_start_share(348.0, tau) == pytest.approx(1 - tau / 348, rel=1e-12)
    assert cold_start_share(1e-8, 1.0) == pytest.approx(0.5e-8, rel=1e-8)
    assert cold_start_share([1.0, 2.0], 1.0, [[0.0], [50.0]]).shape == (2, 2)


# -- any repair -------------------------------------------------------------------------------------------------------


def test_repairs_on_the_way_where_the_integral_is_known() -> None:
    """a(t) over the rate: m (1 - e^(-t/m)) exponential, min(t, c) fixed, (1 - (1 + t)^(1-s)) / (s - 1) Pareto.

    A jump is found to a few 1e-13 of the time.
    """
    t = np.array([0.0, 1e-4, 0.3, 2.0, 7.0, 900.0])
    assert repairs_at(t, 2.0, exponential(3.0)) == pytest.approx(-6 * np.expm1(-t / 3), rel=1e-12)
    fixed = repairs_at(t, 2.0, lambda u: (u < 0.7).astype(float))
    assert np.all(np.abs(fixed - 2 * np.minimum(t, 0.7)) <= 2 * 1e-12 * t)
    pareto = repairs_at(t, 2.0, lambda u: (1 + u) ** -1.5)
    assert pareto == pytest.approx(2 * (1 - (1 + t) ** -0.5) / 0.5, rel=1e-11)
    # A repair that is a billionth of the horizon is not stepped over.
    assert repairs_at(1e9, 1.0, lambda u: (u < 1.0).astype(float)) == pytest.approx(1.0, rel=1e-3)
    assert repairs_at(5.0, [1.0, 3.0], exponential(1.0)).shape == (2,)


@pytest.mark.parametrize(
    "law", [stats.lognorm(1.2, scale=2.0), stats.weibull_min(0.6, scale=3.0), stats.uniform(1.0, 2.0), stats.gamma(4.0)]
)
def test_the_long_run_of_repairs_is_the_offered_number(law: stats.distributions.rv_frozen) -> None:
    """After a very long time the mean in repair is rate times mean repair; the mean over a horizon is that of a(t)."""
    assert repairs_at(1e4, 0.7, law.sf) == pytest.approx(offered_repairs(0.7, law.mean()), rel=1e-6)
    for horizon in (0.5, 6.0, 50.0):
        edges = np.unique(
            np.minimum([0.0, 1.0, 3.0, 10.0, horizon], horizon)
        )  # a(t) of the uniform law has kinks there
        width = np.diff(edges)[:, None]
        means = repairs_at(edges[:-1, None] + width * (POINTS + 1) / 2, 0.7, law.sf) @ WEIGHTS / 2
        assert mean_repairs(horizon, 0.7, law.sf) == pytest.approx(means @ width[:, 0] / horizon, rel=1e-6)


def test_repairs_with_an_exponential_law_relax_exponentially() -> None:
    """With lives without end (life >> repair) the share seen is that of the two-state node."""
    share = mean_repairs([1.0, 5.0, 80.0], 2.0, exponential(3.0)) / 6.0
    assert share == pytest.approx(cold_start_share([1.0, 5.0, 80.0], relaxation_time(math.inf, 3.0)), rel=1e-11)


def test_a_curve_of_exponential_repairs_is_the_two_state_node() -> None:
    """Step by step equal to the closed form; four times the steps, a sixteenth of the error."""
    life, repair, errors = 5.0, 2.0, []
    for steps in (50, 200, 800):
        exact = unavailability_at(np.linspace(0.0, 15.0, steps + 1), life, repair)
        errors.append(float(np.abs(unavailability_curve(15.0, life, exponential(repair), steps) - exact).max()))
    assert errors[2] < 1e-6
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(16.0, rel=0.1)


@pytest.mark.parametrize("shape", [2, 5])
def test_a_curve_of_repairs_in_stages_is_the_matrix_exponential(shape: int) -> None:
    """A repair of exponential stages, one after another (Erlang): states up, stage 1, ..., stage k."""
    life, repair = 4.0, 3.0
    matrix = np.zeros((shape + 1, shape + 1))
    matrix[0, 1] = 1 / life
    for stage in range(1, shape + 1):
        matrix[stage, (stage + 1) % (shape + 1)] = shape / repair
    matrix -= np.diag(matrix.sum(axis=1))
    law = stats.gamma(shape, scale=repair / shape)
    coarse, fine = (unavailability_curve(20.0, life, law.sf, steps) for steps in (1000, 2000))
    for step in (5, 50, 250, 1000):
        exact = 1.0 - linalg.expm(matrix * step / 50.0)[0, 0]
        assert fine[2 * step] == pytest.approx(exact, abs=0.01**2 / 12)
        # The error is one of the square of the step: without it six more digits agree.
        assert (4.0 * fine[2 * step] - coarse[step]) / 3.0 == pytest.approx(exact, abs=1e-10)


def test_the_curve_between_its_limits() -> None:
    """It ends at the long run, whatever the law; with rare failures it is a(t) of one node."""
    law = stats.lognorm(1.0, scale=1.0)
    assert unavailability_curve(200.0, 6.0, law.sf, 2000)[-1] == pytest.approx(
        steady_unavailability(6.0, law.mean()), rel=1e-4
    )
    rare = unavailability_curve(10.0, 1e7, law.sf, 100)
    assert rare[[20, 100]] == pytest.approx(repairs_at([2.0, 10.0], 1e-7, law.sf), rel=1e-5)
    # One node that fails but once: fixed repairs longer than the horizon leave 1 - exp(-t / life).
    once = unavailability_curve(3.0, 2.0, np.ones_like, 300)
    assert once == pytest.approx(-np.expm1(-np.linspace(0.0, 3.0, 301) / 2.0), abs=1e-5)
    assert unavailability_curve(3.0, math.inf, law.sf, 4).tolist() == [0.0] * 5


def test_an_environment_on_the_way() -> None:
    """A Gamma-distributed failure rate makes the number in repair at t negative binomial, dispersion 1 + v a(t)."""
    variation, rate = 0.4, 2.0
    for time in (0.2, 3.0, 60.0):

        def law(z: float, at: float = time) -> NDArray[np.float64]:
            return repairs_pmf(repairs_at(at, rate * z, exponential(3.0)), 80)

        mean = repairs_at(time, rate, exponential(3.0))
        assert gamma_mixed(law, variation) == pytest.approx(repairs_pmf(mean, 80, 1.0 + variation * mean), abs=1e-10)


@examples(60)
@given(st.floats(0.1, 100.0), st.floats(0.1, 100.0), st.floats(0.01, 50.0), st.floats(1.01, 3.0))
def test_what_makes_more_nodes_down(life: float, repair: float, time: float, factor: float) -> None:
    """Later, shorter lives, longer repairs: more down at t. A longer window or warm-up sees more of the long run."""
    base = unavailability_at(time, life, repair)
    assert 0.0 < base <= steady_unavailability(life, repair)
    assert base <= time / life
    assert unavailability_at(time * factor, life, repair) >= base
    assert unavailability_at(time, life / factor, repair) >= base
    assert unavailability_at(time, life, repair * factor) >= base
    tau = relaxation_time(life, repair)
    share = cold_start_share(time, tau)
    assert 0.0 < share < 1.0
    assert cold_start_share(time * factor, tau) > share
    assert cold_start_share(time, tau, 0.1 * tau) > share
    assert share <= cold_start_share(time, tau / factor)


def test_impossible_arguments_are_refused() -> None:
    """One line each, with what is wrong."""
    with pytest.raises(ValueError, match="survival must be in"):
        repairs_at(5.0, 1.0, lambda u: 1.0 + u)
    with pytest.raises(ValueError, match="survival must be in"):
        unavailability_curve(5.0, 1.0, lambda u: np.full_like(u, math.nan))
    with pytest.raises(ValueError, match="time must be finite and not negative"):
        unavailability_at(-1.0, 5.0, 2.0)
    with pytest.raises(ValueError, match="repair must be positive"):
        relaxation_time(5.0, 0.0)
    with pytest.raises(ValueError, match="horizon must be positive"):
        cold_start_share(0.0, 1.0)
    with pytest.raises(ValueError, match="steps must be a whole number from 1"):
        unavailability_curve(5.0, 1.0, exponential(1.0), 0)
