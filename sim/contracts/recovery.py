"""What recovery and scheduling are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sim.contracts.plan import Memory, Plan
    from sim.contracts.views import ClusterView, FailureView, JobView, QueuedJob

__all__ = [
    "RecoveryStrategy",
    "SchedulerStrategy",
]


class RecoveryStrategy(Protocol):
    """From a failure to a plan. Tested by the harness ``check_recovery``."""

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        ...

    @property
    def reroutes(self) -> bool:
        """Whether the others do the work of lost stages, so that the batch stays as it is."""
        ...

    @property
    def narrows_on(self) -> frozenset[str]:
        """Classes of faults after which a node may stay in its job with fewer GPUs."""
        ...

    def keeps(self, lost: int, gpus: int) -> bool:
        """Return whether a tensor group of `gpus` GPUs that has lost some of them may step on, of `narrows_on`."""
        ...

    def start(self, job: JobView) -> Plan:
        """Return what happens between the allocation of nodes and the first step."""
        ...

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Return what to do now that the failure is known."""
        ...


class SchedulerStrategy(Protocol):
    """From a queue to the jobs that start now. Tested by the harness ``check_scheduler``."""

    @property
    def pick(self) -> str:
        """Which of the nodes that wait are taken first."""
        ...

    @property
    def pack(self) -> str | None:
        """Domain that jobs are packed into, if any."""
        ...

    def select(self, queue: tuple[QueuedJob, ...], free: int) -> tuple[int, ...]:
        """Return the positions in `queue` of the jobs to start, given `free` nodes."""
        ...
