"""Two aims against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.placing import Box, beside
from analysis.plots.plane import open_plane
from analysis.plots.scales import extent
from analysis.plots.sheet import Entry, open_message
from analysis.plots.style import BLUE, GREY, QUIET, style
from analysis.plots.texts import block_height, block_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from analysis.plots.charts import Front, FrontPoint
    from analysis.plots.plane import Plane

__all__ = ["draw_front"]

_FEW = 12
"""Up to so many candidates all have their names, beyond only those that may be on the front."""
_KEYS = {
    "front": Entry("not beaten in both", BLUE, 1.0, "dot"),
    "perhaps": Entry("perhaps not beaten", BLUE, 1.0, "ring"),
    "behind": Entry("beaten in both", GREY, 1.0, "dot"),
}


def draw_front(chart: Front) -> Figure:
    """Draw candidates as dots, with names and 95 % intervals where they matter, and a line along the front."""
    points = [point for point in chart.points if _is_drawable(chart, point)]
    if not points:
        return open_message(chart.title, "No candidate has both values.")
    figure, nameless = _draw(chart, points, "")
    return _draw(chart, points, f"There is no room for {nameless} of the names.")[0] if nameless else figure


def _is_drawable(chart: Front, point: FrontPoint) -> bool:
    return (point.x > 0 or not chart.x.is_log) and (point.y > 0 or not chart.y.is_log)


def _draw(chart: Front, points: Sequence[FrontPoint], note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names it has no room for."""
    x = chart.x._replace(title=f"{'← better' if chart.lowest_x_is_best else 'better →'}    {chart.x.title}")
    y = chart.y._replace(title=f"{'↓' if chart.lowest_y_is_best else '↑'} better    {chart.y.title}")
    spots = (
        [[point.x, *(point.x_ci95 or ())] for point in points],
        [[point.y, *(point.y_ci95 or ())] for point in points],
    )
    ends = [
        extent([spot for each in side for spot in each], scale.is_log, 0.07)
        for side, scale in zip(spots, (x, y), strict=True)
    ]
    key = [entry for standing, entry in _KEYS.items() if any(point.standing == standing for point in points)]
    named = [point for point in points if len(points) <= _FEW or point.standing != "behind"]
    with style():
        height = min(3.4 + 0.08 * max(len(named) - 10, 0), 7.0)
        plane = open_plane(chart.title, (x, y), (ends[0], ends[1]), height=height, note=note, key=key)
        _draw_line(plane, [point for point in points if point.standing == "front"])
        _draw_intervals(plane, named)
        for standing in _KEYS:
            _draw_dots(plane, [point for point in points if point.standing == standing], standing)
        nameless = _write_names(plane, named, [point for point in points if point not in named])
    return plane.figure, nameless


def _draw_line(plane: Plane, front: Sequence[FrontPoint]) -> None:
    places = sorted((point.x, point.y) for point in front)
    if places:
        plane.axes.plot(*zip(*places, strict=True), color=BLUE, alpha=0.35, linewidth=1.5)


def _draw_intervals(plane: Plane, points: Sequence[FrontPoint]) -> None:
    """Draw the 95 % intervals in both directions."""
    from matplotlib.collections import LineCollection

    lines = [(line, _KEYS[point.standing].color) for point in points for line in _crosses(point)]
    plane.axes.add_collection(
        LineCollection([line for line, _ in lines], colors=[color for _, color in lines], linewidths=1.0, alpha=0.6)
    )


def _crosses(point: FrontPoint) -> list[list[tuple[float, float]]]:
    """Return the intervals of a candidate as lines."""
    return [
        *([[(x, point.y) for x in point.x_ci95]] if point.x_ci95 is not None else []),
        *([[(point.x, y) for y in point.y_ci95]] if point.y_ci95 is not None else []),
    ]


def _draw_dots(plane: Plane, points: Sequence[FrontPoint], standing: str) -> None:
    """Draw candidates of one standing: full on the front, hollow where they may be on it, small behind."""
    color = _KEYS[standing].color
    plane.axes.plot(
        [point.x for point in points], [point.y for point in points], linestyle="", marker="o", color=color, zorder=3,
        markersize=4 if standing == "behind" else 6, markerfacecolor="white" if standing == "perhaps" else color,
        gid=standing,
    )  # fmt: skip


def _on_crosses(plane: Plane, points: Sequence[FrontPoint]) -> list[Box]:
    """Return what the intervals take, which names should not cover [in]."""
    lines = [[plane.inches(x, y) for x, y in line] for point in points for line in _crosses(point)]
    return [Box(left - 0.02, low - 0.02, right + 0.02, high + 0.02) for (left, low), (right, high) in lines]


def _write_names(plane: Plane, named: Sequence[FrontPoint], others: Sequence[FrontPoint]) -> int:
    """Write names beside their points, joined to them where these are far; return how many have no room."""
    order = sorted(named, key=lambda point: list(_KEYS).index(point.standing))
    texts = [wrapped(point.name, 1.7) for point in order]
    sizes = [(block_width(text) + 0.04, block_height(text)) for text in texts]
    dots = [plane.inches(point.x, point.y) for point in others]
    filled = [Box(x - 0.03, y - 0.03, x + 0.03, y + 0.03) for x, y in dots]
    spots = [plane.inches(point.x, point.y) for point in order]
    boxes: list[Box | None] = [None]
    for kept_free in ([*filled, *_on_crosses(plane, named)], filled, []):
        if None in boxes:  # rather a name on what matters less than no name
            boxes = beside(spots, sizes, plane.room, kept_free)
    for point, text, (x, y), box in zip(order, texts, spots, boxes, strict=True):
        if box is None:
            continue
        middle = (box.bottom + box.top) / 2
        near = (min(max(x, box.left), box.right), min(max(y, box.bottom), box.top))
        if (near[0] - x) ** 2 + (near[1] - y) ** 2 > 0.2**2:
            ends = [(x / plane.across, near[0] / plane.across), (y / plane.up, near[1] / plane.up)]
            plane.axes.plot(*ends, transform=plane.axes.transAxes, color=GREY, linewidth=0.6)
        plane.write(
            box.left + 0.02,
            middle,
            text,
            va="center",
            alpha=QUIET if point.standing == "behind" else 1.0,
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},
        )
    return boxes.count(None)
