"""Questions that a study may ask; each kind is a file of this folder, listed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from analysis.study.questions.along import Crossover, Threshold, Trend
from analysis.study.questions.best import Best, Compare, Pareto
from analysis.study.questions.sensitivity import Sensitivity
from sim.scenario.fields import OneOf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.study.questions.question import Question

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
    _KINDS = tuple(QUESTIONS.values())
    AnyQuestion = Annotated[Union[_KINDS], OneOf("use", "questions", _KINDS)]  # noqa: UP007
