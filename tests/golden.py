"""Golden documents: what the program writes, compared whole with files; ``python -m tests.golden`` writes these."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"

WRITES = "ETTRICK_GOLDEN"


def compare(name: str, text: str) -> None:
    """Assert that a text is that of its file; nobody writes it again without reading what has changed."""
    path = FOLDER / name
    if WRITES in os.environ:
        path.write_text(text, encoding="utf-8")
    known = path.read_text(encoding="utf-8").splitlines()
    assert text.splitlines() == known, f"golden/{name} differs: look at it, then python -m tests.golden writes it again"


if __name__ == "__main__":
    import pytest

    os.environ[WRITES] = "1"
    sys.exit(pytest.main(["-q", "-n", "0", "-k", "golden", *sys.argv[1:], "tests/unit"]))
