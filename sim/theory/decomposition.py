r"""Goodput as a product of three: scheduling (are the nodes there), runtime (is it progress) and program (how fast).

Shares are of the GPU-time that a job asks for and carry the names of the ledger's buckets. The decomposition is an
identity, not a model: it holds for one run, for means over runs (as ratios of sums) and for the shares of every closed
form. Shares and goodputs [-], times [s].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sim.theory.broadcast import non_negative, positive

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUCKETS", "Goodput", "decompose", "restart_phases"]

BUCKETS = (
    "productive",
    "degraded",
    "checkpoint_stall",
    "lost_work",
    "detection",
    "reschedule",
    "initialize",
    "restore",
    "starved",
    "queued",
    "maintenance",
    "auxiliary",
)
"""Names of all shares of a job."""

_NOT_SCHEDULED = ("queued", "starved", "reschedule")
"""Shares of time in which the job does not hold all its nodes, or is being given them."""

_ROUNDING = 1e-6
"""How far shares may be from summing to 1."""


class Goodput(NamedTuple):
    """The three factors of goodput.

    Parameters
    ----------
    scheduling
        Share of the time asked for in which the job has its nodes [-].
    runtime
        Share of that which is productive [-].
    program
        Model FLOP of a healthy step over what the GPUs' peak would have done meanwhile: MFU [-].
    """

    scheduling: float
    runtime: float
    program: float

    @property
    def ettr(self) -> float:
        """Return the share of the time asked for that is productive, scheduling x runtime [-]."""
        return self.scheduling * self.runtime

    @property
    def goodput(self) -> float:
        """Return the share of the peak asked for that became training, scheduling x runtime x program [-]."""
        return self.ettr * self.program

    def without(self, factor: str) -> float:
        """Return the goodput if one factor were 1 [-]: what is left when its losses are gone and the others stay."""
        return self._replace(**{factor: 1.0}).goodput


def decompose(shares: Mapping[str, float], program: float = 1.0) -> Goodput:
    r"""Return scheduling, runtime and program goodput of the shares of a job.

    .. math:: S = 1 - q - s - r, \quad R = p / S, \quad \text{goodput} = S\, R\, P

    with the shares queued q, starved s, reschedule r and productive p. Where nothing is scheduled the runtime goodput
    is 0.

    Parameters
    ----------
    shares : mapping of str to float
        Shares [-] by the names of `BUCKETS`, missing ones being 0, that sum to 1. Closed forms have one share
        ``restart``: `restart_phases` splits it.
    program : float
        MFU of the healthy step, P [-], above 0 and at most 1.

    Returns
    -------
    Goodput
        The three factors.

    Raises
    ------
    ValueError
        If a name is none of `BUCKETS`, shares do not sum to 1, or `program` is not from 0 to 1.

    References
    ----------
    The three factors are those of "Machine learning fleet efficiency: analyzing and optimizing large-scale Google TPU
    systems with ML productivity goodput", arXiv 2502.06982. What belongs to which is ours: reschedule is scheduling.
    """
    unknown = [name for name in shares if name not in BUCKETS]
    if unknown:
        hint = "split it with restart_phases" if unknown[0] == "restart" else f"there are {', '.join(BUCKETS)}"
        message = f"no bucket is called '{unknown[0]}': {hint}"
        raise ValueError(message)
    total = math.fsum(shares.values())
    if not abs(total - 1.0) <= _ROUNDING:
        message = f"shares must sum to 1, got {total!r}"
        raise ValueError(message)
    if not 0.0 < program <= 1.0:
        message = f"program must be above 0 and at most 1, got {program!r}"
        raise ValueError(message)
    scheduling = 1.0 - math.fsum(shares.get(name, 0.0) for name in _NOT_SCHEDULED)
    productive = shares.get("productive", 0.0)
    return Goodput(scheduling, productive / scheduling if scheduling > 0 else 0.0, program)


def restart_phases(share: float, mtti: float, phases: Mapping[str, float]) -> dict[str, float]:
    r"""Return how the share of time in restarts divides into phases that follow one another [-].

    .. math:: s_i \propto e^{-t_{i - 1} / M} - e^{-t_i / M}, \quad t_i = u_1 + ... + u_i

    A failure starts the restart over, so that early phases are lived through more often than late ones; without
    failures the phases have the ratio of their times.

    Parameters
    ----------
    share : float
        Share of time in restarts [-].
    mtti : float
        Mean time to interrupt, M [s]; may be infinite.
    phases : mapping of str to float
        Times of the phases in their order, u [s].

    Returns
    -------
    dict of str to float
        Shares [-]; they sum to `share`.

    Raises
    ------
    ValueError
        If a time or the share is negative or not finite, or `mtti` is not positive.

    References
    ----------
    Own: of the exponential time from the start of a restart to the next failure, what falls into each phase.
    """
    rate, whole = 1.0 / float(positive("mtti", mtti, infinite=True)), float(non_negative("share", share))
    found: dict[str, float] = {}
    begin = 0.0
    for name, length in phases.items():
        seconds = float(non_negative(name, length))
        spent = -math.expm1(-rate * seconds) / rate if rate > 0 else seconds
        found[name] = math.exp(-rate * begin) * spent
        begin += seconds
    total = math.fsum(found.values())
    return {name: whole * spent / total if total > 0 else 0.0 for name, spent in found.items()}
