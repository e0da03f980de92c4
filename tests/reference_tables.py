"""The tables of published measurements that tests compare with, where they lie beside the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

PERF_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "perf"

"""Where the tables of step times, hardware and power are."""


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table, or skip the test that wants it."""
    path = PERF_DATA / name
    if not path.exists():
        pytest.skip("skipped: reference data not present")
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
