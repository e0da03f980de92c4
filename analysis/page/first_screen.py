"""The first screen of every report: six parts, and the sentences that say how sure its answer is.

`first_screen` puts the parts together: the question, the answer with its number, how certain that is, the picture that
compares, the causes, and what to ask next. `stated`, `not_known`, `chance`, `variability`, `more_runs` and
`not_covered` are the sentences of certainty.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import COUNT, capital, listed
from ettrick.analysis.page.glossary import terms
from ettrick.analysis.page.model import FirstScreen, joined, plain
from ettrick.analysis.page.sourced import number, ranged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ettrick.analysis.amounts import NumberFormat
    from ettrick.analysis.page.model import Figure, Words
    from ettrick.analysis.page.sourced import SourcedEstimate, SourcedNumber, SourceDocument
    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Scenario

_MOST_CAUSES = 3


def first_screen(
    question: str,
    answer: Words,
    certainty: Iterable[Words],
    picture: Figure | None,
    causes: Iterable[Words],
    not_covered: tuple[Words, ...],
    *,
    most_causes: int = _MOST_CAUSES,
) -> FirstScreen:
    """Return a first screen, with the meaning of each term that stands on it, in the order of the text.

    Texts without words are left out.
    """
    drivers = tuple(words for words in causes if words)[:most_causes]
    screen = FirstScreen(question, answer, joined(certainty), picture, drivers, not_covered)
    text = " ".join([question, *map(plain, (answer, screen.doubt, *drivers, *not_covered))])
    glossary = []
    for term in terms():
        match = re.search(rf"(?<![\w-])(?:{term.pattern})(?![\w])", text, re.IGNORECASE)
        if match is not None:
            glossary.append((match.start(), term.name, term.meaning))
    return replace(screen, glossary=tuple((name, meaning) for _, name, meaning in sorted(glossary)))


def screen_of_run(
    document: RunDocument,
    scenario: Scenario | None,
    answer: Words,
    certainty: Iterable[Words],
    picture: Figure | None,
    causes: Iterable[Words],
    *,
    about: str,
    most_causes: int = _MOST_CAUSES,
) -> FirstScreen:
    """Return the first screen of a run, whose question is the description of its scenario.

    `about` makes a question of a description that is none.
    """
    question = ("" if scenario is None else scenario.description.strip()) or document.scenario
    question = question if question.endswith("?") else f"{question.rstrip('.')}: {about}?"
    gaps = not_covered(document.notes, document.warnings, document.assumptions)
    return first_screen(question, answer, certainty, picture, causes, gaps, most_causes=most_causes)


# ----------------------------------------
# How sure an answer is, in sentences: three doubts that are never merged.
#
# Chance is what a mean over some runs leaves open, noise how far single runs lie apart, and what is not known exactly
# are inputs that rest on a few observations or on guesses (docs/explanation/uncertainty.md).

_STATED = "This holds at exactly the stated {}; how well those are known is not in it."
EXACTLY = _STATED.format("failure rates and times")  # for what rests on no unknown inputs
PRICED = _STATED.format("failure rates, times and prices")  # the same where money is spoken of

# For a log that is replayed.
RECORDED = "This holds for exactly the recorded failures and the stated times; another period has other failures."

# What no result covers.
MODEL = (
    "Failures of kinds that are not described are not in it, nor is that the simulator itself may be wrong: "
    "ettrick validate holds it against published measurements."
)

_MOST_NOTES, _MOST_ASSUMPTIONS = 2, 3

# The warning that a recovery does not detect failures in its own way.
_OWN_DETECTION = re.compile(r"recovery '(.+)' brings observers; the scenario's own detection is used instead")


def stated(scenario: Scenario | None, *, priced: bool = False) -> str:
    """Return for what exactly something holds: stated rates, with prices where there are some, or a recorded log."""
    if scenario is not None and any(source.use == "replay" for source in scenario.failures):
        return RECORDED
    return PRICED if priced else EXACTLY


def not_known(
    places: SourceDocument, *summary: str | int, form: NumberFormat, what: str, otherwise: str = EXACTLY
) -> Words:
    """Return how far what is not known exactly moves a value; or that it holds at exactly what is stated.

    The summary, which may have a ``band90``, is at some keys; `what` is the subject of the sentence.
    """
    band = places.ends(*summary, "band90")
    if band is None:
        return (otherwise,)
    start = "Some inputs are not known exactly: over what they may be, "
    return (start, what, " is ", *ranged(*band, form), " in nine cases of ten.")


def chance(runs: SourcedNumber | None, estimate: SourcedEstimate | None) -> Words:
    """Return what the range beside a mean is, or why there is none."""
    if runs is None or estimate is None:
        return ()
    if runs.value == 1:
        return ("It comes from a single simulated run: its sampling error is not known.",)
    if estimate.interval is None:
        return ("All ", number(runs, COUNT), " simulated runs come to the same, so that no range stands beside it.")
    return ("The range beside a mean is its 95 % confidence interval from ", number(runs, COUNT), " simulated runs.")


def variability(places: SourceDocument, *summary: str | int, form: NumberFormat) -> Words:
    """Return how far single runs lie apart, which no knowledge makes less; nothing where there are too few."""
    low, high = places.at(*summary, "p05"), places.at(*summary, "p95")
    if low is None or high is None or low.value == high.value:
        return ()
    return ("Run-to-run variability: nine of ten single runs come to ", *ranged(low, high, form), ".")


_MANY_RUNS = 500  # runs from which on something else than more of them is named too


def more_runs(needed: SourcedNumber | None) -> Words:
    """Return what would tell what is not resolved: so many runs in all, and what else where that is a great many.

    ``None`` stands for more than ten thousand.
    """
    if needed is None:
        return ("a longer horizon or a metric that scatters less may tell, not even ten thousand simulated runs would",)
    alternatives = " (or a longer horizon, or a metric that scatters less)" if needed.value >= _MANY_RUNS else ""
    return ("about ", number(needed, COUNT), f" simulated runs{alternatives} would tell")


def not_covered(notes: Iterable[str], warnings: Iterable[str], assumptions: Iterable[str]) -> tuple[Words, ...]:
    """Return what an answer does not cover: in the words of the results, and what no result covers.

    What belongs to these numbers comes first; of assumptions the shortest, because all of them stand further down.
    Warnings come behind both: they are written for who wrote the scenario.
    """
    noted, warned = list(dict.fromkeys(notes))[:_MOST_NOTES], list(dict.fromkeys(warnings))
    if unseen := [match[1] for text in warned if (match := _OWN_DETECTION.fullmatch(text))]:
        rest = [text for text in warned if not _OWN_DETECTION.fullmatch(text)]
        detection = f"failures are detected as the scenario says, not in the own way of {listed(unseen)}"
        warned = [detection, *rest]
    assumed = sorted(dict.fromkeys(assumptions), key=len)
    texts = [(f"{capital(text)}.",) for text in noted]
    texts += [(f"Assumed: {text}.",) for text in assumed[:_MOST_ASSUMPTIONS]]
    if len(assumed) > _MOST_ASSUMPTIONS:
        texts.append(("More is assumed; all of it is listed with its source further down.",))
    texts += [(f"{capital(text)}.",) for text in warned[:_MOST_NOTES]]
    return (*texts, (MODEL,))
