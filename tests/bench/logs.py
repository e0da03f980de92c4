"""What reading and fitting logs costs at the sizes of a large site; the files are generated."""

from __future__ import annotations

import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ettrick.analysis.logs import pipeline
from ettrick.analysis.logs.events import incidents
from ettrick.analysis.logs.fit import fit
from ettrick.analysis.results.run import provenance
from ettrick.sim.compiled.run import machine_code
from ettrick.sim.failures import Replay
from ettrick.sim.input.job_trace import read_jobs
from ettrick.sim.scenario.streams import JobTrace
from tests import log_writers
from tests.bench import COMMAND, cost_of
from tests.bench.fleets import NO_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROWS, EVENTS = 1_000_000, 100_000

KINDS = {
    "kernel": "lines of kernel logs",
    "slurmctld": "lines of slurmctld",
    "node-events": "rows of sacctmgr list event",
    "sacct": "rows of sacct",
    "outages": "rows of outages",
    "jobs": "rows of a job trace, CSV",
    "swf": "rows of a job trace, SWF",
    "replay": "rows of a log that is replayed",
}
"""What is read at a million rows each."""

FITTED = {
    "events": (f"{EVENTS:,} events fitted", "< 30 s without the self-check"),
    "fit-events": (f"fit: {EVENTS:,} outages", "<= 30 s, the whole command"),
    "fit-jobs": ("fit: 25,000 jobs of 512 nodes", "<= 15 s, the whole command"),
}
"""What is fitted, as a library, and as a command with its reports, 100 simulated histories, costs and backtest."""

JOBS = {"small": (8, 200.0, 80.0, 1.2), "wide": (64, 55.6, 240.0, 1.0), "large": (512, 22.2, 150.0, 0.8)}
"""Streams of 90 days: GPUs of a job, submissions a day, and median [min] and sigma of its work."""


def log_rows() -> list[str]:
    """Return CPU time and memory of reading a million rows of each kind, over splitting as many, and of fitting."""
    lines = [f"{'logs':42} {'CPU s':>7} {'peak MB':>8} {'over csv':>9}  target"]
    with tempfile.TemporaryDirectory() as folder:
        plain, _ = _measured("plain", folder)
        for name, title in KINDS.items():
            seconds, megabytes = _measured(name, folder)
            target = "< 20 s" if name == "sacct" else "<= 3.5 s, < 300 MB" if name == "kernel" else ""
            title = f"{ROWS:,} {title}"
            lines.append(f"{title:42} {seconds:7.1f} {megabytes:8.0f} {seconds / plain:9.1f}  {target}".rstrip())
        for name, (title, target) in FITTED.items():
            seconds, megabytes = _measured(name, folder)
            lines.append(f"{title:42} {seconds:7.1f} {megabytes:8.0f} {'':9}  {target}")
    return [*lines, "over csv: over what csv.reader takes to split as many rows of sacct", "", *_trace_rows()]


def _trace_rows() -> Iterable[str]:
    """Check a job trace of a million rows in each format, and run a tenth of it, as whole commands."""
    yield f"{'whole commands':42} {'CPU s':>7} {'peak MB':>8}  target"
    cases = (
        ("check", "jobs.csv", ROWS, "<= 6 s"),
        ("check", "jobs.swf", ROWS, "<= 6 s"),
        ("run", "jobs.csv", ROWS // 10, "<= 9 s (90 s, 500 MB of a million)"),
    )
    for command, name, rows, target in cases:
        with tempfile.TemporaryDirectory() as folder:
            (swf if name.endswith("swf") else jobs)(Path(folder, name), rows)
            content = {
                "name": "trace",
                "cluster": {"nodes": 320, "gpus_per_node": 8, "fabric": {"rails": 8, "radix": 1024}},
                "horizon": f"{15 * rows} s",
                "streams": [{"name": "log", "use": "trace", "file": name, "restart": "0 s", "checkpoint": {}}],
                "scheduler": {"use": "fifo"},
                **NO_FAILURES,
            }
            scenario = Path(folder, "trace.yaml")
            scenario.write_text(json.dumps(content), encoding="utf-8")
            cost = cost_of(*COMMAND, command, str(scenario), *(["--quiet"] if command == "run" else []))
            yield f"{f'{command} of {rows:,} jobs, {name[-3:]}':42} {cost.cpu:7.1f} {cost.megabytes:8.0f}  {target}"


def _measured(name: str, folder: str) -> tuple[float, float]:
    """Return CPU time [s] and peak memory [MB] of one case, alone in a process."""
    # A process that is started by this large one would count its memory: another stands between.
    command = [sys.executable, "-m", "tests.bench.logs", name, folder]
    between = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)", *command]
    done = subprocess.run(between, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


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


def slurmctld(path: Path, rows: int) -> None:
    """Write lines of a controller of which one in 50 takes a node out or brings it back."""
    with path.open("w") as file:
        for at in range(rows):
            node = f"gpu{at // 100 % 256:03}"
            text = f"sched: Allocate JobId={at} NodeList={node} #CPUs=8 Partition=main"
            if at % 50 == 0:
                out = f"error: Nodes {node} not responding, setting DOWN"
                text = f"node {node} returned to service" if at % 100 else out
            file.write(f"[{log_writers.local(log_writers.START + at)}.000] {text}\n")


def outages(path: Path, rows: int) -> None:
    """Write outages of half an hour of 1,000 nodes in turn, as `ettrick fit` reads them."""
    utc = log_writers.utc
    _write_outages(path, rows, "node,start,end,cause", lambda node, start, end: f"{node},{utc(start)},{utc(end)},nic")


def _write_outages(path: Path, rows: int, header: str, row: Callable[[str, float, float], str]) -> None:
    """Write a table of outages of half an hour of 1,000 nodes in turn, a row each."""
    with path.open("w") as file:
        file.write(f"{header}\n")
        for at in range(rows):
            start = log_writers.START + 20.0 * at
            file.write(f"{row(f'gpu{at % 1000:03}', start, start + 1800)}\n")


def node_events(path: Path, rows: int) -> None:
    """Write the same as sacctmgr does."""

    def row(node: str, start: float, end: float) -> str:
        times = f"{log_writers.local(start)}|{log_writers.local(end)}"
        return f"c1|{node}|{times}|DOWN|IB link down mlx5_4|root(0)"

    _write_outages(path, rows, "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User", row)


def replay(path: Path, rows: int) -> None:
    """Write the same as a scenario replays it."""
    with path.open("w") as file:
        file.write("unit,start,end,cause\n")
        file.writelines(f"gpu{at % 1000:03},{20 * at},{20 * at + 1800},nic\n" for at in range(rows))


def jobs(path: Path, rows: int) -> None:
    """Write a job trace with the columns that a scenario takes without a map."""
    with path.open("w") as file:
        file.write("job,submit,gpus,run,limit,state,tenant\n")
        file.writelines(f"{at},{15 * at},8,{600 + at % 7200},86400,completed,u{at % 200}\n" for at in range(rows))


def swf(path: Path, rows: int) -> None:
    """Write the same in the Standard Workload Format."""
    with path.open("w") as file:
        file.writelines(
            f"{at} {15 * at} 60 {600 + at % 7200} 8 -1 -1 8 86400 -1 1 {at % 200} 1 1 1 1 -1 -1\n" for at in range(rows)
        )


def of_large_site(events: Path, inventory: Path) -> None:
    """Write the outages of a year of thousands of nodes that relapse and differ, and their inventory."""
    rates = {"gpu_memory": 8.0, "nic": 4.0, "not_responding": 8.0, "nvlink": 4.0}
    nodes = EVENTS * 92 // 1000
    faults = log_writers.drawn(1, nodes, 365.0, rates, (0.2, 0.5, 1.2), 0.3)
    events.write_text(log_writers.node_events(faults), encoding="utf-8")
    inventory.write_text(log_writers.inventory(nodes), encoding="utf-8")


def of_queue(path: Path, events: Path, inventory: Path) -> None:
    """Write the job records of 90 days of a cluster whose queue is never long, and outages of its nodes."""
    nodes, days = 512, 90.0
    faults = log_writers.drawn(2, nodes, days, {"gpu_memory": 3.0, "not_responding": 1.0, "nic": 0.7})
    events.write_text(log_writers.node_events(faults), encoding="utf-8")
    inventory.write_text(log_writers.inventory(nodes), encoding="utf-8")
    records = log_writers.simulated_jobs(nodes, days, JOBS, {"use": "slurm"}, 1)
    path.write_text(log_writers.sacct(records), encoding="utf-8")


def command(path: Path, kind: str) -> None:
    """Print CPU time and peak memory of `ettrick fit` to a folder, where machine code has been compiled before."""
    inventory, events = path.with_suffix(".nodes.csv"), path.with_suffix(".events.txt")
    files = [events]
    if kind == "jobs":
        of_queue(path, events, inventory)
        files.append(path)
    else:
        of_large_site(events, inventory)
    options = ["--inventory", str(inventory), "--timezone", "UTC", "--quiet", "--out", str(path.with_suffix(".out"))]
    machine_code()
    cost = cost_of(*COMMAND, "fit", *map(str, files), *options)
    sys.stdout.write(f"{cost.cpu} {cost.megabytes}\n")


def plain(path: Path) -> None:
    """Split the rows of a table, and do nothing with them."""
    with path.open() as file:
        for _ in csv.reader(file, delimiter="|"):
            pass


def main(name: str, folder: Path) -> None:
    """Print CPU time and peak memory of one case; writing its file is not counted."""
    path = folder / name
    request = pipeline.FitOptions([str(path)], zones=["UTC"])
    if name.startswith("fit-"):
        command(path, name.removeprefix("fit-"))
        return
    if name == "events":
        of_large_site(path, folder / "nodes.csv")
        request = request._replace(inventory=str(folder / "nodes.csv"))
    else:
        writers = {
            "kernel": kernel, "slurmctld": slurmctld, "node-events": node_events, "sacct": sacct, "plain": sacct,
            "outages": outages, "jobs": jobs, "swf": swf, "replay": replay,
        }  # fmt: skip
        path = path.with_suffix(".swf" if name == "swf" else ".csv")
        writers[name](path, ROWS)
        request = request._replace(files=[str(path)])
    begin = time.process_time()
    if name == "plain":
        plain(path)
    elif name in ("jobs", "swf"):
        read_jobs(JobTrace(name=name, file=str(path)))
    elif name == "replay":
        Replay(file=str(path)).read()
    else:
        tables, reading = pipeline.read(request)
    if name == "events":
        history = pipeline.history_of(request, tables, reading)
        fit(tables, history, incidents(history), None, reading.rules, name, provenance(""))
    seconds = time.process_time() - begin
    sys.stdout.write(f"{seconds} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
