"""Who is best along an axis, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.effort import more_replications
from analysis.answers.extent import place_with_ends
from analysis.answers.words import capital, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.answers.places import Scale
    from analysis.answers.race import Handover, Race, Span, Stage
    from analysis.answers.words import Form

__all__ = ["Telling"]

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
