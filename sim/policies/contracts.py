"""The view that a strategy gets, and the answer that it gives.

Strategies are pure: they look at views, which hold what an operator would know (never the hidden truth), and
answer with a plan, a tuple of steps. The engine alone carries a plan out.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


# What a checkpoint strategy is asked, and what it answers.


class Pace(NamedTuple):
    """The pace of a group.

    ``rate`` [-] is healthy seconds of work done in a second of stepping; ``step`` [s] is the wall time of one
    step (0: continuous progress).
    """

    rate: float
    step: float = 0.0


State: TypeAlias = Any

"""The state of a checkpoint strategy: what is `committed` and `at_risk` [s of healthy work], and what is its own."""


class CheckpointState(NamedTuple):
    """Progress in healthy seconds of work; positions in seconds of wall time.

    ``committed`` is durable, ``at_risk`` is not. The group has stepped for ``position`` since the last save, and is in
    the stall of a save when ``stall_left`` is above zero. ``draining`` of the work at risk is on its way to the store
    and becomes durable in ``drain_left``. ``is_first`` says whether no save has begun since the last start.
    """

    committed: float = 0.0
    at_risk: float = 0.0
    position: float = 0.0
    draining: float = 0.0
    drain_left: float = 0.0
    stall_left: float = 0.0
    is_first: bool = True


class Damage(NamedTuple):
    """The damage to the nodes of a job since it last stepped.

    Parameters
    ----------
    keeps
        What the plan keeps of the nodes that have not failed.
    lost
        Positions whose node has left the job, with everything on it.
    rebooted
        Positions whose node has started anew: its memory is gone, its disks are not.
    live
        Whether some replica has lost nothing and still holds the state of training.
    """

    keeps: Keeps
    lost: frozenset[int] = frozenset()
    rebooted: frozenset[int] = frozenset()
    live: bool = False


class Restoration(NamedTuple):
    """A restore: the state afterwards, its time [s], and the store that it is read from."""

    state: State
    seconds: float
    store: str = ""


# Where time can land, and what can break, by name.

NO_FAILURE = "no_failure"

"""The cause of what would be lost without any failure: first start, saving, queueing, idle nodes."""


class Bucket(IntEnum):
    """The bucket of a GPU-second: buckets of jobs, those of nodes outside them, and one of services alone.

    Those of jobs come first, up to `GIVEN_UP`: a new one goes before it, and what follows is numbered again.
    """

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
    WRONG_WORK = 12
    GIVEN_UP = 13
    SPARE_IDLE = 14
    REPAIR = 15
    QUALIFICATION = 16
    STRANDED = 17
    UNALLOCATED = 18
    HEADROOM = 19


JOB_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket if bucket <= Bucket.GIVEN_UP)

SCHEDULING = (Bucket.RESCHEDULE, Bucket.STARVED, Bucket.QUEUED, Bucket.GIVEN_UP)

"""The buckets of a job that waits for nodes, or has none for good."""

CLUSTER_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket)

FAULTS: dict[str, str] = {
    "process": "a process ends with an error: CUDA error, bug, lost dependency",
    "gpu": "a GPU is lost or has uncontained memory errors",
    "driver": "driver, GSP or firmware hangs",
    "host": "kernel panic, power, reboot: the node is gone",
    "nic": "a NIC or its cable is down",
    "switch": "a switch, or the cables behind it, is down",
    "hang": "a collective hangs and which node it is is unknown",
    "slow": "a node or its network is slow",
    "corrupt": "a node computes wrongly and says nothing",
    "spike": "the loss leaves its course, for no fault of the hardware",
    "storage": "the store of checkpoints cannot be reached",
    "planned": "somebody stops the job",
}

"""Classes of faults, by what those who watch can see of them: who detects a fault, and when, depends on its class."""

OF_ONE_RANK = frozenset({"process", "gpu", "driver", "host", "nic"})

"""Classes of faults that strike one rank: replicas that can do without it may go on."""


# What a strategy answers: a plan, a tuple of steps. The engine alone carries it out.

PoolName: TypeAlias = Literal["spare", "warm", "idle", "cold"]

ANY_POOL: tuple[PoolName, ...] = ("spare", "warm", "idle", "cold")

"""The pools of replacements, quickest first."""

Exposure: TypeAlias = Literal["both", "processes", "nodes", "none"]

"""The parts that can fail in a phase: the processes of the job (sources of ``use: job``), its nodes, both or none.

Where nodes alone are exposed no process runs on them, and they are hit like idle ones: at their idle hazard, while
their lives on the clock ``busy`` stand still.
"""


class Stall(NamedTuple):
    """The group waits; the time goes to `bucket`. `exposed` says who can fail meanwhile.

    ``excess`` is by how much a drawn time is above the mean of its law [s]: its random part. ``cause`` is the index of
    the source that is charged; 0 charges the failure that restarted the group.
    """

    bucket: Bucket
    seconds: float
    exposed: Exposure = "both"
    excess: float = 0.0
    cause: int = 0


class Acquire(NamedTuple):
    """Take healthy nodes for those that are missing, or (unit ``replica``) wait until `wanted` replicas are whole.

    With the unit ``copies`` a group waits until those that are whole can do the work of all that are away.

    ``wanted`` of 0 means all that are missing. Nodes of a pool with a delay are there when it is over. After `timeout`
    seconds [s] without success the plan goes on with `otherwise`, and the strategy remembers `memory` if there is one;
    without an `otherwise` the group waits. With `fill`, the hot spares are filled up from the idle nodes, and from the
    cold ones too if one of those was needed. The wait is charged to `bucket`. While a group waits for nodes no process
    runs, so only the nodes that it holds can be exposed.
    """

    wanted: int = 0
    unit: Literal["node", "replica", "copies"] = "node"
    timeout: float = math.inf
    otherwise: Plan = ()
    pools: tuple[PoolName, ...] = ANY_POOL
    exposed: Literal["both", "nodes", "none"] = "nodes"
    fill: bool = False
    memory: Memory = None
    bucket: Bucket = Bucket.STARVED


class Save(NamedTuple):
    """The job, which knows that it has to stop, makes its progress durable first."""

    exposed: Exposure = "both"


Keeps: TypeAlias = Literal["live", "processes", "hosts", "stores"]

"""The state of training that remains on the nodes that have not failed, most first.

``live``
    The surviving replicas go on with what they hold; only the step in flight is lost.
``processes``
    The processes are still there: a replica that has not failed can hand its state to the others.
``hosts``
    The job still has its nodes, with what is in their memory and on their disks.
``stores``
    Only what is outside the nodes.
"""


class Restore(NamedTuple):
    """Go back to the newest step that survives, given what the plan `keeps`; its time goes to the bucket ``restore``.

    What is ``live`` needs no time of its own.
    """

    keeps: Keeps = "hosts"
    exposed: Exposure = "both"


class Evict(NamedTuple):
    """Take healthy nodes out of the job too, with those that failed, and test them for `seconds` [s].

    They are the `nodes` positions in a row that hold the first one which failed, or the first of the job if none did.
    """

    nodes: int
    seconds: float


class Requeue(NamedTuple):
    """Give every node back and enter the queue again after `delay` [s] (charged to ``reschedule``).

    For ``excess`` see :class:`Stall`.
    """

    delay: float = 0.0
    excess: float = 0.0


class Run(NamedTuple):
    """Step on, at `fraction` of the healthy pace of the groups that are present."""

    fraction: float = 1.0


class Background(NamedTuple):
    """The replicas that lost a node leave the others, run `steps` on their own, then rejoin.

    While they rejoin, the others run through the steps of `then`: if they step or save, and with `restarts` also if
    they are about to, because who is back has no processes then.
    """

    steps: Plan
    then: Plan = ()
    restarts: bool = False


Step: TypeAlias = Stall | Acquire | Evict | Save | Restore | Requeue | Run | Background

Plan: TypeAlias = tuple[Step, ...]

Memory: TypeAlias = Any

"""A frozen value that a strategy keeps per job; ``None`` at the start."""


BLAME_DRAWS = 64

"""The most draws of another node to be blamed for a failure."""


class RepairStage(NamedTuple):
    """A stay in one tier of repair, or in qualification (tier -1)."""

    tier: int
    seconds: float


class RepairPlan(NamedTuple):
    """The whole repair of a node: the stays one after another, and its end.

    ``fixed`` says whether the fault is gone, which is unknown to the policy; ``retires`` whether the node is given up.
    """

    visits: tuple[RepairStage, ...]
    fixed: bool
    retires: bool = False


# What a strategy sees: what an operator would know, never the hidden truth.


class FailureView(NamedTuple):
    """A failure as an operator knows it once it is detected."""

    cause: str
    planned: bool
    nodes_lost: int
    replicas_lost: int
    mark: Callable[[str], float]
    """``mark(purpose)`` is a uniform number in (0, 1) that belongs to this failure and purpose."""
    fault: str = "process"
    """Class of the fault, one of :data:`FAULTS`."""
    lost: tuple[int, ...] = ()
    """The stages that it took, numbered replica by replica; of strategies by which stages leave alone."""
    stops_all: bool = False
    """Whether a fault that strikes all ranks is among those that are known now, and took no node."""


class JobView(NamedTuple):
    """The job as a strategy may know it."""

    name: str
    time: float
    nodes: int
    nodes_missing: int
    replicas: int
    replicas_running: int
    live: bool
    """Whether the surviving replicas still hold the state of training."""
    attempt: int
    """The number of plans for this incident, this one included."""
    mark: Callable[[str], float]
    """Uniform numbers that belong to this start of the job, for starts without a failure."""
    gpus: int = 0
    work: float = 0.0
    """Healthy seconds of work that were done when the plan was asked for, durable or not [s]."""
    first_lost: bool = False
    """Whether the node of rank 0 is among those that failed."""
    narrowed: tuple[tuple[int, int], ...] = ()
    """Domains that step on with fewer GPUs, and how many each has lost; of strategies that keep them."""
    starts: int = 0
    """The number of times that the job was given its nodes."""
    stages: int = 1
    """Stages of a replica that leave alone; then `replicas` counts stages."""
    away: tuple[int, ...] = ()
    """The replicas that were away before the failure."""
    missing: tuple[int, ...] = ()
    """Positions that have no node."""
    first: int = 0
    """Position of rank 0."""

    def evicted(self, nodes: int) -> range:
        """Return the positions that leave together: `nodes` in a row, the first that misses a node among them."""
        first = min(self.missing, default=0) // nodes * nodes
        return range(first, min(first + nodes, self.nodes))

    def after_eviction(self, nodes: int) -> JobView:
        """Return the view when so many nodes in a row have left."""
        leaving = self.evicted(nodes)
        missing = tuple({*self.missing, *leaving})
        count = max(self.nodes_missing, len(missing))
        return self._replace(nodes_missing=count, missing=missing, first_lost=self.first_lost or self.first in leaving)


class ClusterView(NamedTuple):
    """The cluster as a strategy may know it."""

    spares: int
    idle: int


class NodeView(NamedTuple):
    """A node that is blamed for a failure, as far as it is known."""

    time: float
    cause: str
    tier: str
    """The tier where repair begins: its name, or nothing for the first."""
    uptime: float
    """The time since the node last returned to service [s]."""
    mark: Callable[[str], float]
    """Uniform numbers that belong to this failure."""
