"""The JSON document of a study that was run: every cell, the answers, and how to find them again."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ettrick.analysis.amounts import amount_text
from ettrick.analysis.contest.compare import AS_GIVEN, DIVIDED, TITLES, Equal
from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.run import provenance
from ettrick.analysis.results.studies import (
    AnswerSummary,
    AxisValue,
    CellFormula,
    CellSummary,
    FailedPoint,
    ScenarioWarning,
    SweepAxis,
    SweepCounts,
    SweepDocument,
    Tie,
)
from ettrick.analysis.study.table import summary_of
from ettrick.analysis.sweep.task import model_digest
from ettrick.sim import plugins
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.table import Cell, StudyTable
    from ettrick.sim import Scenario

_MOST_NAMED = 10
"""Points that are named when something is wrong with many."""

_MOST_SIZES = 6
"""Cells of a study whose sizes are named one by one; of more, the smallest and the largest."""


def sweep_document(loaded: LoadedStudy, table: StudyTable, *, command: str) -> SweepDocument:
    """Return the document of a study."""
    study = loaded.study
    scenario = next((loaded.scenario(cell.stated.point) for cell in table.running), None)
    gpus = _gpus(scenario, table)
    cells = [_cell(table, number, cell, gpus[number]) for number, cell in enumerate(table.cells)]
    return SweepDocument(
        format=FORMAT,
        study=study.name,
        question=study.question,
        tie=Tie(**Ties.parse(study.tie)._asdict()),
        description=study.description,
        scenario=study.scenario,
        seed=table.seed if scenario is None else scenario.seed,
        design=study.design.model_dump(mode="json", by_alias=True),
        precision=None if study.precision is None else study.precision.model_dump(mode="json"),
        at_equal=study.at_equal,
        at_equal_lines=[] if study.at_equal is None else table_lines(study.at_equal, table),
        currency=table.currency or None,
        axes=_axes(table),
        metrics=list(table.metrics),
        replications=sorted({cell.replications for cell in cells if cell.status == "ok"}),
        counts=_counts(table, cells),
        answers=[_answer(question, table) for question in study.questions],
        cells=cells,
        warnings=_warnings(table),
        notes=_notes(cells),
        assumptions=[*(() if scenario is None else scenario.assumptions), *study.assumptions],
        provenance=provenance(command, scenario_sha256=loaded.digest, model=model_digest(loaded.packages)),
    )


def against_sweep(document: SweepDocument) -> list[str]:
    """Return what speaks against the results of a study, a line each; empty if nothing does.

    Points that cannot run are an answer, unless none of them can.
    """
    lines = []
    for status, what in (("crashed", "crashed"), ("failed", "failed")):
        bad = [trouble for cell in document.cells for trouble in cell.troubles if trouble.status == status]
        lines += [f"point {trouble.point} {what}: {trouble.reason}" for trouble in bad[:_MOST_NAMED]]
        if len(bad) > _MOST_NAMED:
            lines.append(f"{len(bad) - _MOST_NAMED} more points {what}")
    counts = document.counts
    if counts.cells and counts.infeasible == counts.points:
        lines.append(f"no point can run: {document.cells[0].trouble}")
    if counts.imprecise:
        lines.append(f"the precision asked for was not reached in {_of(counts.imprecise, counts.cells)}")
    return lines


def _answer(question: Any, table: StudyTable) -> AnswerSummary:
    fields = question.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    try:
        answer = question.answer(table)
        sentences = [text for text in (answer.silence, *answer.sentences) if text]
        data = json.loads(json.dumps(answer.data)) if plugins.used(question) else answer.data
        return AnswerSummary(**fields | {"use": question.use, "sentences": sentences, "data": data})
    except Exception as error:
        blamed = plugins.blame(error, question)
        if blamed is None:
            raise
        raise blamed from error


def _gpus(scenario: Scenario | None, table: StudyTable) -> list[int | None]:
    """Return the GPUs that all jobs of each cell ask for; ``None`` where its settings do not tell.

    No other scenario is read for it: to the sizes of the first cell come those that a cell sets itself.
    """
    if scenario is None:
        return [None for _ in table.cells]
    first = _sizes(table.running[0])
    stated = {f"jobs.{position}.gpus": job.gpus for position, job in enumerate(scenario.jobs)}
    totals: list[int | None] = []
    for cell in table.cells:
        sizes = _sizes(cell)
        is_known = first is not None and sizes is not None and sizes.keys() == first.keys()
        totals.append(sum((stated | (sizes or {})).values()) if is_known else None)
    return totals


def _sizes(cell: Cell) -> dict[str, int] | None:
    """Return the sizes of jobs that the values of a cell set, by path; ``None`` if they set whole jobs."""
    sizes: dict[str, int] = {}
    for value in cell.values:
        for path, content in value.settings:
            parts = path.split(".")
            if parts[0] == "jobs" and len(parts) < 3:
                return None
            if parts[0] == "jobs" and parts[2:] == ["gpus"]:
                if not isinstance(content, int):
                    return None
                sizes[path] = content
    return sizes


def _axes(table: StudyTable) -> dict[str, SweepAxis]:
    """Return what varies; the values are those of the cells, in the order in which they come."""
    axes = {}
    for position, (name, axis) in enumerate(table.axes.items()):
        values = {cell.values[position].label: cell.values[position].number for cell in table.cells}
        axes[name] = SweepAxis(
            title=table.title(name),
            noun=axis.noun,
            paths=list(dict.fromkeys(path for cell in table.cells for path, _ in cell.values[position].settings)),
            unknown=axis.is_uncertain,
            basis=axis.basis,
            source=axis.source,
            values=[AxisValue(label=label, number=number) for label, number in values.items()],
        )
    return axes


def _cell(table: StudyTable, number: int, cell: Cell, gpus: int | None) -> CellSummary:
    outcome = cell.stated
    return CellSummary(
        cell=number,
        point=outcome.point.number,
        values={name: value.label for name, value in zip(table.axes, cell.values, strict=True)},
        numbers={name: value.number for name, value in zip(table.axes, cell.values, strict=True)},
        status=outcome.status,
        trouble=outcome.trouble,
        troubles=[
            FailedPoint(point=draw.point.number, draw=draw.point.draw, status=draw.status, reason=draw.trouble)
            for draw in (outcome, *cell.drawn)
            if draw.trouble
        ],
        draws=len(cell.drawn),
        replications=outcome.replications,
        precise=outcome.precise,
        censored=outcome.censored,
        never_started=outcome.never_started,
        metrics={name: summary for name in table.metrics if (summary := summary_of(cell, name)) is not None},
        closed_form=CellFormula(
            applies=outcome.formula is not None, reasons=list(outcome.no_formula), ettr=outcome.formula
        ),
        gpus=gpus,
    )


def _counts(table: StudyTable, cells: Sequence[CellSummary]) -> SweepCounts:
    """Return how many points and cells there are of each kind."""
    statuses = [outcome.status for cell in table.cells for outcome in (cell.stated, *cell.drawn)]
    return SweepCounts(
        points=len(statuses),
        ok=statuses.count("ok"),
        infeasible=statuses.count("infeasible"),
        failed=statuses.count("failed"),
        crashed=statuses.count("crashed"),
        cells=len(cells),
        cells_ok=sum(cell.status == "ok" for cell in cells),
        censored=sum(cell.censored > 0 for cell in cells),
        never_started=sum(cell.never_started > 0 for cell in cells),
        imprecise=sum(cell.precise is False for cell in cells),
    )


def _warnings(table: StudyTable) -> list[ScenarioWarning]:
    """Return what scenarios warn of, each once, with the number of cells that it is about."""
    counts: dict[str, int] = {}
    for cell in table.cells:
        for text in dict.fromkeys(cell.stated.warnings):
            counts[text] = counts.get(text, 0) + 1
    return [ScenarioWarning(warning=text, cells=count) for text, count in counts.items()]


def _notes(cells: Sequence[CellSummary]) -> list[str]:
    """Return what a reader must know before using the numbers."""
    notes = []
    censored = sum(cell.censored > 0 for cell in cells)
    if censored:
        notes.append(
            f"in {_of(censored, len(cells))} a job was not finished at the horizon in some replications: they "
            "count as not finished, and no mean of the time to finish is given"
        )
    waiting = sum(cell.never_started > 0 for cell in cells)
    if waiting:
        notes.append(f"in {_of(waiting, len(cells))} a job never got its nodes in some replications")
    part = sum(cell.status == "ok" and bool(cell.troubles) for cell in cells)
    if part:
        notes.append(
            f"in {_of(part, len(cells))} some draws of the unknown inputs have no results: no band is given there"
        )
    without = [form.reasons for cell in cells if (form := cell.closed_form) is not None and form.reasons]
    if without:
        notes.append(f"in {_of(len(without), len(cells))} the closed form does not apply: {without[0][0]}")
    return notes


def _of(count: int, total: int) -> str:
    """Return a number of cells, and of how many."""
    return f"{count} of {total} {'cell' if total == 1 else 'cells'}"


# What unlike clusters are compared at.


def table_lines(kind: Equal, table: StudyTable) -> list[str]:
    """Return what was divided by what for the cells of a study, whose headline is the first metric, in words."""
    metric = table.metrics[0]
    sizes = [
        (_mean_size(cell, metric), _label(table, cell)) for cell in table.running if cell.stated.metrics.get(metric)
    ]
    if not sizes:
        return [f"at equal {TITLES[kind]}: no point has a {metric}"]
    listed = sizes if len(sizes) <= _MOST_SIZES else [min(sizes), max(sizes)]
    unit = _SIZES[metric][2] or table.currency
    parts = "; ".join(f"{label}: {amount_text(size)} {unit}" for size, label in listed)
    of_all = "" if listed is sizes else ", smallest and largest"
    lines = [f"at equal {TITLES[kind]}: {DIVIDED[metric]}. Mean amount per replication{of_all}: {parts}"]
    return [*lines, AS_GIVEN] if len({size for size, _ in sizes}) > 1 else lines


_SIZES = {
    "tokens_per_gpu_day": (1, 1.0, "GPU-days"),
    "cluster_goodput": (1, DAY, "GPU-days"),
    "tokens_per_mw_day": (1, 1.0, "MW-days"),
    "cost_per_token": (0, 1.0, ""),
}
"""The amount of a ratio by entry, its unit in SI, and the unit's name; empty for money."""


def _mean_size(cell: Cell, metric: str) -> float:
    """Return what a cell took in a mean replication."""
    ratios, (entry, size, _) = cell.stated.metrics[metric], _SIZES[metric]
    return math.fsum(ratio[entry] for ratio in ratios) / len(ratios) / size


def _label(table: StudyTable, cell: Cell) -> str:
    """Return what a cell is, in words."""
    return ", ".join(f"{table.title(axis)} {value.label}" for axis, value in zip(table.axes, cell.values, strict=True))
