"""Restarts of a rigid job: out of the queue, in place with spares, or in place with standbys.

`FullRestart` gives all nodes back, enters the queue again and starts from the newest checkpoint. `HotSpare` keeps the
nodes, swaps the failed ones and restarts in place. `Standby` restarts in place and then swaps; when no standby is left,
it selects hosts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import ANY_POOL, Acquire, Bucket, PoolName, Requeue, Restore, Run
from ettrick.sim.policies.recovery.base import (
    QUEUE,
    InPlace,
    RecoveryPath,
    RecoveryStrategy,
    RestartPhase,
    SampledTime,
    SpareWait,
    initialized,
)
from ettrick.sim.policies.recovery.phases import Exposed, Pools
from ettrick.sim.scenario.fields import Duration, default
from ettrick.sim.scenario.laws import Fixed, Law

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import ClusterView, FailureView, JobView, Keeps, Memory, Plan, Step
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


class Standby(InPlace):
    """After a recovery time the hot spares step in at no cost; without one, hosts are selected again.

    A selection takes idle nodes, and the cold ones if those do not suffice; it fills the hot spares up too. This is the
    process of AIReSim (arXiv 2603.07041), where nothing fails meanwhile.
    """

    use: Literal["standby"] = "standby"
    recovery: Law = Field(description="From the failure being known to a job that only needs its nodes.")
    selection: Law = default("0 s", description="Selection of hosts: at the start, and when no hot spare is left.")
    pools: tuple[PoolName, ...] = Field(
        ("idle", "warm", "cold", "spare"), min_length=1, description="Where a selection takes nodes, in this order."
    )
    exposed: Exposed = Field(
        "both",
        description="Who can fail before the job steps again: its processes, its nodes (hit like idle ones), both "
        "(true) or none (false). While it waits for nodes no process runs.",
    )

    _times = ("recovery", "selection")

    def _returns(self, hit: ExpectedFailure) -> tuple[RecoveryPath, ...] | None:
        """Return the recovery time: a hot spare is available."""
        exposed = self.exposed == "both"
        return (
            RecoveryPath("hosts", (RestartPhase(self.recovery, exposed=exposed),), joiners=hit.takes, exposed=exposed),
        )

    def _waits(self, hit: ExpectedFailure) -> SpareWait:
        """Return that hosts are looked for after the recovery time."""
        pools = (*self.pools, "spare")
        return SpareWait(pools, before=self.recovery.mean_value, exposed=self.exposed in ("both", "nodes"), fills=True)

    def _start(self, job: JobView) -> Plan:
        """Select hosts and restore."""
        select = SampledTime.of(self.selection, job.mark, "selection")
        return (*select.stall(Bucket.RESCHEDULE, exposed=self.exposed), Restore("stores", self.exposed), Run())

    def _steps(self, recovery: SampledTime, selection: SampledTime, /, *, swap: bool) -> Plan:
        recover = recovery.stall(Bucket.INITIALIZE, exposed=self.exposed)
        if not swap:
            return (*recover, *self._end())
        waiting: Literal["nodes", "none"] = "nodes" if self.exposed in ("both", "nodes") else "none"
        anew = (
            Acquire(pools=self.pools, exposed=waiting, fill=True),
            *selection.stall(Bucket.RESCHEDULE, exposed=self.exposed),
            *self._end(),
        )
        return (*recover, Acquire(pools=("spare",), timeout=0.0, otherwise=anew, exposed=waiting), *self._end())

    def _end(self) -> tuple[Step, ...]:
        return Restore("hosts", self.exposed), Run()
