"""What a numeric axis does to a metric."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from analysis.answers.places import lines_of, no_lines, place_text
from analysis.answers.question import METRIC, Answer, Question, silence
from analysis.answers.verdict import rows_of
from analysis.answers.versus import difference_data, versus, versus_text
from analysis.answers.words import capital, form_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.places import Line
    from analysis.answers.verdict import Row
    from analysis.answers.words import Form
    from analysis.paired import Difference
    from analysis.study.axis import Axis
    from analysis.study.table import Table

__all__ = ["Trend"]


class Trend(Question):
    """What a numeric axis does to a metric, for every combination of the other axes."""

    ask: Literal["trend"] = "trend"
    metric: str = METRIC
    along: str = Field(description="The axis of numbers.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no numeric axis."""
        self._check_axis("along", self.along, axes, numeric=True)

    def answer(self, table: Table) -> Answer:
        """Return the change from the first value to the last one, the largest step, and where it turns."""
        metric = self._headline(table.metrics)
        lines = lines_of(table, self.along)
        silent = silence(table, metric) or no_lines(table, lines, self.along)
        if silent:
            return Answer(self.ask, (silent,), {"metric": metric, "along": self.along, "lines": []})
        sentences: list[str] = []
        data = []
        for line in lines:
            texts, content = self._told(table, line, metric)
            sentences += texts
            data.append(content)
        return Answer(self.ask, tuple(sentences), {"metric": metric, "along": self.along, "lines": data})

    def _told(self, table: Table, line: Line, metric: str) -> tuple[list[str], dict[str, Any]]:
        """Return the course along one line, in sentences and as plain data."""
        rows, silent = rows_of(line, table.position(self.along), metric)
        title = table.title(self.along)
        start = f"{place_text(table, line.others)}: " if line.others else ""
        steps = [step for pair in itertools.pairwise(rows) if (step := _Step.of(*pair, metric)) is not None]
        content = {
            "at": line.others,
            "points": [{"value": row.label, "number": row.number, "mean": row.summary.mean} for row in rows],
            "steps": [step.data() for step in steps],
            "without_mean": silent,
        }
        whole = _Step.of(rows[0], rows[-1], metric) if len(rows) > 1 else None
        if whole is None or not steps:
            return [f"{start}{name_of(metric)} has fewer than two means along {title}."], content
        form = form_of(metric, [row.summary.mean or 0.0 for row in rows], table.currency)
        parts = _parts(rows, steps, metric, form)
        content |= {"whole": whole.data(), "course": _course(parts)}
        first, last = (form.value(row.summary.mean or 0.0, row.summary.ci95) for row in (rows[0], rows[-1]))
        extent = f"from {title} = {rows[0].label} to {rows[-1].label}"
        texts = [
            f"{start}{extent if start else capital(extent)} {name_of(metric)} goes from {first} to {last}: "
            f"{whole.text(form)}."
        ]
        if len(steps) > 1:
            resolved = [step for step in steps if step.found.resolved]
            if resolved:
                largest = max(resolved, key=lambda step: abs(step.found.mean))
                extent = f"from {largest.start.label} to {largest.end.label}"
                texts.append(f"The largest step is {extent}: {largest.text(form)}.")
            texts.append(_course_text(parts, rows, form))
        if silent:
            texts.append(f"Left out: {', '.join(f'{label} ({reason})' for label, reason in silent.items())}.")
        return texts, content


class _Step(NamedTuple):
    """What changes from one value of an axis to another."""

    start: Row
    end: Row
    found: Difference
    replications: int

    @classmethod
    def of(cls, start: Row, end: Row, metric: str) -> _Step | None:
        """Return the step between two values; ``None`` where it has no interval."""
        found = versus(end.cell, start.cell, metric)
        return None if found is None else cls(start, end, *found)

    def text(self, form: Form) -> str:
        """Return the change in words."""
        return versus_text(self.found, self.replications, form)

    def data(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {"from": self.start.label, "to": self.end.label, "difference": difference_data(self.found)}


class _Part(NamedTuple):
    """Neighbouring values between which a metric rises (1), falls (-1), or shows no difference (0)."""

    sign: int
    rows: tuple[Row, ...]
    steps: tuple[_Step, ...]

    @property
    def extent(self) -> str:
        """From where to where it goes."""
        return f"from {self.rows[0].label} to {self.rows[-1].label}"

    @property
    def doubt(self) -> str:
        """What is said of it where it shows no difference."""
        if self.steps and all(step.found.ci95 == (0, 0) for step in self.steps):
            return "it is the same in every replication"
        if any(step.found.resolved for step in self.steps):
            return "the differences are smaller than what is told here"
        return "there is no difference that could be resolved"


def _parts(rows: Sequence[Row], steps: Sequence[_Step], metric: str, form: Form) -> list[_Part]:
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


def _sign(step: _Step | None, form: Form) -> int:
    """Return which way a metric goes from one value to another: nowhere if it is not resolved, or not to be seen."""
    if step is None or not step.found.resolved:
        return 0
    told = {form.value(row.summary.mean or 0.0, row.summary.ci95) for row in (step.start, step.end)}
    return 0 if len(told) == 1 else 1 if step.found.mean > 0 else -1


def _course(parts: Sequence[_Part]) -> str:
    """Return ``rises``, ``falls``, ``turns`` or ``flat``."""
    signs = {part.sign for part in parts} - {0}
    if len(signs) == 2:
        return "turns"
    return ("rises" if 1 in signs else "falls") if signs else "flat"


def _course_text(parts: Sequence[_Part], rows: Sequence[Row], form: Form) -> str:
    """Return how a metric goes along an axis, in a sentence."""
    course, flat = _course(parts), [part for part in parts if part.sign == 0]
    doubts = "; ".join(f"{part.extent} {part.doubt}" for part in flat)
    if course == "flat":
        return f"{capital(doubts)}."
    if course != "turns":
        return f"It {course}, but {doubts}." if flat else f"It {course} all the way: no step against that is resolved."
    told = []
    for word, pick in (("highest", max), ("lowest", min)):
        row = pick(rows, key=lambda row: row.summary.mean or 0.0)
        part = next((part for part in flat if row in part.rows), None)
        among = (row,) if part is None else part.rows
        if rows[0] not in among and rows[-1] not in among:
            where = f"at {row.label}" if part is None else f"{part.extent}, where {part.doubt}"
            told.append(f"the {word} is {form.value(row.summary.mean or 0.0, row.summary.ci95)} {where}")
    return f"It turns on the way: {'; '.join(told)}." if told else "It turns on the way, more than once."
