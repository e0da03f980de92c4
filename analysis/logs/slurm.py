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

from ettrick.analysis.logs.health import StateChange
from ettrick.analysis.logs.tables import LoggedAttempt, NodeEvent
from ettrick.sim.records import MIG, NOTHING, LogError, StrayError, Table, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.analysis.logs.files import LogReader
    from ettrick.analysis.logs.tables import Tables

EXPORTS = {
    "node-events": "sacctmgr -P list event all_time event=node "
    "format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User",
    "sacct": "SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter='|#' -S START -E END --format=JobIDRaw,JobID,User,"
    "Partition,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,AllocTRES,NodeList,Restarts,FailedNode",
}
"""What a user types to get a log."""

# sacctmgr list event.

_EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
"""The header that an export without one would have."""


def read_node_events(log: LogReader) -> None:
    """Read the states of nodes that slurmdbd keeps; a state that still lasts has no end."""
    rules, source = log.rules, log.source
    header = "" if "nodename" in log.first_line().lower() else _EVENTS
    seen: dict[tuple[str, float, str, str], int] = {}
    needed = "node", "start", "end", "state", "cause"
    for number, row in log.table(*needed, header=header, free="cause", export=EXPORTS["node-events"], more=["state"]):
        node, state, reason = row["node"], row["state"], row["cause"]
        if not node or node.lower() == "nodename":
            log.drop("a header that is repeated" if node else "an event of the whole cluster", number, sort="normal")
            continue
        try:
            start, end = (log.moment(row[role], number, math.nan, role) for role in ("start", "end"))
            names = log.reading.hosts.expand(node)
        except LogError:
            raise
        except ValueError as error:
            log.drop(str(error), number)
            continue
        if not start <= (end if end == end else math.inf):
            log.drop("ends before it starts" if start == start else "has no start", number)
            continue
        if seen.setdefault((node, start, state, reason), number) != number:
            log.drop("a row that is repeated", number, sort="normal")
            continue
        if rules.node_state(state) != "down":
            log.tables.show(
                log.file, "rows have a state that is none of a node out of service: read as outages", number, state[:20]
            )
        source.rows += 1
        source.saw(start, end)
        cause, basis = rules.cause_of(reason)
        log.tables.events += (
            NodeEvent(
                "node-events", start, end, name, cause, basis, log.file, number,
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
    for number, row in _joined(lines, delimiter, width, log):
        row.append("")
        job, other, *texts, limit, elapsed, tres = of_row(row)
        job = other if "+" in other else job or other
        if "." in job or "." in other:
            log.drop("steps of jobs", number, sort="normal")
            continue
        if job.lower() in _SACCT["job"]:
            log.drop("a header that is repeated", number, sort="normal")
            continue
        attempts.add(number, tres, float(elapsed) if elapsed.isdigit() else math.nan, [job, *texts, limit])


_SACCT = {
    "job": ("jobidraw", "jobid"), "other": ("jobid", "jobidraw"), "submit": ("submit",), "eligible": ("eligible",),
    "start": ("start",), "end": ("end",), "state": ("state",), "nodes": ("nodelist",),
    "count": ("nnodes", "allocnodes"),
    "user": ("user",), "partition": ("partition",), "failed": ("failednode",), "restarts": ("restarts",),
    "limit": ("timelimitraw", "timelimit"), "elapsed": ("elapsedraw",), "gpus": ("alloctres", "allocgres"),
}  # fmt: skip
"""Of each field of a record the columns of sacct, the plainest first."""

_NEEDED = "job", "state", "start", "end"


def _joined(
    lines: Iterator[tuple[int, str]], delimiter: str, width: int, log: LogReader
) -> Iterator[tuple[int, list[str]]]:
    """Yield records of as many fields as the header has; the lines of one are joined until there are enough.

    A line that would make too many fields begins a record of its own, and what stood before it was cut.
    """
    held, began, parts = "", 0, 0
    for number, text in lines:
        row = text.split(delimiter)
        while len(row) > width and not row[-1]:
            row.pop()
        if not held:
            if len(row) == width:
                yield number, [each.strip() for each in row] if " " in text else row
                continue
            if not text.strip():
                continue
        joined = f"{held}\n{text}" if held else text
        row = joined.split(delimiter)
        if len(row) < width and parts < 50:
            if text.count(delimiter) >= width - 2 and held:
                log.drop("a record that was cut", began)
                held, began, parts = text, number, 1
            else:
                held, began, parts = joined, began if held else number, parts + 1
            continue
        if len(row) == width or (len(row) == width + 1 and not row[-1]):
            yield began or number, [each.strip() for each in row[:width]]
        else:
            log.drop("a record that was cut", began or number)
            alone = text.split(delimiter)
            if held and len(alone) == width:
                yield number, [each.strip() for each in alone]
        held, began, parts = "", 0, 0
    if held:
        log.drop("a record that was cut", began)


_NEVER = frozenset((*NOTHING, "Unknown", "None", "N/A", "NONE", "UNKNOWN", "0"))
"""What sacct writes for a moment that has not come."""


class _Attempts:
    """Makes attempts of the job records of a file; equal texts are kept once."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._same: dict[str, str] = {}
        self._limits: dict[str, float] = {}
        self._states: dict[str, str] = {}
        self._gpus = functools.lru_cache(100_000)(_gpus)
        self._parts: dict[tuple[str, float, int], tuple[LoggedAttempt, set[str]]] = {}

    def add(self, line: int, tres: str, elapsed: float, texts: Sequence[str]) -> None:
        """Keep a record: its line, resources, run time [s], and as texts the other fields of `_SACCT` in order."""
        job, submit, eligible, start, end, state, nodes, count, user, partition, failed, restarts, limit = texts
        log, source, read = self._log, self._log.source, self._log.clock.read
        try:
            t_submit = math.nan if submit in _NEVER else read(submit, line, "submit")
            t_eligible = t_submit if eligible == submit else math.nan if eligible in _NEVER else read(eligible, line)
            t_start = math.nan if start in _NEVER else read(start, line)
            t_end = math.nan if end in _NEVER else read(end, line, "end")
        except LogError:
            raise
        except ValueError as error:
            log.drop(str(error) if isinstance(error, StrayError) else "a moment that cannot be read", line)
            return
        word = state
        state = self._states.get(word, "")
        if not state:
            state = self._states[word] = log.rules.job_state(word)
        if not state:
            log.drop(f"an unknown state: {word[:20]}", line)
            return
        # With a run time, an end an hour too early is one of the hour that occurs twice.
        if t_end < t_start - (0 if elapsed != elapsed else 3600):
            log.drop("ends before it starts", line)
            return
        if elapsed != elapsed:
            elapsed = t_end - t_start
        elif abs(abs(t_end - t_start - elapsed) - 3600) <= 1:
            t_end = t_start + elapsed
        if t_submit == t_start:
            t_start = t_submit  # one object for both
        same = self._same.setdefault
        if nodes.startswith(("None", "(null)")):
            nodes = ""
        with contextlib.suppress(ValueError):  # several, or a list that was cut
            failed = next(iter(log.reading.hosts.expand(failed)), "") if "[" in failed else failed
        seconds = self._limits.get(limit)
        if seconds is None:
            seconds = self._limits[limit] = _limit(limit)
            if math.isnan(seconds) and limit.lower() not in _NO_LIMITS:
                log.tables.show(log.file, "records have a limit that is none: read as no limit", line, limit[:20])
        gpus, slices = self._gpus(tres)
        if slices:
            log.tables.show(log.file, "records have slices of GPUs (MIG): only whole GPUs count", line)
        leader, _, component = job.partition("+")
        attempt = LoggedAttempt(
            leader if component.isdigit() else job, 0, same(nodes, nodes), int(count) if count.isdigit() else 0, gpus,
            t_submit, t_eligible, t_start, t_end, elapsed, same(state, state), same(user, user),
            same(partition, partition), seconds, int(restarts) if restarts.isdigit() else 0, failed, file=log.file,
            line=line,
        )  # fmt: skip
        if not component.isdigit() or not self._joins(attempt, component):
            log.tables.attempts.append(attempt)
        source.rows += 1
        if t_start < source.first:
            source.first = t_start
        if t_start > source.last:
            source.last = t_start
        if t_end > source.last:
            source.last = t_end

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


def _limit(text: str) -> float:
    """Return a limit [s] of a number of minutes or a duration; NaN if there is none."""
    try:
        return 60 * float(text) if text.isdigit() else duration(text)
    except ValueError:
        return math.nan


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
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] - 1, append=keys[order[-1]] - 1))
    several = np.diff(edges) > 1
    alone = np.ones(len(rows), dtype=np.bool_)
    repeated: set[int] = set()
    lacking: Counter[str] = Counter()
    for begin, end in zip(edges[:-1][several].tolist(), edges[1:][several].tolist(), strict=True):
        alone[order[begin:end]] = False
        runs: dict[str, dict[tuple[str, float], LoggedAttempt]] = defaultdict(dict)
        for at in order[begin:end].tolist():
            row = rows[at]
            mine, key = runs[row.job], (str(row.t_start), row.t_submit)
            if key in mine:
                repeated.add(at)
                tables.drop(row.file, "a record that is repeated", row.line, sort="normal")
            else:
                row.attempt = len(mine)
                mine[key] = row
        for mine in runs.values():
            again = max(mine.values(), key=lambda row: row.restarts)
            lacking[again.file] += len(mine) <= again.restarts
    lacking.update(row.file for at, row in enumerate(rows) if row.restarts and alone[at])
    if repeated:
        dropped = Counter(rows[at].file for at in repeated)
        for source in tables.sources:
            source.rows -= dropped[source.file]
        rows[:] = [row for at, row in enumerate(rows) if at not in repeated]
    tables.findings += [
        f"{file}: {number:,} jobs were restarted and their earlier runs are missing, with the failures that ended "
        f"them; export with sacct -D"
        for file, number in lacking.items()
        if number
    ]


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
    text = "\n".join(text for _, text in log.lines())
    try:
        content = json.loads(text)
        jobs = list(content["jobs"])
    except json.JSONDecodeError as error:
        raise LogError(f"{log.file}:{error.lineno}: is no complete JSON ({error.msg.lower()})") from None
    except (TypeError, KeyError, RecursionError):
        raise LogError(f"{log.file}:1: has no list of jobs; export it with sacct -a -D --json") from None
    keep = _Attempts(log).add
    for at, job in enumerate(jobs, 1):
        try:
            moments = [str(_plain(job["time"].get(name)) or "") for name in ("submission", "eligible", "start", "end")]
            elapsed, limit = (_plain(job["time"].get(name)) for name in ("elapsed", "limit"))
            state = job["state"]["current"]
            tres = job.get("tres", {}).get("allocated") or []
            keep(
                at, ",".join(f"{each['type']}/{each.get('name')}={_plain(each['count']) or 0}" for each in tres),
                math.nan if elapsed is None else float(elapsed),
                [
                    _name(job), *moments,
                    state[0] if isinstance(state, list) else str(state), str(job.get("nodes") or ""),
                    str(_plain(job.get("allocation_nodes")) or 0), str(job.get("user") or ""),
                    str(job.get("partition") or ""), str(job.get("failed_node") or ""),
                    str(_plain(job.get("restart_cnt")) or 0), "" if limit is None else str(limit),
                ],
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, LogError):
                raise
            log.drop("a job without its fields", at)


def _name(job: dict[str, Any]) -> str:
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
    for number, raw in log.holding(dict.fromkeys(rule["holds"] for rule in log.rules.slurmctld)):
        hits += 1
        rule, match = _rule_of(log.rules.slurmctld, raw)
        if rule is None or match is None:
            log.drop("other lines of slurmctld", number, sort="normal")
            continue
        try:
            moment = _moment_of(log, raw, number)
        except LogError:
            raise
        except ValueError as error:
            log.drop(str(error) if "year" in str(error) else f"no moment that can be read; {_FORMAT}", number)
            continue
        try:
            names = () if rule["does"] == "runs" else log.reading.hosts.expand(match["node"])
        except ValueError:
            log.drop("a list of hosts that was cut", number)
            continue
        jumps += moment < last - 60
        last = moment
        source.saw(moment)
        _change(log, rule, match, moment, names, number)
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
    rules, found, does = log.rules, match.groupdict(), str(rule["does"])
    if does == "state":
        does = rules.node_state(found["state"]) or "show"
    if does == "none":
        log.drop("other lines of slurmctld", line, sort="normal")
        return
    if does == "show":
        text = re.sub(r"\d+", "#", match.string.partition(" ")[2].replace(found["node"], "NODE"))
        log.drop(f"a fault that no rule reads: {text[:80]}", line, sort="unread")
        return
    log.source.rows += 1
    if does == "runs":
        log.reading.starts.append((moment, found["node"]))
    elif does == "job":
        log.tables.blamed.setdefault(found["job"], []).extend((moment, name) for name in names)
    else:
        state, reason = found.get("state") or "", found.get("reason") or str(rule.get("reason", ""))
        cause, basis = rules.cause_of(reason)
        responded = float(found.get("responded") or "nan")
        log.reading.points += (
            StateChange(moment, name, does, "state", "slurmctld", log.file, line, cause, basis,
                  rules.is_planned(state, reason), rules.repair_of(reason), text=reason,
                  t_lo=responded if 0 < responded < moment else math.nan)
            for name in names
        )  # fmt: skip
