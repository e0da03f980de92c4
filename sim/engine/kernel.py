"""The event kernel: SimPy's environment with calls at absolute times and a fixed order of ties.

SimPy adds a delay to the present time, so an absolute time comes out a rounding error off. Here a call is put on
the environment's queue at the very time that was asked for; that and the priority are all that this class adds.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any

import simpy

if TYPE_CHECKING:
    from collections.abc import Callable


class WorkError(ValueError):
    """More events are to be simulated than was allowed, or events without end; the message is one line."""


class EventPriority:
    """What happens first at one and the same time; plain numbers, which cost a quarter of what an enum's members do."""

    BOUNDARY = 1 << 56
    RETURN = 2 << 56
    PHASE = 3 << 56
    FAILURE = 4 << 56
    """The first of the failures; see `order_of`."""
    ARRIVAL = 5 << 56
    PASS = 6 << 56


_FAILURE = EventPriority.FAILURE


def order_of(source: int, slot: int) -> int:
    """Return the order of a failure: those of one instant come by source, and of one source by unit."""
    return _FAILURE + ((source + 1) << 32) + slot


class ScheduledCall:
    """An event that calls one function with one argument.

    It has what SimPy's loop looks at, and nothing else: nobody waits for a call, so it needs no value.
    """

    __slots__ = ("_ok", "argument", "callbacks")

    def __init__(self, function: Callable[[ScheduledCall], None], argument: Any) -> None:
        self.callbacks: Any = (function,)
        self._ok = True
        self.argument = argument


class Environment(simpy.Environment):
    """SimPy's environment, and :meth:`at`."""

    def at(self, time: float, order: int, function: Callable[[ScheduledCall], None], argument: Any = None) -> None:
        """Call `function` at `time` [s]; ties are broken by `order`, then by the order of these calls.

        The function gets the :class:`ScheduledCall`, whose ``argument`` is `argument`.
        """
        heappush(self._queue, (time, order, next(self._eid), ScheduledCall(function, argument)))  # type: ignore[misc]

    @property
    def waiting(self) -> int:
        """Number of events on the queue."""
        return len(self._queue)
