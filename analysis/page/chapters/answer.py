"""An answer of a study: its numbers with their places, the names of its axes and values, and its pictures."""

from __future__ import annotations

import functools
import re
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from ettrick.analysis.amounts import (
    COUNT,
    GPU_YEARS,
    MetricFormat,
    NumberFormat,
    capital,
    ends_of,
    label_text,
    name_of,
    number_of,
    people_form,
    time_form,
)
from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.page.cells import MOVED, axes_of, bar, shown_of_cells, summary_of
from ettrick.analysis.page.chapters.curves import curves_picture, known_lines
from ettrick.analysis.page.charts.data import GAP95, ChartAxis, FrontChart, FrontPoint, Interval, Intervals
from ettrick.analysis.page.first_screen import equal_within, more_runs
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import MOST_AMOUNTS, Figure, amounts_in, grid, plain
from ettrick.analysis.page.sourced import (
    SourcedEstimate,
    SourcedNumber,
    SourceDocument,
    apart,
    line,
    listed,
    number,
    sentence,
    span,
)
from ettrick.analysis.results.answers import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from ettrick.analysis.page.cells import ChosenAxis
    from ettrick.analysis.page.model import Column, TableBlock, Words
    from ettrick.analysis.parts import ControlledDifference, DifferenceSummary
    from ettrick.analysis.results.studies import SweepDocument

    FloatArray = npt.NDArray[np.float64]
    Draw = Callable[[str], Figure | None]

_OF_REQUESTED = ("ettr", "scheduling_goodput")  # shares of the GPU-time that jobs ask for
_RATE = re.compile(r"failures\.\d+\.scale")
_WITHOUT_ARTICLE = ("goodput", "training speed")

# Runs from which on it is stated how many would be enough: the spread of fewer is known to a factor of two.
_FEWEST_FIRM = 10


class AnswerText(NamedTuple):
    """A sentence that answers a question, a short form for the title of its picture, and the cells it speaks of."""

    answer: Words  # a sentence for who decides
    title: Words  # the same in short: what the picture says
    # cell, rival: the best combination and the one to compare it with; ``None`` where there is none
    cell: int | None = None
    rival: int | None = None
    band: Words = ()  # how far what is not known exactly moves it; empty where the answer does not tell
    doubt: Words = ()  # how sure it is, where that is not stated as of others; empty elsewhere
    caveats: tuple[Words, ...] = ()  # what limits it, such as a best value at the end of its range
    picture: Draw = lambda _: None  # what draws it, given its title; ``None`` where there is nothing to show
    table: TableBlock | None = None  # all combinations, where the sentence leaves some out or says less of them

    @property
    def point(self) -> Words:
        """The title as a sentence."""
        return sentence(self.title)

    def drawn(self, key: str = "the-answer") -> Figure | None:
        """Return the picture; ``None`` where there is nothing to show."""
        figure = self.picture(capital(plain(self.title).replace("“", "").replace("”", "")))
        return None if figure is None else replace(figure, key=key)


IN_TIME = "p_finish_by"  # of a single run it is 0 or 1, which does not scatter
MOST_NAMED = 2  # rivals that a sentence names; of more it tells how many
WORDS = 45  # words of an answer at most, where it may leave out what its table has


def brief(first: Words, rest: Sequence[Words], end: Words = (), *, before: str = "; ") -> tuple[Words, ...]:
    """Return the parts of a sentence with as many of some parts as a headline takes: all, the first and the last, one.

    It takes `WORDS` words and `MOST_AMOUNTS` results.
    """
    for chosen in (list(rest), [*rest[:1], *rest[-1:]], rest[-1:]):
        parts = (first, *((before, listed(chosen, before)) if chosen else ()), end)
        if is_brief(line(*parts)):
            return parts
    return first, end


def is_brief(words: Words) -> bool:
    """Return whether a headline may say as much."""
    return len(plain(words).split()) <= WORDS and amounts_in(words) <= MOST_AMOUNTS


_ASKED = {
    "best": "Best",
    "compare": "Change of",
    "crossover": "Where the best changes:",
    "pareto": "Trade-off of",
    "sensitivity": "Largest effects on",
    "threshold": "Requirements for",
    "trend": "Trend of",
}


def asked_text(question: AnsweredQuestion[Any]) -> str:
    """Return what was asked, in a few words."""
    content, data = question.content, question.data
    if content["use"] not in _ASKED:  # of another package
        return capital(content["use"].replace("-", " "))
    level = next((f"{key.replace('_', ' ')} {question.form.exact(data[key])}" for key in ("at_least", "at_most")
                  if key in data), "")  # fmt: skip
    ways = [(key, word) for key, word in (("axis", "by"), ("between", "between"), ("along", "along"),
                                          ("for_each", "for each value of")) if content.get(key)]  # fmt: skip
    names = [[content[key]] if isinstance(content[key], str) else content[key] for key, _ in ways]
    parts = [f"{word} {' and '.join(map(question.title, axes))}" for (_, word), axes in zip(ways, names, strict=True)]
    what = " and ".join(map(name_of, content.get("metrics") or data.get("metrics") or [question.metric]))
    over = ["with unknown inputs"] if content.get("over") == "parameters" else []
    at_best = ", each at its best" if content.get("at_best") else ""
    return " ".join(part for part in (_ASKED[content["use"]], what, level, *parts, *over) if part) + at_best


MOST_ROWS = 60  # cells that the table has at most


# ----------------------------------------
# Means over the runs of a study, from its table of results.

_FILE = "results.csv"


@dataclass(frozen=True)
class CellRows:
    """The rows of ``results.csv``, by cell."""

    rows: Sequence[Mapping[str, str]] = ()

    @functools.cached_property
    def _places(self) -> dict[tuple[int, bool], list[int]]:
        """Positions of the rows of each cell, at the central values of unknown inputs and at drawn ones."""
        positions: dict[tuple[int, bool], list[int]] = {}
        for place, row in enumerate(self.rows):
            positions.setdefault((int(row["cell"]), row["draw"] != "0"), []).append(place)
        return positions

    def mean(self, cell: int | None, column: str, *, drawn: bool = False) -> SourcedNumber | None:
        """Return the mean of a column over the runs of a cell; ``None`` where a run has no value, or there is none."""
        places = [] if cell is None else self._places.get((cell, drawn), [])
        texts = [self.rows[place].get(column, "") for place in places]
        if not places or not all(texts) or places[-1] - places[0] + 1 != len(places):
            return None
        source = f"{_FILE}#{places[0]}-{places[-1]}/{column}"
        return SourcedNumber(statistics.fmean(map(float, texts)), (source,))

    def by_draw(self, cell: int, column: str) -> list[float]:
        """Return the mean of a column in each draw of the unknown inputs."""
        draws: dict[str, list[float]] = {}
        for place in self._places.get((cell, True), []):
            draws.setdefault(self.rows[place]["draw"], []).append(float(self.rows[place][column]))
        return [statistics.fmean(values) for values in draws.values()]


# ----------------------------------------
# An answer of the document of a sweep, and what its metric, its axes and their values are called.

# Combinations of one axis that a sentence names; where each has the values of several axes it is half of that.
_MOST_OR = 4


_Data = TypeVar("_Data")
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class AnsweredQuestion(Generic[_Data]):
    """An answer of the document of a sweep, and what its words are."""

    places: SourceDocument
    position: int
    rows: CellRows = field(default_factory=CellRows)
    _shown: dict[str, MetricFormat] = field(default_factory=dict, init=False)  # by metric, as it is asked for
    _people: dict[str, MetricFormat] = field(default_factory=dict, init=False)

    @property
    def document(self) -> SweepDocument:
        """All of it."""
        document: SweepDocument = self.places.content
        return document

    @property
    def content(self) -> Mapping[str, Any]:
        """The question as the study states it."""
        answer = self.document.answers[self.position]
        return {"use": answer.use, **(answer.model_extra or {})}

    @property
    def data(self) -> Mapping[str, Any]:
        """The numbers behind it, as JSON has them."""
        return self.document.answers[self.position].data

    @functools.cached_property
    def answer(self) -> _Data:
        """The numbers behind it."""
        return cast("_Data", answer_of(self.document.answers[self.position]))

    @property
    def metric(self) -> str:
        """The metric of the question; of several the first."""
        name = self.data.get("metric") or (self.data.get("metrics") or self.document.metrics)[0]
        return str(name)

    @property
    def is_lowest(self) -> bool:
        """Whether less is better."""
        return self.is_lowest_best(self.metric)

    @property
    def most(self) -> str:
        """The direction of the best: ``highest`` or ``lowest``."""
        return "lowest" if self.is_lowest else "highest"

    def is_lowest_best(self, metric: str) -> bool:
        """Return whether less of a metric is better."""
        directions = self.content.get("direction")
        stated = directions.get(metric) if isinstance(directions, dict) else directions
        if stated:
            return bool(stated == "lowest")
        return lower_is_better(metric) or metric in self.document.axes

    @property
    def what(self) -> str:
        """The metric in words, without an article."""
        return metric_words(self.metric).removeprefix("the ")

    @property
    def subject(self) -> str:
        """The metric as the subject of a sentence."""
        return self.what if self.what.startswith(_WITHOUT_ARTICLE) else f"the {self.what}"

    @functools.cached_property
    def form(self) -> NumberFormat:
        """The format of the metric."""
        return self.form_of(self.metric)

    def form_of(self, metric: str) -> NumberFormat:
        """Return how a metric is stated."""
        means = [summary_of(cell, metric).mean for cell in self.document.cells]
        return people_form(metric, means, self.document.currency or "")

    def shown(self, metric: str = "") -> MetricFormat:
        """Return how a metric is shown in a table."""
        metric = metric or self.metric
        if metric not in self._shown:
            self._shown[metric] = shown_of_cells(self.document.cells, metric, self.document.currency)
        return self._shown[metric]

    def people(self, metric: str = "") -> MetricFormat:
        """Return how a metric is shown in a picture, in the units of its sentences."""
        metric = metric or self.metric
        if metric not in self._people:
            words = metric_words(metric).removeprefix("the ")
            self._people[metric] = MetricFormat(metric, words, self.form_of(metric))
        return self._people[metric]

    def text(self, estimate: SourcedEstimate | None, metric: str = "") -> str:
        """Return a mean with its interval for a table; empty without one."""
        return "" if estimate is None else self.shown(metric).form.value(estimate.mean.value, estimate.interval)

    @functools.cached_property
    def varying(self) -> tuple[str, ...]:
        """The axes that were chosen, and of which the cells have more than one value; all that were if none has."""
        axes = self.document.axes
        chosen = tuple(name for name in axes if not axes[name].unknown)
        return tuple(name for name in chosen if len(axes[name].values) > 1) or chosen

    @functools.cached_property
    def _cells(self) -> dict[tuple[str, ...], int]:
        cells = reversed(self.document.cells)
        return {tuple(cell.values[name] for name in self.varying): cell.cell for cell in cells}

    def at(self, *keys: str | int) -> SourcedNumber | None:
        """Return a number of the answer; ``None`` where there is none."""
        return self.places.at("answers", self.position, "data", *keys)

    def stated(self, *keys: str | int) -> SourcedNumber:
        """Return a number that the answer has in any case."""
        return self.places.stated("answers", self.position, "data", *keys)

    def ends(self, *keys: str | int) -> tuple[SourcedNumber, SourcedNumber] | None:
        """Return the ends of an interval of the answer; ``None`` where there is none."""
        return self.places.ends("answers", self.position, "data", *keys)

    def difference(self, *keys: str | int, interval: str = "ci95") -> SourcedEstimate | None:
        """Return a difference of the answer; ``None`` where there is none."""
        return self.places.estimate("answers", self.position, "data", *keys, interval=interval)

    def cell(self, labels: Mapping[str, str]) -> int | None:
        """Return the number of a cell by its labels; ``None`` where there is no such cell."""
        return self._cells.get(tuple(labels.get(name, "") for name in self.varying))

    def mean(self, cell: int | None, metric: str = "") -> SourcedEstimate | None:
        """Return the mean of a cell; ``None`` where it has none."""
        return None if cell is None else self.places.estimate("cells", cell, "metrics", metric or self.metric)

    def axis(self, name: str) -> ChosenAxis | None:
        """Return an axis; ``None`` if it has one value only."""
        return next((axis for axis in axes_of(self.places.content) if axis.name == name), None)

    def is_numeric(self, name: str) -> bool:
        """Return whether the values of an axis are numbers."""
        axis = self.axis(name)
        return axis is not None and axis.is_numeric

    def axis_form(self, name: str, at: float) -> NumberFormat:
        """Return how a place on an axis is stated."""
        axis, labels = self.axis(name), [entry.label for entry in self.document.axes[name].values]
        if all(label.isdigit() for label in labels):
            return NumberFormat("", is_whole=True)
        units = {label.partition(" ")[2] for label in labels}
        if units <= {"s", "min", "h", "d"}:
            return time_form(at)
        return NumberFormat(units.pop() if len(units) == 1 else "", 1.0 if axis is None else axis.size)

    def title(self, axis: str) -> str:
        """Return what an axis is called."""
        return self.document.axes[axis].title or axis

    def value(self, axis: str, label: str) -> Words:
        """Return a value without the name of its axis: a count as people write it, a name in quotes."""
        for place, entry in enumerate(self.document.axes[axis].values):
            if entry.label == label and label.isdigit() and entry.number == int(label):
                return (number(self.places.stated("axes", axis, "values", place, "number"), COUNT),)
        return (label,) if label[:1].isdigit() or label[:1] in "+-." else (f"“{label}”",)

    def is_counted(self, axis: str) -> bool:
        """Return whether the study says what the values of an axis count, such as hot spares."""
        return bool(self.document.axes[axis].noun)

    def is_factor(self, axis: str) -> bool:
        """Return whether an axis multiplies failure rates of the scenario."""
        paths = self.document.axes[axis].paths
        return bool(paths) and all(_RATE.fullmatch(path) for path in paths)

    def with_name(self, axis: str, value: Words) -> Words:
        """Return a value with the name of its axis: ``12 hot spares``, ``restart 60 s``, ``recovery “cold”``."""
        title = self.title(axis)
        if self.is_counted(axis):
            return line(value, f" {self.document.axes[axis].noun}")
        if self.is_factor(axis):
            return (f"the stated {title}",) if plain(value) == "1" else line(value, f" times the {title}")
        return line(f"{title} ", value)

    def named(self, axis: str, label: str) -> Words:
        """Return one value with the name of its axis."""
        return self.with_name(axis, self.value(axis, label))

    def extent(self, axis: str, first: str, last: str) -> Words:
        """Return from where to where something goes on an axis, with the name of the axis once."""
        start, end = self.value(axis, first), self.value(axis, last)
        if self.is_factor(axis):
            return line("from ", start, " to ", end, f" times the {self.title(axis)}")
        if self.is_counted(axis):
            return line("from ", start, " to ", self.with_name(axis, end))
        return line("from ", self.with_name(axis, start), " to ", end)

    def where(self, labels: Mapping[str, str], *axes: str) -> Words:
        """Return the values of some axes, or of all that vary, with the names of the axes."""
        names = [name for name in self.varying if name in labels and (not axes or name in axes)]
        return listed([self.named(name, labels[name]) for name in names])

    def some(self, places: Sequence[Mapping[str, str]], *axes: str, last: str = " or ") -> Words:
        """Return combinations as a list; the name of an axis is said once, and names do without it."""
        names = [name for name in self.varying if (name in axes if axes else name in places[0])]
        most = _MOST_OR if len(names) == 1 else _MOST_OR // 2
        rest: list[Words] = [("more" if last == " and " else "others",)] if len(places) > most else []
        if len(names) != 1:
            return listed([*(self.where(labels, *names) for labels in places[:most]), *rest], last)
        values = [*(self.value(names[0], labels[names[0]]) for labels in places[:most]), *rest]
        words = listed(values, last)
        return words if plain(values[0]).startswith("“") else self.with_name(names[0], words)

    def short(self, places: Sequence[Mapping[str, str]], *axes: str) -> str:
        """Return the same for a row or a legend, without quotes."""
        return plain(self.some(places, *axes)).replace("“", "").replace("”", "")

    def apart(self, difference: SourcedEstimate, base: SourcedNumber | None = None) -> Words:
        """Return the size of a difference of the metric: of shares in points, else in percent of a base."""
        return apart(difference, self.form, base)

    def change_text(self, change: DifferenceSummary | ControlledDifference) -> str:
        """Return a difference of the metric with its interval, for a table."""
        return self.shown().form.change(change.mean, ends_of(change.ci95))

    def moved(self, change: SourcedEstimate, base: SourcedNumber | None) -> Words:
        """Return whether the metric rises or falls, and by how much."""
        return line("rises by " if change.mean.value > 0 else "falls by ", self.apart(change, base))

    def gpu_years(self, difference: SourcedEstimate, cell: int | None, rival: int | None) -> Words:
        """Return a difference of a share of requested time in a year; empty between jobs of unlike or unknown size."""
        gpus, rival_gpus = (None if at is None else self.places.at("cells", at, "gpus") for at in (cell, rival))
        if gpus is None or rival_gpus is None or gpus.value != rival_gpus.value or self.metric not in _OF_REQUESTED:
            return ()
        size = difference.changed(lambda change: (change * -1 if difference.mean.value < 0 else change) * gpus)
        return (" (", *span(size, GPU_YEARS), " a year)")

    def more_runs(self, *keys: str | int) -> Words:
        """Return how many replications would decide what is too close to call."""
        have, needed = self.at(*keys, "replications"), self.at(*keys, "replications_to_resolve")
        if have is not None and have.value < _FEWEST_FIRM:
            return ("more replications or a longer horizon needed",)
        return more_runs(needed)

    def are_equal(self, mean: float | None, interval: tuple[float, float] | None, difference: float = 0.0) -> bool:
        """Return whether a difference of the metric from a mean is too small to matter."""
        tie = self.document.tie
        return Ties(tie.points, tie.part).are_equal(self.metric, mean, interval, difference)

    @property
    def equal(self) -> Words:
        """The difference within which values are called equal, as the end of a clause."""
        return equal_within(self.places, self.metric)

    def table(
        self, axes: Sequence[str], rows: Sequence[tuple[Mapping[str, str], _Row]], columns: Iterable[Column[_Row]]
    ) -> TableBlock:
        """Return a table of the answer, a row for some labels each: their values of some axes, and columns."""
        names = [name for name in axes if name in self.varying]
        columns = [column for column in columns if column.shown]
        heads = [*(capital(self.title(name)) for name in names), *(column.title for column in columns)]
        words = [
            *range(len(names)),
            *(index for index, column in enumerate(columns, len(names)) if not column.is_number),
        ]
        texts = [[*(label_text(at[name]) for name in names), *(column.text(row) or "none" for column in columns)]
                 for at, row in rows[:MOST_ROWS]]  # fmt: skip
        more = len(rows) - MOST_ROWS
        return grid(asked_text(self), heads, texts, words,
                    note=f"{number_of(more, 'more row')}: see run.json." if more > 0 else "")  # fmt: skip


# ----------------------------------------
# The one picture of a first screen: curves along an axis, means below each other, or a front.

KEY = "the-answer"
_MOST_BARS = 14
_MEANING = "Bars and bands show the 95 % confidence interval of each mean."
SAME_FAILURES = "All rows met the same failures, so differences are known better than the means."


def intervals(question: AnsweredQuestion[Any]) -> Draw:
    """Return what draws the means of all cells below each other."""

    def picture(title: str) -> Figure | None:
        metric, cells = question.people(), question.document.cells
        means = [(cell, bar(question.short([cell.values]), metric, cell)) for cell in cells]
        drawn = [(cell, mean) for cell, mean in means if mean.mean is not None][:_MOST_BARS]
        if not drawn:
            return None
        texts = [(mean.name, metric.worded(summary_of(cell, metric.metric))) for cell, mean in drawn]
        alt = f"{question.what}: {'; '.join(f'{name}: {text}' for name, text in texts[:6])}."
        table = grid(title, ("setting", question.what), texts, (0,))
        chart = Intervals(title, metric.form.unit, tuple(mean for _, mean in drawn))
        return Figure(KEY, chart, capital(alt), _MEANING, table)

    return picture


def gaps(question: AnsweredQuestion[Any], rows: Sequence[Interval], reference: str, *, is_behind: bool = False) -> Draw:
    """Return what draws differences of the metric on the same failures, with the intervals that decide the answer.

    They are held against zero, which has a name: changes with their signs, or how far each row is behind the best.
    """

    def picture(title: str) -> Figure | None:
        metric, drawn = question.people(), tuple(row for row in rows if row.mean is not None)[:_MOST_BARS]
        if not drawn:
            return None
        what = "behind the best" if is_behind else f"of {metric.name}" if metric.form.step else ""
        size, text = metric.form.size, metric.form.distance if is_behind else metric.form.change
        texts = [
            (row.name, text((row.mean or 0.0) * size, row.ci95 and (row.ci95[0] * size, row.ci95[1] * size)), row.note)
            for row in drawn
        ]
        head = "behind the best" if is_behind else "difference"
        alt = f"{capital(head)} in {question.what}: {'; '.join(f'{name}: {gap}' for name, gap, _ in texts[:6])}."
        table = grid(title, ("setting", head, "note"), texts, (0, 2))
        pale = MOVED if is_behind else ""
        chart = Intervals(title, f"{metric.step} {what}".strip(), drawn, (0.0, reference), GAP95, pale)
        return Figure(KEY, chart, alt, SAME_FAILURES, table)

    return picture


def curves(question: AnsweredQuestion[Any], along: str, *, edges: Sequence[tuple[float, str]] = ()) -> Draw:
    """Return what draws the metric along an axis, a curve for each combination of the others.

    Edges are places on the axis [SI] with names.
    """

    def picture(title: str) -> Figure | None:
        axis, content, metric = question.axis(along), question.places.content, question.shown()
        lines = known_lines(content, axis, metric) if axis is not None and axis.is_numeric else []
        return curves_picture(content, axis, metric, lines, KEY, title=title, edges=edges) if axis and lines else None

    return picture


def front(question: AnsweredQuestion[Any], aims: tuple[str, str], ranking: Mapping[int, str]) -> Draw:
    """Return what draws two aims, metrics or axes, against each other; rankings are as in `FrontPoint`."""

    def picture(title: str) -> Figure | None:
        drawn = [(cell, point) for cell, word in ranking.items() if (point := _front_point(question, cell, aims, word))]
        if not drawn:
            return None
        points = [point for _, point in drawn]
        rows = [(point.name, *(_aim_text(question, cell, aim) for aim in aims), _STANDINGS.get(point.ranking, ""))
                for cell, point in drawn]  # fmt: skip
        names = [question.title(aim) if question.axis(aim) else metric_words(aim).removeprefix("the ") for aim in aims]
        x, y = (axis.scale if (axis := question.axis(aim)) else
                ChartAxis(f"{capital(name)} [{question.form_of(aim).unit}]")
                for aim, name in zip(aims, names, strict=True))  # fmt: skip
        chart = FrontChart(title, x, y, tuple(points), *map(question.is_lowest_best, aims))
        best = "; ".join(f"{row[0]}: {row[1]} and {row[2]}" for row in rows[:6] if row[3])
        alt = f"{capital(names[0])} against {names[1]}. On the front, or perhaps: {best or 'none'}."
        return Figure(KEY, chart, alt, f"{_MEANING} {_FRONT}", grid(title, ("setting", *names, ""), rows, (0, 3)))

    return picture


def _front_point(question: AnsweredQuestion[Any], cell: int, aims: tuple[str, str], word: str) -> FrontPoint | None:
    (x, x95), (y, y95) = (_place(question, cell, aim) for aim in aims)
    if x is None or y is None:
        return None
    return FrontPoint(plain(question.some([question.document.cells[cell].values])), x, y, x95, y95, word)


def _aim_text(question: AnsweredQuestion[Any], cell: int, aim: str) -> str:
    if question.axis(aim):
        return label_text(question.document.cells[cell].values[aim])
    return question.people(aim).worded(summary_of(question.document.cells[cell], aim))


_STANDINGS = {"front": "on the front", "perhaps": "perhaps"}

_FRONT = (
    "On the front: no other combination is better in everything, by joint 95 % intervals of paired differences. "
    "Perhaps: too close to call."
)


def _place(question: AnsweredQuestion[Any], cell: int, aim: str) -> tuple[float | None, tuple[float, float] | None]:
    axis = question.axis(aim)
    if axis is None:
        return bar("", question.people(aim), question.document.cells[cell])[1:3]
    at = question.document.cells[cell].numbers.get(aim)
    return (None if at is None else at / axis.size), None
