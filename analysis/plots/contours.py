"""Heights over a plane, with lines of equal height."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.numbers import with_unit
from analysis.plots.placing import Box, beside
from analysis.plots.plane import open_plane
from analysis.plots.sheet import open_message
from analysis.plots.style import BLUE, INK, ORANGE, style
from analysis.plots.texts import LINE, TEXT, cut, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.plots.charts import Contours
    from analysis.plots.plane import Plane

__all__ = ["draw_contours"]

_HEIGHT = 3.6
_LINE = LINE * TEXT / 72
_OPACITIES = (0.06, 0.38)
"""Of the lowest and of the highest ground."""


def draw_contours(chart: Contours) -> Figure:
    """Draw lines of equal height with their heights on them, ground that is bluer the higher it is, and the place."""
    heights = np.ma.masked_invalid(np.array(chart.values, dtype=float))
    if min(len(chart.x_values), len(chart.y_values)) < 2 or heights.count() == 0:
        return open_message(chart.title, "There are too few values to draw lines of equal height.")
    low, high = float(heights.min()), float(heights.max())
    levels = sorted(level for level in set(chart.levels) if low < level < high)
    ends = (chart.x_values[0], chart.x_values[-1]), (chart.y_values[0], chart.y_values[-1])
    with style():
        plane = open_plane(chart.title, (chart.x, chart.y), ends, height=_HEIGHT, note=_note(chart, low, high))
        lines = _draw_ground(plane, chart, heights, levels)
        taken = [_draw_here(plane, *chart.here)] if chart.here is not None else []
        _write_levels(plane, [with_unit(f"{level:,.6g}", chart.unit) for level in levels], lines, taken)
    return plane.figure


def _note(chart: Contours, low: float, high: float) -> str:
    """Return what the picture shows, and which heights are reached everywhere or nowhere."""
    unit = "" if chart.unit in ("", "%") else f" {chart.unit}"
    said = ["Bluer is higher."]
    for level in sorted(set(chart.levels)):
        if not low < level < high:
            text = with_unit(f"{level:,.6g}", chart.unit) + unit
            said.append(f"{text} is reached {'everywhere' if level <= low else 'nowhere'} here.")
    return " ".join(said)


def _draw_ground(
    plane: Plane, chart: Contours, heights: NDArray[np.float64], levels: Sequence[float]
) -> list[list[NDArray[np.float64]]]:
    """Draw ground and lines; return the lines of each level as points of the data, (n, 2)."""
    from matplotlib.colors import to_rgba

    low, high = float(heights.min()), float(heights.max())
    edges = [low - 1.0 - abs(low), *levels, high + 1.0 + abs(high)]
    opacities = np.linspace(*_OPACITIES, len(edges) - 1)
    place = (np.array(chart.x_values), np.array(chart.y_values), heights)
    plane.axes.contourf(*place, levels=edges, colors=[to_rgba(BLUE, opacity) for opacity in opacities])
    if not levels:
        return []
    drawn = plane.axes.contour(*place, levels=levels, colors=[INK], linewidths=1.2)
    return [[np.asarray(line) for line in lines if len(line) > 1] for lines in drawn.allsegs]


def _draw_here(plane: Plane, name: str, x: float, y: float) -> Box:
    """Mark where the cluster is now and write its name beside; return what that takes [in]."""
    plane.axes.plot([x], [y], marker="o", markersize=8, color=ORANGE, markeredgecolor="white", clip_on=False, zorder=5)
    name = cut(name, plane.across / 2 - 0.3)
    spot = plane.inches(x, y)
    room = Box(0.03, 0.03, plane.across - 0.03, plane.up - 0.03)
    (box,) = beside([spot], [(width_of(name) + 0.06, _LINE)], room, [])
    if box is None:
        return Box(spot[0] - 0.1, spot[1] - 0.1, spot[0] + 0.1, spot[1] + 0.1)
    plane.write(box.left + 0.03, (box.bottom + box.top) / 2, name, weight="bold", zorder=6)
    return Box(
        min(box.left, spot[0] - 0.1), min(box.bottom, spot[1] - 0.1), max(box.right, spot[0]), max(box.top, spot[1])
    )


def _write_levels(
    plane: Plane, texts: Iterable[str], lines: Iterable[Sequence[NDArray[np.float64]]], taken: list[Box]
) -> None:
    """Write each height on its line, as near to the middle of it as there is room."""
    for text, parts in zip(texts, lines, strict=True):
        half = width_of(text) / 2 + 0.04
        spots = _along(plane, max(parts, key=len, default=np.empty((0, 2))))
        for x, y in spots:
            box = Box(x - half, y - _LINE / 2, x + half, y + _LINE / 2)
            inside = box.left > 0 and box.bottom > 0 and box.right < plane.across and box.top < plane.up
            if inside and not any(box.overlaps(other) for other in taken):
                plane.write(
                    x, y, text, ha="center", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                )
                taken.append(box)
                break


def _along(plane: Plane, line: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return places on a line [in], from its middle to its ends."""
    if len(line) < 2:
        return []
    spots = np.array([plane.inches(x, y) for x, y in line.tolist()])
    walked = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(spots, axis=0).T))])
    shares = sorted(np.linspace(0.0, 1.0, 81).tolist(), key=lambda share: (abs(share - 0.5), share))
    wanted = np.array(shares) * walked[-1]
    return list(zip(*(np.interp(wanted, walked, spots[:, side]).tolist() for side in (0, 1)), strict=True))
