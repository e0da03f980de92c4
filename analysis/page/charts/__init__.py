"""Pictures: one function a kind of figure, which takes plain data and returns a matplotlib figure.

`draw` picks the function by what it is given. A new kind of picture is a type in `charts`, a file with one function,
and a line in `CHARTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.page.charts.cluster import draw_topology
from analysis.page.charts.data import (
    Bars,
    Calendar,
    Contours,
    Curves,
    Front,
    HeatMap,
    Intervals,
    Stack,
    Tornado,
    Waterfall,
)
from analysis.page.charts.planes import draw_contours, draw_curves, draw_front
from analysis.page.charts.rows import draw_bars, draw_intervals, draw_stack, draw_tornado, draw_waterfall
from analysis.page.charts.sheet import CONTROLS, SUFFIXES, render, style
from analysis.page.charts.tables import (
    Episode,
    StepErrors,
    Stretch,
    draw_calendar,
    draw_episodes,
    draw_heat_map,
    draw_step_errors,
)
from sim import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

__all__ = [
    "CHARTS",
    "CONTROLS",
    "SUFFIXES",
    "Episode",
    "StepErrors",
    "Stretch",
    "draw",
    "draw_episodes",
    "draw_step_errors",
    "draw_topology",
    "render",
    "style",
]

CHARTS: dict[type, Callable[[Any], Figure]] = {
    Bars: draw_bars,
    Calendar: draw_calendar,
    Contours: draw_contours,
    Curves: draw_curves,
    Front: draw_front,
    HeatMap: draw_heat_map,
    Intervals: draw_intervals,
    Stack: draw_stack,
    Topology: draw_topology,
    Tornado: draw_tornado,
    Waterfall: draw_waterfall,
}

"""What draws what."""


def draw(chart: Any) -> Figure:
    """Return the picture of plain data, whose type is one of `CHARTS`."""
    return CHARTS[type(chart)](chart)
