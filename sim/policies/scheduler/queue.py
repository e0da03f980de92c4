"""The queue: its order by tier, priority, size, age and fair share; and what tenants have used and may use."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.policies.scheduler.nodes import QueueSegment
from ettrick.sim.policies.scheduler.profile import INF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.sim.policies.scheduler.keys import QueueOrder
    from ettrick.sim.policies.scheduler.nodes import NodeLedger, PlannerJob


class Quota(NamedTuple):
    """The quota of a tenant [GPU]: its own, the part it may borrow, and the part of its own that others may have."""

    nominal: float = INF
    borrow: float = INF
    lend: float = INF
    weight: float = 1.0


class Quotas:
    """The use of quotas by tenants, and the part that waiting gangs reserve.

    Parameters
    ----------
    quotas
        Of each tenant.
    claimers
        Queued jobs with claims: their GPUs are always held.
    """

    def __init__(self, quotas: Sequence[Quota], claimers: Mapping[PlannerJob, None]) -> None:
        self.quotas = tuple(quotas)
        self.usage = [0] * len(quotas)
        """GPUs that each tenant has."""
        self.held = [0] * len(quotas)
        """GPUs that its waiting gangs hold of its quota; nothing is held where nobody has one."""
        self.are_limited = any(quota.nominal < INF for quota in quotas)
        self._claimers = claimers
        self._reserved = [max(quota.nominal - quota.lend, 0.0) if quota.nominal < INF else INF for quota in quotas]
        """GPUs of each tenant that nobody else may have."""
        self._lent = sum(min(quota.lend, quota.nominal) for quota in quotas)

    def admits(self, job: PlannerJob) -> bool:
        """Return whether a tenant may have the GPUs of one more job: its own, or those that others lend."""
        if not self.are_limited:
            return True
        wanted = [used + waiting for used, waiting in zip(self.usage, self.held, strict=True)]
        wanted[job.tenant] += self.more(job)
        quota = self.quotas[job.tenant]
        if wanted[job.tenant] > quota.nominal + quota.borrow:
            return False
        borrowed = (max(count - reserved, 0.0) for count, reserved in zip(wanted, self._reserved, strict=True))
        return sum(borrowed) <= self._lent

    def hold(self, job: PlannerJob) -> None:
        """Hold the GPUs of a waiting gang."""
        if self.are_limited:
            self.held[job.tenant] += self.more(job)

    def hold_claims(self) -> None:
        """Hold for waiting gangs only what those with claims need."""
        self.held = [0] * len(self.quotas)
        for job in self._claimers:
            self.held[job.tenant] += job.size

    def more(self, job: PlannerJob) -> int:
        """Return the GPUs by which a queued job adds to what is held."""
        return 0 if job in self._claimers else job.size


class JobQueue:
    """Queued jobs in order, in segments whose mutual order time alone may change.

    Parameters
    ----------
    order
        Its keys.
    nodes, quotas
        Of the cluster, and of its tenants.
    tiers
        PriorityTier of each partition.
    """

    def __init__(self, order: QueueOrder, nodes: NodeLedger, quotas: Quotas, tiers: Sequence[int]) -> None:
        self.order = order
        self.nodes = nodes
        self.quotas = quotas
        self.tiers = tuple(tiers)
        self.lanes: dict[tuple[int, int, bool], QueueSegment] = {}
        self.queued = 0
        self.past = [0.0] * len(quotas.quotas)
        """Past use of each tenant [GPU s], up to the last decay."""
        self.moves = quotas.are_limited or order.age.weight > 0 or order.fair_share.weight > 0
        """Whether the order, or who is admitted, changes from pass to pass."""
        self._by_tenant = quotas.are_limited or order.fair_share.weight > 0
        self._serials = itertools.count(1)
        self._full_ages: list[tuple[float, int, PlannerJob]] = []
        self._past_at = 0.0
        self._factors = [1.0] * len(quotas.quotas)
        self._factors_until = -INF

    def enqueue(self, job: PlannerJob, now: float) -> None:
        """Put a job that is eligible into the queue."""
        job.serial = next(self._serials)
        job.size = job.nodes * self.nodes.gpus or job.gpus
        job.shape = job.nodes, job.gpus, job.limit, job.partition
        age = self.order.age
        capped = bool(age.weight) and now - job.eligible >= age.full
        self._add(job, capped)
        if age.weight and not capped:
            heapq.heappush(self._full_ages, (job.eligible + age.full, job.serial, job))

    def _add(self, job: PlannerJob, capped: bool) -> None:
        """Put a job into the segment of its partition, tenant and age."""
        order = self.order
        size = job.size / (self.nodes.total * self.nodes.gpus)
        static = order.priority * job.priority
        static += order.size.weight * (size if order.size.favours == "large" else 1 - size)
        if order.age.weight and not capped:
            static -= order.age.weight * job.eligible / order.age.full
        then = job.limit if order.then == "limit" else 0.0
        key = (job.partition, job.tenant if self._by_tenant else 0, capped)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = QueueSegment(key[0], self.tiers[key[0]], key[1], capped)
        job.lane = lane
        job.is_queued = True
        job.entry = (-static, then, job.submit, job.number, job.serial, job)
        lane.add(job.entry)
        self.queued += 1

    def leave(self, job: PlannerJob) -> None:
        """Take a job out of the queue."""
        job.lane.remove(job.entry)
        job.is_queued = False
        self.queued -= 1

    def segments(self) -> list[QueueSegment]:
        """Return the segments that have jobs."""
        return [lane for lane in self.lanes.values() if lane.blocks]

    def first_of(self, lanes: list[QueueSegment], now: float) -> QueueSegment:
        """Return the segment whose first job is the first of all."""
        return lanes[0] if len(lanes) == 1 else min(lanes, key=lambda lane: self.rank(lane.first, now))

    def are_behind(self, jobs: Sequence[PlannerJob]) -> bool:
        """Return whether jobs are in a single segment, behind another one, and stay there as time passes."""
        if self.moves or len(self.lanes) != 1:
            return False
        (lane,) = self.lanes.values()
        return not lane or lane.first not in jobs

    def rank(self, job: PlannerJob, now: float) -> tuple[float, ...]:
        """Return what jobs of several segments are ordered by, the first least."""
        order, lane, entry = self.order, job.lane, job.entry
        lift = 0.0
        if order.age.weight:
            lift = order.age.weight * (1.0 if lane.capped else now / order.age.full)
        if order.fair_share.weight:
            lift += order.fair_share.weight * self._factors[lane.tenant]
        return (-lane.tier, entry[0] - lift, *entry[1:5])

    def update(self, now: float) -> None:
        """Move jobs whose age is full, and calculate the shares of tenants anew when that is due."""
        age, fair = self.order.age, self.order.fair_share
        while self._full_ages and self._full_ages[0][0] <= now:
            *_, job = heapq.heappop(self._full_ages)
            if job.is_queued and not job.lane.capped and now - job.eligible >= age.full:
                self.leave(job)
                self._add(job, capped=True)
        if fair.weight and now >= self._factors_until:
            self._factors_until = math.floor(now / fair.every) * fair.every + fair.every
            self.decay(now)
            total = sum(self.past)
            quotas = self.quotas.quotas
            weights = sum(quota.weight for quota in quotas)
            if total:
                self._factors = [
                    2.0 ** (-(past / total) / (quota.weight / weights))
                    for past, quota in zip(self.past, quotas, strict=True)
                ]

    def next_turn(self, now: float) -> float:
        """Return when the order of the queue may next change though nothing happens [s]; infinite for never.

        Shares change at each calculation (Slurm's PriorityCalcPeriod), which matters where several tenants wait. Age
        lifts all alike until that of a job is full; from then on others catch up with it, which is seen at the
        calculations.
        """
        fair = self.order.fair_share
        waiting = self.segments()
        kinds = {lane.capped for lane in waiting}
        shares_differ = fair.weight > 0 and len({lane.tenant for lane in waiting}) > 1
        if shares_differ or len(kinds) == 2:
            return math.floor(now / fair.every) * fair.every + fair.every
        while self._full_ages and not self._full_ages[0][-1].is_queued:
            heapq.heappop(self._full_ages)
        return self._full_ages[0][0] if self._full_ages and False in kinds else INF

    def decay(self, now: float) -> None:
        """Bring the past use of tenants [GPU s] up to `now`; GPUs count from when they are given."""
        half = self.order.fair_share.half_life
        remaining = 2.0 ** (-(now - self._past_at) / half)
        gain = (1 - remaining) * half / math.log(2)
        self.past = [past * remaining + used * gain for past, used in zip(self.past, self.quotas.usage, strict=True)]
        self._past_at = now

    def use(self, job: PlannerJob, now: float, sign: int) -> None:
        """Count the GPUs of a job that starts (1) or ends (-1)."""
        if self.order.fair_share.weight:
            self.decay(now)
        self.quotas.usage[job.tenant] += sign * job.size
