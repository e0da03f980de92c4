"""What happened when: the spans and marks of one replication, for those who want to look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.contracts import Bucket
from sim.timeline import Mark, Milestone, Span, Timeline

if TYPE_CHECKING:
    from sim.engine.failure import Failure
    from sim.job import Group, Job

__all__ = ["Recorder"]


class Recorder:
    """Writes down in which phase each group was; stretches that follow on one another become one."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        """Length of the warm-up, from whose end times are counted [s]."""
        self.spans: list[Span] = []
        self.marks: list[Mark] = []
        self.milestones: list[Milestone] = []
        self.last: dict[tuple[int, int], int] = {}

    def span(self, group: Group, bucket: int, start: float, end: float, cause: int, name: str = "") -> None:
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
        self.spans.append(Span(job.index, number, bucket, start, end, cause, name))

    def stepping(self, group: Group, start: float, end: float) -> None:
        """Note that a group stepped, its saves and periodic work included."""
        job = group.job
        if job.speed < 1.0 or job.fraction < 1.0:
            cause = job.slow_cause if job.speed < 1.0 else group.cause
            self.span(group, Bucket.DEGRADED, start, end, cause)
        else:
            away = job.replicas - job.main.replicas
            name = f"step without {away} of {job.replicas} replicas" if away else ""
            self.span(group, Bucket.PRODUCTIVE, start, end, group.cause if away else 0, name)

    def failure(self, time: float, job: Job, failure: Failure) -> None:
        """Note that a failure hit a job."""
        info = failure.info
        mark = Mark(time - self.shift, "failure", job.index, cause=info.cause, text=info.source.name)
        self.marks.append(mark)

    def progress(self, time: float, job: Job) -> None:
        """Note how much of the work of a job survives."""
        self.milestones.append(Milestone(time - self.shift, job.index, job.work))

    def timeline(self) -> Timeline:
        """Return everything."""
        spans = sorted(self.spans, key=lambda span: (span.job, span.group, span.start))
        return Timeline(tuple(spans), tuple(self.marks), tuple(self.milestones))
