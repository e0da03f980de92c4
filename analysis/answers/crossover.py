"""Which of several choices is best along a numeric axis, and where another one becomes the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from analysis.answers.places import lines_of, place_text, scale_of
from analysis.answers.question import METRIC, Answer, Question, is_lowest_best, silence
from analysis.answers.race import Race, Stage
from analysis.answers.race_words import Telling
from analysis.answers.versus import mean_of
from analysis.answers.words import form_of, name_of
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.places import Line
    from analysis.study.axis import Axis
    from analysis.study.table import Cell, Table

__all__ = ["Crossover"]


class Crossover(Question):
    """Which value of one axis is best along another, and where another one becomes the best."""

    ask: Literal["crossover"] = "crossover"
    metric: str = METRIC
    direction: Literal["highest", "lowest"] | None = Field(None, description="What is best; omitted: as the metric is.")
    between: str = Field(description="The axis of choices that compete.")
    along: str = Field(description="The axis of numbers along which the best of them changes.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what are not two axes, the second one numeric."""
        self._check_axis("between", self.between, axes)
        self._check_axis("along", self.along, axes, numeric=True)
        if self.between == self.along:
            raise RuleError(("along",), f"{self.along} is the axis of choices too: name another one")

    def answer(self, table: Table) -> Answer:
        """Return who is best where, and where that changes."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        is_lowest, scale = is_lowest_best(metric, self.direction or ""), scale_of(table, self.along)
        lines = [] if silent else lines_of(table, self.between, self.along)
        found = [self._race(table, line, metric, is_lowest=is_lowest, is_log=scale.is_log) for line in lines]
        races = [race for race in found if len(race.stages) > 1]
        if not silent and not races:
            title = table.title(self.along)
            silent = f"Fewer than two values of {title} have results of several values of {table.title(self.between)}."
        data: dict[str, Any] = {"metric": metric, "between": self.between, "along": self.along, "lines": []}
        if silent:
            return Answer(self.ask, (silent,), data)
        form = form_of(metric, [stage.mean for race in races for stage in race.stages], table.currency)
        prefix = f"{table.title(self.between)} = " if table.axes[self.between].is_numeric else ""
        telling = Telling(f"the {'lowest' if is_lowest else 'highest'} {name_of(metric)}", form, scale, prefix)
        sentences = [text for race in races for text in telling.sentences(race, place_text(table, race.at))]
        return Answer(self.ask, tuple(sentences), data | {"lines": [race.data() for race in races]})

    def _race(self, table: Table, line: Line, metric: str, *, is_lowest: bool, is_log: bool) -> Race:
        """Return who is best at each value of the axis."""
        who, where = table.position(self.between), table.position(self.along)
        fields: dict[tuple[float, str], dict[str, Cell]] = {}
        for cell in line.cells:
            if mean_of(cell, metric) is not None:
                value = cell.values[where]
                fields.setdefault((value.number or 0.0, value.label), {})[cell.values[who].label] = cell
        found = (
            Stage.of(label, number, cells, metric, is_lowest=is_lowest)
            for (number, label), cells in sorted(fields.items(), key=lambda pair: pair[0])
        )
        return Race(line.others, tuple(stage for stage in found if stage is not None), metric, is_lowest, is_log)
