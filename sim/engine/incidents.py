"""From a failure to a plan: who is hit, when it is known, what the strategy answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim import rng
from sim.contracts import Background, Bucket, ClusterView, FailureView, JobView, Save
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.failure import Failure
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group, Job

__all__ = ["Incidents"]


class Incidents:
    """Opens incidents, merges later failures into them, and asks the strategy."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.recovery = simulation.prepared.recovery

    def hit(self, groups: list[Group], failure: Failure, now: float, latency: float) -> None:
        """Let a failure hit groups; they know of it after `latency` [s]."""
        cause = failure.info.cause
        for job in {group.job for group in groups} if len(groups) > 1 else (groups[0].job,):
            job.interruptions[cause] = job.interruptions.get(cause, 0) + 1
            if job.main in groups and job.main.is_running(now):
                job.disruptions[cause] = job.disruptions.get(cause, 0) + 1
            else:
                job.merged += 1
        for group in groups:
            self._hit_group(group, failure, now, latency)

    def _hit_group(self, group: Group, failure: Failure, now: float, latency: float) -> None:
        known = now + latency
        if group.detecting:
            # The incident is already open: whatever is found first stops the wait.
            if known < group.detect_at:
                group.detect_at = known
                group.epoch += 1
                self.kernel.at(known, Order.PHASE, self._on_detected, (group, group.epoch))
            return
        groups = self.simulation.groups
        # A save that is cut off by somebody who waits for one begins again.
        group.saves = failure.info.saves and (group.is_running(now) or self._is_saving(group, now))
        groups.stop(group, now)
        cause = failure.info.cause
        if not group.incident:
            group.incident = cause
        group.cause = cause
        group.failure = failure
        if latency > 0:
            group.detecting = True
            group.detect_at = known
            groups.wait(group, [(Bucket.DETECTION, math.inf)], now, exposed=True)
            self.kernel.at(known, Order.PHASE, self._on_detected, (group, group.epoch))
        else:
            group.running = False
            self._answer(group, now)

    def _is_saving(self, group: Group, now: float) -> bool:
        """Return whether the group is making its progress durable before it stops."""
        return group is group.job.main and group.job.saved_at > now

    def _on_detected(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            now = self.kernel.now
            self.simulation.groups.settle(group, now)
            group.detecting = False
            self._answer(group, now)

    def _answer(self, group: Group, now: float) -> None:
        """Take the nodes that are down away from the group and follow the strategy's plan."""
        group.detecting = False
        lost = self.remove_victims(group, now)
        group.attempt += 1
        job = group.job
        if group is not job.main:
            self.simulation.groups.follow(group, group.resume, now)
            return
        failure: Failure = group.failure
        source = failure.info.source
        width = job.nodes_per_replica
        positions = (*group.missing, *group.replaced) if group.replaced else group.missing
        replicas_lost = len({position // width for position in positions}) if job.replicas > 1 else int(bool(positions))
        view = FailureView(source.name, source.planned, lost, replicas_lost, failure.mark)
        cluster = self.cluster
        plan, job.memory = self.recovery.plan(
            view,
            self.job_view(job, now, failure.mark),
            ClusterView(cluster.spare.count, cluster.idle.count),
            job.memory,
        )
        if group.replaced and not any(type(step) is Background for step in plan):
            # All replicas restore together: who lost its state gets it back like the others.
            group.replaced = []
        saves = job.checkpoint.save_time() if group.saves else 0.0
        if self.simulation.rollouts.all:
            plan = self.simulation.rollouts.visit(job, plan, now + saves)
        if group.saves:
            group.saves = False
            plan = (Save(), *plan)
        self.simulation.groups.follow(group, plan, now)

    def remove_victims(self, group: Group, now: float) -> int:
        """Send the suspects that are still down to repair; return how many they are."""
        lost = 0
        cluster = self.cluster
        if group.suspects:
            lives = self.simulation.lives
            for node, failure in group.suspects:
                if failure.info.by_course:
                    lost += self.simulation.lifecycle.diagnose(node, failure, group, now)
                elif cluster.outages[node] and cluster.group[node] is group:
                    if lives.nodes:
                        lives.leave(node, group, now)
                    cluster.send_to_repair(node, failure.info.cause, now, failure.info.bucket)
                    lost += 1
            group.suspects.clear()
        if cluster.units is not None and cluster.units.torn:
            cluster.units.let_go(group, now)
        return lost

    def start_view(self, job: Job, now: float) -> JobView:
        """Return what a strategy may know of a job that starts."""
        prepared = self.simulation.prepared
        replication = self.simulation.replication
        number = job.starts

        def mark(purpose: str) -> float:
            key = rng.stream(prepared.seed, replication, "start", job.name, purpose)
            return rng.uniform_one(key, number)

        return self.job_view(job, now, mark)

    def job_view(self, job: Job, now: float, mark: Callable[[str], float]) -> JobView:
        """Return what a strategy may know of a job; `mark` gives the numbers of its start."""
        main = job.main
        return JobView(
            job.name,
            now,
            job.nodes_needed,
            len(main.missing),
            job.replicas,
            main.replicas,
            job.live,
            main.attempt,
            mark,
        )
