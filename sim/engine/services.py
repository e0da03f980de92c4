"""Services: pools of replicas that come and go, are lost, replaced, scaled and upgraded.

A holder is one replica, or a node full of them, and to queue, nodes, failures and repair it is a job of a stream
without an end. What is asked of the replicas is a fluid (:class:`RequestFluid`), which reads what serves from the
:class:`ServingCapacity` of each pool.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.engine.holders import SERVICE_REPLICAS, Cohort, Holder
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.lives import process_sources
from ettrick.sim.engine.result import DIRECT, SERVICE_SUMS
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.engine.admission import Admission
    from ettrick.sim.engine.holders import Shares
    from ettrick.sim.engine.ledger import FleetAccumulator
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.nodes import Cluster
    from ettrick.sim.engine.prepared import ServicePlan


def start_services(admission: Admission, plans: Sequence[ServicePlan], pools: list[ReplicaPool]) -> None:
    """Add the pools of all services, with their replicas in the queue; one that reads prompts follows its own."""
    for plan in plans:
        account = _account(admission, plan)
        records = admission.records
        fluid = RequestFluid(plan, ServingCapacity(plan), records.tally, account, records.demand)
        readers = None
        if plan.readers is not None:
            fluid.readers = ServingCapacity(plan.readers, reads=True)
            readers_account = _account(admission, plan.readers)
            readers = ReplicaPool(admission, plan.readers, fluid, fluid.readers, readers_account, len(pools) + 1)
        pools.append(ReplicaPool(admission, plan, fluid, fluid.decoders, account, len(pools), readers))
        pools += [readers] if readers is not None else []


def _account(admission: Admission, plan: ServicePlan) -> int:
    return admission.records.tally.account(-2 - plan.index, plan.gpus, plan.tenant, plan.priority, plan.partition)


class ReplicaPool:
    """The replicas of a service that decode, or those that read its prompts (`fluid.readers`)."""

    def __init__(
        self, admission: Admission, plan: ServicePlan, fluid: RequestFluid, capacity: ServingCapacity, account: int,
        index: int, readers: ReplicaPool | None = None,
    ) -> None:  # fmt: skip
        self.admission = admission
        self.plan = plan
        self.fluid = fluid
        self.capacity = capacity
        self.account = account
        self.index = index
        self.readers = readers
        self.reads = capacity.reads
        self.records = admission.records
        self.allocations = admission.allocations
        self.charge = admission.records.tally.charge
        self.cluster: Cluster = admission.jobs.cluster
        self.kernel = admission.kernel
        self.per_node = admission.records.per_node
        self.holders: dict[Holder, None] = {}
        self.narrow: dict[Holder, None] = {}
        """Holders that serve with fewer nodes, and wait for others."""
        self.hurt: dict[Holder, int] = {}
        """Holders with nodes that have lost GPUs and serve on, and the cause of the last loss."""
        self.waiting: dict[Holder, None] = {}
        self.slow: dict[Holder, None] = {}
        """Holders that serve at less than their capacity."""
        self.process_sources = process_sources(admission.jobs.prepared, admission.jobs.replication, plan.name)
        self.number = 0
        self.flushed = 0.0
        """Up to when it is charged [s]."""
        self.looks: Iterator[tuple[float, float]] = iter(())
        """Until when demand is at which rate, where it is scaled by that."""
        self.batch = 1
        """Holders that a rolling upgrade starts again at a time."""
        self.renewing: list[Holder] = []
        """Holders that it has still to come to."""
        self.restarting = 0
        self._start()

    def _start(self) -> None:
        """Put the replicas of the start into the queue, and plan when they are upgraded and scaled."""
        plan = self.plan
        left = plan.replicas
        for _ in range(plan.gangs):
            self._submit(min(plan.together, left), 0.0)
            left -= plan.together
        if plan.upgrade is not None:
            every, batch = plan.upgrade
            self.batch = max(batch // plan.together, 1)
            self.kernel.at(every, EventPriority.PHASE, self._on_upgrade, every, 1)
        if plan.scale is not None:
            self.looks = plan.rates.pieces()
            self.kernel.at(plan.scale[3], EventPriority.PHASE, self._on_scale, plan.scale, *next(self.looks))

    # ------------------------------------------------------------------------------------------------- charges

    def flush(self, now: float) -> None:
        """Charge what has been since the last time, which lies in one window."""
        self.fluid.advance(now)
        if now <= self.flushed:
            return
        capacity, sums = self.capacity, self.fluid.sums
        self.charge(self.account, Bucket.PRODUCTIVE, 0, DIRECT, capacity.busy_gpu_s, self.flushed, now)
        self.charge(self.account, Bucket.HEADROOM, 0, DIRECT, capacity.idle_gpu_s, self.flushed, now)
        sums[BUSY] += capacity.busy_gpu_s
        sums[IDLE] += capacity.idle_gpu_s
        capacity.busy_gpu_s = capacity.idle_gpu_s = 0.0
        for holder in self.slow:
            self._charge_slow(holder, now)
        for holder in self.narrow:
            self._charge_joining(holder, now)
        if self.readers is not None:
            self.readers.flush(now)
        if not self.reads:
            self.fluid.put_down(now)
        self.flushed = now

    def close(self) -> None:
        """Count who waits, or stands still with a replica that has failed, at the end."""
        waiting = () if self.reads else self.fluid.queue
        stuck = (cohort for holder in self.holders if holder.is_stuck for cohort in self._moving(holder))
        for cohort in (*waiting, *stuck):
            if cohort.lost < 1:
                self.fluid.count(cohort.arrival, WAITING, cohort.count)

    # ---------------------------------------------------------------------------------------- replicas that serve

    def _submit(self, replicas: int, now: float) -> None:
        """Put one more holder into the queue."""
        from ettrick.sim.scenario.streams import Arrival

        plan, end = self.plan, math.inf
        gpus = replicas * plan.gpus
        spec = Arrival(self.number, now, gpus, end, end, end, "completed", plan.tenant, plan.priority, plan.partition)
        holder = Holder.of_arrival(SERVICE_REPLICAS, self.admission.number, plan.nodes, spec, plan.stream, self.account)
        holder.begin_serving(self.index, self.waiting, replicas)
        for info in self.process_sources:
            holder.begin_life(info, 0, 0.0)
        self.number += 1
        self.holders[holder] = None
        self.admission.submit(holder, now)

    def start(self, holder: Holder, now: float, ready: float) -> None:
        """Let a holder that has its nodes read weights and start; at the very beginning it serves already."""
        plan, stages = self.plan, holder.stages
        self.narrow.pop(holder, None)
        stages.clear()
        holder.lacks = 0
        holder.is_cold = now > 0
        if now <= 0:
            holder.epoch += 1
            holder.run_at = now
            self._serve_with(holder, 1.0, now)
            self.admission.run_processes(holder, now)
            return
        if ready > now:
            stages.append((Bucket.STARVED, ready))
        ready = max(ready, now) + plan.load
        stages.append((Bucket.RESTORE, ready))
        self._rise(holder, now, ready + plan.start)

    def _resume(self, holder: Holder, now: float) -> None:
        """Let a standby, or the nodes that are left, serve after the interruption."""
        holder.stages.clear()
        holder.is_cold = False
        self._rise(holder, now, now + self.plan.interruption)

    def _rise(self, holder: Holder, now: float, at: float) -> None:
        holder.stand_still(now)
        holder.stages.append((Bucket.INITIALIZE, at))
        holder.run_at = at
        self.kernel.unless_changed(at, EventPriority.PHASE, self._on_up, holder)

    def _on_up(self, holder: Holder, now: float) -> None:
        plan = self.plan
        self.records.charge_stages(holder, now)
        self.admission.run_processes(holder, now)
        holder.broken = self._lost(holder)
        if holder.lacks or holder.broken:
            left = 1 - holder.lacks / holder.nodes - holder.broken / (holder.nodes * self.per_node)
            self._serve_with(holder, left, now)
            if holder.lacks:
                self._refill(holder, now)
        elif holder.is_cold and plan.warm_time > 0 and plan.warm_speed < 1:
            self._serve_with(holder, plan.warm_speed, now)
            self.kernel.unless_changed(now + plan.warm_time, EventPriority.PHASE, self._on_warm, holder)
        else:
            self._serve_with(holder, 1.0, now)
        self._end_upgrade(holder, now)

    def _on_warm(self, holder: Holder, now: float) -> None:
        if holder.is_serving:
            self._stop_serving(holder, now)
            self._serve_with(holder, 1.0, now)

    def _serve_with(self, holder: Holder, speed: float, now: float) -> None:
        """Let a holder serve from now on, at a share of its capacity."""
        self.fluid.advance(now)
        holder.is_serving = True
        holder.speed = speed
        holder.up_since = now
        holder.from_busy = self.capacity.busy
        allocation, per_node = holder.placed, self.per_node
        # Nodes that it lacks, and those that load, are not slow.
        holder.allocated = float((holder.nodes - max(holder.lacks, len(allocation.missing))) * per_node)
        holder.fast = min(speed * holder.nodes * per_node, holder.allocated)
        if speed < 1:
            self.slow[holder] = None
        self.capacity.add(holder.replicas, speed, holder.allocated, holder.fast)

    def _stop_serving(self, holder: Holder, now: float) -> None:
        self.fluid.advance(now)
        if holder.speed < 1:
            self._charge_slow(holder, now)
            del self.slow[holder]
        self._charge_joining(holder, now)
        holder.joining = []
        self.capacity.add(-holder.replicas, holder.speed, -holder.allocated, -holder.fast)
        holder.is_serving = False
        holder.since = now

    def _charge_slow(self, holder: Holder, now: float) -> None:
        """Charge what a holder that is slower lacks to one that is not, as far as it was busy."""
        lacks = (holder.allocated - holder.fast) * (self.capacity.busy - holder.from_busy)
        if lacks > 0:
            start = max(holder.up_since, self.flushed)
            self.charge(self.account, Bucket.DEGRADED, holder.why, holder.via, lacks, start, now)
        holder.from_busy = self.capacity.busy

    def _charge_joining(self, holder: Holder, now: float) -> None:
        """Charge the nodes of a holder that load while the others serve."""
        for bucket, start, end in holder.joining:
            start, end = max(start, self.flushed), min(end, now)
            if end > start:
                gpu_s = (end - start) * holder.lacks * self.per_node
                self.charge(self.account, bucket, holder.why, holder.via, gpu_s, start, end)

    # ---------------------------------------------------------------------------------- replicas that stop serving

    def leave(self, holder: Holder, now: float) -> None:
        """Let a holder stop serving of which all know before: it takes no more requests, and ends those that it has."""
        if holder.is_serving:
            self._stop_serving(holder, now)
            holder.stand_still(now)
        holder.run_at = math.inf
        self._forget(holder, now)

    def _forget(self, holder: Holder, now: float) -> None:
        """Forget a holder that has lost its nodes; those without some GPU are repaired."""
        self.narrow.pop(holder, None)
        cause, cluster, allocation = self.hurt.pop(holder, 0), self.cluster, holder.allocation
        for node in cluster.narrow.intersection(allocation.nodes) if cause and allocation is not None else ():
            cluster.send_to_repair(node, cause, now)
        if holder.is_stuck:
            self._know(holder, now)
        self._end_upgrade(holder, now)

    def _end_upgrade(self, holder: Holder, now: float) -> None:
        """Go on with a rolling upgrade when a holder has started again, or is gone."""
        if holder.is_upgrading:
            holder.is_upgrading = False
            self.restarting -= 1
            self._renew(now)

    def fail(self, holder: Holder, now: float, cause: int) -> None:
        """Let a holder fail: until that is known it gets more requests, and those that it had stand still."""
        if not holder.is_serving:
            return
        self._stop_serving(holder, now)
        plan, fluid = self.plan, self.fluid
        fluid.failed = cause
        self.capacity.stuck += holder.replicas
        holder.is_stuck, holder.failed_at = True, now
        holder.flight = fluid.cut_off(self.capacity, holder, now, cause)
        flight = sum(cohort.count for cohort in holder.flight)
        fluid.sums[STOPS] += 1
        fluid.sums[IN_FLIGHT] += flight
        if plan.loses or plan.begins_anew:
            # Ages are even over the time that a request is in flight: half of each answer has been made.
            fluid.sums[TOKENS_LOST] += flight * plan.whole * plan.output / 2 * (not self.reads)
            fluid.lose_work(self.capacity, holder, cause, now)
        if plan.loses:
            holder.flight = []

    def _moving(self, holder: Holder) -> list[Cohort]:
        """Return the requests that stand still with a holder: those in flight, and those that it got since."""
        came = [
            Cohort(start, seconds, holder.replicas * count)
            for start, seconds, count in self.capacity.sent
            if start >= holder.failed_at and count
        ]
        return [*holder.flight, *came]

    def _know(self, holder: Holder, now: float) -> None:
        """Let the requests of a holder that is known to have failed move to others, behind those who wait."""
        self.fluid.advance(now)
        fluid, plan = self.fluid, self.plan
        for cohort in self._moving(holder):
            cohort.leaves = now + plan.patience if plan.patience and not plan.asks else math.inf
            if cohort.shares is not None and plan.recompute and not plan.begins_anew:
                fluid.sums[RECOMPUTED] += cohort.count * plan.recompute
            fluid.move(cohort)
        self.capacity.stuck -= holder.replicas
        holder.is_stuck, holder.flight = False, []
        if not self.capacity.stuck:
            self.capacity.sent.clear()

    def answer(self, holder: Holder, now: float) -> None:
        """Let a holder that knows of a failure, and has let failed nodes go, recover."""
        was_serving = holder.is_stuck
        if was_serving:
            self._know(holder, now)
        allocation, plan = holder.placed, self.plan
        if not allocation.missing and not holder.lacks:
            if plan.has_standby and was_serving:
                self._resume(holder, now)
            else:
                self.start(holder, now, allocation.ready_at)
        elif plan.keeps_nodes and was_serving and len(allocation.missing) < holder.nodes:
            holder.lacks = max(holder.lacks, len(allocation.missing))
            self.narrow[holder] = None
            self._resume(holder, now)
        elif self.allocations.replace(allocation, now):
            self.start(holder, now, allocation.ready_at)
        else:
            self._forget(holder, now)
            self.admission.requeue(holder, now, "node_fail")

    def keep(self, holder: Holder, node: int, failure: FailureEvent) -> bool:
        """Keep a node that has lost a GPU, if its replicas can do without; return whether."""
        info, cluster = failure.info, self.cluster
        if info.by_course or info.source.fault != "gpu" or cluster.outages[node] > self.plan.most_lost:
            return False
        cluster.narrow.add(node)
        self.hurt[holder] = info.cause
        return True

    def _lost(self, holder: Holder) -> int:
        """Return the GPUs that the nodes of a holder have lost [-]."""
        cluster, allocation = self.cluster, holder.allocation
        if holder not in self.hurt or allocation is None:
            return 0
        return sum(cluster.outages[node] for node in cluster.narrow.intersection(allocation.nodes))

    def refill(self, now: float) -> None:
        """Give holders that serve with fewer nodes others, where there are some, and GPUs that are repaired."""
        for holder in list(self.hurt):
            lost = self._lost(holder)
            if holder.is_serving and lost < holder.broken:
                self._stop_serving(holder, now)
                self._resume(holder, now)
            if not lost:
                del self.hurt[holder]
        for holder in list(self.narrow):
            if holder.is_serving:
                self._refill(holder, now)

    def _refill(self, holder: Holder, now: float) -> None:
        allocation = holder.placed
        if allocation.missing:
            self._stop_serving(holder, now)
            self.allocations.replace(allocation, now)
            self._serve_with(holder, holder.speed, now)
        if not allocation.missing and not holder.joining:
            ready = max(allocation.ready_at, now)
            loaded = ready + self.plan.load
            up = loaded + self.plan.start
            holder.joining = [
                (Bucket.STARVED, now, ready), (Bucket.RESTORE, ready, loaded), (Bucket.INITIALIZE, loaded, up)
            ]  # fmt: skip
            self.kernel.unless_changed(up, EventPriority.PHASE, self._on_widen, holder)

    def _on_widen(self, holder: Holder, now: float) -> None:
        if holder.is_serving:
            self._stop_serving(holder, now)
            holder.lacks = 0
            del self.narrow[holder]
            self._resume(holder, now)

    # ---------------------------------------------------------------------------------- scaling, rolling upgrades

    def _on_scale(self, scale: tuple[float, int, int, float], until: float, rate: float, now: float) -> None:
        """Scale to as many holders as the demand of a window ago asks for."""
        plan = self.plan
        target, least, most, window = scale
        self.fluid.advance(now)
        replicas = min(max(math.ceil(rate / (target * plan.capacity) - 1e-9), least), most)
        gangs = -(-replicas // plan.together)
        self.capacity.wanted = gangs * plan.together
        while len(self.holders) < gangs:
            self._submit(plan.together, now)
        # Last in, first out; those that wait for nodes first.
        idle = [holder for holder in reversed(self.holders) if holder in self.waiting]
        busy = [holder for holder in reversed(self.holders) if holder.allocation is not None]
        for holder in (idle + busy)[: len(self.holders) - gangs]:
            self._retire(holder, now)
        if until < math.inf:
            self.kernel.at(until + window, EventPriority.PHASE, self._on_scale, scale, *next(self.looks))

    def _retire(self, holder: Holder, now: float) -> None:
        del self.holders[holder]
        if holder in self.waiting:
            del self.waiting[holder]
            self.admission.withdraw(holder, now)
        else:
            self.leave(holder, now)
            self.admission.retire(holder, now)

    def _on_upgrade(self, every: float, number: int, now: float) -> None:
        """Begin a rolling upgrade."""
        self.renewing = list(self.holders)
        self._renew(now)
        self.kernel.at((number + 1) * every, EventPriority.PHASE, self._on_upgrade, every, number + 1)

    def _renew(self, now: float) -> None:
        """Start the next holders again, as many as may at a time."""
        while self.renewing and self.restarting < self.batch:
            holder = self.renewing.pop(0)
            if holder in self.holders and holder.is_serving and not holder.lacks and not holder.broken:
                self.leave(holder, now)
                holder.why, holder.via = self.records.drain, DIRECT
                holder.is_upgrading = True
                self.restarting += 1
                self.start(holder, now, now)


def call_spares(cluster: Cluster, pools: Sequence[ReplicaPool], now: float) -> None:
    """Let spares be idle where gangs of services that wait can start on them."""
    idle, spare = cluster.idle.count, cluster.spare.count
    for pool in pools:
        for holder in pool.waiting if pool.waiting else ():  # one that was large is slow to look through
            if holder.nodes > idle + spare:
                return
            moved = max(holder.nodes - idle, 0)
            if moved:
                cluster.move("spare", "idle", moved, now)
            idle, spare = idle + moved - holder.nodes, spare - moved


# ----------------------------------------
# The fluid of requests: what is asked, waits, is served, late or turned away. Between two changes of the replicas that
# serve, or of the demand, all of it is a closed form; a request is never an event.

(
    SECONDS, OFFERED, SERVED, IN_SLO, REJECTED, FAILED, MOVED, IN_FLIGHT, TOKENS_LOST, RECOMPUTED, CAPACITY,
    BELOW, WAITED, USER, REPLICAS, WANTED, FULL, STOPS, BUSY, IDLE, WASTED, WAITING, UNSURE,
) = range(len(SERVICE_SUMS))  # fmt: skip


_TINY = 1e-9
"""Times that are one [s]."""


class AdmissionSpan(NamedTuple):
    """The admissions of replicas in a time in which nothing changed.

    Attributes
    ----------
    start, end
        Of the time [s].
    use
        Of these replicas, and of those that read prompts [-].
    requests
        Requests.
    live
        Replicas of both that served, slower ones in part.
    arrival, tpot, shares
        When they were asked [s], their time per token [s], and how many of them are in SLO [-].
    """

    start: float
    end: float
    use: tuple[float, float]
    requests: float
    live: tuple[float, float]
    arrival: float
    tpot: float
    shares: Shares


class ServingCapacity:
    """The capacity of a pool of replicas now, and its service since it was charged."""

    def __init__(self, plan: ServicePlan, *, reads: bool = False) -> None:
        self.plan = plan
        self.reads = reads
        """Whether these replicas read the prompts of others."""
        self.steps = len(plan.batch) - 1
        self.wanted = plan.replicas
        """Replicas that there should be."""
        self.live = 0.0
        """Replicas that serve, slower ones in part."""
        self.heads = 0
        """Replicas that serve."""
        self.stuck = 0
        """Replicas that have failed and still get requests, because that is undetected."""
        self.held_gpus = 0.0
        """GPUs of the holders that serve; `fast_gpus` those of slower ones in part."""
        self.fast_gpus = 0.0
        self.busy = 0.0
        """Integral over time of the use of the replicas [s]."""
        self.busy_gpu_s = self.idle_gpu_s = 0.0
        self.sent: list[tuple[float, float, float]] = []
        """Since when [s], for how long [s] and what each replica got that has failed, while that is undetected."""

    def add(self, replicas: int, speed: float, held_gpus: float, fast_gpus: float) -> None:
        """Let replicas serve at a share of their capacity; a negative number serves no longer."""
        self.heads += replicas
        self.live += replicas * speed
        self.held_gpus += held_gpus
        self.fast_gpus += fast_gpus
        if not self.heads:
            self.live = self.held_gpus = self.fast_gpus = 0.0

    def residence(self, span: AdmissionSpan) -> float:
        """Return how long a request is in flight [s]."""
        use = max(span.use[self.reads], 1 / self.steps)
        return self.at(use)[0] / (use * self.plan.capacity)

    def due(self, now: float, span: AdmissionSpan) -> float:
        """Return until when requests that stand still from now on must go on to be in SLO [s]."""
        plan = self.plan
        if self.reads:
            return now + plan.slack
        if plan.begins_anew:
            return -math.inf
        return now + (plan.limit - span.tpot) * plan.output - plan.recompute

    def work(self, use: float, seconds: float) -> None:
        """Serve at one use for some time."""
        self.busy += use * seconds
        self.busy_gpu_s += use * seconds * self.fast_gpus
        self.idle_gpu_s += (1 - use) * seconds * self.held_gpus

    def at(self, use: float) -> tuple[float, float, float, float]:
        """Return sequences in flight of a replica, time per token [s], share in SLO and its doubt at a use [-]."""
        place = use * self.steps
        below = min(int(place), self.steps - 1)
        part, plan, after = place - below, self.plan, below + 1
        batch, tpot, attained = plan.batch, plan.tpot, plan.attainment
        return (
            batch[below] + part * (batch[after] - batch[below]),
            tpot[below] + part * (tpot[after] - tpot[below]),
            attained[below] + part * (attained[after] - attained[below]),
            plan.doubt[below] + part * (plan.doubt[after] - plan.doubt[below]),
        )


class RequestFluid:
    """The requests of a service, and the replicas that serve them: with `readers` these read all prompts."""

    def __init__(
        self, plan: ServicePlan, decoders: ServingCapacity, tally: FleetAccumulator, account: int, demand: int
    ) -> None:
        self.plan = plan
        self.decoders = decoders
        self.readers: ServingCapacity | None = None
        self.tally = tally
        self.account = account
        self.demand = demand
        """Root cause of a storm that no failure began."""
        self.queue: deque[Cohort] = deque()
        """Requests that wait for a replica, in their order."""
        self.backlog = 0.0
        """The work of the waiting requests."""
        self.history: deque[AdmissionSpan] = deque()
        """The last admissions: as far back as answers take that are in flight."""
        self.reach = plan.whole * plan.batch[-1] / plan.capacity
        self.is_vain = False
        """Whether who comes now will have given up when it is his turn; then, the root cause of that."""
        self.root = self.failed = 0
        self.since = 0.0
        self.pieces = plan.rates.pieces()
        self.until, self.rate = next(self.pieces)
        self.sums = [0.0] * len(SERVICE_SUMS)
        self.flushed = 0.0

    def advance(self, now: float) -> None:
        """Serve up to `now`, with the replicas that there have been since the last time."""
        while self.since < now:
            stop = min(now, self.until)
            self._flow(stop - self.since)
            self.since = stop
            if stop >= self.until:
                self.until, self.rate = next(self.pieces)

    def _flow(self, seconds: float) -> None:
        """Serve for some time in which neither demand nor replicas change."""
        sums, readers = self.sums, self.readers
        rate, capacity = self.rate, self._capacity()
        live, wanted = self.decoders.live, self.decoders.wanted
        if readers is not None:
            live, wanted = live + readers.live, wanted + readers.wanted
        sums[SECONDS] += seconds
        sums[OFFERED] += rate * seconds
        sums[CAPACITY] += capacity * seconds
        sums[REPLICAS] += live * seconds
        sums[WANTED] += wanted * seconds
        if live > wanted - 1e-6:
            sums[FULL] += seconds
        if rate > capacity * (1 + 1e-12):
            sums[BELOW] += seconds
        for pool in (self.decoders, readers):
            if pool is not None and pool.stuck:
                share = rate / (pool.heads + pool.stuck)
                rate -= share * pool.stuck
                if self.plan.loses:
                    sums[FAILED] += share * pool.stuck * seconds
                else:
                    pool.sent.append((self.since, seconds, share * seconds))
        self._pass(rate, capacity, seconds)

    def _pass(self, rate: float, capacity: float, seconds: float) -> None:
        """Serve requests in their order, as they come and those that wait."""
        now, end, queue = self.since, self.since + seconds, self.queue
        while now < end:
            if not capacity and not self.plan.patience:
                self._turn_away()
            if not queue and (rate <= capacity or not self.plan.patience):
                served = min(rate, capacity)
                self.sums[REJECTED] += (rate - served) * (end - now)
                self._serve(now, end - now, served / capacity if capacity else 0.0, served * (end - now), now)
                return
            # Without a queue only those wait who have moved: they take the place of who comes, where there is no room.
            admitted = rate if rate <= capacity or self.plan.patience else 0.0
            part = self._pass_queue(now, end - now, admitted, capacity)
            self.sums[REJECTED] += (rate - admitted) * part
            now += part

    def _turn_away(self) -> None:
        """Let all requests that wait be turned away."""
        for cohort in self.queue:
            self.count(cohort.arrival, REJECTED, cohort.count)
        self.queue.clear()
        self.backlog = 0.0

    def _pass_queue(self, now: float, seconds: float, rate: float, capacity: float) -> float:
        """Serve the first of those who wait, for as long as nothing changes for them; return for how long [s]."""
        queue = self.queue
        is_vain, seconds = self._judge_storm(rate, capacity, seconds)
        before = self.backlog
        if queue and queue[0].leaves <= now:
            cohort = queue.popleft()
            self.backlog -= cohort.count * cohort.work
            self.count(cohort.arrival, REJECTED, cohort.count)
            return 0.0
        first = queue[0] if queue else Cohort(now, math.inf, math.inf)
        served, left, due, moves, lasts = self._front(first, now, rate, capacity)
        came = rate * (self.plan.asks if is_vain else 1)
        joins = bool(queue) and self._joins(queue[-1], now, came, float(is_vain))
        # Who comes makes the last ones more: if these are the first too, they are there for longer.
        net = left - came * (joins and len(queue) == 1)
        part = min(seconds, first.count / net if net > 0 else math.inf, first.leaves - now, lasts)
        is_last = bool(queue) and net > 0 and part >= first.count / net
        in_time = now + part / 2 <= due + moves * part / 2 + _TINY
        self._enqueue(now, part, came, joins=joins, is_vain=is_vain)
        if is_vain:
            self.sums[REJECTED] += rate * part
        self._serve_first(now, part, served * part, in_time=in_time)
        self._shorten(left * part, (left - served) * part, is_last=is_last)
        self.sums[WAITED] += (before + self.backlog) / 2 * part
        return part

    def _front(
        self, first: Cohort, now: float, rate: float, capacity: float
    ) -> tuple[float, float, float, float, float]:
        """Return how the first of those who wait go on.

        How many are served and how many leave the queue [1/s], until when the next must go on to be in SLO [s] and how
        fast that moves on [-], and for how long all this holds at most [s].
        """
        plan = self.plan
        # How fast the moment at which the next was asked moves on; without a queue who comes is the first.
        density = rate if not self.queue else first.count / first.span if first.span else math.inf
        pace = capacity / (density * first.work)
        served = capacity / first.work
        has_due = first.due == first.due
        due = first.due if has_due else first.arrival + plan.slack
        patience = plan.patience if plan.patience and not plan.asks and first.leaves == math.inf else math.inf
        gives_up = now >= first.arrival + patience - _TINY and pace < 1
        moves = 1.0 if gives_up else 0.0 if has_due else pace
        lasts = math.inf
        for bound, speed in ((due, moves), (first.arrival + patience, pace)):
            crossing = (bound - now) / (1 - speed) if speed != 1 else 0.0
            lasts = min(lasts, crossing if crossing > _TINY else math.inf)
        return served, density if gives_up else served, due, moves, lasts

    def _enqueue(self, now: float, seconds: float, rate: float, *, joins: bool, is_vain: bool) -> None:
        """Put those who come for some time behind those who wait, or among the last of them."""
        queue = self.queue
        if joins:
            queue[-1].span += seconds
            queue[-1].count += rate * seconds
        elif rate:
            queue.append(Cohort(now, seconds, rate * seconds))
            queue[-1].lost, queue[-1].cause = float(is_vain), self.root
        self.backlog += rate * seconds

    def _shorten(self, count: float, gone: float, *, is_last: bool) -> None:
        """Take those who leave from the first of the queue: so many, of whom some have given up."""
        first = self.queue[0]
        self.backlog = max(self.backlog - count * first.work, 0.0)
        if gone:
            self.count(first.arrival, REJECTED, gone)
        if is_last or count >= first.count:
            self.queue.popleft()
        else:
            first.arrival += first.span * count / first.count
            first.span -= first.span * count / first.count
            first.count -= count

    def _joins(self, last: Cohort, now: float, rate: float, lost: float) -> bool:
        """Return whether who comes now at a rate is like the last who wait."""
        if not last.span or last.leaves < math.inf or last.lost != lost or not rate or last.arrival < self.flushed:
            return False
        is_next = abs(last.arrival + last.span - now) <= _TINY * max(now, 1.0)
        return is_next and abs(last.count - rate * last.span) <= 1e-6 * last.count

    def _judge_storm(self, rate: float, capacity: float, seconds: float) -> tuple[bool, float]:
        """Return whether who comes now will be served in vain, and for how long that holds at most [s]."""
        plan = self.plan
        if not plan.asks:
            return False, seconds
        most = plan.patience * capacity
        tiny = _TINY * max(most, 1.0)
        is_vain = self.backlog > most + tiny or (self.backlog > most - tiny and rate > capacity)
        if is_vain and not self.is_vain:
            # What began it is its root for as long as it goes on, also when all replicas are back.
            self.root = self.failed if self.decoders.live < self.decoders.wanted - 1e-6 and self.failed else self.demand
        self.is_vain = is_vain
        net = rate * (plan.asks if is_vain else 1) - capacity
        crossing = (most - self.backlog) / net if net else 0.0
        return is_vain, min(seconds, crossing) if crossing > _TINY else seconds

    def _serve_first(self, now: float, seconds: float, count: float, *, in_time: bool) -> None:
        """Serve the first of those who wait at full use."""
        first = self.queue[0]
        if first.lost < 1:
            self._serve(now, seconds, 1.0, count, first.arrival, in_time=in_time, shares=first.shares)
        else:
            self._serve(now, seconds, 1.0, 0.0, first.arrival)
            self.count(first.arrival, WASTED, count)
        if first.lost:
            self.waste(self.account, first.lost * seconds * self.decoders.fast_gpus, first.cause, now, now + seconds)

    def _serve(
        self, now: float, seconds: float, use: float, count: float, arrival: float,
        *, in_time: bool = True, shares: Shares | None = None,
    ) -> None:  # fmt: skip
        """Serve requests that were asked at a moment, for some time at one use."""
        use, readers_use = self._uses(use)
        attained, unsure = 1.0, 0.0
        if self.readers is not None:
            self.readers.work(readers_use, seconds)
            _, _, attained, unsure = self.readers.at(readers_use)
        _, tpot, share, doubt = self.decoders.at(use)
        if shares is None:
            # Both pools replay the same requests: their errors add up.
            shares = attained * share, unsure * share + attained * doubt
        if not in_time:
            shares = 0.0, 0.0
        self.decoders.work(use, seconds)
        self.answer(arrival, count, tpot, shares)
        while self.history and self.history[0].end < now - self.reach:
            self.history.popleft()
        live = self.decoders.live, self.readers.live if self.readers is not None else 0.0
        self.history.append(AdmissionSpan(now, now + seconds, (use, readers_use), count, live, arrival, tpot, shares))

    def answer(self, arrival: float, count: float, tpot: float, shares: Shares) -> None:
        """Count requests as served; a negative number as not served after all."""
        if count:
            self.count(arrival, SERVED, count)
            self.count(arrival, IN_SLO, count * shares[0])
            self.count(arrival, UNSURE, count * shares[1])
            self.count(arrival, USER, count * self.plan.output * tpot)

    def count(self, arrival: float, place: int, amount: float) -> None:
        """Add to a sum of the window in which requests were asked."""
        if arrival >= self.flushed:
            self.sums[place] += amount
        else:
            self.tally.correct(self.plan.index, arrival, place, amount)

    def _capacity(self) -> float:
        """Return the requests that are admitted: with readers of prompts, what the smaller pool carries [1/s]."""
        capacity, readers = self.decoders.live * self.plan.capacity, self.readers
        return capacity if readers is None else min(capacity, readers.live * readers.plan.capacity)

    def _uses(self, use: float) -> tuple[float, float]:
        """Return the use of the decoders and of the readers, at a use of what both can serve [-]."""
        if self.readers is None:
            return use, 0.0
        served = use * self._capacity()
        decoders_use, readers_use = (
            min(served / (pool.live * pool.plan.capacity), 1.0) if pool.live else 0.0
            for pool in (self.decoders, self.readers)
        )
        return decoders_use, readers_use

    def waste(self, account: int, gpu_s: float, cause: int, start: float, end: float) -> None:
        """Charge work that was done in vain from a moment to another."""
        if gpu_s:
            self.tally.charge(account, Bucket.PRODUCTIVE, 0, DIRECT, -gpu_s, start, end)
            self.tally.charge(account, Bucket.LOST_WORK, cause, DIRECT, gpu_s, start, end)

    def cut_off(self, pool: ServingCapacity, holder: Holder, now: float, cause: int) -> list[Cohort]:
        """Return what is in flight on a holder that fails: what it got last, none of which is served after all."""
        flight, plan, spans = [], pool.plan, self.history
        since = max(now - pool.residence(spans[-1]), holder.up_since) if spans else now
        for span in reversed(spans):
            if span.end <= since:
                break
            part = min((span.end - since) / (span.end - span.start), 1.0)
            if not span.requests:
                continue
            share = holder.replicas * holder.speed / span.live[pool.reads]
            cohort = Cohort(span.arrival, 0.0, span.requests * part * share)
            self.answer(span.arrival, -cohort.count, span.tpot, span.shares)
            if plan.loses:
                self.count(span.arrival, FAILED, cohort.count)
            cohort.shares, cohort.due, cohort.work, cohort.cause = span.shares, pool.due(now, span), plan.whole, cause
            if not plan.begins_anew:
                again = plan.recompute * plan.capacity
                cohort.work = plan.whole / 2 + again
                cohort.lost = again / cohort.work
            flight.append(cohort)
        return flight[::-1]

    def lose_work(self, pool: ServingCapacity, holder: Holder, cause: int, now: float) -> None:
        """Charge the work for what was in flight: of what was done so long ago, the part that has not ended since."""
        if not self.history:
            return
        # Long requests are met in flight more often.
        longest = pool.plan.recompute if pool.reads else pool.residence(self.history[-1]) * pool.plan.whole
        since = max(now - longest, holder.up_since)
        for span in reversed(self.history):
            if span.end <= since:
                break
            start = max(span.start, since)
            age = now - (start + span.end) / 2
            gpu_s = holder.fast * span.use[pool.reads] * (span.end - start) * (1 - age / longest)
            self.waste(holder.account, gpu_s, cause, start, span.end)

    def move(self, cohort: Cohort) -> None:
        """Move requests to other replicas, behind those who wait."""
        self.count(cohort.arrival, MOVED, cohort.count)
        self.queue.append(cohort)
        self.backlog += cohort.count * cohort.work

    def put_down(self, now: float) -> None:
        """Put down what has been since the last time, which lies in one window."""
        if now > self.flushed:
            self.tally.serve(self.plan.index, self.flushed, self.sums)
            self.sums = [0.0] * len(SERVICE_SUMS)
            self.flushed = now
