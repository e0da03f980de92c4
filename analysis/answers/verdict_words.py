"""Where a condition holds along one line of cells, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.answers.words import capital, listed, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.answers.curve import Crossing
    from analysis.answers.places import Scale
    from analysis.answers.verdict import Row, Verdict
    from analysis.answers.words import Form

__all__ = ["sentences_of"]


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
    found += [*_sure_text(verdict, scale), *_band_texts(verdict, scale)]
    if verdict.silent:
        found.append(f"Left out{_silence(verdict)}.")
    return found


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
    parts = [
        f"{'from' if begins else 'to'} {_place(crossing, begins, verdict, scale)}"
        for crossing in verdict.crossings
        for begins in [crossing.rises == verdict.is_least]
    ]
    return f"{start} is {condition} in several parts of the range of {scale.title}: {', '.join(parts)}."


def _place(crossing: Crossing, begins: bool, verdict: Verdict, scale: Scale) -> str:
    """Return a place with its interval; of whole numbers the first, or last, with which the condition holds."""
    form = scale.form_at(crossing.at)

    def whole(number: float) -> float:
        if not form.is_whole:
            return number
        return math.ceil(number - 1e-9) if begins else math.floor(number + 1e-9)

    if any(row.summary.ci95 is None for row in verdict.rows):
        return form.plain(whole(crossing.at))
    low, high = crossing.low, crossing.high
    if low is not None and high is not None:
        return form.value(whole(crossing.at), (whole(low), whole(high)))
    return f"{form.plain(whole(crossing.at))} [{', '.join(_ends(low, high, verdict, scale, whole))}]"


def _ends(
    low: float | None, high: float | None, verdict: Verdict, scale: Scale, whole: Callable[[float], float]
) -> tuple[str, str]:
    """Return two places as text, of which one may lie beyond the range."""
    form = scale.form_at(verdict.rows[-1].number if high is None else high)
    first = f"below {verdict.rows[0].label}" if low is None else form.plain(whole(low), unit="")
    last = f"above {verdict.rows[-1].label}" if high is None else form.plain(whole(high))
    return first, last


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
            low, high = _ends(band[0], band[1], verdict, scale, turn)
            which = f" {'beginning' if begins else 'end'}" if len(verdict.crossings) > 1 else ""
            found.append(f"The unknown inputs move this{which} from {low} to {high} (90 % band).")
    return found
