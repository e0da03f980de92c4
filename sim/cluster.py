"""The state of the cluster: where each node is, and what is open against it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.contracts import Bucket
from sim.places import POOLS, Place, Stay
from sim.pool import Level, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sim.job import Group, Job
    from sim.ledger import Account
    from sim.places import Reserve

__all__ = ["Cluster"]


_FILLED_FIRST = ("spare", "warm", "cold")
_JOB = int(Place.JOB)


class Cluster:
    """Every node is in exactly one place; counts are kept beside the array, never recounted.

    The nodes of a job that went back to the queue stay with it, as idle nodes, until somebody else needs them: so a
    requeue of a large job costs no more than that of a small one. :meth:`where` sees through this.

    With ``units`` the nodes are used in whole units (racks, scale-up domains): when one node of a unit is out, the
    others are stranded until it is back.
    """

    __slots__ = (
        "account",
        "blocks",
        "down",
        "down_times",
        "failed",
        "gpus_per_node",
        "group",
        "idle",
        "nodes",
        "on_leave",
        "outages",
        "place",
        "pool_at",
        "pools",
        "position",
        "refilled",
        "repairing",
        "spare",
        "stranded",
        "torn",
        "unit_of",
        "units",
    )

    def __init__(self, nodes: int, gpus_per_node: int, reserves: Mapping[str, Reserve], account: Account) -> None:
        self.nodes = nodes
        self.gpus_per_node = gpus_per_node
        self.account = account
        self.place = [int(Place.IDLE)] * nodes
        self.outages = [0] * nodes
        """Open outages of each node; it returns when there are none."""
        self.group: list[Group | None] = [None] * nodes
        self.position = [0] * nodes
        self.repairing: dict[int, Stay] = {}
        """Nodes out of service."""
        self.failed: dict[int, int] = {}
        """How often each node has gone to repair since it was new; planned work does not count."""
        self.blocks: list[Job] = []
        """Jobs without an allocation whose former nodes are idle."""
        self.on_leave: Callable[[int], None] | None = None
        """Told each node that leaves its former job for good without having failed."""
        self.units: Sequence[Sequence[int]] = ()
        self.unit_of: Sequence[int] = ()
        self.torn: list[int] = []
        """Nodes that a job still holds of units that are not whole any more."""
        self.down = Level()
        self.stranded = Level()
        self.down_times: dict[int, float] = {}
        """How long how many nodes have been down [s]."""
        self.pools = self._make_pools(reserves)
        self.pool_at = {int(pool.place): pool for pool in self.pools.values()}
        self.refilled = [self.pools[name] for name in _FILLED_FIRST if name in self.pools and self.pools[name].refills]
        """Pools that returning nodes fill up, in this order."""
        self.idle = self.pools["idle"]
        self.spare = self.pools["spare"]

    def _make_pools(self, reserves: Mapping[str, Reserve]) -> dict[str, Pool]:
        """Give the last nodes to the reserves, the others to the idle nodes."""
        pools = {"idle": Pool(Place.IDLE, 0, refills=False), "spare": Pool(Place.SPARE, 0)}
        kept = self.nodes
        for name, reserve in reserves.items():
            size = min(reserve.nodes, kept)
            pool = Pool(POOLS[name], size, refills=reserve.refills)
            pool.entries = list(range(kept - size, kept))
            pool.count = size
            kept -= size
            self.place[kept : kept + size] = [int(pool.place)] * size
            pools[name] = pool
        pools["idle"].entries = list(range(kept))
        pools["idle"].count = kept
        return pools

    def rank_by(self, rank: Callable[[int], object]) -> None:
        """Pick nodes by a key that `rank` gives each when it enters a pool, in place of its number."""
        if self.units:
            rank = self._rank_of_units(rank)
        for pool in self.pools.values():
            nodes, pool.entries = pool.entries, []
            pool.rank = rank
            for node in nodes:
                pool.push(node)

    def _rank_of_units(self, rank: Callable[[int], Any]) -> Callable[[int], object]:
        """Give the nodes of a unit one key, that of the worst of them: they are picked together."""
        keys: dict[int, object] = {}

        def of_unit(node: int) -> object:
            index = self.unit_of[node]
            unit = self.units[index]
            # The nodes of a unit enter a pool one after another, the first one first.
            if node == unit[0]:
                keys[index] = max(rank(other) for other in unit), index
            return keys[index]

        return of_unit

    def use_units(self, units: Sequence[Sequence[int]]) -> None:
        """Use nodes in whole units only."""
        self.units = units
        owner = [0] * self.nodes
        for index, unit in enumerate(units):
            for node in unit:
                owner[node] = index
        self.unit_of = owner

    def where(self, node: int) -> Place:
        """Return the place of a node."""
        if self.place[node] == Place.JOB:
            group = self.group[node]
            assert group is not None
            return Place.JOB if group.job.holding else Place.IDLE
        return Place(self.place[node])

    # ----------------------------------------------------------------------------------------- allocation

    def take(self, name: str, now: float) -> int:
        """Take the first healthy node of a pool, or return -1."""
        pool = self.pools.get(name)
        if pool is None or pool.count == 0:
            return -1
        while True:
            node = pool.pop(self.place)
            if node >= 0:
                pool.change(-1, now)
                self.place[node] = Place.JOB
                return node
            self.dissolve(self.blocks[0])

    def take_many(self, count: int, now: float) -> list[int]:
        """Take `count` idle nodes and return them in rising order; the caller has made sure that there are as many."""
        pool = self.idle
        if pool.rank is not None:
            return sorted(self.take("idle", now) for _ in range(count))
        heap = pool.entries
        heap.sort()
        place = self.place
        taken = heap[:count]
        if taken and taken[-1] - taken[0] + 1 == count and place[taken[0] : taken[-1] + 1] == [Place.IDLE] * count:
            # A stretch of idle nodes, as at the start: no need to look at each.
            del heap[:count]
            place[taken[0] : taken[-1] + 1] = [int(Place.JOB)] * count
            pool.change(-count, now)
            return taken
        taken = []
        index = 0
        while len(taken) < count:
            while index == len(heap):
                del heap[:index]
                index = 0
                self.dissolve(self.blocks[0])
                heap.sort()
            node = heap[index]
            index += 1
            if place[node] == Place.IDLE:
                place[node] = Place.JOB
                taken.append(node)
        del heap[:index]
        pool.change(-count, now)
        # A dissolved block may have brought lower nodes than those taken before it.
        return sorted(taken)

    def seat(self, group: Group, position: int, node: int) -> None:
        """Put a node that was taken at a position of the group's job."""
        group.job.nodes[position] = node
        self.group[node] = group
        self.position[node] = position

    def seat_many(self, group: Group, positions: list[int], nodes: list[int]) -> None:
        """Put nodes at positions, both in rising order."""
        count = len(nodes)
        if count and nodes[-1] - nodes[0] + 1 == count and positions[-1] - positions[0] + 1 == count:
            first, stop = nodes[0], nodes[-1] + 1
            group.job.nodes[positions[0] : positions[-1] + 1] = nodes
            self.group[first:stop] = [group] * count
            self.position[first:stop] = positions
        else:
            for position, node in zip(positions, nodes, strict=True):
                self.seat(group, position, node)

    def move(self, origin: str, target: str, count: int, now: float) -> int:
        """Move up to `count` nodes from one pool to another; return how many there were."""
        for moved in range(count):
            node = self.take(origin, now)
            if node < 0:
                return moved
            self._enter(self.pools[target], node, now)
        return count

    def release(self, job: Job, now: float) -> None:
        """Make the nodes of a job idle; they stay at its positions until somebody else needs them."""
        job.holding = False
        held = job.nodes_needed - len(job.main.missing)
        self.idle.change(held, now)
        self.blocks.append(job)

    def reclaim(self, job: Job, now: float) -> None:
        """Give a job back what is left of its former nodes."""
        job.holding = True
        if job in self.blocks:
            self.blocks.remove(job)
            self.idle.change(len(job.main.missing) - job.nodes_needed, now)

    def dissolve(self, job: Job) -> None:
        """Make the former nodes of a job plain idle nodes; their number stays the same."""
        self.blocks.remove(job)
        for position, node in enumerate(job.nodes):
            if node >= 0:
                job.nodes[position] = -1
                job.main.missing.append(position)
                if self.on_leave is not None:
                    self.on_leave(node)
                self.group[node] = None
                self.place[node] = Place.IDLE
                self.idle.push(node)

    # --------------------------------------------------------------------------------------- out of service

    def count_down(self, delta: int, now: float) -> None:
        """Note that `delta` more nodes are down."""
        down = self.down
        count = down.count
        seconds = now - down.last
        self.down_times[count] = self.down_times.get(count, 0.0) + seconds
        down.area += count * seconds
        down.last = now
        down.count = count + delta

    def send_to_repair(self, node: int, cause: int, now: float, bucket: int = Bucket.REPAIR) -> None:
        """Move a node that is down out of its place; in a cluster of units the rest of its unit is stranded."""
        self._leave(node, now)
        self.place[node] = Place.REPAIR
        self.repairing[node] = Stay(now, cause, [(bucket, math.inf)])
        if bucket == Bucket.REPAIR:
            self.failed[node] = self.failed.get(node, 0) + 1
        if self.units:
            for other in self.units[self.unit_of[node]]:
                place = self.where(other)
                if place is Place.JOB:
                    self.torn.append(other)
                elif place not in (Place.REPAIR, Place.STRANDED):
                    self.strand(other, now)

    def strand(self, node: int, now: float) -> None:
        """Put a healthy node aside until its unit is whole."""
        if self.group[node] is not None and self.on_leave is not None:
            self.on_leave(node)
        self._leave(node, now)
        self._gather(node, now)

    def _leave(self, node: int, now: float) -> None:
        """Take a node out of its pool or its job."""
        place = self.place[node]
        group = self.group[node]
        if place == _JOB:
            assert group is not None
            if not group.job.holding:
                self.idle.change(-1, now)
        elif place == Place.STRANDED:
            self.stranded.change(-1, now)
        else:
            self.pool_at[place].change(-1, now)
        if group is not None:
            position = self.position[node]
            group.job.nodes[position] = -1
            group.missing.append(position)
            self.group[node] = None

    def set_aside(self, node: int, now: float) -> None:
        """Put a healthy node of a job back among those that wait; the rest of its unit has to follow."""
        self._leave(node, now)
        self._return(node, now)
        if self.units:
            self.torn += [other for other in self.units[self.unit_of[node]] if self.where(other) is Place.JOB]

    def bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against wait for work again."""
        self._charge(self.repairing.pop(node), now)
        self._return(node, now)

    def _return(self, node: int, now: float) -> None:
        if self.units:
            self._gather(node, now)
        else:
            self._enter(self._refill(1), node, now)

    def _gather(self, node: int, now: float) -> None:
        """Let a healthy node wait until its whole unit does; then the unit is of use again."""
        self.place[node] = Place.STRANDED
        self.stranded.change(1, now)
        unit = self.units[self.unit_of[node]]
        if all(self.place[other] == Place.STRANDED for other in unit):
            self.stranded.change(-len(unit), now)
            pool = self._refill(len(unit))
            for other in unit:
                self._enter(pool, other, now)

    def _refill(self, size: int) -> Pool:
        """Return the pool that `size` returning nodes go to."""
        for pool in self.refilled:
            if pool.count + size <= pool.target:
                return pool
        return self.idle

    def _enter(self, pool: Pool, node: int, now: float) -> None:
        self.place[node] = pool.place
        pool.change(1, now)
        pool.push(node)

    # ------------------------------------------------------------------------------------------- accounting

    def _charge(self, stay: Stay, now: float) -> None:
        """Charge a node out of service up to `now`, phase by phase."""
        table = self.account.table
        while stay.since < now:
            bucket, end = stay.segments[0]
            stop = end if end < now else now
            table[bucket][stay.cause] += (stop - stay.since) * self.gpus_per_node
            stay.since = stop
            if end <= now:
                del stay.segments[0]

    def settle(self, now: float) -> float:
        """Charge the nodes outside jobs up to `now`; return the node-seconds spent down since the last time."""
        table = self.account.table
        for name, pool in self.pools.items():
            bucket = Bucket.UNALLOCATED if name == "idle" else Bucket.SPARE_IDLE
            table[bucket][0] += pool.collect(now) * self.gpus_per_node
        table[Bucket.STRANDED][0] += self.stranded.collect(now) * self.gpus_per_node
        for stay in self.repairing.values():
            self._charge(stay, now)
        self.count_down(0, now)
        return self.down.collect(now)
