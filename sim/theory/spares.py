"""How many spare nodes keep a fixed number of nodes running for a given share of time, with and without repair crews.

A pool is R *required* nodes and s *spares*; it is short when more than s nodes are down. The *level* [-] is the share
of time for which it must not be. Spares are *hot* if they fail like the others (they are powered, or do other work)
and *cold* if they cannot fail before they are used. Swapping a node is immediate, and a node that is back is as good
as new. Laws are arrays with the probabilities of 0, 1, ..., R + s nodes down: `sim.theory.counts` reads them
(`enough_probability`, `expected_shortfall`, `exceedance`). Long-run values. Times [s], rates [1/s], probabilities [-].

Independence is the assumption to doubt: of 400 nodes of InfiniteHBD 31 were down at P99, where independent nodes with
the same mean give 17. Give a dispersion, or a run that has the bursts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.theory.availability import missing_nodes_pmf
from sim.theory.broadcast import FloatArray, non_negative, positive
from sim.theory.counts import enough_probability, from_ratios, inside, share, whole

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["crew_limited_pmf", "spares_needed"]

# A pool larger than this is not searched: the level is out of reach, or the input is wrong.
_MOST_SPARES = 2**20 - 1


def crew_limited_pmf(
    required: int, spares: int, failure_rate: float, repair_rate: float, crews: int, *, cold: bool = False
) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., R + s nodes are down when c crews repair one node each at a time.

    Birth-death chain in equilibrium: from k to k + 1 nodes down at rate ``(R + s - k) lambda`` (hot) or
    ``min(R, R + s - k) lambda`` (cold), back at ``min(k + 1, c) mu``. Assumes exponential lives and repairs, and that
    the nodes that are up go on failing while the pool is short. With a crew for every node the law of the repair time
    does not matter, only its mean.

    Parameters
    ----------
    required : int
        Nodes that must run, R.
    spares : int
        Nodes beyond those, s.
    failure_rate : float
        Failures of one node in unit time, lambda [1/s].
    repair_rate : float
        Repairs that one busy crew finishes in unit time, mu [1/s].
    crews : int
        Number of crews, c.
    cold : bool
        Whether spares cannot fail.

    Returns
    -------
    (required + spares + 1,) array
        Probabilities [-].

    Raises
    ------
    ValueError
        If `required` or `crews` is no whole number from 1, `spares` none from 0, `failure_rate` is negative or
        `repair_rate` not positive.

    References
    ----------
    C. Palm, "The distribution of repairmen in servicing automatic machines", Industritidningen Norden 75 (1947);
    W. Feller, "An Introduction to Probability Theory and Its Applications" I, XVII.7; with spares J. Taylor and
    R. R. P. Jackson, Operational Research Quarterly 5 (1954). Insensitivity: F. Baskett et al., J. ACM 22 (1975).
    """
    r, s, c = int(whole("required", required, 1)), int(whole("spares", spares, 0)), float(whole("crews", crews, 1))
    fails, repairs = float(non_negative("failure_rate", failure_rate)), float(positive("repair_rate", repair_rate))
    k = np.arange(r + s, dtype=np.float64)
    exposed = np.minimum(r + s - k, r) if cold else r + s - k
    return from_ratios(exposed * (fails / repairs) / np.minimum(k + 1.0, c))


def spares_needed(required: int, unavailability: float, level: float, dispersion: float = 1.0) -> int:
    r"""Return the smallest number of hot spares with ``P(X > s) <= 1 - level``, X of the R + s nodes down.

    X has the law of `missing_nodes_pmf`. The dispersion is that of the R nodes: as spares are added the environment
    stays, that is the correlation of two nodes, ``(D - 1) / (R - 1)``. A crew for every node.

    Parameters
    ----------
    required : int
        Nodes that must run, R.
    unavailability : float
        Probability that a node is down, q [-].
    level : float
        Share of time for which the pool must not be short [-], between 0 and 1.
    dispersion : float
        Variance of the number of the R nodes down over ``R q (1 - q)``, D [-]: 1, or more but less than R.

    Returns
    -------
    int
        Spares, s.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the level out of reach of a million spares.

    References
    ----------
    The search is exact: given q, one more hot node never makes ``X <= s`` less likely.
    """
    r, q = int(whole("required", required, 1)), float(share("unavailability", unavailability))
    missing_nodes_pmf(r, q, dispersion)  # for its checks
    correlation = (dispersion - 1.0) / max(r - 1, 1)
    return _fewest(lambda s: enough_probability(missing_nodes_pmf(r + s, q, 1.0 + (r + s - 1) * correlation), s), level)


def _fewest(enough: Callable[[int], float], level: float) -> int:
    """Return the smallest s with ``enough(s) >= level``, by doubling and bisection."""
    target = float(inside("level", level))
    low, high = -1, 0
    while enough(high) < target:
        low, high = high, 2 * high + 1
        if high > _MOST_SPARES:
            message = f"level {level!r} is out of reach: even {low} spares are not enough"
            raise ValueError(message)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) >= target else (middle, high)
    return high
