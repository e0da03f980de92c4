"""A replication: its four subsystems, the loop, and the result."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim import rng
from ettrick.sim.engine.fabric import Fabric
from ettrick.sim.engine.failures import Failures
from ettrick.sim.engine.fleet import ClusterQueue, pooled
from ettrick.sim.engine.holders import Recorder
from ettrick.sim.engine.jobs import JobPhases, Queue
from ettrick.sim.engine.kernel import Environment, EventPriority
from ettrick.sim.engine.ledger import Account
from ettrick.sim.engine.lives import ExposureClocks
from ettrick.sim.engine.nodes import Cluster
from ettrick.sim.engine.progress import Power
from ettrick.sim.engine.repair import Repair
from ettrick.sim.engine.result import NO_OUTAGES, JobResult, Outages, Result
from ettrick.sim.policies.contracts import JOB_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.sim.engine.holders import Job
    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.failures.trace import FailureTrace


class Simulation:
    """A replication of four subsystems: nodes, repair, failures and jobs. Time zero is the start of the warm-up.

    Nodes know nobody but the lives that they carry; the other three call each other by the few methods that the
    docstrings of their classes name.
    """

    def __init__(
        self, prepared: Prepared, replication: int, trace: FailureTrace,
        *, keeps_log: bool = False, keeps_timeline: bool = False,
    ) -> None:  # fmt: skip
        if prepared.has_queue:
            prepared = pooled(prepared)
        self.prepared, self.replication = prepared, replication
        self.end = prepared.warmup + prepared.horizon
        self.recorder = Recorder(prepared.warmup) if keeps_timeline else None
        """The recorder of who did what when; ``None`` for nobody."""
        self.kernel = kernel = Environment()
        # The nodes outside jobs have an account of their own; its `gpus` is not used.
        self.outside = Account(len(prepared.sources) + 1, 0.0)
        self.cluster = Cluster(prepared, self.outside, ExposureClocks(kernel))
        self.repair = repair = Repair(prepared, replication, kernel, self.cluster, keeps_log=keeps_log)
        self.counts = repair.counts
        self.failures = Failures(prepared, replication, repair, trace)
        self.jobs = JobPhases(prepared, replication, self.failures, self.recorder, self.stop)
        repair.failures = self.failures
        self.queue = ClusterQueue(self.jobs, keeps_log=keeps_log) if prepared.has_queue else Queue(self.jobs)
        self.jobs.queue = self.queue
        repair.jobs = self.failures.jobs = self.jobs
        self.failures.interrupt = self.queue.interrupt
        self.fabric = Fabric(self.failures, prepared.network)
        self.down_node_seconds = 0.0
        self.edges = [prepared.warmup]
        self.is_open, self.events = True, 0
        self._rank_nodes()
        self.power = None if prepared.upkeep.is_steady else Power(self.jobs, self.settle, self.charged)
        """The power of the site, where that changes in time."""
        self.jobs.power = self.power
        self.jobs.ramping = self.power if prepared.upkeep.ramp < math.inf else None
        self.failures.start(trace)
        self.boundaries = self.queue.edges()
        """The boundaries of windows [s]; those of a fleet are finer where the scenario states none."""
        self._schedule_boundaries()

    def _schedule_boundaries(self) -> None:
        """Schedule the end, that of the warm-up and that of the first window."""
        self.kernel.at(self.end, EventPriority.END, self.stop)
        if self.prepared.warmup > 0:
            self.kernel.at(self.prepared.warmup, EventPriority.BOUNDARY, self._on_warm)
        self._next_window()

    def run(self) -> Result:
        """Run until the horizon or the end of the last job."""
        step = self.kernel.step
        events = 0
        while self.is_open:
            step()
            events += 1
        self.events = events
        return self._result()

    def stop(self, now: float) -> None:
        """Close every account at `now`."""
        self.jobs.close(now)
        self.queue.close(now)
        self.down_node_seconds += self.cluster.settle(now)
        if self.power is not None:
            self.power.read(now)
        self.edges.append(now)
        self.is_open = False

    def settle(self, now: float) -> None:
        """Charge everything up to `now`."""
        for job in self.jobs.all:
            if not job.finished:
                self.jobs.settle(job.main, now)
                for group in job.away:
                    self.jobs.settle(group, now)
        self.queue.settle(now)
        self.down_node_seconds += self.cluster.settle(now)

    def charged(self) -> NDArray[np.float64]:
        """Return the GPU-seconds of the cluster that are charged so far by bucket, those of streams left out."""
        total: NDArray[np.float64] = self.outside.totals().sum(axis=(0, 2))
        for job in self.jobs.all:
            total += job.account.totals().sum(axis=(0, 2)) - np.asarray(job.account.absent)
        return total

    def _rank_nodes(self) -> None:
        """Let pools give out nodes as the scheduler picks them, where that is not by number."""
        pick = self.prepared.scheduler.pick
        entries = itertools.count()
        repair, failed = self.repair, self.cluster.failed
        key = rng.stream(self.prepared.seed, self.replication, "pick")
        ranks: dict[str, Callable[[int], object]] = {
            "longest-idle": lambda _: next(entries),
            "random": lambda node: rng.uniform_one(key, node, next(entries)),
            "fewest-failures": lambda node: failed.get(node, 0),
            "best-score": lambda node: -repair.strategy.score(repair.memory.get(node)),
        }
        # The same keys for all nodes of the start at once, where each would be slow.
        rank_all: dict[str, Callable[[list[int]], list[float]]] = {
            "random": lambda nodes: rng.uniform(
                key, np.array(nodes, dtype=np.int64), np.fromiter(entries, np.int64, len(nodes))
            ).tolist()
        }
        if pick in ranks:
            self.cluster.rank_by(ranks[pick], rank_all.get(pick))

    def _on_warm(self, now: float) -> None:
        """Forget what the nodes did during the warm-up; no named job has arrived yet."""
        self.queue.settle(now)
        self.cluster.settle(now)
        self.cluster.units_whole.collect(now)
        self.cluster.units_whole.times.clear()
        self.counts.clear()
        for shelf in self.repair.shelves:
            shelf.collect(now)
        self.repair.begun[:] = [0] * len(self.repair.begun)
        self.cluster.down_times.clear()
        self.outside.tables.clear()
        self.outside.open_window()

    def _next_window(self) -> None:
        edge = next(self.boundaries, self.end)
        if edge < self.end:
            self.kernel.at(edge, EventPriority.BOUNDARY, self._on_window)

    def _on_window(self, edge: float) -> None:
        self.settle(edge)
        for job in self.jobs.all:
            job.account.open_window()
        self.outside.open_window()
        self.edges.append(edge)
        self._next_window()

    def _counts(self) -> dict[str, int]:
        """Return the events by what became of them, and what is open at the end."""
        tainted = sum(bool(job.taints) for job in self.jobs.all)
        hidden = sum(map(len, [*self.failures.hidden.open.values(), *self.failures.hidden.dormant.values()]))
        return {
            **self.counts.as_dict(),
            "hidden_at_end": hidden,
            "tainted_at_end": tainted,
            "unnoticed_at_end": self.failures.silent.unnoticed,
        }

    def _outages(self, end: float) -> Outages:
        """Return when nodes were down, times after the warm-up."""
        log = self.repair.log
        if log is None:
            return NO_OUTAGES
        still = [(node, start, end, cause) for node, (start, cause) in self.repair.since.items()]
        shift = self.prepared.warmup
        return Outages([
            (node, start - shift, stop - shift, cause)
            for node, start, stop, cause in sorted([*log, *still], key=lambda row: (row[1], row[0]))
            if stop >= shift
        ])  # fmt: skip

    def _job_result(self, job: Job, end: float) -> JobResult:
        """Close the account of a job and return what became of it."""
        warmup = self.prepared.warmup
        stop = end if np.isnan(job.end) else job.end
        requested = job.gpus * max(stop - job.arrival, 0.0)
        job.account.close(requested, f"job '{job.name}'", buckets=len(JOB_BUCKETS))
        return JobResult(
            name=job.name,
            gpus=job.gpus,
            requested=requested,
            totals=job.account.totals(),
            work=job.work - job.account.wrong,
            at_risk=job.state.at_risk,
            running=job.running_seconds,
            node_seconds=job.node_seconds,
            latencies=dict(job.latencies),
            excess=job.excess,
            arrival=job.arrival - warmup,
            start=job.start - warmup,
            end=stop - warmup,
            finished=job.finished,
            censored=not job.finished and job.target < np.inf,
            interruptions=dict(job.interruptions),
            disruptions=dict(job.disruptions),
            merged=job.merged,
            steps=self.jobs.steps.done(job) * (1.0 - job.account.wrong / max(job.work, 1e-100)),
            restores=dict(job.restores),
            accepted=job.accepted,
            given_up=job.given_up - warmup,
            given_up_for=job.main.cause if job.given_up < np.inf else 0,
        )

    def _result(self) -> Result:
        """Close the ledger and collect what happened."""
        prepared = self.prepared
        end = self.edges[-1]
        owned = prepared.nodes * prepared.gpus_per_node * (end - prepared.warmup)
        jobs = tuple(self._job_result(job, end) for job in self.jobs.all)
        outside = self.outside.totals()
        allocated = np.zeros(outside.shape[1])
        for job, summary in zip(self.jobs.all, jobs, strict=True):
            allocated += summary.totals.sum(axis=(0, 2)) - np.asarray(job.account.absent)
        units = len(prepared.units.nodes) if prepared.units is not None else 0
        fleet, cluster = self.queue.result(end, allocated)
        return Result(
            replication=self.replication,
            edges=np.asarray(self.edges) - prepared.warmup,
            owned=owned,
            capacity=owned * prepared.capacity,
            jobs=jobs,
            cluster=cluster,
            outside=outside,
            node_seconds=prepared.serving * (end - prepared.warmup),
            down_node_seconds=self.down_node_seconds,
            unit_seconds=units * (end - prepared.warmup),
            whole_unit_seconds=self.cluster.units_whole.collect(end),
            counts=self._counts(),
            repairs={cause: number for cause, number in enumerate(self.repair.begun) if number},
            parts={shelf.name: shelf.collect(end) for shelf in self.repair.shelves},
            down_times=dict(self.cluster.down_times),
            unit_down_times={
                units - whole: seconds for whole, seconds in self.cluster.units_whole.times.items() if units
            },
            outages=self._outages(end),
            timeline=self.recorder.timeline() if self.recorder is not None else None,
            fleet=fleet,
            attempts=self.queue.attempts(),
            events=self.events,
            drawn=self.power.drawn if self.power is not None and not prepared.has_queue else None,
        )


def simulate(
    prepared: Prepared, replication: int, trace: FailureTrace, *, keeps_log: bool = False, keeps_timeline: bool = False
) -> Result:
    """Run one replication on a trace.

    With `keeps_log` the result says when each node was down and each job of a stream ran, with `keeps_timeline` in
    which phase each group was when.
    """
    return Simulation(prepared, replication, trace, keeps_log=keeps_log, keeps_timeline=keeps_timeline).run()
