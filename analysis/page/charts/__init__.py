"""Charts: `draw` returns the matplotlib figure of plain data; `CHARTS` has an entry for each kind.

A new kind of chart is a type in `data`, which says what it is as a table, and a function that draws it,
marked with `chart_kind`.
"""

from __future__ import annotations

from ettrick.analysis.page.charts import cluster, planes, rows  # noqa: F401 (kinds are registered where they are drawn)
from ettrick.analysis.page.charts.sheet import CHARTS, CONTROLS, NARROW, SUFFIXES, draw, render, style

__all__ = ["CHARTS", "CONTROLS", "NARROW", "SUFFIXES", "draw", "render", "style"]
