"""A replication of a prepared scenario."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import math
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

from ettrick.sim import plugins
from ettrick.sim.engine.kernel import WorkError
from ettrick.sim.engine.simulation import simulate
from ettrick.sim.failures import draw_trace
from ettrick.sim.failures.effects import CRASH
from ettrick.sim.prepare.placement import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.engine.result import Result
    from ettrick.sim.failures import FailureSource, FailureTrace

MOST_EVENTS = 1e8

"""Events that are simulated without being asked again: some ten minutes on one core."""


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
        raise WorkError(
            f"about {events:.2g} events would be simulated, more than {most_events:.2g}; allow them with --yes "
            f"(most_events in Python), or simulate a shorter horizon, fewer replications or fewer failures"
        )


def trace(prepared: Prepared, replication: int) -> FailureTrace:
    """Return the failures of a replication; the same whatever the policies are."""
    horizon = prepared.warmup + prepared.horizon
    return draw_trace(prepared.sources, horizon, prepared.seed, replication, stationary=prepared.stationary)


def with_engine(
    prepared: Prepared, replications: int, progress: Callable[[int, int | None], None] | None = None
) -> Prepared:
    """Return a scenario of which so many replications are wanted, with what simulates them decided.

    Machine code is available then: whoever starts processes calls this before. `progress` is called with how many of
    its functions are compiled, and their number, where they are not on the disk.

    Raises
    ------
    EngineError
        If the scenario insists on machine code, and something in it is unknown to that.
    """
    from ettrick.sim.compiled import run as compiled

    reason = compiled.why_events(prepared, replications)
    if prepared.engine == "compiled":
        compiled.refuse(reason)
    if not reason:
        compiled.machine_code(progress)
    return replace(prepared, engine="events" if reason else "compiled", engine_reason=reason)


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
        From :func:`ettrick.sim.prepare`.
    replication
        Index of the replication; any one can be run alone.
    failures
        A trace to use instead of the one that belongs to the replication.
    keeps_log
        Whether the result says when each node was down, and when each job of a stream ran.
    keeps_timeline
        Whether it says in which phase each group was when.
    most_events
        How many events may be expected.

    Raises
    ------
    WorkError
        If more are.
    EngineError
        If the scenario insists on machine code that cannot simulate it.
    PluginError
        If a strategy of another package raises an error, or gives a plan that cannot be followed.
    """
    check_work(prepared.expected_events, most_events)
    if prepared.engine == "compiled" and not keeps_timeline:
        from ettrick.sim.compiled.run import TooLargeError, workspace

        # Both engines give the same: what outgrows the arrays is simulated by events.
        with contextlib.suppress(TooLargeError):
            return workspace(prepared).run(replication, failures, keeps_log=keeps_log)
    try:
        failures = trace(prepared, replication) if failures is None else failures
        with _seldom_collected():
            return simulate(prepared, replication, failures, keeps_log=keeps_log, keeps_timeline=keeps_timeline)
    except Exception as error:
        blamed = plugins.blame(error, prepared.scenario)
        if blamed is None:
            raise
        raise blamed from error


_BLOCK, _BLOCK_SIZE = 50, 400_000
"""Replications of a block at most, and what they may come to in events and nodes: the more, the later it is done."""


def block_size(prepared: Prepared) -> int:
    """Return how many replications are best asked for together: by events one."""
    if prepared.engine != "compiled":
        return 1
    return min(max(int(_BLOCK_SIZE / (prepared.expected_events + prepared.nodes)), 1), _BLOCK)


def run_block(prepared: Prepared, replications: range, *, keeps_log: bool = False) -> list[Result]:
    """Simulate some replications, however many events they have; see :func:`run`.

    Returns
    -------
    list
        The results of all of them as columns from machine code, unless they have logs, or windows, of which each may
        reach another number; else those of each.
    """
    if prepared.engine == "compiled" and prepared.windows is None and not keeps_log and len(replications) > 1:
        from ettrick.sim.compiled.run import TooLargeError, workspace

        with contextlib.suppress(TooLargeError):
            return [workspace(prepared).block(replications)]
    return [run(prepared, replication, keeps_log=keeps_log, most_events=math.inf) for replication in replications]


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for garbage a hundred times less often: next to nothing of a replication is before its end."""
    first, *older = gc.get_threshold()
    gc.set_threshold(100 * first, *older)
    try:
        yield
    finally:
        gc.set_threshold(first, *older)


# Scenarios that differ in policies alone have the same failures: they are drawn once.

TRACES = 128

"""The number of traces that are kept, those used last; one of 12,500 nodes and 90 days takes about a megabyte."""


class TraceCache:
    """Draws failures, and keeps them for the next scenario that has the same; what comes out is so, to the last bit."""

    def __init__(self) -> None:
        self.traces: LruCache[FailureTrace] = LruCache(TRACES)
        self._last: tuple[Prepared, bytes] | None = None

    def trace(self, prepared: Prepared, replication: int) -> FailureTrace:
        """Return the failures of a replication, as :func:`ettrick.sim.trace`."""
        if self._last is None or self._last[0] is not prepared:
            self._last = prepared, failures_digest(prepared)
        return self.traces.get((self._last[1], replication), lambda: trace(prepared, replication))


def failures_digest(prepared: Prepared) -> bytes:
    """Return a digest of everything that the failures of a replication are drawn from."""
    content = (
        [_drawn_from(source, stationary=prepared.stationary) for source in prepared.sources],
        prepared.warmup + prepared.horizon,
        prepared.seed,
        prepared.stationary,
    )
    return hashlib.blake2b(pickle.dumps(content), digest_size=16).digest()


def _drawn_from(source: FailureSource, *, stationary: bool) -> FailureSource:
    """Return a source without what matters only once a failure is there: who notices it, what is done about it."""
    plain = replace(
        source,
        repair_from="",
        detection=None,
        detection_race=None,
        away=None,
        store_out=None,
        residue=None,
        tier="",
        recall=0.0,
        lead=None,
        checked=(0.0, 0.0),
        preflight=0.0,
        events=None,
    )
    return plain if stationary else replace(plain, repair=None, effect=CRASH)
