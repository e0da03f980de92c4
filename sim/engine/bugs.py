"""Bugs of a job's software: failures at a point of its work, again and again until they are mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.contracts import Bucket, Run, Stall
from sim.engine.failure import Failure
from sim.failures.trace import ROUNDS
from sim.laws import draw

if TYPE_CHECKING:
    from sim.engine.failure import SourceInfo
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Bug", "Bugs"]


class Bug:
    """The next bug of a job: where it waits [s of healthy work], and when it is mended [s]."""

    __slots__ = ("at", "attempts", "info", "mended", "met", "number")

    def __init__(self, info: SourceInfo, at: float) -> None:
        self.info = info
        self.at = at
        self.number = 0
        self.attempts = 0
        self.mended = float("inf")
        self.met = -1.0
        """When it last made the job fail [s]."""


class Bugs:
    """Keeps the bugs of every job in the order in which it will meet them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.open: dict[int, list[Bug]] = {}

    def start(self) -> None:
        """Put the first bug of each source before each job."""
        for info in self.simulation.sources.infos:
            if info.source.fix is None or info.source.law is None:
                continue
            for job in self.simulation.jobs:
                bug = Bug(info, self.simulation.sources.life(info.index, job.index, 0))
                self.open.setdefault(job.index, []).append(bug)
        for job in self.simulation.jobs:
            self._expect(job)

    def _expect(self, job: Job) -> None:
        job.stops_at = min([job.target, *(bug.at for bug in self.open.get(job.index, ()))])

    def meet(self, job: Job, now: float) -> None:
        """Let a job, which has come to its next bug and is settled, pass it if it is mended, or fail."""
        bug = min(self.open[job.index], key=lambda each: each.at)
        if now >= bug.mended:
            bug.number += 1
            bug.attempts = 0
            bug.mended = float("inf")
            bug.at += self.simulation.sources.life(bug.info.index, job.index, bug.number)
            self._expect(job)
            self.simulation.paces.expect_finish(job.main, now)
            return
        if now <= bug.met * (1 + 1e-12):
            # Restarts that take no time (or no more than rounding makes of the work that a checkpoint does not hold)
            # would go on for ever; the next one is made with the mended program.
            job.main.cause = bug.info.cause
            self.simulation.groups.stop(job.main, now)
            self.simulation.groups.follow(job.main, (Stall(Bucket.RESCHEDULE, bug.mended - now), Run()), now)
            return
        bug.met = now
        failure = Failure(bug.info, job.index, bug.number + ROUNDS * bug.attempts)
        if not bug.attempts:
            assert bug.info.source.fix is not None
            bug.mended = now + draw(bug.info.source.fix, failure.mark, "fix")
        bug.attempts += 1
        self.simulation.faults.counts.candidates += 1
        self.simulation.faults.strike_job(failure)
