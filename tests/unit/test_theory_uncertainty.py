"""Intervals of rates and of what follows from them: rules, coverage, linear functions, and the band of `run`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from analysis.ensemble import _factor, band, replicate
from sim.theory import efficiency
from sim.theory.uncertainty import carried, carried_quantiles, rate_bound, rate_interval
from tests.intervals import Z
from tests.small import prepare

if TYPE_CHECKING:
    import numpy.typing as npt

DAY = 86400.0


def test_no_events_rule_out_three_per_exposure() -> None:
    """The rule of three: 95 % below -ln 0.05 = 3.0 events an exposure."""
    assert rate_bound(0, 10.0) == pytest.approx(-math.log(0.05) / 10, rel=1e-12)
    assert rate_bound(0, 1.0) == pytest.approx(3.0, abs=0.005)
    low, high = rate_interval(0, 10.0)
    assert low == 0
    assert high < rate_bound(0, 10.0, 0.975)


@pytest.mark.parametrize("events", [0, 1, 6, 148])
def test_a_bound_is_where_so_few_events_are_too_rare(events: int) -> None:
    """At the bound n events or fewer have a probability of 5 %; Garwood's limits are quantiles of chi-square."""
    bound = rate_bound(events, 1.0)
    assert stats.poisson.cdf(events, bound) == pytest.approx(0.05, rel=1e-9)
    assert bound == pytest.approx(stats.chi2.ppf(0.95, 2 * (events + 1)) / 2, rel=1e-9)


def test_published_intervals_of_component_rates() -> None:
    """Llama 3: 419 interruptions in 110,592 node-days are 3.79 [3.43, 4.17] per 1,000, from its Table 5 by Jeffreys."""
    low, high = rate_interval(419, 110.592)
    assert (float(low), float(high)) == pytest.approx((3.43, 4.17), abs=0.011)


def test_intervals_contain_the_rate_as_often_as_they_say() -> None:
    """Exact coverage of 95 % intervals over a grid of means from 5 to 60: 95 % on average, and never below 91 %."""
    counts = np.arange(200)
    low, high = rate_interval(counts, 1.0)
    means = np.linspace(5, 60, 400)
    inside = (low <= means[:, None]) & (means[:, None] <= high)
    coverage = (stats.poisson.pmf(counts, means[:, None]) * inside).sum(axis=1)
    assert coverage.mean() == pytest.approx(0.95, abs=0.005)
    assert coverage.min() > 0.91


EVENTS = np.array([148.0, 72.0, 54.0, 3.0, 0.0])
EXPOSURE = 54 * DAY


def goodput(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the efficiency of a job that any cause interrupts."""
    return np.asarray(efficiency(600.0, 2.0, 1 / rates.sum(axis=-1), 300.0, 60.0))


def test_a_linear_function_is_exact() -> None:
    """The standard deviation of a weighted sum of rates is the root of the sum of squares; shares are its parts."""
    weights = np.array([1.0, 2.0, 0.0, 5.0, 1.0])
    found = carried(lambda rates: rates @ weights, EVENTS, EXPOSURE)
    parts = weights**2 * (EVENTS + 0.5) / EXPOSURE**2
    assert found.value == pytest.approx(float((EVENTS + 0.5) @ weights) / EXPOSURE, rel=1e-12)
    assert found.error == pytest.approx(math.sqrt(parts.sum()), rel=1e-7)
    assert found.shares == pytest.approx(parts / parts.sum(), rel=1e-6)
    assert found.high - found.value == pytest.approx(1.959964 * found.error, rel=1e-6)
    assert found.value - found.low == pytest.approx(found.high - found.value, rel=1e-9)


def test_the_delta_method_of_goodput_is_the_derivative_by_the_total_rate() -> None:
    """Causes that all interrupt alike: the variance is that of their sum, and shares are their counts."""
    found = carried(goodput, EVENTS, EXPOSURE)
    total = (EVENTS + 0.5).sum() / EXPOSURE
    step = 1e-6
    slope = (goodput(np.array([total * (1 + step)])) - goodput(np.array([total * (1 - step)]))) / (2 * step * total)
    assert found.error == pytest.approx(abs(float(slope)) * math.sqrt((EVENTS + 0.5).sum()) / EXPOSURE, rel=1e-5)
    assert found.shares == pytest.approx((EVENTS + 0.5) / (EVENTS + 0.5).sum(), rel=1e-4)
    assert found.shares.sum() == pytest.approx(1, rel=1e-12)
    assert np.all(carried(lambda rates: np.ones(rates.shape[:-1]), EVENTS, EXPOSURE).shares == 0)


def test_the_posterior_of_a_sum_is_a_gamma_law_again() -> None:
    """Causes of one exposure add up to Gamma(sum of shapes): the quantiles of goodput are those at its quantiles.

    The points are even: within two hundredths of the width of the interval.
    """
    levels = np.array([0.025, 0.05, 0.5, 0.95, 0.975])
    found = carried_quantiles(goodput, EVENTS, EXPOSURE, levels)
    rates = stats.gamma.ppf(1 - levels, (EVENTS + 0.5).sum()) / EXPOSURE
    expected = np.asarray(goodput(rates[:, None]))
    assert found == pytest.approx(expected, abs=0.02 * (expected[-1] - expected[0]))
    delta = carried(goodput, EVENTS, EXPOSURE)
    assert (delta.low, delta.high) == pytest.approx(
        (expected[0], expected[-1]), abs=0.03 * (expected[-1] - expected[0])
    )


def test_one_rate_and_a_monotone_function_are_the_quantiles_of_the_rate() -> None:
    """A single cause: the function at the quantiles of its posterior, in their order or the other way round."""
    found = carried_quantiles(lambda rates: -np.log(rates[..., 0]), 6, 2.0, [0.05, 0.95])
    ends = -np.log(stats.gamma.ppf([0.95, 0.05], 6.5) / 2.0)
    assert found == pytest.approx(ends, abs=2e-3)


def test_many_causes_are_covered_evenly() -> None:
    """Nineteen causes with their own weights: mean and spread of the points are those of theory."""
    events = np.linspace(0, 150, 19)
    weights = np.linspace(1, 3, 19)
    levels = np.linspace(0.005, 0.995, 199)
    found = carried_quantiles(lambda rates: rates @ weights, events, 1.0, levels)
    mean, deviation = weights @ (events + 0.5), math.sqrt(weights**2 @ (events + 0.5))
    assert found.mean() == pytest.approx(mean, abs=0.05 * deviation)
    assert (found[-10] - found[9]) / (2 * stats.norm.ppf(0.95)) == pytest.approx(deviation, rel=0.05)


# ------------------------------------------------------------------------------------------- the band of a simulation

BLOCKING = {"tiers": [{"interval": "20 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]}


def uncertain(days: float) -> Any:
    """Return a small job with two causes that strike all of it, known from 4 and 30 events in a time."""
    laws = {"one": 4, "other": 30}
    failures = [
        {
            "use": "job",
            "name": name,
            "events": events,
            "law": {"law": "exponential", "mean": f"{20 * 3600 * 34 / events / 10!r} s"},
        }
        for name, events in laws.items()
    ]
    return prepare(
        jobs=[{"name": "train", "gpus": 112}],
        failures=failures,
        checkpoint=BLOCKING,
        recovery={"use": "hot-spare", "initialize": "3 min"},
        horizon=f"{days!r} d",
    )


def test_the_band_of_a_simulation_draws_from_the_same_posterior() -> None:
    """Factors of the drawn rates have shape n + 1/2 and mean 1 + 1/(2 n), as here: mean, variance and quantiles."""
    for events in (4, 30):
        factors = np.array([_factor(1, "one", events, draw) for draw in range(4000)])
        law = stats.gamma(events + 0.5, scale=1 / events)
        assert stats.kstest(factors, law.cdf).pvalue > 6e-5
        low, high = rate_interval(events, float(events), 0.9)
        assert law.cdf([float(low), float(high)]) == pytest.approx([0.05, 0.95], rel=1e-9)


def test_the_band_of_a_simulation_is_the_posterior_interval_of_theory() -> None:
    """From 5 % to 95 % of ETTR over the rates: by 60 draws and simulation, and by theory without either.

    An end of 60 draws scatters by sqrt(0.05 x 0.95 / 60) over the density of the normal law, 0.27 standard deviations;
    common random numbers take the luck of the replications out of it, but for a little.
    """
    case = uncertain(60.0)
    ensemble = replicate(case, 6, processes=1)
    low, high = band(ensemble, 60, replications=3, processes=1)["ettr"] or (0.0, 0.0)
    times = {"restart": 180 + 60.0, "downtime": 120.0}
    exposure = 20 * 3600 * 3.4
    found = carried_quantiles(
        lambda rates: efficiency(1200, 30, 1 / rates.sum(axis=-1), **times), [4, 30], exposure, [0.05, 0.5, 0.95]
    )
    delta = carried(lambda rates: efficiency(1200, 30, 1 / rates.sum(axis=-1), **times), [4, 30], exposure, level=0.9)
    assert (delta.low, delta.high) == pytest.approx((found[0], found[2]), abs=0.15 * (found[2] - found[0]))
    scatter = Z * 0.27 * delta.error
    assert low - found[0] == pytest.approx(0, abs=scatter + 0.01 * delta.error)
    assert high - found[2] == pytest.approx(0, abs=scatter)
    assert high - low > 0.5 * (found[2] - found[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rate_interval(-1, 1.0), "events must be finite and not negative"),
        (lambda: rate_interval(1, 0.0), "exposure must be positive"),
        (lambda: rate_bound(1, 1.0, 1.0), "level must"),
        (lambda: carried(goodput, [1.0, -1.0], 1.0), "events must be finite"),
        (lambda: carried_quantiles(goodput, 1.0, 1.0, 0.5, points=10), "points must be at least 100"),
        (lambda: carried_quantiles(goodput, 1.0, 1.0, 0.0), "levels must"),
    ],
    ids=["events", "exposure", "level", "counts", "points", "levels"],
)
def test_what_makes_no_sense_is_refused(call: Any, words: str) -> None:
    """Negative counts, empty exposures and certain intervals are refused by name."""
    with pytest.raises(ValueError, match=words):
        call()
