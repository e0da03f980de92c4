"""The data of a report: the documents of a folder, its tables, and the scenarios that are examined closely."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import math
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import phrases
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.fleet import FEWEST_REPLICATIONS
from ettrick.analysis.page.chapters.answers import chosen_cells
from ettrick.analysis.page.sourced import COMPARE, FIT, OPTIMIZE, RUN, SENSITIVITY, VALIDATE
from ettrick.analysis.results.documents import DocumentMistakeError, ValidateDocument, read_document, with_todays_names
from ettrick.analysis.results.fitted import FitDocument, LivesDocument
from ettrick.analysis.results.models import CompareDocument, RunDocument
from ettrick.analysis.results.run import checksum, document, scenario_digest
from ettrick.analysis.results.studies import OptimizeDocument, SensitivityDocument, SweepDocument
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.load import RESOLVED, load_study
from ettrick.sim import catalog
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.steps import checkpoint_size
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ettrick.analysis.parts import Document
    from ettrick.analysis.results.ensemble import Ensemble
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.sim import Prepared, PreparedJob, Scenario

# ----------------------------------------
# One scenario of a report, looked at closely: simulated again, for what the results leave out.

# Replications that are simulated again at most: enough for how a run looks; means come from the results.
MOST_REPLICATIONS = 16
_FEWEST_WINDOWS, _MOST_WINDOWS = 5, 10_000


@dataclass(frozen=True)
class ReplayedScenario:
    """A scenario that is simulated again: the same numbers as in the results, for every replication can be replayed."""

    name: str  # what it is called: the values of its axes, or the name of the scenario
    scenario: Scenario  # what is simulated
    wanted: int  # replications in the results
    stored_document: RunDocument | None = None  # its document, where the results hold all of it
    # Called with the number of replications done and the total.
    progress: Callable[[int, int | None], None] | None = None

    @property
    def replications(self) -> int:
        """The number of replications to simulate again: the first of those in the results."""
        return min(self.wanted, FEWEST_REPLICATIONS if self.scenario.streams else MOST_REPLICATIONS)

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The scenario, ready to be simulated; with windows of a day where it states none and a day is short enough."""
        windows = self.scenario.width
        if (
            windows is None
            and not self.scenario.streams
            and _FEWEST_WINDOWS <= self.scenario.horizon / DAY <= _MOST_WINDOWS
        ):
            windows = DAY
        return sim.prepare(self.scenario.model_copy(update={"windows": windows}))

    @functools.cached_property
    def ensemble(self) -> Ensemble:
        """The replications, with a log of nodes that were down; of streams none, for it would have every job."""
        return replicate(
            self.prepared,
            self.replications,
            keeps_log=not self.scenario.streams,
            progress=self.progress,
            processes=1,
            most_events=math.inf,  # it has been simulated before
        )

    @functools.cached_property
    def document(self) -> RunDocument:
        """The document of a run of it: as in the results, or of the replications that are simulated again."""
        return document(self.ensemble, command="") if self.stored_document is None else self.stored_document


# ----------------------------------------
# A folder of results: which command left it, and its documents.

STUDY_RESOLVED = "study.resolved.yaml"
VARIANT = "variant-{}.resolved.yaml"

# By kind of results, in order of precedence: its file, and keys that tell it from others.
_KEYS = {
    "run": (RUN, {"scenario", "metrics", "time_shares", "loss_gpu_s"}),
    "sweep": (RUN, {"study", "axes", "cells", "answers"}),
    "compare": (COMPARE, {"variants", "first", "headline"}),
    "sensitivity": (SENSITIVITY, {"study", "tornado", "indices"}),
    "optimize": (OPTIMIZE, {"study", "aims", "trials"}),
    "validate": (VALIDATE, {"groups", "counts", "not_checked"}),
    "fit": (FIT, {"causes", "clustering", "node_days_up"}),
    "lives": (FIT, {"batches", "not_known"}),
}


class ReportError(ValueError):
    """There is nothing to report; the message is one line without the place."""


class FolderResults(NamedTuple):
    """The content of a folder."""

    folder: Path  # where it is
    # The command that the report is about: ``run``, ``compare``, ``sweep``, ``sensitivity``, ``optimize``,
    # ``validate``, ``fit`` or ``lives``. Of several in one folder the first of these.
    kind: str
    documents: Mapping[str, Any]  # what each command left, by the name of its file

    @property
    def file(self) -> str:
        """Name of the main document."""
        return _KEYS[self.kind][0]

    @property
    def main(self) -> Any:
        """The main document."""
        return self.documents[self.file]


def read_results(folder: Path) -> FolderResults:
    """Return what a folder holds.

    Raises
    ------
    ReportError
        If it is no folder, holds no results, or a document cannot be read.
    """
    if not os.path.isdir(folder):  # noqa: PTH112  (no error for a name that no folder can have)
        is_there = os.path.exists(folder)  # noqa: PTH110
        raise ReportError("is a file; name the folder that holds the results" if is_there else "no such folder")
    names = dict.fromkeys(name for name, _ in _KEYS.values())
    documents = {name: _read(folder / name) for name in names if (folder / name).is_file()}
    kinds = [kind for kind, (name, keys) in _KEYS.items() if name in documents and keys <= documents[name].keys()]
    for kind in kinds:
        _check(kind, documents[_KEYS[kind][0]])
    if kinds:
        return FolderResults(folder, kinds[0], documents)
    if documents:
        raise ReportError(
            f"{next(iter(documents))} is not a document that this version of Ettrick writes: write the results again"
        )
    if (folder / "journal.jsonl").is_file():
        raise ReportError("holds a study that is not finished: go on with the same ettrick sweep command first")
    message = (
        "holds no results; ettrick run, compare, sweep, sensitivity, optimize, validate and fit leave them with --out"
    )
    raise ReportError(message)


@contextlib.contextmanager
def damage_in_a_line(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with a folder into `ReportError`, unless everything in it is as it was written.

    What a report needs is checked on reading; this is for documents of earlier versions, which have no checksum, and
    for scenarios and studies that are not those of the document next to them.
    """
    try:
        yield
    except ReportError:
        raise
    except (sim.ScenarioError, RuleError) as error:  # of a scenario or a study that is not the one that was written
        raise ReportError(" ".join(str(error).split())) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        results = read_results(folder)
        if _is_whole(results):
            raise
        worded = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReportError(
            f"{results.file}: no report can be made of it and of the other files of its folder ({worded}); write the "
            "results again"
        ) from None


def _is_whole(results: FolderResults) -> bool:
    """Return whether all documents have checksums, and scenarios and study next to them are those that they are of."""
    if not all("sha256" in content["provenance"] for content in results.documents.values()):
        return False
    folder, main = results.folder, results.main
    if results.kind == "run":
        return bool(scenario_digest(sim.load(folder / RESOLVED)) == main["provenance"]["scenario_sha256"])
    if results.kind == "compare":
        digests = [variant["scenario_sha256"] for variant in main["variants"].values()]
        scenarios = (sim.load(folder / VARIANT.format(number)) for number in range(1, len(digests) + 1))
        return [scenario_digest(scenario) for scenario in scenarios] == digests
    if results.kind == "validate":
        return True
    study = load_study(folder / STUDY_RESOLVED)
    is_same = study.digest == main["provenance"]["scenario_sha256"]
    return bool(is_same and main["axes"].keys() <= study.study.vary.keys())


def _check(kind: str, content: dict[str, Any]) -> None:
    """Raise an error about a document of which no report can be made, or that is not as it was written."""
    name = _KEYS[kind][0]
    try:
        models: dict[str, type[Document]] = {"fit": FitDocument, "lives": LivesDocument}
        read_document(kind, content, models.get(kind))
    except DocumentMistakeError as error:
        raise ReportError(f"{name}: {error}; write the results again") from None
    if content["provenance"].get("sha256", checksum(content)) != checksum(content):
        message = f"{name}: was changed after it was written (provenance.sha256 does not fit); write the results again"
        raise ReportError(message)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError):
        raise ReportError(f"{path.name} cannot be read") from None
    if not isinstance(content, dict):
        raise ReportError(f"{path.name} is not a document of Ettrick")
    provenance, sealed = content.get("provenance"), checksum(content)
    if with_todays_names(content) and isinstance(provenance, dict) and provenance.get("sha256") == sealed:
        provenance["sha256"] = checksum(content)
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and its like are no JSON


# ----------------------------------------
# All that a report is made of.


@dataclass(frozen=True)
class ReportData:
    """The data of sections and openings. Slow parts are made when they are asked for, and once."""

    results: FolderResults  # the documents, and the command that the report is about
    # Called with the number of replications done and the total, while a scenario is simulated again.
    progress: Callable[[int, int | None], None] | None = None

    @property
    def kind(self) -> str:
        """The command that the report is about."""
        return self.results.kind

    @property
    def main(self) -> Any:
        """The document that the report is about."""
        return self.results.main

    @functools.cached_property
    def run(self) -> RunDocument:
        """The document that the report is about, where it is of a run."""
        return RunDocument.model_validate(self.main)

    @functools.cached_property
    def comparison(self) -> CompareDocument:
        """The document that the report is about, where it is of a comparison."""
        return CompareDocument.model_validate(self.main)

    @functools.cached_property
    def validation(self) -> ValidateDocument:
        """The document that the report is about, where it is of a validation."""
        return ValidateDocument.model_validate(self.main)

    @functools.cached_property
    def sweep_document(self) -> SweepDocument:
        """The document of the sweep, where the folder has one."""
        return SweepDocument.model_validate(self.of(RUN))

    @functools.cached_property
    def sensitivity_document(self) -> SensitivityDocument:
        """The document of the sensitivity, where the folder has one."""
        return SensitivityDocument.model_validate(self.of(SENSITIVITY))

    @functools.cached_property
    def optimize_document(self) -> OptimizeDocument:
        """The document of the optimisation, where the folder has one."""
        return OptimizeDocument.model_validate(self.of(OPTIMIZE))

    @property
    def sweep(self) -> SweepDocument | None:
        """The document of the sweep in the folder, if there is one."""
        return self.sweep_document if "cells" in (self.of(RUN) or ()) else None

    @property
    def sensitivity(self) -> SensitivityDocument | None:
        """The document of a sensitivity in the folder, if there is one."""
        return None if self.of(SENSITIVITY) is None else self.sensitivity_document

    @property
    def optimization(self) -> OptimizeDocument | None:
        """The document of an optimisation in the folder, if there is one."""
        return None if self.of(OPTIMIZE) is None else self.optimize_document

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return self.results.folder

    def of(self, name: str) -> Any | None:
        """Return another document of the folder, such as ``sensitivity.json``; ``None`` if it is not there."""
        return self.results.documents.get(name)

    @property
    def study(self) -> LoadedStudy | None:
        """The study; ``None`` where the results are not of one."""
        return self.loaded_study if self.kind in ("sweep", "sensitivity", "optimize") else None

    @functools.cached_property
    def loaded_study(self) -> LoadedStudy:
        """The study, where the results are of one."""
        try:
            return load_study(self.folder / STUDY_RESOLVED)
        except sim.ScenarioError as error:
            raise ReportError(str(error)) from None

    @functools.cached_property
    def common_settings(self) -> list[str]:
        """The settings of a study at every point, and the central values of what is unknown."""
        study = self.study
        if study is not None and study.study.is_listed:  # it has no points of a design
            central = [axis.at(name, 0.5) for name, axis in study.study.vary.items() if axis.is_uncertain]
            return [*study.common, *Point(0, 0, 0, tuple(central)).overrides]
        point = None if study is None else next(iter(study.points()), None)
        if study is None or point is None:
            return []
        axes = study.study.vary.values()
        unknown = [value for axis, value in zip(axes, point.values, strict=True) if axis.is_uncertain]
        return [*study.common, *point._replace(values=tuple(unknown)).overrides]

    @functools.cached_property
    def focus(self) -> ReplayedScenario | None:
        """The scenario of named jobs that is looked at closely; ``None`` without one, of streams and of services."""
        scenario = self.scenario
        return None if scenario is None or scenario.streams or scenario.services else self.looked_at

    @property
    def scenario(self) -> Scenario | None:
        """The scenario that was run, or that answers the question; ``None`` without one."""
        return None if self.looked_at is None else self.looked_at.scenario

    @functools.cached_property
    def looked_at(self) -> ReplayedScenario | None:
        """The scenario that was run, or that answers the question, of streams too; ``None`` without one."""
        if self.kind == "run":
            return self._focus(self.run.scenario, self._scenario(RESOLVED), self.run.replications, self.run)
        if self.kind == "compare":
            return self._variant((*self.comparison.order, self.comparison.first)[0])
        if self.kind == "validate":
            return None
        if self.sweep is not None:
            return None if self.chosen is None else self.cell(self.chosen[0])
        return self._center()

    @functools.cached_property
    def chosen(self) -> tuple[int, int | None] | None:
        """The cell of the sweep to examine closely, and the cell to compare it with."""
        return None if self.sweep is None else chosen_cells(self.sweep)

    @functools.cached_property
    def against(self) -> ReplayedScenario | None:
        """The cell to compare with; ``None`` where there is nothing."""
        if self.kind == "compare":
            names, focus = list(self.comparison.variants), self.focus
            rival = next((name for name in names if focus is None or name != focus.name), None)
            return None if rival is None else self._variant(rival)
        chosen = self.chosen if self.kind == "sweep" else None
        return None if chosen is None or chosen[1] is None else self.cell(chosen[1])

    def cell(self, number: int) -> ReplayedScenario:
        """Return a cell of the sweep, at the central values of what is unknown."""
        sweep, study = self.sweep_document, self.loaded_study
        cell = sweep.cells[number]
        point = next((point for point in study.points() if point.number == cell.point), None)
        if point is None:
            raise ReportError(f"{STUDY_RESOLVED}: has no point {cell.point}: it is not the study of {RUN}")
        return self._focus(_name(sweep.axes, cell.values), study.scenario(point), cell.replications)

    @functools.cached_property
    def table(self) -> list[dict[str, str]]:
        """The rows of ``results.csv``: one for each replication of each point; empty without this file.

        See docs/reference/study-folder.md for the columns; all cells are text.
        """
        path = self.folder / "results.csv"
        if self.sweep is None or not path.is_file():
            return []
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                rows = list(reader)
        except (OSError, ValueError, csv.Error) as error:
            raise ReportError(f"{path.name} cannot be read ({error})") from None
        for number, row in enumerate(rows, start=2):
            mistake = _mistake_in(row)
            if mistake is not None:
                message = f"{path.name}:{number}: {mistake} is not what ettrick sweep writes; write the results again"
                raise ReportError(message)
        return rows

    def _focus(
        self, name: str, scenario: sim.Scenario, wanted: int, stored_document: RunDocument | None = None
    ) -> ReplayedScenario:
        return ReplayedScenario(name, scenario, wanted, stored_document, self.progress)

    def _variant(self, name: str) -> ReplayedScenario:
        number = list(self.comparison.variants).index(name) + 1
        return self._focus(name, self._scenario(VARIANT.format(number)), self.comparison.replications)

    def _center(self) -> ReplayedScenario | None:
        study = self.loaded_study
        if self.kind == "sensitivity":
            document, vary = self.sensitivity_document, study.study.vary
            labels = document.center.values
            values = tuple(vary[axis].written(axis, [_content(vary[axis], label)])[0] for axis, label in labels.items())
            scenario = study.scenario(Point(0, 0, 0, values))
            return self._focus("all inputs at their centres", scenario, document.replications)
        optimum = self.optimize_document
        if optimum.answer is None:
            return None
        scenario = study.template.scenario([*self.common_settings, *optimum.settings])
        return self._focus(_name(optimum.axes, optimum.answer.values), scenario, optimum.replications)

    def _scenario(self, name: str) -> sim.Scenario:
        try:
            return sim.load(self.folder / name)
        except sim.ScenarioError as error:
            raise ReportError(str(error)) from None


# Columns of whole numbers of a sweep's table; what follows ``replication`` are numbers, or nothing.
_WHOLE = ("point", "cell", "draw", "replication", "censored", "never_started")


def _mistake_in(row: Mapping[str | None, str | None]) -> str | None:
    """Return the column of a row that holds something else than a sweep writes, or what else is wrong with it."""
    names = list(row)
    if None in row or None in row.values() or not set(_WHOLE) <= set(names):
        return "a row"
    for name in names[names.index("replication") :]:
        try:
            if row[name] and not math.isfinite(float(row[name] or 0)):
                return name
        except ValueError:
            return name
    return next((name for name in _WHOLE if not re.fullmatch("[0-9]{1,15}", row[name] or "")), None)


def _content(axis: Axis, label: str) -> str | float:
    """Return a label as a study would write the value: a bare number is one."""
    try:
        return label if axis.choices is not None else float(label)
    except ValueError:
        return label


def _name(axes: Mapping[str, Any], values: Mapping[str, str]) -> str:
    return phrases(values, [axis for axis in axes if axis in values], axes)


# ----------------------------------------
# A scenario with more of everything, or with less frequent failures: for closed forms, which are worked out at once.


class InterruptionRates(NamedTuple):
    """The rate of interruptions of the first job of a scenario, and its growth with the size of the job."""

    gpus: int  # size of the job [-]
    fixed: float  # interruptions by what comes once a job, whatever its size [1/s]
    growing: float  # interruptions by all else, at this size [1/s]

    def mtti(self, gpus: float) -> float:
        """Return the mean time between interruptions of a job of a size [s]; infinite without any."""
        rate = self.fixed + self.growing * gpus / self.gpus
        return 1 / rate if rate > 0 else math.inf


def interruption_rates(prepared: Prepared, counted: str = "") -> InterruptionRates | None:
    """Return the rates of the first job; ``None`` where they cannot be distinguished.

    `counted` is a failure bundle of the catalog: its causes alone; empty for all of the scenario.
    """
    job = prepared.jobs[0]
    of_job = {source.name for source in prepared.sources if source.part == "job"}
    entries = [entry for entry in _written_out(prepared) if not counted or entry[0] == counted]
    fixed = _rate(prepared, [entry for _, entry in entries if getattr(entry, "name", "") in of_job])
    total = 1 / job.mtti if not counted else _rate(prepared, [entry for _, entry in entries])
    return None if fixed is None or total is None else InterruptionRates(job.gpus, fixed, max(total - fixed, 0.0))


def at_size(prepared: Prepared, gpus: float) -> Prepared | None:
    """Return the scenario with a first job of about so many GPUs, and as much more or less of everything else.

    Jobs, nodes, spares and parts grow together, replicas too; the time of a step, saves and the model stay. Intervals
    between saves that a rule chooses are chosen again. ``None`` where its rates cannot be distinguished.
    """
    rates = interruption_rates(prepared)
    if rates is None:
        return None
    first = prepared.jobs[0]
    ratio = max(round(first.nodes * gpus / first.gpus), 1) / first.nodes
    changes: dict[str, Any] = {
        "nodes": round(prepared.nodes * ratio),
        "sources": tuple(
            source if source.part == "job" else replace(source, units=max(round(source.units * ratio), 1))
            for source in prepared.sources
        ),
        "reserves": {
            name: pool._replace(nodes=math.ceil(pool.nodes * ratio)) for name, pool in prepared.reserves.items()
        },
    }
    mtti = rates.mtti(first.gpus * ratio)
    changes["jobs"] = tuple(_job(prepared, job, ratio, mtti * job.mtti / first.mtti) for job in prepared.jobs)
    if prepared.withheld:
        serving = sum(owner.nodes for owner in (*changes["jobs"], *changes["reserves"].values()))
        changes["withheld"] = max(changes["nodes"] - serving, 0)
    return replace(prepared, **changes)


def at_rate(prepared: Prepared, factor: float) -> Prepared:
    """Return the scenario with a `factor` times as long between failures of every cause [-].

    Intervals between saves that a rule chooses are chosen again.
    """
    sources = tuple(
        source if source.law is None else replace(source, law=source.law.scaled(factor)) for source in prepared.sources
    )
    jobs = tuple(_job(prepared, job, 1.0, factor * job.mtti) for job in prepared.jobs)
    # Without its bundles the formula does not ask, each time, what else they might grow with.
    scenario = prepared.scenario.model_copy(update={"failures": ()})
    return replace(prepared, scenario=scenario, sources=sources, jobs=jobs)


def shares_of(prepared: Prepared) -> dict[str, float] | None:
    """Return the expected shares of the time of all jobs by bucket [-], and nothing else of the closed form.

    Those of `ettrick.sim.closed_form`, weighted by GPUs as there; ``None`` if no formula describes the recovery.
    """
    formula = sim.job_shares(prepared, only_where_it_applies=False)
    if formula is None:
        return None
    gpus = sum(job.gpus for job in prepared.jobs)
    shares: dict[str, float] = {}
    for job in prepared.jobs:
        for name, share in formula(job).items():
            shares[name] = shares.get(name, 0.0) + share * job.gpus / gpus
    return shares


def with_nodes_at_hand(prepared: Prepared) -> Prepared:
    """Return the scenario as a formula sees it that knows of no waits for nodes."""
    # Of a repair without a law, is not known how long it keeps a node away: then the formula leaves waits out.
    sources = tuple(
        replace(source, repair=None) if source.repair is not None and source.repair.mean_value > 0 else source
        for source in prepared.sources
    )
    return replace(prepared, sources=sources)


def _job(prepared: Prepared, job: PreparedJob, ratio: float, mtti: float) -> PreparedJob:
    """Return a job of another size [-] and mean time to interrupt [s]."""
    nodes = max(round(job.nodes * ratio), 1)
    sized = replace(
        job, gpus=nodes * prepared.gpus_per_node, nodes=nodes, replicas=max(round(job.replicas * ratio), 1), mtti=mtti
    )
    return replace(sized, checkpoint=_checkpoint(prepared, sized))


def _checkpoint(prepared: Prepared, job: PreparedJob) -> Any:
    """Return the checkpoints of a job of another size; those that it has where they cannot be worked out again."""
    current: Any = job.checkpoint
    checkpoint = prepared.scenario.checkpoint
    size = checkpoint_size(job.plan.work.shape) if job.plan is not None else None
    try:
        pauses, shape = getattr(current, "pauses", ()), {"nodes": job.nodes, "replicas": job.replicas}
        return checkpoint.build(job.mtti, job.step_time, **shape, size=size, periodic=pauses)
    except RuleError:
        return current


def _written_out(prepared: Prepared) -> list[tuple[str, Any]]:
    """Return the entries of ``failures``, with the causes of a bundle in its place, each with what it was named by."""
    entries: list[tuple[str, Any]] = []
    scenario = prepared.scenario
    gpus = scenario.cluster.gpus_of_a_node
    for entry in scenario.failures:
        choice: Any = entry
        is_bundle = choice.use in catalog.bundles()
        causes = choice.expand(catalog.bundle(choice.use), scenario.repair, gpus) if is_bundle else [choice]
        entries += [(choice.use, cause) for cause in causes]
    return entries


def _rate(prepared: Prepared, entries: list[Any]) -> float | None:
    """Return how often some entries alone interrupt the first job [1/s]; ``None`` where they cannot be alone."""
    if not entries:
        return 0.0
    try:
        alone = sim.examine(prepared.scenario.model_copy(update={"failures": tuple(entries)}))
    except sim.PathError:
        return None
    return 1 / alone.jobs[0].mtti
