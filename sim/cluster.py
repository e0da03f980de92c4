"""The state of the cluster: where each node is, and what is open against it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Bucket
from sim.packing import spread
from sim.places import Place, Stay
from sim.pool import Level, PackedPool, Tally, make_pools
from sim.whole_units import WholeUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sim.job import Group, Job
    from sim.ledger import Account
    from sim.places import Reserve, Units
    from sim.pool import Pool

__all__ = ["Cluster"]

_JOB = int(Place.JOB)
_FOR_GOOD = 1 << 60
"""Open outages of a withheld node: more than there are failures to open and close."""


class Cluster:
    """Every node is in exactly one place; counts are kept beside the array, never recounted.

    The nodes of a job that went back to the queue stay with it, as idle nodes, until somebody else needs them: so a
    requeue of a large job costs no more than that of a small one. :meth:`where` sees through this.

    With ``units`` the nodes are used in whole units (racks, scale-up domains), which :class:`WholeUnits` keeps.
    """

    __slots__ = (
        "account",
        "blocks",
        "count_down",
        "down",
        "down_times",
        "failed",
        "gpus_per_node",
        "group",
        "idle",
        "level_at",
        "mates",
        "narrow",
        "nodes",
        "on_join",
        "on_leave",
        "outages",
        "packed_by",
        "place",
        "pools",
        "position",
        "refilled",
        "repairing",
        "spare",
        "stranded",
        "units",
        "units_whole",
        "withheld",
    )

    def __init__(
        self,
        nodes: int,
        gpus_per_node: int,
        reserves: Mapping[str, Reserve],
        account: Account,
        units: Units | None = None,
        packed_by: Sequence[int] = (),
        withheld: int = 0,
    ) -> None:
        self.nodes = nodes
        self.gpus_per_node = gpus_per_node
        self.account = account
        self.place = [int(Place.IDLE)] * nodes
        self.narrow: set[int] = set()
        """Nodes of jobs that step on although a part of them is out."""
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
        self.on_join: Callable[[int], None] | None = None
        """Told each node that takes the place of another one of its unit in a job, at once and without a plan."""
        self.down = Tally()
        self.down_times = self.down.times
        self.count_down: Callable[[int, float], None] = self.down.change
        """Note that so many more nodes are down from a time on."""
        self.stranded = Level()
        """Healthy nodes of units that are not of use."""
        self.mates = Level()
        """Healthy nodes that wait as spares inside their unit."""
        self.units_whole = Level()
        """Units that are of use."""
        serving = nodes - withheld
        self.withheld = Level()
        """The last nodes, if nobody gets them: as if they were down for good, but nothing is wrong with them."""
        self.withheld.count = withheld
        self.place[serving:] = [int(Place.WITHHELD)] * withheld
        self.outages[serving:] = [_FOR_GOOD] * withheld
        self.units = WholeUnits(units, self) if units is not None else None
        self.packed_by = packed_by
        """Domain of each node that jobs are packed into; empty when they take nodes by number."""
        first = list(range(serving)) if self.units is None else self.units.seat_mates()
        if packed_by:
            spares = spread(first, reserves["spare"].nodes, packed_by) if "spare" in reserves else []
            first = sorted(set(first).difference(spares)) + spares
        self.pools = make_pools(reserves, first, self.place, packed_by)
        self.level_at: dict[int, Level] = {pool.place: pool for pool in self.pools.values()}
        self.level_at |= {int(Place.STRANDED): self.stranded, int(Place.MATE): self.mates}
        """What counts the nodes of a place outside jobs and repair."""
        self.refilled = [pool for pool in self.pools.values() if pool.refills]
        """Pools that returning nodes fill up, in this order: that of the reserves."""
        self.idle = self.pools["idle"]
        self.spare = self.pools["spare"]

    def rank_by(self, rank: Callable[[int], object]) -> None:
        """Pick nodes by a key that `rank` gives each when it enters a pool, in place of its number."""
        if self.units is not None:
            rank = self.units.rank(rank)
        for pool in self.pools.values():
            pool.rank_by(rank)

    def where(self, node: int) -> Place:
        """Return the place of a node."""
        if self.place[node] == Place.JOB:
            group = self.group[node]
            assert group is not None
            return Place.JOB if group.job.holding else Place.IDLE
        return Place(self.place[node])

    # ----------------------------------------------------------------------------------------- allocation

    def take(self, name: str, now: float, home: int = -1) -> int:
        """Take a healthy node of a pool, or return -1: one of the domain `home` if there is one, else the first."""
        pool = self.pools.get(name)
        if pool is None or pool.count == 0:
            return -1
        while True:
            node = pool.pop_near(self.place, home) if isinstance(pool, PackedPool) else -1
            if node < 0:
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
        if isinstance(pool, PackedPool):
            while self.blocks:
                self.dissolve(self.blocks[0])
            taken = pool.take_together(count, self.place)
        else:
            taken = pool.take_lowest(count, self.place, lambda: self.dissolve(self.blocks[0]))
        pool.change(-count, now)
        return taken

    def seat(self, group: Group, position: int, node: int) -> None:
        """Put a node that was taken at a position of the group's job."""
        job = group.job
        job.nodes[position] = node
        self.group[node] = group
        self.position[node] = position
        if job.footprint is not None:
            job.footprint.add(node)

    def seat_many(self, group: Group, positions: list[int], nodes: list[int]) -> None:
        """Put nodes, in rising order, at positions, in the order of ranks."""
        count = len(nodes)
        is_plain = not group.job.rank_of and group.job.footprint is None
        if is_plain and count and nodes[-1] - nodes[0] + 1 == count and positions[-1] - positions[0] + 1 == count:
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
            self.enter(self.pools[target], node, now)
        return count

    def release(self, job: Job, now: float) -> None:
        """Make the nodes of a job idle; they stay at its positions until somebody else needs them."""
        if self.units is not None and self.units.torn:
            self.units.let_go(job.main, now)
        job.holding = False
        self.idle.change(job.nodes_needed - len(job.main.missing), now)
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
                if job.footprint is not None:
                    job.footprint.remove(node)
                if self.on_leave is not None:
                    self.on_leave(node)
                self.group[node] = None
                self.place[node] = Place.IDLE
                self.idle.push(node)

    # --------------------------------------------------------------------------------------- out of service

    def send_to_repair(self, node: int, cause: int, now: float, bucket: int = Bucket.REPAIR) -> None:
        """Move a node that is down out of its place."""
        group = self.group[node]
        self.narrow.discard(node)
        self.leave(node, now)
        if self.units is not None:
            self.units.lose(node, group, now)
        self.place[node] = Place.REPAIR
        self.repairing[node] = Stay(now, cause, [(bucket, math.inf)])
        if bucket == Bucket.REPAIR:
            self.failed[node] = self.failed.get(node, 0) + 1

    def leave(self, node: int, now: float) -> None:
        """Take a node out of its pool or its job; the caller says where it is from now on."""
        place = self.place[node]
        group = self.group[node]
        if place == _JOB:
            assert group is not None
            if not group.job.holding:
                self.idle.change(-1, now)
        else:
            self.level_at[place].change(-1, now)
        if group is not None:
            position = self.position[node]
            group.job.nodes[position] = -1
            if group.job.footprint is not None:
                group.job.footprint.remove(node)
            group.missing.append(position)
            self.group[node] = None

    def set_aside(self, node: int, now: float) -> None:
        """Put a healthy node of a job back among those that wait."""
        group = self.group[node]
        self.leave(node, now)
        if self.units is not None:
            self.units.replace(node, group, now)
        self._return(node, now)

    def bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against wait for work again."""
        self.repairing.pop(node).charge(self.account.table, self.gpus_per_node, now)
        self._return(node, now)

    def _return(self, node: int, now: float) -> None:
        if self.units is not None:
            self.units.take_back(node, now)
        else:
            self.enter(self.refill(1), node, now)

    def refill(self, size: int) -> Pool:
        """Return the pool that `size` returning nodes go to."""
        for pool in self.refilled:
            if pool.count + size <= pool.target:
                return pool
        return self.idle

    def enter(self, pool: Pool, node: int, now: float) -> None:
        """Put a node that is nowhere into a pool."""
        self.place[node] = pool.place
        pool.change(1, now)
        pool.push(node)

    def settle(self, now: float) -> float:
        """Charge the nodes outside jobs up to `now`; return the node-seconds spent down since the last time."""
        table = self.account.table
        for name, pool in self.pools.items():
            bucket = Bucket.UNALLOCATED if name == "idle" else Bucket.SPARE_IDLE
            table[bucket][0] += pool.collect(now) * self.gpus_per_node
        table[Bucket.UNALLOCATED][0] += self.withheld.collect(now) * self.gpus_per_node
        table[Bucket.SPARE_IDLE][0] += self.mates.collect(now) * self.gpus_per_node
        table[Bucket.STRANDED][0] += self.stranded.collect(now) * self.gpus_per_node
        for stay in self.repairing.values():
            stay.charge(table, self.gpus_per_node, now)
        return self.down.collect(now)
