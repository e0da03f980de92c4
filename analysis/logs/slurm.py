"""Slurm: job records of sacct, the node history of sacctmgr, and the log of slurmctld.

References
----------
SchedMD Slurm, manual pages of sacct and sacctmgr, data_parser v0.0.40 ff., and slurm.conf (LogTimeFormat).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import operator
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.logs.health import Point
from analysis.logs.tables import Attempt, Event
from sim.records import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.logs.files import Log
    from analysis.logs.tables import Tables

EXPORTS = {
    "node-events": "sacctmgr -P list event all_time event=node "
    "format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User",
    "sacct": "SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter='|#' -S START -E END --format=JobIDRaw,JobID,User,"
    "Partition,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,AllocTRES,NodeList,Restarts,FailedNode",
}
"""What a user types to get a log."""

# sacctmgr list event.

_EVENT_COLUMNS = ["cluster", "nodename", "timestart", "timeend", "state", "reason", "user"]


def read_node_events(log: Log) -> None:
    """Read the states of nodes that slurmdbd keeps; a state that still lasts has no end."""
    rules, source = log.rules, log.source
    columns = {name: at for at, name in enumerate(_EVENT_COLUMNS)}
    lines = log.lines()
    number, first = next(lines)
    names = [name.strip().lower() for name in first.split("|")]
    if "nodename" in names:
        columns = {name: at for at, name in enumerate(names) if name}
        for name in ("nodename", "timestart", "timeend", "state", "reason"):
            if name not in columns:
                raise LogError(f"{log.file}:{number}: lacks the column {name}; export it with {EXPORTS['node-events']}")
    else:
        lines = itertools.chain([(number, first)], lines)
    width = len(columns)
    at_node, at_start, at_end, at_state, at_reason = (
        columns[name] for name in ("nodename", "timestart", "timeend", "state", "reason")
    )
    seen: set[tuple[str, float, str, str]] = set()
    for number, text in lines:
        row = text.split("|")
        if len(row) < width:
            if text.strip():
                log.drop("too few fields", number)
            continue
        if len(row) > width:  # a reason may hold the delimiter; with -p a line ends with one
            more = len(row) - width
            row[at_reason : at_reason + more + 1] = (
                ["|".join(row[at_reason : at_reason + more + 1])] if row[-1] or more > 1 else [row[at_reason]]
            )
        node, state, reason = row[at_node].strip(), row[at_state].strip(), row[at_reason].strip()
        if not node:
            log.drop("an event of the whole cluster", number)
            continue
        if node.lower() == "nodename":
            log.drop("a header that is repeated", number)
            continue
        try:
            start = log.moment(row[at_start].strip(), number, math.nan, "start")
            end = log.moment(row[at_end].strip(), number, math.nan)
        except LogError:
            raise
        except ValueError:
            log.drop("a moment that cannot be read", number)
            continue
        if math.isnan(start) or end < start:
            log.drop("has no start" if math.isnan(start) else "ends before it starts", number)
            continue
        if (node, start, state, reason) in seen:
            log.drop("a row that is repeated", number)
            continue
        seen.add((node, start, state, reason))
        source.rows += 1
        source.saw(start)
        if not math.isnan(end):
            source.saw(end)
        cause, basis = rules.cause_of(reason)
        log.tables.events.append(
            Event(
                "node-events", start, end, node, cause, basis, log.file, number,
                planned=rules.is_planned(state, reason), repair_kind=rules.repair_of(reason), text=reason,
            )
        )  # fmt: skip


# sacct, as text and as JSON.

_GPUS = re.compile(r"gres/gpu=(\d+)")
_TYPED_GPUS = re.compile(r"gres/gpu:[^=,]+=(\d+)")


def read_sacct(log: Log) -> None:
    """Read job records of sacct -P; records whose names hold line breaks are joined."""
    lines = log.lines()
    number, first = next(lines)
    delimiter = "|#" if "|#" in first else "|"
    header = [name.strip().lower() for name in first.split(delimiter)]
    while header and not header[-1]:  # with -p a line ends with a delimiter
        header.pop()
    width = len(header)
    columns = {name: at for at, name in enumerate(header)}
    for name in ("state", "start", "end"):
        if name not in columns:
            raise LogError(f"{log.file}:{number}: lacks the column {name}; export it with {EXPORTS['sacct']}")
    identity = next((columns[name] for name in ("jobidraw", "jobid") if name in columns), -1)
    if identity < 0:
        raise LogError(f"{log.file}:{number}: lacks the column JobIDRaw; export it with {EXPORTS['sacct']}")
    of_jobid = columns.get("jobid", identity)

    # A column that the export lacks is an empty field behind the last one.
    of_row = operator.itemgetter(identity, *(columns.get(name, width) for name in _SACCT))
    keep = _Attempts(log).add
    for number, row in _joined(lines, delimiter, width, log):
        row.append("")
        texts = of_row(row)
        job, elapsed, tres = texts[0], texts[-2], texts[-1]
        if "." in job or "." in row[of_jobid]:
            log.drop("steps of jobs", number)
            continue
        if job.lower() in ("jobidraw", "jobid"):
            log.drop("a header that is repeated", number)
            continue
        gpus = _GPUS.search(tres)
        keep(
            number, int(gpus[1]) if gpus else sum(map(int, _TYPED_GPUS.findall(tres))),
            float(elapsed) if elapsed.isdigit() else math.nan, texts[:-2],
        )  # fmt: skip


_SACCT = [
    "submit",
    "eligible",
    "start",
    "end",
    "state",
    "nodelist",
    "nnodes",
    "user",
    "partition",
    "failednode",
    "restarts",
    "timelimitraw",
    "elapsedraw",
    "alloctres",
]


def _joined(lines: Iterator[tuple[int, str]], delimiter: str, width: int, log: Log) -> Iterator[tuple[int, list[str]]]:
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


class _Attempts:
    """Makes attempts of the job records of a file; equal texts are kept once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._same: dict[str, str] = {}
        self._limits: dict[str, float] = {}

    def add(self, line: int, gpus: int, elapsed: float, texts: Sequence[str]) -> None:
        """Keep a record: its line, GPUs, run time [s], and as texts the job and the first twelve fields of `_SACCT`."""
        job, submit, eligible, start, end, state, nodes, count, user, partition, failed, restarts, limit = texts
        log, source, read = self._log, self._log.source, self._log.clock.read
        try:
            t_submit = read(submit, line, "submit") if "0" < submit < ":" else math.nan
            t_eligible = t_submit if eligible == submit else read(eligible, line) if "0" < eligible < ":" else math.nan
            t_start = read(start, line) if "0" < start < ":" else math.nan
            t_end = read(end, line, "end") if "0" < end < ":" else math.nan
        except LogError:
            raise
        except ValueError:
            log.drop("a moment that cannot be read", line)
            return
        state = state.split(" ", 1)[0].rstrip("+").upper()
        if state not in log.rules.states:
            log.drop("an unknown state", line)
            return
        if elapsed != elapsed:
            elapsed = t_end - t_start
            if elapsed < 0:
                log.drop("ends before it starts", line)
                return
        elif t_end < t_start - 3600:
            log.drop("ends before it starts", line)
            return
        elif abs(abs(t_end - t_start - elapsed) - 3600) <= 1:
            t_end = t_start + elapsed  # an hour that occurs twice, and the wrong one
        if t_submit == t_start:
            t_start = t_submit  # one object for both
        same = self._same.setdefault
        if nodes.startswith(("None", "(null)")):
            nodes = ""
        seconds = self._limits.get(limit)
        if seconds is None:
            seconds = self._limits[limit] = 60 * float(limit) if limit.isdigit() else math.nan
        log.tables.attempts.append(
            Attempt(
                job, 0, same(nodes, nodes), int(count) if count.isdigit() else 0, gpus, t_submit, t_eligible, t_start,
                t_end, elapsed, same(state, state), same(user, user), same(partition, partition), seconds,
                int(restarts) if restarts.isdigit() else 0, failed, file=log.file, line=line,
            )
        )  # fmt: skip
        source.rows += 1
        if t_start < source.first:
            source.first = t_start
        if t_start > source.last:
            source.last = t_start
        if t_end > source.last:
            source.last = t_end


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
        runs: dict[str, dict[tuple[str, float], Attempt]] = defaultdict(dict)
        for at in order[begin:end].tolist():
            row = rows[at]
            mine, key = runs[row.job], (str(row.t_start), row.t_submit)
            if key in mine:
                repeated.add(at)
                tables.drop(row.file, "a record that is repeated", row.line)
            else:
                row.attempt = len(mine)
                mine[key] = row
        for mine in runs.values():
            again = max(mine.values(), key=lambda row: row.restarts)
            lacking[again.file] += len(mine) <= again.restarts
    for at, row in enumerate(rows):
        if row.restarts and alone[at]:
            lacking[row.file] += 1
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


def _refuse_cut(rows: Sequence[Attempt]) -> None:
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


def read_sacct_json(log: Log) -> None:
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
            times = {
                name: _plain(job["time"].get(name)) for name in ("submission", "eligible", "start", "end", "elapsed")
            }
            state = job["state"]["current"]
            tres = job.get("tres", {}).get("allocated") or []
            gpus = [
                int(_plain(each["count"]) or 0) for each in tres if each["type"] == "gres" and each["name"] == "gpu"
            ]
            if not gpus:
                gpus = [
                    int(_plain(each["count"]) or 0) for each in tres if str(each.get("name", "")).startswith("gpu:")
                ]
            limit = _plain(job["time"].get("limit"))
            keep(
                at, sum(gpus), math.nan if times["elapsed"] is None else float(times["elapsed"]),
                [
                    str(job["job_id"]),
                    *(str(times[name] or "") for name in ("submission", "eligible", "start", "end")),
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


def _plain(value: Any) -> Any:
    """Return a number that may be wrapped as ``{"set": true, "infinite": false, "number": 5}``."""
    if isinstance(value, dict):
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return value


# slurmctld.log.

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_RETURNS = ("IDLE", "RESUME", "UNDRAIN", "MIXED", "ALLOCATED", "UP")


def read_slurmctld(log: Log) -> None:
    """Read what the controller does with nodes and says of them; rules say which lines these are."""
    rules, source = log.rules, log.source
    hits, number, jumps, last = 0, 0, 0, -math.inf
    for number, raw in log.holding(dict.fromkeys(rule["holds"] for rule in rules.slurmctld)):
        hits += 1
        stamp = _STAMP.search(raw, 0, 64)
        if stamp is None:
            log.drop("no moment that can be read; set LogTimeFormat=rfc5424_ms", number)
            continue
        text = raw[stamp.end() :].decode("utf-8", errors="replace").rstrip()
        rule, match = next(
            ((each, found) for each in rules.slurmctld if (found := each["match"].search(text)) is not None),
            (None, None),
        )
        if rule is None or match is None:
            log.drop("other lines of slurmctld", number)
            continue
        found = match.groupdict()
        try:
            moment = log.clock.read(stamp[0].decode().replace(",", "."), number, "log")
            names = log.reading.hosts.expand(found["node"])
        except LogError:
            raise
        except ValueError as error:
            log.drop("a list of hosts that was cut" if "host" in str(error) else "no moment that can be read", number)
            continue
        jumps += moment < last - 60
        last = moment
        source.rows += 1
        source.saw(moment)
        does = str(rule["does"])
        if does == "job":
            log.tables.blamed.setdefault(found["job"], []).extend((moment, name) for name in names)
            continue
        state, reason = found.get("state") or "", found.get("reason") or str(rule.get("reason", ""))
        if does == "state":
            words = re.split(r"[+,]", state.rstrip("*~#$@^!%-.").upper())
            does = "up" if set(words) <= set(_RETURNS) else "down"
        cause, basis = rules.cause_of(reason)
        responded = float(found.get("responded") or "nan")
        for name in names:
            log.reading.points.append(
                Point(moment, name, does, "state", "slurmctld", log.file, number, cause, basis,
                      rules.is_planned(state, reason), rules.repair_of(reason), text=reason,
                      t_lo=responded if 0 < responded < moment else math.nan)
            )  # fmt: skip
    for line in log.ends:
        stamp = _STAMP.search(line, 0, 64)
        if stamp is not None:
            with contextlib.suppress(ValueError):
                source.saw(log.clock.read(stamp[0].decode().replace(",", "."), number))
    if source.lines > hits:
        log.drop("other lines of slurmctld", 1, source.lines - hits)
    if jumps:
        log.tables.findings.append(f"{log.file}: on {jumps:,} lines the clock falls by more than a minute")
