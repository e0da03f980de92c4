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
    """The order of events at the same moment; plain numbers, which cost a quarter of the members of an enum."""

    END = 0
    BOUNDARY = 1 << 56
    RETURN = 2 << 56
    PHASE = 3 << 56
    FAILURE = 4 << 56
    """The first of the failures; see `order_of`."""
    ARRIVAL = 5 << 56
    PASS = 6 << 56
    AFTER_PASS = PASS + 1


_FAILURE = EventPriority.FAILURE


def order_of(source: int, slot: int) -> int:
    """Return the order of a failure: those of one instant come by source, and of one source by unit."""
    return _FAILURE + ((source + 1) << 32) + slot


class ScheduledCall:
    """An event that calls one function.

    It has what SimPy's loop looks at, and nothing else: nobody waits for a call, so it needs no value.
    """

    __slots__ = ("_ok", "arguments", "callbacks", "function")

    def __init__(self, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self.callbacks: Any = _CALLBACKS
        self._ok = True
        self.function = function
        self.arguments = arguments


def _call(call: ScheduledCall) -> None:
    call.function(*call.arguments)


_CALLBACKS = (_call,)


def _unless_changed(owner: Any, epoch: int, function: Callable[..., object], *arguments: object) -> None:
    if owner.epoch == epoch:
        function(owner, *arguments)


class Environment(simpy.Environment):
    """SimPy's environment, and :meth:`at`."""

    def at(self, time: float, order: int, function: Callable[..., object], *arguments: object) -> None:
        """Call `function` at `time` [s]; ties are broken by `order`, then by the order of these calls.

        The function gets `arguments`, and after them the time.
        """
        call = ScheduledCall(function, (*arguments, time))
        heappush(self._queue, (time, order, next(self._eid), call))  # type: ignore[misc]

    def unless_changed(
        self, time: float, order: int, function: Callable[..., object], owner: Any, *arguments: object
    ) -> None:
        """Call `function` as :meth:`at` does, unless the ``epoch`` of its `owner`, the first argument, has risen."""
        self.at(time, order, _unless_changed, owner, owner.epoch, function, *arguments)

    @property
    def waiting(self) -> int:
        """Number of events on the queue."""
        return len(self._queue)
