"""Which combination is best, and which others may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from analysis.answers.effort import more_replications
from analysis.answers.places import Line, labels_of, lines_of, place_text, varying
from analysis.answers.question import METRIC, Answer, Question, is_lowest_best, silence
from analysis.answers.versus import common_rows, mean_of
from analysis.answers.words import form_of, listed, name_of
from analysis.cells import number_of
from analysis.intervals import mean_estimate
from analysis.ranking import ranking_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.words import Form
    from analysis.ranking import Ranking
    from analysis.study.axis import Axis
    from analysis.study.table import Cell, Table

__all__ = ["Best"]

_MOST_NAMED = 6
"""Rivals of the best that a sentence names; the data have all."""


class Best(Question):
    """Which combination is best, and which others may be: alone, or for each value of some axes."""

    ask: Literal["best"] = "best"
    metric: str = METRIC
    direction: Literal["highest", "lowest"] | None = Field(None, description="What is best; omitted: as the metric is.")
    for_each: tuple[str, ...] = Field((), description="Axes for each value of which the best of the others is sought.")

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse names that are no axes."""
        for name in self.for_each:
            self._check_axis("for_each", name, axes)

    def answer(self, table: Table) -> Answer:
        """Return the best cell, of each group the best one."""
        metric = self._headline(table.metrics)
        silent = silence(table, metric)
        if silent:
            return Answer(self.ask, (silent,), {"metric": metric, "groups": []})
        is_lowest = is_lowest_best(metric, self.direction or "")
        others = [name for name in table.axes if name not in self.for_each]
        groups = lines_of(table, *others) if self.for_each else [Line({}, table.running, ())]
        found = [_Group.of(line, metric, is_lowest=is_lowest) for line in groups]
        means = [group.mean(place) for group in found for place in group.order]
        form = form_of(metric, means, table.currency)
        names = varying(table)
        sentences = [text for group in found for text in group.sentences(table, names, form, is_lowest=is_lowest)]
        data = {
            "metric": metric,
            "direction": "lowest" if is_lowest else "highest",
            "groups": [group.data(table) for group in found],
        }
        return Answer(self.ask, tuple(sentences), data)


class _Group(NamedTuple):
    """Candidates among which the best is sought, all over the first replications that they have in common."""

    at: dict[str, str]
    metric: str
    cells: tuple[Cell, ...]
    ranking: Ranking | None
    rivals: tuple[int, ...]
    """Positions of those that may be best beside the first, in order."""
    replications: int

    @classmethod
    def of(cls, line: Line, metric: str, *, is_lowest: bool) -> _Group:
        """Return the ranking of the cells of a line."""
        cells = tuple(cell for cell in line.cells if cell.stated.metrics.get(metric))
        rows = common_rows(cells, metric)
        ranking = ranking_of(rows, lowest=is_lowest, metric=metric) if rows else None
        rivals: tuple[int, ...] = ()
        if ranking is not None:
            may_be = set(ranking.may_be_best)
            rivals = tuple(place for place in ranking.order[1:] if place in may_be)
        return cls(line.others, metric, cells, ranking, rivals, len(rows[0]) if rows else 0)

    def mean(self, place: int) -> float:
        """Return the mean of a candidate that is ranked."""
        return mean_of(self.cells[place], self.metric, self.replications) or 0.0

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the candidates, best first."""
        return self.ranking.order if self.ranking is not None else ()

    def data(self, table: Table) -> dict[str, Any]:
        """Return the ranking as plain data."""
        if self.ranking is None:
            return {"at": self.at, "best": None, "order": []}
        return {
            "at": self.at,
            "best": labels_of(table, self.cells[self.order[0]]),
            "may_be_best": [labels_of(table, self.cells[place]) for place in self.rivals],
            "replications": self.replications,
            "replications_to_resolve": self.ranking.replications_to_resolve,
            "order": [
                {
                    "at": labels_of(table, self.cells[place]),
                    "mean": self.mean(place),
                    "behind": behind[0],
                    "behind_ci95": behind[1],
                }
                for place, behind in zip(self.order, self.ranking.behind, strict=True)
            ],
        }

    def sentences(self, table: Table, names: Sequence[str], form: Form, *, is_lowest: bool) -> list[str]:
        """Return the best and its rivals in sentences; `names` are the axes that vary."""
        start = f"{place_text(table, self.at)}: " if self.at else ""
        metric, word = self.metric, "lowest" if is_lowest else "highest"
        if self.ranking is None or not self.order:
            return [f"{start}no point has a mean of {name_of(metric)} over two replications or more."]
        first = self.cells[self.order[0]]
        interval = mean_estimate(first.stated.metrics[metric][: self.replications], metric).interval
        value = form.value(self.mean(self.order[0]), interval)
        place = self._told(table, names, self.order[0])
        the = "the" if start else "The"
        found = [f"{start}{the} {word} {name_of(metric)} is {value}{f', with {place}' if place else ''}."]
        if len(self.order) > 1:
            found += self._others(table, names, form)
        if any(len(cell.stated.metrics[metric]) > self.replications for cell in self.cells):
            found.append(f"Compared over the first {self.replications} replications, which all of them have.")
        left = len(self.cells) - len(self.order)
        if left:
            found.append(f"Not ranked: {number_of(left, 'point')} without a mean.")
        return found

    def _told(self, table: Table, names: Sequence[str], place: int) -> str:
        """Return what tells a candidate from the others, in words."""
        labels = labels_of(table, self.cells[place])
        return place_text(table, {name: labels[name] for name in names if name not in self.at})

    def _others(self, table: Table, names: Sequence[str], form: Form) -> list[str]:
        """Return how far the others are behind, or which of them may be best too."""
        assert self.ranking is not None
        ties = [place for place, behind in zip(self.order, self.ranking.behind, strict=True) if behind == (0, (0, 0))]
        may_be = set(self.rivals)
        ties = [place for place in ties if place in may_be]
        tied = set(ties)
        rivals = [place for place in self.rivals if place not in tied]
        found = [f"The same in every replication: {self._named(table, names, ties)}."] if ties else []
        if rivals:
            more = more_replications(self.ranking.replications_to_resolve, self.replications)
            found.append(
                f"Not resolved with {number_of(self.replications, 'replication')}: "
                f"{self._named(table, names, rivals)} may be best too; {more} would tell."
            )
        elif not ties:
            mean, interval = self.ranking.behind[1]
            found.append(
                f"It is the best of {len(self.order)} for sure (95 % for all together): the second, "
                f"{self._told(table, names, self.order[1])}, is {form.distance(mean, interval)} behind."
            )
        return found

    def _named(self, table: Table, names: Sequence[str], places: Sequence[int]) -> str:
        """Return some candidates by name."""
        named = [self._told(table, names, place) for place in places[:_MOST_NAMED]]
        left = len(places) - len(named)
        told = [f"({name})" for name in named] if len(named) > 1 else named
        return listed([*told, f"{left} more"] if left else told)
