"""How many nodes are down at once in the long run: independent nodes, and nodes that share a changing environment.

A node is down with *unavailability* q [-]. The *dispersion* D [-] is the variance of the number down over the variance
under independence, so D = 1 is independence. D > 1 stands for an environment (a bad month, a bad release) that all
nodes share and that changes slowly against a repair: q, or the failure rate, is itself random, and given its value the
nodes are independent. Nodes that differ for good do not widen the law, they narrow it (W. Hoeffding, Ann. Math.
Statist. 27 (1956)).

Two families: nodes that are all exposed and are down or not (`missing_nodes_pmf`: binomial, beta-binomial); repairs
that start at a rate that does not fall when nodes are down (`repairs_pmf`: Poisson, negative binomial). A *law* is an
array with the probabilities of 0, 1, 2, ... nodes down; `sim.theory.counts` reads it. Long-run values, not the way
there from a fresh cluster. Times [s], rates [1/s], probabilities [-].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import from_ratios, share, whole

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["missing_nodes_pmf", "repairs_pmf", "steady_unavailability"]


@overload
def steady_unavailability(life: float, repair: float) -> float: ...
@overload
def steady_unavailability(life: npt.ArrayLike, repair: npt.ArrayLike) -> FloatArray: ...
def steady_unavailability(life: npt.ArrayLike, repair: npt.ArrayLike) -> float | FloatArray:
    r"""Return the share of time for which a node is down, ``q = repair / (life + repair)`` [-].

    Only the means enter, whatever the laws are; a life starts when the repair before it ends.

    Parameters
    ----------
    life : float or (n,) array
        Mean time from the return of a node to its next failure [s]; may be infinite.
    repair : float or (n,) array
        Mean time from the failure of a node to its return [s].

    Returns
    -------
    float or (n,) array
        Unavailability q [-].

    Raises
    ------
    ValueError
        If `life` is not positive, or `repair` is negative or not finite.

    References
    ----------
    Alternating renewal process: D. R. Cox, "Renewal Theory", Methuen (1962).
    """
    up, down = positive("life", life, infinite=True), non_negative("repair", repair)
    return plain(down / (up + down))


def missing_nodes_pmf(nodes: int, unavailability: float, dispersion: float = 1.0) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., N of N nodes are down.

    ``p[k+1] / p[k] = (N - k) (q + k r) / ((k + 1) (1 - q + (N - k - 1) r))`` with ``r = (D - 1) / (N - D)``. D = 1 is
    the binomial law of independent nodes; otherwise it is the beta-binomial law: q is Beta-distributed over time with
    the mean given, and two nodes are correlated by ``(D - 1) / (N - 1)``.

    Parameters
    ----------
    nodes : int
        Number of nodes, N.
    unavailability : float
        Probability that a node is down, q [-].
    dispersion : float
        Variance of the number down over ``N q (1 - q)``, D [-]: 1, or more but less than N.

    Returns
    -------
    (nodes + 1,) array
        Probabilities [-].

    Raises
    ------
    ValueError
        If `nodes` is no whole number from 1, `unavailability` is outside [0, 1], or `dispersion` outside [1, N).

    References
    ----------
    J. G. Skellam, J. R. Statist. Soc. B 10 (1948).
    """
    n, q = int(whole("nodes", nodes, 1)), float(share("unavailability", unavailability))
    d = float(_dispersion(dispersion, whole("nodes", nodes, 1)))
    if q > 0.5:  # here 1 - q is exact, and q = 1 needs no case of its own
        return missing_nodes_pmf(n, 1.0 - q, d)[::-1]
    r = 0.0 if d == 1.0 else (d - 1.0) / (n - d)
    k = np.arange(n, dtype=np.float64)
    return from_ratios((n - k) * (q + k * r) / ((k + 1.0) * (1.0 - q + (n - k - 1.0) * r)))


def repairs_pmf(offered: float, largest: int, dispersion: float = 1.0) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., `largest` nodes are in repair.

    ``p[k+1] / p[k] = (a + k (D - 1)) / ((k + 1) D)``. D = 1 is the Poisson law of M/G/infinity; otherwise it is the
    negative binomial law: the failure rate is Gamma-distributed over time, with squared coefficient of variation
    ``(D - 1) / a``. What the array lacks to 1 is the probability of more than `largest`.

    Parameters
    ----------
    offered : float
        Mean number in repair when nobody waits for a crew, a [nodes]: failures in unit time times the mean repair.
    largest : int
        Last number asked for [nodes].
    dispersion : float
        Variance over mean of the number in repair, D [-], at least 1.

    Returns
    -------
    (largest + 1,) array
        Probabilities [-].

    Raises
    ------
    ValueError
        If `offered` is negative, `largest` is no whole number from 0, or `dispersion` is below 1.

    References
    ----------
    M/G/infinity: C. Palm, "Analysis of the Erlang traffic formulae", Ericsson Technics (1938). Negative binomial: M.
    Greenwood and G. U. Yule, J. R. Statist. Soc. 83 (1920).
    """
    a, last, d = float(non_negative("offered", offered)), int(whole("largest", largest, 0)), _dispersion(dispersion)
    k = np.arange(last, dtype=np.float64)
    law = from_ratios((a + k * (d - 1.0)) / ((k + 1.0) * d))
    return law * _repairs_cdf(np.asarray(float(last)), np.asarray(a), d)


def _repairs_cdf(m: FloatArray, a: FloatArray, d: FloatArray) -> FloatArray:
    """Return ``P(X <= m)`` of the Poisson law (d = 1) and the negative binomial law (d > 1)."""
    from scipy.special import betaincc, gammaincc

    extra = np.where(d > 1.0, d - 1.0, 1.0)  # a stand-in where it is 0
    return np.where(d > 1.0, betaincc(m + 1.0, a / extra, extra / d), gammaincc(m + 1.0, a))


def _dispersion(values: npt.ArrayLike, nodes: npt.ArrayLike = np.inf) -> FloatArray:
    """Return dispersions, each 1 or above it and below the number of nodes (at N, all of them fail as one)."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array == 1.0) | ((array > 1.0) & (array < np.asarray(nodes)))):
        message = f"dispersion must be at least 1 and below the number of nodes, got {values!r}"
        raise ValueError(message)
    return array
