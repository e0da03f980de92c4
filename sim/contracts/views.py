"""What a strategy sees: what an operator would know, never the hidden truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ClusterView",
    "FailureView",
    "JobView",
    "NodeView",
    "QueuedJob",
]


class FailureView(NamedTuple):
    """What an operator knows of a failure once it is detected."""

    cause: str
    planned: bool
    nodes_lost: int
    replicas_lost: int
    mark: Callable[[str], float]
    """``mark(purpose)`` is a uniform number in (0, 1) that belongs to this failure and purpose."""
    fault: str = "process"
    """Class of the fault, one of :data:`FAULTS`."""


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
    gpus: int = 0
    work: float = 0.0
    """Healthy seconds of work that were done when the plan was asked for, durable or not [s]."""
    first_lost: bool = False
    """Whether the node of rank 0 is among those that failed."""
    narrowed: tuple[tuple[int, int], ...] = ()
    """Domains that step on with fewer GPUs, and how many each has lost; of strategies that keep them."""
    starts: int = 0
    """How often the job has been given its nodes."""


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
