"""Axes with two scales: room for their labels, and from data to inches and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.placing import Box
from analysis.plots.scales import scale_x, scale_y, share, ticks_of
from analysis.plots.sheet import WIDTH, Margins, open_sheet
from analysis.plots.style import FAINT, INK, QUIET
from analysis.plots.texts import LINE, TEXT, cut, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Range, Scale
    from analysis.plots.sheet import Entry

__all__ = ["Plane", "left_of", "open_plane"]


class Plane(NamedTuple):
    """Axes of a known size.

    Parameters
    ----------
    figure, axes
        Where it is drawn.
    across, up
        Size of the axes [in].
    x, y, x_ends, y_ends
        The scales and their ends.
    """

    figure: Figure
    axes: Axes
    across: float
    up: float
    x: Scale
    y: Scale
    x_ends: Range
    y_ends: Range

    def inches(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is from the lower left corner of the axes [in]."""
        return self.across * share(x, self.x_ends, self.x.is_log), self.up * share(y, self.y_ends, self.y.is_log)

    @property
    def room(self) -> Box:
        """The axes, from their lower left corner [in]."""
        return Box(0.0, 0.0, self.across, self.up)

    def write(self, x: float, y: float, text: str, **look: object) -> None:
        """Write a text at a place from the lower left corner of the axes [in]."""
        place = {"transform": self.axes.transAxes, "size": TEXT, "color": INK, "va": "center_baseline", **look}
        self.axes.text(x / self.across, y / self.up, text, **place)  # type: ignore[arg-type]


def left_of(scale: Scale, ends: Range) -> float:
    """Return the room that the labels of a vertical axis take at the left of it [in]."""
    return max(0.2 + max((width_of(text) for _, text in ticks_of(scale, *ends, 7)), default=0.0), 0.35)


def open_plane(
    title: str,
    scales: tuple[Scale, Scale],
    ends: tuple[Range, Range],
    *,
    height: float = 3.2,
    right: float = 0.2,
    above: float = 0.0,
    note: str = "",
    key: Sequence[Entry] = (),
) -> Plane:
    """Return a figure with two scales; the title of the vertical one is above it, where it can be read.

    Parameters
    ----------
    scales, ends
        Horizontal and vertical.
    height
        Of the axes [in].
    right, above
        Room for labels at the right of the axes and above them [in].
    note, key
        What to know to read the picture.
    """
    (x, y), (x_ends, y_ends) = scales, ends
    left = left_of(y, y_ends)
    line = LINE * TEXT / 72
    margins = Margins(left, right, above + (line + 0.12 if y.title else 0.08), 0.48)
    figure, axes = open_sheet(title, height, margins, note, key)
    across = WIDTH - left - right
    axes.grid(axis="both", color=FAINT, linewidth=0.7)
    scale_x(axes, x, x_ends)
    scale_y(axes, y, y_ends)
    plane = Plane(figure, axes, across, height, x, y, x_ends, y_ends)
    if y.title:
        text = cut(y.title, WIDTH - 0.2)
        plane.write(0.1 - left, height + above + line / 2 + 0.1, text, alpha=QUIET)
    return plane
