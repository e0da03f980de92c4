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
        content |= {"whole": whole.data(), "course": _course(steps)}
        form = form_of(metric, [row.summary.mean or 0.0 for row in rows], table.currency)
        first, last = (form.value(row.summary.mean or 0.0, row.summary.ci95) for row in (rows[0], rows[-1]))
        extent = f"from {title} = {rows[0].label} to {rows[-1].label}"
        texts = [
            f"{start}{extent if start else capital(extent)} {name_of(metric)} goes from {first} to {last}: "
            f"{whole.text(form)}."
        ]
        if len(steps) > 1:
            largest = max(steps, key=lambda step: abs(step.found.mean))
            texts.append(
                f"The largest step is from {largest.start.label} to {largest.end.label}: {largest.text(form)}."
            )
            texts.append(_course_text(_course(steps), rows, form))
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


def _course(steps: Sequence[_Step]) -> str:
    """Return ``rises``, ``falls``, ``turns`` or ``flat``, by the steps that are resolved."""
    signs = {step.found.mean > 0 for step in steps if step.found.resolved}
    if len(signs) == 2:
        return "turns"
    return ("rises" if signs.pop() else "falls") if signs else "flat"


def _course_text(course: str, rows: Sequence[Row], form: Form) -> str:
    """Return how a metric goes along an axis, in a sentence."""
    if course == "flat":
        return "No single step is resolved."
    if course != "turns":
        return f"It {course} all the way: no step against that is resolved."
    high = max(rows, key=lambda row: row.summary.mean or 0.0)
    low = min(rows, key=lambda row: row.summary.mean or 0.0)
    ends = (rows[0].label, rows[-1].label)
    told = [
        f"the {word} is {form.value(row.summary.mean or 0.0, row.summary.ci95)} at {row.label}"
        for word, row in (("highest", high), ("lowest", low))
        if row.label not in ends
    ]
    return f"It turns on the way: {', '.join(told)}." if told else "It turns on the way, more than once."
