"""What a cell of a study comes to: its mean and how sure that is, the luck of one run, and what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.statistics import summarise_ratio

if TYPE_CHECKING:
    from analysis.statistics import Interval
    from analysis.study.table import Cell

__all__ = ["CellSummary", "summary_of"]


class CellSummary(NamedTuple):
    """One metric of a cell. Three kinds of doubt stay apart: whatever the data do not support is ``None``.

    Parameters
    ----------
    mean
        The metric at the central values of what is unknown; ratios are ratios of sums.
    ci95
        Its 95 % interval: the Monte Carlo error, which shrinks with more replications.
    method
        How the interval was made: ``t``, ``bca`` or ``exact``; empty without one.
    std, p05, p50, p95
        The luck of one run.
    band90
        Where the mean is with a probability of 90 % as far as the distributions of unknown inputs tell.
    replications
        How many there are at the central values.
    censored, never_started
        Those in which a job was not finished at the horizon, or never got its nodes.
    """

    mean: float | None
    ci95: Interval | None
    method: str
    std: float | None
    p05: float | None
    p50: float | None
    p95: float | None
    band90: Interval | None
    replications: int
    censored: int
    never_started: int


def summary_of(cell: Cell, metric: str) -> CellSummary | None:
    """Return the summary of one metric of a cell; ``None`` if the cell has no such metric."""
    ratios = cell.stated.metrics.get(metric)
    if not ratios:
        return None
    found = summarise_ratio([ratio.amount for ratio in ratios], [ratio.base for ratio in ratios])
    return CellSummary(
        found.mean,
        found.mean_ci95,
        "t" if found.mean_ci95 else "",
        found.std,
        found.p05,
        found.p50,
        found.p95,
        None,
        found.n,
        cell.stated.censored,
        cell.stated.never_started,
    )
