"""Tables whose cells are shaded by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.amounts import decimals_of, number_text, with_unit
from ettrick.analysis.page.charts.data import HeatMap
from ettrick.analysis.page.charts.sheet import (
    FAINT,
    INK,
    RAMP,
    TEXT,
    WIDTH,
    block_height,
    block_width,
    chart_kind,
    cut,
    named_rows,
    on,
    open_sheet,
    sized,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

_SMALLEST = 6.5  # least size of type in cells [pt]: below it the picture is made wider
_WIDEST = 1.4  # width of a cell at most [in]
_LONGEST = 3.0  # length of a label that stands upright at most [in]


@chart_kind(HeatMap)
def draw_heat_map(chart: HeatMap) -> Figure:
    """Draw a table: dark cells are those to look at, and every cell says its number."""
    from matplotlib.patches import Rectangle

    names, aside, least = named_rows(chart.rows, sized(2.0))
    count = max(len(chart.columns), 1)
    left = 0.25 + max(aside, width_of(chart.row_title, TEXT, is_bold=True))
    cells = _cells(chart.texts, (sized(WIDTH) - left - 0.15) / count)
    word = max((width_of(part) for text in chart.columns for part in text.split()), default=0.0)
    is_upright = word + 0.04 > cells.across
    heads = [
        cut(text, _LONGEST) if is_upright else wrapped(text, cells.across - 0.04, lines=3) for text in chart.columns
    ]
    head = max((block_width(text) if is_upright else block_height(text) for text in heads), default=0.0) + 0.08
    top = head + (block_height(chart.column_title) + 0.02 if chart.column_title else 0.0)
    width = max(sized(WIDTH), left + count * cells.across + 0.15)
    margins = (left, width - left - count * cells.across, top, 0.1)
    height = max(cells.up, least) * max(len(names), 1)
    figure, axes = open_sheet(chart.title, height, margins, _note(chart), width=width)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, count), ylim=(len(names), 0), xticks=[])
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    look: dict[str, Any] = {"textcoords": "offset points", "size": TEXT, "color": INK}
    for column, text in enumerate(heads):
        turn = 90 if is_upright else 0
        axes.annotate(text, (column + 0.5, 0), (0, 4), ha="center", va="bottom", rotation=turn, **look)
    axes.annotate(chart.column_title, (0, 0), (0, top * 72 - 2), va="top", weight="bold", **look)
    axes.annotate(chart.row_title, (0, 0), (-4, 4), ha="right", va="bottom", weight="bold", **look)
    for row, shades in enumerate(chart.shades()):
        for column, share in enumerate(shades):
            shade = None if share is None else min(int(share * len(RAMP)), len(RAMP) - 1)
            color, ink = (FAINT, INK) if shade is None else (RAMP[shade], on(shade))
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=1.0))
            place: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.1}
            axes.text(column + 0.5, row + 0.5, cells.texts[row][column], size=cells.size, color=ink, **place)
    return figure


class _Cells(NamedTuple):
    """How cells are written: their texts in lines, the size of type [pt], width and height of a cell [in]."""

    texts: list[list[str]]
    size: float
    across: float
    up: float


def _cells(texts: Sequence[Sequence[str]], room: float) -> _Cells:
    """Return how texts are written so that each fits into its cell: smaller, in two lines, or in wider cells."""
    longest = max((width_of(text) for row in texts for text in row), default=0.0)
    word = max((width_of(part) for row in texts for text in row for part in text.split()), default=0.0)
    across = min(room, _WIDEST)
    pad, size = 0.08, TEXT
    if longest + pad > across:
        # Two lines where words are short, else a smaller type, else more room.
        least = min(longest, max(word, longest * 0.62))
        size = min(max(TEXT * (across - pad) / least, _SMALLEST), TEXT)
        across = max(across, least * size / TEXT + pad)
    lines = [[wrapped(text, across - pad / 2, size, 3) for text in row] for row in texts]
    up = max((block_height(text, size) for row in lines for text in row), default=0.0)
    return _Cells(lines, size, across, max(up + 0.08, 0.24))


def _note(chart: HeatMap) -> str:
    unit = "" if chart.unit in ("", "%") else f" {chart.unit}"
    ends = chart.ends()
    if ends is None or ends[0] == ends[1]:
        return unit.strip()
    light, dark = (with_unit(number_text(value, decimals_of(ends)), chart.unit) for value in ends)
    return f"Darker is worse: from {light} to {dark}{unit}"


# How long a column may be [h]; where none is long enough, it is a number of days.
