"""What a strategy answers: a plan, a tuple of steps. The engine alone carries it out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from sim.contracts.ledger import Bucket

__all__ = [
    "ANY_POOL",
    "Acquire",
    "Background",
    "Evict",
    "Exposure",
    "Keeps",
    "Memory",
    "Plan",
    "PoolName",
    "Requeue",
    "Restore",
    "Run",
    "Save",
    "Stall",
    "Step",
]

PoolName: TypeAlias = Literal["spare", "warm", "idle", "cold"]
ANY_POOL: tuple[PoolName, ...] = ("spare", "warm", "idle", "cold")
"""Where replacements come from, quickest first."""

Exposure: TypeAlias = Literal["both", "processes", "nodes", "none"]
"""Who can fail in a phase: the processes of the job (sources of ``use: job``), the nodes that it holds, both or none.

Where nodes alone are exposed no process runs on them, and they are hit like idle ones: at their idle hazard, while
their lives on the clock ``busy`` stand still.
"""


class Stall(NamedTuple):
    """The group waits; the time goes to `bucket`. `exposed` tells who can fail meanwhile.

    ``excess`` is by how much a drawn time is above the mean of its law [s]: what luck has to do with it.
    """

    bucket: Bucket
    seconds: float
    exposed: Exposure = "both"
    excess: float = 0.0


class Acquire(NamedTuple):
    """Take healthy nodes for those that are missing, or (unit ``replica``) wait until `wanted` replicas are whole.

    ``wanted`` of 0 means all that are missing. Nodes of a pool with a delay are there when it is over. After `timeout`
    seconds [s] without success the plan goes on with `otherwise`; without an `otherwise` it waits. With `fill`, the
    hot spares are filled up from the idle nodes, and from the cold ones too if one of those was needed. While the group
    waits no process runs, so only the nodes that it holds can be exposed.
    """

    wanted: int = 0
    unit: Literal["node", "replica"] = "node"
    timeout: float = math.inf
    otherwise: tuple[Any, ...] = ()
    pools: tuple[PoolName, ...] = ANY_POOL
    exposed: Literal["nodes", "none"] = "nodes"
    fill: bool = False


class Save(NamedTuple):
    """The job, which knows that it has to stop, makes its progress durable first."""

    exposed: Exposure = "both"


Keeps: TypeAlias = Literal["live", "processes", "hosts", "stores"]
"""What is left of the state of training on the nodes that have not failed, most first.

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

    delay: float
    excess: float = 0.0


class Run(NamedTuple):
    """Step on, at `fraction` of the healthy pace of the groups that are present."""

    fraction: float = 1.0


class Background(NamedTuple):
    """The replicas that lost a node leave the others, run `steps` on their own, then rejoin.

    While they rejoin, the others run through the steps of `then`.
    """

    steps: tuple[Any, ...]
    then: tuple[Any, ...] = ()


Step: TypeAlias = Stall | Acquire | Evict | Save | Restore | Requeue | Run | Background
Plan: TypeAlias = tuple[Step, ...]
Memory: TypeAlias = Any
"""A frozen value that a strategy keeps per job; ``None`` at the start."""
