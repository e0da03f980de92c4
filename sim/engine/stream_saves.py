"""Saves and restores of jobs of streams that share the store: how a run of such a job goes on, event by event.

Between two events a job steps, or waits for a save. It is charged up to ``run_at``; from there on it has stepped, but
for a save that began at ``saving_at``: a blocking one lasts until the store has it, of the other one only the stall.
The save that a preemption or a limit leaves time for is not shared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.engine.fleet_result import DIRECT
from sim.engine.kernel import Order
from sim.engine.stores import Transfer
from sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.engine.fleet import Fleet
    from sim.engine.kernel import Call
    from sim.engine.stream_job import StreamJob


class StreamSaves:
    """Lets jobs of streams save and restore in a store that others use too."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.kernel = fleet.kernel
        self.stores = fleet.jobs.stores

    def restore(self, job: StreamJob, ready: float) -> None:
        """Let a job whose processes are up when it is `ready` [s] read what it has saved, then step."""
        job.run_at = math.inf
        job.stages.append((Bucket.RESTORE, math.inf))
        unpacking = job.saves.restore.of(job.spec.work) - max(job.saves.transfer)
        self.kernel.at(ready + max(unpacking, 0.0), Order.PHASE, self._on_ready, (job, job.epoch))

    def _on_ready(self, call: Call) -> None:
        job, epoch = call.argument
        if epoch == job.epoch:
            self.stores.begin(Transfer(job, *job.saves.transfer), self.kernel.now)

    def go_on(self, job: StreamJob, now: float) -> None:
        """Say when something happens next to a job that steps, if nothing disturbs it."""
        left = job.spec.ends - job.durable
        if job.saving_at == math.inf:
            at = min(max(job.run_at + job.saves.interval, now), job.run_at + left)
        elif job.saves.drain == 0:
            at = math.inf
        else:
            copied = job.saving_at + job.save
            at = copied if now < copied else copied + left - (job.saving_at - job.run_at)
        job.next_at = at
        if at < math.inf:
            self.kernel.at(at, Order.PHASE, self._on_next, (job, job.epoch, at))

    def _on_next(self, call: Call) -> None:
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
            self._keep(job, job.run_at, job.saving_at, gpus)
            job.run_at, job.saving_at = resumed, math.inf
        self.go_on(job, now)

    def charge(self, job: StreamJob, now: float, gpus: int, *, keeps: bool, cause: int, via: int) -> float:
        """Charge a job that stops, or whose run is over, from its last save on; return the work that is lost [s]."""
        saving, resumed = min(job.saving_at, now), now
        if saving < now:
            transfer = self.stores.transfer_of(job)
            resumed = now if job.saves.drain == 0 else min(saving + job.save, now)
            self._charge_stall(job, resumed, gpus, self.stores.late_of(transfer, now) if transfer is not None else {})
        if keeps:
            self._keep(job, job.run_at, saving, gpus)
            self._keep(job, resumed, now, gpus)
            job.run_at = now
            return 0.0
        for start, stop in ((job.run_at, saving), (resumed, now)):
            if stop > start:
                lost = Bucket.LOST_WORK.value
                self.fleet.tally.charge(job.account, lost, cause, via, (stop - start) * gpus, start, stop)
        return saving - job.run_at + now - resumed

    def _keep(self, job: StreamJob, start: float, stop: float, gpus: int) -> None:
        """Charge work that is kept, from one time to another [s]."""
        work = stop - start
        job.durable += work
        job.useful += work
        if work > 0:
            self.fleet.tally.charge(job.account, Bucket.PRODUCTIVE.value, 0, DIRECT, work * gpus, start, stop)

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
