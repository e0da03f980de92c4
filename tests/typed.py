"""Documents of commands in tests: made as models, changed as plain data, shown as models again."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ettrick.analysis.parts import Part
from ettrick.analysis.results.run import plain
from ettrick.analysis.results.studies import SweepDocument

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")


def present(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value


PROVENANCE = {"version": "0", "python": "3", "numpy": "2", "command": "ettrick"}

"""How the numbers of a document that is written by hand were made."""


def as_plain(build: Callable[..., Part]) -> Callable[..., dict[str, Any]]:
    """Return a function that gives plain data where another one gives a document or a part of one."""

    @wraps(build)
    def built(*arguments: Any, **options: Any) -> dict[str, Any]:
        return plain(build(*arguments, **options))

    return built


def of_plain(show: Callable[..., Any], model: type[Part]) -> Callable[..., Any]:
    """Return a function that takes plain data where another one takes a document or a part of one."""

    @wraps(show)
    def shown(content: Any, *arguments: Any, **options: Any) -> Any:
        typed = content if isinstance(content, Part) else model.model_validate(content)
        return show(typed, *arguments, **options)

    return shown


_SWEEP = {
    "study": "by hand", "question": "", "description": "", "scenario": "today", "seed": 1, "design": {"use": "grid"},
    "precision": None, "at_equal": None, "at_equal_lines": [], "currency": "EUR", "replications": [8], "counts": {},
    "answers": [], "warnings": [], "notes": [], "assumptions": [], "provenance": PROVENANCE,
}  # fmt: skip

_AXIS = {"unknown": False, "basis": None, "source": ""}

_CELL = {
    "status": "ok", "trouble": "", "troubles": [], "draws": 0, "replications": 8, "precise": None, "censored": 0,
    "never_started": 0, "closed_form": None, "gpus": None,
}  # fmt: skip

_METRIC = {
    "mean_ci95": None, "method": None, "std": None, "p05": None, "p50": None, "p95": None, "band90": None,
    "replications": 8, "censored": 0, "never_started": 0,
}  # fmt: skip


def sweep_of(content: dict[str, Any]) -> SweepDocument:
    """Return the document of a sweep that says what a test is about; all else is as of a small sweep."""
    axes = {name: _AXIS | {"paths": [name]} | axis for name, axis in content["axes"].items()}
    cells = []
    for cell in content["cells"]:
        metrics = {name: _METRIC | found for name, found in cell["metrics"].items()}
        cells.append(_CELL | {"point": cell["cell"]} | cell | {"metrics": metrics})
    answers = [{"sentences": []} | answer for answer in content.get("answers", ())]
    return SweepDocument.model_validate(_SWEEP | content | {"axes": axes, "cells": cells, "answers": answers})
