"""The picture of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.drawing_parts import draw_parts, is_small
from analysis.drawing_tiers import draw_tiers
from analysis.plots.style import INK, hue, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.drawing import Box, Text
    from sim import Topology

__all__ = ["draw_topology"]


def draw_topology(topology: Topology) -> Figure:
    """Draw a cluster: every host, switch and cable of a small one, the tiers of a large one.

    Parameters
    ----------
    topology
        The cluster.
    """
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure

    drawing = draw_parts(topology) if is_small(topology) else draw_tiers(topology)
    with style():
        figure = Figure(figsize=(drawing.width, drawing.height))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set(xlim=(0.0, drawing.width), ylim=(0.0, drawing.height))
        bands = drawing.bands
        axes.add_collection(
            PolyCollection(
                [band.corners for band in bands], facecolors=[hue(band.hue) for band in bands], alpha=0.28, zorder=1
            )
        )
        lines = drawing.lines
        axes.add_collection(
            LineCollection(
                [line.ends for line in lines],
                colors=[hue(line.hue) for line in lines],
                linewidths=[line.weight for line in lines],
                alpha=drawing.opacity,
                zorder=2,
            )
        )
        for box in drawing.boxes:
            _draw_box(axes, box)
        for text in drawing.texts:
            _draw_text(axes, text)
    return figure


def _draw_box(axes: Axes, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    color = hue(box.hue)
    rounding = min(0.04, box.width / 4, box.height / 4)
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2 + rounding, box.y - box.height / 2 + rounding),
            box.width - 2 * rounding,
            box.height - 2 * rounding,
            boxstyle=f"round,pad={rounding}",
            facecolor="#f6f7f8" if box.frame else "white",
            edgecolor="#d5d8dc" if box.frame else color,
            linewidth=0.8 if box.frame else 1.1,
            zorder=0 if box.frame else 4,
        )
    )
    if not box.frame and box.words:
        axes.text(
            box.x, box.y, box.words, ha="center", va="center", size=box.size, color=INK, linespacing=1.35, zorder=5
        )


def _draw_text(axes: Axes, text: Text) -> None:
    axes.text(
        text.x,
        text.y,
        text.words,
        ha=text.align,
        va="center",
        size=text.size,
        color=hue(text.hue) if text.hue is not None else INK,
        weight="bold" if text.bold else "normal",
        linespacing=1.35,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2} if text.opaque else None,
    )
