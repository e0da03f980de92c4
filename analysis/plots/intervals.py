"""Means with their intervals below each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.plots.numbers import NOTHING, decimals_of, told, with_unit
from analysis.plots.rows import open_rows
from analysis.plots.scales import extent
from analysis.plots.sheet import WIDTH, Entry
from analysis.plots.style import BLUE, INK, ORANGE, QUIET, style
from analysis.plots.texts import TEXT, block_height, cut, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Interval, Intervals

__all__ = ["draw_intervals"]

_WORDS = 2.1
"""Width of a value and its note at most [in]."""


def draw_intervals(chart: Intervals) -> Figure:
    """Draw a dot for each mean, a dark line for its 95 % interval, and a light band for what is not known exactly."""
    spots = [spot for row in chart.rows for spot in (row.mean, *(row.ci95 or ()), *(row.band90 or ()))]
    if chart.reference is not None:
        spots.append(chart.reference[0])
    decimals = _decimals(chart)
    values = [with_unit(told(row.mean, decimals), chart.unit) for row in chart.rows]
    texts = [wrapped(_joined(value, row.note), _WORDS) for value, row in zip(values, chart.rows, strict=True)]
    with style():
        figure, axes = open_rows(
            chart.title, [row.name for row in chart.rows], extent(spots), chart.unit, column=texts, key=_key(chart),
            row=max((block_height(text) + 0.1 for text in texts), default=0.26),
            top=0.05 if chart.reference is None else 0.22,
        )  # fmt: skip
        if chart.reference is not None:
            _draw_reference(axes, *chart.reference)
        for place, (row, text) in enumerate(zip(chart.rows, texts, strict=True)):
            _draw_row(axes, place, row, text)
    return figure


def _decimals(chart: Intervals) -> int:
    """Return the decimals that the means deserve: as far as their narrowest interval goes."""
    halves = [(row.ci95[1] - row.ci95[0]) / 2 for row in chart.rows if row.ci95 is not None]
    sure = [half for half in halves if half > 0]
    if not sure:
        return decimals_of([row.mean for row in chart.rows])
    place = math.floor(math.log10(min(sure)))
    return min(max((1 if min(sure) < 3 * 10.0**place else 0) - place, 0), 6)


def _joined(value: str, note: str) -> str:
    if not note:
        return value
    return note if value == NOTHING else f"{value} {note}"


def _key(chart: Intervals) -> list[Entry]:
    """Return what lines and bands are, where there are some."""
    found = []
    if any(row.ci95 is not None for row in chart.rows):
        found.append(Entry("95 % interval of the mean", BLUE, 1.0, "line"))
    if any(row.band90 is not None for row in chart.rows):
        found.append(Entry("90 % band: inputs that are not known exactly", BLUE, 0.22))
    return found


def _draw_reference(axes: Axes, value: float, name: str) -> None:
    """Draw what the means are held against, and its name above it."""
    axes.axvline(value, color=ORANGE, linewidth=1.2)
    low, high = axes.get_xlim()
    place = axes.get_position()
    left, across = WIDTH * place.x0, WIDTH * place.width
    name = cut(name, WIDTH - 0.3)
    half = width_of(name) / 2
    middle = min(max(left + across * (value - low) / (high - low), 0.1 + half), WIDTH - 0.1 - half)
    axes.text(
        (middle - left) / across, 1.0, name, transform=axes.transAxes, ha="center", va="bottom", size=TEXT, color=INK
    )


def _draw_row(axes: Axes, place: int, row: Interval, text: str) -> None:
    axes.text(
        1.015, place, text, transform=axes.get_yaxis_transform(), size=TEXT, va="center", color=INK,
        alpha=1.0 if row.mean is not None else QUIET,
    )  # fmt: skip
    if row.band90 is not None:
        low, high = row.band90
        axes.barh(place, high - low, left=low, height=0.5, color=BLUE, alpha=0.22, linewidth=0)
    if row.ci95 is not None:
        axes.plot(row.ci95, [place, place], color=BLUE, linewidth=2.4, solid_capstyle="butt")
    if row.mean is not None:
        axes.plot([row.mean], [place], marker="o", markersize=5, color=BLUE)
