"""Admission: who waits for nodes, who queues again, and when the scheduler looks at the queue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ettrick.sim.engine.allocations import Allocations
from ettrick.sim.engine.kernel import EventPriority

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.sim.engine.holders import Holder
    from ettrick.sim.engine.jobs import JobPhases
    from ettrick.sim.engine.kernel import ScheduledCall
    from ettrick.sim.engine.records import Records
    from ettrick.sim.policies.planner import Planner


class Admission:
    """Holders in the queue of the planner, and those that have been submitted and are not over.

    Everything that may let a holder start asks for a pass (:meth:`ask`); it comes once, after all else of that instant.
    """

    run_pass: Callable[[float], None]
    """Starts and stops those whom the planner names."""
    on_own_failure: Callable[[ScheduledCall], None]
    """Gets a holder and its epoch when the first of its own lives is over."""

    def __init__(self, jobs: JobPhases, planner: Planner, pool_of: Sequence[int], records: Records) -> None:
        self.jobs = jobs
        self.kernel = jobs.kernel
        self.planner = planner
        self.records = records
        self.allocations = Allocations(jobs, planner, pool_of, records, self.ask)
        self.rule = jobs.prepared.scheduler.requeue
        self.number = 0
        """The number of the next holder."""
        self.alive: dict[Holder, None] = {}
        """Holders that have been submitted and are not over, without named jobs."""
        self.queued_gpus = 0
        self.asked = -math.inf
        """When the pass comes that was asked for last [s]."""

    # -------------------------------------------------------------------------------------------------- passes

    def ask(self, now: float) -> None:
        """Ask for a pass after all else of this instant."""
        if self.hold_back(now):
            self.kernel.at(now, EventPriority.PASS, self.on_pass)

    def hold_back(self, now: float) -> bool:
        """Ask for no further pass at this instant; return whether none was asked for so far."""
        is_first = self.asked != now
        self.asked = now
        return is_first

    def pass_soon(self, now: float) -> None:
        """Let the pass come now if nothing else happens at this instant, else after that."""
        if self.kernel.peek() > now:
            self.run_pass(now)
        else:
            self.kernel.at(now, EventPriority.PASS, self.on_pass)

    def on_pass(self, call: ScheduledCall) -> None:
        """Carry out the pass that was asked for."""
        del call
        self.run_pass(self.kernel.now)

    # --------------------------------------------------------------------------------------------------- queue

    def submit(self, holder: Holder, now: float) -> None:
        """Put a holder, or replicas of a service, into the queue for the first time."""
        self.number += 1
        self.alive[holder] = None
        self.enqueue(holder, now)

    def enqueue(self, holder: Holder, now: float) -> None:
        """Put a holder into the queue of the planner."""
        if holder.policy.on_failure == "replace":
            holder.waiting[holder] = None
        self.queued_gpus += holder.gpus
        self.planner.enqueue(holder, now)
        self.ask(now)

    def withdraw(self, holder: Holder, now: float) -> None:
        """Take a holder out of the queue for good."""
        self.records.charge_wait(holder, now)
        self.queued_gpus -= holder.gpus
        del self.alive[holder]
        self.planner.withdraw(holder)

    def run_processes(self, holder: Holder, since: float) -> None:
        """Let the processes of a holder run, until one of its own lives ends."""
        if holder.lives:
            holder.alive = since
            due = since + holder.lives[0][0] - holder.lived
            self.kernel.at(due, EventPriority.FAILURE, self.on_own_failure, (holder, holder.epoch))

    # ------------------------------------------------------------------------------------------ end and requeue

    def give_back(self, holder: Holder, now: float, state: str) -> None:
        """Take the nodes of a holder, which is charged, from it; `state` is for the log."""
        holder.notice = None
        self.void_save(holder, now)
        self.records.log_attempt(holder, now, state)
        self.allocations.take_back(holder, now)

    def void_save(self, holder: Holder, now: float) -> None:
        """Void the save or the restore of a holder that stops."""
        if holder.saves.save_share:
            holder.saving_at = math.inf
            self.jobs.stores.forget(holder, now)

    def retire(self, holder: Holder, now: float) -> None:
        """Take the nodes of replicas that serve no more for good."""
        self.records.charge_stages(holder, now)
        self.give_back(holder, now, "completed")
        del self.alive[holder]
        holder.entry = ()

    def requeue(self, holder: Holder, now: float, state: str, *, delay: float | None = None) -> None:
        """Take the nodes of a holder, which is charged, and put it into the queue again after the delay."""
        delay = self.rule.delay if delay is None else delay
        self.give_back(holder, now, state)
        holder.queued = now
        if self.rule.age == "reset":
            holder.submit = holder.eligible = now + delay
        if delay > 0:
            self.kernel.at(now + delay, EventPriority.PHASE, self._on_eligible, holder)
        else:
            self._enqueue_again(holder, now)

    def _on_eligible(self, call: ScheduledCall) -> None:
        self._enqueue_again(call.argument, self.kernel.now)

    def _enqueue_again(self, holder: Holder, now: float) -> None:
        if holder.is_exact and holder.durable > 0:
            holder.limit = min(holder.time_left(), holder.longest)
        self.enqueue(holder, now)

    def close(self, holder: Holder, outcome: str, now: float) -> None:
        """Count a job that is over."""
        jobs = self.jobs
        jobs.open -= 1
        del self.alive[holder]
        holder.entry = ()  # it holds the job: without it nobody has to look for garbage
        self.records.count_end(holder, outcome, now)
        # A run that is over in its warm-up has nothing to say.
        if jobs.open == 0 and now > self.records.tally.edges[0]:
            jobs.when_all_done(now)
