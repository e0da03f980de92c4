"""Restores of several jobs that read one store at the same time and share its bandwidth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.contracts import Bucket, Restore
from sim.engine.kernel import Order

if TYPE_CHECKING:
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.job import Group, Job

__all__ = ["Stores"]

_DONE = 1e-9
"""Part of a restore that rounding may leave [-]."""


class _Reading:
    """One restore: what is left of it [-], how fast it goes [1/s], and its two least times [s].

    ``alone`` is what the nodes need at their own bandwidth, ``whole`` what the store needs if nobody else reads.
    """

    __slots__ = ("alone", "group", "left", "speed", "whole")

    def __init__(self, group: Group, alone: float, whole: float) -> None:
        self.group = group
        self.alone = alone
        self.whole = whole
        self.left = 1.0
        self.speed = 0.0


class Stores:
    """Lets restores from the remote store share its bandwidth, each as fast as its own nodes can at most.

    The store gives everybody the same, and what somebody cannot use to the others (max-min fairness).
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.is_shared = len(simulation.jobs) > 1
        """Whether somebody else may read at the same time."""
        self.back = -math.inf
        """When the stores outside the nodes can be read again [s]."""
        self.readings: list[_Reading] = []
        self.since = 0.0
        self.epoch = 0

    def shares(self, job: Job, step: object) -> bool:
        """Return whether a step of a plan is a restore that has to share its store."""
        if not self.is_shared or type(step) is not Restore:
            return False
        restoration = job.restoration
        return restoration.store == "remote" and restoration.seconds > 0 and job.checkpoint.transfer[1] > 0

    def restore(self, group: Group, step: Restore, now: float) -> bool:
        """Let a group restore: first what it does not share, waiting and reading in, then the transfer."""
        job = group.job
        self.simulation.groups.wait(group, [(Bucket.RESTORE, math.inf)], now, exposed=step.exposed)
        before = self.simulation.restores.begin(job, now) - max(job.checkpoint.transfer)
        if before > 0:
            self.kernel.at(now + before, Order.PHASE, self._on_ready, (group, group.epoch))
        else:
            self._begin(group, now)
        return True

    def forget(self, group: Group, now: float) -> None:
        """Let a group read no longer."""
        if any(reading.group is group for reading in self.readings):
            self._advance(now)
            self.readings = [reading for reading in self.readings if reading.group is not group]
            self._share(now)

    def _on_ready(self, call: Call) -> None:
        group, epoch = call.argument
        if epoch == group.epoch:
            self._begin(group, self.kernel.now)

    def _begin(self, group: Group, now: float) -> None:
        self._advance(now)
        self.readings.append(_Reading(group, *group.job.checkpoint.transfer))
        self._share(now)

    def _advance(self, now: float) -> None:
        """Take off what has been read since the speeds last changed."""
        for reading in self.readings:
            reading.left = max(reading.left - reading.speed * (now - self.since), 0.0)
        self.since = now

    def _share(self, now: float) -> None:
        """Give everybody a speed, the least demanding first, and wait for the first who is done."""
        self.epoch += 1
        free = 1.0
        ordered = sorted(self.readings, key=lambda reading: reading.whole / max(reading.alone, reading.whole * _DONE))
        for index, reading in enumerate(ordered):
            fair = free / (len(ordered) - index)
            reading.speed = min(fair / reading.whole, 1 / reading.alone if reading.alone > 0 else math.inf)
            free -= reading.speed * reading.whole
        if ordered:
            end = now + min(reading.left / reading.speed for reading in ordered)
            self.kernel.at(end, Order.PHASE, self._on_end, self.epoch)

    def _on_end(self, call: Call) -> None:
        """Let those go on that have read everything."""
        if call.argument != self.epoch:
            return
        now = self.kernel.now
        self._advance(now)
        done = [reading for reading in self.readings if reading.left <= _DONE]
        self.readings = [reading for reading in self.readings if reading.left > _DONE]
        self._share(now)
        for reading in done:
            group = reading.group
            self.simulation.groups.settle(group, now)
            self.simulation.groups.proceed(group, now)
