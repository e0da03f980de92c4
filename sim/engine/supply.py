"""Nodes for groups that miss some: from which pool, when they are ready, and who waits for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Bucket
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.contracts import Acquire
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group

__all__ = ["Supply"]


class Supply:
    """Carries out the step of a plan that takes nodes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.lives = simulation.lives
        self.reserves = simulation.prepared.reserves
        self.hungry: list[Group] = []
        """Groups that wait for nodes, longest first."""

    def forget(self, group: Group) -> None:
        """Let a group wait for nodes no longer."""
        if group in self.hungry:
            self.hungry.remove(group)

    def acquire(self, group: Group, step: Acquire, now: float) -> bool:
        """Take nodes; wait if there are too few, or until they are ready."""
        if step.unit == "node":
            may_miss = max(len(group.missing) - step.wanted, 0) if step.wanted else 0
            if self._feed(group, step, may_miss, now):
                return self._await_nodes(group, step, now)
            if step.timeout <= 0 and step.otherwise:
                self.simulation.groups.follow(group, step.otherwise, now)
                return True
            group.waiting = step._replace(wanted=may_miss)
            self.hungry.append(group)
        else:
            if group.replicas >= step.wanted:
                return False
            group.waiting = step
        self.simulation.groups.wait(group, [(Bucket.STARVED, math.inf)], now, exposed=step.exposed)
        if step.timeout < math.inf:
            self.kernel.at(now + step.timeout, Order.PHASE, self._on_timeout, (group, group.epoch))
        return True

    def _feed(self, group: Group, step: Acquire, may_miss: int, now: float) -> bool:
        """Give a group nodes until it misses no more than `may_miss`; return whether there were enough."""
        missing = group.missing
        if len(missing) > 1:
            # Replacements come in the order of their numbers: a unit keeps neighbouring positions.
            missing.sort(reverse=True)
        while len(missing) > may_miss:
            for pool in step.pools:
                node = self.cluster.take(pool, now, group.job.homes[missing[-1]] if group.job.homes else -1)
                if node >= 0:
                    break
            else:
                return False
            alone = pool in ("warm", "cold") and self._get_ready(group, pool, now)
            self.cluster.seat(group, missing.pop(), node)
            if self.lives.nodes:
                self.lives.join(node, group, now)
            if alone and (step.fill or len(missing) > may_miss):
                group.step -= 1
                return True
        if step.fill:
            self._fill_spares(group, now)
        return True

    def _get_ready(self, group: Group, pool: str, now: float) -> bool:
        """Note when a node of a reserve will be there; return whether the next one is asked for only then.

        By that time a node that was repaired meanwhile may have made the next one needless. The nodes of a unit are
        asked for together: half a unit is of no use.
        """
        _, _, seconds, one_by_one = self.reserves[pool]
        group.called = True
        if one_by_one:
            group.ready_at = max(group.ready_at, now) + seconds
        else:
            group.ready_at = max(group.ready_at, now + seconds)
        return one_by_one and seconds > 0 and self.cluster.units is None

    def _fill_spares(self, group: Group, now: float) -> None:
        """Fill the hot spares up: from the idle nodes, and from the cold ones if those were called upon anyway."""
        spare = self.cluster.spare
        self.cluster.move("idle", "spare", spare.target - spare.count, now)
        while group.called and spare.count < spare.target and self.cluster.move("cold", "spare", 1, now):
            if self._get_ready(group, "cold", now):
                group.step -= 1
                return

    def _await_nodes(self, group: Group, step: Acquire, now: float) -> bool:
        """Wait until all nodes that were taken are ready; return whether there is anything to wait for."""
        ready = group.ready_at
        if ready <= now:
            return False
        self.simulation.groups.wait(group, [(Bucket.STARVED, ready)], now, exposed=step.exposed)
        self.kernel.at(ready, Order.PHASE, self.simulation.groups.on_phase_end, (group, group.epoch))
        return True

    def feed_hungry(self, now: float) -> None:
        """Serve the groups that wait for nodes, longest first."""
        for group in list(self.hungry):
            if group.waiting is None:
                continue
            self.simulation.groups.settle(group, now)
            step = group.waiting
            if self._feed(group, step, step.wanted, now):
                self.hungry.remove(group)
                group.waiting = None
                group.epoch += 1
                if not self._await_nodes(group, step, now):
                    self.simulation.groups.proceed(group, now)

    def _on_timeout(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch != group.epoch or group.waiting is None:
            return
        step = group.plan[group.step - 1]
        if step.otherwise:
            now = self.kernel.now
            self.simulation.groups.stop(group, now)
            self.simulation.groups.follow(group, step.otherwise, now)
