"""How each metric moves along the axes of a study."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital
from analysis.cells import number_of
from analysis.plots.charts import Curves, Interval, Intervals, Scale, Series
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.phrases import label_text
from analysis.report.sections.amounts import Shown, band_text, has_bands, shown_of_cells, verb
from analysis.report.sections.axes import (
    axes_of,
    best_of,
    lines_along,
    mean_of,
    missing_text,
    place_of,
    running,
    share_of_lines,
)
from analysis.report.sections.curve_lines import MOST_LINES, few_lines
from analysis.report.sections.curve_titles import curves_title
from analysis.report.sections.levels import levels_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.report.material import Material
    from analysis.report.sections.axes import Axis, Line

__all__ = ["section"]

Content = dict[str, Any]

_MOST_METRICS = 6
_MOST_AXES = 3
_MOST_PICTURES = 4
"""Pictures that one is divided into, by the values of one axis."""
_MOST_ROWS = 40


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = material.sweep
    if content is None or len(running(content)) < 2:
        return None
    pictures = list(_pictures(content))
    if not pictures:
        return None
    notes = [
        "The darker band is the 95 % interval of the mean: what more replications would make smaller. The luck of a "
        "single run is in the table of all results."
    ]
    if any(has_bands(running(content), metric) for metric in content["metrics"][:_MOST_METRICS]):
        notes.append(
            "The lighter band holds 90 % of what the unknown inputs may be; means are at their central values."
        )
    for metric in content["metrics"][1:_MOST_METRICS]:
        told = shown_of_cells(running(content), metric, content["currency"])
        if _is_level(content, told):
            value = told.form.plain(mean_of(best_of(running(content), metric)[0], metric) or 0.0)
            notes.append(f"{capital(told.name)} {verb(told.name, 'is', 'are')} {value} in all combinations.")
    titles = list(dict.fromkeys(picture.chart.title for picture in pictures))
    return Section("curves", titles[0], (), tuple(pictures), tuple(notes))


def _pictures(content: Content) -> Iterator[Picture]:
    """Yield the pictures: the headline along every axis that matters, other metrics along the first of them."""
    axes = _axes(content)
    metrics = [metric for metric in content["metrics"] if best_of(running(content), metric)][:_MOST_METRICS]
    for position, metric in enumerate(metrics):
        told = shown_of_cells(running(content), metric, content["currency"])
        if position and _is_level(content, told):
            continue
        if not axes:
            yield _intervals(content, told)
        for axis in axes[:1] if position else axes:
            yield from _along(content, axis, told, divides=position == 0)


def _is_level(content: Content, metric: Shown) -> bool:
    """Return whether a metric is the same in all combinations, to the digits that are told."""
    means = [mean_of(cell, metric.metric) for cell in running(content)]
    return len({metric.form.plain(mean) for mean in means if mean is not None}) == 1


def _axes(content: Content) -> list[Axis]:
    """Return the axes to go along: those that questions name, else those of numbers, the one with most values first."""
    numeric = [axis for axis in axes_of(content) if axis.is_numeric and share_of_lines(content, axis) > 0]
    # Where most points are on no line, lines tell of a few points only.
    numeric = [axis for axis in numeric if share_of_lines(content, axis) >= 0.5] or numeric[:1]
    named = [answer.get("along") for answer in content["answers"]]
    asked = [axis for name in dict.fromkeys(named) for axis in numeric if axis.name == name]
    return (asked or sorted(numeric, key=lambda axis: -len(axis.labels)))[:_MOST_AXES]


def _along(content: Content, axis: Axis, metric: Shown, *, divides: bool) -> Iterator[Picture]:
    """Yield the pictures of a metric along an axis."""
    lines = [line for line in lines_along(content, axis) if sum(_is_known(line, metric)) > 1]
    key = f"{_key(metric.metric)}-along-{_key(axis.name)}"
    slowest = next((other for other in axes_of(content) if other.name != axis.name), None)
    if len(lines) > MOST_LINES and divides and slowest is not None and len(slowest.labels) <= _MOST_PICTURES:
        for number, label in enumerate(slowest.labels, start=1):
            mine = [_without(line, slowest, content, axis) for line in lines if line.at[slowest.name] == label]
            if mine:
                place = f"With {slowest.phrase(label)}"
                yield _curves(content, axis, metric, mine, f"{key}-{number}", place)
    elif lines:
        yield _curves(content, axis, metric, lines, key, "")


def _is_known(line: Line, metric: Shown) -> list[bool]:
    """Return of which cells of a line there is a mean."""
    return [metric.mean(cell["metrics"].get(metric.metric, {})) != "" for cell in line.cells]


def _without(line: Line, axis: Axis, content: Content, along: Axis) -> Line:
    """Return a line whose name leaves an axis out, which the picture is about."""
    others = [other for other in axes_of(content) if other.name not in (axis.name, along.name)]
    return line._replace(
        name=", ".join(other.told(line.at[other.name]) for other in others),
        at={other.name: line.at[other.name] for other in others},
    )


def _curves(content: Content, axis: Axis, metric: Shown, lines: Sequence[Line], key: str, place: str) -> Picture:
    """Return a picture with one curve for each line, of many lines for the best."""
    others = [other for other in axes_of(content) if other.name in lines[0].at]
    kept, which = few_lines(lines, others, metric.metric)
    series = tuple(_series(line, axis, metric, hue) for hue, line in enumerate(kept))
    formula = _formula(kept[0], axis, metric) if len(lines) == 1 else None
    levels = levels_of(content, axis, metric)
    title = curves_title(kept, axis, metric, () if place else levels)
    title = capital(f"{place}: {title}") if place else title
    lines_across = tuple((level.height, level.name) for level in levels)
    chart = Curves(title, axis.scale, Scale(metric.head), (*series, *([formula] if formula else [])), lines_across)
    each = " and ".join(other.title for other in others)
    caption = [which or (f"One line for each {each}." if each and len(lines) > 1 else "")]
    caption += ["Dashed: the closed form, a formula without luck." if formula else "", _troubles(content, metric)]
    told = "; ".join(_line_text(line, axis, metric) for line in kept[:4])
    alt = f"{capital(metric.name)} along {axis.title}. {capital(told)}."
    return Picture(key, chart, alt, " ".join(part for part in caption if part), _table(kept, axis, metric, title))


def _series(line: Line, axis: Axis, metric: Shown, hue: int) -> Series:
    """Return a line as a curve."""
    found = [cell["metrics"].get(metric.metric, {}) for cell in line.cells]
    numbers = [cell["numbers"][axis.name] for cell in line.cells]
    bands = tuple(metric.ends(one.get("band90")) for one in found)
    return Series(
        line.name,
        tuple(number / axis.size for number in numbers),
        tuple(metric.of(one.get("mean")) for one in found),
        tuple(metric.ends(one.get("mean_ci95")) for one in found),
        bands if any(bands) else (),
        hue=hue,
    )


def _formula(line: Line, axis: Axis, metric: Shown) -> Series | None:
    """Return what the closed form says along a line; ``None`` where it says nothing, and for all but ETTR."""
    values = [cell["closed_form"]["ettr"] for cell in line.cells]
    if metric.metric != "ettr" or all(value is None for value in values):
        return None
    places = tuple(cell["numbers"][axis.name] / axis.size for cell in line.cells)
    return Series("formula", places, tuple(metric.of(value) for value in values), look="dashed", hue=-1)


def _line_text(line: Line, axis: Axis, metric: Shown) -> str:
    """Return where a line begins and where it ends."""
    known = [cell for cell, is_known in zip(line.cells, _is_known(line, metric), strict=True) if is_known]
    ends = [
        f"{metric.told(cell['metrics'][metric.metric])} at {label_text(cell['values'][axis.name])}"
        for cell in (known[0], known[-1])
    ]
    return f"{line.name + ': ' if line.name else ''}from {ends[0]} to {ends[1]}"


def _table(lines: Sequence[Line], axis: Axis, metric: Shown, title: str) -> Grid:
    """Return the same numbers: a row for each value of the axis, a column for each line."""
    cells = [{cell["values"][axis.name]: cell for cell in line.cells} for line in lines]
    has_band = has_bands([cell for line in lines for cell in line.cells], metric.metric)
    order = sorted(zip(axis.labels, axis.numbers, strict=True), key=lambda pair: pair[1] or 0.0)
    columns = [Column(capital(axis.title), is_number=False)]
    for line in lines:
        columns += [Column(line.name or capital(metric.name))]
        columns += [Column("90 % band of unknown inputs")] if has_band else []
    rows = []
    for label, _ in order:
        row = [label_text(label)]
        for by_label in cells:
            cell = by_label.get(label)
            row.append(_cell_text(cell, metric))
            row += [band_text(cell, metric) if cell is not None else "no results"] if has_band else []
        if any(label in by_label for by_label in cells):
            rows.append(row)
    return Grid(title, columns, rows, note=f"{capital(metric.name)}, mean and 95 % interval.")


def _cell_text(cell: Content | None, metric: Shown) -> str:
    if cell is None:
        return "no results"
    return metric.told(cell["metrics"].get(metric.metric, {})) or missing_text(cell, metric.metric)


def _troubles(content: Content, metric: Shown) -> str:
    """Return how many combinations have no mean, and why."""
    missing = [cell for cell in content["cells"] if cell["status"] != "ok"]
    unknown = [cell for cell in running(content) if cell["metrics"].get(metric.metric, {}).get("mean") is None]
    total = len(content["cells"])
    texts = []
    if missing:
        texts.append(f"{len(missing)} of {number_of(total, 'combination')} cannot run or failed.")
    if unknown:
        texts.append(f"{len(unknown)} of {number_of(total, 'combination')} have no mean of {metric.name}.")
    return " ".join(texts)


def _intervals(content: Content, metric: Shown) -> Picture:
    """Return a picture of a study without an axis of numbers: a row for each combination."""
    cells, axes = running(content), axes_of(content)
    best = best_of(cells, metric.metric)
    kept = cells if len(cells) <= _MOST_ROWS else best[:_MOST_ROWS]
    rows, texts = [], []
    for cell in kept:
        found = cell["metrics"].get(metric.metric, {})
        text = _cell_text(cell, metric)
        name = label_text(cell["values"][axes[0].name]) if len(axes) == 1 else place_of(cell, axes) or content["study"]
        note = "" if found.get("mean") is not None else text
        ends, band = metric.ends(found.get("mean_ci95")), metric.ends(found.get("band90"))
        rows.append(Interval(name, metric.of(found.get("mean")), ends, band, note))
        texts.append((name, text))
    top = best[0]["metrics"][metric.metric]
    title = f"The best {metric.name} is {metric.told(top)}, with {place_of(best[0], axes)}"
    heads = (Column("Combination", is_number=False), Column(capital(metric.name)))
    alt = f"{capital(metric.name)}: {'; '.join(f'{name} {text}' for name, text in texts[:8])}."
    more = f"The {len(kept)} best of {len(cells)} combinations." if len(kept) < len(cells) else ""
    caption = " ".join(part for part in (more, _troubles(content, metric)) if part)
    chart = Intervals(title, metric.unit, tuple(rows))
    return Picture(f"{_key(metric.metric)}-of-all", chart, alt, caption, Grid(title, heads, texts))


def _key(name: str) -> str:
    """Return a name as it stands in links."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
