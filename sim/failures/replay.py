"""A recorded log as a failure source: rows of (unit, start, end, cause)."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sim import units
from sim.failures.fault import Fault
from sim.failures.source import Recorded, Source
from sim.fields import Model, Strategy
from sim.laws import Law
from sim.strict_yaml import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Columns", "Log", "Replay", "TraceError", "read_log"]


class TraceError(ValueError):
    """A log that cannot be read; the message names file and line."""


class Columns(Model):
    """Names of the columns of a log."""

    unit: str = "unit"
    start: str = "start"
    end: str = "end"
    cause: str = "cause"


class Log(NamedTuple):
    """Outages of a log by cause, and how many overlapping ones were joined."""

    units: tuple[str, ...]
    by_cause: dict[str, Recorded]
    merged: int


class Replay(Strategy):
    """Outages of nodes exactly as a log has them; unit k of the log (by first appearance) is node k."""

    use: Literal["replay"] = "replay"
    file: str = Field(description="CSV file with a header, relative to this file.")
    time_unit: Literal["s", "min", "h", "d"] = Field("s", description="Unit of the start and end columns.")
    columns: Columns = Field(default_factory=Columns, description="Names of the columns.")
    detection: Law | None = Field(None, description="Detection time, in place of the scenario's.")
    fault: Fault = Field("host", description="Class of its faults: what those who watch see of them.")

    def read(self) -> Log:
        """Read the log.

        Raises
        ------
        TraceError
            If a row cannot be used.
        """
        return read_log(Path(self.file), self.columns, units.parse(f"1 {self.time_unit}", units.DURATION))

    def build_all(self, counts: Mapping[str, int]) -> tuple[list[Source], int]:
        """Return one source per cause, and how many overlapping intervals were joined."""
        log = self.read()
        if len(log.units) > counts["node"]:
            message = (
                f"{_shown(Path(self.file))}: the log has {len(log.units)} units, but the cluster has {counts['node']} "
                f"nodes; unit k of the log is node k"
            )
            raise TraceError(message)
        sources = [
            Source(
                name=cause,
                part="node",
                units=len(log.units),
                law=None,
                recorded=rows,
                detection=self.detection,
                fault=self.fault,
            )
            for cause, rows in log.by_cause.items()
        ]
        return sources, log.merged


class _Row(NamedTuple):
    unit: int
    start: float
    end: float
    cause: str


def read_log(path: Path, columns: Columns, second: float) -> Log:
    """Read a CSV log and join intervals of one unit that overlap or touch.

    Parameters
    ----------
    path
        The file.
    columns
        Names of its columns.
    second
        Length of the log's unit of time [s].

    Returns
    -------
    Log
        Outages by cause; a joined interval keeps the cause of its first.

    Raises
    ------
    TraceError
        If the file is missing, a column is missing, a number is not one, an interval ends before it starts, or the
        rows are not in order of their start.
    """
    names: dict[str, int] = {}
    open_rows: dict[int, _Row] = {}
    done: list[_Row] = []
    merged = 0
    for row in _rows(path, columns, second, names):
        last = open_rows.get(row.unit)
        if last is not None and row.start <= last.end and last.end > last.start:
            open_rows[row.unit] = last._replace(end=max(last.end, row.end))
            merged += 1
            continue
        if last is not None:
            done.append(last)
        open_rows[row.unit] = row
    rows = sorted([*done, *open_rows.values()], key=lambda row: (row.start, row.unit))
    if not rows:
        message = f"{_shown(path)}: the log has no rows below its header"
        raise TraceError(message)
    by_cause: dict[str, Recorded] = {}
    for cause in sorted({row.cause for row in rows}):
        mine = [row for row in rows if row.cause == cause]
        by_cause[cause] = Recorded(
            unit=np.array([row.unit for row in mine], dtype=np.int64),
            start=np.array([row.start for row in mine], dtype=np.float64),
            end=np.array([row.end for row in mine], dtype=np.float64),
            span=rows[-1].start,
        )
    return Log(tuple(names), by_cause, merged)


def _rows(path: Path, columns: Columns, second: float, names: dict[str, int]) -> Iterator[_Row]:
    """Yield the rows of a log in order, numbering units by first appearance in `names`."""
    file = _shown(path)
    reader = csv.DictReader(_text(path, file).splitlines())
    previous = -math.inf
    try:
        _check_header(reader.fieldnames or [], columns, file)
        for record in reader:
            place = f"{file}:{reader.line_num}"
            unit = (record[columns.unit] or "").strip()
            if not unit:
                message = f"{place}: column '{columns.unit}' is empty"
                raise TraceError(message)
            start = _number(record[columns.start], columns.start, place)
            end = _number(record[columns.end], columns.end, place)
            if end < start:
                message = f"{place}: the outage of '{unit}' ends ({end:g}) before it starts ({start:g})"
                raise TraceError(message)
            if start < previous:
                message = (
                    f"{place}: rows must be sorted by '{columns.start}': {start:g} comes after {previous:g}; "
                    f"sort the log by that column, as numbers"
                )
                raise TraceError(message)
            previous = start
            cause = (record.get(columns.cause) or "").strip() or "recorded"
            yield _Row(names.setdefault(unit, len(names)), start * second, end * second, cause)
    except csv.Error as error:
        message = f"{file}:{reader.line_num + 1}: is no CSV ({error})"
        raise TraceError(message) from None


def _shown(path: Path) -> str:
    """Return a path for messages: relative to the working directory if it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else os.path.normpath(path)


def _text(path: Path, file: str) -> str:
    """Return the text of a log."""
    try:
        content = content_of(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{file} cannot be read: {reason[:1].lower()}{reason[1:]}"
        raise TraceError(message) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        message = f"{file}:{number}: is not UTF-8 text (byte 0x{content[error.start]:02x})"
        raise TraceError(message) from None


def _check_header(header: Sequence[str], columns: Columns, file: str) -> None:
    """Refuse a log that lacks a column."""
    if not header:
        message = f"{file}: the log is empty; it needs a header ({columns.unit},{columns.start},{columns.end},cause)"
        raise TraceError(message)
    for role in ("unit", "start", "end"):
        column = getattr(columns, role)
        if column not in header:
            message = (
                f"{file}:1: no column '{column}' (the header has: {', '.join(header)}); "
                f"say which one it is, for example columns: {{{role}: {header[0]}}}"
            )
            raise TraceError(message)


def _number(text: str | None, column: str, place: str) -> float:
    """Return a finite number of zero or more."""
    try:
        value = float(text or "")
    except ValueError:
        message = (
            f"{place}: column '{column}' holds '{text or ''}', which is not a number; times count from the start of "
            f"the log, in its time_unit"
        )
        raise TraceError(message) from None
    if not math.isfinite(value) or value < 0:
        message = f"{place}: column '{column}' must be finite and not negative, not {value:g}"
        raise TraceError(message)
    return value
