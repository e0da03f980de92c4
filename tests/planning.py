"""A cluster for the planner alone: jobs arrive, run as long as they do, and lose only what it takes from them."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.sim.policies.scheduler import Scheduler
from ettrick.sim.policies.scheduler.nodes import PlannerJob, PlannerPool
from ettrick.sim.policies.scheduler.planner import Planner
from ettrick.sim.policies.scheduler.queue import Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Table = dict[str, Any]


class Work(NamedTuple):
    """A job: `run` is what only the cluster knows; without a `limit` it is known to all."""

    number: int
    submit: float
    run: float
    nodes: int
    gpus: int = 0
    limit: float | None = None
    priority: float = 0
    tenant: int = 0
    partition: int = 0


class Replay:
    """What comes of a list of jobs: starts, ends and preemptions, by the rules of the planner.

    `actions` are times and what happens then, called with the replay. A job that is preempted starts over, `delay`
    after its end; its limit does not kill.
    """

    def __init__(
        self,
        keys: Table,
        work: Iterable[Work],
        pools: int | Sequence[PlannerPool] = 256,
        *,
        gpus: int = 1,
        tiers: Sequence[int] = (0,),
        quotas: Sequence[Quota] = (Quota(),),
        actions: Iterable[tuple[float, Callable[[Replay], None]]] = (),
        delay: float = 0.0,
        until: float = math.inf,
        watch: Callable[[Replay], None] | None = None,
    ) -> None:
        pools = [PlannerPool(pools)] if isinstance(pools, int) else pools
        self.scheduler = Scheduler.model_validate(keys)
        self.planner = Planner(self.scheduler, pools, gpus=gpus, tiers=tiers, quotas=quotas)
        self.delay = delay
        self.now = 0.0
        self.history: list[tuple[float, int]] = []
        """Starts in order: time and number of the job."""
        self.preemptions: list[tuple[float, int, list[int]]] = []
        self.running: dict[int, PlannerJob] = {}
        self.work: dict[PlannerJob, Work] = {}
        self.first: dict[int, float] = {}
        """First start of each job, and its last end."""
        self.end: dict[int, float] = {}
        self.nodes = sum(pool.nodes for pool in pools)
        self._count = itertools.count()
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        for job in work:
            self._at(job.submit, 2, lambda job=job: self.arrive(job))  # type: ignore[misc]
        for time, action in actions:
            self._at(time, 1, lambda action=action: action(self))  # type: ignore[misc]
        while self._events or self.planner.wake(self.now) < math.inf:
            self.now = max(min(self._events[0][0] if self._events else math.inf, self.planner.wake(self.now)), self.now)
            if self.now > until:
                return
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[-1]()
            self._pass()
            if watch is not None:
                watch(self)

    def arrive(self, job: Work) -> None:
        """Let a job enter the queue now."""
        limit = job.run if job.limit is None else job.limit
        pending = PlannerJob(
            job.number, job.nodes, job.gpus or job.nodes * self.planner.gpus, limit=limit, priority=job.priority,
            submit=job.submit, tenant=job.tenant, partition=job.partition,
        )  # fmt: skip
        self.work[pending] = job
        self.planner.enqueue(pending, self.now)

    def stop(self, number: int) -> None:
        """End a running job now."""
        job = self.running.pop(number)
        self.planner.ended(job, self.now)
        self.end[number] = self.now

    def _at(self, time: float, order: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, order, next(self._count), call))

    def _pass(self) -> None:
        again = True
        while again:
            again = False
            for job in self.planner.plan(self.now):
                self.history.append((self.now, job.number))
                self.first.setdefault(job.number, self.now)
                self.running[job.number] = job
                self._at(self.now + self.work[job].run, 0, lambda job=job, start=self.now: self._end(job, start))  # type: ignore[misc]
            for preemptor, victims in self.planner.preemptions:
                self.preemptions.append((self.now, preemptor.number, [victim.number for victim in victims]))
                for victim in victims:
                    grace = self.scheduler.preempt.grace
                    if grace:
                        self._at(self.now + grace, 0, lambda victim=victim: self._evict(victim))  # type: ignore[misc]
                    else:
                        self._evict(victim)
                        again = True
        planner = self.planner
        assert min(planner.free) >= 0, "a node was given away twice"

    def _end(self, job: PlannerJob, start: float) -> None:
        if self.running.get(job.number) is job and job.start == start:
            self.stop(job.number)

    def _evict(self, job: PlannerJob) -> None:
        if self.running.get(job.number) is job:
            self.stop(job.number)
            self._at(self.now + self.delay, 2, lambda: self._again(job))

    def _again(self, job: PlannerJob) -> None:
        job.eligible = job.submit = self.now
        self.planner.enqueue(job, self.now)


def workload(seed: int, jobs: int = 60, nodes: int = 16, *, estimates: str = "exact", load: float = 1.2) -> list[Work]:
    """Return random jobs of up to `nodes` nodes; several arrive, and several end, in the same second.

    `estimates`: limits are exact, above (up to five times), or anything, so that some jobs outlast them.
    """
    generator = np.random.default_rng(seed)
    work = []
    submit = 0.0
    for number in range(jobs):
        size = int(
            min(2 ** generator.integers(0, 5), nodes) if generator.random() < 0.7 else generator.integers(1, nodes + 1)
        )
        run = float(generator.integers(1, 40))
        submit += float(generator.poisson(size * run / (nodes * load)) if generator.random() < 0.8 else 0.0)
        factor = {"exact": 1.0, "above": generator.integers(1, 6), "any": 0.25 * generator.integers(1, 13)}[estimates]
        work.append(Work(number, submit, run, size, limit=float(math.ceil(run * factor))))
    return work
