"""The folder of a study: whom it takes, what it refuses, and that nothing of earlier work is lost or half written."""

from __future__ import annotations

import errno
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import sim
from analysis.results.run import scenario_digest
from analysis.study.load import LoadedStudy, load_study
from analysis.sweep import folder as module
from analysis.sweep.folder import FolderError, StudyFolder
from analysis.sweep.journal import Journal, JournalError
from analysis.sweep.results import has_parquet
from sim.cluster import GRAPH_FORMATS
from tests import small
from tests.unit.test_journal import files_of_at_most
from tests.unit.test_sweep_results import REPLICATIONS, campaign_of, count, fabricated, study, tasks_of

STARTED = {"journal.jsonl", "scenario.resolved.yaml", "study.json", "study.resolved.yaml"}
TABLES = {"results.csv", "points.csv"}
PARQUET = {"results.parquet", "points.parquet"} if has_parquet() else set()


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedStudy:
    """Return a study of six points."""
    return study(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a folder that is not there yet, nor what is around it."""
    return tmp_path / "runs" / "deep" / "one"


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder and below it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def start(path: Path, loaded: LoadedStudy, **options: Any) -> tuple[str, ...]:
    """Open a folder for a study and leave it; return the notes."""
    with StudyFolder(path, loaded, **options) as folder:
        return folder.notes


def finish(path: Path, loaded: LoadedStudy, text: str = "{}") -> list[str]:
    """Put fabricated outcomes into a folder and write the results; return what was written."""
    with StudyFolder(path, loaded) as folder:
        campaign = campaign_of(loaded, folder.journal)
        for task in tasks_of(campaign):
            if task.key not in folder.journal:
                folder.journal.add(fabricated(task))
        return folder.write(text, campaign, count, ("ratio",))


def refused(path: Path, loaded: LoadedStudy, **options: Any) -> str:
    """Return why a folder does not take a study, in one line and without touching anything."""
    before = contents(path)
    with pytest.raises((FolderError, JournalError)) as caught:
        StudyFolder(path, loaded, **options)
    assert contents(path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ who is taken


def test_a_new_folder_says_what_it_holds(path: Path, loaded: LoadedStudy) -> None:
    """A nested path is made; which study it is, of which scenario, is there before anything is played."""
    assert start(path, loaded, shard="3/16") == ()
    assert set(contents(path)) == STARTED
    told = json.loads((path / "study.json").read_text())
    assert {**told, "model": ""} == {"name": "fabricated", "digest": loaded.digest, "model": "", "shard": "3/16"}
    assert (path / "journal.jsonl").read_bytes() == b""


def test_the_same_study_goes_on_with_what_is_there(path: Path, loaded: LoadedStudy) -> None:
    """Also one with other values, metrics, questions or replications: it has other points, not other keys."""
    finish(path, loaded)
    journal = (path / "journal.jsonl").read_bytes()
    changed = {"interval": {"path": "checkpoint.tiers.0.interval", "choices": ["1 h", "2 h"]}}
    for other in (loaded, study(path.parent, vary=changed, metrics=["mtti"], replications=40)):
        with StudyFolder(path, other) as folder:
            assert folder.notes == ()
            assert len(folder.journal) == 12
    assert (path / "journal.jsonl").read_bytes() == journal
    with StudyFolder(
        path, study(path.parent, vary={"interval": {**changed["interval"], "choices": ["1 h"]}})
    ) as folder:
        alone = campaign_of(load_study(path / "study.resolved.yaml"), folder.journal)
        assert [task.key in folder.journal for task in tasks_of(alone)] == [False, False], "spares.hot is another path"


def test_another_study_is_refused(path: Path, loaded: LoadedStudy, tmp_path: Path) -> None:
    """The line says which one is there and what would help, which does help."""
    finish(path, loaded)
    other = study(tmp_path, name="other")
    assert refused(path, other) == ("holds the study 'fabricated', not 'other'; name another folder or add --overwrite")
    assert start(path, other, overwrite=True) == ()
    assert json.loads((path / "study.json").read_text())["name"] == "other"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"run.json": "{}"}, "holds something else than a study (run.json)"),
        ({f"{name}.txt": "" for name in "dcba"}, "holds something else than a study (a.txt, b.txt, c.txt, ...)"),
        ({"journal.jsonl": "{}\n"}, "holds something else than a study (journal.jsonl)"),
        ({"study.json": '{"name": "fab'}, "holds a study.json that nobody can read"),
        ({"study.json": "[1]", "x": ""}, "holds a study.json that nobody can read"),
        ({"study.json": "{}"}, "holds a study.json that nobody can read"),
    ],
)
def test_what_is_no_study_is_refused_unless_told_to_overwrite(
    tmp_path: Path, loaded: LoadedStudy, files: dict[str, str], told: str
) -> None:
    """The line names what is there; a folder that somebody else uses is not taken by mistake."""
    path = tmp_path / "out"
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    assert refused(path, loaded) == f"{told}; name another folder or add --overwrite"
    start(path, loaded, overwrite=True)
    assert set(contents(path)) == STARTED | {name for name in files if name.endswith(".txt") or name == "x"}


def test_a_start_that_was_killed_is_no_study_yet(tmp_path: Path, loaded: LoadedStudy) -> None:
    """An empty folder, one with an empty journal, or one with pieces of files is as good as a new one."""
    path = tmp_path / "out"
    path.mkdir()
    (path / "journal.jsonl").touch()
    (path / ".study.json.unfinished").write_text("{")
    start(path, loaded)
    assert set(contents(path)) == STARTED


@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [("1/4", "1/4", True), ("1/4", "2/4", False), ("1/4", None, True), (None, "1/4", True), ("1/2", "1/4", False)],
)
def test_each_shard_has_a_folder_of_its_own(
    path: Path, loaded: LoadedStudy, first: str | None, second: str | None, is_taken: bool
) -> None:
    """On some file systems two machines could not keep out of each other's way; the whole study goes anywhere."""
    start(path, loaded, shard=first)
    if is_taken:
        start(path, loaded, shard=second)
    else:
        assert refused(path, loaded, shard=second) == f"holds shard {first}; each shard needs a folder of its own"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_in_use_is_refused(path: Path, loaded: LoadedStudy, overwrite: bool) -> None:
    """Nobody writes to it, nor throws anything away, while another program is at work there."""
    finish(path, loaded)
    with StudyFolder(path, loaded):
        assert refused(path, loaded, overwrite=overwrite) == "is in use: another program is writing to it"
    start(path, loaded)


@pytest.mark.parametrize("name", ["other", "fabricated"])
def test_a_study_that_comes_first_keeps_its_folder(
    path: Path, loaded: LoadedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of two that find a folder empty at the same time, the one that is refused, or fails, takes nothing away."""
    second = study(tmp_path, name=name)
    whole = StudyFolder._begin

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def opened_late(journal: Path) -> Journal:
        monkeypatch.setattr(module, "Journal", Journal)
        with monkeypatch.context() as patch:
            patch.setattr(StudyFolder, "_begin", whole)
            finish(path, loaded)
        return Journal(journal)

    monkeypatch.setattr(module, "Journal", opened_late)
    if name == "fabricated":
        monkeypatch.setattr(StudyFolder, "_begin", full_disk)
    told = "holds the study 'fabricated'" if name == "other" else "cannot be written"
    with pytest.raises(FolderError, match=told):
        StudyFolder(path, second)
    monkeypatch.undo()
    with StudyFolder(path, loaded) as folder:
        assert len(folder.journal) == 12


def test_a_file_is_no_folder(tmp_path: Path, loaded: LoadedStudy) -> None:
    """Neither the folder itself nor one around it may be a file."""
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "deep"):
        assert refused(path, loaded) == f"{file} is a file, not a folder"


# ----------------------------------------------------------------------------------------------------- notes


def test_outcomes_that_do_not_count_any_more_are_told(path: Path, loaded: LoadedStudy, tmp_path: Path) -> None:
    """Of another seed, another scenario, or another version: they stay, have other keys, and a note says so."""
    finish(path, loaded)
    told = "the outcomes of another scenario or seed in journal.jsonl are kept, and do not count"
    other = study(tmp_path, seed=7)
    with StudyFolder(path, other) as folder:
        assert folder.notes == (told,)
        assert len(folder.journal) == 12
        assert not any(task.key in folder.journal for task in tasks_of(campaign_of(other, folder.journal)))
    assert start(path, study(tmp_path, scenario="llama3-405b-16k")) == (told,)
    identity = json.loads((path / "study.json").read_text())
    (path / "study.json").write_text(json.dumps({**identity, "model": "old"}))
    (note,) = start(path, study(tmp_path, scenario="llama3-405b-16k"))
    assert note == "the outcomes of another version of the simulator in journal.jsonl are kept, and do not count"


def test_nothing_is_told_of_a_folder_without_outcomes(path: Path, loaded: LoadedStudy, tmp_path: Path) -> None:
    """There is nothing that could fail to count."""
    start(path, loaded)
    assert start(path, study(tmp_path, seed=7)) == ()


def test_lines_of_the_journal_that_cannot_be_read_are_told(path: Path, loaded: LoadedStudy) -> None:
    """By their number; everything else is there."""
    finish(path, loaded)
    for number, lines in ((1, "1 line"), (2, "2 lines")):
        with (path / "journal.jsonl").open("a") as file:
            file.write('{"key":\n')
        with StudyFolder(path, loaded) as folder:
            assert folder.notes == (f"{lines} of journal.jsonl cannot be read: passed over, and simulated again",)
            assert (len(folder.journal), folder.journal.torn) == (12, number)


# ------------------------------------------------------------------------------------------------- overwriting


def test_overwriting_throws_away_what_a_study_left_and_nothing_else(path: Path, loaded: LoadedStudy) -> None:
    """Files of the user's, also those whose names are nearly ours, and folders stay; a piece of a file does not."""
    finish(path, loaded)
    foreign = {"notes.txt", "input-mine.csv", "results.csv.bak", "plots/points.csv", "Run.json"}
    ours = {".run.json.unfinished", "input-0123456789ab.csv"}
    (path / "plots").mkdir()
    for name in foreign | ours:
        (path / name).write_text(name)
    start(path, loaded, overwrite=True)
    assert set(contents(path)) == STARTED | foreign
    with Journal(path / "journal.jsonl") as journal:
        assert len(journal) == 0
    assert all((path / name).read_text() == name for name in foreign)


# ------------------------------------------------------------------------------------------------ a full disk


def test_a_new_folder_that_cannot_be_filled_is_not_there(path: Path, loaded: LoadedStudy) -> None:
    """Nor is what was made around it; the error is a line."""
    around = path.parents[2]
    before = sorted(around.rglob("*"))
    with files_of_at_most(100), pytest.raises(FolderError, match=r"^cannot be written \([^\n]+\)$"):
        StudyFolder(path, loaded)
    assert sorted(around.rglob("*")) == before
    start(path, loaded)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_at_the_start_leaves_what_was_there(
    path: Path, loaded: LoadedStudy, tmp_path: Path, overwrite: bool
) -> None:
    """Also when all of it was to be thrown away: not before there is something to put in its place."""
    finish(path, loaded)
    other = study(tmp_path, seed=3)
    with files_of_at_most(100):
        assert refused(path, other, overwrite=overwrite).startswith("cannot be written (")
    start(path, loaded)


@pytest.mark.parametrize("room", [500, 5_000, 20_000], ids=["summaries", "rows", "nearly all"])
def test_a_full_disk_at_the_end_leaves_what_was_there(path: Path, loaded: LoadedStudy, room: int) -> None:
    """Results of an earlier run, all of them or none, and no pieces; they are written when there is room again."""
    finish(path, loaded, '{"first": 1}')
    before = contents(path)
    with StudyFolder(path, loaded) as folder:
        campaign = campaign_of(loaded, folder.journal)
        with files_of_at_most(room), pytest.raises(FolderError, match=r"^cannot be written \([^\n]+\)$"):
            folder.write("x" * 30_000, campaign, count, ("ratio",))
        assert contents(path) == before
        folder.write('{"second": 2}', campaign, count, ("ratio",))
    assert contents(path) == before | {"run.json": b'{"second": 2}\n'}


# ---------------------------------------------------------------------------------------------------- results


def test_results_are_written_and_named(path: Path, loaded: LoadedStudy) -> None:
    """Both tables, as Parquet too where that is possible, and the document, which comes last."""
    names = finish(path, loaded, '{"answer": 42}')
    assert set(names) == TABLES | PARQUET | {"run.json"}
    assert names[-1] == "run.json"
    assert set(contents(path)) == STARTED | set(names)
    assert (path / "run.json").read_text() == '{"answer": 42}\n'
    assert (path / "results.csv").read_text().count("\n") == 1 + 6 * REPLICATIONS


def test_no_parquet_of_an_earlier_run_stays_beside_new_tables(
    path: Path, loaded: LoadedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra there are the tables alone, and nothing that could be taken for their copy."""
    start(path, loaded)
    for name in ("results.parquet", "points.parquet"):
        (path / name).write_bytes(b"old")
    monkeypatch.setattr(module, "has_parquet", lambda: False)
    assert set(finish(path, loaded)) == TABLES | {"run.json"}
    assert set(contents(path)) == STARTED | TABLES | {"run.json"}


@pytest.mark.parametrize("name", ["sensitivity.json", "optimize.json"])
def test_other_documents_of_a_study_are_kept_beside_its_results(path: Path, loaded: LoadedStudy, name: str) -> None:
    """Whole or not at all, and thrown away with the rest."""
    with StudyFolder(path, loaded) as folder:
        folder.keep(name, "{}")
        with files_of_at_most(10), pytest.raises(FolderError, match="cannot be written"):
            folder.keep(name, "x" * 100)
    assert contents(path)[name] == b"{}\n"
    assert set(contents(path)) == STARTED | {name}
    start(path, loaded, overwrite=True)
    assert set(contents(path)) == STARTED


# --------------------------------------------------------------------------------------- the study as it is


def keys(loaded: LoadedStudy, folder: Path) -> list[str]:
    """Return the keys of all tasks of a study."""
    with Journal(folder / "any.journal") as journal:
        return [task.key for task in tasks_of(campaign_of(loaded, journal))]


def moved(path: Path, target: Path) -> LoadedStudy:
    """Return a study as it is read from its folder, after that went elsewhere."""
    shutil.move(path, target)
    return load_study(target / "study.resolved.yaml")


@pytest.mark.parametrize("name", sorted(sim.shipped("scenarios")))
def test_a_folder_can_be_played_again_anywhere(tmp_path: Path, path: Path, name: str) -> None:
    """Of every shipped scenario: what is in the folder alone gives the same scenarios and the same keys."""
    vary = {"checkpoint.tiers.0.interval": {"choices": ["20 min", "1 h"]}}
    loaded = study(tmp_path, vary=vary, scenario=name, set={"horizon": "20 d"}, seed=5)
    start(path, loaded)
    again = moved(path, tmp_path / "elsewhere")
    assert again.digest == loaded.digest
    assert keys(again, tmp_path) == keys(loaded, tmp_path)
    last = list(loaded.points())[-1]
    assert scenario_digest(again.scenario(last)) == scenario_digest(loaded.scenario(last))


def test_options_are_in_the_study_that_a_folder_keeps(tmp_path: Path, path: Path) -> None:
    """What was set for one run need not be said again."""
    study(tmp_path)
    loaded = load_study(tmp_path / "study.yaml", ("set.horizon=3 d", "seed=9", "replications=5"))
    start(path, loaded)
    again = moved(path, tmp_path / "elsewhere")
    assert (again.study.replications, again.study.seed) == (5, 9)
    assert keys(again, tmp_path) == keys(loaded, tmp_path)
    assert again.scenario(next(again.points())).horizon == 3 * 86400


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
    job = {**small.SMALL["jobs"][0], "parallelism": {"tensor": 8, "pipeline": 2, "data": 7}}
    (source / "base.yaml").write_text(sim.dump({**small.SMALL, "jobs": [job], "recovery": before}))
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


def test_a_study_that_is_read_from_its_folder_goes_on_there(path: Path, loaded: LoadedStudy) -> None:
    """Every file of it stays as it was to the last byte."""
    finish(path, loaded)
    before = contents(path)
    assert start(path, load_study(path / "study.resolved.yaml")) == ()
    assert contents(path) == before


# -------------------------------------------------------------------------------------------------------- the page


def test_the_page_names_every_file_and_every_column(path: Path, loaded: LoadedStudy) -> None:
    """Each has a row, and no row names what is not there."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "study-folder.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    named = {word for row in rows for word in re.findall("`([^`]+)`", row)} - {"results", "points"}
    finish(path, loaded)
    metrics = {"plain", "ratio", "rare", "late", "some"}
    columns = set()
    for name in TABLES:
        for column in (path / name).read_text().partition("\n")[0].split(","):
            first, dot, last = column.rpartition(".")
            kind = "<axis>" if (first or column) in loaded.study.vary or column in loaded.study.vary else "<metric>"
            is_own = column in loaded.study.vary or column in metrics
            columns.add(kind if is_own else f"{kind}{dot}{last}" if dot else column)
    assert named == columns | set(contents(path)) | {"sensitivity.json", "optimize.json"}
