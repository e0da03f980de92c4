"""Hazards that change in time: power-law trends, calendars, random swings, and the operational time of lives.

References
----------
L. H. Crow, "Reliability analysis for complex, repairable systems", 1974, and MIL-HDBK-189C (2011): with n events up to
T, the estimate n / sum ln(T / t_i) of the exponent b has 2 n b / estimate chi-square distributed with 2 n degrees of
freedom. D. R. Cox, P. A. W. Lewis, *The Statistical Analysis of Series of Events*, Methuen, 1966.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats

import sim
from sim.failures import Component, draw_trace
from sim.failures.variety import Tempo
from sim.scenario.laws import Fixed
from tests.cases import cases
from tests.harness import prepared
from tests.intervals import LEAST, Z, agree, close
from tests.source_checks import pooled
from tests.source_rival import counts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sim.failures import Source

DAY = 86400.0


def source_of(tempo: dict[str, Any], units: int = 512, **entry: Any) -> Source:
    """Return a component source of nodes; without a law one failure in a hundred days."""
    base: dict[str, Any] = {"name": "fault", "part": "node", "tempo": tempo}
    if "law" not in entry:
        base["rate"] = "1 per 100 d"
    return Component.model_validate(base | entry).build({"node": units, "gpu": units}, 1)


# ---------------------------------------------------------------------------------------------------------- trend


@cases("exponent", [0.5, 1.0, 2.5])
def test_crow_amsaa_finds_the_exponent(exponent: float) -> None:
    """The maximum-likelihood exponent of the failures of a new cluster is the stated one, within its chi-square law."""
    horizon = 300 * DAY
    times = draw_trace([source_of({"trend": {"exponent": exponent, "reference": "100 d"}})], horizon, 1, 0).time
    estimate = len(times) / float(np.log(horizon / times).sum())
    law = stats.chi2(2 * len(times))
    low, high = law.ppf(LEAST / 2), law.ppf(1 - LEAST / 2)
    assert low <= 2 * len(times) * exponent / estimate <= high
    for wrong in (0.8 * exponent, 1.25 * exponent):
        assert not low <= 2 * len(times) * wrong / estimate <= high, "the interval must be narrow"


@cases(("exponent", "age"), [(0.5, 0.0), (0.5, 50.0), (2.5, 0.0), (2.5, 50.0)])
def test_counts_of_a_trend(exponent: float, age: float) -> None:
    """A rate r gives r R ((T + age)^b - age^b) / R^b failures on average; a new cluster r R up to the reference R."""
    tempo = {"trend": {"exponent": exponent, "reference": "100 d", "age": f"{age} d"}}
    counts = np.array([len(draw_trace([source_of(tempo)], 80 * DAY, 2, number).time) for number in range(40)])
    expected = 5.12 * 100 * (((80 + age) / 100) ** exponent - (age / 100) ** exponent)
    assert close(counts, expected, expected)
    if age == 0:
        whole = np.array([len(draw_trace([source_of(tempo)], 100 * DAY, 3, number).time) for number in range(40)])
        assert close(whole, 512, 512)


# ------------------------------------------------------------------------------------------------------- calendar


@cases(
    ("period", "factors"), [("1 d", [0.0, 1.0, 3.0, 0.5]), ("7 d", [1.2, 1.2, 1.2, 1.2, 1.2, 0.5, 0.5]), ("1 d", [2.0])]
)
def test_calendar_counts_follow_the_factors(period: str, factors: list[float]) -> None:
    """Failures in each phase are Poisson with rate x factor; a phase with the factor 0 has none."""
    length = 7 * DAY if period == "7 d" else DAY
    days = 280.0
    times = draw_trace([source_of({"calendar": {"period": period, "factors": factors}})], days * DAY, 1, 0).time
    phase = (times % length / length * len(factors)).astype(np.int64)
    observed = np.bincount(phase, minlength=len(factors)).astype(np.float64)
    expected = 5.12 * days / len(factors) * np.array(factors)
    assert not observed[expected == 0].any()
    some = expected > 0
    square = ((observed[some] - expected[some]) ** 2 / expected[some]).sum()
    assert stats.chi2(some.sum()).sf(float(square)) > LEAST


# --------------------------------------------------------------------------------------------------------- swings

STRETCHES = 4000


def stretch_counts(*names: str, cv: float = 0.7, days: float = 2.0) -> list[NDArray[np.int64]]:
    """Return the failures in each of many stretches, of one source for each name of swings."""
    horizon = STRETCHES * days * DAY
    sources = [
        source_of({"swings": {"every": f"{days} d", "cv": cv, "shared": name}}, units=300, name=f"fault {index}")
        for index, name in enumerate(names)
    ]
    drawn = draw_trace(sources, horizon, 1, 0)
    return [
        np.bincount((drawn.time[drawn.source == index] / (days * DAY)).astype(np.int64), minlength=STRETCHES)
        for index in range(len(sources))
    ]


def test_swings_make_counts_overdispersed() -> None:
    """Failures per stretch have the variance mean + cv^2 mean^2: they are negative binomial with the shape cv^-2."""
    mean, shape = 6.0, 0.7**-2
    (counts,) = stretch_counts("cluster")
    law = stats.nbinom(shape, shape / (shape + mean))
    variance, excess = float(law.var()), float(law.stats(moments="k"))
    assert variance == pytest.approx(mean + 0.7**2 * mean**2)
    assert close(counts, mean, variance)
    error = variance * math.sqrt((excess + 2) / STRETCHES)
    assert abs(counts.var(ddof=1) - variance) <= Z * error
    assert variance - mean > 2 * Z * error, "a steady rate must fall outside"
    observed = np.bincount(np.minimum(counts, 60), minlength=61).astype(np.float64)
    expected = STRETCHES * law.pmf(np.arange(61))
    expected[60] += STRETCHES * law.sf(60)
    assert stats.chisquare(*pooled(observed, expected)).pvalue > LEAST


def test_neighbouring_stretches_are_independent() -> None:
    """The autocorrelation of the counts at lag one is zero."""
    (counts,) = stretch_counts("cluster")
    assert abs(float(np.corrcoef(counts[1:], counts[:-1])[0, 1])) <= Z / math.sqrt(STRETCHES)


def test_sources_with_one_name_swing_together() -> None:
    """With one name two sources have the covariance cv^2 mean^2 over stretches; with two names none."""
    one, same, other = stretch_counts("cluster", "cluster", "room")
    for rival, expected in ((same, 0.7**2 * 36), (other, 0.0)):
        products = (one - one.mean()) * (rival - rival.mean())
        error = float(products.std(ddof=1)) / math.sqrt(STRETCHES)
        assert abs(float(products.mean()) - expected) <= Z * error
        assert expected == 0 or expected > 2 * Z * error


# ------------------------------------------------------------------------------------------------ operational time

TEMPOS: dict[str, dict[str, Any]] = {
    "falling": {"trend": {"exponent": 0.5, "reference": "10 d"}},
    "growing": {"trend": {"exponent": 3, "reference": "10 d", "age": "3 d"}},
    "calendar": {"calendar": {"period": "1 d", "factors": [0, 1, 4]}},
    "together": {
        "trend": {"exponent": 0.7, "reference": "10 d", "age": "1 h"},
        "calendar": {"period": "36 h", "factors": [0.5, 1.5]},
    },
}


def hazard(tempo: Tempo) -> Callable[[float], float]:
    """Return m(t) by its definition, swings left out."""

    def m(time: float) -> float:
        value = 1.0
        if tempo.trend is not None:
            trend = tempo.trend
            value *= trend.exponent * ((time + trend.age) / trend.reference) ** (trend.exponent - 1)
        if tempo.calendar is not None:
            calendar = tempo.calendar
            value *= calendar.factors[int(time % calendar.period / calendar.period * len(calendar.factors))]
        return value

    return m


@cases("name", TEMPOS)
def test_operational_time_is_the_integral_of_the_hazard(name: str) -> None:
    """M(t) is the integral of m, whatever the end up to which it was worked out."""
    tempo = Tempo.model_validate(TEMPOS[name])
    m = hazard(tempo)
    edges = np.arange(0, 8 * DAY + 1, 2 * 3600.0)
    pieces = [integrate.quad(m, low, high, limit=200)[0] for low, high in itertools.pairwise(edges.tolist())]
    expected = np.concatenate([[0.0], np.cumsum(pieces)])
    for end in (8 * DAY, 8.3 * DAY, 30 * DAY):
        clock = tempo.realise(end, 1, 0)
        assert [clock.elapsed(edge) for edge in edges] == pytest.approx(expected, rel=1e-5, abs=1e-3)
    assert tempo.realise(8 * DAY, 1, 0).total == pytest.approx(expected[-1], rel=1e-5)


@cases("name", [*TEMPOS, "swings"])
def test_moments_are_the_inverse_of_operational_time(name: str) -> None:
    """M^-1(M(t)) is t where m is above zero; beyond the last M there is no moment; one by one or all at once."""
    tempo = Tempo.model_validate(TEMPOS.get(name, {"swings": {"every": "5 h", "cv": 2}}))
    clock = tempo.realise(12 * DAY, 1, 0)
    elapsed = np.linspace(0, clock.total, 1001)[1:-1]
    moments = clock.moments(elapsed)
    assert (np.diff(moments) > 0).all()
    assert [clock.moment(each) for each in elapsed] == pytest.approx(moments, rel=1e-12)
    assert [clock.elapsed(time) for time in moments] == pytest.approx(elapsed, rel=1e-9)
    beyond = np.array([clock.total, 1.1 * clock.total])
    assert np.isinf(clock.moments(beyond)).all()
    assert [clock.moment(each) for each in beyond] == [math.inf, math.inf]


@cases("name", ["falling", "growing", "calendar"])
@cases("days", [1.0, 9.0, 27.0])
def test_mean_tempo(name: str, days: float) -> None:
    """The mean of m that plans rest on is M(T) / T, over whole periods."""
    tempo = Tempo.model_validate(TEMPOS[name])
    assert tempo.mean(days * DAY) == pytest.approx(tempo.realise(days * DAY, 1, 0).total / (days * DAY))


# ---------------------------------------------------------------------------------------------- lives with memory


@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_ageing_units_run_in_operational_time(renews: str) -> None:
    """Played by the engine, lives that renew at once count like a renewal process in operational time."""
    law = {"law": "weibull", "shape": 3, "mean": "20 d"}
    tempo = {"calendar": {"period": "10 d", "factors": [0.2, 1.8]}, "trend": {"exponent": 2, "reference": "20 d"}}
    source = source_of(tempo, law=law, renews=renews)
    source = replace(source, repair=Fixed.from_seconds(value=0.0))
    case = prepared(
        cluster={"nodes": 512, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon="30 d",
        jobs=[{"name": "job", "gpus": 1, "arrival": "30 d"}],
    )
    case = replace(case, sources=(source,))
    ours = np.array([sim.run(case, number).counts["failures"] for number in range(30)])
    at_once = replace(source, renews="at_failure")
    assert agree(ours, counts_of(at_once, 30 * DAY, 200))
    assert not agree(ours, counts_of(replace(at_once, tempo=None), 30 * DAY, 200)), "the tempo must matter"
