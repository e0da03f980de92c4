"""The fluid of requests of a service: what is asked, waits, is served, late or turned away.

Between two changes of the replicas that serve, or of the demand, all of it is a closed form; a request is never an
event. :class:`RequestFluid` reads what serves from the :class:`ServingCapacity` of each pool of replicas.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ettrick.sim.engine.fleet_result import DIRECT, SERVICE_SUMS
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from ettrick.sim.engine.fleet_result import FleetAccumulator
    from ettrick.sim.engine.prepared import ServicePlan

(
    SECONDS, OFFERED, SERVED, IN_SLO, REJECTED, FAILED, MOVED, IN_FLIGHT, TOKENS_LOST, RECOMPUTED, CAPACITY,
    BELOW, WAITED, USER, REPLICAS, WANTED, FULL, STOPS, BUSY, IDLE, WASTED, WAITING, UNSURE,
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


class ServingCapacity:
    """What a pool of replicas can serve now, and what it has done since it was charged."""

    def __init__(self, plan: ServicePlan) -> None:
        self.plan = plan
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
        """How many requests they are, in work."""
        self.history: deque[AdmissionSpan] = deque()
        """What was admitted last: as far back as answers take that are in flight."""
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
            self.count(cohort.asked, REJECTED, cohort.count)
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
            self.count(cohort.asked, REJECTED, cohort.count)
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
            self.sums[REJECTED] += rate * part
        self._serve_first(now, part, served * part, in_time=in_time)
        first = queue[0]
        taken = left * part
        self.backlog = max(self.backlog - taken * first.work, 0.0)
        if gives_up:
            self.count(first.asked, REJECTED, (left - served) * part)
        if is_last or taken >= first.count:
            queue.popleft()
        else:
            first.asked += first.span * taken / first.count
            first.span -= first.span * taken / first.count
            first.count -= taken
        self.sums[WAITED] += (before + self.backlog) / 2 * part
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
            self.root = self.failed if self.decoders.live < self.decoders.wanted - 1e-6 and self.failed else self.demand
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
            self.count(first.asked, WASTED, count)
        if first.lost:
            self.waste(self.account, first.lost * seconds * self.decoders.fast_gpus, first.cause, now, now + seconds)

    def _serve(
        self, now: float, seconds: float, use: float, count: float, asked: float,
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
        self.answer(asked, count, tpot, shares)
        while self.history and self.history[0].end < now - self.reach:
            self.history.popleft()
        live, readers_live = self.decoders.live, self.readers.live if self.readers is not None else 0.0
        self.history.append(
            AdmissionSpan(now, now + seconds, use, readers_use, count, live, readers_live, asked, tpot, shares)
        )

    def answer(self, asked: float, count: float, tpot: float, shares: Shares) -> None:
        """Count requests as served; a negative number as not served after all."""
        if count:
            self.count(asked, SERVED, count)
            self.count(asked, IN_SLO, count * shares[0])
            self.count(asked, UNSURE, count * shares[1])
            self.count(asked, USER, count * self.plan.output * tpot)

    def count(self, asked: float, place: int, amount: float) -> None:
        """Add to a sum of the window in which requests were asked."""
        if asked >= self.flushed:
            self.sums[place] += amount
        else:
            self.tally.correct(self.plan.index, asked, place, amount)

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

    def move(self, cohort: Cohort) -> None:
        """Move requests to other replicas, behind those who wait."""
        self.count(cohort.asked, MOVED, cohort.count)
        self.queue.append(cohort)
        self.backlog += cohort.count * cohort.work

    def put_down(self, now: float) -> None:
        """Put down what has been since the last time, which lies in one window."""
        if now > self.flushed:
            self.tally.serve(self.plan.index, self.flushed, self.sums)
            self.sums = [0.0] * len(SERVICE_SUMS)
            self.flushed = now
