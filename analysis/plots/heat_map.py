"""Tables whose cells are shaded by their values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.numbers import decimals_of, told, with_unit
from analysis.plots.sheet import WIDTH, Margins, named_rows, open_sheet
from analysis.plots.style import FAINT, INK, RAMP, on, style
from analysis.plots.texts import TEXT, block_height, block_width, cut, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import HeatMap

__all__ = ["draw_heat_map"]

_SMALLEST = 6.5
"""Least size of type in cells [pt]: below it the picture is made wider."""
_WIDEST = 1.4
"""Width of a cell at most [in]."""
_LONGEST = 3.0
"""Length of a label that stands upright at most [in]."""


class _Cells(NamedTuple):
    """How cells are written: their texts in lines, the size of type [pt], width and height of a cell [in]."""

    texts: list[list[str]]
    size: float
    across: float
    up: float


def draw_heat_map(chart: HeatMap) -> Figure:
    """Draw a table: dark cells are those to look at, and every cell says its number."""
    names, aside, least = named_rows(chart.rows, 2.0)
    count = max(len(chart.columns), 1)
    left = 0.25 + max(aside, width_of(chart.row_title, TEXT, is_bold=True))
    cells = _cells(chart.texts, (WIDTH - left - 0.15) / count)
    heads, is_upright = _heads(chart.columns, cells.across)
    head = max((block_width(text) if is_upright else block_height(text) for text in heads), default=0.0) + 0.08
    title = block_height(chart.column_title) + 0.02 if chart.column_title else 0.0
    width = max(WIDTH, left + count * cells.across + 0.15)
    margins = Margins(left, width - left - count * cells.across, head + title, 0.1)
    with style():
        figure, axes = open_sheet(
            chart.title, max(cells.up, least) * max(len(names), 1), margins, _note(chart), width=width
        )  # fmt: skip
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set(xlim=(0, count), ylim=(len(names), 0), xticks=[])
        axes.set_yticks([row + 0.5 for row in range(len(names))], names)
        _draw_heads(axes, heads, is_upright, chart, margins.top)
        shades = _shades(chart)
        for row, texts in enumerate(cells.texts):
            for column, text in enumerate(texts):
                _draw_cell(axes, row, column, text, cells.size, shades[row][column])
    return figure


def _cells(texts: Sequence[Sequence[str]], room: float) -> _Cells:
    """Return how texts are written so that each fits into its cell: smaller, in two lines, or in wider cells."""
    longest = max((width_of(text) for row in texts for text in row), default=0.0)
    word = max((width_of(part) for row in texts for text in row for part in text.split()), default=0.0)
    across = min(room, _WIDEST)
    pad = 0.08
    size = TEXT
    if longest + pad > across:
        # Two lines where words are short, else a smaller type, else more room.
        in_lines = max(word, longest * 0.62)
        fitting = TEXT * (across - pad) / min(longest, in_lines)
        size = min(max(fitting, _SMALLEST), TEXT)
        across = max(across, min(longest, in_lines) * size / TEXT + pad)
    lines = [[wrapped(text, across - pad / 2, size, 3) for text in row] for row in texts]
    up = max((block_height(text, size) for row in lines for text in row), default=0.0)
    return _Cells(lines, size, across, max(up + 0.08, 0.24))


def _heads(columns: Sequence[str], across: float) -> tuple[list[str], bool]:
    """Return the labels of the columns in lines, and whether they stand upright because they are too wide."""
    word = max((width_of(part) for text in columns for part in text.split()), default=0.0)
    if word + 0.04 <= across:
        return [wrapped(text, across - 0.04, TEXT, 3) for text in columns], False
    return [cut(text, _LONGEST) for text in columns], True


def _draw_heads(axes: Axes, heads: Sequence[str], is_upright: bool, chart: HeatMap, top: float) -> None:
    """Write the labels of the columns above them, and what rows and columns are."""
    for column, text in enumerate(heads):
        axes.annotate(
            text, (column + 0.5, 0), (0, 4), textcoords="offset points", ha="center", va="bottom", size=TEXT,
            color=INK, rotation=90 if is_upright else 0,
        )  # fmt: skip
    if chart.column_title:
        axes.annotate(
            chart.column_title, (0, 0), (0, top * 72 - 2), textcoords="offset points", va="top", size=TEXT, color=INK,
            weight="bold",
        )  # fmt: skip
    if chart.row_title:
        axes.annotate(
            chart.row_title, (0, 0), (-4, 4), textcoords="offset points", ha="right", va="bottom", size=TEXT,
            color=INK, weight="bold",
        )  # fmt: skip


def _note(chart: HeatMap) -> str:
    """Return what the shades say."""
    values = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    unit = "" if chart.unit in ("", "%") else f" {chart.unit}"
    if not values or min(values) == max(values):
        return unit.strip()
    decimals = decimals_of([min(values), max(values)])
    light, dark = (max(values), min(values)) if chart.high_is_good else (min(values), max(values))
    texts = [with_unit(told(value, decimals), chart.unit) for value in (light, dark)]
    return f"Darker is worse: from {texts[0]} to {texts[1]}{unit}"


def _shades(chart: HeatMap) -> list[list[int | None]]:
    """Return which shade each cell has; the darkest are the worst."""
    values = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)

    def shade(value: float | None) -> int | None:
        if value is None or not math.isfinite(value):
            return None
        share = (value - low) / (high - low) if high > low else 0.0
        share = 1 - share if chart.high_is_good and high > low else share
        return min(int(share * len(RAMP)), len(RAMP) - 1)

    return [[shade(value) for value in row] for row in chart.values]


def _draw_cell(axes: Axes, row: int, column: int, text: str, size: float, shade: int | None) -> None:
    from matplotlib.patches import Rectangle

    color = FAINT if shade is None else RAMP[shade]
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=1.0))
    axes.text(
        column + 0.5, row + 0.5, text, ha="center", va="center", size=size, color=INK if shade is None else on(shade),
        linespacing=1.1,
    )  # fmt: skip
