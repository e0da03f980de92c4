"""Numbers as a study writes them: plain, with a unit, or with the words of a rate."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim import units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Amounts", "amounts_of"]

_NUMBER = re.compile(rf"\s*([+-]?{units.NUMBER})\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Amounts:
    """Amounts of one kind.

    Parameters
    ----------
    numbers
        The amounts that were given, in SI units where they have units.
    whole
        Whether all of them were written as whole numbers without a unit: then so is what is between them.
    write
        Returns a number of this kind as a scenario would say it.
    """

    numbers: tuple[float, ...]
    whole: bool
    write: Callable[[float], Any]


def amounts_of(contents: Sequence[Any]) -> Amounts:
    """Return the amounts that some values of a study stand for.

    Raises
    ------
    ValueError
        If one of them is no number, or they are not of one kind.
    """
    if all(isinstance(content, int | float) and not isinstance(content, bool) for content in contents):
        whole = all(isinstance(content, int) for content in contents)
        return Amounts(tuple(map(float, contents)), whole, _whole if whole else float)
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) < len(contents):
        message = f"{' and '.join(repr(item) for item in contents)}: give all of them a unit, or none"
        raise ValueError(message)
    for dimension in units.DIMENSIONS:
        try:
            numbers = tuple(units.parse(text, dimension) for text in texts)
        except units.UnitError:
            continue
        return Amounts(numbers, False, functools.partial(units.show, dimension=dimension))
    found = [_NUMBER.fullmatch(text) for text in texts]
    parts = [match.groups() for match in found if match is not None]
    if len(parts) < len(texts) or any(rest != parts[0][1] for _, rest in parts):
        message = f"{' and '.join(repr(text) for text in texts)}: are no numbers of the same unit"
        raise ValueError(message)
    rest = parts[0][1]
    return Amounts(tuple(float(number) for number, _ in parts), False, lambda number: f"{number!r} {rest}")


def _whole(number: float) -> int:
    return round(number)
