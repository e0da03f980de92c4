"""Systems that need all of their parts, or k of n: probability that enough are up, time to a shortage, its length.

A *series system* is up while all of its parts are. A pool is R *required* nodes and s *spares*, that is k = R of
n = R + s; it is *short* while more than s nodes are down, and that stretch of time is an *episode*. Nodes fail
independently with exponential lives; c crews repair one node each at a time, in exponential times. Times [s], rates
[1/s], probabilities [-].

The long-run law of the nodes down is in `sim.theory.availability` (a crew for each) and `sim.theory.spares` (crews);
the law at a time after a start with all nodes up is in `sim.theory.transient`, common causes in
`sim.theory.common_cause`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import from_ratios, share, whole

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "Episodes",
    "at_least_up",
    "mean_time_to_shortage",
    "series_availability",
    "series_mtti",
    "shortage_episodes",
]


class Episodes(NamedTuple):
    """How a pool is short of nodes in the long run: how often, for how long.

    Attributes
    ----------
    probability : float
        Share of time for which it is short [-].
    length : float
        Mean time from the beginning of an episode to its end [s].
    gap : float
        Mean time from the end of an episode to the beginning of the next [s].
    """

    probability: float
    length: float
    gap: float


def series_availability(unavailability: npt.ArrayLike, count: npt.ArrayLike = 1.0) -> float | FloatArray:
    r"""Return the probability that all parts of a series system are up, ``prod (1 - q_i)^(n_i)``, over the last axis.

    Assumes independent parts that go on failing while another part is down.

    Parameters
    ----------
    unavailability : (..., m) array
        Probability that a part of kind i is down, q_i [-].
    count : float or (..., m) array
        Parts of that kind, n_i.

    Returns
    -------
    float or (...) array
        Probability [-].

    Raises
    ------
    ValueError
        If a probability is outside [0, 1] or a count is no whole number from 0.

    References
    ----------
    R. E. Barlow and F. Proschan, "Statistical Theory of Reliability and Life Testing", Holt (1975), chapter 7.
    """
    q, n = np.broadcast_arrays(np.atleast_1d(share("unavailability", unavailability)), whole("count", count, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(n > 0, n * np.log1p(-q), 0.0)  # no part of a kind that is always down: no matter
    return plain(np.exp(logs.sum(axis=-1)))


def series_mtti(life: npt.ArrayLike, count: npt.ArrayLike = 1.0) -> float | FloatArray:
    r"""Return the mean time to interruption of a series system, ``1 / sum n_i / life_i``, over the last axis.

    Exact for exponential lives; for others it is the long-run mean of the time between failures that hit the parts
    while they run, whatever the laws (superposition of renewal processes).

    Parameters
    ----------
    life : (..., m) array
        Mean running time of a part of kind i to its failure, its MTBF [s]; may be infinite.
    count : float or (..., m) array
        Parts of that kind, n_i.

    Returns
    -------
    float or (...) array
        MTTI [s]; infinite if nothing fails.

    Raises
    ------
    ValueError
        If a life is not positive or a count is no whole number from 0.

    References
    ----------
    D. R. Cox and W. L. Smith, "On the superposition of renewal processes", Biometrika 41 (1954).
    """
    rates = whole("count", count, 0) / np.atleast_1d(positive("life", life, infinite=True))
    with np.errstate(divide="ignore"):
        return plain(1.0 / rates.sum(axis=-1))


@overload
def at_least_up(needed: float, nodes: float, unavailability: float) -> float: ...
@overload
def at_least_up(needed: npt.ArrayLike, nodes: npt.ArrayLike, unavailability: npt.ArrayLike) -> FloatArray: ...
def at_least_up(needed: npt.ArrayLike, nodes: npt.ArrayLike, unavailability: npt.ArrayLike) -> float | FloatArray:
    r"""Return the probability that at least k of n independent, equal nodes are up, ``I_(1 - q)(k, n - k + 1)``.

    I is the regularised incomplete beta function. With the long-run q it is the availability of a k-of-n system; with
    ``q = 1 - exp(-t / life)`` its reliability at t without repair; with `unavailability_at` its availability at t.
    For a dispersion, common causes or crews sum the law with `enough_probability`, at ``n - k`` spares.

    Parameters
    ----------
    needed : float or (n,) array
        Nodes that must be up, k, at most n; with 0 the answer is 1.
    nodes : float or (n,) array
        Number of nodes, n.
    unavailability : float or (n,) array
        Probability that a node is down, q [-].

    Returns
    -------
    float or (n,) array
        Probability [-].

    Raises
    ------
    ValueError
        If `needed` or `nodes` is no whole number from 0 and 1, `needed` exceeds `nodes`, or `unavailability` is outside
        [0, 1].

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.17.5.
    """
    from scipy.special import betaincc

    k, n = whole("needed", needed, 0), whole("nodes", nodes, 1)
    q = share("unavailability", unavailability)
    if np.any(k > n):
        message = f"needed must be at most the number of nodes, got {needed!r} of {nodes!r}"
        raise ValueError(message)
    # P(at most n - k down), written in q: 1 - q would lose its digits where q is small.
    return plain(np.where(k == 0.0, 1.0, betaincc(n - k + 1.0, np.maximum(k, 1.0), q)))


def mean_time_to_shortage(
    required: int, spares: int, failure_rate: float, repair_rate: float, crews: int, *, cold: bool = False
) -> float:
    r"""Return the mean time until more than s of R + s nodes are down, from a start with all nodes up.

    The mean time from k to k + 1 nodes down is ``T_k = (1 + d_k T_(k-1)) / b_k``, with failures in unit time
    ``b_k = (R + s - k) lambda`` (hot spares) or ``R lambda`` (cold ones) and repairs ``d_k = min(k, c) mu``; the answer
    is ``T_0 + ... + T_s``. Every term is positive, so no digits are lost however many nodes there are. Without repair
    it is ``sum 1 / (i lambda)`` for i from R to R + s (hot).

    Parameters
    ----------
    required, spares, crews, cold
        As for `crew_limited_pmf`.
    failure_rate : float
        Failures of one node in unit time, lambda [1/s].
    repair_rate : float
        Repairs that one busy crew finishes in unit time, mu [1/s]; 0 without repair.

    Returns
    -------
    float
        Time [s]; infinite where it is too long for a float.

    Raises
    ------
    ValueError
        If `required` or `crews` is no whole number from 1, `spares` none from 0, `failure_rate` is not positive or
        `repair_rate` is negative.

    References
    ----------
    S. Karlin and J. McGregor, "The classification of birth and death processes", Trans. Amer. Math. Soc. 86 (1957);
    without repair R. E. Barlow and F. Proschan, "Mathematical Theory of Reliability", Wiley (1965).
    """
    fails, repairs = _chain(required, spares, failure_rate, repair_rate, crews, cold=cold)
    total = passage = back = 0.0
    for birth, death in zip(fails[: spares + 1].tolist(), repairs[: spares + 1].tolist(), strict=True):
        passage = (1.0 + back * passage) / birth
        total, back = total + passage, death
    return total


def shortage_episodes(
    required: int, spares: int, failure_rate: float, repair_rate: float, crews: int, *, cold: bool = False
) -> Episodes:
    r"""Return how often and for how long more than s of R + s nodes are down in the long run.

    The chain of `crew_limited_pmf`, cut between s and s + 1 nodes down: an episode lasts
    ``1 / (P(s + 1 | more than s) d_(s+1))`` on average, a gap ``1 / (P(s | at most s) b_s)``, and the pool is short
    for ``length / (length + gap)`` of the time. The first gap after a start with all nodes up is longer:
    `mean_time_to_shortage`. Assumptions as for `crew_limited_pmf`; here the exponential law of the repair time matters,
    with a crew for each node too (for the length, not for the probability).

    Parameters
    ----------
    required, spares, failure_rate, repair_rate, crews, cold
        As for `mean_time_to_shortage`; `repair_rate` must be positive.

    Returns
    -------
    Episodes
        Probability [-], length and gap [s].

    Raises
    ------
    ValueError
        As for `mean_time_to_shortage`, or if `repair_rate` is 0.

    References
    ----------
    J. Keilson, "Markov Chain Models: Rarity and Exponentiality", Springer (1979), chapter 8.
    """
    positive("repair_rate", repair_rate)
    fails, repairs = _chain(required, spares, failure_rate, repair_rate, crews, cold=cold)
    ratios = fails / repairs
    below, above = from_ratios(ratios[:spares]), from_ratios(ratios[spares + 1 :])
    with np.errstate(divide="ignore", over="ignore"):  # rarer, or longer, than a float can say
        gap = float(1.0 / (below[-1] * fails[spares]))
        length = float(1.0 / (above[0] * repairs[spares]))
    odds = length / gap if math.isfinite(length) else math.inf
    return Episodes(1.0 if math.isinf(odds) else odds / (1.0 + odds), length, gap)


def _chain(
    required: int, spares: int, failure_rate: float, repair_rate: float, crews: int, *, cold: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the rates from k to k + 1 nodes down and back, for k = 0, ..., R + s - 1 [1/s]."""
    r, s, c = int(whole("required", required, 1)), int(whole("spares", spares, 0)), float(whole("crews", crews, 1))
    k = np.arange(r + s, dtype=np.float64)
    exposed = np.minimum(r + s - k, r) if cold else r + s - k
    fails, repairs = float(positive("failure_rate", failure_rate)), float(non_negative("repair_rate", repair_rate))
    return exposed * fails, np.minimum(k + 1.0, c) * repairs
