"""Rates of events and counts of things, as people write them and as the model uses them.

Text such as ``"6.5 per 1000 node-day"`` or ``"16 Mi"`` becomes a number and back; ``parse_rate(show_rate(x)) == x``
for every rate.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from sim import units

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Rate", "parse_count", "parse_rate", "show_rate"]


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


_COUNT_PREFIXES = {prefix: int(scale) for prefix, scale in units.PREFIXES.items()}
_LARGEST_COUNT = 2**63 - 1
_FIT = 1e9 * 3600.0  # one failure per 1e9 device hours
_PER = re.compile(r"\s*/\s*|\s+per\s+")
_EXPOSURE = re.compile(rf"({units.NUMBER})?\s*(?:([a-z_]+)-)?([A-Za-zµ_]+)")


def parse_count(value: object) -> int:
    """Return a whole number; text may carry an SI or IEC prefix (``"16 Mi"`` is 16,777,216).

    Raises
    ------
    sim.units.UnitError
        If the value is not whole, negative, or no number.
    """
    if isinstance(value, str):
        match = units.QUANTITY.fullmatch(value.strip())
        if match is None:
            message = f'{value!r} is not a count (for example 16384 or "16 Ki")'
            raise units.UnitError(message)
        scale = _COUNT_PREFIXES.get(match[2])
        if scale is None:
            message = f"unknown prefix {match[2]!r}{units.did_you_mean(match[2], _COUNT_PREFIXES)}"
            raise units.UnitError(message)
        # Decimal keeps "0.1 k" whole; the limit stops "1e999999999" from filling the memory.
        number = Decimal(match[1]) * scale if abs(float(match[1])) < _LARGEST_COUNT else Decimal("Infinity")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(value)
    else:
        raise units.UnitError(units.wrong_type(value, 'a whole number (for example 16384 or "16 Ki")'))
    if not number.is_finite() or number > _LARGEST_COUNT:
        message = "must be a finite number below 2**63"
        raise units.UnitError(message)
    if number < 0:
        message = "must not be negative"
        raise units.UnitError(message)
    if number != number.to_integral_value():
        message = f"'{value}' is not a whole number"
        raise units.UnitError(message)
    return int(number)


def parse_rate(value: object) -> Rate:
    """Return a rate of events.

    Accepted are ``"6.5 per 1000 node-day"``, ``"2 per job per week"``, ``"6.5e-5 / gpu / h"``, ``"54 per 54 d"``
    and ``"100 FIT"`` (failures in 1e9 device hours).

    Raises
    ------
    sim.units.UnitError
        If the text is no rate, or the number is negative or not finite.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value == 0:
        return Rate(0.0, "")
    if not isinstance(value, str):
        raise units.UnitError(units.wrong_type(value, 'a rate (for example "6.5 per 1000 node-day")'))
    first, *exposures = _PER.split(value.strip())
    match = units.QUANTITY.fullmatch(first)
    if match is None or match[2] not in ("", "FIT") or (match[2] == "FIT") == bool(exposures):
        raise units.UnitError(_no_rate(value))
    number = units.checked(float(match[1]))
    if not exposures:
        return Rate(number / _FIT, "")
    seconds, of = _exposure(exposures, value)
    return Rate(units.checked(number / seconds), of)


def show_rate(rate: Rate) -> str:
    """Return the shortest text that `parse_rate` reads back as exactly `rate`."""
    per_second = units.checked(rate.per_second)
    texts = []
    for unit, exposure in (("d", 1), ("d", 1000), ("week", 1), ("year", 1), ("h", 1), ("s", 1)):
        number = units.shortest(per_second, 1 / (exposure * units.DURATION.units[unit]))
        if number:
            per = f"{exposure} " if exposure > 1 else ""
            text = f"{number} per {per}{rate.of}{'-' if rate.of else ''}{unit}"
            texts.append((0 < float(number) < 1e-3, len(number), text))
    return min(texts, key=lambda text: text[:2])[2]  # never empty: per second always comes back exactly


def _exposure(exposures: Iterable[str], text: str) -> tuple[float, str]:
    """Return the exposure in unit-seconds and the exposed unit of the parts behind each "per"."""
    amount, time, of = 1.0, 0.0, ""
    for part in exposures:
        match = _EXPOSURE.fullmatch(part)
        if match is None:
            raise units.UnitError(_no_rate(text))
        number, unit, word = match.groups()
        amount *= float(number or 1)
        if word in units.DURATION.units or word == "m" or unit:
            if time:
                raise units.UnitError(_no_rate(text))
            if word not in units.DURATION.units:
                raise units.UnitError(units.unknown_unit(word, units.DURATION))
            time = units.DURATION.units[word]
        else:
            unit = word
        if unit:
            if of or not re.fullmatch("[a-z_]+", unit):
                raise units.UnitError(_no_rate(text))
            of = unit
    if not time or not 0 < amount < math.inf:
        raise units.UnitError(_no_rate(text))
    return amount * time, of


def _no_rate(text: str) -> str:
    return f'{text!r} is not a rate (for example "6.5 per 1000 node-day")'
