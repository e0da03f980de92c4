"""The event kernel: SimPy's environment with calls at absolute times and a fixed order of ties.

SimPy adds a delay to the present time, so an absolute time comes out a rounding error off. Here a call is put on
the environment's queue at the very time that was asked for, with its priority, and is made without SimPy's events.
"""

from __future__ import annotations

from heapq import heappop, heappush
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


class Environment(simpy.Environment):
    """SimPy's environment, and :meth:`at`.

    An entry of its queue is a call, with its owner and that one's epoch, without which it is void. Nobody waits for a
    call, so it needs nothing else of what an event of SimPy has.
    """

    epoch = 0
    """The epoch of calls that nothing voids."""
    _queue: list[Any]

    def at(self, time: float, order: int, function: Callable[..., object], *arguments: object) -> None:
        """Call `function` at `time` [s]; ties are broken by `order`, then by the order of these calls.

        The function gets `arguments`, and after them the time.
        """
        heappush(self._queue, (time, order, next(self._eid), self, 0, function, (*arguments, time)))

    def unless_changed(
        self, time: float, order: int, function: Callable[..., object], owner: Any, *arguments: object
    ) -> None:
        """Call `function` as :meth:`at` does, unless the ``epoch`` of its `owner`, the first argument, has risen."""
        call = time, order, next(self._eid), owner, owner.epoch, function, (owner, *arguments, time)
        heappush(self._queue, call)

    def step(self) -> None:
        """Make the next call, if it is not void."""
        self._now, _, _, owner, epoch, function, arguments = heappop(self._queue)
        if owner.epoch == epoch:
            function(*arguments)

    @property
    def waiting(self) -> int:
        """Number of events on the queue."""
        return len(self._queue)
