"""Where a condition holds along one line of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.answers.curve import Curve
from analysis.answers.places import place_text
from analysis.cells import number_of
from analysis.metrics import contributions
from analysis.study.summary import FEWEST_DRAWS, CellSummary, summary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.answers.curve import Crossing
    from analysis.answers.places import Line
    from analysis.statistics import Interval
    from analysis.study.table import Cell, Table

__all__ = ["Row", "Verdict", "reason_of", "rows_of", "verdict_of"]


class Row(NamedTuple):
    """One value of an axis, and what a metric is there."""

    label: str
    number: float
    summary: CellSummary
    cell: Cell


@dataclass(frozen=True)
class Verdict:
    """Where a condition holds along one line.

    Parameters
    ----------
    others, where
        The values of the other axes, by name and in words.
    rows
        The values that have a mean, in order of the axis.
    silent
        Labels of the values without, and why.
    level, is_least
        The condition: a value, and whether the metric has to reach it (or else must not pass it).
    crossings
        Where it begins or ends to hold, with 95 % intervals (the Monte Carlo error).
    bands
        For each of them, between which places it is with a probability of 90 % as far as unknown inputs tell; an end is
        ``None`` where it is beyond the range, the whole where there are not enough draws.
    sure
        For each row, whether it holds there with its whole interval.
    is_unknown
        Whether the band of unknown inputs had to be clear of the value too.
    """

    others: dict[str, str]
    where: str
    rows: tuple[Row, ...]
    silent: dict[str, str]
    level: float
    is_least: bool
    crossings: tuple[Crossing, ...]
    bands: tuple[tuple[float | None, float | None] | None, ...]
    sure: tuple[bool, ...]
    is_unknown: bool

    @property
    def holds(self) -> tuple[bool, ...]:
        """For each row, whether the condition holds there by the mean."""
        return tuple(_is_met(row.summary.mean or 0.0, self.level, self.is_least) for row in self.rows)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "at": self.others,
            "points": [
                {
                    "value": row.label,
                    "number": row.number,
                    "mean": row.summary.mean,
                    "mean_ci95": row.summary.ci95,
                    "band90": row.summary.band90,
                    "holds": holds,
                    "holds_for_sure": sure,
                }
                for row, holds, sure in zip(self.rows, self.holds, self.sure, strict=True)
            ],
            "crossings": [
                {
                    "at": crossing.at,
                    "at_ci95": [crossing.low, crossing.high],
                    "band90": band,
                    "between": [row.label for row in self.rows[crossing.before : crossing.before + 2]],
                    "begins": crossing.rises == self.is_least,
                }
                for crossing, band in zip(self.crossings, self.bands, strict=True)
            ],
            "without_mean": self.silent,
        }


def rows_of(line: Line, position: int, metric: str) -> tuple[tuple[Row, ...], dict[str, str]]:
    """Return the values of a line that have a mean of a metric, and of the others why they have none."""
    rows, silent = [], {cell.values[position].label: reason_of(cell, metric) for cell in line.missing}
    for cell in line.cells:
        value, summary = cell.values[position], summary_of(cell, metric)
        if summary is not None and summary.mean is not None:
            rows.append(Row(value.label, value.number or 0.0, summary, cell))
        else:
            silent[value.label] = reason_of(cell, metric)
    return tuple(rows), silent


def reason_of(cell: Cell, metric: str) -> str:
    """Return why a cell has no mean of a metric, in words."""
    if cell.trouble:
        return cell.trouble
    summary = summary_of(cell, metric)
    if summary is not None and summary.censored:
        return f"a job was not finished in {number_of(summary.censored, 'replication')}"
    return "no mean"


def verdict_of(
    table: Table, line: Line, along: str, metric: str, level: float, *, is_log: bool, is_least: bool, is_unknown: bool
) -> Verdict:
    """Return where a metric is at least, or at most, a value along a line."""
    rows, silent = rows_of(line, table.position(along), metric)
    # Read upside down, "at most" is "at least".
    sign = 1.0 if is_least else -1.0
    numbers = tuple(row.number for row in rows)
    intervals = tuple(_turned(row.summary.ci95, sign) for row in rows)
    curve = Curve(numbers, tuple(sign * (row.summary.mean or 0.0) for row in rows), intervals, is_log)
    crossings = tuple(crossing._replace(rises=crossing.rises == is_least) for crossing in curve.crossings(sign * level))
    drawn = _drawn_means(rows, metric)
    bands = tuple(
        None if drawn is None else _band(drawn * sign, curve, sign * level, crossing, rises=crossing.rises == is_least)
        for crossing in crossings
    )
    sure = tuple(
        _is_clear(row.summary.ci95, level, is_least)
        and (not is_unknown or _is_clear(row.summary.band90, level, is_least))
        for row in rows
    )
    where = place_text(table, line.others)
    return Verdict(line.others, where, rows, silent, level, is_least, crossings, bands, sure, is_unknown)


def _turned(interval: Interval | None, sign: float) -> Interval | None:
    if interval is None:
        return None
    low, high = sorted(sign * end for end in interval)
    return low, high


def _is_met(value: float, level: float, is_least: bool) -> bool:
    return value >= level if is_least else value <= level


def _is_clear(interval: Interval | None, level: float, is_least: bool) -> bool:
    return interval is not None and _is_met(interval[0] if is_least else interval[1], level, is_least)


def _drawn_means(rows: Sequence[Row], metric: str) -> np.ndarray | None:
    """Return the means at each draw of what is unknown, shape (draws, rows); ``None`` if not all of them have one.

    Each is the mean at the central values, moved by what the draw changes over the same replications.
    """
    found = []
    for row in rows:
        stated = row.cell.stated.metrics[metric]
        means = []
        for outcome in row.cell.drawn:
            drawn = outcome.metrics.get(metric, ())
            count = min(len(drawn), len(stated))
            ours, theirs = contributions(drawn[:count]), contributions(stated[:count])
            if ours is None or theirs is None:
                return None
            means.append((row.summary.mean or 0.0) + float((ours - theirs).mean()))
        found.append(means)
    least = min((len(means) for means in found), default=0)
    return np.array([means[:least] for means in found]).T if least >= FEWEST_DRAWS else None


def _band(
    drawn: np.ndarray, curve: Curve, level: float, crossing: Crossing, *, rises: bool
) -> tuple[float | None, float | None]:
    """Return between which places a crossing is in 90 % of all draws; ``None`` for an end beyond the range."""
    places = []
    for means in drawn:
        mine = Curve(curve.numbers, tuple(means.tolist()), (None,) * len(means), curve.is_log).crossings(level)
        alike = [other.at for other in mine if other.rises == rises]
        if alike:
            places.append(min(alike, key=lambda at: abs(at - crossing.at)))
        else:
            # Where the condition holds at the end to which the crossing leads, it began before the range.
            places.append(-math.inf if (means[-1] >= level) == rises else math.inf)
    low, high = np.quantile(places, [0.05, 0.95], method="inverted_cdf").tolist()
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None
