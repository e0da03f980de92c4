"""Why fresh failures confirm an answer, deny it, or do neither, and what would tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.cells import number_of
from analysis.intervals import PROBABILITIES
from analysis.optimize.estimate import replications_to_hold

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["why"]

_MOST = 100_000
"""Replications from which on a condition is not worth being resolved."""


def why(content: dict[str, Any]) -> Iterator[str]:
    """Yield for each condition and gain of a document that is not confirmed what speaks against it, a line each."""
    fresh = content["confirmation"]
    answer = fresh["trials"][0]
    if answer["trouble"]:
        yield f"the answer cannot run: {answer['trouble']}"
        return
    for found in answer["conditions"]:
        if found["verdict"] == "fails":
            yield f"{found['condition']} fails"
        elif found["verdict"] == "open":
            yield f"{found['condition']} is not resolved: {_what_would_tell(found, content)}"
    aim = content["aims"][0]
    gain = answer["gain"][aim["name"]]
    if gain is None or not fresh["as_it_is"]["met"]:
        return
    if gain["resolved"] and gain["mean"] < 0:
        yield "the scenario as it is is better"
    elif not gain["resolved"] and gain["ci95"][0] == gain["ci95"][1]:
        yield "the scenario as it is is as good in every replication"
    elif not gain["resolved"]:
        needed = gain["replications_to_resolve"]
        told = "" if needed is None else f": confirm: {needed} would show it, if mean and spread stay as they are"
        yield f"not resolved whether it is better than the scenario as it is{told}"


def _what_would_tell(found: dict[str, Any], content: dict[str, Any]) -> str:
    """Return how many replications, or draws, would leave the bound of an open condition outside of its interval."""
    draws, runs = content["draws"], content["confirmation"]["replications"]
    mean, bound, ends = found["mean"], found["bound"], found["ci95"]
    is_least = ">=" in found["condition"]
    is_chance = found["metric"] in PROBABILITIES
    if is_chance and draws:
        # Of P <= b it is the probability of the contrary that has to be at least 1 - b.
        fewest = replications_to_hold(1.0, bound if is_least else 1 - bound)
        if fewest is not None and min(draws, runs) < fewest:
            return f"to show it takes {fewest} draws and {fewest} replications at least"
    if ends is None:
        return "all replications are equal, which shows nothing of others"
    if mean == bound:
        return "the mean is the bound"
    if is_chance and not draws and is_least and mean > bound:
        needed = replications_to_hold(mean, bound)
    else:
        # An interval shrinks with the root of the replications; the side on which the bound lies counts.
        reach = ends[1] - mean if bound > mean else mean - ends[0]
        needed = math.ceil(runs * (reach / (bound - mean)) ** 2)
    if needed is None or needed > _MOST:
        return f"more than {_MOST:,} replications would be needed"
    if draws:
        return f"about {number_of(math.ceil(draws * needed / runs), 'draw')} and {needed:,} replications would tell"
    side = "" if (mean > bound) == is_least else ", which is that it fails,"
    return f"confirm: {needed} would show it{side} if mean and spread stay as they are"
