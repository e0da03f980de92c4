"""Questions that a study may ask; each kind is a file of this folder, listed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from analysis.answers.best import Best
from analysis.answers.question import Answer, Question

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["QUESTIONS", "Answer", "AnyQuestion", "Question"]

QUESTIONS: Mapping[str, type[Question]] = {"best": Best}
if TYPE_CHECKING:
    AnyQuestion = Question
else:
    AnyQuestion = Annotated[Union[tuple(QUESTIONS.values())], Field(discriminator="ask")]  # noqa: UP007
