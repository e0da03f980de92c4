"""The first screen about a comparison: which variant is best, by how much, and how sure that is."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import (
    COUNT,
    GPU_YEARS,
    PERCENT,
    POINTS,
    CellForms,
    Shown,
    capital,
    cell_forms,
    empty_table,
    hours_of,
    label_text,
    listed,
    money_form,
    number_of,
    people_form,
    percent_text,
    phrases,
    points_form,
    range_text,
    shown,
    text_or_dash,
)
from analysis.compare import by_value
from analysis.metrics import BUCKETS, METRICS, TIME_SHARE, bucket_label, lower_is_better, ratios, time_shares
from analysis.page.account import asked_for
from analysis.page.cells import axes_of
from analysis.page.chapters.answers import chosen_cells
from analysis.page.chapters.inputs import luck, more_runs, not_covered, stated
from analysis.page.charts.data import Change, Interval, Intervals, Waterfall
from analysis.page.formats.terminal import folded
from analysis.page.glossary import bucket_words, glossed, metric_words
from analysis.page.model import Column, FirstScreen, Grid, Picture, Section, joined, plain
from analysis.page.sourced import Places, number, ranged, told
from analysis.statistics.differences import MANY, Difference, difference
from analysis.terminal import Page, console
from sim import JOB_BUCKETS, Ratio
from sim.units import HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from analysis.amounts import Form
    from analysis.page.model import Words
    from analysis.page.report_data import Focus, ReportData
    from analysis.page.sourced import Estimate, SourcedNumber
    from analysis.results.models import (
        Behind,
        CompareDocument,
        ControlledDifference,
        DifferenceFound,
        RankingFound,
        SweepDocument,
        VariantFound,
    )
    from sim import Result, Scenario

# ----------------------------------------
# A comparison as tables for the terminal.

_WIDTH = 200

"""Columns where there is no terminal: a table that is cut helps nobody."""

_LEAST_WIDTH = 120

"""Columns that a table may take on any terminal, for the same reason."""

_MOST_BUCKETS = 7

_LEAST_SHARE = 5e-5

"""A share that rounds to 0.01 %; what is less in all variants is not shown."""

_BESIDE = ("goodput", "tokens_per_day", "cost_per_token", "cost", "interruptions")

"""Metrics beside the headline of the first table, in its order."""


def format_comparison(content: CompareDocument, *, width: int | None = None) -> str:
    """Return the document of a comparison as text, `width` columns wide (the terminal's)."""
    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.width = max(out.width, _LEAST_WIDTH)
    variants = content.variants
    prefix = _common_path(list(variants))
    metric = content.headline
    out.print(f"{METRICS[metric].title} on the same failures", style="bold")
    out.print(f"  {number_of(content.replications, 'replication')}, seed {content.seed}")
    if content.unranked_because is not None:
        out.print(f"  not ranked by goodput: {content.unranked_because}", soft_wrap=True)
    for line in content.at_equal.lines if content.at_equal is not None else ():
        out.print(f"  {line}", soft_wrap=True)
    if content.cannot_run:
        out.print(f"  {_left_out(content, prefix)}", soft_wrap=True)
    out.print()
    _print_metrics(out, content, prefix)
    _print_shares(out, content, prefix)
    _print_keys(out, content, prefix)
    lines = [*_best(content, prefix), *_stores(content, prefix), *_unresolved(content, prefix), *_notes(content)]
    if lines:
        out.print()
    for line in lines:
        out.print(f"  - {line}", soft_wrap=True)
    for name, reason in content.cannot_run.items():
        out.print(f"\n{name.removeprefix(prefix)}: cannot run: {reason}", soft_wrap=True)
    return page.text()


def _left_out(content: CompareDocument, prefix: str) -> str:
    """Return how many variants are missing, and what the others are compared with if the first one is."""
    line = f"left out: {number_of(len(content.cannot_run), 'variant')} that cannot run (below)"
    if content.instead_of is None:
        return line
    first, missing = (name.removeprefix(prefix) for name in (content.first, content.instead_of))
    return f"{line}; the others are compared with {first}, since {missing} is one of them"


def _common_path(names: list[str]) -> str:
    """Return ``path=`` if that is what the names of all variants begin with, and all that they have in common."""
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_alone = equals and not any(re.search(r", [\w.]+=", name) for name in names)
    return start if is_alone and all(name.startswith(start) for name in names) else ""


def _forms(content: CompareDocument, metric: str) -> CellForms:
    """Return how a metric is told."""
    cost = next(iter(content.variants.values())).cost
    return cell_forms(metric, "" if cost is None else cost.currency)


def _print_metrics(out: Console, content: CompareDocument, prefix: str) -> None:
    """Print the headline of each variant, how far it is from the first's, and what else a decision needs."""
    variants = content.variants
    metric = content.headline
    forms = _forms(content, metric)
    shown = [name for name in _BESIDE if name != metric and all(name in row.metrics for row in variants.values())]
    ranks = {name: str(place) for place, name in enumerate(content.order, start=1)}
    table = empty_table(
        prefix.rstrip("=") or "variant", *(["rank"] if ranks else []), folded(METRICS[metric].short),
        "difference\nto the first",
        "95 %\ninterval", *(folded(METRICS[name].short) for name in shown),
    )  # fmt: skip
    _let_labels_fold(table)
    for name, variant in variants.items():
        change = variant.difference.get(metric)
        found = variant.metrics
        table.add_row(
            name.removeprefix(prefix),
            *([ranks.get(name, "-")] if ranks else []),
            text_or_dash(found[metric].mean, forms.value),
            "" if name == content.first else text_or_dash(change.mean if change else None, forms.change),
            "" if name == content.first else range_text(change.ci95 if change else None, forms.change),
            *(text_or_dash(found[other].mean, _forms(content, other).value) for other in shown),
        )
    out.print(table)


def _let_labels_fold(table: Table) -> None:
    """Where a terminal is narrow, let the names of variants take several lines, and keep numbers whole."""
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].no_wrap = False
    table.columns[0].overflow = "fold"


def _print_shares(out: Console, content: CompareDocument, prefix: str) -> None:
    """Print the largest shares of the requested GPU-time, productive first."""
    shares = {name: variant.time_shares for name, variant in content.variants.items()}
    largest = {bucket: max(mine[bucket] or 0.0 for mine in shares.values()) for bucket in next(iter(shares.values()))}
    lost = sorted((name for name in largest if name != "productive"), key=lambda name: -largest[name])
    buckets = ["productive", *(name for name in lost if largest[name] >= _LEAST_SHARE)][: _MOST_BUCKETS + 1]
    out.print("\nWhere the GPU-time went", style="bold")
    table = empty_table(prefix.rstrip("=") or "variant", *(folded(bucket_label(bucket)) for bucket in buckets))
    _let_labels_fold(table)
    for name, mine in shares.items():
        table.add_row(name.removeprefix(prefix), *(text_or_dash(mine[bucket], percent_text) for bucket in buckets))
    out.print(table)


def _print_keys(out: Console, content: CompareDocument, prefix: str) -> None:
    """Print in which keys the variants differ beyond what was varied; parameters of a varied choice in one line."""
    keys, lines = content.also_differ, {}
    for path in content.varied:
        place, _, tag = path.rpartition(".")
        inside = [key.removeprefix(f"{place}.") for key in keys if tag == "use" and key.startswith(f"{place}.")]
        if inside:
            lines[place] = f"{', '.join(inside)}: follow from {path}"
            keys = {key: values for key, values in keys.items() if not key.startswith(f"{place}.")}
    lines |= {
        key: by_value({name.removeprefix(prefix): value for name, value in values.items()})
        for key, values in keys.items()
    }
    if not lines:
        return
    out.print("\nOther keys in which the variants differ", style="bold")
    width = max(map(len, lines))
    for key, line in lines.items():
        out.print(f"  {key:{width}}  {line}", soft_wrap=True)


def _stores(content: CompareDocument, prefix: str) -> Iterator[str]:
    """Yield what the checkpoint stores of a recovery preset gain, and what the recovery does without them."""
    forms = _forms(content, content.headline)
    first = content.first.removeprefix(prefix)

    def shown(found: DifferenceFound | None) -> str:
        if found is None:
            return "-"
        return f"{forms.change(found.mean)} ({range_text(found.ci95, forms.change)})"

    for name, found in content.stores.items():
        label = name.removeprefix(prefix)
        line = f"{label}: the stores of its preset make {shown(found.gain)}"
        if found.rest is None:
            yield line
            continue
        also = " without its own" if content.first in content.stores else ""
        yield f"{line}; without them the difference to {first}{also} is {shown(found.rest)}"


def _best(content: CompareDocument, prefix: str) -> Iterator[str]:
    """Yield which of more than two variants may be the best, together at 95 %."""
    ranking = content.ranking
    if ranking is None:
        return
    names = [name.removeprefix(prefix) for name in ranking.may_be_best]
    if len(names) == 1:
        yield f"best: {names[0]}, resolved from each of the others (95 % together)"
        return
    needed = ranking.replications_to_resolve
    told = f"; {_more(needed, content.replications)} would tell" if _differ(ranking) else ""
    yield f"may be best (95 % together): {', '.join(names[:-1])} or {names[-1]}{told}"


def _differ(ranking: RankingFound) -> bool:
    """Return whether those that may be best are not all the same in every replication."""
    return any(ranking.behind[name].ci95 != (0.0, 0.0) for name in ranking.may_be_best[1:])


def _more(needed: int | None, done: int) -> str:
    """Return how many replications more would be enough, in words."""
    if needed is None:
        return f"more than {MANY:,} replications"
    return f"about {max(needed - done, 1):,} more {'replication' if needed - done <= 1 else 'replications'}"


def _unresolved(content: CompareDocument, prefix: str) -> Iterator[str]:
    """Yield a line for each variant whose difference to the first may be chance."""
    metric = content.headline
    first = content.first.removeprefix(prefix)
    for name, variant in content.variants.items():
        change = variant.difference.get(metric)
        if change is None or change.resolved:
            continue
        label = name.removeprefix(prefix)
        if change.ci95[0] == change.ci95[1]:
            yield f"{label}: the same as {first} in every replication"
            continue
        yield (
            f"{label}: the difference to {first} is not resolved at this precision; "
            f"{_more(change.replications_to_resolve, content.replications)} would"
            f"{_without_luck(change.controlled, _forms(content, metric))}"
        )


def _without_luck(taken: ControlledDifference | None, forms: CellForms) -> str:
    """Return what is left of a difference without the luck of the failures, where that resolves it."""
    if taken is None or taken.ci95[0] <= 0 <= taken.ci95[1]:
        return ""
    return f" (it is with the luck of the failures taken out: {range_text(taken.ci95, forms.change)})"


def _notes(content: CompareDocument) -> Iterator[str]:
    """Yield what a reader must know before using the numbers of a variant."""
    for name, variant in content.variants.items():
        for note in variant.notes:
            yield f"{name}: {note}"


# ----------------------------------------
# What a better variant gains as time: points of useful time, GPU-years, and what these cost.

WITH_SPEED = ("goodput", "effective_mfu")

"""Metrics in which useful time counts by the speed of a step."""


def gained(contest: Contest, best: str) -> Estimate | None:
    """Return which share of the time becomes useful; ``None`` where this alone does not make the variant better.

    That is where sizes of jobs differ, where a step has another speed, or where the time is not what is gained.
    """
    speed = contest.places.get("variants", best, "difference", "program_goodput")
    gain = contest.difference(best, "ettr")
    if contest.metric not in (*WITH_SPEED, "ettr") or contest.gpus(best) is None or gain is None:
        return None
    if contest.metric in WITH_SPEED and (speed is None or speed.mean != 0):
        return None
    return gain if contest.is_resolved(best, "ettr") and gain.mean.value > 0 else None


def of_time(contest: Contest, best: str) -> Words:
    """Return what is gained as time, which GPU-years follow from, with the goodput that it makes."""
    gain, change = gained(contest, best), contest.difference(best)
    shares = [contest.places.estimate("variants", name, "metrics", "ettr") for name in (best, contest.first)]
    after, before = shares
    if gain is None or change is None or after is None or before is None:
        return ()
    instead: Words = (number(after.mean, PERCENT, after.interval, ""), " instead of ",
                      number(before.mean, PERCENT, before.interval))  # fmt: skip
    both = (" (", *instead, "; ", *contest.amount(change), contest.of(), ")")
    return ("make ", *contest.amount(gain, POINTS), " more of the time useful", *both)


def in_gpu_years(contest: Contest, best: str) -> Words:
    """Return what the useful time that is gained comes to in a year."""
    gpus, gain = contest.gpus(best), gained(contest, best)
    if gpus is None or gain is None:
        return ()
    years = gain.changed(lambda share: share * gpus)
    return (
        ": that is ",
        *contest.amount(years, GPU_YEARS),
        " a year more of training that lasts, on ",
        number(gpus, COUNT),
        " GPUs",
    )


def in_money(contest: Contest, best: str) -> Words:
    """Return what as much GPU-time costs in a year at the price of all that is owned now; nothing without prices."""
    gain, places, at = gained(contest, best), contest.places, ("variants", contest.first)
    gpus, cost = contest.gpus(best), places.at(*at, "cost", "total")
    if gain is None or gpus is None or cost is None or cost.value <= 0:
        return ()
    requested = places.at(*at, "per_job", next(iter(places.get(*at, "per_job"))), "requested_gpu_s")
    of_requested, of_owned = (places.at(*at, of, "productive") for of in ("time_shares", "cluster_shares"))
    if requested is None or of_requested is None or of_owned is None or requested.value * of_requested.value <= 0:
        return ()
    owned = requested / asked_for(of_requested, of_owned)
    amount = gain.changed(lambda share: share * gpus * YEAR * (cost / owned))
    form = money_form(amount.mean.value, places.get(*at, "cost", "currency"))
    worth = number(amount.mean, form, amount.interval)
    return (", worth ", worth, " a year at what a GPU-hour of the cluster costs now")


# ----------------------------------------
# The steps from one ETTR to another, bucket by bucket.

_PRODUCTIVE = f"{TIME_SHARE}productive"

_SMALLEST = 1e-9

"""Change of a share that is rounding [-]."""

_SEEN = 0.01

"""Part of the largest step below which a step is put together with others."""


class Step(NamedTuple):
    """What a bucket contributes to the change of ETTR.

    Parameters
    ----------
    bucket
        Its key.
    before, after
        Its share of the requested GPU-time in either scenario [-].
    found
        By how much it is smaller in the second one, which is a gain; ``None`` from a single replication.
    """

    bucket: str
    before: float
    after: float
    found: Difference | None

    @property
    def name(self) -> str:
        """What it is called."""
        return bucket_label(self.bucket)

    @property
    def gain(self) -> float:
        """What ETTR gains by it [-]."""
        return self.before - self.after


class Bridge(NamedTuple):
    """From one ETTR to another.

    Parameters
    ----------
    before, after
        ETTR of either scenario [-].
    steps
        One for each bucket that changes, the largest gain first.
    drawn
        The same, with those that nobody would see put together.
    whole
        The difference of the two ETTR; ``None`` from a single replication.
    """

    before: float
    after: float
    steps: tuple[Step, ...]
    drawn: tuple[Step, ...]
    whole: Difference | None


def bridge_of(before: Sequence[Result], after: Sequence[Result]) -> Bridge | None:
    """Return how the shares of time lead from one scenario to another; ``None`` if a job never asked for anything.

    All buckets but ``productive`` are losses, and both scenarios' shares sum to one, so that what the losses fall by is
    what ETTR gains: ``sum(before - after) = ETTR(after) - ETTR(before)``.

    Parameters
    ----------
    before, after
        The same replications of both, in the same order, so that differences are paired.
    """
    ours, theirs = [time_shares(result) for result in after], [time_shares(result) for result in before]
    names = [f"{TIME_SHARE}{bucket}" for bucket in JOB_BUCKETS]
    first, second = _means(theirs, names), _means(ours, names)
    if first is None or second is None:
        return None
    steps = [
        Step(
            name.removeprefix(TIME_SHARE),
            first[name],
            second[name],
            difference([row[name] for row in theirs], [row[name] for row in ours]),
        )
        for name in names
        if name != _PRODUCTIVE and abs(second[name] - first[name]) > _SMALLEST
    ]
    steps.sort(key=lambda step: -step.gain)
    whole = difference([row[_PRODUCTIVE] for row in ours], [row[_PRODUCTIVE] for row in theirs])
    return Bridge(first[_PRODUCTIVE], second[_PRODUCTIVE], tuple(steps), _drawn(steps, theirs, ours), whole)


def _drawn(
    steps: Sequence[Step], before: Sequence[Mapping[str, Ratio]], after: Sequence[Mapping[str, Ratio]]
) -> tuple[Step, ...]:
    """Return the steps of the picture: the small ones, if there are several, as one with an interval of its own."""
    largest = max((abs(step.gain) for step in steps), default=0.0)
    small = [step for step in steps if abs(step.gain) < _SEEN * largest]
    if len(small) < 2:
        return tuple(steps)
    names = [f"{TIME_SHARE}{step.bucket}" for step in small]
    both = [
        [Ratio(sum(row[name].amount for name in names), row[_PRODUCTIVE].base) for row in rows]
        for rows in (before, after)
    ]
    found = difference(both[0], both[1])
    rest = Step("others", sum(step.before for step in small), sum(step.after for step in small), found)
    return (*(step for step in steps if step not in small), rest)


def _means(rows: Sequence[Mapping[str, Ratio]], names: Sequence[str]) -> dict[str, float] | None:
    """Return the shares over all replications, each a ratio of sums."""
    base = sum(row[_PRODUCTIVE].base for row in rows)
    return {name: sum(row[name].amount for row in rows) / base for name in names} if base else None


# ----------------------------------------
# What the two scenarios that are held against each other are called.


def variant_labels(names: Sequence[str]) -> dict[str, str]:
    """Return what variants are called: without the path of the one setting that all of them vary.

    A number alone would not say of what it is, so that its path stays.
    """
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_clear = bool(equals) and all(re.fullmatch(rf"{re.escape(start)}[A-Za-z][^=]*", name) for name in names)
    return {name: name.removeprefix(start) if is_clear else name for name in names}


def names_of(report_data: ReportData, before: Focus, after: Focus) -> tuple[str, str]:
    """Return what the two are called: what tells them apart, where they are cells of a study."""
    found = _values_of(report_data)
    if found is None:
        names = list(report_data.comparison.variants) if report_data.kind == "compare" else [before.name, after.name]
        labels = variant_labels(names)
        return labels[before.name], labels[after.name]
    theirs, ours = found
    apart = [name for name in ours if ours[name] != theirs[name]]
    assert report_data.sweep is not None
    return phrases(theirs, apart, report_data.sweep.axes), phrases(ours, apart, report_data.sweep.axes)


def shortly(report_data: ReportData, name: str) -> str:
    """Return the name of the first of the two as it stands behind the other's: ``48 hot spares instead of 32``."""
    found = _values_of(report_data)
    if found is None:
        return name
    apart = [theirs for axis, theirs in found[0].items() if theirs != found[1][axis]]
    if len(apart) != 1:
        return name
    return label_text(apart[0]) if apart[0][:1].isdigit() else f"“{label_text(apart[0])}”"


def _values_of(report_data: ReportData) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the values of the first and of the second, where they are cells of a study."""
    content = report_data.sweep if report_data.kind == "sweep" else None
    chosen = None if content is None else chosen_cells(content)
    if content is None or chosen is None or chosen[1] is None:
        return None
    return content.cells[chosen[1]].values, content.cells[chosen[0]].values


def in_common(content: SweepDocument) -> str:
    """Return what the two have in common of what was chosen, in words; empty without any."""
    chosen = chosen_cells(content)
    if chosen is None or chosen[1] is None:
        return ""
    ours, theirs = (content.cells[number].values for number in chosen if number is not None)
    return phrases(ours, [axis.name for axis in axes_of(content) if ours[axis.name] == theirs[axis.name]], content.axes)


# ----------------------------------------
# What a comparison is about, for its first screen: the metric, how it is told, and what each variant is called.


@dataclass(frozen=True)
class Contest:
    """What is compared: the document, the metric, how it is told, and what each variant is called."""

    places: Places
    metric: str
    form: Form
    labels: dict[str, str]

    @property
    def first(self) -> str:
        """The variant that the others are held against."""
        return str(self.places.get("first"))

    @property
    def order(self) -> list[str]:
        """The variants, best first; empty where there is no rank."""
        return list(self.places.get("order"))

    @property
    def step(self) -> Form:
        """How differences are told."""
        return points_form(self.form)

    def difference(self, name: str, metric: str = "") -> Estimate | None:
        """Return how far a variant is above the first one."""
        return self.places.estimate("variants", name, "difference", metric or self.metric, interval="ci95")

    def is_resolved(self, name: str, metric: str = "") -> bool:
        """Return whether this is more than chance; a difference that all runs share counts as well."""
        found = self.places.get("variants", name, "difference", metric or self.metric)
        return found is not None and found.resolved

    def amount(self, size: Estimate, step: Form | None = None) -> Words:
        """Return a difference as a range, or as what it is in every run; of another metric as differences of it are."""
        if size.low is None or size.high is None:
            return (number(size.mean, step or self.step),)
        return ranged(size.low, size.high, step or self.step)

    def of(self, between: str = "to") -> str:
        """Return of what a difference is, as it stands behind it."""
        if self.metric.startswith(("tokens", "cost", "steps")):
            return ""
        is_share = self.form.step == "points" and self.metric not in ("goodput", "effective_mfu")
        return f" {between if is_share else 'of'} {metric_words(self.metric)}"

    def verb(self, *, better: bool) -> str:
        """Return what a change to a better or worse variant does."""
        if lower_is_better(self.metric):
            return "save" if better else "cost"
        return "add" if better else "lose"

    def gpus(self, best: str) -> SourcedNumber | None:
        """Return the GPUs of the one job, where it is as large in both variants."""
        found = []
        for name in (self.first, best):
            jobs = list(self.places.get("variants", name, "per_job"))
            if len(jobs) != 1:
                return None
            found.append(self.places.at("variants", name, "per_job", jobs[0], "gpus"))
        one, other = found
        return one if one is not None and other is not None and one.value == other.value else None


def contest_of(places: Places) -> Contest:
    """Return what a document of a comparison is about."""
    metric = places.get("headline")
    variants = places.get("variants")
    costs = [variant.cost.currency for variant in variants.values() if variant.cost is not None]
    means = [places.at("variants", name, "metrics", metric, "mean") for name in variants]
    form = people_form(metric, [mean.value for mean in means if mean is not None], costs[0] if costs else "")
    return Contest(places, metric, form, variant_labels(list(variants)))


_LEAST_CHANGE = 5e-4

"""A change of shares that is worth a word."""

_MOST_NAMES = 4


def first_screen(report_data: ReportData) -> FirstScreen:
    """Return the first screen."""
    content = report_data.comparison
    contest = contest_of(Places(report_data.results.file, content))
    variants = content.variants.values()
    cannot = [f"without {name}, which cannot run: {reason}" for name, reason in content.cannot_run.items()]
    labels = list(contest.labels.values())
    question = (
        f"Which is better: {', '.join(labels[:-1])} or {labels[-1]}?" if labels[1:] else f"How good is {labels[0]}?"
    )
    return glossed(
        FirstScreen(
            question=question,
            answer=_answer(contest),
            doubt=_doubt(contest, None if report_data.focus is None else report_data.focus.scenario),
            picture=_picture(contest) if contest.order[1:] else None,
            drivers=tuple(words for words in _drivers(contest) if words)[:3],
            not_covered=not_covered(
                [*cannot, *_notes_of_compare(contest)],
                [warning for variant in variants for warning in variant.warnings],
                [assumption for variant in variants for assumption in variant.assumptions],
            ),
        )
    )


def _notes_of_compare(contest: Contest) -> list[str]:
    """Return notes on variants; those that all of them have in common without their names."""
    found: dict[str, list[str]] = {}
    for name, label in contest.labels.items():
        for note in contest.places.get("variants", name, "notes"):
            found.setdefault(note, []).append(label)
    everyone = len(contest.labels)
    return [note if len(who) == everyone else f"with {listed(who)}: {note}" for note, who in found.items()]


def _answer(contest: Contest) -> Words:
    """Return the answer in one sentence."""
    names, order = list(contest.labels), contest.order
    if len(names) == 1:
        return (f"Only {contest.labels[names[0]]} can run, so that there is nothing to compare it with.",)
    if not order:
        return (f"Which is better cannot be told: {contest.places.get('unranked_because')}.",)
    ranking = contest.places.get("ranking")
    if ranking is not None and len(ranking.may_be_best) > 1:
        return _several(contest, ranking.may_be_best)
    best, first = order[0], contest.first
    other = order[1] if best == first else best
    change = contest.difference(other)
    if change is None:
        return (f"By how much {contest.labels[other]} differs from {contest.labels[first]} cannot be told: one of them "
                f"has no value of {metric_words(contest.metric)}.",)  # fmt: skip
    if not contest.is_resolved(other):
        return _unresolved_of_compare(contest, other, change)
    size = change.changed(lambda amount: abs(amount))
    if best == first:
        start = f"Staying with {contest.labels[first]} is best: switching to {contest.labels[other]}, the next, would "
        return (start, f"{contest.verb(better=False)} ", *contest.amount(size), contest.of(), ".")
    start = f"Switching from {contest.labels[first]} to {contest.labels[best]} would "
    amount = of_time(contest, best) if contest.metric in WITH_SPEED else ()
    amount = amount or (f"{contest.verb(better=True)} ", *contest.amount(size), contest.of())
    return (start, *amount, *in_gpu_years(contest, best), *in_money(contest, best), ".")


def _several(contest: Contest, names: Sequence[str]) -> Words:
    """Return which variants may be best, where that is not resolved."""
    labels = [contest.labels[name] for name in names]
    listed = f"{', '.join(labels[:-1])} or {labels[-1]}" if len(labels) <= _MOST_NAMES else (
        f"{', '.join(labels[: _MOST_NAMES - 1])} and others"
    )  # fmt: skip
    behind = contest.places.get("ranking", "behind")
    if all(behind[name].ci95 == (0.0, 0.0) for name in names):
        return (f"{listed} are equally good: they come to the same in every simulated run.",)
    needed = contest.places.at("ranking", "replications_to_resolve")
    return (f"{listed} may be best; ", *more_runs(needed), " which.")


def _unresolved_of_compare(contest: Contest, other: str, change: Estimate) -> Words:
    """Return that two variants cannot be told apart."""
    labels = contest.labels
    pair = f"{labels[contest.first]} and {labels[other]}"
    runs = contest.places.at("replications")
    assert runs is not None
    if change.low is None or change.high is None:
        return (f"{pair} are equally good: they come to the same in all ", number(runs, COUNT), " simulated runs.")
    needed = contest.places.at("variants", other, "difference", contest.metric, "replications_to_resolve")
    return (
        f"{pair} cannot be told apart in ", number(runs, COUNT), f" simulated runs: {labels[other]} differs by ",
        *ranged(change.low, change.high, contest.step), f"{contest.of('in')}, where zero is no difference; ",
        *more_runs(needed), " them apart.",
    )  # fmt: skip


def _doubt(contest: Contest, scenario: Scenario | None) -> Words:
    """Return how sure the answer is."""
    runs, places = contest.places.at("replications"), contest.places
    is_priced = any(variant.cost is not None for variant in places.get("variants").values())
    exactly = stated(scenario, priced=is_priced)
    if runs is None or len(contest.labels) == 1:
        return (exactly,)
    changes = [contest.difference(name) for name in contest.labels if name != contest.first]
    ranges = (
        "; the ranges are what chance leaves open: nineteen of twenty such ranges hold what all possible runs would "
        "come to."
    ) if any(change is not None and change.interval is not None for change in changes) else "."  # fmt: skip
    common: Words = ("All variants meet the same failures in the same ", number(runs, COUNT),
                     f" simulated runs, so that luck they have in common cancels{ranges}")  # fmt: skip
    parts: list[Words] = [(exactly,), common]
    if places.get("precise") is False:
        parts.append(("The precision that was asked for was not reached.",))
    if contest.order and places.get("unranked_because"):
        parts.append((f"{capital(places.get('unranked_because'))}.",))
    equal = places.get("at_equal", "kind")
    if equal is not None:
        kind = "GPUs" if equal == "gpus" else equal
        parts.append((f"They are compared at equal {kind}; no cluster was made larger or smaller for that.",))
    return joined(parts)


def _drivers(contest: Contest) -> list[Words]:
    """Return what drives the answer, the most important first."""
    if len(contest.order) < 2:
        return []
    best, first = contest.order[0], contest.first
    other = contest.order[1] if best == first else first
    return [_moved(contest, other, best), _useful(contest, other, best), *_behind(contest), _met(contest, other, best),
            luck(contest.places, "variants", best, "metrics", contest.metric, form=contest.form)]  # fmt: skip


def _moved(contest: Contest, other: str, best: str) -> Words:
    """Return where the time is found that the best variant makes use of."""
    found = []
    for bucket in contest.places.get("variants", best, "time_shares"):
        before = contest.places.at("variants", other, "time_shares", bucket)
        after = contest.places.at("variants", best, "time_shares", bucket)
        if before is None or after is None or bucket == "productive" or before.value - after.value < _LEAST_CHANGE:
            continue
        found.append((before.value - after.value, bucket, before, after))
    if not found:
        return ()
    parts: list[Words] = [
        (f"{bucket_words(bucket)} falls from ", number(before, PERCENT), " to ", number(after, PERCENT))
        for _, bucket, before, after in sorted(found, reverse=True)[:2]
    ]
    start = f"With {contest.labels[best]} instead of {contest.labels[other]}, "
    return (start, *joined(parts, ", "), " of the time.")


def _useful(contest: Contest, other: str, best: str) -> Words:
    """Return the share of the time that becomes training in both."""
    shares = [contest.places.estimate("variants", name, "metrics", "ettr") for name in (other, best)]
    before, after = shares
    if before is None or after is None or contest.metric == "ettr" or gained(contest, best) is not None:
        return ()
    return ("The share of the time that becomes training (ETTR) is ", *told(after, PERCENT),
            f" with {contest.labels[best]}, ", *told(before, PERCENT), f" with {contest.labels[other]}.")  # fmt: skip


def _behind(contest: Contest) -> list[Words]:
    """Return how far those that are not the best are behind it."""
    ranking, found = contest.places.get("ranking"), []
    for name in contest.order[1:] if ranking is not None else ():
        gap = contest.places.estimate("ranking", "behind", name, interval="ci95")
        if gap is not None and name != contest.first and gap.low is not None and gap.low.value > 0:
            found.append((f"{contest.labels[name]} is ", *contest.amount(gap), f"{contest.of()} behind "
                          f"{contest.labels[contest.order[0]]}."))  # fmt: skip
    return found[:1]


def _met(contest: Contest, other: str, best: str) -> Words:
    """Return how often failures interrupt training in both."""
    before, after = (contest.places.at("variants", name, "metrics", "interruptions", "mean") for name in (other, best))
    if before is None or after is None:
        return ()
    labels, ours, theirs = contest.labels, number(after, COUNT), number(before, COUNT)
    if ours.text == theirs.text:
        return ()
    return ("Failures interrupt training ", ours, f" times in a run with {labels[best]}, ", theirs,
            f" times with {labels[other]}.")  # fmt: skip


def _picture(contest: Contest) -> Picture | None:
    """Return how far each variant is from the first one."""
    step, rows, cells = contest.step, [], []
    for name in contest.order:
        change = contest.difference(name)
        if name == contest.first or change is None:
            continue
        ends = None if change.interval is None else (change.interval[0] / step.size, change.interval[1] / step.size)
        rows.append(Interval(contest.labels[name], change.mean.value / step.size, ends))
        cells.append((contest.labels[name], contest.form.change(change.mean.value, change.interval)))
    if not rows:
        return None
    base = contest.labels[contest.first]
    title = _title(contest)
    chart = Intervals(title, f"{step.unit} of {metric_words(contest.metric)}", tuple(rows), (0.0, f"as {base}"))
    table = Grid(title, (Column("instead of " + base, is_number=False), Column("difference")), cells)
    alt = plain(
        (f"Differences to {base} with their ranges: ", "; ".join(f"{name} {text}" for name, text in cells), ".")
    )
    return Picture("at-a-glance", chart, alt, "Dots are means, bars the 95 % intervals of paired differences.", table)


def _title(contest: Contest) -> str:
    """Return what the picture says."""
    ranking = contest.places.get("ranking")
    best, first = contest.order[0], contest.first
    other = contest.order[1] if best == first else best
    sure = contest.is_resolved(other) if ranking is None else len(ranking.may_be_best) == 1
    return f"{contest.labels[best]} is best" if sure else "No variant is best beyond chance"


# ----------------------------------------
# What was compared, with intervals: variants of a comparison, or candidates of a question.

_SMALLEST_COMPARISON = 1e-6

"""Part of a metric below which a difference is not told in a table."""


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    return _of_variants(report_data.comparison) if report_data.kind == "compare" else None


def difference_note(found: DifferenceFound, replications: int) -> str:
    """Return how sure a difference is: resolved, or what it would take."""
    if found.resolved:
        return "resolved"
    if found.ci95[0] == found.ci95[1]:
        return "the same in every run" if found.mean == 0 else "as much in every run"
    needed = found.replications_to_resolve
    told = (
        f"more than {MANY:,} replications" if needed is None else f"about {needed:,} replications, not {replications},"
    )
    return f"not resolved: {told} would tell"


def _of_variants(content: CompareDocument) -> Section:
    """Return the section of a comparison."""
    content, metric = _named(content), content.headline
    variants = content.variants
    headline = shown(metric, [_mean(variant, metric) for variant in variants.values()], _currency(content))
    text = [f"{capital(line)}." for line in (() if content.at_equal is None else content.at_equal.lines)]
    if content.differs:
        text.append(f"{capital(listed(content.differs))} differ from variant to variant.")
    if content.unranked_because:
        text.append(f"{capital(content.unranked_because)}.")
    text += _stores_of_comparison(content, headline)
    pictures = [
        _means_of_comparison(content, headline),
        _differences(content, headline),
        _behind_of_comparison(content, headline),
    ]
    items: list[Picture | Grid] = [picture for picture in pictures if picture is not None]
    items += [_metrics(content)]
    if content.also_differ:
        others = tuple((key, by_value(values)) for key, values in content.also_differ.items())
        columns = (Column("Key", is_number=False), Column("Values of the variants", is_number=False))
        items.append(Grid("Other keys in which the variants differ", columns, others))
    if content.cannot_run:
        rows = tuple(content.cannot_run.items())
        columns = (Column("Variant", is_number=False), Column("Why it cannot run", is_number=False))
        items.append(Grid("What cannot run", columns, rows))
    count = number_of(content.replications, "replication")
    notes = [
        f"{count} of each variant, seed {content.seed}; a replication has the same failures in all variants, so "
        "that the luck that they share cancels in a difference.",
        "Intervals are 95 %: what more replications would make smaller.",
    ]
    return Section("comparison", _title_of_comparison(content, headline), tuple(text), tuple(items), tuple(notes))


def _stores_of_comparison(content: CompareDocument, headline: Shown) -> Iterator[str]:
    """Yield what the checkpoint stores of presets make of the differences."""
    base = f"{content.first}{' without its own' * (content.first in content.stores)}"
    for name, found in content.stores.items():
        if found.gain is not None:
            rest = "" if found.rest is None else headline.change(found.rest)
            rest = rest and f"; without them the difference to {base} is {rest}"
            yield f"{name}: the checkpoint stores of its preset make {headline.change(found.gain)}{rest}."


def _named(content: CompareDocument) -> CompareDocument:
    """Return the document with its variants called as they are read: without what all their names begin with."""
    labels = variant_labels([*content.variants, *content.cannot_run])
    ranking = content.ranking
    return content.model_copy(
        update={
            "variants": {labels[name]: variant for name, variant in content.variants.items()},
            "first": labels[content.first],
            "cannot_run": {labels[name]: why for name, why in content.cannot_run.items()},
            "order": [labels[name] for name in content.order],
            "stores": {labels[name]: found for name, found in content.stores.items()},
            "also_differ": {
                key: {labels[name]: value for name, value in values.items()}
                for key, values in content.also_differ.items()
            },
            "ranking": ranking
            and ranking.model_copy(
                update={
                    "behind": {labels[name]: each for name, each in ranking.behind.items()},
                    "may_be_best": [labels[name] for name in ranking.may_be_best],
                }
            ),
        }
    )


def _currency(content: CompareDocument) -> str:
    costs = [variant.cost for variant in content.variants.values() if variant.cost]
    return costs[0].currency if costs else ""


def _title_of_comparison(content: CompareDocument, headline: Shown) -> str:
    """Return what the comparison says in a sentence."""
    variants, order, name = content.variants, content.order, headline.name
    if len(variants) == 1:
        return f"{next(iter(variants))} is the only variant that can run"
    if not order:
        return f"{number_of(len(variants), 'variant')} beside each other, without a rank"
    if content.ranking is not None:
        ahead = content.ranking.may_be_best
        if len(ahead) > 1:
            if len(ahead) == len(variants) and all(map(_is_equal, content.ranking.behind.values())):
                return f"{listed(ahead)} have the same {name}, in every run"
            return f"{listed(ahead)} cannot be told apart: any of them may have the best {name}"
        second = content.ranking.behind[order[1]] if len(order) > 1 else None
        gap = "" if second is None else f", {headline.distance(second.mean, second.ci95)} ahead of {order[1]}"
        return f"{order[0]} has the best {name}{gap}"
    first, other = content.first, next(name for name in variants if name != content.first)
    found = variants[other].difference.get(headline.metric)
    if found is None:
        return f"{order[0]} has the best {name}"
    if _is_equal(found):
        return f"{other} and {first} have the same {name}, in every run"
    if not found.resolved:
        return f"{other} and {first} cannot be told apart in {name}: {headline.change(found)}"
    word = "more" if found.mean > 0 else "less"
    return f"{other} has {headline.distance(found.mean, found.ci95)} {word} {name} than {first}"


def _is_equal(found: DifferenceFound | Behind) -> bool:
    """Return whether a difference is none at all, in every replication."""
    return found.mean == 0 and found.ci95[0] == found.ci95[1]


def _means_of_comparison(content: CompareDocument, headline: Shown) -> Picture | None:
    """Return the headline metric of each variant."""
    rows, texts = [], []
    order = content.order or list(content.variants)
    for name in [*order, *(other for other in content.variants if other not in order)]:
        found = content.variants[name].metrics.get(headline.metric)
        mean, text = headline.of(None if found is None else found.mean), headline.told(found) or "not known"
        note = "" if mean is not None else text
        ends, band = (None, None) if found is None else (headline.ends(found.mean_ci95), headline.ends(found.band90))
        rows.append(Interval(name, mean, ends, band, note))
        texts.append((name, text))
    known = [row for row in rows if row.mean is not None]
    if not known:
        return None
    told = dict(texts)
    title = f"{capital(headline.name)} of {number_of(len(rows), 'variant')}: {told[known[0].name]} with {known[0].name}"
    if len(known) > 1:
        title += f", {told[known[-1].name]} with {known[-1].name}"
    chart = Intervals(title, headline.unit, tuple(rows))
    columns = (Column("Variant", is_number=False), Column(f"{capital(headline.name)}, 95 % interval"))
    alt = f"Means with 95 % intervals: {'; '.join(f'{name} {text}' for name, text in texts)}."
    caption = (
        "The failures are the same in all rows: what variants differ by is known better than these intervals suggest."
    )
    return Picture("comparison", chart, alt, caption, Grid(title, columns, texts))


def _differences(content: CompareDocument, headline: Shown) -> Picture | None:
    """Return how far each other variant is from the first, on the same failures."""
    first, rows, texts = content.first, [], []
    for name, variant in content.variants.items():
        found = variant.difference.get(headline.metric)
        if name == first or found is None:
            continue
        note = difference_note(found, content.replications)
        rows.append(Interval(name, headline.of(found.mean), headline.gaps(found.ci95), None, note))
        texts.append((name, headline.change(found), *_controlled(found, headline), note))
    if not rows:
        return None
    resolved = [row for row in rows if row.note == "resolved"]
    if len(resolved) == len(rows):
        title = f"Every difference from {first} in {headline.name} is resolved" if len(rows) > 1 else (
            f"{rows[0].name} against {first}: {texts[0][1]} of {headline.name}"
        )  # fmt: skip
    else:
        title = f"{len(resolved)} of {number_of(len(rows), 'difference')} from {first} in {headline.name} is resolved"
    chart = Intervals(title, headline.step, tuple(rows), (0.0, first))
    # Luck can be taken out of all differences of a metric, or of none.
    widest = max(len(row) for row in texts)
    texts = [row if len(row) == widest else (*row[:2], "not known", row[2]) for row in texts]
    columns = (
        Column("Variant", is_number=False),
        Column("Difference, 95 % interval"),
        *([Column("With common luck taken out")] if widest > 3 else []),
        Column("How sure", is_number=False),
    )
    alt = f"Differences in {headline.name} from {first}: {'; '.join(f'{row[0]} {row[1]}, {row[-1]}' for row in texts)}."
    caption = f"Differences to {first} within the same replications. Resolved: the 95 % interval leaves out zero."
    return Picture("comparison-differences", chart, alt, caption, Grid(title, columns, texts))


def _controlled(found: DifferenceFound, headline: Shown) -> tuple[str, ...]:
    """Return a difference with the luck taken out that both variants had; nothing where that is not known."""
    return () if found.controlled is None else (headline.change(found.controlled),)


def _behind_of_comparison(content: CompareDocument, headline: Shown) -> Picture | None:
    """Return how far each variant is behind the best, by intervals that hold together."""
    ranking = content.ranking
    if ranking is None:
        return None
    rows, texts, ahead = [], [], ranking.may_be_best
    for name, found in ranking.behind.items():
        note = ("may be the best" if len(ahead) > 1 else "the best") if name in ahead else "behind"
        rows.append(Interval(name, headline.of(found.mean), headline.gaps(found.ci95), None, note))
        texts.append((name, headline.distance(found.mean, found.ci95), note))
    title = (
        f"{ahead[0]} is ahead of all others, with 95 % confidence"
        if len(ahead) == 1
        else f"{listed(ahead)} may be the best"
    )
    needed = ranking.replications_to_resolve
    more = "" if needed is None else f" About {needed:,} replications would tell."
    chart = Intervals(title, headline.step, tuple(rows), (0.0, "the best"))
    columns = (
        Column("Variant", is_number=False),
        Column("Behind the best, 95 % together"),
        Column("How sure", is_number=False),
    )  # fmt: skip
    alt = f"Behind the best in {headline.name}: {'; '.join(f'{row[0]} {row[1]}, {row[2]}' for row in texts)}."
    caption = f"These intervals hold together with 95 %, whichever variant is truly the best.{more}"
    return Picture("comparison-behind", chart, alt, caption, Grid(title, columns, texts))


def _metrics(content: CompareDocument) -> Grid:
    """Return all metrics that the variants have, side by side."""
    variants = content.variants
    names = [name for name in METRICS if not name.startswith(TIME_SHARE)]
    names = [name for name in names if any(_mean(variant, name) is not None for variant in variants.values())]
    names.remove("effective_mfu") if "effective_mfu" in names else None
    rows = [tuple(_row(name, content)) for name in names]
    columns = (Column("Metric", is_number=False), *(Column(name) for name in variants))
    note = (
        "The mean of each metric with its 95 % interval; behind the semicolon the difference to the first variant, "
        "where it is resolved."
    )
    return Grid("All metrics of all variants", columns, rows, note=note)


def _row(metric: str, content: CompareDocument) -> Iterator[str]:
    """Yield a metric of every variant, with its difference to the first where that is resolved."""
    variants = content.variants.values()
    told = shown(metric, [_mean(variant, metric) for variant in variants], _currency(content))
    better = "lower is better" if lower_is_better(metric) else ""
    yield f"{capital(told.name)}{f' ({better})' if better else ''}"
    for variant in variants:
        text = told.told(variant.metrics.get(metric)) or "not known"
        found = variant.difference.get(metric)
        # A difference is told that is resolved, and large enough for anybody to ask for it.
        least = _SMALLEST_COMPARISON * abs(_mean(variant, metric) or 0.0)
        is_told = found is not None and found.resolved and abs(found.mean) > least
        yield text + (f"; {told.change(found)}" if is_told else "")


def _mean(variant: VariantFound, metric: str) -> float | None:
    found = variant.metrics.get(metric)
    return None if found is None else found.mean


# ----------------------------------------
# From one scenario to another, bucket by bucket: what changed, and what that was worth.

_HOURS_OF_A_YEAR = YEAR / HOUR


def bridge_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    after, before = report_data.focus, report_data.against
    if before is None or after is None:
        return None
    count = min(before.replications, after.replications)
    found = bridge_of(before.ensemble.results[:count], after.ensemble.results[:count])
    if found is None:
        return None
    names = names_of(report_data, before, after)
    hours = _hours_a_year(before, after)
    whole = _documented(report_data, before.name, after.name)
    speeds = _speeds(before, after, count)
    title = title_of(found, (shortly(report_data, names[0]), names[1]), _place(report_data), whole, speeds)
    if not found.steps:
        alike = f"ETTR is {PERCENT.plain(found.after)} with both, and every bucket has the same share."
        return Section("bridge", title, (alike,), (), tuple(_notes_of_bridge(report_data, before, after, count)))
    text = [_lead(found, names, hours, count)]
    if whole is not None and count < before.wanted:
        text.append(
            f"Over all {before.wanted:,} replications it is {PERCENT.change(whole.mean, _ends(whole))}, which is what "
            "decides."
        )
    if hours is None:
        text.append(
            "The jobs of the two are not of the same size, so the change is told in points and not in GPU-hours."
        )
    if speeds is not None:
        text.append(
            "This is about time alone. While they train, the two do not use their GPUs equally well: "
            f"{PERCENT.plain(speeds[0])} of the peak with {names[0]}, {PERCENT.plain(speeds[1])} with {names[1]}."
        )
    changes = tuple(Change(step.name, 100 * step.gain, _points_of_bridge(step.found)) for step in found.drawn)
    chart = Waterfall(title, "%", (names[0], 100 * found.before), changes, (names[1], 100 * found.after))
    table = _table(found, names, hours)
    told = "; ".join(f"{step.name} {PERCENT.change(step.gain)}" for step in found.steps[:6])
    alt = f"From {PERCENT.plain(found.before)} of {names[0]} to {PERCENT.plain(found.after)} of {names[1]}: {told}."
    caption = (
        "ETTR is the share of the requested GPU-time that became training. A loss that falls is a gain, in points."
    )
    picture = Picture("bridge", chart, alt, caption, table)
    return Section("bridge", title, tuple(text), (picture,), tuple(_notes_of_bridge(report_data, before, after, count)))


def _hours_a_year(before: Focus, after: Focus) -> float | None:
    """Return the GPU-hours that the jobs request in a year; ``None`` if those of the two are not of one size."""
    sizes = [sorted(job.gpus for job in focus.prepared.jobs) for focus in (before, after)]
    return sum(sizes[0]) * _HOURS_OF_A_YEAR if sizes[0] == sizes[1] else None


def _documented(report_data: ReportData, before: str, after: str) -> Difference | None:
    """Return the difference in ETTR over all replications that a comparison has; ``None`` where none is known."""
    if report_data.kind != "compare":
        return None
    first, variants = report_data.comparison.first, report_data.comparison.variants
    found = variants[after if before == first else before].difference.get("ettr")
    if found is None or first not in (before, after):
        return None
    mean, (low, high) = found.mean, found.ci95
    if after == first:
        mean, low, high = -mean, -high, -low
    return Difference(mean, (low, high), found.resolved, found.replications_to_resolve)


def _place(report_data: ReportData) -> str:
    """Return what both have in common of what was chosen, as it stands in a title; empty without any."""
    content = report_data.sweep
    same = in_common(content) if content is not None and report_data.kind == "sweep" else ""
    return f" (both: {same})" if same else ""


def _speeds(before: Focus, after: Focus, count: int) -> tuple[float, float] | None:
    """Return the program goodput of both, if the healthy speeds differ: then ETTR is not the whole change."""
    means = []
    for focus in (before, after):
        rows: list[Any] = [ratios(focus.prepared, result) for result in focus.ensemble.results[:count]]
        if not all("program_goodput" in row for row in rows):
            return None
        base = sum(row["program_goodput"].base for row in rows)
        means.append(sum(row["program_goodput"].amount for row in rows) / base if base else 0.0)
    first, second = means
    return (first, second) if min(means) > 0 and abs(first - second) > _SMALLEST * first else None


def title_of(
    found: Bridge,
    names: tuple[str, str],
    place: str,
    documented: Difference | None,
    speeds: tuple[float, float] | None,
) -> str:
    """Return what the bridge says; what all replications tell has the last word on whether there is a difference."""
    before, after = names
    if not found.steps:
        return f"Time is spent alike with {after} and with {before}"
    whole = documented or found.whole
    gain = found.after - found.before if documented is None else documented.mean
    if speeds is not None and _is_mostly_speed(found, speeds):
        return (
            f"Time is not what {after} and {before} differ in most{place}: ETTR is {PERCENT.plain(found.after)} and "
            f"{PERCENT.plain(found.before)}, but training uses {PERCENT.plain(speeds[1])} and "
            f"{PERCENT.plain(speeds[0])} of the peak"
        )
    ends = None if whole is None else _ends(whole)
    if whole is not None and not whole.resolved:
        told = PERCENT.change(gain, ends)
        return f"ETTR with {after} and with {before} cannot be told apart{place}: {told} of ETTR"
    way = "higher" if gain >= 0 else "lower"
    told = f"With {after} instead of {before}, ETTR is {PERCENT.distance(gain, ends)} {way}{place}"
    return f"{told}, {_mainly(found.steps, gain)}"


def _is_mostly_speed(found: Bridge, speeds: tuple[float, float]) -> bool:
    """Return whether the healthy speed changes by a larger factor than the time that is spent training."""
    if min(found.before, found.after) <= 0:
        return False
    return abs(math.log(speeds[1] / speeds[0])) > abs(math.log(found.after / found.before))


def _mainly(steps: Sequence[Step], gain: float) -> str:
    """Return what makes most of a change: mostly is more than half of all steps in its direction."""
    sign = 1.0 if gain >= 0 else -1.0
    main = max(steps, key=lambda step: sign * step.gain)
    total = sum(max(sign * step.gain, 0.0) for step in steps)
    how_much = "mostly by" if 2 * sign * main.gain > total else "the largest part by"
    return f"{how_much} {'less' if main.gain >= 0 else 'more'} {BUCKETS[main.bucket].noun or main.name}"


def _lead(found: Bridge, names: tuple[str, str], hours: float | None, count: int) -> str:
    """Return the change in a sentence, in points and in GPU-hours a year."""
    gain, whole = found.after - found.before, found.whole
    ends = None if whole is None else _ends(whole)
    told = f"{PERCENT.change(gain, ends)} of ETTR"
    text = (
        f"ETTR goes from {PERCENT.plain(found.before)} with {names[0]} to {PERCENT.plain(found.after)} with "
        f"{names[1]}: {told}"
    )
    if hours is not None:
        ends = None if ends is None else (ends[0] * hours, ends[1] * hours)
        text += f", which is {hours_of(gain * hours, ends)} of training in a year of requested GPU-time"
    sure = (
        ""
        if whole is None or whole.resolved or not found.steps
        else f"; with {count} replications this is not resolved"
    )
    return f"{text}{sure}."


def _table(found: Bridge, names: tuple[str, str], hours: float | None) -> Grid:
    """Return the bridge in numbers."""
    rows = []
    for step in found.steps:
        ends = None if step.found is None else _ends(step.found)
        row = [capital(step.name), PERCENT.plain(step.before), PERCENT.plain(step.after)]
        row += [PERCENT.change(step.gain, ends)]
        if hours is not None:
            row.append(hours_of(step.gain * hours, None if ends is None else (ends[0] * hours, ends[1] * hours)))
        rows.append([*row, BUCKETS[step.bucket].gloss if step.bucket in BUCKETS else ""])
    whole = None if found.whole is None else _ends(found.whole)
    gain = found.after - found.before
    total = ["ETTR", PERCENT.plain(found.before), PERCENT.plain(found.after), PERCENT.change(gain, whole)]
    if hours is not None:
        total.append(hours_of(gain * hours, None if whole is None else (whole[0] * hours, whole[1] * hours)))
    rows.append([*total, "the share of the requested GPU-time that became training"])
    columns = [Column("Bucket", is_number=False), Column(names[0]), Column(names[1]), Column("Gain, 95 % interval")]
    columns += [Column("Gain in a year")] if hours is not None else []
    columns.append(Column("What it is", is_number=False))
    note = "Shares of the requested GPU-time. The gains of all buckets add up to that of ETTR."
    return Grid(f"From {names[0]} to {names[1]}", columns, rows, note=note)


def _notes_of_bridge(report_data: ReportData, before: Focus, after: Focus, count: int) -> list[str]:
    """Return what to know of the numbers."""
    notes = [
        f"Both were played again, {number_of(count, 'replication')} of each with the same failures; intervals are 95 % "
        "of the paired differences."
    ]
    if max(before.wanted, after.wanted) > count:
        notes.append(
            f"The results have {max(before.wanted, after.wanted):,} replications: their means may differ a little."
        )
    content = report_data.sweep
    if content is not None and report_data.kind == "sweep" and (same := in_common(content)):
        notes.append(f"Both have {same}.")
    if content is not None and any(axis.unknown for axis in content.axes.values()):
        notes.append("Unknown inputs are at their central values.")
    return notes


def _ends(found: Difference) -> tuple[float, float] | None:
    """Return an interval within what is possible; ``None`` without width: all replications differ by as much."""
    low, high = found.ci95
    return (max(low, -1.0), min(high, 1.0)) if low < high else None


def _points_of_bridge(found: Difference | None) -> tuple[float, float] | None:
    """Return an interval in points."""
    ends = None if found is None else _ends(found)
    return None if ends is None else (100 * ends[0], 100 * ends[1])
