"""Preemption: who is stopped for a job in the queue, and who may have the nodes that are claimed by then.

A job takes what others borrowed of its tenant's quota (reclaim), then what jobs of strictly lower classes have. Victims
are chosen by counting them as gone (*lifted*) until the job fits next to the reservations.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ettrick.sim.policies.scheduler.nodes import SharedNode
from ettrick.sim.policies.scheduler.profile import INF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ettrick.sim.policies.scheduler.keys import Preempt
    from ettrick.sim.policies.scheduler.nodes import Place, PlannerJob
    from ettrick.sim.policies.scheduler.queue import JobQueue
    from ettrick.sim.policies.scheduler.reservations import Reservations


class RunningClass:
    """Running jobs of a class, in order of start: those that are safe from preemption, and the others."""

    __slots__ = ("gpus", "old", "ready", "young")

    def __init__(self) -> None:
        self.young: dict[PlannerJob, None] = {}
        self.old: dict[PlannerJob, None] = {}
        self.gpus = self.ready = 0
        """GPUs of all, and of those that are not safe."""

    def start(self, job: PlannerJob) -> None:
        """Add a job that starts."""
        self.young[job] = None
        self.gpus += job.size

    def end(self, job: PlannerJob) -> None:
        """Take out a job that has ended."""
        self.gpus -= job.size
        if self.young.pop(job, self) is self:
            del self.old[job]
            self.ready -= job.size

    def __contains__(self, job: PlannerJob) -> bool:
        return job in self.young or job in self.old

    def next_ready(self, now: float, exempt: float) -> float:
        """Return when the next of those that are safe no longer is [s]; infinite if none is.

        Those that have run for `exempt` seconds [s] no longer are.
        """
        while self.young:
            job = next(iter(self.young))
            if job.start + exempt > now:
                return job.start + exempt
            del self.young[job]
            self.old[job] = None
            self.ready += job.size
        return INF

    def in_order(self, order: str) -> Iterable[PlannerJob]:
        """Return those that are not safe, the first to go first."""
        if order == "smallest":
            newest_first = list(reversed(self.old))
            return sorted(newest_first, key=lambda job: job.size)
        return reversed(self.old) if order == "youngest" else self.old


class PreemptionRules:
    """Running jobs, by the class that says who may stop whom, and the jobs that are to be stopped."""

    def __init__(self, keys: Preempt, reservations: Reservations, queue: JobQueue) -> None:
        self.keys = keys
        self.reservations = reservations
        self.nodes = reservations.nodes
        self.next_pass = reservations.next_pass
        self.queue = queue
        self.quotas = queue.quotas
        self.is_on = keys.mode != "none"
        self._reclaims = keys.reclaim != "none" and self.quotas.are_limited
        self.running: defaultdict[float, RunningClass] = defaultdict(RunningClass)
        self._below: dict[float, tuple[float, int, int]] = {}
        """The running jobs below a class: time until which it holds [s], GPUs of those not safe, GPUs of all."""
        self.named: list[tuple[PlannerJob, list[PlannerJob]]] = []
        """The preemptions of the last pass: victims and beneficiaries."""

    def class_of(self, job: PlannerJob) -> float:
        """Return what has to be strictly higher for a job to stop another one."""
        who = self.keys.who
        return self.queue.tiers[job.partition] if who == "tier" else job.qos if who == "qos" else job.priority

    def start(self, job: PlannerJob) -> None:
        """Add a job that starts to the running ones."""
        self.running[self.class_of(job)].start(job)
        self._below.clear()

    def end(self, job: PlannerJob) -> None:
        """Take out a job that has ended."""
        self.running[self.class_of(job)].end(job)
        self._below.clear()

    def may_change(self, job: PlannerJob, now: float) -> bool:
        """Return whether others may be stopped for a job, or have been for any."""
        if self.nodes.claimers or self._reclaims:
            return True
        return self.keys.who != "none" and self.could_free(job, now) <= now

    def take_over(self, job: PlannerJob, now: float, admitted: bool) -> Place | None:
        """Return a place that jobs behind a blocked one have claimed; if there is none, name the victims of the job."""
        if not self.is_on:
            return None
        if admitted and self.nodes.claimers:
            place = self._outrank(job, now)
            if place is not None:
                return place
        victims = [] if job.victims else self.victims(job, now)
        if victims:
            self._claim(job, victims, now)
        return None

    def _outrank(self, job: PlannerJob, now: float) -> Place | None:
        """Return a place on nodes that jobs behind this one in the queue have claimed; nothing if it does not do."""
        rank = self.queue.rank(job, now)
        behind = [
            claimer
            for claimer in self.nodes.claimers
            # A victim may be ahead in the queue of who stopped it.
            if self.queue.rank(claimer, now) > rank and not self._may_stop(claimer, job)
        ]
        for claimer in behind:
            for pool, nodes in claimer.claim.items():
                self.nodes.free[pool] += nodes
            claimer.claim = {}
        place = self.reservations.find(job, now) if behind else None
        if place is None:
            self.nodes.top_up()
        else:
            self.next_pass.by(now + self.keys.exempt)
        return place

    def _claim(self, job: PlannerJob, victims: list[PlannerJob], now: float) -> None:
        """Claim the place that a job has without its victims, and name them."""
        for victim in victims:
            self._lift(victim, 1)
        place = (None if job.nodes else self._vacated(job, victims, now)) or self.reservations.find(job, now)
        for victim in victims:
            self._lift(victim, -1)
        self.quotas.hold(job)
        self.nodes.unclaim(job)
        if isinstance(place, SharedNode):
            job.share = place
            place.claimed = job
        else:
            job.target = dict(place or ())
        self.nodes.claimers[job] = None
        for victim in victims:
            victim.preemptor = job
            victim.preemptions += 1
            job.victims[victim] = None
            self.nodes.hasten(victim, now + self.keys.grace)
        self.nodes.top_up()
        self.named.append((job, victims))
        self.next_pass.after_change = True

    # Who may be stopped.

    def victims(self, job: PlannerJob, now: float) -> list[PlannerJob]:
        """Return whom to stop so that a job can start: nobody if even all candidates together would not do.

        Candidates have run for the exempt time and have not been preempted too often. Those of tenants that have
        borrowed what the job's tenant is entitled to go first, then those of strictly lower classes (`_may_stop`).
        """
        keys = self.keys
        reclaims = self._reclaims and self._is_within_quota(job)
        if reclaims:
            for group in self.running.values():
                self.next_pass.by(group.next_ready(now, keys.exempt))
        elif keys.who == "none" or self.could_free(job, now) > now:
            return []
        domains = self.reservations.domains(job) if keys.victims == "reorder" else [None]
        choices = [self._choose(job, now, domain, reclaims=reclaims) for domain in domains]
        return min(filter(None, choices), key=lambda choice: sum(victim.size for victim in choice), default=[])

    def could_free(self, job: PlannerJob, now: float) -> float:
        """Return since when all candidates of lower classes have enough GPUs; where that is ahead, wake then.

        It is ``now``, infinite for never, or when the next of those who are exempt still are so no longer.
        """
        nodes = self.nodes
        need = job.size - nodes.stranded - (nodes.count(job) + sum(job.claim.values())) * nodes.gpus
        until, ready, total = self._sums_below(self.class_of(job), now)
        if total < need:
            return INF
        self.next_pass.by(until)
        return now if ready >= need else until

    def _sums_below(self, class_of_job: float, now: float) -> tuple[float, int, int]:
        """Return when the next of lower classes is not safe any more [s], GPUs of those that are not, GPUs of all."""
        sums = self._below.get(class_of_job)
        if sums is None or sums[0] <= now:
            groups = [group for value, group in self.running.items() if value < class_of_job]
            until = min([group.next_ready(now, self.keys.exempt) for group in groups], default=INF)
            sums = until, sum(group.ready for group in groups), sum(group.gpus for group in groups)
            self._below[class_of_job] = sums
        return sums

    def _choose(self, job: PlannerJob, now: float, domain: int | None, *, reclaims: bool) -> list[PlannerJob]:
        """Return the victims in a domain, or anywhere: none that is not needed, or as Slurm reorders them."""
        chosen = self._lifted(self._candidates(job, now, domain, reclaims=reclaims), job, now)
        if not chosen:
            return chosen
        if self.keys.victims == "minimal":
            for victim in chosen[-2::-1]:
                self._lift(victim, -1)
                if self._would_fit(job, chosen, now):
                    chosen.remove(victim)
                else:
                    self._lift(victim, 1)
        else:
            for _ in range(self.keys.reorder):
                for victim in chosen:
                    self._lift(victim, -1)
                chosen = self._lifted([chosen[-1], *chosen[:-1]], job, now)
        for victim in chosen:
            self._lift(victim, -1)
        return chosen

    def _candidates(self, job: PlannerJob, now: float, domain: int | None, *, reclaims: bool) -> Iterator[PlannerJob]:
        """Yield whom a job may stop, the first to go first."""
        all_pools = self.nodes.pools
        pools = {pool for pool in self.nodes.of_partition[job.partition] if domain in (None, all_pools[pool].domain)}
        chosen: set[PlannerJob] = set()
        for value in sorted(self.running):
            self.running[value].next_ready(now, self.keys.exempt)
            for victim in self.running[value].in_order(self.keys.order) if reclaims else ():
                if self._may_go(victim, pools) and self._may_reclaim(job, victim):
                    chosen.add(victim)
                    victim.is_reclaimed = True
                    yield victim
        class_of_job = self.class_of(job)
        for value in sorted(self.running):
            if value >= class_of_job:
                return
            for victim in self.running[value].in_order(self.keys.order):
                if self._may_go(victim, pools) and victim not in chosen and self._outranks(job, victim):
                    victim.is_reclaimed = False
                    yield victim

    def _may_go(self, victim: PlannerJob, pools: set[int]) -> bool:
        """Return whether a job has nodes of some pools, and may be stopped again."""
        if victim.preemptor is not None or (self.keys.most is not None and victim.preemptions >= self.keys.most):
            return False
        return victim.share.pool in pools if victim.share else any(pool in pools for pool, _ in victim.where)

    def _may_stop(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether its quota or its class lets a job stop another one."""
        return self._may_reclaim(job, victim) or self._outranks(job, victim)

    def _outranks(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether its class lets a job stop another one, which might not reclaim its nodes."""
        keys = self.keys
        is_near = keys.who != "none" and (keys.within == "cluster" or victim.tenant == job.tenant)
        return is_near and self.class_of(victim) < self.class_of(job) and not self._may_reclaim(victim, job)

    def _may_reclaim(self, job: PlannerJob, victim: PlannerJob) -> bool:
        """Return whether a job within the quota of its tenant may stop one of a tenant beyond its own."""
        reclaim = self.keys.reclaim
        if reclaim == "none" or job.tenant == victim.tenant or (reclaim == "lower" and victim.priority >= job.priority):
            return False
        used = self.quotas.usage[victim.tenant] + (0 if self._runs(victim) else victim.size)
        return used > self.quotas.quotas[victim.tenant].nominal and self._is_within_quota(job)

    def _is_within_quota(self, job: PlannerJob) -> bool:
        """Return whether a tenant has its own GPUs alone, a job included."""
        more = 0 if self._runs(job) else self.quotas.more(job)
        used = self.quotas.usage[job.tenant] + self.quotas.held[job.tenant] + more
        return used <= self.quotas.quotas[job.tenant].nominal

    def _runs(self, job: PlannerJob) -> bool:
        """Return whether a job has nodes."""
        return job in self.running[self.class_of(job)]

    # What would be if some were gone.

    def _lifted(self, candidates: Iterable[PlannerJob], job: PlannerJob, now: float) -> list[PlannerJob]:
        """Count candidates as gone until a job fits, and return them; nobody if it never does."""
        chosen: list[PlannerJob] = []
        claimed = sum(job.claim.values())
        for victim in candidates:
            chosen.append(victim)
            self._lift(victim, 1)
            if self.nodes.count(job) + claimed >= job.nodes and self._would_fit(job, chosen, now):
                return chosen
        for victim in chosen:
            self._lift(victim, -1)
        return []

    def _lift(self, victim: PlannerJob, sign: int) -> None:
        """Count a running job as gone (1), or as there again (-1), in what is free now and ahead."""
        self.quotas.usage[victim.tenant] -= sign * victim.size
        share, rounded = victim.share, self.nodes.rounded
        if share is None:
            for pool, nodes in victim.where:
                self.reservations.advance(pool, sign * nodes, -INF, rounded(victim.end))
            return
        before = share.end
        (share.gone.add if sign > 0 else share.gone.remove)(victim)
        share.free += sign * victim.gpus
        share.end = rounded(max([job.end for job in share.jobs if job not in share.gone], default=-INF))
        self.reservations.advance(share.pool, sign, *sorted((before, share.end)))

    def _would_fit(self, job: PlannerJob, gone: list[PlannerJob], now: float) -> bool:
        """Return whether a job has a place, and its tenant the quota, without some that are gone."""
        if not self.quotas.admits(job):
            return False
        if job.nodes:
            return self.reservations.find(job, now) is not None
        pools = self.nodes.of_partition[job.partition]
        return self._vacated(job, gone, now) is not None or any(
            self.reservations.room(job, pool, now) >= 1 for pool in pools
        )

    def _vacated(self, job: PlannerJob, gone: list[PlannerJob], now: float) -> SharedNode | None:
        """Return a shared node that has room for a job below a node when some of its jobs are gone."""
        for share in (victim.share for victim in gone if victim.share is not None):
            fits = share.free >= job.gpus and len(share.gone) < len(share.jobs) and share.claimed in (None, job)
            if fits and self.reservations.may_join(job, share, now):
                return share
        return None
