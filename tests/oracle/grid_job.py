"""A job of a grid, what theory says of it, and how far a simulation of it may be away whatever the number of draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scipy.optimize import brentq

from sim.policies.contracts import Bucket
from tests.pace import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import sim

__all__ = ["BUCKETS", "MTTI", "NODES", "SEED", "Setting", "Shares", "differing", "ends", "exact", "severity"]

MTTI = 3600.0
"""Mean time to interrupt of every job of the grid [s]; only ratios to it matter."""
NODES = 16

BUCKETS = {
    "productive": (Bucket.PRODUCTIVE,),
    "checkpoint_stall": (Bucket.CHECKPOINT_STALL,),
    "lost_work": (Bucket.LOST_WORK,),
    "detection": (Bucket.DETECTION, Bucket.RESCHEDULE, Bucket.QUEUED),
    "restart": (Bucket.INITIALIZE, Bucket.RESTORE),
    "starved": (Bucket.STARVED,),
}
"""What theory calls a share, and where the ledger has it; pauses that nothing can interrupt are downtime."""

Shares = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """A job, what theory says of it, and what it would say if it were wrong.

    Parameters
    ----------
    theory
        Share by name [-].
    wrong
        Shares of theories that leave something out, by what they leave out.
    job
        The scenario with a given number of failures.
    edge
        What the two ends of a run can hold [s].
    known
        Error that the theory states of itself, by share [-]; none where it is exact.
    buckets
        Where the ledger has a share.
    """

    name: str
    theory: Shares
    wrong: dict[str, Shares]
    job: Callable[[float], sim.Prepared]
    edge: float
    known: Mapping[str, float] = field(default_factory=dict)
    buckets: Mapping[str, tuple[Bucket, ...]] = field(default_factory=lambda: BUCKETS)


def exact(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{seconds!r} s"


def ends(at_risk: float, others: float) -> float:
    """Return what the ends of a run can hold [s].

    The job begins as after a failure. Its time since the last one is then the shorter of its age and the exponential
    one of the long run, which differ for a mean time to interrupt: shares of that time are off by no more than one
    cycle of other phases. At the end, work that is not durable counts as productive.
    """
    return min(others + at_risk, MTTI) + min(at_risk, MTTI)


def severity(theory: Callable[[float], Shares], productive: float) -> float:
    """Return the severity at which theory has a productive share."""

    def excess(logarithm: float) -> float:
        return theory(math.exp(logarithm))["productive"] - productive

    return math.exp(brentq(excess, -9.0, 3.0, xtol=1e-12))


def differing(wrong: dict[str, Shares], right: Shares) -> dict[str, Shares]:
    """Return those wrong theories that do not happen to be right."""
    return {name: shares for name, shares in wrong.items() if any(right[each] != shares[each] for each in shares)}
