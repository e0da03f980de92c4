"""What a numeric axis does to a metric."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from ettrick.analysis.amounts import capital, dimension_of, form_of, name_of, number_of
from ettrick.analysis.statistics.differences import difference_data, ranking_of
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
from ettrick.analysis.study.table import FEWEST_DRAWS, CellStatistics, summary_of
from ettrick.sim import units
from ettrick.sim.scenario.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from ettrick.analysis.amounts import NumberFormat
    from ettrick.analysis.statistics.differences import Difference, Ranking
    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.analysis.study.amounts import AxisSlice
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.study.table import Cell, StudyTable

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
        found = []
        for before, (this, following) in enumerate(itertools.pairwise(above)):
            if this != following:
                at = self._place(before, self.means, level)
                low, high = self._around(before, level, rises=following)
                found.append(Crossing(at, low, high, before, following))
        return found

    def _around(self, before: int, level: float, *, rises: bool) -> tuple[float | None, float | None]:
        """Return the ends of the interval of a crossing behind a position."""
        if any(interval is None for interval in self.intervals):
            return None, None
        lows, highs = zip(*(interval for interval in self.intervals if interval is not None), strict=True)
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


# Where a condition holds along one line of cells.


class AxisPoint(NamedTuple):
    """One value of an axis, and what a metric is there."""

    label: str
    number: float
    summary: CellStatistics
    cell: Cell


@dataclass(frozen=True)
class ConditionVerdict:
    """Where a condition holds along one line.

    Parameters
    ----------
    silent
        Labels of the values without, and why.
    level, is_least
        The condition: a value, and whether the metric has to reach it (or else must not pass it).
    crossings
        Where it begins or ends to hold, with 95 % intervals (the Monte Carlo error).
    bands
        For each of them, between which places it is with a probability of 90 % as far as unknown inputs show; an end is
        ``None`` where it is beyond the range, the whole where there are not enough draws.
    sure
        For each row, whether it holds there with its whole interval.
    reliability
        For each of `crossings`, what `_reliability` says of it.
    """

    others: dict[str, str]
    rows: tuple[AxisPoint, ...]
    silent: dict[str, str]
    level: float
    is_least: bool
    crossings: tuple[Crossing, ...]
    bands: tuple[tuple[float | None, float | None] | None, ...]
    sure: tuple[bool, ...]
    reliability: tuple[dict[str, float], ...]

    @property
    def holds(self) -> tuple[bool, ...]:
        """For each row, whether the condition holds there by the mean."""
        return tuple(_is_met(row.summary.mean or 0.0, self.level, self.is_least) for row in self.rows)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "at": self.others,
            "points": [
                {
                    "value": row.label,
                    "number": row.number,
                    "mean": row.summary.mean,
                    "mean_ci95": row.summary.ci95,
                    "band90": row.summary.band90,
                    "holds": holds,
                    "holds_with_certainty": sure,
                }
                for row, holds, sure in zip(self.rows, self.holds, self.sure, strict=True)
            ],
            "crossings": [
                {
                    "at": crossing.at,
                    "at_ci95": [crossing.low, crossing.high],
                    "band90": band,
                    "between": [row.label for row in self.rows[crossing.before : crossing.before + 2]],
                    "begins": crossing.rises == self.is_least,
                    **reliability,
                }
                for crossing, band, reliability in zip(self.crossings, self.bands, self.reliability, strict=True)
            ],
            "without_mean": self.silent,
        }


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


def verdict_of(
    table: StudyTable,
    line: AxisSlice[Cell],
    along: str,
    metric: str,
    level: float,
    *,
    is_log: bool,
    is_least: bool,
    is_unknown: bool,
) -> ConditionVerdict:
    """Return where a metric is at least, or at most, a value along a line."""
    rows, silent = rows_of(line, table.position(along), metric)
    # Read upside down, "at most" is "at least".
    sign = 1.0 if is_least else -1.0
    numbers = tuple(row.number for row in rows)
    intervals = tuple(_turned(row.summary.ci95, sign) for row in rows)
    curve = Curve(numbers, tuple(sign * (row.summary.mean or 0.0) for row in rows), intervals, is_log)
    crossings = tuple(crossing._replace(rises=crossing.rises == is_least) for crossing in curve.crossings(sign * level))
    drawn = _drawn_means(rows, metric)
    bands = tuple(
        None if drawn is None else _band(drawn * sign, curve, sign * level, crossing, rises=crossing.rises == is_least)
        for crossing in crossings
    )
    sure = tuple(
        _is_clear(row.summary.ci95, level, is_least)
        and (not is_unknown or _is_clear(row.summary.band90, level, is_least))
        for row in rows
    )
    paths = table.axes[along].targets(along)
    reliability = tuple(_reliability(paths, rows, crossing) for crossing in crossings)
    return ConditionVerdict(line.others, rows, silent, level, is_least, crossings, bands, sure, reliability)


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


def _is_met(value: float, level: float, is_least: bool) -> bool:
    return value >= level if is_least else value <= level


def _is_clear(interval: Interval | None, level: float, is_least: bool) -> bool:
    return interval is not None and _is_met(interval[0] if is_least else interval[1], level, is_least)


def _drawn_means(rows: Sequence[AxisPoint], metric: str) -> np.ndarray | None:
    """Return the means at each draw of what is unknown, shape (draws, rows); ``None`` if not all of them have one.

    Each is the mean at the central values, moved by what the draw changes over the same replications.
    """
    found = []
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
        found.append(means)
    least = min((len(means) for means in found), default=0)
    return np.array([means[:least] for means in found]).T if least >= FEWEST_DRAWS else None


def _band(
    drawn: np.ndarray, curve: Curve, level: float, crossing: Crossing, *, rises: bool
) -> tuple[float | None, float | None]:
    """Return between which places a crossing is in 90 % of all draws; ``None`` for an end beyond the range."""
    places = []
    for means in drawn:
        mine = Curve(curve.numbers, tuple(means.tolist()), (None,) * len(means), curve.is_log).crossings(level)
        alike = [other.at for other in mine if other.rises == rises]
        if alike:
            places.append(min(alike, key=lambda at: abs(at - crossing.at)))
        else:
            # Where the condition holds at the end to which the crossing leads, it began before the range.
            places.append(-math.inf if (means[-1] >= level) == rises else math.inf)
    low, high = np.quantile(places, [0.05, 0.95], method="inverted_cdf").tolist()
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


class Trend(Question):
    """What a numeric axis does to a metric, for every combination of the other axes."""

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
        if silent:
            return Answer(self.use, {"metric": metric, "along": self.along, "lines": []}, silent)
        data = [self._course(table, line, metric) for line in lines]
        rule = f"{capital(name_of(metric))} has fewer than two means along {table.title(self.along)}."
        is_known = any("whole" in content for content in data)
        return Answer(self.use, {"metric": metric, "along": self.along, "lines": data}, "" if is_known else rule)

    def _course(self, table: StudyTable, line: AxisSlice[Cell], metric: str) -> dict[str, Any]:
        """Return the course along one line as plain data."""
        rows, silent = rows_of(line, table.position(self.along), metric)
        steps = [step for pair in itertools.pairwise(rows) if (step := _Step.of(*pair, metric)) is not None]
        content = {
            "at": line.others,
            "points": [{"value": row.label, "number": row.number, "mean": row.summary.mean} for row in rows],
            "steps": [step.data() for step in steps],
            "without_mean": silent,
        }
        whole = _Step.of(rows[0], rows[-1], metric) if len(rows) > 1 else None
        if whole is None or not steps:
            return content
        form = form_of(metric, [row.summary.mean or 0.0 for row in rows], table.currency)
        return content | {"whole": whole.data(), "course": _course(_parts(rows, steps, metric, form))}


class _Step(NamedTuple):
    """What changes from one value of an axis to another."""

    start: AxisPoint
    end: AxisPoint
    found: Difference
    replications: int

    @classmethod
    def of(cls, start: AxisPoint, end: AxisPoint, metric: str) -> _Step | None:
        """Return the step between two values; ``None`` where it has no interval."""
        found = versus(end.cell, start.cell, metric)
        return None if found is None else cls(start, end, *found)

    def data(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {"from": self.start.label, "to": self.end.label, "difference": difference_data(self.found)}


class _Part(NamedTuple):
    """Neighbouring values between which a metric rises (1), falls (-1), or shows no difference (0)."""

    sign: int
    rows: tuple[AxisPoint, ...]
    steps: tuple[_Step, ...]


def _parts(rows: Sequence[AxisPoint], steps: Sequence[_Step], metric: str, form: NumberFormat) -> list[_Part]:
    """Return the parts of an axis between which the course changes.

    A value belongs to a plateau as long as it shows no difference from the first of it: a slope of many small steps,
    none of them resolved, is no plateau.
    """
    known = {(step.start.label, step.end.label): step for step in steps}
    parts: list[_Part] = []
    for before, row in itertools.pairwise(rows):
        last = parts[-1] if parts else _Part(0, (before,), ())
        here = known.get((before.label, row.label))
        start = last.rows[0] if last.sign == 0 else before
        sign = _sign(here if start is before else _Step.of(start, row, metric), form)
        found = (here,) if here is not None else ()
        if sign == last.sign:
            parts[-1:] = [last._replace(rows=(*last.rows, row), steps=(*last.steps, *found))]
        else:
            parts.append(_Part(sign, (before, row), found))
    return parts


def _sign(step: _Step | None, form: NumberFormat) -> int:
    """Return which way a metric goes from one value to another: nowhere if it is not resolved, or not to be seen."""
    if step is None or not step.found.resolved:
        return 0
    texts = {form.value(row.summary.mean or 0.0, row.summary.ci95) for row in (step.start, step.end)}
    return 0 if len(texts) == 1 else 1 if step.found.mean > 0 else -1


def _course(parts: Sequence[_Part]) -> str:
    """Return ``rises``, ``falls``, ``turns`` or ``flat``."""
    signs = {part.sign for part in parts} - {0}
    if len(signs) == 2:
        return "turns"
    return ("rises" if 1 in signs else "falls") if signs else "flat"


# Where a metric passes a value along an axis: what is needed.


class Threshold(Question):
    """Where a metric passes a value along a numeric axis, for every combination of the other axes."""

    use: Literal["threshold"] = "threshold"
    metric: str = METRIC
    at_least: Any = Field(None, description="The value that the metric has to reach: 0.95, 95 %, 30 d.")
    at_most: Any = Field(None, description="The value that it must not pass.")
    along: str = Field(description="The axis of numbers along which it is sought.")
    over: Literal["runs", "parameters"] = Field(
        "runs",
        description="What it has to hold for: the unknown inputs at their central values, or nearly all of them.",
    )

    @model_validator(mode="after")
    def _has_one_value(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give at_least or at_most, one of them")
        return self

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
            return Answer(self.use, {"metric": metric, "along": self.along, "lines": []}, silent)
        level, is_least = self._level(metric), self.at_most is None
        is_spaced, unknown = is_log(table, self.along), self.over == "parameters"
        verdicts = [
            verdict_of(table, line, self.along, metric, level, is_log=is_spaced, is_least=is_least, is_unknown=unknown)
            for line in lines
        ]
        data = {
            "metric": metric,
            "at_least" if is_least else "at_most": level,
            "along": self.along,
            "over": self.over,
            "lines": [verdict.data() for verdict in verdicts],
        }
        rule = f"{capital(name_of(metric))}: fewer than two values of {table.title(self.along)} have a mean."
        return Answer(self.use, data, "" if any(len(verdict.rows) > 1 for verdict in verdicts) else rule)


# Who is best at each value of an axis, and between which values another one becomes the best.


class AxisStage(NamedTuple):
    """One value of the axis: who competes there, and who may be the best of all of them together.

    Parameters
    ----------
    order
        Those who compete and have a mean, best first.
    leaders
        The first, and those with the same values in every replication.
    open
        Those that may be best too; empty where it is resolved who is.
    ranking
        Of all together, as `ettrick.analysis.study.questions.best` has it; ``None`` of a single replication.
    """

    label: str
    number: float
    order: tuple[str, ...]
    leaders: tuple[str, ...]
    open: tuple[str, ...]
    mean: float
    ranking: Ranking | None
    replications: int
    cells: Mapping[str, Cell]

    @classmethod
    def of(
        cls, label: str, number: float, cells: Mapping[str, Cell], metric: str, *, is_lowest: bool
    ) -> AxisStage | None:
        """Return who is best at a value; ``None`` where fewer than two compete."""
        names, rows = list(cells), common_rows(list(cells.values()), metric)
        count = min((len(ratios) for ratios in rows), default=0)
        means = {name: mean_of(cell, metric, count) for name, cell in cells.items()}
        known = {name: mean for name, mean in means.items() if mean is not None}
        if len(known) < 2:
            return None
        ranking = ranking_of(rows, lowest=is_lowest, metric=metric)
        if ranking is None or len(ranking.order) < 2:
            order = tuple(sorted(known, key=lambda name: known[name] if is_lowest else -known[name]))
            return cls(label, number, order, order[:1], order[1:], known[order[0]], None, count, cells)
        order = tuple(names[place] for place in ranking.order)
        may_be = {names[place] for place in ranking.may_be_best}
        behind = dict(zip(order, ranking.behind, strict=True))
        others = [name for name in order[1:] if name in may_be]
        ties = tuple(name for name in others if behind[name] == (0, (0, 0)))
        rest = tuple(name for name in others if name not in ties)
        return cls(label, number, order, (order[0], *ties), rest, known[order[0]], ranking, count, cells)

    @property
    def is_resolved(self) -> bool:
        """Whether no other may be best."""
        return not self.open

    @property
    def may_be_best(self) -> tuple[str, ...]:
        """Those that may be best, in order of their means."""
        return tuple(name for name in self.order if name in self.leaders or name in self.open)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        second = None
        if self.ranking is not None:
            mean, interval = self.ranking.behind[1]
            second = {"mean": mean, "ci95": interval, "resolved": self.is_resolved}
        return {
            "value": self.label,
            "number": self.number,
            "best": self.order[0],
            "may_be_best": list(self.may_be_best),
            "order": list(self.order),
            "mean": self.mean,
            "ahead_of_second": second,
            "replications": self.replications,
        }


class Handover(NamedTuple):
    """Two values at which it is resolved that not the same is best."""

    before: AxisStage
    behind: AxisStage
    crossing: Crossing | None

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        found = self.crossing
        return {
            "from": self.before.order[0],
            "to": self.behind.order[0],
            "between": [self.before.label, self.behind.label],
            "at": None if found is None else found.at,
            "at_ci95": None if found is None else [found.low, found.high],
        }


class Race(NamedTuple):
    """Who is best along an axis."""

    at: dict[str, str]
    stages: tuple[AxisStage, ...]
    metric: str
    is_lowest: bool
    is_log: bool

    @property
    def handovers(self) -> list[Handover]:
        """Neighbours among the values at which it is resolved who is best, if not the same is best at them."""
        found: list[Handover] = []
        before: AxisStage | None = None
        for stage in self.stages:
            if not stage.is_resolved:
                continue
            if before is not None and not set(before.leaders) & set(stage.leaders):
                found.append(Handover(before, stage, self._crossing(before, stage)))
                before = stage
            # Where another one is level with the best it is not yet behind.
            elif before is None or set(stage.leaders) <= set(before.leaders):
                before = stage
        return found

    def _crossing(self, before: AxisStage, behind: AxisStage) -> Crossing | None:
        """Return where the best of one value is passed by that of another; ``None`` if a third may be between."""
        old, new = before.order[0], behind.order[0]
        between = [stage for stage in self.stages if before.number < stage.number < behind.number]
        if any(not set(stage.may_be_best) <= {*before.leaders, *behind.leaders} for stage in between):
            return None
        common = [stage for stage in self.stages if old in stage.cells and new in stage.cells]
        found = [
            (stage, versus(stage.cells[old], stage.cells[new], self.metric, stage.replications)) for stage in common
        ]
        known = [(stage, pair[0]) for stage, pair in found if pair is not None]
        sign = -1.0 if self.is_lowest else 1.0
        ends = [sorted(sign * end for end in pair.ci95 or (pair.mean, pair.mean)) for _, pair in known]
        curve = Curve(
            tuple(stage.number for stage, _ in known),
            tuple(sign * difference.mean for _, difference in known),
            tuple((low, high) for low, high in ends),
            self.is_log,
        )
        falling = (one for one in curve.crossings(0.0) if not one.rises)
        return next((one for one in falling if before.number <= known[one.before][0].number < behind.number), None)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "at": self.at,
            "best": [stage.data() for stage in self.stages],
            "crossings": [handover.data() for handover in self.handovers],
        }


# Which of several choices is best along a numeric axis, and where another one becomes the best.


class Crossover(Question):
    """Which value of one axis is best along another, and where another one becomes the best."""

    use: Literal["crossover"] = "crossover"
    metric: str = METRIC
    direction: Literal["highest", "lowest"] | None = Field(None, description="What is best; omitted: as the metric is.")
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
        is_lowest, is_spaced = is_lowest_best(metric, self.direction or ""), is_log(table, self.along)
        lines = [] if silent else lines_of(table, self.between, self.along)
        found = [self._race(table, line, metric, is_lowest=is_lowest, is_log=is_spaced) for line in lines]
        races = [race for race in found if len(race.stages) > 1]
        if not silent and not races:
            title = table.title(self.along)
            silent = f"Fewer than two values of {title} have results of several values of {table.title(self.between)}."
        data: dict[str, Any] = {"metric": metric, "between": self.between, "along": self.along, "lines": []}
        return Answer(self.use, data | {"lines": [race.data() for race in races]}, silent)

    def _race(self, table: StudyTable, line: AxisSlice[Cell], metric: str, *, is_lowest: bool, is_log: bool) -> Race:
        """Return who is best at each value of the axis."""
        who, where = table.position(self.between), table.position(self.along)
        fields: dict[tuple[float, str], dict[str, Cell]] = {}
        for cell in line.cells:
            if mean_of(cell, metric) is not None:
                value = cell.values[where]
                fields.setdefault((value.number or 0.0, value.label), {})[cell.values[who].label] = cell
        found = (
            AxisStage.of(label, number, cells, metric, is_lowest=is_lowest)
            for (number, label), cells in sorted(fields.items(), key=lambda pair: pair[0])
        )
        return Race(line.others, tuple(stage for stage in found if stage is not None), metric, is_lowest, is_log)
