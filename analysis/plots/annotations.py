"""What is written into pictures of curves: places on the axis, ground that is extrapolated, and measured values."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.plots.placing import Box, beside, lanes
from analysis.plots.scales import share
from analysis.plots.style import FAINT, GREY, INK
from analysis.plots.texts import LINE, TEXT, block_height, block_width, cut, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.plots.charts import Curves, Dot, Range, Series
    from analysis.plots.plane import Plane

__all__ = ["Above", "above_of", "draw_above", "draw_dots", "draw_levels"]

_LINE = LINE * TEXT / 72
_WORD = 3.4
"""Width of a name above the axes at most [in]."""
_NAME = 1.7
"""Width of the name of a measured value at most [in]."""


class Above(NamedTuple):
    """Names above the axes: each with where it begins and its lane; and how high all lanes are [in]."""

    names: tuple[tuple[str, float, int], ...]
    height: float


def above_of(chart: Curves, ends: Range, across: float, right: float) -> Above:
    """Return where the names of places on the axis go, and that of extrapolated ground.

    Parameters
    ----------
    ends
        Of the axis.
    across, right
        Its length, and the room at the right of it [in].
    """
    wanted = [*chart.edges, *([chart.shaded_from] if _is_shaded(chart, ends) and chart.shaded_from else [])]
    stems = [across * max(share(place, ends, chart.x.is_log), 0.0) for place, _ in wanted]
    words = [cut(name, min(_WORD, across)) for _, name in wanted]
    placed = lanes(stems, [width_of(word) + 0.1 for word in words], across + right - 0.1)
    names = tuple((word, start, lane) for word, (start, lane) in zip(words, placed, strict=True))
    return Above(names, _LINE * max((lane + 1 for _, _, lane in names), default=0))


def _is_shaded(chart: Curves, ends: Range) -> bool:
    return chart.shaded_from is not None and chart.shaded_from[0] < ends[1]


def draw_above(plane: Plane, chart: Curves, above: Above) -> None:
    """Draw places on the axis as lines up to their names, and shade what is extrapolated."""
    if chart.shaded_from is not None and _is_shaded(chart, plane.x_ends):
        plane.axes.axvspan(
            max(chart.shaded_from[0], plane.x_ends[0]), plane.x_ends[1], color=FAINT, alpha=0.7, linewidth=0, zorder=0
        )
    for (place, _), (_, _, lane) in zip(chart.edges, above.names, strict=False):
        top = 1 + (lane + 0.8) * _LINE / plane.up
        plane.axes.plot(
            [place, place], [0, top], transform=plane.axes.get_xaxis_transform(), color=INK, linewidth=1.0,
            linestyle=(0, (1, 1.5)), clip_on=False,
        )  # fmt: skip
    for word, start, lane in above.names:
        plane.write(start + 0.05, plane.up + (lane + 0.5) * _LINE, word)


def draw_levels(plane: Plane, chart: Curves) -> None:
    """Draw heights to hold the curves against; their names stand with those of the curves."""
    for level, _ in chart.levels:
        plane.axes.axhline(level, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))


def draw_dots(plane: Plane, chart: Curves) -> int:
    """Draw measured values with their names beside them; return for how many names there is no room."""
    spots = [plane.inches(dot.x, dot.y) for dot in chart.dots]
    texts = [_named(dot) for dot in chart.dots]
    sizes = [(block_width(text) + 0.04, block_height(text)) for text in texts]
    room = plane.room
    clear = beside(spots, sizes, room, _on_lines(plane, chart.series))
    boxes = clear if None not in clear else beside(spots, sizes, room, [])
    for dot, text, (x, y), box in zip(chart.dots, texts, spots, boxes, strict=True):
        plane.axes.plot(
            [dot.x], [dot.y], marker="D", markersize=5.5, color=INK, markeredgecolor="white", zorder=4, clip_on=False
        )
        if box is None:
            continue
        near = (min(max(x, box.left), box.right), min(max(y, box.bottom), box.top))
        if (near[0] - x) ** 2 + (near[1] - y) ** 2 > 0.2**2:
            ends = [(x / plane.across, near[0] / plane.across), (y / plane.up, near[1] / plane.up)]
            plane.axes.plot(*ends, transform=plane.axes.transAxes, color=GREY, linewidth=0.6)
        plane.write(box.left + 0.02, (box.bottom + box.top) / 2, text, va="center", zorder=5)
    return boxes.count(None)


def _named(dot: Dot) -> str:
    """Return the name of a measured value with who measured it, if that is short enough to be read in a picture."""
    text = wrapped(f"{dot.name} ({dot.source})", _NAME) if dot.source else dot.name
    return text if dot.source and text.endswith(")") and "…" not in text else wrapped(dot.name, _NAME)


def _on_lines(plane: Plane, series: Sequence[Series]) -> list[Box]:
    """Return small rectangles along the curves, which names should not cover."""
    found = []
    for each in series:
        spots = [plane.inches(x, y) for x, y in zip(each.x, each.y, strict=True) if y is not None]
        for (x, y), (end_x, end_y) in itertools.pairwise(spots):
            count = max(int(np.hypot(end_x - x, end_y - y) / 0.08), 1)
            for part in np.linspace(0.0, 1.0, min(count, 60), endpoint=False).tolist():
                middle = (x + part * (end_x - x), y + part * (end_y - y))
                found.append(Box(middle[0] - 0.03, middle[1] - 0.03, middle[0] + 0.03, middle[1] + 0.03))
    return found
