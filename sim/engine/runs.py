"""Runs of jobs of streams: start, restore, work with saves between, end; and what each of these is charged to.

A run is a closed form of the time since it began, with one event ahead at most; where saves share the store it goes on
event by event (:class:`SharedSaves`). Replicas of services run as their service lets them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from ettrick.sim.engine.fleet_result import DIRECT, PREEMPTION
from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.progress import Transfer
from ettrick.sim.policies.contracts import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.engine.admission import Admission
    from ettrick.sim.engine.holders import Holder
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.services import ReplicaPool

_PRODUCTIVE, _CHECKPOINT_STALL, _LOST_WORK = (
    Bucket.PRODUCTIVE.value,
    Bucket.CHECKPOINT_STALL.value,
    Bucket.LOST_WORK.value,
)

_INITIALIZE, _RESTORE, _STARVED = Bucket.INITIALIZE.value, Bucket.RESTORE.value, Bucket.STARVED.value


class Runs:
    """Starts runs of holders that have their nodes, and ends them."""

    def __init__(self, admission: Admission, services: list[ReplicaPool]) -> None:
        self.admission = admission
        self.records = admission.records
        self.tally = admission.records.tally
        self.kernel = admission.kernel
        self.stores = admission.jobs.stores
        self.scheduler = admission.jobs.prepared.scheduler
        self.services = services
        self.saves = SharedSaves(self)

    def begin(self, holder: Holder, now: float) -> None:
        """Give a holder that the planner starts its nodes and let it run."""
        self.records.charge_wait(holder, now)
        if math.isnan(holder.first):
            holder.first = now
        holder.began = holder.since = now
        holder.lost = 0.0
        holder.why = holder.root
        allocation = self.admission.allocations.allocate(holder, now)
        if allocation.detect_at == math.inf or not self.admission.jobs.cluster.outages[allocation.nodes[0]]:
            self.run(holder, now, now)
        else:
            # Its node has failed, which is not detected yet.
            self.stand(holder, self.records.root_of(allocation.suspects[0][1]), Bucket.DETECTION)

    def run(self, holder: Holder, now: float, ready: float) -> None:
        """Start a holder that has its nodes, which are `ready` then, or start it anew; it is charged up to now."""
        holder.stands = False
        if holder.policy.on_failure == "replace":
            self.services[holder.service].start(holder, now, ready)
            return
        shares = holder.saves.save_share > 0
        ready = self._start_stages(holder, max(ready, now), now, restores=not shares)
        holder.run_at = ready
        holder.attempts += 1
        holder.epoch += 1
        stages = holder.stages
        self.admission.run_processes(holder, stages[0][1] if stages and stages[0][0] == _STARVED else now)
        end = math.inf if shares else ready + holder.wall(holder.spec.ends - holder.durable)
        if shares and holder.durable > 0:
            self.saves.restore(holder, ready)
        elif shares:
            self.saves.go_on(holder, now)
        self._expect_end(holder, end, now)

    def _start_stages(self, holder: Holder, ready: float, now: float, *, restores: bool) -> float:
        """Set what comes before a run, once its nodes are `ready`; return when it steps [s]."""
        stages = holder.stages = []
        if ready > now:
            stages.append((_STARVED, ready))
        restart = holder.stream.restart
        if restart > 0:
            ready += restart
            stages.append((_INITIALIZE, ready))
        if holder.durable > 0 and restores:
            restore = holder.saves.restore.of(holder.spec.work) + max(self.stores.back - ready, 0.0)
            if restore > 0:
                ready += restore
                stages.append((_RESTORE, ready))
        return ready

    def _expect_end(self, holder: Holder, end: float, now: float) -> None:
        """Arrange the end of a run: when its work is done, or at its limit."""
        outcome: str = holder.spec.outcome
        limit, reason = self._limit(holder)
        chain = holder.stream.chain
        if chain is not None and holder.flush <= chain.notice:
            limit = max(limit - chain.notice + holder.flush, now)
        if limit < end:
            end, outcome = limit, reason
        if end < math.inf:
            self.kernel.at(end, EventPriority.PHASE, self._on_end, (holder, holder.epoch, outcome))

    def _limit(self, holder: Holder) -> tuple[float, str]:
        """Return when a run is over at its limit [s], and as what; an exact one has room for all delays."""
        if holder.stream.chain is not None:
            return holder.began + holder.longest, "limit"
        if self.scheduler.at_limit != "kill":
            return math.inf, "timeout"
        limit = holder.longest if holder.is_exact else holder.spec.limit
        return holder.began + limit + self.scheduler.overtime, "timeout"

    def stand(self, holder: Holder, cause: int, bucket: int) -> None:
        """Let a holder, which is charged, stand still with its nodes for a cause."""
        self.admission.void_save(holder, holder.since)
        holder.stand_still(holder.since)
        holder.root = holder.why = cause
        holder.via = DIRECT
        holder.stages = [(bucket, math.inf)]
        holder.stands = True
        holder.run_at = math.inf
        limit, outcome = self._limit(holder)
        if limit < math.inf:
            end = max(limit, holder.since)
            self.kernel.at(end, EventPriority.PHASE, self._on_end, (holder, holder.epoch, outcome))

    def _on_end(self, call: ScheduledCall) -> None:
        holder, epoch, outcome = call.argument
        if epoch == holder.epoch:
            self.finish(holder, outcome)

    def finish(self, holder: Holder, outcome: str) -> None:
        """End a run."""
        now, admission = self.kernel.now, self.admission
        is_first = admission.hold_back(now)
        if outcome == "limit":
            self._continue(holder, now)
        else:
            self.charge(holder, now, keeps=True)
            if holder.notice is not None:
                # An exit within the grace counts as a preemption, whatever its cause.
                root, by = holder.notice
                holder.preempted += 1
                self.records.count_stop(holder, now, root, PREEMPTION, 0.0, by)
            admission.give_back(holder, now, outcome)
            admission.close(holder, outcome, now)
        if is_first:
            admission.pass_soon(now)

    def _continue(self, holder: Holder, now: float) -> None:
        """Queue a job again whose work is done in pieces, at its limit, with what it has saved."""
        chain, root = holder.stream.chain, self.records.limit
        assert chain is not None, "its run ends at the limit of a chain"
        lost = self.save_and_charge(holder, now, chain.notice, root, DIRECT)
        self.records.count_stop(holder, now, root, DIRECT, lost)
        holder.root, holder.via = root, DIRECT
        self.admission.requeue(holder, now, "timeout", delay=0.0)

    # ------------------------------------------------------------------------------------------------- charges

    def save_and_charge(
        self, holder: Holder, now: float, time: float, cause: int, via: int, *, of_save: int = 0
    ) -> float:
        """Charge a holder that had notice of its stop for `time`; return the work that it could not save [s].

        The time of the save has the cause `of_save`.
        """
        if not holder.policy.has_work:
            self.records.charge_stages(holder, now)
            self.services[holder.service].leave(holder, now)
            return 0.0
        # Where saves are shared, it is charged since the last one, and may have been at that when it got the notice.
        flush = holder.flush
        saves = flush <= time and holder.run_at <= (now if holder.saves.save_share else now - flush)
        if saves and flush > 0:
            self.charge(holder, max(now - flush, holder.run_at), keeps=True)
            holder.stages = [(_CHECKPOINT_STALL, now)]
            holder.run_at = math.inf
            holder.why, holder.via = of_save, DIRECT
        return self.charge(holder, now, keeps=saves, cause=cause, via=via)

    def charge(self, holder: Holder, now: float, *, keeps: bool = False, cause: int = 0, via: int = DIRECT) -> float:
        """Charge the nodes of a holder up to now; return the work that is lost [s].

        What is not saved is lost to the `cause` unless the job `keeps` it, because it is over or has saved just now.
        """
        gpus = self.records.charge_stages(holder, now)
        if now <= holder.run_at or not holder.policy.has_work:
            return 0.0
        if holder.saves.save_share:
            lost = self.saves.charge(holder, now, gpus, keeps=keeps, cause=cause, via=via)
            holder.lost += lost
            return lost
        charge, account = self.tally.charge, holder.account
        cut, kept, stalled, risk, stall = _parts(holder, now, keeps=keeps)
        # Each part is spread evenly over its time, so that windows add up.
        holder.durable += kept
        holder.useful += kept
        if kept > 0:
            charge(account, _PRODUCTIVE, 0, DIRECT, kept * gpus, holder.run_at, cut)
        if stalled > 0:
            charge(account, _CHECKPOINT_STALL, 0, DIRECT, stalled * gpus, holder.run_at, cut)
        if risk > 0:
            charge(account, _LOST_WORK, cause, via, risk * gpus, cut, now)
            holder.lost += risk
        if stall > 0:
            charge(account, _CHECKPOINT_STALL, 0, DIRECT, stall * gpus, cut, now)
        return risk


def _parts(holder: Holder, now: float, *, keeps: bool) -> tuple[float, float, float, float, float]:
    """Return the parts of a run since it steps [s].

    They are when the last save that is durable was over, the work and the stalls up to then, and those since; if it
    `keeps` all, that is now.
    """
    seconds, interval, save = now - holder.run_at, holder.saves.interval, holder.save
    cut, kept, stalled, risk, stall = now, seconds, 0.0, 0.0, 0.0
    if interval < math.inf:
        head = holder.saves.head
        saves, rest = divmod(seconds + head, interval + save)
        risk = min(rest, interval)
        if saves and rest < holder.saves.drain and not keeps:
            # The last save is not durable yet.
            saves, rest, risk = saves - 1, rest + interval + save, risk + interval
        if not saves:
            rest, risk = rest - head, risk - head
        stall = rest - risk
        stalled = saves * save
        cut = now - rest
        kept = seconds - rest - stalled
    elif not keeps:
        cut, kept, risk = holder.run_at, 0.0, seconds
    if keeps:
        return now, kept + risk, stalled + stall, 0.0, 0.0
    return cut, kept, stalled, risk, stall


class SharedSaves:
    """Saves and restores of jobs of streams in a store that others use too.

    Between two events a job steps, or waits for a save. It is charged up to ``run_at``; from there on it has stepped,
    but for a save that began at ``saving_at``: a blocking one lasts until the store has it, of the other one only the
    stall. The save that a preemption or a limit leaves time for is not shared.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.records = runs.records
        self.kernel = runs.kernel
        self.stores = runs.stores

    def restore(self, holder: Holder, ready: float) -> None:
        """Let a job whose processes are up when it is `ready` [s] read what it has saved, then step."""
        holder.run_at = math.inf
        holder.stages.append((Bucket.RESTORE, math.inf))
        unpacking = holder.saves.restore.of(holder.spec.work) - max(holder.saves.transfer)
        reading = Transfer(holder, *holder.saves.transfer, partial(self._go_on_after, holder)), holder.epoch
        self.kernel.at(ready + max(unpacking, 0.0), EventPriority.PHASE, self.stores.on_ready, reading)

    def go_on(self, holder: Holder, now: float) -> None:
        """Say when something happens next to a job that steps, if nothing disturbs it."""
        left = holder.spec.ends - holder.durable
        if holder.saving_at == math.inf:
            at = min(max(holder.run_at + holder.saves.interval - holder.saves.head, now), holder.run_at + left)
        elif holder.saves.drain == 0:
            at = math.inf
        else:
            copied = holder.saving_at + holder.save
            at = copied if now < copied else copied + left - (holder.saving_at - holder.run_at)
        holder.next_at = at
        if at < math.inf:
            self.kernel.at(at, EventPriority.PHASE, self._on_next, (holder, holder.epoch, at))

    def _on_next(self, call: ScheduledCall) -> None:
        holder, epoch, at = call.argument
        if epoch != holder.epoch or at != holder.next_at:
            return
        now = self.kernel.now
        if holder.saving_at < math.inf and self.stores.transfer_of(holder) is None:
            self._write(holder, now)
        elif holder.saving_at < math.inf or holder.run_at + (holder.spec.ends - holder.durable) <= now:
            self.runs.finish(holder, holder.spec.outcome)
        else:
            holder.saving_at = now
            if holder.saves.drain and holder.save:
                self.go_on(holder, now)
            else:
                self._write(holder, now)

    def _write(self, holder: Holder, now: float) -> None:
        self.stores.begin(Transfer(holder, *holder.saves.transfer, partial(self._go_on_after, holder), saves=True), now)
        self.go_on(holder, now)

    def _go_on_after(self, holder: Holder, transfer: Transfer, now: float) -> None:
        """Let a job go on whose save or restore is complete."""
        gpus = self.records.charge_stages(holder, now)
        holder.stages = []
        if not transfer.saves:
            holder.run_at = now
        else:
            resumed = now if holder.saves.drain == 0 else holder.saving_at + holder.save
            self._charge_stall(holder, resumed, gpus, transfer.late)
            self._charge(holder, holder.run_at, holder.saving_at, gpus)
            holder.run_at, holder.saving_at = resumed, math.inf
        self.go_on(holder, now)

    def charge(self, holder: Holder, now: float, gpus: int, *, keeps: bool, cause: int, via: int) -> float:
        """Charge a job that stops, or whose run is over, from its last save on; return the work that is lost [s]."""
        saving, resumed = min(holder.saving_at, now), now
        if saving < now:
            transfer = self.stores.transfer_of(holder)
            resumed = now if holder.saves.drain == 0 else min(saving + holder.save, now)
            self._charge_stall(
                holder, resumed, gpus, self.stores.late_of(transfer, now) if transfer is not None else {}
            )
        lost = None if keeps else (cause, via)
        # In two parts, so that windows add up: in between it stood still.
        self._charge(holder, holder.run_at, saving, gpus, lost)
        self._charge(holder, resumed, now, gpus, lost)
        if keeps:
            holder.run_at = now
            return 0.0
        return saving - holder.run_at + now - resumed

    def _charge(
        self, holder: Holder, start: float, stop: float, gpus: int, lost: tuple[int, int] | None = None
    ) -> None:
        """Charge a time in which a job stepped: its work is kept, or `lost` to a cause on a way."""
        bucket, cause, via = (Bucket.PRODUCTIVE, 0, DIRECT) if lost is None else (Bucket.LOST_WORK, *lost)
        if lost is None:
            holder.durable += stop - start
            holder.useful += stop - start
        if stop > start:
            self.records.tally.charge(holder.account, bucket.value, cause, via, (stop - start) * gpus, start, stop)

    def _charge_stall(self, holder: Holder, stop: float, gpus: int, late: Mapping[int, float]) -> None:
        """Charge the stall of a save; what of a blocking one is longer than alone has its cause."""
        start, stall = holder.saving_at, Bucket.CHECKPOINT_STALL.value
        charge, seconds = self.records.tally.charge, stop - start
        for cause, each in late.items() if holder.saves.drain == 0 else ():
            part = min(each, seconds)
            seconds -= part
            charge(holder.account, stall, cause, DIRECT, part * gpus, start, stop)
        if seconds > 0:
            charge(holder.account, stall, 0, DIRECT, seconds * gpus, start, stop)
