"""What the report of a large study takes: seconds and bytes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_STUDY = """\
name: bench
question: What do checkpoints and repairs do to a small job?
scenario: quickstart
vary:
  checkpoint.tiers.0.interval: {range: {min: 5 min, max: 60 min, points: 40}}
  repair.time: {range: {min: 3 h, max: 75 h, step: 3 h}}
metrics: [ettr, scheduling_goodput]
replications: 4
questions:
  - {ask: best}
  - {ask: trend, along: repair.time}
"""
_POINTS = 1000
_COMMAND = (sys.executable, "-c", "from cli import app; app()")


def report_rows() -> list[str]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bench.yaml").write_text(_STUDY, encoding="utf-8")
        _run("sweep", str(folder / "bench.yaml"), "--out", str(folder / "results"), "--quiet")
        start = time.perf_counter()
        _run("report", str(folder / "results"))
        seconds = time.perf_counter() - start
        megabytes = (folder / "results" / "report.html").stat().st_size / 1e6
    return [
        f"{'reports':66} {'measured':>9}  {'target':>9}",
        f"  {f'page about a study of {_POINTS:,} points, the command':64} {seconds:7.1f} s  {'<= 10 s':>9}",
        f"  {'its size':64} {megabytes:6.2f} MB  {'<= 8 MB':>9}",
    ]


def _run(*arguments: str) -> None:
    """Run a command as a user would; the answer of the study does not matter."""
    subprocess.run([*_COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
