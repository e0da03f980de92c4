"""The folder of a study: whom it takes, what it refuses, and that nothing of earlier work is lost or half written."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
import re
import shutil
import struct
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ettrick import sim
from ettrick.analysis.page.chapters import study as chapter
from ettrick.analysis.results.run import render, scenario_digest
from ettrick.analysis.results.studies import SweepDocument
from ettrick.analysis.study.load import LoadedStudy, load_study
from ettrick.analysis.study.table import summary_of
from ettrick.analysis.sweep import folder as module
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.document import against_sweep as typed_against_sweep
from ettrick.analysis.sweep.document import sweep_document
from ettrick.analysis.sweep.folder import FolderError, StudyFolder
from ettrick.analysis.sweep.journal import Journal, JournalError
from ettrick.analysis.sweep.results import SqlColumn, has_parquet, write_parquet, write_tables
from ettrick.analysis.sweep.task import Record, Task
from ettrick.sim import yamlfile
from ettrick.sim.cluster import GRAPH_FORMATS
from tests import report_sample
from tests.cases import SIMULATED, cases
from tests.pace import one_in
from tests.sweep_tools import broken, common_noise, table_of
from tests.typed import as_plain, of_plain, present
from tests.unit.test_sweep_tasks import files_of_at_most

format_sweep = of_plain(chapter.format_sweep, SweepDocument)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.study.table import StudyTable

# The document of a study has every number that its text and any report need, and says what is wrong with them.

plain_document = as_plain(sweep_document)

against_sweep = of_plain(typed_against_sweep, SweepDocument)

NOISE = common_noise(24)

STUDY = """
name: spares
question: How many spares are needed?
scenario: quickstart
vary:
  spares.hot: {title: hot spares, choices: [0, 2, 5000]}
  repair.time: {choices: [6 h, 2 d]}
metrics: [ettr, p_finish_by]
replications: 24
seed: 7
assumptions: [spares are as good as new]
questions:
  - {use: threshold, at_least: 95 %, along: spares.hot}
  - {use: best, metric: cost}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedStudy:
    """Return a study of six cells."""
    path = tmp_path / "spares.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return load_study(path)


@pytest.fixture
def table(loaded: LoadedStudy) -> StudyTable:
    """Return its results: two cells cannot run."""

    def results(where: dict[str, Any]) -> dict[str, Any]:
        if where["spares.hot"] == 5000:
            return {}
        return {"ettr": 0.94 + 0.01 * where["spares.hot"] + NOISE, "p_finish_by": [1.0] * 24}

    return table_of(loaded.study.vary, results, metrics=("ettr", "p_finish_by", "cost"))


def mark(table: StudyTable, number: int, **changes: Any) -> StudyTable:
    """Return a table of which one point has a status."""
    status = changes.pop("status")
    marked = broken(table, number, **changes)
    object.__setattr__(marked.cells[number].stated, "status", status)
    return marked


def test_the_document_has_everything_that_the_table_has(loaded: LoadedStudy, table: StudyTable) -> None:
    """Every cell with its labels, numbers and summaries, every answer, and how to find them again; in plain JSON."""
    content = plain_document(loaded, table, command="ettrick sweep spares.yaml")
    assert [content[key] for key in ("study", "scenario", "seed", "currency")] == ["spares", "quickstart", 7, None]
    assert content["axes"]["spares.hot"] == {
        "title": "hot spares",
        "noun": "",
        "paths": ["spares.hot"],
        "unknown": False,
        "basis": None,
        "source": "",
        "values": [{"label": "0", "number": 0}, {"label": "2", "number": 2}, {"label": "5000", "number": 5000}],
    }
    assert [cell["values"]["repair.time"] for cell in content["cells"]] == ["6 h", "2 d"] * 3
    assert content["cells"][1]["numbers"] == {"spares.hot": 0, "repair.time": 172800}
    known = present(summary_of(table.cells[2], "ettr"))
    found = content["cells"][2]["metrics"]["ettr"]
    assert (found["mean"], tuple(found["mean_ci95"]), found["method"]) == (known.mean, known.mean_ci95, known.method)
    assert found["p05"] is found["band90"] is None
    assert content["cells"][0]["metrics"]["p_finish_by"]["mean_ci95"] == [pytest.approx(0.025 ** (1 / 24)), 1.0]
    assert [answer["use"] for answer in content["answers"]] == ["threshold", "best"]
    assert content["answers"][0]["data"]["lines"][0]["crossings"][0]["at"] == pytest.approx(1)
    assert content["answers"][0]["along"] == "spares.hot"
    assert "spares are as good as new" in content["assumptions"]
    assert content["provenance"]["scenario_sha256"] == loaded.digest
    assert content["provenance"]["command"] == "ettrick sweep spares.yaml"


def test_counts_add_up(loaded: LoadedStudy, table: StudyTable) -> None:
    """Every point has one status; cells whose jobs did not finish, or whose precision was missed, count beside."""
    table = mark(table, 3, status="crashed", metrics={}, trouble="its process died 3 times")
    table = broken(table, 0, censored=2, precise=False, warnings=("a rack is unused",))
    counts = plain_document(loaded, table, command="")["counts"]
    statuses = [counts[name] for name in ("ok", "infeasible", "failed", "crashed")]
    assert statuses == [3, 2, 0, 1]
    assert sum(statuses) == counts["points"] == counts["cells"] == 6
    assert (counts["cells_ok"], counts["censored"], counts["imprecise"]) == (3, 1, 1)


def test_points_that_cannot_run_are_an_answer_unless_none_can(loaded: LoadedStudy, table: StudyTable) -> None:
    """Two of six cells without room do not spoil the results; six of six do."""
    assert against_sweep(plain_document(loaded, table, command="")) == []
    nothing = table_of(loaded.study.vary, lambda where: {})
    assert against_sweep(plain_document(loaded, nothing, command="")) == ["no point can run: no room for the job"]


def test_what_went_wrong_is_named(loaded: LoadedStudy, table: StudyTable) -> None:
    """Crashed and failed points by number and reason, and how many missed the precision."""
    table = mark(table, 3, status="crashed", metrics={}, trouble="its process died 3 times")
    table = mark(table, 2, status="failed", metrics={}, trouble="ZeroDivisionError: division by zero")
    table = broken(table, 0, precise=False)
    assert against_sweep(plain_document(loaded, table, command="")) == [
        "point 3 crashed: its process died 3 times",
        "point 2 failed: ZeroDivisionError: division by zero",
        "the precision asked for was not reached in 1 of 6 cells",
    ]


# The two tables of a study: what is in them, in which order, and that nothing but the journal decides it.


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
    notes: dict[str, Any] = {"controls": [None] * number, "censored": censored, "never_started": [0] * number}
    if task.first == 0:
        notes |= {"formula": 0.9 + task.point / 1000, "warnings": []}
    return Record(task.key, task.point, task.first, number, "ok", "", 0.1, rows, notes)._replace(**changes)


class Tables(NamedTuple):
    """Both tables, their columns, and their files."""

    results: list[Row]
    points: list[Row]
    columns: tuple[list[SqlColumn], list[SqlColumn]]
    files: tuple[Path, Path]


def count(point: object) -> int:
    """Return how many replications there are to be."""
    return REPLICATIONS


def campaign_of(loaded: LoadedStudy, journal: Journal) -> Campaign:
    """Return a study that nobody plays."""
    pool: Any = None
    return Campaign(loaded, journal, pool)


def tasks_of(campaign: Campaign) -> list[Task]:
    """Return all tasks of a study, in order."""
    return [task for point in campaign.loaded.points() for task in campaign.tasks(point, REPLICATIONS)]


def tables_of(campaign: Campaign, folder: Path, metrics: tuple[str, ...] = ("ratio",)) -> Tables:
    """Return the tables of a study."""
    files = folder / "results.csv", folder / "points.csv"
    columns = write_tables(campaign, count, metrics, *files)
    results, points = (list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))) for file in files)
    return Tables(results, points, columns, files)


def simulated(folder: Path, *metrics: str, **changes: Any) -> Tables:
    """Return the tables of a fabricated study, all of whose tasks went well."""
    with Journal(folder / "journal") as journal:
        campaign = campaign_of(study(folder, **changes), journal)
        for task in tasks_of(campaign):
            journal.add(fabricated(task))
        return tables_of(campaign, folder, metrics or ("ratio",))


def test_every_replication_of_every_point_is_a_row_in_order(tmp_path: Path) -> None:
    """Points in the order of the study, replications in theirs, with the values of the axes beside them."""
    found = simulated(tmp_path)
    assert [(row["point"], row["replication"]) for row in found.results] == [
        (str(point), str(index)) for point in range(6) for index in range(REPLICATIONS)
    ]
    labels = itertools.product((("20 min", "1200.0"), ("1 h", "3600.0")), (("0", "0.0"), ("2", "2.0"), ("4", "4.0")))
    worded = [
        ((row["interval"], row["interval.number"]), (row["spares.hot"], row["spares.hot.number"]))
        for row in found.points
    ]
    assert worded == list(labels)
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
    found = simulated(tmp_path, "ratio", "rare")
    for metric in ("ratio", "rare"):
        for point in found.points:
            mine = [row for row in found.results if row["point"] == point["point"]]
            amount, base = (sum(float(row[f"{metric}.{part}"]) for row in mine) for part in ("amount", "base"))
            assert float(point[f"{metric}.mean"]) == pytest.approx(amount / base, rel=1e-12) if base else True
            assert (point[f"{metric}.mean"] == "") == (base == 0)
    assert any(row["rare"] == "" and row["rare.base"] == "0.0" for row in found.results)


def test_what_the_data_do_not_support_is_empty(tmp_path: Path) -> None:
    """No mean of what was censored, no metric where there is none, no p05 of thirteen, and never a NaN."""
    found = simulated(tmp_path, "late", "some")
    assert {row["late.mean"] for row in found.points} == {""}
    assert [row["some.mean"] == "" for row in found.points] == [point % 2 == 1 for point in range(6)]
    assert {row["some.p05"] for row in found.points} == {""}
    assert {row["censored"] for row in found.points} == {"5"}, "four of ten, and one of three"
    assert {row["formula"] for row in found.points} == {repr(0.9 + point / 1000) for point in range(6)}
    for file in found.files:
        assert not {"nan", "inf", "None"} & set(file.read_text().replace("\n", ",").split(","))


@cases("status", ["infeasible", "failed", "crashed"])
def test_a_point_that_went_wrong_is_named_and_keeps_what_went_well(tmp_path: Path, status: str) -> None:
    """It has its status and the reason instead of a mean; replications that were simulated are still rows."""
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
        f"{number} of its tasks were not simulated" for number in (2, 1)
    ]
    assert [row["replications"] for row in found.points[:3]] == ["0", "3", "13"]
    assert [row["ratio.mean"] != "" for row in found.points] == [False, False, True, True, True, True]


def test_draws_of_the_unknown_are_points_of_their_cell(tmp_path: Path) -> None:
    """Draw 0 is the central one, where the band of the cell stands; every draw has a mean of its own."""
    unknown = {"distribution": {"use": "uniform", "min": "2 min", "max": "8 min"}}
    found = simulated(tmp_path, vary={"spares.hot": {"choices": [0, 2]}, "recovery.initialize": unknown})
    assert [(row["cell"], row["draw"]) for row in found.points] == [
        (str(cell), str(draw)) for cell in range(2) for draw in range(21)
    ]
    assert all(row["ratio.mean"] for row in found.points)
    assert {row["draw"] for row in found.points if row["ratio.band90_low"]} == {"0"}
    first, second = ([row["recovery.initialize"] for row in found.points if row["cell"] == cell] for cell in "01")
    assert first == second


def test_a_label_of_several_lines_is_one(tmp_path: Path) -> None:
    """A row is a line, for programs that know no quotation marks."""
    found = simulated(tmp_path, vary={"spares": {"path": "spares.hot", "choices": {" few \n\r of them": 0, "many": 4}}})
    assert [row["spares"] for row in found.points] == ["few of them", "many"]
    assert len(found.files[1].read_bytes().splitlines()) == 3


@pytest.mark.parametrize("names", [("point", "Cell"), ("ratio", "RATIO.mean"), ("a", "A"), ("a", "a.number")])
def test_no_two_columns_have_a_name_in_common(tmp_path: Path, names: tuple[str, str]) -> None:
    """Whatever an axis is called, and though databases do not tell capitals from small letters."""
    paths = ("spares.hot", "recovery.initialize")
    choices: tuple[list[Any], ...] = ([0, 2], ["2 min", "3 min"])
    vary = {name: {"path": path, "choices": c} for name, path, c in zip(names, paths, choices, strict=True)}
    found = simulated(tmp_path, vary=vary)
    for columns, rows in zip(found.columns, (found.results, found.points), strict=True):
        known = [column.name.casefold() for column in columns]
        assert len(set(known)) == len(known)
        assert list(rows[0]) == [column.name for column in columns]
        # The label of each axis is followed by its number.
        assert list(rows[0].values())[3:7] == ["0", "0.0", "2 min", "120.0"]
    for file, columns in zip(found.files, found.columns, strict=True):
        assert_same_in_parquet(file, columns, tmp_path / "table.parquet")


def assert_same_in_parquet(table: Path, columns: list[SqlColumn], target: Path) -> None:
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
    found = simulated(folder, "ratio", "late")
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
    columns = [SqlColumn("whole", "BIGINT"), SqlColumn("number", "DOUBLE"), SqlColumn("text", "VARCHAR")]
    assert_same_in_parquet(table, columns, tmp_path / "table.parquet")


def test_what_duckdb_cannot_do_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first line says what is wrong; the addresses of its functions are for its authors."""
    duckdb = pytest.importorskip("duckdb")

    def connect(**_: Any) -> None:
        raise duckdb.InternalException("INTERNAL Error: time went backwards\nStack Trace:\n_duckdb.so(+0xe48bd1)")

    monkeypatch.setattr(duckdb, "connect", connect)
    with pytest.raises(OSError, match="DuckDB") as caught:
        write_parquet(tmp_path / "table.csv", [], tmp_path / "table.parquet")
    assert caught.value.strerror == "DuckDB cannot write Parquet: INTERNAL Error: time went backwards"


def test_parquet_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    """Nothing of the time or the threads is in it."""
    pytest.importorskip("duckdb")
    found = simulated(tmp_path)
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


STARTED = {"journal.jsonl", "scenario.resolved.yaml", "study.json", "study.resolved.yaml"}

TABLES = {"results.csv", "points.csv"}

PARQUET = {"results.parquet", "points.parquet"} if has_parquet() else set()


@pytest.fixture
def six_points(tmp_path: Path) -> LoadedStudy:
    """Return a study of six points."""
    return study(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a folder that is not there yet, nor what is around it."""
    return tmp_path / "runs" / "deep" / "one"


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder and below it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def start(path: Path, six_points: LoadedStudy, **options: Any) -> tuple[str, ...]:
    """Open a folder for a study and leave it; return the notes."""
    with StudyFolder(path, six_points, **options) as folder:
        return folder.notes


def finish(path: Path, six_points: LoadedStudy, text: str = "{}") -> list[str]:
    """Put fabricated outcomes into a folder and write the results; return what was written."""
    with StudyFolder(path, six_points) as folder:
        campaign = campaign_of(six_points, folder.journal)
        for task in tasks_of(campaign):
            if task.key not in folder.journal:
                folder.journal.add(fabricated(task))
        return folder.write(text, campaign, count, ("ratio",))


def refused(path: Path, six_points: LoadedStudy, **options: Any) -> str:
    """Return why a folder does not take a study, in one line and without touching anything."""
    before = contents(path)
    with pytest.raises((FolderError, JournalError)) as caught:
        StudyFolder(path, six_points, **options)
    assert contents(path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_folder_says_what_it_holds(path: Path, six_points: LoadedStudy) -> None:
    """A nested path is made; which study it is, of which scenario, is there before anything is simulated."""
    assert start(path, six_points, shard="3/16") == ()
    assert set(contents(path)) == STARTED
    worded = json.loads((path / "study.json").read_text())
    assert {**worded, "model": ""} == {
        "name": "fabricated",
        "digest": six_points.digest,
        "model": "",
        "shard": "3/16",
    }
    assert (path / "journal.jsonl").read_bytes() == b""


def test_the_same_study_goes_on_with_what_is_there(path: Path, six_points: LoadedStudy) -> None:
    """Also one with other values, metrics, questions or replications: it has other points, not other keys."""
    finish(path, six_points)
    journal = (path / "journal.jsonl").read_bytes()
    changed = {"interval": {"path": "checkpoint.tiers.0.interval", "choices": ["1 h", "2 h"]}}
    for other in (six_points, study(path.parent, vary=changed, metrics=["mtti"], replications=40)):
        with StudyFolder(path, other) as folder:
            assert folder.notes == ()
            assert len(folder.journal) == 12
    assert (path / "journal.jsonl").read_bytes() == journal
    with StudyFolder(
        path, study(path.parent, vary={"interval": {**changed["interval"], "choices": ["1 h"]}})
    ) as folder:
        alone = campaign_of(load_study(path / "study.resolved.yaml"), folder.journal)
        assert [task.key in folder.journal for task in tasks_of(alone)] == [False, False], "spares.hot is another path"


def test_another_study_is_refused(path: Path, six_points: LoadedStudy, tmp_path: Path) -> None:
    """The line says which one is there and what would help, which does help."""
    finish(path, six_points)
    other = study(tmp_path, name="other")
    assert refused(path, other) == (
        "contains the study 'fabricated', not 'other'; choose another folder or add --overwrite"
    )
    assert start(path, other, overwrite=True) == ()
    assert json.loads((path / "study.json").read_text())["name"] == "other"


@pytest.mark.parametrize(
    ("files", "worded"),
    [
        ({"run.json": "{}"}, "contains something else than a study (run.json)"),
        ({f"{name}.txt": "" for name in "dcba"}, "contains something else than a study (a.txt, b.txt, c.txt, ...)"),
        ({"journal.jsonl": "{}\n"}, "contains something else than a study (journal.jsonl)"),
        ({"study.json": '{"name": "fab'}, "contains a study.json that cannot be read"),
        ({"study.json": "[1]", "x": ""}, "contains a study.json that cannot be read"),
        ({"study.json": "{}"}, "contains a study.json that cannot be read"),
    ],
)
def test_what_is_no_study_is_refused_unless_told_to_overwrite(
    tmp_path: Path, six_points: LoadedStudy, files: dict[str, str], worded: str
) -> None:
    """The line names what is there; a folder that somebody else uses is not taken by mistake."""
    path = tmp_path / "out"
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    assert refused(path, six_points) == f"{worded}; choose another folder or add --overwrite"
    start(path, six_points, overwrite=True)
    assert set(contents(path)) == STARTED | {name for name in files if name.endswith(".txt") or name == "x"}


@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [("1/4", "1/4", True), ("1/4", "2/4", False), ("1/4", None, True), (None, "1/4", True), ("1/2", "1/4", False)],
)
def test_each_shard_has_a_folder_of_its_own(
    path: Path, six_points: LoadedStudy, first: str | None, second: str | None, is_taken: bool
) -> None:
    """On some file systems two machines could not keep out of each other's way; the whole study goes anywhere."""
    start(path, six_points, shard=first)
    if is_taken:
        start(path, six_points, shard=second)
    else:
        assert (
            refused(path, six_points, shard=second) == f"contains shard {first}; each shard needs a folder of its own"
        )


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_in_use_is_refused(path: Path, six_points: LoadedStudy, overwrite: bool) -> None:
    """Nobody writes to it, nor throws anything away, while another program is at work there."""
    finish(path, six_points)
    with StudyFolder(path, six_points):
        assert refused(path, six_points, overwrite=overwrite) == "is in use: another program is writing to it"
    start(path, six_points)


def test_a_file_is_no_folder(tmp_path: Path, six_points: LoadedStudy) -> None:
    """Neither the folder itself nor one around it may be a file."""
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "deep"):
        assert refused(path, six_points) == f"{file} is a file, not a folder"


def test_outcomes_that_do_not_count_any_more_are_told(path: Path, six_points: LoadedStudy, tmp_path: Path) -> None:
    """Of another seed, another scenario, or another version: they stay, have other keys, and a note says so."""
    finish(path, six_points)
    worded = "the outcomes of another scenario or seed in journal.jsonl are kept, and do not count"
    other = study(tmp_path, seed=7)
    with StudyFolder(path, other) as folder:
        assert folder.notes == (worded,)
        assert len(folder.journal) == 12
        assert not any(task.key in folder.journal for task in tasks_of(campaign_of(other, folder.journal)))
    assert start(path, study(tmp_path, scenario="llama3-405b-16k")) == (worded,)
    identity = json.loads((path / "study.json").read_text())
    (path / "study.json").write_text(json.dumps({**identity, "model": "old"}))
    (note,) = start(path, study(tmp_path, scenario="llama3-405b-16k"))
    assert note == "the outcomes of another version of the simulator in journal.jsonl are kept, and do not count"


def test_overwriting_throws_away_what_a_study_left_and_nothing_else(path: Path, six_points: LoadedStudy) -> None:
    """Files of the user's, also those whose names are nearly ours, and folders stay; a piece of a file does not."""
    finish(path, six_points)
    foreign = {"notes.txt", "input-mine.csv", "results.csv.bak", "plots/points.csv", "Run.json"}
    ours = {".run.json.unfinished", "input-0123456789ab.csv"}
    (path / "plots").mkdir()
    for name in foreign | ours:
        (path / name).write_text(name)
    start(path, six_points, overwrite=True)
    assert set(contents(path)) == STARTED | foreign
    with Journal(path / "journal.jsonl") as journal:
        assert len(journal) == 0
    assert all((path / name).read_text() == name for name in foreign)


def test_a_new_folder_that_cannot_be_filled_is_not_there(path: Path, six_points: LoadedStudy) -> None:
    """Nor is what was made around it; the error is a line."""
    around = path.parents[2]
    before = sorted(around.rglob("*"))
    with files_of_at_most(100), pytest.raises(FolderError, match=r"^cannot be written \([^\n]+\)$"):
        StudyFolder(path, six_points)
    assert sorted(around.rglob("*")) == before
    start(path, six_points)


@pytest.mark.parametrize("room", [500, 5_000, 20_000], ids=["summaries", "rows", "nearly all"])
def test_a_full_disk_at_the_end_leaves_what_was_there(path: Path, six_points: LoadedStudy, room: int) -> None:
    """Results of an earlier run, all of them or none, and no pieces; they are written when there is room again."""
    finish(path, six_points, '{"first": 1}')
    before = contents(path)
    with StudyFolder(path, six_points) as folder:
        campaign = campaign_of(six_points, folder.journal)
        with files_of_at_most(room), pytest.raises(FolderError, match=r"^cannot be written \([^\n]+\)$"):
            folder.write("x" * 30_000, campaign, count, ("ratio",))
        assert contents(path) == before
        folder.write('{"second": 2}', campaign, count, ("ratio",))
    assert contents(path) == before | {"run.json": b'{"second": 2}\n'}


def test_results_are_written_and_named(path: Path, six_points: LoadedStudy) -> None:
    """Both tables, as Parquet too where that is possible, and the document, which comes last."""
    names = finish(path, six_points, '{"answer": 42}')
    assert set(names) == TABLES | PARQUET | {"run.json"}
    assert names[-1] == "run.json"
    assert set(contents(path)) == STARTED | set(names)
    assert (path / "run.json").read_text() == '{"answer": 42}\n'
    assert (path / "results.csv").read_text().count("\n") == 1 + 6 * REPLICATIONS


def test_no_parquet_of_an_earlier_run_stays_beside_new_tables(
    path: Path, six_points: LoadedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra there are the tables alone, and nothing that could be taken for their copy."""
    start(path, six_points)
    for name in ("results.parquet", "points.parquet"):
        (path / name).write_bytes(b"old")
    monkeypatch.setattr(module, "has_parquet", lambda: False)
    assert set(finish(path, six_points)) == TABLES | {"run.json"}
    assert set(contents(path)) == STARTED | TABLES | {"run.json"}


@pytest.mark.parametrize("name", ["sensitivity.json", "optimize.json"])
def test_other_documents_of_a_study_are_kept_beside_its_results(path: Path, six_points: LoadedStudy, name: str) -> None:
    """Whole or not at all, and thrown away with the rest."""
    with StudyFolder(path, six_points) as folder:
        folder.keep(name, "{}")
        with files_of_at_most(10), pytest.raises(FolderError, match="cannot be written"):
            folder.keep(name, "x" * 100)
    assert contents(path)[name] == b"{}\n"
    assert set(contents(path)) == STARTED | {name}
    start(path, six_points, overwrite=True)
    assert set(contents(path)) == STARTED


def keys(six_points: LoadedStudy, folder: Path) -> list[str]:
    """Return the keys of all tasks of a study."""
    with Journal(folder / "any.journal") as journal:
        return [task.key for task in tasks_of(campaign_of(six_points, journal))]


def moved(path: Path, target: Path) -> LoadedStudy:
    """Return a study as it is read from its folder, after that went elsewhere."""
    shutil.move(path, target)
    return load_study(target / "study.resolved.yaml")


@pytest.mark.parametrize("name", one_in(6, sorted(SIMULATED)))
def test_a_folder_can_be_played_again_anywhere(tmp_path: Path, path: Path, name: str) -> None:
    """Of every shipped scenario: what is in the folder alone gives the same scenarios and the same keys."""
    vary = {"horizon": {"choices": ["20 d", "10 d"]}}
    loaded = study(tmp_path, vary=vary, scenario=name, set={"windows": "5 d"}, seed=5)
    start(path, loaded)
    again = moved(path, tmp_path / "elsewhere")
    assert again.digest == loaded.digest
    assert keys(again, tmp_path) == keys(loaded, tmp_path)
    last = list(loaded.points())[-1]
    assert scenario_digest(again.scenario(last)) == scenario_digest(loaded.scenario(last))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"use": "hot-spare", "initialize": "3 min", "patience": "1 h"}, {"use": "full-restart"}),
        ({"use": "narrow", "tensor": 4}, {"use": "ntp"}),
        ({"use": "slurm-requeue"}, {"use": "hot-spare", "initialize": "3 min"}),
    ],
    ids=["leftover", "leftover that a preset replaces", "preset that is replaced"],
)
def test_what_a_scenario_extends_and_reads_goes_along(
    tmp_path: Path, path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """A base of which a choice is replaced, a log, and the graph of a cluster; the sources may be gone."""
    source = tmp_path / "source"
    (source / "files").mkdir(parents=True)
    shutil.copy(sim.shipped("scenarios")["replay"].parent / "logs" / "small-cluster.csv", source / "files" / "log.csv")
    build = sim.load_cluster(sim.find_cluster("small-1k"), ["nodes=64"]).build()
    (source / "files" / "graph.json").write_text(GRAPH_FORMATS["json"](build))
    job = {**report_sample.SMALL["jobs"][0], "parallelism": {"tensor": 8, "pipeline": 2, "data": 7}}
    (source / "base.yaml").write_text(sim.dump({**report_sample.SMALL, "jobs": [job], "recovery": before}))
    top = {
        "extends": "base.yaml",
        "cluster": {"extends": "files/graph.yaml"},
        "recovery": after,
        "failures": [{"use": "replay", "file": "files/log.csv", "time_unit": "h"}],
    }
    (source / "files" / "graph.yaml").write_text(
        sim.dump({"nodes": 64, "gpus_per_node": 8, "fabric": {"use": "graph-file", "file": "graph.json"}})
    )
    (source / "top.yaml").write_text(sim.dump(top))
    loaded = study(source, vary={"spares.hot": {"choices": [0, 2]}}, scenario="top.yaml")
    expected = keys(loaded, tmp_path), [scenario_digest(loaded.scenario(point)) for point in loaded.points()]
    start(path, loaded)
    start(path, loaded, overwrite=True)
    shutil.rmtree(source)
    again = moved(path, tmp_path / "elsewhere")
    assert (keys(again, tmp_path), [scenario_digest(again.scenario(point)) for point in again.points()]) == expected


def test_a_study_that_is_read_from_its_folder_goes_on_there(path: Path, six_points: LoadedStudy) -> None:
    """Every file of it stays as it was to the last byte."""
    finish(path, six_points)
    before = contents(path)
    assert start(path, load_study(path / "study.resolved.yaml")) == ()
    assert contents(path) == before


def test_the_page_names_every_file_and_every_column(path: Path, six_points: LoadedStudy) -> None:
    """Each has a row, and no row names what is not there."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "study-folder.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    named = {word for row in rows for word in re.findall("`([^`]+)`", row)} - {"results", "points"}
    finish(path, six_points)
    metrics = {"plain", "ratio", "rare", "late", "some"}
    columns = set()
    for name in TABLES:
        for column in (path / name).read_text().partition("\n")[0].split(","):
            first, dot, last = column.rpartition(".")
            kind = (
                "<axis>"
                if (first or column) in six_points.study.vary or column in six_points.study.vary
                else "<metric>"
            )
            is_own = column in six_points.study.vary or column in metrics
            columns.add(kind if is_own else f"{kind}{dot}{last}" if dot else column)
    assert named == columns | set(contents(path)) | {"sensitivity.json", "optimize.json"}


# The text of a study: answers first, then the numbers, in a form that suits what was varied.

HEAD = "name: spares\nquestion: How many?\nscenario: quickstart\n"


def content_of(folder: Path, vary: str, results: Callable[[dict[str, Any]], Any], **more: Any) -> dict[str, Any]:
    """Return the document of a study, read back from JSON."""
    path = folder / "study.yaml"
    path.write_text(f"{HEAD}vary: {vary}\n{more.get('rest', '')}", encoding="utf-8")
    loaded = load_study(path)
    table = table_of(loaded.study.vary, results, metrics=loaded.study.metrics)
    for number, changes in more.get("changes", {}).items():
        table = broken(table, number, **changes)
    found: dict[str, Any] = json.loads(render(sweep_document(loaded, table, command="")))
    return found


def words(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines()]


GRID = "{spares.hot: {title: hot spares, choices: [0, 2]}, repair.time: {title: repair time, choices: [6 h, 1 d, 2 d]}}"


def steps(where: dict[str, Any]) -> dict[str, Any]:
    """Return a metric that is best with two spares and the shortest repair."""
    return {"ettr": 0.9 + 0.01 * where["spares.hot"] - 0.01 * where["repair.time"] / 86400 + NOISE}


def test_lines_of_a_table_fit_the_terminal(tmp_path: Path) -> None:
    """With long labels they fold; numbers stay whole."""
    label = "a very long name of a recovery strategy that nobody would want to read in a table at all but may be there"
    vary = f"{{repair.time: {{title: way, path: repair.time, choices: {{{label}: 6 h, b: 2 d}}}}}}"
    content = content_of(
        tmp_path, vary, lambda where: {"ettr": 0.9 + NOISE, "cost": 2e6 + 1e5 * NOISE}, rest="metrics: [ettr, cost]"
    )
    text = format_sweep(content, width=80)
    assert all(len(line) <= 80 for line in text[: text.index("Assumptions")].splitlines())
    assert any("90.0 %" in line for line in text.splitlines())


def test_three_axes_are_a_matrix_for_each_value_of_the_shortest(tmp_path: Path) -> None:
    """All of 48 cells are seen, those that the question is about too."""
    vary = (
        "{spares.hot: {choices: [0, 2]}, repair.time: {choices: [1 h, 2 h, 3 h, 4 h, 5 h, 6 h]}, "
        "jobs.0.step_time: {title: step, choices: [1 s, 2 s, 3 s, 4 s]}}"
    )
    text = format_sweep(
        content_of(tmp_path, vary, lambda where: {"ettr": 0.8 + 0.01 * where["jobs.0.step_time"] + NOISE})
    )
    lines = [line for line in words(text) if line[1:2] == ["h"]]
    assert sum(line.count("84.0") for line in lines) == 12
    assert sum(len(line) - 2 for line in lines) == 48


def test_unfinished_runs_are_counted_in_their_rows(tmp_path: Path) -> None:
    """Of 24 runs 3 were not finished in one cell: 21 of 24 there, and all in the others."""
    content = content_of(
        tmp_path,
        GRID,
        lambda where: {**steps(where), "cost": 2e6 + 0 * NOISE},
        rest="metrics: [ettr, cost]",
        changes={0: {"censored": 3}},
    )
    rows = [line for line in words(format_sweep(content)) if line[-2:-1] == ["of"] and line[-1] == "24"]
    assert sorted(line[-3] for line in rows) == ["21", *["24"] * 5]


def test_a_precision_is_told_with_what_it_took(tmp_path: Path) -> None:
    """The width asked for, in how many cells it was reached, and the replications of each; a miss is marked."""
    changes = {number: {"precise": number > 0} for number in range(6)}
    text = format_sweep(content_of(tmp_path, GRID, steps, rest="precision: {width: 0.1pt}", changes=changes), width=300)
    assert "precision 0.1pt, the half-width of the 95 % interval of ETTR: reached in 5 of 6 cells" in text
    rows = [line for line in words(text) if line[2:3] in (["h"], ["d"])]
    assert [line[-1] for line in rows].count("24") == 5
    assert sum(line[-3:] == ["24:", "too", "few"] for line in rows) == 1
