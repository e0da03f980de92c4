"""What made these numbers, and how to make them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ettrick.analysis.page.model import Section, grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ettrick.analysis.page.report_data import ReportData

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
    made = content["provenance"]
    text = f"Ettrick {made['version']}, Python {made['python']}, NumPy {made['numpy']}"
    if not made.get("engine"):
        return text
    reason = f" ({made['engine_reason']})" if made.get("engine_reason") else ""
    return f"{text}; engine {made['engine']}{reason}"


def digests(report_data: ReportData) -> list[tuple[str, str]]:
    """Return the digests of what was simulated, each with its name; of several variants each has one."""
    content: Mapping[str, Any] = report_data.main
    found = [(name, content["provenance"][key]) for key, name in _DIGESTS.items() if key in content["provenance"]]
    variants: Mapping[str, Any] = content.get("variants", {}) if report_data.kind == "compare" else {}
    return [*found, *((f"{name}, SHA-256", entry["scenario_sha256"]) for name, entry in variants.items())]


def seed_of(report_data: ReportData, content: Mapping[str, Any]) -> str:
    """Return the seed of all random numbers of a document: as it says, or that of its scenario."""
    if "seed" in content:
        return str(content["seed"])
    return str(report_data.focus.scenario.seed) if report_data.focus is not None else "of the scenario"


def section(report_data: ReportData) -> Section:
    """Return the section: every report has it."""
    documents = report_data.results.documents
    steps = [f"{number}. {step}" for number, step in enumerate(_steps(report_data), 1)]
    rows = []
    for name, content in documents.items():
        rows.append((name, "command", content["provenance"]["command"] or "called from Python"))
        rows += [(name, "versions", _versions(content)), (name, "seed", seed_of(report_data, content))]
    rows += [(report_data.results.file, what, text) for what, text in digests(report_data)]
    items = [grid("What made the numbers", ("file", "what", "value"), rows, range(3))]
    for key, title in (
        ("assumptions", "Assumptions of the scenario and the study"),
        ("warnings", "Warnings"),
        ("notes", "What to know before using the numbers"),
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
    if focus is not None and focus.known is None:
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
    yield "Make this report of the results with ettrick report DIR, which simulates the scenario in its pictures alone."


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
