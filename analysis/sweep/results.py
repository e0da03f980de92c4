"""The results of a study as two tables: a row for each replication, and a row for each point.

Both are read from the journal in the order of points and replications, a cell at a time: what is in them does not
depend on who simulated what, or when.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.results.files import is_number, safe_cells
from ettrick.analysis.study.table import Cell, PointResult, summary_of
from ettrick.analysis.sweep.campaign import outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.sweep.campaign import Campaign
    from ettrick.analysis.sweep.task import Record

_WHOLE, _NUMBER, _TEXT = "BIGINT", "DOUBLE", "VARCHAR"


class SqlColumn(NamedTuple):
    """A column of a table: its name, and the SQL type of what is in it."""

    name: str
    kind: str


_POINT = tuple(SqlColumn(name, _WHOLE) for name in ("point", "cell", "draw"))
_COUNTS = tuple(SqlColumn(name, _WHOLE) for name in ("censored", "never_started"))
_STATUS = (SqlColumn("status", _TEXT), SqlColumn("reason", _TEXT), SqlColumn("replications", _WHOLE), *_COUNTS)
_FORMULA = SqlColumn("formula", _NUMBER)
_REPLICATION = SqlColumn("replication", _WHOLE)
_LOW_HIGH = ("low", "high")


class _JournaledPoint(NamedTuple):
    """A point with what the journal has of it."""

    point: Point
    wanted: int
    records: list[Record]


def write_tables(
    campaign: Campaign, count: Callable[[Point], int], metrics: Sequence[str], results: Path, points: Path
) -> tuple[list[SqlColumn], list[SqlColumn]]:
    """Return the columns of both tables, which are written as CSV.

    Numbers are in SI units and have all their digits. What does not exist is empty: a metric that a point has not, a
    ratio with nothing in its base, a time to finish that was censored. In `results` a metric of `metrics` has besides
    its value ``<metric>.amount`` and ``<metric>.base``: over several replications such a metric is the sum of amounts
    over the sum of bases, which is the mean of the column only where all bases are equal.

    Parameters
    ----------
    metrics
        Those that are summarised in `points`.

    Raises
    ------
    JournalError
        If the journal cannot be read.
    OSError
        If a file cannot be written.
    """
    names = _metric_names(campaign, count)
    values = [column for name in names for column in _value_columns(name, name in metrics)]
    summaries = [column for name in metrics for column in _summary_columns(name)]
    axes = campaign.loaded.study.vary
    plain_columns = [*_POINT, _REPLICATION, *_STATUS, _FORMULA, *values, *summaries]
    varied = _axis_columns(axes, plain_columns)
    by_replication = [*_POINT, *varied, _REPLICATION, *_COUNTS, *values]
    by_point = [*_POINT, *varied, *_STATUS, _FORMULA, *summaries]
    texts = {name for name, axis in axes.items() if not axis.is_numeric}
    with _csv_writer(results, by_replication) as rows, _csv_writer(points, by_point) as sums:
        for cell in _cells(campaign, count):
            for simulated in cell:
                labels = zip(axes, simulated.point.values, strict=True)
                texts |= {name for name, value in labels if name not in texts and not is_number(value.label)}
                rows.writerows(map(safe_cells, _result_rows(axes, simulated, names, metrics)))
            sums.writerows(map(safe_cells, _point_rows(axes, cell, metrics)))
    types = dict(_axis_columns(axes, plain_columns, texts))
    return _typed(by_replication, types), _typed(by_point, types)


@contextlib.contextmanager
def _csv_writer(path: Path, columns: Iterable[SqlColumn]) -> Iterator[Any]:
    """Yield what writes rows to a table in CSV, below the names of its columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(safe_cells(column.name for column in columns))
        yield writer


def _typed(columns: Iterable[SqlColumn], types: Mapping[str, str]) -> list[SqlColumn]:
    """Return columns with the types of axes: labels that are plain numbers are numbers for whoever reads types."""
    return [SqlColumn(name, types.get(name, kind)) for name, kind in columns]


def has_parquet() -> bool:
    """Return whether Parquet files can be written: DuckDB is there (extra ``data``)."""
    return importlib.util.find_spec("duckdb") is not None


def write_parquet(table: Path, columns: Sequence[SqlColumn], target: Path) -> None:
    """Write a table in CSV as Parquet: the same rows in the same order, the same numbers to the last bit."""
    import duckdb

    kinds = ", ".join(f"{_quoted(name)}: '{kind}'" for name, kind in columns)
    # Nothing is guessed: neither types, nor columns from a folder that is called a=1.
    reader = f"read_csv({_quoted(str(table))}, header=true, auto_detect=false, hive_partitioning=false, "
    reader += f"delim=',', quote='\"', escape='\"', nullstr='', columns={{{kinds}}})"
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            connection.execute(f"COPY (FROM {reader}) TO {_quoted(str(target))} (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.Error as error:
        text = str(error)
        number = re.search(r'"errno":"(\d+)"', text)  # of the system: a full disk
        # Below the first line are the addresses of its functions.
        reason = os.strerror(int(number[1])) if number else f"DuckDB cannot write Parquet: {text.partition(chr(10))[0]}"
        raise OSError(0, reason) from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _metric_names(campaign: Campaign, count: Callable[[Point], int]) -> list[str]:
    """Return every metric of which there is a value, in the order in which they come; a point has one set of them."""
    names: dict[str, None] = {}
    for point in campaign.loaded.points():
        keys = (task.key for task in campaign.tasks(point, count(point)))
        key = next((key for key in keys if campaign.journal.status(key) == "ok"), None)
        if key is not None:
            names |= dict.fromkeys(campaign.journal.get(key).rows)
    return list(names)


def _value_columns(name: str, is_reported: bool) -> list[SqlColumn]:
    return [SqlColumn(f"{name}{end}", _NUMBER) for end in ("", *((".amount", ".base") if is_reported else ()))]


def _summary_columns(name: str) -> list[SqlColumn]:
    ends = ["mean", *(f"ci95_{end}" for end in _LOW_HIGH), "std", "p05", "p50", "p95"]
    ends += [f"band90_{end}" for end in _LOW_HIGH]
    return [*(SqlColumn(f"{name}.{end}", _NUMBER) for end in ends), SqlColumn(f"{name}.method", _TEXT)]


def _axis_columns(
    axes: Mapping[str, Axis], plain_columns: Iterable[SqlColumn], texts: Container[str] | None = None
) -> list[SqlColumn]:
    """Return a column for the label of each axis, a text but where `texts` lacks it, and one for its number if any.

    No name is there twice, whatever an axis is called: databases do not distinguish capitals from small letters.
    """
    names = {column.name.casefold() for column in plain_columns}
    columns = []
    for name, axis in axes.items():
        kind = _TEXT if texts is None or name in texts else _NUMBER
        for column in (SqlColumn(name, kind), SqlColumn(f"{name}.number", _NUMBER))[: 1 + axis.is_numeric]:
            free = column.name
            while free.casefold() in names:
                free = f"vary.{free}"
            names.add(free.casefold())
            columns.append(column._replace(name=free))
    return columns


def _cells(campaign: Campaign, count: Callable[[Point], int]) -> Iterator[list[_JournaledPoint]]:
    """Yield the points of each cell, the one with the central values first."""
    cell: list[_JournaledPoint] = []
    for point in campaign.loaded.points():
        if cell and point.cell != cell[0].point.cell:
            yield cell
            cell = []
        keys = [task.key for task in campaign.tasks(point, count(point))]
        cell.append(
            _JournaledPoint(point, len(keys), [campaign.journal.get(key) for key in keys if key in campaign.journal])
        )
    if cell:
        yield cell


def _place(axes: Mapping[str, Axis], point: Point) -> list[Any]:
    """Return the columns that say which point it is."""
    place: list[Any] = [point.number, point.cell, point.draw]
    for axis, value in zip(axes.values(), point.values, strict=True):
        place += [" ".join(value.label.split()), value.number][: 1 + axis.is_numeric]
    return place


def _result_rows(
    axes: Mapping[str, Axis], simulated: _JournaledPoint, names: Sequence[str], metrics: Sequence[str]
) -> Iterator[list[Any]]:
    """Yield a row for each replication that was simulated to its end."""
    place = _place(axes, simulated.point)
    for record in simulated.records:
        if record.status != "ok":
            continue
        for index in range(record.replications):
            counts = [record.notes["censored"][index], record.notes["never_started"][index]]
            row = [*place, record.first + index, *counts]
            for name in names:
                amounts, bases = record.rows.get(name, ((), ()))[:2]
                amount, base = (amounts[index], bases[index]) if amounts else (None, None)
                row.append(amount / base if amount is not None and base else None)
                if name in metrics:
                    row += [amount, base]
            yield row


def _point_rows(
    axes: Mapping[str, Axis], cell: Sequence[_JournaledPoint], metrics: Sequence[str]
) -> Iterator[list[Any]]:
    """Yield a row for each point of a cell; what the unknown does to it stands at the central one."""
    first, *drawn = [_outcome(simulated, metrics) for simulated in cell]
    for simulated, outcome in zip(cell, [Cell(first, tuple(drawn)), *map(Cell, drawn)], strict=True):
        whole = [record for record in simulated.records if record.status == "ok"]
        bad = next((record for record in simulated.records if record.status != "ok"), None)
        status, reason = (bad.status, bad.reason) if bad is not None else ("ok", "")
        if bad is None and len(whole) < simulated.wanted:
            status, reason = "missing", outcome.trouble
        counts = [_hit(whole, "censored"), _hit(whole, "never_started")]
        row = [*_place(axes, simulated.point), status, reason, sum(record.replications for record in whole), *counts]
        row.append(outcome.stated.formula)
        for metric in metrics:
            row += _summary(outcome, metric)
        yield row


def _outcome(simulated: _JournaledPoint, metrics: Sequence[str]) -> PointResult:
    if all(record.status == "ok" for record in simulated.records) and len(simulated.records) < simulated.wanted:
        return PointResult(
            simulated.point, trouble=f"{simulated.wanted - len(simulated.records)} of its tasks were not simulated"
        )
    return outcome_of(simulated.point, simulated.records, metrics)


def _hit(records: Iterable[Record], what: str) -> int:
    """Return the number of replications that have at least one of something."""
    return sum(count > 0 for record in records for count in record.notes[what])


def _summary(cell: Cell, metric: str) -> list[Any]:
    """Return the columns of one metric of a point."""
    summary = None if cell.trouble else summary_of(cell, metric)
    if summary is None:
        return [None] * len(_summary_columns(metric))
    nothing = (None, None)
    quantiles = (summary.std, summary.p05, summary.p50, summary.p95)
    return [summary.mean, *(summary.mean_ci95 or nothing), *quantiles, *(summary.band90 or nothing), summary.method]
