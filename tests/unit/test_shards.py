"""Shards and merging: each task belongs to one shard, and together they are the study."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from analysis.amounts import number_of
from analysis.sweep import merge as merging
from analysis.sweep.campaign import Campaign
from analysis.sweep.folder import StudyFolder
from analysis.sweep.journal import Journal
from analysis.sweep.merge import MergeError, merge
from analysis.sweep.task import Shard
from analysis.sweep.workers import Crew, Serial
from tests.cases import cases
from tests.sweep_tools import comparable, small_study, tasks_of

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.sweep.task import Record


def test_a_shard_is_read_as_it_is_written() -> None:
    """The first of sixteen is 1/16; what is no shard is refused with a line that shows one."""
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard.parse(" 16/16 ")) == "16/16"
    for text in ("", "3", "3/", "/16", "3/16/2", "a/b", "-1/3", "1.5/3", "٣/٣"):
        with pytest.raises(ValueError, match=r"is no shard: write I/N, such as 3/16 for the third of sixteen$"):
            Shard.parse(text)
    for text in ("0/16", "17/16"):
        with pytest.raises(
            ValueError, match=f"'{text}' is no shard: of 16 shards the first is 1/16 and the last 16/16$"
        ):
            Shard.parse(text)
    with pytest.raises(ValueError, match=r"there is at least one, 1/1$"):
        Shard.parse("0/0")


@cases("count", [1, 2, 7])
def test_each_task_belongs_to_exactly_one_shard(count: int, tmp_path: Path) -> None:
    """Of the real keys of a study each has one owner."""
    with Journal(tmp_path / "journal") as journal:
        tasks = tasks_of(Campaign(small_study(tmp_path), journal, Crew(Serial())))
    owners = [[shard for shard in range(1, count + 1) if Shard(shard, count).mine(task.key)] for task in tasks]
    assert [len(found) for found in owners] == [1] * 12
    assert count == 1 or len({shard for (shard,) in owners}) > 1


@pytest.fixture
def played(tmp_path: Path) -> list[Path]:
    """Return the folders of three shards of a small study that were played."""
    loaded = small_study(tmp_path)
    folders = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]
    for number, path in enumerate(folders, 1):
        shard = Shard(number, 3)
        with StudyFolder(path, loaded, shard=str(shard)) as folder:
            campaign = Campaign(loaded, folder.journal, Crew(Serial()), mine=shard.mine)
            campaign.play(list(loaded.points()), 12)
    return folders


def records(folder: Path) -> list[Record]:
    """Return the outcomes of a folder, in order of keys and without times."""
    with Journal(folder / "journal.jsonl") as journal:
        return sorted(map(comparable, journal))


def test_merged_shards_are_the_study(played: list[Path], tmp_path: Path) -> None:
    """The merged folder has the outcomes of a study played at once, and a sweep there finds nothing to play."""
    out = tmp_path / "all"
    found = merge(played, out)
    assert (found.folders, found.statuses, found.tasks, found.missing, found.shards) == (3, {"ok": 12}, 12, 0, ((), 3))
    assert found.lines() == ["12 outcomes from 3 folders: 12 ok"]
    loaded = small_study(tmp_path)
    with StudyFolder(out, loaded) as folder:
        assert not folder.notes
        campaign = Campaign(loaded, folder.journal, Crew(Serial()), lambda done, total: pytest.fail("played"))
        campaign.play(list(loaded.points()), 12)
    with StudyFolder(tmp_path / "whole", loaded) as folder:
        Campaign(loaded, folder.journal, Crew(Serial())).play(list(loaded.points()), 12)
    assert records(out) == records(tmp_path / "whole")
    assert json.loads((out / "study.json").read_bytes())["shard"] is None
    assert (out / "study.resolved.yaml").read_bytes() == (played[0] / "study.resolved.yaml").read_bytes()


def test_shards_that_nobody_may_write_to_are_merged(
    played: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders of others are read, and nothing in them is opened for anything else."""
    opened = type(tmp_path).open

    def guarded(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if self.parent in played and mode not in ("r", "rb"):
            raise PermissionError(13, "Permission denied")
        return opened(self, mode, *rest, **more)

    monkeypatch.setattr(type(tmp_path), "open", guarded)
    assert merge(played, tmp_path / "all").statuses == {"ok": 12}


def test_what_is_missing_is_told(played: list[Path], tmp_path: Path) -> None:
    """A shard that is not there, and tasks that nobody has played, are named; merging the rest later completes it."""
    out = tmp_path / "all"
    own = len(records(played[1]))
    found = merge([played[0], played[2]], out)
    assert (found.missing, found.shards) == (own, ((2,), 3))
    assert found.lines()[1:] == [
        "not among the folders: 1 shard of 3: 2",
        f"without a result: {number_of(own, 'task')} of 12; sweep plays them",
    ]
    later = merge([played[1]], out)
    assert (later.statuses, later.missing) == ({"ok": 12}, 0)
    assert merge([*played, out], out).statuses == {"ok": 12}


def change(folder: Path, **fields: Any) -> None:
    """Replace something in the first outcome of a folder."""
    with Journal(folder / "journal.jsonl") as journal:
        first, *others = journal
        journal.clear()
        for record in (first._replace(**fields), *others):
            journal.add(record)


def test_the_better_of_two_outcomes_counts(played: list[Path], tmp_path: Path) -> None:
    """What crashed or failed in one folder and is there in another is not lost, whichever is named first."""
    again = shutil.copytree(played[0], tmp_path / "again")
    change(again, status="crashed", reason="its process died 3 times (signal 9)", rows={}, notes={})
    for number, order in enumerate(([again, *played], [*played, again])):
        assert merge(order, tmp_path / f"all-{number}").statuses == {"ok": 12}
    alone = merge([again, *played[1:]], tmp_path / "alone")
    assert (alone.statuses, alone.missing) == ({"ok": 11, "crashed": 1}, 1)
    assert alone.lines()[0] == "12 outcomes from 3 folders: 11 ok, 1 crashed"


def contents(folder: Path) -> dict[Path, bytes]:
    """Return all files of a folder, and whether it is there."""
    return {
        path: path.read_bytes() if path.is_file() else b"" for path in (folder, *folder.rglob("*")) if path.exists()
    }


def refused(folders: list[Path], out: Path) -> str:
    """Return the line with which folders are not merged, after a check that nothing was written."""
    before = contents(out)
    with pytest.raises(MergeError) as raised:
        merge(folders, out)
    assert contents(out) == before
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_lines_that_cannot_be_read_are_counted(played: list[Path], tmp_path: Path) -> None:
    """A damaged outcome is passed over, said, and left to sweep."""
    path = played[0] / "journal.jsonl"
    path.write_text(path.read_text().replace('"seconds":', '"seconds":1', 1))
    lines = merge(played, tmp_path / "all").lines()
    assert "passed over: 1 line of journals that cannot be read" in lines
    assert "without a result: 1 task of 12; sweep plays them" in lines


def test_contradictions_are_refused(played: list[Path], tmp_path: Path) -> None:
    """Two ok outcomes of a task that differ are refused; another time spent is no difference."""
    again = shutil.copytree(played[0], tmp_path / "again")
    change(again, seconds=123.0)
    assert merge([*played, again], tmp_path / "all").statuses == {"ok": 12}
    change(again, rows={"ettr": [[0.5], [1.0]]})
    for out in (tmp_path / "new", tmp_path / "all"):
        line = refused([*played, again], out)
        assert line.startswith(f"{again}: contradicts another folder about replications ")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("name", "other", "it holds 'other', not 'small'"),
        ("digest", "0" * 64, "it has another scenario or seed"),
        ("model", "0" * 32, "it was played by another version of the simulator"),
    ],
)
def test_another_study_is_refused(key: str, value: str, told: str, played: list[Path], tmp_path: Path) -> None:
    """A folder of another study, scenario or version is named, both as one to merge and as the one to merge into."""
    other = shutil.copytree(played[1], tmp_path / "other")
    identity = json.loads((other / "study.json").read_bytes()) | {key: value}
    (other / "study.json").write_text(json.dumps(identity))
    assert refused([*played, other], tmp_path / "all") == f"{other}: not the same study as {played[0]}: {told}"
    (other / "study.json").write_text(json.dumps(identity | {"shard": None}))
    assert refused(played, other) == f"{other}: is not for this study: {told}; name another folder"


def test_folders_that_cannot_be_merged_are_refused(played: list[Path], tmp_path: Path) -> None:
    """No folder, no study in it, another resolved study, a journal in use, a place with something else: a line each."""
    out, empty, file = tmp_path / "all", tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.touch()
    assert refused([], out) == "name the folders to merge"
    assert refused([*played, tmp_path / "none"], out) == f"{tmp_path / 'none'}: no such folder"
    assert refused([*played, empty], out) == f"{empty}: no study.json in it"
    (empty / "study.json").write_text("[1]")
    assert refused([*played, empty], out) == f"{empty}: study.json does not say which study it holds"
    assert refused(played, file) == f"{file}: {file} is a file, not a folder"
    assert refused(played, tmp_path) == f"{tmp_path}: holds something else than a study; name another folder"
    assert refused(played[1:], played[0]) == f"{played[0]}: holds shard 1/3; name another folder"
    with Journal(played[1] / "journal.jsonl"):
        assert refused(played, out).startswith(f"{played[1] / 'journal.jsonl'}: is in use")
    (played[2] / "study.resolved.yaml").write_text("name: small\n")
    line = f"{played[2]}: not the same study as {played[0]}: its study.resolved.yaml is another one"
    assert refused(played, out) == line
    (played[2] / "study.resolved.yaml").unlink()
    assert refused(played, out).startswith(f"{played[2] / 'study.resolved.yaml'}: cannot be read (")


def test_a_full_disk_leaves_the_merged_folder_as_it_was(
    played: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an outcome cannot be written, a line says so, and what was merged before is still there."""
    out = tmp_path / "all"
    merge(played[:1], out)
    before = records(out)

    def full(journal: Journal, record: Record) -> None:
        message = "cannot be written (No space left on device)"
        raise merging.JournalError(message)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", full)
        assert refused(played, out) == f"{out}: cannot be written (No space left on device)"
        assert refused(played, tmp_path / "new") == f"{tmp_path / 'new'}: cannot be written (No space left on device)"
    assert not (tmp_path / "new").exists()
    assert records(out) == before
