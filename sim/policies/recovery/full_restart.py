"""Full restart: the job ends, enters the queue again, and starts from the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import Requeue
from ettrick.sim.policies.recovery.base import (
    QUEUE,
    RecoveryPath,
    RecoveryStrategy,
    RestartPhase,
    SpareWait,
    initialized,
)
from ettrick.sim.scenario.fields import Duration, default
from ettrick.sim.scenario.laws import Fixed, Law

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, FailureView, JobView, Keeps, Memory, Plan
    from ettrick.sim.policies.recovery.base import ExpectedFailure


class FullRestart(RecoveryStrategy):
    """Give every node back, wait until the queue has a whole gang again, initialize, restore."""

    use: Literal["full-restart"] = "full-restart"
    delay: Duration = default("0 s", description="From the failure being known to the job being eligible again.")
    initialize: Law = Field(description="From nodes to processes that are ready to restore.")

    @property
    def restores(self) -> frozenset[Keeps]:
        """All nodes go back."""
        return frozenset({"stores"})

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return the delay, in which nothing can fail, and the initialization."""
        delay = RestartPhase(Fixed.from_seconds(value=self.delay), exposed=False)
        return (RecoveryPath("stores", (delay, RestartPhase(self.initialize)), joiners=hit.nodes),)

    def _waits(self, hit: ExpectedFailure) -> SpareWait:
        """Return that every failure ends in the queue."""
        return SpareWait(QUEUE, before=self.delay, patience=0.0)

    def _start(self, job: JobView) -> Plan:
        """Initialize and restore."""
        return initialized(self.initialize, job)

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Go back to the queue; what follows the allocation is `_start`."""
        return (Requeue(self.delay),), memory
