"""Going back to a copy: what has happened to the nodes, what is lost, and how long the reading takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Damage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts import Keeps
    from sim.engine.simulation import Simulation
    from sim.job import Job

__all__ = ["Restores"]

_TIE = 1e-12
"""Relative difference below which two amounts of work are the same [-]."""


class Restores:
    """Asks the checkpoint strategy what survives, and takes back what does not."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.steps = simulation.steps

    def roll_back(self, job: Job, keeps: Keeps, *, reads: bool = True) -> None:
        """Go back to what survives, given what a plan `keeps`, and charge the loss to the incident's first failure.

        Whether a copy is good is found out when it is read.
        """
        before = job.work
        sound = (
            min((taint.sound for taint in job.taints if taint.is_known), default=math.inf) if job.taints else math.inf
        )
        mark = self._mark(job) if reads else None
        damage = self._damage(job, keeps)
        restoration = job.checkpoint.restore(job.state, job.pace, damage, sound, mark)
        job.state = restoration.state
        job.restoration = restoration
        if job.taints:
            self._clear(job)
        lost = before - job.work
        if lost > 0:
            job.account.lose(lost, job.main.incident or job.main.cause)
            self.steps.roll_back(job)
        recorder = self.simulation.recorder
        if recorder is not None:
            recorder.progress(self.kernel.now, job)
        if restoration.store != "peer":
            job.live = False

    def _clear(self, job: Job) -> None:
        """Forget what was wrong with work that is taken back.

        A sound save that was on its way is void. Where no copy from before a fault is left, the job lives on with what
        it has.
        """
        newest = job.checkpoint.sound(job.state)
        for taint in job.taints:
            taint.sound = min(taint.sound, newest)
        wrong = [taint for taint in job.taints if taint.sound < job.work * (1 - _TIE)]
        job.accepted += sum(taint.is_known for taint in wrong)
        job.taints = [taint for taint in wrong if not taint.is_known]

    def _damage(self, job: Job, keeps: Keeps) -> Damage:
        """Return what has happened to the nodes of a job since it last stepped."""
        if not job.checkpoint.minds_nodes:
            return Damage(keeps)
        # A replica hands its state to others, so there have to be some; one whose node started anew has none.
        stateless = {position // job.nodes_per_replica for position in (*job.lost, *job.rebooted, *job.dead)}
        live = job.live and job.replicas > 1 and len(stateless) < job.main.replicas
        return Damage(keeps, frozenset(job.lost), frozenset(job.rebooted), live)

    def _mark(self, job: Job) -> Callable[[str], float] | None:
        """Return the numbers that decide what a job can read: each time that it reads, others."""
        failure = job.main.failure
        if failure is None:
            return None
        job.reads += 1
        number = job.reads
        return lambda purpose: failure.mark(f"{purpose} at reading {number}")

    def begin(self, job: Job, now: float) -> float:
        """Let a job begin to read what it goes back to; return how long that takes [s]."""
        seconds = job.restoration.seconds + self.wait(job, now)
        if job.restoration.seconds > 0:
            job.read_from = job.restoration.store
        return seconds

    def wait(self, job: Job, now: float) -> float:
        """Return how long a restore that would begin `now` [s] waits for the store that it reads [s]."""
        back = self.simulation.stores.back
        return back - now if back > now and job.restoration.store == "remote" and job.work > 0 else 0.0
