"""What curves say, in a sentence that is worked out from their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital
from analysis.metrics import lower_is_better
from analysis.report.phrases import label_text
from analysis.report.sections.amounts import cell_mean, ends_of, verb
from analysis.report.sections.axes import mean_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.sections.amounts import Shown
    from analysis.report.sections.axes import Axis, Line
    from analysis.report.sections.levels import Level

__all__ = ["curves_title"]

Content = dict[str, Any]

_SAME = 1e-9
_LONGEST = 180
"""Letters of a sentence that is a title too."""


def curves_title(lines: Sequence[Line], axis: Axis, metric: Shown, levels: Sequence[Level]) -> str:
    """Return what the curves of a metric along an axis say.

    Parameters
    ----------
    lines
        What is shown, each with two means or more.
    levels
        Values that questions ask of the metric.
    """
    cells = [cell for line in lines for cell in line.cells if mean_of(cell, metric.metric) is not None]
    means = [mean_of(cell, metric.metric) or 0.0 for cell in cells]
    name = capital(metric.name)
    if len({metric.form.plain(mean) for mean in means}) == 1:
        return f"{name} {verb(metric.name, 'is', 'are')} {metric.form.plain(means[0])} at every value of {axis.title}"
    if levels and len(levels[0].sentence) <= _LONGEST:
        return levels[0].sentence
    if len(lines) == 1:
        return _one_line(cells, axis, metric)
    return _ahead(lines, axis, metric) or _span(cells, axis, metric)


def _one_line(cells: Sequence[Content], axis: Axis, metric: Shown) -> str:
    """Return where a single curve is best if that is inside, else where it comes from and goes to."""
    name, key = capital(metric.name), metric.metric
    is_lowest = lower_is_better(key)
    best = (min if is_lowest else max)(cells, key=lambda cell: mean_of(cell, key) or 0.0)
    first, last = cells[0], cells[-1]
    if all(_is_apart(best, end, metric) for end in (first, last)):
        word = "lowest" if is_lowest else "highest"
        told = f"{name} {verb(metric.name, 'is', 'are')} {word}"
        here = axis.phrase(best["values"][axis.name])
        alike = [cell for cell in cells if not _is_apart(best, cell, metric)]
        if len(alike) == 1:
            return f"{told} with {here}: {cell_mean(best, metric)}"
        ends = [label_text(cell["values"][axis.name]) for cell in (alike[0], alike[-1])]
        return f"{told} around {here}, {cell_mean(best, metric)}: intervals from {ends[0]} to {ends[1]} overlap"
    labels = [axis.phrase(first["values"][axis.name]), label_text(last["values"][axis.name])]
    goes = verb(metric.name, "goes", "go")
    means = [cell_mean(cell, metric) for cell in (first, last)]
    if _is_apart(first, last, metric):
        return f"{name} {goes} from {means[0]} with {labels[0]} to {means[1]} with {labels[1]}"
    return f"{name} {goes} from {means[0]} to {means[1]} over {axis.title}; the intervals overlap"


def _ahead(lines: Sequence[Line], axis: Axis, metric: Shown) -> str:
    """Return which line is best at the last value that all have, if its interval is clear of all others'."""
    key = metric.metric
    common = set.intersection(*({cell["values"][axis.name] for cell in line.cells} for line in lines))
    labels = [cell["values"][axis.name] for cell in lines[0].cells if cell["values"][axis.name] in common]
    if not labels:
        return ""
    last = [next(cell for cell in line.cells if cell["values"][axis.name] == labels[-1]) for line in lines]
    known = [(line, cell) for line, cell in zip(lines, last, strict=True) if mean_of(cell, key) is not None]
    if len(known) < len(lines):
        return ""
    sign = 1 if lower_is_better(key) else -1
    known.sort(key=lambda pair: sign * (mean_of(pair[1], key) or 0.0))
    (line, best), (_, second) = known[:2]
    if not _is_apart(best, second, metric):
        return ""
    word = "lowest" if lower_is_better(key) else "highest"
    place = capital(f"with {axis.phrase(labels[-1])}")
    return f"{place}, {line.name} has the {word} {metric.name}: {cell_mean(best, metric)}"


def _span(cells: Sequence[Content], axis: Axis, metric: Shown) -> str:
    """Return between which values all curves are."""
    order = sorted(cells, key=lambda cell: mean_of(cell, metric.metric) or 0.0)
    low, high = (cell_mean(cell, metric) for cell in (order[0], order[-1]))
    if low == high:
        low, high = (metric.form.plain(mean_of(cell, metric.metric) or 0.0) for cell in (order[0], order[-1]))
    return f"{capital(metric.name)} {verb(metric.name, 'is', 'are')} between {low} and {high} over {axis.title}"


def _is_apart(one: Content, other: Content, metric: Shown) -> bool:
    """Return whether two cells differ by more than both of their intervals together."""
    means, halves = [], 0.0
    for cell in (one, other):
        means.append(mean_of(cell, metric.metric) or 0.0)
        ends = ends_of(cell["metrics"][metric.metric].get("mean_ci95"))
        halves += 0.0 if ends is None else (ends[1] - ends[0]) / 2
    return one is not other and abs(means[0] - means[1]) > max(halves, _SAME * max(map(abs, means)))
