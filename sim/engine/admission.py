"""Admission: who waits for nodes, which nodes a holder gets, and what its time is charged to.

:class:`Admission` has those that wait and asks for passes of the scheduler, :class:`Allocations` the nodes, of which
the planner hears. :class:`Records` charges a holder when it is over, however that comes;
:class:`~ettrick.sim.engine.runs.Runs` charges what it did while it stepped.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.engine.holders import Allocation
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.ledger import FleetAccumulator
from ettrick.sim.engine.nodes import NodeState, TimeWeightedCount
from ettrick.sim.engine.result import DIRECT, NAMED, ROOTS, Attempt, window_edges
from ettrick.sim.policies.contracts import ANY_POOL, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.holders import Holder, Job
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.nodes import Cluster
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.engine.result import FleetResult
    from ettrick.sim.policies.contracts import PoolName
    from ettrick.sim.policies.scheduler.nodes import SharedNode
    from ettrick.sim.policies.scheduler.planner import Planner


class Admission:
    """Holders in the queue of the planner, and those that have been submitted and are not over.

    Everything that may let a holder start asks for a pass (:meth:`ask`); it comes once, after all else of that instant.
    """

    run_pass: Callable[[float], None]
    """Starts and stops those whom the planner names."""
    on_own_failure: Callable[[Holder, float], None]
    """Gets a holder and the time [s] when the first of its own lives is over."""

    def __init__(self, jobs: JobPhases, planner: Planner, pool_of: Sequence[int], records: Records) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.planner = planner
        self.records = records
        self.allocations = Allocations(jobs, planner, pool_of, records, self.ask)
        self.rule = jobs.prepared.scheduler.requeue
        self.number = 0
        """The number of the next holder."""
        self.alive: dict[Holder, None] = {}
        """Holders that have been submitted and are not over, without named jobs."""
        self.queued_gpus = 0
        self.asked = -math.inf
        """The time of the pass that was asked for last [s]."""

    # -------------------------------------------------------------------------------------------------- passes

    def ask(self, now: float) -> None:
        """Ask for a pass after all else of this instant."""
        if self.asked != now:
            self.asked = now
            self.kernel.at(now, EventPriority.PASS, self.run_pass)

    def hold_back(self, now: float) -> bool:
        """Ask for no further pass at this instant; return whether none was asked for so far."""
        is_first = self.asked != now
        self.asked = now
        return is_first

    def pass_soon(self, now: float) -> None:
        """Let the pass come now if nothing else happens at this instant, else after that."""
        if self.kernel.peek() > now:
            self.run_pass(now)
        else:
            self.kernel.at(now, EventPriority.PASS, self.run_pass)

    # --------------------------------------------------------------------------------------------------- queue

    def submit(self, holder: Holder, now: float) -> None:
        """Put a holder, or replicas of a service, into the queue for the first time."""
        self.number += 1
        self.alive[holder] = None
        self.enqueue(holder, now)

    def enqueue(self, holder: Holder, now: float) -> None:
        """Put a holder into the queue of the planner."""
        if holder.policy.on_failure == "replace":
            holder.waiting[holder] = None
        self.queued_gpus += holder.gpus
        self.planner.enqueue(holder, now)
        self.ask(now)

    def withdraw(self, holder: Holder, now: float) -> None:
        """Take a holder out of the queue for good."""
        self.records.charge_wait(holder, now)
        self.queued_gpus -= holder.gpus
        del self.alive[holder]
        self.planner.withdraw(holder)

    def run_processes(self, holder: Holder, since: float) -> None:
        """Let the processes of a holder run, until one of its own lives ends."""
        if holder.lives:
            holder.alive = since
            due = since + holder.lives[0][0] - holder.lived
            self.kernel.unless_changed(due, EventPriority.FAILURE, self.on_own_failure, holder)

    # ------------------------------------------------------------------------------------------ end and requeue

    def give_back(self, holder: Holder, now: float, state: str) -> None:
        """Take the nodes of a holder, which is charged, from it; `state` is for the log."""
        holder.notice = None
        self.void_save(holder, now)
        self.records.log_attempt(holder, now, state)
        self.allocations.take_back(holder, now)

    def void_save(self, holder: Holder, now: float) -> None:
        """Void the save or the restore of a holder that stops."""
        if holder.saves.save_share:
            holder.saving_at = math.inf
            self.jobs.stores.forget(holder, now)

    def retire(self, holder: Holder, now: float) -> None:
        """Take the nodes of replicas that serve no more for good."""
        self.records.charge_stages(holder, now)
        self.give_back(holder, now, "completed")
        del self.alive[holder]
        holder.entry = ()

    def requeue(self, holder: Holder, now: float, state: str, *, delay: float | None = None) -> None:
        """Take the nodes of a holder, which is charged, and put it into the queue again after the delay."""
        delay = self.rule.delay if delay is None else delay
        self.give_back(holder, now, state)
        holder.queued = now
        if self.rule.age == "reset":
            holder.submit = holder.eligible = now + delay
        if delay > 0:
            self.kernel.at(now + delay, EventPriority.PHASE, self._enqueue_again, holder)
        else:
            self._enqueue_again(holder, now)

    def _enqueue_again(self, holder: Holder, now: float) -> None:
        if holder.is_exact and holder.durable > 0:
            holder.limit = min(holder.time_left(), holder.longest)
        self.enqueue(holder, now)

    def close(self, holder: Holder, outcome: str, now: float) -> None:
        """Count a job that is over."""
        jobs = self.jobs
        jobs.open -= 1
        del self.alive[holder]
        holder.entry = ()  # it holds the job: without it nobody has to look for garbage
        self.records.count_end(holder, outcome, now)
        # A run that is over in its warm-up has nothing to say.
        if jobs.open == 0 and now > self.records.tally.edges[0]:
            jobs.when_all_done(now)


# ----------------------------------------
# Nodes that holders get, share, lose, get replaced, and give back.


class Allocations:
    """Gives nodes to holders that the planner starts, and takes them back."""

    keeps: Callable[[Holder, int, FailureEvent], bool]
    """Whether replicas of a service keep a node that has failed."""

    def __init__(
        self, jobs: JobPhases, planner: Planner, pool_of: Sequence[int], records: Records, ask: Callable[[float], None]
    ) -> None:
        self.jobs = jobs
        self.cluster = jobs.cluster
        self.repair = jobs.repair
        self.rollouts = jobs.failures.rollouts
        self.planner = planner
        self.records = records
        self.ask = ask
        """Asks the scheduler for a pass."""
        self.pool_of = pool_of
        """Pool of the planner that each node is of."""
        self.per_node = jobs.prepared.gpus_per_node
        self.rule = jobs.prepared.scheduler.replacement
        self.pools: Sequence[PoolName] = getattr(jobs.prepared.recovery, "pools", ANY_POOL)
        """The pools of replacements, in this order."""
        self.is_disturbed = False
        """Whether nodes have come or gone otherwise than with the holders that the planner starts and ends."""
        self.unshared = TimeWeightedCount()
        """GPUs of shared nodes that no job has."""
        self.rooms = [0] * (self.per_node + 1)
        """Shared nodes by free GPUs."""
        self.busy_lives = jobs.lives.nodes
        jobs.cluster.notify = self.note_change

    def note_change(self, now: float) -> None:
        """Note that idle nodes have come or gone, and ask for a pass."""
        self.is_disturbed = True
        self.ask(now)

    def report(self, now: float) -> None:
        """Tell the planner of nodes that have come or gone otherwise than with its holders, where `is_disturbed`."""
        self.is_disturbed = False
        planner = self.planner
        if len(planner.pools) == 1:
            drift = self.cluster.idle.count - planner.idle(0)
            if drift:
                planner.capacity(drift, now)
            return
        counts = [0] * len(planner.pools)
        for node, pool in enumerate(self.pool_of):
            counts[pool] += self.cluster.where(node) == NodeState.IDLE
        for pool, count in enumerate(counts):
            if count != planner.idle(pool):
                planner.capacity(count - planner.idle(pool), now, pool)

    def largest_room(self) -> int:
        """Return the most GPUs that are free on a shared node."""
        return next((free for free in range(self.per_node, 0, -1) if self.rooms[free]), 0)

    # ------------------------------------------------------------------------------------------- give and take

    def allocate(self, holder: Holder, now: float) -> Allocation:
        """Give a holder that the planner starts its nodes, or its part of one."""
        share = holder.share
        allocation = self._take_nodes(holder, now) if share is None else self._share_node(holder, share, now)
        allocation.jobs.append(holder)
        holder.allocation = allocation
        holder.seats = ()
        self.records.log_nodes(holder)
        return allocation

    def _take_nodes(self, holder: Holder, now: float) -> Allocation:
        nodes: list[int] = []
        for pool, count in holder.where:
            nodes += self.cluster.take_idle(count, now, pool)
        allocation = Allocation(nodes, now)
        self._seat(allocation, now)
        return allocation

    def _share_node(self, holder: Holder, share: SharedNode, now: float) -> Allocation:
        allocation: Allocation | None = share.node
        if allocation is None:
            allocation = share.node = Allocation(self.cluster.take_idle(1, now, share.pool), now)
            self._add_room(allocation, self.per_node, now)
            self._seat(allocation, now)
        self._add_room(allocation, -holder.gpus, now)
        return allocation

    def _add_room(self, allocation: Allocation, gpus: int, now: float) -> None:
        """Add free GPUs to a shared node."""
        self.rooms[allocation.free] -= 1
        allocation.free += gpus
        self.rooms[allocation.free] += 1
        self.unshared.change(gpus, now)

    def _seat(self, allocation: Allocation, now: float) -> None:
        """Enter whose the nodes of an allocation are."""
        cluster = self.cluster
        if self.busy_lives:
            for position, node in enumerate(allocation.nodes):
                cluster.seat(allocation, position, node, now)
        else:
            group, place = cluster.group, cluster.position
            for position, node in enumerate(allocation.nodes):
                group[node] = allocation
                place[node] = position

    def take_back(self, holder: Holder, now: float) -> None:
        """Take the nodes of a holder, which is charged, from it; those that it shared with others stay theirs."""
        allocation = holder.placed
        holder.stand_still(now)
        holder.allocation = None
        self.planner.ended(holder, now)
        allocation.jobs.remove(holder)
        if not holder.policy.has_nodes and not allocation.missing:
            self._add_room(allocation, holder.gpus, now)
        if not allocation.jobs:
            self._release(allocation, now)
        self.ask(now)

    def _release(self, allocation: Allocation, now: float) -> None:
        """Return the nodes of an allocation to the idle ones; those that failed go to repair."""
        self.remove_failed(allocation, now)
        self._add_room(allocation, -allocation.free, now)
        cluster = self.cluster
        idle, place, group = cluster.idle, cluster.place, cluster.group
        allocation.holding = False
        # Nodes that have been replaced may be of other pools than those that the planner gave.
        self.is_disturbed |= allocation.epoch > 0
        allocation.epoch += 1
        nodes = [node for node in allocation.nodes if node >= 0] if allocation.missing else allocation.nodes
        for node in nodes:
            if self.busy_lives:
                cluster.lives.leave(node, allocation.busy, now)
            group[node] = None
            place[node] = NodeState.IDLE
            idle.push(node)
        idle.change(len(nodes), now)
        if self.rollouts.all:
            self.rollouts.change_free()

    # ------------------------------------------------------------------------------------------------ failures

    def remove_failed(self, allocation: Allocation, now: float) -> None:
        """Send the nodes of an allocation that have failed to repair."""
        cluster = self.cluster
        if not allocation.suspects:
            return
        self.is_disturbed = True
        first = allocation.jobs[0] if allocation.jobs else None
        for node, failure in allocation.suspects:
            is_held = cluster.outages[node] > 0 and cluster.group[node] is allocation
            replaces = first is not None and first.policy.on_failure == "replace"
            if is_held and replaces and first is not None and self.keeps(first, node, failure):
                continue
            if failure.info.by_course:
                self.repair.diagnose(node, failure, allocation, now)
            elif is_held:
                self.repair.send(node, now)
        allocation.suspects.clear()
        self.repair.begin_repairs(allocation, now)
        cluster.let_go_torn(allocation, now)
        if allocation.missing:
            self._add_room(allocation, -allocation.free, now)

    def replace(self, allocation: Allocation, now: float) -> bool:
        """Give an allocation nodes for those that it misses, if there are enough for all; return whether.

        Nodes that it has swapped although nobody was blamed come last.
        """
        unblamed, allocation.unblamed = allocation.unblamed, []
        with self.cluster.hiding(unblamed, now) as are_hidden:
            is_enough = self._replace(allocation, now)
        return is_enough or (are_hidden and self._replace(allocation, now))

    def _replace(self, allocation: Allocation, now: float) -> bool:
        missing, cluster = allocation.missing, self.cluster
        if self.rule == "never" or not allocation.jobs[0].policy.has_nodes:
            return False
        self.report(now)
        nodes = self._replacements(allocation.jobs[0], len(missing), now)
        if len(nodes) < len(missing):
            for node, origin in nodes:
                cluster.enter(cluster.pools[origin], node, now)
            return False
        for node, origin in nodes:
            cluster.seat(allocation, missing.pop(), node, now)
            if origin in ("warm", "cold"):
                allocation.ready_at = self.jobs.prepared.reserves[origin].ready(allocation.ready_at, now)
        self.reseat(allocation, now)
        return True

    def _replacements(self, holder: Holder, wanted: int, now: float) -> list[tuple[int, str]]:
        """Take nodes for those that a holder misses, as many as there are up to those `wanted`, each with its pool."""
        cluster, planner = self.cluster, self.planner
        names = [name for name in self.pools if name in cluster.pools]
        if self.rule == "queue" and planner.queued:
            names.remove("idle")
        homes = planner.replacements(holder, self.rule == "domain")
        nodes: list[tuple[int, str]] = []
        for name in names:
            for home in homes:
                count = wanted - len(nodes)
                if name == "idle":
                    count = min(count, planner.free[home])
                candidates = (cluster.take(name, now, home, strictly=True) for _ in range(count))
                nodes += [(node, name) for node in itertools.takewhile(lambda node: node >= 0, candidates)]
        return nodes

    def reseat(self, allocation: Allocation, now: float) -> None:
        """Tell the planner which nodes a holder has now, and the log."""
        holder = allocation.jobs[0]
        pools = Counter(self.pool_of[node] for node in allocation.nodes if node >= 0)
        self.planner.seated(holder, tuple(sorted(pools.items())))
        self.records.log_nodes(holder)
        self.note_change(now)


# ----------------------------------------
# What the time of holders and of idle GPUs is charged to, how often they stop, and when they ran.

_QUEUED, _PRODUCTIVE, _LOST_WORK = Bucket.QUEUED.value, Bucket.PRODUCTIVE.value, Bucket.LOST_WORK.value


class Records:
    """The GPU-time of a cluster that streams share, and the log of its jobs."""

    def __init__(self, prepared: Prepared, cluster: Cluster) -> None:
        self.sources = prepared.sources
        self.cluster = cluster
        self.per_node = prepared.gpus_per_node
        self.tally = FleetAccumulator(
            window_edges(prepared.warmup, prepared.horizon, prepared.windows),
            prepared.nodes * self.per_node,
            [source.name for source in prepared.sources],
        )
        self.log: list[Attempt] | None = None
        """The log of the times at which jobs had their nodes, if that is asked for."""
        self.drain = len(prepared.sources) + 1 + ROOTS.index("drain")
        self.demand, self.limit = self.drain + 1, self.drain + ROOTS.index("limit")
        self.idle_for: dict[str, int] = {}
        """GPUs that are idle since the last pass, by reason."""
        self.charged = 0.0
        """Up to when idle GPUs have been charged [s]."""
        self.preempted: Counter[int] = Counter()
        """The preemptions of named jobs, by index."""

    def root_of(self, failure: FailureEvent) -> int:
        """Return the index of the root cause that a failure is."""
        return self.drain if failure.info.source.planned else failure.info.cause

    # --------------------------------------------------------------------------------------------- charges

    def account_of_job(self, job: Job) -> int:
        """Return the account of a named job."""
        spec = job.spec
        return self.tally.account(NAMED + job.index, job.gpus, spec.tenant, spec.priority, spec.partition)

    def charge_wait(self, holder: Holder, now: float) -> None:
        """Charge the GPUs that a holder has waited for up to now."""
        waited = now - holder.queued
        if waited > 0:
            holder.waited += waited
            self.tally.charge(
                holder.account, _QUEUED, holder.root, holder.via, waited * holder.gpus, holder.queued, now
            )

    def charge_stages(self, holder: Holder, now: float) -> int:
        """Charge what comes before a holder runs on; return the GPUs that it has at the moment."""
        allocation = holder.allocation
        assert allocation is not None, "it has nodes"
        gpus = (holder.nodes - len(allocation.missing)) * self.per_node if holder.nodes else holder.gpus
        time = holder.since
        for bucket, end in holder.stages:
            stop = end if end < now else now
            if stop > time:
                self.tally.charge(holder.account, bucket, holder.why, holder.via, (stop - time) * gpus, time, stop)
                time = stop
        holder.run += now - holder.since
        holder.since = now
        return gpus

    def charge_idle(self, now: float, unshared: TimeWeightedCount) -> None:
        """Charge the GPUs that no job has had since the last pass, and those of nodes that no job gets."""
        withheld = self.cluster.withheld.collect(now) * self.per_node
        if withheld > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += withheld
            self.tally.idle("no_queue", withheld, self.charged, now)
        idle = self.cluster.idle.collect(now) * self.per_node + unshared.collect(now)
        if idle > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += idle
            total = sum(self.idle_for.values())
            for reason, gpus in self.idle_for.items() if total else (("no_queue", 1),):
                self.tally.idle(reason, idle * gpus / max(total, 1), self.charged, now)
        self.charged = now

    # ----------------------------------------------------------------------------------------------- stops

    def count_stop(self, holder: Holder, now: float, root: int, via: int, lost: float, by: int = -1) -> None:
        """Count a stop, which has lost some seconds of work on all GPUs of the holder; see `FleetAccumulator`."""
        lost *= holder.nodes * self.per_node or holder.gpus
        self.tally.stopped(holder.account, now, root, via, holder.gpus, lost, by)

    def count_end(self, holder: Holder, outcome: str, now: float) -> None:
        """Count a holder that is over, or as it stands at the end; services account for their replicas."""
        if holder.policy.account == "service":
            return
        self.tally.ended(
            holder.account, outcome, holder.spec.submit, holder.first, now, holder.gpus, holder.waited, holder.run,
            holder.useful, holder.failures, holder.preempted,
        )  # fmt: skip

    def log_attempt(self, holder: Holder, now: float, state: str) -> None:
        """Write down when a job had its nodes."""
        if self.log is None or holder.policy.account == "service":
            return
        start, submit, end = (time - self.tally.edges[0] for time in (holder.began, holder.spec.submit, now))
        stopped = state in ("node_fail", "preempted")
        cause, via = (holder.root, holder.via) if stopped else (0, DIRECT)
        who = holder.stream.index, holder.spec.number, holder.spec.gpus
        self.log.append(Attempt(*who, submit, start, end, state, cause, via, holder.lost, holder.seats))

    def log_nodes(self, holder: Holder) -> None:
        """Write down which nodes a holder has from now on."""
        if self.log is not None:
            holder.seats += (tuple(sorted(node for node in holder.placed.nodes if node >= 0)),)

    # ------------------------------------------------------------------------------------------------- end

    def close_job(self, job: Job, now: float) -> None:
        """Charge a named job from its own account, and count it as it stands."""
        account, table, gpus = self.account_of_job(job), job.account.held(), job.gpus
        for edge, bucket, cause, gpu_s in self._charges(table):
            root = self.drain if cause and self.sources[cause - 1].planned else cause
            self.tally.charge(account, bucket, root, DIRECT, gpu_s, edge, edge)
            if bucket == _LOST_WORK and root:
                self.tally.stopped(account, edge, root, DIRECT, 0.0, gpu_s, stops=0)
        failures = sum(count for cause, count in job.interruptions.items() if not self.sources[cause - 1].planned)
        spent = table.sum(axis=(0, 2)) / gpus
        run = float(spent.sum() - spent[_QUEUED])
        self.tally.ended(
            account, "completed" if job.finished else "running" if job.holding else "waiting", job.arrival, job.start,
            job.end if job.finished else now, gpus, float(spent[_QUEUED]), run, float(spent[_PRODUCTIVE]), failures,
            self.preempted[job.index],
        )  # fmt: skip

    def _charges(self, table: NDArray[np.float64]) -> Iterator[tuple[float, int, int, float]]:
        """Yield window start, bucket, cause and GPU-seconds of a table of shape (windows, buckets, causes)."""
        for window, bucket, cause in zip(*map(np.ndarray.tolist, table.nonzero()), strict=True):
            yield self.tally.edges[window], bucket, cause, float(table[window, bucket, cause])

    def result(self, now: float) -> FleetResult:
        """Return what all holders came to; the ledger, with the nodes outside jobs, adds up to the cluster."""
        for edge, bucket, cause, gpu_s in self._charges(self.cluster.account.totals()):
            # Idle nodes have been charged with their reason.
            if bucket != Bucket.UNALLOCATED:
                self.tally.charge(0, bucket, cause, DIRECT, gpu_s, edge, edge)
        return self.tally.result(now)
