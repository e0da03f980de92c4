"""Services: gangs of replicas that come and go, and what is asked of them as a fluid.

A gang is one replica, or a node full of them, and to queue, nodes, failures and repair it is a job of a stream without
an end. Between two changes of the replicas that serve, or of the demand, what is served, waits, is late or turned away
is a closed form; a request is never an event.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from sim.engine.fleet_result import DIRECT, SERVICE_SUMS, size_class
from sim.engine.kernel import Order
from sim.engine.lives import SourceInfo
from sim.engine.stream_job import StreamJob
from sim.policies.contracts import Bucket
from sim.scenario.streams import Arrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.fleet import Fleet
    from sim.engine.kernel import Call
    from sim.engine.lives import Failure
    from sim.engine.prepared import ServicePlan

(
    _SECONDS, _OFFERED, _SERVED, _IN_SLO, _REJECTED, _FAILED, _MOVED, _IN_FLIGHT, _TOKENS_LOST, _RECOMPUTED, _CAPACITY,
    _BELOW, _WAITED, _USER, _REPLICAS, _WANTED, _FULL, _STOPS, _BUSY, _IDLE, _WASTED, _UNSURE,
) = range(len(SERVICE_SUMS))  # fmt: skip


class Gang(StreamJob):
    """Replicas that fail as one: a replica with nodes of its own, or those that share a node."""

    __slots__ = (
        "attained", "broken", "failed_at", "fast", "flight", "from_busy", "held", "is_cold", "is_serving",
        "is_upgrading", "lacks", "replicas", "service", "speed", "stuck_from", "tpot", "up_since",
    )  # fmt: skip

    def __init__(self, service: Service, number: int, replicas: int, now: float) -> None:
        plan, end = service.plan, math.inf
        gpus = replicas * plan.gpus
        spec = Arrival(number, now, gpus, end, end, end, "completed", plan.tenant, plan.priority, plan.partition)
        super().__init__(service.fleet.number, spec, plan.stream, service.account, plan.nodes)
        self.service = service
        self.replicas = replicas
        self.is_serving = self.is_cold = self.is_upgrading = False
        self.speed = 1.0
        """Its capacity over that of its replicas."""
        self.held = self.fast = 0.0
        """GPUs that it serves with; those at full speed that serve as much."""
        self.lacks = 0
        """Nodes that do not serve although the others do."""
        self.broken = 0
        """GPUs that do not serve although the others of their node do."""
        self.up_since = 0.0
        """Since when it has served as fast as now [s]."""
        self.from_busy = 0.0
        """Reading of `Service.busy` up to which it has been charged for being slower [s]."""
        self.stuck_from = math.nan
        """Reading of `Service.routed` at which it failed, while that is undetected."""
        self.failed_at = self.flight = self.tpot = self.attained = 0.0
        """When it last failed [s], with how many requests, their time per token [s] and share in SLO."""


class Service:
    """The gangs of a service in one replication, and the fluid of its requests."""

    def __init__(self, fleet: Fleet, plan: ServicePlan, decoders: Service | None = None) -> None:
        self.fleet = fleet
        self.plan = plan
        self.decoders = decoders or self
        """Whose fluid its requests are."""
        self.kernel = fleet.kernel
        self.account = fleet.tally.account(
            -2 - plan.index, size_class(plan.gpus), plan.tenant, plan.priority, plan.partition
        )
        self.gangs: dict[Gang, None] = {}
        self.narrow: dict[Gang, None] = {}
        """Gangs that serve with fewer nodes, and wait for others."""
        self.hurt: dict[Gang, int] = {}
        """Gangs with nodes that have lost GPUs and serve on, and the cause of the last loss."""
        self.waiting: dict[Gang, None] = {}
        """Gangs in the queue."""
        self.slow: dict[Gang, None] = {}
        """Gangs that serve at less than their capacity."""
        jobs = fleet.jobs
        self.own = [
            SourceInfo(source, index, jobs.prepared, jobs.replication, plan.name)
            for index, source in enumerate(jobs.prepared.sources)
            if source.of_processes
        ]
        """Sources of failures of processes, which strike a gang and no node."""
        self.wanted = plan.replicas
        """Replicas that there should be."""
        self.steps = len(plan.batch) - 1
        self.readers = None if plan.readers is None else Readers(fleet, plan.readers, self)
        """Replicas that read all prompts, where these do not."""
        self.number = 0
        # What is true now.
        self.live = 0.0
        """Replicas that serve, slower ones in part."""
        self.heads = 0
        """Replicas that serve."""
        self.stuck = 0
        """Replicas that have failed and still get requests, because that is undetected."""
        self.held_gpus = 0.0
        """GPUs of the gangs that serve; `fast_gpus` those of slower ones in part."""
        self.fast_gpus = 0.0
        self.backlog = 0.0
        """Requests that wait for a replica."""
        self.line: deque[list[float]] = deque()
        """What they consist of where nobody leaves: requests, and whether their clients have given up, in order."""
        self.is_vain = False
        """Whether who comes now will have given up when it is his turn; then, the root cause of that."""
        self.root = self.failed = 0
        self.since = 0.0
        self.pieces = plan.rates.pieces()
        self.until, self.rate = next(self.pieces)
        # Integrals over time.
        self.busy = 0.0
        """Of the use of the replicas [s]."""
        self.routed = 0.0
        """Of what each replica that is not known to have failed gets [requests]."""
        self.sums = [0.0] * len(SERVICE_SUMS)
        self.flushed = 0.0
        self.renewing: list[Gang] = []
        """Gangs that the rolling upgrade has still to come to."""
        self.restarting = 0
        left = plan.replicas
        for _ in range(plan.gangs):
            self._submit(min(plan.together, left), 0.0)
            left -= plan.together
        if plan.upgrade is not None:
            self.kernel.at(plan.upgrade[0], Order.PHASE, self._on_upgrade, 1)
        if plan.scale is not None:
            self.kernel.at(plan.scale[3], Order.PHASE, self._on_scale)

    # ------------------------------------------------------------------------------------------------- the fluid

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
        sums, plan, readers = self.sums, self.plan, self.readers
        rate, capacity = self.rate, self._capacity()
        live, wanted = self.live, self.wanted
        if readers is not None:
            live, wanted = live + readers.live, wanted + readers.wanted
        sums[_SECONDS] += seconds
        sums[_OFFERED] += rate * seconds
        sums[_CAPACITY] += capacity * seconds
        sums[_REPLICAS] += live * seconds
        sums[_WANTED] += wanted * seconds
        if live > wanted - 1e-6:
            sums[_FULL] += seconds
        if rate > capacity * (1 + 1e-12):
            sums[_BELOW] += seconds
        if self.stuck:
            share = rate / (self.heads + self.stuck)
            self.routed += share * seconds
            rate -= share * self.stuck
        if readers is not None and readers.stuck:
            share = rate / (readers.heads + readers.stuck)
            readers.routed += share * seconds
            rate -= share * readers.stuck
        if plan.asks:
            self._storm(rate, capacity, seconds)
            return
        most = rate * plan.patience
        while seconds > 0:
            net = rate - capacity
            if net > 0:
                if self.backlog >= most * (1 - 1e-12):
                    sums[_REJECTED] += self.backlog - most + net * seconds
                    self.backlog = most
                    net, part = 0.0, seconds
                else:
                    part = min(seconds, (most - self.backlog) / net)
                use = 1.0
            elif self.backlog > 0:
                part = min(seconds, self.backlog / -net) if net < 0 else seconds
                use = 1.0
            else:
                net, part = 0.0, seconds
                use = rate / capacity if capacity > 0 else 0.0
            self._serve(rate, capacity, use, net, part)
            seconds -= part
            if seconds > 0:
                # A rounding error must not leave a part of a request.
                self.backlog = most if net > 0 else 0.0

    def _storm(self, rate: float, capacity: float, seconds: float) -> None:
        """Serve where nobody leaves the queue: beyond a wait of the patience it is in vain, and all ask again."""
        sums, plan = self.sums, self.plan
        most = plan.patience * capacity
        while seconds > 0:
            vain = self.backlog >= most
            if vain and not self.is_vain:
                # What began it is its root for as long as it goes on, also when all replicas are back.
                self.root = self.failed if self.live < self.wanted - 1e-6 and self.failed else self.fleet.demand
            self.is_vain = vain
            came = rate * plan.asks if vain else rate
            net, part = came - capacity, seconds
            use = 1.0 if self.backlog > 0 or net > 0 else came / capacity
            if use < 1:
                net = 0.0
            elif net and not (vain and net > 0):
                goal = most if vain or net > 0 else 0.0
                part = min(seconds, (goal - self.backlog) / net)
            self.line.append([came * part, float(vain)])
            wasted = self._leave_line(use * capacity * part)
            sums[_REJECTED] += rate * part * vain
            self._serve(0.0 if vain else rate, capacity, use, net, part)
            if wasted:
                sums[_WASTED] += wasted
                sums[_SERVED] -= wasted
                sums[_USER] -= wasted * plan.output * self._at(use)[1]
                self._waste(wasted / capacity * self.fast_gpus, self.root, self.since)
            seconds -= part
            if seconds > 0:
                # The wait is short enough again, too long from now on, or nobody waits any more.
                self.backlog = most * (1 - 1e-9) if vain else most if net > 0 else 0.0

    def _leave_line(self, count: float) -> float:
        """Let requests be served in order; return those whose clients have given up."""
        line, wasted = self.line, 0.0
        while line and count > 0:
            first, taken = line[0], min(line[0][0], count)
            wasted += taken * first[1]
            first[0] -= taken
            count -= taken
            if first[0] <= 0:
                line.popleft()
        return wasted

    def _serve(self, rate: float, capacity: float, use: float, net: float, seconds: float) -> None:
        """Serve for some time in which the backlog grows by `net` a second, or is as long all the time."""
        sums, plan = self.sums, self.plan
        served = use * capacity * seconds
        own, attained, unsure = self._shared(use, capacity, seconds)
        _, tpot, share, doubt = self._at(own)
        # Both pools replay the same requests: their errors add up.
        unsure = unsure * share + attained * doubt
        attained *= share
        sums[_SERVED] += served
        sums[_USER] += served * plan.output * tpot
        self.busy += own * seconds
        sums[_BUSY] += own * seconds * self.fast_gpus
        sums[_IDLE] += (1 - own) * seconds * self.held_gpus
        first, last = self.backlog, max(self.backlog + net * seconds, 0.0)
        admitted = rate if net else min(rate, capacity)
        if first > 0 or last > 0:
            self.backlog = last
            sums[_WAITED] += (first + last) / 2 * seconds
            # In SLO are those who come while the wait is short enough.
            most, low, high = plan.slack * capacity, min(first, last), max(first, last)
            seconds *= 1.0 if high <= most else 0.0 if low >= most else (most - low) / (high - low)
        sums[_IN_SLO] += admitted * seconds * attained
        sums[_UNSURE] += admitted * seconds * unsure

    def _capacity(self) -> float:
        """Return the requests that are admitted: with readers of prompts, what the smaller pool carries [1/s]."""
        own, readers = self.live * self.plan.capacity, self.readers
        return own if readers is None else min(own, readers.live * readers.plan.capacity)

    def _shared(self, use: float, capacity: float, seconds: float = 0.0) -> tuple[float, float, float]:
        """Return the use of these replicas at that of the service, and the share of TTFT in SLO with its doubt.

        Let readers work.
        """
        readers = self.readers
        if readers is None:
            return use, 1.0, 0.0
        served = use * capacity
        own, theirs = (
            min(served / (each.live * each.plan.capacity), 1.0) if each.live else 0.0 for each in (self, readers)
        )
        readers.busy += theirs * seconds
        readers.sums[_BUSY] += theirs * seconds * readers.fast_gpus
        readers.sums[_IDLE] += (1 - theirs) * seconds * readers.held_gpus
        return own, *readers._at(theirs)[2:]

    def _at(self, use: float) -> tuple[float, float, float, float]:
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

    def flush(self, now: float) -> None:
        """Put down what has been since the last time, which lies in one window."""
        self.advance(now)
        if now > self.flushed:
            charge, sums = self.fleet.tally.charge, self.sums
            charge(self.account, Bucket.PRODUCTIVE, 0, DIRECT, sums[_BUSY], self.flushed, now)
            charge(self.account, Bucket.HEADROOM, 0, DIRECT, sums[_IDLE], self.flushed, now)
            for gang in self.slow:
                self._charge_slow(gang, now)
            if self.readers is not None:
                self.readers.flush(now)
            self._put_down()
            self.sums = [0.0] * len(SERVICE_SUMS)
            self.flushed = now

    def _put_down(self) -> None:
        self.fleet.tally.serve(self.plan.index, self.flushed, self.sums)

    # -------------------------------------------------------------------------------------------- gangs that serve

    def _submit(self, replicas: int, now: float) -> None:
        """Let one more gang wait for nodes."""
        gang = Gang(self, self.number, replicas, now)
        for info in self.own:
            self.fleet.begin_life(gang, info, 0, 0.0)
        self.number += 1
        self.fleet.number += 1
        self.gangs[gang] = None
        self.fleet.alive[gang] = None
        self.fleet.enqueue(gang, now)

    def start(self, gang: Gang, now: float, ready: float) -> None:
        """Let a gang that has its nodes read weights and start; at the very beginning it serves already."""
        plan, stages = self.plan, gang.stages
        self.narrow.pop(gang, None)
        stages.clear()
        gang.lacks = 0
        gang.is_cold = now > 0
        if now <= 0:
            gang.epoch += 1
            gang.run_at = now
            self._serve_with(gang, 1.0, now)
            self._live(gang, now)
            return
        if ready > now:
            stages.append((Bucket.STARVED, ready))
        ready = max(ready, now) + plan.load
        stages.append((Bucket.RESTORE, ready))
        self._rise(gang, now, ready + plan.start)

    def _resume(self, gang: Gang, now: float) -> None:
        """Let a standby, or the nodes that are left, serve after the interruption."""
        gang.stages.clear()
        gang.is_cold = False
        self._rise(gang, now, now + self.plan.interruption)

    def _rise(self, gang: Gang, now: float, at: float) -> None:
        gang.stand_still(now)
        gang.stages.append((Bucket.INITIALIZE, at))
        gang.run_at = at
        self.kernel.at(at, Order.PHASE, self._on_up, (gang, gang.epoch))

    def _on_up(self, call: Call) -> None:
        gang, epoch = call.argument
        if epoch != gang.epoch:
            return
        now, plan = self.kernel.now, self.plan
        self.fleet.charge(gang, now)
        self._live(gang, now)
        gang.broken = self._lost(gang)
        if gang.lacks or gang.broken:
            left = 1 - gang.lacks / gang.nodes - gang.broken / (gang.nodes * self.fleet.per_node)
            self._serve_with(gang, left, now)
            if gang.lacks:
                self._refill(gang, now)
        elif gang.is_cold and plan.warm_time > 0 and plan.warm_speed < 1:
            self._serve_with(gang, plan.warm_speed, now)
            self.kernel.at(now + plan.warm_time, Order.PHASE, self._on_warm, (gang, gang.epoch))
        else:
            self._serve_with(gang, 1.0, now)
        if gang.is_upgrading:
            gang.is_upgrading = False
            self.restarting -= 1
            self._renew(now)

    def _live(self, gang: Gang, now: float) -> None:
        """Let the processes of a gang run, until one of its own lives ends."""
        if gang.lives:
            gang.alive = now
            due = now + gang.lives[0][0] - gang.lived
            self.kernel.at(due, Order.FAILURE, self.fleet.on_own, (gang, gang.epoch))

    def _on_warm(self, call: Call) -> None:
        gang, epoch = call.argument
        if epoch == gang.epoch and gang.is_serving:
            now = self.kernel.now
            self._stop_serving(gang, now)
            self._serve_with(gang, 1.0, now)

    def _serve_with(self, gang: Gang, speed: float, now: float) -> None:
        """Let a gang serve from now on, at a share of its capacity."""
        self.advance(now)
        gang.is_serving = True
        gang.speed = speed
        gang.up_since = now
        gang.from_busy = self.busy
        allocation, each = gang.allocation, self.fleet.per_node
        assert allocation is not None
        gang.held = float((gang.nodes - len(allocation.missing)) * each)
        # Nodes that it lacks are not slow.
        gang.fast = min(speed * gang.nodes * each, gang.held)
        if speed < 1:
            self.slow[gang] = None
        self.heads += gang.replicas
        self.live += gang.replicas * speed
        self.held_gpus += gang.held
        self.fast_gpus += gang.fast

    def _stop_serving(self, gang: Gang, now: float) -> None:
        self.advance(now)
        if gang.speed < 1:
            self._charge_slow(gang, now)
            del self.slow[gang]
        self.heads -= gang.replicas
        self.live -= gang.replicas * gang.speed
        self.held_gpus -= gang.held
        self.fast_gpus -= gang.fast
        if not self.heads:
            self.live = self.held_gpus = self.fast_gpus = 0.0
        gang.is_serving = False
        gang.since = now

    def _charge_slow(self, gang: Gang, now: float) -> None:
        """Charge what a gang that is slower lacks to one that is not, as far as it was busy."""
        lacks = (gang.held - gang.fast) * (self.busy - gang.from_busy)
        if lacks > 0:
            start = max(gang.up_since, self.flushed)
            self.fleet.tally.charge(self.account, Bucket.DEGRADED, gang.why, gang.via, lacks, start, now)
        gang.from_busy = self.busy

    # ------------------------------------------------------------------------------------- gangs that stop serving

    def leave(self, gang: Gang, now: float) -> None:
        """Let a gang stop serving of which all know before: it takes no more requests, and ends those that it has."""
        if gang.is_serving:
            self._stop_serving(gang, now)
            gang.stand_still(now)
        gang.run_at = math.inf
        self._forget(gang, now)

    def _forget(self, gang: Gang, now: float) -> None:
        """Let a gang be no part of what goes on, because it has lost its nodes; those without some GPU are repaired."""
        self.narrow.pop(gang, None)
        cause, cluster, allocation = self.hurt.pop(gang, 0), self.fleet.cluster, gang.allocation
        for node in cluster.narrow.intersection(allocation.nodes) if cause and allocation is not None else ():
            cluster.send_to_repair(node, cause, now)
        if gang.stuck_from == gang.stuck_from:
            self._know(gang, now)
        if gang.is_upgrading:
            gang.is_upgrading = False
            self.restarting -= 1

    def fail(self, gang: Gang, now: float, cause: int) -> None:
        """Let a gang fail: until that is known it gets more requests, and those that it had stand still."""
        if not gang.is_serving:
            return
        self.advance(now)
        plan, sums = self.plan, self.sums
        capacity = self._capacity()
        use, share, _ = self._shared(self.use(), capacity)
        batch, tpot, attained, _ = self._at(use)
        attained *= share
        if self.backlog > plan.slack * capacity:
            attained = 0.0  # those in flight have waited too long
        served = min((now - gang.up_since) / (plan.output * tpot), 1.0) if gang.up_since else 1.0
        self._stop_serving(gang, now)
        self.failed = cause
        self.stuck += gang.replicas
        gang.stuck_from, gang.failed_at = self.routed, now
        gang.flight = batch * gang.replicas * gang.speed * served
        gang.tpot, gang.attained = tpot, attained
        sums[_STOPS] += 1
        sums[_IN_FLIGHT] += gang.flight
        if plan.loses or plan.begins_anew:
            # Ages are even over the time that a request is in flight: half of each answer has been made.
            sums[_TOKENS_LOST] += gang.flight * plan.whole * plan.output / 2
            self._waste(use * plan.whole * plan.output * tpot / 2 * served * gang.held, cause, now)

    def _waste(self, gpu_s: float, cause: int, now: float) -> None:
        """Charge work that was done in vain."""
        if gpu_s:
            self.sums[_BUSY] -= gpu_s
            self.fleet.tally.charge(self.account, Bucket.LOST_WORK, cause, DIRECT, gpu_s, now, now)

    def _wait_again(self, count: float) -> None:
        """Let requests that have moved wait behind the others."""
        self.backlog += count
        if self.plan.asks:
            self.line.append([count, 0.0])

    def _wait(self) -> float:
        """Return how long a request waits that comes now [s]."""
        capacity = self._capacity()
        return self.backlog / capacity if capacity else math.inf

    def use(self) -> float:
        """Return how much of what is admitted is asked for, at most all of it [-]."""
        capacity = self._capacity()
        if self.backlog > 0 or not capacity:
            return 1.0
        rate = self.rate
        for pool in (self, self.readers):
            if pool is not None and pool.heads:
                rate = rate * pool.heads / (pool.heads + pool.stuck)
        return min(rate / capacity, 1.0)

    def _know(self, gang: Gang, now: float) -> None:
        """Let the requests of a gang that is known to have failed be lost, or move to others."""
        self.advance(now)
        decoders, plan = self.decoders, self.plan
        sums = decoders.sums
        came = gang.replicas * (self.routed - gang.stuck_from)
        self.stuck -= gang.replicas
        gang.stuck_from = math.nan
        flight, waited = gang.flight, now - gang.failed_at
        if plan.loses:
            sums[_FAILED] += flight + came
            sums[_SERVED] -= flight
            sums[_IN_SLO] -= flight * gang.attained
            return
        # What has to be done still, in requests; each was counted as served when it came.
        again = 0.0 if plan.begins_anew else flight * plan.recompute * plan.capacity
        work = flight * plan.whole if plan.begins_anew else flight * plan.whole / 2 + again
        sums[_MOVED] += flight + came
        sums[_SERVED] -= work
        sums[_USER] -= work * decoders.plan.output * gang.tpot
        decoders._wait_again(work + came)
        if again:
            seconds = flight * plan.recompute
            sums[_RECOMPUTED] += seconds
            self._waste(seconds * plan.gpus, gang.root, now)
        wait = decoders._wait()
        if self._is_late(gang, waited, wait):
            sums[_IN_SLO] -= flight * gang.attained
        if came and wait < plan.slack:
            sums[_IN_SLO] += came * min((plan.slack - wait) / waited, 1.0) * gang.attained

    def _is_late(self, gang: Gang, waited: float, wait: float) -> bool:
        """Return whether requests are no longer in SLO that have stood still and will wait again [s]."""
        plan = self.plan
        return plan.begins_anew or gang.tpot + (waited + plan.recompute + wait) / plan.output > plan.limit

    def answer(self, gang: Gang, now: float) -> None:
        """Let a gang that knows of a failure, and has let failed nodes go, recover."""
        was_serving = gang.stuck_from == gang.stuck_from
        if was_serving:
            self._know(gang, now)
        allocation, plan, fleet = gang.allocation, self.plan, self.fleet
        assert allocation is not None
        if not allocation.missing and not gang.lacks:
            if plan.has_standby and was_serving:
                self._resume(gang, now)
            else:
                self.start(gang, now, allocation.ready_at)
        elif plan.keeps_nodes and was_serving and len(allocation.missing) < gang.nodes:
            gang.lacks = max(gang.lacks, len(allocation.missing))
            self.narrow[gang] = None
            self._resume(gang, now)
        elif fleet.replace(allocation, now):
            self.start(gang, now, allocation.ready_at)
        else:
            self._forget(gang, now)
            fleet.requeue(gang, now, "node_fail")

    def keep(self, gang: Gang, node: int, failure: Failure) -> bool:
        """Keep a node that has lost a GPU, if its replicas can do without; return whether."""
        info, cluster = failure.info, self.fleet.cluster
        if info.by_course or info.source.fault != "gpu" or cluster.outages[node] > self.plan.most_lost:
            return False
        cluster.narrow.add(node)
        self.hurt[gang] = info.cause
        return True

    def _lost(self, gang: Gang) -> int:
        """Return the GPUs that the nodes of a gang have lost [-]."""
        cluster, allocation = self.fleet.cluster, gang.allocation
        if gang not in self.hurt or allocation is None:
            return 0
        return sum(cluster.outages[node] for node in cluster.narrow.intersection(allocation.nodes))

    def refill(self, now: float) -> None:
        """Give gangs that serve with fewer nodes others, where there are some, and GPUs that are repaired."""
        for gang in list(self.hurt):
            lost = self._lost(gang)
            if gang.is_serving and lost < gang.broken:
                self._stop_serving(gang, now)
                self._resume(gang, now)
            if not lost:
                del self.hurt[gang]
        for gang in list(self.narrow):
            if gang.is_serving:
                self._refill(gang, now)

    def _refill(self, gang: Gang, now: float) -> None:
        allocation = gang.allocation
        assert allocation is not None
        if allocation.missing:
            self._stop_serving(gang, now)
            self.fleet.replace(allocation, now)
            self._serve_with(gang, gang.speed, now)
        if not allocation.missing:
            ready = max(allocation.ready_at, now) + self.plan.load + self.plan.start
            self.kernel.at(ready, Order.PHASE, self._on_widen, (gang, gang.epoch))
            self.narrow.pop(gang, None)

    def _on_widen(self, call: Call) -> None:
        gang, epoch = call.argument
        if epoch == gang.epoch and gang.is_serving:
            now = self.kernel.now
            self._stop_serving(gang, now)
            gang.lacks = 0
            self._resume(gang, now)

    # ---------------------------------------------------------------------------------- scaling, rolling upgrades

    def _on_scale(self, call: Call) -> None:
        """Let there be as many gangs as the demand asks for, and look again after it has changed."""
        del call
        now, plan = self.kernel.now, self.plan
        assert plan.scale is not None
        target, least, most, window = plan.scale
        self.advance(now)
        replicas = min(max(math.ceil(self.rate / (target * plan.capacity) - 1e-9), least), most)
        gangs = -(-replicas // plan.together)
        self.wanted = gangs * plan.together
        while len(self.gangs) < gangs:
            self._submit(plan.together, now)
        # Last in, first out; those that wait for nodes first.
        idle = [gang for gang in reversed(self.gangs) if gang in self.waiting]
        serving = [gang for gang in reversed(self.gangs) if gang.is_serving]
        for gang in (idle + serving)[: len(self.gangs) - gangs]:
            self._retire(gang, now)
        until = self.until
        if until < math.inf:
            self.kernel.at(until + window, Order.PHASE, self._on_scale)

    def _retire(self, gang: Gang, now: float) -> None:
        del self.gangs[gang]
        if gang in self.waiting:
            del self.waiting[gang]
            self.fleet.withdraw(gang, now)
        else:
            self.leave(gang, now)
            self.fleet.retire(gang, now)

    def _on_upgrade(self, call: Call) -> None:
        """Begin a rolling upgrade."""
        assert self.plan.upgrade is not None
        self.renewing = list(self.gangs)
        self._renew(self.kernel.now)
        following: int = call.argument + 1
        self.kernel.at(following * self.plan.upgrade[0], Order.PHASE, self._on_upgrade, following)

    def _renew(self, now: float) -> None:
        """Let the next gangs start anew, as many as may at a time."""
        assert self.plan.upgrade is not None
        batch = max(self.plan.upgrade[1] // self.plan.together, 1)
        while self.renewing and self.restarting < batch:
            gang = self.renewing.pop(0)
            if gang in self.gangs and gang.is_serving and not gang.lacks and not gang.broken:
                self.leave(gang, now)
                gang.why, gang.via = self.fleet.drain, DIRECT
                gang.is_upgrading = True
                self.restarting += 1
                self.start(gang, now, now)


class Readers(Service):
    """The replicas that read the prompts of a service, and hand them to those that decode: the fluid is that one's."""

    def advance(self, now: float) -> None:
        """Serve up to `now`, as the whole service does."""
        self.decoders.advance(now)

    def _put_down(self) -> None:
        """Put down what the replicas did; what became of requests the service puts down."""
        for place in (_BUSY, _IDLE):
            self.decoders.sums[place] += self.sums[place]

    def fail(self, gang: Gang, now: float, cause: int) -> None:
        """Let a gang fail: until that is known it gets more prompts, and those that it had stand still."""
        if not gang.is_serving:
            return
        self.advance(now)
        decoders, plan = self.decoders, self.plan
        capacity = decoders._capacity()
        served = decoders.use() * capacity
        use = min(served / (self.live * plan.capacity), 1.0)
        own, share, _ = decoders._shared(decoders.use(), capacity)
        _, gang.tpot, attained, _ = decoders._at(own)
        gang.attained = attained * share
        gang.flight = self._at(use)[0] * gang.replicas * gang.speed
        self._stop_serving(gang, now)
        self.stuck += gang.replicas
        gang.stuck_from, gang.failed_at = self.routed, now
        decoders.sums[_STOPS] += 1
        decoders.sums[_IN_FLIGHT] += gang.flight
        # Half of each prompt that is being read has been.
        self._waste(use * plan.recompute / 2 * gang.held, cause, now)

    def _is_late(self, gang: Gang, waited: float, wait: float) -> bool:
        """Return whether prompts are no longer in SLO that have stood still and will wait again [s]."""
        del gang
        return wait + waited > self.plan.slack


def call_spares(fleet: Fleet, services: Sequence[Service], now: float) -> None:
    """Let spares be idle where gangs of services that wait can start on them."""
    cluster = fleet.cluster
    idle, spare = cluster.idle.count, cluster.spare.count
    for service in services:
        for gang in service.waiting if service.waiting else ():  # one that was large is slow to look through
            if gang.nodes > idle + spare:
                return
            moved = max(gang.nodes - idle, 0)
            if moved:
                cluster.move("spare", "idle", moved, now)
            idle, spare = idle + moved - gang.nodes, spare - moved
