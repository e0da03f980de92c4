"""Shrink and rejoin: the other replicas go on without the one that lost a node, which joins again when it is whole."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Background, Bucket, Restore, Run
from ettrick.sim.policies.recovery.base import Absence, RecoveryStrategy
from ettrick.sim.policies.recovery.phases import Participants, Phases, Pools, exposures, is_fixed, mean, some, steps
from ettrick.sim.scenario.fields import Duration, default

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, Exposure, FailureView, JobView, Memory, Plan


class Leaving(RecoveryStrategy):
    """Parts of a job leave the others alone, repair themselves in the background, and rejoin."""

    reconfigure: Phases = Field(description="Stall of the survivors until they step without what was lost.")
    initialize: Phases = Field(description="From nodes to processes that are ready to take the state.")
    catch_up: Phases = default("0 s", description="Transfer of the state from a peer to who rejoins.")
    rejoin: Phases = default("0 s", description="Stall of everybody when somebody joins.")
    pools: Pools = ANY_POOL

    elastic: ClassVar[bool] = True

    @property
    def exposures(self) -> frozenset[Exposure]:
        """The exposure of its phases to failures, as far as it says so."""
        return exposures(*self._all)

    @property
    def no_formula(self) -> str:
        """The reason why no closed form describes the strategy; nothing where one does."""
        return "some phases depend on the fault" if self._by_fault else ""

    @property
    def _all(self) -> tuple[Phases, ...]:
        return self.reconfigure, self.initialize, self.catch_up, self.rejoin

    @property
    def _by_fault(self) -> bool:
        return any(some(phases, lambda phase: phase.faults is not None) for phases in self._all)

    @property
    def _run(self) -> Run:
        """The step that steps on."""
        return Run()

    @abstractmethod
    def _fewest(self, replicas: int) -> int:
        """Return how many of those that can leave alone may step on, at least."""

    @abstractmethod
    def _goes_on(self, failure: FailureView, job: JobView, gone: int) -> bool:
        """Return whether enough are left when so many more leave."""

    @abstractmethod
    def _wait(self, job: JobView, gone: int, restart: Plan) -> Plan:
        """Return how the others wait, when so many more have left, until enough are whole, and then restart."""

    def _absence_for(self, gpus: int, nodes: int, replicas: int) -> Absence | None:
        """Return what the formula for a job that shrinks has to know, if a failure takes one node."""
        if self._by_fault:
            return None
        everybody = Participants(gpus, nodes, 1)
        alone = _one_replica(everybody, replicas, 1)
        whole = alone._replace(joiners=0)
        stall, rejoin = sum(mean(self.reconfigure, everybody)), sum(mean(self.rejoin, everybody))
        away = sum(mean(self.initialize, alone)) + sum(mean(self.catch_up, alone))
        in_place = sum(mean(self.initialize, whole)) + sum(mean(self.catch_up, whole))
        restart = sum(mean(self.initialize, everybody))
        return Absence(stall, rejoin, away, in_place, restart, self._fewest(replicas), all(map(is_fixed, self._all)))

    def _start(self, job: JobView) -> Plan:
        """Initialize and restore, all replicas together."""
        everybody = Participants(job.gpus, job.nodes, job.nodes)
        initialize = steps(self.initialize, Bucket.INITIALIZE, everybody, job.mark, "initialize")
        return (*initialize, Restore("stores"), self._run)

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Leave the victims behind if enough are left, else restart with those that become whole."""
        mark, fault = failure.mark, failure.fault
        everybody = Participants(job.gpus, job.nodes, job.nodes_missing)
        gone = failure.replicas_lost
        head = (self._away(failure, everybody, job.replicas),) if gone else ()
        goes_on = self._goes_on(failure, job, gone)
        if goes_on and gone and job.live and not failure.stops_all:
            reconfigure = steps(self.reconfigure, Bucket.RESCHEDULE, everybody, mark, "reconfigure", fault)
            return (*head, *reconfigure, Restore("live"), self._run), memory
        initialize = steps(self.initialize, Bucket.INITIALIZE, everybody, mark, "initialize", fault)
        restart: Plan = (*initialize, Restore(), self._run)
        return (*head, *(restart if goes_on else self._wait(job, gone, restart))), memory

    def _away(self, failure: FailureView, everybody: Participants, replicas: int) -> Background:
        """Return what a replica does on its own, and what all do when it is back."""
        mark, fault = failure.mark, failure.fault
        alone = _one_replica(everybody, replicas, failure.replicas_lost)
        rejoin = steps(self.rejoin, Bucket.INITIALIZE, everybody, mark, "rejoin", fault)
        return Background(
            steps=(
                Acquire(pools=self.pools),
                *steps(self.initialize, Bucket.INITIALIZE, alone, mark, "initialize", fault),
                *steps(self.catch_up, Bucket.RESTORE, alone, mark, "catch_up", fault),
            ),
            then=(*rejoin, Restore("live"), self._run),
        )


class ShrinkRejoin(Leaving):
    """Drop the data-parallel replicas that lost a node; they repair themselves in the background and rejoin.

    The survivors lose the step in flight and the time to reconfigure. With fewer than ``min_replicas`` left, or with no
    majority where one is needed, all end, wait until enough are whole, and restart from the newest checkpoint. With a
    quorum of a majority this is what torchft does (github.com/meta-pytorch/torchft, ``lighthouse`` and ``manager``).
    """

    use: Literal["shrink-rejoin"] = "shrink-rejoin"
    reroute: bool = Field(
        False,
        description="Whether the nodes that are left of a replica do the work of their stage for it: peers of the lost "
        "stage take over its microbatches, and what fits into the bubbles of the pipeline costs nothing.",
    )
    min_replicas: int = Field(1, ge=1, description="Fewest replicas that may step on.")
    majority: bool = Field(False, description="Whether more than half of the replicas must be left to step on.")
    quorum_timeout: Duration = default("0 s", description="How long too few replicas wait for others before they end.")

    @property
    def reroutes(self) -> bool:
        """Whether the others do the work of lost stages, so that the batch stays as it is."""
        return self.reroute

    def _fewest(self, replicas: int) -> int:
        """Return how many replicas may step on, at least."""
        return max(self.min_replicas, replicas // 2 + 1 if self.majority else 1)

    def _goes_on(self, failure: FailureView, job: JobView, gone: int) -> bool:
        """Return whether so many are left."""
        return job.replicas_running - gone >= self._fewest(job.replicas)

    def _wait(self, job: JobView, gone: int, restart: Plan) -> Plan:
        """Return how the others wait for a quorum while their processes live, and then without."""
        wait = Acquire(self._fewest(job.replicas), "replica")
        if not self.quorum_timeout or job.replicas_running == gone:
            return (wait, *restart)
        quorum = wait._replace(
            timeout=self.quorum_timeout, otherwise=(wait, *restart), exposed="both", bucket=Bucket.RESCHEDULE
        )
        return (quorum, *restart)


def _one_replica(everybody: Participants, replicas: int, lost: int) -> Participants:
    """Return who goes through the phases of one of the replicas that were lost."""
    joiners = math.ceil(everybody.joiners / lost)
    return Participants(everybody.gpus / replicas, max(everybody.nodes // replicas, 1), joiners)
