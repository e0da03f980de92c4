"""What cannot be had together: the candidates that no other beats in two aims."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import capital, name_of
from analysis.cells import number_of
from analysis.metrics import lower_is_better
from analysis.plots.charts import Front, FrontPoint, Scale
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.phrases import label_text
from analysis.report.sections.amounts import shown_of_cells
from analysis.report.sections.axes import axes_of, place_of, running
from analysis.report.sections.front_data import front_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.material import Material
    from analysis.report.sections.amounts import Shown
    from analysis.report.sections.axes import Axis

__all__ = ["section"]

Content = dict[str, Any]

_MOST_ROWS = 60
_STANDING = {
    "front": "on the front",
    "perhaps": "perhaps on the front",
    "behind": "another is better in everything",
}


class _Aim(NamedTuple):
    """An aim: a metric, or an axis of numbers.

    Parameters
    ----------
    name
        Of the metric or the axis.
    is_lowest
        Whether low is good.
    metric, axis
        What it is of these.
    """

    name: str
    is_lowest: bool
    metric: Shown | None
    axis: Axis | None

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        if self.metric is not None:
            return self.metric.name
        return self.name if self.axis is None else self.axis.title

    @property
    def scale(self) -> Scale:
        """Its axis of the picture."""
        if self.axis is not None:
            return self.axis.scale
        return Scale("" if self.metric is None else self.metric.head)

    def value(self, cell: Content) -> float | None:
        """Return where a cell is."""
        if self.metric is not None:
            return self.metric.of(cell["metrics"].get(self.name, {}).get("mean"))
        number = cell["numbers"][self.name]
        return None if number is None or self.axis is None else number / self.axis.size

    def ends(self, cell: Content) -> tuple[float, float] | None:
        """Return its interval."""
        return None if self.metric is None else self.metric.ends(cell["metrics"].get(self.name, {}).get("mean_ci95"))

    def told(self, cell: Content) -> str:
        """Return the same as text."""
        return (
            label_text(cell["values"][self.name])
            if self.metric is None
            else self.metric.told(cell["metrics"][self.name])
        )


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = material.sweep
    if content is None:
        return None
    asked = [
        (number, answer)
        for number, answer in enumerate(content["answers"], start=1)
        if answer["ask"] == "pareto" and answer["data"].get("front")
    ]
    if not asked and (data := front_data(content, material.table)) is not None:
        asked = [(0, {"data": data})]
    pictures = [picture for number, answer in asked for picture in _pictures(answer, content, number)]
    if not pictures:
        return None
    notes = (
        "On the front: no other combination is better in everything, by 95 % intervals of paired differences that hold "
        "together. Perhaps: these intervals do not tell.",
    )
    return Section("front", pictures[0].chart.title, (), tuple(pictures), notes)


def _pictures(answer: Content, content: Content, number: int) -> list[Picture]:
    """Return a picture for each two aims of a question."""
    aims = _aims(answer, content)
    pairs = list(itertools.combinations(aims, 2))
    name = f"front-{number}" if number else "front"
    keys = [name if len(pairs) == 1 else f"{name}-{index}" for index in range(1, len(pairs) + 1)]
    found = [_picture(answer["data"], content, pair, key, len(aims)) for pair, key in zip(pairs, keys, strict=True)]
    return [picture for picture in found if picture is not None]


def _aims(answer: Content, content: Content) -> list[_Aim]:
    """Return the aims of a question, axes first: they are what is chosen."""
    data, wanted = answer["data"], answer.get("direction") or {}
    axes = {axis.name: axis for axis in axes_of(content)}
    found = [
        _Aim(name, wanted.get(name, "lowest") == "lowest", None, axes[name]) for name in data["axes"] if name in axes
    ]
    for name in data["metrics"]:
        is_lowest = wanted.get(name, "lowest" if lower_is_better(name) else "highest") == "lowest"
        found.append(_Aim(name, is_lowest, shown_of_cells(running(content), name, content["currency"]), None))
    return found


def _picture(data: Content, content: Content, pair: tuple[_Aim, _Aim], key: str, count: int) -> Picture | None:
    """Return all candidates by two aims."""
    axes = axes_of(content)
    points, rows = [], []
    for cell in running(content):
        x, y = (aim.value(cell) for aim in pair)
        if x is None or y is None:
            continue
        standing = _standing(cell, data)
        name = place_of(cell, axes)
        points.append(FrontPoint(name, x, y, pair[0].ends(cell), pair[1].ends(cell), standing))
        rows.append((standing, (name, *(aim.told(cell) for aim in pair), _STANDING[standing])))
    if not points:
        return None
    title = _title(data, content, pair, count)
    rows.sort(key=lambda row: list(_STANDING).index(row[0]))
    columns = (
        Column("Combination", is_number=False), Column(capital(pair[0].title)), Column(capital(pair[1].title)),
        Column("Standing", is_number=False),
    )  # fmt: skip
    more = len(rows) - _MOST_ROWS
    note = f"{number_of(more, 'more combination')}: see points.csv." if more > 0 else ""
    table = Grid(title, columns, [texts for _, texts in rows[:_MOST_ROWS]], note=note)
    on_front = [texts for standing, texts in rows if standing != "behind"]
    told = "; ".join(f"{texts[0]}: {texts[1]} and {texts[2]}" for texts in on_front[:5])
    alt = f"{capital(pair[0].title)} against {pair[1].title} of {number_of(len(points), 'combination')}. {told}."
    caption = _caption(data, content, len(points), count)
    chart = Front(title, pair[0].scale, pair[1].scale, tuple(points), pair[0].is_lowest, pair[1].is_lowest)
    return Picture(key, chart, alt, caption, table)


def _standing(cell: Content, data: Content) -> str:
    """Return whether a candidate is on the front."""
    for member in data["front"]:
        if _is_at(cell, member):
            return "front" if member["for_sure"] else "perhaps"
    return "perhaps" if any(_is_at(cell, member) for member in data["may_be_too"]) else "behind"


def _is_at(cell: Content, member: Content) -> bool:
    return all(cell["values"][name] == label for name, label in member["at"].items())


def _title(data: Content, content: Content, pair: Sequence[_Aim], count: int) -> str:
    """Return what the front says: what is best, or how many there are to choose from."""
    front, total = data["front"], len(running(content))
    aims = f"{pair[0].title} and {pair[1].title}"
    if count > 2:
        aims = " and ".join(
            [*(content["axes"][name]["title"] for name in data["axes"]), *map(name_of, data["metrics"])]
        )
    sure = sum(member["for_sure"] for member in front)
    if len(front) == 1:
        axes = axes_of(content)
        where = ", ".join(axis.phrase(front[0]["at"][axis.name]) for axis in axes)
        return capital(f"{where} is best in {aims} at once{'' if sure else ', perhaps by luck'}")
    told = f"{'all' if sure == len(front) else sure or 'none'} of them with 95 % confidence"
    return f"{len(front)} of {number_of(total, 'combination')} cannot be beaten in {aims} at once, {told}"


def _caption(data: Content, content: Content, points: int, count: int) -> str:
    """Return what to know to read it."""
    texts = []
    if data.get("replications"):
        texts.append(f"Compared over {number_of(data['replications'], 'replication')}, the same failures in all.")
    if count > 2:
        texts.append("The standing is that in all aims together, of which this picture shows two.")
    left_out = len(content["cells"]) - points
    if left_out:
        texts.append(
            f"{number_of(left_out, 'combination')} without a mean of both {'is' if left_out == 1 else 'are'} left out."
        )
    return " ".join(texts)
