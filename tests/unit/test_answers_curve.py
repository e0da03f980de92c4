"""Where a curve crosses a level: exact on straight lines, and its interval covers as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.amounts import Form, form_of
from analysis.statistics.estimates import mean_interval
from analysis.study.questions.along import Curve
from tests.cases import cases

_TRIALS = 1000
_LEAST_COVERAGE = 0.95 - 3 * math.sqrt(0.95 * 0.05 / _TRIALS)


def test_a_straight_line_is_crossed_where_algebra_says() -> None:
    """``1 + 2 x = 4`` at 3/2; on a log scale ``1 + 2 ln x`` has 4 at e^(3/2)."""
    (crossing,) = Curve((0.0, 1.0, 2.0), (1.0, 3.0, 5.0), (None,) * 3).crossings(4.0)
    assert crossing.at == pytest.approx(1.5)
    assert (crossing.before, crossing.rises) == (1, True)
    places = (1.0, 2.0, 8.0)
    (crossing,) = Curve(places, tuple(1 + 2 * math.log(x) for x in places), (None,) * 3, is_log=True).crossings(4.0)
    assert crossing.at == pytest.approx(math.exp(1.5))


@cases("sign", [1.0, -1.0])
def test_the_interval_is_where_the_band_around_the_line_has_the_level(sign: float) -> None:
    """A band of half-width h around a slope b moves a crossing by h / b to either side, whichever way it runs."""
    places = (0.0, 1.0, 2.0, 3.0)
    means = tuple(sign * 2 * x for x in places)
    curve = Curve(places, means, tuple((mean - 0.5, mean + 0.5) for mean in means))
    (crossing,) = curve.crossings(sign * 2.6)
    assert (crossing.low, crossing.at, crossing.high) == pytest.approx((1.05, 1.3, 1.55))
    assert crossing.rises == (sign > 0)


def test_an_end_beyond_the_range_is_not_made_up() -> None:
    """Where the band still has the level in it at the last value, nobody knows how far the interval goes."""
    (crossing,) = Curve((0.0, 1.0), (0.0, 1.0), ((-0.6, 0.6), (0.4, 1.6))).crossings(0.5)
    assert (crossing.low, crossing.high) == (None, None)
    (crossing,) = Curve((0.0, 1.0), (0.0, 1.0), ((-0.2, 0.2), (0.4, 1.6))).crossings(0.5)
    assert crossing.low == pytest.approx(0.3 / 1.4)
    assert crossing.high is None


def test_every_crossing_of_a_hill_is_found() -> None:
    """A curve that goes up and down passes a level twice; one that stays on a side never does."""
    hill = Curve((0.0, 1.0, 2.0), (0.0, 2.0, 0.0), (None,) * 3)
    assert [(crossing.at, crossing.rises) for crossing in hill.crossings(1.0)] == [(0.5, True), (1.5, False)]
    assert hill.crossings(3.0) == hill.crossings(-1.0) == []


def test_the_interval_of_a_crossing_covers_it_at_95_percent() -> None:
    """Of a line measured with ten normal replications at each of five values, whether they are common or not."""
    rng = np.random.default_rng(11)
    places = np.arange(5.0)
    for common in (0.0, 0.4):
        covered = 0
        for _ in range(_TRIALS):
            noise = common * rng.normal(size=10) + 0.4 * rng.normal(size=(5, 10))
            rows = places[:, None] + noise
            curve = Curve(tuple(places), tuple(rows.mean(axis=1)), tuple(mean_interval(row) for row in rows))
            crossing = curve.crossings(2.3)[0]
            low = -math.inf if crossing.low is None else crossing.low
            high = math.inf if crossing.high is None else crossing.high
            covered += low <= 2.3 <= high
        assert covered / _TRIALS >= _LEAST_COVERAGE
        assert covered < _TRIALS  # an interval that is never wrong says nothing


@cases("half", [0.0031, 0.0099, 0.011, 0.029, 0.03, 0.4, 7.0, 123.0, 2900.0])
def test_what_is_told_of_an_interval_is_off_by_a_sixth_of_its_half_width_at_most(half: float) -> None:
    """Digits go as far as the interval deserves: rounding moves no end by more, and adds less than two digits."""
    form = Form("")
    for middle in np.random.default_rng(3).uniform(0, 1000 * half, 50).tolist():
        text = form.value(middle, (middle - half, middle + half)).replace(" to ", "] [").replace(", ", "] [")
        told = [float(part.strip("[] ").replace(",", "")) for part in text.split(" [")]
        assert all(
            abs(number - truth) <= half / 6 * (1 + 1e-9)
            for number, truth in zip(told, (middle, middle - half, middle + half), strict=True)
        )
        place = 10 ** math.floor(math.log10(half) - 1)
        assert all(abs(number / place - round(number / place)) < 1e-6 for number in told)


@cases(
    ("metric", "value", "interval", "text"),
    [
        ("p_finish_by", 0.96, (0.90, 0.99), "96 % [90, 99]"),
        ("ettr", 0.9421, (0.9398, 0.9444), "94.21 % [93.98, 94.44]"),
        ("ettr", 0.999, (0.97, 1.028), "99.9 % [97.0, 100.0]"),
        ("time_to_work", 2.6e6, (2.5e6, 2.7e6), "30.1 d [28.9, 31.2]"),
        ("mtti", 10500.0, (9000.0, 12000.0), "2.9 h [2.5, 3.3]"),
        ("tokens_per_day", 1.234e12, (1.2e12, 1.27e12), "1.23 T [1.20, 1.27]"),
        ("cost_per_token", 1.234e-6, (1.1e-6, 1.4e-6), "1.23 USD [1.10, 1.40]"),
        ("cost", 12.3e6, None, "12.3 M USD"),
        ("energy", 7.2e12, None, "2.00 GWh"),
        ("interruptions", 419.0, (411.0, 427.0), "419 [411, 427]"),
        ("time_shares.lost_work", 0.0123, None, "1.23 %"),
    ],
)
def test_numbers_have_units_for_people(
    metric: str, value: float, interval: tuple[float, float] | None, text: str
) -> None:
    """Shares in percent and never above 100, times in days or hours, amounts with a prefix, money per million."""
    assert form_of(metric, [value], "USD").value(value, interval) == text


def test_differences_of_shares_are_points() -> None:
    """A change of a share is told in points, with its sign; its size without."""
    form = form_of("ettr", [0.9])
    assert form.change(0.012, (0.004, 0.020)) == "+1.2 points [0.4, 2.0]"
    assert form.change(-0.012, (-0.020, -0.004)) == "-1.2 points [-2.0, -0.4]"
    assert form.distance(-0.012, (-0.020, -0.004)) == "1.2 points [0.4, 2.0]"
