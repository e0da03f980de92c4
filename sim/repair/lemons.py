"""Lemon policies: when a node that was blamed again and again is given up, judged by what operators see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.fields import Duration, Strategy

if TYPE_CHECKING:
    from sim.contracts import Memory

__all__ = ["LEMONS", "Score", "Threshold"]

_DAY = 86400.0


class Threshold(Strategy):
    """Too many blames in a window of time."""

    use: Literal["threshold"] = "threshold"
    failures: int = Field(ge=1, description="Blames within the window that make a lemon.")
    window: Duration = Field(gt=0, description="Length of the window.")

    def blame(self, memory: Memory, time: float, uptime: float) -> tuple[Memory, bool]:
        """Remember the blames of the window."""
        del uptime
        recent = (*(each for each in memory or () if each > time - self.window), time)
        return recent, len(recent) >= self.failures

    def score(self, memory: Memory) -> float:
        """Fewer recent blames are better."""
        return -float(len(memory or ()))


class Score(Strategy):
    """Points: a blame costs some, time without one gives some back."""

    use: Literal["score"] = "score"
    start: float = Field(100.0, gt=0, description="Points of a node without blames, and the most it can have.")
    blame_costs: float = Field(30.0, gt=0, description="Points that a blame costs.")
    regains: float = Field(10.0, ge=0, description="Points that a day of being up gives back.")
    floor: float = Field(0.0, description="Points at which a node is a lemon.")

    def blame(self, memory: Memory, time: float, uptime: float) -> tuple[Memory, bool]:
        """Give points for the time since the last return, then take some for the blame."""
        del time
        points = self.start if memory is None else memory
        points = min(points + self.regains * uptime / _DAY, self.start) - self.blame_costs
        return points, points <= self.floor

    def score(self, memory: Memory) -> float:
        """Return the points after the last blame."""
        return float(self.start if memory is None else memory)


LEMONS = {"threshold": Threshold, "score": Score}
