"""What one replication came to: amounts only, so that ratios can be formed from sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.engine.fleet_result import NO_FLEET, FleetResult
from ettrick.sim.policies.contracts import JOB_BUCKETS, SCHEDULING, Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ettrick.sim.engine.job import Job, ReplicaGroup
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.engine.power import EnergyMeter


class Outage(NamedTuple):
    """A stretch of time in which a node was down [s after the warm-up]; `cause` as in the tables, 1 for source 0."""

    node: int
    start: float
    end: float
    cause: int


class Attempt(NamedTuple):
    """A job of a stream from when it got its nodes to when it had them no more [s after the warm-up].

    Parameters
    ----------
    stream, job
        Index of the stream, and number of the job in it.
    submit
        When it was first submitted [s].
    state
        One of `ettrick.sim.engine.fleet_result.OUTCOMES`: how it ended, or ``node_fail`` or ``preempted`` if it queues
        again.
    cause, via
        Root cause that stopped it, as in the tables, and whether that was direct (0) or another job (1).
    lost
        Work that stops undid in that time, those that it went on from in place included [s].
    nodes
        Numbers of the nodes that it began with; then those that it had after each change, in order.
    """

    stream: int
    job: int
    gpus: int
    submit: float
    start: float
    end: float
    state: str
    cause: int = 0
    via: int = 0
    lost: float = 0.0
    nodes: tuple[tuple[int, ...], ...] = ()


class Ratio(NamedTuple):
    """A metric as an amount over a base; over several jobs or replications both are summed.

    Parameters
    ----------
    doubt
        How far the amount may be off, at 95 %, by an error that all replications share: more of them do not shrink it.
    """

    amount: float
    base: float
    doubt: float = 0.0


@dataclass(frozen=True)
class JobResult:
    """One job in one replication.

    Parameters
    ----------
    requested
        GPU-time from arrival to end [GPU s].
    totals
        GPU-seconds of shape (windows, buckets, causes); cause 0 is "no failure", cause i + 1 is source i.
    work
        Healthy seconds of work that survived [s], `at_risk` of them not durable.
    running
        Time in which the main group stepped or saved [s].
    arrival, start, end
        Times after the warm-up [s]; `start` is NaN if the job never got its nodes.
    censored
        Whether a fixed amount of work was unfinished at the horizon.
    interruptions, disruptions
        Failures that hit the job, and those that took it out of RUNNING, by index of the cause.
    merged
        Interruptions that fell into an open incident.
    steps
        Optimizer steps that survived [-]; 0 without a step time.
    node_seconds
        Time of the nodes that stepped or saved in the main group [node s].
    latencies
        Drawn detection times of the disruptions together, by index of the cause [s].
    excess
        By how much the drawn times of restarts were above the means of their laws, all together [s].
    restores
        How often it returned from each store.
    accepted
        Faults of which wrong work has stayed, because no copy from before them was left.
    given_up, given_up_for
        When it failed for good, and the index of the cause; infinite if it did not [s].
    """

    name: str
    gpus: int
    requested: float
    totals: NDArray[np.float64]
    work: float
    at_risk: float
    running: float
    arrival: float
    start: float
    end: float
    finished: bool
    censored: bool
    interruptions: Mapping[int, int]
    disruptions: Mapping[int, int]
    merged: int
    steps: float = 0.0
    node_seconds: float = 0.0
    latencies: Mapping[int, float] = field(default_factory=dict)
    excess: float = 0.0
    restores: Mapping[str, int] = field(default_factory=dict)
    accepted: int = 0
    given_up: float = math.inf
    given_up_for: int = 0

    @property
    def buckets(self) -> NDArray[np.float64]:
        """GPU-seconds by bucket of a job, shape (14,)."""
        sums: NDArray[np.float64] = self.totals.sum(axis=(0, 2))[: len(JOB_BUCKETS)]
        return sums

    @property
    def waiting_for_nodes(self) -> float:
        """GPU-seconds in the buckets of scheduling [GPU s]."""
        return float(self.buckets[list(SCHEDULING)].sum())

    @property
    def elapsed(self) -> float:
        """Time from the first start to the end [s]; 0 if there was no start."""
        return 0.0 if np.isnan(self.start) else self.end - self.start


class PartUse(NamedTuple):
    """What became of a stock of parts: asked for, not on the shelf then, bought [-]; nodes that waited, shelf [s]."""

    asked: int
    waited: int
    bought: int
    node_seconds: float
    part_seconds: float


@dataclass(frozen=True)
class Result:
    """One replication.

    Parameters
    ----------
    edges
        Edges of the windows after the warm-up [s], shape (windows + 1,).
    owned
        All GPU-time of the cluster in the accounting window [GPU s].
    capacity
        The same, where a GPU counts by its peak relative to that of the first pool of hosts [GPU s].
    cluster
        GPU-seconds of the whole cluster by bucket, shape (buckets,).
    outside
        GPU-seconds of nodes outside jobs, shape (windows, buckets, causes).
    node_seconds, down_node_seconds
        All node time and the part of it in which the node was down [node s].
    unit_seconds, whole_unit_seconds
        All time of the units that are used as wholes, and the part of it in which they were of use [unit s]; 0 without
        such units.
    counts
        Candidates, faults and failures by what became of them.
    repairs
        Repairs that began in the accounting window, by index of the cause. What strikes a node that is out begins none.
    events
        Events of the kernel.
    down_times, unit_down_times
        For how long how many nodes were down, and how many units that are used as wholes were not of use [s].
    parts
        What became of each stock of parts, in the accounting window.
    outages
        When each node was down, if that was asked for.
    timeline
        In which phase each group was when, if that was asked for.
    fleet
        What the streams of jobs came to; ``None`` without any.
    attempts
        When each job of a stream had its nodes, by end, if that was asked for.
    drawn
        What was drawn, where that means different things at different times; else it follows from `cluster`.
    """

    replication: int
    edges: NDArray[np.float64]
    owned: float
    capacity: float
    jobs: tuple[JobResult, ...]
    cluster: NDArray[np.float64]
    outside: NDArray[np.float64]
    node_seconds: float
    down_node_seconds: float
    counts: Mapping[str, int]
    events: int
    unit_seconds: float = 0.0
    whole_unit_seconds: float = 0.0
    repairs: Mapping[int, int] = field(default_factory=dict)
    down_times: Mapping[int, float] = field(default_factory=dict)
    unit_down_times: Mapping[int, float] = field(default_factory=dict)
    parts: Mapping[str, PartUse] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()
    timeline: Timeline | None = None
    fleet: FleetResult = NO_FLEET
    attempts: tuple[Attempt, ...] = ()
    drawn: EnergyMeter | None = None


# ----------------------------------------
# What one replication did and when: phases of jobs, what happened, and how far the work got.


class PhaseSpan(NamedTuple):
    """A phase of a group of replicas.

    Parameters
    ----------
    job
        Index of the job.
    group
        0 for the replicas that step in lockstep; for one that is away, 1 + its number.
    bucket
        Bucket that the time was charged to when it passed. Stepping is ``PRODUCTIVE``, or ``DEGRADED`` below the
        healthy pace, with saves and periodic work in it; it stays so when a rollback takes its work away.
    start, end
        Times after the warm-up [s].
    cause
        Cause that the time is charged to: 0 for none, i + 1 for source i.
    name
        What the group does, where the bucket says too little.
    """

    job: int
    group: int
    bucket: int
    start: float
    end: float
    cause: int
    name: str = ""


class InstantEvent(NamedTuple):
    """Something that happened at one time [s after the warm-up]; `job` and `node` are -1 where there is none."""

    time: float
    kind: str
    job: int = -1
    node: int = -1
    cause: int = 0
    text: str = ""


class Milestone(NamedTuple):
    """How much work of a job survives at a time [s after the warm-up, healthy s]; a rollback takes some away."""

    time: float
    job: int
    work: float


class Timeline(NamedTuple):
    """One replication: spans by job, group and time (those of a group do not overlap), the rest by time."""

    spans: tuple[PhaseSpan, ...] = ()
    marks: tuple[InstantEvent, ...] = ()
    milestones: tuple[Milestone, ...] = ()


# ----------------------------------------
# What happened when: the spans and marks of one replication, for those who want to look at it.


class Recorder:
    """Writes down in which phase each group was; stretches that follow on one another become one."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        """Length of the warm-up, from whose end times are counted [s]."""
        self.spans: list[PhaseSpan] = []
        self.marks: list[InstantEvent] = []
        self.milestones: list[Milestone] = []
        self.last: dict[tuple[int, int], int] = {}

    def span(self, group: ReplicaGroup, bucket: int, start: float, end: float, cause: int, name: str = "") -> None:
        """Note that a group was in a phase."""
        job = group.job
        number = 0 if group is job.main else 1 + group.first // job.nodes_per_replica
        key = (job.index, number)
        start, end = start - self.shift, end - self.shift
        index = self.last.get(key, -1)
        if index >= 0:
            before = self.spans[index]
            if before.end == start and (before.bucket, before.cause, before.name) == (bucket, cause, name):
                self.spans[index] = before._replace(end=end)
                return
        self.last[key] = len(self.spans)
        self.spans.append(PhaseSpan(job.index, number, bucket, start, end, cause, name))

    def stepping(self, group: ReplicaGroup, start: float, end: float) -> None:
        """Note that a group stepped, its saves and periodic work included."""
        job = group.job
        if job.speed < 1.0 or job.fraction < 1.0:
            cause = job.slow_cause if job.speed < 1.0 else group.cause
            self.span(group, Bucket.DEGRADED, start, end, cause)
        else:
            away = job.replicas - job.main.replicas
            name = f"step without {away} of {job.replicas} replicas" if away else ""
            self.span(group, Bucket.PRODUCTIVE, start, end, group.cause if away else 0, name)

    def failure(self, time: float, job: Job, failure: FailureEvent) -> None:
        """Note that a failure hit a job."""
        info = failure.info
        mark = InstantEvent(time - self.shift, "failure", job.index, cause=info.cause, text=info.source.name)
        self.marks.append(mark)

    def progress(self, time: float, job: Job) -> None:
        """Note how much of the work of a job survives."""
        self.milestones.append(Milestone(time - self.shift, job.index, job.work))

    def timeline(self) -> Timeline:
        """Return everything."""
        spans = sorted(self.spans, key=lambda span: (span.job, span.group, span.start))
        return Timeline(tuple(spans), tuple(self.marks), tuple(self.milestones))
