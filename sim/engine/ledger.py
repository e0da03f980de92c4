"""The account of every GPU-second: buckets x causes x windows, and a sum that must close.

An :class:`Account` is of one named job, or of the nodes outside jobs; a :class:`FleetAccumulator` has those of all that
streams and services share, by owner.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim.engine.result import (
    BIN_EDGES,
    CLUSTER,
    DIRECT,
    HISTOGRAMS,
    IDLE,
    JOB_SUMS,
    LEVELS,
    OUTCOMES,
    ROOTS,
    SERVICE_SUMS,
    SLOWDOWN_TAUS,
    FleetAccount,
    FleetResult,
    LedgerKey,
    StopKey,
    bin_of,
    size_class,
)
from ettrick.sim.policies.contracts import NO_FAILURE, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.result import FloatArray, Key

BUCKETS = len(Bucket)


class LedgerError(AssertionError):
    """The buckets do not add up to the capacity: a defect of the program, never of the input."""


class RiskPiece:
    """A stretch of stepping whose work is not yet durable.

    ``work`` is in healthy seconds [s]; ``degraded`` is GPU time charged to the bucket of that name [GPU s]. Work
    that is known to be wrong, and stays, has the cause ``wrong``; of all other work that is 0.
    """

    __slots__ = ("cause", "degraded", "table", "work", "wrong")

    def __init__(self, work: float, degraded: float, cause: int, table: list[list[float]]) -> None:
        self.work = work
        self.degraded = degraded
        self.cause = cause
        self.table = table
        self.wrong = 0


class Account:
    """GPU-seconds of one job (or of the nodes outside jobs) by bucket and cause, one table per window.

    Charges go to the table of the current window. Work that is not durable yet is remembered in pieces, so that a
    rollback takes it out of the window in which it was earned.
    """

    __slots__ = ("absences", "absent", "causes", "gpus", "overhead", "risk", "table", "tables", "wrong")

    def __init__(self, causes: int, gpus: float, overhead: float = 0.0) -> None:
        self.causes = causes
        self.gpus = gpus
        self.overhead = overhead
        """GPU-time that redundancy takes of each second of work, without any failure [GPU s/s]."""
        self.risk: list[RiskPiece] = []
        self.wrong = 0.0
        """Wrong work that has stayed [s]."""
        self.absent = [0.0] * BUCKETS
        """GPU-seconds that were charged but belong to nodes that the job did not hold, by bucket [GPU s]."""
        self.absences: dict[tuple[int, int, int], float] = {}
        """The same by window, bucket and cause [GPU s]."""
        # Waiting is charged to `table` directly; only stepping needs more than a sum.
        self.tables: list[list[list[float]]] = []
        self.open_window()

    def open_window(self) -> None:
        """Send what comes to a new table."""
        self.table = [[0.0] * self.causes for _ in range(BUCKETS)]
        self.tables.append(self.table)

    def step(self, work: float, degraded: float, stalled: float, cause: int, at_risk: float) -> None:
        """Charge stepping.

        Parameters
        ----------
        work
            Healthy seconds of work done [s].
        degraded
            GPU time lost to a pace below the healthy one [GPU s]; what redundancy takes is next to it.
        stalled
            GPU time in the stalls of saves [GPU s].
        cause
            Cause of the degraded pace.
        at_risk
            Work of this job that is not durable now [s]; older pieces are forgotten.
        """
        table = self.table
        # The rows of `Bucket`: 0 productive, 1 degraded, 2 stalls of saves.
        table[0][0] += work * self.gpus
        table[2][0] += stalled
        if degraded:
            table[1][cause] += degraded
        if self.overhead:
            table[1][0] += work * self.overhead
        risk = self.risk
        if risk:
            last = risk[-1]
            if last.table is table and not degraded and not last.degraded and not last.wrong:
                last.work += work
            else:
                risk.append(RiskPiece(work, degraded, cause, table))
        else:
            risk.append(RiskPiece(work, degraded, cause, table))
        if len(risk) == 1:
            piece = risk[0]
            if piece.degraded and piece.work > 0:
                piece.degraded *= min(at_risk / piece.work, 1.0)
            piece.work = at_risk
        else:
            self._forget(at_risk)

    def _forget(self, at_risk: float) -> None:
        """Keep only the newest `at_risk` seconds of work."""
        remaining: list[RiskPiece] = []
        for piece in reversed(self.risk):
            if at_risk <= 0:
                break
            if piece.work > at_risk:
                piece.degraded *= at_risk / piece.work
                piece.work = at_risk
            at_risk -= piece.work
            remaining.append(piece)
        self.risk = remaining[::-1]

    def lose(self, work: float, cause: int) -> None:
        """Move the newest `work` seconds from where they are to lost work."""
        for piece in self._newest(work):
            self._move(piece, Bucket.LOST_WORK, cause)
            self.risk.pop()

    def accept(self, work: float, cause: int) -> None:
        """Move the newest `work` seconds, which are wrong and stay, from productive and degraded to wrong work."""
        for piece in self._newest(work):
            if not piece.wrong:
                self._move(piece, Bucket.WRONG_WORK, cause)
                piece.wrong = cause
                self.wrong += piece.work

    def _newest(self, work: float) -> Iterator[RiskPiece]:
        """Yield the pieces of the newest `work` seconds, newest first; the last one is cut where they begin."""
        for piece in self.risk[::-1]:
            if work <= 0:
                return
            if work < piece.work:
                yield self._split(piece, work)
                return
            work -= piece.work
            yield piece

    def _split(self, piece: RiskPiece, work: float) -> RiskPiece:
        """Cut the newest `work` seconds off a piece; return them, a piece of their own after it."""
        part = work / piece.work
        newest = RiskPiece(piece.work * part, piece.degraded * part, piece.cause, piece.table)
        newest.wrong = piece.wrong
        piece.work -= newest.work
        piece.degraded -= newest.degraded
        self.risk.insert(self.risk.index(piece) + 1, newest)
        return newest

    def _move(self, piece: RiskPiece, bucket: Bucket, cause: int) -> None:
        """Move the GPU-time of a piece to a bucket."""
        table, work, degraded = piece.table, piece.work * self.gpus, piece.degraded
        extra = piece.work * self.overhead
        if piece.wrong:
            self.wrong -= piece.work
            table[Bucket.WRONG_WORK][piece.wrong] -= work + degraded + extra
        else:
            table[Bucket.PRODUCTIVE][0] -= work
            table[Bucket.DEGRADED][piece.cause] -= degraded
            if extra:
                table[Bucket.DEGRADED][0] -= extra
        table[bucket][cause] += work + degraded
        if extra:
            table[bucket][cause] += extra

    def leave_out(self, bucket: int, cause: int, gpu_s: float) -> None:
        """Mark GPU-seconds that were charged as those of nodes that the job did not hold [GPU s]."""
        self.absent[bucket] += gpu_s
        key = len(self.tables) - 1, bucket, cause
        self.absences[key] = self.absences.get(key, 0.0) + gpu_s

    def totals(self) -> NDArray[np.float64]:
        """Return the GPU-seconds, shape (windows, buckets, causes)."""
        return np.asarray(self.tables, dtype=np.float64)

    def held(self) -> NDArray[np.float64]:
        """Return the GPU-seconds of nodes that the job held, and those that it queued for, shaped as `totals`."""
        totals = self.totals()
        for place, gpu_s in self.absences.items():
            if place[1] != Bucket.QUEUED:
                totals[place] -= gpu_s
        return totals

    def close(self, capacity: float, what: str, scale: float = 0.0, buckets: int = BUCKETS) -> None:
        """Check that so many first buckets add up to `capacity` [GPU s]; see :func:`check_sum`."""
        check_sum(float(self.totals()[:, :buckets].sum()), capacity, what, scale)


def check_sum(total: float, capacity: float, what: str, scale: float = 0.0) -> None:
    """Check that the buckets of something, which add up to `total` [GPU s], come to its `capacity` [GPU s]; or columns.

    `scale` [GPU s] is the size of the amounts behind `capacity`, where that is a difference.

    Raises
    ------
    LedgerError
        If they do not, within 1e-9 of the larger of the two.
    """
    if np.any(np.abs(total - capacity) > 1e-9 * np.maximum(np.maximum(capacity, scale), 1.0)):
        message = f"the buckets of {what} add up to {total!r} GPU s, but its capacity is {capacity!r} GPU s"
        raise LedgerError(message)


# ----------------------------------------
# Accounts of streams, services, and of named jobs next to them: rows by owner.

_GOOD_ETTR = 0.9

_RUNNING, _COMPLETED = OUTCOMES.index("running"), OUTCOMES.index("completed")

_BLOCK = 1 << 19
"""Bytes of rows that wait, at most, until they are added up: many at once cost a fraction of what each alone would."""

_CHARGE, _END, _STATE = (Struct(f"{width}d") for width in (7, 11, 6))
"""Rows that wait: as bytes they cost less than as lists of numbers."""


def _columns(rows: bytearray, row: Struct) -> FloatArray:
    """Take rows out of where they wait; return their columns, shape (width, n)."""
    columns = np.frombuffer(bytes(rows)).reshape(-1, row.size // 8).T
    rows.clear()
    return columns


class KeyedSums:
    """Sums of a `shape` by key; keys are in the order in which they were first seen."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.rows: dict[tuple[int, ...], int] = {}
        self.table: FloatArray = np.zeros((0, math.prod(shape)))

    def add(
        self, keys: Sequence[FloatArray | NDArray[np.int64]], cells: NDArray[np.int64], amounts: FloatArray
    ) -> None:
        """Add amounts, shape (n, m), to cells of the sums of each key, one after another; keys are columns."""
        code = np.zeros(len(amounts), dtype=np.int64)
        for column in keys:
            code = code * (int(column.max(initial=0)) + 1) + column.astype(np.int64)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        rows = np.empty(len(first), dtype=np.int64)
        for place in np.argsort(first).tolist():
            key = tuple(int(column[first[place]]) for column in keys)
            rows[place] = self.rows.setdefault(key, len(self.rows))
        width = self.table.shape[1]
        self.table = np.concatenate([self.table, np.zeros((len(self.rows) - len(self.table), width))])
        np.add.at(self.table.reshape(-1), ((rows * width)[inverse][:, None] + cells).reshape(-1), amounts.reshape(-1))

    def items(self) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        """Yield the keys, each with its sums."""
        return zip(self.rows, self.table.reshape(-1, *self.shape), strict=True)


class FleetAccumulator:
    """The accounts of a cluster that streams and services share, in one replication.

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

    def __init__(self, edges: Sequence[float], gpus: int, sources: Sequence[str]) -> None:
        self.edges = list(edges)
        self.gpus = gpus
        self.sources = sources
        self._accounts: dict[tuple[float, ...], int] = {CLUSTER: 0}
        self._edges: FloatArray = np.array(edges)
        self._windows = len(edges) - 1
        # By number of the account and what else a row of the result is distinguished by.
        self._ledger = KeyedSums(self._windows)
        self._jobs = KeyedSums(self._windows, len(JOB_SUMS))
        self._histograms = KeyedSums(2, len(BIN_EDGES))
        self._outcomes = KeyedSums(2)
        self._stops: defaultdict[tuple[int, int, int, int], list[list[float]]] = defaultdict(self._rows(3))
        self._services: defaultdict[int, list[list[float]]] = defaultdict(self._rows(len(SERVICE_SUMS)))
        self._longest: dict[int, float] = {}
        self._levels: FloatArray = np.zeros((self._windows, len(LEVELS)))
        # Rows that wait: charges, jobs that are over, and levels, the last of which still holds.
        self._charges, self._ends, self._states = bytearray(), bytearray(), bytearray(_STATE.size)

    def _rows(self, width: int) -> Callable[[], list[list[float]]]:
        """Return what makes a table of the windows, of such a `width`."""
        return lambda: [[0.0] * width for _ in self.edges[1:]]

    def account(self, stream: int, gpus: int, tenant: int = 0, priority: float = 0, partition: int = 0) -> int:
        """Return the number of the account of holders of so many GPUs, a new one if it has none yet."""
        key = stream, size_class(gpus), tenant, priority, partition
        return self._accounts.setdefault(key, len(self._accounts))

    def _window(self, time: float) -> int:
        """Return the window of a moment [s]; -1 if it is in none."""
        window = bisect_right(self.edges, time) - 1
        return window if window < len(self.edges) - 1 else -1

    def charge(self, account: int, bucket: int, cause: int, via: int, gpu_s: float, start: float, end: float) -> None:
        """Charge GPU-seconds that were spent evenly from `start` to `end` [s]; all at once where these are the same."""
        self._charges += _CHARGE.pack(account, bucket, cause, via, gpu_s, start, end)
        if len(self._charges) >= _BLOCK:
            self._add_charges()

    def _add_charges(self) -> None:
        """Add the charges that wait, each spread evenly over its time."""
        *keys, gpu_s, start, end = _columns(self._charges, _CHARGE)
        source, window, seconds = self._pieces(start, end)
        rate = np.divide(gpu_s, end - start, out=np.zeros(len(start)), where=end > start)
        amounts = rate[source] * seconds
        is_whole = (start[source] >= self._edges[window]) & (end[source] <= self._edges[window + 1])
        amounts[is_whole] = gpu_s[source[is_whole]]
        self._ledger.add([key[source] for key in keys], window[:, None], amounts[:, None])

    def _pieces(self, start: FloatArray, end: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]:
        """Return the pieces that windows make of times [s], in order: of which time, in which window, how long [s]."""
        edges = self._edges
        first = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, self._windows - 1)
        stop = np.minimum(np.maximum(np.searchsorted(edges, end), first + 1), self._windows)
        counts = stop - first
        source = np.repeat(np.arange(len(start)), counts)
        window = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        seconds = np.minimum(end[source], edges[window + 1]) - np.maximum(start[source], edges[window])
        return source, window, np.maximum(seconds, 0.0)

    def serve(self, service: int, start: float, sums: Sequence[float]) -> None:
        """Add sums over the requests of a service since `start`, all of one window."""
        window = self._window(start)
        if window >= 0:
            rows = self._services[service]
            rows[window] = [total + amount for total, amount in zip(rows[window], sums, strict=True)]

    def correct(self, service: int, arrival: float, place: int, amount: float) -> None:
        """Add to one sum over the requests of a service that were asked at a moment."""
        window = self._window(arrival)
        if window >= 0:
            self._services[service][window][place] += amount

    def idle(self, reason: str, gpu_s: float, start: float, end: float) -> None:
        """Charge healthy GPUs that no job had, with the reason: one of `IDLE`."""
        self.charge(0, Bucket.UNALLOCATED, IDLE.index(reason), DIRECT, gpu_s, start, end)

    def level(
        self, now: float, free: float, queued_gpus: float, queued_jobs: float, placeable: float, stranded: float = 0.0
    ) -> None:
        """Set what is true from now on: GPUs that are free, and asked for; jobs in the queue; largest start.

        `placeable` is the size of the largest job that could start now, `stranded` what is free on shared nodes [GPUs].
        """
        self._states += _STATE.pack(now, free, queued_gpus, queued_jobs, placeable, stranded)
        if len(self._states) >= _BLOCK:
            self._add_levels()

    def _add_levels(self) -> None:
        """Add the levels that wait, each until the next."""
        last = self._states[-_STATE.size :]
        time, free, queued_gpus, queued_jobs, placeable, stranded = _columns(self._states, _STATE)
        self._states += last
        in_need = queued_jobs > 0
        states = (free, queued_gpus, queued_jobs, placeable, free * in_need, placeable * in_need, stranded)
        source, window, seconds = self._pieces(time[:-1], time[1:])
        np.add.at(self._levels, window, np.stack(states, axis=1)[source] * seconds[:, None])

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
        window = self._window(now)
        if window >= 0:
            row = self._stops[account, cause, via, by][window]
            row[0] += stops
            row[1] += gpus
            row[2] += lost

    def ended(
        self, account: int, outcome: str, submit: float, start: float, end: float, gpus: int, waited: float, run: float,
        useful: float, failures: int = 0, preemptions: int = 0,
    ) -> None:  # fmt: skip
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
        row = (account, OUTCOMES.index(outcome), submit, start, end, gpus, waited, run, useful, failures, preemptions)
        self._ends += _END.pack(*row)
        if len(self._ends) >= _BLOCK:
            self._add_ends()

    def _add_ends(self) -> None:
        """Add the jobs that wait: the sums of each window, outcomes and histograms."""
        rows = _columns(self._ends, _END)
        window = np.searchsorted(self._edges, rows[2], side="right") - 1
        is_inside = (window >= 0) & (window < self._windows)
        account, outcome, submit, start, end, gpus, waited, run, useful, failures, preemptions = rows[:, is_inside]
        gpu_time, span = gpus * run, np.maximum(end - submit, 0.0)
        has_started = ~np.isnan(start)
        has_ended = has_started & (outcome < _RUNNING)
        is_complete = has_started & (outcome == _COMPLETED)
        short, long = (np.maximum(1.0, (waited + run) / np.maximum(run, tau)) for tau in SLOWDOWN_TAUS)
        ones = np.ones(len(run))
        weighted = {  # in the order of `JOB_SUMS`: what is summed, of which jobs
            "submitted": (ones, ones > 0),
            "started": (ones, has_started),
            "ended": (ones, has_ended),
            "completed": (ones, is_complete),
            "wait_first": (start - submit, has_started),
            "wait_total": (waited, has_ended),
            "bounded_slowdown": (short, has_ended),
            "bounded_slowdown_10min": (long, has_ended),
            "jct": (span, is_complete),
        }
        good = np.where((span > 0) & (useful >= _GOOD_ETTR * span), gpu_time, 0.0)
        sums = [run, failures, preemptions, gpus * span, gpus * waited, gpus * useful, good]
        for value, counts in weighted.values():
            sums += [np.where(counts, value, 0.0), np.where(counts, gpu_time * value, 0.0)]
        cells = (window[is_inside] * len(sums))[:, None] + np.arange(len(sums))
        self._jobs.add([account], cells, np.stack(sums, axis=1))
        self._outcomes.add([account, outcome], np.arange(2), np.stack([ones, gpu_time], axis=1))
        for number in np.unique(account).astype(np.int64).tolist():
            longest = float(waited[account == number].max())
            self._longest[number] = max(longest, self._longest.get(number, longest))
        self._add_to_histograms(account, gpu_time, weighted)

    def _add_to_histograms(
        self, account: FloatArray, gpu_time: FloatArray, weighted: Mapping[str, tuple[FloatArray, NDArray[np.bool_]]]
    ) -> None:
        """Add what jobs came to, once by itself and once by their GPU-time."""
        names = [name for name in weighted if name in HISTOGRAMS]
        values, counts = (np.stack(columns, axis=1) for columns in zip(*map(weighted.__getitem__, names), strict=True))
        job, place = np.nonzero(counts)
        bins = np.fromiter(map(bin_of, values[job, place].tolist()), np.int64, len(job))
        amounts = np.stack([np.ones(len(job)), gpu_time[job]], axis=1)
        number = np.array([HISTOGRAMS.index(name) for name in names])
        self._histograms.add([account[job], number[place]], bins[:, None] + np.array([0, len(BIN_EDGES)]), amounts)

    def result(self, now: float) -> FleetResult:
        """Return what has been added up until the end of the simulation [s]; every job is closed.

        Raises
        ------
        LedgerError
            If the ledger does not add up to all GPU-seconds of the cluster.
        """
        self._add_charges()
        self._add_ends()
        self.level(now, 0.0, 0.0, 0.0, 0.0)
        self._add_levels()
        edges = self._edges
        seconds = np.clip(now - edges[:-1], 0.0, np.diff(edges))
        accounts = list(map(FleetAccount._make, self._accounts))

        def keyed(table: Mapping[Any, Any] | KeyedSums, key: Callable[..., Key]) -> dict[Key, FloatArray]:
            return {key(accounts[account], *rest): np.array(rows) for (account, *rest), rows in table.items()}

        ledger = keyed(self._ledger, LedgerKey)
        charged = math.fsum(float(row.sum()) for key, row in ledger.items() if key.bucket != Bucket.QUEUED)
        check_sum(charged, self.gpus * float(seconds.sum()), "the fleet")
        return FleetResult(
            edges - edges[0],
            seconds,
            self.gpus,
            (NO_FAILURE, *self.sources, *ROOTS),
            ledger,
            keyed(self._jobs, lambda account: account),
            keyed(self._histograms, lambda account, name: (account, HISTOGRAMS[name])),
            keyed(self._outcomes, lambda account, outcome: (account, outcome)),
            keyed(self._stops, StopKey),
            self._levels,
            {accounts[account]: self._longest[account] for (account,) in self._jobs.rows},
            {service: np.array(rows) for service, rows in self._services.items()},
        )
