"""From a failure to a plan: who is hit, when it is known, what the strategy answers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from sim import rng
from sim.engine.kernel import Order
from sim.engine.state_jobs import Group
from sim.policies.contracts import (
    OF_ONE_RANK,
    Background,
    Bucket,
    ClusterView,
    FailureView,
    JobView,
    QueuedJob,
    Requeue,
    Run,
    Save,
)
from sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.engine.kernel import Call
    from sim.engine.lives import Failure
    from sim.engine.simulation import Simulation
    from sim.engine.state_jobs import Job
    from sim.policies.contracts import Acquire, Exposure, Plan


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
        for job in dict.fromkeys(group.job for group in groups):
            job.interruptions[cause] = job.interruptions.get(cause, 0) + 1
            if self.simulation.recorder is not None:
                self.simulation.recorder.failure(now, job, failure)
            if job.main in groups and job.main.is_running(now):
                job.disruptions[cause] = job.disruptions.get(cause, 0) + 1
                job.latencies[cause] = job.latencies.get(cause, 0.0) + latency
            else:
                job.merged += 1
        store_out = failure.info.source.store_out
        if store_out is not None:
            stores = self.simulation.stores
            stores.back = max(stores.back, now + draw(store_out, failure.mark, "store_out"))
        for group in groups:
            self._hit_group(group, failure, now, latency)

    def _hit_group(self, group: Group, failure: Failure, now: float, latency: float) -> None:
        known = now + latency
        takes_nodes = failure.info.source.away is not None
        if group.detecting and not takes_nodes:
            self._reboot(group, failure)
            # The incident is already open: whatever is found first stops the wait.
            if known < group.detect_at:
                group.detect_at = known
                group.epoch += 1
                self.kernel.at(known, Order.PHASE, self._on_detected, (group, group.epoch))
            return
        groups = self.simulation.groups
        # A save that is cut off by somebody who waits for one begins again.
        can_save = failure.info.saves and (group.is_running(now) or self._is_saving(group, now))
        group.saves = can_save and group.job.checkpoint.save_time() <= failure.info.source.notice
        is_leaving = self._is_saving(group, now) and group.failure.info.source.away is not None
        groups.stop(group, now)
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
            group.detect_at = known
            # Where no process ran, none runs until somebody knows.
            exposed: Exposure = "nodes" if group.exposed == "nodes" else "both"
            groups.wait(group, [(Bucket.DETECTION, math.inf)], now, exposed=exposed)
            self.kernel.at(known, Order.PHASE, self._on_detected, (group, group.epoch))
        else:
            group.running = False
            self._answer(group, now)

    def _reboot(self, group: Group, failure: Failure) -> None:
        """Let all nodes of a job start anew after a failure of the job as a whole that does so."""
        if failure.info.of_job and failure.info.reboots:
            group.job.rebooted.update(range(len(group.job.nodes)))
            group.job.live = False

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
        if failure.info.of_job and source.fix is None and self.recovery.elastic:
            rank = self._rank(job, failure)
            if rank >= 0:
                self._outlive(group, rank, failure)
        positions: Sequence[int] = group.missing
        if group.replaced or group.ended:
            job.lost.update(group.replaced)
            positions = (*group.missing, *group.replaced, *group.ended)
        if group.missing:
            job.lost.update(group.missing)
        replicas_lost = len({position // width for position in positions}) if job.replicas > 1 else int(bool(positions))
        view = FailureView(source.name, source.planned, lost, replicas_lost, failure.mark, source.fault)
        cluster = self.cluster
        plan: Plan
        if source.away is not None:
            # Nothing has failed that the strategy would have to know of.
            plan = (Requeue(draw(source.away, failure.mark, "away")),)
        else:
            plan, job.memory = self.recovery.plan(
                view,
                self.job_view(job, now, failure.mark),
                ClusterView(cluster.spare.count, cluster.idle.count),
                job.memory,
            )
        if (group.replaced or group.ended) and not any(type(step) is Background for step in plan):
            # All replicas restore together: who lost its state gets it back like the others.
            group.replaced = []
            group.ended = []
        saves = job.checkpoint.save_time() if group.saves else 0.0
        if self.simulation.rollouts.all:
            plan = self.simulation.rollouts.visit(job, plan, now + saves)
        if group.saves:
            group.saves = False
            plan = (Save(), *plan)
        self.simulation.groups.follow(group, plan, now)

    def _rank(self, job: Job, failure: Failure) -> int:
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

    def remove_victims(self, group: Group, now: float) -> int:
        """Send the suspects that are still down to repair; return how many they are."""
        lost = 0
        cluster = self.cluster
        if group.suspects:
            lives = self.simulation.lives
            for node, failure in group.suspects:
                holds = cluster.group[node] is group
                if holds and failure.info.keeps and self._narrow(group, node, failure):
                    continue
                if failure.info.by_course:
                    lost += self.simulation.lifecycle.diagnose(node, failure, group, now)
                elif cluster.outages[node] and holds:
                    if lives.nodes:
                        lives.leave(node, group, now)
                    cluster.send_to_repair(node, failure.info.cause, now, failure.info.bucket)
                    lost += 1
                if cluster.group[node] is group:
                    self._outlive(group, cluster.position[node], failure)
            group.suspects.clear()
        if cluster.units is not None and cluster.units.torn:
            cluster.units.let_go(group, now)
        return lost

    def _outlive(self, group: Group, position: int, failure: Failure) -> None:
        """Note what a failure has taken of a node that stays in its job."""
        job = group.job
        if failure.info.reboots:
            job.rebooted.add(position)
        if failure.info.source.fault in OF_ONE_RANK:
            # Its replica has lost the state of training; the others have not.
            job.dead.add(position)
            if self.recovery.elastic and job.replicas > 1:
                group.ended.append(position)

    def _narrow(self, group: Group, node: int, failure: Failure) -> bool:
        """Keep a node that has lost a GPU, if the job can do with what is left of its tensor group; return whether."""
        job = group.job
        if not self.cluster.outages[node]:
            return False
        position = self.cluster.position[node]
        first = position // job.nodes_per_domain * job.nodes_per_domain
        others = (place for place in range(first, first + job.nodes_per_domain) if place != position)
        # The outage of this failure is open already; some of those before it may have ended.
        before = len(job.narrow.get(position, ())) if node in self.cluster.narrow else 0
        gone = min(before + 1, self.cluster.outages[node]) + sum(self._lost_at(job, place) for place in others)
        if not self.recovery.keeps(gone, self.cluster.gpus_per_node * job.nodes_per_domain):
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
            self.simulation.lives.leave(node, job.main, now)
            self.cluster.narrow.discard(node)
            self.cluster.send_to_repair(node, failure.info.cause, now, failure.info.bucket)
        job.narrow = {}

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
        narrowed: tuple[tuple[int, int], ...] = ()
        if job.narrow:
            # What has been repaired meanwhile is whole from this restart on.
            parts = self._lost_parts(job)
            job.narrow = {place: job.narrow[place] for place, _ in parts}
            lost: Counter[int] = Counter()
            for place, gone in parts:
                lost[place // job.nodes_per_domain] += gone
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
            job.first in job.lost,
            narrowed,
            job.starts,
        )


# ----------------------------------------
# Replicas that leave the others and come back.


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


# ----------------------------------------
# Nodes for groups that miss some: from which pool, when they are ready, and who waits for them.


class Supply:
    """Carries out the step of a plan that takes nodes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.lives = simulation.lives
        self.reserves = simulation.prepared.reserves
        self.hungry: list[Group] = []
        """Groups that wait for nodes, longest first."""

    def forget(self, group: Group) -> None:
        """Let a group wait for nodes no longer."""
        if group in self.hungry:
            self.hungry.remove(group)

    def acquire(self, group: Group, step: Acquire, now: float) -> bool:
        """Take nodes; wait if there are too few, or until they are ready."""
        if step.unit == "node":
            may_miss = max(len(group.missing) - step.wanted, 0) if step.wanted else 0
            if self._feed(group, step, may_miss, now):
                return self._await_nodes(group, step, now)
            if step.timeout <= 0 and step.otherwise:
                self.simulation.groups.follow(group, step.otherwise, now)
                return True
            group.waiting = step._replace(wanted=may_miss)
            self.hungry.append(group)
        else:
            if group.replicas >= step.wanted:
                return False
            group.waiting = step
        self.simulation.groups.wait(group, [(Bucket.STARVED, math.inf)], now, exposed=step.exposed)
        if step.timeout < math.inf:
            self.kernel.at(now + step.timeout, Order.PHASE, self._on_timeout, (group, group.epoch))
        return True

    def _feed(self, group: Group, step: Acquire, may_miss: int, now: float) -> bool:
        """Give a group nodes until it misses no more than `may_miss`; return whether there were enough."""
        missing = group.missing
        if len(missing) > 1:
            # Replacements come in the order of their numbers: a unit keeps neighbouring positions.
            missing.sort(reverse=True)
        while len(missing) > may_miss:
            for pool in step.pools:
                node = self.cluster.take(pool, now, group.job.homes[missing[-1]] if group.job.homes else -1)
                if node >= 0:
                    break
            else:
                return False
            alone = pool in ("warm", "cold") and self._get_ready(group, pool, now)
            self.cluster.seat(group, missing.pop(), node)
            if self.lives.nodes:
                self.lives.join(node, group, now)
            if alone and (step.fill or len(missing) > may_miss):
                group.step -= 1
                return True
        if step.fill:
            self._fill_spares(group, now)
        return True

    def _get_ready(self, group: Group, pool: str, now: float) -> bool:
        """Note when a node of a reserve will be there; return whether the next one is asked for only then.

        By that time a node that was repaired meanwhile may have made the next one needless. The nodes of a unit are
        asked for together: half a unit is of no use.
        """
        _, _, seconds, one_by_one = self.reserves[pool]
        group.called = True
        if one_by_one:
            group.ready_at = max(group.ready_at, now) + seconds
        else:
            group.ready_at = max(group.ready_at, now + seconds)
        return one_by_one and seconds > 0 and self.cluster.units is None

    def _fill_spares(self, group: Group, now: float) -> None:
        """Fill the hot spares up: from the idle nodes, and from the cold ones if those were called upon anyway."""
        spare = self.cluster.spare
        self.cluster.move("idle", "spare", spare.target - spare.count, now)
        while group.called and spare.count < spare.target and self.cluster.move("cold", "spare", 1, now):
            if self._get_ready(group, "cold", now):
                group.step -= 1
                return

    def _await_nodes(self, group: Group, step: Acquire, now: float) -> bool:
        """Wait until all nodes that were taken are ready; return whether there is anything to wait for."""
        ready = group.ready_at
        if ready <= now:
            return False
        self.simulation.groups.wait(group, [(Bucket.STARVED, ready)], now, exposed=step.exposed)
        self.kernel.at(ready, Order.PHASE, self.simulation.groups.on_phase_end, (group, group.epoch))
        return True

    def feed_hungry(self, now: float) -> None:
        """Serve the groups that wait for nodes, longest first."""
        for group in list(self.hungry):
            if group.waiting is None:
                continue
            self.simulation.groups.settle(group, now)
            step = group.waiting
            if self._feed(group, step, step.wanted, now):
                self.hungry.remove(group)
                group.waiting = None
                group.epoch += 1
                if not self._await_nodes(group, step, now):
                    self.simulation.groups.proceed(group, now)

    def _on_timeout(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch != group.epoch or group.waiting is None:
            return
        step = group.plan[group.step - 1]
        if step.otherwise:
            now = self.kernel.now
            self.simulation.groups.stop(group, now)
            self.simulation.groups.follow(group, step.otherwise, now)


# ----------------------------------------
# The queue of jobs: arrivals, allocations, ends.


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
