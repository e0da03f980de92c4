"""What one replication did and when: phases of jobs, what happened, and how far the work got."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mark", "Milestone", "Span", "Timeline"]


class Span(NamedTuple):
    """A phase of a group of replicas.

    Parameters
    ----------
    job
        Index of the job.
    group
        0 for the replicas that step in lockstep; for one that is away, 1 + its number.
    bucket
        Bucket that the time was charged to when it passed. Stepping is ``PRODUCTIVE``, or ``DEGRADED`` below the
        healthy pace, with saves and periodic work in it; it stays so when a rollback takes its work away.
    start, end
        Times after the warm-up [s].
    cause
        Cause that the time is charged to: 0 for none, i + 1 for source i.
    name
        What the group does, where the bucket says too little.
    """

    job: int
    group: int
    bucket: int
    start: float
    end: float
    cause: int
    name: str = ""


class Mark(NamedTuple):
    """Something that happened at one time [s after the warm-up]; `job` and `node` are -1 where there is none."""

    time: float
    kind: str
    job: int = -1
    node: int = -1
    cause: int = 0
    text: str = ""


class Milestone(NamedTuple):
    """How much work of a job survives at a time [s after the warm-up, healthy s]; a rollback takes some away."""

    time: float
    job: int
    work: float


class Timeline(NamedTuple):
    """One replication: spans by job, group and time (those of a group do not overlap), the rest by time."""

    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    milestones: tuple[Milestone, ...] = ()
