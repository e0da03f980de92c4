"""Outages of nodes: going down, coming back, and the lives whose clock stands still meanwhile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.engine.kernel import Order
from sim.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.failure import Failure, Renewal
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation

__all__ = ["Outages"]


class Outages:
    """Keeps what is open against each node; a node returns when nothing is."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.counts_service = any(source.clock == "in_service" for source in simulation.prepared.sources)
        """Whether any life runs on the clock in_service."""
        self.log: list[tuple[int, float, float, int]] | None = [] if simulation.keeps_log else None
        """Node, start, end and cause of each stretch in which a node was down."""
        self.since: dict[int, tuple[float, int]] = {}
        self.was_down: dict[int, float] = {}
        """How long a node has been down, the open outage left out [s]."""
        self.down_since: dict[int, float] = {}
        self.renewals: dict[int, list[Renewal]] = {}
        """Lives that begin when a node returns."""
        self.parked: dict[int, list[tuple[int, int, int, float]]] = {}
        """Lives on the clock in_service that wait for their node: source, slot, round, due."""

    def take_down(self, node: int, now: float, cause: int) -> None:
        """Open an outage of a node."""
        cluster = self.cluster
        cluster.outages[node] += 1
        if cluster.outages[node] == 1:
            cluster.count_down(1, now)
            if self.log is not None:
                self.since[node] = (now, cause)
            if self.counts_service:
                self.down_since[node] = now

    def on_end(self, call: Call) -> None:
        """End an outage; its argument holds the nodes and the failure."""
        nodes, failure = call.argument
        now = self.kernel.now
        self.mend(failure, nodes, now)
        returned = False
        for node in nodes:
            returned |= self.close(node, now)
        self.simulation.sources.renew(failure)
        if returned:
            self.simulation.serve(now)

    def mend(self, failure: Failure, nodes: Sequence[int], now: float) -> None:
        """Let a repair of nodes remove what is wrong with them, or leave it."""
        source = failure.info.source
        if source.residue is None and not self.simulation.defects.open and not self.simulation.conditions.of_node:
            return
        if source.recorded is not None or source.rollout is not None:
            return  # maintenance mends nothing, and of a log nobody knows
        if not failure.info.divisor and not failure.info.apart:
            return  # it is the shared part that was repaired
        simulation = self.simulation
        residue = source.residue
        for node in nodes:
            if residue is not None and residue.probability and failure.mark_at(node, "relapse") < residue.probability:
                simulation.defects.remain(node, failure, now)
            else:
                simulation.defects.clear(node)
                simulation.conditions.clear(node)

    def close(self, node: int, now: float) -> bool:
        """Close an outage of a node; return whether that brings it back."""
        cluster = self.cluster
        cluster.outages[node] -= 1
        if cluster.outages[node]:
            return False
        self._bring_back(node, now)
        return True

    def _bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against work again."""
        cluster = self.cluster
        cluster.count_down(-1, now)
        cluster.narrow.discard(node)
        if self.log is not None:
            start, cause = self.since.pop(node)
            self.log.append((node, start, now, cause))
        if self.counts_service:
            self.was_down[node] = self.was_down.get(node, 0.0) + now - self.down_since.pop(node)
            for index, slot, number, due in self.parked.pop(node, ()):
                self.schedule(node, index, slot, number, due)
        # A node that came back before the job knew of its failure never left its place.
        if cluster.place[node] == Place.REPAIR:
            cluster.bring_back(node, now)
        for renewal in self.renewals.pop(node, ()):
            self.simulation.sources.begin_life(renewal)
        if self.simulation.defects.parked:
            self.simulation.defects.resume(node, now)

    def is_early(self, node: int, due: float, now: float) -> bool:
        """Return whether a node has not served `due` seconds yet, because it was down in between."""
        return node in self.down_since or due + self.was_down.get(node, 0.0) > now * (1 + 1e-12)

    def schedule_from_now(self, node: int, index: int, slot: int, number: int, seconds: float) -> None:
        """Begin a life on the clock in_service of a node that is down: it runs from the node's return."""
        served = self.down_since[node] - self.was_down.get(node, 0.0)
        self.schedule(node, index, slot, number, served + seconds)

    def schedule(self, node: int, index: int, slot: int, number: int, due: float) -> None:
        """Schedule a life by its node's time in service, or park it while the node is down."""
        if node in self.down_since:
            self.parked.setdefault(node, []).append((index, slot, number, due))
            return
        time = max(due + self.was_down.get(node, 0.0), self.kernel.now)
        if time < self.simulation.end:
            self.kernel.at(
                time, Order.FAILURE, self.simulation.sources.on_candidate, (index, slot, number, math.nan, due)
            )
