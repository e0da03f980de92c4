"""Waterfalls: from one total to another, step by step."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from analysis.plots.numbers import decimals_of, signed, told, with_unit
from analysis.plots.rows import open_rows
from analysis.plots.style import BLUE, GREEN, GREY, INK, ORANGE, style
from analysis.plots.texts import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Change, Waterfall

__all__ = ["draw_waterfall"]

_HALF = 0.31
"""Half the height of a bar, in rows."""
_SMALL = 0.4
"""Changes that together take less of a full axis than this are drawn on one that begins above 0."""


def draw_waterfall(chart: Waterfall) -> Figure:
    """Draw a full bar for the first total, a floating one for each change, and a full one for the last total.

    Where the changes are small beside the totals, the axis does not begin at 0: the full bars are then broken, and a
    line of text says where it begins. Lengths of changes can be compared with each other either way.
    """
    levels = list(accumulate((change.amount for change in chart.changes), initial=chart.start[1]))
    tops = [max(each) for each in map(_drawn, chart.changes, levels)]
    spots = [*levels, chart.end[1], *(spot for each in map(_drawn, chart.changes, levels) for spot in each)]
    base = _base(spots)
    amounts = [change.amount for change in chart.changes]
    decimals = decimals_of(amounts)
    texts = [signed(amount, decimals) for amount in amounts]
    totals = [with_unit(told(total, decimals), chart.unit) for _, total in (chart.start, chart.end)]
    names = [chart.start[0], *(change.name for change in chart.changes), chart.end[0]]
    with style():
        ends = (min(base, *spots), max(base, *spots))
        figure, axes = open_rows(
            chart.title, names, ends if ends[0] < ends[1] else (0.0, 1.0), chart.unit,
            behind=[*texts, *totals], note=_note(chart, base),
        )  # fmt: skip
        for row, total in ((0, chart.start[1]), (len(names) - 1, chart.end[1])):
            _draw_total(axes, row, base, total)
        for row, (change, level) in enumerate(zip(chart.changes, levels, strict=False), start=1):
            _draw_change(axes, row, change, level)
        for row, level in enumerate(levels):
            axes.plot([level, level], [row + _HALF, row + 1 - _HALF], color=GREY, linewidth=0.8)
        edges = [max(base, chart.start[1]), *tops, max(base, chart.end[1])]
        for row, (edge, text) in enumerate(zip(edges, [totals[0], *texts, totals[1]], strict=True)):
            axes.annotate(
                text, (edge, row), (4, 0), textcoords="offset points", va="center_baseline", size=TEXT, color=INK,
                weight="bold" if row in (0, len(names) - 1) else "normal",
            )  # fmt: skip
    return figure


def _note(chart: Waterfall, base: float) -> str:
    """Return what to know to read the picture: where the axis begins, what changes are in, and what the lines are."""
    said = (
        [f"The axis begins at {with_unit(f'{base:,.6g}', chart.unit)}, so the full bars are cut off."] if base else []
    )
    if chart.unit == "%" and chart.changes:
        said.append("Changes are in percentage points.")
    if any(change.ci95 is not None for change in chart.changes):
        said.append("Dark lines: 95 % interval of a change.")
    return " ".join(said)


def _drawn(change: Change, level: float) -> tuple[float, ...]:
    """Return where the bar of a change and its interval end."""
    return (level, level + change.amount, *(level + end for end in change.ci95 or ()))


def _base(spots: Iterable[float]) -> float:
    """Return where the full bars begin: at 0, or at a round number below all that changes."""
    low, high = min(spots), max(spots)
    span = high - low
    if low <= 0 or span <= 1e-12 * high or span >= _SMALL * high:
        return 0.0
    step = 10.0 ** math.floor(math.log10(span)) / 2
    return max(math.floor((low - 0.25 * span) / step) * step, 0.0)


def _draw_total(axes: Axes, row: int, base: float, total: float) -> None:
    """Draw a full bar, with a gap near its foot if it does not begin at 0."""
    axes.barh(row, total - base, left=base, height=2 * _HALF, color=BLUE, linewidth=0)
    if base:
        low, high = axes.get_xlim()
        inch = (high - low) / _across(axes)
        for place in (0.14, 0.2):
            foot = base + place * inch
            axes.plot(
                [foot - 0.04 * inch, foot + 0.04 * inch], [row + 0.42, row - 0.42], color="white", linewidth=1.6,
                gid="break",
            )  # fmt: skip


def _across(axes: Axes) -> float:
    return float(axes.get_window_extent().width / axes.figure.dpi)


def _draw_change(axes: Axes, row: int, change: Change, level: float) -> None:
    """Draw a floating bar and the interval of where it ends."""
    color = ORANGE if change.amount < 0 else GREEN
    axes.barh(row, change.amount, left=level, height=2 * _HALF, color=color, linewidth=0)
    if change.ci95 is not None:
        ends = [level + end for end in change.ci95]
        axes.plot(ends, [row, row], color=INK, linewidth=1.4, solid_capstyle="butt")
