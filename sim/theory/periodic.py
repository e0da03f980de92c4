r"""Goodput under failures that come like clockwork: the arithmetic of one cycle, from a failure to the next.

Reports of large jobs often count in this way: each failure costs a stall, and the share lost is the stall over the time
between failures. R *groups* of replicas can each leave alone (a single one is a rigid job); one of them fails every M.

* Everybody waits for a *downtime* d, until the failure is known, and the others for a *stall* c more.
* The group that was hit is away for a, counted from when its failure is known. If it is back later than the others go
  on, it stalls all of them for j. Several groups are away at a time if a is longer than M.
* A failure, and such a return, costs those who step half a step T.

Nothing is rolled back but steps, and no failure meets the stall of another one, which is why the answers differ from
those of `sim.theory.elastic` by second-order terms. All times [s]; shares of the time of all GPUs that the job asks
for [-].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.theory.broadcast import FloatArray, non_negative, plain, positive
from sim.theory.counts import whole

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["effective_training_time", "periodic_shares"]


def effective_training_time(mtti: npt.ArrayLike, stall: npt.ArrayLike) -> float | FloatArray:
    r"""Return the share of time in which a job is not stalled by failures, ``max(1 - S / M, 0)`` [-].

    The published arithmetic: work that is rolled back, saves, and replicas that are missing while others step count as
    effective. `periodic_shares` takes them out.

    Parameters
    ----------
    mtti : float or (n,) array
        Time between failures, M [s]; may be infinite.
    stall : float or (n,) array
        All that a failure stalls the job for, detection and rejoining included, S [s].

    Returns
    -------
    float or (n,) array
        Share [-].

    Raises
    ------
    ValueError
        If `stall` is negative or not finite, or `mtti` not positive.

    References
    ----------
    "Training LLMs with fault tolerant HSDP on 100,000 GPUs", arXiv 2602.00277: stalls of 10 and 3 min, 44 % and 80 %.
    That these are this share at a failure every 18 min is our reading: it gives 44.4 % and 83.3 %, and 80.1 % with a
    twelfth of the GPUs missing for 7 min.
    """
    return plain(np.maximum(1.0 - non_negative("stall", stall) / positive("mtti", mtti, infinite=True), 0.0))


def periodic_shares(
    mtti: npt.ArrayLike,
    groups: int,
    *,
    stall: npt.ArrayLike,
    absence: npt.ArrayLike = 0.0,
    rejoin: npt.ArrayLike = 0.0,
    downtime: npt.ArrayLike = 0.0,
    step: npt.ArrayLike = 0.0,
    interval: npt.ArrayLike = np.inf,
    write: npt.ArrayLike = 0.0,
) -> dict[str, FloatArray]:
    r"""Return where the time of a job goes of which one group fails every M [-].

    .. math:: \text{stepping} = P - \frac{A}{R}, \quad P = 1 - \frac{d + c + j}{M}, \quad
        A = \left\lfloor \frac{x}{M} \right\rfloor P + \frac{\max(x \bmod M - d - c, 0)}{M}, \quad x = d + a

    A is what a group misses while the others step, of which the share of computing is ``tau / (tau + b)``. Of j counts
    what does not fall into the stall of a failure. Where stalls leave no time between failures nobody ever steps.

    Parameters
    ----------
    mtti : float or (n,) array
        Time between failures, M [s].
    groups : int
        Groups of replicas of which each can leave alone, R [-].
    stall, rejoin : float or (n,) array
        Stalls of the others: when a group leaves, c, and when one is back late, j [s].
    absence : float or (n,) array
        Time for which a group is away once its failure is known, a [s].
    downtime : float or (n,) array
        Time until a failure is known, d [s].
    step : float or (n,) array
        Time of a step, T [s].
    interval, write : float or (n,) array
        Computing time between saves, tau (infinite for none), and blocking time of one, b [s].

    Returns
    -------
    dict of str to (n,) array
        Shares [-] named ``productive, checkpoint_stall, lost_work, detection, restart``. They sum to 1.

    Raises
    ------
    ValueError
        If a time is negative or not finite, `mtti` or `interval` is not positive, `groups` is no whole number from 1,
        or a group would fail again before it is back (``d + a > R M``).

    References
    ----------
    Own bookkeeping of the phases of arXiv 2602.00277.
    """
    count = float(whole("groups", groups, 1))
    between, tau = positive("mtti", mtti), positive("interval", interval, infinite=True)
    c, a, j = non_negative("stall", stall), non_negative("absence", absence), non_negative("rejoin", rejoin)
    d, t, b = non_negative("downtime", downtime), non_negative("step", step), non_negative("write", write)
    if np.any(d + a > count * between):
        message = f"absence must end before the group fails again, {count:g} x mtti later, got {absence!r}"
        raise ValueError(message)
    late = a > c
    back = (d + a) % between
    rest = np.where(back < d + c, np.maximum(back + j - d - c, 0.0), np.minimum(j, between - back)) * late
    going = np.maximum(between - d - c - rest, 0.0)
    still = np.floor((d + a) / between)  # others away when one fails, and when one is back
    away = still * going + np.minimum(np.maximum(back - d - c, 0.0), going)
    if count == 1:  # nobody else steps meanwhile
        going, away = going - away, np.zeros_like(away)
    stepping = (going - away / count) / between
    computing = stepping / (1.0 + b / tau)
    cut = np.maximum(count - still, 0.0) + np.where(late, np.maximum(count - 1.0 - still, 0.0), 0.0)
    lost = np.minimum(cut / count * t / 2.0 / between, computing)
    known = np.minimum(d / between, 1.0)
    return {
        "productive": computing - lost,
        "checkpoint_stall": stepping - computing,
        "lost_work": lost,
        "detection": np.broadcast_to(known, stepping.shape).astype(np.float64),
        "restart": 1.0 - known - stepping,
    }
