"""Holders of nodes: their policies, the nodes that they have, and their state from submission to end.

A named job, a job of a stream and replicas of a service are each one :class:`Holder` in the queue. What differs between
them is data: the five answers of its :class:`HolderPolicy`.
"""

from __future__ import annotations

import math
from heapq import heappush
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from ettrick.sim.engine.lives import ExposureClock, FailureEvent, SourceInfo
from ettrick.sim.engine.result import DIRECT
from ettrick.sim.policies.scheduler.nodes import PlannerJob

if TYPE_CHECKING:
    from ettrick.sim.engine.job import Job, RepairJob
    from ettrick.sim.engine.prepared import PreparedStream
    from ettrick.sim.policies.contracts import Bucket
    from ettrick.sim.scenario.streams import Arrival


class HolderPolicy(NamedTuple):
    """The answers in which kinds of holders differ.

    Attributes
    ----------
    has_nodes
        Whether it has whole nodes, and no part of one.
    has_work
        Whether it has work to do, which it saves and which a stop may undo.
    on_failure
        The recovery strategy makes a plan for it, it goes on in place or queues again, or its service replaces it.
    account
        Who accounts for its time.
    may_be_cancelled
        Whether a preemption may end it for good.
    """

    has_nodes: bool
    has_work: bool
    on_failure: Literal["replan", "requeue", "replace"]
    account: Literal["job", "stream", "service"]
    may_be_cancelled: bool


NAMED_JOB = HolderPolicy(True, True, "replan", "job", False)
STREAM_JOB = HolderPolicy(True, True, "requeue", "stream", True)
PART_OF_NODE = HolderPolicy(False, True, "requeue", "stream", True)
SERVICE_REPLICAS = HolderPolicy(True, False, "replace", "service", False)


class Allocation:
    """Nodes of a holder, or one node of several smaller ones: to failures and repair what a group of a job is.

    Whatever its jobs do at the moment, failures can hit all of its nodes.
    """

    __slots__ = (
        "busy", "deferred", "detect_at", "epoch", "footprint", "free", "holding", "jobs", "missing", "nodes",
        "ready_at", "repairs", "replaced", "suspects", "unblamed",
        "waits",
    )  # fmt: skip

    main = None
    exposed = "both"
    replans: ClassVar[Literal[False]] = False
    """Whether the recovery strategy answers a failure."""

    def __init__(self, nodes: list[int], now: float) -> None:
        self.nodes = nodes
        """Node at each position, or -1."""
        self.free = 0
        """GPUs of a shared node that no job has [-]."""
        self.jobs: list[Holder] = []
        self.holding = True
        self.missing: list[int] = []
        """Positions without a node."""
        self.replaced: list[int] = []
        """Positions that lost their node to another one at once."""
        self.suspects: list[tuple[int, FailureEvent]] = []
        """Nodes that failed and of which the jobs do not know yet, with the failure."""
        self.repairs: list[RepairJob] = []
        """Repairs that begin when the jobs know of the failure."""
        self.unblamed: list[int] = []
        """Nodes that were swapped although nobody was blamed, until others have replaced them."""
        self.deferred: list[tuple[int, int, int, float]] = []
        self.footprint = None
        self.detect_at = math.inf
        """When the jobs know of a failure [s]."""
        self.waits = False
        """Whether its job holds what is left of its nodes for the delay of a requeue, which ends at `detect_at`."""
        self.ready_at = -math.inf
        """When nodes that had to be got ready are there [s]."""
        self.epoch = 0
        self.busy = ExposureClock(now)
        self.busy.is_on = True

    @property
    def job(self) -> Allocation:
        """What others read of the job of a group: its nodes, and whether it holds them."""
        return self


Shares: TypeAlias = tuple[float, float]
"""Share of requests in SLO, and how far that may be off at 95 % [-]."""


class Cohort:
    """Requests that wait, in the order in which they were asked."""

    __slots__ = ("asked", "cause", "count", "due", "leaves", "lost", "shares", "span", "work")

    def __init__(self, asked: float, span: float, count: float) -> None:
        self.asked, self.span, self.count = asked, span, count
        """When the first was asked [s], over which time all were [s], and how many they are."""
        self.work, self.lost, self.cause = 1.0, 0.0, 0
        """What one takes of a capacity over a usual request, the part of it that is lost work [-], and why."""
        self.leaves = math.inf
        """When all give up together [s]; infinite where each has the patience of the service."""
        self.due = math.nan
        """Until when all must go on to be in SLO [s]; NaN where each has time for its first token."""
        self.shares: Shares | None = None
        """Of those who were in flight."""


class Holder(PlannerJob):
    """Who waits for nodes or has them, from its submission to its end.

    Of a named job only what :meth:`of_job` sets is there, and what is about replicas only for those of a service.
    """

    __slots__ = (
        "account", "alive", "allocation", "attempts", "began", "broken", "durable", "epoch", "failed_at", "failures",
        "fast", "first", "flight", "flush", "from_busy", "held", "is_cold", "is_exact", "is_serving", "is_stuck",
        "is_upgrading", "job", "joining", "lacks", "lived", "lives", "longest", "lost", "next_at", "notice", "policy",
        "preempted", "queued", "replicas", "root", "run", "run_at", "save", "saves", "saving_at", "seats", "service",
        "since", "spec", "speed", "stages", "stands", "stream", "up_since", "useful", "via", "waited", "waiting", "why",
    )  # fmt: skip

    policy: HolderPolicy
    job: Job

    @classmethod
    def of_job(cls, number: int, job: Job, now: float) -> Holder:
        """Return a named job that enters the queue."""
        spec = job.spec
        holder = cls(
            number, job.nodes_needed, job.gpus, priority=spec.priority, submit=now, tenant=spec.tenant,
            partition=spec.partition, qos=spec.qos,
        )  # fmt: skip
        holder.policy, holder.job = NAMED_JOB, job
        return holder

    @classmethod
    def of_arrival(
        cls,
        policy: HolderPolicy,
        number: int,
        nodes: int,
        spec: Arrival,
        stream: PreparedStream,
        account: int,
        longest: float = math.inf,
    ) -> Holder:
        """Return a job of a stream, or replicas of a service, on whole nodes or none; it may run so long [s]."""
        holder = cls(
            number, nodes, spec.gpus, limit=spec.limit, priority=spec.priority, submit=spec.submit, tenant=spec.tenant,
            partition=spec.partition, qos=stream.qos,
        )  # fmt: skip
        holder.policy = policy
        holder._prepare(spec, stream, account, longest)
        return holder

    def _prepare(self, spec: Arrival, stream: PreparedStream, account: int, longest: float) -> None:
        self.spec = spec
        self.stream = stream
        self.account = account
        self.longest = longest
        """How long it may run, by its partition and its chain [s]."""
        self.allocation: Allocation | None = None
        self.attempts = 0
        """How often it has begun to run."""
        self.root = 0
        """Why it is in the queue, or had to start anew: index of the root cause; 0 because it arrived."""
        self.via = DIRECT
        self.why = 0
        """Index of the cause that its stages are charged to."""
        self.queued = spec.submit
        """Since when it waits [s]."""
        self.waited = 0.0
        self.first = math.nan
        """When it first started [s]."""
        self.began = math.nan
        """When it last got its nodes [s]."""
        self.lost = 0.0
        """Work that stops have undone since then [s]."""
        self.since = math.nan
        """Up to when its nodes have been charged [s]."""
        self.stages: list[tuple[int, float]] = []
        """What comes before it runs on: bucket and end [s]."""
        self.seats: tuple[tuple[int, ...], ...] = ()
        """Nodes that it began with and had after each change, for the log."""
        self.stands = False
        """Whether a failure has stopped it, and it waits with its nodes."""
        self.run_at = math.inf
        """When it runs on [s]."""
        self.saving_at = math.inf
        """When the save began that is on its way in a shared store [s]."""
        self.next_at = math.inf
        """When something happens next to a job whose saves are shared [s]."""
        self.durable = 0.0
        """Work that is saved [s]."""
        self.saves = stream.saves[spec.gpus]
        self.save = self.saves.save.of(spec.work)
        """How long a save stops it [s]."""
        self.flush = self.save + self.saves.drain
        """How long it takes to make its progress durable before it stops [s]."""
        self.is_exact = stream.exact
        """Whether its limit is what it takes, whatever delays it, and no estimate."""
        self.run = 0.0
        """How long it has held nodes [s]."""
        self.useful = 0.0
        """Stepping whose result was kept [s]."""
        self.notice: tuple[int, int] | None = None
        """Root cause and size class of the job that preempts it, while it may still save."""
        self.failures = 0
        self.preempted = 0
        self.epoch = 0
        """Raised at each change of plan; an event that carries an older one is void."""
        self.lives: list[tuple[float, int, int, SourceInfo]] = []
        """Its own lives, which its processes end by failing: due when they have run so long [s], source, number."""
        self.lived = 0.0
        """How long its processes have run [s]."""
        self.alive = math.inf
        """Since when they run, or from when on they will [s]."""

    def begin_serving(self, service: int, waiting: dict[Holder, None], replicas: int) -> None:
        """Begin as replicas of a service."""
        self.service = service
        """Index of its pool of replicas."""
        self.waiting = waiting
        """Those of the pool that are in the queue."""
        self.replicas = replicas
        self.is_serving = self.is_cold = self.is_upgrading = self.is_stuck = False
        self.speed = 1.0
        """Its capacity over that of its replicas."""
        self.held = self.fast = 0.0
        """GPUs that it serves with; those at full speed that serve as much."""
        self.lacks = 0
        """Nodes that do not serve although the others do."""
        self.broken = 0
        """GPUs that do not serve although the others of their node do."""
        self.up_since = 0.0
        """Since when it has served as fast as now [s]."""
        self.from_busy = 0.0
        """Reading of the use of its pool up to which it has been charged for being slower [s]."""
        self.failed_at = 0.0
        """When it last failed [s]."""
        self.flight: list[Cohort] = []
        """What was in flight then, while that is undetected, and will move."""
        self.joining: list[tuple[Bucket, float, float]] = []
        """What the nodes do that load while the others serve, from when to when [s]."""

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.policy.account == "job":
            return self.job.spec.name
        return f"job {self.spec.number} of {self.stream.name}"

    def begin_life(self, info: SourceInfo, number: int, since: float) -> None:
        """Begin its life `number` of a source when its processes have run `since` [s]."""
        law = info.source.law
        assert law is not None, "sources of processes have one"
        life = law.ppf_one(FailureEvent(info, self.spec.number, number).mark("life"))
        heappush(self.lives, (since + life, info.index, number, info))

    def wall(self, work: float) -> float:
        """Return how long it runs for some work, saves between included [s]; it is over before the last save."""
        if not self.save or work == math.inf:
            return work
        saves = math.ceil((work + self.saves.head) / self.saves.interval) - 1
        return work + max(saves, 0) * self.save

    def time_left(self) -> float:
        """Return how long it will hold its nodes from its next start on, if nothing happens [s]."""
        stream, spec = self.stream, self.spec
        restore = self.saves.restore.of(spec.work) if self.durable > 0 else 0.0
        return stream.restart + restore + self.wall(spec.work - self.durable)

    def stand_still(self, now: float) -> None:
        """Void what it was going to do; its processes run no longer."""
        self.epoch += 1
        self.lived += max(now - self.alive, 0.0)
        self.alive = math.inf
