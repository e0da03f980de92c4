"""What was measured of large jobs, and by whom: points to lay over curves."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sim import units
from sim.documents import load

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BASES", "MeasuredPoint", "largest_measured", "measured_points"]

BASES = {
    "primary": "read in the source",
    "derived": "computed from figures of the source",
    "secondary": "quoted by others",
}
"""How the points are known, in words."""

_DATA = Path(__file__).with_name("measured.yaml")


class MeasuredPoint(NamedTuple):
    """One published value.

    Parameters
    ----------
    name
        Whose job it was.
    gpus
        Its size [-].
    value
        Time between interruptions [s], or share of productive time [-].
    basis
        How it is known: a key of `BASES`.
    source
        Who says so.
    is_bound
        Whether the true value is above it.
    range
        Ends of what the source leaves open, in the unit of the value; ``None`` where it states one number.
    note
        What else is in it, or is not.
    doubt
        Why it may be no measurement; empty where nobody doubts that.
    """

    name: str
    gpus: int
    value: float
    basis: str
    source: str
    is_bound: bool = False
    range: tuple[float, float] | None = None
    note: str = ""
    doubt: str = ""

    @property
    def remarks(self) -> str:
        """How it is known, and what to know of it."""
        return "; ".join(filter(None, (BASES[self.basis], self.note, self.doubt)))


def measured_points(quantity: str) -> tuple[MeasuredPoint, ...]:
    """Return what was published of a quantity, ``mtti`` or ``ettr``, the smallest jobs first."""
    return _points()[quantity]


def largest_measured(quantity: str) -> int:
    """Return the size of the largest job of which a quantity was measured beyond doubt [GPUs]."""
    return max(point.gpus for point in measured_points(quantity) if not point.doubt)


@functools.cache
def _points() -> Mapping[str, tuple[MeasuredPoint, ...]]:
    """Return the points of the file by quantity."""
    content: dict[str, Any] = load(_DATA).data
    found = {"mtti": tuple(map(_time, content["mtti"])), "ettr": tuple(map(_share, content["ettr"]))}
    return {name: tuple(sorted(points, key=lambda point: point.gpus)) for name, points in found.items()}


def _time(entry: Mapping[str, Any]) -> MeasuredPoint:
    """Return a time between interruptions: as it is stated, or the time over the count."""
    if "count" in entry:
        return _point(entry, units.parse(entry["time"], units.DURATION) / entry["count"])
    return _point(entry, units.parse(entry["mtti"], units.DURATION))


def _share(entry: Mapping[str, Any]) -> MeasuredPoint:
    """Return a share of productive time."""
    ends = [units.parse(end, units.FRACTION) for end in entry.get("range", ())]
    point = _point(entry, units.parse(entry["ettr"], units.FRACTION))
    return point._replace(is_bound=entry.get("bound") == "above", range=(ends[0], ends[1]) if ends else None)


def _point(entry: Mapping[str, Any], value: float) -> MeasuredPoint:
    """Return a point with what all of them state."""
    return MeasuredPoint(
        entry["name"],
        entry["gpus"],
        value,
        entry["basis"],
        entry["source"],
        note=entry.get("note", ""),
        doubt=entry.get("doubt", ""),
    )
