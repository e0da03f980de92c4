"""A recorded log as a failure source: rows of (unit, start, end, cause)."""

from __future__ import annotations

import csv
import math
import os
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sim import catalog, units
from sim.failures.effects import Fault
from sim.failures.source import Recorded, Source
from sim.scenario.fields import Model, RuleError, Strategy
from sim.scenario.laws import Law
from sim.yamlfile import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


class TraceError(ValueError):
    """A log that cannot be read; the message names file and line."""


class Columns(Model):
    """Names of the columns of a log."""

    unit: str = "unit"
    start: str = "start"
    end: str = "end"
    cause: str = "cause"


class Log(NamedTuple):
    """Outages of a log by cause, and how many overlapping ones were joined.

    ``units`` are the names that the rows count in: by first appearance or, with an inventory, all of them in its order.
    ``note`` says what was assumed in reading it.
    """

    units: tuple[str, ...]
    by_cause: dict[str, Recorded]
    merged: int
    note: str = ""


class Replay(Strategy):
    """Outages of nodes exactly as a log has them; which node a name means is said by `inventory` and `map`."""

    use: Literal["replay"] = "replay"
    file: str = Field(description="CSV file with a header, relative to this file.")
    time_unit: Literal["s", "min", "h", "d"] = Field("s", description="Unit of start and end if they are numbers.")
    origin: float | str | None = Field(
        None,
        description="Moment of the log at which the simulation starts: a number or a date, as the log has them; by "
        "default 0, or the first start if it has dates.",
    )
    columns: Columns = Field(default_factory=Columns, description="Names of the columns.")
    inventory: str | None = Field(
        None, description="CSV file with a header and the name of every node, in order; relative to this file."
    )
    map: Literal["name", "number", "first-appearance"] = Field(
        "name",
        description="Which name is which node, without an inventory: by the natural order of the names; names are "
        "numbers of nodes, from 0; or as they appear.",
    )
    spread_unknown: Literal["once", "each"] = Field(
        "once",
        description="Where the log names fewer nodes than there are, they are placed at random: by the seed alone, or "
        "anew in each replication.",
    )
    detection: Law | None = Field(None, description="Detection time, in place of the scenario's.")
    fault: Fault = Field("host", description="Class of its faults: what those who watch see of them.")

    @property
    def by_order(self) -> bool:
        """Whether the natural order of the names says which node is which."""
        return self.map == "name" and self.inventory is None

    def read(self) -> Log:
        """Read the log.

        Raises
        ------
        TraceError
            If a row cannot be used.
        RuleError
            If the inventory cannot be used, or the origin is not a moment as those of the log.
        """
        inventory: tuple[str, ...] = ()
        if self.inventory is not None:
            if self.map != "name":
                raise RuleError(("map",), "an inventory says which node is which; leave one of the two out")
            try:
                inventory = _inventory(Path(self.inventory), self.columns.unit)
            except TraceError as error:
                raise RuleError(("inventory",), str(error)) from error
        second = units.parse(f"1 {self.time_unit}", units.DURATION)
        return read_log(Path(self.file), self.columns, second, self.origin, inventory)

    def build_all(
        self, counts: Mapping[str, int], logs: Iterable[Replay] = (), read: Callable[[Replay], Log] | None = None
    ) -> tuple[list[Source], int]:
        """Return one source per cause, and how many overlapping intervals were joined.

        Parameters
        ----------
        counts
            Units of each part of the cluster.
        logs
            All logs of the scenario: a name is the same node in each.
        read
            Reads a log, by default with `Replay.read`; whoever builds several reads each only once.

        Raises
        ------
        TraceError
            If a row cannot be used, or its name does not say which node it is.
        RuleError
            If the inventory does not fit, or the origin.
        """
        read = read or Replay.read
        log = read(self)
        nodes, file = counts["node"], _shown(Path(self.file))
        if self.inventory is not None and len(log.units) != nodes:
            inventory = _shown(Path(self.inventory))
            rule = f"{inventory} names {len(log.units)} nodes below its header, but the cluster has {nodes}"
            raise RuleError(("inventory",), rule)
        names = log.units
        if self.map == "number":
            names = tuple(map(str, range(nodes)))
        elif self.by_order:
            others = (other for other in logs if other is not self and other.by_order)
            names = _in_order({*log.units, *(name for other in others for name in read(other).units)}, file)
        if len(names) > nodes:
            together = f", with the other logs {len(names)}" if len(names) > len(log.units) else ""
            raise TraceError(f"{file}: the log has {len(log.units)} units{together}, but the cluster has {nodes} nodes")
        places = {name: number for number, name in enumerate(names)}
        for name in log.units:
            if name not in places:
                raise TraceError(f"{file}: '{name}' is not the number of a node, 0 to {nodes - 1}")
        place = np.array([places[name] for name in log.units], dtype=np.int64)
        spread = nodes if self.by_order and len(names) < nodes else 0
        notes = [log.note] if log.note else []
        if spread:
            when = "anew in each replication" if self.spread_unknown == "each" else "the same in every replication"
            notes.append(
                f"{file}: names {len(names)} of {nodes} nodes; they are placed at random, {when}; neighbours do not "
                "stay neighbours. A file with the names of all nodes, in order, says which is which (inventory: FILE)"
            )
        sources = [
            Source(
                name=cause,
                part="node",
                units=nodes,
                law=None,
                recorded=Recorded(
                    place[rows.unit],
                    rows.start,
                    rows.end,
                    rows.span,
                    spread,
                    self.spread_unknown == "each",
                    tuple(notes),
                ),
                detection=self.detection,
                fault=self.fault,
            )
            for cause, rows in log.by_cause.items()
        ]
        return sources, log.merged


def _in_order(names: set[str], file: str) -> tuple[str, ...]:
    """Return names in natural order: node2 before node10."""
    for name in sorted(names):
        if not re.search(r"[0-9]", name):
            raise TraceError(
                f"{file}: '{name}' has no number that tells its place; name all nodes in order in a file (inventory: "
                f"FILE), or number them as they appear (map: first-appearance)"
            )
    padded = {name: re.sub(r"[0-9]+", lambda digits: digits[0].lstrip("0").zfill(20), name) for name in names}
    return tuple(sorted(names, key=lambda name: (padded[name], name)))


class _Row(NamedTuple):
    unit: int
    start: float
    end: float
    cause: str
    line: int


def read_log(
    path: Path,
    columns: Columns,
    second: float,
    origin: float | str | None = None,
    inventory: Sequence[str] = (),
) -> Log:
    """Read a CSV log and join intervals of one unit that overlap or touch.

    Parameters
    ----------
    path
        The file.
    columns
        Names of its columns.
    second
        Length of the log's unit of time, if it has numbers [s].
    origin
        Moment from which on outages are taken; one that has begun by then begins there. ``None`` for zero, or for the
        first start of a log with dates.
    inventory
        Names of all nodes, in order; without them units are numbered by first appearance.

    Returns
    -------
    Log
        Outages by cause, in seconds since the origin; a joined interval keeps the cause of its first.

    Raises
    ------
    TraceError
        If the file is missing, a column is missing, a moment is neither a number nor a date, an interval ends before
        it starts or where another one of its unit has no end, the rows are not in order of their start, or a unit is
        not in the inventory.
    RuleError
        If the origin is not a moment as those of the log, or later than all of them.
    """
    names = {name: number for number, name in enumerate(inventory)}
    open_rows: dict[int, _Row] = {}
    done: list[_Row] = []
    merged = 0
    times = Times(second)
    for row in _rows(path, columns, times, names, is_complete=bool(inventory)):
        last = open_rows.get(row.unit)
        if last is not None and math.isinf(last.end) and math.isfinite(row.end):
            raise TraceError(
                f"{_shown(path)}:{row.line}: '{list(names)[row.unit]}' returns, but its outage of line "
                f"{last.line} has no end; say when that was over"
            )
        if last is not None and row.start <= last.end and last.end > last.start:
            open_rows[row.unit] = last._replace(end=max(last.end, row.end))
            merged += 1
            continue
        if last is not None:
            done.append(last)
        open_rows[row.unit] = row
    rows = sorted([*done, *open_rows.values()], key=lambda row: (row.start, row.unit))
    if not rows:
        raise TraceError(f"{_shown(path)}: the log has no rows below its header")
    begin, note = times.begin(origin, rows[0].start), ""
    if origin is None and begin:
        note = f"{_shown(path)}: time 0 is the first outage, {times.text(begin)}; origin: DATE states another moment"
    rows = [
        row._replace(start=max(row.start - begin, 0.0), end=row.end - begin)
        for row in rows
        if row.start >= begin or row.end > begin
    ]
    if not rows:
        raise RuleError(("origin",), f"{_shown(path)} has no outage after {origin}")
    by_cause: dict[str, Recorded] = {}
    for cause in sorted({row.cause for row in rows}):
        mine = [row for row in rows if row.cause == cause]
        by_cause[cause] = Recorded(
            unit=np.array([row.unit for row in mine], dtype=np.int64),
            start=np.array([row.start for row in mine], dtype=np.float64),
            end=np.array([row.end for row in mine], dtype=np.float64),
            span=rows[-1].start,
        )
    return Log(tuple(names), by_cause, merged, note)


def _rows(path: Path, columns: Columns, times: Times, names: dict[str, int], *, is_complete: bool) -> Iterator[_Row]:
    """Yield the rows of a log in order; units that are not in `names` are added, unless these are complete."""
    previous = -math.inf
    before = ""
    file = _shown(path)
    for line, record in _records(path, columns):
        place = f"{file}:{line}"
        unit = (record[columns.unit] or "").strip()
        if not unit:
            raise TraceError(f"{place}: column '{columns.unit}' is empty")
        if is_complete and unit not in names:
            raise TraceError(f"{place}: {catalog.unknown('node of the inventory', unit, names)}")
        if record[columns.end] is None:
            raise TraceError(f"{place}: has no column '{columns.end}'; an empty one says that the node is still down")
        begun, over = (record[columns.start] or "").strip(), (record[columns.end] or "").strip()
        start = times.read(begun, columns.start, place)
        end = math.inf if over.lower() in _STILL_DOWN else times.read(over, columns.end, place)
        if end < start:
            raise TraceError(f"{place}: the outage of '{unit}' ends ({over}) before it starts ({begun})")
        if start < previous:
            raise TraceError(
                f"{place}: rows must be sorted by '{columns.start}': {begun} comes after {before}; "
                f"sort the log by that column, as {times.form}"
            )
        previous, before = start, begun
        cause = (record.get(columns.cause) or "").strip() or "recorded"
        yield _Row(names.setdefault(unit, len(names)), start, end, cause, line)


def _records(path: Path, columns: Columns | None) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield the rows of a CSV file with their lines; a log has to have its columns."""
    file = _shown(path)
    reader = csv.DictReader(text_of(path, file).splitlines())
    try:
        if columns is not None:
            _check_header(reader.fieldnames or [], columns, file)
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise TraceError(f"{file}:{reader.line_num + 1}: is no CSV ({error})") from None


def _inventory(path: Path, column: str) -> tuple[str, ...]:
    """Return the names of all nodes: in the column that the log has for units, or in the only one."""
    file = _shown(path)
    names: dict[str, int] = {}
    for line, record in _records(path, None):
        header = [name for name in record if name is not None]
        if column not in header and len(header) > 1:
            raise TraceError(f"{file}:1: no column '{column}' (the header has: {', '.join(header)})")
        of_names = column if column in header else header[0]
        name = (record[of_names] or "").strip()
        if not name or name in names:
            rule = f"'{name}' is also in line {names[name]}" if name else f"column '{of_names}' is empty"
            raise TraceError(f"{file}:{line}: {rule}")
        names[name] = line
    if not names:
        raise TraceError(f"{file}: has no names below its header")
    return tuple(names)


def _shown(path: Path) -> str:
    """Return a path for messages: relative to the working directory if it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else os.path.normpath(path)


def text_of(path: Path, file: str, unpack: Callable[[bytes], bytes] = bytes) -> str:
    """Return the text of a log or a trace; `unpack` makes it of what the file holds.

    Raises
    ------
    TraceError
        If the file cannot be read or unpacked, or is not UTF-8 text.
    """
    try:
        content = unpack(content_of(path))
    except (OSError, ValueError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{file} cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise TraceError(f"{file}:{number}: is not UTF-8 text (byte 0x{content[error.start]:02x})") from None


def _check_header(header: Sequence[str], columns: Columns, file: str) -> None:
    """Refuse a log that lacks a column."""
    if not header:
        message = f"{file}: the log is empty; it needs a header ({columns.unit},{columns.start},{columns.end},cause)"
        raise TraceError(message)
    for role in ("unit", "start", "end"):
        column = getattr(columns, role)
        if column not in header:
            raise TraceError(
                f"{file}:1: no column '{column}' (the header has: {', '.join(header)}); "
                f"say which one it is, for example columns: {{{role}: {header[0]}}}"
            )


_STILL_DOWN = ("", "unknown")

"""What stands for an end that has not come, in lower case; the latter is Slurm's."""

_NUMBERS, _DATES, _LOCAL = "numbers", "dates with an offset from UTC", "dates without an offset from UTC"

_NO_MOMENT = "neither a number of zero or more nor a date such as 2026-11-20T14:05:00Z"


class Times:
    """Reads the moments of a log or trace, all of which have one form."""

    def __init__(self, second: float) -> None:
        self.second = second
        self.form = ""

    def read(self, text: str, column: str, place: str) -> float:
        """Return a moment [s]: a number since the start of the log, a date since 1970."""
        found = self._moment(text)
        if found is None:
            raise TraceError(f"{place}: column '{column}' holds '{text}', which is {_NO_MOMENT}")
        form, value = found
        if form != (self.form or form):
            raise TraceError(f"{place}: column '{column}' holds '{text}', but the moments above it are {self.form}")
        self.form = form
        return value

    def begin(self, origin: float | str | None, first: float) -> float:
        """Return the moment at which the simulation starts [s]."""
        if origin is None:
            return 0.0 if self.form == _NUMBERS else first
        found = self._moment(str(origin))
        if found is None:
            raise RuleError(("origin",), f"'{origin}' is {_NO_MOMENT}")
        if found[0] != self.form:
            raise RuleError(("origin",), f"'{origin}' does not go with the moments of the log, which are {self.form}")
        return found[1]

    def text(self, moment: float) -> str:
        """Return a moment of a log with dates as text, in UTC where it has offsets."""
        return datetime.fromtimestamp(moment, UTC).replace(tzinfo=None).isoformat() + "Z" * (self.form == _DATES)

    def _moment(self, text: str) -> tuple[str, float] | None:
        """Return the form of a moment and its value [s]; without an offset as in a zone that keeps no summer time."""
        try:
            value = float(text)
        except ValueError:
            try:
                date = datetime.fromisoformat(text)
            except ValueError:
                return None
            if date.tzinfo is None:
                return _LOCAL, date.replace(tzinfo=UTC).timestamp()
            return _DATES, date.timestamp()
        return (_NUMBERS, value * self.second) if math.isfinite(value) and value >= 0 else None
