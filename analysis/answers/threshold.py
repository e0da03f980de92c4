"""Where a metric passes a value along an axis: what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from analysis.answers.places import lines_of, no_lines, scale_of
from analysis.answers.question import METRIC, Answer, Question, silence
from analysis.answers.verdict import verdict_of
from analysis.answers.verdict_words import sentences_of, summary_sentences
from analysis.answers.words import dimension_of, form_of
from sim import units
from sim.fields import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from analysis.study.axis import Axis
    from analysis.study.table import Table

__all__ = ["Threshold"]


class Threshold(Question):
    """Where a metric passes a value along a numeric axis, for every combination of the other axes."""

    ask: Literal["threshold"] = "threshold"
    metric: str = METRIC
    at_least: Any = Field(None, description="The value that the metric has to reach: 0.95, 95 %, 30 d.")
    at_most: Any = Field(None, description="The value that it must not pass.")
    along: str = Field(description="The axis of numbers along which it is sought.")
    over: Literal["luck", "parameters"] = Field(
        "luck",
        description="What it has to hold for: the unknown inputs at their central values, or nearly all of them.",
    )

    @model_validator(mode="after")
    def _has_one_value(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            message = "give at_least or at_most, one of them"
            raise ValueError(message)
        return self

    def check(self, axes: Mapping[str, Axis], metrics: Sequence[str]) -> None:
        """Refuse what is no numeric axis, a value that the metric cannot have, and unknowns that are not there."""
        self._check_axis("along", self.along, axes, numeric=True)
        self._level(self._headline(metrics))
        if self.over == "parameters" and not any(axis.is_uncertain for axis in axes.values()):
            raise RuleError(("over",), "parameters: no axis has a distribution, so nothing is unknown")

    def _level(self, metric: str) -> float:
        """Return the value that a metric is held against [SI]."""
        key = "at_least" if self.at_most is None else "at_most"
        value = getattr(self, key)
        dimension = dimension_of(metric)
        try:
            if dimension is not None:
                return units.parse(value, dimension)
        except units.UnitError as error:
            raise RuleError((key,), str(error)) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RuleError((key,), f"must be a number, for {metric} has no unit that could be written")
        return float(value)

    def answer(self, table: Table) -> Answer:
        """Return where the value is passed."""
        metric = self._headline(table.metrics)
        lines = lines_of(table, self.along)
        silent = silence(table, metric) or no_lines(table, lines, self.along)
        if silent:
            return Answer(self.ask, (silent,), {"metric": metric, "along": self.along, "lines": []})
        level, is_least = self._level(metric), self.at_most is None
        scale, unknown = scale_of(table, self.along), self.over == "parameters"
        verdicts = [
            verdict_of(
                table, line, self.along, metric, level, is_log=scale.is_log, is_least=is_least, is_unknown=unknown
            )
            for line in lines
        ]
        means = [row.summary.mean or 0.0 for verdict in verdicts for row in verdict.rows]
        form = form_of(metric, [*means, level], table.currency)
        sentences = summary_sentences(verdicts, metric, form, scale)
        sentences += [text for verdict in verdicts for text in sentences_of(verdict, metric, form, scale)]
        data = {
            "metric": metric,
            "at_least" if is_least else "at_most": level,
            "along": self.along,
            "over": self.over,
            "lines": [verdict.data() for verdict in verdicts],
        }
        return Answer(self.ask, tuple(sentences), data)
