"""How many optimizer steps a job has done, as far as its work survives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim.contracts import Pace
    from sim.job import Job

__all__ = ["Steps"]

_SAME = 1e-9
"""Relative difference below which two paces make as many steps of the same work [-]."""


class _Stretch(NamedTuple):
    """From some work on [s], after so many steps [-], a second of healthy work takes so many steps [1/s]."""

    work: float
    steps: float
    slope: float


class Steps:
    """Counts steps, and takes back those of work that is lost: fewer replicas need more of them for the same work."""

    def __init__(self) -> None:
        self.stretches: dict[int, list[_Stretch]] = {}

    def advance(self, job: Job, pace: Pace, stepped: float) -> None:
        """Count the steps of a job that has `stepped` for a time [s] at some pace, its work being charged already."""
        slope = 1.0 / (pace.rate * pace.step)
        mine = self.stretches.setdefault(job.index, [])
        if not mine or abs(mine[-1].slope - slope) > _SAME * slope:
            mine.append(_Stretch(job.work - stepped * pace.rate, job.steps, slope))
        job.steps += stepped / pace.step

    def roll_back(self, job: Job) -> None:
        """Take back the steps beyond the work of a job."""
        mine = self.stretches.get(job.index, [])
        while len(mine) > 1 and mine[-1].work >= job.work:
            mine.pop()
        if mine:
            last = mine[-1]
            job.steps = last.steps + max(job.work - last.work, 0.0) * last.slope
