"""The reason why a design is not the answer, for a user who expected another one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from ettrick.analysis.optimize.statement import is_tie
from ettrick.analysis.results.studies import ExplainedDesign
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ettrick.analysis.optimize.evaluate import Evaluator, Trial
    from ettrick.analysis.optimize.race import Raced

    Status = Literal["answer", "tie", "worse", "misses a condition", "cannot run", "below the bound", "not simulated"]


class UnknownDesignError(ValueError):
    """A question about a design that no study has."""


def wanted_of(text: str, axes: Iterable[str]) -> dict[str, str]:
    """Return the values that a text ``axis=value,axis=value`` asks about.

    Raises
    ------
    UnknownDesignError
        If it is no such text, or names an axis that the study does not have.
    """
    names, wanted = list(axes), dict[str, str]()
    for part in text.split(","):
        name, equals, label = (piece.strip() for piece in part.partition("="))
        if not equals or not label:
            raise UnknownDesignError(f"'{part.strip()}' is not AXIS=VALUE, for example recovery=torchft-hsdp")
        if name not in names:
            raise UnknownDesignError(f"unknown axis '{name}'{suggest(name, names)}")
        wanted[name] = label
    return wanted


def explain(bench: Evaluator, raced: Raced, wanted: Mapping[str, str]) -> ExplainedDesign:
    """Return why the best design with some values is not the answer.

    Raises
    ------
    UnknownDesignError
        If no design of the space has such a value.
    """
    listing = raced.listing
    columns = [listing.names.index(name) for name in wanted]
    matching = [
        index
        for index, row in enumerate(listing.candidates)
        if all(row[column].label == label for column, label in zip(columns, wanted.values(), strict=True))
    ]
    if not matching:
        return _without_designs(raced, wanted)
    best = _best(raced, matching)
    bound = bench.problem.aims[0].score(float(raced.bound[best]))
    trial = raced.trials.get(best)
    difference = raced.difference(best)
    status = _status(raced, best)
    return ExplainedDesign(
        wanted=dict(wanted),
        values=bench.labels(listing.candidates[best]),
        status="worse" if status == "tie" and not is_tie(bench, difference) else status,
        difference=difference,
        bound=bound if math.isfinite(bound) else None,
        reason="" if trial is None else trial.trouble or _missed(bench, trial),
    )


def _best(raced: Raced, matching: list[int]) -> int:
    """Return the design to speak of: the answer, the best usable one by paired differences, else by the bound."""
    outcome = raced.outcome
    if outcome.best in matching:
        return outcome.best
    best = raced.best_of(index for index in matching if index in outcome.means)
    return max(matching, key=lambda index: float(raced.bound[index])) if best is None else best


def _status(raced: Raced, index: int) -> Status:
    """Return how a candidate ended."""
    outcome, trial = raced.outcome, raced.trials.get(index)
    if index == outcome.best:
        return "answer"
    if trial is None:
        is_below = outcome.best >= 0 and float(raced.bound[index]) <= outcome.means[outcome.best] + outcome.regret
        return "below the bound" if is_below else "not simulated"
    if trial.status != "evaluated":
        return trial.status
    return "tie" if index in (*outcome.ties, *outcome.unresolved) else "worse"


def _missed(bench: Evaluator, trial: Trial) -> str:
    """Return the first condition that the mean of a trial misses."""
    pairs = zip(bench.problem.conditions, trial.bounded, strict=True)
    return next((condition.text for condition, bound in pairs if not condition.is_met(bound.mean)), "")


def _without_designs(raced: Raced, wanted: Mapping[str, str]) -> ExplainedDesign:
    """Return why no design with some values is listed: the first complaint about one of them, if there is any."""
    listing = raced.listing
    blamed = [group for group in listing.infeasible if wanted.get(group.axis) == group.value]
    for name, label in wanted.items() if not blamed else ():
        column = listing.names.index(name)
        labels = list(dict.fromkeys(row[column].label for row in listing.candidates))
        if label not in labels and listing.kinds[name] != "layout":
            raise UnknownDesignError(f"{name} has no value '{label}'{suggest(label, labels)}")
    reason = f"{blamed[0].kind}: {blamed[0].first}" if blamed else (
        "it cannot be combined so, or another layout is as fast on as many GPUs or fewer"
    )  # fmt: skip
    return ExplainedDesign(wanted=dict(wanted), values=None, status="cannot run", reason=reason)
