"""Quantities as people write them, and as the model uses them.

Text with a unit (``"30 min"``, ``"400 Gb/s"``) becomes an SI float and back. One table a dimension, read by `parse` and
by `show`, so that ``parse(show(x)) == x`` for every float.

Conventions: ``b`` is a bit and ``B`` a byte; ``TB`` is 1e12 bytes and ``TiB`` 2**40; case matters. Months and
years are calendar means (a year is 365.2425 days).
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class UnitError(ValueError):
    """A quantity that cannot be read; the message is one rule, without the place where it was written."""


@dataclass(frozen=True)
class Dimension:
    """A physical dimension: its units with their SI factors, and how to print it.

    Parameters
    ----------
    name : str
        What it is called in messages.
    units : Mapping[str, float]
        Symbol or word to SI factor; the empty symbol means that a bare number is accepted.
    example : str
        A quantity to show to somebody who wrote a wrong one.
    show_with : tuple of str
        Units to print with; the earlier one wins where two are equally short.
    maximum : float
        Largest value, in SI [the dimension's own unit].
    """

    name: str
    units: Mapping[str, float]
    example: str
    show_with: tuple[str, ...]
    maximum: float = math.inf


_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}

_IEC = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}

PREFIXES = MappingProxyType(_SI | _IEC)

_TIMES = {
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
    "month": 2629746.0,
    "year": 31556952.0,
}


def _prefixed(symbols: Mapping[str, float], prefixes: Mapping[str, float]) -> Mapping[str, float]:
    """Return every prefix in front of every symbol."""
    return MappingProxyType(
        {prefix + symbol: scale * size for symbol, size in symbols.items() for prefix, scale in prefixes.items()}
    )


DURATION = Dimension(
    name="time",
    units=MappingProxyType(
        {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
        | _TIMES
        | {word + "s": seconds for word, seconds in _TIMES.items()}
    ),
    example="30 min",
    show_with=("d", "h", "min", "s", "ms", "us", "ns"),
)

MINUTE, HOUR, DAY, YEAR = (DURATION.units[name] for name in ("min", "h", "d", "year"))

"""Times [s]."""

SIZE = Dimension(
    name="size",
    units=_prefixed({"B": 1.0, "b": 0.125, "bit": 0.125}, PREFIXES),
    example="80 GB",
    show_with=("PB", "TB", "GB", "MB", "kB", "B", "PiB", "TiB", "GiB", "MiB", "KiB"),
)

BANDWIDTH = Dimension(
    name="bandwidth",
    units=_prefixed({"B/s": 1.0, "Bps": 1.0, "b/s": 0.125, "bps": 0.125, "bit/s": 0.125}, PREFIXES),
    example="400 Gb/s",
    show_with=("PB/s", "TB/s", "GB/s", "MB/s", "kB/s", "B/s", "GiB/s", "MiB/s", "KiB/s"),
)

FLOPS = Dimension(
    name="compute rate",
    units=_prefixed({"FLOP/s": 1.0, "FLOPS": 1.0}, _SI | {"Z": 1e21}),
    example="989 TFLOP/s",
    show_with=("EFLOP/s", "PFLOP/s", "TFLOP/s", "GFLOP/s", "MFLOP/s", "FLOP/s"),
)

POWER = Dimension(
    name="power",
    units=MappingProxyType({"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9}),
    example="700 W",
    show_with=("GW", "MW", "kW", "W"),
)

ENERGY = Dimension(
    name="energy",
    units=MappingProxyType(
        {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9, "Wh": 3.6e3, "kWh": 3.6e6, "MWh": 3.6e9, "GWh": 3.6e12}
    ),
    example="12 MWh",
    show_with=("GWh", "MWh", "kWh", "Wh", "J"),
)

FRACTION = Dimension(
    name="fraction", units=MappingProxyType({"": 1.0, "%": 0.01}), example="5 %", show_with=("%",), maximum=1.0
)

DIMENSIONS = (DURATION, SIZE, BANDWIDTH, FLOPS, POWER, ENERGY, FRACTION)

NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"

QUANTITY = re.compile(rf"([+-]?{NUMBER})\s*(.*)", re.DOTALL)

_TERM = re.compile(rf"({NUMBER})\s*([A-Za-zµ]+)\s*")


def parse(value: object, dimension: Dimension) -> float:
    """Return a quantity in SI units.

    Parameters
    ----------
    value : object
        Text such as ``"30 min"``; for fractions also a bare number. The number 0 needs no unit.
    dimension : Dimension
        What the quantity must be.

    Returns
    -------
    float
        The value [SI unit of the dimension].

    Raises
    ------
    UnitError
        If the value is no quantity of this dimension, negative, not finite or above the dimension's maximum.
    """
    if isinstance(value, str):
        result = _parse_text(value, dimension)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        result = checked(value)
        if value != 0 and "" not in dimension.units:
            raise UnitError(_needs_unit(value, dimension))
    else:
        raise UnitError(wrong_type(value, f'text with a unit (for example "{dimension.example}")'))
    if result > dimension.maximum:
        offer = f"; did you mean '{value} %'?" if result <= 100 and "%" not in str(value) else ""
        raise UnitError(f"'{value}' is above {_plain(dimension.maximum)}{offer}")
    return result


def show(value: float, dimension: Dimension) -> str:
    """Return the shortest text that `parse` reads back as exactly `value`.

    Parameters
    ----------
    value : float
        Finite, not negative [SI unit of the dimension].
    dimension : Dimension
        What the value is.

    Returns
    -------
    str
        Number and unit.

    Raises
    ------
    UnitError
        If `parse` would refuse the value.
    """
    value = checked(value)
    if value > dimension.maximum:
        raise UnitError(f"'{value}' is above {_plain(dimension.maximum)}")
    texts = []
    for unit in dimension.show_with:
        number = shortest(value, dimension.units[unit])
        if number:
            texts.append((float(number) < 1, len(number), f"{number} {unit}"))
    if texts:
        return min(texts, key=lambda text: text[:2])[2]
    base = next(unit for unit, factor in dimension.units.items() if factor == 1)
    return f"{_plain(value)} {base}".strip()


def _parse_text(text: str, dimension: Dimension) -> float:
    """Return the SI value of a number with a unit, or of a sum of durations."""
    match = QUANTITY.fullmatch(text.strip())
    if match is None or (match[2] and not (match[2][0].isalpha() or match[2][0] == "%")):
        raise UnitError(f'{text!r} is not a quantity (for example "{dimension.example}")')
    number, unit = match.groups()
    factor = dimension.units.get(unit)
    if factor is not None:
        return checked(_scaled(float(number), factor))
    if not unit:
        raise UnitError(_needs_unit(text, dimension))
    if dimension is DURATION and any(character.isdigit() for character in unit):
        return checked(_sum(text))
    raise UnitError(unknown_unit(unit, dimension))


def _sum(text: str) -> float:
    """Return the seconds of a sum such as ``1h30m``, from large units to small ones."""
    total, previous, position, stripped = 0.0, math.inf, 0, text.strip()
    while position < len(stripped):
        term = _TERM.match(stripped, position)
        if term is None:
            raise UnitError(f'{text!r} is not a sum of durations (for example "1 h 30 min")')
        unit = term[2]
        if unit == "m" and previous in (3600.0, 86400.0):
            unit = "min"  # after hours or days it means nothing else
        factor = DURATION.units.get(unit)
        if factor is None:
            raise UnitError(unknown_unit(unit, DURATION))
        if factor >= previous:
            raise UnitError(f"the units of {text!r} must go from large to small")
        total += _scaled(float(term[1]), factor)
        previous, position = factor, term.end()
    return total


def _scaled(number: float, factor: float) -> float:
    """Return number x factor; divides by the reciprocal of small factors, because 57 x 0.01 is not 0.57."""
    return number * factor if factor >= 1 else number / round(1 / factor)


def shortest(value: float, factor: float) -> str:
    """Return the fewest digits that, scaled by `factor`, are exactly `value`; empty if there are none."""
    number = value / factor
    for text in (f"{number:.12g}", f"{number:.15g}", f"{number:.16g}", _plain(number)):
        if math.isfinite(float(text)) and _scaled(float(text), factor) == value:
            return text
    return ""


def _plain(number: float) -> str:
    """Return all digits of a number, without a trailing ``.0``."""
    return repr(number).removesuffix(".0")


def checked(value: float) -> float:
    """Return a finite value that is not negative, as a float without a sign on zero."""
    if not -sys.float_info.max <= value <= sys.float_info.max:
        raise UnitError("must be a finite number")
    if value < 0:
        raise UnitError("must not be negative")
    return float(value) + 0.0


def _needs_unit(value: object, dimension: Dimension) -> str:
    return f"'{value}' needs a unit (for example \"{dimension.example}\")"


def wrong_type(value: object, wanted: str) -> str:
    """Return why a value of another type is refused."""
    names = {bool: "true or false", type(None): "nothing", list: "a list", dict: "a mapping"}
    return f"must be {wanted}, not {names.get(type(value), f'the number {value}')}"


def unknown_unit(unit: str, dimension: Dimension) -> str:
    """Return why `unit` is no unit of `dimension`, with the nearest one."""
    if unit == "m":
        return "'m' is ambiguous (minute or milli?); did you mean 'min'?"
    for actual in DIMENSIONS:
        if unit in actual.units:
            return f"'{unit}' is a unit of {actual.name}, not of {dimension.name}"
    return f"unknown unit {unit!r}{did_you_mean(unit, dimension.units)}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return an offer of the names that differ from `word` by case, else of the nearest one."""
    names = [name for name in choices if name]
    near = [name for name in names if name.lower() == word.lower()] or difflib.get_close_matches(word, names, 1)
    if near:
        return f"; did you mean {' or '.join(repr(name) for name in near)}?"
    return f"; choose from {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


# Rates of events and counts of things, as people write them and as the model uses them.
#
# Text such as ``"6.5 per 1000 node-days"`` or ``"16 Mi"`` becomes a number and back; ``parse_rate(show_rate(x)) == x``
# for every rate.


class Rate(NamedTuple):
    """Events per second of exposure of one unit.

    Attributes
    ----------
    per_second : float
        Rate [1/s].
    of : str
        The unit that is exposed (``"node"``, ``"gpu"``, ``"job"``); empty if the text names none.
    """

    per_second: float
    of: str


_COUNT_PREFIXES = {prefix: int(scale) for prefix, scale in PREFIXES.items()}

_LARGEST_COUNT = 2**63 - 1

_FIT = 1e9 * 3600.0  # one failure per 1e9 device hours

_PER = re.compile(r"\s*/\s*|\s+per\s+")

_EXPOSURE = re.compile(rf"({NUMBER})?\s*(?:([a-z_]+)-)?([A-Za-zµ_]+)")


def parse_count(value: object) -> int:
    """Return a whole number; text may carry an SI or IEC prefix (``"16 Mi"`` is 16,777,216).

    Raises
    ------
    sim.units.UnitError
        If the value is not whole, negative, or no number.
    """
    if isinstance(value, str):
        match = QUANTITY.fullmatch(value.strip())
        if match is None:
            raise UnitError(f'{value!r} is not a count (for example 16384 or "16 Ki")')
        scale = _COUNT_PREFIXES.get(match[2])
        if scale is None:
            raise UnitError(f"unknown prefix {match[2]!r}{did_you_mean(match[2], _COUNT_PREFIXES)}")
        # Decimal keeps "0.1 k" whole; the limit stops "1e999999999" from filling the memory.
        number = Decimal(match[1]) * scale if abs(float(match[1])) < _LARGEST_COUNT else Decimal("Infinity")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(value)
    else:
        raise UnitError(wrong_type(value, 'a whole number (for example 16384 or "16 Ki")'))
    if not number.is_finite() or number > _LARGEST_COUNT:
        raise UnitError("must be a finite number below 2**63")
    if number < 0:
        raise UnitError("must not be negative")
    if number != number.to_integral_value():
        raise UnitError(f"'{value}' is not a whole number")
    return int(number)


def parse_rate(value: object) -> Rate:
    """Return a rate of events.

    Accepted are ``"6.5 per 1000 node-days"``, ``"2 per job per week"``, ``"6.5e-5 / gpu / h"``, ``"54 per 54 d"``
    and ``"100 FIT"`` (failures in 1e9 device hours).

    Raises
    ------
    sim.units.UnitError
        If the text is no rate, or the number is negative or not finite.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value == 0:
        return Rate(0.0, "")
    if not isinstance(value, str):
        raise UnitError(wrong_type(value, 'a rate (for example "6.5 per 1000 node-days")'))
    first, *exposures = _PER.split(value.strip())
    match = QUANTITY.fullmatch(first)
    if match is None or match[2] not in ("", "FIT") or (match[2] == "FIT") == bool(exposures):
        raise UnitError(_no_rate(value))
    number = checked(float(match[1]))
    if not exposures:
        return Rate(number / _FIT, "")
    seconds, of = _exposure(exposures, value)
    return Rate(checked(number / seconds), of)


def show_rate(rate: Rate) -> str:
    """Return the shortest text that `parse_rate` reads back as exactly `rate`."""
    per_second = checked(rate.per_second)
    texts = []
    for unit, exposure in (("day", 1), ("day", 1000), ("week", 1), ("year", 1), ("hour", 1), ("second", 1)):
        number = shortest(per_second, 1 / (exposure * DURATION.units[unit]))
        if number:
            per, times = (f"{exposure} ", f"{unit}s") if exposure > 1 else ("", unit)
            text = f"{number} per {per}{rate.of}{'-' if rate.of else ''}{times}"
            texts.append((0 < float(number) < 1e-3, len(number), text))
    return min(texts, key=lambda text: text[:2])[2]  # never empty: per second is always exact


def _exposure(exposures: Iterable[str], text: str) -> tuple[float, str]:
    """Return the exposure in unit-seconds and the exposed unit of the parts behind each "per"."""
    amount, time, of = 1.0, 0.0, ""
    for part in exposures:
        match = _EXPOSURE.fullmatch(part)
        if match is None:
            raise UnitError(_no_rate(text))
        number, unit, word = match.groups()
        amount *= float(number or 1)
        if word in DURATION.units or word == "m" or unit:
            if time:
                raise UnitError(_no_rate(text))
            if word not in DURATION.units:
                raise UnitError(unknown_unit(word, DURATION))
            time = DURATION.units[word]
        else:
            unit = word
        if unit:
            if of or not re.fullmatch("[a-z_]+", unit):
                raise UnitError(_no_rate(text))
            of = unit
    if not time or not 0 < amount < math.inf:
        raise UnitError(_no_rate(text))
    return amount * time, of


def _no_rate(text: str) -> str:
    return f'{text!r} is not a rate (for example "6.5 per 1000 node-days")'
