"""The weeks of a cluster as they were measured: a table that `ettrick track` keeps, and that users may write."""

from __future__ import annotations

import itertools
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.results.files import csv_text
from ettrick.sim import JOB_BUCKETS, records
from ettrick.sim.records import LogError, Table, lines
from ettrick.sim.units import DAY
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

WEEKS = "weeks.csv"

CAUSE = "outages: "
"""The prefix of metrics that count the outages of a cause."""

_FIELDS = ("week", "days", "job", "gpus", "node_days", "model")
_KNOWN = (*JOB_BUCKETS, "outages", "unavailability", "step_time")
_COLUMNS = (*_FIELDS, *_KNOWN)


class WeekRecord(NamedTuple):
    """The measurements of a week, or of the replications of a result folder.

    Parameters
    ----------
    week
        Its first day, or the name of the folder.
    days
        Its length [d].
    job, gpus
        The job and its GPUs; nothing and 0 for those of the model.
    node_days
        Nodes in service, times days; 0 for the nodes of the model.
    values
        Shares of the job's GPU-time by bucket, ``outages``, ``unavailability`` [-], ``step_time`` over the
        reference [-], and ``outages: CAUSE``.
    model
        Digest of the model in force when the row was written.
    """

    week: str
    days: float
    job: str
    gpus: int
    node_days: float
    values: dict[str, float]
    model: str = ""
    replications: int = 1


def rows_of(path: Path) -> list[WeekRecord]:
    """Return the rows of a CSV file of weeks.

    Raises
    ------
    LogError
        If the file cannot be read, or a row says what cannot be; it names file and line.
    """
    table = _table(str(path), lines(str(path)))
    strange = next((role for role in table.columns if role not in _COLUMNS and not role.startswith(CAUSE)), None)
    if strange is not None:
        raise LogError(f"{path}:{table.line}: unknown column '{strange}'{suggest(strange, _COLUMNS)}")
    weeks: set[str] = set()

    def read(cells: dict[str, str], _line: int) -> WeekRecord:
        row = _row(cells)
        if row.week in weeks:
            raise ValueError(f"the week {row.week} is given twice")
        weeks.add(row.week)
        return row

    return joined(table.read(read), ())


def _row(cells: dict[str, str]) -> WeekRecord:
    """Return a row of a table of weeks."""
    values = {name: _number(text, name) for name, text in cells.items() if name not in _FIELDS and text}
    total = sum(values.get(name, 0.0) for name in JOB_BUCKETS)
    if total > 1.001:
        raise ValueError(f"the shares of the job's time add up to {total:.4g}, and 1 is all of it")
    week = cells["week"]
    try:
        begin_of(week)
    except ValueError:
        raise ValueError(f"week: '{week}' is not a date such as 2025-02-03") from None
    usual = {"days": "7", "gpus": "0", "node_days": "0"}
    days, gpus, node_days = (_number(cells.get(name) or text, name) for name, text in usual.items())
    if days <= 0:
        raise ValueError("days: must be above 0")
    return WeekRecord(week, days, cells.get("job", ""), int(gpus), node_days, values, cells.get("model", ""))


def _table(file: str, numbered: Iterable[tuple[int, str]]) -> Table:
    """Return a table by the names of its own columns, of which `week` is needed."""
    numbered = iter(numbered)
    first = list(itertools.islice(numbered, 1))
    roles = {name.lower() if name.lower() in _COLUMNS else name: (name,) for name in Table(first, file, {}, ()).header}
    return Table(itertools.chain(first, numbered), file, {"week": ("week",), **roles}, ("week",))


def begin_of(week: str) -> float:
    """Return when a week begins [s since 1970]; without an offset, in UTC."""
    begin = datetime.fromisoformat(week)
    return (begin if begin.tzinfo else begin.replace(tzinfo=UTC)).timestamp()


def _number(text: str, name: str) -> float:
    try:
        value = records.number(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if value > 1 and name in (*JOB_BUCKETS, "unavailability"):
        raise ValueError(f"{name}: must be a share from 0 to 1, not {text}")
    return value


def as_csv(rows: Sequence[WeekRecord]) -> str:
    """Return rows as the file that `rows_of` reads."""
    names = [name for name in _KNOWN if any(name in row.values for row in rows)]
    names += sorted(causes_of(rows))
    heads = ((row.week, f"{row.days:g}", row.job, row.gpus or "", f"{row.node_days:.6g}", row.model) for row in rows)
    values = ([f"{row.values[name]:.6g}" if name in row.values else "" for name in names] for row in rows)
    return csv_text([[*_FIELDS, *names], *([*head, *cells] for head, cells in zip(heads, values, strict=True))])


def causes_of(rows: Iterable[WeekRecord]) -> set[str]:
    """Return the names of the metrics of rows that count the outages of a cause."""
    return {name for row in rows for name in row.values if name.startswith(CAUSE)}


def is_table(file: str) -> bool:
    """Return whether a file is a CSV of weeks, by its header."""
    try:
        return file != "-" and bool(_table(file, itertools.islice(lines(file), 1)))
    except LogError:
        return False


def mean_shares(rows: Sequence[WeekRecord]) -> dict[str, float]:
    """Return the mean share of each bucket over the days of the rows that have it."""
    pairs = {name: [(row.days, row.values[name]) for row in rows if name in row.values] for name in JOB_BUCKETS}
    return {
        name: math.fsum(days * share for days, share in shares) / sum(days for days, _ in shares)
        for name, shares in pairs.items()
        if shares
    }


def joined(history: Iterable[WeekRecord], more: Iterable[WeekRecord]) -> list[WeekRecord]:
    """Return rows in order of time; of a week that both have, the new one.

    Raises
    ------
    LogError
        If two weeks overlap: what happened in both would count twice.
    """
    rows = sorted({row.week: row for row in (*history, *more)}.values(), key=lambda row: begin_of(row.week))
    for row, after in itertools.pairwise(rows):
        if begin_of(row.week) + row.days * DAY > begin_of(after.week) + 60:
            raise LogError(
                f"the weeks {row.week} and {after.week} overlap; start at a known week or after the last week "
                f"(--since, --window), or remove the other weeks from {WEEKS}"
            )
    return rows


def last_known(folder: Path, rows: Sequence[WeekRecord]) -> float | None:
    """Return from when on weeks are new [s since 1970]: after the rows, or the full hour after what was fitted."""
    if rows:
        return begin_of(rows[-1].week) + rows[-1].days * DAY
    try:
        end = json.loads((folder / "fit.json").read_bytes())["window"][1]
        return math.ceil(datetime.fromisoformat(end).timestamp() / 3600) * 3600.0
    except (OSError, ValueError, LookupError, TypeError):
        return None
