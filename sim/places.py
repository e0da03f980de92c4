"""Where a node can be, and what a stay out of service is charged to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["POOLS", "Place", "Reserve", "Stay"]


class Place(IntEnum):
    """Where a node is."""

    IDLE = 0
    SPARE = 1
    JOB = 2
    REPAIR = 3
    WARM = 4
    COLD = 5
    STRANDED = 6


POOLS = {"idle": Place.IDLE, "spare": Place.SPARE, "warm": Place.WARM, "cold": Place.COLD}


class Reserve(NamedTuple):
    """Nodes that a pool holds back at the start, and whether returning nodes fill it again.

    A node that is taken is ready after `delay` [s]; with `one_by_one` the next one only then begins to get ready.
    """

    nodes: int
    refills: bool = True
    delay: float = 0.0
    one_by_one: bool = False


class Stay:
    """A node out of service: since when it is charged, to which cause, and through which phases it goes."""

    __slots__ = ("cause", "segments", "since")

    def __init__(self, since: float, cause: int, segments: list[tuple[int, float]]) -> None:
        self.since = since
        self.cause = cause
        self.segments = segments
        """Phases ahead: bucket and end [s]; the last one lasts until the node returns."""
