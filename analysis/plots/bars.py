"""Horizontal bars, one or several in each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.numbers import decimals_of, told, with_unit
from analysis.plots.rows import open_rows
from analysis.plots.sheet import Entry
from analysis.plots.style import GREY, INK, QUIET, hue, style
from analysis.plots.texts import TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Bars, Range

__all__ = ["draw_bars"]

_FILLED = 0.74
"""Part of a row that its bars take."""


def draw_bars(chart: Bars) -> Figure:
    """Draw a bar for each value, its 95 % interval as a line across its end, and the value at the right."""
    count = max(len(chart.series), 1)
    values = [value for row in chart.rows for value in row.values]
    spans = [span for row in chart.rows for span in row.ci95 if span is not None]
    spots = [0.0, *(value for value in values if value is not None), *(end for span in spans for end in span)]
    decimals = decimals_of(values)
    texts = [[with_unit(told(value, decimals), chart.unit) for value in row.values] for row in chart.rows]
    ends = (min(spots), max(spots))
    key = [Entry(name, hue(number)) for number, name in enumerate(chart.series)] if count > 1 else []
    note = "Dark lines: 95 % interval." if spans else ""
    with style():
        figure, axes = open_rows(
            chart.title, [row.name for row in chart.rows], ends if ends[0] < ends[1] else (0.0, 1.0), chart.unit,
            row=0.1 + 0.16 * count, column=[text for row in texts for text in row], note=note, key=key,
        )  # fmt: skip
        thick = _FILLED / count
        for number, row in enumerate(chart.rows):
            for index, value in enumerate(row.values):
                place = number + (index - (count - 1) / 2) * thick
                span = row.ci95[index] if index < len(row.ci95) else None
                _draw_bar(axes, place, thick * 0.88, value, span, hue(index), texts[number][index])
        axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


def _draw_bar(
    axes: Axes, place: float, thick: float, value: float | None, span: Range | None, color: str, text: str
) -> None:
    axes.text(
        1.01, place, text, transform=axes.get_yaxis_transform(), size=TEXT, va="center_baseline", color=INK,
        alpha=1.0 if value is not None else QUIET,
    )  # fmt: skip
    if value is None:
        return
    axes.barh(place, value, height=thick, color=color, linewidth=0)
    if span is not None:
        axes.plot(span, [place, place], color=INK, linewidth=1.4, solid_capstyle="butt")
