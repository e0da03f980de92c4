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
from ettrick.sim.records import NOT_OVER, NOTHING, STATES, Block, LogError, Table, state_of
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.scenario.streams import OUTCOMES, TraceColumns
from ettrick.sim.yamlfile import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.records import Row
    from ettrick.sim.scenario.streams import JobTrace

    Column = NDArray[np.float64]

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
_UNKNOWN_STATE = {"-1": "completed"}
_SWF_STATES = {"1": "completed", "0": "failed", "5": "cancelled", "2": "completed", "3": "completed", "4": "failed"}
_SWF_PARTS = ("2", "3", "4")
_ENDED_EARLY = ("0", "5")
_OTHER_SIZE = "hold other processors than they asked for; those that they held count"
_WAITS = "wait for another one (fields 17 and 18); here they are submitted when they were"
_STEP = re.compile(r"(.+)\.(?:(\d+)|batch|extern|interactive)")
_NO_LIMIT = NOTHING | {"unlimited", "inf", "infinite", "partition_limit"}
_LISTED = 10
_TIMED = ("submit", "start", "end", "run", "limit")
_NUMBERS = ("submit", "gpus", "limit", "priority")
_CANCELLED, _COMPLETED = OUTCOMES.index("cancelled"), OUTCOMES.index("completed")
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
    in `OUTCOMES`; ``tenant`` and ``partition`` are positions in the names next to them. Jobs that are ``under_way`` at
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
        self._units = second
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
        self._states |= _UNKNOWN_STATE if isinstance(table, _Swf) else {}
        self._values = [array("d") for _ in range(_WIDTH)]
        self._lines: dict[str, int] = {}  # of a tenant and a job; 0 where its last line has not come
        self._tenants: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._left_out: Counter[str] = Counter()
        self._ratios: list[float] = []

    def read(self) -> Iterator[tuple[int, str]]:
        """Take all rows; yield the line of those that cannot be used, and why."""
        parts: list[tuple[int, Row, str]] = []
        for block in self._table.blocks():
            self.rows += len(block.lines) + len(block.wrong)
            if block.wrong or not self._take_all(block):
                yield from self._take_each(block, parts)
        jobs = {key.partition("\0")[2] for key in self._lines} if parts else ()
        for line, row, job in parts:
            if job in jobs:  # otherwise its name is a number with a point
                self._left_out["step"] += 1
            elif reason := self._problem(row, line):
                yield line, reason
        self._lines.clear()

    # Rows of which none is wrong, column by column.

    def _take_all(self, block: Block) -> bool:
        """Take the jobs of a block at once; return whether: not where a row is wrong, or the step of a job."""
        moments = vars(self._times).copy()
        has_ends = len(self._ratios) < _COMPARED and any(block.columns.get("end", ()))
        if has_ends or "." in "".join(block.columns.get("job", ())):
            return False
        try:
            outcome = self._outcomes(block)
            lines = self._last_lines(block, outcome)
            rows, run, left_out = self._runs(block, outcome)
            columns = [self._column(block, role, rows) for role in _NUMBERS]
            has_gpus = columns[1] > 0
            rows, run = rows[has_gpus], run[has_gpus]
            submit, gpus, limit, priority = (column[has_gpus] for column in columns)
            start = self._starts(block, rows, submit)
        except ValueError:
            vars(self._times).update(moments)
            return False
        left_out["no_gpu"] = len(outcome) - len(rows) - left_out.total()
        self._left_out += left_out
        self._lines |= lines
        tenant, partition = (
            _numbered(block.texts(role, rows), names)
            for role, names in (("tenant", self._tenants), ("partition", self._partitions))
        )
        line = np.array(block.lines)[rows]
        values = submit, start, gpus, run, limit, outcome[rows], priority, tenant, partition, line
        for column, part in zip(self._values, values, strict=True):
            column.frombytes(part.astype(np.float64).tobytes())
        return True

    def _outcomes(self, block: Block) -> NDArray[np.int64]:
        """Return how the jobs of rows ended, as positions in `OUTCOMES`, shape (n,); -1 where they are not over."""
        if "state" not in block.columns:
            return np.full(len(block.lines), _COMPLETED)
        places: dict[str, int] = {NOT_OVER: -1, **dict(zip(OUTCOMES, range(len(OUTCOMES)), strict=True))}
        return _by_text(block.columns["state"], lambda text: places[state_of(text, self._states)]).astype(np.int64)

    def _last_lines(self, block: Block, outcome: NDArray[np.int64]) -> dict[str, int]:
        """Return the lines in which jobs are over, 0 for others that have not been met; by tenant and job.

        Raises
        ------
        ValueError
            If a job is over twice, or has no name.
        """
        if "job" not in block.columns:
            return {}
        jobs, is_over = block.columns["job"], (outcome >= 0).tolist()
        keys = list(map("\0".join, zip(block.texts("tenant"), jobs, strict=True)))
        last = list(itertools.compress(keys, is_over))
        if "" in jobs or len(set(last)) < len(last) or any(map(self._lines.get, last)):
            raise ValueError("has a job twice, or without a name")
        lines: dict[str, int] = {}
        if len(last) < len(keys):
            lines.update((key, 0) for key in keys if key not in self._lines)
        lines.update(zip(last, itertools.compress(block.lines, is_over), strict=True))
        return lines

    def _runs(self, block: Block, outcome: NDArray[np.int64]) -> tuple[NDArray[np.int64], Column, Counter[str]]:
        """Return the rows of use, their run times [s], and how many others there are by kind."""
        rows = np.flatnonzero(outcome >= 0)
        outcome, left_out = outcome[rows], Counter(not_over=len(outcome) - len(rows))
        run = self._column(block, "run", rows)
        if "start" in block.columns and "end" in block.columns:
            for index in np.flatnonzero(np.isnan(run)).tolist():
                run[index] = self._run(block.row(rows[index]))
        is_useless = np.isnan(run)
        if "wait" not in block.columns and (outcome[is_useless] != _CANCELLED).any():
            raise ValueError("has an empty run")
        left_out["no_time"] = int((is_useless & (outcome == _COMPLETED)).sum())
        for index in np.flatnonzero(run == 0).tolist():
            row = block.row(rows[index])
            is_useless[index] = not row["gpus"] or self._never_began(row, OUTCOMES[outcome[index]])
        left_out["no_run"] = int(is_useless.sum()) - left_out["no_time"]
        return rows[~is_useless], run[~is_useless], left_out

    def _column(self, block: Block, role: str, rows: NDArray[np.int64]) -> Column:
        """Return what the fields of a role hold, shape (n,); NaN where a run is not said."""
        texts = block.texts(role, rows)
        if role == "submit":
            return self._times.read_all(texts, self._units["submit"])
        if role == "run":
            plain = None if self._table.has_commas else _lengths(texts, self._units["run"])
            return _by_text(texts, self._run_or_nan) if plain is None else plain
        plain = _lengths(texts, self._units["limit"]) if role == "limit" else None
        return _by_text(texts, self._read[role]) if plain is None else plain

    def _run_or_nan(self, text: str) -> float:
        return math.nan if text.lower() in NOTHING else self._value({"run": text}, "run")

    def _starts(self, block: Block, rows: NDArray[np.int64], submit: Column) -> Column:
        """Return when jobs began to run [s], shape (n,), where the log is cut; it does not matter otherwise."""
        if self._stream.origin is None:
            return submit
        fields = zip(block.texts("start", rows), block.texts("wait", rows), submit.tolist(), strict=True)
        return np.array([self._start({"start": start, "wait": wait}, time) for start, wait, time in fields])

    # Rows one by one.

    def _take_each(self, block: Block, parts: list[tuple[int, Row, str]]) -> Iterator[tuple[int, str]]:
        """Take the rows of a block but steps of jobs, which become `parts`; yield those that cannot be used."""
        for line, row in block.rows():
            if isinstance(row, str):
                yield line, row
            elif "." in row.get("job", "") and (match := _STEP.fullmatch(row["job"])):
                if match[2] is None:
                    self._left_out["step"] += 1
                else:
                    parts.append((line, row, match[1]))
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
        values = submit, start, gpus, run, limit, outcome, priority, tenant, partition, line
        for column, value in zip(self._values, values, strict=True):
            column.append(value)
        return ""

    def _is_last(self, row: Row, line: int, meaning: str) -> bool:
        """Return whether a row says how its job ended; one that is not over may have another row, of later."""
        if not (job := row.get("job", "")):
            return meaning != NOT_OVER
        key = f"{row.get('tenant', '')}\0{job}"
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
        values = [np.frombuffer(column) for column in self._values]
        if not len(values[0]):
            raise LogError(f"{file}: has no jobs that can be used, of {self.rows:,} rows{self._reasons(': ', bad)}")
        ratio = float(np.median(self._ratios)) if self._ratios else 1.0
        if not 0.05 <= ratio <= 20:
            raise LogError(
                f"{file}: most jobs take {ratio:.3g} times as long from start to end as column "
                f"'{self._table.name_of('run')}' says; state its unit in its name (run_s, run_min, run_h)"
            )
        submit, start, run = values[0], values[1], values[3]
        origin = begin(self._times, self._stream.origin, float(submit.min()), self._units["submit"], file)
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
        submit, run, limit, priority = (values[index][order] for index in (0, 3, 4, 6))
        gpus, outcome, tenant, partition, line = (values[index][order].astype(np.int64) for index in (2, 5, 7, 8, 9))
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


def _by_text(texts: Sequence[str], read: Callable[[str], float]) -> Column:
    """Return what is read of each text, shape (n,); equal texts are read once."""
    values = {text: read(text) for text in set(texts)}
    if len(values) == 1:
        return np.full(len(texts), values[texts[0]], dtype=np.float64)
    return np.fromiter(map(values.__getitem__, texts), np.float64, len(texts))


def _lengths(texts: Sequence[str], second: float) -> Column | None:
    """Return the lengths of time that are plain numbers above zero [s], shape (n,); ``None`` if some are not."""
    try:
        lengths = np.fromiter(map(float, texts), np.float64, len(texts)) * second
    except ValueError:
        return None
    return lengths if ((lengths > 0) & (lengths <= records.LONGEST)).all() else None


def _numbered(texts: Sequence[str], numbers: dict[str, int]) -> Column:
    """Return the numbers of names, shape (n,); new ones are numbered as they come."""
    for text in dict.fromkeys(texts):
        numbers.setdefault(text, len(numbers))
    return np.fromiter(map(numbers.__getitem__, texts), np.float64, len(texts))


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
        raise ValueError(f"'{text}', which is not a priority; priorities lie between -2^53 and 2^53")
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
        self._notes: Counter[str] = Counter()

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, some at a time."""
        while ahead := list(itertools.islice(self._numbered, records.BLOCK)):
            rows = [(line, words) for line, text in ahead if (words := text.split()) and words[0][0] != ";"]
            wrong = [(line, f"has {len(words)} fields, not 18") for line, words in rows if len(words) != 18]
            if wrong:
                rows = [(line, words) for line, words in rows if len(words) == 18]
            lines = [line for line, _ in rows]
            fields = zip(*[words for _, words in rows], strict=True)
            yield Block(lines, self._columns(lines, *fields) if rows else {}, wrong)
        self.notes += [f"{self.file}: {count:,} jobs {text}" for text, count in self._notes.items()]

    def _columns(self, lines: Sequence[int], *columns: Sequence[str]) -> dict[str, Sequence[str]]:
        """Return the fields of rows; jobs have the processors that they held, not those that they asked for."""
        job, submit, wait, elapsed, allocated, _, _, requested, limit, _, status, _ = columns[:12]
        group, _, _, partition, *wishes = columns[12:]
        gpus = [wish if count in _UNKNOWN else count for count, wish in zip(allocated, requested, strict=True)]
        differs = [count != wish not in _UNKNOWN for count, wish in zip(gpus, requested, strict=True)]
        run = list(elapsed)
        for index, word in enumerate(status):
            if word in _ENDED_EARLY and (run[index] in _UNKNOWN or allocated[index] == "0"):
                run[index], gpus[index], differs[index] = "0", "", False  # it was cancelled in the queue
        waits = [not {*words}.issubset(_UNKNOWN) for words in zip(*wishes, strict=True)]
        self._count({_OTHER_SIZE: differs, _WAITS: waits})
        numbered = zip(job, lines, status, strict=True)
        return {
            # A part of a job is as a step: of no use if the job has its own line.
            "job": [f"{name}.{line}" if word in _SWF_PARTS else name for name, line, word in numbered],
            "submit": submit,
            "gpus": gpus,
            "run": _stated(run),
            "limit": _stated(limit, _UNKNOWN),
            "wait": _stated(wait),
            "tenant": _stated(group),
            "partition": _stated(partition),
            "state": [_SWF_STATES.get(word, word) for word in status],
        }

    def _count(self, flags: dict[str, list[bool]]) -> None:
        """Count the rows that notes are about, in the order of the first ones."""
        for _, text in sorted((rows.index(True), text) for text, rows in flags.items() if any(rows)):
            self._notes[text] += sum(flags[text])


def _stated(texts: Sequence[str], unknown: Sequence[str] = _UNKNOWN[:1]) -> list[str]:
    return ["" if text in unknown else text for text in texts]
