"""Expected goodput of a job whose replicas go on without one another, under Poisson failures: renewal theory.

The model, in the order in which a failure is lived through. R *groups* of replicas can each leave alone; each fails at
the rate ``gamma = 1 / (M R)``.

* Everybody waits for a *downtime* d, until the failure is known; failures meanwhile merge into it.
* The group that was hit is away: it *waits* W for a node and is away for a, and a failure in that time starts it over.
* The others *stall* for c, which a failure starts over, and go on. When a group is back, those that step stall for j.
* A failure or a return costs those who step the step in flight.
* With fewer than `fewest` groups left, and at every failure of another kind (mean time between those N), the job
  restarts from its newest durable checkpoint after u, as in `ettrick.sim.formulas.goodput`. Where none is left it does
  so when one has its nodes.

Seen from one group: it is in place for 1 / gamma on average and away for a busy period, which makes it in place for a
share ``q = exp(-gamma (W + a)) / (1 + gamma d)`` of the time. While it is, the others, which fail at
``lambda = (R - 1) gamma q`` together, stall it for the share that a restart of c takes. Approximate: failures of the
others are taken as Poisson, whoever is away, which errs by the square of what stalls take; a failure hits a step
anywhere in it; stalls and absences have one length. All times [s]; shares of the time of all GPUs that the job asks for
[-]. Not in it: queueing, stragglers, lost domains.
"""

from __future__ import annotations

import math

import numpy as np

from ettrick.sim.formulas.arrays import FloatArray, expected_shortfall, mean_decay, non_negative, positive, real, whole
from ettrick.sim.formulas.goodput import expected_shares
from ettrick.sim.formulas.nodes import missing_nodes_pmf, steady_unavailability


def share_in_place(rate: float, away: float, downtime: float = 0.0) -> float:
    r"""Return the share of time for which a group of replicas is among the others [-].

    .. math:: q = \frac{e^{-\gamma (a + W)}}{1 + \gamma d} = \frac{1 / \gamma}{1 / \gamma + d + A}, \quad
        A = (1 + \gamma d) \frac{e^{\gamma (a + W)} - 1}{\gamma}

    Parameters
    ----------
    rate
        Failures of the group, gamma [1/s].
    away
        Time away of a failure that no other one interrupts, a + W [s]; A is the mean of all.
    downtime
        Time until a failure is known, d [s].

    References
    ----------
    As for `elastic_shares`.
    """
    return math.exp(-rate * away) / (1.0 + rate * downtime)


def elastic_shares(
    interval: float,
    write: float,
    mtti: float,
    groups: int,
    *,
    stall: float,
    absence: float,
    wait: float = 0.0,
    rejoin: float = 0.0,
    restart: float = 0.0,
    downtime: float = 0.0,
    drain: float = 0.0,
    step: float = 0.0,
    fewest: int = 1,
    others: float = math.inf,
    breach: float | None = None,
) -> dict[str, float]:
    r"""Return where the time of an elastic job goes [-].

    With E the shares of `expected_shares` for restarts at the rate ``Lambda`` without times of their own, and of the
    time the share x outside restarts,

    .. math::

        \text{productive} = x\, E \cdot q\, r \cdot \frac{y}{e^y - 1}, \quad
        r = \frac{e^{-\lambda c} / (1 + \lambda d)}{1 + (\lambda + \gamma) (1 - e^{-\lambda j}) / \lambda}, \quad
        y = (\gamma + 2 \lambda)\, T

    the shares in place and stepping, and what is left of steps T that failures and returns cut short.

    Parameters
    ----------
    interval, write, drain
        Computing time between saves, blocking time of one, and from its end to durability [s].
    mtti
        Mean time between the failures that send a group away, M [s], all groups in place; may be infinite.
    groups
        Groups of replicas of which each can leave alone, R [-].
    stall, rejoin
        Stalls of the others: when a group leaves, c, and when one is back, j [s].
    absence, wait
        Time away once its nodes are there, a, and mean time until they are, W [s].
    restart
        Time of a restart from a checkpoint, u [s].
    downtime
        Time until a failure is known, d [s].
    step
        Time of a step, T [s]; 0 for continuous progress.
    fewest
        Fewest groups that may go on [-].
    others
        Mean time between the failures that send no group away, N [s]; may be infinite.
    breach
        Probability that a failure leaves groups that may not go on [-]; without it, that of fewer than `fewest`.

    Returns
    -------
    dict of str to float
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, starved, restart``. They sum to 1.

    Raises
    ------
    ValueError
        If a time is negative or not finite, `interval`, `mtti` or `others` is not positive, `drain` exceeds `interval`,
        `fewest` is not from 1 to `groups`, or `breach` no probability.

    References
    ----------
    Own derivation. One group: availability of an alternating renewal process, which depends on means alone, and the
    busy period of M/G/infinity (L. Takács, "Introduction to the Theory of Queues", 1962). The phases are those of
    "Training LLMs with fault tolerant HSDP on 100,000 GPUs", arXiv 2602.00277.
    """
    for name, seconds in (("stall", stall), ("absence", absence), ("wait", wait), ("rejoin", rejoin), ("step", step)):
        non_negative(name, seconds)
    non_negative("restart", restart)
    non_negative("downtime", downtime)
    gamma = 1.0 / float(positive("mtti", mtti, infinite=True)) / float(whole("groups", groups, 1))
    rate = 1.0 / float(positive("others", others, infinite=True))
    if not 1 <= fewest <= groups:
        raise ValueError(f"fewest is a number of groups, from 1 to {groups}, not {fewest}")
    away = absence + wait
    is_counted = breach is None
    if breach is None:
        breach = _breach(groups, fewest, gamma, away, downtime)
    elif not 0 <= breach <= 1:
        raise ValueError(f"breach is a probability, from 0 to 1, not {breach}")
    # Those failures after which too few are left are restarts of all, and no longer absences of one.
    leaving = gamma * (1.0 - breach)
    place = share_in_place(leaving, away, downtime)
    stepping, detection, waste = _while_in_place(groups, leaving, place, stall, rejoin, downtime, step, away > stall)
    breaches = groups * gamma * breach
    restarts = rate + breaches
    # The first of those away is back when the others have waited for a part of an absence. Where no group is left, one
    # that has its nodes starts all: the first whose wait is over, or at once one that is whole.
    first = away / (groups - fewest + 1)
    if is_counted and fewest == 1:
        first = wait / groups * (wait / away) ** (groups - 1) if away > 0 else 0.0
    waiting = (fewest - 1) / groups if fewest > 1 else 1.0
    idle = breaches / restarts * first if restarts > 0 else 0.0
    pause = restart + idle
    if is_counted:
        up, undetected, again = _around_restarts(restarts, rate + groups * gamma, pause, downtime)
        empty = (again * idle / pause if pause > 0 else 0.0) * waiting
    else:
        # Others that leave do not start the wait over: it is for those that are one too many.
        up, undetected, again = _around_restarts(restarts, rate + groups * gamma, restart, downtime, idle)
        empty = up * restarts * idle * (fewest - 1) / groups
    # Work is at risk while the groups stand still too, so that restarts come sooner in the time in which they step.
    apart = float(stepping) / float(restarts) if restarts > 0 else math.inf
    # Where no replica ever steps, it does not matter how that time would be spent.
    work = expected_shares(interval, write, apart if apart > 0 else math.inf, 0.0, 0.0, drain)
    # The share of time for which a group is away, the detection of its failures left out.
    gone = up * (-math.expm1(-leaving * away) / (1.0 + leaving * downtime))
    absent = gone * (absence / away if away > 0 else 0.0)
    shares = {
        "productive": up * place * stepping * work["productive"] * (1.0 - waste),
        "checkpoint_stall": up * place * stepping * work["checkpoint_stall"],
        "lost_work": up * place * stepping * (work["lost_work"] + work["productive"] * waste),
        "detection": undetected + up * (leaving * downtime / (1.0 + leaving * downtime) + place * detection),
        "starved": empty + gone - absent,
    }
    return shares | {"restart": again - empty + absent + up * place * (1.0 - stepping - detection)}


def _breach(groups: int, fewest: int, rate: float, away: float, downtime: float) -> float:
    """Return the probability that a failure leaves fewer groups than may go on [-]: so many others are away."""
    if groups == fewest:
        return 1.0
    from scipy.special import betainc

    return float(betainc(groups - fewest, fewest, 1.0 - share_in_place(rate, away, downtime)))


def _while_in_place(
    groups: int, rate: float, place: float, stall: float, rejoin: float, downtime: float, step: float, is_late: bool
) -> tuple[float, float, float]:
    """Return of a group in place the shares stepping and detection others' failures, and the share of steps cut [-].

    `rate` is that at which a group leaves [1/s]; unless it `is_late` it is back before the others go on.
    """
    failures = (groups - 1) * rate * place
    returns = rejoin * real(mean_decay(failures * rejoin)) if is_late else 0.0
    stepping = math.exp(-failures * stall) / (1.0 + failures * downtime) / (1.0 + (failures + rate) * returns)
    detection = failures * downtime / (1.0 + failures * downtime)
    cuts = (rate + (2.0 if is_late else 1.0) * failures) * step
    # Of a step in flight at a time that is exponential, (y / (e^y - 1)) is whole steps.
    return stepping, detection, 1.0 - (cuts / math.expm1(cuts) if 0 < cuts < 700 else float(cuts == 0))


def _around_restarts(
    rate: float, failures: float, pause: float, downtime: float, idle: float = 0.0
) -> tuple[float, float, float]:
    """Return the shares of time outside restarts, in detection, and in restarts with the `idle` time before them [-].

    Restarts come at `rate`, and `failures` [1/s] start one over: it takes ``(exp(f u) - 1) / f``, and a detection for
    each of ``exp(f u)`` failures.
    """
    if rate == 0:
        return 1.0, 0.0, 0.0
    tries = math.exp(min(failures * pause, 700.0))
    undetected, again = rate * tries * downtime, rate * ((tries - 1.0) / failures + idle)
    cycle = 1.0 + undetected + again
    return 1.0 / cycle, undetected / cycle, again / cycle


def replicated_mtti(pairs: int, mtbf: float) -> float:
    r"""Return the mean time to interrupt of a job whose nodes are there twice and are never replaced [s].

    .. math:: \text{MTTI} = \int_0^\infty \left(2 e^{-t/\mu} - e^{-2t/\mu}\right)^n dt
        = \frac{\mu}{2n} \left(1 + 4^n \Big/ \binom{2n}{n}\right)

    It is interrupted when both of some pair are lost; lives are exponential. About :math:`\mu \sqrt{\pi / 4n}`.

    Parameters
    ----------
    pairs
        Pairs of nodes, n [-].
    mtbf
        Mean time between failures of a node, mu [s].

    Raises
    ------
    ValueError
        If `pairs` is below 1 or `mtbf` not positive.

    References
    ----------
    H. Casanova, Y. Robert, F. Vivien, D. Zaidouni, "Combining process replication and checkpointing for resilience on
    exascale systems", INRIA RR-7951, 2012, which corrects the birthday argument of K. Ferreira et al., SC 2011; in this
    form A. Benoit et al., "Replication is more efficient than you think", SC 2019.
    """
    n, mean = float(whole("pairs", pairs, 1)), float(positive("mtbf", mtbf))
    return mean / (2 * n) * (1 + math.sqrt(math.pi) * math.exp(math.lgamma(n + 1) - math.lgamma(n + 0.5)))


def mean_wait(needed: int, extra: int, life: float, repair: float, idle: int = 0) -> float:
    r"""Return the mean time for which a failed node's place stays empty [s].

    .. math:: W = -L \ln(1 - m / N), \quad m = E \max(X - s, 0)

    N nodes are needed and s are there beyond them; X of all are down, each independently for the share that its life L
    and repair give. By Little's law m empty places are m L / N of waiting for each failure. The logarithm lets
    ``exp(-n W / L)`` be the probability that none of n places is empty: exact without extra nodes, if each returns
    to its own place. Where it goes to whoever waits longest, empty places gather, and a little more is whole.

    Parameters
    ----------
    needed, extra
        Nodes of the job, and nodes that may replace them [-].
    life, repair
        Mean time between the failures of a node that is up, and mean time until it is back [s].
    idle
        Nodes that may not, but that join those when they return from repair while some of those are away [-]. Of i
        idle nodes I stay idle, as many as fail as often as one returns to a full pool: ``I / N = P(X < i - I)``; the
        others count as extra. That holds to about a fifth of the wait.

    Raises
    ------
    ValueError
        As `missing_nodes_pmf` and `steady_unavailability`.

    References
    ----------
    J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961). Idle nodes: own.
    """
    if math.isinf(life) or repair == 0:
        return 0.0
    law = missing_nodes_pmf(needed + extra + idle, steady_unavailability(life, repair))
    pool = extra + idle - (_still_idle(law, needed, idle) if idle else 0.0)
    whole_nodes = math.floor(pool)
    empty = expected_shortfall(law, whole_nodes)
    if pool > whole_nodes:
        empty += (pool - whole_nodes) * (expected_shortfall(law, whole_nodes + 1) - empty)
    return -life * math.log1p(-empty / needed)


def _still_idle(law: FloatArray, needed: int, idle: int) -> float:
    """Return how many of the idle nodes stay idle [-]: where what leaves them equals what joins them, between nodes."""
    joining = np.append(np.cumsum(law)[:idle][::-1], 0.0)
    leaving = np.arange(idle + 1) / needed
    return float(np.interp(0.0, leaving - joining, np.arange(idle + 1)))
