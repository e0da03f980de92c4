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

from ettrick.sim.formulas.goodput import expected_shares
from ettrick.sim.formulas.nodes import domain_law, expected_pace

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
