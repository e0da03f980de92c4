"""Rollouts: a change that is brought to the nodes, and the hazard that they have afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.lives import FailureEvent
from ettrick.sim.policies.contracts import Bucket, Stall
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.job import Job
    from ettrick.sim.engine.kernel import Environment
    from ettrick.sim.engine.lives import SourceInfo
    from ettrick.sim.engine.nodes import Cluster
    from ettrick.sim.failures.source import Rollout
    from ettrick.sim.policies.contracts import Plan


_ROLLBACK = 1
"""Number of the outages in which a change is taken back."""


@dataclass(slots=True, eq=False)
class _Progress:
    """How far one rollout has come."""

    info: SourceInfo
    plan: Rollout
    next: int = 0
    changed: set[int] = field(default_factory=set)
    pending: set[int] = field(default_factory=set)
    """Nodes that are due and wait for their job to be interrupted."""
    visits: dict[Job, tuple[float, list[int]]] = field(default_factory=dict)
    """Nodes that are changed within their job, and when that is done [s]."""
    is_due: bool = False
    """Whether the canaries are watched as soon as all have been changed."""
    failures: int = 0
    """Failures of changed canaries, for the causes whose hazard changes."""
    is_stopped: bool = False

    @property
    def canaries(self) -> int:
        """How many nodes go first [-]."""
        return self.plan.canary.nodes if self.plan.canary is not None else 0

    @property
    def has_failed(self) -> bool:
        """Whether more canaries have failed than may."""
        return self.plan.canary is not None and self.failures > self.plan.canary.tolerates


class Rollouts:
    """Takes nodes out of service a few at a time, and knows which have been changed."""

    def __init__(
        self,
        infos: Sequence[SourceInfo],
        cluster: Cluster,
        kernel: Environment,
        end: float,
        save_times: Sequence[float],
        *,
        announce: Callable[[SourceInfo, Sequence[int], float, float], None],
        take_out: Callable[[FailureEvent, tuple[int, ...], float, bool], None],
    ) -> None:
        self.infos = infos
        self.cluster = cluster
        self.kernel = kernel
        self.end = end
        self.save_times = save_times
        """How long jobs take to save before they stop [s]."""
        self.announce = announce
        """Lets jobs that need some seconds for a save begin it, because nodes of theirs go at a time [s]."""
        self.take_out = take_out
        """Takes nodes out of service until a time [s], with notice or without."""
        self.all: list[_Progress] = []

    def start(self) -> None:
        """Arrange the first step of each rollout."""
        for info in self.infos:
            plan = info.source.rollout
            if plan is not None:
                progress = _Progress(info, plan)
                self.all.append(progress)
                self._announce(progress, plan.start)
                self._at(plan.start, self._on_step, progress)

    def _at(self, time: float, function: Callable[..., None], *arguments: object) -> None:
        if time < self.end:
            self.kernel.at(time, EventPriority.FAILURE, function, *arguments)

    def hazard(self, info: SourceInfo, node: int) -> float:
        """Return the hazard of a node for a cause relative to the stated one [-]."""
        hazard = 1.0
        for progress in self.all:
            ratio = progress.plan.hazard.get(info.source.name)
            if ratio is not None and node in progress.changed:
                hazard *= ratio
        return hazard

    def note(self, info: SourceInfo, node: int) -> None:
        """Count a failure of a changed node, for those who watch the canaries."""
        for progress in self.all:
            if info.source.name in progress.plan.hazard and node in progress.changed:
                progress.failures += 1

    # -------------------------------------------------------------------------------------------------- steps

    def _on_step(self, progress: _Progress, now: float) -> None:
        """Change the next nodes, and arrange what follows."""
        if progress.is_stopped or progress.next >= self.cluster.nodes:
            return
        plan = progress.plan
        nodes = self._batch(progress, progress.next)
        progress.next = nodes[-1] + 1
        self._change(progress, nodes)
        if progress.next == progress.canaries:
            progress.is_due = True
            self._watch(progress, now + plan.duration)
        else:
            self._at(now + len(nodes) * DAY / plan.nodes_per_day, self._on_step, progress)

    def _batch(self, progress: _Progress, first: int) -> range:
        """Return the nodes that are changed together, from the `first` on."""
        end = first + progress.plan.batch
        return range(first, min(end, progress.canaries if first < progress.canaries else end, self.cluster.nodes))

    def _announce(self, progress: _Progress, time: float) -> None:
        """Let jobs save before the batches that follow from `time` [s] on, as far as their times are known."""
        if progress.plan.mode == "drain":
            for seconds in self.save_times:
                self._expect_notice(progress, seconds, progress.next, time, self.kernel.now)

    def _expect_notice(self, progress: _Progress, seconds: float, first: int, time: float, now: float) -> None:
        self._at(max(time - seconds, now), self._on_notice, progress, seconds, first, time)

    def _on_notice(self, progress: _Progress, seconds: float, first: int, time: float, now: float) -> None:
        """Let jobs that need some seconds for a save begin it before a batch; the next batch is announced later."""
        if progress.is_stopped or progress.has_failed or first >= self.cluster.nodes:
            return
        nodes = self._batch(progress, first)
        self.announce(progress.info, nodes, seconds, time)
        time += len(nodes) * DAY / progress.plan.nodes_per_day
        if nodes[-1] + 1 != progress.canaries:
            self._expect_notice(progress, seconds, nodes[-1] + 1, time, now)

    def _watch(self, progress: _Progress, start: float) -> None:
        """Watch the canaries from `start` [s] on, if all have been changed by then."""
        if progress.is_due and not progress.pending:
            assert progress.plan.canary is not None
            progress.is_due = False
            self._announce(progress, start + progress.plan.canary.soak)
            self._at(start + progress.plan.canary.soak, self._on_soaked, progress)

    def _on_soaked(self, progress: _Progress, now: float) -> None:
        """Go on if the canaries are well, or take the change back."""
        if not progress.has_failed:
            self._on_step(progress, now)
            return
        progress.is_stopped = True
        back = tuple(sorted(progress.changed))
        progress.changed.clear()
        progress.pending.clear()
        progress.visits.clear()
        self._take_out(progress, back, _ROLLBACK)

    def _change(self, progress: _Progress, nodes: Sequence[int]) -> None:
        """Change nodes now, or at the next interruption of their job."""
        now_nodes = []
        for node in nodes:
            group = self.cluster.group[node]
            if progress.plan.mode == "at_interruption" and group is not None and group.job.holding:
                progress.pending.add(node)
            else:
                now_nodes.append(node)
        progress.changed.update(now_nodes)
        self._take_out(progress, tuple(now_nodes), 0)

    def _take_out(self, progress: _Progress, nodes: tuple[int, ...], number: int) -> None:
        """Take nodes out of service; what is down anyway is changed there."""
        up = tuple(node for node in nodes if not self.cluster.outages[node])
        if not up:
            return
        failure = FailureEvent(progress.info, up[0], number)
        self.take_out(failure, up, self.kernel.now + progress.plan.duration, number != _ROLLBACK)

    def visit(self, job: Job, plan: Plan, start: float) -> Plan:
        """Return the plan of an interrupted job that begins at `start` [s], with the change of its nodes before it."""
        stalls: list[Stall] = []
        for progress in self.all:
            due = [node for node in progress.pending if self._belongs(node, job)]
            if due:
                progress.pending.difference_update(due)
                progress.changed.update(due)
                stalls.append(Stall(Bucket.MAINTENANCE, progress.plan.duration, cause=progress.info.cause))
                start += progress.plan.duration
                progress.visits[job] = (start, due)
                self._watch(progress, start)
        self.change_free()
        return (*stalls, *plan)

    def cut(self, job: Job, now: float) -> None:
        """Let a change of the nodes of a job that is cut short begin again at its next restart."""
        for progress in self.all:
            done, nodes = progress.visits.pop(job, (0.0, []))
            if now < done:
                progress.changed.difference_update(nodes)
                progress.pending.update(nodes)

    def change_free(self) -> None:
        """Change nodes that have left the job whose interruption they waited for."""
        for progress in self.all:
            free = [node for node in progress.pending if not self._is_held(node)]
            if free:
                progress.pending.difference_update(free)
                progress.changed.update(free)
                self._take_out(progress, tuple(sorted(free)), 0)
                self._watch(progress, self.kernel.now + progress.plan.duration)

    def _belongs(self, node: int, job: Job) -> bool:
        group = self.cluster.group[node]
        return group is not None and group.job is job and job.holding

    def _is_held(self, node: int) -> bool:
        group = self.cluster.group[node]
        return group is not None and group.job.holding
