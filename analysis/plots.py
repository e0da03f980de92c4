"""Pictures: one function a figure, which takes plain data and returns a matplotlib figure."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import TYPE_CHECKING, Any

from analysis.drawing_parts import draw_parts, is_small
from analysis.drawing_tiers import draw_tiers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.drawing import Box, Text
    from sim import Topology

__all__ = ["SUFFIXES", "draw_topology", "render", "style"]

SUFFIXES = (".svg", ".png", ".pdf")
"""Formats of pictures, by the end of the file's name."""

_HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D1F")
"""Colours that the colour-blind tell apart, after Okabe and Ito; the last two replace black and yellow."""

_GREY, _INK = "#8a8f98", "#22262b"


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set the one style of all pictures: plain type on white, and the same bytes from the same data."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "text.color": _INK,
        "savefig.dpi": 200,
        "svg.hashsalt": "ettrick",
        "path.simplify": False,
        "text.parse_math": False,  # a dollar in a name is a dollar
    }
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # not those of the person who draws
        mpl.rcParams.update(settings)
        # A letter that the face lacks is shown as a box; that is all there is to say.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as the content of a file: the same bytes each time.

    Parameters
    ----------
    figure
        The picture.
    suffix
        One of ``SUFFIXES``.
    """
    without_dates: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "Ettrick"},
        ".png": {"Software": "Ettrick"},
        ".pdf": {"CreationDate": None, "Creator": "Ettrick"},
    }
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=without_dates[suffix])
    return content.getvalue()


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
                [band.corners for band in bands], facecolors=[_hue(band.hue) for band in bands], alpha=0.28, zorder=1
            )
        )
        lines = drawing.lines
        axes.add_collection(
            LineCollection(
                [line.ends for line in lines],
                colors=[_hue(line.hue) for line in lines],
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


def _hue(number: int) -> str:
    """Return a colour; grey for what belongs to nothing in particular."""
    return _HUES[number % len(_HUES)] if number >= 0 else _GREY


def _draw_box(axes: Axes, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    color = _hue(box.hue)
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
            box.x, box.y, box.words, ha="center", va="center", size=box.size, color=_INK, linespacing=1.35, zorder=5
        )


def _draw_text(axes: Axes, text: Text) -> None:
    axes.text(
        text.x,
        text.y,
        text.words,
        ha=text.align,
        va="center",
        size=text.size,
        color=_hue(text.hue) if text.hue is not None else _INK,
        weight="bold" if text.bold else "normal",
        linespacing=1.35,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2} if text.opaque else None,
    )
