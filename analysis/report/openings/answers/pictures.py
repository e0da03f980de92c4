"""The one picture of a first screen: curves along an axis, means below each other, or a front."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import capital
from analysis.plots.charts import Curves, Front, FrontPoint, Interval, Intervals, Scale, Series
from analysis.report.model import Column, Grid, Picture
from analysis.report.openings.glossary import metric_words
from analysis.report.sections.axes import lines_along
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.answers.words import Form
    from analysis.report.openings.answers.told import Asked
    from analysis.report.sections.axes import Axis, Line

__all__ = ["KEY", "Row", "curves", "front", "intervals", "nothing"]

KEY = "the-answer"

_MOST_LINES = 8
"""Curves that the eye can tell apart."""
_MOST_ROWS = 14
_MEANING = "Bars and bands around a mean are its 95 % interval: what chance leaves open."


class Row(NamedTuple):
    """A mean in a picture: what it is called, its cell, and a word beside it."""

    name: str
    cell: int
    note: str = ""


def nothing(_title: str) -> None:
    """Return no picture."""
    return


def intervals(asked: Asked, rows: Sequence[Row]) -> Callable[[str], Picture | None]:
    """Return what draws some means below each other."""

    def picture(title: str) -> Picture | None:
        shown = [row for row in rows if _mean(asked, row.cell) is not None][:_MOST_ROWS]
        if not shown:
            return None
        chart = Intervals(title, asked.form.unit, tuple(_interval(asked, row) for row in shown))
        texts = [_text(asked, row.cell) for row in shown]
        alt = f"{asked.what}: {'; '.join(f'{row.name}: {text}' for row, text in zip(shown[:6], texts, strict=False))}."
        grid = Grid(
            title,
            (Column("setting", is_number=False), Column(asked.what), Column("", is_number=False)),
            [(row.name, text, row.note) for row, text in zip(shown, texts, strict=True)],
        )
        return Picture(KEY, chart, capital(alt), _MEANING, grid)

    return picture


def curves(
    asked: Asked,
    along: str,
    *,
    level: tuple[float, str] | None = None,
    edges: Sequence[tuple[float, str]] = (),
    between: str = "",
) -> Callable[[str], Picture | None]:
    """Return what draws the metric along an axis, a curve for each combination of the others.

    Parameters
    ----------
    asked
        The answer.
    along
        The axis.
    level
        A value to hold the curves against [SI], and its name.
    edges
        Places on the axis [SI] to hold them against, with names.
    between
        The axis that tells the curves apart, where their names shall be those of its values.
    """

    def picture(title: str) -> Picture | None:
        axis = asked.axis(along)
        lines, left_out = _lines(asked, axis, between) if axis is not None and axis.is_numeric else ([], 0)
        if axis is None or not lines:
            return None
        y = asked.form
        series = tuple(_series(asked, axis, line, hue) for hue, line in enumerate(lines))
        chart = Curves(
            title,
            axis.scale,
            Scale(f"{capital(asked.what)} [{y.unit}]" if y.unit else capital(asked.what)),
            series,
            levels=() if level is None else ((level[0] / y.size, level[1]),),
            edges=tuple((place / axis.size, name) for place, name in edges),
        )
        grid = _grid(asked, axis, title, lines)
        note = f" Of {len(lines) + left_out} curves {len(lines)} are drawn." if left_out else ""
        return Picture(KEY, chart, _alt(asked, axis, grid), _MEANING + note, grid)

    return picture


def front(asked: Asked, aims: tuple[str, str], standing: Mapping[int, str]) -> Callable[[str], Picture | None]:
    """Return what draws two metrics against each other; `standing` is that of each cell, as in `FrontPoint`."""

    def picture(title: str) -> Picture | None:
        forms = [asked.form_of(aim) for aim in aims]
        points, rows = [], []
        for cell, word in standing.items():
            across, up = (_scaled(asked, cell, aim, form) for aim, form in zip(aims, forms, strict=True))
            if across is None or up is None:
                continue
            name = plain(asked.briefly(asked.places.get("cells", cell, "values")))
            points.append(FrontPoint(name, across[0], up[0], across[1], up[1], word))
            texts = [_text(asked, cell, aim) for aim in aims]
            rows.append((name, *texts, {"front": "on the front", "perhaps": "perhaps"}.get(word, "")))
        if not points:
            return None
        words = [metric_words(aim).removeprefix("the ") for aim in aims]
        x, y = (Scale(f"{capital(word)} [{form.unit}]") for word, form in zip(words, forms, strict=True))
        lowest = [asked.is_lowest_best(aim) for aim in aims]
        chart = Front(title, x, y, tuple(points), lowest[0], lowest[1])
        grid = Grid(title, (Column("setting", is_number=False), *map(Column, words), Column("", is_number=False)), rows)
        told = "; ".join(f"{row[0]}: {row[1]} and {row[2]}" for row in rows if row[3] == "on the front")
        return Picture(KEY, chart, f"{words[0]} against {words[1]}. On the front: {told or 'none'}.", _MEANING, grid)

    return picture


def _mean(asked: Asked, cell: int) -> float | None:
    found: float | None = asked.places.get("cells", cell, "metrics", asked.metric, "mean")
    return found


def _scaled(asked: Asked, cell: int, metric: str, form: Form) -> tuple[float, tuple[float, float] | None] | None:
    """Return the mean of a cell and its interval as people see them."""
    found = asked.places.get("cells", cell, "metrics", metric) or {}
    if found.get("mean") is None:
        return None
    ends = found.get("mean_ci95")
    return found["mean"] / form.size, None if ends is None else (ends[0] / form.size, ends[1] / form.size)


def _band(asked: Asked, cell: int) -> tuple[float, float] | None:
    ends = asked.places.get("cells", cell, "metrics", asked.metric, "band90")
    return None if ends is None else (ends[0] / asked.form.size, ends[1] / asked.form.size)


def _interval(asked: Asked, row: Row) -> Interval:
    mean, ends = _scaled(asked, row.cell, asked.metric, asked.form) or (None, None)
    return Interval(row.name, mean, ends, _band(asked, row.cell), row.note)


def _text(asked: Asked, cell: int | None, metric: str = "") -> str:
    """Return the mean of a cell as text; empty where it has none."""
    found = asked.mean(cell, metric)
    if found is None:
        return ""
    form = asked.form_of(metric or asked.metric)
    return form.value(found.mean.value, found.interval)


def _lines(asked: Asked, axis: Axis, between: str) -> tuple[list[Line], int]:
    """Return the lines along an axis that have a mean, and how many more there are.

    Of many they are those at both ends and some between them.
    """
    found = [
        line
        for line in lines_along(asked.places.content, axis)
        if any(_mean(asked, cell["cell"]) is not None for cell in line.cells)
    ]
    count = len(found)
    if count > _MOST_LINES:
        picked = [round(place * (len(found) - 1) / (_MOST_LINES - 1)) for place in range(_MOST_LINES)]
        found = [found[place] for place in dict.fromkeys(picked)]
    named = [line._replace(name=line.at[between]) if list(line.at) == [between] else line for line in found]
    return named, count - len(named)


def _alt(asked: Asked, axis: Axis, grid: Grid) -> str:
    """Return what curves show, in words: from where to where each goes."""
    told = []
    for place, column in enumerate(grid.columns[1:], 1):
        known = [row for row in grid.rows if row[place]]
        told.append(
            f"{column.head} goes from {known[0][place]} at {known[0][0]} to {known[-1][place]} at {known[-1][0]}"
        )
    return f"{capital(asked.what)} along {axis.title}: {'; '.join(told)}."


def _series(asked: Asked, axis: Axis, line: Line, hue: int) -> Series:
    """Return a curve with its interval and band."""
    means = [_scaled(asked, cell["cell"], asked.metric, asked.form) or (None, None) for cell in line.cells]
    bands = tuple(_band(asked, cell["cell"]) for cell in line.cells)
    return Series(
        line.name,
        tuple(cell["numbers"][axis.name] / axis.size for cell in line.cells),
        tuple(mean for mean, _ in means),
        tuple(ends for _, ends in means),
        bands if any(bands) else (),
        hue=hue,
    )


def _grid(asked: Asked, axis: Axis, title: str, lines: Sequence[Line]) -> Grid:
    """Return the curves as a table: a row for each value of the axis."""
    texts = [{cell["values"][axis.name]: _text(asked, cell["cell"]) for cell in line.cells} for line in lines]
    order = sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0)
    shown = {label: plain(asked.value(axis.name, label)).strip("“”") for _, label in order}
    rows = [(shown[label], *(text.get(label, "") for text in texts)) for _, label in order]
    columns = (Column(axis.title, is_number=False), *(Column(line.name or asked.what) for line in lines))
    return Grid(title, columns, [row for row in rows if any(row[1:])])
