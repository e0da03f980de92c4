"""Who is best at each value of an axis, and between which values another one becomes the best."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.curve import Crossing, Curve
from analysis.answers.versus import common_rows, mean_of, versus
from analysis.ranking import ranking_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.ranking import Ranking
    from analysis.study.table import Cell

__all__ = ["Handover", "Race", "Span", "Stage"]


class Stage(NamedTuple):
    """One value of the axis: who competes there, and who may be the best of all of them together.

    Parameters
    ----------
    label, number
        The value.
    order
        Those who compete and have a mean, best first.
    leaders
        The first, and those with the same values in every replication.
    open
        Those that may be best too; empty where it is resolved who is.
    mean
        Of the first.
    ranking
        Of all together, as `analysis.answers.best` has it; ``None`` of a single replication.
    replications
        Those that all have.
    cells
        By name.
    """

    label: str
    number: float
    order: tuple[str, ...]
    leaders: tuple[str, ...]
    open: tuple[str, ...]
    mean: float
    ranking: Ranking | None
    replications: int
    cells: Mapping[str, Cell]

    @classmethod
    def of(cls, label: str, number: float, cells: Mapping[str, Cell], metric: str, *, is_lowest: bool) -> Stage | None:
        """Return who is best at a value; ``None`` where fewer than two compete."""
        names, rows = list(cells), common_rows(list(cells.values()), metric)
        count = min((len(ratios) for ratios in rows), default=0)
        means = {name: mean_of(cell, metric, count) for name, cell in cells.items()}
        known = {name: mean for name, mean in means.items() if mean is not None}
        if len(known) < 2:
            return None
        ranking = ranking_of(rows, lowest=is_lowest, metric=metric)
        if ranking is None or len(ranking.order) < 2:
            order = tuple(sorted(known, key=lambda name: known[name] if is_lowest else -known[name]))
            return cls(label, number, order, order[:1], order[1:], known[order[0]], None, count, cells)
        order = tuple(names[place] for place in ranking.order)
        may_be = {names[place] for place in ranking.may_be_best}
        behind = dict(zip(order, ranking.behind, strict=True))
        others = [name for name in order[1:] if name in may_be]
        ties = tuple(name for name in others if behind[name] == (0, (0, 0)))
        rest = tuple(name for name in others if name not in ties)
        return cls(label, number, order, (order[0], *ties), rest, known[order[0]], ranking, count, cells)

    @property
    def is_resolved(self) -> bool:
        """Whether nobody else may be best."""
        return not self.open

    @property
    def may_be_best(self) -> tuple[str, ...]:
        """Those that may be best, in order of their means."""
        return tuple(name for name in self.order if name in self.leaders or name in self.open)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        second = None
        if self.ranking is not None:
            mean, interval = self.ranking.behind[1]
            second = {"mean": mean, "ci95": interval, "resolved": self.is_resolved}
        return {
            "value": self.label,
            "number": self.number,
            "best": self.order[0],
            "may_be_best": list(self.may_be_best),
            "order": list(self.order),
            "mean": self.mean,
            "ahead_of_second": second,
            "replications": self.replications,
        }


class Span(NamedTuple):
    """Neighbouring values at which the same may be best."""

    stages: tuple[Stage, ...]

    @property
    def first(self) -> Stage:
        """The first of them."""
        return self.stages[0]

    @property
    def last(self) -> Stage:
        """The last of them."""
        return self.stages[-1]

    @property
    def is_resolved(self) -> bool:
        """Whether it is resolved who is best."""
        return self.first.is_resolved

    @property
    def names(self) -> tuple[str, ...]:
        """Those that may be best."""
        return self.first.may_be_best


class Handover(NamedTuple):
    """Two values at which it is resolved that not the same is best."""

    before: Stage
    behind: Stage
    crossing: Crossing | None

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        found = self.crossing
        return {
            "from": self.before.order[0],
            "to": self.behind.order[0],
            "between": [self.before.label, self.behind.label],
            "at": None if found is None else found.at,
            "at_ci95": None if found is None else [found.low, found.high],
        }


class Race(NamedTuple):
    """Who is best along an axis."""

    at: dict[str, str]
    stages: tuple[Stage, ...]
    metric: str
    is_lowest: bool
    is_log: bool

    @property
    def spans(self) -> list[Span]:
        """The axis in parts in which the same may be best."""
        grouped = itertools.groupby(self.stages, key=lambda stage: (stage.is_resolved, frozenset(stage.may_be_best)))
        return [Span(tuple(stages)) for _, stages in grouped]

    @property
    def handovers(self) -> list[Handover]:
        """Neighbours among the values at which it is resolved who is best, if not the same is best at them."""
        found: list[Handover] = []
        before: Stage | None = None
        for stage in self.stages:
            if not stage.is_resolved:
                continue
            if before is not None and not set(before.leaders) & set(stage.leaders):
                found.append(Handover(before, stage, self._crossing(before, stage)))
                before = stage
            # Where another one is level with the best it is not yet behind.
            elif before is None or set(stage.leaders) <= set(before.leaders):
                before = stage
        return found

    def _crossing(self, before: Stage, behind: Stage) -> Crossing | None:
        """Return where the best of one value is passed by that of another; ``None`` if a third may be between."""
        old, new = before.order[0], behind.order[0]
        between = [stage for stage in self.stages if before.number < stage.number < behind.number]
        if any(not set(stage.may_be_best) <= {*before.leaders, *behind.leaders} for stage in between):
            return None
        common = [stage for stage in self.stages if old in stage.cells and new in stage.cells]
        found = [
            (stage, versus(stage.cells[old], stage.cells[new], self.metric, stage.replications)) for stage in common
        ]
        known = [(stage, pair[0]) for stage, pair in found if pair is not None]
        sign = -1.0 if self.is_lowest else 1.0
        ends = [sorted(sign * end for end in difference.ci95) for _, difference in known]
        curve = Curve(
            tuple(stage.number for stage, _ in known),
            tuple(sign * difference.mean for _, difference in known),
            tuple((low, high) for low, high in ends),
            self.is_log,
        )
        falling = (one for one in curve.crossings(0.0) if not one.rises)
        return next((one for one in falling if before.number <= known[one.before][0].number < behind.number), None)

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "at": self.at,
            "best": [stage.data() for stage in self.stages],
            "crossings": [handover.data() for handover in self.handovers],
        }
