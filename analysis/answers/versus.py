"""How far two cells are apart on the same failures, with the luck that both had taken out where it is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.answers.effort import more_replications
from analysis.paired import difference, difference_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.answers.words import Form
    from analysis.paired import Difference
    from analysis.study.table import Cell
    from sim import Ratio

__all__ = ["common_rows", "difference_data", "mean_of", "versus", "versus_text"]


def common_rows(cells: Sequence[Cell], metric: str) -> list[Sequence[Ratio]]:
    """Return a metric of some cells over the first replications that all of them have; nothing of those without it.

    Cells need not have equally many: with a precision each has as many as it takes. What is said of several of them
    together rests on what they have in common, which is the same failures.
    """
    rows = [cell.stated.metrics.get(metric, ()) for cell in cells]
    count = min((len(ratios) for ratios in rows if ratios), default=0)
    return [ratios if len(ratios) <= count else ratios[:count] for ratios in rows]


def mean_of(cell: Cell, metric: str, count: int | None = None) -> float | None:
    """Return the mean of a metric of a cell, a ratio of sums, without what `summary_of` takes its time for.

    Over the first `count` replications, if that is given.
    """
    ratios = cell.stated.metrics.get(metric, ())[:count]
    amount, base = math.fsum(ratio.amount for ratio in ratios), math.fsum(ratio.base for ratio in ratios)
    return amount / base if base and math.isfinite(amount) else None


def versus(ours: Cell, theirs: Cell, metric: str, most: int | None = None) -> tuple[Difference, int] | None:
    """Return by how much a metric of a cell is above that of another, and over how many common replications.

    No more than `most` of them, if that is given. ``None`` where either has too few replications, or no mean.
    """
    first, second = common_rows((ours, theirs), metric)
    first, second = first[:most], second[:most]
    count = min(len(first), len(second))
    pairs = list(zip(ours.stated.luck[:count], theirs.stated.luck[:count], strict=False))
    # What is common to both: the luck of one alone may hang on a few replications in which nodes ran out.
    luck = [tuple(map(sum, zip(*pair, strict=True))) for pair in pairs] if len(pairs) == count else []
    found = difference(first, second, luck) if count else None
    return None if found is None else (found, count)


def versus_text(found: Difference, count: int, form: Form) -> str:
    """Return a difference in words, and how many replications would resolve it where it is not."""
    text = form.change(found.mean, found.ci95)
    if found.resolved:
        return text
    if found.ci95[0] == found.ci95[1]:
        return "the same in every replication"
    taken = found.controlled
    if taken is not None and not taken.ci95[0] <= 0 <= taken.ci95[1]:
        without = form.change(taken.mean, taken.ci95)
        return f"{text}, not resolved; with the luck of the failures taken out {without}"
    return f"{text}, not resolved at this precision; {more_replications(found.replications_to_resolve, count)} would"
