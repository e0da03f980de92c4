"""Jobs of a recorded trace: CSV with a header, or the Standard Workload Format, plain or gzipped.

References
----------
D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with using the Parallel Workloads Archive", Journal of Parallel and
Distributed Computing 74 (2014): the 18 fields of the format, and what cleaning a trace is about.
"""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim import catalog, units
from sim.failures.replay import Times, TraceError, text_of
from sim.scenario.streams import OUTCOMES
from sim.yamlfile import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sim.scenario.streams import JobTrace

_STATES = {
    "completed": "completed",
    "pass": "completed",
    "finished": "completed",
    "failed": "failed",
    "out_of_memory": "failed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "killed": "cancelled",
    "timeout": "cancelled",
    "deadline": "cancelled",
    "node_fail": "cancelled",
    "boot_fail": "cancelled",
    "preempted": "cancelled",
    "requeued": "cancelled",
    "revoked": "cancelled",
    "running": "",
    "pending": "",
    "requeue_hold": "",
    "suspended": "",
    "completing": "",
    "configuring": "",
    "special_exit": "",
    "stopped": "",
    "resizing": "",
}
"""What states of Slurm and others mean here, in lower case: ended from outside is cancelled, not over is nothing."""

_SWF = (
    *("job", "submit", "wait", "run", "allocated", "cpu_time", "memory", "requested", "requested_time"),
    *("requested_memory", "status", "user", "group", "executable", "queue", "partition", "preceding", "think"),
)
"""The fields of the Standard Workload Format."""

_SWF_STATES = {"1": "completed", "0": "failed", "5": "cancelled", "-1": "completed", "2": "completed", "3": "completed"}
_LISTED = 10

_KINDS = {
    "no_run": "never ran",
    "no_gpu": "ask for no GPU",
    "not_over": "are not over",
    "early": "ended before the origin",
}
"""Rows that are right but of no use here, and how a note calls them."""


class Jobs(NamedTuple):
    """The jobs of a trace in order of submission, those of one moment in order of their rows; arrays of shape (n,).

    ``submit`` counts from the origin [s]; ``limit`` is infinite where the trace has none [s]; ``outcome`` is a position
    in `OUTCOMES`; ``tenant`` and ``partition`` are positions in the names beside them. Jobs that are ``under_way`` at
    the origin come first: ``run`` and ``limit`` are what is left of them. ``notes`` say what was left out.
    """

    submit: NDArray[np.float64]
    gpus: NDArray[np.int64]
    run: NDArray[np.float64]
    limit: NDArray[np.float64]
    outcome: NDArray[np.int64]
    priority: NDArray[np.int64]
    tenant: NDArray[np.int64]
    partition: NDArray[np.int64]
    line: NDArray[np.int64]
    under_way: NDArray[np.bool_]
    tenants: tuple[str, ...]
    partitions: tuple[str, ...]
    notes: tuple[str, ...]


class _Row(NamedTuple):
    """The words of a row, empty where it has none."""

    job: str
    submit: str
    gpus: str
    run: str
    limit: str
    state: str
    tenant: str
    priority: str
    partition: str
    start: str = ""
    end: str = ""


def read_jobs(stream: JobTrace) -> Jobs:
    """Read the trace of a stream; neither its scale nor its limits are applied.

    Raises
    ------
    TraceError
        If the file or a column is missing, or rows cannot be used and are not to be skipped: one line with their
        number and the first ten.
    RuleError
        If the origin is not a moment as those of the trace.
    """
    path = Path(stream.file)
    file = shown(path)
    text = text_of(path, file, _unpacked)
    # By its comments too: a copy may have another name.
    is_swf = path.name.lower().endswith((".swf", ".swf.gz")) or text.lstrip().startswith(";")
    rows = _swf(text) if is_swf else _csv(text, file, stream)
    reader = _Reader(Times(units.parse(f"1 {stream.time_unit}", units.DURATION)), stream)
    bad: list[str] = []
    for line, row in rows:
        place = f"{file}:{line}"
        reader.rows += 1
        if isinstance(row, str):
            bad.append(f"{place}: {row}")
            continue
        try:
            reader.add(row, line, place)
        except TraceError as error:
            bad.append(" ".join(str(error).split()))  # a quoted word may have line breaks
    if bad and not stream.skip_bad_rows:
        more = f"; and {len(bad) - _LISTED:,} more" if len(bad) > _LISTED else ""
        raise TraceError(
            f"{len(bad):,} of {reader.rows:,} rows cannot be used (skip_bad_rows: true, or --skip-bad-rows, leaves "
            f"them out): {'; '.join(bad[:_LISTED])}{more}"
        )
    return reader.jobs(file, len(bad))


class _Reader:
    """Takes rows in any order, and puts the jobs in order."""

    def __init__(self, times: Times, stream: JobTrace) -> None:
        self.rows = 0
        self._times, self._stream = times, stream
        self._jobs: list[tuple[float, ...]] = []
        self._seen: dict[tuple[str, str], int] = {}
        self._tenants: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._left_out = dict.fromkeys(_KINDS, 0)

    def add(self, row: _Row, line: int, place: str) -> None:
        """Take a row; what is wrong with it is raised as a TraceError."""
        if row.job:
            first = self._seen.setdefault((row.tenant, row.job), line)
            if first != line:
                raise TraceError(f"{place}: job '{row.job}' is also in line {first}")
        columns = self._stream.columns
        submit = self._times.read(row.submit, columns.submit, place)
        outcome = self._outcome(row.state, place)
        gpus = _number(row.gpus, columns.gpus, place)
        if gpus != int(gpus):
            raise TraceError(f"{place}: column '{columns.gpus}' holds '{row.gpus}', which is not a whole number")
        run = self._run(row, place)
        kind = "not_over" if outcome < 0 else "no_gpu" if gpus == 0 else "no_run" if math.isnan(run) else ""
        if kind:
            self._left_out[kind] += 1
            return
        second = self._times.second
        has_limit = bool(row.limit) and row.limit.lower() not in ("unlimited", "inf", "partition_limit")
        limit = _number(row.limit, columns.limit, place) * second if has_limit else math.inf
        if limit <= 0:
            raise TraceError(f"{place}: column '{columns.limit}' holds '{row.limit}', which must be above zero")
        priority = _number(row.priority, columns.priority, place, least=-math.inf) if row.priority else 0.0
        # Only where the log is cut does it matter when a job began to run.
        is_cut = self._stream.origin is not None and row.start
        start = self._times.read(row.start, "start", place) if is_cut else submit
        tenant = self._tenants.setdefault(row.tenant, len(self._tenants))
        partition = self._partitions.setdefault(row.partition, len(self._partitions))
        self._jobs.append((submit, start, gpus, run, limit, outcome, int(priority), tenant, partition, line))

    def _outcome(self, state: str, place: str) -> int:
        """Return the position of an outcome, -1 for a job that is not over."""
        word = state.lower().split(" ")[0].rstrip("+")  # Slurm: CANCELLED by 1000
        if not word:
            return 0
        if word not in _STATES:
            raise TraceError(f"{place}: {catalog.unknown('state', state, _STATES)}")
        return OUTCOMES.index(_STATES[word]) if _STATES[word] else -1

    def _run(self, row: _Row, place: str) -> float:
        """Return the run time [s]; NaN for a job that never ran."""
        columns = self._stream.columns
        if row.run:
            return _number(row.run, columns.run, place) * self._times.second
        if row.start and row.end:
            start, end = self._times.read(row.start, "start", place), self._times.read(row.end, "end", place)
            if end < start:
                raise TraceError(f"{place}: the job ends ({row.end}) before it starts ({row.start})")
            return end - start
        if row.state.lower().startswith(("cancel", "kill")):
            return math.nan
        raise TraceError(f"{place}: column '{columns.run}' is empty")

    def jobs(self, file: str, bad: int) -> Jobs:
        """Return the jobs in order of submission."""
        if not self._jobs:
            raise TraceError(f"{file}: has no jobs that can be used, of {self.rows:,} rows")
        submit, start, gpus, run, limit, outcome, priority, tenant, partition, line = (
            np.array(column, dtype=np.float64) for column in zip(*self._jobs, strict=True)
        )
        stated = self._stream.origin
        origin = float(submit.min()) if stated is None else self._times.begin(stated, 0.0)
        under_way = (submit < origin) & (start < origin)
        done = np.where(under_way, origin - start, 0.0)
        order = np.lexsort((submit, ~under_way))
        order = order[(done < run)[order] | ~under_way[order]]
        self._left_out["early"] = len(submit) - len(order)
        if not len(order):
            raise TraceError(f"{file}: has no job after {stated}")
        run = run - done
        limit = np.maximum(limit - done, np.minimum(limit, run))
        counts = [f"{count:,} {_KINDS[kind]}" for kind, count in self._left_out.items() if count]
        counts += [f"{bad:,} cannot be used"] if bad else []
        whole = [column[order].astype(np.int64) for column in (outcome, priority, tenant, partition, line)]
        return Jobs(
            submit[order] - origin,
            gpus[order].astype(np.int64),
            run[order],
            limit[order],
            whole[0],
            whole[1],
            whole[2],
            whole[3],
            whole[4],
            under_way[order],
            tuple(self._tenants),
            tuple(self._partitions),
            (f"{file}: of {self.rows:,} rows these are left out: {', '.join(counts)}",) if counts else (),
        )


def _number(text: str, column: str, place: str, least: float = 0.0) -> float:
    """Return a finite number that is not below another."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < least:
        what = "a number" if math.isinf(least) else "a number of zero or more"
        raise TraceError(
            f"{place}: column '{column}' " + (f"holds '{text}', which is not {what}" if text else "is empty")
        )
    return value


# The two formats, as rows of words.


def _csv(text: str, file: str, stream: JobTrace) -> Iterator[tuple[int, _Row | str]]:
    """Yield line and words of the rows of a CSV file with a header, or what is wrong with them."""
    reader = csv.reader(text.splitlines(keepends=True))
    try:
        header = [" ".join(name.split()) for name in next(reader, [])]
        if not any(header):
            raise TraceError(f"{file}:1: has no header: the first line names the columns, as in submit,gpus,run")
        at = _positions(header, stream, file)
        for record in reader:
            if not record:
                continue
            if len(record) == len(header):
                words = (record[position].strip() if position >= 0 else "" for position in at)
                yield reader.line_num, _Row(*words)
            else:
                yield reader.line_num, f"has {len(record)} fields, and the header {len(header)}"
    except csv.Error as error:
        raise TraceError(f"{file}:{reader.line_num + 1}: is no CSV ({error})") from None


def _positions(header: list[str], stream: JobTrace, file: str) -> list[int]:
    """Return where each word of a row stands, -1 for nowhere; columns that are named or needed have to be there."""
    columns = stream.columns
    names: Mapping[str, str] = {**columns.model_dump(), "start": "start", "end": "end"}
    needed = {"submit", "gpus", *(role for role, name in columns if role != name)}
    if not {"start", "end"} <= set(header):
        needed.add("run")
    for role in _Row._fields:
        if role in needed and names[role] not in header:
            near = catalog.unknown("column", names[role], header)
            raise TraceError(f"{file}:1: {near}; say which one is {role}, for example columns: {{{role}: NAME}}")
    return [header.index(names[role]) if names[role] in header else -1 for role in _Row._fields]


def _swf(text: str) -> Iterator[tuple[int, _Row | str]]:
    """Yield line and words of the rows of a file in the Standard Workload Format, or what is wrong with them."""
    for line, row in enumerate(text.splitlines(), 1):
        words = row.split()
        if not words or words[0].startswith(";"):
            continue
        yield line, _swf_row(words) if len(words) == len(_SWF) else f"has {len(words)} fields, not {len(_SWF)}"


def _swf_row(words: list[str]) -> _Row:
    """Return a row in our order; -1 says that something is not known."""
    field = dict(zip(_SWF, words, strict=True))
    gpus = field["requested"] if field["requested"] not in ("-1", "0") else field["allocated"]
    limit, run = field["requested_time"], field["run"]
    state = _SWF_STATES.get(field["status"], field["status"])
    if run == "-1" and field["status"] in ("0", "5"):
        run, state = "", "cancelled"  # it never ran
    return _Row(
        field["job"],
        field["submit"],
        gpus,
        run,
        "" if limit in ("-1", "0") else limit,
        state,
        tenant="" if field["group"] == "-1" else field["group"],
        priority="",
        partition="" if field["partition"] == "-1" else field["partition"],
        start="" if field["wait"] == "-1" else _sum(field["submit"], field["wait"]),
    )


def _sum(submit: str, wait: str) -> str:
    """Return when a job started, as text; empty where that is not known."""
    try:
        return repr(float(submit) + float(wait))
    except ValueError:
        return ""


def _unpacked(content: bytes) -> bytes:
    """Return what a trace holds, where it may be gzipped."""
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
