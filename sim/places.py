"""Where a node can be, and what a stay out of service is charged to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["POOLS", "Place", "Reserve", "Stay", "Units"]


class Place(IntEnum):
    """Where a node is."""

    IDLE = 0
    SPARE = 1
    JOB = 2
    REPAIR = 3
    WARM = 4
    COLD = 5
    STRANDED = 6
    MATE = 7
    WITHHELD = 8


POOLS = {"idle": Place.IDLE, "spare": Place.SPARE, "warm": Place.WARM, "cold": Place.COLD}


class Reserve(NamedTuple):
    """Nodes that a pool holds back at the start, and whether returning nodes fill it again.

    A node that is taken is ready after `delay` [s]; with `one_by_one` the next one only then begins to get ready.
    """

    nodes: int
    refills: bool = True
    delay: float = 0.0
    one_by_one: bool = False


class Units(NamedTuple):
    """Racks or scale-up domains that jobs use as wholes.

    A job takes ``needed`` nodes of a unit, the others are spares inside it. With ``drains`` a unit is of use only while
    all its nodes are healthy: to repair one of them takes the unit out of use. The numbers of a unit's nodes follow one
    another.
    """

    nodes: tuple[tuple[int, ...], ...]
    needed: int
    drains: bool = False


class Stay:
    """A node out of service: since when it is charged, to which cause, and through which phases it goes."""

    __slots__ = ("cause", "segments", "since")

    def __init__(self, since: float, cause: int, segments: list[tuple[int, float]]) -> None:
        self.since = since
        self.cause = cause
        self.segments = segments
        """Phases ahead: bucket and end [s]; the last one lasts until the node returns."""

    def charge(self, table: list[list[float]], gpus: int, now: float) -> None:
        """Charge a node of so many GPUs up to `now` [s], phase by phase."""
        while self.since < now:
            bucket, end = self.segments[0]
            stop = end if end < now else now
            table[bucket][self.cause] += (stop - self.since) * gpus
            self.since = stop
            if end <= now:
                del self.segments[0]
