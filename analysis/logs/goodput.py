"""What the steps of a training job say: the time of one, restarts, checkpoints, and goodput by steps and in time.

Goodput by steps is the steps that remain, times the time of a step, over the wall time: slow steps lower it. Goodput in
time is the time spent in steps that remain over the wall time: a slow step is as good as a fast one.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.amounts import percent_text
from ettrick.analysis.logs import onset
from ettrick.analysis.logs.events import largest
from ettrick.analysis.logs.tables import utc
from ettrick.analysis.results.fitted import TrainingSummary
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.tables import Tables, TrainingPhase

    FloatArray = NDArray[np.float64]

WEEK = 7 * DAY


class StepStretches(NamedTuple):
    """Stretches of steps in order of time, each from `begin` to `end` [s], shape (n,) each.

    Parameters
    ----------
    ran, kept
        Steps, and those that were not run again later; parts of steps where a stretch was cut.
    """

    begin: FloatArray
    end: FloatArray
    ran: FloatArray
    kept: FloatArray

    @classmethod
    def of(cls, phases: Iterable[TrainingPhase], low: float = -math.inf, high: float = math.inf) -> StepStretches:
        """Return the stretches of phases between two moments [s], as if nothing had been logged outside of them."""
        spans = sorted((p.t0, p.t1, p.first_step, p.last_step) for p in phases if p.last_step > p.first_step)
        begin, end, first, last = np.array(spans, dtype=np.float64).reshape(-1, 4).T
        rate = (last - first) / np.maximum(end - begin, 1e-9)
        cut_begin, cut_end = np.maximum(begin, low), np.minimum(end, high)
        first, last = first + rate * (cut_begin - begin), last - rate * (end - cut_end)
        inside = cut_end > cut_begin
        begin, end, first, last = (values[inside] for values in (cut_begin, cut_end, first, last))
        lowest_after = np.append(np.minimum.accumulate(first[::-1])[::-1], math.inf)[1:]
        return cls(begin, end, last - first, np.maximum(np.minimum(last, lowest_after) - first, 0.0))

    @property
    def times(self) -> FloatArray:
        """Time of a step in each stretch [s]."""
        return (self.end - self.begin) / self.ran

    def within(self, low: float, high: float) -> StepStretches:
        """Return what lies between two moments [s]; what was run again after them does not remain."""
        begin, end = np.maximum(self.begin, low), np.minimum(self.end, high)
        share = np.clip(end - begin, 0, None) / np.maximum(self.end - self.begin, 1e-9)
        seen = share > 0
        return StepStretches(begin[seen], end[seen], (self.ran * share)[seen], (self.kept * share)[seen])


def phases_of(tables: Tables, name: str = "") -> list[TrainingPhase]:
    """Return the phases of a job, or of the one with most of them where training logs have no job of this name."""
    jobs: dict[str, list[TrainingPhase]] = defaultdict(list)
    for phase in tables.phases:
        jobs[phase.job].append(phase)
    if len(jobs) > 1 and name not in jobs:
        tables.findings.append(f"training logs are of {len(jobs)} jobs; goodput is that of the one with most lines")
    return jobs[name] if name in jobs else max(jobs.values(), key=len, default=[])


def of_steps(phases: Iterable[TrainingPhase]) -> list[TrainingPhase]:
    """Return the phases that are steps."""
    return [phase for phase in phases if phase.phase == "step"]


def training(tables: Tables, history: History) -> TrainingSummary | None:
    """Return what the steps of the job with most of them say in the window of a history."""
    phases = phases_of(tables)
    if not phases:
        return None
    low, high = _ends(phases, history)
    steps = StepStretches.of(of_steps(phases), low, high)
    if not len(steps.ran):
        tables.findings.append("the training log has no two steps in the window: nothing is measured by it")
        return None
    runs = _runs(phase for phase in phases if low <= phase.t0 < high)
    step = float(np.median(steps.times))
    begun = [(first, run) for run in runs.values() if (first := _first_steps(run)) is not None]
    restarts = [first.t0 - phase.t0 for first, run in begun for phase in run if phase.phase == "start"]
    tables.findings += _drift(steps)
    again = [first.first_step for first, _ in begun[1:] if first.first_step > 0]
    every = reduce(math.gcd, again) * step if len(again) >= 3 else None
    return TrainingSummary(
        attempts=len(runs),
        step_time_s=step,
        restart_s=float(np.median(restarts)) if restarts else None,
        checkpoint_s=every,
        lost_s=max(float((steps.ran - steps.kept).sum()) * step, _rolled_back(tables, runs)),
        goodput=min(float(steps.kept.sum()) * step / (high - low), 1.0),
        goodput_in_time=float(steps.kept @ steps.times) / (high - low),
        weekly_goodput=_weekly(steps, history.start, high, step),
    )


def _weekly(steps: StepStretches, start: float, high: float, step: float) -> list[float | None]:
    """Return the goodput by steps of each whole week from a moment to another [s]."""
    weeks = np.arange(start, max(high - WEEK, start) + 1, WEEK).tolist()
    return [min(float(steps.within(week, week + WEEK).kept.sum()) * step / WEEK, 1.0) for week in weeks]


def _ends(phases: Sequence[TrainingPhase], history: History) -> tuple[float, float]:
    """Return from when to when phases lie in the window of a history [s]."""
    first, last = min(phase.t0 for phase in phases), max(phase.t1 for phase in phases)
    return max(first, history.start), min(last, history.end)


def _runs(phases: Iterable[TrainingPhase]) -> dict[int, list[TrainingPhase]]:
    """Return phases by the run that they are of."""
    runs: dict[int, list[TrainingPhase]] = defaultdict(list)
    for phase in phases:
        runs[phase.attempt].append(phase)
    return runs


def _first_steps(run: Iterable[TrainingPhase]) -> TrainingPhase | None:
    """Return the first phase of steps of a run; ``None`` if it has none."""
    return min(of_steps(run), key=lambda phase: phase.t0, default=None)


LEAST_DRIFT = 0.005
"""Change of the time of a step below which it is none."""


def _drift(steps: StepStretches) -> list[str]:
    """Return since when steps take longer, or less, by the medians of days."""
    days = np.floor_divide((steps.begin + steps.end) / 2, DAY)
    present = np.unique(days)
    medians = np.array([np.median(steps.times[days == day]) for day in present])
    change = onset.of_level(medians)
    size = change.after / change.before - 1 if change is not None else 0.0
    if change is None or change.chance > onset.FALSE_DRIFTS or abs(size) < LEAST_DRIFT:
        return []
    first, last, date = (utc(DAY * present[at])[:10] for at in (0, -1, change.at))
    how = f"steadily from {first} to {last}" if change.steady else f"on {date}"
    return [
        f"step time: from {change.before:.4g} to {change.after:.4g} s ({percent_text(size, 1, '+')}), {how}; the "
        "scenario has the median"
    ]


def _rolled_back(tables: Tables, runs: Mapping[int, list[TrainingPhase]]) -> float:
    """Return the time from the step that each next run began with to the end of the run before, by job records [s]."""
    ends = sorted((a.t_start, a.t_end) for a in largest(tables.attempts) if not math.isnan(a.t_end))
    starts = np.array([start for start, _ in ends])
    total = 0.0
    for run, after in itertools.pairwise(runs[number] for number in sorted(runs)):
        begin = min(phase.t0 for phase in run)
        index = int(np.searchsorted(starts, begin + 300)) - 1
        if index >= 0 and abs(ends[index][0] - begin) <= 300:
            total += max(ends[index][1] - _moment_of_return(run, after), 0.0)
    return total


def _moment_of_return(run: Iterable[TrainingPhase], after: Iterable[TrainingPhase]) -> float:
    """Return when a run was at the step that the next one begins with [s]; never is infinite."""
    first = min((phase.first_step for phase in of_steps(after)), default=-1)
    steps = of_steps(run)
    reached = max(steps, key=lambda phase: phase.last_step, default=None)
    if reached is None or not 0 <= first <= reached.last_step:
        return math.inf
    return next((phase.t0 for phase in steps if phase.first_step <= first < phase.last_step), reached.t1)
