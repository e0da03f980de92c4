"""A first look at a study before it is played: every value is tried, and what no point can have is a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.study.value import settings_text
from sim import complaints, documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.study.axis import Axis
    from analysis.study.load import LoadedStudy
    from analysis.study.value import Point, Value
    from sim.documents import Keys

__all__ = ["MOST_POINTS", "first_look"]

MOST_POINTS = 100_000
"""Points of a study; more are a slip of the pen."""
_LOADS = 60
"""Values that are tried: a scenario is read in some milliseconds, and a first look takes less than a second."""
_TRIES = 3
"""Points in which a value is tried before it is called a mistake."""
_LONGEST = 60
"""Letters of a label in a message."""


def first_look(loaded: LoadedStudy) -> list[str]:
    """Return every mistake that some points of a study show, one line each; nothing if the study can be played.

    Of each axis all values are tried, or as many as there is time for, evenly spread. A value that can be read in none
    of up to three points is a mistake. What merely does not fit, or fails in some combinations only, is none: these
    points will be told to be infeasible.
    """
    study = loaded.study
    count = study.design.count(study.vary)
    if count > MOST_POINTS:
        place = "design" if "design" in loaded.document.data else "vary"
        rule = f"makes {count:,} points, and more than {MOST_POINTS:,} are not played; vary less at once"
        return [complaints.line(loaded.document, (place,), rule)]
    trials = _Trials(loaded)
    found = [*trials.of_all(), *(line for position in range(len(study.vary)) for line in trials.of_axis(position))]
    return list(dict.fromkeys(found or trials.of_first()))


class _Finding(NamedTuple):
    """What is said against a point: the setting that it is about, if it is about one, and the path and the rule."""

    text: str
    rule: str


class _Trials:
    """The points of a study, those that were tried, and what was said against them."""

    def __init__(self, loaded: LoadedStudy) -> None:
        self.loaded = loaded
        self.axes = list(loaded.study.vary.items())
        # There may be many points, so none is kept but those that are tried: which these are is known once all have
        # been counted. Values go by their labels, which tell those of an axis apart.
        self.counts = [dict[str, int]() for _ in self.axes]
        numbers = [dict[str, float | None]() for _ in self.axes]
        for point in loaded.points():
            for count, number, value in zip(self.counts, numbers, point.values, strict=True):
                count[value.label] = count.get(value.label, 0) + 1
                number[value.label] = value.number
        self.tried = [self._tried(found) for found in numbers]
        self._find_points()
        self.fine: set[tuple[int, str]] = set()
        self.found: dict[int, tuple[_Finding, ...]] = {}
        self.failed: list[list[Value]] = [self._failed(position) for position in range(len(self.axes))]

    def _tried(self, numbers: dict[str, float | None]) -> dict[str, list[Point]]:
        """Return the values of an axis that are tried, in order, each with room for points."""
        labels = list(numbers)
        if all(number is not None for number in numbers.values()):
            labels.sort(key=lambda label: numbers[label] or 0.0)
        return {label: [] for label in _spread(labels, max(_LOADS // len(self.axes), _TRIES))}

    def _find_points(self) -> None:
        """Find the points in which values are tried: of each the first, the last, and one between them."""
        wanted = [
            {label: set(_spread(range(count[label]), _TRIES)) for label in tried}
            for count, tried in zip(self.counts, self.tried, strict=True)
        ]
        seen = [dict.fromkeys(tried, 0) for tried in self.tried]
        for point in self.loaded.points():
            for places, before, tried, value in zip(wanted, seen, self.tried, point.values, strict=True):
                if value.label in before:
                    if before[value.label] in places[value.label]:
                        tried[value.label].append(point)
                    before[value.label] += 1

    def _failed(self, position: int) -> list[Value]:
        """Return the values of an axis with which no point can be read, of those that are tried."""
        values = [points[0].values[position] for points in self.tried[position].values()]
        return [value for value in values if not self._is_fine(position, value)]

    def _is_fine(self, position: int, value: Value) -> bool:
        """Tell whether one of the first points with a value can be read; a point that can clears all its values."""
        for point in self.points(position, value):
            if (position, value.label) in self.fine:
                break
            if point.number not in self.found:
                self.found[point.number] = self._look(point)
            if not self.found[point.number]:
                self.fine.update((place, other.label) for place, other in enumerate(point.values))
        return (position, value.label) in self.fine

    def points(self, position: int, value: Value) -> list[Point]:
        """Return the points in which a value is tried."""
        return self.tried[position][value.label]

    def _look(self, point: Point) -> tuple[_Finding, ...]:
        """Return what is wrong with the description of a point."""
        try:
            self.loaded.scenario(point)
        except sim.ScenarioError as error:
            texts = self.loaded.overrides(point)
            return () if error.is_answer else tuple(_finding(line, texts) for line in error.lines)
        return ()

    @property
    def none_is_fine(self) -> bool:
        """Whether no point that was tried can be read."""
        return all(self.found.values())

    # ------------------------------------------------------------------------------------------- mistakes

    def of_all(self) -> Iterator[str]:
        """Yield the mistakes that no value is to blame for: of what holds at every point, and of the scenario."""
        first, *others = self.found.values()
        common = {settings_text(path, content): path for path, content in self.loaded.study.set.items()}
        for finding in first if self.none_is_fine else ():
            if all(finding in findings for findings in others):
                if finding.text in common:
                    path = common[finding.text]
                    mark = documents.nearest_mark(self.loaded.document, ("set", path))
                    yield str(documents.DocumentError(mark, f"set.{path}", finding.rule.removeprefix(f"{path}: ")))
                elif not finding.text:
                    yield finding.rule

    def of_axis(self, position: int) -> Iterator[str]:
        """Yield the mistakes of the values of an axis; one line if all of them have the same."""
        name, axis = self.axes[position]
        document = self.loaded.document
        found: dict[documents.Mark, tuple[str, str]] = {}
        for value in self.failed[position]:
            rule = self._against(position, value)
            if rule:
                label = value.label if len(value.label) <= _LONGEST else f"{value.label[: _LONGEST - 3]}..."
                mark = documents.nearest_mark(document, _place(document, name, axis, value))
                found.setdefault(mark, (label, rule.removeprefix(f"{name}: ")))
        rules = {rule for _, rule in found.values()}
        if len(rules) == 1 and len(found) > 1 and len(self.failed[position]) == len(self.counts[position]):
            at = ("vary", name, "path")
            mark = document.values.get(at) or documents.key_mark(document, at[:2])
            yield str(documents.DocumentError(mark, f"vary.{name}", rules.pop()))
            return
        for mark, (label, rule) in found.items():
            yield str(documents.DocumentError(mark, f"vary.{name}", f"{label}: {rule}"))

    def of_first(self) -> Iterator[str]:
        """Yield what is wrong with the first point, if no point can be read for one reason."""
        if self.none_is_fine:
            mark = documents.key_mark(self.loaded.document, ("vary",))
            for finding in next(iter(self.found.values())):
                rule = f"no point that was tried can be read; of the first one {finding.rule}"
                yield str(documents.DocumentError(mark, "vary", rule))

    def _against(self, position: int, value: Value) -> str:
        """Return what is wrong with a value wherever it was tried; nothing if something else is to blame."""
        own = {settings_text(path, content) for path, content in value.settings}
        tried = [self.found[point.number] for point in self.points(position, value)]
        blamed = [[finding.rule for finding in findings if finding.text in own] for findings in tried]
        if all(blamed):
            return blamed[0][0]
        if self.none_is_fine or any(finding.text for findings in tried for finding in findings):
            return ""
        return next((one.rule for one in tried[0] if all(one in findings for findings in tried)), "")


def _finding(line: str, texts: Sequence[str]) -> _Finding:
    """Return a complaint with the setting that it begins with, if it is about one."""
    begun = [text for text in texts if line.startswith(f"--set {text}: ")]
    text = max(begun, key=len, default="")
    return _Finding(text, line.removeprefix(f"--set {text}: ") if text else line)


def _place(document: documents.Document, name: str, axis: Axis, value: Value) -> Keys:
    """Return the path of a value in its study."""
    at: Keys = ("vary", name)
    if axis.choices is not None:
        labels = [choice.label for choice in axis.values(name)]
        named = (*at, "choices", value.label)
        return named if named in document.values else (*at, "choices", labels.index(value.label))
    if axis.range is not None:
        ends = dict(zip(axis.range.ends, ("min", "max"), strict=True))
        return (*at, "range", ends[value.number]) if value.number in ends else (*at, "range")
    return (*at, "distribution")


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return so many items at most, evenly spread, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[round(index * (len(items) - 1) / (count - 1))] for index in range(count)]
