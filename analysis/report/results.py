"""A folder of results: which command left it, and its documents."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["COMPARE", "OPTIMIZE", "RUN", "SENSITIVITY", "VALIDATE", "ReportError", "Results", "read_results"]

RUN, COMPARE, VALIDATE = "run.json", "compare.json", "validate.json"
SENSITIVITY, OPTIMIZE = "sensitivity.json", "optimize.json"

_KEYS = {
    "run": (RUN, {"scenario", "metrics", "time_shares", "loss_gpu_s"}),
    "sweep": (RUN, {"study", "axes", "cells", "answers"}),
    "compare": (COMPARE, {"variants", "first", "headline"}),
    "sensitivity": (SENSITIVITY, {"study", "tornado", "indices"}),
    "optimize": (OPTIMIZE, {"study", "aims", "tried"}),
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
        message = "is a file; name the folder that holds the results" if is_there else "no such folder"
        raise ReportError(message)
    names = dict.fromkeys(name for name, _ in _KEYS.values())
    documents = {name: _read(folder / name) for name in names if (folder / name).is_file()}
    for kind, (name, keys) in _KEYS.items():
        if name in documents and keys <= documents[name].keys():
            return Results(folder, kind, documents)
    if documents:
        message = (
            f"{next(iter(documents))} is not a document that this version of Ettrick writes: make the results anew"
        )
        raise ReportError(message)
    if (folder / "journal.jsonl").is_file():
        message = "holds a study that is not finished: go on with the same ettrick sweep command first"
        raise ReportError(message)
    message = "holds no results; ettrick run, compare, sweep, sensitivity, optimize and validate leave them with --out"
    raise ReportError(message)


def _read(path: Path) -> dict[str, Any]:
    """Return a document."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        message = f"{path.name} cannot be read"
        raise ReportError(message) from None
    if not isinstance(content, dict):
        message = f"{path.name} is not a document of Ettrick"
        raise ReportError(message)
    return content
