"""A recorded log as a failure source: rows of (unit, start, end, cause)."""

# Annotations are not postponed: pydantic would compile each at the start.
import math
import operator
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from ettrick.sim import catalog, records, units
from ettrick.sim.failures.effects import Fault
from ettrick.sim.failures.source import FailureSource, OutageLog
from ettrick.sim.moments import TimestampParser
from ettrick.sim.records import NOTHING, HostLists, LogError, Table
from ettrick.sim.scenario.fields import Model, RuleError, Strategy
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


class Columns(Model):
    """Names of the columns of a log."""

    unit: str = "unit"
    start: str = "start"
    end: str = "end"
    cause: str = "cause"


class ReplayedLog(NamedTuple):
    """Outages of a log by cause, and how many overlapping ones were joined.

    ``units`` are the names that the rows count in: by first appearance or, with an inventory, all of them in its order.
    ``note`` says what was assumed in reading it.
    """

    units: tuple[str, ...]
    by_cause: dict[str, OutageLog]
    merged: int
    note: str = ""


class Replay(Strategy):
    """Node outages exactly as recorded in a log; `inventory` and `map` say which node a name refers to."""

    use: Literal["replay"] = "replay"
    file: str = Field(description="CSV file with a header, relative to this file.")
    time_unit: Literal["s", "min", "h", "d"] = Field("s", description="Unit of start and end if they are numbers.")
    origin: float | str | None = Field(
        None,
        description="Moment of the log at which the simulation starts: a number or a date, as in the log; by "
        "default 0, or the first start if the log has dates.",
    )
    columns: Columns = Field(default_factory=Columns, description="Names of the columns.")
    inventory: str | None = Field(
        None, description="CSV file with a header and the name of every node, in order; relative to this file."
    )
    map: Literal["name", "number", "first-appearance"] = Field(
        "name",
        description="How names map to nodes without an inventory: name, by the natural order of the names; number, "
        "names are node numbers from 0; first-appearance, in the order of the log.",
    )
    spread_unknown: Literal["once", "each"] = Field(
        "once",
        description="If the log names fewer nodes than the cluster has, they are placed at random: once, by the seed; "
        "or each, again in each replication.",
    )
    detection: Law | None = Field(None, description="Detection time, instead of the scenario's.")
    fault: Fault = Field("host", description="Fault class: what observers detect.")

    @property
    def by_order(self) -> bool:
        """Whether the natural order of the names says which node is which."""
        return self.map == "name" and self.inventory is None

    def read(self) -> ReplayedLog:
        """Read the log.

        Raises
        ------
        LogError
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
            except LogError as error:
                raise RuleError(("inventory",), str(error)) from error
        second = units.parse(f"1 {self.time_unit}", units.DURATION)
        has_unit = "time_unit" in self.model_fields_set
        return read_log(Path(self.file), self.columns, second, self.origin, inventory, has_unit=has_unit)

    def build_all(
        self,
        counts: "Mapping[str, int]",
        logs: "Iterable[Replay]" = (),
        read: "Callable[[Replay], ReplayedLog] | None" = None,
    ) -> tuple[list[FailureSource], int]:
        """Return one source per cause, and how many overlapping intervals were joined.

        Parameters
        ----------
        counts, logs
            Units of each part of the cluster, and all logs of the scenario: a name is the same node in each.
        read
            Reads a log, by default with `Replay.read`; whoever builds several reads each only once.

        Raises
        ------
        LogError
            If a row cannot be used, or its name does not say which node it is.
        RuleError
            If the inventory does not fit, or the origin.
        """
        read = read or Replay.read
        log = read(self)
        nodes, file = counts["node"], _shown(Path(self.file))
        ordered = (read(replay) for replay in logs if replay is not self and replay.by_order)
        unit, named = self._units(log, ordered, nodes)
        spread, is_drawn_anew = nodes if self.by_order and named < nodes else 0, self.spread_unknown == "each"
        spread_note = _spread_note(file, named, nodes, is_drawn_anew=is_drawn_anew) if spread else ""
        notes = tuple(filter(None, (log.note, spread_note)))
        sources = [
            FailureSource(
                name=cause, part="node", units=nodes, law=None, detection=self.detection, fault=self.fault,
                recorded=replace(rows, unit=unit[rows.unit], spread=spread, is_drawn_anew=is_drawn_anew, notes=notes),
            )
            for cause, rows in log.by_cause.items()
        ]  # fmt: skip
        return sources, log.merged

    def _units(
        self, log: ReplayedLog, other_logs: "Iterable[ReplayedLog]", nodes: int
    ) -> "tuple[NDArray[np.int64], int]":
        """Return the number of the node that each name of the log means, and how many nodes are named."""
        file = _shown(Path(self.file))
        if self.inventory is not None and len(log.units) != nodes:
            inventory = _shown(Path(self.inventory))
            rule = f"{inventory} names {len(log.units)} nodes below its header, but the cluster has {nodes}"
            raise RuleError(("inventory",), rule)
        names, same = self._names(log, other_logs, nodes)
        if len(names) > nodes:
            together = f", with the other logs {len(names)}" if len(names) > len(log.units) else ""
            raise LogError(f"{file}: the log has {len(log.units)} units{together}, but the cluster has {nodes} nodes")
        numbers = {name: number for number, name in enumerate(names)}
        for name in log.units:
            if same.get(name, name) not in numbers:
                raise LogError(f"{file}: '{name}' is not the number of a node, 0 to {nodes - 1}")
        return np.array([numbers[same.get(name, name)] for name in log.units], dtype=np.int64), len(names)

    def _names(
        self, log: ReplayedLog, other_logs: "Iterable[ReplayedLog]", nodes: int
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the names of the nodes by their numbers, and which of these another name means."""
        if self.map == "number":
            return tuple(map(str, range(nodes))), {}
        if not self.by_order:
            return log.units, {}
        every = {*log.units, *(name for other_log in other_logs for name in other_log.units)}
        same, _ = records.same_hosts(every)
        return _in_order(every - same.keys(), _shown(Path(self.file))), same


def _spread_note(file: str, names: int, nodes: int, *, is_drawn_anew: bool) -> str:
    """Return what is assumed of a log that names fewer nodes than there are."""
    when = "again in each replication" if is_drawn_anew else "the same in every replication"
    return (
        f"{file}: names {names} of {nodes} nodes; they are placed at random, {when}; neighbours do not "
        "stay neighbours. A file with the names of all nodes, in order, says which is which (inventory: FILE)"
    )


def _in_order(names: set[str], file: str) -> tuple[str, ...]:
    """Return names in natural order: node2 before node10."""
    for name in sorted(names):
        if not re.search(r"[0-9]", name):
            raise LogError(
                f"{file}: '{name}' has no number that tells its place; name all nodes in order in a file (inventory: "
                f"FILE), or number them as they appear (map: first-appearance)"
            )
    padded = {name: re.sub(r"[0-9]+", lambda digits: digits[0].lstrip("0").zfill(20), name) for name in names}
    return tuple(sorted(names, key=lambda name: (padded[name], name)))


_Row: TypeAlias = tuple[float, float, int, str, tuple[str, ...]]
"""Start and end of an outage [s], its line, its cause, and the names of the nodes that are down."""


@records.paused_collection()
def read_log(
    path: Path,
    columns: Columns,
    second: float,
    origin: float | str | None = None,
    inventory: "Sequence[str]" = (),
    *,
    has_unit: bool = False,
) -> ReplayedLog:
    """Read a CSV log, in order of time, and join intervals of one unit that overlap or touch.

    Parameters
    ----------
    path
        The file.
    columns
        Names of its columns.
    second
        Length of the log's unit of time, if it has numbers and the names of its columns state no unit [s].
    origin
        Moment from which on outages are taken; one that has begun by then begins there. ``None`` for zero, or for the
        first start of a log with dates.
    inventory
        Names of all nodes, in order; without them units are numbered by first appearance.
    has_unit
        Whether the unit of time is stated, and not only usual.

    Returns
    -------
    ReplayedLog
        Outages by cause, in seconds since the origin; a joined interval keeps the cause of its first.

    Raises
    ------
    LogError
        If the file is missing, a column is missing, a moment is neither a number nor a date, an interval ends before
        it starts or where another one of its unit has no end, or a unit is not in the inventory.
    RuleError
        If the origin is not a moment as those of the log, or later than all of them, or the unit of time contradicts
        the name of a column.
    """
    file, times = _shown(path), TimestampParser(has_unit=has_unit)
    names = {name: number for number, name in enumerate(inventory)}
    outages, merged = _outages(_numbered(_rows(path, columns, times, second), names, file), names, file)
    if not outages:
        raise LogError(f"{file}: the log has no rows below its header")
    zero = begin(times, origin, outages[0][1], second, file)
    by_cause = _by_cause(outages, zero)
    if not by_cause:
        raise RuleError(("origin",), f"{file} has no outage after {origin}")
    note = ""
    if origin is None and zero:
        note = f"{file}: time 0 is the first outage, {times.text(zero)}; origin: DATE states another moment"
    return ReplayedLog(tuple(names), by_cause, merged, note)


def _by_cause(outages: "list[_Outage]", zero: float) -> dict[str, OutageLog]:
    """Return the outages that are not over at the moment `zero` [s] by their causes, in seconds since then."""
    units, starts, ends, causes, _ = zip(*outages, strict=True)
    unit, start, end = np.array(units, dtype=np.int64), np.array(starts), np.array(ends)
    use = (start >= zero) | (end > zero)
    if not use.any():
        return {}
    unit, start, end = unit[use], np.maximum(start[use] - zero, 0.0), end[use] - zero
    codes = {cause: code for code, cause in enumerate(dict.fromkeys(causes))}
    code, last = np.array([codes[cause] for cause in causes])[use], float(start[-1])
    of_cause = {cause: code == codes[cause] for cause in sorted(codes)}
    return {
        cause: OutageLog(unit[rows], start[rows], end[rows], last) for cause, rows in of_cause.items() if rows.any()
    }


def _rows(path: Path, columns: Columns, times: TimestampParser, second: float) -> list[_Row]:
    """Return the rows of a log in order of time."""
    file, expand = _shown(path), HostLists().expand
    roles = {role: (name,) for role, name in columns}
    advice = "say which one it is, for example columns: {{role}: NAME}"
    table = Table(records.lines(file), file, roles, ("unit", "start", "end"), advice=advice)
    first, last = (column_unit(table.name_of(role), second, has_unit=times.has_unit) for role in ("start", "end"))

    def read(row: "Mapping[str, str]", line: int) -> _Row:
        units = expand(row["unit"])
        if not units:
            raise ValueError(f"column '{columns.unit}' is empty")
        start = table.value(row, "start", times.read, first)
        end = math.inf if row["end"].lower() in NOTHING else table.value(row, "end", times.read, last)
        if end < start:
            raise ValueError(f"the outage of '{row['unit']}' ends ({row['end']}) before it starts ({row['start']})")
        return start, end, line, row.get("cause") or "recorded", units

    return sorted(table.read(read), key=operator.itemgetter(0))


def _numbered(rows: list[_Row], names: dict[str, int], file: str) -> "Iterator[tuple[_Row, list[int]]]":
    """Yield each row with the numbers of its nodes; others are added to `names`, unless these are an inventory."""
    is_complete = bool(names)
    same, unclear = records.same_hosts({name for row in rows for name in row[4]}.union(names), names)
    if unclear:
        raise LogError(
            f"{file}: '{unclear[0][0]}' may be any of {', '.join(unclear[0][1:])}; write the names the same way"
        )
    for row in rows:
        numbers = []
        for name in row[4]:
            node = name if name in names else same.get(name, name)
            if is_complete and node not in names:
                raise LogError(f"{file}:{row[2]}: {catalog.unknown('node of the inventory', name, names)}")
            numbers.append(names.setdefault(node, len(names)))
        yield row, numbers


_Outage: TypeAlias = tuple[int, float, float, str, int]
"""The number of a node, start and end of its outage [s], cause, and line."""


def _outages(
    rows: "Iterable[tuple[_Row, list[int]]]", names: "Mapping[str, int]", file: str
) -> tuple[list[_Outage], int]:
    """Return the outages by their starts, those of a node that overlap or touch as one, and how many were joined."""
    last_of: dict[int, _Outage] = {}
    outages: list[_Outage] = []
    merged = 0
    for (start, end, line, cause, _), numbers in rows:
        for unit in numbers:
            last = last_of.get(unit)
            if last is not None:
                _, begin, over, first_cause, first_line = last
                if over == math.inf > end:
                    raise LogError(
                        f"{file}:{line}: '{list(names)[unit]}' returns, but its outage of line "
                        f"{first_line} has no end; say when that was over"
                    )
                if start <= over > begin:
                    last_of[unit] = unit, begin, max(over, end), first_cause, first_line
                    merged += 1
                    continue
                outages.append(last)
            last_of[unit] = unit, start, end, cause, line
    return sorted([*outages, *last_of.values()], key=operator.itemgetter(1, 0)), merged


def begin(times: TimestampParser, origin: float | str | None, first: float, second: float, file: str) -> float:
    """Return the moment at which the simulation starts [s]."""
    try:
        return times.begin(origin, first, second)
    except LogError as error:
        raise LogError(f"{file}: {error}") from None
    except ValueError as error:
        raise RuleError(("origin",), str(error)) from None


def column_unit(column: str, second: float, *, has_unit: bool) -> float:
    """Return the unit of the numbers of a column [s]: the one that its name states, or the usual one.

    Raises
    ------
    RuleError
        If another one is stated.
    """
    named = records.unit_of(column)
    if named and named != second and has_unit:
        raise RuleError(("time_unit",), f"is not the unit that the name of column '{column}' states; leave it out")
    return named or second


def _inventory(path: Path, column: str) -> tuple[str, ...]:
    """Return the names of all nodes: in the column that the log has for units, or in the only one."""
    file, hosts = _shown(path), HostLists()
    table = Table(records.lines(file), file, {"unit": (column,)}, ())
    if len(table.header) == 1:
        table.columns["unit"] = 0
    if "unit" not in table.columns:
        table.refuse(("unit",), column)
    names: dict[str, int] = {}

    def read(row: "Mapping[str, str]", line: int) -> None:
        for name in hosts.expand(row["unit"]) or ("",):
            if not name:
                raise ValueError(f"column '{table.name_of('unit')}' is empty")
            if names.setdefault(name, line) != line:
                raise ValueError(f"'{name}' is also in line {names[name]}")

    for _ in table.read(read):
        pass
    if not names:
        raise LogError(f"{file}: has no names below its header")
    return tuple(names)


def _shown(path: Path) -> str:
    """Return a path for messages: relative to the working directory if it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else os.path.normpath(path)
