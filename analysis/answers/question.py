"""What every question has: what it is about, and the answer that a table of results gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from analysis.answers.words import NAMES
from analysis.metrics import lower_is_better
from sim.documents import suggest
from sim.fields import Model, RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.study.axis import Axis
    from analysis.study.table import Table

__all__ = ["METRIC", "Answer", "Question", "chosen_axes", "is_lowest_best", "silence"]


class Answer(NamedTuple):
    """What the results say to a question.

    Parameters
    ----------
    ask
        Kind of the question.
    sentences
        The answer in words, the most important sentence first.
    data
        The numbers that it rests on, as plain data.
    """

    ask: str
    sentences: tuple[str, ...]
    data: dict[str, Any]


class Question(Model):
    """A question; ``ask`` picks the entry of the registry."""

    ask: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be kept for the answer, beside the headline of the study."""
        metric = getattr(self, "metric", "")
        return (metric,) if metric else ()

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse a question that the axes of a study cannot answer.

        Raises
        ------
        RuleError
            At the key that is wrong.
        """

    def answer(self, table: Table) -> Answer:
        """Return the answer that a table gives."""
        raise NotImplementedError

    def _check_axis(self, key: str, name: str, axes: Mapping[str, Axis], *, numeric: bool = False) -> None:
        """Refuse the name of an axis that is not there, or whose values are not chosen, or not in an order."""
        chosen = chosen_axes(axes)
        if name not in axes:
            raise RuleError((key,), f"'{name}' is no axis{suggest(name, chosen)}")
        if name not in chosen:
            raise RuleError((key,), f"the values of {name} are not chosen but unknown{suggest('', chosen)}")
        if numeric and not axes[name].is_numeric:
            ordered = [other for other in chosen if axes[other].is_numeric]
            raise RuleError((key,), f"the values of {name} are not numbers{suggest('', ordered)}")

    def _headline(self, metrics: Sequence[str]) -> str:
        """Return the metric that the question is about, given those of the study."""
        return str(getattr(self, "metric", "")) or metrics[0]


def chosen_axes(axes: Mapping[str, Axis]) -> list[str]:
    """Return the axes whose values are chosen, by name: those of the others are unknown."""
    return [name for name, axis in axes.items() if not axis.is_uncertain]


def is_lowest_best(metric: str, direction: str = "") -> bool:
    """Return whether the lowest value of a metric is the best, unless a direction says which."""
    return direction == "lowest" if direction else lower_is_better(metric)


def silence(table: Table, metric: str) -> str:
    """Return why nothing can be said about a metric, in a sentence; empty if something can."""
    if not table.running:
        return "No point has results."
    known = dict.fromkeys(name for cell in table.running for name in cell.stated.metrics)
    if metric in known:
        return ""
    if metric in NAMES:
        return f"No point has the metric {metric}: the scenario does not say what it takes."
    return f"There is no metric {metric}{suggest(metric, [*NAMES, *known])}."


METRIC = Field("", description="The metric; omitted: the first one of the study.")
