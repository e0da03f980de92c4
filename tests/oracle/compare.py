"""Tables of results by name, for comparison with second implementations, and what differs between two tables."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim.policies.contracts import NO_FAILURE, Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ettrick import sim

Row = tuple[int, int, int, str]

"""A row of a log: node, start, end [s] and cause."""


def written(folder: Path, keys: Mapping[str, Any], logs: Mapping[str, Sequence[Row]]) -> Path:
    """Write a scenario and its logs into a folder; return the file of the scenario."""
    for name, rows in logs.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("unit", "start", "end", "cause"), *rows])
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(keys))
    return path


def causes(prepared: sim.Prepared) -> list[str]:
    """Return the names of the causes by number; 0 is no failure."""
    return [NO_FAILURE, *(source.name for source in prepared.sources)]


def table(prepared: sim.Prepared, totals: NDArray[np.float64]) -> dict[tuple[str, str], float]:
    """Return what is not 0 of an array of windows, buckets and causes, by bucket and cause [GPU s]."""
    names, amounts = causes(prepared), totals.sum(axis=0)
    return {
        (Bucket(bucket).name.lower(), names[cause]): float(amounts[bucket, cause])
        for bucket, cause in zip(*np.nonzero(amounts), strict=True)
    }


def differences(left: Mapping[Any, float], right: Mapping[Any, float]) -> dict[Any, tuple[float, float]]:
    """Return what differs between two tables, where what a table lacks is 0."""
    pairs = {key: (left.get(key, 0), right.get(key, 0)) for key in sorted({*left, *right})}
    return {key: pair for key, pair in pairs.items() if abs(pair[0] - pair[1]) > 1e-6}
