"""The unit of work of a study: what its outcome depends on, what makes none, and that nothing is simulated twice."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ettrick import analysis, sim
from ettrick.analysis.amounts import number_of
from ettrick.analysis.study.load import load_study
from ettrick.analysis.sweep import merge as merging
from ettrick.analysis.sweep import task as module
from ettrick.analysis.sweep.campaign import Campaign, outcome_of
from ettrick.analysis.sweep.folder import StudyFolder
from ettrick.analysis.sweep.journal import Journal, JournalError
from ettrick.analysis.sweep.merge import MergeError, merge
from ettrick.analysis.sweep.sweep import REPLICATIONS, replications_of
from ettrick.analysis.sweep.task import MAKERS, Record, Shard, run_task, source_digest
from ettrick.analysis.sweep.workers import ExecutorOptions, Serial, WorkerPool, worker_pool_at
from ettrick.sim import Ratio, yamlfile
from tests import report_sample
from tests.cases import cases
from tests.pace import one_in, some
from tests.sweep_tools import comparable, small_study, tasks_of
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.analysis.study.table import PointResult

# The journal of a study: whatever happens to the program, the disk or the file, what was written whole is there.

resource = pytest.importorskip("resource", reason="no limits of the size of files on this system")

fcntl = pytest.importorskip("fcntl", reason="no locks of files on this system")


def record(number: int, status: str = "ok", **changes: Any) -> Record:
    """Return an outcome whose every part tells its number."""
    rows: dict[str, list[list[float | None]]] = {"ettr": [[number / 7, None], [1.0, 0.0]]}
    outcome = Record(
        f"{number:032x}", number, 0, 2, status, f"reason {number}", number / 3, rows, {"controls": [None, []]}
    )
    return outcome._replace(**changes)


def written(path: Path, *records: Record) -> bytes:
    """Return a journal with these records as bytes."""
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for one in records:
            journal.add(one)
    return path.read_bytes()


def read(path: Path) -> list[Record]:
    """Return what a journal has."""
    with Journal(path) as journal:
        return list(journal)


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let files grow to a size and no further [bytes]: a write fails, or a part of it, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.dictionaries(st.text(), st.tuples(st.lists(st.none() | NUMBERS), st.lists(NUMBERS)).map(list)),
    reason=st.text(),
    seconds=NUMBERS,
)
def test_an_outcome_comes_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: Any, reason: str, seconds: float
) -> None:
    """Every number, and every text with line breaks of all kinds in it, is read back from the file as it was."""
    path = tmp_path_factory.mktemp("journal") / "journal"
    known = record(1, rows=rows, reason=reason, seconds=seconds)
    with Journal(path) as journal:
        journal.add(known)
        assert repr(journal.get(known.key)) == repr(known)
    assert repr(read(path)) == repr([known])


def test_a_journal_cut_anywhere_loses_one_outcome_at_most_and_goes_on(tmp_path: Path) -> None:
    """Whatever the byte: what was whole before is there, what comes then is too, and nothing else."""
    path = tmp_path / "journal"
    old, new = [record(number) for number in range(2)], record(2)
    whole = written(path, *old)
    ends = [position for position, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        # Without its line break a line is whole too.
        left = old[: sum(end <= cut for end in ends)]
        with Journal(path) as journal:
            assert list(journal) == left
            assert journal.torn == (cut > 0 and cut not in {*ends, *(end + 1 for end in ends)})
            journal.add(new)
            assert list(journal) == [*left, new]
        assert read(path) == [*left, new]


def damaged(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield a JSON document with something else in each of its places, one after the other, and with it gone."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        for other in (None, "7", 7.5, True, [], [None], {}, {"a": 1}):
            changed = copy.deepcopy(content)
            changed[key] = other
            if changed != content:
                yield changed, (*at, key)
        changed = copy.deepcopy(content)
        del changed[key]
        yield changed, (*at, key)
        for inner, place in damaged(value, (*at, key)):
            changed = copy.deepcopy(content)
            changed[key] = inner
            yield changed, place


def test_whatever_is_changed_in_an_outcome_it_is_passed_over_and_counted(tmp_path: Path) -> None:
    """Each line has its checksum, and without one it is none."""
    with Journal(tmp_path / "real") as journal, worker_pool_at(ExecutorOptions("serial")) as worker_pool:
        campaign = Campaign(small_study(tmp_path), journal, worker_pool)
        point = next(iter(campaign.loaded.points()))
        campaign.simulate([point], 2)
    line = (tmp_path / "real").read_bytes()
    content = json.loads(line)
    content["rows"] = dict(list(content["rows"].items())[:2])
    short = Record(**{name: content[name] for name in Record._fields})
    line = written(tmp_path / "short", short)
    assert read(tmp_path / "short") == [short]
    for changed, place in damaged(json.loads(line)):
        (tmp_path / "journal").write_bytes(json.dumps(changed, separators=(",", ":")).encode() + b"\n")
        with Journal(tmp_path / "journal") as journal:
            assert (len(journal), journal.torn) == (0, 1), place


def test_of_several_outcomes_with_a_key_the_last_counts(tmp_path: Path) -> None:
    """What crashed and was simulated again is no longer crashed, then and later."""
    path = tmp_path / "journal"
    again = record(1, point=7)
    with Journal(path) as journal:
        for one in (record(1, "crashed"), record(2), again):
            journal.add(one)
        assert [journal.status(one.key) for one in (again, record(2), record(3))] == ["ok", "ok", None]
        assert (len(journal), again.key in journal, record(3).key in journal) == (2, True, False)
    assert read(path) == [again, record(2)]


@cases("room", [0, 1, 100], ids=["no byte", "one byte", "half a line"])
def test_what_a_full_disk_refuses_leaves_no_trace(tmp_path: Path, room: int) -> None:
    """The error is a line, what was there is there, and what is written once there is room again is too."""
    path = tmp_path / "journal"
    whole = written(path, record(0), record(1))
    with Journal(path) as journal:
        with files_of_at_most(len(whole) + room), pytest.raises(JournalError, match=r"^cannot be written \([^\n]+\)$"):
            journal.add(record(2))
        assert path.read_bytes() == whole
        assert list(journal) == [record(0), record(1)]
        journal.add(record(3))
        assert list(journal) == [record(0), record(1), record(3)]
    assert read(path) == [record(0), record(1), record(3)]


def test_where_there_can_be_no_journal_the_error_is_a_line(tmp_path: Path) -> None:
    """A missing folder, a folder, a pipe that nobody reads, and a file where the folder should be."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for place in ("missing/journal", ".", "pipe", "file/journal"):
        with pytest.raises(JournalError, match=r"^(cannot be written \([^\n]+\)|is [^\n]+)$"):
            Journal(tmp_path / place)


def test_two_programs_never_write_to_one_journal(tmp_path: Path) -> None:
    """The second is refused in a line as long as the first is there; killed, it leaves nothing that is locked."""
    path = tmp_path / "journal"
    program = "import pathlib, sys\nfrom ettrick.analysis.sweep.journal import Journal\n"
    program += "journal = Journal(pathlib.Path(sys.argv[1]))\nprint('open', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert present(other.stdout).readline() == "open\n"
        with pytest.raises(JournalError, match=r"^is in use: another program is writing to it$"):
            Journal(path)
        other.kill()
    with Journal(path) as journal, pytest.raises(JournalError, match="is in use"):
        Journal(journal.path)
    assert read(path) == []


# Shards and merging: each task belongs to one shard, and together they are the study.


def test_a_shard_is_read_as_it_is_written() -> None:
    """The first of sixteen is 1/16; what is no shard is refused with a line that shows one."""
    assert Shard.parse("3/16") == Shard(3, 16)
    assert str(Shard.parse(" 16/16 ")) == "16/16"
    for text in ("", "3", "3/", "/16", "3/16/2", "a/b", "-1/3", "1.5/3", "٣/٣"):
        with pytest.raises(ValueError, match=r"is not a shard; write I/N, such as 3/16 for the third of sixteen$"):
            Shard.parse(text)
    for text in ("0/16", "17/16"):
        with pytest.raises(
            ValueError, match=f"'{text}' is not a shard; of 16 shards the first is 1/16 and the last 16/16$"
        ):
            Shard.parse(text)
    with pytest.raises(ValueError, match=r"the smallest number of shards is 1$"):
        Shard.parse("0/0")


@cases("count", [1, 2, 7])
def test_each_task_belongs_to_exactly_one_shard(count: int, tmp_path: Path) -> None:
    """Of the real keys of a study each has one owner."""
    with Journal(tmp_path / "journal") as journal:
        tasks = tasks_of(Campaign(small_study(tmp_path), journal, WorkerPool(Serial())))
    owners = [[shard for shard in range(1, count + 1) if Shard(shard, count).includes(task.key)] for task in tasks]
    assert [len(found) for found in owners] == [1] * 12
    assert count == 1 or len({shard for (shard,) in owners}) > 1


@pytest.fixture
def simulated(tmp_path: Path) -> list[Path]:
    """Return the folders of three shards of a small study that were simulated."""
    loaded = small_study(tmp_path)
    with Journal(tmp_path / "journal") as journal:
        keys = sorted(task.key for task in tasks_of(Campaign(loaded, journal, WorkerPool(Serial()))))
    folders = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]
    for number, path in enumerate(folders, 1):
        # Keys depend on the version of the code: by their hashes, one in fifty versions leaves a shard of three empty.
        assigned = keys[number - 1 :: 3]
        with StudyFolder(path, loaded, shard=str(Shard(number, 3))) as folder:
            campaign = Campaign(loaded, folder.journal, WorkerPool(Serial()), is_assigned=assigned.__contains__)
            campaign.simulate(list(loaded.points()), 12)
    return folders


def records(folder: Path) -> list[Record]:
    """Return the outcomes of a folder, in order of keys and without times."""
    with Journal(folder / "journal.jsonl") as journal:
        return sorted(map(comparable, journal))


def test_merged_shards_are_the_study(simulated: list[Path], tmp_path: Path) -> None:
    """The merged folder has the outcomes of a study simulated at once, and a sweep there finds nothing to simulate."""
    out = tmp_path / "all"
    found = merge(simulated, out)
    assert (found.folders, found.statuses, found.tasks, found.missing, found.shards) == (3, {"ok": 12}, 12, 0, ((), 3))
    assert found.lines() == ["12 outcomes from 3 folders: 12 ok"]
    loaded = small_study(tmp_path)
    with StudyFolder(out, loaded) as folder:
        assert not folder.notes
        campaign = Campaign(loaded, folder.journal, WorkerPool(Serial()), lambda done, total: pytest.fail("simulated"))
        campaign.simulate(list(loaded.points()), 12)
    with StudyFolder(tmp_path / "whole", loaded) as folder:
        Campaign(loaded, folder.journal, WorkerPool(Serial())).simulate(list(loaded.points()), 12)
    assert records(out) == records(tmp_path / "whole")
    assert json.loads((out / "study.json").read_bytes())["shard"] is None
    assert (out / "study.resolved.yaml").read_bytes() == (simulated[0] / "study.resolved.yaml").read_bytes()


def test_what_is_missing_is_told(simulated: list[Path], tmp_path: Path) -> None:
    """A missing shard and tasks without an outcome are named; merging the rest later completes it."""
    out = tmp_path / "all"
    own = len(records(simulated[1]))
    found = merge([simulated[0], simulated[2]], out)
    assert (found.missing, found.shards) == (own, ((2,), 3))
    assert found.lines()[1:] == [
        "not among the folders: 1 shard of 3: 2",
        f"without a result: {number_of(own, 'task')} of 12; sweep simulates them",
    ]
    later = merge([simulated[1]], out)
    assert (later.statuses, later.missing) == ({"ok": 12}, 0)
    assert merge([*simulated, out], out).statuses == {"ok": 12}


def change(folder: Path, **fields: Any) -> None:
    """Replace something in the first outcome of a folder."""
    with Journal(folder / "journal.jsonl") as journal:
        first, *others = journal
        journal.clear()
        for record in (first._replace(**fields), *others):
            journal.add(record)


def test_the_better_of_two_outcomes_counts(simulated: list[Path], tmp_path: Path) -> None:
    """What crashed or failed in one folder and is there in another is not lost, whichever is named first."""
    again = shutil.copytree(simulated[0], tmp_path / "again")
    change(again, status="crashed", reason="its process died 3 times (signal 9)", rows={}, notes={})
    for number, order in enumerate(([again, *simulated], [*simulated, again])):
        assert merge(order, tmp_path / f"all-{number}").statuses == {"ok": 12}
    alone = merge([again, *simulated[1:]], tmp_path / "alone")
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


def test_contradictions_are_refused(simulated: list[Path], tmp_path: Path) -> None:
    """Two ok outcomes of a task that differ are refused; another time spent is no difference."""
    again = shutil.copytree(simulated[0], tmp_path / "again")
    change(again, seconds=123.0)
    assert merge([*simulated, again], tmp_path / "all").statuses == {"ok": 12}
    change(again, rows={"ettr": [[0.5], [1.0]]})
    for out in (tmp_path / "new", tmp_path / "all"):
        line = refused([*simulated, again], out)
        assert line.startswith(f"{again}: contradicts another folder about replications ")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("name", "other", "it holds 'other', not 'small'"),
        ("digest", "0" * 64, "it has another scenario or seed"),
        ("model", "0" * 32, "it was simulated by another version of the simulator"),
    ],
)
def test_another_study_is_refused(key: str, value: str, told: str, simulated: list[Path], tmp_path: Path) -> None:
    """A folder of another study, scenario or version is named, both as one to merge and as the one to merge into."""
    other = shutil.copytree(simulated[1], tmp_path / "other")
    identity = json.loads((other / "study.json").read_bytes()) | {key: value}
    (other / "study.json").write_text(json.dumps(identity))
    assert refused([*simulated, other], tmp_path / "all") == f"{other}: not the same study as {simulated[0]}: {told}"
    (other / "study.json").write_text(json.dumps(identity | {"shard": None}))
    assert refused(simulated, other) == f"{other}: is not for this study: {told}; choose another folder"


def test_folders_that_cannot_be_merged_are_refused(simulated: list[Path], tmp_path: Path) -> None:
    """No folder, no study in it, another resolved study, a journal in use, a place with something else: a line each."""
    out, empty, file = tmp_path / "all", tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.touch()
    assert refused([], out) == "name the folders to merge"
    assert refused([*simulated, tmp_path / "none"], out) == f"{tmp_path / 'none'}: no such folder"
    assert refused([*simulated, empty], out) == f"{empty}: is not a study folder (no study.json)"
    (empty / "study.json").write_text("[1]")
    assert refused([*simulated, empty], out) == f"{empty}: study.json does not say which study it holds"
    assert refused(simulated, file) == f"{file}: {file} is a file, not a folder"
    assert refused(simulated, tmp_path) == f"{tmp_path}: contains something else than a study; choose another folder"
    assert refused(simulated[1:], simulated[0]) == f"{simulated[0]}: contains shard 1/3; choose another folder"
    with Journal(simulated[1] / "journal.jsonl"):
        assert refused(simulated, out).startswith(f"{simulated[1] / 'journal.jsonl'}: is in use")
    (simulated[2] / "study.resolved.yaml").write_text("name: small\n")
    line = f"{simulated[2]}: not the same study as {simulated[0]}: its study.resolved.yaml is another one"
    assert refused(simulated, out) == line
    (simulated[2] / "study.resolved.yaml").unlink()
    assert refused(simulated, out).startswith(f"{simulated[2] / 'study.resolved.yaml'}: cannot be read (")


def test_a_full_disk_leaves_the_merged_folder_as_it_was(
    simulated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an outcome cannot be written, a line says so, and what was merged before is still there."""
    out = tmp_path / "all"
    merge(simulated[:1], out)
    before = records(out)

    def full(journal: Journal, record: Record) -> None:
        message = "cannot be written (No space left on device)"
        raise merging.JournalError(message)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", full)
        assert refused(simulated, out) == f"{out}: cannot be written (No space left on device)"
        assert (
            refused(simulated, tmp_path / "new") == f"{tmp_path / 'new'}: cannot be written (No space left on device)"
        )
    assert not (tmp_path / "new").exists()
    assert records(out) == before


# ``ettrick sweep`` stopped by ``kill -9``, Ctrl-C or a full disk: run again, it ends as if that had never been.

DONE, WRONG, INTERRUPTED, TERMINATED = 0, 2, 130, 143

TASKS = 12

PATIENCE = 60.0

"""Of a test with a program that does not do what is expected of it [s]."""

TABLES = ("results.csv", "points.csv")


class Sweep:
    """A study whose tasks take some hundredths of a second each, and folders to run it in.

    Parameters
    ----------
    folder
        Where everything lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "small.yaml").write_text(report_sample.YAML)
        vary = {
            "checkpoint.tiers.0.interval": {"choices": ["10 min", "20 min", "1 h"]},
            "spares.hot": {"choices": [0, 2]},
        }
        data = {
            "name": "halves",
            "scenario": "small.yaml",
            "vary": vary,
            "set": {"horizon": "30 d"},
            "replications": 20,
        }
        self.study = folder / "halves.yaml"
        self.study.write_text(yamlfile.dump(data))
        self.out = folder / "out"

    @property
    def lines(self) -> list[bytes]:
        """What is in the journal, by line."""
        journal = self.out / "journal.jsonl"
        return journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []

    @property
    def simulated(self) -> Counter[str]:
        """How often each task was simulated to its end."""
        keys = []
        for line in self.lines:
            try:
                keys.append(json.loads(line)["key"])
            except ValueError:
                continue
        return Counter(keys)

    def arguments(self, *options: str, out: Path | None = None) -> list[str]:
        """Return the command without its first word."""
        return ["sweep", str(self.study), "--out", str(out or self.out), "--quiet", *options]

    def finished(self, *options: str, out: Path | None = None) -> dict[str, bytes]:
        """Run the command to its end, here; return the tables that it wrote."""
        result = report_sample.call(*self.arguments("--executor", "serial", *options, out=out))
        assert result.exit_code == DONE, result.output
        return tables(out or self.out)

    @contextlib.contextmanager
    def started(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """Run the command as a program of its own, in a group of its own, of which nothing is left afterwards."""
        code = f"import sys; sys.argv[1:] = {self.arguments(*options)!r}; from ettrick.cli import app; app()"
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as program:
            try:
                yield program
            finally:
                if program.poll() is None:  # a stopped one would never end by itself
                    program.kill()


def tables(folder: Path) -> dict[str, bytes]:
    """Return the tables of a folder, Parquet among them if it is there."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".csv", ".parquet")}
    assert set(TABLES) <= set(found)
    return found


def wait_for(is_so: Callable[[], bool]) -> None:
    """Return when something is so."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the tables of the study, run without interruption."""
    sweep = Sweep(tmp_path_factory.mktemp("reference"))
    found = sweep.finished()
    assert sweep.simulated.total() == TASKS
    return found


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    """Return the study in a folder of its own."""
    return Sweep(tmp_path)


def test_killed_at_any_moment_it_goes_on_where_it_was(sweep: Sweep, reference: dict[str, bytes]) -> None:
    """After `kill -9` no task of the journal is simulated again, and the tables are those of an undisturbed run."""
    rng = random.Random(8)
    for goal in some(2, (rng.randint(1, 3), rng.randint(5, 7))):
        with sweep.started("--executor", "serial") as program:
            wait_for(lambda goal=goal: len(sweep.lines) >= goal or program.poll() is not None)  # type: ignore[misc]
            time.sleep(0.02 * rng.random())
            program.kill()
        assert program.returncode == -signal.SIGKILL
        before = sweep.simulated
        assert goal <= before.total() < TASKS
    assert sweep.finished() == reference
    assert set(sweep.simulated.values()) == {1}
    assert sweep.simulated.total() == TASKS
    again = sweep.lines
    assert sweep.finished() == reference
    assert sweep.lines == again, "nothing was left to do"


def test_ctrl_c_says_what_is_kept_and_it_goes_on(sweep: Sweep, reference: dict[str, bytes]) -> None:
    """Status 130, and what was simulated is kept; before that no other program may run there, afterwards any."""
    with sweep.started("--executor", "serial") as program:
        wait_for(lambda: len(sweep.lines) >= 3 or program.poll() is not None)
        program.send_signal(signal.SIGSTOP)
        second = report_sample.call(*sweep.arguments("--executor", "serial"))
        assert (second.exit_code, second.stdout) == (WRONG, "")
        assert second.stderr == f"--out {sweep.out}: is in use: another program is writing to it\n"
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGCONT)
        out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out) == (INTERRUPTED, "")
    kept = sweep.simulated.total()
    assert err == f"stopped: {kept} of {TASKS} tasks are kept in {sweep.out}; the same command goes on from here\n"
    assert 3 <= sweep.simulated.total() < TASKS
    assert not [path for path in sweep.out.iterdir() if path.name.startswith(".")]
    assert sweep.finished() == reference
    assert set(sweep.simulated.values()) == {1}


@pytest.mark.parametrize(("signal_", "status"), one_in(2, [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)]))
def test_a_terminal_and_a_cluster_stop_the_whole_group_and_it_ends_tidily(
    sweep: Sweep, signal_: signal.Signals, status: int
) -> None:
    """Ctrl-C: 130, the end of a job: 143; one line says what is kept, and no semaphore is left behind."""
    with sweep.started("--executor", "process", "--jobs", "2") as program:
        wait_for(lambda: len(sweep.lines) >= 2 or program.poll() is not None)
        os.killpg(program.pid, signal_)
        out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out) == (status, "")
    kept = len(sweep.lines)
    assert err == f"stopped: {kept} of {TASKS} tasks are kept in {sweep.out}; the same command goes on from here\n"
    assert 2 <= kept < TASKS


PACKAGE = Path(analysis.__file__).parent

SIMULATOR = Path(sim.__file__).parent


def imported(name: str) -> Iterator[str]:
    """Yield the files of the package that one of its files imports when it is loaded."""
    for statement in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
        modules: list[str] = []
        if isinstance(statement, ast.ImportFrom):
            of = statement.module or ""
            modules = [of, *(f"{of}.{alias.name}" for alias in statement.names)]
        elif isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        for found in modules:
            file = Path(*found.split(".")[2:]).with_suffix(".py") if found.startswith("ettrick.analysis.") else None
            if file is not None and (PACKAGE / file).is_file():
                yield file.as_posix()


def test_the_digest_is_of_every_file_that_makes_a_record() -> None:
    """Of the package: the file of tasks, and all that it imports, directly or not."""
    found, waiting = set[str](), ["sweep/task.py"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(name)
    assert set(MAKERS) == found
    assert {"metrics.py", "statistics/differences.py"} <= found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return copies of the sources of the simulator and of the package."""
    folder = tmp_path_factory.mktemp("sources")
    for source in (SIMULATOR, PACKAGE):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    return folder / SIMULATOR.name, folder / PACKAGE.name


def test_a_changed_byte_of_what_makes_a_record_is_another_version(
    sources: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that have nothing to do with records do not matter, and neither does where all of them lie."""
    simulator, package = sources
    known = {source_digest(SIMULATOR, PACKAGE)}
    assert source_digest(simulator, package) in known
    for path in [*(package / name for name in MAKERS), simulator / "run.py", simulator / "formulas" / "goodput.py"]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b" ")
        known.add(source_digest(simulator, package))
        path.write_bytes(content)
    assert len(known) == 1 + len(MAKERS) + 2
    (package / "plots.py").write_text("")
    (package / "sweep" / "journal.py").write_text("")
    (simulator / "notes.txt").write_text("nothing")
    assert source_digest(simulator, package) == source_digest(SIMULATOR, PACKAGE)
    monkeypatch.setattr(module.metadata, "version", lambda name: f"other {name}")
    assert source_digest(simulator, package) not in known


def test_the_version_of_numpy_is_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may sum in another order."""
    before, version = source_digest(SIMULATOR, PACKAGE), module.metadata.version
    monkeypatch.setattr(module.metadata, "version", lambda name: "0.1" if name == "numpy" else version(name))
    assert source_digest(SIMULATOR, PACKAGE) != before


@pytest.mark.parametrize(
    ("ratio", "controls", "told"),
    [
        (Ratio(1.0, math.inf), None, "the base of ettr of replication 0 is inf"),
        (Ratio(1.0, math.nan), None, "the base of ettr of replication 0 is nan"),
        (Ratio(math.nan, 1.0), None, "ettr of replication 0 is nan"),
        (Ratio(-math.inf, 1.0), None, "ettr of replication 0 is -inf"),
        (Ratio(1.0, 1.0), (0.0, math.inf, 0.0), "controls of replication 0 is inf"),
    ],
)
def test_numbers_that_are_none_are_a_failure_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: Ratio, controls: Any, told: str
) -> None:
    """They end neither the study nor become a number of the journal."""
    monkeypatch.setattr(module.ReplicationMetrics, "metrics", lambda _: {"ettr": ratio})
    monkeypatch.setattr(module.ControlVariates, "rows", lambda _self, _result: [controls])
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(small_study(tmp_path), journal, WorkerPool(Serial()))
        record = run_task(campaign.context, tasks_of(campaign)[0])
        journal.add(record)
        assert record.status == "failed"
        assert told in record.reason
        assert record.rows == {}


def test_an_infinite_amount_is_what_was_censored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is null in the journal, and infinite again when it is read."""
    monkeypatch.setattr(module.ReplicationMetrics, "metrics", lambda _: {"time_to_work": Ratio(math.inf, 1)})
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(small_study(tmp_path), journal, WorkerPool(Serial()))
        point = next(campaign.loaded.points())
        campaign.simulate([point], 2)
        assert campaign.outcome(point, 2).metrics["time_to_work"] == [Ratio(math.inf, 1.0)] * 2


def test_more_work_than_a_study_may_have_is_refused_before_it_begins(tmp_path: Path) -> None:
    """All replications of all points count, those that are there already do not, and what was asked for before does."""
    loaded = small_study(tmp_path)
    points = list(loaded.points())
    one = sim.examine(loaded.template.scenario(loaded.overrides(points[0]))).expected_events
    with Journal(tmp_path / "journal") as journal:
        for most, fits in ((0.99 * 72 * one, False), (1.01 * 72 * one, True), (0.0, True)):
            campaign = Campaign(replace(loaded, most_events=most), journal, WorkerPool(Serial()))
            with contextlib.nullcontext() if fits else pytest.raises(sim.WorkError):
                campaign.simulate(points, 12)
            assert len(journal) == (12 if fits else 0)
        campaign = Campaign(replace(loaded, most_events=1.5 * 12 * one), journal, WorkerPool(Serial()))
        campaign.simulate(points[:1], 24)
        with pytest.raises(sim.WorkError):
            campaign.simulate(points[:1], 36)


class FakePool:
    """A pool that says what came of every task without a simulation."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.simulated: list[str] = []

    def run(self, tasks: Any, _context: Any) -> Iterator[Record]:
        """Yield a record for each task."""
        for task in tasks:
            self.simulated.append(task.key)
            yield Record(task.key, task.point, task.first, task.replications, self.status, "", 0.0, {}, {})


@cases("status", ["ok", "infeasible", "failed", "crashed"])
def test_points_with_the_same_scenario_are_played_once_and_count_once(tmp_path: Path, status: str) -> None:
    """Progress reaches its total, whatever came of them; what went wrong is tried once in a run."""
    path = tmp_path / "study.yaml"
    twins = {"a": {"spares.hot": 1}, "b": {"spares.hot": 1}, "c": {"spares.hot": 2}}
    path.write_text(
        json.dumps(
            {"name": "twins", "scenario": "quickstart", "vary": {"kind": {"choices": twins}}, "replications": 12}
        )
    )
    loaded, pool = load_study(path), FakePool(status)
    seen: list[tuple[int, int | None]] = []
    with Journal(tmp_path / "journal") as journal:
        campaign = Campaign(loaded, journal, pool, lambda done, total: seen.append((done, total)))  # type: ignore[arg-type]
        points = list(loaded.points())
        assert len(points) == 3
        campaign.simulate(points, 12)
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert len(set(pool.simulated)) == len(pool.simulated) == 4
        seen.clear()
        campaign.simulate(points, 12)
        assert seen == ([] if status in ("ok", "infeasible") else [(1, 4), (2, 4), (3, 4), (4, 4)])


def test_the_number_of_replications_is_the_same_for_all_who_ask(tmp_path: Path) -> None:
    """As the study says; with a precision as many as are simulated before its decisions; 16 if it says nothing."""
    path = tmp_path / "study.yaml"
    base = {"name": "count", "scenario": "quickstart", "vary": {"spares.hot": {"choices": [1]}}}
    for changes, count in (
        ({}, REPLICATIONS),
        ({"replications": 5}, 5),
        ({"precision": {"width": "1pt", "least": 40}}, 40),
    ):
        path.write_text(json.dumps({**base, **changes}))
        assert replications_of(load_study(path).study) == count


def outcome(count: int) -> PointResult:
    """Return what 16 replications with five metrics come to."""
    point: Any = None
    numbers = [0.1 + index / 7 for index in range(count)]
    rows: dict[str, list[list[float | None]]] = {
        f"metric {name}": [[number + name for number in numbers], [number * 3 for number in numbers]]
        for name in range(5)
    }
    noise: Sequence[Any] = [[number, number / 2, number / 3] for number in numbers]
    notes = {"controls": noise, "censored": [0] * count, "never_started": [0] * count}
    return outcome_of(point, [Record("", 0, 0, count, "ok", "", 0.0, rows, notes)])


def test_one_replication_without_noise_leaves_all_without() -> None:
    """What is not known of every one is not known."""
    point: Any = None
    notes = {"controls": [[1.0, 2.0], None], "censored": [0] * 2, "never_started": [0] * 2}
    assert outcome_of(point, [Record("", 0, 0, 2, "ok", "", 0.0, {}, notes)]).controls == ()
