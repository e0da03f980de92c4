"""Curves as lines: what of them can be drawn, how far the axes have to go, and the drawing itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.plots.scales import extent
from analysis.plots.sheet import Entry
from analysis.plots.style import FAINT, INK, hue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from analysis.plots.charts import Curves, Range, Scale, Series

__all__ = ["BAND90", "CI95", "draw_series", "drawable", "ends_of", "key_of", "last"]

CI95, BAND90 = 0.32, 0.13
"""Opacities of 95 % intervals and of the wider bands."""
_FEW = 40
"""Up to so many values each has a mark."""


def drawable(chart: Curves) -> Curves:
    """Return a picture without what its axes cannot show, with curves in colours that tell them apart."""
    return chart._replace(
        series=tuple(_series_of(chart)),
        levels=tuple(level for level in chart.levels if _fits(level[0], chart.y)),
        edges=tuple(edge for edge in chart.edges if _fits(edge[0], chart.x)),
        dots=tuple(dot for dot in chart.dots if _fits(dot.x, chart.x) and _fits(dot.y, chart.y)),
    )


def _series_of(chart: Curves) -> list[Series]:
    """Return the curves that have something to be drawn."""
    found = []
    for series in chart.series:
        kept = [number for number, x in enumerate(series.x) if _fits(x, chart.x)]
        y = tuple(series.y[number] if _fits(series.y[number], chart.y) else None for number in kept)
        spans = [tuple(each[number] for number in kept if number < len(each)) for each in (series.ci95, series.band90)]
        if any(value is not None for value in y):
            x = tuple(series.x[number] for number in kept)
            found.append(series._replace(x=x, y=y, ci95=spans[0], band90=spans[1]))
    if len({(series.hue, series.look) for series in found}) == 1:
        found = [series._replace(hue=number) for number, series in enumerate(found)]
    return found


def _fits(value: float | None, scale: Scale) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not scale.is_log)


def ends_of(chart: Curves) -> tuple[Range, Range]:
    """Return the ends of both axes: all that is drawn is within them."""
    across = [x for each in chart.series for x in each.x]
    across += [place for place, _ in chart.edges] + [dot.x for dot in chart.dots]
    up = (
        [y for each in chart.series for y in each.y]
        + [level for level, _ in chart.levels]
        + [dot.y for dot in chart.dots]
    )
    up += [end for each in chart.series for span in (*each.ci95, *each.band90) if span is not None for end in span]
    x_ends, y_ends = extent(across, chart.x.is_log, 0.02), extent(up, chart.y.is_log)
    if not chart.y.is_log and y_ends[0] < 0 <= min((y for y in up if y is not None), default=0.0):
        y_ends = (0.0, y_ends[1])
    return x_ends, y_ends


def last(series: Series) -> tuple[float, float]:
    """Return the point where a curve ends at the right."""
    return max((x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None)


def key_of(series: Iterable[Series]) -> list[Entry]:
    """Return what shaded bands are, where there are some."""
    drawn = list(series)
    found = []
    if any(span is not None for each in drawn for span in each.ci95):
        found.append(Entry("95 % interval", INK, CI95))
    if any(span is not None for each in drawn for span in each.band90):
        found.append(Entry("90 % band: inputs that are not known exactly", INK, BAND90))
    return found


def draw_series(axes: Axes, series: Series, is_faint: bool = False) -> None:
    """Draw a curve and its bands; a faint one is only there to be held against."""
    color = FAINT if is_faint else hue(series.hue)
    heights = [math.nan if y is None else y for y in series.y]
    look: dict[str, Any] = {"color": color, "linewidth": 1.0 if is_faint else 1.8}
    if series.look == "step":
        look["drawstyle"] = "steps-post"
    if series.look == "dashed":
        look["linestyle"] = (0, (4, 2))
    if not is_faint:
        for spans, opacity in ((series.band90, BAND90), (series.ci95, CI95)):
            _draw_band(axes, series, spans, opacity, color)
    has_marks = len(series.x) == 1 or (series.look == "line" and len(series.x) <= _FEW and not is_faint)
    axes.plot(
        series.x, heights, marker="o" if has_marks else "", markersize=3.5, zorder=1.5 if is_faint else 2.5, **look
    )


def _draw_band(axes: Axes, series: Series, spans: Sequence[Range | None], opacity: float, color: str) -> None:
    """Shade between the ends of intervals; one that has no neighbour is a line."""
    low = axes.get_ylim()[0]
    ends = [(math.nan, math.nan) if span is None else (max(span[0], low), max(span[1], low)) for span in spans]
    known = [not math.isnan(start) for start, _ in ends]
    if not any(known):
        return
    axes.fill_between(
        series.x[: len(ends)], [start for start, _ in ends], [end for _, end in ends], color=color, alpha=opacity,
        linewidth=0, step="post" if series.look == "step" else None,
    )  # fmt: skip
    for number, is_known in enumerate(known):
        if is_known and not any(known[max(number - 1, 0) : number] + known[number + 1 : number + 2]):
            axes.plot([series.x[number]] * 2, ends[number], color=color, alpha=opacity, linewidth=4)
