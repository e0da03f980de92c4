"""Files and folders of results: whole or not there, and never another run's."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import sim
from analysis.provenance import scenario_digest

if TYPE_CHECKING:
    from sim import Scenario

__all__ = ["not_to_be_replaced", "refusal", "write_file", "write_folder"]


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


def not_to_be_replaced(path: Path) -> str | None:
    """Return why no file can be written in the place of what is there, if anything is: a folder, a device, a pipe."""
    if path.is_dir():
        return "is a folder, not a file"
    is_circle = _end_of_links(path).is_symlink()
    if is_circle or (path.exists() and not path.is_file()):
        return "is not a regular file"
    return None


def write_file(path: Path, content: bytes) -> str | None:
    """Write a file, complete or not at all; return what went wrong. Of a link, the file that it leads to is written."""
    complaint = not_to_be_replaced(path)
    if complaint is not None:
        return complaint
    target = _end_of_links(path)
    unfinished = _beside(target)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return f"cannot be written ({error.strerror})"
    return None


def _end_of_links(path: Path) -> Path:
    """Return the file that links lead to, or one of them if they lead in a circle."""
    return Path(os.path.realpath(path))  # unlike Path.resolve, without an exception on any version


def _beside(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.name}.unfinished")
