"""Where a job fits, and who has to go for it: free nodes, quotas, the order of the queue, preemption and claims.

The lower half of :mod:`ettrick.sim.policies.planner`, which decides when these are asked.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ettrick.sim.policies.queue import (
    INF,
    AvailabilityProfile,
    PlannerJob,
    PlannerPool,
    QueueSegment,
    Quota,
    RunningClass,
    SharedNode,
    SortedBlocks,
    next_multiple,
    nodes_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.sim.policies.queue import Place
    from ettrick.sim.policies.scheduler import Scheduler


class Reservations:
    """Who has which nodes, and who waits for which; parameters as of the planner."""

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Sequence[PlannerPool],
        *,
        gpus: int = 1,
        tiers: Sequence[int] = (0,),
        quotas: Sequence[Quota] = (Quota(),),
    ) -> None:
        self.keys = keys = scheduler
        self.pools = tuple(pools)
        self.gpus = gpus
        self.tiers = tuple(tiers)
        self.quotas = tuple(quotas)
        self.free = [pool.nodes for pool in pools]
        self.ends = [SortedBlocks(nodes_of) for _ in pools]
        self.shares: list[list[list[tuple[float, int, SharedNode]]]] = [[[] for _ in range(gpus)] for _ in pools]
        """By pool and free GPUs: heaps of (-end, number, share), in which outdated entries stay until they come up."""
        self.sharing = self.stranded = 0
        """Shared nodes, and their free GPUs."""
        self.lanes: dict[tuple[int, int, bool], QueueSegment] = {}
        self.queued = 0
        self.running: defaultdict[float, RunningClass] = defaultdict(RunningClass)
        self.usage = [0] * len(quotas)
        """GPUs that each tenant has."""
        self.held = [0] * len(quotas)
        """GPUs that its waiting gangs hold of its quota."""
        self.preemptions: list[tuple[PlannerJob, list[PlannerJob]]] = []
        """Who is to be stopped for whom, by the last pass."""
        self.total = sum(pool.nodes for pool in pools)
        # What follows from the keys.
        self._packs = keys.pack is not None and len({pool.domain for pool in pools}) > 1
        self._preempts = keys.preempt.mode != "none"
        self._has_quota = any(quota.nominal < INF for quota in quotas)
        self._lent = sum(min(quota.lend, quota.nominal) for quota in quotas)
        self._by_tenant = self._has_quota or keys.order.fair_share.weight > 0
        self._windows = any(pool.windows for pool in pools)
        self._of = [
            sorted(
                (at for at, pool in enumerate(pools) if partition in pool.partitions),
                key=lambda at: (not pools[at].windows, len(pools[at].partitions), at),
            )
            for partition in range(len(tiers))
        ]
        """Pools of each partition; those that others cannot use come first."""
        self._widest = [
            max(self._by_domain(self._of[part], self.free).values(), default=0) for part in range(len(tiers))
        ]
        # Of the last pass: whether another is due, and what it has reserved.
        self._dirty = True
        self._wakes = INF
        self._deep = False
        """Whether reservations are kept in profiles, and not as one shadow."""
        self._shadows = [INF] * len(self.pools)
        self._extras = [0] * len(self.pools)
        self._profiles: list[AvailabilityProfile] = []
        self._serials = itertools.count(1)
        self._caps: list[tuple[float, int, PlannerJob]] = []
        self._claimers: dict[PlannerJob, None] = {}
        self._past = [0.0] * len(quotas)
        self._past_at = 0.0
        self._factors = [1.0] * len(quotas)
        self._factors_until = -INF

    # ----------------------------------------
    # Where a job fits.

    def _find(self, job: PlannerJob, now: float) -> Place | None:
        """Return where a job can start now, beside what is reserved; nothing if nowhere."""
        pools = self._of[job.partition]
        if not job.nodes:
            return self._find_share(job, now, pools)
        if len(pools) == 1:
            pool = pools[0]
            return ((pool, job.nodes),) if self._room(job, pool, now) >= job.nodes else None
        return self._choose(job, pools, {pool: self._room(job, pool, now) for pool in pools}, now)

    def _room(self, job: PlannerJob, pool: int, now: float) -> int:
        """Return the nodes of a pool that a job could have from now on, for all of its time limit."""
        free = self.free[pool]
        end = now + job.limit
        if self._windows:
            for start, stop in self.pools[pool].windows:
                if start < end and now < stop:
                    self._wakes = min(self._wakes, stop)
                    return 0
        shadow = self._shadows[pool]
        if shadow < INF:
            if self._deep:
                fits = self.keys.extra or end <= shadow
                free = min(free, max(self._profiles[pool].least(now, end), 0)) if fits else 0
            elif end > shadow:
                free = min(free, self._extras[pool])
        return free + job.claim.get(pool, 0) if job.claim else free

    def _choose(self, job: PlannerJob, pools: list[int], rooms: dict[int, int], now: float) -> Place | None:
        """Return how many nodes of each pool a job takes, of `rooms`; nothing if there are too few in right places."""
        nodes = max(job.nodes, 1)
        if sum(rooms.values()) < nodes:
            return None
        if self._packs:
            domains = self._by_domain(pools, rooms)
            single = min(((room, domain) for domain, room in domains.items() if room >= nodes), default=None)
            if single is not None:
                pools = [pool for pool in pools if self.pools[pool].domain == single[1]]
            elif self.keys.need == "required":
                return None
            elif now < job.eligible + self.keys.wait and nodes <= self._widest[job.partition]:
                self._wakes = min(self._wakes, job.eligible + self.keys.wait)
                return None
            if single is None:
                pools = sorted(
                    pools, key=lambda pool: (-domains[self.pools[pool].domain], self.pools[pool].domain, pool)
                )
        place = []
        for pool in pools:
            taken = min(rooms[pool], nodes)
            if taken > 0:
                place.append((pool, taken))
                nodes -= taken
        return tuple(place)

    def _by_domain(self, pools: Iterable[int], rooms: Any) -> dict[int, int]:
        """Return the nodes of each domain."""
        found: dict[int, int] = defaultdict(int)
        for pool in pools:
            found[self.pools[pool].domain] += max(rooms[pool], 0)
        return found

    def _find_share(self, job: PlannerJob, now: float, pools: list[int]) -> Place | None:
        """Return a node with room for a job below a node, or a free one."""
        spread = self.keys.share_nodes == "spread"
        claimed = job.share
        if claimed is not None and claimed.free >= job.gpus:
            return claimed
        fresh = self._choose(job, pools, {pool: self._room(job, pool, now) for pool in pools}, now)
        if spread and fresh is not None:
            return fresh
        if self.stranded >= job.gpus:
            sizes = range(job.gpus, self.gpus)
            for free in reversed(sizes) if spread else sizes:
                for pool in pools:
                    share = self._first_share(pool, free)
                    if share is not None and self._may_join(job, share, now):
                        return share
        return fresh

    def _may_join(self, job: PlannerJob, share: SharedNode, now: float) -> bool:
        """Return whether a job may keep a shared node for all of its time limit."""
        end = now + job.limit
        if self._windows and any(start < end and now < stop for start, stop in self.pools[share.pool].windows):
            return False
        shadow = self._shadows[share.pool]
        if shadow == INF or end <= share.end:
            return True
        if not self._deep:
            return end <= shadow or share.end > shadow or self._extras[share.pool] >= 1
        fits = self.keys.extra or end <= shadow or share.end > shadow
        return fits and self._profiles[share.pool].least(max(share.end, math.nextafter(now, INF)), end) >= 1

    def _first_share(self, pool: int, free: int) -> SharedNode | None:
        """Return the shared node with so many free GPUs that comes first by `share_tie`."""
        heap = self.shares[pool][free]
        while heap:
            key, _, share = heap[0]
            stays = share.claimed is None and any(job.preemptor is None for job in share.jobs)
            if stays and share.free == free and key == self._tie(share):
                return share
            heapq.heappop(heap)
        return None

    def replacements(self, job: PlannerJob, is_near: bool) -> list[int]:
        """Return the pools from which a running job may have a lost node replaced; those of its domains come first."""
        homes = {self.pools[pool].domain for pool, _ in job.where}
        pools = self._of[job.partition]
        if is_near or self.keys.need == "required":
            return [pool for pool in pools if self.pools[pool].domain in homes]
        return sorted(pools, key=lambda pool: self.pools[pool].domain not in homes)

    # Preemption and claims.

    def victims(self, job: PlannerJob, now: float) -> list[PlannerJob]:
        """Return whom to stop so that a job can start: nobody if even all candidates together would not do.

        Candidates have run for the exempt time and have not been preempted too often. Those of tenants that have
        borrowed what the job's tenant is entitled to go first, then those of strictly lower classes (`_may_stop`).
        """
        keys = self.keys.preempt
        reclaims = keys.reclaim != "none" and self._has_quota and self._is_within_quota(job)
        if reclaims:
            self._wakes = min([self._wakes, *(group.next_ready(now, keys.exempt) for group in self.running.values())])
        elif keys.who == "none" or self._could_free(job, now) > now:
            return []
        domains: list[int | None] = [None]
        if self._packs and keys.victims == "reorder" and self.keys.need == "required":
            domains = list({self.pools[pool].domain: None for pool in self._of[job.partition]})
        best: list[PlannerJob] = []
        for domain in domains:
            chosen = self._lifted(self._candidates(job, now, domain, reclaims=reclaims), job, now)
            if chosen and keys.victims == "minimal":
                for victim in chosen[-2::-1]:
                    self._lift(victim, -1)
                    if self._would_fit(job, chosen, now):
                        chosen.remove(victim)
                    else:
                        self._lift(victim, 1)
            elif chosen:
                for _ in range(keys.reorder):
                    for victim in chosen:
                        self._lift(victim, -1)
                    chosen = self._lifted([chosen[-1], *chosen[:-1]], job, now)
            for victim in chosen:
                self._lift(victim, -1)
            if chosen and (not best or sum(victim.size for victim in chosen) < sum(victim.size for victim in best)):
                best = chosen
        return best

    def _could_free(self, job: PlannerJob, now: float) -> float:
        """Return since when all candidates of lower classes have enough GPUs; where that is ahead, wake then.

        It is ``now``, infinite for never, or when the next of those who are exempt still are so no longer.
        """
        own = self._class(job)
        need = job.size - self._count(job) * self.gpus - self.stranded - sum(job.claim.values()) * self.gpus
        until = INF
        ready = young = 0
        for value, group in self.running.items():
            if value < own:
                until = min(until, group.next_ready(now, self.keys.preempt.exempt))
                ready += group.ready
                young += group.gpus - group.ready
        if ready + young < need:
            return INF
        self._wakes = min(self._wakes, until)
        return now if ready >= need else until

    def _candidates(self, job: PlannerJob, now: float, domain: int | None, *, reclaims: bool) -> Iterator[PlannerJob]:
        """Yield whom a job may stop, the first to go first."""
        keys = self.keys.preempt
        pools = {pool for pool in self._of[job.partition] if domain in (None, self.pools[pool].domain)}
        chosen: set[PlannerJob] = set()

        def may_go(victim: PlannerJob) -> bool:
            return (
                victim.preemptor is None
                and (keys.most is None or victim.preemptions < keys.most)
                and (victim.share.pool in pools if victim.share else any(pool in pools for pool, _ in victim.where))
            )

        for value in sorted(self.running):
            self.running[value].settle(now, keys.exempt)
            for victim in self.running[value].in_order(keys.order) if reclaims else ():
                if may_go(victim) and self._may_reclaim(job, victim):
                    chosen.add(victim)
                    victim.is_reclaimed = True
                    yield victim
        own = self._class(job)
        for value in sorted(self.running):
            if value >= own:
                return
            for victim in self.running[value].in_order(keys.order):
                if may_go(victim) and victim not in chosen and self._outranks(job, victim):
                    victim.is_reclaimed = False
                    yield victim

    def _may_stop(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether its quota or its class lets a job stop another one."""
        return self._may_reclaim(job, victim) or self._outranks(job, victim)

    def _outranks(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether its class lets a job stop another one, which might not reclaim its nodes."""
        keys = self.keys.preempt
        is_near = keys.who != "none" and (keys.within == "cluster" or victim.tenant == job.tenant)
        return is_near and self._class(victim) < self._class(job) and not self._may_reclaim(victim, job)

    def _may_reclaim(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether a job within the quota of its tenant may stop one of a tenant beyond its own."""
        reclaim = self.keys.preempt.reclaim
        if reclaim == "none" or job.tenant == victim.tenant or (reclaim == "lower" and victim.priority >= job.priority):
            return False
        used = self.usage[victim.tenant] + (0 if self._runs(victim) else victim.size)
        return used > self.quotas[victim.tenant].nominal and self._is_within_quota(job)

    def _lifted(self, candidates: Iterable[PlannerJob], job: PlannerJob, now: float) -> list[PlannerJob]:
        """Count candidates as gone until a job fits, and return them; nobody if it never does."""
        chosen: list[PlannerJob] = []
        claimed = sum(job.claim.values())
        for victim in candidates:
            chosen.append(victim)
            self._lift(victim, 1)
            if self._count(job) + claimed >= job.nodes and self._would_fit(job, chosen, now):
                return chosen
        for victim in chosen:
            self._lift(victim, -1)
        return []

    def _lift(self, victim: PlannerJob, sign: int) -> None:
        """Count a running job as gone (1), or as there again (-1), in what is free now and ahead."""
        self.usage[victim.tenant] -= sign * victim.size
        share = victim.share
        if share is None:
            for pool, nodes in victim.where:
                self._advance(pool, sign * nodes, -INF, self._rounded(victim.end))
            return
        before = share.end
        (share.gone.add if sign > 0 else share.gone.remove)(victim)
        share.free += sign * victim.gpus
        share.end = self._rounded(max([job.end for job in share.jobs if job not in share.gone], default=-INF))
        self._advance(share.pool, sign, *sorted((before, share.end)))

    def _advance(self, pool: int, nodes: int, start: float, end: float) -> None:
        """Add nodes of a pool from `start` to `end` to what is expected to be free; from -inf on, also now."""
        if start == -INF < end:
            self.free[pool] += nodes
        if start <= self._shadows[pool] < end:
            self._extras[pool] += nodes
        if self._profiles:
            self._profiles[pool].give(start, end, nodes)

    def _would_fit(self, job: PlannerJob, gone: list[PlannerJob], now: float) -> bool:
        if not self._admits(job):
            return False
        if not job.nodes:
            return self._vacated(job, gone, now) is not None or any(
                self._room(job, pool, now) >= 1 for pool in self._of[job.partition]
            )
        return self._find(job, now) is not None

    def _vacated(self, job: PlannerJob, gone: list[PlannerJob], now: float) -> SharedNode | None:
        """Return a shared node that has room for a job below a node when some of its jobs are gone."""
        shares = (victim.share for victim in gone if victim.share is not None)
        for share in shares:
            fits = share.free >= job.gpus and len(share.gone) < len(share.jobs) and share.claimed in (None, job)
            if fits and self._may_join(job, share, now):
                return share
        return None

    def _take_over(self, job: PlannerJob, now: float, admitted: bool) -> Place | None:
        """Let a job that is blocked have what jobs behind it have claimed, or name its victims."""
        if not self._preempts:
            return None
        if admitted and self._claimers:
            place = self._outrank(job, now)
            if place is not None:
                return place
        if job.victims:
            return None
        victims = self.victims(job, now)
        if not victims:
            return None
        for victim in victims:
            self._lift(victim, 1)
        place = (None if job.nodes else self._vacated(job, victims, now)) or self._find(job, now)
        for victim in victims:
            self._lift(victim, -1)
        self.held[job.tenant] += self._more(job)
        self._unclaim(job)
        if isinstance(place, SharedNode):
            job.share = place
            place.claimed = job
        else:
            assert place is not None
            job.target = dict(place)
        self._claimers[job] = None
        for victim in victims:
            victim.preemptor = job
            victim.preemptions += 1
            job.victims[victim] = None
            self._expect(victim, now + self.keys.preempt.grace)
        self._top_up()
        self.preemptions.append((job, victims))
        self._dirty = True
        return None

    def _outrank(self, job: PlannerJob, now: float) -> Place | None:
        """Return a place on nodes that jobs behind this one in the queue have claimed; nothing if it does not do."""
        mine = self._rank(job.lane, job.entry, now)
        behind = [
            other
            for other in self._claimers
            # A victim may be ahead in the queue of who stopped it.
            if self._rank(other.lane, other.entry, now) > mine and not self._may_stop(other, job)
        ]
        for other in behind:
            for pool, nodes in other.claim.items():
                self.free[pool] += nodes
            other.claim = {}
        place = self._find(job, now) if behind else None
        if place is None:
            self._top_up()
        else:
            self._wakes = min(self._wakes, now + self.keys.preempt.exempt)
        return place

    def _top_up(self) -> None:
        """Claim free nodes for those who have stopped others, up to what they need."""
        for job in self._claimers:
            for pool, nodes in job.target.items():
                taken = min(nodes - job.claim.get(pool, 0), self.free[pool])
                if taken > 0:
                    self.free[pool] -= taken
                    job.claim[pool] = job.claim.get(pool, 0) + taken

    def _unclaim(self, job: PlannerJob) -> None:
        """Free what a job has claimed."""
        if self._claimers.pop(job, self) is self:
            return
        for pool, nodes in job.claim.items():
            self.free[pool] += nodes
        if job.share is not None:
            job.share.claimed = None
            self._offer(job.share)
            job.share = None
        for victim in job.victims:
            victim.preemptor = None
            if victim.share is not None:
                self._offer(victim.share)
        job.claim, job.target, job.victims = {}, {}, {}

    def _expect(self, job: PlannerJob, end: float) -> None:
        """Note that a running job will end sooner."""
        end = min(end, job.end)
        if job.share is not None:
            job.end = end
            self._set_end(job.share)
            return
        for pool, nodes in job.where:
            self.ends[pool].remove((self._rounded(job.end), job.serial, nodes))
            self.ends[pool].add((self._rounded(end), job.serial, nodes))
        job.end = end

    # ----------------------------------------
    # Quotas, order, and books.

    def _admits(self, job: PlannerJob) -> bool:
        """Return whether a tenant may have so many more GPUs: its own, or those that others lend."""
        if not self._has_quota:
            return True
        wanted = [used + held for used, held in zip(self.usage, self.held, strict=True)]
        wanted[job.tenant] += self._more(job)
        quota = self.quotas[job.tenant]
        if wanted[job.tenant] > quota.nominal + quota.borrow:
            return False
        own = (max(quota.nominal - quota.lend, 0.0) if quota.nominal < INF else INF for quota in self.quotas)
        return sum(max(count - kept, 0.0) for count, kept in zip(wanted, own, strict=True)) <= self._lent

    def _is_within_quota(self, job: PlannerJob) -> bool:
        quota = self.quotas[job.tenant]
        more = 0 if self._runs(job) else self._more(job)
        return self.usage[job.tenant] + self.held[job.tenant] + more <= quota.nominal

    def _hold_claims(self) -> None:
        """Let waiting gangs hold nothing of the quotas but what those with claims need."""
        self.held = [0] * len(self.quotas)
        for job in self._claimers:
            self.held[job.tenant] += job.size

    def _more(self, job: PlannerJob) -> int:
        """Return the GPUs by which a job adds to what is held of the quotas."""
        return 0 if job in self._claimers else job.size

    def _runs(self, job: PlannerJob) -> bool:
        return job in self.running[self._class(job)]

    def _number(self, job: PlannerJob) -> None:
        job.serial = next(self._serials)
        job.size = job.nodes * self.gpus or job.gpus
        job.shape = job.nodes, job.gpus, job.limit, job.partition

    def _class(self, job: PlannerJob) -> float:
        who = self.keys.preempt.who
        return self.tiers[job.partition] if who == "tier" else job.qos if who == "qos" else job.priority

    def _count(self, job: PlannerJob) -> int:
        """Return the free nodes of a job's partition."""
        pools = self._of[job.partition]
        return self.free[pools[0]] if len(pools) == 1 else sum(self.free[pool] for pool in pools)

    def _add(self, job: PlannerJob, capped: bool) -> None:
        order = self.keys.order
        size = job.size / (self.total * self.gpus)
        static = order.priority * job.priority
        static += order.size.weight * (size if order.size.favours == "large" else 1 - size)
        if order.age.weight and not capped:
            static -= order.age.weight * job.eligible / order.age.full
        then = job.limit if order.then == "limit" else 0.0
        key = (job.partition, job.tenant if self._by_tenant else 0, capped)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = QueueSegment(key[0], self.tiers[key[0]], key[1], capped)
        job.lane = lane
        job.entry = (-static, then, job.submit, job.number, job.serial, job)
        lane.add(job.entry)
        self.queued += 1

    def _leave(self, job: PlannerJob) -> None:
        """Take a job out of its lane."""
        assert job.lane is not None
        job.lane.remove(job.entry)
        job.lane = None
        self.queued -= 1

    def _rank(self, lane: QueueSegment | None, entry: tuple[Any, ...], now: float) -> tuple[float, ...]:
        """Return what jobs of several lanes are ordered by, the first least."""
        assert lane is not None
        order = self.keys.order
        lift = 0.0
        if order.age.weight:
            lift = order.age.weight * (1.0 if lane.capped else now / order.age.full)
        if order.fair_share.weight:
            lift += order.fair_share.weight * self._factors[lane.tenant]
        return (-lane.tier, entry[0] - lift, *entry[1:5])

    def _age(self, now: float) -> None:
        """Move jobs whose age is full, and calculate the shares of tenants anew when that is due."""
        while self._caps and self._caps[0][0] <= now:
            *_, job = heapq.heappop(self._caps)
            if job.lane is not None and not job.lane.capped and now - job.eligible >= self.keys.order.age.full:
                self._leave(job)
                self._add(job, capped=True)
        fair = self.keys.order.fair_share
        if fair.weight and now >= self._factors_until:
            self._factors_until = math.floor(now / fair.every) * fair.every + fair.every
            self._decay(now)
            used = sum(self._past)
            weights = sum(quota.weight for quota in self.quotas)
            if used:
                self._factors = [
                    2.0 ** (-(past / used) / (quota.weight / weights))
                    for past, quota in zip(self._past, self.quotas, strict=True)
                ]

    def _turn(self, now: float) -> float:
        """Return when the order of the queue may next change though nothing happens [s]; infinite for never.

        Shares change at each calculation (Slurm's PriorityCalcPeriod), which matters where several tenants wait. Age
        lifts all alike until that of a job is full; from then on others catch up with it, which is seen at the
        calculations.
        """
        order = self.keys.order
        waiting = [lane for lane in self.lanes.values() if lane]
        kinds = {lane.capped for lane in waiting}
        shares_differ = order.fair_share.weight > 0 and len({lane.tenant for lane in waiting}) > 1
        if shares_differ or len(kinds) == 2:
            every = order.fair_share.every
            return math.floor(now / every) * every + every
        while self._caps and self._caps[0][-1].lane is None:
            heapq.heappop(self._caps)
        return self._caps[0][0] if self._caps and False in kinds else INF

    def _decay(self, now: float) -> None:
        """Bring the past use of tenants [GPU s] up to `now`; GPUs count from when they are given."""
        half = self.keys.order.fair_share.half_life
        left = 2.0 ** (-(now - self._past_at) / half)
        gain = (1 - left) * half / math.log(2)
        self._past = [past * left + used * gain for past, used in zip(self._past, self.usage, strict=True)]
        self._past_at = now

    def _use(self, job: PlannerJob, now: float, sign: int) -> None:
        if self.keys.order.fair_share.weight:
            self._decay(now)
        self.usage[job.tenant] += sign * job.size

    def _into(self, share: SharedNode, job: PlannerJob) -> None:
        """Add a job to a shared node."""
        share.jobs[job] = None
        share.free -= job.gpus
        self.stranded -= job.gpus
        job.share = share
        self._set_end(share)

    def _out_of(self, share: SharedNode, job: PlannerJob) -> None:
        del share.jobs[job]
        share.free += job.gpus
        self.stranded += job.gpus
        self._set_end(share)
        if share.jobs:
            return
        self.stranded -= self.gpus
        self.sharing -= 1
        if share.claimed is not None:
            share.claimed.share = None
            share.claimed.target = {share.pool: 1}

    def _set_end(self, share: SharedNode) -> None:
        """Note when a shared node is expected to be free, and offer what it has left."""
        end = self._rounded(max([job.end for job in share.jobs], default=0.0))
        if end != share.end:
            ends = self.ends[share.pool]
            if share.end:
                ends.remove((share.end, -share.number, 1))
            if share.jobs:
                ends.add((end, -share.number, 1))
            share.end = end
        if share.jobs:
            self._offer(share)

    def _offer(self, share: SharedNode) -> None:
        if 0 < share.free < self.gpus:
            heapq.heappush(self.shares[share.pool][share.free], (self._tie(share), share.number, share))

    def _tie(self, share: SharedNode) -> float:
        """Return what orders shared nodes that are as full [s]; equal ones are ordered by number, the oldest first."""
        tie = self.keys.share_tie
        return -share.end if tie == "latest-end" else share.end if tie == "earliest-end" else 0.0

    def _rounded(self, time: float) -> float:
        step = self.keys.resolution
        return time if not step or abs(time) == INF else next_multiple(time, step)
