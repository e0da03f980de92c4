"""What each value of an axis changes, compared with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from analysis.amounts import capital, form_of, name_of
from analysis.statistics.differences import difference_data
from analysis.study.questions.along import reason_of
from analysis.study.questions.question import (
    METRIC,
    Answer,
    Question,
    lines_of,
    mean_of,
    no_lines,
    place_text,
    silence,
    versus,
    versus_text,
)
from analysis.study.table import summary_of
from sim.scenario.fields import RuleError
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.study.axis import Axis
    from analysis.study.questions.question import Line
    from analysis.study.table import Cell, Table


class Compare(Question):
    """What each value of an axis changes, compared with one of them, on the same failures."""

    ask: Literal["compare"] = "compare"
    metric: str = METRIC
    axis: str = Field(description="The axis whose values are compared.")
    against: str = Field("", description="Label of the value that the others are compared with; omitted: the first.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no axis, or no value of it."""
        self._check_axis("axis", self.axis, axes)
        axis = axes[self.axis]
        if self.against and axis.choices is not None:
            labels = [value.label for value in axis.values(self.axis)]
            if self.against not in labels:
                raise RuleError(
                    ("against",), f"'{self.against}' is no value of {self.axis}{suggest(self.against, labels)}"
                )

    def answer(self, table: Table) -> Answer:
        """Return the differences, for every combination of the other axes."""
        metric = self._headline(table.metrics)
        lines = lines_of(table, self.axis)
        silent = silence(table, metric)
        if not silent and not any(line.missing for line in lines):
            silent = no_lines(table, lines, self.axis)
        if silent:
            return Answer(self.ask, (silent,), {"metric": metric, "axis": self.axis, "lines": []})
        sentences: list[str] = []
        data = []
        for line in lines:
            texts, content = self._compared(table, line, metric)
            sentences += texts
            data.append(content)
        return Answer(self.ask, tuple(sentences), {"metric": metric, "axis": self.axis, "lines": data})

    def _compared(self, table: Table, line: Line, metric: str) -> tuple[list[str], dict[str, Any]]:
        """Return the differences of one line, in sentences and as plain data."""
        position, title = table.position(self.axis), table.title(self.axis)
        start = f"{place_text(table, line.others)}: " if line.others else ""
        cells = {cell.values[position].label: cell for cell in (*line.cells, *line.missing)}
        base = self.against or next(iter(cells))
        content: dict[str, Any] = {"at": line.others, "against": base, "differences": {}}
        if base not in cells:
            return [f"{start}{base} is no value of {title}{suggest(base, cells)}."], content
        first = cells[base]
        mean = mean_of(first, metric)
        if mean is None:
            why = reason_of(first, metric)
            return [f"{start}{title} = {base} has no {name_of(metric)} to compare with: {why}."], content
        means = [mean, *(other for cell in line.cells if (other := mean_of(cell, metric)) is not None)]
        form = form_of(metric, means, table.currency)
        summary = summary_of(first, metric)
        assert summary is not None
        name = name_of(metric) if start else capital(name_of(metric))
        texts = [f"{start}{name} is {form.value(mean, summary.ci95)} with {title} = {base}."]
        for label, cell in cells.items():
            if label == base:
                continue
            found = versus(cell, first, metric)
            content["differences"][label] = difference_data(found[0]) if found is not None else None
            if found is None:
                texts.append(f"{title} = {label}: {_silence(cell, metric)}.")
            else:
                texts.append(f"{title} = {label}: {versus_text(*found, form)}.")
        return texts, content


def _silence(cell: Cell, metric: str) -> str:
    """Return why a cell cannot be compared, in words."""
    if mean_of(cell, metric) is None:
        return f"no {name_of(metric)} ({reason_of(cell, metric)})"
    return "no interval of the difference, for there are fewer than two common replications"
