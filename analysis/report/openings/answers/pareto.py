"""What cannot be had together, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.answers.pictures import front, nothing
from analysis.report.openings.answers.told import Told
from analysis.report.openings.glossary import metric_words
from analysis.report.openings.numbers import told
from analysis.report.openings.traced import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["pareto"]

_MOST_TOLD = 3
"""Settings on the front that a sentence names; of more only those at its ends."""


def pareto(asked: Asked) -> Told | None:
    """Return which combinations no other one beats in everything; ``None`` where nothing is known."""
    entries: Sequence[Mapping[str, Any]] = asked.data["front"]
    if not entries:
        return None
    metrics = asked.data["metrics"]
    order = sorted(range(len(entries)), key=lambda place: entries[place][metrics[0]]["mean"])
    if not asked.is_lowest_best(metrics[0]):
        order.reverse()
    shown = order if len(order) <= _MOST_TOLD else [order[0], order[-1]]
    aims = listed([(_aim(asked, name),) for name in (*metrics, *asked.data["axes"])])
    between = " to " if len(order) > _MOST_TOLD else " and "
    texts = [_entry(asked, place) for place in shown]
    answer = sentence("in ", aims, " at once, no other setting beats ", listed(texts, between), _maybe(asked))
    names = [asked.briefly(entries[place]["at"]) for place in shown]
    short = line("no other setting beats ", listed(names, between), " in ", aims, " at once")
    standing = dict.fromkeys(range(len(asked.places.get("cells"))), "behind")
    for word, key in (("perhaps", "may_be_too"), ("front", "front")):
        standing |= {cell: word for entry in asked.data[key] if (cell := asked.cell(entry["at"])) is not None}
    picture = front(asked, (metrics[0], metrics[1]), standing) if len(metrics) > 1 else nothing
    return Told(answer, sentence(short), short, picture, asked.cell(entries[order[0]]["at"]))


def _aim(asked: Asked, name: str) -> str:
    """Return an aim in words."""
    if name in asked.data["axes"]:
        return asked.title(name)
    words = metric_words(name)
    return words if words.startswith("the ") else f"the {words}"


def _entry(asked: Asked, place: int) -> Words:
    """Return a setting with what it reaches."""
    entry = asked.data["front"][place]
    values = []
    for name in asked.data["metrics"]:
        found = asked.places.estimate("answers", asked.position, "data", "front", place, name)
        if found is not None:
            values.append(told(Estimate(*found), asked.form_of(name)))
    return line(asked.briefly(entry["at"]), " with ", listed(values))


def _maybe(asked: Asked) -> Words:
    """Return which others may belong to the front too."""
    others = [asked.briefly(entry["at"]) for entry in asked.data["may_be_too"]]
    if not others:
        return ()
    if len(others) > _MOST_TOLD:
        return ("; others may be as good",)
    return line("; ", listed(others), " may be as good")
