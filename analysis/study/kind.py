"""What a file is: a scenario, or a study of one."""

from __future__ import annotations

from pathlib import Path

import sim
from sim import documents

__all__ = ["kind_of"]


def kind_of(name: str) -> str:
    """Return ``study`` or ``scenario``, for a file or a name that comes with the program; empty for neither."""
    path = Path(name)
    if not path.is_file():
        if name in sim.shipped("scenarios/studies"):
            return "study"
        return "scenario" if name in sim.shipped("scenarios") else ""
    try:
        data = documents.load(path).data
    except documents.DocumentError:
        return ""
    if not isinstance(data, dict):
        return ""
    if "vary" in data:
        return "study"
    return "scenario" if {"cluster", "jobs"} <= data.keys() else ""
