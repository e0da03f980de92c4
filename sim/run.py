"""One replication of a prepared scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.engine import simulate
from sim.failures import draw_trace

if TYPE_CHECKING:
    from sim.failures import FailureTrace
    from sim.prepared import Prepared
    from sim.result import Result

__all__ = ["run", "trace"]


def trace(prepared: Prepared, replication: int) -> FailureTrace:
    """Return the failures of a replication; the same whatever the policies are."""
    horizon = prepared.warmup + prepared.horizon
    return draw_trace(prepared.sources, horizon, prepared.seed, replication, stationary=prepared.stationary)


def run(
    prepared: Prepared,
    replication: int,
    failures: FailureTrace | None = None,
    *,
    keeps_log: bool = False,
    keeps_timeline: bool = False,
) -> Result:
    """Simulate one replication.

    Parameters
    ----------
    prepared
        From :func:`sim.prepare`.
    replication
        Index of the replication; any one can be run alone.
    failures
        A trace to use instead of the one that belongs to the replication.
    keeps_log
        Whether the result says when each node was down.
    keeps_timeline
        Whether it says in which phase each group was when.
    """
    failures = trace(prepared, replication) if failures is None else failures
    return simulate(prepared, replication, failures, keeps_log=keeps_log, keeps_timeline=keeps_timeline)
