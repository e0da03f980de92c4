"""Pictures of contours data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.charts import Contours

__all__ = ["draw_contours"]


def draw_contours(chart: Contours) -> Figure:
    """Draw it."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.0, 3.0))
        figure.text(0.02, 0.95, chart.title)
    return figure
