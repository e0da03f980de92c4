"""Full restart: the job ends, enters the queue again, and starts from the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.contracts import Requeue
from sim.fields import Duration
from sim.laws import Law
from sim.recovery.base import FromStore

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan

__all__ = ["FullRestart"]


class FullRestart(FromStore):
    """Give every node back, wait until the queue has a whole gang again, initialize, restore."""

    use: Literal["full-restart"] = "full-restart"
    delay: Duration = Field("0 s", description="From the failure being known to the job being eligible again.")  # type: ignore[assignment]
    initialize: Law = Field(description="From nodes to processes that are ready to restore.")

    def expected_times(self) -> tuple[float, float] | None:
        """Return the mean times in which failures cannot and can hit the job before it restores [s]."""
        return self.delay, self.initialize.mean_value

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Go back to the queue; what follows the allocation is :meth:`start`."""
        del failure, job, cluster
        return (Requeue(self.delay),), memory
