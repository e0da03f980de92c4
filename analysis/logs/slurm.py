"""Slurm: job records of sacct, the node history of sacctmgr, and the log of slurmctld.

References
----------
SchedMD Slurm, manual pages of sacct and sacctmgr, data_parser v0.0.40 ff., and slurm.conf (LogTimeFormat).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import operator
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.analysis.logs.tables import LoggedAttempt, NodeEvent, StateChange, UnusedError
from ettrick.sim.moments import StrayError
from ettrick.sim.records import MIG, NOTHING, LogError, Table, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.logs.tables import LogReader, Tables

EXPORTS = {
    "node-events": "sacctmgr -P list event all_time event=node "
    "format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User",
    "sacct": "SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter='|#' -S START -E END --format=JobIDRaw,JobID,User,"
    "Partition,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,AllocTRES,NodeList,Restarts,FailedNode",
}
"""The command that exports each log."""

# sacctmgr list event.

_EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
"""The header that an export without one would have."""


def read_node_events(log: LogReader) -> None:
    """Read the states of nodes that slurmdbd keeps; a state that still lasts has no end."""
    header = "" if "nodename" in log.first_line().lower() else _EVENTS
    needed = "node", "start", "end", "state", "cause"
    rows = log.table(*needed, header=header, free="cause", export=EXPORTS["node-events"], more=["state"])
    log.each(rows, functools.partial(_read_node_event, log, dict[tuple[str, float, str, str], int]()))


def _read_node_event(
    log: LogReader, seen: dict[tuple[str, float, str, str], int], row: Mapping[str, str], line: int
) -> None:
    rules, node, state, reason = log.rules, row["node"], row["state"], row["cause"]
    if not node or node.lower() == "nodename":
        raise UnusedError("a header that is repeated" if node else "an event of the whole cluster")
    start, end = (log.moment(row[role], line, math.nan, role) for role in ("start", "end"))
    names = log.reading.hosts.expand(node)
    if not start <= (end if end == end else math.inf):
        raise ValueError("ends before it starts" if start == start else "has no start")
    if seen.setdefault((node, start, state, reason), line) != line:
        raise UnusedError("a row that is repeated")
    if rules.node_state(state) != "down":
        what = "rows have a state that is none of a node out of service: read as outages"
        log.tables.show(log.file, what, line, state[:20])
    log.source.use(start, end)
    cause, basis = rules.cause_of(reason)
    log.tables.events += (
        NodeEvent(
            "node-events", start, end, name, cause, basis, log.file, line,
            planned=rules.is_planned(state, reason), repair_kind=rules.repair_of(reason), text=reason,
        )
        for name in names
    )  # fmt: skip


# sacct, as text and as JSON.

_GPUS = re.compile(r"gres/gpu=(\d+)")
_TYPED_GPUS = re.compile(r"\bgpu(?::([^=,:]+))?[:=](\d+)")


def _gpus(tres: str) -> tuple[int, int]:
    """Return how many whole GPUs resources have, and how many slices of GPUs, which their total counts too."""
    total, typed = _GPUS.search(tres), _TYPED_GPUS.findall(tres)
    slices = sum(int(size) for kind, size in typed if MIG.search(kind))
    return max((int(total[1]) if total else sum(int(size) for _, size in typed)) - slices, 0), slices


def read_sacct(log: LogReader) -> None:
    """Read job records of sacct -P; records whose names hold line breaks are joined."""
    lines = log.lines()
    number, first = next(lines)
    delimiter = "|#" if "|#" in first else "|"
    header = [name.strip() for name in first.split(delimiter)]
    while header and not header[-1]:  # with -p a line ends with a delimiter
        header.pop()
    # A column that was asked for twice says the same twice.
    unique = [name if name not in header[:at] else f"{name} again" for at, name in enumerate(header)]
    table = Table([(number, "|".join(unique))], log.file, _SACCT, _NEEDED, export=EXPORTS["sacct"])
    log.source.columns, columns, width = table.roles, table.columns, len(header)

    # A column that the export lacks is an empty field behind the last one.
    of_row = operator.itemgetter(*(columns.get(role, width) for role in _SACCT))
    attempts = _Attempts(log)

    def read(row: list[str], line: int) -> None:
        job, full_job, *texts, limit, elapsed, tres = of_row([*row, ""])
        job = full_job if "+" in full_job else job or full_job
        if "." in job or "." in full_job:
            raise UnusedError("steps of jobs")
        if job.lower() in _SACCT["job"]:
            raise UnusedError("a header that is repeated")
        attempts.add(line, tres, float(elapsed) if elapsed.isdigit() else math.nan, [job, *texts, limit])

    log.each(_joined(lines, delimiter, width, log), read)


_SACCT = {
    "job": ("jobidraw", "jobid"), "other": ("jobid", "jobidraw"), "submit": ("submit",), "eligible": ("eligible",),
    "start": ("start",), "end": ("end",), "state": ("state",), "nodes": ("nodelist",),
    "count": ("nnodes", "allocnodes"),
    "user": ("user",), "partition": ("partition",), "failed": ("failednode",), "restarts": ("restarts",),
    "limit": ("timelimitraw", "timelimit"), "elapsed": ("elapsedraw",), "gpus": ("alloctres", "allocgres"),
}  # fmt: skip
"""The columns of sacct for each field of a record, the plainest first."""

_NEEDED = "job", "state", "start", "end"


def _joined(
    lines: Iterator[tuple[int, str]], delimiter: str, width: int, log: LogReader
) -> Iterator[tuple[int, list[str]]]:
    """Yield records of as many fields as the header has; the lines of one are joined until there are enough.

    A line that would make too many fields begins a record of its own, and what stood before it was cut.
    """
    pending: list[str] = []
    began = 0
    for number, text in lines:
        row = _fields(text, delimiter, width)
        if not pending and (len(row) == width or not text.strip()):
            if len(row) == width:
                yield number, row
            continue
        began = began if pending else number
        fields = "\n".join([*pending, text]).split(delimiter)
        if len(fields) >= width or len(pending) >= 50:
            yield from _ended(fields, text.split(delimiter) if pending else [], (began, number), width, log)
            pending = []
        elif pending and text.count(delimiter) >= width - 2:
            log.drop("a record that was cut", began)
            pending, began = [text], number
        else:
            pending.append(text)
    if pending:
        log.drop("a record that was cut", began)


def _ended(
    fields: list[str], last: list[str], ends: tuple[int, int], width: int, log: LogReader
) -> Iterator[tuple[int, list[str]]]:
    """Yield a record of joined lines if it has the width, else the last of these lines if that has it."""
    if len(fields) == width or (len(fields) == width + 1 and not fields[-1]):
        yield ends[0], list(map(str.strip, fields[:width]))
        return
    log.drop("a record that was cut", ends[0])
    if len(last) == width:
        yield ends[1], list(map(str.strip, last))


def _fields(text: str, delimiter: str, width: int) -> list[str]:
    """Return the fields of a line, without empty ones behind the last."""
    fields = text.split(delimiter)
    while len(fields) > width and not fields[-1]:
        fields.pop()
    return list(map(str.strip, fields)) if " " in text else fields


_NEVER = frozenset((*NOTHING, "Unknown", "None", "N/A", "NONE", "UNKNOWN", "0"))
"""The words of sacct for a moment that has not come."""


class _Attempts:
    """Makes attempts of the job records of a file; equal texts are kept once."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._same: dict[str, str] = {}
        self._limits: dict[str, float] = {}
        self._gpus = functools.lru_cache(100_000)(_gpus)
        self._parts: dict[tuple[str, float, int], tuple[LoggedAttempt, set[str]]] = {}

    def add(self, line: int, tres: str, elapsed: float, texts: Sequence[str]) -> None:
        """Keep a record: its line, resources, run time [s], and as texts the other fields of `_SACCT` in order."""
        job, submit, eligible, start, end, word, nodes, count, user, partition, failed, restarts, limit = texts
        log, same = self._log, self._same.setdefault
        t_submit, t_eligible, t_start, t_end = self._moments(submit, eligible, start, end, line)
        state = log.rules.job_state(word)
        if not state:
            raise ValueError(f"an unknown state: {word[:20]}")
        t_end, elapsed = _run(t_start, t_end, elapsed)
        if nodes.startswith(("None", "(null)")):
            nodes = ""
        gpus, slices = self._gpus(tres)
        if slices:
            log.tables.show(log.file, "records have slices of GPUs (MIG): only whole GPUs count", line)
        leader, _, component = job.partition("+")
        attempt = LoggedAttempt(
            leader if component.isdigit() else job, 0, same(nodes, nodes), int(count) if count.isdigit() else 0, gpus,
            t_submit, t_eligible, t_submit if t_submit == t_start else t_start, t_end, elapsed, state,
            same(user, user), same(partition, partition), self._limit(limit, line),
            int(restarts) if restarts.isdigit() else 0, self._first_host(failed), file=log.file, line=line,
        )  # fmt: skip
        if not component.isdigit() or not self._joins(attempt, component):
            log.tables.attempts.append(attempt)
        log.source.use(t_start)
        log.source.last = max(log.source.last, t_end)

    def _moments(self, submit: str, eligible: str, start: str, end: str, line: int) -> tuple[float, ...]:
        """Return the moments of a record [s]; NaN for one that has not come."""
        read = self._log.clock.read
        try:
            t_submit = math.nan if submit in _NEVER else read(submit, line, "submit")
            t_eligible = t_submit if eligible == submit else math.nan if eligible in _NEVER else read(eligible, line)
            t_start = math.nan if start in _NEVER else read(start, line)
            return t_submit, t_eligible, t_start, math.nan if end in _NEVER else read(end, line, "end")
        except StrayError:
            raise
        except ValueError:
            raise ValueError("a moment that cannot be read") from None

    def _limit(self, text: str, line: int) -> float:
        """Return the limit of a record [s]; NaN without one. What is no limit is shown, each such text once."""
        if (seconds := self._limits.get(text)) is not None:
            return seconds
        try:
            seconds = 60 * float(text) if text.isdigit() else duration(text)
        except ValueError:
            seconds = math.nan
        if math.isnan(seconds) and text.lower() not in _NO_LIMITS:
            what = "records have a limit that is none: read as no limit"
            self._log.tables.show(self._log.file, what, line, text[:20])
        self._limits[text] = seconds
        return seconds

    def _first_host(self, text: str) -> str:
        """Return the node that failed, the first of several; the text as it is if the list was cut."""
        if "[" in text:
            with contextlib.suppress(ValueError):
                return next(iter(self._log.reading.hosts.expand(text)), "")
        return text

    def _joins(self, part: LoggedAttempt, component: str) -> bool:
        """Return whether a component of a heterogeneous job is joined to those before: one run with the GPUs of all."""
        key = part.job, part.t_submit, part.restarts
        whole, components = self._parts.setdefault(key, (part, {component}))
        if whole is part or abs(part.t_start - whole.t_start) > 60:
            self._parts[key] = part, {component}
            return False
        if component in components:
            self._log.drop("a record that is repeated", part.line, sort="normal")
            return True
        components.add(component)
        whole.nodes = ",".join(filter(None, (whole.nodes, part.nodes)))
        whole.node_count, whole.gpus = whole.node_count + part.node_count, whole.gpus + part.gpus
        whole.t_end, whole.elapsed = max(whole.t_end, part.t_end), max(whole.elapsed, part.elapsed)
        whole.blamed_node = whole.blamed_node or part.blamed_node
        kinds = self._log.rules.states
        whole.end_state = max(
            (whole.end_state, part.end_state),
            key=lambda state: (("user", "open", "fault", "node").index(kinds[state]), state != "COMPLETED"),
        )
        return True


_NO_LIMITS = frozenset(("unlimited", "partition_limit", *NOTHING))


def _run(start: float, end: float, elapsed: float) -> tuple[float, float]:
    """Return the end and the run time of a record [s]; of a run time that is stated the end follows.

    With one, an end an hour too early is one of the hour that occurs twice.
    """
    if end < start - (0 if math.isnan(elapsed) else 3600):
        raise ValueError("ends before it starts")
    if math.isnan(elapsed):
        return end, end - start
    return (start + elapsed if abs(abs(end - start - elapsed) - 3600) <= 1 else end), elapsed


def close(tables: Tables) -> None:
    """Give the runs of each job their numbers, and say what an export lacks.

    Raises
    ------
    LogError
        If ``sacct -T`` has cut the runs.
    """
    rows = tables.attempts
    if not rows:
        return
    _refuse_cut(rows)
    keys = np.fromiter((hash(row.job) for row in rows), dtype=np.int64, count=len(rows))
    _, key, count = np.unique(keys, return_inverse=True, return_counts=True)
    is_alone = count[key] == 1
    runs, repeated = _numbered(tables, np.flatnonzero(~is_alone).tolist())
    lacking: Counter[str] = Counter()
    for attempts in runs:
        again = max(attempts, key=lambda row: row.restarts)
        lacking[again.file] += len(attempts) <= again.restarts
    lacking.update(row.file for row, alone in zip(rows, is_alone.tolist(), strict=True) if alone and row.restarts)
    if repeated:
        dropped = Counter(rows[index].file for index in repeated)
        for source in tables.sources:
            source.rows -= dropped[source.file]
        rows[:] = [row for index, row in enumerate(rows) if index not in repeated]
    tables.findings += [
        f"{file}: {number:,} jobs were restarted and their earlier runs are missing, with the failures that ended "
        f"them; export with sacct -D"
        for file, number in lacking.items()
        if number
    ]


def _numbered(tables: Tables, indices: Sequence[int]) -> tuple[list[list[LoggedAttempt]], set[int]]:
    """Give the runs of some jobs their numbers; return them by job, and which attempts are repeated."""
    runs: dict[str, dict[tuple[str, float], LoggedAttempt]] = defaultdict(dict)
    repeated = set()
    for index in indices:
        row = tables.attempts[index]
        of_job, key = runs[row.job], (str(row.t_start), row.t_submit)
        if key in of_job:
            repeated.add(index)
            tables.drop(row.file, "a record that is repeated", row.line, sort="normal")
        else:
            row.attempt = len(of_job)
            of_job[key] = row
    return [list(of_job.values()) for of_job in runs.values()], repeated


def _refuse_cut(rows: Sequence[LoggedAttempt]) -> None:
    """Refuse a file of which many jobs start at the same moment, the first one."""
    for file, group in itertools.groupby(rows, key=lambda row: row.file):
        starts = np.array([row.t_start for row in group])
        starts = starts[~np.isnan(starts)]
        same = int((starts == starts.min()).sum()) if len(starts) else 0
        if same >= max(20, 0.05 * len(starts)):
            raise LogError(
                f"{file}: {same:,} of {len(starts):,} jobs start at the first moment of the file; sacct -T has cut "
                f"their run times: export without -T"
            )


def read_sacct_json(log: LogReader) -> None:
    """Read job records of sacct --json (data_parser v0.0.37 and later)."""
    jobs = _json_jobs(log)
    attempts = _Attempts(log)

    def read(job: Mapping[str, Any], number: int) -> None:
        times, state = job["time"], job["state"]["current"]
        moments = [str(_plain(times.get(name)) or "") for name in ("submission", "eligible", "start", "end")]
        elapsed, limit = (_plain(times.get(name)) for name in ("elapsed", "limit"))
        texts = [str(job.get(key) or "") for key in ("nodes", "user", "partition", "failed_node")]
        counts = [str(_plain(job.get(key)) or 0) for key in ("allocation_nodes", "restart_cnt")]
        run = math.nan if elapsed is None else float(elapsed)
        word = state[0] if isinstance(state, list) else str(state)
        fields = [_name(job), *moments, word, texts[0], counts[0], *texts[1:], counts[1]]
        allocated = job.get("tres", {}).get("allocated") or []
        resources = ",".join(f"{item['type']}/{item.get('name')}={_plain(item['count']) or 0}" for item in allocated)
        try:
            attempts.add(number, resources, run, [*fields, "" if limit is None else str(limit)])
        except ValueError as error:
            raise UnusedError(str(error), "unusable") from None

    log.each(enumerate(jobs, 1), read, "a job without its fields")


def _json_jobs(log: LogReader) -> list[Any]:
    """Return the jobs of a file of sacct --json."""
    try:
        return list(json.loads("\n".join(text for _, text in log.lines()))["jobs"])
    except json.JSONDecodeError as error:
        raise LogError(f"{log.file}:{error.lineno}: is not complete JSON ({error.msg.lower()})") from None
    except (TypeError, KeyError, RecursionError):
        raise LogError(f"{log.file}:1: has no list of jobs; export it with sacct -a -D --json") from None


def _name(job: Mapping[str, Any]) -> str:
    """Return the number of a job; of a component of a heterogeneous one as sacct writes it, ``200+1``."""
    parts = job.get("het") or {}
    leader = _plain(parts.get("job_id"))
    return f"{leader}+{_plain(parts.get('job_offset')) or 0}" if leader else str(job["job_id"])


def _plain(value: Any) -> Any:
    """Return a number that may be wrapped as ``{"set": true, "infinite": false, "number": 5}``."""
    if isinstance(value, dict):
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return value


# slurmctld.log.

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_SYSLOG = re.compile(rb"(?:<\d+>)?([A-Z][a-z]{2} [ \d]\d [\d:]{8}) ")


def read_slurmctld(log: LogReader) -> None:
    """Read what the controller does with nodes and says of them; rules say which lines these are."""
    source, hits, number, jumps, last = log.source, 0, 0, 0, -math.inf

    def read(raw: bytes, line: int) -> None:
        nonlocal hits, number, jumps, last
        hits, number = hits + 1, line
        rule, match = _rule_of(log.rules.slurmctld, raw)
        if rule is None or match is None:
            raise UnusedError("other lines of slurmctld")
        try:
            moment = _moment_of(log, raw, line)
        except ValueError as error:
            reason = str(error) if "year" in str(error) else f"no moment that can be read; {_FORMAT}"
            raise ValueError(reason) from None
        try:
            names = () if rule["does"] == "runs" else log.reading.hosts.expand(match["node"])
        except ValueError:
            raise ValueError("a list of hosts that was cut") from None
        jumps += moment < last - 60
        last = moment
        source.saw(moment)
        _change(log, rule, match, moment, names, line)

    log.each(log.holding(dict.fromkeys(rule["holds"] for rule in log.rules.slurmctld)), read)
    for line in log.ends:
        with contextlib.suppress(ValueError):
            source.saw(_moment_of(log, line, number))
    if source.lines > hits:
        log.drop("other lines of slurmctld", 1, source.lines - hits, sort="normal")
    if jumps:
        log.tables.findings.append(f"{log.file}: on {jumps:,} lines the clock falls by more than a minute")


_FORMAT = "set LogTimeFormat=rfc5424_ms"


def _moment_of(log: LogReader, raw: bytes, line: int) -> float:
    """Return the moment of a line [s since 1970]: its own, or that of syslog."""
    if (stamp := _STAMP.search(raw, 0, 64)) is not None:
        return log.clock.read(stamp[0].decode().replace(",", "."), line, "log")
    if (stamp := _SYSLOG.match(raw)) is None:
        raise ValueError("none")
    if not log.clock.year:
        raise ValueError(f"a date without a year; state it with --year, or {_FORMAT}")
    return log.clock.syslog(stamp[1].decode(), line, "log")


def _rule_of(rules: Sequence[dict[str, Any]], raw: bytes) -> tuple[dict[str, Any] | None, re.Match[str] | None]:
    """Return the first rule that matches a line, and how."""
    candidates = [rule for rule in rules if rule["holds"] in raw]
    text = raw.decode("utf-8", errors="replace").rstrip()
    return next(((rule, match) for rule in candidates if (match := rule["match"].search(text))), (None, None))


def _change(
    log: LogReader, rule: dict[str, Any], match: re.Match[str], moment: float, names: Sequence[str], line: int
) -> None:
    """Keep what a line says of nodes; what no rule knows is shown without their names."""
    rules, fields, does = log.rules, match.groupdict(), str(rule["does"])
    if does == "state":
        does = rules.node_state(fields["state"]) or "show"
    if does == "none":
        log.drop("other lines of slurmctld", line, sort="normal")
        return
    if does == "show":
        text = re.sub(r"\d+", "#", match.string.partition(" ")[2].replace(fields["node"], "NODE"))
        log.drop(f"a fault that no rule reads: {text[:80]}", line, sort="unread")
        return
    log.source.rows += 1
    if does == "runs":
        log.reading.starts.append((moment, fields["node"]))
    elif does == "job":
        log.tables.blamed.setdefault(fields["job"], []).extend((moment, name) for name in names)
    else:
        state, reason = fields.get("state") or "", fields.get("reason") or str(rule.get("reason", ""))
        cause, basis = rules.cause_of(reason)
        responded = float(fields.get("responded") or "nan")
        log.reading.points += (
            StateChange(
                "slurmctld", moment, math.nan, name, cause, basis, log.file, line,
                t_lo=responded if 0 < responded < moment else math.nan, planned=rules.is_planned(state, reason),
                repair_kind=rules.repair_of(reason), text=reason, does=does, key="state",
            )
            for name in names
        )  # fmt: skip
