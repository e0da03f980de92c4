"""Parts of sentences: lists, differences, whole numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.answers.words import Form, capital
from analysis.report.openings.numbers import number, points_form, ranged
from analysis.report.openings.traced import Estimate, Traced
from analysis.report.words import Number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.report.words import Words

__all__ = ["apart", "between", "bracket", "either", "line", "listed", "sentence", "whole"]

_PARTS = Form("%", 0.01)
"""Parts of a base."""


def apart(found: Estimate, form: Form, base: Traced | None = None) -> Words:
    """Return the size of a difference: of shares in points, of all else in percent of a base where there is one."""
    size = found.changed(lambda change: change * -1) if found.mean.value < 0 else found
    kind = points_form(form)
    if form.step != "points" and base is not None and base.value > 0:
        size, kind = size.changed(lambda change: change / base), _PARTS
    if size.low is None or size.high is None:
        return (number(size.mean, kind),)
    return ranged(size.low, size.high, kind)


def between(ours: Estimate, theirs: Estimate) -> Estimate:
    """Return how far a mean is above another.

    Its interval goes from the nearest to the farthest ends of theirs. It holds with at least their probability, however
    alike the runs are: the standard error of a difference is at most the sum of both.
    """
    mean = ours.mean - theirs.mean
    if ours.low is None or ours.high is None or theirs.low is None or theirs.high is None:
        return Estimate(mean)
    return Estimate(mean, ours.low - theirs.high, ours.high - theirs.low)


def bracket(
    numbers: Sequence[float], inside: tuple[int, int], ends: Sequence[float | None]
) -> tuple[int | None, int | None]:
    """Return between which of the values that were tried a place lies, chance included.

    What a metric does between two neighbours that were tried is not known, so that no place is known more closely.

    Parameters
    ----------
    numbers
        The values that were tried, ascending.
    inside
        Positions of the neighbours between which it is best placed.
    ends
        Its interval; an end that is ``None`` lies beyond all values, and an interval of two such ends is not known.

    Returns
    -------
    tuple of int or None
        Positions of the last value below it and the first one above; ``None`` where it may be beyond all of them.
    """
    first, last = ends
    if first is None and last is None:
        return inside
    below = [place for place, one in enumerate(numbers) if first is not None and one <= first]
    above = [place for place, one in enumerate(numbers) if last is not None and one >= last]
    return (min(below[-1], inside[0]) if below else None), (max(above[0], inside[1]) if above else None)


def line(*parts: Words | Number | str) -> Words:
    """Return parts of a text as one."""
    found: list[str | Number] = []
    for part in parts:
        found += [part] if isinstance(part, str | Number) else part
    return tuple(part for part in found if part != "")


def sentence(*parts: Words | Number | str) -> Words:
    """Return parts of a text as a sentence: with a capital at its start and a full stop at its end."""
    found = line(*parts)
    first = found[0] if found else ""
    return (capital(first), *found[1:], ".") if isinstance(first, str) else (*found, ".")


def listed(parts: Sequence[Words], last: str = " and ") -> Words:
    """Return texts as a list, with something between the last two; each that occurs is named once."""
    kept = list(dict.fromkeys(parts))
    found: list[Words | str] = []
    for place, words in enumerate(kept):
        found += [words] if not place else [last if place == len(kept) - 1 else ", ", words]
    return line(*found)


def either(parts: Iterable[Words]) -> Words:
    """Return texts of which one holds."""
    return listed(list(parts), " or ")


def whole(found: Traced, *, up: bool) -> Traced:
    """Return the next whole number above or below."""
    turn, name = (math.ceil, "ceil") if up else (math.floor, "floor")
    return Traced(float(turn(found.value)), found.sources, f"{name}({found.formula})")
