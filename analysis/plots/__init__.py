"""Pictures: one function a kind of figure, which takes plain data and returns a matplotlib figure.

`draw` picks the function by what it is given. A new kind of picture is a type in `charts`, a file with one function,
and a line in `CHARTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.plots.bars import draw_bars
from analysis.plots.calendar import draw_calendar
from analysis.plots.charts import (
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
from analysis.plots.contours import draw_contours
from analysis.plots.curves import draw_curves
from analysis.plots.episodes import Episode, Stretch, draw_episodes
from analysis.plots.front import draw_front
from analysis.plots.heat_map import draw_heat_map
from analysis.plots.intervals import draw_intervals
from analysis.plots.stack import draw_stack
from analysis.plots.step_errors import StepErrors, draw_step_errors
from analysis.plots.style import CONTROLS, SUFFIXES, render, style
from analysis.plots.topology import draw_topology
from analysis.plots.tornado import draw_tornado
from analysis.plots.waterfall import draw_waterfall
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
