"""Who starts now: the queue, backfill with reservations, topology, quotas and preemption.

The planner knows what a scheduler knows: sizes, time limits, priorities, what runs and since when. It never sees how
long a job will really run. It counts nodes by *pool*, the nodes that are alike to it (partitions, domain, maintenance
windows); which of them a job gets is chosen by the engine. It holds no clock and draws nothing.

The engine reports what happens (`enqueue`, `withdraw`, `ended`, `capacity`, `seated`), and after all events of an
instant calls :meth:`Planner.plan`; jobs that it returns have been given their nodes (`job.where`, `job.share`). The
victims that it names in ``preemptions`` are stopped by the engine; where that is at once, it plans again.
:meth:`Planner.wake` says when a pass is due though nothing happens.

References
----------
D. Feitelson, A. Mu'alem, IEEE TPDS 12(6), 2001 (EASY and conservative backfill); slurm.conf(5), bf_* and Preempt*;
Kueue, concepts/preemption and concepts/cluster_queue. Unlike EASY's authors, ties of expected ends all count.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ettrick.sim.policies.claims import Reservations
from ettrick.sim.policies.queue import INF, AvailabilityProfile, Quota, SharedNode, next_multiple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.policies.queue import Place, PlannerJob, PlannerPool, QueueSegment
    from ettrick.sim.policies.scheduler import Scheduler

_TOO_FEW = ("too_few", "exempt")
"""Reasons of idle nodes that a reservation takes the place of, once it keeps a job from them."""


class Planner(Reservations):
    """The state of the scheduler of one cluster.

    Parameters
    ----------
    scheduler
        Its keys.
    pools
        The nodes; all of them are free.
    gpus
        GPUs of a node.
    tiers
        PriorityTier of each partition.
    quotas
        What each tenant may use; jobs name tenants by position.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Sequence[PlannerPool],
        *,
        gpus: int = 1,
        tiers: Sequence[int] = (0,),
        quotas: Sequence[Quota] = (Quota(),),
    ) -> None:
        super().__init__(scheduler, pools, gpus=gpus, tiers=tiers, quotas=quotas)
        keys = scheduler
        self._passes = keys.head == "passes"
        self._depth = INF if keys.depth == "all" else keys.depth
        self._tested = INF if keys.tested == "all" else keys.tested
        self._window = INF if keys.window == "all" else keys.window
        self._moves = self._has_quota or keys.order.age.weight > 0 or keys.order.fair_share.weight > 0
        alone = all(len(of) == 1 for of in self._of) and all(len(pool.partitions) == 1 for pool in pools)
        self._deep = self._passes and (self._depth > 1 or (self._depth == 1 and (self._windows or not alone)))
        may_keep = not (self._preempts or self._moves or keys.backfill_cycle or keys.cycle)
        self._exact = may_keep and self._deep and self._depth == self._tested == self._window == INF
        # Of the last pass.
        self._fresh: list[PlannerJob] = []
        self._heads: list[PlannerJob] = []
        self._due = -INF
        self._blocked: set[int] = set()
        self._left: defaultdict[int, float] = defaultdict(lambda: self._depth)
        self._tests: float = 0
        self._tail: tuple[Any, ...] = ()
        self._planned: list[tuple[float, int, PlannerJob]] = []
        self._why = "no_queue"

    # ----------------------------------------
    # What happens to jobs and nodes.

    def enqueue(self, job: PlannerJob, now: float) -> None:
        """Put a job that is eligible into the queue."""
        self._number(job)
        self._exact &= job.nodes > 0
        age = self.keys.order.age
        capped = bool(age.weight) and now - job.eligible >= age.full
        self._add(job, capped)
        if age.weight and not capped:
            heapq.heappush(self._caps, (job.eligible + age.full, job.serial, job))
        self._fresh.append(job)

    def withdraw(self, job: PlannerJob) -> None:
        """Take a job out of the queue; what it has claimed is free again."""
        self._leave(job)
        self._unclaim(job)
        self._dirty = True

    def started(self, job: PlannerJob, now: float, place: Place) -> None:
        """Give a job its nodes; the planner calls it for those that it starts."""
        if not job.serial:
            self._number(job)
        job.start = now
        job.end = now + job.limit
        if isinstance(place, SharedNode):
            job.share = place
            self._into(place, job)
        elif not job.nodes:
            ((pool, _),) = place
            self.free[pool] -= 1
            self.sharing += 1
            self.stranded += self.gpus
            self._into(SharedNode(next(self._serials), pool, self.gpus), job)
        else:
            job.where = place
            for pool, nodes in place:
                self.free[pool] -= nodes
                self.ends[pool].add((self._rounded(job.end), job.serial, nodes))
        self._use(job, now, 1)
        self.running[self._class(job)].start(job)

    def ended(self, job: PlannerJob, now: float) -> None:
        """Free the nodes of a job that ran; those that were taken from others are claimed."""
        expected = self._rounded(job.end) == now
        freed: list[tuple[int, int]] = []
        if job.share is not None:
            share = job.share
            job.share = None
            self._out_of(share, job)
            if not share.jobs:
                freed = [(share.pool, 1)]
        else:
            for pool, nodes in job.where:
                self.ends[pool].remove((self._rounded(job.end), job.serial, nodes))
                freed.append((pool, nodes))
            job.where = ()
        for pool, nodes in freed:
            self.free[pool] += nodes
        preemptor = job.preemptor
        if preemptor is not None:
            job.preemptor = None
            preemptor.victims.pop(job, None)
        self._top_up()
        self._use(job, now, -1)
        self.running[self._class(job)].end(job)
        if not (self._exact and expected and not self.sharing):
            self._dirty = True

    def capacity(self, delta: int, now: float, pool: int = 0) -> None:
        """Note nodes that nobody has: lost, drained (below zero), returned (above)."""
        self.free[pool] += delta
        for job in reversed(self._claimers):
            if self.free[pool] >= 0:
                break
            taken = min(job.claim.get(pool, 0), -self.free[pool])
            if taken:
                job.claim[pool] -= taken
                self.free[pool] += taken
        assert self.free[pool] >= 0, f"at {now} pool {pool} has {self.free[pool]} free nodes"
        self._top_up()
        self._dirty = True

    def seated(self, job: PlannerJob, place: tuple[tuple[int, int], ...]) -> None:
        """Note which nodes a running job has now: no reservation counts on those that it has lost."""
        for pool, nodes in job.where:
            self.ends[pool].remove((self._rounded(job.end), job.serial, nodes))
        job.where = place
        for pool, nodes in place:
            self.ends[pool].add((self._rounded(job.end), job.serial, nodes))
        self._dirty = True

    # ----------------------------------------
    # A pass.

    def plan(self, now: float) -> list[PlannerJob]:
        """Return who starts now; each has its nodes."""
        self.preemptions = []
        cycle = self.keys.cycle
        if cycle and next_multiple(now, cycle) > now:
            due = now if self._fresh or self._dirty else max(self._wakes, now)
            self._wakes = next_multiple(due, cycle) if due < INF else INF
            return []
        if not (self._dirty or self._fresh or now >= self._wakes or (self._planned and self._planned[0][0] <= now)):
            return []
        timed = now >= self._wakes
        if timed or self._dirty:
            self._wakes = INF
        self._age(now)
        tick = self.keys.backfill_cycle
        if not self._passes:
            starts = self._main(now, again=self._dirty or timed)
        elif not tick:
            starts = self._backfill(now, full=self._dirty or timed)
        else:
            changed = self._dirty or bool(self._fresh) or timed
            starts = self._main(now, again=changed)
            if changed and self.queued and self._due == -INF:
                self._due = next_multiple(now, tick)
            if self._due <= now and self._due > -INF:
                self._due = -INF
                starts += self._backfill(now, full=True)
            if self._due > -INF:
                self._wakes = min(self._wakes, self._due)
        if self._moves and self.queued:
            self._wakes = min(self._wakes, self._turn(now))
        return starts

    def wake(self, now: float) -> float:
        """Return when the next pass is due though nothing happens [s]; infinite for never."""
        return max(self._wakes, now)

    def first(self, now: float) -> tuple[PlannerJob | None, int]:
        """Return the first job of the queue, if only nodes are in its way, and how many it lacks."""
        lanes = [lane for lane in self.lanes.values() if lane]
        if not lanes:
            return None, 0
        lane = min(lanes, key=lambda lane: self._rank(lane, lane.blocks[0][0], now))
        job: PlannerJob = lane.blocks[0][0][-1]
        return (job, job.nodes - self._count(job)) if self._admits(job) else (None, 0)

    def reason(self) -> dict[str, int]:
        """Return why GPUs are idle after the last pass: GPUs by reason; those that are down or drained not counted."""
        idle = sum(self.free) * self.gpus + self.stranded
        if not self._claimers:
            return {self._why: idle} if idle else {}
        claimed = sum(nodes for job in self._claimers for nodes in job.claim.values()) * self.gpus
        found = {self._why: idle, "claim": claimed}
        return {reason: count for reason, count in found.items() if count}

    def idle(self, pool: int) -> int:
        """Return the nodes of a pool that nobody uses, those that are claimed too."""
        free = self.free[pool]
        return free + sum(job.claim.get(pool, 0) for job in self._claimers) if self._claimers else free

    def _main(self, now: float, *, again: bool) -> list[PlannerJob]:
        """Start jobs in order; the first that cannot start blocks its partition, one without quota its tenant."""
        starts: list[PlannerJob] = []
        before = [] if again or self._preempts else self._heads
        self._heads = []
        self._shadows = [INF] * len(self.pools)
        self._profiles = []
        self._hold_claims()
        self._dirty = False
        self._fresh = []
        lanes = [lane for lane in self.lanes.values() if lane]
        self._why = "no_queue"
        while lanes:
            lane = (
                lanes[0] if len(lanes) == 1 else min(lanes, key=lambda lane: self._rank(lane, lane.blocks[0][0], now))
            )
            job: PlannerJob = lane.blocks[0][0][-1]
            place = None
            admitted = self._admits(job)
            if job not in before:
                place = self._find(job, now) if admitted else None
                if place is None:
                    place = self._take_over(job, now, admitted)
            if place is not None:
                self._leave(job)
                self._begin(job, now, place)
                starts.append(job)
                if not lane:
                    lanes.remove(lane)
                continue
            if self._why == "no_queue":
                self._why = self._blocked_by(job, now, admitted)
            self._heads.append(job)
            if admitted or job.victims or job.claim:
                self.held[job.tenant] += self._more(job)
            lanes = [
                other
                for other in lanes
                if other.partition != lane.partition or (not admitted and other.tenant != lane.tenant)
            ]
        for job in [each for each in self._claimers if not (each.victims or self._passes)]:
            # Its victims may be ahead of it in the queue, and block it there.
            place = self._find(job, now) if self._admits(job) else None
            if place is not None:
                self._leave(job)
                self._begin(job, now, place)
                starts.append(job)
        return starts

    def _backfill(self, now: float, *, full: bool) -> list[PlannerJob]:
        """Start whoever can, in order, beside the reservations of those that cannot."""
        starts: list[PlannerJob] = []
        if not (self._exact or self._preempts or self.stranded or any(self.free)):
            self._heads, self._fresh, self._dirty = [], [], False
            self._blocked = set()
            self._shadows = [INF] * len(self.pools)
            self._left = defaultdict(lambda: self._depth)
            self._tests = self._tested
            self._why = "too_few"
            return starts
        waiting = (job for job in self._fresh if job.lane is not None)
        fresh = sorted(waiting, key=lambda job: self._rank(job.lane, job.entry, now))
        old = not (full or self._moves or self._claimers) and self._still_valid(fresh, now)
        if not old:
            self._heads = []
            self._blocked = set()
            self._shadows = [INF] * len(self.pools)
            self._hold_claims()
            self._why = "no_queue"
            self._planned = []
            self._left = defaultdict(lambda: self._depth)
            self._tests = self._tested
            if self._deep:
                self._profiles = self._forecast(now)
        elif self._deep:
            for profile in self._profiles:
                profile.forget(now)
            while self._planned and self._planned[0][0] <= now:
                *_, job = heapq.heappop(self._planned)
                self._leave(job)
                self.started(job, now, tuple(job.target.items()))
                job.target = {}
                starts.append(job)
        self._dirty = False
        self._fresh = []
        most = self._most()
        refused: dict[tuple[float, ...], bool] = {}
        """Shapes of jobs that fit nowhere, and whether not even within the window; what is free only becomes less."""
        may_change = self._exact or self._windows or self._has_quota
        for job in fresh if old else self._in_order(now):
            self._tests -= 1
            if self._tests < 0:
                break
            if job.size > most and self._left[job.partition] <= 0 and not self._preempts:
                self._tail = job.entry
                continue
            shape = job.shape
            has_claims = bool(job.claim) or job.share is not None
            if refused.get(shape) and not has_claims and self._left[job.partition] > 0:
                self._left[job.partition] -= 1
                continue
            place = None
            admitted = self._admits(job)
            if admitted and (has_claims or shape not in refused):
                place = self._find(job, now)
                if place is None and not (has_claims or self.keys.wait):
                    refused[shape] = False
            was_blocked = bool(self._blocked)
            if place is None:
                place = self._take_over(job, now, admitted)
                if self._claimers:
                    refused.clear()
            if place is not None:
                starts.append(job)
                self._begin(job, now, place)
                most = self._most()
                if not job.nodes:
                    refused.clear()  # the node that it has may have room for others
                continue
            if self._why == "no_queue":
                self._why = self._blocked_by(job, now, admitted)
            elif was_blocked and self._why in _TOO_FEW and admitted and self._count(job) >= max(job.nodes, 1):
                self._why = "reservation"
            self._tail = job.entry
            reserves = admitted and self._left[job.partition] > 0
            if reserves or job.victims or job.claim:
                self.held[job.tenant] += self._more(job)
            if reserves:
                self._left[job.partition] -= 1
                self._heads.append(job)
                self._blocked.add(job.partition)
                if not self._reserve(job, now) and was_blocked and shape in refused and not may_change:
                    refused[shape] = True
            if not (self._exact or self._preempts or self.stranded or any(self.free)):
                break
        for job in starts:
            if job.lane is not None:
                self._leave(job)
        return starts

    def _still_valid(self, fresh: list[PlannerJob], now: float) -> bool:
        """Return whether the reservations stand, and only jobs behind them are new."""
        if not self._deep:
            behind = (
                job.entry > head.entry for head in self._heads for job in fresh if job.partition == head.partition
            )
            return all(now <= shadow for shadow in self._shadows) and all(behind)
        if not self._profiles or not self._exact or len([lane for lane in self.lanes.values() if lane]) > 1:
            return False
        if any(ends and ends.blocks[0][0][0] <= now for ends in self.ends):
            return False
        return not fresh or not self._tail or fresh[0].entry > self._tail

    def _in_order(self, now: float) -> Iterator[PlannerJob]:
        """Return the queued jobs in order; those larger than what is free are left out in blocks."""
        lanes = [lane for lane in self.lanes.values() if lane]
        if len(lanes) == 1:
            return self._walk(lanes[0], now)
        return (job for _, job in heapq.merge(*(self._ranked(lane, now) for lane in lanes)))

    def _ranked(self, lane: QueueSegment, now: float) -> Iterator[tuple[tuple[float, ...], PlannerJob]]:
        return ((self._rank(lane, job.entry, now), job) for job in self._walk(lane, now))

    def _walk(self, lane: QueueSegment, now: float) -> Iterator[PlannerJob]:
        may_skip = (len(self.lanes) == 1 or self._tested == INF) and not self._preempts
        pool = self._of[lane.partition][0]
        for block, (size, limit) in lane.parts():
            if may_skip and self._left[lane.partition] <= 0:
                outlasts = not (self._deep or self.sharing) and now + limit > self._shadows[pool]
                if size > self._most() or (outlasts and size > max(self._extras[pool], 0) * self.gpus):
                    self._tests -= len(block)
                    if self._why in _TOO_FEW and size <= self._most():
                        self._why = "reservation"
                    if self._tests <= 0:
                        return
                    continue
            for entry in block:
                yield entry[-1]

    def _most(self) -> int:
        """Return the GPUs of the largest job that could start, at most."""
        free = sum(self.free)
        return free * self.gpus if free else min(self.stranded, self.gpus - 1)

    def _begin(self, job: PlannerJob, now: float, place: Place) -> None:
        """Start a job beside the reservations of this pass."""
        claimed = job.claim
        if job in self._claimers:  # a higher job that waits counted on neither its nodes nor its victims
            self.held[job.tenant] -= job.size
            self._wakes = min(self._wakes, now + self.keys.preempt.exempt)
            self._dirty = True
        self._unclaim(job)
        end = self._rounded(now + job.limit)
        for pool, nodes in claimed.items() if self._profiles and end < INF else ():
            self._profiles[pool].give(end, INF, nodes)
        taken: list[tuple[int, int, float]] = []  # pool, nodes, since when
        if isinstance(place, SharedNode):
            if end > place.end:
                taken = [(place.pool, 1, max(place.end, math.nextafter(now, INF)))]
        else:
            taken = [(pool, nodes - claimed.get(pool, 0), now) for pool, nodes in place]
        for pool, nodes, since in taken:
            if self._profiles and nodes > 0 and end > since:
                self._profiles[pool].take(since, end, nodes)
            if since <= self._shadows[pool] < end:
                self._extras[pool] -= nodes
        self.started(job, now, place)
        self._top_up()

    def _blocked_by(self, job: PlannerJob, now: float, admitted: bool) -> str:
        """Return why nodes idle, from the first job that cannot start."""
        if not admitted:
            return "quota"
        if self._preempts and self.keys.preempt.who != "none" and now < self._could_free(job, now) < INF:
            return "exempt"
        free = self._count(job)
        if free >= max(job.nodes, 1):
            return "drain" if self._windows else "wrong_places"
        return "wrong_places" if free * self.gpus + self.stranded >= job.size else "too_few"

    # ----------------------------------------
    # Reservations.

    def _reserve(self, job: PlannerJob, now: float) -> bool:
        """Keep the earliest place and time for a job that is passed; return whether there is one within the window.

        What a job has claimed is kept for it already.
        """
        nodes = max(job.nodes, 1)
        if job in self._claimers:
            return True
        if not self._deep:
            pool = self._of[job.partition][0]
            shadow, extra = self._shadow(pool, nodes, now)
            if shadow - now <= self._window and shadow < INF:
                self._shadows[pool] = shadow
                self._extras[pool] = extra if self.keys.extra else 0
            return True
        pools = self._of[job.partition]
        if len(pools) == 1:
            pool = pools[0]
            start = self._profiles[pool].earliest(nodes, job.limit, now + self._window + 1.0)
            place: Any = ((pool, nodes),)
        else:
            start, place = self._earliest(job, nodes, pools)
        if start == INF or start - now > self._window:
            return False
        for pool, count in place:
            self._profiles[pool].take(start, start + job.limit, count)
            self._shadows[pool] = min(self._shadows[pool], start)
        if self._exact:
            job.target = dict(place)
            heapq.heappush(self._planned, (start, len(self._heads), job))
        return True

    def _shadow(self, pool: int, nodes: int, now: float) -> tuple[float, int]:
        """Return when `nodes` are expected to be free, and how many more are then; all that end at once count."""
        have: float = self.free[pool] - sum(nodes for _, nodes in self._awaited(pool))
        shadow = INF
        for block, count in self.ends[pool].parts():
            if shadow == INF and have + count < nodes:
                have += count
                continue
            for end, _, freed in block:
                if end > shadow:
                    return shadow, int(have - nodes)
                have += freed
                if have >= nodes and shadow == INF:
                    shadow = max(end, now)
        return shadow, int(have - nodes)

    def _earliest(self, job: PlannerJob, nodes: int, pools: list[int]) -> tuple[float, Any]:
        """Return when a job can start, and where, if its nodes are of several pools."""
        times = sorted({time for pool in pools for time in self._profiles[pool].times})
        for time in times:
            end = time + job.limit
            rooms = {pool: max(self._profiles[pool].least(time, end), 0) for pool in pools}
            if (place := self._choose(job, pools, rooms, INF)) is not None:
                return time, place
        return INF, ()

    def _forecast(self, now: float) -> list[AvailabilityProfile]:
        """Return the free nodes of each pool from now on, by time limits and maintenance windows."""
        profiles: list[AvailabilityProfile] = []
        for pool, free, ends in zip(self.pools, self.free, self.ends, strict=True):
            profile = AvailabilityProfile(now, free, ends)
            for start, stop in pool.windows:
                if stop > now:
                    profile.take(max(start, now), stop, self.total)  # more than there is: nobody may
            for since, nodes in self._awaited(len(profiles)):
                profile.take(max(since, now), INF, nodes)
            profiles.append(profile)
        return profiles

    def _awaited(self, pool: int) -> Iterator[tuple[float, int]]:
        """Yield since when [s] nodes of a pool are those of jobs that have claimed them, and now their victims'."""
        for job in self._claimers:
            nodes = job.target.get(pool, 0) - job.claim.get(pool, 0)
            if nodes > 0 and job.victims:
                yield max(self._rounded(victim.end) for victim in job.victims), nodes
