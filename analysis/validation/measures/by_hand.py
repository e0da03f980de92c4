"""Small scenarios, failures written by hand, and the phases that the simulator makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim import Prepared, Result

_NEVER: dict[str, Any] = {"law": {"law": "exponential", "mean": "1000000 d"}, "renews": "never"}

HOST, SOFTWARE = 0, 1

"""Indices of the two sources of a small scenario: a node that dies, and a process that ends."""


class Phase(NamedTuple):
    """What a group did, without regard to why: its bucket by name, and when [s]; `smaller` with replicas away."""

    bucket: str
    start: float
    end: float


def small(preset: str, horizon: float, replicas: int = 4, nodes: int = 6, **changes: Any) -> dict[str, Any]:
    """Return replicas of one GPU each as plain data, with a recovery preset and all that it brings along.

    Its two sources never strike by themselves: failures come from :func:`failures_at`.
    """
    store = {"interval": "500 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return {
        "name": "by hand",
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": f"{horizon!r} s",
        "jobs": [{"name": "job", "gpus": replicas, "parallelism": {"data": replicas}}],
        "failures": [
            {"use": "component", "name": "host", "part": "node", **_NEVER},
            {"use": "job", "name": "software", "rate": "1 per 1000000 job-d"},
        ],
        "checkpoint": {"tiers": [store], "from_preset": True},
        "repair": {"time": "200 s"},
        **changes,
        "recovery": {"use": preset, **changes.get("recovery", {})},
    }


def failures_at(prepared: Prepared, rows: Iterable[tuple[float, int, int]]) -> Any:
    """Return failures for ``sim.run``, from rows of time [s], index of the source, and the unit that is struck."""
    rows = sorted(rows)
    return replace(
        sim.trace(prepared, 0),
        time=np.array([row[0] for row in rows], dtype=np.float64),
        source=np.array([row[1] for row in rows], dtype=np.int64),
        slot=np.array([row[2] for row in rows], dtype=np.int64),
        round=np.arange(len(rows), dtype=np.int64),
        until=np.full(len(rows), np.nan),
    )


def phases(result: Result) -> list[Phase]:
    """Return the phases of the replicas that step together, in order of time; the run must have kept its timeline."""
    assert result.timeline is not None
    found: list[Phase] = []
    for span in result.timeline.spans:
        if span.group != 0:
            continue
        bucket, start = "smaller" if span.name else sim.Bucket(span.bucket).name.lower(), span.start
        if found and found[-1].bucket == bucket and found[-1].end == start:
            start = found.pop().start
        found.append(Phase(bucket, start, span.end))
    return found
