"""One replication as a calendar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.plots.charts import Scale
from analysis.plots.numbers import told
from analysis.plots.scales import scale_x
from analysis.plots.sheet import Entry, Margins, open_sheet
from analysis.plots.style import FAINT, GREY, HUES, INK, style
from analysis.plots.texts import LINE, TEXT, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_HAIR = 0.5
"""Width of the edge of a phase [pt], so that short ones are seen."""


def draw_calendar(chart: Calendar) -> Figure:
    """Draw rows of days below each other, coloured by what the job did; the key says how much of each there is."""
    rows = max(math.ceil(chart.days / chart.row_days - 1e-9), 1)
    high = max(min(8.0 / rows, 0.26), 0.09)
    names = [_row_name(chart, row) for row in range(rows)]
    stride = math.ceil(LINE * TEXT / 72 / high)
    left = 0.2 + max(width_of(name) for name in names)
    with style():
        note = "Short phases are drawn a hair wider than they are."
        figure, axes = open_sheet(chart.title, high * rows, Margins(left, 0.2, 0.05, 0.48), note, _key(chart))
        axes.grid(visible=False)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_yticks(range(0, rows, stride), names[::stride])
        title = "day" if rows == 1 else "days since the row began"
        scale_x(axes, Scale(title), (0.0, chart.row_days))
        for bucket in _buckets(chart):
            _draw_bucket(axes, chart, bucket)
    return figure


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


def _draw_bucket(axes: Axes, chart: Calendar, bucket: str) -> None:
    """Draw all phases of a bucket, cut where rows end."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    color, alpha = BUCKETS.get(bucket, _OTHER)
    pieces = [piece for phase in chart.phases if phase.bucket == bucket for piece in _pieces(chart, phase)]
    corners = [
        ((start, row - _HALF), (end, row - _HALF), (end, row + _HALF), (start, row + _HALF), (start, row - _HALF))
        for row, start, end in pieces
    ]
    path = Path.make_compound_path(*(Path(each, closed=True) for each in corners))
    edge = 0.0 if bucket == "productive" else _HAIR
    axes.add_patch(PathPatch(path, facecolor=color, edgecolor=color, linewidth=edge, alpha=alpha, gid=bucket))


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
