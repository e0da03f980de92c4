"""All points of a study, played and put into a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from analysis.at_equal import study_headline
from analysis.study.table import Cell, Table
from analysis.sweep.adaptive import play_until
from analysis.sweep.campaign import Again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.study.load import LoadedStudy
    from analysis.study.model import Study
    from analysis.study.table import Outcome
    from analysis.study.value import Point
    from analysis.sweep.campaign import Campaign

__all__ = ["REPLICATIONS", "HowFar", "kept_metrics", "play", "replications_of", "sweep", "table_of"]

HowFar: TypeAlias = "Callable[[Point], tuple[int, bool | None]]"
"""The replications of a point, and whether a precision that was asked for was reached; ``None`` if none was."""

REPLICATIONS = 16
"""Replications of a point, unless the study says how many."""


def replications_of(study: Study) -> int:
    """Return how many replications each point of a study has: with a precision, as many as before its decisions."""
    if study.precision is not None:
        return study.precision.least
    return study.replications or REPLICATIONS


def play(campaign: Campaign) -> HowFar:
    """Play every point of a study, but for what the journal has, and return how far each was played.

    Raises
    ------
    RequestError
        If a precision does not suit its metric.
    JournalError, CrewError, VersionError
        If an outcome cannot be written, or nobody can play.
    """
    study, points = campaign.loaded.study, Again(campaign.loaded.points)
    if study.precision is None:
        count = replications_of(study)
        campaign.play(points, count)
        return lambda _point: (count, None)
    found = play_until(campaign, points, study.precision, study.metrics[0])
    return lambda point: found[point.number]


def table_of(campaign: Campaign, played: HowFar) -> Table:
    """Return the table of a study that was played."""
    study = campaign.loaded.study
    metrics = kept_metrics(campaign.loaded)
    cells: list[list[Outcome]] = []
    for point in campaign.loaded.points():
        if point.draw == 0:
            cells.append([])
        count, precise = played(point)
        outcome = campaign.outcome(point, count, metrics)
        cells[-1].append(outcome if precise is None else replace(outcome, precise=precise))
    found = tuple(Cell(first, tuple(drawn)) for first, *drawn in cells)
    return Table(study.vary, found, metrics, 1 if study.seed is None else study.seed, _currency(campaign.loaded, found))


def sweep(campaign: Campaign) -> Table:
    """Play every point of a study, but for what the journal has, and return the table; errors as those of `play`."""
    return table_of(campaign, play(campaign))


def _currency(loaded: LoadedStudy, cells: Sequence[Cell]) -> str:
    """Return the currency of what things cost; empty without prices."""
    point = next((cell.stated.point for cell in cells if not cell.trouble), None)
    cost = None if point is None else loaded.scenario(point).cost
    return "" if cost is None else cost.currency


def kept_metrics(loaded: LoadedStudy) -> tuple[str, ...]:
    """Return the metrics that the answers of a study need, the headline first.

    Raises
    ------
    RequestError
        If unlike clusters are to be compared at what is not known of them.
    """
    study = loaded.study
    headline = () if study.at_equal is None else (study_headline(loaded),)
    asked = (name for question in study.questions for name in question.metrics)
    return tuple(dict.fromkeys((*headline, *study.metrics, *asked)))
