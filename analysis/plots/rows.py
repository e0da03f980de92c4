"""Axes whose rows lie below each other: names at the left, values along a common scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.charts import Scale
from analysis.plots.scales import scale_x
from analysis.plots.sheet import WIDTH, Margins, named_rows, open_sheet
from analysis.plots.texts import block_width, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.sheet import Entry

__all__ = ["open_rows"]


def open_rows(
    title: str,
    names: Sequence[str],
    ends: tuple[float, float],
    unit: str,
    *,
    row: float = 0.26,
    before: Sequence[str] = (),
    behind: Sequence[str] = (),
    column: Sequence[str] = (),
    top: float = 0.05,
    note: str = "",
    key: Sequence[Entry] = (),
) -> tuple[Figure, Axes]:
    """Return a figure with one row for each name, the first at the top; row n is at height n of the axes.

    Parameters
    ----------
    names
        What the rows are called.
    ends
        Least and largest value that is drawn.
    unit
        Of the values.
    row
        Height of a row at least [in].
    before, behind
        Labels that are written at the left and right of what is drawn: there is room for the widest of them.
    column
        Labels that are written at the right of the axes.
    top
        Room above the axes [in].
    note, key
        What to know to read the picture.
    """
    lines, across, height = named_rows(names)
    aside = max((block_width(text) for text in column), default=0.0)
    margins = Margins(0.2 + across, 0.15 + (aside + 0.1 if column else 0.0), top, 0.34 if unit in ("", "%") else 0.5)
    figure, axes = open_sheet(title, max(row, height) * max(len(names), 1) + 0.05, margins, note, key)
    room = WIDTH - margins.left - margins.right
    pads = [max((width_of(text) + 0.1 for text in texts), default=0.03) for texts in (before, behind)]
    low, high = ends
    inch = (high - low) / max(room - sum(pads), 0.5)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), lines)
    scale_x(axes, Scale("" if unit == "%" else unit), (low - pads[0] * inch, high + pads[1] * inch), unit)
    return figure, axes
