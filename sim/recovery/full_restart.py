"""Full restart: the job ends, enters the queue again, and starts from the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.contracts import Requeue
from sim.fields import Duration
from sim.laws import Law
from sim.recovery.base import FromStore, initialized

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan

__all__ = ["FullRestart"]


class FullRestart(FromStore):
    """Give every node back, wait until the queue has a whole gang again, initialize, restore."""

    use: Literal["full-restart"] = "full-restart"
    delay: Duration = Field("0 s", description="From the failure being known to the job being eligible again.")  # type: ignore[assignment]
    initialize: Law = Field(description="From nodes to processes that are ready to restore.")

    def _expected_times(self, gpus: int, nodes: int) -> tuple[float, float] | None:
        """Return the delay and the initialization."""
        del gpus, nodes
        return self.delay, self.initialize.mean_value

    def _start(self, job: JobView) -> Plan:
        """Initialize and restore."""
        return initialized(self.initialize, job)

    def _plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Go back to the queue; what follows the allocation is `_start`."""
        del failure, job, cluster
        return (Requeue(self.delay),), memory
