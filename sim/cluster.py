"""The state of the cluster: where each node is, and what is open against it."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sim.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.job import Group, Job
    from sim.ledger import Account

__all__ = ["Cluster", "Level", "Place"]


class Place(IntEnum):
    """Where a node is."""

    IDLE = 0
    SPARE = 1
    JOB = 2
    REPAIR = 3


class Level:
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


class Cluster:
    """Every node is in exactly one place; counts are kept beside the array, never recounted.

    The nodes of a job that went back to the queue stay with it, as idle nodes, until somebody else needs them: so a
    requeue of a large job costs no more than that of a small one. :meth:`where` sees through this.
    """

    __slots__ = (
        "account",
        "blocks",
        "down",
        "gpus_per_node",
        "group",
        "idle",
        "idle_nodes",
        "nodes",
        "on_dissolve",
        "outages",
        "place",
        "position",
        "repairing",
        "spare",
        "spare_nodes",
        "spare_target",
    )

    def __init__(self, nodes: int, gpus_per_node: int, spares: int, account: Account) -> None:
        self.nodes = nodes
        self.gpus_per_node = gpus_per_node
        self.account = account
        self.place = [int(Place.IDLE)] * nodes
        self.outages = [0] * nodes
        """Open outages of each node; it returns when there are none."""
        self.group: list[Group | None] = [None] * nodes
        self.position = [0] * nodes
        self.repairing: dict[int, tuple[float, int]] = {}
        """Nodes in repair: since when [s], and the index of the cause."""
        self.blocks: list[Job] = []
        """Jobs without an allocation whose former nodes are idle."""
        self.on_dissolve: Callable[[int], None] | None = None
        """Told each node that leaves its former job for good."""
        self.idle = Level()
        self.spare = Level()
        self.down = Level()
        self.spare_target = min(spares, nodes)
        kept = nodes - self.spare_target
        self.idle_nodes = list(range(kept))
        self.spare_nodes = list(range(kept, nodes))
        self.place[kept:] = [int(Place.SPARE)] * self.spare_target
        self.idle.count = kept
        self.spare.count = self.spare_target

    def where(self, node: int) -> Place:
        """Return the place of a node."""
        if self.place[node] == Place.JOB:
            group = self.group[node]
            assert group is not None
            return Place.JOB if group.job.holding else Place.IDLE
        return Place(self.place[node])

    def take(self, pool: str, now: float) -> int:
        """Take the lowest healthy node of a pool, or return -1."""
        heap, place, level = (
            (self.spare_nodes, Place.SPARE, self.spare) if pool == "spare" else (self.idle_nodes, Place.IDLE, self.idle)
        )
        if level.count == 0:
            return -1
        while True:
            while not heap:
                self.dissolve(self.blocks[0])
            node = heappop(heap)
            # A node that failed and came back meanwhile stands in the heap twice; the place decides.
            if self.place[node] == place:
                level.change(-1, now)
                self.place[node] = Place.JOB
                return node

    def take_many(self, count: int, now: float) -> list[int]:
        """Take `count` idle nodes and return them in rising order; the caller has made sure that there are as many."""
        heap = self.idle_nodes
        heap.sort()
        place = self.place
        taken = heap[:count]
        if taken and taken[-1] - taken[0] + 1 == count and place[taken[0] : taken[-1] + 1] == [Place.IDLE] * count:
            # A stretch of idle nodes, as at the start: no need to look at each.
            del heap[:count]
            place[taken[0] : taken[-1] + 1] = [int(Place.JOB)] * count
            self.idle.change(-count, now)
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
        self.idle.change(-count, now)
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
                if self.on_dissolve is not None:
                    self.on_dissolve(node)
                self.group[node] = None
                self.place[node] = Place.IDLE
                heappush(self.idle_nodes, node)

    def send_to_repair(self, node: int, cause: int, now: float) -> None:
        """Move a node that is down out of its place."""
        place = self.where(node)
        if place is Place.IDLE:
            self.idle.change(-1, now)
        elif place is Place.SPARE:
            self.spare.change(-1, now)
        group = self.group[node]
        if group is not None:
            position = self.position[node]
            group.job.nodes[position] = -1
            group.missing.append(position)
            self.group[node] = None
        self.place[node] = Place.REPAIR
        self.repairing[node] = (now, cause)

    def bring_back(self, node: int, now: float) -> None:
        """Move a repaired node to the spares if any is short there, else to the idle nodes."""
        since, cause = self.repairing.pop(node)
        self.account.table[Bucket.REPAIR][cause] += (now - since) * self.gpus_per_node
        if self.spare.count < self.spare_target:
            self.place[node] = Place.SPARE
            self.spare.change(1, now)
            heappush(self.spare_nodes, node)
        else:
            self.place[node] = Place.IDLE
            self.idle.change(1, now)
            heappush(self.idle_nodes, node)

    def settle(self, now: float) -> float:
        """Charge the nodes outside jobs up to `now`; return the node-seconds spent down since the last time."""
        table = self.account.table
        table[Bucket.UNALLOCATED][0] += self.idle.collect(now) * self.gpus_per_node
        table[Bucket.SPARE_IDLE][0] += self.spare.collect(now) * self.gpus_per_node
        for node, (since, cause) in self.repairing.items():
            table[Bucket.REPAIR][cause] += (now - since) * self.gpus_per_node
            self.repairing[node] = (now, cause)
        return self.down.collect(now)
