"""One replication as a calendar."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.charts import Scale
from analysis.plots.numbers import told
from analysis.plots.scales import scale_x
from analysis.plots.sheet import Entry, Margins, open_sheet
from analysis.plots.style import FAINT, GREY, HUES, INK, style
from analysis.plots.texts import LINE, TEXT, width_of
from sim import units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.plots.charts import Calendar, Phase

__all__ = ["BUCKETS", "draw_calendar"]

BUCKETS = {
    "productive": (HUES[0], 1.0),
    "degraded": (HUES[5], 1.0),
    "checkpoint_stall": (HUES[6], 1.0),
    "lost_work": (HUES[7], 1.0),
    "detection": (HUES[1], 1.0),
    "reschedule": (HUES[4], 1.0),
    "initialize": (HUES[2], 1.0),
    "restore": (HUES[3], 1.0),
    "starved": (GREY, 1.0),
    "queued": (GREY, 0.5),
    "maintenance": (INK, 0.7),
    "auxiliary": (INK, 0.3),
}
"""Colour and opacity of what a job does, in the order of the key."""

_OTHER = (FAINT, 1.0)
"""For what is none of them."""
_HALF = 0.38
"""Half the height of a row that is filled, in rows."""
_COLUMNS = 200
"""Columns of a row at most: narrower ones could not be seen."""
_HOURS = (1 / 60, 1 / 30, 1 / 12, 1 / 6, 1 / 4, 1 / 2, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 24.0)
"""How long a column may be [h]; where none is long enough, it is a number of days."""


def draw_calendar(chart: Calendar) -> Figure:
    """Draw rows of days below each other, coloured by what the job did; the key says how much of each there is.

    A row is made of columns, and each column is filled with the shares of its time: however short phases are, the area
    of a colour is the time that it stands for.
    """
    rows = max(math.ceil(chart.days / chart.row_days - 1e-9), 1)
    high = max(min(8.0 / rows, 0.45), 0.09)
    names = [_row_name(chart, row) for row in range(rows)]
    stride = math.ceil(LINE * TEXT / 72 / high)
    left = 0.2 + max(width_of(name) for name in names)
    hours = _column_hours(chart)
    with style():
        note = f"Each column is {units.show(hours * 3600, units.DURATION)}; its colours are the shares of that time."
        figure, axes = open_sheet(chart.title, high * rows, Margins(left, 0.2, 0.05, 0.48), note, _key(chart))
        axes.grid(visible=False)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_yticks(range(0, rows, stride), names[::stride])
        title = "day" if rows == 1 else "days since the row began"
        scale_x(axes, Scale(title), (0.0, chart.row_days))
        _draw_columns(axes, chart, rows, hours / 24)
    return figure


def _column_hours(chart: Calendar) -> float:
    """Return how long a column is [h]."""
    least = 24 * min(chart.row_days, chart.days) / _COLUMNS
    return next((hours for hours in _HOURS if hours >= least), 24.0 * math.ceil(least / 24))


def _row_name(chart: Calendar, row: int) -> str:
    return f"day {chart.row_days * row + 1:,.6g}"


def _buckets(chart: Calendar) -> list[str]:
    """Return what occurs, in the order of the key; what is not known comes last."""
    found = {phase.bucket for phase in chart.phases}
    return [*(name for name in BUCKETS if name in found), *sorted(found - BUCKETS.keys())]


def _key(chart: Calendar) -> list[Entry]:
    """Return the colours of what occurs, with its share of the time."""
    spent = dict.fromkeys(_buckets(chart), 0.0)
    for phase in chart.phases:
        spent[phase.bucket] += phase.end - phase.start
    total = sum(spent.values())
    return [
        Entry(f"{bucket.replace('_', ' ')} {told(100 * days / total, 1)} %", *BUCKETS.get(bucket, _OTHER))
        for bucket, days in spent.items()
        if total
    ]


def _draw_columns(axes: Axes, chart: Calendar, rows: int, width: float) -> None:
    """Fill the columns of all rows: what is lost stands on the ground, what is productive is above it.

    Parameters
    ----------
    width
        Of a column [d].
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    buckets = _buckets(chart)
    order = sorted(buckets, key=lambda bucket: bucket == "productive")
    edges = np.append(np.arange(math.ceil(chart.row_days / width - 1e-9)) * width, chart.row_days)
    # The last row may end within a column.
    ends = np.minimum(edges, np.clip(chart.days - chart.row_days * np.arange(rows), 0, chart.row_days)[:, None])
    spent = np.zeros((len(order), rows, len(edges) - 1))
    for phase in chart.phases:
        for row, start, end in _pieces(chart, phase):
            first, last = int(start // width), min(math.ceil(end / width), len(edges) - 1)
            within = np.minimum(edges[first + 1 : last + 1], end) - np.maximum(edges[first:last], start)
            spent[order.index(phase.bucket), row, first:last] += np.maximum(within, 0)
    lengths = np.diff(ends)
    shares = np.divide(spent, lengths, out=np.zeros_like(spent), where=lengths > 0)
    tops = np.cumsum(shares, axis=0)
    for bucket, high, share in zip(order, tops, shares, strict=True):
        color, alpha = BUCKETS.get(bucket, _OTHER)
        corners = [_corners(ends[row], row, *run) for row in range(rows) for run in _runs(high[row], share[row])]
        path = Path.make_compound_path(*(Path(each, closed=True) for each in corners))
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
    """Return the corners of a rectangle in a row, from share to share of its height."""
    start, end = ends[[first, last]].tolist()
    bottom, top = (row + _HALF * (1 - 2 * share) for share in (low, high))
    return (start, bottom), (end, bottom), (end, top), (start, top), (start, bottom)


def _pieces(chart: Calendar, phase: Phase) -> Iterator[tuple[int, float, float]]:
    """Yield the rows of a phase, and from when to when it fills each [days since the row began]."""
    row = int(phase.start // chart.row_days)
    end = min(phase.end, chart.days)
    while row * chart.row_days < end:
        start = max(phase.start - row * chart.row_days, 0.0)
        until = min(end - row * chart.row_days, chart.row_days)
        if until > start:
            yield row, start, until
        row += 1
