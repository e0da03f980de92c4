"""Standby: restart in place, then swap with a standby; when none is left, select hosts anew."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.contracts import Acquire, Bucket, PoolName, Restore, Run, Stall
from sim.fields import Strategy
from sim.laws import Fixed, Law, draw

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan, Step

__all__ = ["Standby"]


class Standby(Strategy):
    """After a recovery time the hot spares step in at no cost; without one, hosts are selected anew.

    A selection takes idle nodes, and the cold ones if those do not suffice; it fills the hot spares up too. This is the
    process of AIReSim (arXiv 2603.07041), where nothing fails meanwhile.
    """

    use: Literal["standby"] = "standby"
    recovery: Law = Field(description="From the failure being known to a job that only needs its nodes.")
    selection: Law = Field("0 s", description="Selection of hosts: at the start, and when no hot spare is left.")  # type: ignore[assignment]
    pools: tuple[PoolName, ...] = Field(
        ("idle", "warm", "cold", "spare"), min_length=1, description="Where a selection takes nodes, in this order."
    )
    exposed: bool = Field(True, description="Whether failures can hit the job before it steps again.")

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        return False

    @property
    def has_unexposed_phases(self) -> bool:
        """Whether failures are kept out of some phase."""
        return not self.exposed

    def expected_times(self) -> tuple[float, float] | None:
        """Return the mean times in which failures cannot and can hit the job before it restores [s]."""
        mean = self.recovery.mean_value
        return (0.0, mean) if self.exposed else (mean, 0.0)

    def start(self, job: JobView) -> Plan:
        """Select hosts and restore."""
        return (*self._stall(Bucket.RESCHEDULE, draw(self.selection, job.mark, "selection")), *self._end())

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Recover, then take a hot spare for each missing node, or select hosts."""
        del cluster
        if self._fixed is not None:
            return self._fixed[job.nodes_missing > 0], memory
        recovery, selection = (draw(getattr(self, name), failure.mark, name) for name in ("recovery", "selection"))
        return self._steps(recovery, selection, swap=job.nodes_missing > 0), memory

    @functools.cached_property
    def _fixed(self) -> tuple[Plan, Plan] | None:
        """The two plans, without and with a swap, when no time is random."""
        if not (isinstance(self.recovery, Fixed) and isinstance(self.selection, Fixed)):
            return None
        times = self.recovery.value, self.selection.value
        return self._steps(*times, swap=False), self._steps(*times, swap=True)

    def _steps(self, recovery: float, selection: float, *, swap: bool) -> Plan:
        recover = self._stall(Bucket.INITIALIZE, recovery)
        if not swap:
            return (*recover, *self._end())
        anew = (
            Acquire(pools=self.pools, exposed=self.exposed, fill=True),
            *self._stall(Bucket.RESCHEDULE, selection),
            *self._end(),
        )
        return (*recover, Acquire(pools=("spare",), timeout=0.0, otherwise=anew, exposed=self.exposed), *self._end())

    def _stall(self, bucket: Bucket, seconds: float) -> tuple[Step, ...]:
        return (Stall(bucket, seconds, self.exposed),) if seconds > 0 else ()

    def _end(self) -> tuple[Step, ...]:
        return Restore("stored", self.exposed), Run()
