"""Stops of holders: failures, their own lives, and preemption; each goes on in place, queues again or is over."""

from __future__ import annotations

import math
from heapq import heappop
from typing import TYPE_CHECKING

from ettrick.sim.engine.fleet_result import DIRECT, PREEMPTION, size_class
from ettrick.sim.engine.kernel import EventPriority, WorkError
from ettrick.sim.engine.lives import FailureEvent
from ettrick.sim.policies.contracts import Bucket, Requeue, Save
from ettrick.sim.scenario.laws import draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.sim.engine.holders import Allocation, Holder
    from ettrick.sim.engine.job import ReplicaGroup
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.runs import Runs
    from ettrick.sim.engine.services import ReplicaPool


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
        """Of named jobs that were preempted and wait, the root cause."""
        self.admission.on_own_failure = self._on_own_failure
        self.jobs.hit = self.hit

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
                self.kernel.at(detect_at, EventPriority.PHASE, self._on_detected, (allocation, allocation.epoch))
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
            self._evict(holder, now, *holder.notice)

    def saved_by(self, inside: Iterable[tuple[ReplicaGroup | Allocation, int]], now: float, notice: float) -> float:
        """Return when holders have saved that have some nodes, as far as a save is over within a notice [s]."""
        allocations = {id(group): group for group, _ in inside if not group.replans}
        holders = (job for allocation in allocations.values() for job in allocation.jobs if job.notice is None)
        return max((now + job.flush for job in holders if job.run_at < now and job.flush <= notice), default=now)

    def _on_own_failure(self, call: ScheduledCall) -> None:
        """Let the processes of a holder fail; no node does, so it goes on in place."""
        holder, epoch = call.argument
        if epoch != holder.epoch:
            return
        now = self.kernel.now
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
        if holder.policy.has_nodes:
            self._hit(holder.allocation, failure, now, latency)
            return
        self._interrupt(holder, failure, now)
        if holder.allocation is not None:
            self.kernel.at(now + latency, EventPriority.PHASE, self._on_own_detected, (holder, holder.epoch))

    def _on_own_detected(self, call: ScheduledCall) -> None:
        """Start a job below a node anew, whose neighbours have noticed nothing."""
        holder, epoch = call.argument
        if epoch == holder.epoch:
            now = self.kernel.now
            self.runs.charge(holder, now)
            self.runs.run(holder, now, now)

    def _on_detected(self, call: ScheduledCall) -> None:
        allocation, epoch = call.argument
        if epoch == allocation.epoch:
            self._answer(allocation, self.kernel.now)

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
        self.kernel.at(allocation.detect_at, EventPriority.PHASE, self._on_detected, (allocation, allocation.epoch))

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
            self.kernel.at(now + grace, EventPriority.PHASE, self._on_grace_over, (victim, victim.epoch))
            return False
        else:
            self._evict(victim, now, root, by)
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

    def _on_grace_over(self, call: ScheduledCall) -> None:
        holder, epoch = call.argument
        if epoch == holder.epoch:
            self._evict(holder, self.kernel.now, *holder.notice)

    def _evict(self, holder: Holder, now: float, root: int, by: int) -> None:
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
