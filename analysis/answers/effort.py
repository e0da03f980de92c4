"""How many more replications would tell, in words."""

from __future__ import annotations

import math

from analysis.paired import MANY

__all__ = ["more_replications"]

FEWEST_FIRM = 10
"""Replications from which on a number of further ones is told: the spread of fewer is known to a factor of two."""


def more_replications(needed: int | None, count: int) -> str:
    """Return how many more replications it takes, such as ``about 160 more replications``.

    Means and spreads are supposed to stay as they are; how well these are known decides how firmly it is told.

    Parameters
    ----------
    needed
        How many it takes in all; ``None`` for more than `analysis.paired.MANY`.
    count
        How many there are.
    """
    if needed is None:
        return f"more than {MANY:,} replications"
    more = max(needed - count, 1)
    if count < FEWEST_FIRM:
        sizes = ((10, "a few"), (100, "tens"), (1000, "hundreds"), (math.inf, "thousands"))
        return f"{next(word for limit, word in sizes if more < limit)} more replications"
    if more == 1:
        return "one more replication"
    step = 10 ** max(len(str(more)) - 2, 0)
    return f"about {math.ceil(more / step) * step:,} more replications"
