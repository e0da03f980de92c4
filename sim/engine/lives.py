"""Lives on the clock ``busy``: they run only while the processes of a job do, on their node or in their job."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sim.engine.kernel import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.kernel import Call, Kernel
    from sim.job import Clock, Group

__all__ = ["Life", "Lives"]


class Life:
    """One life of one slot; ``due`` is the reading of the busy clock at which it ends [s]."""

    __slots__ = ("due", "node", "round", "slot", "source", "token")

    def __init__(self, node: int, source: int, slot: int, number: int, due: float) -> None:
        self.node = node
        """Node that the life belongs to, or -1 for a life of a job."""
        self.source = source
        self.slot = slot
        self.round = number
        self.due = due
        self.token = 0


class _NodeClock:
    """Busy time of one node: what it had before it joined its group, and the group's clock at that moment."""

    __slots__ = ("before", "group", "joined", "lives")

    def __init__(self) -> None:
        self.before = 0.0
        self.joined = 0.0
        self.group: Group | None = None
        self.lives: list[Life] = []

    def push(self, life: Life) -> None:
        """Let a life of the node end with the clock of its group."""
        assert self.group is not None
        _push(self.group.busy, life, life.due - self.before + self.joined)


class Lives:
    """Each group has a few clocks, of its processes and of its nodes, each with its lives and an event for the first.

    An event is armed only while its clock runs, so the cost follows the failures, not the phases.
    """

    def __init__(self, kernel: Kernel, group_of: Callable[[int], Group | None]) -> None:
        self.kernel = kernel
        self.occur: Callable[[Life], Life | None] = lambda _: None
        """Told each life that ends; returns the next one of its slot. Set once there is somebody to tell."""
        self.group_of = group_of
        """Which group a node is in, of one that holds its nodes or not."""
        self.nodes: dict[int, _NodeClock] = {}

    def add_node_life(self, life: Life) -> None:
        """Give a node that is in no group a life."""
        self.nodes.setdefault(life.node, _NodeClock()).lives.append(life)

    def add_group_life(self, clock: Clock, life: Life) -> None:
        """Give a clock of a group a life that belongs to no node."""
        _push(clock, life, life.due)

    def begin(self, life: Life, seconds: float, now: float) -> None:
        """Let a life of a node, which may be in a group, end after `seconds` of its busy time."""
        clock = self.nodes.get(life.node)
        group = self.group_of(life.node)
        if clock is None:
            clock = self.nodes[life.node] = _NodeClock()
            if group is not None:
                clock.group = group
                clock.joined = group.busy.read(now)
        life.due = clock.before + seconds
        if clock.group is not None:
            life.due += clock.group.busy.read(now) - clock.joined
        clock.lives.append(life)
        if clock.group is not None:
            clock.push(life)
            self.arm(clock.group.busy, now)

    def void(self, life: Life) -> None:
        """Forget a life."""
        life.token += 1
        clock = self.nodes.get(life.node)
        if clock is not None and life in clock.lives:
            clock.lives.remove(life)

    def void_slot(self, node: int, source: int, slot: int) -> None:
        """Forget the life of a slot, if it has one."""
        clock = self.nodes.get(node)
        for life in [] if clock is None else list(clock.lives):
            if (life.source, life.slot) == (source, slot):
                self.void(life)

    def join(self, node: int, group: Group, now: float) -> None:
        """Let the lives of a node run with a group."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.group = group
        clock.joined = group.busy.read(now)
        for life in clock.lives:
            clock.push(life)
        self.arm(group.busy, now)

    def leave(self, node: int, group: Group, now: float) -> None:
        """Stop the lives of a node."""
        clock = self.nodes.get(node)
        if clock is None:
            return
        clock.before += group.busy.read(now) - clock.joined
        clock.group = None
        for life in clock.lives:
            life.token += 1

    def arm(self, clock: Clock, now: float) -> None:
        """Arrange the event of the first life to end, if the clock runs.

        One event waits for each clock: waiting only moves the end away, and an event that comes too early looks again.
        """
        if clock.is_on and self._first(clock) is not None:
            time = now + max(clock.lives[0][0] - clock.read(now), 0.0)
            if time < clock.at:
                clock.at = time
                self.kernel.at(time, Order.FAILURE, self._on_due, (clock, time))

    def _first(self, clock: Clock) -> Life | None:
        """Return the first life of a clock to end; forget those whose node has left."""
        heap = clock.lives
        while heap and heap[0][5].token != heap[0][4]:
            heappop(heap)
        return heap[0][5] if heap else None

    def _on_due(self, call: Call) -> None:
        clock, time = call.argument
        if time != clock.at:
            return
        clock.at = math.inf
        life = self._first(clock)
        if life is None or not clock.is_on:
            return
        now = self.kernel.now
        if now + (clock.lives[0][0] - clock.read(now)) > now:
            self.arm(clock, now)
            return
        heappop(clock.lives)
        node = self.nodes.get(life.node)
        if node is not None:
            node.lives.remove(life)
        following = self.occur(life)
        if following is not None:
            if node is None:
                self.add_group_life(clock, following)
            else:
                node.lives.append(following)
                if node.group is not None:
                    node.push(following)
        self.arm(clock, now)


def _push(clock: Clock, life: Life, due: float) -> None:
    """Let a life end at a reading of a clock [s]."""
    heappush(clock.lives, (due, life.source, life.slot, life.round, life.token, life))
