"""After a failure of the software, restart the processes; after one of a node, take another and start over."""

from typing import Literal

from pydantic import Field

from ettrick.sim.policies.contracts import Acquire, Bucket, Restore, Run, Stall
from ettrick.sim.policies.recovery.base import RecoveryPath, RecoveryStrategy, RestartPhase
from ettrick.sim.scenario.fields import Duration
from ettrick.sim.scenario.laws import Fixed


class RebootFirst(RecoveryStrategy):
    """Restart processes in place, and launch the whole job anew where nodes are missing."""

    use: Literal["reboot-first"] = "reboot-first"
    restart: Duration = Field("2 min", description="Until processes that were restarted can restore.")
    launch: Duration = Field("10 min", description="Until a job that was launched again can restore.")

    def _returns(self, hit):
        """Say for the closed form what comes back after a failure, from where, and after what times."""
        time = self.launch if hit.takes else self.restart
        return (RecoveryPath("hosts", (RestartPhase(Fixed.from_seconds(value=time)),), joiners=hit.takes),)

    def _start(self, job):
        return Stall(Bucket.INITIALIZE, self.launch), Restore("stores"), Run()

    def _plan(self, failure, job, cluster, memory):
        if job.nodes_missing:
            return (Acquire(), Stall(Bucket.INITIALIZE, self.launch), Restore("hosts"), Run()), memory
        return (Stall(Bucket.INITIALIZE, self.restart), Restore("hosts"), Run()), memory
