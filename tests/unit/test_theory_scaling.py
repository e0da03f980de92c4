"""Interruptions and goodput against the number of GPUs: published points, limits, searches and signs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import lambertw

from sim.theory import efficiency, optimal_interval
from sim.theory.interruptions import Domain, PowerLaw, interruption_rate
from sim.theory.scaling import best_size, elasticity, peak_size, useful_gpus

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

# ------------------------------------------------------------------------------------------------------- published


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_mean_times_to_failure_of_a_research_cluster(gpus: int, hours: float) -> None:
    """6.50 failures per 1,000 node-days are one in 1.8 h on 16,384 GPUs and in 0.23 h on 131,072 (arXiv 2410.21680)."""
    assert 1 / interruption_rate(gpus, 6.50e-3 / DAY) / HOUR == pytest.approx(hours, rel=0.025)


@pytest.mark.parametrize(("interruptions", "hours"), [(419, 3.09), (466, 2.78)])
def test_mean_times_between_interruptions_of_llama_3(interruptions: int, hours: float) -> None:
    """419 unexpected and 466 interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783), through the rate of a node."""
    node_rate = interruptions / (16_384 / 8) / (54 * DAY)
    assert 1 / interruption_rate(16_384, node_rate) / HOUR == pytest.approx(hours, abs=0.005)


def test_a_hundred_thousand_gpus_fail_more_often_than_in_proportion() -> None:
    """2.3 failures per 1,000 nodes a day are one in 50 min on 98 to 100 thousand GPUs; 18 min were seen: exponent 1.9.

    arXiv 2602.00277; the exponent, from 32 thousand GPUs on, is derived.
    """
    linear = PowerLaw(32e3, float(interruption_rate(32_000, 2.3e-3 / DAY)))
    assert 1 / linear(100_000) / MINUTE == pytest.approx(50, rel=0.01)
    seen = PowerLaw.through((32e3, float(linear(32e3))), (98e3, float(linear(98e3)) * 50 / 18))
    assert seen.exponent == pytest.approx(1 + math.log(50 / 18) / math.log(98 / 32), rel=1e-12)
    assert seen.exponent == pytest.approx(1.9, abs=0.02)


def test_starts_of_collectives_grow_as_the_power_that_was_measured() -> None:
    """17 s at 16 and 200 s at 98 thousand GPUs: the 1.36th power, which gives 26 and 112 s at 22 and 64 thousand."""
    law = PowerLaw.through((16e3, 17.0), (98e3, 200.0))
    assert law.exponent == pytest.approx(1.36, abs=0.005)
    assert law([22e3, 64e3]) == pytest.approx([26, 112], abs=0.6)


# ----------------------------------------------------------------------------------------------------------- rates


def test_domains_are_counted_whole() -> None:
    """73 GPUs touch ten nodes and two racks of 72; what does not grow is added once."""
    domains = (Domain(72, 1e-6), Domain(1024, 5e-6))
    found = interruption_rate([72, 73, 1024, 1025], 1e-7, domains=domains, job_rate=1e-8)
    by_hand = [9e-7 + 1e-6 + 5e-6, 10e-7 + 2e-6 + 5e-6, 128e-7 + 15e-6 + 5e-6, 129e-7 + 15e-6 + 10e-6]
    assert found == pytest.approx(np.array(by_hand) + 1e-8, rel=1e-12)
    assert interruption_rate(8, 1e-7, gpus_per_node=4) == pytest.approx(2e-7)


def test_with_many_domains_the_rate_is_proportional_and_with_none_constant() -> None:
    """Large jobs see r/n + sum r_d/m_d a GPU; a job that only fails as a whole has one rate."""
    domains = (Domain(72, 1e-6),)
    large = interruption_rate(72e6, 1e-7, domains=domains)
    assert large / 72e6 == pytest.approx(1e-7 / 8 + 1e-6 / 72, rel=1e-9)
    assert np.all(np.asarray(interruption_rate([8, 8e6], 0.0, job_rate=3e-5)) == 3e-5)


def test_a_power_law_passes_through_its_points() -> None:
    """Both points are on it, and the order in which they are named does not matter."""
    one, other = PowerLaw.through((100, 3.0), (900, 12.0)), PowerLaw.through((900, 12.0), (100, 3.0))
    for law in (one, other):
        assert law([100, 900, 300]) == pytest.approx([3, 12, 6], rel=1e-12)
    assert PowerLaw(10, 5.0, 0.0)(1e6) == 5.0


# ----------------------------------------------------------------------------------------------------------- peaks

RATE = PowerLaw(16_384, 1 / (3.1 * HOUR))


def test_useful_gpus_are_gpus_times_efficiency() -> None:
    """At a given interval, at the best one, and with a pace that is not proportional."""
    sizes = np.array([1e3, 1e4, 1e5])
    mtti = 1 / RATE(sizes)
    given = useful_gpus(sizes, RATE, 5.0, interval=600.0, restart=200.0, downtime=60.0, drain=30.0)
    assert given == pytest.approx(sizes * efficiency(600.0, 5.0, mtti, 200.0, 60.0, 30.0), rel=1e-12)
    best = useful_gpus(sizes, RATE, 5.0, restart=RATE)
    assert best == pytest.approx(sizes * efficiency(optimal_interval(5.0, mtti), 5.0, mtti, RATE(sizes)), rel=1e-12)
    assert np.all(np.asarray(best) >= np.asarray(useful_gpus(sizes, RATE, 5.0, interval=600.0, restart=RATE)))
    paced = useful_gpus(sizes, RATE, 5.0, interval=600.0, pace=lambda gpus: gpus**0.8)
    assert paced == pytest.approx(sizes**0.8 * efficiency(600.0, 5.0, mtti, 0.0), rel=1e-12)
    assert useful_gpus(1e4, PowerLaw(1, 0.0), 5.0) == pytest.approx(1e4, rel=1e-6), "nothing fails"
    assert useful_gpus(1e4, RATE, 0.0) == pytest.approx(1e4, rel=1e-6), "saves are free"


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.9])
def test_the_peak_without_restarts_is_lamberts(exponent: float) -> None:
    """At a fixed interval y = k + W0(-k exp(-k)), k = 1 + 1/x; for x = 1 the MTTI is the period over 1.594."""
    k = 1 + 1 / exponent
    y = float(np.real(k + lambertw(-k * math.exp(-k))))
    law = replace(RATE, exponent=exponent)
    peak = peak_size(law, 20.0, interval=600.0)
    assert law(peak) * 620.0 == pytest.approx(y, rel=1e-9)
    if exponent == 1.0:
        assert y == pytest.approx(1.594, abs=5e-4)


@pytest.mark.parametrize("interval", [None, 600.0])
@pytest.mark.parametrize("exponents", [(1.0, 0.0), (1.9, 0.0), (1.0, 1.36), (1.9, 1.36)])
def test_the_root_is_the_peak_of_the_search(interval: float | None, exponents: tuple[float, float]) -> None:
    """The equation and a search over sizes find one peak, where the elasticity is zero and changes its sign."""
    law, restart = replace(RATE, exponent=exponents[0]), PowerLaw(16e3, 200.0, exponents[1])
    times: dict[str, Any] = {"interval": interval, "restart": restart, "downtime": 60.0, "drain": 20.0}

    def useful(gpus: Any) -> Any:
        return useful_gpus(gpus, law, 5.0, **times)

    peak = peak_size(law, 5.0, **times)
    assert best_size(useful, 1e3, 1e8) == pytest.approx(peak, rel=1e-4)
    assert elasticity(useful, peak) == pytest.approx(0, abs=1e-4)
    assert elasticity(useful, 0.8 * peak) > 0.02 > -0.02 > elasticity(useful, 1.25 * peak)
    assert useful(np.array([0.9, 1.1]) * peak) == pytest.approx(useful(peak), rel=0.05)
    assert np.all(useful(np.array([0.9, 1.1]) * peak) < useful(peak))


def test_at_the_best_interval_restarts_and_saves_take_one_at_the_peak() -> None:
    """The terms ``lambda u + b / tau`` are 1/x: a restart is as long as the MTTI if saves are free."""
    free = peak_size(RATE, 0.0, restart=400.0)
    assert RATE(free) * 400.0 == pytest.approx(1.0, rel=1e-9)
    steep = replace(RATE, exponent=2.0)
    peak = peak_size(steep, 5.0, restart=400.0)
    between = float(1 / steep(peak))
    assert 400.0 / between + 5.0 / optimal_interval(5.0, between) == pytest.approx(0.5, rel=1e-9)


def test_where_failures_cost_too_little_there_is_no_peak() -> None:
    """Free saves and no restart: more GPUs always help; with a downtime only, if rates do not grow faster than GPUs."""
    assert peak_size(RATE, 0.0) == math.inf
    assert peak_size(RATE, 0.0, downtime=60.0) == math.inf
    assert peak_size(replace(RATE, exponent=2.0), 0.0, downtime=60.0) < 1e6


@pytest.mark.parametrize(("value", "wanted"), [(1e-8, math.inf), (10.0, 0.0)])
def test_peaks_that_are_too_far_away_are_not_looked_for(value: float, wanted: float) -> None:
    """A rate that grows as N^0.01 changes by e^2 within e^200 of its size: the peak, at y = 101, is outside."""
    law = PowerLaw(1024, value, 0.01)
    ends = [law.value * math.exp(side * 2.0) * 620.0 for side in (-1, 1)]
    assert all((y < 101) == (wanted == math.inf) for y in ends)
    assert peak_size(law, 20.0, interval=600.0) == wanted
    near = replace(law, value=0.1)
    assert 0 < peak_size(near, 20.0, interval=600.0) < math.inf


def test_everything_that_failures_cost_brings_the_peak_forward() -> None:
    """Longer restarts, detection, drains, saves and steeper laws: fewer GPUs are too many."""
    base: dict[str, Any] = {"restart": 200.0, "downtime": 60.0, "drain": 20.0}
    best = peak_size(RATE, 5.0, **base)
    for name, value in base.items():
        assert peak_size(RATE, 5.0, **(base | {name: 2 * value})) < best, name
    assert peak_size(RATE, 10.0, **base) < best
    assert peak_size(RATE, 5.0, interval=60.0, **base) < best, "the best interval is the best"
    assert peak_size(replace(RATE, exponent=1.5), 5.0, **base) < best
    assert peak_size(RATE, 5.0, **(base | {"restart": PowerLaw(16_384, 200.0, 1.36)})) < best
    assert peak_size(replace(RATE, value=2 * RATE.value), 5.0, **base) == pytest.approx(best / 2, rel=1e-9)


def test_a_strong_scaling_pace_peaks_earlier() -> None:
    """With tokens a second that saturate, the elasticities of pace and efficiency add up, and turn sooner."""
    pace = lambda gpus: gpus / (1 + gpus / 50e3)  # noqa: E731

    def useful(gpus: Any) -> Any:
        return useful_gpus(gpus, RATE, 5.0, restart=200.0, pace=pace)

    peak = best_size(useful, 1e3, 1e8)
    assert peak < peak_size(RATE, 5.0, restart=200.0)
    alone = elasticity(lambda gpus: useful_gpus(gpus, RATE, 5.0, restart=200.0), peak)
    assert alone - 1 + elasticity(pace, peak) == pytest.approx(0, abs=1e-4)
    assert elasticity(pace, 50e3) == pytest.approx(0.5, rel=1e-6)


def test_a_staircase_peaks_at_an_edge() -> None:
    """Where racks fail, the best sizes fill them; the search is within half a per cent of the best of all."""

    def useful(gpus: Any) -> Any:
        rate = lambda size: np.asarray(interruption_rate(size, 1e-9, domains=(Domain(72, 3e-5),)))  # noqa: E731
        return useful_gpus(gpus, rate, 1.0, interval=60.0, restart=600.0)

    best = best_size(useful, 10, 1e5)
    assert best % 72 > 71 or best % 72 < 1e-6
    assert useful(best) > max(useful(72 * racks) for racks in range(1, 80)) * (1 - 5e-3)


def test_the_ends_are_the_answer_where_the_function_only_rises_or_falls() -> None:
    """A search looks nowhere else."""
    assert best_size(lambda gpus: gpus, 10, 1000) == pytest.approx(1000)
    assert best_size(lambda gpus: 1 / gpus, 10, 1000) == pytest.approx(10)


def test_peaks_scale_with_the_size_at_which_laws_are_known() -> None:
    """Laws stated at another size are the same laws."""
    for exponent, again in itertools.product((1.0, 1.9), (1e3, 1e5)):
        law, restart = replace(RATE, exponent=exponent), PowerLaw(16_384, 200.0, 1.36)
        moved = PowerLaw(again, float(law(again)), exponent)
        other = PowerLaw(again, float(restart(again)), 1.36)
        assert peak_size(moved, 5.0, restart=other) == pytest.approx(peak_size(law, 5.0, restart=restart), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: interruption_rate(0, 1e-6), "gpus must be positive"),
        (lambda: interruption_rate(8, -1e-6), "node_rate must be finite and not negative"),
        (lambda: interruption_rate(8, 1e-6, domains=(Domain(0, 1.0),)), "gpus of a domain must be positive"),
        (lambda: PowerLaw.through((8, 1.0), (8, 2.0)), "two sizes are needed"),
        (lambda: PowerLaw.through((8, 0.0), (9, 2.0)), "value must be positive"),
        (lambda: peak_size(PowerLaw(8, 1.0, -1.0), 1.0), "rate must be positive and grow"),
        (lambda: peak_size(RATE, 1.0, restart=PowerLaw(8, 1.0, -1.0)), "restart must not fall"),
        (lambda: peak_size(RATE, -1.0), "write must be finite"),
        (lambda: best_size(lambda gpus: gpus, 10, 10), "smallest must be below largest"),
    ],
    ids=["size", "rate", "domain", "one size", "no value", "falling", "faster", "write", "no room"],
)
def test_what_makes_no_sense_is_refused(call: Any, words: str) -> None:
    """Sizes and rates that cannot be are refused by name."""
    with pytest.raises(ValueError, match=words):
        call()
