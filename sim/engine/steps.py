"""How many optimizer steps a job has done, as far as its work survives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
    """Counts the steps behind the work of each job: fewer replicas need more of them for the same work."""

    def __init__(self) -> None:
        self.stretches: dict[int, list[_Stretch]] = {}

    def change(self, job: Job) -> None:
        """Note that a job, whose work is charged, has the pace of now from here on."""
        if job.step_time <= 0:
            return
        slope = 1.0 / (job.pace.rate * job.pace.step)
        mine = self.stretches.setdefault(job.index, [_Stretch(0.0, 0.0, 1.0 / job.step_time)])
        last = mine[-1]
        if abs(last.slope - slope) > _SAME * slope:
            mine.append(_Stretch(job.work, last.steps + (job.work - last.work) * last.slope, slope))

    def roll_back(self, job: Job) -> None:
        """Forget the paces of work that a job has lost; it goes on at the pace that it has now."""
        mine = self.stretches.get(job.index)
        if mine is None:
            return
        while len(mine) > 1 and mine[-1].work >= job.work:
            mine.pop()
        self.change(job)

    def done(self, job: Job) -> float:
        """Return the steps behind the work that a job has now [-]; 0 without the time of a step."""
        if job.step_time <= 0:
            return 0.0
        mine = self.stretches.get(job.index)
        if not mine:
            return job.work / job.step_time
        return mine[-1].steps + (job.work - mine[-1].work) * mine[-1].slope
