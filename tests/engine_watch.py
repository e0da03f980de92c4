"""A simulation that looks at every node and every job after each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick import sim
from ettrick.sim.engine.nodes import NodeState
from tests.harness import _Watched, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.engine.holders import Job
    from ettrick.sim.failures import FailureTrace


class Watch(_Watched):
    """What the harness looks at, and this: why a node is in a job although something is open against it.

    Its job does not know of the failure yet, or keeps the node with fewer GPUs. And work is never negative, nor is what
    may be lost of it more than there is.
    """

    def look(self) -> None:
        """Assert it."""
        super().look()
        assert self.cluster.narrow <= {node for node, out in enumerate(self.cluster.outages) if out}
        for job in self.jobs.all:
            rounding = 1e-6 * max(job.work, 1.0)
            assert job.work >= -rounding
            assert -rounding <= job.state.at_risk <= job.work + rounding
            assert self.jobs.steps.done(job) >= -1e-6
            if job.holding and not job.finished:
                self._look_at(job)

    def _look_at(self, job: Job) -> None:
        """Look at the nodes of a job."""
        cluster = self.cluster
        suspects = {node for group in (job.main, *job.away) for node, _ in group.suspects}
        for position, node in enumerate(job.nodes):
            if node < 0:
                continue
            assert cluster.where(node) is NodeState.JOB
            if node in cluster.narrow:
                assert cluster.outages[node] > 0, f"node {node} is whole and counts as narrow"
                assert position in job.narrow
            elif cluster.outages[node]:
                assert node in suspects, f"node {node} is down in a job that knows nothing of it"


def watch(case: sim.Prepared, rows: Sequence[tuple[float, ...]] | None = None, replication: int = 0) -> sim.Result:
    """Return the result of a case, looked at after every event; on failures written by hand if they are given."""
    failures: FailureTrace = sim.trace(case, replication) if rows is None else trace(rows)
    return Watch(case, replication, failures).run()
