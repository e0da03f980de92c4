"""Charts: `draw` returns the matplotlib figure of plain data; `CHARTS` has an entry for each kind.

A new kind of chart is a type in `data`, which says what it is as a table, and a function that draws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ettrick.analysis.page.charts import cluster, data, planes, rows
from ettrick.analysis.page.charts.sheet import CONTROLS, NARROW, SUFFIXES, WIDTH, render, style
from ettrick.sim import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

__all__ = ["CHARTS", "CONTROLS", "NARROW", "SUFFIXES", "draw", "render", "style"]

CHARTS: dict[type, Callable[[Any], Figure]] = {
    data.Bars: rows.draw_bars,
    data.Curves: planes.draw_curves,
    data.FrontChart: planes.draw_front,
    data.HeatMap: rows.draw_heat_map,
    data.Intervals: rows.draw_intervals,
    data.Stack: rows.draw_stack,
    data.TornadoChart: rows.draw_tornado,
    Topology: cluster.draw_topology,
}
"""The drawing function of each kind of picture, by the type of its data."""


def draw(chart: Any, width: float = WIDTH, height: float = 0.0) -> Figure:
    """Return the picture of plain data, whose type is one of `CHARTS`; of clusters the width is what they need.

    With a height axes are lower, where that makes room for the picture.
    """
    with style(width, height):
        return CHARTS[type(chart)](chart)
