"""Numbers as pictures write them: the digits that tell them apart, and no more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NOTHING", "decimals_of", "signed", "told", "with_unit"]

NOTHING = "no value"
"""What stands where the data say nothing."""

_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))
_MOST = 6


def decimals_of(values: Iterable[float | None]) -> int:
    """Return the decimals that numbers beside each other are written with: three digits of the largest, one of all.

    Whole numbers have none, and a number that is much smaller than the others gets one more than the largest.
    """
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value]
    if all(size == round(size) for size in sizes):
        return 0
    wanted = 2 - _place(max(sizes))
    least = -_place(min(sizes))
    return min(max(wanted, min(least, wanted + 1), 0), _MOST)


def _place(size: float) -> int:
    return math.floor(math.log10(float(f"{size:.6g}")))


def told(value: float | None, decimals: int) -> str:
    """Return a number in words: with separators of thousands, a true minus, and a prefix from a million on."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    sign = "−" if value < 0 else ""
    if size >= 1e15:
        mantissa, exponent = f"{size:.2e}".split("e")
        return f"{sign}{mantissa}×10^{int(exponent)}"
    for prefix, unit in _LARGE:
        if size >= unit:
            return f"{sign}{_plain(size / unit)} {prefix}"
    text = f"{size:,.{decimals}f}"
    if size and not text.strip("0.,"):
        text = f"{size:.{-_place(size)}f}" if size >= 10.0**-_MOST else f"{size:.0e}"
    return f"{sign}{text}" if text.strip("0.,") else text


def _plain(size: float) -> str:
    """Return three digits, without zeros at the end."""
    text = f"{size:.{max(2 - _place(size), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float, decimals: int) -> str:
    """Return a change in words: it always has its sign, unless it is none."""
    text = told(value, decimals)
    return f"+{text}" if value > 0 else text


def with_unit(text: str, unit: str) -> str:
    """Return a number with the percent sign, if it is one; other units stand once beside the picture."""
    return f"{text} %" if unit == "%" and text != NOTHING else text
