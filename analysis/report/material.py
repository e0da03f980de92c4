"""What a report is made of: the documents of a folder, its tables, and the scenarios that are looked at closely."""

from __future__ import annotations

import csv
import functools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sim
from analysis.report.choice import chosen_cells
from analysis.report.focus import Focus
from analysis.report.phrases import phrases
from analysis.report.results import OPTIMIZE, RUN, SENSITIVITY, STUDY_RESOLVED, VARIANT, ReportError, Results
from analysis.study.load import RESOLVED, load_study
from analysis.study.value import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from analysis.study.axis import Axis
    from analysis.study.load import LoadedStudy

__all__ = ["Material"]


@dataclass(frozen=True)
class Material:
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
            return self._focus(self.main["scenario"], self._scenario(RESOLVED), self.main["replications"], self.main)
        if self.kind == "compare":
            return self._variant(self.main["order"][0] if self.main["order"] else self.main["first"])
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
            names, focus = list(self.main["variants"]), self.focus
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
            message = f"{STUDY_RESOLVED}: has no point {cell['point']}: it is not the study of {RUN}"
            raise ReportError(message)
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
            message = f"{path.name} cannot be read ({error})"
            raise ReportError(message) from None
        for number, row in enumerate(rows, start=2):
            mistake = _mistake_in(row)
            if mistake is not None:
                message = f"{path.name}:{number}: {mistake} is not what ettrick sweep writes; make the results anew"
                raise ReportError(message)
        return rows

    def _focus(self, name: str, scenario: sim.Scenario, wanted: int, known: Mapping[str, Any] | None = None) -> Focus:
        return Focus(name, scenario, wanted, known, self.progress)

    def _variant(self, name: str) -> Focus:
        number = list(self.main["variants"]).index(name) + 1
        return self._focus(name, self._scenario(VARIANT.format(number)), self.main["replications"])

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
