"""One typical replication as a calendar: when the job trained, when it stood still, and why."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from analysis.cells import number_of, time_text
from analysis.plots.charts import Calendar
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import cause_name, percent, phase_name
from analysis.report.sections.phases import DAY, IN_TRAINING, phases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.plots.charts import Phase
    from analysis.report.focus import Focus
    from analysis.report.material import Material

__all__ = ["Stop", "section", "stops_of"]

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


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
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
    text = ", ".join(f"{phase_name(bucket)} {percent(time / days)}" for bucket, time in shares[:4])
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
        rows.append((phase_name(bucket), time_text(time * DAY), percent(time / days), f"{len(lengths):,}", longest))
    heads = ("in all", "share of the time", "how often", "longest")
    return Grid("What the job did, by phase", (Column("phase", is_number=False), *map(Column, heads)), rows)


def _which(focus: Focus) -> str:
    """Return which replication is shown, and how its ETTR is beside the mean."""
    result = focus.typical
    requested = sum(job.requested for job in result.jobs)
    own = sum(float(job.buckets[0]) for job in result.jobs) / requested
    mean = focus.document["metrics"]["ettr"]
    text = f"This is replication {result.replication} (the first has number 0)"
    if focus.replications > 1:
        text += f", the middle one by ETTR of the {number_of(focus.replications, 'replication')} played again"
    return f"{text}. Its ETTR is {percent(own)}; the mean of all is {percent(mean['mean'], mean['mean_ci95'])}."


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
