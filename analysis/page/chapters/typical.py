"""One typical replication as a calendar: when the job trained, when it stood still, and why."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from analysis.amounts import PERCENT, ends_of, number_of, time_text
from analysis.metrics import bucket_label
from analysis.page.account import cause_name
from analysis.page.charts.data import Calendar, Phase
from analysis.page.model import Column, Grid, Picture, Section
from analysis.timeline import STEPPING
from sim import JOB_BUCKETS
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.page.report_data import Focus, ReportData
    from sim import Prepared, Result, Span, Timeline

# ----------------------------------------
# What a job did when, phase by phase, with the training that a rollback threw away.


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


_ROWS = (1.0, 7.0, 30.0, 365.0)

"""Lengths of a row [days]: the shortest is taken that does not need too many rows."""

_MOST_ROWS = 14

_ROW_NAMES = {1.0: "day", 7.0: "week", 30.0: "30 days", 365.0: "year"}


class Stop(NamedTuple):
    """A stretch in which a job that had begun to train did not [days], and why (empty: no failure)."""

    start: float
    end: float
    cause: str

    @property
    def length(self) -> float:
        """How long it was [days]."""
        return self.end - self.start


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    phases = () if focus is None else phases_of(focus.prepared, focus.typical)
    if focus is None or not phases:
        return None
    days = phases[-1].end
    stops = stops_of(phases)
    title = _title(days, stops)
    row = next((row for row in _ROWS if days <= _MOST_ROWS * row), _ROWS[-1])
    chart = Calendar(title, min(row, days), days, phases)
    job = focus.prepared.jobs[0].name
    caption = (
        f"Job “{job}” from its arrival to its end, a row for each {_length(chart.row_days)}. Saves are within "
        "training; the last of the training before a rollback is shown as lost work, as long as what was thrown away."
    )
    picture = Picture("a-typical-run", chart, _alt(phases, days), caption, _table(phases, days))
    text = (_which(focus), *_counted(focus, len(stops)), *_longest(stops))
    return Section("a-typical-run", title, text, (picture,), _notes(focus))


def stops_of(phases: Sequence[Phase]) -> list[Stop]:
    """Return when the job stood still after it had begun to train, in order."""
    found = []
    runs = [
        (is_on, list(those)) for is_on, those in itertools.groupby(phases, lambda phase: phase.bucket in IN_TRAINING)
    ]
    for is_on, those in runs[1:]:
        if not is_on:
            cause = next((phase.cause for phase in those if phase.cause), "")
            found.append(Stop(those[0].start, those[-1].end, cause))
    return found


def _title(days: float, stops: Sequence[Stop]) -> str:
    if not stops:
        return f"A typical run never stops in {_length(days)}"
    longest = max(stop.length for stop in stops) * DAY
    if len(stops) == 1:
        return f"A typical run of {_length(days)} stops once, for {time_text(longest)}"
    return f"A typical run of {_length(days)} stops {len(stops):,} times, for {time_text(longest)} at most"


def _length(days: float) -> str:
    """Return a length in days, or in hours where it is short."""
    if days < 1:
        return time_text(days * DAY)
    if days in _ROW_NAMES:
        return _ROW_NAMES[days]
    return f"{days:.3g} days"


def _alt(phases: Sequence[Phase], days: float) -> str:
    """Return what is to be seen: how much of the time is which phase."""
    shares = sorted(_times(phases).items(), key=lambda item: -item[1])
    text = ", ".join(f"{bucket_label(bucket)} {PERCENT.value(time / days)}" for bucket, time in shares[:4])
    return f"Calendar of {_length(days)}, coloured by what the job does: {text}."


def _times(phases: Sequence[Phase]) -> dict[str, float]:
    """Return how long each phase takes in all [days]."""
    return {
        bucket: math.fsum(phase.end - phase.start for phase in phases if phase.bucket == bucket)
        for bucket in dict.fromkeys(phase.bucket for phase in phases)
    }


def _table(phases: Sequence[Phase], days: float) -> Grid:
    """Return how long, how often, and how long at most the job was in each phase."""
    rows = []
    for bucket, time in sorted(_times(phases).items(), key=lambda item: -item[1]):
        lengths = [phase.end - phase.start for phase in phases if phase.bucket == bucket]
        longest = time_text(max(lengths) * DAY)
        rows.append(
            (bucket_label(bucket), time_text(time * DAY), PERCENT.value(time / days), f"{len(lengths):,}", longest)
        )
    heads = ("in all", "share of the time", "how often", "longest")
    return Grid("What the job did, by phase", (Column("phase", is_number=False), *map(Column, heads)), rows)


def _which(focus: Focus) -> str:
    """Return which replication is shown, and how its ETTR is beside the mean."""
    result = focus.typical
    requested = sum(job.requested for job in result.jobs)
    own = sum(float(job.buckets[0]) for job in result.jobs) / requested
    mean = focus.document.metrics["ettr"]
    text = f"This is replication {result.replication} (the first has number 0)"
    if focus.replications > 1:
        text += f", the middle one by ETTR of the {number_of(focus.replications, 'replication')} played again"
    of_all = PERCENT.value(mean.mean or 0.0, ends_of(mean.mean_ci95))
    return f"{text}. Its ETTR is {PERCENT.value(own)}; the mean of all is {of_all}."


def _counted(focus: Focus, stops: int) -> tuple[str, ...]:
    """Return what counts as a stop, beside how often failures interrupted the job."""
    interruptions = sum(focus.typical.jobs[0].interruptions.values())
    if not stops and not interruptions:
        return ()
    return (
        "A stop is a stretch without training, whatever the reason: failures that follow on one another make one stop, "
        "and what is no failure makes one too, such as planned work, or a replica that comes back. "
        f"Stops of this run: {stops:,}. Interruptions by failures: {interruptions:,}.",
    )


def _longest(stops: Sequence[Stop]) -> tuple[str, ...]:
    """Return when the longest stops were, and why."""
    if not stops:
        return ()
    named = [
        f"{time_text(stop.length * DAY)} from day {stop.start:.1f} ({cause_name(stop.cause) or 'without a failure'})"
        for stop in sorted(stops, key=lambda stop: -stop.length)[:3]
    ]
    middle = sorted(stop.length for stop in stops)[len(stops) // 2] * DAY
    text = (
        "The only stop: "
        if len(stops) == 1
        else f"Half of the stops are over within {time_text(middle)}. The longest: "
    )
    return (f"{text}{'; '.join(named)}.",)


def _notes(focus: Focus) -> tuple[str, ...]:
    """Return what the calendar leaves out."""
    found = [f"Of {focus.name}."]
    jobs = focus.prepared.jobs
    if len(jobs) > 1:
        found.append(f"The other jobs, {number_of(len(jobs) - 1, 'job')}, are not shown.")
    timeline = focus.typical.timeline
    assert timeline is not None
    if any(span.job == 0 and span.group for span in timeline.spans):
        found.append("Replicas that are away while the others go on training are not shown.")
    return tuple(found)
