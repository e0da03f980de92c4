"""The common parts of readers of logs: the tables that they fill, rules for causes, and a file while it is read.

Tables are of events, exposure, attempts and phases, and of what was not used (`Tables`). What takes more than one file
to understand waits in a `ReaderContext`. `LogReader` gives the lines, rows and documents of one file.
Times are seconds since 1970 in UTC; names of nodes and jobs are text. Every row says which file and line it is from.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator
import re
import zlib
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from ettrick.analysis.results.files import csv_text
from ettrick.sim import records
from ettrick.sim.moments import Moments, StrayError
from ettrick.sim.records import NOTHING, LogError, Table, Unpacked, full_state

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.sim.records import HostLists

    Row = TypeVar("Row")


class UnusedError(ValueError):
    """A line that is not used; the message is why, and `sort` says of what sort it is."""

    def __init__(self, reason: str, sort: Sort = "normal") -> None:
        super().__init__(reason)
        self.sort: Sort = sort


class NoModelError(ValueError):
    """Logs that were read, and that no failure model follows from; the message says why."""


@dataclass(slots=True)
class NodeEvent:
    """Something that happened to a node or one of its parts.

    Parameters
    ----------
    source
        Kind of the log: ``node-events``, ``kernel`` and the like.
    t, t_end
        Start and end [s]; ``t_end`` is NaN while it lasts.
    t_lo
        Earliest possible start [s]; NaN if `t` is exact.
    node, part, part_id
        Where: the node, the class of part (``gpu``, ``nic``, ``node``, ...) and its name on the node.
    severity
        ``fatal``, ``degraded`` or ``info``.
    repair_kind
        ``reset``, ``reboot``, ``swap`` or nothing.
    incident
        Number of the incident that it belongs to; -1 for none.
    raw_count
        Lines that it stands for.
    text
        What the log says, for rules and for the commonest unknown texts; never written out.
    is_fault
        Whether it says what a part showed, such as an XID, and not that the node was out of service.
    """

    source: str
    t: float
    t_end: float
    node: str
    cause: str
    cause_basis: str
    file: str
    line: int
    part: str = "node"
    part_id: str = ""
    t_lo: float = math.nan
    planned: bool = False
    severity: Literal["fatal", "degraded", "info"] = "fatal"
    repair_kind: str = ""
    incident: int = -1
    raw_count: int = 1
    job: str = ""
    text: str = ""
    is_fault: bool = False
    hidden: ClassVar = ("text", "is_fault")


@dataclass(slots=True)
class Exposure:
    """A node that could have failed, from `t_enter` to `t_exit` [s]; `basis` says how that is known."""

    unit: str
    t_enter: float
    t_exit: float
    basis: Literal["inventory", "first and last seen", "stated"]
    part: str = "node"
    gpus: int = 0
    batch: str = ""
    rack: str = ""
    role: str = ""
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class LoggedAttempt:
    """A run of a job; `nodes` is a host list as the log has it. NaN for a moment that has not come.

    `basis` says why the end is, or is not, blamed on a node.
    """

    job: str
    attempt: int
    nodes: str
    node_count: int
    gpus: int
    t_submit: float
    t_eligible: float
    t_start: float
    t_end: float
    elapsed: float
    end_state: str
    user: str = ""
    partition: str = ""
    limit: float = math.nan
    restarts: int = 0
    blamed_node: str = ""
    cause: str = ""
    cause_basis: str = ""
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class TrainingPhase:
    """A stretch of a job's attempt between `t0` and `t1` [s]; `step` phases count their steps."""

    job: str
    attempt: int
    phase: str
    t0: float
    t1: float
    first_step: int = -1
    last_step: int = -1
    file: str = ""
    line: int = 0


# What takes more than one file to understand.


@dataclass(slots=True)
class StateChange(NodeEvent):
    """A moment at which a node, or one check of it, changes its state, with what is known of the outage that it begins.

    Parameters
    ----------
    does
        ``down``, ``up``, or ``answers``: it may be back, if nothing says otherwise.
    key
        What went down: a node is out as long as anything is.
    quiet
        Whether it may say nothing new.
    """

    does: str = "down"
    key: str = ""
    quiet: bool = False

    def outage(self) -> NodeEvent:
        """Return the outage that it begins."""
        return NodeEvent(*(getattr(self, part.name) for part in fields(NodeEvent)))


class SampleRun(NamedTuple):
    """Samples of a time series that are equal: first and last moment [s], value, step [s], and where they are from."""

    first: float
    last: float
    value: float
    step: float
    file: str
    line: int


class Snapshot(NamedTuple):
    """A node at one moment: whether it is ready, and since when; since when it is cordoned, NaN if it is not [s]."""

    t: float
    node: str
    ready: bool
    since: float
    cordoned: float
    conditions: dict[str, PartFault]
    """The faults that other bad conditions state."""
    seen_as: Exposure


class PartFault(NamedTuple):
    """The fault of a part in an event or a condition, and its start [s]."""

    cause: str
    basis: str
    severity: Literal["fatal", "info"]
    since: float = math.nan


class SpanEdge(NamedTuple):
    """A moment [s] at which a span of a job begins or ends, in the order that runs are made in.

    At one moment a job ends (rank 0), spans end (1), a job starts (2), spans begin (3), and a numbered step
    begins (4).
    """

    job: str
    moment: float
    rank: int
    step: int
    span: str
    file: str
    line: int


@dataclass(slots=True)
class PartLife:
    """A part from when it was put into service to its failure, or to when it was last seen, in seconds.

    `born` is a moment, NaN where the table has ages alone; `entry` is the age at which it was first seen, and `age` the
    last one, NaN while it is in service.
    """

    part: str
    batch: str
    born: float
    entry: float
    age: float
    failed: bool
    cause: str
    file: str
    line: int


Sort = Literal["unusable", "unread", "normal"]
"""The sort of a line that was not used: of the kind of the file but unusable; a fault without a rule; or any other."""


@dataclass(slots=True)
class Dropped:
    """Lines that were not used, by reason: how many, the first and last of them, and of what sort they are."""

    source: str
    rule: str
    number: int = 0
    first: int = 0
    last: int = 0
    sort: Sort = "unusable"
    example: str = ""
    hidden: ClassVar = ("example",)

    def add(self, line: int, number: int = 1) -> None:
        """Count so many lines up to one."""
        self.number += number
        self.last = max(self.last, line)


@dataclass(slots=True)
class LogFile:
    """A file that was read: what kind it is, its lines, and the moments [s] between which it says something."""

    file: str
    kind: str
    lines: int = 0
    first: float = math.inf
    last: float = -math.inf
    rows: int = 0
    columns: str = ""
    """The columns of a table and their roles."""
    unreadable: int = 0
    """Lines with bytes that are no UTF-8; they were read with those replaced."""

    def use(self, *moments: float) -> None:
        """Count a row that is used, and widen the window of the file by its moments [s]."""
        self.rows += 1
        self.saw(*moments)

    def saw(self, *moments: float) -> None:
        """Widen the window of the file by moments [s]; NaN is none."""
        for moment in moments:
            if moment < self.first:
                self.first = moment
            if moment > self.last:
                self.last = moment


@dataclass
class Tables:
    """All that logs say; several files fill the same tables."""

    events: list[NodeEvent] = field(default_factory=list)
    exposure: list[Exposure] = field(default_factory=list)
    attempts: list[LoggedAttempt] = field(default_factory=list)
    phases: list[TrainingPhase] = field(default_factory=list)
    lives: list[PartLife] = field(default_factory=list)
    sources: list[LogFile] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    groups: dict[int, list[int]] = field(default_factory=dict)
    """The numbers of lines and of groups of lines of each XID code."""
    watched: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """The stretches in which each node with time series was sampled [s]."""
    blamed: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """The moments and nodes that ended each job, by the log of the scheduler."""
    _dropped: dict[tuple[str, str], Dropped] = field(default_factory=dict)
    _shown: dict[tuple[str, str], Dropped] = field(default_factory=dict)

    def show(self, source: str, what: str, line: int, example: str = "") -> None:
        """Make a finding of lines that say something which no rule knows: one a file and kind, with count and example.

        Parameters
        ----------
        what
            A plural noun with what is odd about it: ``lines name a node and a fault that no rule knows``.
        example
            What the first of them says, without names of nodes, users and jobs.
        """
        self._shown.setdefault((source, what), Dropped(source, what, first=line, example=example)).add(line)

    def close_findings(self) -> None:
        """Put what was shown into the findings, the commonest first."""
        self.findings += [
            f"{row.source}: {row.number:,} {row.rule}, for example line {row.first}"
            + (f": {row.example}" if row.example else "")
            for row in sorted(self._shown.values(), key=lambda row: -row.number)
        ]
        self._shown.clear()

    def drop(self, source: str, rule: str, line: int, number: int = 1, sort: Sort = "unusable") -> None:
        """Keep account of lines that are not used: by the reason, whatever value it quotes of the first of them."""
        key = source, _QUOTED.sub("", rule) if "'" in rule else rule
        row = self._dropped.get(key) or self._dropped.setdefault(key, Dropped(source, rule, first=line, sort=sort))
        row.add(line, number)

    @property
    def dropped(self) -> list[Dropped]:
        """The lines that were not used, by file and reason."""
        return list(self._dropped.values())

    def commonest(self, file: str = "", sorts: Sequence[Sort] = ("unusable",)) -> Dropped | None:
        """Return the commonest reason for which lines of a file, or of all, were not used; ``None`` without any."""
        rows = [row for row in self.dropped if row.sort in sorts and file in ("", row.source)]
        return max(rows, key=lambda row: row.number, default=None)


def as_csv(rows: Iterable[Any], kind: type) -> str:
    """Return a table as CSV: moments in UTC, empty where there is none."""
    names = [part.name for part in fields(kind) if part.name not in getattr(kind, "hidden", ())]
    cells = operator.attrgetter(*names)
    return csv_text(itertools.chain([names], (map(_cell, names, cells(row)) for row in rows)))


def _cell(name: str, value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return ""
        return utc(value) if name.startswith("t") else f"{value:.10g}"
    return str(value).lower() if isinstance(value, bool) else value


def utc(moment: float) -> str:
    """Return a moment [s since 1970] as text in UTC, to the millisecond where it has any."""
    text = datetime.fromtimestamp(round(moment, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace(".000", "").replace("+00:00", "Z")


# The rules that give a cause.


class KernelRule(NamedTuple):
    """A rule for lines of the kernel: words in lower case, a pattern, a cause, and the XID if that is known."""

    holds: str
    match: re.Pattern[str]
    cause: str
    code: int


class Rules:
    """Rules of `rules.yaml`, those of the user first."""

    def __init__(self, content: Mapping[str, Any], additions: Mapping[str, Any] | None = None) -> None:
        self._parts = additions, content = additions or {}, content
        self.causes: dict[str, str] = {name: entry["fault"] for name, entry in self._pairs("causes")}
        self.of_xid, self.states = self._kinds("xids"), self._kinds("states")
        self._node_states = self._kinds("node_states")
        self.harmless = frozenset(self._rows("harmless"))
        self.kernel = [
            KernelRule(row["holds"].lower(), re.compile(row["match"]), str(row["cause"]), int(row.get("code", 0)))
            for row in self._rows("kernel")
        ]
        self.foreign = {where: self._foreign(where, content["exports"]) for where in ("begins", "holds", "line")}
        self.fault_words = [str(word).lower() for word in self._rows("fault_words")]
        self._planned_states = frozenset(self._planned_part("states"))
        self._planned = _patterns((reason, "planned") for reason in self._planned_part("reasons"))
        self._reasons = _patterns((row["match"], row["cause"]) for row in self._rows("reasons"))
        self._repairs = _patterns((row["match"], row["repair"]) for row in self._rows("repairs"))
        self.slurmctld = [
            {**row, "holds": row["holds"].encode(), "match": re.compile(row["match"])}
            for row in self._rows("slurmctld")
        ]
        self.kubernetes, self.nvsentinel, self.prometheus = (
            _merged(content[kind], additions.get(kind, {})) for kind in ("kubernetes", "nvsentinel", "prometheus")
        )
        self._check_choices()
        self._kubernetes = {
            table: [(re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in self.kubernetes[table].items()]
            for table in ("events", "conditions")
        }
        self.columns: dict[str, list[str]] = _merged(content["columns"], additions.get("columns", {}))
        self.actions = {str(key): kind for key, kind in self.nvsentinel["actions"].items()}
        self._checks = _patterns((entry["match"], entry["cause"]) for entry in self.nvsentinel["checks"])
        # Logs say the same few things of each node.
        often = functools.lru_cache(100_000)
        self.is_planned, self.cause_of = often(self._is_planned), often(self._cause_of)
        self.repair_of, self.node_state = often(self._repair_of), often(self._node_state)
        self.job_state, self.kubernetes_rule = often(self._job_state), often(self._kubernetes_rule)

    @property
    def cause_names(self) -> set[str]:
        """Names of causes, and of the faults that they are."""
        return {*self.causes, *self.causes.values()}

    def _rows(self, table: str) -> list[Any]:
        """Return the entries of a list; the first that matches decides."""
        return [entry for part in self._parts for entry in part.get(table, ())]

    def _planned_part(self, table: str) -> list[str]:
        return [entry for part in self._parts for entry in part.get("planned", {}).get(table, ())]

    def _pairs(self, table: str) -> list[tuple[Any, Any]]:
        """Return the entries of a mapping; the last of a key decides."""
        return [pair for part in reversed(self._parts) for pair in part.get(table, {}).items()]

    def _kinds(self, table: str) -> dict[Any, str]:
        """Return the kind of each word of a mapping from kinds to their words."""
        return {word: kind for kind, words in self._pairs(table) for word in words}

    def _foreign(self, where: str, exports: Mapping[str, object]) -> list[tuple[str, str, str]]:
        """Return what tells a file that is not read, by its place: pattern, what it is, and what helps."""
        rows = (row for row in self._rows("foreign") if where in row)
        return [(row[where], str(row["is"]), str(exports[row["export"]])) for row in rows]

    def _check_choices(self) -> None:
        for table, choices in (
            (self.slurmctld, ("down", "up", "answers", "state", "reason", "job", "runs", "none", "show")),
            (self.kubernetes["events"].values(), ("down", "up", "fault", "none")),
            (self.prometheus["metrics"].values(), ("code", "count", "rise", "state", "name")),
        ):
            for does in (rule["does"] for rule in table):
                if does not in choices:
                    raise ValueError(f"does: {does} is none of {', '.join(choices)}")

    def foreign_to(self, where: str, text: str) -> str:
        """Return what a text is that is not read, and what helps; nothing if no rule of such a place names it."""
        rules = self.foreign[where]
        return next((f"{kind}; {export}" for pattern, kind, export in rules if re.search(pattern, text)), "")

    def _kubernetes_rule(self, table: str, name: str) -> Mapping[str, Any] | None:
        """Return the rule of a reason (``events``) or of a condition (``conditions``); ``None`` if there is none."""
        return next((rule for pattern, rule in self._kubernetes[table] if pattern.fullmatch(name)), None)

    def of_code(self, text: str) -> tuple[str, str, bool]:
        """Return the cause that an XID in a text names, the code as a basis, and if it is harmless; or nothing."""
        match = XID_IN_TEXT.search(text)
        if match is None or self.of_xid.get(int(match[1])) == "repair":
            return "", "", False
        return self.of_xid.get(int(match[1]), "gpu_other"), f"xid {match[1]}", int(match[1]) in self.harmless

    def check_of(self, name: str) -> str:
        """Return the cause that the name of a check gives; nothing if none."""
        return _first(self._checks, name)[1]

    def _is_planned(self, state: str, reason: str) -> bool:
        """Return whether a state of a node, or its reason, is planned work."""
        return bool(self._planned_states.intersection(_words(state)) or _first(self._planned, reason)[1])

    def _node_state(self, text: str) -> str:
        """Return whether a state of a node is ``up`` or ``down``; nothing if a word of it is in no rule."""
        meanings = {
            self._node_states.get(word, "down" if word in self._planned_states else "") for word in _words(text)
        }
        return "down" if "down" in meanings else "up" if meanings == {"up"} else ""

    def _job_state(self, text: str) -> str:
        """Return the state of a job, with more behind it (`CANCELLED by 7`) or cut (`OUT_OF_ME+`); or nothing."""
        return full_state(text.partition(" ")[0].upper(), self.states)

    def _cause_of(self, reason: str) -> tuple[str, str]:
        """Return the cause that a reason gives, and the rule: its number, ``xid N``, or ``unknown``."""
        cause, basis, _ = self.of_code(reason)
        if cause not in ("", "application"):
            return cause, basis
        number, cause = _first(self._reasons, reason)
        return (cause, f"reason {number}") if number else ("unknown", "unknown")

    def _repair_of(self, reason: str) -> str:
        """Return the kind of repair that a reason names; nothing if it names none."""
        return _first(self._repairs, reason)[1]


def _words(state: str) -> list[str]:
    """Return the words of a state of a node, without the signs behind them."""
    return [word for part in re.split(r"[+,]", state.upper()) if (word := part.strip().rstrip("*~#$@^!%-."))]


def _merged(ours: Mapping[str, Any], additions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a format: lists with those of the user first, mappings with theirs instead of ours."""
    unknown = set(additions) - set(ours)
    if unknown:
        raise ValueError(f"unknown key '{min(unknown)}'")
    return {
        key: [*additions.get(key, ()), *value]
        if isinstance(value, list)
        else {**additions.get(key, {}), **value, **additions.get(key, {})}
        for key, value in ours.items()
    }


_QUOTED = re.compile(r"'[^']*'")

XID_IN_TEXT = re.compile(
    r"(?<!s)xid(?:[ _]?(?:errors?|codes?|events?|found))*(?: \(pci:[^)]*\))?[\s:#=]*(\d{1,3})(?!\d)", re.IGNORECASE
)


def _patterns(rules: Iterable[tuple[str, str]]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.IGNORECASE), meaning) for pattern, meaning in rules]


def _first(rules: Sequence[tuple[re.Pattern[str], str]], text: str) -> tuple[int, str]:
    """Return the number, from 1, and the meaning of the first rule that matches; 0 and nothing without one."""
    numbered = enumerate(rules, 1)
    return next(((number, meaning) for number, (pattern, meaning) in numbered if pattern.search(text)), (0, ""))


# A file while it is read: opened, unpacked, cut into lines, and what was not used of it counted.


@dataclass
class ReaderContext:
    """The state that readers share: the tables that they fill, the rules, the hosts that they have expanded.

    What takes more than one file to understand waits until all are read.
    """

    tables: Tables
    rules: Rules
    hosts: HostLists
    points: list[StateChange] = field(default_factory=list)
    series: dict[tuple[str, str, str], list[SampleRun]] = field(default_factory=dict)
    """Runs of equal samples, by metric, node and what of it."""
    starts: list[tuple[float, str]] = field(default_factory=list)
    """The starts of jobs and their lists of hosts, by the log of the scheduler."""
    addresses: dict[str, set[str]] = field(default_factory=dict)
    """The nodes of each address or other name, as a source states them."""
    labels: set[tuple[str, ...]] = field(default_factory=set)
    """Names that the labels of one series have for its node, the first one in use."""
    snapshots: list[Snapshot] = field(default_factory=list)
    cycles: list[LoggedAttempt] = field(default_factory=list)
    """The attempts between two restarts inside one run of a job."""
    entries: list[SpanEdge] = field(default_factory=list)
    """The entries of training logs, in any order."""


class LogReader:
    """A file while it is read."""

    def __init__(
        self, source: LogFile, clock: Moments, reading: ReaderContext, stream: io.BufferedReader[Any],
        advance: Callable[[int], None] = lambda _done: None,
    ) -> None:  # fmt: skip
        self.source, self.clock, self.reading = source, clock, reading
        self._utc = Moments(ZoneInfo("UTC"), source.file)
        self._utc.strays = clock.strays
        self.tables, self.rules, self.file = reading.tables, reading.rules, source.file
        self._stream, self._advance = stream, advance
        self._table: Table | None = None
        self.ends = b"", b""
        """First and last line of what was read in pieces: between them the log was written, whatever it says."""

    def drop(self, rule: str, line: int, number: int = 1, sort: Sort = "unusable") -> None:
        """Keep account of lines that are not used."""
        self.tables.drop(self.file, rule, line, number, sort)

    def each(self, rows: Iterable[tuple[int, Row]], read: Callable[[Row, int], None], otherwise: str = "") -> None:
        """Read each row, and count those that cannot be used under the reason.

        Parameters
        ----------
        rows
            Each with its line.
        otherwise
            The reason for a row that has not the form which is read; without one its form is known.
        """
        errors = (ValueError, LookupError, TypeError, AttributeError) if otherwise else (ValueError,)
        for line, row in rows:
            try:
                read(row, line)
            except UnusedError as error:
                self.drop(str(error), line, sort=error.sort)
            except errors as error:
                self.drop(otherwise or str(error), line)

    def first_line(self) -> str:
        """Return the first line, or its beginning, without reading it."""
        return self._stream.peek(1)[:65536].decode("utf-8-sig", errors="replace").splitlines()[0]

    def moment(self, text: str, line: int, empty: float = math.nan, role: str = "") -> float:
        """Return a moment [s], or what an empty one stands for; a number is of the unit that its column states."""
        if text.lower() in NOTHING:
            return empty
        name = self._name_of(role)
        zone = records.end_of(name, records.ZONES)
        clock = self._utc if zone in ("utc", "gmt", "z") else self.clock
        if unit := records.unit_of(name):
            return records.number(self._clear(text)) * unit
        try:
            return clock.read(text, line, role if role == "start" else "")
        except StrayError:
            if role != "out":
                raise
            self.clock.strays.pop()  # a node that never leaves
            return empty
        except LogError as error:
            if not zone:
                raise
            raise LogError(f"{error} (the header says '{name}')") from None
        except ValueError as error:
            if "1970" in str(error):
                raise
            raise ValueError(f"'{text}' is not a time such as 2025-02-03T08:11:40") from None

    def duration(self, text: str, role: str) -> float:
        """Return a length of time [s]; a number is of the unit that its column states.

        Raises
        ------
        LogError
            If that states none.
        ValueError
            If it is no length of time, or may be two.
        """
        if re.fullmatch(r"\d+:\d\d", text):
            seconds = records.CLOCKS.get(records.end_of(self._name_of(role), records.CLOCKS))
            if seconds is not None:
                return records.duration(text + seconds)
            raise ValueError(f"'{text}', which is hours and minutes, or minutes and seconds: write 01:30:00")
        text = self._clear(text)
        try:
            value = records.number(text)
        except ValueError:
            return records.duration(text)
        return value * self.unit(role) if value else 0.0

    def table(
        self,
        *needed: str | tuple[str, ...],
        header: str = "",
        free: str = "",
        export: str = "",
        more: Sequence[str] = (),
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows of a table by role, with their lines; those that cannot be used are counted.

        Parameters
        ----------
        header
            The header of a file that has none.
        free, export
            As of a `Table`.
        more
            Roles whose columns have their names.
        """
        lines = itertools.chain([(0, header)] if header else [], self.lines())
        names = {**self.rules.columns, **{role: [role] for role in more}}
        table = self._table = Table(lines, self.file, names, needed, free, export)
        self.source.columns = table.roles
        for line, row in table.rows():
            if isinstance(row, str):
                self.drop(row, line)
            else:
                yield line, row

    def has(self, role: str) -> bool:
        """Return whether the table that is read has a column of a role."""
        return self._table is not None and role in self._table.columns

    def unit(self, role: str) -> float:
        """Return the unit of the numbers of a column, which its name states [s].

        Raises
        ------
        LogError
            If the name does not state it.
        """
        name, table = self._name_of(role), self._table
        if table is not None and name and not records.unit_of(name):
            raise LogError(
                f"{self.file}:{table.line}: column '{name}' does not state its unit; call it {role}_s, {role}_min, "
                f"{role}_h or {role}_days"
            )
        return records.unit_of(name)

    def _name_of(self, role: str) -> str:
        """Return the name of the column that has a role; nothing if none has it, or no table is read."""
        return self._table.name_of(role) if self._table is not None else ""

    def _clear(self, text: str) -> str:
        """Return a field of the table that is read without what stands in numbers for reading alone."""
        return self._table.clear(text) if self._table is not None else text

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers; a file that ends early, as a cut gzip file does, ends here too."""
        number, source = 0, self.source
        try:
            for number, raw in enumerate(self._stream, 1):
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError:
                    text = raw.decode("utf-8", errors="replace")
                    source.unreadable += 1
                source.lines = number
                if not number & 0x3FFF:
                    self._report()
                yield number, text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")
        except (EOFError, OSError, zlib.error) as error:
            self._ends_early(error, number + 1)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield pieces of whole lines, with the number of the first line of each."""
        rest, number = b"", 1
        while True:
            try:
                piece = self._stream.read1(records.CHUNK)
            except (EOFError, OSError, zlib.error) as error:
                self._ends_early(error, number)
                piece = b""
            self._report()
            if not piece:
                if rest:
                    self.source.lines = number
                    yield number, rest
                return
            cut = piece.rfind(b"\n") + 1
            whole, rest = rest + piece[:cut], piece[cut:] if cut else rest + piece
            if not cut:
                continue
            yield number, whole
            number += whole.count(b"\n")
            self.source.lines = number - 1

    def holding(self, texts: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that hold one of some texts, in upper or lower case; all others are only counted."""
        wanted = {text.lower() for text in texts}
        for base, chunk in self.chunks():
            first, _, _ = chunk.partition(b"\n") if base == 1 else (self.ends[0], b"", b"")
            self.ends = first, chunk[chunk.rstrip().rfind(b"\n") + 1 :].rstrip()
            counted, number, done = 0, base, 0
            lower = chunk.lower()
            for at in sorted(at for text in wanted for at in _places(lower, text)):
                if at < done:
                    continue
                start = chunk.rfind(b"\n", 0, at) + 1
                done = chunk.find(b"\n", at)
                done = len(chunk) if done < 0 else done
                number += chunk.count(b"\n", counted, start)
                counted = start
                yield number, chunk[start:done]

    def documents(self) -> Iterator[tuple[int, Any]]:
        """Yield values of JSON with their lines: one a line, or one after the other over several.

        What does not begin with an object in a line is read whole if it can be, else line by line.

        Raises
        ------
        LogError
            If the file holds one value over several lines, and that is no JSON.
        """
        lines = self.lines()
        first = next(((number, text) for number, text in lines if text.strip()), None)
        if first is None:
            return
        if _is_object(first[1]):
            yield from self._objects(itertools.chain([first], lines))
            return
        numbered = [first, *lines]
        try:
            values = list(self._values(numbered))
        except LogError:
            if not any(_is_object(text) for _, text in numbered[:20]):
                raise
            yield from self._objects(numbered)
        else:
            yield from values

    def _objects(self, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
        """Yield the values of JSON of lines that have one each; the brackets and commas of a list are no values."""
        for line, text in numbered:
            content = text.strip().rstrip(",")
            if content in ("", "[", "]"):
                continue
            try:
                value = json.loads(content)
            except (ValueError, RecursionError):
                self.drop("no JSON", line)
                continue
            yield line, value

    def _values(self, numbered: list[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
        """Yield values of JSON that stand one after the other."""
        text = "\n".join(text for _, text in numbered).lstrip()
        first, at, decoder = numbered[0][0], 0, json.JSONDecoder()
        while at < len(text):
            try:
                value, end = decoder.raw_decode(text, at)
            except RecursionError:
                raise LogError(f"{self.file}:{first + text.count(chr(10), 0, at)}: is nested too deeply") from None
            except json.JSONDecodeError as error:
                raise LogError(
                    f"{self.file}:{first + error.lineno - 1}: is not complete JSON ({error.msg.lower()})"
                ) from None
            yield first + text.count("\n", 0, at), value
            at = end
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1

    def _report(self) -> None:
        raw = self._stream.raw
        self._advance(raw.packed.tell() if isinstance(raw, Unpacked) else raw.tell() if raw.seekable() else 0)

    def _ends_early(self, error: Exception, line: int) -> None:
        self.drop("the file ends early", line)
        self.tables.findings.append(f"{self.file}:{line}: the file is damaged from here on ({error})")


def _places(content: bytes, text: bytes) -> Iterator[int]:
    """Yield the places of a text in some content, one for each line that holds it."""
    at = content.find(text)
    while at >= 0:
        yield at
        end = content.find(b"\n", at)
        at = content.find(text, end) if end >= 0 else -1


def _is_object(text: str) -> bool:
    """Return whether a line is an object of JSON by itself."""
    try:
        content = text.strip().rstrip(",")
        return isinstance(json.loads(content), dict) and len(content) > 2
    except (ValueError, RecursionError):
        return False
