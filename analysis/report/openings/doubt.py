"""How sure an answer is, in sentences: three doubts that are never merged.

Chance is what a mean over some runs leaves open, luck how far single runs lie apart, and what is not known exactly are
inputs that rest on a few observations or on guesses (docs/explanation/what-we-do-not-know.md).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analysis.answers.words import capital, listed
from analysis.report.openings.numbers import COUNT, number, ranged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.answers.words import Form
    from analysis.report.openings.numbers import Estimate, Places, Traced
    from analysis.report.words import Words
    from sim import Scenario

__all__ = [
    "EXACTLY",
    "MODEL",
    "PRICED",
    "RECORDED",
    "chance",
    "luck",
    "more_runs",
    "not_covered",
    "not_known",
    "stated",
]

_STATED = "This holds at exactly the stated {}; how well those are known is not in it."
EXACTLY = _STATED.format("failure rates and times")
"""For what rests on no unknown inputs."""

PRICED = _STATED.format("failure rates, times and prices")
"""The same where money is spoken of."""

RECORDED = "This holds for exactly the recorded failures and the stated times; another period has other failures."
"""For a log that is replayed."""

MODEL = (
    "Failures of kinds that are not described are not in it, nor is that the simulator itself may be wrong: "
    "ettrick validate holds it against published measurements."
)
"""What no result covers."""

_MOST_NOTES, _MOST_ASSUMPTIONS = 2, 3
_OWN_DETECTION = re.compile(r"recovery '(.+)' brings observers; the scenario's own detection is used instead")
"""The warning that a recovery does not detect failures in its own way."""


def stated(scenario: Scenario | None, *, priced: bool = False) -> str:
    """Return at what exactly something holds: at stated rates, with prices if money is told, or for a recorded log."""
    if scenario is not None and any(source.use == "replay" for source in scenario.failures):
        return RECORDED
    return PRICED if priced else EXACTLY


def not_known(places: Places, *summary: str | int, form: Form, what: str, otherwise: str = EXACTLY) -> Words:
    """Return how far what is not known exactly moves a value; or that it holds at exactly what is stated.

    Parameters
    ----------
    places
        The document.
    summary
        Keys of a summary, which may have a ``band90``.
    form
        How the value is told.
    what
        What the value is, as the subject of a sentence.
    otherwise
        What is said where all is known exactly.
    """
    band = places.ends(*summary, "band90")
    if band is None:
        return (otherwise,)
    start = "Some inputs are not known exactly: over what they may be, "
    return (start, what, " is ", *ranged(*band, form), " in nine cases of ten.")


def chance(runs: Traced | None, found: Estimate | None) -> Words:
    """Return what the range beside a mean is: what chance leaves open in so many runs; or why there is none."""
    if runs is None or found is None:
        return ()
    if runs.value == 1:
        return ("It comes from a single simulated run: what chance would change is not known.",)
    if found.interval is None:
        return ("All ", number(runs, COUNT), " simulated runs come to the same, so that no range stands beside it.")
    return (
        "The range beside a mean is what chance leaves open in ",
        number(runs, COUNT),
        " simulated runs: nineteen ranges of twenty hold the mean of all possible runs.",
    )


def luck(places: Places, *summary: str | int, form: Form) -> Words:
    """Return how far single runs lie apart, which no knowledge makes less; nothing where there are too few to tell."""
    low, high = places.at(*summary, "p05"), places.at(*summary, "p95")
    if low is None or high is None or low.value == high.value:
        return ()
    return ("A single run is a matter of luck: nine of ten come to ", *ranged(low, high, form), ".")


def more_runs(needed: Traced | None) -> Words:
    """Return how many runs in all would tell what is not resolved; ``None`` stands for more than ten thousand."""
    if needed is None:
        return ("not even ten thousand simulated runs would tell",)
    return ("about ", number(needed, COUNT), " simulated runs would tell")


def not_covered(notes: Iterable[str], warnings: Iterable[str], assumptions: Iterable[str]) -> tuple[Words, ...]:
    """Return what an answer does not cover: in the words of the results, and what no result covers.

    What belongs to these numbers comes first; of assumptions the shortest, because all of them stand further down.
    Warnings come behind both: they are written for who wrote the scenario.
    """
    noted, warned = list(dict.fromkeys(notes))[:_MOST_NOTES], _plainly(warnings)[:_MOST_NOTES]
    taken = sorted(dict.fromkeys(assumptions), key=len)
    found = [(f"{capital(text)}.",) for text in noted]
    found += [(f"Assumed: {text}.",) for text in taken[:_MOST_ASSUMPTIONS]]
    if len(taken) > _MOST_ASSUMPTIONS:
        found.append(("More is assumed; all of it is listed with its source further down.",))
    found += [(f"{capital(text)}.",) for text in warned]
    return (*found, (MODEL,))


def _plainly(warnings: Iterable[str]) -> list[str]:
    """Return warnings for who did not write the scenario: what several recoveries have in common is told once."""
    known = list(dict.fromkeys(warnings))
    unseen = [match[1] for text in known if (match := _OWN_DETECTION.fullmatch(text))]
    others = [text for text in known if not _OWN_DETECTION.fullmatch(text)]
    if not unseen:
        return others
    return [f"failures are detected as the scenario says, not in the own way of {listed(unseen)}", *others]
