"""The study as a user describes it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

from pydantic import Field, model_validator

from ettrick.analysis.amounts import dimension_of
from ettrick.analysis.contest.precision import Precision, ReplicationsError
from ettrick.analysis.metrics import METRICS, is_share
from ettrick.analysis.study.amounts import label_of
from ettrick.analysis.study.axis import Axis, check_paths
from ettrick.analysis.study.designs import DESIGNS, AnyDesign, Grid
from ettrick.analysis.study.distributions import DISTRIBUTIONS
from ettrick.analysis.study.questions.along import Crossover, Threshold, Trend
from ettrick.analysis.study.questions.best import Best, Compare, Pareto
from ettrick.analysis.study.questions.sensitivity import Sensitivity
from ettrick.sim import units
from ettrick.sim.scenario.fields import Count, Fraction, Model, OneOf, Power, RuleError
from ettrick.sim.scenario.model import Money
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.analysis.study.questions.question import Question
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.yamlfile import Keys

QUESTIONS: Mapping[str, type[Question]] = {
    "best": Best,
    "compare": Compare,
    "crossover": Crossover,
    "pareto": Pareto,
    "sensitivity": Sensitivity,
    "threshold": Threshold,
    "trend": Trend,
}
"""Questions that a study may ask; their files are in the folder ``questions``."""

if TYPE_CHECKING:
    AnyQuestion = Question
else:
    _KINDS = tuple(QUESTIONS.values())
    AnyQuestion = Annotated[Union[_KINDS], OneOf("use", "questions", _KINDS)]  # noqa: UP007

_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]*$"

# Conditions on the answer: a metric and the bound that it must keep.

Verdict = Literal["holds", "fails", "open"]
"""The verdict of an interval on a condition: fulfilled, not fulfilled, or open."""

_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*(?:@\w+=[^@<>=\s]+)*)\s*(>=|<=)\s*(\S.*?)\s*", re.DOTALL)


class Condition(NamedTuple):
    """A condition on the answer.

    Parameters
    ----------
    at_least
        Whether the bound is the smallest value that is allowed, else the largest.
    bound
        The bound, in SI units where the metric has units.
    """

    text: str
    metric: str
    at_least: bool
    bound: float

    def is_met(self, mean: float | None) -> bool:
        """Return whether a mean keeps the bound; without a mean nothing is kept."""
        return mean is not None and (mean >= self.bound if self.at_least else mean <= self.bound)

    def violation(self, mean: float) -> float:
        """Return by how much a mean misses the bound, relative to it; not above zero where it is kept."""
        short = self.bound - mean if self.at_least else mean - self.bound
        return short / (abs(self.bound) or 1.0)

    def verdict(self, mean: float | None, ci95: Interval | None) -> Verdict:
        """Return what the interval of a mean says."""
        if mean is None:
            return "fails"
        if ci95 is None:
            return "open"
        low, high = ci95 if self.at_least else (-ci95[1], -ci95[0])
        bound = self.bound if self.at_least else -self.bound
        return "holds" if low >= bound else "fails" if high < bound else "open"


def condition_of(text: str) -> Condition:
    """Return a condition that was written as ``metric >= bound`` or ``metric <= bound``.

    Raises
    ------
    ValueError
        If it was not, or the bound is no value of the metric.
    """
    parts = _FORM.fullmatch(text)
    if parts is None:
        message = f"'{text}' is not a condition; write a metric, >= or <=, and a bound, for example p_finish_by >= 0.95"
        raise ValueError(message)
    metric, sign, bound = parts.groups()
    return Condition(text, metric, sign == ">=", _bound(metric, bound, dimension_of(metric)))


def _bound(metric: str, text: str, dimension: units.Dimension | None) -> float:
    if dimension is not None:
        return units.parse(text, dimension)
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"'{text}' is not a number; the bound of {metric} is a number without a unit") from None


class PrecisionSpec(Model):
    """The rule for enough replications of a point."""

    width: str = Field(description="Half-width of the 95 % interval of the mean: 0.1pt (percentage points) or 2%.")
    metric: str = Field("", description="The metric that it is about; omitted: the first one of the study.")
    least: int = Field(30, ge=10, multiple_of=10, description="Replications before the first decision.")
    most: int = Field(1000, ge=10, multiple_of=10, description="Replications after which a point is given up.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        try:
            Precision.parse(self.width)
        except ReplicationsError as error:
            raise RuleError(("width",), str(error)) from None
        if self.least > self.most:
            raise RuleError(("most",), f"must be at least {self.least}, which is least")
        return self


class Budget(Model):
    """Limits of the cluster: exact, and not conditions that runs keep by chance."""

    power: Power | None = Field(
        None, gt=0, description="Power at the meter: all nodes in training, spares too, switches and storage, x PUE."
    )
    gpus: Count | None = Field(None, gt=0, description="GPUs that are owned, spares and unused ones among them.")
    capex: Money | None = Field(None, gt=0, description="Price of the cluster, by cost.capex of the scenario.")

    def _broken_rules(self) -> BrokenRules:
        if not self.limits:
            yield (), "limits nothing; give power, gpus or capex"

    @property
    def limits(self) -> dict[str, float]:
        """Limits by what they are of [W, GPUs, currency]."""
        limits = {"power": self.power, "gpus": self.gpus, "capex": self.capex}
        return {name: float(limit) for name, limit in limits.items() if limit is not None}


class BatchBounds(Model):
    """The range in which the global batch may be."""

    sequences: tuple[Count, ...] = Field(min_length=2, max_length=2, description="Fewest and most sequences of a step.")

    def _broken_rules(self) -> BrokenRules:
        least, most = self.sequences
        if least < 1:
            yield ("sequences", 0), "a batch has one sequence at least"
        elif most < least:
            yield ("sequences",), f"is [fewest, most], and {most:,} is less than {least:,}"


_LARGEST_TIE = 0.5
"""Relative difference from which on nothing would differ [-]."""


class Optimum(Model):
    """The goal of `ettrick optimize`."""

    maximize: str = Field("", description="A metric, or the name of an axis.")
    minimize: str = Field("", description="A metric, or the name of an axis.")
    pareto: tuple[str, ...] = Field((), description="Further metrics, weighed against the first: a front is sought.")
    subject_to: tuple[str, ...] = Field((), description="Conditions such as 'p_finish_by >= 0.95'.")
    over: Literal["runs", "runs+parameters"] = Field(
        "runs", description="Whether conditions hold at the central values of what is unknown, or over all draws of it."
    )
    budget: Budget | None = Field(None, description="Limits of the cluster; needed where the size is derived.")
    batch: BatchBounds | None = Field(
        None, description="How far a derived layout may change the global batch; omitted: not at all."
    )
    tie: str = Field(
        "", description="Difference that does not matter: 0.5 %, or of shares 0.1pt; omitted: as the study says."
    )
    confidence: Fraction = Field(
        0.95, gt=0.5, lt=1, description="Probability with which the answer is as good as is said."
    )
    precision: str = Field(
        "", description="Regret that is small enough: 0.1 %, or of shares 0.1pt; omitted: what counts as equal."
    )
    trials: int = Field(40, ge=4, description="Points that are evaluated, where a search over several axes is needed.")
    confirm: int = Field(64, ge=16, description="Replications of the confirmation, on fresh seeds.")

    @model_validator(mode="after")
    def _has_one_aim(self) -> Self:
        if bool(self.maximize) == bool(self.minimize):
            raise ValueError("give maximize or minimize, one of them")
        for key, text in (("tie", self.tie), ("precision", self.precision)):
            if text:
                _check_width(text, (key,), _LARGEST_TIE)
        return self

    def named(self) -> list[tuple[Keys, str]]:
        """Return every metric or axis that is named, and where.

        Raises
        ------
        RuleError
            At the first condition that cannot be read.
        """
        aims = {"maximize": self.maximize, "minimize": self.minimize}
        names: list[tuple[Keys, str]] = [(("optimize", key), name) for key, name in aims.items() if name]
        names += [(("optimize", "pareto", index), name) for index, name in enumerate(self.pareto)]
        for index, text in enumerate(self.subject_to):
            at = ("optimize", "subject_to", index)
            try:
                names.append((at, condition_of(text).metric))
            except ValueError as error:
                raise RuleError(at, str(error)) from None
        return names


class Study(Model):
    """A scenario, what varies in it, and what is asked."""

    name: str = Field(min_length=1, json_schema_extra={"pattern": _NAME}, description="Name of the study.")
    question: str = Field("", description="The question, in a sentence.")
    description: str = Field("", description="A line for lists.")
    scenario: str = Field(min_length=1, description="The scenario: a file, relative to this one, or a shipped name.")
    set: dict[str, Any] = Field({}, description="Values that replace those of the scenario at every point, by path.")
    vary: dict[str, Axis] = Field(min_length=1, description="Axes that vary, each with a name or a path.")
    design: AnyDesign = Field(default_factory=Grid, description="Which combinations are looked at.")
    metrics: tuple[str, ...] = Field(("ettr",), min_length=1, description="Metrics reported, the most important first.")
    replications: int | None = Field(None, ge=2, description="Replications of every point; omitted: 16.")
    precision: PrecisionSpec | None = Field(
        None, description="Instead of replications: simulate until an interval is narrow."
    )
    seed: int | None = Field(None, ge=0, lt=2**63, description="Seed of all points; omitted: the scenario's.")
    at_equal: Literal["gpus", "power", "cost"] | None = Field(
        None, description="Quantity at which unlike clusters are compared."
    )
    tie: str = Field(
        "", description="Difference too small to matter: of shares 0.1pt, of other metrics 0.5%; omitted: these."
    )
    questions: tuple[AnyQuestion, ...] = Field(
        (), description="Questions that the results answer: the first entries are the clauses of `question`, in order."
    )
    optimize: Optimum | None = Field(None, description="Goal of `ettrick optimize`.")
    assumptions: tuple[str, ...] = Field(
        (), description="Assumptions of the study, in addition to those of the scenario."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not re.fullmatch(_NAME, self.name):
            raise RuleError(("name",), f"'{self.name}' must be of letters, digits, '.', '_' and '-'")
        if self.replications is not None and self.precision is not None:
            raise RuleError(("precision",), "give replications or a precision, not both")
        check_paths(self.vary, self.set)
        self._check_derived()
        self._check_metrics()
        self.design.check(self.vary)
        self._check_precision()
        for index, question in enumerate(self.questions):
            try:
                question.check(self.vary, self.metrics)
            except RuleError as error:
                raise RuleError(("questions", index, *error.at), error.rule) from None
        return self

    @property
    def is_listed(self) -> bool:
        """Whether its combinations follow from budgets and conditions on axes, and are not those of a design."""
        has_budget = self.optimize is not None and self.optimize.budget is not None
        return has_budget or any(axis.derive or axis.where for axis in self.vary.values())

    def _check_derived(self) -> None:
        """Refuse derived axes that nothing limits, two of a kind, and values that no other axis has."""
        kinds: dict[str, str] = {}
        for name, axis in self.vary.items():
            key = "derive" if axis.derive else "where"
            if (axis.derive or axis.where) and self.optimize is None:
                raise RuleError(("vary", name, key), "is for ettrick optimize: add a section optimize")
            if axis.derive and kinds.setdefault(axis.derive, name) != name:
                raise RuleError(("vary", name, "derive"), f"{axis.derive} is derived by {kinds[axis.derive]} already")
            for place, content in axis.where.items():
                self._check_where(name, place, content)
        if "size" in kinds and self.optimize is not None and self.optimize.budget is None:
            raise RuleError(("vary", kinds["size"], "derive"), "needs a limit: add optimize.budget, as power: 100 MW")

    def _check_where(self, name: str, condition: str, content: Any) -> None:
        """Refuse a condition of an axis that no value of another one keeps."""
        at = ("vary", name, "where", condition)
        axis = self.vary.get(condition)
        if axis is None or condition == name or axis.where:
            names = [key for key, rival in self.vary.items() if key != name and not rival.where]
            raise RuleError(at, f"'{condition}' is no axis that exists everywhere{suggest(condition, names)}")
        unknown = [label for label in where_labels(content) if label not in axis.labels(condition)]
        if unknown:
            has = f"has {', '.join(axis.labels(condition))}" if axis.labels(condition) else "has no choices"
            raise RuleError(
                at, f"'{unknown[0]}' is no choice: {condition} {has}{suggest(unknown[0], axis.labels(condition))}"
            )

    def _check_metrics(self) -> None:
        """Refuse names that no metric has, wherever one is named."""
        named: list[tuple[Keys, str]] = [(("metrics", index), name) for index, name in enumerate(self.metrics)]
        if self.precision is not None and self.precision.metric:
            named.append((("precision", "metric"), self.precision.metric))
        for place, question in enumerate(self.questions):
            named += [(("questions", place), name) for name in question.metrics if name not in self.vary]
        if self.optimize is not None:
            named += [(at, name) for at, name in self.optimize.named() if name not in self.vary]
        for index, name in enumerate(self.metrics):
            if name in self.metrics[:index]:
                raise RuleError(("metrics", index), f"{name} is given twice")
        for at, name in named:
            if name not in METRICS:
                raise RuleError(at, f"unknown metric '{name}'{suggest(name, METRICS)}")

    def _check_precision(self) -> None:
        """Refuse percentage points of a metric that is no share, and a tie that is no difference."""
        if self.tie:
            _check_width(self.tie, ("tie",))
        if self.precision is not None and not Precision.parse(self.precision.width).relative:
            metric = self.precision.metric or self.metrics[0]
            if not is_share(metric):
                rule = f"percentage points are for shares, and {metric} is not one: write a precision such as 2%"
                raise RuleError(("precision", "width"), rule)


def where_labels(content: Any) -> tuple[str, ...]:
    """Return the labels that an axis is conditioned on: one, or those of a list."""
    return tuple(map(label_of, content)) if isinstance(content, list | tuple) else (label_of(content),)


def _check_width(text: str, at: Keys, most: float = math.inf) -> None:
    """Refuse what is no difference, or so large that everything would be equal."""
    try:
        width = Precision.parse(text).width
    except ReplicationsError as error:
        raise RuleError(at, str(error)) from None
    if width >= most:
        raise RuleError(at, f"{text} is too much: below {most:.0%}")


# The JSON Schema of study files, for editors.


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of study files.

    It knows the keys and what may stand there. What depends on the scenario, or concerns several keys, is for
    `ettrick.analysis.study.load.load_study` and `ettrick.analysis.study.load.first_look`.
    """
    content = Study.model_json_schema()
    registries = (DESIGNS, DISTRIBUTIONS, QUESTIONS)
    for registry in registries:
        for name, kind in registry.items():
            part = content["$defs"][kind.__name__]
            # A design that names none is a grid.
            if name != "grid":
                part["required"] = ["use", *(key for key in part.get("required", []) if key != "use")]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **content}
