"""Failures of the fabric: which of its parts are out, whom that cuts off, and how fast the others can still talk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ettrick.sim.cluster.degraded import FabricState
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.nodes import NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.cluster.degraded import ReachabilityChange
    from ettrick.sim.engine.failures import Failures, Inside
    from ettrick.sim.engine.holders import Footprint, Job
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.prepared import FabricView


class Fabric:
    """Lets parts of the fabric fail and return.

    A node that loses its last path is down until it has one again, whichever part gives it back; a node that keeps
    some is only slower, and so is the job on it. Where a fabric falls into pieces, the largest one is the cluster: a
    failure that makes another piece the largest gives nodes back, and so does a repair cut some off.
    """

    state: FabricState
    """The parts and cables of the fabric; without paths none of them fails, and nobody looks."""

    def __init__(self, failures: Failures, network: FabricView | None) -> None:
        self.failures = failures
        self.kernel = failures.kernel
        self.cluster = failures.cluster
        if network is not None and network.paths is not None:
            self.state = FabricState(network.paths)
        self.out: list[FailureEvent] = []
        """Failures of parts that are out, newest last."""
        self.blamed: dict[int, tuple[float, FailureEvent]] = {}
        """For each job that is slow, by its number: the bandwidth that is left, and who brought it down to that."""
        failures.fail_part = self.fail
        failures.start_part_out = self.start_out
        failures.jobs.paces.fabric_pace = self.pace

    # ------------------------------------------------------------------------------------------------ events

    def fail(self, failure: FailureEvent, until: float) -> None:
        """Let a part fail; a window says `until` when [s], else the repair takes its time.

        What is out already is not hit again, but a window of planned work keeps it out until it closes.
        """
        failures = self.failures
        info = failure.info
        now = self.kernel.now
        if self.state.is_out(info.source.part, failure.slot) and not (info.source.planned and until > now):
            failures.count(hits=False, outside=False, masked=True)
            self.failures.renewals.renew(failure)
            return
        change = self._take_out(failure)
        inside, outside = failures.find(change.cut)
        failures.count(hits=inside, outside=outside, masked=change.cut, degraded=True)
        returned = False
        latency = failures.detect(failure) if inside else 0.0
        if math.isnan(until):
            repair = info.repair if isinstance(info.repair, float) else info.repair(failure.mark("repair"))
            until = now + latency + repair if repair > 0 else now
        if until > now:
            failures.repair.begun[info.cause] += 1
            self._take_down(failure, change.cut, outside)
            returned = self.failures.repair.close_all(change.restored, now)
            self.kernel.at(until, EventPriority.RETURN, self._on_mended, failure)
            self._respeed(now)
        else:
            self._put_back(failure)
            self.failures.renewals.renew(failure)
        if inside:
            failures.tell(failure, inside, latency)
        if returned:
            self.failures.jobs.offer(now)

    def start_out(self, failure: FailureEvent, remaining: float) -> None:
        """Begin the simulation with a part in repair for `remaining` [s]."""
        cut, restored = self._take_out(failure)
        out = (NodeState.REPAIR, NodeState.WITHHELD)
        self._take_down(failure, cut, [node for node in cut if self.cluster.place[node] not in out])
        self.failures.repair.close_all(restored, 0.0)
        self.kernel.at(remaining, EventPriority.RETURN, self._on_mended, failure)

    def _on_mended(self, failure: FailureEvent, now: float) -> None:
        change = self._put_back(failure)
        inside: Inside = []
        if change.cut:
            # The newest of the parts that are still out strikes once more.
            failures, blamed = self.failures, self.out[-1]
            inside, outside = failures.find(change.cut)
            failures.counts.candidates += 1
            failures.counts.faults += 1
            failures.count(hits=inside, outside=outside, masked=True)
            self._take_down(blamed, change.cut, outside)
        returned = self.failures.repair.close_all(change.restored, now)
        self.failures.renewals.renew(failure)
        self._respeed(now)
        if inside:
            failures.tell(blamed, inside, failures.detect(blamed))
        if returned:
            self.failures.jobs.offer(now)

    def _take_out(self, failure: FailureEvent) -> ReachabilityChange:
        """Note that a part is out; return whom this cuts off, and who has a path again."""
        self._settle()
        self.out.append(failure)
        return self.state.fail(failure.info.source.part, failure.slot)

    def _put_back(self, failure: FailureEvent) -> ReachabilityChange:
        """Note that a part is back; return whom this cuts off, and who has a path again."""
        self._settle()
        self.out.remove(failure)
        return self.state.mend(failure.info.source.part, failure.slot)

    def _take_down(self, failure: FailureEvent, cut: Sequence[int], outside: Sequence[int]) -> None:
        """Take nodes down that are cut off; those of jobs stay at their places until the job knows."""
        now = self.kernel.now
        info = failure.info
        for node in cut:
            self.failures.repair.take_down(node, now, info.cause)
        for node in outside:
            self.cluster.send_to_repair(node, info.cause, now, info.bucket)

    # -------------------------------------------------------------------------------------------------- jobs

    def _settle(self) -> None:
        """Let jobs step whose waiting has ended: they began with the fabric as it was."""
        now = self.kernel.now
        for job in self.failures.jobs.all:
            if job.holding and job.footprint is not None and job.main.run_at <= now:
                self.failures.jobs.settle(job.main, now)

    def _respeed(self, now: float) -> None:
        """Let the jobs step at the pace that the fabric now allows."""
        for job in self.failures.jobs.all:
            if job.holding and job.footprint is not None:
                self.failures.jobs.paces.repace(job, now)

    def pace(self, job: Job) -> tuple[float, int]:
        """Return the pace that a job's network and its slowest pool allow, relative to its plan [-], and the cause.

        The cause is 0 where the job would be as slow with all parts of the fabric back.
        """
        if job.footprint is None:
            return 1.0, 0
        footprint = self._of_main(job, job.footprint)
        pace = 1.0
        if len(footprint.pools) > 1:
            paces = zip(job.spec.pool_paces, footprint.pools, strict=True)
            pace = min((speed for speed, nodes in paces if nodes), default=1.0)
        if not job.waits:
            return pace, 0
        bandwidth = footprint.network.bandwidth[footprint.level] / job.spec.planned_bandwidth
        pace = min(pace, job.pace_at(bandwidth))
        if not self.out:
            return pace, 0
        left = self.state.share(footprint.presence, self._holds(job), footprint.reach)
        # With none left some nodes are cut off, and the job is about to stop.
        slowed = job.pace_at(bandwidth * left) if left > 0 else pace
        return (slowed, self._culprit(job, footprint, left)) if slowed < pace else (pace, 0)

    def _of_main(self, job: Job, footprint: Footprint) -> Footprint:
        """Return where the nodes sit that step together: those of replicas that are away do not."""
        if not job.away:
            return footprint
        width = job.nodes_per_replica
        seats = (job.nodes[group.first : group.first + width] for group in job.away)
        return footprint.without(node for nodes in seats for node in nodes if node >= 0)

    def _holds(self, job: Job) -> Callable[[int], bool]:
        """Return who tells whether the main group of a job holds a node."""
        group_of, main = self.cluster.group, job.main
        return lambda node: group_of[node] is main

    def _culprit(self, job: Job, footprint: Footprint, left: float) -> int:
        """Return the cause of the failure that brought the bandwidth of a job down to the share that is left of it.

        When that part is back, it is the newest of the others that take bandwidth from the job.
        """
        blame = self.blamed.get(job.index)
        if blame is None or blame[0] != left or blame[1] not in self.out:
            blame = self.blamed[job.index] = left, self._newest(job, footprint, left)
        return blame[1].info.cause

    def _newest(self, job: Job, footprint: Footprint, left: float) -> FailureEvent:
        """Return the newest failure that takes bandwidth from a job, of which a share is `left` [-]."""
        presence, holds, reach = footprint.presence, self._holds(job), footprint.reach
        for failure in reversed(self.out):
            if self.state.hurts(failure.info.source.part, failure.slot, presence, holds, reach):
                return failure
        # It cuts off whole switches, behind which the others cannot see it: try what each would give back.
        for failure in reversed(self.out):
            unit = failure.info.source.part, failure.slot
            self.state.mend(*unit)
            without = self.state.share(presence, holds, reach)
            self.state.fail(*unit)
            if without > left:
                return failure
        return self.out[-1]
