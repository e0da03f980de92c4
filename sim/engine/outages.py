"""Outages of nodes: going down, coming back, and the lives whose clock stands still meanwhile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.cluster import Place
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.engine.failure import Renewal
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.engine.sources import Sources

__all__ = ["Outages"]


class Outages:
    """Keeps what is open against each node; a node returns when nothing is."""

    def __init__(self, simulation: Simulation, sources: Sources, counts_service: bool) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.sources = sources
        self.counts_service = counts_service
        """Whether any life runs on the clock in_service."""
        self.was_down: dict[int, float] = {}
        """How long a node has been down, the open outage left out [s]."""
        self.down_since: dict[int, float] = {}
        self.renewals: dict[int, list[Renewal]] = {}
        """Lives that begin when a node returns."""
        self.parked: dict[int, list[tuple[int, int, int, float]]] = {}
        """Lives on the clock in_service that wait for their node: source, slot, round, due."""

    def take_down(self, node: int, now: float) -> None:
        """Open an outage of a node."""
        cluster = self.cluster
        cluster.outages[node] += 1
        if cluster.outages[node] == 1:
            cluster.down.change(1, now)
            if self.counts_service:
                self.down_since[node] = now

    def on_end(self, call: Call) -> None:
        """End an outage; its argument holds the nodes, and the lives that begin when it ends."""
        nodes, renewals = call.argument
        now = self.kernel.now
        cluster = self.cluster
        returned = False
        for node in nodes:
            cluster.outages[node] -= 1
            if cluster.outages[node] == 0:
                self._bring_back(node, now)
                returned = True
        for renewal in renewals:
            self.sources.begin_life(renewal)
        if returned:
            self.simulation.serve(now)

    def _bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against work again."""
        cluster = self.cluster
        cluster.down.change(-1, now)
        if self.counts_service:
            self.was_down[node] = self.was_down.get(node, 0.0) + now - self.down_since.pop(node)
            for index, slot, number, due in self.parked.pop(node, ()):
                self.schedule(node, index, slot, number, due)
        # A node that came back before the job knew of its failure never left its place.
        if cluster.place[node] == Place.REPAIR:
            cluster.bring_back(node, now)
        for renewal in self.renewals.pop(node, ()):
            self.sources.begin_life(renewal)

    def is_early(self, node: int, due: float, now: float) -> bool:
        """Return whether a node has not served `due` seconds yet, because it was down in between."""
        return node in self.down_since or due + self.was_down.get(node, 0.0) > now * (1 + 1e-12)

    def schedule(self, node: int, index: int, slot: int, number: int, due: float) -> None:
        """Schedule a life by its node's time in service, or park it while the node is down."""
        if node in self.down_since:
            self.parked.setdefault(node, []).append((index, slot, number, due))
            return
        time = max(due + self.was_down.get(node, 0.0), self.kernel.now)
        if time < self.simulation.end:
            self.kernel.at(time, Order.FAILURE, self.sources.on_candidate, (index, slot, number, math.nan, due))
