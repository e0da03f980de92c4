"""What it takes to finish in time with some probability, over what is not known exactly, for a first screen."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import capital
from analysis.plots.charts import Curves, Scale, Series
from analysis.report.model import Column, Grid, Picture
from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.answers.pictures import KEY
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import COUNT, PERCENT, number
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.report.openings.answers.told import Asked
    from analysis.report.openings.traced import Traced
    from analysis.report.sections.axes import Axis
    from analysis.report.words import Words

__all__ = ["likely"]

_METRIC = "p_finish_by"
_NORMAL = 1.96
_CLOSE = 0.01
"""Half-width of an interval from which on it is told that shares of runs are not known well."""


class _Setting(NamedTuple):
    """A value that was tried: its label, its cell, and the share of runs that are in time over all draws."""

    label: str
    cell: int
    share: Traced


def likely(asked: Asked, condition: Callable[[Asked], Words]) -> Told | None:
    """Return what it takes for a probability over luck and over unknown inputs; ``None`` where none were drawn.

    A probability to be in time is the share of runs that are, and whether the reason is luck or an input that nobody
    knows exactly is all the same to who waits: where runs with drawn inputs are there, they are what is asked for.
    """
    axis = asked.axis(asked.data["along"])
    if asked.metric != _METRIC or axis is None or len(asked.data["lines"]) != 1 or "at_least" not in asked.data:
        return None
    settings = _settings(asked, axis)
    level = asked.data["at_least"]
    if len(settings) < 2:
        return None
    holds = [one.share.value >= level for one in settings]
    unheld = [place for place, one in enumerate(holds) if not one]
    first = unheld[-1] + 1 if unheld else 0
    goal = line("for ", asked.subject, " to be ", condition(asked), ", ")
    need = _need(asked, settings, first)
    shown = [settings[place] for place in (first - 1, first) if 0 <= place < len(settings)]
    runs = _runs(asked, settings[0].cell)
    texts = [line(number(one.share, PERCENT), " with ", asked.value(axis.name, one.label)) for one in shown]
    of_runs = line("of ", number(runs, COUNT), " runs ") if runs is not None else ("of the runs ",)
    answer = joined([
        sentence(goal, need, ": ", of_runs, listed(texts), " are in time, unknown inputs drawn"),
        _central(asked, axis, level),
    ])  # fmt: skip
    short = line(need, " for ", condition(asked))
    picture = _picture(asked, axis, settings, (level, plain(condition(asked))))
    cell = settings[min(first, len(settings) - 1)].cell
    return Told(
        answer,
        sentence(goal, need),
        short,
        picture,
        cell,
        doubt=_doubt(asked, shown),
        other=settings[first - 1].cell if first else None,
    )


def _settings(asked: Asked, axis: Axis) -> list[_Setting]:
    """Return the values that were tried, ascending, with the share of drawn runs that are in time."""
    at = asked.data["lines"][0]["at"]
    found = []
    for _, label in sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0):
        cell = asked.cell({**at, axis.name: label})
        share = asked.rows.mean(cell, _METRIC, drawn=True)
        if cell is not None and share is not None:
            found.append(_Setting(label, cell, share))
    return found


def _need(asked: Asked, settings: list[_Setting], first: int) -> Words:
    """Return what it takes, between the last value that does not do and the first of those that do."""
    along = asked.data["along"]
    if first in (0, len(settings)):
        extent = asked.extent(along, settings[0].label, settings[-1].label)
        return line("no" if first else "any", " value tried is enough (", extent, ")")
    ends = [asked.value(along, settings[place].label) for place in (first - 1, first)]
    span = line("between ", listed(ends))
    return line("it takes ", asked.named(along, span))


def _runs(asked: Asked, cell: int) -> Traced | None:
    """Return how many runs a setting has over all draws."""
    draws, each = asked.places.at("cells", cell, "draws"), asked.places.at("cells", cell, "replications")
    return None if draws is None or each is None or not draws.value else draws * each


def _central(asked: Asked, axis: Axis, level: float) -> Words:
    """Return what would do if all inputs were at their central values; empty where that is not told."""
    at = asked.data["lines"][0]["at"]
    pairs = sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0)
    known = [(label, mean.mean.value >= level) for _, label in pairs
             if (mean := asked.mean(asked.cell({**at, axis.name: label}))) is not None]  # fmt: skip
    held = list(itertools.takewhile(lambda pair: pair[1], reversed(known)))
    if not held:
        return ()
    return sentence("at exactly the central values ", asked.named(axis.name, asked.value(axis.name, held[-1][0])),
                    " would do")  # fmt: skip


def _doubt(asked: Asked, shown: list[_Setting]) -> Words:
    """Return what was drawn, and how well shares of so few draws are known."""
    titles = [(str(axis["title"]),) for axis in asked.places.get("axes").values() if axis["unknown"]]
    draws = asked.places.at("cells", shown[0].cell, "draws")
    verb = "is" if len(titles) == 1 else "are"
    start = line("not known exactly ", verb, " ", listed(titles))
    if draws is None:
        return sentence(start, ": each run has its own luck and one draw of them")
    known = sentence(start, ": each run has its own luck and one of ", number(draws, COUNT), " draws of them")
    values = [asked.rows.by_draw(one.cell, _METRIC) for one in shown]
    widest = max((_NORMAL * statistics.stdev(one) / math.sqrt(len(one)) for one in values if len(one) > 1), default=0.0)
    if widest < _CLOSE:
        return known
    return joined([known, ("With so few draws such shares are known to a few points only.",)])


def _picture(
    asked: Asked, axis: Axis, settings: list[_Setting], level: tuple[float, str]
) -> Callable[[str], Picture | None]:
    """Return what draws the share of runs that are in time, with drawn inputs and at the central values."""

    def picture(title: str) -> Picture | None:
        numbers: Mapping[str, float] = {label: one or 0.0 for label, one in zip(axis.labels, axis.numbers, strict=True)}
        x = tuple(numbers[one.label] / axis.size for one in settings)
        drawn = tuple(100 * one.share.value for one in settings)
        means = [asked.mean(one.cell) for one in settings]
        central = tuple(None if mean is None else 100 * mean.mean.value for mean in means)
        series = (Series("unknown inputs drawn", x, drawn, hue=0), Series("central values", x, central, hue=1))
        what = capital(asked.what)
        chart = Curves(title, axis.scale, Scale(f"{what} [%]"), series, levels=((100 * level[0], level[1]),))
        rows = [
            (plain(asked.value(axis.name, one.label)), plain((number(one.share, PERCENT),)),
             "" if mean is None else asked.form.value(mean.mean.value, mean.interval))
            for one, mean in zip(settings, means, strict=True)
        ]  # fmt: skip
        heads = (Column(axis.title, is_number=False), Column("unknown inputs drawn"), Column("central values"))
        told = "; ".join(f"{row[1]} with {row[0]}" for row in rows)
        alt = f"{what} with unknown inputs drawn, along {axis.title}: {told}."
        return Picture(KEY, chart, alt, "Shares of runs that are in time.", Grid(title, heads, rows))

    return picture
