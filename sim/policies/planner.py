"""Who starts now: the queue, backfill with reservations, topology, quotas and preemption.

The planner knows what a scheduler knows: sizes, time limits, priorities, what runs and since when. It never sees how
long a job will really run. It counts nodes by *pool*, the nodes that are alike to it (partitions, domain, maintenance
windows); which of them a job gets is chosen by the engine. It holds no clock and draws nothing.

The engine reports what happens (`enqueue`, `withdraw`, `ended`, `capacity`, `drain`), and after all events of an
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
import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sim.policies.queue import INF, Lane, Ordered, Profile, RunningClass, next_multiple, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sim.policies.scheduler import Scheduler


class Pool(NamedTuple):
    """Nodes that are alike to the planner; nobody starts on them who may run into one of the `windows` [s]."""

    nodes: int
    domain: int = 0
    partitions: tuple[int, ...] = (0,)
    windows: tuple[tuple[float, float], ...] = ()


class Quota(NamedTuple):
    """What a tenant may use [GPU]: its own, what it may borrow beside that, and what of its own others may have."""

    nominal: float = INF
    borrow: float = INF
    lend: float = INF
    weight: float = 1.0


class Share:
    """A node that jobs below a node share; `node` is for the engine, which chooses it."""

    __slots__ = ("claimed", "end", "free", "jobs", "lost", "node", "number", "pool")

    def __init__(self, number: int, pool: int, gpus: int) -> None:
        self.number = number
        self.pool = pool
        self.free = gpus
        self.end = 0.0
        self.jobs: dict[Pending, None] = {}
        self.claimed: Pending | None = None
        self.lost = 0
        """Jobs of it that would be stopped, while victims are chosen."""
        self.node: Any = None


Place: TypeAlias = "tuple[tuple[int, int], ...] | Share"

"""Nodes of each pool, or the node that a job shares."""


class Pending:
    """A job in the queue, or one that runs.

    Parameters
    ----------
    number, submit
        Ties are broken by submit [s], then number.
    nodes, gpus
        Whole nodes, 0 for a job below a node; GPUs that it asks for.
    limit
        Time limit that is left [s]; infinite without one.
    eligible
        Since when it may start, and its age counts [s].
    owner
        What the engine keeps of it.
    """

    __slots__ = (
        "claim", "eligible", "end", "entry", "gpus", "lane", "leaving", "limit", "nodes", "number", "owner",
        "partition", "preemptions", "preemptor", "priority", "serial", "share", "size", "start", "submit", "target",
        "tenant", "victims", "where",
    )  # fmt: skip

    def __init__(
        self, number: int, nodes: int, gpus: int, *, limit: float = INF, priority: float = 0, submit: float = 0.0,
        eligible: float | None = None, tenant: int = 0, partition: int = 0, owner: Any = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.nodes = nodes
        self.gpus = gpus
        self.limit = limit
        self.priority = priority
        self.submit = submit
        self.eligible = submit if eligible is None else eligible
        self.tenant = tenant
        self.partition = partition
        self.owner = owner
        self.preemptions = 0
        self.serial = 0
        self.size = gpus
        """GPUs that it takes."""
        self.lane: Lane | None = None
        self.entry: tuple[Any, ...] = ()
        self.start = self.end = math.nan
        self.where: tuple[tuple[int, int], ...] = ()
        self.share: Share | None = None
        self.leaving: dict[int, int] = {}
        """Nodes of each pool that are drained: they leave with the end of the job."""
        self.preemptor: Pending | None = None
        self.victims: dict[Pending, None] = {}
        """Who is being stopped for it and still runs."""
        self.target: dict[int, int] = {}
        """Nodes of each pool that it will start on when its victims are gone, and those that it has of them."""
        self.claim: dict[int, int] = {}


class Planner:
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
        pools: Sequence[Pool],
        *,
        gpus: int = 1,
        tiers: Sequence[int] = (0,),
        quotas: Sequence[Quota] = (Quota(),),
    ) -> None:
        self.keys = scheduler
        self.pools = tuple(pools)
        self.gpus = gpus
        self.tiers = tuple(tiers)
        self.quotas = tuple(quotas)
        self.free = [pool.nodes for pool in pools]
        self.ends = [Ordered(nodes_of) for _ in pools]
        self.shares: list[list[list[tuple[float, int, Share]]]] = [[[] for _ in range(gpus)] for _ in pools]
        """By pool and free GPUs: heaps of (-end, number, share), in which outdated entries stay until they come up."""
        self.sharing = self.stranded = 0
        """Shared nodes, and their free GPUs."""
        self.lanes: dict[tuple[int, int, bool], Lane] = {}
        self.queued = 0
        self.running: defaultdict[float, RunningClass] = defaultdict(RunningClass)
        self.usage = [0] * len(quotas)
        """GPUs that each tenant has."""
        self.held = [0] * len(quotas)
        """GPUs that its waiting gangs hold of its quota."""
        self.preemptions: list[tuple[Pending, list[Pending]]] = []
        """Who is to be stopped for whom, by the last pass."""
        self.total = sum(pool.nodes for pool in pools)
        # What follows from the keys.
        keys = scheduler
        self._passes = keys.head == "passes"
        self._depth = INF if keys.depth == "all" else keys.depth
        self._tested = INF if keys.tested == "all" else keys.tested
        self._window = INF if keys.window == "all" else keys.window
        self._packs = keys.pack is not None and len({pool.domain for pool in pools}) > 1
        self._preempts = keys.preempt.mode != "none"
        self._has_quota = any(quota.nominal < INF for quota in quotas)
        self._lent = sum(min(quota.lend, quota.nominal) for quota in quotas)
        self._by_tenant = self._has_quota or keys.order.fair_share.weight > 0
        self._moves = self._has_quota or keys.order.age.weight > 0 or keys.order.fair_share.weight > 0
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
        alone = all(len(of) == 1 for of in self._of) and all(len(pool.partitions) == 1 for pool in pools)
        self._deep = self._passes and (self._depth > 1 or (self._depth == 1 and (self._windows or not alone)))
        may_keep = not (self._preempts or self._moves or keys.backfill_cycle)
        self._exact = may_keep and self._deep and self._depth == self._tested == self._window == INF
        # Of the last pass.
        self._dirty = True
        self._fresh: list[Pending] = []
        self._heads: list[Pending] = []
        self._due = -INF
        self._wakes = INF
        self._shadows = [INF] * len(pools)
        self._extras = [0] * len(pools)
        self._blocked: set[int] = set()
        self._left: defaultdict[int, float] = defaultdict(lambda: self._depth)
        self._tests: float = 0
        self._tail: tuple[Any, ...] = ()
        self._profiles: list[Profile] = []
        self._planned: list[tuple[float, int, Pending]] = []
        self._why = "no_queue"
        self._serials = itertools.count(1)
        self._caps: list[tuple[float, int, Pending]] = []
        self._claimers: dict[Pending, None] = {}
        self._past = [0.0] * len(quotas)
        self._past_at = 0.0
        self._factors = [1.0] * len(quotas)
        self._factors_until = -INF

    # ----------------------------------------
    # What happens to jobs and nodes.

    def enqueue(self, job: Pending, now: float) -> None:
        """Put a job that is eligible into the queue."""
        self._number(job)
        self._exact &= job.nodes > 0
        age = self.keys.order.age
        capped = bool(age.weight) and now - job.eligible >= age.full
        self._add(job, capped)
        if age.weight and not capped:
            heapq.heappush(self._caps, (job.eligible + age.full, job.serial, job))
        self._fresh.append(job)

    def withdraw(self, job: Pending) -> None:
        """Take a job out of the queue; what it has claimed is free again."""
        self._leave(job)
        self._unclaim(job)
        self._dirty = True

    def started(self, job: Pending, now: float, place: Place) -> None:
        """Give a job its nodes; the planner calls it for those that it starts."""
        if not job.serial:
            self._number(job)
        job.start = now
        job.end = now + job.limit
        if isinstance(place, Share):
            job.share = place
            self._into(place, job)
        elif not job.nodes:
            ((pool, _),) = place
            self.free[pool] -= 1
            self.sharing += 1
            self.stranded += self.gpus
            self._into(Share(next(self._serials), pool, self.gpus), job)
        else:
            job.where = place
            for pool, nodes in place:
                self.free[pool] -= nodes
                self.ends[pool].add((self._rounded(job.end), job.serial, nodes))
        self._use(job, now, 1)
        self.running[self._class(job)].start(job)

    def ended(self, job: Pending, now: float) -> None:
        """Free the nodes of a job that ran; drained ones leave, and those that were taken from others are claimed."""
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
                leaving = job.leaving.get(pool, 0)
                self.ends[pool].remove((self._rounded(job.end), job.serial, nodes - leaving))
                freed.append((pool, nodes - leaving))
            job.where = ()
        job.leaving = {}
        for pool, nodes in freed:
            self.free[pool] += nodes
        preemptor = job.preemptor
        if preemptor is not None:
            job.preemptor = None
            preemptor.victims.pop(job, None)
            self._top_up(preemptor)
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
        self._dirty = True

    def drain(self, job: Pending, pool: int = 0, nodes: int = 1) -> None:
        """Note nodes of a running job that leave when it ends: no reservation counts on them."""
        for at, held in job.where:
            if at == pool:
                before = held - job.leaving.get(pool, 0)
                self.ends[pool].remove((self._rounded(job.end), job.serial, before))
                self.ends[pool].add((self._rounded(job.end), job.serial, before - nodes))
                job.leaving[pool] = job.leaving.get(pool, 0) + nodes
        self._dirty = True

    # ----------------------------------------
    # A pass.

    def plan(self, now: float) -> list[Pending]:
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

    def _main(self, now: float, *, again: bool) -> list[Pending]:
        """Start jobs in order; the first that cannot start blocks its partition, one without quota its tenant."""
        starts: list[Pending] = []
        before = [] if again else self._heads
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
            job: Pending = lane.blocks[0][0][-1]
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
                self._why = self._blocked_by(job, admitted)
            self._heads.append(job)
            if admitted or job.victims or job.claim:
                self.held[job.tenant] += self._more(job)
            lanes = [
                other
                for other in lanes
                if other.partition != lane.partition or (not admitted and other.tenant != lane.tenant)
            ]
        return starts

    def _backfill(self, now: float, *, full: bool) -> list[Pending]:
        """Start whoever can, in order, beside the reservations of those that cannot."""
        starts: list[Pending] = []
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
        for job in fresh if old else self._in_order(now):
            self._tests -= 1
            if self._tests < 0:
                break
            if job.size > most and self._left[job.partition] <= 0 and not self._preempts:
                self._tail = job.entry
                continue
            place = None
            admitted = self._admits(job)
            if admitted:
                place = self._find(job, now)
            if place is None and job.partition not in self._blocked:
                place = self._take_over(job, now, admitted)
            if place is not None:
                starts.append(job)
                self._begin(job, now, place)
                most = self._most()
                continue
            if self._why == "no_queue":
                self._why = self._blocked_by(job, admitted)
            elif self._blocked and self._why == "too_few" and admitted and self._count(job) >= max(job.nodes, 1):
                self._why = "reservation"
            self._tail = job.entry
            reserves = admitted and self._left[job.partition] > 0
            if reserves or job.victims or job.claim:
                self.held[job.tenant] += self._more(job)
            if reserves:
                self._left[job.partition] -= 1
                self._heads.append(job)
                self._blocked.add(job.partition)
                self._reserve(job, now)
            if not (self._exact or self._preempts or self.stranded or any(self.free)):
                break
        for job in starts:
            if job.lane is not None:
                self._leave(job)
        return starts

    def _still_valid(self, fresh: list[Pending], now: float) -> bool:
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

    def _in_order(self, now: float) -> Iterator[Pending]:
        """Return the queued jobs in order; those larger than what is free are left out in blocks."""
        lanes = [lane for lane in self.lanes.values() if lane]
        if len(lanes) == 1:
            return self._walk(lanes[0], now)
        return (job for _, job in heapq.merge(*(self._ranked(lane, now) for lane in lanes)))

    def _ranked(self, lane: Lane, now: float) -> Iterator[tuple[tuple[float, ...], Pending]]:
        return ((self._rank(lane, job.entry, now), job) for job in self._walk(lane, now))

    def _walk(self, lane: Lane, now: float) -> Iterator[Pending]:
        may_skip = (len(self.lanes) == 1 or self._tested == INF) and not self._preempts
        pool = self._of[lane.partition][0]
        for block, (size, limit) in lane.parts():
            if may_skip and self._left[lane.partition] <= 0:
                outlasts = not (self._deep or self.sharing) and now + limit > self._shadows[pool]
                if size > self._most() or (outlasts and size > max(self._extras[pool], 0) * self.gpus):
                    self._tests -= len(block)
                    if self._why == "too_few" and size <= self._most():
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

    # ----------------------------------------
    # Where a job fits.

    def _find(self, job: Pending, now: float) -> Place | None:
        """Return where a job can start now, beside what is reserved; nothing if nowhere."""
        pools = self._of[job.partition]
        if not job.nodes:
            return self._find_share(job, now, pools)
        if len(pools) == 1:
            pool = pools[0]
            return ((pool, job.nodes),) if self._room(job, pool, now) >= job.nodes else None
        return self._choose(job, pools, {pool: self._room(job, pool, now) for pool in pools}, now)

    def _room(self, job: Pending, pool: int, now: float) -> int:
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

    def _choose(self, job: Pending, pools: list[int], rooms: dict[int, int], now: float) -> Place | None:
        """Return how many nodes of each pool a job takes, of `rooms`; nothing if there are too few in right places."""
        nodes = job.nodes
        if sum(rooms.values()) < nodes:
            return None
        if self._packs:
            domains = self._by_domain(pools, rooms)
            single = min(((room, domain) for domain, room in domains.items() if room >= nodes), default=None)
            if single is not None:
                pools = [pool for pool in pools if self.pools[pool].domain == single[1]]
            elif nodes <= self._widest[job.partition]:
                if self.keys.need == "required":
                    return None
                if now < job.eligible + self.keys.wait:
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

    def _find_share(self, job: Pending, now: float, pools: list[int]) -> Place | None:
        """Return a node with room for a job below a node, or a free one."""
        spread = self.keys.share_nodes == "spread"
        claimed = job.share
        if claimed is not None and claimed.free >= job.gpus:
            return claimed
        fresh = next((((pool, 1),) for pool in pools if self._room(job, pool, now) >= 1), None)
        if spread and fresh is not None:
            return fresh
        if self.stranded >= job.gpus:
            sizes = range(job.gpus, self.gpus)
            for free in reversed(sizes) if spread else sizes:
                for pool in pools:
                    share = self._latest(pool, free)
                    if share is not None and self._may_join(job, share, now):
                        return share
        return fresh

    def _may_join(self, job: Pending, share: Share, now: float) -> bool:
        """Return whether a job may keep a shared node for all of its time limit."""
        end = now + job.limit
        if self._windows and any(start < end and now < stop for start, stop in self.pools[share.pool].windows):
            return False
        shadow = self._shadows[share.pool]
        if shadow == INF or end <= share.end:
            return True
        if self._deep:
            return self._profiles[share.pool].least(max(share.end, math.nextafter(now, INF)), end) >= 1
        return end <= shadow or share.end > shadow or self._extras[share.pool] >= 1

    def _latest(self, pool: int, free: int) -> Share | None:
        """Return the shared node with so many free GPUs that is expected to be in use longest."""
        heap = self.shares[pool][free]
        while heap:
            end, _, share = heap[0]
            if share.free == free and share.end == -end and share.jobs and share.claimed is None:
                return share
            heapq.heappop(heap)
        return None

    # ----------------------------------------
    # Reservations.

    def _reserve(self, job: Pending, now: float) -> None:
        """Keep the earliest place and time for a job that is passed."""
        nodes = max(job.nodes, 1)
        if not self._deep:
            pool = self._of[job.partition][0]
            shadow, extra = self._shadow(pool, nodes, now)
            if shadow - now <= self._window and shadow < INF:
                self._shadows[pool] = shadow
                self._extras[pool] = extra if self.keys.extra else 0
            return
        pools = self._of[job.partition]
        if len(pools) == 1:
            pool = pools[0]
            start = self._profiles[pool].earliest(nodes, job.limit)
            place: Any = ((pool, nodes),)
        else:
            start, place = self._earliest(job, nodes, pools)
        if start == INF or start - now > self._window:
            return
        for pool, count in place:
            self._profiles[pool].take(start, start + job.limit, count)
            self._shadows[pool] = min(self._shadows[pool], start)
        if self._exact:
            job.target = dict(place)
            heapq.heappush(self._planned, (start, len(self._heads), job))

    def _shadow(self, pool: int, nodes: int, now: float) -> tuple[float, int]:
        """Return when `nodes` are expected to be free, and how many more are then; all that end at once count."""
        have: float = self.free[pool]
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

    def _earliest(self, job: Pending, nodes: int, pools: list[int]) -> tuple[float, Any]:
        """Return when a job can start, and where, if its nodes are of several pools."""
        times = sorted({time for pool in pools for time in self._profiles[pool].times})
        for time in times:
            end = time + job.limit
            rooms = {pool: max(self._profiles[pool].least(time, end), 0) for pool in pools}
            if not job.nodes:
                pool = next((pool for pool in pools if rooms[pool] >= 1), None)
                if pool is not None:
                    return time, ((pool, 1),)
            elif (place := self._choose(job, pools, rooms, INF)) is not None:
                return time, place
        return INF, ()

    def _forecast(self, now: float) -> list[Profile]:
        """Return the free nodes of each pool from now on, by time limits and maintenance windows."""
        profiles = []
        for pool, free, ends in zip(self.pools, self.free, self.ends, strict=True):
            profile = Profile(now, free, ends)
            for start, stop in pool.windows:
                if stop > now:
                    profile.take(max(start, now), stop, self.total)  # more than there is: nobody may
            profiles.append(profile)
        return profiles

    # ----------------------------------------
    # Preemption and claims.

    def victims(self, job: Pending, now: float) -> list[Pending]:
        """Return whom to stop so that a job can start: nobody if even all candidates together would not do.

        Candidates are strictly below its class, have run for the exempt time, and have not been preempted too often;
        with quotas they are of its own tenant, or of one that has borrowed what the job's tenant is entitled to.
        Because the class is strictly lower and lenders stay within their quota, no two jobs preempt each other in turn.
        """
        keys = self.keys.preempt
        reclaims = keys.reclaim != "none" and self._has_quota and self._is_within_quota(job)
        if not reclaims and (keys.who == "none" or not self._could_free(job, now)):
            return []
        domains: list[int | None] = [None]
        if self._packs and keys.victims == "reorder" and self.keys.need == "required":
            domains = list({self.pools[pool].domain: None for pool in self._of[job.partition]})
        best: list[Pending] = []
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

    def _could_free(self, job: Pending, now: float) -> bool:
        """Return whether all candidates of lower classes have enough GPUs; if others will be candidates then, wake."""
        own = self._class(job)
        need = job.size - self._count(job) * self.gpus - self.stranded - sum(job.claim.values()) * self.gpus
        until = INF
        ready = young = 0
        for value, group in self.running.items():
            if value < own:
                group.settle(now, self.keys.preempt.exempt)
                ready += group.ready
                if group.young:
                    young += group.gpus - group.ready
                    until = min(until, next(iter(group.young)).start + self.keys.preempt.exempt)
        if ready + young >= need:
            self._wakes = min(self._wakes, until)
        return ready >= need

    def _candidates(self, job: Pending, now: float, domain: int | None, *, reclaims: bool) -> Iterator[Pending]:
        """Yield whom a job may stop, the first to go first."""
        keys = self.keys.preempt
        pools = {pool for pool in self._of[job.partition] if domain in (None, self.pools[pool].domain)}

        def may_go(victim: Pending) -> bool:
            return (
                victim.preemptor is None
                and (keys.most is None or victim.preemptions < keys.most)
                and (victim.share.pool in pools if victim.share else any(pool in pools for pool, _ in victim.where))
            )

        for value in sorted(self.running):
            self.running[value].settle(now, keys.exempt)
            for victim in self.running[value].in_order(keys.order) if reclaims else ():
                tenant = victim.tenant
                borrowed = tenant != job.tenant and self.usage[tenant] > self.quotas[tenant].nominal
                if borrowed and (keys.reclaim == "any" or victim.priority < job.priority) and may_go(victim):
                    yield victim
        if keys.who == "none":
            return
        own = self._class(job)
        for value in sorted(self.running):
            if value >= own:
                return
            for victim in self.running[value].in_order(keys.order):
                if (not self._has_quota or victim.tenant == job.tenant) and may_go(victim):
                    yield victim

    def _lifted(self, candidates: Iterable[Pending], job: Pending, now: float) -> list[Pending]:
        """Count candidates as gone until a job fits, and return them; nobody if it never does."""
        chosen: list[Pending] = []
        for victim in candidates:
            chosen.append(victim)
            self._lift(victim, 1)
            if self._would_fit(job, chosen, now):
                return chosen
        for victim in chosen:
            self._lift(victim, -1)
        return []

    def _lift(self, victim: Pending, sign: int) -> None:
        """Count a running job as gone (1), or as there again (-1)."""
        self.usage[victim.tenant] -= sign * victim.size
        share = victim.share
        if share is None:
            for pool, nodes in victim.where:
                self.free[pool] += sign * (nodes - victim.leaving.get(pool, 0))
            return
        was_empty = share.lost == len(share.jobs)
        share.lost += sign
        share.free += sign * victim.gpus
        self.free[share.pool] += (share.lost == len(share.jobs)) - was_empty

    def _would_fit(self, job: Pending, gone: list[Pending], now: float) -> bool:
        if not self._admits(job):
            return False
        if not job.nodes:
            return self._vacated(job, gone, now) is not None or any(
                self._room(job, pool, now) >= 1 for pool in self._of[job.partition]
            )
        return self._find(job, now) is not None

    def _vacated(self, job: Pending, gone: list[Pending], now: float) -> Share | None:
        """Return a shared node that has room for a job below a node when some of its jobs are gone."""
        shares = (victim.share for victim in gone if victim.share is not None)
        for share in shares:
            fits = share.free >= job.gpus and share.lost < len(share.jobs) and share.claimed in (None, job)
            if fits and self._may_join(job, share, now):
                return share
        return None

    def _take_over(self, job: Pending, now: float, admitted: bool) -> Place | None:
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
        self._unclaim(job)
        if isinstance(place, Share):
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
        self._top_up(job)
        self.preemptions.append((job, victims))
        self._dirty = True
        return None

    def _outrank(self, job: Pending, now: float) -> Place | None:
        """Return a place on nodes that jobs behind this one in the queue have claimed; nothing if it does not do."""
        mine, own = self._rank(job.lane, job.entry, now), self._class(job)
        behind = [
            other
            for other in self._claimers
            # A victim may be ahead in the queue of who stopped it.
            if self._class(other) <= own and self._rank(other.lane, other.entry, now) > mine
        ]
        for other in behind:
            for pool, nodes in other.claim.items():
                self.free[pool] += nodes
            other.claim = {}
        place = self._find(job, now) if behind else None
        if place is None:
            for other in behind:
                self._top_up(other)
        else:
            self._wakes = min(self._wakes, now + self.keys.preempt.exempt)
        return place

    def _top_up(self, job: Pending) -> None:
        """Claim free nodes for a job whose victims are stopped."""
        for pool, nodes in job.target.items():
            taken = min(nodes - job.claim.get(pool, 0), self.free[pool])
            if taken > 0:
                self.free[pool] -= taken
                job.claim[pool] = job.claim.get(pool, 0) + taken

    def _unclaim(self, job: Pending) -> None:
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
        job.claim, job.target, job.victims = {}, {}, {}

    def _expect(self, job: Pending, end: float) -> None:
        """Note that a running job will end sooner."""
        end = min(end, job.end)
        if job.share is not None:
            job.end = end
            self._set_end(job.share)
            return
        for pool, nodes in job.where:
            stays = nodes - job.leaving.get(pool, 0)
            self.ends[pool].remove((self._rounded(job.end), job.serial, stays))
            self.ends[pool].add((self._rounded(end), job.serial, stays))
        job.end = end

    # ----------------------------------------
    # Quotas, order, and books.

    def _admits(self, job: Pending) -> bool:
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

    def _is_within_quota(self, job: Pending) -> bool:
        quota = self.quotas[job.tenant]
        return self.usage[job.tenant] + self.held[job.tenant] + self._more(job) <= quota.nominal

    def _hold_claims(self) -> None:
        """Let waiting gangs hold nothing of the quotas but what those with claims need."""
        self.held = [0] * len(self.quotas)
        for job in self._claimers:
            self.held[job.tenant] += job.size

    def _more(self, job: Pending) -> int:
        """Return the GPUs by which a job adds to what is held of the quotas."""
        return 0 if job in self._claimers else job.size

    def _number(self, job: Pending) -> None:
        job.serial = next(self._serials)
        job.size = job.nodes * self.gpus or job.gpus

    def _class(self, job: Pending) -> float:
        return self.tiers[job.partition] if self.keys.preempt.who == "tier" else job.priority

    def _count(self, job: Pending) -> int:
        """Return the free nodes of a job's partition."""
        return sum(self.free[pool] for pool in self._of[job.partition])

    def _blocked_by(self, job: Pending, admitted: bool) -> str:
        """Return why nodes idle, from the first job that cannot start."""
        if not admitted:
            return "quota"
        free = self._count(job)
        if free >= max(job.nodes, 1):
            return "drain" if self._windows else "wrong_places"
        return "wrong_places" if free * self.gpus + self.stranded >= job.size else "too_few"

    def _add(self, job: Pending, capped: bool) -> None:
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
            lane = self.lanes[key] = Lane(key[0], self.tiers[key[0]], key[1], capped)
        job.lane = lane
        job.entry = (-static, then, job.submit, job.number, job.serial, job)
        lane.add(job.entry)
        self.queued += 1

    def _leave(self, job: Pending) -> None:
        """Take a job out of its lane."""
        assert job.lane is not None
        job.lane.remove(job.entry)
        job.lane = None
        self.queued -= 1

    def _rank(self, lane: Lane | None, entry: tuple[Any, ...], now: float) -> tuple[float, ...]:
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

        Shares change at each calculation (Slurm's PriorityCalcPeriod). Age lifts all alike until that of a job is full;
        from then on others catch up with it, which is seen at the calculations.
        """
        order = self.keys.order
        kinds = {lane.capped for lane in self.lanes.values() if lane}
        if order.fair_share.weight or len(kinds) == 2:
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

    def _use(self, job: Pending, now: float, sign: int) -> None:
        if self.keys.order.fair_share.weight:
            self._decay(now)
        self.usage[job.tenant] += sign * job.size

    def _begin(self, job: Pending, now: float, place: Place) -> None:
        """Start a job beside the reservations of this pass."""
        claimed = job.claim
        if job in self._claimers:  # a higher job that waits counted on neither its nodes nor its victims
            self._wakes = min(self._wakes, now + self.keys.preempt.exempt)
            self._dirty = True
        self._unclaim(job)
        end = self._rounded(now + job.limit)
        taken: list[tuple[int, int, float]] = []  # pool, nodes, since when
        if isinstance(place, Share):
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
        for other in self._claimers:
            self._top_up(other)

    def _into(self, share: Share, job: Pending) -> None:
        """Add a job to a shared node."""
        share.jobs[job] = None
        share.free -= job.gpus
        self.stranded -= job.gpus
        job.share = share
        self._set_end(share)

    def _out_of(self, share: Share, job: Pending) -> None:
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

    def _set_end(self, share: Share) -> None:
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

    def _offer(self, share: Share) -> None:
        if 0 < share.free < self.gpus:
            heapq.heappush(self.shares[share.pool][share.free], (-share.end, share.number, share))

    def _rounded(self, time: float) -> float:
        step = self.keys.resolution
        return time if not step or time == INF else next_multiple(time, step)
