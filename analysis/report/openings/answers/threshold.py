"""What it takes for a metric to pass a value, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import Form
from analysis.report.openings.answers.likely import likely
from analysis.report.openings.answers.phrases import bracket, line, listed, sentence, whole
from analysis.report.openings.answers.pictures import curves
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import COUNT, number, ranged
from analysis.report.openings.traced import Traced
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["threshold"]

_MOST_TOLD = 4
"""Combinations of other axes of which each is told; of more the hardest, and what each axis alone can do about it."""
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
    drawn = likely(asked, _condition)
    if drawn is not None:
        return drawn
    needs = [_need(place, content) for place, content in enumerate(lines) if content["points"]]
    if not needs:
        return None
    hardest = max(needs, key=lambda need: _hardness(asked, need))
    shown = needs if len(needs) <= _MOST_TOLD else [hardest, *_eased(asked, needs, hardest)]
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ")
    tell = _rate if asked.is_factor(asked.data["along"]) else _amount
    if tell is _rate:
        shown = sorted(shown, key=lambda need: _hardness(asked, need), reverse=True)
    texts, said = [], lines[shown[0].place]["at"]
    for place, one in enumerate(shown):
        # All but the first name only what is not as in the first.
        at = {name: label for name, label in lines[one.place]["at"].items() if not place or label != said[name]}
        is_first = all(before.crossing is None for before in shown[:place])
        texts.append(tell(asked, one, at=at, is_first=is_first))
    answer = sentence(goal, listed(texts), _unsure(asked, hardest))
    need = tell(asked, hardest, at=lines[hardest.place]["at"], is_first=True)
    short = line(need, " for ", _condition(asked))
    level = asked.data.get("at_least", asked.data.get("at_most"))
    picture = curves(asked, asked.data["along"], level=(level, plain(_condition(asked))))
    return Told(
        answer,
        sentence(goal, need),
        short,
        picture,
        _cell(asked, hardest),
        _band(asked, hardest),
        other=_cell(asked, hardest, holds=False),
    )


def _eased(asked: Asked, needs: Sequence[_Need], hardest: _Need) -> list[_Need]:
    """Return, for each other axis, what takes least of the lines that differ from the hardest in that axis alone."""
    lines = asked.data["lines"]
    here = lines[hardest.place]["at"]
    found: dict[str, _Need] = {}
    for need in sorted(needs, key=lambda one: _hardness(asked, one)):
        apart = [name for name, label in lines[need.place]["at"].items() if label != here[name]]
        if len(apart) == 1:
            found.setdefault(apart[0], need)
    return [found[name] for name in reversed(here) if name in found][: _MOST_TOLD - 1]


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


def _amount(asked: Asked, need: _Need, *, at: Mapping[str, str], is_first: bool) -> Words:
    """Return what a line takes, as a span of values of which two were tried; the name of the axis is said once."""
    along = asked.data["along"]
    place = asked.where(at) if is_first else asked.shortly(at)
    where = line(" with ", place) if place else ""
    if need.crossing is None:
        return line(_beyond(asked, need), where)
    span = _span(asked, need)
    named = asked.named(along, span) if is_first or not asked.is_counted(along) else span
    start = "it takes " if is_first else ""
    return line(
        start,
        "at most " if need.holds else "",
        named,
        _straight(asked, need) if len(asked.data["lines"]) == 1 else "",
        where,
    )


def _span(asked: Asked, need: _Need) -> Words:
    """Return between which values a line passes the level; of what is counted, which of them it may be."""
    along, points = asked.data["along"], asked.data["lines"][need.place]["points"]
    first, last = _bracket(asked, need)
    if not asked.is_counted(along):
        ends = [asked.value(along, points[end or 0]["value"]) for end in (first, last)]
        if last is None:
            return line("more than ", asked.value(along, points[-1]["value"]) if first is None else ends[0])
        return line("less than ", ends[1]) if first is None else line("between ", ends[0], " and ", ends[1])
    low = None if first is None else asked.at("lines", need.place, "points", first, "number")
    high = None if last is None else asked.at("lines", need.place, "points", last, "number")
    # It begins behind the last value below it, or ends before the first one above it.
    low = low if low is None or need.holds else low + 1.0
    high = high if high is None or not need.holds else high - 1.0
    texts = [
        line("fewer than ", asked.value(along, points[0]["value"])) if low is None else (number(low, COUNT),),
        line("more than ", asked.value(along, points[-1]["value"])) if high is None else (number(high, COUNT),),
    ]
    return texts[0] if low is not None and high is not None and low.value == high.value else listed(texts, " to ")


def _bracket(asked: Asked, need: _Need) -> tuple[int | None, int | None]:
    """Return positions of the values that were tried on both sides of where a line passes the level."""
    content = asked.data["lines"][need.place]
    crossing = content["crossings"][need.crossing or 0]
    labels = [point["value"] for point in content["points"]]
    first, last = (labels.index(label) for label in crossing["between"])
    return bracket([point["number"] for point in content["points"]], (first, last), crossing["at_ci95"] or (None, None))


def _straight(asked: Asked, need: _Need) -> Words:
    """Return where a straight line between the two neighbours passes the level."""
    at = _turned(asked, need, "at")
    assert at is not None
    form = asked.axis_form(asked.data["along"], at.value)
    return (" (about ", number(at, form), " on a straight line)")


def _rate(asked: Asked, need: _Need, *, at: Mapping[str, str], is_first: bool) -> Words:
    """Return how much rarer failures must be in a line, or how much more frequent they may be."""
    start = line("with ", asked.where(at), " ") if at else ""
    if need.crossing is None:
        return line(start, _beyond(asked, need))
    place = ("lines", need.place, "crossings", need.crossing)
    found, low, high = asked.at(*place, "at"), asked.at(*place, "at_ci95", 0), asked.at(*place, "at_ci95", 1)
    assert found is not None
    is_rarer = need.holds and found.value < 1
    if is_rarer:
        found, low, high = _ONE / found, None if high is None else _ONE / high, None if low is None else _ONE / low
    times = number(found, _TIMES, None if low is None or high is None else (low.value, high.value))
    between = _tried(asked, need, is_rarer=is_rarer) if is_first else ()
    than = f" than in “{asked.places.get('scenario')}”" if is_first else ""
    if is_rarer and not is_first:
        return line("about ", times, " rarer with ", asked.where(at))
    who = "failures" if is_first else "they"
    if is_rarer:
        return line(start, who, " must be about ", times, " rarer", than, between)
    verb = " may be about " if need.holds else " must be at least about "
    return line(start, who, verb, times, " as frequent", than.replace("than", "as"), between)


def _tried(asked: Asked, need: _Need, *, is_rarer: bool) -> Words:
    """Return the two rates that were tried next to where a line passes the level; empty where one is beyond all."""
    points = asked.data["lines"][need.place]["points"]
    places = [place for place in _bracket(asked, need) if place is not None]
    if len(places) < 2:
        return ()
    texts = [asked.value(asked.data["along"], points[place]["value"]) for place in places]
    known = [asked.at("lines", need.place, "points", place, "number") for place in places]
    if is_rarer:
        texts = [(number(_ONE / one, _BARE),) for one in reversed(known) if one is not None and one.value]
    return line(" (tried: ", listed(texts), ")")


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


def _cell(asked: Asked, need: _Need, *, holds: bool = True) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds, or on the other."""
    content = asked.data["lines"][need.place]
    labels = [point["value"] for point in content["points"]]
    label = labels[0] if need.holds is holds else labels[-1]
    if need.crossing is not None:
        label = content["crossings"][need.crossing]["between"][0 if need.holds is holds else 1]
    return asked.cell({**content["at"], asked.data["along"]: label})
