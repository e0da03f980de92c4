"""Pictures whose rows lie below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.charts import Bars, Intervals, Stack, Tornado

__all__ = ["draw_bars", "draw_intervals", "draw_stack", "draw_tornado"]


def _titled(title: str) -> Figure:
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.0, 3.0))
        figure.text(0.02, 0.95, title)
    return figure


def draw_bars(chart: Bars) -> Figure:
    """Draw it."""
    return _titled(chart.title)


def draw_intervals(chart: Intervals) -> Figure:
    """Draw it."""
    return _titled(chart.title)


def draw_stack(chart: Stack) -> Figure:
    """Draw it."""
    return _titled(chart.title)


def draw_tornado(chart: Tornado) -> Figure:
    """Draw it."""
    return _titled(chart.title)
