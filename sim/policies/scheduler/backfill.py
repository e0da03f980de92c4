"""Passes through the queue: in order until somebody is blocked, or with backfill next to reservations.

A pass is one object with all that it knows. The order of jobs is that of the queue, which keys set (`order`): a new
order needs no pass. A new algorithm is a new pass. `OrderedPass` has its loop in `run`; `BackfillPass` inherits the
start of a job, and says which jobs it looks at (`scan`), what becomes of one (`consider`), and what it keeps for one
that cannot start (`reserve`).

References
----------
D. Feitelson, A. Mu'alem, IEEE TPDS 12(6), 2001 (EASY and conservative backfill); slurm.conf(5), bf_*. Unlike EASY's
authors, ties of expected ends all count.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.policies.scheduler.profile import INF

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from ettrick.sim.policies.scheduler.keys import Scheduler
    from ettrick.sim.policies.scheduler.nodes import NodeLedger, Place, PlannerJob, QueueSegment
    from ettrick.sim.policies.scheduler.preemption import PreemptionRules
    from ettrick.sim.policies.scheduler.profile import Entry
    from ettrick.sim.policies.scheduler.queue import JobQueue, Quotas
    from ettrick.sim.policies.scheduler.reservations import NextPass, Reservations

_TOO_FEW = ("too_few", "exempt")
"""Reasons of idle nodes that a reservation takes the place of, once it keeps a job from them."""


class Books(NamedTuple):
    """The state that passes read and write: the keys of the scheduler, and its view of the cluster."""

    keys: Scheduler
    nodes: NodeLedger
    quotas: Quotas
    queue: JobQueue
    reservations: Reservations
    preemption: PreemptionRules
    next_pass: NextPass

    def start(self, job: PlannerJob, now: float, place: Place) -> None:
        """Give a job its nodes."""
        self.nodes.start(job, now, place)
        self.queue.use(job, now, 1)
        if self.preemption.is_on:
            self.preemption.start(job)


class OrderedPass:
    """Jobs start in order; the first that cannot start blocks its partition, one without quota its tenant.

    Attributes
    ----------
    starts
        Who starts.
    heads
        Who cannot start, and blocks others or has a reservation.
    why
        Why GPUs are idle after the pass.
    """

    def __init__(self, books: Books) -> None:
        self.keys, self.nodes, self.quotas, self.queue, self.reservations, self.preemption, self.next_pass = books
        self.books = books
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Begin a pass, with nobody looked at and nothing reserved."""
        self.now = now
        self.starts: list[PlannerJob] = []
        self.heads: list[PlannerJob] = []
        self.why = "no_queue"
        if self.reservations.are_made:
            self.reservations.clear()
        if self.quotas.are_limited:
            self.quotas.hold_claims()

    def run(self, now: float, still_blocked: Container[PlannerJob]) -> list[PlannerJob]:
        """Return who starts; for some jobs nothing has changed since they could not."""
        self.begin(now)
        lanes = self.queue.segments()
        while lanes:
            lane = self.queue.first_of(lanes, self.now)
            job = lane.first
            admitted = self.quotas.admits(job)
            place = None if job in still_blocked else self._place(job, admitted)
            if place is not None:
                self.queue.leave(job)
                self.start(job, place)
                if not lane:
                    lanes.remove(lane)
                continue
            if self.why == "no_queue":
                self.why = self.blocked_by(job, admitted)
            self.heads.append(job)
            if admitted or job.victims or job.claim:
                self.quotas.hold(job)
            lanes = [
                rest
                for rest in lanes
                if rest.partition != lane.partition or (not admitted and rest.tenant != lane.tenant)
            ]
        if self.keys.head == "blocks" and self.nodes.claimers:
            self._start_claimers()
        return self.starts

    def _place(self, job: PlannerJob, admitted: bool) -> Place | None:
        """Return where a job can start now, be it on nodes that others have claimed."""
        place = self.reservations.find(job, self.now) if admitted else None
        return self.preemption.take_over(job, self.now, admitted) if place is None else place

    def _start_claimers(self) -> None:
        """Start those whose victims are gone: these may be ahead of them in the queue, and block them there."""
        for job in [claimer for claimer in self.nodes.claimers if not claimer.victims]:
            place = self.reservations.find(job, self.now) if self.quotas.admits(job) else None
            if place is not None:
                self.queue.leave(job)
                self.start(job, place)

    def start(self, job: PlannerJob, place: Place) -> None:
        """Start a job next to the reservations of this pass."""
        claim = job.claim
        if job in self.nodes.claimers:  # a higher job that waits counted on neither its nodes nor its victims
            self.quotas.held[job.tenant] -= job.size
            self.next_pass.by(self.now + self.keys.preempt.exempt)
            self.next_pass.after_change = True
            self.nodes.unclaim(job)
        self.reservations.start(job, self.now, place, claim)
        self.books.start(job, self.now, place)
        if self.nodes.claimers:
            self.nodes.top_up()
        self.starts.append(job)

    def blocked_by(self, job: PlannerJob, admitted: bool) -> str:
        """Return why nodes idle, from the first job that cannot start."""
        if not admitted:
            return "quota"
        preemption, nodes, now = self.preemption, self.nodes, self.now
        if preemption.is_on and self.keys.preempt.who != "none" and now < preemption.could_free(job, now) < INF:
            return "exempt"
        free = nodes.count(job)
        if free >= max(job.nodes, 1):
            return "drain" if self.reservations.has_windows else "wrong_places"
        return "wrong_places" if free * nodes.gpus + nodes.stranded >= job.size else "too_few"


class BackfillPass(OrderedPass):
    """Whoever can starts, in order, next to the reservations of those that cannot.

    Attributes
    ----------
    depth
        How many more jobs of each partition may have a reservation.
    tests
        How many more jobs the pass may look at.
    last
        Entry of the last job that has been passed.
    largest
        GPUs of the largest job that could still start, at most.
    refused
        Shapes of jobs that fit nowhere, and whether not even within the window; what is free only becomes less.
    """

    def begin(self, now: float) -> None:
        """Begin a pass, with nobody looked at and nothing reserved."""
        super().begin(now)
        self.tests = INF if self.keys.tested == "all" else self.keys.tested
        self.depth = [self.reservations.depth] * len(self.nodes.of_partition)
        self.last: Entry = ()
        self.largest = 0
        self.refused: dict[tuple[float, ...], bool] = {}

    def can_go_on(self, fresh: list[PlannerJob], now: float) -> bool:
        """Return whether the reservations stand, and only jobs behind them are new."""
        if not (self._can_start_or_plan() and self.reservations.are_met(now)):
            return False
        if self.reservations.deep:
            is_behind = not fresh or not self.last or fresh[0].entry > self.last
            return is_behind and len(self.queue.segments()) <= 1
        return all(job.entry > head.entry for head in self.heads for job in fresh if job.partition == head.partition)

    def go_on(self, fresh: list[PlannerJob], now: float) -> list[PlannerJob]:
        """Return who starts by the reservations as they stand, and of the jobs that are new."""
        self.now, self.starts, self.refused = now, [], {}
        for job, place in self.reservations.due(now):
            self.queue.leave(job)
            self.books.start(job, now, place)
            self.starts.append(job)
        return self.scan(fresh)

    def run_anew(self, now: float) -> list[PlannerJob]:
        """Return who starts of all jobs in the queue."""
        self.begin(now)
        if not self._can_start_or_plan():
            self.why = "too_few"
            return []
        if self.reservations.deep:
            self.reservations.forecast(now)
        return self.scan(self._in_order())

    def _can_start_or_plan(self) -> bool:
        """Return whether it makes sense to look at another job."""
        return self.reservations.exact or self.preemption.is_on or self.nodes.has_room()

    def scan(self, jobs: Iterable[PlannerJob]) -> list[PlannerJob]:
        """Consider jobs in their order, and return who starts."""
        self.largest = self.nodes.largest()
        depth, refused, preempts = self.depth, self.refused, self.preemption.is_on
        for job in jobs:
            self.tests -= 1
            if self.tests < 0:
                break
            is_hopeless = depth[job.partition] <= 0 and (job.size > self.largest or job.shape in refused)
            if is_hopeless and not (preempts and self._may_preempt(job)):
                self.last = job.entry
            elif not self.consider(job):
                break
        for job in self.starts:
            if job.is_queued:
                self.queue.leave(job)
        return self.starts

    def _may_preempt(self, job: PlannerJob) -> bool:
        """Return whether preemption has something to say of a job that does not fit, or of why nodes idle."""
        return self.why == "no_queue" or self.preemption.may_change(job, self.now)

    def consider(self, job: PlannerJob) -> bool:
        """Start a job, or pass it; return whether it makes sense to go on."""
        shape = job.shape
        has_claims = bool(job.claim) or job.share is not None
        if self.refused.get(shape) and not has_claims and self.depth[job.partition] > 0:
            self.depth[job.partition] -= 1
            return True
        admitted = self.quotas.admits(job)
        place = None
        if admitted and (has_claims or shape not in self.refused):
            place = self.reservations.find(job, self.now)
            if place is None and not (has_claims or self.keys.wait):
                self.refused[shape] = False
        if place is None:
            place = self.preemption.take_over(job, self.now, admitted)
            if self.nodes.claimers:
                self.refused.clear()
                self.largest = self.nodes.largest()
        if place is None:
            self.reserve(job, admitted)
            return self._can_start_or_plan()
        self.start(job, place)
        self.largest = self.nodes.largest()
        if not job.nodes:
            self.refused.clear()  # the node that it has may have room for others
        return True

    def reserve(self, job: PlannerJob, admitted: bool) -> None:
        """Pass a job that cannot start, with a reservation if it may have one."""
        was_blocked = bool(self.heads)
        if self.why == "no_queue":
            self.why = self.blocked_by(job, admitted)
        elif was_blocked and self.why in _TOO_FEW and admitted and self.nodes.count(job) >= max(job.nodes, 1):
            self.why = "reservation"
        self.last = job.entry
        reserves = admitted and self.depth[job.partition] > 0
        if reserves or job.victims or job.claim:
            self.quotas.hold(job)
        if reserves:
            self._reserve_nodes(job, was_blocked)

    def _reserve_nodes(self, job: PlannerJob, was_blocked: bool) -> None:
        """Keep nodes for a job; if there are none in time, no job of its shape that comes behind it has any either."""
        self.depth[job.partition] -= 1
        self.heads.append(job)
        is_kept = self.reservations.reserve(job, self.now)
        may_change = self.reservations.exact or self.reservations.has_windows or self.quotas.are_limited
        if not is_kept and was_blocked and job.shape in self.refused and not may_change:
            self.refused[job.shape] = True

    def _in_order(self) -> Iterator[PlannerJob]:
        """Return the queued jobs in order; those larger than what is free are left out in blocks."""
        lanes = self.queue.segments()
        if len(lanes) == 1:
            return self._walk(lanes[0])
        return (job for _, job in heapq.merge(*map(self._ranked, lanes))) if lanes else iter(())

    def _ranked(self, lane: QueueSegment) -> Iterator[tuple[tuple[float, ...], PlannerJob]]:
        """Yield the jobs of a segment, with their ranks."""
        return ((self.queue.rank(job, self.now), job) for job in self._walk(lane))

    def _walk(self, lane: QueueSegment) -> Iterator[PlannerJob]:
        """Yield the jobs of a segment; blocks of which none can start, nor be kept a place for, are left out."""
        is_counted = len(self.queue.lanes) > 1 and self.keys.tested != "all"
        if is_counted or self.preemption.is_on:
            yield from (entry[-1] for block in lane.blocks for entry in block)
            return
        for block, (size, limit) in lane.parts():
            if not (self.depth[lane.partition] <= 0 and self._is_too_large(lane, size, limit)):
                for entry in block:
                    yield entry[-1]
                continue
            self.tests -= len(block)
            if self.why in _TOO_FEW and size <= self.nodes.largest():
                self.why = "reservation"
            if self.tests <= 0:
                return

    def _is_too_large(self, lane: QueueSegment, size: int, limit: float) -> bool:
        """Return whether no job of at least this size [GPU] and this limit [s] can start next to the reservation."""
        reservations, nodes = self.reservations, self.nodes
        if size > nodes.largest():
            return True
        pool = nodes.of_partition[lane.partition][0]
        outlasts = not (reservations.deep or nodes.sharing) and self.now + limit > reservations.shadows[pool]
        return outlasts and size > max(reservations.extras[pool], 0) * nodes.gpus
