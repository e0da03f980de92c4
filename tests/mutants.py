"""Sixty mutants of the code, and whether the tests notice them.

A mutant is a function, a snippet of its source, and what stands there instead. Functions are found by name in whatever
file of ``sim`` or ``analysis`` they are, so that the table outlives a move. ``python -m tests.mutants`` runs the suite
once to see which tests reach which mutant; then it runs these tests, the specific and fast ones first, against each
mutant in a copy of the tree. ``--before FILE`` compares with the results of an earlier ``--out FILE``, and ends with 1
if something that was caught is not caught any more.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """A change of one function: its name, with that of its class; a snippet found once in it; and the new text."""

    function: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.function}: {self.old} -> {self.new}"


ENGINE = (
    ("JobPhases.settle", "job.nodes_per_replica - len(group.missing))", "job.nodes_per_replica)"),
    ("JobPhases.settle", "(1.0 - pace_of_nodes) * share", "(1.0 - job.speed) * share"),
    ("JobPhases.stop", "job.state = job.unsaved", "job.state = job.state"),
    ("JobPhases._phase", "job.excess += step.excess", "job.excess -= step.excess"),
    ("JobPhases._begin_run", "group.incident = 0", "group.incident = group.incident"),
    ("Interruptions.hit", "job.main in groups and job.main.is_running(now)", "job.main in groups"),
    ("Interruptions._hit_group", " and group.job.checkpoint.save_time() <= failure.notice", ""),
    ("Interruptions._rank", "if gone <= replica", "if gone < replica"),
    ("Job.suffices", "self.main.replicas >= step.wanted", "self.main.replicas > step.wanted"),
    ("Restores._damage", "len(stateless) < job.main.replicas", "len(stateless) <= job.main.replicas"),
    ("Restores.roll_back", "job.main.incident or job.main.cause", "job.main.cause"),
    ("Renewals.node_up", "self.was_down.get(node, 0.0) + now", "now"),
    ("Repair.close", "cluster.outages[node] -= 1", "cluster.outages[node] = 0"),
    ("ExposureClocks.leave", "clock.before += group", "clock.before = group"),
    ("SparePool.ready", "(max(before, now) if self.one_by_one else now)", "now"),
    ("Repair._on_visit_end", "crews.waiting.popleft()", "crews.waiting.pop()"),
    ("SilentFaults._expect", "heals < min(noticed, self.failures.end)", "heals < self.failures.end"),
    ("_fair_shares", "free / (len(ordered) - index)", "free / len(ordered)"),
    ("Account._forget", "piece.degraded *= at_risk / piece.work", "piece.degraded *= 1.0"),
    ("Job.set_pace", "1 / (share * pace) if keeps else 1 / pace", "1 / pace"),
)

CHECKPOINT = (
    ("stepping", "max(save.interval, save.drain)", "save.interval"),
    ("time_to", "max(whole(needed / interval) - 1, 0)", "max(whole(needed / interval), 0)"),
    ("advance", "newest = interval * rate if cycles > 1 else first", "newest = interval * rate"),
    ("Periodic.sound", "(state.at_risk if state.stall_left > 0 else state.draining)", "state.draining"),
    ("filled", "min(checkpoints - 1, limit)", "min(checkpoints, limit)"),
    ("after", "(math.floor(cycles + TIE * (2.0 + cycles)) + 1)", "math.floor(cycles + TIE * (2.0 + cycles))"),
    ("read", "source.rung.fetch if position in source.gone else source.rung.load", "source.rung.load"),
    ("missing", 'damage.lost if rung.store == "disk" else ', ""),
    ("clique_of", "place % jump", "place // clique"),
    ("_Search._can_read", "(number == 0 and self.shelves[index].good)", "self.shelves[index].good"),
)

RECOVERY = (
    ("Ladder._look", "before.work + SAME_WORK", "before.work - SAME_WORK"),
    ("Rung.may_try", "tries < self.budget", "tries <= self.budget"),
    ("Backoff.seconds", "min(tries - 1, 1000)", "min(tries, 1000)"),
    ("ShrinkRejoin._fewest", "replicas // 2 + 1", "replicas // 2"),
    ("RecoveryPhase.count", "members.joiners if self.joiners else members.nodes", "members.nodes"),
    ("RestartSmaller._plan", "spent > self.max_restarts", "spent >= self.max_restarts"),
    ("HotSpare._waits", "more=-self.reschedule.mean_value", "more=self.reschedule.mean_value"),
    ("_scaled_step", "Requeue(step.delay * factor, step.excess", "Requeue(step.delay, step.excess"),
)

STEPS = (
    ("_gemm", " + local_experts * reading)", ")"),
    ("_tensor", "(ranks - 1) / ranks", "ranks / ranks"),
    ("breakdown", "(work.pipeline - 1) * (_fill", "work.pipeline * (_fill"),
    ("_between_copies", "groups = copies // ranks", "groups = copies"),
    ("Workload.stage_layers", "return most - 1, most, most - 1", "return most, most, most - 1"),
    ("rerouted_pace", "whole = microbatches + stages - 1", "whole = microbatches + stages"),
    ("_of_stage", "copies = min(ranks, work.expert_replicas)", "copies = ranks"),
    ("_no_faster", "max(getattr(healthy, name), getattr(slowed, name))", "getattr(slowed, name)"),
    ("_exposed", "constants.data_cover * stage", "constants.data_cover * pipeline"),
    ("node_power", "utilisation * (node.training - node.idle)", "utilisation * node.training"),
)

STATISTICS = (
    ("mean_interval", "t_quantile(confidence, x.size - 1)", "t_quantile(confidence, x.size)"),
    ("ratio_interval", "_std(a - ratio * b)", "_std(a)"),
    ("quantile", "(x.size - 1) * q", "max((x.size + 1) * q - 1, 0)"),
    ("_ranks", "high = n + 1 - sum", "high = n - sum"),
    ("bca_interval", "(6 * (errors**2)", "(3 * (errors**2)"),
    ("binomial_interval", "missed, 0.975", "missed, 0.95"),
    ("replications_to_resolve", "t_quantile(confidence, n - 1)", "t_quantile(confidence, n)"),
    ("of_values", "moved - basis.shape[1])", "moved)"),
    ("two_way", "shares[1] ** 2 / (columns - 1)", "shares[1] ** 2 / (rows - 1)"),
    ("_squared_error", "(parts - 1) * replicates.var(axis=0)", "replicates.var(axis=0)"),
    ("contributions", "ratio + (amounts - ratio * bases) / base", "amounts / bases"),
    ("ControlVariates.of", " + job.excess)", ")"),
)

AREAS = {"engine": ENGINE, "checkpoint": CHECKPOINT, "recovery": RECOVERY, "steps": STEPS, "statistics": STATISTICS}

MUTANTS = {number: Mutant(*row) for number, row in enumerate((row for rows in AREAS.values() for row in rows), 1)}

_ROUNDS = (5.0, 30.0, math.inf)

"""Tests run in rounds, by the sum of the times that they take on the healthy tree [s]."""

_RECORDER = """
import os
import resource
from pathlib import Path

resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))  # some mutants never end
_seen = set()


def _write(name, *values):
    with Path(__file__).with_name(name).open("a", encoding="utf-8") as file:
        file.write("\\t".join(map(str, values)) + "\\n")


def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in _seen:
        _seen.add((number, test))
        _write("hits.tsv", number, test)


def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _write("reports.tsv", report.nodeid, report.duration, report.outcome)
"""

"""A plugin in the copy of the tree: what tests take, and which of them come by a mutant, in processes of theirs too."""


class Reach(NamedTuple):
    """The tests that pass on the healthy tree with their times [s], and those that reach each mutant."""

    seconds: dict[str, float]
    tests: dict[str, list[str]]


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}.{child.name}" if isinstance(child, ast.ClassDef | ast.FunctionDef) else prefix
        if isinstance(child, ast.FunctionDef):
            yield name, child
        yield from _functions(child, name)


@cache
def _sources() -> dict[Path, str]:
    files = (path for package in ("sim", "analysis") for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in files}


def places(mutant: Mutant) -> list[tuple[Path, int]]:
    """Return the one file that a mutant should be in, from the root, and where its snippet begins in the text."""
    found = []
    for path, text in _sources().items():
        if mutant.old not in text:
            continue
        starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
        for name, function in _functions(ast.parse(text)):
            first, last = starts[function.lineno - 1], starts[function.end_lineno or 0]
            if name.endswith("." + mutant.function) and text.count(mutant.old, first, last) == 1:
                found.append((path, text.index(mutant.old, first)))
    return found


def _marked(text: str, lines: dict[int, int]) -> str:
    """Return a module in which the statement at the line of each mutant first says that it is reached."""
    tree = ast.parse(text)
    for number, line in lines.items():
        inside = [
            (block, statement)
            for node in ast.walk(tree)
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
            if isinstance(block, list)
            for statement in block
            if statement.lineno <= line <= statement.end_lineno
        ]
        block, statement = inside[-1]  # the innermost: the walk goes down level by level
        block.insert(block.index(statement), ast.parse(f"__import__('mutant_recorder').hit({number})").body[0])
    return ast.unparse(tree)


def _copy(folder: Path) -> Path:
    """Return a copy of the tree, with the recorder."""
    skipped = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "_build", "runs")
    copy = shutil.copytree(ROOT, folder, symlinks=True, ignore=skipped)
    (copy / "mutant_recorder.py").write_text(_RECORDER, encoding="utf-8")
    return copy


def _pytest(tree: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, list[tuple[str, float, str]]]:
    """Run tests; return the exit code of pytest, ``None`` after the time limit, and test, time and outcome."""
    reports = tree / "reports.tsv"
    reports.write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutant_recorder", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    with (tree / "pytest.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
    rows = (line.split("\t") for line in reports.read_text("utf-8").splitlines())
    return code, [(test, float(seconds), outcome) for test, seconds, outcome in rows]


def reach(jobs: int) -> Reach:
    """Run the suite once, and return which tests come by which mutant."""
    lines: dict[Path, dict[int, int]] = {}
    for number, mutant in MUTANTS.items():
        ((path, place),) = places(mutant)
        lines.setdefault(path, {})[number] = _sources()[path].count("\n", 0, place) + 1
    with TemporaryDirectory() as folder:
        tree = _copy(Path(folder) / "tree")
        for path, marks in lines.items():
            (tree / path).write_text(_marked(_sources()[path], marks), encoding="utf-8")
        _, reports = _pytest(tree, ["-n", str(jobs), "--timeout", "600"], 7200.0)
        hits = (tree / "hits.tsv").read_text("utf-8").splitlines()
    failed = {test for test, _, outcome in reports if outcome == "failed"}
    seconds: dict[str, float] = {}
    for test, duration, _ in reports:
        if test not in failed:
            seconds[test] = seconds.get(test, 0.0) + duration
    tests: dict[str, list[str]] = {str(number): [] for number in MUTANTS}
    for line in dict.fromkeys(hits):
        key, test = line.split("\t")
        if test in seconds:
            tests[key].append(test)
    return Reach(seconds, tests)


def _rounds(number: int, known: Reach) -> Iterator[list[str]]:
    """Yield the tests that reach a mutant, in rounds; last the others of their files, which may share fixtures."""
    reached = Counter(test for tests in known.tests.values() for test in tests)
    mine = known.tests[str(number)]
    files = {test.partition("::")[0] for test in mine}
    left = sorted(mine, key=lambda test: (known.seconds[test] + 0.001) * reached[test])
    for budget in _ROUNDS:
        ends = accumulate(known.seconds[test] for test in left)
        count = max(sum(end <= budget for end in ends), 1)
        yield sorted(left[:count])
        left = left[count:]
    yield sorted(test for test in known.seconds if test.partition("::")[0] in files and test not in set(mine))


def judge(mutant: Mutant, tree: Path, rounds: Iterable[list[str]], limit: float) -> str | None:
    """Return the first test that fails with a mutant in the tree; ``None`` if it survives, "" if time is over."""
    ((path, place),) = places(mutant)
    text, file = _sources()[path], tree / path
    compiled = Path(importlib.util.cache_from_source(str(file)))  # of a mutant as long, and as old to a second
    stop = time.monotonic() + limit
    try:
        file.write_text(text[:place] + mutant.new + text[place + len(mutant.old) :], encoding="utf-8")
        compiled.unlink(missing_ok=True)
        for arguments in filter(None, rounds):
            (tree / "arguments").write_text("\n".join(arguments), encoding="utf-8")
            code, reports = _pytest(tree, ["-x", "-n0", "@arguments"], max(stop - time.monotonic(), 1.0))
            failed = [test for test, _, outcome in reports if outcome == "failed"]
            if failed or code is None:
                return failed[0] if failed else ""
            if code == 2:
                return "collection"
            if code not in (0, 5):  # not all well, and not nothing to run
                raise RuntimeError((tree / "pytest.log").read_text("utf-8"))
        return None
    finally:
        file.write_text(text, encoding="utf-8")
        compiled.unlink(missing_ok=True)


def main() -> int:
    """Run the tests against each mutant, and say which test catches each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", default=list(MUTANTS), metavar="K", help="these mutants alone")
    parser.add_argument("--list", action="store_true", help="say where they are, and run nothing")
    parser.add_argument("--tests", metavar="PATTERN", help="arguments of pytest, instead of the tests that reach them")
    parser.add_argument("--map", type=Path, metavar="FILE", help="which tests reach which mutant: kept, and used again")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--before", type=Path, metavar="FILE", help="results to compare with")
    parser.add_argument("--limit", type=float, default=180.0, metavar="S", help="time for the tests of a mutant [s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    asked = parser.parse_args()
    chosen = {number: MUTANTS[number] for number in asked.only}
    if asked.list:
        for number, mutant in chosen.items():
            print(f"{number:2}  {', '.join(str(path) for path, _ in places(mutant))}  {mutant}")
        return 0
    if astray := [str(mutant) for mutant in MUTANTS.values() if len(places(mutant)) != 1]:
        parser.error("not in one function of the name: " + "; ".join(astray))
    known = None
    if asked.tests is None:
        kept = asked.map is not None and asked.map.exists()
        known = Reach(**json.loads(asked.map.read_text("utf-8"))) if kept else reach(asked.jobs)
        if asked.map is not None:
            asked.map.write_text(json.dumps(known._asdict()), encoding="utf-8")

    def run(number: int) -> dict[str, Any]:
        mutant, tree = chosen[number], trees.get()
        rounds = [shlex.split(asked.tests)] if known is None else _rounds(number, known)
        try:
            caught = judge(mutant, tree, rounds, asked.limit)
        finally:
            trees.put(tree)
        print(f"{number:2}  {mutant}  {caught or ('SURVIVED' if caught is None else 'NOT CAUGHT IN TIME')}", flush=True)
        return {"k": number, **mutant._asdict(), "caught_by": caught}

    with TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for index in range(asked.jobs):
            trees.put(_copy(Path(folder) / f"tree{index}"))
        results = list(pool.map(run, chosen))
    if asked.out is not None:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    caught = {row["k"] for row in results if row["caught_by"]}
    print(f"{len(caught)} of {len(results)} caught")
    before = json.loads(asked.before.read_text("utf-8")) if asked.before is not None else []
    lost = [row for row in before if row["caught_by"] and row["k"] in chosen and row["k"] not in caught]
    for row in lost:
        print(f"no longer caught: {row['k']} {row['function']}, before by {row['caught_by']}")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
