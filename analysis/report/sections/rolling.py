"""Goodput day by day: how far single days are from the mean."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from analysis.cells import time_text
from analysis.plots.charts import Curves, Scale, Series
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import percent
from sim import JOB_BUCKETS, Bucket, units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from sim import Result

__all__ = ["section", "shares_of_windows"]

_DAY = units.DURATION.units["d"]
_FEWEST_WINDOWS, _FEWEST_RUNS = 5, 5
_PLAIN = 2
"""Curves without those of tenths."""
_TENTHS = (("one run in ten above", 0.9), ("one run in ten below", 0.1))


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    typical = shares_of_windows([focus.typical])[0]
    known = typical[~np.isnan(typical)]
    if known.size < _FEWEST_WINDOWS:
        return None
    width = focus.prepared.windows
    assert width is not None, "windows have a width"
    window = "day" if width == _DAY else f"window of {time_text(width)}"
    title = (
        f"A typical run keeps between {percent(known.min())} and {percent(known.max())} of the GPU-time of a {window}"
    )
    each = shares_of_windows(focus.ensemble.results)
    chart = _chart(title, window, focus.typical.edges, typical, each, focus.ensemble.results)
    alt = (
        f"ETTR in each {window} of one run: from {percent(known.min())} to {percent(known.max())}, half of them above "
        f"{percent(float(np.median(known)))}."
    )
    caption = f"Share of the GPU-time requested in each {window} that was training whose result was kept."
    if len(chart.series) > _PLAIN:
        caption += f" Dashed: four fifths of the {len(each)} runs that were played again lie between."
    picture = Picture("day-by-day", chart, alt, caption, _table(known, each, window))
    return Section("day-by-day", title, _text(known, window), (picture,), _notes(focus))


def shares_of_windows(results: Sequence[Result]) -> NDArray[np.float64]:
    """Return the ETTR of each window of each replication [-]; NaN where nothing was requested.

    Returns
    -------
    (replications, windows) array
        Shares; windows that a replication did not reach, or whose end it did not reach, are NaN.
    """
    longest = max(_whole_windows(result) for result in results)
    found = np.full((len(results), longest), np.nan)
    for row, result in enumerate(results):
        productive, requested = _sums(result)
        found[row, : len(productive)] = np.divide(
            productive, requested, out=np.full_like(productive, np.nan), where=requested > 0
        )
    return found


def _whole_windows(result: Result) -> int:
    """Return how many windows are as long as the first: the last one often is not."""
    widths = np.diff(result.edges)
    return int(np.sum(widths >= widths[0] * (1 - 1e-9)))


def _sums(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return productive and requested GPU-time of all jobs by whole window [GPU s]."""
    whole = slice(_whole_windows(result))
    by_bucket = np.sum([job.totals[whole, : len(JOB_BUCKETS)].sum(axis=2) for job in result.jobs], axis=0)
    return by_bucket[:, Bucket.PRODUCTIVE], by_bucket.sum(axis=1)


def _chart(
    title: str,
    window: str,
    edges: NDArray[np.float64],
    typical: NDArray[np.float64],
    each: NDArray[np.float64],
    results: Sequence[Result],
) -> Curves:
    """Return the typical run, and where there are several the mean of all and where four fifths of them lie."""
    count = len(typical)
    middle = tuple((float(low) + float(high)) / 2 / _DAY for low, high in itertools.pairwise(edges[: count + 1]))
    series = [Series("typical run", middle, tuple(_percent(share) for share in typical), look="line", hue=1)]
    if len(results) > 1:
        sums = [np.zeros((2, count)) for _ in results]
        for table, result in zip(sums, results, strict=True):
            pair = np.array(_sums(result))[:, :count]
            table[:, : pair.shape[1]] = pair
        productive, requested = np.sum(sums, axis=0)
        mean = tuple(
            100 * float(amount) / float(base) if base else None
            for amount, base in zip(productive, requested, strict=True)
        )
        series.append(Series(f"mean of {len(results)} runs", middle, mean))
        series += _tenths(middle, each[:, :count])
    y = Scale(f"ETTR of a {window} [%]")
    return Curves(title, Scale("days"), y, tuple(series))


def _tenths(middle: tuple[float, ...], each: NDArray[np.float64]) -> list[Series]:
    """Return below and above what one run in ten is [%], in windows that enough of them reached."""
    if len(each) < _FEWEST_RUNS:
        return []
    found = []
    for name, level in _TENTHS:
        columns = [column[~np.isnan(column)] for column in each.T]
        heights = (100 * float(np.quantile(seen, level)) if len(seen) >= _FEWEST_RUNS else None for seen in columns)
        found.append(Series(name, middle, tuple(heights), look="dashed", hue=-1))
    return found


def _percent(share: float) -> float | None:
    return None if np.isnan(share) else 100 * float(share)


def _table(known: NDArray[np.float64], each: NDArray[np.float64], window: str) -> Grid:
    """Return how the windows of the typical run, and of all, are spread."""
    everyone = each[~np.isnan(each)]
    rows = []
    for name, level in (("worst", 0.0), ("one in ten is below", 0.1), ("half are below", 0.5), ("best", 1.0)):
        cells = [percent(float(np.quantile(values, level))) for values in (known, everyone)]
        rows.append((name, *cells))
    heads = ("typical run", f"all {len(each)} runs")
    return Grid(f"ETTR of a {window}", (Column("", is_number=False), *map(Column, heads)), rows)


def _text(known: NDArray[np.float64], window: str) -> tuple[str, ...]:
    low = float(np.quantile(known, 0.1))
    return (
        f"One {window} of the same run is not like another: the worst of {known.size} has an ETTR of "
        f"{percent(float(known.min()))}, one in ten is below {percent(low)}, and half are below "
        f"{percent(float(np.median(known)))}.",
    )


def _notes(focus: Focus) -> tuple[str, ...]:
    found = [f"Of {focus.name}: replication {focus.typical.replication} is the typical run."]
    if len(focus.typical.jobs) > 1:
        found.append("All jobs together.")
    return tuple(found)
