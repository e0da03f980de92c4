"""Which of several choices is best along a numeric axis, and where another one becomes the best."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from analysis.answers.curve import Crossing, Curve
from analysis.answers.places import lines_of, place_text, scale_of
from analysis.answers.question import METRIC, Answer, Question, is_lowest_best, silence
from analysis.answers.versus import difference_data, mean_of, versus
from analysis.answers.words import form_of, listed, name_of
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.places import Line, Scale
    from analysis.answers.words import Form
    from analysis.paired import Difference
    from analysis.study.axis import Axis
    from analysis.study.table import Cell, Table

__all__ = ["Crossover"]


class Crossover(Question):
    """Which value of one axis is best along another, and where another one becomes the best."""

    ask: Literal["crossover"] = "crossover"
    metric: str = METRIC
    direction: Literal["", "highest", "lowest"] = Field("", description="What is best; omitted: as the metric is.")
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
        lines = lines_of(table, self.between, self.along)
        silent = silence(table, metric)
        races = [] if silent else [self._race(table, line, metric) for line in lines]
        if not silent and not any(len(race.stages) > 1 for race in races):
            title = table.title(self.along)
            silent = f"Fewer than two values of {title} have results of several values of {table.title(self.between)}."
        data: dict[str, Any] = {"metric": metric, "between": self.between, "along": self.along, "lines": []}
        if silent:
            return Answer(self.ask, (silent,), data)
        races = [race for race in races if len(race.stages) > 1]
        means = [stage.mean for race in races for stage in race.stages]
        form = form_of(metric, means, table.currency)
        scale = scale_of(table, self.along)
        word = "lowest" if is_lowest_best(metric, self.direction) else "highest"
        best = f"the {word} {name_of(metric)}"
        sentences = [text for race in races for text in race.sentences(table, best, form, scale)]
        return Answer(self.ask, tuple(sentences), data | {"lines": [race.data() for race in races]})

    def _race(self, table: Table, line: Line, metric: str) -> _Race:
        """Return who is best at each value of the axis."""
        who, where = table.position(self.between), table.position(self.along)
        sign = -1.0 if is_lowest_best(metric, self.direction) else 1.0
        fields: dict[str, dict[str, Cell]] = {}
        for cell in line.cells:
            if mean_of(cell, metric) is not None:
                fields.setdefault(cell.values[where].label, {})[cell.values[who].label] = cell
        stages = []
        for label, cells in fields.items():
            means = {name: mean_of(cell, metric) or 0.0 for name, cell in cells.items()}
            ranked = sorted(cells, key=lambda name: -sign * means[name])
            if len(ranked) > 1:
                number = cells[ranked[0]].values[where].number or 0.0
                lead = versus(cells[ranked[0]], cells[ranked[1]], metric)
                stages.append(_Stage(label, number, ranked, means[ranked[0]], lead, cells))
        stages.sort(key=lambda stage: stage.number)
        # The name of a choice speaks for itself; a number does not.
        start = f"{table.title(self.between)} = " if table.axes[self.between].is_numeric else ""
        return _Race(line.others, tuple(stages), metric, sign, scale_of(table, self.along).is_log, start)


class _Stage(NamedTuple):
    """One value of the axis: who competes there, best first, and how far the first is ahead of the second."""

    label: str
    number: float
    order: list[str]
    mean: float
    lead: tuple[Difference, int] | None
    cells: dict[str, Cell]

    @property
    def is_resolved(self) -> bool:
        """Whether the first is ahead of the second for sure."""
        return self.lead is not None and self.lead[0].resolved

    def lead_text(self, form: Form) -> str:
        """Return how far the first is ahead."""
        if self.lead is None:
            return f"{self.label}: no interval"
        found = self.lead[0]
        if found.ci95[0] == found.ci95[1] == 0:
            return f"{self.label}: level with {self.order[1]} in every replication"
        rest = "" if found.resolved else ", not resolved"
        return f"{self.label}: {form.distance(found.mean, found.ci95)} ahead of {self.order[1]}{rest}"


class _Race(NamedTuple):
    """Who is best along an axis."""

    at: dict[str, str]
    stages: tuple[_Stage, ...]
    metric: str
    sign: float
    is_log: bool
    start: str

    @property
    def handovers(self) -> list[tuple[_Stage, _Stage]]:
        """Neighbours at which not the same is best."""
        return [pair for pair in itertools.pairwise(self.stages) if pair[0].order[0] != pair[1].order[0]]

    def crossing(self, before: _Stage, behind: _Stage) -> Crossing | None:
        """Return where the best of one value is passed by the best of the next one."""
        old, new = before.order[0], behind.order[0]
        common = [stage for stage in self.stages if old in stage.cells and new in stage.cells]
        found = [(stage, versus(stage.cells[old], stage.cells[new], self.metric)) for stage in common]
        known = [(stage, pair[0]) for stage, pair in found if pair is not None]
        means = [self.sign * difference.mean for _, difference in known]
        ends = [sorted(self.sign * end for end in difference.ci95) for _, difference in known]
        curve = Curve(
            tuple(stage.number for stage, _ in known),
            tuple(means),
            tuple((low, high) for low, high in ends),
            self.is_log,
        )
        crossings = curve.crossings(0.0)
        return next((one for one in crossings if not one.rises and known[one.before][0] is before), None)

    def sentences(self, table: Table, best: str, form: Form, scale: Scale) -> list[str]:
        """Return who is best where, in sentences."""
        start = f"{place_text(table, self.at)}: " if self.at else ""
        leads = f"By how much: {'; '.join(stage.lead_text(form) for stage in self.stages)}."
        first = f"{self.start}{self.stages[0].order[0]}"
        unsure = [stage.label for stage in self.stages if not stage.is_resolved]
        if not self.handovers:
            found = [
                f"{start or 'There is '}no crossover on this range of {scale.title}: {first} has {best} at every value."
            ]
        else:
            parts = [f"{start}{first} has {best} up to {scale.title} = {self._told(*self.handovers[0], scale)}"]
            for index, (_, behind) in enumerate(self.handovers):
                later = self.handovers[index + 1 : index + 2]
                until = f"up to {self._told(*later[0], scale)}" if later else "from there on"
                parts.append(f"then {self.start}{behind.order[0]} {until}")
            found = [f"{', '.join(parts)}."]
        found.append(leads)
        if unsure:
            found.append(f"Who is best is not resolved at {listed(unsure)}.")
        return found

    def _told(self, before: _Stage, behind: _Stage, scale: Scale) -> str:
        """Return where one becomes better than the other, in words."""
        crossing = self.crossing(before, behind)
        if crossing is None:
            return f"{before.label} (at {behind.label} they cannot be compared)"
        form = scale.form_at(crossing.at)
        low, high = crossing.low, crossing.high
        if low is not None and high is not None:
            return f"{form.value(crossing.at, (low, high))} (between {before.label} and {behind.label})"
        first = f"below {self.stages[0].label}" if low is None else form.plain(low, unit="")
        last = f"above {self.stages[-1].label}" if high is None else form.plain(high)
        return f"{form.plain(crossing.at)} [{first}, {last}]"

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        crossings = []
        for before, behind in self.handovers:
            found = self.crossing(before, behind)
            crossings.append(
                {
                    "from": before.order[0],
                    "to": behind.order[0],
                    "between": [before.label, behind.label],
                    "at": None if found is None else found.at,
                    "at_ci95": None if found is None else [found.low, found.high],
                }
            )
        return {
            "at": self.at,
            "best": [
                {
                    "value": stage.label,
                    "number": stage.number,
                    "best": stage.order[0],
                    "order": stage.order,
                    "mean": stage.mean,
                    "ahead_of_second": difference_data(stage.lead[0]) if stage.lead is not None else None,
                }
                for stage in self.stages
            ],
            "crossings": crossings,
        }
