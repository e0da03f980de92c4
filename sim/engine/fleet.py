"""The queue of a cluster that streams of jobs and services share; named jobs wait in it too.

:mod:`~ettrick.sim.engine.admission` has who waits, which nodes a holder gets and what it is charged to,
:mod:`~ettrick.sim.engine.runs` what it does with them until it ends or is stopped. Here are arrivals and passes of the
scheduler.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ettrick.sim.engine.admission import Admission, Records
from ettrick.sim.engine.holders import PART_OF_NODE, STREAM_JOB, Holder
from ettrick.sim.engine.jobs import Queue
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.lives import process_sources
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.engine.runs import Runs, Stops
from ettrick.sim.engine.services import call_spares, start_services
from ettrick.sim.policies.scheduler.nodes import PlannerPool
from ettrick.sim.policies.scheduler.planner import Planner
from ettrick.sim.policies.scheduler.queue import Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ettrick.sim.engine.failures import Interrupt
    from ettrick.sim.engine.holders import Job
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.prepared import Prepared, PreparedStream
    from ettrick.sim.engine.result import Attempt, FleetResult
    from ettrick.sim.engine.services import ReplicaPool
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.scenario.streams import Arrival, Tenant


class ClusterQueue(Queue):
    """Starts and stops holders as the planner says, as they arrive and as nodes come and go."""

    def __init__(self, jobs: JobPhases, *, keeps_log: bool = False) -> None:
        prepared = jobs.prepared
        self.streams = prepared.streams
        self.sources: list[Iterator[Arrival]] = []
        """Arrivals that have not come yet, by stream."""
        self.end = prepared.warmup + prepared.horizon
        self.per_node = prepared.gpus_per_node
        self.reserves = [pool for name, pool in jobs.cluster.pools.items() if name != "idle"]
        self.holds = prepared.scheduler.requeue.holds_nodes
        self.lends = bool(prepared.jobs) and bool(jobs.cluster.spare.target) and len(prepared.pools) == 1
        """Whether hot spares may let a named job start again; with partitions, domains or windows they may not."""
        self.has_others = bool(prepared.jobs or prepared.services)  # starts of jobs may change what these have
        self.wakes = -math.inf
        """The time of a pass that needs no event [s]."""
        self.named: list[Holder] = []
        """Named jobs that have nodes."""
        self.records = Records(prepared, jobs.cluster)
        self.records.log = [] if keeps_log else None
        self.tally = self.records.tally
        pool_of = prepared.packed_by or (0,) * prepared.nodes
        self.planner = self._planner(prepared, Counter(
            pool for pool, place in zip(pool_of, jobs.cluster.place, strict=True) if place == NodeState.IDLE
        ))  # fmt: skip
        super().__init__(jobs)
        self.admission = Admission(jobs, self.planner, pool_of, self.records)
        self.admission.run_pass = self._pass
        self.allocations = self.admission.allocations
        self.plan = cast("Callable[[float], list[Holder]]", self.planner.plan)
        self.services: list[ReplicaPool] = []
        self.allocations.keeps = lambda holder, node, failure: self.services[holder.service].keep(holder, node, failure)
        self.stops = Stops(Runs(self.admission, self.services), self.services)
        self.process_sources = [process_sources(prepared, jobs.replication, stream.name) for stream in self.streams]
        start_services(self.admission, prepared.services, self.services)
        for stream in self.streams:
            self.sources.append(stream.arrivals(prepared.seed, jobs.replication, self.end))
            for _ in range(stream.pending):
                self._submit(stream, next(self.sources[-1]), 0.0)
            if not stream.pending:
                self._expect(stream)
        jobs.open += len(self.streams) + len(self.services)

    def _planner(self, prepared: Prepared, idle: Counter[int]) -> Planner:
        """Return the planner of a cluster with so many idle nodes in each pool."""
        return Planner(
            prepared.scheduler,
            [pool._replace(nodes=idle[index]) for index, pool in enumerate(prepared.pools)],
            gpus=self.per_node,
            tiers=[partition.tier for partition in prepared.partitions] or (0,),
            quotas=[self._quota(tenant) for tenant in prepared.tenants] or (Quota(),),
        )

    def _quota(self, tenant: Tenant) -> Quota:
        """Return what a tenant may use [GPU]; one without a quota uses what is there, and has nothing to lend."""
        if tenant.nodes is None:
            return Quota(lend=0.0, weight=tenant.weight)
        borrow, lend = (math.inf if nodes is None else nodes * self.per_node for nodes in (tenant.borrow, tenant.lend))
        return Quota(tenant.nodes * self.per_node, borrow, lend, tenant.weight)

    @property
    def interrupt(self) -> Interrupt:
        """The call that stops the holders which a failure strikes, of every kind."""
        return self.stops.hit

    # ------------------------------------------------------------------------------------------------ arrivals

    def _expect(self, stream: PreparedStream) -> None:
        """Arrange the next arrival of a stream."""
        spec = next(self.sources[stream.index], None)
        if spec is not None:
            # Those that run when the simulation starts have their nodes before those that wait are looked at.
            time = spec.submit if spec.submit >= 0 else 0.0
            order = EventPriority.ARRIVAL if spec.submit >= 0 or spec.under_way else EventPriority.AFTER_PASS
            self.kernel.at(time, order, self._on_submit, stream, spec)
        else:
            self.jobs.open -= 1

    def _on_submit(self, stream: PreparedStream, spec: Arrival, now: float) -> None:
        is_first = self.admission.hold_back(now)
        self._submit(stream, spec, now)
        self._expect(stream)
        if is_first:
            self.admission.pass_soon(now)

    def _submit(self, stream: PreparedStream, spec: Arrival, now: float) -> None:
        """Put a job into the queue for the first time."""
        if stream.pending:
            spec = spec._replace(submit=now)
        account = self.tally.account(stream.index, spec.gpus, spec.tenant, spec.priority, spec.partition)
        nodes = -(-spec.gpus // self.per_node) if spec.gpus >= self.per_node else 0
        policy, longest = STREAM_JOB if nodes else PART_OF_NODE, self._longest(stream, spec.partition)
        holder = Holder.of_arrival(policy, self.admission.number, nodes, spec, stream, account, longest)
        for info in self.process_sources[stream.index]:
            holder.begin_life(info, 0, 0.0)
        self.jobs.open += 1
        self.admission.submit(holder, now)

    def _longest(self, stream: PreparedStream, partition: int) -> float:
        """Return how long a job may run, by its partition and its chain [s]."""
        chain, partitions = stream.chain, self.jobs.prepared.partitions
        longest = (partitions[partition].limit if partitions else None) or math.inf
        return longest if chain is None else min(longest, chain.limit)

    def enter(self, job: Job, now: float) -> None:
        """Put a named job into the queue."""
        self._settle_named(now)
        if job.holding and not job.main.missing:
            self._start(job, now)
            return
        if job.holding:
            self.cluster.release(job, now)
        holder = Holder.of_job(self.admission.number, job, now)
        self.admission.number += 1
        self.admission.enqueue(holder, now)

    def _settle_named(self, now: float) -> None:
        """Tell the planner of named jobs that have given their nodes back."""
        for holder in [holder for holder in self.named if not holder.job.holding]:
            self.named.remove(holder)
            self.planner.ended(holder, now)

    # -------------------------------------------------------------------------------------------------- passes

    def serve(self, now: float) -> None:
        """Ask for a pass: nodes have become free."""
        self.admission.ask(now)

    def _pass(self, now: float) -> None:
        """Start and stop those whom the planner names, until nothing changes any more at this instant."""
        self.admission.asked = -math.inf
        while self._start_and_stop(now):
            pass
        reasons = self.planner.reason()
        if reasons.keys() != self.records.idle_for.keys() or len(reasons) > 1:
            # While there is one reason, and the same, nothing has to be charged.
            self.records.charge_idle(now, self.allocations.unshared)
            self.records.idle_for = reasons
        self._record_level(now)
        wake = self.planner.wake(now)
        if now < wake < self.end and not now < self.wakes <= wake:
            self.wakes = wake
            self.kernel.at(wake, EventPriority.PASS, self._pass)

    def _start_and_stop(self, now: float) -> bool:
        """Start and stop those whom the planner names; return whether it may name others at this instant."""
        if self.named:
            self._settle_named(now)
        if self.services:
            self._serve_services(now)
        if self.allocations.is_disturbed:
            self.allocations.report(now)
        if self.lends:
            self._lend_spares(now)
        starts, planner = self.plan(now), self.planner
        for holder in starts:
            self._start_holder(holder, now)
        if planner.preemption.named and self._preempt(now):
            return True
        if not starts:
            return planner.wake(now) == now
        return self.has_others or self.allocations.is_disturbed or planner.is_due(now)

    def _preempt(self, now: float) -> bool:
        """Stop those whom the planner has named; return whether some have stopped at once."""
        return self.stops.preempt(cast("list[tuple[Holder, list[Holder]]]", self.planner.preemptions), now)

    def _serve_services(self, now: float) -> None:
        """Give services nodes that have become free, before the queue gets them, and those that wait the spares."""
        for pool in self.services:
            if pool.narrow or pool.hurt:
                pool.refill(now)
        call_spares(self.cluster, self.services, now)

    def _lend_spares(self, now: float) -> None:
        """Lend a named job that waits to start again hot spares, if it is the first and can start with them."""
        holder, short = cast("tuple[Holder | None, int]", self.planner.first(now))
        if holder is None or holder.policy.account != "job":
            return
        if holder.job.starts and 0 < short <= self.cluster.spare.count:
            self.cluster.move("spare", "idle", short, now)
            self.allocations.report(now)

    def _start_holder(self, holder: Holder, now: float) -> None:
        """Start a holder that the planner has given its nodes."""
        self.admission.queued_gpus -= holder.gpus
        if holder.policy.on_failure == "replan":
            self.named.append(holder)
            self.stops.roots.pop(holder.job.index, None)
            self._start(holder.job, now)
            return
        if holder.policy.on_failure == "replace":
            del holder.waiting[holder]
        self.stops.runs.begin(holder, now)
        if holder.stream.pending:
            self._submit(holder.stream, next(self.sources[holder.stream.index]), now)

    def _record_level(self, now: float) -> None:
        """Record what is true of the cluster from now on."""
        idle, stranded = self.cluster.idle.count * self.per_node, self.allocations.unshared.count
        free = idle + stranded
        for pool in self.reserves:
            free += pool.count * self.per_node
        room = self.allocations.largest_room() if stranded and not idle else idle
        self.tally.level(now, free, self.admission.queued_gpus, self.planner.queue.queued, room, stranded)

    # --------------------------------------------------------------------------------------------------- close

    def settle(self, now: float) -> None:
        """Charge idle GPUs and services up to now, before others collect what they have been."""
        self.records.charge_idle(now, self.allocations.unshared)
        for pool in self.services:
            pool.flush(now)

    def close(self, now: float) -> None:
        """Charge every holder up to now and count it as it stands."""
        records = self.records
        self.settle(now)
        for named in self.jobs.all:
            records.close_job(named, now)
        for pool in self.services:
            pool.close()
        for holder in self.admission.alive:
            if holder.allocation is not None:
                self.stops.runs.charge(holder, now, keeps=True)
                records.count_end(holder, "running", now)
                records.log_attempt(holder, now, "running")
            else:
                records.charge_wait(holder, now)
                records.count_end(holder, "waiting", now)

    def result(self, now: float, allocated: NDArray[np.float64]) -> tuple[FleetResult, NDArray[np.float64]]:
        """Return what all holders came to, named jobs among them, and the GPU-seconds of the cluster by bucket."""
        del allocated
        fleet = self.records.result(now)
        return fleet, fleet.cluster

    def edges(self) -> Iterator[float]:
        """Return where windows meet, after the warm-up [s]: finer ones where the scenario states none."""
        return iter(self.tally.edges[1:])

    def attempts(self) -> tuple[Attempt, ...]:
        """Return the logged attempts of jobs of streams."""
        return tuple(self.records.log or ())


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
    windows = _windows_of(prepared)
    pools: dict[PlannerPool, int] = {}
    pool_of = []
    for node in range(prepared.nodes):
        domain = prepared.packed_by[node] if prepared.packed_by else 0
        pool = PlannerPool(0, domain, tuple(inside[node]), tuple(sorted(windows.get(node, ()))))
        pool_of.append(pools.setdefault(pool, len(pools)))
    return list(pools), pool_of


def _windows_of(prepared: Prepared) -> dict[int, list[tuple[float, float]]]:
    """Return the windows of maintenance of each node that has any [s]."""
    windows: dict[int, list[tuple[float, float]]] = {}
    for source in prepared.sources:
        if source.planned and source.recorded is not None and not source.of_fabric:
            rows = source.recorded
            for unit, start, end in zip(rows.unit.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True):
                for node in _nodes_of(source, unit, prepared):
                    windows.setdefault(node, []).append((start, end))
    return windows


def _nodes_of(source: FailureSource, unit: int, prepared: Prepared) -> Sequence[int]:
    """Return the nodes that a unit of the part of a source takes."""
    divisor = prepared.slots_per_node.get(source.part, 0)
    if divisor:
        return (unit // divisor,)
    offsets, nodes = prepared.blast[source.part]
    return list(map(int, nodes[offsets[unit] : offsets[unit + 1]]))
