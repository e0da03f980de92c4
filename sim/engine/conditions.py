"""Nodes that are up and not well: slow ones, and those that compute wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.engine.kernel import Order
from sim.job import Taint
from sim.laws import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.failure import Failure
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Condition", "Conditions"]


class Condition:
    """One such fault: which nodes have it, and whether they still do."""

    __slots__ = ("failure", "is_open", "nodes", "speed")

    def __init__(self, failure: Failure, nodes: tuple[int, ...], speed: float) -> None:
        self.failure = failure
        self.nodes = nodes
        self.speed = speed
        self.is_open = True


class Conditions:
    """Slows jobs, taints their work, and turns a fault that is noticed into a failure."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.of_node: dict[int, list[Condition]] = {}
        """What is open on each node."""

    def begin(self, failure: Failure, nodes: Sequence[int]) -> None:
        """Let nodes have a fault that does not stop them."""
        now = self.kernel.now
        effect = failure.info.source.effect
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        condition = Condition(failure, up, effect.speed)
        for node in up:
            self.of_node.setdefault(node, []).append(condition)
        if effect.kind == "corrupt":
            self._taint(condition, now)
        else:
            self._respeed(up, now)
        heals = now + draw(effect.heal, failure.mark, "heals") if effect.heal is not None else float("inf")
        law = failure.info.source.detection
        noticed = now + draw(law, failure.mark, "detection") if law is not None else float("inf")
        if heals < min(noticed, self.simulation.end):
            self.kernel.at(heals, Order.RETURN, self._on_healed, condition)
        elif noticed < self.simulation.end:
            self.kernel.at(noticed, Order.FAILURE, self._on_noticed, condition)

    def clear(self, node: int) -> None:
        """Forget what a node had before it was repaired; the job that it was in has let it go."""
        for condition in self.of_node.pop(node, ()):
            condition.nodes = tuple(other for other in condition.nodes if other != node)
            condition.is_open = bool(condition.nodes)

    def _close(self, condition: Condition) -> None:
        condition.is_open = False
        for node in condition.nodes:
            mine = self.of_node[node]
            mine.remove(condition)
            if not mine:
                del self.of_node[node]

    def _on_healed(self, call: Call) -> None:
        condition: Condition = call.argument
        if condition.is_open:
            self.simulation.faults.counts.healed += 1
            self._close(condition)
            self._respeed(condition.nodes, self.kernel.now)

    def _on_noticed(self, call: Call) -> None:
        """Stop the nodes that still have the fault: from now on it is a failure like others."""
        condition: Condition = call.argument
        if not condition.is_open:
            return
        up = tuple(node for node in condition.nodes if not self.cluster.outages[node])
        if not up:
            return  # they are in repair, which decides
        for job in self.simulation.jobs:
            if job.taint is not None and job.taint.failure is condition.failure:
                job.taint.is_known = True
        self._close(condition)
        self.simulation.faults.strike(condition.failure, up, *self.simulation.faults.find(up))

    # --------------------------------------------------------------------------------------------------- pace

    def slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace of the slowest node that steps with a job [-], and the cause; (1, 0) if none is slow."""
        speed, cause = 1.0, 0
        for node, conditions in self.of_node.items():
            group = self.cluster.group[node]
            if group is not None and group is job.main and job.holding:
                for condition in conditions:
                    if condition.speed < speed:
                        speed, cause = condition.speed, condition.failure.info.cause
        return speed, cause

    def _respeed(self, nodes: Sequence[int], now: float) -> None:
        """Let the jobs that nodes belong to step at the pace that they have now."""
        jobs: list[Job] = []
        for node in nodes:
            group = self.cluster.group[node]
            if group is not None and group.job.holding and group is group.job.main and group.job not in jobs:
                jobs.append(group.job)
        for job in jobs:
            self.simulation.groups.respeed(job, now)

    def _taint(self, condition: Condition, now: float) -> None:
        """Remember up to where the work of the jobs is sound."""
        for node in condition.nodes:
            group = self.cluster.group[node]
            if group is None or not group.job.holding or group is not group.job.main:
                continue
            job = group.job
            if job.taint is None and group.is_running(now):
                self.simulation.groups.settle(group, now)
                # A save that is on its way was taken before.
                job.taint = Taint(job.state.committed + job.state.draining, condition.failure)
