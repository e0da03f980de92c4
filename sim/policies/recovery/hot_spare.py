"""Hot spare: the job keeps its nodes, swaps the failed ones and restarts in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Bucket, Requeue, Restore, Run
from ettrick.sim.policies.recovery.base import InPlace, RecoveryPath, RestartPhase, SpareWait, initialized
from ettrick.sim.policies.recovery.phases import Exposed, Pools
from ettrick.sim.scenario.fields import Duration, default
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import JobView, Plan
    from ettrick.sim.policies.recovery.base import ExpectedFailure, SampledTime


class HotSpare(InPlace):
    """Take spares for failed nodes, restart in place and restore; without a spare the job waits for one."""

    use: Literal["hot-spare"] = "hot-spare"
    reschedule: Law = default("0 s", description="Teardown and swap, once the spares are there.")
    initialize: Law = Field(description="From nodes to processes that are ready to restore.")
    pools: Pools = ANY_POOL
    patience: Duration | None = Field(
        None, description="How long to wait for a replacement before going back to the queue; without it, for ever."
    )
    requeue_delay: Duration = default("0 s", description="From giving up to being eligible in the queue.")
    exposed: Exposed = Field(
        "both",
        description="Who can fail while the job reschedules (teardown and swap): its processes, its nodes (hit like "
        "idle ones), both (true) or none (false).",
    )

    _times = ("reschedule", "initialize")

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return the two times."""
        times = RestartPhase(self.reschedule, exposed=self.exposed == "both"), RestartPhase(self.initialize)
        return (RecoveryPath("hosts", times, joiners=hit.takes),)

    def _waits(self, hit: ExpectedFailure) -> SpareWait:
        """Return that the nodes are taken first."""
        if self.patience is None:
            return SpareWait(self.pools)
        return SpareWait(self.pools, patience=self.patience, delay=self.requeue_delay, more=-self.reschedule.mean_value)

    def _start(self, job: JobView) -> Plan:
        """Initialize and restore."""
        return initialized(self.initialize, job)

    def _steps(self, pause: SampledTime, initialize: SampledTime, /, *, swap: bool) -> Plan:
        return (
            *((self._acquire(),) if swap else ()),
            *pause.stall(Bucket.RESCHEDULE, exposed=self.exposed),
            *initialize.stall(Bucket.INITIALIZE),
            Restore(),
            Run(),
        )

    def _acquire(self) -> Acquire:
        if self.patience is None:
            return Acquire(pools=self.pools)
        return Acquire(timeout=self.patience, otherwise=(Requeue(self.requeue_delay),), pools=self.pools)
