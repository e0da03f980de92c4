"""Going back to a copy: what has happened to the nodes, what is lost, and how long the reading takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Damage

if TYPE_CHECKING:
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
        failure = job.main.failure
        mark = failure.mark if reads and failure is not None else None
        damage = self._damage(job, keeps)
        restoration = job.checkpoint.restore(job.state, job.pace, damage, sound, mark)
        job.state = restoration.state
        if damage.store_out and restoration.store == "remote":
            # How long a store that is out has to be waited for is known when the reading begins.
            restoration = restoration._replace(seconds=max(restoration.seconds - damage.store_out, 0.0))
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
        store_out = max(job.store_back - self.kernel.now, 0.0)
        if not job.checkpoint.minds_nodes:
            return Damage(keeps, store_out=store_out)
        lost = job.lost
        width = job.nodes_per_replica
        if job.away:
            lost = lost.union(*(range(group.first, group.first + width) for group in job.away))
        # A node that has started anew holds no state of training either.
        stateless = {position // width for position in (*lost, *job.rebooted)}
        live = job.live and len(stateless) < job.replicas
        return Damage(keeps, frozenset(lost), frozenset(job.rebooted), live, store_out)

    def begin(self, job: Job, now: float) -> float:
        """Let a job begin to read what it goes back to; return how long that takes [s]."""
        seconds = job.restoration.seconds + self.wait(job, now)
        if job.restoration.seconds > 0:
            job.read_from = job.restoration.store
        return seconds

    def wait(self, job: Job, now: float) -> float:
        """Return how long a restore that would begin `now` [s] waits for the store that it reads [s]."""
        if job.store_back <= now or job.restoration.store != "remote" or job.work <= 0:
            return 0.0
        return job.store_back - now
