"""What a study costs: overhead of a task, gain of a second process, ten thousand replications, memory by points."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.contest.compare import Variant, compare
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.optimize.bounds import Candidates, upper, upper_ettr
from ettrick.analysis.optimize.derive import listed_of
from ettrick.analysis.optimize.problem import problem_of
from ettrick.analysis.statistics.differences import controlled
from ettrick.analysis.study.load import load_study
from ettrick.analysis.sweep.campaign import Campaign, Reiterable
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.workers import ExecutorOptions, worker_pool_at
from ettrick.sim.closed_form.renewal import closed_form
from ettrick.sim.compiled.run import Workspace
from tests.bench import COMMAND, cost_of

if TYPE_CHECKING:
    from collections.abc import Callable

# ----------------------------------------
# What control variates are worth: replications that the same interval takes without, relative to with.

REPLICATIONS = 60


class _Case(NamedTuple):
    """A shipped scenario with changes."""

    title: str
    scenario: str
    changes: tuple[str, ...] = ()

    def prepared(self) -> sim.Prepared:
        """Return it, ready to run."""
        return sim.prepare(sim.load(sim.find(self.scenario), self.changes))


_MEANS = (
    _Case("Llama 3, 16 spares, which bind now and then", "llama3-405b-54d"),
    _Case("Llama 3, 64 spares", "llama3-405b-54d", ("spares.hot=64",)),
    _Case("Llama 3 under slurm-requeue", "recovery-16k", ("recovery.use=slurm-requeue", "spares.hot=64")),
    _Case("Llama 3 under nvrx-in-job", "recovery-16k", ("recovery.use=nvrx-in-job", "spares.hot=64")),
    _Case("Llama 3 under torchft-hsdp", "recovery-16k", ("recovery.use=torchft-hsdp", "spares.hot=64")),
)

_PAIRS = (
    ("saves every 20 min for 10", _MEANS[1], ("checkpoint.tiers.0.interval=20 min",)),
    ("a restart of 100 s for 200", _MEANS[1], ("recovery.initialize=100 s",)),
    ("slurm-requeue for nvrx-in-job", _MEANS[3], ("recovery.use=slurm-requeue", "spares.hot=64")),
    ("torchft-hsdp for nvrx-in-job", _MEANS[3], ("recovery.use=torchft-hsdp", "spares.hot=64")),
)


def precision_rows() -> list[str]:
    """Return how many times the replications the intervals of means and of paired differences are worth."""
    lines = [f"{'what control variates are worth, in replications':66} {'factor':>8}"]
    worth = {}
    for case in _MEANS:
        found = replicate(case.prepared(), REPLICATIONS)
        taken = controlled([row["ettr"] for row in found.rows], found.controls)
        if taken is None:
            lines.append(f"  ETTR: {case.title:58} {'none':>8}")
        else:
            worth[case.title] = taken.worth
            lines.append(f"  ETTR: {case.title:58} {taken.worth:8.1f}")
    for title, case, changes in _PAIRS:
        changed = case._replace(changes=(*case.changes, *changes))
        variants = [Variant("with", case.prepared()), Variant("without", changed.prepared())]
        change = compare(variants, REPLICATIONS).differences[1]["ettr"]
        factor = change.controlled.worth if change is not None and change.controlled is not None else 1.0
        lines.append(f"  difference on the same failures: {title:31} {factor:8.1f}")
    lines.append(f"least where spares do not bind: {min(worth.values()):.1f} (target >= 3)")
    return lines


# ----------------------------------------
# What the report of a large study takes: seconds and bytes.

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
  - {use: best}
  - {use: trend, along: repair.time}
"""

_POINTS = 1000


def report_rows() -> list[str]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bench.yaml").write_text(_STUDY, encoding="utf-8")
        _run("sweep", str(folder / "bench.yaml"), "--out", str(folder / "results"), "--quiet")
        report = _timed("report", str(folder / "results"))
        megabytes = (folder / "results" / "report.html").stat().st_size / 1e6
    return [
        f"{'reports':66} {'measured':>9}  {'target':>9}",
        f"  {f'page about a study of {_POINTS:,} points, the command':64} {report.seconds:7.1f} s  {'<= 10 s':>9}",
        f"  {'its time of CPU, of which 4.2 s before it was looked at':64} {report.cpu:7.1f} s  {'<= 2.1 s':>9}",
        f"  {'its size':64} {megabytes:6.2f} MB  {'<= 8 MB':>9}",
    ]


def explore_rows() -> list[str]:
    """Return what a move of a slider of `ettrick explore` takes, by the routes of its page."""
    command = [*COMMAND, "explore", "llama3-405b-54d", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    address = process.stdout.readline().strip()

    def answer(request: str) -> tuple[bytes, float]:
        """Return an answer, and the time of CPU that it took [ms]."""
        before = _ticks(process.pid)
        with urllib.request.urlopen(address + request) as response:
            content = response.read()
        assert b'"stale"' not in content
        return content, 1e3 * (_ticks(process.pid) - before) / os.sysconf("SC_CLK_TCK")

    try:
        while b"by machine code" not in answer(f"simulated?interval0={int(time.monotonic()) % 20}")[0]:
            time.sleep(0.5)
        moves = [[answer(f"{route}?rate={place}")[1] for route in _ROUTES] for place in range(21)]
    finally:
        process.terminate()
        process.wait()
    closed, simulated, picture = map(statistics.mean, zip(*moves, strict=True))
    return [
        f"{'sliders of explore, time of CPU of a move':66} {'measured':>9}  {'target':>9}",
        f"  {'until the closed form is there':64} {closed:6.0f} ms  {'<= 60 ms':>9}",
        f"  {'from there until simulated numbers are':64} {simulated:6.0f} ms  {'<= 60 ms':>9}",
        f"  {'from there until their picture is':64} {picture:6.0f} ms",
    ]


_ROUTES = ("closed", "simulated", "picture")


def _ticks(process: int) -> int:
    """Return the time of CPU of a process that goes on [ticks]: only Linux says it."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _run(*arguments: str) -> None:
    """Run a command as a user would; the answer of the study does not matter."""
    subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)


_STUDY_STUDIES = """\
name: bench
scenario: llama3-405b-54d
vary:
  checkpoint.tiers.0.interval: {{range: {{min: 5 min, max: 30 min, points: {intervals}}}}}
  spares.hot: {{range: {{min: {least}, max: 64, step: 1}}}}
replications: 10
"""

_REPLICATIONS = 10


# ----------------------------------------
# What machine code is for: many replications, and many scenarios.

_INPUTS = """\
name: bench
scenario: llama3-405b-54d
vary:
  checkpoint.tiers.0.interval: {{distribution: {{use: between, p05: 5 min, p95: 30 min}}}}
  checkpoint.tiers.0.write: {{distribution: {{use: between, p05: 30 s, p95: 120 s}}}}
  detection.time: {{distribution: {{use: between, p05: 10 s, p95: 10 min}}}}
  recovery.reschedule: {{distribution: {{use: between, p05: 10 s, p95: 60 s}}}}
  recovery.initialize: {{distribution: {{use: between, p05: 100 s, p95: 400 s}}}}
  repair.time.median: {{distribution: {{use: between, p05: 6 h, p95: 44 h}}}}
design: {{use: saltelli, samples: {samples}}}
replications: 10
metrics: [ettr]
"""


def replication_seconds(replications: int = 500) -> tuple[float, float]:
    """Return the CPU time of a replication of Llama 3 in a running process, and of its compiled loop alone [s]."""
    workspace = Workspace(sim.with_engine(sim.prepare(sim.load("llama3-405b-54d")), 10_000))
    loop, spent = workspace.run_code, []

    def timed(address: int) -> None:
        start = time.process_time()
        loop(address)
        spent.append(time.process_time() - start)

    workspace.run_code = timed
    start = time.process_time()
    for replication in range(replications):
        workspace.run(replication)
    return (time.process_time() - start) / replications, sum(spent) / replications


def sobol_seconds(folder: Path) -> tuple[float, float]:
    """Return the time of a point of a Sobol analysis on two processes, and what that comes to with all of them [s]."""
    few, many = _timed_sobol(folder, 8), _timed_sobol(folder, 32)
    point = (many - few) / (8 * 24)
    return point, few + (8_192 - 8 * 8) * point


def _timed_sobol(folder: Path, samples: int) -> float:
    """Return the time of a Sobol analysis of so many base points [s]: each is eight scenarios."""
    path = folder / f"sobol-{samples}.yaml"
    path.write_text(_INPUTS.format(samples=samples), encoding="utf-8")
    out = str(folder / f"sobol-{samples}")
    return _timed("sensitivity", str(path), "--method", "sobol", "--jobs", "2", "--out", out, "--yes").seconds


def point_seconds(folder: Path) -> float:
    """Return the CPU time of a point of a sweep of a hundred, beside the start, of ten replications [s]."""
    few, many = (_command(folder, f"serial-{least}", 5, least, "--executor", "serial") for least in (61, 45))
    return (many.cpu - few.cpu) / (many.tasks - few.tasks)


def many_rows() -> list[str]:
    """Return what ten thousand replications and a Sobol analysis take as commands, machine code available."""
    _, before = replication_seconds()
    with tempfile.TemporaryDirectory() as name:
        few, many = (_timed("run", "llama3-405b-54d", "-n", str(count), "--jobs", "2") for count in (1_000, 10_000))
        point, (replication, after) = point_seconds(Path(name)), replication_seconds()
        loop = 10_000 * (before + after) / 2
        of_sobol, sobol = sobol_seconds(Path(name))
    return [
        f"{'machine code, as commands on two cores':66} {'measured':>9}  {'target':>9}",
        f"  {'10,000 replications of Llama 3':64} {many.seconds:7.1f} s  {'<= 12 s':>9}",
        f"  {'their CPU time over that of their compiled loop alone':64} {many.cpu / loop:8.2f}x  {'<= 2.0x':>9}",
        f"  {'one more in a running process over its loop alone':64} {replication / after:8.2f}x  {'<= 1.6x':>9}",
        f"  {'their memory':64} {many.megabytes:6.0f} MB  {'<= 250 MB':>9}",
        f"  {'their memory over that of 1,000':64} {many.megabytes / few.megabytes:8.2f}x  {'flat':>9}",
        f"  {'a point of Sobol, 6 inputs, 10 replications':64} {1e3 * of_sobol:6.1f} ms  {'<= 7.3 ms':>9}",
        f"  {'8,192 of them (extrapolated from 64 and 256)':64} {sobol:7.1f} s  {'<= 60 s':>9}",
        f"  {'a point of a sweep of 100 over the compiled loop alone':64} {point / (10 * after):8.2f}x  {'<= 2.5x':>9}",
    ]


class _Run(NamedTuple):
    """Seconds of all, those spent in tasks, tasks, the largest memory of a process [MB], and time of CPU [s]."""

    seconds: float
    busy: float
    tasks: int
    megabytes: float = 0.0
    cpu: float = 0.0


def study_rows() -> list[str]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, both = (_library(folder, ExecutorOptions("process", workers), 3, 58) for workers in (1, 2))
        few, many = _command(folder, "few", 5, 55), _command(folder, "many", 25, 25)
    gain = alone.seconds / both.seconds
    overhead = (alone.seconds - alone.busy) / alone.tasks
    lines = [
        f"{'studies':66} {'measured':>9}  {'target':>9}",
        f"  {'two processes over one':64} {gain:8.2f}x  {'>= 1.8x':>9}",
        f"  {'overhead of a task on one process':64} {1e3 * overhead:6.1f} ms  {'<= 5 ms':>9}",
        f"  {f'{many.tasks:,} points of Llama 3, {10 * many.tasks:,} replications, two processes':64} "
        f"{many.seconds:7.1f} s  {'<= 8 s':>9}",
        f"  {f'largest process with {many.tasks:,} points over {few.tasks} points':64} "
        f"{many.megabytes / few.megabytes:8.2f}x  {'flat':>9}",
    ]
    return [*lines, f"  ({few.megabytes:.0f} MB and {many.megabytes:.0f} MB; a process starts with what it imports)"]


def _study(folder: Path, name: str, intervals: int, least: int) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(_STUDY_STUDIES.format(intervals=intervals, least=least), encoding="utf-8")
    return path


def _library(folder: Path, where: ExecutorOptions, intervals: int, least: int) -> _Run:
    """Play a small study once the processes are there."""
    loaded = load_study(_study(folder, "small", intervals, least))
    with Journal(folder / f"journal-{where.jobs}") as journal, worker_pool_at(where) as worker_pool:
        campaign = Campaign(loaded, journal, worker_pool)
        # The first tasks of a process also pay for its start; a task of two replications is not one of ten.
        campaign.simulate(Reiterable(loaded.points), 2)
        start = time.perf_counter()
        campaign.simulate(Reiterable(loaded.points), _REPLICATIONS)
        seconds = time.perf_counter() - start
        simulated = [record for record in journal if record.replications == _REPLICATIONS]
    return _Run(seconds, sum(record.seconds for record in simulated), len(simulated))


def _command(folder: Path, name: str, intervals: int, least: int, *where: str) -> _Run:
    """Run the command as a user would, by default on two processes."""
    path = _study(folder, name, intervals, least)
    found = _timed("sweep", str(path), "--out", str(folder / name), *(where or ("--jobs", "2")))
    return found._replace(tasks=intervals * (65 - least))


def _timed(*arguments: str) -> _Run:
    """Run a command, and say what it took."""
    cost = cost_of(*COMMAND, *arguments, "--quiet")
    return _Run(cost.wall, 0.0, 0, cost.megabytes, cost.cpu)


# ----------------------------------------
# What the bounds of designs cost, beside the closed form.

_STRATEGIES = ("slurm-requeue", "nvrx-in-job", "nvrx-in-process")
_SIZES = (4096, 8192, 12288, 16384)
_LAYOUTS = 1000


def bound_rows() -> list[str]:
    """Return how many bounds there are in a second of one core, and how much a closed form costs beside one."""
    bases = tuple(
        sim.examine(
            sim.load(
                sim.find("recovery-16k"),
                (f"recovery.use={strategy}", f"jobs.0.gpus={gpus}", f"jobs.0.parallelism.data={gpus // 128}"),
            )
        )
        for strategy in _STRATEGIES
        for gpus in _SIZES
    )
    layouts = np.tile(np.linspace(0.8, 1.2, _LAYOUTS), len(bases))
    step, tokens = (
        np.repeat([getattr(base.jobs[0], name) for base in bases], _LAYOUTS) for name in ("step_time", "tokens")
    )
    base_of = np.repeat(np.arange(len(bases)), _LAYOUTS)
    candidates = Candidates(bases, base_of, step * layouts, tokens.astype(float), 600 * layouts)
    form = _spent(lambda: [closed_form(base).ettr for base in bases]) / len(bases)
    bound = _spent(lambda: upper("tokens_per_day", candidates, upper_ettr(candidates)[0])) / len(base_of)
    first = Candidates(bases, *(column[::_LAYOUTS] for column in candidates[1:]))
    single = _spent(lambda: upper_ettr(first)) / len(bases)
    return [
        f"{'bounds of designs':66} {'measured':>9}  {'target':>9}",
        f"  {f'of {len(base_of):,} candidates of {len(bases)} scenarios, a second of one core':64} "
        f"{1 / bound:9,.0f}  {'>= 10,000':>9}",
        f"  {'the closed form of a scenario over one of them':64} {form / bound:8,.0f}x  {'>= 100x':>9}",
        f"  {'the first bound of a scenario':64} {1e3 * single:6.1f} ms",
    ]


def _spent(action: Callable[[], object]) -> float:
    """Return the CPU time of an action that has been done once before [s]."""
    action()
    start = time.process_time()
    action()
    return time.process_time() - start


# ----------------------------------------
# What a design costs: its first answer beside a check, and all of it beside the runs that it cannot do without.

_DESIGN = "llama3-405b-gb200"

_BUDGET = ("--budget", "gpus=30000", "--budget", "power=100 MW")

_RUN = 50
"""Designs that any search would simulate, the best by the bound."""


def design_rows() -> list[str]:
    """Return what the first answer of a design costs beside a check, and all of it beside 50 designs and the list."""
    with tempfile.TemporaryDirectory() as folder:
        check = min(cost_of(*COMMAND, "check", _DESIGN).cpu for _ in range(3))
        quick = (*COMMAND, "design", _DESIGN, *_BUDGET, "--seconds", "0", "-q", "--executor", "serial")
        first = min(cost_of(*quick).cpu for _ in range(3))
        study = Path(folder) / "study.yaml"
        cost_of(*COMMAND, "design", _DESIGN, *_BUDGET, "--save", str(study))
        whole = cost_of(*COMMAND, "design", str(study), "-q", "--executor", "serial").cpu
        listing, runs, count = _least_of_a_design(study)
    return [
        f"{'designs (CPU time)':66} {'measured':>9}  {'target':>9}",
        f"  {f'first answer with its gap over a check of {check:.2f} s':64} {first / check:8.1f}x  {'<= 5x':>9}",
        f"  {f'{count:,} candidates over {_RUN} runs of 16 replications and the list':64} "
        f"{whole / (runs + listing):8.1f}x  {'<= 3x':>9}",
    ]


def _least_of_a_design(study: Path) -> tuple[float, float, int]:
    """Return what the list of a study costs [s], what 50 of its candidates do [s], and how many there are."""
    start = time.process_time()
    listing = listed_of(problem_of(load_study(str(study))))
    listed = time.process_time() - start
    candidates = Candidates(listing.bases, listing.base_of, listing.step_time, listing.tokens, listing.interval)
    bound = upper("tokens_per_day", candidates, upper_ettr(candidates)[0])
    best = np.argsort(-bound, kind="stable")[:_RUN]
    bases = [sim.prepare(listing.bases[base].scenario) for base in listing.base_of[best]]
    sim.run(bases[0], 0)
    start = time.process_time()
    for base in bases:
        for replication in range(16):
            sim.run(base, replication)
    return listed, time.process_time() - start, len(bound)
