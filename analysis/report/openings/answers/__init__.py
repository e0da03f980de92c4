"""What the answer to each kind of question says on a first screen: one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.openings.answers.best import best
from analysis.report.openings.answers.compare import compare
from analysis.report.openings.answers.crossover import crossover
from analysis.report.openings.answers.pareto import pareto
from analysis.report.openings.answers.rows import Rows
from analysis.report.openings.answers.sensitivity import sensitivity
from analysis.report.openings.answers.threshold import threshold
from analysis.report.openings.answers.told import Asked, Told
from analysis.report.openings.answers.trend import trend

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.report.openings.traced import Places

__all__ = ["ANSWERS", "Asked", "Rows", "Told", "answers_of"]

ANSWERS: dict[str, Callable[[Asked], Told | None]] = {
    "best": best,
    "compare": compare,
    "crossover": crossover,
    "pareto": pareto,
    "sensitivity": sensitivity,
    "threshold": threshold,
    "trend": trend,
}
"""By kind of question: what its answer says, or ``None`` where there is nothing to say."""


def answers_of(places: Places, rows: Rows | None = None) -> list[tuple[Asked, Told]]:
    """Return what the answers of a study say, in order; those that say nothing are left out."""
    found = []
    for position, answer in enumerate(places.get("answers")):
        asked = Asked(places, position, rows or Rows())
        told = ANSWERS[answer["ask"]](asked)
        if told is not None:
            found.append((asked, told))
    return found
