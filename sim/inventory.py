"""What comes with the program, one line each."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from sim import catalog, documents
from sim.catalog import steps
from sim.checkpoint import CHECKPOINTS
from sim.detection import DETECTIONS
from sim.failures import SOURCES
from sim.load import shipped
from sim.recovery import RECOVERIES
from sim.repair import LEMONS, REPAIRS
from sim.scheduler import SCHEDULERS
from sim.topology import FABRICS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sim.perf import Accelerator

__all__ = ["inventory"]

_SOURCE = re.compile(r"Source: (?P<text>.+?)(?:\.(?: [A-Z]|$)|$)")
"""A source ends with its sentence."""
_ADDRESS = re.compile(r",? (?:chapters? |by way of |section |https?:).*$")


def inventory() -> dict[str, dict[str, str]]:
    """Return, by kind, the names of what comes with the program and a line about each."""
    strategies: dict[str, Mapping[str, Any]] = {
        "fabrics (cluster.fabric.use)": FABRICS,
        "failure sources (failures.use)": SOURCES,
        "checkpoints (checkpoint.use)": CHECKPOINTS,
        "detection (detection.use)": DETECTIONS,
        "recovery (recovery.use)": RECOVERIES,
        "repair (repair.use)": REPAIRS,
        "lemon policies (repair.lemons.use)": LEMONS,
        "schedulers (scheduler.use)": SCHEDULERS,
    }
    listing = {
        "scenarios": {name: _described(path) for name, path in _files("scenarios")},
        "studies": {name: _described(path) for name, path in _files("scenarios/studies")},
        "topologies": {
            name: f"{_comment(path).removesuffix('.')} ({_source(path)})" for name, path in _files("topologies")
        },
        "failure bundles (failures.use)": {
            name: f"{catalog.bundle(name)['title']} ({catalog.bundle(name)['source']})" for name in catalog.bundles()
        },
        "recovery presets (recovery.use)": {
            name: f"{catalog.recovery(name)['title']} ({catalog.recovery(name)['source']})"
            for name in catalog.recoveries()
        },
        "models (jobs.model)": {name: f"{row.title} ({row.source})" for name, row in catalog.models().items()},
        "accelerators (cluster.accelerator)": {
            name: f"{row.title}, {_basis(row)} ({row.source})" for name, row in catalog.accelerators().items()
        },
    }
    for kind, registry in strategies.items():
        listing[kind] = {name: _first_line(model) for name, model in registry.items()}
    return listing


def _basis(chip: Accelerator) -> str:
    """Return what the times of steps on an accelerator rest on."""
    measured = [name for name in chip.peak if steps.efficiencies(chip, name).basis == "fitted"]
    if measured:
        return f"steps measured at {', '.join(measured)}"
    return f"peak only{', announced' if chip.announced else ''}"


def _files(kind: Any) -> list[tuple[str, Path]]:
    return list(shipped(kind).items())


def _described(path: Path) -> str:
    """Return what a scenario or study says of itself, with its source."""
    data = documents.load(path).data
    base = f"{data['scenario']}; " if "scenario" in data else ""
    return f"{data.get('description', '').removesuffix('.')} ({base}{_source(path)})"


def _source(path: Path) -> str:
    """Return the source of a file: that which its comments name, or that of what it builds on."""
    found = _stated(path)
    if found:
        return found
    data = documents.load(path).data
    if "scenario" in data:
        return _source(shipped("scenarios")[data["scenario"]])
    return _source(path.parent / data["extends"]) if "extends" in data else ""


def _stated(path: Path) -> str:
    """Return the first source that the comments of a file name, without chapters and addresses."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((number for number, line in enumerate(lines) if "# Source" in line), None)
    if start is None:
        return ""
    following = itertools.takewhile(lambda line: line.lstrip().startswith("#"), lines[start:])
    text = " ".join(line.lstrip(" #") for line in following)
    found = _SOURCE.match(text)
    assert found is not None, "a source"
    return _ADDRESS.sub("", found["text"])


def _comment(path: Path) -> str:
    """Return the first line of a file's opening comment."""
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


def _first_line(model: Any) -> str:
    return (model.__doc__ or "").strip().split("\n", 1)[0]
