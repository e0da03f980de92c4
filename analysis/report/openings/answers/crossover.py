"""Who is best along an axis, and where another one becomes the best, for a first screen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.report.openings.answers.phrases import bracket, either, line, sentence
from analysis.report.openings.answers.pictures import curves
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["crossover"]

_MOST_LINES = 2
"""Combinations of other axes of which each is told."""
_LARGE = 1000.0
"""What is counted from which on it is not told to the last one."""


class _Span(NamedTuple):
    """Neighbouring values at which the same may be best."""

    stages: list[int]
    names: list[str]


def crossover(asked: Asked) -> Told | None:
    """Return who is best where; ``None`` where nobody is."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    if not lines:
        return None
    along = asked.data["along"]
    shown = [0] if len(lines) == 1 else [0, len(lines) - 1][:_MOST_LINES]
    texts: list[Words | str] = []
    for place in shown:
        where = asked.where(lines[place]["at"])
        texts += ["; " if texts else "", line("with ", where, " ") if where else "", _course(asked, place)]
    last = len(lines) - 1
    edges = [
        (crossing["at"], f"{crossing['to']} ahead")
        for crossing in lines[last]["crossings"]
        if crossing["at"] is not None
    ]
    picture = curves(asked, along, between=asked.data["between"], edges=edges if len(lines) == 1 else ())
    stage = lines[last]["best"][-1]
    labels = {**lines[last]["at"], along: stage["value"], asked.data["between"]: stage["best"]}
    where = asked.where(lines[last]["at"])
    short = line("with " if where else "", where, " " if where else "", _in_short(asked, last))
    return Told(sentence(*texts), sentence(short), short, picture, asked.cell(labels))


def _spans(asked: Asked, place: int) -> list[_Span]:
    """Return the axis in parts in which the same may be best."""
    stages = asked.data["lines"][place]["best"]
    grouped = itertools.groupby(range(len(stages)), key=lambda one: frozenset(stages[one]["may_be_best"]))
    found = []
    for _, members in grouped:
        numbers = list(members)
        found.append(_Span(numbers, stages[numbers[0]]["may_be_best"]))
    return found


def _course(asked: Asked, place: int) -> Words:
    """Return who is best from where to where, and by how much at the end."""
    stages = asked.data["lines"][place]["best"]
    spans = _spans(asked, place)
    if len(spans) == 1 and len(spans[0].names) == 1:
        first, last = _lead(asked, place, 0), _lead(asked, place, len(stages) - 1)
        whom = asked.value(asked.data["between"], spans[0].names[0])
        alone = line(whom, f" has the {asked.most} {asked.what} ", _from_to(asked, place, spans[0]))
        return line(alone, ", by ", first, " at first and ", last, " at last") if first and last else alone
    parts: list[Words | str] = []
    for position, span in enumerate(spans):
        following = spans[position + 1] if position + 1 < len(spans) else None
        handover = _handover(asked, place, span, following)
        is_beyond = position > 0 and bool(_handover(asked, place, spans[position - 1], span))
        where: Words = () if is_beyond else _from_to(asked, place, span)
        if handover:
            where = line("up to ", handover)
        who = either([asked.value(asked.data["between"], name) for name in span.names])
        if len(span.names) > 1:
            who = line("it cannot be told apart whether ", who, " is best")
        elif not position:
            who = line(who, f" has the {asked.most} {asked.what}")
        before = ", beyond that " if is_beyond else ", then " if position else ""
        parts += [before, who, " " if where else "", where]
    end = len(stages) - 1
    lead = _lead(asked, place, end)
    if lead and len(spans[-1].names) == 1:
        parts += [", at ", asked.values(asked.data["along"], [stages[end]["value"]]), " ahead by ", lead]
        parts += [_years(asked, place, end)]
    return line(*parts)


def _from_to(asked: Asked, place: int, span: _Span) -> Words:
    """Return where a part is."""
    stages, along = asked.data["lines"][place]["best"], asked.data["along"]
    first, last = (stages[span.stages[end]]["value"] for end in (0, -1))
    if first == last:
        return line("at ", asked.values(along, [first]))
    return asked.extent(along, first, last)


def _handover(asked: Asked, place: int, span: _Span, following: _Span | None) -> Words:
    """Return where the best of a part is passed by that of the next one; empty where that is not told."""
    content = asked.data["lines"][place]
    if following is None or len(span.names) > 1 or len(following.names) > 1:
        return ()
    ends = [content["best"][span.stages[-1]]["value"], content["best"][following.stages[0]]["value"]]
    for index, crossing in enumerate(content["crossings"]):
        at = asked.at("lines", place, "crossings", index, "at")
        if crossing["between"] == ends and at is not None:
            return _place(asked, place, index)
    return ()


def _place(asked: Asked, place: int, index: int, *, briefly: bool = False) -> Words:
    """Return between which values that were tried a crossover is, and about where."""
    at = asked.at("lines", place, "crossings", index, "at")
    assert at is not None
    along = asked.data["along"]
    form = asked.axis_form(along, at.value)
    crossing = asked.data["lines"][place]["crossings"][index]
    stages = [stage["value"] for stage in asked.data["lines"][place]["best"]]
    low, high = crossing["at_ci95"] or (None, None)
    # Of what is counted no decimals, and no more digits than what is between two values deserves.
    digits = form._replace(is_whole=False) if form.is_whole and at.value >= _LARGE else form
    about = number(at, digits, None if low is None or high is None else (low, high))
    if briefly:
        return line("about ", asked.named(along, (about,)))
    numbers = [stage["number"] for stage in asked.data["lines"][place]["best"]]
    first, last = (stages.index(label) for label in crossing["between"])
    below, above = bracket(numbers, (first, last), (low, high))
    tried = line("between ", asked.value(along, stages[below or 0]), " and ",
                 asked.value(along, stages[-1 if above is None else above]))  # fmt: skip
    return line("somewhere ", asked.named(along, tried), " (about ", about, " on a straight line)")


def _lead(asked: Asked, place: int, stage: int) -> Words:
    """Return by how much the best is ahead of the second at a value; empty where that is not told."""
    found = asked.difference("lines", place, "best", stage, "ahead_of_second")
    base = asked.at("lines", place, "best", stage, "mean")
    return () if found is None else asked.apart(found, base)


def _years(asked: Asked, place: int, stage: int) -> Words:
    found = asked.difference("lines", place, "best", stage, "ahead_of_second")
    content = asked.data["lines"][place]
    entry = content["best"][stage]
    here = {**content["at"], asked.data["along"]: entry["value"]}
    names = entry.get("order", ())[:2]
    cells = [asked.cell({**here, asked.data["between"]: name}) for name in names]
    return () if found is None or len(cells) < 2 else asked.gpu_years(found, *cells)


def _in_short(asked: Asked, place: int) -> Words:
    """Return the same in short: who is best at first and at last."""
    spans, between = _spans(asked, place), asked.data["between"]
    who = [either([asked.value(between, name) for name in span.names]) for span in (spans[0], spans[-1])]
    if len(spans) == 1:
        if len(spans[0].names) > 1:
            return line("it cannot be told apart whether ", who[0], f" has the {asked.most} {asked.what}")
        return line(who[0], f" has the {asked.most} {asked.what} ", _from_to(asked, place, spans[0]))
    content = asked.data["lines"][place]
    last = next((index for index in reversed(range(len(content["crossings"])))
                 if content["crossings"][index]["at"] is not None), None)  # fmt: skip
    if last is not None and len(spans[-1].names) == 1:
        return line(
            "beyond ", _place(asked, place, last, briefly=True), " ", who[1], f" has the {asked.most} {asked.what}"
        )
    ends = [_from_to(asked, place, span) for span in (spans[0], spans[-1])]
    return line(who[0], f" may have the {asked.most} {asked.what} ", ends[0], ", ", who[1], " ", ends[1])
