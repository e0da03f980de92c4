"""Full restart: the job ends, enters the queue again, and starts from the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.contracts import Bucket, Requeue, Restore, Run, Stall
from sim.fields import Duration, Strategy
from sim.laws import Law, draw

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan

__all__ = ["FullRestart"]


class FullRestart(Strategy):
    """Give every node back, wait until the queue has a whole gang again, initialize, restore."""

    use: Literal["full-restart"] = "full-restart"
    delay: Duration = Field("0 s", description="From the failure being known to the job being eligible again.")  # type: ignore[assignment]
    initialize: Law = Field(description="From nodes to processes that are ready to restore.")

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        return False

    @property
    def has_unexposed_phases(self) -> bool:
        """Whether failures are kept out of some phase."""
        return False

    def expected_times(self) -> tuple[float, float] | None:
        """Return the mean times in which failures cannot and can hit the job before it restores [s]."""
        return self.delay, self.initialize.mean_value

    def start(self, job: JobView) -> Plan:
        """Initialize and restore."""
        return (Stall(Bucket.INITIALIZE, draw(self.initialize, job.mark, "initialize")), Restore("stored"), Run())

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Go back to the queue; what follows the allocation is :meth:`start`."""
        del failure, job, cluster
        return (Requeue(self.delay),), memory
