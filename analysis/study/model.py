"""The study as a user describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from analysis.answers.questions import AnyQuestion
from analysis.study.axis import Axis
from analysis.study.designs import AnyDesign, Grid
from sim.fields import Model, RuleError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Optimum", "PrecisionSpec", "Study"]


class PrecisionSpec(Model):
    """When a point has enough replications."""

    width: str = Field(description="Half-width of the 95 % interval of the mean: 0.1pt (points of a share) or 2%.")
    metric: str = Field("", description="The metric that it is about; omitted: the first one of the study.")
    least: int = Field(30, ge=10, multiple_of=10, description="Replications before the first decision.")
    most: int = Field(1000, ge=10, multiple_of=10, description="Replications after which a point is given up.")

    @model_validator(mode="after")
    def _least_is_below_most(self) -> Self:
        if self.least > self.most:
            raise RuleError(("most",), f"must be at least {self.least}, which is least")
        return self


class Optimum(Model):
    """What `ettrick optimize` looks for."""

    maximize: str = Field("", description="A metric, or the name of an axis.")
    minimize: str = Field("", description="A metric, or the name of an axis.")
    pareto: tuple[str, ...] = Field((), description="Further metrics, weighed against the first: a front is sought.")
    subject_to: tuple[str, ...] = Field((), description="Conditions such as 'p_finish_by >= 0.95'.")
    over: Literal["luck", "luck+parameters"] = Field(
        "luck", description="Whether conditions hold at the central values of what is unknown, or over all draws of it."
    )
    trials: int = Field(40, ge=4, description="Points that are tried, where a search over several axes is needed.")
    confirm: int = Field(64, ge=16, description="Replications of the confirmation, on fresh seeds.")

    @model_validator(mode="after")
    def _has_one_aim(self) -> Self:
        if bool(self.maximize) == bool(self.minimize):
            message = "give maximize or minimize, one of them"
            raise ValueError(message)
        return self


class Study(Model):
    """A scenario, what varies in it, and what is asked."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the study.")
    question: str = Field("", description="What is asked, in a sentence.")
    description: str = Field("", description="One line for lists.")
    scenario: str = Field(min_length=1, description="The scenario: a file, relative to this one, or a shipped name.")
    set: dict[str, Any] = Field({}, description="Values that replace those of the scenario at every point, by path.")
    vary: dict[str, Axis] = Field(min_length=1, description="What varies: a name or a path each.")
    design: AnyDesign = Field(default_factory=Grid, description="Which combinations are looked at.")
    metrics: tuple[str, ...] = Field(("ettr",), min_length=1, description="What is reported, the most important first.")
    replications: int | None = Field(None, ge=2, description="Replications of every point; omitted: 16.")
    precision: PrecisionSpec | None = Field(None, description="In place of replications: until an interval is narrow.")
    seed: int | None = Field(None, ge=0, lt=2**63, description="Seed of all points; omitted: the scenario's.")
    at_equal: Literal["gpus", "power", "cost"] | None = Field(
        None, description="What unlike clusters are to be compared at."
    )
    questions: tuple[AnyQuestion, ...] = Field((), description="What the results are to answer.")
    optimize: Optimum | None = Field(None, description="What `ettrick optimize` looks for.")
    assumptions: tuple[str, ...] = Field((), description="What the study takes for granted beside the scenario's.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.replications is not None and self.precision is not None:
            raise RuleError(("precision",), "give replications or a precision, not both")
        self.design.check(self.vary)
        taken: dict[str, str] = {}
        for name, axis in self.vary.items():
            for path in _paths(name, axis):
                if path in taken:
                    raise RuleError(("vary", name), f"{path} is varied by {taken[path]} already")
                taken[path] = name
                if path in self.set:
                    raise RuleError(("set", path), f"is varied too, by {name}; say it once")
        for index, question in enumerate(self.questions):
            try:
                question.check(self.vary, self.metrics)
            except RuleError as error:
                raise RuleError(("questions", index, *error.at), error.rule) from None
        return self


def _paths(name: str, axis: Axis) -> set[str]:
    """Return every path that an axis writes to."""
    if isinstance(axis.choices, dict) and not (axis.path or axis.paths):
        return {path for value in axis.values(name) for path, _ in value.settings}
    return set(axis.targets(name))
