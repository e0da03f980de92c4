"""The first screen of every report: six parts, and the sentences about the certainty of its answer.

`first_screen` assembles the parts: the question, the answer with its number, its certainty, the picture that
compares, the causes, and the limits. `stated`, `not_known`, `chance`, `variability`, `more_runs` and
`not_covered` are the sentences of certainty.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import COUNT, PERCENT, POINTS, capital, listed
from ettrick.analysis.metrics import is_share
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
# The certainty of an answer, in sentences: three kinds of doubt that are never merged.
#
# Chance is the sampling error of a mean, noise is how far single runs lie apart, and uncertain inputs are those that
# rest on a few observations or on guesses (docs/explanation/uncertainty.md).

_STATED = "This holds for exactly the stated {}; uncertainty in those is not included."
EXACTLY = _STATED.format("failure rates and times")  # for what rests on no unknown inputs
PRICED = _STATED.format("failure rates, times and prices")  # the same where money is spoken of

# For a log that is replayed.
RECORDED = "This holds for exactly the recorded failures and the stated times; another period will see other failures."

# What no result covers.
MODEL = (
    "Failure types that are not listed are not included, nor is error in the simulator itself; "
    "ettrick validate compares it with published measurements."
)

_MOST_NOTES, _MOST_ASSUMPTIONS = 2, 3

# The warning that a recovery does not detect failures in its own way.
_OWN_DETECTION = re.compile(r"recovery '(.+)' brings observers; the scenario's own detection is used instead")


def stated(scenario: Scenario | None, *, priced: bool = False) -> str:
    """Return the inputs for which an answer holds: stated rates, with prices where there are some, or a log."""
    if scenario is not None and any(source.use == "replay" for source in scenario.failures):
        return RECORDED
    return PRICED if priced else EXACTLY


def not_known(
    places: SourceDocument, *summary: str | int, form: NumberFormat, what: str, otherwise: str = EXACTLY
) -> Words:
    """Return how far uncertain inputs move a value; or that it holds for exactly the stated inputs.

    The summary, which may have a ``band90``, is at some keys; `what` is the subject of the sentence.
    """
    band = places.ends(*summary, "band90")
    if band is None:
        return (otherwise,)
    return ("Some inputs are uncertain: over their ranges, ", what, " is ", *ranged(*band, form),
            " in nine cases of ten.")  # fmt: skip


def chance(runs: SourcedNumber | None, estimate: SourcedEstimate | None) -> Words:
    """Return what the range after a mean is, or why there is none."""
    if runs is None or estimate is None:
        return ()
    if runs.value == 1:
        return ("It comes from a single replication, so its sampling error is unknown.",)
    if estimate.interval is None:
        return ("All ", number(runs, COUNT), " replications give the same value, so it has no range.")
    return ("The range after a mean is its 95 % confidence interval from ", number(runs, COUNT), " replications.")


def variability(places: SourceDocument, *summary: str | int, form: NumberFormat) -> Words:
    """Return how far single runs lie apart; nothing where there are too few."""
    low, high = places.at(*summary, "p05"), places.at(*summary, "p95")
    if low is None or high is None or low.value == high.value:
        return ()
    return ("Run-to-run variability: nine of ten single runs give ", *ranged(low, high, form), ".")


_MANY_RUNS = 500  # replications from which on another remedy is named too


def more_runs(needed: SourcedNumber | None) -> Words:
    """Return what would decide what is too close to call; ``None`` stands for more than ten thousand replications."""
    if needed is None:
        return ("a longer horizon needed: ten thousand replications are too few",)
    alternatives = " or a longer horizon" if needed.value >= _MANY_RUNS else ""
    return ("about ", number(needed, COUNT), f" replications{alternatives} needed")


def equal_within(places: SourceDocument, metric: str) -> Words:
    """Return that something is equal, and within what difference of a metric: that of its study."""
    key, form = ("points", POINTS) if is_share(metric) else ("part", PERCENT)
    tie = places.stated("tie", key)
    return ("equal within ", number(tie, form)._replace(text=form.exact(tie.value)))


def not_covered(notes: Iterable[str], warnings: Iterable[str], assumptions: Iterable[str]) -> tuple[Words, ...]:
    """Return what an answer does not cover: in the words of the results, and what no result covers.

    Notes on these numbers come first, then the shortest assumptions, because the report lists all of them, then
    warnings, which are for the author of the scenario.
    """
    noted, warned = list(dict.fromkeys(notes))[:_MOST_NOTES], list(dict.fromkeys(warnings))
    if unseen := [match[1] for text in warned if (match := _OWN_DETECTION.fullmatch(text))]:
        rest = [text for text in warned if not _OWN_DETECTION.fullmatch(text)]
        detection = f"the scenario sets how failures are detected, instead of {listed(unseen)}"
        warned = [detection, *rest]
    assumed = sorted(dict.fromkeys(assumptions), key=len)
    texts = [(f"{capital(text)}.",) for text in noted]
    texts += [(f"Assumed: {text}.",) for text in assumed[:_MOST_ASSUMPTIONS]]
    if len(assumed) > _MOST_ASSUMPTIONS:
        texts.append(("More assumptions are listed with their sources in the report.",))
    texts += [(f"{capital(text)}.",) for text in warned[:_MOST_NOTES]]
    return (*texts, (MODEL,))
