"""The journal of a study: whatever happens to the program, the disk or the file, what was written whole is there."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sweep.campaign import Campaign, outcome_of
from analysis.sweep.journal import Journal, JournalError
from analysis.sweep.task import Record
from analysis.sweep.workers import Where, crew_at
from tests.cases import cases
from tests.sweep_tools import small_study

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

resource = pytest.importorskip("resource", reason="no limits of the size of files on this system")
fcntl = pytest.importorskip("fcntl", reason="no locks of files on this system")


def record(number: int, status: str = "ok", **changes: Any) -> Record:
    """Return an outcome whose every part tells its number."""
    rows: dict[str, list[list[float | None]]] = {"ettr": [[number / 7, None], [1.0, 0.0]]}
    outcome = Record(f"{number:032x}", number, 0, 2, status, f"reason {number}", number / 3, rows, {"luck": [None, []]})
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


@cases(
    "rubbish",
    [
        b"{",
        b"[1, 2]",
        b"7",
        b"null",
        b'{"key": "1", "status": "ok"}',
        b"\0" * 500,
        b"\xff\xfe\x80",
        b"[" * 100_000,
        b"glued",
    ],
    ids=["piece", "list", "number", "null", "other", "zeros", "no text", "deep", "glued"],
)
def test_a_line_that_is_no_outcome_is_passed_over_and_counted(tmp_path: Path, rubbish: bytes) -> None:
    """Outcomes before and after it are there; of two that are glued together the second is lost with the first."""
    path = tmp_path / "journal"
    first, second, third = (written(path, record(number)) for number in range(3))
    middle = first[:40] + second if rubbish == b"glued" else rubbish + b"\n"
    path.write_bytes(first + middle + third)
    with Journal(path) as journal:
        assert list(journal) == [record(0), record(2)]
        assert journal.torn == 1


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
    """Each line has its checksum; of earlier lines, without one, whatever is read can also be summarised."""
    with Journal(tmp_path / "real") as journal, crew_at(Where("serial")) as crew:
        campaign = Campaign(small_study(tmp_path), journal, crew)
        point = next(iter(campaign.loaded.points()))
        campaign.play([point], 2)
    line = (tmp_path / "real").read_bytes()
    content = json.loads(line)
    content["rows"] = dict(list(content["rows"].items())[:2])
    short = Record(**{name: content[name] for name in Record._fields})
    line = written(tmp_path / "short", short)
    assert read(tmp_path / "short") == [short]
    sound = json.loads(line)
    passed = 0
    for is_old in (False, True):
        plain = {key: value for key, value in sound.items() if not (is_old and key == "crc32")}
        if is_old:
            (tmp_path / "journal").write_text(json.dumps(plain))
            assert read(tmp_path / "journal") == [short], "an old journal still counts"
        for changed, place in damaged(plain):
            if is_old or place != ("crc32",):
                (tmp_path / "journal").write_bytes(json.dumps(changed, separators=(",", ":")).encode() + b"\n")
                with Journal(tmp_path / "journal") as journal:
                    assert len(journal) + journal.torn == 1
                    assert is_old or journal.torn == 1, place
                    passed += len(journal)
                    for record in journal:
                        outcome_of(point, [record])
    assert passed, "some numbers are as good as others"


def test_of_several_outcomes_with_a_key_the_last_counts(tmp_path: Path) -> None:
    """What crashed and was played again is no longer crashed, then and later."""
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


def test_a_piece_that_cannot_be_taken_back_swallows_nothing(tmp_path: Path) -> None:
    """If the end of the file is not where it was left, the next outcome begins on a line of its own."""
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.add(record(0))
        with path.open("ab") as other:
            other.write(b'{"key":"0')
        journal.add(record(1))
        journal.add(record(2))
        assert list(journal) == [record(0), record(1), record(2)]
    assert read(path) == [record(0), record(1), record(2)]
    assert path.read_bytes().count(b"\n") == 4


def test_a_journal_that_was_cleared_is_empty_and_goes_on(tmp_path: Path) -> None:
    """Nothing of what was read before is left, not even where the new outcomes stand in the file."""
    path = tmp_path / "journal"
    path.write_bytes(written(path, record(0), record(1)) + b"{")
    with Journal(path) as journal:
        assert journal.get(record(1).key) == record(1)
        journal.clear()
        assert (list(journal), journal.torn, path.read_bytes()) == ([], 0, b"")
        journal.add(record(2))
        assert list(journal) == [record(2)]
    assert read(path) == [record(2)]


def test_where_there_can_be_no_journal_the_error_is_a_line(tmp_path: Path) -> None:
    """A missing folder, a folder, a pipe that nobody reads, and a file where the folder should be."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for place in ("missing/journal", ".", "pipe", "file/journal"):
        with pytest.raises(JournalError, match=r"^(cannot be written \([^\n]+\)|is [^\n]+)$"):
            Journal(tmp_path / place)


def test_where_nobody_may_read_or_write_the_error_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two has its word; a journal that can be written but not read is closed again."""
    path = tmp_path / "journal"
    whole = written(path, record(0))
    opened = type(path).open
    for mode, word in (("ab", "written"), ("rb", "read")):

        def refuse(self: Path, how: str = "r", *rest: Any, forbidden: str = mode, **more: Any) -> Any:
            if how == forbidden:
                raise PermissionError(13, "Permission denied")
            return opened(self, how, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(type(path), "open", refuse)
            with pytest.raises(JournalError, match=rf"^cannot be {word} \(Permission denied\)$"):
                Journal(path)
        assert path.read_bytes() == whole
        assert read(path) == [record(0)]


def test_a_journal_that_is_changed_under_its_reader_is_an_error_in_a_line(tmp_path: Path) -> None:
    """Somebody put other lines in the place of ours, whole ones or not: no outcome is taken for another one."""
    path = tmp_path / "journal"
    first, second = record(1), record(1, key=f"{2:032x}")
    lines = written(path, first, second).splitlines(keepends=True)
    for changed in (b"".join(lines)[::-1], b"".join(lines[::-1])):
        written(path, first, second)
        with Journal(path) as journal:
            path.write_bytes(changed)
            with pytest.raises(JournalError, match=r"^was changed by somebody while it was in use$"):
                journal.get(first.key)


def test_two_programs_never_write_to_one_journal(tmp_path: Path) -> None:
    """The second is refused in a line as long as the first is there; killed, it leaves nothing that is locked."""
    path = tmp_path / "journal"
    program = "import pathlib, sys\nfrom analysis.sweep.journal import Journal\n"
    program += "journal = Journal(pathlib.Path(sys.argv[1]))\nprint('open', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(JournalError, match=r"^is in use: another program is writing to it$"):
            Journal(path)
        other.kill()
    with Journal(path) as journal, pytest.raises(JournalError, match="is in use"):
        Journal(journal.path)
    assert read(path) == []


def test_a_journal_that_is_only_read_needs_no_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs may read it at once, none writes to it meanwhile, and there is none to be made."""
    path = tmp_path / "journal"
    whole = written(path, record(0))
    opened = type(path).open

    def read_only(self: Path, how: str = "r", *rest: Any, **more: Any) -> Any:
        if how != "rb":
            raise PermissionError(13, "Permission denied")
        return opened(self, how, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "open", read_only)
        with Journal(path, to_read=True) as one, Journal(path, to_read=True) as two:
            assert list(one) == list(two) == [record(0)]
            patch.undo()
            with pytest.raises(JournalError, match="is in use"):
                Journal(path)
    with Journal(path), pytest.raises(JournalError, match=r"^is in use: another program is writing to it$"):
        Journal(path, to_read=True)
    assert path.read_bytes() == whole
    with pytest.raises(JournalError, match=r"^cannot be read \(No such file or directory\)$"):
        Journal(tmp_path / "none", to_read=True)
    assert not (tmp_path / "none").exists()


def test_only_places_are_kept_in_memory(tmp_path: Path) -> None:
    """Outcomes that are fifty times as long take no more memory once the journal is open."""
    held = []
    for length in (40, 2_000):
        written(tmp_path / "journal", *(record(number, reason="x" * length) for number in range(300)))
        tracemalloc.start()
        try:
            with Journal(tmp_path / "journal") as journal:
                held.append(tracemalloc.get_traced_memory()[0])
                assert len(journal) == 300
        finally:
            tracemalloc.stop()
    short, long = held
    assert long < 1.5 * short
