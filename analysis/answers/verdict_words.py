"""Where a condition holds along one line of cells, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.answers.extent import ends_text, place_with_ends
from analysis.answers.words import capital, listed, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.answers.curve import Crossing
    from analysis.answers.places import Scale
    from analysis.answers.verdict import Row, Verdict
    from analysis.answers.words import Form

__all__ = ["sentences_of", "summary_sentences"]


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
    return place_with_ends(scale, crossing.at, crossing.low, crossing.high, _extent(verdict), whole)


def _extent(verdict: Verdict) -> tuple[tuple[str, float], tuple[str, float]]:
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
            low, high = ends_text(form, scale, band[0], band[1], _extent(verdict), turn)
            which = f" {'beginning' if begins else 'end'}" if len(verdict.crossings) > 1 else ""
            found.append(
                f"The unknown inputs move this{which} from {f'{low} to {high} {form.unit}'.rstrip()} (90 % band)."
            )
    return found
