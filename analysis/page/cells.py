"""Candidates of a study that were ranked or compared by its questions, as intervals below each other."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import Shown, capital, ends_of, label_text, listed, number_of, phrase, phrases, shown, verb
from analysis.metrics import lower_is_better
from analysis.page.charts.data import Interval, Intervals, Scale
from analysis.page.model import Column, Grid, Picture, Section
from sim import units
from sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# ----------------------------------------
# What was chosen in a study, and the lines that its cells make along one of its axes.

Content = dict[str, Any]

_FEW_TICKS = 9

_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?")


class Axis(NamedTuple):
    """An axis whose values were chosen.

    Parameters
    ----------
    name, title
        Its key, and what it is called.
    labels, numbers
        Its values as text and in SI units, in order of the study; numbers are ``None`` without an order.
    noun
        What its values count; empty where they count nothing.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    numbers: tuple[float | None, ...]
    noun: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether its values are different numbers."""
        return None not in self.numbers and len(set(self.numbers)) == len(self.numbers)

    @property
    def is_log(self) -> bool:
        """Whether its values are spaced more evenly by factors than by steps."""
        numbers = sorted(number for number in self.numbers if number is not None)
        if len(numbers) < 3 or numbers[0] <= 0:
            return False
        steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
        factors = [math.log(later / earlier) for earlier, later in itertools.pairwise(numbers)]
        return min(steps) > 0 and max(factors) / min(factors) < max(steps) / min(steps)

    @property
    def size(self) -> float:
        """What one unit of the picture's axis is in SI: that in which the labels are written."""
        return _written(self)[0]

    @property
    def scale(self) -> Scale:
        """Its axis of a picture: labelled as the study writes its values."""
        size, unit = _written(self)
        order = sorted(zip(self.numbers, map(label_text, self.labels), strict=True), key=lambda pair: pair[0] or 0.0)
        every = max(1, math.ceil(len(order) / _FEW_TICKS))
        ticks = tuple(((number or 0.0) / size, label) for number, label in order[::every])
        title = capital(self.title)
        if unit and all(label.endswith(f" {unit}") for _, label in ticks):
            ticks = tuple((place, label.removesuffix(f" {unit}")) for place, label in ticks)
            title = f"{title} [{unit}]"
        return Scale(title, self.is_log, ticks)

    def told(self, label: str) -> str:
        """Return a value in a short name: with the title where the label is a number alone."""
        return self.phrase(label) if _NUMBER.match(label) else label_text(label)

    def phrase(self, label: str) -> str:
        """Return a value in words."""
        return phrase(self.title, label, self.noun)


class Line(NamedTuple):
    """Cells that differ in one axis alone.

    Parameters
    ----------
    name
        Their values of the other axes, in short; empty without any.
    at
        The same by axis.
    cells
        In order of the axis.
    """

    name: str
    at: Mapping[str, str]
    cells: tuple[Content, ...]


def axes_of(content: Content) -> list[Axis]:
    """Return the axes of a sweep that were chosen and have several values."""
    found = []
    for name, entry in content["axes"].items():
        values = entry["values"]
        if not entry["unknown"] and len(values) > 1:
            labels, numbers = zip(*((value["label"], value["number"]) for value in values), strict=True)
            found.append(Axis(name, entry["title"], labels, numbers, entry.get("noun", "")))
    return found


def running(content: Content) -> list[Content]:
    """Return the cells of a sweep that have results."""
    return [cell for cell in content["cells"] if cell["status"] == "ok"]


def mean_of(cell: Content, metric: str) -> float | None:
    """Return the mean of a metric of a cell; ``None`` where there is none."""
    found: float | None = cell["metrics"].get(metric, {}).get("mean")
    return found


def best_of(cells: Sequence[Content], metric: str) -> list[Content]:
    """Return the cells that have a mean of a metric, best first; of equal ones the first of the study first."""
    sign = 1 if lower_is_better(metric) else -1
    known = [cell for cell in cells if mean_of(cell, metric) is not None]
    return sorted(known, key=lambda cell: sign * (mean_of(cell, metric) or 0.0))


def place_of(cell: Content, axes: Sequence[Axis]) -> str:
    """Return where a cell is, in words: ``24 hot spares, median repair 6 h``."""
    return ", ".join(axis.phrase(cell["values"][axis.name]) for axis in axes)


def missing_text(cell: Content, metric: str) -> str:
    """Return why a cell has no mean of a metric."""
    if cell["status"] != "ok":
        return status_text(cell)
    found = cell["metrics"].get(metric)
    if found is None:
        return "not known of this scenario"
    if metric == "time_to_work" and found["censored"]:
        return f"unfinished in {found['censored']} of {number_of(found['replications'], 'run')}"
    if metric.startswith("mtti"):
        return "no interruption in any run"
    return "nothing to measure in any run"


def status_text(cell: Content) -> str:
    """Return what became of a cell that has no results."""
    return {"infeasible": "cannot run"}.get(cell["status"], str(cell["status"]))


def lines_along(content: Content, axis: Axis) -> list[Line]:
    """Return the lines along an axis that have two cells with results or more, in order of the study."""
    others = [other for other in axes_of(content) if other.name != axis.name]
    groups: dict[tuple[str, ...], list[Content]] = {}
    for cell in running(content):
        groups.setdefault(tuple(cell["values"][other.name] for other in others), []).append(cell)
    place = {label: index for index, label in enumerate(axis.labels)}
    found = []
    for labels, cells in groups.items():
        name = ", ".join(other.told(label) for other, label in zip(others, labels, strict=True))
        at = {other.name: label for other, label in zip(others, labels, strict=True)}
        mine = {cell["values"][axis.name]: cell for cell in cells}.values()
        order = sorted(mine, key=lambda cell: (cell["numbers"][axis.name] or 0.0, place[cell["values"][axis.name]]))
        if len(order) > 1:
            found.append(Line(name, at, tuple(order)))
    return found


def share_of_lines(content: Content, axis: Axis) -> float:
    """Return which share of the cells with results is on a line along an axis."""
    cells = len(running(content))
    return sum(len(line.cells) for line in lines_along(content, axis)) / cells if cells else 0.0


def _written(axis: Axis) -> tuple[float, str]:
    """Return the unit in which the labels are written: its size in SI, and its name.

    What has several units is in the one in which times of this size are told; what has none is as it is.
    """
    found = []
    for label, number in zip(axis.labels, axis.numbers, strict=True):
        match = _NUMBER.match(label)
        if match is None or number is None:
            return 1.0, ""
        found.append((float(match[0].replace(",", "")), number, label[match.end() :].strip()))
    sizes = [number / written for written, number, _ in found if written]
    names = {name for _, _, name in found}
    if sizes and len(names) == 1 and all(math.isclose(size, sizes[0], rel_tol=1e-3) for size in sizes):
        return sizes[0], names.pop()
    largest = max(abs(number) for _, number, _ in found)
    if names <= units.DURATION.units.keys():
        return next(size for size in (DAY, HOUR, MINUTE, 1.0) if largest >= size or size == 1.0), ""
    return 1.0, ""


# ----------------------------------------
# Values that questions of a study ask a metric to reach.


class Level(NamedTuple):
    """A value that a metric has to reach, or must not pass.

    Parameters
    ----------
    height
        In the unit that is shown.
    name
        What it is called: ``at least 95 %``.
    """

    height: float
    name: str


def levels_of(content: dict[str, Any], axis: Axis, metric: Shown) -> tuple[Level, ...]:
    """Return the values that questions ask of a metric along an axis, each once."""
    found: dict[tuple[str, float], Level] = {}
    for answer in content["answers"]:
        data = answer["data"]
        if answer["use"] != "threshold" or data.get("metric") != metric.metric or data.get("along") != axis.name:
            continue
        for key, word in (("at_least", "at least"), ("at_most", "at most")):
            value = data.get(key)
            if isinstance(value, int | float):
                name = f"{word} {metric.form.exact(value)}"
                found.setdefault((key, value), Level(value / metric.form.size, name))
    return tuple(found.values())


_MOST_ROWS = 24

"""Rows of a picture: who is further behind is in the data."""


def candidates_section(content: Content) -> Section | None:
    """Return the section about what a sweep ranked and compared; ``None`` where it did neither."""
    items = [picture for picture in _pictures(content) if picture is not None]
    if not items:
        return None
    notes = ("Combinations have the same failures: intervals are those of differences within the same replications.",)
    return Section("comparison", items[0].title, (), tuple(items), notes)


def _pictures(content: Content) -> Iterator[Picture | None]:
    """Yield a picture of each ranking and of each comparison."""
    for number, answer in enumerate(content["answers"], start=1):
        if answer["use"] == "best" and answer["data"].get("groups"):
            yield _ranking(answer["data"], content, f"ranking-{number}")
        if answer["use"] == "compare" and answer["data"].get("lines"):
            yield _compared(answer["data"], content, f"compared-{number}")


def _ranking(data: Content, content: Content, key: str) -> Picture | None:
    """Return how far the candidates of the last group that has several are behind the best of it."""
    groups = [group for group in data["groups"] if len(group.get("order", ())) > 1]
    if not groups:
        return None
    group = groups[-1]
    metric = shown(data["metric"], [row["behind"] for row in group["order"]], content["currency"])
    whole = shown(data["metric"], [row["mean"] for row in group["order"]], content["currency"])
    maybe = group["may_be_best"]
    rows, texts = [], []
    for position, row in enumerate(group["order"][:_MOST_ROWS]):
        note = _note(row, position, maybe)
        name = _where(row["at"], group["at"], content)
        rows.append(Interval(name, metric.of(row["behind"]), metric.gaps(row["behind_ci95"]), None, note))
        mean = whole.form.plain(row["mean"], ends_of(group["order"][max(position, 1)]["behind_ci95"]))
        texts.append((name, mean, metric.distance(row["behind"], row["behind_ci95"]), note))
    title = _ranking_title(group, metric, content)
    columns = (
        Column("Combination", is_number=False), Column(capital(metric.name)),
        Column("Behind the best, 95 % together"), Column("How sure", is_number=False),
    )  # fmt: skip
    count, more = len(group["order"]), len(group["order"]) - len(rows)
    note = f"{number_of(more, 'more combination')} further behind: see run.json." if more else ""
    alt = f"Behind the best of {count}: {'; '.join(f'{row[0]} {row[2]}, {row[3]}' for row in texts[:8])}."
    others = (
        f" Of {len(groups)} such rankings this is the last; the answers tell the others." if len(groups) > 1 else ""
    )
    doubt = " One that is behind another may still be little behind the best." if maybe else ""
    caption = f"Intervals hold together with 95 %, whichever is truly the best.{doubt}{others}"
    chart = Intervals(title, metric.step, tuple(rows), (0.0, "the best"))
    return Picture(key, chart, alt, caption, Grid(title, columns, texts, note=note))


def _note(row: Content, position: int, maybe: Sequence[Mapping[str, str]]) -> str:
    """Return where a candidate stands."""
    if position == 0:
        return "may be the best" if maybe else "the best"
    if _is_same(row):
        return "the same in every run"
    return "may be the best" if row["at"] in maybe else "behind"


def _is_same(row: Content) -> bool:
    """Return whether a candidate is as good as the best in every replication."""
    return row["behind"] == 0 and (row["behind_ci95"] is None or row["behind_ci95"][0] == row["behind_ci95"][1])


def _ranking_title(group: Content, metric: Shown, content: Content) -> str:
    """Return what a ranking says."""
    best = _where(group["best"], group["at"], content)
    at = _where(group["at"], {}, content)
    place = f"With {at}, " if at else ""
    if all(_is_same(row) for row in group["order"][1:]):
        return capital(f"{place}all {len(group['order'])} combinations have the same {metric.name}, in every run")
    if group["may_be_best"]:
        names = [best, *(_where(labels, group["at"], content) for labels in group["may_be_best"])]
        told = listed(names) if len(names) <= 4 else f"{best} and {len(names) - 1} others"
        title = f"{place}{told} may each have the best {metric.name}"
    else:
        second = group["order"][1]
        gap = metric.distance(second["behind"], second["behind_ci95"])
        title = f"{place}{best} has the best {metric.name}, {gap} ahead of the second"
    return capital(title)


def _compared(data: Content, content: Content, key: str) -> Picture | None:
    """Return what each value of an axis changes, for every combination of the others."""
    lines = [line for line in data["lines"] if line.get("differences")]
    found = [
        (line, value, change)
        for line in lines
        for value, change in line["differences"].items()
        if change is not None and change["mean"] is not None
    ]
    if not found:
        return None
    metric = shown(data["metric"], [change["mean"] for _, _, change in found], content["currency"])
    rows, texts = [], []
    for line, value, change in found[:_MOST_ROWS]:
        told = phrases({data["axis"]: value}, [data["axis"]], content) if value[:1].isdigit() else value
        name = ", ".join(part for part in (told, _where(line["at"], {}, content)) if part)
        note = "" if change["resolved"] else "the same" if change["ci95"][0] == change["ci95"][1] else "not resolved"
        rows.append(Interval(name, metric.of(change["mean"]), metric.gaps(change["ci95"]), None, note))
        texts.append((name, metric.change(change), note or "resolved"))
    against = label_text(lines[0]["against"])
    base = phrases({data["axis"]: lines[0]["against"]}, [data["axis"]], content)
    title = _compared_title(found, metric, base if against[:1].isdigit() else against, content)
    columns = (
        Column("Combination", is_number=False), Column(f"Change from {against}, 95 % interval"),
        Column("How sure", is_number=False),
    )  # fmt: skip
    more = len(found) - len(rows)
    note = f"{number_of(more, 'more comparison')}: see the answers." if more else ""
    alt = f"Change of {metric.name} from {against}: {'; '.join(f'{row[0]} {row[1]}' for row in texts[:8])}."
    chart = Intervals(title, metric.step, tuple(rows), (0.0, against))
    return Picture(key, chart, alt, f"Against {base}, on the same failures.", Grid(title, columns, texts, note=note))


def _compared_title(
    found: Sequence[tuple[Content, str, Content]], metric: Shown, against: str, content: Content
) -> str:
    """Return what a comparison says: its largest change that is resolved."""
    resolved = [(line, value, change) for line, value, change in found if change["resolved"]]
    if not resolved:
        return f"No difference from {against} in {metric.name} is resolved"
    line, value, change = max(resolved, key=lambda entry: abs(entry[2]["mean"]))
    told = f"With {label_text(value)} instead of {against} {metric.name} {verb(metric.metric, 'changes', 'change')} by"
    if len(found) == 1:
        return f"{told} {metric.change(change)}"
    where = _where(line["at"], {}, content)
    few = f"{len(resolved)} of {len(found)} differences are resolved"
    return f"{told} up to {metric.change(change)}{f', with {where}' if where else ''}; {few}"


def _where(labels: Mapping[str, str], apart_from: Mapping[str, str], content: Content) -> str:
    """Return labels in words, without those that all have in common and those of axes with one value.

    Where one axis is left whose values are words, these are enough.
    """
    axes = content["axes"]
    names = [name for name in labels if name not in apart_from and len(axes[name]["values"]) > 1]
    if len(names) == 1 and apart_from and not labels[names[0]][:1].isdigit():
        return label_text(labels[names[0]])
    return phrases(labels, names, content)
