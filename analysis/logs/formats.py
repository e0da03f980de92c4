"""Readers of logs, one for each format; which one a file needs is seen from its content.

A line that cannot be used is counted under a reason, never dropped in silence. What makes a whole file unusable raises
a `LogError` that names the file and the line.

References
----------
SchedMD Slurm, manual pages of sacct and sacctmgr, and data_parser v0.0.40 ff.; NVIDIA, XID errors; Linux kernel,
Documentation/ABI/testing/dev-kmsg; systemd, journal export; Google, ml-goodput-measurement.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import re
import zlib
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analysis.logs.tables import Attempt, Clock, Event, Exposure, HostLists, Life, LogError, Phase, Source, Tables
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from analysis.logs.tables import Rules

SAME_CODE = 30.0

"""Gap [s] up to which lines of one code and device are one fault: longer than GSP's repeats, shorter than a reset."""

_LOOK = 1000

_CHUNK = 1 << 22


class Reading(NamedTuple):
    """What readers share: the tables that they fill, the rules, the hosts that they have expanded."""

    tables: Tables
    rules: Rules
    hosts: HostLists


def read_files(
    files: Sequence[str],
    reading: Reading,
    zones: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> None:
    """Read files into the tables; ``-`` is standard input.

    Parameters
    ----------
    files
        Paths, gzip or plain.
    reading
        What is filled.
    zones
        Zones of local times: ``America/Chicago`` for all files, ``events.txt=UTC`` for one.
    kinds
        Kinds of files that are not to be guessed, by file.
    progress
        Is given the number of files read, and of all.

    Raises
    ------
    LogError
        If a file cannot be read at all, or nothing says what kind it is.
    """
    seen: dict[str, str] = {}
    for at, file in enumerate(files):
        progress(at, len(files))
        kind = (kinds or {}).get(file, "")
        if kind and kind not in READERS:
            raise LogError(f"--as {file}={kind}: there is no such format{suggest(kind, READERS)}")
        with _opened(file) as stream:
            head = _peek(stream, file)
            digest = _digest(file)
            if digest and digest in seen:
                reading.tables.drop(file, f"the same content as {seen[digest]}", 1, 0)
                reading.tables.findings.append(f"{file} has the content of {seen[digest]}; it is read once")
                continue
            seen[digest] = file
            source = Source(file, kind or sniff(head, file))
            reading.tables.sources.append(source)
            clock = Clock(_zone(file, zones), file)
            READERS[source.kind](stream, source, clock, reading)
            if clock.twice:
                reading.tables.findings.append(
                    f"{file}: {clock.twice:,} local times lie in an hour that occurs twice; the order says which"
                )
        if source.unreadable:
            reading.tables.findings.append(
                f"{file}: {source.unreadable:,} lines have bytes that are no UTF-8; these were replaced"
            )
    progress(len(files), len(files))


def _opened(file: str) -> io.BufferedReader[Any]:
    """Return a file, unpacked if it is gzip."""
    if file == "-":
        return io.BufferedReader(io.FileIO(0, closefd=False), _CHUNK)
    try:
        raw = io.FileIO(file)
        if raw.read(2) == b"\x1f\x8b":
            raw.seek(0)
            return io.BufferedReader(_Unpacked(raw), _CHUNK)
        raw.seek(0)
    except OSError as error:
        raise LogError(f"{file}: cannot be read ({error.strerror})") from None
    return io.BufferedReader(raw, _CHUNK)


class _Unpacked(io.RawIOBase):
    """A gzip file that gives all that it holds before it says that it ends early, which `gzip.open` does not."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw, self._rest = raw, b""
        self._unpack = zlib.decompressobj(31)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return how much is in it.

        Raises
        ------
        EOFError
            If the file ends before what is packed in it does.
        zlib.error
            If it is damaged.
        """
        while True:
            packed = self._rest or self._raw.read(1 << 16)
            if not packed:
                if self._unpack.eof:
                    return 0
                raise EOFError("the packed file was cut")
            if self._unpack.eof:  # another member
                self._unpack = zlib.decompressobj(31)
            content = self._unpack.decompress(packed, len(buffer))
            self._rest = self._unpack.unconsumed_tail or self._unpack.unused_data
            if content:
                buffer[: len(content)] = content
                return len(content)

    def close(self) -> None:
        """Close the packed file too."""
        self._raw.close()
        super().close()


def _peek(stream: io.BufferedReader[Any], file: str) -> list[str]:
    """Return the first lines of a file without reading them, or refuse what is no text."""
    try:
        head = stream.peek(_CHUNK)[: _LOOK * 300]
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"{file}: cannot be unpacked ({error})") from None
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise LogError(f"{file}:1: is UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise LogError(
            f"{file}:{line}: is no text (it holds a zero byte); unpack it first, or give it on standard input"
        )
    lines = head.decode("utf-8-sig", errors="replace").splitlines()[:_LOOK]
    if not any(line.strip() for line in lines):
        raise LogError(f"{file}: is empty")
    return lines


def _digest(file: str) -> str:
    """Return a digest of a file, so that one that is given twice does not count twice."""
    if file == "-":
        return ""
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "blake2b").hexdigest()


def _zone(file: str, zones: Sequence[str]) -> ZoneInfo | None:
    """Return the zone of the local times of a file; of several that fit, the last."""
    found = None
    for text in zones:
        name, stated, zone = text.rpartition("=")
        if not stated or name in (file, Path(file).name):
            try:
                found = ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                from zoneinfo import available_timezones

                raise LogError(
                    f"--timezone {text}: there is no zone '{zone}'{suggest(zone, available_timezones())}"
                ) from None
    return found


def _lines(stream: io.BufferedReader[Any], source: Source, tables: Tables) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers; one that ends early, as a cut gzip file does, ends here too."""
    number = 0
    try:
        for number, raw in enumerate(stream, 1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError:
                text = raw.decode("utf-8", errors="replace")
                source.unreadable += 1
            source.lines = number
            yield number, text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")
    except (EOFError, zlib.error) as error:
        tables.drop(source.file, "the file ends early", number + 1)
        tables.findings.append(f"{source.file}:{number + 1}: the file is damaged from here on ({error})")


def sniff(head: Sequence[str], file: str) -> str:
    """Return what kind of log begins like this.

    Raises
    ------
    LogError
        If it is none that is known.
    """
    first = next(line for line in head if line.strip())
    names = {name.strip().lower() for name in re.split(r"\|#|[|,;\t]", first)}
    if "nodename" in names and "timestart" in names:
        return "node-events"
    if "state" in names and names & {"jobid", "jobidraw"} and re.search(r"\|", first):
        return "sacct"
    text = "\n".join(head)
    if first.lstrip().startswith("{"):
        if '"job_name"' in text and re.search(
            r'"(job|step|tpu_init|training_prep|data_loading)\w*_(start|end)_time"', text
        ):
            return "goodput"
        if "__REALTIME_TIMESTAMP" in text:
            return "kernel"
        if re.search(r'"jobs"\s*:', text) or '"job_id"' in text:
            return "sacct-json"
    if len(first.split("|")) == 7 and re.match(r"\d{4}-\d\d-\d\dT", first.split("|")[2]):
        return "node-events"
    columns = first.split(",")
    if _role(columns, "part") and (_role(columns, "life") or (_role(columns, "start") and not _role(columns, "node"))):
        return "lives"
    if _role(columns, "node") and _role(columns, "start"):
        return "outages"
    if _role(first.split(","), "node") and names & {"in_service", "gpus", "rack", "out_of_service"}:
        return "inventory"
    if any("NVRM:" in line or " kernel: " in line or _KMSG.match(line) or _DMESG.match(line) for line in head):
        return "kernel"
    if re.search(r"-{5,} +-{5,}", text) and "TimeStart" in text:
        raise LogError(f"{file}:1: is a table for eyes; export it with sacctmgr -P (columns divided by |)")
    raise LogError(f"{file}:1: is no log that is known; say what it is, for example --as {Path(file).name}=kernel")


# Tables with a header: the inventory, and outages of nodes as CSV.

_ROLES = {
    "node": ["node", "nodename", "node_name", "hostname", "host", "node_id", "unit", "entity_id", "name"],
    "start": [
        "start",
        "t",
        "t_start",
        "start_time",
        "timestart",
        "start_s",
        "start_h",
        "start_day",
        "start_d",
        "t_start_h",
        "t_start_s",
    ],
    "end": ["end", "t_end", "end_time", "timeend", "end_s", "end_h", "end_day", "end_d", "t_end_h", "t_end_s"],
    "part": ["part", "part_id", "serial", "serial_number", "uuid", "gpu_uuid"],
    "life": ["life", "age", *(f"{word}_{unit}" for word in ("life", "age") for unit in ("day", "days", "d", "h", "s"))],
    "entry": ["entry", *(f"entry_{unit}" for unit in ("day", "days", "d", "h", "s"))],
    "failed": ["failed"],
    "cause": ["cause", "class", "component", "reason", "cause_level"],
    "planned": ["planned"],
    "gpus": ["gpus", "gpu_count", "gpus_per_node"],
    "rack": ["rack", "rack_id"],
    "batch": ["batch", "model"],
    "role": ["role"],
    "in": ["in_service", "t_enter", "entered", "install", "in_service_date"],
    "out": ["out_of_service", "t_exit", "exited", "decommissioned", "out_of_service_date"],
}
"""Names of columns that are understood, in lower case, the plainest first."""

_SCALES = {"_days": 86400.0, "_day": 86400.0, "_d": 86400.0, "_h": 3600.0, "_s": 1.0}

_OPEN = frozenset(("", "unknown", "none", "null", "nan", "n/a"))
"""What stands for a moment that has not come."""


def _role(header: Sequence[str], role: str) -> str:
    """Return the column that has a role; nothing if none has it."""
    names = {name.strip().lower(): name for name in header}
    return next((names[name] for name in _ROLES[role] if name in names), "")


def _records(
    stream: io.BufferedReader[Any], source: Source, tables: Tables, needed: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file by role, with their lines."""
    lines = _lines(stream, source, tables)
    number, first = next(lines)
    delimiter = max(",;\t|", key=first.count)
    header = next(csv.reader([first], delimiter=delimiter))
    columns = {role: header.index(name) for role in _ROLES if (name := _role(header, role))}
    for role in needed:
        if role not in columns:
            raise LogError(
                f"{source.file}:{number}: has no column for the {role} (the header has: {', '.join(header)}); "
                f"call it {_ROLES[role][0]}"
            )
    for number, text in lines:
        if not text.strip():
            continue
        try:
            row = next(csv.reader([text], delimiter=delimiter, strict=True))
        except csv.Error:
            tables.drop(source.file, "no CSV", number)
            continue
        if len(row) <= max(columns[role] for role in needed):
            tables.drop(source.file, "too few fields", number)
            continue
        yield number, {role: row[at].strip() for role, at in columns.items() if at < len(row)}


def read_inventory(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read the nodes of a cluster: names, GPUs, racks, and when they entered and left service."""
    tables = reading.tables
    seen: dict[tuple[str, str], int] = {}
    for line, row in _records(stream, source, tables, ("node",)):
        try:
            enter, leave = (
                _moment(clock, row.get(role, ""), line, empty) for role, empty in (("in", -math.inf), ("out", math.inf))
            )
            gpus = int(row.get("gpus") or 0)
            names = reading.hosts.expand(row["node"])
        except LogError:
            raise
        except ValueError as error:
            raise LogError(f"{source.file}:{line}: {error}") from None
        if leave <= enter:
            raise LogError(f"{source.file}:{line}: '{row['node']}' left service ({row['out']}) before it entered it")
        for name in names:
            key = name, row.get("in", "")
            if key in seen:
                tables.drop(source.file, f"a node that line {seen[key]} has too", line)
                continue
            seen[key] = line
            tables.exposure.append(
                Exposure(
                    name, enter, leave, "inventory", gpus=gpus, batch=row.get("batch", ""), rack=row.get("rack", ""),
                    role=row.get("role", ""), file=source.file, line=line,
                )
            )  # fmt: skip
            source.rows += 1
    if not source.rows:
        raise LogError(f"{source.file}: names no node")


def _moment(clock: Clock, text: str, line: int, empty: float, column: str = "", scale: float = 1.0) -> float:
    """Return a moment [s], or what an empty one stands for."""
    if text.lower() in _OPEN:
        return empty
    try:
        return float(text) * scale if scale != 1.0 else clock.read(text, line, column)
    except LogError:
        raise
    except ValueError:
        raise ValueError(f"'{text}' is no moment such as 2025-02-03T08:11:40") from None


def read_outages(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read outages of nodes from a CSV file: node, start, end, and a cause where there is one."""
    tables, rules = reading.tables, reading.rules
    first = stream.peek(1)[:4096].decode("utf-8-sig", errors="replace").splitlines()[0].lower()
    suffix = re.search(r"\bt?_?start(_day|_d|_h|_s)\b", first)
    scale = _SCALES[suffix[1]] if suffix else 1.0
    for line, row in _records(stream, source, tables, ("node", "start")):
        try:
            start = _moment(clock, row["start"], line, math.nan, "start", scale)
            end = _moment(clock, row.get("end", ""), line, math.nan, scale=scale)
        except LogError:
            raise
        except ValueError:
            tables.drop(source.file, "a moment that cannot be read", line)
            continue
        if not start <= (end if end == end else math.inf):
            tables.drop(source.file, "ends before it starts" if start == start else "has no start", line)
            continue
        reason = row.get("cause", "")
        planned = row.get("planned", "").lower() in ("true", "1", "yes") or rules.is_planned("", reason)
        cause = re.sub(r"\W+", "_", reason.lower()).strip("_") or "unknown"
        tables.events.append(
            Event(
                "outages", start, end, row["node"], cause, "column" if reason else "unknown", source.file, line,
                planned=planned, text=reason,
            )
        )  # fmt: skip
        source.rows += 1
        source.saw(start)
        if end == end:
            source.saw(end)


def read_lives(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read lives of parts: dates of installation and removal, or ages; with a cause, or `failed`, those that failed."""
    tables, rules = reading.tables, reading.rules
    header = stream.peek(1)[:4096].decode("utf-8-sig", errors="replace").splitlines()[0].split(",")
    scale = {
        role: next((size for end, size in _SCALES.items() if _role(header, role).lower().endswith(end)), 86400.0)
        for role in ("life", "entry")
    }
    aged = bool(_role(header, "life"))
    if not _role(header, "failed") and not _role(header, "cause"):
        raise LogError(f"{source.file}:1: has neither a column 'failed' (0 or 1) nor a 'cause' of failures")
    for line, row in _records(stream, source, tables, ("part", "life" if aged else "start")):
        try:
            if aged:
                born, age = math.nan, float(row["life"]) * scale["life"]
                entry = float(row.get("entry") or 0) * scale["entry"]
            else:
                born = _moment(clock, row["start"], line, math.nan)
                age, entry = _moment(clock, row.get("end", ""), line, math.nan) - born, 0.0
        except LogError:
            raise
        except ValueError:
            tables.drop(source.file, "a moment or an age that cannot be read", line)
            continue
        if age <= entry or (not aged and math.isnan(born)):
            tables.drop(source.file, "no time in service", line)
            continue
        cause = "" if row.get("cause", "").lower() in _OPEN else row["cause"]
        if "failed" in row:
            failed = row["failed"].lower() in ("1", "true", "yes")
        else:
            failed = bool(cause) and not rules.is_planned("", cause)
        tables.lives.append(Life(row["part"], row.get("batch", ""), born, entry, age, failed, cause, source.file, line))
        source.rows += 1
        for moment in (born, born + age):
            if moment == moment:
                source.saw(moment)


# Slurm: sacctmgr list event.

_EVENT_COLUMNS = ["cluster", "nodename", "timestart", "timeend", "state", "reason", "user"]


def read_node_events(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read the states of nodes that slurmdbd keeps; a state that still lasts has no end."""
    tables, rules = reading.tables, reading.rules
    columns = {name: at for at, name in enumerate(_EVENT_COLUMNS)}
    lines = _lines(stream, source, tables)
    number, first = next(lines)
    names = [name.strip().lower() for name in first.split("|")]
    if "nodename" in names:
        columns = {name: at for at, name in enumerate(names) if name}
        for name in ("nodename", "timestart", "timeend", "state", "reason"):
            if name not in columns:
                raise LogError(
                    f"{source.file}:{number}: lacks the column {name}; export it with {EXPORTS['node-events']}"
                )
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
                tables.drop(source.file, "too few fields", number)
            continue
        if len(row) > width:  # a reason may hold the delimiter; with -p a line ends with one
            more = len(row) - width
            row[at_reason : at_reason + more + 1] = (
                ["|".join(row[at_reason : at_reason + more + 1])] if row[-1] or more > 1 else [row[at_reason]]
            )
        node, state, reason = row[at_node].strip(), row[at_state].strip(), row[at_reason].strip()
        if not node:
            tables.drop(source.file, "an event of the whole cluster", number)
            continue
        if node.lower() == "nodename":
            tables.drop(source.file, "a header that is repeated", number)
            continue
        try:
            start = _moment(clock, row[at_start].strip(), number, math.nan, "start")
            end = _moment(clock, row[at_end].strip(), number, math.nan)
        except LogError:
            raise
        except ValueError:
            tables.drop(source.file, "a moment that cannot be read", number)
            continue
        if math.isnan(start) or end < start:
            tables.drop(source.file, "has no start" if math.isnan(start) else "ends before it starts", number)
            continue
        if (node, start, state, reason) in seen:
            tables.drop(source.file, "a row that is repeated", number)
            continue
        seen.add((node, start, state, reason))
        source.rows += 1
        source.saw(start)
        if not math.isnan(end):
            source.saw(end)
        cause, basis = rules.cause_of(reason)
        tables.events.append(
            Event(
                "node-events", start, end, node, cause, basis, source.file, number,
                planned=rules.is_planned(state, reason), repair_kind=rules.repair_of(reason), text=reason,
            )
        )  # fmt: skip


# Slurm: sacct, as text and as JSON.

_GPUS = re.compile(r"gres/gpu=(\d+)")

_TYPED_GPUS = re.compile(r"gres/gpu:[^=,]+=(\d+)")

_STEP = re.compile(r"^\d+(?:[_+]\S+)?\.\S+$")


def read_sacct(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read job records of sacct -P; records whose names hold line breaks are joined."""
    tables = reading.tables
    lines = _lines(stream, source, tables)
    number, first = next(lines)
    delimiter = "|#" if "|#" in first else "|"
    header = [name.strip().lower() for name in first.split(delimiter)]
    while header and not header[-1]:  # with -p a line ends with a delimiter
        header.pop()
    width = len(header)
    columns = {name: at for at, name in enumerate(header)}
    for name in ("state", "start", "end"):
        if name not in columns:
            raise LogError(f"{source.file}:{number}: lacks the column {name}; export it with {EXPORTS['sacct']}")
    identity = next((columns[name] for name in ("jobidraw", "jobid") if name in columns), -1)
    if identity < 0:
        raise LogError(f"{source.file}:{number}: lacks the column JobIDRaw; export it with {EXPORTS['sacct']}")
    of_jobid = columns.get("jobid", identity)

    def value(row: Sequence[str], name: str) -> str:
        at = columns.get(name, -1)
        return row[at].strip() if at >= 0 else ""

    fields_of = [columns.get(name, -1) for name in _SACCT]
    whole = "elapsedraw" in columns
    makers = _Attempts(source, clock, reading)
    for number, row in _joined(lines, delimiter, width, source, tables):
        job = row[identity].strip()
        if "." in job or "." in row[of_jobid]:
            tables.drop(source.file, "steps of jobs", number)
            continue
        if job.lower() in ("jobidraw", "jobid"):
            tables.drop(source.file, "a header that is repeated", number)
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


def _joined(
    lines: Iterator[tuple[int, str]], delimiter: str, width: int, source: Source, tables: Tables
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
                yield number, row
                continue
            if not text.strip():
                continue
        joined = f"{held}\n{text}" if held else text
        row = joined.split(delimiter)
        if len(row) < width and parts < 50:
            if text.count(delimiter) >= width - 2 and held:
                tables.drop(source.file, "a record that was cut", began)
                held, began, parts = text, number, 1
            else:
                held, began, parts = joined, began if held else number, parts + 1
            continue
        if len(row) == width or (len(row) == width + 1 and not row[-1]):
            yield began or number, row[:width]
        else:
            tables.drop(source.file, "a record that was cut", began or number)
            alone = text.split(delimiter)
            if held and len(alone) == width:
                yield number, alone
        held, began, parts = "", 0, 0
    if held:
        tables.drop(source.file, "a record that was cut", began)


class _Attempts:
    """Makes attempts of job records, and looks at all of them together."""

    def __init__(self, source: Source, clock: Clock, reading: Reading) -> None:
        self._source, self._clock, self._reading = source, clock, reading
        self._seen = {hash((row.job, str(row.t_start), row.t_submit)) for row in reading.tables.attempts}
        self._same: dict[str, str] = {}
        self._records: Counter[str] = Counter(row.job for row in reading.tables.attempts)
        self._restarts: dict[str, int] = {}
        self._starts: Counter[float] = Counter()

    def add(
        self, line: int, job: str, state: str, moments: Sequence[str], nodes: str, count: str, gpus: int, user: str,
        partition: str, failed: str, restarts: str, limit: float, elapsed: float,
    ) -> None:  # fmt: skip
        """Keep a record."""
        tables, source = self._reading.tables, self._source
        read = self._clock.read
        try:
            submit, eligible, start, end = (
                read(text, line, column) if text and text[0].isdigit() and text != "0" else math.nan
                for text, column in zip(moments, ("submit", "", "", "end"), strict=True)
            )
        except LogError:
            raise
        except ValueError:
            tables.drop(source.file, "a moment that cannot be read", line)
            return
        state = state.split(" ", 1)[0].rstrip("+").upper()
        if state not in self._reading.rules.states:
            tables.drop(source.file, "an unknown state", line)
            return
        key = hash((job, str(start), submit))
        if key in self._seen:
            tables.drop(source.file, "a record that is repeated", line)
            return
        if end < start - 3600 * (not math.isnan(elapsed)):
            tables.drop(source.file, "ends before it starts", line)
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
        tables.attempts.append(
            Attempt(
                job, number, nodes, int(count) if count.isdigit() else 0, gpus, submit, eligible, start, end, elapsed,
                state, user, partition, limit, again, failed, file=source.file, line=line,
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
        tables, file = self._reading.tables, self._source.file
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


def read_sacct_json(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read job records of sacct --json (data_parser v0.0.37 and later)."""
    text = "\n".join(text for _, text in _lines(stream, source, reading.tables))
    try:
        content = json.loads(text)
        jobs = list(content["jobs"])
    except json.JSONDecodeError as error:
        raise LogError(f"{source.file}:{error.lineno}: is no complete JSON ({error.msg.lower()})") from None
    except (TypeError, KeyError, RecursionError):
        raise LogError(f"{source.file}:1: has no list of jobs; export it with sacct -a -D --json") from None
    makers = _Attempts(source, clock, reading)
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
            reading.tables.drop(source.file, "a job without its fields", at)
    makers.finish()


def _plain(value: Any) -> Any:
    """Return a number that may be wrapped as ``{"set": true, "infinite": false, "number": 5}``."""
    if isinstance(value, dict):
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return value


# Kernel logs: XIDs and lost links. Most lines are neither, so they are found in large pieces of the file.

_XID = re.compile(rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")

_KMSG = re.compile(r"^\d+,\d+,(\d+),[^;]*;")

_DMESG = re.compile(r"^\[\s*\d+\.\d+\] |^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |^kern +:\w+ *: ")

_FROM_BOOT = "seconds since boot; export with dmesg --time-format iso, or journalctl -o short-iso-precise"


def read_kernel(stream: io.BufferedReader[Any], source: Source, clock: Clock, reading: Reading) -> None:
    """Read XIDs and lost links; lines of one node, device and code that follow within 30 s are one fault."""
    tables, rules = reading.tables, reading.rules
    texts = [b"NVRM: Xid", *(holds for holds, *_ in rules.kernel)]
    marker = re.compile(b"|".join(map(re.escape, texts)))
    alone = re.sub(r"[.].*", "", Path(source.file).name)  # a file without names of hosts is that of one host
    groups: dict[tuple[str, bytes, int, str], list[list[float]]] = {}
    noise: dict[tuple[str, bytes, int], float] = {}
    counts = tables.groups
    of_xid = rules.of_xid
    applications = frozenset(code for code, cause in of_xid.items() if cause == "application")
    stamp = _Stamps(clock, alone)
    used = 0
    for base, chunk in _chunks(stream, source, tables):
        counted, number, done = 0, base, 0
        for found in marker.finditer(chunk):
            at = found.start()
            if at < done:
                continue
            start = chunk.rfind(b"\n", 0, at) + 1
            done = chunk.find(b"\n", at)
            done = len(chunk) if done < 0 else done
            line = chunk[start:done]
            number += chunk.count(b"\n", counted, start)
            counted = start
            match = _XID.search(line)
            if match is not None:
                device, code, cause = match[1], int(match[2]), of_xid.get(int(match[2]), "gpu_other")
                device = device.split(b".")[0]
            else:
                special = _special(line, rules)
                if special is None:
                    tables.drop(source.file, "a line of the driver without a device", number)
                    continue
                device, code, cause = special
            try:
                moment, node = stamp.read(line, number)
            except LogError:
                raise
            except (ValueError, KeyError, IndexError) as error:
                tables.drop(
                    source.file,
                    str(error) if isinstance(error, _NoMomentError) else "no moment that can be read",
                    number,
                )
                continue
            used += 1
            if moment < source.first:
                source.first = moment
            if moment > source.last:
                source.last = moment
            key = (node, device, code)
            tally = counts.setdefault(code, [0, 0])
            tally[0] += 1
            if code in applications:
                last = noise.get(key)
                if last is None or abs(moment - last) > SAME_CODE:
                    tally[1] += 1
                noise[key] = moment
                continue
            mine = groups.setdefault((*key, cause), [])
            if mine and -SAME_CODE <= moment - mine[-1][1] <= SAME_CODE:
                mine[-1][0] = min(mine[-1][0], moment)
                mine[-1][1] = max(mine[-1][1], moment)
                mine[-1][2] += 1
            else:
                mine.append([moment, moment, 1, number])
    source.rows = used
    if source.lines > used:
        tables.drop(source.file, "other lines of the kernel", 1, source.lines - used)
    if stamp.jumps:
        tables.findings.append(
            f"{source.file}: on {stamp.jumps:,} lines the clock of a host falls by more than a minute"
        )
    for (node, device, code, cause), mine in groups.items():
        for first, last, count, begun in mine:
            tables.events.append(
                Event(
                    "kernel", first, last, node, cause, f"xid {code}" if code else "kernel text", source.file,
                    int(begun), part="nic" if cause == "nic" else "gpu", part_id=device.decode(),
                    severity="info" if code in rules.harmless else "fatal", raw_count=int(count),
                )
            )  # fmt: skip


def _special(line: bytes, rules: Rules) -> tuple[bytes, int, str] | None:
    """Return device, code and cause of a line without an XID."""
    text = line.decode("utf-8", errors="replace")
    for holds, pattern, cause, code in rules.kernel:
        if holds in line:
            match = pattern.search(text)
            if match is not None:
                device = match[1].removeprefix("PCI:").rstrip(".").encode()
                return device.split(b".")[0] if code else device, code, cause
    return None


def _chunks(stream: io.BufferedReader[Any], source: Source, tables: Tables) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of whole lines, with the number of the first line of each."""
    rest, number = b"", 1
    while True:
        try:
            piece = stream.read1(_CHUNK)
        except (EOFError, zlib.error) as error:
            tables.findings.append(f"{source.file}:{number}: the file is damaged from here on ({error})")
            tables.drop(source.file, "the file ends early", number)
            piece = b""
        if not piece:
            if rest:
                source.lines = number
                yield number, rest
            return
        cut = piece.rfind(b"\n") + 1
        whole, rest = rest + piece[:cut], piece[cut:] if cut else rest + piece
        if not cut:
            continue
        yield number, whole
        number += whole.count(b"\n")
        source.lines = number - 1


class _NoMomentError(ValueError):
    """A line whose moment cannot be known; the message is why."""


class _Stamps:
    """Moment and host of a line of a kernel log, in whatever form."""

    def __init__(self, clock: Clock, alone: str) -> None:
        self._clock, self._alone = clock, alone
        self._last: dict[str, float] = {}
        self.jumps = 0

    def read(self, line: bytes, number: int) -> tuple[float, str]:
        """Return the moment [s since 1970] and the host.

        Raises
        ------
        ValueError
            If the line has no moment.
        """
        moment, node = self._read(line, number)
        last = self._last.get(node, moment)
        if moment < last - 60:
            self.jumps += 1
        self._last[node] = moment
        return moment, node

    def _read(self, line: bytes, number: int) -> tuple[float, str]:
        if 48 <= line[0] <= 57:
            stamp, _, rest = line.partition(b" ")
            if b"-" in stamp and b";" not in stamp:
                text = stamp.decode()
                node = rest.split(b" ", 1)[0].decode("utf-8", errors="replace")
                if node == "kernel:" or node.startswith("NVRM"):
                    node = self._alone
                # Journald writes the offset without a colon.
                if text[-5] in "+-" and text[-3] != ":":
                    text = f"{text[:-2]}:{text[-2:]}"
                if text[-6] in "+-" or text[-1] == "Z":
                    return datetime.fromisoformat(text).timestamp(), node
                return self._clock.read(text, number), node
            raise _NoMomentError(_FROM_BOOT)  # /dev/kmsg
        if line[:1] == b"{":
            entry = json.loads(line)
            return int(entry["__REALTIME_TIMESTAMP"]) / 1e6, str(entry.get("_HOSTNAME") or self._alone)
        if line[:1] == b"[":
            stamp = line[1 : line.index(b"]")].strip()
            if stamp[:1].isdigit():
                if b"-" in stamp:
                    return self._clock.read(stamp.decode().replace(",", "."), number), self._alone
                raise _NoMomentError(_FROM_BOOT)
            return self._clock.ctime(stamp.decode(), number), self._alone
        if line[:4] == b"kern":
            words = line.decode("utf-8", errors="replace").split(":", 2)[2].split()
            return self._clock.read(words[0].replace(",", "."), number), self._alone
        if re.match(rb"[A-Z][a-z]{2} [ \d]\d [\d:]{8} ", line):
            raise _NoMomentError("a date without a year; export with journalctl -o short-iso-precise")
        raise _NoMomentError("no moment that can be read")


# Training: ml-goodput-measurement, one JSON object a line.

_SPANS = {
    "tpu_init": "initialize",
    "training_prep": "initialize",
    "data_loading": "initialize",
    "custom_badput_event": "custom",
}


def read_goodput(stream: io.BufferedReader[Any], source: Source, _clock: Clock, reading: Reading) -> None:
    """Read starts of jobs, spans and steps; a start of the job begins another attempt."""
    tables = reading.tables
    attempt: dict[str, int] = {}
    opened: dict[tuple[str, str], tuple[float, int]] = {}
    step: dict[str, tuple[int, float]] = {}
    for number, text in _lines(stream, source, tables):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
            job = str(entry["job_name"])
            moments = {
                key: float(value)
                for key, value in entry.items()
                if key.endswith("_time") and not isinstance(value, str)
            }
            name, moment = next(iter(moments.items()))
        except (ValueError, KeyError, TypeError, StopIteration, AttributeError):
            tables.drop(source.file, "no entry of ml-goodput-measurement", number)
            continue
        source.saw(moment)
        source.rows += 1
        run = attempt.get(job, 0)
        if name == "job_start_time":
            run = attempt[job] = attempt.get(job, -1) + 1
            step.pop(job, None)
            tables.phases.append(Phase(job, run, "start", moment, moment, file=source.file, line=number))
        elif name == "job_end_time":
            tables.phases.append(Phase(job, run, "teardown", moment, moment, file=source.file, line=number))
        elif name == "step_start_time":
            count = int(entry.get("step_count", -1))
            last = step.get(job)
            if last is not None and count > last[0] and moment >= last[1]:
                tables.phases.append(Phase(job, run, "step", last[1], moment, last[0], count, source.file, number))
            elif last is None:
                tables.phases.append(Phase(job, run, "step", moment, moment, count, count, source.file, number))
            step[job] = count, moment
        elif name.endswith("_start_time"):
            opened[job, name.removesuffix("_start_time")] = moment, number
        elif name.endswith("_end_time"):
            span = name.removesuffix("_end_time")
            began = opened.pop((job, span), None)
            if began is None or moment < began[0]:
                tables.drop(source.file, "an end without its start", number)
            else:
                phase = _SPANS.get(span, span)
                tables.phases.append(Phase(job, run, phase, began[0], moment, file=source.file, line=began[1]))
        else:
            tables.drop(source.file, "an entry without a known key", number)


READERS: dict[str, Callable[[io.BufferedReader[Any], Source, Clock, Reading], None]] = {
    "inventory": read_inventory,
    "outages": read_outages,
    "lives": read_lives,
    "node-events": read_node_events,
    "sacct": read_sacct,
    "sacct-json": read_sacct_json,
    "kernel": read_kernel,
    "goodput": read_goodput,
}

EXPORTS = {
    "node-events": "sacctmgr -P list event all_time event=node "
    "format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User",
    "sacct": "SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter='|#' -S START -E END --format=JobIDRaw,JobID,User,"
    "Partition,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,AllocTRES,NodeList,Restarts,FailedNode",
    "kernel": "journalctl -k -o short-iso-precise",
}
"""What a user types to get a log."""
