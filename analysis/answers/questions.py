"""Questions that a study may ask; each kind is a file of this folder, listed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from analysis.answers.best import Best
from analysis.answers.compare import Compare
from analysis.answers.crossover import Crossover
from analysis.answers.pareto import Pareto
from analysis.answers.question import Answer, Question
from analysis.answers.sensitivity import Sensitivity
from analysis.answers.threshold import Threshold
from analysis.answers.trend import Trend

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["QUESTIONS", "Answer", "AnyQuestion", "Question"]

QUESTIONS: Mapping[str, type[Question]] = {
    "best": Best,
    "compare": Compare,
    "crossover": Crossover,
    "pareto": Pareto,
    "sensitivity": Sensitivity,
    "threshold": Threshold,
    "trend": Trend,
}
if TYPE_CHECKING:
    AnyQuestion = Question
else:
    AnyQuestion = Annotated[Union[tuple(QUESTIONS.values())], Field(discriminator="ask")]  # noqa: UP007
