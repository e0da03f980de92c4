"""Training: ml-goodput-measurement, reports of torchrun, restarts of NVIDIA Resiliency Extension; and goodput.

The readers come first, then `summary`: what the steps of a job say. Goodput by steps is the steps that remain, times
the time of a step, over the wall time: slow steps lower it. Goodput in time is the time spent in steps that remain over
the wall time: a slow step is as good as a fast one.

References
----------
Google, ml-goodput-measurement; PyTorch, torch.distributed.elastic.multiprocessing.errors; NVIDIA,
nvidia-resiliency-ext.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.amounts import percent_text
from ettrick.analysis.logs import estimate
from ettrick.analysis.logs.events import largest
from ettrick.analysis.logs.tables import LoggedAttempt, NodeEvent, SpanEdge, TrainingPhase, UnusedError, utc
from ettrick.analysis.results.fitted import TrainingSummary
from ettrick.sim.moments import EPOCH, since_1970
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.tables import LogReader, ReaderContext, Tables

    FloatArray = NDArray[np.float64]

# ml-goodput-measurement: JSON objects, as they were written or as a collector wrapped them.


_RANKS = {"job_end_time": 0, "job_start_time": 2, "step_start_time": 4}

_SPANS = {
    "tpu_init": "initialize",
    "training_prep": "initialize",
    "data_loading": "initialize",
    "custom_badput_event": "custom",
}

_WRAPPERS = ("jsonPayload", "json_payload", "textPayload", "message", "MESSAGE", "log", "line", "_source", "_raw")
"""Keys under which collectors keep what a program logged, as an object or as text: Cloud Logging, docker, journald,
Loki, Elasticsearch, Splunk."""


@functools.lru_cache(1024)
def _edge(key: str) -> tuple[int, str]:
    """Return the rank and the span of a key such as ``data_loading_end_time``; no span if it is none of these."""
    span, _, edge = key.removesuffix("_time").rpartition("_")
    if not key.endswith("_time") or edge not in ("start", "end"):
        return -1, ""
    return _RANKS.get(key, 1 if edge == "end" else 3), span


def read_goodput(log: LogReader) -> None:
    """Read starts of jobs, spans and steps, in any order; `close` makes runs of those of all files."""
    is_json = re.match(r"\ufeff?\s*(\{|\[\s*(\{|$))", log.first_line())
    for line, value in log.documents() if is_json else _printed(log):
        for record in value if isinstance(value, list) else [value]:
            try:
                entries = _entries(record, log, line)
            except (LookupError, TypeError, RecursionError, OverflowError, json.JSONDecodeError):
                log.drop("no entry of ml-goodput-measurement", line)
                continue
            except ValueError as error:
                log.drop(re.sub(r"^'.*?' ", "a value ", str(error), flags=re.DOTALL), line)
                continue
            if not entries:
                log.drop("an entry without a moment", line)
                continue
            log.reading.entries += entries
            log.source.use(*(entry.moment for entry in entries))


def _printed(log: LogReader) -> Iterator[tuple[int, Any]]:
    """Yield the objects of JSON at the ends of lines that a program printed, with their lines."""
    for line, text in log.lines():
        try:
            yield line, json.loads(text[text.index("{") :])
        except (ValueError, RecursionError):
            log.drop("other lines of training", line)


def _entries(record: Any, log: LogReader, line: int) -> list[SpanEdge]:
    """Return what a record says, without what collectors wrap it in."""
    while "job_name" not in record:
        record = record[next((key for key in _WRAPPERS if key in record), "job_name")]
        if isinstance(record, str):
            record = json.loads(record[record.find("{") :])
    job, entries = str(record["job_name"]), []
    for key, value in record.items():
        rank, span = _edge(key)
        if not span or value is None:
            continue
        is_plain = type(value) is float and EPOCH[0] <= value <= log.clock.latest
        moment = value if is_plain else since_1970(repr(log.moment(str(value), line)))
        step = int(record["step_count"]) if rank == 4 else -1
        entries.append(SpanEdge(job, moment, rank, step, span, log.file, line))
    return entries


def _make_runs(reading: ReaderContext) -> None:
    """Make phases of the entries of all files; a start of a job begins another run of it."""
    reading.entries.sort()
    for _, entries in itertools.groupby(reading.entries, key=lambda entry: entry.job):
        run, last, begins = 0, (), {}  # type: int, tuple[object, ...], dict[str, SpanEdge]
        for entry in entries:
            key = entry[:5]
            if key == last:
                reading.tables.drop(entry.file, "an entry that is repeated", entry.line, sort="normal")
                continue
            if entry.rank == 2:
                run, begins = run + bool(last), {}
            last = key
            phase = _phase_ended_by(entry, begins, run)
            if phase is not None:
                reading.tables.phases.append(phase)
            elif entry.rank == 1:
                reading.tables.drop(entry.file, "an end without its start", entry.line)


def _phase_ended_by(entry: SpanEdge, begins: dict[str, SpanEdge], run: int) -> TrainingPhase | None:
    """Return the phase that an entry ends, and keep the entry if it begins one."""
    job, moment, rank, step, span, file, line = entry
    if span == "job":
        return TrainingPhase(job, run, "teardown" if rank == 0 else "start", moment, moment, file=file, line=line)
    begin = begins.pop(span, None)
    if rank != 1:
        begins[span] = entry
    if rank == 4:
        first = entry if begin is None else begin
        is_later = begin is None or step > begin.step
        return TrainingPhase(job, run, "step", first.moment, moment, first.step, step, file, line) if is_later else None
    if rank == 3 or begin is None:
        return None
    return TrainingPhase(job, run, _SPANS.get(span, span), begin.moment, moment, file=file, line=begin.line)


# torchrun: the first failure that an agent saw.

ROOT = "Root Cause (first observed failure)"

_FIELDS = {
    "time": re.compile(r"\btime +: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)"),
    "host": re.compile(r"\bhost +: ([\w.-]+)"),
    "exitcode": re.compile(r"\bexitcode +: (-?\d+)"),
}


def read_torchrun(log: LogReader) -> None:
    """Read the first failures that agents report; of the agents of a job the earliest counts, see `events.blame`."""
    hits = first_line = 0
    fields: dict[str, str] = {}
    for number, text in log.lines():
        if ROOT in text:
            if first_line:
                log.drop("a report of torchrun that was cut", first_line)
            first_line, fields = number, {}
        if not first_line:
            continue
        hits += 1
        matches = {name: match for name, pattern in _FIELDS.items() if (match := pattern.search(text))}
        fields = {name: "T".join(match.groups()) for name, match in matches.items()} | fields
        if len(fields) == len(_FIELDS):
            _report(log, fields, number, first_line)
            first_line = 0
        elif number - first_line > 12:
            log.drop("a report of torchrun that was cut", first_line)
            first_line = 0
    if first_line:
        log.drop("a report of torchrun that was cut", first_line)
    if log.source.lines > hits:
        log.drop("other lines of training", 1, log.source.lines - hits, sort="normal")


def _report(log: LogReader, fields: Mapping[str, str], number: int, first_line: int) -> None:
    """Keep the failure that a report tells, which begins on one line and ends on another."""
    try:
        moment = log.clock.read(fields["time"], number, "time")
    except ValueError:
        log.drop("a moment that cannot be read", number)
        return
    log.source.use(moment)
    log.tables.events.append(
        NodeEvent("torchrun", moment, moment, fields["host"], "unknown", f"exit {fields['exitcode']}", log.file,
                  first_line, "job", severity="info", is_fault=True)
    )  # fmt: skip


# NVIDIA Resiliency Extension: events of ft_launcher, and what each cycle was.

NVRX = re.compile(
    r" Cycle: (?P<cycle>\d+) Event: (?P<event>\w+) Node: \S+ .*\bTime: (?P<day>\d{4}-\d\d-\d\d) (?P<time>[\d:.]+) UTC"
)

_STRETCHES = (
    ("teardown", "failure_detected", "worker_terminated"),
    ("initialize", "rendezvous_started", "worker_start_completed"),
)


def read_nvrx(log: LogReader) -> None:
    """Read the phases of restarts, each from the first rank that begins it to the last that is done."""
    moments: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for number, text in log.lines():
        match = NVRX.search(text)
        if match is None:
            if text.strip():
                log.drop("other lines of training", number, sort="normal")
            continue
        try:
            moment = log.clock.read(f"{match['day']}T{match['time']}+00:00", number)
        except ValueError:
            log.drop("a moment that cannot be read", number)
            continue
        log.source.use(moment)
        moments[int(match["cycle"]), match["event"]].append((moment, number))
    job = re.sub(r"[.].*", "", Path(log.file).name)
    for cycle, (phase, first, last) in itertools.product(sorted({cycle for cycle, _ in moments}), _STRETCHES):
        if (cycle, first) in moments and (cycle, last) in moments:
            (begin, line), (end, _) = min(moments[cycle, first]), max(moments[cycle, last])
            if end >= begin:
                log.tables.phases.append(TrainingPhase(job, cycle, phase, begin, end, file=log.file, line=line))


def read_cycles(log: LogReader) -> None:
    """Read cycle_info of ft_launcher: which nodes ran between two restarts of one job."""

    def read(entry: Mapping[str, Any], line: int) -> None:
        try:
            cycle = _cycle(log, entry, line)
        except ValueError:
            raise ValueError("no entry of cycle_info") from None
        if math.isnan(cycle.t_start) or cycle.t_end < cycle.t_start:
            raise UnusedError("has no start" if math.isnan(cycle.t_start) else "ends before it starts", "unusable")
        log.source.use(cycle.t_start, cycle.t_end)
        log.reading.cycles.append(cycle)

    log.each(log.documents(), read, "no entry of cycle_info")


def _cycle(log: LogReader, entry: Mapping[str, Any], line: int) -> LoggedAttempt:
    """Return what ran in a cycle; the moments of one without an offset are of UTC."""
    stated = (str(entry[key] or "") for key in ("cycle_start_time", "cycle_end_time"))
    zoned = (text if not text or re.search(r"Z$|[+-]\d\d:?\d\d$", text) else f"{text}Z" for text in stated)
    begin, end = (log.clock.read(text, line) if text else math.nan for text in zoned)
    nodes = entry["active_nodes"]
    nodes = ",".join(map(str, nodes)) if isinstance(nodes, list) else str(nodes or "")
    ranks = entry.get("active_ranks")
    count = len(ranks) if isinstance(ranks, list) else ranks if isinstance(ranks, int) else 0
    size, job = len(log.reading.hosts.expand(nodes)), str(entry["job_id"])
    return LoggedAttempt(
        job, int(entry["cycle_number"]), nodes, size, count, math.nan, math.nan, begin, end, end - begin, "",
        file=log.file, line=line,
    )  # fmt: skip


def close(reading: ReaderContext) -> None:
    """Make runs of what training logs say of steps, and put cycles in the place of those of the scheduler."""
    _make_runs(reading)
    _place_cycles(reading)


def _place_cycles(reading: ReaderContext) -> None:
    """Put cycles in the place of the runs of the scheduler that they are parts of.

    A cycle that another one follows failed. The last one ended as the scheduler says, or completed if it does not.
    """
    if not reading.cycles:
        return
    cycles: dict[str, list[LoggedAttempt]] = defaultdict(list)
    for cycle in reading.cycles:
        cycles[cycle.job].append(cycle)
    attempts = [attempt for attempt in reading.tables.attempts if not _replaced(attempt, cycles.get(attempt.job, ()))]
    for of_job in cycles.values():
        of_job.sort(key=lambda cycle: cycle.t_start)
        _end_each(of_job)
        attempts += [replace(cycle, attempt=number) for number, cycle in enumerate(of_job)]
    reading.tables.attempts[:] = attempts


def _replaced(attempt: LoggedAttempt, cycles: Iterable[LoggedAttempt]) -> bool:
    """Give the cycles within a run of the scheduler what it says of them; return whether there are any."""
    over = math.inf if math.isnan(attempt.t_end) else attempt.t_end
    within = [cycle for cycle in cycles if attempt.t_start - 300 <= cycle.t_start <= over]
    if not within:
        return False
    for cycle in within:
        cycle.user, cycle.partition, cycle.limit = attempt.user, attempt.partition, attempt.limit
        cycle.gpus, cycle.end_state = cycle.gpus or attempt.gpus, "FAILED"
    first, last = (choose(within, key=lambda cycle: cycle.t_start) for choose in (min, max))
    first.t_submit, first.t_eligible = attempt.t_submit, attempt.t_eligible
    last.end_state, last.blamed_node = attempt.end_state, attempt.blamed_node
    return True


def _end_each(cycles: Sequence[LoggedAttempt]) -> None:
    """Give the cycles of a job, in order, the ends that follow from the next one."""
    for cycle, after in itertools.zip_longest(cycles, cycles[1:]):
        last_state = "RUNNING" if math.isnan(cycle.t_end) else "COMPLETED"
        cycle.end_state = cycle.end_state or ("FAILED" if after else last_state)
        if after and math.isnan(cycle.t_end):
            cycle.t_end, cycle.elapsed = after.t_start, after.t_start - cycle.t_start


# What steps say: the time of one, restarts, checkpoints, and goodput.

WEEK = 7 * DAY


class StepStretches(NamedTuple):
    """Stretches of steps in order of time, each from `begin` to `end` [s], shape (n,) each.

    Parameters
    ----------
    ran, effective
        Steps, and those that were not run again later; parts of steps where a stretch was cut.
    """

    begin: FloatArray
    end: FloatArray
    ran: FloatArray
    effective: FloatArray

    @classmethod
    def of(cls, phases: Iterable[TrainingPhase], low: float = -math.inf, high: float = math.inf) -> StepStretches:
        """Return the stretches of phases between two moments [s], as if nothing had been logged outside of them."""
        spans = sorted((p.t0, p.t1, p.first_step, p.last_step) for p in phases if p.last_step > p.first_step)
        begin, end, first, last = np.array(spans, dtype=np.float64).reshape(-1, 4).T
        rate = (last - first) / np.maximum(end - begin, 1e-9)
        cut_begin, cut_end = np.maximum(begin, low), np.minimum(end, high)
        first, last = first + rate * (cut_begin - begin), last - rate * (end - cut_end)
        inside = cut_end > cut_begin
        begin, end, first, last = (values[inside] for values in (cut_begin, cut_end, first, last))
        lowest_after = np.append(np.minimum.accumulate(first[::-1])[::-1], math.inf)[1:]
        return cls(begin, end, last - first, np.maximum(np.minimum(last, lowest_after) - first, 0.0))

    @property
    def times(self) -> FloatArray:
        """Time of a step in each stretch [s]."""
        return (self.end - self.begin) / self.ran

    def within(self, low: float, high: float) -> StepStretches:
        """Return what lies between two moments [s]; what was run again after them does not remain."""
        begin, end = np.maximum(self.begin, low), np.minimum(self.end, high)
        share = np.clip(end - begin, 0, None) / np.maximum(self.end - self.begin, 1e-9)
        seen = share > 0
        return StepStretches(begin[seen], end[seen], (self.ran * share)[seen], (self.effective * share)[seen])


def phases_of(tables: Tables, name: str = "") -> list[TrainingPhase]:
    """Return the phases of a job, or of the one with most of them where training logs have no job of this name."""
    jobs: dict[str, list[TrainingPhase]] = defaultdict(list)
    for phase in tables.phases:
        jobs[phase.job].append(phase)
    if len(jobs) > 1 and name not in jobs:
        tables.findings.append(f"training logs are of {len(jobs)} jobs; goodput is that of the one with most lines")
    return jobs[name] if name in jobs else max(jobs.values(), key=len, default=[])


def of_steps(phases: Iterable[TrainingPhase]) -> list[TrainingPhase]:
    """Return the phases that are steps."""
    return [phase for phase in phases if phase.phase == "step"]


def summary(tables: Tables, history: History) -> TrainingSummary | None:
    """Return what the steps of the job with most of them say in the window of a history."""
    phases = phases_of(tables)
    if not phases:
        return None
    low, high = _ends(phases, history)
    steps = StepStretches.of(of_steps(phases), low, high)
    if not len(steps.ran):
        tables.findings.append("the training log has no two steps in the window: nothing is measured by it")
        return None
    runs = _runs(phase for phase in phases if low <= phase.t0 < high)
    step = float(np.median(steps.times))
    starts = [(min(steps_of, key=lambda phase: phase.t0), run) for run in runs.values() if (steps_of := of_steps(run))]
    restarts = [first.t0 - phase.t0 for first, run in starts for phase in run if phase.phase == "start"]
    tables.findings += _drift(steps)
    again = [first.first_step for first, _ in starts[1:] if first.first_step > 0]
    every = functools.reduce(math.gcd, again) * step if len(again) >= 3 else None
    return TrainingSummary(
        attempts=len(runs),
        step_time_s=step,
        restart_s=float(np.median(restarts)) if restarts else None,
        checkpoint_s=every,
        lost_s=max(float((steps.ran - steps.effective).sum()) * step, _rolled_back(tables, runs)),
        goodput=min(float(steps.effective.sum()) * step / (high - low), 1.0),
        goodput_in_time=float(steps.effective @ steps.times) / (high - low),
        weekly_goodput=_weekly(steps, history.start, high, step),
    )


def _weekly(steps: StepStretches, start: float, high: float, step: float) -> list[float | None]:
    """Return the goodput by steps of each whole week from a moment to another [s]."""
    weeks = np.arange(start, max(high - WEEK, start) + 1, WEEK).tolist()
    return [min(float(steps.within(week, week + WEEK).effective.sum()) * step / WEEK, 1.0) for week in weeks]


def _ends(phases: Sequence[TrainingPhase], history: History) -> tuple[float, float]:
    """Return from when to when phases lie in the window of a history [s]."""
    first, last = min(phase.t0 for phase in phases), max(phase.t1 for phase in phases)
    return max(first, history.start), min(last, history.end)


def _runs(phases: Iterable[TrainingPhase]) -> dict[int, list[TrainingPhase]]:
    """Return phases by the run that they are of."""
    runs: dict[int, list[TrainingPhase]] = defaultdict(list)
    for phase in phases:
        runs[phase.attempt].append(phase)
    return runs


LEAST_DRIFT = 0.005
"""Change of the time of a step below which it is none."""


def _drift(steps: StepStretches) -> list[str]:
    """Return since when steps take longer, or less, by the medians of days."""
    days = np.floor_divide((steps.begin + steps.end) / 2, DAY)
    present = np.unique(days)
    medians = np.array([np.median(steps.times[days == day]) for day in present])
    change = estimate.level_change(medians)
    size = change.after / change.before - 1 if change is not None else 0.0
    if change is None or change.chance > estimate.FALSE_DRIFTS or abs(size) < LEAST_DRIFT:
        return []
    first, last, date = (utc(DAY * present[at])[:10] for at in (0, -1, change.at))
    how = f"steadily from {first} to {last}" if change.steady else f"on {date}"
    return [
        f"step time: from {change.before:.4g} to {change.after:.4g} s ({percent_text(size, 1, '+')}), {how}; the "
        "scenario uses the median"
    ]


def _rolled_back(tables: Tables, runs: Mapping[int, list[TrainingPhase]]) -> float:
    """Return the time from the step that each next run began with to the end of the run before, by job records [s]."""
    ends = sorted((a.t_start, a.t_end) for a in largest(tables.attempts) if not math.isnan(a.t_end))
    starts = np.array([start for start, _ in ends])
    total = 0.0
    for run, after in itertools.pairwise(runs[number] for number in sorted(runs)):
        begin = min(phase.t0 for phase in run)
        index = int(np.searchsorted(starts, begin + 300)) - 1
        if index >= 0 and abs(ends[index][0] - begin) <= 300:
            total += max(ends[index][1] - _moment_of_return(run, after), 0.0)
    return total


def _moment_of_return(run: Iterable[TrainingPhase], after: Iterable[TrainingPhase]) -> float:
    """Return when a run was at the step that the next one begins with [s]; never is infinite."""
    first = min((phase.first_step for phase in of_steps(after)), default=-1)
    steps = of_steps(run)
    reached = max(steps, key=lambda phase: phase.last_step, default=None)
    if reached is None or not 0 <= first <= reached.last_step:
        return math.inf
    return next((phase.t0 for phase in steps if phase.first_step <= first < phase.last_step), reached.t1)
