"""Which of many is the best, and which others may be: intervals that hold for all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.statistics import Interval
    from sim import Ratio

__all__ = ["Ranking", "ranking_of"]


class Ranking(NamedTuple):
    """Candidates in order of a metric, on the same replications.

    Parameters
    ----------
    order
        Positions of the candidates, best first by their means; those without a mean are left out.
    behind
        For each of `order`, how far it is from the best (never negative), and the interval of that. All intervals of
        the list hold together with a probability of 95 %, whichever candidate the data made the best.
    may_be_best
        Positions of those that are not resolved as worse than another; the best is always among them.
    replications_to_resolve
        How many replications would leave one alone if means and spreads stay as they are; ``None`` for more than
        `analysis.paired.MANY`, and where nothing is left to resolve.
    """

    order: tuple[int, ...]
    behind: tuple[tuple[float, Interval], ...]
    may_be_best: tuple[int, ...]
    replications_to_resolve: int | None


def ranking_of(rows: Sequence[Sequence[Ratio]], *, lowest: bool) -> Ranking | None:
    """Return the ranking of several candidates by a metric.

    Parameters
    ----------
    rows
        For each candidate its replications; entry i of each comes from replication i.
    lowest
        Whether the lowest value is the best.

    Returns
    -------
    Ranking or None
        ``None`` if no candidate has a mean, or there are fewer than two replications.
    """
    raise NotImplementedError
