"""Holders of nodes: who waits in the queue or has nodes, the groups of a named job, and what they do and have.

A named job, a job of a stream and replicas of a service are each one :class:`Holder` in the queue. What differs between
them is data: the five answers of its :class:`HolderPolicy`. A named job has a :class:`Job` next to it, with its groups,
its progress and its account; a :class:`Recorder` writes down what these do, for those who want to look at it.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from heapq import heappush
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from ettrick.sim.cluster.switches import Reach
from ettrick.sim.engine.lives import ExposureClock, FailureEvent, SourceInfo
from ettrick.sim.engine.result import DIRECT, InstantEvent, Milestone, PhaseSpan, Timeline
from ettrick.sim.policies.contracts import Acquire, Bucket, Pace, Plan, Restoration, Run
from ettrick.sim.policies.scheduler.nodes import PlannerJob
from ettrick.sim.steps import Impairment, rerouted_pace, stated_pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ettrick.sim.engine.ledger import Account
    from ettrick.sim.engine.prepared import FabricView, PreparedJob, PreparedStream
    from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint, Periodic
    from ettrick.sim.policies.contracts import Exposure, Memory, State
    from ettrick.sim.policies.recovery import Redundant
    from ettrick.sim.scenario.streams import Arrival
    from ettrick.sim.steps import StepPlan


@dataclass(frozen=True, slots=True)
class HolderPolicy:
    """The answers in which kinds of holders differ, for the rooms of the queue; the planner does not see them.

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
        self.repairs: list[PendingRepair] = []
        """Repairs that begin when the jobs know of the failure."""
        self.unblamed: list[int] = []
        """Nodes that were swapped although nobody was blamed, until others have replaced them."""
        self.deferred: list[tuple[int, int, int, float]] = []
        self.footprint = None
        self.detect_at = math.inf
        """The time at which the jobs know of a failure [s]."""
        self.waits = False
        """Whether its job holds what is left of its nodes for the delay of a requeue, which ends at `detect_at`."""
        self.ready_at = -math.inf
        """The time at which nodes that had to be prepared are there [s]."""
        self.epoch = 0
        self.busy = ExposureClock(now)
        self.busy.is_on = True

    @property
    def job(self) -> Allocation:
        """The view of a group's job for others: its nodes, and whether it holds them."""
        return self


Shares: TypeAlias = tuple[float, float]
"""Share of requests in SLO, and how far that may be off at 95 % [-]."""


class Cohort:
    """Requests that wait, in the order in which they were asked."""

    __slots__ = ("arrival", "cause", "count", "due", "leaves", "lost", "shares", "span", "work")

    def __init__(self, arrival: float, span: float, count: float) -> None:
        self.arrival, self.span, self.count = arrival, span, count
        """The time of the first request [s], the time over which all came [s], and their number."""
        self.work, self.lost, self.cause = 1.0, 0.0, 0
        """The capacity that a request takes over a usual one, the lost part of it [-], and the cause."""
        self.leaves = math.inf
        """The time at which all give up together [s]; infinite where each has the patience of the service."""
        self.due = math.nan
        """Until when all must go on to be in SLO [s]; NaN where each has time for its first token."""
        self.shares: Shares | None = None
        """The shares of the requests that were in flight."""


class Holder(PlannerJob):
    """A holder of nodes, from its submission to its end, while it waits too.

    Of a named job only what :meth:`of_job` sets is there, and what is about replicas only for those of a service.
    """

    __slots__ = (
        "account", "alive", "allocated", "allocation", "attempts", "began", "broken", "durable", "epoch", "failed_at",
        "failures", "fast", "first", "flight", "flush", "from_busy", "is_cold", "is_exact", "is_serving", "is_stuck",
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
        """The longest run, by its partition and its chain [s]."""
        self.saves = stream.saves[spec.gpus]
        self.save = self.saves.save.of(spec.work)
        """The stall of a save [s]."""
        self.flush = self.save + self.saves.drain
        """The time to make its progress durable before it stops [s]."""
        self.is_exact = stream.exact
        """Whether its limit is what it takes, whatever delays it, and no estimate."""
        self._enter_queue(spec.submit)
        self._begin_progress()

    def _enter_queue(self, submit: float) -> None:
        """Begin to wait for nodes, and to count for how long."""
        self.allocation: Allocation | None = None
        self.attempts = 0
        """The number of starts."""
        self.root = 0
        """The cause of its wait or its restart: index of the root cause; 0 because it arrived."""
        self.via = DIRECT
        self.why = 0
        """Index of the cause that its stages are charged to."""
        self.queued = submit
        """Since when it waits [s]."""
        self.waited = 0.0
        self.first = math.nan
        """The time of the first start [s]."""
        self.began = math.nan
        """The time at which it last got its nodes [s]."""
        self.notice: tuple[int, int] | None = None
        """Root cause and size class of the job that preempts it, while it may still save."""
        self.failures = 0
        self.preempted = 0
        self.epoch = 0
        """Raised at each change of plan; an event that carries an older one is void."""

    def _begin_progress(self) -> None:
        """Begin without work done, saved or lost."""
        self.lost = 0.0
        """Work that stops have undone since then [s]."""
        self.since = math.nan
        """Up to when its nodes have been charged [s]."""
        self.stages: list[tuple[int, float]] = []
        """The stages before it runs on: bucket and end [s]."""
        self.seats: tuple[tuple[int, ...], ...] = ()
        """Nodes that it began with and had after each change, for the log."""
        self.stands = False
        """Whether a failure has stopped it, and it waits with its nodes."""
        self.run_at = math.inf
        """The time at which it runs on [s]."""
        self.saving_at = math.inf
        """The start of the current save in a shared store [s]."""
        self.next_at = math.inf
        """The time of the next event of a job whose saves are shared [s]."""
        self.durable = 0.0
        """Work that is saved [s]."""
        self.run = 0.0
        """The time for which it has held nodes [s]."""
        self.useful = 0.0
        """Stepping whose result was kept [s]."""
        self.lives: list[tuple[float, int, int, SourceInfo]] = []
        """The lives of its processes: due at a running time [s], source, number."""
        self.lived = 0.0
        """The running time of its processes [s]."""
        self.alive = math.inf
        """Since when they run, or from when on they will [s]."""

    def begin_serving(self, service: int, waiting: dict[Holder, None], replicas: int) -> None:
        """Begin as replicas of a service."""
        self.service = service
        """Index of its pool of replicas."""
        self.waiting = waiting
        """The replicas of the pool that are in the queue."""
        self.replicas = replicas
        self.is_serving = self.is_cold = self.is_upgrading = self.is_stuck = False
        self.speed = 1.0
        """The capacity over that of the replicas."""
        self.allocated = self.fast = 0.0
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
        """The time of the last failure [s]."""
        self.flight: list[Cohort] = []
        """The requests that were in flight then, while that is undetected, and that will move."""
        self.joining: list[tuple[Bucket, float, float]] = []
        """The stages of the nodes that load while the others serve, from when to when [s]."""

    @property
    def placed(self) -> Allocation:
        """The nodes of a holder that has some."""
        assert self.allocation is not None, "it has nodes"
        return self.allocation

    @property
    def name(self) -> str:
        """The name in messages."""
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
        return work + saves * self.save if saves > 0 else work

    def time_left(self) -> float:
        """Return how long it will hold its nodes from its next start on, if nothing happens [s]."""
        stream, spec = self.stream, self.spec
        restore = self.saves.restore.of(spec.work) if self.durable > 0 else 0.0
        return stream.restart + restore + self.wall(spec.work - self.durable)

    def stand_still(self, now: float) -> None:
        """Void what it was going to do; its processes run no longer."""
        self.epoch += 1
        if self.alive < now:
            self.lived += now - self.alive
        self.alive = math.inf


# ----------------------------------------
# The state of one named job: what each of its groups is doing, how far its work has come, and where its nodes are.

Segment: TypeAlias = tuple[int, float] | tuple[int, float, int]

"""A bucket, until when time goes to it [s], and the index of its cause if that is not the group's."""


class Footprint:
    """The nodes of a job in each leaf group and in each pool."""

    __slots__ = ("_reach", "network", "pools", "presence")

    def __init__(self, network: FabricView) -> None:
        self.network = network
        self.presence = np.zeros(len(network.pod_of_class), dtype=np.int64)
        """Nodes in each leaf group [-]."""
        self.pools = [0] * (max(network.pool_of_node) + 1)
        """Nodes of each pool [-]."""
        self._reach: Reach | None = None

    def add(self, node: int) -> None:
        """Let a node join."""
        group = self.network.class_of_node[node]
        self.presence[group] += 1
        if self.presence[group] == 1:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] += 1

    def remove(self, node: int) -> None:
        """Let a node leave."""
        group = self.network.class_of_node[node]
        self.presence[group] -= 1
        if self.presence[group] == 0:
            self._reach = None
        self.pools[self.network.pool_of_node[node]] -= 1

    def without(self, nodes: Iterable[int]) -> Footprint:
        """Return a copy in which nodes have left."""
        footprint = Footprint(self.network)
        footprint.presence = self.presence.copy()
        footprint.pools = self.pools.copy()
        for node in nodes:
            footprint.remove(node)
        return footprint

    @property
    def level(self) -> str:
        """The reach of the job's traffic: leaf, pod or cluster."""
        return self.reach.level

    @property
    def reach(self) -> Reach:
        """The reach of the job's traffic."""
        if self._reach is None:
            self._reach = Reach.between(self.presence > 0, self.network.pod_of_class)
        return self._reach


class SilentFault:
    """A silent fault: the nodes that have it, and whether they still do."""

    __slots__ = ("bandwidth", "corrupts", "failure", "is_counted", "is_open", "nodes", "speed")

    def __init__(self, failure: FailureEvent, nodes: tuple[int, ...]) -> None:
        effect = failure.info.source.effect
        self.failure = failure
        self.nodes = nodes
        self.speed = effect.speed
        self.bandwidth = effect.bandwidth_left
        self.corrupts = effect.use in ("corrupt", "spike")
        self.is_open = True
        self.is_counted = False
        """Whether it has been counted as noticed, or as gone."""


@dataclass(slots=True, eq=False)
class Taint:
    """Wrong results in the work of a job: up to where it is sound [s], and whether the job knows."""

    sound: float
    fault: SilentFault
    is_known: bool = False


@dataclass(slots=True, eq=False)
class PendingRepair:
    """A repair of nodes that takes one time, from when somebody knows of the failure and its part is there."""

    failure: FailureEvent
    nodes: Sequence[int]
    seconds: float
    is_known: bool
    has_part: bool
    has_begun: bool = False


_RUN = Run()


@dataclass(slots=True, eq=False)
class ReplicaGroup:
    """Replicas of one job that move through phases together.

    A rigid job has one group. An elastic one has a main group, whose replicas step in lockstep, and one more for
    each replica that is away; so the cost of an event does not grow with the number of replicas.
    """

    replans: ClassVar[Literal[True]] = True
    """Whether the recovery strategy answers a failure; see `HolderPolicy`."""
    job: Job
    replicas: int
    """The number of replicas of this group."""
    since: float
    """Up to when time has been charged [s]."""
    first: int = 0
    """First position of a group that is away; it has the positions of one replica."""
    missing: list[int] = field(default_factory=list)
    """Positions of the job that belong to this group and have no node."""
    ended: list[int] = field(default_factory=list)
    """Positions whose processes ended and whose node is still there, until a plan has answered that."""
    replaced: list[int] = field(default_factory=list)
    """Positions that lost their node to another one at once, until a plan has answered that."""
    joined: list[int] = field(default_factory=list)
    """Nodes that have joined and that nobody has checked yet."""
    cause: int = 0
    """Index of the cause that waiting is charged to."""
    incident: int = 0
    """Index of the cause of the open incident's first failure; 0 when there is none."""
    running: bool = False
    """Whether it stepped when it was last settled; ask `is_running` of any other time."""
    run_at: float = math.inf
    """The time at which waiting turns into running without an event [s]; ``run_step`` is the step that then counts."""
    run_step: Run = _RUN
    detecting: bool = False
    detect_at: float = math.inf
    acquisition: Acquire | None = None
    """The acquisition for which the group waits."""
    segments: list[Segment] = field(default_factory=lambda: [(Bucket.QUEUED, math.inf)])
    """Waiting ahead: bucket and end [s]."""
    plan: Plan = ()
    step: int = 0
    resume: Plan = ()
    """Steps that this group starts again with after a failure while it is away."""
    then: Plan = ()
    """Steps of the main group when this one rejoins."""
    restarts: bool = False
    """Whether the main group takes these steps also if it is about to step."""
    is_ready: bool = False
    """Whether it waits to join the others."""
    epoch: int = 0
    """Raised at each change of plan; an event that carries an older one is void."""
    failure: FailureEvent | None = None
    suspects: list[tuple[int, FailureEvent]] = field(default_factory=list)
    """Nodes that failed and that the job does not know of yet, with the failure."""
    repairs: list[PendingRepair] = field(default_factory=list)
    """Repairs that begin when the group knows of the failure."""
    saves: bool = False
    """Whether the job was notified and saves before it stops."""
    ready_at: float = -math.inf
    """The time at which nodes that had to be prepared are there [s]."""
    called: bool = False
    """Whether the plan has called upon nodes that had to be got ready."""
    has_power: bool = False
    """Whether the power of the site has risen, or rises, for it to step."""
    deferred: list[tuple[int, int, int, float]] = field(default_factory=list)
    """Candidates that wait until its nodes are exposed again: source, slot, round, end."""
    attempt: int = 0
    exposed: Exposure = "none"
    """The parts that can fail now."""
    processes: ExposureClock = field(init=False)
    """Runs while the processes of the job are exposed: lives of the job."""
    occupied: ExposureClock = field(init=False)
    """Runs while its nodes are exposed: when somebody takes them all."""
    busy: ExposureClock = field(init=False)
    """Runs while both are: lives of its nodes that end only with processes on them."""

    def __post_init__(self) -> None:
        self.processes = ExposureClock(self.since, "both", "processes")
        self.occupied = ExposureClock(self.since, "both", "nodes")
        self.busy = ExposureClock(self.since, "both")

    @property
    def gpus(self) -> float:
        """GPUs that this group's part of the job asks for."""
        job = self.job
        return job.gpus if self.replicas == job.replicas else job.gpus * self.replicas / job.replicas

    def is_running(self, now: float) -> bool:
        """Return whether the group steps at `now` [s]; it may not have been settled since it began to."""
        return self.running or self.run_at <= now


@dataclass(slots=True, eq=False)
class Job:
    """A job: its groups, its progress and its account."""

    index: int
    spec: PreparedJob
    arrival: float
    account: Account
    reroutes: bool
    """Whether other replicas do the work of those that are away, stage by stage."""
    redundant: Redundant | None
    """The recovery, if stages leave alone and what is redundant does their work."""
    network: InitVar[FabricView | None]
    name: str = field(init=False)
    gpus: int = field(init=False)
    replicas: int = field(init=False)
    """Sets of replicas that can leave alone, or stages of them."""
    nodes_needed: int = field(init=False)
    nodes_per_replica: int = field(init=False)
    target: float = field(init=False)
    """Healthy seconds of work to do [s]; infinite when the job runs to the horizon."""
    stops_at: float = field(init=False)
    """Work at which the job stops of itself, because it is done or meets a bug [s]."""
    checkpoint: Periodic | MultiLevelCheckpoint = field(init=False)
    waits: bool = field(init=False)
    """Whether it steps more slowly with less bandwidth between nodes."""
    rank_of: list[int] = field(init=False)
    """Place of each position in the order of ranks; empty where they are the same."""
    footprint: Footprint | None = field(init=False)
    """The places of its nodes in the network; ``None`` when that makes no difference."""
    nodes: list[int] = field(init=False)
    """Node at each position, or -1; position // nodes_per_replica is the replica."""
    main: ReplicaGroup = field(init=False)
    state: State = field(init=False)
    unsaved: State = field(init=False)
    """The state before the save with which a plan begins."""
    restoration: Restoration = field(init=False)
    """The state to which the plan goes back."""
    pace: Pace = field(init=False)
    paced_replicas: int = field(init=False)
    """Replicas that `pace` was worked out for."""
    saved_at: float = -math.inf
    """The time at which the save is complete with which a plan begins [s]."""
    narrow: dict[int, list[FailureEvent]] = field(default_factory=dict)
    """Positions whose node steps on with fewer GPUs, and the failures that took them."""
    known_paces: dict[Impairment, float] = field(default_factory=dict)
    """The paces that the step model has stated: it is asked once for each configuration."""
    homes: list[int] = field(default_factory=list)
    """Domain that each position was first packed into; empty when jobs are not packed."""
    holding: bool = False
    """Whether the nodes at the positions are the job's; if not they are idle, and may still be here."""
    away: list[ReplicaGroup] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """Positions whose node has left since the job last stepped: what was kept there is gone."""
    dead: set[int] = field(default_factory=set)
    """Positions whose processes have ended since: their state is gone, what is in memory and on disks is not."""
    unblamed: list[int] = field(default_factory=list)
    """Nodes that have failed since, and were swapped although nobody was blamed."""
    rebooted: set[int] = field(default_factory=set)
    """Positions whose node has started again since."""
    reads: int = 0
    """The number of searches for a checkpoint to go back to."""
    read_from: str = ""
    """Store that the job restores from; nothing while it has not begun to."""
    restores: dict[str, int] = field(default_factory=dict)
    """Restores of the job from each store."""
    given_up: float = math.inf
    """The time of the final failure [s]."""
    accepted: int = 0
    """Faults of which wrong work has stayed, because no copy from before them was left."""
    fraction: float = 1.0
    speed: float = 1.0
    """Pace of the slowest node of the main group [-]."""
    slow_cause: int = 0
    """The cause of the slow-down."""
    evenness: float = 1.0
    """Work of its GPUs over that of as many in a whole job, where fewer replicas keep the batch [-]; may pass 1."""
    taints: list[Taint] = field(default_factory=list)
    """The taints of the work done since, oldest first."""
    live: bool = False
    """Whether the replicas hold the state of training."""
    written_at: float = 0.0
    """Since when it steps; while it does not, up to when its saves have been written [s]."""
    writes_on: bool = False
    """Whether it will step on from the state that its replicas hold, so that these go on with what they save."""
    is_orphaned: bool = False
    """Whether all replicas have left, so that nobody is there whom one could take the state from."""
    memory: Memory = None
    finish_at: float = math.inf
    """The time at which a fixed amount of work is done if nothing disturbs it [s]; infinite while the main group waits.
    """
    looks_at: float = math.inf
    """The time of the event that checks whether it is done [s]."""
    starts: int = 0
    start: float = math.nan
    end: float = math.nan
    finished: bool = False
    running_seconds: float = 0.0
    node_seconds: float = 0.0
    """Time of the nodes that stepped or saved in the main group [node s]."""
    latencies: dict[int, float] = field(default_factory=dict)
    """Drawn detection times of disruptions, by index of the cause [s]."""
    excess: float = 0.0
    """By how much the drawn times of its plans were above the means of their laws [s]."""
    interruptions: dict[int, int] = field(default_factory=dict)
    disruptions: dict[int, int] = field(default_factory=dict)
    merged: int = 0

    def __post_init__(self, network: FabricView | None) -> None:
        spec = self.spec
        self.name, self.gpus, self.nodes_needed, self.target = spec.name, spec.gpus, spec.nodes, spec.target
        self.replicas = self.paced_replicas = spec.parts
        self.nodes_per_replica = spec.nodes // spec.parts
        self.stops_at = spec.target
        plan, communication = spec.plan, spec.communication
        self.waits = plan is not None and plan.uses_network if communication is None else communication > 0
        self.rank_of = sorted(range(len(spec.seats)), key=spec.seats.__getitem__)
        self.footprint = Footprint(network) if network is not None else None
        self.nodes = [-1] * spec.nodes
        self.main = ReplicaGroup(self, spec.parts, self.arrival, missing=list(range(spec.nodes - 1, -1, -1)))
        self.checkpoint = spec.checkpoint
        self.state = self.unsaved = spec.checkpoint.begin
        self.restoration = Restoration(self.state, 0.0)
        self.pace = Pace(1.0, spec.step_time)

    def set_pace(self, fraction: float) -> None:
        """Set the pace of the main group: its share of the replicas, each at `fraction` of what its nodes can do."""
        spec = self.spec
        share = self.main.replicas / self.replicas
        self.evenness = 1.0
        redundant = self.redundant
        keeps = spec.keeps_batch or self.reroutes or redundant is not None
        if redundant is not None:
            work = spec.plan.work if spec.plan is not None else None
            self.evenness = redundant.pace(self.gone, spec.replicas, spec.stages, work) / share
        elif keeps and spec.plan is not None and share < 1:
            work = spec.plan.work
            missing = (self.replicas - self.main.replicas) * (work.data // self.replicas)
            if self.reroutes:
                done = rerouted_pace(work.microbatches, work.pipeline, work.data, missing)
            else:
                # The others' part of the batch grows by whole microbatches, and what a step has but once is shared by
                # more.
                done = self._planned(spec.plan, Impairment(missing=missing, keeps_batch=True))
            self.evenness = done / share
        # With the batch kept, fewer replicas take longer for the same step.
        pace = fraction * self.speed * self.evenness
        stretch = 1 / (share * pace) if keeps else 1 / pace
        self.fraction = fraction
        self.paced_replicas = self.main.replicas
        self.pace = Pace(share * pace, spec.step_time * stretch)

    def pace_at(self, bandwidth: float, speed: float = 1.0) -> float:
        """Return the pace with the narrowest bandwidth and the slowest node [-], relative to what it was planned for.

        Where the scenario states the share c of a step that waits for the network, it is 1 / (1 - c + c / b), or that
        of the slow node if that is less; else the step model tells.
        """
        if self.spec.communication is None and self.spec.plan is not None:
            return self._planned(self.spec.plan, Impairment(compute=speed, network=min(bandwidth, 1.0)))
        return stated_pace(self.spec.communication or 0.0, bandwidth, speed)

    def _planned(self, plan: StepPlan, state: Impairment) -> float:
        """Return the pace that the step model gives, asked once for each state [-]."""
        pace = self.known_paces.get(state)
        if pace is None:
            pace = self.known_paces[state] = plan.pace(state)
        return pace

    @property
    def gone(self) -> tuple[int, ...]:
        """Numbers of the replicas, or stages, that are away."""
        return tuple(group.first // self.nodes_per_replica for group in self.away)

    def suffices(self, step: Acquire) -> bool:
        """Return whether enough replicas are whole for a step that waits for some."""
        if step.unit == "replica" or self.redundant is None:
            return self.main.replicas >= step.wanted
        return self.redundant.stands(self.gone, self.spec.replicas, self.spec.stages)

    @property
    def at_risk(self) -> float:
        """Healthy seconds of work that a failure may still take [s]: not durable yet, or wrong and not known to be."""
        at_risk: float = self.state.at_risk
        return max(at_risk, self.work - self.taints[0].sound) if self.taints else at_risk

    @property
    def work(self) -> float:
        """Healthy seconds of work that survive so far [s]."""
        work: float = self.state.committed + self.state.at_risk
        return work


# ----------------------------------------
# What happened when: the spans and marks of one replication, for those who want to look at it.


class Recorder:
    """Writes down in which phase each group was; stretches that follow on one another become one."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        """Length of the warm-up, from whose end times are counted [s]."""
        self.spans: list[PhaseSpan] = []
        self.marks: list[InstantEvent] = []
        self.milestones: list[Milestone] = []
        self.last: dict[tuple[int, int], int] = {}

    def span(self, group: ReplicaGroup, bucket: int, start: float, end: float, cause: int, name: str = "") -> None:
        """Note that a group was in a phase."""
        job = group.job
        number = 0 if group is job.main else 1 + group.first // job.nodes_per_replica
        key = (job.index, number)
        start, end = start - self.shift, end - self.shift
        index = self.last.get(key, -1)
        if index >= 0:
            before = self.spans[index]
            if before.end == start and (before.bucket, before.cause, before.name) == (bucket, cause, name):
                self.spans[index] = before._replace(end=end)
                return
        self.last[key] = len(self.spans)
        self.spans.append(PhaseSpan(job.index, number, bucket, start, end, cause, name))

    def stepping(self, group: ReplicaGroup, start: float, end: float) -> None:
        """Note that a group stepped, its saves and periodic work included."""
        job = group.job
        if job.speed < 1.0 or job.fraction < 1.0:
            cause = job.slow_cause if job.speed < 1.0 else group.cause
            self.span(group, Bucket.DEGRADED, start, end, cause)
        else:
            away = job.replicas - job.main.replicas
            name = f"step without {away} of {job.replicas} replicas" if away else ""
            self.span(group, Bucket.PRODUCTIVE, start, end, group.cause if away else 0, name)

    def failure(self, time: float, job: Job, failure: FailureEvent) -> None:
        """Note that a failure hit a job."""
        info = failure.info
        mark = InstantEvent(time - self.shift, "failure", job.index, cause=info.cause, text=info.source.name)
        self.marks.append(mark)

    def progress(self, time: float, job: Job) -> None:
        """Note how much of the work of a job survives."""
        self.milestones.append(Milestone(time - self.shift, job.index, job.work))

    def timeline(self) -> Timeline:
        """Return everything."""
        spans = sorted(self.spans, key=lambda span: (span.job, span.group, span.start))
        return Timeline(tuple(spans), tuple(self.marks), tuple(self.milestones))
