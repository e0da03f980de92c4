"""One replication: the state, the handlers, and the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.cluster import Cluster
from sim.engine.failure import Counts
from sim.engine.groups import Groups
from sim.engine.incidents import Incidents
from sim.engine.kernel import Kernel, Order
from sim.engine.lives import Lives
from sim.engine.queue import Queue
from sim.engine.replicas import Replicas
from sim.engine.sources import Sources
from sim.job import Job
from sim.ledger import Account
from sim.result import JobResult, Result

if TYPE_CHECKING:
    from sim.engine.kernel import Call
    from sim.engine.lives import Life
    from sim.failures.trace import FailureTrace
    from sim.prepared import Prepared

__all__ = ["Simulation", "simulate"]


class Simulation:
    """State and handlers of one replication; time zero is the start of the warm-up."""

    def __init__(self, prepared: Prepared, replication: int, trace: FailureTrace) -> None:
        self.prepared = prepared
        self.replication = replication
        self.end = prepared.warmup + prepared.horizon
        self.kernel = Kernel()
        causes = len(prepared.sources) + 1
        self.jobs = [
            Job(
                index=index,
                name=job.name,
                gpus=job.gpus,
                nodes=job.nodes,
                replicas=job.replicas,
                step_time=job.step_time,
                keeps_batch=job.keeps_batch,
                target=job.target,
                arrival=prepared.warmup + job.arrival,
                checkpoint=job.checkpoint,
                account=Account(causes, job.gpus),
            )
            for index, job in enumerate(prepared.jobs)
        ]
        # The nodes outside jobs have an account of their own; its `gpus` is not used.
        self.outside = Account(causes, 0.0)
        self.cluster = Cluster(prepared.nodes, prepared.gpus_per_node, prepared.spares, self.outside)
        self.down_node_seconds = 0.0
        self.edges = [prepared.warmup]
        self.is_open = True
        self.events = 0
        self.lives = Lives(self.kernel, self._occur)
        self.cluster.on_dissolve = self._leave
        self.incidents = Incidents(self)
        self.replicas = Replicas(self)
        self.groups = Groups(self)
        self.queue = Queue(self)
        self.sources = Sources(self, trace)
        self.kernel.at(self.end, 0, self._on_end)
        if prepared.warmup > 0:
            self.kernel.at(prepared.warmup, Order.BOUNDARY, self._on_warm)
        if prepared.windows is not None:
            self._next_window(prepared.warmup + prepared.windows)

    def run(self) -> Result:
        """Play until the horizon or the end of the last job."""
        step = self.kernel.step
        events = 0
        while self.is_open:
            step()
            events += 1
        self.events = events
        return self._result()

    def serve(self, now: float) -> None:
        """Offer nodes that have become free: first to jobs that lack some, then to the queue."""
        if self.groups.hungry:
            self.groups.feed_hungry(now)
        if self.queue.waiting:
            self.queue.serve(now)

    def stop(self, now: float) -> None:
        """Close every account at `now`."""
        for job in self.jobs:
            if job.arrival < now and not job.finished:
                self.groups.settle(job.main, now)
                self.queue.finish(job, now, finished=False)
        self.down_node_seconds += self.cluster.settle(now)
        self.edges.append(now)
        self.is_open = False

    def _occur(self, life: Life) -> Life | None:
        return self.sources.occur_busy(life)

    def _leave(self, node: int) -> None:
        group = self.cluster.group[node]
        if group is not None:
            self.lives.leave(node, group, self.kernel.now)

    def _on_end(self, call: Call) -> None:
        del call
        self.stop(self.kernel.now)

    def _on_warm(self, call: Call) -> None:
        """Forget what the nodes did during the warm-up; no job has arrived yet."""
        del call
        self.cluster.settle(self.kernel.now)
        self.sources.counts = Counts()
        self.outside.tables.clear()
        self.outside.open_window()

    def _next_window(self, edge: float) -> None:
        if edge < self.end:
            self.kernel.at(edge, Order.BOUNDARY, self._on_window, edge)

    def _on_window(self, call: Call) -> None:
        edge: float = call.argument
        for job in self.jobs:
            if not job.finished:
                self.groups.settle(job.main, edge)
                for group in job.away:
                    self.groups.settle(group, edge)
            job.account.open_window()
        self.down_node_seconds += self.cluster.settle(edge)
        self.outside.open_window()
        self.edges.append(edge)
        assert self.prepared.windows is not None
        self._next_window(edge + self.prepared.windows)

    def _result(self) -> Result:
        """Close the ledger and collect what happened."""
        prepared = self.prepared
        end = self.edges[-1]
        owned = prepared.nodes * prepared.gpus_per_node * (end - prepared.warmup)
        jobs = []
        held = np.zeros(self.outside.totals().shape[1])
        for job in self.jobs:
            stop = end if np.isnan(job.end) else job.end
            requested = job.gpus * max(stop - job.arrival, 0.0)
            job.account.close(requested, f"job '{job.name}'")
            totals = job.account.totals()
            held += totals.sum(axis=(0, 2)) - np.asarray(job.account.absent)
            jobs.append(
                JobResult(
                    name=job.name,
                    gpus=job.gpus,
                    requested=requested,
                    totals=totals,
                    work=job.work,
                    at_risk=job.state.at_risk,
                    running=job.running_seconds,
                    arrival=job.arrival - prepared.warmup,
                    start=job.start - prepared.warmup,
                    end=stop - prepared.warmup,
                    finished=job.finished,
                    censored=not job.finished and job.target < np.inf,
                    interruptions=dict(job.interruptions),
                    disruptions=dict(job.disruptions),
                    merged=job.merged,
                )
            )
        outside = self.outside.totals()
        cluster = held + outside.sum(axis=(0, 2))
        self.outside.close(owned - float(held.sum()), "the cluster", owned)
        return Result(
            replication=self.replication,
            edges=np.asarray(self.edges) - prepared.warmup,
            owned=owned,
            jobs=tuple(jobs),
            cluster=cluster,
            outside=outside,
            node_seconds=prepared.nodes * (end - prepared.warmup),
            down_node_seconds=self.down_node_seconds,
            counts=self.sources.counts.as_dict(),
            events=self.events,
        )


def simulate(prepared: Prepared, replication: int, trace: FailureTrace) -> Result:
    """Run one replication on a trace."""
    return Simulation(prepared, replication, trace).run()
