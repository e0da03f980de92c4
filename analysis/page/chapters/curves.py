"""Curves of a study: a metric along an axis, which lines a picture shows, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ettrick.analysis.amounts import MetricFormat, capital, ends_of, label_text, name_of, number_of, verb
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.page.cells import (
    ChosenAxis,
    axes_of,
    band_text,
    bar,
    best_of,
    cell_mean,
    has_bands,
    levels_of,
    lines_along,
    mean_of,
    missing_text,
    running,
    summary_of,
)
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.model import Column, Figure, table_of
from ettrick.analysis.study.amounts import evenly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.results.studies import CellSummary, SweepDocument
    from ettrick.analysis.study.amounts import AxisSlice

    Lines = Sequence[AxisSlice[CellSummary]]


def known_lines(content: SweepDocument, axis: ChosenAxis, metric: MetricFormat) -> list[AxisSlice[CellSummary]]:
    """Return the lines along an axis with two means or more."""
    return [line for line in lines_along(content, axis) if len(_known(line, metric)) > 1]


def _known(line: AxisSlice[CellSummary], metric: MetricFormat) -> list[CellSummary]:
    return [cell for cell in line.cells if mean_of(cell, metric.metric) is not None]


def curves_picture(
    content: SweepDocument,
    axis: ChosenAxis,
    metric: MetricFormat,
    lines: Lines,
    key: str,
    *,
    title: str = "",
    edges: Sequence[tuple[float, str]] = (),
) -> Figure:
    """Return a metric along an axis, a curve for each of some lines; edges are places on it [SI], with names."""
    line_axes = [line_axis for line_axis in axes_of(content) if line_axis.name in lines[0].fixed]
    # All pictures of a study show the same lines in the same colours, those that are best by its headline.
    shown, titled, which = few_lines(lines, line_axes, content.metrics[0])
    formula = _formula(shown[0], axis, metric) if len(lines) == 1 else None
    title = title or curves_title(titled, axis, metric)
    chart = Curves(
        title,
        axis.scale,
        ChartAxis(metric.head),
        (*(series_of(line, axis, metric, hue) for hue, line in enumerate(shown)), *([formula] if formula else [])),
        tuple((level.height, level.name) for level in levels_of(content, axis, metric)),
        tuple((place / axis.size, name) for place, name in edges),
    )
    titles = " and ".join(line_axis.title for line_axis in line_axes)
    caption = (
        which or (f"One line for each {titles}." if titles and len(lines) > 1 else ""),
        "Dashed: the closed form, a formula without sampling error." if formula else "",
        missing_means(content, metric),
    )
    courses = "; ".join(_course(line, axis, metric) for line in shown[:4])
    alt = f"{capital(metric.name)} along {axis.title}. {courses}."
    return Figure(key, chart, alt, " ".join(filter(None, caption)), _table(shown, axis, metric, title))


def _course(line: AxisSlice[CellSummary], axis: ChosenAxis, metric: MetricFormat) -> str:
    cells = _known(line, metric)
    ends = [f"{metric.worded(summary_of(cell, metric.metric))} at {label_text(cell.values[axis.name])}"
            for cell in (cells[0], cells[-1])]  # fmt: skip
    return f"{f'{line.name}: ' if line.name else ''}from {ends[0]} to {ends[1]}"


def series_of(line: AxisSlice[Any], axis: ChosenAxis, metric: MetricFormat, hue: int = 0) -> Series:
    """Return the means of cells along an axis, with their intervals and bands."""
    bars = [bar("", metric, cell) for cell in line.cells]
    places = tuple((cell.numbers[axis.name] or 0.0) / axis.size for cell in line.cells)
    means, intervals, bands = zip(*(entry[1:4] for entry in bars), strict=True)
    return Series(line.name, places, means, intervals, bands if any(bands) else (), hue=hue)


def _formula(line: AxisSlice[CellSummary], axis: ChosenAxis, metric: MetricFormat) -> Series | None:
    """Return what the closed form says along a line; ``None`` where it says nothing, and for all but ETTR."""
    values = [cell.closed_form.ettr if cell.closed_form else None for cell in line.cells]
    if metric.metric != "ettr" or all(value is None for value in values):
        return None
    places = tuple((cell.numbers[axis.name] or 0.0) / axis.size for cell in line.cells)
    return Series("formula", places, tuple(metric.of(value) for value in values), look="dashed", hue=-1)


def _table(lines: Lines, axis: ChosenAxis, metric: MetricFormat, title: str) -> TableBlock:
    has_band = has_bands([cell for line in lines for cell in line.cells], metric.metric)
    cells = [_by_label(line, axis) for line in lines]
    columns: list[Column[str]] = [Column(capital(axis.title), label_text)]
    for line, by_label in zip(lines, cells, strict=True):
        columns += _line_columns(line.name or capital(metric.name), by_label, metric, has_band=has_band)
    labels = [label for label, _ in axis.values if any(label in by_label for by_label in cells)]
    return table_of(title, labels, columns, note=f"{capital(metric.name)}, mean and 95 % interval.")


def _by_label(line: AxisSlice[CellSummary], axis: ChosenAxis) -> dict[str, CellSummary]:
    return {cell.values[axis.name]: cell for cell in line.cells}


def _line_columns(
    title: str, cells: Mapping[str, CellSummary], metric: MetricFormat, *, has_band: bool
) -> Iterator[Column[str]]:
    yield Column(title, lambda label: cell_text(cells.get(label), metric))
    band = "90 % band of unknown inputs"
    yield Column(band, lambda label: band_text(cells[label], metric) if label in cells else "no results", has_band)


def cell_text(cell: CellSummary | None, metric: MetricFormat) -> str:
    """Return the mean of a cell with its interval, or why there is none."""
    if cell is None:
        return "no results"
    return metric.worded(summary_of(cell, metric.metric)) or missing_text(cell, metric.metric)


def missing_means(content: SweepDocument, metric: MetricFormat) -> str:
    """Return how many combinations have no mean, and why."""
    missing = [cell for cell in content.cells if cell.status != "ok"]
    unknown = [cell for cell in running(content) if summary_of(cell, metric.metric).mean is None]
    total = len(content.cells)
    texts = []
    if missing:
        texts.append(f"{len(missing)} of {number_of(total, 'combination')} cannot run or failed.")
    if unknown:
        texts.append(f"{len(unknown)} of {number_of(total, 'combination')} have no mean of {metric.name}.")
    return " ".join(texts)


# ----------------------------------------
# Which of many lines a picture shows.

MOST_LINES = 8  # lines that can be distinguished in a picture


def few_lines(lines: Lines, line_axes: Sequence[ChosenAxis], metric: str) -> tuple[Lines, Lines, str]:
    """Return the lines that a picture has room for, those its title is about, and which are shown; empty words for all.

    Where lines differ in several axes those are shown that differ from the best line in one of them alone: in that
    which moves the metric most. Else it is the best ones.
    """
    if len(lines) <= MOST_LINES:
        return lines, lines, ""
    ranked = _ranked(lines, metric)
    if len(line_axes) > 1:
        best = ranked[0].fixed

        def alike(axis: ChosenAxis) -> Lines:
            names = best.keys() - {axis.name}
            return [line for line in lines if all(line.fixed[name] == best[name] for name in names)]

        axis = max(line_axes, key=lambda axis: _spread(alike(axis), metric))
        varied = alike(axis)
        if len(varied) > 1:
            fixed = ", ".join(rest.phrase(best[rest.name]) for rest in line_axes if rest is not axis)
            shown = evenly(varied, MOST_LINES)
            part = f" {len(shown)} of its {len(varied)} values are shown." if len(shown) < len(varied) else ""
            named = [line._replace(name=axis.worded(line.fixed[axis.name])) for line in shown]
            return named, named, f"One line for each {axis.title}, with {fixed} as in the best combination.{part}"
    chosen = ranked[:MOST_LINES]
    which = f"Only the {MOST_LINES} best of {len(lines)} lines are shown, by {name_of(metric)}."
    return [line for line in lines if line in chosen], lines, which


def _ranked(lines: Lines, metric: str) -> list[AxisSlice[CellSummary]]:
    cells = [cell for line in lines for cell in line.cells]
    rank = {id(cell): position for position, cell in enumerate(best_of(cells, metric))}

    def place(line: AxisSlice[CellSummary]) -> float:
        return sum(rank.get(id(cell), len(rank)) for cell in line.cells) / len(line.cells)

    return sorted(lines, key=place)


def _spread(lines: Lines, metric: str) -> float:
    """Return how far lines are apart, by their means over all places."""
    means = []
    for curve in lines:
        values = [value for cell in curve.cells if (value := mean_of(cell, metric)) is not None]
        means += [sum(values) / len(values)] if values else []
    return max(means) - min(means) if means else 0.0


# ----------------------------------------
# What curves say, in a sentence that is worked out from their numbers.

_SAME = 1e-9


def curves_title(lines: Lines, axis: ChosenAxis, metric: MetricFormat) -> str:
    """Return what the curves of a metric along an axis say. Each line has two means or more."""
    cells = [cell for line in lines for cell in line.cells if mean_of(cell, metric.metric) is not None]
    means = [mean_of(cell, metric.metric) or 0.0 for cell in cells]
    name = capital(metric.name)
    if len({metric.form.plain(mean) for mean in means}) == 1:
        return f"{name} {verb(metric.metric, 'is', 'are')} {metric.form.plain(means[0])} at every value of {axis.title}"
    if len(lines) == 1:
        return _one_line(cells, axis, metric)
    return _ahead(lines, axis, metric) or _span(cells, axis, metric)


def _one_line(cells: Sequence[CellSummary], axis: ChosenAxis, metric: MetricFormat) -> str:
    """Return where a single curve is best if that is inside, else where it comes from and goes to."""
    name, key = capital(metric.name), metric.metric
    is_lowest = lower_is_better(key)
    best = (min if is_lowest else max)(cells, key=lambda cell: mean_of(cell, key) or 0.0)
    first, last = cells[0], cells[-1]
    if all(_is_apart(best, end, metric) for end in (first, last)):
        word = "lowest" if is_lowest else "highest"
        worded = f"{name} {verb(metric.metric, 'is', 'are')} {word}"
        here = axis.phrase(best.values[axis.name])
        alike = [cell for cell in cells if not _is_apart(best, cell, metric)]
        if len(alike) == 1:
            return f"{worded} with {here}: {cell_mean(best, metric)}"
        ends = [label_text(cell.values[axis.name]) for cell in (alike[0], alike[-1])]
        return f"{worded} around {here}, {cell_mean(best, metric)}: intervals from {ends[0]} to {ends[1]} overlap"
    labels = [axis.phrase(first.values[axis.name]), label_text(last.values[axis.name])]
    goes = verb(metric.metric, "goes", "go")
    means = [cell_mean(cell, metric) for cell in (first, last)]
    if _is_apart(first, last, metric):
        return f"{name} {goes} from {means[0]} with {labels[0]} to {means[1]} with {labels[1]}"
    return f"{name} {goes} from {means[0]} to {means[1]} over {axis.title}; the intervals overlap"


def _ahead(lines: Lines, axis: ChosenAxis, metric: MetricFormat) -> str:
    """Return which line is best at the last value that all have, if its interval is clear of all others'."""
    cells = [_by_label(line, axis) for line in lines]
    labels = [label for label in cells[0] if all(label in by_label for by_label in cells)]
    last = [by_label[labels[-1]] for by_label in cells] if labels else []
    ranked = best_of(last, metric.metric)
    if not labels or len(ranked) < len(lines) or not _is_apart(ranked[0], ranked[1], metric):
        return ""
    name = next(line.name for line, cell in zip(lines, last, strict=True) if cell is ranked[0])
    word = "lowest" if lower_is_better(metric.metric) else "highest"
    where = capital(f"with {axis.phrase(labels[-1])}")
    return f"{where}, {name} has the {word} {metric.name}: {cell_mean(ranked[0], metric)}"


def _span(cells: Sequence[CellSummary], axis: ChosenAxis, metric: MetricFormat) -> str:
    order = sorted(cells, key=lambda cell: mean_of(cell, metric.metric) or 0.0)
    low, high = (cell_mean(cell, metric) for cell in (order[0], order[-1]))
    if low == high:
        low, high = (metric.form.plain(mean_of(cell, metric.metric) or 0.0) for cell in (order[0], order[-1]))
    return f"{capital(metric.name)} {verb(metric.metric, 'is', 'are')} between {low} and {high} over {axis.title}"


def _is_apart(first: CellSummary, second: CellSummary, metric: MetricFormat) -> bool:
    means, halves = [], 0.0
    for cell in (first, second):
        means.append(mean_of(cell, metric.metric) or 0.0)
        ends = ends_of(summary_of(cell, metric.metric).mean_ci95)
        halves += 0.0 if ends is None else (ends[1] - ends[0]) / 2
    return first is not second and abs(means[0] - means[1]) > max(halves, _SAME * max(map(abs, means)))
