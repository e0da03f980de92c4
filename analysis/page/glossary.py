"""What the words of the field mean: the glossary of the first screen and of the documentation."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.metrics import BUCKETS, METRICS
from ettrick.analysis.page.account import cause_name
from ettrick.analysis.page.model import plain
from ettrick.sim import NO_FAILURE
from ettrick.sim.yamlfile import load

if TYPE_CHECKING:
    from ettrick.analysis.page.model import FirstScreen


class Term(NamedTuple):
    """A term, the pattern that recognises it in a text, what it means, and the page of the documentation on it."""

    name: str
    pattern: str
    meaning: str
    page: str


@functools.cache
def terms() -> tuple[Term, ...]:
    """Return the terms of the glossary, in alphabetical order."""
    table: Any = load(Path(__file__).with_suffix(".yaml")).data
    return tuple(Term(name, **entry) for name, entry in table.items())


def bucket_words(bucket: str) -> str:
    """Return what time goes to, in words that stand after "goes to"."""
    return BUCKETS[bucket].lost_to if bucket in BUCKETS else bucket.replace("_", " ")


def cause_words(cause: str) -> str:
    """Return what a cause of lost time is called."""
    return "no failure at all" if cause == NO_FAILURE else cause_name(cause)


def metric_words(metric: str) -> str:
    """Return what a metric is called in a sentence for people."""
    return METRICS[metric].plain if metric in METRICS else metric.replace("_", " ")


def glossed(first_screen: FirstScreen) -> FirstScreen:
    """Return a first screen with the meaning of each term that stands on it, in the order of the text."""
    parts = [first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered]
    text = " ".join([first_screen.question, *(plain(words) for words in parts)])
    found = []
    for term in terms():
        match = re.search(rf"(?<![\w-])(?:{term.pattern})(?![\w])", text, re.IGNORECASE)
        if match is not None:
            found.append((match.start(), term.name, term.meaning))
    return replace(first_screen, glossary=tuple((term, meaning) for _, term, meaning in sorted(found)))
