"""Questions along a numeric axis: what it does to a metric, where that passes a value, and which choice is best where.

`Curve` finds where a curve with intervals crosses a level; `Trend`, `Threshold` and `Crossover` are the questions.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ettrick.analysis.amounts import capital, dimension_of, form_of, name_of, number_of
from ettrick.analysis.results import answers
from ettrick.analysis.statistics.differences import ranking_of
from ettrick.analysis.statistics.estimates import contributions
from ettrick.analysis.study.questions.question import (
    METRIC,
    Answer,
    Question,
    common_rows,
    is_log,
    is_lowest_best,
    lines_of,
    mean_of,
    no_lines,
    silence,
    versus,
)
from ettrick.analysis.study.table import FEWEST_DRAWS, summary_of
from ettrick.sim import units
from ettrick.sim.scenario.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.amounts import NumberFormat
    from ettrick.analysis.contest.precision import Ties
    from ettrick.analysis.parts import CellMetric
    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.analysis.study.amounts import AxisPosition, AxisSlice
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.study.table import Cell, StudyTable
    from ettrick.sim.scenario.fields import BrokenRules

# Where a curve that is known at some values, each with its interval, crosses a level.


class Crossing(NamedTuple):
    """A place where a curve crosses a level.

    Parameters
    ----------
    low, high
        95 % interval of that; ``None`` for an end that lies beyond the range, or is not known.
    before
        Position of the value before it; the next one is behind it.
    """

    at: float
    low: float | None
    high: float | None
    before: int
    rises: bool


@dataclass(frozen=True)
class Curve:
    """A metric along a numeric axis, straight between its values on the scale of the axis.

    The interval of a crossing is what a test of "the curve has the level here" at 5 % does not reject: all places
    around it where the interval of the curve has the level in it. Between two values the ends of the interval are
    straight lines too. That is wide enough: the spread of a weighted mean is at most the weighted mean of the spreads.
    So the interval covers as the intervals of the curve do, also exact ones of probabilities, and never contradicts
    them; where the curve is flat it may have no end on the range.

    Parameters
    ----------
    numbers
        Places on the axis, rising.
    intervals
        95 % intervals of the means; ``None`` where there is none.

    References
    ----------
    E. C. Fieller, "Some problems in interval estimation", Journal of the Royal Statistical Society B 16 (1954), 175:
    the interval of a root by inverting a test, here of a curve of many pieces.
    """

    numbers: tuple[float, ...]
    means: tuple[float, ...]
    intervals: tuple[Interval | None, ...]
    is_log: bool = False

    def crossings(self, level: float) -> list[Crossing]:
        """Return where the curve passes from one side of a level to the other; the level itself is above."""
        above = [mean >= level for mean in self.means]
        return [
            Crossing(self._place(before, self.means, level), *self._around(before, level, rises=rises), before, rises)
            for before, (is_above, rises) in enumerate(itertools.pairwise(above))
            if is_above != rises
        ]

    def _around(self, before: int, level: float, *, rises: bool) -> tuple[float | None, float | None]:
        """Return the ends of the interval of a crossing behind a position."""
        intervals = [interval for interval in self.intervals if interval is not None]
        if len(intervals) < len(self.intervals):
            return None, None
        lows, highs = zip(*intervals, strict=True)
        # Of a rising curve the upper end of the interval is the first to have the level in it.
        first, last = (highs, lows) if rises else (lows, highs)
        left = next((index for index in range(before, -1, -1) if (first[index] < level) == rises), None)
        right = next((index for index in range(before + 1, len(lows)) if (last[index] >= level) == rises), None)
        return (
            None if left is None else self._place(left, first, level),
            None if right is None else self._place(right - 1, last, level),
        )

    def _place(self, before: int, heights: Sequence[float], level: float) -> float:
        """Return where the straight line behind a position has a level."""
        (left, right), (low, high) = self.numbers[before : before + 2], heights[before : before + 2]
        share = (level - low) / (high - low)
        if self.is_log:
            return float(left * math.exp(share * math.log(right / left)))
        return left + share * (right - left)


# The values of one line of cells that have a mean.


class AxisPoint(NamedTuple):
    """A value of an axis, and a metric there."""

    label: str
    number: float
    summary: CellMetric
    cell: Cell


def rows_of(line: AxisSlice[Cell], position: int, metric: str) -> tuple[tuple[AxisPoint, ...], dict[str, str]]:
    """Return the values of a line that have a mean of a metric, and of the others why they have none."""
    rows, silent = [], {cell.values[position].label: reason_of(cell, metric) for cell in line.missing}
    for cell in line.cells:
        value, summary = cell.values[position], summary_of(cell, metric)
        if summary is not None and summary.mean is not None:
            rows.append(AxisPoint(value.label, value.number or 0.0, summary, cell))
        else:
            silent[value.label] = reason_of(cell, metric)
    return tuple(rows), silent


def reason_of(cell: Cell, metric: str) -> str:
    """Return why a cell has no mean of a metric, in words."""
    if cell.trouble:
        return cell.trouble
    summary = summary_of(cell, metric)
    if summary is not None and summary.censored:
        return f"a job was not finished in {number_of(summary.censored, 'replication')}"
    return "no mean"


_RATE = re.compile(r"failures\.\d+\.(scale(\..+)?|rate)")
_LIFE = re.compile(r"failures\.\d+\.law\.(mean|scale)")


def _reliability(paths: Sequence[str], rows: Sequence[AxisPoint], crossing: Crossing) -> dict[str, float]:
    """Return the reliability that a place on an axis of failure rates, or of mean lives, stands for.

    ``mtti_s`` is the running time between interruptions of the job, of all causes; times its GPUs and nodes it is
    ``mtbf_gpu_s`` and ``mtbf_node_s``. The rate of interruptions is a straight line in the rate of any cause, so that
    two values of the axis give all others. Empty along other axes, and for several jobs.
    """
    is_rate = all(map(_RATE.fullmatch, paths))
    (low, first), (high, last) = (
        (row.number, row.cell.stated.job_rate) for row in rows[crossing.before : crossing.before + 2]
    )
    if not (is_rate or all(map(_LIFE.fullmatch, paths))) or first is None or last is None or first[1:] != last[1:]:
        return {}
    low, high, at = (low, high, crossing.at) if is_rate else (1 / low, 1 / high, 1 / crossing.at)
    rate = first.per_second + (last.per_second - first.per_second) * (at - low) / (high - low)
    if not rate > 0:
        return {}
    return {"mtti_s": 1 / rate, "mtbf_gpu_s": first.gpus / rate, "mtbf_node_s": first.nodes / rate}


def _turned(interval: Interval | None, sign: float) -> Interval | None:
    if interval is None:
        return None
    low, high = sorted(sign * end for end in interval)
    return low, high


def _drawn_means(rows: Sequence[AxisPoint], metric: str) -> np.ndarray | None:
    """Return the means at each draw of what is unknown, shape (draws, rows); ``None`` if not all of them have one.

    Each is the mean at the central values, moved by what the draw changes over the same replications.
    """
    table = []
    for row in rows:
        stated = row.cell.stated.metrics[metric]
        means = []
        for outcome in row.cell.drawn:
            drawn = outcome.metrics.get(metric, ())
            count = min(len(drawn), len(stated))
            ours, theirs = contributions(drawn[:count]), contributions(stated[:count])
            if ours is None or theirs is None:
                return None
            means.append((row.summary.mean or 0.0) + float((ours - theirs).mean()))
        table.append(means)
    count = min(map(len, table), default=0)
    return np.array([means[:count] for means in table]).T if count >= FEWEST_DRAWS else None


def _band(drawn: np.ndarray, curve: Curve, level: float, crossing: Crossing) -> tuple[float | None, float | None]:
    """Return between which places a crossing is in 90 % of all draws; ``None`` for an end beyond the range."""
    places = []
    for means in drawn:
        of_draw = Curve(curve.numbers, tuple(means.tolist()), (None,) * len(means), curve.is_log).crossings(level)
        # Where the condition holds at the end to which the crossing leads, it began before the range.
        beyond = -math.inf if (means[-1] >= level) == crossing.rises else math.inf
        alike = [candidate.at for candidate in of_draw if candidate.rises == crossing.rises]
        places.append(min(alike, key=lambda at: abs(at - crossing.at), default=beyond))
    low, high = np.quantile(places, [0.05, 0.95], method="inverted_cdf").tolist()
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


class Trend(Question):
    """The trend of a metric along a numeric axis, for every combination of the other axes."""

    use: Literal["trend"] = "trend"
    metric: str = METRIC
    along: str = Field(description="The axis of numbers.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no numeric axis."""
        self._check_axis("along", self.along, axes, numeric=True)

    def answer(self, table: StudyTable) -> Answer:
        """Return the change from the first value to the last one, the largest step, and where it turns."""
        metric = self._headline(table.metrics)
        lines = lines_of(table, self.along)
        silent = silence(table, metric) or no_lines(table, lines, self.along)
        courses = [] if silent else [self._line(table, line, metric) for line in lines]
        if not any(course.whole for course in courses):
            rule = f"{capital(name_of(metric))} has fewer than two means along {table.title(self.along)}."
            silent = silent or rule
        answer = answers.TrendAnswer(metric=metric, along=self.along, lines=courses)
        return Answer(self.use, answer.data(), silent)

    def _line(self, table: StudyTable, line: AxisSlice[Cell], metric: str) -> answers.TrendLine:
        """Return the course along one line."""
        rows, silent = rows_of(line, table.position(self.along), metric)
        steps = [step for pair in itertools.pairwise(rows) if (step := _step(*pair, metric)) is not None]
        whole = _step(rows[0], rows[-1], metric) if len(rows) > 1 and steps else None
        course: dict[str, Any] = {}
        if whole is not None:
            form = form_of(metric, [row.summary.mean or 0.0 for row in rows], table.currency)
            course = {"whole": whole, "course": _course(rows, metric, form)}
            course |= _legs(rows, metric) if course["course"] == "turns" else {}
        return answers.TrendLine(
            at=line.fixed,
            points=[
                answers.TrendPoint(value=row.label, number=row.number, mean=row.summary.mean or 0.0) for row in rows
            ],
            steps=steps,
            without_mean=silent,
            **course,
        )


def _step(start: AxisPoint, end: AxisPoint, metric: str) -> answers.TrendStep | None:
    """Return what changes from one value of an axis to another; ``None`` where it has no interval."""
    change = versus(end.cell, start.cell, metric)
    if change is None:
        return None
    return answers.TrendStep(start=start.label, end=end.label, difference=change[0])


def _course(rows: Sequence[AxisPoint], metric: str, form: NumberFormat) -> str:
    """Return whether a metric ``rises``, ``falls``, ``turns`` or is ``flat`` along an axis.

    A value belongs to a plateau as long as it shows no difference from the first of it: a slope of many small steps,
    none of them resolved, is no plateau.
    """
    sign, first, signs = 0, rows[0], set()
    for before, row in itertools.pairwise(rows):
        following = _sign(before if sign else first, row, metric, form)
        first = first if following == sign else before
        sign = following
        signs.add(sign)
    if {1, -1} <= signs:
        return "turns"
    return "rises" if 1 in signs else "falls" if -1 in signs else "flat"


def _legs(rows: Sequence[AxisPoint], metric: str) -> dict[str, Any]:
    """Return the value at which a course turns and the changes on both sides; nothing if it turns at an end only.

    That is the best value, or the worst one where the best is an end.
    """
    sign = -1.0 if is_lowest_best(metric) else 1.0
    places = [max(range(len(rows)), key=lambda place: way * (rows[place].summary.mean or 0.0)) for way in (sign, -sign)]
    turn = next((place for place in places if 0 < place < len(rows) - 1), None)
    legs = [] if turn is None else [_step(rows[0], rows[turn], metric), _step(rows[turn], rows[-1], metric)]
    return {} if turn is None or None in legs else {"turn": rows[turn].label, "legs": legs}


def _sign(start: AxisPoint, end: AxisPoint, metric: str, form: NumberFormat) -> int:
    """Return which way a metric goes from one value to another: nowhere if it is not resolved, or not to be seen."""
    change = versus(end.cell, start.cell, metric)
    if change is None or not change[0].resolved:
        return 0
    texts = {form.value(row.summary.mean or 0.0, row.summary.mean_ci95) for row in (start, end)}
    return 0 if len(texts) == 1 else 1 if change[0].mean > 0 else -1


# Where a metric passes a value along an axis: what is needed.


class Threshold(Question):
    """The value of a numeric axis at which a metric passes a bound, for every combination of the other axes."""

    use: Literal["threshold"] = "threshold"
    metric: str = METRIC
    at_least: Any = Field(None, description="The value that the metric has to reach: 0.95, 95 %, 30 d.")
    at_most: Any = Field(None, description="The value that it must not pass.")
    along: str = Field(description="The axis of numbers along which it is sought.")
    over: Literal["runs", "parameters"] = Field(
        "runs",
        description="Cases for which it has to hold: the unknown inputs at their central values, or nearly all of "
        "them.",
    )

    def _broken_rules(self) -> BrokenRules:
        if (self.at_least is None) == (self.at_most is None):
            yield (), "give at_least or at_most, one of them"

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no numeric axis, a value that the metric cannot have, and unknowns that are not there."""
        self._check_axis("along", self.along, axes, numeric=True)
        self._level(self._headline(metrics))
        if self.over == "parameters" and not any(axis.is_uncertain for axis in axes.values()):
            raise RuleError(("over",), "parameters: no axis has a distribution, so nothing is unknown")

    def _level(self, metric: str) -> float:
        """Return the value that a metric is held against [SI]."""
        key = "at_least" if self.at_most is None else "at_most"
        value = getattr(self, key)
        dimension = dimension_of(metric)
        try:
            if dimension is not None:
                return units.parse(value, dimension)
        except units.UnitError as error:
            raise RuleError((key,), str(error)) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RuleError((key,), f"must be a number, for {metric} has no unit that could be written")
        return float(value)

    def answer(self, table: StudyTable) -> Answer:
        """Return where the value is passed."""
        metric = self._headline(table.metrics)
        lines = lines_of(table, self.along)
        silent = silence(table, metric) or no_lines(table, lines, self.along)
        if silent:
            return Answer(self.use, answers.ThresholdAnswer(metric=metric, along=self.along, lines=[]).data(), silent)
        answer = answers.ThresholdAnswer(
            metric=metric,
            along=self.along,
            over=self.over,
            lines=[self._line(table, line, metric) for line in lines],
            **{"at_least" if self.at_most is None else "at_most": self._level(metric)},
        )
        rule = f"{capital(name_of(metric))}: fewer than two values of {table.title(self.along)} have a mean."
        return Answer(self.use, answer.data(), "" if any(len(line.points) > 1 for line in answer.lines) else rule)

    def _line(self, table: StudyTable, line: AxisSlice[Cell], metric: str) -> answers.ConditionLine:
        """Return where the condition holds along one line."""
        rows, silent = rows_of(line, table.position(self.along), metric)
        # Read upside down, "at most" is "at least".
        sign = 1.0 if self.at_most is None else -1.0
        curve = Curve(
            tuple(row.number for row in rows),
            tuple(sign * (row.summary.mean or 0.0) for row in rows),
            tuple(_turned(row.summary.mean_ci95, sign) for row in rows),
            is_log(table, self.along),
        )
        level, drawn, paths = (
            sign * self._level(metric),
            _drawn_means(rows, metric),
            table.axes[self.along].targets(self.along),
        )
        points = [self._point(row, sign, level) for row in rows]
        crossings = [
            answers.CrossingSummary(
                at=crossing.at,
                at_ci95=(crossing.low, crossing.high),
                band90=None if drawn is None else _band(drawn * sign, curve, level, crossing),
                between=[row.label for row in rows[crossing.before : crossing.before + 2]],
                begins=crossing.rises,
                **_reliability(paths, rows, crossing),
            )
            for crossing in curve.crossings(level)
        ]
        return answers.ConditionLine(at=line.fixed, points=points, crossings=crossings, without_mean=silent)

    def _point(self, row: AxisPoint, sign: float, level: float) -> answers.ConditionPoint:
        """Return whether the condition holds at one value, by the mean and by all that is not sure of it."""
        summary = row.summary
        intervals = (summary.mean_ci95, *((summary.band90,) if self.over == "parameters" else ()))
        turned = [_turned(interval, sign) for interval in intervals]
        return answers.ConditionPoint(
            value=row.label,
            number=row.number,
            mean=summary.mean or 0.0,
            mean_ci95=summary.mean_ci95,
            band90=summary.band90,
            holds=sign * (summary.mean or 0.0) >= level,
            holds_with_certainty=all(interval is not None and interval[0] >= level for interval in turned),
        )


# Who is best at each value of an axis, and between which values another one becomes the best.


class _Stage(NamedTuple):
    """A value of the axis: the best there of those that compete.

    Parameters
    ----------
    leaders
        The best, and those with the same values in every replication.
    cells
        Those that compete, by label.
    """

    summary: answers.StageSummary
    leaders: frozenset[str]
    cells: Mapping[str, Cell]

    @classmethod
    def of(
        cls, value: AxisPosition, cells: Mapping[str, Cell], metric: str, ties: Ties, *, is_lowest: bool
    ) -> _Stage | None:
        """Return who is best at a value; ``None`` where fewer than two compete."""
        names, rows = list(cells), common_rows(list(cells.values()), metric)
        count = min(map(len, rows), default=0)
        means = {name: mean for name, cell in cells.items() if (mean := mean_of(cell, metric, count)) is not None}
        if len(means) < 2:
            return None
        order, second = sorted(means, key=means.__getitem__, reverse=not is_lowest), None
        leaders, may_be_best, equal = frozenset(order[:1]), order, []
        ranking = ranking_of(rows, lowest=is_lowest, metric=metric)
        if ranking is not None and len(ranking.order) > 1:
            order = [names[index] for index in ranking.order]
            behind = dict(zip(order, ranking.behind, strict=True))
            may_be_best = [name for name in order if name == order[0] or names.index(name) in ranking.may_be_best]
            leaders = frozenset(name for name in may_be_best if name == order[0] or behind[name] == (0, (0, 0)))
            equal = _equal(behind, metric, means[order[0]], ties)
            mean, interval = ranking.behind[1]
            second = answers.LeadSummary(mean=mean, ci95=interval, resolved=leaders == set(may_be_best))
        summary = answers.StageSummary(
            value=value.label,
            number=value.number or 0.0,
            best=order[0],
            may_be_best=may_be_best,
            order=order,
            equal=equal,
            mean=means[order[0]],
            ahead_of_second=second,
            replications=count,
        )
        return cls(summary, leaders, cells)

    @property
    def is_resolved(self) -> bool:
        """Whether no other may be best."""
        return self.leaders == set(self.summary.may_be_best)


def _equal(behind: Mapping[str, tuple[float, Interval | None]], metric: str, mean: float, ties: Ties) -> list[str]:
    """Return those behind the first, best first, whose distance from its mean is smaller than what matters."""
    rest = list(behind.items())[1:]
    return [name for name, (distance, interval) in rest if ties.are_equal(metric, mean, interval, distance)]


def _equal_range(lead: Curve, at: float, size: float) -> tuple[float | None, float | None]:
    """Return from where to where around a place a lead that is lost there is smaller than what matters."""
    starts, stops = (
        [crossing.at for crossing in lead.crossings(level) if not crossing.rises] for level in (size, -size)
    )
    start = max((place for place in starts if place <= at), default=None)
    return start, min((place for place in stops if place >= at), default=None)


# Which of several choices is best along a numeric axis, and where another one becomes the best.


class Crossover(Question):
    """The best value of one axis along another, and the places where it changes."""

    use: Literal["crossover"] = "crossover"
    metric: str = METRIC
    direction: Literal["highest", "lowest"] | None = Field(
        None, description="Better direction [default: that of the metric]."
    )
    between: str = Field(description="The axis of choices that compete.")
    along: str = Field(description="The axis of numbers along which the best of them changes.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what are not two axes, the second one numeric."""
        self._check_axis("between", self.between, axes)
        self._check_axis("along", self.along, axes, numeric=True)
        if self.between == self.along:
            raise RuleError(("along",), f"{self.along} is the axis of choices too: name another one")

    def answer(self, table: StudyTable) -> Answer:
        """Return who is best where, and where that changes."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        lines = [] if silent else lines_of(table, self.between, self.along)
        races = [race for line in lines if len((race := self._race(table, line, metric)).best) > 1]
        if not silent and not races:
            title = table.title(self.along)
            silent = f"Fewer than two values of {title} have results of several values of {table.title(self.between)}."
        answer = answers.CrossoverAnswer(metric=metric, between=self.between, along=self.along, lines=races)
        return Answer(self.use, answer.data(), silent)

    def _race(self, table: StudyTable, line: AxisSlice[Cell], metric: str) -> answers.RaceSummary:
        """Return who is best at each value of the axis, and where that changes."""
        who, where = table.position(self.between), table.position(self.along)
        fields: dict[tuple[float, str], dict[str, Cell]] = {}
        for cell in line.cells:
            if mean_of(cell, metric) is not None:
                value = cell.values[where]
                fields.setdefault((value.number or 0.0, value.label), {})[cell.values[who].label] = cell
        stages = []
        for _, cells in sorted(fields.items(), key=lambda pair: pair[0]):
            value = next(iter(cells.values())).values[where]
            is_lowest = is_lowest_best(metric, self.direction or "")
            stages.append(_Stage.of(value, cells, metric, table.ties, is_lowest=is_lowest))
        decided = [stage for stage in stages if stage is not None]
        handovers = list(self._handovers(table, decided, metric))
        return answers.RaceSummary(at=line.fixed, best=[stage.summary for stage in decided], crossings=handovers)

    def _handovers(self, table: StudyTable, stages: Sequence[_Stage], metric: str) -> Iterator[answers.HandoverSummary]:
        """Yield neighbours among the values at which it is resolved who is best, if not the same is best at them."""
        before: _Stage | None = None
        for stage in stages:
            if not stage.is_resolved:
                continue
            if before is not None and not before.leaders & stage.leaders:
                crossing, equal = self._crossing(table, stages, (before, stage), metric)
                yield answers.HandoverSummary(
                    former=before.summary.best,
                    latter=stage.summary.best,
                    between=[before.summary.value, stage.summary.value],
                    at=None if crossing is None else crossing.at,
                    at_ci95=None if crossing is None else (crossing.low, crossing.high),
                    equal=equal,
                )
                before = stage
            # Where another one is level with the best it is not yet behind.
            elif before is None or stage.leaders <= before.leaders:
                before = stage

    def _crossing(
        self, table: StudyTable, stages: Sequence[_Stage], ends: tuple[_Stage, _Stage], metric: str
    ) -> tuple[Crossing | None, tuple[float | None, float | None] | None]:
        """Return where the best of one value is passed by that of another, and from where to where they are equal.

        Both are ``None`` if a third may be between them; an end that is ``None`` lies beyond the range.
        """
        (old, new), (low, high) = zip(*((stage.summary.best, stage.summary.number) for stage in ends), strict=True)
        leaders = ends[0].leaders | ends[1].leaders
        between = [stage.summary for stage in stages if low < stage.summary.number < high]
        if any(not leaders.issuperset(summary.may_be_best) for summary in between):
            return None, None
        curve = self._lead(stages, old, new, metric, is_log=is_log(table, self.along))
        falling = (crossing for crossing in curve.crossings(0.0) if not crossing.rises)
        passed = next((crossing for crossing in falling if low <= curve.numbers[crossing.before] < high), None)
        size = table.ties.size(metric, ends[0].summary.mean)
        return passed, None if passed is None else _equal_range(curve, passed.at, size)

    def _lead(self, stages: Sequence[_Stage], old: str, new: str, metric: str, *, is_log: bool) -> Curve:
        """Return how far one is better than another where both compete."""
        sign = -1.0 if is_lowest_best(metric, self.direction or "") else 1.0
        numbers, means, intervals = [], [], []
        for summary, _, cells in stages:
            change = None
            if old in cells and new in cells:
                change = versus(cells[old], cells[new], metric, summary.replications)
            if change is not None:
                mean = change[0].mean
                numbers.append(summary.number)
                means.append(sign * mean)
                intervals.append(_turned(change[0].ci95 or (mean, mean), sign))
        return Curve(tuple(numbers), tuple(means), tuple(intervals), is_log)
