"""What a report is made of: the documents of a folder, its tables, and the scenarios that are looked at closely."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import math
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import sim
from analysis.amounts import phrases
from analysis.metrics import lower_is_better
from analysis.results.models import (
    CompareDocument,
    Document,
    DocumentMistakeError,
    RunDocument,
    ValidateDocument,
    read_document,
    with_todays_names,
)
from analysis.results.run import checksum, document, scenario_digest
from analysis.runs import replicate
from analysis.study.amounts import Point
from analysis.study.load import RESOLVED, load_study
from sim import catalog
from sim.scenario.fields import RuleError
from sim.steps import checkpoint_size
from sim.units import DAY

_Typed = TypeVar("_Typed", bound=Document)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from analysis.runs import Ensemble
    from analysis.study.axis import Axis
    from analysis.study.load import LoadedStudy
    from sim import Prepared, PreparedJob, Result, Scenario

    Labels = Mapping[str, str]
    Pair = tuple[Labels, Labels]

# ----------------------------------------
# One scenario of a report, looked at closely: played again, so that all can be told of it that results leave out.

MOST_REPLICATIONS = 16

"""Replications that are played again at most: enough for how a run looks; means come from the results."""


_FEWEST_WINDOWS, _MOST_WINDOWS = 5, 10_000


@dataclass(frozen=True)
class Focus:
    """One scenario, played again: the same numbers as in the results, because every replication can be replayed.

    Parameters
    ----------
    name
        What it is called: the values of its axes, or the name of the scenario.
    scenario
        What is played.
    wanted
        Replications in the results.
    known
        Its document, where the results hold all of it.
    progress
        Called with the number of replications done and the total.
    """

    name: str
    scenario: Scenario
    wanted: int
    known: RunDocument | None = None
    progress: Callable[[int, int | None], None] | None = None

    @property
    def replications(self) -> int:
        """How many are played again: the first of those in the results."""
        return min(self.wanted, MOST_REPLICATIONS)

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The scenario, ready to be played; with windows of a day where it states none and a day is short enough."""
        windows = self.scenario.windows
        if windows is None and _FEWEST_WINDOWS <= self.scenario.horizon / DAY <= _MOST_WINDOWS:
            windows = DAY
        return sim.prepare(self.scenario.model_copy(update={"windows": windows}))

    @functools.cached_property
    def ensemble(self) -> Ensemble:
        """Its replications, with a log of when nodes were down."""
        return replicate(
            self.prepared,
            self.replications,
            keeps_log=True,
            progress=self.progress,
            processes=1,
            most_events=math.inf,  # it has been simulated before
        )

    @functools.cached_property
    def document(self) -> RunDocument:
        """The document of a run of it: as in the results, or of the replications that are played again."""
        return document(self.ensemble, command="") if self.known is None else self.known

    @functools.cached_property
    def typical(self) -> Result:
        """The replication whose ETTR is the median of those played again (the lower one of two), with its timeline."""
        ratios = [row["ettr"] for row in self.ensemble.rows]
        each = [ratio.amount / ratio.base if ratio.base else 0.0 for ratio in ratios]
        order = sorted(range(len(each)), key=lambda index: each[index])
        return sim.run(
            self.prepared, order[(len(order) - 1) // 2], keeps_log=True, keeps_timeline=True, most_events=math.inf
        )


# ----------------------------------------
# A folder of results: which command left it, and its documents.

RUN, COMPARE, VALIDATE = "run.json", "compare.json", "validate.json"

SENSITIVITY, OPTIMIZE = "sensitivity.json", "optimize.json"

STUDY_RESOLVED = "study.resolved.yaml"

VARIANT = "variant-{}.resolved.yaml"

_KEYS = {
    "run": (RUN, {"scenario", "metrics", "time_shares", "loss_gpu_s"}),
    "sweep": (RUN, {"study", "axes", "cells", "answers"}),
    "compare": (COMPARE, {"variants", "first", "headline"}),
    "sensitivity": (SENSITIVITY, {"study", "tornado", "indices"}),
    "optimize": (OPTIMIZE, {"study", "aims", "trials"}),
    "validate": (VALIDATE, {"groups", "counts", "not_checked"}),
}

"""By kind of results, in order of precedence: its file, and keys that tell it from others."""


class ReportError(ValueError):
    """There is nothing to report; the message is one line without the place."""


class Results(NamedTuple):
    """What a folder holds.

    Parameters
    ----------
    folder
        Where it is.
    kind
        The command that the report is about: ``run``, ``compare``, ``sweep``, ``sensitivity``, ``optimize`` or
        ``validate``. Of several in one folder the first of these.
    documents
        What each command left, by the name of its file.
    """

    folder: Path
    kind: str
    documents: Mapping[str, Any]

    @property
    def file(self) -> str:
        """Name of the main document."""
        return _KEYS[self.kind][0]

    @property
    def main(self) -> Any:
        """The main document."""
        return self.documents[self.file]


def read_results(folder: Path) -> Results:
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
        return Results(folder, kinds[0], documents)
    if documents:
        raise ReportError(
            f"{next(iter(documents))} is not a document that this version of Ettrick writes: make the results anew"
        )
    if (folder / "journal.jsonl").is_file():
        raise ReportError("holds a study that is not finished: go on with the same ettrick sweep command first")
    message = "holds no results; ettrick run, compare, sweep, sensitivity, optimize and validate leave them with --out"
    raise ReportError(message)


@contextlib.contextmanager
def damage_in_a_line(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with a folder into `ReportError`, unless everything in it is as it was written.

    What a report needs is checked on reading; this is for documents of earlier versions, which have no checksum, and
    for scenarios and studies that are not those of the document beside them.
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
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReportError(
            f"{results.file}: no report can be made of it and of what lies beside it ({told}); make the results anew"
        ) from None


def _is_whole(results: Results) -> bool:
    """Return whether all documents have checksums, and scenarios and study beside them are those that they are of."""
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
        read_document(kind, content)
    except DocumentMistakeError as error:
        raise ReportError(f"{name}: {error}; make the results anew") from None
    if content["provenance"].get("sha256", checksum(content)) != checksum(content):
        message = f"{name}: was changed after it was written (provenance.sha256 does not fit); make the results anew"
        raise ReportError(message)


def _read(path: Path) -> dict[str, Any]:
    """Return a document."""
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
# Which cells of a study a report looks at closely: the one that answers the question, and one to hold it against.


def chosen_cells(content: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """Return the numbers of two cells of a sweep; the second is ``None`` where there is no other.

    The first question of the study that can be answered says which: of what is best, the best of all, or at the stated
    failure rates; of a condition, the line that takes least to meet it; else its last line. Where none does, it is the
    cell with the best mean of the headline metric, and the first one that differs from it in nothing but one axis.
    ``None`` for the answer if no cell ran.
    """
    running = [cell for cell in content["cells"] if cell["status"] == "ok"]
    if not running:
        return None
    for answer in content["answers"]:
        pair = _PAIRS[answer["use"]](answer["data"]) if answer["use"] in _PAIRS and answer["data"] else None
        found = [] if pair is None else [cell_at(content, labels) for labels in pair]
        cells = [cell for cell in found if cell is not None and cell in running]
        if len(cells) == 2 and cells[0] is not cells[1]:
            return cells[0]["cell"], cells[1]["cell"]
    best = _highest(content, running)
    others = [cell for cell in running if cell is not best and _apart(cell, best) == 1]
    against = others[0] if others else next((cell for cell in running if cell is not best), None)
    return best["cell"], None if against is None else against["cell"]


def cell_at(content: Mapping[str, Any], values: Labels) -> dict[str, Any] | None:
    """Return the first cell with these labels; axes that are not named may have any value."""
    for cell in content["cells"]:
        if all(cell["values"].get(axis) == label for axis, label in values.items()):
            found: dict[str, Any] = cell
            return found
    return None


def _of_best(data: Mapping[str, Any]) -> Pair | None:
    """Return the best and the worst of the group at the stated failure rates, or else of that with the best mean."""
    groups = [group for group in data.get("groups", ()) if group.get("order")]
    if not groups:
        return None
    sign = -1 if data.get("direction") == "lowest" else 1
    stated = [group for group in groups if set(group.get("at", {}).values()) == {"1"}]
    group = stated[0] if stated else max(groups, key=lambda one: sign * one["order"][0].get("mean", 0.0))
    return group["best"], group["order"][-1]["at"]


def _of_threshold(data: Mapping[str, Any]) -> Pair | None:
    """Return the last value that meets the condition and its neighbour that does not, of the line that takes least."""
    lines = [line for line in data.get("lines", ()) if line["crossings"]]
    if not lines:
        return None

    def needed(line: Mapping[str, Any]) -> float:
        crossing = line["crossings"][-1]
        return float(crossing["at"] if crossing["begins"] else -crossing["at"])

    line = min(lines, key=needed)
    along, crossing = data["along"], line["crossings"][-1]
    before, behind = ({**line["at"], along: label} for label in crossing["between"])
    return (behind, before) if crossing["begins"] else (before, behind)


def _of_crossover(data: Mapping[str, Any]) -> Pair | None:
    """Return the best and the second at the last value of the last line."""
    lines = [line for line in data.get("lines", ()) if line["best"] and len(line["best"][-1]["order"]) > 1]
    if not lines:
        return None
    last = lines[-1]["best"][-1]
    here = {**lines[-1]["at"], data["along"]: last["value"]}
    first, second = ({**here, data["between"]: name} for name in last["order"][:2])
    return first, second


def _of_trend(data: Mapping[str, Any]) -> Pair | None:
    """Return the end and the beginning of the last line."""
    lines = [line for line in data.get("lines", ()) if len(line["points"]) > 1]
    if not lines:
        return None
    first, last = lines[-1]["points"][0], lines[-1]["points"][-1]
    at = lines[-1]["at"]
    return {**at, data["along"]: last["value"]}, {**at, data["along"]: first["value"]}


def _of_compare(data: Mapping[str, Any]) -> Pair | None:
    """Return the first choice of the last line, and what it is compared with."""
    lines = [line for line in data.get("lines", ()) if line.get("differences")]
    if not lines:
        return None
    at, axis = lines[-1]["at"], data["axis"]
    return {**at, axis: next(iter(lines[-1]["differences"]))}, {**at, axis: lines[-1]["against"]}


_PAIRS: dict[str, Callable[[Mapping[str, Any]], Pair | None]] = {
    "best": _of_best,
    "threshold": _of_threshold,
    "crossover": _of_crossover,
    "trend": _of_trend,
    "compare": _of_compare,
}

"""By kind of question: labels of the cell that answers it, and of the one to hold it against."""


def _highest(content: Mapping[str, Any], running: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the cell with the best mean of the headline metric."""
    metric = content["metrics"][0]
    sign = -1 if lower_is_better(metric) else 1
    known = [cell for cell in running if cell["metrics"].get(metric, {}).get("mean") is not None]
    return max(known, key=lambda cell: sign * cell["metrics"][metric]["mean"]) if known else running[0]


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return in how many axes two cells differ."""
    return sum(one["values"][axis] != other["values"][axis] for axis in one["values"])


@dataclass(frozen=True)
class ReportData:
    """What sections and openings are made of. Whatever takes time is made when it is asked for, and once.

    Parameters
    ----------
    results
        The documents, and the command that the report is about.
    progress
        Called with the number of replications done and the total, while a scenario is played again.
    """

    results: Results
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
        return self._typed(RunDocument)

    @functools.cached_property
    def comparison(self) -> CompareDocument:
        """The document that the report is about, where it is of a comparison."""
        return self._typed(CompareDocument)

    @functools.cached_property
    def validation(self) -> ValidateDocument:
        """The document that the report is about, where it is of a validation."""
        return self._typed(ValidateDocument)

    def _typed(self, model: type[_Typed]) -> _Typed:
        found = read_document(self.kind, self.main)
        assert isinstance(found, model)
        return found

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        return self.results.folder

    def of(self, name: str) -> Any | None:
        """Return another document of the folder, such as ``sensitivity.json``; ``None`` if it is not there."""
        return self.results.documents.get(name)

    @functools.cached_property
    def sweep(self) -> Any | None:
        """The document of the sweep in the folder, if there is one."""
        found = self.of(RUN)
        return found if found is not None and "cells" in found else None

    @functools.cached_property
    def study(self) -> LoadedStudy | None:
        """The study; ``None`` where the results are not of one.

        Raises
        ------
        ReportError
            If it cannot be read.
        """
        if self.kind not in ("sweep", "sensitivity", "optimize"):
            return None
        try:
            return load_study(self.folder / STUDY_RESOLVED)
        except sim.ScenarioError as error:
            raise ReportError(str(error)) from None

    @functools.cached_property
    def common_settings(self) -> list[str]:
        """What a study writes into its scenario at every point, and the central values of what is unknown."""
        study = self.study
        point = None if study is None else next(iter(study.points()), None)
        if study is None or point is None:
            return []
        axes = study.study.vary.values()
        unknown = [value for axis, value in zip(axes, point.values, strict=True) if axis.is_uncertain]
        return [*study.common, *point._replace(values=tuple(unknown)).overrides]

    @functools.cached_property
    def focus(self) -> Focus | None:
        """The scenario that is looked at closely: what was run, or what answers the question; ``None`` without one."""
        if self.kind == "run":
            return self._focus(self.run.scenario, self._scenario(RESOLVED), self.run.replications, self.run)
        if self.kind == "compare":
            return self._variant((*self.comparison.order, self.comparison.first)[0])
        if self.kind == "validate":
            return None
        if self.sweep is not None:
            chosen = chosen_cells(self.sweep)
            return None if chosen is None else self.cell(chosen[0])
        return self._center()

    @functools.cached_property
    def against(self) -> Focus | None:
        """What it is held against; ``None`` where there is nothing."""
        if self.kind == "compare":
            names, focus = list(self.comparison.variants), self.focus
            other = next((name for name in names if focus is None or name != focus.name), None)
            return None if other is None else self._variant(other)
        chosen = chosen_cells(self.sweep) if self.kind == "sweep" and self.sweep is not None else None
        return None if chosen is None or chosen[1] is None else self.cell(chosen[1])

    def cell(self, number: int) -> Focus:
        """Return a cell of the sweep, at the central values of what is unknown."""
        assert self.sweep is not None
        assert self.study is not None
        cell = self.sweep["cells"][number]
        point = next((point for point in self.study.points() if point.number == cell["point"]), None)
        if point is None:
            raise ReportError(f"{STUDY_RESOLVED}: has no point {cell['point']}: it is not the study of {RUN}")
        return self._focus(_name(self.sweep, cell["values"]), self.study.scenario(point), cell["replications"])

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
                message = f"{path.name}:{number}: {mistake} is not what ettrick sweep writes; make the results anew"
                raise ReportError(message)
        return rows

    def _focus(self, name: str, scenario: sim.Scenario, wanted: int, known: RunDocument | None = None) -> Focus:
        return Focus(name, scenario, wanted, known, self.progress)

    def _variant(self, name: str) -> Focus:
        number = list(self.comparison.variants).index(name) + 1
        return self._focus(name, self._scenario(VARIANT.format(number)), self.comparison.replications)

    def _center(self) -> Focus | None:
        """Return what a sensitivity moves, or what an optimiser found."""
        study = self.study
        assert study is not None
        if self.kind == "sensitivity":
            content = self.of(SENSITIVITY)
            assert content is not None
            labels: Mapping[str, str] = content["center"]["values"]
            vary = study.study.vary
            values = tuple(vary[axis].written(axis, [_content(vary[axis], label)])[0] for axis, label in labels.items())
            scenario = study.scenario(Point(0, 0, 0, values))
            return self._focus("all inputs at their centres", scenario, content["replications"])
        content = self.of(OPTIMIZE)
        assert content is not None
        if content["answer"] is None:
            return None
        scenario = study.template.scenario([*self.common_settings, *content["settings"]])
        return self._focus(_name(content, content["answer"]["values"]), scenario, content["replications"])

    def _scenario(self, name: str) -> sim.Scenario:
        """Return a scenario of the folder."""
        try:
            return sim.load(self.folder / name)
        except sim.ScenarioError as error:
            raise ReportError(str(error)) from None


_WHOLE = ("point", "cell", "draw", "replication", "censored", "never_started")

"""Columns of whole numbers of a sweep's table; what follows ``replication`` are numbers, or nothing."""


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


def _name(content: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """Return what a combination is called: its values in words."""
    return phrases(values, [axis for axis in content["axes"] if axis in values], content)


# ----------------------------------------
# A scenario with more of everything, or with rarer failures: for closed forms, which are worked out at once.


class Rates(NamedTuple):
    """How often the first job of a scenario is interrupted, and how that grows with its size.

    Parameters
    ----------
    gpus
        Size of the job [-].
    fixed
        Interruptions by what comes once a job, whatever its size [1/s].
    growing
        Interruptions by all else, at this size [1/s].
    """

    gpus: int
    fixed: float
    growing: float

    def mtti(self, gpus: float) -> float:
        """Return the mean time between interruptions of a job of a size [s]; infinite without any."""
        rate = self.fixed + self.growing * gpus / self.gpus
        return 1 / rate if rate > 0 else math.inf


def interruption_rates(prepared: Prepared, counted: str = "") -> Rates | None:
    """Return the rates of the first job; ``None`` where they cannot be told apart.

    Parameters
    ----------
    prepared
        The scenario.
    counted
        A failure bundle of the catalog: its causes alone. Empty for all of the scenario.
    """
    job = prepared.jobs[0]
    of_job = {source.name for source in prepared.sources if source.part == "job"}
    entries = [entry for entry in _written_out(prepared) if not counted or entry[0] == counted]
    fixed = _rate(prepared, [entry for _, entry in entries if getattr(entry, "name", "") in of_job])
    total = 1 / job.mtti if not counted else _rate(prepared, [entry for _, entry in entries])
    return None if fixed is None or total is None else Rates(job.gpus, fixed, max(total - fixed, 0.0))


def at_size(prepared: Prepared, gpus: float) -> Prepared | None:
    """Return the scenario with a first job of about so many GPUs, and as much more or less of everything else.

    Jobs, nodes, spares and parts grow together, replicas too; the time of a step, saves and the model stay. Intervals
    between saves that a rule chooses are chosen anew. ``None`` where its rates cannot be told apart.
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
        serving = sum(each.nodes for each in (*changes["jobs"], *changes["reserves"].values()))
        changes["withheld"] = max(changes["nodes"] - serving, 0)
    return replace(prepared, **changes)


def at_rate(prepared: Prepared, factor: float) -> Prepared:
    """Return the scenario with a `factor` times as long between failures of every cause [-].

    Intervals between saves that a rule chooses are chosen anew.
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

    Those of `sim.closed_form`, weighted by GPUs as there; ``None`` if no formula describes the recovery.
    """
    formula = sim.job_shares(prepared, only_where_it_applies=False)
    if formula is None:
        return None
    gpus = sum(job.gpus for job in prepared.jobs)
    found: dict[str, float] = {}
    for job in prepared.jobs:
        for name, share in formula(job).items():
            found[name] = found.get(name, 0.0) + share * job.gpus / gpus
    return found


def with_nodes_at_hand(prepared: Prepared) -> Prepared:
    """Return the scenario as a formula sees it that knows of no waits for nodes."""
    # Of a repair without a law, nobody knows how long it keeps a node away: then the formula leaves waits out.
    sources = tuple(
        replace(source, repair=None) if source.repair is not None and source.repair.mean_value > 0 else source
        for source in prepared.sources
    )
    return replace(prepared, sources=sources)


def _job(prepared: Prepared, job: PreparedJob, ratio: float, mtti: float) -> PreparedJob:
    """Return a job of another size [-] and mean time to interrupt [s]."""
    nodes = max(round(job.nodes * ratio), 1)
    sized = replace(
        job,
        gpus=nodes * prepared.gpus_per_node,
        nodes=nodes,
        replicas=max(round(job.replicas * ratio), 1),
        mtti=mtti,
    )
    return replace(sized, checkpoint=_checkpoint(prepared, sized))


def _checkpoint(prepared: Prepared, job: PreparedJob) -> Any:
    """Return the checkpoints of a job of another size; those that it has where they cannot be worked out anew."""
    known: Any = job.checkpoint
    checkpoint = prepared.scenario.checkpoint
    size = checkpoint_size(job.plan.work.shape) if job.plan is not None else None
    try:
        return checkpoint.build(
            job.mtti,
            job.step_time,
            nodes=job.nodes,
            replicas=job.replicas,
            size=size,
            periodic=getattr(known, "pauses", ()),
        )
    except RuleError:
        return known


def _written_out(prepared: Prepared) -> list[tuple[str, Any]]:
    """Return the entries of ``failures``, with the causes of a bundle in its place, each with what it was named by."""
    found: list[tuple[str, Any]] = []
    for entry in prepared.scenario.failures:
        choice: Any = entry
        is_bundle = choice.use in catalog.bundles()
        causes = choice.expand(catalog.bundle(choice.use), prepared.scenario.repair) if is_bundle else [choice]
        found += [(choice.use, cause) for cause in causes]
    return found


def _rate(prepared: Prepared, entries: list[Any]) -> float | None:
    """Return how often some entries alone interrupt the first job [1/s]; ``None`` where they cannot be alone."""
    if not entries:
        return 0.0
    try:
        alone = sim.examine(prepared.scenario.model_copy(update={"failures": tuple(entries)}))
    except sim.PathError:
        return None
    return 1 / alone.jobs[0].mtti
