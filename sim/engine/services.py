"""Services: gangs of replicas that come and go, and what is asked of them as a fluid.

A gang is one replica, or a node full of them, and to queue, nodes, failures and repair it is a job of a stream without
an end. Between two changes of the replicas that serve, or of the demand, what is served, waits, is late or turned away
is a closed form; a request is never an event.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ettrick.sim.engine.fleet_result import DIRECT, SERVICE_SUMS, size_class
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.lives import SourceInfo
from ettrick.sim.engine.stream_job import StreamJob
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.scenario.streams import Arrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.engine.fleet import ClusterQueue
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.prepared import ServicePlan

(
    _SECONDS, _OFFERED, _SERVED, _IN_SLO, _REJECTED, _FAILED, _MOVED, _IN_FLIGHT, _TOKENS_LOST, _RECOMPUTED, _CAPACITY,
    _BELOW, _WAITED, _USER, _REPLICAS, _WANTED, _FULL, _STOPS, _BUSY, _IDLE, _WASTED, _WAITING, _UNSURE,
) = range(len(SERVICE_SUMS))  # fmt: skip


Shares: TypeAlias = tuple[float, float]
"""Share of requests in SLO, and how far that may be off at 95 % [-]."""

_TINY = 1e-9
"""Times that are one [s]."""


class Cohort:
    """Requests that wait, in the order in which they were asked."""

    __slots__ = ("asked", "cause", "count", "due", "leaves", "lost", "shares", "span", "work")

    def __init__(self, asked: float, span: float, count: float) -> None:
        self.asked, self.span, self.count = asked, span, count
        """When the first was asked [s], over which time all were [s], and how many they are."""
        self.work, self.lost, self.cause = 1.0, 0.0, 0
        """What one takes of a capacity over a usual request, the part of it that is lost work [-], and why."""
        self.leaves = math.inf
        """When all give up together [s]; infinite where each has the patience of the service."""
        self.due = math.nan
        """Until when all must go on to be in SLO [s]; NaN where each has time for its first token."""
        self.shares: Shares | None = None
        """Of those who were in flight."""


class AdmissionSpan(NamedTuple):
    """What replicas admitted in some time in which nothing changed.

    Attributes
    ----------
    start, end
        Of the time [s].
    use, readers_use
        Of these replicas, and of those that read prompts [-].
    requests
        Requests.
    live, readers_live
        Replicas that served, slower ones in part.
    asked, tpot, shares
        When they were asked [s], their time per token [s], and how many of them are in SLO [-].
    """

    start: float
    end: float
    use: float
    readers_use: float
    requests: float
    live: float
    readers_live: float
    asked: float
    tpot: float
    shares: Shares


class ReplicaSlot(StreamJob):
    """Replicas that fail as one: a replica with nodes of its own, or those that share a node."""

    __slots__ = (
        "broken", "failed_at", "fast", "flight", "from_busy", "held", "is_cold", "is_serving", "is_stuck",
        "is_upgrading", "joining", "lacks", "replicas", "service", "speed", "up_since",
    )  # fmt: skip

    def __init__(self, service: Service, number: int, replicas: int, now: float) -> None:
        plan, end = service.plan, math.inf
        gpus = replicas * plan.gpus
        spec = Arrival(number, now, gpus, end, end, end, "completed", plan.tenant, plan.priority, plan.partition)
        super().__init__(service.fleet.number, spec, plan.stream, service.account, plan.nodes)
        self.service = service
        self.replicas = replicas
        self.is_serving = self.is_cold = self.is_upgrading = self.is_stuck = False
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
        self.failed_at = 0.0
        """When it last failed [s]."""
        self.flight: list[Cohort] = []
        """What was in flight then, while that is undetected, and will move."""
        self.joining: list[tuple[Bucket, float, float]] = []
        """What the nodes do that load while the others serve, from when to when [s]."""


class Service:
    """The gangs of a service in one replication, and the fluid of its requests."""

    def __init__(self, fleet: ClusterQueue, plan: ServicePlan, decoders: Service | None = None) -> None:
        self.fleet = fleet
        self.plan = plan
        self.decoders = decoders or self
        """Whose fluid its requests are."""
        self.kernel = fleet.kernel
        self.account = fleet.tally.account(
            -2 - plan.index, size_class(plan.gpus), plan.tenant, plan.priority, plan.partition
        )
        self.gangs: dict[ReplicaSlot, None] = {}
        self.narrow: dict[ReplicaSlot, None] = {}
        """Gangs that serve with fewer nodes, and wait for others."""
        self.hurt: dict[ReplicaSlot, int] = {}
        """Gangs with nodes that have lost GPUs and serve on, and the cause of the last loss."""
        self.waiting: dict[ReplicaSlot, None] = {}
        """Gangs in the queue."""
        self.slow: dict[ReplicaSlot, None] = {}
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
        self.readers = None if plan.readers is None else PrefillPool(fleet, plan.readers, self)
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
        self.queue: deque[Cohort] = deque()
        """Requests that wait for a replica, in their order."""
        self.backlog = 0.0
        """How many requests they are, in work."""
        self.history: deque[AdmissionSpan] = deque()
        """What was admitted last: as far back as answers take that are in flight."""
        self.reach = plan.whole * plan.batch[-1] / plan.capacity
        self.sent: list[tuple[float, float, float]] = []
        """Since when [s], for how long [s] and what each replica got that has failed, while that is undetected."""
        self.is_vain = False
        """Whether who comes now will have given up when it is his turn; then, the root cause of that."""
        self.root = self.failed = 0
        self.since = 0.0
        self.pieces = plan.rates.pieces()
        self.until, self.rate = next(self.pieces)
        self.busy = 0.0
        """Integral over time of the use of the replicas [s]."""
        self.sums = [0.0] * len(SERVICE_SUMS)
        self.flushed = 0.0
        self.renewing: list[ReplicaSlot] = []
        """Gangs that the rolling upgrade has still to come to."""
        self.restarting = 0
        left = plan.replicas
        for _ in range(plan.gangs):
            self._submit(min(plan.together, left), 0.0)
            left -= plan.together
        if plan.upgrade is not None:
            self.kernel.at(plan.upgrade[0], EventPriority.PHASE, self._on_upgrade, 1)
        if plan.scale is not None:
            self.looks = plan.rates.pieces()
            self.kernel.at(plan.scale[3], EventPriority.PHASE, self._on_scale, next(self.looks))

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
        sums, readers = self.sums, self.readers
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
        for pool in (self, readers):
            if pool is not None and pool.stuck:
                share = rate / (pool.heads + pool.stuck)
                rate -= share * pool.stuck
                if self.plan.loses:
                    sums[_FAILED] += share * pool.stuck * seconds
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
                self.sums[_REJECTED] += (rate - served) * (end - now)
                self._serve(now, end - now, served / capacity if capacity else 0.0, served * (end - now), now)
                return
            # Without a queue only those wait who have moved: they take the place of who comes, where there is no room.
            admitted = rate if rate <= capacity or self.plan.patience else 0.0
            part = self._pass_queue(now, end - now, admitted, capacity)
            self.sums[_REJECTED] += (rate - admitted) * part
            now += part

    def _turn_away(self) -> None:
        """Let all requests that wait be turned away."""
        for cohort in self.queue:
            self._count(cohort.asked, _REJECTED, cohort.count)
        self.queue.clear()
        self.backlog = 0.0

    def _pass_queue(self, now: float, seconds: float, rate: float, capacity: float) -> float:
        """Serve the first of those who wait, for as long as nothing changes for them; return for how long [s]."""
        queue, plan = self.queue, self.plan
        is_vain, seconds = self._judge_storm(rate, capacity, seconds)
        before = self.backlog
        if queue and queue[0].leaves <= now:
            cohort = queue.popleft()
            self.backlog -= cohort.count * cohort.work
            self._count(cohort.asked, _REJECTED, cohort.count)
            return 0.0
        first = queue[0] if queue else Cohort(now, math.inf, math.inf)
        # How fast the moment at which the next was asked moves on; without a queue who comes is the first.
        density = rate if not queue else first.count / first.span if first.span else math.inf
        pace = capacity / (density * first.work)
        served = capacity / first.work
        due = first.due if first.due == first.due else first.asked + plan.slack
        moves = pace if first.due != first.due else 0.0
        patience = plan.patience if plan.patience and not plan.asks and first.leaves == math.inf else math.inf
        gives_up = now >= first.asked + patience - _TINY and pace < 1
        left = density if gives_up else served
        came = rate * (plan.asks if is_vain else 1)
        joins = bool(queue) and self._joins(queue[-1], now, came, float(is_vain))
        # Who comes makes the last ones more: if these are the first too, they are there for longer.
        net = left - came * (joins and len(queue) == 1)
        part = min(seconds, first.count / net if net > 0 else math.inf, first.leaves - now)
        if gives_up:
            moves = 1.0
        for bound, speed in ((due, moves), (first.asked + patience, pace)):
            crossing = (bound - now) / (1 - speed) if speed != 1 else 0.0
            part = min(part, crossing if crossing > _TINY else math.inf)
        is_last = bool(queue) and net > 0 and part >= first.count / net
        in_time = now + part / 2 <= due + moves * part / 2 + _TINY
        if joins:
            queue[-1].span += part
            queue[-1].count += came * part
        elif came:
            queue.append(Cohort(now, part, came * part))
            queue[-1].lost, queue[-1].cause = float(is_vain), self.root
        self.backlog += came * part
        if is_vain:
            self.sums[_REJECTED] += rate * part
        self._serve_first(now, part, served * part, in_time=in_time)
        first = queue[0]
        taken = left * part
        self.backlog = max(self.backlog - taken * first.work, 0.0)
        if gives_up:
            self._count(first.asked, _REJECTED, (left - served) * part)
        if is_last or taken >= first.count:
            queue.popleft()
        else:
            first.asked += first.span * taken / first.count
            first.span -= first.span * taken / first.count
            first.count -= taken
        self.sums[_WAITED] += (before + self.backlog) / 2 * part
        return part

    def _joins(self, last: Cohort, now: float, rate: float, lost: float) -> bool:
        """Return whether who comes now at a rate is like the last who wait."""
        if not last.span or last.leaves < math.inf or last.lost != lost or not rate or last.asked < self.flushed:
            return False
        is_next = abs(last.asked + last.span - now) <= _TINY * max(now, 1.0)
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
            self.root = self.failed if self.live < self.wanted - 1e-6 and self.failed else self.fleet.demand
        self.is_vain = is_vain
        net = rate * (plan.asks if is_vain else 1) - capacity
        crossing = (most - self.backlog) / net if net else 0.0
        return is_vain, min(seconds, crossing) if crossing > _TINY else seconds

    def _serve_first(self, now: float, seconds: float, count: float, *, in_time: bool) -> None:
        """Serve the first of those who wait at full use."""
        first = self.queue[0]
        if first.lost < 1:
            self._serve(now, seconds, 1.0, count, first.asked, in_time=in_time, shares=first.shares)
        else:
            self._serve(now, seconds, 1.0, 0.0, first.asked)
            self._count(first.asked, _WASTED, count)
        if first.lost:
            self._waste(first.lost * seconds * self.fast_gpus, first.cause, now, now + seconds)

    def _serve(
        self, now: float, seconds: float, use: float, count: float, asked: float,
        *, in_time: bool = True, shares: Shares | None = None,
    ) -> None:  # fmt: skip
        """Serve requests that were asked at a moment, for some time at one use."""
        sums, readers = self.sums, self.readers
        own, theirs, attained, unsure = self._shared(use, seconds)
        _, tpot, share, doubt = self._at(own)
        if shares is None:
            # Both pools replay the same requests: their errors add up.
            shares = attained * share, unsure * share + attained * doubt
        if not in_time:
            shares = 0.0, 0.0
        self.busy += own * seconds
        sums[_BUSY] += own * seconds * self.fast_gpus
        sums[_IDLE] += (1 - own) * seconds * self.held_gpus
        self._answer_requests(asked, count, tpot, shares)
        while self.history and self.history[0].end < now - self.reach:
            self.history.popleft()
        others = readers.live if readers is not None else 0.0
        span = AdmissionSpan(now, now + seconds, own, theirs, count, self.live, others, asked, tpot, shares)
        self.history.append(span)

    def _answer_requests(self, asked: float, count: float, tpot: float, shares: Shares) -> None:
        """Count requests as served; a negative number as not served after all."""
        if count:
            self._count(asked, _SERVED, count)
            self._count(asked, _IN_SLO, count * shares[0])
            self._count(asked, _UNSURE, count * shares[1])
            self._count(asked, _USER, count * self.plan.output * tpot)

    def _count(self, asked: float, place: int, amount: float) -> None:
        """Add to a sum of the window in which requests were asked."""
        if asked >= self.flushed:
            self.sums[place] += amount
        else:
            self.fleet.tally.correct(self.plan.index, asked, place, amount)

    def _capacity(self) -> float:
        """Return the requests that are admitted: with readers of prompts, what the smaller pool carries [1/s]."""
        own, readers = self.live * self.plan.capacity, self.readers
        return own if readers is None else min(own, readers.live * readers.plan.capacity)

    def _shared(self, use: float, seconds: float = 0.0) -> tuple[float, float, float, float]:
        """Let readers work; return the use of both pools, the share of TTFT in SLO and its doubt."""
        readers = self.readers
        if readers is None:
            return use, 0.0, 1.0, 0.0
        served = use * self._capacity()
        own, theirs = (
            min(served / (each.live * each.plan.capacity), 1.0) if each.live else 0.0 for each in (self, readers)
        )
        readers.busy += theirs * seconds
        readers.sums[_BUSY] += theirs * seconds * readers.fast_gpus
        readers.sums[_IDLE] += (1 - theirs) * seconds * readers.held_gpus
        return own, theirs, *readers._at(theirs)[2:]

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
            for gang in self.narrow:
                self._charge_joining(gang, now)
            if self.readers is not None:
                self.readers.flush(now)
            self._put_down()
            self.sums = [0.0] * len(SERVICE_SUMS)
            self.flushed = now

    def _put_down(self) -> None:
        self.fleet.tally.serve(self.plan.index, self.flushed, self.sums)

    def close(self) -> None:
        """Count who waits, or stands still with a replica that has failed, at the end."""
        decoders = self.decoders
        for cohort in (*self.queue, *(cohort for gang in self.gangs if gang.is_stuck for cohort in self._moving(gang))):
            if cohort.lost < 1:
                decoders._count(cohort.asked, _WAITING, cohort.count)

    # -------------------------------------------------------------------------------------------- gangs that serve

    def _submit(self, replicas: int, now: float) -> None:
        """Let one more gang wait for nodes."""
        gang = ReplicaSlot(self, self.number, replicas, now)
        for info in self.own:
            self.fleet.begin_life(gang, info, 0, 0.0)
        self.number += 1
        self.fleet.number += 1
        self.gangs[gang] = None
        self.fleet.alive[gang] = None
        self.fleet.enqueue(gang, now)

    def start(self, gang: ReplicaSlot, now: float, ready: float) -> None:
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

    def _resume(self, gang: ReplicaSlot, now: float) -> None:
        """Let a standby, or the nodes that are left, serve after the interruption."""
        gang.stages.clear()
        gang.is_cold = False
        self._rise(gang, now, now + self.plan.interruption)

    def _rise(self, gang: ReplicaSlot, now: float, at: float) -> None:
        gang.stand_still(now)
        gang.stages.append((Bucket.INITIALIZE, at))
        gang.run_at = at
        self.kernel.at(at, EventPriority.PHASE, self._on_up, (gang, gang.epoch))

    def _on_up(self, call: ScheduledCall) -> None:
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
            self.kernel.at(now + plan.warm_time, EventPriority.PHASE, self._on_warm, (gang, gang.epoch))
        else:
            self._serve_with(gang, 1.0, now)
        self._end_upgrade(gang, now)

    def _live(self, gang: ReplicaSlot, now: float) -> None:
        """Let the processes of a gang run, until one of its own lives ends."""
        if gang.lives:
            gang.alive = now
            due = now + gang.lives[0][0] - gang.lived
            self.kernel.at(due, EventPriority.FAILURE, self.fleet.on_own, (gang, gang.epoch))

    def _on_warm(self, call: ScheduledCall) -> None:
        gang, epoch = call.argument
        if epoch == gang.epoch and gang.is_serving:
            now = self.kernel.now
            self._stop_serving(gang, now)
            self._serve_with(gang, 1.0, now)

    def _serve_with(self, gang: ReplicaSlot, speed: float, now: float) -> None:
        """Let a gang serve from now on, at a share of its capacity."""
        self.advance(now)
        gang.is_serving = True
        gang.speed = speed
        gang.up_since = now
        gang.from_busy = self.busy
        allocation, each = gang.allocation, self.fleet.per_node
        assert allocation is not None
        # Nodes that it lacks, and those that load, are not slow.
        gang.held = float((gang.nodes - max(gang.lacks, len(allocation.missing))) * each)
        gang.fast = min(speed * gang.nodes * each, gang.held)
        if speed < 1:
            self.slow[gang] = None
        self.heads += gang.replicas
        self.live += gang.replicas * speed
        self.held_gpus += gang.held
        self.fast_gpus += gang.fast

    def _stop_serving(self, gang: ReplicaSlot, now: float) -> None:
        self.advance(now)
        if gang.speed < 1:
            self._charge_slow(gang, now)
            del self.slow[gang]
        self._charge_joining(gang, now)
        gang.joining = []
        self.heads -= gang.replicas
        self.live -= gang.replicas * gang.speed
        self.held_gpus -= gang.held
        self.fast_gpus -= gang.fast
        if not self.heads:
            self.live = self.held_gpus = self.fast_gpus = 0.0
        gang.is_serving = False
        gang.since = now

    def _charge_slow(self, gang: ReplicaSlot, now: float) -> None:
        """Charge what a gang that is slower lacks to one that is not, as far as it was busy."""
        lacks = (gang.held - gang.fast) * (self.busy - gang.from_busy)
        if lacks > 0:
            start = max(gang.up_since, self.flushed)
            self.fleet.tally.charge(self.account, Bucket.DEGRADED, gang.why, gang.via, lacks, start, now)
        gang.from_busy = self.busy

    def _charge_joining(self, gang: ReplicaSlot, now: float) -> None:
        """Charge the nodes of a gang that load while the others serve."""
        for bucket, start, end in gang.joining:
            start, end = max(start, self.flushed), min(end, now)
            if end > start:
                gpu_s = (end - start) * gang.lacks * self.fleet.per_node
                self.fleet.tally.charge(self.account, bucket, gang.why, gang.via, gpu_s, start, end)

    # ------------------------------------------------------------------------------------- gangs that stop serving

    def leave(self, gang: ReplicaSlot, now: float) -> None:
        """Let a gang stop serving of which all know before: it takes no more requests, and ends those that it has."""
        if gang.is_serving:
            self._stop_serving(gang, now)
            gang.stand_still(now)
        gang.run_at = math.inf
        self._forget(gang, now)

    def _forget(self, gang: ReplicaSlot, now: float) -> None:
        """Let a gang be no part of what goes on, because it has lost its nodes; those without some GPU are repaired."""
        self.narrow.pop(gang, None)
        cause, cluster, allocation = self.hurt.pop(gang, 0), self.fleet.cluster, gang.allocation
        for node in cluster.narrow.intersection(allocation.nodes) if cause and allocation is not None else ():
            cluster.send_to_repair(node, cause, now)
        if gang.is_stuck:
            self._know(gang, now)
        self._end_upgrade(gang, now)

    def _end_upgrade(self, gang: ReplicaSlot, now: float) -> None:
        """Go on with a rolling upgrade when a gang has started anew, or is gone."""
        if gang.is_upgrading:
            gang.is_upgrading = False
            self.restarting -= 1
            self._renew(now)

    def fail(self, gang: ReplicaSlot, now: float, cause: int) -> None:
        """Let a gang fail: until that is known it gets more requests, and those that it had stand still."""
        if not gang.is_serving:
            return
        self.advance(now)
        self._stop_serving(gang, now)
        plan, decoders = self.plan, self.decoders
        decoders.failed = cause
        self.stuck += gang.replicas
        gang.is_stuck, gang.failed_at = True, now
        gang.flight = self._cut_off(gang, now, cause)
        flight = sum(cohort.count for cohort in gang.flight)
        decoders.sums[_STOPS] += 1
        decoders.sums[_IN_FLIGHT] += flight
        if plan.loses or plan.begins_anew:
            # Ages are even over the time that a request is in flight: half of each answer has been made.
            decoders.sums[_TOKENS_LOST] += flight * plan.whole * plan.output / 2 * (self is decoders)
            self._lose_work(gang, cause, now)
        if plan.loses:
            gang.flight = []

    def _residence(self, span: AdmissionSpan) -> float:
        """Return how long a request is in flight [s]."""
        use = max(self._use(span), 1 / self.steps)
        return self._at(use)[0] / (use * self.plan.capacity)

    def _longest(self, span: AdmissionSpan) -> float:
        """Return the mean time in flight of the requests that are met in flight: long ones are for longer [s]."""
        return self._residence(span) * self.plan.whole

    def _use(self, span: AdmissionSpan) -> float:
        return span.use

    def _share(self, gang: ReplicaSlot, span: AdmissionSpan) -> float:
        """Return the part of what was admitted that a gang got [-]."""
        return gang.replicas * gang.speed / span.live

    def _cut_off(self, gang: ReplicaSlot, now: float, cause: int) -> list[Cohort]:
        """Return what is in flight on a gang that fails: what it was given last, none of which is served after all."""
        flight, decoders, plan = [], self.decoders, self.plan
        spans = decoders.history
        since = max(now - self._residence(spans[-1]), gang.up_since) if spans else now
        for span in reversed(spans):
            if span.end <= since:
                break
            part = min((span.end - since) / (span.end - span.start), 1.0)
            if not span.requests:
                continue
            cohort = Cohort(span.asked, 0.0, span.requests * part * self._share(gang, span))
            decoders._answer_requests(span.asked, -cohort.count, span.tpot, span.shares)
            if plan.loses:
                decoders._count(span.asked, _FAILED, cohort.count)
            cohort.shares, cohort.due, cohort.work, cohort.cause = span.shares, self._due(now, span), plan.whole, cause
            if not plan.begins_anew:
                again = plan.recompute * plan.capacity
                cohort.work = plan.whole / 2 + again
                cohort.lost = again / cohort.work
            flight.append(cohort)
        return flight[::-1]

    def _due(self, now: float, span: AdmissionSpan) -> float:
        """Return until when requests that stand still from now on must go on to be in SLO [s]."""
        plan = self.plan
        if plan.begins_anew:
            return -math.inf
        return now + (plan.limit - span.tpot) * plan.output - plan.recompute

    def _lose_work(self, gang: ReplicaSlot, cause: int, now: float) -> None:
        """Charge the work for what was in flight: of what was done so long ago, the part that has not ended since."""
        spans = self.decoders.history
        longest = self._longest(spans[-1]) if spans else 0.0
        since = max(now - longest, gang.up_since)
        for span in reversed(spans):
            if span.end <= since:
                break
            start = max(span.start, since)
            age = now - (start + span.end) / 2
            self._waste(gang.fast * self._use(span) * (span.end - start) * (1 - age / longest), cause, start, span.end)

    def _waste(self, gpu_s: float, cause: int, start: float, end: float) -> None:
        """Charge work that was done in vain from a moment to another."""
        if gpu_s:
            charge = self.fleet.tally.charge
            charge(self.account, Bucket.PRODUCTIVE, 0, DIRECT, -gpu_s, start, end)
            charge(self.account, Bucket.LOST_WORK, cause, DIRECT, gpu_s, start, end)

    def _moving(self, gang: ReplicaSlot) -> list[Cohort]:
        """Return the requests that stand still with a gang: those in flight, and those that it got since."""
        came = [
            Cohort(start, seconds, gang.replicas * count)
            for start, seconds, count in self.sent
            if start >= gang.failed_at and count
        ]
        return [*gang.flight, *came]

    def _know(self, gang: ReplicaSlot, now: float) -> None:
        """Let the requests of a gang that is known to have failed move to others, behind those who wait."""
        self.advance(now)
        decoders, plan = self.decoders, self.plan
        for cohort in self._moving(gang):
            cohort.leaves = now + plan.patience if plan.patience and not plan.asks else math.inf
            if cohort.shares is not None and plan.recompute and not plan.begins_anew:
                decoders.sums[_RECOMPUTED] += cohort.count * plan.recompute
            decoders._count(cohort.asked, _MOVED, cohort.count)
            decoders.queue.append(cohort)
            decoders.backlog += cohort.count * cohort.work
        self.stuck -= gang.replicas
        gang.is_stuck, gang.flight = False, []
        if not self.stuck:
            self.sent.clear()

    def answer(self, gang: ReplicaSlot, now: float) -> None:
        """Let a gang that knows of a failure, and has let failed nodes go, recover."""
        was_serving = gang.is_stuck
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

    def keep(self, gang: ReplicaSlot, node: int, failure: FailureEvent) -> bool:
        """Keep a node that has lost a GPU, if its replicas can do without; return whether."""
        info, cluster = failure.info, self.fleet.cluster
        if info.by_course or info.source.fault != "gpu" or cluster.outages[node] > self.plan.most_lost:
            return False
        cluster.narrow.add(node)
        self.hurt[gang] = info.cause
        return True

    def _lost(self, gang: ReplicaSlot) -> int:
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

    def _refill(self, gang: ReplicaSlot, now: float) -> None:
        allocation = gang.allocation
        assert allocation is not None
        if allocation.missing:
            self._stop_serving(gang, now)
            self.fleet.replace(allocation, now)
            self._serve_with(gang, gang.speed, now)
        if not allocation.missing and not gang.joining:
            ready = max(allocation.ready_at, now)
            loaded = ready + self.plan.load
            up = loaded + self.plan.start
            gang.joining = [
                (Bucket.STARVED, now, ready), (Bucket.RESTORE, ready, loaded), (Bucket.INITIALIZE, loaded, up)
            ]  # fmt: skip
            self.kernel.at(up, EventPriority.PHASE, self._on_widen, (gang, gang.epoch))

    def _on_widen(self, call: ScheduledCall) -> None:
        gang, epoch = call.argument
        if epoch == gang.epoch and gang.is_serving:
            now = self.kernel.now
            self._stop_serving(gang, now)
            gang.lacks = 0
            del self.narrow[gang]
            self._resume(gang, now)

    # ---------------------------------------------------------------------------------- scaling, rolling upgrades

    def _on_scale(self, call: ScheduledCall) -> None:
        """Let there be as many gangs as the demand of a window ago asks for."""
        now, plan = self.kernel.now, self.plan
        assert plan.scale is not None
        target, least, most, window = plan.scale
        until, rate = call.argument
        self.advance(now)
        replicas = min(max(math.ceil(rate / (target * plan.capacity) - 1e-9), least), most)
        gangs = -(-replicas // plan.together)
        self.wanted = gangs * plan.together
        while len(self.gangs) < gangs:
            self._submit(plan.together, now)
        # Last in, first out; those that wait for nodes first.
        idle = [gang for gang in reversed(self.gangs) if gang in self.waiting]
        others = [gang for gang in reversed(self.gangs) if gang.allocation is not None]
        for gang in (idle + others)[: len(self.gangs) - gangs]:
            self._retire(gang, now)
        if until < math.inf:
            self.kernel.at(until + window, EventPriority.PHASE, self._on_scale, next(self.looks))

    def _retire(self, gang: ReplicaSlot, now: float) -> None:
        del self.gangs[gang]
        if gang in self.waiting:
            del self.waiting[gang]
            self.fleet.withdraw(gang, now)
        else:
            self.leave(gang, now)
            self.fleet.retire(gang, now)

    def _on_upgrade(self, call: ScheduledCall) -> None:
        """Begin a rolling upgrade."""
        assert self.plan.upgrade is not None
        self.renewing = list(self.gangs)
        self._renew(self.kernel.now)
        following: int = call.argument + 1
        self.kernel.at(following * self.plan.upgrade[0], EventPriority.PHASE, self._on_upgrade, following)

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


class PrefillPool(Service):
    """The replicas that read the prompts of a service, and hand them to those that decode: the fluid is that one's."""

    def advance(self, now: float) -> None:
        """Serve up to `now`, as the whole service does."""
        self.decoders.advance(now)

    def _put_down(self) -> None:
        """Put down what the replicas did; what became of requests the service puts down."""
        for place in (_BUSY, _IDLE):
            self.decoders.sums[place] += self.sums[place]

    def _longest(self, span: AdmissionSpan) -> float:
        """Return the time in which a prompt is read [s]."""
        del span
        return self.plan.recompute

    def _use(self, span: AdmissionSpan) -> float:
        return span.readers_use

    def _share(self, gang: ReplicaSlot, span: AdmissionSpan) -> float:
        """Return the part of all prompts that a gang got [-]."""
        return gang.replicas * gang.speed / span.readers_live

    def _due(self, now: float, span: AdmissionSpan) -> float:
        """Return until when prompts that stand still must be read to be in SLO [s]."""
        del span
        return now + self.plan.slack


def call_spares(fleet: ClusterQueue, services: Sequence[Service], now: float) -> None:
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
