"""What reading and fitting logs costs at the sizes of a large site; the files are generated."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

from analysis.logs import pipeline
from analysis.logs.events import incidents
from analysis.logs.fit import fit
from analysis.results.run import provenance
from tests import log_writers

LINES, JOBS, EVENTS = 10_000_000, 1_000_000, 100_000


def log_rows() -> list[str]:
    """Return CPU time and memory of reading kernel lines and job records, and of fitting events, each alone."""
    lines = [f"{'logs':34} {'CPU s':>7} {'peak MB':>8}  target"]
    with tempfile.TemporaryDirectory() as folder:
        for name, title, target in (
            ("kernel", f"{LINES:,} kernel lines", "< 60 s, < 300 MB"),
            ("sacct", f"{JOBS:,} sacct records", "< 20 s"),
            ("events", f"{EVENTS:,} events fitted", "< 30 s without the self-check"),
            ("checked", f"{EVENTS:,} events, whole command", "< 60 s with 100 simulated histories"),
        ):
            command = [sys.executable, "-m", "tests.bench.logs", name, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, megabytes = map(float, done.stdout.split())
            lines.append(f"{title:34} {seconds:7.1f} {megabytes:8.0f}  {target}")
    return lines


def kernel(path: Path, lines: int) -> None:
    """Write a kernel log of 256 hosts and 100 days of which 2 % of the lines are XIDs."""
    generator = random.Random(1)
    rows = []
    each = lines // 100
    for at in range(each):
        second = at * 86400 // each
        stamp = f"@T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{at % 1000000:06}+00:00"
        code = generator.choice((13, 31, 43, 45, 45, 45, 45, 48, 79, 119, 74))
        text = f"NVRM: Xid (PCI:0000:9b:00): {code}, pid='<unknown>', name=<unknown>, Ch 00000008"
        if generator.random() > 0.02:
            text = 'audit: type=1400 audit(1736140000.123:456): apparmor="ALLOWED" operation="open" profile="snap"'
        rows.append(f"{stamp} gpu{generator.randrange(256):03} kernel: {text}\n")
    block = "".join(rows).encode()
    with path.open("wb") as file:
        for day in range(100):
            file.write(block.replace(b"@", str(date(2025, 1, 6) + timedelta(day)).encode()))


def sacct(path: Path, jobs: int) -> None:
    """Write a half year of job records."""
    generator = random.Random(1)
    names = "JobIDRaw JobID User Partition State Submit Eligible Start End ElapsedRaw TimelimitRaw NNodes AllocTRES"
    with path.open("w") as file:
        file.write(f"{names} NodeList Restarts FailedNode\n".replace(" ", "|"))
        for job in range(jobs):
            submit = round(log_writers.START) + job * 15
            start = submit + int(generator.expovariate(1 / 600))
            run = int(generator.lognormvariate(7, 1.5))
            state = generator.choice(("COMPLETED",) * 7 + ("FAILED", "TIMEOUT", "CANCELLED by 1207"))
            user = generator.randrange(200)
            file.write(
                f"{job}|{job}|u{user}|main|{state}|{submit}|{submit}|{start}|{start + run}|{run}|1440"
                f"|1|cpu=112,gres/gpu=8,gres/gpu:h100=8,mem=1T,node=1|gpu{generator.randrange(256):03}|0|\n"
            )


def main(name: str, folder: Path) -> None:
    """Print CPU time and peak memory of one case; writing its file is not counted."""
    request = pipeline.Request([str(folder / name)], zones=["UTC"])
    if name in ("events", "checked"):
        rates = {"gpu_memory": 8.0, "nic": 4.0, "not_responding": 8.0, "nvlink": 4.0}
        nodes = EVENTS * 92 // 1000
        faults = log_writers.drawn(1, nodes, 365.0, rates, (0.2, 0.5, 1.2), 0.3)
        (folder / name).write_text(log_writers.node_events(faults), encoding="utf-8")
        (folder / "nodes.csv").write_text(log_writers.inventory(nodes), encoding="utf-8")
        request = request._replace(inventory=str(folder / "nodes.csv"))
    else:
        {"kernel": kernel, "sacct": sacct}[name](folder / name, {"kernel": LINES, "sacct": JOBS}[name])
    begin = time.process_time()
    if name == "checked":
        pipeline.run(request, provenance(""))
    else:
        tables, reading = pipeline.read(request)
    if name == "events":
        history = pipeline.history_of(request, tables, reading)
        fit(tables, history, incidents(history), None, reading.rules, name, provenance(""))
    seconds = time.process_time() - begin
    sys.stdout.write(f"{seconds} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
