"""The answers of a study in numbers: questions return them, JSON holds their keys, and pages read them.

Each kind of question has a type, which `answer_of` reads. A key that is not stated is not in JSON either: a question
without an answer states what was asked alone. Cells are named by the labels of their values, by axis; places on an axis
are in SI units.
"""

# Annotations are not postponed: pydantic would compile each at the start.
from typing import Any

from pydantic import ConfigDict, Field

from ettrick.analysis.parts import DifferenceSummary, Labels, Number, OpenPair, Pair, Part, Real, Texts, Whole
from ettrick.analysis.results.studies import AnswerSummary, IndexEstimate


class AnswerData(Part):
    """The answer to a question."""

    metric: str = ""

    def data(self) -> dict[str, Any]:
        """Return what is stated as plain data."""
        return self.model_dump(by_alias=True, exclude_unset=True)


# Which combination is best.


class RankedCell(Part):
    """A combination, and how far it is behind the best one; intervals of a group hold together."""

    at: Labels
    mean: Real
    behind: Real
    behind_ci95: Pair


class RankedGroup(Part):
    """Combinations with the same values of the axes for each of which a best one is sought."""

    at: Labels
    best: Labels | None  # ``None`` where none has a mean over two replications or more
    may_be_best: list[Labels] = Field([])  # rivals that are not resolved to be behind, best first
    replications: Whole = 0
    replications_to_resolve: Whole | None = None
    order: list[RankedCell]  # best first


class BestAnswer(AnswerData):
    """The best combination, in each group."""

    direction: str = ""
    groups: list[RankedGroup]


# What each value of an axis changes.


class ComparedLine(Part):
    """The effects of the values of an axis in one combination of the others, by label; null without a mean."""

    at: Labels
    against: str
    differences: dict[str, DifferenceSummary | None]
    best_at: dict[str, Labels] = Field({})  # where each value is at its own best; empty where all are at the same


class CompareAnswer(AnswerData):
    """The effect of each value of an axis."""

    axis: str
    lines: list[ComparedLine]


# Who is best along an axis, and where another one becomes the best.


class LeadSummary(Part):
    """The lead of the best over the second."""

    mean: Real
    ci95: Pair
    resolved: bool


class StageSummary(Part):
    """The best candidate at one value of an axis."""

    value: str
    number: Real
    best: str
    may_be_best: Texts  # the best among them
    order: Texts = Field([])  # all that compete, best first
    equal: Texts = Field([])  # those that differ from the best by less than what matters
    mean: Real
    ahead_of_second: LeadSummary | None
    replications: Whole = 0


class HandoverSummary(Part):
    """Two values between which another one becomes the best, and where; null if a third may be best between them."""

    former: str = Field(alias="from")
    latter: str = Field(alias="to")
    between: Texts
    at: Number
    at_ci95: OpenPair
    equal: OpenPair = None  # from where to where the two differ by less than what matters


class RaceSummary(Part):
    """The best candidates along an axis in one combination of the others."""

    at: Labels
    best: list[StageSummary]
    crossings: list[HandoverSummary]


class CrossoverAnswer(AnswerData):
    """The best candidates along an axis, and where they change."""

    between: str
    along: str
    lines: list[RaceSummary]


# The front of several aims.


class FrontCell(Part):
    """A combination on the front, or perhaps on it. Other keys: its metrics, and its numbers of axes, by name."""

    model_config = ConfigDict(extra="allow")

    at: Labels

    @property
    def certain(self) -> bool:
        """Whether it is resolved to be on the front."""
        return bool((self.model_extra or {}).get("certain"))


class ParetoAnswer(AnswerData):
    """The combinations that no other one beats in everything."""

    metrics: Texts
    axes: Texts
    front: list[FrontCell]
    may_be_too: list[FrontCell]
    replications: Whole = 0


# Which axis moves a metric most.


class MoveAnswer(Part):
    """The effect of one value of an axis, all others at the centre; null and why where that is not known."""

    value: str
    difference: DifferenceSummary | None
    trouble: str


class SwingAnswer(Part):
    """The range of a metric along an axis alone."""

    axis: str
    swing: Real
    moves: list[MoveAnswer]


class IndexAnswer(Part):
    """The share of the variance that one axis brings alone, and with all others."""

    axis: str
    first: IndexEstimate
    total: IndexEstimate


class SensitivityAnswer(AnswerData):
    """The axis that moves a metric most: ``tornado``, ``sobol``, or null where the points do not show it."""

    kind: str | None = None


class TornadoAnswer(SensitivityAnswer):
    """The axes by how far each alone moves a metric."""

    center: Real
    axes: list[SwingAnswer]


class SobolAnswer(SensitivityAnswer):
    """The axes by the variance that they bring."""

    rows: Whole
    replications: Whole
    left_out: Whole
    shares: dict[str, IndexEstimate] | None
    noise: Number
    axes: list[IndexAnswer]
    reason: str


# What it takes for a metric to pass a value.


class ConditionPoint(Part):
    """Whether a condition holds at one value of an axis."""

    value: str
    number: Real
    mean: Number = None
    mean_ci95: Pair = None
    band90: Pair = None
    holds: bool
    holds_with_certainty: bool


class CrossingSummary(Part):
    """The value at which a condition begins or ends to hold; along failure rates also as a time between failures."""

    at: Real
    at_ci95: OpenPair
    band90: OpenPair
    between: Texts
    begins: bool
    mtti_s: Number = None
    mtbf_gpu_s: Number = None
    mtbf_node_s: Number = None


class ConditionLine(Part):
    """The range in which a condition holds along an axis in one combination of the others."""

    at: Labels
    points: list[ConditionPoint]
    crossings: list[CrossingSummary]
    without_mean: Labels = Field({})


class ThresholdAnswer(AnswerData):
    """The values at which a metric passes a bound: `at_least` or `at_most`."""

    at_least: Number = None
    at_most: Number = None
    along: str
    over: str = "runs"
    lines: list[ConditionLine]


# What an axis does to a metric.


class TrendPoint(Part):
    """A metric at one value of an axis."""

    value: str
    number: Real
    mean: Real


class TrendStep(Part):
    """The change from one value of an axis to another."""

    start: str = Field(alias="from")
    end: str = Field(alias="to")
    difference: DifferenceSummary


class TrendLine(Part):
    """The trend along an axis in one combination of the others; `whole` and `course` where two values have a mean."""

    at: Labels
    points: list[TrendPoint]
    steps: list[TrendStep]
    without_mean: Labels = Field({})
    whole: TrendStep | None = None
    course: str = ""
    turn: str = ""  # the value between the ends at which the course turns, the best one
    legs: list[TrendStep] = Field([])  # the changes to that value, and from it


class TrendAnswer(AnswerData):
    """The trend of a metric along an axis."""

    along: str
    lines: list[TrendLine]


_TYPES: dict[str, type[AnswerData]] = {
    "best": BestAnswer,
    "compare": CompareAnswer,
    "crossover": CrossoverAnswer,
    "pareto": ParetoAnswer,
    "sensitivity": SensitivityAnswer,
    "sobol": SobolAnswer,
    "threshold": ThresholdAnswer,
    "tornado": TornadoAnswer,
    "trend": TrendAnswer,
}


def answer_of(summary: AnswerSummary) -> AnswerData:
    """Return the numbers of an answer by its kind; nothing is known of those that another package brings."""
    kind = summary.data.get("kind") if summary.use == "sensitivity" else None
    model = _TYPES.get(kind or summary.use)
    return AnswerData() if model is None else model.model_validate(summary.data)
