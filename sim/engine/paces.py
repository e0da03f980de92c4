"""How fast jobs step, and when a fixed amount of work is done."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING

from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group, Job

__all__ = ["Paces"]

NOT_YET = -math.inf
"""End of a job that is not worked out, because an event that looks again comes before."""


class Paces:
    """Sets the pace of jobs, and looks when one comes to its end or to its next bug."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel

    def may_be_slow(self, job: Job) -> bool:
        """Return whether a job is slow, or may have become so."""
        return job.speed != 1.0 or job.footprint is not None or bool(self.simulation.conditions.of_node)

    def set(self, job: Job, fraction: float) -> None:
        """Set the pace of a job: its plan's, its nodes'."""
        if self.may_be_slow(job):
            job.speed, job.slow_cause = self._slowest(job)
        job.set_pace(fraction)
        self.simulation.steps.change(job)

    def _slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace that the network and the nodes of a job allow [-], and the cause."""
        fabric, conditions = self.simulation.fabric, self.simulation.conditions
        network = fabric.pace(job)
        if not conditions.of_node:
            return network if network[0] <= 1.0 else (1.0, 0)
        # Ties go to the fabric; a synchronous job waits for the slowest of all.
        return min(network, conditions.slowest(job), key=itemgetter(0))

    def follow(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now, if the fabric has changed that.

        A job that does not notice is not charged up to now.
        """
        group = job.main
        if not group.running:
            self.respeed(job, now)
            return
        found = self._slowest(job)
        if found != (job.speed, job.slow_cause):
            self.simulation.groups.settle(group, now)
            job.speed, job.slow_cause = found
            job.set_pace(job.fraction)
            self.simulation.steps.change(job)
            if job.stops_at < math.inf:
                self.expect_finish(group, now)

    def respeed(self, job: Job, now: float) -> None:
        """Let a job step at the pace that its nodes have now."""
        group = job.main
        self.simulation.groups.settle(group, now)
        if group.running:
            self.set(job, job.fraction)
            if job.stops_at < math.inf:
                self.expect_finish(group, now)
        elif group.run_at < math.inf and job.stops_at < math.inf:
            assert group.run_step is not None
            self.set(job, group.run_step.fraction)
            self.expect_finish(group, group.run_at)

    def expect_finish(self, group: Group, start: float) -> None:
        """Say when a job with a fixed amount of work ends if it steps from `start` on undisturbed.

        One event waits for each job: most failures only move the end away, and an event that comes too early looks
        again. What cannot end before that event is worked out then.
        """
        job = group.job
        todo = max(job.stops_at - job.work, 0.0)
        if start + todo / job.pace.rate > job.looks_at:
            job.finish_at = NOT_YET
            return
        left = job.checkpoint.time_to(job.state, job.pace, todo)
        job.finish_at = start + left
        if job.finish_at < job.looks_at:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))

    def _on_look(self, call: Call) -> None:
        job, time = call.argument
        if time != job.looks_at:
            return
        job.looks_at = math.inf
        main = job.main
        if job.finish_at == NOT_YET:
            self.simulation.groups.settle(main, time)
            self.expect_finish(main, main.run_at if main.run_at < math.inf else time)
        elif job.finish_at <= time:
            self.simulation.groups.settle(job.main, time)
            if job.stops_at < job.target:
                self.simulation.bugs.meet(job, time)
            else:
                self.simulation.queue.finish(job, time, finished=True)
        elif job.finish_at < math.inf:
            job.looks_at = job.finish_at
            self.kernel.at(job.looks_at, Order.PHASE, self._on_look, (job, job.looks_at))
