"""What each value of an axis changes, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.answers.pictures import Row, curves, intervals
from analysis.report.openings.answers.told import Told
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.report.model import Picture
    from analysis.report.openings.answers.told import Asked
    from analysis.report.openings.traced import Estimate
    from analysis.report.words import Words

__all__ = ["compare"]

_MOST_TOLD = 3
"""Differences that a sentence tells; of more only those at both ends."""


class _Difference(NamedTuple):
    """What one value changes in one combination of the other axes."""

    place: int
    label: str
    found: Estimate
    resolved: bool


def compare(asked: Asked) -> Told | None:
    """Return what the values of an axis change; ``None`` where nothing can be compared."""
    found = _differences(asked)
    if not found:
        return None
    order = sorted(found, key=lambda one: one.found.mean.value)
    shown = found if len(found) <= _MOST_TOLD else [order[0], order[-1]]
    axis, lines = asked.data["axis"], asked.data["lines"]
    against = lines[0]["against"]
    start = line("compared with ", asked.values(axis, [against]), ", ", asked.subject, " ")
    texts = [_told(asked, one, many=len(lines) > 1) for one in shown]
    largest = max(found, key=lambda one: abs(one.found.mean.value))
    at = lines[largest.place]["at"]
    short = line(start, _told(asked, largest, many=len(lines) > 1))
    cell, other = (asked.cell({**at, axis: label}) for label in (largest.label, against))
    return Told(sentence(start, listed(texts)), sentence(short), short, _picture(asked), cell, other=other)


def _differences(asked: Asked) -> list[_Difference]:
    """Return all differences that are known, in order."""
    found = []
    for place, content in enumerate(asked.data["lines"]):
        for label, entry in content["differences"].items():
            difference = asked.difference("lines", place, "differences", label)
            if difference is not None:
                found.append(_Difference(place, label, difference, bool(entry["resolved"])))
    return found


def _told(asked: Asked, one: _Difference, *, many: bool) -> Words:
    """Return a difference in words."""
    content, axis = asked.data["lines"][one.place], asked.data["axis"]
    labels = {**content["at"], axis: one.label}
    where = line(" with ", asked.where(labels) if many else asked.values(axis, [one.label]))
    base_cell = asked.cell({**content["at"], axis: content["against"]})
    cell = asked.cell({**content["at"], axis: one.label})
    base = asked.mean(base_cell)
    if not one.found.mean.value:
        return line("is the same in every run", where)
    size = asked.apart(one.found, None if base is None else base.mean)
    if not one.resolved:
        more = asked.more_runs("lines", one.place, "differences", one.label)
        return line("cannot be told apart", where, " (", more, ")")
    word = "rises by " if one.found.mean.value > 0 else "falls by "
    return line(word, size, asked.gpu_years(one.found, base_cell, cell), where)


def _picture(asked: Asked) -> Callable[[str], Picture | None]:
    """Return the picture: curves along a numeric axis if there is one more, or else means below each other."""
    axis = asked.data["axis"]
    others = [name for name in asked.varying if name != axis]
    numeric = next((name for name in (*others, axis) if asked.is_numeric(name)), None)
    if numeric is not None and others:
        return curves(asked, numeric, between=axis if len(others) == 1 and numeric != axis else "")
    rows: Sequence[Row] = [
        Row(plain(asked.briefly(cell["values"])).strip("“”"), cell["cell"]) for cell in asked.places.get("cells")
    ]
    return intervals(asked, rows)
