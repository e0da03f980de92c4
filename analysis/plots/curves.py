"""Curves over a common axis."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.annotations import above_of, draw_above, draw_dots, draw_levels
from analysis.plots.lines import draw_series, drawable, ends_of, key_of, last
from analysis.plots.panels import draw_panels
from analysis.plots.placing import pushed_apart
from analysis.plots.plane import left_of, open_plane
from analysis.plots.sheet import WIDTH, open_message
from analysis.plots.style import GREY, hue, style
from analysis.plots.texts import block_height, block_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from analysis.plots.charts import Curves, Series
    from analysis.plots.plane import Plane

__all__ = ["draw_curves"]

_MANY = 8
"""More curves than these have a panel each."""
_LABEL = 1.75
"""Width of a name at the right at most [in]."""
_LEADER = 0.28
"""From the axes to the names at their right [in]."""
_TOGETHER = 0.06
"""Curves that are not further apart than this are together there [in]."""
_FAR = 0.4
"""Curves that end so far from the right end have a thin dotted leader, which nobody takes for a curve [in]."""


class _Label(NamedTuple):
    """A name at the right: its lines, the point that it belongs to, its colour, its look, and its curve."""

    text: str
    x: float
    y: float
    color: str
    is_dashed: bool
    series: Series | None = None


def draw_curves(chart: Curves) -> Figure:
    """Draw curves with their intervals and bands; names stand at their right ends.

    More than eight curves are drawn in a panel each, in front of all the others.
    """
    chart = drawable(chart)
    if not chart.series and not chart.dots:
        return open_message(chart.title, "There are no values to draw.")
    if len(chart.series) > _MANY:
        return draw_panels(chart)
    figure, nameless = _draw(chart, "")
    return _draw(chart, f"There is no room for {nameless} of the names.")[0] if nameless else figure


def _draw(chart: Curves, note: str) -> tuple[Figure, int]:
    """Return the figure, and how many names of measured values it has no room for."""
    ends = ends_of(chart)
    labels = _labels(chart, ends[0][1])
    right = max((block_width(label.text) + _LEADER + 0.1 for label in labels), default=0.25)
    height = max(3.2, sum(block_height(label.text) for label in labels) + 0.1)
    above = above_of(chart, ends[0], WIDTH - right - left_of(chart.y, ends[1]), right)
    with style():
        plane = open_plane(
            chart.title, (chart.x, chart.y), ends, height=height, right=right, above=above.height, note=note,
            key=key_of(chart.series),
        )  # fmt: skip
        draw_above(plane, chart, above)
        draw_levels(plane, chart)
        for each in chart.series:
            draw_series(plane.axes, each)
        _write_labels(plane, labels)
        nameless = draw_dots(plane, chart)
    return plane.figure, nameless


def _labels(chart: Curves, end: float) -> list[_Label]:
    """Return the names of curves and levels."""
    found = [
        _Label(wrapped(each.name, _LABEL), *last(each), hue(each.hue), each.look == "dashed", each)
        for each in chart.series
        if each.name
    ]
    found += [_Label(wrapped(name, _LABEL), end, level, GREY, is_dashed=True) for level, name in chart.levels if name]
    return found


def _write_labels(plane: Plane, labels: Sequence[_Label]) -> None:
    """Write names at the right of the axes, each joined to the end of its curve."""
    labels = _in_order(plane, labels)
    spots = [plane.inches(label.x, label.y) for label in labels]
    sizes = [block_height(label.text) for label in labels]
    # As they are in order, the height of each is that of the one below at least.
    heights = pushed_apart(list(itertools.accumulate((y for _, y in spots), max)), sizes, -0.1, plane.up)
    for label, (x, y), height in zip(labels, spots, heights, strict=True):
        leader = [x, plane.across + 0.06, plane.across + _LEADER - 0.05]
        is_far = plane.across - x > _FAR
        dashes = (0, (1, 3)) if is_far else (0, (3, 1.5)) if label.is_dashed else "-"
        plane.axes.plot(
            [place / plane.across for place in leader], [each / plane.up for each in (y, y, height)],
            transform=plane.axes.transAxes, color=label.color, linewidth=0.7 if is_far else 1.2,
            alpha=0.8, clip_on=False, linestyle=dashes,
        )  # fmt: skip
        plane.write(plane.across + _LEADER, height, label.text, va="center")


def _in_order(plane: Plane, labels: Sequence[_Label]) -> list[_Label]:
    """Return names from below to above; those of curves that end together as the curves were before they met.

    Curves that are together all along keep the order in which they are given, the first at the top.
    """

    def compare(one: _Label, other: _Label) -> int:
        if one.series is not None and other.series is not None:
            heights = [dict(zip(each.x, each.y, strict=True)) for each in (one.series, other.series)]
            for place in sorted(heights[0].keys() & heights[1].keys(), reverse=True):
                pair = [each[place] for each in heights]
                ends = [plane.inches(place, y)[1] for y in pair if y is not None]
                if len(ends) == len(pair) and abs(ends[0] - ends[1]) > _TOGETHER:
                    return 1 if ends[0] > ends[1] else -1
        return 0

    found: list[_Label] = []
    at = [(plane.inches(label.x, label.y)[1], label) for label in reversed(labels)]
    at.sort(key=lambda pair: pair[0])
    while at:
        count = next((n for n in range(1, len(at)) if at[n][0] - at[n - 1][0] > _TOGETHER), len(at))
        names = [label for label in reversed(labels) if any(label is each for _, each in at[:count])]
        found += sorted(names, key=functools.cmp_to_key(compare))
        at = at[count:]
    return found
