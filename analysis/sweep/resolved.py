"""A study as it is played, in files that can go anywhere: with its options, its scenario, and what that reads."""

from __future__ import annotations

import contextlib
import copy
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sim
from analysis.study.inputs import file_digest, with_files
from analysis.study.load import RESOLVED
from analysis.study.value import label_of
from sim import documents
from sim.strict_yaml import content_of

if TYPE_CHECKING:
    from analysis.study.load import LoadedStudy
    from sim.documents import Document, Keys

__all__ = ["INPUT", "STUDY_RESOLVED", "resolved"]

STUDY_RESOLVED = "study.resolved.yaml"
"""The study, with its options; beside it lies its scenario."""
INPUT = r"input-[0-9a-f]{12}(\.\w+)*"
"""Pattern of the names of files that the scenario reads, at any point."""


def resolved(loaded: LoadedStudy) -> tuple[dict[str, str], dict[str, Path]]:
    """Return the files that say what a study is, and copies that go with them: by name the content, and the source.

    The study that is read from them has the same keys, and its values have the same labels.
    """
    data, inputs = _portable(loaded.template)
    content = loaded.content()
    _bring_along(content, inputs)
    return {RESOLVED: sim.dump(data), STUDY_RESOLVED: sim.dump(content)}, inputs


def _portable(template: sim.Template) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return a scenario as one document with the same content, and the files that it reads, by their new names."""
    document, content = template.document, template.content
    data = copy.deepcopy(document.data)
    for path in document.stale:
        # A leftover of a choice that was replaced would look as if it had been written for this one.
        holder, effective = _at(data, path[:-1]), _at(content, path[:-1])
        if isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] != (effective or {}).get(path[-1]):
            del holder[path[-1]]
    inputs: dict[str, Path] = {}
    sources = data.get("failures")
    places: list[Keys] = [("failures", index) for index in range(len(sources) if isinstance(sources, list) else 0)]
    for place in (*places, ("cluster", "fabric")):
        holder, effective = _at(data, place), _at(content, place)
        for key in documents.FILE_KEYS if isinstance(holder, dict) else ():
            if not isinstance(holder.get(key), str):
                continue
            path = _folder(document, (*place, key), template.folder) / holder[key]
            with contextlib.suppress(OSError):
                digest = hashlib.sha256(content_of(path)).hexdigest()
                if effective[key] == digest:
                    holder[key] = _copy_of(path, digest)
                    inputs[holder[key]] = path
    return data, inputs


def _copy_of(path: Path, digest: str) -> str:
    """Return the name of a copy of a file, given SHA-256 of what is in it."""
    return f"input-{digest[:12]}{path.suffix}"


def _bring_along(content: dict[str, Any], inputs: dict[str, Path]) -> None:
    """Name copies in place of the files that a study names under ``set`` and ``vary``, and add them to the inputs."""

    def copied(name: str) -> str:
        digest = file_digest(name)
        if digest is None:
            return name
        inputs[_copy_of(Path(name), digest)] = Path(name)
        return _copy_of(Path(name), digest)

    content |= {"set": with_files("", content["set"], copied)} if "set" in content else {}
    for name, axis in content["vary"].items():
        choices = axis.get("choices")
        path, *_ = axis.get("paths") or [axis.get("path") or name]
        if isinstance(choices, list):
            changed = [with_files(path, choice, copied) for choice in choices]
            if changed != choices:
                axis |= {"choices": dict(zip(map(label_of, choices), changed, strict=True))} | (
                    {} if "paths" in axis else {"path": path}
                )
        elif isinstance(choices, dict):
            is_linked = not (axis.get("path") or axis.get("paths"))
            axis["choices"] = {
                label: with_files("" if is_linked else path, choice, copied) for label, choice in choices.items()
            }


def _at(data: Any, path: Keys) -> Any:
    """Return what plain data have at a path; ``None`` if there is nothing."""
    for key in path:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return None
    return data


def _folder(document: Document, path: Keys, folder: Path) -> Path:
    """Return the folder from which a file is meant that a document names at a path."""
    mark = documents.nearest_mark(document, path)
    return Path(mark.file).parent if mark.line else folder
