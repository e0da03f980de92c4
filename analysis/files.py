"""Files and folders of results: whole or not there, and never another run's."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

import sim
from analysis.document import scenario_digest

if TYPE_CHECKING:
    from pathlib import Path

    from sim import Scenario

__all__ = ["refusal", "write_file", "write_folder"]


def refusal(folder: Path, scenario: Scenario, *, overwrite: bool) -> str | None:
    """Return why a folder cannot take a run: not to be made, or it holds something else than the same scenario's."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        return f"{nearest} is a file, not a folder"
    if not os.access(nearest, os.W_OK):
        return f"cannot be written (no permission for {nearest})"
    if overwrite or not folder.exists() or not any(folder.iterdir()):
        return None
    try:
        earlier = json.loads((folder / "run.json").read_bytes())["provenance"]["scenario_sha256"]
    except (OSError, ValueError, LookupError, TypeError):
        earlier = None
    return (
        None if earlier == scenario_digest(scenario) else "holds something else; name another folder or add --overwrite"
    )


def write_folder(folder: Path, scenario: Scenario, text: str, extra: dict[str, str]) -> str | None:
    """Write the files of a run, each complete or not at all; return what went wrong."""
    contents = {"scenario.resolved.yaml": sim.dump(scenario.dump()), "run.json": text + "\n", **extra}
    unfinished = {name: _beside(folder / name) for name in contents}
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            unfinished[name].write_text(content, encoding="utf-8")
        for name, path in unfinished.items():
            path.replace(folder / name)
    except OSError as error:
        with contextlib.suppress(OSError):
            for path in unfinished.values():
                path.unlink(missing_ok=True)
            if is_new:
                folder.rmdir()
        return f"cannot be written ({error.strerror})"
    return None


def write_file(path: Path, content: bytes) -> str | None:
    """Write a file, complete or not at all; return what went wrong."""
    if path.is_dir():
        return "is a folder, not a file"
    unfinished = _beside(path)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return f"cannot be written ({error.strerror})"
    return None


def _beside(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.name}.unfinished")
