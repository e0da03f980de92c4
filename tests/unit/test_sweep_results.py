"""The two tables of a study: what is in them, in which order, and that nothing but the journal decides it."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import os
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from analysis.study.load import LoadedStudy, load_study
from analysis.sweep.campaign import Campaign
from analysis.sweep.journal import Journal
from analysis.sweep.results import Column, has_parquet, write_parquet, write_tables
from analysis.sweep.task import Record, Task
from sim import yamlfile
from tests.cases import cases

FULL = Path("/dev/full")

REPLICATIONS = 13
"""Of each point: a whole block and a part of one."""

Row = dict[str, str]


def study(folder: Path, vary: dict[str, Any] | None = None, **changes: Any) -> LoadedStudy:
    """Return a study, written into a folder: two intervals and three numbers of spares, six points."""
    chosen = {
        "interval": {"path": "checkpoint.tiers.0.interval", "choices": ["20 min", "1 h"]},
        "spares.hot": {"choices": [0, 2, 4]},
    }
    data = {"name": "fabricated", "scenario": "quickstart", "vary": chosen if vary is None else vary, **changes}
    path = folder / "study.yaml"
    path.write_text(yamlfile.dump(data))
    return load_study(path)


def fabricated(task: Task, **changes: Any) -> Record:
    """Return an outcome as a task might have it, a different one for each key.

    ``plain`` has the same base everywhere, ``ratio`` has not, ``rare`` has nothing in most bases, ``late`` is censored
    in every third replication, and ``some`` is known at even points alone.
    """
    rng = random.Random(task.key)
    number = task.replications
    rows: dict[str, list[list[float | None]]] = {
        "plain": [[rng.random() for _ in range(number)], [3.0] * number],
        "ratio": [[rng.random() for _ in range(number)], [1.0 + rng.random() for _ in range(number)]],
        "rare": [[rng.random() for _ in range(number)], [float(rng.random() < 0.2) for _ in range(number)]],
        "late": [[None if index % 3 == 0 else rng.random() for index in range(number)], [1.0] * number],
    }
    if task.point % 2 == 0:
        rows["some"] = [[rng.random() for _ in range(number)], [1.0] * number]
    censored = [int(index % 3 == 0) for index in range(number)]
    notes: dict[str, Any] = {"luck": [None] * number, "censored": censored, "never_started": [0] * number}
    if task.first == 0:
        notes |= {"formula": 0.9 + task.point / 1000, "warnings": []}
    return Record(task.key, task.point, task.first, number, "ok", "", 0.1, rows, notes)._replace(**changes)


class Tables(NamedTuple):
    """Both tables, their columns, and their files."""

    results: list[Row]
    points: list[Row]
    columns: tuple[list[Column], list[Column]]
    files: tuple[Path, Path]


def count(point: object) -> int:
    """Return how many replications there are to be."""
    return REPLICATIONS


def campaign_of(loaded: LoadedStudy, journal: Journal) -> Campaign:
    """Return a study that nobody plays."""
    crew: Any = None
    return Campaign(loaded, journal, crew)


def tasks_of(campaign: Campaign) -> list[Task]:
    """Return all tasks of a study, in order."""
    return [task for point in campaign.loaded.points() for task in campaign.tasks(point, REPLICATIONS)]


def tables_of(campaign: Campaign, folder: Path, metrics: tuple[str, ...] = ("ratio",)) -> Tables:
    """Return the tables of a study."""
    files = folder / "results.csv", folder / "points.csv"
    columns = write_tables(campaign, count, metrics, *files)
    results, points = (list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))) for file in files)
    return Tables(results, points, columns, files)


def played(folder: Path, *metrics: str, **changes: Any) -> Tables:
    """Return the tables of a fabricated study, all of whose tasks went well."""
    with Journal(folder / "journal") as journal:
        campaign = campaign_of(study(folder, **changes), journal)
        for task in tasks_of(campaign):
            journal.add(fabricated(task))
        return tables_of(campaign, folder, metrics or ("ratio",))


def test_every_replication_of_every_point_is_a_row_in_order(tmp_path: Path) -> None:
    """Points in the order of the study, replications in theirs, with the values of the axes beside them."""
    found = played(tmp_path)
    assert [(row["point"], row["replication"]) for row in found.results] == [
        (str(point), str(index)) for point in range(6) for index in range(REPLICATIONS)
    ]
    labels = itertools.product((("20 min", "1200.0"), ("1 h", "3600.0")), (("0", "0.0"), ("2", "2.0"), ("4", "4.0")))
    told = [
        ((row["interval"], row["interval.number"]), (row["spares.hot"], row["spares.hot.number"]))
        for row in found.points
    ]
    assert told == list(labels)
    assert {(row["cell"], row["draw"]) for row in found.points} == {(str(point), "0") for point in range(6)}


def test_the_bytes_do_not_depend_on_the_order_in_which_outcomes_came(tmp_path: Path) -> None:
    """Backwards, shuffled, or with outcomes that crashed first: both files are the same to the last byte."""
    loaded = study(tmp_path)
    contents = []
    for attempt in range(3):
        with Journal(tmp_path / f"journal{attempt}") as journal:
            campaign = campaign_of(loaded, journal)
            tasks = tasks_of(campaign)[:: 1 if attempt < 1 else -1]
            if attempt == 2:
                random.Random(5).shuffle(tasks)
                for task in tasks[::3]:
                    journal.add(fabricated(task, status="crashed", reason="its process died", rows={}, notes={}))
            for task in tasks:
                journal.add(fabricated(task, seconds=float(attempt)))
            contents.append([file.read_bytes() for file in tables_of(campaign, tmp_path).files])
    assert contents[0] == contents[1] == contents[2]


def test_numbers_are_those_of_the_journal_to_the_last_bit(tmp_path: Path) -> None:
    """A value is its amount over its base; of a metric that is reported both stand beside it."""
    with Journal(tmp_path / "journal") as journal:
        campaign = campaign_of(study(tmp_path), journal)
        for task in tasks_of(campaign):
            journal.add(fabricated(task))
        rows = iter(tables_of(campaign, tmp_path, ("ratio",)).results)
        for task in tasks_of(campaign):
            known = fabricated(task)
            for index, row in zip(range(task.replications), rows, strict=False):
                for name, (amounts, bases) in known.rows.items():
                    amount, base = amounts[index], bases[index]
                    exists = amount is not None and base
                    assert row[name] == (repr(amount / base) if exists else ""), name  # type: ignore[operator]
                assert (row["ratio.amount"], row["ratio.base"]) == tuple(
                    repr(part[index]) for part in known.rows["ratio"]
                )
                assert row["some"] == "" or task.point % 2 == 0
                assert row["censored"] == str(int(index % 3 == 0))
        assert next(rows, None) is None


def test_the_mean_of_a_point_is_the_sum_of_amounts_over_the_sum_of_bases(tmp_path: Path) -> None:
    """So it is where most replications have nothing in their base, which the mean of a column could not be."""
    found = played(tmp_path, "ratio", "rare")
    for metric in ("ratio", "rare"):
        for point in found.points:
            mine = [row for row in found.results if row["point"] == point["point"]]
            amount, base = (sum(float(row[f"{metric}.{part}"]) for row in mine) for part in ("amount", "base"))
            assert float(point[f"{metric}.mean"]) == pytest.approx(amount / base, rel=1e-12) if base else True
            assert (point[f"{metric}.mean"] == "") == (base == 0)
    assert any(row["rare"] == "" and row["rare.base"] == "0.0" for row in found.results)


def test_what_the_data_do_not_support_is_empty(tmp_path: Path) -> None:
    """No mean of what was censored, no metric where there is none, no p05 of thirteen, and never a NaN."""
    found = played(tmp_path, "late", "some")
    assert {row["late.mean"] for row in found.points} == {""}
    assert [row["some.mean"] == "" for row in found.points] == [point % 2 == 1 for point in range(6)]
    assert {row["some.p05"] for row in found.points} == {""}
    assert {row["censored"] for row in found.points} == {"5"}, "four of ten, and one of three"
    assert {row["formula"] for row in found.points} == {repr(0.9 + point / 1000) for point in range(6)}
    for file in found.files:
        assert not {"nan", "inf", "None"} & set(file.read_text().replace("\n", ",").split(","))


@cases("status", ["infeasible", "failed", "crashed"])
def test_a_point_that_went_wrong_is_named_and_keeps_what_went_well(tmp_path: Path, status: str) -> None:
    """It has its status and the reason instead of a mean; replications that were played are still rows."""
    reason = 'the job needs "16", and 8, are there'
    with Journal(tmp_path / "journal") as journal:
        campaign = campaign_of(study(tmp_path), journal)
        for task in tasks_of(campaign):
            is_bad = task.point == 2 and task.first == 10
            journal.add(
                fabricated(task, status=status, reason=reason, rows={}, notes={}) if is_bad else fabricated(task)
            )
        found = tables_of(campaign, tmp_path)
    assert [row["status"] for row in found.points] == ["ok", "ok", status, "ok", "ok", "ok"]
    bad = found.points[2]
    assert (bad["reason"], bad["replications"], bad["ratio.mean"], bad["ratio.p50"]) == (reason, "10", "", "")
    assert [row["replication"] for row in found.results if row["point"] == "2"] == [str(index) for index in range(10)]


def test_what_was_not_played_is_said_to_be_missing(tmp_path: Path) -> None:
    """A part of a study has no means of points that it has not all of, and a study of nothing has no rows."""
    with Journal(tmp_path / "journal") as journal:
        campaign = campaign_of(study(tmp_path), journal)
        assert tables_of(campaign, tmp_path).results == []
        for task in tasks_of(campaign)[3:]:
            journal.add(fabricated(task))
        found = tables_of(campaign, tmp_path)
    assert [row["status"] for row in found.points] == ["missing", "missing", *["ok"] * 4]
    assert [row["reason"] for row in found.points[:2]] == [
        f"{number} of its tasks were not played" for number in (2, 1)
    ]
    assert [row["replications"] for row in found.points[:3]] == ["0", "3", "13"]
    assert [row["ratio.mean"] != "" for row in found.points] == [False, False, True, True, True, True]


def test_draws_of_the_unknown_are_points_of_their_cell(tmp_path: Path) -> None:
    """Draw 0 is the central one, where the band of the cell stands; every draw has a mean of its own."""
    unknown = {"distribution": {"law": "uniform", "min": "2 min", "max": "8 min"}}
    found = played(tmp_path, vary={"spares.hot": {"choices": [0, 2]}, "recovery.initialize": unknown})
    assert [(row["cell"], row["draw"]) for row in found.points] == [
        (str(cell), str(draw)) for cell in range(2) for draw in range(21)
    ]
    assert all(row["ratio.mean"] for row in found.points)
    assert {row["draw"] for row in found.points if row["ratio.band90_low"]} == {"0"}
    first, second = ([row["recovery.initialize"] for row in found.points if row["cell"] == cell] for cell in "01")
    assert first == second


def test_a_label_of_several_lines_is_one(tmp_path: Path) -> None:
    """A row is a line, for programs that know no quotation marks."""
    found = played(tmp_path, vary={"spares": {"path": "spares.hot", "choices": {" few \n\r of them": 0, "many": 4}}})
    assert [row["spares"] for row in found.points] == ["few of them", "many"]
    assert len(found.files[1].read_bytes().splitlines()) == 3


@pytest.mark.parametrize("names", [("point", "Cell"), ("ratio", "RATIO.mean"), ("a", "A"), ("a", "a.number")])
def test_no_two_columns_have_a_name_in_common(tmp_path: Path, names: tuple[str, str]) -> None:
    """Whatever an axis is called, and though databases do not tell capitals from small letters."""
    paths = ("spares.hot", "recovery.initialize")
    choices: tuple[list[Any], ...] = ([0, 2], ["2 min", "3 min"])
    vary = {name: {"path": path, "choices": c} for name, path, c in zip(names, paths, choices, strict=True)}
    found = played(tmp_path, vary=vary)
    for columns, rows in zip(found.columns, (found.results, found.points), strict=True):
        known = [column.name.casefold() for column in columns]
        assert len(set(known)) == len(known)
        assert list(rows[0]) == [column.name for column in columns]
        # The label of each axis is followed by its number.
        assert list(rows[0].values())[3:7] == ["0", "0.0", "2 min", "120.0"]
    for file, columns in zip(found.files, found.columns, strict=True):
        assert_same_in_parquet(file, columns, tmp_path / "table.parquet")


def assert_same_in_parquet(table: Path, columns: list[Column], target: Path) -> None:
    """Assert that a Parquet file has the names, the types and the numbers of a table."""
    duckdb = pytest.importorskip("duckdb")
    write_parquet(table, columns, target)
    with duckdb.connect() as connection:
        text = str(target).replace("'", "''").replace("[", "[[]")
        connection.execute(f"SELECT * FROM read_parquet('{text}', hive_partitioning=false)")
        assert [tuple(map(str, column[:2])) for column in connection.description] == [
            (name, {"BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "VARCHAR": "VARCHAR"}[kind]) for name, kind in columns
        ]
        found = connection.fetchall()
    with table.open(encoding="utf-8", newline="") as file:
        known = list(csv.reader(file))[1:]
    assert len(found) == len(known)
    read = {"BIGINT": int, "DOUBLE": float, "VARCHAR": str}
    for mine, texts in zip(found, known, strict=True):
        expected = [read[kind](text) if text else None for text, (_, kind) in zip(texts, columns, strict=True)]
        assert list(map(bits, mine)) == list(map(bits, expected))


def bits(value: Any) -> Any:
    """Return a number as its bits: minus zero is not zero."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def test_parquet_has_the_same_rows_types_and_bits_wherever_it_lies(tmp_path: Path) -> None:
    """Also in a folder whose name is a pattern, a quotation, or what others take for a column."""
    folder = tmp_path / "a=1" / "it's [b]*?{c,d}" / "ä"
    folder.mkdir(parents=True)
    found = played(folder, "ratio", "late")
    for file, columns in zip(found.files, found.columns, strict=True):
        assert_same_in_parquet(file, columns, file.with_suffix(".parquet"))


def test_parquet_keeps_extreme_numbers_and_odd_texts(tmp_path: Path) -> None:
    """The largest, the smallest, minus zero, seventeen digits; quotes, commas and letters of any script."""
    numbers = [1.7976931348623157e308, 5e-324, -0.0, 0.1 + 0.2, 2.2250738585072014e-308, 123456789.12345679, None]
    texts = ['"', "a,b", "''", "ü ≤ 字", "NULL", "1e5", " x "]
    table = tmp_path / "table.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["whole", "number", "text"])
        writer.writerows([2**63 - 1, *pair] for pair in zip(numbers, texts, strict=True))
    columns = [Column("whole", "BIGINT"), Column("number", "DOUBLE"), Column("text", "VARCHAR")]
    assert_same_in_parquet(table, columns, tmp_path / "table.parquet")


@pytest.mark.skipif(not has_parquet(), reason="needs the extra data")
def test_parquet_that_cannot_be_written_is_an_error_in_a_line(tmp_path: Path) -> None:
    """As it is for any other file."""
    (tmp_path / "table.csv").write_text("a\n1\n")
    with pytest.raises(OSError, match="missing") as caught:
        write_parquet(tmp_path / "table.csv", [Column("a", "BIGINT")], tmp_path / "missing" / "table.parquet")
    assert "\n" not in caught.value.strerror


@pytest.mark.skipif(not (has_parquet() and FULL.exists()), reason="needs the extra data, and a device that is full")
def test_parquet_on_a_full_disk_is_told_in_the_words_of_the_system(tmp_path: Path) -> None:
    """Not in those of the database, with its JSON and the name of a file that nobody knows."""
    (tmp_path / "table.csv").write_text("a\n1\n")
    with pytest.raises(OSError) as caught:
        write_parquet(tmp_path / "table.csv", [Column("a", "BIGINT")], FULL)
    assert caught.value.strerror == os.strerror(errno.ENOSPC)


def test_parquet_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    """Nothing of the time or the threads is in it."""
    pytest.importorskip("duckdb")
    found = played(tmp_path)
    for name in ("one", "two"):
        write_parquet(found.files[0], found.columns[0], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_memory_does_not_grow_with_the_number_of_points(tmp_path: Path) -> None:
    """Ten times the points take no more than what the places of ten times the outcomes in the journal take."""
    peaks = []
    for number in (30, 300):
        interval = {"path": "checkpoint.tiers.0.interval", "range": {"min": "10 min", "max": "2 h", "points": number}}
        loaded = study(tmp_path, vary={"interval": interval})
        with Journal(tmp_path / f"journal{number}") as journal:
            campaign = campaign_of(loaded, journal)
            for task in tasks_of(campaign):
                journal.add(fabricated(task))
            tracemalloc.start()
            try:
                write_tables(campaign, count, (), tmp_path / "results", tmp_path / "points")
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    few, many = peaks
    assert many < 2 * few
