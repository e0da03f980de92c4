"""From YAML to a study whose scenario has been read: every mistake is a line with its place."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import sim
from analysis.study.inputs import Inputs
from analysis.study.model import Study
from analysis.study.reading import read_study
from analysis.study.value import settings_text
from sim import complaints, documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.study.value import Point
    from sim.documents import Document

__all__ = ["RESOLVED", "LoadedStudy", "find_study", "load_study"]

RESOLVED = "scenario.resolved.yaml"
"""File of the scenario beside a study that was written by the program."""


@dataclass(frozen=True)
class LoadedStudy:
    """A study, with the scenario that it is about.

    Parameters
    ----------
    study
        What the file says.
    template
        Its scenario, as it was read.
    common
        Texts ``path=value`` that hold at every point.
    document
        Where everything was written, for messages.
    most_events
        How many events may be simulated.
    """

    study: Study
    template: sim.Template
    common: tuple[str, ...]
    document: Document
    most_events: float = sim.MOST_EVENTS

    def points(self) -> Iterator[Point]:
        """Yield the points of the study in order; every time the same."""
        from numpy.random import default_rng

        seed = [self.study.seed or 0, zlib.crc32(self.study.design.use.encode())]
        return self.study.design.points(self.study.vary, default_rng(seed))

    def overrides(self, point: Point) -> tuple[str, ...]:
        """Return the texts ``path=value`` that make the scenario of a point.

        Those that hold everywhere come first, but for those inside of what varies.
        """
        varied = tuple(f"{path}." for value in point.values for path, _ in value.settings)
        inside = tuple(text for text in self.common if text.startswith(varied))
        return (*(text for text in self.common if text not in inside), *point.overrides, *inside)

    def scenario(self, point: Point) -> sim.Scenario:
        """Return the scenario of a point.

        Raises
        ------
        ScenarioError
            With one line for each mistake.
        """
        return self.template.scenario(self.overrides(point))

    def content(self) -> dict[str, Any]:
        """Return the study as plain data that `load_study` reads back beside its scenario, ``scenario.resolved.yaml``.

        Options are in it, and so are files that it named; keys that were left out are not.
        """
        return {**copy.deepcopy(self.document.data), "scenario": RESOLVED}

    @functools.cached_property
    def inputs(self) -> Inputs:
        """What is in the files that the study names under ``set`` and ``vary``."""
        return Inputs()

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the scenario and of what holds at every point, the same wherever its files lie."""
        told = json.dumps([self.template.content, self.inputs.told(self.common)], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(told.encode()).hexdigest()


def find_study(name: str) -> Path:
    """Return a study file: a path, or the name of one that comes with the program.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    return sim.locate(name, sim.shipped("scenarios/studies"), "study")


def load_study(
    path: str | Path,
    overrides: tuple[str, ...] = (),
    *,
    replications: int | None = None,
    precision: str | None = None,
) -> LoadedStudy:
    """Return the study of a file.

    Parameters
    ----------
    path
        The file.
    overrides
        Texts ``a.b=c`` that replace values of the study; those that begin with ``set.`` reach its scenario.
    replications, precision
        In place of what the study says of either: replications of every point, or the width of an interval.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    try:
        document = read_study(Path(path), overrides)
    except documents.DocumentError as error:
        raise sim.ScenarioError([str(error)]) from None
    if replications is not None or precision is not None:
        document = _instead(document, replications, precision)
    data = _named(document)
    try:
        study = Study.model_validate(data)
    except ValidationError as error:
        raise sim.ScenarioError(complaints.complaints(Study, document, data, error)) from None
    template = _template(study, document, Path(path))
    seed = () if study.seed is None else (settings_text("seed", study.seed),)
    common = (*(settings_text(path, content) for path, content in study.set.items()), *seed)
    return LoadedStudy(study, template, common, document)


def _instead(document: Document, replications: int | None, precision: str | None) -> Document:
    """Return a study with another number of replications, or another precision: each is in place of the other."""
    found = document.copy()
    said = found.data.pop("precision", None)
    found.data.pop("replications", None)
    if precision is not None:
        found.data["precision"] = {**(said if isinstance(said, dict) else {}), "width": precision}
        found.values["precision", "width"] = documents.Mark("--precision", text=precision)
    else:
        found.data["replications"] = replications
        found.values["replications",] = documents.Mark("--replications", text=str(replications))
    return found


def _named(document: Document) -> dict[str, Any]:
    """Return the data of a study with its design named: a grid, if it says nothing."""
    data = dict(document.data)
    if isinstance(data.get("design"), dict):
        data["design"] = {"use": "grid", **data["design"]}
    return data


def _template(study: Study, document: Document, path: Path) -> sim.Template:
    """Return the scenario of a study: a file beside it, or the name of a shipped one."""
    beside = path.parent / study.scenario
    known = sim.shipped("scenarios")
    if not beside.is_file() and study.scenario in known:
        beside = known[study.scenario]
    if not beside.is_file():
        offer = documents.neighbour(beside) or documents.suggest(study.scenario, known)
        rule = f"no file {study.scenario} beside the study, and no scenario of this name{offer}"
        raise sim.ScenarioError([complaints.line(document, ("scenario",), rule)])
    template = sim.template(beside)
    if {"vary", "scenario"} <= template.document.data.keys():
        rule = f"{study.scenario} is a study itself: name the scenario that it is about"
        raise sim.ScenarioError([complaints.line(document, ("scenario",), rule)])
    return template
