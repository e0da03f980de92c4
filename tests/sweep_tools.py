"""Tasks of studies for tests: quick ones, deadly ones, and what of an outcome has to be the same everywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.random import default_rng

from ettrick.analysis.optimize.evaluate import Evaluator
from ettrick.analysis.optimize.problem import problem_of
from ettrick.analysis.page.chapters.answers import answers_of
from ettrick.analysis.page.model import plain
from ettrick.analysis.page.sourced import RUN, SourceDocument
from ettrick.analysis.results.run import plain as as_data
from ettrick.analysis.study.axis import Axis
from ettrick.analysis.study.designs import DESIGNS
from ettrick.analysis.study.load import LoadedStudy, load_study
from ettrick.analysis.study.model import QUESTIONS
from ettrick.analysis.study.table import Cell, PointResult, StudyTable
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.document import _axes, _cell
from ettrick.analysis.sweep.task import Context, Record, Task, run_task
from ettrick.analysis.sweep.workers import Backend, Processes
from ettrick.sim import Ratio
from tests import report_sample
from tests.typed import sweep_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.questions.question import Answer

# ----------------------------------------
# Tables of results that a function makes up, so that the right answer to every question is known.


def table_of(
    axes: Mapping[str, Any],
    function: Callable[[dict[str, Any]], Mapping[str, Sequence[float]]],
    *,
    design: Mapping[str, Any] | None = None,
    metrics: tuple[str, ...] = ("ettr",),
) -> StudyTable:
    """Return the table of a study whose metrics are what a function says, one number per replication.

    Parameters
    ----------
    axes
        What varies, as a study writes it, or read already.
    function
        Is given the number of each axis by name, or its label where it has none; an empty answer is a point that
        cannot run.
    """
    varied = {
        name: content if isinstance(content, Axis) else Axis.model_validate(content) for name, content in axes.items()
    }
    worded = {"use": "grid", **(design or {})}
    points = DESIGNS[worded["use"]].model_validate(worded).points(varied, np.random.default_rng(1))
    cells: dict[int, list[PointResult]] = {}
    for point in points:
        cells.setdefault(point.cell, []).append(_outcome(varied, point, function))
    found = tuple(Cell(first, tuple(rest)) for first, *rest in cells.values())
    return StudyTable(varied, found, metrics, 1)


def _outcome(axes: Mapping[str, Axis], point: Point, function: Callable[[dict[str, Any]], Any]) -> PointResult:
    where = {
        name: value.label if value.number is None else value.number
        for name, value in zip(axes, point.values, strict=True)
    }
    rows = function(where)
    if not rows:
        return PointResult(point, status="infeasible", trouble="no room for the job")
    return PointResult(point, {name: [Ratio(value, 1.0) for value in values] for name, values in rows.items()})


def broken(table: StudyTable, number: int, **changes: Any) -> StudyTable:
    """Return a table of which one cell has another outcome."""
    cells = list(table.cells)
    cells[number] = dataclasses.replace(cells[number], stated=dataclasses.replace(cells[number].stated, **changes))
    return dataclasses.replace(table, cells=tuple(cells))


def common_noise(count: int, size: float = 0.01, seed: int = 5) -> np.ndarray:
    """Return numbers with the mean zero that all points have in common: the same failures."""
    noise = np.random.default_rng(seed).normal(size=count)
    return size * (noise - noise.mean()) / noise.std(ddof=1)


def ask(table: StudyTable, **question: Any) -> Answer:
    """Return the answer of a table to a question as a study writes it, checked as a study would."""
    found = QUESTIONS[question["use"]].model_validate(question)
    found.check(table.axes, table.metrics)
    return found.answer(table)


def worded(table: StudyTable, **question: Any) -> tuple[str, list[list[str]]]:
    """Return the answer of a table in words, and the rows of its table; of a silent answer the reason."""
    answer = ask(table, **question)
    cells = [as_data(_cell(table, number, cell, None)) for number, cell in enumerate(table.cells)]
    content = {
        "axes": {name: as_data(axis) for name, axis in _axes(table).items()},
        "cells": cells,
        "metrics": list(table.metrics),
        "currency": table.currency or None,
        "scenario": "today",
        "answers": [{**question, "sentences": [answer.silence], "data": answer.data}],
    }
    found = answers_of(SourceDocument(RUN, sweep_of(json.loads(json.dumps(content)))))
    if not found:
        return answer.silence, []
    ((_, one),) = found
    return plain(one.answer), [] if one.table is None else [list(row) for row in one.table.rows]


# ----------------------------------------
# A campaign that simulates nothing: what each replication comes to is a function that a test writes down.

INTERVAL = "checkpoint.tiers.0.interval"

START = {INTERVAL: "20 min", "checkpoint.tiers.0.mode": "blocking", "spares.hot": 2, "detection.time": "2 min"}

"""What the scenario says where a point says nothing."""


@dataclass(frozen=True)
class FakeCampaign(Campaign):
    """Answers with ``function(settings, rng)`` for each replication; the generator is the same for all points.

    ``ValueError`` of the function is a point that cannot run. Metrics of `exact` have no chance in them. Sizes of what
    was asked for at once are in `simulated`.
    """

    function: Callable[[dict[str, Any], Any], dict[str, float]] = lambda _settings, _rng: {}
    exact: frozenset[str] = frozenset()
    simulated: list[int] = field(default_factory=list)

    def simulate(self, points: Iterable[Point], replications: int) -> None:
        """Note how many points were asked for."""
        self.simulated.append(len(list(points)))

    def outcome(self, point: Point, replications: int, metrics: Sequence[str] = ()) -> PointResult:
        """Return what the function says."""
        texts = (text.partition("=") for text in self.loaded.overrides(point))
        settings = START | {path: json.loads(text) for path, _, text in texts}
        seed = settings.get("seed", 1)
        rows: dict[str, list[Ratio]] = {}
        try:
            for number in range(replications):
                for name, value in self.function(settings, default_rng([seed, number])).items():
                    if not metrics or name in metrics:
                        rows.setdefault(name, []).append(Ratio(value, 1.0))
        except ValueError as error:
            return PointResult(point, trouble=str(error))
        return PointResult(point, rows, exact=self.exact)


def study_of(folder: Path, *overrides: str, **changes: Any) -> LoadedStudy:
    """Return a study of the small scenario, with top-level keys added."""
    (folder / "small.yaml").write_text(report_sample.YAML)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "study", "scenario": "small.yaml", **changes}, sort_keys=False))
    return load_study(path, overrides)


def bench_of(
    loaded: LoadedStudy, function: Callable[[dict[str, Any], Any], dict[str, float]], runs: int = 16
) -> Evaluator:
    """Return where the points of a study are tried, without a simulation."""
    campaign = FakeCampaign(loaded, None, None, function=function)  # type: ignore[arg-type]
    return Evaluator(problem_of(loaded), campaign, runs)


CONTEXT = Context(b"", "", "")

"""For tasks that simulate nothing."""

_STUDY = """\
name: small
scenario: quickstart
set: {horizon: 3 d}
vary:
  spares.hot: {choices: [0, 2, 4]}
  checkpoint.tiers.0.interval: {choices: [15 min, 1 h]}
replications: 12
"""


def small_study(folder: Path) -> LoadedStudy:
    """Return a study of 6 points with 12 replications each: 12 tasks, of some milliseconds each."""
    path = folder / "small.yaml"
    path.write_text(_STUDY, encoding="utf-8")
    return load_study(path)


def tasks_of(campaign: Campaign) -> list[Task]:
    """Return the tasks of a small study."""
    return [task for point in campaign.loaded.points() for task in campaign.tasks(point, 12)]


def numbered(count: int) -> list[Task]:
    """Return tasks with nothing but their number."""
    return [Task(f"{number:032x}", number, (), 0, 1) for number in range(count)]


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; a minute is long enough on any machine."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def comparable(record: Record) -> Record:
    """Return an outcome without the time that it took, which is nobody's business."""
    return record._replace(seconds=0.0)


def noted_of_sweep_tools(context: Context, task: Task) -> Record:
    """Return an outcome that names its task, without a simulation."""
    return Record(task.key, task.point, task.first, task.replications, "ok", "", 0.0, {"x": [[task.point], [1]]}, {})


def slow(context: Context, task: Task, folder: Path) -> Record:
    """Return an outcome after a while, and leave the number of the process in a folder before."""
    (folder / str(os.getpid())).touch()
    time.sleep(0.05)
    return noted_of_sweep_tools(context, task)


def asleep(context: Context, task: Task, folder: Path) -> Record:
    """Leave the number of the process in a folder, and do not come back."""
    (folder / str(os.getpid())).touch()
    time.sleep(300)
    return noted_of_sweep_tools(context, task)


def soon_asleep(context: Context, task: Task, folder: Path) -> Record:
    """Return the first outcomes, but none from task 4 on."""
    return noted_of_sweep_tools(context, task) if task.point < 4 else asleep(context, task, folder)


def kills_once(context: Context, task: Task, folder: Path) -> Record:
    """Kill the process at task 77, but only the first time."""
    if task.point == 77:
        with contextlib.suppress(FileExistsError):
            (folder / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return noted_of_sweep_tools(context, task)


def kills_always(context: Context, task: Task, folder: Path) -> Record:
    """Kill the process at task 7, and leave it at task 11."""
    with (folder / str(task.point)).open("a") as file:
        file.write("x")
    if task.point == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if task.point == 11:
        os._exit(5)
    return noted_of_sweep_tools(context, task)


def run_slowly(context: Context, task: Task, folder: Path) -> Record:
    """Return the outcome of a simulation, after a while."""
    time.sleep(0.1)
    return run_task(context, task)


class Instead(Backend):
    """A place where something else is simulated than a simulation.

    Parameters
    ----------
    place
        The real one.
    work
        What is called, a function of this file, with the context, the task and a folder.
    folder
        Where it may leave something.
    """

    def __init__(self, place: Backend, work: Callable[..., Record], folder: Path) -> None:
        self.place, self.work, self.folder = place, work, folder
        self.name, self.attempts = place.name, place.attempts
        self.most = 0
        self.flying: set[Future[Record]] = set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the outcome of the work instead; `most` is how many were in flight."""
        future = self.place.submit(self.work, *args, self.folder)
        self.flying = {earlier for earlier in self.flying if not earlier.done()} | {future}
        self.most = max(self.most, len(self.flying))
        return future

    def window(self) -> int:
        """Return that of the real place."""
        return self.place.window()

    def death(self, error: BaseException) -> Any:
        """Return that of the real place."""
        return self.place.death(error)

    def check(self) -> None:
        """Check the real place."""
        self.place.check()

    @contextlib.contextmanager
    def alone(self) -> Iterator[Backend]:
        """Yield the same work at the real place for one."""
        with self.place.alone() as place:
            yield Instead(place, self.work, self.folder)

    def stop(self) -> None:
        """Stop the real place."""
        self.place.stop()


def main(folder: Path) -> None:
    """Play tasks that never end on two processes, for tests that interrupt or kill this program."""
    from ettrick.analysis.sweep.workers import WorkerPool

    for _ in WorkerPool(Instead(Processes(2), asleep, folder)).run(numbered(20), CONTEXT):
        pass


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
