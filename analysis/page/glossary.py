"""The words of the field and their meaning: the glossary of the first screen and of the documentation."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.metrics import BUCKETS, METRICS
from ettrick.sim import NO_FAILURE
from ettrick.sim.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Sequence


class Term(NamedTuple):
    """A term, the pattern that recognises it in a text, its meaning, the page on it, and the words that it replaces."""

    name: str
    pattern: str
    meaning: str
    page: str
    replaces: Sequence[str] = ()


@functools.cache
def terms() -> tuple[Term, ...]:
    """Return the terms of the glossary, in alphabetical order."""
    table: Any = load(Path(__file__).with_suffix(".yaml")).data
    return tuple(Term(name, **entry) for name, entry in table.items())


def bucket_words(bucket: str) -> str:
    """Return what time goes to, in words that stand after "goes to"."""
    return BUCKETS[bucket].words if bucket in BUCKETS else bucket.replace("_", " ")


# What is written in capitals in the name of a cause.
_ABBREVIATIONS = re.compile(r"\b(?:gpu|cpu|hbm[0-9]*|nic|nccl|sram|ssd|io|ecc|dpu|psu)\b")


def cause_name(cause: str) -> str:
    """Return what a cause is called."""
    if cause == NO_FAILURE:
        return "no failure"
    return _ABBREVIATIONS.sub(lambda match: match[0].upper(), cause.replace("_", " "))


def cause_words(cause: str) -> str:
    """Return what a cause of lost time is called."""
    return "no failure at all" if cause == NO_FAILURE else cause_name(cause)


def metric_words(metric: str) -> str:
    """Return what a metric is called in a sentence for people."""
    return METRICS[metric].plain if metric in METRICS else metric.replace("_", " ")
