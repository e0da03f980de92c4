"""Many curves: one panel each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.plots.lines import draw_series, ends_of, key_of
from analysis.plots.plane import left_of
from analysis.plots.scales import scale_x, scale_y
from analysis.plots.sheet import WIDTH, Margins, open_sheet
from analysis.plots.style import FAINT, GREY, INK, style
from analysis.plots.texts import LINE, TEXT, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Curves

__all__ = ["draw_panels"]

_COLUMNS = 3
_HEIGHT = 1.15
_LINE = LINE * TEXT / 72
_MOST = 18
"""Panels of a picture at most."""


def draw_panels(chart: Curves) -> Figure:
    """Draw each curve in a panel of its own in front of all the others, on common axes.

    Levels, places on the axis and measured values are in every panel, and explained above all of them.
    """
    shown = chart.series[:_MOST]
    ends = ends_of(chart)
    rows = math.ceil(len(shown) / _COLUMNS)
    left = left_of(chart.y, ends[1])
    across = (WIDTH - left - 0.2 - 0.15 * (_COLUMNS - 1)) / _COLUMNS
    each_up = _HEIGHT + _LINE + 0.1
    with style():
        figure, frame = open_sheet(
            chart.title, rows * each_up, Margins(left, 0.2, 0.0, 0.5), _note(chart, len(shown), len(chart.series)),
            key_of(shown),
        )  # fmt: skip
        frame.set_axis_off()
        height = float(figure.get_size_inches()[1])
        for number, one in enumerate(shown):
            row, column = divmod(number, _COLUMNS)
            bottom = 0.5 + (rows - row - 1) * each_up + 0.1
            start = left + column * (across + 0.15)
            axes = figure.add_axes((start / WIDTH, bottom / height, across / WIDTH, _HEIGHT / height))
            _dress(axes, chart, ends[0][1])
            scale_x(axes, chart.x._replace(title=""), ends[0])
            scale_y(axes, chart.y, ends[1])
            axes.tick_params(labelleft=column == 0, labelbottom=number + _COLUMNS >= len(shown))
            for other in shown:
                if other is not one:
                    draw_series(axes, other, is_faint=True)
            draw_series(axes, one)
            name = cut(one.name, across - 0.05, TEXT, is_bold=True)
            axes.text(0.0, 1.02, name, transform=axes.transAxes, size=TEXT, color=INK, va="bottom", weight="bold")
    return figure


def _dress(axes: Axes, chart: Curves, end: float) -> None:
    """Give a panel its grid, levels, places on the axis and measured values."""
    axes.tick_params(colors=INK, length=0, labelsize=TEXT)
    axes.tick_params(axis="x", pad=7)
    axes.set_axisbelow(True)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    for level, _ in chart.levels:
        axes.axhline(level, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
    for place, _ in chart.edges:
        axes.axvline(place, color=INK, linewidth=1.0, linestyle=(0, (1, 1.5)))
    if chart.shaded_from is not None:
        axes.axvspan(chart.shaded_from[0], end, color=FAINT, alpha=0.7, linewidth=0, zorder=0)
    for dot in chart.dots:
        axes.plot([dot.x], [dot.y], marker="D", markersize=4, color=INK, markeredgecolor="white", zorder=4)


def _note(chart: Curves, shown: int, total: int) -> str:
    """Return what the axes are and what the lines in all panels say."""
    said = [f"Across: {chart.x.title}." if chart.x.title else "", f"Up: {chart.y.title}." if chart.y.title else ""]
    said.append(f"The first {shown} of {total} have a panel." if shown < total else "")
    said.append(f"Dashed: {', '.join(name for _, name in chart.levels)}." if chart.levels else "")
    said.append(f"Dotted: {', '.join(name for _, name in chart.edges)}." if chart.edges else "")
    said.append(f"Grey ground: {chart.shaded_from[1]}." if chart.shaded_from is not None else "")
    said.append("Diamonds: measured values." if chart.dots else "")
    return " ".join(part for part in said if part)
