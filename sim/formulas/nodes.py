"""Nodes that are down at once, spares for them, and what a job loses while there are too few. All times [s]."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.formulas.arrays import (
    FloatArray,
    Values,
    enough_probability,
    from_ratios,
    inside,
    non_negative,
    plain,
    positive,
    share,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

# How many nodes are down at once in the long run: independent nodes, and nodes that share a changing environment.
#
# A node is down with *unavailability* q [-]. The *dispersion* D [-] is the variance of the number down over the
# variance under independence, so D = 1 is independence. D > 1 stands for an environment (a bad month, a bad release)
# that all nodes share and that changes slowly against a repair: q, or the failure rate, is itself random, and given its
# value the nodes are independent. Nodes that differ for good do not widen the law, they narrow it (W. Hoeffding, Ann.
# Math. Statist. 27 (1956)).
#
# Two families: nodes that are all exposed and are down or not (`missing_nodes_pmf`: binomial, beta-binomial); repairs
# that start at a rate that does not fall when nodes are down (`repairs_pmf`: Poisson, negative binomial). A *law* is an
# array with the probabilities of 0, 1, 2, ... nodes down; `ettrick.sim.formulas.arrays` reads it. Long-run values, not
# the way there from a fresh cluster. Times [s], rates [1/s], probabilities [-].


def steady_unavailability(life: Values, repair: Values) -> Values:
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
    unavailability: Values = plain(down / (up + down))
    return unavailability


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
        Mean number in repair when no repair waits for a crew, a [nodes]: failures in unit time times the mean repair.
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
    from scipy.special import betaincc, gammaincc

    a, last = float(non_negative("offered", offered)), int(whole("largest", largest, 0))
    d = float(_dispersion(dispersion))
    k = np.arange(last, dtype=np.float64)
    law = from_ratios((a + k * (d - 1.0)) / ((k + 1.0) * d))
    return law * (betaincc(last + 1.0, a / (d - 1.0), (d - 1.0) / d) if d > 1.0 else gammaincc(last + 1.0, a))


def _dispersion(values: npt.ArrayLike, nodes: npt.ArrayLike = np.inf) -> FloatArray:
    """Return dispersions, each 1 or above it and below the number of nodes (at N, all of them fail as one)."""
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array == 1.0) | ((array > 1.0) & (array < np.asarray(nodes)))):
        raise ValueError(f"dispersion must be at least 1 and below the number of nodes, got {values!r}")
    return array


# How many spare nodes keep a fixed number of nodes running for a given share of time, with and without repair crews.
#
# A pool is R *required* nodes and s *spares*; it is short when more than s nodes are down. The *level* [-] is the share
# of time for which it must not be. Spares are *hot* if they fail like the others (they are powered, or do other work)
# and *cold* if they cannot fail before they are used. Swapping a node is immediate, and a node that is back is as good
# as new. Laws are arrays with the probabilities of 0, 1, ..., R + s nodes down: `ettrick.sim.formulas.arrays` reads
# them (`enough_probability`, `expected_shortfall`, `exceedance`). Long-run values. Times [s], rates [1/s],
# probabilities [-].
#
# Independence is the assumption to doubt: of 400 nodes of InfiniteHBD 31 were down at P99, where independent nodes with
# the same mean give 17. Give a dispersion, or a run that has the bursts.
#
# References
# Repair crews: C. Palm, "The distribution of repairmen in servicing automatic machines", Industritidningen Norden 75
# (1947); W. Feller, "An Introduction to Probability Theory and Its Applications" I, XVII.7; with spares J. Taylor and
# R. R. P. Jackson, Operational Research Quarterly 5 (1954). Insensitivity: F. Baskett et al., J. ACM 22 (1975).

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
    required, spares : int
        Nodes that must run, R, and nodes beyond those, s.
    failure_rate, repair_rate : float
        Failures of one node, lambda, and repairs that one busy crew finishes, mu, in unit time [1/s].
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
    return fewest(lambda s: enough_probability(missing_nodes_pmf(r + s, q, 1.0 + (r + s - 1) * correlation), s), level)


def fewest(enough: Callable[[int], float], level: float) -> int:
    """Return the smallest s with ``enough(s) >= level``, by doubling and bisection; beyond a million a ValueError."""
    target = float(inside("level", level))
    low, high = -1, 0
    while enough(high) < target:
        low, high = high, 2 * high + 1
        if high > _MOST_SPARES:
            raise ValueError(f"level {level!r} is out of reach: even {low} spares are not enough")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) >= target else (middle, high)
    return high


# ----------------------------------------
# Domains (tensor-parallel groups) that go on with fewer GPUs until these are repaired: how many are missing; the pace.
#
# A domain of T GPUs loses one at the rate T / L, whatever it misses already, and has it back after r; it is replaced as
# a whole, at once, when it would miss more than it may. Each failure restarts the job, and ranks are laid out anew: the
# domains with gaps are in the fewest replicas, the worst together. A repaired GPU counts from the next restart on. All
# is exact for exponential repairs, and for others as far as nothing is replaced (M/G/infinity). The expected pace is
#
# .. math:: 1 - \frac{1}{R} \sum_{m \ge 1} (f_{m - 1} - f_m)\, E \left\lceil \frac{B_m}{g} \right\rceil, \quad
#     B_m \sim \mathrm{Bin}(R g, P(X \ge m))
#
# and, while some domain misses a GPU, a share rho of that less for resharding. With one replica of all domains it is
# the pace of the slowest. Own; the packing is that of arXiv 2504.06095.


def domain_law(tensor: int, most: int, life: float, outage: float) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., `most` GPUs of a domain are missing.

    From k to k + 1 at ``T / L``, but from *most* to 0 (a new domain), and back at ``k / r``. Without the reset it is
    the Poisson law with mean ``T r / L``, cut off.

    Parameters
    ----------
    tensor, most : int
        GPUs of a domain, T, and most that it may miss.
    life, outage : float
        Mean time between the failures of a GPU, L, and from one to its return, r [s].

    Returns
    -------
    (most + 1,) array
        Probabilities [-].

    References
    ----------
    Own: every cut of the chain is crossed upwards as often as downwards, resets included.
    """
    weights = np.ones(most + 1)
    for lost in range(most - 1, -1, -1):
        # What leaves by the reset comes down past every cut.
        weights[lost] = weights[lost + 1] * (lost + 1) / outage * life / tensor + 1.0
    return np.asarray(weights / weights.sum())


def expected_pace(
    paces: npt.ArrayLike,
    law: FloatArray,
    replicas: int,
    domains: int,
    *,
    after: FloatArray | None = None,
    reshard: float = 0.0,
) -> float:
    """Return the expected pace of a job with domains of one law, the worst together [-].

    Parameters
    ----------
    paces : (n,) array
        What a replica does whose worst domain misses 0, 1, ... GPUs, f [-], from 1 and not rising.
    law : (n,) array
        Probabilities that a domain misses 0, 1, ... GPUs [-].
    replicas, domains : int
        Replicas, R, and domains of one, g.
    after : (n,) array, optional
        Law of one domain if it is another than that of the others.
    reshard : float
        Share of the time that resharding takes while some domain is narrow, rho [-].

    Returns
    -------
    float
        Pace relative to the healthy one [-].
    """
    first = law if after is None else after
    number = np.arange(replicas * domains)
    missing = 0.0
    for lost, drop in enumerate(-np.diff(paces), start=1):
        with_others, alone = _at_least(law, lost), _at_least(first, lost)
        elsewhere = missing_nodes_pmf(number.size - 1, with_others) if number.size > 1 else np.ones(1)
        mean = elsewhere @ ((1.0 - alone) * np.ceil(number / domains) + alone * np.ceil((number + 1) / domains))
        missing += drop * float(mean)
    nobody = (1.0 - _at_least(law, 1)) ** (number.size - 1) * (1.0 - _at_least(first, 1))
    return float((1.0 - reshard) * (1.0 - missing / replicas) + reshard * nobody)


def _at_least(law: FloatArray, lost: int) -> float:
    """Return the probability that a domain misses so many GPUs or more [-]."""
    return min(float(law[lost:].sum()), 1.0)


# ----------------------------------------
# A rigid job that replaces failed nodes by hot spares and waits when there is none left.
#
# The model, in the order in which a failure is lived through. R nodes are needed, s stand by, and each that is up fails
# at the rate ``1 / L``; k of all are in repair, each for r.
#
# * Everybody waits for a *downtime* d, until the failure is known; failures meanwhile merge into it. Its repair begins.
# * If a spare is up it steps in at once. If none is, the job is *starved*: it waits for the first node that returns.
# * A *restart* u follows, and cycles of computing and saving, as in `ettrick.sim.formulas.goodput`.
#
# Without downtime this is exact. Nodes fail whatever the job does, so k is a birth-death chain of its own (its law
# needs the mean of repairs only: independent nodes, or BCMP), and the job is starved exactly while k > s. On the clock
# that stands still meanwhile, failures of the job are Poisson with the rate ``R / L``, whatever k is, so its shares
# there are those of a job that always finds a spare: the two factors multiply. What is subtle is who fails while the
# job waits: its other nodes do, if it is *exposed* then. With a downtime the chain is that of the other times, and
# repairs and spares go on in the downtimes of each state k in proportion to their mean: an error of the order d / r.
# All times [s]; shares of the job's wall clock [-]. Not in it: queues of repair, nodes that share a failure, lives that
# age.
#
# A job with *patience* p gives up a wait. While j nodes are missing, the next one fails at ``b_j = (R - j) / L`` if the
# job's nodes are exposed, and one is back at ``d_j = (s + j) / r``. A wait ends when none is missing; a failure begins
# it again, patience included. With A the generator of j between two failures, a job that begins to wait when j are
# missing
#
# .. math:: f = e^{A p} 1 + B f, \quad g = G 1 + B g, \quad G = A^{-1} (e^{A p} - 1), \quad B_{i, j + 1} = G_{ij} b_j
#
# gives up with the probability f_j, and waits g_j on average until then or until its nodes are there. That is exact
# for exponential repairs.
#
# References
# Own derivation. The chain: J. Taylor and R. R. P. Jackson, Operational Research Quarterly 5 (1954); insensitivity:
# F. Baskett et al., J. ACM 22 (1975); loss formula: A. K. Erlang (1917).

_ROUNDING = 1e-15

"""Probability, relative to the largest, that no sum of others can feel [-]."""


class Starvation(NamedTuple):
    """The starvation of a job: how often and how long it waits for nodes.

    Parameters
    ----------
    share
        Share of time in which the job waits [-].
    probability
        Probability that a failure finds no node that is there at once [-].
    wait
        Mean wait of a failure, those without one included [s].
    detection
        Share of time in which failures are not known yet [-].
    """

    share: float
    probability: float
    wait: float
    detection: float


@functools.lru_cache(maxsize=1024)
def starvation(
    life: float,
    repair: float,
    required: int,
    spares: int,
    *,
    downtime: float = 0.0,
    cold: bool = False,
    exposed: bool = True,
    standby: int = 0,
    delay: float = 0.0,
) -> Starvation:
    r"""Return for which share of time a job waits for nodes, how often, and how long a failure makes it wait.

    Births from k nodes in repair ``(n_k (1 + (n_k - 1) d / L) + i_k (1 + beta_k)) / L`` with n_k of the job's nodes and
    i_k others up, deaths ``k (1 + beta_k) / r``. The wait of a failure is the share starved over the rate of failures.

    Parameters
    ----------
    life, repair
        Mean time between the failures of a node that is up, L (may be infinite), and until it is back, r [s].
    required, spares
        Nodes that the job needs, R, and hot spares, s [-].
    downtime
        Time until a failure is known, d [s].
    cold
        Whether nodes outside the job cannot fail.
    exposed
        Whether the job's other nodes can fail while it waits. If they cannot, one node is missing at most, and with
        cold spares the share is Erlang's loss formula.
    standby, delay
        Nodes that step in after a delay [s] when no hot spare is left; repaired nodes are hot spares first. With
        `standby` the chain has two dimensions, the hot spares being the other one, and is solved as linear equations,
        for repairs and delays that are exponential. For pools of some hundred nodes.

    Returns
    -------
    Starvation
        Shares, probability and mean wait. Of a job that never runs, to machine precision, the probability is 1 and the
        wait infinite.

    Raises
    ------
    ValueError
        If a time is negative or not finite, `life` is not positive, `required` is no whole number from 1, or `spares`
        or `standby` none from 0.
    """
    rate, mean_repair = 1.0 / float(positive("life", life, infinite=True)), float(non_negative("repair", repair))
    r, s = int(whole("required", required, 1)), int(whole("spares", spares, 0))
    c, late = int(whole("standby", standby, 0)), float(non_negative("delay", delay))
    d = float(non_negative("downtime", downtime))
    if late == 0.0:
        s, c = s + c, 0
    if rate == 0.0 or mean_repair == 0.0:
        # No node is ever in repair: a failed node takes its own place again, or a standby node would not be asked for.
        s, c, mean_repair = max(s, 1), 0, 0.0
    states = _states(r, s, c)
    waits = (states.missing > 0) | (states.coming > 0)
    up = np.where(waits & (not exposed), 0.0, r - states.missing)
    undetected = up * rate * d
    pause = 1.0 + undetected
    failing = up * rate * (1.0 + np.maximum(up - 1.0, 0.0) * rate * d)
    outside = 0.0 if cold else rate * pause
    law = _law(states, failing, outside, pause, mean_repair, late if c else 0.0)
    total, running = float(law @ pause), float(law[~waits].sum())
    empty = float(law[~waits & (states.hot == 0)].sum())
    starved = float(law[waits].sum())
    failures = running * r * rate
    # Where far more nodes are in repair than there are spares, the probability to run is below the smallest number.
    return Starvation(
        share=starved / total,
        probability=empty / running if running > 0 else 1.0,
        wait=starved / failures if failures > 0 else 0.0 if rate == 0 else math.inf,
        detection=float(law @ undetected) / total,
    )


def _law(
    states: _States, failing: FloatArray, outside: FloatArray | float, pause: FloatArray, repair: float, delay: float
) -> FloatArray:
    """Return the long-run law of states [-]; `outside` is the rate at which a spare fails [1/s]."""
    if repair == 0.0:
        return np.where(states.down == 0, 1.0, 0.0)
    hot, repaired = outside * states.hot, states.down * pause / repair
    if delay == 0.0:
        return from_ratios((failing + hot)[:-1] / repaired[1:])
    return _two_kinds(states, (failing, hot, outside * states.standby, repaired, pause / delay))


def gives_up(
    life: float, repair: float, required: int, spares: int, patience: float, *, exposed: bool = True
) -> tuple[float, float]:
    """Return which part of its starved time a job with patience waits for [-], and how often it gives up in it [1/s].

    Parameters
    ----------
    life, repair, required, spares, exposed
        As for `starvation`, and refused as there; all spares are available at once.
    patience
        How long a job waits, p [s].
    """
    from scipy.linalg import expm

    rate, mean_repair = 1.0 / float(positive("life", life)), float(positive("repair", repair))
    r, s = int(whole("required", required, 1)), int(whole("spares", spares, 0))
    wait = float(non_negative("patience", patience))
    missing = np.arange(1, r + 1, dtype=np.float64)
    failing = (r - missing) * rate if exposed else np.zeros(r)
    repaired = (s + missing) / mean_repair
    law = from_ratios(failing[:-1] / repaired[1:])
    # The first entry is one missing node more than none; what is as rare as rounding is left out.
    most = max(int(np.flatnonzero(law > _ROUNDING * law.max())[-1]) + 1, 1)
    law, failing, repaired = law[:most] / law[:most].sum(), failing[:most], repaired[:most]
    failing[-1] = 0.0
    ended = np.diag(repaired[1:], -1) - np.diag(failing + repaired)
    left = expm(ended * wait)
    stay = np.linalg.solve(ended, left - np.eye(most))
    again = np.zeros((most, most))
    again[:, 1:] = (stay * failing)[:, :-1]
    whole_wait = np.linalg.solve(np.eye(most) - again, np.column_stack([left.sum(axis=1), stay.sum(axis=1)]))
    # As often as the last missing node is back a wait begins.
    given_up, waited = law[0] * repaired[0] * whole_wait[0]
    return min(float(waited), 1.0), float(given_up)


class _States(NamedTuple):
    """All states of the nodes, as arrays: in repair, missing in the job, up outside it, and on their way to it."""

    down: FloatArray
    missing: FloatArray
    hot: FloatArray
    standby: FloatArray
    coming: FloatArray


@functools.lru_cache(maxsize=64)
def _states(required: int, spares: int, standby: int) -> _States:
    """Return the states that can be reached: hot spares go first and return first."""
    rows = [
        (down, 0, hot, spares + standby - down - hot, coming)
        for down in range(spares + standby + 1)
        for hot in range(max(spares - down, 0), min(spares, spares + standby - down) + 1)
        for coming in range(1 + (standby > 0))
    ]
    states = np.zeros((len(_States._fields), len(rows) + required))
    states[:, : len(rows)] = np.transpose(rows)
    states[1, len(rows) :] = np.arange(1, required + 1)
    states[0, len(rows) :] = states[1, len(rows) :] + (spares + standby)
    return _States(*states)


def _two_kinds(states: _States, rates: Sequence[FloatArray]) -> FloatArray:
    """Return the long-run law of states with two kinds of spares: the solution of ``p Q = 0, sum p = 1``.

    Rates are those of failures in the job and of the hot and the standby spares, of repairs, and that at which a node
    that comes is there [1/s].
    """
    from scipy.sparse import csc_matrix, diags
    from scipy.sparse.linalg import spsolve

    number = {key: index for index, key in enumerate(_keys(states))}
    moves = [
        # Who waits for a repair does not wait for a standby node as well.
        (index, number.get(target, number[*target[:2], 0]), rate)
        for index, target, rate in _moves(states, rates)
        if rate > 0
    ]
    source, target, rate = (np.array(column) for column in zip(*moves, strict=True))
    size = len(states.down)
    flow = csc_matrix((rate, (target, source)), shape=(size, size)) - diags(np.bincount(source, rate, size))
    # One equation follows from the others. Take out that of the most probable state, or digits are lost; where repairs
    # balance failures and most spares are hot is a first guess.
    failing, repaired = rates[0], rates[3]
    law, usual = np.zeros(size), -1
    guess = int(np.argmax(states.hot - np.abs(failing - repaired) / failing.max() * size))
    while guess != usual:
        usual, chosen = guess, np.eye(1, size, guess)[0]
        law = np.maximum(spsolve((diags(1.0 - chosen) @ flow + diags(chosen)).tocsc(), chosen), 0.0)
        guess = int(np.argmax(law)) if law.max() > 1.0 else usual
    return np.asarray(law / law.sum())


def _keys(states: _States) -> Iterator[tuple[int, int, int]]:
    """Yield the nodes in repair, the hot spares, and the nodes on their way, of each state."""
    for down, hot, coming in zip(states.down, states.hot, states.coming, strict=True):
        yield int(down), int(hot), int(coming)


def _moves(states: _States, rates: Sequence[FloatArray]) -> Iterator[tuple[int, tuple[int, int, int], float]]:
    """Yield the index of a state, what it may become, and at which rate [1/s]."""
    full, last = int(states.hot.max()), int(states.down[-1])
    for index, (down, spares, coming) in enumerate(_keys(states)):
        failing, hot, standby, repaired, ready = (float(rate[index]) for rate in rates)
        if down + 1 <= last:
            calls = int(coming or (spares == 0 and states.standby[index] > 0))
            yield index, (down + 1, max(spares - 1, 0), calls), failing
        yield index, (down + 1, spares - 1, coming), hot
        yield index, (down + 1, spares, coming), standby
        back = 0 if states.missing[index] > 0 else min(spares + 1, full)
        yield index, (down - 1, back, coming), repaired
        yield index, (down, spares, 0), ready * coming


# Groups that serve and lose nodes one by one. Reference: D. R. Cox and H. D. Miller, The theory of stochastic processes
# (1965), chapter 4.


class Standing(NamedTuple):
    """Groups that serve in the long run: their mean share [-], and the probability of each number, 0 to all [-]."""

    share: float
    pmf: FloatArray


def groups_with_spares(groups: int, spares: int, fail: float, restart: float, load: float, repair: float) -> Standing:
    r"""Return how many groups serve when a failure costs one a node, and a spare takes its place after a reload.

    A chain of the groups l that reload (`new`) and the nodes r in repair (`away`): of R groups with s spare nodes
    ``min(R, R + s - r) - l`` serve. All times are exponential, there is a crew for every repair, and spares, groups
    that wait and groups that reload do not fail.

    Parameters
    ----------
    groups, spares
        Groups R, and nodes s beyond theirs [-].
    fail, restart
        Rates at which a group that serves loses a node, and at which it stops and keeps its nodes [1/s].
    load, repair
        Mean times of a reload, and of a repair [s].
    """
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import spsolve

    # More nodes in repair than this have a probability below 1e-12.
    mean, stops = groups * fail * repair, groups * (fail + restart) * load
    most = min(groups + spares, math.ceil(mean + 8 * math.sqrt(mean) + 12))
    loading = math.ceil(stops + 8 * math.sqrt(stops) + 12)
    equipped = [min(groups, groups + spares - away) for away in range(most + 1)]
    states = [(new, away) for away in range(most + 1) for new in range(min(equipped[away], loading) + 1)]
    up = np.array([equipped[away] - new for new, away in states])
    number, size = {state: index for index, state in enumerate(states)}, len(states)
    flow = []
    for index, (new, away) in enumerate(states):
        out = (up[index] * fail, up[index] * restart, new / load, away / repair)
        for target, rate in zip(_after_reloads(new, away, spares), out, strict=True):
            if rate > 0 and target in number:
                flow += [(number[target], index, rate), (index, index, -rate)]
    # The balance of the first state follows from those of all others; in its place probabilities add up to 1.
    entries = [entry for entry in flow if entry[0]] + [(0, column, 1.0) for column in range(size)]
    rows, columns, rates = zip(*entries, strict=True)
    law = np.maximum(spsolve(csc_matrix((rates, (rows, columns)), shape=(size, size)), np.eye(1, size)[0]), 0.0)
    law, pmf = law / law.sum(), np.zeros(groups + 1)
    np.add.at(pmf, up, law)
    return Standing(float(law @ up) / groups, pmf)


def _after_reloads(new: int, away: int, spares: int) -> tuple[tuple[int, int], ...]:
    """Return what a state becomes when a group fails or restarts, a reload ends, or a node is repaired."""
    return (
        (new + 1, away + 1) if away < spares else (new, away + 1),
        (new + 1, away),
        (new - 1, away),
        (new + 1, away - 1) if away > spares else (new, away - 1),
    )


def with_interruptions(standing: Standing, groups: int, stops: float) -> Standing:
    r"""Return how many units serve when all those of a group also stop together, for short, and independently.

    A group is out with probability ``x / (1 + x)``; the number of these is binomial, and each takes all of its units.

    Parameters
    ----------
    standing
        Of the units that are lost one by one.
    groups
        Groups that they belong to [-].
    stops
        Interruptions of a group in a time in which it serves, times their mean length: x [-].
    """
    from scipy.stats import binom

    out, size = stops / (1 + stops), (len(standing.pmf) - 1) // groups
    whole = np.zeros((groups * size) + 1)
    for number, weight in enumerate(np.asarray(binom.pmf(np.arange(groups + 1), groups, out)).tolist()):
        if weight < 1e-15:
            continue
        lost = number * size
        surviving = standing.pmf[lost:]
        whole[: len(surviving)] += weight * surviving
        whole[0] += weight * standing.pmf[:lost].sum()
    return Standing(standing.share * (1 - out), whole)
