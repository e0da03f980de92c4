"""Two axes of a study against each other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital
from analysis.metrics import lower_is_better
from analysis.plots.charts import HeatMap
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.phrases import label_text, phrases
from analysis.report.sections.amounts import cell_mean, shown_of_cells, verb
from analysis.report.sections.axes import axes_of, best_of, missing_text, place_of, running, status_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.material import Material
    from analysis.report.sections.amounts import Shown
    from analysis.report.sections.axes import Axis

__all__ = ["section"]

Content = dict[str, Any]

_MOST_COLUMNS, _MOST_ROWS = 12, 40
_MOST_PICTURES = 4


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = material.sweep
    pair = None if content is None else _pair(content)
    if content is None or pair is None or not best_of(running(content), content["metrics"][0]):
        return None
    metric = shown_of_cells(running(content), content["metrics"][0], content["currency"])
    pictures = [_picture(content, pair, fixed, metric, number) for number, fixed in enumerate(_fixed(content, pair))]
    found = [picture for picture in pictures if picture is not None]
    return Section("heat-maps", found[0].chart.title, (), tuple(found)) if found else None


def _pair(content: Content) -> tuple[Axis, Axis] | None:
    """Return the two axes with the most combinations that are there: rows and columns; ``None`` without a grid."""
    axes = [axis for axis in axes_of(content) if len(axis.labels) > 1]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(axes, 2)
        if min(len(one.labels), len(other.labels)) > 2 or len(one.labels) + len(other.labels) > 5
    ]
    filled = [pair for pair in pairs if _share(content, pair) > 0.5]
    if not filled:
        return None
    one, other = max(filled, key=lambda pair: len(pair[0].labels) * len(pair[1].labels))
    # Pages are higher than wide.
    return (one, other) if len(one.labels) >= len(other.labels) else (other, one)


def _share(content: Content, pair: tuple[Axis, Axis]) -> float:
    """Return which share of the combinations of two axes the fullest of their tables has."""
    counts: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    names = {axis.name for axis in pair}
    for cell in content["cells"]:
        rest = tuple(label for name, label in cell["values"].items() if name not in names)
        counts.setdefault(rest, set()).add(tuple(cell["values"][axis.name] for axis in pair))
    return max(map(len, counts.values())) / (len(pair[0].labels) * len(pair[1].labels))


def _fixed(content: Content, pair: tuple[Axis, Axis]) -> list[dict[str, str]]:
    """Return the values of the other axes of each picture: all if there are few, else those of the best cell."""
    others = [axis for axis in axes_of(content) if axis not in pair]
    found = [dict(zip((axis.name for axis in others), labels, strict=True))
             for labels in itertools.product(*(axis.labels for axis in others))]  # fmt: skip
    if len(found) <= _MOST_PICTURES:
        return found
    best = best_of(running(content), content["metrics"][0])[0]
    return [{axis.name: best["values"][axis.name] for axis in others}]


def _picture(
    content: Content, pair: tuple[Axis, Axis], fixed: Mapping[str, str], metric: Shown, number: int
) -> Picture | None:
    """Return a picture at some values of the other axes; ``None`` if no cell of it has a mean."""
    cells = {
        (cell["values"][pair[0].name], cell["values"][pair[1].name]): cell
        for cell in content["cells"]
        if all(cell["values"][name] == label for name, label in fixed.items())
    }
    best = best_of([cell for cell in cells.values() if cell["status"] == "ok"], metric.metric)
    if not best:
        return None
    rows, columns = _labels(pair[0], _MOST_ROWS), _labels(pair[1], _MOST_COLUMNS)
    values = [[_value(cells.get((row, column)), metric) for column in columns] for row in rows]
    texts = [[_text(cells.get((row, column)), metric) for column in columns] for row in rows]
    place = phrases(fixed, fixed, content)
    title = _title(best, pair, metric, f"with {place}" if place else "")
    across, down = (tuple(map(label_text, labels)) for labels in (columns, rows))
    # The unit is in the title, so that numbers fit into the cells.
    chart = HeatMap(
        title, metric.unit, down, across, values, texts, capital(pair[0].title), capital(pair[1].title),
        high_is_good=not lower_is_better(metric.metric),
    )  # fmt: skip
    table = Grid(
        title,
        (Column(f"{capital(pair[0].title)} / {pair[1].title}", is_number=False), *(Column(label) for label in across)),
        [(row, *line) for row, line in zip(down, texts, strict=True)],
        note=f"{metric.head}, means at the central values of what is unknown.",
    )
    worst = best[-1]
    alt = (
        f"{metric.head} by {pair[0].title} and {pair[1].title}: from {cell_mean(worst, metric)} with "
        f"{place_of(worst, pair)} to {cell_mean(best[0], metric)} with {place_of(best[0], pair)}."
    )
    return Picture(f"heat-map-{number + 1}", chart, alt, _caption(content, pair, rows, columns, fixed), table)


def _labels(axis: Axis, most: int) -> tuple[str, ...]:
    """Return the values of an axis that are shown: all, or as many as there is room for, evenly chosen."""
    count = len(axis.labels)
    if count <= most:
        return axis.labels
    return tuple(axis.labels[round(index * (count - 1) / (most - 1))] for index in range(most))


def _value(cell: Content | None, metric: Shown) -> float | None:
    """Return what shades a cell."""
    return None if cell is None else metric.of(cell["metrics"].get(metric.metric, {}).get("mean"))


def _text(cell: Content | None, metric: Shown) -> str:
    """Return what is written in a cell: the mean with the digits that its interval deserves, or why there is none."""
    if cell is None:
        return "not run"
    if cell["status"] != "ok":
        return status_text(cell)
    found = cell["metrics"].get(metric.metric, {})
    if found.get("mean") is None:
        return missing_text(cell, metric.metric)
    return cell_mean(cell, metric).removesuffix(metric.form.unit).rstrip()


def _title(best: Sequence[Content], pair: tuple[Axis, Axis], metric: Shown, place: str) -> str:
    """Return where the metric is best and where it is worst."""
    high, low = cell_mean(best[0], metric), cell_mean(best[-1], metric)
    if high == low:
        told = f"{metric.name} {verb(metric.name, 'is', 'are')} {high} in all combinations"
    else:
        as_good = sum(cell_mean(cell, metric) == high for cell in best)
        where = f"with {place_of(best[0], pair)}" if as_good == 1 else f"in {as_good} combinations"
        moves = f"{metric.name} {verb(metric.name, 'goes', 'go')}"
        told = f"{moves} from {low} with {place_of(best[-1], pair)} to {high} {where}"
    return capital(f"{place}: {told}" if place else told)


def _caption(
    content: Content, pair: tuple[Axis, Axis], rows: Sequence[str], columns: Sequence[str], fixed: Mapping[str, str]
) -> str:
    """Return what to know to read it."""
    texts = ["Numbers in the cells are means; their intervals are in the table of all results."]
    for axis, kept in ((pair[0], rows), (pair[1], columns)):
        if len(kept) < len(axis.labels):
            texts.append(f"Of {len(axis.labels)} values of {axis.title} {len(kept)} are shown.")
    if fixed and len(_fixed(content, pair)) == 1:
        texts.append("Other axes are at the values of the best combination.")
    return " ".join(texts)
