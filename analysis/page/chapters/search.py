"""A search under budgets: how far its answer can be from the best, what binds, and what became of all other designs."""

from __future__ import annotations

import functools
import itertools
import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    PERCENT,
    POINTS,
    NumberFormat,
    capital,
    ends_of,
    label_text,
    listed,
    money_form,
    name_of,
    number_of,
    people_form,
    phrases,
)
from ettrick.analysis.metrics import is_share
from ettrick.analysis.page.cells import mean_of, shown_of_cells, summary_of
from ettrick.analysis.page.charts.data import GAP95, Bar, Bars, ChartAxis, Curves, Interval, Intervals, Series
from ettrick.analysis.page.first_screen import equal_within
from ettrick.analysis.page.glossary import metric_words
from ettrick.analysis.page.model import Column, Figure, grid, joined, plain, table_of
from ettrick.analysis.page.sourced import OPTIMIZE, SourceDocument, line, number, sentence
from ettrick.analysis.results.studies import TrialSummary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.amounts import MetricFormat
    from ettrick.analysis.page.model import TableBlock, Words
    from ettrick.analysis.parts import Labels
    from ettrick.analysis.results.studies import (
        Aim,
        AimResult,
        BestOfValue,
        BoundSummary,
        NeighbourSummary,
        OptimizeDocument,
        TiedSetting,
    )

ABSENT = "–"
"""Label of an axis that does not exist with the values of the others."""


@dataclass(frozen=True)
class OptimumView:
    """The document of an optimisation, and what its axes, settings and metrics are called."""

    content: OptimizeDocument
    currency: str = ""

    @functools.cached_property
    def places(self) -> SourceDocument:
        """The document as a source of numbers."""
        return SourceDocument(OPTIMIZE, self.content)

    @property
    def aim(self) -> Aim:
        """The first aim."""
        return self.content.aims[0]

    @functools.cached_property
    def metrics(self) -> list[str]:
        """Metrics that are an aim, then those that a condition is about."""
        aims = [aim.name for aim in self.content.aims if not aim.is_axis]
        conditions = (condition.metric for trial in self.content.trials for condition in trial.conditions)
        return list(dict.fromkeys([*aims, *conditions]))

    @property
    def conditions(self) -> str:
        """Conditions as they are stated, to stand behind a sentence."""
        return f", subject to {listed(self.content.conditions)}" if self.content.conditions else ""

    @property
    def equal(self) -> list[Labels]:
        """Settings that differ from the answer by less than what matters."""
        return [] if self.content.as_good is None else self.content.as_good.equal

    @property
    def rivals(self) -> list[Labels]:
        """Settings that may be better than the answer, without those that are equal to it."""
        as_good, answer = self.content.as_good, self.content.answer
        if as_good is None or answer is None:
            return []
        return [labels for labels in as_good.values if labels != answer.values and labels not in as_good.equal]

    def others(self) -> Iterator[tuple[Words, list[Labels]]]:
        """Yield other settings, and how they compare with the answer: equal to it, or too close to call."""
        kinds = (equal_within(self.places, self.aim.name), self.equal), (("too close to call",), self.rivals)
        yield from (kind for kind in kinds if kind[1])

    def briefly(self, settings: Sequence[Labels]) -> str:
        """Return how many settings there are, or of a single one in what it differs from the answer."""
        answer = {} if self.content.answer is None else self.content.answer.values
        if len(settings) > 1:
            return f"{len(settings)} others"
        return self.where({name: label for name, label in settings[0].items() if answer.get(name) != label})

    def title(self, name: str) -> str:
        """Return the title of an axis, or the name of a metric."""
        return self.content.axes[name].title if name in self.content.axes else name_of(name)

    def words(self, name: str) -> str:
        """Return the same for who has never seen the tool, without an article."""
        return self.title(name) if name in self.content.axes else metric_words(name).removeprefix("the ")

    def where(self, values: Mapping[str, str]) -> str:
        """Return a setting in words, without the axes that it does not have."""
        return phrases(values, [name for name, label in values.items() if label != ABSENT], self.content.axes)

    @property
    def is_design(self) -> bool:
        """Whether the answer is the best of all designs up to a known distance."""
        return self.content.funnel is not None and self.content.answer is not None and not self.content.front

    def shown(self, name: str) -> MetricFormat:
        """Return how a metric is shown in pictures and tables."""
        return shown_of_cells(self.content.trials, name, self.currency)

    def form(self, name: str) -> NumberFormat:
        """Return how a metric is worded in sentences."""
        return people_form(name, [mean_of(trial, name) for trial in self.content.trials], self.currency)


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_TIES = {"statistical": "tie", "model": "tie by the step model"}

_LIMITS = {
    "bound": "the bound of designs that were not simulated",
    "race": "sampling error",
    "condition": "a design that may meet the condition, for all that is known,",
}

_MOST_ROWS = 14
"""Neighbours, and groups of designs that cannot run, that a picture or table has at most."""


_LONGEST_REASON = 140
"""Letters of a reason below a picture at most."""

_NO_GAIN = 1e-4
"""Gain of a budget, as a part of the answer or of a share, that is none [-]."""

_MOST_TICKS = 7
"""Amounts of a budget that are labelled at most."""

_MOST_CURVES = 4
"""Values of an axis whose bounds are drawn at most."""

_MOST_TIES = 8
"""Ties in the table of designs at most; a race that was stopped early has many."""


def _counted(count: int) -> str:
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


class _Allowance(NamedTuple):
    """A budget in words: its name, whether that is a plural, and how its amounts are written."""

    name: str
    is_plural: bool
    form: NumberFormat


def _allowance(name: str, optimum: OptimumView) -> _Allowance:
    if name == "power":
        return _Allowance("power", is_plural=False, form=NumberFormat("MW", 1e6, 0.0))
    if name == "gpus":
        return _Allowance("GPUs", is_plural=True, form=COUNT)
    limit = optimum.content.budget[name].limit or 0.0
    return _Allowance("capital", is_plural=False, form=money_form(limit, optimum.currency))


# ----------------------------------------
# Sentences: the answer and its distance from the best, what binds, what ties, and what nothing fits.


def headline(optimum: OptimumView, where: str, value: Words) -> Words:
    """Return the answer in a sentence: the design, its value, how far from the best it can be, what binds, ties."""
    parts = [line(f"Best: {where}: ", value, _regret(optimum)), _binding(optimum), tied(optimum)]
    return line(joined(parts, "; "), ".")


def _regret(optimum: OptimumView) -> Words:
    size, among = _distance(optimum), number(optimum.places.stated("funnel", "listed"), COUNT)
    if not size:
        return line(", the best so far of ", among, " designs; how far it is from the best is not known")
    return line(", at most ", size, " from the best of ", among, " designs")


def _distance(optimum: OptimumView) -> Words:
    """Return how far from the best the answer can be: in points of shares, else in percent; empty if unknown."""
    is_points = is_share(optimum.aim.name)
    size = optimum.places.at("regret", "value" if is_points else "relative")
    return () if size is None else (number(size, POINTS if is_points else PERCENT),)


def _binding(optimum: OptimumView) -> Words:
    budget = {name: part for name, part in optimum.content.budget.items() if part.used is not None}
    binding = [_allowance(name, optimum) for name, part in budget.items() if part.binding]
    parts: list[Words] = []
    if binding:
        verb = "bind" if len(binding) > 1 or binding[0].is_plural else "binds"
        parts.append((f"{listed([part.name for part in binding])} {verb}",))
    for name in (name for name, part in budget.items() if not part.binding):
        form = _allowance(name, optimum)
        used, limit = (optimum.places.stated("budget", name, key) for key in ("used", "limit"))
        verb = f"{'do' if form.is_plural else 'does'} not{'' if binding else ' bind'}"
        parts.append(line(f"{form.name} {verb} (", number(used, form.form, unit=""), " of ",
                          number(limit, form.form), ")"))  # fmt: skip
    return joined(parts, ", ")


def tied(optimum: OptimumView) -> Words:
    """Return how many designs are equal to the answer, each kind of equality in its own words, or are still open."""
    ties = optimum.content.ties
    kinds = ["open" if _is_open(optimum, tie) else tie.kind for tie in ties]
    named = [tie.values for tie in ties]
    kinds += ["open" for labels in optimum.rivals if labels not in named]
    texts: list[str] = []
    for kind, verbs, rest in _EQUALITIES:
        if count := kinds.count(kind):
            noun = "more" if texts else "other" if count == 1 else "others"
            texts.append(f"{_counted(count)} {noun} {verbs[count > 1]}{rest}")
    return (", and ".join(texts),) if texts else ()


_EQUALITIES = (
    ("statistical", ("ties", "tie"), ""),
    ("model", ("differs", "differ"), " by less than the error of the step model"),
    ("open", ("is", "are"), " too close to call yet"),
)
"""Kinds of ties, and how sentences speak of one and of several."""


def _is_open(optimum: OptimumView, tie: TiedSetting) -> bool:
    """Return whether a design may be better than the answer by more than what matters: the race was stopped before."""
    ends = None if tie.difference is None else ends_of(tie.difference.ci95)
    if tie.kind == "model" or ends is None:
        return False
    matters = optimum.content.tie
    return ends[1] / _scale(optimum).base > (matters.points if is_share(optimum.aim.name) else matters.part)


def nothing_fits(optimum: OptimumView) -> list[Words]:
    """Return the smallest change of each budget with which a design can run; empty where budgets are not the cause."""
    texts = []
    for name in (name for name, part in optimum.content.budget.items() if part.needed is not None):
        form = _allowance(name, optimum)
        most, least = (optimum.places.stated("budget", name, key) for key in ("limit", "needed"))
        texts.append(line(f"{form.name} ", number(least, form.form), " instead of ", number(most, form.form)))
    if not texts:
        return []
    start = "The smallest change that lets a design run: " if len(texts) == 1 else "Each of these changes is enough: "
    return [line(start, *joined(texts, ", or "), ".")]


def certainty(optimum: OptimumView) -> Iterator[Words]:
    """Yield the grounds of the distance from the best, and how the bound was checked."""
    regret, bound = optimum.content.regret, optimum.content.bound
    size = _distance(optimum)
    if regret is not None and size:
        surely = number(optimum.places.stated("regret", "confidence"), PERCENT)
        limit = _LIMITS[regret.source]
        yield line("With ", surely, " confidence, and as far as the model goes, no design of the space is more than ",
                   size, f" better than the answer; {limit} sets this limit.")  # fmt: skip
    if optimum.content.left_out:
        yield (f"Time was over before {listed(optimum.content.left_out)}.",)
    audit = None if bound is None else bound.audit
    if audit is not None and audit.candidates:
        audited = number(optimum.places.stated("bound", "audit", "candidates"), COUNT)
        above = "none is above its bound" if not audit.violations else (
            f"{audit.violations:,} {'is' if audit.violations == 1 else 'are'} above their bounds, which were dropped"
        )  # fmt: skip
        yield line("To check the bound, ", audited, f" designs that it had left out were simulated: {above}.")


def worth(optimum: OptimumView) -> Iterator[Words]:
    """Yield the worth of more of each binding budget."""
    name, verb = optimum.aim.name, "take off" if optimum.aim.lowest else "add"
    answer = optimum.places.at("answer", "aims", name, "mean")
    for budget in optimum.content.budget:
        gain = optimum.places.at("budget", budget, "worth_per_percent")
        if gain is None or answer is None:
            continue
        more = _allowance(budget, optimum).name
        size = abs(gain) if is_share(name) else abs(gain) / answer
        if size.value < _NO_GAIN:
            yield (f"A larger budget of {more} would {verb} nothing, by the formula: something else is the limit.",)
        elif is_share(name):
            yield line(f"1 % more {more} would {verb} ", number(size, POINTS), ", by the formula.")
        else:
            yield line(f"1 % more {more} would {verb} ", number(size, PERCENT), f" of {optimum.words(name)}, by the "
                       "formula.")  # fmt: skip


def best_of_values(optimum: OptimumView) -> Iterator[Words]:
    """Yield how the best with each value of an axis without an order compares with the answer, a sentence an axis."""
    content = optimum.content
    for axis, entries in itertools.groupby(enumerate(content.best_of), lambda entry: entry[1].axis):
        texts = [text for index, entry in entries if (text := _compared(optimum, index, entry))]
        if len(texts) > 1:
            start = f"the best design for each {content.axes[axis].title}, compared with the answer: "
            yield sentence(start, *joined(texts, "; "))


def _compared(optimum: OptimumView, index: int, entry: BestOfValue) -> Words:
    """Return by how much the best design with a value is better, or what it reaches at most; empty if it cannot run."""
    if entry.trial is None:
        bound = optimum.places.at("best_of", index, "bound")
        at_most = () if bound is None else number(bound, optimum.form(optimum.aim.name))
        return line(f"“{entry.value}” reaches at most ", at_most, " (by the bound, not simulated)") if at_most else ()
    trial, answer = optimum.content.trials[entry.trial], optimum.content.answer
    if answer is not None and trial.values == answer.values:
        return (f"“{entry.value}” is in the answer",)
    mean = optimum.places.at("best_of", index, "difference", "mean")
    if mean is None or entry.difference is None:
        return ()
    ends = ends_of(entry.difference.ci95)
    if ends is not None and ends[0] <= 0 <= ends[1]:
        return (f"“{entry.value}” is too close to call",)
    scale = _scale(optimum)
    size = number(abs(mean) / scale.base if scale.base != 1.0 else abs(mean), scale.form)
    return line(f"“{entry.value}” is ", "better by " if mean.value > 0 else "worse by ", size)


_STATUS = {
    "answer": "is the answer",
    "tie": "ties with the answer",
    "worse": "was simulated and is worse than the answer",
    "misses a condition": "was simulated and misses a condition",
    "below the bound": "was not simulated, because it cannot be better than the answer",
    "not simulated": "was not simulated before the search was stopped",
}


def explained(optimum: OptimumView) -> list[Words]:
    """Return why the design that was asked about is not the answer; nothing if none was."""
    design = optimum.content.explained
    if design is None:
        return []
    wanted = capital(optimum.where(design.wanted))
    if design.values is None:
        return [(f"{wanted}: no design with it can run{f': {design.reason}' if design.reason else ''}.",)]
    rest = {name: label for name, label in design.values.items() if design.wanted.get(name) != label}
    best = f"its best design ({optimum.where(rest)}) " if rest else ""
    if design.status == "cannot run":
        return [(f"{wanted}: {best}cannot run: {design.reason}.",)]
    parts = [f"{wanted}: {best}{_STATUS[design.status]}"]
    if design.reason:
        parts.append(design.reason)
    if design.status == "worse" and design.difference is not None:
        parts[0] += f" by {_worse(optimum, design.difference)}"
    if design.bound is not None and design.status in ("below the bound", "not simulated"):
        parts.append(f"it reaches at most {optimum.form(optimum.aim.name).plain(design.bound)}")
    return [(f"{'; '.join(parts)}.",)]


# ----------------------------------------
# Tables: the answer next to others, what follows from it, and what cannot run.


class _DesignRow(NamedTuple):
    """A design: why it is in the table, its values, and how it compares with the answer."""

    role: str
    values: Mapping[str, str]
    trial: TrialSummary | None
    difference: AimResult | None = None
    text: str = ""  # what stands in place of its value


def designs_table(optimum: OptimumView) -> TableBlock:
    """Return the answer, its ties, the best of each named value, and the scenario as it is."""
    metrics = [optimum.shown(aim.name) for aim in optimum.content.aims if not aim.is_axis]
    rows = list(_designs(optimum))

    def axis_column(name: str) -> Column[_DesignRow]:
        title = capital(optimum.content.axes[name].title)
        return Column(title, lambda row: label_text(row.values.get(name, "-")), is_number=False)

    def metric_column(metric: MetricFormat) -> Column[_DesignRow]:
        return Column(capital(metric.name), lambda row: row.text or _worded(row.trial, metric))

    columns = [
        Column[_DesignRow]("Design", lambda row: row.role),
        *map(axis_column, optimum.content.axes),
        *map(metric_column, metrics),
        Column[_DesignRow]("Better than the answer by", lambda row: _better(optimum, row.difference),
                           any(row.difference is not None for row in rows)),
    ]  # fmt: skip
    more = max(len(optimum.content.ties) - _MOST_TIES, 0)
    note = f"{number_of(more, 'more tie')}: see optimize.json." if more else ""
    return table_of("The answer and what it was compared with", rows, columns, note=note)


def _worded(trial: TrialSummary | None, metric: MetricFormat) -> str:
    return "no mean" if trial is None else metric.worded(summary_of(trial, metric.metric)) or "no mean"


def _designs(optimum: OptimumView) -> Iterator[_DesignRow]:
    """Yield each design once, for the first reason to name it."""
    content, named = optimum.content, list[dict[str, str]]()
    trials = {frozenset(trial.values.items()): trial for trial in content.trials}
    if content.answer is not None:
        named.append(content.answer.values)
        yield _DesignRow("answer", content.answer.values, content.answer)
    for tie in content.ties[:_MOST_TIES]:
        named.append(tie.values)
        role = "open" if _is_open(optimum, tie) else _TIES[tie.kind]
        yield _DesignRow(role, tie.values, trials.get(frozenset(tie.values.items())), tie.difference)
    for entry in content.best_of:
        role = f"best with {entry.value}"
        if entry.trial is None:
            form = optimum.shown(optimum.aim.name).form
            text = "cannot run" if entry.bound is None else f"not simulated: at most {form.plain(entry.bound)}"
            yield _DesignRow(role, {entry.axis: entry.value}, None, None, text)
        elif (trial := content.trials[entry.trial]).values not in named:
            named.append(trial.values)
            yield _DesignRow(role, trial.values, trial, entry.difference)
    start = None if content.confirmation is None else content.confirmation.as_it_is
    if start is not None:
        yield _DesignRow("scenario as it is", start.values, start, None, "cannot run" if start.trouble else "")


class _Scale(NamedTuple):
    """The format of differences from the answer: points of shares, else percent of the answer."""

    form: NumberFormat
    base: float
    unit: str

    def parts(self, difference: AimResult) -> tuple[float, tuple[float, float] | None]:
        """Return mean and interval in parts of the base."""
        low, high = difference.ci95 or (None, None)
        ends = None if low is None or high is None or low == high else (low / self.base, high / self.base)
        return (difference.mean or 0.0) / self.base, ends


def _scale(optimum: OptimumView) -> _Scale:
    answer, name = optimum.content.answer, optimum.aim.name
    if is_share(name):
        return _Scale(POINTS, 1.0, "percentage points")
    base = None if answer is None else mean_of(answer, name)
    return _Scale(NumberFormat("%", 0.01), abs(base or 1.0), "% of the answer")


def _better(optimum: OptimumView, difference: AimResult | None) -> str:
    if difference is None or difference.mean is None:
        return ""
    scale = _scale(optimum)
    mean, ends = scale.parts(difference)
    return scale.form.change(mean, ends) if mean or ends else "equal"


def _worse(optimum: OptimumView, difference: AimResult) -> str:
    scale = _scale(optimum)
    return scale.form.distance(*scale.parts(difference))


def followed_table(optimum: OptimumView) -> TableBlock | None:
    """Return the consequences of the answer; ``None`` without any."""
    rows = [(capital(name), text) for name, text in optimum.content.derived.items()]
    return grid("What follows from the answer", ("Quantity", "Value"), rows, (0, 1)) if rows else None


def infeasible_table(optimum: OptimumView) -> TableBlock | None:
    """Return the designs that cannot run, by the value of an axis, with the first reason; ``None`` without any."""
    groups = sorted(optimum.content.infeasible, key=lambda group: -group.count)
    axes = optimum.content.axes
    rows = [(f"{axes[group.axis].title} {group.value}" if group.axis in axes else group.value or "any",
             group.kind, f"{group.count:,}", group.first) for group in groups[:_MOST_ROWS]]  # fmt: skip
    more = len(groups) - len(rows)
    note = f"{number_of(more, 'more group')}: see optimize.json." if more else ""
    heads = ("With", "Reason", "Designs", "First complaint")
    return grid("Designs that cannot run", heads, rows, (0, 1, 3), note=note) if rows else None


# ----------------------------------------
# Pictures: the funnel, the neighbours of the answer, the bound over a budget.


def funnel_picture(optimum: OptimumView) -> Figure | None:
    """Return how many designs each step of the search left; ``None`` of a search without bounds."""
    funnel = optimum.content.funnel
    if funnel is None:
        return None
    can_run = funnel.listed - funnel.infeasible
    fastest = can_run - funnel.dominated
    steps = (
        ("in the space", funnel.listed),
        ("can run within the budgets", can_run),
        ("not beaten under the same failures", fastest),
        ("may beat the answer, by the bound", fastest - funnel.below_bound),
        ("simulated", funnel.simulated),
        ("the answer and its ties", funnel.tied + (optimum.content.answer is not None)),
    )
    title = f"{funnel.simulated:,} of {funnel.listed:,} designs had to be simulated"
    chart = Bars(title, "designs", ("designs",), tuple(Bar(name, (float(count),)) for name, count in steps))
    alt = f"Designs that are left after each step. {'; '.join(f'{name}: {count:,}' for name, count in steps)}."
    table = grid(title, ("Step", "Designs"), [(capital(name), f"{count:,}") for name, count in steps])
    caption = "Neighbours of the answer are simulated whatever their bound."
    audit = None if optimum.content.bound is None else optimum.content.bound.audit
    if audit is not None and audit.candidates:
        caption += f" {number_of(audit.candidates, 'more design')} were simulated to check the bound."
    return Figure("funnel", chart, alt, caption, table)


def neighbours_picture(optimum: OptimumView) -> Figure | None:
    """Return how much better or worse each neighbour of the answer is; ``None`` without a difference."""
    neighbours = [neighbour for neighbour in optimum.content.neighbours if neighbour.difference is not None]
    if not neighbours:
        return None
    scale = _scale(optimum)
    neighbours.sort(key=lambda neighbour: -_mean(neighbour.difference))
    names = [_named(optimum, neighbour) for neighbour in neighbours]
    rows = tuple(_gap(name, scale, neighbour) for name, neighbour in zip(names[:_MOST_ROWS], neighbours, strict=False))
    title = _title_of_neighbours(neighbours)
    table = table_of(title, list(zip(names, neighbours, strict=True)), (
        Column("Neighbour", lambda row: row[0]),
        Column("Better than the answer by", lambda row: _better(optimum, row[1].difference)),
        Column("Conditions", lambda row: "missed" if row[1].status == "misses a condition" else "kept",
               bool(optimum.content.conditions), is_number=False),
    ))  # fmt: skip
    alt = f"Neighbours of the answer: {'; '.join(f'{row[0]}: {row[1] or None}' for row in table.rows[:5])}."
    caption = _caption_of_neighbours(optimum, len(rows), len(neighbours))
    return Figure("neighbours", Intervals(title, scale.unit, rows, (0.0, "the answer"), GAP95), alt, caption, table)


def _gap(name: str, scale: _Scale, neighbour: NeighbourSummary) -> Interval:
    note = "misses a condition" if neighbour.status == "misses a condition" else ""
    if neighbour.difference is None:
        return Interval(name, None, None, None, note)
    mean, ends = scale.parts(neighbour.difference)
    size = scale.form.size
    return Interval(name, mean / size, None if ends is None else (ends[0] / size, ends[1] / size), None, note)


def _named(optimum: OptimumView, neighbour: NeighbourSummary) -> str:
    """Return the values of a neighbour that differ from the answer, on one axis or on two."""
    axes = neighbour.axis.split(" × ")
    values = neighbour.to.split(", ") if len(axes) > 1 else [neighbour.to]
    return optimum.where(dict(zip(axes, values, strict=True))) if len(axes) == len(values) else neighbour.to


def _mean(difference: AimResult | None) -> float:
    return -math.inf if difference is None or difference.mean is None else difference.mean


def _title_of_neighbours(neighbours: Sequence[NeighbourSummary]) -> str:
    """Return the title for neighbours: whether any is equal to the answer, or may be as good."""
    gaps = [
        neighbour.difference for neighbour in neighbours if neighbour.status == "evaluated" and neighbour.difference
    ]
    equal = sum(not gap.mean and ends_of(gap.ci95) is None for gap in gaps)
    open_ = sum((ends := ends_of(gap.ci95)) is not None and ends[1] >= 0 for gap in gaps)
    if not equal + open_:
        return "Every neighbour of the answer is worse"
    parts = [(equal, "equal"), (open_, "too close to call")]
    texts = [f"{_counted(count)} {'is' if count == 1 else 'are'} {what}" for count, what in parts if count]
    return f"No neighbour is clearly better than the answer; {' and '.join(texts)}"


def _caption_of_neighbours(optimum: OptimumView, shown: int, count: int) -> str:
    parts = [f"The {shown} best of {count} neighbours."] if count > shown else []
    idle = [neighbour for neighbour in optimum.content.neighbours if neighbour.status == "cannot run"]
    if idle:
        first = textwrap.shorten(f"{_named(optimum, idle[0])}: {idle[0].reason}", _LONGEST_REASON, placeholder=" …")
        parts.append(f"{number_of(len(idle), 'neighbour')} cannot run ({first}).")
    return " ".join(parts)


def budget_picture(optimum: OptimumView) -> Figure | None:
    """Return the aim by how much of a budget a design takes: bounds, simulated means, the answer; ``None`` without."""
    bound, answer = optimum.content.bound, optimum.content.answer
    if bound is None or answer is None or len(bound.curve) < 2 or bound.budget not in optimum.content.budget:
        return None
    metric, allowance, budget = optimum.shown(optimum.aim.name), _allowance(bound.budget, optimum), bound.budget
    series = tuple(_curves(optimum, bound, metric, allowance))
    size, limit, used = allowance.form.size, optimum.content.budget[budget].limit, answer.used.get(budget)
    edges = [(limit / size, f"budget: {allowance.form.brief(limit)}")] if limit else []
    edges += [(used / size, f"answer: {allowance.form.brief(used)}")] if used else []
    value = metric.worded(summary_of(answer, metric.metric))
    levels = () if (mean := metric.of(mean_of(answer, metric.metric))) is None else ((mean, "mean of the answer"),)
    distance, title = plain(_distance(optimum)), f"{capital(metric.name)} by {allowance.name}, with bounds"
    if distance:
        title = f"No design beats the answer by more than {distance}"
    places = sorted({place for curve in series for place in curve.x})
    ticks = tuple((place, f"{place:,.4g}" if place < 1000 else f"{place:,.0f}") for place in places)
    unit = f" [{allowance.form.unit}]" if allowance.form.unit else ""
    x = ChartAxis(f"{capital(allowance.name)} taken{unit}", ticks=ticks if len(ticks) <= _MOST_TICKS else ())
    alt = f"{capital(metric.name)} by {allowance.name} taken; the answer has {value}."
    caption = "Dashed: no design can be above its bound. Designs with a bound clearly above the answer were simulated."
    return Figure("over-budget", Curves(title, x, ChartAxis(metric.head), series, levels, tuple(edges)), alt, caption)


def _curves(optimum: OptimumView, bound: BoundSummary, metric: MetricFormat, allowance: _Allowance) -> Iterator[Series]:
    """Yield the bounds of each value of the first named axis, and the best that was simulated with it."""
    size = allowance.form.size
    for hue, (group, bounds) in enumerate(_best_bounds(optimum, bound)):
        name = group[1] if group is not None else "all"
        across, up = zip(*sorted(bounds.items()), strict=True)
        places = tuple(used / size for used in across)
        yield Series(f"{name}: bound", places, tuple(map(metric.of, up)), look="dashed", hue=hue)
        best = _best_along(optimum, bound.budget, group)
        if best:
            means = [summary_of(trial, metric.metric) for trial in best]
            yield Series(
                f"{name}: best simulated",
                tuple((trial.used[bound.budget] or 0.0) / size for trial in best),
                tuple(metric.of(mean.mean) for mean in means),
                tuple(metric.ends(mean.mean_ci95) for mean in means),
                hue=hue,
            )


def _best_bounds(optimum: OptimumView, bound: BoundSummary) -> list[tuple[tuple[str, str] | None, dict[float, float]]]:
    """Return the best bound by the part of a budget, for each value of the first named axis; the best values first."""
    score = optimum.aim.score
    groups: dict[tuple[str, str] | None, dict[float, float]] = {}
    for point in bound.curve:
        if point.used is not None and point.bound is not None:
            best = groups.setdefault(next(iter(point.values.items()), None), {})
            best[point.used] = max(best.get(point.used, point.bound), point.bound, key=score)
    return sorted(groups.items(), key=lambda group: -max(map(score, group[1].values())))[:_MOST_CURVES]


def _best_along(optimum: OptimumView, budget: str, group: tuple[str, str] | None) -> list[TrialSummary]:
    """Return the best that was simulated at each amount of a budget, in its order."""
    name, best = optimum.aim.name, dict[float, TrialSummary]()
    for trial in optimum.content.trials:
        used, mean = trial.used.get(budget), mean_of(trial, name)
        if used is None or mean is None or not trial.met or (group is not None and group not in trial.values.items()):
            continue
        rival = mean_of(best[used], name) if used in best else None
        if rival is None or optimum.aim.score(mean) > optimum.aim.score(rival):
            best[used] = trial
    return [best[used] for used in sorted(best)]
