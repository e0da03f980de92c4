"""Standby: restart in place, then swap with a standby; when none is left, select hosts anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import Acquire, Bucket, PoolName, Restore, Run
from ettrick.sim.policies.recovery.base import InPlace, RecoveryPath, RestartPhase, SampledTime, SpareWait
from ettrick.sim.policies.recovery.phases import Exposed
from ettrick.sim.scenario.fields import default
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from ettrick.sim.policies.contracts import JobView, Plan, Step
    from ettrick.sim.policies.recovery.base import ExpectedFailure


class Standby(InPlace):
    """After a recovery time the hot spares step in at no cost; without one, hosts are selected anew.

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
        """Return the recovery time: a hot spare is at hand."""
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
