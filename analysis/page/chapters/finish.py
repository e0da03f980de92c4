"""The times at which the runs of a study were finished, and the share of runs finished by each date."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import PERCENT, capital, number_of
from ettrick.analysis.page.cells import axes_of
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.model import Column, Figure, Section, table_of
from ettrick.analysis.statistics.intervals import binomial_interval
from ettrick.analysis.study.amounts import evenly
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.analysis.page.cells import ChosenAxis
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.results.studies import SweepDocument

METRIC = "time_to_work"


class Sample(NamedTuple):
    """A sample of finishing times."""

    name: str  # what the curve is called
    times: tuple[float, ...]  # time from arrival to the end of the work, of those that were finished [s], ascending
    runs: int  # how many there were, unfinished ones too

    def chance(self, time: float) -> float:
        """Return the share of runs that were finished by a time [s]."""
        return bisect.bisect_right(self.times, time) / self.runs

    def by(self, share: float) -> float | None:
        """Return the first time by which a share of the runs was finished [s]; ``None`` if it was after the horizon."""
        needed = max(math.ceil(share * self.runs - 1e-9), 1)
        return self.times[needed - 1] if needed <= len(self.times) else None


def chance_curve(sample: Sample, begin: float, end: float, hue: int) -> Series:
    """Return the empirical distribution of the end of the work: at each time the share of runs finished by it.

    Runs that were unfinished at the horizon count as not finished, so that the curve never reaches 100 % with them. It
    begins and ends where it is said to [s].
    """
    times = list(dict.fromkeys(sample.times))
    places = [begin, *times] if not times or times[0] > begin else times
    places += [end] if not times or times[-1] < end else []
    heights = tuple(100 * sample.chance(place) for place in places)
    return Series(sample.name, tuple(place / DAY for place in places), heights, look="step", hue=hue)


def samples_along(
    rows: Sequence[Mapping[str, str]], axis: ChosenAxis | None, fixed: Mapping[str, str], *, drawn: bool
) -> list[Sample]:
    """Return when runs of a study were finished, one sample for each value of an axis.

    Without an axis it is one sample of all. `fixed` are values of the other axes by column; `drawn` takes the draws of
    unknown inputs, not their central values. An empty time is that of a run that was not finished.
    """
    times_by_label: dict[str, list[str]] = {}
    for row in rows:
        if (row["draw"] != "0") == drawn and all(row[name] == label for name, label in fixed.items()):
            label = "all runs" if axis is None else row[column_of(row, axis.name)]
            times_by_label.setdefault(label, []).append(row[METRIC])
    names = {label: label if axis is None else axis.worded(label) for label in times_by_label}
    return [
        Sample(names[label], tuple(sorted(float(time) for time in times if time)), len(times))
        for label, times in times_by_label.items()
    ]


def column_of(row: Mapping[str, str], axis: str) -> str:
    """Return the column with the labels of an axis."""
    return f"vary.{axis}" if f"vary.{axis}" in row else axis


_MOST_CURVES = 8


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None or not _is_alike(focus):
        return None
    samples, central, axis = _samples(report_data, focus)
    has_draws = bool(central)
    if not any(sample.times for sample in samples):
        return None
    deadline = focus.prepared.jobs[0].deadline
    title = _title(samples, deadline, focus.scenario.horizon, has_draws=has_draws)
    begin = min(sample.times[0] for sample in samples if sample.times)
    end = max(focus.scenario.horizon, max(sample.times[-1] for sample in samples if sample.times))
    series = tuple(chance_curve(sample, begin, _end(end, deadline, samples), hue) for hue, sample in enumerate(samples))
    edges = () if deadline is None else ((deadline / DAY, f"deadline: {deadline / DAY:.3g} days"),)
    chart = Curves(
        title, ChartAxis("Days since the job arrived"), ChartAxis("Chance to be finished [%]"), series, edges=edges
    )
    table = _table(title, samples, central, axis, deadline, focus.scenario.horizon)
    picture = Figure("finish", chart, _alt(samples, deadline), _caption(samples, axis), table)
    return Section("finish", title, (), (picture,), tuple(_notes(report_data, samples, axis, has_draws=has_draws)))


def _samples(report_data: ReportData, focus: ReplayedScenario) -> tuple[list[Sample], list[Sample], ChosenAxis | None]:
    rows = report_data.table
    content = report_data.sweep
    if content is None or not rows or METRIC not in rows[0]:
        rivals = [] if report_data.against is None else [report_data.against]
        return [_simulated(replayed) for replayed in (focus, *rivals) if _is_alike(replayed)], [], None
    chosen = report_data.chosen
    best = content.cells[chosen[0] if chosen is not None else 0].values
    axis = _axis(content, rows, best)
    others_at = [fixed_axis for fixed_axis in axes_of(content) if axis is None or fixed_axis.name != axis.name]
    fixed = {column_of(rows[0], fixed_axis.name): best[fixed_axis.name] for fixed_axis in others_at}
    drawn = samples_along(rows, axis, fixed, drawn=True)
    central = samples_along(rows, axis, fixed, drawn=False)
    return (evenly(drawn, _MOST_CURVES), central, axis) if drawn else (evenly(central, _MOST_CURVES), [], axis)


def _is_alike(focus: ReplayedScenario) -> bool:
    jobs = focus.prepared.jobs
    return len(jobs) == 1 and math.isfinite(jobs[0].target)


def _simulated(focus: ReplayedScenario) -> Sample:
    jobs = [result.jobs[0] for result in focus.ensemble.results]
    times = sorted(job.end - job.arrival for job in jobs if job.finished)
    return Sample(focus.name, tuple(times), len(jobs))


def _axis(content: SweepDocument, rows: Sequence[Mapping[str, str]], best: Mapping[str, str]) -> ChosenAxis | None:
    """Return the axis that moves the end of the work most: by which the shares of finished runs lie furthest apart."""
    spreads: list[tuple[float, ChosenAxis]] = []
    axes = axes_of(content)
    for axis in axes:
        fixed = {column_of(rows[0], rest.name): best[rest.name] for rest in axes if rest.name != axis.name}
        samples = samples_along(rows, axis, fixed, drawn=False)
        times = sorted(time for sample in samples for time in sample.times)
        if len(samples) > 1 and times:
            chances = ([sample.chance(time) for sample in samples] for time in times)
            spreads.append((max(max(shares) - min(shares) for shares in chances), axis))
    return max(spreads, key=lambda pair: pair[0])[1] if spreads else None


def _end(horizon: float, deadline: float | None, samples: Sequence[Sample]) -> float:
    """Return where the curves end: where all is said, or at the horizon if runs are unfinished there [s]."""
    if any(len(sample.times) < sample.runs for sample in samples):
        return horizon
    last = max(sample.times[-1] for sample in samples)
    return max(last, deadline or 0.0)


def _by(time: float | None, horizon: float) -> str:
    return f"after day {horizon / DAY:.4g}" if time is None else f"by day {time / DAY:.4g}"


def _title(samples: Sequence[Sample], deadline: float | None, horizon: float, *, has_draws: bool) -> str:
    ends = list(dict.fromkeys((samples[0], samples[-1])))
    if deadline is not None:
        texts = [PERCENT.plain(sample.chance(deadline)) for sample in ends]
        comma = "," if ends[1:] else ""
        first = f"{texts[0]} of the runs are finished by the deadline, day {deadline / DAY:.4g}{comma}"
    else:
        texts = [_by(sample.by(0.5), horizon) for sample in ends]
        first = f"half of the runs are finished {texts[0]}"
    names = [f" with {sample.name}" if ends[1:] else "" for sample in ends]
    worded = ", ".join(f"{text}{name}" for text, name in zip([first, *texts[1:]], names, strict=True))
    return capital(f"{worded}{', unknown inputs drawn' if has_draws else ''}")


def _alt(samples: Sequence[Sample], deadline: float | None) -> str:
    worded = []
    for sample in samples:
        finished = PERCENT.plain(len(sample.times) / sample.runs)
        by = "" if deadline is None else f"{PERCENT.plain(sample.chance(deadline))} by the deadline, "
        worded.append(f"{sample.name}: {by}{finished} at the horizon")
    return f"Chance to be finished by each date. {'; '.join(worded)}."


def _caption(samples: Sequence[Sample], axis: ChosenAxis | None) -> str:
    runs = sorted({sample.runs for sample in samples})
    worded = number_of(runs[0], "run") if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    lines = f", one for each value of {axis.title}" if axis is not None else ""
    return f"Each curve is of {worded}{lines}: it rises where a run was finished."


def _table(
    title: str,
    samples: Sequence[Sample],
    central: Sequence[Sample],
    axis: ChosenAxis | None,
    deadline: float | None,
    horizon: float,
) -> TableBlock:
    beside = {sample.name: sample for sample in central}

    def by(share: float) -> Callable[[Sample], str]:
        return lambda sample: _by(sample.by(share), horizon).removeprefix("by ")

    return table_of(title, samples, (
        Column("Runs" if axis is None else capital(axis.title), lambda sample: sample.name),
        Column("Finished by the deadline", lambda sample: PERCENT.plain(sample.chance(deadline or 0.0)),
               deadline is not None),
        Column("Half finished by", by(0.5)),
        Column("90 % finished by", by(0.9)),
        Column("Finished at the horizon", lambda sample: f"{len(sample.times)} of {number_of(sample.runs, 'run')}"),
        Column("With inputs at their central values", lambda sample: _beside(beside.get(sample.name), deadline),
               bool(beside)),
    ))  # fmt: skip


def _beside(sample: Sample | None, deadline: float | None) -> str:
    if sample is None:
        return "not run"
    count = len(sample.times) if deadline is None else bisect.bisect_right(sample.times, deadline)
    return f"{count} of {number_of(sample.runs, 'run')}{'' if deadline is None else ' by the deadline'}"


def _notes(
    report_data: ReportData, samples: Sequence[Sample], axis: ChosenAxis | None, *, has_draws: bool
) -> list[str]:
    notes = []
    content = report_data.sweep
    if has_draws:
        names = [] if content is None else [entry.title for entry in content.axes.values() if entry.unknown]
        notes.append(
            f"A run has its own failures and one draw of the unknown inputs ({', '.join(names)}); all draws are put "
            "together, so that a curve tells of both."
        )
    else:
        notes.append("The curves show only run-to-run variability; all inputs are treated as exactly known.")
        low, high = binomial_interval(samples[0].runs / 2, samples[0].runs)
        notes.append(
            f"With {number_of(samples[0].runs, 'run')} a chance of 50 % is known to be within "
            f"{PERCENT.plain(low)} to {PERCENT.plain(high)} (95 %)."
        )
    if content is not None and axis is not None:
        chosen = report_data.chosen
        fixed_axes = [fixed_axis for fixed_axis in axes_of(content) if fixed_axis.name != axis.name]
        if chosen is not None and fixed_axes:
            values = content.cells[chosen[0]].values
            notes.append(f"With {', '.join(fixed_axis.phrase(values[fixed_axis.name]) for fixed_axis in fixed_axes)}.")
    if any(len(sample.times) < sample.runs for sample in samples):
        notes.append(
            "Runs that were unfinished at the horizon count as not finished: their curve does not reach 100 %."
        )
    return notes
