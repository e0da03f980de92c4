"""What one answer of a study says on a first screen, and how its document is read for it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import Form
from analysis.metrics import lower_is_better
from analysis.report.openings.answers.phrases import apart, either, line, listed
from analysis.report.openings.answers.rows import Rows
from analysis.report.openings.doubt import more_runs
from analysis.report.openings.glossary import metric_words
from analysis.report.openings.numbers import COUNT, GPU_YEARS, number, people_form, ranged, time_form
from analysis.report.sections.axes import axes_of
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from analysis.report.model import Picture
    from analysis.report.openings.traced import Estimate, Places, Traced
    from analysis.report.sections.axes import Axis
    from analysis.report.words import Words

__all__ = ["FEWEST_FIRM", "Asked", "Told"]

FEWEST_FIRM = 10
"""Runs from which on it is told how many would be enough: the spread of fewer is known to a factor of two."""

_OF_REQUESTED = ("ettr", "scheduling_goodput")
"""Shares of the GPU-time that jobs ask for."""
_MOST_NAMED = 4
"""Combinations that a sentence names."""
_MOST_OF_SEVERAL = 2
"""The same where each has the values of several axes."""
_RATE = re.compile(r"failures\.\d+\.scale")
_WITHOUT_ARTICLE = ("goodput", "training speed")
_QUANTITY = re.compile(r"[-+]?[\d.]")


class Told(NamedTuple):
    """One answer.

    Parameters
    ----------
    answer
        A sentence for who decides.
    point
        The same in short.
    title
        What the picture says.
    picture
        What draws it, given its title; ``None`` where there is nothing to show.
    cell
        The combination that it comes down to; ``None`` where there is no such.
    band
        How far what is not known exactly moves it; empty where the answer does not tell.
    doubt
        How sure it is, where that is not told as of others; empty elsewhere.
    other
        The combination to hold it against; ``None`` where the kind of question says it.
    """

    answer: Words
    point: Words
    title: Words
    picture: Callable[[str], Picture | None]
    cell: int | None = None
    band: Words = ()
    doubt: Words = ()
    other: int | None = None


@dataclass(frozen=True)
class Asked:
    """An answer of the document of a sweep, and what its words are.

    Parameters
    ----------
    places
        The document.
    position
        Position of the answer, from 0.
    rows
        The runs behind it, where the table of results is there.
    """

    places: Places
    position: int
    rows: Rows = field(default_factory=Rows)

    @property
    def content(self) -> Mapping[str, Any]:
        """The whole answer."""
        found: Mapping[str, Any] = self.places.get("answers", self.position)
        return found

    @property
    def data(self) -> Mapping[str, Any]:
        """The numbers behind it."""
        found: Mapping[str, Any] = self.content["data"]
        return found

    @property
    def metric(self) -> str:
        """What it is about; of several metrics the first."""
        found = self.data.get("metric") or (self.data.get("metrics") or self.places.get("metrics"))[0]
        return str(found)

    @property
    def is_lowest(self) -> bool:
        """Whether less is better."""
        return self.is_lowest_best(self.metric)

    @property
    def most(self) -> str:
        """What the best is: ``highest`` or ``lowest``."""
        return "lowest" if self.is_lowest else "highest"

    def is_lowest_best(self, metric: str) -> bool:
        """Return whether less of a metric is better."""
        directions = self.content.get("direction")
        stated = directions.get(metric) if isinstance(directions, dict) else directions
        return stated == "lowest" if stated else lower_is_better(metric)

    @property
    def what(self) -> str:
        """The metric in words, without an article."""
        return metric_words(self.metric).removeprefix("the ")

    @property
    def subject(self) -> str:
        """The metric as the subject of a sentence."""
        return self.what if self.what.startswith(_WITHOUT_ARTICLE) else f"the {self.what}"

    @functools.cached_property
    def form(self) -> Form:
        """How the metric is told."""
        return self.form_of(self.metric)

    def form_of(self, metric: str) -> Form:
        """Return how a metric is told."""
        means = [cell["metrics"].get(metric, {}).get("mean") for cell in self.places.get("cells")]
        return people_form(metric, [mean for mean in means if mean is not None], self.places.get("currency") or "")

    @functools.cached_property
    def varying(self) -> tuple[str, ...]:
        """The axes that were chosen, and of which the cells have more than one value; all that were if none has."""
        axes = self.places.get("axes")
        chosen = tuple(name for name in axes if not axes[name]["unknown"])
        return tuple(name for name in chosen if len(axes[name]["values"]) > 1) or chosen

    @functools.cached_property
    def _cells(self) -> dict[tuple[str, ...], int]:
        cells = reversed(self.places.get("cells"))
        return {tuple(cell["values"][name] for name in self.varying): cell["cell"] for cell in cells}

    def at(self, *keys: str | int) -> Traced | None:
        """Return a number of the answer; ``None`` where there is none."""
        return self.places.at("answers", self.position, "data", *keys)

    def difference(self, *keys: str | int, interval: str = "ci95") -> Estimate | None:
        """Return a difference of the answer; ``None`` where there is none."""
        return self.places.estimate("answers", self.position, "data", *keys, interval=interval)

    def cell(self, labels: Mapping[str, str]) -> int | None:
        """Return the number of a cell by its labels; ``None`` where there is no such cell."""
        return self._cells.get(tuple(labels.get(name, "") for name in self.varying))

    def mean(self, cell: int | None, metric: str = "") -> Estimate | None:
        """Return the mean of a cell; ``None`` where it has none."""
        return None if cell is None else self.places.estimate("cells", cell, "metrics", metric or self.metric)

    def axis(self, name: str) -> Axis | None:
        """Return an axis; ``None`` if it has one value only."""
        return next((axis for axis in axes_of(self.places.content) if axis.name == name), None)

    def is_numeric(self, name: str) -> bool:
        """Return whether the values of an axis are numbers."""
        axis = self.axis(name)
        return axis is not None and axis.is_numeric

    def axis_form(self, name: str, at: float) -> Form:
        """Return how a place on an axis is told."""
        axis, labels = self.axis(name), [entry["label"] for entry in self.places.get("axes", name, "values")]
        if all(label.isdigit() for label in labels):
            return Form("", is_whole=True)
        units = {label.partition(" ")[2] for label in labels}
        if units <= {"s", "min", "h", "d"}:
            return time_form(at)
        return Form(units.pop() if len(units) == 1 else "", 1.0 if axis is None else axis.size)

    def title(self, axis: str) -> str:
        """Return what an axis is called."""
        return str(self.places.get("axes", axis, "title") or axis)

    def value(self, axis: str, label: str) -> Words:
        """Return a value without the name of its axis: a count as people write it, a name in quotes."""
        values = self.places.get("axes", axis, "values")
        for place, entry in enumerate(values):
            if entry["label"] == label and label.isdigit() and entry["number"] == int(label):
                found = self.places.at("axes", axis, "values", place, "number")
                assert found is not None
                return (number(found, COUNT),)
        return (label,) if _QUANTITY.match(label) else (f"“{label}”",)

    def is_counted(self, axis: str) -> bool:
        """Return whether an axis is a number of things, such as hot spares."""
        labels = [entry["label"] for entry in self.places.get("axes", axis, "values")]
        return _is_plural(self.title(axis)) and all(label.isdigit() for label in labels)

    def is_factor(self, axis: str) -> bool:
        """Return whether an axis multiplies failure rates of the scenario."""
        paths = self.places.get("axes", axis, "paths")
        return bool(paths) and all(_RATE.fullmatch(path) for path in paths)

    def named(self, axis: str, value: Words) -> Words:
        """Return a value with the name of its axis: ``12 hot spares``, ``a restart of 60 s``, ``recovery “cold”``."""
        title = self.title(axis)
        if self.is_counted(axis):
            return line(value, f" {title}")
        if self.is_factor(axis):
            return (f"the stated {title}",) if plain(value) == "1" else line(value, f" times the {title}")
        if plain(value).startswith("“"):
            return line(f"{title} ", value)
        article = "" if _is_plural(title) or "." in title else "an " if title[0] in "aeiou" else "a "
        return line(f"{article}{title} of ", value)

    def extent(self, axis: str, first: str, last: str) -> Words:
        """Return from where to where something goes on an axis, with the name of the axis once."""
        start, end = self.value(axis, first), self.value(axis, last)
        if self.is_counted(axis) or self.is_factor(axis):
            return line("from ", start, " to ", self.named(axis, end))
        return line("from ", self.named(axis, start), " to ", end)

    def values(self, axis: str, labels: Iterable[str]) -> Words:
        """Return values of an axis of which one holds, with its name once."""
        return self.named(axis, either([self.value(axis, label) for label in labels]))

    def some(self, places: Sequence[Mapping[str, str]], *axes: str) -> Words:
        """Return combinations of which one holds; the name of an axis is said once, and names do without it."""
        names = [name for name in self.varying if not axes or name in axes]
        most = _MOST_NAMED if len(names) == 1 else _MOST_OF_SEVERAL
        rest: list[Words] = [("others",)] if len(places) > most else []
        places = places[:most]
        if len(names) != 1:
            return either([*(self.where(labels, *axes) for labels in places), *rest])
        values = [*(self.value(names[0], labels[names[0]]) for labels in places), *rest]
        is_named = plain(values[0]).startswith("“")
        return either(values) if is_named else self.named(names[0], either(values))

    def where(self, labels: Mapping[str, str], *axes: str) -> Words:
        """Return the values of some axes, or of all that vary, with the names of the axes."""
        names = [name for name in self.varying if name in labels and (not axes or name in axes)]
        return listed([self.named(name, self.value(name, labels[name])) for name in names], " and ")

    def briefly(self, labels: Mapping[str, str], *axes: str) -> Words:
        """Return the same, without the name of the axis where there is but one and its value has a name."""
        return self.some([labels], *(axes or tuple(labels)))

    def shortly(self, labels: Mapping[str, str]) -> Words:
        """Return values of axes without names of axes, for where these were said before."""
        names = [name for name in self.varying if name in labels]
        return self.value(names[0], labels[names[0]]) if len(names) == 1 else self.where(labels)

    def apart(self, found: Estimate, base: Traced | None = None) -> Words:
        """Return the size of a difference of the metric: of shares in points, else in percent of a base."""
        return apart(found, self.form, base)

    def gpu_years(self, found: Estimate, cell: int | None, other: int | None) -> Words:
        """Return what a difference of a share of requested time comes to in a year; empty between jobs of unlike size.

        It is empty too where the sizes are not known.
        """
        gpus, others = (None if one is None else self.places.at("cells", one, "gpus") for one in (cell, other))
        if gpus is None or others is None or gpus.value != others.value or self.metric not in _OF_REQUESTED:
            return ()
        size = found.changed(lambda change: (change * -1 if found.mean.value < 0 else change) * gpus)
        if size.low is None or size.high is None:
            return (" (", number(size.mean, GPU_YEARS), " a year)")
        return (" (", *ranged(size.low, size.high, GPU_YEARS), " a year)")

    def more_runs(self, *keys: str | int) -> Words:
        """Return how many runs would tell what is not resolved."""
        have, needed = self.at(*keys, "replications"), self.at(*keys, "replications_to_resolve")
        if have is not None and have.value < FEWEST_FIRM:
            return ("more simulated runs would tell",)
        return more_runs(needed)


def _is_plural(title: str) -> bool:
    """Return whether a title is of several things: ``GPUs of the job``."""
    noun = re.split(r" (?:of|in|per|for|between) ", title)[0]
    return noun.endswith("s") and not noun.endswith("ss")
