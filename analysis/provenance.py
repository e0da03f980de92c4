"""By what and how the numbers of a document were made."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from analysis.document import scenario_digest

if TYPE_CHECKING:
    from sim import Prepared

__all__ = ["provenance"]


def provenance(prepared: Prepared, command: str) -> dict[str, str]:
    """Return by what and how the numbers of a scenario were made; see docs/reference/json.md."""
    return {
        "version": metadata.version("ettrick"),
        "scenario_sha256": scenario_digest(prepared.scenario),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "command": command,
    }
