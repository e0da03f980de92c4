"""The fabric: which of its parts are out, whom that cuts off, and how fast the others can still talk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.engine.kernel import Order
from sim.fabric_state import FabricState
from sim.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.engine.failure import Failure
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Fabric"]


class Fabric:
    """Lets parts of the fabric fail and return.

    A node that loses its last path is down until it has one again, whichever part gives it back; a node that keeps
    some is only slower, and so is the job on it.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.cluster = simulation.cluster
        network = simulation.prepared.network
        self.state = FabricState(network.paths) if network is not None and network.paths is not None else None
        self.out: list[Failure] = []
        """Failures of parts that are out, newest last."""
        self.blamed: dict[int, tuple[float, Failure]] = {}
        """For each job that is slow, by its number: the bandwidth that is left, and who brought it down to that."""

    # ------------------------------------------------------------------------------------------------ events

    def fail(self, failure: Failure, until: float) -> None:
        """Let a part fail; a log says `until` when [s], else the repair takes its time."""
        faults = self.simulation.faults
        info = failure.info
        now = self.kernel.now
        cut = self._take_out(failure)
        inside, outside = faults.find(cut)
        faults.count(hits=bool(inside), outside=bool(outside), masked=bool(cut), degraded=True)
        latency = faults.detect(failure) if inside else 0.0
        if math.isnan(until):
            repair = info.repair if isinstance(info.repair, float) else info.repair(failure.mark("repair"))
            until = now + latency + repair if repair > 0 else now
        if until > now:
            self._take_down(failure, cut, outside)
            self.kernel.at(until, Order.RETURN, self._on_mended, failure)
            self._respeed(now)
        else:
            self._put_back(failure)
            self.simulation.sources.renew(failure)
        if inside:
            faults.tell(failure, inside, latency)

    def start_out(self, failure: Failure, remaining: float) -> None:
        """Begin the simulation with a part in repair for `remaining` [s]."""
        cut = self._take_out(failure)
        self._take_down(failure, cut, [node for node in cut if self.cluster.place[node] != Place.REPAIR])
        self.kernel.at(remaining, Order.RETURN, self._on_mended, failure)

    def _on_mended(self, call: Call) -> None:
        failure: Failure = call.argument
        now = self.kernel.now
        returned = False
        for node in self._put_back(failure):
            returned |= self.simulation.outages.close(node, now)
        self.simulation.sources.renew(failure)
        self._respeed(now)
        if returned:
            self.simulation.serve(now)

    def _take_out(self, failure: Failure) -> list[int]:
        """Note that a part is out; return the nodes that this cuts off."""
        assert self.state is not None
        self._settle()
        self.out.append(failure)
        return self.state.fail(failure.info.source.part, failure.slot).cut

    def _put_back(self, failure: Failure) -> list[int]:
        """Note that a part is back; return the nodes that have a path again."""
        assert self.state is not None
        self._settle()
        self.out.remove(failure)
        return self.state.mend(failure.info.source.part, failure.slot).restored

    def _take_down(self, failure: Failure, cut: Sequence[int], outside: Sequence[int]) -> None:
        """Take nodes down that are cut off; those of jobs stay at their places until the job knows."""
        now = self.kernel.now
        info = failure.info
        for node in cut:
            self.simulation.outages.take_down(node, now, info.cause)
        for node in outside:
            self.simulation.faults.leave_block(node, now)
            self.cluster.send_to_repair(node, info.cause, now, info.bucket)

    # -------------------------------------------------------------------------------------------------- jobs

    def _settle(self) -> None:
        """Charge the jobs up to now: what they have stepped so far was stepped with the fabric as it was."""
        for job in self.simulation.jobs:
            if job.holding and job.footprint is not None:
                self.simulation.groups.settle(job.main, self.kernel.now)

    def _respeed(self, now: float) -> None:
        """Let the jobs step at the pace that the fabric now allows."""
        for job in self.simulation.jobs:
            if job.holding and job.footprint is not None:
                self.simulation.paces.respeed(job, now)

    def pace(self, job: Job) -> tuple[float, int]:
        """Return the pace that a job's network and its slowest pool allow, relative to its plan [-], and the cause."""
        footprint = job.footprint
        if footprint is None:
            return 1.0, 0
        pace = min((speed for speed, nodes in zip(job.pool_paces, footprint.pools, strict=True) if nodes), default=1.0)
        if not job.communication:
            return pace, 0
        bandwidth = footprint.network.bandwidth[footprint.level] / job.planned_bandwidth
        cause = 0
        if self.state is not None and not self.state.is_whole:
            left = self.state.share(footprint.presence, self._holds(job))
            # With none left some nodes are cut off, and the job is about to stop.
            if 0 < left < 1:
                bandwidth *= left
                cause = self._culprit(job, left)
        return min(pace, job.pace_at(bandwidth)), cause

    def _holds(self, job: Job) -> Callable[[int], bool]:
        """Return who tells whether the main group of a job holds a node."""
        group_of, main = self.cluster.group, job.main
        return lambda node: group_of[node] is main

    def _culprit(self, job: Job, left: float) -> int:
        """Return the cause of the failure that brought the bandwidth of a job down to what is left of it.

        When that part is back, it is the newest of the others that take bandwidth from the job.
        """
        assert self.state is not None
        assert job.footprint is not None
        known = self.blamed.get(job.index)
        if known is not None and known[0] == left and known[1] in self.out:
            return known[1].info.cause
        presence, holds = job.footprint.presence, self._holds(job)
        for failure in reversed(self.out):
            if self.state.hurts(failure.info.source.part, failure.slot, presence, holds):
                self.blamed[job.index] = left, failure
                return failure.info.cause
        return 0
