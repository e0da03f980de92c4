"""Allocations: nodes that holders get, share, lose, get replaced, and give back; the planner hears of each."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from ettrick.sim.engine.holders import Allocation
from ettrick.sim.engine.nodes import NodeState, TimeWeightedCount
from ettrick.sim.policies.contracts import ANY_POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.holders import Holder
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.records import Records
    from ettrick.sim.policies.contracts import PoolName
    from ettrick.sim.policies.planner import Planner


class Allocations:
    """Gives nodes to holders that the planner starts, and takes them back."""

    keeps: Callable[[Holder, int, FailureEvent], bool]
    """Whether replicas of a service keep a node that has failed."""

    def __init__(
        self, jobs: JobPhases, planner: Planner, pool_of: Sequence[int], records: Records, ask: Callable[[float], None]
    ) -> None:
        self.jobs = jobs
        self.cluster = jobs.cluster
        self.repair = jobs.repair
        self.rollouts = jobs.failures.rollouts
        self.planner = planner
        self.records = records
        self.ask = ask
        """Asks the scheduler for a pass."""
        self.pool_of = pool_of
        """Pool of the planner that each node is of."""
        self.per_node = jobs.prepared.gpus_per_node
        self.rule = jobs.prepared.scheduler.replacement
        self.pools: Sequence[PoolName] = getattr(jobs.prepared.recovery, "pools", ANY_POOL)
        """Where replacements come from, in this order."""
        self.is_disturbed = False
        """Whether nodes have come or gone otherwise than with the holders that the planner starts and ends."""
        self.unshared = TimeWeightedCount()
        """GPUs of shared nodes that no job has."""
        self.rooms = [0] * (self.per_node + 1)
        """Shared nodes by free GPUs."""
        self.busy_lives = jobs.lives.nodes
        jobs.cluster.notify = self.note_change

    def note_change(self, now: float) -> None:
        """Note that idle nodes have come or gone, and ask for a pass."""
        self.is_disturbed = True
        self.ask(now)

    def report(self, now: float) -> None:
        """Tell the planner of nodes that have come or gone otherwise than with its holders."""
        planner = self.planner
        if len(planner.pools) == 1:
            drift = self.cluster.idle.count - planner.idle(0)
            if drift:
                planner.capacity(drift, now)
            return
        if not self.is_disturbed:
            return
        self.is_disturbed = False
        counts = [0] * len(planner.pools)
        for node, pool in enumerate(self.pool_of):
            counts[pool] += self.cluster.where(node) == NodeState.IDLE
        for pool, count in enumerate(counts):
            if count != planner.idle(pool):
                planner.capacity(count - planner.idle(pool), now, pool)

    def largest_room(self) -> int:
        """Return the most GPUs that are free on a shared node."""
        return next((free for free in range(self.per_node, 0, -1) if self.rooms[free]), 0)

    # ------------------------------------------------------------------------------------------- give and take

    def allocate(self, holder: Holder, now: float) -> Allocation:
        """Give a holder that the planner starts its nodes, or its part of one."""
        allocation = self._take_nodes(holder, now) if holder.policy.has_nodes else self._share_node(holder, now)
        allocation.jobs.append(holder)
        holder.allocation = allocation
        holder.seats = ()
        self.records.log_nodes(holder)
        return allocation

    def _take_nodes(self, holder: Holder, now: float) -> Allocation:
        nodes: list[int] = []
        for pool, count in holder.where:
            nodes += [self.cluster.take("idle", now, pool) for _ in range(count)]
        allocation = Allocation(nodes, now)
        self._seat(allocation, now)
        return allocation

    def _share_node(self, holder: Holder, now: float) -> Allocation:
        share = holder.share
        assert share is not None, "the planner has chosen a node"
        allocation: Allocation | None = share.node
        if allocation is None:
            allocation = share.node = Allocation([self.cluster.take("idle", now, share.pool)], now)
            self._add_room(allocation, self.per_node, now)
            self._seat(allocation, now)
        self._add_room(allocation, -holder.gpus, now)
        return allocation

    def _add_room(self, allocation: Allocation, gpus: int, now: float) -> None:
        """Add free GPUs to a shared node."""
        self.rooms[allocation.free] -= 1
        allocation.free += gpus
        self.rooms[allocation.free] += 1
        self.unshared.change(gpus, now)

    def _seat(self, allocation: Allocation, now: float) -> None:
        """Enter whose the nodes of an allocation are."""
        cluster = self.cluster
        if self.busy_lives:
            for position, node in enumerate(allocation.nodes):
                cluster.seat(allocation, position, node, now)
        else:
            group, place = cluster.group, cluster.position
            for position, node in enumerate(allocation.nodes):
                group[node] = allocation
                place[node] = position

    def take_back(self, holder: Holder, now: float) -> None:
        """Take the nodes of a holder, which is charged, from it; those that it shared with others stay theirs."""
        allocation = holder.allocation
        assert allocation is not None, "it has nodes"
        holder.stand_still(now)
        holder.allocation = None
        self.planner.ended(holder, now)
        allocation.jobs.remove(holder)
        if not holder.policy.has_nodes and not allocation.missing:
            self._add_room(allocation, holder.gpus, now)
        if not allocation.jobs:
            self._release(allocation, now)
        self.ask(now)

    def _release(self, allocation: Allocation, now: float) -> None:
        """Return the nodes of an allocation to the idle ones; those that failed go to repair."""
        self.remove_failed(allocation, now)
        self._add_room(allocation, -allocation.free, now)
        cluster = self.cluster
        idle, place, group = cluster.idle, cluster.place, cluster.group
        allocation.holding = False
        # Nodes that have been replaced may be of other pools than those that the planner gave.
        self.is_disturbed |= allocation.epoch > 0
        allocation.epoch += 1
        nodes = [node for node in allocation.nodes if node >= 0] if allocation.missing else allocation.nodes
        for node in nodes:
            if self.busy_lives:
                cluster.lives.leave(node, allocation.busy, now)
            group[node] = None
            place[node] = NodeState.IDLE
            idle.push(node)
        idle.change(len(nodes), now)
        if self.rollouts.all:
            self.rollouts.change_free()

    # ------------------------------------------------------------------------------------------------ failures

    def remove_failed(self, allocation: Allocation, now: float) -> None:
        """Send the nodes of an allocation that have failed to repair."""
        cluster = self.cluster
        if not allocation.suspects:
            return
        self.is_disturbed = True
        first = allocation.jobs[0] if allocation.jobs else None
        for node, failure in allocation.suspects:
            is_held = cluster.outages[node] > 0 and cluster.group[node] is allocation
            replaces = first is not None and first.policy.on_failure == "replace"
            if is_held and replaces and first is not None and self.keeps(first, node, failure):
                continue
            if failure.info.by_course:
                self.repair.diagnose(node, failure, allocation, now)
            elif is_held:
                self.repair.send(node, now)
        allocation.suspects.clear()
        self.repair.begin_repairs(allocation, now)
        cluster.let_go_torn(allocation, now)
        if allocation.missing:
            self._add_room(allocation, -allocation.free, now)

    def replace(self, allocation: Allocation, now: float) -> bool:
        """Give an allocation nodes for those that it misses, if there are enough for all; return whether.

        Nodes that it has swapped although nobody was blamed come last.
        """
        unblamed, allocation.unblamed = allocation.unblamed, []
        with self.cluster.hiding(unblamed, now) as are_hidden:
            is_enough = self._replace(allocation, now)
        return is_enough or (are_hidden and self._replace(allocation, now))

    def _replace(self, allocation: Allocation, now: float) -> bool:
        missing, cluster = allocation.missing, self.cluster
        if self.rule == "never" or not allocation.jobs[0].policy.has_nodes:
            return False
        self.report(now)
        nodes = self._replacements(allocation.jobs[0], len(missing), now)
        if len(nodes) < len(missing):
            for node, origin in nodes:
                cluster.enter(cluster.pools[origin], node, now)
            return False
        for node, origin in nodes:
            cluster.seat(allocation, missing.pop(), node, now)
            if origin in ("warm", "cold"):
                _, _, seconds, one_by_one = self.jobs.prepared.reserves[origin]
                begin = max(allocation.ready_at, now) if one_by_one else now
                allocation.ready_at = max(allocation.ready_at, begin + seconds)
        self.reseat(allocation, now)
        return True

    def _replacements(self, holder: Holder, wanted: int, now: float) -> list[tuple[int, str]]:
        """Take nodes for those that a holder misses, as many as there are up to those `wanted`, each with its pool."""
        cluster, planner = self.cluster, self.planner
        names = [name for name in self.pools if name in cluster.pools]
        if self.rule == "queue" and planner.queued:
            names.remove("idle")
        homes = planner.replacements(holder, self.rule == "domain")
        nodes: list[tuple[int, str]] = []
        for name in names:
            for home in homes:
                count = wanted - len(nodes)
                if name == "idle":
                    count = min(count, planner.free[home])
                taken = (cluster.take(name, now, home, strictly=True) for _ in range(count))
                nodes += [(node, name) for node in itertools.takewhile(lambda node: node >= 0, taken)]
        return nodes

    def reseat(self, allocation: Allocation, now: float) -> None:
        """Tell the planner which nodes a holder has now, and the log."""
        holder = allocation.jobs[0]
        pools = Counter(self.pool_of[node] for node in allocation.nodes if node >= 0)
        self.planner.seated(holder, tuple(sorted(pools.items())))
        self.records.log_nodes(holder)
        self.note_change(now)
