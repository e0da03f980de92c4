"""The first screen about a comparison: which variant is best, by how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.answers.words import capital, listed
from analysis.plots.charts import Interval, Intervals
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.contest import contest_of
from analysis.report.openings.doubt import luck, more_runs, not_covered, stated
from analysis.report.openings.gained import WITH_SPEED, gained, in_gpu_years, in_money, of_time
from analysis.report.openings.glossary import bucket_words, glossed, metric_words
from analysis.report.openings.numbers import (
    COUNT,
    PERCENT,
    Places,
    number,
    ranged,
    told,
)
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.material import Material
    from analysis.report.openings.contest import Contest
    from analysis.report.openings.numbers import Estimate
    from analysis.report.words import Words
    from sim import Scenario

__all__ = ["opening"]

_LEAST_CHANGE = 5e-4
"""A change of shares that is worth a word."""
_MOST_NAMES = 4


def opening(material: Material) -> Opening:
    """Return the first screen."""
    content = material.main
    contest = contest_of(Places(material.results.file, content))
    variants = content["variants"].values()
    cannot = [f"without {name}, which cannot run: {reason}" for name, reason in content["cannot_run"].items()]
    labels = list(contest.labels.values())
    question = (
        f"Which is better: {', '.join(labels[:-1])} or {labels[-1]}?" if labels[1:] else f"How good is {labels[0]}?"
    )
    return glossed(
        Opening(
            question=question,
            answer=_answer(contest),
            doubt=_doubt(contest, None if material.focus is None else material.focus.scenario),
            picture=_picture(contest) if contest.order[1:] else None,
            drivers=tuple(words for words in _drivers(contest) if words)[:3],
            not_covered=not_covered(
                [*cannot, *_notes(contest)],
                [warning for variant in variants for warning in variant["warnings"]],
                [assumption for variant in variants for assumption in variant["assumptions"]],
            ),
        )
    )


def _notes(contest: Contest) -> list[str]:
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
    if ranking is not None and len(ranking["may_be_best"]) > 1:
        return _several(contest, ranking["may_be_best"])
    best, first = order[0], contest.first
    other = order[1] if best == first else best
    change = contest.difference(other)
    if change is None:
        return (f"By how much {contest.labels[other]} differs from {contest.labels[first]} cannot be told: one of them "
                f"has no value of {metric_words(contest.metric)}.",)  # fmt: skip
    if not contest.is_resolved(other):
        return _unresolved(contest, other, change)
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
    if all(tuple(behind[name]["ci95"]) == (0.0, 0.0) for name in names):
        return (f"{listed} are equally good: they come to the same in every simulated run.",)
    needed = contest.places.at("ranking", "replications_to_resolve")
    return (f"{listed} may be best; ", *more_runs(needed), " which.")


def _unresolved(contest: Contest, other: str, change: Estimate) -> Words:
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
    is_priced = any(variant["cost"] is not None for variant in places.get("variants").values())
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
    sure = contest.is_resolved(other) if ranking is None else len(ranking["may_be_best"]) == 1
    return f"{contest.labels[best]} is best" if sure else "No variant is best beyond chance"
