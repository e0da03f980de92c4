"""Saves and restores of jobs of streams that share the store: how a run of such a job goes on, event by event.

Between two events a job steps, or waits for a save. It is charged up to ``run_at``; from there on it has stepped, but
for a save that began at ``saving_at``: a blocking one lasts until the store has it, of the other one only the stall.
The save that a preemption or a limit leaves time for is not shared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ettrick.sim.engine.fleet_result import DIRECT
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.stores import Transfer
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.engine.fleet import ClusterQueue
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.stream_job import StreamJob


class StreamSaves:
    """Lets jobs of streams save and restore in a store that others use too."""

    def __init__(self, fleet: ClusterQueue) -> None:
        self.fleet = fleet
        self.kernel = fleet.kernel
        self.stores = fleet.jobs.stores

    def restore(self, job: StreamJob, ready: float) -> None:
        """Let a job whose processes are up when it is `ready` [s] read what it has saved, then step."""
        job.run_at = math.inf
        job.stages.append((Bucket.RESTORE, math.inf))
        unpacking = job.saves.restore.of(job.spec.work) - max(job.saves.transfer)
        reading = Transfer(job, *job.saves.transfer), job.epoch
        self.kernel.at(ready + max(unpacking, 0.0), EventPriority.PHASE, self.stores.on_ready, reading)

    def go_on(self, job: StreamJob, now: float) -> None:
        """Say when something happens next to a job that steps, if nothing disturbs it."""
        left = job.spec.ends - job.durable
        if job.saving_at == math.inf:
            at = min(max(job.run_at + job.saves.interval - job.saves.head, now), job.run_at + left)
        elif job.saves.drain == 0:
            at = math.inf
        else:
            copied = job.saving_at + job.save
            at = copied if now < copied else copied + left - (job.saving_at - job.run_at)
        job.next_at = at
        if at < math.inf:
            self.kernel.at(at, EventPriority.PHASE, self._on_next, (job, job.epoch, at))

    def _on_next(self, call: ScheduledCall) -> None:
        job, epoch, at = call.argument
        if epoch != job.epoch or at != job.next_at:
            return
        now = self.kernel.now
        if job.saving_at < math.inf and self.stores.transfer_of(job) is None:
            self._write(job, now)
        elif job.saving_at < math.inf or job.run_at + (job.spec.ends - job.durable) <= now:
            self.fleet.finish_run(job, job.spec.outcome)
        else:
            job.saving_at = now
            if job.saves.drain and job.save:
                self.go_on(job, now)
            else:
                self._write(job, now)

    def _write(self, job: StreamJob, now: float) -> None:
        self.stores.begin(Transfer(job, *job.saves.transfer, saves=True), now)
        self.go_on(job, now)

    def transferred(self, job: StreamJob, transfer: Transfer, now: float) -> None:
        """Let a job go on whose save or restore is complete."""
        gpus = self.fleet.charge_stages(job, now)
        job.stages = []
        if not transfer.saves:
            job.run_at = now
        else:
            resumed = now if job.saves.drain == 0 else job.saving_at + job.save
            self._charge_stall(job, resumed, gpus, transfer.late)
            self._charge(job, job.run_at, job.saving_at, gpus)
            job.run_at, job.saving_at = resumed, math.inf
        self.go_on(job, now)

    def charge(self, job: StreamJob, now: float, gpus: int, *, keeps: bool, cause: int, via: int) -> float:
        """Charge a job that stops, or whose run is over, from its last save on; return the work that is lost [s]."""
        saving, resumed = min(job.saving_at, now), now
        if saving < now:
            transfer = self.stores.transfer_of(job)
            resumed = now if job.saves.drain == 0 else min(saving + job.save, now)
            self._charge_stall(job, resumed, gpus, self.stores.late_of(transfer, now) if transfer is not None else {})
        lost = None if keeps else (cause, via)
        # In two parts, so that windows add up: in between it stood still.
        self._charge(job, job.run_at, saving, gpus, lost)
        self._charge(job, resumed, now, gpus, lost)
        if keeps:
            job.run_at = now
            return 0.0
        return saving - job.run_at + now - resumed

    def _charge(
        self, job: StreamJob, start: float, stop: float, gpus: int, lost: tuple[int, int] | None = None
    ) -> None:
        """Charge a time in which a job stepped: its work is kept, or `lost` to a cause on a way."""
        bucket, cause, via = (Bucket.PRODUCTIVE, 0, DIRECT) if lost is None else (Bucket.LOST_WORK, *lost)
        if lost is None:
            job.durable += stop - start
            job.useful += stop - start
        if stop > start:
            self.fleet.tally.charge(job.account, bucket.value, cause, via, (stop - start) * gpus, start, stop)

    def _charge_stall(self, job: StreamJob, stop: float, gpus: int, late: Mapping[int, float]) -> None:
        """Charge the stall of a save; what of a blocking one is longer than alone has its cause."""
        start, stall = job.saving_at, Bucket.CHECKPOINT_STALL.value
        charge, seconds = self.fleet.tally.charge, stop - start
        for cause, each in late.items() if job.saves.drain == 0 else ():
            part = min(each, seconds)
            seconds -= part
            charge(job.account, stall, cause, DIRECT, part * gpus, start, stop)
        if seconds > 0:
            charge(job.account, stall, 0, DIRECT, seconds * gpus, start, stop)

    def cut(self, job: StreamJob, now: float) -> None:
        """Void the save or the restore of a job that stops."""
        job.saving_at = math.inf
        self.stores.forget(job, now)
