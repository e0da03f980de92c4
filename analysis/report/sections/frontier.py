"""How reliable and how fast to come back: what it takes for 90, 95 and 97 %."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.answers.words import form_of, listed
from analysis.cells import time_text
from analysis.plots.charts import Contours, Scale
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.closed_form import TOO_FAR, distance
from analysis.report.sections.requirement import FACTORS, LEVELS, SCALES, Requirement

if TYPE_CHECKING:
    from analysis.report.focus import Focus
    from analysis.report.material import Material

__all__ = ["section"]

_MINUTE = 60.0
_SHARE = form_of("ettr", [])
_HALF = 0.5
_POINT = 0.01
_LONGEST = 70
"""Letters of a name that fits into a title."""
_WORDS = (
    "How much rarer failures would have to be, or how much faster the job would have to come back, for a given share "
    "of productive time. Along a line the one makes up for the other. All causes become rarer by the same factor; all "
    "times of detection and recovery become shorter by the same factor; intervals between saves that a rule chooses "
    "are chosen anew, and others stay."
)


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where nothing fails or has to come back, or no formula describes the scenario.

    A formula that is far from what was simulated describes nothing.
    """
    focus = material.focus
    if focus is None or not math.isfinite(focus.prepared.jobs[0].mtti):
        return None
    formula = focus.document["closed_form"]
    now, off = formula["ettr"], distance(formula)
    requirement = Requirement(focus.prepared)
    if now is None or abs(off) > TOO_FAR or not requirement.pauses[-1] > requirement.pauses[0] > 0:
        return None
    asked = asked_level(material.sweep)
    levels = tuple(sorted({*LEVELS, *([] if asked is None else [asked])}))
    answers = {level: requirement.factor_for(level, 1.0) for level in levels}
    title = _told(now, answers, asked, focus.name if material.sweep is not None and len(focus.name) <= _LONGEST else "")
    by = "By the formula" if not off else f"By the formula, which is {abs(off) / _POINT:.1g} points off here"
    title = f"{by}, {title}"
    table = _table(focus, requirement, answers)
    picture = Picture(
        "requirement-frontier",
        _chart(title, requirement, levels),
        f"Contours of productive time (ETTR) over the time between failures and the time to come back. {title}.",
        f"The mark is the scenario, {focus.name}; lines are {listed([f'{100 * level:g}' for level in levels])} % of "
        "productive time.",
        table,
    )
    return Section("frontier", title, (f"All of it is of {focus.name}. {_WORDS}",), (picture,), _notes(focus, now))


def asked_level(sweep: dict[str, Any] | None) -> float | None:
    """Return the share of productive time that a study asks to reach [-], if it asks for one."""
    for answer in () if sweep is None else sweep["answers"]:
        level = answer["data"].get("at_least")
        if answer["ask"] == "threshold" and answer["data"].get("metric") == "ettr" and isinstance(level, float):
            return level if 0 < level < 1 else None
    return None


def _told(now: float, answers: dict[float, float | None], asked: float | None, name: str) -> str:
    """Return what it takes for a level that is not reached, or how far failures may be more frequent.

    Of the level that is asked for, or else of the lowest that is not reached.
    """
    missed = [level for level in (LEVELS if asked is None else (asked,)) if now < level]
    where = f"with {name}" if name else "here"
    if missed:
        level = missed[0]
        factor = answers[level]
        if factor is None:
            return f"{_percent(level)} of productive time is out of reach {where}, however rare failures are"
        if math.isinf(factor):
            factor_text = f"more than {FACTORS[-1]:g} times"
            return f"{_percent(level)} of productive time takes failures {factor_text} as rare as {where}"
        return f"{_percent(level)} of productive time takes failures {_times(factor)} as rare as {where}"
    level = LEVELS[-1] if asked is None else asked
    factor = answers[level]
    times = _times(1 / factor) if factor else f"more than {1 / FACTORS[0]:g} times"
    return f"failures could be {times} as frequent as {where} before productive time falls below {_percent(level)}"


def _chart(title: str, requirement: Requirement, levels: tuple[float, ...]) -> Contours:
    """Return the plane."""
    factors, pauses, grid = requirement.fine()
    ticks = tuple((2.0**power, f"{2.0**power:g}") for power in range(-2, 5))
    return Contours(
        title,
        "%",
        Scale("time between failures, relative to the scenario", is_log=True, ticks=ticks),
        Scale("minutes from a failure to stepping again"),
        factors,
        tuple(pause / _MINUTE for pause in pauses),
        tuple(tuple(100 * value for value in row) for row in grid),
        tuple(100 * level for level in levels),
        ("this scenario", 1.0, requirement.pauses[SCALES.index(1.0)] / _MINUTE),
    )


def _table(focus: Focus, requirement: Requirement, answers: dict[float, float | None]) -> Grid:
    """Return the factors that the levels take, as fast as now and twice as fast."""
    mtti = focus.prepared.jobs[0].mtti
    name = focus.name
    now, half = (time_text(requirement.pauses[SCALES.index(scale)]) for scale in (1.0, _HALF))
    rows = [
        (
            _percent(level),
            _needed(answers[level], mtti),
            _needed(requirement.factor_for(level, _HALF), mtti),
        )
        for level in answers
    ]
    return Grid(
        "How long it must run between interruptions",
        (
            Column("productive time"),
            Column(f"coming back in {now}, as here", False),
            Column(f"coming back in {half}", False),
        ),
        tuple(rows),
        note=f"By the formula the job of {name} is interrupted every {time_text(mtti)} of running.",
    )


def _needed(factor: float | None, mtti: float) -> str:
    """Return a factor in words, with the time between interruptions [s]."""
    if factor is None:
        return "out of reach: saves alone cost more"
    if factor == 0:
        return f"less than {FACTORS[0]:g} times ({time_text(FACTORS[0] * mtti)})"
    if math.isinf(factor):
        return f"more than {FACTORS[-1]:g} times ({time_text(FACTORS[-1] * mtti)})"
    return f"{_times(factor)} ({time_text(factor * mtti)})"


def _notes(focus: Focus, now: float) -> tuple[str, ...]:
    """Return what the formula is, and how far it is from the simulation."""
    found = focus.document["metrics"]["ettr"]
    simulated = focus.document["closed_form"]["simulated"]
    notes = ["A formula for the long run, not a simulation: between the places at which it was asked, it is smooth."]
    if found["mean"] is not None:
        told = f"For the scenario it says {_SHARE.plain(now)} where the simulation says "
        ci95 = None if found["mean_ci95"] is None or None in found["mean_ci95"] else tuple(found["mean_ci95"])
        notes.append(f"{told}{_SHARE.value(found['mean'], ci95)}.")
        if simulated is not None and simulated["replications"] < focus.wanted:
            notes.append(f"The simulation is of {simulated['replications']} replications, played again.")
    broken = focus.document["closed_form"]["assumptions"]
    if broken:
        notes.append(f"What the formula takes for granted and the scenario breaks: {'; '.join(broken)}.")
    return tuple(notes)


def _times(factor: float) -> str:
    """Return a factor in words; near 1 with a digit more."""
    return f"{factor:.2f} times" if 0.9 < factor < 1.1 else f"{factor:.2g} times"


def _percent(level: float) -> str:
    return f"{100 * level:g} %"
