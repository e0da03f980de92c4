"""Tables whose cells are shaded by their values, calendars, and the figures that only pages of the docs show."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.analysis.amounts import decimals_of, number_text, with_unit
from ettrick.analysis.metrics import BUCKETS, bucket_label
from ettrick.analysis.page.charts.data import Calendar, ChartAxis, HeatMap
from ettrick.analysis.page.charts.sheet import (
    FAINT,
    INK,
    LINE,
    RAMP,
    TEXT,
    WIDTH,
    LegendEntry,
    Margins,
    block_height,
    block_width,
    chart_kind,
    cut,
    hue,
    named_rows,
    on,
    open_sheet,
    scale_x,
    sized,
    width_of,
    wrapped,
)
from ettrick.sim import units
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

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
    margins = Margins(left, width - left - count * cells.across, top, 0.1)
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


# ----------------------------------------
# One replication as a calendar.

_HALF = 0.38  # half the height of a row that is filled, in rows
_COLUMNS = 200  # columns of a row at most: narrower ones could not be seen

# How long a column may be [h]; where none is long enough, it is a number of days.
_HOURS = (1 / 60, 1 / 30, 1 / 12, 1 / 6, 1 / 4, 1 / 2, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 24.0)


def color_of(bucket: str) -> tuple[str, float]:
    """Return the colour and the opacity of a bucket; faint for what is none."""
    found = BUCKETS.get(bucket)
    return (FAINT, 1.0) if found is None else (hue(found.hue), found.opacity)


@chart_kind(Calendar)
def draw_calendar(chart: Calendar) -> Figure:
    """Draw rows of days below each other, coloured by what the job did; the key says how much of each there is.

    A row is made of columns, and each column is filled with the shares of its time: however short phases are, the area
    of a colour is the time that it stands for.
    """
    rows = max(math.ceil(chart.days / chart.row_days - 1e-9), 1)
    high = max(min(8.0 / rows, 0.45), 0.09)
    names = [f"day {chart.row_days * row + 1:,.6g}" for row in range(rows)]
    stride = math.ceil(LINE * TEXT / 72 / high)
    least = 24 * min(chart.row_days, chart.days) / _COLUMNS
    hours = next((hours for hours in _HOURS if hours >= least), 24.0 * math.ceil(least / 24))
    spent = chart.spent()
    buckets = [*(name for name in BUCKETS if name in spent), *sorted(spent.keys() - BUCKETS.keys())]
    total = sum(spent.values()) or 1.0
    key = [
        LegendEntry(f"{bucket_label(name)} {number_text(100 * spent[name] / total, 1)} %", *color_of(name))
        for name in buckets
    ]
    note = f"Each column is {units.show(hours * HOUR, units.DURATION)}; its colours are the shares of that time."
    margins = Margins(0.2 + max(map(width_of, names)), 0.2, 0.05, 0.48)
    figure, axes = open_sheet(chart.title, high * rows, margins, note, key)
    axes.grid(visible=False)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(0, rows, stride), names[::stride])
    scale_x(axes, ChartAxis("day" if rows == 1 else "days since the row began"), (0.0, chart.row_days))
    # What is lost stands on the ground, what is productive is above it.
    _fill_columns(axes, chart, rows, hours / 24, sorted(buckets, key=lambda bucket: bucket == "productive"))
    return figure


def _fill_columns(axes: Axes, chart: Calendar, rows: int, width: float, buckets: Sequence[str]) -> None:
    """Fill the columns of all rows with buckets, from below; a column is so wide [d]."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    edges = np.append(np.arange(math.ceil(chart.row_days / width - 1e-9)) * width, chart.row_days)
    starts = chart.row_days * np.arange(rows)[:, None]
    ends = np.minimum(edges, np.clip(chart.days - starts, 0, chart.row_days))  # the last row may end within a column
    lengths = np.diff(ends)
    tops = np.zeros(lengths.shape)
    for bucket in buckets:
        phases = sorted((phase.start, phase.end) for phase in chart.phases if phase.bucket == bucket)
        lasted = np.repeat(np.cumsum([0.0, *(end - start for start, end in phases)]), 2)[1:-1]
        spent = np.diff(np.interp(starts + ends, [time for phase in phases for time in phase], lasted))
        shares = np.divide(spent, lengths, out=np.zeros_like(spent), where=lengths > 0)
        tops = tops + shares
        corners = [_corners(ends[row], row, *run) for row in range(rows) for run in _runs(tops[row], shares[row])]
        path = Path.make_compound_path(*(Path(each, closed=True) for each in corners))
        color, alpha = color_of(bucket)
        axes.add_patch(PathPatch(path, facecolor=color, linewidth=0, alpha=alpha, gid=bucket))


def _runs(tops: NDArray[np.float64], shares: NDArray[np.float64]) -> Iterator[tuple[int, int, float, float]]:
    """Yield columns side by side that are filled alike: the first, the one after the last, and from where to where."""
    spans = np.round(np.stack([tops - shares, tops]), 6)
    cuts = np.flatnonzero((spans[:, 1:] != spans[:, :-1]).any(axis=0)) + 1
    for first, last in itertools.pairwise([0, *cuts.tolist(), len(tops)]):
        low, high = spans[:, first].tolist()
        if high > low:
            yield first, last, low, high


def _corners(
    ends: NDArray[np.float64], row: int, first: int, last: int, low: float, high: float
) -> tuple[tuple[float, float], ...]:
    start, end = ends[[first, last]].tolist()
    bottom, top = (row + _HALF * (1 - 2 * share) for share in (low, high))
    return (start, bottom), (end, bottom), (end, top), (start, top), (start, bottom)
