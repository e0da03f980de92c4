"""Replicas that leave the others and come back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Run
from sim.job import Group

if TYPE_CHECKING:
    from sim.contracts import Background
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Replicas"]


class Replicas:
    """Splits groups off the main group of a job and merges them again."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def send_away(self, main: Group, step: Background, now: float) -> bool:
        """Send the replicas that lost a node away, each on its own, even where another one sits in already."""
        job = main.job
        width = job.nodes_per_replica
        leaving = []
        for replica in sorted({position // width for position in (*main.missing, *main.replaced, *main.ended)}):
            group = Group(job, 1, now, first=replica * width)
            group.missing = [position for position in main.missing if position // width == replica]
            group.cause = main.cause
            group.incident = main.incident
            group.resume = step.steps
            group.then = step.then
            main.replicas -= 1
            leaving.append(group)
        main.missing = []
        main.replaced = []
        main.ended = []
        job.away += leaving
        for group in leaving:
            self._move(group, main, group, now)
            self.simulation.groups.follow(group, group.resume, now)
        return False

    def _move(self, replica: Group, origin: Group, target: Group, now: float) -> None:
        """Hand the nodes of a replica from one group to another."""
        job = replica.job
        lives = self.simulation.lives
        for node in job.nodes[replica.first : replica.first + job.nodes_per_replica]:
            if node >= 0:
                if lives.nodes:
                    lives.leave(node, origin, now)
                self.simulation.cluster.group[node] = target
                if lives.nodes:
                    lives.join(node, target, now)

    def rejoin(self, group: Group, now: float) -> None:
        """Put a whole replica back among the others."""
        job = group.job
        main = job.main
        self.simulation.groups.settle(main, now)
        cause = group.cause
        self._merge(group, now)
        if main.running:
            self.simulation.groups.stop(main, now)
            main.running = False
            main.cause = cause
            self.simulation.groups.follow(main, group.then or (Run(),), now)
        elif main.waiting is not None and main.waiting.unit == "replica" and main.replicas >= main.waiting.wanted:
            main.waiting = None
            main.epoch += 1
            self.simulation.groups.proceed(main, now)
        elif main.run_at < math.inf:
            self.simulation.paces.respeed(job, now)

    def absorb(self, job: Job, now: float) -> None:
        """Merge every group that is away, whole or not."""
        for group in list(job.away):
            self.simulation.groups.stop(group, now)
            self.simulation.incidents.remove_victims(group, now)
            self._merge(group, now)

    def _merge(self, group: Group, now: float) -> None:
        job = group.job
        main = job.main
        self.simulation.groups.expose(group, now, "none")
        group.epoch += 1
        job.away.remove(group)
        main.replicas += 1
        main.missing += group.missing
        if group.deferred:
            # What could not strike while the replica was away waits on with the others.
            main.deferred += group.deferred
            if main.exposed in ("both", "nodes"):
                self.simulation.groups.deliver(main, now)
        self._move(group, group, main, now)
