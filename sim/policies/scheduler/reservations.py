"""Reservations, and where a job fits next to them: one shadow time for a pool, or the profile of all nodes.

With a single reservation it is enough to know its shadow time, and the extra nodes that are free then (EASY); with more
of them, maintenance windows or pools of several partitions, the free nodes ahead are kept in profiles.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from ettrick.sim.policies.scheduler.nodes import SharedNode
from ettrick.sim.policies.scheduler.profile import INF, AvailabilityProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ettrick.sim.policies.scheduler.keys import Scheduler
    from ettrick.sim.policies.scheduler.nodes import NodeLedger, Place, PlannerJob

    _Rooms = Mapping[int, int] | list[int]


class NextPass:
    """The time of the next pass: after a change, or at a time though nothing happens [s]."""

    __slots__ = ("after_change", "time")

    def __init__(self) -> None:
        self.after_change = True
        self.time = INF

    def by(self, time: float) -> None:
        """Have a pass no later than at some time [s]."""
        self.time = min(self.time, time)


class Reservations:
    """Nodes that are kept for jobs which others pass.

    Parameters
    ----------
    keys
        Of the scheduler.
    nodes
        The books.
    next_pass
        Hears when a job that does not fit now is to be looked at again.
    may_last
        Whether nothing but an event changes the order of the queue, and nobody is stopped for others.
    """

    def __init__(self, keys: Scheduler, nodes: NodeLedger, next_pass: NextPass, *, may_last: bool) -> None:
        self.nodes = nodes
        self.next_pass = next_pass
        self.keys = keys
        self.depth = INF if keys.depth == "all" else keys.depth
        self.window = INF if keys.window == "all" else keys.window
        self.has_windows = any(pool.windows for pool in nodes.pools)
        self.deep = keys.head == "passes" and self._needs_profiles()
        """Whether reservations are kept in profiles, and not as one shadow."""
        all_tested = keys.tested == "all" and not (keys.backfill_cycle or keys.cycle)
        self.exact = may_last and self.deep and self.depth == self.window == INF and all_tested
        """Whether each job starts when it was planned to, as long as all ends are as expected."""
        self._order = itertools.count()
        self.are_made = True
        self.clear()
        self._packs = keys.pack is not None and len({pool.domain for pool in nodes.pools}) > 1
        self._widest = [max(self._by_domain(of, nodes.free).values(), default=0) for of in nodes.of_partition]

    def _needs_profiles(self) -> bool:
        """Return whether one shadow of each pool is too little: several reservations, windows, or shared pools."""
        pools, partitions = self.nodes.pools, self.nodes.of_partition
        if self.depth != 1 or self.has_windows:
            return self.depth >= 1
        return any(len(indices) != 1 for indices in partitions) or any(len(pool.partitions) != 1 for pool in pools)

    def clear(self) -> None:
        """Forget all reservations."""
        if not self.are_made:
            return
        self.are_made = False
        """Whether nodes may be kept, now or ahead."""
        self.shadows = [INF] * len(self.nodes.pools)
        """The start of the first reservation in each pool [s], and the number of nodes it does not need then."""
        self.extras = [0] * len(self.nodes.pools)
        self.profiles: list[AvailabilityProfile] = []
        self.planned: list[tuple[float, int, PlannerJob]] = []
        """Starts that are planned [s], if reservations are exact: a heap."""

    # Where a job fits.

    def find(self, job: PlannerJob, now: float) -> Place | None:
        """Return where a job can start now, next to what is reserved; nothing if nowhere."""
        pools = self.nodes.of_partition[job.partition]
        return self._find_nodes(job, now, pools) if job.nodes else self._find_share(job, now, pools)

    def _find_nodes(self, job: PlannerJob, now: float, pools: list[int]) -> Place | None:
        """Return where a job can have nodes of its own, or a job below a node a free one."""
        if len(pools) == 1:
            nodes = job.nodes or 1
            return ((pools[0], nodes),) if self.room(job, pools[0], now) >= nodes else None
        return self._choose(job, pools, {pool: self.room(job, pool, now) for pool in pools}, now)

    def room(self, job: PlannerJob, pool: int, now: float) -> int:
        """Return the nodes of a pool that a job could have from now on, for all of its time limit."""
        free = self.nodes.free[pool]
        end = now + job.limit
        if self.has_windows and (stop := self._service(pool, now, end)):
            self.next_pass.by(stop)
            return 0
        shadow = self.shadows[pool]
        if shadow < INF:
            if self.deep:
                fits = self.keys.extra or end <= shadow
                free = min(free, max(self.profiles[pool].least(now, end), 0)) if fits else 0
            elif end > shadow:
                free = min(free, self.extras[pool])
        return free + job.claim.get(pool, 0) if job.claim else free

    def _service(self, pool: int, now: float, end: float) -> float:
        """Return the end of the first maintenance window that a job would run into [s]; 0 if there is none."""
        return next((stop for start, stop in self.nodes.pools[pool].windows if start < end and now < stop), 0.0)

    def _choose(self, job: PlannerJob, pools: list[int], rooms: Mapping[int, int], now: float) -> Place | None:
        """Return how many nodes of each pool a job takes, of `rooms`; nothing if there are too few in right places."""
        nodes = max(job.nodes, 1)
        if sum(rooms.values()) < nodes:
            return None
        place = []
        for pool in self._packed(job, pools, rooms, now) if self._packs else pools:
            count = min(rooms[pool], nodes)
            if count > 0:
                place.append((pool, count))
                nodes -= count
        return tuple(place) or None

    def _packed(self, job: PlannerJob, pools: list[int], rooms: Mapping[int, int], now: float) -> list[int]:
        """Return the pools of the fullest domain that has room, else all of them by domain; none if the job waits."""
        nodes = max(job.nodes, 1)
        domain_of = {pool: self.nodes.pools[pool].domain for pool in pools}
        domains = self._by_domain(pools, rooms)
        single = min(((room, domain) for domain, room in domains.items() if room >= nodes), default=None)
        if single is not None:
            return [pool for pool in pools if domain_of[pool] == single[1]]
        if self.keys.need == "required":
            return []
        if now < job.eligible + self.keys.wait and nodes <= self._widest[job.partition]:
            self.next_pass.by(job.eligible + self.keys.wait)
            return []
        return sorted(pools, key=lambda pool: (-domains[domain_of[pool]], domain_of[pool], pool))

    def _by_domain(self, pools: Iterable[int], rooms: _Rooms) -> dict[int, int]:
        """Return the nodes of each domain."""
        domains: dict[int, int] = defaultdict(int)
        for pool in pools:
            domains[self.nodes.pools[pool].domain] += max(rooms[pool], 0)
        return domains

    def domains(self, job: PlannerJob) -> list[int | None]:
        """Return the domains that a job has to fit into alone; a single ``None`` if there is no such rule."""
        if not (self._packs and self.keys.need == "required"):
            return [None]
        return list({self.nodes.pools[pool].domain: None for pool in self.nodes.of_partition[job.partition]})

    def replacements(self, job: PlannerJob, is_near: bool) -> list[int]:
        """Return the pools from which a running job may have a lost node replaced; those of its domains come first."""
        domain_of = [pool.domain for pool in self.nodes.pools]
        homes = {domain_of[pool] for pool, _ in job.where}
        pools = self.nodes.of_partition[job.partition]
        if is_near or self.keys.need == "required":
            return [pool for pool in pools if domain_of[pool] in homes]
        return sorted(pools, key=lambda pool: domain_of[pool] not in homes)

    # Nodes that several jobs share.

    def _find_share(self, job: PlannerJob, now: float, pools: list[int]) -> Place | None:
        """Return a node with room for a job below a node, or a free one."""
        spread = self.keys.share_nodes == "spread"
        if job.share is not None and job.share.free >= job.gpus:
            return job.share
        fresh = self._find_nodes(job, now, pools)
        if (spread and fresh is not None) or self.nodes.stranded < job.gpus:
            return fresh
        sizes = range(job.gpus, self.nodes.gpus)
        for free in reversed(sizes) if spread else sizes:
            for pool in pools:
                share = self.nodes.first_share(pool, free)
                if share is not None and self.may_join(job, share, now):
                    return share
        return fresh

    def may_join(self, job: PlannerJob, share: SharedNode, now: float) -> bool:
        """Return whether a job may keep a shared node for all of its time limit."""
        end = now + job.limit
        if self.has_windows and self._service(share.pool, now, end):
            return False
        shadow = self.shadows[share.pool]
        if shadow == INF or end <= share.end:
            return True
        fits = end <= shadow or share.end > shadow
        if not self.deep:
            return fits or self.extras[share.pool] >= 1
        since = max(share.end, math.nextafter(now, INF))
        return (self.keys.extra or fits) and self.profiles[share.pool].least(since, end) >= 1

    # What is reserved.

    def reserve(self, job: PlannerJob, now: float) -> bool:
        """Keep the earliest place and time for a job that is passed; return whether there is one within the window.

        What a job has claimed is kept for it already.
        """
        nodes = max(job.nodes, 1)
        pools = self.nodes.of_partition[job.partition]
        pool = pools[0]
        if job in self.nodes.claimers:
            return True
        self.are_made = True
        if not self.deep:
            start, extra = self._shadow(pool, nodes, now)
            if start - now <= self.window and start < INF:
                self.shadows[pool] = start
                self.extras[pool] = extra if self.keys.extra else 0
            return True
        place: tuple[tuple[int, int], ...] = ((pool, nodes),)
        if len(pools) == 1:
            start = self.profiles[pool].earliest(nodes, job.limit, now + self.window + 1.0)
        else:
            start, place = self._earliest(job, pools)
        if start == INF or start - now > self.window:
            return False
        for pool, count in place:
            self.profiles[pool].take(start, start + job.limit, count)
            self.shadows[pool] = min(self.shadows[pool], start)
        if self.exact:
            job.target = dict(place)
            heapq.heappush(self.planned, (start, next(self._order), job))
        return True

    def _shadow(self, pool: int, nodes: int, now: float) -> tuple[float, int]:
        """Return when `nodes` are expected to be free, and how many more are then; all that end at once count."""
        free: float = self.nodes.free[pool] - sum(count for _, count in self.nodes.awaited(pool))
        shadow = INF
        for block, count in self.nodes.ends[pool].settled().parts():
            if shadow == INF and free + count < nodes:
                free += count
                continue
            for end, _, freed in block:
                if end > shadow:
                    return shadow, int(free - nodes)
                free += freed
                if free >= nodes and shadow == INF:
                    shadow = max(end, now)
        return shadow, int(free - nodes)

    def _earliest(self, job: PlannerJob, pools: list[int]) -> tuple[float, tuple[tuple[int, int], ...]]:
        """Return when a job can start, and where, if its nodes are of several pools."""
        times = sorted({time for pool in pools for time in self.profiles[pool].times})
        for time in times:
            end = time + job.limit
            rooms = {pool: max(self.profiles[pool].least(time, end), 0) for pool in pools}
            place = self._choose(job, pools, rooms, INF)
            if place is not None and not isinstance(place, SharedNode):
                return time, place
        return INF, ()

    def forecast(self, now: float) -> None:
        """Profile the free nodes of each pool from now on, by time limits and maintenance windows."""
        nodes = self.nodes
        self.are_made = True
        for index, (pool, free, ends) in enumerate(zip(nodes.pools, nodes.free, nodes.ends, strict=True)):
            profile = AvailabilityProfile(now, free, ends.settled())
            for start, stop in pool.windows:
                if stop > now:
                    profile.take(max(start, now), stop, nodes.total)  # more than there is: nobody may
            for since, count in nodes.awaited(index):
                profile.take(max(since, now), INF, count)
            self.profiles.append(profile)

    def due(self, now: float) -> Iterator[tuple[PlannerJob, Place]]:
        """Yield the jobs that start now as planned, each with its place."""
        for profile in self.profiles:
            profile.forget(now)
        while self.planned and self.planned[0][0] <= now:
            *_, job = heapq.heappop(self.planned)
            yield job, tuple(job.target.items())
            job.target = {}

    def are_met(self, now: float) -> bool:
        """Return whether nothing has been missed that they count on."""
        if not self.deep:
            return all(now <= shadow for shadow in self.shadows)
        if not (self.profiles and self.exact):
            return False
        return not any(ends.settled() and ends.blocks[0][0][0] <= now for ends in self.nodes.ends)

    # What changes next to them.

    def start(self, job: PlannerJob, now: float, place: Place, claim: Mapping[int, int]) -> None:
        """Take the nodes of a job that starts out of what is expected to be free; those of its claim already are."""
        if not self.are_made:
            return
        end = self.nodes.rounded(now + job.limit)
        for pool, nodes in claim.items() if self.profiles and end < INF else ():
            self.profiles[pool].give(end, INF, nodes)
        if not isinstance(place, SharedNode):
            spans = [(pool, nodes - claim.get(pool, 0), now) for pool, nodes in place]
        else:
            spans = [(place.pool, 1, max(place.end, math.nextafter(now, INF)))] if end > place.end else []
        for pool, nodes, since in spans:
            if self.profiles and nodes > 0 and end > since:
                self.profiles[pool].take(since, end, nodes)
            if since <= self.shadows[pool] < end:
                self.extras[pool] -= nodes

    def advance(self, pool: int, nodes: int, start: float, end: float) -> None:
        """Add nodes of a pool from `start` to `end` to what is expected to be free; from -inf on, also now."""
        if start == -INF < end:
            self.nodes.free[pool] += nodes
        if start <= self.shadows[pool] < end:
            self.extras[pool] += nodes
        if self.profiles:
            self.profiles[pool].give(start, end, nodes)
