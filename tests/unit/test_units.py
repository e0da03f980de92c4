"""Quantities: what is read, what is refused and why, and that everything printed reads back exactly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick.sim.units import (
    BANDWIDTH,
    DURATION,
    ENERGY,
    FLOPS,
    FRACTION,
    POWER,
    SIZE,
    Dimension,
    Rate,
    UnitError,
    parse,
    parse_count,
    parse_rate,
    show,
    show_rate,
)
from tests.cases import cases

DAY = 86400.0

DIMENSIONS = [DURATION, SIZE, BANDWIDTH, FLOPS, POWER, ENERGY, FRACTION]


@cases(
    ("text", "dimension", "expected"),
    [
        ("30 min", DURATION, 1800.0),
        ("30min", DURATION, 1800.0),
        ("  1.5 h ", DURATION, 5400.0),
        ("1 hour", DURATION, 3600.0),
        ("2 weeks", DURATION, 14 * DAY),
        ("1 month", DURATION, 365.2425 * DAY / 12),
        ("1 year", DURATION, 365.2425 * DAY),
        ("1e3 s", DURATION, 1000.0),
        ("35 ms", DURATION, 0.035),
        ("3 us", DURATION, 3e-6),
        ("3 µs", DURATION, 3e-6),
        ("80 GB", SIZE, 80e9),
        ("80 GiB", SIZE, 80 * 2.0**30),
        ("1 TB", SIZE, 1e12),
        ("1 TiB", SIZE, 2.0**40),
        ("8 Gb", SIZE, 1e9),
        ("400 Gb/s", BANDWIDTH, 50e9),
        ("400Gbps", BANDWIDTH, 50e9),
        ("400 Gbit/s", BANDWIDTH, 50e9),
        ("50 GB/s", BANDWIDTH, 50e9),
        ("3.35 TB/s", BANDWIDTH, 3.35e12),
        ("989 TFLOP/s", FLOPS, 989e12),
        ("2.25 PFLOP/s", FLOPS, 2.25e15),
        ("700 W", POWER, 700.0),
        ("25 MW", POWER, 25e6),
        ("1 kWh", ENERGY, 3.6e6),
        ("12 MWh", ENERGY, 12 * 3.6e9),
        ("57 %", FRACTION, 0.57),
        ("57%", FRACTION, 0.57),
        ("0.57", FRACTION, 0.57),
        (0.57, FRACTION, 0.57),
        (1, FRACTION, 1.0),
    ],
    ids=lambda value: value.name if isinstance(value, Dimension) else repr(value)[:60],
)
def test_reads_units(text: object, dimension: Dimension, expected: float) -> None:
    """A quantity is its number times the SI factor of its unit; 57 % is the float 0.57, not 57 x 0.01."""
    assert parse(text, dimension) == expected


@cases(
    ("text", "expected"),
    [
        ("1h30m", 5400.0),
        ("1h30min", 5400.0),
        ("1 h 30 min", 5400.0),
        ("1d3m", DAY + 180.0),
        ("2 d 4 h", 2 * DAY + 4 * 3600.0),
        ("1 day 2 hours 3 minutes 4 seconds", DAY + 2 * 3600.0 + 184.0),
    ],
)
def test_sums_of_durations(text: str, expected: float) -> None:
    """Durations may be sums, in which m behind hours or days means minutes."""
    assert parse(text, DURATION) == expected


@cases("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_zero_needs_no_unit(dimension: Dimension) -> None:
    """The number 0 is the same in every unit; zero has no sign."""
    assert parse(0, dimension) == 0.0
    assert math.copysign(1.0, parse(-0.0, dimension)) == 1.0


@cases(
    ("value", "dimension", "message"),
    [
        ("30", DURATION, "'30' needs a unit (for example \"30 min\")"),
        (30, DURATION, "'30' needs a unit (for example \"30 min\")"),
        (0.5, SIZE, "'0.5' needs a unit (for example \"80 GB\")"),
        ("30 min", SIZE, "'min' is a unit of time, not of size"),
        ("400 Gb/s", SIZE, "'Gb/s' is a unit of bandwidth, not of size"),
        ("5 %", DURATION, "'%' is a unit of fraction, not of time"),
        ("30 mins", DURATION, "unknown unit 'mins'; did you mean 'min'?"),
        ("5 gb/s", BANDWIDTH, "unknown unit 'gb/s'; did you mean 'GB/s' or 'Gb/s'?"),
        ("5 KB", SIZE, "unknown unit 'KB'; did you mean 'kB' or 'kb'?"),
        ("30 m", DURATION, "'m' is ambiguous (minute or milli?); did you mean 'min'?"),
        ("1 year 3 m", DURATION, "'m' is ambiguous (minute or milli?); did you mean 'min'?"),
        ("30 min 1 h", DURATION, "the units of '30 min 1 h' must go from large to small"),
        ("1 h 1 h", DURATION, "the units of '1 h 1 h' must go from large to small"),
        ("1h30", DURATION, "'1h30' is not a sum of durations (for example \"1 h 30 min\")"),
        ("-3 s", DURATION, "must not be negative"),
        (-0.1, FRACTION, "must not be negative"),
        (15, FRACTION, "'15' is above 1; did you mean '15 %'?"),
        ("150 %", FRACTION, "'150 %' is above 1"),
        ("1e999 s", DURATION, "must be a finite number"),
        (math.nan, FRACTION, "must be a finite number"),
        (math.inf, FRACTION, "must be a finite number"),
        (10**400, FRACTION, "must be a finite number"),
        ("nan s", DURATION, "'nan s' is not a quantity (for example \"30 min\")"),
        ("inf s", DURATION, "'inf s' is not a quantity (for example \"30 min\")"),
        ("1_000 s", DURATION, "'1_000 s' is not a quantity (for example \"30 min\")"),
        ("1,000 s", DURATION, "'1,000 s' is not a quantity (for example \"30 min\")"),
        ("", DURATION, "'' is not a quantity (for example \"30 min\")"),
        ("٣ s", DURATION, "'٣ s' is not a quantity (for example \"30 min\")"),
        (True, FRACTION, 'must be text with a unit (for example "5 %"), not true or false'),
        (None, DURATION, 'must be text with a unit (for example "30 min"), not nothing'),
        (["1 h"], DURATION, 'must be text with a unit (for example "30 min"), not a list'),
        ({"h": 1}, DURATION, 'must be text with a unit (for example "30 min"), not a mapping'),
    ],
    ids=lambda value: value.name if isinstance(value, Dimension) else repr(value)[:60],
)
def test_refuses_quantities(value: object, dimension: Dimension, message: str) -> None:
    """What is no quantity of the dimension is refused with one readable rule."""
    with pytest.raises(UnitError) as caught:
        parse(value, dimension)
    assert str(caught.value) == message


@cases("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_tables_are_consistent(dimension: Dimension) -> None:
    """The example of each dimension parses, its printing units exist, and one unit is the SI base."""
    assert parse(dimension.example, dimension) > 0
    assert set(dimension.show_with) <= set(dimension.units)
    assert 1.0 in dimension.units.values()
    for unit, factor in dimension.units.items():
        assert parse(f"1 {unit}", dimension) == factor


@given(value=st.floats(min_value=0, allow_nan=False, allow_infinity=False))
@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_every_float_comes_back(dimension: Dimension, value: float) -> None:
    """For every float that a dimension admits, parse(show(x)) is exactly x."""
    value = min(value, dimension.maximum)
    assert parse(show(value, dimension), dimension) == value


@cases(
    ("value", "dimension", "text"),
    [
        (1800.0, DURATION, "30 min"),
        (54 * DAY, DURATION, "54 d"),
        (0.035, DURATION, "35 ms"),
        (0.0, DURATION, "0 d"),
        (80e9, SIZE, "80 GB"),
        (80 * 2.0**30, SIZE, "80 GiB"),
        (3.35e12, BANDWIDTH, "3.35 TB/s"),
        (989e12, FLOPS, "989 TFLOP/s"),
        (0.15, FRACTION, "15 %"),
        (1.0, FRACTION, "100 %"),
        (1 / 3, FRACTION, "0.3333333333333333"),
    ],
)
def test_prints_the_nicest_unit(value: float, dimension: Dimension, text: str) -> None:
    """A value is printed in the unit in which it is shortest without being below one."""
    assert show(value, dimension) == text


@cases("value", [-1.0, math.nan, math.inf])
def test_show_refuses_what_parse_refuses(value: float) -> None:
    """Nothing is printed that could not be read back."""
    with pytest.raises(UnitError):
        show(value, DURATION)
    with pytest.raises(UnitError):
        show_rate(Rate(value, "node"))
    with pytest.raises(UnitError):
        show(1.5, FRACTION)


@cases(
    ("value", "expected"),
    [
        (16384, 16384),
        ("16384", 16384),
        ("16 Mi", 16_777_216),
        ("16Mi", 16_777_216),
        ("16 k", 16_000),
        ("1.5 M", 1_500_000),
        ("0.1 k", 100),
        ("15.6 T", 15_600_000_000_000),
        (1e6, 1_000_000),
        ("1e6", 1_000_000),
        (0, 0),
    ],
    ids=repr,
)
def test_reads_counts(value: object, expected: int) -> None:
    """A count is a whole number, with an SI or IEC prefix or without."""
    count = parse_count(value)
    assert count == expected
    assert isinstance(count, int)


@cases(
    ("value", "message"),
    [
        (1.5, "'1.5' is not a whole number"),
        ("1.5", "'1.5' is not a whole number"),
        ("0.0001 k", "'0.0001 k' is not a whole number"),
        (-1, "must not be negative"),
        ("-1 k", "must not be negative"),
        ("16 K", "unknown prefix 'K'; did you mean 'k'?"),
        ("16 m", "unknown prefix 'm'; did you mean 'M'?"),
        ("many", "'many' is not a count (for example 16384 or \"16 Ki\")"),
        (True, 'must be a whole number (for example 16384 or "16 Ki"), not true or false'),
        (None, 'must be a whole number (for example 16384 or "16 Ki"), not nothing'),
        (math.nan, "must be a finite number below 2**63"),
        (math.inf, "must be a finite number below 2**63"),
        (2**63, "must be a finite number below 2**63"),
        ("1e999999999", "must be a finite number below 2**63"),
        ("-1e999999999 Ei", "must be a finite number below 2**63"),
    ],
    ids=lambda value: value.name if isinstance(value, Dimension) else repr(value)[:60],
)
def test_refuses_counts(value: object, message: str) -> None:
    """What is not a whole number of a size that an array index can hold is refused."""
    with pytest.raises(UnitError) as caught:
        parse_count(value)
    assert str(caught.value) == message


@cases(
    ("text", "per_second", "of"),
    [
        ("6.5 per 1000 node-days", 6.5 / (1000 * DAY), "node"),
        ("6.5 per 1000 node-days", 6.5 / (1000 * DAY), "node"),
        ("3 per 1000 node per day", 3 / (1000 * DAY), "node"),
        ("54 per 54 d", 1 / DAY, ""),
        ("419/54 d", 419 / (54 * DAY), ""),
        ("54 per job-day", 54 / DAY, "job"),
        ("2 per job per week", 2 / (7 * DAY), "job"),
        ("2 per week per job", 2 / (7 * DAY), "job"),
        ("6.5e-5 / gpu / h", 6.5e-5 / 3600, "gpu"),
        ("6.5e-5/gpu/h", 6.5e-5 / 3600, "gpu"),
        ("3 per year", 3 / (365.2425 * DAY), ""),
        ("100 FIT", 100 / (1e9 * 3600), ""),
        ("1 per 50000 gpu-h", 1 / (50000 * 3600), "gpu"),
        ("148 per 110592 node-day", 148 / (110592 * DAY), "node"),
        ("1 per scale_up-year", 1 / (365.2425 * DAY), "scale_up"),
        ("0 per d", 0.0, ""),
        (0, 0.0, ""),
    ],
    ids=lambda value: value.name if isinstance(value, Dimension) else repr(value)[:60],
)
def test_reads_rates(text: object, per_second: float, of: str) -> None:
    """A rate is events over exposure; exposure is a number of units (or none named) times a time."""
    rate = parse_rate(text)
    assert rate.per_second == pytest.approx(per_second, rel=1e-15)
    assert rate.of == of


@cases(
    "text",
    [
        *("", "5", "5 d", "5 per", "per d", "5 per gpu", "5 per GPU-h", "5 failures per d", "5 FIT per d"),
        *("5 per d per h", "5 per node-d per gpu", "5 per node per gpu per d"),
        *("5 per 0 d", "1 per 1e400 d", "nan per d", "inf per d"),
    ],
)
def test_refuses_rates(text: str) -> None:
    """A rate has one number, one time and at most one unit; the message shows how one looks."""
    with pytest.raises(UnitError) as caught:
        parse_rate(text)
    assert str(caught.value) == f'{text!r} is not a rate (for example "6.5 per 1000 node-days")'


@cases(
    ("value", "message"),
    [
        ("-1 per d", "must not be negative"),
        ("1e400 per d", "must be a finite number"),
        ("5 per 1e-310 ns", "must be a finite number"),
        ("5 per m", "'m' is ambiguous (minute or milli?); did you mean 'min'?"),
        ("5 per node-dais", "unknown unit 'dais'; did you mean 'days'?"),
        (5, 'must be a rate (for example "6.5 per 1000 node-days"), not the number 5'),
        (True, 'must be a rate (for example "6.5 per 1000 node-days"), not true or false'),
    ],
    ids=lambda value: value.name if isinstance(value, Dimension) else repr(value)[:60],
)
def test_refuses_rates_by_rule(value: object, message: str) -> None:
    """Numbers and units in rates keep the rules of other quantities."""
    with pytest.raises(UnitError) as caught:
        parse_rate(value)
    assert str(caught.value) == message


@given(
    per_second=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    of=st.sampled_from(["", "node", "gpu", "job", "link", "scale_up", "h"]),
)
def test_every_rate_comes_back(per_second: float, of: str) -> None:
    """parse_rate(show_rate(rate)) is exactly the rate."""
    assert parse_rate(show_rate(Rate(per_second, of))) == Rate(per_second, of)
