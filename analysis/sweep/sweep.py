"""All points of a study, played and put into a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.study.table import Cell, Table
from analysis.sweep.campaign import Again

if TYPE_CHECKING:
    from analysis.study.table import Outcome
    from analysis.sweep.campaign import Campaign

__all__ = ["REPLICATIONS", "kept_metrics", "sweep"]

REPLICATIONS = 16
"""Replications of a point, unless the study says how many."""


def sweep(campaign: Campaign) -> Table:
    """Play every point of a study, but for what the journal has, and return the table of its results."""
    study = campaign.loaded.study
    count = study.replications or REPLICATIONS
    campaign.play(Again(campaign.loaded.points), count)
    metrics = kept_metrics(study)
    cells: list[list[Outcome]] = []
    for point in campaign.loaded.points():
        if point.draw == 0:
            cells.append([])
        cells[-1].append(campaign.outcome(point, count, metrics))
    found = tuple(Cell(first, tuple(drawn)) for first, *drawn in cells)
    return Table(study.vary, found, metrics, study.seed or 1)


def kept_metrics(study: object) -> tuple[str, ...]:
    """Return the metrics that the answers of a study need, the headline first."""
    from analysis.study.model import Study

    assert isinstance(study, Study)
    asked = (name for question in study.questions for name in question.metrics)
    return tuple(dict.fromkeys((*study.metrics, *asked)))
