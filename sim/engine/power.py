"""The power of the site: caps and heat that lower the pace of jobs as time goes on, ramps, and what is drawn when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.result import EnergyMeter
from ettrick.sim.policies.contracts import CLUSTER_BUCKETS, Bucket
from ettrick.sim.steps.power import energy_by_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.job import Job, ReplicaGroup
    from ettrick.sim.engine.kernel import Environment
    from ettrick.sim.engine.prepared import Prepared


class Power:
    """Lets a site go from level to level, and meters it where each level ends.

    A job that starts waits until the power of the facility has risen as far as it needs, one after another. What it
    draws on the way up, and what has to be burnt on the way down when it stops, are two triangles: together the
    difference of power times the length of a ramp.
    """

    def __init__(
        self,
        prepared: Prepared,
        kernel: Environment,
        jobs: Sequence[Job],
        *,
        settle: Callable[[float], None],
        charged: Callable[[], NDArray[np.float64]],
        repace: Callable[[Job, float], None],
        meters: bool,
    ) -> None:
        self.kernel = kernel
        self.jobs = jobs
        self.settle = settle
        """Charges everything up to a time [s]."""
        self.charged_by_bucket = charged
        """Gives what is charged so far, by bucket of the cluster [GPU s]."""
        self.repace = repace
        """Lets a job step as fast as it may now."""
        self.meters = meters
        self.upkeep = prepared.upkeep
        self.level = self.upkeep.levels[0] if self.upkeep.levels else None
        causes = {source.name: index + 1 for index, source in enumerate(prepared.sources)}
        self.causes = [causes.get(level.cause, 0) for level in self.upkeep.levels]
        self.throttle = (self.level.pace, self.causes[0]) if self.level is not None else (1.0, 0)
        """Pace that caps and heat allow [-], and which of them."""
        self.waiting: list[tuple[float, ReplicaGroup, int]] = []
        """Until when which groups wait for power [s], and the epoch in which they do: a failure ends it."""
        self.ramped = 0.0
        """Energy of ramps that has not been metered [J]."""
        self.since = prepared.warmup
        self.charged = np.zeros(len(Bucket))
        """GPU-seconds by bucket up to the last reading [GPU s]."""
        self.drawn = EnergyMeter(np.zeros(len(Bucket)), 0.0, 0.0)
        for index, level in enumerate(self.upkeep.levels[1:], 1):
            if prepared.warmup + level.start < prepared.warmup + prepared.horizon:
                kernel.at(prepared.warmup + level.start, EventPriority.BOUNDARY, self._on_level, index)

    def ramp(self, job: Job, now: float) -> float:
        """Return when the power has risen for a job that is ready to step, after all who wait already [s]."""
        facility = self.upkeep.facility
        assert facility is not None, "a ramp needs it"
        share = self.level.share if self.level is not None else 1.0
        risen = job.main.replicas * job.nodes_per_replica * share * (facility.node.training - facility.node.idle)
        seconds = risen * facility.pue / self.upkeep.ramp
        self.ramped += risen * seconds
        self.waiting = [wait for wait in self.waiting if wait[0] > now and wait[1].epoch == wait[2]]
        return max((end for end, _, _ in self.waiting), default=now) + seconds

    def _on_level(self, index: int, now: float) -> None:
        """Go to the next level: meter what was drawn, and let every job step as fast as it may now."""
        self.settle(now)
        self.read(now)
        level = self.level = self.upkeep.levels[index]
        self.throttle = (level.pace, self.causes[index])
        for job in self.jobs:
            if job.arrival <= now and math.isnan(job.end):
                self.repace(job, now)

    def read(self, now: float) -> None:
        """Meter what was drawn at this level; all is charged up to `now`."""
        level, facility = self.level, self.upkeep.facility
        if level is None or facility is None or not self.meters:
            return
        total = self.charged_by_bucket()
        gpu_seconds = dict(zip(CLUSTER_BUCKETS, (total - self.charged).tolist(), strict=True))
        nodes = np.array(list(energy_by_bucket(gpu_seconds, facility.node, level.share).values()))
        nodes[Bucket.INITIALIZE] += self.ramped
        whole = (float(nodes.sum()) + (facility.network + facility.storage) * (now - self.since)) * facility.pue
        before = self.drawn
        self.drawn = EnergyMeter(
            before.nodes + nodes, before.carbon + whole * level.carbon, before.priced + whole * level.price
        )
        self.charged, self.since, self.ramped = total, now, 0.0
