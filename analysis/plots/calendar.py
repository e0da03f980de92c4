"""Pictures of calendar data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.charts import Calendar

__all__ = ["draw_calendar"]


def draw_calendar(chart: Calendar) -> Figure:
    """Draw it."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.0, 3.0))
        figure.text(0.02, 0.95, chart.title)
    return figure
