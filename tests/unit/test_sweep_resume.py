"""``ettrick sweep`` stopped by ``kill -9``, Ctrl-C or a full disk: run again, it ends as if that had never been."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sim import yamlfile
from tests import small
from tests.pace import one_in
from tests.unit.test_journal import files_of_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
        (folder / "small.yaml").write_text(small.YAML)
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
    def played(self) -> Counter[str]:
        """How often each task was played to its end."""
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
        result = small.call(*self.arguments("--executor", "serial", *options, out=out))
        assert result.exit_code == DONE, result.output
        return tables(out or self.out)

    @contextlib.contextmanager
    def started(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """Run the command as a program of its own, in a group of its own, of which nothing is left afterwards."""
        code = f"import sys; sys.argv[1:] = {self.arguments(*options)!r}; import cli; cli.app()"
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
    assert sweep.played.total() == TASKS
    return found


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    """Return the study in a folder of its own."""
    return Sweep(tmp_path)


def test_killed_at_any_moment_it_goes_on_where_it_was(sweep: Sweep, reference: dict[str, bytes]) -> None:
    """After `kill -9` no task of the journal is played again, and the tables are those of an undisturbed run."""
    rng = random.Random(8)
    for goal in (rng.randint(1, 3), rng.randint(5, 7)):
        with sweep.started("--executor", "serial") as program:
            wait_for(lambda goal=goal: len(sweep.lines) >= goal or program.poll() is not None)  # type: ignore[misc]
            time.sleep(0.02 * rng.random())
            program.kill()
        assert program.returncode == -signal.SIGKILL
        before = sweep.played
        assert goal <= before.total() < TASKS
    assert sweep.finished() == reference
    assert set(sweep.played.values()) == {1}
    assert sweep.played.total() == TASKS
    again = sweep.lines
    assert sweep.finished() == reference
    assert sweep.lines == again, "nothing was left to do"


def test_ctrl_c_says_what_is_kept_and_it_goes_on(sweep: Sweep, reference: dict[str, bytes]) -> None:
    """Status 130, and what was played is kept; before that nobody else may play there, afterwards everybody."""
    with sweep.started("--executor", "serial") as program:
        wait_for(lambda: len(sweep.lines) >= 3 or program.poll() is not None)
        program.send_signal(signal.SIGSTOP)
        second = small.call(*sweep.arguments("--executor", "serial"))
        assert (second.exit_code, second.stdout) == (WRONG, "")
        assert second.stderr == f"--out {sweep.out}: is in use: another program is writing to it\n"
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGCONT)
        out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out) == (INTERRUPTED, "")
    kept = sweep.played.total()
    assert err == f"stopped: {kept} of {TASKS} tasks are kept in {sweep.out}; the same command goes on from here\n"
    assert 3 <= sweep.played.total() < TASKS
    assert not [path for path in sweep.out.iterdir() if path.name.startswith(".")]
    assert sweep.finished() == reference
    assert set(sweep.played.values()) == {1}


def test_a_full_disk_is_a_line_and_it_goes_on(sweep: Sweep, reference: dict[str, bytes]) -> None:
    """Status 2; every line of the journal is whole, and with room again the tables are those of an undisturbed run."""
    with files_of_at_most(30_000):
        result = small.call(*sweep.arguments("--executor", "serial"))
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert re.fullmatch(rf"--out {re.escape(str(sweep.out))}: cannot be written \([^\n]+\)\n", result.stderr)
    assert 0 < len(sweep.lines) == sweep.played.total() < TASKS
    assert (sweep.out / "journal.jsonl").read_bytes().endswith(b"\n")
    assert sweep.finished() == reference
    assert set(sweep.played.values()) == {1}


@pytest.mark.nightly
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGINT])
def test_stopped_ten_times_with_processes_it_ends_as_if_it_never_was(
    sweep: Sweep, reference: dict[str, bytes], signal_: signal.Signals
) -> None:
    """At ten random moments from the first import to the last file; a terminal stops the two workers as well."""
    rng = random.Random(int(signal_))
    for _ in range(10):
        with sweep.started("--executor", "process", "--jobs", "2") as program:
            time.sleep(4 * rng.random())
            if program.poll() is None and signal_ == signal.SIGINT:
                os.killpg(program.pid, signal_)
            elif program.poll() is None:
                program.send_signal(signal_)
            program.communicate(timeout=PATIENCE)
    assert sweep.finished() == reference
    assert set(sweep.played.values()) == {1}
    assert sweep.played.total() == TASKS


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
