"""Records of holders: what their time and that of idle GPUs is charged to, how often they stop, and when they ran.

A holder is charged when it is over, however that comes; `Runs` charges what it did while it stepped.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.engine.fleet_result import DIRECT, NAMED, ROOTS, FleetAccumulator, size_class, window_edges
from ettrick.sim.engine.result import Attempt
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ettrick.sim.engine.fleet_result import FleetResult
    from ettrick.sim.engine.holders import Holder
    from ettrick.sim.engine.job import Job
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.nodes import Cluster, TimeWeightedCount
    from ettrick.sim.engine.prepared import Prepared

_QUEUED, _PRODUCTIVE, _LOST_WORK = Bucket.QUEUED.value, Bucket.PRODUCTIVE.value, Bucket.LOST_WORK.value


class Records:
    """What a cluster that streams share is charged with, and the log of its jobs."""

    def __init__(self, prepared: Prepared, cluster: Cluster) -> None:
        self.sources = prepared.sources
        self.cluster = cluster
        self.per_node = prepared.gpus_per_node
        self.tally = FleetAccumulator(
            window_edges(prepared.warmup, prepared.horizon, prepared.windows),
            prepared.nodes * self.per_node,
            [source.name for source in prepared.sources],
        )
        self.log: list[Attempt] | None = None
        """When jobs had their nodes, if that is asked for."""
        self.drain = len(prepared.sources) + 1 + ROOTS.index("drain")
        self.demand, self.limit = self.drain + 1, self.drain + ROOTS.index("limit")
        self.idle_for: dict[str, int] = {}
        """GPUs that are idle since the last pass, by reason."""
        self.charged = 0.0
        """Up to when idle GPUs have been charged [s]."""
        self.preempted: Counter[int] = Counter()
        """How often named jobs were stopped for others, by index."""

    def root_of(self, failure: FailureEvent) -> int:
        """Return the index of the root cause that a failure is."""
        return self.drain if failure.info.source.planned else failure.info.cause

    # --------------------------------------------------------------------------------------------- charges

    def account_of_job(self, job: Job) -> int:
        """Return the account of a named job."""
        spec = job.spec
        return self.tally.account(NAMED + job.index, size_class(job.gpus), spec.tenant, spec.priority, spec.partition)

    def charge_wait(self, holder: Holder, now: float) -> None:
        """Charge the GPUs that a holder has waited for up to now."""
        waited = now - holder.queued
        if waited > 0:
            holder.waited += waited
            self.tally.charge(
                holder.account, _QUEUED, holder.root, holder.via, waited * holder.gpus, holder.queued, now
            )

    def charge_stages(self, holder: Holder, now: float) -> int:
        """Charge what comes before a holder runs on; return the GPUs that it has at the moment."""
        allocation = holder.allocation
        assert allocation is not None, "it has nodes"
        gpus = (holder.nodes - len(allocation.missing)) * self.per_node if holder.nodes else holder.gpus
        time = holder.since
        for bucket, end in holder.stages:
            stop = end if end < now else now
            if stop > time:
                self.tally.charge(holder.account, bucket, holder.why, holder.via, (stop - time) * gpus, time, stop)
                time = stop
        holder.run += now - holder.since
        holder.since = now
        return gpus

    def charge_idle(self, now: float, unshared: TimeWeightedCount) -> None:
        """Charge the GPUs that no job has had since the last pass, and those of nodes that no job gets."""
        withheld = self.cluster.withheld.collect(now) * self.per_node
        if withheld > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += withheld
            self.tally.idle("no_queue", withheld, self.charged, now)
        idle = self.cluster.idle.collect(now) * self.per_node + unshared.collect(now)
        if idle > 0:
            self.cluster.account.table[Bucket.UNALLOCATED][0] += idle
            total = sum(self.idle_for.values())
            for reason, gpus in self.idle_for.items() if total else (("no_queue", 1),):
                self.tally.idle(reason, idle * gpus / max(total, 1), self.charged, now)
        self.charged = now

    # ----------------------------------------------------------------------------------------------- stops

    def count_stop(self, holder: Holder, now: float, root: int, via: int, lost: float, by: int = -1) -> None:
        """Count a stop, which has lost some seconds of work on all GPUs of the holder; see `FleetAccumulator`."""
        lost *= holder.nodes * self.per_node or holder.gpus
        self.tally.stopped(holder.account, now, root, via, holder.gpus, lost, by)

    def count_end(self, holder: Holder, outcome: str, now: float) -> None:
        """Count a holder that is over, or as it stands at the end; services account for their replicas."""
        if holder.policy.account == "service":
            return
        self.tally.ended(
            holder.account, outcome, holder.spec.submit, holder.first, now, holder.gpus, holder.waited, holder.run,
            holder.useful, holder.failures, holder.preempted,
        )  # fmt: skip

    def log_attempt(self, holder: Holder, now: float, state: str) -> None:
        """Write down when a job had its nodes."""
        if self.log is None or holder.policy.account == "service":
            return
        start, submit, end = (time - self.tally.edges[0] for time in (holder.began, holder.spec.submit, now))
        stopped = state in ("node_fail", "preempted")
        cause, via = (holder.root, holder.via) if stopped else (0, DIRECT)
        who = holder.stream.index, holder.spec.number, holder.spec.gpus
        self.log.append(Attempt(*who, submit, start, end, state, cause, via, holder.lost, holder.seats))

    def log_nodes(self, holder: Holder) -> None:
        """Write down which nodes a holder has from now on."""
        if self.log is not None:
            assert holder.allocation is not None, "it has nodes"
            holder.seats += (tuple(sorted(node for node in holder.allocation.nodes if node >= 0)),)

    # ------------------------------------------------------------------------------------------------- end

    def close_job(self, job: Job, now: float) -> None:
        """Charge a named job from its own account, and count it as it stands."""
        account, table, gpus = self.account_of_job(job), job.account.held(), job.gpus
        for edge, bucket, cause, gpu_s in self._charges(table):
            root = self.drain if cause and self.sources[cause - 1].planned else cause
            self.tally.charge(account, bucket, root, DIRECT, gpu_s, edge, edge)
            if bucket == _LOST_WORK and root:
                self.tally.stopped(account, edge, root, DIRECT, 0.0, gpu_s, stops=0)
        failures = sum(count for cause, count in job.interruptions.items() if not self.sources[cause - 1].planned)
        spent = table.sum(axis=(0, 2)) / gpus
        run = float(spent.sum() - spent[_QUEUED])
        self.tally.ended(
            account, "completed" if job.finished else "running" if job.holding else "waiting", job.arrival, job.start,
            job.end if job.finished else now, gpus, float(spent[_QUEUED]), run, float(spent[_PRODUCTIVE]), failures,
            self.preempted[job.index],
        )  # fmt: skip

    def _charges(self, table: NDArray[np.float64]) -> Iterator[tuple[float, int, int, float]]:
        """Yield window start, bucket, cause and GPU-seconds of a table of shape (windows, buckets, causes)."""
        for window, bucket, cause in zip(*map(np.ndarray.tolist, table.nonzero()), strict=True):
            yield self.tally.edges[window], bucket, cause, float(table[window, bucket, cause])

    def result(self, now: float, outside: NDArray[np.float64]) -> FleetResult:
        """Return what all holders came to; the ledger, with the nodes outside jobs, adds up to the cluster.

        Parameters
        ----------
        outside
            GPU-seconds of nodes outside jobs, shape (windows, buckets, causes); idle ones are known with their reason.
        """
        for edge, bucket, cause, gpu_s in self._charges(outside):
            if bucket != Bucket.UNALLOCATED:
                self.tally.charge(0, bucket, cause, DIRECT, gpu_s, edge, edge)
        return self.tally.result(now)
