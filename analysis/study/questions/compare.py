"""What each value of an axis changes, compared with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from analysis.amounts import name_of
from analysis.statistics.differences import difference_data
from analysis.study.questions.along import reason_of
from analysis.study.questions.question import (
    METRIC,
    Answer,
    Question,
    lines_of,
    mean_of,
    no_lines,
    silence,
    versus,
)
from sim.scenario.fields import RuleError
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.study.axis import Axis
    from analysis.study.questions.question import Line
    from analysis.study.table import Cell, Table


class Compare(Question):
    """What each value of an axis changes, compared with one of them, on the same failures."""

    use: Literal["compare"] = "compare"
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
        data: list[dict[str, Any]] = []
        reasons = [silent] if silent else []
        for line in () if silent else lines:
            content, reason = self._compared(table, line, metric)
            data.append(content)
            reasons += [reason] if reason else []
        is_silent = not any(change for content in data for change in content["differences"].values())
        why = reasons[0] if reasons and is_silent else ""
        return Answer(self.use, {"metric": metric, "axis": self.axis, "lines": data}, why)

    def _compared(self, table: Table, line: Line, metric: str) -> tuple[dict[str, Any], str]:
        """Return the differences of one line as plain data, and why the first that is missing is; empty without one."""
        position, title = table.position(self.axis), table.title(self.axis)
        cells = {cell.values[position].label: cell for cell in (*line.cells, *line.missing)}
        base = self.against or next(iter(cells))
        content: dict[str, Any] = {"at": line.others, "against": base, "differences": {}}
        if base not in cells:
            return content, f"{base} is no value of {title}{suggest(base, cells)}."
        if mean_of(cells[base], metric) is None:
            why = reason_of(cells[base], metric)
            return content, f"{title} = {base} has no {name_of(metric)} to compare with: {why}."
        missing = []
        for label, cell in cells.items():
            if label != base:
                found = versus(cell, cells[base], metric)
                content["differences"][label] = difference_data(found[0]) if found is not None else None
                missing += [f"{title} = {label}: {_silence(cell, metric)}."] if found is None else []
        return content, next(iter(missing), "")


def _silence(cell: Cell, metric: str) -> str:
    """Return why a cell cannot be compared, in words."""
    if mean_of(cell, metric) is None:
        return f"no {name_of(metric)} ({reason_of(cell, metric)})"
    return "no interval of the difference, for there are fewer than two common replications"
