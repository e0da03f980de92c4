"""Texts of a report in which every number can be traced to the file that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Number", "Words", "joined", "plain"]


class Number(NamedTuple):
    """A number as it is shown, and where it comes from.

    Parameters
    ----------
    text
        As it is shown, with its unit and without an interval: ``93.1 %``.
    value
        The same in SI units.
    size
        What one unit of the text is in SI: 0.01 for percent.
    sources
        Places of the results that it rests on, in order: ``run.json#/metrics/ettr/mean`` (a JSON pointer, RFC 6901), or
        ``points.csv#3/ettr.mean`` (row, counted from 0, and column). Of several rows,
        ``results.csv#8-15/ettr``, it is the mean; of entries,
        ``validate.json#/groups/*/rows/*?label=emergent``, how many have this value.
    formula
        How the value follows from the places, which are called a, b, c, ...: ``(b - a) * c``. It may hold + - * / ( ),
        numbers, min, max, abs, ceil and floor.
    """

    text: str
    value: float
    size: float
    sources: tuple[str, ...]
    formula: str = "a"


Words = tuple[str | Number, ...]
"""A text with numbers in it."""


def plain(words: Words | str) -> str:
    """Return a text as one string."""
    return words if isinstance(words, str) else "".join(part if isinstance(part, str) else part.text for part in words)


def joined(parts: Iterable[Words], between: str = " ") -> Words:
    """Return texts as one, with something between them."""
    found: list[str | Number] = []
    for words in parts:
        if words:
            found += [between] if found else []
            found += words
    return tuple(found)
