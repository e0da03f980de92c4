"""What an axis does to a metric, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.answers.pictures import curves
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.openings.traced import Estimate, Traced
    from analysis.report.words import Words

__all__ = ["trend"]

_MOST_TOLD = 3
"""Combinations of other axes of which each is told; of more only the largest fall and the largest rise."""


_MOSTLY = 2 / 3


class _Change(NamedTuple):
    """What the axis does along one line, from its first value to its last."""

    place: int
    found: Estimate
    base: Traced | None
    resolved: bool


def trend(asked: Asked) -> Told | None:
    """Return what the axis changes; ``None`` where no two values have a mean."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    changes = [change for place in range(len(lines)) if (change := _change(asked, place)) is not None]
    if not changes:
        return None
    order = sorted(changes, key=lambda change: change.found.mean.value)
    shown = changes if len(changes) <= _MOST_TOLD else [order[0], order[-1]]
    largest = max(changes, key=lambda change: abs(change.found.mean.value))
    whole = asked.data["lines"][largest.place]["whole"]
    along = asked.data["along"]
    start = line(asked.extent(along, whole["from"], whole["to"]), " ", asked.subject, " ")
    parts: list[Words] = [
        _told(asked, change, shown[place - 1] if place else None) for place, change in enumerate(shown)
    ]
    if len(changes) > 1 and not any(change.resolved for change in changes):
        parts = [("does not change by more than chance does, whatever the other values are",)]
    end = line(_mostly(asked, shown), _best(asked, largest))
    short = line(start, _told(asked, largest, None) if largest.resolved else parts[0], _mostly(asked, [largest]))
    cell, other = (asked.cell({**lines[largest.place]["at"], along: whole[end]}) for end in ("to", "from"))
    answer = sentence(start, listed(parts), end)
    return Told(answer, sentence(short), short, curves(asked, along), cell, other=other)


def _change(asked: Asked, place: int) -> _Change | None:
    """Return the change along a line; ``None`` where it is not known."""
    found = asked.difference("lines", place, "whole", "difference")
    if found is None:
        return None
    resolved = bool(asked.data["lines"][place]["whole"]["difference"]["resolved"])
    return _Change(place, found, asked.at("lines", place, "points", 0, "mean"), resolved)


def _told(asked: Asked, change: _Change, before: _Change | None) -> Words:
    """Return a change in words; what it has in common with the one before it is not said again."""
    at = asked.data["lines"][change.place]["at"]
    named = asked.briefly(at) if before is not None else asked.where(at)
    where = line(" with ", named) if at else ""
    if not change.resolved:
        same = not change.found.mean.value
        return line("stays the same in every run" if same else "does not change by more than chance does", where)
    is_alike = before is not None and before.resolved and before.found.mean.value * change.found.mean.value > 0
    verb = "" if is_alike else "rises " if change.found.mean.value > 0 else "falls "
    return line(verb, "by ", asked.apart(change.found, change.base), where)


def _mostly(asked: Asked, changes: Sequence[_Change]) -> Words:
    """Return where most of some changes happens, if one step makes more than two thirds of each; empty elsewhere."""
    found = set()
    for change in changes:
        steps = asked.data["lines"][change.place]["steps"]
        largest = max(steps, key=lambda step: abs(step["difference"]["mean"]))
        whole = change.found.mean.value
        if len(steps) < 2 or not whole or largest["difference"]["mean"] / whole < _MOSTLY or not change.resolved:
            return ()
        found.add((largest["from"], largest["to"]))
    if len(found) != 1:
        return ()
    along, (first, last) = asked.data["along"], found.pop()
    return line(", mostly from ", asked.value(along, first), " to ", asked.value(along, last))


def _best(asked: Asked, change: _Change) -> Words:
    """Return where the metric is best on the way; empty where that is at an end, or no course is told."""
    content = asked.data["lines"][change.place]
    if content.get("course") != "turns" or len(asked.data["lines"]) > 1:
        return ()
    points = content["points"]
    sign = -1 if asked.is_lowest else 1
    best = max(points, key=lambda point: sign * point["mean"])
    if best in (points[0], points[-1]):
        return ()
    along = asked.data["along"]
    found = asked.mean(asked.cell({**content["at"], along: best["value"]}))
    if found is None:
        return ()
    return line(
        "; the ", asked.most, " on the way is ", told(found, asked.form), " at ", asked.values(along, [best["value"]])
    )
