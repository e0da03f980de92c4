"""Runs of jobs of streams: start, restore, work with saves between, end or stop; and what these are charged to.

A run is a closed form of the time since it began, with one event ahead at most; where saves share the store it goes on
event by event (:class:`SharedSaves`). :class:`Stops` ends runs for failures and for others. Replicas of services run
as their service lets them.
"""

from __future__ import annotations

import math
from functools import partial
from heapq import heappop
from typing import TYPE_CHECKING

from ettrick.sim.engine.kernel import EventPriority, WorkError
from ettrick.sim.engine.lives import FailureEvent
from ettrick.sim.engine.progress import Transfer
from ettrick.sim.engine.result import DIRECT, PREEMPTION, size_class
from ettrick.sim.policies.contracts import Bucket, Requeue, Save
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ettrick.sim.engine.admission import Admission
    from ettrick.sim.engine.holders import Allocation, Holder, ReplicaGroup
    from ettrick.sim.engine.services import ReplicaPool
    from ettrick.sim.scenario.streams import Chain

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
        """Start a holder that has its nodes, which are `ready` then, or start it again; it is charged up to now."""
        holder.stands = False
        if holder.policy.on_failure == "replace":
            self.services[holder.service].start(holder, now, ready)
            return
        shares = holder.saves.save_share > 0
        ready = self._start_stages(holder, ready if ready > now else now, now, restores=not shares)
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
            self.kernel.unless_changed(end, EventPriority.PHASE, self.finish, holder, outcome)

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
            self.kernel.unless_changed(end, EventPriority.PHASE, self.finish, holder, outcome)

    def finish(self, holder: Holder, outcome: str, now: float) -> None:
        """End a run."""
        admission = self.admission
        is_first = admission.hold_back(now)
        chain = holder.stream.chain
        if outcome == "limit" and chain is not None:
            self._continue(holder, chain, now)
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

    def _continue(self, holder: Holder, chain: Chain, now: float) -> None:
        """Queue a job again whose work is done in pieces, at its limit, with what it has saved."""
        root = self.records.limit
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
        cut, useful, stalled, risk, stall = _parts(holder, now, keeps=keeps)
        # Each part is spread evenly over its time, so that windows add up.
        holder.durable += useful
        holder.useful += useful
        if useful > 0:
            charge(account, _PRODUCTIVE, 0, DIRECT, useful * gpus, holder.run_at, cut)
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
    cut, useful, stalled, risk, stall = now, seconds, 0.0, 0.0, 0.0
    if interval < math.inf:
        head = holder.saves.head
        saves, rest = divmod(seconds + head, interval + save)
        risk = rest if rest < interval else interval
        if saves and rest < holder.saves.drain and not keeps:
            # The last save is not durable yet.
            saves, rest, risk = saves - 1, rest + interval + save, risk + interval
        if not saves:
            rest, risk = rest - head, risk - head
        stall = rest - risk
        stalled = saves * save
        cut = now - rest
        useful = seconds - rest - stalled
    elif not keeps:
        cut, useful, risk = holder.run_at, 0.0, seconds
    if keeps:
        return now, useful + risk, stalled + stall, 0.0, 0.0
    return cut, useful, stalled, risk, stall


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
        reading = Transfer(holder, *holder.saves.transfer, partial(self._go_on_after, holder))
        self.stores.expect(ready + max(unpacking, 0.0), reading)

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
            self.kernel.unless_changed(at, EventPriority.PHASE, self._on_next, holder)

    def _on_next(self, holder: Holder, now: float) -> None:
        if now != holder.next_at:
            return
        if holder.saving_at < math.inf and self.stores.transfer_of(holder) is None:
            self._write(holder, now)
        elif holder.saving_at < math.inf or holder.run_at + (holder.spec.ends - holder.durable) <= now:
            self.runs.finish(holder, holder.spec.outcome, now)
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
        for cause, lateness in late.items() if holder.saves.drain == 0 else ():
            part = min(lateness, seconds)
            seconds -= part
            charge(holder.account, stall, cause, DIRECT, part * gpus, start, stop)
        if seconds > 0:
            charge(holder.account, stall, 0, DIRECT, seconds * gpus, start, stop)


# ----------------------------------------
# Stops: failures, own lives, and preemption; each holder goes on in place, queues again or is over.


class Stops:
    """Stops holders that failures strike, and those whose nodes another one gets."""

    def __init__(self, runs: Runs, services: list[ReplicaPool]) -> None:
        self.runs = runs
        self.admission = runs.admission
        self.records = runs.admission.records
        self.allocations = runs.admission.allocations
        self.jobs = runs.admission.jobs
        self.kernel = runs.admission.kernel
        self.services = services
        self.scheduler = runs.admission.jobs.prepared.scheduler
        self.roots: dict[int, int] = {}
        """The root causes of named jobs that were preempted and wait."""
        self.admission.on_own_failure = self._on_own_failure

    # ------------------------------------------------------------------------------------------------ failures

    def hit(
        self, groups: Sequence[ReplicaGroup | Allocation], failure: FailureEvent, now: float, latency: float
    ) -> None:
        """Stop those whose nodes a failure strikes; holders stand still until they know of it, after `latency` [s]."""
        for group in groups:
            if not group.replans:
                self._hit(group, failure, now, latency)
        named = [group for group in groups if group.replans]
        for job in {group.job: None for group in named}:
            account = self.records.account_of_job(job)
            self.records.tally.stopped(account, now, self.records.root_of(failure), DIRECT, job.gpus)
        if named:
            self.jobs.interruptions.hit(named, failure, now, latency)

    def _hit(self, allocation: Allocation, failure: FailureEvent, now: float, latency: float) -> None:
        detect_at = now + latency
        for holder in [holder for holder in allocation.jobs if not holder.stands]:
            self._interrupt(holder, failure, now)
        if allocation.jobs and detect_at < allocation.detect_at and not allocation.waits:
            allocation.detect_at = detect_at
            allocation.epoch += 1
            if detect_at > now:
                self.kernel.unless_changed(detect_at, EventPriority.PHASE, self._answer, allocation)
            else:
                self._answer(allocation, now)

    def _interrupt(self, holder: Holder, failure: FailureEvent, now: float) -> None:
        """Stop a holder for a failure; it has saved if its notice was long enough."""
        cause = self.records.root_of(failure)
        lost = 0.0
        if holder.policy.on_failure == "replace":
            self.services[holder.service].fail(holder, now, cause)
            self.records.charge_stages(holder, now)
        else:
            notice = failure.notice if failure.info.warns else -math.inf
            lost = self.runs.save_and_charge(holder, now, notice, cause, DIRECT, of_save=cause)
        self.runs.stand(holder, cause, Bucket.DETECTION)
        holder.failures += not failure.info.source.planned
        self.records.count_stop(holder, now, cause, DIRECT, lost)
        if holder.notice is not None:
            self._evict(holder, *holder.notice, now)

    def _on_own_failure(self, holder: Holder, now: float) -> None:
        """Let the processes of a holder fail; no node does, so it goes on in place."""
        due, _, number, info = heappop(holder.lives)
        holder.begin_life(info, number + 1, due)
        failure = FailureEvent(info, holder.spec.number, number)
        counts = self.jobs.failures.counts
        counts.candidates += 1
        counts.faults += 1
        counts.failures += 1
        counts.hits += 1
        if info.source.store_out is not None:
            out = draw(info.source.store_out, failure.mark, "store_out")
            self.jobs.stores.go_out(now + out, info.cause, now)
        latency = self.jobs.failures.detect(failure)
        allocation = holder.allocation
        if holder.policy.has_nodes and allocation is not None:
            self._hit(allocation, failure, now, latency)
            return
        self._interrupt(holder, failure, now)
        if holder.allocation is not None:
            self.kernel.unless_changed(now + latency, EventPriority.PHASE, self._on_own_detected, holder)

    def _on_own_detected(self, holder: Holder, now: float) -> None:
        """Start a job below a node again, whose neighbours have noticed nothing."""
        self.runs.charge(holder, now)
        self.runs.run(holder, now, now)

    def _answer(self, allocation: Allocation, now: float) -> None:
        """Answer a failure that the holders of an allocation know of: they go on in place, or queue again."""
        allocation.detect_at = math.inf
        allocation.epoch += 1
        stopped = [holder for holder in allocation.jobs if holder.stands]
        for holder in stopped:
            self.runs.charge(holder, now)
            holder.stands = False
        self.allocations.remove_failed(allocation, now)
        first = allocation.jobs[0]
        if first.policy.on_failure == "replace":
            self.services[first.service].answer(first, now)
            return
        has_waited, allocation.waits = allocation.waits, False
        if not allocation.missing or self.allocations.replace(allocation, now):
            for holder in stopped:
                self.runs.run(holder, now, allocation.ready_at)
        elif self.scheduler.requeue.holds_nodes and first.nodes > len(allocation.missing) and not has_waited:
            self._wait(allocation, now)
        else:
            for holder in list(allocation.jobs):
                self.admission.requeue(holder, now, "node_fail", delay=0.0 if has_waited else None)

    def _wait(self, allocation: Allocation, now: float) -> None:
        """Let a job hold what is left of its nodes for the delay of a requeue; it gives them back then."""
        (holder,) = allocation.jobs
        self.allocations.reseat(allocation, now)
        self.runs.stand(holder, holder.root, Bucket.RESCHEDULE)
        allocation.waits = True
        allocation.detect_at = now + self.scheduler.requeue.delay
        self.kernel.unless_changed(allocation.detect_at, EventPriority.PHASE, self._answer, allocation)

    # --------------------------------------------------------------------------------------------- preemption

    def preempt(self, preemptions: Iterable[tuple[Holder, Sequence[Holder]]], now: float) -> bool:
        """Stop those whom the planner has named, after their grace; return whether some have stopped at once."""
        has_stopped = False
        for preemptor, victims in preemptions:
            reason, by = self._root_of(preemptor), size_class(preemptor.gpus)
            for victim in victims:
                if self._is_leaving(victim, now):
                    continue
                self._check_new(victim, preemptor, now)
                has_stopped |= self._stop_victim(victim, reason or self.records.demand + victim.is_reclaimed, by, now)
        return has_stopped

    def _check_new(self, victim: Holder, preemptor: Holder, now: float) -> None:
        """Refuse rules by which holders stop one another without end."""
        if victim.named_at == now:
            names = f"{victim.name} is preempted for {preemptor.name}"
            rule = "twice at one instant: scheduler.preempt lets them stop each other without end"
            raise WorkError(f"at {now - self.records.tally.edges[0]:g} s {names}, {rule}")
        victim.named_at = now

    def _stop_victim(self, victim: Holder, root: int, by: int, now: float) -> bool:
        """Stop a holder for one of size class `by`, after its grace if it has one; return whether it stops at once."""
        grace = self.scheduler.preempt.grace
        if victim.policy.on_failure == "replan":
            self._preempt_job(victim, root, by, now)
        elif grace > 0:
            victim.notice = (root, by)
            self.kernel.unless_changed(now + grace, EventPriority.PHASE, self._evict, victim, root, by)
            return False
        else:
            self._evict(victim, root, by, now)
        return True

    @staticmethod
    def _is_leaving(victim: Holder, now: float) -> bool:
        """Return whether a holder works on, or saves, in the grace that it has for another one."""
        if victim.policy.on_failure == "replan":
            return victim.job.saved_at > now and type(victim.job.main.plan[-1]) is Requeue
        return victim.notice is not None

    def _root_of(self, holder: Holder) -> int:
        """Return the root cause that has put a holder into the queue; 0 if it has just arrived."""
        if holder.policy.on_failure != "replan":
            return holder.root
        job = holder.job
        return self.roots.get(job.index) or (job.main.cause if job.starts else 0)

    def _evict(self, holder: Holder, root: int, by: int, now: float) -> None:
        """Stop a holder for one of size class `by`; one that saves within its grace loses nothing."""
        preempt = self.scheduler.preempt
        lost = self.runs.save_and_charge(holder, now, preempt.grace, root, PREEMPTION)
        holder.preempted += 1
        self.records.count_stop(holder, now, root, PREEMPTION, lost, by)
        holder.root = root
        holder.via = PREEMPTION
        if preempt.mode == "cancel" and holder.policy.may_be_cancelled:
            self.admission.give_back(holder, now, "preempted")
            self.admission.close(holder, "preempted", now)
        else:
            self.admission.requeue(holder, now, "preempted")

    def _preempt_job(self, victim: Holder, root: int, by: int, now: float) -> None:
        """Let a named job save if there is time, and queue again."""
        job, rule, records = victim.job, self.scheduler, self.records
        self.roots[job.index] = root
        main = job.main
        self.jobs.stop(main, now)
        main.cause = 0
        saves = main.running and job.checkpoint.save_time() <= rule.preempt.grace
        main.running = False
        requeue = Requeue(rule.requeue.delay)
        work = job.work
        self.jobs.follow(main, (Save(), requeue) if saves else (requeue,), now)
        records.preempted[job.index] += 1
        lost = max(work - job.work, 0.0) * job.gpus
        records.tally.stopped(records.account_of_job(job), now, root, PREEMPTION, job.gpus, lost, by)
