"""The planner of starts: the engine's questions to the scheduler, and its reports.

The planner knows what a scheduler knows: sizes, time limits, priorities, what runs and since when. It never sees how
long a job will really run. It counts nodes by *pool*, the nodes that are alike to it (partitions, domain, maintenance
windows); which of them a job gets is chosen by the engine. It holds no clock and draws nothing.

The engine reports what happens (`enqueue`, `withdraw`, `ended`, `capacity`, `seated`), and after all events of an
instant calls :meth:`Planner.plan`; jobs that it returns have been given their nodes (`job.where`, `job.share`). The
victims that it names in ``preemptions`` are stopped by the engine; where that is at once, it plans again.
:meth:`Planner.wake` says when a pass is due though nothing happens.

References
----------
slurm.conf(5), bf_* and Preempt*; Kueue, concepts/preemption and concepts/cluster_queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.sim.policies.scheduler.backfill import BackfillPass, Books, OrderedPass
from ettrick.sim.policies.scheduler.nodes import NodeLedger
from ettrick.sim.policies.scheduler.preemption import PreemptionRules
from ettrick.sim.policies.scheduler.profile import INF, next_multiple
from ettrick.sim.policies.scheduler.queue import JobQueue, Quota, Quotas
from ettrick.sim.policies.scheduler.reservations import NextPass, Reservations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.policies.scheduler.keys import Scheduler
    from ettrick.sim.policies.scheduler.nodes import PlannerJob, PlannerPool


class Planner:
    """The scheduler of one cluster.

    Parameters
    ----------
    scheduler
        Its keys.
    pools
        The nodes; all of them are free.
    gpus
        GPUs of a node.
    tiers
        PriorityTier of each partition.
    quotas
        What each tenant may use; jobs name tenants by position.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Sequence[PlannerPool],
        *,
        gpus: int = 1,
        tiers: Sequence[int] = (0,),
        quotas: Sequence[Quota] = (Quota(),),
    ) -> None:
        self.keys = scheduler
        self.gpus = gpus
        self.nodes = NodeLedger(scheduler, pools, gpus, len(tiers))
        self.pools, self.free = self.nodes.pools, self.nodes.free
        self.quotas = Quotas(quotas, self.nodes.claimers)
        self.queue = JobQueue(scheduler.order, self.nodes, self.quotas, tiers)
        self.next_pass = NextPass()
        may_last = scheduler.preempt.mode == "none" and not self.queue.moves
        self.reservations = Reservations(scheduler, self.nodes, self.next_pass, may_last=may_last)
        self.preemption = PreemptionRules(scheduler.preempt, self.reservations, self.queue)
        books = Books(
            scheduler, self.nodes, self.quotas, self.queue, self.reservations, self.preemption, self.next_pass
        )
        self.ordered, self.backfill = OrderedPass(books), BackfillPass(books)
        self.last: OrderedPass = self.backfill
        """The last pass."""
        self._fresh: list[PlannerJob] = []
        """Jobs that have come since then."""
        self._backfill_at = INF

    # What happens to jobs and nodes.

    def enqueue(self, job: PlannerJob, now: float) -> None:
        """Put a job that is eligible into the queue."""
        self.reservations.exact &= job.nodes > 0
        self.queue.enqueue(job, now)
        self._fresh.append(job)

    def withdraw(self, job: PlannerJob) -> None:
        """Take a job out of the queue; what it has claimed is free again."""
        self.queue.leave(job)
        self.nodes.unclaim(job)
        self.next_pass.after_change = True

    def ended(self, job: PlannerJob, now: float) -> None:
        """Free the nodes of a job that ran; those that were taken from others are claimed."""
        is_planned = self.reservations.exact and self.nodes.rounded(job.end) == now
        self.nodes.end(job)
        self.queue.use(job, now, -1)
        if self.preemption.is_on:
            self.preemption.end(job)
        if self.nodes.sharing or not is_planned:
            self.next_pass.after_change = True

    def capacity(self, delta: int, now: float, pool: int = 0) -> None:
        """Add nodes that return to a pool, or take out those that are lost or drained (below zero)."""
        self.nodes.change(pool, delta, now)
        self.next_pass.after_change = True

    def seated(self, job: PlannerJob, place: tuple[tuple[int, int], ...]) -> None:
        """Record which nodes a running job has now: no reservation counts on those that it has lost."""
        self.nodes.seat(job, place)
        self.next_pass.after_change = True

    # What the engine asks.

    @property
    def queued(self) -> int:
        """Jobs in the queue."""
        return self.queue.queued

    @property
    def preemptions(self) -> list[tuple[PlannerJob, list[PlannerJob]]]:
        """The preemptions of the last pass: victims and beneficiaries."""
        return self.preemption.named

    def wake(self, now: float) -> float:
        """Return when the next pass is due though nothing happens [s]; infinite for never."""
        time = self.next_pass.time
        return time if time > now else now

    def first(self, now: float) -> tuple[PlannerJob | None, int]:
        """Return the first job of the queue, if only nodes are in its way, and how many it lacks."""
        lanes = self.queue.segments()
        if not lanes:
            return None, 0
        job = self.queue.first_of(lanes, now).first
        return (job, job.nodes - self.nodes.count(job)) if self.quotas.admits(job) else (None, 0)

    def reason(self) -> dict[str, int]:
        """Return why GPUs are idle after the last pass: GPUs by reason; those that are down or drained not counted."""
        nodes = self.nodes
        idle = sum(nodes.free) * self.gpus + nodes.stranded
        reasons = {self.last.why: idle} if idle else {}
        if nodes.claimers and (claimed := nodes.claimed(range(len(nodes.pools)))):
            reasons["claim"] = claimed * self.gpus
        return reasons

    def idle(self, pool: int) -> int:
        """Return the nodes of a pool that nobody uses, those that are claimed too."""
        return self.free[pool] + self.nodes.claimed((pool,)) if self.nodes.claimers else self.free[pool]

    def replacements(self, job: PlannerJob, is_near: bool) -> list[int]:
        """Return the pools from which a running job may have a lost node replaced; those of its domains come first."""
        return self.reservations.replacements(job, is_near)

    # A pass.

    def plan(self, now: float) -> list[PlannerJob]:
        """Return who starts now; each has its nodes."""
        self.preemption.named = []
        if (self.keys.cycle and self._put_off(now)) or not self.is_due(now):
            return []
        due = self.next_pass
        anew = due.after_change or now >= due.time
        if anew:
            due.time = INF
        if self.queue.moves:
            self.queue.update(now)
        if self.keys.head == "blocks":
            starts = self._in_order(now, anew=anew)
        elif self.keys.backfill_cycle:
            starts = self._in_turn(now, anew=anew or bool(self._fresh))
        else:
            starts = self._backfill(now, anew=anew)
        if self.queue.moves and self.queue.queued:
            due.by(self.queue.next_turn(now))
        return starts

    def is_due(self, now: float) -> bool:
        """Return whether anything has happened, or was planned for now, that a pass has to look at."""
        due, planned = self.next_pass, self.reservations.planned
        return due.after_change or bool(self._fresh) or now >= due.time or (bool(planned) and planned[0][0] <= now)

    def _put_off(self, now: float) -> bool:
        """Put a pass off to the next multiple of the cycle, unless now is one; return whether it is."""
        cycle, due = self.keys.cycle, self.next_pass
        if next_multiple(now, cycle) <= now:
            return False
        time = now if self._fresh or due.after_change else max(due.time, now)
        due.time = next_multiple(time, cycle) if time < INF else INF
        return True

    def _in_order(self, now: float, *, anew: bool) -> list[PlannerJob]:
        """Start jobs in order."""
        fresh, self._fresh = self._fresh, []
        self.next_pass.after_change = False
        is_blocked = not (anew or self.preemption.is_on)
        if is_blocked and self.last is self.ordered and self.queue.are_behind(fresh):
            return []
        still_blocked = self.last.heads if is_blocked else []
        self.last = self.ordered
        return self.ordered.run(now, still_blocked)

    def _in_turn(self, now: float, *, anew: bool) -> list[PlannerJob]:
        """Start jobs in order, and backfill at the multiples of its cycle."""
        starts = self._in_order(now, anew=anew)
        if anew and self.queue.queued and self._backfill_at == INF:
            self._backfill_at = next_multiple(now, self.keys.backfill_cycle)
        if self._backfill_at <= now:
            self._backfill_at = INF
            starts = starts + self._backfill(now, anew=True)
        self.next_pass.by(self._backfill_at)
        return starts

    def _backfill(self, now: float, *, anew: bool) -> list[PlannerJob]:
        """Start whoever can beside reservations: those that stand, or new ones."""
        fresh = [job for job in self._fresh if job.is_queued]
        if len(fresh) > 1:
            fresh.sort(key=lambda job: self.queue.rank(job, now))
        self._fresh = []
        self.next_pass.after_change = False
        self.last = self.backfill
        may_stand = not (anew or self.queue.moves or self.nodes.claimers)
        if may_stand and self.backfill.can_go_on(fresh, now):
            return self.backfill.go_on(fresh, now)
        return self.backfill.run_anew(now)
