"""How far two cells are apart on the same failures, with the luck that both had taken out where it is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.paired import MANY, difference

if TYPE_CHECKING:
    from analysis.answers.words import Form
    from analysis.paired import Difference
    from analysis.study.table import Cell

__all__ = ["difference_data", "mean_of", "versus", "versus_text"]


def mean_of(cell: Cell, metric: str) -> float | None:
    """Return the mean of a metric of a cell, a ratio of sums, without what `summary_of` takes its time for."""
    ratios = cell.stated.metrics.get(metric, ())
    amount, base = math.fsum(ratio.amount for ratio in ratios), math.fsum(ratio.base for ratio in ratios)
    return amount / base if base and math.isfinite(amount) else None


def versus(ours: Cell, theirs: Cell, metric: str) -> tuple[Difference, int] | None:
    """Return by how much a metric of a cell is above that of another, and over how many common replications.

    ``None`` where either has too few replications, or no mean.
    """
    first, second = ours.stated.metrics.get(metric, ()), theirs.stated.metrics.get(metric, ())
    count = min(len(first), len(second))
    pairs = list(zip(ours.stated.luck[:count], theirs.stated.luck[:count], strict=False))
    # What is common to both: the luck of one alone may hang on a few replications in which nodes ran out.
    luck = [tuple(map(sum, zip(*pair, strict=True))) for pair in pairs] if len(pairs) == count else []
    found = difference(first[:count], second[:count], luck)
    return None if found is None else (found, count)


def versus_text(found: Difference, count: int, form: Form) -> str:
    """Return a difference in words, and how many replications would resolve it where it is not."""
    text = form.change(found.mean, found.ci95)
    if found.resolved:
        return text
    if found.ci95[0] == found.ci95[1]:
        return "the same in every replication"
    needed = found.replications_to_resolve
    more = f"more than {MANY:,}" if needed is None else f"about {max(needed - count, 1):,} more"
    taken = found.controlled
    if taken is not None and not taken.ci95[0] <= 0 <= taken.ci95[1]:
        without = form.change(taken.mean, taken.ci95)
        return f"{text}, not resolved; with the luck of the failures taken out {without}"
    return f"{text}, not resolved at this precision; {more} replications would"


def difference_data(found: Difference | None) -> dict[str, Any] | None:
    """Return a difference as plain data."""
    if found is None:
        return None
    return found._asdict() | {"controlled": None if found.controlled is None else found.controlled._asdict()}
