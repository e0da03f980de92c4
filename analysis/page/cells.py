"""The cells of a study: its axes, the lines that cells make along them, and why a cell has no mean."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ettrick.analysis.amounts import MetricFormat, capital, ends_of, label_text, number_of, phrase, shown
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.page.charts.data import MEAN95, ChartAxis, Interval
from ettrick.analysis.parts import CellMetric
from ettrick.analysis.study.amounts import AxisSlice, is_log_spaced
from ettrick.sim import units
from ettrick.sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.page.charts.data import Range
    from ettrick.analysis.parts import ControlledDifference, DifferenceSummary, MetricSummary
    from ettrick.analysis.results.models import Shortfall
    from ettrick.analysis.results.studies import CellSummary, SweepDocument

_FEW_TICKS = 9
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?")


class ChosenAxis(NamedTuple):
    """An axis whose values were chosen."""

    # name, title: its key, and what it is called
    name: str
    title: str
    # labels, numbers: its values as text and in SI units, in order of the study; numbers are ``None`` without an
    # order
    labels: tuple[str, ...]
    numbers: tuple[float | None, ...]
    noun: str = ""  # what its values count; empty where they count nothing

    @property
    def is_numeric(self) -> bool:
        """Whether its values are different numbers."""
        return None not in self.numbers and len(set(self.numbers)) == len(self.numbers)

    @property
    def values(self) -> list[tuple[str, float]]:
        """The labels with their numbers, ascending; in order of the study without numbers."""
        numbers = (number or 0.0 for number in self.numbers)
        return sorted(zip(self.labels, numbers, strict=True), key=lambda pair: pair[1])

    @property
    def is_log(self) -> bool:
        """Whether its values are spaced more evenly by factors than by steps."""
        return is_log_spaced(sorted(number for number in self.numbers if number is not None))

    @property
    def size(self) -> float:
        """The SI value of one unit of the picture's axis: that of the labels."""
        return _written(self)[0]

    @property
    def scale(self) -> ChartAxis:
        """The axis in a picture: labelled as the study writes its values."""
        size, unit = _written(self)
        every = max(1, math.ceil(len(self.labels) / _FEW_TICKS))
        ticks = tuple((number / size, label_text(label)) for label, number in self.values[::every])
        title = capital(self.title)
        if unit and all(label.endswith(f" {unit}") for _, label in ticks):
            ticks = tuple((place, label.removesuffix(f" {unit}")) for place, label in ticks)
            title = f"{title} [{unit}]"
        return ChartAxis(title, self.is_log, ticks)

    def worded(self, label: str) -> str:
        """Return a value in a short name: with the title where the label is a number alone."""
        return self.phrase(label) if _NUMBER.match(label) else label_text(label)

    def phrase(self, label: str) -> str:
        """Return a value in words."""
        return phrase(self.title, label, self.noun)


def axes_of(content: SweepDocument) -> list[ChosenAxis]:
    """Return the axes of a sweep that were chosen and have several values."""
    return [
        ChosenAxis(
            name,
            axis.title,
            tuple(value.label for value in axis.values),
            tuple(value.number for value in axis.values),
            axis.noun,
        )
        for name, axis in content.axes.items()
        if not axis.unknown and len(axis.values) > 1
    ]


_NOTHING = CellMetric.model_construct(
    mean=None, mean_ci95=None, method=None, std=None, p05=None, p50=None, p95=None, band90=None, replications=0,
    censored=0, never_started=0,
)  # fmt: skip


class SummarizedCell(Protocol):
    """A cell of a sweep, a variant of a comparison, or a setting of an optimisation: something with metrics."""

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Summaries by metric; null where there is none."""


_Cell = TypeVar("_Cell", bound=SummarizedCell)


def summary_of(cell: SummarizedCell, metric: str) -> CellMetric | MetricSummary:
    """Return a metric of a cell; all of it is ``None`` where the cell does not have the metric."""
    return cell.metrics.get(metric) or _NOTHING


def running(content: SweepDocument) -> list[CellSummary]:
    """Return the cells of a sweep that have results."""
    return [cell for cell in content.cells if cell.status == "ok"]


def mean_of(cell: SummarizedCell, metric: str) -> float | None:
    """Return the mean of a metric of a cell; ``None`` where there is none."""
    return summary_of(cell, metric).mean


def best_of(cells: Sequence[_Cell], metric: str) -> list[_Cell]:
    """Return the cells that have a mean of a metric, best first; of equal ones the first of the study first."""
    sign = 1 if lower_is_better(metric) else -1
    means = [(sign * mean, cell) for cell in cells if (mean := mean_of(cell, metric)) is not None]
    return [cell for _, cell in sorted(means, key=lambda pair: pair[0])]


def place_of(cell: CellSummary, axes: Sequence[ChosenAxis]) -> str:
    """Return where a cell is, in words: ``24 hot spares, median repair 6 h``."""
    return ", ".join(axis.phrase(cell.values[axis.name]) for axis in axes)


def missing_text(cell: CellSummary, metric: str) -> str:
    """Return why a cell has no mean of a metric."""
    if cell.status != "ok":
        return status_text(cell)
    summary = cell.metrics.get(metric)
    if summary is None:
        return "not known of this scenario"
    if metric == "time_to_work" and summary.censored:
        return f"unfinished in {summary.censored} of {number_of(summary.replications, 'run')}"
    if metric.startswith("mtti"):
        return "no interruption in any run"
    return "nothing to measure in any run"


def status_text(cell: CellSummary) -> str:
    """Return what became of a cell that has no results."""
    return {"infeasible": "cannot run"}.get(cell.status, str(cell.status))


def lines_along(content: SweepDocument, axis: ChosenAxis) -> list[AxisSlice[CellSummary]]:
    """Return the lines along an axis that have two cells with results or more, in order of the study."""
    fixed = {entry.name: entry for entry in axes_of(content) if entry.name != axis.name}
    groups: dict[tuple[str, ...], dict[str, CellSummary]] = {}
    for cell in running(content):
        groups.setdefault(tuple(cell.values[name] for name in fixed), {})[cell.values[axis.name]] = cell
    index = {label: position for position, label in enumerate(axis.labels)}
    lines = []
    for labels, cells in groups.items():
        values = dict(zip(fixed, labels, strict=True))
        order = sorted(cells.items(), key=lambda pair: (pair[1].numbers[axis.name] or 0.0, index[pair[0]]))
        name = ", ".join(fixed[key].worded(label) for key, label in values.items())
        lines.append(AxisSlice(values, tuple(cell for _, cell in order), name=name))
    return [line for line in lines if len(line.cells) > 1]


def share_of_lines(content: SweepDocument, axis: ChosenAxis) -> float:
    """Return which share of the cells with results is on a line along an axis."""
    cells = len(running(content))
    return sum(len(line.cells) for line in lines_along(content, axis)) / cells if cells else 0.0


def _written(axis: ChosenAxis) -> tuple[float, str]:
    """Return the unit in which the labels are written: its size in SI, and its name.

    What has several units is in the one in which times of this size are stated; what has none is as it is.
    """
    parts = [part for pair in zip(axis.labels, axis.numbers, strict=True) for part in _parts(*pair)]
    names = {name for *_, name in parts}
    if len(parts) < len(axis.labels):
        return 1.0, ""
    sizes = [number / value for value, number, _ in parts if value]
    if sizes and len(names) == 1 and all(math.isclose(size, sizes[0], rel_tol=1e-3) for size in sizes):
        return sizes[0], names.pop()
    largest = max(abs(number) for _, number, _ in parts) if names <= units.DURATION.units.keys() else 0.0
    return next((size for size in (DAY, HOUR, MINUTE) if largest >= size), 1.0), ""


def _parts(label: str, number: float | None) -> Iterator[tuple[float, float, str]]:
    """Yield the number that a label begins with, what it is in SI, and the unit behind it, where all are known."""
    match = _NUMBER.match(label)
    if match is not None and number is not None:
        yield float(match[0].replace(",", "")), number, label[match.end() :].strip()


# ----------------------------------------
# Values that questions of a study ask a metric to reach.


class TargetLevel(NamedTuple):
    """A value that a metric has to reach, or must not pass."""

    height: float  # in the unit that is shown
    name: str  # what it is called: ``at least 95 %``


def levels_of(content: SweepDocument, axis: ChosenAxis, metric: MetricFormat) -> tuple[TargetLevel, ...]:
    """Return the values that questions ask of a metric along an axis, each once."""
    levels: dict[tuple[str, float], TargetLevel] = {}
    for answer in content.answers:
        data = answer.data
        if answer.use != "threshold" or data.get("metric") != metric.metric or data.get("along") != axis.name:
            continue
        for key, word in (("at_least", "at least"), ("at_most", "at most")):
            value = data.get(key)
            if isinstance(value, int | float):
                name = f"{word} {metric.form.exact(value)}"
                levels.setdefault((key, value), TargetLevel(value / metric.form.size, name))
    return tuple(levels.values())


# ----------------------------------------
# Metrics in the units that readers see, as numbers for pictures and as texts for tables.


def shown_of_cells(cells: Iterable[SummarizedCell], metric: str, currency: str | None = None) -> MetricFormat:
    """Return how a metric of cells of a study is shown."""
    return shown(metric, [mean_of(cell, metric) for cell in cells], currency)


def cell_mean(cell: SummarizedCell, metric: MetricFormat) -> str:
    """Return the mean of a cell with the digits that its interval deserves; empty without one."""
    return metric.mean(cell.metrics.get(metric.metric))


def has_bands(cells: Iterable[SummarizedCell], metric: str) -> bool:
    """Return whether any cell has a band of what the unknown inputs may be."""
    return any(summary_of(cell, metric).band90 for cell in cells)


def band_text(cell: CellSummary, metric: MetricFormat) -> str:
    """Return the band of what the unknown inputs of a cell may be, or why there is none."""
    band = summary_of(cell, metric.metric).band90
    if band is not None and None not in band:
        return metric.range(band) or "does not move"
    return "unfinished in some draws" if metric.metric == "time_to_work" else "not known for all draws"


def bar(name: str, metric: MetricFormat, cell: SummarizedCell, note: str = "") -> Interval:
    """Return the mean of a cell in a picture, with its interval and the band of what the unknown inputs may be."""
    summary = summary_of(cell, metric.metric)
    return Interval(name, metric.of(summary.mean), metric.ends(summary.mean_ci95), metric.ends(summary.band90), note)


def by_controls(difference: DifferenceSummary) -> ControlledDifference | None:
    """Return a difference with control variates where these alone resolve it; ``None`` elsewhere."""
    controlled = None if difference.resolved else difference.controlled
    return None if controlled is None or controlled.ci95[0] <= 0 <= controlled.ci95[1] else controlled


def gap_bar(
    name: str, metric: MetricFormat, difference: DifferenceSummary | Shortfall, note: str, pale: Range | None = None
) -> Interval:
    """Return a difference of a metric in a picture, with its interval."""
    return Interval(name, metric.of(difference.mean), metric.gaps(difference.ci95), pale, note)


MOVED = f"{MEAN95}, moved to the difference"


def moved(metric: MetricFormat, ends: Sequence[float | None] | None, best: float, *, is_lowest: bool) -> Range | None:
    """Return the interval of a mean as that of how far it is behind a best mean that is taken as known."""
    interval = ends_of(ends)
    return interval and metric.gaps(sorted((end - best) * (1 if is_lowest else -1) for end in interval))
