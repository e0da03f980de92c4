"""By what and how the numbers of a document were made."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim import documents

if TYPE_CHECKING:
    from sim import Scenario

__all__ = ["provenance", "scenario_digest"]


def provenance(command: str, scenario: Scenario | None = None) -> dict[str, str]:
    """Return by what and how numbers were made, of one scenario or of none in particular; see json.md."""
    return {
        "version": metadata.version("ettrick"),
        **({} if scenario is None else {"scenario_sha256": scenario_digest(scenario)}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "command": command,
    }


def scenario_digest(scenario: Scenario) -> str:
    """Return the SHA-256 of a scenario's content, the same wherever its files lie."""
    content = scenario.dump()
    for reader in (*content["failures"], content["cluster"]["fabric"]):
        for key in documents.FILE_KEYS:
            if key in reader:
                reader[key] = hashlib.sha256(Path(reader[key]).read_bytes()).hexdigest()
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
