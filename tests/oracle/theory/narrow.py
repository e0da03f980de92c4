"""Expected pace of a job whose tensor groups go on narrower when they lose GPUs, until these are repaired.

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

from sim.formulas.goodput import expected_shares
from sim.formulas.nodes import missing_nodes_pmf

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


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

    References
    ----------
    "Nonuniform-tensor-parallelism: mitigating GPU failure impact for scaled-up LLM training", arXiv 2504.06095. A job
    that drops a replica which lost a GPU has the paces 1, 0, 0, ... instead.
    """
    widths = range(1, tensor) if allowed is None else allowed
    left = np.array([max(width for width in widths if width <= tensor - lost) for lost in range(1, most + 1)])
    # A whole domain has no power to spare.
    return np.append(1.0, np.minimum(1.0, boost * left / tensor))


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
    paces: Sequence[float] | FloatArray,
    law: FloatArray,
    replicas: int,
    domains: int,
    *,
    after: FloatArray | None = None,
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

    References
    ----------
    Own; the packing is that of arXiv 2504.06095.
    """
    one = law if after is None else after
    number = np.arange(replicas * domains)
    missing = 0.0
    for lost, drop in enumerate(-np.diff(paces), start=1):
        with_others, alone = _at_least(law, lost), _at_least(one, lost)
        others = missing_nodes_pmf(number.size - 1, with_others)
        mean = others @ ((1.0 - alone) * np.ceil(number / domains) + alone * np.ceil((number + 1) / domains))
        missing += drop * float(mean)
    nobody = (1.0 - _at_least(law, 1)) ** (number.size - 1) * (1.0 - _at_least(one, 1))
    return float((1.0 - reshard) * (1.0 - missing / replicas) + reshard * nobody)


def narrow_shares(
    interval: float,
    write: float,
    life: float,
    repair: float,
    replicas: int,
    domains: int,
    tensor: int,
    paces: Sequence[float] | FloatArray,
    *,
    restart: float = 0.0,
    downtime: float = 0.0,
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
    interval, write
        Computing time between saves, and blocking time of one [s].
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

    References
    ----------
    Own derivation: the time to the next failure does not depend on the pace, so that the pace of the time is that of
    the failures (R. W. Wolff, "Poisson arrivals see time averages", Operations Research 30 (1982)).
    """
    law = domain_law(tensor, len(paces) - 1, life, repair + downtime)
    # One more is missing of the domain that was struck, and none of one that is replaced.
    lost, usual = (
        expected_pace(paces, law, replicas, domains, after=one, reshard=reshard) for one in (np.roll(law, 1), law)
    )
    rate, other = replicas * domains * tensor / life, 1.0 / others
    pace = (rate * lost + other * usual) / (rate + other)
    found = expected_shares(interval, write, 1.0 / (rate + other), restart, downtime)
    # Saves count computing, whatever its pace: lost work and stalls are those of the healthy job.
    stepping = found.pop("productive")
    return {"productive": pace * stepping, "degraded": (1.0 - pace) * stepping, **found}


def _at_least(law: FloatArray, lost: int) -> float:
    """Return the probability that a domain misses so many GPUs or more [-]."""
    return min(float(law[lost:].sum()), 1.0)
