"""The runtime form of a failure source: how many units, which law, when a life begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sim.laws import LawModel

__all__ = ["Clock", "Recorded", "Renews", "Source"]

Renews: TypeAlias = Literal["at_failure", "at_return", "never"]
Clock: TypeAlias = Literal["wall", "in_service", "busy"]


@dataclass(frozen=True)
class Recorded:
    """Outages of one cause in a log: unit, start and end [s] by row, each of shape (n,), sorted by start.

    ``span`` [s] is how long the whole log is, from zero to its last start.
    """

    unit: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    span: float


@dataclass(frozen=True)
class Source:
    """A population of units that fail for one cause.

    Parameters
    ----------
    name
        Cause; unique in a scenario and the name of the source's random streams.
    part
        Class of part in the topology, or ``job``.
    units
        Number of units.
    law
        Law of a life, ``None`` for a recorded log.
    renews
        When the next life begins: at the failure, when the node is back, or never.
    clock
        What a life counts: all time, time in which the node is not down, or time in which it serves a running job.
    idle_hazard
        Hazard of a node that serves no job, relative to one that does [-].
    interrupts
        Probability that a fault becomes a failure [-].
    repair, detection
        Laws that replace the scenario's for this source.
    planned
        Whether its interruptions count as planned.
    recorded
        Rows of a log.
    events
        Number of observed events on which the rate rests; the width of its uncertainty follows from it.
    """

    name: str
    part: str
    units: int
    law: LawModel | None
    renews: Renews = "at_failure"
    clock: Clock = "wall"
    idle_hazard: float = 1.0
    interrupts: float = 1.0
    repair: LawModel | None = None
    detection: LawModel | None = None
    planned: bool = False
    recorded: Recorded | None = None
    events: int | None = None

    @property
    def rate(self) -> float:
        """Rate of all units together [1/s]; for a log, rows over the log's span."""
        if self.recorded is not None:
            span = self.recorded.span
            return len(self.recorded.start) / span if span > 0 else 0.0
        assert self.law is not None
        return self.units / self.law.mean_value

    @property
    def all_known_ahead(self) -> bool:
        """Whether every candidate time follows from the lives alone, whatever the policies do."""
        return self.recorded is not None or (self.clock == "wall" and self.renews != "at_return")
