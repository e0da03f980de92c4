"""Documents of sweeps, sensitivities and optimisations; see `ettrick.analysis.results.models`."""

# Annotations are not postponed: pydantic would compile each at the start, a fifth of what these models cost.
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ettrick.analysis.parts import (
    CellMetric,
    Count,
    DifferenceSummary,
    Document,
    Labels,
    MetricSummary,
    Number,
    Pair,
    Part,
    Real,
    Texts,
    Whole,
)
from ettrick.analysis.results.models import Origin, ScenarioName, refuse_unknown


class Tie(Part):
    """Differences that are too small to matter."""

    points: Real = Field(0.001, description="Of shares [-].")
    part: Real = Field(0.005, description="Of all other metrics, as a part of the mean [-].")


class StudyDocument(Document):
    """Name and question of a study, common to all its documents."""

    study: str = Field(description="Name of the study.")
    question: str = Field(description="The question of the study, as the study states it.")
    tie: Tie = Field(default_factory=Tie, description="Differences that are called equal.")


# ----------------------------------------
# A sweep.


class AxisValue(Part):
    """Label and number at which an axis was simulated."""

    label: str = Field(description="The value, as the study states it.")
    number: Number = Field(description="In SI units; null without an order.")


class AxisDescription(Part):
    """An axis as it is described."""

    title: str = Field(description="In words.")
    unknown: bool = Field(description="Whether it has a distribution.")
    basis: str | None = Field(description="Basis of its values, as the study states it; null if it does not.")
    source: str = Field(description="Where its values come from, as the study states it; empty if it does not.")


class SweepAxis(Part):
    """Title, paths, values and basis of what varies between cells."""

    title: str = Field(description="In words.")
    noun: str = Field("", description="Noun that its values count; empty if the study states none.")
    paths: Texts = Field(description="Of the scenario.")
    unknown: bool = Field(description="Whether it has a distribution.")
    basis: str | None = Field(description="Basis of its values, as the study states it; null if it does not.")
    source: str = Field(description="Where its values come from, as the study states it; empty if it does not.")
    values: list[AxisValue] = Field(description="In the order in which they come.")


class CellFormula(Part):
    """The closed form of a cell."""

    applies: bool = Field(True, description="Whether a formula applies.")
    reasons: Texts = Field([], description="Why none does.")
    ettr: Number = Field(description="Expected ETTR.")


class FailedPoint(Part):
    """A point that has no results."""

    point: Count = Field(description="Its number.")
    draw: Count = Field(description="Which draw of what is unknown.")
    status: str = Field(description="`infeasible`, `failed` or `crashed`.")
    reason: str = Field(description="Why it has no results.")


class CellSummary(Part):
    """A combination of values."""

    cell: Count = Field(description="Its number, from 0.")
    point: Count = Field(description="The point with the central values of what is unknown.")
    values: Labels = Field(description="By axis.")
    numbers: dict[str, Number] = Field(description="By axis, in SI units.")
    status: str = Field(description="`ok`, `infeasible`, `failed` or `crashed`.")
    trouble: str = Field(description="Why it is not `ok`.")
    troubles: list[FailedPoint] = Field(description="All points of the cell that have no results.")
    draws: Count = Field(description="Draws of what is unknown.")
    replications: Count = Field(description="Replications at the central values.")
    precise: bool | None = Field(description="Whether the precision asked for was reached.")
    censored: Count = Field(description="Replications that were not finished.")
    never_started: Count = Field(description="Replications in which a job never got its nodes.")
    metrics: dict[str, CellMetric | None] = Field(description="By name.")
    closed_form: CellFormula | None = Field(description="Closed-form results.")
    gpus: Whole | None = Field(description="GPUs that all its jobs ask for; null where its values set whole jobs.")


class AnswerSummary(Part):
    """A question with its answer. The other keys repeat the question; see [questions](questions.md)."""

    model_config = ConfigDict(extra="allow")

    use: str = Field(description="Kind of the question.")
    sentences: Texts = Field(description="The answer in words.")
    data: dict[str, Any] = Field(description="The answer in numbers, by [kind](questions.md).")

    @model_serializer(mode="wrap")
    def _what_was_asked_first(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        question = self.model_extra or {}
        content = serialize(self)
        return {"use": self.use, **question, "sentences": content["sentences"], "data": content["data"]}


class ScenarioWarning(Part):
    """Text that scenarios of a study print, and the number of cells with it."""

    warning: str = Field(description="The text.")
    cells: Count = Field(description="Of how many cells.")


class SweepCounts(Part):
    """The numbers of points and cells of each kind."""

    points: Count = Field(0, description="Points of the design.")
    ok: Count = Field(0, description="Points with results.")
    infeasible: Count = Field(0, description="Points that cannot run.")
    failed: Count = Field(0, description="Points that failed.")
    crashed: Count = Field(0, description="Points that ended their process.")
    cells: Count = Field(0, description="Cells.")
    cells_ok: Count = Field(0, description="Cells with results.")
    censored: Count = Field(0, description="Cells with replications that were not finished.")
    never_started: Count = Field(0, description="Cells with jobs that never started.")
    imprecise: Count = Field(0, description="Cells in which the precision was not reached.")


class SweepDocument(StudyDocument):
    """`ettrick sweep --json` prints this document; its folder holds it as `run.json`."""

    description: str = Field(description="Description in the study.")
    scenario: ScenarioName
    seed: Whole = Field(description="Seed of all random numbers.")
    design: dict[str, Any] = Field(description="Which combinations were looked at.")
    precision: dict[str, Any] | None = Field(
        description="Requested precision: `width`, `metric` (empty: the first one), `least` and `most` replications."
    )
    at_equal: str | None = Field(description="Quantity at which unlike clusters are compared.")
    at_equal_lines: Texts = Field(description="Ratios computed, in words.")
    currency: str | None = Field(description="Unit of prices.")
    axes: Annotated[dict[str, SweepAxis], Field(min_length=1)] = Field(description="By name.")
    metrics: Annotated[Texts, Field(min_length=1)] = Field(description="Metrics that were kept, the headline first.")
    replications: list[Whole] = Field(description="Numbers of replications that occur.")
    counts: SweepCounts = Field(description="How many points and cells there are of each kind.")
    answers: list[AnswerSummary] = Field(description="For each question.")
    cells: Annotated[list[CellSummary], Field(min_length=1)] = Field(description="Every combination.")
    warnings: list[ScenarioWarning] = Field(description="Each once.")
    notes: Texts = Field(description="Points to know before you use the numbers.")
    assumptions: Texts = Field(description="Assumptions of the scenario and of the study.")
    provenance: Origin

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> Self:
        for number, cell in enumerate(self.cells):
            if cell.cell != number:
                raise ValueError(f"cells.{number}.cell is {cell.cell}")
            for name in cell.values:
                refuse_unknown("axis", name, self.axes)
        return self


# ----------------------------------------
# A sensitivity.


class Center(Part):
    """The central point."""

    values: Labels = Field(description="By axis.")
    mean: Number = Field(description="Mean of the metric.")
    ci95: Pair = Field(description="Its 95 % interval.")
    closed_form: Number = Field(description="By a formula, of `ettr`.")


class MoveSummary(Part):
    """An axis moved to another value."""

    label: str = Field(description="The value.")
    number: Number = Field(description="In SI units.")
    change: DifferenceSummary | None = Field(description="Above the central point.")
    closed_form: Number = Field(description="The change by a formula.")
    trouble: str = Field(description="Why it has no results.")


class SwingSummary(Part):
    """The effect of a single axis."""

    axis: str = Field(description="Its name.")
    center: str = Field(description="Its central value.")
    swing: Number = Field(description="The widest change.")
    resolved: bool = Field(description="Whether the difference is clear: its interval excludes zero.")
    replications_to_resolve: Whole | None = Field(description="How many would tell; null for too many.")
    moves: list[MoveSummary] = Field(description="To each end.")


class IndexEstimate(Part):
    """An index of Sobol with its interval."""

    value: Number = Field(description="The index.")
    ci95: Pair = Field(description="Its 95 % interval.")


class VariancePart(Part):
    """A share of the variance."""

    variance: Number = Field(description="The variance.")
    share: IndexEstimate | None = Field(description="Its share of the variance of one run.")


class FormulaIndex(Part):
    """The indices of the closed form."""

    first: Number = Field(description="First-order index.")
    total: Number = Field(description="Total index.")


class AxisIndex(Part):
    """The share of an axis in the variance of means."""

    axis: str = Field(description="Its name.")
    first: IndexEstimate = Field(description="By itself.")
    total: IndexEstimate = Field(description="With all its interactions.")
    closed_form: FormulaIndex | None = Field(description="By a formula.")


class IndicesSummary(Part):
    """The shares of all axes in the variance at once."""

    samples: Count = Field(description="Points of a set.")
    rows: Count = Field(description="Rows of the design with results.")
    left_out: Count = Field(description="Rows without.")
    why_left_out: str | None = Field(description="Why.")
    mean: Number = Field(description="Mean of the metric.")
    variance: dict[str, VariancePart] = Field(description="Of one run, by `parameters`, `noise` and `both`.")
    noise_of_means: Number = Field(description="Variance of means that replications leave.")
    together: IndexEstimate | None = Field(description="Interactions.")
    by_axis: list[AxisIndex] = Field(description="By axis.")
    reason: str | None = Field(description="Why there are none.")


class SensitivityDocument(StudyDocument):
    """`ettrick sensitivity --json` prints this document; `--out DIR` writes it to `sensitivity.json`."""

    scenario: ScenarioName
    metric: str = Field(description="Metric that is analysed.")
    replications: Annotated[int, Field(ge=1)] = Field(description="Of every point.")
    seed: Whole = Field(0, description="Seed of all random numbers.")
    axes: Annotated[dict[str, AxisDescription], Field(min_length=1)] = Field(description="By name.")
    center: Center = Field(description="The central point.")
    low: Number = Field(description="Probability of the low end of a distribution in the tornado.")
    tornado: list[SwingSummary] | None = Field(description="For each axis, the widest first; null if not asked for.")
    indices: IndicesSummary | None = Field(description="Of Sobol; null if not asked for.")
    indices_missing: str = Field(description="Why there are no indices though they were asked for.")
    assumptions: Texts = Field(description="Assumptions of the study.")
    warnings: list[Any] = Field(description="Of the central point.")
    provenance: Origin

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> Self:
        for name in (*self.center.values, *(swing.axis for swing in self.tornado or ())):
            refuse_unknown("axis", name, self.axes)
        return self


# ----------------------------------------
# An optimisation.


class Aim(Part):
    """The aim of an optimisation."""

    name: str = Field(description="A metric or an axis.")
    lowest: bool = Field(description="Whether lower is better.")
    is_axis: bool = Field(description="Whether it is an axis.")

    def score(self, value: float) -> float:
        """Return a number that is the higher the better."""
        return -value if self.lowest else value


class AimResult(Part):
    """The value of an aim or a condition."""

    mean: Number = Field(description="The mean.")
    ci95: Pair = Field(description="Its 95 % interval.")


class ConditionSummary(Part):
    """The verdict of a condition."""

    condition: str = Field(description="The condition, as it is stated.")
    metric: str = Field(description="Its metric.")
    bound: Number = Field(description="Its bound, in SI units.")
    mean: Number = Field(description="The mean.")
    ci95: Pair = Field(description="Its 95 % interval.")
    verdict: str = Field(description="Whether it holds: `holds`, `fails`, or too close to call.")
    doubt: Number = Field(None, description="Of `ci95`, the half-width that more replications do not shrink.")


class NeighbourSummary(Part):
    """A combination that differs from the answer in the next value of one axis, or in any of one without an order."""

    axis: str = Field(description="The axis.")
    to: str = Field(description="Its value.")
    status: str = Field(description="`evaluated`, `misses a condition` or `cannot run`.")
    reason: str = Field("", description="Why it cannot run.")
    difference: AimResult | None = Field(
        None, description="How much better than the answer it is in the first aim, on the same failures; negative for "
        "worse. Null without a mean, and in former documents."
    )  # fmt: skip


class TrialSummary(Part):
    """A combination that was evaluated."""

    values: Labels = Field(description="By axis.")
    numbers: dict[str, Number] = Field(description="By axis, in SI units.")
    aims: dict[str, AimResult | None] = Field(description="By aim.")
    conditions: list[ConditionSummary] = Field(description="In their order.")
    met: bool | None = Field(description="Whether all conditions are met.")
    closed_form: Number = Field(description="ETTR by a formula.")
    trouble: str = Field(description="Why it has no results.")
    bound: Number = Field(None, description="No failures can make the first aim better than this; null where unknown.")
    used: dict[str, Number] = Field({}, description="By budget, in SI units: the share that it takes.")

    @property
    def metrics(self) -> dict[str, MetricSummary]:
        """The values of the aims and conditions, by metric; empty if it cannot run."""
        results = {**{condition.metric: condition for condition in reversed(self.conditions)}, **self.aims}
        return {} if self.trouble else {
            name: MetricSummary(mean=result.mean, mean_ci95=result.ci95) for name, result in results.items() if result
        }  # fmt: skip


class FrontMember(TrialSummary):
    """A combination that no other one beats in all aims."""

    certain: bool = Field(False, description="Whether variability cannot have put it there.")


class ConfirmedTrial(TrialSummary):
    """A combination on fresh failures."""

    gain: dict[str, DifferenceSummary | None] = Field({}, description="By aim, above the scenario as it is.")
    ahead_of_answer: dict[str, DifferenceSummary | None] = Field({}, description="By aim, above the answer.")


class ConfirmationSummary(Part):
    """The answer, others and the scenario as it is, on fresh failures."""

    seed: Whole = Field(description="Of the fresh failures.")
    replications: Count = Field(description="Of each.")
    confirmed: bool | None = Field(description="Whether the answer is confirmed; null where it is too close to call.")
    trials: list[ConfirmedTrial] = Field(description="The answer first.")
    as_it_is: TrialSummary | None = Field(description="The scenario as it is.")


class OptimizeAxis(Part):
    """The range of an axis that was searched."""

    title: str = Field(description="In words.")
    noun: str = Field("", description="Noun that its values count; empty if the study states none.")
    values: Texts = Field([], description="Its values, where it has no order.")
    from_: str = Field("", alias="from", description="Its low end.")
    to: str = Field("", description="Its high end.")
    size: Whole | None = Field(None, description="How many values lie between; null for any.")


class EquivalentRange(Part):
    """The values that are as good as the answer at this precision."""

    values: list[Labels] = Field(description="The combinations.")
    equal: list[Labels] = Field([], description="Combinations that differ from the answer by less than the `tie`.")
    loss_below: Number = Field(description="The loss that cannot be excluded.")
    replications_to_resolve: Whole | None = Field(
        description="Replications after which only one would remain; null for too many."
    )


class TopSummary(Part):
    """The highest point of a curve."""

    number: Number = Field(description="The place, in SI units.")
    ci95: Pair = Field(description="Its 95 % interval.")
    label: str = Field(description="The place.")
    labels95: Texts = Field(description="Both ends of the interval.")


class EdgeSummary(Part):
    """Up to where conditions hold."""

    surely_not: Labels | None = Field(description="The last combination that surely fails.")
    surely: Labels | None = Field(description="The first that surely holds.")
    islands: list[Labels] = Field(description="Combinations that hold beyond one that does not.")


class FormulaSummary(Part):
    """The best by the closed form."""

    values: Labels = Field(description="The combination.")
    ettr: Number = Field(description="Its ETTR by the formula.")
    ettr_of_answer: Number = Field(description="ETTR of the answer by the formula.")
    of_trials: bool = Field(description="Whether it is the best of those that were evaluated, or of all.")
    assumptions: Texts = Field(description="Assumptions of the formula that the scenario breaks.")


class FormulaLeftOut(Part):
    """To how many combinations the closed form does not apply."""

    combinations: Count = Field(description="Number of combinations to which it does not apply.")
    reason: str = Field(description="Why it does not to the first.")


class TiedSetting(Part):
    """A combination that is equal to the answer."""

    values: Labels = Field(description="By axis.")
    kind: Literal["statistical", "model"] = Field(
        description="`statistical`: the replications show no difference above the tie; `model`: the difference is less "
        "than the error of the step model."
    )
    difference: AimResult | None = Field(None, description="How much better than the answer it is; negative for worse.")


class RegretSummary(Part):
    """The distance by which the best combination of the space can be above the answer."""

    value: Number = Field(description="In the units of the first aim.")
    relative: Number = Field(description="As a part of the answer [-].")
    source: Literal["bound", "race", "condition"] = Field(
        description="Its limit, `bound`: a combination that was not simulated; `race`: one that was; `condition`: "
        "one that was, and that may or may not keep the conditions."
    )
    confidence: Real = Field(0.95, description="Probability with which it holds.")


class GapStep(Part):
    """The answer and its gap at one moment of the search."""

    simulated: Count = Field(description="Combinations that were simulated.")
    replications: Count = Field(description="Of each survivor.")
    answer: Number = Field(description="First aim of the answer at that moment.")
    gap: Number = Field(description="How much better the best can be, in the units of the aim.")


class SearchFunnel(Part):
    """The numbers of combinations that each step of the search leaves out, and that stay."""

    listed: Count = Field(description="All combinations of the space.")
    infeasible: Count = Field(description="Combinations that cannot run or exceed a budget.")
    dominated: Count = Field(description="Combinations that another one beats with the same failures.")
    below_bound: Count = Field(description="Combinations whose bound is below the answer.")
    simulated: Count = Field(description="Combinations that were simulated.")
    tied: Count = Field(description="Combinations that are equal to the answer, without it.")


class InfeasibleGroup(Part):
    """Combinations with one value of an axis that cannot run for one reason."""

    kind: str = Field(description="`budget`, `fabric`, `spares`, `units`, `divides`, `memory`, `strategy` or `check`.")
    axis: str = Field(description="The axis; empty for all combinations.")
    value: str = Field(description="Its value.")
    count: Count = Field(description="How many combinations.")
    first: str = Field(description="The first complaint.")


class BoundAudit(Part):
    """Combinations below the bound that were simulated to check it."""

    candidates: Count = Field(description="How many were simulated.")
    violations: Count = Field(description="How many were above their bound.")
    at_most: Number = Field(description="Share that can be above, with 95 % confidence [-].")


class BoundPoint(Part):
    """The highest bound of all combinations that take the same part of a budget."""

    values: Labels = Field(description="By named axis, those that the curve is about.")
    used: Number = Field(description="The part that they take, in SI units.")
    bound: Number = Field(description="Best bound of the first aim.")


class BoundSummary(Part):
    """The bound by which combinations were left out."""

    kind: str = Field(description="`renewal`: by failures and recovery; `ideal`: without any failure.")
    audit: BoundAudit | None = Field(None, description="Its check; null if nothing was left out.")
    budget: str = Field("", description="The budget of `curve`.")
    curve: list[BoundPoint] = Field([], description="The bound of all combinations by the part of a budget they take.")


class BudgetSummary(Part):
    """A budget and how much of it the answer takes."""

    limit: Number = Field(description="The budget, in SI units.")
    used: Number = Field(None, description="Taken by the answer; null without one.")
    binding: bool = Field(False, description="Whether one unit more of the cluster would exceed it.")
    worth_per_percent: Number = Field(
        None, description="Gain of the first aim if it were 1 % larger, by the formula; null if it does not bind."
    )
    needed: Number = Field(None, description="The smallest limit with which anything can run; null if something can.")


class BestOfValue(Part):
    """The best combination that was simulated with one value of a named axis."""

    axis: str = Field(description="The axis.")
    value: str = Field(description="Its value.")
    trial: Count | None = Field(description="Its position in `trials`; null if none was simulated.")
    difference: AimResult | None = Field(None, description="How much better than the answer it is; negative for worse.")
    bound: Number = Field(None, description="Bound of the best combination with it; null where unknown.")


class ExplainedDesign(Part):
    """The reason why a combination that was asked about is not the answer."""

    wanted: Labels = Field(description="The values that were asked about, by axis.")
    values: Labels | None = Field(description="The best combination with them; null if none can run.")
    status: Literal[
        "answer", "tie", "worse", "misses a condition", "cannot run", "below the bound", "not simulated"
    ] = Field(description="`not simulated`: its bound is above the answer, and the search was stopped before.")
    difference: AimResult | None = Field(None, description="How much better than the answer it is; negative for worse.")
    bound: Number = Field(None, description="Its bound; null where unknown.")
    reason: str = Field("", description="Why it cannot run, or the condition that it misses.")


class OptimizeDocument(StudyDocument):
    """`ettrick optimize --json` prints this document; `--out DIR` writes it to `optimize.json`."""

    scenario: ScenarioName
    method: str = Field(
        description="`curve` (one axis, a metric), `edge` (an axis as low or high as conditions allow), `all` (every "
        "combination), `search`, `bounds` (the best bound first, until no other combination can be better)."
    )
    replications: Annotated[int, Field(ge=1)] = Field(description="Of each combination.")
    over: str | None = Field(None, description="Over what conditions hold.")
    draws: Count = Field(0, description="Draws of what is unknown.")
    aims: Annotated[list[Aim], Field(min_length=1)] = Field(description="Goals.")
    conditions: Texts = Field(description="The conditions, as they are stated.")
    axes: Annotated[dict[str, OptimizeAxis], Field(min_length=1)] = Field(description="By name.")
    answer: TrialSummary | None = Field(description="The best combination; null if nothing keeps the conditions.")
    combinations: Whole | None = Field(None, description="How many there are; null for more than can be counted.")
    neighbours: list[NeighbourSummary] = Field(
        [], description="All combinations next to the answer, with their status."
    )
    settings: Texts = Field(description="Settings that it writes into the scenario.")
    runner_up: TrialSummary | None = Field(description="The next one.")
    as_good: EquivalentRange | None = Field(None, description="All that are as good at this precision.")
    top: TopSummary | None = Field(None, description="Of a curve, where it is highest.")
    edge: EdgeSummary | None = Field(None, description="Of an edge, the last values on either side.")
    front: list[FrontMember] = Field(description="With several aims, what no other combination beats in all of them.")
    trials: list[TrialSummary] = Field(description="Every combination.")
    confirmation: ConfirmationSummary | None = Field(description="On fresh seeds.")
    left_out: Texts = Field([], description="Parts for which a limit of time left none.")
    closed_form: FormulaSummary | None = Field(None, description="Best combination by the closed form.")
    closed_form_left_out: FormulaLeftOut | None = Field(None, description="Where the closed form does not apply.")
    ties: list[TiedSetting] = Field([], description="All that are equal to the answer, by kind.")
    regret: RegretSummary | None = Field(None, description="How far the answer can be from the best.")
    gap_history: list[GapStep] = Field([], description="How the gap closed.")
    funnel: SearchFunnel | None = Field(None, description="From all combinations to those that are equal.")
    infeasible: list[InfeasibleGroup] = Field([], description="Combinations that cannot run, by reason and value.")
    bound: BoundSummary | None = Field(None, description="The bound, and its check.")
    budget: dict[str, BudgetSummary] = Field({}, description="By name: `power` [W], `gpus`, `capex`.")
    derived: Labels = Field({}, description="Consequences of the choice of the answer, by name.")
    best_of: list[BestOfValue] = Field([], description="The best with each value of the axes without an order.")
    explained: ExplainedDesign | None = Field(None, description="The combination that `--explain` asked about.")
    assumptions: Texts = Field([], description="Assumptions of the study.")
    warnings: Texts = Field([], description="Of the answers.")
    provenance: Origin

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> Self:
        for trial in (*self.trials, *((self.answer,) if self.answer is not None else ())):
            for name in trial.values:
                refuse_unknown("axis", name, self.axes)
        return self
