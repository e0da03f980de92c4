"""What a job did when, phase by phase, with the training that a rollback threw away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.charts import Phase
from analysis.timeline import STEPPING
from sim import JOB_BUCKETS, units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim import Prepared, Result, Span, Timeline

__all__ = ["DAY", "IN_TRAINING", "phases_of"]

DAY = units.DURATION.units["d"]
_LOST = "lost_work"
_KEPT = tuple(JOB_BUCKETS[bucket] for bucket in STEPPING)
IN_TRAINING = (*_KEPT, _LOST)
"""Buckets of phases in which a job trains, saves included; what was trained last may be lost later."""


def phases_of(prepared: Prepared, result: Result) -> tuple[Phase, ...]:
    """Return what the replicas in step of the first job did, from its arrival to its end; empty if it has no time.

    Of what a rollback threw away only the amount is known, in seconds of healthy training. As much of the training
    before it becomes lost work: exact at the healthy pace, and else a little short.

    Parameters
    ----------
    prepared, result
        A scenario, and a replication of it with its timeline.
    """
    assert result.timeline is not None, "a result with its timeline"
    job = result.jobs[0]
    start, end = max(job.arrival, 0.0), job.end
    spans = _clipped(result.timeline, start, end)
    names = ["", *(source.name for source in prepared.sources)]
    found: list[Phase] = []
    drops = _drops(result.timeline)
    for span in spans:
        while drops and drops[0][0] <= span.start:
            _throw_away(found, drops.pop(0)[1], names[span.cause])
        _append(found, Phase(span.start, span.end, JOB_BUCKETS[span.bucket], names[span.cause]))
    for _, amount in drops:
        _throw_away(found, amount, "")
    return _in_days(found, start)


def _clipped(timeline: Timeline, start: float, end: float) -> list[Span]:
    """Return the spans of the first job's replicas in step, between two times."""
    spans = (
        span._replace(start=max(span.start, start), end=min(span.end, end))
        for span in timeline.spans
        if span.job == 0 and span.group == 0
    )
    return sorted((span for span in spans if span.end > span.start), key=lambda span: span.start)


def _drops(timeline: Timeline) -> list[tuple[float, float]]:
    """Return when work of the first job was thrown away, and how much [healthy s]."""
    found, before = [], 0.0
    for milestone in timeline.milestones:
        if milestone.job == 0:
            if milestone.work < before:
                found.append((milestone.time, before - milestone.work))
            before = milestone.work
    return found


def _throw_away(phases: list[Phase], amount: float, after: str) -> None:
    """Turn the last training, as long as what was thrown away, into lost work.

    Its cause is that of the wait before the rollback, or where the rollback comes at once that of the phase `after`.
    """
    cause = phases[-1].cause if phases and phases[-1].bucket not in IN_TRAINING else after
    index = len(phases) - 1
    while index >= 0 and amount > 0:
        phase = phases[index]
        length = phase.end - phase.start
        if phase.bucket in _KEPT:
            lost = phase._replace(bucket=_LOST, cause=cause)
            if length <= amount:
                phases[index] = lost
            else:
                cut = phase.end - amount
                phases[index : index + 1] = [phase._replace(end=cut), lost._replace(start=cut)]
            amount -= length
        index -= 1


def _append(phases: list[Phase], phase: Phase) -> None:
    """Add a phase; one that goes on with the last becomes one with it."""
    last = phases[-1] if phases else None
    if last is not None and last[1:] == (phase.start, phase.bucket, phase.cause):
        phases[-1] = last._replace(end=phase.end)
    else:
        phases.append(phase)


def _in_days(phases: Sequence[Phase], start: float) -> tuple[Phase, ...]:
    """Return phases with times in days after the arrival; those that are alike and follow on one another as one."""
    found: list[Phase] = []
    for phase in phases:
        _append(found, phase._replace(start=(phase.start - start) / DAY, end=(phase.end - start) / DAY))
    return tuple(found)
