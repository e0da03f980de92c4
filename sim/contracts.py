"""What a strategy sees and what it answers.

Strategies are pure: they look at views, which hold what an operator would know (never the hidden truth), and
answer with a plan, a tuple of steps. The engine alone carries a plan out.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.laws import LawModel

__all__ = [
    "ANY_POOL",
    "CLUSTER_BUCKETS",
    "JOB_BUCKETS",
    "NO_FAILURE",
    "Acquire",
    "Background",
    "Bucket",
    "CheckpointState",
    "CheckpointStrategy",
    "ClusterView",
    "Course",
    "FailureView",
    "JobView",
    "LemonPolicy",
    "Memory",
    "NodeView",
    "Pace",
    "Plan",
    "PoolName",
    "QueuedJob",
    "RecoveryStrategy",
    "RepairStrategy",
    "Requeue",
    "Restore",
    "Run",
    "Save",
    "SchedulerStrategy",
    "Stall",
    "Step",
    "Visit",
]

NO_FAILURE = "no_failure"
"""The cause of what would be lost without any failure: first start, saving, queueing, idle nodes."""


class Bucket(IntEnum):
    """Where a GPU-second can land. The first twelve belong to jobs, the rest to nodes outside jobs."""

    PRODUCTIVE = 0
    DEGRADED = 1
    CHECKPOINT_STALL = 2
    LOST_WORK = 3
    DETECTION = 4
    RESCHEDULE = 5
    INITIALIZE = 6
    RESTORE = 7
    STARVED = 8
    QUEUED = 9
    MAINTENANCE = 10
    AUXILIARY = 11
    SPARE_IDLE = 12
    DRAINING = 13
    REPAIR = 14
    QUALIFICATION = 15
    STRANDED = 16
    UNALLOCATED = 17


JOB_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket if bucket <= Bucket.AUXILIARY)
CLUSTER_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket)


# ---------------------------------------------------------------------------------------------- plan steps

PoolName: TypeAlias = Literal["spare", "warm", "idle", "cold"]
ANY_POOL: tuple[PoolName, ...] = ("spare", "warm", "idle", "cold")
"""Where replacements come from, quickest first."""


class Stall(NamedTuple):
    """The group waits; the time goes to `bucket`. `exposed` tells whether failures can hit it meanwhile."""

    bucket: Bucket
    seconds: float
    exposed: bool = True


class Acquire(NamedTuple):
    """Take healthy nodes for those that are missing, or (unit ``replica``) wait until `wanted` replicas are whole.

    ``wanted`` of 0 means all that are missing. Nodes of a pool with a delay are there when it is over. After `timeout`
    seconds [s] without success the plan goes on with `otherwise`; without an `otherwise` it waits. With `fill`, the
    hot spares are filled up from the idle nodes, and from the cold ones too if one of those was needed.
    """

    wanted: int = 0
    unit: Literal["node", "replica"] = "node"
    timeout: float = math.inf
    otherwise: tuple[Any, ...] = ()
    pools: tuple[PoolName, ...] = ANY_POOL
    exposed: bool = True
    fill: bool = False


class Save(NamedTuple):
    """The job, which knows that it has to stop, makes its progress durable first."""

    exposed: bool = True


class Restore(NamedTuple):
    """Go back to the newest step that survives in `tier`; its time goes to the bucket ``restore``.

    The tier ``peer`` is the live state of the other replicas: only the step in flight is lost, at no time of its own.
    """

    tier: str
    exposed: bool = True


class Requeue(NamedTuple):
    """Give every node back and enter the queue again after `delay` [s] (charged to ``reschedule``)."""

    delay: float


class Run(NamedTuple):
    """Step on, at `fraction` of the healthy pace of the groups that are present."""

    fraction: float = 1.0


class Background(NamedTuple):
    """The replicas that lost a node leave the others, run `steps` on their own, then rejoin.

    While they rejoin, the others run through the steps of `then`.
    """

    steps: tuple[Any, ...]
    then: tuple[Any, ...] = ()


Step: TypeAlias = Stall | Acquire | Save | Restore | Requeue | Run | Background
Plan: TypeAlias = tuple[Step, ...]
Memory: TypeAlias = Any
"""A frozen value that a strategy keeps per job; ``None`` at the start."""


# --------------------------------------------------------------------------------------------------- views


class FailureView(NamedTuple):
    """What an operator knows of a failure once it is detected."""

    cause: str
    planned: bool
    nodes_lost: int
    replicas_lost: int
    mark: Callable[[str], float]
    """``mark(purpose)`` is a uniform number in (0, 1) that belongs to this failure and purpose."""


class JobView(NamedTuple):
    """What a strategy may know of the job."""

    name: str
    time: float
    nodes: int
    nodes_missing: int
    replicas: int
    replicas_running: int
    live: bool
    """Whether the surviving replicas still hold the state of training."""
    attempt: int
    """How many plans this incident has seen, this one included."""
    mark: Callable[[str], float]
    """Uniform numbers that belong to this start of the job, for starts without a failure."""


class ClusterView(NamedTuple):
    """What a strategy may know of the cluster."""

    spares: int
    idle: int


class NodeView(NamedTuple):
    """What is known of a node that is blamed for a failure."""

    time: float
    cause: str
    tier: str
    """Where repair begins: the name of a tier, or nothing for the first."""
    uptime: float
    """How long the node has been up since it last came back [s]."""
    mark: Callable[[str], float]
    """Uniform numbers that belong to this failure."""


class QueuedJob(NamedTuple):
    """A job that waits for nodes."""

    name: str
    nodes: int
    since: float


# ---------------------------------------------------------------------------------------------- checkpoint


class Pace(NamedTuple):
    """How fast a group steps.

    ``rate`` [-] is healthy seconds of work gained in a second of stepping; ``step`` [s] is the wall time of one
    step (0: continuous progress).
    """

    rate: float
    step: float = 0.0


class CheckpointState(NamedTuple):
    """Progress in healthy seconds of work; positions in seconds of wall time.

    ``committed`` is durable, ``at_risk`` is not. The group has stepped for ``position`` since the last save, and is in
    the stall of a save when ``stall_left`` is above zero. ``draining`` of the work at risk is on its way to the store
    and becomes durable in ``drain_left``.
    """

    committed: float = 0.0
    at_risk: float = 0.0
    position: float = 0.0
    draining: float = 0.0
    drain_left: float = 0.0
    stall_left: float = 0.0


class CheckpointStrategy(Protocol):
    """Closed-form progress between events. Tested by the harness ``check_checkpoint``."""

    def advance(self, state: CheckpointState, pace: Pace, seconds: float) -> tuple[CheckpointState, float]:
        """Return the state after `seconds` of RUNNING, and how many of them were spent stepping [s]."""
        ...

    def time_to(self, state: CheckpointState, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` more healthy seconds have been done."""
        ...

    def roll_back(self, state: CheckpointState, tier: str, pace: Pace) -> CheckpointState:
        """Return the state after going back to what `tier` holds."""
        ...

    def restore_time(self, state: CheckpointState, tier: str) -> float:
        """Return how long it takes to load `state` from `tier` [s]."""
        ...

    def save_time(self) -> float:
        """Return how long it takes to save and wait until that is durable [s]."""
        ...


class RecoveryStrategy(Protocol):
    """From a failure to a plan. Tested by the harness ``check_recovery``."""

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        ...

    def expected_times(self) -> tuple[float, float] | None:
        """Return the mean times [s] in which failures cannot and can hit the job before it restores.

        ``None`` when the closed form of a restart does not describe the strategy.
        """
        ...

    def start(self, job: JobView) -> Plan:
        """Return what happens between the allocation of nodes and the first step."""
        ...

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Return what to do now that the failure is known."""
        ...


class SchedulerStrategy(Protocol):
    """From a queue to the jobs that start now. Tested by the harness ``check_scheduler``."""

    @property
    def pick(self) -> str:
        """Which of the nodes that wait are taken first."""
        ...

    @property
    def pack(self) -> str | None:
        """Domain that jobs are packed into, if any."""
        ...

    def select(self, queue: tuple[QueuedJob, ...], free: int) -> tuple[int, ...]:
        """Return the positions in `queue` of the jobs to start, given `free` nodes."""
        ...


# ------------------------------------------------------------------------------------------------- repair


class Visit(NamedTuple):
    """A stay in one tier of repair, or in qualification (tier -1)."""

    tier: int
    seconds: float


class Course(NamedTuple):
    """What repair will do to a node, all of it: the stays one after another, and how it ends.

    ``fixed`` tells whether the fault is gone, which nobody knows; ``retires`` whether the node is given up.
    """

    visits: tuple[Visit, ...]
    fixed: bool
    retires: bool = False


class LemonPolicy(Protocol):
    """From the blames of a node to the decision that it is a lemon. Tested by the harness ``check_lemons``."""

    def blame(self, memory: Memory, time: float, uptime: float) -> tuple[Memory, bool]:
        """Return what to remember of a blame at `time` [s] after `uptime` [s], and whether the node is a lemon now."""
        ...

    def score(self, memory: Memory) -> float:
        """Return how good a node looks; higher is better."""
        ...


class RepairStrategy(Protocol):
    """What becomes of a node that is blamed for a failure. Tested by the harness ``check_repair``."""

    @property
    def single_time(self) -> LawModel | None:
        """Law of the repair time, if there is nothing else to it: then it is that of shared parts too."""
        ...

    @property
    def success(self) -> float:
        """Probability that a node comes back without the fault [-]."""
        ...

    @property
    def crews(self) -> tuple[int | None, ...]:
        """Nodes that each tier can work on at once; ``None`` for any number."""
        ...

    @property
    def replacement(self) -> LawModel | None:
        """Law of the time until a retired node is replaced, if it ever is."""
        ...

    def diagnose(self, mark: Callable[[str], float]) -> Literal["right", "other", "none"]:
        """Return which node is blamed: the one that failed, another one of the job, or none."""
        ...

    def course(self, node: NodeView, memory: Memory) -> tuple[Course, Memory]:
        """Return what repair does to a node, given what is remembered of it (``None`` at the start)."""
        ...

    def score(self, memory: Memory) -> float:
        """Return how good a node looks; higher is better."""
        ...
