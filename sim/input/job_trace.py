"""Jobs of a recorded trace: CSV with a header, or the Standard Workload Format, plain or gzipped.

References
----------
D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with using the Parallel Workloads Archive", Journal of Parallel and
Distributed Computing 74 (2014): the 18 fields of the format, and what cleaning a trace is about. SchedMD Slurm, manual
page of sacct: names of columns, and steps of jobs.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from array import array
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim import records, units
from ettrick.sim.failures.replay import begin, column_unit
from ettrick.sim.moments import TimestampParser
from ettrick.sim.records import NOT_OVER, NOTHING, STATES, LogError, Table, state_of
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.scenario.streams import OUTCOMES, TraceColumns
from ettrick.sim.yamlfile import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ettrick.sim.scenario.streams import JobTrace

    Row = dict[str, str]

_COLUMNS = {
    "job": ("JobIDRaw", "JobID", "job_id"),
    "submit": ("submit_time",),
    "gpus": ("AllocTRES", "AllocGRES", "AllocGPUS"),
    "run": ("ElapsedRaw", "Elapsed"),
    "limit": ("TimelimitRaw", "Timelimit"),
    "state": ("status", "job_state", "JobState"),
    "start": ("start_time",),
    "end": ("end_time",),
}
"""The usual names of columns, where the scenario does not state them and they have not the name of their role."""

_UNKNOWN = ("-1", "0")
_SWF_STATES = {"1": "completed", "0": "failed", "5": "cancelled", "2": "completed", "3": "completed", "4": "failed"}
_SWF_PARTS = ("2", "3", "4")
_ENDED_EARLY = ("0", "5")
_STEP = re.compile(r"(.+)\.(?:(\d+)|batch|extern|interactive)")
_NO_LIMIT = NOTHING | {"unlimited", "inf", "infinite", "partition_limit"}
_LISTED = 10
_TIMED = ("submit", "start", "end", "run", "limit")
_NUMBERS = ("submit", "gpus", "limit", "priority")
_COMPARED = 1000  # rows whose run is compared with start and end
_WIDTH = 10  # numbers that are kept of a job

_KINDS = {
    "step": "are steps of jobs",
    "no_run": "never ran",
    "no_time": "completed after an unknown time",
    "no_gpu": "ask for no GPU",
    "not_over": "are not over",
    "early": "ended before the origin",
}
"""Rows that are right but of no use here, and how a note calls them."""


class JobTraceTable(NamedTuple):
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
    priority: NDArray[np.float64] | NDArray[np.int64]
    tenant: NDArray[np.int64]
    partition: NDArray[np.int64]
    line: NDArray[np.int64]
    under_way: NDArray[np.bool_]
    tenants: tuple[str, ...]
    partitions: tuple[str, ...]
    notes: tuple[str, ...]


@records.paused_collection()
def read_jobs(stream: JobTrace) -> JobTraceTable:
    """Read the trace of a stream; neither its scale nor its limits are applied.

    Raises
    ------
    LogError
        If the file or a column is missing, or rows cannot be used and are not to be skipped: one line with their
        number and the first ten.
    RuleError
        If the origin is not a moment as those of the trace, or a setting has no effect on it.
    """
    file = shown(Path(stream.file))
    numbered = records.lines(file)
    first = next(((line, text) for line, text in numbered if text.strip()), (1, ""))
    numbered = itertools.chain([first], numbered)
    # By its comments too: a copy may have another name.
    is_swf = file.lower().endswith((".swf", ".swf.gz")) or first[1].lstrip().startswith(";")
    reader = _TraceReader(stream, _Swf(numbered, file, stream) if is_swf else _table(numbered, file, stream))
    bad = [f"{file}:{line}: {reason}" for line, reason in reader.read()]
    if bad and not stream.skip_bad_rows:
        more = f"; and {len(bad) - _LISTED:,} more" if len(bad) > _LISTED else ""
        skip = " (skip_bad_rows: true, or --skip-bad-rows, leaves them out)" if len(bad) < reader.rows else ""
        listed = "; ".join(bad[:_LISTED])
        raise LogError(f"{len(bad):,} of {reader.rows:,} rows cannot be used{skip}: {listed}{more}")
    return reader.jobs(len(bad))


class _TraceReader:
    """Takes rows in any order, and puts the jobs in order."""

    def __init__(self, stream: JobTrace, table: Table) -> None:
        self.rows = 0
        self._stream, self._table = stream, table
        usual, has_unit = units.parse(f"1 {stream.time_unit}", units.DURATION), "time_unit" in stream.model_fields_set
        second = {role: column_unit(table.name_of(role), usual, has_unit=has_unit) for role in _TIMED}
        self._second = second["submit"]
        self._times = TimestampParser(has_unit=has_unit)
        often = functools.lru_cache(maxsize=10_000)
        self._read: dict[str, Callable[[str], float]] = {
            **{role: functools.partial(self._times.read, second=second[role]) for role in ("submit", "start", "end")},
            "run": functools.partial(records.duration, second=second["run"]),
            "limit": often(functools.partial(_limit, second=second["limit"])),
            "gpus": often(records.count),
            "priority": often(_priority),
            "wait": records.number,
        }
        self._states = STATES | {word.lower().strip(): meaning for word, meaning in stream.states.items()}
        self._values = array("d")
        self._lines: dict[tuple[str, str], int] = {}
        self._tenants: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._left_out: Counter[str] = Counter()
        self._ratios: list[float] = []

    def read(self) -> Iterator[tuple[int, str]]:
        """Take all rows; yield the line of those that cannot be used, and why."""
        parts = []
        for line, row in self._table.rows():
            self.rows += 1
            if isinstance(row, str):
                yield line, row
            elif "." in row.get("job", "") and (match := _STEP.fullmatch(row["job"])):
                if match[2] is None:
                    self._left_out["step"] += 1
                else:
                    parts.append((line, row, match[1]))
            elif reason := self._problem(row, line):
                yield line, reason
        jobs = {job for _, job in self._lines}
        for line, row, job in parts:
            if job in jobs:  # otherwise its name is a number with a point
                self._left_out["step"] += 1
            elif reason := self._problem(row, line):
                yield line, reason

    def _problem(self, row: Row, line: int) -> str:
        """Take a row, or return what is wrong with it."""
        try:
            kind = self._take(row, line)
        except ValueError as error:
            return str(error)
        self._left_out[kind] += 1
        return ""

    def _take(self, row: Row, line: int) -> str:
        """Take a job; return what keeps one from being of use, nothing if it is taken."""
        state = row.get("state")
        meaning = "completed" if state is None else state_of(state, self._states)
        if not self._is_last(row, line, meaning):
            return "not_over"
        run = self._run(row)
        if math.isnan(run):
            if "wait" not in row and meaning != "cancelled":
                raise ValueError(f"column '{self._table.name_of('run') or 'run'}' is empty")
            return "no_time" if meaning == "completed" else "no_run"
        if not run and (not row["gpus"] or self._never_began(row, meaning)):
            return "no_run"  # sacct: nothing was allocated
        submit, gpus, limit, priority = self._numbers(row)
        if not gpus:
            return "no_gpu"
        # Only where the log is cut does it matter when a job began to run.
        start = self._start(row, submit) if self._stream.origin is not None else submit
        tenant = self._tenants.setdefault(row.get("tenant", ""), len(self._tenants))
        partition = self._partitions.setdefault(row.get("partition", ""), len(self._partitions))
        outcome = OUTCOMES.index(meaning)
        self._values.extend((submit, start, gpus, run, limit, outcome, priority, tenant, partition, line))
        return ""

    def _is_last(self, row: Row, line: int, meaning: str) -> bool:
        """Return whether a row says how its job ended; one that is not over may have another row, of later."""
        if not (job := row.get("job", "")):
            return meaning != NOT_OVER
        key = row.get("tenant", ""), job
        first = self._lines.setdefault(key, 0)
        if meaning == NOT_OVER:
            return False
        if first:
            raise ValueError(f"job '{job}' is also in line {first}")
        self._lines[key] = line
        return True

    def _numbers(self, row: Row) -> list[float]:
        """Return what the fields hold that each job has."""
        try:
            return [self._read[role](row.get(role, "")) for role in _NUMBERS]
        except ValueError:
            return [self._value(row, role) for role in _NUMBERS]  # names the column

    def _value(self, row: Row, role: str) -> float:
        """Return what the field of a role holds."""
        return self._table.value(row, role, self._read[role])

    def _start(self, row: Row, submit: float) -> float:
        """Return when a job began to run [s]; without that, as it is submitted."""
        if row.get("start", "").lower() not in NOTHING:
            return self._value(row, "start")
        return submit + self._value(row, "wait") if row.get("wait") else submit

    @staticmethod
    def _never_began(row: Row, meaning: str) -> bool:
        """Return whether a job that did not run was ended in the queue: no start, or no sign of one."""
        return row["start"].lower() in NOTHING if "start" in row else meaning == "cancelled" and "wait" not in row

    def _run(self, row: Row) -> float:
        """Return the run time [s]; NaN where it is not said."""
        has_run = row.get("run", "").lower() not in NOTHING
        if has_run and ("end" not in row or len(self._ratios) >= _COMPARED):
            return self._value(row, "run")
        span = math.nan
        if row.get("start", "").lower() not in NOTHING and row.get("end", "").lower() not in NOTHING:
            span = self._value(row, "end") - self._value(row, "start")
            if span < 0:
                raise ValueError(f"the job ends ({row['end']}) before it starts ({row['start']})")
        if not has_run:
            return span
        run = self._value(row, "run")
        if run > 0 and span > 0:
            self._ratios.append(span / run)
        return run

    def jobs(self, bad: int) -> JobTraceTable:
        """Return the jobs in order of submission."""
        file = self._table.file
        if not self._values:
            raise LogError(f"{file}: has no jobs that can be used, of {self.rows:,} rows{self._reasons(': ', bad)}")
        ratio = float(np.median(self._ratios)) if self._ratios else 1.0
        if not 0.05 <= ratio <= 20:
            raise LogError(
                f"{file}: most jobs take {ratio:.3g} times as long from start to end as column "
                f"'{self._table.name_of('run')}' says; state its unit in its name (run_s, run_min, run_h)"
            )
        values = np.frombuffer(self._values).reshape(-1, _WIDTH)
        submit, start, run = values[:, 0], values[:, 1], values[:, 3]
        origin = begin(self._times, self._stream.origin, float(submit.min()), self._second, file)
        if self._stream.origin is None:
            origin = float(submit.min())
        under_way = (submit < origin) & (start < origin)
        done = np.where(under_way, origin - start, 0.0)
        order = np.lexsort((submit, ~under_way))
        order = order[(done < run)[order] | ~under_way[order]]
        self._left_out["early"] = len(submit) - len(order)
        if not len(order):
            raise LogError(f"{file}: has no job after {self._stream.origin}")
        reasons = self._reasons(f"{file}: of {self.rows:,} rows these are left out: ", bad)
        submit, _, _, run, limit, _, priority, *_ = values[order].T
        gpus, outcome, tenant, partition, line = values[order][:, [2, 5, 7, 8, 9]].astype(np.int64).T
        run, whole = run - done[order], priority.astype(np.int64)
        return JobTraceTable(
            submit - origin, gpus, run, np.maximum(limit - done[order], np.minimum(limit, run)), outcome,
            whole if (whole == priority).all() else priority, tenant, partition, line, under_way[order],
            tuple(self._tenants), tuple(self._partitions), (*self._table.notes, *((reasons,) if reasons else ())),
        )  # fmt: skip

    def _reasons(self, head: str, bad: int) -> str:
        """Return how many rows were left out and why; nothing if all were taken."""
        counts = [f"{self._left_out[kind]:,} {text}" for kind, text in _KINDS.items() if self._left_out[kind]]
        counts += [f"{bad:,} cannot be used"] if bad else []
        return head + ", ".join(counts) if counts else ""


def _limit(text: str, second: float) -> float:
    """Return a time limit [s]; infinite without one."""
    limit = math.inf if text.lower() in _NO_LIMIT else records.duration(text, second)
    if limit <= 0:
        raise ValueError(f"'{text}', which must be above zero")
    return limit


def _priority(text: str) -> float:
    """Return a priority; 0 without one."""
    priority = records.number(text, -math.inf) if text else 0.0
    if abs(priority) > 2**53:
        raise ValueError(f"'{text}', which is no priority: they lie between -2^53 and 2^53")
    return priority


# The two formats, as rows of fields by role.


def _table(numbered: Iterator[tuple[int, str]], file: str, stream: JobTrace) -> Table:
    """Return the table of a CSV file with a header; columns that are named or needed have to be there."""
    stated = {role: name for role, name in stream.columns if name != role}
    names = {
        role: (stated[role],) if role in stated else (role, *_COLUMNS.get(role, ()))
        for role in TraceColumns.model_fields
    }
    needed: list[str | tuple[str, ...]] = ["submit", "gpus", ("run", "start"), ("run", "end"), *stated]
    table = Table(numbered, file, names, needed, advice="say which one it is, for example columns: {{role}: NAME}")
    if re.search(r"plan_gpu|milli|percent|pct|%", table.name_of("gpus").lower()):
        raise LogError(
            f"{file}:{table.line}: column '{table.name_of('gpus')}' holds parts of GPUs (Alibaba's plan_gpu: "
            "percent), and jobs hold whole ones; add a column with their number"
        )
    if any(role not in stated and table.name_of(role).lower() != role for role in table.columns) or table.unused:
        table.notes.append(f"{file}: columns are {table.roles}")
    return table


class _Swf(Table):
    """The rows of the Standard Workload Format, where -1 says that something is not known, and times are seconds."""

    def __init__(self, numbered: Iterator[tuple[int, str]], file: str, stream: JobTrace) -> None:
        for key in ("columns", "time_unit"):
            if key in stream.model_fields_set:
                rule = "has no effect: the Standard Workload Format has 18 fields, and times in seconds"
                raise RuleError((key,), rule)
        self.file, self._numbered, self.columns, self.notes = file, numbered, {}, []
        self._said: Counter[str] = Counter()

    def rows(self) -> Iterator[tuple[int, Row | str]]:
        """Yield the line of each row and its fields by role; instead of them, why a row cannot be used."""
        for line, text in self._numbered:
            words = text.split()
            if words and not words[0].startswith(";"):
                yield line, self._row(words, line) if len(words) == 18 else f"has {len(words)} fields, not 18"
        self.notes += [f"{self.file}: {count:,} jobs {text}" for text, count in self._said.items()]

    def _row(self, words: list[str], line: int) -> Row:
        """Return the fields of a row; jobs have the processors that they held, not those that they asked for."""
        job, submit, wait, run, allocated, _, _, requested, limit, _, status, _, group, _, _, partition, *wishes = words
        gpus = requested if allocated in _UNKNOWN else allocated
        if status in _ENDED_EARLY and (run in _UNKNOWN or allocated == "0"):
            run, gpus, requested = "0", "", ""  # it was cancelled in the queue
        if gpus != requested not in _UNKNOWN:
            self._said["hold other processors than they asked for; those that they held count"] += 1
        if wishes[0] not in _UNKNOWN or wishes[1] not in _UNKNOWN:
            self._said["wait for another one (fields 17 and 18); here they are submitted when they were"] += 1
        row = {
            # A part of a job is as a step: of no use if the job has its own line.
            "job": f"{job}.{line}" if status in _SWF_PARTS else job,
            "submit": submit,
            "gpus": gpus,
            "run": "" if run == "-1" else run,
            "limit": "" if limit in _UNKNOWN else limit,
            "wait": "" if wait == "-1" else wait,
            "tenant": "" if group == "-1" else group,
            "partition": "" if partition == "-1" else partition,
        }
        if status != "-1":
            row["state"] = _SWF_STATES.get(status, status)
        return row
