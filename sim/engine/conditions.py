"""Nodes that are up and not well: slow ones, and those that compute wrongly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.checkpoint import Periodic
from sim.checkpoint.series import whole
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

    __slots__ = ("bandwidth", "corrupts", "failure", "is_counted", "is_open", "nodes", "speed")

    def __init__(self, failure: Failure, nodes: tuple[int, ...]) -> None:
        effect = failure.info.source.effect
        self.failure = failure
        self.nodes = nodes
        self.speed = effect.speed
        self.bandwidth = effect.bandwidth_left
        self.corrupts = effect.kind in ("corrupt", "spike")
        self.is_open = True
        self.is_counted = False
        """Whether it has been counted as noticed, or as gone."""


class Conditions:
    """Slows jobs, taints their work, and turns a fault that is noticed into a failure."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        self.of_node: dict[int, list[Condition]] = {}
        """What is open on each node."""
        self.unnoticed = 0
        """Faults that have neither been noticed nor gone away."""

    def begin(self, failure: Failure, nodes: Sequence[int]) -> None:
        """Let nodes have a fault that does not stop them."""
        now = self.kernel.now
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        condition = Condition(failure, up)
        self.unnoticed += 1
        jobs = self._settle(up, now)
        for node in up:
            self.of_node.setdefault(node, []).append(condition)
        for job in jobs:
            self.simulation.paces.respeed(job, now)
            if job.main.running:
                self.taint(job)
        self._expect(condition, now)

    def derail(self, job: Job, failure: Failure) -> None:
        """Let the loss of a job leave its course; if it does not step now, nothing has happened."""
        now = self.kernel.now
        main = job.main
        if not main.is_running(now):
            self.simulation.faults.counts.harmless += 1
            return
        self.simulation.groups.settle(main, now)
        condition = Condition(failure, ())
        self.unnoticed += 1
        sound = job.checkpoint.sound(job.state)
        wanted = job.work - failure.info.source.effect.undone
        if wanted < sound:
            sound = self._save_before(job, sound, wanted)
        job.taints.append(Taint(max(sound, 0.0), condition))
        self._expect(condition, now)

    @staticmethod
    def _save_before(job: Job, newest: float, work: float) -> float:
        """Return the most work in a save of some work or less [s], of saves a period apart with the `newest` known.

        A ladder of stores finds its copies itself.
        """
        if not isinstance(job.checkpoint, Periodic):
            return work
        spacing = job.checkpoint.stepping(job.pace) * job.pace.rate
        return newest - whole((newest - work) / spacing) * spacing

    def _expect(self, condition: Condition, now: float) -> None:
        """Arrange what comes first: the fault goes away by itself, or somebody notices."""
        failure = condition.failure
        effect = failure.info.source.effect
        heals = now + draw(effect.heal, failure.mark, "heals") if effect.heal is not None else math.inf
        noticing = failure.info.source.noticing
        noticed = now + noticing.draw(failure.mark) if noticing is not None else math.inf
        if heals < min(noticed, self.simulation.end):
            self.kernel.at(heals, Order.RETURN, self._on_healed, condition)
        elif noticed < self.simulation.end:
            self.kernel.at(noticed, Order.FAILURE, self._on_noticed, condition)

    def clear(self, node: int) -> None:
        """Forget what a node had before it was repaired."""
        if node not in self.of_node:
            return
        self._settle((node,), self.kernel.now)
        for condition in self.of_node.pop(node):
            condition.nodes = tuple(other for other in condition.nodes if other != node)
            if not condition.nodes:
                condition.is_open = False
                self.simulation.sources.renew(condition.failure)
                if not self._wronged(condition):
                    self._count(condition)

    def _close(self, condition: Condition) -> None:
        """Take a fault from its nodes; what was stepped so far was stepped with it."""
        self._settle(condition.nodes, self.kernel.now)
        condition.is_open = False
        for node in condition.nodes:
            mine = self.of_node[node]
            mine.remove(condition)
            if not mine:
                del self.of_node[node]

    def _is_first(self, condition: Condition) -> bool:
        """Return whether a fault that is noticed, or gone, has been neither before; from now on it has."""
        if condition.is_counted:
            return False
        condition.is_counted = True
        self.unnoticed -= 1
        return True

    def _count(self, condition: Condition) -> None:
        """Count a fault that went away before anybody noticed."""
        if self._is_first(condition):
            self.simulation.faults.counts.healed += 1

    def _on_healed(self, call: Call) -> None:
        condition: Condition = call.argument
        if condition.is_open:
            self._close(condition)
            self._count(condition)
            self.simulation.sources.renew(condition.failure)
            for job in self._settle(condition.nodes, self.kernel.now):
                self.simulation.paces.respeed(job, self.kernel.now)

    def _on_noticed(self, call: Call) -> None:
        """Stop the nodes that still have the fault, and the jobs whose work it made wrong.

        From now on it is a failure like others. Of nodes that are in repair for something else nothing more is asked.
        """
        condition: Condition = call.argument
        nodes = condition.nodes
        was_open = condition.is_open
        if was_open:
            self._close(condition)
        wronged = self._wronged(condition)
        if not wronged and not (was_open and nodes):
            self._count(condition)
            return
        for job in wronged:
            job.live = False
            for taint in job.taints:
                taint.is_known |= taint.condition is condition
            if not job.holding:
                # Its nodes are gone, but it will not start from a checkpoint that is wrong.
                self.simulation.restores.roll_back(job, "stores", reads=False)
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        inside, outside = self.simulation.faults.find(up)
        groups = [job.main for job in wronged if job.holding]
        self._is_first(condition)
        self.simulation.faults.strike(condition.failure, up or nodes[:1], inside, outside, wronged=groups)

    # --------------------------------------------------------------------------------------------------- jobs

    def slowest(self, job: Job) -> tuple[float, int]:
        """Return the pace of the slowest node that steps with a job [-], and the cause; (1, 0) if none is slow."""
        speed, cause = 1.0, 0
        for node, conditions in self.of_node.items():
            if self._serves(node, job):
                for condition in conditions:
                    pace = job.pace_at(condition.bandwidth, condition.speed)
                    if pace < speed:
                        speed, cause = pace, condition.failure.info.cause
        return speed, cause

    def taint(self, job: Job) -> None:
        """Remember up to where the work of a job that steps from now on is sound.

        A save that is on its way was taken before, and so was one whose stall has begun.
        """
        for node, conditions in self.of_node.items():
            for condition in conditions:
                if condition.corrupts and self._serves(node, job):
                    sound = job.checkpoint.sound(job.state)
                    if all(taint.condition is not condition for taint in job.taints):
                        job.taints.append(Taint(sound, condition))

    def _wronged(self, condition: Condition) -> list[Job]:
        """Return the unfinished jobs that still have work which a fault made wrong."""
        if not condition.corrupts:
            return []
        jobs = self.simulation.jobs
        return [job for job in jobs if not job.finished and any(taint.condition is condition for taint in job.taints)]

    def _serves(self, node: int, job: Job) -> bool:
        """Return whether a node steps with the main group of a job."""
        return self.cluster.group[node] is job.main and job.holding

    def _settle(self, nodes: Sequence[int], now: float) -> list[Job]:
        """Charge the jobs whose main group nodes belong to, and return them."""
        jobs: list[Job] = []
        for node in nodes:
            group = self.cluster.group[node]
            if group is not None and self._serves(node, group.job) and group.job not in jobs:
                jobs.append(group.job)
                self.simulation.groups.settle(group, now)
        return jobs
