"""Which of many lines a picture shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.sections.axes import Axis, Line, best_of, mean_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_LINES", "few_lines"]

MOST_LINES = 8
"""Lines that can be told apart in a picture."""


def few_lines(lines: Sequence[Line], others: Sequence[Axis], metric: str) -> tuple[list[Line], str]:
    """Return as many lines as a picture has room for, and in words which ones these are; empty words for all.

    Where lines differ in several axes those are shown that differ from the best line in one of them alone: in that
    which moves the metric most. Else it is the best ones.

    Parameters
    ----------
    lines
        All of them.
    others
        The axes that they differ in.
    metric
        By which lines are ranked.
    """
    if len(lines) <= MOST_LINES:
        return list(lines), ""
    ranked = _ranked(lines, metric)
    if len(others) > 1:
        sets = [(axis, _apart_in(axis, lines, ranked[0])) for axis in others]
        axis, found = max(sets, key=lambda pair: _spread(pair[1], metric))
        if len(found) > 1:
            fixed = ", ".join(other.phrase(ranked[0].at[other.name]) for other in others if other is not axis)
            kept = _even(found)
            part = f" {len(kept)} of its {len(found)} values are shown." if len(kept) < len(found) else ""
            named = [line._replace(name=axis.told(line.at[axis.name])) for line in kept]
            return named, f"One line for each {axis.title}, with {fixed} as in the best combination.{part}"
    best = ranked[:MOST_LINES]
    return [line for line in lines if line in best], f"Of {len(lines)} lines the {MOST_LINES} best are shown."


def _ranked(lines: Sequence[Line], metric: str) -> list[Line]:
    """Return lines by the mean rank of their cells, best first."""
    cells = [cell for line in lines for cell in line.cells]
    rank = {id(cell): position for position, cell in enumerate(best_of(cells, metric))}

    def place(line: Line) -> float:
        return sum(rank.get(id(cell), len(rank)) for cell in line.cells) / len(line.cells)

    return sorted(lines, key=place)


def _apart_in(axis: Axis, lines: Sequence[Line], best: Line) -> list[Line]:
    """Return the lines that differ from the best one in an axis alone, and that one itself."""
    return [line for line in lines if all(line.at[name] == best.at[name] for name in line.at if name != axis.name)]


def _spread(lines: Sequence[Line], metric: str) -> float:
    """Return how far lines are apart, by their means over all places."""
    means = []
    for line in lines:
        values = [value for cell in line.cells if (value := mean_of(cell, metric)) is not None]
        means += [sum(values) / len(values)] if values else []
    return max(means) - min(means) if means else 0.0


def _even(lines: Sequence[Line]) -> list[Line]:
    """Return as many lines as there is room for, evenly chosen."""
    count = len(lines)
    if count <= MOST_LINES:
        return list(lines)
    return [lines[round(index * (count - 1) / (MOST_LINES - 1))] for index in range(MOST_LINES)]
