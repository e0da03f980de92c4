"""What a fleet of jobs came to: GPU-seconds by account, sums over jobs, stops by root cause, levels over time.

Everything is a sum by account and window: memory grows with the accounts, never with the jobs, and results of windows
and of replications add up.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ettrick.sim.engine.ledger import check_sum
from ettrick.sim.policies.contracts import JOB_BUCKETS, NO_FAILURE, Bucket

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from typing import TypeVar

    from numpy.typing import NDArray

    Key = TypeVar("Key", bound=Hashable)
    FloatArray = NDArray[np.float64]


class FleetAccount(NamedTuple):
    """Whose GPU-seconds: a stream, a size class (`size_class`), a tenant, a priority and a partition; -1 for none.

    In place of a stream, service k has -2 - k, and named job k has `NAMED` + k.
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
"""Why healthy GPUs are `unallocated`: the causes of that bucket."""

DIRECT, PREEMPTION = 0, 1
"""`via` of a row: what struck the job itself, and what reached it because another job took its nodes."""

OUTCOMES = ("completed", "failed", "cancelled", "timeout", "node_fail", "preempted", "running", "waiting")
"""What became of a job; the last two are unfinished at the end."""

_OF_ALL = ("run", "failures", "preemptions", "requested", "queued", "useful", "ettr_above_90")

_WEIGHTED = (
    "submitted", "started", "ended", "completed", "wait_first", "wait_total", "bounded_slowdown",
    "bounded_slowdown_10min", "jct",
)  # fmt: skip

JOB_SUMS = (*_OF_ALL, *(f"{name}_{weight}" for name in _WEIGHTED for weight in ("job", "gpu_time")))
"""Sums over the jobs that were submitted in a window: seconds, numbers and GPU-seconds, and then what ends in ``_job``,
where every job counts as one, beside the same in ``_gpu_time``, where it counts by the GPU-seconds that it held.

A first wait is of those that ``started``, a total wait and a slowdown of those that ``ended`` after a start, JCT of
those that ``completed``. Jobs that run or wait at the horizon have not ended."""

_SUM = {name: place for place, name in enumerate(JOB_SUMS)}

_PAIR = {name: _SUM[f"{name}_job"] for name in _WEIGHTED}

HISTOGRAMS = ("wait_first", "wait_total", "jct", "bounded_slowdown")
"""Of what there are histograms, by job and by GPU-time."""

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

_GOOD_ETTR = 0.9


_WINDOWS = 120


def window_width(horizon: float, width: float | None = None) -> float:
    """Return the width of the windows of a tally [s]: as stated, the horizon at most, or a share of it."""
    return horizon / _WINDOWS if width is None else min(width, horizon)


def window_edges(warmup: float, horizon: float, width: float | None = None) -> list[float]:
    """Return the edges of the windows of a tally [s]: of some width, or as many as make batches and a picture."""
    count = _WINDOWS if width is None else max(math.ceil(horizon / width * (1 - 1e-12)), 1)
    step = window_width(horizon, width)
    return [*(warmup + step * place for place in range(count)), warmup + horizon]


def causes_of(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the root causes, by the index that rows of the ledger have."""
    return (NO_FAILURE, *sources, *ROOTS)


def size_class(gpus: int) -> int:
    """Return the size class of a job: the power of two at or below its GPUs."""
    return 1 << (gpus.bit_length() - 1)


def bin_of(value: float) -> int:
    """Return the bin of a value in `BIN_EDGES`."""
    if value <= 2.0**_ZERO:
        return 0
    return min(int((math.log2(value) - _ZERO) * _PER_OCTAVE) + 1, _PER_OCTAVE * _OCTAVES)


class LedgerKey(NamedTuple):
    """A row of the ledger; `cause` is one of `causes_of`, of unallocated GPUs one of `IDLE`."""

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
        found = np.zeros(len(JOB_BUCKETS))
        for key, row in self.ledger.items():
            if 0 <= key.account.stream < NAMED:
                found[key.bucket] += float(row.sum())
        return found

    @property
    def cluster(self) -> FloatArray:
        """GPU-seconds of the whole cluster by bucket, shape (buckets,)."""
        found = np.zeros(len(Bucket))
        for key, row in self.ledger.items():
            if key.bucket != Bucket.QUEUED:
                found[key.bucket] += float(row.sum())
        return found

    @property
    def allocated(self) -> FloatArray:
        """GPU-seconds of jobs and services by window, shape (windows,)."""
        rows = (row for key, row in self.ledger.items() if key.account != CLUSTER and key.bucket != Bucket.QUEUED)
        return sum(rows, np.zeros(len(self.seconds)))

    @property
    def healthy(self) -> FloatArray:
        """GPU-seconds of nodes that are not out of service, those of jobs included, by window, shape (windows,)."""
        out = (row for key, row in self.ledger.items() if key.account == CLUSTER and key.bucket in _OUT_OF_SERVICE)
        return self.owned - sum(out, np.zeros(len(self.seconds)))

    def level(self, name: str) -> FloatArray:
        """Return an integral over time by window, shape (windows,)."""
        return self.levels[:, LEVELS.index(name)]

    def service_sum(self, service: int, name: str) -> FloatArray:
        """Return a sum over the requests of a service by window, shape (windows,)."""
        return self.services[service][:, SERVICE_SUMS.index(name)]

    def job_sum(self, name: str, accounts: Iterable[FleetAccount] | None = None) -> FloatArray:
        """Return a sum over jobs by the window of their submission, of all accounts or of some, shape (windows,)."""
        chosen = self.jobs if accounts is None else accounts
        return sum(
            (self.jobs[each][:, _SUM[name]] for each in chosen if each in self.jobs), np.zeros(len(self.seconds))
        )

    def histogram(self, name: str, weight: Literal["job", "gpu_time"], accounts: Iterable[FleetAccount]) -> FloatArray:
        """Return how many jobs, or GPU-seconds of them, are in each bin, shape (bins,)."""
        row = ("job", "gpu_time").index(weight)
        found = [self.histograms[each, name][row] for each in accounts if (each, name) in self.histograms]
        return sum(found, np.zeros(len(BIN_EDGES)))


NO_FLEET = FleetResult(np.zeros(1), np.zeros(0), 0, (), {}, {}, {}, {}, {}, np.zeros((0, len(LEVELS))), {}, {}, 0)
"""The fleet of a scenario without streams and services: no window, no account."""


def added(results: Iterable[FleetResult]) -> FleetResult:
    """Return results of the same windows, added up; one of no fleet adds nothing.

    Raises
    ------
    ValueError
        If their windows are not the same.
    """
    every = [result for result in results if result.replications]
    if not every:
        return NO_FLEET
    first = every[0]
    if any(not np.array_equal(first.edges, result.edges) for result in every):
        raise ValueError("results of different windows do not add up")
    return FleetResult(
        first.edges,
        np.sum([each.seconds for each in every], axis=0),
        first.gpus,
        first.causes,
        _added([each.ledger for each in every]),
        _added([each.jobs for each in every]),
        _added([each.histograms for each in every]),
        _added([each.outcomes for each in every]),
        _added([each.stops for each in every]),
        np.sum([each.levels for each in every], axis=0),
        {key: max(each.longest.get(key, 0.0) for each in every) for each in every for key in each.longest},
        _added([each.services for each in every]),
        sum(each.replications for each in every),
    )


def _added(tables: Iterable[Mapping[Key, FloatArray]]) -> dict[Key, FloatArray]:
    found: dict[Key, FloatArray] = {}
    for table in tables:
        for key, value in table.items():
            found[key] = found[key] + value if key in found else value
    return found


@dataclass
class FleetAccumulator:
    """Adds up what the jobs of a fleet do in one replication.

    The engine says each thing once, in its own time [s]; what is before the first edge or behind the last one is
    left out, and so are jobs that were submitted there.

    Parameters
    ----------
    edges
        Edges of the windows in the time of the engine [s]; the first is the end of the warm-up.
    gpus
        GPUs of the cluster.
    sources
        Names of the failure sources.
    """

    edges: Sequence[float]
    gpus: int
    sources: Sequence[str]
    accounts: list[FleetAccount] = field(default_factory=lambda: [CLUSTER])
    _places: dict[FleetAccount, int] = field(default_factory=lambda: {CLUSTER: 0})
    _ledger: dict[tuple[int, int, int, int], list[float]] = field(default_factory=dict)
    _jobs: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    _histograms: dict[tuple[int, str], list[list[float]]] = field(default_factory=dict)
    _outcomes: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    _stops: dict[tuple[int, int, int, int], list[list[float]]] = field(default_factory=dict)
    _longest: dict[int, float] = field(default_factory=dict)
    _levels: list[list[float]] = field(default_factory=list)
    _services: dict[int, list[list[float]]] = field(default_factory=dict)
    _state: tuple[float, ...] = (0.0,) * len(LEVELS)
    _since: float = 0.0

    def __post_init__(self) -> None:
        """Take the first edges as the window that is open."""
        self.edges = list(self.edges)
        self._levels = [[0.0] * len(LEVELS) for _ in self.edges[1:]]

    def account(self, stream: int, size: int, tenant: int = 0, priority: float = 0, partition: int = 0) -> int:
        """Return the number of an account, a new one if it has none yet; `size` is a `size_class`."""
        key = FleetAccount(stream, size, tenant, priority, partition)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.accounts)
            self.accounts.append(key)
        return place

    def charge(self, account: int, bucket: int, cause: int, via: int, gpu_s: float, start: float, end: float) -> None:
        """Charge GPU-seconds that were spent evenly from `start` to `end` [s]; all at once where these are the same."""
        row = self._ledger.get((account, bucket, cause, via))
        if row is None:
            row = self._ledger[account, bucket, cause, via] = [0.0] * (len(self.edges) - 1)
        edges = self.edges
        if len(row) == 1 and edges[0] <= start and end <= edges[1]:
            row[0] += gpu_s
            return
        place = bisect_right(edges, start) - 1
        if start >= edges[0] and (place + 1 == len(edges) or end <= edges[place + 1]):
            if place + 1 < len(edges):
                row[place] += gpu_s
            return
        rate = gpu_s / (end - start) if end > start else 0.0
        place = max(place, 0)
        while place < len(row) and edges[place] < end:
            row[place] += rate * max(min(end, edges[place + 1]) - max(start, edges[place]), 0.0)
            place += 1

    def serve(self, service: int, start: float, sums: Sequence[float]) -> None:
        """Add sums over the requests of a service since `start`, all of one window."""
        place = bisect_right(self.edges, start) - 1
        if 0 <= place < len(self.edges) - 1:
            rows = self._services.setdefault(service, [[0.0] * len(SERVICE_SUMS) for _ in self.edges[1:]])
            rows[place] = [mine + more for mine, more in zip(rows[place], sums, strict=True)]

    def correct(self, service: int, asked: float, place: int, amount: float) -> None:
        """Add to one sum over the requests of a service that were asked at a moment."""
        window = bisect_right(self.edges, asked) - 1
        if 0 <= window < len(self.edges) - 1:
            rows = self._services.setdefault(service, [[0.0] * len(SERVICE_SUMS) for _ in self.edges[1:]])
            rows[window][place] += amount

    def idle(self, reason: str, gpu_s: float, start: float, end: float) -> None:
        """Charge healthy GPUs that no job had, with the reason: one of `IDLE`."""
        self.charge(0, Bucket.UNALLOCATED, IDLE.index(reason), DIRECT, gpu_s, start, end)

    def level(
        self, now: float, free: float, queued_gpus: float, queued_jobs: float, placeable: float, stranded: float = 0.0
    ) -> None:
        """Set what is true from now on: GPUs that are free, and asked for; jobs in the queue; largest start.

        `placeable` is the size of the largest job that could start now, `stranded` what is free on shared nodes [GPUs].
        """
        self._settle(now)
        in_need = (free, placeable) if queued_jobs > 0 else (0.0, 0.0)
        self._state = free, queued_gpus, queued_jobs, placeable, *in_need, stranded

    def _settle(self, now: float) -> None:
        """Add the levels since they last changed."""
        edges = self.edges
        start, self._since = self._since, now
        place = max(bisect_right(edges, start) - 1, 0)
        while place + 1 < len(edges) and edges[place] < now:
            seconds = min(now, edges[place + 1]) - max(start, edges[place])
            if seconds > 0:
                sums = self._levels[place]
                for index, value in enumerate(self._state):
                    if value:
                        sums[index] += value * seconds
            place += 1

    def stopped(
        self,
        account: int,
        now: float,
        cause: int,
        via: int,
        gpus: float,
        lost: float = 0.0,
        by: int = -1,
        *,
        stops: int = 1,
    ) -> None:
        """Count a stop of a running job: its root cause, its GPUs, what work it lost [GPU s].

        A failure, a drain or a limit stops a job ``DIRECT``; a job that takes its nodes, via ``PREEMPTION``, and `by`
        is that one's size class. Without `stops` it is the lost work of one that was counted before.
        """
        place = bisect_right(self.edges, now) - 1
        if not 0 <= place < len(self.edges) - 1:
            return
        rows = self._stops.get((account, cause, via, by))
        if rows is None:
            rows = self._stops[account, cause, via, by] = [[0.0, 0.0, 0.0] for _ in self.edges[1:]]
        row = rows[place]
        row[0] += stops
        row[1] += gpus
        row[2] += lost

    def ended(
        self,
        account: int,
        outcome: str,
        submit: float,
        start: float,
        end: float,
        gpus: int,
        waited: float,
        run: float,
        useful: float,
        failures: int = 0,
        preemptions: int = 0,
    ) -> None:
        """Count a job that is over, or is closed at the end of the simulation.

        Parameters
        ----------
        account, outcome
            Whose job, and one of `OUTCOMES`.
        submit, start, end
            First submission, first start (NaN if there was none), end [s].
        gpus
            GPUs that it requested.
        waited, run
            Time in the queue, requeues included, and time with its nodes [s].
        useful
            Of that, stepping whose result was kept [s].
        failures, preemptions
            How often infrastructure stopped it, and how often another job did.
        """
        window = bisect_right(self.edges, submit) - 1
        if not 0 <= window < len(self.edges) - 1:
            return
        sums = self._jobs.get((account, window))
        if sums is None:
            sums = self._jobs[account, window] = [0.0] * len(JOB_SUMS)
        if waited > self._longest.get(account, -1.0):
            self._longest[account] = waited
        held = gpus * run
        span = max(end - submit, 0.0)
        own = (run, failures, preemptions, gpus * span, gpus * waited, gpus * useful)
        for index, value in enumerate(own):
            sums[index] += value
        if span > 0 and useful >= _GOOD_ETTR * span:
            sums[len(own)] += held
        status = self._outcomes.setdefault((account, OUTCOMES.index(outcome)), [0.0, 0.0])
        status[0] += 1.0
        status[1] += held
        known = {"submitted": 1.0}
        if start == start:  # what never started has no wait yet
            known |= {"started": 1.0, "wait_first": start - submit}
            if outcome not in ("running", "waiting"):
                short, long = (max(1.0, (waited + run) / max(run, tau)) for tau in SLOWDOWN_TAUS)
                known |= {"ended": 1.0, "wait_total": waited}
                known |= {"bounded_slowdown": short, "bounded_slowdown_10min": long}
            if outcome == "completed":
                known |= {"completed": 1.0, "jct": span}
        for name, value in known.items():
            index = _PAIR[name]
            sums[index] += value
            sums[index + 1] += held * value
            if name in HISTOGRAMS:
                self._note(account, name, value, held)

    def _note(self, account: int, name: str, value: float, weight: float) -> None:
        rows = self._histograms.get((account, name))
        if rows is None:
            rows = self._histograms[account, name] = [[0.0] * len(BIN_EDGES) for _ in range(2)]
        place = bin_of(value)
        rows[0][place] += 1.0
        rows[1][place] += weight

    def result(self, now: float) -> FleetResult:
        """Return what has been added up until the end of the simulation [s]; every job is closed.

        Raises
        ------
        LedgerError
            If the ledger does not add up to all GPU-seconds of the cluster.
        """
        self._settle(now)
        edges = np.array(self.edges)
        seconds = np.clip(now - edges[:-1], 0.0, np.diff(edges))
        ledger = {
            LedgerKey(self.accounts[account], bucket, cause, via): np.array(row)
            for (account, bucket, cause, via), row in self._ledger.items()
        }
        held = math.fsum(float(row.sum()) for key, row in ledger.items() if key.bucket != Bucket.QUEUED)
        check_sum(held, self.gpus * float(seconds.sum()), "the fleet")
        jobs: dict[FleetAccount, FloatArray] = {}
        for (account, window), sums in self._jobs.items():
            table = jobs.setdefault(self.accounts[account], np.zeros((len(seconds), len(JOB_SUMS))))
            table[window] = sums
        return FleetResult(
            edges - edges[0],
            seconds,
            self.gpus,
            causes_of(self.sources),
            ledger,
            jobs,
            {(self.accounts[account], name): np.array(rows) for (account, name), rows in self._histograms.items()},
            {(self.accounts[account], outcome): np.array(row) for (account, outcome), row in self._outcomes.items()},
            {
                StopKey(self.accounts[account], cause, via, by): np.array(rows)
                for (account, cause, via, by), rows in self._stops.items()
            },
            np.array(self._levels),
            {self.accounts[account]: waited for account, waited in self._longest.items()},
            {service: np.array(rows) for service, rows in self._services.items()},
        )
