"""How large a text may be so that it stays in its box: an estimate, for a format that cannot measure."""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple

__all__ = ["REST", "Fitted", "fitted", "lines_of"]

REST = " … see the report"
"""What ends a text that was cut."""

_LINE = 1.22
"""Height of a line over the size of the type [-]."""
_GAP = 0.4
"""Space after a paragraph over the size of the type [-]."""
_POINTS = 72.0
"""Points of an inch."""
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%GOQ…")


class Fitted(NamedTuple):
    """Paragraphs that fit into a box, and the size of their type [pt]."""

    paragraphs: tuple[str, ...]
    size: float


def fitted(paragraphs: tuple[str, ...], width: float, height: float, sizes: tuple[int, int]) -> Fitted:
    """Return texts at the largest size at which they fit; cut if they do not fit at the smallest.

    Parameters
    ----------
    paragraphs
        The texts.
    width, height
        The box [in].
    sizes
        Smallest and largest size of the type [pt].
    """
    smallest, largest = sizes
    for size in range(largest, smallest - 1, -1):
        if _height(paragraphs, width, size) <= height:
            return Fitted(paragraphs, size)
    return Fitted(_cut(paragraphs, width, height, smallest), smallest)


def lines_of(text: str, width: float, size: float) -> int:
    """Return how many lines a text takes, rather too many than too few.

    Parameters
    ----------
    text
        A paragraph.
    width
        Width of the box [in].
    size
        Size of the type [pt].
    """
    room = width * _POINTS / size
    lines, used = 1, 0.0
    for word in text.split():
        long = _width(word)
        if used and used + _width(" ") + long > room:
            lines, used = lines + 1, 0.0
        if long > room:  # a word that no line holds is broken
            lines += math.ceil(long / room) - 1
            long %= room
        used += long + (_width(" ") if used else 0.0)
    return lines


def _width(text: str) -> float:
    """Return the width of a text over the size of its type, in a wide face [-]."""
    return sum(0.34 if sign in _NARROW else 0.92 if sign in _WIDE else 0.7 if sign.isupper() else 0.58 for sign in text)


def _height(paragraphs: tuple[str, ...], width: float, size: float) -> float:
    """Return how high paragraphs are [in]."""
    lines = sum(lines_of(text, width, size) for text in paragraphs)
    return (lines * _LINE + len(paragraphs) * _GAP) * size / _POINTS


def _cut(paragraphs: tuple[str, ...], width: float, height: float, size: float) -> tuple[str, ...]:
    """Return as many words as fit, and where the rest is."""
    for last in range(len(paragraphs) - 1, -1, -1):
        words = paragraphs[last].split()

        def cut(count: int, last: int = last, words: list[str] = words) -> tuple[str, ...]:
            return (*paragraphs[:last], (" ".join(words[:count]) + REST).strip())

        def is_high(count: int) -> bool:
            return _height(cut(count), width, size) > height

        count = bisect.bisect_left(range(len(words)), True, key=is_high)
        if count:
            return cut(count - 1)
    return (REST.strip(),)
