"""Slurm: job records of sacct, the node history of sacctmgr, and the log of slurmctld.

References
----------
SchedMD Slurm, manual pages of sacct and sacctmgr, data_parser v0.0.40 ff., and slurm.conf (LogTimeFormat).
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from analysis.logs.health import Point
from analysis.logs.tables import Attempt, Event, LogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.logs.files import Log

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

_STEP = re.compile(r"^\d+(?:[_+]\S+)?\.\S+$")


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

    def value(row: Sequence[str], name: str) -> str:
        at = columns.get(name, -1)
        return row[at].strip() if at >= 0 else ""

    fields_of = [columns.get(name, -1) for name in _SACCT]
    whole = "elapsedraw" in columns
    makers = _Attempts(log)
    for number, row in _joined(lines, delimiter, width, log):
        job = row[identity].strip()
        if "." in job or "." in row[of_jobid]:
            log.drop("steps of jobs", number)
            continue
        if job.lower() in ("jobidraw", "jobid"):
            log.drop("a header that is repeated", number)
            continue
        submit, eligible, start, end, state, nodes, count, tres, user, partition, failed, restarts, limit, elapsed = (
            row[at].strip() if at >= 0 else "" for at in fields_of
        )
        gpus = _GPUS.search(tres)
        makers.add(
            number, job, state, (submit, eligible, start, end), nodes, count,
            int(gpus[1]) if gpus else sum(map(int, _TYPED_GPUS.findall(tres))), user, partition, failed, restarts,
            60 * float(limit) if limit.isdigit() else math.nan,
            float(elapsed) if whole and elapsed.isdigit() else math.nan,
        )  # fmt: skip
    makers.finish()


_SACCT = [
    "submit",
    "eligible",
    "start",
    "end",
    "state",
    "nodelist",
    "nnodes",
    "alloctres",
    "user",
    "partition",
    "failednode",
    "restarts",
    "timelimitraw",
    "elapsedraw",
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
                yield number, row
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
            yield began or number, row[:width]
        else:
            log.drop("a record that was cut", began or number)
            alone = text.split(delimiter)
            if held and len(alone) == width:
                yield number, alone
        held, began, parts = "", 0, 0
    if held:
        log.drop("a record that was cut", began)


class _Attempts:
    """Makes attempts of job records, and looks at all of them together."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen = {hash((row.job, str(row.t_start), row.t_submit)) for row in log.tables.attempts}
        self._same: dict[str, str] = {}
        self._records: Counter[str] = Counter(row.job for row in log.tables.attempts)
        self._restarts: dict[str, int] = {}
        self._starts: Counter[float] = Counter()

    def add(
        self, line: int, job: str, state: str, moments: Sequence[str], nodes: str, count: str, gpus: int, user: str,
        partition: str, failed: str, restarts: str, limit: float, elapsed: float,
    ) -> None:  # fmt: skip
        """Keep a record."""
        log, source = self._log, self._log.source
        read = log.clock.read
        try:
            submit, eligible, start, end = (
                read(text, line, column) if text and text[0].isdigit() and text != "0" else math.nan
                for text, column in zip(moments, ("submit", "", "", "end"), strict=True)
            )
        except LogError:
            raise
        except ValueError:
            log.drop("a moment that cannot be read", line)
            return
        state = state.split(" ", 1)[0].rstrip("+").upper()
        if state not in log.rules.states:
            log.drop("an unknown state", line)
            return
        key = hash((job, str(start), submit))
        if key in self._seen:
            log.drop("a record that is repeated", line)
            return
        if end < start - 3600 * (not math.isnan(elapsed)):
            log.drop("ends before it starts", line)
            return
        self._seen.add(key)
        same = self._same
        state, user, partition, nodes = (same.setdefault(text, text) for text in (state, user, partition, nodes))
        number = self._records[job]
        self._records[job] += 1
        again = int(restarts) if restarts.isdigit() else 0
        if again:
            self._restarts[job] = max(again, self._restarts.get(job, 0))
        if nodes.startswith(("None", "(null)")):
            nodes = ""
        if math.isnan(elapsed):
            elapsed = end - start
        elif abs(abs(end - start - elapsed) - 3600) <= 1:
            end = start + elapsed  # an hour that occurs twice, and the wrong one
        log.tables.attempts.append(
            Attempt(
                job, number, nodes, int(count) if count.isdigit() else 0, gpus, submit, eligible, start, end, elapsed,
                state, user, partition, limit, again, failed, file=log.file, line=line,
            )
        )  # fmt: skip
        source.rows += 1
        for moment in (start, end):
            if not math.isnan(moment):
                source.saw(moment)
        if start == start:
            self._starts[start] += 1

    def finish(self) -> None:
        """Say what an export lacks: earlier runs of requeued jobs, or the true starts of those that were cut."""
        tables, file = self._log.tables, self._log.file
        lacking = sum(self._records[job] <= again for job, again in self._restarts.items())
        if lacking:
            tables.findings.append(
                f"{file}: {lacking:,} jobs were restarted and their earlier runs are missing, with the failures that "
                f"ended them; export with sacct -D"
            )
        if self._starts:
            first = min(self._starts)
            same, total = self._starts[first], self._starts.total()
            if same >= max(20, 0.05 * total):
                raise LogError(
                    f"{file}: {same:,} of {total:,} jobs start at the first moment of the file; sacct -T has cut "
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
    makers = _Attempts(log)
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
            makers.add(
                at, str(job["job_id"]), state[0] if isinstance(state, list) else str(state),
                [str(times[name] or "") for name in ("submission", "eligible", "start", "end")],
                str(job.get("nodes") or ""), str(_plain(job.get("allocation_nodes")) or 0), sum(gpus),
                str(job.get("user") or ""), str(job.get("partition") or ""), str(job.get("failed_node") or ""),
                str(_plain(job.get("restart_cnt")) or 0), math.nan if limit is None else 60 * float(limit),
                math.nan if times["elapsed"] is None else float(times["elapsed"]),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, LogError):
                raise
            log.drop("a job without its fields", at)
    makers.finish()


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
    hits, jumps, last = 0, 0, -math.inf
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
    if source.lines > hits:
        log.drop("other lines of slurmctld", 1, source.lines - hits)
    if jumps:
        log.tables.findings.append(f"{log.file}: on {jumps:,} lines the clock falls by more than a minute")
