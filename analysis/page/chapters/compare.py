"""A comparison: which variant is best, by how much, how certain that is, and which buckets of time change."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    GPU_YEARS,
    PERCENT,
    NumberFormat,
    capital,
    cell_forms,
    ends_of,
    hours_of,
    interval_text,
    label_text,
    listed,
    money_form,
    number_of,
    people_form,
    percent_text,
    phrases,
    points_form,
    shown,
    text_or_dash,
)
from ettrick.analysis.contest.compare import by_value
from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.metrics import BUCKETS, METRICS, TIME_SHARE, bucket_label, lower_is_better, rows_of
from ettrick.analysis.page.account import requested_share
from ettrick.analysis.page.cells import MOVED, axes_of, by_controls, gap_bar, mean_of, moved, summary_of
from ettrick.analysis.page.charts.data import GAP95, Bar, Bars, Intervals
from ettrick.analysis.page.first_screen import first_screen, more_runs, not_covered, stated, variability
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import bucket_words, metric_words
from ettrick.analysis.page.model import Column, Figure, Section, grid, joined, plain, table_of
from ettrick.analysis.page.sourced import COMPARE, SourceDocument, line, number, span, worded
from ettrick.analysis.ratios import ratios, time_shares
from ettrick.analysis.statistics.differences import MANY, difference, difference_of
from ettrick.analysis.statistics.intervals import unseen
from ettrick.sim import JOB_BUCKETS, Ratio
from ettrick.sim.units import HOUR, YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from ettrick.analysis.amounts import MetricFormat
    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.page.sourced import SourcedEstimate, SourcedNumber
    from ettrick.analysis.parts import DifferenceSummary
    from ettrick.analysis.results.models import CompareDocument, RankingSummary, Shortfall
    from ettrick.sim import Result

# ----------------------------------------
# The first screen.

WITH_SPEED = ("goodput", "effective_mfu")  # metrics in which useful time counts by the speed of a step
_LEAST_CHANGE = 5e-4  # a change of shares that is worth a word
_MOST_NAMES = 4


@dataclass(frozen=True)
class _Contest:
    """A comparison, how its headline metric is written, and what each variant is called."""

    places: SourceDocument
    document: CompareDocument
    labels: dict[str, str]
    currency: str
    shown: MetricFormat  # in pictures and tables
    form: NumberFormat  # in sentences

    @classmethod
    def of(cls, document: CompareDocument) -> Self:
        variants = document.variants.values()
        currency = next((variant.cost.currency for variant in variants if variant.cost), "")
        means = [mean_of(variant, document.headline) for variant in variants]
        form = people_form(document.headline, means, currency)
        names, metric = variant_labels(list(document.variants)), shown(document.headline, means, currency)
        return cls(SourceDocument(COMPARE, document), document, names, currency, metric, form)

    @property
    def metric(self) -> str:
        return self.document.headline

    @property
    def first(self) -> str:
        return self.document.first

    @property
    def rival(self) -> str:
        """The best variant other than the first one."""
        return next(name for name in (*self.document.order, *self.document.variants) if name != self.first)

    @property
    def most(self) -> str:
        """The direction of the best: of two variants, the higher or lower one."""
        return f"{'low' if lower_is_better(self.metric) else 'high'}{'er' if len(self.labels) == 2 else 'est'}"

    @property
    def way(self) -> str:
        """The direction in which the best is ahead of another."""
        return "less" if lower_is_better(self.metric) else "more"

    def difference(self, name: str, metric: str = "") -> SourcedEstimate | None:
        return self.places.estimate("variants", name, "difference", metric or self.metric, interval="ci95")

    def is_resolved(self, name: str, metric: str = "") -> bool:
        """Return whether this is more than chance; a difference that all runs share counts as well."""
        change = self.document.variants[name].difference.get(metric or self.metric)
        return change is not None and change.resolved

    def amount(self, size: SourcedEstimate, step: NumberFormat | None = None) -> Words:
        """Return a difference as a range, or as what it is in every run; of another metric as differences of it are."""
        return span(size, step or points_form(self.form))

    def gpus(self, best: str) -> SourcedNumber | None:
        """Return the GPUs of the one job, where it is as large in both variants."""
        jobs = [list(self.document.variants[name].per_job) for name in (self.first, best)]
        if any(len(names) != 1 for names in jobs):
            return None
        gpus, gpus_of_best = (
            self.places.at("variants", name, "per_job", names[0], "gpus")
            for name, names in zip((self.first, best), jobs, strict=True)
        )
        return gpus if gpus is not None and gpus_of_best is not None and gpus.value == gpus_of_best.value else None


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: which variant is best, and by how much."""
    contest = _Contest.of(report_data.comparison)
    document, labels, variants = contest.document, contest.labels, contest.document.variants.values()
    names = list(labels.values())
    notes = [f"without {name}, which cannot run: {reason}" for name, reason in document.cannot_run.items()]
    notes += _of_variants(contest)
    warnings = [warning for variant in variants for warning in variant.warnings]
    assumptions = [assumption for variant in variants for assumption in variant.assumptions]
    return first_screen(
        f"Which is better: {', '.join(names[:-1])} or {names[-1]}?" if names[1:] else f"How good is {names[0]}?",
        _answer(contest),
        (_doubt(contest, report_data.focus),),
        _glance(contest) if document.order[1:] else None,
        _drivers(contest) if document.order[1:] else (),
        not_covered(notes, warnings, assumptions),
    )


def _answer(contest: _Contest) -> Words:
    document, labels = contest.document, contest.labels
    if len(labels) == 1:
        return (f"Only {next(iter(labels.values()))} can run, so that there is nothing to compare it with.",)
    if not document.order:
        return (f"Which is better is not known: {document.unranked_because}.",)
    if document.ranking is not None and len(document.ranking.may_be_best) > 1:
        return _several(contest, document.ranking)
    change = contest.difference(contest.rival)
    if change is None:
        pair = f"{labels[contest.rival]} differs from {labels[contest.first]}"
        return (f"By how much {pair} is not known: one of them has no {metric_words(contest.metric)}.",)
    if document.ranking is None and not contest.is_resolved(contest.rival):
        return _unresolved(contest, contest.rival, change)
    return (*_leads(contest), ".")


def _leads(contest: _Contest, *, briefly: bool = False) -> Words:
    """Return which variant is best in the headline metric, by how much against the first, and against the next."""
    best, labels = contest.document.order[0], contest.labels
    start = f"{labels[best]} has the {contest.most} {metric_words(contest.metric).removeprefix('the ')}: "
    behind = [] if best == contest.first else [(contest.first, contest.difference(best))]
    if contest.document.ranking is not None:
        second = contest.document.order[1]
        gap = contest.places.estimate("ranking", "behind", second, interval="ci95")
        behind += [(second, gap)] if second != contest.first else []
    elif best == contest.first:
        behind = [(contest.rival, contest.difference(contest.rival))]
    parts = [line(*contest.amount(size.changed(abs)), f" {contest.way} than {labels[name]}")
             for name, size in behind if size is not None]  # fmt: skip
    return line(start, joined(parts[:1] if briefly else parts, " and ")) if parts else (start.removesuffix(": "),)


def _several(contest: _Contest, ranking: RankingSummary) -> Words:
    labels = [contest.labels[name] for name in ranking.may_be_best]
    names = f"{', '.join(labels[:-1])} or {labels[-1]}"
    if all(_is_equal(ranking.behind[name]) for name in ranking.may_be_best):
        ahead = ", and better than all others" if len(labels) < len(contest.labels) else ""
        return (f"{listed(labels)} are equally good{ahead}: they give the same in every replication.",)
    needed = contest.places.at("ranking", "replications_to_resolve")
    if len(labels) > _MOST_NAMES:
        names = f"{', '.join(labels[: _MOST_NAMES - 1])} or one of the others"
    what = metric_words(contest.metric).removeprefix("the ")
    return (f"Which has the {contest.most} {what} is too close to call: {names} (", *more_runs(needed), ").")


def _unresolved(contest: _Contest, rival: str, change: SourcedEstimate) -> Words:
    pair, runs = f"{contest.labels[rival]} and {contest.labels[contest.first]}", contest.places.stated("replications")
    if change.low is None or change.high is None:
        return (f"{pair} are equally good: they give the same in all ", number(runs, COUNT), " replications.")
    size, what = line("they differ by ", *contest.amount(change)), metric_words(contest.metric)
    if Ties().are_equal(
        contest.metric, mean_of(contest.document.variants[contest.first], contest.metric), change.interval
    ):
        return line(f"{pair} are equal in {what}: ", size, ".")
    needed = contest.places.at("variants", rival, "difference", contest.metric, "replications_to_resolve")
    return line(f"{pair} are too close to call in {what}: ", size, " (", more_runs(needed), ").")


def _useful_time(contest: _Contest, best: str) -> SourcedEstimate | None:
    """Return the gain in useful time [-]; ``None`` where only this does not make the variant better.

    That is where sizes of jobs differ, where a step has another speed, or where the gain is in something else.
    """
    gain = contest.difference(best, "ettr")
    if contest.metric not in (*WITH_SPEED, "ettr") or contest.gpus(best) is None or gain is None:
        return None
    speed = contest.document.variants[best].difference.get("program_goodput")
    if contest.metric in WITH_SPEED and (speed is None or speed.mean != 0):
        return None
    return gain if contest.is_resolved(best, "ettr") and gain.mean.value > 0 else None


def _worth(contest: _Contest, best: str) -> Words:
    """Return the gain over the first variant in GPU-years of kept training, and in money where prices are stated."""
    gain, gpus = _useful_time(contest, best), contest.gpus(best)
    if gain is None or gpus is None:
        return ()
    years = contest.amount(gain.changed(lambda share: share * gpus), GPU_YEARS)
    start = f"{contest.labels[best]} instead of {contest.labels[contest.first]} yields "
    more = line(start, *years, " a year more of kept training on ", number(gpus, COUNT), " GPUs")
    return line(more, *_in_money(contest, best, gain), ".")


def _in_money(contest: _Contest, best: str, gain: SourcedEstimate) -> Words:
    """Return what as much GPU-time costs in a year at the price of all that is owned now; nothing without prices."""
    at, job = ("variants", contest.first), next(iter(contest.document.variants[contest.first].per_job))
    cost, requested, of_requested, of_owned = (
        contest.places.at(*at, *keys)
        for keys in (("cost", "total"), ("per_job", job, "requested_gpu_s"), ("time_shares", "productive"),
                     ("cluster_shares", "productive"))
    )  # fmt: skip
    gpus = contest.gpus(best)
    if gpus is None or cost is None or requested is None or of_requested is None or of_owned is None:
        return ()
    if cost.value <= 0 or requested.value * of_requested.value <= 0:
        return ()
    owned = requested / requested_share(of_requested, of_owned)
    amount = gain.changed(lambda share: share * gpus * YEAR * (cost / owned))
    form = money_form(amount.mean.value, contest.currency)
    worth = number(amount.mean, form, amount.interval)
    return (", worth ", worth, " a year at the current price of a GPU-hour")


def _doubt(contest: _Contest, focus: ReplayedScenario | None) -> Words:
    runs, document = contest.places.stated("replications"), contest.document
    is_priced = any(variant.cost is not None for variant in contest.document.variants.values())
    parts: list[Words] = [(stated(None if focus is None else focus.scenario, priced=is_priced),)]
    if len(contest.labels) == 1:
        return parts[0]
    changes = [contest.difference(name) for name in contest.labels if name != contest.first]
    ranges = "."
    if any(change is not None and change.interval is not None for change in changes):
        ranges = "; the ranges are 95 % confidence intervals."
    noise = f" replications, so the noise that they share cancels{ranges}"
    parts.append(("All variants face the same failures in the same ", number(runs, COUNT), noise))
    if document.precise is False:
        parts.append(("The requested precision was not reached.",))
    if document.order and document.unranked_because:
        parts.append((f"{capital(document.unranked_because)}.",))
    if document.at_equal is not None:
        kind = "GPUs" if document.at_equal.kind == "gpus" else document.at_equal.kind
        parts.append((f"They are compared at equal {kind}; no cluster was made larger or smaller for that.",))
    return joined(parts)


def _drivers(contest: _Contest) -> Iterator[Words]:
    best, labels, places = contest.document.order[0], contest.labels, contest.places
    rival = contest.document.order[1] if best == contest.first else contest.first
    yield _worth(contest, best)
    yield _where_time_is_found(contest, rival, best)
    before, after = (places.estimate("variants", name, "metrics", "ettr") for name in (rival, best))
    if before is not None and after is not None and contest.metric != "ettr" and _useful_time(contest, best) is None:
        first, second = worded(after, PERCENT), worded(before, PERCENT)
        shares = (*first, f" with {labels[best]}, ", *second, f" with {labels[rival]}.")
        yield ("The share of the time that becomes training (ETTR) is ", *shares)
    yield _interruptions(contest, best, rival)
    yield variability(places, "variants", best, "metrics", contest.metric, form=contest.form)


def _interruptions(contest: _Contest, best: str, rival: str) -> Words:
    means = [contest.places.at("variants", name, "metrics", "interruptions", "mean") for name in (best, rival)]
    ours, theirs = (None if mean is None else number(mean, COUNT) for mean in means)
    if ours is None or theirs is None or ours.text == theirs.text:
        return ()
    return ("Failures interrupt training ", ours, f" times in a run with {contest.labels[best]}, ", theirs,
            f" times with {contest.labels[rival]}.")  # fmt: skip


def _where_time_is_found(contest: _Contest, rival: str, best: str) -> Words:
    falls = []
    for bucket in contest.document.variants[best].time_shares:
        before, after = (contest.places.at("variants", name, "time_shares", bucket) for name in (rival, best))
        if before is None or after is None or bucket == "productive" or before.value - after.value < _LEAST_CHANGE:
            continue
        words = (f"{bucket_words(bucket)} falls from ", number(before, PERCENT), " to ", number(after, PERCENT))
        falls.append((before.value - after.value, words))
    parts = [words for _, words in sorted(falls, key=lambda entry: -entry[0])[:2]]
    start = f"With {contest.labels[best]} instead of {contest.labels[rival]}, "
    return (start, *joined(parts, ", "), " of the time.") if parts else ()


def _glance(contest: _Contest) -> Figure | None:
    document, first = contest.document, contest.labels[contest.first]
    ranking = document.ranking
    sure = contest.is_resolved(contest.rival) if ranking is None else len(ranking.may_be_best) == 1
    title = plain(_leads(contest, briefly=True)) if sure else "Which variant is best is too close to call"
    metric, rows = contest.shown, []
    for name in document.order:
        change = contest.document.variants[name].difference.get(metric.metric)
        if change is not None and name != contest.first:
            note = "" if change.resolved else difference_note(change, document.replications)
            rows.append(gap_bar(contest.labels[name], metric, change, note))
    unit = f"{metric.step} of {metric_words(contest.metric)}"
    chart = Intervals(title, unit, tuple(rows), (0.0, f"as {first}"), GAP95)
    alt = f"Differences to {first} with their 95 % intervals. {title}."
    caption = "All variants met the same failures. An interval without zero is a clear difference."
    return Figure("at-a-glance", chart, alt, caption) if rows else None


# ----------------------------------------
# What was compared: tables for the terminal and for pages, and pictures.

_MOST_BUCKETS = 7
_LEAST_SHARE = 5e-5  # a share that rounds to 0.01 %; what is less in all variants is not shown

_SMALLEST_DIFFERENCE = 1e-6  # part of a metric below which a difference is not in a table


def format_comparison(document: CompareDocument, *, width: int | None = None) -> str:
    """Return the document of a comparison as text, `width` columns wide (the terminal's)."""
    return terminal.write([_compared(_Contest.of(document))], width=width)


def section(report_data: ReportData) -> Section | None:
    """Return what was compared, with intervals: variants, or candidates of a sweep; ``None`` without either."""
    if report_data.kind != "compare":
        return None
    contest = _Contest.of(report_data.comparison)
    compared, ranking = _compared(contest), contest.document.ranking
    pictures = () if ranking is None else (_behind(contest, ranking),)
    # The first table has what the picture and the table of all metrics show.
    items = (*pictures, *compared.items[1:], _metrics(contest))
    return replace(compared, items=items)


def _size_lines(document: CompareDocument) -> Sequence[str]:
    """Return at what amount variants are compared; that jobs differ in size, where they are not compared per GPU."""
    if document.at_equal is not None:
        return document.at_equal.lines
    if any(re.fullmatch(r"jobs\.\w+\.gpus", key) for key in document.also_differ):
        return ("the jobs have different numbers of GPUs: add --at-equal gpus to compare tokens per GPU",)
    return ()


def _compared(contest: _Contest) -> Section:
    """Return which variant is best and by how much, where the time went, and in which keys the variants differ."""
    document = contest.document
    texts = [
        *_ratios(contest),
        f"{number_of(document.replications, 'replication')} of each variant, seed {document.seed}.",
    ]
    if document.unranked_because is not None:
        texts.append(f"Not ranked by goodput: {document.unranked_because}.")
    texts += [f"{capital(line)}." for line in _size_lines(document)]
    if document.differs:
        texts.append(f"{capital(listed(document.differs))} differ from variant to variant.")
    head, names = _column(document)
    if document.cannot_run:
        left_out = f"Left out: {number_of(len(document.cannot_run), 'variant')} that cannot run"
        if document.instead_of is not None:
            first, missing = names[document.first], names[document.instead_of]
            left_out += f"; the others are compared with {first}, since {missing} is one of them"
        texts.append(f"{left_out}.")
    ranks = {name: str(place) for place, name in enumerate(document.order, start=1)}
    title = f"{METRICS[document.headline].title} on the same failures"
    items = [_beside_first(contest, head, names, document.headline, rows_of("variants"), title, ranks)]
    if not any(variant.fleet.is_empty for variant in document.variants.values()):
        # The same jobs, submitted at the same times.
        waits = "wait_first", rows_of("variants of streams"), "Waits of the same jobs"
        items.append(_beside_first(contest, head, names, *waits, {}))
    items.append(_where(document, head, names))
    keys = _other_keys(document, names)
    if keys:
        items.append(grid("Other keys in which the variants differ", ("key", "values of the variants"), keys, (0, 1)))
    if document.cannot_run:
        reasons = [(names[name], f"cannot run: {reason}") for name, reason in document.cannot_run.items()]
        items.append(grid("Variants that cannot run", (head, "reason"), reasons, (0, 1)))
    return Section("comparison", _title(contest), tuple(texts), tuple(items), tuple(_notes(contest)))


_MOST_RATIOS = 3
_TIMES = NumberFormat("")


def _ratios(contest: _Contest) -> Iterator[str]:
    """Yield how many times the headline of the next best variants, and of the first, the best one has."""
    document, labels = contest.document, contest.labels
    rivals = [name for name in document.order[1:] if name in document.times]
    rivals = [*rivals[:_MOST_RATIOS], *(name for name in rivals[_MOST_RATIOS:] if name == document.first)]
    what = METRICS[document.headline].label
    texts = [
        f"{_TIMES.margin(document.times[name].mean, ends_of(document.times[name].ci95))} times "
        f"{f'the {what}' if not place else 'that'} of {labels[name]}"
        for place, name in enumerate(rivals)
    ]
    if texts:
        yield f"{labels[document.order[0]]} has {listed(texts)}."


def _column(document: CompareDocument) -> tuple[str, dict[str, str]]:
    """Return the head of the column of variants, and what each is called there.

    The head is the path that all variants vary, if they have nothing else in common and in their names.
    """
    names = [*document.variants, *document.cannot_run]
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_alone = equals and not any(re.search(r", [\w.]+=", name) for name in names)
    is_alone = is_alone and all(name.startswith(start) for name in names)
    labels = {name: name.removeprefix(start) if is_alone else name for name in names}
    return path if is_alone else "variant", labels


def _beside_first(
    contest: _Contest, head: str, names: Mapping[str, str], metric: str, other_metrics: Sequence[str], title: str,
    ranks: Mapping[str, str],
) -> TableBlock:  # fmt: skip
    """Return a metric of each variant, how far it is from the first's, and the means of others that a table has."""
    variants, currency = contest.document.variants, contest.currency
    forms, changes = cell_forms(metric, currency), {name: row.difference.get(metric) for name, row in variants.items()}

    def of_others(text: Callable[[DifferenceSummary | None], str]) -> Callable[[str], str]:
        return lambda name: "" if name == contest.first else text(changes[name])

    def mean(metric_name: str, form: Callable[[float], str]) -> Column[str]:
        return Column(METRICS[metric_name].short, lambda name: text_or_dash(mean_of(variants[name], metric_name), form))

    beside = [name for name in other_metrics if name not in (metric, contest.metric)
              and all(name in variant.metrics for variant in variants.values())]  # fmt: skip
    columns: list[Column[str]] = [
        Column(head, lambda name: names[name]),
        Column("rank", lambda name: ranks.get(name, "-"), bool(ranks)),
        mean(metric, forms.value),
        Column("difference to the first", of_others(lambda row: text_or_dash(row.mean if row else None, forms.change))),
        Column("95 % interval", of_others(lambda change: interval_text(change, forms.change, "ci95"))),
        *(mean(name, cell_forms(name, currency).value) for name in beside),
    ]
    return table_of(title, list(variants), columns)


def _where(document: CompareDocument, head: str, names: Mapping[str, str]) -> TableBlock:
    """Return the largest shares of the requested GPU-time, of services alone of the whole cluster, productive first."""
    shares = {
        name: variant.cluster_shares if variant.time_shares["productive"] is None else variant.time_shares
        for name, variant in document.variants.items()
    }
    largest = {bucket: max(row[bucket] or 0.0 for row in shares.values()) for bucket in shares[document.first]}
    lost = sorted((name for name in largest if name != "productive"), key=lambda name: -largest[name])
    buckets = ["productive", *(name for name in lost if largest[name] >= _LEAST_SHARE)][: _MOST_BUCKETS + 1]
    rows = [
        [names[name], *(text_or_dash(row[bucket], percent_text) for bucket in buckets)] for name, row in shares.items()
    ]
    return grid("Where the GPU-time went", [head, *map(bucket_label, buckets)], rows)


def _other_keys(document: CompareDocument, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return keys in which the variants differ beyond what was varied; parameters of a varied choice in one line."""
    keys, lines = document.also_differ, {}
    for path in document.varied:
        place, _, tag = path.rpartition(".")
        inside = [key.removeprefix(f"{place}.") for key in keys if tag == "use" and key.startswith(f"{place}.")]
        if inside:
            lines[place] = f"{', '.join(inside)}: follow from {path}"
            keys = {key: values for key, values in keys.items() if not key.startswith(f"{place}.")}
    rest = {key: by_value({names[name]: value for name, value in values.items()}) for key, values in keys.items()}
    return list((lines | rest).items())


def _title(contest: _Contest) -> str:
    document, labels = contest.document, contest.labels
    if len(labels) > 1 and not document.order:
        return f"{number_of(len(labels), 'variant')}, not ranked"
    return plain(_answer(contest)).removesuffix(".")


def _is_equal(change: DifferenceSummary | Shortfall) -> bool:
    """Return whether a difference is none at all, in every replication."""
    return change.mean == 0 and _is_constant(change)


def _is_constant(change: DifferenceSummary | Shortfall) -> bool:
    """Return whether a difference is the same in every replication."""
    return change.ci95 is None or change.ci95[0] == change.ci95[1]


def _notes(contest: _Contest) -> Iterator[str]:
    yield from _on_stores(contest)
    document, metric, labels = contest.document, contest.shown, contest.labels
    ranking, first = document.ranking, labels[document.first]
    if ranking is not None and any(not _is_equal(ranking.behind[name]) for name in ranking.may_be_best[1:]):
        needed = ranking.replications_to_resolve
        more = 0 if needed is None else max(needed - document.replications, 1)
        runs = f"about {more:,} more replication{'s' * (more > 1)}" if more else f"more than {MANY:,} replications"
        yield f"to decide which of {listed([labels[name] for name in ranking.may_be_best])} is best takes {runs}"
    for name, variant in document.variants.items():
        change = variant.difference.get(document.headline)
        if change is not None and not change.resolved:
            yield f"{labels[name]} against {first}: {difference_note(change, document.replications)}"
            if (controlled := by_controls(change)) is not None:
                yield f"with control variates the difference is clear: {metric.change(controlled)}"
    yield from _of_variants(contest)
    yield "all variants face the same failures, so shared noise cancels"


def _on_stores(contest: _Contest) -> Iterator[str]:
    """Yield what the checkpoint stores of presets make of the differences."""
    document, metric, labels = contest.document, contest.shown, contest.labels
    first = labels[document.first] + (" without its own" if document.first in document.stores else "")
    for name, stores in document.stores.items():
        gain, rest = "-" if stores.gain is None else metric.change(stores.gain), ""
        if stores.rest is not None:
            rest = f"; without them the difference to {first} is {metric.change(stores.rest)}"
        yield f"{labels[name]}: the checkpoint stores of its preset make {gain}{rest}"


def _of_variants(contest: _Contest) -> Iterator[str]:
    """Yield the notes of variants; those that all have in common stand without their names."""
    noted: dict[str, list[str]] = {}
    for name, variant in contest.document.variants.items():
        for note in variant.notes:
            noted.setdefault(note, []).append(contest.labels[name])
    for note, who in noted.items():
        yield note if len(who) == len(contest.labels) else f"with {listed(who)}: {note}"


def difference_note(change: DifferenceSummary, replications: int) -> str:
    """Return how sure a difference is: clear, or how many replications would decide it."""
    if change.exact:
        return "exact: nothing is random"
    if change.resolved:
        return "clear"
    if _is_constant(change):
        how, most = "the same" if change.mean == 0 else "as much", percent_text(unseen(replications), 1)
        return f"{how} in every run; events in fewer than {most} of all runs may not have occurred"
    needed = change.replications_to_resolve
    count = f"about {needed:,} replications needed, not {replications}" if needed else f"more than {MANY:,} needed"
    return f"too close to call ({count})"


def _behind(contest: _Contest, ranking: RankingSummary) -> Figure:
    ahead, labels, metric, rows = ranking.may_be_best, contest.labels, contest.shown, []
    summaries = {name: summary_of(contest.document.variants[name], metric.metric) for name in ranking.behind}
    is_lowest = lower_is_better(metric.metric)
    best = (min if is_lowest else max)(summary.mean or 0.0 for summary in summaries.values())
    for name, shortfall in ranking.behind.items():
        note = ("too close to call" if len(ahead) > 1 else "the best") if name in ahead else ""
        summary = summaries[name]
        pale = moved(metric, summary.mean_ci95, best, is_lowest=is_lowest)
        rows.append(gap_bar(labels[name], metric, shortfall, f"(mean {metric.mean(summary)}) {note}".strip(), pale))
    title = f"{labels[ahead[0]]} is ahead of all others, with 95 % confidence"
    if len(ahead) > 1:
        title = f"{listed([labels[name] for name in ahead])} are too close to call"
    needed = ranking.replications_to_resolve
    caption = "These intervals hold jointly with 95 %, whichever variant is truly the best."
    caption += "" if needed is None else f" About {needed:,} replications are needed to decide."
    chart = Intervals(title, f"{metric.step} behind the best", tuple(rows), (0.0, "the best"), GAP95, MOVED)
    alt = f"Behind the best in {metric.name}: {'; '.join(f'{row.name} {row.note}' for row in rows)}."
    texts = [(labels[name], metric.distance(gap.mean, gap.ci95), row.note)
             for (name, gap), row in zip(ranking.behind.items(), rows, strict=True)]  # fmt: skip
    return Figure("comparison", chart, alt, caption, grid(title, ("variant", "behind the best", "note"), texts, (0, 2)))


def _metrics(contest: _Contest) -> TableBlock:
    variants, rows = contest.document.variants.values(), []
    for name in (name for name in METRICS if not name.startswith(TIME_SHARE) and name != "effective_mfu"):
        means = [mean_of(variant, name) for variant in variants]
        if all(mean is None for mean in means):
            continue
        metric = shown(name, means, contest.currency)
        row = [capital(metric.name) + (" (lower is better)" if lower_is_better(name) else "")]
        for variant, mean in zip(variants, means, strict=True):
            gap, least = variant.difference.get(name), _SMALLEST_DIFFERENCE * abs(mean or 0.0)
            is_shown = gap is not None and gap.resolved and abs(gap.mean) > least
            change = f"; {metric.change(gap)}" if is_shown else ""
            row.append((metric.worded(variant.metrics.get(name)) or "not known") + change)
        rows.append(row)
    note = (
        "The mean of each metric with its 95 % interval; after the semicolon the difference to the first variant, "
        "where it is clear."
    )
    return grid("All metrics of all variants", ["Metric", *contest.labels.values()], rows, note=note)


# Keys whose values are names of things that are known without the key.
_SPEAKING = ("accelerator", "precision", "preset", "recovery", "scheduler", "use")


def variant_labels(names: Sequence[str]) -> dict[str, str]:
    """Return what variants are called in sentences: without the path of the one setting that all of them vary.

    Only a choice among named things says what it is by itself; a number or ``true`` does not, so that the path stays.
    """
    path, equals, _ = names[0].partition("=")
    start = path + equals
    is_clear = path.rpartition(".")[2] in _SPEAKING
    is_clear = is_clear and all(re.fullmatch(rf"{re.escape(start)}[A-Za-z][^=]*", name) for name in names)
    return {name: name.removeprefix(start) if is_clear else name for name in names}


# ----------------------------------------
# From one scenario to another, bucket by bucket: what changed, and what that was worth.

_PRODUCTIVE = f"{TIME_SHARE}productive"
_SMALLEST = 1e-9  # change of a share that is rounding [-]
_SEEN = 0.01  # part of the largest step below which a step is put together with others


class BridgeStep(NamedTuple):
    """The contribution of a bucket to the change of ETTR."""

    bucket: str  # its key
    # before, after: its share of the requested GPU-time in either scenario [-]
    before: float
    after: float
    # By how much it is smaller in the second one, which is a gain; ``None`` from a single replication.
    difference: DifferenceSummary | None

    @property
    def name(self) -> str:
        """The name of the step."""
        return bucket_label(self.bucket)

    @property
    def gain(self) -> float:
        """The gain of ETTR by the step [-]."""
        return self.before - self.after


class Bridge(NamedTuple):
    """From one ETTR to another."""

    # before, after: ETTR of either scenario [-]
    before: float
    after: float
    steps: tuple[BridgeStep, ...]  # one for each bucket that changes, the largest gain first
    drawn: tuple[BridgeStep, ...]  # the same, with those that are too small to be seen put together
    whole: DifferenceSummary | None  # the difference of the two ETTR; ``None`` from a single replication

    @property
    def gain(self) -> float:
        """The change of ETTR [-]."""
        return self.after - self.before


def bridge_of(before: Sequence[Result], after: Sequence[Result]) -> Bridge | None:
    """Return how the shares of time lead from one scenario to another; ``None`` if a job never asked for anything.

    All buckets but ``productive`` are losses, and both scenarios' shares sum to one, so that what the losses fall by is
    what ETTR gains: ``sum(before - after) = ETTR(after) - ETTR(before)``. Before and after are the
    same replications in the same order, so that differences are paired.
    """
    rows = [[time_shares(result) for result in results] for results in (before, after)]
    if not all(sum(row[_PRODUCTIVE].base for row in of_scenario) for of_scenario in rows):
        return None
    every = [_step(rows, bucket, [f"{TIME_SHARE}{bucket}"]) for bucket in JOB_BUCKETS if bucket != "productive"]
    steps = sorted((step for step in every if abs(step.gain) > _SMALLEST), key=lambda step: -step.gain)
    whole = difference(*([row[_PRODUCTIVE] for row in of_scenario] for of_scenario in reversed(rows)))
    productive = _step(rows, "productive", [_PRODUCTIVE])
    return Bridge(productive.before, productive.after, tuple(steps), tuple(_drawn(rows, steps)), whole)


def _drawn(rows: Sequence[Sequence[Mapping[str, Ratio]]], steps: Sequence[BridgeStep]) -> Sequence[BridgeStep]:
    """Return the steps, with those that are too small to be seen put together."""
    largest = max((abs(step.gain) for step in steps), default=0.0)
    small = [step for step in steps if abs(step.gain) < _SEEN * largest]
    if len(small) < 2:
        return steps
    together = _step(rows, "others", [f"{TIME_SHARE}{step.bucket}" for step in small])
    return [*(step for step in steps if step not in small), together]


def _step(rows: Sequence[Sequence[Mapping[str, Ratio]]], bucket: str, names: Sequence[str]) -> BridgeStep:
    """Return the step of several buckets together, from the time shares of both scenarios by replication."""
    sums = [
        [Ratio(sum(row[name].amount for name in names), row[_PRODUCTIVE].base) for row in of_scenario]
        for of_scenario in rows
    ]
    before, after = (sum(row.amount for row in ratios) / sum(row.base for row in ratios) for ratios in sums)
    return BridgeStep(bucket, before, after, difference(sums[0], sums[1]))


def bridge_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there are no two scenarios to hold against each other."""
    after, before = report_data.focus, report_data.against
    if before is None or after is None:
        return None
    count = min(before.replications, after.replications)
    bridge = bridge_of(before.ensemble.results[:count], after.ensemble.results[:count])
    if bridge is None:
        return None
    first, second, short, same = names_apart(report_data, before, after)
    # What the jobs request in a year, if those of the two are of one size.
    ours, theirs = (sorted(job.gpus for job in focus.prepared.jobs) for focus in (after, before))
    hours = sum(ours) * YEAR / HOUR if ours == theirs else None
    whole = _documented(report_data, before.name, after.name)
    speeds = _speeds(before, after, count)
    place = f" (both: {same})" if same else ""
    title = title_of(bridge, (short, second), place, whole, speeds)
    notes = tuple(_on_both(report_data, count, max(before.wanted, after.wanted), same))
    if not bridge.steps:
        alike = f"ETTR is {PERCENT.plain(bridge.after)} with both, and every bucket has the same share."
        return Section("bridge", title, (alike,), (), notes)
    texts = tuple(_on_bridge(bridge, (first, second), whole, before.wanted, count, hours, speeds))
    bars = tuple(Bar(step.name, (100 * step.gain,), (_ends(step.difference, 100),)) for step in bridge.drawn)
    chart = Bars(title, "gain in percentage points of ETTR", ("gain",), bars, GAP95)
    steps = "; ".join(f"{step.name} {PERCENT.change(step.gain, _ends(step.difference))}" for step in bridge.steps[:6])
    alt = f"From {PERCENT.plain(bridge.before)} with {first} to {PERCENT.plain(bridge.after)} with {second}: {steps}."
    caption = "ETTR is the share of the requested GPU-time that became training; a loss that falls is a gain."
    picture = Figure("bridge", chart, alt, caption, _bridge_table(bridge, first, second, hours))
    return Section("bridge", title, texts, (picture,), notes)


def _on_both(report_data: ReportData, count: int, wanted: int, same: str) -> Iterator[str]:
    """Yield how both were simulated again, and what they have in common."""
    again = f"Both were simulated again, {number_of(count, 'replication')} of each with the same failures; intervals "
    yield f"{again}are 95 % of the paired differences."
    if wanted > count:
        yield f"The results have {wanted:,} replications: their means may differ a little."
    if same:
        yield f"Both have {same}."
    if report_data.sweep is not None and any(axis.unknown for axis in report_data.sweep.axes.values()):
        yield "Unknown inputs are at their central values."


def _on_bridge(
    bridge: Bridge, names: tuple[str, str], documented: DifferenceSummary | None, wanted: int, count: int,
    hours: float | None, speeds: tuple[float, float] | None,
) -> Iterator[str]:  # fmt: skip
    """Yield by how much ETTR changes, over the replications simulated again and over all of them."""
    first, second = names
    text = (
        f"ETTR goes from {PERCENT.plain(bridge.before)} with {first} to {PERCENT.plain(bridge.after)} with {second}: "
    )
    text += f"{PERCENT.change(bridge.gain, _ends(bridge.whole))} of ETTR"
    text += "" if hours is None else f", which is {_yearly(bridge.gain, bridge.whole, hours)} of training in a year"
    if bridge.whole is not None and not bridge.whole.resolved:
        text += f"; with {count} replications this is too close to call"
    yield f"{text}."
    if documented is not None and count < wanted:
        over_all = PERCENT.change(documented.mean, _ends(documented))
        yield f"Over all {wanted:,} replications it is {over_all}, which decides."
    if hours is None:
        yield "The two have jobs of different sizes, so the change is in points, not in GPU-hours."
    if speeds is not None:
        yield (
            "This compares only time. While they train, the two do not use their GPUs equally well: "
            f"{PERCENT.plain(speeds[0])} of the peak with {first}, {PERCENT.plain(speeds[1])} with {second}."
        )


def names_apart(
    report_data: ReportData, before: ReplayedScenario, after: ReplayedScenario
) -> tuple[str, str, str, str]:
    """Return what the two are called, the first as it stands behind the second, and what they have in common.

    Cells of a study are called by what distinguishes them: ``48 hot spares instead of 32``.
    """
    content = report_data.sweep if report_data.kind == "sweep" else None
    chosen = report_data.chosen
    if content is None or chosen is None or chosen[1] is None:
        names = list(report_data.comparison.variants) if report_data.kind == "compare" else [before.name, after.name]
        labels = variant_labels(names)
        return labels[before.name], labels[after.name], labels[before.name], ""
    theirs, ours = content.cells[chosen[1]].values, content.cells[chosen[0]].values
    apart = [name for name in ours if ours[name] != theirs[name]]
    first, second = (phrases(values, apart, content.axes) for values in (theirs, ours))
    short = first
    if len(apart) == 1:
        label = theirs[apart[0]]
        short = label_text(label) if label[:1].isdigit() else f"“{label_text(label)}”"
    same = [axis.name for axis in axes_of(content) if ours[axis.name] == theirs[axis.name]]
    return first, second, short, phrases(ours, same, content.axes)


def _documented(report_data: ReportData, before: str, after: str) -> DifferenceSummary | None:
    """Return the difference in ETTR over all replications that a comparison has; ``None`` where none is known."""
    if report_data.kind != "compare":
        return None
    first, variants = report_data.comparison.first, report_data.comparison.variants
    change = variants[after if before == first else before].difference.get("ettr")
    if change is None or first not in (before, after):
        return None
    mean, ends = change.mean, change.ci95
    if after == first:
        mean, ends = -mean, ends and (-ends[1], -ends[0])
    return difference_of(mean, ends, is_resolved=change.resolved, needed=change.replications_to_resolve)


def _speeds(before: ReplayedScenario, after: ReplayedScenario, count: int) -> tuple[float, float] | None:
    """Return the program goodput of both, if the healthy speeds differ: then ETTR is not the whole change."""
    means = []
    for focus in (before, after):
        rows = [ratios(focus.prepared, result) for result in focus.ensemble.results[:count]]
        if not all("program_goodput" in row for row in rows):
            return None
        base = sum(row["program_goodput"].base for row in rows)
        means.append(sum(row["program_goodput"].amount for row in rows) / base if base else 0.0)
    first, second = means
    return (first, second) if min(means) > 0 and abs(first - second) > _SMALLEST * first else None


def title_of(
    bridge: Bridge, names: tuple[str, str], place: str, documented: DifferenceSummary | None,
    speeds: tuple[float, float] | None,
) -> str:  # fmt: skip
    """Return what the bridge says; all replications together decide whether there is a difference."""
    before, after = names
    if not bridge.steps:
        return f"Time is spent in the same way with {after} and with {before}"
    whole = documented or bridge.whole
    gain, ends = bridge.gain if documented is None else documented.mean, _ends(whole)
    if (
        speeds is not None
        and min(bridge.before, bridge.after) > 0
        and abs(math.log(speeds[1] / speeds[0])) > abs(math.log(bridge.after / bridge.before))
    ):
        return (
            f"ETTR is not the main difference between {after} and {before}{place}: it is "
            f"{PERCENT.plain(bridge.after)} and {PERCENT.plain(bridge.before)}, but training uses "
            f"{PERCENT.plain(speeds[1])} and {PERCENT.plain(speeds[0])} of the peak"
        )
    if whole is not None and not whole.resolved:
        change = PERCENT.change(gain, ends)
        return f"ETTR with {after} and with {before} is too close to call{place}: {change} of ETTR"
    # Mostly is more than half of all steps in the direction of the change.
    sign = 1.0 if gain >= 0 else -1.0
    main = max(bridge.steps, key=lambda step: sign * step.gain)
    total = sum(max(sign * step.gain, 0.0) for step in bridge.steps)
    how_much = "mostly by" if 2 * sign * main.gain > total else "the largest part by"
    why = f"{how_much} {'less' if main.gain >= 0 else 'more'} {bucket_words(main.bucket)}"
    way = "higher" if gain >= 0 else "lower"
    return f"With {after} instead of {before}, ETTR is {PERCENT.distance(gain, ends)} {way}{place}, {why}"


def _bridge_table(bridge: Bridge, first: str, second: str, hours: float | None) -> TableBlock:
    rows: list[tuple[str, BridgeStep | Bridge, DifferenceSummary | None, str]] = [
        *((capital(step.name), step, step.difference, BUCKETS[step.bucket].gloss) for step in bridge.steps),
        ("ETTR", bridge, bridge.whole, "the share of the requested GPU-time that became training"),
    ]
    columns: tuple[Column[tuple[str, BridgeStep | Bridge, DifferenceSummary | None, str]], ...] = (
        Column("Bucket", lambda row: row[0]),
        Column(first, lambda row: PERCENT.plain(row[1].before)),
        Column(second, lambda row: PERCENT.plain(row[1].after)),
        Column("Gain, 95 % interval", lambda row: PERCENT.change(row[1].gain, _ends(row[2]))),
        Column("Gain in a year", lambda row: _yearly(row[1].gain, row[2], hours or 0.0), hours is not None),
        Column("Meaning", lambda row: row[3], is_number=False, is_gloss=True),
    )
    note = "Shares of the requested GPU-time. The gains of all buckets add up to that of ETTR."
    return table_of(f"From {first} to {second}", rows, columns, note=note)


def _yearly(gain: float, change: DifferenceSummary | None, hours: float) -> str:
    return hours_of(gain * hours, _ends(change, hours))


def _ends(change: DifferenceSummary | None, size: float = 1.0) -> tuple[float, float] | None:
    """Return an interval within what is possible; ``None`` without width: all replications differ by as much."""
    if change is None or change.ci95 is None:
        return None
    return size * max(change.ci95[0], -1.0), size * min(change.ci95[1], 1.0)
