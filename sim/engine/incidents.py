"""From a failure to a plan: who is hit, when it is known, what the strategy answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim import rng
from sim.cluster import Place
from sim.contracts import Bucket, ClusterView, FailureView, JobView
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.engine.sources import Failure
    from sim.job import Group, Job

__all__ = ["Incidents"]


class Incidents:
    """Opens incidents, merges later failures into them, and asks the strategy."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.recovery = simulation.prepared.recovery
        self.sources = simulation.prepared.sources

    def hit(self, groups: tuple[Group, ...], failure: Failure, now: float, latency: float) -> None:
        """Let a failure hit groups; they know of it after `latency` [s]."""
        cause = failure.index + 1
        seen: list[Job] = []
        for group in groups:
            job = group.job
            if job not in seen:
                seen.append(job)
                job.interruptions[cause] = job.interruptions.get(cause, 0) + 1
                if any(other.job is job and other.is_running(now) for other in groups):
                    job.disruptions[cause] = job.disruptions.get(cause, 0) + 1
                else:
                    job.merged += 1
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
        groups.stop(group, now)
        cause = failure.index + 1
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
        source = self.sources[failure.index]
        width = job.nodes_per_replica
        replicas_lost = len({position // width for position in group.missing}) if group.missing else 0
        view = FailureView(source.name, source.planned, lost, replicas_lost, failure.mark)
        cluster = self.cluster
        plan, job.memory = self.recovery.plan(
            view, self.job_view(job, now), ClusterView(cluster.spare.count, cluster.idle.count), job.memory
        )
        self.simulation.groups.follow(group, plan, now)

    def remove_victims(self, group: Group, now: float) -> int:
        """Send the suspects that are still down to repair; return how many they are."""
        lost = 0
        cluster = self.cluster
        for node in group.suspects:
            if cluster.outages[node] and cluster.place[node] == Place.JOB and cluster.group[node] is group:
                self.simulation.lives.leave(node, group, now)
                cluster.send_to_repair(node, group.cause, now)
                lost += 1
        group.suspects.clear()
        return lost

    def job_view(self, job: Job, now: float) -> JobView:
        """Return what a strategy may know of a job."""
        main = job.main
        return JobView(
            name=job.name,
            time=now,
            nodes=job.nodes_needed,
            nodes_missing=len(main.missing),
            replicas=job.replicas,
            replicas_running=main.replicas,
            live=job.live,
            attempt=main.attempt,
            mark=_StartMark(self.simulation, job),
        )


class _StartMark:
    """Uniform numbers that belong to one start of a job."""

    __slots__ = ("job", "simulation")

    def __init__(self, simulation: Simulation, job: Job) -> None:
        self.simulation = simulation
        self.job = job

    def __call__(self, purpose: str) -> float:
        """Return the number for `purpose`."""
        prepared = self.simulation.prepared
        key = rng.stream(prepared.seed, self.simulation.replication, "start", self.job.name, purpose)
        return rng.uniform_one(key, self.job.starts)
