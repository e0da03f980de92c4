"""A folder of results: which command left it, and its documents."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.document import checksum
from analysis.provenance import scenario_digest
from analysis.study.load import RESOLVED, load_study
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "COMPARE",
    "OPTIMIZE",
    "RUN",
    "SENSITIVITY",
    "STUDY_RESOLVED",
    "VALIDATE",
    "VARIANT",
    "ReportError",
    "Results",
    "damage_in_a_line",
    "read_results",
]

RUN, COMPARE, VALIDATE = "run.json", "compare.json", "validate.json"
SENSITIVITY, OPTIMIZE = "sensitivity.json", "optimize.json"
STUDY_RESOLVED = "study.resolved.yaml"
VARIANT = "variant-{}.resolved.yaml"

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
    kinds = [kind for kind, (name, keys) in _KEYS.items() if name in documents and keys <= documents[name].keys()]
    for kind in kinds:
        _check(kind, documents[_KEYS[kind][0]])
    if kinds:
        return Results(folder, kinds[0], documents)
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
        message = (
            f"{results.file}: no report can be made of it and of what lies beside it ({told}); make the results anew"
        )
        raise ReportError(message) from None


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
    from analysis.report.shapes import mistake_in

    name = _KEYS[kind][0]
    mistake = mistake_in(kind, content)
    if mistake is not None:
        message = f"{name}: {mistake}; make the results anew"
        raise ReportError(message)
    if content["provenance"].get("sha256", checksum(content)) != checksum(content):
        message = f"{name}: was changed after it was written (provenance.sha256 does not fit); make the results anew"
        raise ReportError(message)


def _read(path: Path) -> dict[str, Any]:
    """Return a document."""
    try:
        content = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError):
        message = f"{path.name} cannot be read"
        raise ReportError(message) from None
    if not isinstance(content, dict):
        message = f"{path.name} is not a document of Ettrick"
        raise ReportError(message)
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and its like are no JSON
