"""What a study costs: overhead of a task, gain of a second process, ten thousand replications, memory by points."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from analysis.study.load import load_study
from analysis.sweep.campaign import Again, Campaign
from analysis.sweep.journal import Journal
from analysis.sweep.workers import Where, crew_at

_STUDY = """\
name: bench
scenario: llama3-405b-54d
vary:
  checkpoint.tiers.0.interval: {{range: {{min: 5 min, max: 30 min, points: {intervals}}}}}
  spares.hot: {{range: {{min: {least}, max: 64, step: 1}}}}
replications: 10
"""
_REPLICATIONS = 10


class _Run(NamedTuple):
    """Seconds of all, those spent in tasks, tasks, and the largest memory of a process [MB]."""

    seconds: float
    busy: float
    tasks: int
    megabytes: float = 0.0


def study_rows() -> list[str]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, both = (_library(folder, Where("process", workers), 3, 58) for workers in (1, 2))
        few, many = _command(folder, "few", 5, 55), _command(folder, "many", 25, 25)
    gain = alone.seconds / both.seconds
    overhead = (alone.seconds - alone.busy) / alone.tasks
    lines = [
        f"{'studies':66} {'measured':>9}  {'target':>9}",
        f"  {'two processes over one':64} {gain:8.2f}x  {'>= 1.8x':>9}",
        f"  {'overhead of a task on one process':64} {1e3 * overhead:6.1f} ms  {'<= 5 ms':>9}",
        f"  {f'{many.tasks:,} points of Llama 3, {10 * many.tasks:,} replications, two processes':64} "
        f"{many.seconds:7.0f} s  {'<= 120 s':>9}",
        f"  {f'largest process with {many.tasks:,} points over {few.tasks} points':64} "
        f"{many.megabytes / few.megabytes:8.2f}x  {'flat':>9}",
    ]
    return [*lines, f"  ({few.megabytes:.0f} MB and {many.megabytes:.0f} MB; a process starts with what it imports)"]


def _study(folder: Path, name: str, intervals: int, least: int) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(_STUDY.format(intervals=intervals, least=least), encoding="utf-8")
    return path


def _library(folder: Path, where: Where, intervals: int, least: int) -> _Run:
    """Play a small study once the processes are there."""
    loaded = load_study(_study(folder, "small", intervals, least))
    with Journal(folder / f"journal-{where.jobs}") as journal, crew_at(where) as crew:
        campaign = Campaign(loaded, journal, crew)
        # The first tasks of a process also pay for its start.
        campaign.play(Again(loaded.points), 2, first=1_000_000)
        start = time.perf_counter()
        campaign.play(Again(loaded.points), _REPLICATIONS)
        seconds = time.perf_counter() - start
        played = [record for record in journal if record.first == 0]
    return _Run(seconds, sum(record.seconds for record in played), len(played))


def _command(folder: Path, name: str, intervals: int, least: int) -> _Run:
    """Run the command as a user would."""
    path = _study(folder, name, intervals, least)
    command = [sys.executable, "-c", "from cli import app; app()", "sweep", str(path)]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--out", str(folder / name), "--jobs", "2", "--quiet"], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return _Run(time.perf_counter() - start, 0.0, intervals * (65 - least), used.ru_maxrss / 1e3)
