"""One replication of a prepared scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.engine import simulate
from sim.failures import draw_trace

if TYPE_CHECKING:
    from sim.failures import FailureTrace
    from sim.prepared import Prepared
    from sim.result import Result

__all__ = ["MOST_EVENTS", "WorkError", "check_work", "run", "trace"]

MOST_EVENTS = 1e8
"""Events that are simulated without being asked again: some ten minutes on one core."""


class WorkError(ValueError):
    """More events are to be simulated than was allowed; the message is one line with their number."""


def check_work(events: float, most_events: float = MOST_EVENTS) -> None:
    """Refuse more work than is allowed.

    Parameters
    ----------
    events
        Events that are to be simulated, as `Prepared.expected_events` of each replication.
    most_events
        How many may be.

    Raises
    ------
    WorkError
        If there are more.
    """
    if events > most_events:
        message = (
            f"about {events:.2g} events would be simulated, and more than {most_events:.2g} only if you say so: --yes "
            f"(most_events in Python); or take a shorter horizon, fewer replications, rarer failures"
        )
        raise WorkError(message)


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
    most_events: float = MOST_EVENTS,
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
    most_events
        How many events may be expected.

    Raises
    ------
    WorkError
        If more are.
    """
    check_work(prepared.expected_events, most_events)
    failures = trace(prepared, replication) if failures is None else failures
    return simulate(prepared, replication, failures, keeps_log=keeps_log, keeps_timeline=keeps_timeline)
