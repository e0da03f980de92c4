"""What the cells of a study are in words: where they are, and what their numbers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, form_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.words import Form

__all__ = [
    "Content",
    "finished_text",
    "form_for",
    "known",
    "luck_text",
    "mean_text",
    "range_text",
    "title_of",
    "where_text",
]

Content = dict[str, Any]


def title_of(metric: str) -> str:
    """Return what a metric is called in a heading."""
    return capital(name_of(metric))


def known(cell: Content, metric: str, key: str) -> Any:
    """Return a number of a metric of a cell; ``None`` where there is none."""
    return cell["metrics"].get(metric, {}).get(key)


def form_for(cells: Sequence[Content], metric: str, currency: str) -> Form:
    """Return how the numbers of a column are told."""
    means = [known(cell, metric, "mean") for cell in cells]
    return form_of(metric, [mean for mean in means if mean is not None], currency)


def mean_text(found: Mapping[str, Any], form: Form) -> str:
    """Return a mean, with the digits that its interval deserves."""
    mean = found.get("mean")
    if mean is None:
        return "-"
    ends = found.get("mean_ci95")
    return form.plain(mean, None if ends is None else (ends[0], ends[1]))


def range_text(ends: Sequence[float | None] | None, form: Form) -> str:
    """Return an interval, with the digits that it deserves."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    span = ends[0], ends[1]
    return f"{form.plain(ends[0], span, unit='')}..{form.plain(ends[1], span)}"


def luck_text(found: Mapping[str, Any], form: Form) -> str:
    """Return between what one run is: p05..p95 where there are enough replications, else the standard deviation."""
    if found.get("p05") is not None and found.get("p95") is not None:
        return range_text((found["p05"], found["p95"]), form)
    spread = found.get("std")
    return "-" if spread is None else f"± {form.plain(spread, (0.0, 2 * spread), form.step or form.unit)}"


def finished_text(cell: Content) -> str:
    """Return in how many runs every job was finished at the horizon."""
    return f"{cell['replications'] - cell['censored']} of {cell['replications']}"


def where_text(content: Content, cell: Content) -> str:
    """Return what a cell is, in words."""
    return ", ".join(f"{content['axes'][name]['title']} = {label}" for name, label in cell["values"].items())
