"""The sheet that a picture is drawn on: its title, what to know to read it, a key, and axes with measured margins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.style import FAINT, GREY, INK, QUIET, style
from analysis.plots.texts import LINE, TEXT, TITLE, block_height, cut, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WIDTH", "Entry", "Margins", "named_rows", "open_message", "open_sheet"]

WIDTH = 7.0
"""Width of a picture [in]."""
_EDGE = 0.1
_SWATCH = 0.2


class Entry(NamedTuple):
    """An entry of a key: what it says, its colour, its opacity, and its mark: bar, line, dot or ring."""

    text: str
    color: str
    alpha: float = 1.0
    mark: str = "bar"


class Margins(NamedTuple):
    """Room around the axes for what is written there [in]."""

    left: float = 0.2
    right: float = 0.2
    top: float = 0.05
    bottom: float = 0.45


def open_sheet(
    title: str, body: float, margins: Margins, note: str = "", key: Sequence[Entry] = (), width: float = WIDTH
) -> tuple[Figure, Axes]:
    """Return a figure with a title at the left above, and axes below it.

    Parameters
    ----------
    title
        What the picture says, in as many lines as it takes (four at most).
    body
        Height of the axes [in].
    margins
        Room around the axes.
    note
        What to know to read it, below the title.
    key
        What colours mean, below that.
    width
        Of the figure [in].
    """
    from matplotlib.figure import Figure

    room = width - 2 * _EDGE
    title = wrapped(title, room, TITLE, 4, is_bold=True)
    note = wrapped(note, room, TEXT, 3)
    rows = _rows_of(key, room)
    heights = [block_height(title, TITLE) if title else 0.0, block_height(note) if note else 0.0]
    line = LINE * TEXT / 72 + 0.03
    head = _EDGE + sum(heights) + (0.05 if title and (note or rows) else 0.0) + line * len(rows) + 0.06
    height = head + margins.top + body + margins.bottom
    figure = Figure(figsize=(width, height))
    place: dict[str, Any] = {"transform": figure.dpi_scale_trans, "va": "top", "linespacing": LINE * 0.86}
    if title:
        figure.text(_EDGE, height - _EDGE, title, size=TITLE, weight="bold", color=INK, **place)
    below = height - _EDGE - heights[0] - 0.03
    if note:
        figure.text(_EDGE, below, note, size=TEXT, color=INK, alpha=QUIET, **place)
    for number, row in enumerate(rows):
        _draw_key(figure, row, below - heights[1] - line * (number + 0.5))
    across = width - margins.left - margins.right
    axes = figure.add_axes((margins.left / width, margins.bottom / height, across / width, body / height))
    axes.tick_params(colors=INK, length=0, labelsize=TEXT)
    axes.tick_params(axis="x", pad=7)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    return figure, axes


def _rows_of(key: Sequence[Entry], room: float) -> list[list[tuple[float, Entry]]]:
    """Return the lines of a key: each entry with the place where it begins [in]."""
    rows: list[list[tuple[float, Entry]]] = []
    end = room + 1
    for entry in key:
        text = cut(entry.text, room - _SWATCH)
        across = _SWATCH + width_of(text) + 0.2
        if end + across - 0.2 > room:
            rows.append([])
            end = 0.0
        rows[-1].append((_EDGE + end, entry._replace(text=text)))
        end += across
    return rows


def _draw_key(figure: Figure, row: Sequence[tuple[float, Entry]], height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    inches = figure.dpi_scale_trans
    for start, entry in row:
        look: dict[str, Any] = {"color": entry.color, "alpha": entry.alpha, "transform": inches}
        if entry.mark == "bar":
            figure.add_artist(Rectangle((start, height - 0.05), 0.13, 0.1, linewidth=0, **look))
        elif entry.mark in ("dot", "ring"):
            face = entry.color if entry.mark == "dot" else "white"
            figure.add_artist(Line2D([start + 0.07], [height], marker="o", markersize=5.5, mfc=face, **look))
        else:
            figure.add_artist(Line2D([start, start + 0.15], [height, height], linewidth=2, **look))
        figure.text(
            start + _SWATCH, height, entry.text, size=TEXT, color=INK, va="center_baseline", transform=inches
        )  # fmt: skip


def open_message(title: str, text: str) -> Figure:
    """Return a figure that has nothing to draw, and says why."""
    with style():
        figure, axes = open_sheet(title, 0.1, Margins(bottom=0.1), text)
        axes.set_axis_off()
    return figure


def named_rows(names: Sequence[str], room: float = 2.3) -> tuple[list[str], float, float]:
    """Return names of rows in lines, how wide the widest is, and how high each row has to be [in].

    Parameters
    ----------
    names
        What the rows are called.
    room
        Width for names at most [in].
    """
    lines = [wrapped(name, room, TEXT, 2) for name in names]
    across = max((width_of(line) for text in lines for line in text.split("\n")), default=0.0)
    return lines, across, max((block_height(text) for text in lines), default=0.2) + 0.1
