"""Answers along a numeric axis: who is best where, what it takes to pass a value, what the axis does to a metric."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import COUNT, PERCENT, NumberFormat, capital, ends_of, label_text, time_form
from ettrick.analysis.page.chapters.answer import IN_TIME, KEY, MOST_NAMED, AnswerText, brief, curves
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.model import Column, Figure, Number, TableBlock, grid, joined, plain
from ettrick.analysis.page.sourced import (
    SourcedEstimate,
    SourcedNumber,
    bracket,
    either,
    line,
    listed,
    number,
    ranged,
    sentence,
    whole,
)
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.analysis.page.chapters.answer import AnsweredQuestion as Asked
    from ettrick.analysis.page.chapters.answer import Draw
    from ettrick.analysis.page.model import Words
    from ettrick.analysis.results import answers as typed


# ----------------------------------------
# Who is best along an axis, and where another one becomes the best.

_LARGE = 1000.0  # what is counted from which on it is not stated to the last one


def crossover(question: Asked[typed.CrossoverAnswer]) -> AnswerText | None:
    """Return who is best where; ``None`` where nobody is."""
    races = question.answer.lines
    if not races:
        return None
    texts = []
    for index, race in enumerate(races):
        where, course = question.where(race.at), _course(question, index)
        texts.append(line("with ", where, " ", course) if where else course)
    last, stage = races[-1], races[-1].best[-1]
    where, at = question.where(last.at), {**last.at, question.answer.along: stage.value}
    return AnswerText(
        sentence(*brief(texts[-1], texts[:-1])),
        line("with " if where else "", where, " " if where else "", _in_short(question, len(races) - 1)),
        question.cell({**at, question.answer.between: stage.best}),
        next((question.cell({**at, question.answer.between: name}) for name in stage.order[1:]), None),
    )


def crossover_table(question: Asked[typed.CrossoverAnswer]) -> TableBlock:
    """Return who is best at each value, how far ahead, and who may be as good."""
    races, along = question.answer.lines, question.answer.along
    rows = [({**race.at, along: stage.value}, (stage, index, position))
            for index, race in enumerate(races) for position, stage in enumerate(race.best)]  # fmt: skip
    has_equal = any(stage.equal for _, (stage, _, _) in rows)
    return question.table([*races[-1].at, along], rows, (
        Column("Best", lambda row: label_text(row[0].best), is_number=False),
        Column("Ahead of the second", lambda row: "too close to call" if _close(row[0]) else
               "equal" if row[0].equal else plain(_stage_lead(question, *row[1:]))),
        Column(capital(plain(question.equal)), lambda row: ", ".join(map(label_text, row[0].equal)), has_equal,
               is_number=False),
        Column("Too close to call", lambda row: ", ".join(map(label_text, _close(row[0]))), is_number=False),
    ))  # fmt: skip


def crossover_picture(question: Asked[typed.CrossoverAnswer]) -> Draw:
    """Return what draws the metric along the axis, with the places where another one becomes the best."""
    races = question.answer.lines
    crossings = races[-1].crossings if len(races) == 1 else ()
    edges = [(handover.at, f"{handover.latter} ahead") for handover in crossings if handover.at is not None]
    return curves(question, question.answer.along, edges=edges)


_MOST_SPANS = 3  # parts of an axis that a sentence tells


class _Span(NamedTuple):
    """Neighbouring values at which the same are best or may be: equal to the best, or too close to call."""

    stages: list[typed.StageSummary]
    names: list[str]
    is_close: bool

    @property
    def has(self) -> str:
        """The verb after the names."""
        return "has" if self.is_close or len(self.names) == 1 else "have"

    @property
    def doubt(self) -> str:
        """Whether those of a part are equal or too close to call; empty for one."""
        return " (too close to call)" if self.is_close else " (equal)" if len(self.names) > 1 else ""


def _close(stage: typed.StageSummary) -> list[str]:
    """Return those that may be better than the best of a value, without those that are equal to it."""
    return [name for name in stage.may_be_best if name != stage.best and name not in stage.equal]


def _first_names(stage: typed.StageSummary) -> list[str]:
    """Return the best of a value with those that are equal to it or too close to call, best first."""
    names = {stage.best, *stage.equal, *stage.may_be_best}
    return [name for name in stage.order or stage.may_be_best if name in names]


def _spans(race: typed.RaceSummary) -> list[_Span]:
    """Return the axis in parts in which the same are best or may be."""
    groups = [
        list(stages) for _, stages in itertools.groupby(
            race.best, key=lambda stage: (frozenset(_first_names(stage)), bool(_close(stage)))
        )
    ]  # fmt: skip
    spans = [_Span(stages, _first_names(stages[0]), bool(_close(stages[0]))) for stages in groups]
    resolved = [span for span in spans if not span.is_close]
    if len(spans) <= _MOST_SPANS or not resolved:
        return spans
    # Of many parts those are stated in which it is clear who is best, or equal.
    merged = [list(alike) for _, alike in itertools.groupby(resolved, key=lambda span: frozenset(span.names))]
    return [_Span([stage for span in alike for stage in span.stages], alike[0].names, False) for alike in merged]


def _span_who(question: Asked[typed.CrossoverAnswer], span: _Span) -> Words:
    axis, most = question.answer.between, MOST_NAMED + 1
    names = [question.value(axis, name) for name in span.names[: most if len(span.names) <= most else 1]]
    few = names if len(names) == len(span.names) else [*names, ("one of the others",)]
    who = either(few) if span.is_close else listed(few)
    return who if plain(names[0]).startswith("“") else question.with_name(axis, who)


def _course(question: Asked[typed.CrossoverAnswer], index: int) -> Words:
    """Return who is best from where to where, by how much at the end, and where the best changes at last."""
    race = question.answer.lines[index]
    spans = _spans(race)
    if len(spans) > 1 and all(span.is_close for span in spans):
        extent = question.extent(question.answer.along, race.best[0].value, race.best[-1].value)
        start = f"which {question.title(question.answer.between)} has the {question.most} {question.what}"
        return line(start, " is too close to call ", extent)
    parts: list[Words] = []
    for span in spans if len(spans) <= _MOST_SPANS else (spans[0], spans[-1]):
        verb = "" if parts else f" {span.has} the {question.most} {question.what}"
        who = line("then " if parts else "", _span_who(question, span), verb, span.doubt)
        parts.append(line(who, " ", _from_to(question, span)))
    lead = () if spans[-1].doubt else _stage_lead(question, index, len(race.best) - 1, briefly=True)
    end = question.named(question.answer.along, race.best[-1].value)
    ahead = line(", ahead by ", lead, *((" with ", *end) if len(spans[-1].stages) > 1 else ())) if lead else ()
    # Where values at which the two are equal were evaluated, these are stated.
    has_place = len(spans) > 1 and not any(span.has == "have" for span in spans)
    at = _handover_place(question, index) if has_place else ()
    return line(listed(parts, ", "), ahead, *(("; the best changes at ", at) if at else ()))


def _from_to(question: Asked[typed.CrossoverAnswer], span: _Span) -> Words:
    along, first, last = question.answer.along, span.stages[0].value, span.stages[-1].value
    return line("at ", question.named(along, first)) if first == last else question.extent(along, first, last)


def _handover_place(question: Asked[typed.CrossoverAnswer], index: int, *, briefly: bool = False) -> Words:
    """Return about where the best changes at last, on a straight line between two values; empty where it does not.

    It is a range where the two are equal; briefly, its end.
    """
    placed = [(position, handover) for position, handover in enumerate(question.answer.lines[index].crossings)
              if handover.at is not None]  # fmt: skip
    at = question.at("lines", index, "crossings", placed[-1][0], "at") if placed else None
    if at is None:
        return ()
    form = question.axis_form(question.answer.along, at.value)
    # Of what is counted no decimals, and no more digits than what is between two values deserves.
    digits = form._replace(is_whole=False) if form.is_whole and at.value >= _LARGE else form
    equal = question.ends("lines", index, "crossings", placed[-1][0], "equal")
    about: Words = (number(at, digits, ends_of(placed[-1][1].at_ci95)),)
    if equal is not None:
        about = ranged(*equal, digits)
    return line("about ", question.with_name(question.answer.along, about[-1:] if briefly else about))


def _stage_lead(question: Asked[typed.CrossoverAnswer], index: int, position: int, *, briefly: bool = False) -> Words:
    """Return by how much the best is ahead of the second at a value, in GPU-years too; empty without a second."""
    race, keys = question.answer.lines[index], ("lines", index, "best", position)
    lead = question.difference(*keys, "ahead_of_second")
    if lead is None:
        return ()
    at = {**race.at, question.answer.along: race.best[position].value}
    cells = [question.cell({**at, question.answer.between: name}) for name in race.best[position].order[:2]]
    years = question.gpu_years(lead, *cells) if len(cells) == 2 and not briefly else ()
    return line(question.apart(lead, question.at(*keys, "mean")), years)


def _in_short(question: Asked[typed.CrossoverAnswer], index: int) -> Words:
    spans, at = _spans(question.answer.lines[index]), _handover_place(question, index, briefly=True)
    first, last = (_span_who(question, span) for span in (spans[0], spans[-1]))
    highest = f" the {question.most} {question.what}"
    if at and len(spans) > 1 and not spans[-1].doubt:
        return line("beyond ", at, " ", last, " has", highest)
    rest = line(", ", last, spans[-1].doubt, " ", _from_to(question, spans[-1])) if len(spans) > 1 else ()
    return line(first, f" {spans[0].has}", highest, spans[0].doubt, " ", _from_to(question, spans[0]), rest)


# ----------------------------------------
# What it takes for a metric to pass a value.

_ONE = SourcedNumber(1.0, (), "1")
_TIMES, _BARE, _HOURS = NumberFormat("times"), NumberFormat(""), NumberFormat("h", HOUR)


class _Need(NamedTuple):
    """The condition that a line crosses."""

    position: int  # of the line
    line: typed.ConditionLine
    # Index of the crossing; ``None`` where the condition holds at all values that were evaluated, or at none.
    crossing: int | None
    holds: bool  # whether it holds at the first value

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The place of the crossing in the answer."""
        return "lines", self.position, "crossings", self.crossing or 0

    @property
    def hardness(self) -> tuple[int, float]:
        """The hardness of the condition of the line, to be compared with others."""
        if self.crossing is None:
            return (0 if self.holds else 2), 0.0
        at = self.line.crossings[self.crossing].at
        return 1, -at if self.holds else at


def _needs(question: Asked[typed.ThresholdAnswer]) -> list[_Need]:
    """Return what each line takes, least first."""
    needs = [_need(index, line) for index, line in enumerate(question.answer.lines) if line.points]
    return sorted(needs, key=lambda need: need.hardness)


def _need(index: int, line: typed.ConditionLine) -> _Need:
    """Return what a line takes; of several crossings the last one that begins, or the first one that ends."""
    begin = [position for position, crossing in enumerate(line.crossings) if crossing.begins]
    end = [position for position, crossing in enumerate(line.crossings) if not crossing.begins]
    holds = line.points[0].holds
    return _Need(index, line, end[0] if holds and end else begin[-1] if begin else None, holds)


def threshold(question: Asked[typed.ThresholdAnswer]) -> AnswerText | None:
    """Return what it takes, the combination that takes least first; ``None`` where nothing is known along the axis."""
    settings = _settings(question)
    if settings:
        return _likely(question, settings)
    needs = _needs(question)
    if not needs:
        return None
    answer, title = _one_need(question, needs[0]) if len(needs) == 1 else _many_needs(question, needs)
    chosen = next((need for need in needs if need.crossing is not None), needs[0])
    cells = _need_cell(question, chosen), _need_cell(question, chosen, holds=False)
    return AnswerText(answer, title, *cells, band=_need_band(question, chosen))


def _one_need(question: Asked[typed.ThresholdAnswer], need: _Need) -> tuple[Words, Words]:
    what, condition = _need_words(question, need, is_first=True), _condition(question)
    goal = line("for ", question.subject, " to be ", condition, ", ")
    reliability = [text for text in (_reliability(question, need),) if text]
    answer = sentence(*brief(line(goal, what), reliability, _unsure(question, need)))
    return answer, line(what, " for ", condition)


def _many_needs(question: Asked[typed.ThresholdAnswer], needs: Sequence[_Need]) -> tuple[Words, Words]:
    where = [question.where(need.line.at) for need in needs]
    today = _today(question)
    if today:
        shorts = [line(place, ": ", _rate_short(question, need)) for place, need in zip(where, needs, strict=True)]
        shorts[-1] = line("hardest is ", shorts[-1])
        return sentence(*brief(line(today, "; best is ", shorts[0]), shorts[1:])), today
    texts = [line("with ", place, ", ", _need_words(question, need, is_first=need is needs[0]))
             for place, need in zip(where, needs, strict=True)]  # fmt: skip
    goal = line("for ", question.subject, " to be ", _condition(question), ", ")
    answer = sentence(*brief(line(goal, texts[0]), texts[1:]))
    return answer, line(texts[0], "; ", texts[-1], " for ", _condition(question))


def _need_words(question: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes; what is the same for all lines is said of the first one alone."""
    if need.crossing is None:
        points = need.line.points
        extent = question.extent(question.answer.along, points[0].value, points[-1].value)
        amount = "any" if need.holds else "no"
        return line(amount, " evaluated value is enough", *((" (", extent, ")") if is_first else ()))
    words = _rate if question.is_factor(question.answer.along) else _amount
    return words(question, need, is_first=is_first)


def _today(question: Asked[typed.ThresholdAnswer]) -> Words:
    """Return in how many combinations the condition holds at the stated failure rate; empty along another axis."""
    points = [point for line in question.answer.lines for point in line.points if point.value == "1"]
    if not points or not question.is_factor(question.answer.along):
        return ()
    source = f"{question.places.file}#/answers/{question.position}/data/lines/*/points/*?value=1"
    holding = SourcedNumber(float(sum(point.holds for point in points)), (f"{source}&holds=true",))
    return line(question.subject, " is ", _condition(question), " today in ", number(holding, COUNT), " of ",
                number(SourcedNumber(float(len(points)), (source,)), COUNT), " combinations")  # fmt: skip


def _rate_short(question: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    if need.crossing is None:
        return ("any evaluated rate" if need.holds else "no evaluated rate",)
    is_higher, times = _times(question, need)
    if is_higher:
        return line("MTBF ", times, " as high")
    return line("up to " if need.holds else "from ", times, " the rate")


_RELIABILITY = (("mtti_s", "MTTI of the job"), ("mtbf_gpu_s", "MTBF per GPU"), ("mtbf_node_s", "MTBF per node"))


def _reliability(question: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return the MTTI and the MTBF that a line takes; empty along an axis that is no failure rate."""
    mtti, per_gpu, per_node = (question.at(*need.keys, key) for key, _ in _RELIABILITY)
    if mtti is None or per_gpu is None or per_node is None:
        return ()
    return line("that is an MTTI of ", number(mtti, time_form(mtti.value)), ", or an MTBF of ",
                number(per_gpu, _HOURS), " per GPU")  # fmt: skip


def threshold_table(question: Asked[typed.ThresholdAnswer]) -> TableBlock | None:
    """Return where the condition holds in each combination of the other axes, and how sure that is."""
    if _settings(question):
        return None
    needs = _needs(question)

    def column(title: str, text: Callable[[_Need], str]) -> Column[_Need]:
        return Column(title, text, any(map(text, needs)))

    def times(key: str, title: str) -> Column[_Need]:
        return column(title, lambda need: ", ".join(
            _HOURS.brief(time) for crossing in need.line.crossings if (time := getattr(crossing, key)) is not None
        ))  # fmt: skip

    where = f"{capital(question.title(question.answer.along))} for {plain(_condition(question))}"
    return question.table(list(question.answer.lines[0].at), [(need.line.at, need) for need in needs], (
        column(where, lambda need: _places_text(question, need)),
        column("95 % interval", lambda need: _intervals_text(question, need, "at_ci95")),
        column("90 % band of unknown inputs", lambda need: _intervals_text(question, need, "band90")),
        column("With 95 % confidence", _certain_text),
        *itertools.starmap(times, _RELIABILITY),
    ))  # fmt: skip


def _places_text(question: Asked[typed.ThresholdAnswer], need: _Need) -> str:
    """Return from where to where the condition holds."""
    words = ["from" if crossing.begins else "to" if index else "up to"
             for index, crossing in enumerate(need.line.crossings)]  # fmt: skip
    places = [_place_text(question, crossing, crossing.at) for crossing in need.line.crossings]
    text = " ".join(f"{word} {place}" for word, place in zip(words, places, strict=True))
    return text or ("any evaluated value" if need.holds else "no evaluated value")


def _place_text(question: Asked[typed.ThresholdAnswer], crossing: typed.CrossingSummary, at: float) -> str:
    """Return a place on the axis; of what is counted the first, or the last, with which the condition holds."""
    form = question.axis_form(question.answer.along, at)
    if form.is_whole:
        at = math.ceil(at - 1e-9) if crossing.begins else math.floor(at + 1e-9)
    return form.plain(at)


def _intervals_text(question: Asked[typed.ThresholdAnswer], need: _Need, key: str) -> str:
    """Return between which places each crossing is; one that is not known lies beyond what was evaluated."""
    points, texts = need.line.points, []
    for crossing in need.line.crossings:
        ends: Sequence[float | None] | None = getattr(crossing, key)
        if ends is not None:
            low, high = (None if end is None else _place_text(question, crossing, end) for end in ends)
            first = low or f"below {label_text(points[0].value)}"
            texts.append(f"{first} to {high or f'above {label_text(points[-1].value)}'}")
    return ", ".join(texts)


def _certain_text(need: _Need) -> str:
    certain = [label_text(point.value) for point in need.line.points if point.holds_with_certainty]
    return f"{certain[0]} to {certain[-1]}" if len(certain) > 1 else "".join(certain) or "nowhere"


def _condition(question: Asked[typed.ThresholdAnswer]) -> Words:
    key = "at_most" if question.answer.at_least is None else "at_least"
    level, form = question.stated(key), question.form
    return line(key.replace("_", " "), " ", number(level, form)._replace(text=form.exact(level.value)))


def _amount(question: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return what a line takes, as a span of values of which two were evaluated; the name of the axis is said once."""
    along, span = question.answer.along, _need_span(question, need)
    about = _turned(question, need, question.stated(*need.keys, "at"))
    straight = (" (about ", about, " on a straight line)") if len(question.answer.lines) == 1 else ()
    if not question.is_counted(along):
        start = f"{question.title(along)} must be " if is_first else ""
        return line(start, "at most a value " if need.holds else "at least a value ", span, straight)
    named = question.with_name(along, span) if is_first else span
    return line("it takes " if is_first else "", "at most " if need.holds else "", named, straight)


def _need_span(question: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return between which values a line passes the level; of what is counted, which of them it may be."""
    along, points = question.answer.along, need.line.points
    first, last = _bracket(need)
    if question.is_counted(along):
        return _counted_span(question, need, first, last)
    low, high = (question.value(along, points[end or 0].value) for end in (first, last))
    if last is None:
        return line("above ", question.value(along, points[-1].value) if first is None else low)
    return line("below ", high) if first is None else line("between ", low, " and ", high)


def _counted_span(question: Asked[typed.ThresholdAnswer], need: _Need, first: int | None, last: int | None) -> Words:
    """Return which of the counted values it may be: behind the last below the level, or before the first above it."""
    low, high = (None if end is None else question.at("lines", need.position, "points", end, "number")
                 for end in (first, last))  # fmt: skip
    low = low + 1.0 if low is not None and not need.holds else low
    high = high - 1.0 if high is not None and need.holds else high
    if low is not None and high is not None and low.value == high.value:
        return (number(low, COUNT),)
    ends = [question.value(question.answer.along, need.line.points[end].value) for end in (0, -1)]
    fewest = line("fewer than ", ends[0]) if low is None else (number(low, COUNT),)
    return listed([fewest, line("more than ", ends[1]) if high is None else (number(high, COUNT),)], " to ")


def _bracket(need: _Need) -> tuple[int | None, int | None]:
    """Return indices of the values that were evaluated on both sides of where a line passes the level."""
    crossing, points = need.line.crossings[need.crossing or 0], need.line.points
    first, last = ([point.value for point in points].index(label) for label in crossing.between)
    return bracket([point.number for point in points], (first, last), crossing.at_ci95 or (None, None))


def _rate(question: Asked[typed.ThresholdAnswer], need: _Need, *, is_first: bool) -> Words:
    """Return how much higher the MTBF must be in a line, or how much more frequent failures may be."""
    is_higher, times = _times(question, need)
    evaluated = _evaluated(question, need, is_higher=is_higher) if is_first else ()
    stated = f" that of “{question.document.scenario}”" if is_first else ""
    if is_higher:
        return line("the MTBF must be about ", times, stated or " as high", evaluated)
    verb = "the failure rate may be about " if need.holds else "the failure rate must be at least about "
    return line(verb, times, stated or " as high", evaluated)


def _times(question: Asked[typed.ThresholdAnswer], need: _Need) -> tuple[bool, Number]:
    """Return whether the MTBF must be higher, and by which factor; else how many times as frequent failures may be."""
    at, ends = question.stated(*need.keys, "at"), question.ends(*need.keys, "at_ci95")
    is_higher = need.holds and at.value < 1
    if is_higher:
        at, ends = _ONE / at, ends and (_ONE / ends[1], _ONE / ends[0])
    return is_higher, number(at, _TIMES, ends and (ends[0].value, ends[1].value))


def _evaluated(question: Asked[typed.ThresholdAnswer], need: _Need, *, is_higher: bool) -> Words:
    """Return the two rates that were evaluated next to where a line passes the level; empty where one is beyond all."""
    first, last = _bracket(need)
    if first is None or last is None:
        return ()
    texts = [question.value(question.answer.along, need.line.points[index].value) for index in (first, last)]
    rates = [question.at("lines", need.position, "points", index, "number") for index in (last, first)]
    if is_higher:
        texts = [(number(_ONE / rate, _BARE),) for rate in rates if rate is not None and rate.value]
    return line(" (evaluated: ", listed(texts), ")")


def _turned(question: Asked[typed.ThresholdAnswer], need: _Need, at: SourcedNumber) -> Number:
    """Return a place of a crossing; of what is counted the first whole number behind it, or the last one before."""
    form = question.axis_form(question.answer.along, at.value)
    return number(whole(at, up=not need.holds) if form.is_whole else at, form)


def _unsure(question: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return that it is nowhere sure, where that is so; empty elsewhere."""
    points = need.line.points
    holding = [index for index, point in enumerate(points) if point.holds]
    if not holding or any(point.holds_with_certainty for point in points):
        return ()
    ends = question.ends("lines", need.position, "points", holding[-1], "mean_ci95")
    if ends is None:
        return ()
    is_unknown = question.answer.over == "parameters" and points[holding[-1]].band90 is not None
    why = "with unknown inputs" if is_unknown else "with so few replications"
    where = question.named(question.answer.along, points[holding[-1]].value)
    return line(
        "; ", why, " no evaluated value is clear of the bound (", ranged(*ends, question.form), " at ", where, ")"
    )


def _need_band(question: Asked[typed.ThresholdAnswer], need: _Need) -> Words:
    """Return between which places unknown inputs move the answer; empty where that is not stated."""
    if need.crossing is None or need.line.crossings[need.crossing].band90 is None:
        return ()
    along = question.answer.along
    ends: list[Words] = []
    for index, word in ((0, "fewer than " if question.is_counted(along) else "less than "), (-1, "more than ")):
        at = question.at(*need.keys, "band90", abs(index))
        beyond = line(word, question.value(along, need.line.points[index].value))
        ends.append(beyond if at is None else (_turned(question, need, at),))
    return line("from ", ends[0], " to ", question.with_name(along, ends[1]))


def _need_cell(question: Asked[typed.ThresholdAnswer], need: _Need, *, holds: bool = True) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds, or on the other."""
    index = 0 if need.holds is holds else -1
    label = need.line.points[index].value
    if need.crossing is not None:
        label = need.line.crossings[need.crossing].between[index]
    return question.cell({**need.line.at, question.answer.along: label})


# ----------------------------------------
# What it takes to finish in time with some probability, over what is not known exactly.
#
# A probability to be in time is the share of runs that are, and whether the reason is chance or an input that is not
# known exactly is all the same to who waits: where runs with drawn inputs are there, they are what is asked for.

_NORMAL = 1.96
_CLOSE = 0.01  # half-width of an interval from which on it is stated that shares of runs are not known well


class _Setting(NamedTuple):
    """A value that was evaluated: its label, number and cell, and the share of runs that are in time over all draws."""

    label: str
    number: float
    cell: int
    share: SourcedNumber


def _settings(question: Asked[typed.ThresholdAnswer]) -> list[_Setting]:
    """Return the values along the axis with the runs of their draws; empty where fewer than two have any."""
    axis, answer = question.axis(question.answer.along), question.answer
    if question.metric != IN_TIME or axis is None or len(answer.lines) != 1 or answer.at_least is None:
        return []
    settings = []
    for label, place in axis.values:
        cell = question.cell({**answer.lines[0].at, axis.name: label})
        share = question.rows.mean(cell, IN_TIME, drawn=True)
        if cell is not None and share is not None:
            settings.append(_Setting(label, place, cell, share))
    return settings if len(settings) > 1 else []


def _likely(question: Asked[typed.ThresholdAnswer], settings: Sequence[_Setting]) -> AnswerText:
    """Return what it takes for a probability over runs and over unknown inputs."""
    along, level, count = question.answer.along, question.answer.at_least or 0.0, len(settings)
    first = max((index + 1 for index, setting in enumerate(settings) if setting.share.value < level), default=0)
    if first in (0, count):
        extent = question.extent(along, settings[0].label, settings[-1].label)
        need = line("no" if first else "any", " evaluated value is enough (", extent, ")")
    else:
        ends = listed([question.value(along, setting.label) for setting in settings[first - 1 : first + 1]])
        need = line("it takes ", question.with_name(along, line("between ", ends)))
    shown = settings[max(first - 1, 0) : first + 1]
    draws, runs = (question.places.at("cells", settings[0].cell, key) for key in ("draws", "replications"))
    has_runs = draws is not None and runs is not None and draws.value
    total = ("of ", number(draws * runs, COUNT), " runs ") if has_runs and draws and runs else ("of the runs ",)
    texts = [line(number(setting.share, PERCENT), " with ", question.value(along, setting.label)) for setting in shown]
    goal = line("for ", question.subject, " to be ", _condition(question), ", ", need, ": ", *total)
    return AnswerText(
        joined([sentence(goal, listed(texts), " are in time, unknown inputs drawn"), _central(question, level)]),
        line(need, " for ", _condition(question)),
        settings[min(first, count - 1)].cell,
        settings[first - 1].cell if first else None,
        doubt=_draws_text(question, shown, draws),
    )


def _central(question: Asked[typed.ThresholdAnswer], level: float) -> Words:
    """Return what would do if all inputs were at their central values; empty if nothing would."""
    axis, enough = question.axis(question.answer.along), ""
    for label, _ in reversed(() if axis is None else axis.values):
        mean = question.mean(question.cell({**question.answer.lines[0].at, question.answer.along: label}))
        if mean is not None and mean.mean.value < level:
            break
        enough = enough if mean is None else label
    named = question.named(question.answer.along, enough) if enough else ()
    return sentence("at exactly the central values ", named, " would do") if named else ()


def _draws_text(question: Asked[Any], shown: Sequence[_Setting], draws: SourcedNumber | None) -> Words:
    """Return what was drawn, and how well shares of so few draws are known."""
    titles = [(str(axis.title),) for axis in question.document.axes.values() if axis.unknown]
    verb = " is" if len(titles) == 1 else " are"
    start = line(listed(titles), verb, " uncertain; each run has its own failures and one ")
    of_draws = ("draw of them",) if draws is None else ("of ", number(draws, COUNT), " draws of them")
    statement = sentence(start, *of_draws)
    values = [question.rows.by_draw(setting.cell, IN_TIME) for setting in shown]
    errors = [_NORMAL * statistics.stdev(means) / math.sqrt(len(means)) for means in values if len(means) > 1]
    few = ("With so few draws these shares are certain to a few percentage points only.",)
    return statement if draws is None or max(errors, default=0.0) < _CLOSE else joined([statement, few])


def threshold_picture(question: Asked[typed.ThresholdAnswer]) -> Draw:
    """Return what draws the metric along the axis: the share of runs in time with drawn and with central inputs."""
    settings, axis = _settings(question), question.axis(question.answer.along)
    if not settings or axis is None:
        return curves(question, question.answer.along)
    level, what = question.answer.at_least or 0.0, capital(question.what)

    def picture(title: str) -> Figure:
        x = tuple(setting.number / axis.size for setting in settings)
        means = [question.mean(setting.cell) for setting in settings]
        central = tuple(None if mean is None else 100 * mean.mean.value for mean in means)
        drawn = Series("unknown inputs drawn", x, tuple(100 * setting.share.value for setting in settings), hue=0)
        series = (drawn, Series("central values", x, central, hue=1))
        levels = ((100 * level, plain(_condition(question))),)
        rows = [
            (plain(question.value(axis.name, setting.label)), plain((number(setting.share, PERCENT),)),
             "" if mean is None else question.form.value(mean.mean.value, mean.interval))
            for setting, mean in zip(settings, means, strict=True)
        ]  # fmt: skip
        shares = "; ".join(f"{row[1]} with {row[0]}" for row in rows)
        alt = f"{what} with unknown inputs drawn, along {axis.title}: {shares}."
        table = grid(title, (axis.title, "unknown inputs drawn", "central values"), rows)
        chart = Curves(title, axis.scale, ChartAxis(f"{what} [%]"), series, levels=levels)
        return Figure(KEY, chart, alt, "Shares of runs that are in time.", table)

    return picture


# ----------------------------------------
# What an axis does to a metric.

_MOSTLY = 2 / 3


class _Change(NamedTuple):
    """The change along one line of an axis, from its first value to its last."""

    line: typed.TrendLine
    whole: typed.TrendStep
    change: SourcedEstimate
    base: SourcedNumber | None


def trend(question: Asked[typed.TrendAnswer]) -> AnswerText | None:
    """Return what the axis changes, the largest change first; ``None`` where no two values have a mean."""
    changes = []
    for index, course in enumerate(question.answer.lines):
        change = question.difference("lines", index, "whole", "difference")
        if change is not None and course.whole is not None:
            base = question.at("lines", index, "points", 0, "mean")
            changes.append(_Change(course, course.whole, change, base))
    if not changes:
        return None
    changes.sort(key=lambda change: -abs(change.change.mean.value))
    largest, along = changes[0], question.answer.along
    start = line(question.extent(along, largest.whole.start, largest.whole.end), " ", question.subject, " ")
    resolved = [change for change in changes if change.whole.difference.resolved or not changes[1:]]
    texts = [_trend_change(question, change) for change in resolved]
    texts = texts or [("shows no clear change, whatever the other values are",)]
    legs, mostly = _legs(question, largest), _mostly(question, largest)
    if legs:
        return AnswerText(sentence(legs), legs, *_ends(question, largest))
    return AnswerText(
        sentence(*brief(line(start, texts[0]), texts[1:], mostly, before=" and ")),
        line(start, texts[0], mostly),
        *_ends(question, largest),
    )


def _ends(question: Asked[typed.TrendAnswer], change: _Change) -> tuple[int | None, int | None]:
    """Return the last and the first cell of a line; of one that turns, the cell where it does and the last one."""
    labels = (change.line.turn, change.whole.end) if change.line.turn else (change.whole.end, change.whole.start)
    last, first = (question.cell({**change.line.at, question.answer.along: label}) for label in labels)
    return last, first


def _legs(question: Asked[typed.TrendAnswer], change: _Change) -> Words:
    """Return the change up to where a line turns and the change from there; empty if it does not turn.

    A turn that is not clear, or too small to matter, is left out where the change from end to end is clear.
    """
    legs, along = change.line.legs, question.answer.along
    position, parts, are_clear = question.answer.lines.index(change.line), [], []
    for index, leg in enumerate(legs):
        size = question.difference("lines", position, "legs", index, "difference")
        place = [point.value for point in change.line.points].index(leg.start)
        base = question.at("lines", position, "points", place, "mean")
        if size is None:
            return ()
        is_small = question.are_equal(None if base is None else base.value, size.interval, size.mean.value)
        are_clear.append(leg.difference.resolved and not is_small)
        parts.append(question.moved(size, base) if are_clear[-1] else ("shows no clear change",))
    if not legs or (change.whole.difference.resolved and not all(are_clear)):
        return ()
    where = line(" with ", question.where(change.line.at)) if change.line.at else ""
    start = line(question.extent(along, legs[0].start, legs[0].end), " ", question.subject, " ", parts[0])
    return line(start, ", from there to ", question.value(along, legs[1].end), " it ", parts[1], where)


def _trend_change(question: Asked[typed.TrendAnswer], change: _Change) -> Words:
    where = line(" with ", question.where(change.line.at)) if change.line.at else ""
    if not change.whole.difference.resolved:
        is_equal = not change.change.mean.value
        return line("stays the same in every run" if is_equal else "shows no clear change", where)
    return line(question.moved(change.change, change.base), where)


def _mostly(question: Asked[typed.TrendAnswer], change: _Change) -> Words:
    """Return where most of a change happens, if one step makes more than two thirds of it; empty elsewhere."""
    steps, size = change.line.steps, change.change.mean.value
    largest = max(steps, key=lambda step: abs(step.difference.mean))
    if len(steps) < 2 or not size or largest.difference.mean / size < _MOSTLY or not change.whole.difference.resolved:
        return ()
    ends = [question.value(question.answer.along, label) for label in (largest.start, largest.end)]
    return line(", mostly from ", ends[0], " to ", ends[1])


_COURSES = {"rises": "rises", "falls": "falls", "turns": "turns on the way", "flat": "no step is clear"}


def trend_table(question: Asked[typed.TrendAnswer]) -> TableBlock:
    """Return the course along each line: both ends, the change, the largest step that is resolved, and its kind."""
    form = question.shown().form

    def end(point: typed.TrendPoint) -> str:
        return f"{form.plain(point.mean)} at {label_text(point.value)}"

    def change(step: typed.TrendStep) -> str:
        return f"{question.change_text(step.difference)}{'' if step.difference.resolved else ', not clear'}"

    def largest(course: typed.TrendLine) -> str:
        steps = [step for step in course.steps if step.difference.resolved]
        step = max(steps, key=lambda step: abs(step.difference.mean), default=None)
        return "" if step is None else f"{label_text(step.start)} to {label_text(step.end)}: {change(step)}"

    rows = [(course.at, (course, course.whole)) for course in question.answer.lines if course.whole is not None]
    return question.table(list(question.answer.lines[0].at), rows, (
        Column("First", lambda row: end(row[0].points[0])),
        Column("Last", lambda row: end(row[0].points[-1])),
        Column("Change", lambda row: change(row[1])),
        Column("Largest step", lambda row: largest(row[0]), is_number=False),
        Column("Course", lambda row: _COURSES.get(row[0].course, ""), is_number=False),
    ))  # fmt: skip
