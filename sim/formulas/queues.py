"""The limits of a queue that have a closed form. Times [s], rates [1/s], probabilities [-]."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ettrick.sim.formulas.arrays import inside, non_negative, positive, whole
from ettrick.sim.formulas.nodes import fewest, repairs_pmf


def erlang_c(servers: int, offered: float) -> float:
    r"""Return the probability that a job waits in M/M/c, first come first served [-].

    .. math:: C = B / (1 - \rho (1 - B)), \quad B_k = a B_{k-1} / (k + a B_{k-1}), \quad B_0 = 1, \quad \rho = a / c

    The mean wait is :math:`C E[S] / (c - a)`, and :math:`P(W > t) = C e^{-(c - a) t / E[S]}`.

    Parameters
    ----------
    servers : int
        Jobs that run at once, c [-].
    offered : float
        Arrival rate times mean run time, a [-]; at c and above all wait.

    Raises
    ------
    ValueError
        If `servers` is no whole number from 1, or `offered` is negative.

    References
    ----------
    A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone
    exchanges", Elektroteknikeren 13 (1917).
    """
    c, a = int(whole("servers", servers, 1)), float(non_negative("offered", offered))
    if a >= c:
        return 1.0
    blocked = 1.0
    for k in range(1, c + 1):
        blocked = a * blocked / (k + a * blocked)
    return blocked / (1 - a / c * (1 - blocked))


def mean_wait(servers: int, offered: float, service: float) -> float:
    """Return the mean wait in M/M/c [s], of a mean run time `service` [s]; infinite where the queue grows for ever.

    For the other parameters, errors and the reference see :func:`erlang_c`.
    """
    time = float(positive("service", service))
    waits = erlang_c(servers, offered)
    return waits * time / (servers - offered) if offered < servers else math.inf


def gang_saturation(slots: int, small: float) -> tuple[float, float]:
    r"""Return the largest stable arrival rate under strict FIFO, and the occupancy there [-].

    .. math:: 1 / \lambda = q \left(1 + \sum_{j=1}^{c} p^j / j\right) + p^{c+1} / c, \quad q = 1 - p, \quad
        u = \lambda (p + c q) / c

    Jobs need one slot with probability p, or all c; run times are exponential with mean 1. A job of all slots waits
    until the last of those that run has ended, and all behind it wait too: between two of them a geometric number of
    small jobs is worked off.

    Parameters
    ----------
    slots : int
        Slots of the cluster, c [-].
    small : float
        Probability that a job needs one slot, p [-].

    Returns
    -------
    tuple of float
        Arrivals in a mean run time [-], and the share of slots in use [-].

    Raises
    ------
    ValueError
        If `slots` is no whole number from 1, or `small` not above 0 and below 1.

    References
    ----------
    Derived from the renewal at each start of a job of all slots. P. H. Brill and L. Green, Management Science 30
    (1984), treat servers that a customer takes together.
    """
    c, p = int(whole("slots", slots, 1)), float(inside("small", small))
    q = 1 - p
    rate = 1 / (q * (1 + math.fsum(p**j / j for j in range(1, c + 1))) + p ** (c + 1) / c)
    return rate, rate * (p + c * q) / c


def pool_empty(offered: float, spares: int) -> float:
    """Return the probability that a shared pool of spares has none left [-].

    The number in repair has the Poisson law of M/G/infinity, whatever the law of repairs, as long as the pool covers
    the losses; then it is empty when `spares` nodes or more are in repair.

    Parameters
    ----------
    offered : float
        Nodes lost in unit time, over all jobs, times the mean repair [nodes].
    spares : int
        Nodes of the pool [-].

    Raises
    ------
    ValueError
        If `offered` is negative, or `spares` is no whole number from 0.

    References
    ----------
    C. Palm, "Analysis of the Erlang traffic formulae", Ericsson Technics (1938).
    """
    count = int(whole("spares", spares, 0))
    return max(1.0 - float(repairs_pmf(offered, count - 1).sum()), 0.0) if count else 1.0


class StockMetrics(NamedTuple):
    """The metrics of a stock of parts: fill rate, repairs that wait, parts on the shelf [-], mean wait [s]."""

    fill_rate: float
    waiting: float
    on_hand: float
    wait: float


def base_stock(demand: float, lead: float, stock: int) -> StockMetrics:
    r"""Return what a stock of parts comes to that is ordered one by one, as each is taken.

    Parts on order have the Poisson law N with mean ``D L``, whatever the law of independent lead times; a repair finds
    its part with ``P(N <= S - 1)``, ``E(N - S)^+`` of them wait, and each for that number over D (Little).

    Parameters
    ----------
    demand : float
        Parts that are asked for in unit time, D [1/s].
    lead : float
        Mean lead time, L [s].
    stock : int
        Parts on the shelf where none is on order, S [-].

    Returns
    -------
    Shelf
        Each a float.

    Raises
    ------
    ValueError
        If `demand` or `lead` is not above zero, or `stock` is no whole number from 0.

    References
    ----------
    C. Palm, Ericsson Technics (1938), for the law; G. J. Feeney, C. C. Sherbrooke, "The (s-1, s) inventory policy under
    compound Poisson demand", Management Science 12 (1966).
    """
    offered = float(positive("demand", demand)) * float(positive("lead", lead))
    count = int(whole("stock", stock, 0))
    law = repairs_pmf(offered, max(count, 1))
    on_hand = float((count - np.arange(count + 1)) @ law[: count + 1])
    waiting = max(offered - count + on_hand, 0.0)
    return StockMetrics(float(law[:count].sum()), waiting, on_hand, waiting / demand)


def best_stock(demand: float, lead: float, ratio: float) -> int:
    r"""Return the stock of least cost: the smallest S with ``P(N <= S) >= b / (b + h)``, N as in `base_stock` [-].

    A part on the shelf costs h for a time, a node that waits for one b = `ratio` h (the newsvendor's critical ratio).

    Raises
    ------
    ValueError
        As `base_stock`, if `ratio` is not above zero, or if a million parts are not enough.

    References
    ----------
    K. J. Arrow, T. Harris, J. Marschak, "Optimal inventory policy", Econometrica 19 (1951).
    """
    critical = 1 / (1 + 1 / float(positive("ratio", ratio)))
    return fewest(lambda stock: base_stock(demand, lead, stock + 1).fill_rate, critical)
