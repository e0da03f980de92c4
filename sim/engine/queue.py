"""The queue of jobs: arrivals, allocations, ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import QueuedJob
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Queue"]


class Queue:
    """Jobs that wait for a whole gang of nodes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.scheduler = simulation.prepared.scheduler
        self.waiting: list[tuple[Job, float]] = []
        """Eligible jobs and since when [s]."""
        self.open = len(simulation.jobs)
        for job in simulation.jobs:
            self.kernel.at(job.arrival, Order.ARRIVAL, self._on_arrival, job)

    def _on_arrival(self, call: Call) -> None:
        self.enter(call.argument, self.kernel.now)

    def enter(self, job: Job, now: float) -> None:
        """Put a job at the end of the queue."""
        self.waiting.append((job, now))
        self.serve(now)

    def serve(self, now: float) -> None:
        """Start what the scheduler selects."""
        while self.waiting:
            self._call_spares(self.waiting[0][0], now)
            views = tuple(QueuedJob(job.name, job.nodes_needed, since) for job, since in self.waiting)
            chosen = self.scheduler.select(views, self.cluster.idle.count)
            if not chosen:
                return
            jobs = [self.waiting[position][0] for position in chosen]
            self.waiting = [entry for entry in self.waiting if entry[0] not in jobs]
            for job in jobs:
                self._start(job, now)

    def _call_spares(self, job: Job, now: float) -> None:
        """Let the first job have hot spares, if it can start with them.

        They are kept for restarts: a first start has them only while no other job holds nodes. It
        fits beside all spares, so that it is never short of more nodes than are out of use.
        """
        short = job.nodes_needed - self.cluster.idle.count
        if not 0 < short <= self.cluster.spare.count:
            return
        if job.starts or not any(other.holding for other in self.simulation.jobs):
            self.cluster.move("spare", "idle", short, now)

    def _start(self, job: Job, now: float) -> None:
        """Give a job its gang and let the recovery strategy start it."""
        groups = self.simulation.groups
        main = job.main
        groups.settle(main, now)
        self.cluster.reclaim(job, now)
        # Neighbours in rank sit on neighbouring nodes.
        missing = sorted(main.missing, key=job.rank_of.__getitem__ if job.rank_of else None)
        main.missing = []
        nodes = self.cluster.take_many(len(missing), now)
        self.cluster.seat_many(main, missing, nodes)
        if self.cluster.packed_by:
            job.homes = [self.cluster.packed_by[node] for node in job.nodes]
        if self.simulation.lives.nodes:
            for node in nodes:
                self.simulation.lives.join(node, main, now)
        if math.isnan(job.start):
            job.start = now
        groups.follow(
            main, self.simulation.prepared.recovery.start(self.simulation.incidents.start_view(job, now)), now
        )
        job.starts += 1

    def finish(self, job: Job, now: float, *, finished: bool) -> None:
        """Close a job whose groups are settled, and free its nodes."""
        groups = self.simulation.groups
        self.simulation.replicas.absorb(job, now)
        groups.stop(job.main, now)
        groups.expose(job.main, now, "none")
        job.main.running = False
        job.end = now
        job.finished = finished
        if not finished:
            return
        if job.narrow:
            self.simulation.incidents.let_go(job, now)
        self.cluster.release(job, now)
        self.simulation.rollouts.change_free()
        self.open -= 1
        if self.open == 0:
            self.simulation.stop(now)
        else:
            self.simulation.serve(now)
