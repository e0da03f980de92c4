"""What it takes for a metric to pass a value, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import Form
from analysis.report.openings.answers.phrases import line, listed, sentence, whole
from analysis.report.openings.answers.pictures import curves
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import number, ranged
from analysis.report.openings.traced import Traced
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["threshold"]

_MOST_TOLD = 4
"""Combinations of other axes of which each is told; of more only the easiest and the hardest."""
_ONE = Traced(1.0, (), "1")
_TIMES, _BARE = Form("times"), Form("")


class _Need(NamedTuple):
    """What one line takes.

    Parameters
    ----------
    place
        Position of the line.
    crossing
        Position of the crossing; ``None`` where the condition holds at all values that were tried, or at none.
    holds
        Whether it holds at the first value.
    """

    place: int
    crossing: int | None
    holds: bool


def threshold(asked: Asked) -> Told | None:
    """Return what it takes; ``None`` where nothing is known along the axis."""
    lines = asked.data["lines"]
    needs = [_need(place, content) for place, content in enumerate(lines) if content["points"]]
    if not needs:
        return None
    order = sorted(needs, key=lambda need: _hardness(asked, need))
    shown = needs if len(needs) <= _MOST_TOLD else [order[-1], order[0]]
    hardest = order[-1]
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ")
    tell = _rate if asked.is_factor(asked.data["along"]) else _amount
    texts = [tell(asked, need, is_first=not place) for place, need in enumerate(shown)]
    together = listed(texts, "; ") if tell is _rate else listed(texts)
    answer = sentence(goal, together, _unsure(asked, hardest))
    need = tell(asked, hardest, is_first=True)
    short = line(need, " for ", _condition(asked))
    level = asked.data.get("at_least", asked.data.get("at_most"))
    picture = curves(asked, asked.data["along"], level=(level, plain(_condition(asked))))
    return Told(answer, sentence(goal, need), short, picture, _cell(asked, hardest), _band(asked, hardest))


def _need(place: int, content: Mapping[str, Any]) -> _Need:
    """Return what a line takes; of several crossings the last one that begins, or the first one that ends."""
    crossings: Sequence[Mapping[str, Any]] = content["crossings"]
    begin = [index for index, crossing in enumerate(crossings) if crossing["begins"]]
    end = [index for index, crossing in enumerate(crossings) if not crossing["begins"]]
    holds = bool(content["points"][0]["holds"])
    chosen = end[0] if holds and end else begin[-1] if begin else None
    return _Need(place, chosen, holds)


def _hardness(asked: Asked, need: _Need) -> tuple[int, float]:
    """Return how much a line takes, to sort by."""
    if need.crossing is None:
        return (0 if need.holds else 2), 0.0
    at = asked.data["lines"][need.place]["crossings"][need.crossing]["at"]
    return 1, -at if need.holds else at


def _condition(asked: Asked) -> Words:
    key = "at_least" if "at_least" in asked.data else "at_most"
    level = asked.at(key)
    assert level is not None
    form = asked.form
    text = form.exact(level.value)
    text = text.removesuffix("s") if text in ("1 days", "1 hours", "1 minutes", "1 seconds") else text
    return line(key.replace("_", " "), " ", number(level, form)._replace(text=text))


def _amount(asked: Asked, need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes; the name of the axis is said once."""
    content, along = asked.data["lines"][need.place], asked.data["along"]
    place = asked.where(content["at"]) if is_first else asked.shortly(content["at"])
    where = line(" with ", place) if place else ""
    start = "it takes " if is_first else ""
    if need.crossing is None:
        return line(_beyond(asked, need), where)
    at = _turned(asked, need, "at")
    assert at is not None
    form = asked.axis_form(along, at.value)
    most = "" if form.is_whole and not need.holds else "at most " if need.holds else "at least "
    shown = (number(at, form),)
    named = asked.named(along, shown) if is_first or not asked.is_counted(along) else shown
    return line(start, most, named, _ends(asked, need, form), where)


def _rate(asked: Asked, need: _Need, *, is_first: bool) -> Words:
    """Return how much rarer failures must be in a line, or how much more frequent they may be."""
    content = asked.data["lines"][need.place]
    start = line("with ", asked.where(content["at"]), " ") if content["at"] else ""
    if need.crossing is None:
        return line(start, _beyond(asked, need))
    place = ("lines", need.place, "crossings", need.crossing)
    at, low, high = asked.at(*place, "at"), asked.at(*place, "at_ci95", 0), asked.at(*place, "at_ci95", 1)
    assert at is not None
    is_rarer = need.holds and at.value < 1
    if is_rarer:
        at, low, high = _ONE / at, None if high is None else _ONE / high, None if low is None else _ONE / low
    who = "failures" if is_first else "they"
    than = f" than in “{asked.places.get('scenario')}”" if is_first else ""
    interval = None if low is None or high is None else (low.value, high.value)
    ends = () if low is None or high is None else line(" (", ranged(low, high, _BARE), ")")
    if is_rarer:
        return line(start, who, " must be ", number(at, _TIMES, interval), ends, " rarer", than)
    verb = " may be " if need.holds else " must be at least "
    return line(start, who, verb, number(at, _TIMES, interval), ends, " as many", than.replace("than", "as"))


def _beyond(asked: Asked, need: _Need) -> Words:
    """Return that the condition holds at all values that were tried, or at none."""
    points = asked.data["lines"][need.place]["points"]
    extent = asked.extent(asked.data["along"], points[0]["value"], points[-1]["value"])
    return line("any" if need.holds else "no", " value tried is enough (", extent, ")")


def _turned(asked: Asked, need: _Need, *keys: str | int) -> Traced | None:
    """Return a place of a crossing; of what is counted the first whole number behind it, or the last one before."""
    found = asked.at("lines", need.place, "crossings", need.crossing or 0, *keys)
    if found is None or not asked.axis_form(asked.data["along"], found.value).is_whole:
        return found
    return whole(found, up=not need.holds)


def _ends(asked: Asked, need: _Need, form: Form, key: str = "at_ci95") -> Words:
    """Return the interval of a place in brackets; empty where neither end is known."""
    low, high = (_turned(asked, need, key, end) for end in (0, 1))
    bare = form._replace(unit="")
    if low is not None and high is not None:
        return () if low.value == high.value else line(" (", ranged(low, high, bare), ")")
    values = asked.data["lines"][need.place]["points"]
    along = asked.data["along"]
    if low is None and high is None:
        return ()
    first = line("below ", asked.value(along, values[0]["value"])) if low is None else (number(low, bare),)
    last = line("more than ", asked.value(along, values[-1]["value"])) if high is None else (number(high, bare),)
    return line(" (", first, " to ", last, ")")


def _unsure(asked: Asked, need: _Need) -> Words:
    """Return that it is nowhere sure, where that is so; empty elsewhere."""
    points = asked.data["lines"][need.place]["points"]
    if not any(point["holds"] for point in points) or any(point["holds_for_sure"] for point in points):
        return ()
    held = next(index for index in reversed(range(len(points))) if points[index]["holds"])
    ends = asked.places.ends("answers", asked.position, "data", "lines", need.place, "points", held, "mean_ci95")
    runs = asked.places.at("cells", _cell(asked, need) or 0, "replications")
    if ends is None or runs is None:
        return ()
    unknown = asked.data["over"] == "parameters" and points[held]["band90"] is not None
    why = "with what is not known exactly" if unknown else "with so few simulated runs"
    where = asked.values(asked.data["along"], [points[held]["value"]])
    return line(
        "; ",
        why,
        " that is not sure at any value tried (at ",
        where,
        " it may be anything from ",
        ranged(*ends, asked.form),
        ")",
    )


def _band(asked: Asked, need: _Need) -> Words:
    """Return between which places unknown inputs move the answer; empty where that is not told."""
    if need.crossing is None:
        return ()
    content = asked.data["lines"][need.place]
    if content["crossings"][need.crossing]["band90"] is None:
        return ()
    along = asked.data["along"]
    low, high = (_turned(asked, need, "band90", end) for end in (0, 1))
    ends: list[Words] = []
    for end, found, word in ((0, low, "fewer than "), (-1, high, "more than ")):
        if found is None:
            word = word if asked.is_counted(along) else word.replace("fewer", "less")
            ends.append(line(word, asked.value(along, content["points"][end]["value"])))
        else:
            ends.append((number(found, asked.axis_form(along, found.value)),))
    return line("from ", ends[0], " to ", asked.named(along, ends[1]))


def _cell(asked: Asked, need: _Need) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds."""
    content = asked.data["lines"][need.place]
    labels = [point["value"] for point in content["points"]]
    label = labels[0] if need.holds else labels[-1]
    if need.crossing is not None:
        label = content["crossings"][need.crossing]["between"][0 if need.holds else 1]
    return asked.cell({**content["at"], asked.data["along"]: label})
