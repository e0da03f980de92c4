"""Interruptions: who is hit by a failure, when that is known, and what the recovery strategy answers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ettrick.sim import plugins, rng
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.policies.contracts import (
    OF_ONE_RANK,
    Background,
    Bucket,
    ClusterView,
    FailureView,
    JobView,
    Requeue,
    Run,
    Save,
)
from ettrick.sim.policies.recovery.base import check_plan
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.holders import Job, ReplicaGroup
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.policies.contracts import Exposure, Plan


class Interruptions:
    """Opens incidents, merges later failures into them, and asks the strategy."""

    def __init__(self, jobs: JobPhases) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.cluster = jobs.cluster
        self.recovery = jobs.prepared.recovery
        self.is_of_plugin = bool(plugins.used(self.recovery))

    def hit(self, groups: list[ReplicaGroup], failure: FailureEvent, now: float, latency: float) -> None:
        """Let a failure hit groups; they know of it after `latency` [s]."""
        cause = failure.info.cause
        for job in {group.job: None for group in groups}:
            job.interruptions[cause] = job.interruptions.get(cause, 0) + 1
            if self.jobs.recorder is not None:
                self.jobs.recorder.failure(now, job, failure)
            if job.main in groups and job.main.is_running(now):
                job.disruptions[cause] = job.disruptions.get(cause, 0) + 1
                job.latencies[cause] = job.latencies.get(cause, 0.0) + latency
            else:
                job.merged += 1
        store_out = failure.info.source.store_out
        if store_out is not None:
            self.jobs.stores.go_out(now + draw(store_out, failure.mark, "store_out"), cause, now)
        # Replicas that are away know first that they have failed too, so that the others do not count on them.
        for group in sorted(groups, key=lambda group: group is group.job.main):
            self._hit_group(group, failure, now, latency)

    def _hit_group(self, group: ReplicaGroup, failure: FailureEvent, now: float, latency: float) -> None:
        takes_nodes = failure.info.source.away is not None
        if self._stops_all(failure):
            group.suspects.append((-1, failure))
        if group.detecting and not takes_nodes:
            self._reboot(group, failure)
            # The incident is already open: whatever is found first stops the wait.
            if now + latency < group.detect_at:
                group.epoch += 1
                self._expect_detection(group, now + latency)
            return
        # A drain or a reclaim takes nodes away and gives notice of it: a save that it cuts off begins again, if there
        # is time. No other failure waits for a save.
        is_saving = self._is_saving(group, now)
        can_save = takes_nodes and (is_saving or group.is_running(now))
        group.saves = can_save and group.job.checkpoint.save_time() <= failure.notice
        is_leaving = is_saving and self._gives_back(group)
        self.jobs.stop(group, now)
        if group is group.job.main:
            group.job.writes_on = False
            self.jobs.failures.rollouts.cut(group.job, now)
        self._reboot(group, failure)
        cause = failure.info.cause
        if not group.incident:
            group.incident = cause
        group.cause = cause
        if takes_nodes or not is_leaving:
            # Who was saving before giving its nodes back gives them back all the same.
            group.failure = failure
        if latency > 0:
            group.detecting = True
            # Where no process ran, none runs until somebody knows.
            exposed: Exposure = "nodes" if group.exposed == "nodes" else "both"
            self.jobs.wait(group, [(Bucket.DETECTION, math.inf)], now, exposed=exposed)
            self._expect_detection(group, now + latency)
        else:
            group.running = False
            self._answer(group, now)

    def _stops_all(self, failure: FailureEvent) -> bool:
        """Return whether a failure of the job as a whole, and no bug, ends processes of replicas that could go on."""
        source = failure.info.source
        return failure.info.of_job and source.fix is None and source.away is None and self.recovery.elastic

    def _gives_back(self, group: ReplicaGroup) -> bool:
        """Return whether the last that has hit a group takes its nodes away for some time."""
        return group.failure is not None and group.failure.info.source.away is not None

    def _expect_detection(self, group: ReplicaGroup, time: float) -> None:
        """Let a group know of a failure at a time, if nothing else happens to it before."""
        group.detect_at = time
        self.kernel.unless_changed(time, EventPriority.PHASE, self._on_detected, group)

    def save_before(self, job: Job, cause: int, now: float, strike: float) -> float:
        """Let a job that steps save, if that is over by `strike` [s] and the job is not; return when it has saved [s].

        One that is saving for something else goes on with that. Who does not save has nothing to wait for.
        """
        main = job.main
        if self._is_saving(main, now):
            return job.saved_at if job.saved_at <= strike else now
        if not main.is_running(now) or now + job.checkpoint.save_time() > strike:
            return now
        self.jobs.settle(main, now)
        todo = max(job.target - job.work, 0.0)
        if todo < math.inf and now + job.checkpoint.time_to(job.state, job.pace, todo) <= strike:
            return now
        self.jobs.stop(main, now)
        main.cause, main.failure = cause, None
        self.jobs.follow(main, (Save(), Run(job.fraction)), now)
        return job.saved_at

    def _reboot(self, group: ReplicaGroup, failure: FailureEvent) -> None:
        """Let all nodes of a job start again after a failure of the job as a whole that does so."""
        if failure.info.of_job and failure.info.reboots:
            group.job.rebooted.update(range(len(group.job.nodes)))
            group.job.live = False

    def _is_saving(self, group: ReplicaGroup, now: float) -> bool:
        """Return whether the group is making its progress durable before it stops."""
        return group is group.job.main and group.job.saved_at > now

    def _on_detected(self, group: ReplicaGroup, now: float) -> None:
        self.jobs.settle(group, now)
        if group is group.job.main:
            self.jobs.replicas.gather(group.job, now)
        self._answer(group, now)

    def _answer(self, group: ReplicaGroup, now: float) -> None:
        """Take the nodes that are down away from the group and follow the strategy's plan."""
        group.detecting = False
        lost, stops_all = self.remove_victims(group, now)
        if stops_all:
            group.ended = []
        group.attempt += 1
        job = group.job
        if group is not job.main:
            self.jobs.follow(group, group.resume, now)
            return
        plan = self._plan(job, lost, stops_all, now)
        if (group.replaced or group.ended) and not any(type(step) is Background for step in plan):
            # All replicas restore together: who lost its state gets it back like the others.
            group.replaced = []
            group.ended = []
        saves = job.checkpoint.save_time() if group.saves else 0.0
        if self.jobs.failures.rollouts.all:
            plan = self.jobs.failures.rollouts.visit(job, plan, now + saves)
        if group.saves:
            group.saves = False
            plan = (Save(), *plan)
        self.jobs.follow(group, plan, now)
        self.jobs.replicas.gather(job, now)

    def _plan(self, job: Job, lost: int, stops_all: bool, now: float) -> Plan:
        """Return what follows the failure of a job that has lost so many nodes: the plan of the strategy."""
        main = job.main
        failure = main.failure
        assert failure is not None, "one has struck it"
        source, width = failure.info.source, job.nodes_per_replica
        positions: Sequence[int] = main.missing
        if main.replaced or main.ended:
            job.lost.update(main.replaced)
            positions = (*main.missing, *main.replaced, *main.ended)
        if main.missing:
            job.lost.update(main.missing)
        if source.away is not None:
            # Nothing has failed that the strategy would have to know of.
            return (Requeue(draw(source.away, failure.mark, "away")),)
        parts = sorted({position // width for position in positions}) if job.replicas > 1 else positions[:1]
        stages = tuple(parts) if job.redundant is not None else ()
        view = FailureView(source.name, source.planned, lost, len(parts), failure.mark, source.fault, stages, stops_all)
        return self._ask(view, job, self.job_view(job, now, failure.mark))

    def _ask(self, view: FailureView, job: Job, job_view: JobView) -> Plan:
        """Return the plan of the strategy; a mistake of a plugin is blamed on it."""
        counts = ClusterView(self.cluster.spare.count, self.cluster.idle.count)
        try:
            plan: Plan
            plan, job.memory = self.recovery.plan(view, job_view, counts, job.memory)
            if self.is_of_plugin:
                check_plan(plan, job_view)
        except Exception as error:
            blamed = plugins.blame(error, self.recovery)
            if blamed is None:
                raise
            raise blamed from error
        return plan

    def place_of(self, group: ReplicaGroup, node: int, failure: FailureEvent) -> int:
        """Return the position of a node of the group, or of the rank that a failure of the job strikes; -1 for none."""
        if node < 0:
            return self._rank(group.job, failure) if failure.info.source.fault in OF_ONE_RANK else -1
        return self.cluster.position[node] if self.cluster.group[node] is group else -1

    def _rank(self, job: Job, failure: FailureEvent) -> int:
        """Return the position of the rank that a failure of a job strikes: any that steps, or -1 if none does."""
        width = job.nodes_per_replica
        away = sorted(group.first // width for group in job.away)
        here = job.replicas - len(away)
        if not here:
            return -1
        replica, place = divmod(int(failure.mark("rank") * here * width), width)
        for gone in away:
            if gone <= replica:
                replica += 1
        return replica * width + place

    def remove_victims(self, group: ReplicaGroup, now: float) -> tuple[int, bool]:
        """Send the suspects that are still down to repair; return how many they are, and whether all ranks stop.

        They do for a fault that strikes all of them and takes no node: its place is unknown.
        """
        lost = 0
        cluster = self.cluster
        spared: dict[FailureEvent, bool] = {}
        if group.suspects:
            for node, failure in group.suspects:
                count = self._remove_victim(group, node, failure, now)
                if count is None:
                    continue
                lost += count
                stays = not count and (node < 0 or cluster.group[node] is group)
                spared[failure] = spared.get(failure, True) and stays
                position = self.place_of(group, node, failure)
                if position >= 0:
                    self._outlive(group, position, failure)
            group.suspects.clear()
        if group.repairs:
            self.jobs.repair.begin_repairs(group, now)
        cluster.let_go_torn(group, now)
        stops = (failure.info.source.fault not in OF_ONE_RANK for failure, is_spared in spared.items() if is_spared)
        return lost, any(stops)

    def _remove_victim(self, group: ReplicaGroup, node: int, failure: FailureEvent, now: float) -> int | None:
        """Send a node that has failed to repair; return how many its group loses; None if it keeps it."""
        cluster = self.cluster
        holds = node >= 0 and cluster.group[node] is group
        if holds and failure.info.keeps and self._narrow(group, node, failure):
            return None
        if node >= 0 and failure.info.by_course:
            return self.jobs.repair.diagnose(node, failure, group, now)
        if holds and cluster.outages[node]:
            self.jobs.repair.send(node, now)
            return 1
        return 0

    def _outlive(self, group: ReplicaGroup, position: int, failure: FailureEvent) -> None:
        """Note what a failure has taken of a node that stays in its job."""
        job = group.job
        if failure.info.reboots:
            job.rebooted.add(position)
        if failure.info.source.fault in OF_ONE_RANK:
            # Its replica has lost the state of training; the others have not.
            job.dead.add(position)
            if self.recovery.elastic and job.replicas > 1 and job.live:
                group.ended.append(position)

    def _narrow(self, group: ReplicaGroup, node: int, failure: FailureEvent) -> bool:
        """Keep a node that has lost a GPU, if the job can do with what is left of its tensor group; return whether."""
        job = group.job
        if not self.cluster.outages[node]:
            return False
        position = self.cluster.position[node]
        first = position // job.spec.nodes_per_domain * job.spec.nodes_per_domain
        mates = (place for place in range(first, first + job.spec.nodes_per_domain) if place != position)
        # The outage of this failure is open already; some of those before it may have ended.
        before = len(job.narrow.get(position, ())) if node in self.cluster.narrow else 0
        gone = min(before + 1, self.cluster.outages[node]) + sum(self._lost_at(job, place) for place in mates)
        if not self.recovery.keeps(gone, self.cluster.gpus_per_node * job.spec.nodes_per_domain):
            return False
        job.narrow.setdefault(position, []).append(failure)
        self.cluster.narrow.add(node)
        return True

    def _lost_at(self, job: Job, place: int) -> int:
        """Return how many GPUs the node at a position of a job lacks that have not been repaired."""
        failures = job.narrow.get(place)
        node = job.nodes[place]
        if failures is None or node not in self.cluster.narrow:
            return 0
        return min(len(failures), self.cluster.outages[node])

    def _lost_parts(self, job: Job) -> list[tuple[int, int]]:
        """Return the positions of a job whose node lacks such GPUs, and how many."""
        return [(place, lost) for place in job.narrow if (lost := self._lost_at(job, place))]

    def let_go(self, job: Job, now: float) -> None:
        """Send the nodes that a job kept although they had lost a GPU to repair: nobody else will have them."""
        for place, _ in self._lost_parts(job):
            node = job.nodes[place]
            failure = job.narrow[place][-1]
            self.cluster.narrow.discard(node)
            self.cluster.send_to_repair(node, failure.info.cause, now, failure.info.bucket)
        job.narrow = {}

    def start_view(self, job: Job, now: float) -> JobView:
        """Return what a strategy may know of a job that starts."""
        prefix, number = (self.jobs.prepared.seed, self.jobs.replication, "start", job.name), job.starts
        return self.job_view(job, now, lambda purpose: rng.uniform_one(rng.stream(*prefix, purpose), number))

    def job_view(self, job: Job, now: float, mark: Callable[[str], float]) -> JobView:
        """Return what a strategy may know of a job; `mark` gives the numbers of its start."""
        main = job.main
        first = job.spec.seats[0] if job.spec.seats else 0
        narrowed: tuple[tuple[int, int], ...] = ()
        if job.narrow:
            # What has been repaired meanwhile is whole from this restart on.
            parts = self._lost_parts(job)
            job.narrow = {place: job.narrow[place] for place, _ in parts}
            lost: Counter[int] = Counter()
            for place, gone in parts:
                lost[place // job.spec.nodes_per_domain] += gone
            narrowed = tuple(sorted(lost.items()))
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
            job.gpus,
            job.work,
            first in job.lost,
            narrowed,
            job.starts,
            job.spec.stages,
            job.gone if job.redundant is not None else (),
            tuple(main.missing),
            first,
        )
