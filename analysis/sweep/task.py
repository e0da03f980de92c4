"""The unit of work of a study: some replications of one point, simulated anywhere, always with the same outcome."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import pickle
import re
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ettrick import sim
from ettrick.analysis.metrics import is_exact
from ettrick.analysis.ratios import ReplicationMetrics, time_shares
from ettrick.analysis.statistics.differences import ControlVariates
from ettrick.analysis.statistics.rows import MetricTable
from ettrick.analysis.study.inputs import Inputs, names_files
from ettrick.sim import cache, plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.sim import Prepared, Result

RESULTS = ("ok", "infeasible")
"""Statuses of tasks that need not be simulated again."""

BLOCK = 10
"""Replications of a task at most; fixed, so that what was done before is found again, whoever did it."""

MAKERS = (
    "fleet.py",
    "metrics.py",
    "parts.py",
    "ratios.py",
    "statistics/differences.py",
    "statistics/estimates.py",
    "statistics/intervals.py",
    "statistics/rows.py",
    "study/inputs.py",
    "sweep/task.py",
)
"""Files of this package that make a record of what was simulated: this one, and what it imports."""


class VersionError(RuntimeError):
    """The processes of a study do not have the same version of the simulator."""


class Task(NamedTuple):
    """Replications ``first``, ``first + 1``, ... of one point.

    Parameters
    ----------
    key
        Address of the outcome, see `key_of`.
    overrides
        Texts ``path=value`` that make its scenario.
    """

    key: str
    point: int
    overrides: tuple[str, ...]
    first: int
    replications: int


class Context(NamedTuple):
    """The context that all tasks of a study share, sent along with each: some kilobytes.

    Parameters
    ----------
    digest
        SHA-256 of its content.
    model
        Which version of the simulator the outcome is of; others refuse to run.
    replications
        How many of all points together are wanted, about: what decides whether machine code is worth its start.
    packages
        Those that bring strategies of the study.
    """

    packed: bytes
    digest: str
    model: str
    replications: int = 0
    packages: tuple[str, ...] = ()


class Record(NamedTuple):
    """The outcome of a task, as it stands in the journal.

    ``status`` is ``ok``; ``infeasible`` where the scenario of the point cannot run; ``failed`` where a file could not
    be read, or the simulation raised an error; ``crashed`` where every process that ran it died. `reason` says why
    it is not ``ok``. `rows` has for each metric the amounts, the bases and, where there are any, the doubts, one each
    per replication; an infinite amount (censored) is ``None``. `notes` has the rest: ``controls``, ``formula``,
    ``no_formula``, ``job_rate``, ``warnings`` and ``exact`` metrics, ``censored`` and ``never_started`` by replication.
    """

    key: str
    point: int
    first: int
    replications: int
    status: str
    reason: str
    seconds: float
    rows: dict[str, list[list[float | None]]]
    notes: dict[str, Any]


def blocks(first: int, count: int) -> list[tuple[int, int]]:
    """Return the tasks that replications ``first`` to ``first + count`` are divided into: first and count of each."""
    edges = [first, *range(first + BLOCK - first % BLOCK, first + count, BLOCK), first + count]
    return [(low, high - low) for low, high in itertools.pairwise(edges)]


@functools.cache
def model_digest(packages: tuple[str, ...] = ()) -> str:
    """Return a digest of all that an outcome depends on but its scenario: those of two versions are never mixed.

    Parameters
    ----------
    packages
        Those that bring strategies of the scenario.
    """
    source, plugin_source = (
        source_digest(Path(cache.__file__).parent, Path(__file__).parents[1]),
        plugins.digest(packages),
    )
    return (
        hashlib.blake2b(f"{source} {plugin_source}".encode(), digest_size=16).hexdigest() if plugin_source else source
    )


def source_digest(simulator: Path, package: Path) -> str:
    """Return a digest of the simulator in a folder, of what makes records in another, and of the versions of both."""
    versions = [metadata.version(name) for name in ("ettrick", "numpy")]
    sources = [*versions, cache.source_digest(simulator), cache.files_digest(package, MAKERS)]
    return hashlib.blake2b(json.dumps(sources).encode(), digest_size=16).hexdigest()


def key_of(context: Context, changes: Sequence[str], first: int, count: int) -> str:
    """Return the address of an outcome: what the simulator, the scenario, its changes and the replications are.

    The changes have digests instead of names of files, see `ettrick.analysis.study.load`.
    """
    content = json.dumps([context.model, context.digest, list(changes), first, count], ensure_ascii=False)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def run_task(context: Context, task: Task) -> Record:
    """Return the outcome of a task.

    Raises
    ------
    VersionError
        If this process has another version of the simulator than the one that gave it the task.
    """
    if context.model != model_digest(context.packages):
        also = f", {', '.join(context.packages)}" if context.packages else ""
        raise VersionError(f"a worker has another version of the simulator{also}: install the same everywhere")
    start = time.perf_counter()
    status, reason = "ok", ""
    rows: dict[str, list[list[float | None]]] = {}
    notes: dict[str, Any] = {}
    try:
        rows, notes = _simulated(context, task)
    except sim.ScenarioError as error:
        status = _verdict(error)
        reason = "; ".join(_without_option(line, task.overrides) for line in error.lines)
    except sim.PathError as error:
        status, reason = _verdict(error), _line(error)
    except sim.EngineError as error:
        status, reason = "infeasible", _line(error)
    except Exception as error:  # of one point among many: the others go on
        blamed = plugins.blame(error)
        status, reason = "failed", str(blamed) if blamed is not None else f"{type(error).__name__}: {_line(error)}"
    if status in RESULTS and not _is_of_the_same_files(context, task):
        status, reason, rows, notes = (
            "failed",
            "a file that it names was changed, or is another one where it ran",
            {},
            {},
        )
    seconds = time.perf_counter() - start
    return Record(task.key, task.point, task.first, task.replications, status, reason, seconds, rows, notes)


def _is_of_the_same_files(context: Context, task: Task) -> bool:
    """Return whether the files that the changes name are here and now what they were when the task was made."""
    if not any(map(names_files, task.overrides)):
        return True
    return task.key == key_of(context, Inputs().with_digests(task.overrides), task.first, task.replications)


def _verdict(error: sim.ScenarioError | sim.PathError) -> str:
    """Return the status of a scenario that cannot run: a broken rule is an answer, a file that is away is none."""
    return "failed" if error.is_of_files else "infeasible"


def _without_option(line: str, overrides: Sequence[str]) -> str:
    """Return a complaint about a setting without the setting as a whole, which may be very long."""
    option = next((f"--set {text}: " for text in overrides if line.startswith(f"--set {text}: ")), "")
    return line.removeprefix(option)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


class _Desk:
    """The state of a process from task to task: the scenario as it was read, and the common part of the last points."""

    def __init__(self, packed: bytes) -> None:
        self.template: sim.Template = pickle.loads(packed)
        self.shared = sim.TraceCache()
        self.last: tuple[tuple[str, ...], Prepared] | None = None

    def prepared(self, overrides: tuple[str, ...], replications: int) -> Prepared:
        """Return the scenario of a point, ready to run and its engine chosen; that of the last task is kept."""
        changes = Inputs().with_digests(overrides)
        if self.last is None or self.last[0] != changes:
            sim.drop_workspaces()
            self.last = changes, sim.with_engine(sim.prepare(self.template.scenario(overrides)), replications)
        return self.last[1]

    def results(self, prepared: Prepared, replications: range) -> Iterable[Result]:
        """Return what comes of replications, those of machine code as columns."""
        if prepared.engine == "compiled":
            return sim.run_block(prepared, replications)
        # Machine code draws faster than failures are looked up; events do not.
        # Whoever asked for the task has looked at how much work all of them are.
        return (
            sim.run(prepared, replication, self.shared.trace(prepared, replication), most_events=math.inf)
            for replication in replications
        )


@functools.lru_cache(maxsize=2)
def _desk(packed: bytes, _digest: str) -> _Desk:
    """Return the desk for a scenario: a new one if a file that it reads has changed."""
    return _Desk(packed)


def _simulated(context: Context, task: Task) -> tuple[dict[str, list[list[float | None]]], dict[str, Any]]:
    """Return rows and notes of a task."""
    desk = _desk(context.packed, context.digest)
    prepared = desk.prepared(task.overrides, max(context.replications, task.replications))
    variates = ControlVariates(prepared)
    table = MetricTable()
    notes: dict[str, list[Any]] = {"controls": [], "censored": [], "never_started": []}
    for result in desk.results(prepared, range(task.first, task.first + task.replications)):
        table.append(ReplicationMetrics(prepared, result).metrics() | time_shares(result))
        notes["controls"] += variates.rows(result)
        notes["censored"] += _jobs_with([job.censored for job in result.jobs], result)
        waiting = [np.isnan(job.start) & (job.arrival < job.end) for job in result.jobs]
        notes["never_started"] += _jobs_with(waiting, result)
    for replication, controls in enumerate(notes["controls"], task.first):
        for number in controls or ():
            _number(number, "controls", replication)
    rows = _columns(table, task.first)
    return rows, notes | (_notes_of_point(prepared, rows) if task.first == 0 else {})


def _jobs_with(holds: Sequence[Any], result: Result) -> list[int]:
    """Return of how many jobs something holds, in each replication of a result."""
    counts: list[int] = np.ravel(sum(holds, np.zeros(np.shape(result.owned), np.int64))).tolist()
    return counts


def _columns(table: MetricTable, first: int) -> dict[str, list[list[float | None]]]:
    """Return amounts and bases of metrics, and doubts where there are any, with a row for each replication."""
    numbers = table.numbers()
    is_infinite = np.isposinf(numbers)
    # What was censored is infinite.
    is_infinite[..., 1:] = False
    for replication, metric, part in np.argwhere(~(np.isfinite(numbers) | is_infinite))[:1].tolist():
        what = ("", "the base of ", "the doubt of ")[part] + table.names[metric]
        _number(numbers[replication, metric, part], what, first + replication)
    rows: dict[str, list[list[float | None]]] = {}
    for name, (amounts, bases, doubts) in zip(table.names, numbers.transpose(1, 2, 0).tolist(), strict=True):
        rows[name] = [[None if amount == math.inf else amount for amount in amounts], bases]
        rows[name] += [doubts] if any(doubts) else []
    return rows


def _notes_of_point(prepared: Prepared, metrics: Iterable[str]) -> dict[str, Any]:
    """Return what is the same in all replications of a point, to be noted once."""
    formula = sim.closed_form(prepared)
    job = prepared.jobs[0] if len(prepared.jobs) == 1 and not prepared.streams else None
    return {
        "formula": None if formula.ettr is None else _number(formula.ettr, "the closed form", 0),
        "no_formula": list(formula.reasons),
        "job_rate": [1 / job.mtti, job.gpus, job.nodes] if job is not None else None,
        "warnings": list(prepared.warnings),
        "exact": [name for name in metrics if is_exact(prepared, name)],
    }


def _number(value: float, what: str, replication: int) -> float:
    """Return a number that the journal can hold."""
    if not math.isfinite(value):
        raise ArithmeticError(f"{what} of replication {replication} is {value:g}, which is a mistake of the simulator")
    return float(value)


# A shard: the part of a study that one of several programs simulates, none of which knows of the others.

_FORM = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``count``, counted from 1.

    Which tasks are its own follows from their keys alone, so that shards need not talk to each other; every task
    belongs to exactly one of them.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as ``3/16`` means."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text}' is not a shard; write I/N, such as 3/16 for the third of sixteen")
        number, count = int(match[1]), int(match[2])
        if not 1 <= number <= count:
            message = f"'{text}' is not a shard; of {count} shards the first is 1/{count} and the last {count}/{count}"
            if count == 0:
                message = f"'{text}' is not a shard; the smallest number of shards is 1"
            raise ValueError(message)
        return cls(number, count)

    def includes(self, key: str) -> bool:
        """Return whether the task with a key, a hexadecimal number, belongs to this shard."""
        return int(key, 16) % self.count == self.number - 1

    def __str__(self) -> str:
        """Return the shard as it is written."""
        return f"{self.number}/{self.count}"
