"""Nodes: where each one is, the pools in which they wait, and the units that are used as wholes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.sim.engine.holders import Allocation, Job, ReplicaGroup
    from ettrick.sim.engine.ledger import Account
    from ettrick.sim.engine.lives import ExposureClock, ExposureClocks
    from ettrick.sim.engine.prepared import AllocationUnits, Prepared, SparePool

# ----------------------------------------
# Where a node can be, and what a stay out of service is charged to.


class NodeState:
    """The place of a node; plain numbers, as in :class:`ettrick.sim.engine.kernel.EventPriority`."""

    IDLE = 0
    SPARE = 1
    JOB = 2
    REPAIR = 3
    WARM = 4
    COLD = 5
    STRANDED = 6
    MATE = 7
    WITHHELD = 8


PLACES = 9

POOLS = {"idle": NodeState.IDLE, "spare": NodeState.SPARE, "warm": NodeState.WARM, "cold": NodeState.COLD}


@dataclass(slots=True, eq=False)
class OpenOutage:
    """A node out of service: since when it is charged, to which cause, and through which phases it goes."""

    since: float
    cause: int
    segments: list[tuple[int, float]]
    """Phases ahead: bucket and end [s]; the last one lasts until the node returns."""

    def charge(self, table: list[list[float]], gpus: int, now: float) -> None:
        """Charge a node of so many GPUs up to `now` [s], phase by phase."""
        while self.since < now:
            bucket, end = self.segments[0]
            stop = end if end < now else now
            table[bucket][self.cause] += (stop - self.since) * gpus
            self.since = stop
            if end <= now:
                del self.segments[0]


# ----------------------------------------
# Which nodes of a cluster a job takes so that it sits closely together.


def gather(waiting: Sequence[int], count: int, domain_of: Sequence[int]) -> list[int]:
    """Return `count` of the nodes that wait, in rising order, from as few domains as that takes.

    Of the domains that could hold all of them, the one with the fewest waiting nodes is taken (best fit: large gaps are
    kept for large jobs). Otherwise whole domains are taken, the fullest first, and the last part is a best fit again.

    Parameters
    ----------
    waiting
        Nodes that are free, at least `count`.
    count
        How many are needed [-].
    domain_of
        Domain of each node of the cluster.
    """
    left = Counter(domain_of[node] for node in waiting)
    chosen: set[int] = set()
    amount: dict[int, int] = {}
    needed = count
    while needed:
        enough = [(nodes, domain) for domain, nodes in left.items() if nodes >= needed]
        _, domain = min(enough) if enough else max((nodes, -domain) for domain, nodes in left.items())
        domain = domain if enough else -domain
        amount[domain] = min(left.pop(domain), needed)
        needed -= amount[domain]
        chosen.add(domain)
    gathered = []
    for node in sorted(waiting):
        domain = domain_of[node]
        if amount.get(domain, 0):
            amount[domain] -= 1
            gathered.append(node)
    return gathered


def spread(nodes: Iterable[int], count: int, domain_of: Sequence[int]) -> list[int]:
    """Return `count` nodes in rising order, the last ones of each domain, as even a share of each as there is.

    Larger domains give more, by the method of largest remainders; of equal remainders the first domain gives.
    """
    members: dict[int, list[int]] = {}
    for node in nodes:
        members.setdefault(domain_of[node], []).append(node)
    total = sum(map(len, members.values()))
    quota = {domain: count * len(inside) / total for domain, inside in members.items()}
    shares = {domain: int(share) for domain, share in quota.items()}
    rest = count - sum(shares.values())
    for domain in sorted(quota, key=lambda candidate: (shares[candidate] - quota[candidate], candidate))[:rest]:
        shares[domain] += 1
    return sorted(node for domain, inside in members.items() for node in inside[len(inside) - shares[domain] :])


# ----------------------------------------
# Healthy nodes that wait in one place until a job needs them.


class TimeWeightedCount:
    """A count and its integral over time."""

    __slots__ = ("area", "count", "last")

    def __init__(self, now: float = 0.0) -> None:
        self.count = 0
        self.area = 0.0
        self.last = now

    def change(self, delta: int, now: float) -> None:
        """Add `delta` at the time `now` [s]."""
        self.area += self.count * (now - self.last)
        self.last = now
        self.count += delta

    def collect(self, now: float) -> float:
        """Return the integral since the last collection [count s] and begin a new one."""
        self.change(0, now)
        area, self.area = self.area, 0.0
        return area


class OccupancyHistogram(TimeWeightedCount):
    """A level that also keeps for how long it had each value."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[int, float] = {}
        """The time at each value [s]."""

    def change(self, delta: int, now: float) -> None:
        """Add `delta` at the time `now` [s]."""
        self.times[self.count] = self.times.get(self.count, 0.0) + (now - self.last)
        super().change(delta, now)


class NodePool(TimeWeightedCount):
    """Nodes in the order in which they are picked: by number, or by a key that `rank` gives a node when it enters.

    Those of the start wait in a sorted run, which costs about the same for many as for few, those that enter later in a
    heap. A node that left without being picked leaves its entry behind; whoever picks looks at its place.
    """

    __slots__ = ("entries", "keys", "passed", "place", "rank", "refills", "run", "run_keys", "target")

    def __init__(self, place: int, target: int, *, refills: bool = True) -> None:
        super().__init__()
        self.place = place
        self.target = target
        """The number of nodes it should hold; returning nodes fill it up to that."""
        self.refills = refills
        """Whether returning nodes fill it up."""
        self.run: list[int] = []
        """Nodes of the start in the order in which they are picked; `passed` of them are no longer here."""
        self.run_keys: list[Any] = []
        self.passed = 0
        self.entries: list[Any] = []
        """Heap of node numbers, or of pairs (key, node number)."""
        self.rank: Callable[[int], Any] | None = None
        self.keys: dict[int, Any] = {}
        """Key of each node in the heap."""

    def fill(self, nodes: list[int]) -> None:
        """Enter the nodes of the start, in rising order."""
        self.run = nodes
        self.count = len(nodes)

    def rank_by(self, rank: Callable[[int], Any], keys: list[Any]) -> None:
        """Order the nodes by a key; those of the start, all still here, have `keys`."""
        self.rank = rank
        self.run_keys = sorted(keys)
        if self.run_keys != keys:
            self.run = [self.run[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]

    def push(self, node: int) -> None:
        """Enter a node; the caller counts it."""
        if self.rank is None:
            heappush(self.entries, node)
        else:
            key = self.keys[node] = self.rank(node)
            heappush(self.entries, (key, node))

    def take_many(self, count: int, places: list[int]) -> list[int]:
        """Take nodes for a job, in rising order."""
        self._merge()
        nodes = sorted(self.run[self.passed : self.passed + count])
        if (
            len(nodes) == count > 0
            and not self.entries
            and nodes[-1] - nodes[0] + 1 == count
            and places[nodes[0] : nodes[-1] + 1] == [self.place] * count
        ):
            # A stretch of nodes that are here, as at the start: no need to look at each.
            self.passed += count
            places[nodes[0] : nodes[-1] + 1] = [NodeState.JOB] * count
            return nodes
        nodes = []
        for _ in range(count):
            node = self.pop(places)
            places[node] = NodeState.JOB
            nodes.append(node)
        return sorted(nodes)

    def _merge(self) -> None:
        """Let all nodes wait in the run, if they have no keys: it is cheaper to take many from."""
        if self.rank is None and self.entries:
            self.run = sorted(self.run[self.passed :] + self.entries)
            self.entries, self.passed = [], 0

    def pop(self, places: list[int]) -> int:
        """Return the first node that is still here, or -1 if no entry is left."""
        run, entries, keys, place = self.run, self.entries, self.keys, self.place
        # A node that failed and returned meanwhile stands here twice; its place decides, or its key.
        while self.passed < len(run) and (places[run[self.passed]] != place or run[self.passed] in keys):
            self.passed += 1
        while entries:
            if self.rank is None:
                node = entries[0]
                if places[node] == place:
                    break
            else:
                key, node = entries[0]
                if places[node] == place and keys.get(node) == key:
                    break
            heappop(entries)
        if self.passed < len(run):
            first = run[self.passed]
            if not entries or (first if self.rank is None else (self.run_keys[self.passed], first)) <= entries[0]:
                self.passed += 1
                return first
        if not entries:
            return -1
        heappop(entries)
        keys.pop(node, None)
        return int(node)


class PackedPool(NodePool):
    """Nodes by the domain that jobs are packed into, each domain in the order of numbers."""

    __slots__ = ("domain_of", "heaps")

    def __init__(self, place: int, target: int, domain_of: Sequence[int], *, refills: bool = True) -> None:
        super().__init__(place, target, refills=refills)
        self.domain_of = domain_of
        self.heaps: dict[int, list[int]] = {}
        """Heap of the node numbers of each domain."""

    def fill(self, nodes: list[int]) -> None:
        """Enter the nodes of the start, in rising order."""
        for node in nodes:
            # In rising order a list is a heap.
            self.heaps.setdefault(self.domain_of[node], []).append(node)
        self.count = len(nodes)

    def push(self, node: int) -> None:
        """Enter a node; the caller counts it."""
        heappush(self.heaps.setdefault(self.domain_of[node], []), node)

    def take_many(self, count: int, places: list[int]) -> list[int]:
        """Take nodes for a job, in rising order, from as few domains as that takes."""
        here = {node for heap in self.heaps.values() for node in heap if places[node] == self.place}
        nodes = gather(sorted(here), count, self.domain_of)
        for node in nodes:
            places[node] = NodeState.JOB
        self.heaps = {}
        for node in sorted(here.difference(nodes)):
            # In rising order a list is a heap.
            self.heaps.setdefault(self.domain_of[node], []).append(node)
        return nodes

    def pop_near(self, places: list[int], home: int) -> int:
        """Return the first node of the domain `home` that is still here, or -1."""
        heap = self.heaps.get(home, [])
        while heap:
            node = heappop(heap)
            if places[node] == self.place:
                return node
        return -1

    def pop(self, places: list[int]) -> int:
        """Return the first node that is still here, of whatever domain, or -1."""
        for heap in self.heaps.values():
            while heap and places[heap[0]] != self.place:
                heappop(heap)
        first = min((heap[0] for heap in self.heaps.values() if heap), default=-1)
        return -1 if first < 0 else self.pop_near(places, self.domain_of[first])


def make_pools(
    reserves: Mapping[str, SparePool], nodes: list[int], places: list[int], packed_by: Sequence[int] = ()
) -> dict[str, NodePool]:
    """Return the pools by name: the last of the nodes, which are all idle so far, go to the reserves."""

    def make(name: str, target: int, members: list[int], *, refills: bool) -> NodePool:
        place = POOLS[name]
        pool = (
            PackedPool(place, target, packed_by, refills=refills)
            if packed_by
            else NodePool(place, target, refills=refills)
        )
        pool.fill(members)
        if name != "idle":
            for node in members:
                places[node] = place
        return pool

    reserved: dict[str, list[int]] = {"spare": []}
    for name, reserve in reserves.items():
        first = len(nodes) - min(reserve.nodes, len(nodes))
        reserved[name] = nodes[first:]
        del nodes[first:]
    pools = {"idle": make("idle", 0, nodes, refills=False)}
    for name, members in reserved.items():
        pools[name] = make(name, len(members), members, refills=name not in reserves or reserves[name].refills)
    return pools


# ----------------------------------------
# Units of nodes that jobs use as wholes, with spares inside them: racks and scale-up domains.


class WholeUnits:
    """Keeps each unit in use or broken.

    Of a unit *in use* as many nodes as a job needs are in one pool or at positions of one job; the other healthy ones
    are their mates, and one of them takes the place of a node that leaves. Of a *broken* unit every healthy node is
    stranded, except those that a job holds until it lets them go.
    """

    __slots__ = ("cluster", "drains", "is_broken", "needed", "nodes", "of_node", "torn")

    def __init__(self, units: AllocationUnits, cluster: Cluster) -> None:
        self.nodes, self.needed, self.drains = units
        self.cluster = cluster
        self.of_node = [0] * cluster.nodes
        for index, unit in enumerate(self.nodes):
            for node in unit:
                self.of_node[node] = index
        self.is_broken = [False] * len(self.nodes)
        self.torn: list[int] = []
        """Broken units of which a job still holds nodes."""
        cluster.units_whole.count = len(self.nodes)

    def seat_mates(self) -> list[int]:
        """Let the last nodes of each unit be mates of the first ones; return the first ones."""
        mates = [node for unit in self.nodes for node in unit[self.needed :]]
        for node in mates:
            self.cluster.place[node] = NodeState.MATE
        self.cluster.mates.count = len(mates)
        return [node for unit in self.nodes for node in unit[: self.needed]]

    def rank(self, rank: Callable[[int], Any]) -> Callable[[int], object]:
        """Give the nodes of a unit one key, that of the worst of them: they are picked together."""
        keys: dict[int, object] = {}
        place = self.cluster.place

        def of_unit(node: int) -> object:
            index = self.of_node[node]
            unit = self.nodes[index]
            # The nodes of a unit enter a pool one after another, and the first one brings a new key.
            if index not in keys or all(place[mate] != place[node] for mate in unit if mate != node):
                keys[index] = max(rank(mate) for mate in unit), index
            return keys[index]

        return of_unit

    # ------------------------------------------------------------------------------------------- out and back

    def lose(self, node: int, group: ReplicaGroup | Allocation | None, now: float) -> None:
        """Let a mate take the place that a node has left for repair, or break the unit; see :meth:`replace`."""
        if self.drains:
            self.tear(node, now)
        else:
            self.replace(node, group, now)

    def replace(self, node: int, group: ReplicaGroup | Allocation | None, now: float) -> None:
        """Let a mate take the place that a node has just left, or break the unit.

        Parameters
        ----------
        node
            The node; its entry in ``Cluster.place`` is where it was.
        group
            The group that it was in, if any.
        """
        index = self.of_node[node]
        if self.is_broken[index]:
            return
        cluster = self.cluster
        place = cluster.place[node]
        if place == NodeState.MATE:
            return
        mate = next((peer for peer in self.nodes[index] if cluster.place[peer] == NodeState.MATE and peer != node), -1)
        if mate < 0:
            self.tear(node, now)
            return
        cluster.mates.change(-1, now)
        if group is None:
            pool = cluster.level_at[place]
            assert isinstance(pool, NodePool)
            cluster.enter(pool, mate, now)
        else:
            self._sit_in(group, cluster.position[node], mate, now)

    def _sit_in(self, group: ReplicaGroup | Allocation, position: int, mate: int, now: float) -> None:
        """Put a mate at a position of a job."""
        cluster = self.cluster
        group.missing.remove(position)
        cluster.place[mate] = NodeState.JOB
        if group.job.holding:
            group.replaced.append(position)
        else:
            cluster.idle.change(1, now)
        cluster.seat(group, position, mate, now)

    def tear(self, node: int, now: float) -> None:
        """Break the unit of a node, if it is not broken: its other nodes are stranded, those of jobs when let go."""
        index = self.of_node[node]
        if self.is_broken[index]:
            return
        cluster = self.cluster
        self.is_broken[index] = True
        cluster.units_whole.change(-1, now)
        for mate in self.nodes[index]:
            if mate == node or cluster.place[mate] == NodeState.REPAIR:
                continue
            if cluster.where(mate) != NodeState.JOB:
                self._strand(mate, now)
            elif index not in self.torn:
                self.torn.append(index)

    def _strand(self, node: int, now: float) -> None:
        """Put a healthy node aside until its unit is of use."""
        cluster = self.cluster
        cluster.leave(node, now)
        cluster.place[node] = NodeState.STRANDED
        cluster.stranded.change(1, now)

    def take_back(self, node: int, now: float) -> None:
        """Let a healthy node that is nowhere be a mate, or wait until its unit is of use again."""
        cluster = self.cluster
        index = self.of_node[node]
        if self.is_broken[index]:
            cluster.place[node] = NodeState.STRANDED
            cluster.stranded.change(1, now)
            self._mend(index, now)
        else:
            cluster.place[node] = NodeState.MATE
            cluster.mates.change(1, now)

    def let_go(self, group: ReplicaGroup | Allocation, now: float) -> None:
        """Strand what a group still holds of units that are broken."""
        cluster = self.cluster
        for index in self.torn.copy():
            if self._mend(index, now):
                continue
            for node in self.nodes[index]:
                if cluster.group[node] is group and not cluster.outages[node]:
                    self._strand(node, now)
            if all(cluster.place[node] != NodeState.JOB for node in self.nodes[index]):
                self.torn.remove(index)
                self._mend(index, now)

    def _mend(self, index: int, now: float) -> bool:
        """Make a broken unit one of use if it has what that takes; return whether it had."""
        assert self.is_broken[index]
        cluster = self.cluster
        unit, needed, place = self.nodes[index], self.needed, cluster.place
        waiting = [node for node in unit if place[node] == NodeState.STRANDED]
        working = [node for node in unit if place[node] == NodeState.JOB]
        if not self._is_of_use(unit, waiting, working):
            return False
        self.is_broken[index] = False
        cluster.units_whole.change(1, now)
        cluster.stranded.change(-len(waiting), now)
        if index in self.torn:
            self.torn.remove(index)
        if working:
            # All that a job needs is still there, and so is the rest: the job never noticed.
            mates = waiting
        else:
            pool = cluster.refill(needed)
            for node in waiting[:needed]:
                cluster.enter(pool, node, now)
            mates = waiting[needed:]
        for node in mates:
            place[node] = NodeState.MATE
        cluster.mates.change(len(mates), now)
        return True

    def _is_of_use(self, unit: Sequence[int], waiting: Sequence[int], working: Sequence[int]) -> bool:
        """Return whether enough nodes of a unit wait or work; of those that work, all that a job needs, all well."""
        if len(waiting) + len(working) < (len(unit) if self.drains else self.needed):
            return False
        return not working or (len(working) == self.needed and not any(self.cluster.outages[node] for node in working))


_FOR_GOOD = 1 << 60

"""Open outages of a withheld node: more than there are failures to open and close."""


class Cluster:
    """Every node is in exactly one place; counts are kept next to the array, never recounted.

    The nodes of a job that went back to the queue stay with it, as idle nodes, until somebody takes a node.
    :meth:`where` sees through this.

    With ``units`` the nodes are used in whole units (racks, scale-up domains), which :class:`WholeUnits` keeps.
    """

    def __init__(self, prepared: Prepared, account: Account, lives: ExposureClocks) -> None:
        self.nodes, self.gpus_per_node = prepared.nodes, prepared.gpus_per_node
        self.account = account
        self.lives = lives
        """Informed who joins and leaves which group."""
        self.place = [NodeState.IDLE] * self.nodes
        self.narrow: set[int] = set()
        """Nodes of jobs that step on although a part of them is out."""
        self.outages = [0] * self.nodes
        """Open outages of each node; it returns when there are none."""
        self.group: list[ReplicaGroup | Allocation | None] = [None] * self.nodes
        lives.busy_clock_of = self._busy_clock_of
        self.position = [0] * self.nodes
        self.repairing: dict[int, OpenOutage] = {}
        """Nodes out of service."""
        self.failed: dict[int, int] = {}
        """The repairs of each node since it was new; planned work does not count."""
        self.blocks: list[Job] = []
        """Jobs without an allocation whose former nodes are idle."""
        self.notify: Callable[[float], None] | None = None
        """Called when idle nodes have come or gone otherwise than with a job."""
        self.down = OccupancyHistogram()
        self.down_times = self.down.times
        self.count_down: Callable[[int, float], None] = self.down.change
        """Note that so many more nodes are down from a time on."""
        self.stranded = TimeWeightedCount()
        """Healthy nodes of units that are not of use."""
        self.mates = TimeWeightedCount()
        """Healthy nodes that wait as spares inside their unit."""
        self.units_whole = OccupancyHistogram()
        """Units that are of use."""
        self.withheld = TimeWeightedCount()
        """The last nodes, if nobody gets them: as if they were down for good, but nothing is wrong with them."""
        self.withheld.count = withheld = prepared.withheld
        self.place[prepared.serving :] = [NodeState.WITHHELD] * withheld
        self.outages[prepared.serving :] = [_FOR_GOOD] * withheld
        self.units = WholeUnits(prepared.units, self) if prepared.units is not None else None
        self.packed_by = prepared.packed_by
        """Domain of each node that jobs are packed into; empty when they take nodes by number."""
        self._fill_pools(prepared)

    def _fill_pools(self, prepared: Prepared) -> None:
        """Put all nodes that serve into the pools, those of the reserves last."""
        first = list(range(prepared.serving)) if self.units is None else self.units.seat_mates()
        if self.packed_by:
            spares = spread(first, prepared.spares, self.packed_by) if "spare" in prepared.reserves else []
            first = sorted(set(first).difference(spares)) + spares
        self.pools = make_pools(prepared.reserves, first, self.place, self.packed_by)
        self.level_at: dict[int, TimeWeightedCount] = {pool.place: pool for pool in self.pools.values()}
        self.level_at |= {NodeState.STRANDED: self.stranded, NodeState.MATE: self.mates}
        """The counter of the nodes of a place outside jobs and repair."""
        self.refilled = [pool for pool in self.pools.values() if pool.refills]
        """Pools that returning nodes fill up, in this order: that of the reserves."""
        self.idle = self.pools["idle"]
        self.spare = self.pools["spare"]

    def rank_by(self, rank: Callable[[int], object], rank_all: Callable[[list[int]], list[Any]] | None = None) -> None:
        """Pick nodes by a key that `rank` gives each when it enters a pool, instead of its number.

        `rank_all` gives the nodes of the start the same keys, all at once.
        """
        if self.units is not None:
            rank, rank_all = self.units.rank(rank), None
        for pool in self.pools.values():
            pool.rank_by(rank, list(map(rank, pool.run)) if rank_all is None else rank_all(pool.run))

    def where(self, node: int) -> int:
        """Return the place of a node."""
        place, group = self.place[node], self.group[node]
        return NodeState.IDLE if place == NodeState.JOB and group is not None and not group.job.holding else place

    # ----------------------------------------------------------------------------------------- allocation

    def take(self, name: str, now: float, home: int = -1, *, strictly: bool = False) -> int:
        """Take a healthy node of a pool, or return -1: one of the domain `home`, else the first unless `strictly`."""
        pool = self.pools.get(name)
        if pool is None or pool.count == 0:
            return -1
        if pool is self.idle:
            self.dissolve(now)
        is_packed = isinstance(pool, PackedPool)
        node = pool.pop_near(self.place, home) if isinstance(pool, PackedPool) else -1
        if node < 0 and not (strictly and is_packed):
            node = pool.pop(self.place)
        if node >= 0:
            pool.change(-1, now)
            self.place[node] = NodeState.JOB
        return node

    def take_idle(self, count: int, now: float, home: int) -> list[int]:
        """Take idle nodes in the order in which they are picked, those of the domain `home` first; there are enough."""
        pool, places = self.idle, self.place
        if isinstance(pool, PackedPool):
            return [self.take("idle", now, home) for _ in range(count)]
        self.dissolve(now)
        nodes = []
        for _ in range(count):
            node = pool.pop(places)
            places[node] = NodeState.JOB
            nodes.append(node)
        pool.change(-count, now)
        return nodes

    def take_many(self, count: int, now: float) -> list[int]:
        """Take `count` idle nodes and return them in rising order; the caller has made sure that there are as many."""
        pool = self.idle
        self.dissolve(now)
        nodes = pool.take_many(count, self.place)
        pool.change(-count, now)
        return nodes

    def _busy_clock_of(self, node: int) -> ExposureClock | None:
        group = self.group[node]
        return None if group is None else group.busy

    def seat(self, group: ReplicaGroup | Allocation, position: int, node: int, now: float) -> None:
        """Put a node that was taken at a position of the group's job."""
        job = group.job
        job.nodes[position] = node
        self.group[node] = group
        self.position[node] = position
        if job.footprint is not None:
            job.footprint.add(node)
        if self.lives.nodes:
            self.lives.join(node, group.busy, now)

    def seat_many(self, group: ReplicaGroup, positions: list[int], nodes: list[int], now: float) -> None:
        """Put nodes, in rising order, at positions, in the order of ranks."""
        count = len(nodes)
        is_plain = not group.job.rank_of and group.job.footprint is None
        if is_plain and count and nodes[-1] - nodes[0] + 1 == count and positions[-1] - positions[0] + 1 == count:
            first, stop = nodes[0], nodes[-1] + 1
            group.job.nodes[positions[0] : positions[-1] + 1] = nodes
            self.group[first:stop] = [group] * count
            self.position[first:stop] = positions
            for node in sorted(node for node in self.lives.nodes if first <= node < stop):
                self.lives.join(node, group.busy, now)
        else:
            for position, node in zip(positions, nodes, strict=True):
                self.seat(group, position, node, now)

    def regroup(self, nodes: Sequence[int], origin: ReplicaGroup, target: ReplicaGroup, now: float) -> None:
        """Hand nodes of a job, where there are any, from one of its groups to another."""
        for node in nodes:
            if node >= 0:
                if self.lives.nodes:
                    self.lives.leave(node, origin.busy, now)
                self.group[node] = target
                if self.lives.nodes:
                    self.lives.join(node, target.busy, now)

    def move(self, origin: str, target: str, count: int, now: float) -> int:
        """Move up to `count` nodes from one pool to another; return how many there were."""
        for moved in range(count):
            node = self.take(origin, now)
            if node < 0:
                return moved
            self.enter(self.pools[target], node, now)
        return count

    def release(self, job: Job, now: float) -> None:
        """Make the nodes of a job idle. Those picked by number stay at its positions until somebody takes a node."""
        self.let_go_torn(job.main, now)
        job.holding = False
        self.idle.change(job.nodes_needed - len(job.main.missing), now)
        self.blocks.append(job)
        if self.idle.rank is not None or self.packed_by or self.units is not None:
            self.dissolve(now)
        if self.notify is not None:
            self.notify(now)

    def allocate(self, job: Job, now: float) -> list[int]:
        """Give a job that starts the idle nodes that are picked first, in the order of ranks; return those that join.

        Nodes that it had and gets again cost nothing: so a requeue of a large job costs no more than that of a small
        one.
        """
        self.dissolve(now, job)
        main = job.main
        was_block = job in self.blocks
        if was_block:
            self.blocks.remove(job)
            self.idle.change(len(main.missing) - job.nodes_needed, now)
        job.holding = True
        if not was_block or len(main.missing) == job.nodes_needed:
            # Neighbours in rank sit on neighbouring nodes.
            missing = sorted(main.missing, key=job.rank_of.__getitem__ if job.rank_of else None)
            main.missing = []
            nodes = self.take_many(len(missing), now)
            self.seat_many(main, missing, nodes, now)
            return nodes
        return self._swap(job, now)

    def _swap(self, job: Job, now: float) -> list[int]:
        """Fill the positions of a job that miss a node, and exchange its nodes for idle ones that are picked before."""
        main = job.main
        joining = [self.take("idle", now) for _ in main.missing]
        nodes = sorted([*job.nodes, *joining])
        del nodes[: bisect_left(nodes, 0)]  # positions without a node
        main.missing = []
        while nodes and self.idle.count:
            node = self.take("idle", now)
            if node > nodes[-1]:
                self.enter(self.idle, node, now)
                break
            leaving = nodes.pop()
            if self.group[leaving] is main:
                self.lives.leave(leaving, main.busy, now)
                if job.footprint is not None:
                    job.footprint.remove(leaving)
                self.group[leaving] = None
            else:
                joining.remove(leaving)
            self.enter(self.idle, leaving, now)
            insort(nodes, node)
            joining.append(node)
        if joining:
            self._reseat(job, nodes)
            for node in sorted(joining):
                self.seat(main, self.position[node], node, now)
        return joining

    def _reseat(self, job: Job, nodes: list[int]) -> None:
        """Put nodes, in rising order, at the positions of a job, in the order of ranks."""
        if job.rank_of:
            for position, node in zip(sorted(range(len(nodes)), key=job.rank_of.__getitem__), nodes, strict=True):
                job.nodes[position] = node
                self.position[node] = position
            return
        job.nodes[:] = nodes
        first = 0
        while first < len(nodes):
            # A stretch of nodes whose numbers follow one another.
            node = nodes[first]
            stop = bisect_right(range(len(nodes)), node - first, lo=first, key=lambda index: nodes[index] - index)
            self.position[node : node + stop - first] = range(first, stop)
            first = stop

    def dissolve(self, now: float, but: Job | None = None) -> None:
        """Make the former nodes of jobs plain idle nodes; their number stays the same."""
        for job in [job for job in self.blocks if job is not but]:
            self.blocks.remove(job)
            for position, node in enumerate(job.nodes):
                if node >= 0:
                    job.nodes[position] = -1
                    job.main.missing.append(position)
                    if job.footprint is not None:
                        job.footprint.remove(node)
                    self.lives.leave(node, job.main.busy, now)
                    self.group[node] = None
                    self.place[node] = NodeState.IDLE
                    self.idle.push(node)

    # --------------------------------------------------------------------------------------- out of service

    def send_to_repair(self, node: int, cause: int, now: float, bucket: int = Bucket.REPAIR) -> None:
        """Move a node that is down out of its place."""
        group = self.group[node]
        self.narrow.discard(node)
        self.leave(node, now)
        if self.units is not None:
            self.units.lose(node, group, now)
        self.place[node] = NodeState.REPAIR
        self.repairing[node] = OpenOutage(now, cause, [(bucket, math.inf)])
        if bucket == Bucket.REPAIR:
            self.failed[node] = self.failed.get(node, 0) + 1

    def leave(self, node: int, now: float) -> None:
        """Take a node out of its pool or its job; the caller says where it is from now on."""
        place = self.place[node]
        group = self.group[node]
        if place == NodeState.JOB:
            if group is not None and not group.job.holding:
                self.idle.change(-1, now)
        else:
            self.level_at[place].change(-1, now)
        if self.notify is not None:
            self.notify(now)
        if group is not None:
            if self.lives.nodes:
                self.lives.leave(node, group.busy, now)
            position = self.position[node]
            group.job.nodes[position] = -1
            if group.job.footprint is not None:
                group.job.footprint.remove(node)
            group.missing.append(position)
            self.group[node] = None

    def set_aside(self, node: int, now: float) -> None:
        """Put a healthy node of a job among those that are idle."""
        group = self.group[node]
        self.leave(node, now)
        if self.units is not None:
            self.units.replace(node, group, now)
            self.units.take_back(node, now)
        else:
            self.enter(self.idle, node, now)

    def let_go_torn(self, group: ReplicaGroup | Allocation, now: float) -> None:
        """Take what a group still holds of broken units from it."""
        if self.units is not None:
            self.units.let_go(group, now)

    def bring_back(self, node: int, now: float) -> None:
        """Let a node that nothing is open against wait for work again."""
        self.repairing.pop(node).charge(self.account.table, self.gpus_per_node, now)
        self._return(node, now)

    def _return(self, node: int, now: float) -> None:
        if self.units is not None:
            self.units.take_back(node, now)
        else:
            self.enter(self.refill(1), node, now)

    def refill(self, size: int) -> NodePool:
        """Return the pool that `size` returning nodes go to."""
        for pool in self.refilled:
            if pool.count + size <= pool.target:
                return pool
        return self.idle

    @contextmanager
    def hiding(self, nodes: Sequence[int], now: float) -> Iterator[bool]:
        """Take nodes out of the pools in which they wait, for a moment; tell whether there are any."""
        hidden = [(pool, node) for node in nodes for pool in self.pools.values() if self.place[node] == pool.place]
        for pool, node in hidden:
            pool.change(-1, now)
            self.place[node] = NodeState.JOB
        yield bool(hidden)
        for pool, node in hidden:
            self.enter(pool, node, now)

    def enter(self, pool: NodePool, node: int, now: float) -> None:
        """Put a node that is nowhere into a pool."""
        self.place[node] = pool.place
        pool.change(1, now)
        pool.push(node)
        if self.notify is not None:
            self.notify(now)

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
