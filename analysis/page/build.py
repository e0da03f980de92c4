"""A folder of results as a report: an opening by the kind of results, and every section that has something to say."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import capital, form_of, name_of, number_of
from ettrick.analysis.page.cells import summary_of
from ettrick.analysis.page.chapters import (
    capacity,
    cluster,
    compare,
    finish,
    fit,
    fleet,
    formula,
    inputs,
    losses,
    optimum,
    run,
    scale,
    sensitivity,
    services,
    study,
    validation,
)
from ettrick.analysis.page.chapters.compare import variant_labels
from ettrick.analysis.page.formats import html, markdown, slides
from ettrick.analysis.page.model import Report, Section, grid, plain
from ettrick.analysis.page.report_data import ReportData, read_results
from ettrick.analysis.results.fitted import FitDocument, LivesDocument
from ettrick.sim import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.amounts import NumberFormat
    from ettrick.analysis.page.model import FirstScreen
    from ettrick.analysis.parts import CellMetric
    from ettrick.analysis.results.studies import CellSummary, SweepDocument

# ----------------------------------------
# The data of the explorer: all cells of a sweep, as small as they can be.

_FEW = 40  # values of an axis, at most, that can be chosen from a list
_LINES = 12  # values of an axis, at most, that begin as a line each
_DIGITS = 9
_UNITS = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds", "T": "trillions", "G": "billions"}

_UNITS |= {"M": "millions"}

"""The words of units next to an axis."""


class _Axis(NamedTuple):
    """An axis along which the cells differ: its values in order, and their numbers where all have one."""

    key: str
    title: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None


def explorer_data(report_data: ReportData) -> dict[str, Any] | None:
    """Return the data of the explorer, ready for JSON; ``None`` where there is nothing to explore.

    ======== ==========================================================================================================
    axes     along which the cells differ: ``key``, ``title``, their ``values`` as labels, their ``numbers`` [SI] or
             null, and whether there are ``few`` enough of them to be chosen from a list
    metrics  ``key``, ``title``, and the ``unit`` of its numbers
    cells    ``at``, places of its labels in the axes; and for each metric seven ``numbers`` in its unit: mean, 95 %
             interval, band of what is not known exactly (90 %), 5 % and 95 % of single runs; null where there is none;
             the same as ``texts``: mean, interval, band, single runs, and why there is no mean
    unknown  titles of what is not known exactly
    start    what is shown first: the axes ``x`` and ``series`` (-1: none), and of each axis the place of the value that
             is kept (-1: all values)
    ======== ==========================================================================================================
    """
    content = report_data.sweep
    if content is None:
        return None
    axes = _axes(content)
    if not axes or not content.metrics or len(content.cells) < 2:
        return None
    means = {metric: [summary_of(cell, metric).mean for cell in content.cells] for metric in content.metrics}
    forms = {metric: form_of(metric, values, content.currency or "")
             for metric, values in means.items()}  # fmt: skip
    return {
        "axes": [axis._asdict() | {"few": len(axis.values) <= _FEW} for axis in axes],
        "metrics": [
            {"key": metric, "title": capital(name_of(metric)), "unit": _UNITS.get(form.unit, form.unit)}
            for metric, form in forms.items()
        ],
        "cells": [_cell(cell, axes, forms) for cell in content.cells],
        "unknown": [str(axis.title) for axis in content.axes.values() if axis.unknown],
        "start": _start(content, axes, report_data.chosen),
    }


def _axes(content: SweepDocument) -> list[_Axis]:
    axes = [_axis(content, key) for key in content.axes if all(key in cell.values for cell in content.cells)]
    return [axis for axis in axes if len(axis.values) > 1]


def _axis(content: SweepDocument, key: str) -> _Axis:
    """Return an axis with the values that cells have: in order of their numbers where all differ in these."""
    axis = content.axes[key]
    present = {cell.values[key]: cell.numbers.get(key) for cell in content.cells}
    used = {value.label: value.number for value in axis.values if value.label in present}
    used |= {label: number for label, number in present.items() if label not in used}
    numbers = [number for number in used.values() if number is not None and math.isfinite(number)]
    if len(numbers) == len(used) == len(set(numbers)):
        labels = sorted(used, key=lambda label: used[label] or 0.0)
        return _Axis(key, str(axis.title), tuple(labels), tuple(sorted(numbers)))
    return _Axis(key, str(axis.title), tuple(used), None)


def _cell(cell: CellSummary, axes: Sequence[_Axis], forms: Mapping[str, NumberFormat]) -> dict[str, Any]:
    at = [axis.values.index(cell.values[axis.key]) for axis in axes]
    numbers, texts = [], []
    for metric, form in forms.items():
        summary = cell.metrics.get(metric) if cell.status == "ok" else None
        numbers.append(None if summary is None or summary.mean is None else _numbers(summary, form))
        texts.append(_texts(cell, summary, form))
    return {"at": at, "numbers": numbers, "texts": texts}


def _ends(summary: CellMetric, key: str) -> tuple[float, float] | None:
    low, high = (summary.p05, summary.p95) if key == "one_run" else getattr(summary, key) or (None, None)
    return None if low is None or high is None else (low, high)


def _numbers(summary: CellMetric, form: NumberFormat) -> list[float | None]:
    """Return mean, interval, band, and quantiles of single runs, in the unit of the form."""
    ranges = [_ends(summary, key) or (None, None) for key in ("mean_ci95", "band90", "one_run")]
    values = [summary.mean, *(end for ends in ranges for end in ends)]
    return [None if value is None else float(f"{value / form.size:.{_DIGITS}g}") for value in values]


def _texts(cell: CellSummary, summary: CellMetric | None, form: NumberFormat) -> list[str]:
    """Return mean, interval, band, single runs, and why there is no mean: texts, empty where there is none."""
    if cell.status != "ok":
        return ["", "", "", "", f"{cell.status}: {cell.trouble}".removesuffix(": ")]
    if summary is None or summary.mean is None:
        cut = 0 if summary is None else summary.censored
        reason = "the runs do not support one"
        if summary is not None and cut:
            reason = f"not finished in {cut} of {number_of(summary.replications, 'run')}"
        return ["", "", "", "", f"no mean: {reason}"]
    mean, ci95 = summary.mean, _ends(summary, "mean_ci95")
    ranges = [form.range(mean, _ends(summary, key)).strip() for key in ("mean_ci95", "band90", "one_run")]
    return [form.plain(mean, ci95), *ranges, ""]


def _start(content: SweepDocument, axes: Sequence[_Axis], chosen: tuple[int, int | None] | None) -> dict[str, Any]:
    """Return what is shown first: along the axis with the most numbers, a line for each value of that with fewest."""
    order = sorted(range(len(axes)), key=lambda place: (axes[place].numbers is None, -len(axes[place].values)))
    x = order[0]
    few = [place for place in order[1:] if len(axes[place].values) <= _LINES]
    series = min(few, key=lambda place: len(axes[place].values)) if few else -1
    is_grid = len(content.cells) == math.prod(len(axis.values) for axis in axes)
    if chosen is None or not is_grid:
        return {"x": x, "series": series, "at": [-1] * len(axes)}
    labels = content.cells[chosen[0]].values
    return {"x": x, "series": series, "at": [axis.values.index(labels[axis.key]) for axis in axes]}


# ----------------------------------------
# What made these numbers, and how to make them again.

_DIGESTS = {"scenario_sha256": "scenario, SHA-256", "model": "simulator, digest"}
_STUDY = "DIR/study.resolved.yaml"


def footer(report_data: ReportData) -> tuple[str, ...]:
    """Return what made the report, in lines: version, command, seed, digests; they stand at the foot of every page."""
    command = report_data.main["provenance"]["command"]
    return (
        f"{_versions(report_data.main)}; seed {seed_of(report_data, report_data.main)}",
        *([f"Made by: {command}"] if command else []),
        *(f"{name}: {text}" for name, text in digests(report_data)),
    )


def _versions(content: Mapping[str, Any]) -> str:
    provenance = content["provenance"]
    text = f"Ettrick {provenance['version']}, Python {provenance['python']}, NumPy {provenance['numpy']}"
    if not provenance.get("engine"):
        return text
    reason = f" ({provenance['engine_reason']})" if provenance.get("engine_reason") else ""
    return f"{text}; engine {provenance['engine']}{reason}"


def digests(report_data: ReportData) -> list[tuple[str, str]]:
    """Return the digests of what was simulated, each with its name; of several variants each has one."""
    content: Mapping[str, Any] = report_data.main
    variants: Mapping[str, Any] = content.get("variants", {}) if report_data.kind == "compare" else {}
    return [
        *((name, content["provenance"][key]) for key, name in _DIGESTS.items() if key in content["provenance"]),
        *((f"{name}, SHA-256", entry["scenario_sha256"]) for name, entry in variants.items()),
    ]


def seed_of(report_data: ReportData, content: Mapping[str, Any]) -> str:
    """Return the seed of all random numbers of a document: as it says, or that of its scenario."""
    if "seed" in content:
        return str(content["seed"])
    return str(report_data.focus.scenario.seed) if report_data.focus is not None else "of the scenario"


def reproduction_section(report_data: ReportData) -> Section:
    """Return what made the numbers, and how to make them again: every report has it."""
    documents = report_data.results.documents
    steps = [f"{number}. {step}" for number, step in enumerate(_steps(report_data), 1)]
    rows = []
    for name, content in documents.items():
        rows.append((name, "command", content["provenance"]["command"] or "called from Python"))
        rows += [(name, "versions", _versions(content)), (name, "seed", seed_of(report_data, content))]
    rows += [(report_data.results.file, what, text) for what, text in digests(report_data)]
    items = [grid("Origin of the numbers", ("file", "what", "value"), rows, range(3))]
    for key, title in (
        ("assumptions", "Assumptions of the scenario and the study"),
        ("warnings", "Warnings"),
        ("notes", "Notes on the numbers"),
    ):
        lines = dict.fromkeys(line for content in documents.values() for line in _lines(content, key))
        if lines:
            items.append(grid(title, (title,), [(line,) for line in lines]))
    notes = [
        "Nothing depends on the date, on the machine or on the number of processes: every replication is drawn from "
        "the seed."
    ]
    if report_data.kind == "run" and any(metric.get("band90") for metric in report_data.main["metrics"].values()):
        notes.append("The bands of the failure rates need the option --band of the command as it was typed.")
    focus = report_data.focus
    if focus is not None and focus.stored_document is None:
        notes.append(
            f"Pictures of one scenario are of {focus.name}: the first {focus.replications} of its {focus.wanted} "
            "replications, simulated again when the report was made."
        )
    version = report_data.main["provenance"]["version"]
    title = f"The same numbers come out of the same command with Ettrick {version}"
    return Section("reproduce", title, tuple(steps), tuple(items), tuple(notes))


def _steps(report_data: ReportData) -> Iterator[str]:
    yield f"Install {_versions(report_data.main)}."
    for content in report_data.results.documents.values():
        if command := content["provenance"]["command"]:
            yield f"Where it was typed: {command}"
    for command in _from_folder(report_data):
        yield f"Or with nothing but this folder, DIR: {command}"
    if digests(report_data):
        yield "Compare the digests below with those of the new results: the same digest is the same scenario."
    yield "Make this report of the results with ettrick report DIR, which simulates the scenario only for its pictures."


def _from_folder(report_data: ReportData) -> Iterator[str]:
    main: Mapping[str, Any] = report_data.main
    if report_data.kind == "run":
        yield f"ettrick run DIR/scenario.resolved.yaml --replications {main['replications']} --out NEW"
    elif report_data.kind == "compare":
        files = " ".join(f"DIR/variant-{number}.resolved.yaml" for number in range(1, len(main["variants"]) + 1))
        yield f"ettrick compare {files} --replications {main['replications']} --out NEW"
    elif report_data.kind == "validate":
        yield f"ettrick validate --seed {main['seed']} --out NEW"
    else:
        if report_data.sweep is not None:
            yield f"ettrick sweep {_STUDY} --out NEW"
        for name in ("sensitivity", "optimize"):
            if report_data.of(f"{name}.json") is not None:
                yield f"ettrick {name} {_STUDY} --out NEW"


def _lines(content: Mapping[str, Any], key: str) -> Iterator[str]:
    for line in content.get(key, ()):
        yield line if isinstance(line, str) else f"{line['warning']} (cells: {line['cells']})"
    variants = content.get("variants", {})
    for name, entry in variants.items() if isinstance(variants, dict) else ():
        for line in entry.get(key, ()):
            yield line if key == "assumptions" else f"{name}: {line}"


# ----------------------------------------
# The sections of a report: one file each, in the order in which they are read.
#
# A new section is a file with a function ``section(data) -> Section | None``, and a line in `SECTIONS`. It returns
# ``None`` where the results have nothing for it.

SECTIONS: tuple[Callable[[ReportData], Section | None], ...] = (
    losses.section,
    services.section,
    services.targets_section,
    study.answers_section,
    compare.section,
    compare.bridge_section,
    fleet.section,
    fleet.by_size_section,
    study.section,
    study.heat_maps_section,
    finish.section,
    sensitivity.section,
    sensitivity.variance_section,
    optimum.section,
    losses.losses_section,
    capacity.missing_nodes_section,
    scale.scale_section,
    scale.section,
    cluster.section,
    cluster.step_section,
    formula.closed_form_section,
    inputs.basis_section,
    inputs.section,
    validation.section,
    reproduction_section,
)


# ----------------------------------------
# The first screen of a report, by the kind of results: one file each.

OPENINGS: dict[str, Callable[[ReportData], FirstScreen]] = {
    "run": run.opening,
    "compare": compare.opening,
    "sweep": study.opening,
    "sensitivity": sensitivity.opening,
    "optimize": optimum.opening,
    "validate": validation.opening,
}


_MOST_NAMED = 4  # variants that a title names


def report_of(folder: Path, progress: Callable[[int, int | None], None] | None = None) -> Report:
    """Return the report of a folder of results.

    `progress` is called with the number of sections and of replications that are done, and the total.

    Raises
    ------
    ReportError
        If it holds none, or they cannot be read.
    """
    done = total = 0

    def count(now: int, of: int | None) -> None:
        nonlocal total
        total = max(total, of or 0)
        if progress is not None:
            progress(done + now, len(SECTIONS) + total)

    results = read_results(folder)
    if results.kind == "fit":
        return fit.report(FitDocument.model_validate(results.main))
    if results.kind == "lives":
        return fit.report(LivesDocument.model_validate(results.main))
    report_data = ReportData(results, count)
    first_screen = OPENINGS[report_data.kind](report_data)
    chapters = []
    for make in SECTIONS:
        chapters.append(make(report_data))
        done += 1
        count(total, total)
    chapters += _chapters_of_plugins(report_data)
    sections = tuple(_described(section, report_data) for section in chapters if section is not None)
    return Report(_title(report_data), first_screen, sections, explorer_data(report_data), footer(report_data))


def _chapters_of_plugins(report_data: ReportData) -> list[Section | None]:
    """Return the sections that other packages add at the end; what cannot be made is warned of, and left out."""
    makers, complaints = plugins.usable("chapters", SECTIONS)
    chapters = []
    for make in makers.values():
        try:
            chapters.append(make(report_data))
        except Exception as error:
            complaints.append(str(plugins.blame(error) or error))
    for complaint in complaints:
        warnings.warn(complaint, stacklevel=2)
    return chapters


# Sections about one scenario, whatever the results are of.
_OF_ONE = frozenset({
    "where-the-time-goes", "losses", "missing-nodes", "scale", "the-step", "closed-form",
})  # fmt: skip


def _described(section: Section, report_data: ReportData) -> Section:
    """Return a section that says which combination it describes, where the results are of several."""
    focus = report_data.focus if report_data.kind in ("sweep", "optimize", "sensitivity") else None
    if focus is None or section.key not in _OF_ONE or any(focus.name in plain(text) for text in section.text):
        return section
    return replace(section, text=(f"For {focus.name}.", *section.text))


def _title(report_data: ReportData) -> str:
    if report_data.kind == "compare":
        names = list(variant_labels(list(report_data.main["variants"])).values())
        return f"{', '.join(names[:_MOST_NAMED])}{' and others' if len(names) > _MOST_NAMED else ''} compared"
    if report_data.kind == "validate":
        return "Validation of Ettrick"
    return str(report_data.main.get("study") or report_data.main["scenario"])


# ----------------------------------------
# What a report can be written as: one file each, a function from the report to the content of a file.
#
# A new format is a file with a function ``write(report) -> bytes``, and a line in `FORMATS`.

# By the ending of the file.
FORMATS: dict[str, Callable[[Report], bytes]] = {"html": html.write, "md": markdown.write, "pptx": slides.write}
