r"""Expected pace of a job whose tensor groups go on narrower when they lose GPUs, until these are repaired.

R *replicas* of g *domains* each (a domain is a tensor-parallel group) of T GPUs. A domain loses a GPU at the rate
``T / L``, whatever it misses already, and has it back after r; meanwhile it steps on with what is left. It is replaced
as a whole, at once, when it would miss more than *most*. Each failure restarts the job, and ranks are laid out anew:
the domains with gaps are in the fewest replicas, the worst together, and a replica does what its worst domain can. A
repaired GPU counts from the next restart on, so the pace of a time is that of the failure before it.

Failures are then Poisson and domains independent, so all is exact for exponential repairs, and for others as far as
nothing is replaced (M/G/infinity). The sum over replicas needs no order statistics: of B domains that miss m or more,
the ``ceil(B / g)`` worst replicas hold all. That gaps go on failing overstates a domain's rate by the share that it
misses. The same rules as the strategy `narrow`. Times [s], shares and probabilities [-].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim.theory.availability import missing_nodes_pmf
from sim.theory.broadcast import FloatArray, non_negative, positive
from sim.theory.counts import whole
from sim.theory.goodput import expected_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["domain_law", "expected_pace", "narrow_paces", "narrow_shares"]


def narrow_paces(tensor: int, most: int, *, allowed: Sequence[int] | None = None, boost: float = 1.0) -> FloatArray:
    r"""Return what a replica does whose worst domain misses 0, 1, ..., `most` GPUs [-]: ``min(1, b T' / T)``.

    Parameters
    ----------
    tensor : int
        GPUs of a domain, T.
    most : int
        Most GPUs that a domain may miss.
    allowed : sequence of int, optional
        Widths at which a domain can run, beside T; T' is the widest of at most what is left. Without it, any.
    boost : float
        How much faster GPUs of a narrow domain run, b [-].

    Returns
    -------
    (most + 1,) array
        Share of the healthy pace [-].

    Raises
    ------
    ValueError
        If `tensor` is no whole number from 1, `most` is not from 0 to below it, or no allowed width is left.

    References
    ----------
    "Nonuniform-tensor-parallelism: mitigating GPU failure impact for scaled-up LLM training", arXiv 2504.06095. A job
    that drops a replica which lost a GPU has the paces 1, 0, 0, ... instead.
    """
    wide, last = int(whole("tensor", tensor, 1)), int(whole("most", most, 0))
    if last >= wide:
        message = f"most must be below tensor, {wide}, got {most!r}"
        raise ValueError(message)
    widths = range(1, wide) if allowed is None else sorted(allowed)
    left = [wide]
    for lost in range(1, last + 1):
        fitting = [width for width in widths if width <= wide - lost]
        if not fitting:
            message = f"most must leave an allowed width: with {lost} of {wide} GPUs lost none of {list(widths)} fits"
            raise ValueError(message)
        left.append(fitting[-1])
    # A whole domain has no power to spare.
    return np.append(1.0, np.minimum(1.0, float(positive("boost", boost)) * np.array(left[1:]) / wide))


def domain_law(tensor: int, most: int, life: float, outage: float) -> FloatArray:
    r"""Return the probabilities that 0, 1, ..., `most` GPUs of a domain are missing.

    From k to k + 1 at ``T / L``, but from *most* to 0 (a new domain), and back at ``k / r``. Without the reset it is
    the Poisson law with mean ``T r / L``, cut off.

    Parameters
    ----------
    tensor, most : int
        GPUs of a domain, T, and most that it may miss.
    life, outage : float
        Mean time between the failures of a GPU (may be infinite), and from one to its return [s].

    Returns
    -------
    (most + 1,) array
        Probabilities [-].

    Raises
    ------
    ValueError
        As `narrow_paces`, if `life` is not positive, or `outage` negative or not finite.

    References
    ----------
    Own: every cut of the chain is crossed upwards as often as downwards, resets included.
    """
    wide, last = int(whole("tensor", tensor, 1)), int(whole("most", most, 0))
    rate, back = 1.0 / float(positive("life", life, infinite=True)), float(non_negative("outage", outage))
    if last >= wide:
        message = f"most must be below tensor, {wide}, got {most!r}"
        raise ValueError(message)
    if rate == 0.0 or back == 0.0:
        return np.append(1.0, np.zeros(last))
    weights = np.ones(last + 1)
    reset = wide * rate
    for lost in range(last - 1, -1, -1):
        # What leaves by the reset comes down past every cut.
        weights[lost] = (weights[lost + 1] * (lost + 1) / back + reset) / (wide * rate)
        if weights[lost] > 1e200:
            weights, reset = weights / weights[lost], reset / weights[lost]
    return np.asarray(weights / weights.sum())


def expected_pace(
    paces: npt.ArrayLike,
    law: npt.ArrayLike,
    replicas: int,
    domains: int,
    *,
    after: npt.ArrayLike | None = None,
    reshard: float = 0.0,
) -> float:
    r"""Return the expected pace of a job with domains of one law, the worst together [-].

    .. math:: 1 - \frac{1}{R} \sum_{m \ge 1} (f_{m - 1} - f_m)\, E \left\lceil \frac{B_m}{g} \right\rceil, \quad
        B_m \sim \mathrm{Bin}(R g, P(X \ge m))

    and, while some domain misses a GPU, a share rho of that less for resharding. With one replica of all domains it is
    the pace of the slowest.

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

    Raises
    ------
    ValueError
        If the arrays differ in length, paces rise or do not start at 1, or `replicas` or `domains` is no whole number
        from 1.

    References
    ----------
    Own; the packing is that of arXiv 2504.06095.
    """
    count, each = int(whole("replicas", replicas, 1)), int(whole("domains", domains, 1))
    shares, usual = np.asarray(paces, dtype=np.float64), np.asarray(law, dtype=np.float64)
    one = usual if after is None else np.asarray(after, dtype=np.float64)
    if not shares.shape == usual.shape == one.shape:
        message = f"paces and laws must be of one length, got {shares.size}, {usual.size} and {one.size}"
        raise ValueError(message)
    if shares[0] != 1.0 or np.any(np.diff(shares) > 0) or shares[-1] < 0:
        message = f"paces must fall from 1 to 0 at least, got {paces!r}"
        raise ValueError(message)
    number = np.arange(count * each)
    missing = 0.0
    for lost, drop in enumerate(-np.diff(shares), start=1):
        with_others, alone = _at_least(usual, lost), _at_least(one, lost)
        others = missing_nodes_pmf(number.size - 1, with_others) if number.size > 1 else np.ones(1)
        mean = others @ ((1.0 - alone) * np.ceil(number / each) + alone * np.ceil((number + 1) / each))
        missing += drop * float(mean)
    nobody = (1.0 - _at_least(usual, 1)) ** (number.size - 1) * (1.0 - _at_least(one, 1))
    return float((1.0 - reshard) * (1.0 - missing / count) + reshard * nobody)


def narrow_shares(
    interval: float,
    write: float,
    life: float,
    repair: float,
    replicas: int,
    domains: int,
    tensor: int,
    paces: npt.ArrayLike,
    *,
    restart: float = 0.0,
    downtime: float = 0.0,
    drain: float = 0.0,
    reshard: float = 0.0,
    others: float = math.inf,
) -> dict[str, float]:
    r"""Return where the time of a job goes whose domains run narrower while GPUs are repaired [-].

    With E the shares of `expected_shares` at all failures, those of GPUs at ``lambda = R g T / L`` and others at
    ``1 / N``, and the pace of the mean failure

    .. math:: f = \frac{\lambda f^+ + f^0 / N}{\lambda + 1 / N}

    just after one of the domains lost a GPU, and at any time: the productive share is ``f E``, the degraded one
    ``(1 - f) E``.

    Parameters
    ----------
    interval, write, drain
        Computing time between saves, blocking time of one, and from its end to durability [s].
    life, repair
        Mean time between the failures of a GPU, L, and from its failure being known to its return [s].
    replicas, domains, tensor
        Replicas, R, domains of one, g, and GPUs of one of these, T.
    paces : (most + 1,) array
        What a replica does whose worst domain misses 0, 1, ..., *most* GPUs [-], as `narrow_paces` gives it.
    restart, downtime
        Time of a restart, restore included, and time until a failure is known [s].
    reshard
        Share of the time that resharding takes while some domain is narrow [-].
    others
        Mean time between failures that restart the job and lose no GPU, N [s]; may be infinite.

    Returns
    -------
    dict of str to float
        Shares [-] named ``productive, degraded, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    Raises
    ------
    ValueError
        As `domain_law`, `expected_pace` and `expected_shares`.

    References
    ----------
    Own derivation: the time to the next failure does not depend on the pace, so that the pace of the time is that of
    the failures (R. W. Wolff, "Poisson arrivals see time averages", Operations Research 30 (1982)).
    """
    shares = np.asarray(paces, dtype=np.float64)
    law = domain_law(tensor, shares.size - 1, life, repair + float(non_negative("downtime", downtime)))
    # One more is missing of the domain that was struck, and none of one that is replaced.
    after = np.roll(law, 1)
    rate = replicas * domains * tensor / float(positive("life", life, infinite=True))
    other = 1.0 / float(positive("others", others, infinite=True))
    if rate + other == 0.0:
        pace, mtti = 1.0, math.inf
    else:
        lost, usual = (
            expected_pace(shares, law, replicas, domains, after=one, reshard=reshard) for one in (after, law)
        )
        pace, mtti = (rate * lost + other * usual) / (rate + other), 1.0 / (rate + other)
    found = expected_shares(interval, write, mtti, restart, downtime, drain)
    # Saves count computing, whatever its pace: lost work and stalls are those of the healthy job.
    stepping = found.pop("productive")
    return {"productive": pace * stepping, "degraded": (1.0 - pace) * stepping, **found}


def _at_least(law: FloatArray, lost: int) -> float:
    """Return the probability that a domain misses so many GPUs or more [-]."""
    return min(float(law[lost:].sum()), 1.0)
