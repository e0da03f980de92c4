"""The reader of each log, chosen by its content; and tables with a header: inventories, outages as CSV.

A line that cannot be used is counted under a reason, never dropped in silence. What makes a whole file unusable raises
a `LogError` that names the file and the line.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import zlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ettrick.analysis.logs import health, kernel, reconcile, slurm, training
from ettrick.analysis.logs.tables import Exposure, LogFile, LogReader, NodeEvent, NoModelError, PartLife, UnusedError
from ettrick.sim.moments import Moments
from ettrick.sim.records import CHUNK, NOTHING, LogError, column_of, count, flag, opened, paused_collection
from ettrick.sim.units import YEAR
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from ettrick.analysis.logs.tables import ReaderContext, Rules, Tables


LOOK = 1000
"""Lines that say what kind of log it is."""


@paused_collection()
def read_files(
    files: Sequence[str], reading: ReaderContext, zones: Sequence[str] = (), kinds: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], None] = lambda _done, _total: None, years: Sequence[str] = (),
) -> None:  # fmt: skip
    """Read files into the tables; ``-`` is standard input.

    Parameters
    ----------
    zones
        Zones of local times: ``America/Chicago`` for all files, ``events.txt=UTC`` for one.
    years
        Years in which dates without one begin, in the same form.

    Raises
    ------
    LogError
        If a file cannot be read at all, nothing says what kind it is, or nothing of it can be used.
    """
    sizes = [size_of(file) for file in files]
    total = None if None in sizes else sum(map(int, sizes)) >> 20  # type: ignore[arg-type]
    before, seen = 0, dict[str, str]()
    for file, size in zip(files, sizes, strict=True):
        kind = _stated_kind(file, kinds or {})
        with opened(file) as stream:
            head = peek(stream, file)
            content = digest(file) if size and sizes.count(size) > 1 else file
            if content in seen:
                _skip(file, seen[content], reading.tables)
                continue
            seen[content] = file
            source = LogFile(file, kind or sniff(head, file, reading.rules))
            advance = functools.partial(lambda before, read: progress((before + read) >> 20, total), before)
            clock = Moments(year=year_of(file, years), zone=zone_of(file, zones), file=file)
            _read_file(LogReader(source, clock, reading, stream, advance))
        before += size or 0
        progress(before >> 20, total)
    _close(reading)


def _close(reading: ReaderContext) -> None:
    """Make of what waited until all files were read what it takes several of them to understand."""
    reconcile.join_names(reading)
    reconcile.leave_out_strays(reading)
    slurm.close(reading.tables)
    training.close(reading)
    health.close(reading)
    reading.tables.close_findings()


def _stated_kind(file: str, kinds: Mapping[str, str]) -> str:
    """Return of what kind a file is stated to be; nothing if that is to be seen."""
    kind = kinds.get(file, "")
    if kind and kind not in READERS:
        raise LogError(f"--as {file}={kind}: unknown kind of log{suggest(kind, READERS)}")
    return kind


def _skip(file: str, first: str, tables: Tables) -> None:
    """Leave out a file that has the content of another one."""
    tables.drop(file, f"the same content as {first}", 1, 0)
    tables.findings.append(f"{file} has the same content as {first} and is read once")


def _read_file(log: LogReader) -> None:
    """Read one file by the reader of its kind, and refuse it if nothing of it is used."""
    log.tables.sources.append(log.source)
    READERS[log.source.kind](log)
    log.tables.findings[:0] = _findings(log.source, log.clock)
    _refuse_unused(log.source, log.tables)


def _findings(source: LogFile, clock: Moments) -> Iterator[str]:
    """Yield what is to be known of the moments and the text of a file."""
    if clock.strays:
        line, text = clock.strays[0]
        yield (
            f"{source.file}: {len(clock.strays):,} moments lie before 1990 or after 2100: their rows are left out, "
            f"for example line {line}: {text}"
        )
    if clock.new_years:
        yield (
            f"{source.file}: dates without a year fall by half a year at line {clock.new_years[0]}: read as New Year"
        )
    if clock.skipped:
        yield (
            f"{source.file}: {clock.skipped:,} local times lie in an hour that summer time skips: read as an hour "
            "later; check --timezone"
        )
    if clock.twice:
        yield f"{source.file}: {clock.twice:,} local times lie in an hour that occurs twice; the order says which"
    if source.unreadable:
        yield f"{source.file}: {source.unreadable:,} lines have bytes that are no UTF-8; these were replaced"


def _refuse_unused(source: LogFile, tables: Tables) -> None:
    """Refuse a file of which nothing was used, with the commonest reason."""
    reason = None if source.rows else tables.commonest(source.file)
    if reason is not None:
        raise LogError(
            f"{source.file}:{reason.first}: no line of this log ({source.kind}) can be used; of {source.lines:,} "
            f"lines, {reason.number:,}: {reason.rule}"
        )


def size_of(file: str) -> int | None:
    """Return the bytes of a file; ``None`` of standard input."""
    try:
        return None if file == "-" else os.stat(file).st_size  # noqa: PTH116
    except OSError:
        return 0


def peek(stream: io.BufferedReader[Any], file: str) -> list[str]:
    """Return the first lines of a file without reading them, or refuse what is no text.

    Raises
    ------
    LogError
        If it is packed otherwise than by gzip, of another encoding, or empty.
    """
    try:
        head = stream.peek(CHUNK)[: LOOK * 300]
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"{file}: cannot be unpacked ({error})") from None
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise LogError(f"{file}:1: is UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise LogError(
            f"{file}:{line}: is not text (it contains a zero byte); unpack it first, or give it on standard input"
        )
    lines = head.decode("utf-8-sig", errors="replace").splitlines()[:LOOK]
    if not any(line.strip() for line in lines):
        raise LogError(f"{file}: is empty")
    return lines


def digest(file: str) -> str:
    """Return a digest of a file, so that one that is given twice does not count twice."""
    if file == "-":
        return ""
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "blake2b").hexdigest()


def zone_of(file: str, zones: Sequence[str]) -> ZoneInfo | None:
    """Return the zone of the local times of a file.

    Raises
    ------
    LogError
        If unknown time zone.
    """
    zone = _stated_of(file, zones)
    try:
        return ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones

        raise LogError(f"--timezone {zone}: unknown time zone{suggest(zone, available_timezones())}") from None


def year_of(file: str, years: Sequence[str]) -> int:
    """Return the year in which the dates of a file begin that have none; 0 if it is not stated.

    Raises
    ------
    LogError
        If it is no year.
    """
    year = _stated_of(file, years)
    if year and not re.fullmatch("(19|20)[0-9]{2}", year):
        raise LogError(f"--year {year}: is not a year such as 2025")
    return int(year or 0)


def _stated_of(file: str, texts: Sequence[str]) -> str:
    """Return what options such as ``FILE=VALUE``, or ``VALUE`` for all files, state of a file; the last that fits."""
    options = (text.rpartition("=") for text in reversed(texts))
    return next((value for name, equals, value in options if not equals or name in (file, Path(file).name)), "")


# Which kind of log it is.

_JSON = (
    ("goodput", r'"job_name\\?"[^{}]*"\w+_(start|end)_time\\?"|"\w+_(start|end)_time\\?"[^{}]*"job_name\\?"'),
    ("kernel", r'"__REALTIME_TIMESTAMP"'),
    ("prometheus", r'"resultType"\s*:'),
    ("nvsentinel", r'(?i)"checkname"\s*:'),
    ("cycles", r'"cycle_number"\s*:'),
    ("kubernetes", r'"(involvedObject|regarding)"\s*:'),
    ("nodes", r'"kind"\s*:\s*"Node(List)?"|"nodeInfo"\s*:'),
    ("sacct-json", r'"jobs"\s*:|"job_id"\s*:'),
)
"""The patterns that distinguish kinds of JSON, the surest first."""

_TEXT = (
    ("goodput", _JSON[0][1]),
    ("kernel", r"NVRM:|\bS?Xid \(| kernel(: | - )|\bmlx5_core [\da-f]{4}:"),
    ("slurmctld", r"(?m)^\[\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?\] |(?m:^| )slurmctld(\[\d+\])?: "),
    ("nvrx", training.NVRX.pattern),
    ("torchrun", re.escape(training.ROOT)),
)

_OF_JOBS = frozenset((
    *("job_id", "jobid", "job_num", "gpu_job_num", "job_name", "user", "submit_time", "arrival_time", "gpu_num"),
    *("num_gpus", "gpu_workers", "node_num", "state", "status", "duration", "run_time", "queue"),
))  # fmt: skip
"""Columns that tables of jobs have, among others."""


def sniff(head: Sequence[str], file: str, rules: Rules) -> str:
    """Return what kind of log begins like this.

    Raises
    ------
    LogError
        If it is none that is known.
    NoModelError
        If it is a table of jobs without names of nodes.
    """
    first, text = next(line for line in head if line.strip()), "\n".join(head)
    is_json = first.lstrip().startswith(("{", "[{")) or first.strip() == "["
    _refuse(file, text if is_json else first, rules, "begins")
    names = _names(first)
    kind = _matching(_JSON, text) if is_json else ""
    kind = kind or _kind_of_table(first, names, rules) or _matching(_TEXT, text)
    if not kind and any(kernel.FORMS.match(line) for line in head):
        kind = "kernel"
    kind = kind or _sniff_further(file)
    if not kind:
        _refuse_unknown(head, file, names, rules)
    return kind


def _refuse_unknown(head: Sequence[str], file: str, names: Set[str], rules: Rules) -> NoReturn:
    """Say what a file is that has none of the forms that are read."""
    if len(names & _OF_JOBS) > 1 and not _role(names, "node", rules):
        raise NoModelError(
            f"{file}:1: has jobs but no node names, so no failure model of nodes can be fitted; a stream with `use: "
            "trace` replays its jobs"
        )
    for line in head[:10]:
        _refuse(file, line, rules, "begins")
    _refuse(file, "\n".join(head), rules, "holds")
    late = next((at for at, line in enumerate(head[:20], 1) if _kind_of_table(line, _names(line), rules)), 0)
    if late:
        raise LogError(f"{file}:1: is not a header; the header is in line {late}; remove the lines before it")
    columns = f", and no table whose columns are ({', '.join(sorted(names))})" if _is_header(names) else ""
    raise LogError(
        f"{file}:1: is not a known kind of log{columns}; name its kind with --as {Path(file).name}=KIND (choose from "
        f"{', '.join(sorted(READERS))})"
    )


def _names(header: str) -> set[str]:
    """Return the names of columns in a line, in lower case."""
    return {name.strip(" \"'").lower() for name in re.split(r"\|#|[|,;\t]", header)}


def _is_header(names: Set[str]) -> bool:
    """Return whether a line with these fields may name columns."""
    return len(names) > 1 and all(re.fullmatch(r"(?=.*[a-z])[\w .()%/#?-]{1,30}", name) for name in names - {""})


def _matching(patterns: Iterable[tuple[str, str]], text: str) -> str:
    """Return the first kind whose pattern a text has; nothing if none has it."""
    return next((kind for kind, pattern in patterns if re.search(pattern, text)), "")


def _kind_of_table(first: str, names: Set[str], rules: Rules) -> str:
    """Return what kind of table has a header with these names; nothing if none has."""
    roles = {role for role in ("part", "life", "start", "node") if _role(names, role, rules)}
    cells = first.split("|")
    kinds = {
        "node-events": {"nodename", "timestart"} <= names
        or (len(cells) == 7 and re.match(r"\d{4}-\d\d-\d\dT", cells[2]) is not None),
        "sacct": "state" in names and len(cells) > 1 and not names.isdisjoint(("jobid", "jobidraw")),
        "lives": "part" in roles and ("life" in roles or ("start" in roles and "node" not in roles)),
        "outages": {"node", "start"} <= roles,
        "inventory": "node" in roles and any(_role(names, role, rules) for role in ("in", "out", "gpus", "rack")),
    }
    return next((kind for kind, is_one in kinds.items() if is_one), "")


def _refuse(file: str, text: str, rules: Rules, where: str) -> None:
    """Refuse a file of a kind that is not read, as its first line ``begins`` or its text ``holds``, with what helps."""
    if foreign := rules.foreign_to(where, text):
        raise LogError(f"{file}:1: is {foreign}")


def _sniff_further(file: str) -> str:
    """Return what kind a log is that says so late: reports of torchrun stand at the end of what a job prints."""
    patterns = [(kind, re.compile(pattern.encode())) for kind, pattern in _TEXT]
    try:
        with opened("/dev/null" if file == "-" else file) as stream:
            while piece := stream.read(1 << 22):
                if kind := next((kind for kind, pattern in patterns if pattern.search(piece)), ""):
                    return kind
    except (OSError, EOFError, zlib.error):
        pass
    return ""


# Tables with a header: the inventory, outages of nodes, and lives of parts.


def _role(header: Iterable[str], role: str, rules: Rules) -> str:
    """Return the column that has a role; nothing if none has it."""
    names = list(header)
    place = column_of(names, rules.columns[role])
    return names[place] if place >= 0 else ""


_TOTAL = re.compile(
    r"(grand |sub-?|zwischen)?(totals?|sum|summe|(ins)?gesamt|average|mean|count|Σ|∑)([ :(=].*)?", re.IGNORECASE
)
_MANY = frozenset(("all", "any", "*", "various", "several", "multiple", "many", "cluster", "entire cluster"))
_NAME = re.compile(r"[\w.:#@-]+")
_RANGE = re.compile(r"(.*\D)(\d+) ?(?:-|–|to|\.\.) ?\1(\d+)")


def _nodes(log: LogReader, text: str) -> tuple[str, ...]:
    """Return the nodes that a field names.

    Raises
    ------
    UnusedError
        If its row is one of totals.
    ValueError
        If it holds no name, or anything else.
    """
    if _TOTAL.fullmatch(text):
        raise UnusedError("a row of totals", "unusable")
    if text.lower() in NOTHING:
        raise ValueError("has no node")
    if text.lower() in _MANY:
        raise ValueError(f"'{text}', which is the name of no node: name the nodes")
    names = log.reading.hosts.expand(text)
    for name in names:
        if ends := _RANGE.fullmatch(name):
            raise ValueError(f"'{name}', which may be all nodes between two: write '{ends[1]}[{ends[2]}-{ends[3]}]'")
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}', which is not the name of a node; separate several nodes by commas")
    return names


def read_inventory(log: LogReader) -> None:
    """Read the nodes of a cluster: names, GPUs, racks, and when they entered and left service."""
    stretches: dict[str, list[Exposure]] = defaultdict(list)

    def read(row: Mapping[str, str], line: int) -> None:
        for stretch in _stretches(log, row, line):
            stretches[stretch.unit].append(stretch)
            log.source.rows += 1

    log.each(log.table("node"), read)
    if not log.source.rows:
        raise LogError(f"{log.file}: names no node")
    log.tables.findings += _unstated(log, stretches)
    for rows in stretches.values():
        log.tables.exposure += _apart(log, rows)


def _stretches(log: LogReader, row: Mapping[str, str], line: int) -> list[Exposure]:
    """Return the service of the nodes of a row, which is refused if it cannot be understood."""
    try:
        names = _nodes(log, row["node"])
        enter = log.moment(row.get("in", ""), line, -math.inf, "in")
        leave = log.moment(row.get("out", ""), line, math.inf, "out")
        gpus = 0 if row.get("gpus", "").lower() in NOTHING else count(row["gpus"])
    except UnusedError:
        raise
    except ValueError as error:
        raise LogError(f"{log.file}:{line}: {error}") from None
    if leave <= enter:
        raise LogError(f"{log.file}:{line}: '{row['node']}' left service ({row['out']}) before it entered it")
    more = {role: row.get(role, "") for role in ("batch", "rack", "role")}
    return [Exposure(name, enter, leave, "inventory", gpus=gpus, file=log.file, line=line, **more) for name in names]


def _unstated(log: LogReader, stretches: Mapping[str, Sequence[Exposure]]) -> Iterator[str]:
    """Yield what an inventory does not state of its nodes."""
    without = [name for name, rows in stretches.items() if not any(row.gpus for row in rows)]
    if len(without) == len(stretches):
        yield f"{log.file}: states GPUs of no node (a column gpus)"
    elif without:
        number = f"{len(without):,} of {len(stretches):,} nodes"
        yield f"{log.file}: {number} have no GPUs, for example {without[0]}"
    if log.has("out") and not log.has("in"):
        yield f"{log.file}: states when nodes left service, and not when they entered it (a column in_service)"


def _apart(log: LogReader, rows: list[Exposure]) -> Iterable[Exposure]:
    """Return the stretches of service of a node; one that is not over when the next one begins ends there."""
    rows.sort(key=lambda row: row.t_enter)
    stretches = rows[:1]
    for row in rows[1:]:
        last = stretches[-1]
        if row.t_enter == last.t_enter:
            log.drop(f"a node that line {last.line} has too", row.line)
            log.source.rows -= 1
            continue
        if row.t_enter < last.t_exit:
            log.tables.show(log.file, "nodes enter service that never left it; each counts once", row.line)
            row = replace(row, t_exit=max(row.t_exit, last.t_exit))
            stretches[-1] = replace(last, t_exit=row.t_enter)
        stretches.append(row)
    return stretches


def read_outages(log: LogReader) -> None:
    """Read outages of nodes from a CSV file: node, start, end or duration, and a cause where there is one."""
    rows = log.table("node", "start", ("end", "duration"))
    log.each(rows, functools.partial(_read_outage, log, dict[tuple[str, float, float], int]()))


def _read_outage(log: LogReader, seen: dict[tuple[str, float, float], int], row: Mapping[str, str], line: int) -> None:
    names, (start, end) = _nodes(log, row["node"]), _span(log, row, line)
    reason = row.get("cause", "")
    planned = flag(row.get("planned", "")) or log.rules.is_planned("", reason)
    cause = _cause(reason)
    for name in names:
        if seen.setdefault((name, start, end), line) != line:
            log.drop("an outage that is repeated", line)
            continue
        log.tables.events.append(
            NodeEvent(
                "outages", start, end, name, cause, "column" if reason else "unknown", log.file, line,
                planned=planned, text=reason,
            )
        )  # fmt: skip
    log.source.use(start, end)


@functools.lru_cache(10_000)
def _cause(reason: str) -> str:
    """Return the name of the cause that a column states."""
    return re.sub(r"\W+", "_", reason.lower()).strip("_") or "unknown"


def _span(log: LogReader, row: Mapping[str, str], line: int) -> tuple[float, float]:
    """Return start and end of an outage [s]; the end is NaN while it lasts."""
    for role in ("start", "end"):
        if _DATE.fullmatch(row.get(role, "")):
            raise ValueError("a date without a time of day")
    start, end = (log.moment(row.get(role, ""), line, math.nan, role) for role in ("start", "end"))
    if math.isnan(start):
        raise ValueError("has no start")
    if row.get("duration", "").lower() not in NOTHING:
        length = log.duration(row["duration"], "duration")
        if abs(end - start - length) > max(60.0, 0.01 * length):
            raise ValueError("its end and its duration contradict each other")
        end = start + length
    if end < start:
        raise ValueError("ends before it starts")
    return start, end


_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{8}")

OLDEST = 100 * YEAR
"""Age that no part reaches [s]."""


def read_lives(log: LogReader) -> None:
    """Read lives of parts: dates of installation and removal, or ages; with a cause, or `failed`, those that failed.

    Of several rows of one part that begin at the same time the last that is said counts: an end, or the longest life.
    """
    lives: dict[tuple[str, ...], PartLife] = {}

    def read(row: Mapping[str, str], line: int) -> None:
        life = _life(log, row, line)
        key = (life.part, life.batch, f"{life.born}", f"{life.entry}", "" if life.part else f"{line}")
        before = lives.setdefault(key, life)
        if before is not life:
            # An open life is reported before its end is.
            last, gone = sorted((before, life), key=lambda row: (row.age == row.age, row.age), reverse=True)
            log.drop("a part that another row has too", gone.line)
            lives[key] = last

    log.each(log.table("part", ("life", "start"), ("failed", "cause")), read)
    log.tables.lives += lives.values()
    log.source.rows += len(lives)
    for life in lives.values():
        log.source.saw(life.born, life.born + life.age)


def _life(log: LogReader, row: Mapping[str, str], line: int) -> PartLife:
    """Return the life of a part that a row states."""
    born, entry, age = _ages(log, row, line)
    cause = "" if row.get("cause", "").lower() in NOTHING else row["cause"]
    failed = flag(row["failed"]) if "failed" in row else bool(cause) and not log.rules.is_planned("", cause)
    return PartLife(row["part"], row.get("batch", ""), born, entry, age, failed, cause, log.file, line)


def _ages(log: LogReader, row: Mapping[str, str], line: int) -> tuple[float, float, float]:
    """Return when a part was installed, or NaN, and the ages at which it was met and left [s]."""
    if "life" in row:
        born, age = math.nan, log.duration(row["life"], "life")
        entry = 0.0 if row.get("entry", "").lower() in NOTHING else log.duration(row["entry"], "entry")
    else:
        born, entry = log.moment(row["start"], line, role="start"), 0.0
        age = log.moment(row.get("end", ""), line, role="end") - born
    if age <= entry or ("life" not in row and math.isnan(born)):
        raise ValueError("no time in service")
    if age > OLDEST:
        raise ValueError("an age of more than a hundred years; its unit is another one")
    return born, entry, age


READERS: dict[str, Callable[[LogReader], None]] = {
    "inventory": read_inventory,
    "outages": read_outages,
    "lives": read_lives,
    "node-events": slurm.read_node_events,
    "sacct": slurm.read_sacct,
    "sacct-json": slurm.read_sacct_json,
    "slurmctld": slurm.read_slurmctld,
    "kernel": kernel.read_kernel,
    "kubernetes": health.read_events,
    "nodes": health.read_nodes,
    "nvsentinel": health.read_nvsentinel,
    "prometheus": health.read_prometheus,
    "goodput": training.read_goodput,
    "torchrun": training.read_torchrun,
    "nvrx": training.read_nvrx,
    "cycles": training.read_cycles,
}
