"""The best combination, and others that may be; the front of several aims; differences from one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from ettrick.analysis.amounts import listed, name_of
from ettrick.analysis.results import answers
from ettrick.analysis.statistics.differences import ranking_of
from ettrick.analysis.statistics.estimates import contributions, t_quantile, with_width
from ettrick.analysis.study.amounts import AxisSlice
from ettrick.analysis.study.questions.along import reason_of
from ettrick.analysis.study.questions.question import (
    METRIC,
    Answer,
    Question,
    common_rows,
    is_lowest_best,
    labels_of,
    lines_of,
    mean_of,
    no_lines,
    silence,
    versus,
)
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    import numpy.typing as npt

    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.study.axis import Axis
    from ettrick.analysis.study.table import Cell, StudyTable
    from ettrick.sim import Ratio

    FloatArray = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Positions = npt.NDArray[np.intp]


class Best(Question):
    """The best combination, and others that may be as good: overall, or for each value of some axes."""

    use: Literal["best"] = "best"
    metric: str = METRIC
    direction: Literal["highest", "lowest"] | None = Field(
        None, description="Better direction [default: that of the metric]."
    )
    for_each: tuple[str, ...] = Field((), description="Axes for each value of which the best of the others is sought.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse names that are no axes."""
        for name in self.for_each:
            self._check_axis("for_each", name, axes)

    def answer(self, table: StudyTable) -> Answer:
        """Return the best cell, of each group the best one."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        if silent:
            return Answer(self.use, answers.BestAnswer(metric=metric, groups=[]).data(), silent)
        is_lowest = is_lowest_best(metric, self.direction or "")
        compared_axes = [name for name in table.axes if name not in self.for_each]
        groups = lines_of(table, *compared_axes) if self.for_each else [AxisSlice({}, table.running)]
        answer = answers.BestAnswer(
            metric=metric,
            direction="lowest" if is_lowest else "highest",
            groups=[_ranked_group(table, line, metric, is_lowest=is_lowest) for line in groups],
        )
        rule = f"No point has a mean of {name_of(metric)} over two replications or more."
        return Answer(self.use, answer.data(), "" if any(group.order for group in answer.groups) else rule)


def _ranked_group(table: StudyTable, line: AxisSlice[Cell], metric: str, *, is_lowest: bool) -> answers.RankedGroup:
    """Return the ranking of the cells of a line over the first replications that they have in common."""
    cells = [cell for cell in line.cells if cell.stated.metrics.get(metric)]
    rows = common_rows(cells, metric)
    ranking = ranking_of(rows, lowest=is_lowest, metric=metric) if rows else None
    if ranking is None:
        return answers.RankedGroup(at=line.fixed, best=None, order=[])
    labels = [labels_of(table, cell) for cell in cells]
    return answers.RankedGroup(
        at=line.fixed,
        best=labels[ranking.order[0]],
        may_be_best=[labels[index] for index in ranking.order[1:] if index in ranking.may_be_best],
        replications=len(rows[0]),
        replications_to_resolve=ranking.replications_to_resolve,
        order=[
            answers.RankedCell(
                at=labels[index],
                mean=mean_of(cells[index], metric, len(rows[0])) or 0.0,
                behind=distance,
                behind_ci95=with_width(interval),
            )
            for index, (distance, interval) in zip(ranking.order, ranking.behind, strict=True)
        ],
    )


# The front of several aims: what no other one is better than in everything, and how sure that is.

_NEAREST = 64
"""Rivals that are looked at first: most of what is not sure fails against one of them."""


class ParetoFront(NamedTuple):
    """Candidates by several aims.

    Parameters
    ----------
    members
        Positions of those that no other one is better than in everything by the means, in order of the first aim.
    sure
        For each member, whether it is resolved as better than each other candidate in something.
    maybe
        Positions of the others that none is resolved as better than in everything.
    """

    members: tuple[int, ...]
    sure: tuple[bool, ...]
    maybe: tuple[int, ...]


def front_of(aims: Sequence[FloatArray]) -> ParetoFront:
    """Return the front of k candidates.

    All paired differences hold together with a probability of 95 %: Student's quantile at ``1 - 0.05 / (pairs x aims)``
    (Bonferroni).

    Parameters
    ----------
    aims
        For each aim what the replications of each candidate contribute to its mean, (k, n), entry i of all from
        replication i; or one number each, (k,), of which there is no doubt. The lower the better.
    """
    means = np.stack([aim if aim.ndim == 1 else aim.mean(axis=1) for aim in aims], axis=-1)
    size = len(means)
    # In this order only what comes before a row can be better than it in everything.
    order = np.lexsort(means.T[::-1])
    members = _members(means, order)
    rivals = _Rivals(aims, means, 1 - 0.05 / max(size * (size - 1) // 2 * sum(aim.ndim > 1 for aim in aims), 1))
    front = np.array(members, dtype=np.intp)
    on_front = np.zeros(size, dtype=bool)
    on_front[front] = True
    maybe = [row for row in range(size) if not on_front[row] and not rivals.is_behind(row, front)]
    return ParetoFront(tuple(members), tuple(rivals.is_sure(row) for row in members), tuple(maybe))


def _members(means: FloatArray, order: Positions) -> list[int]:
    """Return the rows (k, m) that none is below somewhere, and nowhere above."""
    members: list[int] = []
    member_means = np.empty_like(means)
    for row in order.tolist():
        # Whatever is better in everything stands on the front itself, or behind one that does.
        ahead = member_means[: len(members)]
        if not ((ahead <= means[row]).all(axis=1) & (ahead < means[row]).any(axis=1)).any():
            member_means[len(members)] = means[row]
            members.append(row)
    return members


class _Sample:
    """An aim of which there are replications, (k, n)."""

    def __init__(self, values: FloatArray, confidence: float) -> None:
        count = values.shape[1]
        self.values, self.means = values, values.mean(axis=1)
        self.errors = values - self.means[:, None]
        self.squares = (self.errors**2).sum(axis=1)
        self.factor = np.inf
        if count > 1:
            self.factor = t_quantile(confidence, count - 1) ** 2 / (count * (count - 1))
        self.scale = float(np.sqrt(self.squares.mean() / count)) or 1.0

    def compared(self, row: int, rivals: Positions) -> FloatArray:
        """Return the sign of how far others are above one, if resolved; 0 if they never differ, NaN if not resolved.

        The squared errors of the differences are worked out from those of each and their products, which is fast; where
        rounding could matter to the verdict, from the differences themselves.
        """
        signs = np.full(len(rivals), np.nan)
        if np.isinf(self.factor):
            return signs
        apart = self.means[rivals] - self.means[row]
        both = self.squares[rivals] + self.squares[row]
        squares = both - 2 * self.errors[rivals] @ self.errors[row]
        slack = 1e-9 * both + 1e-18 * self.means[row] ** 2
        clear = apart**2 > self.factor * (squares + slack)
        signs[clear] = np.sign(apart[clear])
        close = np.flatnonzero(~clear & (apart**2 >= self.factor * (squares - slack)))
        signs[close] = self._compared(row, rivals[close])
        return signs

    def _compared(self, row: int, rivals: Positions) -> FloatArray:
        """Return the same from the differences in every replication."""
        gaps = self.values[rivals] - self.values[row]
        # What is the same but for the order of a sum is the same.
        gaps[np.abs(gaps) <= 1e-12 * np.abs(self.values[row])] = 0.0
        mean = gaps.mean(axis=1)
        squares = ((gaps - mean[:, None]) ** 2).sum(axis=1)
        signs = np.where(mean**2 > self.factor * squares, np.sign(mean), np.nan)
        signs[~gaps.any(axis=1)] = 0.0
        return signs


class _Rivals:
    """Paired comparisons of candidates, no more of them than are needed."""

    def __init__(self, aims: Sequence[FloatArray], means: FloatArray, confidence: float) -> None:
        self.means = means
        # A number is a sample of which all is equal.
        self.aims = [_Sample(aim if aim.ndim > 1 else np.column_stack((aim, aim)), confidence) for aim in aims]
        self.scales = np.array([aim.scale for aim in self.aims])

    def is_sure(self, row: int) -> bool:
        """Return whether one is better than each other in something, resolved; the most dangerous rivals come first."""
        lead = ((self.means - self.means[row]) / self.scales).max(axis=1)
        lead[row] = np.inf
        near = np.argpartition(lead, min(_NEAREST, len(lead) - 1))
        parts = (near[:_NEAREST], near[_NEAREST:])
        return all(self._beaten(row, part[part != row]).all() for part in parts)

    def is_behind(self, row: int, front: Positions) -> bool:
        """Return whether another one is better than one in something, and worse in nothing, both resolved."""
        ahead = (self.means <= self.means[row] + 1e-9 * np.abs(self.means[row])).all(axis=1)
        ahead[row] = False
        # Those of the front first: they are few, and mostly enough.
        first = front[ahead[front]]
        if self._beats(row, first).any():
            return True
        ahead[front] = False
        return bool(self._beats(row, np.flatnonzero(ahead)).any())

    def _beaten(self, row: int, rivals: Positions) -> Flags:
        """Return which others one is better than in some aim, resolved."""
        beaten = np.zeros(len(rivals), dtype=bool)
        for aim in self.aims:
            left = np.flatnonzero(~beaten)
            beaten[left] = aim.compared(row, rivals[left]) > 0
        return beaten

    def _beats(self, row: int, rivals: Positions) -> Flags:
        """Return which others are better than one in some aim, resolved, and the same or better in all of them."""
        some, every = np.zeros(len(rivals), dtype=bool), np.ones(len(rivals), dtype=bool)
        for aim in self.aims:
            left = np.flatnonzero(every)
            signs = aim.compared(row, rivals[left])
            some[left] |= signs < 0
            # What is not resolved is not a number.
            every[left] = signs <= 0
        return some & every


# Which combinations no other one is better than in everything: the front of several aims.


class Pareto(Question):
    """The combinations that no other one beats in two or three aims at once."""

    use: Literal["pareto"] = "pareto"
    aims: tuple[str, ...] = Field(alias="metrics", min_length=1, max_length=3, description="The metrics.")
    axes: tuple[str, ...] = Field((), max_length=2, description="Axes of numbers that are aims too, such as spares.")
    direction: dict[str, Literal["highest", "lowest"]] = Field(
        {}, description="Better direction, by name [default: that of a metric; the lowest of an axis]."
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be kept for the answer."""
        return self.aims

    @model_validator(mode="after")
    def _has_two_or_three(self) -> Self:
        names = (*self.aims, *self.axes)
        if not 2 <= len(set(names)) == len(names) <= 3:
            raise ValueError("give two or three aims, each once: metrics, or axes of numbers")
        for name in self.direction:
            if name not in names:
                raise RuleError(("direction", name), f"is none of the aims{suggest(name, names)}")
        return self

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what are no numeric axes, and axes among the metrics."""
        for name in self.aims:
            if name in axes:
                raise RuleError(("metrics",), f"{name} is an axis: name it under axes")
        for name in self.axes:
            self._check_axis("axes", name, axes, numeric=True)

    def answer(self, table: StudyTable) -> Answer:
        """Return the front, and who is on it with certainty."""
        silent = next((text for name in self.aims if (text := silence(table, name))), "")
        replications = {} if silent else {
            index: [cell.stated.metrics[name] for name in self.aims] for index, cell in enumerate(table.running)
            if all(cell.stated.metrics.get(name) for name in self.aims)
        }  # fmt: skip
        samples = samples_of(replications)
        if not silent and len(samples) < 2:
            silent = f"Fewer than two points have a mean of {listed([name_of(name) for name in self.aims])}."
        data: dict[str, Any] = {"metrics": self.aims, "axes": self.axes, "front": [], "may_be_too": []}
        if not silent:
            cells, count = [table.running[index] for index in samples], len(next(iter(samples.values()))[0])
            front = front_of(self._aims(table, cells, list(samples.values())))
            pairs = zip(front.members, front.sure, strict=True)
            data |= {
                "replications": count,
                "front": [self._entry(table, cells[row], count, certain=sure) for row, sure in pairs],
                "may_be_too": [self._entry(table, cells[row], count) for row in front.maybe],
            }
        return Answer(self.use, answers.ParetoAnswer.model_validate(data, strict=False).data(), silent)

    def _aims(
        self, table: StudyTable, cells: Sequence[Cell], samples: Sequence[Sequence[FloatArray]]
    ) -> list[FloatArray]:
        """Return the aims, the lower the better: of metrics each replication (k, n), of axes the number (k,)."""
        aims = []
        for place, name in enumerate(self.aims):
            sign = 1.0 if is_lowest_best(name, self.direction.get(name, "")) else -1.0
            aims.append(sign * np.array([values[place] for values in samples]))
        for name in self.axes:
            sign = -1.0 if self.direction.get(name) == "highest" else 1.0
            numbers = [cell.values[table.position(name)].number for cell in cells]
            aims.append(sign * np.array(numbers, dtype=np.float64))
        return aims

    def _entry(self, table: StudyTable, cell: Cell, count: int, **certain: bool) -> answers.FrontCell:
        """Return a cell with its means over the first replications, and its numbers of the axes that are aims."""
        estimates = {name: cell.stated.estimate(name, count) for name in self.aims}
        means = {name: {"mean": mean.mean, "mean_ci95": mean.interval} for name, mean in estimates.items()}
        numbers = {name: cell.values[table.position(name)].number for name in self.axes}
        return answers.FrontCell.model_validate({"at": labels_of(table, cell), **means, **numbers, **certain})


def samples_of(replications: Mapping[int, Sequence[Sequence[Ratio]]]) -> dict[int, list[FloatArray]]:
    """Return what the first common replications contribute to each metric, of candidates that have a mean of all."""
    count = min((len(ratios) for columns in replications.values() for ratios in columns), default=0)
    samples = {}
    for candidate, columns in replications.items():
        values = [sample for ratios in columns if (sample := contributions(ratios[:count])) is not None]
        if len(values) == len(columns):
            samples[candidate] = values
    return samples


# What each value of an axis changes, compared with one of them.


class Compare(Question):
    """The effect of each value of an axis, compared with one of them, on the same failures."""

    use: Literal["compare"] = "compare"
    metric: str = METRIC
    axis: str = Field(description="The axis whose values are compared.")
    against: str = Field("", description="Label of the value that the others are compared with; omitted: the first.")
    at_best: bool = Field(
        False, description="Whether each value has its own best values of the other axes; omitted: all have the same."
    )

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no axis, or no value of it."""
        self._check_axis("axis", self.axis, axes)
        axis = axes[self.axis]
        if self.against and axis.choices is not None:
            labels = [value.label for value in axis.values(self.axis)]
            if self.against not in labels:
                raise RuleError(
                    ("against",), f"unknown value '{self.against}' of {self.axis}{suggest(self.against, labels)}"
                )

    def answer(self, table: StudyTable) -> Answer:
        """Return the differences, for every combination of the other axes."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        lines = [self._at_best(table, metric)] if self.at_best else lines_of(table, self.axis)
        if not silent and not any(line.missing for line in lines):
            silent = no_lines(table, lines, self.axis)
        compared = [self._compared(table, line, metric) for line in ([] if silent else lines)]
        answer = answers.CompareAnswer(metric=metric, axis=self.axis, lines=[line for line, _ in compared])
        is_known = any(change for line in answer.lines for change in line.differences.values())
        reasons = [reason for reason in (silent, *(reason for _, reason in compared)) if reason]
        return Answer(self.use, answer.data(), "" if is_known or not reasons else reasons[0])

    def _at_best(self, table: StudyTable, metric: str) -> AxisSlice[Cell]:
        """Return the best cell with each value of the axis: the first one where none has a mean."""
        position, sign = table.position(self.axis), -1.0 if is_lowest_best(metric) else 1.0
        best: dict[str, Cell] = {}
        for cell in table.cells:
            label, mean = cell.values[position].label, mean_of(cell, metric)
            rival = mean_of(best[label], metric) if label in best else None
            if label not in best or (mean is not None and (rival is None or sign * mean > sign * rival)):
                best[label] = cell
        cells = tuple(best.values())
        return AxisSlice(
            {}, tuple(cell for cell in cells if not cell.trouble), tuple(cell for cell in cells if cell.trouble)
        )

    def _compared(self, table: StudyTable, line: AxisSlice[Cell], metric: str) -> tuple[answers.ComparedLine, str]:
        """Return the differences of one line, and why the first that is missing is; empty without one."""
        position, title = table.position(self.axis), table.title(self.axis)
        cells = {cell.values[position].label: cell for cell in (*line.cells, *line.missing)}
        base = self.against or next(iter(cells))
        differences: dict[str, DifferenceSummary | None] = {}
        reason = ""
        if base not in cells:
            reason = f"{base} is no value of {title}{suggest(base, cells)}."
        elif mean_of(cells[base], metric) is None:
            why = reason_of(cells[base], metric)
            reason = f"{title} = {base} has no {name_of(metric)} to compare with: {why}."
        else:
            changes = {label: versus(cell, cells[base], metric) for label, cell in cells.items() if label != base}
            differences = {label: None if change is None else change[0] for label, change in changes.items()}
            reason = next((f"{title} = {label}: {_silence(cells[label], metric)}."
                           for label, change in changes.items() if change is None), "")  # fmt: skip
        best = {label: labels_of(table, cell) for label, cell in cells.items()} if self.at_best else {}
        at_best = {"best_at": best} if best else {}
        return answers.ComparedLine(at=line.fixed, against=base, differences=differences, **at_best), reason


def _silence(cell: Cell, metric: str) -> str:
    """Return why a cell cannot be compared, in words."""
    if mean_of(cell, metric) is None:
        return f"no {name_of(metric)} ({reason_of(cell, metric)})"
    return "no interval of the difference, for there are fewer than two common replications"
