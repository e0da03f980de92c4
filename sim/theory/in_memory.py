"""Copies of the state in the memory of other nodes: when a group loses all of them, and what that costs a job.

N nodes form groups of m that hold each other's shards: a node's own copy and m - 1 others. Of a last group that would
not be full the nodes form a smaller one, and a single node joins the group before it. The copies are of no use once
all nodes of a group are lost before what the first of them held has been restored.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sim.theory.broadcast import non_negative, positive
from sim.theory.counts import whole
from sim.theory.multilevel import multilevel_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["group_loss_rate", "group_survival", "group_survival_bound", "in_memory_shares", "restart_loss_rate"]


def group_survival(nodes: int, copies: int, lost: int) -> float:
    r"""Return the probability that k nodes lost at once leave a copy in every group [-].

    .. math:: P = \sum_j (-1)^j \binom{G}{j} \binom{N - j m}{k - j m} \Big/ \binom{N}{k}

    by inclusion and exclusion over the G = N / m groups of which all nodes are among the lost; a last group of another
    size has a term of its own. Every set of k nodes is equally likely: not where a rack or a switch takes neighbours.

    Parameters
    ----------
    nodes
        Nodes of the job, N [-].
    copies
        Nodes that hold each shard, its own included, m [-].
    lost
        Nodes lost at once, k [-].

    Returns
    -------
    float
        Probability [-], from whole numbers without rounding.

    Raises
    ------
    ValueError
        If a number is not whole, `copies` is not from 1 to `nodes`, or `lost` not from 0 to `nodes`.

    References
    ----------
    Z. Wang et al., "GEMINI: Fast failure recovery in distributed training with in-memory checkpoints", SOSP 2023, gives
    the bound, `group_survival_bound`; the exact sum is our own.
    """
    groups, last = _groups(nodes, copies)
    _lost(nodes, lost)
    sets = 0
    for full in range(min(groups, lost // copies) + 1):
        taken = full * copies
        ways = _choose(nodes - taken, lost - taken)
        if last:
            ways -= _choose(nodes - taken - last, lost - taken - last)
        sets += (-1) ** full * math.comb(groups, full) * ways
    return float(Fraction(sets, math.comb(nodes, lost)))


def group_survival_bound(nodes: int, copies: int, lost: int) -> float:
    r"""Return GEMINI's lower bound of `group_survival`, ``1 - (N / m) C(N - m, k - m) / C(N, k)`` for k >= m [-].

    It adds up the groups as if no two of them could be lost at once: exact for ``k < 2 m``, and 1 for ``k < m``. Below
    zero it says nothing.

    Parameters
    ----------
    nodes, copies, lost
        As for `group_survival` [-]; `copies` divides `nodes`.

    Raises
    ------
    ValueError
        As `group_survival`, or if `copies` does not divide `nodes`.

    References
    ----------
    GEMINI, SOSP 2023: 0.933 for 16 nodes, 2 copies and 2 lost, and its bound for numbers of machines that m divides.
    """
    groups, last = _groups(nodes, copies)
    _lost(nodes, lost)
    if last:
        message = f"copies must divide nodes, got {copies} and {nodes}; group_survival takes any number"
        raise ValueError(message)
    return float(1 - Fraction(groups * _choose(nodes - copies, lost - copies), math.comb(nodes, lost)))


def group_loss_rate(nodes: int, copies: int, life: float, exposure: float) -> float:
    r"""Return how often a group loses all its copies, where nodes fail independently [1/s].

    .. math:: f = \frac{N}{m} \cdot \frac{m}{L + e}\, q^{m - 1}, \quad q = \frac{e}{L + e}

    A node lives for L and is without its copy for e, on average, whatever the laws: a share q of the time. Its group is
    lost when it fails while all others are without theirs. For ``e << L`` that is ``N (e / L)^(m - 1) / L``. Assumes
    that exposures of different nodes end independently: copies are made again beside a job that runs on, and not by
    its restart, as in `restart_loss_rate`. A failure that takes nodes together adds `group_survival`.

    Parameters
    ----------
    nodes, copies
        As for `group_survival` [-].
    life
        Mean time between the failures of a node that is up, L [s]; may be infinite.
    exposure
        Mean time from the loss of a node until its shards have all their copies again, e [s].

    Raises
    ------
    ValueError
        As `group_survival`, or if `life` is not positive, or `exposure` negative or not finite.

    References
    ----------
    Frequency of a parallel system of alternating renewal processes: R. E. Barlow, F. Proschan, "Statistical Theory of
    Reliability and Life Testing" (1975).
    """
    groups, last = _groups(nodes, copies)
    mean = float(positive("life", life, infinite=True)) + float(non_negative("exposure", exposure))
    absent = exposure / mean
    together = groups * copies * absent ** (copies - 1)
    if last:
        together += last * absent ** (last - 1)
    return together / mean


def restart_loss_rate(
    nodes: int, copies: int, life: float, restart: float, downtime: float = 0.0, others: float = math.inf
) -> float:
    r"""Return how often a group loses all its copies before the restart of its job has made them again [1/s].

    .. math:: f = \frac{N \gamma}{1 + m \gamma e} \prod_{i = 1}^{m - 1} \frac{x_i}{1 + x_i}, \quad
        x_i = (m - i)\, \gamma\, e, \quad e = d\, e^{\Lambda u} + \frac{e^{\Lambda u} - 1}{\Lambda}

    Every failure of the job starts the restart over, after another downtime, so that copies are missing for e on
    average, of all nodes lost meanwhile at once: with i of a group lost, ``x_i / (1 + x_i)`` is the chance that another
    one of it is before that is over. To first order ``N (m - 1)! (gamma e)^(m - 1) gamma``, (m - 1)! times what
    `group_loss_rate` has, whose exposures do not prolong each other. Exact in this but for failures of one downtime
    which share it, and for nodes lost again before they are back.

    Parameters
    ----------
    nodes, copies
        As for `group_survival` [-].
    life
        Mean time between the failures of a node, L = 1 / gamma [s]; may be infinite.
    restart
        Restart of the job from copies in memory, u [s].
    downtime
        Time until a failure is known, d [s].
    others
        Mean time between faults that leave the memory of all nodes [s]; may be infinite. Lambda is the rate of all.

    Raises
    ------
    ValueError
        As `group_survival`, or if `life` or `others` is not positive, or another time negative or not finite.

    References
    ----------
    Own derivation, by the memorylessness of the time to the next failure.
    """
    groups, last = _groups(nodes, copies)
    rate = 1.0 / float(positive("life", life, infinite=True))
    total = nodes * rate + 1.0 / float(positive("others", others, infinite=True))
    exponent = min(total * float(non_negative("restart", restart)), 700.0)
    exposure = float(non_negative("downtime", downtime)) * math.exp(exponent)
    exposure += math.expm1(exponent) / total if total > 0 else restart

    def of_one(size: int) -> float:
        more = [left * rate * exposure for left in range(1, size)]
        return size * rate / (1.0 + size * rate * exposure) * math.prod(one / (1.0 + one) for one in more)

    return groups * of_one(copies) + (of_one(last) if last else 0.0)


def in_memory_shares(
    interval: float,
    count: int,
    writes: Sequence[float],
    restarts: Sequence[float],
    nodes: int,
    copies: int,
    life: float,
    *,
    downtime: float = 0.0,
    others: float = math.inf,
) -> dict[str, float]:
    r"""Return where the time of a job goes that saves to the memory of its nodes, and less often outside them [-].

    Two levels of `multilevel_shares`. A lost node is a fault of class 1, or of class 2 if it was the last of its group:
    at `restart_loss_rate`. Faults of other kinds leave memory as it is, and are of class 1.

    Approximate in that losses of groups come by themselves, and not in the restart of another failure: to first order
    in ``Lambda e``.

    Parameters
    ----------
    interval
        Computing time between saves to memory, tau [s].
    count
        Saves to memory for each one to the store outside [-].
    writes, restarts
        Blocking time of a save, and restart from a copy: in memory and outside [s].
    nodes, copies
        As for `group_survival` [-].
    life
        Mean time between the failures of a node, L [s]; may be infinite.
    downtime
        Time until a failure is known, d [s].
    others
        Mean time between faults that leave the memory of all nodes [s]; may be infinite.

    Returns
    -------
    dict of str to float
        Shares [-], as of `multilevel_shares`.

    Raises
    ------
    ValueError
        As `multilevel_shares` and `restart_loss_rate`, or if there are not two writes and restarts.

    References
    ----------
    As for `multilevel_shares` and `group_survival`.
    """
    if len(writes) != 2 or len(restarts) != 2:
        message = f"writes and restarts must have two values, in memory and outside, got {writes!r} and {restarts!r}"
        raise ValueError(message)
    losing = restart_loss_rate(nodes, copies, life, restarts[0], downtime, others)
    total = nodes / life + 1.0 / others
    rates = (total - losing, losing)
    return multilevel_shares(interval, (count,), writes, rates, restarts, downtimes=(downtime, downtime))


def _groups(nodes: int, copies: int) -> tuple[int, int]:
    """Return how many groups have `copies` nodes, and the size of the one that has not, or 0."""
    whole("nodes", nodes, 1)
    whole("copies", copies, 1)
    if copies > nodes:
        message = f"copies must be from 1 to the number of nodes, {nodes}, got {copies}"
        raise ValueError(message)
    groups, rest = divmod(nodes, copies)
    if rest == 1:
        return groups - 1, copies + 1
    return groups, rest


def _lost(nodes: int, lost: int) -> None:
    whole("lost", lost, 0)
    if lost > nodes:
        message = f"lost must be from 0 to the number of nodes, {nodes}, got {lost}"
        raise ValueError(message)


def _choose(of: int, number: int) -> int:
    """Return in how many ways so many can be chosen; none for less than zero."""
    return math.comb(of, number) if number >= 0 else 0
