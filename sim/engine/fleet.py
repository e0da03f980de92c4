"""Streams of jobs: they arrive, wait for nodes, run, fail, are preempted and end; named jobs wait in the same queue.

A job of a stream is one record with one event ahead at most. Its run is a closed form of the time since it began:
start, restore, work with saves between. It is charged when it is over, however that comes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.engine.fleet_result import DIRECT, NAMED, PREEMPTION, ROOTS, FleetAccumulator, size_class, window_edges
from ettrick.sim.engine.jobs import Queue
from ettrick.sim.engine.kernel import EventPriority, WorkError
from ettrick.sim.engine.lives import FailureEvent, SourceInfo
from ettrick.sim.engine.nodes import NodeState, TimeWeightedCount
from ettrick.sim.engine.result import Attempt
from ettrick.sim.engine.services import ReplicaSlot, Service, call_spares
from ettrick.sim.engine.stream_job import Allocation, NamedJob, StreamJob
from ettrick.sim.engine.stream_saves import StreamSaves
from ettrick.sim.policies.contracts import ANY_POOL, Bucket, Requeue, Save
from ettrick.sim.policies.planner import Planner
from ettrick.sim.policies.queue import PlannerPool, Quota
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.fleet_result import FleetResult
    from ettrick.sim.engine.job import Job, ReplicaGroup
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.prepared import Prepared, PreparedStream
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.policies.contracts import PoolName
    from ettrick.sim.policies.queue import PlannerJob
    from ettrick.sim.scenario.streams import Arrival, Tenant

_PRODUCTIVE, _CHECKPOINT_STALL, _LOST_WORK = (
    Bucket.PRODUCTIVE.value,
    Bucket.CHECKPOINT_STALL.value,
    Bucket.LOST_WORK.value,
)

_INITIALIZE, _RESTORE, _STARVED = Bucket.INITIALIZE.value, Bucket.RESTORE.value, Bucket.STARVED.value

_QUEUED = Bucket.QUEUED.value


class ClusterQueue(Queue):
    """The queue of a cluster that streams of jobs share.

    Everything that may let a job start asks for a pass (:meth:`ask`); it comes once, after all else of that instant.
    """

    def __init__(self, jobs: JobPhases) -> None:
        prepared = jobs.prepared
        self.streams = prepared.streams
        self.sources: list[Iterator[Arrival]] = []
        """Arrivals that have not come yet, by stream."""
        self.end = prepared.warmup + prepared.horizon
        self.per_node = prepared.gpus_per_node
        self.tally = FleetAccumulator(
            window_edges(prepared.warmup, prepared.horizon, prepared.windows),
            prepared.nodes * self.per_node,
            [source.name for source in prepared.sources],
        )
        self.pool_of = prepared.packed_by or (0,) * prepared.nodes
        """Pool of the planner that each node is of."""
        places = zip(self.pool_of, jobs.cluster.place, strict=True)
        counts = Counter(pool for pool, place in places if place == NodeState.IDLE)
        pools = [pool._replace(nodes=counts[index]) for index, pool in enumerate(prepared.pools)]
        self.planner = Planner(
            prepared.scheduler,
            pools,
            gpus=self.per_node,
            tiers=[partition.tier for partition in prepared.partitions] or (0,),
            quotas=[self._quota(tenant) for tenant in prepared.tenants] or (Quota(),),
        )
        self.log: list[Attempt] | None = None
        """When jobs had their nodes, for those who ask for it."""
        self.reserves = [pool for name, pool in jobs.cluster.pools.items() if name != "idle"]
        self.holds = prepared.scheduler.requeue.holds_nodes
        self.lends = bool(prepared.jobs) and bool(jobs.cluster.spare.target) and len(pools) == 1
        """Whether hot spares may let a named job start again; with partitions, domains or windows they may not."""
        self.is_disturbed = False
        """Whether nodes have come or gone otherwise than with the jobs that the planner starts and ends."""
        jobs.cluster.notify = self._on_change
        self.number = 0
        self.drain = len(prepared.sources) + 1 + ROOTS.index("drain")
        self.demand, self.limit = self.drain + 1, self.drain + ROOTS.index("limit")
        self.roots: dict[int, int] = {}
        """Of named jobs that were preempted and wait, the root cause."""
        self.pools: Sequence[PoolName] = getattr(prepared.recovery, "pools", ANY_POOL)
        """Where replacements come from, in this order."""
        self.asked = -math.inf
        """When the pass comes that was asked for last [s]."""
        self.wakes = -math.inf
        """When a pass comes although nothing happens [s]."""
        self.preempted: Counter[int] = Counter()
        """How often named jobs were stopped for others, by index."""
        self.named: list[NamedJob] = []
        """Named jobs that hold nodes, as the planner knows them."""
        self.alive: dict[StreamJob, None] = {}
        """Jobs of streams that have been submitted and are not over."""
        self.queued_gpus = 0
        self.queued_jobs = 0
        self.idle_for: dict[str, int] = {}
        """GPUs that are idle since the last pass, by reason."""
        self.charged = 0.0
        """Up to when idle GPUs have been charged [s]."""
        self.unshared = TimeWeightedCount()
        """GPUs of shared nodes that no job has."""
        self.rooms = [0] * (self.per_node + 1)
        """Shared nodes by free GPUs."""
        self.busy_lives = jobs.lives.nodes
        super().__init__(jobs)
        jobs.hit = self.hit
        self.failures = jobs.failures
        self.stream_saves = StreamSaves(self)
        self.own = [
            [
                SourceInfo(source, index, prepared, jobs.replication, stream.name)
                for index, source in enumerate(prepared.sources)
                if source.of_processes
            ]
            for stream in self.streams
        ]
        """Sources of failures of whole jobs, for each stream: they strike processes, and no node."""
        self.services: list[Service] = []
        for plan in prepared.services:
            service = Service(self, plan)
            self.services += [service] if service.readers is None else [service, service.readers]
        for stream in self.streams:
            self.sources.append(stream.arrivals(prepared.seed, jobs.replication, self.end))
            if stream.pending:
                for _ in range(stream.pending):
                    self._submit(stream, next(self.sources[-1]), 0.0)
            else:
                self._expect(stream)
        self.open += len(self.streams) + len(self.services)

    def _quota(self, tenant: Tenant) -> Quota:
        """Return what a tenant may use [GPU]; one without a quota uses what is there, and has nothing to lend."""
        if tenant.nodes is None:
            return Quota(lend=0.0, weight=tenant.weight)
        borrow, lend = (math.inf if nodes is None else nodes * self.per_node for nodes in (tenant.borrow, tenant.lend))
        return Quota(tenant.nodes * self.per_node, borrow, lend, tenant.weight)

    # ------------------------------------------------------------------------------------------------ arrivals

    def _expect(self, stream: PreparedStream) -> None:
        """Arrange the next arrival of a stream."""
        spec = next(self.sources[stream.index], None)
        if spec is not None:
            # Those that run when the simulation starts have their nodes before those that wait are looked at.
            order = EventPriority.ARRIVAL if spec.submit >= 0 or spec.under_way else EventPriority.PASS + 1
            self.kernel.at(max(spec.submit, 0.0), order, self._on_submit, (stream, spec))
        else:
            self.open -= 1

    def _on_submit(self, call: ScheduledCall) -> None:
        stream, spec = call.argument
        now = self.kernel.now
        is_first = self._hold_back(now)
        self._submit(stream, spec, now)
        self._expect(stream)
        if is_first:
            self._pass_soon(now)

    def _submit(self, stream: PreparedStream, spec: Arrival, now: float) -> None:
        """Let a job enter the queue for the first time."""
        if stream.pending:
            spec = spec._replace(submit=now)
        nodes = -(-spec.gpus // self.per_node) if spec.gpus >= self.per_node else 0
        account = self.tally.account(stream.index, size_class(spec.gpus), spec.tenant, spec.priority, spec.partition)
        job = StreamJob(self.number, spec, stream, account, nodes)
        for info in self.own[stream.index]:
            self.begin_life(job, info, 0, 0.0)
        self.number += 1
        self.open += 1
        self.alive[job] = None
        self._enqueue(job, now)

    def _enqueue(self, job: StreamJob, now: float) -> None:
        """Let a job wait for nodes; it has waited since it was `queued`."""
        if job.is_exact and job.durable > 0:
            job.limit = min(self._left(job), self._longest(job))
        self.enqueue(job, now)

    def enqueue(self, job: StreamJob, now: float) -> None:
        """Put a job, or a gang of a service, into the queue of the planner."""
        if isinstance(job, ReplicaSlot):
            job.service.waiting[job] = None
        self.queued_gpus += job.gpus
        self.queued_jobs += 1
        self.planner.enqueue(job, now)
        self.ask(now)

    def withdraw(self, job: StreamJob, now: float) -> None:
        """Take a gang of a service out of the queue for good."""
        self._charge_wait(job, now)
        self.queued_gpus -= job.gpus
        self.queued_jobs -= 1
        del self.alive[job]
        self.planner.withdraw(job)

    def retire(self, job: StreamJob, now: float) -> None:
        """Take the nodes of a gang of a service that serves no more for good."""
        self.charge(job, now)
        self._free(job, now, "completed")
        del self.alive[job]
        job.entry = ()

    def enter(self, job: Job, now: float) -> None:
        """Put a named job into the queue."""
        self._settle_named(now)
        if job.holding and not job.main.missing:
            self._start(job, now)
            return
        if job.holding:
            self.cluster.release(job, now)
        pending = NamedJob(self.number, job, now)
        self.number += 1
        self.queued_gpus += job.gpus
        self.queued_jobs += 1
        self.planner.enqueue(pending, now)
        self.ask(now)

    def _settle_named(self, now: float) -> None:
        """Tell the planner of named jobs that have given their nodes back."""
        for pending in [each for each in self.named if not each.job.holding]:
            self.named.remove(pending)
            self.planner.ended(pending, now)

    # -------------------------------------------------------------------------------------------------- passes

    def serve(self, now: float) -> None:
        """Ask for a pass: nodes have become free."""
        self.ask(now)

    def ask(self, now: float) -> None:
        """Let the scheduler look at the queue after all else of this instant."""
        if self._hold_back(now):
            self.kernel.at(now, EventPriority.PASS, self._on_pass)

    def _hold_back(self, now: float) -> bool:
        """Ask for no further pass at this instant; return whether none was asked for so far."""
        is_first = self.asked != now
        self.asked = now
        return is_first

    def _pass_soon(self, now: float) -> None:
        """Let the pass come now if nothing else happens at this instant, else after that."""
        if self.kernel.peek() > now:
            self._pass(now)
        else:
            self.kernel.at(now, EventPriority.PASS, self._on_pass)

    def _on_pass(self, call: ScheduledCall) -> None:
        del call
        self._pass(self.kernel.now)

    def _pass(self, now: float) -> None:
        """Let the planner say who starts and who is stopped, until nothing changes any more at this instant."""
        self.asked = -math.inf
        planner = self.planner
        while True:
            if self.named:
                self._settle_named(now)
            if self.services:
                self._serve_services(now)
            self._report(now)
            if self.lends:
                self._lend_spares(now)
            starts = planner.plan(now)
            for pending in starts:
                self._start_pending(pending, now)
            if not self._preempt(now) and not starts and planner.wake(now) > now:
                break
        reasons = planner.reason()
        if reasons.keys() != self.idle_for.keys() or len(reasons) > 1:
            # While there is one reason, and the same, nothing has to be charged.
            self._charge_idle(now)
            self.idle_for = reasons
        self._level(now)
        wake = planner.wake(now)
        if now < wake < self.end and not now < self.wakes <= wake:
            self.wakes = wake
            self.kernel.at(wake, EventPriority.PASS, self._on_pass)

    def _serve_services(self, now: float) -> None:
        """Give services nodes that have become free, before the queue gets them, and those that wait the spares."""
        for service in self.services:
            if service.narrow or service.hurt:
                service.refill(now)
        call_spares(self, self.services, now)

    def _lend_spares(self, now: float) -> None:
        """Let a named job that waits to start again have hot spares, if it is the first and can start with them."""
        job, short = self.planner.first(now)
        if isinstance(job, NamedJob) and job.job.starts and 0 < short <= self.cluster.spare.count:
            self.cluster.move("spare", "idle", short, now)
            self._report(now)

    def _level(self, now: float) -> None:
        """Say what is true of the cluster from now on."""
        each, cluster = self.per_node, self.cluster
        idle, stranded = cluster.idle.count * each, self.unshared.count
        free = idle + stranded
        for pool in self.reserves:
            free += pool.count * each
        room = self._room() if stranded and not idle else idle
        self.tally.level(now, free, self.queued_gpus, self.queued_jobs, room, stranded)

    def _room(self) -> int:
        """Return the most GPUs that are free on a shared node."""
        return next((free for free in range(self.per_node, 0, -1) if self.rooms[free]), 0)

    def _on_change(self, now: float) -> None:
        """Note that idle nodes have come or gone, and ask for a pass."""
        self.is_disturbed = True
        self.ask(now)

    def _report(self, now: float) -> None:
        """Tell the planner of nodes that have come or gone otherwise than with its jobs."""
        planner = self.planner
        if len(planner.pools) == 1:
            drift = self.cluster.idle.count - planner.idle(0)
            if drift:
                planner.capacity(drift, now)
            return
        if not self.is_disturbed:
            return
        self.is_disturbed = False
        counts = [0] * len(planner.pools)
        for node, pool in enumerate(self.pool_of):
            counts[pool] += self.cluster.where(node) == NodeState.IDLE
        for pool, count in enumerate(counts):
            if count != planner.idle(pool):
                planner.capacity(count - planner.idle(pool), now, pool)

    def _start_pending(self, pending: PlannerJob, now: float) -> None:
        """Start a job that the planner has given its nodes."""
        self.queued_gpus -= pending.gpus
        self.queued_jobs -= 1
        if isinstance(pending, StreamJob):
            if isinstance(pending, ReplicaSlot):
                del pending.service.waiting[pending]
            self._begin(pending, now)
        else:
            assert isinstance(pending, NamedJob)
            self.named.append(pending)
            self.roots.pop(pending.job.index, None)
            self._start(pending.job, now)

    def _charge_idle(self, now: float) -> None:
        """Charge the GPUs that nobody has had since the last pass, and those of nodes that nobody gets."""
        withheld = self.cluster.withheld.collect(now) * self.per_node
        if withheld > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += withheld
            self.tally.idle("no_queue", withheld, self.charged, now)
        idle = self.cluster.idle.collect(now) * self.per_node + self.unshared.collect(now)
        if idle > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += idle
            total = sum(self.idle_for.values())
            for reason, gpus in self.idle_for.items() if total else (("no_queue", 1),):
                self.tally.idle(reason, idle * gpus / max(total, 1), self.charged, now)
        self.charged = now

    # ---------------------------------------------------------------------------------------------------- runs

    def _begin(self, job: StreamJob, now: float) -> None:
        """Give a job its nodes and let it start."""
        self._charge_wait(job, now)
        if math.isnan(job.first):
            job.first = now
        job.began = job.since = now
        job.lost = 0.0
        job.why = job.root
        allocation = job.allocation = self._share(job, now) if job.nodes == 0 else self._allocate(job, now)
        job.seats = ()
        self._log_seats(job, allocation)
        if allocation.detect_at == math.inf or not self.cluster.outages[allocation.nodes[0]]:
            self._run(job, now, now)
        else:
            # Its node has failed, which is not detected yet.
            self._stop(job, self._root(allocation.suspects[0][1]), DIRECT, Bucket.DETECTION)
        if job.stream.pending:
            self._submit(job.stream, next(self.sources[job.stream.index]), now)

    def _charge_wait(self, job: StreamJob, now: float) -> None:
        """Charge the GPUs that a job has waited for up to now."""
        waited = now - job.queued
        if waited > 0:
            job.waited += waited
            self.tally.charge(job.account, _QUEUED, job.root, job.via, waited * job.gpus, job.queued, now)

    def _allocate(self, job: StreamJob, now: float) -> Allocation:
        """Return whole nodes for a job."""
        cluster = self.cluster
        nodes: list[int] = []
        for pool, count in job.where:
            nodes += [cluster.take("idle", now, pool) for _ in range(count)]
        allocation = Allocation(nodes, now)
        allocation.jobs.append(job)
        self._seat(allocation, now)
        return allocation

    def _share(self, job: StreamJob, now: float) -> Allocation:
        """Return the node that a job shares."""
        share = job.share
        assert share is not None
        allocation: Allocation | None = share.node
        if allocation is None:
            allocation = share.node = Allocation([self.cluster.take("idle", now, share.pool)], now)
            self._open_room(allocation, self.per_node, now)
            self._seat(allocation, now)
        self._open_room(allocation, -job.gpus, now)
        allocation.jobs.append(job)
        return allocation

    def _open_room(self, allocation: Allocation, gpus: int, now: float) -> None:
        """Let a shared node have so many more free GPUs."""
        self.rooms[allocation.free] -= 1
        allocation.free += gpus
        self.rooms[allocation.free] += 1
        self.unshared.change(gpus, now)

    def _seat(self, allocation: Allocation, now: float) -> None:
        """Say whose the nodes of an allocation are."""
        cluster = self.cluster
        if self.busy_lives:
            for position, node in enumerate(allocation.nodes):
                cluster.seat(allocation, position, node, now)
        else:
            group, place = cluster.group, cluster.position
            for position, node in enumerate(allocation.nodes):
                group[node] = allocation
                place[node] = position

    def _run(self, job: StreamJob, now: float, ready: float) -> None:
        """Let a job that has its nodes start or start anew, and arrange its end. It is charged up to now."""
        job.stands = False
        if isinstance(job, ReplicaSlot):
            job.service.start(job, now, ready)
            return
        stream, spec = job.stream, job.spec
        stages = job.stages = []
        ready = max(ready, now)
        if ready > now:
            stages.append((_STARVED, ready))
        if stream.restart > 0:
            ready += stream.restart
            stages.append((_INITIALIZE, ready))
        shares = job.saves.save_share > 0
        if job.durable > 0 and not shares:
            restore = job.saves.restore.of(spec.work) + max(self.jobs.stores.back - ready, 0.0)
            if restore > 0:
                ready += restore
                stages.append((_RESTORE, ready))
        job.run_at = ready
        job.attempts += 1
        job.epoch += 1
        if job.lives:
            job.alive = stages[0][1] if stages and stages[0][0] == _STARVED else now
            self.kernel.at(
                job.alive + job.lives[0][0] - job.lived, EventPriority.FAILURE, self.on_own, (job, job.epoch)
            )
        end = math.inf if shares else ready + self._wall(job, spec.ends - job.durable)
        outcome: str = spec.outcome
        if shares and job.durable > 0:
            self.stream_saves.restore(job, ready)
        elif shares:
            self.stream_saves.go_on(job, now)
        limit, reason = self._limit(job)
        if stream.chain is not None and job.flush <= stream.chain.notice:
            limit = max(limit - stream.chain.notice + job.flush, now)
        if limit < end:
            end, outcome = limit, reason
        if end < math.inf:
            self.kernel.at(end, EventPriority.PHASE, self._on_end, (job, job.epoch, outcome))

    def _limit(self, job: StreamJob) -> tuple[float, str]:
        """Return when a run is over at its limit [s], and as what; an exact one has room for all delays."""
        if job.stream.chain is not None:
            return job.began + self._longest(job), "limit"
        if self.scheduler.at_limit != "kill":
            return math.inf, "timeout"
        return job.began + (self._longest(job) if job.is_exact else job.spec.limit) + self.scheduler.overtime, "timeout"

    def _longest(self, job: StreamJob) -> float:
        """Return how long a job may run, by its partition and its chain [s]."""
        chain, partitions = job.stream.chain, self.jobs.prepared.partitions
        longest = partitions[job.partition].limit if partitions else None
        return min(longest or math.inf, math.inf if chain is None else chain.limit)

    def _wall(self, job: StreamJob, work: float) -> float:
        """Return how long a job runs for some work, saves between included [s]; it is over before the last save."""
        if not job.save or work == math.inf:
            return work
        saves = math.ceil((work + job.saves.head) / job.saves.interval) - 1
        return work + max(saves, 0) * job.save

    def _left(self, job: StreamJob) -> float:
        """Return how long a job will hold its nodes from its next start on, if nothing happens [s]."""
        stream, spec = job.stream, job.spec
        restore = job.saves.restore.of(spec.work) if job.durable > 0 else 0.0
        return stream.restart + restore + self._wall(job, spec.work - job.durable)

    def _on_end(self, call: ScheduledCall) -> None:
        job, epoch, outcome = call.argument
        if epoch == job.epoch:
            self.finish_run(job, outcome)

    def finish_run(self, job: StreamJob, outcome: str) -> None:
        """Let a run of a job be over."""
        now = self.kernel.now
        is_first = self._hold_back(now)
        if outcome == "limit":
            self._continue(job, now)
        else:
            self.charge(job, now, keeps=True)
            if job.notice is not None:
                # An exit within the grace counts as a preemption, whatever its cause.
                root, by = job.notice
                self._count_preemption(job, root, by, now, 0.0)
            self._free(job, now, outcome)
            self._close(job, outcome, now)
        if is_first:
            self._pass_soon(now)

    def _continue(self, job: StreamJob, now: float) -> None:
        """Let a job whose work is done in pieces queue again at its limit, with what it has saved."""
        assert job.stream.chain is not None
        lost = self._save_and_charge(job, now, job.stream.chain.notice, self.limit, DIRECT)
        self.tally.stopped(job.account, now, self.limit, DIRECT, job.gpus, lost * self._held_by(job))
        job.root, job.via = self.limit, DIRECT
        self.requeue(job, now, "timeout", delay=0.0)

    def _save_and_charge(
        self, job: StreamJob, now: float, time: float, cause: int, via: int, *, of_save: int = 0
    ) -> float:
        """Charge a job that had notice of its stop for `time`; return the work that it could not save [s].

        The time of the save has the cause `of_save`.
        """
        if isinstance(job, ReplicaSlot):
            self.charge(job, now)
            job.service.leave(job, now)
            return 0.0
        # Where saves are shared, it is charged since the last one, and may have been at that when it got the notice.
        saves = job.flush <= time and job.run_at <= (now if job.saves.save_share else now - job.flush)
        if saves and job.flush > 0:
            self.charge(job, max(now - job.flush, job.run_at), keeps=True)
            job.stages = [(_CHECKPOINT_STALL, now)]
            job.run_at = math.inf
            job.why, job.via = of_save, DIRECT
        return self.charge(job, now, keeps=saves, cause=cause, via=via)

    def charge(self, job: StreamJob, now: float, *, keeps: bool = False, cause: int = 0, via: int = DIRECT) -> float:
        """Charge the nodes of a job up to now; return the work that is lost [s].

        What is not saved is lost to the `cause` unless the job `keeps` it, because it is over or has saved just now.
        """
        charge, account, gpus = self.tally.charge, job.account, self.charge_stages(job, now)
        seconds = now - job.run_at
        if seconds <= 0 or isinstance(job, ReplicaSlot):
            return 0.0
        if job.saves.save_share:
            lost = self.stream_saves.charge(job, now, gpus, keeps=keeps, cause=cause, via=via)
            job.lost += lost
            return lost
        interval, save = job.saves.interval, job.save
        cut, kept, stalled, risk, stall = now, seconds, 0.0, 0.0, 0.0
        if interval < math.inf:
            head = job.saves.head
            saves, rest = divmod(seconds + head, interval + save)
            risk = min(rest, interval)
            if saves and rest < job.saves.drain and not keeps:
                # The last save is not durable yet.
                saves, rest, risk = saves - 1, rest + interval + save, risk + interval
            if not saves:
                rest, risk = rest - head, risk - head
            stall = rest - risk
            stalled = saves * save
            cut = now - rest
            kept = seconds - rest - stalled
        elif not keeps:
            cut, kept, risk = job.run_at, 0.0, seconds
        if keeps:
            kept += risk
            stalled += stall
            cut, risk, stall = now, 0.0, 0.0
        # Each part is spread evenly over its time, so that windows add up.
        job.durable += kept
        job.useful += kept
        if kept > 0:
            charge(account, _PRODUCTIVE, 0, DIRECT, kept * gpus, job.run_at, cut)
        if stalled > 0:
            charge(account, _CHECKPOINT_STALL, 0, DIRECT, stalled * gpus, job.run_at, cut)
        if risk > 0:
            charge(account, _LOST_WORK, cause, via, risk * gpus, cut, now)
            job.lost += risk
        if stall > 0:
            charge(account, _CHECKPOINT_STALL, 0, DIRECT, stall * gpus, cut, now)
        return risk

    def charge_stages(self, job: StreamJob, now: float) -> int:
        """Charge what comes before a job runs on; return the GPUs that it has at the moment."""
        assert job.allocation is not None
        gpus = (job.nodes - len(job.allocation.missing)) * self.per_node if job.nodes else job.gpus
        time = job.since
        for bucket, end in job.stages:
            stop = end if end < now else now
            if stop > time:
                self.tally.charge(job.account, bucket, job.why, job.via, (stop - time) * gpus, time, stop)
                time = stop
        job.run += now - job.since
        job.since = now
        return gpus

    def _free(self, job: StreamJob, now: float, state: str) -> None:
        """Take the nodes of a job, which is charged, from it; `state` is for the log."""
        job.notice = None
        if job.saves.save_share:
            self.stream_saves.cut(job, now)
        if self.log is not None:
            self._note(job, now, state)
        allocation = job.allocation
        assert allocation is not None
        job.stand_still(now)
        job.allocation = None
        self.planner.ended(job, now)
        allocation.jobs.remove(job)
        if job.nodes == 0 and not allocation.missing:
            self._open_room(allocation, job.gpus, now)
        if not allocation.jobs:
            self._release(allocation, now)
        self.ask(now)

    def _note(self, job: StreamJob, now: float, state: str) -> None:
        """Write down when a job had its nodes."""
        assert self.log is not None
        if isinstance(job, ReplicaSlot):
            return
        start, submit, end = (time - self.tally.edges[0] for time in (job.began, job.spec.submit, now))
        stopped = state in ("node_fail", "preempted")
        cause, via = (job.root, job.via) if stopped else (0, DIRECT)
        who = job.stream.index, job.spec.number, job.spec.gpus
        self.log.append(Attempt(*who, submit, start, end, state, cause, via, job.lost, job.seats))

    def _release(self, allocation: Allocation, now: float) -> None:
        """Let the nodes of an allocation be idle; those that failed go to repair."""
        self._remove(allocation, now)
        self._open_room(allocation, -allocation.free, now)
        cluster = self.cluster
        idle, place, group = cluster.idle, cluster.place, cluster.group
        allocation.holding = False
        # Nodes that have been replaced may be of other pools than those that the planner gave.
        self.is_disturbed |= allocation.epoch > 0
        allocation.epoch += 1
        freed = [node for node in allocation.nodes if node >= 0] if allocation.missing else allocation.nodes
        for node in freed:
            if self.busy_lives:
                cluster.lives.leave(node, allocation, now)
            group[node] = None
            place[node] = NodeState.IDLE
            idle.push(node)
        idle.change(len(freed), now)
        if self.failures.rollouts.all:
            self.failures.rollouts.change_free()

    def _close(self, job: StreamJob, outcome: str, now: float) -> None:
        """Count a job that is over."""
        self.open -= 1
        del self.alive[job]
        job.entry = ()  # it holds the job: without it nobody has to look for garbage
        self._count(job, outcome, now)
        if self.open == 0 and now > self.tally.edges[0]:  # a run that is over in its warm-up has nothing to say
            self.jobs.when_all_done(now)

    def _count(self, job: StreamJob, outcome: str, now: float) -> None:
        if isinstance(job, ReplicaSlot):
            return
        self.tally.ended(
            job.account, outcome, job.spec.submit, job.first, now, job.gpus, job.waited, job.run, job.useful,
            job.failures, job.preempted,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------ failures

    def hit(
        self, groups: Sequence[ReplicaGroup | Allocation], failure: FailureEvent, now: float, latency: float
    ) -> None:
        """Let a failure hit jobs; those of streams stand still until they know of it, after `latency` [s]."""
        for group in groups:
            if isinstance(group, Allocation):
                self._hit(group, failure, now, latency)
        named = [group for group in groups if not isinstance(group, Allocation)]
        for job in {group.job: None for group in named}:
            self.tally.stopped(self._account_of(job), now, self._root(failure), DIRECT, job.gpus)
        if named:
            self.jobs.interruptions.hit(named, failure, now, latency)

    def _hit(self, allocation: Allocation, failure: FailureEvent, now: float, latency: float) -> None:
        known = now + latency
        for job in [job for job in allocation.jobs if not job.stands]:
            self._interrupt(job, failure, now)
        if allocation.jobs and known < allocation.detect_at and not allocation.waits:
            allocation.detect_at = known
            allocation.epoch += 1
            if known > now:
                self.kernel.at(known, EventPriority.PHASE, self._on_known, (allocation, allocation.epoch))
            else:
                self._answer(allocation, now)

    def _interrupt(self, job: StreamJob, failure: FailureEvent, now: float) -> None:
        """Let a failure stop a job, which has saved if its notice was long enough."""
        cause = self._root(failure)
        lost = 0.0
        if isinstance(job, ReplicaSlot):
            job.service.fail(job, now, cause)
            self.charge(job, now)
        else:
            notice = failure.notice if failure.info.warns else -math.inf
            lost = self._save_and_charge(job, now, notice, cause, DIRECT, of_save=cause)
        self._stop(job, cause, DIRECT, Bucket.DETECTION)
        job.failures += not failure.info.source.planned
        self.tally.stopped(job.account, now, cause, DIRECT, job.gpus, lost * self._held_by(job))
        if job.notice is not None:
            self._evict(job, now, *job.notice)

    def saved_by(self, inside: Sequence[tuple[object, int]], now: float, notice: float) -> float:
        """Return when jobs of streams have saved that hold some nodes, as far as a save is over within a notice [s]."""
        allocations = {id(group): group for group, _ in inside if isinstance(group, Allocation)}
        jobs = (job for allocation in allocations.values() for job in allocation.jobs if job.notice is None)
        return max((now + job.flush for job in jobs if job.run_at < now and job.flush <= notice), default=now)

    def begin_life(self, job: StreamJob, info: SourceInfo, number: int, since: float) -> None:
        """Let life `number` of a job and a source begin when the processes of the job have run `since` [s]."""
        law = info.source.law
        assert law is not None
        life = law.ppf_one(FailureEvent(info, job.spec.number, number).mark("life"))
        heappush(job.lives, (since + life, info.index, number, info))

    def on_own(self, call: ScheduledCall) -> None:
        """Let the processes of a job fail; no node does, so it goes on in place."""
        job, epoch = call.argument
        if epoch != job.epoch:
            return
        now = self.kernel.now
        due, _, number, info = heappop(job.lives)
        self.begin_life(job, info, number + 1, due)
        failure = FailureEvent(info, job.spec.number, number)
        counts = self.failures.counts
        counts.candidates += 1
        counts.faults += 1
        counts.failures += 1
        counts.hits += 1
        if info.source.store_out is not None:
            out = draw(info.source.store_out, failure.mark, "store_out")
            self.jobs.stores.go_out(now + out, info.cause, now)
        latency = self.failures.detect(failure)
        if job.nodes:
            self._hit(job.allocation, failure, now, latency)
            return
        self._interrupt(job, failure, now)
        if job.allocation is not None:
            self.kernel.at(now + latency, EventPriority.PHASE, self._on_own_known, (job, job.epoch))

    def _on_own_known(self, call: ScheduledCall) -> None:
        """Let a job below a node start anew, whose neighbours have noticed nothing."""
        job, epoch = call.argument
        if epoch == job.epoch:
            now = self.kernel.now
            self.charge(job, now)
            self._run(job, now, now)

    def _root(self, failure: FailureEvent) -> int:
        """Return the index of the root cause that a failure is."""
        return self.drain if failure.info.source.planned else failure.info.cause

    def _stop(self, job: StreamJob, cause: int, via: int, bucket: int) -> None:
        """Let a job, which is charged, stand still with its nodes for a cause."""
        if job.saves.save_share:
            self.stream_saves.cut(job, job.since)
        job.stand_still(job.since)
        job.root = job.why = cause
        job.via = via
        job.stages = [(bucket, math.inf)]
        job.stands = True
        job.run_at = math.inf
        limit, outcome = self._limit(job)
        if limit < math.inf:
            self.kernel.at(max(limit, job.since), EventPriority.PHASE, self._on_end, (job, job.epoch, outcome))

    def _on_known(self, call: ScheduledCall) -> None:
        allocation, epoch = call.argument
        if epoch == allocation.epoch:
            self._answer(allocation, self.kernel.now)

    def _answer(self, allocation: Allocation, now: float) -> None:
        """Let the jobs of an allocation that know of a failure go on in place, or queue again."""
        allocation.detect_at = math.inf
        allocation.epoch += 1
        stopped = [job for job in allocation.jobs if job.stands]
        for job in stopped:
            self.charge(job, now)
            job.stands = False
        self._remove(allocation, now)
        first = allocation.jobs[0]
        if isinstance(first, ReplicaSlot):
            first.service.answer(first, now)
            return
        has_waited, allocation.waits = allocation.waits, False
        if not allocation.missing or self.replace(allocation, now):
            for job in stopped:
                self._run(job, now, allocation.ready_at)
        elif self.holds and first.nodes > len(allocation.missing) and not has_waited:
            self._wait(allocation, now)
        else:
            for job in list(allocation.jobs):
                self.requeue(job, now, "node_fail", delay=0.0 if has_waited else None)

    def _wait(self, allocation: Allocation, now: float) -> None:
        """Let a job hold what is left of its nodes for the delay of a requeue; it gives them back then."""
        (job,) = allocation.jobs
        self._reseat(allocation, now)
        self._stop(job, job.root, DIRECT, Bucket.RESCHEDULE)
        allocation.waits = True
        allocation.detect_at = now + self.scheduler.requeue.delay
        self.kernel.at(allocation.detect_at, EventPriority.PHASE, self._on_known, (allocation, allocation.epoch))

    def _remove(self, allocation: Allocation, now: float) -> None:
        """Send the nodes of an allocation that have failed to repair."""
        cluster = self.cluster
        if not allocation.suspects:
            return
        self.is_disturbed = True
        first = allocation.jobs[0] if allocation.jobs else None
        for node, failure in allocation.suspects:
            is_held = cluster.outages[node] > 0 and cluster.group[node] is allocation
            if is_held and isinstance(first, ReplicaSlot) and first.service.keep(first, node, failure):
                continue
            if failure.info.by_course:
                self.jobs.repair.diagnose(node, failure, allocation, now)
            elif is_held:
                self.jobs.repair.send(node, now)
        allocation.suspects.clear()
        self.jobs.repair.begin_repairs(allocation, now)
        cluster.let_go_torn(allocation, now)
        if allocation.missing:
            self._open_room(allocation, -allocation.free, now)

    def replace(self, allocation: Allocation, now: float) -> bool:
        """Give an allocation nodes for those that it misses, if there are enough for all; return whether.

        Nodes that it has swapped although nobody was blamed come last.
        """
        unblamed, allocation.unblamed = allocation.unblamed, []
        with self.cluster.hiding(unblamed, now) as are_hidden:
            is_enough = self._replace(allocation, now)
        return is_enough or (are_hidden and self._replace(allocation, now))

    def _replace(self, allocation: Allocation, now: float) -> bool:
        """Give an allocation nodes of the pools for those that it misses, if there are enough; return whether."""
        missing, cluster, rule, first = allocation.missing, self.cluster, self.scheduler.replacement, allocation.jobs[0]
        if rule == "never" or first.nodes == 0:
            return False
        self._report(now)
        names = [name for name in self.pools if name in cluster.pools]
        if rule == "queue" and self.queued_jobs:
            names.remove("idle")
        homes = self.planner.replacements(first, self.scheduler.replacement == "domain")
        taken: list[tuple[int, str]] = []
        for name in names:
            for home in homes:
                count = len(missing) - len(taken)
                if name == "idle":
                    count = min(count, self.planner.free[home])
                nodes = (cluster.take(name, now, home, strictly=True) for _ in range(count))
                taken += [(node, name) for node in itertools.takewhile(lambda node: node >= 0, nodes)]
        if len(taken) < len(missing):
            for node, origin in taken:
                cluster.enter(cluster.pools[origin], node, now)
            return False
        for node, origin in taken:
            cluster.seat(allocation, missing.pop(), node, now)
            if origin in ("warm", "cold"):
                _, _, seconds, one_by_one = self.jobs.prepared.reserves[origin]
                begin = max(allocation.ready_at, now) if one_by_one else now
                allocation.ready_at = max(allocation.ready_at, begin + seconds)
        self._reseat(allocation, now)
        return True

    def _reseat(self, allocation: Allocation, now: float) -> None:
        """Tell the planner which nodes a job has now, and the log."""
        job = allocation.jobs[0]
        pools = Counter(self.pool_of[node] for node in allocation.nodes if node >= 0)
        self.planner.seated(job, tuple(sorted(pools.items())))
        self._log_seats(job, allocation)
        self._on_change(now)

    def _log_seats(self, job: StreamJob, allocation: Allocation) -> None:
        """Write down which nodes a job has from now on, if somebody asks for it."""
        if self.log is not None:
            job.seats += (tuple(sorted(node for node in allocation.nodes if node >= 0)),)

    def requeue(self, job: StreamJob, now: float, state: str, *, delay: float | None = None) -> None:
        """Let a job, which is charged, give its nodes back and queue again after the delay."""
        rule = self.scheduler.requeue
        delay = rule.delay if delay is None else delay
        self._free(job, now, state)
        job.queued = now
        if rule.age == "reset":
            job.submit = job.eligible = now + delay
        if delay > 0:
            self.kernel.at(now + delay, EventPriority.PHASE, self._on_eligible, job)
        else:
            self._enqueue(job, now)

    def _on_eligible(self, call: ScheduledCall) -> None:
        self._enqueue(call.argument, self.kernel.now)

    # --------------------------------------------------------------------------------------------- preemption

    def _preempt(self, now: float) -> bool:
        """Stop those whom the planner has named, after their grace; return whether some have stopped at once."""
        grace = self.scheduler.preempt.grace
        found = False
        for preemptor, victims in self.planner.preemptions:
            reason, by = self._reason(preemptor), size_class(preemptor.gpus)
            for victim in victims:
                if self._is_leaving(victim, now):
                    continue
                if victim.named_at == now:
                    names = f"{self._name(victim)} is preempted for {self._name(preemptor)}"
                    rule = "twice at one instant: scheduler.preempt lets them stop each other without end"
                    raise WorkError(f"at {now - self.tally.edges[0]:g} s {names}, {rule}")
                victim.named_at = now
                root = reason or self.demand + victim.is_reclaimed
                if isinstance(victim, NamedJob):
                    self._preempt_named(victim, root, by, now)
                    found = True
                elif grace > 0:
                    assert isinstance(victim, StreamJob)
                    victim.notice = (root, by)
                    self.kernel.at(now + grace, EventPriority.PHASE, self._on_grace_over, (victim, victim.epoch))
                else:
                    assert isinstance(victim, StreamJob)
                    self._evict(victim, now, root, by)
                    found = True
        return found

    @staticmethod
    def _is_leaving(victim: PlannerJob, now: float) -> bool:
        """Return whether a job works on, or saves, in the grace that somebody else has given it."""
        if isinstance(victim, NamedJob):
            return victim.job.saved_at > now and type(victim.job.main.plan[-1]) is Requeue
        return isinstance(victim, StreamJob) and victim.notice is not None

    def _name(self, pending: PlannerJob) -> str:
        """Return the name of a job for messages."""
        if isinstance(pending, StreamJob):
            return f"job {pending.spec.number} of {pending.stream.name}"
        assert isinstance(pending, NamedJob)
        return pending.job.spec.name

    def _reason(self, pending: PlannerJob) -> int:
        """Return the root cause that has put a job into the queue; 0 if it has just arrived."""
        if isinstance(pending, StreamJob):
            return pending.root
        assert isinstance(pending, NamedJob)
        job = pending.job
        return self.roots.get(job.index) or (job.main.cause if job.starts else 0)

    def _on_grace_over(self, call: ScheduledCall) -> None:
        job, epoch = call.argument
        if epoch == job.epoch:
            self._evict(job, self.kernel.now, *job.notice)

    def _evict(self, job: StreamJob, now: float, root: int, by: int) -> None:
        """Stop a job for another one of size class `by`; one that saves within its grace loses nothing."""
        lost = self._save_and_charge(job, now, self.scheduler.preempt.grace, root, PREEMPTION)
        self._count_preemption(job, root, by, now, lost)
        job.root = root
        job.via = PREEMPTION
        if self.scheduler.preempt.mode == "cancel" and not isinstance(job, ReplicaSlot):
            self._free(job, now, "preempted")
            self._close(job, "preempted", now)
        else:
            self.requeue(job, now, "preempted")

    def _count_preemption(self, job: StreamJob, root: int, by: int, now: float, lost: float) -> None:
        job.preempted += 1
        self.tally.stopped(job.account, now, root, PREEMPTION, job.gpus, lost * self._held_by(job), by)

    def _held_by(self, job: StreamJob) -> int:
        """Return the GPUs of all nodes of a job, or its part of one [-]."""
        return job.nodes * self.per_node or job.gpus

    def _preempt_named(self, pending: NamedJob, root: int, by: int, now: float) -> None:
        """Let a named job save if there is time, and queue again."""
        job, rule = pending.job, self.scheduler
        self.roots[job.index] = root
        main = job.main
        self.jobs.stop(main, now)
        main.cause = 0
        saves = main.running and job.checkpoint.save_time() <= rule.preempt.grace
        main.running = False
        requeue = Requeue(rule.requeue.delay)
        done = job.work
        self.jobs.follow(main, (Save(), requeue) if saves else (requeue,), now)
        self.preempted[job.index] += 1
        lost = max(done - job.work, 0.0) * job.gpus
        self.tally.stopped(self._account_of(job), now, root, PREEMPTION, job.gpus, lost, by)

    def _account_of(self, job: Job) -> int:
        """Return the account of a named job."""
        spec = job.spec
        return self.tally.account(NAMED + job.index, size_class(job.gpus), spec.tenant, spec.priority, spec.partition)

    # --------------------------------------------------------------------------------------------------- close

    def settle(self, now: float) -> None:
        """Charge idle GPUs up to now, before others collect what they have been, and services."""
        self._charge_idle(now)
        for service in self.services:
            service.flush(now)

    def close(self, now: float) -> None:
        """Charge every job up to now and count it as it stands."""
        self.settle(now)
        for named in self.jobs.all:
            self._close_named(named, now)
        for service in self.services:
            service.close()
        for job in self.alive:
            if job.allocation is not None:
                self.charge(job, now, keeps=True)
                self._count(job, "running", now)
                if self.log is not None:
                    self._note(job, now, "running")
            else:
                self._charge_wait(job, now)
                self._count(job, "waiting", now)

    def _close_named(self, job: Job, now: float) -> None:
        """Charge a named job from its own account, and count it as it stands."""
        account, held, gpus = self._account_of(job), job.account.held(), job.gpus
        for edge, bucket, cause, gpu_s in self._charges(held):
            root = self.drain if cause and self.jobs.prepared.sources[cause - 1].planned else cause
            self.tally.charge(account, bucket, root, DIRECT, gpu_s, edge, edge)
            if bucket == _LOST_WORK and root:
                self.tally.stopped(account, edge, root, DIRECT, 0.0, gpu_s, stops=0)
        planned = [source.planned for source in self.jobs.prepared.sources]
        failures = sum(number for cause, number in job.interruptions.items() if not planned[cause - 1])
        spent = held.sum(axis=(0, 2)) / gpus
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

    def result(self, now: float, outside: NDArray[np.float64]) -> FleetResult:
        """Return what all jobs and services came to; its ledger, with the nodes outside jobs, adds up to the cluster.

        Parameters
        ----------
        outside
            GPU-seconds of nodes outside jobs, shape (windows, buckets, causes); idle ones are known with their reason.
        """
        for edge, bucket, cause, gpu_s in self._charges(outside):
            if bucket != Bucket.UNALLOCATED:
                self.tally.charge(0, bucket, cause, DIRECT, gpu_s, edge, edge)
        return self.tally.result(now)


def pooled(prepared: Prepared) -> Prepared:
    """Return a scenario whose nodes wait by pools of the planner, if these are several."""
    pools, pool_of = pools_of(prepared)
    return replace(prepared, pools=tuple(pools), packed_by=tuple(pool_of) if len(pools) > 1 else ())


def pools_of(prepared: Prepared) -> tuple[list[PlannerPool], list[int]]:
    """Return the nodes that are alike to the planner, without their number, and to which of them each node belongs.

    They are in the same partitions and the same domain, and have the same windows of maintenance.
    """
    names = range(len(prepared.partitions))
    planned = any(source.planned for source in prepared.sources)
    if not planned and not prepared.packed_by and not any(partition.nodes for partition in prepared.partitions):
        return [PlannerPool(0, 0, tuple(names))], [0] * prepared.nodes
    inside: list[list[int]] = [[] for _ in range(prepared.nodes)]
    for index, partition in enumerate(prepared.partitions):
        for first, last in partition.nodes or ((0, prepared.nodes - 1),):
            for node in range(first, last + 1):
                inside[node].append(index)
    windows: dict[int, list[tuple[float, float]]] = {}
    for source in prepared.sources:
        if source.planned and source.recorded is not None and not source.of_fabric:
            rows = source.recorded
            for unit, start, end in zip(rows.unit.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True):
                for node in _nodes_of(source, unit, prepared):
                    windows.setdefault(node, []).append((start, end))
    found: dict[PlannerPool, int] = {}
    pool_of = []
    for node in range(prepared.nodes):
        domain = prepared.packed_by[node] if prepared.packed_by else 0
        pool = PlannerPool(0, domain, tuple(inside[node]), tuple(sorted(windows.get(node, ()))))
        pool_of.append(found.setdefault(pool, len(found)))
    return list(found), pool_of


def _nodes_of(source: FailureSource, unit: int, prepared: Prepared) -> Sequence[int]:
    """Return the nodes that a unit of the part of a source takes."""
    divisor = prepared.slots_per_node.get(source.part, 0)
    if divisor:
        return (unit // divisor,)
    offsets, nodes = prepared.blast[source.part]
    return list(map(int, nodes[offsets[unit] : offsets[unit + 1]]))
