"""Where a condition holds along one line of cells, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from analysis.amounts import capital, listed, name_of
from analysis.statistics.differences import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.amounts import Form
    from analysis.study.questions.along import Crossing, Handover, Race, Row, Span, Stage, Verdict
    from analysis.study.questions.question import Scale

# ----------------------------------------
# How many more replications would tell, in words.

FEWEST_FIRM = 10

"""Replications from which on a number of further ones is told: the spread of fewer is known to a factor of two."""


def more_replications(needed: int | None, count: int) -> str:
    """Return how many more replications it takes, such as ``about 160 more replications``.

    Means and spreads are supposed to stay as they are; how well these are known decides how firmly it is told.

    Parameters
    ----------
    needed
        How many it takes in all; ``None`` for more than `analysis.statistics.differences.MANY`.
    count
        How many there are.
    """
    if needed is None:
        return f"more than {MANY:,} replications"
    more = max(needed - count, 1)
    if count < FEWEST_FIRM:
        sizes = ((10, "a few"), (100, "tens"), (1000, "hundreds"), (math.inf, "thousands"))
        return f"{next(word for limit, word in sizes if more < limit)} more replications"
    if more == 1:
        return "one more replication"
    step = 10 ** max(len(str(more)) - 2, 0)
    return f"about {math.ceil(more / step) * step:,} more replications"


# ----------------------------------------
# Places on an axis with their intervals, in words.

End: TypeAlias = tuple[str, float]


def _as_it_is(number: float) -> float:
    return number


def ends_text(
    form: Form,
    scale: Scale,
    low: float | None,
    high: float | None,
    extent: tuple[End, End],
    whole: Callable[[float], float] = _as_it_is,
) -> tuple[str, str]:
    """Return the ends of an interval without their unit; one that is not known lies beyond the axis.

    Parameters
    ----------
    form
        How they are told, in the unit of the place they belong to.
    scale
        The axis.
    low, high
        The ends; ``None`` where they are not known.
    extent
        Label and number of the first and the last value of the axis.
    whole
        What makes a number of the axis out of any.
    """

    def edge(label: str, number: float) -> str:
        # Labels of times have units of their own.
        text = form.exact(number) if scale.is_time else label
        return text.removesuffix(f" {form.unit}") if form.unit else text

    first = f"below {edge(*extent[0])}" if low is None else form.plain(whole(low), unit="")
    last = f"above {edge(*extent[1])}" if high is None else form.plain(whole(high), unit="")
    return first, last


def place_with_ends(
    scale: Scale,
    at: float,
    low: float | None,
    high: float | None,
    extent: tuple[End, End],
    whole: Callable[[float], float] = _as_it_is,
) -> str:
    """Return a place on an axis with its interval, all in one unit: ``1.47 h [1.04, above 2]``."""
    form = scale.form_at(at)
    if low is not None and high is not None:
        return form.value(whole(at), (whole(low), whole(high)))
    ends = ends_text(form, scale, low, high, extent, whole)
    # A comma between numbers that have commas would not be seen.
    return f"{form.plain(whole(at))} [{(' to ' if any(',' in end for end in ends) else ', ').join(ends)}]"


# ----------------------------------------
# Who is best along an axis, in sentences.

_MOST_NAMED = 6

"""Candidates that a sentence names; the data have all."""

_AXIS = "\0"

"""Stands where the axis may be named."""


class Telling(NamedTuple):
    """How races are told.

    Parameters
    ----------
    best
        What is sought, such as ``the highest ETTR``.
    form, scale
        How the metric and the places are told.
    prefix
        What stands before a candidate: the name of a choice speaks for itself, a number does not.
    """

    best: str
    form: Form
    scale: Scale
    prefix: str

    def sentences(self, race: Race, where: str) -> list[str]:
        """Return who is best where, with what is not resolved up front, and by how much."""
        start = f"{where}: " if where else ""
        first = self._course(race)
        # Names of candidates stay as they are.
        is_name = any(first.startswith(f"{self.prefix}{name} ") for name in race.stages[0].order)
        found = [f"{start}{first if start or is_name else capital(first)}."]
        if any(stage.is_resolved for stage in race.stages):
            leads = [
                self._lead(stage) if stage.is_resolved else f"not resolved ({self._needed(stage)} would tell)"
                for stage in race.stages
            ]
            start = "By how much"
        else:
            leads, start = [self._needed(stage) for stage in race.stages], "What would tell"
        told = "; ".join(f"{stage.label}: {lead}" for stage, lead in zip(race.stages, leads, strict=True))
        return [*found, f"{start}: {told}."]

    def _course(self, race: Race) -> str:
        """Return who is best where."""
        spans = race.spans
        title = self.scale.title
        if not any(span.is_resolved for span in spans):
            if len(spans) == 1:
                who = self._named(spans[0].names, "or")
                return f"not resolved on this range of {title}: {who} may have {self.best} at any value"
            who, *others = [self._named(span.names, "or") for span in spans]
            parts = [f"{who} may have {self.best} {_extent(spans[0])}"]
            parts += [f"{other} {_extent(span)}" for other, span in zip(others, spans[1:], strict=True)]
            return f"not resolved on this range of {title}: {'; '.join(parts)}"
        if len(spans) == 1:
            at_all = f"{self._who(spans[0])} {self.best} at every value"
            return f"{'' if race.at else 'there is '}no crossover on this range of {title}: {at_all}"
        clauses = self._clauses(race, spans)
        # Where the same is ahead wherever that is resolved, nothing says that another one ever is.
        leaders = {span.names for span in spans if span.is_resolved}
        if len(leaders) == 1 and all(set(next(iter(leaders))) <= set(span.names) for span in spans):
            return f"no crossover that is resolved on this range of {title}: {clauses}"
        return clauses

    def _clauses(self, race: Race, spans: Sequence[Span]) -> str:
        """Return who is best in each part of the axis, one after the other."""
        handovers = {handover.before.label: handover for handover in race.handovers if handover.crossing is not None}
        parts: list[str] = []
        passed: Handover | None = None
        for index, span in enumerate(spans):
            # What lies between two values that a crossover is told between is told with it.
            if passed is not None and span.last.number < passed.behind.number:
                continue
            handover = handovers.get(span.last.label)
            parts.append(self._clause(spans, index, handover, is_passed=passed is not None))
            passed = handover
        # The axis is named once.
        return ", ".join(parts).replace(_AXIS, f"{self.scale.title} = ", 1).replace(_AXIS, "")

    def _clause(self, spans: Sequence[Span], index: int, handover: Handover | None, *, is_passed: bool) -> str:
        """Return who is best in one part of the axis."""
        span, is_last = spans[index], index == len(spans) - 1
        if not span.is_resolved:
            which = "it is not resolved" if index else f"it is not resolved which has {self.best}"
            return f"{_extent(span, _AXIS)} {which} ({self._named(span.names, 'or')} may be ahead)"
        is_level = " (level)" if len(span.names) > 1 else ""
        who = f"then {self._named(span.names, 'and')}{is_level}" if index else f"{self._who(span)} {self.best}"
        begins = index == 0 or is_passed or spans[index - 1].is_resolved
        if handover is not None:
            start = "" if begins else f" from {_AXIS}{span.first.label}"
            return f"{who}{start} up to {_AXIS}{self._place(handover, spans)}"
        if is_last:
            return f"{who} from there on" if begins else f"{who} from {_AXIS}{span.first.label} on"
        return f"{who} up to {_AXIS}{span.last.label}" if begins else f"{who} {_extent(span, _AXIS)}"

    def _place(self, handover: Handover, spans: Sequence[Span]) -> str:
        """Return where one becomes better than the other."""
        crossing = handover.crossing
        assert crossing is not None
        stages = [stage for span in spans for stage in span.stages]
        extent = (stages[0].label, stages[0].number), (stages[-1].label, stages[-1].number)
        before, behind = handover.before, handover.behind
        gap = [stage for stage in stages if before.number < stage.number < behind.number]
        level = [stage.label for stage in gap if stage.is_resolved]
        unsure = [stage.label for stage in gap if not stage.is_resolved]
        rest = f", level at {listed(level)}" if level else ""
        rest += f", not resolved at {listed(unsure)}" if unsure else ""
        place = place_with_ends(self.scale, crossing.at, crossing.low, crossing.high, extent)
        return f"{place} (between {before.label} and {behind.label}{rest})"

    def _who(self, span: Span) -> str:
        """Return who is best, with the verb."""
        if len(span.names) == 1:
            return f"{self._named(span.names, 'and')} has"
        return f"{self._named(span.names, 'and')} (the same in every replication) have"

    def _named(self, names: Sequence[str], conjunction: str) -> str:
        """Return candidates by name."""
        told = [f"{self.prefix}{name}" for name in names[:_MOST_NAMED]]
        left = len(names) - len(told)
        *most, last = [*told, f"{left} more"] if left else told
        return f"{', '.join(most)} {conjunction} {last}" if most else last

    def _needed(self, stage: Stage) -> str:
        """Return what it would take to resolve who is best."""
        if stage.ranking is None:
            return "two replications or more"
        return more_replications(stage.ranking.replications_to_resolve, stage.replications)

    def _lead(self, stage: Stage) -> str:
        """Return how far the first is ahead of the second."""
        assert stage.ranking is not None
        if len(stage.leaders) > 1:
            return f"{self._named(stage.leaders, 'and')} are level in every replication"
        mean, interval = stage.ranking.behind[1]
        return f"{self.form.distance(mean, interval)} ahead of {self.prefix}{stage.order[1]}"


def _extent(span: Span, title: str = "") -> str:
    """Return from where to where a part goes."""
    if len(span.stages) == 1:
        return f"at {title}{span.first.label}"
    return f"from {title}{span.first.label} to {span.last.label}"


def sentences_of(verdict: Verdict, metric: str, form: Form, scale: Scale) -> list[str]:
    """Return where a condition holds, in sentences."""
    start = f"{verdict.where}: " if verdict.where else ""
    relation = "at least" if verdict.is_least else "at most"
    condition = f"{relation} {form.exact(verdict.level)}"
    name = name_of(metric) if start else capital(name_of(metric))
    if len(verdict.rows) < 2:
        return [f"{start}{name}: fewer than two values of {scale.title} have a mean{_silence(verdict)}."]
    worst_first = sorted(verdict.rows, key=lambda row: row.summary.mean or 0.0, reverse=not verdict.is_least)

    def told(row: Row) -> str:
        return f"{form.value(row.summary.mean or 0.0, row.summary.ci95)} at {row.label}"

    if not any(verdict.holds):
        best = told(worst_first[-1])
        found = [f"{start}{name} is never {condition} on this range of {scale.title}: {best} is the best."]
    elif all(verdict.holds):
        is_first = "already at the first value, " if worst_first[0] == verdict.rows[0] else ""
        found = [
            f"{start}{name} is {condition} on the whole range of {scale.title}: {is_first}{told(worst_first[0])} is "
            "the worst."
        ]
    else:
        found = [_crossed(verdict, f"{start}{name}", condition, scale, told)]
    if not _is_sure_already(verdict):
        found += _sure_text(verdict, scale)
    found += _band_texts(verdict, scale)
    if verdict.silent:
        found.append(f"Left out{_silence(verdict)}.")
    return found


def summary_sentences(verdicts: Sequence[Verdict], metric: str, form: Form, scale: Scale) -> list[str]:
    """Return what several combinations of the other axes have in common, in one sentence; of one alone nothing."""
    known = [verdict for verdict in verdicts if len(verdict.rows) > 1]
    crossed = [verdict for verdict in known if len(verdict.crossings) == 1]
    ends = {verdict.crossings[0].rises == verdict.is_least for verdict in crossed}
    if len(known) < 2 or len(ends) > 1:
        return []
    count = len(known)
    condition = f"{'at least' if known[0].is_least else 'at most'} {form.exact(known[0].level)}"
    kinds = [
        ("at every value", sum(all(verdict.holds) for verdict in known)),
        ("never", sum(not any(verdict.holds) for verdict in known)),
        ("in parts of the range", sum(len(verdict.crossings) > 1 for verdict in known)),
    ]
    rest = [f"{kind} in {number}" for kind, number in kinds if number]
    if len(crossed) < 2:
        # One place, or windows of their own, are not to be summed up.
        told = f"{capital(name_of(metric))} is {condition} {' and '.join(rest)} of {count} combinations."
        return [] if any(verdict.crossings for verdict in known) else [told]
    among = f"In {len(crossed)} of {count} combinations" if rest else f"In all {count} combinations"
    begins = ends.pop()
    first, last = (_end_of_range(verdict, begins, scale) for verdict in _outermost(crossed))
    extent = f"{'from' if begins else 'up to'} {scale.title} between {first} and {last}{' on' if begins else ''}"
    return [f"{among} {name_of(metric)} is {condition} {'; '.join([extent, *rest])}."]


def _outermost(verdicts: Sequence[Verdict]) -> tuple[Verdict, Verdict]:
    """Return those that are crossed first and last."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.crossings[0].at)
    return ordered[0], ordered[-1]


def _end_of_range(verdict: Verdict, begins: bool, scale: Scale) -> str:
    """Return where one is crossed, and which it is."""
    return f"{_place(verdict.crossings[0], begins, verdict, scale)} ({verdict.where})"


def _silence(verdict: Verdict) -> str:
    """Return what has no mean, in words."""
    if not verdict.silent:
        return ""
    return f": {', '.join(f'{label} ({reason})' for label, reason in verdict.silent.items())}"


def _crossed(verdict: Verdict, start: str, condition: str, scale: Scale, told: Callable[[Row], str]) -> str:
    """Return where a condition begins and ends to hold."""
    if len(verdict.crossings) == 1:
        (crossing,) = verdict.crossings
        begins = crossing.rises == verdict.is_least
        place = _place(crossing, begins, verdict, scale)
        before, behind = verdict.rows[crossing.before : crossing.before + 2]
        extent = f"from {scale.title} = {place} on" if begins else f"up to {scale.title} = {place}"
        return f"{start} is {condition} {extent}: {told(before)}, {told(behind)}."
    best = max(verdict.rows, key=lambda row: (row.summary.mean or 0.0) * (1 if verdict.is_least else -1))
    parts = _parts(verdict, scale)
    if len(parts) == 1:
        return (
            f"{start} is {condition} from {scale.title} = {parts[0].removeprefix('from ')}: {told(best)} is the best."
        )
    return f"{start} is {condition} in {len(parts)} parts of the range of {scale.title}: {listed(parts)}."


def _parts(verdict: Verdict, scale: Scale) -> list[str]:
    """Return each part of the axis in which a condition holds."""
    parts = []
    start = ""
    for crossing in verdict.crossings:
        begins = crossing.rises == verdict.is_least
        place = _place(crossing, begins, verdict, scale)
        if begins:
            start = f"from {place}"
        else:
            parts.append(f"{start} to {place}" if start else f"up to {place}")
            start = ""
    return [*parts, f"{start} on"] if start else parts


def _place(crossing: Crossing, begins: bool, verdict: Verdict, scale: Scale) -> str:
    """Return a place with its interval; of whole numbers the first, or last, with which the condition holds."""
    form = scale.form_at(crossing.at)

    def whole(number: float) -> float:
        if not form.is_whole:
            return number
        return math.ceil(number - 1e-9) if begins else math.floor(number + 1e-9)

    if any(row.summary.ci95 is None for row in verdict.rows):
        return form.plain(whole(crossing.at))
    return place_with_ends(scale, crossing.at, crossing.low, crossing.high, _extent_of_verdict_words(verdict), whole)


def _extent_of_verdict_words(verdict: Verdict) -> tuple[tuple[str, float], tuple[str, float]]:
    """Return the ends of the axis."""
    first, last = verdict.rows[0], verdict.rows[-1]
    return (first.label, first.number), (last.label, last.number)


def _is_sure_already(verdict: Verdict) -> bool:
    """Return whether the intervals of the crossings tell where a condition holds for sure: between the same values."""
    numbers = [row.number for row in verdict.rows]
    return (
        not verdict.is_unknown
        and bool(verdict.crossings)
        and verdict.sure == verdict.holds
        and all(
            crossing.low is not None
            and crossing.high is not None
            and numbers[crossing.before] <= crossing.low
            and crossing.high <= numbers[crossing.before + 1]
            for crossing in verdict.crossings
        )
    )


def _sure_text(verdict: Verdict, scale: Scale) -> list[str]:
    """Return where a condition holds for sure."""
    if not any(verdict.holds):
        return []
    which = "95 % interval and 90 % band of the unknown inputs" if verdict.is_unknown else "95 % interval"
    verb = "are" if verdict.is_unknown else "is"
    clear = f"{which} {verb} clear of it"
    labels = [row.label for row, sure in zip(verdict.rows, verdict.sure, strict=True) if sure]
    if not labels:
        return [f"For sure at no value: the {which} {verb} nowhere clear of it."]
    if len(labels) == len(verdict.rows):
        return [f"For sure at every value: the {clear}."]
    first, last = verdict.sure[0], verdict.sure[-1]
    changes = sum(this != following for this, following in zip(verdict.sure, verdict.sure[1:], strict=False))
    if changes == 1 and last:
        return [f"For sure from {scale.title} = {labels[0]} on: the {clear}."]
    if changes == 1 and first:
        return [f"For sure up to {scale.title} = {labels[-1]}: the {clear}."]
    return [f"For sure at {listed(labels)}: the {clear}."]


def _band_texts(verdict: Verdict, scale: Scale) -> list[str]:
    """Return what unknown inputs do to each crossing."""
    found = []
    for crossing, band in zip(verdict.crossings, verdict.bands, strict=True):
        if band is not None:
            begins = crossing.rises == verdict.is_least
            is_whole = scale.form.is_whole
            turn = (math.ceil if begins else math.floor) if is_whole else float
            form = scale.form_at(crossing.at)
            low, high = ends_text(form, scale, band[0], band[1], _extent_of_verdict_words(verdict), turn)
            which = f" {'beginning' if begins else 'end'}" if len(verdict.crossings) > 1 else ""
            found.append(
                f"The unknown inputs move this{which} from {f'{low} to {high} {form.unit}'.rstrip()} (90 % band)."
            )
    return found
