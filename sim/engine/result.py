"""The results of a replication: amounts only, so that ratios can be formed from sums.

:class:`JobResult` is of a named job, :class:`FleetResult` of streams, services and the nodes outside them: sums by
account and window, so that memory grows with the accounts, never with the jobs, and results of windows and of
replications add up. :class:`Result` has both, and a :class:`Timeline` if that was asked for.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick.sim.policies.contracts import JOB_BUCKETS, SCHEDULING, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from typing import TypeVar

    from numpy.typing import NDArray

    Key = TypeVar("Key", bound=Hashable)
    Row = TypeVar("Row")
    FloatArray = NDArray[np.float64]


class FleetAccount(NamedTuple):
    """Whose GPU-seconds: a stream, a size class (`size_class`), a tenant, a priority and a partition; -1 for none.

    Instead of a stream, service k has -2 - k, and named job k has `NAMED` + k.
    """

    stream: int
    size: int
    tenant: int = 0
    priority: float = 0
    partition: int = 0


NAMED = 1 << 32

CLUSTER = FleetAccount(-1, -1, -1, -1, -1)
"""Nodes outside workloads; it is account 0 of every tally."""

ROOTS = ("drain", "demand", "reclaim", "limit")
"""Root causes behind `NO_FAILURE` and the failure sources: a node is drained, a job of a higher class arrived, a tenant
takes back what it lent, the time limit of a job was over."""

IDLE = ("no_queue", "too_few", "wrong_places", "reservation", "claim", "quota", "drain", "exempt")
"""The causes of `unallocated` healthy GPUs."""

DIRECT, PREEMPTION = 0, 1
"""`via` of a row: what struck the job itself, and what reached it because another job took its nodes."""

OUTCOMES = ("completed", "failed", "cancelled", "timeout", "node_fail", "preempted", "running", "waiting")
"""The outcomes of a job; the last two are unfinished at the end."""

_OF_ALL = ("run", "failures", "preemptions", "requested", "queued", "useful", "ettr_above_90")

_WEIGHTED = (
    "submitted", "started", "ended", "completed", "wait_first", "wait_total", "bounded_slowdown",
    "bounded_slowdown_10min", "jct",
)  # fmt: skip

JOB_SUMS = (*_OF_ALL, *(f"{name}_{weight}" for name in _WEIGHTED for weight in ("job", "gpu_time")))
"""Sums over the jobs that were submitted in a window: seconds, numbers and GPU-seconds, and then what ends in ``_job``,
where every job counts as one, next to the same in ``_gpu_time``, where it counts by the GPU-seconds that it held.

A first wait is of those that ``started``, a total wait and a slowdown of those that ``ended`` after a start, JCT of
those that ``completed``. Jobs that run or wait at the horizon have not ended."""

JOB_SUM = {name: index for index, name in enumerate(JOB_SUMS)}

HISTOGRAMS = ("wait_first", "wait_total", "jct", "bounded_slowdown")
"""The quantities with histograms, by job and by GPU-time."""

_PER_OCTAVE, _OCTAVES, _ZERO = 8, 40, -10

BIN_EDGES: FloatArray = np.concatenate(([0.0], 2.0 ** (_ZERO + np.arange(_PER_OCTAVE * _OCTAVES + 1) / _PER_OCTAVE)))
"""Edges of the bins of the histograms: the first holds what is below a millisecond, eight follow for each doubling."""

LEVELS = (
    "free", "queued_gpus", "queued_jobs", "placeable", "free_in_need", "placeable_in_need", "stranded",
)  # fmt: skip
"""Integrals over time of: free GPUs, GPUs and jobs in the queue, the largest job that could start; of free GPUs and
that largest job while a job waits; and of free GPUs of shared nodes [GPU s or job s]."""

SERVICE_SUMS = (
    "seconds", "offered", "served", "in_slo", "rejected", "failed", "moved", "in_flight", "tokens_lost", "recomputed",
    "capacity", "below", "waited", "user", "replicas", "wanted", "full", "stops", "busy", "idle", "wasted", "waiting",
    "unsure",
)  # fmt: skip
"""Sums over the requests of a service by window: that in which they were asked, of all else that in which it happened.

Requests: ``offered``; ``served``, ``in_slo``, ``rejected`` or given up, ``failed`` with their replica, ``moved`` to
another one, ``waiting`` at the end; ``in_flight`` when replicas stopped; ``capacity`` over time. ``tokens_lost``: made,
and lost. Over time ``waited`` of the backlog, ``replicas`` that serve and are ``wanted``, ``user`` of time per token
times tokens [s]. Time of replicas that was ``recomputed``, time ``below`` the demand and that with all replicas
(``full``) [s]. ``stops`` of gangs. GPU-seconds that were ``busy`` and ``idle``. Requests in vain (``wasted``). By how
many ``in_slo`` may be off, at 95 %, because a replay has only so many requests (``unsure``)."""

_OUT_OF_SERVICE = (Bucket.REPAIR, Bucket.QUALIFICATION, Bucket.MAINTENANCE)
"""Buckets of nodes outside jobs that are not in working order."""

SLOWDOWN_TAUS = (10.0, 600.0)
"""Shortest run times that bounded slowdown takes a wait in proportion to [s]."""

_WINDOWS = 120


def window_width(horizon: float, width: float | None = None) -> float:
    """Return the width of the windows of a tally [s]: as stated, the horizon at most, or a share of it."""
    return horizon / _WINDOWS if width is None else min(width, horizon)


def window_edges(warmup: float, horizon: float, width: float | None = None) -> list[float]:
    """Return the edges of the windows of a tally [s]: of some width, or as many as make batches and a picture."""
    count = _WINDOWS if width is None else max(math.ceil(horizon / width * (1 - 1e-12)), 1)
    step = window_width(horizon, width)
    return [*(warmup + step * place for place in range(count)), warmup + horizon]


def size_class(gpus: int) -> int:
    """Return the size class of a job: the power of two at or below its GPUs."""
    return 1 << (gpus.bit_length() - 1)


def bin_of(value: float) -> int:
    """Return the bin of a value in `BIN_EDGES`."""
    if value <= 2.0**_ZERO:
        return 0
    return min(int((math.log2(value) - _ZERO) * _PER_OCTAVE) + 1, _PER_OCTAVE * _OCTAVES)


class LedgerKey(NamedTuple):
    """A row of the ledger; `cause` is one of `FleetResult.causes`, of unallocated GPUs one of `IDLE`."""

    account: FleetAccount
    bucket: int
    cause: int
    via: int


class StopKey(NamedTuple):
    """Jobs of an account that were stopped: by what, and of a preemption, for a job of which size class (`by`)."""

    account: FleetAccount
    cause: int
    via: int
    by: int


@dataclass(frozen=True)
class FleetResult:
    """A fleet in one replication, or in several together.

    Parameters
    ----------
    edges
        Edges of the windows after the warm-up [s], shape (windows + 1,).
    seconds
        Time that was simulated of each window [s], shape (windows,).
    gpus
        GPUs of the cluster.
    causes
        Names of the root causes.
    ledger
        GPU-seconds by window, shape (windows,). They are of allocated GPUs and add up to the cluster, but for
        ``QUEUED``: that is of requested GPUs that were not there.
    jobs
        Sums over the jobs that were submitted in a window, shape (windows, `JOB_SUMS`).
    histograms
        By account and name: how many jobs, and GPU-seconds of them, shape (2, bins).
    outcomes
        By account and index of `OUTCOMES`: jobs and the GPU-seconds that they held.
    longest
        By account, the longest time in the queue of a job, over or not [s].
    stops
        Stops, the GPUs of the stopped jobs, and the GPU-seconds of work that they lost; by window, shape (windows, 3).
    levels
        Integrals over time, shape (windows, `LEVELS`).
    services
        By index of the service: sums over its requests, shape (windows, `SERVICE_SUMS`).
    replications
        How many were added up.
    """

    edges: FloatArray
    seconds: FloatArray
    gpus: int
    causes: tuple[str, ...]
    ledger: Mapping[LedgerKey, FloatArray]
    jobs: Mapping[FleetAccount, FloatArray]
    histograms: Mapping[tuple[FleetAccount, str], FloatArray]
    outcomes: Mapping[tuple[FleetAccount, int], FloatArray]
    stops: Mapping[StopKey, FloatArray]
    levels: FloatArray
    longest: Mapping[FleetAccount, float]
    services: Mapping[int, FloatArray] = field(default_factory=dict)
    replications: int = 1

    @property
    def owned(self) -> FloatArray:
        """All GPU-time of the cluster by window [GPU s], shape (windows,)."""
        return self.seconds * self.gpus

    @property
    def buckets(self) -> FloatArray:
        """GPU-seconds of the jobs of streams by bucket of a job, shape (buckets,)."""
        return self._by_bucket(lambda key: 0 <= key.account.stream < NAMED)[: len(JOB_BUCKETS)]

    @property
    def cluster(self) -> FloatArray:
        """GPU-seconds of the whole cluster by bucket, shape (buckets,)."""
        return self._by_bucket(lambda key: key.bucket != Bucket.QUEUED)

    def _by_bucket(self, counts: Callable[[LedgerKey], bool]) -> FloatArray:
        """Return the sums of the rows that count, shape (buckets,)."""
        sums = np.zeros(len(Bucket))
        for key, row in self.ledger.items():
            if counts(key):
                sums[key.bucket] += float(row.sum())
        return sums

    @property
    def allocated(self) -> FloatArray:
        """GPU-seconds of jobs and services by window, shape (windows,)."""
        return self._sum(
            row for key, row in self.ledger.items() if key.account != CLUSTER and key.bucket != Bucket.QUEUED
        )

    @property
    def healthy(self) -> FloatArray:
        """GPU-seconds of nodes that are not out of service, those of jobs included, by window, shape (windows,)."""
        return self.owned - self._sum(
            row for key, row in self.ledger.items() if key.account == CLUSTER and key.bucket in _OUT_OF_SERVICE
        )

    def _sum(self, rows: Iterable[FloatArray]) -> FloatArray:
        return sum(rows, np.zeros(len(self.seconds)))

    def level(self, name: str) -> FloatArray:
        """Return an integral over time by window, shape (windows,)."""
        return self.levels[:, LEVELS.index(name)]

    def service_sum(self, service: int, name: str) -> FloatArray:
        """Return a sum over the requests of a service by window, shape (windows,)."""
        return self.services[service][:, SERVICE_SUMS.index(name)]

    def job_sum(self, name: str, accounts: Iterable[FleetAccount] | None = None) -> FloatArray:
        """Return a sum over jobs by the window of their submission, of all accounts or of some, shape (windows,)."""
        chosen = self.jobs if accounts is None else accounts
        return self._sum(self.jobs[account][:, JOB_SUM[name]] for account in chosen if account in self.jobs)

    def histogram(self, name: str, weight: Literal["job", "gpu_time"], accounts: Iterable[FleetAccount]) -> FloatArray:
        """Return how many jobs, or GPU-seconds of them, are in each bin, shape (bins,)."""
        row = ("job", "gpu_time").index(weight)
        tables = (self.histograms[account, name] for account in accounts if (account, name) in self.histograms)
        return sum((table[row] for table in tables), np.zeros(len(BIN_EDGES)))


NO_FLEET = FleetResult(np.zeros(1), np.zeros(0), 0, (), {}, {}, {}, {}, {}, np.zeros((0, len(LEVELS))), {}, {}, 0)
"""The fleet of a scenario without streams and services: no window, no account."""


def added(results: Iterable[FleetResult]) -> FleetResult:
    """Return results of the same windows, added up; one of no fleet adds nothing.

    Raises
    ------
    ValueError
        If their windows are not the same.
    """
    fleets = [result for result in results if result.replications]
    if not fleets:
        return NO_FLEET
    first = fleets[0]
    if any(not np.array_equal(first.edges, result.edges) for result in fleets):
        raise ValueError("results of different windows do not add up")
    tables: dict[str, Any] = {
        name: _merged([getattr(fleet, name) for fleet in fleets], operator.add) for name in _TABLES
    }
    return replace(
        first,
        seconds=np.sum([fleet.seconds for fleet in fleets], axis=0),
        levels=np.sum([fleet.levels for fleet in fleets], axis=0),
        replications=sum(fleet.replications for fleet in fleets),
        longest=_merged([fleet.longest for fleet in fleets], max),
        **tables,
    )


_TABLES = ("ledger", "jobs", "histograms", "outcomes", "stops", "services")


def _merged(tables: Iterable[Mapping[Key, Row]], merge: Callable[[Row, Row], Row]) -> dict[Key, Row]:
    """Return the rows of several tables, those of one key as one."""
    rows: dict[Key, Row] = {}
    for table in tables:
        for key, row in table.items():
            rows[key] = merge(rows[key], row) if key in rows else row
    return rows


class Outage(NamedTuple):
    """A stretch of time in which a node was down [s after the warm-up]; `cause` as in the tables, 1 for source 0."""

    node: int
    start: float
    end: float
    cause: int


class Outages:
    """Stretches of time in which nodes were down, by their beginning, as columns; each member is an `Outage`."""

    def __init__(self, rows: Iterable[tuple[int, float, float, int]] | NDArray[np.void] = ()) -> None:
        """Take rows, or an array of records of them."""
        kinds = {"node": np.int64, "start": np.float64, "end": np.float64, "cause": np.int64}
        table = rows if isinstance(rows, np.ndarray) else np.array([*rows], [*kinds.items()])
        self.node, self.start, self.end, self.cause = (np.array(table[name]) for name in kinds)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.node)

    def __iter__(self) -> Iterator[Outage]:
        """Yield one after another."""
        return map(Outage._make, zip(*(self.__dict__[name].tolist() for name in Outage._fields), strict=True))


NO_OUTAGES = Outages()


class Attempt(NamedTuple):
    """A job of a stream from when it got its nodes to when it had them no more [s after the warm-up].

    Parameters
    ----------
    stream, job
        Index of the stream, and number of the job in it.
    submit
        When it was first submitted [s].
    state
        One of `OUTCOMES`: how it ended, or ``node_fail`` or ``preempted`` if it queues
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
    """The results of a job in a replication; in those of a block of them numbers are columns (`Result`).

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

    @functools.cached_property
    def buckets(self) -> NDArray[np.float64]:
        """GPU-seconds by bucket of a job, shape (14,)."""
        sums: NDArray[np.float64] = self.totals.sum(axis=(-3, -1))[..., : len(JOB_BUCKETS)]
        return sums

    @property
    def waiting_for_nodes(self) -> float:
        """GPU-seconds in the buckets of scheduling [GPU s]."""
        seconds: float = self.buckets[..., list(SCHEDULING)].sum(axis=-1)
        return seconds

    @property
    def elapsed(self) -> float:
        """Time from the first start to the end [s]; 0 if there was no start."""
        seconds: float = np.fmax(self.end - self.start, 0.0)
        return seconds


class PartUse(NamedTuple):
    """The use of a stock of parts: asked for, not on the shelf then, bought [-]; nodes that waited, shelf [s]."""

    asked: int
    waited: int
    bought: int
    node_seconds: float
    part_seconds: float


class EnergyMeter(NamedTuple):
    """The energy of a replication whose power and price change with time.

    Attributes
    ----------
    nodes : (buckets,) float64
        Energy of the nodes by bucket of the cluster [J].
    carbon
        What the energy of the facility emitted [kg of CO2].
    priced
        That energy, each joule times what then multiplied its price [J].
    """

    nodes: NDArray[np.float64]
    carbon: float
    priced: float


@dataclass(frozen=True)
class Result:
    """The results of a replication, or of a block of them.

    In the results of a block each number is a column, shape (n,), and each table has the replications as its first
    axis. What there is a row of for some of them only, such as a cause, has zeros for the others.

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
    outages: Outages = NO_OUTAGES
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
    """The work of a job that survives at a time [s after the warm-up, healthy s]; a rollback takes some away."""

    time: float
    job: int
    work: float


class Timeline(NamedTuple):
    """The timeline of a replication: spans by job, group and time, without overlap in a group; the rest by time."""

    spans: tuple[PhaseSpan, ...] = ()
    marks: tuple[InstantEvent, ...] = ()
    milestones: tuple[Milestone, ...] = ()
