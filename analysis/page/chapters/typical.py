"""One typical replication as a calendar: when the job trained, when it stood still, and why."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import PERCENT, ends_of, number_of, time_text
from ettrick.analysis.metrics import bucket_label
from ettrick.analysis.page.account import cause_name, of_focus
from ettrick.analysis.page.charts.data import Calendar, CalendarPhase
from ettrick.analysis.page.model import Figure, Section, grid
from ettrick.analysis.timeline import STEPPING
from ettrick.sim import JOB_BUCKETS
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.analysis.page.report_data import ReplayedScenario
    from ettrick.sim import Prepared, Result, Timeline

# ----------------------------------------
# What a job did when, phase by phase, with the training that a rollback threw away.


_LOST = "lost_work"
_KEPT = tuple(JOB_BUCKETS[bucket] for bucket in STEPPING)

# Buckets of phases in which a job trains, saves included; what was trained last may be lost later.
IN_TRAINING = (*_KEPT, _LOST)


def phases_of(prepared: Prepared, result: Result) -> tuple[CalendarPhase, ...]:
    """Return what the replicas in step of the first job did, from its arrival to its end; empty if it has no time.

    Of what a rollback threw away only the amount is known, in seconds of healthy training. As much of the training
    before it becomes lost work: exact at the healthy pace, and else a little short.
    """
    assert result.timeline is not None, "a result with its timeline"
    job = result.jobs[0]
    start = max(job.arrival, 0.0)
    spans = [
        span._replace(start=max(span.start, start), end=min(span.end, job.end))
        for span in result.timeline.spans
        if span.job == 0 and span.group == 0
    ]
    names = ["", *(source.name for source in prepared.sources)]
    found: list[CalendarPhase] = []
    drops = _drops(result.timeline)
    for span in sorted((span for span in spans if span.end > span.start), key=lambda span: span.start):
        while drops and drops[0][0] <= span.start:
            _throw_away(found, drops.pop(0)[1], names[span.cause])
        _append(found, CalendarPhase(span.start, span.end, JOB_BUCKETS[span.bucket], names[span.cause]))
    for _, amount in drops:
        _throw_away(found, amount, "")
    days: list[CalendarPhase] = []
    for phase in found:  # those that are alike and follow on one another become one
        _append(days, phase._replace(start=(phase.start - start) / DAY, end=(phase.end - start) / DAY))
    return tuple(days)


def _drops(timeline: Timeline) -> list[tuple[float, float]]:
    """Return when work of the first job was thrown away, and how much [healthy s]."""
    found, before = [], 0.0
    for milestone in timeline.milestones:
        if milestone.job == 0:
            if milestone.work < before:
                found.append((milestone.time, before - milestone.work))
            before = milestone.work
    return found


def _throw_away(phases: list[CalendarPhase], amount: float, after: str) -> None:
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


def _append(phases: list[CalendarPhase], phase: CalendarPhase) -> None:
    """Add a phase; one that goes on with the last becomes one with it."""
    last = phases[-1] if phases else None
    if last is not None and last[1:] == (phase.start, phase.bucket, phase.cause):
        phases[-1] = last._replace(end=phase.end)
    else:
        phases.append(phase)


_ROWS = (1.0, 7.0, 30.0, 365.0)  # lengths of a row [days]: the shortest is taken that does not need too many rows
_MOST_ROWS = 14
_ROW_NAMES = {1.0: "day", 7.0: "week", 30.0: "30 days", 365.0: "year"}


class Interruption(NamedTuple):
    """A stretch in which a job that had begun to train did not [days], and why (empty: no failure)."""

    start: float
    end: float
    cause: str

    @property
    def length(self) -> float:
        """How long it was [days]."""
        return self.end - self.start


@of_focus
def section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where the job has no time."""
    phases = phases_of(focus.prepared, focus.typical)
    if not phases:
        return None
    days, stops, result, jobs = phases[-1].end, stops_of(phases), focus.typical, focus.prepared.jobs
    longest = time_text(max((stop.length for stop in stops), default=0.0) * DAY)
    title = f"A typical run never stops in {_length(days)}"
    if stops:
        often = f"once, for {longest}" if len(stops) == 1 else f"{len(stops):,} times, for {longest} at most"
        title = f"A typical run of {_length(days)} stops {often}"
    row = min(next((row for row in _ROWS if days <= _MOST_ROWS * row), _ROWS[-1]), days)
    caption = (
        f"Job “{jobs[0].name}” from its arrival to its end, a row for each {_length(row)}. Saves are within training; "
        "the last of the training before a rollback is shown as lost work, as long as what was thrown away."
    )
    lengths: dict[str, list[float]] = {}
    for phase in phases:
        lengths.setdefault(phase.bucket, []).append(phase.end - phase.start)
    times = sorted(((math.fsum(each), bucket, each) for bucket, each in lengths.items()), reverse=True)
    rows = [
        (bucket_label(bucket), time_text(time * DAY), PERCENT.value(time / days), f"{len(each):,}",
         time_text(max(each) * DAY))
        for time, bucket, each in times
    ]  # fmt: skip
    shares = ", ".join(f"{bucket_label(bucket)} {PERCENT.value(time / days)}" for time, bucket, _ in times[:4])
    alt = f"Calendar of {_length(days)}, coloured by what the job does: {shares}."
    heads = ("phase", "in all", "share of the time", "how often", "longest")
    table = grid("What the job did, by phase", heads, rows)
    picture = Figure("a-typical-run", Calendar(title, row, days, phases), alt, caption, table)
    note = f"Of {focus.name}."
    note += f" The other jobs, {number_of(len(jobs) - 1, 'job')}, are not shown." if len(jobs) > 1 else ""
    assert result.timeline is not None
    if any(span.job == 0 and span.group for span in result.timeline.spans):
        note += " Replicas that are away while the others go on training are not shown."
    return Section("a-typical-run", title, tuple(_texts(focus, stops)), (picture,), (note,))


def stops_of(phases: Sequence[CalendarPhase]) -> list[Interruption]:
    """Return when the job stood still after it had begun to train, in order."""
    found = []
    runs = [
        (is_on, list(those)) for is_on, those in itertools.groupby(phases, lambda phase: phase.bucket in IN_TRAINING)
    ]
    for is_on, those in runs[1:]:
        if not is_on:
            cause = next((phase.cause for phase in those if phase.cause), "")
            found.append(Interruption(those[0].start, those[-1].end, cause))
    return found


def _length(days: float) -> str:
    """Return a length in days, or in hours where it is short."""
    return time_text(days * DAY) if days < 1 else _ROW_NAMES.get(days, f"{days:.3g} days")


def _texts(focus: ReplayedScenario, stops: Sequence[Interruption]) -> Iterator[str]:
    """Yield which replication is shown, what counts as a stop, and when the longest stops were, and why."""
    result, mean = focus.typical, focus.document.metrics["ettr"]
    own = sum(float(job.buckets[0]) for job in result.jobs) / sum(job.requested for job in result.jobs)
    text = f"This is replication {result.replication} (the first has number 0)"
    if focus.replications > 1:
        text += f", the middle one by ETTR of the {number_of(focus.replications, 'replication')} simulated again"
    of_all = PERCENT.value(mean.mean or 0.0, ends_of(mean.mean_ci95))
    yield f"{text}. Its ETTR is {PERCENT.value(own)}; the mean of all is {of_all}."
    interruptions = sum(result.jobs[0].interruptions.values())
    if stops or interruptions:
        yield (
            "A stop is a stretch without training, whatever the reason: failures that follow on one another make one "
            "stop, and what is no failure makes one too, such as planned work, or a replica that rejoins. "
            f"Stops of this run: {len(stops):,}. Interruptions by failures: {interruptions:,}."
        )
    if stops:
        named = "; ".join(
            f"{time_text(stop.length * DAY)} from day {stop.start:.1f} ({cause_name(stop.cause) or 'no failure'})"
            for stop in sorted(stops, key=lambda stop: -stop.length)[:3]
        )
        middle = time_text(sorted(stop.length for stop in stops)[len(stops) // 2] * DAY)
        start = f"Half of the stops are over within {middle}. The longest" if stops[1:] else "The only stop"
        yield f"{start}: {named}."
